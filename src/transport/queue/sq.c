/* SPDX-License-Identifier: BSD-3-Clause */
/* Send queues. A request takes a slot. Slots are released in order: a signaled completion says that all earlier requests are
 * finished. One request in `interval` is signaled, so that completions cost little, and the queue never fills up with requests of
 * which none is signaled. */
#include <shca.h>
#include <stdlib.h>
#include <string.h>

#include "transport/core/tp.h"

#define SCQ_FIRST 1024u
#define SCQ_MORE 4096u
/* The word (K) of a queue without a replay log, and of one that records every request. */
static const uint32_t none_kept = 0, all_kept = 1;


static int scq_take(struct hdl_dev *dev, uint32_t depth, struct hdl_scq **out)
{
	struct hdl_scq *s;

	for (s = dev->scqs; s; s = s->next)
		if (s->size - s->used >= depth)
			break;
	if (!s) {
		uint32_t size = dev->scqs ? SCQ_MORE : SCQ_FIRST;
		if (size < depth)
			size = depth;
		if (dev->attr.orig_attr.max_cqe > 0 && size > (uint32_t)dev->attr.orig_attr.max_cqe)
			size = (uint32_t)dev->attr.orig_attr.max_cqe;
		s = calloc(1, sizeof(*s));
		if (!s)
			return hdl_no_memory("a send completion queue", sizeof(*s));
		s->cq = ibv_create_cq(dev->port.ctx, (int)size, NULL, dev->chan, 0);
		if (!s->cq && hdl_memory_again(dev))
			s->cq = ibv_create_cq(dev->port.ctx, (int)size, NULL, dev->chan, 0);
		if (!s->cq) {
			int err = errno;
			hdl_error("%s: ibv_create_cq of %u entries failed (%s)", dev->name, size, strerror(err));
			free(s);
			return -err;
		}
		s->size = size;
		s->next = dev->scqs;
		dev->scqs = s;
		hdl_stirred = true;
	}
	s->used += depth;
	*out = s;
	return 0;
}

static int sq_number(struct hdl_sq *sq)
{
	struct hdl_tp *tp = sq->dev->tp;

	for (uint32_t i = 0; i < tp->nsqs; i++)
		if (!tp->sqs[i]) {
			tp->sqs[i] = sq;
			sq->id = i;
			return 0;
		}
	if (tp->nsqs == tp->sqs_cap) {
		uint32_t cap = tp->sqs_cap ? tp->sqs_cap * 2 : 16;
		void *p = realloc(tp->sqs, cap * sizeof(*tp->sqs));
		if (!p)
			return hdl_no_memory("the list of send queues", cap * sizeof(*tp->sqs));
		tp->sqs = p;
		tp->sqs_cap = cap;
	}
	sq->id = tp->nsqs;
	tp->sqs[tp->nsqs++] = sq;
	return 0;
}

void hdl_done_reset(struct hdl_sq *sq)
{
	struct hdl_tp *tp = sq->dev->tp;

	hdl_done_push(tp, tp->hooks->queue_reset, sq, 0);
}

void hdl_done_forget(struct hdl_tp *tp, const struct hdl_sq *sq)
{
	hdl_done_cancel(tp, tp->hooks->queue_reset, sq);
}

uint32_t hdl_sq_depth(uint32_t wanted)
{
	uint32_t n = 16;

	while (n < wanted)
		n *= 2;
	return n;
}

