/* SPDX-License-Identifier: BSD-3-Clause */
/* What arrives: control messages, and messages in their order. */
#include <stdlib.h>
#include <string.h>

#include "transport/core/tp.h"

#define RING_AHEAD 4		/* lines that are fetched while a frame is worked on */

static void bad_message(struct hdl_ep *ep, const struct hdl_hdr *hdr)
{
	hdl_error("%s sent a message of kind %u with %u bytes, which this library does not understand: dropped",
		  hdl_proc_text(ep->rank), hdr->kind, hdr->len);
}

void hdl_ep_eager_off(struct hdl_ep *ep, bool on)
{
	struct hdl_hold_rec m = { .turn = ++ep->hold_told, .on = on };

	hdl_ep_ctl(ep, HDL_CTL_HOLD, &m, sizeof(m), false);
}

static void on_hold(struct hdl_ep *ep, const struct hdl_hold_rec *m)
{
	if ((int32_t)(m->turn - ep->hold_turn) <= 0)
		return;
	ep->hold_turn = m->turn;
	ep->hold = m->on;
	hdl_ep_refresh(ep);
}

static void control(struct hdl_ep *ep, const struct hdl_hdr *hdr, const void *payload)
{
	union {
		struct hdl_cts cts;
		struct hdl_fin fin;
		struct hdl_data_rec data;
		struct hdl_ring_offer offer;
		struct hdl_ring_accept accept;
		struct hdl_ring_released released;
		struct hdl_credit_rec credit;
		struct hdl_sleep_rec sleep;
		struct hdl_hold_rec hold;
		struct hdl_id_rec id;
		struct hdl_taken_rec taken;
		struct hdl_keep_rec keep;
		struct hdl_rma_done rma;
	} m;
	uint32_t n;
	static const uint8_t need[] = {
		[HDL_CTL_CTS] = sizeof(m.cts),
		[HDL_CTL_FIN] = sizeof(m.fin),
		[HDL_CTL_DATA] = sizeof(m.data),
		[HDL_CTL_RING_OFFER] = sizeof(m.offer),
		[HDL_CTL_RING_ACCEPT] = sizeof(m.accept),
		[HDL_CTL_RING_RELEASED] = sizeof(m.released),
		[HDL_CTL_CREDIT] = sizeof(m.credit),
		[HDL_CTL_SLEEP] = sizeof(m.sleep),
		[HDL_CTL_SLEEP_ACK] = sizeof(m.sleep),
		[HDL_CTL_AWAKE] = 0,
		[HDL_CTL_HOLD] = sizeof(m.hold),
		[HDL_CTL_WRITTEN] = sizeof(m.fin),
		[HDL_CTL_REFUSED] = sizeof(m.fin),
		[HDL_CTL_PROBE] = 0,
		[HDL_CTL_ID] = sizeof(m.id),
		[HDL_CTL_TAKEN] = sizeof(m.taken),
		[HDL_CTL_LEAVE] = 0,
		[HDL_CTL_KEEP] = sizeof(m.keep),
		[HDL_CTL_RMA_DONE] = sizeof(m.rma),
		[HDL_CTL_PART] = 0,
		[HDL_CTL_LAST] = 0,
	};

	if (hdr->kind >= sizeof(need) || hdr->len < need[hdr->kind]) {
		bad_message(ep, hdr);
		return;
	}
	/* payloads of a ring or a packet may be unaligned */
	if (hdr->kind == HDL_CTL_DATA)
		payload = (const char *)payload + hdr->len - sizeof(m.data);
	memcpy(&m, payload, need[hdr->kind]);
	switch (hdr->kind) {
	case HDL_CTL_CTS:
		hdl_rndv_on_cts(ep, &m.cts);
		break;
	case HDL_CTL_FIN:
		hdl_rndv_on_fin(ep, &m.fin);
		break;
	case HDL_CTL_REFUSED:
		hdl_rndv_on_refused(ep, &m.fin);
		break;
	case HDL_CTL_WRITTEN:
		hdl_rndv_on_written(ep, &m.fin);
		break;
	case HDL_CTL_DATA:
		n = hdr->len - (uint32_t)sizeof(m.data);
		hdl_rndv_on_data(ep, &m.data, (const char *)payload - n, n);
		break;
	case HDL_CTL_RTU:
		hdl_wire_on_rtu(ep, (uint32_t)hdr->tag);
		break;
	case HDL_CTL_RING_OFFER:
		hdl_ring_on_offer(ep, &m.offer);
		break;
	case HDL_CTL_RING_ACCEPT:
		hdl_ring_on_accept(ep, &m.accept);
		break;
	case HDL_CTL_RING_REVOKE:
		hdl_ring_on_revoke(ep);
		break;
	case HDL_CTL_RING_RELEASED:
		hdl_ring_on_released(ep, &m.released);
		break;
	case HDL_CTL_CREDIT:
		if (ep->ring)
			hdl_ring_ack(&ep->tx, m.credit.consumed);
		break;
	case HDL_CTL_SLEEP:
		hdl_idle_on_sleep(ep, &m.sleep);
		break;
	case HDL_CTL_SLEEP_ACK:
		hdl_idle_on_sleep_ack(ep, &m.sleep);
		break;
	case HDL_CTL_AWAKE:
		ep->wake_mode = false;
		hdl_ep_refresh(ep);
		break;
	case HDL_CTL_HOLD:
		on_hold(ep, &m.hold);
		break;
	case HDL_CTL_PROBE:
		break;
	case HDL_CTL_LEAVE:
		ep->left = true;
		break;
	case HDL_CTL_KEEP:
		hdl_xrc_keep(ep, &m.keep);
		break;
	case HDL_CTL_ID:
		ep->theirs = m.id.id;
		if (ep->src == HDL_NAMED)
			ep->src = m.id.id;
		break;
	case HDL_CTL_TAKEN:
		if (ep->pooled)
			hdl_srq_credit_on_answer(ep->pooled, &m.taken);
		break;
	case HDL_CTL_RMA_DONE:
		hdl_rma_on_done(ep, &m.rma);
		break;
	case HDL_CTL_PART:
	case HDL_CTL_LAST:
		if (!hdl_ud_on_part(ep, hdr, payload))
			bad_message(ep, hdr);
		break;
	default:
		bad_message(ep, hdr);
	}
}

