/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which queue answers a request, and which memory the request may access: the only place that decides both. The general path
 * asks for each request (exec.c). Fast writes and short datagrams ask once and remember the answer (verbs/submit/fast_write.h,
 * datagram.c) until the process that gave the answer revokes something (shca_revoke); then they ask again.
 *
 * All functions are inline, so that each caller gets the variant for its constant arguments.
 */
#ifndef SHCA_ACCESS_H
#define SHCA_ACCESS_H

#include "shca/engine/path.h"

/* ---- memory ---------------------------------------------------------------------------------------------------- */

/* Returns whether [addr, addr + len) lies in the `bytes` bytes from lo on. An address below lo counts as a large distance. */
static inline bool shca_within(uint64_t lo, uint64_t bytes, uint64_t addr, uint64_t len)
{
	return len <= bytes && addr - lo <= bytes - len;
}

/* Returns whether this key is the region's, and grants all of these rights (IBV_ACCESS_*) to a user in protection domain pd. */
static inline bool shca_opens(const struct shca_mr *mr, uint32_t key, uint32_t pd, uint32_t rights)
{
	return likely(atomic_load_explicit(&mr->key, memory_order_acquire) == key && mr->pd == pd &&
		      (mr->access & rights) == rights);
}

/* Returns the region that a key opens to such a user; NULL: refused. */
static inline struct shca_mr *shca_region(const struct shca_member *m, uint32_t key, uint32_t pd, uint32_t rights)
{
	struct shca_mr *mr = shca_mr_entry(m, key >> 8);

	return likely(mr && shca_opens(mr, key, pd, rights)) ? mr : NULL;
}

/* I7: the process whose memory the region is. */
static inline uint32_t shca_region_owner(const struct shca_mr *mr)
{
	return mr->proc & (SHCA_MAX_PROCS - 1);
}

/* window.c. Returns the memory window that is bound under this R_Key, or the indirect memory key, that grants these rights to a
 * user in protection domain pd and is open to requests by queue pair qpn; NULL: refused. */
struct shca_mr *shca_window_find(const struct shca_member *m, uint32_t rkey, uint32_t pd, uint32_t qpn, uint32_t rights);

/* Returns whether this is the key of the region, or the R_Key of the memory window, which is bound. */
static inline bool shca_key_stands(const struct shca_mr *mr, uint32_t key)
{
	return likely(atomic_load_explicit(&mr->key, memory_order_acquire) == key) ||
	       atomic_load_explicit(&mr->bound, memory_order_acquire) == key;
}

/* Resolves [addr, addr + len) of a region. Returns false if that is beyond the region's bounds. */
static inline bool shca_region_at(const struct shca_member *m, const struct shca_mr *mr, uint64_t addr, uint64_t len,
				  struct shca_seg *seg)
{
	seg->len = (uint32_t)len;
	if (mr->implicit) {
		shca_resolve_private(m, mr->proc, addr, len, seg);
		return true;
	}
	if (!shca_within(mr->iova, mr->length, addr, len))
		return false;
	seg->where = mr->where + (addr - mr->iova);
	seg->lane = mr->lane;
	return true;
}

/* I7: returns whether a region of another process can be where the entry says. (For an implicit region shca_copy checks the
 * resolved address, and so does exec_atomic.) */
static inline bool shca_region_sound(const struct shca_member *m, const struct shca_mr *mr)
{
	if (mr->lane == SHCA_LANE_ARENA && !mr->implicit)
		return shca_fits(m, mr->where, mr->length);
	return shca_owned(m, mr, mr->proc);
}

/* ---- the responder ----------------------------------------------------------------------------------------------- */

/* Destination of a request of a queue that has no connection, or whose connection leads to several receive queues. The fields
 * are named as the request's. */
