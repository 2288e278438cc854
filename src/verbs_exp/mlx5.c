/* SPDX-License-Identifier: BSD-3-Clause */
/* The provider's table for mlx5: capabilities, objects, completions. Overview in mlx5.h. */
#include "verbs_exp/mlx5.h"

#include <errno.h>
#include <infiniband/mlx5dv.h>

#include "base/base.h"
#include "verbs_exp/convert.h"
#include "verbs_exp/provider.h"

/* ---- capabilities --------------------------------------------------------------------------------------------------------- */

/* Creates a queue pair that takes raw work requests and, with `keys`, requests that configure memory keys.
 * attr->create_flags: libmlx5 passes them on, libibverbs' own command refuses them, and exp_mlx5_create_qp_cmd, where this
 * library replaces that command, passes them to the kernel. */
static struct ibv_qp *mlx5_create(struct ibv_context *ctx, struct ibv_qp_init_attr_ex *attr, uint32_t flags, bool keys)
{
	struct mlx5dv_qp_init_attr dv = {
		.comp_mask = MLX5DV_QP_INIT_ATTR_MASK_SEND_OPS_FLAGS | MLX5DV_QP_INIT_ATTR_MASK_QP_CREATE_FLAGS,
		/* libmlx5 fails the completion of an unknown opcode if data could be scattered to the CQE */
		.create_flags = MLX5DV_QP_CREATE_DISABLE_SCATTER_TO_CQE, .send_ops_flags = MLX5DV_QP_EX_WITH_RAW_WQE,
	};

	if (keys)
		dv.send_ops_flags |= MLX5DV_QP_EX_WITH_MR_LIST | MLX5DV_QP_EX_WITH_MR_INTERLEAVED;
	attr->comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
	attr->send_ops_flags = IBV_QP_EX_WITH_SEND;
	if (flags) {
		attr->comp_mask |= IBV_QP_INIT_ATTR_CREATE_FLAGS;
		attr->create_flags = flags;
	}
	errno = 0;
	struct ibv_qp *qp = mlx5dv_create_qp(ctx, attr, &dv);
	/* libmlx5 sometimes leaves errno at 0 */
	if (!qp)
		errno = shca_refuse(errno ? errno : EINVAL,
				    "mlx5dv_create_qp: type %d, create flags %#x, send operations %#lx, %u and %u "
				    "requests, %u bytes inline",
				    attr->qp_type, flags, (unsigned long)dv.send_ops_flags, attr->cap.max_send_wr,
				    attr->cap.max_recv_wr, attr->cap.max_inline_data);
	return qp;
}

/*
 * Finds out whether a queue pair with these creation flags, or one that configures memory keys, can be had. Adapter, kernel,
 * rdma-core's version and the way this library was loaded decide, so the function creates one. Returns 0, or an errno value that
 * says nothing about that.
 */
static int can_create(struct ibv_context *ctx, uint32_t flags, bool keys, bool *can)
{
	struct ibv_pd *pd = ibv_alloc_pd(ctx);
	struct ibv_cq *cq = pd ? ibv_create_cq(ctx, 1, NULL, NULL, 0) : NULL;
	struct ibv_qp_init_attr_ex attr = {
		.send_cq = cq,
		.recv_cq = cq,
		.qp_type = IBV_QPT_RC,
		.pd = pd,
		.comp_mask = IBV_QP_INIT_ATTR_PD,
		.cap = {.max_send_wr = 1,
			.max_recv_wr = 1,
			.max_send_sge = 1,
			.max_recv_sge = 1,
			.max_inline_data = keys ? EXP_MLX5_KLMS * EXP_MLX5_KLM_BYTES : 0},
	};
	struct ibv_qp *qp = cq ? mlx5_create(ctx, &attr, flags, keys) : NULL;
	int err = qp ? 0 : errno;

	*can = qp;
	if (!qp && keys)
		shca_refuse(err, "an mlx5 whose firmware has memory keys that requests configure (UMR), and creating a queue "
			    "pair for them failed");
	else if (!qp)
		shca_refuse(
			err,
			"an mlx5 of which the experimental verbs find no cross-channel queue pairs: its firmware has them, and "
			"creating one failed (libshca has to be preloaded or linked before libibverbs, whose version be 34 to "
			"57)");
	if (qp)
		ibv_destroy_qp(qp);
	if (cq)
		ibv_destroy_cq(cq);
	if (pd)
		ibv_dealloc_pd(pd);
	return is_passing_error(err) ? err : 0;
}