static void deliver_parked(struct hdl_ep *ep)
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

/* active: whether it is for a handler. */
static inline __attribute__((always_inline)) void ordered(struct hdl_ep *ep, const struct hdl_hdr *hdr,
							      const void *payload, bool active)
{
	if (unlikely(!active && hdr->kind == HDL_RTS && hdr->len < HDL_RTS_SIZE)) {
		bad_message(ep, hdr);
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
		deliver_parked(ep);
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

/* One that came by a lane that is no ring: who sends many gets one. */
static inline void count_slow(struct hdl_ep *ep, const struct hdl_hdr *hdr, struct hdl_count *in)
{
	in->msgs++;
	in->bytes += hdr->len;
	if (++ep->slow_msgs >= (uint32_t)hdl_vars.hot_messages) {
		if (ep->rx_state == HDL_RX_NONE)
			hdl_ring_consider(ep);
		else if (ep->sleep_told)
			hdl_idle_awake(ep);
	}
}

/* What is not matched. in: what counts messages of its lane; slow: that is no ring. */
static __attribute__((noinline)) void unmatched(struct hdl_ep *ep, const struct hdl_hdr *hdr, const void *payload, struct hdl_count *in,
						bool slow)
{
	if (!hdl_is_am(hdr)) {
		control(ep, hdr, payload);
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
		ordered(ep, hdr, payload, true);
}

void hdl_ep_dispatch(struct hdl_ep *ep, const struct hdl_hdr *hdr, const void *payload, struct hdl_count *in)
{
	if (hdr->kind != HDL_EAGER && hdr->kind != HDL_RTS) {
		unmatched(ep, hdr, payload, in, true);
		return;
	}
	count_slow(ep, hdr, in);
	ordered(ep, hdr, payload, false);
}

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
		/* what a sender that is ahead has written next: else each message would wait for its own line */
		for (int i = 1; i <= RING_AHEAD; i++)
			__builtin_prefetch((const char *)at - i * (int)HDL_LINE);
		const char *payload = (const char *)at - hdr.len;
		if (likely(hdr.kind == HDL_EAGER || hdr.kind == HDL_RTS)) {
			ep->streak++;
			ep->in_ring.msgs++;
			ep->in_ring.bytes += hdr.len;
			ordered(ep, &hdr, payload, false);
		} else if (hdr.kind != HDL_CTL_SKIP) {
			unmatched(ep, &hdr, payload, &ep->in_ring, false);
		}
		if (unlikely(lines > 1 && ep->rx.clears))
			hdl_ring_clear(&ep->rx, top, lines);
		/* only now: what is reported as consumed may be overwritten */
		ep->rx.consumed += lines;
	}
	if (unlikely(hdl_ring_owes(&ep->rx)))
		hdl_ring_give_credit(ep);
	return n;
}
