/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Send queues. A request takes a slot; slots are released in order when a signaled completion says that everything
 * before it is finished. One request in `interval` is signaled, so completions cost little and the queue never fills up
 * with requests that nobody will report.
 */
#include <shca.h>
#include <stdlib.h>
#include <string.h>

#include "transport/core/tp.h"

#define SCQ_FIRST 1024u
#define SCQ_MORE 4096u
/* The word of a queue whose requests are never kept, and of one of which all are. */
static const uint32_t none_kept = 0, all_kept = 1;


/* Whether a request takes a receive of the peer's: SENDs, and the WRITE that has an immediate. */
static inline bool takes_receive(unsigned opcode)
{
	return opcode - IBV_WR_RDMA_WRITE_WITH_IMM <= IBV_WR_SEND_WITH_IMM - IBV_WR_RDMA_WRITE_WITH_IMM;
}

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

uint32_t hdl_sq_depth(uint32_t wanted)
{
	uint32_t n = 16;

	while (n < wanted)
		n *= 2;
	return n;
}

/* A slot's room for inline data. One line more apart than its length: else the slots' beginnings, which is all that short messages use,
 * would share one set of the first-level cache. */
static size_t again_bytes(const struct hdl_sq *sq)
{
	return sq->again_max + HDL_LINE;
}

/* One zeroed piece for the slots and their data: so long a one comes from the kernel, and only slots that are used touch its pages. */
static int make_again(struct hdl_sq *sq)
{
	sq->again_max = sq->kind->reset ? HDL_REPLAY_INLINE : HDL_REPLAY_COPIED;
	sq->again_mem = calloc(1, HDL_LINE + sq->depth * (sizeof(*sq->again) + again_bytes(sq)));
	if (!sq->again_mem)
		return -ENOMEM;
	sq->again = (struct hdl_replay *)align_up((uintptr_t)sq->again_mem, HDL_LINE);
	sq->again_data = (char *)(sq->again + sq->depth);
	return 0;
}

