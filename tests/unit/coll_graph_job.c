/* SPDX-License-Identifier: BSD-3-Clause */
/* One collective of all ranks: values, the serial result, the run in the simulator, the comparison. */
#include <complex.h>

#include "coll_graph.h"

static unsigned rng = 12345;

unsigned draw(unsigned below)
{
	rng = rng * 1664525u + 1013904223u;
	return (unsigned)(((uint64_t)(rng >> 8) * below) >> 24);
}

/* ---- values ---------------------------------------------------------------------------------------------- */

const MPI_Op all_ops[ALL_OPS] = { MPI_SUM, MPI_MIN, MPI_MAX, MPI_PROD, MPI_BAND, MPI_BOR, MPI_BXOR, MPI_LAND, MPI_LOR,
				  MPI_LXOR, MPI_MINLOC, MPI_MAXLOC };
const MPI_Datatype all_types[ALL_TYPES] = {
	MPI_INT, MPI_LONG, MPI_SHORT, MPI_UNSIGNED_SHORT, MPI_UNSIGNED, MPI_UNSIGNED_LONG, MPI_LONG_LONG,
	MPI_UNSIGNED_LONG_LONG, MPI_SIGNED_CHAR, MPI_UNSIGNED_CHAR, MPI_INT8_T, MPI_UINT8_T, MPI_INT16_T, MPI_UINT16_T,
	MPI_INT32_T, MPI_UINT32_T, MPI_INT64_T, MPI_UINT64_T, MPI_AINT, MPI_COUNT, MPI_OFFSET, MPI_FLOAT, MPI_DOUBLE,
	MPI_LONG_DOUBLE, MPI_C_BOOL, MPI_BYTE, MPI_C_FLOAT_COMPLEX, MPI_C_DOUBLE_COMPLEX, MPI_C_LONG_DOUBLE_COMPLEX,
	MPI_FLOAT_INT, MPI_DOUBLE_INT, MPI_LONG_INT, MPI_2INT, MPI_SHORT_INT, MPI_LONG_DOUBLE_INT,
};
size_t size_of(enum hdl_rep rep)
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

void put_value(const struct hdl_reptype *t, char *p, int rank)
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

bool same_value(const struct hdl_reptype *t, const char *a, const char *b)
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

void run_job(const struct job *j, enum sim_mode mode)
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
		bool has_result = j->coll != HDL_BARRIER && (!rooted || root) &&
				  !(j->coll == HDL_SCATTER && j->in_place && root) && (j->coll != HDL_EXSCAN || r);
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

const struct hdl_reptype *rep_of(MPI_Datatype type)
{
	return hdl_reptype(hdl_type_get(type));
}

bool by_hosts(const struct hdl_algorithm *a)
{
	return a->build == hdl_build_hier;
}
