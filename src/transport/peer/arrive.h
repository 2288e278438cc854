/* SPDX-License-Identifier: BSD-3-Clause */
/* The order of arriving messages, inlined into the ring's poll and into the other lanes' dispatch. */
#ifndef HDL_TP_ARRIVE_H
#define HDL_TP_ARRIVE_H

#include "transport/core/tp.h"

/* Delivers the parked messages that are in order. */
void hdl_arrive_parked(struct hdl_ep *ep);
/* Handles an active or control message. in: the counter of the message's lane; slow: the lane is no ring. */
void hdl_arrive_unmatched(struct hdl_ep *ep, const struct hdl_hdr *hdr, const void *payload, struct hdl_count *in, bool slow);

/* Delivers a message that has a sequence number, then the parked messages that follow, or parks the message. active: for a
 * handler; else for matching. */
static inline __attribute__((always_inline)) void hdl_arrive_ordered(struct hdl_ep *ep, const struct hdl_hdr *hdr,
									 const void *payload, bool active)
{
	if (unlikely(!active && hdr->kind == HDL_RTS && hdr->len < HDL_RTS_SIZE)) {
		hdl_bad_message(ep, hdr);
		return;
	}
	switch (hdl_order_check(&ep->order, hdr->seq)) {
	case HDL_ORDER_DELIVER:
		if (active)
			hdl_am_arrived(ep, hdr, payload);
		else
			ep->tp->up.arrived(ep->tp->up.context, ep->rank, hdr, payload);
		if (likely(!ep->order.head))
			return;
		hdl_arrive_parked(ep);
		return;
	case HDL_ORDER_PARK:
		if (hdl_order_park(&ep->order, hdr->seq, hdr, sizeof(*hdr), payload, hdr->len) < 0) {
			hdl_error("out of memory for a message of %u bytes from %s that came early", hdr->len,
				  hdl_proc_text(ep->rank));
			hdl_ep_fail(ep, -ENOMEM);
		}
		return;
	case HDL_ORDER_DROP:
		return;
	}
}

#endif