/* Queries the capabilities, once in a context's life. Returns 0 or an errno value. */
static int mlx5_context_of(struct ibv_context *ctx, struct exp_mlx5_context *to)
{
	pthread_mutex_lock(&exp_mlx5_mutex);
	const struct exp_mlx5_context *c = exp_mlx5_context_of(ctx);
	if (c)
		*to = *c;
	pthread_mutex_unlock(&exp_mlx5_mutex);
	if (c)
		return 0;
	*to = (struct exp_mlx5_context){.calc = shca_env_bool("SHCA_EXP_CALC")};
	int err = exp_mlx5_query_caps(ctx, &to->caps);
	if (!err && to->caps.cross_channel)
		err = can_create(ctx, EXP_MLX5_CREATE_FLAGS, false, &to->caps.cross_channel);
	bool keys = !err && to->caps.key_entries > 1;
	if (keys)
		err = can_create(ctx, 0, true, &keys);
	if (!keys)
		to->caps.key_entries = 0;
	if (err)		/* not kept: the next call asks again */
		return shca_refuse(err, "the capabilities of an mlx5 cannot be queried now");
	pthread_mutex_lock(&exp_mlx5_mutex);
	err = exp_mlx5_enter_context(ctx, to);
	pthread_mutex_unlock(&exp_mlx5_mutex);
	return err;
}

/* Operand sizes of masked atomics whose results are in host order; results of the other sizes are in network order. */
static uint32_t host_sizes_of(const struct exp_mlx5_caps *caps)
{
	return caps->host_order ? caps->masked_sizes & 8 : 0;
}

/* The entries of a key that every queue pair with IBV_EXP_QP_CREATE_UMR configures, as a list or as blocks. */
static uint32_t key_entries_of(const struct exp_mlx5_caps *caps)
{
	return (caps->key_entries < EXP_MLX5_KLMS ? caps->key_entries : EXP_MLX5_KLMS) - 1;
}