static void free_again(struct hdl_sq *sq)
{
	for (uint32_t i = 0; sq->again && i < sq->depth; i++)
		free(sq->again[i].heap);
	free(sq->again_mem);
	sq->again_mem = NULL;
	sq->again = NULL;
	sq->again_data = NULL;
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
		if (make_again(sq)) {
			hdl_sq_fini(sq);
			return hdl_no_memory("the requests of a send queue (HEDDLE_SQ_DEPTH)",
					     n * (sizeof(*sq->again) + HDL_REPLAY_COPIED));
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

static void sq_release(struct hdl_tp *tp, struct hdl_slot *slot, int err)
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
		hdl_rndv_chunk_done(p, err);
		break;
	case HDL_SLOT_READ:
		hdl_rndv_read_done(tp, (uint32_t)(uintptr_t)p, err);
		break;
	case HDL_SLOT_RMA:
		hdl_rma_part_done(p, err);
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
	free_again(sq);
	if (sq->broken)
		sq->tail = sq->broken_tail;
	if (sq->slot) {
		for (; sq->tail != sq->head; sq->tail++) {
			struct hdl_slot *slot = &sq->slot[sq->tail & sq->mask];
			sq->scq->pending -= slot->signaled;	/* destroying the QP removed its completions */
			sq_release(tp, slot, sq->dead ? -ECONNRESET : -ECANCELED);
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

/* No room until hdl_sq_reset, from where requests may be posted, or until the queue is renewed. at: the first request that is not known
 * to be carried out. */
static void await_reset(struct hdl_sq *sq, uint32_t at)
{
	sq->broken = true;
	sq->exact = false;
	sq->broken_tail = at;
	sq->broken_head = sq->head;
	sq->flushed = 0;
	sq->resets += at != sq->head;
	sq->tail = sq->head - sq->depth;
	sq->settled = false;
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
	if (!sq->broken && !sq->dead && sq->resets < HDL_SQ_RESETS_MAX && !tp->closing)
		await_reset(sq, sq->tail);
}

/* Whether a request that has failed fails its operation only, since its memory or its peer's is at fault: 0, or the errno with which. */
static int refusal(const struct hdl_slot *slot, enum ibv_wc_status status)
{
	if (slot->type == HDL_SLOT_RMA)
		return hdl_rma_refusal(status);
	return slot->type == HDL_SLOT_RNDV || slot->type == HDL_SLOT_READ ? hdl_rndv_refusal(status) : 0;
}

/* The first request that was not carried out. Of a shared queue: its peer fails, unless it was only flushed, too. Of a queue that can
 * be renewed it is kept as well. */
static void breaks(struct hdl_sq *sq, struct hdl_ep *ep, const struct ibv_wc *wc, uint32_t idx)
{
	struct hdl_tp *tp = ep->tp;
	struct hdl_slot *slot = &sq->slot[idx & sq->mask];
	int refused = refusal(slot, wc->status);
	bool guilty = wc->status != IBV_WC_WR_FLUSH_ERR && sq->kind->reset && !refused;

	if (refused)
		sq_release(tp, slot, refused);
	if (guilty && sq->kind->counts_as_lost && sq->kind->counts_as_lost(sq, ep, wc)) {
		hdl_debug("%s port %u: %s queue %u: a request for %s: %s: taken for lost", sq->dev->name, sq->dev->port.port_num,
			  hdl_kind_name(sq->kind), sq->qp->qp_num, hdl_proc_text(ep->rank), ibv_wc_status_str(wc->status));
		guilty = false;
	}
	if (guilty) {
		hdl_report_wc(sq, ep, wc);
		sq_release(tp, slot, -ECONNRESET);
		hdl_ep_fail(ep, -ECONNRESET);
	}
	guilty |= refused != 0;
	await_reset(sq, idx + guilty);
	if (refused)
		sq->resets = 0;		/* the peer has answered: nothing ails */
	/* one target after the other, or one that refused it: nothing behind it was begun */
	sq->exact = refused != 0 || (guilty && HDL_QUEUE_IN(HDL_QUEUE_ADDRESSED, sq->kind->queue));
	sq->flushed = !guilty;
	if (sq->kind->renew)
		hdl_wire_broke(ep, wc);
}

static bool can_go_on(const struct hdl_sq *sq, const struct hdl_ep *ep)
{
	if (sq->kind->renew)
		return ep && !ep->failed && (ep->conn.up || hdl_ep_away(ep));
	return sq->kind->reset && sq->resets < HDL_SQ_RESETS_MAX;
}

/* One completion of a send queue. */
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
	if (unlikely(sq->broken)) {
		sq->flushed++;
		return;
	}
	if (likely(wc->status == IBV_WC_SUCCESS)) {
		sq->resets = 0;
		for (; sq->tail != idx + 1; sq->tail++) {
			struct hdl_slot *slot = &sq->slot[sq->tail & sq->mask];
			if (slot->type != HDL_SLOT_NONE)
				sq_release(tp, slot, 0);
		}
		return;
	}
	/* Failed requests are reported one by one, signaled or not; those before the first failed one were fine. */
	if (sq->tail != idx)
		sq->resets = 0;
	for (; sq->tail != idx; sq->tail++)
		sq_release(tp, &sq->slot[sq->tail & sq->mask], sq->dead ? -ECONNRESET : 0);
	struct hdl_slot *slot = &sq->slot[idx & sq->mask];
	struct hdl_ep *ep = slot->ep ? slot->ep : sq->ep;
	bool first = !sq->dead;

	if (first && can_go_on(sq, ep) && !tp->closing) {
		breaks(sq, ep, wc, idx);
		return;
	}
	if (first && !tp->closing)
		hdl_report_wc(sq, ep, wc);
	sq->dead = true;
	sq->tail = idx + 1;
	sq_release(tp, slot, -ECONNRESET);
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

static bool is_atomic(const struct hdl_replay *a)
{
	return a->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD || a->opcode == IBV_WR_ATOMIC_CMP_AND_SWP;
}

/* The request that stood in a slot, but for what is gathered from beside the slot. data: room for inline data that is not long. */
static void kept_request(const struct hdl_sq *sq, const struct hdl_replay *a, struct ibv_send_wr *wr, struct ibv_sge *sge, char *data)
{
	*wr = (struct ibv_send_wr){ .opcode = a->opcode, .imm_data = a->imm, .sg_list = sge, .num_sge = a->num_sge,
				    .send_flags = a->flags & IBV_SEND_INLINE };
	if (is_atomic(a)) {
		wr->wr.atomic.remote_addr = a->addr;
		wr->wr.atomic.compare_add = a->operand[0];
		wr->wr.atomic.swap = a->operand[1];
		wr->wr.atomic.rkey = a->rkey;
	} else {
		wr->wr.rdma.remote_addr = a->addr;
		wr->wr.rdma.rkey = a->rkey;
	}
	if (a->flags & IBV_SEND_INLINE) {
		const char *p = a->len <= HDL_REPLAY_COPIED ? memcpy(data, a->data, a->len) : a->data;
		sge[0] = (struct ibv_sge){ .addr = (uintptr_t)p, .length = a->len };
		wr->num_sge = a->len != 0;
	} else {
		memcpy(sge, a->sge, sizeof(a->sge));
	}
}

/* Whether all requests of a broken queue were kept: see K. */
static bool has_kept(const struct hdl_sq *sq)
{
	return sq->broken_tail == sq->broken_head ||
	       (sq->kept_to == sq->broken_head && sq->broken_tail - sq->kept_from < sq->kept_to - sq->kept_from);
}

/* They are about to go again: the queue is in RTS. 0 or a negative errno, reported. */
static int sq_begin_again(struct hdl_sq *sq)
{
	bool kept = has_kept(sq);

	if (!kept)
		hdl_error("%s port %u: requests %u to %u of %s queue %u were not carried out, though the device had said that they were, "
			  "and were not kept: a defect of the device, or of this library", sq->dev->name, sq->dev->port.port_num,
			  sq->broken_tail, sq->broken_head - 1, hdl_kind_name(sq->kind), sq->qp->qp_num);
	sq->broken = false;
	sq->head = sq->tail = sq->signaled = sq->kept_from = sq->kept_to = sq->broken_tail;
	return kept ? 0 : -EPROTO;
}

/* Posts what stood in slot `from` once more, at the head, which is not beyond it. */
static int post_again(struct hdl_sq *sq, uint32_t from)
{
	struct hdl_slot slot = sq->slot[from & sq->mask];
	const struct hdl_replay a = sq->again[from & sq->mask];
	char *was = sq->head_buf + (size_t)(from & sq->mask) * HDL_HEAD_BUF, *is = hdl_sq_head(sq);
	struct hdl_ep *ep = sq->ep ? sq->ep : slot.ep;
	struct ibv_send_wr wr;
	struct ibv_sge sge[3];
	char data[HDL_REPLAY_COPIED];

	if (a.flags & IBV_SEND_INLINE && !a.data) {
		hdl_error("connection to %s failed: a request of %u bytes in %s queue %u was not kept, and cannot go again: was "
			  "there no memory?", hdl_proc_text(ep->rank), a.len, hdl_kind_name(sq->kind), sq->qp->qp_num);
		return -ENOMEM;
	}
	kept_request(sq, &a, &wr, sge, data);
	if (is != was)
		memcpy(is, was, HDL_HEAD_BUF);
	for (int i = 0; i < wr.num_sge && !(wr.send_flags & IBV_SEND_INLINE); i++) {
		char *p = (char *)(uintptr_t)sge[i].addr;
		if (p >= was && p < was + HDL_HEAD_BUF)
			sge[i].addr = (uintptr_t)(is + (p - was));
	}
	/* it has been counted */
	sq->requests--;
	int err = hdl_sq_post(sq, ep, &wr, slot.type, slot.ptr, a.flags & IBV_SEND_SIGNALED, 0);
	if (!err && a.end)
		hdl_replay_record_frame(sq, a.end);
	/* it has moved, and ends once: a plain post takes a slot as it finds it */
	if (!err && is != was)
		sq->slot[from & sq->mask].type = HDL_SLOT_NONE;
	return err;
}

/* Nothing has come of it: what stood in the queue ends, and so do the peers that it served. */
static void sq_give_up(struct hdl_sq *sq, uint32_t at, uint32_t end, int err)
{
	struct hdl_tp *tp = sq->dev->tp;

	hdl_error("%s port %u: %s queue %u cannot be used again (%s): the peers that share it fail", sq->dev->name,
		  sq->dev->port.port_num, hdl_kind_name(sq->kind), sq->qp->qp_num, strerror(-err));
	sq->dead = true;
	sq->broken = false;
	for (; at != end; at++)
		sq_release(tp, &sq->slot[at & sq->mask], -ECONNRESET);
	for (uint32_t i = 0; i < tp->peers.n; i++)
		if (tp->peers.of[i]->sq == sq)
			hdl_ep_fail(tp->peers.of[i], -ECONNRESET);
}

/* A queue whose requests are repeated by somebody else. What is reported of them later is no news: the numbers go on. */
static void start_empty(struct hdl_sq *sq)
{
	uint32_t at = sq->broken_tail, end = sq->broken_head;
	int err = sq->kind->reset(sq);

	sq->head = sq->tail = end;
	sq->signaled = end - sq->interval;	/* the next request is signaled: that it is carried out ends the count of resets */
	sq->broken = false;
	for (uint32_t i = at; i != end; i++) {
		struct hdl_slot *slot = &sq->slot[i & sq->mask];
		sq->scq->pending -= slot->signaled;
		slot->signaled = 0;
	}
	if (err) {
		sq_give_up(sq, at, end, err);
		return;
	}
	hdl_debug("%s port %u: %s queue %u was reset; %u requests were in it", sq->dev->name, sq->dev->port.port_num,
		  hdl_kind_name(sq->kind), sq->qp->qp_num, end - at);
	for (; at != end; at++)
		sq_release(sq->dev->tp, &sq->slot[at & sq->mask], 0);
}

/* What goes again later, if ever, must not keep waiting who has failed meanwhile. */
static void drop_failed(struct hdl_sq *sq)
{
	for (uint32_t i = sq->broken_tail; i != sq->broken_head; i++)
		if (sq->slot[i & sq->mask].ep->failed)
			sq_release(sq->dev->tp, &sq->slot[i & sq->mask], -ECONNRESET);
}

/* One that must not go again: what belongs to an operation of which a part was refused, and an atomic one that may have been carried
 * out. */
static bool sq_is_lost(const struct hdl_sq *sq, uint32_t i, bool doubtful)
{
	const struct hdl_slot *slot = &sq->slot[i & sq->mask];

	return hdl_rndv_is_refused(sq->dev->tp, slot) || (slot->type == HDL_SLOT_RMA &&
	       (((const struct hdl_rma *)slot->ptr)->err || (doubtful && is_atomic(&sq->again[i & sq->mask]))));
}

void hdl_sq_reset(struct hdl_sq *sq)
{
	struct hdl_tp *tp = sq->dev->tp;
	uint32_t at = sq->broken_tail, end = sq->broken_head;
	struct hdl_flush f = hdl_flush_begin();
	int err;

	if (!sq->broken)
		return;
	if (sq->kind->repeats) {
		start_empty(sq);
		return;
	}
	while (sq->flushed < end - at && hdl_flush_waits(&f))
		hdl_sq_reap(tp, sq->scq);
	err = sq->flushed < end - at ? -ETIMEDOUT : sq->kind->reset(sq);
	if (err == -EINPROGRESS) {
		drop_failed(sq);
		return;
	}
	if (err) {
		sq->head = sq->tail = end;
		sq_give_up(sq, at, end, err);
		return;
	}
	hdl_debug("%s port %u: %s queue %u was reset; %u requests go again", sq->dev->name, sq->dev->port.port_num,
		  hdl_kind_name(sq->kind), sq->qp->qp_num, end - at);
	if ((err = sq_begin_again(sq))) {
		sq_give_up(sq, at, end, err);
		return;
	}
	/* One that was stopped from outside may have been in the middle of what it had for one peer; where it serves one after
	 * the other, it has begun nothing behind that. */
	const struct hdl_ep *first = at != end ? sq->slot[at & sq->mask].ep : NULL;
	bool doubtful = !sq->exact;
	for (; at != end; at++) {
		struct hdl_slot *slot = &sq->slot[at & sq->mask];
		if (slot->ep != first && sq->kind->serial_targets)
			doubtful = false;
		if (slot->ep->failed || sq_is_lost(sq, at, doubtful)) {
			sq_release(tp, slot, -ECONNRESET);
		} else if ((err = post_again(sq, at))) {
			sq_give_up(sq, at, end, err);
			return;
		}
	}
}

void hdl_sq_abandon(struct hdl_sq *sq, const struct hdl_ep *ep)
{
	struct hdl_tp *tp = ep->tp;
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_ERR };
	bool has = false;
	int err;

	hdl_sq_reap(tp, sq->scq);
	if (!sq->kind->reset || sq->dead)
		return;
	if (sq->broken) {
		hdl_done_reset(sq);	/* it may wait for another peer's answer: drop_failed */
		return;
	}
	for (uint32_t i = sq->tail; i != sq->head && !has; i++)
		has = sq->slot[i & sq->mask].ep == ep;
	if (!has)
		return;
	if ((err = ibv_modify_qp(sq->qp, &a, IBV_QP_STATE)))
		hdl_debug("%s: its requests in %s queue %u go on (%s)", hdl_proc_text(ep->rank), hdl_kind_name(sq->kind),
			  sq->qp->qp_num, strerror(err));
	hdl_sq_reap(tp, sq->scq);	/* what is flushed later is found by a turn's look at all queues */
}

/* A queue in ERR flushes what is posted to it: when this one is flushed, all before it have been, signaled or not. It has time of
 * its own. */
static bool post_mark(struct hdl_sq *sq, struct hdl_flush *f)
{
	struct ibv_send_wr *bad, wr = { .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED,
					.wr_id = (uint64_t)sq->id << 32 | sq->head };

	if (sq->head - sq->tail >= sq->mask || ibv_post_send(sq->qp, &wr, &bad))
		return false;
	sq->slot[sq->head & sq->mask] = (struct hdl_slot){ .signaled = 1 };
	sq->signaled = ++sq->head;
	sq->scq->pending++;
	*f = hdl_flush_begin();
	return true;
}

/* What was kept to go again ends. */
static void drop_kept(struct hdl_sq *sq)
{
	for (uint32_t i = sq->broken_tail; i != sq->broken_head; i++)
		sq_release(sq->dev->tp, &sq->slot[i & sq->mask], -ECONNRESET);
	sq->broken = false;
	sq->head = sq->tail = sq->signaled = sq->broken_head;
}

int hdl_sq_stop(struct hdl_sq *sq)
{
	struct hdl_tp *tp = sq->dev->tp;
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_ERR };
	struct hdl_flush f;
	bool marked = false;
	int err;

	sq->dead = true;	/* what is flushed now is no news */
	if ((err = ibv_modify_qp(sq->qp, &a, IBV_QP_STATE)))
		return -err;
	f = hdl_flush_begin();
	while (sq->broken && sq->flushed < sq->broken_head - sq->broken_tail && hdl_flush_waits(&f))
		hdl_sq_reap(tp, sq->scq);
	if (sq->broken) {
		drop_kept(sq);
		return 0;
	}
	do {
		hdl_sq_reap(tp, sq->scq);
		marked = marked || post_mark(sq, &f);
	} while ((!marked || sq->tail != sq->head) && hdl_flush_waits(&f));
	return sq->tail == sq->head ? 0 : -ETIMEDOUT;
}

int hdl_sq_halt(struct hdl_sq *sq)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_ERR };
	struct hdl_flush f;
	bool marked = false;
	int err;

	if ((err = ibv_modify_qp(sq->qp, &a, IBV_QP_STATE)))
		return -err;
	f = hdl_flush_begin();
	while (!sq->broken || sq->flushed < sq->broken_head - sq->broken_tail) {
		if (!hdl_flush_waits(&f))
			return -ETIMEDOUT;
		hdl_sq_reap(sq->dev->tp, sq->scq);
		marked = marked || (!sq->broken && post_mark(sq, &f));
	}
	/* the mark, which is the last, is not wanted any more */
	if (marked)
		sq->head = --sq->broken_head;
	return 0;
}

