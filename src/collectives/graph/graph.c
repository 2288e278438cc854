/* SPDX-License-Identifier: BSD-3-Clause */
#include "collectives/graph/graph.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct edge {
	uint32_t from, to;
};

struct hdl_gb {
	struct hdl_graph *g;
	uint32_t node_cap;
	struct edge *edges;
	uint32_t nedges, edge_cap;
	bool failed;
	const struct hdl_gb_now *now;	/* NULL: nodes are kept, for a graph */
	void *arg;
};

struct hdl_gb *hdl_gb_new(const char *algorithm, hdl_op_fn fn, size_t esize)
{
	struct hdl_gb *b = calloc(1, sizeof(*b));

	if (!b)
		return NULL;
	b->g = calloc(1, sizeof(*b->g));
	if (!b->g) {
		free(b);
		return NULL;
	}
	b->g->algorithm = algorithm;
	b->g->fn = fn;
	b->g->esize = esize;
	return b;
}

struct hdl_gb *hdl_gb_new_now(const struct hdl_gb_now *now, void *arg)
{
	struct hdl_gb *b = hdl_gb_new("now", NULL, 1);

	if (b) {
		b->now = now;
		b->arg = arg;
	}
	return b;
}

bool hdl_gb_end_now(struct hdl_gb *b)
{
	bool ok = !b->failed;

	b->failed = false;
	return ok;
}

bool hdl_gb_goes_on(const struct hdl_gb *b)
{
	return !b->failed;
}

const struct hdl_graph *hdl_gb_graph(const struct hdl_gb *b)
{
	return b->g;
}

static size_t tmp_now(struct hdl_gb *b, size_t bytes)
{
	void *p = b->now->tmp(b->arg, bytes);

	b->failed |= !p;
	return (size_t)p;
}

size_t hdl_gb_tmp(struct hdl_gb *b, size_t n, size_t bytes)
{
	size_t off = (b->g->tmp_bytes + 63) & ~(size_t)63, all, end;

	/* - 63: an executor rounds tmp_bytes up to 64 */
	if (__builtin_mul_overflow(n, bytes, &all) || __builtin_add_overflow(off, all, &end) || end > PTRDIFF_MAX - 63) {
		b->failed = true;
		return 0;
	}
	if (b->now)
		return tmp_now(b, all);
	b->g->tmp_bytes = end;
	return off;
}

static bool graph_grow(void **array, uint32_t *cap, uint32_t used, size_t elem)
{
	uint32_t want = *cap ? *cap * 2 : 16;
	void *p;

	if (used < *cap)
		return true;
	p = realloc(*array, want * elem);
	if (!p)
		return false;
	*array = p;
	*cap = want;
	return true;
}

void hdl_gb_after(struct hdl_gb *b, uint32_t node, uint32_t on)
{
	if (b->failed || node == HDL_NODE_NONE || on == HDL_NODE_NONE)
		return;
	if (!graph_grow((void **)&b->edges, &b->edge_cap, b->nedges, sizeof(*b->edges))) {
		b->failed = true;
		return;
	}
	b->edges[b->nedges++] = (struct edge){ on, node };
}

/* A node's access to its own rank's memory. The destinations of PUT and ACCUM are at the peer. */
struct access {
	uint8_t space;
	bool write;
	size_t off, len;
};

static int accesses(const struct hdl_node *n, struct access out[2])
{
	int k = 0;

	if (n->src_space < HDL_SPACES && n->len)
		out[k++] = (struct access){ n->src_space, false, n->src_off, hdl_node_src_len(n) };
	if (n->dst_space < HDL_SPACES && n->len && n->kind != HDL_N_PUT && n->kind != HDL_N_ACCUM)
		out[k++] = (struct access){ n->dst_space, true, n->dst_off, hdl_node_dst_len(n) };
	return k;
}

static bool overlap(const struct access *a, const struct access *b)
{
	return a->space == b->space && a->off < b->off + b->len && b->off < a->off + a->len;
}

/*
 * Makes node i depend on every earlier node whose memory conflicts with its own (read after write, write after read, write
 * after write). The search goes backwards and ends at a write that covers the access: every earlier access to that memory is
 * ordered before that write already.
 */
