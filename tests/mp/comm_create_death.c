/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A rank dies, and the survivors but rank 0 call MPI_Comm_create_from_group with the group of all ranks. They wait for rank 0,
 * which calls only after they have failed: there is no communicator to revoke, so each rank detects the death by itself, in the
 * constructor (the first call) or before (the second). Must run under heddlerun --on-death=continue.
 *
 *     comm_create_death DEAD FILE
 *
 * FILE: see survivors.h. Each survivor prints a line.
 */
#include <stdio.h>

#include "survivors.h"

static int fail(int me, const char *what)
{
	printf("survivor %d: FAILED: %s\n", me, what);
	fflush(stdout);
	MPI_Abort(MPI_COMM_WORLD, 3);
	return 1;
}

int main(int argc, char **argv)
{
	int me, all, dead, *met;
	MPI_Comm made;
	MPI_Group group;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &me);
	MPI_Comm_size(MPI_COMM_WORLD, &all);
	dead = argc == 3 ? atoi(argv[1]) : 0;
	if (dead <= 0 || dead >= all || all < 3) {
		fprintf(stderr, "usage: comm_create_death DEAD FILE, 3 ranks or more, DEAD not 0\n");
		MPI_Abort(MPI_COMM_WORLD, 2);
	}
	met = survivors_counters(argv[2]);
	MPI_Comm_group(MPI_COMM_WORLD, &group);
	MPI_Barrier(MPI_COMM_WORLD);
	if (me == dead)
		kill(getpid(), SIGKILL);
	if (me == 0 && !survivors_await(&met[0], all - 2, 30, true))
		return fail(me, "not all of the others have been told");
	for (int call = 0; call < 2; call++)
		if (!survivors_told(MPI_Comm_create_from_group(group, "away", MPI_INFO_NULL, MPI_ERRORS_RETURN, &made)))
			return fail(me, "MPI_Comm_create_from_group did not say so");
	survivors_count(&met[0]);
	printf("survivor %d: told\n", me);
	fflush(stdout);
	MPI_Group_free(&group);
	MPI_Finalize();
	return 0;
}
