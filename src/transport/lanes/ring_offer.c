/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Giving eager rings and revoking them (states: enum hdl_rx_ring). The receiver, which has the memory, decides, and
 * counts each peer's messages.
 *
 *     receiver                                     sender
 *     OFFER(address, key, lines)           ──▶     initializes tx
 *     polls the ring                       ◀──     ACCEPT(address of the sender's struct hdl_credit)
 *     REVOKE                               ──▶     stops using the ring
 *     reads up to `sent`, frees the ring   ◀──     RELEASED(sent), behind the last write on the same queue
 */
#include <stdlib.h>
#include <string.h>

#include "transport/core/tp.h"

#define RING_SHARE_MIN 65536u

static int ring_list_add(struct hdl_ep *ep)
{
	struct hdl_tp *tp = ep->tp;

	if (tp->nrings == tp->rings_cap) {
		int cap = tp->rings_cap ? tp->rings_cap * 2 : 16;
		void *p = realloc(tp->rings, (size_t)cap * sizeof(*tp->rings));
		if (!p)
			return hdl_no_memory("the list of rings", (size_t)cap * sizeof(*tp->rings));
		tp->rings = p;
		tp->rings_cap = cap;
	}
	tp->rings[tp->nrings++] = ep;
	return 0;
}

static void ring_list_remove(struct hdl_ep *ep)
{
	struct hdl_tp *tp = ep->tp;

	for (int i = 0; i < tp->nrings; i++)
		if (tp->rings[i] == ep) {
			tp->rings[i] = tp->rings[--tp->nrings];
			return;
		}
}

void hdl_ring_drop(struct hdl_ep *ep)
{
	if (ep->rx_state == HDL_RX_NONE)
		return;
	ring_list_remove(ep);
	hdl_mem_free(&ep->rx_mem);
	ep->rx.lines = 0;
	ep->slow_msgs = 0;
	ep->tp->rings_given -= ep->rx_state != HDL_RX_LOST;
	ep->rx_state = HDL_RX_NONE;
}

void hdl_ring_lose(struct hdl_ep *ep)
{
	if (ep->rx_state == HDL_RX_NONE)
		return;
	/* no process can write into the ring: the queues have been stopped, or the peer's process has ended */
	if (ep->queues || hdl_peer_state(ep) == HDL_PROC_ENDED) {
		hdl_ring_drop(ep);
		return;
	}
	/* A peer that has not received REJ yet may still write into the ring: the ring stays, and is polled, so that
	 * hdl_tp_poll_rings sends REJ again. */
	ep->rx_state = HDL_RX_LOST;
	ep->tp->rings_given--;
}

/* Revokes the ring of a peer that was silent in the last period. */
static void take_one_back(struct hdl_tp *tp)
{
	for (int i = 0; i < tp->nrings; i++) {
		struct hdl_ep *ep = tp->rings[i];
		if (ep->rx_state != HDL_RX_ACTIVE || ep->rx_rate || ep->rx.consumed != ep->rx_mark || ep->failed)
			continue;
		ep->rx_state = HDL_RX_REVOKING;
		ep->rx_final = UINT64_MAX;
		hdl_ep_ctl(ep, HDL_CTL_RING_REVOKE, NULL, 0, true);
		return;
	}
}

void hdl_rings_look(struct hdl_tp *tp)
{
	for (int i = 0; i < tp->nrings; i++) {
		struct hdl_ep *ep = tp->rings[i];
		ep->rx_rate = ep->rx.consumed - ep->rx_mark;
		ep->rx_mark = ep->rx.consumed;
	}
}

/* Few peers get large rings, which carry large messages well; many peers share the memory. */
uint32_t hdl_ring_share(void)
{
	int peers = hdl_job.size < hdl_vars.ring_peers ? hdl_job.size : hdl_vars.ring_peers;
	size_t bytes = hdl_vars.ring_size, share = peers > 1 ? hdl_vars.ring_memory / (size_t)peers : bytes;

	if (share < RING_SHARE_MIN)
		share = RING_SHARE_MIN;
	if (bytes > share)
		bytes = share;
	return bytes / HDL_LINE < UINT32_MAX ? (uint32_t)(bytes / HDL_LINE) : UINT32_MAX;
}

void hdl_ring_consider(struct hdl_ep *ep)
{
	struct hdl_tp *tp = ep->tp;

	if (!hdl_ep_can_rdma(ep)) {
		ep->slow_msgs = 0;	/* asked again after HEDDLE_HOT_MESSAGES more messages, not with each */
		return;
	}
	uint32_t lines = hdl_ring_share();

	if (!ep->sq || ep->rx_state != HDL_RX_NONE || ep->failed || tp->closing ||
	    ep->slow_msgs < (uint32_t)hdl_vars.hot_messages || lines < HDL_RING_LINES_MIN)
		return;
	if (!hdl_dev_in_order(ep->sq->qp)) {
		ep->slow_msgs = 0;
		return;
	}
	if (tp->rings_given >= hdl_vars.ring_peers) {
		ep->slow_msgs = 0;	/* asked again when a ring may have been revoked */
		take_one_back(tp);
		return;
	}
	if (hdl_mem_alloc(ep->dev, "eager rings", (size_t)lines * HDL_LINE, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE,
			  &ep->rx_mem)) {
		ep->slow_msgs = 0;
		return;
	}
	memset(ep->rx_mem.p, 0, (size_t)lines * HDL_LINE);
	hdl_ring_rx_init(&ep->rx, ep->rx_mem.p, lines, !ep->dev->promises.sequence);
	ep->rx_mark = 0;
	ep->rx_rate = 1;
	ep->rx_state = HDL_RX_OFFERED;
	tp->rings_given++;
	ep->rings_out++;
	struct hdl_ring_offer m = { .addr = (uintptr_t)ep->rx_mem.p, .rkey = ep->rx_mem.mr->rkey, .lines = lines,
				    .cleared = ep->rx.clears, .number = ep->rings_out };
	hdl_ep_ctl(ep, HDL_CTL_RING_OFFER, &m, sizeof(m), true);
}

void hdl_ring_on_accept(struct hdl_ep *ep, const struct hdl_ring_accept *m)
{
	if (ep->rx_state != HDL_RX_OFFERED)
		return;
	if (!m->addr) {
		hdl_ring_drop(ep);
		return;
	}
	ep->peer_credit = m->addr;
	ep->peer_credit_rkey = m->rkey;
	if (ring_list_add(ep)) {
		/* without a place in the list the ring would not be polled: revoked */
		ep->rx_state = HDL_RX_REVOKING;
		ep->rx_final = UINT64_MAX;
		hdl_ep_ctl(ep, HDL_CTL_RING_REVOKE, NULL, 0, true);
		return;
	}
	ep->rx_state = HDL_RX_ACTIVE;
	hdl_stirred = true;
}

void hdl_ring_on_released(struct hdl_ep *ep, const struct hdl_ring_released *m)
{
	if (ep->rx_state != HDL_RX_REVOKING)
		return;
	ep->rx_final = m->sent;
	while (ep->rx.consumed < ep->rx_final && hdl_ring_poll(ep, 64))
		;
	hdl_ring_check_final(ep);
}

void hdl_ring_check_final(struct hdl_ep *ep)
{
	if (ep->rx_state == HDL_RX_REVOKING && ep->rx.consumed == ep->rx_final)
		hdl_ring_drop(ep);
}

void hdl_ring_on_offer(struct hdl_ep *ep, const struct hdl_ring_offer *m)
{
	struct hdl_tp *tp = ep->tp;
	struct hdl_ring_accept a = { 0 };
	uint32_t rkey = 0;
	uint64_t *dirty = NULL;

	ep->rings_in = m->number;
	if (ep->ring || m->lines < HDL_RING_LINES_MIN)
		return;
	/* The sender's queue promises for itself. Without `sequence` a terminator may land late: then the receiver must clear
	 * (ring.h). */
	bool usable = ep->sq && hdl_dev_in_order(ep->sq->qp) && (m->cleared || ep->dev->promises.sequence);
	if (usable)
		dirty = calloc((m->lines + 63) / 64, sizeof(*dirty));
	if (dirty && !ep->ring_credit && !hdl_credit_get(ep->dev, &ep->ring_credit, &rkey))
		ep->credit_rkey = rkey;
	if (dirty && ep->ring_credit) {
		ep->ring_credit->consumed = 0;
		a = (struct hdl_ring_accept){ .addr = (uintptr_t)ep->ring_credit, .rkey = ep->credit_rkey };
	}
	/* ordered: the first frame follows ACCEPT on the same queue */
	hdl_ep_ctl(ep, HDL_CTL_RING_ACCEPT, &a, sizeof(a), true);
	if (!a.addr) {
		free(dirty);
		return;
	}
	free(ep->dirty);
	ep->dirty = dirty;
	hdl_ring_tx_init(&ep->tx, m->addr, m->rkey, m->lines, m->cleared ? NULL : dirty);
	ep->ring_max = hdl_ring_max(m->lines) < tp->ring_max ? hdl_ring_max(m->lines) : tp->ring_max;
	/* a device without at_once copies later, so that there is no copy to be timed */
	ep->ring_most = !ep->dev->all || !ep->dev->promises.at_once ? ep->ring_max :
			hdl_ring_max(m->lines) < tp->ring_most ? hdl_ring_max(m->lines) : tp->ring_most;
	if (!ep->ring_tune && ep->ring_max < ep->ring_most)
		ep->ring_tune = hdl_autotune_new(HDL_TUNE_RING, 0, "to %s", hdl_proc_text(ep->rank))->id;
	ep->ring = true;
	hdl_stirred = true;
	ep->wr.wr.rdma.rkey = m->rkey;
	/* messages in pooled receives may wait for a receive: from here on the ring's lead over them is limited */
	if (ep->sq && ep->sq->head != ep->sq->tail) {
		if (!ep->reorder_guard_ud)
			ep->reorder_guard_seq = ep->tx_seq;
		ep->reorder_guard_sq = true;
		ep->reorder_guard_idx = ep->sq->head - 1;
	}
	hdl_ep_refresh(ep);
}

void hdl_ring_on_revoke(struct hdl_ep *ep)
{
	struct hdl_ring_released m = { .sent = ep->ring ? ep->tx.sent : 0 };

	ep->ring = false;
	hdl_ep_refresh(ep);
	hdl_ep_ctl(ep, HDL_CTL_RING_RELEASED, &m, sizeof(m), true);
}
