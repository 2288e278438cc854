/* SPDX-License-Identifier: BSD-3-Clause */
/* Frames of the rings that peers write into. */
#include "transport/peer/arrive.h"

#define RING_AHEAD 4		/* lines that are prefetched while a frame is delivered */

int hdl_ring_poll(struct hdl_ep *ep, int max)
{
	const struct hdl_hdr *at;
	int n = 0;

	while (n < max && (at = hdl_ring_peek(&ep->rx))) {
		struct hdl_hdr hdr = *at;

		uint32_t top = ep->rx.line, lines = hdl_ring_advance(&ep->rx, hdr.len, hdr.kind == HDL_CTL_SKIP);

		if (unlikely(!lines)) {
			hdl_error("%s wrote a frame of %u bytes that does not fit its ring: its memory or ours is "
				  "damaged",
				  hdl_proc_text(ep->rank), hdr.len);
			hdl_ep_fail(ep, -EPROTO);
			return n;
		}
		n++;
		/* the next frames of a sender that is ahead: without the prefetch the receiver waits for each message's own
		 * line */
		for (int i = 1; i <= RING_AHEAD; i++)
			__builtin_prefetch((const char *)at - i * (int)HDL_LINE);
		const char *payload = (const char *)at - hdr.len;
		if (likely(hdr.kind == HDL_EAGER || hdr.kind == HDL_RTS)) {
			ep->streak++;
			ep->in_ring.msgs++;
			ep->in_ring.bytes += hdr.len;
			hdl_arrive_ordered(ep, &hdr, payload, false);
		} else if (hdr.kind != HDL_CTL_SKIP) {
			hdl_arrive_unmatched(ep, &hdr, payload, &ep->in_ring, false);
		}
		if (unlikely(lines > 1 && ep->rx.clears))
			hdl_ring_clear(&ep->rx, top, lines);
		/* only behind the delivery: the sender may overwrite consumed lines */
		ep->rx.consumed += lines;
	}
	if (unlikely(hdl_ring_owes(&ep->rx)))
		hdl_ring_give_credit(ep);
	return n;
}
