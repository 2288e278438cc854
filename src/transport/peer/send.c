/* SPDX-License-Identifier: BSD-3-Clause */
/* The send path: the way (connected lane or packets), the protocol (eager or announced), then one request of post.c or packet of
 * kinds/ud.c. */
#include <string.h>

#include "transport/core/tp.h"
#include "transport/queue/plain.h"
#define PACK_NOW 4096u		/* payloads up to here are packed before the sender knows whether they can be sent at once */

/* Returns true if the reorder window's limit holds the next message back: a lane that may delay messages, UD or pooled receives,
 * is not empty, and HDL_ORDER_SPAN / 2 messages have followed. Ends the limit when that lane is empty. */
static bool reorder_guard_holds(struct hdl_ep *ep)
{
	if (ep->reorder_guard_ud && (!ep->rel || hdl_rel_idle(ep->rel)))
		ep->reorder_guard_ud = false;
	if (ep->reorder_guard_sq && ep->sq) {
		if ((int32_t)(ep->sq->tail - ep->reorder_guard_idx) <= 0 && ep->sq->scq->pending)
			hdl_sq_reap(ep->tp, ep->sq->scq);
		if ((int32_t)(ep->sq->tail - ep->reorder_guard_idx) > 0)
			ep->reorder_guard_sq = false;
		else if ((uint16_t)(ep->tx_seq - ep->reorder_guard_seq) > HDL_ORDER_SPAN / 4)
			hdl_sq_flush(ep->sq, ep);
	}
	if (ep->reorder_guard_ud || ep->reorder_guard_sq)
		return (uint16_t)(ep->tx_seq - ep->reorder_guard_seq) > HDL_ORDER_SPAN / 2;
	hdl_ep_refresh(ep);
	return false;
}

static void count_sent(struct hdl_ep *ep)
{
	ep->tx_seq++;
	ep->sent_msgs++;
}

static int send_connected(struct hdl_ep *ep, struct hdl_hdr *hdr, const void *buf, size_t len, struct hdl_send *send)
{
	int r;

	if ((ep->reorder_guard_ud || ep->reorder_guard_sq) && reorder_guard_holds(ep))
		return -EAGAIN;
	hdr->seq = ep->tx_seq;
	if (ep->ring && !ep->wake_mode && len <= ep->ring_most) {
		r = hdl_post_ring(ep, hdr, buf, len, NULL, send, send ? HDL_IN_PLACE_DONE : HDL_IN_PLACE_NO);
		if (r >= 0) {
			count_sent(ep);
			ep->out_ring.msgs++;
			ep->out_ring.bytes += len;
		}
		return r;
	}
	r = hdl_ep_post_srq(ep, hdr, buf, len, send);
	if (r >= 0) {
		count_sent(ep);
		ep->out_srq.msgs++;
		ep->out_srq.bytes += len;
		if (ep->ring) {
			/* from here on the ring may run ahead of this message, which may wait for a receive */
			if (!ep->reorder_guard_sq && !ep->reorder_guard_ud)
				ep->reorder_guard_seq = ep->tx_seq;
			ep->reorder_guard_sq = true;
			ep->reorder_guard_idx = ep->sq->head - 1;
			hdl_ep_refresh(ep);
		}
	} else if (r == -EAGAIN && ep->sq->kind->rebind) {
		ep->sq->kind->rebind(ep);
	}
	return r;
}

static int send_packet(struct hdl_ep *ep, struct hdl_hdr *hdr, const void *buf, size_t len, const struct hdl_send *send)
{
	int r;

	hdr->seq = ep->tx_seq;
	hdr->len = (uint32_t)len;
	if (len > ep->dev->max_ud)
		r = hdl_ud_send_parts(ep, hdr, buf, (uint32_t)len, send);
	else if (buf || !len)
		r = hdl_ud_send(ep, hdr, buf, (uint32_t)len, NULL, 0);
	else
		r = hdl_ud_send_runs(ep, hdr, send, 0, (uint32_t)len, NULL, 0);
	if (r)
		return r;
	count_sent(ep);
	ep->out_ud.msgs++;
	ep->out_ud.bytes += len;
	return 1;
}