static bool is_message(const struct hdl_replay *a)
{
	return takes_receive(a->opcode);
}

void hdl_replay_settle(struct hdl_sq *sq, uint32_t messages, bool ring, uint64_t lines)
{
	struct hdl_tp *tp = sq->dev->tp;
	uint32_t done = sq->broken_tail, number = sq->messages;

	if (!sq->broken || sq->settled || !has_kept(sq))
		return;
	sq->settled = true;
	for (uint32_t i = sq->broken_tail; i != sq->broken_head; i++)
		number -= is_message(&sq->again[i & sq->mask]);
	for (uint32_t i = sq->broken_tail; i != sq->broken_head; i++) {
		struct hdl_replay *a = &sq->again[i & sq->mask];

		if ((a->over = sq->slot[i & sq->mask].type == HDL_SLOT_RTU))
			sq_release(tp, &sq->slot[i & sq->mask], 0);
		if (sq_is_lost(sq, i, !sq->exact)) {
			a->over = true;
			sq_release(tp, &sq->slot[i & sq->mask], -ECONNRESET);
		}
		if (is_message(a) ? (int32_t)(messages - number++) > 0
				  : ring && a->end && lines >= a->end)
			done = i + 1;
	}
	for (uint32_t i = sq->broken_tail; i != done; i++) {
		struct hdl_replay *a = &sq->again[i & sq->mask];

		if (a->opcode == IBV_WR_RDMA_READ)
			continue;
		a->over = true;
		sq_release(tp, &sq->slot[i & sq->mask], 0);
	}
}

