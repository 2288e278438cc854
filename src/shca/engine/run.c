/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Queues that run: drain, WAIT and ENABLE, stalls and their timers, flushing.
 *
 * Everything here happens inside the engine (shca_enter): objects found by an offset or a number stay until shca_leave. A queue
 * may run in any process, whichever owns the queue.
 */
#include <errno.h>

#include "shca/engine/calc.h"
#include "shca/engine/path.h"
#include "shca/engine/todo.h"

static void run_queue(struct shca_thread *thr, struct shca_qp *qp);

/*
 * The work of a call is finite: of each queue a call runs the requests that were posted when its run began, and BUDGET requests
 * in all, because two queues may make each other runnable for ever. The rest is left over: the queue's number is put where every
 * poller of the fabric finds it, and the helper of the queue's owner has a timer, in case no thread polls.
 */
#define BUDGET 16384u

static void wake_next(struct shca_thread *thr, shca_off off)
{
	struct shca_rq *rq = shca_rq_at(thr->m, off);
	shca_off qp;

	shca_epoch_widen(thr);
	if (!rq || !thr->budget || !shca_rq_ready(thr, rq) || !(qp = shca_rnr_next(thr, rq)))
		return;
	SHCA_FAILPOINT(thr, "rnr-woken", qp_at(thr, qp), 0);
	thr->budget--;
	/* cannot fail: the item that shca_drain took off left room */
	shca_todo_add(thr, off | TODO_RECEIVES);
	shca_kick(thr, qp);
}

void shca_drain(struct shca_thread *thr)
{
	thr->budget = BUDGET;
	while (thr->todo_n) {
		shca_off off = thr->todo_items[--thr->todo_n].qp;
		if (off & TODO_RECEIVES) {
			wake_next(thr, off & ~(shca_off)TODO_RECEIVES);
			continue;
		}
		struct shca_qp *qp = qp_at(thr, off);
		if (!run_begin(thr, qp, thr->slot))
			continue;
		if (likely(thr->budget))
			run_queue(thr, qp);
		else
			shca_leave_over(thr, qp);
	}
}

/* ---- requests ------------------------------------------------------------------------------------------------ */

void shca_req_of_wqe(const struct shca_qp *qp, const struct shca_wqe *wqe, struct shca_req *req)
{
	req->op = wqe->op;
	req->flags = wqe->flags;
	req->nsge = wqe->nsge;
	req->bad = wqe->bad;
	req->imm = wqe->imm;
	req->rkey = wqe->rkey;
	req->dqpn = wqe->dqpn;
	req->qkey = wqe->qkey;
	req->len = wqe->len;
	req->raddr = wqe->raddr;
	memcpy(req->arg, wqe->arg, sizeof(req->arg));
	req->sge = wqe->sge;
	req->inl = wqe->flags & SHCA_WQE_INLINE ? (const void *)wqe->sge : NULL;
}

/* Returns true if a WAIT's condition is met: the CQ's count of completions has reached the WAIT's. The poster noted the WAIT in
 * the CQ before it was posted. So the producer of a completion that this thread does not see here sees the note, and kicks the
 * queue. */
static bool wait_met(struct shca_thread *thr, const struct shca_qp *qp, const struct shca_wqe *wqe)
{
	struct shca_cq *cq = shca_at(thr->base, wqe->raddr);

	/* cq->tail never exceeds the count */
	if (atomic_load_explicit(&cq->tail, memory_order_acquire) >= wqe->arg[0] || shca_cq_count(thr, cq) >= wqe->arg[0])
		return true;
	SHCA_FAILPOINT(thr, "wait-unmet", qp, wqe->op);
	/* between the note, whose request this thread has read, and the second look; pairs with the CAS of shca_cq_fill */
	shca_full_fence();
	return shca_cq_count(thr, cq) >= wqe->arg[0];
}

