/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every algorithm, for 1 to 17 ranks, with and without MPI_IN_PLACE, every root, in any order that the graph allows and
 * in program order: the result is the serial one.
 */
#include <complex.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "coll_sim.h"
#include "collectives/select/select.h"

#define MAX_RANKS 17	/* of what is tried in all ways */
#define MOST_RANKS 33

static unsigned rng = 12345;
static unsigned draw(unsigned below)
{
	rng = rng * 1664525u + 1013904223u;
	return (unsigned)(((uint64_t)(rng >> 8) * below) >> 24);
}

/* ---- values ---------------------------------------------------------------------------------------------- */

static const MPI_Op all_ops[] = { MPI_SUM, MPI_MIN, MPI_MAX, MPI_PROD, MPI_BAND, MPI_BOR, MPI_BXOR, MPI_LAND, MPI_LOR,
				  MPI_LXOR, MPI_MINLOC, MPI_MAXLOC };
static const MPI_Datatype all_types[] = {
	MPI_INT, MPI_LONG, MPI_SHORT, MPI_UNSIGNED_SHORT, MPI_UNSIGNED, MPI_UNSIGNED_LONG, MPI_LONG_LONG,
	MPI_UNSIGNED_LONG_LONG, MPI_SIGNED_CHAR, MPI_UNSIGNED_CHAR, MPI_INT8_T, MPI_UINT8_T, MPI_INT16_T, MPI_UINT16_T,
	MPI_INT32_T, MPI_UINT32_T, MPI_INT64_T, MPI_UINT64_T, MPI_AINT, MPI_COUNT, MPI_OFFSET, MPI_FLOAT, MPI_DOUBLE,
	MPI_LONG_DOUBLE, MPI_C_BOOL, MPI_BYTE, MPI_C_FLOAT_COMPLEX, MPI_C_DOUBLE_COMPLEX, MPI_C_LONG_DOUBLE_COMPLEX,
	MPI_FLOAT_INT, MPI_DOUBLE_INT, MPI_LONG_INT, MPI_2INT, MPI_SHORT_INT, MPI_LONG_DOUBLE_INT,
};
#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* Packed: a pair's extent is larger where it has holes. */
static size_t size_of(enum hdl_rep rep)
{
	static const size_t sizes[HDL_REPS] = {
		[HDL_REP_I8] = 1, [HDL_REP_U8] = 1, [HDL_REP_I16] = 2, [HDL_REP_U16] = 2, [HDL_REP_I32] = 4,
		[HDL_REP_U32] = 4, [HDL_REP_I64] = 8, [HDL_REP_U64] = 8, [HDL_REP_F32] = 4, [HDL_REP_F64] = 8,
		[HDL_REP_FLD] = sizeof(long double), [HDL_REP_C32] = 8, [HDL_REP_C64] = 16,
		[HDL_REP_CLD] = sizeof(long double complex),
		[HDL_REP_P_F32_INT] = sizeof(float) + sizeof(int),
		[HDL_REP_P_F64_INT] = sizeof(double) + sizeof(int),
		[HDL_REP_P_LONG_INT] = sizeof(long) + sizeof(int),
		[HDL_REP_P_2INT] = sizeof(int) + sizeof(int),
		[HDL_REP_P_SHORT_INT] = sizeof(short) + sizeof(int),
		[HDL_REP_P_FLD_INT] = sizeof(long double) + sizeof(int),
	};

	return sizes[rep];
}