int hdl_replay_run(struct hdl_sq *sq, bool failed)
{
	uint32_t at = sq->broken_tail, end = sq->broken_head;
	bool same = at != end && !sq->again[at & sq->mask].over, before = sq->failed_again && sq->first_again == at;
	int err = sq_begin_again(sq);

	sq->messages = 0;
	sq->first_again = at;
	for (; !err && at != end; at++)
		if (!sq->again[at & sq->mask].over && (err = post_again(sq, at)))
			break;
	/* those that are left end with the endpoint */
	for (; at != end; at++)
		sq_release(sq->dev->tp, &sq->slot[at & sq->mask], -ECONNRESET);
	sq->failed_again = (failed || before) && same && sq->head != sq->first_again;
	hdl_debug("%s port %u: %s queue %u towards %s goes on; %u requests go again", sq->dev->name, sq->dev->port.port_num,
		  hdl_kind_name(sq->kind), sq->qp->qp_num, hdl_proc_text(sq->ep->rank), sq->head - sq->first_again);
	return err;
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

/* Room for a slot's inline data. NULL: there is no memory, which is an error only if the request must go again. */
static char *room_for(struct hdl_sq *sq, uint32_t slot, uint32_t len, char **heap)
{
	if (len <= sizeof(sq->again->line))
		return sq->again[slot].line;
	if (len <= sq->again_max)
		return sq->again_data + slot * again_bytes(sq);
	return *heap = malloc(len);
}

__attribute__((noinline)) void hdl_replay_record_now(struct hdl_sq *sq, const struct ibv_send_wr *wr, uint64_t lines)
{
	uint32_t i = sq->head - 1, slot = i & sq->mask;
	struct hdl_replay *a = &sq->again[slot];
	char *was = a->heap;	/* perhaps what goes again, and is copied from */

	if (sq->kept_to != i)
		sq->kept_from = i;
	else if (i - sq->kept_from >= sq->depth)
		sq->kept_from = i + 1 - sq->depth;	/* the run may be endless, and the numbers go round */
	sq->kept_to = i + 1;
	a->opcode = (uint8_t)wr->opcode;
	a->flags = (uint8_t)wr->send_flags;
	a->num_sge = (uint8_t)wr->num_sge;
	a->end = lines;
	a->over = false;
	a->imm = wr->imm_data;
	a->addr = wr->wr.rdma.remote_addr;
	a->rkey = wr->wr.rdma.rkey;
	a->len = 0;
	a->data = a->heap = NULL;
	if (wr->send_flags & IBV_SEND_INLINE) {
		for (int n = 0; n < wr->num_sge; n++)
			a->len += wr->sg_list[n].length;
		char *to = a->data = room_for(sq, slot, a->len, &a->heap);
		for (int n = 0; to && n < wr->num_sge; n++)
			to = mempcpy(to, (const char *)(uintptr_t)wr->sg_list[n].addr, wr->sg_list[n].length);
	} else if (wr->num_sge) {
		memcpy(a->sge, wr->sg_list, (size_t)wr->num_sge * sizeof(a->sge[0]));
		if (is_atomic(a)) {
			a->operand[0] = wr->wr.atomic.compare_add;
			a->operand[1] = wr->wr.atomic.swap;
			a->rkey = wr->wr.atomic.rkey;
		}
	}
	free(was);
}

/* A queue that peers share, and another one's request has broken it: what this peer waits for would never come. */
static int refused_dead(struct hdl_ep *ep)
{
	hdl_ep_fail(ep, -ECONNRESET);
	return -ECONNRESET;
}

/* The device has taken the request at the head. */
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

	if (unlikely(sq->dead))
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
		sq->dead = true;
		hdl_ep_fail(ep, -err);
		return -err;
	}
	posted(sq, ep, type, ptr, signal, bytes);
	sq->messages += takes_receive(wr->opcode);
	hdl_replay_record(sq, wr, 0);
	return 0;
}

