/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reduce, Allreduce, Reduce_scatter_block (MPI-5.0 sections 6.9.1, 6.9.6, 6.10.1). All predefined operations are commutative,
 * but not bit by bit: the NaN that a sum gives, and the result of MIN and MAX for a NaN and a number, or for zeros of both
 * signs, depend on the operands' sides. All ranks of an Allreduce must have the same bits, so each partial result is either
 * computed on one rank and copied, or computed on several ranks from the same operands on the same sides.
 */
#include "collectives/algorithms/algorithms.h"

/* A binomial tree towards the root; each rank adds its children's partial results to its own input. */
struct hdl_graph *hdl_build_reduce_binomial(const struct hdl_shape *s)
{
	struct hdl_gb *b = hdl_gb_new("binomial", s->fn, s->esize);
	int v = (s->rank - s->root + s->size) % s->size, nlandings = 0;
	struct hdl_ref acc = hdl_ref(hdl_input(s), 0), in[2];
	bool may_write = v == 0 && s->in_place;	/* acc may be written */

	if (!b)
		return NULL;
	in[0] = in[1] = hdl_ref(HDL_SP_TMP, 0);
	for (int bit = 1; bit < s->size && !(v & bit); bit *= 2) {
		int child = v + bit;

		if (child >= s->size)
			continue;
		child = (child + s->root) % s->size;
		if (!may_write) {
			/* The first child's result lands in the memory of the sum, and the input is added to the sum. */
			struct hdl_ref sum = hdl_ref(v ? HDL_SP_TMP : HDL_SP_RECV, 0);

			if (v)
				sum.off = hdl_gb_tmp(b, 1, s->bytes);
			hdl_gb_recv(b, child, 0, sum, s->bytes);
			hdl_gb_reduce(b, sum, acc, s->bytes);
			acc = sum;
			may_write = true;
			continue;
		}
		/* Two landing buffers, alternating: one child's data arrive while another child's are added. */
		if (nlandings < 2)
			in[nlandings] = hdl_gb_scratch(b, 1, s->bytes);
		hdl_gb_recv(b, child, 0, in[nlandings & 1], s->bytes);
		hdl_gb_reduce(b, acc, in[nlandings & 1], s->bytes);
		nlandings++;
	}
	if (v)
		hdl_gb_send(b, (v - (v & -v) + s->root) % s->size, 0, acc, s->bytes);
	else if (!may_write)
		hdl_gb_copy(b, hdl_ref(HDL_SP_RECV, 0), acc, s->bytes);
	return hdl_gb_finish(b);
}

/* Reduce-scatter by direct exchange: each rank sends part i of its input to rank i, and adds the parts it receives into sum. */
static void scatter_parts(struct hdl_gb *b, const struct hdl_shape *s, struct hdl_ref sum)
{
	int n = s->size;
	size_t lo = hdl_part(s->bytes, s->esize, n, s->rank), len = hdl_part(s->bytes, s->esize, n, s->rank + 1) - lo;
	enum hdl_space input = hdl_input(s);
	struct hdl_ref mine = hdl_ref(input, lo), in[2];
	bool in_place = sum.space == mine.space && sum.off == mine.off;

	/* Two landing buffers, alternating: one rank's data arrive while another rank's are added. */
	in[0] = hdl_gb_scratch(b, 1, len);
	in[1] = hdl_gb_scratch(b, 1, len);
	for (int k = 1; k < n; k++) {
		int to = (s->rank + k) % n, from = (s->rank - k + n) % n;
		size_t tlo = hdl_part(s->bytes, s->esize, n, to), tlen = hdl_part(s->bytes, s->esize, n, to + 1) - tlo;

		hdl_gb_send(b, to, 0, hdl_ref(input, tlo), tlen);
		if (k == 1 && !in_place) {
			hdl_gb_recv(b, from, 0, sum, len);
			hdl_gb_reduce(b, sum, mine, len);
			continue;
		}
		hdl_gb_recv(b, from, 0, in[k & 1], len);
		hdl_gb_reduce(b, sum, in[k & 1], len);
	}
	if (n == 1 && !in_place)
		hdl_gb_copy(b, sum, mine, len);
}

/* Reduce-scatter by direct exchange, then the parts go to the root: each rank moves the data once, for any P. */
struct hdl_graph *hdl_build_reduce_scatter_gather(const struct hdl_shape *s)
{
	struct hdl_gb *b = hdl_gb_new("scatter-gather", s->fn, s->esize);
	size_t lo = hdl_part(s->bytes, s->esize, s->size, s->rank);
	size_t len = hdl_part(s->bytes, s->esize, s->size, s->rank + 1) - lo;

