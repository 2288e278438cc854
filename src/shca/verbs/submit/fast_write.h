/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fast writes: an RDMA WRITE into the arena on an idle queue is a copy. The transport's rings and rendezvous consist of such
 * writes, so the queue remembers the look-up of the region: struct shca_rkey_cache.
 *
 * An entry was found and checked once (access.h). It holds until the region's process revokes something, or begins to die:
 *     1. The process closes a gate or ends a key.
 *     2. The process counts up `revoke_epoch` (shca_revoke), or the kernel marks `life` beside it; both are `valid_word`.
 *     3. The process quiesces (I8): it waits for every thread inside the engine.
 * A poster compares `valid_word` inside the engine. So the poster either reads the new word, or step 3 waits for the poster.
 *
 * No journal: a fast write holds no object of another process; a poster that dies here leaves at most a part of its own message.
 *
 * shca_fast_write is the only fast write. Every form of posting inlines it, and the compiler makes a variant for the constant
 * arguments of each.
 */
#ifndef SHCA_FAST_WRITE_H
#define SHCA_FAST_WRITE_H

#include "shca/engine/access.h"
#include "shca/verbs/device.h"
#include "shca/verbs/objects/sq.h"

static inline uint32_t shca_rkey_cache_slot(const struct shca_rkey_cache *t)
{
	return (uint32_t)(t->epoch >> 32) - 1;
}

/* Where a fast write goes. */
struct shca_dest {
	uint64_t name;			/* as struct shca_rkey_cache */
	uint64_t dc_key;
	uint64_t addr;
};
static inline uint64_t shca_rkey_cache_name(uint32_t rkey, uint32_t dest)
{
	return rkey | (uint64_t)dest << 32;
}

/* Looks the region up and fills *t. false: no fast write is possible or allowed; *t holds no bytes, shca_submit takes the
 * request. Must be called inside the engine. */
bool shca_rkey_cache_find(struct shca_thread *thr, struct shca_user_qp *q, struct shca_rkey_cache *t, uint64_t name,
			  uint64_t dc_key);

/* Returns true if *t is the entry for dest, and still valid. Must be called inside the engine. */
static inline bool shca_rkey_cache_valid(const struct shca_rkey_cache *t, struct shca_dest dest)
{
	return t->name == dest.name && t->dc_key == dest.dc_key &&
	       t->valid_word == atomic_load_explicit(&t->proc->valid_word, memory_order_acquire);
}

/* Returns true if this queue runs writes here and now: connected, not failed, nothing before them. */
static inline bool shca_runs_fast_writes(const struct shca_user_qp *q)
{
	return atomic_load_explicit(&q->fast_writes, memory_order_relaxed) &&
	       !(atomic_load_explicit(&q->sh->fail, memory_order_relaxed) |
		 atomic_load_explicit(&q->sh->shared, memory_order_relaxed));
}

static inline void shca_count_direct(struct shca_user_qp *q, uint32_t bytes)
{
	struct shca_qp *sh = q->sh;

	atomic_store_explicit(&sh->n_msgs, atomic_load_explicit(&sh->n_msgs, memory_order_relaxed) + 1, memory_order_relaxed);
	atomic_store_explicit(&sh->n_bytes, atomic_load_explicit(&sh->n_bytes, memory_order_relaxed) + bytes,
			      memory_order_relaxed);
}

/* A part of the data; mapped here. */
struct shca_piece {
	const void *at;
	uint32_t len;
};

static inline struct shca_rkey_cache *shca_rkey_cache_at(const struct shca_user_qp *q, struct shca_dest dest)
{
	return &q->rkey_cache[((uint32_t)(dest.name >> 8) ^ (uint32_t)(dest.name >> 32)) & q->rkey_cache_mask];
}

/* Returns true if a fast write of len bytes would be done. Must be called inside the engine. */
static inline bool shca_fast_write_open(struct shca_thread *thr, struct shca_user_qp *q, struct shca_dest dest, uint64_t len)
{
	struct shca_rkey_cache *t = shca_rkey_cache_at(q, dest);

	if (thr->where != SHCA_ANYWHERE && thr->where != t->epoch)
		shca_epoch_widen(thr);
	return (shca_rkey_cache_valid(t, dest) || shca_rkey_cache_find(thr, q, t, dest.name, dest.dc_key)) &&
	       shca_within(t->lo, t->bytes, dest.addr, len);
}

