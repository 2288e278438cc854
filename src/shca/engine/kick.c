/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Queues become runnable.
 *
 * shca_kick locks a runnable queue for this thread at once (TODO) and puts the queue on the thread's todo list; shca_drain
 * (run.c) runs the queues of that list one after the other, without recursion. So a runnable queue is locked by some thread, or
 * stands in the header as left over (I6). One CAS hands a TODO queue to a thief. The locks hold the thread's number, by which a
 * reaper finds a dead thread's queues.
 */
#include <stdlib.h>

#include "shca/engine/todo.h"

#define LEFT_NS 1000000u		/* until the helper of the owner looks for a queue that was left over */

bool shca_todo_add(struct shca_thread *thr, shca_off qp)
{
	if (thr->todo_n == thr->todo_cap) {
		uint32_t cap = thr->todo_cap ? thr->todo_cap * 2 : 32;
		struct shca_todo *items = realloc(thr->todo_items, cap * sizeof(*items));
		if (!items)
			return false;
		thr->todo_items = items;
		thr->todo_cap = cap;
	}
	thr->todo_items[thr->todo_n++].qp = qp;
	return true;
}

/* FREE: locks the queue TODO for this thread, and returns true. Otherwise sets MORE: the holder runs the queue again after this.
 * Each successful CAS is a full fence. The holder clears MORE or frees the lock by a CAS as well, and so sees all that made the
 * queue runnable. */
static bool run_claim(struct shca_thread *thr, struct shca_qp *qp)
{
	uint64_t w = atomic_load_explicit(&qp->lock, memory_order_relaxed);

	for (;;) {
		if (L_STATE(w) == SHCA_L_FREE) {
			if (atomic_compare_exchange_weak(&qp->lock, &w, run_lock_word(SHCA_L_TODO, thr->slot, w)))
				return true;
		} else if (atomic_compare_exchange_weak(&qp->lock, &w, w | L_MORE)) {
			return false;
		}
	}
}

/* Puts the queue on the todo list. Must: the queue is locked TODO for this thread. */
static void todo(struct shca_thread *thr, shca_off off)
{
	struct shca_qp *qp = qp_at(thr, off);

	if (shca_todo_add(thr, off))
		return;
	/* No memory for the list: another thread runs the queue. A thief may have the queue already. */
	if (run_begin(thr, qp, thr->slot))
		shca_leave_over(thr, qp);
}

/* Must: the queue was made runnable by a read-modify-write, or the caller put a full fence behind the store. */
void shca_kick(struct shca_thread *thr, shca_off off)
{
	struct shca_qp *qp = shca_at_checked(thr->m, off, sizeof(*qp));

	/* I7: the offset may come from lists of waiting queues */
	if (unlikely(!qp))
		return;
	SHCA_FAILPOINT(thr, "kick", qp, 0);
	if (!run_claim(thr, qp))
		return;
	SHCA_FAILPOINT(thr, "claimed", qp, 0);
	/* the owner wrote these lines, on another CPU perhaps */
	__builtin_prefetch(&qp->posted);
	__builtin_prefetch(shca_wqe_at(thr->base, qp, atomic_load_explicit(&qp->head, memory_order_relaxed)));
	todo(thr, off);
}

void shca_leave_over(struct shca_thread *thr, struct shca_qp *qp)
{
	struct shca_header *h = thr->m->hdr;
	uint32_t none = 0;

	/* Kicks since then concern the same rest, so MORE goes. Unlocked first: a thread that finds the number must find the
	 * queue unlocked. If this thread dies in between, the reaper kicks all queues with requests. */
	uint64_t w = atomic_load(&qp->lock);
	while (!atomic_compare_exchange_weak(&qp->lock, &w, run_lock_word(SHCA_L_FREE, 0, w)))
		;
	SHCA_FAILPOINT(thr, "left-over", qp, 0);
	for (uint32_t i = 0; i < SHCA_LEFT; i++, none = 0) {
		_Atomic uint32_t *slot = &h->left[(qp->qpn + i) % SHCA_LEFT];
		if (atomic_compare_exchange_strong(slot, &none, qp->qpn) || none == qp->qpn)
			break;
	}
	atomic_store(&h->some_left, 1);
	shca_timer_add(thr->m, qp, monotonic_ns() + LEFT_NS);
}

int shca_take_left(struct shca_thread *thr)
{
	struct shca_header *h = thr->m->hdr;
	int taken = 0;

	shca_epoch_widen(thr);
	/* Before the look: leave_over stores the number, then the flag. If this thread dies with a number that it took out, the
	 * reaper kicks all queues with requests. */
	atomic_store(&h->some_left, 0);
	for (uint32_t i = 0; i < SHCA_LEFT; i++) {
		uint32_t qpn = atomic_load_explicit(&h->left[i], memory_order_relaxed) ? atomic_exchange(&h->left[i], 0) : 0;
		struct shca_qp *qp = qpn ? shca_number_get(thr->m, qpn, SHCA_KIND_QP) : NULL;
		if (!qp)
			continue;
		shca_kick(thr, shca_off_of(thr->m, qp));
		taken++;
	}
	return taken;
}

int shca_steal(struct shca_thread *thr, shca_off off)
{
	struct shca_qp *qp = qp_at(thr, off);
	uint64_t w = atomic_load_explicit(&qp->lock, memory_order_relaxed);

	if (L_STATE(w) == SHCA_L_FREE || L_THREAD(w) == thr->slot)
		return 0;
	/* the holder of the lock may have died */
	uint32_t owner = shca_thread_owner(thr->m, L_THREAD(w));
	if (owner && shca_proc_dying(thr->m, owner - 1))
		shca_look(thr->m);
	while (L_STATE(w) == SHCA_L_TODO && L_THREAD(w) != thr->slot) {
		if (!atomic_compare_exchange_weak(&qp->lock, &w, run_lock_word(SHCA_L_TODO, thr->slot, w) | (w & L_MORE)))
			continue;
		todo(thr, off);
		return 1;
	}
	return 0;
}
