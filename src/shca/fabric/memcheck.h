/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Requests to valgrind's memcheck: a few instructions without effect outside of valgrind; nothing where the header was missing.
 *
 * Danger: the leak check reads every word of every mapping that it takes for accessible, and takes a fault for each that lies
 * beyond the end of the fabric's file: minutes, however a process ends. So all memory that this process does not own is "not
 * accessible", which the leak check passes over, and accesses to other processes' chunks are not reported.
 */
#ifndef SHCA_MEMCHECK_H
#define SHCA_MEMCHECK_H

#include <stdbool.h>
#include <stdint.h>

#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#ifdef HAVE_VALGRIND_MEMCHECK_H
#include <valgrind/memcheck.h>

#include "shca/fabric/layout.h"

#define SHCA_MEMCHECK true

/* A mapping of the fabric begins, whose first `front` bytes belong to all processes and exist. */
static inline void shca_memcheck_mapped(char *base, uint64_t bytes, uint64_t front)
{
	VALGRIND_DISABLE_ADDR_ERROR_REPORTING_IN_RANGE(base, bytes);
	VALGRIND_MAKE_MEM_NOACCESS(base + front, bytes - front);
}
/* The mapping ends. */
static inline void shca_memcheck_unmapped(char *base, uint64_t bytes)
{
	VALGRIND_ENABLE_ADDR_ERROR_REPORTING_IN_RANGE(base, bytes);
}
/* Chunks become this process's, or cease to be. */
static inline void shca_memcheck_own(char *p, uint64_t n)
{
	VALGRIND_MAKE_MEM_DEFINED(p, n);
}
static inline void shca_memcheck_disown(char *p, uint64_t n)
{
	VALGRIND_MAKE_MEM_NOACCESS(p, n);
}
/* Suppresses (or allows again) reports about the arguments of this thread's system calls. */
static inline void shca_memcheck_quiet(bool quiet)
{
	if (quiet)
		VALGRIND_DISABLE_ERROR_REPORTING;
	else
		VALGRIND_ENABLE_ERROR_REPORTING;
}
/*
 * Before a system call that reads or writes this memory: if it lies in a mapping of the fabric, and so perhaps in another
 * process's chunk, there is nothing to report.
 *
 * Whole lines become accessible. If only the bytes of the copy did:
 *     1. The system call reads bytes 3 to 15 of a line in a peer's chunk.
 *     2. A later RDMA READ loads the word of bytes 0 to 7.
 *     3. memcheck reports no error for an aligned load of which some bytes are accessible, but takes the other bytes, 0 to 2, for
 *        undefined (--partial-loads-ok), and so the bytes that the program gets (tests/shca/memcheck_peer_arena).
 * The longest aligned load is shorter than a line.
 */
static inline void shca_memcheck_pass(const char *base, uint64_t bytes, const char *p, uint64_t n)
{
	const uintptr_t within = SHCA_LINE - 1;

	if (RUNNING_ON_VALGRIND && p >= base && p < base + bytes && n) {
		uintptr_t first = (uintptr_t)p & ~within, end = ((uintptr_t)p + n + within) & ~within;
		VALGRIND_MAKE_MEM_DEFINED(first, end - first);
	}
}
#else
#define SHCA_MEMCHECK false
static inline void shca_memcheck_mapped(char *base, uint64_t bytes, uint64_t front) {}
static inline void shca_memcheck_unmapped(char *base, uint64_t bytes) {}
static inline void shca_memcheck_own(char *p, uint64_t n) {}
static inline void shca_memcheck_disown(char *p, uint64_t n) {}
static inline void shca_memcheck_quiet(bool quiet) {}
static inline void shca_memcheck_pass(const char *base, uint64_t bytes, const char *p, uint64_t n) {}
#endif

#endif
