/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Hashed locks of a window's member, for accumulates that no atomic instruction of the CPU can carry out. A lock word is 0, or
 * names its holder: rank in the window + 1, with HDL_HASHED_AWAITED if some process sleeps until the release. Pure functions on
 * words; acc.c waits.
 *
 *     waiter                                        holder
 *     word |= AWAITED, if its holder is the same    word = 0 (full fence); the old word has AWAITED:
 *     asleep + 1 (full fence)                         WAKE to each member whose `asleep` is not 0
 *     reads the word: not changed; sleeps
 *
 * One of the two sees the store of the other.
 *
 * A process may die inside. The word then still names that process, and the process that finds the holder ended takes the lock
 * over by compare-and-swap of the word: of several that find it one succeeds. The element that the dead process was about to
 * write has its old value, its new one, or, if longer than 8 bytes, parts of both.
 */
#ifndef HDL_RMA_HASHED_H
#define HDL_RMA_HASHED_H

#include <stdbool.h>
#include <stdint.h>

#define HDL_HASHED 16u			/* locks of a member, a cache line each */

/* The lock of an element, by the offset of its first byte in the member's memory and the bytes that one lock covers (a power of
 * two): the same for all origins. */
static inline unsigned hdl_hashed_index(uint64_t offset, unsigned granule_shift)
{
	return (unsigned)((offset >> granule_shift) * 0x9e3779b1u >> 7) % HDL_HASHED;
}

#define HDL_HASHED_AWAITED (1u << 31)

/* The holder that a word names: rank + 1; 0: none. */
static inline uint32_t hdl_hashed_holder(uint32_t word)
{
	return word & ~HDL_HASHED_AWAITED;
}

/* Returns 0: the lock is `me`'s; else the word. */
static inline uint32_t hdl_hashed_try(uint32_t *word, uint32_t me)
{
	uint32_t found = 0;

	return __atomic_compare_exchange_n(word, &found, me, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED) ? 0 : found;
}

/* Asks the holder that `found` names for a wake-up. Returns false: the word has changed. */
static inline bool hdl_hashed_await(uint32_t *word, uint32_t found)
{
	return __atomic_compare_exchange_n(word, &found, found | HDL_HASHED_AWAITED, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED);
}

/* Takes the lock from a holder that has ended. dead: the word, whose HDL_HASHED_AWAITED stays. Returns false: another process has
 * taken the lock, or the holder released it before its end. */
static inline bool hdl_hashed_take_over(uint32_t *word, uint32_t dead, uint32_t me)
{
	return __atomic_compare_exchange_n(word, &dead, me | (dead & HDL_HASHED_AWAITED), false, __ATOMIC_ACQUIRE,
					   __ATOMIC_RELAXED);
}

/* Returns true if some process may sleep until this release. */
static inline bool hdl_hashed_release(uint32_t *word)
{
	return __atomic_exchange_n(word, 0, __ATOMIC_SEQ_CST) & HDL_HASHED_AWAITED;
}

#endif
