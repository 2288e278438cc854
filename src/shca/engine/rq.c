/* SPDX-License-Identifier: BSD-3-Clause */
/* Receives: posted by their owner, taken by the executors of requests that consume one (I4). */
#include "shca/engine/todo.h"

/*
 * A receive queue has one poster at a time (the owner, under the user's lock) and any number of takers. The ring has the order
 * in which receives were posted; the word of each receive has its state and taker; `head` and `tail` are hints for takers.
 * States of a receive:
 *
 *  IDLE      the owner may post the receive
 *  POSTED    by the owner
 *  TAKEN     by an executor that has data, or by the flusher; when the completion is polled the owner may post again
 *  RETURNED  by a taker without use for the receive; IDLE when the owner has seen that
 */

/* The owner's note about the receive at index: its position << 1 | whether the completion was polled. */
static inline _Atomic uint64_t *mark_of(const struct shca_thread *thr, const struct shca_rq *rq, uint32_t index)
{
	return (_Atomic uint64_t *)shca_at(thr->base, rq->marks) + index;
}

bool shca_rwqe_regions(const struct shca_member *m, const struct shca_rwqe *w, uint32_t stride)
{
	for (uint32_t i = 0; i < w->nsge; i++) {
		const struct shca_ground *g = shca_rwqe_ground(w, stride, i);
		const struct shca_mr *mr = shca_mr_entry(m, g->index);
		if (!mr || atomic_load_explicit(&mr->version, memory_order_acquire) != g->version)
			return false;
	}
	return true;
}

static void limit_reached(struct shca_thread *thr, struct shca_rq *rq, uint32_t limit)
{
	/* one CAS disarms and raises: a taker that dies here has done both or nothing */
	if (!atomic_compare_exchange_strong(&rq->limit, &limit, SHCA_LIMIT_EVENT))
		return;
	SHCA_FAILPOINT(thr, "limit", NULL, 0);
	shca_async_wake(thr, rq->proc);
}

/* Finds the next receive of ring `in` of rq from position *at on. Returns the index, with the position in *at; or shca_rq_take's
 * value for none. A receive that is not enabled yet counts for the flusher only: no ENABLE would come for a queue in error. */
static inline __attribute__((always_inline)) int next_posted(struct shca_thread *thr, struct shca_rq *rq, struct shca_rq *in,
								 uint64_t *at, bool flush)
{
	uint64_t mask, pos = *at;
	_Atomic uint64_t *ring = shca_rq_ring(thr, in, &mask);

	/* I7: without a ring the hint may still lead somewhere */
	if (unlikely(!mask && !shca_rq_made(thr->m, in)))
		return -1;
	for (;;) {
		uint64_t e = atomic_load_explicit(&ring[pos & mask], memory_order_acquire);

		if (e >> 24 != (pos & SHCA_POS_MASK)) {
			/* 38-bit serial arithmetic. A slot of an earlier lap is as empty as a slot that was never written:
			 * nothing is posted from here on. A slot of a later lap, at position p, means that the hint is old: the
			 * ring holds p's lap and the rest of the lap before, the oldest position of which is p - mask. */
			uint64_t ahead = ((e >> 24) - pos) & SHCA_POS_MASK;
			if (ahead >= 1ull << 37)
				return -1;
			/* I7: a ring that was scribbled over would lead nowhere, or round for ever */
			if (unlikely((ahead & mask) != 0 || !ahead || pos - *at >= 1ull << 37))
				return SHCA_RQ_BROKEN;
			pos += ahead - mask;
			continue;
		}
		if (rq->managed && !flush && pos >= atomic_load_explicit(&rq->enabled, memory_order_acquire))
			return -1;
		if (unlikely((e & 0xffffff) > mask))
			return SHCA_RQ_BROKEN;
		if (in != rq)
			shca_rwqe_arrive(thr->m, in, e & 0xffffff, pos);
		if (shca_rwqe_posted(shca_rwqe_at(thr, in, e & 0xffffff), pos)) {
			*at = pos;
			return (int)(e & 0xffffff);
		}
		pos++;
	}
}

