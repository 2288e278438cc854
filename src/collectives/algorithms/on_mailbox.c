/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Graphs for the mailbox executor: PUTs into cells of the peers, and ARRIVEs in the rank's own cells. CPU nodes before the
 * PUTs run when the operation is posted; those behind the ARRIVEs run when the owner takes the result.
 */
#include "collectives/algorithms/algorithms.h"
#include "collectives/select/select.h"

#define NOWHERE hdl_ref(HDL_SP_NONE, 0)

static size_t landing_bytes(const struct hdl_shape *s)
{
	return (s->bytes + 63) & ~(size_t)63;
}

static struct hdl_gb *begin_reduction(const struct hdl_shape *s)
{
	struct hdl_gb *b = hdl_gb_new(s->by_messages ? "in-order" : "cells", s->fn, s->esize);

	/* The first scratch is at offset 0: cell() relies on that. */
	if (b && s->by_messages)
		hdl_gb_tmp(b, (size_t)s->size, landing_bytes(s));
	return b;
}

static struct hdl_ref cell(const struct hdl_shape *s, int index, size_t len)
{
	if (s->by_messages)
		return hdl_ref(HDL_SP_TMP, (size_t)index * landing_bytes(s));
	return hdl_ref(HDL_SP_CELL, hdl_cell_data(s->cell_bytes, index, len));
}

static void put_cell(struct hdl_gb *b, const struct hdl_shape *s, int peer, struct hdl_ref from, size_t len)
{
	if (s->by_messages)
		hdl_gb_send(b, peer, 0, from, len);
	else
		hdl_gb_put(b, peer, HDL_LINK_MAILBOX, cell(s, s->rank, len), from, len);
}

static void expect_cell(struct hdl_gb *b, const struct hdl_shape *s, int peer, size_t len)
{
	if (s->by_messages)
		hdl_gb_recv(b, peer, 0, cell(s, peer, len), len);
	else
		hdl_gb_arrive(b, peer, HDL_LINK_MAILBOX, cell(s, peer, len), len);
}

/* Writes a cell at each peer: `len` bytes from `from` + peer * stride. Then expects the cell of each peer. */
static void exchange_cells(struct hdl_gb *b, const struct hdl_shape *s, struct hdl_ref from, size_t stride, size_t len)
{
	for (int k = 1; k < s->size; k++) {
		int peer = (s->rank + k) % s->size;

		put_cell(b, s, peer, hdl_ref(from.space, from.off + (size_t)peer * stride), len);
	}
	for (int k = 1; k < s->size; k++)
		expect_cell(b, s, (s->rank + k) % s->size, len);
}

/* Copies the blocks of all ranks to recvbuf; the rank's own block comes from `own`, unless in place. */
static void emit_block_copies(struct hdl_gb *b, const struct hdl_shape *s, struct hdl_ref own)
{
	for (int r = 0; r < s->size; r++)
		if (r != s->rank)
			hdl_gb_copy(b, hdl_ref(HDL_SP_RECV, (size_t)r * s->bytes), cell(s, r, s->bytes), s->bytes);
		else if (!s->in_place)
			hdl_gb_copy(b, hdl_ref(HDL_SP_RECV, (size_t)r * s->bytes), own, s->bytes);
}

/* Writes this rank's input into its cell at the root. Returns true at the root, where all cells are expected instead. */
static bool cells_to_root(struct hdl_gb *b, const struct hdl_shape *s, struct hdl_ref own)
{
	if (s->rank != s->root) {
		put_cell(b, s, s->root, own, s->bytes);
		return false;
	}
	for (int k = 1; k < s->size; k++)
		expect_cell(b, s, (s->rank + k) % s->size, s->bytes);
	return true;
}

/* Barrier with a leader: each rank writes to the leader, whose CPU answers after all cells have arrived. */
static void barrier_by_leader(struct hdl_gb *b, const struct hdl_shape *s, int leader)
{
	uint32_t on[HDL_MAILBOX_RANKS];
	int n = 0;

	if (s->rank != leader) {
		put_cell(b, s, leader, NOWHERE, 0);
		expect_cell(b, s, leader, 0);
		return;
	}
	for (int k = 1; k < s->size; k++) {
		int peer = (s->rank + k) % s->size;

		on[n++] = hdl_gb_arrive(b, peer, HDL_LINK_MAILBOX, cell(s, peer, 0), 0);
	}
	for (int k = 1; k < s->size; k++) {
		uint32_t put = hdl_gb_put(b, (s->rank + k) % s->size, HDL_LINK_MAILBOX, cell(s, s->rank, 0), NOWHERE, 0);

		for (int i = 0; i < n; i++)
			hdl_gb_after(b, put, on[i]);
	}
}