int hdl_sq_init(struct hdl_sq *sq, struct hdl_dev *dev, const struct hdl_tp_kind *kind, uint32_t depth)
{
	uint32_t n = hdl_sq_depth(depth);
	int err;

	*sq = (struct hdl_sq){ .dev = dev,
			       .kind = kind,
			       .depth = n,
			       .mask = n - 1,
			       .interval = n / 2,
			       .id = UINT32_MAX,
			       .unfinished = &none_kept,
			       .max_inline = dev->max_inline };
	sq->slot = calloc(n, sizeof(*sq->slot));
	if (!sq->slot)
		return hdl_no_memory("the slots of a send queue (HEDDLE_SQ_DEPTH)", n * sizeof(*sq->slot));
	if ((err = sq_number(sq)) || (err = scq_take(dev, n, &sq->scq)) ||
	    (err = hdl_mem_alloc(dev, "send queues' headers", (size_t)n * HDL_HEAD_BUF, IBV_ACCESS_LOCAL_WRITE, &sq->head_mem))) {
		hdl_sq_fini(sq);
		return err;
	}
	if ((kind->reset && !kind->repeats) || kind->renew) {
		sq->unfinished = &all_kept;
		if (hdl_replay_open(sq)) {
			hdl_sq_fini(sq);
			return hdl_no_memory("the requests of a send queue (HEDDLE_SQ_DEPTH)",
					     n * (sizeof(*sq->replay) + HDL_REPLAY_COPIED));
		}
	}
	sq->head_buf = sq->head_mem.p;
	sq->head_lkey = sq->head_mem.mr->lkey;
	return 0;
}

void hdl_sq_ask(struct hdl_sq *sq)
{
	const uint32_t *word;

	if (sq->dev->promises.at_once && !shca_unfinished(sq->qp, &word))
		sq->unfinished = word;
}

void hdl_sq_release(struct hdl_tp *tp, struct hdl_slot *slot, int err)
{
	enum hdl_slot_type type = slot->type;
	void *p = slot->ptr;

	slot->type = HDL_SLOT_NONE;
	switch (type) {
	case HDL_SLOT_NONE:
	case HDL_SLOT_RTU:
		break;
	case HDL_SLOT_BUF:
		hdl_txbuf_put(p);
		break;
	case HDL_SLOT_SEND:
		if (p == tp->zc_probe && !err)
			tp->zc_done = true;
		else
			hdl_done_send(p, err);
		break;
	case HDL_SLOT_RNDV:
	case HDL_SLOT_READ:
	case HDL_SLOT_RMA:
		tp->hooks->request[type].done(tp, p, err);
		break;
	}
}

void hdl_sq_fini(struct hdl_sq *sq)
{
	struct hdl_dev *dev = sq->dev;

	if (!dev)
		return;
	struct hdl_tp *tp = dev->tp;
	if (sq->qp && ibv_destroy_qp(sq->qp))
		hdl_warn("%s: ibv_destroy_qp of %s queue %u failed (%s)", dev->name, hdl_kind_name(sq->kind),
			 sq->qp->qp_num, strerror(errno));
	sq->qp = NULL;
	hdl_replay_close(sq);
	if (hdl_sq_is_broken(sq))
		sq->tail = sq->replay_tail;
	if (sq->slot) {
		for (; sq->tail != sq->head; sq->tail++) {
			struct hdl_slot *slot = &sq->slot[sq->tail & sq->mask];
			sq->scq->pending -= slot->signaled;	/* destroying the QP has removed the slot's completion */
			hdl_sq_release(tp, slot, hdl_sq_is_dead(sq) ? -ECONNRESET : -ECANCELED);
		}
		free(sq->slot);
		sq->slot = NULL;
	}
	if (sq->scq)
		sq->scq->used -= sq->depth;
	hdl_mem_free(&sq->head_mem);
	if (sq->id != UINT32_MAX) {
		struct hdl_sq *gone = &dev->gone[sq->kind->queue];
		gone->requests += sq->requests;
		gone->bytes += sq->bytes;
		gone->stalls += sq->stalls;
		tp->sqs[sq->id] = NULL;
	}
	sq->dev = NULL;
}

/* The queue breaks: there is no room until hdl_sq_reset, or until the queue is renewed. at: the first request that is not known
 * to be carried out. */
static void await_reset(struct hdl_sq *sq, uint32_t at)
{
	hdl_sq_step(sq, HDL_SQ_BREAK);
	sq->rest_unstarted = false;
	sq->replay_tail = at;
	sq->replay_head = sq->head;
	sq->flushed = 0;
	sq->resets += at != sq->head;
	sq->tail = sq->head - sq->depth;
	if (!sq->kind->renew)
		hdl_done_reset(sq);
}

