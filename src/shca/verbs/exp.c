/* SPDX-License-Identifier: BSD-3-Clause */
/* The native provider of the experimental verbs: capabilities and queues. Posting is in exp_post.c. */
#include <errno.h>
#include <string.h>

#include "shca/engine/atomic.h"
#include "shca/engine/calc.h"
#include "shca/verbs/control.h"
#include "verbs_exp/convert.h"
#include "verbs_exp/provider.h"
#include "shca/verbs/submit/post.h"

/* ibv_exp_query_device. Attributes without a line here are 0, and the device lacks them: flow steering, hashing, segmentation,
 * pacing, padding, receives or time in completions, erasure coding. */
static int exp_query_device(struct ibv_context *ctx, struct ibv_exp_device_attr *attr)
{
	/* the sizes from 4 to SHCA_ATOMIC_MAX */
	const uint64_t sizes = 2 * SHCA_ATOMIC_MAX - 4;
	const uint32_t want = attr->comp_mask;	/* the caller has cleared the other members of the program's struct */
	struct ibv_device_attr_ex d;
	int err = shca_query_device_ex(ctx, NULL, &d, sizeof(d));

	if (err)
		return err;
	exp_device_of(attr, &d.orig_attr);
	/* results are in the host's order; a queue pair can be made that has them in network order */
	attr->exp_atomic_cap = (enum ibv_exp_atomic_cap)d.orig_attr.atomic_cap;
	if (want & IBV_EXP_DEVICE_ATTR_EXP_CAP_FLAGS)
		attr->exp_device_cap_flags = d.orig_attr.device_cap_flags | IBV_EXP_DEVICE_DC_TRANSPORT |
					     IBV_EXP_DEVICE_EXT_ATOMICS | IBV_EXP_DEVICE_EXT_MASKED_ATOMICS |
					     IBV_EXP_DEVICE_NOP | IBV_EXP_DEVICE_CROSS_CHANNEL | IBV_EXP_DEVICE_MR_ALLOCATE |
					     IBV_EXP_DEVICE_UMR |
					     exp_window_flags(&d.orig_attr) |
					     (shca_pages_on_demand(ctx) ? IBV_EXP_DEVICE_ODP : 0);
	if (want & IBV_EXP_DEVICE_ATTR_CALC_CAP)
		attr->calc_cap = exp_calc_cap();
	if (want & IBV_EXP_DEVICE_ATTR_WITH_HCA_CORE_CLOCK)
		attr->hca_core_clock = d.hca_core_clock;
	if (want & IBV_EXP_DEVICE_DC_RD_REQ)
		attr->max_dc_req_rd_atom = SHCA_MAX_RD_ATOMIC;
	if (want & IBV_EXP_DEVICE_DC_RD_RES)
		attr->max_dc_res_rd_atom = SHCA_MAX_RD_ATOMIC;
	if (want & IBV_EXP_DEVICE_ATTR_EXT_ATOMIC_ARGS)
		attr->ext_atom = (struct ibv_exp_ext_atomics_params){
			.atomic_arg_sizes = sizes, .max_fa_bit_boundary = 3, .log_max_atomic_inline = 10,
		};
	if (want & IBV_EXP_DEVICE_ATTR_MASKED_ATOMICS)
		attr->masked_atomic = (struct ibv_exp_masked_atomic_params){
			.max_fa_bit_boundary = 3, .log_max_atomic_inline = 10, .masked_log_atomic_arg_sizes = sizes,
			.masked_log_atomic_arg_sizes_network_endianness = sizes,
		};
	if (want & IBV_EXP_DEVICE_ATTR_ODP) {
		attr->odp_caps.general_odp_caps = d.odp_caps.general_caps;
		attr->odp_caps.per_transport_caps.rc_odp_caps = d.odp_caps.per_transport_caps.rc_odp_caps;
		attr->odp_caps.per_transport_caps.uc_odp_caps = d.odp_caps.per_transport_caps.uc_odp_caps;
		attr->odp_caps.per_transport_caps.ud_odp_caps = d.odp_caps.per_transport_caps.ud_odp_caps;
		attr->odp_caps.per_transport_caps.dc_odp_caps = shca_dc_odp_caps(ctx);
		attr->odp_caps.per_transport_caps.xrc_odp_caps = d.xrc_odp_caps;
	}
	if (want & IBV_EXP_DEVICE_ATTR_UMR)
		attr->umr_caps = (struct ibv_exp_umr_caps){
			.max_klm_list_size = SHCA_MKEY_ENTRIES, .max_send_wqe_inline_klms = SHCA_MKEY_ENTRIES,
			.max_umr_recursion_depth = SHCA_MKEY_DEPTH, .max_umr_stride_dimension = 1,
		};
	if (want & IBV_EXP_DEVICE_ATTR_MAX_DCT)
		attr->max_dct = d.orig_attr.max_qp;
	if (want & IBV_EXP_DEVICE_ATTR_MAX_CTX_RES_DOMAIN)
		attr->max_ctx_res_domain = INT32_MAX;
	if (want & IBV_EXP_DEVICE_ATTR_MAX_DEVICE_CTX)
		attr->max_device_ctx = INT32_MAX;
	if (want & IBV_EXP_DEVICE_ATTR_MAX_DM_SIZE)
		attr->max_dm_size = d.max_dm_size;
	if (want & SHCA_EXP_DEVICE_ATTR_EXTENSIONS) {
		attr->shca_extensions = SHCA_EXP_EXTENSION_ATOMIC_GATHER | SHCA_EXP_EXTENSION_CALC_OPS |
					SHCA_EXP_EXTENSION_CALC_SIZES | SHCA_EXP_EXTENSION_CALC_HOST_ORDER |
					SHCA_EXP_EXTENSION_CALC_VECTOR;
		attr->shca_calc_vector_max = SHCA_CALC_VECTOR_MAX;
	}
	return 0;
}

