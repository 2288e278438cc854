/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Posting to an mlx5. Requests that ordinary verbs have are posted by ibv_post_send; WAIT, ENABLE, NOP, masked atomics and CALC
 * as raw work queue elements; requests that fill memory keys by mlx5dv_wr_mr_list and _interleaved. All functions run under
 * exp_mlx5_mutex.
 */
#include <errno.h>
#include <infiniband/mlx5dv.h>

#include "verbs_exp/convert.h"
#include "verbs_exp/mlx5.h"
#include "verbs_exp/mlx5_wqe.h"
#include "verbs_exp/provider.h"

static bool is_enable(const struct ibv_exp_send_wr *wr)
{
	return wr->exp_opcode == IBV_EXP_WR_SEND_ENABLE || wr->exp_opcode == IBV_EXP_WR_RECV_ENABLE;
}

static bool mlx5_post_is_cross(const struct ibv_exp_send_wr *wr)
{
	return wr->exp_opcode == IBV_EXP_WR_CQE_WAIT || is_enable(wr);
}

static bool mlx5_post_is_masked(const struct ibv_exp_send_wr *wr)
{
	return wr->exp_opcode == IBV_EXP_WR_EXT_MASKED_ATOMIC_CMP_AND_SWP ||
	       wr->exp_opcode == IBV_EXP_WR_EXT_MASKED_ATOMIC_FETCH_AND_ADD;
}

static bool mlx5_post_is_calc(const struct ibv_exp_send_wr *wr)
{
	return wr->exp_send_flags & IBV_EXP_SEND_WITH_CALC && !mlx5_post_is_cross(wr) && wr->exp_opcode != IBV_EXP_WR_NOP;
}

/* Returns true if ordinary verbs lack this request. */
static bool is_raw(const struct ibv_exp_send_wr *wr)
{
	return mlx5_post_is_cross(wr) || mlx5_post_is_masked(wr) || mlx5_post_is_calc(wr) || wr->exp_opcode == IBV_EXP_WR_NOP;
}

static bool mlx5_post_is_key(const struct ibv_exp_send_wr *wr)
{
	return wr->exp_opcode == IBV_EXP_WR_UMR_FILL || wr->exp_opcode == IBV_EXP_WR_UMR_INVALIDATE;
}

/* ---- counts of requests ---------------------------------------------------------------------------------------------- */

/* The object and counts of a WAIT or ENABLE. */
struct named {
	struct exp_mlx5_index *index;
	uint64_t count;			/* of the request; 0: all */
	uint64_t all;			/* ENABLE: requests posted, and to be posted by the same list */
	uint32_t object;
};

/* Returns 0 or an errno value. */
static int mlx5_post_name_of(const struct ibv_exp_send_wr *wr, struct named *n)
{
	if (wr->exp_opcode == IBV_EXP_WR_CQE_WAIT) {
		struct exp_mlx5_cq *cq = exp_mlx5_cq_of(wr->task.cqe_wait.cq);
		if (!cq)
			return errno;
		*n = (struct named){.index = &cq->waited, .count = (uint64_t)wr->task.cqe_wait.cq_count, .object = cq->number};
		return 0;
	}
	bool sends = wr->exp_opcode == IBV_EXP_WR_SEND_ENABLE;
	struct exp_mlx5_qp *q = exp_mlx5_qp_of(wr->task.wqe_enable.qp);
	if (!q || !(q->flags & (sends ? IBV_EXP_QP_CREATE_MANAGED_SEND : IBV_EXP_QP_CREATE_MANAGED_RECV)))
		return shca_refuse(EINVAL, "ENABLE of queue pair %#x, whose %s queue is not managed",
				   wr->task.wqe_enable.qp->qp_num, sends ? "send" : "receive");
	*n = (struct named){.index = sends ? &q->send : &q->recv, .count = (uint64_t)wr->task.wqe_enable.wqe_count,
			    .all = sends ? q->sent + q->to_send : q->received + q->to_receive, .object = q->qp->qp_num};
	return 0;
}

/* Number of the list being walked. A list is walked several times, in order; each walk counts indices from the list's
 * beginning. */
