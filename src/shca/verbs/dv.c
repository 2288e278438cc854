/* SPDX-License-Identifier: BSD-3-Clause */
/* The part of the mlx5dv interface that the device has: DC initiators and targets, raw work requests (raw.c). */
#include <errno.h>
#include <infiniband/verbs_exp.h>
#include <stdlib.h>

#include "shca/engine/atomic.h"
#include "shca/verbs/control.h"

/* mlx5dv_open_device. The flag for direct access to queues in user memory (DevX) is refused: the device has none. */
struct ibv_context *shca_dv_open_device(struct ibv_device *dev, struct mlx5dv_context_attr *attr)
{
	if (attr && (attr->comp_mask || attr->flags)) {
		errno = shca_refuse(EOPNOTSUPP, "mlx5dv_open_device: flags %#x", attr->flags);
		return NULL;
	}
	return shca_open_device(dev);
}

/* mlx5dv_query_device. Writes no member that comp_mask does not ask for: an older program's struct may end there. */
int shca_dv_query_device(struct ibv_context *ctx, struct mlx5dv_context *attr)
{
	attr->version = 0;
	attr->flags = 0;
	attr->comp_mask &= MLX5DV_CONTEXT_MASK_DC_ODP_CAPS;
	if (attr->comp_mask)
		attr->dc_odp_caps = shca_dc_odp_caps(ctx);
	return 0;
}

static int dc_create(struct ibv_qp_init_attr_ex *attr, const struct mlx5dv_qp_init_attr *dv, struct shca_qp_create *cr)
{
	const uint32_t known = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS | IBV_QP_INIT_ATTR_CREATE_FLAGS;

	if (attr->qp_type != IBV_QPT_DRIVER || (attr->comp_mask & ~known) || !(attr->comp_mask & IBV_QP_INIT_ATTR_PD) ||
	    ((attr->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS) && attr->create_flags))
		return shca_refuse(EINVAL,
				"mlx5dv_create_qp: DC needs IBV_QPT_DRIVER and a domain; type %d, comp_mask %#x",
				   attr->qp_type, attr->comp_mask);
	*cr = (struct shca_qp_create){ .attr = *attr };
	switch (dv->dc_init_attr.dc_type) {
	case MLX5DV_DCTYPE_DCI:
		cr->type = SHCA_QPT_DCI;
		return 0;
	case MLX5DV_DCTYPE_DCT:
		if (attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS)
			return shca_refuse(EINVAL, "mlx5dv_create_qp: a DC target sends nothing");
		cr->type = SHCA_QPT_DCT;
		cr->dc_key = dv->dc_init_attr.dct_access_key;
		return 0;
	default:
		return shca_refuse(EINVAL, "mlx5dv_create_qp: DC type %d", dv->dc_init_attr.dc_type);
	}
}

/* Creation flags of a queue that takes raw WQEs: those that the kernel's write command takes for an mlx5, by the same numbers;
 * libibverbs refuses them on the way there. */
static uint32_t cross_flags(const struct ibv_qp_init_attr_ex *attr, const struct mlx5dv_qp_init_attr *dv)
{
	const uint32_t can = IBV_EXP_QP_CREATE_CROSS_CHANNEL | IBV_EXP_QP_CREATE_MANAGED_SEND | IBV_EXP_QP_CREATE_MANAGED_RECV;

	if (!dv || !(dv->comp_mask & MLX5DV_QP_INIT_ATTR_MASK_SEND_OPS_FLAGS) ||
	    !(dv->send_ops_flags & MLX5DV_QP_EX_WITH_RAW_WQE))
		return 0;
	return attr->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS ? attr->create_flags & can : 0;
}

/* mlx5dv's creation flags of a raw packet queue pair. TUNNEL_OFFLOADS asks that offloads apply to packets in tunnels, too: the
 * device has no offloads. */
#define RAW_FLAGS                                                                                                              \
	((uint32_t)(MLX5DV_QP_CREATE_TIR_ALLOW_SELF_LOOPBACK_UC | MLX5DV_QP_CREATE_TIR_ALLOW_SELF_LOOPBACK_MC |                \
		    MLX5DV_QP_CREATE_TUNNEL_OFFLOADS))
static uint8_t raw_flags(uint32_t flags)
{
	return (uint8_t)((flags & MLX5DV_QP_CREATE_TIR_ALLOW_SELF_LOOPBACK_UC ? SHCA_RAW_LOOP_UC : 0) |
			 (flags & MLX5DV_QP_CREATE_TIR_ALLOW_SELF_LOOPBACK_MC ? SHCA_RAW_LOOP_MC : 0));
}

struct ibv_qp *shca_dv_create_qp(struct ibv_context *ctx, struct ibv_qp_init_attr_ex *attr,
				 struct mlx5dv_qp_init_attr *dv)
{
	const uint64_t known = MLX5DV_QP_INIT_ATTR_MASK_QP_CREATE_FLAGS | MLX5DV_QP_INIT_ATTR_MASK_DC |
			       MLX5DV_QP_INIT_ATTR_MASK_SEND_OPS_FLAGS;
	/* where a completion is kept is no matter of the caller's here */
	const uint32_t hints = MLX5DV_QP_CREATE_DISABLE_SCATTER_TO_CQE | MLX5DV_QP_CREATE_ALLOW_SCATTER_TO_CQE |
			       (attr->qp_type == IBV_QPT_RAW_PACKET ? RAW_FLAGS : 0);
	uint32_t cross = cross_flags(attr, dv);
	struct ibv_qp_init_attr_ex plain = *attr;
	struct shca_qp_create cr = {.type = 0};
	int err;

