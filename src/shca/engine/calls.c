/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls to other threads: asynchronous events, timers, and the helper thread's watches and looks. */
#include <errno.h>
#include <stdlib.h>

#include "shca/engine/helper.h"

void shca_async_wake(struct shca_thread *thr, uint32_t proc)
{
	proc &= SHCA_MAX_PROCS - 1;	/* I7 */
	atomic_store(&thr->m->procs[proc].async_pending, 1);
	shca_wake_note(thr, SHCA_WAKE_ASYNC, proc);
	/* a poller that sleeps until a write to its memory looks for events as well */
	shca_note_write(thr, proc);
}

int shca_watch(struct shca_member *m, uint32_t slot)
{
	if (slot >= SHCA_MAX_PROCS)
		return -EINVAL;
	if (slot == m->slot)
		return 0;
	int err = shca_proxy_check(m);
	if (err)
		return err;
	uint32_t deaths = atomic_load(&m->procs[slot].deaths);
	uint32_t gen = atomic_load(&m->procs[slot].gen);
	struct shca_helper *h = atomic_load(&m->helper);
	/* between the store of the queue's peer_proc and the look whether the peer is watched; pairs with the fence of
	 * shca_unwatch */
	shca_full_fence();
	if (h && atomic_load(&h->watch[slot].gen) == gen)
		return 0;
	err = shca_helper_start(m);
	if (err)
		return err;
	shca_cma_probe(m, slot);
	h = atomic_load(&m->helper);
	pthread_mutex_lock(&h->lock);
	struct watch *w = &h->watch[slot];
	if (!atomic_load(&w->gen)) {
		if (h->watched_n == h->watched_cap) {
			uint32_t cap = h->watched_cap ? 2 * h->watched_cap : 16;
			uint32_t *more = realloc(h->watched, cap * sizeof(*more));
			if (!more) {
				pthread_mutex_unlock(&h->lock);
				return -ENOMEM;
			}
			h->watched = more;
			h->watched_cap = cap;
		}
		h->watched[h->watched_n++] = slot;
	}
	w->deaths = deaths;
	atomic_store(&w->gen, gen);
	atomic_store(&m->proc->look, 1);	/* the process may be dead already */
	pthread_mutex_unlock(&h->lock);
	shca_helper_call(m, m->slot);
	return 0;
}

void shca_unwatch(struct shca_helper *h, uint32_t slot, uint32_t gen)
{
	pthread_mutex_lock(&h->lock);
	if (atomic_load(&h->watch[slot].gen) == gen) {
		atomic_store(&h->watch[slot].gen, 0);
		uint32_t i = 0;
		while (h->watched[i] != slot)
			i++;
		h->watched[i] = h->watched[--h->watched_n];
	}
	pthread_mutex_unlock(&h->lock);
	/* between the end of the watch and the look at queues' peer_proc; pairs with the fence of shca_watch */
	shca_full_fence();
}

void shca_look(struct shca_member *m)
{
	if (shca_helper_start(m))
		return;		/* with text; the life lock can still be looked at */
	shca_helper_look(m);
}

int shca_events_again(struct shca_member *m)
{
	int err = shca_helper_start(m);

	if (!err && !atomic_exchange(&m->events_again, true))
		shca_helper_call(m, m->slot);
	return err;
}

void shca_timer_note(struct shca_member *m, uint32_t owner, uint32_t qpn)
{
	uint32_t segment = qpn / SHCA_QP_SEG % SHCA_QP_SEGS, bit = qpn % SHCA_QP_SEG, group = segment / SHCA_TIMER_GROUP;
	struct shca_numbers *n = shca_numbers_of(m, segment, owner);

	/* I7: a queue whose number is not its owner's has no timer */
	if (!n)
		return;
	atomic_fetch_or(&n->timers[bit / 64], 1ull << bit % 64);
	atomic_fetch_or(&m->procs[owner].timers[group / 64], 1ull << group % 64);
}

void shca_timer_add(struct shca_member *m, struct shca_qp *qp, uint64_t due)
{
	uint32_t owner = qp->proc & (SHCA_MAX_PROCS - 1);
	struct shca_proc_slot *p = &m->procs[owner];
	uint64_t before = atomic_load(&qp->due);

	/* A sooner timer suffices: the queue stalls again and sets the next timer. A timer whose time is past does not count: the
	 * thread that set it may have died before the bit was set. */
	if (before && before <= due && before > monotonic_ns())
		return;
	atomic_store(&qp->due, due);
	SHCA_FAILPOINT(NULL, "timer-set", qp, 0);
	/* behind the store of `due`: the helper may take the bit just now */
	shca_timer_note(m, owner, qp->qpn);
	shca_full_fence();
	if (due < atomic_load(&p->asleep_until))
		shca_helper_call(m, owner);
}

uint64_t shca_rnr_timer_ns(uint8_t field)
{
	static const uint32_t units[32] = {	/* of 10 us */
		65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096,
		6144, 8192, 12288, 16384, 24576, 32768, 49152,
	};

	return units[field & 31] * 10000ull;
}
