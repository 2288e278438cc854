/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests on the connected lane: messages into pooled receives, frames into rings, pieces of staged messages. */
#include <string.h>

#include "transport/core/tp.h"
#include "transport/queue/plain.h"

/* From this length on messages are gathered from the user's memory, if the device can (implicit on-demand paging). A shorter one
 * is copied into a registered buffer: the copy is cheaper than the completion that would have to be awaited. */
#define ZERO_COPY_MIN 1024u

/* A payload that send->pack copies, and the device copies during the post, is packed on the stack up to this length: about a
 * piece of a staged message. */
#define PACK_MAX 16384u
/* Bytes that are packed at a time where no buffer can be had. */
#define PACK_MIN 128u

/* Header and trailer of a payload: at most HDL_HEAD_BUF bytes together, not counting zeros. */
struct around {
	const void *before, *after;
	uint32_t before_len, after_len;
	bool zeros;		/* `before` is before_len zeros */
	uint64_t at;		/* offset in the message of a payload that send->pack copies */
};

static struct ibv_sge sge_of(const void *p, size_t len, uint32_t lkey)
{
	return (struct ibv_sge){ .addr = (uintptr_t)p, .length = (uint32_t)len, .lkey = lkey };
}

/* Builds the gather list: before, payload, after. Returns the number of entries. in: inline, so that nothing need be
 * registered. */
static int post_gather(struct hdl_sq *sq, const struct around *a, const void *buf, size_t len, uint32_t lkey, bool in,
		  struct ibv_sge *sge)
{
	const struct hdl_mem *zeros = &sq->dev->zeros;
	char *keep = hdl_sq_head(sq);
	int n = 0;

	if (a->before_len && a->zeros)
		sge[n++] = sge_of(zeros->p, a->before_len, zeros->mr->lkey);
	else if (a->before_len)
		sge[n++] =
			sge_of(in ? a->before : memcpy(keep, a->before, a->before_len), a->before_len, sq->head_lkey);
	if (len)
		sge[n++] = sge_of(buf, len, lkey);
	keep += HDL_HEAD_BUF - a->after_len;
	if (a->after_len)
		sge[n++] = sge_of(in ? a->after : memcpy(keep, a->after, a->after_len), a->after_len, sq->head_lkey);
	return n;
}

/* Returns true if a message needs no buffer. more: bytes around the message, at most. */
static bool post_is_inline(const struct hdl_sq *sq, size_t len, size_t more, bool runs)
{
	return len + more <= sq->max_inline && !(runs && len > PACK_MAX);
}

/* Reads the buffer's pages. A buffer that cannot be read is then a signal in the user's call, as if this processor copied the
 * bytes, instead of a failed request that breaks the queue and loses the message's sequence number. */
static inline void touch(const char *p, size_t n)
{
	for (size_t i = 0; i < n; i += 4096)
		(void)*(const volatile char *)(p + i);
	(void)*(const volatile char *)(p + n - 1);
}

/* Posts one request. Must: the queue has room. buf NULL: send->pack copies the payload. Returns 1: the payload was copied; 0: in
 * flight; -EAGAIN: there is no buffer; other negative errno: the endpoint has failed. */
static int post_message(struct hdl_ep *ep, struct ibv_send_wr *wr, const struct around *a, const void *buf, size_t len,
			struct hdl_send *send, enum hdl_in_place in_place);

/* Packs a payload that the device copies during the post. */
static __attribute__((noinline)) int post_packed(struct hdl_ep *ep, struct ibv_send_wr *wr, const struct around *a, size_t len,
						 const struct hdl_send *send)
{
	char packed[PACK_MAX];

	send->pack(send, a->at, packed, len);
	return post_message(ep, wr, a, packed, len, NULL, HDL_IN_PLACE_NO);
}

static int post_message(struct hdl_ep *ep, struct ibv_send_wr *wr, const struct around *a, const void *buf, size_t len,
			struct hdl_send *send, enum hdl_in_place in_place)
{
	struct hdl_tp *tp = ep->tp;
	struct hdl_sq *sq = ep->sq;
	struct hdl_dev *dev = sq->dev;
	size_t total = a->before_len + len + a->after_len;
	bool runs = len && !buf, in = post_is_inline(sq, len, a->before_len + a->after_len, runs);
	struct ibv_sge sge[3];
	int err;

