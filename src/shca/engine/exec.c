/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One send request, from finding the responder to its completion.
 *
 * Every function here runs as the executor of `qp` (I1) and journals each step before taking the step, so that a successor of a
 * dead executor knows what may have happened (reap.c).
 */
#include <endian.h>
#include <errno.h>
#include <sched.h>
#include <stdlib.h>

#include "shca.h"
#include "shca/engine/calc.h"
#include "shca/engine/exec.h"
#include "shca/engine/flow.h"
#include "shca/engine/mkey.h"
#include "shca/engine/trace.h"
#include "shca/engine/window.h"

/* The destination fields of a request. */
static inline struct shca_address address_of(const struct shca_req *req)
{
	return (struct shca_address){.dqpn = req->dqpn, .qkey = req->qkey, .dc_key = req->arg[3]};
}

/* Narrows the thread's epoch to the processes of requester and responder, until shca_exec returns. Not while the thread needs
 * objects of other processes: queues to be run, wake-ups to be delivered, lists that a reaper walks. Not for XRC: memory and
 * receives may be a third process's. I7: the responder's owner is the owner of its chunk, not a field of the responder alone:
 * the memory is freed when no thread is inside the owner's objects. */
static inline void narrow_to_both(struct shca_thread *thr, const struct shca_qp *qp, const struct shca_responder *r)
{
	uint32_t proc = r->qp->proc;

	if (!(thr->todo_n | thr->wake_n | thr->in_reap) && qp->type != IBV_QPT_XRC_SEND && shca_owned(thr->m, r->qp, proc))
		shca_epoch_narrow(thr, shca_epoch_of_two(qp->proc, proc));
}

static __attribute__((noinline)) int find_responder(struct shca_thread *thr, struct shca_qp *qp, const struct shca_req *req,
				 struct shca_responder *r)
{
	struct shca_address a = address_of(req);
	int rc = shca_responder_find(thr, qp, &a, r);

	if (!rc && thr->where == SHCA_ANYWHERE)
		narrow_to_both(thr, qp, r);
	return rc;
}

/* find_responder of a datagram: a function of its own, so that connected queues carry no path. */
static __attribute__((noinline)) int find_datagram_responder(struct shca_thread *thr, struct shca_qp *qp,
							     const struct shca_req *req, struct shca_responder *r)
{
	struct shca_address a = {.dqpn = req->dqpn, .qkey = req->qkey, .ud = &req->arg[1]};
	int rc = shca_responder_find(thr, qp, &a, r);

	if (!rc && thr->where == SHCA_ANYWHERE)
		narrow_to_both(thr, qp, r);
	return rc;
}

/* always_inline, as shca_responder_receives: an ordinary message has no call for it. */
static inline __attribute__((always_inline)) int find_receives(struct shca_thread *thr, struct shca_qp *qp,
							       const struct shca_req *req, struct shca_responder *r)
{
	struct shca_address a = address_of(req);

	return shca_responder_receives(thr, qp, &a, r);
}

/* A request's data from byte `from` on, unless inline in one piece (req->inl). Inline data of several pieces is read during the
 * post, at the poster's addresses; a WQE has inline data in one piece. */
static inline struct shca_iov data_of(const struct shca_qp *qp, const struct shca_req *req, uint64_t from)
{
	return (struct shca_iov){.proc = req->flags & SHCA_WQE_INLINE ? SHCA_HERE : qp->proc, .seg = req->sge, .n = req->nsge,
				 .skip = from};
}

/* Copies bytes [from, from + len) of the request's data to the same offset of dst. */
static int move_data(struct shca_thread *thr, struct shca_qp *qp, const struct shca_req *req, struct shca_iov dst,
		     uint64_t from, uint64_t len, enum shca_order order, bool *src_err)
{
	dst.skip += from;
	if (req->inl) {
		*src_err = false;
		return shca_copy_to(thr, &dst, (const char *)req->inl + from, len, order);
	}
	struct shca_iov src = data_of(qp, req, from);
	return shca_copy(thr, &dst, &src, len, order, src_err);
}

/* An RDMA WRITE of a device that promises no order (SHCA_BEHAVE=noorder): the end first, and time for a reader to look at the
 * end. The responder must not poll for such a write, so a successor may write all of it again. */
static int move_unordered(struct shca_thread *thr, struct shca_qp *qp, const struct shca_req *req, struct shca_iov *dst,
			  bool *src_err)
{
	uint64_t end = req->len > 64 ? 64 : (req->len + 1) / 2, body = req->len - end;

	shca_step_to(qp, SHCA_STEP_DATA);
	int rc = move_data(thr, qp, req, *dst, body, end, SHCA_ANY_ORDER, src_err);
	sched_yield();
	if (!rc && body)
		rc = move_data(thr, qp, req, *dst, 0, body, SHCA_ANY_ORDER, src_err);
	return rc;
}

/* Copies bytes [from, from + len) of the request's data to memory of this thread. */
static int read_data(struct shca_thread *thr, struct shca_qp *qp, const struct shca_req *req, uint64_t from, uint64_t len,
		     char *to)
{
	struct shca_seg here = {.where = (uintptr_t)to, .len = (uint32_t)len, .lane = SHCA_LANE_CMA};
	struct shca_iov dst = {.proc = thr->m->slot, .seg = &here, .n = 1};
	struct shca_iov src = {.proc = qp->proc, .seg = req->sge, .n = req->nsge, .skip = from};
	bool src_err;

	if (!req->inl)
		return shca_copy(thr, &dst, &src, len, SHCA_ANY_ORDER, &src_err);
	memcpy(to, (const char *)req->inl + from, len);
	return 0;
}

/*
 * move_write for two other processes, whose death does not end this executor, where the kernel or a proxy copies. The body has a
 * call of its own, which a successor repeats. The end is read before FINAL, so that the call that must not be repeated is short.
 * CALC has no body, as in move_write.
 */