static struct ibv_cq *exp_create_cq(struct ibv_context *ctx, int cqe, void *cq_context,
				    struct ibv_comp_channel *channel, int comp_vector,
				    struct ibv_exp_cq_init_attr *attr)
{
	const uint32_t can = IBV_EXP_CQ_CREATE_CROSS_CHANNEL | IBV_EXP_CQ_COMPRESSED_CQE;
	uint32_t comp = attr ? attr->comp_mask : 0, flags = comp & IBV_EXP_CQ_INIT_ATTR_FLAGS ? attr->flags : 0;

	if ((comp & IBV_EXP_CQ_INIT_ATTR_PEER_DIRECT) || (flags & ~can)) {
		errno = shca_refuse(EOPNOTSUPP,
				    "ibv_exp_create_cq: comp_mask %#x, flags %#x, the device has %#x: completions carry no "
				    "time, and no other device takes part",
				    comp, flags, can);
		return NULL;
	}
	/* every completion queue can be waited for */
	struct ibv_cq *cq = shca_create_cq(ctx, cqe, cq_context, channel, comp_vector);
	if (cq && (comp & IBV_EXP_CQ_INIT_ATTR_RES_DOMAIN) && exp_single_threaded(attr->res_domain))
		shca_user_cq_of(cq)->lock.none = true;
	return cq;
}

/* Moderation bounds how long an event may be held back; none is held back here. */
static int exp_modify_cq(struct ibv_cq *ibcq, struct ibv_exp_cq_attr *attr, int mask)
{
	struct shca_user_cq *cq = shca_user_cq_of(ibcq);

	if (shca_unusable(ibcq->context))
		return errno;
	if (shca_cq_in_error(cq->sh))
		return shca_refuse(EINVAL, "ibv_exp_modify_cq: the completion queue was overrun");
	if (!(mask & IBV_EXP_CQ_CAP_FLAGS))
		return 0;
	if (attr->cq_cap_flags & IBV_EXP_CQ_IGNORE_OVERRUN)
		__atomic_fetch_or(&cq->sh->flags, SHCA_CQ_IGNORE_OVERRUN, __ATOMIC_SEQ_CST);
	else
		__atomic_fetch_and(&cq->sh->flags, ~SHCA_CQ_IGNORE_OVERRUN, __ATOMIC_SEQ_CST);
	return 0;
}

int shca_widen_atomics(struct ibv_context *ctx)
{
	struct shca_thread *thr;

	if (shca_unusable(ctx))
		return errno;
	thr = shca_thread_get(shca_context_of(ctx)->m);
	if (!thr)
		return shca_no_memory("ibv_exp_create_qp");
	shca_enter(thr);
	shca_atomics_widen(thr);
	shca_leave(thr);
	return 0;
}

