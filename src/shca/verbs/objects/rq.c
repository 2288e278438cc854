/* SPDX-License-Identifier: BSD-3-Clause */
/* The owner's side of a receive queue: its memory. */
#include <errno.h>
#include <stdlib.h>

#include "shca/verbs/control.h"

int shca_user_rq_init(struct shca_member *m, struct shca_user_rq *rq, uint32_t max_wr, uint32_t max_sge)
{
	uint32_t size = 1, log2 = 0;

	while (size < max_wr) {
		size *= 2;
		log2++;
	}
	memset(rq, 0, sizeof(*rq));
	rq->off = shca_mem_alloc(m, sizeof(struct shca_rq));
	if (!rq->off)
		return -ENOMEM;	/* said: shca_mem_alloc */
	rq->size = size;
	rq->max_sge = max_sge;
	rq->sh = shca_at(m->base, rq->off);
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

int shca_user_rq_reserve(struct shca_member *m, struct shca_user_rq *rq)
{
	struct shca_rq *sh = rq->sh;
	uint32_t size = rq->size;

	if (sh->wqes)
		return 0;
	shca_off ring = shca_mem_alloc(m, size * sizeof(uint64_t)), marks = shca_mem_alloc(m, size * sizeof(uint64_t));
	shca_off wqes = shca_mem_alloc(m, (uint64_t)size * sh->stride);
	rq->wr_id = calloc(size, sizeof(*rq->wr_id));
	rq->fifo = calloc(size, sizeof(*rq->fifo));
	if (!ring || !marks || !wqes || !rq->wr_id || !rq->fifo) {
		shca_mem_free(m, ring, size * sizeof(uint64_t));
		shca_mem_free(m, marks, size * sizeof(uint64_t));
		shca_mem_free(m, wqes, (uint64_t)size * sh->stride);
		free(rq->wr_id);
		free(rq->fifo);
		rq->wr_id = NULL;
		rq->fifo = NULL;
		return -ENOMEM;	/* said: the caller */
	}
	for (uint32_t i = 0; i < size; i++)
		rq->fifo[i] = i;
	rq->marks = shca_at(m->base, marks);
	shca_off end = wqes + (uint64_t)size * sh->stride, bytes = size * sizeof(uint64_t);
	end = end > ring + bytes ? end : ring + bytes;
	end = end > marks + bytes ? end : marks + bytes;
	/* a message may look at them before there is a ring */
	__atomic_store_n(&sh->marks, marks, __ATOMIC_RELAXED);
	__atomic_store_n(&sh->wqes, wqes, __ATOMIC_RELAXED);
	__atomic_store_n(&sh->end, end, __ATOMIC_RELAXED);
	__atomic_store_n(&sh->seal, shca_rq_seal(m, sh, ring | sh->log2), __ATOMIC_RELAXED);
	/* message senders find the rest by the ring; shca_revoke makes the routes of datagram.c look again */
	atomic_store_explicit(&sh->ring, ring | sh->log2, memory_order_release);
	shca_revoke(m, m->slot);
	return 0;
}

void shca_user_rq_free(struct shca_member *m, struct shca_user_rq *rq)
{
	if (!rq->off)
		return;
	if (rq->sh->wqes) {
		shca_mem_free(m, rq->sh->ring & ~(uint64_t)63, rq->size * sizeof(uint64_t));
		shca_mem_free(m, rq->sh->marks, rq->size * sizeof(uint64_t));
		shca_mem_free(m, rq->sh->wqes, (uint64_t)rq->size * rq->sh->stride);
	}
	shca_mem_free(m, rq->off, sizeof(struct shca_rq));
	free(rq->wr_id);
	free(rq->fifo);
	memset(rq, 0, sizeof(*rq));
}