static __attribute__((noinline)) int move_for_others(struct shca_thread *thr, struct shca_qp *qp, const struct shca_req *req,
						     const struct shca_iov *dst, enum shca_order order, bool *src_err)
{
	uint64_t body = req->len > SHCA_LINE ? req->len - SHCA_LINE : 0;
	struct shca_iov end = *dst;
	char line[SHCA_LINE];
	int rc = 0;

	if (body) {
		shca_step_to(qp, SHCA_STEP_DATA);
		SHCA_FAILPOINT(thr, "data", qp, req->op);
		rc = move_data(thr, qp, req, *dst, 0, body, order, src_err);
	}
	if (rc)
		return rc;
	rc = read_data(thr, qp, req, body, req->len - body, line);
	SHCA_FAILPOINT(thr, "body-done", qp, req->op);
	*src_err = rc != 0;
	if (rc)
		return rc;
	shca_step_to(qp, SHCA_STEP_FINAL);
	SHCA_FAILPOINT(thr, "final", qp, req->op);
	end.skip += body;
	rc = shca_copy_to(thr, &end, line, req->len - body, order);
	SHCA_FAILPOINT(thr, "final-done", qp, req->op);
	return rc;
}

/*
 * An RDMA WRITE. A successor may write the body again, with the same bytes, but not the end, the last line: the responder may
 * have polled the line, consumed it, and used the memory again. Where the kernel or a proxy copies, the queue's owner and the
 * responder write everything by one call: no successor continues for these two.
 */
static int move_write(struct shca_thread *thr, struct shca_qp *qp, const struct shca_req *req, struct shca_iov *dst,
		      enum shca_order order, bool *src_err)
{
	/* the result of CALC has no body either: its operands may lie at the destination */
	bool arena = dst->seg->lane == SHCA_LANE_ARENA;
	uint64_t body = req->len > SHCA_LINE && arena && !(req->flags & SHCA_WQE_CALC) ? req->len - SHCA_LINE : 0;
	int rc = 0;

	if (unlikely(qp->flags & SHCA_QP_NOORDER) && !(req->flags & SHCA_WQE_CALC))
		return move_unordered(thr, qp, req, dst, src_err);
	if (!arena && unlikely(qp->proc != thr->m->slot) && dst->proc != thr->m->slot && !(req->flags & SHCA_WQE_CALC))
		return move_for_others(thr, qp, req, dst, order, src_err);

	if (body) {
		shca_step_to(qp, SHCA_STEP_DATA);
		SHCA_FAILPOINT(thr, "data", qp, req->op);
		rc = move_data(thr, qp, req, *dst, 0, body, order, src_err);
	}
	if (!rc) {
		shca_step_to(qp, SHCA_STEP_FINAL);
		SHCA_FAILPOINT(thr, "final", qp, req->op);
		rc = move_data(thr, qp, req, *dst, body, req->len - body, order, src_err);
		SHCA_FAILPOINT(thr, "final-done", qp, req->op);
	}
	return rc;
}

/* Puts in the responder's completion. again: this is a successor, and the journal says RCQE: only if the completion is not
 * there. Returns false if the completion was lost. */
static bool responder_cqe(struct shca_thread *thr, struct shca_qp *qp, const struct shca_responder *r, const struct shca_req *req,
			  uint8_t op, int status, uint32_t bytes, bool again)
{
	uint32_t imm = req->imm;
	bool solicited = req->flags & SHCA_WQE_SOLICITED || status != IBV_WC_SUCCESS;

	if (op == SHCA_OP_RECV && qp->type == IBV_QPT_UD)
		imm = qp->qpn | SHCA_UD_PATH_BITS(req->arg[1]);
	uint64_t w0 = shca_cqe_w0(op, (uint8_t)status, qp->step_index, r->number), w1 = (uint64_t)imm << 32 | bytes;
	if (likely(!again))
		return shca_cq_complete(thr, qp, r->rcq, SHCA_STEP_RCQE, status, w0, w1, solicited);
	if (!shca_cq_sound(thr->m, r->rcq))
		return false;
	if (shca_receive_completed(thr, qp, r->rq, r->rcq)) {
		shca_cq_notice_again(thr, r->rcq);
		return true;
	}
	/* I7: the journal names a receive that this queue has not taken */
	if (!shca_rq_taken_at(thr, r->rq, qp->step_index, qp->step_pos, qp->qpn))
		return true;
	return shca_cq_put(thr, r->rcq, shca_cq_count(thr, r->rcq), w0, w1, solicited);
}

/* Takes the receive that this request consumes, or finds the one that a dead executor took for it. step: the journal's. Returns
 * as shca_rq_take; then shca_rq_take_moved looks further. r->rq becomes the ring that the receive is in (rq_move.c). */
static inline __attribute__((always_inline)) int take_receive(struct shca_thread *thr, struct shca_qp *qp,
							      struct shca_responder *r, uint32_t step)
{
	if (step == SHCA_STEP_RCQE)
		return (int)qp->step_index;
	struct shca_rq *held;
	if ((step == SHCA_STEP_TAKE || step == SHCA_STEP_RECV || step == SHCA_STEP_INV) &&
	    qp->step_rq == shca_off_of(thr->m, r->rq) &&
	    (held = shca_rq_taken_at(thr, r->rq, qp->step_index, qp->step_pos, qp->qpn))) {
		r->rq = held;
		if (step == SHCA_STEP_TAKE)
			shca_step_to(qp, SHCA_STEP_RECV);
		return (int)qp->step_index;
	}
	qp->step_rq = shca_off_of(thr->m, r->rq);
	qp->step_to = r->number;
	return shca_rq_take(thr, r->rq, qp->qpn, qp);
}

/* Returns true if the responder has failed since the look-up, and then releases the receive. The flusher may have taken receives
 * older than this one, and the message was for one of those. Must: called behind the take, which has read the flusher's takes,
 * and these are behind the store that closed the gate. */
static inline __attribute__((always_inline)) bool passed_over(struct shca_thread *thr, struct shca_qp *qp,
							      const struct shca_responder *r)
{
	if (likely(atomic_load_explicit(&r->qp->gate, memory_order_acquire) & SHCA_GATE_RESPOND) || r->rq->is_srq ||
	    qp->type == IBV_QPT_UD || shca_step_of(qp) == SHCA_STEP_RCQE)
		return false;
	shca_release_receive(thr, qp);
	return true;
}

