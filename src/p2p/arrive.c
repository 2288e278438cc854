/* SPDX-License-Identifier: BSD-3-Clause */
/* The transport's upcalls: a message arrives, a peer fails. */
#include "p2p/comm/comm_cid.h"
#include "p2p/deliver.h"
#include "p2p/fault/fault.h"
#include "p2p/partitioned.h"

#include <string.h>

static void recv_arrived(void *context, int src, const struct hdl_hdr *hdr, const void *payload);

struct wanted {
	int src;
	uint32_t number;
	struct hdl_unexpected *found;
};

static void is_announced(const struct hdl_unexpected *u, void *arg)
{
	struct wanted *w = arg;

	if (u->kind == HDL_RTS && u->src == w->src && hdl_rts_number(u->data) == w->number)
		w->found = (struct hdl_unexpected *)u;
}

/* A HDL_CONTEXT_CANCEL message of a peer that has HDL_CTL_HOLD is itself announced: fetches the 0 bytes. */
static void fetch_nothing(struct hdl_matching *m, int src, const struct hdl_hdr *hdr, const void *payload)
{
	struct hdl_op *op = hdl_op_new(&hdl_world, HDL_REQ_RECV);

	if (!op)
		hdl_out_of_memory("a message without data", sizeof(*op));
	op->src = op->peer = src;
	op->tag = hdr->tag;
	op->context = hdr->context;
	op->bytes = 0;
	op->req.detached = true;
	hdl_deliver_rts(m, op, src, hdr->tag, payload, 0);
}

/* A sender withdraws an announced message, whose RTS arrived before. If no receive has matched that message, the receiver refuses
 * the message. Otherwise no answer is needed: the send completes. */
static bool handle_cancel(struct hdl_matching *m, int src, const struct hdl_hdr *hdr, size_t len, const void *payload)
{
	struct wanted w = { .src = src, .number = (uint32_t)hdr->tag };

	(void)len;
	if (hdr->kind == HDL_RTS)
		fetch_nothing(m, src, hdr, payload);
	hdl_match_each_unexpected(m, is_announced, &w);
	if (!w.found)
		return true;
	hdl_match_remove(m, w.found);
	hdl_ep_refuse(hdl_ep(m->tp, src), w.found->data);
	hdl_buf_put(w.found);
	return true;
}

static bool handle_ft(struct hdl_matching *m, int src, const struct hdl_hdr *hdr, size_t len, const void *payload)
{
	if (hdr->kind == HDL_RTS) {
		hdl_ft_fetch(m, src, hdr, payload, recv_arrived);
		return true;
	}
	return hdl_ft_message(m, src, hdr, len, payload) || m->revoked[hdr->context];
}

static bool handle_revoked(struct hdl_matching *m, int src, const struct hdl_hdr *hdr, size_t len, const void *payload)
{
	(void)len;
	hdl_recv_drop(m, src, hdr->kind, payload);
	return true;
}

/* Messages that p2p handles itself when no receive matches. */
enum control { CONTROL_NONE, CONTROL_CANCEL, CONTROL_FT, CONTROL_REVOKED };

/* Return true if the message is used up; false: the message waits for a receive. */
static bool (*const control_handlers[])(struct hdl_matching *m, int src, const struct hdl_hdr *hdr, size_t len,
					const void *payload) = {
	[CONTROL_CANCEL] = handle_cancel, /* the sender withdraws an announced message */
	[CONTROL_FT] = handle_ft, /* names a failed process */
	[CONTROL_REVOKED] = handle_revoked, /* of a collective on a revoked communicator */
};

static inline enum control control_of(const struct hdl_matching *m, const struct hdl_hdr *hdr)
{
	if (unlikely(hdr->context == HDL_CONTEXT_CANCEL))
		return CONTROL_CANCEL;
	if (unlikely(hdl_ft_is_message(hdr->context, hdr->tag)))
		return CONTROL_FT;
	if (unlikely(m->revoked[hdr->context]) && hdl_tag_is_revocable(hdr->tag))
		return CONTROL_REVOKED;
	return CONTROL_NONE;
}

static void recv_arrived(void *context, int src, const struct hdl_hdr *hdr, const void *payload)
{
	struct hdl_matching *m = context;
	struct hdl_op *op = hdl_match_arrived(m, hdr->context, src, hdr->tag);
	struct hdl_unexpected *u;
	size_t data, len = hdl_msg_len(hdr, payload);
	enum control control;

	if (likely(op != NULL)) {
		if (likely(hdr->kind == HDL_EAGER))
			hdl_deliver_eager(op, src, hdr->tag, payload, hdr->len);
		else
			hdl_deliver_rts(m, op, src, hdr->tag, payload, len);
		return;
	}
	control = control_of(m, hdr);
	if (unlikely(control != CONTROL_NONE) && control_handlers[control](m, src, hdr, len, payload))
		return;
	if (unlikely(hdl_ft_reported) && hdl_cid_is_leader_link(hdr->context, hdr->tag))
		hdl_ft_leader_waits();
	data = hdr->kind == HDL_EAGER ? hdr->len : HDL_RTS_SIZE;
	u = hdl_unexpected_new(hdr->context, src, hdr->tag, hdr->kind, len, data);
	if (data)
		memcpy(u->data, payload, data);
	hdl_match_add(m, u);
	if (unlikely(m->unexpected_bytes > hdl_vars.unexpected_max) && hdr->kind == HDL_EAGER)
		hdl_unexpected_eager_off(m, src, hdr->len);
	if (unlikely(m->unexpected_bytes > m->unexpected_warn))
		hdl_unexpected_warn(m);
}

static void arrive_peer_failed(void *context, int peer, int err)
{
	hdl_peer_failed(context, peer, err);
	hdl_partitioned_peer_failed(peer);
}

/* All other pointers are those of objects that have a group. */
static bool arrive_holds(void *context, const struct hdl_ep *ep)
{
	(void)context;
	return hdl_groups_have(ep);
}

const struct hdl_upcalls hdl_p2p_upcalls = { .arrived = recv_arrived, .peer_failed = arrive_peer_failed,
					     .holds = arrive_holds };
