/* SPDX-License-Identifier: BSD-3-Clause */
/* The exported functions of libmlx5: DC is supported, the rest is refused for the software device. See interpose.h. */
#include <errno.h>

#include "shca/interpose/interpose.h"
#include "verbs_exp/mlx5_cmd.h"

#ifdef SHCA_EXPORT
/* If this returns true, UCX and other libraries write an mlx5's queues by themselves, which works only on a ConnectX. */
EXPORT bool mlx5dv_is_supported(struct ibv_device *device)
{
	static struct shca_next next = NEXT(NEXT_MLX5, "mlx5dv_is_supported", "MLX5_1.8");
	if (shca_is_our_device(device))
		return shca_is_connectx() || shca_env_bool("SHCA_MLX5DV");
	__typeof__(&mlx5dv_is_supported) f = shca_next_find(&next);
	return f && f(device);
}
#else
bool mlx5dv_is_supported(struct ibv_device *device)
{
	static struct shca_next next = NEXT(NEXT_MLX5, "mlx5dv_is_supported", "MLX5_1.8");
	if (shca_device_is_software(device))
		return true;
	__typeof__(&mlx5dv_is_supported) f = shca_next_find(&next);
	return f && f(device);
}
#endif

/* Returns whether any of the objects that one call initialises is ours: a mixture is refused as ours. */
static bool obj_is_ours(const struct mlx5dv_obj *obj, uint64_t type)
{
	return ((type & MLX5DV_OBJ_QP) && shca_is_ours(obj->qp.in->context)) ||
	       ((type & MLX5DV_OBJ_CQ) && shca_is_ours(obj->cq.in->context)) ||
	       ((type & MLX5DV_OBJ_SRQ) && shca_is_ours(obj->srq.in->context)) ||
	       ((type & MLX5DV_OBJ_RWQ) && shca_is_ours(obj->rwq.in->context)) ||
	       ((type & MLX5DV_OBJ_DM) && shca_is_ours(obj->dm.in->context)) ||
	       ((type & MLX5DV_OBJ_AH) && shca_is_ours(obj->ah.in->context)) ||
	       ((type & MLX5DV_OBJ_PD) && shca_is_ours(obj->pd.in->context));
}

EXPORT struct ibv_context *mlx5dv_open_device(struct ibv_device *device, struct mlx5dv_context_attr *attr)
{
	static struct shca_next next = NEXT(NEXT_MLX5, "mlx5dv_open_device", "MLX5_1.7");
	if (shca_is_our_device(device))
		return shca_dv_open_device(device, attr);
	__typeof__(&mlx5dv_open_device) f = shca_next_find(&next);
	return f ? f(device, attr) : NULL;
}

EXPORT int mlx5dv_query_device(struct ibv_context *context, struct mlx5dv_context *attr)
{
	static struct shca_next next = NEXT(NEXT_MLX5, "mlx5dv_query_device", "MLX5_1.0");
	if (shca_is_ours(context))
		return shca_dv_query_device(context, attr);
	__typeof__(&mlx5dv_query_device) f = shca_next_find(&next);
	return f ? f(context, attr) : ENOSYS;
}

EXPORT struct ibv_qp *mlx5dv_create_qp(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr,
				       struct mlx5dv_qp_init_attr *dv)
{
	static struct shca_next next = NEXT(NEXT_MLX5, "mlx5dv_create_qp", "MLX5_1.3");
	if (shca_is_ours(context))
		return shca_dv_create_qp(context, attr, dv);
	__typeof__(&mlx5dv_create_qp) f = shca_next_find(&next);
	return f ? f(context, attr, dv) : NULL;
}

EXPORT struct ibv_cq_ex *mlx5dv_create_cq(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr,
					  struct mlx5dv_cq_init_attr *dv)
{
	static struct shca_next next = NEXT(NEXT_MLX5, "mlx5dv_create_cq", "MLX5_1.1");
	if (shca_is_ours(context))
		return shca_dv_create_cq(context, attr, dv);
	__typeof__(&mlx5dv_create_cq) f = shca_next_find(&next);
	return f ? f(context, attr, dv) : NULL;
}

EXPORT struct mlx5dv_qp_ex *mlx5dv_qp_ex_from_ibv_qp_ex(struct ibv_qp_ex *qp)
{
	static struct shca_next next = NEXT(NEXT_MLX5, "mlx5dv_qp_ex_from_ibv_qp_ex", "MLX5_1.10");
	/* ibv_qp_to_qp_ex returns NULL for a DC target; programs pass that on without a check */
	if (!qp)
		return NULL;
	if (shca_is_ours(qp->qp_base.context))
		return shca_dv_qp_ex(qp);
	__typeof__(&mlx5dv_qp_ex_from_ibv_qp_ex) f = shca_next_find(&next);
	return f ? f(qp) : NULL;
}