/* Writes the GRH of a datagram, from its address handle. paylen counts the bytes behind the GRH: headers, data padded to 4
 * bytes, ICRC. */
static void write_grh(struct shca_thread *thr, const struct shca_req *req, const struct shca_iov *dst)
{
	uint32_t bth_deth = 12 + 8 + (req->op == SHCA_OP_SEND_IMM ? 4 : 0);
	struct ibv_grh grh = {
		.version_tclass_flow = htobe32(6u << 28 | (uint32_t)req->arg[1]), .next_hdr = 0x1b,
		.paylen = htobe16((uint16_t)(bth_deth + ((req->len + 3) & ~3u) + 4)), .hop_limit = (uint8_t)(req->arg[1] >> 32),
	};

	shca_gid_of(thr->m, SHCA_UD_PATH_BITS(req->arg[1]) & SHCA_CQE_UD_PORT_2 ? 2 : 1, grh.sgid.raw);
	if (thr->group)
		memcpy(grh.dgid.raw, thr->group, sizeof(grh.dgid));
	else
		shca_gid_of(thr->m, req->arg[1] & SHCA_UD_TO_2 ? 2 : 1, grh.dgid.raw);
	shca_copy_to(thr, dst, &grh, sizeof(grh), SHCA_ANY_ORDER);
}

static uint32_t receive_room(const struct shca_rwqe *w)
{
	uint64_t room = 0;

	for (uint32_t i = 0; i < w->nsge; i++)
		room += w->sge[i].len;
	return room > UINT32_MAX ? UINT32_MAX : (uint32_t)room;
}

/* Returns whether a receive that was found bad at post has segments of indirect memory keys, and is good. */
static __attribute__((noinline, cold)) bool receives_by_keys(struct shca_thread *thr, const struct shca_responder *r,
							     const struct shca_rwqe *w)
{
	return w->bad == SHCA_BAD_KEYS && shca_rwqe_sound(w, r->rq->stride) &&
	       shca_mkey_segs(thr->m, r->rq->proc, r->rq->pd, w->sge, w->nsge);
}

/* inv: a SEND_WITH_INV. Constant, so that an ordinary message has no instruction for it. */
static inline __attribute__((always_inline)) int exec_message(struct shca_thread *thr, struct shca_qp *qp,
							      const struct shca_req *req, struct shca_responder *r,
							      const bool inv)
{
	bool ud = qp->type == IBV_QPT_UD, src_err = false;
	int status = IBV_WC_SUCCESS;
	uint8_t op = inv ? SHCA_OP_RECV_INV : req->op == SHCA_OP_SEND_IMM ? SHCA_OP_RECV_IMM : SHCA_OP_RECV;
	int rc = find_receives(thr, qp, req, r);
	uint32_t step = shca_step_of(qp);

	if (rc)
		return shca_nak(thr, qp, r, IBV_EVENT_QP_REQ_ERR, rc);
	if (shca_cq_awaited(r->rcq))
		shca_cq_expect(thr, r->rcq);
	int index = take_receive(thr, qp, r, step);
	if (unlikely(index < 0) && (index = shca_rq_take_moved(thr, &r->rq, index, qp->qpn, qp)) < 0)
		return index == SHCA_RQ_BROKEN ? shca_nak(thr, qp, r, IBV_EVENT_QP_FATAL, IBV_WC_REM_OP_ERR) : SHCA_RNR;
	if (unlikely(passed_over(thr, qp, r)))
		return shca_nobody(qp);
	struct shca_rwqe *w = shca_rwqe_at(thr, r->rq, (uint32_t)index);
	uint32_t skip = ud ? 40 : 0;
	/* the data is there, and the receive may lie in the key that has ended */
	const bool copied = inv && step == SHCA_STEP_INV;
	if (unlikely(step == SHCA_STEP_RCQE)) {
		/* the owner may have posted the receive again: this thread must not access the receive */
		status = qp->step_status;
	} else if (!copied && unlikely((w->bad && !receives_by_keys(thr, r, w)) || !shca_rwqe_sound(w, r->rq->stride) ||
				       !shca_rwqe_stands(thr->m, r->rq->proc, w, r->rq->stride))) {
		status = IBV_WC_LOC_PROT_ERR;
	} else if (!copied && receive_room(w) < (uint64_t)req->len + skip) {
		status = IBV_WC_LOC_LEN_ERR;
	} else {
		struct shca_iov dst = {.proc = r->rq->proc, .seg = w->sge, .n = w->nsge, .skip = skip};
		SHCA_FAILPOINT(thr, "data", qp, req->op);
		if (!copied)
			rc = req->len ? move_data(thr, qp, req, dst, 0, req->len, SHCA_ANY_ORDER, &src_err) : 0;
		SHCA_FAILPOINT(thr, "data-done", qp, req->op);
		if (unlikely(rc == -ESRCH && !src_err && !ud))
			return shca_nobody(qp);	/* the responder's process has just died */
		if (unlikely(rc && src_err)) {
			/* the responder sees nothing of this request */
			shca_rq_return(thr, r->rq, (uint32_t)index, qp->step_pos, qp->qpn);
			return IBV_WC_LOC_PROT_ERR;
		}
		if (unlikely(rc))
			status = IBV_WC_LOC_PROT_ERR;
		else if (inv)
			status = shca_window_remote_inv(thr, qp, r->qp, r->pd, req->imm);
		if (inv && status == SHCA_BUSY)
			return SHCA_BUSY;
		w->src_qp = ud ? qp->qpn : r->qp->qpn;
		if (ud) {
			w->ud_bits = (uint8_t)(SHCA_UD_PATH_BITS(req->arg[1]) >> 24);
			dst.skip = 0;
			if (req->flags & SHCA_WQE_GRH)
				write_grh(thr, req, &dst);
		}
	}
	/* The consumer that polls the error completion must find the queue in ERR. The gate stays open until the queue fails: a
	 * successor must find the responder. */
	if (unlikely(status != IBV_WC_SUCCESS && r->qp->type == IBV_QPT_RC))
		atomic_store(&r->qp->qp_state, IBV_QPS_ERR);
	bool there = responder_cqe(thr, qp, r, req, op, status, status == IBV_WC_SUCCESS ? req->len + skip : 0,
				   step == SHCA_STEP_RCQE);
	if (inv && status == IBV_WC_REM_INV_REQ_ERR)
		return shca_nak(thr, qp, r, IBV_EVENT_QP_ACCESS_ERR, IBV_WC_REM_ACCESS_ERR);
	if (unlikely(status != IBV_WC_SUCCESS && !ud))
		return shca_nak(thr, qp, r, IBV_EVENT_QP_FATAL,
			   status == IBV_WC_LOC_LEN_ERR ? IBV_WC_REM_INV_REQ_ERR : IBV_WC_REM_OP_ERR);
	if (unlikely(!there))
		return shca_completion_lost(thr, qp, r);
	atomic_fetch_add_explicit(&r->qp->n_recv_msgs, 1, memory_order_relaxed);
	return IBV_WC_SUCCESS;
}