	plain.create_flags &= ~cross;
	if (dv && ((dv->comp_mask & ~known) ||
		   ((dv->comp_mask & MLX5DV_QP_INIT_ATTR_MASK_QP_CREATE_FLAGS) && (dv->create_flags & ~hints))))
		err = shca_refuse(EOPNOTSUPP, "mlx5dv_create_qp: comp_mask %#lx, create flags %#x",
				  (unsigned long)dv->comp_mask, dv->create_flags);
	else if (dv && (dv->comp_mask & MLX5DV_QP_INIT_ATTR_MASK_SEND_OPS_FLAGS) && dv->send_ops_flags && !shca_is_connectx())
		err = shca_refuse(EOPNOTSUPP, "mlx5dv_create_qp: send operations %#lx of a ConnectX; the device is one with "
				  "SHCA_IDENTITY=connectx", (unsigned long)dv->send_ops_flags);
	else if (dv && (dv->comp_mask & MLX5DV_QP_INIT_ATTR_MASK_DC))
		err = dc_create(attr, dv, &cr);
	else
		err = shca_qp_create_check(&plain, &cr);
	if (!err && dv && (dv->comp_mask & MLX5DV_QP_INIT_ATTR_MASK_SEND_OPS_FLAGS))
		cr.dv_send_ops = dv->send_ops_flags;
	/* atomics of raw WQEs have the operand size that the WQE says */
	bool raw = !err && cr.dv_send_ops & MLX5DV_QP_EX_WITH_RAW_WQE;
	if (raw && (cross & IBV_EXP_QP_CREATE_MANAGED_RECV) && attr->srq)
		err = shca_refuse(EINVAL, "mlx5dv_create_qp: a shared receive queue cannot be managed by one queue");
	else if (raw)
		err = shca_widen_atomics(ctx);
	if (err) {
		errno = err;
		return NULL;
	}
	cr.flags |= shca_qp_flags_of(cross);
	if (attr->qp_type == IBV_QPT_RAW_PACKET && dv && dv->comp_mask & MLX5DV_QP_INIT_ATTR_MASK_QP_CREATE_FLAGS)
		cr.raw |= raw_flags(dv->create_flags);
	struct shca_user_qp *qp = shca_qp_new(ctx, &cr);
	if (!qp)
		return NULL;
	if (raw)
		qp->max_atomic = SHCA_ATOMIC_MAX;
	attr->cap = cr.attr.cap;
	return &qp->qp;
}

/* The entry size of a CQ: by the attributes, else by the variable that libmlx5 reads. The size has no effect here; programs find
 * the supported sizes by trying. */
static int cqe_size(const struct mlx5dv_cq_init_attr *dv)
{
	const char *s = shca_is_connectx() ? getenv("MLX5_CQE_SIZE") : NULL;

	if (dv && (dv->comp_mask & MLX5DV_CQ_INIT_ATTR_MASK_CQE_SIZE))
		return dv->cqe_size;
	return s ? atoi(s) : 64;
}

struct ibv_cq_ex *shca_dv_create_cq(struct ibv_context *ctx, struct ibv_cq_init_attr_ex *attr,
				    struct mlx5dv_cq_init_attr *dv)
{
	int size = cqe_size(dv);

	if (dv && (dv->comp_mask & ~(uint64_t)MLX5DV_CQ_INIT_ATTR_MASK_CQE_SIZE)) {
		errno = shca_refuse(EOPNOTSUPP, "mlx5dv_create_cq: comp_mask %#lx", (unsigned long)dv->comp_mask);
		return NULL;
	}
	if (size != 64 && size != 128) {
		errno = shca_refuse(EINVAL,
				    "mlx5dv_create_cq: entries of %d bytes (attributes or MLX5_CQE_SIZE); sizes are 64 and 128",
				    size);
		return NULL;
	}
	return shca_create_cq_ex(ctx, attr);
}

struct mlx5dv_qp_ex *shca_dv_qp_ex(struct ibv_qp_ex *ex)
{
	return &((struct shca_user_qp *)ex)->dv;
}

/* mlx5dv_init_obj: numbers only, and only of completion queues, which a WAIT names by number. The device has no queue memory
 * that a program could write. */
int shca_dv_init_obj(struct mlx5dv_obj *obj, uint64_t type)
{
	if (type != MLX5DV_OBJ_CQ || !shca_is_connectx())
		return shca_refuse(EOPNOTSUPP,
				   "mlx5dv_init_obj: objects %#lx: with SHCA_IDENTITY=connectx the number of a completion "
				   "queue (%#x) can be had, nothing else",
				   (unsigned long)type, MLX5DV_OBJ_CQ);
	*obj->cq.out = (struct mlx5dv_cq){.cqe_cnt = (uint32_t)obj->cq.in->cqe + 1, .cqe_size = 64, .cqn = obj->cq.in->handle};
	return 0;
}
