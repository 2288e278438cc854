/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/base.h"
#include "verbs_exp/provider.h"
#include "verbs_exp/validate.h"

#include <errno.h>
#include <stdbool.h>

/* Checks that are independent of the provider. A provider may rely on each of them. */

#define KNOWN_SEND_FLAGS                                                                                                       \
	(IBV_EXP_SEND_FENCE | IBV_EXP_SEND_SIGNALED | IBV_EXP_SEND_SOLICITED | IBV_EXP_SEND_INLINE |                           \
	 SHCA_EXP_SEND_CALC_VECTOR | SHCA_EXP_SEND_CALC_HOST_ORDER | IBV_EXP_SEND_WITH_CALC | IBV_EXP_SEND_WAIT_EN_LAST |      \
	 IBV_EXP_SEND_EXT_ATOMIC_INLINE)

#define KNOWN_QP_FLAGS ((uint32_t)IBV_EXP_QP_CREATE_MASK | IBV_EXP_QP_CREATE_INTERNAL_USE)
#define KNOWN_QP_COMP ((uint32_t)IBV_EXP_QP_INIT_ATTR_RESERVED1 - 1)
#define KNOWN_CQ_COMP ((uint32_t)IBV_EXP_CQ_INIT_ATTR_RESERVED1 - 1)
#define KNOWN_CQ_FLAGS ((uint32_t)IBV_EXP_CQ_CREATE_FLAGS_MASK)

int exp_check_cq_init(struct ibv_context *ctx, int cqe, const struct ibv_exp_cq_init_attr *attr)
{
	if (cqe <= 0)
		return exp_refuse(ctx, EINVAL, "ibv_exp_create_cq: %d entries", cqe);
	if (!attr)
		return 0;
	if (attr->comp_mask & ~KNOWN_CQ_COMP)
		return exp_refuse(ctx, EINVAL, "ibv_exp_create_cq: comp_mask %#x, known are %#x", attr->comp_mask, KNOWN_CQ_COMP);
	if ((attr->comp_mask & IBV_EXP_CQ_INIT_ATTR_FLAGS) && (attr->flags & ~KNOWN_CQ_FLAGS))
		return exp_refuse(ctx, EINVAL, "ibv_exp_create_cq: flags %#x, known are %#x", attr->flags, KNOWN_CQ_FLAGS);
	return 0;
}

int exp_check_cq_attr(const struct ibv_cq *cq, const struct ibv_exp_cq_attr *attr, int attr_mask)
{
	const uint32_t known = IBV_EXP_CQ_MODERATION | IBV_EXP_CQ_CAP_FLAGS;

	/* D.2.2 requires both masks, the verb's and the structure's, which have the same bits. */
	if (!attr || !attr_mask || ((uint32_t)attr_mask & ~known) || ((uint32_t)attr_mask & ~attr->comp_mask))
		return exp_refuse(cq->context, EINVAL, "ibv_exp_modify_cq: mask %#x and comp_mask %#x must have the same bits "
				  "of %#x", (unsigned int)attr_mask, attr ? attr->comp_mask : 0, known);
	if ((attr_mask & IBV_EXP_CQ_CAP_FLAGS) && (attr->cq_cap_flags & ~(uint32_t)IBV_EXP_CQ_IGNORE_OVERRUN))
		return exp_refuse(cq->context, EINVAL, "ibv_exp_modify_cq: cq_cap_flags %#x, known is %#x", attr->cq_cap_flags,
				  IBV_EXP_CQ_IGNORE_OVERRUN);
	return 0;
}

int exp_check_dct_init(struct ibv_context *ctx, const struct ibv_exp_dct_init_attr *attr)
{
	if (!attr || !attr->pd || attr->pd->context != ctx || !attr->cq || attr->cq->context != ctx || !attr->srq ||
	    attr->srq->context != ctx)
		return exp_refuse(ctx, EINVAL,
				  "ibv_exp_create_dct: a domain, a completion queue and a shared receive queue of this context "
				  "are needed");
	return attr->create_flags ? exp_refuse(ctx, EOPNOTSUPP, "ibv_exp_create_dct: create_flags %#x", attr->create_flags) : 0;
}