static void add_hazards(struct hdl_gb *b, uint32_t i)
{
	struct access mine[2], theirs[2];
	int nmine = accesses(&b->g->nodes[i], mine);

	for (int m = 0; m < nmine; m++) {
		bool covered = false;

		for (uint32_t j = i; j-- > 0 && !covered;) {
			int n = accesses(&b->g->nodes[j], theirs);
			bool conflict = false;

			for (int t = 0; t < n; t++) {
				if (!overlap(&mine[m], &theirs[t]) || (!mine[m].write && !theirs[t].write))
					continue;
				conflict = true;
				if (theirs[t].write && theirs[t].off <= mine[m].off &&
				    theirs[t].off + theirs[t].len >= mine[m].off + mine[m].len)
					covered = true;
			}
			if (conflict)
				hdl_gb_after(b, i, j);
		}
	}
}

static uint32_t graph_add(struct hdl_gb *b, struct hdl_node n)
{
	struct hdl_graph *g = b->g;

	if (b->now) {
		if (likely(!b->failed))
			b->now->node(b->arg, &n);
		return HDL_NODE_NONE;
	}
	if (b->failed || !graph_grow((void **)&g->nodes, &b->node_cap, g->nnodes, sizeof(*g->nodes))) {
		b->failed = true;
		return HDL_NODE_NONE;
	}
	g->nodes[g->nnodes] = n;
	add_hazards(b, g->nnodes);
	return g->nnodes++;
}

static size_t max_size(size_t a, size_t b)
{
	return a > b ? a : b;
}

/* Grows the slot to hold `len` bytes at ref. */
static void note_slot(struct hdl_graph *g, struct hdl_ref ref, size_t len)
{
	size_t end = (ref.off + len + 7) & ~(size_t)7;

	if (ref.space == HDL_SP_ACC)
		g->acc_bytes = max_size(g->acc_bytes, end);
	else if (ref.space == HDL_SP_DATA)
		g->data_bytes = max_size(g->data_bytes, end);
}

void hdl_gb_data(struct hdl_gb *b, size_t bytes)
{
	note_slot(b->g, hdl_ref(HDL_SP_DATA, 0), bytes);
}

uint32_t hdl_gb_send(struct hdl_gb *b, int peer, uint32_t sub, struct hdl_ref src, size_t len)
{
	b->g->nsends++;
	b->g->max_msg = max_size(b->g->max_msg, len);
	return graph_add(b, (struct hdl_node){ .kind = HDL_N_SEND, .peer = peer, .sub = sub, .src_space = src.space,
					 .dst_space = HDL_SP_NONE, .src_off = src.off, .len = len });
}

uint32_t hdl_gb_recv(struct hdl_gb *b, int peer, uint32_t sub, struct hdl_ref dst, size_t len)
{
	b->g->nrecvs++;
	b->g->max_msg = max_size(b->g->max_msg, len);
	return graph_add(b, (struct hdl_node){ .kind = HDL_N_RECV, .peer = peer, .sub = sub, .src_space = HDL_SP_NONE,
					 .dst_space = dst.space, .dst_off = dst.off, .len = len });
}

static uint32_t local(struct hdl_gb *b, enum hdl_node_kind kind, struct hdl_ref dst, struct hdl_ref src, size_t len)
{
	if (!len)
		return HDL_NODE_NONE;
	note_slot(b->g, dst, len);
	note_slot(b->g, src, len);
	return graph_add(b, (struct hdl_node){ .kind = kind, .peer = -1, .src_space = src.space, .src_off = src.off,
					 .dst_space = dst.space, .dst_off = dst.off, .len = len });
}

uint32_t hdl_gb_copy(struct hdl_gb *b, struct hdl_ref dst, struct hdl_ref src, size_t len)
{
	return local(b, HDL_N_COPY, dst, src, len);
}

uint32_t hdl_gb_reduce(struct hdl_gb *b, struct hdl_ref dst, struct hdl_ref src, size_t len)
{
	return local(b, HDL_N_REDUCE, dst, src, len);
}

