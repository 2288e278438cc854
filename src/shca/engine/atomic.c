/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Atomic operations: the computation, and how they are atomic towards each other.
 *
 *   up to 8 bytes in the arena   CPU atomics on the 8-byte word that holds them
 *   private memory               read, modify, write under the lock of the 256-byte block
 *   wide, of 16 to 256 bytes     the same, as a whole: aligned to their size, and so within one block
 *
 * Once a queue of the fabric was made for wide atomics, narrow atomics in the arena take the lock of their block as well, or a
 * wide atomic would not be atomic towards narrow ones (shca_atomics_widen). Words are stored one by one, so a wide atomic is not
 * atomic towards loads of a CPU or an RDMA READ; each of its words is.
 *
 * A wide atomic whose executor dies is never half done: the holder of a lock journals the words that it will store, and the
 * thread that takes the lock over from a dead holder stores the words again, if the region is still there. No other thread has
 * changed the block meanwhile: all need the lock.
 */
#include <errno.h>
#include <sched.h>

#include "shca/engine/access.h"
#include "shca/engine/atomic.h"

/* Manual, appendix B: one fetch-and-add on many fields; no carry crosses a boundary bit. */
static uint64_t masked_add(uint64_t a, uint64_t b, uint64_t boundary)
{
	uint64_t top = boundary | 1ull << 63;
	/* add without the top bit of each field, then add the top bits without carry */
	return ((a & ~top) + (b & ~top)) ^ ((a ^ b) & top);
}

static inline uint32_t words_of(const struct shca_atomic *a)
{
	return a->size > 8 ? a->size / 8 : 1;
}

/* Computes the memory after the atomic. Operands of 4 bytes are the low half of a word. */
static inline void result_of(const struct shca_atomic *a, const uint64_t *old, uint64_t *new)
{
	uint32_t n = words_of(a);

	if (a->add) {
		for (uint32_t i = 0; i < n; i++)
			new[i] = a->size == 4 ? (uint32_t)masked_add(old[i], a->v[0][i], a->v[1][i] | 1u << 31) :
						masked_add(old[i], a->v[0][i], a->v[1][i]);
		return;
	}
	uint64_t differs = 0;
	for (uint32_t i = 0; i < n; i++)
		differs |= (old[i] ^ a->v[SHCA_COMPARE][i]) & a->v[SHCA_COMPARE_MASK][i];
	for (uint32_t i = 0; i < n; i++) {
		uint64_t mask = differs ? 0 : a->v[SHCA_SWAP_MASK][i];
		new[i] = (old[i] & ~mask) | (a->v[SHCA_SWAP][i] & mask);
	}
}

/* Does an atomic of at most 8 bytes in the arena. Of a 4-byte atomic the other half of the word is stored as it was found. */
static uint64_t in_arena(struct shca_thread *thr, uint64_t where, const struct shca_atomic *a)
{
	_Atomic uint64_t *word = shca_at(thr->base, where & ~7ull);
	uint64_t seen = atomic_load_explicit(word, memory_order_relaxed), old, new;

	if (a->size == 8) {
		if (a->add && !(a->v[1][0] & ~(1ull << 63)))
			return atomic_fetch_add(word, a->v[0][0]);
		do
			result_of(a, &seen, &new);
		while (!atomic_compare_exchange_weak(word, &seen, new));
		return seen;
	}
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
	unsigned shift = (where & 4) * 8;
#else
	unsigned shift = (~where & 4) * 8;
#endif
	do {
		old = (uint32_t)(seen >> shift);
		result_of(a, &old, &new);
		new = (seen & ~(0xffffffffull << shift)) | (uint64_t)(uint32_t)new << shift;
	} while (!atomic_compare_exchange_weak(word, &seen, new));
	return old;
}

/* ---- under a lock --------------------------------------------------------------------------------------------------- */

/* Returns the address in the arena; NULL: private memory. */
static char *in_fabric(const struct shca_thread *thr, const struct shca_seg *seg)
{
	return seg->lane == SHCA_LANE_ARENA ? thr->base + seg->where : NULL;
}

