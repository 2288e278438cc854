/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared receive queues, basic and XRC. */
#include <errno.h>
#include <stdlib.h>

#include "shca/verbs/control.h"

static struct shca_user_srq *srq_new(struct ibv_context *ctx, struct ibv_srq_init_attr_ex *attr, enum ibv_srq_type type)
{
	struct shca_context *c = shca_context_of(ctx);
	struct shca_member *m = c->m;
	struct shca_user_pd *pd = shca_user_pd_of(attr->pd);

	if (shca_unusable(ctx) || shca_wants_huge("MLX_SRQ_ALLOC_TYPE"))
		return NULL;
	if (attr->attr.max_wr > SHCA_MAX_SRQ_WR || attr->attr.max_sge > SHCA_MAX_SGE) {
		errno = shca_refuse(EINVAL, "create_srq: %u requests (at most %d) of %u segments (%d)",
				    attr->attr.max_wr, SHCA_MAX_SRQ_WR, attr->attr.max_sge, SHCA_MAX_SGE);
		return NULL;
	}
	if (type == IBV_SRQT_XRC && shca_cq_in_error(shca_user_cq_of(attr->cq)->sh)) {
		errno = shca_refuse(EINVAL, "create_srq: the completion queue was overrun");
		return NULL;
	}
	struct shca_user_srq *srq = calloc(1, sizeof *srq);
	if (!srq) {
		errno = shca_no_memory("create_srq");
		return NULL;
	}
	/* max_wr 0 gets one: the granted size is at least the one asked for */
	uint32_t max_wr = attr->attr.max_wr ? attr->attr.max_wr : 1;
	int err = shca_user_rq_init(m, &srq->rq, max_wr, attr->attr.max_sge ? attr->attr.max_sge : 1);
	if (err) {
		free(srq);
		errno = err < 0 ? -err : err;
		return NULL;
	}
	srq->number = shca_number_alloc(m);
	if (!srq->number || shca_local_set(m, srq->number, SHCA_KIND_SRQ, srq)) {
		if (srq->number)
			shca_number_free(m, srq->number);
		shca_user_rq_free(m, &srq->rq);
		free(srq);
		errno = shca_no_memory("create_srq");
		return NULL;
	}
	struct shca_rq *sh = srq->rq.sh;
	srq->rq.max_wr = max_wr;
	sh->number = srq->number;
	sh->proc = m->slot;
	sh->pd = pd->number;
	sh->is_srq = 1;
	srq->pd = pd;
	srq->type = type;
	atomic_fetch_add(&pd->refs, 1);
	if (type == IBV_SRQT_XRC) {
		srq->cq = shca_user_cq_of(attr->cq);
		srq->xrcd = (struct shca_user_xrcd *)attr->xrcd;
		sh->cq = srq->cq->off;
		sh->xrcd = srq->xrcd->number;
		atomic_fetch_add(&srq->cq->refs, 1);
		atomic_fetch_add(&srq->xrcd->refs, 1);
	}
	srq->srq.context = ctx;
	srq->srq.srq_context = attr->srq_context;
	srq->srq.pd = attr->pd;
	srq->srq.handle = srq->number;
	pthread_mutex_init(&srq->resizing, NULL);
	pthread_mutex_init(&srq->srq.mutex, NULL);
	pthread_cond_init(&srq->srq.cond, NULL);
	attr->attr.max_wr = srq->rq.max_wr;
	attr->attr.max_sge = srq->rq.max_sge;
	pthread_mutex_lock(&c->mutex);
	srq->next = c->srqs;
	srq->prev = &c->srqs;
	if (srq->next)
		srq->next->prev = &srq->next;
	c->srqs = srq;
	pthread_mutex_unlock(&c->mutex);
	pthread_mutex_lock(&c->node->mutex);
	shca_list_add(&c->node->srqs, &m->proc->srq_list, &srq->listed, srq->rq.off, &sh->next);
	pthread_mutex_unlock(&c->node->mutex);
	shca_number_set(m, srq->number, SHCA_KIND_SRQ, srq->rq.off);
	return srq;
}