/* The destination of a fast write of ibv_post_send. */
static inline struct shca_dest shca_dest_of(const struct shca_user_qp *q, const struct ibv_send_wr *wr)
{
	uint32_t srqn = q->type == IBV_QPT_XRC_SEND ? wr->qp_type.xrc.remote_srqn : 0;

	return (struct shca_dest){.name = shca_rkey_cache_name(wr->wr.rdma.rkey, srqn), .addr = wr->wr.rdma.remote_addr};
}

/* The data of an inline write of one or two segments; of one segment, piece[0] is empty. Returns the bytes; 0 for any other
 * number. */
static inline __attribute__((always_inline)) uint64_t shca_inline_pieces(const struct ibv_send_wr *wr, struct shca_piece piece[2])
{
	const struct ibv_sge *sge = wr->sg_list;

	piece[0] = piece[1] = (struct shca_piece){NULL, 0};
	if (wr->num_sge == 2) {
		piece[0] = (struct shca_piece){(const void *)(uintptr_t)sge->addr, sge->length};
		sge++;
	} else if (wr->num_sge != 1) {
		return 0;
	}
	piece[1] = (struct shca_piece){(const void *)(uintptr_t)sge->addr, sge->length};
	return (uint64_t)piece[0].len + piece[1].len;
}

/* Wakes the process in `slot`, which sleeps until it is written to. Must be called outside of the engine. */
void shca_wake_owner(struct shca_thread *thr, uint32_t slot);

/*
 * Writes n pieces, one behind the other, to dest: len bytes, at least one, in the order of I5. Returns false if nothing has
 * happened: the request goes to shca_submit.
 *
 * inside: the caller is inside the engine; an entry that is not in the rkey cache is looked up. Otherwise the thread enters
 * here, which must not be nested, and a missing entry is shca_submit's.
 */
static inline __attribute__((always_inline)) bool
shca_fast_write(struct shca_thread *thr, struct shca_user_qp *q, struct shca_dest dest, const struct shca_piece *piece, int n,
		  uint64_t len, const bool inside)
{
	struct shca_rkey_cache *t = shca_rkey_cache_at(q, dest);
	uint32_t active = 0;

	if (!inside)
		active = shca_enter_first(thr, t->epoch);
	else if (unlikely(thr->where != SHCA_ANYWHERE && thr->where != t->epoch))
		shca_epoch_widen(thr);
	if (unlikely(!shca_rkey_cache_valid(t, dest)) && (!inside || !shca_rkey_cache_find(thr, q, t, dest.name, dest.dc_key)))
		goto refused;
	if (unlikely(!shca_within(t->lo, t->bytes, dest.addr, len)))
		goto refused;
	char *to = (char *)(uintptr_t)(t->at + dest.addr);
	for (int i = 0; i < n - 1; i++) {
		if (!piece[i].len)
			continue;
		shca_copy_small(to, piece[i].at, piece[i].len);
		to += piece[i].len;
	}
	shca_store_barrier();
	shca_store_ordered(to, piece[n - 1].at, piece[n - 1].len);
	shca_count_direct(q, (uint32_t)len);
	/* pairs with the heavy fence of a process that goes to sleep until it is written to (shca_sleep_prepare) */
	shca_light_fence(thr->m);
	uint32_t sleepers = atomic_load_explicit(&t->proc->sleepers, memory_order_relaxed), slot = shca_rkey_cache_slot(t);
	if (!inside)
		shca_leave_first(thr, active);
	if (unlikely(sleepers != 0)) {
		if (inside)
			shca_wake_note(thr, SHCA_WAKE_FUTEX, slot);
		else
			shca_wake_owner(thr, slot);
	}
	return true;
refused:
	if (!inside)
		shca_leave_first(thr, active);
	return false;
}

#endif