static uint64_t lists;

/* Result of counting a WAIT or ENABLE: its index, and the base for the requests behind. */
struct counted {
	struct named of;
	uint64_t index, base;
};

/* Returns 0 or an errno value. Must: called once per request of the list, in order. */
static int mlx5_post_count(const struct ibv_exp_send_wr *wr, struct counted *c)
{
	int err = mlx5_post_name_of(wr, &c->of);
	struct exp_mlx5_index *x = c->of.index;

	if (err)
		return err;
	if (x->list_number != lists) {
		x->list_number = lists;
		x->ahead_base = x->base;
		x->ahead_most = x->most;
	}
	c->index = c->of.count ? x->ahead_base + c->of.count : c->of.all;
	if (c->index > x->ahead_most)
		x->ahead_most = c->index;
	if (wr->exp_send_flags & IBV_EXP_SEND_WAIT_EN_LAST)
		x->ahead_base = x->ahead_most;
	c->base = x->ahead_base;
	return 0;
}

/* Notes a posted request. The base changes only when the list is done, since all walks count from the same base. */
static void note_posted(const struct counted *c)
{
	struct exp_mlx5_index *x = c->of.index;

	if (c->index > x->posted_most)
		x->posted_most = c->index;
	if (c->base > x->posted_base)
		x->posted_base = c->base;
}

/* Ends the list for the object of this request. */
static void mlx5_post_settle(const struct ibv_exp_send_wr *wr)
{
	struct named n;

	if (mlx5_post_name_of(wr, &n))
		return;
	n.index->base = n.index->posted_base;
	n.index->most = n.index->posted_most;
}

/* ---- refusals --------------------------------------------------------------------------------------------------------- */

static int check_cross(const struct exp_mlx5_qp *q, const struct ibv_exp_send_wr *wr)
{
	struct counted c;
	int err;

	if (!(q->flags & IBV_EXP_QP_CREATE_CROSS_CHANNEL))
		return shca_refuse(EINVAL, "WAIT or ENABLE on queue pair %#x, which is not cross-channel", q->qp->qp_num);
	err = mlx5_post_count(wr, &c);
	if (err)
		return err;
	/* an adapter would execute any bytes in the queue's memory */
	if (is_enable(wr) && c.index > c.of.all)
		return shca_refuse(EINVAL,
				   "ENABLE of %lu requests of queue pair %#x, of which %lu are posted: an mlx5 enables what is "
				   "posted only",
				   (unsigned long)c.index, c.of.object, (unsigned long)c.of.all);
	return 0;
}

/* Refuses, on a queue pair for results in network order, atomics whose results are in host order: no code here swaps them. */
static int check_order(const struct exp_mlx5_qp *q, const struct ibv_exp_send_wr *wr)
{
	const struct exp_mlx5_context *c = exp_mlx5_context_of(q->qp->context);
	const bool plain = wr->exp_opcode == IBV_EXP_WR_ATOMIC_CMP_AND_SWP || wr->exp_opcode == IBV_EXP_WR_ATOMIC_FETCH_AND_ADD;

	if (!(q->flags & IBV_EXP_QP_CREATE_ATOMIC_BE_REPLY))
		return 0;
	if (plain || (mlx5_post_is_masked(wr) && wr->ext_op.masked_atomics.log_arg_sz == 3 && (!c || c->caps.host_order)))
		return shca_refuse(EOPNOTSUPP,
				   "ibv_exp_post_send: opcode %#x on queue pair %#x, which is for results in network order "
				   "(IBV_EXP_QP_CREATE_ATOMIC_BE_REPLY): the adapter's results of 8 bytes are in host order",
				   wr->exp_opcode, q->qp->qp_num);
	return 0;
}

