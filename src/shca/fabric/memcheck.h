/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What valgrind's memcheck is told, some instructions without effect elsewhere; nothing where its header was missing.
 *
 * Danger: the leak check reads every word of every mapping that it takes for accessible, and takes a fault for each that lies
 * beyond the end of the fabric's file: minutes, however a process ends. So what is not this process's own is "not accessible",
 * which it passes over, and the accesses that there are to others' chunks are not reported.
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

#define SHCA_MEMCHECK true

/* A mapping of the fabric, of which the first `front` bytes are everybody's and there. */
static inline void shca_memcheck_mapped(char *base, uint64_t bytes, uint64_t front)
{
	VALGRIND_DISABLE_ADDR_ERROR_REPORTING_IN_RANGE(base, bytes);
	VALGRIND_MAKE_MEM_NOACCESS(base + front, bytes - front);
}
/* It goes. */
static inline void shca_memcheck_unmapped(char *base, uint64_t bytes)
{
	VALGRIND_ENABLE_ADDR_ERROR_REPORTING_IN_RANGE(base, bytes);
}
/* Chunks that are this process's from now on, or no more. */
static inline void shca_memcheck_own(char *p, uint64_t n)
{
	VALGRIND_MAKE_MEM_DEFINED(p, n);
}
static inline void shca_memcheck_disown(char *p, uint64_t n)
{
	VALGRIND_MAKE_MEM_NOACCESS(p, n);
}
/* Whether a system call of this thread is to be reported for what it is given. */
static inline void shca_memcheck_quiet(bool quiet)
{
	if (quiet)
		VALGRIND_DISABLE_ERROR_REPORTING;
	else
		VALGRIND_ENABLE_ERROR_REPORTING;
}
/* Memory that a system call is to read or write: if it is another's, in a mapping of the fabric, there is nothing to report. */
static inline void shca_memcheck_pass(const char *base, uint64_t bytes, const char *p, uint64_t n)
{
	if (RUNNING_ON_VALGRIND && p >= base && p < base + bytes)
		VALGRIND_MAKE_MEM_DEFINED(p, n);
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