	if (runs && in)
		return post_packed(ep, wr, a, len, send);
	wr->sg_list = sge;
	wr->send_flags = in ? IBV_SEND_INLINE : 0;
	if (in || !len) {	/* the device copies */
		bool fence = in_place == HDL_IN_PLACE_FENCE;
		wr->num_sge = post_gather(sq, a, buf, len, 0, in, sge);
		err = hdl_sq_post(sq, ep, wr, fence ? HDL_SLOT_RNDV : HDL_SLOT_NONE, send, fence, total);
		return err ? err : !fence;
	}
	if (dev->all && !runs && in_place != HDL_IN_PLACE_NO && (len >= ZERO_COPY_MIN || in_place == HDL_IN_PLACE_FENCE)) {
		touch(buf, len);
		wr->num_sge = post_gather(sq, a, buf, len, dev->vouched_lkey, false, sge);
		send->ep = ep;
		if (in_place != HDL_IN_PLACE_DONE) {
			bool last = in_place != HDL_IN_PLACE_MORE;
			return hdl_sq_post(sq, ep, wr, last ? HDL_SLOT_RNDV : HDL_SLOT_NONE, send, last, total);
		}
		if ((err = hdl_sq_post(sq, ep, wr, HDL_SLOT_SEND, send, true, total)))
			return err;
		/* a device that has read the buffer by now lets this return 1 */
		tp->zc_probe = send;
		tp->zc_done = false;
		hdl_sq_reap(tp, sq->scq);
		tp->zc_probe = NULL;
		return tp->zc_done;
	}
	if (unlikely(total > dev->bounce.size)) {
		hdl_error("a request of %zu bytes to %s does not fit a buffer of %u: a defect of this library",
			  total, hdl_proc_text(ep->rank), dev->bounce.size);
		hdl_ep_fail(ep, -EMSGSIZE);
		return -EMSGSIZE;
	}
	struct hdl_txbuf *b = hdl_txbuf_get(&dev->bounce);
	if (!b)
		return -EAGAIN;
	if (a->zeros)
		memset(b->data, 0, a->before_len);
	else if (a->before_len)
		memcpy(b->data, a->before, a->before_len);
	if (runs)
		send->pack(send, a->at, b->data + a->before_len, len);
	else
		memcpy(b->data + a->before_len, buf, len);
	if (a->after_len)
		memcpy(b->data + a->before_len + len, a->after, a->after_len);
	sge[0] = sge_of(b->data, total, b->lkey);
	wr->num_sge = 1;
	if ((err = hdl_sq_post(sq, ep, wr, HDL_SLOT_BUF, b, false, total))) {
		hdl_txbuf_put(b);
		return err;
	}
	return 1;
}

static inline struct hdl_srq_credit *pooled_of(struct hdl_ep *ep)
{
	return hdl_ep_srq_credit(ep, &ep->sq->dev->rx[ep->sq->kind->pool]);
}

/* Must: room in the send queue, and credit (but for RTU). 1: copied; 0: in flight; negative errno. */
static int post_put_srq(struct hdl_ep *ep, const struct hdl_hdr *hdr, const void *body, size_t len,
		   const struct hdl_data_rec *tail, struct hdl_send *send, enum hdl_in_place in_place)
{
	struct { struct hdl_wire w; struct hdl_name name; } head;
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND };
	struct hdl_srq_credit *p = pooled_of(ep);
	bool counted = hdl_is_counted(hdr->kind);
	int r;
	struct around a = {
		.before = &head, .before_len = sizeof(head.w), .after = tail, .after_len = tail ? sizeof(*tail) : 0,
		.at = tail ? tail->offset : 0
	};

	head.w = (struct hdl_wire){ .src = ep->src, .nonce = (uint32_t)ep->tp->self.incarnation, .hdr = *hdr };
	if (!p)
		return -ENOMEM;
	head.w.hdr.len = (uint32_t)len + a.after_len;
	head.w.hdr.reserved = hdl_srq_credit_mark(p, counted);
	if (unlikely(ep->src & HDL_TELLS)) {
		hdl_ep_name(ep, &head.name);
		a.before_len = sizeof(head);
	}
	if ((r = post_message(ep, &wr, &a, body, len, send, in_place)) >= 0)
		hdl_srq_credit_sent(p, counted, head.w.hdr.reserved);
	return r;
}

