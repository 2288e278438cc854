/* SPDX-License-Identifier: BSD-3-Clause */
/* Broken send queues: reset; halted and replayed; or stopped (states: sq_state.h). */
#include <string.h>

#include "transport/core/tp.h"

/* Empties the queue, which is in RTS, for the replay. 0 or a negative errno, reported: not all requests were recorded (K). */
static int begin_replay(struct hdl_sq *sq)
{
	bool recorded = hdl_replay_is_complete(sq);

	if (!recorded)
		hdl_error("%s port %u: requests %u to %u of %s queue %u were not carried out, though the device had said that "
			  "they were, and were not kept: a defect of the device, or of this library",
			  sq->dev->name, sq->dev->port.port_num, sq->replay_tail, sq->replay_head - 1, hdl_kind_name(sq->kind),
			  sq->qp->qp_num);
	hdl_sq_step(sq, HDL_SQ_RESUME);
	sq->head = sq->tail = sq->signaled = sq->recorded_from = sq->recorded_to = sq->replay_tail;
	return recorded ? 0 : -EPROTO;
}

/* Posts the request of slot `from` again, at the head. Must: the head is not beyond `from`. Returns 0 or a negative errno,
 * reported. */
static int replay_request(struct hdl_sq *sq, uint32_t from)
{
	struct hdl_slot slot = sq->slot[from & sq->mask];
	const struct hdl_replay a = sq->replay[from & sq->mask];
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
	hdl_replay_request(sq, &a, &wr, sge, data);
	if (is != was)
		memcpy(is, was, HDL_HEAD_BUF);
	for (int i = 0; i < wr.num_sge && !(wr.send_flags & IBV_SEND_INLINE); i++) {
		char *p = (char *)(uintptr_t)sge[i].addr;
		if (p >= was && p < was + HDL_HEAD_BUF)
			sge[i].addr = (uintptr_t)(is + (p - was));
	}
	/* the request has been counted */
	sq->requests--;
	int err = hdl_sq_post(sq, ep, &wr, slot.type, slot.ptr, a.flags & IBV_SEND_SIGNALED, 0);
	if (!err && a.end)
		hdl_replay_record_frame(sq, a.end);
	/* the request was copied to another slot and must end once: hdl_put_plain does not change the slot's type */
	if (!err && is != was)
		sq->slot[from & sq->mask].type = HDL_SLOT_NONE;
	return err;
}

/* The queue cannot be used again: the requests [at, end) end, and the peers that share the queue fail. */
static void sq_give_up(struct hdl_sq *sq, uint32_t at, uint32_t end, int err)
{
	struct hdl_tp *tp = sq->dev->tp;

	hdl_error("%s port %u: %s queue %u cannot be used again (%s): the peers that share it fail", sq->dev->name,
		  sq->dev->port.port_num, hdl_kind_name(sq->kind), sq->qp->qp_num, strerror(-err));
	hdl_sq_step(sq, HDL_SQ_FAIL);
	for (; at != end; at++)
		hdl_sq_release(tp, &sq->slot[at & sq->mask], -ECONNRESET);
	for (uint32_t i = 0; i < tp->peers.n; i++)
		if (tp->peers.of[i] && tp->peers.of[i]->sq == sq)
			hdl_ep_fail(tp->peers.of[i], -ECONNRESET);
}

/* Restarts a queue whose requests are repeated by the layer above (`repeats`). Numbers go on, so that late completions of old
 * requests are recognized as stray. */
static void start_empty(struct hdl_sq *sq)
{
	uint32_t at = sq->replay_tail, end = sq->replay_head;
	int err = sq->kind->reset(sq);

	sq->head = sq->tail = end;
	sq->signaled = end - sq->interval;	/* the next request is signaled: its completion ends the count of resets */
	hdl_sq_step(sq, HDL_SQ_RESUME);
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
		hdl_sq_release(sq->dev->tp, &sq->slot[at & sq->mask], 0);
}

