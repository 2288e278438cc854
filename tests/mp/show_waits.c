/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ranks that wait in different ways, for tests of the hang report. Each prints "ready RANK", and then does as the first argument
 * names. heddlerun ends the job.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int me, n;

static void ready(void)
{
	printf("ready %d\n", me);
	fflush(stdout);
}

/* The last rank waits for a message that never comes, the other ranks are in an Allreduce without the last rank. */
static void odd(void)
{
	int v = 0;

	ready();
	if (me == n - 1)
		MPI_Recv(&v, 1, MPI_INT, 0, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	else
		MPI_Allreduce(MPI_IN_PLACE, &v, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
}

/* Rank 0 has very many requests open, rank 1 a long message that no rank receives; the remaining ranks compute. */
static void requests(int many)
{
	MPI_Request *r = malloc(sizeof *r * (size_t)many);
	size_t big = 1 << 22;
	char *buf = malloc(big);

	if (me == 0) {
		for (int i = 0; i < many; i++)
			MPI_Irecv(buf, 1, MPI_CHAR, 1, 1000 + i, MPI_COMM_WORLD, &r[i]);
		ready();
		MPI_Waitall(many, r, MPI_STATUSES_IGNORE);
	} else if (me == 1) {
		ready();
		MPI_Send(buf, (int)big, MPI_CHAR, 0, 5, MPI_COMM_WORLD);
	} else {
		ready();
		for (;;)
			pause();
	}
}

/* All but the last rank are in MPI_Finalize. */
static void finalize(void)
{
	ready();
	while (me == n - 1)
		pause();
}

static __attribute__((noinline)) void crash_here(volatile char *p)
{
	p[16] = 1;
}

static __attribute__((noinline)) int overflow(volatile char *last)
{
	volatile char buf[65536];

	buf[0] = last[0];
	if (buf[0] == 'y')	/* for the compiler's peace */
		return 0;
	return overflow(buf) + buf[1];
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";

	if (!strcmp(what, "init") && getenv("PMIX_RANK") && !strcmp(getenv("PMIX_RANK"), "0")) {
		puts("ready 0");
		fflush(stdout);
		for (;;)
			pause();
	}
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &me);
	MPI_Comm_size(MPI_COMM_WORLD, &n);
	if (!strcmp(what, "odd"))
		odd();
	else if (!strcmp(what, "requests"))
		requests(atoi(argv[2]));
	else if (!strcmp(what, "finalize"))
		finalize();
	else if (!strcmp(what, "barrier")) {
		ready();
		if (me)
			MPI_Barrier(MPI_COMM_WORLD);
		else
			for (;;)
				pause();
	}
	else if (!strcmp(what, "crash")) {
		if (me == n - 1)
			crash_here(NULL);
		pause();
	} else if (!strcmp(what, "abort"))
		abort();
	else if (!strcmp(what, "overflow"))
		return overflow("x");
	MPI_Finalize();
	return 0;
}