EXPORT struct mlx5dv_mkey *mlx5dv_create_mkey(struct mlx5dv_mkey_init_attr *attr)
{
	static struct shca_next next = NEXT(NEXT_MLX5, "mlx5dv_create_mkey", "MLX5_1.10");
	if (shca_is_ours(attr->pd->context))
		return shca_dv_create_mkey(attr);
	__typeof__(&mlx5dv_create_mkey) f = shca_next_find(&next);
	return f ? f(attr) : NULL;
}

EXPORT int mlx5dv_destroy_mkey(struct mlx5dv_mkey *mkey)
{
	static struct shca_next next = NEXT(NEXT_MLX5, "mlx5dv_destroy_mkey", "MLX5_1.10");
	if (shca_mkey_is_ours(mkey))
		return shca_dv_destroy_mkey(mkey);
	__typeof__(&mlx5dv_destroy_mkey) f = shca_next_find(&next);
	return f ? f(mkey) : ENOSYS;
}

EXPORT int _mlx5dv_mkey_check(struct mlx5dv_mkey *mkey, struct mlx5dv_mkey_err *err, size_t size)
{
	static struct shca_next next = NEXT(NEXT_MLX5, "_mlx5dv_mkey_check", "MLX5_1.20");
	if (shca_mkey_is_ours(mkey))
		return shca_dv_mkey_check(mkey, err, size);
	__typeof__(&_mlx5dv_mkey_check) f = shca_next_find(&next);
	return f ? f(mkey, err, size) : ENOSYS;
}

EXPORT int mlx5dv_init_obj(struct mlx5dv_obj *obj, uint64_t type)
{
	static struct shca_next next = NEXT(NEXT_MLX5, "mlx5dv_init_obj", "MLX5_1.2");
	if (obj_is_ours(obj, type))
		return shca_dv_init_obj(obj, type);
	__typeof__(&mlx5dv_init_obj) f = shca_next_find(&next);
	return f ? f(obj, type) : ENOSYS;
}

EXPORT struct ibv_dm *mlx5dv_alloc_dm(struct ibv_context *context, struct ibv_alloc_dm_attr *attr,
				      struct mlx5dv_alloc_dm_attr *dv)
{
	static struct shca_next next = NEXT(NEXT_MLX5, "mlx5dv_alloc_dm", "MLX5_1.10");
	if (shca_is_ours(context)) {
		errno = shca_absent(__func__);
		return NULL;
	}
	__typeof__(&mlx5dv_alloc_dm) f = shca_next_find(&next);
	return f ? f(context, attr, dv) : NULL;
}

EXPORT void *mlx5dv_dm_map_op_addr(struct ibv_dm *dm, uint8_t op)
{
	static struct shca_next next = NEXT(NEXT_MLX5, "mlx5dv_dm_map_op_addr", "MLX5_1.19");
	if (shca_is_ours(dm->context)) {
		errno = shca_absent(__func__);
		return NULL;
	}
	__typeof__(&mlx5dv_dm_map_op_addr) f = shca_next_find(&next);
	return f ? f(dm, op) : NULL;
}

EXPORT int mlx5dv_dci_stream_id_reset(struct ibv_qp *qp, uint16_t stream_id)
{
	static struct shca_next next = NEXT(NEXT_MLX5, "mlx5dv_dci_stream_id_reset", "MLX5_1.21");
	if (shca_is_ours(qp->context))
		return shca_absent(__func__);
	__typeof__(&mlx5dv_dci_stream_id_reset) f = shca_next_find(&next);
	return f ? f(qp, stream_id) : ENOSYS;
}

EXPORT int mlx5dv_map_ah_to_qp(struct ibv_ah *ah, uint32_t qp_num)
{
	static struct shca_next next = NEXT(NEXT_MLX5, "mlx5dv_map_ah_to_qp", "MLX5_1.20");
	if (shca_is_ours(ah->context))
		return shca_absent(__func__);
	__typeof__(&mlx5dv_map_ah_to_qp) f = shca_next_find(&next);
	return f ? f(ah, qp_num) : ENOSYS;
}

