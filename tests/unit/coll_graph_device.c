/* SPDX-License-Identifier: BSD-3-Clause */
/* Graphs of the mailbox and the tasks executor, and the device's reductions. */
#include "coll_graph.h"

static const struct hdl_reduce_caps extended = { .vector = true, .atomics = true,
					   .calc = { .int_ops = 0x1d, .uint_ops = 0x1d, .fp_ops = 0x1d } };
static const struct hdl_reduce_caps plain = { .atomics = true, .calc = { .int_ops = 0x1d, .uint_ops = 0x1d, .fp_ops = 0x1d } };
static const struct hdl_reduce_caps atomics = { .atomics = true };

Test(coll_graph_device, offload_movement)
{
	static const struct {
		enum hdl_coll coll;
		const char *name;
		hdl_build_fn build;
	} what[] = {
		{ HDL_BARRIER, "cells", hdl_build_mailbox_barrier }, { HDL_BARRIER, "tree", hdl_build_tasks_barrier },
		{ HDL_BCAST, "cells", hdl_build_mailbox_bcast }, { HDL_BCAST, "tree", hdl_build_tasks_bcast },
	};

	for (size_t w = 0; w < COUNT(what); w++)
		for (int n = 2; n <= MAX_RANKS; n++)
			for (int radix = 2; radix <= 5; radix++)
				for (int root = 0; root < (what[w].coll == HDL_BCAST ? n : 1); root++) {
					struct hdl_algorithm a = { what[w].coll, what[w].name, what[w].build, NULL };
					struct job j = { .coll = a.coll, .algo = &a, .n = n, .root = root,
							 .type = rep_of(MPI_INT32_T), .op = MPI_OP_NULL,
							 .count = a.coll == HDL_BARRIER ? 0 : 37, .offload = true,
								 .radix = radix };

					run_job(&j, SIM_ANY_ORDER);
				}
}

/* The leader's signals follow the arrivals of all ranks, and every other rank exchanges signals with the leader only. */
Test(coll_graph_device, barriers_with_a_leader)
{
	for (int n = 3; n <= HDL_MAILBOX_RANKS; n++)
		for (int leader = 0; leader < n; leader++)
			for (int r = 0; r < n; r++) {
				struct hdl_shape s = {
					.coll = HDL_BARRIER, .rank = r, .size = n, .cell_bytes = 64, .leader = 1 + leader};
				struct hdl_graph *g = hdl_build_mailbox_barrier(&s);
				uint32_t arrivals = 0, puts = 0;

				for (uint32_t i = 0; i < g->nnodes; i++) {
					const struct hdl_node *d = &g->nodes[i];
					int sender = d->kind == HDL_N_PUT ? r : d->peer;

					cr_assert(r == leader || d->peer == leader);
					cr_assert_eq(d->dst_off, hdl_cell_data(64, sender, 0));
					*(d->kind == HDL_N_PUT ? &puts : &arrivals) += 1;
					cr_assert_eq(d->npreds, r == leader && d->kind == HDL_N_PUT ? (uint32_t)n - 1 : 0);
				}
				cr_assert_eq(puts, r == leader ? (uint32_t)n - 1 : 1);
				cr_assert_eq(arrivals, puts);
				hdl_graph_free(g);
			}
}

/* All collectives of the mailbox executor, from every root, in place and not. */
Test(coll_graph_device, direct_of_all)
{
	for (int c = HDL_BCAST; c < HDL_COLLS; c++)
		for (int n = 2; n <= HDL_MAILBOX_RANKS; n++)
			for (int root = 0; root < (hdl_coll_has_root((enum hdl_coll)c) ? n : 1); root++)
				for (int ip = 0; ip < (c == HDL_BCAST ? 1 : 2); ip++) {
					struct hdl_shape s = { .coll = (enum hdl_coll)c };
					const struct hdl_algorithm *a = hdl_tune_offload(HDL_EXEC_MAILBOX, &s);
					struct job j = { .coll = s.coll, .algo = a, .n = n, .root = root, .in_place = ip,
							 .type = rep_of(MPI_INT64_T), .count = 1 + draw(20), .offload = true,
							 .op = hdl_coll_reduces(s.coll) ? MPI_SUM : MPI_OP_NULL };

					cr_assert_not_null(a, "%s", hdl_coll_name(s.coll));
					run_job(&j, SIM_ANY_ORDER);
				}
}

