/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Members of communicators: every rank sends its rank in MPI_COMM_WORLD to every rank of the communicator, itself too, and
 * receives these from any source: the source must be that rank. In communicators of every form of group: the world, a duplicate,
 * blocks, by turns, backwards, in no order, and between two groups. Any number of ranks.
 */
#include "mpi_test.h"

/* Rank r of `c`, or of its remote group, is rank world[r] of MPI_COMM_WORLD. */
static void check_at(int line, MPI_Comm c, const int *world, int n)
{
	int *seen = calloc((size_t)n, sizeof(int)), got;
	MPI_Request *r = malloc((size_t)n * sizeof(*r));
	MPI_Status s;

	for (int i = 0; i < n; i++)
		MPI_Isend(&me, 1, MPI_INT, i, 5, c, &r[i]);
	for (int i = 0; i < n; i++) {
		MPI_Recv(&got, 1, MPI_INT, MPI_ANY_SOURCE, 5, c, &s);
		if (s.MPI_SOURCE < 0 || s.MPI_SOURCE >= n || got != world[s.MPI_SOURCE] || seen[s.MPI_SOURCE]++)
			test_fail(__FILE__, line, "rank %d of MPI_COMM_WORLD is said to be rank %d of %d", got, s.MPI_SOURCE, n);
	}
	MPI_Waitall(n, r, MPI_STATUSES_IGNORE);
	for (int i = 0; i < n; i++) {	/* and by name */
		MPI_Isend(&me, 1, MPI_INT, i, 6, c, &r[i]);
	}
	for (int i = n - 1; i >= 0; i--) {
		MPI_Recv(&got, 1, MPI_INT, i, 6, c, &s);
		if (got != world[i] || s.MPI_SOURCE != i)
			test_fail(__FILE__, line, "%d came from rank %d, which is %d", got, i, world[i]);
	}
	MPI_Waitall(n, r, MPI_STATUSES_IGNORE);
	free(seen), free(r);
}
#define CHECK_PARTS(c, world, n) check_at(__LINE__, c, world, n)

static int parts_by(int *world, int color, int (*color_of)(int rank))
{
	int n = 0;

	for (int r = 0; r < np; r++)
		if (color_of(r) == color)
			world[n++] = r;
	return n;
}

static int block(int r)
{
	return r / ((np + 2) / 3);
}

static int turn(int r)
{
	return r % 3;
}

static int upper(int r)
{
	return r >= np / 2;
}

/* The same numbers on all ranks. */
static int shuffled(int r)
{
	return (int)((unsigned)(r + 1) * 2654435761u >> 8);
}

static int by_key(const void *a, const void *b)
{
	int x = shuffled(*(const int *)a), y = shuffled(*(const int *)b);

	return (x > y) - (x < y);
}

static void split(int (*color_of)(int rank), int *world)
{
	MPI_Comm c, d;
	int n = parts_by(world, color_of(me), color_of);

	MPI_Comm_split(MPI_COMM_WORLD, color_of(me), me, &c);
	CHECK_PARTS(c, world, n);
	MPI_Comm_dup(c, &d);
	MPI_Comm_free(&c);
	CHECK_PARTS(d, world, n);
	MPI_Comm_free(&d);
}

static void inter(int *world)
{
	MPI_Comm c, both, local;
	int n = parts_by(world, !upper(me), upper);

	MPI_Comm_split(MPI_COMM_WORLD, upper(me), 0, &local);
	MPI_Intercomm_create(local, 0, MPI_COMM_WORLD, upper(me) ? 0 : np / 2, 9, &c);
	CHECK_PARTS(c, world, n);
	MPI_Intercomm_merge(c, upper(me) == 0, &both);	/* the upper half comes first */
	for (int r = 0; r < np; r++)
		world[r] = (r + np / 2) % np;
	CHECK_PARTS(both, world, np);
	MPI_Comm_free(&both);
	MPI_Comm_free(&c);
	MPI_Comm_free(&local);
}

int main(int argc, char **argv)
{
	MPI_Comm c;
	int *world;

	test_init(&argc, &argv);
	world = malloc((size_t)np * sizeof(*world));
	for (int r = 0; r < np; r++)
		world[r] = r;
	MPI_Comm_dup(MPI_COMM_WORLD, &c);
	CHECK_PARTS(c, world, np);
	MPI_Comm_free(&c);
	CHECK_PARTS(MPI_COMM_WORLD, world, np);
	for (int r = 0; r < np; r++)
		world[r] = np - 1 - r;
	MPI_Comm_split(MPI_COMM_WORLD, 0, -me, &c);
	CHECK_PARTS(c, world, np);
	MPI_Comm_free(&c);
	split(block, world);
	split(turn, world);
	for (int r = 0; r < np; r++)
		world[r] = r;
	qsort(world, (size_t)np, sizeof(*world), by_key);
	MPI_Comm_split(MPI_COMM_WORLD, 0, shuffled(me), &c);
	CHECK_PARTS(c, world, np);
	MPI_Comm_free(&c);
	if (np > 1)
		inter(world);
	free(world);
	test_done("comm_members");
	return 0;
}
