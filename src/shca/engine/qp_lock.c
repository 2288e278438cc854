/* SPDX-License-Identifier: BSD-3-Clause */
/* Waiting for the lock of a queue; the holder may have died. */
#include <sched.h>

#include "shca/engine/todo.h"

void shca_qp_lock(struct shca_thread *thr, struct shca_qp *qp)
{
	for (uint64_t spins = 1;; spins++) {
		uint64_t w = atomic_load(&qp->lock);
		if (L_STATE(w) == SHCA_L_FREE || (L_STATE(w) == SHCA_L_TODO && L_THREAD(w) != thr->slot)) {
			if (atomic_compare_exchange_weak(&qp->lock, &w, run_lock_word(SHCA_L_RUN, thr->slot, w)))
				return;
		} else if (L_STATE(w) == SHCA_L_TODO && run_begin(thr, qp, thr->slot)) {
			return;
		}
		if (!(spins & 0x3ff)) {
			uint32_t owner = shca_thread_owner(thr->m, L_THREAD(w));
			if (L_STATE(w) != SHCA_L_FREE && owner && shca_proc_gone(thr->m, owner - 1)) {
				/* a virtual process has no threads but these */
				if (thr->m->virtual_process)
					shca_reap(thr, owner - 1);
				else
					shca_look(thr->m);
			}
			/* Let threads go on that wait for this one to leave the engine. So objects that the caller has looked up
			 * may be gone behind this function, except the queue, which only its own process destroys. */
			shca_leave(thr);
			sched_yield();
			shca_enter(thr);
		}
	}
}
