/* SPDX-License-Identifier: BSD-3-Clause */
/* Completions appear (I3). */
#include "shca/engine/engine.h"

/*
 * Where a slot stands relative to position pos, whose lap is given: 0: pos is free to be filled; > 0: pos and everything up
 * to pos + d - 1 is filled. A hint may be older than a whole lap (its writer was stopped in between); the lap in the slot
 * tells by how much, since it is not below the floor.
 */
static inline uint64_t slot_ahead(uint64_t w0, uint64_t pos, uint32_t lap, uint32_t log2)
{
	uint32_t seen = SHCA_CQE_LAP(w0);

	if (likely(shca_cqe_free(w0, pos, log2) || !seen))
		return 0;
	if (seen == lap)
		return 1;
	return (((uint64_t)(seen + 0x7fff - lap) % 0x7fff) << log2) + 1;
}

uint64_t shca_cq_count_from(struct shca_thread *thr, struct shca_cq *cq, uint64_t pos)
{
	struct shca_cqe *ring = shca_cq_ring(thr, cq);
	uint64_t mask = (1ull << cq->log2) - 1, floor = atomic_load_explicit(&cq->floor, memory_order_acquire);

	if (pos < floor && floor != SHCA_CQ_NO_ROOM)
		pos = floor;
	for (;;) {
		uint64_t w0 = atomic_load_explicit(&ring[pos & mask].w0, memory_order_acquire);
		uint64_t d = slot_ahead(w0, pos, shca_cqe_lap(pos, cq->log2), cq->log2);

		if (!d)
			return pos;
		pos += d;
	}
}

shca_off shca_cq_add_waiter(struct shca_member *m, struct shca_cq *cq, shca_off qp)
{
	struct shca_cq_waiters *block = &cq->waiters;

	for (;;) {
		uint32_t n = atomic_load_explicit(&block->n, memory_order_relaxed);
		for (uint32_t i = 0; i < n; i++)
			if (__atomic_load_n(&block->w[i].qp, __ATOMIC_RELAXED) == qp)
				return shca_off_of(m, &block->w[i]);
		/* an entry whose queue is gone is free again */
		for (uint32_t i = 0; i < n; i++) {
			if (!__atomic_load_n(&block->w[i].qp, __ATOMIC_RELAXED)) {
				__atomic_store_n(&block->w[i].qp, qp, __ATOMIC_RELEASE);
				return shca_off_of(m, &block->w[i]);
			}
		}
		if (n < SHCA_CQ_WAITERS) {
			__atomic_store_n(&block->w[n].qp, qp, __ATOMIC_RELAXED);
			atomic_store_explicit(&block->n, n + 1, memory_order_release);
			return shca_off_of(m, &block->w[n]);
		}
		shca_off more = atomic_load_explicit(&block->more, memory_order_relaxed);
		if (!more) {
			more = shca_mem_alloc(m, sizeof(struct shca_cq_waiters));
			if (!more)
				return 0;
			atomic_store_explicit(&block->more, more, memory_order_release);
		}
		block = shca_at(m->base, more);
	}
}

static void notify(struct shca_thread *thr, struct shca_cq *cq, bool solicited)
{
	uint64_t w = atomic_load_explicit(&cq->notify, memory_order_relaxed), to;

	do {
		if (!(w & (solicited ? SHCA_CQ_ARMED : SHCA_CQ_ARM_ANY)))
			return;
		/* an event that was not read yet stands for this one, too */
		to = w & SHCA_CQ_EVENT ? w & ~(uint64_t)SHCA_CQ_ARMED :
					 shca_cq_event(SHCA_CQ_EVENT_OWED, SHCA_CQ_EVENT_SEQ(w) + 1, thr->slot);
	} while (!atomic_compare_exchange_weak(&cq->notify, &w, to));
	SHCA_FAILPOINT(thr, "event-raised", NULL, 0);
	if (!(w & SHCA_CQ_EVENT))
		shca_wake_note(thr, SHCA_WAKE_CHANNEL, shca_off_of(thr->m, cq));
}

/*
 * Kicks whoever is armed. A completion need not look at the entries if nobody was armed since somebody last went through all of
 * them: `waiters_kicked` is what `arms` was before that look, and is stored behind it, so whoever dies or is stopped in the middle
 * keeps nobody from looking. One that is late makes the number old, which costs a look. An entry is disarmed behind the kick
 * for the same reason, unless it was armed again since.
 */
static void notice_waiters(struct shca_thread *thr, struct shca_cq *cq)
{
	uint32_t blocks = 0, arms = atomic_load_explicit(&cq->waiters.arms, memory_order_acquire);

	for (struct shca_cq_waiters *block = &cq->waiters;;) {
		uint32_t n = atomic_load_explicit(&block->n, memory_order_acquire);
		for (uint32_t i = 0; i < n && i < SHCA_CQ_WAITERS; i++) {
			struct shca_cq_waiter *w = &block->w[i];
			uint32_t armed = atomic_load_explicit(&w->armed, memory_order_relaxed);
			if (!(armed & 1))
				continue;
			/* 0: its owner has just taken the queue away */
			shca_off qp = __atomic_load_n(&w->qp, __ATOMIC_ACQUIRE);
			if (qp)
				shca_kick(thr, qp);
			atomic_compare_exchange_strong(&w->armed, &armed, armed - 1);
		}
		shca_off more = atomic_load_explicit(&block->more, memory_order_acquire);
		/* I7: a chain that leads nowhere ends; one that goes round is longer than there are queues */
		if (likely(!more) || ++blocks > SHCA_QP_SEG * SHCA_QP_SEGS ||
		    !(block = shca_at_checked(thr->m, more, sizeof(*block))))
			break;
		SHCA_FAILPOINT(thr, "waiters-block", NULL, 0);
	}
	atomic_store_explicit(&cq->waiters_kicked, arms, memory_order_release);
}