static __attribute__((noinline)) int exec_send(struct shca_thread *thr, struct shca_qp *qp, const struct shca_req *req,
					       struct shca_responder *r)
{
	return exec_message(thr, qp, req, r, false);
}

static __attribute__((noinline)) int exec_send_inv(struct shca_thread *thr, struct shca_qp *qp, const struct shca_req *req,
						   struct shca_responder *r)
{
	return exec_message(thr, qp, req, r, true);
}

/* shca_nak of a request whose copy failed in the responder's memory: an indirect memory key refused the access,
 * or the memory is gone. */
static int nak_memory(struct shca_thread *thr, struct shca_qp *qp, struct shca_responder *r, int rc)
{
	return shca_nak(thr, qp, r, IBV_EVENT_QP_ACCESS_ERR, rc == -EACCES ? IBV_WC_REM_ACCESS_ERR : IBV_WC_REM_OP_ERR);
}

/* Not inlined: the registers that a WRITE needs would be saved for every request. */
static __attribute__((noinline)) int exec_write(struct shca_thread *thr, struct shca_qp *qp, const struct shca_req *req,
						struct shca_responder *r)
{
	uint32_t step = shca_step_of(qp);
	bool written = step != SHCA_STEP_NONE && step != SHCA_STEP_DATA;
	struct shca_seg seg;
	bool src_err;
	int rc;

	if (!written && req->len) {
		const struct shca_mr *region =
			shca_resolve_remote(thr, r, req->rkey, req->raddr, req->len, IBV_ACCESS_REMOTE_WRITE, &seg, NULL);
		if (unlikely(!region))
			return shca_nak(thr, qp, r, IBV_EVENT_QP_ACCESS_ERR, IBV_WC_REM_ACCESS_ERR);
		uint32_t proc = shca_region_owner(region);
		struct shca_iov dst = {.proc = proc, .seg = &seg, .n = 1};
		bool polled = seg.lane == SHCA_LANE_ARENA || !(region->access & SHCA_ACCESS_UNPOLLED);
		rc = move_write(thr, qp, req, &dst, polled ? SHCA_LAST_LINE_LAST : SHCA_ANY_ORDER, &src_err);
		if (unlikely(rc == -ESRCH && !src_err)) {
			/* the responder's process has just died: no reader saw anything of this write */
			shca_step_to(qp, SHCA_STEP_NONE);
			return shca_nobody(qp);
		}
		if (unlikely(rc))
			return src_err ? IBV_WC_LOC_PROT_ERR : nak_memory(thr, qp, r, rc);
		if (polled)
			shca_note_write(thr, proc);
	}
	if (req->op != SHCA_OP_WRITE_IMM)
		return IBV_WC_SUCCESS;

	rc = find_receives(thr, qp, req, r);
	if (rc)
		return shca_nak(thr, qp, r, IBV_EVENT_QP_REQ_ERR, rc);
	if (!written) {
		step = SHCA_STEP_WROTE;
		shca_step_to(qp, SHCA_STEP_WROTE);
		SHCA_FAILPOINT(thr, "wrote", qp, req->op);
	}
	if (shca_cq_awaited(r->rcq))
		shca_cq_expect(thr, r->rcq);
	int index = take_receive(thr, qp, r, step);
	if (unlikely(index < 0) && (index = shca_rq_take_moved(thr, &r->rq, index, qp->qpn, qp)) < 0)
		return index == SHCA_RQ_BROKEN ? shca_nak(thr, qp, r, IBV_EVENT_QP_FATAL, IBV_WC_REM_OP_ERR) : SHCA_RNR;
	if (unlikely(passed_over(thr, qp, r)))
		return shca_nobody(qp);
	if (step != SHCA_STEP_RCQE)
		shca_rwqe_at(thr, r->rq, (uint32_t)index)->src_qp = r->qp->qpn;
	if (unlikely(!responder_cqe(thr, qp, r, req, SHCA_OP_RECV_WRITE_IMM, IBV_WC_SUCCESS, req->len,
				    step == SHCA_STEP_RCQE)))
		return shca_completion_lost(thr, qp, r);
	atomic_fetch_add_explicit(&r->qp->n_recv_msgs, 1, memory_order_relaxed);
	return IBV_WC_SUCCESS;
}

bool shca_write_granted(struct shca_thread *thr, struct shca_qp *qp, const struct shca_req *req)
{
	struct shca_responder r = {0};
	struct shca_seg seg;
	bool granted = !find_responder(thr, qp, req, &r) &&
		       (!req->len ||
			shca_resolve_remote(thr, &r, req->rkey, req->raddr, req->len, IBV_ACCESS_REMOTE_WRITE, &seg, NULL));

	shca_epoch_widen(thr);
	return granted;
}

