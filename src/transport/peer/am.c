/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Active messages: handlers by number, and what arrives for them. Sending is ep.c's, for they take the lanes of all messages: the ring,
 * pooled receives or packets as long as they are eager, and the rendezvous beyond, whose announcement has the head behind its record.
 * What is ordered takes a number of the peer's sequence, beside matching messages.
 */
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
		hdl_error("there is an active-message handler of number %u already: numbers are given once, for all of the process", id);
		return -EEXIST;
	}
	tp->handlers[id] = (struct hdl_am_handler){ .fn = fn, .context = context };
	return 0;
}

void hdl_am_pack(const struct hdl_send *s, uint64_t at, void *to, size_t n)
{
	const struct hdl_am_send *am = container_of(s, const struct hdl_am_send, send);

	/* an eager message is packed as a whole; what is announced is no more than its payload, which is one run */
	if (am->head_len)
		memcpy(to, am->head, am->head_len);
	if (am->len)
		memcpy((char *)to + am->head_len, am->data, am->len);
}

int hdl_am_send(struct hdl_ep *ep, unsigned id, unsigned flags, const void *head, size_t head_len, const void *data, size_t len,
		struct hdl_am_send *am)
{
	if (id >= HDL_AM_IDS || head_len > HDL_AM_HEAD_MAX) {
		hdl_error("an active message to %s: handler %u (the largest is %u), a head of %zu bytes (at most %u)",
			  hdl_proc_text(ep->rank), id, HDL_AM_IDS - 1, head_len, HDL_AM_HEAD_MAX);
		return -EINVAL;
	}
	am->send.tag = (int32_t)id;
	am->flags = flags;
	am->data = data;
	am->len = len;
	am->head_len = (unsigned)head_len;
	if (head_len)
		memcpy(am->head, head, head_len);
	return hdl_ep_send_am(ep, am);
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
		memcpy(&n, payload, sizeof(n));	/* the record begins with it */
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
	hdl_error("%s sent an active message of %zu bytes for handler %u, which this process does not have: dropped; is it another "
		  "version of the library, or has one side not come as far as to register it?", hdl_proc_text(ep->rank), am.len, id);
	if (announced)
		hdl_ep_refuse(ep, am.rts);
}