static inline __attribute__((always_inline)) int take_of(struct shca_thread *thr, struct shca_rq *rq, struct shca_rq *in,
							 uint32_t qpn, struct shca_qp *journal)
{
	uint64_t pos = atomic_load_explicit(&rq->head, memory_order_relaxed);

	for (;; pos++) {
		int index = next_posted(thr, rq, in, &pos, qpn == SHCA_FLUSHER);
		if (index < 0)
			return index;
		if (!shca_rwqe_take(thr, rq, shca_rwqe_at(thr, in, (uint32_t)index), (uint32_t)index, pos, qpn, journal))
			continue;
		uint32_t word = atomic_load_explicit(&rq->limit, memory_order_relaxed), limit = word & ~SHCA_LIMIT_EVENT;
		/* signed difference: head is a hint that other takers move too, so pos may be behind tail by now */
		if (limit &&
		    (int64_t)(atomic_load_explicit(&rq->tail, memory_order_relaxed) - (pos + 1)) < (int64_t)limit)
			limit_reached(thr, rq, word);
		return index;
	}
}

int shca_rq_take(struct shca_thread *thr, struct shca_rq *rq, uint32_t qpn, struct shca_qp *journal)
{
	return take_of(thr, rq, rq, qpn, journal);
}

int shca_rq_take_moved(struct shca_thread *thr, struct shca_rq **rq, int none, uint32_t qpn, struct shca_qp *journal)
{
	struct shca_rq *of = *rq, *in, *last = of;
	int index = none;

	/* Behind the look at the last ring: a receive that was not there may have been moved (rq_move.c). */
	for (; index == -1 && (in = shca_rq_newest(thr->m, of)) != last; last = in)
		index = take_of(thr, of, in, qpn, journal);
	*rq = last;
	return index;
}

bool shca_rq_ready(struct shca_thread *thr, struct shca_rq *rq)
{
	uint64_t head = atomic_load_explicit(&rq->head, memory_order_relaxed), pos = head;
	struct shca_rq *in, *last = rq;

	/* a broken ring counts as ready: the request that wants a receive must get the error */
	if (next_posted(thr, rq, rq, &pos, false) != -1)
		return true;
	for (; (in = shca_rq_newest(thr->m, rq)) != last; last = in)
		if (pos = head, next_posted(thr, rq, in, &pos, false) != -1)
			return true;
	return false;
}

struct shca_rq *shca_rq_taken_at(struct shca_thread *thr, struct shca_rq *rq, uint32_t index, uint64_t pos, uint32_t qpn)
{
	struct shca_rq *newest = shca_rq_newest(thr->m, rq), *in = shca_rq_of_index(thr->m, newest, index);

	/* Not by the ring: while this receive was held, the ring's slot may have been used again for another one. The marks are
	 * the newest ring's, whichever ring has the receive. */
	return in && atomic_load(&shca_rwqe_at(thr, in, index)->word) == shca_rword(SHCA_R_TAKEN, qpn, pos) &&
			       atomic_load(mark_of(thr, newest, index)) == (pos & SHCA_POS_MASK) << 1 ?
		       in : NULL;
}

bool shca_rq_to_flusher(struct shca_thread *thr, struct shca_rq *rq, uint32_t index, uint64_t pos, uint32_t qpn)
{
	uint64_t taken = shca_rword(SHCA_R_TAKEN, qpn, pos), given = shca_rword(SHCA_R_TAKEN, SHCA_FLUSHER, pos);

	return shca_rq_made(thr->m, rq) && index < 1u << rq->log2 &&
	       (atomic_compare_exchange_strong(&shca_rwqe_at(thr, rq, index)->word, &taken, given) || taken == given);
}

bool shca_rq_in_flush(struct shca_thread *thr, struct shca_rq *rq, uint32_t index)
{
	uint64_t w = atomic_load(&shca_rwqe_at(thr, rq, index)->word);
	return (w & 0x3ffffff) == shca_rword(SHCA_R_TAKEN, SHCA_FLUSHER, 0) &&
	       atomic_load(mark_of(thr, rq, index)) == w >> 26 << 1;
}