static void enable(struct shca_thread *thr, const struct shca_qp *qp, const struct shca_wqe *wqe)
{
	struct shca_qp *target = qp_at(thr, wqe->raddr);

	if (wqe->op == SHCA_OP_SEND_EN) {
		shca_raise(&target->enabled, wqe->arg[0]);
		SHCA_FAILPOINT(thr, "enable-raised", qp, wqe->op);
		shca_kick(thr, wqe->raddr);
	} else {
		struct shca_rq *rq = shca_rq_at(thr->m, target->rq);
		if (!rq)
			return;
		shca_raise(&rq->enabled, wqe->arg[0]);
		SHCA_FAILPOINT(thr, "enable-raised", qp, wqe->op);
		/* pairs with the heavy fence of a queue that stalls for want of a receive */
		shca_full_fence();
		if (shca_rnr_any(rq))
			shca_recv_wake(thr, rq);
	}
}

/* I7: returns whether the object of a WAIT or ENABLE is still there; dqpn is its number at the time of the post. */
static bool names_object(struct shca_thread *thr, const struct shca_qp *qp, const struct shca_wqe *wqe)
{
	enum shca_kind kind = wqe->op == SHCA_OP_WAIT ? SHCA_KIND_CQ : SHCA_KIND_QP;
	const void *obj = shca_number_get(thr->m, wqe->dqpn, kind);

	if (!obj || shca_off_of(thr->m, obj) != wqe->raddr || !shca_owned(thr->m, obj, qp->proc))
		return false;
	return wqe->op != SHCA_OP_WAIT || shca_cq_sound(thr->m, obj);
}

/* ---- stalls --------------------------------------------------------------------------------------------------- */

/* Returns how long this stall may last, in ns; 0: for ever. */
static uint64_t stall_budget(struct shca_thread *thr, const struct shca_qp *qp, int why)
{
	if (why == SHCA_BUSY)
		return 0;
	if (why == SHCA_RNR) {
		struct shca_qp *to = shca_number_get(thr->m, qp->dest_qpn, SHCA_KIND_QP);
		uint64_t timer = shca_rnr_timer_ns(to ? to->min_rnr_timer : 12);
		return qp->rnr_retry == 7 ? 0 : timer * qp->rnr_retry + 1;
	}
	/* IBTA 9.9.2.1.1: 4.096 us * 2^timeout, retry_cnt + 1 times; 0: no timer */
	uint32_t timeout = shca_path_timeout(qp);
	return timeout ? (4096ull << timeout) * (qp->retry_cnt + 1u) : 0;
}

/* The request of a DC initiator has no answer: a target with another key counts a violation, and raises an event if its owner
 * has armed one. Event before count: if this thread dies in between, the successor repeats both (stall). So a violation may be
 * counted twice, but none is without its event. */
static void count_key_violation(struct shca_thread *thr, const struct shca_qp *qp)
{
	const struct shca_wqe *w = shca_wqe_at(thr->base, qp, atomic_load_explicit(&qp->head, memory_order_relaxed));
	struct shca_qp *to = shca_number_get(thr->m, w->dqpn & SHCA_QPN_MASK, SHCA_KIND_QP);

	if (!to || to->type != SHCA_QPT_DCT || to->dc_key == w->arg[3] || !(atomic_load(&to->gate) & SHCA_GATE_RESPOND))
		return;
	/* a packet for another port does not come to the target */
	if (SHCA_PATH_PORT(atomic_load(&to->path)) != shca_dc_port(w->dqpn))
		return;
	SHCA_FAILPOINT(thr, "dc-violation", qp, 0);
	uint32_t armed = atomic_load(&to->events);
	while (armed & SHCA_DC_ARMED &&
	       !atomic_compare_exchange_weak(&to->events, &armed, (armed & ~SHCA_DC_ARMED) | 1u << SHCA_EVENT_DC_KEY))
		;
	if (armed & SHCA_DC_ARMED)
		shca_async_wake(thr, to->proc);
	atomic_fetch_add(&to->dc_violations, 1);
}

/* The request at head cannot go on: no receive, no responder that answers, or a memory window in use. Returns whether the queue
 * waits (it has a timer then); false: its retries are used up. */
