/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A root sleeps until a late rank has read the root's data: no other event and no timer wakes the root (timers that check other
 * processes now and then are wrapped away). The late rank does nothing more until the root has returned. Executor tasks, or any.
 *
 *     coll_root_sleeps FILE		see survivors.h
 */
#include <stdint.h>

#include "survivors.h"

uint64_t __wrap_hdl_ft_timers(uint64_t now);
uint64_t __wrap_hdl_peers_look(void *tp, uint64_t now);

uint64_t __wrap_hdl_ft_timers(uint64_t now)
{
	(void)now;
	return 0;
}

uint64_t __wrap_hdl_peers_look(void *tp, uint64_t now)
{
	(void)tp;
	(void)now;
	return 0;
}

static int me, all;

/* Sends both ways between each pair, so that no connection is under way: timers of a connection would wake a rank. */
static void connect_all(void)
{
	for (int i = 0; i < 300; i++)
		for (int d = 1; d < all; d++) {
			int from = (me + all - d) % all, x = i, y = -1;

			MPI_Sendrecv(&x, 1, MPI_INT, (me + d) % all, 1, &y, 1, MPI_INT, from, 1, MPI_COMM_WORLD,
				     MPI_STATUS_IGNORE);
		}
}

int main(int argc, char **argv)
{
	int64_t word = 1, words[64] = { 0 };
	int *left;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &me);
	MPI_Comm_size(MPI_COMM_WORLD, &all);
	left = survivors_counters(argv[1]);
	connect_all();
	for (int scatters = 0; scatters < 2; scatters++) {
		MPI_Comm comm;

		/* in another order each time, so that its queues are new */
		MPI_Comm_split(MPI_COMM_WORLD, 0, scatters ? -me : me, &comm);
		MPI_Bcast(&word, 1, MPI_INT64_T, 1, comm);	/* queues are there, and nothing has gone the other way */
		MPI_Comm_rank(comm, &me);
		if (me)
			usleep(200000);
		if (scatters)
			MPI_Scatter(words, 1, MPI_INT64_T, &word, 1, MPI_INT64_T, 0, comm);
		else
			MPI_Bcast(&word, 1, MPI_INT64_T, 0, comm);
		if (!me)
			survivors_count(&left[scatters]);
		if (!survivors_await(&left[scatters], 1, 20, false)) {
			printf("rank %d: FAILED: the root sleeps on in %s\n", me, scatters ? "MPI_Scatter" : "MPI_Bcast");
			fflush(stdout);
			MPI_Abort(MPI_COMM_WORLD, 1);
		}
		MPI_Comm_free(&comm);
	}
	MPI_Comm_rank(MPI_COMM_WORLD, &me);
	MPI_Finalize();
	if (!me)
		printf("asleep: ok\n");
	return 0;
}
