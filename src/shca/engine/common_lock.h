/* SPDX-License-Identifier: BSD-3-Clause */
/* The lock word and the holders of common queue pairs: between common*.c. */
#ifndef SHCA_COMMON_LOCK_H
#define SHCA_COMMON_LOCK_H

#include "shca/engine/common.h"

#define THREAD(w) (((w) & 0xffffff) - 1)
#define JOB(w) ((enum shca_common_job)((w) >> 24))

#define for_each_common(m, c)                                                                                       \
	for (struct { struct shca_common_walk w; struct shca_common_qp *at; } walk_ = {{0}, NULL};                  \
	     (walk_.at = shca_common_next(m, &walk_.w)) != NULL;)                                                   \
		for (struct shca_common_qp *c = walk_.at; c; c = NULL)
#define for_each_holder(c, h)                                                                                       \
	for (__typeof__((c)->holder[0]) *h = (c)->holder; h < (c)->holder + SHCA_COMMON_HOLDERS; h++)

static inline uint32_t common_lock_word(const struct shca_thread *thr, enum shca_common_job job)
{
	return (thr->slot + 1) | (uint32_t)job << 24;
}

static inline bool try_lock(struct shca_thread *thr, struct shca_common_qp *c, enum shca_common_job job)
{
	uint32_t none = 0;

	return atomic_compare_exchange_strong(&c->lock, &none, common_lock_word(thr, job));
}

static inline bool is_held_beside(const struct shca_common_qp *c, const _Atomic uint64_t *mine)
{
	for_each_holder(c, h)
		if (h != mine && atomic_load(h))
			return true;
	return false;
}

static inline bool common_qp_is_held(const struct shca_common_qp *c)
{
	return is_held_beside(c, NULL);
}

/* Ends the queue pair: no look-up finds it from here on. The place is free after a quiesce for threads that have found it. gate:
 * SHCA_GATE_DEAD: the holders died; 0: destroyed, and so just silent. Must: the caller has the lock; there is no holder. */
void shca_common_end(struct shca_thread *thr, struct shca_common_qp *c, uint32_t gate);
/* Fails the requester, as for the death of any peer: all holders have died. */
void shca_common_tell_requester(struct shca_thread *thr, struct shca_common_qp *c);
/* Frees the place of a queue pair that has ended. */
void shca_common_finish(struct shca_thread *thr, struct shca_common_qp *c);
/* Gives the lock up. Returns true if there is no holder any more: then this thread has the lock, for the end. */
bool shca_common_unlock_unless_last(struct shca_thread *thr, struct shca_common_qp *c);

#endif
