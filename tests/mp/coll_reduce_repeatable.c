/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The same call gives the same bits each time: long reductions of floating-point numbers with a sum that depends on the order, as
 * a communicator's first collectives and as later ones, in place and not. And a rank that has completed its part may free the
 * communicator, even if another rank is late.
 */
#include <math.h>
#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TIMES 12		/* more than the first few of a communicator */
#define MOST 50021

static int me, all, fails;
static MPI_Op op = MPI_SUM;
static double *in, *out, *first;

static const struct {
	const char *name;
	bool block;		/* each rank has n elements for each rank */
} colls[] = {{"reduce", false}, {"scan", false}, {"exscan", false}, {"allreduce", false}, {"reduce_scatter_block", true}};
#define COLLS (int)(sizeof(colls) / sizeof(colls[0]))

/* How many elements of out it gives. */
static int run(int coll, bool in_place, int n, MPI_Comm comm)
{
	int root = all - 1, many = colls[coll].block ? n * all : n;
	bool inside = in_place && (coll || me == root);
	const void *from = inside ? MPI_IN_PLACE : in;

	if (inside)
		memcpy(out, in, (size_t)many * sizeof(*out));
	switch (coll) {
	case 0: MPI_Reduce(from, out, n, MPI_DOUBLE, op, root, comm); return me == root ? n : 0;
	case 1: MPI_Scan(from, out, n, MPI_DOUBLE, op, comm); return n;
	case 2: MPI_Exscan(from, out, n, MPI_DOUBLE, op, comm); return me ? n : 0;
	case 3: MPI_Allreduce(from, out, n, MPI_DOUBLE, op, comm); return n;
	default: MPI_Reduce_scatter_block(from, out, n, MPI_DOUBLE, op, comm); return n;
	}
}

static void compare(int coll, int n)
{
	MPI_Comm comm;

	bool same = true;

	MPI_Comm_dup(MPI_COMM_WORLD, &comm);
	/* in place an operand may be on the other side of the operation, which MIN tells of zeros */
	for (int i = 0; i < (op == MPI_SUM ? 2 * TIMES : TIMES); i++) {
		int got = run(coll, i >= TIMES, n, comm);

		if (i == 0)
			memcpy(first, out, (size_t)got * sizeof(*out));
		if (same && memcmp(first, out, (size_t)got * sizeof(*out))) {
			printf("coll_reduce_repeatable: %s of %d doubles, time %d%s, rank %d: other bits than the first time\n",
			       colls[coll].name, n, i % TIMES, i >= TIMES ? ", in place" : "", me);
			fails++;
			same = false;
		}
	}
	MPI_Comm_free(&comm);
}

static void fill(void)
{
	srand(7 + (unsigned)me);
	for (int i = 0; i < MOST * all; i++)
		in[i] = (rand() - RAND_MAX / 2) * (i % 3 ? 1.0 : 1e-7) / (1 + i % 11);
}

/* The last rank comes when the first has been gone for longer than a queue that has failed is put up with, and has
 * other things in its buffer. */
static void leave(int coll, int n)
{
	MPI_Comm comm;
	int got;

	fill();
	MPI_Comm_dup(MPI_COMM_WORLD, &comm);
	for (int i = 0; i < TIMES; i++) {
		got = run(coll, false, n, comm);
		memcpy(first, out, (size_t)got * sizeof(*out));
	}
	if (me == all - 1)
		sleep(2);
	got = run(coll, false, n, comm);
	if (me < all - 1)
		memset(in, 0, (size_t)n * sizeof(*in));
	MPI_Comm_free(&comm);
	if (memcmp(first, out, (size_t)got * sizeof(*out))) {
		printf("coll_reduce_repeatable: %s of %d doubles, rank %d: other bits with a rank that comes late\n",
		       colls[coll].name, n, me);
		fails++;
	}
}

/* All elements of an input are equal, and the operation returns one side's element: so all elements of the result must be equal,
 * on whichever rank each was computed. */
static void alike(int coll, MPI_Op which, double of_one, double of_others)
{
	int n = colls[coll].block ? MOST : MOST * all, got;

	op = which;
	for (int i = 0; i < MOST * all; i++)
		in[i] = me == all - 2 ? of_one : of_others;
	got = run(coll, false, n, MPI_COMM_WORLD);
	/* of those where all have a result, and the same one */
	if (coll >= 3)
		MPI_Allgather(out, 1, MPI_DOUBLE, first, 1, MPI_DOUBLE, MPI_COMM_WORLD);
	for (int r = 0; coll >= 3 && r < all; r++)
		if (memcmp(&first[r], &out[0], sizeof(*out)))
			got = -1;
	for (int i = 1; i < got; i++)
		if (memcmp(&out[i], &out[0], sizeof(*out)))
			got = -1;
	if (got < 0) {
		printf("coll_reduce_repeatable: %s of %d doubles that are all %g or %g, rank %d: the results differ\n",
		       colls[coll].name, n, of_one, of_others, me);
		fails++;
	}
}

int main(int argc, char **argv)
{
	size_t bytes;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &me);
	MPI_Comm_size(MPI_COMM_WORLD, &all);
	bytes = (size_t)MOST * (size_t)all * sizeof(double);
	in = malloc(bytes);
	out = malloc(bytes);
	first = malloc(bytes);
	if (!in || !out || !first)
		MPI_Abort(MPI_COMM_WORLD, 2);
	fill();
	for (int coll = 0; coll < COLLS; coll++) {
		compare(coll, 3001);
		compare(coll, MOST);
	}
	leave(1, MOST);
	leave(0, 12001);
	op = MPI_MIN;
	for (int i = 0; i < MOST * all; i++)
		in[i] = rand() % 2 ? 0.0 : -0.0;
	for (int coll = 0; coll < COLLS; coll++)
		compare(coll, 3001);
	for (int coll = 0; coll < COLLS && all > 1; coll++) {
		alike(coll, MPI_MAX, (double)NAN, 1.0);
		alike(coll, MPI_MIN, -0.0, 0.0);
	}
	MPI_Allreduce(MPI_IN_PLACE, &fails, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	if (!me && !fails)
		printf("coll_reduce_repeatable: ok, %d ranks\n", all);
	MPI_Finalize();
	return fails != 0;
}
