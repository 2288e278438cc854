/* SPDX-License-Identifier: BSD-3-Clause */
/* The lock of a queue, and the todo list of a thread: between kick.c, run.c, rq.c and qp_lock.c. */
#ifndef SHCA_TODO_H
#define SHCA_TODO_H

#include "shca/engine/engine.h"

#define L_STATE(w) ((uint32_t)(w)&3)
#define L_MORE 4ull
#define L_THREAD(w) ((uint32_t)((w) >> 3) & 0x1fffff)
#define L_EPOCH(w) ((w) >> 24)

static inline uint64_t run_lock_word(uint32_t state, uint32_t thread, uint64_t old)
{
	return state | (uint64_t)thread << 3 | (L_EPOCH(old) + 1) << 24;
}

static inline struct shca_qp *qp_at(struct shca_thread *thr, shca_off off)
{
	return shca_at(thr->base, off);
}

/* TODO|from_thread -> RUN|this thread. Returns false if a thief has the queue. MORE goes: the run that begins looks at
 * everything. */
static inline bool run_begin(struct shca_thread *thr, struct shca_qp *qp, uint32_t from_thread)
{
	uint64_t w = atomic_load_explicit(&qp->lock, memory_order_relaxed);

	while (L_STATE(w) == SHCA_L_TODO && L_THREAD(w) == from_thread)
		if (atomic_compare_exchange_weak(&qp->lock, &w, run_lock_word(SHCA_L_RUN, thr->slot, w)))
			return true;
	return false;
}

/*
 * Wake-ups by a receive. The first queue that waits for a receive is taken off the list and run; then the next, if there is
 * still a receive, and so on. The queue that was woken may have no use for the receive (its timer ran it meanwhile, or it has
 * failed), and k receives that are posted together are for k queues. The item of the receive queue in todo_items stands below
 * the queue that it woke. If this thread dies the reaper empties the lists of all receive queues; if it is stopped, or out of
 * budget, the queues have their timers.
 */
#define TODO_RECEIVES 1u		/* in an item's offset: the offset is a receive queue's */

/* Puts a queue, or a receive queue with TODO_RECEIVES, on the thread's todo list. Returns false if there is no memory. */
bool shca_todo_add(struct shca_thread *thr, shca_off item);
/* Leaves a queue over. Must: this thread has locked the queue, and the queue is runnable. If all places of the header are taken
 * the timer remains. */
void shca_leave_over(struct shca_thread *thr, struct shca_qp *qp);

#endif
