/* SPDX-License-Identifier: BSD-3-Clause */
/* MPI_Finalize that must find no collective under way. */
#ifndef TESTS_MP_FINALIZE_H
#define TESTS_MP_FINALIZE_H

#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Calls MPI_Finalize; ends the process with status 1 if the library warns that a collective is given up: when all ranks have
 * come, a staged copy is still in use. The standard error output of this rank appears when MPI_Finalize has returned. */
static inline void finalize_quietly(const char *program, int rank)
{
	FILE *said = tmpfile();
	int err = dup(2);
	bool gave_up = false;
	char line[1024];

	if (!said || err < 0 || dup2(fileno(said), 2) < 0) {
		fprintf(stderr, "%s: rank %d: FAILED: no file for the standard error output\n", program, rank);
		MPI_Abort(MPI_COMM_WORLD, 1);
	}
	MPI_Finalize();
	fflush(stderr);
	dup2(err, 2);
	close(err);
	rewind(said);
	while (fgets(line, sizeof(line), said)) {
		fputs(line, stderr);
		gave_up |= strstr(line, "given up") != NULL;
	}
	fclose(said);
	if (gave_up) {
		fprintf(stderr, "%s: rank %d: FAILED: MPI_Finalize gave a collective up\n", program, rank);
		exit(1);
	}
}

#endif