int hdl_sq_post_packets(struct hdl_sq *sq, struct hdl_ep *ep, struct hdl_txbuf *const *pkt, uint32_t n)
{
	struct ibv_send_wr wr[HDL_SQ_PACKETS], *bad = NULL;
	struct ibv_sge sge[HDL_SQ_PACKETS];
	uint32_t signaled = sq->signaled, taken;
	int err;

	if (unlikely(sq->dead))
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
		posted(sq, ep, copied ? HDL_SLOT_NONE : HDL_SLOT_BUF, copied ? NULL : pkt[i], wr[i].send_flags & IBV_SEND_SIGNALED,
		       pkt[i]->len);
	}
	if (unlikely(err)) {
		hdl_error("%s port %u: cannot post %u packets to %s queue %u towards %s (%s; %u were taken)", sq->dev->name,
			  sq->dev->port.port_num, n, hdl_kind_name(sq->kind), sq->qp->qp_num, hdl_proc_text(ep->rank), strerror(err),
			  taken);
		sq->dead = true;
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
	if (sq->dead || !hdl_sq_room(sq, 1))
		return;
	struct ibv_send_wr wr = { .opcode = IBV_WR_RDMA_WRITE };
	/* no bytes: neither address nor key is looked at (IBTA 9.7.7.1.4) */
	hdl_sq_post(sq, ep, &wr, HDL_SLOT_NONE, NULL, true, 0);
}
