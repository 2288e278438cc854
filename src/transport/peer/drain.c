/* SPDX-License-Identifier: BSD-3-Clause */
/* Per endpoint in a turn of progress: sends waiting messages. Ends the operations of a failed endpoint. */
#include "transport/core/tp.h"

static void peer_failed(struct hdl_tp *tp, void *p, int err)
{
	const struct hdl_ep *ep = p;

	if (tp->up.peer_failed)
		tp->up.peer_failed(tp->up.context, ep->rank, err);
}

static void fail_list(struct hdl_send *s, int err)
{
	for (struct hdl_send *next; s; s = next) {
		next = s->next;
		hdl_done_send(s, err);
	}
}

/*
 * Ends a failed endpoint, in this order:
 *     1. REJ to the peer, so that the peer does not report an error of the network
 *     2. the queues stop: no request under way reaches a buffer that its owner has back
 *     3. operations end
 * Requests to this peer in a queue that other peers share end with the last of them.
 */
void hdl_ep_end(struct hdl_ep *ep)
{
	hdl_wire_begin_announcing(ep);
	hdl_wire_stop(ep);
	fail_list(ep->pend, ep->fail_err);
	ep->pend = NULL;
	hdl_ep_drop_ctl(ep);
	hdl_rndv_fail_peer(ep, ep->fail_err);
	hdl_rma_fail_peer(ep, ep->fail_err);
	hdl_ud_drop_peer(ep);
	hdl_ring_lose(ep);
	hdl_done_push(ep->tp, peer_failed, ep, ep->fail_err);
}

bool hdl_ep_drain(struct hdl_ep *ep, int *events)
{
	bool waits = false, gathers;
	struct hdl_send *s;
	int sent = 0;

	/* HDL_CONN_UP puts the endpoint on tp->busy again */
	if (ep->failed || hdl_ep_replaced(ep))
		return false;
	if (ep->credit_owed)
		hdl_ring_give_credit(ep);
	for (int i = 0; i < 2; i++)
		waits |= hdl_ep_drain_ctl(ep, i, events);
	if (ep->failed)
		return false;
	waits |= hdl_rndv_read(ep, events);
	waits |= hdl_rndv_push(ep);
	waits |= hdl_rma_push(ep);
	gathers = ep->pend && ep->pend->next && ep->can & HDL_QUEUE_PACKETS;
	if (gathers)
		hdl_ud_gather(ep);
	while ((s = ep->pend)) {
		struct hdl_send *next = s->next;
		int r;

		/* Without this limit a receiver as fast as the list would keep this process from reading the receiver's
		 * HDL_CTL_HOLD: each turn polls for arrivals. A turn that ends here has had events, so that no caller sleeps
		 * while messages wait. */
		if (sent == HDL_UNLOOKED_MAX) {
			waits = true;
			break;
		}
		r = hdl_ep_send_pending(ep, s);
		if (r == -EAGAIN) {
			waits = true;
			break;
		}
		ep->pend = next;
		if (r)
			hdl_done_send(s, r < 0 ? r : 0);
		++*events;
		sent++;
	}
	if (gathers)
		hdl_ud_gathered(ep);
	if (!ep->pend && ep->ring && !ep->fast)
		hdl_ep_refresh(ep);
	waits |= hdl_rndv_stream(ep);
	return waits || ep->credit_owed || ep->ctl[0].head || ep->ctl[1].head || ep->pend;
}