	if (!b)
		return NULL;
	if (s->rank != s->root) {
		struct hdl_ref sum = hdl_gb_scratch(b, 1, len);

		scatter_parts(b, s, sum);
		hdl_gb_send(b, s->root, 1, sum, len);
		return hdl_gb_finish(b);
	}
	scatter_parts(b, s, hdl_ref(HDL_SP_RECV, lo));
	for (int k = 1; k < s->size; k++) {
		int from = (s->rank + k) % s->size;
		size_t flo = hdl_part(s->bytes, s->esize, s->size, from);

		hdl_gb_recv(b, from, 1, hdl_ref(HDL_SP_RECV, flo), hdl_part(s->bytes, s->esize, s->size, from + 1) - flo);
	}
	return hdl_gb_finish(b);
}

/*
 * Reduction of the ranks to a power of two, pof2. With rest = P - pof2, each even rank below 2 * rest is passive: a passive
 * rank sends the input to the next rank before the exchange, and receives the result after the exchange. The other ranks are
 * numbered 0 .. pof2 - 1.
 *
 *     P = 6: pof2 4, rest 2       rank    0  1  2  3  4  5
 *                                 number  -  0  -  1  2  3
 */
struct pow2_group {
	int pof2, rest;
	int me;			/* this rank's number among the pof2, or -1: passive */
};

static struct pow2_group pow2_group_of(const struct hdl_shape *s)
{
	struct pow2_group f = { .pof2 = (int)pow2_down((uint64_t)s->size) };

	f.rest = s->size - f.pof2;
	if (s->rank >= 2 * f.rest)
		f.me = s->rank - f.rest;
	else
		f.me = s->rank & 1 ? s->rank / 2 : -1;
	return f;
}

static int pow2_rank(const struct pow2_group *f, int number)
{
	return number < f->rest ? 2 * number + 1 : number + f->rest;
}

/* First block that a number stands for: the passive neighbour's, if there is one, else the rank's own. */
static size_t pow2_first_block(const struct pow2_group *f, int number)
{
	return (size_t)(number < f->rest ? 2 * number : number + f->rest);
}

#define SUB_ENTER 0x7fe
#define SUB_LEAVE 0x7ff

/* Before the exchange. Returns where the rank's partial result is: RECV once written, else the input. */
static struct hdl_ref pow2_enter(struct hdl_gb *b, const struct hdl_shape *s, const struct pow2_group *f)
{
	struct hdl_ref input = hdl_ref(hdl_input(s), 0), result = hdl_ref(HDL_SP_RECV, 0), tmp;

	if (s->rank >= 2 * f->rest)
		return input;
	if (f->me < 0) {
		hdl_gb_send(b, s->rank + 1, SUB_ENTER, input, s->bytes);
		return input;
	}
	if (!s->in_place) {
		hdl_gb_recv(b, s->rank - 1, SUB_ENTER, result, s->bytes);
		hdl_gb_reduce(b, result, input, s->bytes);
	} else {
		tmp = hdl_gb_scratch(b, 1, s->bytes);
		hdl_gb_recv(b, s->rank - 1, SUB_ENTER, tmp, s->bytes);
		hdl_gb_reduce(b, result, tmp, s->bytes);
	}
	return result;
}

static void pow2_leave(struct hdl_gb *b, const struct hdl_shape *s, const struct pow2_group *f)
{
	if (s->rank >= 2 * f->rest)
		return;
	if (f->me < 0)
		hdl_gb_recv(b, s->rank + 1, SUB_LEAVE, hdl_ref(HDL_SP_RECV, 0), s->bytes);
	else
		hdl_gb_send(b, s->rank - 1, SUB_LEAVE, hdl_ref(HDL_SP_RECV, 0), s->bytes);
}

/*
 * Recursive doubling: log2(P) exchanges of the whole vector. Both partners of an exchange combine the same two partial
 * results, with the lower partner's on the left, so that all ranks get the same bits. An operation overwrites its right
 * operand: at the lower partner the buffer in which the peer's data landed, at the upper partner its own partial result.
 */
struct hdl_graph *hdl_build_allreduce_doubling(const struct hdl_shape *s)
{
	struct hdl_gb *b = hdl_gb_new("recursive-doubling", s->fn, s->esize);
	struct hdl_ref acc, result = hdl_ref(HDL_SP_RECV, 0);
	struct pow2_group f = pow2_group_of(s);
	uint32_t k = 0;