struct shca_address {
	uint32_t dqpn;			/* UD, DC: destination (DC: SHCA_DC_TO_2, too); XRC: remote SRQ number */
	uint32_t qkey;			/* UD */
	uint64_t dc_key;		/* DC */
	const uint64_t *ud;		/* UD: SHCA_UD_PATH */
};

/* The responder of a request. */
struct shca_responder {
	struct shca_qp *qp;
	struct shca_rq *rq;		/* of its receives; NULL: none */
	struct shca_cq *rcq;
	uint32_t number;		/* the number in completions */
	uint32_t pd;			/* domain of the memory that the request may access */
};

static inline bool shca_connected(uint8_t type)
{
	return likely(type == IBV_QPT_RC) || type == IBV_QPT_UC || type == IBV_QPT_XRC_SEND;
}

/* Returns whether queue `to` takes requests of qp. */
static inline bool shca_answers(const struct shca_qp *qp, const struct shca_qp *to, const struct shca_address *a)
{
	if (likely(qp->type == IBV_QPT_RC))
		return to->type == IBV_QPT_RC && to->dest_qpn == qp->qpn;
	switch (qp->type) {
	case IBV_QPT_UC:
		return to->type == IBV_QPT_UC && to->dest_qpn == qp->qpn;
	case IBV_QPT_XRC_SEND:
		return to->type == IBV_QPT_XRC_RECV && to->dest_qpn == qp->qpn;
	case IBV_QPT_UD:
		/* IBTA 10.2.5: a Q_Key with the high bit set stands for the queue's own */
		return to->type == IBV_QPT_UD && to->qkey == (a->qkey >> 31 ? qp->qkey : a->qkey);
	case SHCA_QPT_DCI:
		return to->type == SHCA_QPT_DCT && to->dc_key == a->dc_key;
	default:
		return false;
	}
}

/* The status of a request without a responder: the responder's process has just died, or the queue is not ready. Returns
 * SHCA_NOPEER until peer_dead is set, then IBV_WC_RETRY_EXC_ERR. */
static inline int shca_nobody(const struct shca_qp *qp)
{
	return atomic_load_explicit(&qp->peer_dead, memory_order_relaxed) ? IBV_WC_RETRY_EXC_ERR : SHCA_NOPEER;
}

/* The status of a refusal: the responder lacks an object that the request needs. If the responder's process has died the reaper
 * may have removed the object. The reaper closes the gates first (reap.c), so the gate tells a death, which is no refusal. */
static inline int shca_refusal(const struct shca_qp *to, int status)
{
	return atomic_load_explicit(&to->gate, memory_order_acquire) & SHCA_GATE_DEAD ? IBV_WC_RETRY_EXC_ERR : status;
}

