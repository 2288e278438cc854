/* SPDX-License-Identifier: BSD-3-Clause */
/* Receives: posted by their owner, taken by whoever has data for them (I4). */
#include "shca/engine/engine.h"

/* What the owner has noted about the receive at index: its position << 1 | whether its completion was polled. */
static inline _Atomic uint64_t *mark_of(const struct shca_thread *thr, const struct shca_rq *rq, uint32_t index)
{
	return (_Atomic uint64_t *)shca_at(thr->base, rq->marks) + index;
}

static void limit_reached(struct shca_thread *thr, struct shca_rq *rq, uint32_t limit)
{
	/* one store disarms and raises: whoever dies here has done both or nothing */
	if (!atomic_compare_exchange_strong(&rq->limit, &limit, SHCA_LIMIT_EVENT))
		return;
	SHCA_FAILPOINT(thr, "limit", NULL, 0);
	shca_async_wake(thr, rq->proc);
}

int shca_rq_take(struct shca_thread *thr, struct shca_rq *rq, uint32_t qpn, struct shca_qp *journal)
{
	uint64_t mask;
	_Atomic uint64_t *ring = shca_rq_ring(thr, rq, &mask);
	uint64_t pos = atomic_load_explicit(&rq->head, memory_order_relaxed);

	for (;;) {
		uint64_t e = atomic_load_explicit(&ring[pos & mask], memory_order_acquire);
		uint64_t at = e >> 24;

		if (at != (pos & SHCA_POS_MASK)) {
			/* 38-bit serial arithmetic: a slot of a later lap says that the hint is old */
			uint64_t ahead = (at - pos) & SHCA_POS_MASK;
			if (ahead >= 1ull << 37)
				return -1;
			if (__builtin_expect((ahead & mask) != 0, 0))
				return SHCA_RQ_BROKEN;
			pos += ahead - mask;
			continue;
		}
		if (rq->managed && pos >= atomic_load_explicit(&rq->enabled, memory_order_acquire))
			return -1;
		if (__builtin_expect((e & 0xffffff) > mask, 0))
			return SHCA_RQ_BROKEN;
		struct shca_rwqe *w = shca_rwqe_at(thr, rq, e & 0xffffff);
		if (!shca_rwqe_posted(w, pos) || !shca_rwqe_take(thr, rq, w, e & 0xffffff, pos, qpn, journal)) {
			pos++;
			continue;
		}
		uint32_t word = atomic_load_explicit(&rq->limit, memory_order_relaxed), limit = word & ~SHCA_LIMIT_EVENT;
		/* head is a hint, and other takers move it too: as a signed difference, for pos may be behind tail by now */
		if (limit &&
		    (int64_t)(atomic_load_explicit(&rq->tail, memory_order_relaxed) - (pos + 1)) < (int64_t)limit)
			limit_reached(thr, rq, word);
		return (int)(e & 0xffffff);
	}
}

bool shca_rq_taken_at(struct shca_thread *thr, struct shca_rq *rq, uint32_t index, uint64_t pos, uint32_t qpn)
{
	/* not by the ring: the slot may have been used again for another receive while this one was held */
	return index < 1u << rq->log2 &&
	       atomic_load(&shca_rwqe_at(thr, rq, index)->word) == shca_rword(SHCA_R_TAKEN, qpn, pos) &&
	       atomic_load(mark_of(thr, rq, index)) == (pos & SHCA_POS_MASK) << 1;
}

bool shca_rq_to_flusher(struct shca_thread *thr, struct shca_rq *rq, uint32_t index, uint64_t pos, uint32_t qpn)
{
	uint64_t taken = shca_rword(SHCA_R_TAKEN, qpn, pos), given = shca_rword(SHCA_R_TAKEN, SHCA_FLUSHER, pos);

	return index < 1u << rq->log2 &&
	       (atomic_compare_exchange_strong(&shca_rwqe_at(thr, rq, index)->word, &taken, given) || taken == given);
}