static int query_device(struct ibv_context *ctx, struct ibv_exp_device_attr *attr)
{
	const uint32_t want = attr->comp_mask;
	struct ibv_device_attr_ex d;
	struct exp_mlx5_context c;
	int err = ibv_query_device_ex(ctx, NULL, &d);

	if (!err)
		err = mlx5_context_of(ctx, &c);
	if (err)
		return err;
	/* reported are sizes with results in host order: a program can use these without knowing the adapter */
	const uint32_t host_sizes = host_sizes_of(&c.caps);
	exp_device_of(attr, &d.orig_attr);
	attr->exp_atomic_cap = (enum ibv_exp_atomic_cap)d.orig_attr.atomic_cap;
	if (want & IBV_EXP_DEVICE_ATTR_EXP_CAP_FLAGS)
		attr->exp_device_cap_flags = d.orig_attr.device_cap_flags | IBV_EXP_DEVICE_NOP |
					     exp_window_flags(&d.orig_attr) |
					     (host_sizes ? IBV_EXP_DEVICE_EXT_ATOMICS | IBV_EXP_DEVICE_EXT_MASKED_ATOMICS : 0) |
					     (d.odp_caps.general_caps & IBV_ODP_SUPPORT ? IBV_EXP_DEVICE_ODP : 0) |
					     (c.caps.key_entries ? IBV_EXP_DEVICE_UMR : 0) |
					     (c.caps.cross_channel ? IBV_EXP_DEVICE_CROSS_CHANNEL : 0);
	if ((want & IBV_EXP_DEVICE_ATTR_CALC_CAP) && c.calc)
		attr->calc_cap = exp_calc_cap();
	if (want & IBV_EXP_DEVICE_ATTR_WITH_HCA_CORE_CLOCK)
		attr->hca_core_clock = d.hca_core_clock;
	if (want & IBV_EXP_DEVICE_ATTR_EXT_ATOMIC_ARGS)
		attr->ext_atom = (struct ibv_exp_ext_atomics_params){
			.atomic_arg_sizes = host_sizes,
			.max_fa_bit_boundary = host_sizes ? 3 : 0,
			.log_max_atomic_inline = host_sizes ? 5 : 0,
		};
	if (want & IBV_EXP_DEVICE_ATTR_MASKED_ATOMICS)
		attr->masked_atomic = (struct ibv_exp_masked_atomic_params){
			.max_fa_bit_boundary = c.caps.masked_sizes ? 3 : 0, .log_max_atomic_inline = c.caps.masked_sizes ? 9 : 0,
			.masked_log_atomic_arg_sizes = host_sizes,
			.masked_log_atomic_arg_sizes_network_endianness = c.caps.masked_sizes & ~host_sizes,
		};
	if ((want & IBV_EXP_DEVICE_ATTR_UMR) && c.caps.key_entries)
		attr->umr_caps = (struct ibv_exp_umr_caps){
			.max_klm_list_size = key_entries_of(&c.caps),
			.max_send_wqe_inline_klms = key_entries_of(&c.caps),
			.max_umr_recursion_depth = c.caps.key_depth,
			.max_umr_stride_dimension = 1,
		};
	if (want & IBV_EXP_DEVICE_ATTR_ODP) {
		attr->odp_caps.general_odp_caps = d.odp_caps.general_caps;
		attr->odp_caps.per_transport_caps.rc_odp_caps = d.odp_caps.per_transport_caps.rc_odp_caps;
		attr->odp_caps.per_transport_caps.uc_odp_caps = d.odp_caps.per_transport_caps.uc_odp_caps;
		attr->odp_caps.per_transport_caps.ud_odp_caps = d.odp_caps.per_transport_caps.ud_odp_caps;
		attr->odp_caps.per_transport_caps.xrc_odp_caps = d.xrc_odp_caps;
	}
	if (want & IBV_EXP_DEVICE_ATTR_MAX_CTX_RES_DOMAIN)
		attr->max_ctx_res_domain = INT32_MAX;
	if (want & IBV_EXP_DEVICE_ATTR_MAX_DEVICE_CTX)
		attr->max_device_ctx = INT32_MAX;
	if (want & IBV_EXP_DEVICE_ATTR_MAX_DM_SIZE)
		attr->max_dm_size = d.max_dm_size;
	return 0;
}

/* ---- completion queues --------------------------------------------------------------------------------------------- */

static struct ibv_cq *mlx5_create_cq(struct ibv_context *ctx, int cqe, void *cq_context, struct ibv_comp_channel *channel,
				int comp_vector, struct ibv_exp_cq_init_attr *attr)
{
	const uint32_t can = IBV_EXP_CQ_CREATE_CROSS_CHANNEL | IBV_EXP_CQ_COMPRESSED_CQE;
	uint32_t comp = attr ? attr->comp_mask : 0, flags = comp & IBV_EXP_CQ_INIT_ATTR_FLAGS ? attr->flags : 0;

	if ((comp & IBV_EXP_CQ_INIT_ATTR_PEER_DIRECT) || (flags & ~can)) {
		errno = shca_refuse(EOPNOTSUPP, "ibv_exp_create_cq: comp_mask %#x, flags %#x, of an mlx5 %#x can be had", comp,
				    flags, can);
		return NULL;
	}
	return ibv_create_cq(ctx, cqe, cq_context, channel, comp_vector);
}