static int load_words(struct shca_thread *thr, uint32_t proc, const struct shca_seg *seg, uint64_t *v)
{
	const char *p = in_fabric(thr, seg);
	bool src_err;

	if (p && seg->len == 4) {
		v[0] = __atomic_load_n((const uint32_t *)p, __ATOMIC_ACQUIRE);
	} else if (p) {
		for (uint32_t i = 0; i < seg->len / 8; i++)
			v[i] = __atomic_load_n((const uint64_t *)p + i, __ATOMIC_ACQUIRE);
	} else {
		uint32_t half;
		struct shca_seg here = {.where = (uintptr_t)v, .len = seg->len, .lane = SHCA_LANE_CMA};
		struct shca_iov src = {.proc = proc, .seg = seg, .n = 1}, dst = {.proc = SHCA_HERE, .seg = &here, .n = 1};
		if (seg->len == 4)
			here.where = (uintptr_t)&half;
		int rc = shca_copy(thr, &dst, &src, seg->len, SHCA_ANY_ORDER, &src_err);
		if (rc)
			return rc;
		if (seg->len == 4)
			v[0] = half;
	}
	return 0;
}

static int store_words(struct shca_thread *thr, uint32_t proc, const struct shca_seg *seg, const uint64_t *v)
{
	char *p = in_fabric(thr, seg);
	uint32_t half = (uint32_t)v[0];

	if (p && seg->len == 4) {
		__atomic_store_n((uint32_t *)p, half, __ATOMIC_RELEASE);
	} else if (p) {
		for (uint32_t i = 0; i < seg->len / 8; i++) {
			__atomic_store_n((uint64_t *)p + i, v[i], __ATOMIC_RELEASE);
			if (!i)
				SHCA_FAILPOINT(thr, "atomic-half", NULL, 0);
		}
	} else {
		struct shca_iov dst = {.proc = proc, .seg = seg, .n = 1};
		return shca_copy_to(thr, &dst, seg->len == 4 ? (const void *)&half : v, seg->len, SHCA_ANY_ORDER);
	}
	return 0;
}

static struct shca_atomic_journal *journal_of(struct shca_thread *thr, uint32_t lock)
{
	return (struct shca_atomic_journal *)shca_at(thr->base, thr->m->hdr->atomic_journals) + lock;
}

/* Returns whether the region of a dead holder's store is still the region of that time. If not, the owner may use the memory for
 * something else: a quiesce does not wait for dead threads. */
static bool still_there(const struct shca_member *m, const struct shca_atomic_journal *j, const struct shca_seg *seg)
{
	const struct shca_mr *mr = shca_mr_entry(m, j->region);

	if (!mr || !(atomic_load(&mr->key) | atomic_load(&mr->bound)) ||
	    atomic_load_explicit(&mr->version, memory_order_acquire) != j->version || mr->proc != j->proc ||
	    (seg->lane == SHCA_LANE_ARENA && !shca_fits(m, seg->where, seg->len)))
		return false;
	return mr->implicit || (mr->lane == seg->lane && shca_within(mr->where, mr->length, seg->where, seg->len));
}

/* Stores again the words that a dead holder was storing. Must: the caller has the lock. */
static void atomic_finish(struct shca_thread *thr, uint32_t lock)
{
	struct shca_atomic_journal *j = journal_of(thr, lock);
	uint32_t bytes = atomic_load_explicit(&j->bytes, memory_order_acquire);
	struct shca_seg seg = {.where = j->where, .len = bytes, .lane = j->lane};

	/* the memory may be a third process's: a process that takes the region away from now on waits for this thread (I8) */
	shca_epoch_widen(thr);
	/* I7 */
	if (bytes >= 8 && bytes <= SHCA_ATOMIC_MAX && !((bytes | seg.where) & 7) && still_there(thr->m, j, &seg))
		store_words(thr, j->proc & (SHCA_MAX_PROCS - 1), &seg, j->value);
	atomic_store_explicit(&j->bytes, 0, memory_order_release);
}

void shca_atomic_take_over(struct shca_thread *thr, uint32_t lock, uint32_t holder)
{
	_Atomic uint32_t *word = &thr->m->hdr->atomic_locks[lock];

	if (!atomic_compare_exchange_strong(word, &holder, thr->slot + 1))
		return;
	atomic_finish(thr, lock);
	atomic_store_explicit(word, 0, memory_order_release);
}

