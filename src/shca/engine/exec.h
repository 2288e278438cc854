/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The parts of a request's run that have files of their own: nak.c (failures of the responder, receives that are given back) and
 * exec_atomic.c. Only exec.c and these include this header. Every function runs as the executor of `qp` (I1).
 */
#ifndef SHCA_EXEC_H
#define SHCA_EXEC_H

#include "shca/engine/access.h"
#include "shca/engine/mkey.h"

/* Resolves [raddr, raddr + len) with these rights. word: NULL; of an atomic, whose bytes lie in one run of an indirect memory
 * key: the region of that run. Returns the region, the memory window or the indirect memory key of rkey; NULL:
 * IBV_WC_REM_ACCESS_ERR. */
static inline __attribute__((always_inline)) const struct shca_mr *shca_resolve_remote(
	struct shca_thread *thr, const struct shca_responder *r, uint32_t rkey, uint64_t raddr, uint64_t len, uint32_t rights,
	struct shca_seg *seg, struct shca_ground *word)
{
	const struct shca_mr *mr = shca_responder_region(thr->m, r, rkey, rights);

	if (unlikely(!mr) || !shca_region_at(thr->m, mr, raddr, len, seg) || !shca_region_sound(thr->m, mr))
		return shca_resolve_key(thr, mr, raddr, len, seg, word);
	return mr;
}

/* nak.c. Fails the request in the name of the responder, and puts the responder's queue in error, as class-C errors do (IBTA
 * 9.9.3). Returns the requester's status. */
int shca_nak(struct shca_thread *thr, struct shca_qp *qp, struct shca_responder *r, enum ibv_event_type event,
	     int requester_status);

/* The responder's completion found no room: its CQ is in error, the message is lost, and the responder's queue fails (not an XRC
 * responder's). */
int shca_completion_lost(struct shca_thread *thr, struct shca_qp *qp, struct shca_responder *r);

/* Repeats the failure of the responder for an executor that died in shca_nak. */
int shca_nak_again(struct shca_thread *thr, struct shca_qp *qp);

/* Returns whether the completion of the taken receive appeared. Must: the request is at step SHCA_STEP_RCQE. */
bool shca_receive_completed(struct shca_thread *thr, struct shca_qp *qp, struct shca_rq *rq, struct shca_cq *cq);

/* Runs an atomic, or an ATOMIC_WRITE (exec_atomic.c). Returns as shca_exec. */
int shca_exec_atomic(struct shca_thread *thr, struct shca_qp *qp, const struct shca_req *req, struct shca_responder *r);

#endif