struct hdl_graph *hdl_build_mailbox_barrier(const struct hdl_shape *s)
{
	struct hdl_gb *b = hdl_gb_new(s->leader ? "leader" : "cells", NULL, 0);

	if (!b)
		return NULL;
	if (s->leader)
		barrier_by_leader(b, s, s->leader - 1);
	else
		exchange_cells(b, s, NOWHERE, 0, 0);
	return hdl_gb_finish(b);
}

/*
 * Reduces all ranks' inputs, which are in the cells, when the owner takes the result. Each input is written once per peer,
 * where an atomic would carry 8 bytes of it, and any operation on any type will do.
 *
 * All ranks reduce in the order of ranks, so all get the same bits. The result overwrites an input in place, so that input is
 * first copied to the rank's own cell, which no peer writes.
 */
static void reduce_all(struct hdl_gb *b, const struct hdl_shape *s, struct hdl_ref own)
{
	struct hdl_ref result = hdl_ref(HDL_SP_RECV, 0);

	if (s->in_place && s->rank) {
		hdl_gb_copy(b, cell(s, s->rank, s->bytes), own, s->bytes);
		own = cell(s, s->rank, s->bytes);
	}
	for (int r = 0; r < s->size; r++) {
		struct hdl_ref input = r == s->rank ? own : cell(s, r, s->bytes);

		if (r)
			hdl_gb_reduce(b, result, input, s->bytes);
		else if (input.space != result.space || input.off != result.off)
			hdl_gb_copy(b, result, input, s->bytes);
	}
}

struct hdl_graph *hdl_build_mailbox_allreduce(const struct hdl_shape *s)
{
	struct hdl_gb *b = begin_reduction(s);
	struct hdl_ref own = hdl_ref(hdl_input(s), 0);

	if (!b)
		return NULL;
	exchange_cells(b, s, own, 0, s->bytes);
	reduce_all(b, s, own);
	return hdl_gb_finish(b);
}

/* Each rank receives its block of every input. */
struct hdl_graph *hdl_build_mailbox_reduce_scatter(const struct hdl_shape *s)
{
	struct hdl_gb *b = begin_reduction(s);

	if (!b)
		return NULL;
	exchange_cells(b, s, hdl_ref(hdl_input(s), 0), s->bytes, s->bytes);
	reduce_all(b, s, hdl_ref(hdl_input(s), (size_t)s->rank * s->bytes));
	return hdl_gb_finish(b);
}

struct hdl_graph *hdl_build_mailbox_reduce(const struct hdl_shape *s)
{
	struct hdl_gb *b = begin_reduction(s);
	struct hdl_ref own = hdl_ref(hdl_input(s), 0);

	if (!b)
		return NULL;
	if (cells_to_root(b, s, own))
		reduce_all(b, s, own);
	return hdl_gb_finish(b);
}

/*
 * Scan, Exscan: a rank expects cells of lower ranks only. The sum of the lower ranks' inputs is made in recvbuf, or, if the
 * rank's own input is there, in rank 0's cell.
 */
struct hdl_graph *hdl_build_mailbox_scan(const struct hdl_shape *s)
{
	struct hdl_gb *b = begin_reduction(s);
	struct hdl_ref own = hdl_ref(hdl_input(s), 0), result = hdl_ref(HDL_SP_RECV, 0), first = cell(s, 0, s->bytes);
	bool inclusive = s->coll == HDL_SCAN;
	struct hdl_ref sum = inclusive && s->in_place ? first : result;

	if (!b)
		return NULL;
	for (int r = s->rank + 1; r < s->size; r++)
		put_cell(b, s, r, own, s->bytes);
	for (int r = 0; r < s->rank; r++)
		expect_cell(b, s, r, s->bytes);
	if (s->rank && sum.space != first.space)
		hdl_gb_copy(b, sum, first, s->bytes);
	for (int r = 1; r < s->rank; r++)
		hdl_gb_reduce(b, sum, cell(s, r, s->bytes), s->bytes);
	if (inclusive && s->rank)
		hdl_gb_reduce(b, sum, own, s->bytes);	/* the operand sides of in_order_chain */
	if (inclusive && s->in_place == !!s->rank)
		hdl_gb_copy(b, result, s->rank ? sum : own, s->bytes);
	return hdl_gb_finish(b);
}

