/* SPDX-License-Identifier: BSD-3-Clause */
/* Control messages: sent by any lane that exists, or queued until there is room. */
#include <stdlib.h>
#include <string.h>

#include "transport/core/tp.h"

#define CTL_RING_MAX HDL_RING_SMALL

void hdl_ep_drop_ctl(struct hdl_ep *ep)
{
	struct hdl_ctl *c;

	for (int i = 0; i < 2; i++)
		while ((c = ep->ctl[i].head)) {
			ep->ctl[i].head = c->next;
			free(c);
		}
}

static int try_ctl(struct hdl_ep *ep, unsigned kind, const void *body, uint32_t len, bool ordered)
{
	struct hdl_hdr hdr = { .kind = (uint8_t)kind, .len = len };

	if (hdl_ep_replaced(ep))
		return -EAGAIN;
	/* by DC the peer's first message may come before this process has sent any */
	if (ep->conn.state == HDL_CONN_NONE && !(ep->can & HDL_QUEUE_PACKETS))
		ep->tp->hooks->connect(ep);
	if (ep->conn.state == HDL_CONN_READY) {
		int r = -EAGAIN;
		if (!ordered && ep->ring && !ep->wake_mode && len <= CTL_RING_MAX)
			r = hdl_post_ring(ep, &hdr, body, len, NULL, NULL, HDL_IN_PLACE_NO);
		if (r == -EAGAIN)
			r = hdl_ep_post_srq(ep, &hdr, body, len, NULL);
		return r;
	}
	/* an ordered message waits for the connected lane; if there will be none, there is nothing to be behind */
	if (ep->can & HDL_QUEUE_PACKETS && (!ordered || ep->conn.state == HDL_CONN_FAILED))
		return hdl_ud_send(ep, &hdr, body, len, NULL, 0);
	return -EAGAIN;
}

/* The peer waits for each control message: if one cannot be sent, the endpoint fails, on both sides. */
static void ctl_sent(struct hdl_ep *ep, int r)
{
	if (unlikely(r < 0))
		hdl_ep_fail(ep, r);
}

void hdl_ep_ctl(struct hdl_ep *ep, unsigned kind, const void *body, uint32_t len, bool ordered)
{
	struct hdl_ctl_list *list = &ep->ctl[ordered];
	int r;

	if (ep->failed)
		return;
	r = list->head ? -EAGAIN : try_ctl(ep, kind, body, len, ordered);
	if (r != -EAGAIN) {
		ctl_sent(ep, r);
		return;
	}
	struct hdl_ctl *c = malloc(sizeof(*c) + len);
	if (!c) {
		hdl_error("out of memory for a control message to %s", hdl_proc_text(ep->rank));
		hdl_ep_fail(ep, -ENOMEM);
		return;
	}
	*c = (struct hdl_ctl){ .kind = kind, .len = len };
	if (len)
		memcpy(c->body, body, len);
	if (list->head)
		list->tail->next = c;
	else
		list->head = c;
	list->tail = c;
	hdl_ep_busy(ep);
}

bool hdl_ep_drain_ctl(struct hdl_ep *ep, bool ordered, int *events)
{
	struct hdl_ctl_list *list = &ep->ctl[ordered];
	struct hdl_ctl *c;

	while (!ep->failed && (c = list->head)) {
		int r = try_ctl(ep, c->kind, c->body, c->len, ordered);

		if (r == -EAGAIN)
			return true;
		list->head = c->next;
		free(c);
		ctl_sent(ep, r);
		++*events;
	}
	return false;
}

void hdl_ep_eager_off(struct hdl_ep *ep, enum hdl_eager_off off)
{
	struct hdl_hold_rec m = { .turn = ++ep->eager_off_sent, .off = off };

	hdl_ep_ctl(ep, HDL_CTL_HOLD, &m, sizeof(m), false);
}
