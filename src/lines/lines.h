/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Copies between processors: one of the two sides lies in the cache of another one. What costs then is not the copy but
 * fetching the lines, each for a hundred nanoseconds and more; so they are asked for well before they are needed. The C
 * library's copy does not: at these lengths it leaves everything to one string instruction, which fetches too few ahead.
 * For both libraries: needs nothing of either.
 */
#ifndef LINES_LINES_H
#define LINES_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Below, the processor fetches ahead enough by itself; above, the caches are too small for the difference to matter. */
#define LINES_MIN_IN 12288u
#define LINES_MIN_OUT 1536u
#define LINES_MAX (256u << 10)
/* How far ahead: sixteen lines, about as many as a core can have under way. */
#define LINES_AHEAD 1024u

/* Fetches a line that another core may have, to write to it soon. */
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
	memcpy(d + i, s + i, n - i);
}

/* Copies n bytes that lie in another core's cache to memory of this one's. No overlap; in any order. */
static inline void lines_copy_in(void *dst, const void *src, size_t n)
{
	lines_copy(dst, src, n, LINES_MIN_IN, false);
}

/* Copies n bytes of this core's to memory that another one has in its cache. No overlap; in any order. */
static inline void lines_copy_out(void *dst, const void *src, size_t n)
{
	lines_copy(dst, src, n, LINES_MIN_OUT, true);
}

#endif
