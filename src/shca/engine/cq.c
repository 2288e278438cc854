/* SPDX-License-Identifier: BSD-3-Clause */
/* Producing completions (I3). */
#include "shca/engine/engine.h"

/*
 * Returns how far a slot is ahead of position pos, whose lap is given. 0: pos is free; d > 0: positions pos to pos + d - 1 are
 * filled. A hint may be older than a whole lap (its writer was stopped); the lap in the slot tells by how much, if pos is not
 * below the floor.
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

#define STEPS 64u		/* steps to find a position, in addition to two lengths of the ring */
#define ROUNDS 16u		/* times that those steps were not enough: then producers do not fill this ring (I7) */
#define TRIES 65536u		/* to fill a slot */

/* count_from in this ring. */
static uint64_t walk(struct shca_cqe *ring, uint32_t log2, uint64_t pos, uint32_t *rounds)
{
	uint64_t mask = (1ull << log2) - 1;

	/* I7: laps that were scribbled over would lead round for ever. (Where producers fill laps meanwhile, the caller finds
	 * the slot filled and calls again.) */
	for (uint64_t n = 0; n <= 2 * mask + STEPS; n++) {
		uint64_t w0 = atomic_load_explicit(&ring[pos & mask].w0, memory_order_acquire);
		uint64_t d = slot_ahead(w0, pos, shca_cqe_lap(pos, log2), log2);

		if (!d)
			return pos;
		pos += d;
	}
	++*rounds;
	return pos;
}

/*
 * Returns how many completions there ever were: the first position from pos on that is not filled. There is no hole below it
 * (I3). So a slot of a later lap means that all positions up to that slot's are filled: one jump, then single steps for at most
 * a ring's length, apart from slots that producers fill meanwhile. The walk must not begin below the floor: laps are compared
 * modulo 0x7fff, and a walk from a hint older than so many laps would stop in the middle. A CQ in error has no room at any
 * position: its floor is no position, and no completion is put in.
 */
static uint64_t count_from(struct shca_thread *thr, struct shca_cq *cq, uint64_t pos, uint32_t *rounds)
{
	uint64_t floor = atomic_load_explicit(&cq->floor, memory_order_acquire);
	struct shca_cq_move to;

	if (unlikely(floor & SHCA_CQ_MOVING) && shca_cq_moved_to(thr, cq, &to))
		return walk(to.ring, to.log2, pos > to.first ? pos : to.first, rounds);
	uint64_t n = walk(shca_cq_ring(thr, cq), cq->log2, pos < floor && floor < SHCA_CQ_MOVING ? floor : pos, rounds);
	/* The walk may have gone over the end of a ring that is being replaced. */
	return unlikely(shca_cq_moving(cq)) && shca_cq_moved_to(thr, cq, &to) ? walk(to.ring, to.log2, to.first, rounds) : n;
}

uint64_t shca_cq_count_from(struct shca_thread *thr, struct shca_cq *cq, uint64_t pos)
{
	uint32_t rounds = 0;

	return count_from(thr, cq, pos, &rounds);
}

static void notify(struct shca_thread *thr, struct shca_cq *cq, bool solicited)
{
	uint64_t w = atomic_load_explicit(&cq->notify, memory_order_relaxed), to;

	do {
		if (!(w & (solicited ? SHCA_CQ_ARMED : SHCA_CQ_ARM_ANY)))
			return;
		/* an unread event stands for this completion, too */
		to = w & SHCA_CQ_EVENT ?
			     w & ~(uint64_t)SHCA_CQ_ARMED :
			     shca_cq_event(SHCA_CQ_EVENT_OWED, SHCA_CQ_EVENT_SEQ(w) + 1, thr->slot) | (w & SHCA_CQ_STAMPED);
	} while (!atomic_compare_exchange_weak(&cq->notify, &w, to));
	SHCA_FAILPOINT(thr, "event-raised", NULL, 0);
	if (!(w & SHCA_CQ_EVENT))
		shca_wake_note(thr, SHCA_WAKE_CHANNEL, shca_off_of(thr->m, cq));
}

