/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages that arrive in pooled receives of RC, XRC and DC. */
#include "transport/core/tp.h"

/* Counts a message that has taken a receive of the pool, which all senders share. Returns true if HDL_CTL_TAKEN must be sent to
 * the sender. */
static inline bool takes_receive(struct hdl_ep *ep, const struct hdl_rxpool *pool, const struct hdl_hdr *hdr)
{
	struct hdl_srq_credit *p = hdl_ep_srq_credit(ep, pool);

	return p && hdl_srq_credit_came(p, hdl_is_counted(hdr->kind), hdr->reserved);
}

/* Sends HDL_CTL_TAKEN: how many messages were taken, and how many the sender may have in the pool from now on. */
static __attribute__((noinline)) void grant(struct hdl_ep *ep, struct hdl_rxpool *pool)
{
	uint32_t since = ep->srq_credit->in - ep->srq_credit->in_reported;
	uint32_t base, share = hdl_rxpool_share(pool, &ep->srq_credit->active, true, since, &base);
	struct hdl_taken_rec m = hdl_srq_credit_answer(ep->srq_credit, share, base);

	hdl_ep_ctl(ep, HDL_CTL_TAKEN, &m, sizeof(m), false);
}

void hdl_srq_arrived(struct hdl_rxbuf *b, uint32_t len)
{
	struct hdl_tp *tp = b->pool->dev->tp;
	const struct hdl_wire *w = (const struct hdl_wire *)(uintptr_t)b->sge.addr;
	bool tells = len >= sizeof(*w) && w->src & HDL_TELLS;
	uint32_t head = tells ? HDL_WIRE_MOST : (uint32_t)sizeof(*w);
	struct hdl_ep *ep = NULL;

	if (likely(len >= head))
		ep = tells ? hdl_ep_on_ctl(tp, w->src, w + 1) : hdl_ep_by_id(tp, w->src);
	if (unlikely(!ep || w->nonce != (uint32_t)ep->name.incarnation || w->hdr.len > len - head)) {
		tp->stale++;
		return;
	}
	if (unlikely(!ep->sq || ep->failed))
		hdl_wire_on_message(ep, (enum hdl_pool)(b->pool - b->pool->dev->rx));
	if (ep->queues)
		ep->queues->messages++;
	if (unlikely(w->src == HDL_NAMED && !ep->id_sent)) {
		struct hdl_id_rec m = { .id = ep->id };
		ep->id_sent = true;
		hdl_ep_ctl(ep, HDL_CTL_ID, &m, sizeof(m), false);
	}
	bool answer = takes_receive(ep, b->pool, &w->hdr);
	hdl_ep_dispatch(ep, &w->hdr, (const char *)w + head, &ep->in_srq);
	if (unlikely(answer))
		grant(ep, b->pool);
}