static int mlx5_post_check_masked(const struct exp_mlx5_qp *q, const struct ibv_exp_send_wr *wr)
{
	const struct exp_mlx5_context *c = exp_mlx5_context_of(q->qp->context);
	uint32_t log = wr->ext_op.masked_atomics.log_arg_sz, sizes = c ? c->caps.masked_sizes : 0;

	if (q->qp->qp_type != IBV_QPT_RC || !(wr->exp_send_flags & IBV_EXP_SEND_EXT_ATOMIC_INLINE) || log > 8 ||
	    !(sizes >> log & 1))
		return shca_refuse(EOPNOTSUPP,
				   "masked atomic of 2^%u bytes: the adapter has sizes %#x, on RC, with operands in the "
				   "request (IBV_EXP_SEND_EXT_ATOMIC_INLINE)",
				   log, sizes);
	if (1u << log > q->max_atomic)
		return shca_refuse(EINVAL, "masked atomic of 2^%u bytes; the queue pair was made for %u (max_atomic_arg)", log,
				   q->max_atomic);
	return 0;
}

static int mlx5_post_check_calc(const struct exp_mlx5_qp *q)
{
	const struct exp_mlx5_context *c = exp_mlx5_context_of(q->qp->context);

	if (!(q->flags & IBV_EXP_QP_CREATE_CROSS_CHANNEL))
		return shca_refuse(EINVAL, "CALC on queue pair %#x, which is not cross-channel", q->qp->qp_num);
	if (!c || !c->calc)
		return shca_refuse(EOPNOTSUPP,
				   "CALC: mlx5 has no capability bit for it; SHCA_EXP_CALC=yes assumes that the adapter has it");
	return 0;
}

static uint64_t mlx5_post_bytes_of(const struct ibv_exp_send_wr *wr)
{
	uint64_t n = 0;

	for (int i = 0; i < wr->num_sge; i++)
		n += wr->sg_list[i].length;
	return n;
}

/* Checks the request's length: a managed queue takes requests of one block. */
static int mlx5_post_check_length(const struct exp_mlx5_qp *q, const struct ibv_exp_send_wr *wr)
{
	struct exp_mlx5_place at = {.qpn = q->qp->qp_num, .type = q->qp->qp_type};
	uint8_t wqe[EXP_MLX5_WQE_MAX];
	int bytes;

	if (!is_raw(wr) && !(q->flags & IBV_EXP_QP_CREATE_MANAGED_SEND))
		return 0;
	bytes = exp_mlx5_encode(&at, wr, wqe);
	if (bytes < 0)
		return shca_refuse(-bytes,
				   "ibv_exp_post_send: opcode %#x on queue pair %#x, flags %#lx: no work queue element says it",
				   wr->exp_opcode, q->qp->qp_num, (unsigned long)wr->exp_send_flags);
	if (q->flags & IBV_EXP_QP_CREATE_MANAGED_SEND && !exp_mlx5_fits_managed(bytes))
		return shca_refuse(EOPNOTSUPP,
				   "ibv_exp_post_send: a request of %d bytes on queue pair %#x, which is managed: it has %d at "
				   "most there, for it is not known how an ENABLE counts longer ones",
				   bytes, q->qp->qp_num, EXP_MLX5_BLOCK);
	return 0;
}

/*
 * Checks the entries of a request that fills a key. libmlx5 narrows numbers without a check: the bytes of a list to 31 bits,
 * blocks and strides to 16.
 */
static int mlx5_post_check_entries(const __typeof__(((struct ibv_exp_send_wr *)0)->ext_op.umr) *u)
{
	uint64_t bytes = 0;

	if (u->umr_type == IBV_EXP_UMR_MR_LIST) {
		for (uint32_t i = 0; i < u->num_mrs; i++) {
			size_t length = u->mem_list.mem_reg_list[i].length;
			if (!length || length > INT32_MAX - bytes)
				return shca_refuse(
					EINVAL,
					"ibv_exp_post_send: region %u of a memory key: %zu bytes behind %lu: a key of regions of "
					"an mlx5 has up to %d bytes, and no region without",
					i, length, (unsigned long)bytes, INT32_MAX);
			bytes += length;
		}
		return 0;
	}
	if (!u->mem_list.rb.repeat_count[0] || u->mem_list.rb.repeat_count[0] > UINT32_MAX)
		return shca_refuse(EINVAL, "ibv_exp_post_send: blocks of a memory key repeat %zu times: an mlx5 has 1 to %u",
				   u->mem_list.rb.repeat_count[0], UINT32_MAX);
	for (uint32_t i = 0; i < u->num_mrs; i++) {
		const struct ibv_exp_mem_repeat_block *b = &u->mem_list.rb.mem_repeat_block_list[i];
		if (!b->byte_count[0] || b->byte_count[0] > b->stride[0] || b->stride[0] > UINT16_MAX)
			return shca_refuse(
				EOPNOTSUPP,
				"ibv_exp_post_send: block %u of a memory key: %zu bytes at a stride of %zu: an mlx5 has strides "
				"up to %u, and no block that overlaps the next",
				i, b->byte_count[0], b->stride[0], UINT16_MAX);
	}
	return 0;
}