/* I7: returns the table of WAITs that the word names; NULL: there can be none. */
static struct shca_waits *waits_at(struct shca_thread *thr, uint64_t word, uint32_t *log2)
{
	shca_off at = SHCA_WAITS_AT(word);
	struct shca_waits *w = shca_at_checked(thr->m, at, sizeof(*w));

	*log2 = w ? w->log2 : 0;
	return w && *log2 <= SHCA_WAITS_LOG2_MAX && shca_fits(thr->m, at, shca_waits_bytes(*log2)) ? w : NULL;
}

static void kick_number(struct shca_thread *thr, const struct shca_cq *cq, uint32_t qpn)
{
	const struct shca_qp *qp = shca_number_get(thr->m, qpn, SHCA_KIND_QP);

	/* The queue may be gone since. A queue that waits is of the CQ's process (run.c checks qp->proc). */
	if (qp && shca_owned(thr->m, qp, cq->proc))
		shca_kick(thr, shca_off_of(thr->m, qp));
}

/* Kicks the queues that wait for one of the `n` counts behind `after`. */
static void kick_waiting(struct shca_thread *thr, const struct shca_cq *cq, uint64_t word, uint64_t after, uint64_t n)
{
	uint32_t log2;
	struct shca_waits *w = waits_at(thr, word, &log2);

	if (!w)
		return;
	/* I7: `left` ends the walk of a cyclic chain. Of fewer counts than there are chains at most two are in one chain. */
	uint32_t chains = 1u << log2, left = 2 * chains;
	/* the chains of these counts, or all */
	for (uint64_t i = 0; i < n && i < chains; i++) {
		uint32_t chain = n < chains ? shca_waits_chain(after + 1 + i, log2) : (uint32_t)i;
		uint32_t e = atomic_load_explicit(&w->first[chain], memory_order_acquire);
		for (; e && e <= chains && left; left--) {
			struct shca_wait *x = shca_waits_entry(w, log2, e - 1);
			uint64_t count = atomic_load_explicit(&x->count, memory_order_acquire);
			uint32_t qpn = atomic_load_explicit(&x->qpn, memory_order_acquire);
			e = atomic_load_explicit(&x->next, memory_order_acquire);
			if (count - after - 1 < n)
				kick_number(thr, cq, qpn);
		}
	}
}

static void notice_waits(struct shca_thread *thr, struct shca_cq *cq)
{
	uint64_t word, now, noticed;

	do {
		word = atomic_load_explicit(&cq->waits, memory_order_acquire);
		noticed = atomic_load_explicit(&cq->noticed, memory_order_acquire);
		now = shca_cq_count(thr, cq);
		if (noticed >= now)
			return;
		kick_waiting(thr, cq, word, noticed, now - noticed);
		SHCA_FAILPOINT(thr, "waits-kicked", NULL, 0);
	} while (atomic_load_explicit(&cq->waits, memory_order_acquire) != word);
	shca_raise(&cq->noticed, now);
}

/* A CQ in error: kicks all queues that wait, because no completion comes any more. */
static void kick_all_waiting(struct shca_thread *thr, struct shca_cq *cq)
{
	uint64_t word;

	do {
		word = atomic_load_explicit(&cq->waits, memory_order_acquire);
		kick_waiting(thr, cq, word, 0, UINT64_MAX);
	} while (atomic_load_explicit(&cq->waits, memory_order_acquire) != word);
}

void shca_cq_expect(struct shca_thread *thr, struct shca_cq *cq)
{
	uint64_t next = atomic_load_explicit(&cq->tail, memory_order_relaxed) + 1;
	uint32_t log2;
	struct shca_waits *w = waits_at(thr, atomic_load_explicit(&cq->waits, memory_order_acquire), &log2);
	uint32_t e = w ? atomic_load_explicit(&w->first[shca_waits_chain(next, log2)], memory_order_acquire) : 0;

	if (!e || e > 1u << log2)
		return;
	struct shca_wait *x = shca_waits_entry(w, log2, e - 1);
	const struct shca_qp *qp = shca_number_get(thr->m, atomic_load_explicit(&x->qpn, memory_order_relaxed), SHCA_KIND_QP);
	/* hints: a prefetch of a wrong line does no harm */
	if (qp && atomic_load_explicit(&x->count, memory_order_relaxed) == next)
		lines_fetch_own(&qp->lock);
}