struct hdl_graph *hdl_build_mailbox_allgather(const struct hdl_shape *s)
{
	struct hdl_gb *b = hdl_gb_new("cells", NULL, 0);
	struct hdl_ref own = hdl_ref(hdl_input(s), s->in_place ? (size_t)s->rank * s->bytes : 0);

	if (!b)
		return NULL;
	exchange_cells(b, s, own, 0, s->bytes);
	emit_block_copies(b, s, own);
	return hdl_gb_finish(b);
}

/* All blocks are written to the peers before a received block replaces one. */
struct hdl_graph *hdl_build_mailbox_alltoall(const struct hdl_shape *s)
{
	struct hdl_gb *b = hdl_gb_new("cells", NULL, 0);

	if (!b)
		return NULL;
	exchange_cells(b, s, hdl_ref(hdl_input(s), 0), s->bytes, s->bytes);
	emit_block_copies(b, s, hdl_ref(HDL_SP_SEND, (size_t)s->rank * s->bytes));
	return hdl_gb_finish(b);
}

struct hdl_graph *hdl_build_mailbox_gather(const struct hdl_shape *s)
{
	struct hdl_gb *b = hdl_gb_new("cells", NULL, 0);
	struct hdl_ref own = hdl_ref(HDL_SP_SEND, 0);

	if (!b)
		return NULL;
	if (cells_to_root(b, s, own))
		emit_block_copies(b, s, own);
	return hdl_gb_finish(b);
}

/* One sender, so one cell per receiver: the buffer (stride 0), or the receiver's block at rank * stride. */
static struct hdl_graph *cells_from_root(const struct hdl_shape *s, enum hdl_space space, size_t stride)
{
	struct hdl_gb *b = hdl_gb_new("cells", NULL, 0);
	struct hdl_ref at = cell(s, 0, s->bytes), buf = hdl_ref(HDL_SP_RECV, 0);

	if (!b)
		return NULL;
	for (int k = 1; s->rank == s->root && k < s->size; k++) {
		int peer = (s->rank + k) % s->size;

		hdl_gb_put(b, peer, HDL_LINK_MAILBOX, at, hdl_ref(space, (size_t)peer * stride), s->bytes);
	}
	if (s->rank != s->root) {
		hdl_gb_arrive(b, s->root, HDL_LINK_MAILBOX, at, s->bytes);
		hdl_gb_copy(b, buf, at, s->bytes);
	} else if (stride && !s->in_place) {
		hdl_gb_copy(b, buf, hdl_ref(space, (size_t)s->rank * stride), s->bytes);
	}
	return hdl_gb_finish(b);
}

struct hdl_graph *hdl_build_mailbox_bcast(const struct hdl_shape *s)
{
	return cells_from_root(s, HDL_SP_RECV, 0);
}

struct hdl_graph *hdl_build_mailbox_scatter(const struct hdl_shape *s)
{
	return cells_from_root(s, HDL_SP_SEND, s->bytes);
}

/* The cells carry no data of the graph: mailbox/vector.c writes and reads them. */
struct hdl_graph *hdl_build_mailbox_vector(const struct hdl_shape *s)
{
	struct hdl_gb *b = hdl_gb_new("vector", NULL, 0);
	uint32_t others = ((1u << s->size) - 1) & ~(1u << s->rank), root = 1u << s->root & others, to = others, from = others;

	if (!b)
		return NULL;
	if (s->coll == HDL_GATHERV || s->coll == HDL_VREDUCE) {
		to = root;
		from = root ? 0 : others;
	} else if (s->coll == HDL_SCATTERV) {
		to = root ? 0 : others;
		from = root;
	} else if (s->coll == HDL_NEIGHBORS) {
		to = s->to;
		from = s->from;
	} else if (s->coll == HDL_VSCAN || s->coll == HDL_VEXSCAN) {
		from = (1u << s->rank) - 1;
		to = others & ~from;
	}
	for (int k = 1; k < s->size; k++)
		if (to & 1u << (s->rank + k) % s->size)
			put_cell(b, s, (s->rank + k) % s->size, NOWHERE, 0);
	for (int k = 1; k < s->size; k++)
		if (from & 1u << (s->rank + k) % s->size)
			expect_cell(b, s, (s->rank + k) % s->size, 0);
	return hdl_gb_finish(b);
}

/* ---- by messages --------------------------------------------------------------------------------------------- */

/* Up to these limits each rank sends its whole input to each other rank; beyond, each rank reduces a part. */
#define WHOLE_BYTES 1024
#define WHOLE_RANKS 16