static uint32_t coded(struct hdl_gb *b, enum hdl_node_kind kind, struct hdl_ref dst, struct hdl_ref src, size_t len,
		      size_t enc_len)
{
	if (!len)
		return HDL_NODE_NONE;
	note_slot(b->g, kind == HDL_N_ENCODE ? dst : src, enc_len);
	return graph_add(b, (struct hdl_node){ .kind = kind, .peer = -1, .src_space = src.space, .src_off = src.off,
					 .dst_space = dst.space, .dst_off = dst.off, .len = len, .stride = enc_len });
}

uint32_t hdl_gb_encode(struct hdl_gb *b, struct hdl_ref dst, struct hdl_ref src, size_t len, size_t enc_len)
{
	return coded(b, HDL_N_ENCODE, dst, src, len, enc_len);
}

uint32_t hdl_gb_decode(struct hdl_gb *b, struct hdl_ref dst, struct hdl_ref src, size_t len, size_t enc_len)
{
	return coded(b, HDL_N_DECODE, dst, src, len, enc_len);
}

uint32_t hdl_gb_stamp(struct hdl_gb *b, struct hdl_ref at, size_t bytes, size_t size)
{
	note_slot(b->g, at, size);
	return graph_add(b, (struct hdl_node){ .kind = HDL_N_STAMP, .peer = -1, .src_space = HDL_SP_NONE, .dst_space = at.space,
					 .dst_off = at.off, .len = size, .stride = bytes });
}

uint32_t hdl_gb_check(struct hdl_gb *b, struct hdl_ref at, size_t bytes, size_t size)
{
	note_slot(b->g, at, size);
	return graph_add(b, (struct hdl_node){ .kind = HDL_N_CHECK, .peer = -1, .dst_space = HDL_SP_NONE, .src_space = at.space,
					 .src_off = at.off, .len = size, .stride = bytes });
}

uint32_t hdl_gb_accum(struct hdl_gb *b, int peer, enum hdl_link link, struct hdl_ref src, size_t len)
{
	/* The peer's accumulator has this length; all ranks must use slots of one size. */
	note_slot(b->g, hdl_ref(HDL_SP_ACC, 0), len);
	return graph_add(b, (struct hdl_node){ .kind = HDL_N_ACCUM, .peer = peer, .link = link, .src_space = src.space,
					 .src_off = src.off, .dst_space = HDL_SP_ACC, .len = len });
}

uint32_t hdl_gb_combine(struct hdl_gb *b, int peer, enum hdl_link link, struct hdl_ref dst, struct hdl_ref src, size_t len,
			size_t stride, int n, bool stamped)
{
	struct hdl_node node = { .kind = HDL_N_PUT, .peer = peer, .link = link, .src_space = src.space, .src_off = src.off,
				 .dst_space = dst.space, .dst_off = dst.off, .len = len, .stride = stride, .nsrc = (uint16_t)n,
				 .stamped = stamped };

	note_slot(b->g, src, hdl_node_src_len(&node));
	return graph_add(b, node);
}

uint32_t hdl_gb_put(struct hdl_gb *b, int peer, enum hdl_link link, struct hdl_ref dst, struct hdl_ref src, size_t len)
{
	return hdl_gb_combine(b, peer, link, dst, src, len, 0, 1, false);
}

uint32_t hdl_gb_arrive(struct hdl_gb *b, int peer, enum hdl_link link, struct hdl_ref dst, size_t len)
{
	note_slot(b->g, dst, len);
	return graph_add(b, (struct hdl_node){ .kind = HDL_N_ARRIVE, .peer = peer, .link = link, .src_space = HDL_SP_NONE,
					 .dst_space = dst.space, .dst_off = dst.off, .len = len });
}

static struct hdl_ref part_ref(const struct hdl_part *where, size_t tmp, uint8_t space, size_t off)
{
	switch (space) {
	case HDL_SP_SEND: return hdl_ref(where->send.space, where->send.off + off);
	case HDL_SP_RECV: return hdl_ref(where->recv.space, where->recv.off + off);
	case HDL_SP_TMP: return hdl_ref(HDL_SP_TMP, tmp + off);
	default: return hdl_ref((enum hdl_space)space, off);
	}
}

