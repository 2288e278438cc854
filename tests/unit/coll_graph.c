/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every algorithm of the host executor, for 1 to 17 ranks, with and without MPI_IN_PLACE, every root, in any order that the graph
 * allows and in program order: the result is the serial one.
 */
#include <errno.h>

#include "coll_graph.h"

static void both_modes(const struct job *j)
{
	run_job(j, SIM_ANY_ORDER);
	run_job(j, SIM_PROGRAM_ORDER);
}

Test(coll_graph, movement)
{
	static const size_t counts[] = { 1, 3, 40, 1000 };

	for (const struct hdl_algorithm *a = hdl_host_algorithms; a->name; a++) {
		if (hdl_coll_reduces(a->coll))
			continue;
		for (int n = 1; n <= MAX_RANKS; n++)
			for (int root = 0; root < (hdl_coll_has_root(a->coll) ? n : 1); root++)
				for (size_t c = 0; c < COUNT(counts); c++)
					for (int ip = 0; ip < (a->coll >= HDL_ALLGATHER ? 2 : 1); ip++) {
						struct job j = { .coll = a->coll, .algo = a, .n = n, .root = root, .in_place = ip,
								 .type = rep_of(MPI_INT32_T), .op = MPI_OP_NULL,
									 .count = counts[c] };
						struct hdl_shape s = { .coll = a->coll, .size = n };

						if (!a->fits || a->fits(&s))
							both_modes(&j);
					}
	}
}

/* Segments and parts: more than one, and the last one short. */
Test(coll_graph, large_bcast)
{
	for (const struct hdl_algorithm *a = hdl_host_algorithms; a->name; a++)
		for (int n = 1; a->coll == HDL_BCAST && !by_hosts(a) && n <= 9; n++) {
			struct job j = { .coll = HDL_BCAST, .algo = a, .n = n, .root = n / 2, .type = rep_of(MPI_BYTE),
					 .op = MPI_OP_NULL, .count = 300001 };

			both_modes(&j);
		}
}

Test(coll_graph, reductions_of_all_sizes)
{
	static const size_t counts[] = { 1, 2, 5, 16, 17, 301 };

	for (const struct hdl_algorithm *a = hdl_host_algorithms; a->name; a++) {
		if (!hdl_coll_reduces(a->coll) || by_hosts(a))
			continue;
		for (int n = 1; n <= MAX_RANKS; n++)
			for (int root = 0; root < (hdl_coll_has_root(a->coll) ? n : 1); root++)
				for (size_t c = 0; c < COUNT(counts); c++)
					for (int ip = 0; ip < 2; ip++) {
						struct job j = { .coll = a->coll, .algo = a, .n = n, .root = root, .in_place = ip,
								 .type = rep_of(MPI_INT64_T), .op = MPI_SUM, .count = counts[c] };

						both_modes(&j);
					}
	}
}

Test(coll_graph, all_operations_on_all_types)
{
	static const int ranks[] = { 2, 3, 8, 13 };
	unsigned combinations = 0;

	for (size_t t = 0; t < COUNT(all_types); t++)
		for (size_t o = 0; o < COUNT(all_ops); o++) {
			if (!hdl_op_valid(all_ops[o], hdl_type_get(all_types[t])))
				continue;
			combinations++;
			for (const struct hdl_algorithm *a = hdl_host_algorithms; a->name; a++)
				for (size_t k = 0; k < COUNT(ranks); k++) {
					struct job j = { .coll = a->coll, .algo = a, .n = ranks[k], .in_place = k & 1,
							 .type = rep_of(all_types[t]), .op = all_ops[o], .count = 37 };

					if (hdl_coll_reduces(a->coll) && !by_hosts(a))
						run_job(&j, SIM_ANY_ORDER);
				}
		}
	/* 18 C integers and 3 multi-language x 10, 3 floating x 4, logical x 3, byte x 3, 3 complex x 2, 6 pairs x 2. */
	cr_assert_eq(combinations, (18 + 3) * 10 + 3 * 4 + 3 + 3 + 3 * 2 + 6 * 2, "%u", combinations);
}

