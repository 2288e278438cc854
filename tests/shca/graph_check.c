/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The reference interpreter: carries a graph out in a random order of the orders that WAITs, ENABLEs and receives allow, and
 * nothing else. If all requests run, and the memory is as the graph predicts, the outcome of the graph is determined, as
 * intended.
 */
#include <stdlib.h>

#include "graph.h"

struct interpreter {
	const struct graph *g;
	uint32_t head[GRAPH_QUEUES], taken[GRAPH_QUEUES];
	uint64_t enabled[GRAPH_QUEUES], recv_enabled[GRAPH_QUEUES], completions[2 * GRAPH_QUEUES];
	struct graph_image image;
};

static bool step(struct interpreter *x, uint32_t qi)
{
	const struct graph *g = x->g;
	const struct graph_queue *q = &g->q[qi], *p = &g->q[q->peer];
	uint32_t i = x->head[qi];

	if (i == q->n || (q->managed_send && i >= x->enabled[qi]))
		return false;
	const struct graph_req *r = &q->req[i];
	switch (r->op) {
	case GRAPH_WAIT:
		if (x->completions[r->cq] < r->index)
			return false;
		break;
	case GRAPH_SEND_EN:
		if (x->enabled[r->target] < r->index)
			x->enabled[r->target] = r->index;
		break;
	case GRAPH_RECV_EN:
		if (x->recv_enabled[r->target] < r->index)
			x->recv_enabled[r->target] = r->index;
		break;
	case GRAPH_SEND:
	case GRAPH_WRITE_IMM:
		if (x->taken[q->peer] == p->posted_recv || (p->managed_recv && x->taken[q->peer] >= x->recv_enabled[q->peer]))
			return false;
		x->taken[q->peer]++;
		x->completions[2 * q->peer + 1]++;
		break;
	default:
		break;
	}
	for (uint32_t o = 0; o < g->queues; o++)
		if (o != qi && x->head[o] < q->ended[i][o])
			FAIL("seed %lu: request %u of queue %u can run when queue %u has come to %u, not %u",
			     (unsigned long)g->seed, i, qi, o, x->head[o], q->ended[i][o]);
	graph_apply(g, &x->image, qi, i);
	x->completions[2 * qi] += r->signaled;
	x->head[qi]++;
	return true;
}

void graph_check(const struct graph *g, uint64_t seed)
{
	struct interpreter *x = calloc(1, sizeof(*x));
	uint64_t rng = seed * 0x9e3779b97f4a7c15ull + 1;
	uint32_t left = g->steps, idle = 0;

	CHECK(x);
	x->g = g;
	graph_begin(g, &x->image);
	while (left && idle < g->queues) {
		uint32_t qi = rig_below(&rng, g->queues), most = 1 + rig_below(&rng, 12);
		for (idle = 0; idle < g->queues && !step(x, qi); idle++)
			qi = (qi + 1) % g->queues;
		if (idle == g->queues)
			break;
		for (left--; left && --most && step(x, qi); left--)
			;
	}
	if (left)
		FAIL("seed %lu: %u of %u requests cannot run", (unsigned long)g->seed, left, g->steps);
	for (uint32_t m = 0; m < g->members; m++)
		for (uint32_t off = 0; off < GRAPH_MEM; off++)
			if (x->image.mem[m][off] != g->image.mem[m][off])
				FAIL("seed %lu: member %u: byte %u is %#x in another order, not %#x", (unsigned long)g->seed, m,
				     off, (unsigned char)x->image.mem[m][off], (unsigned char)g->image.mem[m][off]);
	free(x);
}
