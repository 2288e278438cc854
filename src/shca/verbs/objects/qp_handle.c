/* SPDX-License-Identifier: BSD-3-Clause */
/* The handle of a queue pair of any type: the fields of libibverbs, the context's list, references to
 * PD, CQs, SRQ, XRC domain. */
#include "shca/verbs/control.h"

void shca_qp_refs(struct shca_user_qp *qp, int n)
{
	_Atomic uint32_t *refs[] = {
		qp->pd ? &qp->pd->refs : NULL, qp->scq ? &qp->scq->refs : NULL, qp->rcq ? &qp->rcq->refs : NULL,
		qp->srq ? &qp->srq->refs : NULL, qp->xrcd ? &qp->xrcd->refs : NULL,
	};

	for (size_t i = 0; i < ARRAY_SIZE(refs); i++)
		if (refs[i])
			atomic_fetch_add(refs[i], (uint32_t)n);
}

void shca_qp_fill_verbs(struct shca_user_qp *qp, struct ibv_context *ctx, struct shca_qp_create *cr)
{
	struct ibv_qp_init_attr_ex *a = &cr->attr;
	struct ibv_qp *q = &qp->qp;
	q->context = ctx;
	q->qp_context = a->qp_context;
	q->pd = a->pd;
	q->send_cq = a->send_cq;
	q->recv_cq = a->recv_cq;
	q->srq = a->srq;
	q->handle = q->qp_num = qp->sh->qpn;
	q->state = IBV_QPS_RESET;
	q->qp_type = cr->type == SHCA_QPT_DCI || cr->type == SHCA_QPT_DCT ? IBV_QPT_DRIVER : a->qp_type;
	pthread_mutex_init(&q->mutex, NULL);
	pthread_mutex_init(&qp->modifying, NULL);
	pthread_cond_init(&q->cond, NULL);
	a->cap.max_send_wr = qp->max_wr;
	a->cap.max_send_sge = qp->max_sge;
	a->cap.max_inline_data = qp->max_inline;
	a->cap.max_recv_wr = qp->rq == &qp->own_rq ? qp->own_rq.max_wr : 0;
	a->cap.max_recv_sge = qp->rq == &qp->own_rq ? qp->own_rq.max_sge : 0;
	qp->init = (struct ibv_qp_init_attr){
		.qp_context = a->qp_context, .send_cq = a->send_cq, .recv_cq = a->recv_cq, .srq = a->srq,
		.cap = a->cap, .qp_type = q->qp_type, .sq_sig_all = a->sq_sig_all,
	};
}

void shca_qp_enter(struct shca_context *c, struct shca_user_qp *qp)
{
	qp->mapped = true;
	shca_qp_refs(qp, 1);
	pthread_mutex_lock(&c->mutex);
	qp->next = c->qps;
	qp->prev = &c->qps;
	if (qp->next)
		qp->next->prev = &qp->next;
	c->qps = qp;
	pthread_mutex_unlock(&c->mutex);
}

void shca_qp_leave(struct shca_context *c, struct shca_user_qp *qp)
{
	pthread_mutex_lock(&c->mutex);
	*qp->prev = qp->next;
	if (qp->next)
		qp->next->prev = qp->prev;
	pthread_mutex_unlock(&c->mutex);
}