static int exec_read(struct shca_thread *thr, struct shca_qp *qp, const struct shca_req *req, struct shca_responder *r)
{
	struct shca_seg seg;
	bool src_err;
	int rc;

	if (unlikely(r->qp->flags & SHCA_QP_NO_READS))
		return shca_nak(thr, qp, r, IBV_EVENT_QP_REQ_ERR, IBV_WC_REM_INV_REQ_ERR);
	/* as for a WRITE: without bytes no key is checked */
	if (unlikely(!req->len && !(req->flags & SHCA_WQE_CALC)))
		return IBV_WC_SUCCESS;
	const struct shca_mr *region =
		shca_resolve_remote(thr, r, req->rkey, req->raddr, req->len, IBV_ACCESS_REMOTE_READ, &seg, NULL);
	if (unlikely(!region))
		return shca_nak(thr, qp, r, IBV_EVENT_QP_ACCESS_ERR, IBV_WC_REM_ACCESS_ERR);
	SHCA_FAILPOINT(thr, "data", qp, req->op);
	struct shca_iov src = {.proc = shca_region_owner(region), .seg = &seg, .n = 1};
	struct shca_iov dst = {.proc = qp->proc, .seg = req->sge, .n = req->nsge};
	if (unlikely(req->flags & SHCA_WQE_CALC)) {
		const void *result;
		rc = shca_calc(thr, req->arg[0], &src, req->len, &result, &src_err);
		/* an error of the requester, not of the responder */
		if (rc == -EINVAL || rc == -ENOMEM)
			return IBV_WC_LOC_QP_OP_ERR;
		src_err = rc;
		SHCA_FAILPOINT(thr, "calc", qp, req->op);
		if (!rc)
			rc = shca_copy_to(thr, &dst, result, 16, SHCA_LAST_LINE_LAST);
	} else {
		rc = shca_copy(thr, &dst, &src, req->len, SHCA_ANY_ORDER, &src_err);
	}
	SHCA_FAILPOINT(thr, "data-done", qp, req->op);
	if (rc == -ESRCH && src_err)
		return shca_nobody(qp);
	if (rc)
		return src_err ? nak_memory(thr, qp, r, rc) : IBV_WC_LOC_PROT_ERR;
	shca_note_write(thr, qp->proc);
	return IBV_WC_SUCCESS;
}

static bool ud_fault(struct shca_thread *thr, _Atomic uint32_t *odds)
{
	uint32_t p = atomic_load_explicit(odds, memory_order_relaxed);

	if (likely(!p))
		return false;
	/* xorshift64* */
	thr->rng ^= thr->rng >> 12;
	thr->rng ^= thr->rng << 25;
	thr->rng ^= thr->rng >> 27;
	return (uint32_t)((thr->rng * 0x2545f4914f6cdd1dull) >> 32) < p;
}

/* A delayed datagram (injected): a copy that is sent after the next datagram of the queue. One per thread. */
struct shca_late {
	uint32_t qpn;			/* 0: none */
	struct shca_req req;
	char data[4096];
};

/* Delays the datagram. Returns false if another one is delayed already, the datagram is too long or cannot be read, or there is
 * no memory; the datagram goes now. */
static bool delay_datagram(struct shca_thread *thr, const struct shca_qp *qp, const struct shca_req *req)
{
	struct shca_late *h = thr->late;
	bool src_err;

	if (!h)
		h = thr->late = calloc(1, sizeof(*h));
	if (!h || h->qpn || req->len > sizeof(h->data))
		return false;
	if (req->inl) {
		memcpy(h->data, req->inl, req->len);
	} else if (req->len) {
		struct shca_seg seg = {.where = (uintptr_t)h->data, .len = req->len, .lane = SHCA_LANE_CMA};
		struct shca_iov dst = {.proc = SHCA_HERE, .seg = &seg, .n = 1}, src = data_of(qp, req, 0);
		if (shca_copy(thr, &dst, &src, req->len, SHCA_ANY_ORDER, &src_err))
			return false;
	}
	h->req = *req;
	h->req.inl = h->data;
	h->req.sge = NULL;
	h->req.nsge = 0;
	h->qpn = qp->qpn;
	return true;
}

/* Sends the delayed datagram of this queue, if any. */
static void exec_let_go(struct shca_thread *thr, struct shca_qp *qp)
{
	struct shca_late *h = thr->late;
	struct shca_responder r = {0};

	if (likely(!h) || h->qpn != qp->qpn)
		return;
	h->qpn = 0;
	shca_step_to(qp, SHCA_STEP_NONE);
	if (!find_datagram_responder(thr, qp, &h->req, &r))
		exec_send(thr, qp, &h->req, &r);
}

/* Collects the numbers of the queues that are attached to the group, but for the sender's own. Returns their count; without
 * memory some are missing, and lose the datagram. */
static uint32_t group_members(struct shca_thread *thr, const struct shca_qp *qp, const uint64_t gid[2])
{
	struct shca_member *m = thr->m;
	uint32_t high = atomic_load(&m->hdr->proc_high), n = 0;

	for (uint32_t p = 0; p < high && p < SHCA_MAX_PROCS; p++)
		shca_for_each_listed(m, shca_group, g, p, group_list) {
			if (g->gid[0] != gid[0] || g->gid[1] != gid[1] || g->qpn == qp->qpn)
				continue;
			if (!shca_member_add(thr, n, g->qpn))
				return n;
			n++;
		}
	return n;
}

static int exec_tapped(struct shca_thread *thr, struct shca_qp *qp, const struct shca_req *req);

/* Returns whether SHCA_FAULT drops or delays the datagram. A datagram that has passed the tap is not drawn for again. */
static __attribute__((noinline, cold)) bool lost_or_late(struct shca_thread *thr, struct shca_qp *qp, const struct shca_req *req)
{
	struct shca_header *h = thr->m->hdr;
	struct shca_trace_record rec;

	if (thr->tapped)
		return false;
	if (!ud_fault(thr, &h->ud_drop))
		return req->dqpn != SHCA_MULTICAST && ud_fault(thr, &h->ud_reorder) && delay_datagram(thr, qp, req);
	if (shca_traced(thr, qp, req)) {
		shca_trace_begin(thr, qp, req, &rec);
		shca_trace_keep(thr, qp, req, &rec);
		shca_trace_put(thr, &rec, SHCA_FATE_DROP, IBV_WC_SUCCESS);
	}
	return true;
}

