/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A forked child does not have the fabric's mapping: each access to the fabric would end the process. Verbs that make, change or
 * query ask shca_inherited themselves; those of the data path have no instruction to spare for that, so the child replaces them
 * in the contexts, queues and CQs that it inherited.
 */
#include <errno.h>

#include "shca/verbs/control.h"

static int child_refuse(struct ibv_context *ctx)
{
	shca_inherited(ctx);
	return errno;	/* said: shca_inherited */
}

static int send_refused(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	*bad = wr;
	return child_refuse(qp->context);
}

static int receive_refused(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	*bad = wr;
	return child_refuse(qp->context);
}

static int shared_receive_refused(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	*bad = wr;
	return child_refuse(srq->context);
}

static int poll_refused(struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
	return -child_refuse(cq->context);
}

static int notify_refused(struct ibv_cq *cq, int solicited_only)
{
	return child_refuse(cq->context);
}

/* Builds requests in the process's own memory. Must not take the queue's lock: the thread that held the lock at the fork is not
 * in the child. */
static void child_start(struct ibv_qp_ex *ex)
{
	struct shca_user_qp *q = (struct shca_user_qp *)ex;

	q->wr_n = 0;
	q->wr_err = ENODEV;	/* said: complete_refused */
	q->wr_last = NULL;
}

static int complete_refused(struct ibv_qp_ex *ex)
{
	return child_refuse(ex->qp_base.context);
}

static void child_give_up(struct ibv_qp_ex *ex)
{
}

/* These would look memory up. */
static void set_sge(struct ibv_qp_ex *ex, uint32_t lkey, uint64_t addr, uint32_t length)
{
}

static void set_sge_list(struct ibv_qp_ex *ex, size_t n, const struct ibv_sge *list)
{
}

static void set_inline_data(struct ibv_qp_ex *ex, void *addr, size_t length)
{
}

static void set_inline_data_list(struct ibv_qp_ex *ex, size_t n, const struct ibv_data_buf *list)
{
}

static void raw_wqe(struct mlx5dv_qp_ex *dv, const void *wqe)
{
}

static int start_poll_refused(struct ibv_cq_ex *ex, struct ibv_poll_cq_attr *attr)
{
	return child_refuse(ex->context);
}

void shca_context_inherit(struct shca_context *c)
{
	struct ibv_context_ops *ops = &c->v.context.ops;

	ops->post_send = send_refused;
	ops->post_recv = receive_refused;
	ops->post_srq_recv = shared_receive_refused;
	ops->poll_cq = poll_refused;
	ops->req_notify_cq = notify_refused;
	for (struct shca_user_qp *q = c->qps; q; q = q->next) {
		if (!q->ex.wr_start)
			continue;
		q->ex.wr_start = child_start;
		q->ex.wr_complete = complete_refused;
		q->ex.wr_abort = child_give_up;
		q->ex.wr_set_sge = set_sge;
		q->ex.wr_set_sge_list = set_sge_list;
		q->ex.wr_set_inline_data = set_inline_data;
		q->ex.wr_set_inline_data_list = set_inline_data_list;
		q->dv.wr_raw_wqe = raw_wqe;
	}
	for (struct shca_user_cq *cq = c->cqs; cq; cq = cq->next)
		cq->ex.start_poll = start_poll_refused;
}
