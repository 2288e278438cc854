/* SPDX-License-Identifier: BSD-3-Clause */
/* Control messages that arrive: a table by type (enum hdl_ctl_kind). */
#include <string.h>

#include "transport/core/tp.h"

/* A control message. The record is a copy, since payloads in a ring or a packet may be unaligned; payload is valid during the
 * call. */
struct ctl_msg {
	const struct hdl_hdr *hdr;
	const void *payload;
	union {
		char record[sizeof(struct hdl_cts)];	/* the largest */
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
		struct hdl_agent_rec agent;
	};
};
_Static_assert(sizeof(struct ctl_msg) == offsetof(struct ctl_msg, cts) + sizeof(struct hdl_cts), "no record is longer");

static void on_cts(struct hdl_ep *ep, const struct ctl_msg *m)
{
	hdl_rndv_on_cts(ep, &m->cts);
}

static void on_fin(struct hdl_ep *ep, const struct ctl_msg *m)
{
	hdl_rndv_on_fin(ep, &m->fin);
}

static void on_refused(struct hdl_ep *ep, const struct ctl_msg *m)
{
	hdl_rndv_on_refused(ep, &m->fin);
}

static void on_written(struct hdl_ep *ep, const struct ctl_msg *m)
{
	hdl_rndv_on_written(ep, &m->fin);
}

/* The record is behind the bytes. */
static void on_data(struct hdl_ep *ep, const struct ctl_msg *m)
{
	hdl_rndv_on_data(ep, &m->data, m->payload, m->hdr->len - (uint32_t)sizeof(m->data));
}

static void on_rtu(struct hdl_ep *ep, const struct ctl_msg *m)
{
	hdl_wire_on_rtu(ep, (uint32_t)m->hdr->tag);
}

static void on_offer(struct hdl_ep *ep, const struct ctl_msg *m)
{
	hdl_ring_on_offer(ep, &m->offer);
}

static void on_accept(struct hdl_ep *ep, const struct ctl_msg *m)
{
	hdl_ring_on_accept(ep, &m->accept);
}

static void on_revoke(struct hdl_ep *ep, const struct ctl_msg *m)
{
	(void)m;
	hdl_ring_on_revoke(ep);
}

static void on_released(struct hdl_ep *ep, const struct ctl_msg *m)
{
	hdl_ring_on_released(ep, &m->released);
}

static void on_credit(struct hdl_ep *ep, const struct ctl_msg *m)
{
	hdl_ring_ack(&ep->tx, m->credit.consumed);
}

static void on_sleep(struct hdl_ep *ep, const struct ctl_msg *m)
{
	hdl_idle_on_sleep(ep, &m->sleep);
}

static void on_sleep_ack(struct hdl_ep *ep, const struct ctl_msg *m)
{
	hdl_idle_on_sleep_ack(ep, &m->sleep);
}

static void on_awake(struct hdl_ep *ep, const struct ctl_msg *m)
{
	(void)m;
	ep->wake_mode = false;
	hdl_ep_refresh(ep);
}

/* HDL_CTL_HOLDs may overtake each other: the latest turn counts. */
static void on_hold(struct hdl_ep *ep, const struct ctl_msg *m)
{
	if ((int32_t)(m->hold.turn - ep->eager_off_turn) <= 0)
		return;
	ep->eager_off_turn = m->hold.turn;
	ep->eager_off = m->hold.off < HDL_EAGER_NONE ? (uint8_t)m->hold.off : HDL_EAGER_NONE;
	hdl_ep_refresh(ep);
}

/* the message's acknowledgement is the answer */
static void on_probe(struct hdl_ep *ep, const struct ctl_msg *m)
{
	(void)ep;
	(void)m;
}

static void on_leave(struct hdl_ep *ep, const struct ctl_msg *m)
{
	(void)m;
	ep->departed = true;
}

static void on_stay(struct hdl_ep *ep, const struct ctl_msg *m)
{
	(void)m;
	ep->stays = true;
}

static void on_keep(struct hdl_ep *ep, const struct ctl_msg *m)
{
	hdl_xrc_keep(ep, &m->keep);
}

static void on_id(struct hdl_ep *ep, const struct ctl_msg *m)
{
	ep->id_there = m->id.id;
	if (ep->src == HDL_NAMED)
		ep->src = m->id.id;
}

static void on_taken(struct hdl_ep *ep, const struct ctl_msg *m)
{
	hdl_srq_credit_on_answer(ep->srq_credit, &m->taken);
}

static void on_rma_done(struct hdl_ep *ep, const struct ctl_msg *m)
{
	hdl_rma_on_done(ep, &m->rma);
}

static void on_agent_ask(struct hdl_ep *ep, const struct ctl_msg *m)
{
	hdl_agent_on_ask(ep, &m->agent);
}

static void on_agent_answer(struct hdl_ep *ep, const struct ctl_msg *m)
{
	hdl_agent_on_answer(ep, &m->agent);
}

static void on_part(struct hdl_ep *ep, const struct ctl_msg *m)
{
	if (!hdl_ud_on_part(ep, m->hdr, m->payload))
		hdl_bad_message(ep, m->hdr);
}