EXPORT int _mlx5dv_query_port(struct ibv_context *context, uint32_t port, struct mlx5dv_port *info, size_t len)
{
	static struct shca_next next = NEXT(NEXT_MLX5, "_mlx5dv_query_port", "MLX5_1.19");
	if (shca_is_ours(context))
		return shca_absent(__func__);
	__typeof__(&_mlx5dv_query_port) f = shca_next_find(&next);
	return f ? f(context, port, info, len) : ENOSYS;
}

EXPORT int mlx5dv_get_clock_info(struct ibv_context *context, struct mlx5dv_clock_info *info)
{
	static struct shca_next next = NEXT(NEXT_MLX5, "mlx5dv_get_clock_info", "MLX5_1.4");
	if (shca_is_ours(context))
		return shca_clock_info(context, info);
	__typeof__(&mlx5dv_get_clock_info) f = shca_next_find(&next);
	return f ? f(context, info) : ENOSYS;
}

EXPORT int mlx5dv_set_context_attr(struct ibv_context *context, enum mlx5dv_set_ctx_attr_type type, void *attr)
{
	static struct shca_next next = NEXT(NEXT_MLX5, "mlx5dv_set_context_attr", "MLX5_1.2");
	if (shca_is_ours(context))
		return shca_absent(__func__);
	__typeof__(&mlx5dv_set_context_attr) f = shca_next_find(&next);
	return f ? f(context, type, attr) : ENOSYS;
}

EXPORT struct ibv_wq *mlx5dv_create_wq(struct ibv_context *context, struct ibv_wq_init_attr *attr,
				       struct mlx5dv_wq_init_attr *dv)
{
	static struct shca_next next = NEXT(NEXT_MLX5, "mlx5dv_create_wq", "MLX5_1.3");
	if (shca_is_ours(context)) {
		errno = shca_absent(__func__);
		return NULL;
	}
	__typeof__(&mlx5dv_create_wq) f = shca_next_find(&next);
	return f ? f(context, attr, dv) : NULL;
}

EXPORT int mlx5dv_modify_qp_lag_port(struct ibv_qp *qp, uint8_t port)
{
	static struct shca_next next = NEXT(NEXT_MLX5, "mlx5dv_modify_qp_lag_port", "MLX5_1.14");
	if (shca_is_ours(qp->context))
		return shca_absent(__func__);
	__typeof__(&mlx5dv_modify_qp_lag_port) f = shca_next_find(&next);
	return f ? f(qp, port) : ENOSYS;
}

EXPORT int mlx5dv_query_qp_lag_port(struct ibv_qp *qp, uint8_t *port, uint8_t *active)
{
	static struct shca_next next = NEXT(NEXT_MLX5, "mlx5dv_query_qp_lag_port", "MLX5_1.14");
	if (shca_is_ours(qp->context))
		return shca_absent(__func__);
	__typeof__(&mlx5dv_query_qp_lag_port) f = shca_next_find(&next);
	return f ? f(qp, port, active) : ENOSYS;
}

EXPORT int mlx5dv_modify_qp_udp_sport(struct ibv_qp *qp, uint16_t udp_sport)
{
	static struct shca_next next = NEXT(NEXT_MLX5, "mlx5dv_modify_qp_udp_sport", "MLX5_1.17");
	if (shca_is_ours(qp->context))
		return shca_absent(__func__);
	__typeof__(&mlx5dv_modify_qp_udp_sport) f = shca_next_find(&next);
	return f ? f(qp, udp_sport) : ENOSYS;
}

EXPORT int mlx5dv_modify_qp_sched_elem(struct ibv_qp *qp, const struct mlx5dv_sched_leaf *requestor,
				       const struct mlx5dv_sched_leaf *responder)
{
	static struct shca_next next = NEXT(NEXT_MLX5, "mlx5dv_modify_qp_sched_elem", "MLX5_1.17");
	if (shca_is_ours(qp->context))
		return shca_absent(__func__);
	__typeof__(&mlx5dv_modify_qp_sched_elem) f = shca_next_find(&next);
	return f ? f(qp, requestor, responder) : ENOSYS;
}

#ifdef SHCA_EXPORT
/*
 * The kernel's command that makes a queue pair, which libibverbs executes for libmlx5. Cross-channel and managed queues are
 * asked for by creation flags that libibverbs refuses and the kernel takes. The symbol's version is private to a release of
 * rdma-core and means this signature in 34 to 57: a libmlx5 of another release is not bound to this function, and cannot make
 * such queues.
 */