struct ibv_srq *shca_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
	struct ibv_srq_init_attr_ex ex = { .srq_context = attr->srq_context, .attr = attr->attr, .pd = pd };
	struct shca_user_srq *srq = srq_new(pd->context, &ex, IBV_SRQT_BASIC);
	if (!srq)
		return NULL;
	attr->attr = ex.attr;
	return &srq->srq;
}

struct ibv_srq *shca_create_srq_ex(struct ibv_context *ctx, struct ibv_srq_init_attr_ex *attr)
{
	const uint32_t xrc = IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
	const uint32_t known = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | xrc | IBV_SRQ_INIT_ATTR_TM;
	enum ibv_srq_type type = attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE ? attr->srq_type : IBV_SRQT_BASIC;

	if ((attr->comp_mask & ~known) || !(attr->comp_mask & IBV_SRQ_INIT_ATTR_PD) || !attr->pd ||
	    (type == IBV_SRQT_XRC && ((attr->comp_mask & xrc) != xrc || !attr->cq || !attr->xrcd))) {
		errno = shca_refuse(EINVAL,
				"create_srq_ex: type %d, comp_mask %#x: PD is needed, by XRC also XRCD and CQ",
				    type, attr->comp_mask);
		return NULL;
	}
	if (type != IBV_SRQT_BASIC && type != IBV_SRQT_XRC) {
		errno = shca_refuse(EOPNOTSUPP, "create_srq_ex: type %d", type);
		return NULL;
	}
	struct shca_user_srq *srq = srq_new(ctx, attr, type);
	return srq ? &srq->srq : NULL;
}

/* Arms the limit; if fewer receives are left already, the event comes at once (IBTA 10.2.9.2). */
static void arm_limit(struct shca_thread *thr, struct shca_rq *rq, uint32_t limit)
{
	uint32_t word = atomic_load(&rq->limit);
	while (!atomic_compare_exchange_weak(&rq->limit, &word, (word & SHCA_LIMIT_EVENT) | limit))
		;
	word = (word & SHCA_LIMIT_EVENT) | limit;
	uint64_t head = atomic_load(&rq->head), tail = atomic_load(&rq->tail);
	if (limit && (head >= tail || tail - head < limit) &&
	    atomic_compare_exchange_strong(&rq->limit, &word, SHCA_LIMIT_EVENT))
		shca_async_wake(thr, rq->proc);
}

static uint32_t armed_limit(const struct shca_user_srq *srq)
{
	return atomic_load(&srq->rq.sh->limit) & ~SHCA_LIMIT_EVENT;
}

/* rq.max_wr, which another thread may change. */
static uint32_t max_wr_of(struct shca_user_srq *srq)
{
	shca_lock(&srq->rq.lock);
	uint32_t n = srq->rq.max_wr;
	shca_unlock(&srq->rq.lock);
	return n;
}

/* Must: srq->resizing is held. */
static int srq_modify(struct shca_thread *thr, struct shca_user_srq *srq, const struct ibv_srq_attr *attr, int mask)
{
	uint32_t max_wr = mask & IBV_SRQ_MAX_WR ? attr->max_wr : max_wr_of(srq);
	uint32_t limit = mask & IBV_SRQ_LIMIT ? attr->srq_limit : armed_limit(srq);

	if (!max_wr || max_wr > SHCA_MAX_SRQ_WR)
		return shca_refuse(EINVAL, "modify_srq: %u requests (1 to %d)", max_wr, SHCA_MAX_SRQ_WR);
	if (limit && limit >= max_wr)
		return shca_refuse(EINVAL, "modify_srq: limit %u of %u requests", limit, max_wr);
	int rc = mask & IBV_SRQ_MAX_WR ? shca_srq_resize(thr, srq, max_wr) : 0;
	if (!rc && mask & IBV_SRQ_LIMIT) {
		shca_enter(thr);
		arm_limit(thr, srq->rq.sh, limit);
		shca_leave(thr);
	}
	return rc;
}

int shca_modify_srq(struct ibv_srq *ibsrq, struct ibv_srq_attr *attr, int mask)
{
	struct shca_user_srq *srq = shca_user_srq_of(ibsrq);
	if (shca_unusable(ibsrq->context))
		return errno;
	if (mask & ~(IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT))
		return shca_refuse(EINVAL, "modify_srq: mask %#x", mask);
	struct shca_thread *thr = shca_thread_get(shca_context_of(ibsrq->context)->m);
	if (!thr)
		return errno;
	pthread_mutex_lock(&srq->resizing);
	int rc = srq_modify(thr, srq, attr, mask);
	pthread_mutex_unlock(&srq->resizing);
	return rc;
}