/* Returns true if a request without a responder goes through the tap nevertheless: an HCA would have sent the request. */
static inline bool taps(const struct shca_thread *thr, int rc)
{
	return rc == SHCA_TAP || (!thr->tapped && shca_tap_on(thr->m));
}

/* A datagram whose look-up found no responder (rc): lost, if it has passed the tap or there is none. */
static __attribute__((noinline, cold)) int no_responder(struct shca_thread *thr, struct shca_qp *qp, const struct shca_req *req,
								      int rc)
{
	if (taps(thr, rc))
		return exec_tapped(thr, qp, req);
	shca_release_receive(thr, qp);
	return shca_path_ud_misfit(qp, req->arg[1]) ? IBV_WC_LOC_QP_OP_ERR : IBV_WC_SUCCESS;
}

/* Runs a datagram to a multicast group: a copy for each attached queue. The successor of an executor that died does not begin
 * again, because some members have the datagram: it is lost for the rest. */
static __attribute__((noinline)) int exec_multicast(struct shca_thread *thr, struct shca_qp *qp, const struct shca_req *req)
{
	struct shca_req copy = *req;

	if (shca_step_of(qp) != SHCA_STEP_NONE) {
		shca_release_receive(thr, qp);
		return IBV_WC_SUCCESS;
	}
	if (unlikely(taps(thr, 0)))
		return exec_tapped(thr, qp, req);
	if (unlikely(shca_path_ud_misfit(qp, req->arg[1])))
		return IBV_WC_LOC_QP_OP_ERR;
	shca_epoch_widen(thr);
	uint32_t n = group_members(thr, qp, &req->arg[2]);
	bool tapped = thr->tapped;
	thr->tapped = true;		/* the datagram has passed the tap */
	int status = IBV_WC_SUCCESS;
	for (uint32_t i = 0; i < n && status == IBV_WC_SUCCESS; i++) {
		struct shca_responder r = {0};
		copy.dqpn = thr->members[i];
		shca_epoch_widen(thr);
		if (find_datagram_responder(thr, qp, &copy, &r))
			continue;
		thr->group = &req->arg[2];
		int rc = exec_send(thr, qp, &copy, &r);
		thr->group = NULL;
		if (rc == IBV_WC_LOC_PROT_ERR) {
			status = rc;
			continue;
		}
		SHCA_FAILPOINT(thr, "multicast", qp, req->op);
		shca_step_to(qp, SHCA_STEP_NONE);
	}
	thr->tapped = tapped;
	return status;
}

/* Runs a datagram. A datagram may be lost silently: no receive, no such queue, wrong Q_Key, injected loss. */
static int exec_datagram(struct shca_thread *thr, struct shca_qp *qp, const struct shca_req *req)
{
	struct shca_responder r = {0};

	if (req->len > qp->mtu)
		return IBV_WC_LOC_LEN_ERR;
	if (req->op != SHCA_OP_SEND && req->op != SHCA_OP_SEND_IMM)
		return req->op == SHCA_OP_NOP ? IBV_WC_SUCCESS : IBV_WC_LOC_QP_OP_ERR;
	struct shca_header *h = thr->m->hdr;
	bool begun = shca_step_of(qp) != SHCA_STEP_NONE;
	bool faults = !begun && (atomic_load_explicit(&h->ud_drop, memory_order_relaxed) |
				 atomic_load_explicit(&h->ud_reorder, memory_order_relaxed) |
				 atomic_load_explicit(&h->ud_dup, memory_order_relaxed));
	if (unlikely(faults) && lost_or_late(thr, qp, req))
		return IBV_WC_SUCCESS;
	if (unlikely(req->dqpn == SHCA_MULTICAST))
		return exec_multicast(thr, qp, req);
	int rc = find_datagram_responder(thr, qp, req, &r);
	if (rc)
		return no_responder(thr, qp, req, rc);
	rc = exec_send(thr, qp, req, &r);
	if (unlikely(faults) && rc == IBV_WC_SUCCESS && ud_fault(thr, &h->ud_dup)) {
		shca_step_to(qp, SHCA_STEP_NONE);
		rc = exec_send(thr, qp, req, &r);
	}
	if (rc != IBV_WC_LOC_PROT_ERR && !begun)
		exec_let_go(thr, qp);
	return rc == IBV_WC_LOC_PROT_ERR ? rc : IBV_WC_SUCCESS;
}

/* ---- Ethernet frames of raw packet queues ------------------------------------------------------------------------------ */

/* Copies the frame to a buffer of the thread, so that the flows compare the bytes that the receivers get. Returns NULL: the frame
 * cannot be read, or there is no memory. */
static uint8_t *read_frame(struct shca_thread *thr, const struct shca_qp *qp, const struct shca_req *req)
{
	if (!thr->frame && !(thr->frame = malloc(SHCA_FRAME_MAX)))
		return NULL;
	uint8_t *frame = (uint8_t *)thr->frame;
	struct shca_seg seg = {.where = (uintptr_t)frame, .len = req->len, .lane = SHCA_LANE_CMA};
	struct shca_iov dst = {.proc = SHCA_HERE, .seg = &seg, .n = 1}, src = data_of(qp, req, 0);
	bool src_err;

	if (req->inl)
		memcpy(frame, req->inl, req->len);
	else if (shca_copy(thr, &dst, &src, req->len, SHCA_ANY_ORDER, &src_err))
		return NULL;
	return frame;
}

/* Finds the receiving queue of a number that a flow has. Returns false: the queue is not ready, its process is dying, or the
 * queue is a UD queue, whose packets have other headers. */
