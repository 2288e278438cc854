/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Hashed locks of a window's member: they make accumulates atomic that no instruction of the CPU does. A lock word is 0, or
 * names its holder: rank in the window + 1. Pure functions on words; acc.c waits.
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

/* Returns 0: the lock is `me`'s; else the holder (rank + 1). */
static inline uint32_t hdl_hashed_try(uint32_t *word, uint32_t me)
{
	uint32_t holder = 0;

	return __atomic_compare_exchange_n(word, &holder, me, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED) ? 0 : holder;
}

/* Takes the lock from a holder that has ended. Returns false: another process has, or the holder released before its end. */
static inline bool hdl_hashed_take_over(uint32_t *word, uint32_t dead, uint32_t me)
{
	return __atomic_compare_exchange_n(word, &dead, me, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

static inline void hdl_hashed_release(uint32_t *word)
{
	__atomic_store_n(word, 0, __ATOMIC_RELEASE);
}

#endif
