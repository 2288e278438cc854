/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Graphs for the direct executor: puts into lines of the peers and arrivals of theirs. CPU nodes before are done when the
 * operation is posted, those behind when its owner takes the result.
 */
#include "collectives/algo.h"

#define NOWHERE hdl_ref(HDL_SP_NONE, 0)

static struct hdl_ref line(const struct hdl_shape *s, int index, size_t len)
{
	return hdl_ref(HDL_SP_LINE, hdl_line_data(s->line_bytes, index, len));
}

static void to_rank(struct hdl_gb *b, const struct hdl_shape *s, int peer, struct hdl_ref from, size_t len)
{
	hdl_gb_put(b, peer, HDL_LINK_LINE, line(s, s->rank, len), from, len);
}

static void of_rank(struct hdl_gb *b, const struct hdl_shape *s, int peer, size_t len)
{
	hdl_gb_arrive(b, peer, HDL_LINK_LINE, line(s, peer, len), len);
}

/* To everybody its block of what begins at `from`, each `stride` behind the one before, or all the same; and the others' lines have
 * come. */
static void lines_of_all(struct hdl_gb *b, const struct hdl_shape *s, struct hdl_ref from, size_t stride, size_t len)
{
	for (int k = 1; k < s->size; k++) {
		int peer = (s->rank + k) % s->size;

		to_rank(b, s, peer, hdl_ref(from.space, from.off + (size_t)peer * stride), len);
	}
	for (int k = 1; k < s->size; k++)
		of_rank(b, s, (s->rank + k) % s->size, len);
}

/* What has come from everybody, one block after the other; the own one is in place or at `own`. */
static void take_blocks(struct hdl_gb *b, const struct hdl_shape *s, struct hdl_ref own)
{
	for (int r = 0; r < s->size; r++)
		if (r != s->rank)
			hdl_gb_copy(b, hdl_ref(HDL_SP_RECV, (size_t)r * s->bytes), line(s, r, s->bytes), s->bytes);
		else if (!s->in_place)
			hdl_gb_copy(b, hdl_ref(HDL_SP_RECV, (size_t)r * s->bytes), own, s->bytes);
}

struct hdl_graph *hdl_build_direct_barrier(const struct hdl_shape *s)
{
	struct hdl_gb *b = hdl_gb_new("lines", NULL, 0);

	if (!b)
		return NULL;
	lines_of_all(b, s, NOWHERE, 0, 0);
	return hdl_gb_finish(b);
}

/*
 * Everybody's input goes to everybody; its owner reduces when it takes the result. An input is written once per peer, where
 * an atomic would carry 8 bytes of it; and any operation on any type will do.
 *
 * All ranks reduce in the order of ranks, so that all get the same bits. An own input that lies where the result comes
 * to lie is kept in the own line, which nobody else writes.
 */
static void reduce_all(struct hdl_gb *b, const struct hdl_shape *s, struct hdl_ref own)
{
	struct hdl_ref result = hdl_ref(HDL_SP_RECV, 0);

	if (s->in_place && s->rank) {
		hdl_gb_copy(b, line(s, s->rank, s->bytes), own, s->bytes);
		own = line(s, s->rank, s->bytes);
	}
	for (int r = 0; r < s->size; r++) {
		struct hdl_ref input = r == s->rank ? own : line(s, r, s->bytes);

		if (r)
			hdl_gb_reduce(b, result, input, s->bytes);
		else if (input.space != result.space || input.off != result.off)
			hdl_gb_copy(b, result, input, s->bytes);
	}
}

struct hdl_graph *hdl_build_direct_allreduce(const struct hdl_shape *s)
{
	struct hdl_gb *b = hdl_gb_new("lines", s->fn, s->esize);
	struct hdl_ref own = hdl_ref(hdl_input(s), 0);

	if (!b)
		return NULL;
	lines_of_all(b, s, own, 0, s->bytes);
	reduce_all(b, s, own);
	return hdl_gb_finish(b);
}

/* To everybody its part of the input. */
struct hdl_graph *hdl_build_direct_reduce_scatter(const struct hdl_shape *s)
{
	struct hdl_gb *b = hdl_gb_new("lines", s->fn, s->esize);

	if (!b)
		return NULL;
	lines_of_all(b, s, hdl_ref(hdl_input(s), 0), s->bytes, s->bytes);
	reduce_all(b, s, hdl_ref(hdl_input(s), (size_t)s->rank * s->bytes));
	return hdl_gb_finish(b);
}

struct hdl_graph *hdl_build_direct_reduce(const struct hdl_shape *s)
{
	struct hdl_gb *b = hdl_gb_new("lines", s->fn, s->esize);
	struct hdl_ref own = hdl_ref(hdl_input(s), 0);

