/* SPDX-License-Identifier: BSD-3-Clause */
/* The native provider of the experimental verbs: capabilities and queues. Posting is in exp_post.c. */
#include <errno.h>

#include "shca/engine/atomic.h"
#include "shca/engine/calc.h"
#include "shca/verbs/control.h"
#include "verbs_exp/provider.h"
#include "shca/verbs/post.h"

static int exp_query_device(struct ibv_context *ctx, struct ibv_exp_device_attr *attr)
{
	const uint32_t have = IBV_EXP_DEVICE_ATTR_EXP_CAP_FLAGS | IBV_EXP_DEVICE_ATTR_CALC_CAP |
			      IBV_EXP_DEVICE_ATTR_EXT_ATOMIC_ARGS | SHCA_EXP_DEVICE_ATTR_EXTENSIONS;
	uint32_t want = attr->comp_mask & have;

	/* the caller has cleared it, as far as it reaches */
	attr->comp_mask = want;
	if (want & IBV_EXP_DEVICE_ATTR_EXP_CAP_FLAGS)
		attr->exp_device_cap_flags = IBV_EXP_DEVICE_DC_TRANSPORT | IBV_EXP_DEVICE_EXT_ATOMICS |
					     IBV_EXP_DEVICE_CROSS_CHANNEL;
	if (want & IBV_EXP_DEVICE_ATTR_CALC_CAP) {
		const uint64_t ops = 1u << IBV_EXP_CALC_OP_ADD | 1u << IBV_EXP_CALC_OP_BAND | 1u << IBV_EXP_CALC_OP_BXOR |
				     1u << IBV_EXP_CALC_OP_BOR;
		attr->calc_cap = (struct ibv_exp_device_calc_cap){
			.data_types = 1u << IBV_EXP_CALC_DATA_TYPE_INT | 1u << IBV_EXP_CALC_DATA_TYPE_UINT |
				      1u << IBV_EXP_CALC_DATA_TYPE_FLOAT,
			.data_sizes = 1u << IBV_EXP_CALC_DATA_SIZE_64_BIT, .int_ops = ops, .uint_ops = ops, .fp_ops = ops,
		};
	}
	if (want & SHCA_EXP_DEVICE_ATTR_EXTENSIONS) {
		attr->shca_extensions = SHCA_EXP_EXTENSION_ATOMIC_GATHER | SHCA_EXP_EXTENSION_CALC_OPS |
					SHCA_EXP_EXTENSION_CALC_SIZES | SHCA_EXP_EXTENSION_CALC_HOST_ORDER |
					SHCA_EXP_EXTENSION_CALC_VECTOR;
		attr->shca_calc_vector_max = SHCA_CALC_VECTOR_MAX;
	}
	if (want & IBV_EXP_DEVICE_ATTR_EXT_ATOMIC_ARGS)
		attr->ext_atom = (struct ibv_exp_ext_atomics_params){
			.atomic_arg_sizes = 2 * SHCA_ATOMIC_MAX - 4,
			.max_fa_bit_boundary = 3,
			.log_max_atomic_inline = 10,
		};
	return 0;
}

static struct ibv_cq *exp_create_cq(struct ibv_context *ctx, int cqe, void *cq_context,
				    struct ibv_comp_channel *channel, int comp_vector,
				    struct ibv_exp_cq_init_attr *attr)
{
	if (attr && ((attr->comp_mask & ~(uint32_t)IBV_EXP_CQ_INIT_ATTR_FLAGS) ||
		     ((attr->comp_mask & IBV_EXP_CQ_INIT_ATTR_FLAGS) &&
		      (attr->flags & ~(uint32_t)IBV_EXP_CQ_CREATE_CROSS_CHANNEL)))) {
		errno = shca_refuse(EINVAL, "ibv_exp_create_cq: comp_mask %#x flags %#x", attr->comp_mask, attr->flags);
		return NULL;
	}
	/* every completion queue can be waited for */
	return shca_create_cq(ctx, cqe, cq_context, channel, comp_vector);
}