void hdl_sq_hold(struct hdl_sq *sq)
{
	await_reset(sq, sq->head);
}

void hdl_sq_broken(struct hdl_sq *sq)
{
	struct hdl_tp *tp = sq->dev->tp;

	hdl_sq_reap(tp, sq->scq);
	if (sq->state == HDL_SQ_ACTIVE && sq->resets < HDL_SQ_RESETS_MAX && !tp->closing)
		await_reset(sq, sq->tail);
}

/* Returns the negative errno of the operation if a failed request fails its operation only (struct hdl_request_type); else 0. */
static int refusal(struct hdl_tp *tp, const struct hdl_slot *slot, enum ibv_wc_status status)
{
	const struct hdl_request_type *type = &tp->hooks->request[slot->type];

	return type->refusal ? type->refusal(status) : 0;
}

/* Handles the completion of the first request that was not carried out. Queues that peers share: the peer of this request fails,
 * unless the request was flushed, refused or lost. Queues with `renew`: the request is kept, too. */
static void breaks(struct hdl_sq *sq, struct hdl_ep *ep, const struct ibv_wc *wc, uint32_t idx)
{
	struct hdl_tp *tp = ep->tp;
	struct hdl_slot *slot = &sq->slot[idx & sq->mask];
	int refused = refusal(tp, slot, wc->status);
	bool guilty = wc->status != IBV_WC_WR_FLUSH_ERR && sq->kind->reset && !refused;

	if (refused)
		hdl_sq_release(tp, slot, refused);
	if (guilty && sq->kind->counts_as_lost && sq->kind->counts_as_lost(sq, ep, wc)) {
		hdl_debug("%s port %u: %s queue %u: a request for %s: %s: taken for lost", sq->dev->name, sq->dev->port.port_num,
			  hdl_kind_name(sq->kind), sq->qp->qp_num, hdl_proc_text(ep->rank), ibv_wc_status_str(wc->status));
		guilty = false;
	}
	if (guilty) {
		hdl_report_wc(sq, ep, wc);
		hdl_sq_release(tp, slot, -ECONNRESET);
		hdl_ep_fail(ep, -ECONNRESET);
	}
	guilty |= refused != 0;
	await_reset(sq, idx + guilty);
	if (refused)
		sq->resets = 0;		/* the peer has answered: the device does not ail */
	/* a kind that serves target after target, or a request that was refused: no request behind this one was begun */
	sq->rest_unstarted = refused != 0 || (guilty && HDL_QUEUE_IN(HDL_QUEUE_ADDRESSED, sq->kind->queue));
	sq->flushed = !guilty;
	if (sq->kind->renew)
		tp->hooks->queue_broke(ep, wc);
}

static bool can_go_on(const struct hdl_sq *sq, const struct hdl_ep *ep)
{
	if (sq->kind->renew)
		return ep && !ep->failed && (ep->conn.up || hdl_ep_replaced(ep));
	return sq->kind->reset && sq->resets < HDL_SQ_RESETS_MAX;
}

