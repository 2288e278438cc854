/* SPDX-License-Identifier: BSD-3-Clause */
/* Arrivals: frames in rings, completions of receives and of sends. */
#include "transport/core/tp.h"

#define RING_BURST 32		/* frames of one ring per turn, so that every peer has its turn */
#define POLLED_MOST 256		/* completions of receives per turn */

static void receive_failed(struct hdl_dev *dev, const struct ibv_wc *wc)
{
	if (wc->status != IBV_WC_WR_FLUSH_ERR && !dev->tp->closing)
		hdl_error("%s port %u: a receive on queue %u failed: %s (%d, vendor %#x)%s", dev->name,
			  dev->port.port_num, wc->qp_num, ibv_wc_status_str(wc->status), wc->status, wc->vendor_err,
			  wc->status == IBV_WC_LOC_LEN_ERR ? ": a peer sent more than this rank's HEDDLE_EAGER_MAX: it "
							     "must be the same on all ranks"
							   : "");
}

/* A receive that was flushed is posted again only if its queue is going to be reset. Returns true in that case. */
static __attribute__((noinline)) bool is_posted_again(struct hdl_dev *dev, struct hdl_rxpool *p, const struct ibv_wc *wc)
{
	receive_failed(dev, wc);
	return wc->status != IBV_WC_WR_FLUSH_ERR || hdl_ud_flushed(dev, p);
}

static inline void poll_received(struct hdl_dev *dev, const struct ibv_wc *wc)
{
	struct hdl_rxbuf *b = (struct hdl_rxbuf *)(uintptr_t)wc->wr_id;
	struct hdl_rxpool *p = b->pool;

	p->posted--;
	hdl_rxbuf_came(b);
	if (unlikely(wc->status != IBV_WC_SUCCESS)) {
		if (!is_posted_again(dev, p, wc))
			return;
	} else if (p->packets) {
		/* the first 40 bytes are a GRH, or unused (IBTA 11.4.1.2) */
		if (wc->byte_len >= HDL_GRH)
			hdl_ud_arrived(dev, (char *)(uintptr_t)b->sge.addr + HDL_GRH, wc->byte_len - HDL_GRH);
	} else if (wc->opcode == IBV_WC_RECV_RDMA_WITH_IMM) {
		hdl_rndv_on_imm(dev->tp, wc->imm_data, wc->byte_len);
	} else {
		hdl_srq_arrived(b, wc->byte_len);
	}
	hdl_rxbuf_back(b);
}

/* A pool of which one turn took half grows: bursts are larger than the pool. */
static void grow_pools(struct hdl_dev *dev, uint32_t taken)
{
	for (int i = 0; i < HDL_POOLS; i++) {
		struct hdl_rxpool *p = &dev->rx[i];
		if (p->total && p->total < p->max && (p->short_of || taken > p->total / 2))
			hdl_rxpool_grow(p, p->total);
	}
}

int hdl_tp_poll_rcq(struct hdl_dev *dev)
{
	struct ibv_wc wc[16];
	int n, all = 0;

	do {
		n = ibv_poll_cq(dev->rcq, 16, wc);
		if (unlikely(n < 0)) {
			hdl_error("%s: ibv_poll_cq of the receive queue failed (%d): the completion queue is in error",
				  dev->name, n);
			return all;
		}
		for (int i = 0; i < n; i++)
			poll_received(dev, &wc[i]);
		all += n;
	} while (n == 16 && all < POLLED_MOST);
	if (unlikely(all >= POLLED_MOST))
		dev->tp->cut_short_at = dev->tp->clock_turns + 1;
	if (!all) {
		struct hdl_rxpool *p = &dev->rx[HDL_POOL_PACKETS];
		/* the cache fetches the next completion and the packet's memory at the same time */
		__builtin_prefetch(p->ahead);
		if (p->nback >= HDL_RX_BATCH / 2)
			hdl_rxpool_flush(p);
	}
	if (all > 1)
		grow_pools(dev, (uint32_t)all);
	return all;
}

int hdl_tp_reap(struct hdl_tp *tp)
{
	int n = 0;

	for (int i = 0; i < tp->ndev; i++)
		for (struct hdl_scq *s = tp->dev[i]->scqs; s; s = s->next)
			n += hdl_sq_reap(tp, s);
	return n;
}

int hdl_tp_poll_rings(struct hdl_tp *tp)
{
	int n = 0;

	for (int i = tp->nrings; i-- > 0;) {
		struct hdl_ep *ep = tp->rings[i];
		int some = hdl_ring_poll(ep, RING_BURST);
		n += some;
		if (unlikely(some && ep->failed))
			hdl_wire_announce(ep);
		if (unlikely(ep->rx_state == HDL_RX_REVOKING))
			hdl_ring_check_final(ep);
	}
	return n;
}

void hdl_tp_take_in(struct hdl_tp *tp)
{
	if (tp->in_progress)
		return;
	tp->in_progress = true;
	hdl_tp_poll_rings(tp);
	for (int i = 0; i < tp->ndev; i++)
		hdl_tp_poll_rcq(tp->dev[i]);
	tp->in_progress = false;
}
