/* SPDX-License-Identifier: BSD-3-Clause */
/* Encodes a request of the experimental verbs into the bytes of an mlx5 WQE. A pure function; mlx5_wqe.h has the layouts. */
#include "verbs_exp/mlx5_wqe.h"

#include <endian.h>
#include <errno.h>
#include <infiniband/mlx5dv.h>
#include <string.h>

/* The part of the WQE that is written. */
struct out {
	uint8_t *at, *end;
	bool full;			/* no space: further bytes go to `nowhere` */
	uint8_t nowhere[EXP_MLX5_SEGMENT];
};

static void *mlx5_wqe_take(struct out *o, size_t bytes)
{
	uint8_t *p = o->at;

	if (o->full || (size_t)(o->end - p) < bytes) {
		o->full = true;
		return o->nowhere;
	}
	o->at += bytes;
	return memset(p, 0, bytes);
}

static void wqe_put32(void *to, uint32_t v)
{
	v = htobe32(v);
	memcpy(to, &v, 4);
}

static void wqe_put64(void *to, uint64_t v)
{
	v = htobe64(v);
	memcpy(to, &v, 8);
}

/* Returns -1 if the opcode is no request of an mlx5. */
static int mlx5_wqe_opcode_of(enum ibv_exp_wr_opcode op)
{
	switch (op) {
	case IBV_EXP_WR_RDMA_WRITE: return MLX5_OPCODE_RDMA_WRITE;
	case IBV_EXP_WR_RDMA_WRITE_WITH_IMM: return MLX5_OPCODE_RDMA_WRITE_IMM;
	case IBV_EXP_WR_SEND: return MLX5_OPCODE_SEND;
	case IBV_EXP_WR_SEND_WITH_IMM: return MLX5_OPCODE_SEND_IMM;
	case IBV_EXP_WR_RDMA_READ: return MLX5_OPCODE_RDMA_READ;
	case IBV_EXP_WR_ATOMIC_CMP_AND_SWP: return MLX5_OPCODE_ATOMIC_CS;
	case IBV_EXP_WR_ATOMIC_FETCH_AND_ADD: return MLX5_OPCODE_ATOMIC_FA;
	case IBV_EXP_WR_EXT_MASKED_ATOMIC_CMP_AND_SWP: return MLX5_OPCODE_ATOMIC_MASKED_CS;
	case IBV_EXP_WR_EXT_MASKED_ATOMIC_FETCH_AND_ADD: return MLX5_OPCODE_ATOMIC_MASKED_FA;
	case IBV_EXP_WR_SEND_ENABLE: return EXP_MLX5_OPCODE_SEND_EN;
	case IBV_EXP_WR_RECV_ENABLE: return EXP_MLX5_OPCODE_RECV_EN;
	case IBV_EXP_WR_CQE_WAIT: return EXP_MLX5_OPCODE_WAIT;
	case IBV_EXP_WR_NOP: return MLX5_OPCODE_NOP;
	default: return -1;
	}
}

static bool is_enable_or_wait(int opcode)
{
	return opcode == EXP_MLX5_OPCODE_WAIT || opcode == EXP_MLX5_OPCODE_SEND_EN || opcode == EXP_MLX5_OPCODE_RECV_EN;
}

static bool has_immediate(int opcode)
{
	return opcode == MLX5_OPCODE_SEND_IMM || opcode == MLX5_OPCODE_RDMA_WRITE_IMM;
}

/* Returns 0 if operation and type have no encoding. */
static uint8_t calc_opmod(const struct ibv_exp_send_wr *wr)
{
	if (wr->op.calc.data_size != IBV_EXP_CALC_DATA_SIZE_64_BIT || wr->op.calc.data_type >= IBV_EXP_CALC_DATA_TYPE_NUMBER ||
	    wr->exp_send_flags & (SHCA_EXP_SEND_CALC_VECTOR | SHCA_EXP_SEND_CALC_HOST_ORDER | IBV_EXP_SEND_INLINE))
		return 0;
	switch (wr->op.calc.calc_op) {
	case IBV_EXP_CALC_OP_ADD:
		return wr->op.calc.data_type == IBV_EXP_CALC_DATA_TYPE_FLOAT ? EXP_MLX5_CALC_FLOAT64_ADD :
									       EXP_MLX5_CALC_UINT64_ADD;
	case IBV_EXP_CALC_OP_BAND: return EXP_MLX5_CALC_UINT64_AND;
	case IBV_EXP_CALC_OP_BOR: return EXP_MLX5_CALC_UINT64_OR;
	case IBV_EXP_CALC_OP_BXOR: return EXP_MLX5_CALC_UINT64_XOR;
	case IBV_EXP_CALC_OP_MAXLOC:
		return wr->op.calc.data_type == IBV_EXP_CALC_DATA_TYPE_UINT ? EXP_MLX5_CALC_UINT64_MAXLOC : 0;
	default: return 0;
	}
}