int ibv_cmd_create_qp_ex2(struct ibv_context *context, void *qp, struct ibv_qp_init_attr_ex *attr,
			  struct exp_mlx5_create_cmd *cmd, size_t cmd_size, struct ib_uverbs_ex_create_qp_resp *resp,
			  size_t resp_size);
EXPORT int ibv_cmd_create_qp_ex2(struct ibv_context *context, void *qp, struct ibv_qp_init_attr_ex *attr,
				 struct exp_mlx5_create_cmd *cmd, size_t cmd_size, struct ib_uverbs_ex_create_qp_resp *resp,
				 size_t resp_size)
{
	static struct shca_next next = NEXT(NEXT_REAL_VERBS, "ibv_cmd_create_qp_ex2", "IBVERBS_PRIVATE_34");
	if ((attr->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS) && (attr->create_flags & EXP_MLX5_CREATE_FLAGS))
		return exp_mlx5_create_qp_cmd(context, qp, attr, cmd, cmd_size, resp, resp_size);
	__typeof__(&ibv_cmd_create_qp_ex2) f = shca_next_find(&next);
	return f ? f(context, qp, attr, cmd, cmd_size, resp, resp_size) : ENOSYS;
}
#endif

/* Ways to an mlx5's firmware: the software device has none. */

EXPORT int mlx5dv_crypto_login(struct ibv_context *context, struct mlx5dv_crypto_login_attr *attr)
{
	static struct shca_next next = NEXT(NEXT_MLX5, "mlx5dv_crypto_login", "MLX5_1.21");
	if (shca_is_ours(context))
		return shca_absent(__func__);
	__typeof__(&mlx5dv_crypto_login) f = shca_next_find(&next);
	return f ? f(context, attr) : ENOSYS;
}

EXPORT int mlx5dv_crypto_logout(struct ibv_context *context)
{
	static struct shca_next next = NEXT(NEXT_MLX5, "mlx5dv_crypto_logout", "MLX5_1.21");
	if (shca_is_ours(context))
		return shca_absent(__func__);
	__typeof__(&mlx5dv_crypto_logout) f = shca_next_find(&next);
	return f ? f(context) : ENOSYS;
}

EXPORT struct mlx5dv_dek *mlx5dv_dek_create(struct ibv_context *context, struct mlx5dv_dek_init_attr *attr)
{
	static struct shca_next next = NEXT(NEXT_MLX5, "mlx5dv_dek_create", "MLX5_1.21");
	if (shca_is_ours(context)) {
		errno = shca_absent(__func__);
		return NULL;
	}
	__typeof__(&mlx5dv_dek_create) f = shca_next_find(&next);
	return f ? f(context, attr) : NULL;
}

EXPORT int mlx5dv_devx_general_cmd(struct ibv_context *context, const void *in, size_t inlen, void *out, size_t outlen)
{
	static struct shca_next next = NEXT(NEXT_MLX5, "mlx5dv_devx_general_cmd", "MLX5_1.7");
	if (shca_is_ours(context))
		return shca_devx_general_cmd(context, in, inlen, out, outlen);
	__typeof__(&mlx5dv_devx_general_cmd) f = shca_next_find(&next);
	return f ? f(context, in, inlen, out, outlen) : ENOSYS;
}

EXPORT struct mlx5dv_devx_obj *mlx5dv_devx_obj_create(struct ibv_context *context, const void *in, size_t inlen,
						      void *out, size_t outlen)
{
	static struct shca_next next = NEXT(NEXT_MLX5, "mlx5dv_devx_obj_create", "MLX5_1.7");
	if (shca_is_ours(context)) {
		errno = shca_absent(__func__);
		return NULL;
	}
	__typeof__(&mlx5dv_devx_obj_create) f = shca_next_find(&next);
	return f ? f(context, in, inlen, out, outlen) : NULL;
}

EXPORT struct mlx5dv_devx_umem *mlx5dv_devx_umem_reg(struct ibv_context *context, void *addr, size_t size,
						     uint32_t access)
{
	static struct shca_next next = NEXT(NEXT_MLX5, "mlx5dv_devx_umem_reg", "MLX5_1.7");
	if (shca_is_ours(context)) {
		errno = shca_absent(__func__);
		return NULL;
	}
	__typeof__(&mlx5dv_devx_umem_reg) f = shca_next_find(&next);
	return f ? f(context, addr, size, access) : NULL;
}