void shca_rq_post(struct shca_thread *thr, struct shca_rq *rq, struct shca_rq *in, struct shca_rwqe *w, uint32_t index)
{
	uint64_t pos = atomic_load_explicit(&rq->tail, memory_order_relaxed), mask;
	_Atomic uint64_t *ring = shca_rq_ring(thr, in, &mask);

	/* the ring last: takers find the receive by the ring */
	atomic_store_explicit(mark_of(thr, in, index), (pos & SHCA_POS_MASK) << 1, memory_order_relaxed);
	atomic_store_explicit(&w->word, shca_rword(SHCA_R_POSTED, 0, pos), memory_order_release);
	atomic_store_explicit(&ring[pos & mask], (pos & SHCA_POS_MASK) << 24 | index, memory_order_release);
	atomic_store_explicit(&rq->tail, pos + 1, memory_order_release);
	/* pairs with the heavy fence of a queue that stalls for want of a receive (run.c) */
	shca_light_fence(thr->m);
	if (unlikely(shca_rnr_any(rq)))
		shca_recv_wake(thr, rq);
}

void shca_rq_return(struct shca_thread *thr, struct shca_rq *rq, uint32_t index, uint64_t pos, uint32_t qpn)
{
	uint64_t taken = shca_rword(SHCA_R_TAKEN, qpn, pos);

	if (rq->whose && !(rq = shca_rq_at(thr->m, rq->whose)))
		return;
	/* I7: the index may come from another process's journal */
	struct shca_rq *in = shca_rq_of_index(thr->m, shca_rq_newest(thr->m, rq), index);
	if (!in ||
	    !atomic_compare_exchange_strong(&shca_rwqe_at(thr, in, index)->word, &taken, shca_rword(SHCA_R_RETURNED, 0, 0)))
		return;
	SHCA_FAILPOINT(thr, "returned", NULL, 0);
	shca_rq_notice_returned(thr, rq);
}

void shca_rq_notice_returned(struct shca_thread *thr, struct shca_rq *rq)
{
	atomic_store(&rq->returned, 1);
	atomic_store(&thr->m->procs[rq->proc & (SHCA_MAX_PROCS - 1)].returned, 1);
	/* a poller of the owner may be asleep */
	shca_note_write(thr, rq->proc);
	shca_full_fence();
	shca_rq_notice_posted(thr, rq);
}

void shca_rq_notice_posted(struct shca_thread *thr, struct shca_rq *rq)
{
	if (rq->is_srq)
		return;
	shca_epoch_widen(thr);
	const struct shca_qp *qp = shca_number_get(thr->m, rq->number, SHCA_KIND_QP);
	if (qp && shca_flushes(qp))
		shca_kick(thr, shca_off_of(thr->m, qp));
}

bool shca_rq_returned_to_flusher(struct shca_thread *thr, struct shca_rq *rq, uint32_t index)
{
	uint64_t returned = shca_rword(SHCA_R_RETURNED, 0, 0), pos = atomic_load(mark_of(thr, rq, index)) >> 1;

	return atomic_compare_exchange_strong(&shca_rwqe_at(thr, rq, index)->word, &returned,
					      shca_rword(SHCA_R_TAKEN, SHCA_FLUSHER, pos));
}

bool shca_rq_reclaim(struct shca_thread *thr, struct shca_rq *rq, uint32_t index)
{
	uint64_t returned = shca_rword(SHCA_R_RETURNED, 0, 0);
	struct shca_rq *newest = shca_rq_newest(thr->m, rq), *in = shca_rq_of_index(thr->m, newest, index);
	struct shca_rwqe *w = in ? shca_rwqe_at(thr, in, index) : NULL;

	if (!w || !atomic_compare_exchange_strong(&w->word, &returned, shca_rword(SHCA_R_IDLE, 0, 0)))
		return false;
	if (in != newest)
		shca_rwqe_copy(shca_rwqe_at(thr, newest, index), w, in->stride);
	return true;
}

/*
 * Queues that wait for a receive, first come, first served. A queue that stalls is pushed on the stack `rnr`. The stack is taken
 * whole, so that no element can come back during the take (no ABA). The taker reverses the stack into `rnr_turn`, from which
 * queues are taken one by one; a count beside the pointer detects elements that came back.
 *
 * The thread that takes a queue off makes rnr_linked even and kicks the queue. A queue that is kicked and finds no receive is
 * pushed again, at the end. The reaper finds links that were lost with a dead thread (reap.c).
 */