static int mlx5_post_check_key(const struct ibv_qp *qp, const struct exp_mlx5_qp *q, const struct ibv_exp_send_wr *wr)
{
	const __typeof__(wr->ext_op.umr) *u = &wr->ext_op.umr;
	const struct exp_mlx5_key *key = exp_mlx5_key_of(u->modified_mr);

	if (!q || !q->klms)
		return shca_refuse(
			EOPNOTSUPP,
			"ibv_exp_post_send: opcode %#x on queue pair %#x, which was not made with IBV_EXP_QP_CREATE_UMR",
			wr->exp_opcode, qp->qp_num);
	if (!key || key->mr.context != qp->context)
		return shca_refuse(EINVAL, "ibv_exp_post_send: opcode %#x of %p, which is no memory key of this context",
				   wr->exp_opcode, (void *)u->modified_mr);
	if (wr->exp_opcode == IBV_EXP_WR_UMR_INVALIDATE)
		return 0;
	if (!exp_key_list_sound(qp->context, wr) || u->num_mrs > key->entries)
		return shca_refuse(
			EINVAL,
			"ibv_exp_post_send: memory key of type %u of %u regions: a list of up to %u regions of this context is "
			"needed, with one dimension of strides, in the request or in memory for as many",
			u->umr_type, u->num_mrs, key->entries);
	if (u->num_mrs + (u->umr_type == IBV_EXP_UMR_REPEAT) > q->klms)
		return shca_refuse(
			EINVAL,
			"ibv_exp_post_send: memory key of %u regions, queue pair %#x was made for %u (max_inl_send_klms)",
			u->num_mrs, qp->qp_num, q->klms - 1);
	if (u->base_addr)
		return shca_refuse(EOPNOTSUPP, "ibv_exp_post_send: memory key from address %#lx on: mlx5dv's keys begin at 0",
				   (unsigned long)u->base_addr);
	return mlx5_post_check_entries(u);
}

/* Makes all checks that the driver does not make. Returns 0 or an errno value. */
static int mlx5_post_check(const struct ibv_qp *qp, const struct exp_mlx5_qp *q, const struct ibv_exp_send_wr *wr)
{
	int err;

	if (mlx5_post_is_key(wr))
		return mlx5_post_check_key(qp, q, wr);
	if (!q)
		return is_raw(wr) ? shca_refuse(EOPNOTSUPP,
						"ibv_exp_post_send: opcode %#x on queue pair %#x, which was not made by "
						"ibv_exp_create_qp", wr->exp_opcode, qp->qp_num) : 0;
	if (mlx5_post_is_cross(wr))
		return check_cross(q, wr);
	if (wr->exp_opcode == IBV_EXP_WR_NOP)
		return 0;
	if (wr->exp_opcode == IBV_EXP_WR_BIND_MW || wr->exp_opcode == IBV_EXP_WR_LOCAL_INV ||
	    wr->exp_opcode == IBV_EXP_WR_SEND_WITH_INV)
		return q->flags & IBV_EXP_QP_CREATE_MANAGED_SEND ?
			       shca_refuse(EOPNOTSUPP,
					   "ibv_exp_post_send: opcode %#x on queue pair %#x, which is managed: its length is the "
					   "driver's to choose", wr->exp_opcode, qp->qp_num) : 0;
	if ((uint32_t)wr->num_sge > q->cap.max_send_sge)
		return shca_refuse(EINVAL, "ibv_exp_post_send: %d segments, queue pair %#x was made for %u", wr->num_sge,
				   qp->qp_num, q->cap.max_send_sge);
	if (wr->exp_send_flags & IBV_EXP_SEND_INLINE && mlx5_post_bytes_of(wr) > q->cap.max_inline_data)
		return shca_refuse(EINVAL, "ibv_exp_post_send: %lu bytes inline, queue pair %#x was made for %u",
				   (unsigned long)mlx5_post_bytes_of(wr), qp->qp_num, q->cap.max_inline_data);
	if (qp->qp_type == IBV_QPT_UD && !wr->wr.ud.ah)
		return shca_refuse(EINVAL, "ibv_exp_post_send: a datagram without address handle");
	err = check_order(q, wr);
	if (!err && mlx5_post_is_masked(wr))
		err = mlx5_post_check_masked(q, wr);
	else if (!err && mlx5_post_is_calc(wr))
		err = mlx5_post_check_calc(q);
	return err ? err : mlx5_post_check_length(q, wr);
}