/* All collectives of the tasks executor: from every root, in place and not, along trees of several radices. */
Test(coll_graph_device, tasks_of_all)
{
	static const int sizes[] = { 2, 3, 4, 5, 8, 13, 16, 17, 33 };

	for (int c = HDL_BARRIER; c < HDL_COLLS; c++)
		for (size_t k = 0; k < COUNT(sizes); k++)
			for (int radix = 2; radix < 6; radix++)
				for (int root = 0; root < (hdl_coll_has_root((enum hdl_coll)c) ? sizes[k] : 1);
				     root += 1 + sizes[k] / 8)
					for (int ip = 0; ip < (c <= HDL_BCAST ? 1 : 2); ip++) {
						struct job j = { .coll = (enum hdl_coll)c, .n = sizes[k], .root = root,
								 .in_place = ip,
								 .type = rep_of(draw(2) ? MPI_INT64_T : MPI_INT16_T), .count = c
								 ? 1 + draw(20) : 0, .offload = true, .radix = radix,
								 .op = hdl_coll_reduces((enum hdl_coll)c) ? MPI_SUM : MPI_OP_NULL,
								 .means = hdl_coll_reduces((enum hdl_coll)c) ? draw(2)
									 ? &extended : &plain : NULL };
						struct hdl_shape s = { .coll = j.coll, .size = j.n };

						j.algo = hdl_tune_offload(HDL_EXEC_TASKS, &s);
						if (j.algo)
							run_job(&j, SIM_ANY_ORDER);
						else
							cr_assert(c == HDL_SCAN || c == HDL_EXSCAN ||
								  (c == HDL_REDUCE_SCATTER && j.n == 33));
					}
}

/* All trees of one size and radix use the same links, and each rank has at most as many children as there are. */
Test(coll_graph_device, trees)
{
	for (int radix = 2; radix <= 16; radix++)
		for (int n = 2; n < 200; n += n < 40 ? 1 : 13) {
			int links = hdl_knomial_links(radix, n);

			cr_assert(hdl_knomial_distance(radix, links) >= n);
			for (int l = 0; l < links; l++) {
				cr_assert_lt(hdl_knomial_distance(radix, l), n);
				cr_assert_eq(hdl_knomial_link(radix, n, hdl_knomial_distance(radix, l)), l);
				cr_assert(!l || hdl_knomial_distance(radix, l) > hdl_knomial_distance(radix, l - 1));
			}
		}
}

/* Data end where the trailer begins, within their line, and are as aligned as they are large. */
Test(coll_graph_device, lines)
{
	for (size_t len = 0; len < 300; len++)
		for (int index = 0; index < 3; index++) {
			size_t bytes = hdl_cell_bytes(len), at = hdl_cell_data(bytes, index, len);

			cr_assert_eq(bytes % 64, 0);
			cr_assert(at >= (size_t)index * bytes);
			cr_assert_eq(at + len + HDL_CELL_TRAILER, ((size_t)index + 1) * bytes);
			for (size_t align = 2; align <= 16; align *= 2)
				cr_assert(len % align || at % align == 0, "%zu bytes at %zu", len, at);
		}
	cr_assert_eq(hdl_cell_bytes(48), 64);
	cr_assert_eq(hdl_cell_bytes(49), 128);
}