static bool needs_send_cq(enum ibv_qp_type type)
{
	return type != IBV_QPT_XRC_RECV;
}

int exp_check_qp_init(struct ibv_context *ctx, const struct ibv_exp_qp_init_attr *attr)
{
	uint32_t flags;

	if (!attr || (attr->comp_mask & ~KNOWN_QP_COMP))
		return exp_refuse(ctx, EINVAL, "ibv_exp_create_qp: comp_mask %#x, known are %#x", attr ? attr->comp_mask : 0,
				  KNOWN_QP_COMP);
	flags = attr->comp_mask & IBV_EXP_QP_INIT_ATTR_CREATE_FLAGS ? attr->exp_create_flags : 0;
	if (flags & ~KNOWN_QP_FLAGS)
		return exp_refuse(ctx, EINVAL, "ibv_exp_create_qp: create flags %#x, known are %#x", flags, KNOWN_QP_FLAGS);
	if (attr->qp_type == IBV_QPT_XRC_RECV) {
		if (!(attr->comp_mask & IBV_EXP_QP_INIT_ATTR_XRCD) || !attr->xrcd || attr->xrcd->context != ctx)
			return exp_refuse(ctx, EINVAL, "ibv_exp_create_qp: XRC_RECV needs an XRC domain of this context");
	} else if (!(attr->comp_mask & IBV_EXP_QP_INIT_ATTR_PD) || !attr->pd || attr->pd->context != ctx) {
		return exp_refuse(ctx, EINVAL, "ibv_exp_create_qp: a protection domain of this context is needed (comp_mask %#x)",
				  attr->comp_mask);
	}
	if (needs_send_cq(attr->qp_type) && !attr->send_cq)
		return exp_refuse(ctx, EINVAL, "ibv_exp_create_qp: no send completion queue");
	if ((attr->send_cq && attr->send_cq->context != ctx) || (attr->recv_cq && attr->recv_cq->context != ctx) ||
	    (attr->srq && attr->srq->context != ctx))
		return exp_refuse(ctx, EINVAL, "ibv_exp_create_qp: a completion or shared receive queue of another context");
	/* a shared receive queue serves many queue pairs, so no single queue pair can manage it */
	if ((flags & IBV_EXP_QP_CREATE_MANAGED_RECV) && attr->srq)
		return exp_refuse(ctx, EINVAL, "ibv_exp_create_qp: a shared receive queue cannot be managed by one queue");
	if ((attr->comp_mask & IBV_EXP_QP_INIT_ATTR_ATOMICS_ARG) && !is_pow2(attr->max_atomic_arg))
		return exp_refuse(ctx, EINVAL, "ibv_exp_create_qp: max_atomic_arg %u is no power of two", attr->max_atomic_arg);
	return 0;
}

static int validate_check_calc(const struct ibv_qp *qp, const struct ibv_exp_send_wr *wr)
{
	if (wr->exp_opcode != IBV_EXP_WR_SEND && wr->exp_opcode != IBV_EXP_WR_SEND_WITH_IMM &&
	    wr->exp_opcode != IBV_EXP_WR_RDMA_WRITE && wr->exp_opcode != IBV_EXP_WR_RDMA_WRITE_WITH_IMM &&
	    wr->exp_opcode != IBV_EXP_WR_RDMA_READ)
		return exp_refuse(qp->context, EINVAL, "CALC with opcode %#x: SEND, RDMA WRITE and READ have it", wr->exp_opcode);
	/* the device's provider checks operation, type and size */
	return wr->num_sge > 0 ? 0 : exp_refuse(qp->context, EINVAL, "CALC of no operands: num_sge %d", wr->num_sge);
}