static int modify_cq(struct ibv_cq *cq, struct ibv_exp_cq_attr *attr, int mask)
{
	struct ibv_modify_cq_attr moderation = {
		.attr_mask = IBV_CQ_ATTR_MODERATE,
		.moderate = {.cq_count = attr->moderation.cq_count, .cq_period = attr->moderation.cq_period},
	};

	if ((mask & IBV_EXP_CQ_CAP_FLAGS) && attr->cq_cap_flags)
		return shca_refuse(EOPNOTSUPP, "ibv_exp_modify_cq: an mlx5 takes the overrun flag of a completion queue at "
				   "creation only: ibv_create_cq_ex with IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN");
	return mask & IBV_EXP_CQ_MODERATION ? ibv_modify_cq(cq, &moderation) : 0;
}

static enum ibv_exp_wc_opcode mlx5_opcode_of(struct exp_mlx5_qp *q, const struct ibv_wc *wc)
{
	if (wc->opcode == IBV_WC_LOCAL_INV)
		return IBV_EXP_WC_LOCAL_INV;
	if ((int)wc->opcode == MLX5DV_WC_UMR)
		return IBV_EXP_WC_UMR;
	if (!q || wc->opcode != IBV_WC_DRIVER2)
		return (enum ibv_exp_wc_opcode)wc->opcode;
	/* older entries belong to completions that were polled by ibv_poll_cq */
	for (uint64_t i = q->raw_first; i != q->raw_end; i++) {
		const struct exp_mlx5_raw *r = &q->raw[i & q->raw_mask];
		if (r->wr_id != wc->wr_id)
			continue;
		q->raw_first = i + 1;
		return r->opcode;
	}
	return (enum ibv_exp_wc_opcode)wc->opcode;
}

static void fill_wc(struct ibv_cq *cq, struct ibv_exp_wc *to, const struct ibv_wc *wc)
{
	const unsigned int same = IBV_WC_GRH | IBV_WC_WITH_IMM;

	pthread_mutex_lock(&exp_mlx5_mutex);
	struct exp_mlx5_qp *q = exp_mlx5_qp_by_number(cq->context, wc->qp_num);
	*to = (struct ibv_exp_wc){
		.wr_id = wc->wr_id, .status = wc->status, .exp_opcode = mlx5_opcode_of(q, wc), .vendor_err = wc->vendor_err,
		.byte_len = wc->byte_len, .imm_data = wc->imm_data, .qp_num = wc->qp_num, .src_qp = wc->src_qp,
		.pkey_index = wc->pkey_index, .slid = wc->slid, .sl = wc->sl, .dlid_path_bits = wc->dlid_path_bits,
		.exp_wc_flags = (wc->wc_flags & same) | (wc->wc_flags & IBV_WC_WITH_INV ? IBV_EXP_WC_WITH_INV : 0) |
				IBV_EXP_WC_WITH_SL | IBV_EXP_WC_WITH_SLID | (q ? IBV_EXP_WC_QP : 0),
		.qp = q ? q->qp : NULL,
	};
	if (q && q->qp->srq && (to->exp_opcode & IBV_EXP_WC_RECV)) {
		to->srq = q->qp->srq;
		to->exp_wc_flags |= IBV_EXP_WC_SRQ;
	}
	pthread_mutex_unlock(&exp_mlx5_mutex);
}

static int poll_cq(struct ibv_cq *cq, int n, struct ibv_exp_wc *wc)
{
	struct ibv_wc one;
	int got = 0;

	for (; got < n; got++) {
		int rc = ibv_poll_cq(cq, 1, &one);
		if (rc <= 0)
			return got ? got : rc;
		fill_wc(cq, &wc[got], &one);
	}
	return got;
}

/* ---- queue pairs --------------------------------------------------------------------------------------------------- */

