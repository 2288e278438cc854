/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The ring of a shared receive queue is replaced by a larger one (ibv_modify_srq, verbs/objects/srq_resize.c) while executors of
 * any process take receives. No taker waits: not for the owner, which may be stopped or die in the middle, and not for another
 * taker. Posted receives keep their position and index.
 *
 *     old ring   T T P P P M M M          T: taken, P: POSTED, M: MOVED
 *     new ring   . . . . . P P P P P      the moved ones, the last first; behind them the receives that are posted meanwhile
 *
 *  1. The owner, which posts nothing meanwhile, makes the new ring and stores `newest`. From the last posted receive back to the
 *     first: the owner copies the segments, writes the new ring's entry and COMING; a compare-and-swap of the old word from
 *     POSTED to MOVED moves the receive. If that fails the receive was taken, and stays in the old ring; else COMING becomes
 *     POSTED, by the owner or by a taker that comes first.
 *  2. The owner posts into the new ring. A taker looks at the SRQ's own fields, the old ring; if no receive is POSTED there the
 *     taker looks at `newest`, and then at the new ring.
 *  3. The owner stores `none` as the SRQ's ring, so that takers find no receive there; quiesces; writes wqes, marks, log2, end
 *     and seal of the new ring; and then the new ring. `newest` stays.
 *
 * A receive that was taken in the old ring stays there until its completion is polled: the new ring's word is OLDER, until the
 * receive is posted again. So old rings remain, with their memory, until the SRQ is destroyed. A ring is replaced only when it
 * must become longer than any before, so all old rings together are no longer than the newest.
 *
 * Invariant: at any time the receives that can be taken are those from one position on up to `tail`, and each of
 * them can be taken from one ring only: the old one if its word there is POSTED, the new one if its word there is
 * MOVED. What breaks without:
 *  - from the first to the last: taker A finds position 5 MOVED, takes 6 in the old ring, stores head = 7; no taker comes to 5
 *    any more. From the last to the first, a taker that has seen 5 MOVED sees 6 MOVED, too;
 *  - POSTED in the new ring before MOVED in the old: taker A takes 5 in the old ring, and is delayed before it stores head = 6;
 *    taker B finds the old ring empty, and takes 5 in the new one, before the owner's compare-and-swap has failed;
 *  - MOVED before COMING: 5 is in no ring; taker A takes 6 in the new ring, and no taker comes to 5 any more; or 5 is the only
 *    receive, and a requester without RNR retries fails;
 *  - without `none` or the quiesce of 3: taker A reads an index of the old ring and `wqes` of the new one.
 */
#include "shca/engine/engine.h"

#define RINGS (SHCA_RQ_LOG2_MAX + 2u)	/* rings of an SRQ, at most */

bool shca_rq_empty_sound(const struct shca_member *m, const struct shca_rq *rq, uint64_t ring)
{
	/* other fields are not used before there is a ring */
	return ring == shca_off_of(m, &rq->none) && __atomic_load_n(&rq->log2, __ATOMIC_RELAXED) <= SHCA_RQ_LOG2_MAX &&
	       shca_owned(m, rq, rq->proc);
}

struct shca_rq *shca_rq_newest(const struct shca_member *m, struct shca_rq *rq)
{
	shca_off at = atomic_load_explicit(&rq->newest, memory_order_acquire);
	struct shca_rq *in = at ? shca_rq_at(m, at) : NULL;

	return in && in->whose == shca_off_of(m, rq) && in->proc == rq->proc && in->stride == rq->stride ? in : rq;	/* I7 */
}

static struct shca_rwqe *rwqe_of(const struct shca_member *m, const struct shca_rq *in, uint32_t index)
{
	return shca_at(m->base, in->wqes + (uint64_t)index * in->stride);
}

/* Returns whether the receive at index, with this word, is to be looked for in the older ring. */
static bool in_older(uint64_t word)
{
	uint64_t taker = word & 0x3ffffff;

	return taker == shca_rword(SHCA_R_IDLE, SHCA_R_OLDER, 0) || taker == shca_rword(SHCA_R_IDLE, SHCA_R_COMING, 0);
}

static struct shca_rq *older_of(const struct shca_member *m, const struct shca_rq *in)
{
	struct shca_rq *older = in->older ? shca_rq_at(m, in->older) : NULL;

	return older && older->stride == in->stride ? older : NULL;	/* I7 */
}

struct shca_rq *shca_rq_of_index(const struct shca_member *m, struct shca_rq *newest, uint32_t index)
{
	struct shca_rq *in = newest;

	for (uint32_t n = 0; in && n < RINGS; n++, in = older_of(m, in)) {
		if (!shca_rq_made(m, in) || index >= 1u << in->log2)
			return NULL;
		if (!in_older(atomic_load_explicit(&rwqe_of(m, in, index)->word, memory_order_acquire)))
			return in;
	}
	return NULL;
}