/* Returns true if the peer's credits allow one more message of this kind. */
static bool may_have_more(struct hdl_ep *ep, const struct hdl_hdr *hdr)
{
	struct hdl_srq_credit *p = hdl_is_counted(hdr->kind) ? pooled_of(ep) : NULL;

	return !p || hdl_srq_credit_room(p);
}

static int post_srq(struct hdl_ep *ep, const struct hdl_hdr *hdr, const void *body, size_t len,
		    const struct hdl_data_rec *tail, struct hdl_send *send, enum hdl_in_place in_place)
{
	if (!hdl_sq_room(ep->sq, 1) || !may_have_more(ep, hdr))
		return -EAGAIN;
	return post_put_srq(ep, hdr, body, len, tail, send, in_place);
}

int hdl_ep_post_rtu(struct hdl_ep *ep, const struct hdl_hdr *hdr)
{
	/* a queue that is full of replayed requests has one entry left: mask is depth - 1 */
	int r = post_put_srq(ep, hdr, NULL, 0, NULL, NULL, HDL_IN_PLACE_NO);

	if (r >= 0)
		ep->sq->slot[(ep->sq->head - 1) & ep->sq->mask].type = HDL_SLOT_RTU;
	return r;
}

int hdl_ep_post_srq(struct hdl_ep *ep, const struct hdl_hdr *hdr, const void *body, size_t len, struct hdl_send *send)
{
	return post_srq(ep, hdr, body, len, NULL, send, send ? HDL_IN_PLACE_DONE : HDL_IN_PLACE_NO);
}

int hdl_post_ring(struct hdl_ep *ep, const struct hdl_hdr *hdr, const void *buf, size_t len, const struct hdl_data_rec *tail,
		  struct hdl_send *send, enum hdl_in_place in_place)
{
	_Alignas(16) struct { struct hdl_data_rec tail; struct hdl_hdr hdr; } after;
	struct hdl_ring_place at;
	struct ibv_send_wr wr = { .opcode = IBV_WR_RDMA_WRITE };
	size_t tail_len = tail ? sizeof(*tail) : 0;
	bool runs = len && !buf;
	int err;

	if (!hdl_sq_room(ep->sq, 2))
		return -EAGAIN;
	if (!tail && len <= HDL_RING_SMALL && !runs && ep->fast && hdl_ring_plain_ready(&ep->tx, 1))
		return hdl_ep_put_line(ep, hdr, buf, len);
	/* a bounce buffer must be had before the place in the ring: a place that is not written would be a hole */
	if (!post_is_inline(ep->sq, len, HDL_BOUNCE_AROUND, runs) && !ep->dev->bounce.free && hdl_bufpool_need(&ep->dev->bounce))
		return -EAGAIN;
	if (!hdl_ring_place(&ep->tx, len + tail_len, &at)) {
		hdl_ring_ack(&ep->tx, __atomic_load_n(&ep->ring_credit->consumed, __ATOMIC_ACQUIRE));
		if (!hdl_ring_place(&ep->tx, len + tail_len, &at))
			return -EAGAIN;
	}
	wr.wr.rdma.rkey = ep->tx.rkey;
	if (at.skip) {
		struct hdl_hdr skip = { .kind = HDL_CTL_SKIP, .phase = at.skip_phase };
		wr.wr.rdma.remote_addr = hdl_ring_header_addr(&ep->tx, at.skip_line);
		struct around a = { .after = &skip, .after_len = sizeof(skip) };
		if ((err = post_message(ep, &wr, &a, NULL, 0, NULL, HDL_IN_PLACE_NO)) < 0)
			return err;
		hdl_replay_record_frame(ep->sq, ep->tx.sent - hdl_ring_lines(len + tail_len));
	}
	hdl_hdr_set(&after.hdr, hdr->tag, hdr->context, hdr->seq, (uint32_t)(len + tail_len), hdr->kind, at.phase);
	wr.wr.rdma.remote_addr = at.addr;
	struct around a = { .zeros = true, .before_len = at.lead, .after = &after.hdr, .after_len = sizeof(after.hdr) };
	if (tail) {
		after.tail = *tail;
		a.after = &after;
		a.after_len = sizeof(after);
		a.at = tail->offset;
	}
	err = post_message(ep, &wr, &a, buf, len, send, in_place);
	if (err >= 0)
		hdl_replay_record_frame(ep->sq, ep->tx.sent);
	return err;
}