static bool stall(struct shca_thread *thr, struct shca_qp *qp, int why)
{
	uint64_t now = monotonic_ns(), since = atomic_load(&qp->rnr_since), budget = stall_budget(thr, qp, why);

	if (!since) {
		/* Once for a request, however many tries. Before rnr_since is set: a successor that finds rnr_since set would
		 * not count. */
		if (why == SHCA_NOPEER && qp->type == SHCA_QPT_DCI)
			count_key_violation(thr, qp);
		since = now;
		if (why != SHCA_BUSY)
			shca_hw_count(thr->m, qp, why == SHCA_RNR ? SHCA_HW_OUT_OF_BUFFER : SHCA_HW_NO_ANSWER);
		qp->stalls = 0;
		atomic_store(&qp->rnr_since, now);
	}
	if (budget && now - since >= budget)
		return false;
	qp->stalls++;
	/* next try after 2, 4, ... 32 ms, or when the budget ends */
	uint64_t next = now + (1000000ull << (qp->stalls < 5 ? qp->stalls : 5));
	if (budget && next > since + budget)
		next = since + budget;
	if (thr->again && thr->again < next)
		next = thr->again;
	thr->again = 0;
	shca_timer_add(thr->m, qp, next);
	return true;
}

/* ---- a queue ---------------------------------------------------------------------------------------------------- */

static void run_advance(struct shca_qp *qp)
{
	atomic_store_explicit(&qp->head, atomic_load_explicit(&qp->head, memory_order_relaxed) + 1, memory_order_release);
	/* stale by the new head; cleared nevertheless, or the step would be valid again when the tag has gone round */
	atomic_store_explicit(&qp->step, SHCA_STEP_NONE, memory_order_relaxed);
	if (atomic_load_explicit(&qp->rnr_since, memory_order_relaxed))
		atomic_store(&qp->rnr_since, 0);
}

/* Only the executor counts: a counter of a queue has one writer at a time. */
static void run_count(_Atomic uint64_t *counter, uint64_t more)
{
	atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + more, memory_order_relaxed);
}

static void count_request(struct shca_thread *thr, struct shca_qp *qp, const struct shca_wqe *wqe, uint32_t bytes)
{
	if (wqe->op == SHCA_OP_WAIT) {
		run_count(&qp->n_waits, 1);
		return;
	}
	if (wqe->op == SHCA_OP_SEND_EN || wqe->op == SHCA_OP_RECV_EN) {
		run_count(&qp->n_enables, 1);
		return;
	}
	run_count(&qp->n_msgs, 1);
	run_count(&qp->n_bytes, bytes);
	if (unlikely(wqe->flags & SHCA_WQE_CALC))
		run_count(&qp->n_calcs, 1);
	if (wqe->op >= SHCA_OP_CAS && wqe->op <= SHCA_OP_ATOMIC_WRITE)
		run_count(&qp->n_atomics, 1);
	if (qp->proc != thr->m->slot) {
		run_count(&qp->n_foreign, 1);
		run_count(&thr->m->proc->foreign_wqes, 1);
	}
}

/* Runs a request with a CALC: the operands are combined first, and the result is the data. */
static __attribute__((noinline)) int exec_calc(struct shca_thread *thr, struct shca_qp *qp, const struct shca_req *req)
{
	struct shca_iov src = {.proc = qp->proc, .seg = req->sge, .n = req->nsge};
	struct shca_calc c = shca_calc_of(req->arg[0]);
	struct shca_req made = *req;
	uint64_t len = req->len;
	bool src_err;

	/* exec_read does the CALC of an RDMA READ */
	if (req->bad || req->op == SHCA_OP_READ)
		return shca_exec(thr, qp, req);
	if (!c.vector)
		for (uint32_t i = len = 0; i < req->nsge; i++)
			len += req->sge[i].len;
	int rc = shca_calc(thr, req->arg[0], &src, len, &made.inl, &src_err);
	if (rc)
		return rc == -EINVAL ? IBV_WC_LOC_QP_OP_ERR : IBV_WC_LOC_PROT_ERR;
	SHCA_FAILPOINT(thr, "calc", qp, req->op);
	/* I7: the length of the result, not the request's length */
	if (!c.vector)
		made.len = 16;
	made.nsge = 0;
	return shca_exec(thr, qp, &made);
}

