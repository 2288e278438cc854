/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/base.h"
#include "verbs_exp/validate.h"

#include <errno.h>
#include <stdbool.h>

/* A provider may rely on every check here, so that each of them is made once, and no provider forgets one. */

#define KNOWN_SEND_FLAGS                                                                                             \
	(IBV_EXP_SEND_FENCE | IBV_EXP_SEND_SIGNALED | IBV_EXP_SEND_SOLICITED | IBV_EXP_SEND_INLINE |                 \
	 SHCA_EXP_SEND_CALC_VECTOR | SHCA_EXP_SEND_CALC_HOST_ORDER | IBV_EXP_SEND_WITH_CALC | IBV_EXP_SEND_WAIT_EN_LAST | IBV_EXP_SEND_EXT_ATOMIC_INLINE)

#define KNOWN_QP_FLAGS ((uint32_t)IBV_EXP_QP_CREATE_MASK | IBV_EXP_QP_CREATE_INTERNAL_USE)
#define KNOWN_QP_COMP ((uint32_t)IBV_EXP_QP_INIT_ATTR_RESERVED1 - 1)
#define KNOWN_CQ_COMP ((uint32_t)IBV_EXP_CQ_INIT_ATTR_RESERVED1 - 1)
#define KNOWN_CQ_FLAGS ((uint32_t)IBV_EXP_CQ_CREATE_FLAGS_MASK)

int exp_check_cq_init(int cqe, const struct ibv_exp_cq_init_attr *attr)
{
	if (cqe <= 0)
		return EINVAL;
	if (!attr)
		return 0;
	if (attr->comp_mask & ~KNOWN_CQ_COMP)
		return EINVAL;
	return (attr->comp_mask & IBV_EXP_CQ_INIT_ATTR_FLAGS) && (attr->flags & ~KNOWN_CQ_FLAGS) ? EINVAL : 0;
}

int exp_check_cq_attr(const struct ibv_exp_cq_attr *attr, int attr_mask)
{
	const uint32_t known = IBV_EXP_CQ_MODERATION | IBV_EXP_CQ_CAP_FLAGS;

	/* D.2.2 wants both masks: the verb's, and the structure's own. They have the same bits. */
	if (!attr || !attr_mask || ((uint32_t)attr_mask & ~known) || ((uint32_t)attr_mask & ~attr->comp_mask))
		return EINVAL;
	return (attr_mask & IBV_EXP_CQ_CAP_FLAGS) && (attr->cq_cap_flags & ~(uint32_t)IBV_EXP_CQ_IGNORE_OVERRUN) ? EINVAL : 0;
}

int exp_check_dct_init(const struct ibv_context *ctx, const struct ibv_exp_dct_init_attr *attr)
{
	if (!attr || !attr->pd || attr->pd->context != ctx || !attr->cq || attr->cq->context != ctx || !attr->srq ||
	    attr->srq->context != ctx)
		return EINVAL;
	return attr->create_flags ? EOPNOTSUPP : 0;
}

static bool needs_send_cq(enum ibv_qp_type type)
{
	return type != IBV_QPT_XRC_RECV;
}

int exp_check_qp_init(const struct ibv_context *ctx, const struct ibv_exp_qp_init_attr *attr)
{
	uint32_t flags;

	if (!attr || (attr->comp_mask & ~KNOWN_QP_COMP))
		return EINVAL;
	flags = attr->comp_mask & IBV_EXP_QP_INIT_ATTR_CREATE_FLAGS ? attr->exp_create_flags : 0;
	if (flags & ~KNOWN_QP_FLAGS)
		return EINVAL;
	if (attr->qp_type == IBV_QPT_XRC_RECV) {
		if (!(attr->comp_mask & IBV_EXP_QP_INIT_ATTR_XRCD) || !attr->xrcd || attr->xrcd->context != ctx)
			return EINVAL;
	} else if (!(attr->comp_mask & IBV_EXP_QP_INIT_ATTR_PD) || !attr->pd || attr->pd->context != ctx) {
		return EINVAL;
	}
	if (needs_send_cq(attr->qp_type) && !attr->send_cq)
		return EINVAL;
	if ((attr->send_cq && attr->send_cq->context != ctx) || (attr->recv_cq && attr->recv_cq->context != ctx) ||
	    (attr->srq && attr->srq->context != ctx))
		return EINVAL;
	/* A shared receive queue serves many queue pairs: no one of them can manage it. */
	if ((flags & IBV_EXP_QP_CREATE_MANAGED_RECV) && attr->srq)
		return EINVAL;
	if ((attr->comp_mask & IBV_EXP_QP_INIT_ATTR_ATOMICS_ARG) && !is_pow2(attr->max_atomic_arg))
		return EINVAL;
	return 0;
}

static int check_calc(const struct ibv_exp_send_wr *wr)
{
	if (wr->exp_opcode != IBV_EXP_WR_SEND && wr->exp_opcode != IBV_EXP_WR_SEND_WITH_IMM &&
	    wr->exp_opcode != IBV_EXP_WR_RDMA_WRITE && wr->exp_opcode != IBV_EXP_WR_RDMA_WRITE_WITH_IMM &&
	    wr->exp_opcode != IBV_EXP_WR_RDMA_READ)
		return EINVAL;
	/* which operations, types and sizes there are is the device's to say */
	return wr->num_sge > 0 ? 0 : EINVAL;
}

