/* SPDX-License-Identifier: BSD-3-Clause */
/* ibv_modify_srq, IBV_SRQ_MAX_WR: a shared receive queue gets room for more requests, or for fewer. */
#include <errno.h>
#include <stdlib.h>

#include "shca/verbs/control.h"

/* Returns how many receives are posted and not taken. Must: rq->lock is held, and the ring is not being replaced. */
static uint32_t srq_posted(const struct shca_user_rq *rq)
{
	uint32_t n = 0;

	for (uint32_t i = 0; rq->rings && i < rq->size; i++) {
		const struct shca_rwqe *w = (const struct shca_rwqe *)(rq->wqes + (uint64_t)i * rq->sh->stride);
		n += (atomic_load_explicit(&w->word, memory_order_acquire) & 3) == SHCA_R_POSTED;
	}
	return n;
}

/* Memory for a longer ring. */
struct srq_longer {
	struct shca_user_ring *ring;
	shca_off first;			/* the struct shca_rq of the present ring; 0: it has one */
	uint64_t *wr_id;
	uint32_t *fifo;
	uint32_t log2;
};

static void srq_longer_free(struct shca_member *m, struct srq_longer *l)
{
	shca_user_ring_free(m, l->ring);
	shca_mem_free(m, l->first, sizeof(struct shca_rq));
	free(l->wr_id);
	free(l->fifo);
}

static int srq_longer_new(struct shca_member *m, const struct shca_user_rq *rq, struct srq_longer *l)
{
	uint64_t size = 1ull << l->log2;

	l->ring = shca_user_ring_new(m, (uint32_t)size, rq->sh->stride);
	l->wr_id = calloc(size, sizeof(*l->wr_id));
	l->fifo = calloc(size, sizeof(*l->fifo));
	if (!l->ring || !l->wr_id || !l->fifo || !(l->ring->sh = shca_mem_alloc(m, sizeof(struct shca_rq))) ||
	    (!rq->rings->sh && !(l->first = shca_mem_alloc(m, sizeof(struct shca_rq))))) {
		srq_longer_free(m, l);
		return shca_no_memory("modify_srq");
	}
	return 0;
}

/* Writes the struct shca_rq of a ring. */
static struct shca_rq *srq_ring_describe(struct shca_member *m, const struct shca_user_rq *rq, const struct shca_user_ring *ring,
					 uint32_t log2)
{
	struct shca_rq *sh = shca_at(m->base, ring->sh);

	sh->log2 = log2;
	sh->stride = ring->stride;
	sh->number = rq->sh->number;
	sh->proc = rq->sh->proc;
	sh->pd = rq->sh->pd;
	sh->xrcd = rq->sh->xrcd;
	sh->is_srq = 1;
	sh->older = ring->older ? ring->older->sh : 0;
	sh->whose = rq->off;
	atomic_store(&sh->ring, shca_user_ring_describe(m, sh, ring));
	return sh;
}

/* Steps 1 and 2 of engine/rq_move.c. The caller frees the memory that is left in *l. Must: rq->lock is held. */
static void srq_move_begin(struct shca_thread *thr, struct shca_user_rq *rq, struct srq_longer *l)
{
	struct shca_member *m = thr->m;
	uint32_t size = rq->size, to = l->ring->size, n = rq->fifo_tail - rq->fifo_head;
	struct srq_longer spent = {.wr_id = rq->wr_id, .fifo = rq->fifo};
	struct shca_rq *from;

	if (l->first) {
		rq->rings->sh = l->first;
		srq_ring_describe(m, rq, rq->rings, rq->sh->log2);
	}
	from = shca_at(m->base, rq->rings->sh);
	l->ring->older = rq->rings;
	memcpy(l->wr_id, rq->wr_id, size * sizeof(*l->wr_id));
	for (uint32_t i = 0; i < n; i++)
		l->fifo[i] = rq->fifo[(rq->fifo_head + i) & (size - 1)];
	for (uint32_t i = size; i < to; i++)
		l->fifo[n++] = i;
	rq->rings = l->ring;
	rq->in = srq_ring_describe(m, rq, l->ring, l->log2);
	rq->wr_id = l->wr_id;
	rq->fifo = l->fifo;
	rq->fifo_head = 0;
	rq->fifo_tail = n;
	rq->size = to;
	__atomic_store_n(&rq->marks, shca_at(m->base, l->ring->marks), __ATOMIC_RELAXED);
	__atomic_store_n(&rq->wqes, shca_at(m->base, l->ring->wqes), __ATOMIC_RELEASE);
	shca_rq_move(thr, rq->sh, from, rq->in);
	*l = spent;
}

/* Step 3. */
static void srq_move_end(struct shca_thread *thr, struct shca_user_rq *rq)
{
	struct shca_rq *sh = rq->sh;

	atomic_store_explicit(&sh->ring, shca_off_of(thr->m, &sh->none), memory_order_release);
	SHCA_FAILPOINT(thr, "rq-move-closed", NULL, 0);
	shca_quiesce(thr, thr->m->slot);
	__atomic_store_n(&sh->log2, rq->in->log2, __ATOMIC_RELAXED);
	SHCA_FAILPOINT(thr, "rq-move-half", NULL, 0);
	uint64_t ring = shca_user_ring_describe(thr->m, sh, rq->rings);
	atomic_store_explicit(&sh->ring, ring, memory_order_release);
	/* routes of datagram.c lead to the old ring */
	shca_revoke(thr->m, thr->m->slot);
	SHCA_FAILPOINT(thr, "rq-moved", NULL, 0);
}

/* Gives a queue to which no receive was posted another size. Must: rq->lock is held. */
static void remake(struct shca_user_rq *rq, uint32_t log2)
{
	__atomic_store_n(&rq->sh->log2, log2, __ATOMIC_RELAXED);
	rq->size = 1u << log2;
	rq->fifo_head = 0;
	rq->fifo_tail = rq->size;
}

static int srq_grow(struct shca_thread *thr, struct shca_user_rq *rq, uint32_t max_wr, uint32_t log2)
{
	struct srq_longer l = {.log2 = log2};
	int rc = srq_longer_new(thr->m, rq, &l);

	if (rc)
		return rc;
	shca_lock(&rq->lock);
	srq_move_begin(thr, rq, &l);
	rq->max_wr = max_wr;
	shca_unlock(&rq->lock);
	srq_longer_free(thr->m, &l);
	SHCA_FAILPOINT(thr, "rq-move-copied", NULL, 0);
	srq_move_end(thr, rq);
	return 0;
}

int shca_srq_resize(struct shca_thread *thr, struct shca_user_srq *srq, uint32_t max_wr)
{
	struct shca_user_rq *rq = &srq->rq;
	uint32_t log2 = shca_rq_log2(max_wr);

	shca_lock(&rq->lock);
	uint32_t n = srq_posted(rq);
	bool fits = !rq->rings || max_wr <= rq->size;
	if (n <= max_wr && fits) {
		if (!rq->rings)
			remake(rq, log2);
		rq->max_wr = max_wr;
	}
	shca_unlock(&rq->lock);
	if (n > max_wr)
		return shca_refuse(EINVAL, "modify_srq: to %u requests, %u are posted", max_wr, n);
	return fits ? 0 : srq_grow(thr, rq, max_wr, log2);
}