static int check_masked_atomic(const struct ibv_qp *qp, const struct ibv_exp_send_wr *wr)
{
	uint64_t size;

	if (wr->ext_op.masked_atomics.log_arg_sz > 31)
		return exp_refuse(qp->context, EINVAL, "extended atomic of 2^%u bytes", wr->ext_op.masked_atomics.log_arg_sz);
	size = 1ULL << wr->ext_op.masked_atomics.log_arg_sz;
	if (size < 4 || (wr->ext_op.masked_atomics.remote_addr & (size - 1)) || wr->num_sge < 1 || wr->sg_list[0].length < size)
		return exp_refuse(qp->context, EINVAL,
				  "extended atomic of %lu bytes at %#lx, result of %u bytes in %d segments: at least 4 bytes, "
				  "aligned to their size, and a result as long",
				  (unsigned long)size, (unsigned long)wr->ext_op.masked_atomics.remote_addr,
				  wr->num_sge > 0 ? wr->sg_list[0].length : 0, wr->num_sge);
	/* without the flag the operands are in memory, behind the result */
	if (wr->exp_send_flags & IBV_EXP_SEND_EXT_ATOMIC_INLINE ? wr->num_sge == 1 : wr->num_sge > 1)
		return 0;
	return exp_refuse(qp->context, EINVAL,
			  "extended atomic: %d segments: with IBV_EXP_SEND_EXT_ATOMIC_INLINE one, the result's, else "
			  "the operands behind it",
			  wr->num_sge);
}

/* Checks requests that move data. */
static int check_data_wr(const struct ibv_qp *qp, const struct ibv_exp_send_wr *wr)
{
	uint64_t flags = wr->exp_send_flags;

	if (wr->num_sge < 0 || (wr->num_sge && !wr->sg_list))
		return exp_refuse(qp->context, EINVAL, "ibv_exp_post_send: %d segments at %p", wr->num_sge, (void *)wr->sg_list);
	if (flags & IBV_EXP_SEND_WITH_CALC) {
		int err = validate_check_calc(qp, wr);

		if (err)
			return err;
	}

	switch (wr->exp_opcode) {
	case IBV_EXP_WR_RDMA_WRITE:
	case IBV_EXP_WR_RDMA_WRITE_WITH_IMM:
	case IBV_EXP_WR_SEND:
	case IBV_EXP_WR_SEND_WITH_IMM:
	case IBV_EXP_WR_SEND_WITH_INV:
		break;
	case IBV_EXP_WR_RDMA_READ:
		return flags & IBV_EXP_SEND_INLINE ? exp_refuse(qp->context, EINVAL, "ibv_exp_post_send: RDMA READ inline") : 0;
	case IBV_EXP_WR_ATOMIC_CMP_AND_SWP:
	case IBV_EXP_WR_ATOMIC_FETCH_AND_ADD:
		if ((flags & IBV_EXP_SEND_INLINE) || wr->num_sge != 1 || wr->sg_list[0].length < 8 ||
		    (wr->wr.atomic.remote_addr & 7))
			return exp_refuse(qp->context, EINVAL,
					  "ibv_exp_post_send: atomic at %#lx, flags %#lx, result of %u bytes in %d segments: "
					  "8 bytes, aligned, not inline",
					  (unsigned long)wr->wr.atomic.remote_addr, (unsigned long)flags,
					  wr->num_sge > 0 ? wr->sg_list[0].length : 0, wr->num_sge);
		break;
	case IBV_EXP_WR_EXT_MASKED_ATOMIC_CMP_AND_SWP:
	case IBV_EXP_WR_EXT_MASKED_ATOMIC_FETCH_AND_ADD:
		return flags & IBV_EXP_SEND_INLINE ? exp_refuse(qp->context, EINVAL,
								"extended atomic inline: its operands are by "
								"IBV_EXP_SEND_EXT_ATOMIC_INLINE") :
						     check_masked_atomic(qp, wr);
	case IBV_EXP_WR_TSO:
		return exp_refuse(qp->context, EOPNOTSUPP, "ibv_exp_post_send: opcode %#x, which the device lacks",
				  wr->exp_opcode);
	default:
		return exp_refuse(qp->context, EINVAL, "ibv_exp_post_send: unknown opcode %#x", wr->exp_opcode);
	}
	return 0;
}

/* Only WAIT and ENABLE may be the last of a group. */
static int check_not_last(const struct ibv_qp *qp, const struct ibv_exp_send_wr *wr)
{
	return wr->exp_send_flags & IBV_EXP_SEND_WAIT_EN_LAST ?
		       exp_refuse(qp->context, EINVAL, "ibv_exp_post_send: IBV_EXP_SEND_WAIT_EN_LAST with opcode %#x",
				  wr->exp_opcode) :
		       0;
}

