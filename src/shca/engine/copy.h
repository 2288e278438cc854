/* SPDX-License-Identifier: BSD-3-Clause */
/* Copies of one piece to one piece: between copy.c, share.c and copy_piece.c. */
#ifndef SHCA_COPY_H
#define SHCA_COPY_H

#include <errno.h>

#include "shca/engine/engine.h"

/* Sets *at to the address of byte `skip` of a segment for loads and stores; NULL: private memory. seen: checks against the
 * file's length as this process last read it. Returns false if there can be no such segment (I7: other processes write the
 * memory of segments). */
static inline __attribute__((always_inline)) bool place_in(const struct shca_thread *thr, uint32_t proc,
							   const struct shca_seg *seg, uint64_t skip, char **at, bool seen)
{
	if (likely(seg->lane == SHCA_LANE_ARENA)) {
		if (unlikely(seen ? !shca_fits_seen(thr->m, seg->where, seg->len) : !shca_fits(thr->m, seg->where, seg->len)))
			return false;
		*at = thr->base + seg->where + skip;
		return true;
	}
	*at = proc == SHCA_HERE ? (char *)(uintptr_t)(seg->where + skip) : NULL;
	return true;
}

/* Returns the address of byte `skip` of a vouched segment of this process; NULL: another process's segment, or not vouched. A
 * request cannot name this process falsely: the queue lies in the chunks of the process that it names (shca_owned in run.c). */
static inline char *vouched(const struct shca_thread *thr, uint32_t proc, const struct shca_seg *seg, uint64_t skip)
{
	return seg->lane == SHCA_LANE_VOUCHED && proc == thr->m->slot ? (char *)(uintptr_t)(seg->where + skip) : NULL;
}

/* Copies where both sides may be loaded and stored. Where they overlap (a WRITE to its own source), the content is undefined. */
static inline int copy_store(char *dst, const char *src, uint64_t n, enum shca_order order)
{
	if (order == SHCA_LAST_LINE_LAST)
		shca_store_ordered(dst, src, n);
	else
		memmove(dst, src, n);
	return 0;
}

/* Returned by shca_copy_piece: a side is a segment of an indirect memory key, and nothing was copied. */
#define SHCA_COPY_MKEY (-EXDEV)

/* Copies n bytes from process sproc to dproc: from and to src and dst, where the memory may be loaded and stored here; else
 * (NULL) from swhere and to dwhere, private memory. Returns 0, SHCA_COPY_MKEY or a negative errno; *src_err: the source's memory
 * failed. */
int shca_copy_piece(struct shca_thread *thr, uint32_t dproc, char *dst, uint64_t dwhere, uint32_t sproc, const char *src,
		    uint64_t swhere, uint64_t n, enum shca_order order, bool *src_err);
/* mkey.c. Copies n bytes of one segment to one segment, of which one or both are of indirect memory keys, from byte `skip` of
 * each on. Returns as shca_copy_piece; -EACCES: a key refuses the access. */
struct shca_mkey_side {
	uint32_t proc;
	const struct shca_seg *seg;
	uint64_t skip;
};
int shca_mkey_copy(struct shca_thread *thr, struct shca_mkey_side dst, struct shca_mkey_side src, uint64_t n,
		   enum shca_order order, bool *src_err);
/* The thread's buffer of SHCA_BOUNCE bytes; NULL: no memory. */
char *shca_bounce_of(struct shca_thread *thr);

#endif
