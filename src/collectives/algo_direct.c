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

/* Everybody's data to everybody's line of that sender, and the others' lines have come. */
static void lines_of_all(struct hdl_gb *b, const struct hdl_shape *s, struct hdl_ref from, size_t len)
{
	for (int k = 1; k < s->size; k++)
		hdl_gb_put(b, (s->rank + k) % s->size, HDL_LINK_LINE, line(s, s->rank, len), from, len);
	for (int k = 1; k < s->size; k++) {
		int peer = (s->rank + k) % s->size;

		hdl_gb_arrive(b, peer, HDL_LINK_LINE, line(s, peer, len), len);
	}
}

struct hdl_graph *hdl_build_direct_barrier(const struct hdl_shape *s)
{
	struct hdl_gb *b = hdl_gb_new("lines", NULL, 0);

	if (!b)
		return NULL;
	lines_of_all(b, s, NOWHERE, 0);
	return hdl_gb_finish(b);
}

/*
 * Everybody's input goes to everybody; its owner reduces when it takes the result. An input is written once per peer, where
 * an atomic would carry 8 bytes of it; and any operation on any type will do.
 *
 * All ranks reduce in the order of ranks, so that all get the same bits. An own input that lies where the result comes
 * to lie is kept in the own line, which nobody else writes.
 */
struct hdl_graph *hdl_build_direct_allreduce(const struct hdl_shape *s)
{
	struct hdl_gb *b = hdl_gb_new("lines", s->fn, s->esize);
	struct hdl_ref result = hdl_ref(HDL_SP_RECV, 0), own = hdl_ref(hdl_input(s), 0);

	if (!b)
		return NULL;
	lines_of_all(b, s, own, s->bytes);
	if (s->in_place && s->rank) {
		hdl_gb_copy(b, line(s, s->rank, s->bytes), own, s->bytes);
		own = line(s, s->rank, s->bytes);
	}
	for (int r = 0; r < s->size; r++) {
		struct hdl_ref input = r == s->rank ? own : line(s, r, s->bytes);

		if (r)
			hdl_gb_reduce(b, result, input, s->bytes);
		else if (input.space != result.space)
			hdl_gb_copy(b, result, input, s->bytes);
	}
	return hdl_gb_finish(b);
}

/* One sender, so one line. */
struct hdl_graph *hdl_build_direct_bcast(const struct hdl_shape *s)
{
	struct hdl_gb *b = hdl_gb_new("lines", NULL, 0);
	struct hdl_ref at = line(s, 0, s->bytes), buf = hdl_ref(HDL_SP_RECV, 0);

	if (!b)
		return NULL;
	for (int k = 1; s->rank == s->root && k < s->size; k++)
		hdl_gb_put(b, (s->rank + k) % s->size, HDL_LINK_LINE, at, buf, s->bytes);
	if (s->rank != s->root) {
		hdl_gb_arrive(b, s->root, HDL_LINK_LINE, at, s->bytes);
		hdl_gb_copy(b, buf, at, s->bytes);
	}
	return hdl_gb_finish(b);
}
