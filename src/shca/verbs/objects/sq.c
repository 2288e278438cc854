/* SPDX-License-Identifier: BSD-3-Clause */
/* The memory of a send queue: the ring of WQEs, the requests' wr_ids, the rkey cache, inline data that is longer than a WQE. */
#include <errno.h>
#include <stdlib.h>

#include "shca/verbs/control.h"
#include "shca/verbs/objects/sq.h"

static uint64_t sq_bytes(const struct shca_user_qp *qp)
{
	return (uint64_t)qp->sh->sq_stride * qp->sh->sq_slots;
}

/* Most queues run their requests where they are posted, and write none down. */
int shca_reserve_ring(struct shca_user_qp *qp)
{
	if (qp->sh->wqes)
		return 0;
	shca_off wqes = shca_mem_alloc(qp->m, sq_bytes(qp));
	/* Executors come by a request that is posted, and this is before; an ENABLE ahead of the first post only prefetches. */
	__atomic_store_n(&qp->sh->wqes, wqes, __ATOMIC_RELAXED);
	return wqes ? 0 : ENOMEM;	/* said: shca_mem_alloc */
}

static int rkey_cache_init(struct shca_user_qp *q)
{
	uint32_t n = q->type == SHCA_QPT_DCI ? SHCA_RKEY_CACHE_DC : SHCA_RKEY_CACHE;

	if (posix_memalign((void **)&q->rkey_cache, SHCA_LINE, n * sizeof(*q->rkey_cache)))
		return ENOMEM;	/* said: shca_qp_new */
	q->rkey_cache_mask = n - 1;
	shca_rkey_cache_clear(q);
	return 0;
}

void shca_rkey_cache_clear(struct shca_user_qp *q)
{
	if (!q->rkey_cache)
		return;
	memset(q->rkey_cache, 0, (q->rkey_cache_mask + 1) * sizeof(*q->rkey_cache));
	for (uint32_t i = 0; i <= q->rkey_cache_mask; i++)
		q->rkey_cache[i].proc = q->m->proc;	/* no bytes, but a count to look at */
}

int shca_sq_init(struct shca_user_qp *qp, const struct ibv_qp_cap *cap)
{
	uint32_t sge = cap->max_send_sge ? cap->max_send_sge : 1;
	uint32_t room = sge * (uint32_t)sizeof(struct shca_seg), most = cap->max_inline_data;

	/* longer inline data of a request that has to wait is kept elsewhere (shca_long_at) */
	if (room < most)
		room = most < SHCA_WQE_INLINE_MAX ? most : SHCA_WQE_INLINE_MAX;
	room = (uint32_t)align_up(room, SHCA_LINE);
	/* one slot more: a request may have been polled before an executor moves head past the request (freed() in post.c) */
	uint32_t slots = cap->max_send_wr ? cap->max_send_wr + 1 : 2, ids = (uint32_t)pow2_up(slots);
	qp->max_wr = cap->max_send_wr;
	qp->sq_mask = ids - 1;
	qp->max_sge = sge;
	qp->max_atomic = 8;
	qp->max_inline = most > room ? most : room;
	qp->wr_id = calloc(ids, sizeof *qp->wr_id);
	if (!qp->wr_id)
		return ENOMEM;	/* said: shca_qp_new */
	qp->sh->sq_slots = slots;
	qp->sh->sq_magic = UINT64_MAX / slots + 1;
	qp->sh->sq_stride = (uint32_t)sizeof(struct shca_wqe) + room;
	return qp->fast_write_kind ? rkey_cache_init(qp) : 0;
}

void shca_sq_free(struct shca_user_qp *qp)
{
	if (qp->sh->wqes)
		shca_mem_free(qp->m, qp->sh->wqes, sq_bytes(qp));
	shca_longs_free(qp);
	free(qp->longs);
	free(qp->wr_id);
	free(qp->rkey_cache);
	free(qp->routes);
}

/* ---- inline data longer than a WQE: a block of the arena, until the slot is used again or the queue is DIRECT again -------- */

void shca_longs_free(struct shca_user_qp *q)
{
	for (uint64_t i = 0; q->nlongs && i <= q->sq_mask; i++) {
		if (!q->longs[i].at)
			continue;
		shca_mem_free(q->m, q->longs[i].at, q->longs[i].bytes);
		q->longs[i].at = 0;
		q->nlongs--;
	}
}

shca_off shca_long_at(struct shca_user_qp *q, uint64_t pos, uint32_t bytes)
{
	if (!q->longs)
		q->longs = calloc(q->sq_mask + 1, sizeof(*q->longs));
	if (!q->longs)
		return 0;
	struct shca_long *l = &q->longs[pos & q->sq_mask];
	if (l->at && l->bytes == bytes)
		return l->at;
	if (l->at) {
		shca_mem_free(q->m, l->at, l->bytes);
		q->nlongs--;
	}
	l->at = shca_mem_alloc(q->m, bytes);
	l->bytes = bytes;
	if (l->at)
		q->nlongs++;
	return l->at;
}

int shca_reserve_operands(struct shca_user_qp *q, uint64_t ahead, uint32_t bytes)
{
	return shca_long_at(q, q->pi + ahead, bytes) ? 0 : shca_no_memory("post_send");
}

int shca_reserve_inline(struct shca_user_qp *q, uint64_t ahead, uint64_t bytes)
{
	if (bytes <= q->sh->sq_stride - sizeof(struct shca_wqe))
		return 0;
	return shca_long_at(q, q->pi + ahead, (uint32_t)bytes) ? 0 : shca_no_memory("post_send");
}
