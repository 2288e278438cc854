/* SPDX-License-Identifier: BSD-3-Clause */
/* Copies of one piece to one piece: between copy.c, share.c and copy_piece.c. */
#ifndef SHCA_COPY_H
#define SHCA_COPY_H

#include "shca/engine/engine.h"

/* Copies where both sides may be loaded and stored. */
static inline int copy_store(char *dst, const char *src, uint64_t n, bool last)
{
	if (last)
		shca_store_ordered(dst, src, n);
	else
		memcpy(dst, src, n);
	return 0;
}

/* Copies n bytes from process sproc to dproc: from and to src and dst, where the memory may be loaded and stored here; else (NULL)
 * from swhere and to dwhere, private memory. last: the last line appears after the rest. Returns 0 or a negative errno; *src_err:
 * the source's memory failed. */
int shca_copy_piece(struct shca_thread *thr, uint32_t dproc, char *dst, uint64_t dwhere, uint32_t sproc, const char *src,
		    uint64_t swhere, uint64_t n, bool last, bool *src_err);
/* The thread's buffer of SHCA_BOUNCE bytes; NULL: no memory. */
char *shca_bounce_of(struct shca_thread *thr);

#endif
