/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two ranks, each with a core that other processes use as well: a yield takes a turn of the scheduler. A thread that has waited
 * through such a yield sleeps for the next 100 ms, instead of yielding, and is woken. Counts yields, which here take a
 * millisecond.
 */
#include "mpi_test.h"

#include <time.h>
#include <unistd.h>

#define ROUNDS 30
#define PAUSE_US 10000

int __wrap_sched_yield(void);
static int yields;

int __wrap_sched_yield(void)
{
	yields++;
	usleep(1000);
	return 0;
}

static long long now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000LL + t.tv_nsec / 1000000;
}

int main(int argc, char **argv)
{
	const char *behave = getenv("SHCA_BEHAVE");
	long long began, took;
	int before;

	test_init(&argc, &argv);
	CHECK_EQ(np, 2);
	MPI_Barrier(MPI_COMM_WORLD);
	began = now_ms();
	before = yields;
	for (int i = 0; i < ROUNDS; i++) {
		if (me)
			usleep(PAUSE_US);
		if (me)
			MPI_Send(&i, 1, MPI_INT, 0, 0, MPI_COMM_WORLD);
		else
			MPI_Recv(&(int){ 0 }, 1, MPI_INT, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	}
	took = now_ms() - began;
	/* one in a tenth of a second, and some that are not of a wait */
	if (yields - before > 5 + took / 50 && !(behave && strstr(behave, "nowake")))
		test_fail(__FILE__, __LINE__, "%d yields in %lld ms", yields - before, took);
	MPI_Comm_free(&sync_comm);
	MPI_Finalize();
	if (!me)
		printf("ok\n");
	return 0;
}