/* ---- one request ---------------------------------------------------------------------------------------------------------- */

static enum ibv_exp_wc_opcode completes_as(const struct ibv_exp_send_wr *wr)
{
	switch (wr->exp_opcode) {
	case IBV_EXP_WR_RDMA_WRITE:
	case IBV_EXP_WR_RDMA_WRITE_WITH_IMM: return IBV_EXP_WC_RDMA_WRITE;
	case IBV_EXP_WR_RDMA_READ: return IBV_EXP_WC_RDMA_READ;
	case IBV_EXP_WR_SEND:
	case IBV_EXP_WR_SEND_WITH_IMM: return IBV_EXP_WC_SEND;
	case IBV_EXP_WR_EXT_MASKED_ATOMIC_CMP_AND_SWP: return IBV_EXP_WC_MASKED_COMP_SWAP;
	case IBV_EXP_WR_EXT_MASKED_ATOMIC_FETCH_AND_ADD: return IBV_EXP_WC_MASKED_FETCH_ADD;
	default: return (enum ibv_exp_wc_opcode)IBV_WC_DRIVER2;
	}
}

/* c: the index of a WAIT or ENABLE; else unused. */
static int post_raw(struct exp_mlx5_qp *q, const struct ibv_exp_send_wr *wr, const struct counted *c)
{
	struct exp_mlx5_place at = {.qpn = q->qp->qp_num, .type = q->qp->qp_type, .signal_all = q->signal_all};
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(q->qp);
	uint8_t wqe[EXP_MLX5_WQE_MAX];
	int rc;

	if (mlx5_post_is_cross(wr)) {
		at.object = c->of.object;
		at.index = (uint32_t)c->index;
	}
	rc = exp_mlx5_encode(&at, wr, wqe);
	if (rc < 0)
		return -rc;
	ibv_wr_start(ex);
	ex->wr_id = wr->wr_id;
	mlx5dv_wr_raw_wqe(mlx5dv_qp_ex_from_ibv_qp_ex(ex), wqe);
	rc = ibv_wr_complete(ex);
	if (rc)
		return rc;
	/* after the post: a request that found no room must not count */
	if (mlx5_post_is_cross(wr))
		note_posted(c);
	if (q->signal_all || wr->exp_send_flags & IBV_EXP_SEND_SIGNALED) {
		q->raw[q->raw_end++ & q->raw_mask] = (struct exp_mlx5_raw){wr->wr_id, completes_as(wr)};
		if (q->raw_end - q->raw_first > q->raw_mask + 1)
			q->raw_first++;
	}
	return 0;
}