/* Each rank receives its part of all inputs and reduces it in the order of the ranks; then the parts go to all ranks, or to
 * the root. */
static struct hdl_graph *in_order_by_parts(const struct hdl_shape *s)
{
	struct hdl_gb *b = hdl_gb_new("in-order-parts", s->fn, s->esize);
	size_t lo = hdl_part(s->bytes, s->esize, s->size, s->rank), len = hdl_part(s->bytes, s->esize, s->size, s->rank + 1) - lo;
	size_t stride = (len + 63) & ~(size_t)63, tmp;
	bool all = s->coll == HDL_ALLREDUCE;
	struct hdl_ref own = hdl_ref(hdl_input(s), lo), sum;

	if (!b)
		return NULL;
	tmp = hdl_gb_tmp(b, (size_t)s->size + 1, stride);
	sum = hdl_ref(HDL_SP_TMP, tmp + (size_t)s->size * stride);
	for (int k = 1; k < s->size; k++) {
		int to = (s->rank + k) % s->size;
		size_t at = hdl_part(s->bytes, s->esize, s->size, to);

		hdl_gb_send(b, to, 0, hdl_ref(hdl_input(s), at), hdl_part(s->bytes, s->esize, s->size, to + 1) - at);
	}
	for (int k = 1; k < s->size; k++) {
		int from = (s->rank + s->size - k) % s->size;

		hdl_gb_recv(b, from, 0, hdl_ref(HDL_SP_TMP, tmp + (size_t)from * stride), len);
	}
	for (int r = 0; r < s->size; r++) {
		struct hdl_ref input = r == s->rank ? own : hdl_ref(HDL_SP_TMP, tmp + (size_t)r * stride);

		if (r)
			hdl_gb_reduce(b, sum, input, len);
		else
			hdl_gb_copy(b, sum, input, len);
	}
	if (all || s->rank == s->root)
		hdl_gb_copy(b, hdl_ref(HDL_SP_RECV, lo), sum, len);
	for (int k = 1; k < s->size; k++) {
		int to = (s->rank + k) % s->size;

		if (all || to == s->root)
			hdl_gb_send(b, to, 1, sum, len);
	}
	for (int k = 1; (all || s->rank == s->root) && k < s->size; k++) {
		int from = (s->rank + s->size - k) % s->size;
		size_t at = hdl_part(s->bytes, s->esize, s->size, from);

		hdl_gb_recv(b, from, 1, hdl_ref(HDL_SP_RECV, at), hdl_part(s->bytes, s->esize, s->size, from + 1) - at);
	}
	return hdl_gb_finish(b);
}

/* Scan, Exscan: the prefix of the lower ranks comes from the rank before, and goes on with this rank's input added. */
static struct hdl_graph *in_order_chain(const struct hdl_shape *s)
{
	struct hdl_gb *b = hdl_gb_new("in-order-chain", s->fn, s->esize);
	struct hdl_ref own = hdl_ref(hdl_input(s), 0), result = hdl_ref(HDL_SP_RECV, 0), before, sum = own;

	if (!b)
		return NULL;
	if (s->rank) {
		before = hdl_gb_scratch(b, 1, s->bytes);
		sum = hdl_gb_scratch(b, 1, s->bytes);
		hdl_gb_recv(b, s->rank - 1, 0, before, s->bytes);
		hdl_gb_copy(b, sum, before, s->bytes);
		hdl_gb_reduce(b, sum, own, s->bytes);
	}
	if (s->rank + 1 < s->size)
		hdl_gb_send(b, s->rank + 1, 0, sum, s->bytes);
	if (s->coll == HDL_EXSCAN && s->rank)
		hdl_gb_copy(b, result, before, s->bytes);
	else if (s->coll == HDL_SCAN && (s->rank || !s->in_place))
		hdl_gb_copy(b, result, sum, s->bytes);
	return hdl_gb_finish(b);
}

struct hdl_graph *hdl_build_in_order(const struct hdl_shape *s)
{
	struct hdl_shape by = *s;

	by.by_messages = true;
	switch (s->coll) {
	case HDL_SCAN:
	case HDL_EXSCAN:
		return in_order_chain(s);
	case HDL_REDUCE_SCATTER:
		return hdl_build_mailbox_reduce_scatter(&by);
	default:
		break;
	}
	if (s->bytes > WHOLE_BYTES || s->size > WHOLE_RANKS)
		return in_order_by_parts(s);
	return s->coll == HDL_REDUCE ? hdl_build_mailbox_reduce(&by) : hdl_build_mailbox_allreduce(&by);
}