/* Returns 0 or an errno value. */
static int check_qp(const struct ibv_exp_qp_init_attr *attr, uint32_t flags, uint32_t atomic, const struct exp_mlx5_caps *caps)
{
	/* BE_REPLY is not passed on: the operand size decides the order of an adapter's results. check_order in mlx5_post.c
	 * refuses, on each queue pair, atomics whose results have the other order. */
	const uint32_t can = (caps->cross_channel ? EXP_MLX5_CREATE_FLAGS : 0) |
			     (caps->key_entries ? IBV_EXP_QP_CREATE_UMR : 0) |
			     (caps->masked_sizes & ~host_sizes_of(caps) ? IBV_EXP_QP_CREATE_ATOMIC_BE_REPLY : 0);
	if (flags & ~can)
		return shca_refuse(EOPNOTSUPP, "ibv_exp_create_qp: create flags %#x, of this mlx5 %#x can be had", flags, can);
	if (attr->qp_type == IBV_EXP_QPT_DC_INI || (flags & EXP_MLX5_CREATE_FLAGS && attr->qp_type == IBV_QPT_XRC_RECV))
		return shca_refuse(EOPNOTSUPP,
				   "ibv_exp_create_qp: type %d, create flags %#x: DC of an mlx5 is mlx5dv_create_qp's, and an "
				   "XRC target posts nothing",
				   attr->qp_type, flags);
	/* a managed queue takes requests of one block only (exp_mlx5_fits_managed) */
	if (flags & IBV_EXP_QP_CREATE_UMR && (attr->qp_type != IBV_QPT_RC || flags & IBV_EXP_QP_CREATE_MANAGED_SEND))
		return shca_refuse(
			EOPNOTSUPP,
			"ibv_exp_create_qp: IBV_EXP_QP_CREATE_UMR, type %d, create flags %#x: an mlx5 configures memory keys "
			"by RC queues whose sends are not managed",
			attr->qp_type, flags);
	if (attr->comp_mask & IBV_EXP_QP_INIT_ATTR_MAX_INL_KLMS && attr->max_inl_send_klms >= EXP_MLX5_KLMS_MAX)
		return shca_refuse(EINVAL,
				   "ibv_exp_create_qp: %u entries of memory keys in a request: a work queue element holds %u",
				   attr->max_inl_send_klms, EXP_MLX5_KLMS_MAX - 1);
	/* every queue pair has atomics of 8 bytes, asked for or not */
	if (atomic > 8 && !(caps->masked_sizes & atomic))
		return shca_refuse(EOPNOTSUPP, "ibv_exp_create_qp: atomics of %u bytes, the adapter has the sizes %#x", atomic,
				   caps->masked_sizes);
	if (exp_qp_lacking(attr))
		return shca_refuse(EOPNOTSUPP, "ibv_exp_create_qp: comp_mask %#x: %s", attr->comp_mask, exp_qp_lacking(attr));
	return 0;
}

/* Counts the receives of managed receive queues, also those of ibv_post_recv, which calls through the context's table. */
static void count_receives(struct ibv_context *ctx)
{
	struct exp_mlx5_context *c = exp_mlx5_context_of(ctx);

	if (c && !c->post_recv) {
		c->post_recv = ctx->ops.post_recv;
		ctx->ops.post_recv = exp_mlx5_post_recv;
	}
}

static int note_qp(struct ibv_qp *qp, const struct exp_mlx5_qp *q)
{
	pthread_mutex_lock(&exp_mlx5_mutex);
	int err = exp_mlx5_enter_qp(q);
	if (!err && (q->flags & IBV_EXP_QP_CREATE_MANAGED_RECV))
		count_receives(qp->context);
	pthread_mutex_unlock(&exp_mlx5_mutex);
	return err;
}

/* Entries in a request that configures a memory key; one more than asked for, since blocks have a header. */
static uint32_t klms_of(const struct ibv_exp_qp_init_attr *attr)
{
	uint32_t asked = attr->comp_mask & IBV_EXP_QP_INIT_ATTR_MAX_INL_KLMS ? attr->max_inl_send_klms : 0;

	return asked >= EXP_MLX5_KLMS ? asked + 1 : EXP_MLX5_KLMS;
}

