/* SPDX-License-Identifier: BSD-3-Clause */
/* HEDDLE_REPORT_MEMORY: the transport's part of the ledger (runtime/ledger.c). */
#include <shca.h>

#include "transport/core/tp.h"

/* ---- prediction -------------------------------------------------------------------------------------------- */

static void memory_pools(struct hdl_dev *dev)
{
	const struct hdl_bufpool *sends[] = { &dev->bounce, &dev->pkt, &dev->pkt_small };

	for (int i = 0; i < HDL_POOLS; i++)
		if (dev->rx[i].total)
			hdl_ledger_predict("receive pools", (uint64_t)dev->rx[i].first * dev->rx[i].size);
	for (unsigned i = 0; i < ARRAY_SIZE(sends); i++)
		if (sends[i]->total)
			hdl_ledger_predict("send buffers", (uint64_t)(sends[i]->chunk + 3) / 4 * sends[i]->size);
}

/* ---- memory in the heap ------------------------------------------------------------------------------------ */

static void memory_peers(struct hdl_tp *tp)
{
	uint64_t streams = 0;

	for (uint32_t i = 0; i < tp->peers.n; i++)
		if (tp->peers.of[i] && tp->peers.of[i]->rel)
			streams += sizeof(struct hdl_rel);
	hdl_ledger_heap("heap: endpoints and UD streams",
			tp->peers.live * sizeof(struct hdl_ep) + tp->peers.n * HDL_PEER_BYTES + streams,
			tp->peers.live * sizeof(struct hdl_ep) + tp->peers.cap * HDL_PEER_BYTES + streams);
}

static void memory_queues(struct hdl_tp *tp)
{
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < tp->nsqs; i++)
		if (tp->sqs[i])
			bytes += tp->sqs[i]->depth * sizeof(*tp->sqs[i]->slot);
	hdl_ledger_heap("heap: send queues' slots", 0, bytes);
}

static void memory_receives(struct hdl_tp *tp)
{
	uint64_t bytes = 0;

	for (int d = 0; d < tp->ndev; d++)
		for (int i = 0; i < HDL_POOLS; i++)
			bytes += tp->dev[d]->rx[i].total * sizeof(struct hdl_rxbuf);
	hdl_ledger_heap("heap: receives' work requests", 0, bytes);
}

/* ---- the fabric -------------------------------------------------------------------------------------------- */

static void memory_fabric(struct ibv_context *ctx)
{
	static const char *const whose[] = {
		[SHCA_MEMORY_TABLES] = HDL_LEDGER_TABLES, [SHCA_MEMORY_OWN] = "fabric: this process's queues, regions",
		[SHCA_MEMORY_PEERS] = "fabric: peers' queues, rings, pools, slots", [SHCA_MEMORY_FREE] = "fabric: free chunks",
	};
	enum shca_memory owner;
	void *p;

	for (uint64_t at = 0; (owner = shca_memory_at(ctx, at, &p)) != SHCA_MEMORY_END; at += SHCA_MEMORY_PIECE)
		hdl_ledger_pages(whose[owner], owner == SHCA_MEMORY_OWN, p, SHCA_MEMORY_PIECE);
}

void hdl_tp_memory(struct hdl_tp *tp)
{
	for (int d = 0; d < tp->ndev; d++) {
		memory_pools(tp->dev[d]);
		memory_fabric(tp->dev[d]->port.ctx);
	}
	hdl_ledger_predict("eager rings", (uint64_t)tp->rings_given * hdl_ring_share() * HDL_LINE);
	memory_peers(tp);
	memory_queues(tp);
	memory_receives(tp);
}