static int exec_wqe(struct shca_thread *thr, struct shca_qp *qp, const struct shca_wqe *wqe)
{
	struct shca_req req;

	shca_req_of_wqe(qp, wqe, &req);
	return unlikely(req.flags & SHCA_WQE_CALC) ? exec_calc(thr, qp, &req) : shca_exec(thr, qp, &req);
}

/* Returns whether the requests at pos and pos + 1 are both writes, nothing of the first has happened, and the responder would
 * grant the second. A refusal of the second would fail the queue in the name of the first. */
static bool may_overtake(struct shca_thread *thr, struct shca_qp *qp, const struct shca_wqe *wqe, uint64_t pos)
{
	const struct shca_wqe *next = shca_wqe_at(thr->base, qp, pos + 1);
	struct shca_req req;

	if (wqe->op != SHCA_OP_WRITE || shca_step_of(qp) != SHCA_STEP_NONE || atomic_load(&qp->rnr_since) ||
	    pos + 1 >= atomic_load_explicit(&qp->posted, memory_order_acquire) ||
	    pos + 1 >= atomic_load_explicit(&qp->enabled, memory_order_acquire) || next->op != SHCA_OP_WRITE ||
	    !shca_wqe_sound(qp, next) || next->bad)
		return false;
	shca_req_of_wqe(qp, next, &req);
	return shca_write_granted(thr, qp, &req);
}

/* SHCA_BEHAVE=nosequence: of two writes that wait in a queue the second one lands first, and the first one may overwrite it.
 * `ahead` notes that the second has landed: another thread may run the second later, and a second write would hit memory that
 * the responder has polled and used again. Until `ahead` is set the journal, in the first one's name, says that the second may
 * have happened (reap_take_over). */
static int exec_overtaken(struct shca_thread *thr, struct shca_qp *qp, const struct shca_wqe *wqe, uint64_t pos)
{
	if (qp->ahead == pos + 1)
		return IBV_WC_SUCCESS;
	if (qp->ahead != pos + 2 && may_overtake(thr, qp, wqe, pos)) {
		int status = exec_wqe(thr, qp, shca_wqe_at(thr->base, qp, pos + 1));
		if (status == IBV_WC_SUCCESS)
			qp->ahead = pos + 2;
		/* The second was refused after all, because its region has just gone: SHCA_STEP_NAK stays, and the first request
		 * reports the refusal. */
		if (shca_step_of(qp) != SHCA_STEP_NAK)
			shca_step_to(qp, SHCA_STEP_NONE);
	}
	return atomic_load(&qp->fail) ? IBV_WC_WR_FLUSH_ERR : exec_wqe(thr, qp, wqe);
}