/* Takes one completion. */
static void completed(struct hdl_tp *tp, struct hdl_scq *scq, const struct ibv_wc *wc)
{
	uint32_t id = (uint32_t)(wc->wr_id >> 32), idx = (uint32_t)wc->wr_id;
	struct hdl_sq *sq = id < tp->nsqs ? tp->sqs[id] : NULL;

	if (!sq || idx - sq->tail >= sq->head - sq->tail) {
		hdl_debug("stray send completion: queue %u, request %u, %s", id, idx, ibv_wc_status_str(wc->status));
		return;
	}
	scq->pending -= sq->slot[idx & sq->mask].signaled;
	sq->slot[idx & sq->mask].signaled = 0;
	if (unlikely(sq->state) && hdl_sq_is_broken(sq)) {
		sq->flushed++;
		return;
	}
	if (likely(wc->status == IBV_WC_SUCCESS)) {
		sq->resets = 0;
		for (; sq->tail != idx + 1; sq->tail++) {
			struct hdl_slot *slot = &sq->slot[sq->tail & sq->mask];
			if (slot->type != HDL_SLOT_NONE)
				hdl_sq_release(tp, slot, 0);
		}
		return;
	}
	/* Failed requests complete one by one, signaled or not: those before the first of them were carried out. */
	if (sq->tail != idx)
		sq->resets = 0;
	for (; sq->tail != idx; sq->tail++)
		hdl_sq_release(tp, &sq->slot[sq->tail & sq->mask], hdl_sq_is_dead(sq) ? -ECONNRESET : 0);
	struct hdl_slot *slot = &sq->slot[idx & sq->mask];
	struct hdl_ep *ep = slot->ep ? slot->ep : sq->ep;
	bool first = !hdl_sq_is_dead(sq);

	if (first && can_go_on(sq, ep) && !tp->closing) {
		breaks(sq, ep, wc, idx);
		return;
	}
	if (first && !tp->closing)
		hdl_report_wc(sq, ep, wc);
	hdl_sq_step(sq, HDL_SQ_FAIL);
	sq->tail = idx + 1;
	hdl_sq_release(tp, slot, -ECONNRESET);
	if (ep)
		hdl_ep_fail(ep, -ECONNRESET);
}

int hdl_sq_reap(struct hdl_tp *tp, struct hdl_scq *scq)
{
	struct ibv_wc wc[16];
	int n, all = 0;

	do {
		n = ibv_poll_cq(scq->cq, 16, wc);
		if (unlikely(n < 0)) {
			hdl_error("ibv_poll_cq of a send queue failed (%d): the completion queue is in error; "
				  "HEDDLE_SQ_DEPTH may "
				  "exceed what the device can do",
				  n);
			return all;
		}
		for (int i = 0; i < n; i++)
			completed(tp, scq, &wc[i]);
		all += n;
	} while (n == 16);
	return all;
}

bool hdl_sq_room_slow(struct hdl_sq *sq, uint32_t n)
{
	if (sq->scq->pending)
		hdl_sq_reap(sq->dev->tp, sq->scq);
	if (sq->head - sq->tail + n <= sq->mask)
		return true;
	sq->stalls++;
	return false;
}

/* Another peer's request has broken a shared queue for good: the endpoint fails, since its requests would never end. */
static int refused_dead(struct hdl_ep *ep)
{
	hdl_ep_fail(ep, -ECONNRESET);
	return -ECONNRESET;
}

/* Books the request at the head, which the device has taken. */
static inline void posted(struct hdl_sq *sq, struct hdl_ep *ep, enum hdl_slot_type type, void *ptr, bool signal, size_t bytes)
{
	uint32_t i = sq->head;
	struct hdl_slot *slot = &sq->slot[i & sq->mask];

	slot->ptr = ptr;
	slot->ep = ep;
	slot->type = type;
	slot->signaled = signal;
	sq->head = i + 1;
	sq->requests++;
	sq->bytes += bytes;
	if (signal) {
		sq->signaled = i + 1;
		sq->scq->pending++;
	}
}