static int post_key(struct exp_mlx5_qp *q, const struct ibv_exp_send_wr *wr)
{
	const __typeof__(wr->ext_op.umr) *u = &wr->ext_op.umr;
	struct mlx5dv_mkey *key = exp_mlx5_key_of(u->modified_mr)->dv;
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(q->qp);
	struct mlx5dv_qp_ex *dv = mlx5dv_qp_ex_from_ibv_qp_ex(ex);

	ibv_wr_start(ex);
	ex->wr_id = wr->wr_id;
	/* mlx5dv takes entries in the request only */
	ex->wr_flags =
		(unsigned int)(wr->exp_send_flags & (IBV_EXP_SEND_FENCE | IBV_EXP_SEND_SIGNALED | IBV_EXP_SEND_SOLICITED)) |
		IBV_SEND_INLINE;
	if (u->umr_type == IBV_EXP_UMR_MR_LIST) {
		struct ibv_sge sge[EXP_MLX5_KLMS_MAX];
		for (uint32_t i = 0; i < u->num_mrs; i++)
			sge[i] = (struct ibv_sge){.addr = u->mem_list.mem_reg_list[i].base_addr,
						  .length = (uint32_t)u->mem_list.mem_reg_list[i].length,
						  .lkey = u->mem_list.mem_reg_list[i].mr->lkey};
		mlx5dv_wr_mr_list(dv, key, (uint32_t)u->exp_access, (uint16_t)u->num_mrs, sge);
	} else {
		struct mlx5dv_mr_interleaved block[EXP_MLX5_KLMS_MAX];
		for (uint32_t i = 0; i < u->num_mrs; i++) {
			const struct ibv_exp_mem_repeat_block *b = &u->mem_list.rb.mem_repeat_block_list[i];
			block[i] = (struct mlx5dv_mr_interleaved){.addr = b->base_addr,
								  .bytes_count = (uint32_t)b->byte_count[0],
								  .bytes_skip = (uint32_t)(b->stride[0] - b->byte_count[0]),
								  .lkey = b->mr->lkey};
		}
		mlx5dv_wr_mr_interleaved(dv, key, (uint32_t)u->exp_access, (uint32_t)u->mem_list.rb.repeat_count[0],
					 (uint16_t)u->num_mrs, block);
	}
	return ibv_wr_complete(ex);
}

static enum ibv_wr_opcode plain_opcode(enum ibv_exp_wr_opcode opcode)
{
	switch (opcode) {
	case IBV_EXP_WR_SEND_WITH_INV: return IBV_WR_SEND_WITH_INV;
	case IBV_EXP_WR_UMR_INVALIDATE:
	case IBV_EXP_WR_LOCAL_INV: return IBV_WR_LOCAL_INV;
	case IBV_EXP_WR_BIND_MW: return IBV_WR_BIND_MW;
	default: return (enum ibv_wr_opcode)opcode;
	}
}

static int post_plain(struct ibv_qp *qp, const struct ibv_exp_send_wr *exp)
{
	struct ibv_send_wr wr = {
		.wr_id = exp->wr_id, .sg_list = exp->sg_list, .num_sge = exp->num_sge, .opcode = plain_opcode(exp->exp_opcode),
		.send_flags = (unsigned int)(exp->exp_send_flags & (IBV_EXP_SEND_FENCE | IBV_EXP_SEND_SIGNALED |
								    IBV_EXP_SEND_SOLICITED | IBV_EXP_SEND_INLINE)),
		.imm_data = exp->ex.imm_data, .qp_type.xrc.remote_srqn = exp->qp_type.xrc.remote_srqn,
	}, *bad;

	if (qp->qp_type == IBV_QPT_UD) {
		wr.wr.ud.ah = exp->wr.ud.ah;
		wr.wr.ud.remote_qpn = exp->wr.ud.remote_qpn;
		wr.wr.ud.remote_qkey = exp->wr.ud.remote_qkey;
	} else if (exp->exp_opcode == IBV_EXP_WR_ATOMIC_CMP_AND_SWP || exp->exp_opcode == IBV_EXP_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = exp->wr.atomic.remote_addr;
		wr.wr.atomic.compare_add = exp->wr.atomic.compare_add;
		wr.wr.atomic.swap = exp->wr.atomic.swap;
		wr.wr.atomic.rkey = exp->wr.atomic.rkey;
	} else if (exp->exp_opcode == IBV_EXP_WR_BIND_MW) {
		wr.bind_mw.mw = exp->bind_mw.mw;
		wr.bind_mw.rkey = exp->bind_mw.rkey;
		wr.bind_mw.bind_info = (struct ibv_mw_bind_info){
			.mr = exp->bind_mw.bind_info.mr,
			.addr = exp->bind_mw.bind_info.addr,
			.length = exp->bind_mw.bind_info.length,
			.mw_access_flags = (unsigned int)exp->bind_mw.bind_info.exp_mw_access_flags,
		};
	} else if (exp->exp_opcode == IBV_EXP_WR_UMR_INVALIDATE) {
		wr.invalidate_rkey = exp->ext_op.umr.modified_mr->rkey;
	} else {
		wr.wr.rdma.remote_addr = exp->wr.rdma.remote_addr;
		wr.wr.rdma.rkey = exp->wr.rdma.rkey;
	}
	return ibv_post_send(qp, &wr, &bad);
}

