/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Giving eager rings and taking them back. The receiver decides: it has the memory and sees who is hot.
 *
 *     receiver                                     sender
 *     OFFER(address, key, lines)           ──▶     makes its view of the ring
 *     starts to look at the ring           ◀──     ACCEPT(where to write credits)
 *     REVOKE                               ──▶     stops using the ring
 *     drains it up to `sent`, frees it     ◀──     RELEASED(sent), behind its last write on the same queue
 */
#include <stdlib.h>
#include <string.h>

#include "transport/core/tp.h"

/* ---- credit words ------------------------------------------------------------------------------------------ */

#define SLAB 64u
struct hdl_credits {
	struct hdl_credits *next;
	struct hdl_mem mem;
	unsigned used;
};

int hdl_credit_get(struct hdl_dev *dev, struct hdl_credit **credit, uint32_t *rkey)
{
	struct hdl_credits *s = dev->credits;

	if (!s || s->used == SLAB) {
		s = calloc(1, sizeof(*s));
		if (!s)
			return hdl_no_memory("a slab of ring credits", sizeof(*s));
		int err = hdl_mem_alloc(dev, "rings' credits", SLAB * sizeof(struct hdl_credit),
					IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE, &s->mem);
		if (err) {
			free(s);
			return err;
		}
		s->next = dev->credits;
		dev->credits = s;
	}
	*credit = (struct hdl_credit *)s->mem.p + s->used++;
	memset(*credit, 0, sizeof(**credit));
	*rkey = s->mem.mr->rkey;
	return 0;
}

void hdl_credits_fini(struct hdl_dev *dev)
{
	struct hdl_credits *s;

	while ((s = dev->credits)) {
		dev->credits = s->next;
		hdl_mem_free(&s->mem);
		free(s);
	}
}

#define RING_SHARE_MIN 65536u

/* ---- the receiver's side ----------------------------------------------------------------------------------- */

static int ring_credit_list_add(struct hdl_ep *ep)
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

static void ring_credit_list_remove(struct hdl_ep *ep)
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
	ring_credit_list_remove(ep);
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
	/* nobody can write into it: the queues have been stopped, or there is no process any more, nor a key for what is still under way */
	if (ep->queues || hdl_peer_state(ep) == HDL_PROC_ENDED) {
		hdl_ring_drop(ep);
		return;
	}
	/* A peer that has not heard yet writes into it, and is told again: it stays, and is looked at, until the end. */
	ep->rx_state = HDL_RX_LOST;
	ep->tp->rings_given--;
}

/* Takes back the ring of a peer that was silent since the last look. */
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
		ep->slow_msgs = 0;	/* not each time */
		return;
	}
	uint32_t lines = hdl_ring_share();

	if (!ep->sq || ep->rx_state != HDL_RX_NONE || ep->failed || tp->closing ||
	    ep->slow_msgs < (uint32_t)hdl_vars.hot_messages || lines < HDL_RING_LINES_MIN)
		return;
	if (!hdl_dev_in_order(ep->sq->qp)) {
		ep->slow_msgs = 0;	/* not each time */
		return;
	}
	if (tp->rings_given >= hdl_vars.ring_peers) {
		ep->slow_msgs = 0;	/* ask again later */
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
	if (ring_credit_list_add(ep)) {
		/* without a place in the list it would not be read: give it back */
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

void hdl_ring_give_credit(struct hdl_ep *ep)
{
	struct hdl_sq *sq = ep->sq;
	int err;

	ep->credit_due = hdl_ep_away(ep);
	if (!sq || ep->failed || ep->rx_state < HDL_RX_ACTIVE)
		return;
	/* Written, an older one could land on a newer, and be the last; and a sleeper does not see it. */
	if (ep->wake_mode || !ep->dev->promises.sequence) {
		struct hdl_credit_rec c = { .consumed = ep->rx.consumed };
		ep->rx.reported = ep->rx.consumed;
		hdl_ep_ctl(ep, HDL_CTL_CREDIT, &c, sizeof(c), false);
		return;
	}
	if (!hdl_sq_room(sq, 1)) {
		ep->credit_due = true;
		hdl_ep_busy(ep);
		return;
	}
	char *head = hdl_sq_head(sq);
	memcpy(head, &ep->rx.consumed, 8);
	struct ibv_sge sge = { .addr = (uintptr_t)head, .length = 8, .lkey = sq->head_lkey };
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
				  .send_flags = sq->max_inline >= 8 ? IBV_SEND_INLINE : 0 };
	wr.wr.rdma.remote_addr = ep->peer_credit + offsetof(struct hdl_credit, consumed);
	wr.wr.rdma.rkey = ep->peer_credit_rkey;
	ep->rx.reported = ep->rx.consumed;
	if ((err = hdl_sq_post(sq, ep, &wr, HDL_SLOT_NONE, NULL, false, 8)))
		hdl_debug("%s: credit not posted (%s)", hdl_proc_text(ep->rank), strerror(-err));
}

/* ---- the sender's side ------------------------------------------------------------------------------------- */

void hdl_ring_on_offer(struct hdl_ep *ep, const struct hdl_ring_offer *m)
{
	struct hdl_tp *tp = ep->tp;
	struct hdl_ring_accept a = { 0 };
	uint32_t rkey = 0;
	uint64_t *dirty = NULL;

	ep->rings_in = m->number;
	if (ep->ring || m->lines < HDL_RING_LINES_MIN)
		return;
	/* Our queue promises for itself. Where nothing is promised of two requests, the receiver has to clear (ring.h). */
	bool usable = ep->sq && hdl_dev_in_order(ep->sq->qp) && (m->cleared || ep->dev->promises.sequence);
	if (usable)
		dirty = calloc((m->lines + 63) / 64, sizeof(*dirty));
	if (dirty && !ep->credit && !hdl_credit_get(ep->dev, &ep->credit, &rkey))
		ep->credit_rkey = rkey;
	if (dirty && ep->credit) {
		ep->credit->consumed = 0;
		a = (struct hdl_ring_accept){ .addr = (uintptr_t)ep->credit, .rkey = ep->credit_rkey };
	}
	/* behind it, in the order of the queue, the ring is used */
	hdl_ep_ctl(ep, HDL_CTL_RING_ACCEPT, &a, sizeof(a), true);
	if (!a.addr) {
		free(dirty);
		return;
	}
	free(ep->dirty);
	ep->dirty = dirty;
	hdl_ring_tx_init(&ep->tx, m->addr, m->rkey, m->lines, m->cleared ? NULL : dirty);
	ep->ring_max = hdl_ring_max(m->lines) < tp->ring_max ? hdl_ring_max(m->lines) : tp->ring_max;
	/* a device that is not at once copies later, and there is nothing to be timed */
	ep->ring_most = !ep->dev->all || !ep->dev->promises.at_once ? ep->ring_max :
			hdl_ring_max(m->lines) < tp->ring_most ? hdl_ring_max(m->lines) : tp->ring_most;
	ep->ring = true;
	hdl_stirred = true;
	ep->wr.wr.rdma.rkey = m->rkey;
	/* messages in pooled receives may wait for one: bound how far the ring runs ahead of them */
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