/* Ends the kept requests of failed endpoints: the replay may come late, or never. */
static void drop_failed(struct hdl_sq *sq)
{
	for (uint32_t i = sq->replay_tail; i != sq->replay_head; i++)
		if (sq->slot[i & sq->mask].ep->failed)
			hdl_sq_release(sq->dev->tp, &sq->slot[i & sq->mask], -ECONNRESET);
}

/* Returns true if a request must not be replayed: its operation was refused in part, or the request is atomic and may have been
 * carried out (doubtful). */
static bool sq_is_lost(const struct hdl_sq *sq, uint32_t i, bool doubtful)
{
	const struct hdl_slot *slot = &sq->slot[i & sq->mask];

	const struct hdl_request_type *type = &sq->dev->tp->hooks->request[slot->type];

	return (type->refused && type->refused(sq->dev->tp, slot)) ||
	       (slot->type == HDL_SLOT_RMA && doubtful && hdl_replay_is_atomic(&sq->replay[i & sq->mask]));
}

void hdl_sq_reset(struct hdl_sq *sq)
{
	struct hdl_tp *tp = sq->dev->tp;
	uint32_t at = sq->replay_tail, end = sq->replay_head;
	struct hdl_flush f = hdl_flush_begin();
	int err;

	if (!hdl_sq_is_broken(sq))
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
	if ((err = begin_replay(sq))) {
		sq_give_up(sq, at, end, err);
		return;
	}
	/* A queue that was stopped from outside may have been in the middle of the requests to one peer. A kind that serves one
	 * peer after another (serial_targets) has begun none of the later requests. */
	const struct hdl_ep *first = at != end ? sq->slot[at & sq->mask].ep : NULL;
	bool doubtful = !sq->rest_unstarted;
	for (; at != end; at++) {
		struct hdl_slot *slot = &sq->slot[at & sq->mask];
		if (slot->ep != first && sq->kind->serial_targets)
			doubtful = false;
		if (slot->ep->failed || sq_is_lost(sq, at, doubtful)) {
			hdl_sq_release(tp, slot, -ECONNRESET);
		} else if ((err = replay_request(sq, at))) {
			sq_give_up(sq, at, end, err);
			return;
		}
	}
}

void hdl_sq_abandon(struct hdl_sq *sq, const struct hdl_ep *ep)
{
	struct hdl_tp *tp = ep->tp;
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_ERR };
	bool uses = false;
	int err;

	hdl_sq_reap(tp, sq->scq);
	if (!sq->kind->reset || hdl_sq_is_dead(sq))
		return;
	if (hdl_sq_is_broken(sq)) {
		hdl_done_reset(sq);	/* the reset may be waiting for another peer's answer: hdl_sq_reset runs again, and
					 * drop_failed */
		return;
	}
	for (uint32_t i = sq->tail; i != sq->head && !uses; i++)
		uses = sq->slot[i & sq->mask].ep == ep;
	if (!uses)
		return;
	if ((err = ibv_modify_qp(sq->qp, &a, IBV_QP_STATE)))
		hdl_debug("%s: its requests in %s queue %u go on (%s)", hdl_proc_text(ep->rank), hdl_kind_name(sq->kind),
			  sq->qp->qp_num, strerror(err));
	hdl_sq_reap(tp, sq->scq);	/* requests that are flushed later are found when a turn takes all queues' completions */
}

/* Posts a mark to a queue in ERR, which flushes all requests in order: when the mark has completed, all earlier requests have,
 * signaled or not. Restarts the time limit. Returns true if the mark was posted. */
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

/* Ends the requests that were kept for the replay. */
static void end_kept(struct hdl_sq *sq)
{
	for (uint32_t i = sq->replay_tail; i != sq->replay_head; i++)
		hdl_sq_release(sq->dev->tp, &sq->slot[i & sq->mask], -ECONNRESET);
	hdl_sq_step(sq, HDL_SQ_DRAINED);
	sq->head = sq->tail = sq->signaled = sq->replay_head;
}