void shca_rwqe_arrive(const struct shca_member *m, struct shca_rq *in, uint32_t index, uint64_t pos)
{
	struct shca_rq *older;
	uint64_t coming = shca_rword(SHCA_R_IDLE, SHCA_R_COMING, pos);
	struct shca_rwqe *w = rwqe_of(m, in, index);

	if (atomic_load_explicit(&w->word, memory_order_acquire) != coming || !(older = older_of(m, in)) ||
	    index >= 1u << older->log2)
		return;
	if (atomic_load_explicit(&rwqe_of(m, older, index)->word, memory_order_acquire) ==
	    shca_rword(SHCA_R_IDLE, SHCA_R_MOVED, pos))
		atomic_compare_exchange_strong(&w->word, &coming, shca_rword(SHCA_R_POSTED, 0, pos));
}

void shca_rwqe_copy(struct shca_rwqe *to, const struct shca_rwqe *from, uint32_t stride)
{
	to->revoke_epoch = from->revoke_epoch;
	to->nsge = from->nsge;
	to->bad = from->bad;
	memcpy(to->sge, from->sge, stride - sizeof(*from));
}

/* Moves the receive at this position to the new ring, unless an executor has taken the receive. */
static void move_one(struct shca_thread *thr, struct shca_rq *from, struct shca_rq *to, uint64_t pos)
{
	uint64_t mask, to_mask, posted = shca_rword(SHCA_R_POSTED, 0, pos);
	_Atomic uint64_t *ring = shca_rq_ring(thr, from, &mask), *to_ring = shca_rq_ring(thr, to, &to_mask);
	uint64_t e = atomic_load_explicit(&ring[pos & mask], memory_order_relaxed);
	uint32_t index = e & mask & 0xffffff;
	struct shca_rwqe *w = shca_rwqe_at(thr, from, index), *to_w = shca_rwqe_at(thr, to, index);

	if (e >> 24 != (pos & SHCA_POS_MASK) || atomic_load_explicit(&w->word, memory_order_acquire) != posted)
		return;
	shca_rwqe_copy(to_w, w, from->stride);
	atomic_store_explicit(&to_w->word, shca_rword(SHCA_R_IDLE, SHCA_R_COMING, pos), memory_order_release);
	atomic_store_explicit(&to_ring[pos & to_mask], (pos & SHCA_POS_MASK) << 24 | index, memory_order_release);
	SHCA_FAILPOINT(thr, "rq-move-coming", NULL, 0);
	if (!atomic_compare_exchange_strong(&w->word, &posted, shca_rword(SHCA_R_IDLE, SHCA_R_MOVED, pos))) {
		atomic_store_explicit(&to_w->word, shca_rword(SHCA_R_IDLE, SHCA_R_OLDER, 0), memory_order_release);
		return;
	}
	SHCA_FAILPOINT(thr, "rq-move-one", NULL, 0);
	shca_rwqe_arrive(thr->m, to, index, pos);
}

void shca_rq_move(struct shca_thread *thr, struct shca_rq *rq, struct shca_rq *from, struct shca_rq *to)
{
	uint64_t tail = atomic_load_explicit(&rq->tail, memory_order_relaxed), mask, to_mask;
	_Atomic uint64_t *marks = shca_at(thr->base, from->marks), *to_marks = shca_at(thr->base, to->marks);
	_Atomic uint64_t *to_ring;

	shca_rq_ring(thr, from, &mask);
	to_ring = shca_rq_ring(thr, to, &to_mask);
	/* No slot is empty: each has a position below `tail` whose receive, that at index 0, is not POSTED there. So a taker
	 * with an old hint comes forward, and a taker at `tail` finds an earlier lap. */
	for (uint64_t pos = tail - to_mask - 1; pos != tail; pos++)
		atomic_store_explicit(&to_ring[pos & to_mask], (pos & SHCA_POS_MASK) << 24, memory_order_relaxed);
	for (uint64_t i = 0; i <= mask; i++) {
		atomic_store_explicit(&to_marks[i], atomic_load_explicit(&marks[i], memory_order_relaxed), memory_order_relaxed);
		atomic_store_explicit(&shca_rwqe_at(thr, to, (uint32_t)i)->word, shca_rword(SHCA_R_IDLE, SHCA_R_OLDER, 0),
				      memory_order_relaxed);
	}
	SHCA_FAILPOINT(thr, "rq-move-written", NULL, 0);
	atomic_store_explicit(&rq->newest, shca_off_of(thr->m, to), memory_order_release);
	SHCA_FAILPOINT(thr, "rq-move-begun", NULL, 0);
	for (uint64_t pos = tail; pos-- != tail - mask - 1;)
		move_one(thr, from, to, pos);
}
