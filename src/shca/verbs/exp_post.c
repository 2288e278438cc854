/* SPDX-License-Identifier: BSD-3-Clause */
/* Posting of the experimental verbs: cross-channel requests, extended atomics, task lists (manual, appendices B, D). */
#include <errno.h>
#include <infiniband/verbs_exp.h>

#include "shca/verbs/device.h"
#include "shca/verbs/post.h"

#define MAX_TASK_SGE 32

static inline struct shca_lqp *lqp_of(struct ibv_qp *qp)
{
	return (struct shca_lqp *)qp;
}

static int op_of(enum ibv_exp_wr_opcode op)
{
	switch (op) {
	case IBV_EXP_WR_RDMA_WRITE: return SHCA_OP_WRITE;
	case IBV_EXP_WR_RDMA_WRITE_WITH_IMM: return SHCA_OP_WRITE_IMM;
	case IBV_EXP_WR_SEND: return SHCA_OP_SEND;
	case IBV_EXP_WR_SEND_WITH_IMM: return SHCA_OP_SEND_IMM;
	case IBV_EXP_WR_RDMA_READ: return SHCA_OP_READ;
	case IBV_EXP_WR_ATOMIC_CMP_AND_SWP: return SHCA_OP_CAS;
	case IBV_EXP_WR_ATOMIC_FETCH_AND_ADD: return SHCA_OP_FAA;
	case IBV_EXP_WR_SEND_ENABLE: return SHCA_OP_SEND_EN;
	case IBV_EXP_WR_RECV_ENABLE: return SHCA_OP_RECV_EN;
	case IBV_EXP_WR_CQE_WAIT: return SHCA_OP_WAIT;
	case IBV_EXP_WR_EXT_MASKED_ATOMIC_CMP_AND_SWP: return SHCA_OP_MASKED_CAS;
	case IBV_EXP_WR_EXT_MASKED_ATOMIC_FETCH_AND_ADD: return SHCA_OP_MASKED_FAA;
	case IBV_EXP_WR_NOP: return SHCA_OP_NOP;
	}
	return -1;
}

static bool is_cross(int op)
{
	return op == SHCA_OP_WAIT || op == SHCA_OP_SEND_EN || op == SHCA_OP_RECV_EN;
}

/* Everything that can be refused without posting. */
static int check(struct shca_lqp *q, const struct ibv_exp_send_wr *wr)
{
	int op = op_of(wr->exp_opcode);

	if (op < 0 || wr->comp_mask || !q->ready)
		return EINVAL;
	if (wr->exp_send_flags & IBV_EXP_SEND_WITH_CALC)
		return EOPNOTSUPP;
	if ((uint32_t)wr->num_sge > q->max_sge)
		return EINVAL;
	if (is_cross(op)) {
		if (!(q->sh->flags & SHCA_QP_CROSS))
			return EINVAL;
		if (op == SHCA_OP_WAIT)
			return wr->task.cqe_wait.cq && wr->task.cqe_wait.cq->context == q->qp.context &&
			       wr->task.cqe_wait.cq_count > 0 ? 0 : EINVAL;
		const struct shca_lqp *t = (const struct shca_lqp *)wr->task.wqe_enable.qp;
		if (!t || t->qp.context != q->qp.context || wr->task.wqe_enable.wqe_count < 0)
			return EINVAL;
		return t->sh->flags & (op == SHCA_OP_SEND_EN ? SHCA_QP_MANAGED_SEND : SHCA_QP_MANAGED_RECV) ? 0 : EINVAL;
	}
	if (op == SHCA_OP_MASKED_CAS || op == SHCA_OP_MASKED_FAA) {
		if (q->type != IBV_QPT_RC)
			return EOPNOTSUPP;
		return wr->ext_op.masked_atomics.log_arg_sz == 3 ? 0 : EINVAL;
	}
	if (q->type == SHCA_QPT_DCI)
		return EOPNOTSUPP;
	return shca_op_allowed(q, (uint8_t)op) ? 0 : EINVAL;
}

static int fill_wait(struct shca_lqp *q, const struct ibv_exp_send_wr *wr, struct shca_req *req)
{
	struct shca_lcq *cq = (struct shca_lcq *)wr->task.cqe_wait.cq;
	uint64_t index = cq->wait_index + (uint64_t)wr->task.cqe_wait.cq_count;

	pthread_mutex_lock(&q->m->mutex);
	shca_off waiter = shca_cq_add_waiter(q->m, cq->sh, q->off);
	pthread_mutex_unlock(&q->m->mutex);
	if (!waiter)
		return ENOMEM;
	if (index > cq->wait_max)
		cq->wait_max = index;
	if (wr->exp_send_flags & IBV_EXP_SEND_WAIT_EN_LAST)
		cq->wait_index = cq->wait_max;
	req->raddr = cq->off;
	req->dqpn = cq->sh->cqn;
	req->arg[0] = index;
	req->arg[1] = waiter;
	return 0;
}