static struct ibv_qp *create_qp(struct ibv_context *ctx, struct ibv_exp_qp_init_attr *attr)
{
	uint32_t flags = attr->comp_mask & IBV_EXP_QP_INIT_ATTR_CREATE_FLAGS ? attr->exp_create_flags : 0;
	uint32_t atomic = attr->comp_mask & IBV_EXP_QP_INIT_ATTR_ATOMICS_ARG ? attr->max_atomic_arg : 8;
	struct ibv_qp_init_attr_ex ex = {
		.qp_context = attr->qp_context, .send_cq = attr->send_cq, .recv_cq = attr->recv_cq, .srq = attr->srq,
		.cap = attr->cap, .qp_type = attr->qp_type, .sq_sig_all = attr->sq_sig_all,
		.comp_mask = (attr->comp_mask & IBV_EXP_QP_INIT_ATTR_PD ? IBV_QP_INIT_ATTR_PD : 0) |
			     (attr->comp_mask & IBV_EXP_QP_INIT_ATTR_XRCD ? IBV_QP_INIT_ATTR_XRCD : 0),
		.pd = attr->pd, .xrcd = attr->xrcd,
	};
	struct exp_mlx5_context c;
	struct ibv_qp *qp;
	int err = mlx5_context_of(ctx, &c);

	if (!err)
		err = check_qp(attr, flags, atomic, &c.caps);
	if (err) {
		errno = err;
		return NULL;
	}
	if (attr->qp_type == IBV_QPT_XRC_RECV)
		return ibv_create_qp_ex(ctx, &ex);
	const uint32_t klms = flags & IBV_EXP_QP_CREATE_UMR ? klms_of(attr) : 0;
	if (ex.cap.max_inline_data < klms * EXP_MLX5_KLM_BYTES)
		ex.cap.max_inline_data = klms * EXP_MLX5_KLM_BYTES;
	qp = mlx5_create(ctx, &ex, flags & EXP_MLX5_CREATE_FLAGS, klms);
	if (!qp)
		return NULL;
	err = note_qp(qp, &(struct exp_mlx5_qp){.qp = qp,
						.flags = flags,
						.signal_all = attr->sq_sig_all,
						.cap = ex.cap,
						.max_atomic = atomic > 8 ? atomic : 8,
						.klms = klms});
	if (err) {
		ibv_destroy_qp(qp);
		errno = err;
		return NULL;
	}
	attr->cap = ex.cap;
	if (attr->comp_mask & IBV_EXP_QP_INIT_ATTR_INL_RECV)
		attr->max_inl_recv = 0;
	return qp;
}

static int mlx5_modify_qp(struct ibv_qp *qp, const struct ibv_exp_qp_attr *attr, uint64_t mask)
{
	uint64_t beyond = mask & ~EXP_ORDINARY_MASK;
	struct ibv_qp_attr a;

	if (attr->rate_limit == 0)
		beyond &= ~(uint64_t)IBV_EXP_QP_RATE_LIMIT;
	if (beyond)
		return shca_refuse(EOPNOTSUPP, "ibv_exp_modify_qp: attributes %#lx, of which %#lx cannot be had of an mlx5",
				   (unsigned long)mask, (unsigned long)beyond);
	exp_qp_attr_to(&a, attr);
	return mask & EXP_ORDINARY_MASK ? ibv_modify_qp(qp, &a, (int)(mask & EXP_ORDINARY_MASK)) : 0;
}

static int query_qp(struct ibv_qp *qp, struct ibv_exp_qp_attr *attr, uint64_t mask, struct ibv_qp_init_attr *init)
{
	struct ibv_qp_attr a;
	int err = ibv_query_qp(qp, &a, (int)(mask & EXP_ORDINARY_MASK), init);

	if (!err)
		exp_qp_attr_of(attr, &a);
	return err;
}