/*
 * I7: returns the queue at an offset from a list of rq, if the queue's own fields say that it is on that list, and all its
 * memory is one process's; else NULL. (Not by number: a zombie has none while it is being freed, and another thread may hold the
 * link.)
 */
static struct shca_qp *linked_at(const struct shca_thread *thr, const struct shca_rq *rq, shca_off off)
{
	struct shca_qp *qp = off ? shca_at_checked(thr->m, off, sizeof(*qp)) : NULL;

	return qp && atomic_load(&qp->rnr_rq) == shca_off_of(thr->m, rq) && atomic_load(&qp->rnr_linked) & 1 &&
			       shca_owner(thr->m, qp) &&
			       shca_owner(thr->m, qp) == shca_owner(thr->m, (const char *)(qp + 1) - 1) ?
		       qp :
		       NULL;
}

static shca_off unlinked(struct shca_thread *thr, struct shca_qp *qp)
{
	SHCA_FAILPOINT(thr, "rnr-unlink", qp, 0);
	atomic_fetch_add(&qp->rnr_linked, 1);
	return shca_off_of(thr->m, qp);
}

static bool turn_to(struct shca_rq *rq, uint64_t first, uint64_t count, uint64_t to)
{
	unsigned __int128 old = (unsigned __int128)count << 64 | first, new = (unsigned __int128)(count + 1) << 64 | to;

	return __sync_bool_compare_and_swap((unsigned __int128 *)&rq->rnr_turn, old, new);
}

/* Reverses the stack. Returns the first queue that came; NULL: none came. The other queues are put before queues that have got
 * into rnr_turn meanwhile. */
static struct shca_qp *turn_round(struct shca_thread *thr, struct shca_rq *rq)
{
	struct shca_qp *first = NULL, *last = NULL, *qp;
	shca_off off = atomic_exchange(&rq->rnr, 0);

	if (off)
		SHCA_FAILPOINT(thr, "rnr-list", NULL, 0);
	/* I7: a list that leads nowhere ends. A cyclic list is reversed as well: the walk comes back to the first queue. */
	for (uint32_t n = 0; off && n < SHCA_QP_SEG * SHCA_QP_SEGS && (qp = linked_at(thr, rq, off)); n++) {
		SHCA_FAILPOINT(thr, "rnr-turn", qp, 0);
		off = atomic_load_explicit(&qp->rnr_next, memory_order_relaxed);
		atomic_store_explicit(&qp->rnr_next, first ? shca_off_of(thr->m, first) : 0, memory_order_relaxed);
		first = qp;
		last = last ? last : qp;
	}
	if (first == last)
		return first;
	uint64_t rest = atomic_load_explicit(&first->rnr_next, memory_order_relaxed), before, count;
	do {
		count = atomic_load_explicit(&rq->rnr_turn.count, memory_order_acquire);
		before = atomic_load_explicit(&rq->rnr_turn.first, memory_order_acquire);
		atomic_store_explicit(&last->rnr_next, before, memory_order_relaxed);
	} while (!turn_to(rq, before, count, rest));
	SHCA_FAILPOINT(thr, "rnr-turned", first, 0);
	/* A thread that posted a receive meanwhile has seen both lists empty: the caller's next look sees that receive. Pairs
	 * with the light fence of shca_rq_post. */
	shca_heavy_fence(thr->m);
	return first;
}

shca_off shca_rnr_next(struct shca_thread *thr, struct shca_rq *rq)
{
	for (;;) {
		/* the count first: so the count is never newer than the pointer, and the exchange fails if the pointer has
		 * changed */
		uint64_t count = atomic_load_explicit(&rq->rnr_turn.count, memory_order_acquire);
		shca_off off = atomic_load_explicit(&rq->rnr_turn.first, memory_order_acquire);
		if (!off) {
			struct shca_qp *first = turn_round(thr, rq);
			return first ? unlinked(thr, first) : 0;
		}
		struct shca_qp *qp = linked_at(thr, rq, off);
		/* I7: a list that leads nowhere ends. The link is read before the queue is taken: if another thread takes the
		 * queue meanwhile, the count has changed. The queue's memory stays, because this thread is inside the engine. */
		if (turn_to(rq, off, count, qp ? atomic_load_explicit(&qp->rnr_next, memory_order_relaxed) : 0))
			return qp ? unlinked(thr, qp) : 0;
	}
}

