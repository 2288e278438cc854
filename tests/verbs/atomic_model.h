/* SPDX-License-Identifier: BSD-3-Clause */
/* A model of extended atomics (manual, appendix B): memory after each, bit by bit. */
#ifndef TESTS_VERBS_ATOMIC_MODEL_H
#define TESTS_VERBS_ATOMIC_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#define ATOMIC_WORDS 32

static inline int atomic_bit(uint64_t w, uint32_t i)
{
	return (int)(w >> i & 1);
}

static inline uint64_t atomic_model_add(uint64_t a, uint64_t b, uint64_t ends, uint32_t bits)
{
	uint64_t sum = 0;
	int carry = 0;

	for (uint32_t i = 0; i < bits; i++) {
		int s = atomic_bit(a, i) + atomic_bit(b, i) + carry;
		sum |= (uint64_t)(s & 1) << i;
		carry = atomic_bit(ends, i) ? 0 : s >> 1;
	}
	return sum;
}

/* v: compare, compare mask, swap, swap mask; or the addend, field boundaries. Of 4 bytes: the low half of a word. */
static inline void atomic_model(bool cas, uint32_t size, const uint64_t (*v)[ATOMIC_WORDS], const uint64_t *old, uint64_t *new)
{
	uint32_t bits = size == 4 ? 32 : 64, words = size > 8 ? size / 8 : 1;
	bool same = true;

	for (uint32_t w = 0; w < words; w++) {
		new[w] = cas ? old[w] : atomic_model_add(old[w], v[0][w], v[1][w], bits);
		for (uint32_t i = 0; cas && i < bits; i++)
			same = same && (!atomic_bit(v[1][w], i) || atomic_bit(v[0][w], i) == atomic_bit(old[w], i));
	}
	for (uint32_t w = 0; cas && same && w < words; w++)
		for (uint32_t i = 0; i < bits; i++)
			if (atomic_bit(v[3][w], i))
				new[w] = (new[w] & ~(1ull << i)) | (uint64_t)atomic_bit(v[2][w], i) << i;
}

#endif