/* Takes the lock over if the holder is dead. Behind shca_epoch_widen the dead process's reaper waits for this thread before the
 * holder's number gets another user: so either the reaper has not come to this lock, or the lock is no more the holder's. A
 * store that the holder had asked of a proxy must not come later, so that is cancelled first. */
static void succeed(struct shca_thread *thr, uint32_t lock, uint32_t holder, uint32_t owner)
{
	shca_epoch_widen(thr);
	if (atomic_load(&thr->m->hdr->atomic_locks[lock]) == holder &&
	    shca_thread_owner(thr->m, holder - 1) == owner && shca_proc_gone(thr->m, owner - 1) &&
	    shca_proxy_cancel(thr, owner - 1))
		shca_atomic_take_over(thr, lock, holder);
}

static void atomic_lock(struct shca_thread *thr, uint32_t lock)
{
	_Atomic uint32_t *word = &thr->m->hdr->atomic_locks[lock];

	for (uint64_t spins = 1;; spins++) {
		uint32_t holder = 0;
		if (atomic_compare_exchange_weak(word, &holder, thr->slot + 1))
			return;
		/* I7: a holder number that is no thread's has no process */
		uint32_t owner = holder && !(spins & 0xffff) ? shca_thread_owner(thr->m, holder - 1) : 0;
		if (owner && shca_proc_gone(thr->m, owner - 1))
			succeed(thr, lock, holder, owner);
		else if (owner && shca_proc_dying(thr->m, owner - 1))
			shca_look(thr->m);
		if (!(spins & 0xff)) {
			sched_yield();
			shca_proxy_serve(thr->m);
		}
	}
}

static int atomic_locked(struct shca_thread *thr, uint32_t lock, const struct shca_atomic_place *at,
			 const struct shca_atomic *a, uint64_t *old)
{
	struct shca_atomic_journal *j = journal_of(thr, lock);
	uint64_t new[SHCA_ATOMIC_MAX / 8];
	int rc = load_words(thr, at->proc, &at->seg, old);

	if (rc)
		return rc;
	result_of(a, old, new);
	SHCA_FAILPOINT(thr, "atomic-locked", NULL, 0);
	if (a->size <= 8)
		return store_words(thr, at->proc, &at->seg, new);
	j->proc = at->proc;
	j->lane = at->seg.lane;
	j->where = at->seg.where;
	j->region = at->ground.index;
	j->version = at->ground.version;
	memcpy(j->value, new, a->size);
	atomic_store_explicit(&j->bytes, a->size, memory_order_release);
	SHCA_FAILPOINT(thr, "atomic-journaled", NULL, 0);
	rc = store_words(thr, at->proc, &at->seg, new);
	SHCA_FAILPOINT(thr, "atomic-stored", NULL, 0);
	atomic_store_explicit(&j->bytes, 0, memory_order_release);
	return rc;
}

int shca_atomic(struct shca_thread *thr, const struct shca_atomic_place *at, const struct shca_atomic *a, uint64_t *old)
{
	bool arena = at->seg.lane == SHCA_LANE_ARENA;
	uint64_t where = at->seg.where;
	int rc = 0;

	if (likely(arena && a->size <= 8 && !atomic_load_explicit(&thr->m->hdr->wide_atomics, memory_order_relaxed))) {
		*old = in_arena(thr, where, a);
		return 0;
	}
	uint64_t h = (where / SHCA_ATOMIC_MAX) * 0x9e3779b97f4a7c15ull + (arena ? 0 : (at->proc + 1) * 0xc2b2ae3d27d4eb4full);
	uint32_t lock = (uint32_t)(h >> 56);
	atomic_lock(thr, lock);
	if (arena && a->size <= 8)
		*old = in_arena(thr, where, a);
	else
		rc = atomic_locked(thr, lock, at, a, old);
	atomic_store_explicit(&thr->m->hdr->atomic_locks[lock], 0, memory_order_release);
	return rc;
}

void shca_atomics_widen(struct shca_thread *thr)
{
	_Atomic uint32_t *wide = &thr->m->hdr->wide_atomics;

	if (atomic_load(wide) == 2)
		return;
	/* a thread inside the engine may not have seen 1; of several callers at a time each waits by itself */
	if (!atomic_load(wide))
		atomic_store(wide, 1);
	shca_quiesce(thr, SHCA_EVERYBODY);
	atomic_store(wide, 2);
}
