/* SPDX-License-Identifier: BSD-3-Clause */
/* Atomic operations on 4 to 256 bytes of memory (atomic.c has how they are atomic). */
#ifndef SHCA_ATOMIC_H
#define SHCA_ATOMIC_H

#include "shca/engine/engine.h"

/* Which of shca_atomic.v is what; of an addition: what to add, field boundaries. As in struct shca_req.arg. */
enum { SHCA_COMPARE = 0, SHCA_COMPARE_MASK, SHCA_SWAP, SHCA_SWAP_MASK };

struct shca_atomic {
	uint32_t size;			/* bytes: a power of two from 4 to SHCA_ATOMIC_MAX */
	bool add;			/* fetch and add; else compare and swap */
	uint64_t v[4][SHCA_ATOMIC_MAX / 8];	/* operands: words in host order */
};

/* Where it is carried out: a piece of a region, as long as the atomic and aligned to that. */
struct shca_atomic_place {
	uint32_t proc;
	struct shca_seg seg;
	struct shca_ground ground;	/* the region; its version was read before its key was found valid */
};
/* Carries it out; old: the words before. 0, or a negative errno value: -ESRCH: the process has died. */
int shca_atomic(struct shca_thread *thr, const struct shca_atomic_place *at, const struct shca_atomic *a, uint64_t *old);
/* Before the first request of more than 8 bytes: from now on all take locks. The caller is inside the engine. */
void shca_atomics_widen(struct shca_thread *thr);
/* A lock whose holder, as it was seen, is dead. */
void shca_atomic_take_over(struct shca_thread *thr, uint32_t lock, uint32_t holder);

#endif