void shca_cq_notice(struct shca_thread *thr, struct shca_cq *cq, bool solicited)
{
	notify(thr, cq, solicited);
	if (atomic_load_explicit(&cq->waiters.arms, memory_order_relaxed) !=
	    atomic_load_explicit(&cq->waiters_kicked, memory_order_relaxed))
		notice_waiters(thr, cq);
}

bool shca_cq_push(struct shca_thread *thr, struct shca_cq *cq, const struct shca_cqe_in *in)
{
	return shca_cq_put(thr, cq, atomic_load_explicit(&cq->tail, memory_order_acquire),
			   shca_cqe_w0(in->op, in->status, in->index, in->qpn), (uint64_t)in->imm << 32 | in->byte_len,
			   in->solicited || in->status != IBV_WC_SUCCESS);
}

void shca_cq_fail_users(struct shca_thread *thr, struct shca_cq *cq)
{
	struct shca_member *m = thr->m;
	shca_off off = shca_off_of(m, cq);
	struct shca_proc_slot *proc = &m->procs[cq->proc & (SHCA_MAX_PROCS - 1)];

	shca_for_each_qp(m, qp, cq->proc)
		if ((qp->rcq == off || qp->scq == off) && atomic_load(&qp->qp_state) != IBV_QPS_RESET)
			shca_qp_fail_once(thr, qp, IBV_EVENT_QP_FATAL);
	for (struct shca_rq *rq = shca_at_checked(m, __atomic_load_n(&proc->srq_list, __ATOMIC_ACQUIRE), sizeof(*rq)); rq;
	     rq = shca_at_checked(m, __atomic_load_n(&rq->next, __ATOMIC_ACQUIRE), sizeof(*rq))) {
		uint32_t none = 0;
		if (rq->cq == off)
			atomic_compare_exchange_strong(&rq->error, &none, SHCA_ERROR | SHCA_ERROR_EVENT);
	}
	/* who waits for it would wait for ever */
	notice_waiters(thr, cq);
	shca_async_wake(thr, cq->proc);
}

static void raise_floor(struct shca_cq *cq, uint64_t to)
{
	uint64_t floor = atomic_load(&cq->floor);

	while (floor < to && !atomic_compare_exchange_weak(&cq->floor, &floor, to))
		;
}

/* Whether there is room at position pos, where no completion was a moment ago; if not, the CQ is in error. */
static bool room(struct shca_thread *thr, struct shca_cq *cq, uint64_t pos)
{
	uint64_t size = 1ull << cq->log2, ci = atomic_load_explicit(&cq->ci, memory_order_acquire);
	uint32_t none = 0;

	if (pos - atomic_load(&cq->floor) < size)
		return true;
	/* another may have filled it, and the consumer gone further */
	if (!atomic_load(&cq->error) && (cq->flags & SHCA_CQ_IGNORE_OVERRUN || pos < ci || pos - ci < size)) {
		raise_floor(cq, cq->flags & SHCA_CQ_IGNORE_OVERRUN ? pos : ci);
		return true;
	}
	bool first = atomic_compare_exchange_strong(&cq->error, &none, SHCA_ERROR | SHCA_ERROR_EVENT);
	raise_floor(cq, SHCA_CQ_NO_ROOM);
	if (first) {
		SHCA_FAILPOINT(thr, "cq-overrun", NULL, 0);
		shca_cq_fail_users(thr, cq);
	}
	return false;
}

bool shca_cq_put(struct shca_thread *thr, struct shca_cq *cq, uint64_t pos, uint64_t w0, uint64_t w1, bool solicited)
{
	if (!shca_cq_sound(thr->m, cq))
		return false;
	for (struct shca_cq_spot spot; !shca_cq_look(thr, cq, pos, &spot) || !shca_cq_fill(&spot, w0, w1);) {
		pos = shca_cq_count_from(thr, cq, pos);
		if (!room(thr, cq, pos))
			return false;
	}
	shca_cq_placed(thr, cq, pos, solicited);
	return true;
}

void shca_cq_notice_again(struct shca_thread *thr, struct shca_cq *cq)
{
	shca_full_fence();
	shca_cq_notice(thr, cq, true);
	shca_note_write(thr, cq->proc);
}

int shca_cq_find(struct shca_thread *thr, struct shca_cq *cq, uint32_t from, uint32_t qpn, uint32_t index, bool recv)
{
	struct shca_cqe *ring = shca_cq_ring(thr, cq);
	uint64_t end = shca_cq_count(thr, cq), mask = (1ull << cq->log2) - 1;
	uint64_t n = (uint32_t)((uint32_t)end - from);

	bool round = n > mask + 1;

	if (round)
		n = mask + 1;
	for (uint64_t pos = end - n; pos != end; pos++) {
		uint64_t w0 = atomic_load_explicit(&ring[pos & mask].w0, memory_order_acquire);
		if (SHCA_CQE_QPN(w0) == qpn && SHCA_CQE_INDEX(w0) == (index & 0x7fff) &&
		    (SHCA_CQE_OP(w0) >= SHCA_OP_RECV) == recv)
			return 1;
	}
	return round ? -1 : 0;
}