/* Checks the attributes beyond an ordinary queue pair. 0 or an errno value. */
static int check_extended(const struct ibv_exp_qp_init_attr *attr, uint32_t flags, uint32_t atomic)
{
	const uint32_t can = IBV_EXP_QP_CREATE_CROSS_CHANNEL | IBV_EXP_QP_CREATE_MANAGED_SEND | IBV_EXP_QP_CREATE_MANAGED_RECV |
			     IBV_EXP_QP_CREATE_IGNORE_SQ_OVERFLOW | IBV_EXP_QP_CREATE_ATOMIC_BE_REPLY | IBV_EXP_QP_CREATE_UMR;
	const uint32_t comp = attr->comp_mask;

	if (flags & IBV_EXP_QP_CREATE_IGNORE_RQ_OVERFLOW)
		return shca_refuse(EOPNOTSUPP,
				   "ibv_exp_create_qp: a receive's place is free again when its completion is polled, which "
				   "IBV_EXP_QP_CREATE_IGNORE_RQ_OVERFLOW wants to do without");
	if (attr->qp_type == IBV_QPT_RAW_PACKET)
		return shca_refuse(EOPNOTSUPP, "ibv_exp_create_qp: raw packet queue pairs are made by ibv_create_qp");
	if (flags & ~can)
		return shca_refuse(EOPNOTSUPP, "ibv_exp_create_qp: create flags %#x, the device has %#x", flags, can);
	if (atomic > SHCA_ATOMIC_MAX)
		return shca_refuse(EOPNOTSUPP, "ibv_exp_create_qp: atomics of %u bytes, at most %u", atomic, SHCA_ATOMIC_MAX);
	if (exp_qp_lacking(attr))
		return shca_refuse(EOPNOTSUPP, "ibv_exp_create_qp: comp_mask %#x: %s", comp, exp_qp_lacking(attr));
	if ((comp & IBV_EXP_QP_INIT_ATTR_PORT) && (attr->port_num < 1 || attr->port_num > shca_ports()))
		return shca_refuse(EINVAL, "ibv_exp_create_qp: port %u: the device has %u, numbered from 1 (SHCA_PORTS)",
				   attr->port_num, shca_ports());
	if ((flags & IBV_EXP_QP_CREATE_MANAGED_RECV) && attr->srq)
		return shca_refuse(EINVAL, "ibv_exp_create_qp: a shared receive queue cannot be managed by one queue");
	return 0;
}

uint8_t shca_qp_flags_of(uint32_t flags)
{
	return (uint8_t)((flags & IBV_EXP_QP_CREATE_CROSS_CHANNEL ? SHCA_QP_CROSS : 0) |
			 (flags & IBV_EXP_QP_CREATE_MANAGED_SEND ? SHCA_QP_MANAGED_SEND : 0) |
			 (flags & IBV_EXP_QP_CREATE_MANAGED_RECV ? SHCA_QP_MANAGED_RECV : 0) |
			 (flags & IBV_EXP_QP_CREATE_ATOMIC_BE_REPLY ? SHCA_QP_BE_REPLY : 0));
}

static struct ibv_qp *exp_create_qp(struct ibv_context *ctx, struct ibv_exp_qp_init_attr *attr)
{
	uint32_t flags = attr->comp_mask & IBV_EXP_QP_INIT_ATTR_CREATE_FLAGS ? attr->exp_create_flags : 0;
	struct ibv_qp_init_attr_ex ex = {
		.qp_context = attr->qp_context, .send_cq = attr->send_cq, .recv_cq = attr->recv_cq, .srq = attr->srq,
		.cap = attr->cap, .qp_type = attr->qp_type, .sq_sig_all = attr->sq_sig_all,
		.comp_mask = (attr->comp_mask & IBV_EXP_QP_INIT_ATTR_PD ? IBV_QP_INIT_ATTR_PD : 0) |
			     (attr->comp_mask & IBV_EXP_QP_INIT_ATTR_XRCD ? IBV_QP_INIT_ATTR_XRCD : 0),
		.pd = attr->pd, .xrcd = attr->xrcd,
	};
	bool dci = attr->qp_type == IBV_EXP_QPT_DC_INI;
	struct shca_qp_create cr = {.attr = ex, .type = SHCA_QPT_DCI};
	uint32_t atomic = attr->comp_mask & IBV_EXP_QP_INIT_ATTR_ATOMICS_ARG ? attr->max_atomic_arg : 8;
	int err = check_extended(attr, flags, atomic);

	if (!err && !dci)
		err = shca_qp_create_check(&ex, &cr);
	if (err) {
		errno = err;
		return NULL;
	}
	cr.flags = shca_qp_flags_of(flags);
	if (atomic > 8)
		err = shca_widen_atomics(ctx);
	if (err) {
		errno = err;
		return NULL;
	}
	struct shca_user_qp *qp = shca_qp_new(ctx, &cr);
	if (!qp)
		return NULL;
	if (atomic > 8)
		qp->max_atomic = atomic;
	if (dci)
		qp->qp.qp_type = qp->init.qp_type = IBV_EXP_QPT_DC_INI;
	qp->fills_keys = flags & IBV_EXP_QP_CREATE_UMR;
	qp->ignore_overflow = flags & IBV_EXP_QP_CREATE_IGNORE_SQ_OVERFLOW;
	if ((attr->comp_mask & IBV_EXP_QP_INIT_ATTR_RES_DOMAIN) && exp_single_threaded(attr->res_domain)) {
		qp->lock.none = true;
	}
	attr->cap = cr.attr.cap;
	if (attr->comp_mask & IBV_EXP_QP_INIT_ATTR_INL_RECV)
		attr->max_inl_recv = 0;
	return &qp->qp;
}