/* How the next message reaches the peer; makes a connection when one is due. */
enum way { WAY_NONE, WAY_PACKET, WAY_CONNECTED };
static enum way way_of(struct hdl_ep *ep, bool rdma)
{
	bool packets = ep->can & HDL_QUEUE_PACKETS, only = !(ep->can & ~HDL_QUEUE_PACKETS);
	bool busy = rdma || ep->sent_msgs >= (uint64_t)hdl_vars.hot_messages;

	if (hdl_ep_replaced(ep))
		return WAY_NONE;
	if (ep->conn.state == HDL_CONN_READY)
		return WAY_CONNECTED;
	if (packets && (only || !busy || ep->conn.state != HDL_CONN_NONE))
		return WAY_PACKET;
	if (ep->conn.state == HDL_CONN_NONE) {
		enum hdl_queue queue = hdl_ep_select(ep, ep->can, rdma, ep->tp->rc_peers);
		if (!HDL_QUEUE_IN(HDL_QUEUE_PACKETS, queue))
			hdl_wire_connect(ep, queue);
		if (ep->conn.state == HDL_CONN_READY)
			return WAY_CONNECTED;
	}
	return packets ? WAY_PACKET : WAY_NONE;
}

/* An active message without HDL_AM_ORDERED, which takes no sequence number. */
static int ep_send_free(struct hdl_ep *ep, enum way way, struct hdl_hdr *hdr, const void *buf, size_t len, struct hdl_send *send)
{
	struct hdl_count *out = &ep->out_srq;
	int r;

	if (way == WAY_PACKET) {
		hdr->len = (uint32_t)len;
		out = &ep->out_ud;
		r = buf ? hdl_ud_send(ep, hdr, buf, (uint32_t)len, NULL, 0) :
			  hdl_ud_send_runs(ep, hdr, send, 0, (uint32_t)len, NULL, 0);
		r = r ? r : 1;
	} else if (ep->ring && !ep->wake_mode && len <= ep->ring_max) {
		out = &ep->out_ring;
		r = hdl_post_ring(ep, hdr, buf, len, NULL, send, HDL_IN_PLACE_NO);
	} else {
		r = hdl_ep_post_srq(ep, hdr, buf, len, buf ? NULL : send);
		if (r == -EAGAIN && ep->sq->kind->rebind)
			ep->sq->kind->rebind(ep);
	}
	if (r < 0)
		return r;
	ep->sent_msgs++;
	out->msgs++;
	out->bytes += len;
	return r;
}

/* Sends head and payload of an active message (buf NULL), or the announcement: rendezvous record and head, which are at buf. */
static int send_active(struct hdl_ep *ep, enum way way, struct hdl_am_send *am, bool rts, const void *buf, size_t len)
{
	struct hdl_hdr hdr = { .tag = am->send.tag, .context = (uint16_t)am->head_len };
	struct hdl_send *s = &am->send;

	if (am->flags & HDL_AM_ORDERED) {
		hdr.kind = rts ? HDL_AM_RTS : HDL_AM;
		return way == WAY_PACKET ? send_packet(ep, &hdr, buf, len, s) :
					   send_connected(ep, &hdr, buf, len, rts ? NULL : s);
	}
	hdr.kind = rts ? HDL_AM_FREE_RTS : HDL_AM_FREE;
	return ep_send_free(ep, way, &hdr, buf, len, s);
}

/* struct hdl_send.pack of an active message: head and payload, as one run. */
static void am_pack(const struct hdl_send *s, uint64_t at, void *to, size_t n)
{
	const struct hdl_am_send *am = container_of(s, const struct hdl_am_send, send);

	/* an eager message is packed as a whole; of an announced one only the payload is, which is one run */
	if (am->head_len)
		memcpy(to, am->head, am->head_len);
	if (am->len)
		memcpy((char *)to + am->head_len, am->data, am->len);
}

/* Bytes of the longest active message, head included, that is eager. */
static size_t active_limit(const struct hdl_ep *ep, enum way way)
{
	size_t limit = hdl_vars.eager_max;

	if (way == WAY_PACKET)
		return limit < ep->dev->max_ud ? limit : ep->dev->max_ud;
	return ep->ring && !ep->wake_mode && limit < ep->ring_max ? ep->ring_max : limit;
}

