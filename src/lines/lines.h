/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Copies between processors: one of the two sides lies in another processor's cache. The cost is then not the copy but the
 * fetching of the lines, a hundred nanoseconds and more for each; so lines are fetched well before they are needed. The C
 * library's copy does not do so: at these lengths it leaves the work to one string instruction, which fetches too few lines
 * ahead. For both libraries: depends on neither.
 */
#ifndef LINES_LINES_H
#define LINES_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Below LINES_MIN_*, the processor fetches far enough ahead; above LINES_MAX, the caches are too small for the difference to
 * matter. */
#define LINES_MIN_IN 12288u
#define LINES_MIN_OUT 1536u
#define LINES_MAX (256u << 10)
/* How far ahead lines are fetched: sixteen lines, about as many as a core can have under way. */
#define LINES_AHEAD 1024u

/* Fetches a line that another core may have, for a write to follow soon. */
static inline void lines_fetch_own(const void *p)
{
#if defined(__x86_64__)
	__asm__ volatile("prefetchw %0" : : "m"(*(const char *)p));
#else
	__builtin_prefetch(p, 1);
#endif
}

static inline void lines_copy_one(char *d, const char *s)
{
	typedef uint64_t piece __attribute__((vector_size(16), aligned(1), may_alias));
	piece a = ((const piece *)s)[0], b = ((const piece *)s)[1], c = ((const piece *)s)[2], e = ((const piece *)s)[3];

	((piece *)d)[0] = a;
	((piece *)d)[1] = b;
	((piece *)d)[2] = c;
	((piece *)d)[3] = e;
}

static inline __attribute__((always_inline)) void lines_fetch(const char *d, const char *s, bool out)
{
	if (out)
		lines_fetch_own(d);
	else
		__builtin_prefetch(s);
}

static inline __attribute__((always_inline)) void lines_copy(char *d, const char *s, size_t n, size_t min, bool out)
{
	size_t i = 0;

	if (n >= min && n <= LINES_MAX) {
		for (size_t at = 0; at < LINES_AHEAD; at += 64)
			lines_fetch(d + at, s + at, out);
		for (; i + LINES_AHEAD < n; i += 64) {
			lines_fetch(d + i + LINES_AHEAD, s + i + LINES_AHEAD, out);
			lines_copy_one(d + i, s + i);
		}
		for (; i + 64 <= n; i += 64)
			lines_copy_one(d + i, s + i);
	}
	memmove(d + i, s + i, n - i);
}

/* Copies n bytes that lie in another core's cache to memory of this core, in any order. Bytes that are in both are undefined. */
static inline void lines_copy_in(void *dst, const void *src, size_t n)
{
	lines_copy(dst, src, n, LINES_MIN_IN, false);
}

/* Copies n bytes of this core to memory that lies in another core's cache, as lines_copy_in. */
static inline void lines_copy_out(void *dst, const void *src, size_t n)
{
	lines_copy(dst, src, n, LINES_MIN_OUT, true);
}

#endif