static int check_masked_atomic(const struct ibv_exp_send_wr *wr)
{
	uint64_t size;

	if (wr->ext_op.masked_atomics.log_arg_sz > 31)
		return EINVAL;
	size = 1ULL << wr->ext_op.masked_atomics.log_arg_sz;
	if (size < 4 || (wr->ext_op.masked_atomics.remote_addr & (size - 1)) || wr->num_sge < 1 || wr->sg_list[0].length < size)
		return EINVAL;
	/* without the flag, the operands are in memory that stands behind the result */
	return wr->exp_send_flags & IBV_EXP_SEND_EXT_ATOMIC_INLINE ? (wr->num_sge == 1 ? 0 : EINVAL) : wr->num_sge > 1 ? 0 : EINVAL;
}

/* Requests that move data. */
static int check_data_wr(const struct ibv_exp_send_wr *wr)
{
	uint64_t flags = wr->exp_send_flags;

	if (wr->num_sge < 0 || (wr->num_sge && !wr->sg_list))
		return EINVAL;
	if (flags & IBV_EXP_SEND_WITH_CALC) {
		int err = check_calc(wr);

		if (err)
			return err;
	}

	switch (wr->exp_opcode) {
	case IBV_EXP_WR_RDMA_WRITE:
	case IBV_EXP_WR_RDMA_WRITE_WITH_IMM:
	case IBV_EXP_WR_SEND:
	case IBV_EXP_WR_SEND_WITH_IMM:
		break;
	case IBV_EXP_WR_RDMA_READ:
		return flags & IBV_EXP_SEND_INLINE ? EINVAL : 0;
	case IBV_EXP_WR_ATOMIC_CMP_AND_SWP:
	case IBV_EXP_WR_ATOMIC_FETCH_AND_ADD:
		if ((flags & IBV_EXP_SEND_INLINE) || wr->num_sge != 1 || wr->sg_list[0].length < 8 ||
		    (wr->wr.atomic.remote_addr & 7))
			return EINVAL;
		break;
	case IBV_EXP_WR_EXT_MASKED_ATOMIC_CMP_AND_SWP:
	case IBV_EXP_WR_EXT_MASKED_ATOMIC_FETCH_AND_ADD:
		return flags & IBV_EXP_SEND_INLINE ? EINVAL : check_masked_atomic(wr);
	case IBV_EXP_WR_SEND_WITH_INV:
	case IBV_EXP_WR_LOCAL_INV:
	case IBV_EXP_WR_BIND_MW:
	case IBV_EXP_WR_TSO:
	case IBV_EXP_WR_UMR_FILL:
	case IBV_EXP_WR_UMR_INVALIDATE:
		return EOPNOTSUPP;
	default:
		return EINVAL;
	}
	return 0;
}

int exp_check_send_wr(const struct ibv_qp *qp, const struct ibv_exp_send_wr *wr)
{
	uint64_t flags = wr->exp_send_flags;

	/* comp_mask has no bits so far, so no field depends on it, and what strangers leave there is not looked at */
	if (flags & ~KNOWN_SEND_FLAGS)
		return EINVAL;
	switch (wr->exp_opcode) {
	case IBV_EXP_WR_CQE_WAIT:
		return wr->task.cqe_wait.cq && wr->task.cqe_wait.cq->context == qp->context && wr->task.cqe_wait.cq_count > 0 ?
			       0 : EINVAL;
	case IBV_EXP_WR_SEND_ENABLE:
	case IBV_EXP_WR_RECV_ENABLE:
		return wr->task.wqe_enable.qp && wr->task.wqe_enable.qp->context == qp->context &&
				       wr->task.wqe_enable.wqe_count >= 0 ? 0 : EINVAL;
	case IBV_EXP_WR_NOP:
		return flags & IBV_EXP_SEND_WAIT_EN_LAST ? EINVAL : 0;
	default:
		return flags & IBV_EXP_SEND_WAIT_EN_LAST ? EINVAL : check_data_wr(wr);
	}
}

int exp_check_task(const struct ibv_context *ctx, const struct ibv_exp_task *task)
{
	if (!task->item.qp || task->item.qp->context != ctx)
		return EINVAL;
	switch (task->task_type) {
	case IBV_EXP_TASK_SEND:
		if (!task->item.send_wr)
			return EINVAL;
		for (const struct ibv_exp_send_wr *wr = task->item.send_wr; wr; wr = wr->next) {
			int err = exp_check_send_wr(task->item.qp, wr);

			if (err)
				return err;
		}
		return 0;
	case IBV_EXP_TASK_RECV:
		if (!task->item.recv_wr || task->item.qp->srq)
			return EINVAL;
		for (const struct ibv_recv_wr *wr = task->item.recv_wr; wr; wr = wr->next)
			if (wr->num_sge < 0 || (wr->num_sge && !wr->sg_list))
				return EINVAL;
		return 0;
	}
	return EINVAL;
}
