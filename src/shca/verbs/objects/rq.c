/* SPDX-License-Identifier: BSD-3-Clause */
/* The owner's side of a receive queue: its memory. */
#include <errno.h>
#include <stdlib.h>

#include "shca/verbs/control.h"

int shca_user_rq_init(struct shca_member *m, struct shca_user_rq *rq, uint32_t max_wr, uint32_t max_sge)
{
	uint32_t log2 = shca_rq_log2(max_wr), size = 1u << log2;

	memset(rq, 0, sizeof(*rq));
	rq->off = shca_mem_alloc(m, sizeof(struct shca_rq));
	if (!rq->off)
		return -ENOMEM;	/* said: shca_mem_alloc */
	rq->size = size;
	rq->max_sge = max_sge;
	rq->sh = rq->in = shca_at(m->base, rq->off);
	rq->sh->log2 = log2;
	rq->sh->stride =
		(uint32_t)(sizeof(struct shca_rwqe) + max_sge * (sizeof(struct shca_seg) + sizeof(struct shca_ground)) + 63) &
		~63u;
	rq->sh->ring = rq->off + offsetof(struct shca_rq, none);	/* of 2^0 entries: a multiple of a line */
	rq->sh->proc = m->slot;
	/* positions begin at the size: a zeroed ring is a lap behind */
	atomic_store(&rq->sh->head, size);
	atomic_store(&rq->sh->tail, size);
	atomic_store(&rq->sh->enabled, size);
	rq->enabled = (struct shca_index){size, size};
	rq->fifo_tail = size;
	return 0;
}

struct shca_user_ring *shca_user_ring_new(struct shca_member *m, uint32_t size, uint32_t stride)
{
	struct shca_user_ring *r = malloc(sizeof(*r));

	if (!r)
		return NULL;	/* said: the caller */
	*r = (struct shca_user_ring){.ring = shca_mem_alloc(m, size * sizeof(uint64_t)),
				     .marks = shca_mem_alloc(m, size * sizeof(uint64_t)),
					     .wqes = shca_mem_alloc(m, (uint64_t)size * stride), .size = size, .stride = stride};
	if (r->ring && r->marks && r->wqes)
		return r;
	shca_user_ring_free(m, r);
	return NULL;		/* said: shca_mem_alloc */
}

void shca_user_ring_free(struct shca_member *m, struct shca_user_ring *r)
{
	if (!r)
		return;
	shca_mem_free(m, r->ring, r->size * sizeof(uint64_t));
	shca_mem_free(m, r->marks, r->size * sizeof(uint64_t));
	shca_mem_free(m, r->wqes, (uint64_t)r->size * r->stride);
	shca_mem_free(m, r->sh, sizeof(struct shca_rq));
	free(r);
}

uint64_t shca_user_ring_describe(struct shca_member *m, struct shca_rq *sh, const struct shca_user_ring *r)
{
	shca_off end = r->wqes + (uint64_t)r->size * r->stride, bytes = r->size * sizeof(uint64_t);
	uint64_t ring = r->ring | sh->log2;

	end = end > r->ring + bytes ? end : r->ring + bytes;
	end = end > r->marks + bytes ? end : r->marks + bytes;
	/* a message may look at them before there is a ring */
	__atomic_store_n(&sh->marks, r->marks, __ATOMIC_RELAXED);
	__atomic_store_n(&sh->wqes, r->wqes, __ATOMIC_RELAXED);
	__atomic_store_n(&sh->end, end, __ATOMIC_RELAXED);
	__atomic_store_n(&sh->seal, shca_rq_seal(m, sh, ring), __ATOMIC_RELAXED);
	return ring;
}

int shca_user_rq_reserve(struct shca_member *m, struct shca_user_rq *rq)
{
	struct shca_rq *sh = rq->sh;
	uint32_t size = rq->size;

	if (rq->rings)
		return 0;
	struct shca_user_ring *r = shca_user_ring_new(m, size, sh->stride);
	rq->wr_id = calloc(size, sizeof(*rq->wr_id));
	rq->fifo = calloc(size, sizeof(*rq->fifo));
	if (!r || !rq->wr_id || !rq->fifo) {
		shca_user_ring_free(m, r);
		free(rq->wr_id);
		free(rq->fifo);
		rq->wr_id = NULL;
		rq->fifo = NULL;
		return -ENOMEM;	/* said: the caller */
	}
	for (uint32_t i = 0; i < size; i++)
		rq->fifo[i] = i;
	rq->rings = r;
	rq->wqes = shca_at(m->base, r->wqes);
	__atomic_store_n(&rq->marks, shca_at(m->base, r->marks), __ATOMIC_RELAXED);
	/* message senders find the rest by the ring; shca_revoke makes the routes of datagram.c look again */
	atomic_store_explicit(&sh->ring, shca_user_ring_describe(m, sh, r), memory_order_release);
	shca_revoke(m, m->slot);
	return 0;
}

void shca_user_rq_forget(struct shca_user_rq *rq)
{
	for (struct shca_user_ring *r = rq->rings, *older; r; r = older) {
		older = r->older;
		free(r);
	}
	free(rq->wr_id);
	free(rq->fifo);
}

void shca_user_rq_free(struct shca_member *m, struct shca_user_rq *rq)
{
	if (!rq->off)
		return;
	for (struct shca_user_ring *r = rq->rings, *older; r; r = older) {
		older = r->older;
		shca_user_ring_free(m, r);
	}
	rq->rings = NULL;
	shca_mem_free(m, rq->off, sizeof(struct shca_rq));
	shca_user_rq_forget(rq);
	memset(rq, 0, sizeof(*rq));
}