/* Values whose sums and products are exact in any order. */
static void put_value(const struct hdl_reptype *t, char *p, int rank)
{
	static const double reals[] = { 1, -1, 2, 0.5 };
	static const double parts[][2] = { { 1, 0 }, { -1, 0 }, { 0, 1 }, { 0, -1 }, { 1, 1 } };
	double re = parts[draw(5)][0], im = parts[draw(5)][1], v = reals[draw(4)];
	int small = (int)draw(3);

	switch (t->rep) {
	case HDL_REP_F32: *(float *)p = (float)v; break;
	case HDL_REP_F64: *(double *)p = v; break;
	case HDL_REP_FLD: *(long double *)p = v; break;
	case HDL_REP_C32: *(float complex *)p = (float)re + (float)im * I; break;
	case HDL_REP_C64: *(double complex *)p = re + im * I; break;
	case HDL_REP_CLD: *(long double complex *)p = re + im * I; break;
	case HDL_REP_P_F32_INT: memcpy(p, &(float){ (float)small }, sizeof(float)); break;
	case HDL_REP_P_F64_INT: memcpy(p, &(double){ small }, sizeof(double)); break;
	case HDL_REP_P_LONG_INT: memcpy(p, &(long){ small }, sizeof(long)); break;
	case HDL_REP_P_2INT: memcpy(p, &small, sizeof(int)); break;
	case HDL_REP_P_SHORT_INT: memcpy(p, &(short){ (short)small }, sizeof(short)); break;
	case HDL_REP_P_FLD_INT: memcpy(p, &(long double){ small }, sizeof(long double)); break;
	default:
		for (size_t i = 0; i < size_of(t->rep); i++)
			p[i] = (char)draw(256);
		/* Logical operations are dull on random words: make zeros frequent. */
		if (t->cls == HDL_CLASS_LOGICAL)
			p[0] = draw(8) != 0;
		else if (!draw(4))
			memset(p, 0, size_of(t->rep));
	}
	if (t->cls == HDL_CLASS_PAIR)
		memcpy(p + size_of(t->rep) - sizeof(int), &rank, sizeof(int));
}

static bool same_value(const struct hdl_reptype *t, const char *a, const char *b)
{
	long double x, y;

	switch (t->rep) {
	case HDL_REP_FLD: return *(const long double *)a == *(const long double *)b;
	case HDL_REP_CLD: return *(const long double complex *)a == *(const long double complex *)b;
	case HDL_REP_F32: return *(const float *)a == *(const float *)b;
	case HDL_REP_F64: return *(const double *)a == *(const double *)b;
	case HDL_REP_C32: return *(const float complex *)a == *(const float complex *)b;
	case HDL_REP_C64: return *(const double complex *)a == *(const double complex *)b;
	case HDL_REP_P_FLD_INT:
		memcpy(&x, a, sizeof(x));
		memcpy(&y, b, sizeof(y));
		return x == y && !memcmp(a + sizeof(x), b + sizeof(y), sizeof(int));
	default: return !memcmp(a, b, size_of(t->rep));
	}
}

/* ---- one collective, all ranks ----------------------------------------------------------------------------- */

#define GUARD 64
#define POISON 0x5a

struct job {
	enum hdl_coll coll;
	const struct hdl_algorithm *algo;
	int n, root;
	bool in_place;
	const struct hdl_reptype *type;
	MPI_Op op;
	size_t count;		/* elements of the buffer, or of one block */
	bool offload;
	const struct hdl_reduce_caps *means;
	int radix;
	const struct hdl_hosts *hosts;
};

static char *guarded(size_t bytes)
{
	char *p = aligned_alloc(64, (bytes + 2 * GUARD + 63) & ~(size_t)63);

	memset(p, POISON, bytes + 2 * GUARD);
	return p + GUARD;
}

static bool intact(const char *p, size_t bytes)
{
	for (size_t i = 0; i < GUARD; i++)
		if (p[-1 - (ptrdiff_t)i] != POISON || p[bytes + i] != POISON)
			return false;
	return true;
}

static void say(const struct job *j, const char *text, int rank)
{
	cr_assert_fail("%s %s, %d ranks, root %d, in_place %d, %zu x %s %s: rank %d: %s", hdl_coll_name(j->coll), j->algo->name,
		       j->n, j->root, j->in_place, j->count, j->type->name, hdl_op_name(j->op), rank, text);
}

