/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The WAITs for a completion queue, as the CQ's owner notes them for the threads that put completions in (struct shca_waits). A
 * WAIT is noted when it is posted, at constant cost, except that a full table is replaced: at most once in half a table of
 * WAITs.
 */
#include <errno.h>
#include <stdlib.h>

#include "shca/verbs/control.h"

/*
 * Whether the WAIT posted at position `pos` of queue `qpn` is still to run. By now the number may belong to another queue of
 * another context, whose locks are not held here. So only the queue's shared part is read, inside the engine: a destroy first
 * stops the queue (head = posted), then takes the number away, then quiesces, which waits for this thread, and only then frees
 * the queue and its WQEs.
 */
static bool to_run(const struct shca_user_cq *cq, uint32_t qpn, uint64_t pos)
{
	struct shca_thread *thr = shca_thread_get(cq->m);
	bool is_wait = false;

	if (!thr)
		return true;	/* unknown: kept */
	shca_enter(thr);
	const struct shca_qp *sh = shca_number_get(cq->m, qpn, SHCA_KIND_QP);
	if (sh && pos >= atomic_load(&sh->head) && pos < atomic_load(&sh->posted) &&
	    __atomic_load_n(&sh->wqes, __ATOMIC_RELAXED)) {
		/* the position may be another request's, too, after a reset */
		const struct shca_wqe *w = shca_wqe_at(cq->m->base, sh, pos);
		is_wait = w->op == SHCA_OP_WAIT && w->raddr == cq->off;
	}
	shca_leave(thr);
	return is_wait;
}

static struct shca_waits *waits_table_at(const struct shca_user_cq *cq, uint32_t log2, uint64_t changes, shca_off *at)
{
	*at = cq->waits.tables[log2] + (changes & 1) * shca_waits_bytes(log2);
	return shca_at(cq->m->base, *at);
}

static struct shca_waits *waits_table_of(const struct shca_user_cq *cq)
{
	shca_off at;

	return cq->waits.n ? waits_table_at(cq, cq->waits.log2, cq->waits.changes, &at) : NULL;
}

static void waits_put(struct shca_waits *t, uint32_t log2, uint32_t i, uint64_t count, uint32_t qpn)
{
	struct shca_wait *x = shca_waits_entry(t, log2, i);
	_Atomic uint32_t *first = &t->first[shca_waits_chain(count, log2)];

	atomic_store_explicit(&x->count, count, memory_order_release);
	atomic_store_explicit(&x->qpn, qpn, memory_order_release);
	atomic_store_explicit(&x->next, atomic_load_explicit(first, memory_order_relaxed), memory_order_release);
	atomic_store_explicit(first, i + 1, memory_order_release);
}

uint64_t shca_waits_posted(const struct shca_user_cq *cq)
{
	struct shca_waits *t = waits_table_of(cq);
	uint64_t n = 0;

	for (uint32_t i = 0; i < cq->waits.n; i++)
		n += to_run(cq, atomic_load(&shca_waits_entry(t, cq->waits.log2, i)->qpn), cq->waits.pos[i]);
	return n;
}

/* Another table, with those that are still to run, and room for as many and `more` besides. 0 or ENOMEM. */
static int change_table(struct shca_user_cq *cq, uint64_t more)
{
	struct shca_user_waits *w = &cq->waits;
	uint64_t need = 2 * (shca_waits_posted(cq) + more);
	uint32_t log2 = w->log2 < SHCA_WAITS_LOG2_MIN ? SHCA_WAITS_LOG2_MIN : w->log2, n = 0;

	while (log2 < SHCA_WAITS_LOG2_MAX && need > 1ull << log2)
		log2++;
	if (need > 1ull << log2)
		return shca_refuse(ENOMEM, "post: %lu WAITs for one completion queue", (unsigned long)need / 2);
	if (log2 > w->log2) {
		uint64_t *pos = realloc(w->pos, sizeof(*pos) << log2);
		if (!pos)
			return shca_no_memory("post");
		w->pos = pos;
	}
	if (!w->tables[log2])
		w->tables[log2] = shca_mem_alloc(cq->m, 2 * shca_waits_bytes(log2));
	if (!w->tables[log2])
		return ENOMEM;	/* said: shca_mem_alloc */
	shca_off at;
	struct shca_waits *from = waits_table_of(cq), *to = waits_table_at(cq, log2, w->changes + 1, &at);
	if (to->log2 != log2)
		to->log2 = log2;
	for (uint32_t i = 0; i < 1u << log2; i++)
		atomic_store_explicit(&to->first[i], 0, memory_order_release);
	for (uint32_t i = 0; i < w->n; i++) {
		const struct shca_wait *x = shca_waits_entry(from, w->log2, i);
		uint32_t qpn = atomic_load_explicit(&x->qpn, memory_order_relaxed);
		if (!to_run(cq, qpn, w->pos[i]))
			continue;
		waits_put(to, log2, n, atomic_load_explicit(&x->count, memory_order_relaxed), qpn);
		w->pos[n++] = w->pos[i];
	}
	w->log2 = log2;
	w->n = n;
	w->changes++;
	atomic_store_explicit(&cq->sh->waits, shca_waits_word(at, w->changes), memory_order_release);
	return 0;
}

int shca_wait_reserve(struct shca_user_cq *cq, uint64_t task)
{
	struct shca_user_waits *w = &cq->waits;

	/* reservations of a list that was refused */
	if (w->task != task)
		w->reserved = 0;
	w->task = task;
	if (!w->changes || w->n + w->reserved >= 1ull << w->log2) {
		int rc = change_table(cq, w->reserved + 1);
		if (rc)
			return rc;
	}
	w->reserved++;
	return 0;
}

void shca_wait_note(struct shca_thread *thr, struct shca_user_cq *cq, const struct shca_user_qp *q, uint64_t count)
{
	struct shca_user_waits *w = &cq->waits;
	struct shca_cq *sh = cq->sh;
	uint64_t now = shca_cq_sound(cq->m, sh) ? shca_cq_count(thr, sh) : 0;
	uint64_t awaited = atomic_load_explicit(&sh->awaited, memory_order_relaxed);
	shca_off at;

	w->reserved--;
	w->pos[w->n] = q->pi;
	waits_put(waits_table_at(cq, w->log2, w->changes, &at), w->log2, w->n++, count, q->sh->qpn);
	/* the count has been reached: the executor of the WAIT finds that itself */
	if (count <= now)
		return;
	/* no WAIT was pending, so no count up to now needs to be looked up */
	if (atomic_load(&sh->noticed) >= awaited)
		shca_raise(&sh->noticed, now);
	/* behind the note; before the request, see wait_met in run.c */
	if (count > awaited)
		atomic_store_explicit(&sh->awaited, count, memory_order_release);
}

void shca_waits_free(struct shca_user_cq *cq)
{
	for (uint32_t i = SHCA_WAITS_LOG2_MIN; i <= cq->waits.log2; i++)
		shca_mem_free(cq->m, cq->waits.tables[i], 2 * shca_waits_bytes(i));
	free(cq->waits.pos);
}
