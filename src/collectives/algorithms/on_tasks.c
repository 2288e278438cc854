/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Graphs for the tasks executor. CPU nodes stand before all others (run when the operation is posted) and after all others
 * (run when it is complete); the device runs those between.
 *
 * Links are ordered: a PUT lands after the ACCUMs posted before it on its link. An operation uses each link at most once per
 * direction; queues/queues.h relies on that to size the receive queues.
 */
#include "collectives/algorithms/algorithms.h"

#define NOWHERE hdl_ref(HDL_SP_NONE, 0)

/* ---- the tree ------------------------------------------------------------------------------------------------ */

/* This rank's position in the k-nomial tree of a root. Its children are on the links 0 .. children - 1, nearest first. */
struct tree_pos {
	int v;			/* rank, counted from the root */
	int up;			/* link to the parent; -1: the root */
	int children;
	int links;		/* links of any rank, and so most children */
};

static struct tree_pos tree_pos_of(const struct hdl_shape *s, int root)
{
	struct tree_pos p = { .v = (s->rank - root + s->size) % s->size, .up = -1 };
	int weight = 1, rest = p.v;

	p.links = hdl_knomial_links(s->radix, s->size);
	while (rest && rest % s->radix == 0) {
		rest /= s->radix;
		weight *= s->radix;
	}
	if (p.v)
		p.up = hdl_knomial_link(s->radix, s->size, rest % s->radix * weight);
	while (p.children < p.links) {
		int d = hdl_knomial_distance(s->radix, p.children);

		if ((p.v && d >= weight) || p.v + d >= s->size)
			break;
		p.children++;
	}
	return p;
}

static int ahead(const struct hdl_shape *s, int link)
{
	return hdl_knomial_ahead(s->rank, s->size, s->radix, link);
}

static int on_tasks_behind(const struct hdl_shape *s, int link)
{
	return hdl_knomial_behind(s->rank, s->size, s->radix, link);
}

/*
 * The operands of a reduction in HDL_SP_DATA: index 0 is this rank's, 1 + l the child's on link l, `result` the result. Where
 * CALC combines vectors, each operand ends with a stamp, and the combined operand ends with the AND of the stamps.
 */
struct operands {
	size_t len, stride;
	size_t pass_bytes;		/* bytes passed on: len, or with the stamps stride */
	bool stamped;
	int result;
};

static struct operands on_tasks_operands_of(const struct hdl_shape *s, const struct tree_pos *p)
{
	struct operands o = { .len = hdl_enc_bytes(s->enc, s->bytes), .stamped = s->enc->by == HDL_ENC_BY_VECTOR,
			      .result = 1 + p->links };

	o.stride = (o.len + (o.stamped ? HDL_STAMPS : 0) + 63) & ~(size_t)63;
	o.pass_bytes = o.stamped ? o.stride : o.len;
	return o;
}

static struct hdl_ref stamps(const struct operands *o, int i)
{
	return hdl_ref(HDL_SP_DATA, ((size_t)i + 1) * o->stride - HDL_STAMPS);
}

static struct hdl_ref tasks_operand(const struct operands *o, int i)
{
	return o->len ? hdl_ref(HDL_SP_DATA, (size_t)i * o->stride) : NOWHERE;
}

/* Down the tree: each rank passes on the `len` bytes that its parent wrote to `at`. The root sends `from`, after node `on`. */
static void pass_down(struct hdl_gb *b, const struct hdl_shape *s, const struct tree_pos *p, struct hdl_ref at,
		      struct hdl_ref from, size_t len, uint32_t on)
{
	if (p->v)
		on = hdl_gb_arrive(b, on_tasks_behind(s, p->up), HDL_LINK_DOWN, at, len);
	/* The farthest child has the largest subtree. */
	for (int c = p->children; c--;)
		hdl_gb_after(b, hdl_gb_put(b, ahead(s, c), HDL_LINK_DOWN, at, p->v ? at : from, len), on);
}

/*
 * Partial results up to the root: when a rank's request runs, it gathers the rank's own operand and those that its children
 * have written beside it, and writes the result beside the parent's operand. The root writes to itself. Returns the root's
 * ARRIVE of the result; elsewhere HDL_NODE_NONE.
 */