	if (!b)
		return NULL;
	if (s->rank != s->root) {
		to_rank(b, s, s->root, own, s->bytes);
		return hdl_gb_finish(b);
	}
	for (int k = 1; k < s->size; k++)
		of_rank(b, s, (s->rank + k) % s->size, s->bytes);
	reduce_all(b, s, own);
	return hdl_gb_finish(b);
}

/* Only upwards: a rank waits for those before it, and for nobody else. The sum of theirs is made where the result comes to lie, or,
 * if the own input lies there, in the line of rank 0. */
struct hdl_graph *hdl_build_direct_scan(const struct hdl_shape *s)
{
	struct hdl_gb *b = hdl_gb_new("lines", s->fn, s->esize);
	struct hdl_ref own = hdl_ref(hdl_input(s), 0), result = hdl_ref(HDL_SP_RECV, 0), first = line(s, 0, s->bytes);
	bool inclusive = s->coll == HDL_SCAN;
	struct hdl_ref sum = inclusive && s->in_place ? first : result;

	if (!b)
		return NULL;
	for (int r = s->rank + 1; r < s->size; r++)
		to_rank(b, s, r, own, s->bytes);
	for (int r = 0; r < s->rank; r++)
		of_rank(b, s, r, s->bytes);
	if (s->rank && sum.space != first.space)
		hdl_gb_copy(b, sum, first, s->bytes);
	for (int r = 1; r < s->rank; r++)
		hdl_gb_reduce(b, sum, line(s, r, s->bytes), s->bytes);
	if (inclusive && s->rank)
		hdl_gb_reduce(b, result, s->in_place ? sum : own, s->bytes);
	else if (inclusive && !s->in_place)
		hdl_gb_copy(b, result, own, s->bytes);
	return hdl_gb_finish(b);
}

struct hdl_graph *hdl_build_direct_allgather(const struct hdl_shape *s)
{
	struct hdl_gb *b = hdl_gb_new("lines", NULL, 0);
	struct hdl_ref own = hdl_ref(hdl_input(s), s->in_place ? (size_t)s->rank * s->bytes : 0);

	if (!b)
		return NULL;
	lines_of_all(b, s, own, 0, s->bytes);
	take_blocks(b, s, own);
	return hdl_gb_finish(b);
}

/* Each block is written before another one takes its place. */
struct hdl_graph *hdl_build_direct_alltoall(const struct hdl_shape *s)
{
	struct hdl_gb *b = hdl_gb_new("lines", NULL, 0);

	if (!b)
		return NULL;
	lines_of_all(b, s, hdl_ref(hdl_input(s), 0), s->bytes, s->bytes);
	take_blocks(b, s, hdl_ref(HDL_SP_SEND, (size_t)s->rank * s->bytes));
	return hdl_gb_finish(b);
}

struct hdl_graph *hdl_build_direct_gather(const struct hdl_shape *s)
{
	struct hdl_gb *b = hdl_gb_new("lines", NULL, 0);
	struct hdl_ref own = hdl_ref(HDL_SP_SEND, 0);

	if (!b)
		return NULL;
	if (s->rank != s->root) {
		to_rank(b, s, s->root, own, s->bytes);
		return hdl_gb_finish(b);
	}
	for (int k = 1; k < s->size; k++)
		of_rank(b, s, (s->rank + k) % s->size, s->bytes);
	take_blocks(b, s, own);
	return hdl_gb_finish(b);
}

/* One sender, so one line: the data, or everybody's block of them, one `stride` behind the other. */
static struct hdl_graph *from_root(const struct hdl_shape *s, enum hdl_space space, size_t stride)
{
	struct hdl_gb *b = hdl_gb_new("lines", NULL, 0);
	struct hdl_ref at = line(s, 0, s->bytes), buf = hdl_ref(HDL_SP_RECV, 0);

	if (!b)
		return NULL;
	for (int k = 1; s->rank == s->root && k < s->size; k++) {
		int peer = (s->rank + k) % s->size;

		hdl_gb_put(b, peer, HDL_LINK_LINE, at, hdl_ref(space, (size_t)peer * stride), s->bytes);
	}
	if (s->rank != s->root) {
		hdl_gb_arrive(b, s->root, HDL_LINK_LINE, at, s->bytes);
		hdl_gb_copy(b, buf, at, s->bytes);
	} else if (stride && !s->in_place) {
		hdl_gb_copy(b, buf, hdl_ref(space, (size_t)s->rank * stride), s->bytes);
	}
	return hdl_gb_finish(b);
}

struct hdl_graph *hdl_build_direct_bcast(const struct hdl_shape *s)
{
	return from_root(s, HDL_SP_RECV, 0);
}

struct hdl_graph *hdl_build_direct_scatter(const struct hdl_shape *s)
{
	return from_root(s, HDL_SP_SEND, s->bytes);
}
