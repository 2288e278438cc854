/* SPDX-License-Identifier: BSD-3-Clause */
/* Failures of a request in the name of its responder, and the receive that the request has taken. */
#include "shca/engine/exec.h"

bool shca_receive_completed(struct shca_thread *thr, struct shca_qp *qp, struct shca_rq *rq, struct shca_cq *cq)
{
	int found = shca_cq_find(thr, cq, qp->step_cq, qp->step_to, qp->step_index, true);

	if (found >= 0)
		return found;
	/* The ring went round since. A completion is overwritten only after it was polled, and polling frees the receive.
	 * With SHCA_CQ_IGNORE_OVERRUN completions need not be polled; a lost completion is better than a receive that is
	 * used twice. */
	return cq->flags & SHCA_CQ_IGNORE_OVERRUN || !shca_rq_taken_at(thr, rq, qp->step_index, qp->step_pos, qp->qpn);
}

void shca_release_receive(struct shca_thread *thr, struct shca_qp *qp)
{
	uint32_t step = shca_step_of(qp);
	struct shca_qp *to = NULL;
	struct shca_rq *rq;
	struct shca_cq *cq = NULL;

	if (step != SHCA_STEP_TAKE && step != SHCA_STEP_RECV && step != SHCA_STEP_INV && step != SHCA_STEP_RCQE)
		return;
	shca_epoch_widen(thr);
	if (qp->type == IBV_QPT_XRC_SEND) {
		rq = shca_number_get(thr->m, qp->step_to, SHCA_KIND_SRQ);
		if (rq && !shca_rq_sound(thr->m, rq))
			return;
		if (rq)
			cq = shca_cq_at(thr->m, rq->cq);
	} else {
		to = shca_number_get(thr->m, qp->step_to, SHCA_KIND_QP);
		rq = to ? shca_rq_at(thr->m, to->rq) : NULL;
		if (to)
			cq = shca_cq_at(thr->m, to->rcq);
	}
	if (!rq || !cq || shca_off_of(thr->m, rq) != qp->step_rq)
		return;
	if (step == SHCA_STEP_RCQE && shca_receive_completed(thr, qp, rq, cq)) {
		shca_cq_notice_again(thr, cq);
		return;
	}
	if (!to || rq->is_srq || shca_is_datagram(qp)) {
		shca_rq_return(thr, rq, qp->step_index, qp->step_pos, qp->qpn);
		return;
	}
	/* Counted before the handover: if this thread dies behind the handover, a later flusher still looks. Counted again
	 * behind the handover: a flusher that runs now may have looked in between. */
	atomic_fetch_add(&to->flushing, SHCA_FLUSH_GIVEN);
	if (!shca_rq_to_flusher(thr, rq, qp->step_index, qp->step_pos, qp->qpn))
		return;
	SHCA_FAILPOINT(thr, "given", qp, qp->step_op);
	atomic_fetch_add(&to->flushing, SHCA_FLUSH_GIVEN);
	shca_kick(thr, shca_off_of(thr->m, to));
}

int shca_nak(struct shca_thread *thr, struct shca_qp *qp, struct shca_responder *r, enum ibv_event_type event,
	       int requester_status)
{
	int status = shca_refusal(r->qp, requester_status);

	/* a DCT, an XRC or UD responder serves many requesters: only a connected queue breaks */
	if (r->qp->type != IBV_QPT_RC)
		return status;
	if (unlikely(status != requester_status)) {
		shca_release_receive(thr, qp);
		return status;
	}
	/* Journaled before: the responder will not answer a successor, which could not find the status again. A receive that the
	 * request still holds goes to the flusher, which begins when the queue fails. */
	shca_release_receive(thr, qp);
	qp->step_status = (uint8_t)requester_status;
	qp->step_to = r->qp->qpn;
	shca_step_to(qp, SHCA_STEP_NAK);
	SHCA_FAILPOINT(thr, "nak", qp, qp->step_op);
	shca_qp_fail_once(thr, r->qp, event);
	return requester_status;
}

int shca_completion_lost(struct shca_thread *thr, struct shca_qp *qp, struct shca_responder *r)
{
	if (r->qp->type == IBV_QPT_RC)
		return shca_nak(thr, qp, r, IBV_EVENT_QP_FATAL, IBV_WC_REM_OP_ERR);
	shca_release_receive(thr, qp);
	/* an XRC responder serves other receive queues as well: the full CQ's SRQ has its own event (shca_cq_fail_users) */
	if (r->qp->type != IBV_QPT_XRC_RECV)
		shca_qp_fail_once(thr, r->qp, IBV_EVENT_QP_FATAL);
	return IBV_WC_REM_OP_ERR;
}

int shca_nak_again(struct shca_thread *thr, struct shca_qp *qp)
{
	shca_epoch_widen(thr);
	struct shca_qp *to = shca_number_get(thr->m, qp->step_to, SHCA_KIND_QP);

	if (to && to->type == IBV_QPT_RC && to->dest_qpn == qp->qpn && !atomic_load(&to->fail))
		shca_qp_fatal(thr, to, IBV_EVENT_QP_FATAL);
	return qp->step_status;
}