/* Sends an active message. A head alone is always eager. Back-pressure (eager_off) is not for active messages: their handlers
 * take them at once. */
static int try_active(struct hdl_ep *ep, enum way way, struct hdl_am_send *am)
{
	struct { struct hdl_rts_rec rec; char head[HDL_AM_HEAD_MAX]; } rts;
	struct hdl_send *s = &am->send;
	size_t limit = active_limit(ep, way);
	int r;

	if (!(am->flags & HDL_AM_ANNOUNCE) && (!am->len || am->head_len + am->len <= limit)) {
		s->pack = am_pack;
		return send_active(ep, way, am, false, NULL, am->head_len + am->len);
	}
	s->pack = NULL;
	s->buf = am->data;
	s->len = am->len;
	if ((r = hdl_rndv_announce(ep, s, &rts.rec)))
		return r;
	memcpy(rts.head, am->head, am->head_len);
	if ((r = send_active(ep, way, am, true, &rts, sizeof(rts.rec) + am->head_len)) >= 0)
		return 0;
	hdl_rndv_unannounce(s);
	return r;
}

/*
 * Returns true if the peer is likely to wait for this message, which is longer than HEDDLE_EAGER_MAX: the peer has sent something
 * since the last such message, as in an exchange or a ping-pong.
 *
 *     awaited      announced: the peer's RDMA READ takes less time than a copy into the ring and a copy out of the ring, where
 *                  copies are slow
 *     else         messages stream: by the ring the sender need not wait for the receiver
 *
 * Where processes share a CPU the sender must not wait, so nothing counts as awaited.
 */
static bool is_awaited(struct hdl_ep *ep, const struct hdl_send *send)
{
	uint16_t came = (uint16_t)ep->in_ring.msgs;
	bool answered = came != ep->answered;

	ep->answered = came;
	return answered && !send->pack && ep->dev->promises.pages_read && ep->tp->ways & 1u << HDL_WAY_READ &&
	       hdl_waiters_may_spin();
}

/* Returns the longest message beyond HEDDLE_EAGER_MAX that takes the ring now. *timed is set if the copy is to be timed. */
static size_t ring_limit(struct hdl_ep *ep, size_t len, const struct hdl_send *send, bool *timed)
{
	if (ep->ring_max < ep->ring_most && len <= ep->ring_most && !send->pack &&
	    !hdl_autotune_next(hdl_autotune_of(ep->ring_tune), 0)) {
		*timed = true;
		return ep->ring_most;
	}
	return len <= ep->ring_max && is_awaited(ep, send) ? hdl_vars.eager_max : ep->ring_max;
}

/* A message that is to be sent: the arguments of hdl_ep_send. */
struct message {
	int32_t tag;
	uint16_t context;
	bool sync;
	const void *buf;	/* NULL: send->pack copies the payload */
	size_t len;
	struct hdl_send *send;
};

/* How a matching message is sent. */
enum protocol {
	PROTOCOL_EAGER,		/* header and payload */
	PROTOCOL_EAGER_TIMED,	/* the same by the ring, and the copy is timed (HDL_TUNE_RING) */
	PROTOCOL_PARTS,		/* eagerly in several packets; announced if there is no room for the packets */
	PROTOCOL_ANNOUNCED,	/* RTS: rendezvous */
};

static inline enum protocol choose_protocol(struct hdl_ep *ep, enum way way, const struct message *m)
{
	size_t limit = hdl_vars.eager_max;
	bool timed = false;

	if (way == WAY_PACKET && limit > ep->dev->max_ud)
		limit = ep->dev->max_ud;
	else if (m->len > limit && way != WAY_PACKET && ep->ring && !ep->wake_mode && limit < ep->ring_max)
		limit = ring_limit(ep, m->len, m->send, &timed);
	if (m->len <= limit && !m->sync && (!ep->eager_off || (m->len <= HDL_HOLD_LEAST && ep->eager_off != HDL_EAGER_NONE)))
		return timed ? PROTOCOL_EAGER_TIMED : PROTOCOL_EAGER;
	/* a rendezvous would bring the data in packets, too, but one round trip later */
	if (way == WAY_PACKET && m->len > limit && m->len <= hdl_vars.eager_max && !m->sync && !ep->eager_off &&
	    !hdl_ep_can_rdma(ep))
		return PROTOCOL_PARTS;
	return PROTOCOL_ANNOUNCED;
}

