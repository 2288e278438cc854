/* SPDX-License-Identifier: BSD-3-Clause */
/* Common queue pairs: their holders, and recovery from a holder's death (common.h has the invariant). */
#include <sched.h>
#include <time.h>

#include "shca/engine/common.h"

#define THREAD(w) (((w) & 0xffffff) - 1)
#define JOB(w) ((enum shca_common_job)((w) >> 24))

#define for_each_common(m, c)                                                                                       \
	for (struct { struct shca_common_walk w; struct shca_common_qp *at; } walk_ = {{0}, NULL};                  \
	     (walk_.at = shca_common_next(m, &walk_.w)) != NULL;)                                                   \
		for (struct shca_common_qp *c = walk_.at; c; c = NULL)
#define for_each_holder(c, h)                                                                                       \
	for (__typeof__((c)->holder[0]) *h = (c)->holder; h < (c)->holder + SHCA_COMMON_HOLDERS; h++)

static uint32_t common_lock_word(const struct shca_thread *thr, enum shca_common_job job)
{
	return (thr->slot + 1) | (uint32_t)job << 24;
}

static bool try_lock(struct shca_thread *thr, struct shca_common_qp *c, enum shca_common_job job)
{
	uint32_t none = 0;

	return atomic_compare_exchange_strong(&c->lock, &none, common_lock_word(thr, job));
}

static bool is_held_beside(const struct shca_common_qp *c, const _Atomic uint64_t *mine)
{
	for_each_holder(c, h)
		if (h != mine && atomic_load(h))
			return true;
	return false;
}

static bool is_held(const struct shca_common_qp *c)
{
	return is_held_beside(c, NULL);
}

/* Waits a round for the lock. The holder may be stopped, or dead. */
static void common_wait_for(struct shca_thread *thr, const struct shca_common_qp *c, uint32_t round)
{
	uint32_t w = atomic_load(&c->lock);

	if (w && !(round & 0x3ff)) {
		uint32_t owner = shca_thread_owner(thr->m, THREAD(w));
		if (owner && shca_proc_gone(thr->m, owner - 1)) {
			/* a virtual process has no threads but these */
			if (thr->m->virtual_process)
				shca_reap(thr, owner - 1);
			else
				shca_look(thr->m);
		}
	}
	if (round < 2000) {
		sched_yield();
	} else {
		struct timespec t = {0, 200000};
		nanosleep(&t, NULL);
	}
}

void shca_common_lock(struct shca_thread *thr, struct shca_common_qp *c)
{
	for (uint32_t round = 1; !try_lock(thr, c, SHCA_JOB_NONE); round++)
		common_wait_for(thr, c, round);
}

void shca_common_job(struct shca_common_qp *c, enum shca_common_job job)
{
	atomic_store(&c->lock, (atomic_load(&c->lock) & 0xffffff) | (uint32_t)job << 24);
}

struct shca_common_qp *shca_common_find(struct shca_thread *thr, uint32_t number)
{
	for (uint32_t round = 1;; round++) {
		/* inside: the number may be any queue pair's, of a process that destroys it just now */
		shca_enter(thr);
		struct shca_qp *qp = shca_number_get(thr->m, number, SHCA_KIND_QP);
		bool common = qp && shca_is_common(thr->m, qp);
		bool locked = common && try_lock(thr, shca_common_of(qp), SHCA_JOB_NONE);
		/* between the look and the lock the queue pair may have ended, and another queue pair may have the place */
		bool same = locked && shca_number_get(thr->m, number, SHCA_KIND_QP) == qp;
		shca_leave(thr);
		if (!common)
			return NULL;
		struct shca_common_qp *c = shca_common_of(qp);
		if (same && is_held(c))
			return c;
		if (locked)
			shca_common_unlock(thr, c);
		else
			common_wait_for(thr, c, round);
	}
}

_Atomic uint64_t *shca_common_hold(struct shca_thread *thr, struct shca_common_qp *c)
{
	for_each_holder(c, h) {
		uint64_t none = 0;
		if (!atomic_load(h) && atomic_compare_exchange_strong(h, &none, thr->m->slot + 1u))
			return h;
	}
	return NULL;
}

void shca_common_revoke(const struct shca_member *m, const struct shca_common_qp *c)
{
	uint32_t high = atomic_load(&m->hdr->proc_high);

	if (c->qp.proc != SHCA_COMMON) {
		shca_revoke(m, c->qp.proc);
		return;
	}
	/* an rkey cache entry that was found through c may be of any process with shared receive queues in the domain */
	for (uint32_t p = 0; p < high; p++)
		shca_revoke(m, p);
}

void shca_common_quiesce(struct shca_thread *thr, const struct shca_common_qp *c)
{
	/* everybody: the epoch of a fast write is only the process whose region it writes to */
	shca_quiesce(thr, c->qp.proc == SHCA_COMMON ? SHCA_EVERYBODY : c->qp.proc);
}

void shca_common_clear(struct shca_common_qp *c)
{
	c->qp.dest_qpn = c->qp.peer_proc = 0;
	atomic_store(&c->qp.peer_dead, 0);
	c->qp.access = 0;
	c->qp.mtu = 4096;
	memset(c->attr, 0, sizeof(c->attr));
	atomic_store(&c->qp.qp_state, IBV_QPS_RESET);
}