/* Writes one operand of a masked atomic: the value, or, above 8 bytes, the 8-byte words at that address. */
static void put_operand(struct out *o, uint64_t operand, uint32_t size)
{
	if (size == 4) {
		wqe_put32(mlx5_wqe_take(o, 4), (uint32_t)operand);
		return;
	}
	if (size == 8) {
		wqe_put64(mlx5_wqe_take(o, 8), operand);
		return;
	}
	for (uint32_t i = 0; i < size; i += 8) {
		uint64_t word;
		memcpy(&word, (const char *)(uintptr_t)operand + i, 8);
		wqe_put64(mlx5_wqe_take(o, 8), word);
	}
}

static void put_masked(struct out *o, const struct ibv_exp_send_wr *wr, int opcode)
{
	const struct ibv_exp_cmp_swap *cs = &wr->ext_op.masked_atomics.wr_data.inline_data.op.cmp_swap;
	const struct ibv_exp_fetch_add *fa = &wr->ext_op.masked_atomics.wr_data.inline_data.op.fetch_add;
	uint32_t size = 1u << wr->ext_op.masked_atomics.log_arg_sz;

	if (opcode == MLX5_OPCODE_ATOMIC_MASKED_CS) {
		put_operand(o, cs->swap_val, size);
		put_operand(o, cs->compare_val, size);
		put_operand(o, cs->swap_mask, size);
		put_operand(o, cs->compare_mask, size);
		return;
	}
	put_operand(o, fa->add_val, size);
	put_operand(o, fa->field_boundary, size);
	if (size == 4)
		mlx5_wqe_take(o, 8);
}

static void put_address(struct out *o, uint64_t addr, uint32_t rkey)
{
	uint8_t *seg = mlx5_wqe_take(o, sizeof(struct mlx5_wqe_raddr_seg));

	wqe_put64(seg, addr);
	wqe_put32(seg + 8, rkey);
}

/* most: limit of bytes per segment; UINT32_MAX: none. Empty entries are left out: a length of 0 means 2^31. */
static void put_data(struct out *o, const struct ibv_exp_send_wr *wr, uint32_t most)
{
	for (int i = 0; i < wr->num_sge; i++) {
		uint32_t len = wr->sg_list[i].length < most ? wr->sg_list[i].length : most;
		if (!len)
			continue;
		uint8_t *seg = mlx5_wqe_take(o, sizeof(struct mlx5_wqe_data_seg));
		wqe_put32(seg, len);
		wqe_put32(seg + 4, wr->sg_list[i].lkey);
		wqe_put64(seg + 8, wr->sg_list[i].addr);
	}
}

static void put_inline(struct out *o, const struct ibv_exp_send_wr *wr)
{
	uint64_t len = 0;

	for (int i = 0; i < wr->num_sge; i++)
		len += wr->sg_list[i].length;
	if (!len)
		return;
	if (len > EXP_MLX5_WQE_MAX) {
		o->full = true;
		return;
	}
	size_t bytes = (4 + len + EXP_MLX5_SEGMENT - 1) & ~(size_t)(EXP_MLX5_SEGMENT - 1);
	uint8_t *seg = mlx5_wqe_take(o, bytes);
	if (o->full)
		return;
	wqe_put32(seg, (uint32_t)len | MLX5_INLINE_SEG);
	seg += 4;
	for (int i = 0; i < wr->num_sge; i++) {
		if (wr->sg_list[i].length)
			memcpy(seg, (const void *)(uintptr_t)wr->sg_list[i].addr, wr->sg_list[i].length);
		seg += wr->sg_list[i].length;
	}
}

