/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Each rank exchanges messages with the rank half the size of MPI_COMM_WORLD away and checks them: N times, or, with N = 0, until
 * there is an error, which the rank prints before exiting with status 3. A rank ignores SIGTERM, so that the rank gets the error
 * even if the launcher ends the job because of the error of another rank; such a launcher may not forward output from then on, so
 * a rank's output and errors go to FILE.RANK, where FILE is given.
 *
 *     exchange N [FILE]
 */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SMALL = 8, LARGE = 100000 };

/* Whether the rank's output and errors go to FILE.RANK now. */
static int speak_into(const char *file, int rank)
{
	char name[512];

	snprintf(name, sizeof(name), "%s.%d", file, rank);
	return freopen(name, "w", stdout) && dup2(fileno(stdout), STDERR_FILENO) >= 0;
}

int main(int argc, char **argv)
{
	static char out[LARGE], in[LARGE];
	unsigned long rounds = argc > 1 ? strtoul(argv[1], NULL, 10) : 0;
	int rank, size, err = MPI_SUCCESS;

	signal(SIGTERM, SIG_IGN);
	if (MPI_Init(&argc, &argv))
		return 1;
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	if (argc > 2 && !speak_into(argv[2], rank)) {
		fprintf(stderr, "rank %d: %s.%d cannot be written\n", rank, argv[2], rank);
		return 1;
	}
	int peer = (rank + size / 2) % size;
	for (unsigned long n = 0; !err && (n < rounds || !rounds); n++) {
		int bytes = n % 2 ? LARGE : SMALL;

		memset(out, (int)(rank + n), (size_t)bytes);
		err = MPI_Sendrecv(out, bytes, MPI_BYTE, peer, 0, in, bytes, MPI_BYTE, peer, 0, MPI_COMM_WORLD,
				   MPI_STATUS_IGNORE);
		if (!err && (in[0] != (char)(peer + n) || memcmp(in, in + 1, (size_t)bytes - 1))) {
			printf("rank %d: message %lu of rank %d is not what was sent\n", rank, n, peer);
			fflush(stdout);
			_Exit(4);
		}
		if (n == 20) {
			printf("rank %d exchanges\n", rank);
			fflush(stdout);
		}
	}
	if (!err) {
		printf("rank %d is done\n", rank);
		return MPI_Finalize();
	}
	char text[MPI_MAX_ERROR_STRING];
	int len;
	MPI_Error_string(err, text, &len);
	printf("rank %d ends: %s\n", rank, text);
	fflush(stdout);
	_Exit(3);
}
