/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hybrid: MPI between ranks, OpenMP threads within each.
 *
 *     heddlerun -n 4 --cpus-per-rank 8 hybrid [cells per rank] [steps]
 *
 * Diffusion on a ring of cells. Each rank owns a part of the cells, which its threads share; between two steps the main thread
 * exchanges the cells at the ends with the neighbours (MPI_THREAD_FUNNELED). The arithmetic is on integers, so that the result
 * does not depend on the number of ranks and threads: heat is conserved, so the sum is constant, and cells that are mirror images
 * of each other stay equal. Exit status 0: both hold.
 *
 * Rank 0 prints how many threads and CPUs each rank has: where these differ, the job was started the wrong way.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE	/* sched_getaffinity */
#endif
#include <mpi.h>
#include <omp.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static int me, n;

/* One step on cells 1..len; cells 0 and len + 1 belong to the neighbours. The flow between two cells is a function of these two
 * cells alone, so rounding loses nothing. */
static void step(const int64_t *u, int64_t *next, long len)
{
	#pragma omp parallel for schedule(static)
	for (long i = 1; i <= len; i++)
		next[i] = u[i] + (u[i - 1] - u[i]) / 4 + (u[i + 1] - u[i]) / 4;
}

static void exchange(int64_t *u, long len)
{
	int left = (me + n - 1) % n, right = (me + 1) % n;

	MPI_Sendrecv(&u[1], 1, MPI_INT64_T, left, 0, &u[len + 1], 1, MPI_INT64_T, right, 0, MPI_COMM_WORLD,
		     MPI_STATUS_IGNORE);
	MPI_Sendrecv(&u[len], 1, MPI_INT64_T, right, 1, &u[0], 1, MPI_INT64_T, left, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static int64_t sum(const int64_t *u, long len)
{
	int64_t mine = 0, all;

	#pragma omp parallel for reduction(+ : mine)
	for (long i = 1; i <= len; i++)
		mine += u[i];
	MPI_Allreduce(&mine, &all, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
	return all;
}

/* Cell i of the ring is cell len * n - 1 - i in the mirror: rank r's are those of rank n - 1 - r, backwards. */
static int symmetric(const int64_t *u, long len)
{
	int64_t *theirs = malloc(sizeof *theirs * (size_t)len);
	int same = theirs != NULL, all;

	if (theirs)
		MPI_Sendrecv(&u[1], (int)len, MPI_INT64_T, n - 1 - me, 2, theirs, (int)len, MPI_INT64_T, n - 1 - me, 2,
			     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	for (long i = 0; theirs && i < len; i++)
		same &= theirs[len - 1 - i] == u[i + 1];
	free(theirs);
	MPI_Allreduce(&same, &all, 1, MPI_INT, MPI_LAND, MPI_COMM_WORLD);
	return all;
}

static void print_threads(void)
{
	int have[2] = { omp_get_max_threads(), 0 };
	cpu_set_t set;

	if (!sched_getaffinity(0, sizeof set, &set))
		have[1] = CPU_COUNT(&set);
	if (me) {
		MPI_Send(have, 2, MPI_INT, 0, 3, MPI_COMM_WORLD);
		return;
	}
	for (int r = 0; r < n; r++) {
		if (r)
			MPI_Recv(have, 2, MPI_INT, r, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		printf("rank %d: %d threads on %d CPUs\n", r, have[0], have[1]);
	}
}

int main(int argc, char **argv)
{
	long len = argc > 1 ? atol(argv[1]) : 100000, steps = argc > 2 ? atol(argv[2]) : 100;
	int64_t *u, *next, before, after;
	int provided, good;

	MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
	MPI_Comm_rank(MPI_COMM_WORLD, &me);
	MPI_Comm_size(MPI_COMM_WORLD, &n);
	if (provided < MPI_THREAD_FUNNELED || len < 1 || len > 100000000 || steps < 0) {
		fprintf(stderr, "usage: hybrid [cells per rank, at least 1] [steps]\n");
		MPI_Abort(MPI_COMM_WORLD, 2);
	}
	print_threads();
	u = malloc(sizeof *u * (size_t)(len + 2));
	next = malloc(sizeof *next * (size_t)(len + 2));
	if (!u || !next) {
		fprintf(stderr, "no memory for %ld cells\n", len);
		MPI_Abort(MPI_COMM_WORLD, 2);
	}
	/* hot at both ends of the ring's numbering: one place, and its own mirror image */
	#pragma omp parallel for
	for (long i = 1; i <= len; i++) {
		long cell = me * len + i - 1, mirror = n * len - 1 - cell;

		u[i] = (cell < mirror ? cell : mirror) < len / 2 + 1 ? 1000000000 : 0;
	}
	before = sum(u, len);
	for (long s = 0; s < steps; s++) {
		int64_t *swap = u;

		exchange(u, len);
		step(u, next, len);
		u = next;
		next = swap;
	}
	after = sum(u, len);
	good = symmetric(u, len) && before == after;
	if (!me)
		printf("%ld steps of %ld cells: sum %lld, was %lld: %s\n", steps, n * len, (long long)after, (long long)before,
		       good ? "right" : "WRONG");
	free(u);
	free(next);
	MPI_Finalize();
	return !good;
}