/* Writes the segments behind the control segment, and sets *opmod. Returns 0 or a negative errno. */
static int put_body(struct out *o, const struct exp_mlx5_place *at, const struct ibv_exp_send_wr *wr, int opcode, uint8_t *opmod)
{
	if (opcode == MLX5_OPCODE_NOP)
		return 0;
	if (is_enable_or_wait(opcode)) {
		uint8_t *seg = mlx5_wqe_take(o, EXP_MLX5_SEGMENT);
		wqe_put32(seg + 8, at->index);
		wqe_put32(seg + 12, at->object);
		return 0;
	}
	if (at->type != IBV_QPT_RC && at->type != IBV_QPT_UC && at->type != IBV_QPT_XRC_SEND)
		return -EOPNOTSUPP;
	if (at->type == IBV_QPT_XRC_SEND)
		wqe_put32(mlx5_wqe_take(o, EXP_MLX5_SEGMENT), wr->qp_type.xrc.remote_srqn);
	if (wr->exp_send_flags & IBV_EXP_SEND_WITH_CALC) {
		*opmod = calc_opmod(wr);
		if (!*opmod)
			return -EOPNOTSUPP;
	}
	switch (opcode) {
	case MLX5_OPCODE_SEND:
	case MLX5_OPCODE_SEND_IMM:
		break;
	case MLX5_OPCODE_ATOMIC_CS:
	case MLX5_OPCODE_ATOMIC_FA: {
		put_address(o, wr->wr.atomic.remote_addr, wr->wr.atomic.rkey);
		bool cs = opcode == MLX5_OPCODE_ATOMIC_CS;
		uint8_t *seg = mlx5_wqe_take(o, sizeof(struct mlx5_wqe_atomic_seg));
		wqe_put64(seg, cs ? wr->wr.atomic.swap : wr->wr.atomic.compare_add);
		wqe_put64(seg + 8, cs ? wr->wr.atomic.compare_add : 0);
		put_data(o, wr, 8);
		return 0;
	}
	case MLX5_OPCODE_ATOMIC_MASKED_CS:
	case MLX5_OPCODE_ATOMIC_MASKED_FA: {
		uint32_t log = wr->ext_op.masked_atomics.log_arg_sz;
		if (log < 2 || log > 8)
			return -EINVAL;
		/* operands in memory have no publicly documented encoding */
		if (!(wr->exp_send_flags & IBV_EXP_SEND_EXT_ATOMIC_INLINE))
			return -EOPNOTSUPP;
		*opmod = (uint8_t)(EXP_MLX5_OPMOD_EXT_ATOMIC | (log - 2));
		put_address(o, wr->ext_op.masked_atomics.remote_addr, wr->ext_op.masked_atomics.rkey);
		put_masked(o, wr, opcode);
		put_data(o, wr, 1u << log);
		return 0;
	}
	default:
		put_address(o, wr->wr.rdma.remote_addr, wr->wr.rdma.rkey);
		break;
	}
	if (wr->exp_send_flags & IBV_EXP_SEND_INLINE && opcode != MLX5_OPCODE_RDMA_READ)
		put_inline(o, wr);
	else
		put_data(o, wr, UINT32_MAX);
	return 0;
}

int exp_mlx5_encode(const struct exp_mlx5_place *at, const struct ibv_exp_send_wr *wr, uint8_t wqe[EXP_MLX5_WQE_MAX])
{
	struct out o = {.at = wqe, .end = wqe + EXP_MLX5_WQE_MAX};
	int opcode = mlx5_wqe_opcode_of(wr->exp_opcode), err;
	uint8_t opmod = 0;

	if (opcode < 0)
		return -EOPNOTSUPP;
	uint8_t *ctrl = mlx5_wqe_take(&o, sizeof(struct mlx5_wqe_ctrl_seg));
	err = put_body(&o, at, wr, opcode, &opmod);
	if (err)
		return err;
	if (o.full)
		return -EINVAL;
	int bytes = (int)(o.at - wqe);
	wqe_put32(ctrl, (uint32_t)opmod << 24 | (uint32_t)opcode);
	wqe_put32(ctrl + 4, at->qpn << 8 | (uint32_t)bytes / EXP_MLX5_SEGMENT);
	ctrl[11] = (uint8_t)((at->signal_all || wr->exp_send_flags & IBV_EXP_SEND_SIGNALED ? MLX5_WQE_CTRL_CQ_UPDATE : 0) |
			     (wr->exp_send_flags & IBV_EXP_SEND_SOLICITED ? MLX5_WQE_CTRL_SOLICITED : 0) |
			     (wr->exp_send_flags & IBV_EXP_SEND_FENCE ? MLX5_WQE_CTRL_FENCE : 0));
	if (has_immediate(opcode))
		memcpy(ctrl + 12, &wr->ex.imm_data, 4);	/* big-endian already */
	return bytes;
}