/* Posts a request that was checked. */
static int mlx5_post_post_one(struct ibv_qp *qp, struct exp_mlx5_qp *q, const struct ibv_exp_send_wr *wr, const struct counted *c)
{
	int rc = is_raw(wr) ? post_raw(q, wr, c) : wr->exp_opcode == IBV_EXP_WR_UMR_FILL ? post_key(q, wr) : post_plain(qp, wr);

	if (!rc && q)
		q->sent++;
	return rc;
}

int exp_mlx5_post_send(struct ibv_qp *qp, struct ibv_exp_send_wr *wr, struct ibv_exp_send_wr **bad_wr)
{
	struct counted c;
	int rc = 0;

	pthread_mutex_lock(&exp_mlx5_mutex);
	struct exp_mlx5_qp *q = exp_mlx5_qp_of(qp);
	for (; wr && !rc; wr = wr->next) {
		*bad_wr = wr;
		/* each request is a list by itself */
		lists++;
		rc = mlx5_post_check(qp, q, wr);
		lists++;
		if (!rc && mlx5_post_is_cross(wr))
			rc = mlx5_post_count(wr, &c);
		if (!rc)
			rc = mlx5_post_post_one(qp, q, wr, &c);
		if (!rc && mlx5_post_is_cross(wr))
			mlx5_post_settle(wr);
	}
	pthread_mutex_unlock(&exp_mlx5_mutex);
	return rc;
}

/* ---- receives ------------------------------------------------------------------------------------------------------ */

/* Must: the mutex is held. */
static int mlx5_post_post_receives(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct exp_mlx5_context *c = exp_mlx5_context_of(qp->context);
	struct exp_mlx5_qp *q = exp_mlx5_qp_of(qp);
	int rc = c && c->post_recv ? c->post_recv(qp, wr, bad) : ibv_post_recv(qp, wr, bad);

	if (q)
		for (const struct ibv_recv_wr *w = wr, *end = rc ? *bad : NULL; w != end; w = w->next)
			q->received++;
	return rc;
}

int exp_mlx5_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	pthread_mutex_lock(&exp_mlx5_mutex);
	int rc = mlx5_post_post_receives(qp, wr, bad);
	pthread_mutex_unlock(&exp_mlx5_mutex);
	return rc;
}

/* ---- task lists ---------------------------------------------------------------------------------------------------- */

static int mlx5_post_fits(const struct exp_mlx5_qp *q, const char *which, uint64_t n, uint32_t most)
{
	return n <= most ? 0 :
			   shca_refuse(ENOMEM,
				       "ibv_exp_post_task: %lu requests for the %s queue of queue pair %#x, which was made for "
				       "%u",
				       (unsigned long)n, which, q->qp->qp_num, most);
}

