/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Common queue pairs: XRC's receiving ones, which belong to whoever holds a handle (struct shca_common_qp).
 *
 * I9. The holders' words are all that says whether it is there; nothing counts them. Who makes, modifies or ends it holds its lock,
 * and has written down in it what he is at, so that a successor can finish that. It ends when a thread that has the lock sees no
 * holder. Who takes a holder out, its process or a reaper, looks at the lock behind that; who gives the lock up looks at the
 * holders behind that (both sequentially consistent): so the last one is never gone unseen, and no reaper waits for a lock to take a
 * holder out. To fail one whose requester has died it has to get the lock: it comes again until it does, and the dead requester's slot
 * and memory stay until then. If the last holder died, the requester is told by whoever ends it, the reaper or who had the lock.
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

/* Outside of the engine: waits for others, which may have to leave it. The caller has a handle. */
void shca_common_lock(struct shca_thread *thr, struct shca_common_qp *c);
/* What the thread that has the lock is going to do: written down before. */
void shca_common_job(struct shca_common_qp *c, enum shca_common_job job);
/* The one of this number, locked. NULL: there is none. Outside of the engine. */
struct shca_common_qp *shca_common_find(struct shca_thread *thr, uint32_t number);
/* Gives the lock up. Without a holder it ends here: they have died. Outside of the engine. */
void shca_common_unlock(struct shca_thread *thr, struct shca_common_qp *c);
/* Takes this handle out, and gives the lock up. If it was the last one, that destroys it; a holder that is gone behind it has died.
 * true: the handle had events which nobody has read. Outside of the engine. */
bool shca_common_part(struct shca_thread *thr, struct shca_common_qp *c, _Atomic uint64_t *holder);
/* A handle of this process: its word, or NULL: there are SHCA_COMMON_HOLDERS. The caller has the lock. */
_Atomic uint64_t *shca_common_hold(struct shca_thread *thr, struct shca_common_qp *c);
static inline uint32_t shca_common_unread(const _Atomic uint64_t *holder)
{
	return (uint32_t)(atomic_load(holder) >> 32);
}

/* Ends every rkey cache entry that was found through c, whichever process the region belongs to. */
void shca_common_revoke(const struct shca_member *m, const struct shca_common_qp *c);
/* Nobody who found it answering before that is at it any more. Outside of the engine. */
void shca_common_quiesce(struct shca_thread *thr, const struct shca_common_qp *c);
/* What modifying to ERR and RESET leave behind; it answers nobody by now. The caller has the lock. */
void shca_common_clear(struct shca_common_qp *c);
/* The requester's process: when the last holder has died the reaper tells it, which is the sooner the sooner that is noticed. */
void shca_common_watch(struct shca_thread *thr, const struct shca_qp *qp);
/* To all holders. */
void shca_common_event(struct shca_thread *thr, struct shca_common_qp *c, enum ibv_event_type event);

/* All fail, without events, when the device has failed: there is no other modification then. Inside the engine; may be repeated. */
void shca_commons_break(struct shca_thread *thr);

/* For the reaper of the process in `slot`; inside the engine. */
/* Its handles go, what it was at is finished, and what nobody holds any more ends, but for its memory. */
void shca_commons_release(struct shca_thread *thr, uint32_t slot);
/* Those that were connected to it fail. false: one is being modified, come again. */
bool shca_commons_fail(struct shca_thread *thr, uint32_t slot);
/* Events that it may have raised without telling. */
void shca_commons_wake(struct shca_thread *thr);
/* Behind a quiesce for SHCA_NOBODY and one for `slot`: the memory of those that ended. done false: that is left to another reaper. */
void shca_commons_free(struct shca_thread *thr, uint32_t slot, bool done);
/* Whether there is any. */
bool shca_commons_ended(struct shca_thread *thr, uint32_t slot);

#endif