static inline int send_eager(struct hdl_ep *ep, enum way way, const struct message *m)
{
	struct hdl_hdr hdr = { .tag = m->tag, .context = m->context, .kind = HDL_EAGER };

	return way == WAY_PACKET ? send_packet(ep, &hdr, m->buf, m->len, m->send) :
				   send_connected(ep, &hdr, m->buf, m->len, m->send);
}

static int send_timed(struct hdl_ep *ep, const struct message *m)
{
	uint64_t since = monotonic_ns();
	int r = send_eager(ep, WAY_CONNECTED, m);

	if (r >= 0)
		hdl_autotune_copied(hdl_autotune_of(ep->ring_tune), m->len, monotonic_ns() - since);
	return r;
}

static int send_announced(struct hdl_ep *ep, enum way way, const struct message *m)
{
	struct hdl_hdr hdr = { .tag = m->tag, .context = m->context, .kind = HDL_RTS };
	struct hdl_rts_rec rec;
	int r;

	m->send->buf = m->buf;
	m->send->len = m->len;
	if ((r = hdl_rndv_announce(ep, m->send, &rec)))
		return r;
	r = way == WAY_PACKET ? send_packet(ep, &hdr, &rec, sizeof(rec), NULL)
			      : send_connected(ep, &hdr, &rec, sizeof(rec), NULL);
	if (r < 0) {
		hdl_rndv_unannounce(m->send);
		return r;
	}
	return 0;
}

/* Sends a message, matching or active. 1: done; 0: in flight; -EAGAIN: no room; other negative errno: refused, or the endpoint
 * has failed. */
static int try_send(struct hdl_ep *ep, const struct message *m)
{
	enum way way = way_of(ep, m->len > hdl_vars.eager_max);
	int r;

	if (ep->failed)
		return ep->fail_err;
	if (way == WAY_NONE)
		return -EAGAIN;
	if (m->send->active)
		return try_active(ep, way, container_of(m->send, struct hdl_am_send, send));
	switch (choose_protocol(ep, way, m)) {
	case PROTOCOL_EAGER:
		return send_eager(ep, way, m);
	case PROTOCOL_EAGER_TIMED:
		return send_timed(ep, m);
	case PROTOCOL_PARTS:
		r = send_eager(ep, way, m);
		return r != -EAGAIN ? r : send_announced(ep, way, m);
	case PROTOCOL_ANNOUNCED:
		return send_announced(ep, way, m);
	}
	return -EINVAL;
}

int hdl_ep_send_pending(struct hdl_ep *ep, struct hdl_send *send)
{
	return try_send(ep, &(struct message){ .tag = send->tag, .context = send->context, .sync = send->sync, .buf = send->buf,
					       .len = send->len, .send = send });
}

/* Takes in messages that have arrived. A sender whose messages are all sent at once never waits, and so would never handle
 * HDL_CTL_HOLD. */
static void poll_arrivals(struct hdl_ep *ep)
{
	ep->sends_unpolled = 0;
	ep->polled_sent = ep->tx.sent;
	hdl_tp_take_in(ep->tp);
}

static int __attribute__((noinline)) ep_send_slow(struct hdl_ep *ep, const struct message *m)
{
	struct hdl_send *send = m->send;

	if (++ep->sends_unpolled >= HDL_UNLOOKED_MAX)
		poll_arrivals(ep);
	if (ep->failed)
		return ep->fail_err;
	if (!ep->pend) {
		int r = try_send(ep, m);
		if (r != -EAGAIN)
			return r;
	}
	send->ep = ep;
	send->buf = m->buf;
	send->len = m->len;
	send->tag = m->tag;
	send->context = m->context;
	send->sync = m->sync;
	send->next = NULL;
	if (ep->pend)
		ep->pend_tail->next = send;
	else
		ep->pend = send;
	ep->pend_tail = send;
	ep->fast = false;
	hdl_ep_busy(ep);
	return 0;
}

