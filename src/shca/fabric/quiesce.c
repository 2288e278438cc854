/* SPDX-License-Identifier: BSD-3-Clause */
/* Quiescence: a thread waits until every thread has left that was inside objects of one process. */
#include <sched.h>
#include <stdlib.h>
#include <time.h>

#include "shca/fabric/fabric.h"

/* Spins, yields, then sleeps in small steps: the thread that is waited for may be stopped inside the engine. */
static void wait_a_little(uint32_t round)
{
	if (round < 200) {
		cpu_relax();
	} else if (round < 2000) {
		sched_yield();
	} else {
		struct timespec t = { 0, 200000 };
		nanosleep(&t, NULL);
	}
}

/* Returns whether a thread of process `owner`, whose `active` word has this value, is inside objects of process `whose`. */
static bool quiesce_concerns(uint64_t active, uint32_t owner, uint32_t whose)
{
	uint32_t a = (uint32_t)(active >> 32) & 0xffff, b = (uint32_t)(active >> 48);

	if (!(active & 1) || !owner)
		return false;
	return !a || whose == SHCA_EVERYBODY ||
	       (whose != SHCA_NOBODY && (a == whose + 1 || b == whose + 1 || owner == whose + 1));
}

/* Returns whether the section of a thread that was seen as `seen` is over: the thread has left, or is elsewhere; or (with
 * `look`) its process is gone, and the requests of that process to this process's proxy are cancelled. */
static bool quiesce_is_over(struct shca_member *m, uint32_t thread, uint64_t seen, uint32_t whose, bool look)
{
	uint64_t active = atomic_load_explicit(&m->threads[thread].active, memory_order_acquire);
	uint32_t owner = atomic_load(&m->threads[thread].owner);

	return (uint32_t)active != (uint32_t)seen || !quiesce_concerns(active, owner, whose) ||
	       (look && shca_proc_gone(m, owner - 1) && shca_proxy_cancel_at(m, m->slot, owner - 1));
}

/* The caller counts as outside from step_out to step_in. */
static void step_out(struct shca_thread *thr)
{
	if (thr && thr->depth)
		atomic_store(&thr->t->active, (uint32_t)atomic_load_explicit(&thr->t->active, memory_order_relaxed) + 1);
}
static void step_in(struct shca_thread *thr)
{
	if (!thr || !thr->depth)
		return;
	atomic_store(&thr->t->active, (uint32_t)atomic_load_explicit(&thr->t->active, memory_order_relaxed) + 1);
	thr->where = SHCA_ANYWHERE;
	shca_light_fence(thr->m);
}

void shca_quiesce_all(struct shca_member *m, struct shca_thread *self, uint32_t whose)
{
	step_out(self);
	shca_heavy_fence(m);
	uint32_t n = atomic_load(&m->hdr->thread_high);
	for (uint32_t i = 0; i < n; i++) {
		uint32_t owner = atomic_load(&m->threads[i].owner);
		uint64_t seen = atomic_load_explicit(&m->threads[i].active, memory_order_acquire);
		if (!quiesce_concerns(seen, owner, whose) || (self && i == self->slot))
			continue;
		for (uint32_t round = 1; !quiesce_is_over(m, i, seen, whose, round % 1024 == 0); round++) {
			/* where this thread cannot look at the life lock, the helper thread can, and marks the slot */
			if (round % 1024 == 0 && shca_proc_dying(m, owner - 1))
				shca_helper_look(m);
			wait_a_little(round);
		}
	}
	step_in(self);
}

void shca_quiesce(struct shca_thread *thr, uint32_t whose)
{
	shca_quiesce_all(thr->m, thr, whose);
}

#define ROUNDS_INSIDE 1000u

bool shca_quiesce_on(struct shca_thread *thr, uint32_t whose, uint32_t *at, uint64_t *seen)
{
	struct shca_member *m = thr->m;
	uint32_t n = atomic_load(&m->hdr->thread_high);

	for (; *at < n; (*at)++, *seen = 0) {
		if (!*seen) {
			uint32_t owner = atomic_load(&m->threads[*at].owner);
			uint64_t active = atomic_load_explicit(&m->threads[*at].active, memory_order_acquire);
			if (*at == thr->slot || !quiesce_concerns(active, owner, whose))
				continue;
			*seen = active;
		}
		/* a dead thread's requests to this process's proxy can be cancelled here, those to another process's there */
		for (uint32_t round = 1; !quiesce_is_over(m, *at, *seen, whose, whose == m->slot && round == ROUNDS_INSIDE);
		     round++) {
			if (round == ROUNDS_INSIDE)
				return false;
			wait_a_little(round);
		}
	}
	return true;
}

bool shca_quiesce_begin(struct shca_thread *thr, struct shca_quiesce *q, uint32_t whose)
{
	struct shca_member *m = thr->m;
	uint32_t cap = 0;

	*q = (struct shca_quiesce){ .whose = whose };
	shca_heavy_fence(m);
	uint32_t n = atomic_load(&m->hdr->thread_high);
	for (uint32_t i = 0; i < n; i++) {
		uint32_t owner = atomic_load(&m->threads[i].owner);
		uint64_t seen = atomic_load_explicit(&m->threads[i].active, memory_order_acquire);
		if (!quiesce_concerns(seen, owner, whose) || i == thr->slot)
			continue;
		if (q->n == cap) {
			cap = cap ? 2 * cap : 16;
			struct shca_epoch_of *more = realloc(q->inside, cap * sizeof(*more));
			if (!more) {
				shca_quiesce_end(q);
				return false;
			}
			q->inside = more;
		}
		q->inside[q->n++] = (struct shca_epoch_of){ i, seen };
	}
	return true;
}

bool shca_quiesced(struct shca_thread *thr, struct shca_quiesce *q)
{
	for (uint32_t i = 0; i < q->n;)
		if (quiesce_is_over(thr->m, q->inside[i].thread, q->inside[i].seen, q->whose, true))
			q->inside[i] = q->inside[--q->n];
		else
			i++;
	if (q->n)
		return false;
	shca_quiesce_end(q);
	return true;
}

void shca_quiesce_end(struct shca_quiesce *q)
{
	free(q->inside);
	*q = (struct shca_quiesce){ .n = 0 };
}