/* Each rank sends every other one line, its own; a broadcast has one line in all. */
Test(coll_graph_device, direct_graphs_write_lines_of_their_sender)
{
	for (int n = 2; n <= 16; n++)
		for (int r = 0; r < n; r++)
			for (int which = 0; which < 3; which++) {
				struct hdl_shape s = { .coll = HDL_ALLREDUCE, .rank = r, .size = n, .root = 1, .bytes = which
						       ? 40 : 0, .fn = hdl_op_lookup(MPI_SUM, hdl_type_get(MPI_INT64_T)),
						       .esize = 8, .cell_bytes = 64 };
				struct hdl_graph *g = which == 0 ? hdl_build_mailbox_barrier(&s) :
						      which == 1 ? hdl_build_mailbox_allreduce(&s) : hdl_build_mailbox_bcast(&s);
				int puts = 0, arrivals = 0;

				for (uint32_t i = 0; i < g->nnodes; i++) {
					const struct hdl_node *d = &g->nodes[i];
					int sender = d->kind == HDL_N_PUT ? r : d->peer;

					if (d->kind != HDL_N_PUT && d->kind != HDL_N_ARRIVE)
						continue;
					cr_assert_eq(d->link, HDL_LINK_MAILBOX);
					cr_assert_eq(d->dst_space, HDL_SP_CELL);
					cr_assert_eq(d->dst_off, hdl_cell_data(64, which == 2 ? 0 : sender, s.bytes));
					*(d->kind == HDL_N_PUT ? &puts : &arrivals) += 1;
				}
				cr_assert_eq(puts, which == 2 && r != 1 ? 0 : n - 1);
				cr_assert_eq(arrivals, which < 2 ? n - 1 : r != 1);
				hdl_graph_free(g);
			}
}

/* The device's result of one hop's operands equals the loops' result: elements through their form and back. */
Test(coll_graph_device, forms_for_the_device)
{
	static const struct hdl_reduce_caps *const all_means[] = { &extended, &plain, &atomics };

	for (size_t m = 0; m < COUNT(all_means); m++)
		for (size_t t = 0; t < COUNT(all_types); t++)
			for (size_t o = 0; o < COUNT(all_ops); o++) {
				const struct hdl_reptype *type = rep_of(all_types[t]);
				size_t es = size_of(type->rep), bytes = 13 * es;
				char in[13 * 32], form[13 * 32 * 16], out[13 * 32], why[128] = "";
				struct hdl_enc enc;

				if (!hdl_op_valid(all_ops[o], hdl_type_get(all_types[t])) ||
				    !hdl_enc_for(all_ops[o], hdl_type_get(all_types[t]), bytes, all_means[m], &enc, why,
						 sizeof(why)))
					continue;
				cr_assert_eq(enc.esize % es, enc.rep == HDL_REP_C32 || enc.rep == HDL_REP_C64 ? enc.esize : 0,
					     "%s", type->name);
				if (enc.by == HDL_ENC_BY_ATOMICS)
					continue;
				for (size_t i = 0; i < 13; i++)
					put_value(type, in + i * es, (int)i - 5);
				memset(out, 0, sizeof(out));
				cr_assert_leq(hdl_enc_bytes(&enc, bytes), sizeof(form));
				hdl_enc_encode(&enc, form, in, bytes);
				hdl_enc_decode(&enc, out, form, bytes);
				for (size_t i = 0; i < 13; i++) {
					bool logical = enc.in != HDL_ENC_SAME, is = false;

					for (size_t k = 0; k < es; k++)
						is |= in[i * es + k];
					cr_assert(logical ? out[i * es] == is : same_value(type, in + i * es, out + i * es),
						  "%s %s", hdl_op_name(all_ops[o]), type->name);
				}
			}
}

static void offload_reduction(enum hdl_coll coll, const char *name, hdl_build_fn build, const struct hdl_reduce_caps *means,
			      MPI_Datatype type, MPI_Op op, size_t count)
{
	for (int n = 2; n <= MAX_RANKS; n += 5)
		for (int ip = 0; ip < 2; ip++) {
			struct hdl_algorithm a = { coll, name, build, NULL };
			struct job j = { .coll = coll, .algo = &a, .n = n, .in_place = ip, .type = rep_of(type), .op = op,
					 .count = count, .offload = true, .means = means, .radix = 2 + n % 3,
						 .root = coll == HDL_REDUCE ? n / 2 : 0 };

			run_job(&j, SIM_ANY_ORDER);
		}
}