static void run_job(const struct job *j, enum sim_mode mode)
{
	size_t es = size_of(j->type->rep), block = j->count * es, n = (size_t)j->n;
	bool many_in = j->coll == HDL_ALLTOALL || j->coll == HDL_SCATTER || j->coll == HDL_REDUCE_SCATTER;
	bool many_out = j->coll == HDL_ALLTOALL || j->coll == HDL_ALLGATHER || j->coll == HDL_GATHER;
	bool root_only = j->coll == HDL_REDUCE || j->coll == HDL_GATHER || j->coll == HDL_SCATTER;	/* in place */
	size_t in_bytes = many_in ? n * block : block, out_bytes = many_out ? n * block : block;
	size_t recv_bytes = in_bytes > out_bytes ? in_bytes : out_bytes;
	char *expect = calloc(n + 1, out_bytes + 1), *input = calloc(n, in_bytes + 1);
	struct sim_rank ranks[MOST_RANKS] = { 0 };
	hdl_op_fn fn = j->op == MPI_OP_NULL ? NULL : hdl_op_lookup(j->op, hdl_type_get(j->type->handle));
	struct hdl_enc enc = { 0 };
	const char *error;

	size_t data;

	if (j->means && fn)
		cr_assert(hdl_enc_for(j->op, hdl_type_get(j->type->handle), block, j->means, &enc, (char[128]){ 0 }, 128));
	data = (size_t)(hdl_knomial_links(j->radix ? j->radix : 2, j->n) + 2) * (hdl_enc_bytes(&enc, block) + 64) +
	       (2 * n + 1) * (block + hdl_enc_bytes(&enc, block) + 128);
	for (size_t r = 0; r < n; r++)
		for (size_t i = 0; i * es < in_bytes; i++)
			put_value(j->type, input + r * in_bytes + i * es, (int)r);

	/* The serial answer. */
	for (size_t r = 0; r < n; r++) {
		char *e = expect + r * out_bytes;

		switch (j->coll) {
		case HDL_GATHER:
			for (size_t k = 0; k < n; k++)
				memcpy(e + k * block, input + k * in_bytes, block);
			break;
		case HDL_SCATTER:
			memcpy(e, input + (size_t)j->root * in_bytes + r * block, block);
			break;
		case HDL_REDUCE_SCATTER:
		case HDL_SCAN:
		case HDL_EXSCAN:
			for (size_t k = 0; k < (j->coll == HDL_SCAN ? r + 1 : j->coll == HDL_EXSCAN ? r : n) && j->count; k++) {
				const char *part = input + k * in_bytes + (j->coll == HDL_REDUCE_SCATTER ? r * block : 0);
				char *tmp = malloc(block);

				memcpy(tmp, part, block);
				if (k)
					fn(tmp, e, j->count);
				else
					memcpy(e, part, block);
				free(tmp);
			}
			break;
		case HDL_BCAST:
			memcpy(e, input + (size_t)j->root * in_bytes, block);
			break;
		case HDL_REDUCE:
		case HDL_ALLREDUCE:
			memcpy(e, input, block);
			for (size_t k = 1; k < n && j->count; k++) {
				char *tmp = malloc(block);

				memcpy(tmp, input + k * in_bytes, block);
				fn(tmp, e, j->count);
				free(tmp);
			}
			/* One rank's logical value is not normalised. */
			break;
		case HDL_ALLGATHER:
			for (size_t k = 0; k < n; k++)
				memcpy(e + k * block, input + k * in_bytes, block);
			break;
		case HDL_ALLTOALL:
			for (size_t k = 0; k < n; k++)
				memcpy(e + k * block, input + k * in_bytes + r * block, block);
			break;
		default:
			break;
		}
	}

	for (size_t r = 0; r < n; r++) {
		struct hdl_shape s = { .coll = j->coll, .rank = (int)r, .size = j->n, .root = j->root, .bytes = block,
				       .in_place = j->in_place && (!root_only || (int)r == j->root), .fn = fn,
				       .esize = es, .cell_bytes = hdl_cell_bytes(block), .radix = j->radix ? j->radix : 2,
				       .enc = enc.by ? &enc : NULL, .hosts = j->hosts };
		struct sim_rank *k = &ranks[r];

		k->g = j->algo->build(&s);
		cr_assert_not_null(k->g);
		k->space[HDL_SP_SEND] = guarded(in_bytes);
		k->space[HDL_SP_RECV] = guarded(recv_bytes);
		k->space[HDL_SP_TMP] = guarded(k->g->tmp_bytes);
		k->space[HDL_SP_ACC] = guarded(block + 8);
		k->space[HDL_SP_DATA] = guarded(data);
		k->space[HDL_SP_CELL] = guarded(n * s.cell_bytes);
		memset(k->space[HDL_SP_ACC], 0, block + 8);
		if (j->coll == HDL_BCAST) {
			if ((int)r == j->root)
				memcpy(k->space[HDL_SP_RECV], input + r * in_bytes, block);
		} else if (s.in_place && j->coll != HDL_SCATTER) {
			memcpy(k->space[HDL_SP_RECV] + (j->coll == HDL_ALLGATHER || j->coll == HDL_GATHER ? r * block : 0),
			       input + r * in_bytes, in_bytes);
		} else {
			memcpy(k->space[HDL_SP_SEND], input + r * in_bytes, in_bytes);
		}
	}

	error = sim_run(ranks, j->n, mode, j->offload ? &enc : NULL, draw(1u << 30));
	if (error)
		say(j, error, -1);
	for (size_t r = 0; r < n; r++) {
		struct sim_rank *k = &ranks[r];
		bool root = (int)r == j->root, rooted = j->coll == HDL_REDUCE || j->coll == HDL_GATHER;
		bool has_result = j->coll != HDL_BARRIER && (!rooted || root) && !(j->coll == HDL_SCATTER && j->in_place && root) &&
				  (j->coll != HDL_EXSCAN || r);
		bool keeps_input = j->coll != HDL_BCAST && (j->coll == HDL_SCATTER || !j->in_place || (root_only && !root));

		for (size_t i = 0; has_result && i * es < out_bytes; i++)
			if (!same_value(j->type, k->space[HDL_SP_RECV] + i * es, expect + r * out_bytes + i * es))
				say(j, "wrong result", (int)r);
		if (!intact(k->space[HDL_SP_SEND], in_bytes) || !intact(k->space[HDL_SP_RECV], recv_bytes) ||
		    !intact(k->space[HDL_SP_TMP], k->g->tmp_bytes) || !intact(k->space[HDL_SP_ACC], block + 8) ||
		    !intact(k->space[HDL_SP_DATA], data) ||
		    !intact(k->space[HDL_SP_CELL], n * hdl_cell_bytes(block)))
			say(j, "wrote outside of its buffers", (int)r);
		if (keeps_input && memcmp(k->space[HDL_SP_SEND], input + r * in_bytes, in_bytes))
			say(j, "changed its sendbuf", (int)r);
		if (j->coll == HDL_EXSCAN && !r && j->in_place && memcmp(k->space[HDL_SP_RECV], input, in_bytes))
			say(j, "changed rank 0's contribution in place", (int)r);
		if ((rooted && !root) || (j->coll == HDL_EXSCAN && !r && !j->in_place))
			for (size_t i = 0; i < out_bytes; i++)
				if (k->space[HDL_SP_RECV][i] != POISON)
					say(j, "wrote to a recvbuf that is not significant", (int)r);
		for (int sp = 0; sp < HDL_SPACES; sp++)
			free(k->space[sp] - GUARD);
		hdl_graph_free(k->g);
	}
	free(expect);
	free(input);
}