static bool find_frame_receiver(struct shca_thread *thr, uint32_t qpn, struct shca_responder *r)
{
	struct shca_qp *to = shca_number_get(thr->m, qpn, SHCA_KIND_QP);

	if (!to || to->type != IBV_QPT_RAW_PACKET ||
	    !(atomic_load_explicit(&to->gate, memory_order_acquire) & SHCA_GATE_RESPOND) ||
	    shca_proc_dying(thr->m, to->proc & (SHCA_MAX_PROCS - 1)))
		return false;
	*r = (struct shca_responder){.qp = to, .number = to->qpn, .pd = to->pd};
	return true;
}

/* Delivers the frame to one queue. Without a receive the queue loses the frame. */
static void deliver_frame(struct shca_thread *thr, struct shca_qp *qp, struct shca_req *req, uint8_t *frame,
			  struct shca_responder *r)
{
	bool strip = r->qp->raw & SHCA_RAW_STRIP_VLAN && shca_frame_tagged(frame, req->len);
	uint8_t macs[12];

	req->inl = frame;
	req->imm = 0;
	if (strip) {
		req->imm = (uint32_t)frame[14] << 8 | frame[15];
		memcpy(macs, frame, sizeof(macs));
		memmove(frame + 4, macs, sizeof(macs));
		req->inl = frame + 4;
		req->len -= 4;
	}
	int rc = exec_send(thr, qp, req, r);
	if (rc == SHCA_RNR || !r->rq)
		shca_hw_count(thr->m, r->qp, SHCA_HW_OUT_OF_BUFFER);
	if (strip) {
		req->len += 4;
		memcpy(frame + 12, (const uint8_t[]){0x81, 0x00, (uint8_t)(req->imm >> 8), (uint8_t)req->imm}, 4);
		memcpy(frame, macs, sizeof(macs));
	}
}

/* Runs an Ethernet frame: a copy for each queue that the flows name (flow.c). As of a multicast datagram, the successor of an
 * executor that died does not begin again. */
static __attribute__((noinline)) int exec_frame(struct shca_thread *thr, struct shca_qp *qp, const struct shca_req *req)
{
	struct shca_req copy = {.op = SHCA_OP_FRAME, .flags = req->flags & SHCA_WQE_SOLICITED, .len = req->len};
	uint32_t port = SHCA_PATH_PORT(atomic_load_explicit(&qp->path, memory_order_relaxed));
	struct shca_responder r;

	if (shca_step_of(qp) != SHCA_STEP_NONE) {
		shca_release_receive(thr, qp);
		return IBV_WC_SUCCESS;
	}
	if (req->len < SHCA_FRAME_HEADER || req->len > SHCA_FRAME_MAX)
		return IBV_WC_LOC_LEN_ERR;
	if (unlikely(taps(thr, 0)))
		return exec_tapped(thr, qp, req);
	uint8_t *frame = read_frame(thr, qp, req);
	if (!frame)
		return IBV_WC_LOC_PROT_ERR;
	if (!shca_port_up(thr->m, port))
		return IBV_WC_SUCCESS;
	shca_epoch_widen(thr);
	uint32_t n = shca_flow_receivers(thr, qp, port, frame, req->len);
	if (!n)
		shca_hw_count(thr->m, qp, SHCA_HW_RX_STEER_MISSED);
	for (uint32_t i = 0; i < n; i++) {
		shca_epoch_widen(thr);
		if (!find_frame_receiver(thr, thr->members[i], &r))
			continue;
		deliver_frame(thr, qp, &copy, frame, &r);
		SHCA_FAILPOINT(thr, "frame", qp, req->op);
		shca_step_to(qp, SHCA_STEP_NONE);
	}
	return IBV_WC_SUCCESS;
}

/* The status that the requester gets. An unreliable connection has no acknowledgements: a message that its responder cannot take
 * is lost (IBTA 9.8.2). */
static int outcome(struct shca_thread *thr, struct shca_qp *qp, int rc)
{
	if (likely(qp->type != IBV_QPT_UC) || rc == IBV_WC_SUCCESS || rc == SHCA_BUSY || rc == IBV_WC_LOC_PROT_ERR ||
	    rc == IBV_WC_LOC_LEN_ERR || rc == IBV_WC_LOC_QP_OP_ERR)
		return rc;
	shca_release_receive(thr, qp);
	return IBV_WC_SUCCESS;
}

static int exec_connected(struct shca_thread *thr, struct shca_qp *qp, const struct shca_req *req)
{
	struct shca_responder r = {0};
	int rc = find_responder(thr, qp, req, &r);

	if (unlikely(rc)) {
		if (taps(thr, rc))
			return exec_tapped(thr, qp, req);
		/* a receive that a dead executor took for this request will not be filled */
		if (rc > 0)
			shca_release_receive(thr, qp);
		return rc;
	}
	SHCA_FAILPOINT(thr, "found", qp, req->op);
	switch (req->op) {
	case SHCA_OP_WRITE:
	case SHCA_OP_WRITE_IMM:
		return exec_write(thr, qp, req, &r);
	case SHCA_OP_SEND:
	case SHCA_OP_SEND_IMM:
		return exec_send(thr, qp, req, &r);
	case SHCA_OP_SEND_INV:
		return exec_send_inv(thr, qp, req, &r);
	case SHCA_OP_READ:
		return exec_read(thr, qp, req, &r);
	case SHCA_OP_CAS:
	case SHCA_OP_FAA:
	case SHCA_OP_MASKED_CAS:
	case SHCA_OP_MASKED_FAA:
	case SHCA_OP_ATOMIC_WRITE:
		return shca_exec_atomic(thr, qp, req, &r);
	default:
		return IBV_WC_LOC_QP_OP_ERR;
	}
}

/* Runs a request that has no responder, or whose receivers the flows name. */
static __attribute__((noinline)) int exec_local(struct shca_thread *thr, struct shca_qp *qp, const struct shca_req *req)
{
	switch (req->op) {
	case SHCA_OP_NOP:
		return IBV_WC_SUCCESS;
	case SHCA_OP_LOCAL_INV:
		return shca_window_local_inv(thr, qp, req->imm);
	case SHCA_OP_BIND_MW:
		return shca_window_bind(thr, qp, req);
	case SHCA_OP_UMR:
		return shca_mkey_configure(thr, qp, req);
	case SHCA_OP_FRAME:
		return exec_frame(thr, qp, req);
	default:
		return IBV_WC_LOC_QP_OP_ERR;
	}
}