/* Absolute: what was enabled before, and wqe_count more; 0: all that is posted. Enabling what is not posted is refused. */
static int fill_enable(struct shca_lqp *q, const struct ibv_exp_send_wr *wr, struct shca_req *req)
{
	struct shca_lqp *t = (struct shca_lqp *)wr->task.wqe_enable.qp;
	uint64_t count = (uint64_t)wr->task.wqe_enable.wqe_count, posted, *total;

	if (req->op == SHCA_OP_SEND_EN) {
		total = &t->enabled_total;
		posted = t->pi + t->task_sends;
	} else {
		if (!t->rq || t->srq)
			return EINVAL;
		total = &t->rq->enabled_total;
		posted = atomic_load(&t->rq->sh->tail) + t->task_recvs;
	}
	uint64_t index = count ? *total + count : posted;
	if (index > posted)
		return EINVAL;
	*total = index;
	req->raddr = t->off;
	req->dqpn = t->sh->qpn;
	req->arg[0] = index;
	return 0;
}

static int fill(struct shca_lqp *q, const struct ibv_exp_send_wr *wr, struct shca_req *req, struct shca_seg *segs)
{
	memset(req, 0, sizeof(*req));
	req->op = (uint8_t)op_of(wr->exp_opcode);
	req->flags = (wr->exp_send_flags & IBV_EXP_SEND_SIGNALED ? SHCA_WQE_SIGNALED : 0) |
		     (wr->exp_send_flags & IBV_EXP_SEND_SOLICITED ? SHCA_WQE_SOLICITED : 0);
	req->imm = wr->ex.imm_data;
	req->sge = segs;
	if (req->op == SHCA_OP_WAIT)
		return fill_wait(q, wr, req);
	if (is_cross(req->op))
		return fill_enable(q, wr, req);
	req->nsge = (uint8_t)wr->num_sge;
	if (wr->exp_send_flags & IBV_EXP_SEND_INLINE && req->op <= SHCA_OP_WRITE_IMM) {
		for (int i = 0; i < wr->num_sge; i++) {
			segs[i] = (struct shca_seg){.where = wr->sg_list[i].addr, .len = wr->sg_list[i].length,
						    .lane = SHCA_LANE_CMA};
			req->len += segs[i].len;
		}
		if (req->len > q->max_inline)
			return EINVAL;
		req->flags |= SHCA_WQE_INLINE;
	} else {
		bool write = req->op >= SHCA_OP_READ && req->op <= SHCA_OP_MASKED_FAA;
		req->bad = shca_resolve_list(q, wr->sg_list, wr->num_sge, write, segs, &req->len);
	}
	req->raddr = wr->wr.rdma.remote_addr;
	req->rkey = wr->wr.rdma.rkey;
	switch (req->op) {
	case SHCA_OP_CAS:
	case SHCA_OP_FAA:
		req->raddr = wr->wr.atomic.remote_addr;
		req->rkey = wr->wr.atomic.rkey;
		req->arg[0] = wr->wr.atomic.compare_add;
		req->arg[1] = wr->wr.atomic.swap;
		break;
	case SHCA_OP_MASKED_CAS: {
		const struct ibv_exp_cmp_swap *cs = &wr->ext_op.masked_atomics.wr_data.inline_data.op.cmp_swap;
		req->raddr = wr->ext_op.masked_atomics.remote_addr;
		req->rkey = wr->ext_op.masked_atomics.rkey;
		req->arg[0] = cs->compare_val;
		req->arg[1] = cs->compare_mask;
		req->arg[2] = cs->swap_val;
		req->arg[3] = cs->swap_mask;
		break;
	}
	case SHCA_OP_MASKED_FAA: {
		const struct ibv_exp_fetch_add *fa = &wr->ext_op.masked_atomics.wr_data.inline_data.op.fetch_add;
		req->raddr = wr->ext_op.masked_atomics.remote_addr;
		req->rkey = wr->ext_op.masked_atomics.rkey;
		req->arg[0] = fa->add_val;
		req->arg[1] = fa->field_boundary;
		break;
	}
	default:
		break;
	}
	if (q->type == IBV_QPT_UD) {
		const struct shca_lah *ah = (const struct shca_lah *)wr->wr.ud.ah;
		if (!ah)
			return EINVAL;
		req->dqpn = shca_route(ah, wr->wr.ud.remote_qpn);
		req->qkey = wr->wr.ud.remote_qkey;
		if (ah->attr.is_global)
			req->flags |= SHCA_WQE_GRH;
	} else if (q->type == IBV_QPT_XRC_SEND) {
		req->dqpn = wr->qp_type.xrc.remote_srqn;
	}
	return 0;
}