static const struct hdl_reptype *rep_of(MPI_Datatype type)
{
	return hdl_reptype(hdl_type_get(type));
}

static void both_modes(const struct job *j)
{
	run_job(j, SIM_ANY_ORDER);
	run_job(j, SIM_PROGRAM_ORDER);
}

/* Algorithms that need several hosts have tests of their own. */
static bool by_hosts(const struct hdl_algorithm *a)
{
	return a->build == hdl_build_hier;
}

/* ---- tests ----------------------------------------------------------------------------------------------- */

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
								 .type = rep_of(MPI_INT32_T), .op = MPI_OP_NULL, .count = counts[c] };
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

static const struct hdl_reduce_caps extended = { .vector = true, .atomics = true,
					   .calc = { .int_ops = 0x1d, .uint_ops = 0x1d, .fp_ops = 0x1d } };
static const struct hdl_reduce_caps plain = { .atomics = true, .calc = { .int_ops = 0x1d, .uint_ops = 0x1d, .fp_ops = 0x1d } };
static const struct hdl_reduce_caps atomics = { .atomics = true };

Test(coll_graph, offload_movement)
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
					struct job j = { .coll = a.coll, .algo = &a, .n = n, .root = root, .type = rep_of(MPI_INT32_T),
							 .op = MPI_OP_NULL, .count = a.coll == HDL_BARRIER ? 0 : 37, .offload = true,
							 .radix = radix };

					run_job(&j, SIM_ANY_ORDER);
				}
}