int shca_query_srq(struct ibv_srq *ibsrq, struct ibv_srq_attr *attr)
{
	struct shca_user_srq *srq = shca_user_srq_of(ibsrq);
	if (shca_unusable(ibsrq->context))
		return errno;
	attr->max_wr = max_wr_of(srq);
	attr->max_sge = srq->rq.max_sge;
	attr->srq_limit = armed_limit(srq);
	return 0;
}

int shca_get_srq_num(struct ibv_srq *ibsrq, uint32_t *number)
{
	struct shca_user_srq *srq = shca_user_srq_of(ibsrq);
	/* an mlx5 tells every queue's, for users of DC */
	if (srq->type != IBV_SRQT_XRC && !shca_is_connectx())
		return shca_refuse(EOPNOTSUPP, "get_srq_num: the shared receive queue is none of XRC");
	*number = srq->number;
	return 0;
}

void shca_srq_unmap(struct shca_user_srq *srq)
{
	struct shca_context *c = shca_context_of(srq->srq.context);
	struct shca_member *m = c->m;

	if (shca_inherited(srq->srq.context)) {
		shca_user_rq_forget(&srq->rq);
		return;
	}
	pthread_mutex_lock(&c->mutex);
	*srq->prev = srq->next;
	if (srq->next)
		srq->next->prev = srq->prev;
	pthread_mutex_unlock(&c->mutex);
	struct shca_thread *thr = shca_thread_get(m);	/* has one: shca_no_thread */
	atomic_store(&srq->rq.sh->dead, 1);
	SHCA_FAILPOINT(thr, "srq-dead", NULL, 0);
	/* Behind this no queue begins to wait for a receive here; a waiting queue looks again and finds the SRQ dead. The number
	 * goes after that: a queue that waits and is destroyed finds the list by the number. */
	shca_quiesce(thr, thr->m->slot);
	shca_enter(thr);
	shca_recv_kick(thr, srq->rq.sh);
	shca_drain(thr);
	shca_leave(thr);
	shca_number_set(m, srq->number, SHCA_KIND_NONE, 0);
	/* behind the number's end, before the quiesce: an XRC requester may remember a window that this queue's domain opens */
	shca_revoke(m, m->slot);
	pthread_mutex_lock(&c->node->mutex);
	shca_list_remove(&c->node->srqs, &m->proc->srq_list, &srq->listed);
	pthread_mutex_unlock(&c->node->mutex);
	shca_quiesce(thr, thr->m->slot);
	if ((atomic_load(&srq->rq.sh->limit) & SHCA_LIMIT_EVENT) || (atomic_load(&srq->rq.sh->error) & SHCA_ERROR_EVENT))
		shca_events_gone(c);
	shca_local_set(m, srq->number, SHCA_KIND_NONE, NULL);
	shca_number_free(m, srq->number);
	shca_user_rq_free(m, &srq->rq);
}

int shca_destroy_srq(struct ibv_srq *ibsrq)
{
	struct shca_user_srq *srq = shca_user_srq_of(ibsrq);
	if (!shca_inherited(ibsrq->context) && !shca_thread_get(shca_context_of(ibsrq->context)->m))
		return shca_no_thread("destroy_srq");
	if (atomic_load(&srq->refs))
		return shca_refuse(EBUSY, "destroy_srq: %u queue pairs receive from the SRQ", atomic_load(&srq->refs));
	shca_srq_unmap(srq);
	shca_wait_acked(&ibsrq->mutex, &ibsrq->cond, &srq->events_unacked);
	if (srq->cq)
		atomic_fetch_sub(&srq->cq->refs, 1);
	if (srq->xrcd)
		atomic_fetch_sub(&srq->xrcd->refs, 1);
	atomic_fetch_sub(&srq->pd->refs, 1);
	pthread_mutex_destroy(&srq->resizing);
	pthread_mutex_destroy(&ibsrq->mutex);
	pthread_cond_destroy(&ibsrq->cond);
	free(srq);
	return 0;
}