bool shca_rq_in_flush(struct shca_thread *thr, struct shca_rq *rq, uint32_t index)
{
	uint64_t w = atomic_load(&shca_rwqe_at(thr, rq, index)->word);
	return (w & 0x3ffffff) == shca_rword(SHCA_R_TAKEN, SHCA_FLUSHER, 0) &&
	       atomic_load(mark_of(thr, rq, index)) == w >> 26 << 1;
}

void shca_rq_post(struct shca_thread *thr, struct shca_rq *rq, uint32_t index)
{
	uint64_t pos = atomic_load_explicit(&rq->tail, memory_order_relaxed), mask;
	_Atomic uint64_t *ring = shca_rq_ring(thr, rq, &mask);
	struct shca_rwqe *w = shca_rwqe_at(thr, rq, index);

	atomic_store_explicit(mark_of(thr, rq, index), (pos & SHCA_POS_MASK) << 1, memory_order_relaxed);
	atomic_store_explicit(&w->word, shca_rword(SHCA_R_POSTED, 0, pos), memory_order_release);
	atomic_store_explicit(&ring[pos & mask], (pos & SHCA_POS_MASK) << 24 | index, memory_order_release);
	atomic_store_explicit(&rq->tail, pos + 1, memory_order_release);
	/* pairs with the heavy fence of a queue that stalls for want of a receive (run.c) */
	shca_light_fence(thr->m);
	if (__builtin_expect(atomic_load_explicit(&rq->rnr, memory_order_relaxed) != 0, 0))
		shca_recv_kick(thr, rq);
}

void shca_rq_return(struct shca_thread *thr, struct shca_rq *rq, uint32_t index, uint64_t pos, uint32_t qpn)
{
	uint64_t taken = shca_rword(SHCA_R_TAKEN, qpn, pos);

	if (!atomic_compare_exchange_strong(&shca_rwqe_at(thr, rq, index)->word, &taken, shca_rword(SHCA_R_RETURNED, 0, 0)))
		return;
	SHCA_FAILPOINT(thr, "returned", NULL, 0);
	shca_rq_notice_returned(thr, rq);
}

void shca_rq_notice_returned(struct shca_thread *thr, struct shca_rq *rq)
{
	atomic_store(&rq->returned, 1);
	atomic_store(&thr->m->procs[rq->proc & (SHCA_MAX_PROCS - 1)].returned, 1);
	/* a poller may be asleep */
	shca_note_write(thr, rq->proc);
}

bool shca_rq_reclaim(struct shca_thread *thr, struct shca_rq *rq, uint32_t index)
{
	uint64_t returned = shca_rword(SHCA_R_RETURNED, 0, 0);
	return atomic_compare_exchange_strong(&shca_rwqe_at(thr, rq, index)->word, &returned,
					      shca_rword(SHCA_R_IDLE, 0, 0));
}

/* The stack of stalled queues is taken whole: no element can come back while it is being taken (no ABA). */
void shca_recv_kick(struct shca_thread *thr, struct shca_rq *rq)
{
	shca_off off;

	/* the queues are anybody's */
	shca_widen(thr);
	off = atomic_exchange(&rq->rnr, 0);

	if (off)
		SHCA_FAILPOINT(thr, "rnr-list", NULL, 0);
	/* I7: a list that goes round has an end, too */
	for (uint32_t n = 0; off && n < SHCA_QP_SEG * SHCA_QP_SEGS; n++) {
		struct shca_qp *qp = shca_at_checked(thr->m, off, sizeof(*qp));
		if (!qp)
			break;
		shca_off next = atomic_load_explicit(&qp->rnr_next, memory_order_relaxed);
		SHCA_FAILPOINT(thr, "rnr-unlink", qp, 0);
		atomic_fetch_add(&qp->rnr_linked, 1);
		shca_kick(thr, off);
		off = next;
	}
}

/* The list that a queue stands on, if that still exists. */
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

	/* only its executor links a queue, so nobody else makes the number odd */
	if (atomic_load(&qp->rnr_linked) & 1)
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