static int post_one(struct shca_cpu *cpu, struct shca_lqp *q, const struct ibv_exp_send_wr *wr)
{
	struct shca_seg segs[MAX_TASK_SGE];
	struct shca_req req;

	/* before anything is counted: a WAIT moves its queue's index, an ENABLE what is enabled */
	if (!shca_send_room(q))
		return ENOMEM;
	int rc = fill(q, wr, &req, segs);

	return rc ? rc : shca_submit(cpu, q, wr->wr_id, &req);
}

int shca_exp_post_send(struct ibv_qp *qp, struct ibv_exp_send_wr *wr, struct ibv_exp_send_wr **bad)
{
	struct shca_lqp *q = lqp_of(qp);
	struct shca_cpu *cpu = shca_cpu_get(q->m);
	int rc = 0;

	*bad = wr;
	if (!cpu)
		return ENOMEM;
	shca_lock(&q->lock);
	shca_enter(cpu);
	for (; wr && !rc; wr = wr->next) {
		*bad = wr;
		rc = check(q, wr);
		if (!rc)
			rc = post_one(cpu, q, wr);
	}
	shca_leave(cpu);
	shca_unlock(&q->lock);
	return rc;
}

/* ---- task lists -------------------------------------------------------------------------------------------------- */

/* First pass: nothing is posted; counts what each queue is about to get. */
static int check_list(struct ibv_context *ctx, struct ibv_exp_task *task, struct ibv_exp_task **bad)
{
	for (; task; task = task->next) {
		*bad = task;
		if (task->comp_mask || !task->item.qp || task->item.qp->context != ctx)
			return EINVAL;
		struct shca_lqp *q = lqp_of(task->item.qp);
		if (task->task_type == IBV_EXP_TASK_RECV) {
			if (!q->rq || q->srq)
				return EINVAL;
			for (struct ibv_recv_wr *wr = task->item.recv_wr; wr; wr = wr->next) {
				if ((uint32_t)wr->num_sge > q->rq->max_sge)
					return EINVAL;
				q->task_recvs++;
			}
			if (q->task_recvs > q->rq->max_wr - (q->rq->size - (q->rq->fifo_tail - q->rq->fifo_head)))
				return ENOMEM;
		} else if (task->task_type == IBV_EXP_TASK_SEND) {
			for (struct ibv_exp_send_wr *wr = task->item.send_wr; wr; wr = wr->next) {
				int rc = check(q, wr);
				if (rc)
					return rc;
				q->task_sends++;
			}
			if (q->task_sends > shca_send_room(q))
				return ENOMEM;
		} else {
			return EINVAL;
		}
	}
	return 0;
}

static void clear_counts(struct ibv_exp_task *task, const struct ibv_exp_task *end)
{
	for (; task && task != end; task = task->next) {
		if (!task->item.qp)
			continue;
		lqp_of(task->item.qp)->task_sends = 0;
		lqp_of(task->item.qp)->task_recvs = 0;
	}
}

static int post_list(struct shca_cpu *cpu, struct ibv_exp_task *task, struct ibv_exp_task **bad)
{
	int rc = 0;

	for (; task && !rc; task = task->next) {
		struct shca_lqp *q = lqp_of(task->item.qp);
		*bad = task;
		if (task->task_type == IBV_EXP_TASK_RECV) {
			struct ibv_recv_wr *bad_recv;
			uint32_t n = 0;
			for (struct ibv_recv_wr *wr = task->item.recv_wr; wr; wr = wr->next)
				n++;
			q->task_recvs -= n;
			rc = shca_post_recv(task->item.qp, task->item.recv_wr, &bad_recv);
			continue;
		}
		shca_lock(&q->lock);
		q->hold_kick = true;
		for (struct ibv_exp_send_wr *wr = task->item.send_wr; wr && !rc; wr = wr->next) {
			rc = post_one(cpu, q, wr);
			/* behind: an ENABLE of its own queue counts itself as posted */
			q->task_sends--;
		}
		q->hold_kick = false;
		shca_unlock(&q->lock);
	}
	return rc;
}

int shca_exp_post_task(struct ibv_context *ctx, struct ibv_exp_task *task, struct ibv_exp_task **bad)
{
	struct shca_cpu *cpu = shca_cpu_get(shca_context_of(ctx)->m);
	struct ibv_exp_task *t;
	int rc;

	*bad = task;
	if (!cpu)
		return ENOMEM;
	rc = check_list(ctx, task, bad);
	if (rc) {
		clear_counts(task, (*bad)->next);
		return rc;
	}
	shca_enter(cpu);
	rc = post_list(cpu, task, bad);
	if (rc)
		clear_counts(task, NULL);
	/* everything is posted before anything runs, so the order of the list's queues does not matter */
	for (t = task; t; t = t->next)
		if (t->task_type == IBV_EXP_TASK_SEND && atomic_load(&lqp_of(t->item.qp)->sh->shared))
			shca_kick_later(cpu, lqp_of(t->item.qp));
	shca_drain(cpu);
	shca_leave(cpu);
	return rc;
}