/* The leader hears of all before it answers anybody, and the others of it alone. */
Test(coll_graph, barriers_with_a_leader)
{
	for (int n = 3; n <= HDL_MAILBOX_RANKS; n++)
		for (int leader = 0; leader < n; leader++)
			for (int r = 0; r < n; r++) {
				struct hdl_shape s = { .coll = HDL_BARRIER, .rank = r, .size = n, .cell_bytes = 64, .leader = 1 + leader };
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

/* Whatever the mailbox executor has, from every root, in place and not. */
Test(coll_graph, direct_of_all)
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

/* Whatever the tasks executor has: from every root, in place and not, along trees of several radices. */
Test(coll_graph, tasks_of_all)
{
	static const int sizes[] = { 2, 3, 4, 5, 8, 13, 16, 17, 33 };

	for (int c = HDL_BARRIER; c < HDL_COLLS; c++)
		for (size_t k = 0; k < COUNT(sizes); k++)
			for (int radix = 2; radix < 6; radix++)
				for (int root = 0; root < (hdl_coll_has_root((enum hdl_coll)c) ? sizes[k] : 1); root += 1 + sizes[k] / 8)
					for (int ip = 0; ip < (c <= HDL_BCAST ? 1 : 2); ip++) {
						struct job j = { .coll = (enum hdl_coll)c, .n = sizes[k], .root = root, .in_place = ip,
								 .type = rep_of(draw(2) ? MPI_INT64_T : MPI_INT16_T),
								 .count = c ? 1 + draw(20) : 0, .offload = true, .radix = radix,
								 .op = hdl_coll_reduces((enum hdl_coll)c) ? MPI_SUM : MPI_OP_NULL,
								 .means = hdl_coll_reduces((enum hdl_coll)c) ? draw(2) ? &extended : &plain : NULL };
						struct hdl_shape s = { .coll = j.coll, .size = j.n };

						j.algo = hdl_tune_offload(HDL_EXEC_TASKS, &s);
						if (j.algo)
							run_job(&j, SIM_ANY_ORDER);
						else
							cr_assert(c == HDL_SCAN || c == HDL_EXSCAN || (c == HDL_REDUCE_SCATTER && j.n == 33));
					}
}

/* All trees of one size and radix use the same links, and each rank has at most as many children as there are. */
Test(coll_graph, trees)
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
Test(coll_graph, lines)
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
Test(coll_graph, direct_graphs_write_lines_of_their_sender)
{
	for (int n = 2; n <= 16; n++)
		for (int r = 0; r < n; r++)
			for (int which = 0; which < 3; which++) {
				struct hdl_shape s = { .coll = HDL_ALLREDUCE, .rank = r, .size = n, .root = 1, .bytes = which ? 40 : 0,
						       .fn = hdl_op_lookup(MPI_SUM, hdl_type_get(MPI_INT64_T)), .esize = 8,
						       .cell_bytes = 64 };
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

/* What the device makes of one hop's operands is what the loops make of them: elements through their form and back. */
Test(coll_graph, forms_for_the_device)
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
				    !hdl_enc_for(all_ops[o], hdl_type_get(all_types[t]), bytes, all_means[m], &enc, why, sizeof(why)))
					continue;
				cr_assert_eq(enc.esize % es, enc.rep == HDL_REP_C32 || enc.rep == HDL_REP_C64 ? enc.esize : 0, "%s", type->name);
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
					cr_assert(logical ? out[i * es] == is : same_value(type, in + i * es, out + i * es), "%s %s",
						  hdl_op_name(all_ops[o]), type->name);
				}
			}
}

static void offload_reduction(enum hdl_coll coll, const char *name, hdl_build_fn build, const struct hdl_reduce_caps *means,
			      MPI_Datatype type, MPI_Op op, size_t count)
{
	for (int n = 2; n <= MAX_RANKS; n += 5)
		for (int ip = 0; ip < 2; ip++) {
			struct hdl_algorithm a = { coll, name, build, NULL };
			struct job j = { .coll = coll, .algo = &a, .n = n, .in_place = ip, .type = rep_of(type), .op = op, .count = count,
					 .offload = true, .means = means, .radix = 2 + n % 3, .root = coll == HDL_REDUCE ? n / 2 : 0 };

			run_job(&j, SIM_ANY_ORDER);
		}
}