void shca_common_watch(struct shca_thread *thr, const struct shca_qp *qp)
{
	const struct shca_common_qp *c = (const struct shca_common_qp *)qp;

	for_each_holder(c, h) {
		uint32_t proc = (uint32_t)(atomic_load(h) & 0xffff);
		if (proc && proc - 1 != thr->m->slot)
			shca_watch(thr->m, proc - 1);
	}
}

void shca_common_event(struct shca_thread *thr, struct shca_common_qp *c, enum ibv_event_type event)
{
	for_each_holder(c, h) {
		uint64_t w = atomic_load(h);
		while (w && !atomic_compare_exchange_weak(h, &w, w | 1ull << event << 32))
			;
		if (w)
			shca_async_wake(thr, (uint32_t)(w & 0xffff) - 1);
	}
}

/* Ends the queue pair: no look-up finds it from here on. The place is free after a quiesce for threads that have found it. gate:
 * SHCA_GATE_DEAD: the holders died; 0: destroyed, and so just silent. Must: the caller has the lock; there is no holder. */
static void common_end(struct shca_thread *thr, struct shca_common_qp *c, uint32_t gate)
{
	shca_common_job(c, SHCA_JOB_END);
	SHCA_FAILPOINT(thr, "common-end", NULL, 0);
	atomic_store(&c->qp.gate, gate);
	shca_number_set(thr->m, c->qp.qpn, SHCA_KIND_NONE, 0);
	shca_common_revoke(thr->m, c);
	SHCA_FAILPOINT(thr, "common-ended", NULL, 0);
}

/* Fails the requester, as for the death of any peer: all holders have died. */
static void tell_requester(struct shca_thread *thr, struct shca_common_qp *c)
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

static void common_put(struct shca_thread *thr, struct shca_common_qp *c)
{
	/* type 0: the maker died first, so the place holds no queue pair yet */
	if (c->qp.type)
		shca_account(thr->m, &c->qp);
	shca_common_put(c);
}

/* Gives the lock up. Returns true if there is no holder any more: then this thread has the lock, for the end. */
static bool unlock_unless_last(struct shca_thread *thr, struct shca_common_qp *c)
{
	do {
		/* qpn 0: the queue pair has ended meanwhile; the place has no holder, too */
		if (c->qp.qpn && !is_held(c))
			return true;
		atomic_store(&c->lock, 0);
		SHCA_FAILPOINT(thr, "common-unlocked", NULL, 0);
	} while (c->qp.qpn && !is_held(c) && try_lock(thr, c, SHCA_JOB_NONE));
	return false;
}

/* Gives the lock up, and ends the queue pair if there is no holder. gate: see common_end. */
static void common_give_up(struct shca_thread *thr, struct shca_common_qp *c, uint32_t gate)
{
	if (!unlock_unless_last(thr, c))
		return;
	common_end(thr, c, gate);
	if (gate & SHCA_GATE_DEAD) {
		shca_enter(thr);
		tell_requester(thr, c);
		shca_leave(thr);
	}
	shca_common_quiesce(thr, c);
	common_put(thr, c);
}

void shca_common_unlock(struct shca_thread *thr, struct shca_common_qp *c)
{
	/* The caller has taken no holder out. So if there is none, a reaper took the last one out, found the lock taken and did
	 * not come back. */
	common_give_up(thr, c, SHCA_GATE_DEAD);
}

bool shca_common_part(struct shca_thread *thr, struct shca_common_qp *c, _Atomic uint64_t *holder)
{
	/* no handle is added while the lock is held: a holder that goes meanwhile has died */
	bool last = !is_held_beside(c, holder);

	SHCA_FAILPOINT(thr, "common-leaving", NULL, 0);
	bool unread = atomic_exchange(holder, 0) >> 32 != 0;
	SHCA_FAILPOINT(thr, "common-left", NULL, 0);
	common_give_up(thr, c, last ? 0 : SHCA_GATE_DEAD);
	return unread;
}

void shca_commons_break(struct shca_thread *thr)
{
	for_each_common(thr->m, c)
		if (shca_is_common(thr->m, &c->qp) && atomic_load(&c->qp.qp_state) != IBV_QPS_RESET && atomic_load(&c->qp.qp_state) != IBV_QPS_ERR) {
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
	if (!unlock_unless_last(thr, c))
		return;
	c->ended_by = slot + 1;
	common_end(thr, c, SHCA_GATE_DEAD);
	tell_requester(thr, c);
}

/* Returns whether this thread has the lock now: from no thread, if there is no holder, or from a thread of the dead process. */
static bool common_inherit(struct shca_thread *thr, struct shca_common_qp *c, uint32_t slot)
{
	uint32_t w = atomic_load(&c->lock);

	if (!w)
		return c->qp.qpn && !is_held(c) && try_lock(thr, c, SHCA_JOB_NONE);
	if (shca_thread_owner(thr->m, THREAD(w)) != slot + 1 ||
	    !atomic_compare_exchange_strong(&c->lock, &w, common_lock_word(thr, JOB(w))))
		return false;
	if (is_held(c))
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
		if ((c->qp.peer_proc & 0xffff) != slot + 1 || atomic_load(&c->qp.peer_dead) || !is_held(c))
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
			common_put(thr, c);
		else
			atomic_store(&c->lock, 0);
	}
}