/* Adds the requests of a task to those to be posted. Returns 0 or an errno value. */
static int mlx5_post_count_task(const struct ibv_exp_task *task)
{
	struct exp_mlx5_qp *q = exp_mlx5_qp_of(task->item.qp);

	if (!q)
		return shca_refuse(EINVAL, "ibv_exp_post_task: queue pair %#x was not made by ibv_exp_create_qp",
				   task->item.qp->qp_num);
	if (task->task_type == IBV_EXP_TASK_SEND) {
		for (const struct ibv_exp_send_wr *wr = task->item.send_wr; wr; wr = wr->next)
			q->to_send++;
		return mlx5_post_fits(q, "send", q->to_send, q->cap.max_send_wr);
	}
	for (const struct ibv_recv_wr *wr = task->item.recv_wr; wr; wr = wr->next) {
		if ((uint32_t)wr->num_sge > q->cap.max_recv_sge)
			return shca_refuse(EINVAL, "ibv_exp_post_task: a receive of %d segments, queue pair %#x was made for %u",
					   wr->num_sge, q->qp->qp_num, q->cap.max_recv_sge);
		q->to_receive++;
	}
	return mlx5_post_fits(q, "receive", q->to_receive, q->cap.max_recv_wr);
}

static int check_task(const struct ibv_exp_task *task)
{
	const struct exp_mlx5_qp *q = exp_mlx5_qp_of(task->item.qp);
	int err = 0;

	if (task->task_type == IBV_EXP_TASK_SEND)
		for (const struct ibv_exp_send_wr *wr = task->item.send_wr; wr && !err; wr = wr->next)
			err = mlx5_post_check(task->item.qp, q, wr);
	return err;
}

/* Posts a task if its turn has come. Otherwise only counts its WAITs and ENABLEs. */
static int post_task(const struct ibv_exp_task *task, bool turn)
{
	struct exp_mlx5_qp *q = exp_mlx5_qp_of(task->item.qp);
	struct ibv_recv_wr *bad;
	struct counted c;
	int rc = 0;

	if (task->task_type == IBV_EXP_TASK_RECV) {
		uint64_t before = q->received;
		if (turn)
			rc = mlx5_post_post_receives(task->item.qp, task->item.recv_wr, &bad);
		q->to_receive -= q->received - before;
		return rc;
	}
	for (const struct ibv_exp_send_wr *wr = task->item.send_wr; wr && !rc; wr = wr->next) {
		if (mlx5_post_is_cross(wr))
			rc = mlx5_post_count(wr, &c);
		if (rc || !turn)
			continue;
		rc = mlx5_post_post_one(task->item.qp, q, wr, &c);
		q->to_send--;
	}
	return rc;
}

/*
 * An adapter executes the entries that an ENABLE names, written or not. So entries that can be enabled are written before any
 * request that could enable them runs: first receives, then managed queues, which wait, then the others.
 */
enum { RECEIVES, MANAGED, OTHERS, STEPS };
static int step_of(const struct ibv_exp_task *task)
{
	if (task->task_type == IBV_EXP_TASK_RECV)
		return RECEIVES;
	return exp_mlx5_qp_of(task->item.qp)->flags & IBV_EXP_QP_CREATE_MANAGED_SEND ? MANAGED : OTHERS;
}

int exp_mlx5_post_task(struct ibv_context *ctx, struct ibv_exp_task *task, struct ibv_exp_task **bad_task)
{
	int rc = 0;

	pthread_mutex_lock(&exp_mlx5_mutex);
	for (struct ibv_exp_task *t = task; t && !rc; t = t->next) {
		*bad_task = t;
		rc = mlx5_post_count_task(t);
	}
	lists++;
	for (struct ibv_exp_task *t = task; t && !rc; t = t->next) {
		*bad_task = t;
		rc = check_task(t);
	}
	bool posts = !rc;
	for (int step = RECEIVES; step < STEPS; step++) {
		lists++;
		for (struct ibv_exp_task *t = task; t && !rc; t = t->next) {
			*bad_task = t;
			rc = post_task(t, step_of(t) == step);
		}
	}
	for (const struct ibv_exp_task *t = task; t; t = t->next) {
		struct exp_mlx5_qp *q = exp_mlx5_qp_of(t->item.qp);
		if (q)
			q->to_send = q->to_receive = 0;
		if (!posts || t->task_type != IBV_EXP_TASK_SEND)
			continue;
		for (const struct ibv_exp_send_wr *wr = t->item.send_wr; wr; wr = wr->next)
			if (mlx5_post_is_cross(wr))
				mlx5_post_settle(wr);
	}
	pthread_mutex_unlock(&exp_mlx5_mutex);
	return rc;
}