	if (!b)
		return NULL;
	acc = pow2_enter(b, s, &f);
	for (int bit = 1; f.me >= 0 && bit < f.pof2; bit *= 2, k++) {
		int peer = pow2_rank(&f, f.me ^ bit);
		bool lower = !(f.me & bit);
		struct hdl_ref in = result;

		hdl_gb_send(b, peer, k, acc, s->bytes);
		if (!lower && acc.space == HDL_SP_SEND) {
			hdl_gb_copy(b, result, acc, s->bytes);
			acc = result;
		}
		if (acc.space == HDL_SP_RECV)
			in = hdl_gb_scratch(b, 1, s->bytes);
		hdl_gb_recv(b, peer, k, in, s->bytes);
		hdl_gb_reduce(b, lower ? in : acc, lower ? acc : in, s->bytes);
		if (lower)
			acc = in;
	}
	if (f.me >= 0 && acc.space != HDL_SP_RECV)
		hdl_gb_copy(b, result, acc, s->bytes);
	pow2_leave(b, s, &f);
	return hdl_gb_finish(b);
}

/* Rabenseifner: reduce-scatter by recursive halving, allgather by recursive doubling. */
struct hdl_graph *hdl_build_allreduce_rabenseifner(const struct hdl_shape *s)
{
	struct hdl_gb *b = hdl_gb_new("rabenseifner", s->fn, s->esize);
	struct pow2_group f = pow2_group_of(s);
	struct hdl_ref acc;
	size_t tmp;
	int lo = 0, hi = f.pof2;	/* the parts that this rank still reduces */
	uint32_t k = 0;

	if (!b)
		return NULL;
	acc = pow2_enter(b, s, &f);
	tmp = hdl_gb_tmp(b, 1, s->bytes);
	for (int bit = f.pof2 / 2; f.me >= 0 && bit; bit /= 2, k++) {
		int peer = pow2_rank(&f, f.me ^ bit), mid = lo + (hi - lo) / 2;
		bool upper = f.me & bit;
		size_t klo = hdl_part(s->bytes, s->esize, f.pof2, upper ? mid : lo);
		size_t khi = hdl_part(s->bytes, s->esize, f.pof2, upper ? hi : mid);
		size_t glo = hdl_part(s->bytes, s->esize, f.pof2, upper ? lo : mid);
		size_t ghi = hdl_part(s->bytes, s->esize, f.pof2, upper ? mid : hi);

		hdl_gb_send(b, peer, k, hdl_ref(acc.space, glo), ghi - glo);
		if (acc.space == HDL_SP_RECV) {
			hdl_gb_recv(b, peer, k, hdl_ref(HDL_SP_TMP, tmp + klo), khi - klo);
			hdl_gb_reduce(b, hdl_ref(HDL_SP_RECV, klo), hdl_ref(HDL_SP_TMP, tmp + klo), khi - klo);
		} else {
			hdl_gb_recv(b, peer, k, hdl_ref(HDL_SP_RECV, klo), khi - klo);
			hdl_gb_reduce(b, hdl_ref(HDL_SP_RECV, klo), hdl_ref(acc.space, klo), khi - klo);
			acc = hdl_ref(HDL_SP_RECV, 0);
		}
		if (upper)
			lo = mid;
		else
			hi = mid;
	}
	for (int bit = 1; f.me >= 0 && bit < f.pof2; bit *= 2, k++) {
		int peer = pow2_rank(&f, f.me ^ bit), mine = f.me & ~(bit - 1), theirs = mine ^ bit;
		size_t mlo = hdl_part(s->bytes, s->esize, f.pof2, mine), mhi = hdl_part(s->bytes, s->esize, f.pof2, mine + bit);
		size_t tlo = hdl_part(s->bytes, s->esize, f.pof2, theirs);
		size_t thi = hdl_part(s->bytes, s->esize, f.pof2, theirs + bit);

		hdl_gb_send(b, peer, k, hdl_ref(HDL_SP_RECV, mlo), mhi - mlo);
		hdl_gb_recv(b, peer, k, hdl_ref(HDL_SP_RECV, tlo), thi - tlo);
	}
	if (s->size == 1 && !s->in_place)
		hdl_gb_copy(b, hdl_ref(HDL_SP_RECV, 0), acc, s->bytes);
	pow2_leave(b, s, &f);
	return hdl_gb_finish(b);
}

