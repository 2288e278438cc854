/* SPDX-License-Identifier: BSD-3-Clause */
/* Atomic operations on 4 to 256 bytes of memory (atomic.c: by which means they are atomic). */
#ifndef SHCA_ATOMIC_H
#define SHCA_ATOMIC_H

#include "shca/engine/engine.h"

/* Indices of shca_atomic.v for a compare and swap. Of an addition: v[0] addend, v[1] field boundaries. As in struct
 * shca_req.arg. */
enum { SHCA_COMPARE = 0, SHCA_COMPARE_MASK, SHCA_SWAP, SHCA_SWAP_MASK };

struct shca_atomic {
	uint32_t size;			/* bytes: a power of two from 4 to SHCA_ATOMIC_MAX */
	bool add;			/* fetch and add; else compare and swap */
	uint64_t v[4][SHCA_ATOMIC_MAX / 8];	/* operands: words in host order */
};

/* Memory of an atomic: a piece of a region, of the atomic's size and aligned to that. */
struct shca_atomic_place {
	uint32_t proc;
	struct shca_seg seg;
	struct shca_ground ground;	/* the region; version was read before the key was found valid */
};
/* Does the atomic operation; old: the words before. Returns 0, or a negative errno value: -ESRCH: the process has died. */
int shca_atomic(struct shca_thread *thr, const struct shca_atomic_place *at, const struct shca_atomic *a, uint64_t *old);
/* To be called before the first atomic of more than 8 bytes: from then on all atomics take locks. Must: inside the engine. */
void shca_atomics_widen(struct shca_thread *thr);
/* Takes a lock over from `holder` (thread slot + 1), finishes the holder's store, and releases the lock. Must: the holder is
 * dead. */
void shca_atomic_take_over(struct shca_thread *thr, uint32_t lock, uint32_t holder);

#endif