Test(coll_graph, offload_reductions)
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
						offload_reduction(HDL_ALLREDUCE, "cells", hdl_build_mailbox_allreduce, NULL, all_types[t],
								  all_ops[o], counts[c]);
						continue;
					}
					if (!hdl_enc_for(all_ops[o], type, bytes, all_means[m], &enc, why, sizeof(why))) {
						cr_assert(strstr(why, "does not know"));
						continue;
					}
					known[m] += !c;
					if (enc.by == HDL_ENC_BY_ATOMICS) {
						offload_reduction(HDL_ALLREDUCE, "star", hdl_build_tasks_allreduce_star, all_means[m],
								  all_types[t], all_ops[o], counts[c]);
						continue;
					}
					offload_reduction(HDL_ALLREDUCE, "tree", hdl_build_tasks_allreduce, all_means[m], all_types[t],
							  all_ops[o], counts[c]);
					offload_reduction(HDL_REDUCE, "tree", hdl_build_tasks_reduce, all_means[m], all_types[t], all_ops[o],
							  counts[c]);
				}
	/* All that is valid but on long double (4), its complex (2), its pair (2), and products of the two complex. */
	cr_assert_eq(known[1], (18 + 3) * 10 + 3 * 4 + 3 + 3 + 3 * 2 + 6 * 2 - 4 - 2 - 2 - 2, "%u", known[1]);
	/* Integers: sums, bitwise, logical; the logical type, MPI_BYTE; with CALC sums of double, too. */
	cr_assert_eq(known[2], (18 + 3) * 7 + 3 + 3 + 1, "%u", known[2]);
	cr_assert_eq(known[3], (18 + 3) * 7 + 3 + 3, "%u", known[3]);
}

/* Slots are chosen by what a graph needs: all ranks' graphs must need the same. */
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
			  "%s %s, rank %d of %d, %zu bytes: %zu and %zu, where rank 0 needs %zu and %zu", hdl_coll_name(s.coll), a->name, s.rank,
			  s.size, s.bytes, g->acc_bytes, g->data_bytes, acc_bytes, data_bytes);
		hdl_graph_free(g);
	}
}