Test(coll_graph_device, offload_reductions)
{
	static const size_t counts[] = { 1, 3, 8, 100 };
	static const struct hdl_reduce_caps *const all_means[] = { NULL, &extended, &plain, &atomics };
	unsigned known[4] = { 0 };

	for (size_t t = 0; t < COUNT(all_types); t++)
		for (size_t o = 0; o < COUNT(all_ops); o++)
			for (size_t m = 0; m < COUNT(all_means); m++)
				for (size_t c = 0; c < COUNT(counts); c++) {
					const struct hdl_type *type = hdl_type_get(all_types[t]);
					size_t bytes = counts[c] * size_of(rep_of(all_types[t])->rep);
					struct hdl_enc enc = { 0 };
					char why[128] = "";

					if (!hdl_op_valid(all_ops[o], type))
						continue;
					/* mailbox: any operation will do */
					if (!all_means[m]) {
						offload_reduction(HDL_ALLREDUCE, "cells", hdl_build_mailbox_allreduce, NULL,
								  all_types[t], all_ops[o], counts[c]);
						continue;
					}
					if (!hdl_enc_for(all_ops[o], type, bytes, all_means[m], &enc, why, sizeof(why))) {
						cr_assert(strstr(why, "does not know"));
						continue;
					}
					known[m] += !c;
					if (enc.by == HDL_ENC_BY_ATOMICS) {
						offload_reduction(HDL_ALLREDUCE, "star", hdl_build_tasks_allreduce_star,
								  all_means[m], all_types[t], all_ops[o], counts[c]);
						continue;
					}
					offload_reduction(HDL_ALLREDUCE, "tree", hdl_build_tasks_allreduce, all_means[m],
							  all_types[t], all_ops[o], counts[c]);
					offload_reduction(HDL_REDUCE, "tree", hdl_build_tasks_reduce, all_means[m],
							  all_types[t], all_ops[o], counts[c]);
				}
	/* All that is valid but on long double (4), its complex (2), its pair (2), and products of the two complex. */
	cr_assert_eq(known[1], (18 + 3) * 10 + 3 * 4 + 3 + 3 + 3 * 2 + 6 * 2 - 4 - 2 - 2 - 2, "%u", known[1]);
	/* Integers: sums, bitwise, logical; the logical type, MPI_BYTE; with CALC sums of double, too. */
	cr_assert_eq(known[2], (18 + 3) * 7 + 3 + 3 + 1, "%u", known[2]);
	cr_assert_eq(known[3], (18 + 3) * 7 + 3 + 3, "%u", known[3]);
}

/* A slot is chosen by the graph's needs: the graphs of all ranks must need the same. */
static void need_the_same(struct hdl_shape s)
{
	const struct hdl_algorithm *a = hdl_tune_offload(HDL_EXEC_TASKS, &s);
	size_t acc_bytes = 0, data_bytes = 0;

	for (s.rank = 0; a && s.rank < s.size; s.rank++) {
		struct hdl_graph *g = a->build(&s);

		cr_assert_not_null(g);
		if (!s.rank) {
			acc_bytes = g->acc_bytes;
			data_bytes = g->data_bytes;
		}
		cr_assert(g->acc_bytes == acc_bytes && g->data_bytes == data_bytes,
			  "%s %s, rank %d of %d, %zu bytes: %zu and %zu, where rank 0 needs %zu and %zu", hdl_coll_name(s.coll),
			  a->name, s.rank, s.size, s.bytes, g->acc_bytes, g->data_bytes, acc_bytes, data_bytes);
		hdl_graph_free(g);
	}
}

Test(coll_graph_device, slots_are_of_one_size)
{
	static const struct hdl_reduce_caps *const all_means[] = { &extended, &plain, &atomics };
	static const size_t sizes[] = { 1, 24, 200, 1024, 3000 };
	const struct hdl_type *type = hdl_type_get(MPI_INT8_T);
	struct hdl_enc enc;

	for (int coll = 0; coll < HDL_COLLS; coll++)
		for (int n = 2; n <= MAX_RANKS; n++)
			for (size_t i = 0; i < COUNT(sizes); i++) {
				struct hdl_shape s = { .coll = (enum hdl_coll)coll, .size = n, .root = n - 1, .bytes = sizes[i],
						       .esize = 1, .radix = 3, .fn = hdl_op_lookup(MPI_SUM, type) };

				if (!hdl_coll_reduces(s.coll))
					need_the_same(s);
				for (size_t m = 0; hdl_coll_reduces(s.coll) && m < COUNT(all_means); m++) {
					cr_assert(hdl_enc_for(MPI_SUM, type, s.bytes, all_means[m], &enc, (char[128]){ 0 }, 128));
					s.enc = &enc;
					need_the_same(s);
				}
			}
}