/* A missing dependence must show: the simulator is only worth something if it finds one. */
Test(coll_graph, simulator_finds_a_missing_dependence)
{
	const struct hdl_shape base = { .coll = HDL_ALLREDUCE, .size = 4, .bytes = 80, .esize = 8,
					.fn = hdl_op_lookup(MPI_SUM, hdl_type_get(MPI_INT64_T)) };
	int wrong = 0;

	for (int attempt = 0; attempt < 50 && !wrong; attempt++) {
		struct sim_rank ranks[4] = { 0 };

		for (int r = 0; r < 4; r++) {
			struct hdl_shape s = base;

			s.rank = r;
			ranks[r].g = hdl_build_allreduce_doubling(&s);
			for (uint32_t i = 0; i < ranks[r].g->nnodes; i++)
				ranks[r].g->nodes[i].npreds = 0;
			for (int sp = 0; sp < HDL_SPACES; sp++)
				ranks[r].space[sp] = calloc(1, 4096);
			for (int i = 0; i < 10; i++)
				((int64_t *)ranks[r].space[HDL_SP_SEND])[i] = 1;
		}
		if (sim_run(ranks, 4, SIM_ANY_ORDER, NULL, (unsigned)attempt))
			wrong = 1;
		for (int r = 0; r < 4; r++) {
			for (int i = 0; i < 10; i++)
				wrong |= ((int64_t *)ranks[r].space[HDL_SP_RECV])[i] != 4;
			for (int sp = 0; sp < HDL_SPACES; sp++)
				free(ranks[r].space[sp]);
			hdl_graph_free(ranks[r].g);
		}
	}
	cr_assert(wrong);
}

Test(coll_graph, tuner_has_an_answer_for_everything)
{
	for (int coll = 0; coll < HDL_COLLS; coll++)
		for (int n = 1; n < 70; n++)
			for (size_t bytes = 0; bytes < (size_t)1 << 30; bytes = bytes * 2 + 1) {
				struct hdl_shape s = { .coll = (enum hdl_coll)coll, .size = n, .bytes = bytes, .esize = 1,
						       .oversubscribed = n % 2 };
				const struct hdl_algorithm *a = hdl_tune_host(&s, NULL);

				cr_assert_not_null(a);
				cr_assert(!a->fits || a->fits(&s));
				cr_assert_eq(a, hdl_tune_host(&s, "no-such-algorithm"));
			}
}

/* Every rank but of two sends and adds as little as can be once messages are long: recursive doubling does not. */
Test(coll_graph, long_messages_of_many_are_not_doubled)
{
	for (int n = 3; n < 70; n++)
		for (size_t bytes = 64 << 10; bytes < (size_t)1 << 30; bytes *= 2) {
			struct hdl_shape s = { .coll = HDL_ALLREDUCE, .size = n, .bytes = bytes, .esize = 1 };

			cr_assert_str_neq(hdl_tune_host(&s, NULL)->name, "recursive-doubling", "%d ranks, %zu bytes", n, bytes);
		}
}

/* Tags have HDL_SUB_BITS for it, also where there are more ranks than that counts. */
Test(coll_graph, subs_fit_into_tags)
{
	for (const struct hdl_algorithm *a = hdl_host_algorithms; a->name; a++) {
		struct hdl_shape s = { .coll = a->coll, .size = 2100, .rank = 1050, .bytes = 1 << 20, .esize = 1 };
		struct hdl_graph *g;

		/* blocks of other ranks are as many as there are ranks */
		if (a->coll == HDL_ALLGATHER || a->coll == HDL_ALLTOALL)
			s.bytes = 8;
		if (a->coll == HDL_REDUCE || a->coll == HDL_ALLREDUCE)
			s.fn = hdl_op_lookup(MPI_BOR, hdl_type_get(MPI_BYTE));
		if (a->fits && !a->fits(&s))
			continue;
		g = a->build(&s);
		cr_assert_not_null(g);
		for (uint32_t i = 0; i < g->nnodes; i++)
			cr_assert_lt(g->nodes[i].sub, 1u << 11, "%s of %d ranks, node %u: sub %u", a->name, s.size, i,
				     g->nodes[i].sub);
		hdl_graph_free(g);
	}
}

