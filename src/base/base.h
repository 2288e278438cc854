/* SPDX-License-Identifier: BSD-3-Clause */
/* Idioms that every folder may use; depends on no other folder. Nothing in here has an address: no prefix. */
#ifndef BASE_BASE_H
#define BASE_BASE_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

/* For branches whose direction is known, on paths that are measured. */
#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

/* The structure of type `type` with `member` at `pointer`. */
#define container_of(pointer, type, member) ((type *)((char *)(pointer) - offsetof(type, member)))

/* Of an array, not of a pointer. */
#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

static inline bool is_pow2(uint64_t v)
{
	return v && !(v & (v - 1));
}
/* v from 1 to 2^63: the nearest power of two that is not below, not above. */
static inline uint64_t pow2_up(uint64_t v)
{
	return v > 1 ? 1ull << (64 - __builtin_clzll(v - 1)) : 1;
}
static inline uint64_t pow2_down(uint64_t v)
{
	return 1ull << (63 - __builtin_clzll(v));
}
/* to: a power of two. */
static inline uint64_t align_up(uint64_t v, uint64_t to)
{
	return (v + to - 1) & ~(to - 1);
}

/* n from 1 to 63. */
static inline uint64_t rotate_left(uint64_t v, unsigned int n)
{
	return v << n | v >> (64 - n);
}

/* Returns true for an errno value with which a question failed that was not answered: memory, descriptors or time were lacking.
 * A caller that keeps answers must not keep this one. */
static inline bool is_passing_error(int err)
{
	switch (err) {
	case ENOMEM: case EAGAIN: case EINTR: case EBUSY: case EMFILE: case ENFILE: case ENOBUFS: case ENOSPC: case EIO:
	case ETIMEDOUT:
		return true;
	default:
		return false;
	}
}

/* For a loop that waits for another processor's store: a read in haste takes the line away from the processor that is about to
 * write it. */
static inline void cpu_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("isb");
#endif
}

/* CLOCK_MONOTONIC: the same for all processes of the host. Not on hot paths. */
static inline uint64_t monotonic_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* The processor's counter, in units of its own, for loops that read the clock when enough time may have passed: a few
 * nanoseconds, no system call. Only differences count, as unsigned numbers: where counters of two CPUs differ, a difference may
 * be too large. */
static inline uint64_t ticks(void)
{
#if defined(__x86_64__) || defined(__i386__)
	return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
	uint64_t t;

	__asm__ volatile("mrs %0, cntvct_el0" : "=r"(t));
	return t;
#else
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
#endif
}

/* Returns about `us` microseconds in ticks; us at most 10^6. x86: right within a factor of 2 at 1 to 4 GHz. */
static inline uint64_t ticks_of_us(uint64_t us)
{
#if defined(__x86_64__) || defined(__i386__)
	return us << 11;
#elif defined(__aarch64__)
	uint64_t hz;

	__asm__("mrs %0, cntfrq_el0" : "=r"(hz));
	return us * hz / 1000000;
#else
	return us * 1000;
#endif
}

#endif
