/* SPDX-License-Identifier: BSD-3-Clause */
/* The memory of a send queue (struct shca_user_qp), and its kick. */
#ifndef SHCA_OBJECTS_SQ_H
#define SHCA_OBJECTS_SQ_H

#include "shca/verbs/device.h"

/* A region that the queue may write to, as fast writes remember it (submit/fast_write.h). */
struct shca_rkey_cache {
	uint64_t name;			/* rkey | destination << 32. XRC: number of the SRQ; DC: of the DCT; else 0 */
	uint64_t dc_key;
	uint64_t lo, bytes;		/* [lo, lo + bytes) may be written; 0: region not in the arena, or implicit ODP */
	uint64_t at;			/* mapped address here of the region's address 0; a number: no object need be there */
	struct shca_proc_slot *proc;	/* the process that owns the region */
	uint64_t valid_word;		/* of that process, read before the look-up */
	uint64_t epoch;		/* shca_epoch_of that process: the epoch of a poster to the region */
};
_Static_assert(sizeof(struct shca_rkey_cache) <= SHCA_LINE, "one line");

/* How many a queue remembers; a DCI has more peers than a connected queue has regions. */
#define SHCA_RKEY_CACHE 4
#define SHCA_RKEY_CACHE_DC 64

/* Makes the send side for these sizes, and frees it. Init returns 0 or an errno value; after a failure, too, the caller must
 * call shca_sq_free. */
int shca_sq_init(struct shca_user_qp *qp, const struct ibv_qp_cap *cap);
void shca_sq_free(struct shca_user_qp *qp);
/* Forgets the regions that were looked up: for a queue that is reset. The next responder may be of another domain, and windows
 * of type 2 are open by one queue pair only. Must be called with the queue's lock. */
void shca_rkey_cache_clear(struct shca_user_qp *q);

/* Reserves memory for the inline data of the request that comes `ahead` requests from now, in case that request has to wait. 0
 * or ENOMEM. */
int shca_reserve_inline(struct shca_user_qp *q, uint64_t ahead, uint64_t bytes);
/* The same for the operands of an atomic that are read at post. */
int shca_reserve_operands(struct shca_user_qp *q, uint64_t ahead, uint32_t bytes);
/* The ring of WQEs, made when the first one is written. 0 or ENOMEM. */
int shca_reserve_ring(struct shca_user_qp *q);

/* Memory for the inline data or operands of the request at position pos: `bytes` of the arena. 0: there is none. */
shca_off shca_long_at(struct shca_user_qp *q, uint64_t pos, uint32_t bytes);
/* Frees the inline data that is kept outside of WQEs. Must be called when none of them is to run any more. */
void shca_longs_free(struct shca_user_qp *q);

/* Makes the queue runnable: for this thread's next shca_drain or, with SHCA_BEHAVE=async, for the helper thread of the queue's
 * owner. */
static inline void shca_kick_later(struct shca_thread *thr, struct shca_user_qp *q)
{
	/* the kick reads the lock after the request is visible: pairs with the holder's release in run.c */
	shca_full_fence();
	/* a queue in error may have no helper thread: a process that never connected a queue has none */
	if (unlikely(thr->m->behave & SHCA_BEHAVE_ASYNC) && !atomic_load(&q->sh->fail))
		shca_timer_add(thr->m, q->sh, monotonic_ns());
	else
		shca_kick(thr, q->off);
}

/* Makes the queue runnable and runs this thread's todo list. Must be called inside the engine, behind the request. */
static inline void shca_kick_posted(struct shca_thread *thr, struct shca_user_qp *q)
{
	shca_kick_later(thr, q);
	shca_drain(thr);
}

#endif