/* Reduce-scatter by direct exchange, then a ring gathers the parts. Any P, without passive ranks. */
struct hdl_graph *hdl_build_allreduce_ring(const struct hdl_shape *s)
{
	struct hdl_gb *b = hdl_gb_new("ring", s->fn, s->esize);
	int n = s->size, right = (s->rank + 1) % n, left = (s->rank - 1 + n) % n;

	if (!b)
		return NULL;
	scatter_parts(b, s, hdl_ref(HDL_SP_RECV, hdl_part(s->bytes, s->esize, n, s->rank)));
	for (int k = 0; k < n - 1; k++) {
		int out = (s->rank - k + n) % n, in = (s->rank - k - 1 + 2 * n) % n;
		size_t lo = hdl_part(s->bytes, s->esize, n, out), hi = hdl_part(s->bytes, s->esize, n, out + 1);

		hdl_gb_send(b, right, hdl_sub(1 + k), hdl_ref(HDL_SP_RECV, lo), hi - lo);
		lo = hdl_part(s->bytes, s->esize, n, in);
		hi = hdl_part(s->bytes, s->esize, n, in + 1);
		hdl_gb_recv(b, left, hdl_sub(1 + k), hdl_ref(HDL_SP_RECV, lo), hi - lo);
	}
	return hdl_gb_finish(b);
}

/*
 * Recursive halving: in each of log2(P) exchanges a rank sends half of the blocks that it still reduces. The blocks of passive
 * ranks go with their neighbours' blocks, so each number's blocks are contiguous.
 */
struct hdl_graph *hdl_build_reduce_scatter_halving(const struct hdl_shape *s)
{
	struct hdl_gb *b = hdl_gb_new("recursive-halving", s->fn, s->esize);
	struct hdl_ref acc = hdl_ref(hdl_input(s), 0), result = hdl_ref(HDL_SP_RECV, 0), sum, in;
	struct pow2_group f = pow2_group_of(s);
	int lo = 0, hi = f.pof2;
	size_t bytes = s->bytes;
	uint32_t k = 0;

	if (!b)
		return NULL;
	if (f.me < 0) {
		hdl_gb_send(b, s->rank + 1, SUB_ENTER, acc, (size_t)s->size * bytes);
		hdl_gb_recv(b, s->rank + 1, SUB_LEAVE, result, bytes);
		return hdl_gb_finish(b);
	}
	sum = hdl_gb_scratch(b, (size_t)s->size, bytes);
	in = hdl_gb_scratch(b, (size_t)s->size, bytes);
	if (f.me < f.rest) {
		hdl_gb_recv(b, s->rank - 1, SUB_ENTER, sum, (size_t)s->size * bytes);
		hdl_gb_reduce(b, sum, acc, (size_t)s->size * bytes);
		acc = sum;
	}
	for (int bit = f.pof2 / 2; bit; bit /= 2, k++) {
		int peer = pow2_rank(&f, f.me ^ bit), mid = lo + bit;
		bool upper = f.me & bit;
		size_t keep_off = pow2_first_block(&f, upper ? mid : lo) * bytes,
		       keep_len = pow2_first_block(&f, upper ? hi : mid) * bytes - keep_off;
		size_t send_off = pow2_first_block(&f, upper ? lo : mid) * bytes,
		       send_len = pow2_first_block(&f, upper ? mid : hi) * bytes - send_off;
		/* The first vector received lands in the memory of the sum, and the input is added to the sum. */
		struct hdl_ref landing = acc.space == HDL_SP_TMP ? in : sum, addend = acc.space == HDL_SP_TMP ? in : acc;

		hdl_gb_send(b, peer, k, hdl_ref(acc.space, acc.off + send_off), send_len);
		hdl_gb_recv(b, peer, k, hdl_ref(HDL_SP_TMP, landing.off + keep_off), keep_len);
		hdl_gb_reduce(b, hdl_ref(HDL_SP_TMP, sum.off + keep_off), hdl_ref(addend.space, addend.off + keep_off), keep_len);
		acc = sum;
		if (upper)
			lo = mid;
		else
			hi = mid;
	}
	if (f.me < f.rest)
		hdl_gb_send(b, s->rank - 1, SUB_LEAVE, hdl_ref(acc.space, acc.off + (size_t)(s->rank - 1) * bytes), bytes);
	acc.off += (size_t)s->rank * bytes;
	if (s->size > 1 || !s->in_place)
		hdl_gb_copy(b, result, acc, bytes);
	return hdl_gb_finish(b);
}