void hdl_gb_part(struct hdl_gb *b, struct hdl_graph *part, const struct hdl_part *where)
{
	size_t tmp = part && part->tmp_bytes ? hdl_gb_tmp(b, 1, part->tmp_bytes) : 0;
	uint32_t first = b->g->nnodes;

	b->failed |= !part;
	for (uint32_t i = 0; !b->failed && i < part->nnodes; i++) {
		const struct hdl_node *n = &part->nodes[i];
		struct hdl_ref src = part_ref(where, tmp, n->src_space, n->src_off),
			       dst = part_ref(where, tmp, n->dst_space, n->dst_off);

		if (n->kind == HDL_N_SEND)
			hdl_gb_send(b, where->rank(where->arg, n->peer), hdl_sub((int)(n->sub + where->sub)), src, n->len);
		else if (n->kind == HDL_N_RECV)
			hdl_gb_recv(b, where->rank(where->arg, n->peer), hdl_sub((int)(n->sub + where->sub)), dst, n->len);
		else
			local(b, (enum hdl_node_kind)n->kind, dst, src, n->len);
		for (uint32_t p = 0; p < n->npreds; p++)
			hdl_gb_after(b, first + i, first + part->preds[n->pred0 + p]);
	}
	hdl_graph_free(part);
}

static int by_to_from(const void *va, const void *vb)
{
	const struct edge *a = va, *b = vb;

	if (a->to != b->to)
		return a->to < b->to ? -1 : 1;
	return a->from < b->from ? -1 : a->from > b->from;
}

/* Sorts the edges, drops duplicates, and fills preds and succs. */
static bool lay_out_edges(struct hdl_gb *b)
{
	struct hdl_graph *g = b->g;
	uint32_t n = 0, at = 0;

	if (b->nedges)
		qsort(b->edges, b->nedges, sizeof(*b->edges), by_to_from);
	for (uint32_t i = 0; i < b->nedges; i++)
		if (!n || by_to_from(&b->edges[n - 1], &b->edges[i]))
			b->edges[n++] = b->edges[i];

	g->preds = calloc(n ? n : 1, sizeof(*g->preds));
	g->succs = calloc(n ? n : 1, sizeof(*g->succs));
	if (!g->preds || !g->succs)
		return false;
	for (uint32_t i = 0; i < n; i++) {
		g->preds[i] = b->edges[i].from;
		g->nodes[b->edges[i].to].npreds++;
		g->nodes[b->edges[i].from].nsuccs++;
	}
	for (uint32_t i = 0, p = 0; i < g->nnodes; i++) {
		g->nodes[i].pred0 = p;
		p += g->nodes[i].npreds;
		g->nodes[i].succ0 = at;
		at += g->nodes[i].nsuccs;
		g->nodes[i].nsuccs = 0;
	}
	for (uint32_t i = 0; i < n; i++) {
		struct hdl_node *from = &g->nodes[b->edges[i].from];

		g->succs[from->succ0 + from->nsuccs++] = b->edges[i].to;
	}
	return true;
}

/* Returns unused node memory: a graph lives as long as its communicator. */
static void graph_cut(struct hdl_graph *g)
{
	struct hdl_node *nodes = g->nnodes ? realloc(g->nodes, g->nnodes * sizeof(*nodes)) : NULL;

	if (nodes)
		g->nodes = nodes;
}

struct hdl_graph *hdl_gb_finish(struct hdl_gb *b)
{
	struct hdl_graph *g = b->g;

	graph_cut(g);
	if (b->failed || !lay_out_edges(b)) {
		hdl_graph_free(g);
		g = NULL;
	}
	free(b->edges);
	free(b);
	if (!g)
		errno = ENOMEM;
	return g;
}

void hdl_graph_forget(struct hdl_graph *g, bool nodes)
{
	free(g->preds);
	free(g->succs);
	g->preds = g->succs = NULL;
	if (!nodes)
		return;
	free(g->nodes);
	g->nodes = NULL;
	g->nnodes = 0;
}

void hdl_graph_free(struct hdl_graph *g)
{
	if (!g)
		return;
	free(g->nodes);
	free(g->preds);
	free(g->succs);
	free(g);
}