EXPORT struct mlx5dv_devx_umem *mlx5dv_devx_umem_reg_ex(struct ibv_context *context, struct mlx5dv_devx_umem_in *in)
{
	static struct shca_next next = NEXT(NEXT_MLX5, "mlx5dv_devx_umem_reg_ex", "MLX5_1.19");
	if (shca_is_ours(context)) {
		errno = shca_absent(__func__);
		return NULL;
	}
	__typeof__(&mlx5dv_devx_umem_reg_ex) f = shca_next_find(&next);
	return f ? f(context, in) : NULL;
}

EXPORT struct mlx5dv_devx_uar *mlx5dv_devx_alloc_uar(struct ibv_context *context, uint32_t flags)
{
	static struct shca_next next = NEXT(NEXT_MLX5, "mlx5dv_devx_alloc_uar", "MLX5_1.7");
	if (shca_is_ours(context)) {
		errno = shca_absent(__func__);
		return NULL;
	}
	__typeof__(&mlx5dv_devx_alloc_uar) f = shca_next_find(&next);
	return f ? f(context, flags) : NULL;
}

EXPORT int mlx5dv_devx_query_eqn(struct ibv_context *context, uint32_t vector, uint32_t *eqn)
{
	static struct shca_next next = NEXT(NEXT_MLX5, "mlx5dv_devx_query_eqn", "MLX5_1.7");
	if (shca_is_ours(context))
		return shca_absent(__func__);
	__typeof__(&mlx5dv_devx_query_eqn) f = shca_next_find(&next);
	return f ? f(context, vector, eqn) : ENOSYS;
}

EXPORT struct mlx5dv_devx_event_channel *
mlx5dv_devx_create_event_channel(struct ibv_context *context, enum mlx5dv_devx_create_event_channel_flags flags)
{
	static struct shca_next next = NEXT(NEXT_MLX5, "mlx5dv_devx_create_event_channel", "MLX5_1.11");
	if (shca_is_ours(context)) {
		errno = shca_absent(__func__);
		return NULL;
	}
	__typeof__(&mlx5dv_devx_create_event_channel) f = shca_next_find(&next);
	return f ? f(context, flags) : NULL;
}

EXPORT struct mlx5dv_devx_cmd_comp *mlx5dv_devx_create_cmd_comp(struct ibv_context *context)
{
	static struct shca_next next = NEXT(NEXT_MLX5, "mlx5dv_devx_create_cmd_comp", "MLX5_1.9");
	if (shca_is_ours(context)) {
		errno = shca_absent(__func__);
		return NULL;
	}
	__typeof__(&mlx5dv_devx_create_cmd_comp) f = shca_next_find(&next);
	return f ? f(context) : NULL;
}

EXPORT int mlx5dv_devx_qp_query(struct ibv_qp *qp, const void *in, size_t inlen, void *out, size_t outlen)
{
	static struct shca_next next = NEXT(NEXT_MLX5, "mlx5dv_devx_qp_query", "MLX5_1.8");
	if (shca_is_ours(qp->context))
		return shca_absent(__func__);
	__typeof__(&mlx5dv_devx_qp_query) f = shca_next_find(&next);
	return f ? f(qp, in, inlen, out, outlen) : ENOSYS;
}

EXPORT int mlx5dv_devx_qp_modify(struct ibv_qp *qp, const void *in, size_t inlen, void *out, size_t outlen)
{
	static struct shca_next next = NEXT(NEXT_MLX5, "mlx5dv_devx_qp_modify", "MLX5_1.8");
	if (shca_is_ours(qp->context))
		return shca_absent(__func__);
	__typeof__(&mlx5dv_devx_qp_modify) f = shca_next_find(&next);
	return f ? f(qp, in, inlen, out, outlen) : ENOSYS;
}

EXPORT int mlx5dv_devx_cq_query(struct ibv_cq *cq, const void *in, size_t inlen, void *out, size_t outlen)
{
	static struct shca_next next = NEXT(NEXT_MLX5, "mlx5dv_devx_cq_query", "MLX5_1.8");
	if (shca_is_ours(cq->context))
		return shca_absent(__func__);
	__typeof__(&mlx5dv_devx_cq_query) f = shca_next_find(&next);
	return f ? f(cq, in, inlen, out, outlen) : ENOSYS;
}

EXPORT int mlx5dv_devx_cq_modify(struct ibv_cq *cq, const void *in, size_t inlen, void *out, size_t outlen)
{
	static struct shca_next next = NEXT(NEXT_MLX5, "mlx5dv_devx_cq_modify", "MLX5_1.8");
	if (shca_is_ours(cq->context))
		return shca_absent(__func__);
	__typeof__(&mlx5dv_devx_cq_modify) f = shca_next_find(&next);
	return f ? f(cq, in, inlen, out, outlen) : ENOSYS;
}

