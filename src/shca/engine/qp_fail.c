/* SPDX-License-Identifier: BSD-3-Clause */
/* Events and failure of a queue pair, and its record of the peer. */
#include "shca/engine/common.h"

void shca_qp_event(struct shca_thread *thr, struct shca_qp *qp, enum ibv_event_type event)
{
	if (unlikely(shca_is_common(thr->m, qp))) {
		shca_common_event(thr, shca_common_of(qp), event);
		return;
	}
	atomic_fetch_or(&qp->events, 1u << event);
	shca_async_wake(thr, qp->proc);
}

void shca_qp_failed(struct shca_thread *thr, struct shca_qp *qp, int status)
{
	uint16_t none = 0;

	if (status != IBV_WC_WR_FLUSH_ERR)
		shca_hw_count(thr->m, qp, SHCA_HW_REQ_CQE_ERROR);
	/* atomic or: a reaper may be setting SHCA_GATE_DEAD */
	atomic_fetch_or(&qp->gate, SHCA_GATE_ERR);
	atomic_fetch_and(&qp->gate, ~SHCA_GATE_RESPOND);
	shca_revoke(thr->m, qp->proc);
	atomic_store(&qp->qp_state, IBV_QPS_ERR);
	SHCA_FAILPOINT(thr, "half-failed", qp, 0);
	/* Last: a queue with `fail` set is not failed again. If this thread dies before, a successor fails the queue by the
	 * request's journal, or the queue's peer has died and shca_reap fails it (survivors in reap.c). */
	atomic_compare_exchange_strong(&qp->fail, &none, (uint16_t)(status + 1));
	/* pairs with the light fence of shca_rq_post, behind which the poster asks shca_flushes */
	shca_heavy_fence(thr->m);
}

void shca_qp_fatal(struct shca_thread *thr, struct shca_qp *qp, enum ibv_event_type event)
{
	/* event first: a queue that has failed without the event would never get the event */
	shca_qp_event(thr, qp, event);
	SHCA_FAILPOINT(thr, "fatal", qp, 0);
	shca_qp_failed(thr, qp, IBV_WC_WR_FLUSH_ERR);
	shca_kick(thr, shca_off_of(thr->m, qp));
}

void shca_qp_fail_once(struct shca_thread *thr, struct shca_qp *qp, enum ibv_event_type event)
{
	if (!atomic_load(&qp->fail))
		shca_qp_fatal(thr, qp, event);
}

void shca_first_message(struct shca_thread *thr, struct shca_qp *qp)
{
	/* Event first: if this thread dies in between, a successor raises the event again. Only the executor of the one
	 * requester comes here. */
	shca_qp_event(thr, qp, IBV_EVENT_COMM_EST);
	SHCA_FAILPOINT(thr, "first-message", qp, 0);
	atomic_fetch_and(&qp->gate, ~SHCA_GATE_FIRST);
}

void shca_peer_known(struct shca_thread *thr, struct shca_qp *qp, const struct shca_qp *peer)
{
	/* Only the owner can watch, and get the event; for a common queue pair, the process that connects it. */
	if (qp->proc != thr->m->slot && !shca_is_common(thr->m, qp))
		return;
	if (peer->proc == SHCA_COMMON && shca_is_common(thr->m, peer)) {
		qp->peer_proc = SHCA_PEER_COMMON;
		shca_common_watch(thr, peer);
		return;
	}
	/* I7: by the chunk's owner. With a wrong peer->proc the peer's death would go unnoticed. */
	uint32_t slot = shca_owner(thr->m, peer) - 1;
	if (slot >= SHCA_COMMON)
		return;
	qp->peer_proc = (slot + 1) | atomic_load(&thr->m->procs[slot].gen) << 16;
	if (slot != thr->m->slot)
		shca_watch(thr->m, slot);
}