Test(coll_graph, validity)
{
	cr_assert(!hdl_op_valid(MPI_BAND, hdl_type_get(MPI_DOUBLE)));
	cr_assert(!hdl_op_valid(MPI_SUM, hdl_type_get(MPI_BYTE)));
	cr_assert(hdl_op_valid(MPI_SUM, hdl_type_get(MPI_CHAR)));
	cr_assert(!hdl_op_valid(MPI_MAX, hdl_type_get(MPI_C_DOUBLE_COMPLEX)));
	cr_assert(!hdl_op_valid(MPI_MINLOC, hdl_type_get(MPI_INT)));
	cr_assert(hdl_op_valid(MPI_LAND, hdl_type_get(MPI_AINT)));
	cr_assert(!hdl_op_valid(MPI_OP_NULL, hdl_type_get(MPI_INT)));
	cr_assert(hdl_op_valid(MPI_LAND, hdl_type_get(MPI_C_BOOL)));
	cr_assert(hdl_op_valid(MPI_BOR, hdl_type_get(MPI_BYTE)));
}

/* No rank leaves a barrier that some rank has not reached: a signal carries the ranks from which the sender had signals. */
Test(coll_graph, barriers_wait_for_all)
{
	for (int n = 2; n <= 33; n++) {
		struct hdl_graph *g[33];
		uint64_t says[33][8] = { 0 };	/* of each rank's send of each round */
		int rounds;

		for (int r = 0; r < n; r++) {
			struct hdl_shape s = { .coll = HDL_BARRIER, .rank = r, .size = n };

			g[r] = hdl_build_barrier_dissemination(&s);
			cr_assert_not_null(g[r]);
		}
		rounds = (int)g[0]->nsends;
		for (int k = 0; k < rounds; k++)
			for (int r = 0; r < n; r++)
				for (uint32_t i = 0; i < g[r]->nnodes; i++) {
					const struct hdl_node *d = &g[r]->nodes[i];

					if (d->kind != HDL_N_SEND || d->sub != (uint32_t)k)
						continue;
					says[r][k] = 1ull << r;
					for (uint32_t p = 0; p < d->npreds; p++) {
						const struct hdl_node *on = &g[r]->nodes[g[r]->preds[d->pred0 + p]];

						if (on->kind == HDL_N_RECV)
							says[r][k] |= says[on->peer][on->sub];
					}
					/* the sender has waited for its message of the round before, so that message's ranks
					 * count, too */
					if (k && d->npreds)
						says[r][k] |= says[r][k - 1];
				}
		for (int r = 0; r < n; r++) {
			uint64_t known = 1ull << r;

			for (uint32_t i = 0; i < g[r]->nnodes; i++)
				if (g[r]->nodes[i].kind == HDL_N_RECV)
					known |= says[g[r]->nodes[i].peer][g[r]->nodes[i].sub];
			cr_assert_eq(known, (1ull << n) - 1, "rank %d of %d leaves before all are there", r, n);
			hdl_graph_free(g[r]);
		}
	}
}

/* Scratch of more bytes than can be counted is refused, not allocated a little smaller. */
Test(coll_graph, scratch_beyond_counting)
{
	struct hdl_gb *b;
	struct hdl_shape s = { .coll = HDL_ALLTOALL, .rank = 1, .size = 8, .bytes = SIZE_MAX / 8 + 1 };

	cr_assert_null(hdl_build_alltoall_bruck(&s));
	cr_assert_eq(errno, ENOMEM);
	s.coll = HDL_ALLGATHER;
	cr_assert_null(hdl_build_allgather_bruck(&s));
	b = hdl_gb_new("sum", NULL, 0);
	hdl_gb_tmp(b, 1, SIZE_MAX / 4);
	hdl_gb_tmp(b, 1, SIZE_MAX / 4);
	hdl_gb_tmp(b, 3, SIZE_MAX / 8);
	cr_assert_null(hdl_gb_finish(b));
}