/* The state in which a message counts; in any other state the message is late, and dropped. Handlers check the states of their
 * own machines. */
enum ctl_when {
	WHEN_ANY = 0,
	WHEN_RING,		/* this process writes into a ring of the peer's */
	WHEN_POOLED,		/* this process has sent into the peer's pooled receives */
};

static const struct ctl_type {
	const char *name;
	uint8_t need;		/* bytes of the record: a shorter message is refused */
	uint8_t when;		/* enum ctl_when */
	bool at_end;		/* the record is the last bytes of the payload, not the first */
	void (*handler)(struct hdl_ep *ep, const struct ctl_msg *m);	/* NULL: no message of this type comes as a control
									 * message */
} types[] = {
	[HDL_CTL_CTS] = { "CTS", sizeof(struct hdl_cts), .handler = on_cts },
	[HDL_CTL_FIN] = { "FIN", sizeof(struct hdl_fin), .handler = on_fin },
	[HDL_CTL_DATA] = { "DATA", sizeof(struct hdl_data_rec), .at_end = true, .handler = on_data },
	[HDL_CTL_RTU] = { "RTU", 0, .handler = on_rtu },
	[HDL_CTL_RING_OFFER] = { "RING_OFFER", sizeof(struct hdl_ring_offer), .handler = on_offer },
	[HDL_CTL_RING_ACCEPT] = { "RING_ACCEPT", sizeof(struct hdl_ring_accept), .handler = on_accept },
	[HDL_CTL_RING_REVOKE] = { "RING_REVOKE", 0, .handler = on_revoke },
	[HDL_CTL_RING_RELEASED] = { "RING_RELEASED", sizeof(struct hdl_ring_released), .handler = on_released },
	[HDL_CTL_CREDIT] = { "CREDIT", sizeof(struct hdl_credit_rec), WHEN_RING, .handler = on_credit },
	[HDL_CTL_SLEEP] = { "SLEEP", sizeof(struct hdl_sleep_rec), .handler = on_sleep },
	[HDL_CTL_SLEEP_ACK] = { "SLEEP_ACK", sizeof(struct hdl_sleep_rec), .handler = on_sleep_ack },
	[HDL_CTL_AWAKE] = { "AWAKE", 0, .handler = on_awake },
	[HDL_CTL_HOLD] = { "HOLD", sizeof(struct hdl_hold_rec), .handler = on_hold },
	[HDL_CTL_REFUSED] = { "REFUSED", sizeof(struct hdl_fin), .handler = on_refused },
	[HDL_CTL_WRITTEN] = { "WRITTEN", sizeof(struct hdl_fin), .handler = on_written },
	[HDL_CTL_PROBE] = { "PROBE", 0, .handler = on_probe },
	[HDL_CTL_ID] = { "ID", sizeof(struct hdl_id_rec), .handler = on_id },
	[HDL_CTL_TAKEN] = { "TAKEN", sizeof(struct hdl_taken_rec), WHEN_POOLED, .handler = on_taken },
	[HDL_CTL_LEAVE] = { "LEAVE", 0, .handler = on_leave },
	[HDL_CTL_KEEP] = { "KEEP", sizeof(struct hdl_keep_rec), .handler = on_keep },
	[HDL_CTL_RMA_DONE] = { "RMA_DONE", sizeof(struct hdl_rma_done), .handler = on_rma_done },
	[HDL_CTL_PART] = { "PART", 0, .handler = on_part },
	[HDL_CTL_LAST] = { "LAST", 0, .handler = on_part },
	[HDL_CTL_STAY] = { "STAY", 0, .handler = on_stay },
	[HDL_CTL_AGENT_ASK] = { "AGENT_ASK", sizeof(struct hdl_agent_rec), .handler = on_agent_ask },
	[HDL_CTL_AGENT_ANSWER] = { "AGENT_ANSWER", sizeof(struct hdl_agent_rec), .handler = on_agent_answer },
};

static bool is_in_time(const struct hdl_ep *ep, enum ctl_when when)
{
	switch (when) {
	case WHEN_RING:
		return ep->ring;
	case WHEN_POOLED:
		return ep->srq_credit != NULL;
	case WHEN_ANY:
		break;
	}
	return true;
}

void hdl_control_arrived(struct hdl_ep *ep, const struct hdl_hdr *hdr, const void *payload)
{
	const struct ctl_type *t = hdr->kind < ARRAY_SIZE(types) ? &types[hdr->kind] : NULL;
	struct ctl_msg m;

	if (!t || !t->handler || hdr->len < t->need) {
		if (t && t->handler)
			hdl_debug("%s: %s needs %u bytes", hdl_proc_text(ep->rank), t->name, t->need);
		hdl_bad_message(ep, hdr);
		return;
	}
	if (!is_in_time(ep, (enum ctl_when)t->when))
		return;
	m.hdr = hdr;
	m.payload = payload;
	memcpy(m.record, (const char *)payload + (t->at_end ? hdr->len - t->need : 0), t->need);
	t->handler(ep, &m);
}