static uint32_t on_tasks_up(struct hdl_gb *b, const struct hdl_shape *s, const struct tree_pos *p, const struct operands *o)
{
	uint32_t put, arrivals[HDL_TREE_LINKS];
	int to = p->v ? on_tasks_behind(s, p->up) : s->rank, n = 1 + p->children;
	enum hdl_link link = p->v ? HDL_LINK_UP : HDL_LINK_SELF;
	struct hdl_ref at = tasks_operand(o, p->v ? 1 + p->up : o->result);

	for (int c = 0; c < p->children; c++)
		arrivals[c] = hdl_gb_arrive(b, ahead(s, c), HDL_LINK_UP, tasks_operand(o, 1 + c), o->pass_bytes);
	if (n > 1)
		put = hdl_gb_combine(b, to, link, at, tasks_operand(o, 0), o->len, o->stride, n, o->stamped);
	else
		put = hdl_gb_put(b, to, link, at, tasks_operand(o, 0), o->pass_bytes);
	for (int c = 0; c < p->children; c++)
		hdl_gb_after(b, put, arrivals[c]);
	if (p->v)
		return HDL_NODE_NONE;
	arrivals[0] = hdl_gb_arrive(b, s->rank, HDL_LINK_SELF, at, o->pass_bytes);
	hdl_gb_after(b, arrivals[0], put);
	return arrivals[0];
}

struct hdl_graph *hdl_build_tasks_barrier(const struct hdl_shape *s)
{
	struct hdl_gb *b = hdl_gb_new("tree", NULL, 0);
	struct tree_pos p = tree_pos_of(s, 0);
	uint32_t on[HDL_TREE_LINKS];

	if (!b)
		return NULL;
	for (int c = 0; c < p.children; c++)
		on[c] = hdl_gb_arrive(b, ahead(s, c), HDL_LINK_UP, NOWHERE, 0);
	if (p.v) {
		uint32_t put = hdl_gb_put(b, on_tasks_behind(s, p.up), HDL_LINK_UP, NOWHERE, NOWHERE, 0);

		for (int c = 0; c < p.children; c++)
			hdl_gb_after(b, put, on[c]);
		on[0] = hdl_gb_arrive(b, on_tasks_behind(s, p.up), HDL_LINK_DOWN, NOWHERE, 0);
	}
	for (int c = p.children; c--;) {
		uint32_t put = hdl_gb_put(b, ahead(s, c), HDL_LINK_DOWN, NOWHERE, NOWHERE, 0);

		for (int i = 0; i < (p.v ? 1 : p.children); i++)
			hdl_gb_after(b, put, on[i]);
	}
	return hdl_gb_finish(b);
}

/* ---- blocks -------------------------------------------------------------------------------------------------- */

/*
 * A moved block has a stamp behind the data. The rank that copies the block out compares the stamp with its own operation
 * number and length. A rank that received less or more than expected passes on as many bytes as promised: then the stamp is not
 * at the place that the next rank checks, and the next rank has an error, too.
 */
static size_t stamp_at(size_t bytes)
{
	return (bytes + HDL_STAMP - 1) & ~(size_t)(HDL_STAMP - 1);
}

/* Bytes from one block in the slot to the next. */
static size_t on_tasks_stride_of(size_t bytes)
{
	return stamp_at(bytes) + HDL_STAMP;
}

static struct hdl_ref on_tasks_block(const struct hdl_shape *s, int i)
{
	return hdl_ref(HDL_SP_DATA, (size_t)i * on_tasks_stride_of(s->bytes));
}

static struct hdl_ref user(enum hdl_space space, const struct hdl_shape *s, int rank)
{
	return hdl_ref(space, (size_t)rank * s->bytes);
}

static void pack_block(struct hdl_gb *b, const struct hdl_shape *s, int i, struct hdl_ref from)
{
	struct hdl_ref at = on_tasks_block(s, i);

	hdl_gb_copy(b, at, from, s->bytes);
	hdl_gb_stamp(b, hdl_ref(HDL_SP_DATA, at.off + stamp_at(s->bytes)), s->bytes, HDL_STAMP);
}

static void unpack_block(struct hdl_gb *b, const struct hdl_shape *s, struct hdl_ref to, int i)
{
	struct hdl_ref at = on_tasks_block(s, i);

	hdl_gb_check(b, hdl_ref(HDL_SP_DATA, at.off + stamp_at(s->bytes)), s->bytes, HDL_STAMP);
	hdl_gb_copy(b, to, at, s->bytes);
}