static bool answered_here(const struct shca_req *req)
{
	return req->op >= SHCA_OP_READ && req->op <= SHCA_OP_MASKED_FAA;
}

/* Carries a request out as its fate is. By shca_exec: a second caller would make the compiler give the functions below a call of
 * their own on the ordinary path. */
static int exec_fate(struct shca_thread *thr, struct shca_qp *qp, const struct shca_req *req, enum shca_fate fate)
{
	switch (fate) {
	case SHCA_FATE_DROP:
		/* outcome() makes SUCCESS of a UC request's */
		return shca_is_datagram(qp) ? IBV_WC_SUCCESS : shca_nobody(qp);
	case SHCA_FATE_DELAY:
		return shca_nobody(qp);
	case SHCA_FATE_RNR:
		qp->step_rq = 0;	/* waits on no receive queue's list */
		return SHCA_RNR;
	default:
		break;
	}
	int rc = shca_exec(thr, qp, req);
	if (fate == SHCA_FATE_DUP && shca_is_datagram(qp) && rc == IBV_WC_SUCCESS) {
		shca_step_to(qp, SHCA_STEP_NONE);
		rc = shca_exec(thr, qp, req);
	}
	return rc;
}

/* Runs a request while the tap is on (struct shca_tap). The look-ups inside go past the tap. A successor of a dead executor
 * continues: the fate was decided. */
static __attribute__((noinline, cold)) int exec_tapped(struct shca_thread *thr, struct shca_qp *qp, const struct shca_req *req)
{
	bool begun = shca_step_of(qp) != SHCA_STEP_NONE, held = false;
	enum shca_fate fate = begun ? SHCA_FATE_NONE : shca_fate(thr, qp, &held);
	bool traced = !held && fate != SHCA_FATE_DELAY && shca_traced(thr, qp, req);
	struct shca_trace_record rec;

	if (traced) {
		shca_trace_begin(thr, qp, req, &rec);
		/* before the request runs: then its memory may be used again */
		if (!answered_here(req))
			shca_trace_keep(thr, qp, req, &rec);
	}
	thr->tapped = true;
	int rc = exec_fate(thr, qp, req, fate);
	thr->tapped = false;
	if (traced) {
		if (answered_here(req) && rc == IBV_WC_SUCCESS)
			shca_trace_keep(thr, qp, req, &rec);
		shca_trace_put(thr, &rec, fate, rc);
	}
	return rc;
}

static int run_request(struct shca_thread *thr, struct shca_qp *qp, const struct shca_req *req)
{
	if (qp->type == IBV_QPT_UD)
		return exec_datagram(thr, qp, req);
	if (unlikely(req->op >= SHCA_OP_NOP))
		return exec_local(thr, qp, req);
	if (unlikely(shca_step_of(qp) == SHCA_STEP_NAK))
		return shca_nak_again(thr, qp);
	return outcome(thr, qp, exec_connected(thr, qp, req));
}

/* Runs a request that was found bad at post: it completes with that status, unless its segments are of indirect memory keys. */
static __attribute__((noinline, cold)) int exec_bad(struct shca_thread *thr, struct shca_qp *qp, const struct shca_req *req)
{
	struct shca_req good = *req;

	if (req->bad != SHCA_BAD_KEYS)
		return req->bad;
	/* operands of CALC were read before, and not by such keys */
	if ((req->flags & SHCA_WQE_CALC && req->op != SHCA_OP_READ) ||
	    !shca_mkey_segs(thr->m, qp->proc, qp->pd, req->sge, req->nsge))
		return IBV_WC_LOC_PROT_ERR;
	if (req->len > 1u << 30)
		return IBV_WC_LOC_LEN_ERR;
	good.bad = 0;
	return shca_exec(thr, qp, &good);
}

int shca_exec(struct shca_thread *thr, struct shca_qp *qp, const struct shca_req *req)
{
	if (unlikely(req->bad))
		return exec_bad(thr, qp, req);
	qp->step_op = req->op;
	SHCA_FAILPOINT(thr, "exec", qp, req->op);
	/* a caller with a wide epoch gets a wide epoch back: it may be walking a process's list */
	bool anywhere = thr->where == SHCA_ANYWHERE;
	int rc = run_request(thr, qp, req);
	if (anywhere)
		shca_epoch_widen(thr);
	return rc;
}

bool shca_complete_send(struct shca_thread *thr, struct shca_qp *qp, uint64_t pos, uint8_t op, int status, uint32_t bytes)
{
	struct shca_cq *cq = shca_at_checked(thr->m, qp->scq, sizeof(*cq));
	uint64_t w0 = shca_cqe_w0(op, (uint8_t)status, (uint32_t)pos, qp->qpn);
	bool there = false;

	if (likely(cq && shca_step_of(qp) != SHCA_STEP_SENT)) {
		there = shca_cq_complete(thr, qp, cq, SHCA_STEP_SENT, status, w0, bytes, status != IBV_WC_SUCCESS);
	} else if (cq && shca_cq_sound(thr->m, cq)) {
		int found = shca_cq_find(thr, cq, qp->step_cq, qp->qpn, (uint32_t)pos, false);
		/* the ring went round: an overwritten completion was polled, unless the CQ ignores overrun */
		if (found < 0)
			found = cq->flags & SHCA_CQ_IGNORE_OVERRUN || atomic_load(&qp->polled) > pos;
		if (found)
			shca_cq_notice_again(thr, cq);
		there = found || shca_cq_put(thr, cq, shca_cq_count(thr, cq), w0, bytes, status != IBV_WC_SUCCESS);
	}
	if (unlikely(!there))
		shca_qp_fail_once(thr, qp, IBV_EVENT_QP_FATAL);
	return there;
}
