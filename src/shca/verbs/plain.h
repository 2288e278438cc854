/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Plain writes: an RDMA write into the arena on an idle queue needs no more than a copy. This is what rings and
 * rendezvous are made of, so the lookups are remembered.
 *
 * A target is a window of another process's memory, found and checked once (the same checks as find_responder and
 * resolve_remote in exec.c). It holds until that process withdraws something: whoever closes a gate or takes a key away
 * counts up `withdrawn` before the quiesce of I8, and a poster looks at the count inside the engine. So either the poster
 * sees the new count, or the quiesce waits for it to leave.
 *
 * No journal: nothing of others is held, and an owner that dies here leaves at most a part of its own message.
 */
#ifndef SHCA_PLAIN_H
#define SHCA_PLAIN_H

#include "shca/verbs/device.h"

struct shca_target {
	uint32_t rkey;
	uint32_t dest;			/* XRC: number of the SRQ; DC: of the DCT; else 0 */
	uint64_t dc_key;
	uint64_t lo, bytes;		/* [lo, lo + bytes) may be written; bytes 0: nothing */
	char *at;			/* where address 0 would be mapped here */
	struct shca_proc_slot *proc;	/* whose memory it is */
	uint32_t withdrawn;		/* its count when this was looked up */
	uint32_t slot;			/* of that process */
};
_Static_assert(sizeof(struct shca_target) <= SHCA_LINE, "one line");

/* How many a queue remembers; a DCI has more peers than a connected queue has regions. */
#define SHCA_TARGETS 4
#define SHCA_TARGETS_DC 64

int shca_targets_init(struct shca_lqp *q);

/* Looks the window up and remembers it. false: this is not plain, or not right: it goes the general way. */
bool shca_target_find(struct shca_cpu *cpu, struct shca_lqp *q, struct shca_target *t, uint32_t rkey, uint32_t dest,
		      uint64_t dc_key);

/* The window for a write of len bytes to addr; *to: where that is mapped. NULL: it goes the general way. Inside the engine. */
static inline struct shca_target *shca_target_get(struct shca_cpu *cpu, struct shca_lqp *q, uint32_t rkey, uint32_t dest,
						  uint64_t dc_key, uint64_t addr, uint64_t len, char **to)
{
	struct shca_target *t = &q->targets[((rkey >> 8) ^ dest) & q->target_mask];

	if (__builtin_expect(t->rkey != rkey || t->dest != dest || t->dc_key != dc_key ||
			     t->withdrawn != atomic_load_explicit(&t->proc->withdrawn, memory_order_acquire), 0) &&
	    !shca_target_find(cpu, q, t, rkey, dest, dc_key))
		return NULL;
	if (__builtin_expect(len > t->bytes || addr - t->lo > t->bytes - len, 0))
		return NULL;
	*to = t->at + addr;
	return t;
}

/* Whether this queue runs writes here and now: connected, not failed, nothing before them. */
static inline bool shca_runs_plain(const struct shca_lqp *q)
{
	return q->writes &&
	       !(atomic_load_explicit(&q->sh->fail, memory_order_relaxed) |
		 atomic_load_explicit(&q->sh->shared, memory_order_relaxed));
}

static inline void shca_count_direct(struct shca_lqp *q, uint32_t bytes)
{
	struct shca_qp *sh = q->sh;

	atomic_store_explicit(&sh->n_msgs, atomic_load_explicit(&sh->n_msgs, memory_order_relaxed) + 1, memory_order_relaxed);
	atomic_store_explicit(&sh->n_bytes, atomic_load_explicit(&sh->n_bytes, memory_order_relaxed) + bytes, memory_order_relaxed);
}

/* The end of a plain write: whoever sleeps until it is written to, and the counters. */
static inline void shca_plain_done(struct shca_cpu *cpu, struct shca_lqp *q, const struct shca_target *t, uint32_t len)
{
	shca_light_fence(cpu->m);
	if (__builtin_expect(atomic_load_explicit(&t->proc->sleepers, memory_order_relaxed) != 0, 0))
		shca_wake_note(cpu, SHCA_WAKE_FUTEX, t->slot);
	shca_count_direct(q, len);
}

#endif