struct hdl_graph *hdl_build_tasks_bcast(const struct hdl_shape *s)
{
	struct hdl_gb *b = hdl_gb_new("tree", NULL, 0);
	struct tree_pos p = tree_pos_of(s, s->root);
	struct hdl_ref buf = hdl_ref(HDL_SP_RECV, 0);

	if (!b)
		return NULL;
	if (!p.v)
		pack_block(b, s, 0, buf);
	pass_down(b, s, &p, on_tasks_block(s, 0), on_tasks_block(s, 0), on_tasks_stride_of(s->bytes), HDL_NODE_NONE);
	if (p.v)
		unpack_block(b, s, buf, 0);
	return hdl_gb_finish(b);
}

/* Returns the bytes of the blocks in the subtree of v, which are contiguous. v: a rank counted from the root; link: the link from
 * v to its parent. */
static size_t blocks_below(const struct hdl_shape *s, int v, int link)
{
	int weight = link < 0 ? s->size : hdl_knomial_weight(s->radix, link), rest = s->size - v;

	return (size_t)(weight < rest ? weight : rest) * on_tasks_stride_of(s->bytes);
}

static int on_tasks_rank_at(const struct hdl_shape *s, int v)
{
	return (v + s->root) % s->size;
}

/* On every rank of its path a block is at the index of its source, counted from the root. */
struct hdl_graph *hdl_build_tasks_gather(const struct hdl_shape *s)
{
	struct hdl_gb *b = hdl_gb_new("tree", NULL, 0);
	struct tree_pos p = tree_pos_of(s, s->root);

	if (!b)
		return NULL;
	hdl_gb_data(b, (size_t)s->size * on_tasks_stride_of(s->bytes));
	if (p.v)
		pack_block(b, s, p.v, hdl_ref(HDL_SP_SEND, 0));
	else if (!s->in_place)
		hdl_gb_copy(b, user(HDL_SP_RECV, s, s->rank), hdl_ref(HDL_SP_SEND, 0), s->bytes);
	for (int c = 0; c < p.children; c++) {
		int child = p.v + hdl_knomial_distance(s->radix, c);

		hdl_gb_arrive(b, ahead(s, c), HDL_LINK_UP, on_tasks_block(s, child), blocks_below(s, child, c));
	}
	if (p.v)
		hdl_gb_put(b, on_tasks_behind(s, p.up), HDL_LINK_UP, on_tasks_block(s, p.v), on_tasks_block(s, p.v),
			   blocks_below(s, p.v, p.up));
	for (int v = 1; !p.v && v < s->size; v++)
		unpack_block(b, s, user(HDL_SP_RECV, s, on_tasks_rank_at(s, v)), v);
	return hdl_gb_finish(b);
}

struct hdl_graph *hdl_build_tasks_scatter(const struct hdl_shape *s)
{
	struct hdl_gb *b = hdl_gb_new("tree", NULL, 0);
	struct tree_pos p = tree_pos_of(s, s->root);

	if (!b)
		return NULL;
	hdl_gb_data(b, (size_t)s->size * on_tasks_stride_of(s->bytes));
	for (int v = 1; !p.v && v < s->size; v++)
		pack_block(b, s, v, user(HDL_SP_SEND, s, on_tasks_rank_at(s, v)));
	if (!p.v && !s->in_place)
		hdl_gb_copy(b, hdl_ref(HDL_SP_RECV, 0), user(HDL_SP_SEND, s, s->rank), s->bytes);
	if (p.v)
		hdl_gb_arrive(b, on_tasks_behind(s, p.up), HDL_LINK_DOWN, on_tasks_block(s, p.v), blocks_below(s, p.v, p.up));
	/* The farthest child has the largest subtree. */
	for (int c = p.children; c--;) {
		int child = p.v + hdl_knomial_distance(s->radix, c);

		hdl_gb_put(b, ahead(s, c), HDL_LINK_DOWN, on_tasks_block(s, child), on_tasks_block(s, child),
			   blocks_below(s, child, c));
	}
	if (p.v)
		unpack_block(b, s, hdl_ref(HDL_SP_RECV, 0), p.v);
	return hdl_gb_finish(b);
}

/*
 * Bruck in base k, over the links of the tree: block i in the slot is that of the rank i ahead. After round r a rank has k^r
 * blocks, which it sends to the ranks behind it at the distances of the next round.
 */