int hdl_sq_post(struct hdl_sq *sq, struct hdl_ep *ep, struct ibv_send_wr *wr, enum hdl_slot_type type, void *ptr,
		bool signal, size_t bytes)
{
	struct ibv_send_wr *bad;
	uint32_t i = sq->head;
	int err;

	if (unlikely(hdl_sq_is_dead(sq)))
		return refused_dead(ep);
	wr->wr_id = (uint64_t)sq->id << 32 | i;
	wr->next = NULL;
	signal |= i + 1 - sq->signaled >= sq->interval;
	if (signal)
		wr->send_flags |= IBV_SEND_SIGNALED;
	if (sq->kind->address)
		sq->kind->address(ep, wr);
	err = sq->kind->post ? sq->kind->post(sq, ep, wr) : ibv_post_send(sq->qp, wr, &bad);
	if (unlikely(err)) {
		hdl_error("%s port %u: cannot post to %s queue %u towards %s (%s; opcode %d, %d pieces, %zu "
			  "bytes)",
			  sq->dev->name, sq->dev->port.port_num, hdl_kind_name(sq->kind), sq->qp->qp_num, hdl_proc_text(ep->rank),
			  strerror(err), (int)wr->opcode, wr->num_sge, bytes);
		hdl_sq_step(sq, HDL_SQ_FAIL);
		hdl_ep_fail(ep, -err);
		return -err;
	}
	posted(sq, ep, type, ptr, signal, bytes);
	sq->messages += hdl_takes_receive(wr->opcode);
	hdl_replay_record(sq, wr, 0);
	return 0;
}

int hdl_sq_post_packets(struct hdl_sq *sq, struct hdl_ep *ep, struct hdl_txbuf *const *pkt, uint32_t n)
{
	struct ibv_send_wr wr[HDL_SQ_PACKETS], *bad = NULL;
	struct ibv_sge sge[HDL_SQ_PACKETS];
	uint32_t signaled = sq->signaled, taken;
	int err;

	if (unlikely(hdl_sq_is_dead(sq)))
		return refused_dead(ep);
	for (uint32_t i = 0; i < n; i++) {
		uint32_t at = sq->head + i;
		sge[i] = (struct ibv_sge){ .addr = (uintptr_t)pkt[i]->data, .length = pkt[i]->len, .lkey = pkt[i]->lkey };
		wr[i] = (struct ibv_send_wr){ .wr_id = (uint64_t)sq->id << 32 | at, .next = i + 1 < n ? &wr[i + 1] : NULL,
					      .sg_list = &sge[i], .num_sge = 1, .opcode = IBV_WR_SEND,
					      .send_flags = pkt[i]->len <= sq->max_inline ? IBV_SEND_INLINE : 0 };
		if (at + 1 - signaled >= sq->interval) {
			wr[i].send_flags |= IBV_SEND_SIGNALED;
			signaled = at + 1;
		}
		sq->kind->address(ep, &wr[i]);
	}
	err = ibv_post_send(sq->qp, wr, &bad);
	taken = err && bad ? (uint32_t)(bad - wr) : n;
	for (uint32_t i = 0; i < taken; i++) {
		bool copied = wr[i].send_flags & IBV_SEND_INLINE;
		pkt[i]->refs += !copied;
		posted(sq, ep, copied ? HDL_SLOT_NONE : HDL_SLOT_BUF, copied ? NULL : pkt[i],
		       wr[i].send_flags & IBV_SEND_SIGNALED, pkt[i]->len);
	}
	if (unlikely(err)) {
		hdl_error("%s port %u: cannot post %u packets to %s queue %u towards %s (%s; %u were taken)", sq->dev->name,
			  sq->dev->port.port_num, n, hdl_kind_name(sq->kind), sq->qp->qp_num, hdl_proc_text(ep->rank),
			  strerror(err), taken);
		hdl_sq_step(sq, HDL_SQ_FAIL);
		hdl_ep_fail(ep, -err);
		return -err;
	}
	return 0;
}

void hdl_sq_flush(struct hdl_sq *sq, struct hdl_ep *ep)
{
	if (sq->head != sq->tail && sq->signaled != sq->head)
		hdl_sq_probe(sq, ep);
}

void hdl_sq_probe(struct hdl_sq *sq, struct hdl_ep *ep)
{
	if (hdl_sq_is_dead(sq) || !hdl_sq_room(sq, 1))
		return;
	struct ibv_send_wr wr = { .opcode = IBV_WR_RDMA_WRITE };
	/* zero bytes: neither address nor key is checked (IBTA 9.7.7.1.4) */
	hdl_sq_post(sq, ep, &wr, HDL_SLOT_NONE, NULL, true, 0);
}