void shca_cq_notice(struct shca_thread *thr, struct shca_cq *cq, bool solicited)
{
	notify(thr, cq, solicited);
	if (shca_cq_awaited(cq))
		notice_waits(thr, cq);
}

/* Notes the time of the completion at this position. The slot may have been polled and used again since, if this thread was
 * stopped: then the lap in the word is not the completion's, and the completion has no time. */
static void stamp(struct shca_thread *thr, struct shca_cq *cq, uint64_t pos)
{
	struct shca_cq_move to = {.ring = shca_cq_ring(thr, cq), .log2 = cq->log2};

	/* The owner quiesces before it writes `ring` and `log2`, so these two belong together; a completion of the old ring may
	 * have been copied without its time. */
	if (shca_cq_moving(cq) && (!shca_cq_moved_to(thr, cq, &to) || pos < to.first))
		return;
	/* I7: the seal of a ring that is not being replaced covers the times; a move's does not */
	shca_off at = shca_off_of(thr->m, to.ring) + (sizeof(struct shca_cqe) << to.log2);
	if (shca_fits(thr->m, at, sizeof(uint64_t) << to.log2))
		atomic_store_explicit(&shca_cq_stamps(to.ring, to.log2)[pos & ((1ull << to.log2) - 1)],
				      shca_stamp(shca_clock_ns(), shca_cqe_lap(pos, to.log2)), memory_order_release);
}

void shca_cq_notice_at(struct shca_thread *thr, struct shca_cq *cq, uint64_t pos, bool solicited)
{
	if (atomic_load_explicit(&cq->notify, memory_order_relaxed) & SHCA_CQ_STAMPED)
		stamp(thr, cq, pos);
	shca_cq_notice(thr, cq, solicited);
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
	uint32_t owner = cq->proc & (SHCA_MAX_PROCS - 1);	/* I7 */

	shca_for_each_qp(m, qp, owner)
		if ((qp->rcq == off || qp->scq == off) && atomic_load(&qp->qp_state) != IBV_QPS_RESET)
			shca_qp_fail_once(thr, qp, IBV_EVENT_QP_FATAL);
	shca_for_each_listed(m, shca_rq, rq, owner, srq_list) {
		uint32_t none = 0;
		if (rq->cq == off)
			atomic_compare_exchange_strong(&rq->error, &none, SHCA_ERROR | SHCA_ERROR_EVENT);
	}
	kick_all_waiting(thr, cq);
	shca_async_wake(thr, cq->proc);
}

/* A completion finds no room. */
static void overrun(struct shca_thread *thr, struct shca_cq *cq)
{
	uint32_t none = 0;
	bool first = atomic_compare_exchange_strong(&cq->error, &none, SHCA_ERROR | SHCA_ERROR_EVENT);

	atomic_fetch_or(&cq->floor, SHCA_CQ_NO_ROOM);
	if (first) {
		SHCA_FAILPOINT(thr, "cq-overrun", NULL, 0);
		shca_cq_fail_users(thr, cq);
	}
}

/* Returns whether there is room at position pos, which was free a moment ago; if not, the CQ is in error. */
static bool room(struct shca_thread *thr, struct shca_cq *cq, uint64_t pos)
{
	uint64_t size = 1ull << cq->log2, ci = atomic_load_explicit(&cq->ci, memory_order_acquire),
		 floor = atomic_load(&cq->floor);

	/* of a ring that is being replaced the caller finds the new one */
	if (pos - floor < size || floor & SHCA_CQ_MOVING)
		return true;
	/* another producer may have filled pos, and the consumer polled further */
	if (!atomic_load(&cq->error) && (cq->flags & SHCA_CQ_IGNORE_OVERRUN || pos < ci || pos - ci < size)) {
		shca_raise(&cq->floor, cq->flags & SHCA_CQ_IGNORE_OVERRUN ? pos : ci);
		return true;
	}
	overrun(thr, cq);
	return false;
}