/* Runs one request. Returns true if the next may run. */
static bool run_one(struct shca_thread *thr, struct shca_qp *qp, uint64_t pos)
{
	struct shca_wqe *wqe = shca_wqe_at(thr->base, qp, pos);
	int status = IBV_WC_SUCCESS;
	uint32_t len = wqe->len;

	/* the objects of the request may be of any process */
	shca_epoch_widen(thr);

	/* a dead executor had finished or decided everything but the completion: a second run would repeat the request */
	uint32_t step = shca_step_of(qp);
	if (step == SHCA_STEP_SENT || step == SHCA_STEP_FAILED) {
		status = qp->step_status;
		goto complete;
	}
	switch (wqe->op) {
	case SHCA_OP_WAIT:
		if (!names_object(thr, qp, wqe)) {
			status = IBV_WC_LOC_QP_OP_ERR;
			break;
		}
		if (!wait_met(thr, qp, wqe)) {
			/* behind the look: a producer that puts the CQ in error kicks all queues that wait */
			if (!shca_cq_in_error(shca_at(thr->base, wqe->raddr)))
				return false;
			status = IBV_WC_LOC_QP_OP_ERR;
			break;
		}
		SHCA_FAILPOINT(thr, "wait-met", qp, wqe->op);
		break;
	case SHCA_OP_SEND_EN:
	case SHCA_OP_RECV_EN:
		if (!names_object(thr, qp, wqe)) {
			status = IBV_WC_LOC_QP_OP_ERR;
			break;
		}
		enable(thr, qp, wqe);
		SHCA_FAILPOINT(thr, "enabled", qp, wqe->op);
		break;
	default: {
		if (unlikely(!shca_wqe_sound(qp, wqe))) {
			status = IBV_WC_LOC_QP_OP_ERR;
			break;
		}
		status = unlikely(qp->flags & SHCA_QP_NOSEQUENCE) ? exec_overtaken(thr, qp, wqe, pos) : exec_wqe(thr, qp, wqe);
		break;
	}
	}
	if (unlikely(status < 0)) {
		int why = status;
		if (why == SHCA_RNR) {
			struct shca_rq *rq = shca_rq_at(thr->m, qp->step_rq);
			if (rq) {
				shca_rnr_link(thr, rq, qp);
				/* Second try: a thread that posted a receive before the link was visible wakes no queue. Pairs
				 * with the light fence of shca_rq_post. */
				shca_heavy_fence(thr->m);
				status = exec_wqe(thr, qp, wqe);
			}
		}
		if (status < 0) {
			if (stall(thr, qp, status))
				return false;
			shca_hw_count(thr->m, qp, status == SHCA_RNR ? SHCA_HW_RNR_NAK_RETRY_ERR : SHCA_HW_LOCAL_ACK_TIMEOUT_ERR);
			status = status == SHCA_RNR ? IBV_WC_RNR_RETRY_EXC_ERR : IBV_WC_RETRY_EXC_ERR;
			shca_release_receive(thr, qp);
		}
	}
	count_request(thr, qp, wqe, status == IBV_WC_SUCCESS ? len : 0);
complete:
	if (unlikely(status != IBV_WC_SUCCESS)) {
		shca_fail_head(thr, qp, status);
		return false;
	}
	if (wqe->flags & SHCA_WQE_SIGNALED)
		shca_complete_send(thr, qp, pos, shca_completes_as(wqe->flags, wqe->op), status, len);
	run_advance(qp);
	SHCA_FAILPOINT(thr, "advanced", qp, wqe->op);
	return true;
}

void shca_fail_head(struct shca_thread *thr, struct shca_qp *qp, int status)
{
	uint64_t pos = atomic_load(&qp->head);

	/* The queue is in error before the completion says so, and before head moves: later requests are flushed by the next
	 * executor. That executor could not find the status again, so the status is journaled first. */
	qp->step_status = (uint8_t)status;
	shca_step_to(qp, SHCA_STEP_FAILED);
	shca_qp_failed(thr, qp, status);
	SHCA_FAILPOINT(thr, "failing", qp, shca_wqe_at(thr->base, qp, pos)->op);
	if (!shca_complete_send(thr, qp, pos, shca_wqe_at(thr->base, qp, pos)->op, status, 0))
		shca_qp_event(thr, qp, IBV_EVENT_QP_FATAL);
	SHCA_FAILPOINT(thr, "failed", qp, qp->step_op);
	run_advance(qp);
}

static void flush_receive(struct shca_thread *thr, struct shca_qp *qp, uint32_t index)
{
	struct shca_cqe_in in = {.qpn = qp->qpn, .index = index, .op = SHCA_OP_RECV, .status = IBV_WC_WR_FLUSH_ERR};
	struct shca_cq *cq = shca_cq_at(thr->m, qp->rcq);

	if (cq)
		shca_cq_push(thr, cq, &in);
}

/* Flushes receives that a dead flusher had taken, or that shca_release_receive handed over. Their completion may have appeared,
 * and must not appear twice. Visits all receives of the queue: there is no record of those in flush. */
static void flush_rest(struct shca_thread *thr, struct shca_qp *qp, struct shca_rq *rq)
{
	struct shca_cq *cq = shca_cq_at(thr->m, qp->rcq);

	if (!cq)
		return;
	for (uint32_t i = 0; shca_rq_made(thr->m, rq) && i < 1u << rq->log2; i++) {
		if (!shca_rq_in_flush(thr, rq, i))
			continue;
		/* a polled receive is no more in flush (and an overwritten completion was polled) */
		uint64_t end = shca_cq_count(thr, cq), from = atomic_load(&cq->ci);
		if (end - from > 1ull << cq->log2)
			from = end - (1ull << cq->log2);
		if (shca_cq_find(thr, cq, (uint32_t)from, qp->qpn, i, true) == 1 || !shca_rq_in_flush(thr, rq, i))
			continue;
		flush_receive(thr, qp, i);
	}
	shca_cq_notice_again(thr, cq);
}

