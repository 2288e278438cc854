/* SPDX-License-Identifier: BSD-3-Clause */
#include "verbs_exp/mlx5_cmd.h"

#include <errno.h>
#include <infiniband/mlx5dv.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"

/* ---- capabilities ----------------------------------------------------------------------------------------------------- */

/* Queries capabilities; `out` has EXP_MLX5_OUT_BYTES. Returns false: the device refuses, or, with *passing, the query failed for
 * another reason. */
static bool query(struct ibv_context *ctx, uint32_t what, uint8_t *out, int *passing)
{
	uint8_t in[EXP_MLX5_IN_BYTES] = {0};
	int err;

	memset(out, 0, EXP_MLX5_OUT_BYTES);
	exp_mlx5_put(in, EXP_MLX5_IN_OPCODE, EXP_MLX5_CMD_QUERY_HCA_CAP);
	exp_mlx5_put(in, EXP_MLX5_IN_OPMOD, what);
	err = mlx5dv_devx_general_cmd(ctx, in, sizeof(in), out, EXP_MLX5_OUT_BYTES);
	if (is_passing_error(err))
		*passing = err;
	return !err && !exp_mlx5_get(out, EXP_MLX5_OUT_STATUS);
}

int exp_mlx5_query_caps(struct ibv_context *ctx, struct exp_mlx5_caps *caps)
{
	const uint32_t both = EXP_MLX5_MASKED_CS | EXP_MLX5_MASKED_FA;
	uint8_t *out = malloc(EXP_MLX5_OUT_BYTES);

	int err = 0;

	memset(caps, 0, sizeof(*caps));
	if (!out)
		return ENOMEM;			/* said: the caller, mlx5_context_of in mlx5.c */
	if (query(ctx, EXP_MLX5_CAPS_GENERAL, out, &err)) {
		uint32_t log = exp_mlx5_get(out, EXP_MLX5_CAP_LOG_KLMS);
		caps->cross_channel = exp_mlx5_get(out, EXP_MLX5_CAP_CD);
		/* mlx5dv counts entries in 16 bits */
		caps->key_entries = log > 15 ? UINT16_MAX : log ? 1u << log : 0;
		caps->key_depth = exp_mlx5_get(out, EXP_MLX5_CAP_MAX_INDIRECTION);
	}
	if (query(ctx, EXP_MLX5_CAPS_ATOMIC, out, &err)) {
		caps->host_order = exp_mlx5_get(out, EXP_MLX5_CAP_8B_MODE) == EXP_MLX5_8B_HOST;
		if ((exp_mlx5_get(out, EXP_MLX5_CAP_OPERATIONS) & both) == both)
			caps->masked_sizes = exp_mlx5_get(out, EXP_MLX5_CAP_SIZES) & EXP_MLX5_SIZES;
	}
	free(out);
	return err;
}

/* ---- queue pairs ------------------------------------------------------------------------------------------------------ */

/* Fills in the object as libibverbs would. */
static void fill_qp(struct ibv_context *ctx, struct ibv_qp *qp, const struct ibv_qp_init_attr_ex *attr,
		    const struct ib_uverbs_create_qp_resp *resp)
{
	qp->context = ctx;
	qp->qp_context = attr->qp_context;
	qp->pd = attr->pd;
	qp->send_cq = attr->send_cq;
	qp->recv_cq = attr->recv_cq;
	qp->srq = attr->srq;
	qp->handle = resp->qp_handle;
	qp->qp_num = resp->qpn;
	qp->qp_type = attr->qp_type;
	qp->state = IBV_QPS_RESET;
	qp->events_completed = 0;
	pthread_mutex_init(&qp->mutex, NULL);
	pthread_cond_init(&qp->cond, NULL);
}

int exp_mlx5_create_qp_cmd(struct ibv_context *ctx, void *qp, struct ibv_qp_init_attr_ex *attr, struct exp_mlx5_create_cmd *cmd,
			   size_t cmd_size, struct ib_uverbs_ex_create_qp_resp *resp, size_t resp_size)
{
	uint32_t *comp_mask = (uint32_t *)((struct ibv_qp_ex *)qp + 1);
	bool receives = attr->qp_type != IBV_QPT_XRC_SEND;

	/* other types (XRC targets, queue pairs with a table of receive queues) have no send queue */
	if (!(attr->comp_mask & IBV_QP_INIT_ATTR_PD) || !attr->send_cq || (receives && !attr->recv_cq) ||
	    cmd_size < sizeof(*cmd) || resp_size < sizeof(*resp))
		return EINVAL;			/* said: the caller, mlx5_create in mlx5.c */
	cmd->hdr = (struct ib_uverbs_cmd_hdr){
		.command = IB_USER_VERBS_EX_CMD_CREATE_QP | IB_USER_VERBS_CMD_FLAG_EXTENDED,
		.in_words = sizeof(cmd->core) / 8, .out_words = sizeof(*resp) / 8,
	};
	cmd->ex = (struct ib_uverbs_ex_cmd_hdr){
		.response = (uintptr_t)resp, .provider_in_words = (uint16_t)((cmd_size - sizeof(*cmd)) / 8),
		.provider_out_words = (uint16_t)((resp_size - sizeof(*resp)) / 8),
	};
	cmd->core = (struct ib_uverbs_ex_create_qp){
		.user_handle = (uintptr_t)qp, .pd_handle = attr->pd->handle, .send_cq_handle = attr->send_cq->handle,
		.recv_cq_handle = receives ? attr->recv_cq->handle : 0, .srq_handle = attr->srq ? attr->srq->handle : 0,
		.max_send_wr = attr->cap.max_send_wr, .max_recv_wr = receives ? attr->cap.max_recv_wr : 0,
		.max_send_sge = attr->cap.max_send_sge, .max_recv_sge = receives ? attr->cap.max_recv_sge : 0,
		.max_inline_data = attr->cap.max_inline_data, .sq_sig_all = attr->sq_sig_all != 0,
		.qp_type = (uint8_t)attr->qp_type, .is_srq = attr->srq != NULL, .create_flags = attr->create_flags,
	};
	ssize_t done = write(ctx->cmd_fd, cmd, cmd_size);
	if (done != (ssize_t)cmd_size)
		return done < 0 ? errno : EIO;	/* said: there, too */
	fill_qp(ctx, qp, attr, &resp->base);
	*comp_mask = 0;
	attr->cap = (struct ibv_qp_cap){
		.max_send_wr = resp->base.max_send_wr, .max_recv_wr = resp->base.max_recv_wr,
		.max_send_sge = resp->base.max_send_sge, .max_recv_sge = resp->base.max_recv_sge,
		.max_inline_data = resp->base.max_inline_data,
	};
	return 0;
}