Test(coll_graph, slots_are_of_one_size)
{
	static const struct hdl_reduce_caps *const all_means[] = { &extended, &plain, &atomics };
	static const size_t sizes[] = { 1, 24, 200, 1024, 3000 };
	const struct hdl_type *type = hdl_type_get(MPI_INT8_T);
	struct hdl_enc enc;

	for (int coll = 0; coll < HDL_COLLS; coll++)
		for (int n = 2; n <= MAX_RANKS; n++)
			for (size_t i = 0; i < COUNT(sizes); i++) {
				struct hdl_shape s = { .coll = (enum hdl_coll)coll, .size = n, .root = n - 1, .bytes = sizes[i], .esize = 1, .radix = 3,
						       .fn = hdl_op_lookup(MPI_SUM, type) };

				if (!hdl_coll_reduces(s.coll))
					need_the_same(s);
				for (size_t m = 0; hdl_coll_reduces(s.coll) && m < COUNT(all_means); m++) {
					cr_assert(hdl_enc_for(MPI_SUM, type, s.bytes, all_means[m], &enc, (char[128]){ 0 }, 128));
					s.enc = &enc;
					need_the_same(s);
				}
			}
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
				struct hdl_shape s = { .coll = (enum hdl_coll)coll, .size = n, .bytes = bytes, .esize = 1, .oversubscribed = n % 2 };
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

/* Nobody leaves a barrier that somebody has not reached: a signal says of whom its sender had signals. */
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
					/* what the message before said, this one's sender has waited for */
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

/* ---- two levels: which ranks share a host ---------------------------------------------------------------------- */

struct placement {
	const char *name;
	int n, host[MOST_RANKS];
};

static const struct placement placements[] = {
	{ "2 x 2", 4, { 0, 0, 1, 1 } },
	{ "2 x 2 by turns", 4, { 0, 1, 0, 1 } },
	{ "2 x 4", 8, { 0, 0, 0, 0, 1, 1, 1, 1 } },
	{ "3 + 1", 4, { 0, 0, 0, 1 } },
	{ "1 + 3, numbered the other way round", 4, { 7, 2, 2, 2 } },
	{ "3 x 3 by turns", 9, { 2, 0, 1, 2, 0, 1, 2, 0, 1 } },
	{ "4 x 2 and 1, anyhow", 9, { 3, 1, 0, 3, 2, 1, 2, 0, 5 } },
	{ "5 + 1 + 2", 8, { 0, 0, 0, 0, 0, 1, 2, 2 } },
	{ "5 x 3", 15, { 0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4 } },
	{ "7 x 2 by turns", 14, { 0, 1, 2, 3, 4, 5, 6, 0, 1, 2, 3, 4, 5, 6 } },
};

static int node_of(const void *arg, int rank)
{
	return ((const struct placement *)arg)->host[rank];
}

static struct hdl_hosts *hosts_of(const struct placement *p)
{
	struct hdl_hosts *h;

	cr_assert_eq(hdl_hosts_make(p->n, node_of, p, &h), 0);
	return h;
}

Test(coll_graph, who_shares_a_host)
{
	static const struct placement alone = { "alone", 3, { 2, 0, 1 } }, one = { "one host", 3, { 4, 4, 4 } },
				      unknown = { "unknown", 3, { 0, 0, -1 } };

	cr_assert_null(hosts_of(&alone));
	cr_assert_null(hosts_of(&one));
	cr_assert_null(hosts_of(&unknown));
	for (size_t p = 0; p < COUNT(placements); p++) {
		struct hdl_hosts *h = hosts_of(&placements[p]);
		int last = -1;

		cr_assert_not_null(h);
		cr_assert_eq(h->first[h->n], placements[p].n);
		for (int host = 0, most = 0; host < h->n; host++) {
			int lowest = hdl_hosts_rank(h, h->first[host]), before = -1;

			cr_assert_gt(lowest, last, "%s: hosts are not in the order of their lowest ranks", placements[p].name);
			last = lowest;
			most = hdl_hosts_ranks_of(h, host) > most ? hdl_hosts_ranks_of(h, host) : most;
			cr_assert(host < h->n - 1 || most == h->most);
			for (int place = h->first[host]; place < h->first[host + 1]; place++) {
				int rank = hdl_hosts_rank(h, place);

				cr_assert_gt(rank, before);
				before = rank;
				cr_assert_eq(placements[p].host[rank], placements[p].host[lowest]);
				cr_assert_eq(hdl_hosts_place(h, rank), place);
				cr_assert_eq(hdl_hosts_of_place(h, place), host);
			}
		}
		free(h);
	}
	/* one number for each host is all where ranks follow each other */
	for (size_t p = 0; p < COUNT(placements); p++) {
		struct hdl_hosts *h = hosts_of(&placements[p]);
		bool blocks = true;

		for (int place = 0; place < placements[p].n; place++)
			blocks &= hdl_hosts_rank(h, place) == place;
		cr_assert_eq(!h->order, blocks, "%s", placements[p].name);
		free(h);
	}
}

Test(coll_graph, two_levels)
{
	static const size_t counts[] = { 1, 40, 2000, 40001 };	/* the longer ones in segments, and by other algorithms */

	for (size_t p = 0; p < COUNT(placements); p++) {
		struct hdl_hosts *h = hosts_of(&placements[p]);

		for (const struct hdl_algorithm *a = hdl_host_algorithms; a->name; a++)
			for (int root = 0; by_hosts(a) && root < (hdl_coll_has_root(a->coll) ? placements[p].n : 1); root++)
				for (size_t c = 0; c < (placements[p].n <= 4 ? 4 : root % 4 ? 2 : 3); c++)
					for (int ip = 0; ip < (a->coll == HDL_BCAST || a->coll == HDL_BARRIER ? 1 : 2); ip++) {
						struct job j = { .coll = a->coll, .algo = a, .n = placements[p].n, .root = root, .in_place = ip,
								 .type = rep_of(MPI_INT64_T), .count = counts[c], .hosts = h,
								 .op = hdl_coll_reduces(a->coll) ? MPI_SUM : MPI_OP_NULL };

						if (c < 2)
							run_job(&j, SIM_PROGRAM_ORDER);
						run_job(&j, SIM_ANY_ORDER);
					}
		free(h);
	}
}

/* Of all that goes between hosts a leader has its own part, and no other rank any: that is what two levels are for. */
Test(coll_graph, only_leaders_send_to_other_hosts)
{
	for (size_t p = 0; p < COUNT(placements); p++) {
		struct hdl_hosts *h = hosts_of(&placements[p]);

		for (const struct hdl_algorithm *a = hdl_host_algorithms; a->name; a++)
			for (int rank = 0; by_hosts(a) && rank < placements[p].n; rank++) {
				struct hdl_shape s = { .coll = a->coll, .rank = rank, .size = placements[p].n, .root = 1, .bytes = 4096, .esize = 8,
						       .fn = hdl_op_lookup(MPI_SUM, hdl_type_get(MPI_INT64_T)), .hosts = h };
				struct hdl_graph *g = a->build(&s);
				const int *host = placements[p].host;
				bool lowest = true, root = hdl_coll_has_root(a->coll) && host[rank] == host[1];

				for (int r = 0; r < rank; r++)
					lowest &= host[r] != host[rank];
				for (uint32_t i = 0; i < g->nnodes; i++)
					if (g->nodes[i].peer >= 0 && host[g->nodes[i].peer] != host[rank])
						cr_assert(root ? rank == 1 : lowest, "%s, %s: rank %d has to do with rank %d of another host",
							  placements[p].name, hdl_coll_name(a->coll), rank, g->nodes[i].peer);
				hdl_graph_free(g);
			}
		free(h);
	}
}

/* The messages of a graph with ranks of other hosts, or of the own one: how many, and what tells them apart, in any order. */
static uint64_t messages(const struct hdl_graph *g, const int *host, int rank, bool others)
{
	uint64_t n = 0;

	for (uint32_t i = 0; i < g->nnodes; i++) {
		const struct hdl_node *d = &g->nodes[i];

		if (d->peer >= 0 && (host[d->peer] != host[rank]) == others)
			n += 1 + ((uint64_t)d->kind * 31 + (uint64_t)d->peer * 131 + (uint64_t)d->sub * 7919 + d->len * 65537) * 1000;
	}
	return n;
}

/* Stages have the same messages between hosts, and none within. */
Test(coll_graph, stages_between_hosts_are_those_of_two_levels)
{
	static const enum hdl_coll colls[] = { HDL_BARRIER, HDL_BCAST, HDL_REDUCE, HDL_ALLREDUCE };

	for (size_t p = 0; p < COUNT(placements); p++) {
		struct hdl_hosts *h = hosts_of(&placements[p]);
		const int *host = placements[p].host;

		for (size_t c = 0; c < COUNT(colls); c++)
			for (int rank = 0; rank < placements[p].n; rank++) {
				struct hdl_shape s = { .coll = colls[c], .rank = rank, .size = placements[p].n, .root = placements[p].n - 1,
						       .bytes = 4096, .esize = 8, .fn = hdl_op_lookup(MPI_SUM, hdl_type_get(MPI_INT64_T)),
						       .hosts = h };
				struct hdl_graph *whole = hdl_build_hier(&s), *between;

				s.leaders_only = true;
				between = hdl_build_hier(&s);
				cr_assert_eq(messages(between, host, rank, false), 0);
				cr_assert_eq(messages(between, host, rank, true), messages(whole, host, rank, true), "%s, %s: rank %d",
					     placements[p].name, hdl_coll_name(colls[c]), rank);
				hdl_graph_free(whole);
				hdl_graph_free(between);
			}
		free(h);
	}
}

static uint64_t *says_of(struct hdl_graph *g, uint64_t *says, int to, uint32_t sub)
{
	for (uint32_t i = 0; i < g->nnodes; i++)
		if (g->nodes[i].kind == HDL_N_SEND && g->nodes[i].peer == to && g->nodes[i].sub == sub)
			return &says[i];
	cr_assert_fail("nobody sends rank %d a message of sub %u", to, sub);
	return NULL;
}

Test(coll_graph, two_level_barriers_wait_for_all)
{
	for (size_t p = 0; p < COUNT(placements); p++) {
		struct hdl_hosts *h = hosts_of(&placements[p]);
		uint64_t says[MOST_RANKS][32] = { 0 };	/* of whom a node knows that they are there */
		struct hdl_graph *g[MOST_RANKS];
		int n = placements[p].n;

		for (int r = 0; r < n; r++) {
			g[r] = hdl_build_hier(&(struct hdl_shape){ .coll = HDL_BARRIER, .rank = r, .size = n, .hosts = h });
			cr_assert(g[r] && g[r]->nnodes <= 32);
		}
		for (int turn = 0; turn < 32; turn++)
			for (int r = 0; r < n; r++)
				for (uint32_t i = 0; i < g[r]->nnodes; i++) {
					const struct hdl_node *d = &g[r]->nodes[i];

					says[r][i] |= 1ull << r;
					for (uint32_t k = 0; k < d->npreds; k++)
						says[r][i] |= says[r][g[r]->preds[d->pred0 + k]];
					if (d->kind == HDL_N_RECV)
						says[r][i] |= *says_of(g[d->peer], says[d->peer], r, d->sub);
				}
		for (int r = 0; r < n; r++) {
			uint64_t known = 0;

			for (uint32_t i = 0; i < g[r]->nnodes; i++)
				known |= says[r][i];
			cr_assert_eq(known, (1ull << n) - 1, "%s: rank %d leaves before all are there", placements[p].name, r);
			hdl_graph_free(g[r]);
		}
		free(h);
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
