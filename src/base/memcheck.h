/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests to valgrind's memcheck: a few instructions without effect outside of valgrind; nothing where its header was
 * missing. */
#ifndef BASE_MEMCHECK_H
#define BASE_MEMCHECK_H

#include <stddef.h>

#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#ifdef HAVE_VALGRIND_MEMCHECK_H
#include <valgrind/memcheck.h>
#endif

/* Marks bytes of this process's memory as defined, because a peer, or the kernel for a peer, has written them or is about to,
 * unseen by memcheck. Bytes that the program may not access (it has freed them) stay so. */
static inline void memcheck_received(void *p, size_t n)
{
#ifdef HAVE_VALGRIND_MEMCHECK_H
	VALGRIND_MAKE_MEM_DEFINED_IF_ADDRESSABLE(p, n);
#endif
}

#endif
