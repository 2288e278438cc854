/* SPDX-License-Identifier: BSD-3-Clause */
/* Common queue pairs: the lock, taken and given up (common.h has the invariant). */
#include <sched.h>
#include <time.h>

#include "shca/engine/common_lock.h"

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
		if (same && common_qp_is_held(c))
			return c;
		if (locked)
			shca_common_unlock(thr, c);
		else
			common_wait_for(thr, c, round);
	}
}

/* Gives the lock up, and ends the queue pair if there is no holder. gate: see shca_common_end. */
static void common_give_up(struct shca_thread *thr, struct shca_common_qp *c, uint32_t gate)
{
	if (!shca_common_unlock_unless_last(thr, c))
		return;
	shca_common_end(thr, c, gate);
	if (gate & SHCA_GATE_DEAD) {
		shca_enter(thr);
		shca_common_tell_requester(thr, c);
		shca_leave(thr);
	}
	shca_common_quiesce(thr, c);
	shca_common_finish(thr, c);
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