/* Finds the responder of qp's request. Returns 0, SHCA_NOPEER, SHCA_TAP, or the status with which the request fails. */
static inline __attribute__((always_inline)) int shca_responder_find(struct shca_thread *thr, struct shca_qp *qp,
								     const struct shca_address *a, struct shca_responder *r)
{
	/* (ud is a constant of each caller; requests without a connection and without ud are DC ones: their number has the
	 * port's bit) */
	uint32_t number = shca_connected(qp->type) ? qp->dest_qpn : a->ud ? a->dqpn : a->dqpn & SHCA_QPN_MASK;

	/* a number may be any process's, unless it is still the connected peer's */
	if (!shca_connected(qp->type))
		shca_epoch_widen(thr);
	struct shca_qp *to = shca_number_get(thr->m, number, SHCA_KIND_QP);
	if (unlikely(!to))
		return shca_nobody(qp);
	if (unlikely(thr->where != SHCA_ANYWHERE && thr->where != shca_epoch_of(to->proc))) {
		shca_epoch_widen(thr);
		to = shca_number_get(thr->m, number, SHCA_KIND_QP);
		if (!to)
			return shca_nobody(qp);
	}
	uint32_t gate = atomic_load_explicit(&to->gate, memory_order_acquire);
	if (unlikely(!(gate & SHCA_GATE_RESPOND)))
		return gate & SHCA_GATE_DEAD ? IBV_WC_RETRY_EXC_ERR : shca_nobody(qp);
	if (!shca_answers(qp, to, a))
		return shca_nobody(qp);
	uint32_t slot = to->proc & (SHCA_MAX_PROCS - 1);	/* I7 */
	if (shca_proc_unwell(thr->m, slot)) {
		if (shca_proc_dying(thr->m, slot)) {
			shca_look(thr->m);
			return IBV_WC_RETRY_EXC_ERR;
		}
		/* a port that is down may come up: no answer meanwhile */
		if (shca_proc_by_path(thr->m, slot) && !shca_path_leads(thr, qp, to, a))
			return shca_nobody(qp);
		if (shca_proc_tapped(thr->m, slot) && !thr->tapped)
			return SHCA_TAP;
	}
	if (unlikely(gate & SHCA_GATE_FIRST))
		shca_first_message(thr, to);
	if (unlikely(!qp->peer_proc) && shca_connected(qp->type))
		shca_peer_known(thr, qp, to);
	r->qp = to;
	r->number = to->qpn;
	r->pd = to->pd;
	if (qp->type == IBV_QPT_XRC_SEND) {
		/* an XRC responder has no domain of its own. The domain is that of the SRQ that each request names; the SRQ and
		 * the memory may be a third process's. */
		shca_epoch_widen(thr);
		const struct shca_rq *srq = shca_number_get(thr->m, a->dqpn, SHCA_KIND_SRQ);
		if (!srq || srq->xrcd != to->xrcd)
			return shca_refusal(to, IBV_WC_REM_INV_REQ_ERR);
		r->pd = srq->pd;
	}
	return 0;
}

/* Finds the receive queue and CQ for a request that consumes a receive. Returns 0, or the status of a refusal. */
static inline __attribute__((always_inline)) int shca_responder_receives(struct shca_thread *thr, const struct shca_qp *qp,
								       const struct shca_address *a, struct shca_responder *r)
{
	if (qp->type == IBV_QPT_XRC_SEND) {
		r->rq = shca_number_get(thr->m, a->dqpn, SHCA_KIND_SRQ);
		if (!r->rq || r->rq->xrcd != r->qp->xrcd || !r->rq->cq || atomic_load(&r->rq->dead) ||
		    !shca_rq_sound(thr->m, r->rq))
			return IBV_WC_REM_INV_REQ_ERR;
		r->rcq = shca_at_checked(thr->m, r->rq->cq, sizeof(*r->rcq));
		r->number = r->rq->number;
		return r->rcq && r->rcq->proc == r->rq->proc ? 0 : IBV_WC_REM_INV_REQ_ERR;
	}
	const struct shca_qp *to = r->qp;
	struct shca_rq *rq = shca_rq_at(thr->m, to->rq);
	struct shca_cq *rcq = shca_at_checked(thr->m, to->rcq, sizeof(*rcq));

	r->rq = rq;
	r->rcq = rcq;
	/* I7: both must belong to the owner of the responder's queue */
	return likely(rq && rcq && rq->proc == to->proc && rcq->proc == to->proc) ? 0 : IBV_WC_REM_INV_REQ_ERR;
}

/* Returns the region of this key, or the memory window that is bound under it, if the responder's queue grants these rights
 * as well; NULL: refused. */
static inline struct shca_mr *shca_responder_region(const struct shca_member *m, const struct shca_responder *r, uint32_t rkey,
						    uint32_t rights)
{
	struct shca_mr *mr;

	if (unlikely((r->qp->access & rights) != rights))
		return NULL;
	mr = shca_region(m, rkey, r->pd, rights);
	/* behind the region, so that a region's key costs nothing more */
	return likely(mr) ? mr : shca_window_find(m, rkey, r->pd, r->qp->qpn, rights);
}

#endif