/* ---- memory keys ---------------------------------------------------------------------------------------------------- */

static struct ibv_mr *mlx5_create_key(struct ibv_pd *pd, uint32_t entries)
{
	/* blocks need an entry for their header */
	struct mlx5dv_mkey_init_attr attr = {.pd = pd,
					     .create_flags = MLX5DV_MKEY_INIT_ATTR_FLAGS_INDIRECT,
					     .max_entries = (uint16_t)(entries + 1)};
	struct exp_mlx5_context c;
	int err = mlx5_context_of(pd->context, &c);

	if (!err && !c.caps.key_entries)
		err = shca_refuse(EOPNOTSUPP, "ibv_exp_create_mr: this mlx5 has no memory keys that requests configure (UMR)");
	else if (!err && (!entries || entries >= c.caps.key_entries))
		err = shca_refuse(EINVAL, "ibv_exp_create_mr: a memory key of %u entries: this mlx5 has 1 to %u", entries,
				  c.caps.key_entries - 1);
	errno = 0;
	struct mlx5dv_mkey *dv = err ? NULL : mlx5dv_create_mkey(&attr);
	if (!err && !dv)
		err = shca_refuse(errno ? errno : EINVAL, "mlx5dv_create_mkey: %u entries", entries + 1);
	if (err) {
		errno = err;
		return NULL;
	}
	pthread_mutex_lock(&exp_mlx5_mutex);
	struct ibv_mr *mr = exp_mlx5_enter_key(&(struct exp_mlx5_key){
		.mr = {.context = pd->context, .pd = pd, .handle = UINT32_MAX, .lkey = dv->lkey, .rkey = dv->rkey},
		.dv = dv,
		.entries = entries});
	pthread_mutex_unlock(&exp_mlx5_mutex);
	if (!mr) {
		mlx5dv_destroy_mkey(dv);
		errno = mlx5_no_memory();
	}
	return mr;
}

static uint32_t mlx5_key_entries(const struct ibv_mr *mr)
{
	pthread_mutex_lock(&exp_mlx5_mutex);
	const struct exp_mlx5_key *key = exp_mlx5_key_of(mr);
	uint32_t entries = key ? key->entries : 0;
	pthread_mutex_unlock(&exp_mlx5_mutex);
	return entries;
}

/* ---- calls that an mlx5 does not have ------------------------------------------------------------------------------ */

static struct ibv_exp_dct *create_dct(struct ibv_context *ctx, struct ibv_exp_dct_init_attr *attr)
{
	errno = shca_refuse(EOPNOTSUPP, "ibv_exp_create_dct: DC of an mlx5 is mlx5dv_create_qp's");
	return NULL;
}

static struct ibv_mr *mlx5_reg_allocated(struct ibv_pd *pd, size_t length, unsigned int access)
{
	errno = shca_refuse(EOPNOTSUPP, "ibv_exp_reg_mr: an mlx5 allocates no memory (%zu bytes)", length);
	return NULL;
}

/* query_dct, arm_dct, destroy_dct are NULL: without create_dct there is no object to call them with. */
static const struct ibv_exp_provider provider = {
	.query_device = query_device,
	.create_cq = mlx5_create_cq,
	.modify_cq = modify_cq,
	.create_qp = create_qp,
	.modify_qp = mlx5_modify_qp,
	.query_qp = query_qp,
	.create_dct = create_dct,
	.poll_cq = poll_cq,
	.reg_allocated = mlx5_reg_allocated,
	.create_key = mlx5_create_key,
	.key_entries = mlx5_key_entries,
	.post_send = exp_mlx5_post_send,
	.post_task = exp_mlx5_post_task,
	.refuse = shca_refuse,
};

const struct ibv_exp_provider *exp_mlx5_provider(struct ibv_context *ctx)
{
	return mlx5dv_is_supported(ctx->device) ? &provider : NULL;
}