/* shca_cq_put while the ring is being replaced: into the new one. The slots of unread completions are the
 * owner's, which copies them. */
static bool put_moving(struct shca_thread *thr, struct shca_cq *cq, const struct shca_cq_move *to, uint64_t pos, uint64_t w0,
		       uint64_t w1, bool solicited)
{
	struct shca_cq_spot spot;
	uint32_t rounds = 0, tries = 0;

	if (pos < to->first)
		pos = to->first;
	for (;;) {
		uint64_t ci = atomic_load_explicit(&cq->ci, memory_order_acquire);
		bool empty = shca_cq_look_at(to->ring, to->log2, pos, &spot);
		/* read behind the look: completions polled since only make more room */
		if (empty && pos - (ci > to->low ? ci : to->low) >= 1ull << to->log2) {
			overrun(thr, cq);
			return false;
		}
		if (empty && shca_cq_fill(&spot, w0, w1))
			break;
		pos = walk(to->ring, to->log2, pos, &rounds);
		if (rounds == ROUNDS || tries++ == TRIES || shca_cq_in_error(cq))
			return false;
	}
	shca_cq_placed(thr, cq, pos, solicited);
	return true;
}

bool shca_cq_put(struct shca_thread *thr, struct shca_cq *cq, uint64_t pos, uint64_t w0, uint64_t w1, bool solicited)
{
	if (!shca_cq_sound(thr->m, cq))
		return false;
	struct shca_cq_spot spot;
	uint32_t rounds = 0, tries = 0;
	while (!shca_cq_look(thr, cq, pos, &spot) || !shca_cq_fill(&spot, w0, w1)) {
		struct shca_cq_move to;
		if (shca_cq_moving(cq) && shca_cq_moved_to(thr, cq, &to))
			return put_moving(thr, cq, &to, pos, w0, w1, solicited);
		pos = count_from(thr, cq, pos, &rounds);
		/* I7: producers do not overtake this one so many times: positions were scribbled over */
		if (rounds == ROUNDS || tries++ == TRIES || !room(thr, cq, pos))
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

/* shca_cq_find from position pos up to end, of which the ring has the last ones. */
static int cqe_find_in(struct shca_cqe *ring, uint32_t log2, uint64_t pos, uint64_t end, uint32_t qpn, uint32_t index,
		       bool recv)
{
	uint64_t mask = (1ull << log2) - 1;
	bool round = end - pos > mask + 1;

	for (pos = round ? end - mask - 1 : pos; pos != end; pos++) {
		uint64_t w0 = atomic_load_explicit(&ring[pos & mask].w0, memory_order_acquire);
		if (SHCA_CQE_QPN(w0) == qpn && SHCA_CQE_INDEX(w0) == (index & 0x7fff) &&
		    (SHCA_CQE_OP(w0) >= SHCA_OP_RECV) == recv)
			return 1;
		/* not copied from an earlier ring: it had been polled */
		round |= !w0;
	}
	return round ? -1 : 0;
}

int shca_cq_find(struct shca_thread *thr, struct shca_cq *cq, uint32_t from, uint32_t qpn, uint32_t index, bool recv)
{
	uint64_t end = shca_cq_count(thr, cq), pos = end - (uint32_t)((uint32_t)end - from);
	struct shca_cq_move to;

	if (likely(!shca_cq_moving(cq)) || !shca_cq_moved_to(thr, cq, &to))
		return cqe_find_in(shca_cq_ring(thr, cq), cq->log2, pos, end, qpn, index, recv);
	/* The old ring first. If the owner writes `ring` and `log2` meanwhile, the owner has copied the unread completions. */
	bool before = pos < to.first;
	if (before && cqe_find_in(shca_cq_ring(thr, cq), cq->log2, pos, to.first, qpn, index, recv) == 1)
		return 1;
	int found = cqe_find_in(to.ring, to.log2, pos, end, qpn, index, recv);
	return before && !found ? -1 : found;
}
