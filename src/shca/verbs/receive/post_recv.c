/* SPDX-License-Identifier: BSD-3-Clause */
/* ibv_post_recv, ibv_post_srq_recv, and posting again of the receives that other processes gave back. */
#include <errno.h>

#include "shca/verbs/control.h"
#include "shca/verbs/objects/mr.h"
#include "shca/verbs/objects/sq.h"

/* The caller holds rq->lock. */
static void repost(struct shca_thread *thr, struct shca_user_rq *rq)
{
	if (atomic_exchange(&rq->sh->returned, 0) && rq->wr_id)
		for (uint32_t i = 0; i < rq->size; i++)
			if (shca_rq_reclaim(thr, rq->sh, i))
				shca_rq_post(thr, rq->sh, rq->in, shca_rwqe_at(thr, rq->in, i), i);
}

void shca_user_rq_repost(struct shca_thread *thr, struct shca_user_rq *rq)
{
	shca_lock(&rq->lock);
	repost(thr, rq);
	shca_unlock(&rq->lock);
	shca_rq_notice_posted(thr, rq->sh);
}

/* Segments of no length are left out. */
static inline void fill_receive(struct shca_member *m, uint32_t pd, const struct ibv_recv_wr *wr, struct shca_rwqe *w,
				uint32_t stride)
{
	uint8_t n = 0;

	/* before the regions are looked up: a revocation from here on leaves an older value here */
	w->revoke_epoch = atomic_load_explicit(&m->proc->revoke_epoch, memory_order_acquire);
	w->bad = 0;
	for (int i = 0; i < wr->num_sge; i++) {
		if (!wr->sg_list[i].length)
			continue;
		if (unlikely(!shca_resolve_local(m, pd, &wr->sg_list[i], true, &w->sge[n], shca_rwqe_ground(w, stride, n)))) {
			/* a wrong key is an error of the arriving message, not of the post (IBTA 11.6.2) */
			w->sge[n] = shca_mkey_seg(&wr->sg_list[i]);
			w->bad = SHCA_BAD_KEYS;
		}
		n++;
	}
	w->nsge = n;
}

static inline __attribute__((always_inline)) int receives_post(struct shca_thread *thr, struct shca_user_rq *rq, uint32_t pd,
							       struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	if (unlikely(!rq->wr_id) && shca_user_rq_reserve(thr->m, rq)) {
		*bad = wr;
		return shca_no_memory("post_recv");
	}
	if (unlikely(atomic_load_explicit(&rq->sh->returned, memory_order_relaxed) != 0))
		repost(thr, rq);
	for (; wr; wr = wr->next) {
		int rc = 0;
		if (unlikely((uint32_t)wr->num_sge > rq->max_sge))
			rc = shca_refuse(EINVAL, "post_recv: %d segments, the queue was made for %u", wr->num_sge, rq->max_sge);
		else if (unlikely(rq->fifo_tail - rq->fifo_head <= rq->size - rq->max_wr))
			rc = shca_refuse(ENOMEM, "post_recv: all %u receives that the queue was made for are posted", rq->max_wr);
		if (unlikely(rc)) {
			*bad = wr;
			return rc;
		}
		uint32_t index = rq->fifo[rq->fifo_head & (rq->size - 1)];
		struct shca_rwqe *w = (struct shca_rwqe *)(rq->wqes + (uint64_t)index * rq->sh->stride);
		fill_receive(thr->m, pd, wr, w, rq->sh->stride);
		rq->wr_id[index] = wr->wr_id;
		rq->fifo_head++;
		shca_rq_post(thr, rq->sh, rq->in, w, index);
	}
	return 0;
}

int shca_receives_post(struct shca_thread *thr, struct shca_user_rq *rq, uint32_t pd, struct ibv_recv_wr *wr,
		       struct ibv_recv_wr **bad)
{
	return receives_post(thr, rq, pd, wr, bad);
}

static int post_receives(struct shca_member *m, struct shca_user_rq *rq, uint32_t pd, struct ibv_recv_wr *wr,
			 struct ibv_recv_wr **bad)
{
	struct shca_thread *thr = shca_thread_get(m);

	if (unlikely(!thr)) {
		*bad = wr;
		return shca_no_memory("post_recv");
	}
	shca_enter_in(thr, shca_epoch_of(m->slot));
	shca_lock(&rq->lock);
	int rc = receives_post(thr, rq, pd, wr, bad);
	shca_unlock(&rq->lock);
	shca_drain(thr);
	shca_leave(thr);
	return rc;
}

/* A queue in error has the receive that was posted just now flushed. */
static __attribute__((noinline, cold)) void flush_posted(struct shca_user_qp *q)
{
	struct shca_thread *thr = shca_thread_get(q->m);

	shca_enter(thr);
	shca_kick_posted(thr, q);
	shca_leave(thr);
}

int shca_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct shca_user_qp *q = shca_user_qp_of(qp);

	if (unlikely(!shca_takes_receives(q))) {
		*bad = wr;
		return shca_refuse(EINVAL, "post_recv to queue pair %#x: %s", q->qp.qp_num, shca_no_receives(q));
	}
	int rc = post_receives(q->m, q->rq, q->pd_number, wr, bad);
	if (shca_flushes(q->sh))
		flush_posted(q);
	return rc;
}

int shca_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct shca_user_srq *s = (struct shca_user_srq *)srq;

	return post_receives(s->pd->m, &s->rq, s->pd->number, wr, bad);
}