int exp_check_send_wr(const struct ibv_qp *qp, const struct ibv_exp_send_wr *wr)
{
	uint64_t flags = wr->exp_send_flags;

	/* comp_mask has no bits yet, so no field depends on it, and programs may leave garbage there */
	if (flags & ~KNOWN_SEND_FLAGS)
		return exp_refuse(qp->context, EINVAL, "ibv_exp_post_send: flags %#lx, known are %#lx", (unsigned long)flags,
				  (unsigned long)KNOWN_SEND_FLAGS);
	switch (wr->exp_opcode) {
	case IBV_EXP_WR_CQE_WAIT:
		return wr->task.cqe_wait.cq && wr->task.cqe_wait.cq->context == qp->context && wr->task.cqe_wait.cq_count > 0 ?
			       0 : exp_refuse(qp->context, EINVAL,
					      "ibv_exp_post_send: WAIT for %d completions: from 1 on, of a completion "
					      "queue of this context", wr->task.cqe_wait.cq_count);
	case IBV_EXP_WR_SEND_ENABLE:
	case IBV_EXP_WR_RECV_ENABLE:
		return wr->task.wqe_enable.qp && wr->task.wqe_enable.qp->context == qp->context &&
				       wr->task.wqe_enable.wqe_count >= 0 ? 0 :
			exp_refuse(qp->context, EINVAL,
				   "ibv_exp_post_send: ENABLE of %d requests: not negative, of a queue pair of this context",
				   wr->task.wqe_enable.wqe_count);
	case IBV_EXP_WR_BIND_MW:
		if (!wr->bind_mw.mw || wr->bind_mw.mw->context != qp->context ||
		    wr->bind_mw.bind_info.exp_mw_access_flags > UINT32_MAX)
			return exp_refuse(qp->context, EINVAL,
					  "ibv_exp_post_send: BIND_MW of window %p, access %#lx: a window of this context is "
					  "needed",
					  (void *)wr->bind_mw.mw, (unsigned long)wr->bind_mw.bind_info.exp_mw_access_flags);
		return check_not_last(qp, wr);
	/* the provider checks the rest, if it has UMR */
	case IBV_EXP_WR_UMR_FILL:
	case IBV_EXP_WR_UMR_INVALIDATE:
	case IBV_EXP_WR_LOCAL_INV:
	case IBV_EXP_WR_NOP:
		return check_not_last(qp, wr);
	default: {
		int err = check_not_last(qp, wr);

		return err ? err : check_data_wr(qp, wr);
	}
	}
}

int exp_check_task(struct ibv_context *ctx, const struct ibv_exp_task *task)
{
	if (!task->item.qp || task->item.qp->context != ctx)
		return exp_refuse(ctx, EINVAL, "ibv_exp_post_task: a task of type %d for no queue pair of this context",
				  task->task_type);
	switch (task->task_type) {
	case IBV_EXP_TASK_SEND:
		if (!task->item.send_wr)
			return exp_refuse(ctx, EINVAL, "ibv_exp_post_task: a task of sends without requests");
		for (const struct ibv_exp_send_wr *wr = task->item.send_wr; wr; wr = wr->next) {
			int err = exp_check_send_wr(task->item.qp, wr);

			if (err)
				return err;
		}
		return 0;
	case IBV_EXP_TASK_RECV:
		if (!task->item.recv_wr || task->item.qp->srq)
			return exp_refuse(ctx, EINVAL, "ibv_exp_post_task: a task of receives for queue pair %#x: %s",
					  task->item.qp->qp_num,
					  task->item.recv_wr ? "it has a shared receive queue" : "there are none");
		for (const struct ibv_recv_wr *wr = task->item.recv_wr; wr; wr = wr->next)
			if (wr->num_sge < 0 || (wr->num_sge && !wr->sg_list))
				return exp_refuse(ctx, EINVAL, "ibv_exp_post_task: a receive of %d segments at %p", wr->num_sge,
						  (void *)wr->sg_list);
		return 0;
	}
	return exp_refuse(ctx, EINVAL, "ibv_exp_post_task: a task of type %d", task->task_type);
}