/* Pieces of a staged message are a sixteenth of the ring; in a ring of less than 16 KiB they are not worth their headers. */
#define STAGE_PIECES 16u
#define STAGE_LINES_MIN 256u

bool hdl_ep_can_stage(const struct hdl_ep *ep)
{
	return ep->ring && !ep->wake_mode && ep->dev->promises.arena && ep->conn.state == HDL_CONN_READY && ep->sq &&
	       ep->tx.lines >= STAGE_LINES_MIN;
}

/* Returns the bytes of the next packed piece, of n at most. A device that does not copy the piece at once needs a buffer; without
 * one, and none that comes back, the piece is as short as the device does copy. around: bytes around a piece, at most. */
static uint32_t packable(const struct hdl_ep *ep, uint32_t n, uint32_t around)
{
	struct hdl_bufpool *p = &ep->dev->bounce;

	if (!post_is_inline(ep->sq, n, around, true) && !p->free && hdl_bufpool_grow(p) && !p->total &&
	    post_is_inline(ep->sq, PACK_MIN, around, true))
		return PACK_MIN;
	return n;
}

uint32_t hdl_ep_piece(const struct hdl_ep *ep, bool runs)
{
	uint32_t rec = (uint32_t)sizeof(struct hdl_data_rec);

	if (hdl_ep_can_stage(ep)) {
		uint32_t n = ep->tx.lines / STAGE_PIECES * HDL_LINE, room = ep->dev->bounce.size - HDL_BOUNCE_AROUND;
		n -= rec + (uint32_t)sizeof(struct hdl_hdr);
		if (!runs)
			return ep->dev->all || n < room ? n : room;
		return packable(ep, n < room ? n : room, HDL_BOUNCE_AROUND);
	}
	if (ep->conn.state == HDL_CONN_READY) {
		uint32_t around = HDL_WIRE_MOST + rec, n = hdl_srq_bytes() - around;
		return runs && ep->sq ? packable(ep, n, around) : n;
	}
	return ep->dev->max_ud - rec;
}

int hdl_ep_stage(struct hdl_ep *ep, const struct hdl_data_rec *rec, const void *data, uint32_t n, struct hdl_send *send,
		 enum hdl_in_place in_place)
{
	struct hdl_hdr hdr = { .kind = HDL_CTL_DATA };

	if (hdl_ep_replaced(ep))
		return -EAGAIN;
	if (hdl_ep_can_stage(ep))
		return hdl_post_ring(ep, &hdr, data, n, rec, send, in_place);
	if (ep->conn.state == HDL_CONN_READY)
		return post_srq(ep, &hdr, data, n, rec, send, in_place);
	if (!(ep->can & HDL_QUEUE_PACKETS))
		return -EAGAIN;
	hdr.len = n + (uint32_t)sizeof(*rec);
	int err = data ? hdl_ud_send(ep, &hdr, data, n, rec, sizeof(*rec))
		       : hdl_ud_send_runs(ep, &hdr, send, rec->offset, n, rec, sizeof(*rec));
	return err ? err : 1;
}

int hdl_ep_put_line(struct hdl_ep *ep, const struct hdl_hdr *hdr, const void *buf, size_t len)
{
	return hdl_put_plain(ep, hdr->tag, hdr->context, hdr->seq, hdr->kind, buf, len, 1);
}