/* Flushes the queue's own receives; an SRQ's stay for other queues. No journal: the word of a taken receive names the flusher.
 * Bit 0 of `flushing` tells a successor that a flusher died here. Its other bits count receives that were handed over: if one
 * comes behind this flusher's look the last exchange fails, and the flusher looks again. */
static void flush_receives(struct shca_thread *thr, struct shca_qp *qp)
{
	struct shca_rq *rq = shca_rq_at(thr->m, qp->rq);

	/* (I7: the seal covers rq->proc) */
	if (!rq || rq->is_srq || !qp->rcq || rq->proc != qp->proc)
		return;
	uint32_t seen = atomic_fetch_or(&qp->flushing, 1);
	do {
		if (seen)
			flush_rest(thr, qp, rq);
		for (int index; (index = shca_rq_take(thr, rq, SHCA_FLUSHER, NULL)) >= 0;) {
			SHCA_FAILPOINT(thr, "flush-taken", qp, 0);
			flush_receive(thr, qp, (uint32_t)index);
			SHCA_FAILPOINT(thr, "flush-done", qp, 0);
		}
		for (uint32_t i = 0; atomic_load(&rq->returned) && shca_rq_made(thr->m, rq) && i < 1u << rq->log2; i++)
			if (shca_rq_returned_to_flusher(thr, rq, i))
				flush_receive(thr, qp, i);
		seen |= 1;
	} while (!atomic_compare_exchange_strong(&qp->flushing, &seen, 0));
}

/*
 * Raises IBV_EVENT_QP_LAST_WQE_REACHED (IBTA 11.6.3.5), once: a failed queue takes no more receives of its SRQ. Messages that
 * found the queue before may still be under way. No thread may wait for them here, so the owner gives the event out when they
 * have ended (last_has_come in verbs/device.c). A DC target drains without this event. Must: the caller holds the lock.
 */
static void tell_last(struct shca_thread *thr, struct shca_qp *qp)
{
	const struct shca_rq *rq = shca_rq_at(thr->m, qp->rq);

	if (!rq || !rq->is_srq || qp->type == SHCA_QPT_DCT || atomic_load(&qp->flushing))
		return;
	/* event first: if this thread dies in between, a successor raises the event again */
	shca_qp_event(thr, qp, IBV_EVENT_QP_LAST_WQE_REACHED);
	SHCA_FAILPOINT(thr, "last-told", qp, 0);
	atomic_store(&qp->flushing, 1);
}

/* The queue has failed, and this thread has the lock: no request of the queue runs any more, so all end here. */
void shca_flush(struct shca_thread *thr, struct shca_qp *qp)
{
	uint64_t posted = atomic_load(&qp->posted);

	for (uint64_t pos; (pos = atomic_load(&qp->head)) < posted;) {
		struct shca_wqe *wqe = shca_wqe_at(thr->base, qp, pos);
		uint32_t step = shca_step_of(qp);
		/* decided when the queue failed: only the completion is missing */
		bool decided = step == SHCA_STEP_SENT || step == SHCA_STEP_NAK || step == SHCA_STEP_FAILED;
		int status = decided ? qp->step_status : IBV_WC_WR_FLUSH_ERR;
		shca_release_receive(thr, qp);
		shca_complete_send(thr, qp, pos, shca_completes_as(wqe->flags, wqe->op), status,
				   status == IBV_WC_SUCCESS ? wqe->len : 0);
		run_advance(qp);
	}
	flush_receives(thr, qp);
	tell_last(thr, qp);
}

/* I7: returns whether a CQ belongs to the queue's owner. Otherwise the queue would complete to another process's CQ. */
static bool completes_at_home(const struct shca_member *m, const struct shca_qp *qp, shca_off off)
{
	const struct shca_cq *cq = shca_cq_at(m, off);

	return !off || (cq && cq->proc == qp->proc);
}