/* ---- modify, query --------------------------------------------------------------------------------------------------- */

static int exp_modify_qp(struct ibv_qp *ibqp, const struct ibv_exp_qp_attr *attr, uint64_t mask)
{
	struct shca_user_qp *qp = shca_user_qp_of(ibqp);
	uint64_t beyond = mask & ~EXP_ORDINARY_MASK;
	struct ibv_qp_attr a;
	int err;

	if (shca_unusable(ibqp->context))
		return errno;
	if (attr->rate_limit == 0)
		beyond &= ~(uint64_t)IBV_EXP_QP_RATE_LIMIT;
	if (qp->type == SHCA_QPT_DCI)
		beyond &= ~(uint64_t)IBV_EXP_QP_DC_KEY;
	if (beyond)
		return shca_refuse(EOPNOTSUPP, "ibv_exp_modify_qp: attributes %#lx, of which a queue pair of type %u lacks %#lx",
				   (unsigned long)mask, qp->type, (unsigned long)beyond);
	exp_qp_attr_to(&a, attr);
	mask &= EXP_ORDINARY_MASK | IBV_EXP_QP_DC_KEY;
	/* A.1.7 wants none of a DC initiator, ordinary verbs do */
	if (qp->type == SHCA_QPT_DCI && (mask & IBV_EXP_QP_STATE) && a.qp_state == IBV_QPS_RTS &&
	    shca_qp_state(qp) == IBV_QPS_RTR && !(mask & IBV_EXP_QP_SQ_PSN)) {
		mask |= IBV_EXP_QP_SQ_PSN;
		a.sq_psn = 0;
	}
	err = (mask & EXP_ORDINARY_MASK) ? shca_modify_qp(ibqp, &a, (int)(mask & EXP_ORDINARY_MASK)) : 0;
	if (!err && (mask & IBV_EXP_QP_DC_KEY))
		qp->dv_dc_key = attr->dct_key;
	return err;
}

static int exp_query_qp(struct ibv_qp *ibqp, struct ibv_exp_qp_attr *attr, uint64_t mask, struct ibv_qp_init_attr *init)
{
	struct ibv_qp_attr a;
	int err = shca_query_qp(ibqp, &a, (int)(mask & EXP_ORDINARY_MASK), init);

	if (err)
		return err;
	exp_qp_attr_of(attr, &a);
	attr->dct_key = shca_user_qp_of(ibqp)->dv_dc_key;
	return 0;
}

/* ---- memory that the device allocates ---------------------------------------------------------------------------------- */

static struct ibv_mr *exp_reg_allocated(struct ibv_pd *pd, size_t length, unsigned int access)
{
	void *p = shca_buf_alloc(pd->context, length);

	if (!p)
		return NULL;
	struct ibv_mr *mr = shca_reg_mr(pd, p, length, (uintptr_t)p, access);
	if (!mr) {
		int err = errno;
		shca_buf_free(pd->context, p);
		errno = err;
		return NULL;
	}
	((struct shca_user_mr *)mr)->own = p;
	return mr;
}

/* ---- memory keys --------------------------------------------------------------------------------------------------------- */

static struct ibv_mr *exp_create_key(struct ibv_pd *pd, uint32_t entries)
{
	struct shca_user_mr *key = shca_mkey_alloc(pd, entries, false, "ibv_exp_create_mr");

	return key ? &key->mr : NULL;
}

static uint32_t exp_key_entries(const struct ibv_mr *mr)
{
	return ((const struct shca_user_mr *)mr)->entries;
}

const struct ibv_exp_provider shca_own_exp_provider = {
	.query_device = exp_query_device,
	.create_cq = exp_create_cq,
	.modify_cq = exp_modify_cq,
	.create_qp = exp_create_qp,
	.modify_qp = exp_modify_qp,
	.query_qp = exp_query_qp,
	.create_dct = shca_create_dct,
	.query_dct = shca_query_dct,
	.arm_dct = shca_arm_dct,
	.destroy_dct = shca_destroy_dct,
	.poll_cq = shca_exp_poll_cq,
	.reg_allocated = exp_reg_allocated,
	.create_key = exp_create_key,
	.key_entries = exp_key_entries,
	.post_send = shca_exp_post_send,
	.post_task = shca_exp_post_task,
	.refuse = shca_refuse,
};
