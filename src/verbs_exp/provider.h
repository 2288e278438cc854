/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the experimental verbs (<infiniband/verbs_exp.h>) want of whoever offers them for a device, its provider. The
 * arguments were validated as far as that needs no knowledge of the objects' insides (validate.c); what depends on them is
 * the provider's to check: whether a queue is cross-channel or managed, how far its requests are posted, the operand sizes
 * that the device can do.
 */
#ifndef IBV_EXP_PROVIDER_H
#define IBV_EXP_PROVIDER_H

#include <infiniband/verbs_exp.h>

struct ibv_exp_provider {
	/* Fill in what attr->comp_mask asks for. All integer results: 0 or an errno value. */
	int (*query_device)(struct ibv_context *ctx, struct ibv_exp_device_attr *attr);
	/* NULL with errno on failure. attr may be NULL: no flags. */
	struct ibv_cq *(*create_cq)(struct ibv_context *ctx, int cqe, void *cq_context,
				    struct ibv_comp_channel *channel, int comp_vector,
				    struct ibv_exp_cq_init_attr *attr);
	int (*modify_cq)(struct ibv_cq *cq, struct ibv_exp_cq_attr *attr, int attr_mask);
	struct ibv_qp *(*create_qp)(struct ibv_context *ctx, struct ibv_exp_qp_init_attr *attr);
	/* *bad_wr and *bad_task name the refused element; neither pointer is NULL. */
	int (*post_send)(struct ibv_qp *qp, struct ibv_exp_send_wr *wr, struct ibv_exp_send_wr **bad_wr);
	int (*post_task)(struct ibv_context *ctx, struct ibv_exp_task *task, struct ibv_exp_task **bad_task);
};

/* The providers that are linked in. Each tells its table for a context of its own, and NULL for any other context, which
 * it does not touch beyond what tells the two apart. The software HCA's: */
const struct ibv_exp_provider *shca_exp_provider(struct ibv_context *ctx);

#endif