struct hdl_graph *hdl_build_tasks_allgather(const struct hdl_shape *s)
{
	struct hdl_gb *b = hdl_gb_new("bruck", NULL, 0);
	int links = hdl_knomial_links(s->radix, s->size);
	struct hdl_ref own = s->in_place ? user(HDL_SP_RECV, s, s->rank) : hdl_ref(HDL_SP_SEND, 0);

	if (!b)
		return NULL;
	hdl_gb_data(b, (size_t)s->size * on_tasks_stride_of(s->bytes));
	pack_block(b, s, 0, own);
	if (!s->in_place)
		hdl_gb_copy(b, user(HDL_SP_RECV, s, s->rank), own, s->bytes);
	for (int l = 0; l < links; l++) {
		int d = hdl_knomial_distance(s->radix, l);
		size_t len = blocks_below(s, d, l);

		hdl_gb_put(b, on_tasks_behind(s, l), HDL_LINK_UP, on_tasks_block(s, d), on_tasks_block(s, 0), len);
		hdl_gb_arrive(b, ahead(s, l), HDL_LINK_UP, on_tasks_block(s, d), len);
	}
	for (int i = 1; i < s->size; i++)
		unpack_block(b, s, user(HDL_SP_RECV, s, (s->rank + i) % s->size), i);
	return hdl_gb_finish(b);
}

/* Outgoing blocks are at the index of their destination, incoming ones at size + the index of their source. */
struct hdl_graph *hdl_build_tasks_alltoall(const struct hdl_shape *s)
{
	struct hdl_gb *b = hdl_gb_new("pairwise", NULL, 0);
	enum hdl_space in = hdl_input(s);

	if (!b)
		return NULL;
	hdl_gb_data(b, 2 * (size_t)s->size * on_tasks_stride_of(s->bytes));
	for (int k = 1; k < s->size; k++) {
		int to = (s->rank + k) % s->size;

		pack_block(b, s, to, user(in, s, to));
		hdl_gb_put(b, to, HDL_LINK_PAIR, on_tasks_block(s, s->size + s->rank), on_tasks_block(s, to),
			   on_tasks_stride_of(s->bytes));
	}
	for (int k = 1; k < s->size; k++) {
		int from = (s->rank - k + s->size) % s->size;

		hdl_gb_arrive(b, from, HDL_LINK_PAIR, on_tasks_block(s, s->size + from), on_tasks_stride_of(s->bytes));
	}
	if (!s->in_place)
		hdl_gb_copy(b, user(HDL_SP_RECV, s, s->rank), user(HDL_SP_SEND, s, s->rank), s->bytes);
	for (int from = 0; from < s->size; from++)
		if (from != s->rank)
			unpack_block(b, s, user(HDL_SP_RECV, s, from), s->size + from);
	return hdl_gb_finish(b);
}

/* Each rank writes its operand of each part to the part's owner, whose device combines the operands in the order of the ranks. */
struct hdl_graph *hdl_build_tasks_reduce_scatter(const struct hdl_shape *s)
{
	struct hdl_gb *b = hdl_gb_new("pairwise", s->fn, s->esize);
	size_t len = hdl_enc_bytes(s->enc, s->bytes), stride = (on_tasks_stride_of(len) + 63) & ~(size_t)63,
	       stamp = stride - HDL_STAMP;
	size_t operands = (size_t)s->size * stride, mine = operands + (size_t)s->rank * stride;
	struct hdl_ref result = hdl_ref(HDL_SP_DATA, 2 * operands);
	enum hdl_space in = hdl_input(s);
	uint32_t put, on;

