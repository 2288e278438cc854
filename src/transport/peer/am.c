/* SPDX-License-Identifier: BSD-3-Clause */
/* Active messages that arrive: handlers by number. send.c sends them by the lanes of all messages: eager ones by the ring, pooled
 * receives or packets, longer ones by a rendezvous, whose announcement has the head behind its record. Ordered active messages
 * have sequence numbers of the peer, like matching messages. */
#include <stdlib.h>
#include <string.h>

#include "transport/core/tp.h"

int hdl_am_register(struct hdl_tp *tp, unsigned id, hdl_am_fn fn, void *context)
{
	if (id >= HDL_AM_IDS) {
		hdl_error("no active-message handler can have the number %u: the largest is %u", id, HDL_AM_IDS - 1);
		return -EINVAL;
	}
	if (!tp->handlers && !(tp->handlers = calloc(HDL_AM_IDS, sizeof(*tp->handlers))))
		return hdl_no_memory("the table of active-message handlers", HDL_AM_IDS * sizeof(*tp->handlers));
	if (fn && tp->handlers[id].fn) {
		hdl_error(
			"there is an active-message handler of number %u already: numbers are given once, for all of the process",
			id);
		return -EEXIST;
	}
	tp->handlers[id] = (struct hdl_am_handler){ .fn = fn, .context = context };
	return 0;
}

void hdl_am_arrived(struct hdl_ep *ep, const struct hdl_hdr *hdr, const void *payload)
{
	struct hdl_tp *tp = ep->tp;
	bool announced = hdr->kind == HDL_AM_RTS || hdr->kind == HDL_AM_FREE_RTS;
	size_t head = hdr->context, before = head + (announced ? HDL_RTS_SIZE : 0);
	uint32_t id = (uint32_t)hdr->tag;
	struct hdl_am am = { .ep = ep, .head_len = head };

	if (head > HDL_AM_HEAD_MAX || hdr->len < before) {
		hdl_error("%s sent an active message for handler %u of %u bytes, of which the head has %zu: dropped",
			  hdl_proc_text(ep->rank), id, hdr->len, head);
		return;
	}
	am.head = (const char *)payload + (before - head);
	if (announced) {
		uint64_t n;
		memcpy(&n, payload, sizeof(n));	/* the record begins with the payload's length */
		am.rts = payload;
		am.len = n;
	} else {
		am.data = (const char *)payload + head;
		am.len = hdr->len - head;
	}
	if (likely(id < HDL_AM_IDS && tp->handlers && tp->handlers[id].fn)) {
		tp->handlers[id].fn(tp->handlers[id].context, &am);
		return;
	}
	hdl_error("%s sent an active message of %zu bytes for handler %u, which this process does not have: dropped; is it "
		  "another version of the library, or has one side not come as far as to register it?",
		  hdl_proc_text(ep->rank), am.len, id);
	if (announced)
		tp->hooks->refuse(ep, am.rts);
}