/* Kicks all queues of a chain that was taken off its list. The link is read before rnr_linked becomes even: from then on an
 * executor of the queue may put it on a list again, and rnr_next would lead there. */
static void kick_chain(struct shca_thread *thr, const struct shca_rq *rq, shca_off off)
{
	if (off)
		SHCA_FAILPOINT(thr, "rnr-list", NULL, 0);
	struct shca_qp *qp;
	/* I7: a list that leads nowhere ends; a cyclic list ends at a queue that was taken off already */
	while ((qp = linked_at(thr, rq, off))) {
		shca_off next = atomic_load_explicit(&qp->rnr_next, memory_order_relaxed);
		shca_kick(thr, unlinked(thr, qp));
		off = next;
	}
}

void shca_recv_kick(struct shca_thread *thr, struct shca_rq *rq)
{
	uint64_t first, count;

	/* the queues may be of any process */
	shca_epoch_widen(thr);
	do {
		count = atomic_load_explicit(&rq->rnr_turn.count, memory_order_acquire);
		first = atomic_load_explicit(&rq->rnr_turn.first, memory_order_acquire);
	} while (first && !turn_to(rq, first, count, 0));
	kick_chain(thr, rq, first);
	kick_chain(thr, rq, atomic_exchange(&rq->rnr, 0));
}

void shca_recv_wake(struct shca_thread *thr, struct shca_rq *rq)
{
	shca_off item = shca_off_of(thr->m, rq) | TODO_RECEIVES;

	if (thr->todo_n && thr->todo_items[thr->todo_n - 1].qp == item)
		return;
	/* the waiting queues may be of any process */
	shca_epoch_widen(thr);
	if (!shca_todo_add(thr, item))
		shca_recv_kick(thr, rq);
}

/* Returns the receive queue on whose list qp is; NULL if that receive queue does not exist any more. */
static struct shca_rq *rnr_list_of(struct shca_thread *thr, struct shca_qp *qp)
{
	shca_off off = atomic_load(&qp->rnr_rq);
	struct shca_rq *rq = shca_number_get(thr->m, qp->rnr_number, SHCA_KIND_SRQ);
	struct shca_qp *to = rq ? NULL : shca_number_get(thr->m, qp->rnr_number, SHCA_KIND_QP);

	if (to && to->rq == off)
		rq = shca_rq_at(thr->m, off);
	return rq && shca_off_of(thr->m, rq) == off ? rq : NULL;
}

uint32_t shca_rnr_unlink(struct shca_thread *thr, struct shca_qp *qp)
{
	uint32_t link = atomic_load(&qp->rnr_linked);
	struct shca_rq *rq = link & 1 ? rnr_list_of(thr, qp) : NULL;

	if (rq)
		shca_recv_kick(thr, rq);
	return atomic_load(&qp->rnr_linked) == link ? link & 1 ? link : 0 : 0;
}

void shca_rnr_lost(struct shca_thread *thr, struct shca_qp *qp, uint32_t link)
{
	if (atomic_compare_exchange_strong(&qp->rnr_linked, &link, link + 1))
		shca_kick(thr, shca_off_of(thr->m, qp));
}

void shca_rnr_link(struct shca_thread *thr, struct shca_rq *rq, struct shca_qp *qp)
{
	shca_off me = shca_off_of(thr->m, qp), head;

	/* Only the queue's executor links a queue, so no other thread makes the number odd. The queue may still be on the
	 * list of an earlier stall (a timer served it there). If another thread holds the link, the queue has timers until
	 * the kick. */
	if (atomic_load(&qp->rnr_linked) & 1 && (atomic_load(&qp->rnr_rq) == shca_off_of(thr->m, rq) || shca_rnr_unlink(thr, qp)))
		return;
	atomic_store(&qp->rnr_rq, shca_off_of(thr->m, rq));
	qp->rnr_number = rq->number;
	atomic_fetch_add(&qp->rnr_linked, 1);
	SHCA_FAILPOINT(thr, "rnr-link", qp, 0);
	head = atomic_load(&rq->rnr);
	do
		atomic_store_explicit(&qp->rnr_next, head, memory_order_relaxed);
	while (!atomic_compare_exchange_weak(&rq->rnr, &head, me));
}