	if (!b)
		return NULL;
	hdl_gb_data(b, 2 * operands + stride);
	hdl_gb_encode(b, hdl_ref(HDL_SP_DATA, mine), user(in, s, s->rank), s->bytes, len);
	for (int k = 1; k < s->size; k++) {
		int to = (s->rank + k) % s->size;
		size_t at = (size_t)to * stride;

		hdl_gb_encode(b, hdl_ref(HDL_SP_DATA, at), user(in, s, to), s->bytes, len);
		hdl_gb_stamp(b, hdl_ref(HDL_SP_DATA, at + stamp), s->bytes, HDL_STAMP);
		hdl_gb_put(b, to, HDL_LINK_PAIR, hdl_ref(HDL_SP_DATA, mine), hdl_ref(HDL_SP_DATA, at), stride);
	}
	for (int k = 1; k < s->size; k++) {
		int from = (s->rank - k + s->size) % s->size;

		hdl_gb_arrive(b, from, HDL_LINK_PAIR, hdl_ref(HDL_SP_DATA, operands + (size_t)from * stride), stride);
	}
	put = hdl_gb_combine(b, s->rank, HDL_LINK_SELF, result, hdl_ref(HDL_SP_DATA, operands), len, stride, s->size, false);
	on = hdl_gb_arrive(b, s->rank, HDL_LINK_SELF, result, len);
	hdl_gb_after(b, on, put);
	for (int r = 0; r < s->size; r++)
		if (r != s->rank)
			hdl_gb_check(b, hdl_ref(HDL_SP_DATA, operands + (size_t)r * stride + stamp), s->bytes, HDL_STAMP);
	hdl_gb_decode(b, hdl_ref(HDL_SP_RECV, 0), result, s->bytes, len);
	return hdl_gb_finish(b);
}

/* ---- reductions up the tree ------------------------------------------------------------------------------------ */

static struct hdl_graph *on_tasks_reduction(const struct hdl_shape *s, int root, bool all)
{
	struct hdl_gb *b = hdl_gb_new("tree", s->fn, s->esize);
	struct tree_pos p = tree_pos_of(s, root);
	struct operands o = on_tasks_operands_of(s, &p);
	struct hdl_ref result = tasks_operand(&o, o.result);
	uint32_t made;

	if (!b)
		return NULL;
	hdl_gb_data(b, (size_t)(1 + o.result) * o.stride);
	hdl_gb_encode(b, tasks_operand(&o, 0), hdl_ref(hdl_input(s), 0), s->bytes, o.len);
	if (o.stamped)
		hdl_gb_stamp(b, stamps(&o, 0), s->bytes, HDL_STAMPS);
	made = on_tasks_up(b, s, &p, &o);
	if (all)
		pass_down(b, s, &p, result, result, o.pass_bytes, made);
	if (o.stamped && (all || !p.v))
		hdl_gb_check(b, stamps(&o, o.result), s->bytes, HDL_STAMPS);
	if (all || !p.v)
		hdl_gb_decode(b, hdl_ref(HDL_SP_RECV, 0), result, s->bytes, o.len);
	return hdl_gb_finish(b);
}

struct hdl_graph *hdl_build_tasks_reduce(const struct hdl_shape *s)
{
	return on_tasks_reduction(s, s->root, false);
}

struct hdl_graph *hdl_build_tasks_allreduce(const struct hdl_shape *s)
{
	return on_tasks_reduction(s, 0, true);
}

/* ---- star ---------------------------------------------------------------------------------------------------- */

/*
 * Each rank adds to rank 0's accumulator by atomics, then signals, both on its pair link; the tree carries the result down. An
 * atomic's operand is fixed when the request is posted, so a rank could not pass a partial sum on.
 */
struct hdl_graph *hdl_build_tasks_allreduce_star(const struct hdl_shape *s)
{
	struct hdl_gb *b = hdl_gb_new("star", s->fn, s->esize);
	struct tree_pos p = tree_pos_of(s, 0);
	struct hdl_ref acc = hdl_ref(HDL_SP_ACC, 0), input = hdl_ref(hdl_input(s), 0), data = hdl_ref(HDL_SP_DATA, 0);
	uint32_t on;

	if (!b)
		return NULL;
	hdl_gb_data(b, s->bytes);
	/* The root's own input goes through the device, too: only then is its addition atomic with respect to the others'. */
	on = hdl_gb_accum(b, 0, s->rank ? HDL_LINK_PAIR : HDL_LINK_SELF, input, s->bytes);
	if (s->rank)
		hdl_gb_put(b, 0, HDL_LINK_PAIR, NOWHERE, NOWHERE, 0);
	for (int r = 1; !s->rank && r < s->size; r++) {
		uint32_t arrive = hdl_gb_arrive(b, r, HDL_LINK_PAIR, acc, s->bytes);

		hdl_gb_after(b, arrive, on);
		on = arrive;
	}
	pass_down(b, s, &p, data, acc, s->bytes, on);
	hdl_gb_decode(b, hdl_ref(HDL_SP_RECV, 0), s->rank ? data : acc, s->bytes, s->bytes);
	return hdl_gb_finish(b);
}
