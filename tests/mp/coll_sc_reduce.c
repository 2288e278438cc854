/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reductions in parts (collectives/single_copy/reduce.c), several under way at a time: more than can be staged. So in one
 * operation a rank stages its input, its part of the result, both or neither, and another rank something else; buffers above the
 * limit are never staged. The input is overwritten as soon as a rank has completed the operation, perhaps before the other ranks
 * have begun.
 *
 *     coll_sc_reduce ROUNDS SEED
 */
#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { OPS = 12, MOST = 3000, LONG = 300000 };	/* elements: 24 kB, 2.4 MB */

static uint64_t state;
static int me, np;

struct op {
	uint64_t *in, *out;
	int n, root;			/* root -1: Allreduce */
	bool in_place;
	MPI_Request req;
};

/* All ranks draw the same. */
static unsigned draw(unsigned below)
{
	state = state * 6364136223846793005u + 1442695040888963407u;
	return (unsigned)(state >> 33) % below;
}

/* Now and then this rank does nothing for a while: other ranks wait for this one, or go on and reuse memory that this rank has
 * not read. */
static void pause_once_in(unsigned n)
{
	static uint64_t own;

	own = (own + (unsigned)me + 1) * 6364136223846793005u + 1442695040888963407u;
	if ((unsigned)(own >> 33) % n == 0)
		usleep((unsigned)(own >> 45) % 1000);
}

static uint64_t input(int rank, int round, int op, int i)
{
	return (uint64_t)(rank + 1) * 1000003 + (uint64_t)round * 8191 + (uint64_t)op * 131 + (uint64_t)i;
}

static void begin(struct op *o, int round, int i)
{
	bool receives = o->root < 0 || o->root == me;
	uint64_t *in = o->in_place && receives ? o->out : o->in;
	const void *from = in == o->out ? MPI_IN_PLACE : in;

	for (int k = 0; k < o->n; k++)
		in[k] = input(me, round, i, k);
	if (o->root < 0)
		MPI_Iallreduce(from, o->out, o->n, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD, &o->req);
	else
		MPI_Ireduce(from, o->out, o->n, MPI_UINT64_T, MPI_SUM, o->root, MPI_COMM_WORLD, &o->req);
}

static void check(struct op *o, int round, int i)
{
	for (int k = 0; k < o->n && (o->root < 0 || o->root == me); k++) {
		uint64_t wanted = 0;

		for (int r = 0; r < np; r++)
			wanted += input(r, round, i, k);
		if (o->out[k] == wanted)
			continue;
		fprintf(stderr,
			"coll_sc_reduce: rank %d, round %d, operation %d (%s, root %d, %d elements%s): FAILED: element %d is "
			"%llu instead of %llu\n",
			me, round, i, o->root < 0 ? "Iallreduce" : "Ireduce", o->root, o->n, o->in_place ? ", in place" : "", k,
			(unsigned long long)o->out[k], (unsigned long long)wanted);
		MPI_Abort(MPI_COMM_WORLD, 1);
	}
	memset(o->in, 0x5a, (size_t)o->n * sizeof(*o->in));
	memset(o->out, 0xa5, (size_t)o->n * sizeof(*o->out));
}

static void run(struct op *ops, int round)
{
	for (int i = 0; i < OPS; i++) {
		struct op *o = &ops[i];

		o->n = 1 + (int)draw(i == 5 && round % 4 == 0 ? LONG : MOST);
		o->root = (int)draw((unsigned)np + 2) - 2;
		o->root = o->root < 0 ? -1 : o->root;
		o->in_place = draw(3) == 0;
		begin(o, round, i);
		pause_once_in(8);
	}
	for (int left = OPS; left;) {
		for (int i = 0; i < OPS; i++) {
			int flag = 0;

			if (ops[i].req == MPI_REQUEST_NULL)
				continue;
			MPI_Test(&ops[i].req, &flag, MPI_STATUS_IGNORE);
			if (flag) {
				check(&ops[i], round, i);
				left--;
			}
		}
		pause_once_in(2);
	}
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 40;
	struct op ops[OPS] = { 0 };

	state = argc > 2 ? strtoull(argv[2], NULL, 0) : 1;
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &me);
	MPI_Comm_size(MPI_COMM_WORLD, &np);
	for (int i = 0; i < OPS; i++) {
		ops[i].in = malloc(LONG * sizeof(uint64_t));
		ops[i].out = malloc(LONG * sizeof(uint64_t));
		if (!ops[i].in || !ops[i].out)
			MPI_Abort(MPI_COMM_WORLD, 1);
	}
	for (int round = 0; round < rounds; round++)
		run(ops, round);
	for (int i = 0; i < OPS; i++) {
		free(ops[i].in);
		free(ops[i].out);
	}
	MPI_Finalize();
	if (!me)
		printf("coll_sc_reduce: ok, %d ranks, %d rounds\n", np, rounds);
	return 0;
}