static inline __attribute__((always_inline)) int send_plain(struct hdl_ep *ep, int32_t tag, uint16_t context, const void *buf,
							    size_t len, uint32_t k)
{
	int r = hdl_put_plain(ep, tag, context, ep->tx_seq, HDL_EAGER, buf, len, k);

	if (unlikely(r < 0))
		return 0;
	ep->streak = 0;
	ep->tx_seq++;
	ep->out_ring.msgs++;
	ep->out_ring.bytes += len;
	return 1;
}

/* A frame that needs a skip or a terminator, or for which the sender must read the credit first. 1: sent; 0: not now. */
static int __attribute__((noinline)) send_frame(struct hdl_ep *ep, int32_t tag, uint16_t context, const void *buf, size_t len)
{
	struct hdl_hdr hdr = { .tag = tag, .context = context, .kind = HDL_EAGER };

	if (ep->tx.sent - ep->polled_sent > ep->tx.lines / 2) {
		poll_arrivals(ep);
		if (!ep->fast)
			return 0;
	}
	hdr.seq = ep->tx_seq;	/* handlers that ran in poll_arrivals may have taken sequence numbers */
	if (hdl_post_ring(ep, &hdr, buf, len, NULL, NULL, HDL_IN_PLACE_NO) < 0)
		return 0;
	count_sent(ep);
	ep->out_ring.msgs++;
	ep->out_ring.bytes += len;
	return 1;
}

int hdl_ep_send_now(struct hdl_ep *ep, int32_t tag, uint16_t context, const void *buf, size_t len)
{
	if (unlikely(!ep->fast) || len > ep->now_max)
		return ep->fast ? 0 : hdl_ud_send_now(ep, tag, context, buf, len);
	uint32_t k = hdl_ring_lines(len);
	if (unlikely(!hdl_sq_room(ep->sq, 1)) || unlikely(!hdl_ring_plain_ready(&ep->tx, k)))
		return send_frame(ep, tag, context, buf, len);
	return send_plain(ep, tag, context, buf, len, k);
}

int hdl_ep_send(struct hdl_ep *ep, int32_t tag, uint16_t context, bool sync, const void *buf, size_t len,
		struct hdl_send *send)
{
	if (!sync && hdl_ep_send_now(ep, tag, context, buf, len))
		return 1;
	send->pack = NULL;
	send->active = false;
	return ep_send_slow(
		ep, &(struct message){.tag = tag, .context = context, .sync = sync, .buf = buf, .len = len, .send = send});
}

/* A short message is packed and sent at once. If that fails the message is packed a second time when its turn comes, which is as
 * cheap as to keep the packed bytes. */
int hdl_ep_send_runs(struct hdl_ep *ep, int32_t tag, uint16_t context, bool sync, size_t len, struct hdl_send *send)
{
	char packed[PACK_NOW];

	if (!sync && len <= sizeof(packed)) {
		send->pack(send, 0, packed, len);
		if (hdl_ep_send_now(ep, tag, context, packed, len))
			return 1;
	}
	send->active = false;
	return ep_send_slow(ep, &(struct message){ .tag = tag, .context = context, .sync = sync, .len = len, .send = send });
}

static int send_am(struct hdl_ep *ep, struct hdl_am_send *am)
{
	struct message m = { .tag = am->send.tag, .buf = am->data, .len = am->len, .send = &am->send };

	am->send.active = true;
	/* an unordered message need not wait behind ordered ones */
	if (ep->pend && !(am->flags & HDL_AM_ORDERED) && !ep->failed) {
		int r = try_send(ep, &m);
		if (r != -EAGAIN)
			return r;
	}
	return ep_send_slow(ep, &m);
}

int hdl_ep_withdraw(struct hdl_ep *ep, struct hdl_send *send, uint32_t *number)
{
	struct hdl_send *before = NULL, *s = ep->pend;

	while (s && s != send) {
		before = s;
		s = s->next;
	}
	if (!s)
		return hdl_rndv_announced(send, number) ? 0 : -EBUSY;
	*(before ? (struct hdl_send **)&before->next : &ep->pend) = s->next;
	if (!s->next)
		ep->pend_tail = before;
	hdl_done_send(s, -ECANCELED);
	return 1;
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
	return send_am(ep, am);
}