EXPORT int mlx5dv_devx_srq_query(struct ibv_srq *srq, const void *in, size_t inlen, void *out, size_t outlen)
{
	static struct shca_next next = NEXT(NEXT_MLX5, "mlx5dv_devx_srq_query", "MLX5_1.8");
	if (shca_is_ours(srq->context))
		return shca_absent(__func__);
	__typeof__(&mlx5dv_devx_srq_query) f = shca_next_find(&next);
	return f ? f(srq, in, inlen, out, outlen) : ENOSYS;
}

EXPORT int mlx5dv_devx_srq_modify(struct ibv_srq *srq, const void *in, size_t inlen, void *out, size_t outlen)
{
	static struct shca_next next = NEXT(NEXT_MLX5, "mlx5dv_devx_srq_modify", "MLX5_1.8");
	if (shca_is_ours(srq->context))
		return shca_absent(__func__);
	__typeof__(&mlx5dv_devx_srq_modify) f = shca_next_find(&next);
	return f ? f(srq, in, inlen, out, outlen) : ENOSYS;
}

EXPORT struct mlx5dv_var *mlx5dv_alloc_var(struct ibv_context *context, uint32_t flags)
{
	static struct shca_next next = NEXT(NEXT_MLX5, "mlx5dv_alloc_var", "MLX5_1.12");
	if (shca_is_ours(context)) {
		errno = shca_absent(__func__);
		return NULL;
	}
	__typeof__(&mlx5dv_alloc_var) f = shca_next_find(&next);
	return f ? f(context, flags) : NULL;
}

EXPORT struct mlx5dv_pp *mlx5dv_pp_alloc(struct ibv_context *context, size_t size, const void *context_data,
					 uint32_t flags)
{
	static struct shca_next next = NEXT(NEXT_MLX5, "mlx5dv_pp_alloc", "MLX5_1.13");
	if (shca_is_ours(context)) {
		errno = shca_absent(__func__);
		return NULL;
	}
	__typeof__(&mlx5dv_pp_alloc) f = shca_next_find(&next);
	return f ? f(context, size, context_data, flags) : NULL;
}

EXPORT int mlx5dv_reserved_qpn_alloc(struct ibv_context *context, uint32_t *qpn)
{
	static struct shca_next next = NEXT(NEXT_MLX5, "mlx5dv_reserved_qpn_alloc", "MLX5_1.18");
	if (shca_is_ours(context))
		return shca_absent(__func__);
	__typeof__(&mlx5dv_reserved_qpn_alloc) f = shca_next_find(&next);
	return f ? f(context, qpn) : ENOSYS;
}

EXPORT struct mlx5dv_flow_matcher *mlx5dv_create_flow_matcher(struct ibv_context *context,
							      struct mlx5dv_flow_matcher_attr *attr)
{
	static struct shca_next next = NEXT(NEXT_MLX5, "mlx5dv_create_flow_matcher", "MLX5_1.6");
	if (shca_is_ours(context)) {
		errno = shca_absent(__func__);
		return NULL;
	}
	__typeof__(&mlx5dv_create_flow_matcher) f = shca_next_find(&next);
	return f ? f(context, attr) : NULL;
}

EXPORT struct mlx5dv_sched_node *mlx5dv_sched_node_create(struct ibv_context *context,
							  const struct mlx5dv_sched_attr *attr)
{
	static struct shca_next next = NEXT(NEXT_MLX5, "mlx5dv_sched_node_create", "MLX5_1.17");
	if (shca_is_ours(context)) {
		errno = shca_absent(__func__);
		return NULL;
	}
	__typeof__(&mlx5dv_sched_node_create) f = shca_next_find(&next);
	return f ? f(context, attr) : NULL;
}

EXPORT struct mlx5dv_dr_domain *mlx5dv_dr_domain_create(struct ibv_context *context, enum mlx5dv_dr_domain_type type)
{
	static struct shca_next next = NEXT(NEXT_MLX5, "mlx5dv_dr_domain_create", "MLX5_1.10");
	if (shca_is_ours(context)) {
		errno = shca_absent(__func__);
		return NULL;
	}
	__typeof__(&mlx5dv_dr_domain_create) f = shca_next_find(&next);
	return f ? f(context, type) : NULL;
}
