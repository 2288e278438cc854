/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A CQ's ring is replaced (ibv_resize_cq) while producers of any process put completions in. No producer waits: not for the
 * owner, which may be stopped or die in the middle, and not for another producer.
 *
 *     old ring   ... c c c c c M          c: completions, M: SHCA_OP_MOVED at position `first`
 *     new ring         c c c c c n n      c: unread ones, copied by the owner; n: put in by producers, from `first` on
 *
 *  1. The owner writes move_*, then sets SHCA_CQ_MOVING in `floor` (verbs/objects/cq.c). From then on shca_cq_look fails, for
 *     each thread that reads `floor` behind that store, and the producer asks shca_cq_moved_to.
 *  2. shca_cq_moved_to ends the old ring, whichever thread comes first: that thread fills the next free slot by SHCA_OP_MOVED,
 *     with the same compare-and-swap as for a completion. A producer that read `floor` before 1 fills that slot first, or fails
 *     and looks again. If the old ring has no room for more, `first` is the position at which the old ring is full: the earlier
 *     `floor`, plus the ring's length.
 *  3. Producers put completions into the new ring, from `first` on. The owner copies the unread ones, and polls the new ring.
 *  4. The owner quiesces, writes `ring`, quiesces, writes `log2` (the smaller ring's first), quiesces, clears SHCA_CQ_MOVING,
 *     quiesces, frees the old ring.
 *
 * Invariant: a thread that takes position and ring for a completion has read `tail` first, then `ring` and `log2`, then `floor`
 * without SHCA_CQ_MOVING; so `ring` and `log2` belong together, and `tail` is a position of that ring. What breaks without:
 *  - without the first quiesce of 4: a thread that has read `floor` before 1 (shca_cq_find, stamp) takes `ring` of the new ring
 *    and `log2` of the old one;
 *  - without the other quiesces: a producer reads `ring` of the new ring and `log2` of the old one, is delayed, reads `floor`
 *    when SHCA_CQ_MOVING is gone, and puts its completion into a slot that the owner polls much later, or reads beyond the
 *    shorter ring;
 *  - without SHCA_OP_MOVED: a producer that has read `floor` before 1 puts a completion into the old ring that the
 *    owner has copied already.
 *
 * Whether the unread completions fit a smaller ring is known when `first` is, and each thread comes to the same answer: if not,
 * they go to the spare ring, which is as long as the old one, and ibv_resize_cq is refused.
 */
#include "shca/engine/engine.h"

#define CQ_LOG2_MAX 22u			/* SHCA_MAX_CQE */

bool shca_cq_sound_moving(const struct shca_member *m, const struct shca_cq *cq)
{
	/* I7: `ring` and `log2` are not used while SHCA_CQ_MOVING is set, but for a look whose result does not count: they must
	 * be such that this look stays in the fabric. */
	if (atomic_load_explicit(&cq->floor, memory_order_acquire) & SHCA_CQ_MOVING) {
		uint32_t log2 = __atomic_load_n(&cq->log2, __ATOMIC_ACQUIRE);
		return log2 <= CQ_LOG2_MAX &&
		       shca_fits(m, __atomic_load_n(&cq->ring, __ATOMIC_ACQUIRE), sizeof(struct shca_cqe) << log2);
	}
	/* the owner may have been through between the caller's look at the seal and this one */
	return __atomic_load_n(&cq->seal, __ATOMIC_ACQUIRE) == shca_cq_seal(m, cq) && cq->end <= m->bytes;
}

/* I7: returns the ring that a word names; NULL: none. */
static struct shca_cqe *ring_of(struct shca_thread *thr, uint64_t word, uint32_t *log2)
{
	shca_off at = word & ~(uint64_t)63;

	*log2 = word & 63;
	return at && *log2 <= CQ_LOG2_MAX && shca_fits(thr->m, at, sizeof(struct shca_cqe) << *log2) ? shca_at(thr->base, at) :
												       NULL;
}

/* Ends the old ring. floor: as it was. Returns move_first; 0: the slots cannot be right (I7). */
static uint64_t settle(struct shca_thread *thr, struct shca_cq *cq, uint64_t floor)
{
	uint64_t pos = atomic_load_explicit(&cq->tail, memory_order_acquire), done;
	shca_off at = __atomic_load_n(&cq->ring, __ATOMIC_ACQUIRE);
	uint32_t log2 = __atomic_load_n(&cq->log2, __ATOMIC_ACQUIRE);
	struct shca_cq_spot spot;

	/* Behind those three: only if `first` is not known yet are they the old ring's. */
	done = atomic_load_explicit(&cq->move_first, memory_order_acquire);
	if (done & SHCA_CQ_SETTLED)
		return done;
	struct shca_cqe *ring = ring_of(thr, at | log2, &log2);
	uint64_t end = floor + (1ull << log2);
	if (!ring)
		return 0;
	if (pos < floor || pos > end)
		pos = floor;
	while (pos < end) {
		if (shca_cq_look_at(ring, log2, pos, &spot)) {
			SHCA_FAILPOINT(thr, "cq-settle", NULL, 0);
			if (shca_cq_fill(&spot, shca_cqe_w0(SHCA_OP_MOVED, 0, 0, 0), 0))
				break;
			continue;
		}
		if (SHCA_CQE_LAP(spot.w0) != spot.lap)
			return 0;
		if (SHCA_CQE_OP(spot.w0) == SHCA_OP_MOVED)
			break;
		pos++;
	}
	SHCA_FAILPOINT(thr, "cq-settled", NULL, 0);
	done = pos | SHCA_CQ_SETTLED;
	atomic_store_explicit(&cq->move_first, done, memory_order_release);
	return done;
}

bool shca_cq_moved_to(struct shca_thread *thr, struct shca_cq *cq, struct shca_cq_move *to)
{
	uint64_t floor = atomic_load_explicit(&cq->floor, memory_order_acquire);
	if (!(floor & SHCA_CQ_MOVING))
		return false;
	uint64_t first = settle(thr, cq, floor & ~(SHCA_CQ_MOVING | SHCA_CQ_NO_ROOM));

	to->first = first & ~SHCA_CQ_SETTLED;
	to->low = atomic_load_explicit(&cq->move_low, memory_order_relaxed);
	to->ring = ring_of(thr, atomic_load_explicit(&cq->move_ring, memory_order_relaxed), &to->log2);
	to->spare = to->ring && to->first - to->low > 1ull << to->log2;
	if (to->spare)
		to->ring = ring_of(thr, atomic_load_explicit(&cq->move_spare, memory_order_relaxed), &to->log2);
	return first && to->ring;
}
