/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Collectives that are not synchronizing, one after the other, without a barrier of the program: a rank that only sends runs
 * ahead of a late rank, and must not overwrite cells that the late rank has not read. All sizes of cells are mixed, blocking
 * calls and several nonblocking ones under way, and now and then ranks are slow. Every element tells operation and sender.
 *
 *     coll_pipelined [operations [seed]]
 */
#include "mpi_test.h"

#include <sched.h>
#include <stdbool.h>
#include <unistd.h>

enum { BCAST, SCATTER, GATHER, REDUCE, SCAN, EXSCAN, ALLGATHER, KINDS };
#define MOST 600		/* elements of a block: more than one request carries inline */
#define UNDER_WAY 6

static struct operation {
	int kind, root, count;
	uint64_t number;
	int64_t *in, *out;
	MPI_Request request;
} ops[UNDER_WAY];

static uint64_t state;

static unsigned draw(unsigned below)	/* the same on all ranks */
{
	state = mix(state);
	return (unsigned)(state % below);
}

/* Of rank `from`, for rank `to` or for all. */
static int64_t value(const struct operation *o, int from, int to, int k)
{
	return (int64_t)(mix(o->number * 64 + (uint64_t)from * 8 + (uint64_t)to) >> 8) + k;
}

static void fill_in(struct operation *o)
{
	int blocks = o->kind == SCATTER ? np : 1;
	int64_t *at = o->kind == BCAST ? o->out : o->in;

	memset(o->out, 0x5a, sizeof(*o->out) * (size_t)MOST * (size_t)np);
	for (int b = 0; b < blocks && ((o->kind != BCAST && o->kind != SCATTER) || me == o->root); b++)
		for (int k = 0; k < o->count; k++)
			at[b * o->count + k] = value(o, me, o->kind == SCATTER ? b : 0, k);
}

static void call(struct operation *o, bool wait)
{
	MPI_Request *q = &o->request;
	int n = o->count;

	switch (o->kind) {
#define EITHER(Name, name, ...) do { if (wait) MPI_##Name(__VA_ARGS__); else MPI_I##name(__VA_ARGS__, q); } while (0)
	case BCAST: EITHER(Bcast, bcast, o->out, n, MPI_INT64_T, o->root, MPI_COMM_WORLD); break;
	case SCATTER: EITHER(Scatter, scatter, o->in, n, MPI_INT64_T, o->out, n, MPI_INT64_T, o->root, MPI_COMM_WORLD); break;
	case GATHER: EITHER(Gather, gather, o->in, n, MPI_INT64_T, o->out, n, MPI_INT64_T, o->root, MPI_COMM_WORLD); break;
	case REDUCE: EITHER(Reduce, reduce, o->in, o->out, n, MPI_INT64_T, MPI_SUM, o->root, MPI_COMM_WORLD); break;
	case SCAN: EITHER(Scan, scan, o->in, o->out, n, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD); break;
	case EXSCAN: EITHER(Exscan, exscan, o->in, o->out, n, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD); break;
	default: EITHER(Allgather, allgather, o->in, n, MPI_INT64_T, o->out, n, MPI_INT64_T, MPI_COMM_WORLD); break;
	}
}

static void check(const struct operation *o)
{
	bool gathers = o->kind == GATHER || o->kind == ALLGATHER;
	int ranks = o->kind == SCAN ? me + 1 : o->kind == EXSCAN ? me : np;

	if (((o->kind == GATHER || o->kind == REDUCE) && me != o->root) || !ranks)
		return;
	for (int b = 0; b < (gathers ? np : 1); b++)
		for (int k = 0; k < o->count; k++) {
			int64_t want = 0;

			if (gathers)
				want = value(o, b, 0, k);
			else if (o->kind == BCAST || o->kind == SCATTER)
				want = value(o, o->root, o->kind == SCATTER ? me : 0, k);
			else
				for (int r = 0; r < ranks; r++)
					want += value(o, r, 0, k);
			if (o->out[b * o->count + k] != want)
				test_fail(__FILE__, __LINE__,
					  "operation %llu, kind %d, root %d, %d elements: element %d of block %d is wrong",
					  (unsigned long long)o->number, o->kind, o->root, o->count, k, b);
		}
}

int main(int argc, char **argv)
{
	long all = argc > 1 ? atol(argv[1]) : 4000;
	uint64_t mine;

	test_init(&argc, &argv);
	state = argc > 2 ? strtoull(argv[2], NULL, 0) : 1;
	mine = state + (uint64_t)me;
	for (int i = 0; i < UNDER_WAY; i++) {
		ops[i].in = malloc(sizeof(*ops[i].in) * MOST * (size_t)np);
		ops[i].out = malloc(sizeof(*ops[i].out) * MOST * (size_t)np);
		CHECK(ops[i].in && ops[i].out);
	}
	for (long done = 0; done < all;) {
		static const unsigned counts[] = { 6, 120, MOST };
		bool blocking = draw(2), mixed = !draw(3);
		/* blocking ones in rows in which a rank could go round the slots while another one is late */
		int n = 1 + (int)draw(blocking ? 80 : UNDER_WAY), kind = (int)draw(KINDS), root = (int)draw((unsigned)np);
		unsigned most = counts[draw(3)];

		for (int i = 0; i < n; i++) {
			struct operation *o = &ops[i % UNDER_WAY];

			*o = (struct operation){ .kind = mixed ? (int)draw(KINDS) : kind, .root = mixed
						 ? (int)draw((unsigned)np) : root, .count = 1 + (int)draw(most),
							 .number = (uint64_t)(done + i), .in = o->in, .out = o->out };
			fill_in(o);
			mine = mix(mine);
			for (int k = mine % 5 ? 0 : (int)((mine >> 8) % 50); k > 0; k--)
				sched_yield();
			if (mine % 101 == 0)
				usleep(500);
			call(o, blocking);
			if (blocking)
				check(o);
		}
		for (int i = 0; i < n && !blocking; i++) {
			MPI_Wait(&ops[i].request, MPI_STATUS_IGNORE);
			check(&ops[i]);
		}
		done += n;
	}
	for (int i = 0; i < UNDER_WAY; i++) {
		free(ops[i].in);
		free(ops[i].out);
	}
	MPI_Comm_free(&sync_comm);
	MPI_Finalize();
	return 0;
}
