/* SPDX-License-Identifier: BSD-3-Clause */
/* Common queue pairs: their end, and recovery from a holder's death. */
#include "shca/engine/common_lock.h"

void shca_common_end(struct shca_thread *thr, struct shca_common_qp *c, uint32_t gate)
{
	shca_common_job(c, SHCA_JOB_END);
	SHCA_FAILPOINT(thr, "common-end", NULL, 0);
	atomic_store(&c->qp.gate, gate);
	shca_number_set(thr->m, c->qp.qpn, SHCA_KIND_NONE, 0);
	shca_common_revoke(thr->m, c);
	SHCA_FAILPOINT(thr, "common-ended", NULL, 0);
}

void shca_common_tell_requester(struct shca_thread *thr, struct shca_common_qp *c)
{
	struct shca_qp *from = shca_number_get(thr->m, c->qp.dest_qpn, SHCA_KIND_QP);

	/* (where only one process could hold the queue pair, the requester has watched that process) */
	if (c->qp.proc != SHCA_COMMON || !from || from->type != IBV_QPT_XRC_SEND || from->dest_qpn != c->qp.qpn ||
	    atomic_load(&from->peer_dead))
		return;
	SHCA_FAILPOINT(thr, "survivor", from, 0);
	shca_qp_event(thr, from, IBV_EVENT_QP_FATAL);
	atomic_store(&from->peer_dead, 1);
	shca_kick(thr, shca_off_of(thr->m, from));
	shca_drain(thr);
}

void shca_common_finish(struct shca_thread *thr, struct shca_common_qp *c)
{
	/* type 0: the maker died first, so the place holds no queue pair yet */
	if (c->qp.type)
		shca_account(thr->m, &c->qp);
	shca_common_put(c);
}

bool shca_common_unlock_unless_last(struct shca_thread *thr, struct shca_common_qp *c)
{
	do {
		/* qpn 0: the queue pair has ended meanwhile; the place has no holder, too */
		if (c->qp.qpn && !common_qp_is_held(c))
			return true;
		atomic_store(&c->lock, 0);
		SHCA_FAILPOINT(thr, "common-unlocked", NULL, 0);
	} while (c->qp.qpn && !common_qp_is_held(c) && try_lock(thr, c, SHCA_JOB_NONE));
	return false;
}

void shca_commons_break(struct shca_thread *thr)
{
	for_each_common(thr->m, c) {
		if (!shca_is_common(thr->m, &c->qp) || atomic_load(&c->qp.qp_state) == IBV_QPS_RESET ||
		    atomic_load(&c->qp.qp_state) == IBV_QPS_ERR)
			continue;
		shca_qp_failed(thr, &c->qp, IBV_WC_WR_FLUSH_ERR);
		shca_common_revoke(thr->m, c);
	}
}

/* ---- after a death ---------------------------------------------------------------------------------------------- */

/* Finishes the dead thread's job: a state is reached, or was never left. */
static void finish_job(struct shca_thread *thr, struct shca_common_qp *c, enum shca_common_job job)
{
	uint32_t state = atomic_load(&c->qp.qp_state);

	switch (job) {
	case SHCA_JOB_RESET:
		atomic_store(&c->qp.gate, 0);
		shca_common_revoke(thr->m, c);
		shca_common_clear(c);
		break;
	case SHCA_JOB_ERROR:
		atomic_store(&c->qp.gate, SHCA_GATE_ERR);
		shca_common_revoke(thr->m, c);
		atomic_store(&c->qp.qp_state, IBV_QPS_ERR);
		shca_common_event(thr, c, IBV_EVENT_QP_LAST_WQE_REACHED);
		break;
	default:
		if ((state == IBV_QPS_RTR || state == IBV_QPS_RTS) && !atomic_load(&c->qp.gate))
			atomic_store(&c->qp.gate, SHCA_GATE_RESPOND);
	}
}

/* Gives the lock up, and ends the queue pair if there is no holder, for the reaper of `slot`. Must: the caller has the lock. */
static void common_let_go(struct shca_thread *thr, struct shca_common_qp *c, uint32_t slot)
{
	if (!shca_common_unlock_unless_last(thr, c))
		return;
	c->ended_by = slot + 1;
	shca_common_end(thr, c, SHCA_GATE_DEAD);
	shca_common_tell_requester(thr, c);
}

/* Returns whether this thread has the lock now: from no thread, if there is no holder, or from a thread of the dead process. */
static bool common_inherit(struct shca_thread *thr, struct shca_common_qp *c, uint32_t slot)
{
	uint32_t w = atomic_load(&c->lock);

	if (!w)
		return c->qp.qpn && !common_qp_is_held(c) && try_lock(thr, c, SHCA_JOB_NONE);
	if (shca_thread_owner(thr->m, THREAD(w)) != slot + 1 ||
	    !atomic_compare_exchange_strong(&c->lock, &w, common_lock_word(thr, JOB(w))))
		return false;
	if (common_qp_is_held(c))
		finish_job(thr, c, JOB(w));
	return true;
}

void shca_commons_release(struct shca_thread *thr, uint32_t slot)
{
	for_each_common(thr->m, c) {
		for_each_holder(c, h)
			if ((atomic_load(h) & 0xffff) == slot + 1)
				atomic_store(h, 0);
		SHCA_FAILPOINT(thr, "common-released", NULL, 0);
		if (common_inherit(thr, c, slot))
			common_let_go(thr, c, slot);
	}
}

bool shca_commons_fail(struct shca_thread *thr, uint32_t slot)
{
	bool all = true;

	for_each_common(thr->m, c) {
		/* queue pairs without a holder have ended: the reaper that ended them keeps the locks for a while */
		if ((c->qp.peer_proc & 0xffff) != slot + 1 || atomic_load(&c->qp.peer_dead) || !common_qp_is_held(c))
			continue;
		if (!try_lock(thr, c, SHCA_JOB_NONE)) {
			all = false;
			continue;
		}
		if ((c->qp.peer_proc & 0xffff) == slot + 1 && !(atomic_load(&c->qp.gate) & SHCA_GATE_ERR)) {
			/* event first: if this thread dies in between, its successor raises the event again */
			shca_common_event(thr, c, IBV_EVENT_QP_FATAL);
			atomic_store(&c->qp.gate, SHCA_GATE_ERR);
			shca_common_revoke(thr->m, c);
			atomic_store(&c->qp.peer_dead, 1);
		}
		common_let_go(thr, c, slot);
	}
	return all;
}

void shca_commons_wake(struct shca_thread *thr)
{
	for_each_common(thr->m, c)
		for_each_holder(c, h) {
			uint64_t w = atomic_load(h);
			if (w >> 32)
				shca_async_wake(thr, (uint32_t)(w & 0xffff) - 1);
		}
}

static bool common_ended(struct shca_thread *thr, const struct shca_common_qp *c, uint32_t slot)
{
	uint32_t w = atomic_load(&c->lock);

	return w && THREAD(w) == thr->slot && c->ended_by == slot + 1;
}

bool shca_commons_ended(struct shca_thread *thr, uint32_t slot)
{
	for_each_common(thr->m, c)
		if (common_ended(thr, c, slot))
			return true;
	return false;
}

void shca_commons_free(struct shca_thread *thr, uint32_t slot, bool done)
{
	for_each_common(thr->m, c) {
		if (!common_ended(thr, c, slot))
			continue;
		c->ended_by = 0;
		if (done)
			shca_common_finish(thr, c);
		else
			atomic_store(&c->lock, 0);
	}
}