static int exp_modify_cq(struct ibv_cq *ibcq, struct ibv_exp_cq_attr *attr, int mask)
{
	struct shca_user_cq *cq = shca_user_cq_of(ibcq);

	if (mask != IBV_EXP_CQ_CAP_FLAGS || !(attr->comp_mask & IBV_EXP_CQ_ATTR_CQ_CAP_FLAGS) ||
	    (attr->cq_cap_flags & ~(uint32_t)IBV_EXP_CQ_IGNORE_OVERRUN))
		return shca_refuse(EINVAL, "ibv_exp_modify_cq: mask %#x, flags %#x", mask, attr->cq_cap_flags);
	if (shca_cq_in_error(cq->sh))
		return shca_refuse(EINVAL, "ibv_exp_modify_cq: the completion queue was overrun");
	if (attr->cq_cap_flags & IBV_EXP_CQ_IGNORE_OVERRUN)
		__atomic_fetch_or(&cq->sh->flags, SHCA_CQ_IGNORE_OVERRUN, __ATOMIC_SEQ_CST);
	else
		__atomic_fetch_and(&cq->sh->flags, ~SHCA_CQ_IGNORE_OVERRUN, __ATOMIC_SEQ_CST);
	return 0;
}

/* Before the first queue whose atomics may be wider than what a CPU does at once. 0 or ENOMEM. */
static int widen_atomics(struct ibv_context *ctx)
{
	struct shca_thread *thr = shca_thread_get(shca_context_of(ctx)->m);

	if (!thr)
		return ENOMEM;
	shca_enter(thr);
	shca_atomics_widen(thr);
	shca_leave(thr);
	return 0;
}

static struct ibv_qp *exp_create_qp(struct ibv_context *ctx, struct ibv_exp_qp_init_attr *attr)
{
	uint32_t flags = attr->comp_mask & IBV_EXP_QP_INIT_ATTR_CREATE_FLAGS ? attr->exp_create_flags : 0;
	const uint32_t can = IBV_EXP_QP_CREATE_CROSS_CHANNEL | IBV_EXP_QP_CREATE_MANAGED_SEND |
			     IBV_EXP_QP_CREATE_MANAGED_RECV | IBV_EXP_QP_CREATE_ATOMIC_BE_REPLY;
	struct ibv_qp_init_attr_ex ex = {
		.qp_context = attr->qp_context, .send_cq = attr->send_cq, .recv_cq = attr->recv_cq, .srq = attr->srq,
		.cap = attr->cap, .qp_type = attr->qp_type, .sq_sig_all = attr->sq_sig_all,
		.comp_mask = (attr->comp_mask & IBV_EXP_QP_INIT_ATTR_PD ? IBV_QP_INIT_ATTR_PD : 0) |
			     (attr->comp_mask & IBV_EXP_QP_INIT_ATTR_XRCD ? IBV_QP_INIT_ATTR_XRCD : 0),
		.pd = attr->pd, .xrcd = attr->xrcd,
	};
	struct shca_qp_create cr;
	uint32_t atomic = attr->comp_mask & IBV_EXP_QP_INIT_ATTR_ATOMICS_ARG ? attr->max_atomic_arg : 8;
	int err = 0;

	if (flags & ~can)
		err = shca_refuse(EOPNOTSUPP, "ibv_exp_create_qp: create flags %#x, the device has %#x", flags, can);
	else if (atomic > SHCA_ATOMIC_MAX)
		err = shca_refuse(EOPNOTSUPP, "ibv_exp_create_qp: atomics of %u bytes, at most %u", atomic, SHCA_ATOMIC_MAX);
	else if ((flags & IBV_EXP_QP_CREATE_MANAGED_RECV) && attr->srq)
		err = shca_refuse(EINVAL, "ibv_exp_create_qp: a shared receive queue cannot be managed by one queue");
	else
		err = shca_qp_create_check(&ex, &cr);
	if (err) {
		errno = err;
		return NULL;
	}
	cr.flags = (uint8_t)((flags & IBV_EXP_QP_CREATE_CROSS_CHANNEL ? SHCA_QP_CROSS : 0) |
			     (flags & IBV_EXP_QP_CREATE_MANAGED_SEND ? SHCA_QP_MANAGED_SEND : 0) |
			     (flags & IBV_EXP_QP_CREATE_MANAGED_RECV ? SHCA_QP_MANAGED_RECV : 0) |
			     (flags & IBV_EXP_QP_CREATE_ATOMIC_BE_REPLY ? SHCA_QP_BE_REPLY : 0));
	if (atomic > 8)
		err = widen_atomics(ctx);
	if (err) {
		errno = err;
		return NULL;
	}
	struct shca_user_qp *qp = shca_qp_new(ctx, &cr);
	if (!qp)
		return NULL;
	if (atomic > 8)
		qp->max_atomic = atomic;
	attr->cap = cr.attr.cap;
	return &qp->qp;
}

const struct ibv_exp_provider shca_own_exp_provider = {
	.query_device = exp_query_device,
	.create_cq = exp_create_cq,
	.modify_cq = exp_modify_cq,
	.create_qp = exp_create_qp,
	.post_send = shca_exp_post_send,
	.post_task = shca_exp_post_task,
};
