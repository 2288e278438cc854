/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages that arrive by any lane: to the layer above in their order, to handlers, or to the control messages' table. */
#include <stdlib.h>

#include "transport/peer/arrive.h"

void hdl_arrive_parked(struct hdl_ep *ep)
{
	struct hdl_parked *p;

	while ((p = hdl_order_next(&ep->order))) {
		const struct hdl_hdr *hdr = (const struct hdl_hdr *)p->data;
		if (hdl_is_am(hdr))
			hdl_am_arrived(ep, hdr, p->data + sizeof(*hdr));
		else
			ep->tp->up.arrived(ep->tp->up.context, ep->rank, hdr, p->data + sizeof(*hdr));
		free(p);
	}
}

/* Counts a message of a lane that is no ring: a peer that sends many gets a ring. */
static inline void count_slow(struct hdl_ep *ep, const struct hdl_hdr *hdr, struct hdl_count *in)
{
	in->msgs++;
	in->bytes += hdr->len;
	if (++ep->slow_msgs >= (uint32_t)hdl_vars.hot_messages)
		ep->tp->hooks->slow_lane(ep);
}

void hdl_arrive_unmatched(struct hdl_ep *ep, const struct hdl_hdr *hdr, const void *payload, struct hdl_count *in, bool slow)
{
	if (!hdl_is_am(hdr)) {
		ep->tp->hooks->control(ep, hdr, payload);
		return;
	}
	if (slow) {
		count_slow(ep, hdr, in);
	} else {
		in->msgs++;
		in->bytes += hdr->len;
	}
	if (hdr->kind >= HDL_AM_FREE)
		hdl_am_arrived(ep, hdr, payload);
	else
		hdl_arrive_ordered(ep, hdr, payload, true);
}

void hdl_ep_dispatch(struct hdl_ep *ep, const struct hdl_hdr *hdr, const void *payload, struct hdl_count *in)
{
	if (hdr->kind != HDL_EAGER && hdr->kind != HDL_RTS) {
		hdl_arrive_unmatched(ep, hdr, payload, in, true);
		return;
	}
	count_slow(ep, hdr, in);
	hdl_arrive_ordered(ep, hdr, payload, false);
}

void hdl_bad_message(struct hdl_ep *ep, const struct hdl_hdr *hdr)
{
	hdl_error("%s sent a message of kind %u with %u bytes, which this library does not understand: dropped",
		  hdl_proc_text(ep->rank), hdr->kind, hdr->len);
}