int hdl_sq_stop(struct hdl_sq *sq)
{
	struct hdl_tp *tp = sq->dev->tp;
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_ERR };
	struct hdl_flush f;
	bool marked = false;
	int err;

	hdl_sq_step(sq, HDL_SQ_STOP);
	if ((err = ibv_modify_qp(sq->qp, &a, IBV_QP_STATE)))
		return -err;
	f = hdl_flush_begin();
	while (hdl_sq_is_broken(sq) && sq->flushed < sq->replay_head - sq->replay_tail && hdl_flush_waits(&f))
		hdl_sq_reap(tp, sq->scq);
	if (hdl_sq_is_broken(sq)) {
		end_kept(sq);
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
	while (!hdl_sq_is_broken(sq) || sq->flushed < sq->replay_head - sq->replay_tail) {
		if (!hdl_flush_waits(&f))
			return -ETIMEDOUT;
		hdl_sq_reap(sq->dev->tp, sq->scq);
		marked = marked || (!hdl_sq_is_broken(sq) && post_mark(sq, &f));
	}
	/* the mark, which is the last request, is not replayed */
	if (marked)
		sq->head = --sq->replay_head;
	return 0;
}

static bool is_message(const struct hdl_replay *a)
{
	return hdl_takes_receive(a->opcode);
}

void hdl_replay_settle(struct hdl_sq *sq, uint32_t messages, bool ring, uint64_t lines)
{
	struct hdl_tp *tp = sq->dev->tp;
	uint32_t done = sq->replay_tail, number = sq->messages;

	if (sq->state != HDL_SQ_BROKEN || !hdl_replay_is_complete(sq))
		return;
	hdl_sq_step(sq, HDL_SQ_SETTLE);
	for (uint32_t i = sq->replay_tail; i != sq->replay_head; i++)
		number -= is_message(&sq->replay[i & sq->mask]);
	for (uint32_t i = sq->replay_tail; i != sq->replay_head; i++) {
		struct hdl_replay *a = &sq->replay[i & sq->mask];

		if ((a->over = sq->slot[i & sq->mask].type == HDL_SLOT_RTU))
			hdl_sq_release(tp, &sq->slot[i & sq->mask], 0);
		if (sq_is_lost(sq, i, !sq->rest_unstarted)) {
			a->over = true;
			hdl_sq_release(tp, &sq->slot[i & sq->mask], -ECONNRESET);
		}
		if (is_message(a) ? (int32_t)(messages - number++) > 0
				  : ring && a->end && lines >= a->end)
			done = i + 1;
	}
	for (uint32_t i = sq->replay_tail; i != done; i++) {
		struct hdl_replay *a = &sq->replay[i & sq->mask];

		if (a->opcode == IBV_WR_RDMA_READ)
			continue;
		a->over = true;
		hdl_sq_release(tp, &sq->slot[i & sq->mask], 0);
	}
}

int hdl_replay_run(struct hdl_sq *sq, bool failed)
{
	uint32_t at = sq->replay_tail, end = sq->replay_head;
	bool same = at != end && !sq->replay[at & sq->mask].over, before = sq->replay_failed && sq->replay_first == at;
	int err = begin_replay(sq);

	sq->messages = 0;
	sq->replay_first = at;
	for (; !err && at != end; at++)
		if (!sq->replay[at & sq->mask].over && (err = replay_request(sq, at)))
			break;
	/* after an error the rest ends with the endpoint */
	for (; at != end; at++)
		hdl_sq_release(sq->dev->tp, &sq->slot[at & sq->mask], -ECONNRESET);
	sq->replay_failed = (failed || before) && same && sq->head != sq->replay_first;
	hdl_debug("%s port %u: %s queue %u towards %s goes on; %u requests go again", sq->dev->name, sq->dev->port.port_num,
		  hdl_kind_name(sq->kind), sq->qp->qp_num, hdl_proc_text(sq->ep->rank), sq->head - sq->replay_first);
	return err;
}
