/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Common queue pairs: XRC's receiving ones, which belong to all processes that hold a handle (struct shca_common_qp).
 *
 * I9. A common queue pair exists while one of its holders' words names a process; there is no count.
 *  - A thread that makes, modifies or ends the queue pair holds the lock, and has written its job (enum shca_common_job) into
 *    the lock's word, so that a successor can finish the job.
 *  - The queue pair ends when a thread that has the lock sees no holder. A process or reaper that takes a holder out looks at
 *    the lock behind that; a thread that gives the lock up looks at the holders behind that (both sequentially consistent). So
 *    the last holder never goes unseen, and no reaper waits for a lock to take a holder out. Without the look behind the unlock:
 *    1. A has the lock and sees holder B.
 *    2. B's reaper takes B out, finds the lock taken, and goes on.
 *    3. A gives the lock up: no thread ends the queue pair.
 *  - To fail a queue pair whose requester has died the reaper needs the lock, and tries again until then, and the dead
 *    requester's slot and memory stay so long.
 *  - If the last holder died, the requester fails: the thread that ends the queue pair, the reaper or the thread that had the
 *    lock, does that.
 */
#ifndef SHCA_COMMON_H
#define SHCA_COMMON_H

#include "shca/engine/engine.h"

/* I7: the type alone may have been scribbled over, and another queue has no holders. */
static inline bool shca_is_common(const struct shca_member *m, const struct shca_qp *qp)
{
	return qp->type == IBV_QPT_XRC_RECV && shca_owned(m, qp, SHCA_COMMON);
}
static inline struct shca_common_qp *shca_common_of(struct shca_qp *qp)
{
	return container_of(qp, struct shca_common_qp, qp);
}

/* Takes the lock; waits for its holder, which may have to leave the engine. Must: outside of the engine; the caller has a
 * handle. */
void shca_common_lock(struct shca_thread *thr, struct shca_common_qp *c);
/* Writes the job into the lock's word, before the job begins. Must: the caller has the lock. */
void shca_common_job(struct shca_common_qp *c, enum shca_common_job job);
/* Returns the common queue pair of this number, locked; NULL: none. Must: outside of the engine. */
struct shca_common_qp *shca_common_find(struct shca_thread *thr, uint32_t number);
/* Gives the lock up. Without a holder the queue pair ends here: the holders have died. Must: outside of the engine. */
void shca_common_unlock(struct shca_thread *thr, struct shca_common_qp *c);
/* Takes this handle out, and gives the lock up. The last handle destroys the queue pair; a holder that goes while the lock is
 * held has died. Returns true if the handle had unread events. Must: outside of the engine. */
bool shca_common_part(struct shca_thread *thr, struct shca_common_qp *c, _Atomic uint64_t *holder);
/* Adds a handle of this process. Returns the holder's word; NULL: there are SHCA_COMMON_HOLDERS already. Must: the caller has
 * the lock. */
_Atomic uint64_t *shca_common_hold(struct shca_thread *thr, struct shca_common_qp *c);
static inline uint32_t shca_common_unread(const _Atomic uint64_t *holder)
{
	return (uint32_t)(atomic_load(holder) >> 32);
}

/* Ends every rkey cache entry that was found through c, whichever process owns the region. */
void shca_common_revoke(const struct shca_member *m, const struct shca_common_qp *c);
/* Waits until no thread uses c that found its gate open before. Must: outside of the engine. */
void shca_common_quiesce(struct shca_thread *thr, const struct shca_common_qp *c);
/* Clears the attributes, as modifying to RESET does. Must: the caller has the lock; the gate is closed. */
void shca_common_clear(struct shca_common_qp *c);
/* Called by the requester's process: watches all holders. A watched holder's death is noticed sooner, and so is the last one's,
 * after which the reaper fails the requester. */
void shca_common_watch(struct shca_thread *thr, const struct shca_qp *qp);
/* Raises the event for all holders. */
void shca_common_event(struct shca_thread *thr, struct shca_common_qp *c, enum ibv_event_type event);

/* The device has failed: fails all common queue pairs, without events; then there is no other modification. May be repeated.
 * Must: inside the engine. */
void shca_commons_break(struct shca_thread *thr);

/* For the reaper of the process in `slot`. Must: inside the engine. */
/* Removes the dead process's handles, finishes its jobs, and ends queue pairs without a holder, except for their memory. */
void shca_commons_release(struct shca_thread *thr, uint32_t slot);
/* Fails queue pairs that were connected to the dead process. Returns false if one is being modified: to be called again. */
bool shca_commons_fail(struct shca_thread *thr, uint32_t slot);
/* Repeats wake-ups for events that the dead process may have raised without a wake-up. */
void shca_commons_wake(struct shca_thread *thr);
/* Frees the memory of the queue pairs that ended. Must: behind a quiesce for SHCA_NOBODY and one for `slot`. done false: only
 * gives the locks up, for another reaper. */
void shca_commons_free(struct shca_thread *thr, uint32_t slot, bool done);
/* Returns whether this reaper has ended queue pairs that shca_commons_free must free. */
bool shca_commons_ended(struct shca_thread *thr, uint32_t slot);

#endif
