/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Graphs for the tasks executor. They may hold CPU nodes before everything else (done when the operation is posted) and
 * after everything else (done when it is complete); what lies between runs on the device.
 *
 * Links are ordered: a PUT lands after the ACCUMs that were posted on its link before it. An operation uses each link
 * once in each direction at most; tasks.c relies on it to size the receive queues.
 */
#include "collectives/algo.h"

#define NOWHERE hdl_ref(HDL_SP_NONE, 0)

/*
 * The binomial tree from the root over the tree links, which connect each rank with those 1, 2, 4, ... ahead: so the tree
 * of any root runs over the same links. Every rank passes on what arrived in `at`; on: nodes that precede it
 * at the root, which has nothing to wait for otherwise. Returns the last arrival.
 */
static uint32_t tree_down(struct hdl_gb *b, const struct hdl_shape *s, int root, struct hdl_ref from, size_t len,
			  const uint32_t *on, int non)
{
	struct hdl_ref at = len ? hdl_ref(HDL_SP_DATA, 0) : NOWHERE;
	int v = (s->rank - root + s->size) % s->size, bit = 1;
	uint32_t arrive = HDL_NODE_NONE;

	while (bit < s->size && !(v & bit))
		bit *= 2;
	if (v)
		arrive = hdl_gb_arrive(b, (s->rank - bit + s->size) % s->size, HDL_LINK_TREE, at, len);
	for (bit /= 2; bit; bit /= 2) {
		uint32_t put;

		if (v + bit >= s->size)
			continue;
		put = hdl_gb_put(b, (s->rank + bit) % s->size, HDL_LINK_TREE, at, v ? at : from, len);
		hdl_gb_after(b, put, arrive);
		for (int i = 0; i < non; i++)
			hdl_gb_after(b, put, on[i]);
	}
	return arrive;
}

/* The direct links carry every rank's signal to rank 0, the tree its answer. */
static struct hdl_graph *star(const struct hdl_shape *s, struct hdl_gb *b)
{
	struct hdl_ref acc = s->bytes ? hdl_ref(HDL_SP_ACC, 0) : NOWHERE;
	struct hdl_ref input = hdl_ref(hdl_input(s), 0);
	uint32_t on[1] = { HDL_NODE_NONE };

	if (s->rank) {
		if (s->bytes)
			hdl_gb_accum(b, 0, HDL_LINK_DIRECT, input, s->bytes);
		hdl_gb_put(b, 0, HDL_LINK_DIRECT, NOWHERE, NOWHERE, 0);
		tree_down(b, s, 0, NOWHERE, s->bytes, NULL, 0);
		if (s->bytes)
			hdl_gb_decode(b, hdl_ref(HDL_SP_RECV, 0), hdl_ref(HDL_SP_DATA, 0), s->bytes);
		return hdl_gb_finish(b);
	}
	/* The root's own input goes through the device too: only it is atomic towards the others' additions. */
	if (s->bytes)
		on[0] = hdl_gb_accum(b, 0, HDL_LINK_DIRECT, input, s->bytes);
	for (int r = 1; r < s->size; r++) {
		uint32_t arrive = hdl_gb_arrive(b, r, HDL_LINK_DIRECT, acc, s->bytes);

		hdl_gb_after(b, arrive, on[0]);
		on[0] = arrive;
	}
	tree_down(b, s, 0, acc, s->bytes, on, 1);
	if (s->bytes)
		hdl_gb_decode(b, hdl_ref(HDL_SP_RECV, 0), acc, s->bytes);
	return hdl_gb_finish(b);
}

struct hdl_graph *hdl_build_tasks_barrier(const struct hdl_shape *s)
{
	struct hdl_shape empty = *s;
	struct hdl_gb *b = hdl_gb_new("star", NULL, 0);

	empty.bytes = 0;
	return b ? star(&empty, b) : NULL;
}

struct hdl_graph *hdl_build_tasks_allreduce(const struct hdl_shape *s)
{
	struct hdl_gb *b = hdl_gb_new("star", s->fn, s->esize);

	return b ? star(s, b) : NULL;
}

struct hdl_graph *hdl_build_tasks_bcast(const struct hdl_shape *s)
{
	struct hdl_gb *b = hdl_gb_new("tree", NULL, 0);
	struct hdl_ref data = hdl_ref(HDL_SP_DATA, 0), buf = hdl_ref(HDL_SP_RECV, 0);

	if (!b)
		return NULL;
	if (s->rank == s->root)
		hdl_gb_copy(b, data, buf, s->bytes);
	tree_down(b, s, s->root, data, s->bytes, NULL, 0);
	if (s->rank != s->root)
		hdl_gb_copy(b, buf, data, s->bytes);
	return hdl_gb_finish(b);
}