/* I7: returns true, and fails the queue, if its memory cannot be where wqes says, has no room for the posted requests, or is not
 * its owner's, or if a CQ is not its owner's: then no request can be read or completed. */
static bool broken(struct shca_thread *thr, struct shca_qp *qp)
{
	/* posted before head, see run_some: in the other order a queue that turns SHARED just now would seem to hold too much */
	uint64_t posted = atomic_load_explicit(&qp->posted, memory_order_acquire);
	uint64_t head = atomic_load_explicit(&qp->head, memory_order_acquire);

	if (shca_sq_sound(thr->m, qp, head, posted) && shca_owned(thr->m, qp, qp->proc) &&
	    (posted <= head || shca_owned(thr->m, thr->base + qp->wqes, qp->proc)) && completes_at_home(thr->m, qp, qp->scq) &&
	    completes_at_home(thr->m, qp, qp->rcq))
		return false;
	if (!atomic_load(&qp->fail)) {
		shca_qp_event(thr, qp, IBV_EVENT_QP_FATAL);
		shca_qp_failed(thr, qp, IBV_WC_FATAL_ERR);
	}
	return true;
}

/* Runs requests up to position `limit`. Returns true if there are more, which may run. */
static bool run_some(struct shca_thread *thr, struct shca_qp *qp, uint64_t limit)
{
	if (unlikely(broken(thr, qp)))
		return false;
	for (;;) {
		if (unlikely(atomic_load_explicit(&qp->fail, memory_order_relaxed) != 0)) {
			shca_flush(thr, qp);
			return false;
		}
		if (unlikely(atomic_load_explicit(&qp->peer_dead, memory_order_relaxed) != 0))
			flush_receives(thr, qp);
		/* posted before head: in to_shared (post.c) the owner moves both, head first. In the other order a queue that
		 * turns SHARED just now would seem to have requests. */
		uint64_t posted = atomic_load_explicit(&qp->posted, memory_order_acquire);
		uint64_t pos = atomic_load_explicit(&qp->head, memory_order_relaxed);
		if (pos >= posted || pos >= atomic_load_explicit(&qp->enabled, memory_order_acquire))
			return false;
		if (unlikely(pos >= limit || !thr->budget))
			return true;
		thr->budget--;
		if (!run_one(thr, qp, pos) && !atomic_load_explicit(&qp->fail, memory_order_relaxed))
			return false;
	}
}

/* Runs a queue as far as possible, then gives the lock up or leaves the queue over. Must: the queue is locked RUN by this
 * thread. After MORE the thread looks again, but runs nothing that was posted after the run began: an owner that keeps posting
 * would keep it here for ever. */
static void run_queue(struct shca_thread *thr, struct shca_qp *qp)
{
	uint64_t limit = atomic_load_explicit(&qp->posted, memory_order_acquire);

	for (;;) {
		SHCA_FAILPOINT(thr, "run", qp, 0);
		if (unlikely(run_some(thr, qp, limit))) {
			shca_leave_over(thr, qp);
			return;
		}
		SHCA_FAILPOINT(thr, "release", qp, 0);
		uint64_t w = atomic_load(&qp->lock);
		for (;;) {
			if (w & L_MORE) {
				if (atomic_compare_exchange_weak(&qp->lock, &w, w & ~L_MORE))
					break;
			} else if (atomic_compare_exchange_weak(&qp->lock, &w, run_lock_word(SHCA_L_FREE, 0, w))) {
				return;
			}
		}
	}
}

/* Compares the whole word: a queue that another reaper or a thief has taken since is not the dead thread's any more. MORE goes,
 * as in run_begin. */
bool shca_qp_take_over(struct shca_thread *thr, struct shca_qp *qp, uint64_t seen)
{
	uint32_t dead = L_THREAD(seen);

	while (L_STATE(seen) != SHCA_L_FREE && L_THREAD(seen) == dead)
		if (atomic_compare_exchange_strong(&qp->lock, &seen, run_lock_word(SHCA_L_RUN, thr->slot, seen)))
			return true;
	return false;
}

void shca_qp_unlock(struct shca_thread *thr, struct shca_qp *qp)
{
	thr->budget = BUDGET;
	run_queue(thr, qp);
	shca_drain(thr);
}
