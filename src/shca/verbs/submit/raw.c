/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Raw work requests of a ConnectX (mlx5dv_wr_raw_wqe), where SHCA_IDENTITY makes the device one: a WQE (verbs_exp/mlx5_wqe.h has
 * a picture) is decoded byte by byte into the experimental verbs' request of the same meaning. From there on the request is
 * posted by exp_post.c, with two differences: a WAIT or ENABLE has an absolute index, and the completion's opcode is
 * IBV_WC_DRIVER2.
 *
 * An adapter ignores reserved fields; here they must be zero, so that a program's mistake shows before the program meets an
 * adapter that reads them.
 */
#include <endian.h>
#include <errno.h>
#include <infiniband/mlx5dv.h>
#include <string.h>

#include "shca/verbs/control.h"
#include "shca/verbs/submit/post.h"
#include "verbs_exp/mlx5_wqe.h"

/* A WQE being read. The first error stays. */
struct reader {
	const uint8_t *wqe;
	uint32_t at, end;
	int err;
};

/* The decoded request. */
struct decoded {
	struct ibv_exp_send_wr wr;
	uint64_t index;			/* WAIT, ENABLE */
	struct ibv_sge sge[SHCA_RAW_MAX / 16];
	uint64_t operands[SHCA_RAW_MAX / 8];	/* of an atomic, in the host's order */
};

static void raw_refuse(struct reader *r, uint32_t at, uint64_t value, const char *why)
{
	if (!r->err)
		r->err = shca_refuse(EINVAL, "mlx5dv_wr_raw_wqe: offset %u: %#lx: %s", at, (unsigned long)value, why);
}

static uint32_t get32(struct reader *r)
{
	uint32_t v = 0;

	if (r->end - r->at < 4) {
		raw_refuse(r, r->at, r->end / 16, "DS counts fewer segments than the opcode needs");
		return 0;
	}
	memcpy(&v, r->wqe + r->at, 4);
	r->at += 4;
	return be32toh(v);
}

static uint64_t get64(struct reader *r)
{
	uint64_t high = get32(r);

	return high << 32 | get32(r);
}

static void reserved(struct reader *r, uint32_t words)
{
	for (; words; words--) {
		uint32_t at = r->at, v = get32(r);
		if (v)
			raw_refuse(r, at, v, "reserved, must be zero");
	}
}

/* ---- control segment ------------------------------------------------------------------------------------------------ */

static enum ibv_exp_wr_opcode raw_opcode_of(struct reader *r, uint8_t opcode)
{
	switch (opcode) {
	case MLX5_OPCODE_NOP: return IBV_EXP_WR_NOP;
	case MLX5_OPCODE_RDMA_WRITE: return IBV_EXP_WR_RDMA_WRITE;
	case MLX5_OPCODE_RDMA_WRITE_IMM: return IBV_EXP_WR_RDMA_WRITE_WITH_IMM;
	case MLX5_OPCODE_SEND: return IBV_EXP_WR_SEND;
	case MLX5_OPCODE_SEND_IMM: return IBV_EXP_WR_SEND_WITH_IMM;
	case MLX5_OPCODE_RDMA_READ: return IBV_EXP_WR_RDMA_READ;
	case MLX5_OPCODE_ATOMIC_CS: return IBV_EXP_WR_ATOMIC_CMP_AND_SWP;
	case MLX5_OPCODE_ATOMIC_FA: return IBV_EXP_WR_ATOMIC_FETCH_AND_ADD;
	case MLX5_OPCODE_ATOMIC_MASKED_CS: return IBV_EXP_WR_EXT_MASKED_ATOMIC_CMP_AND_SWP;
	case MLX5_OPCODE_ATOMIC_MASKED_FA: return IBV_EXP_WR_EXT_MASKED_ATOMIC_FETCH_AND_ADD;
	case EXP_MLX5_OPCODE_WAIT: return IBV_EXP_WR_CQE_WAIT;
	case EXP_MLX5_OPCODE_SEND_EN: return IBV_EXP_WR_SEND_ENABLE;
	case EXP_MLX5_OPCODE_RECV_EN: return IBV_EXP_WR_RECV_ENABLE;
	default:
		raw_refuse(r, 3, opcode, "the device lacks this opcode");
		return IBV_EXP_WR_NOP;
	}
}

static bool may_calc(enum ibv_exp_wr_opcode op)
{
	return op == IBV_EXP_WR_SEND || op == IBV_EXP_WR_SEND_WITH_IMM || op == IBV_EXP_WR_RDMA_WRITE ||
	       op == IBV_EXP_WR_RDMA_WRITE_WITH_IMM || op == IBV_EXP_WR_RDMA_READ;
}

static bool raw_is_masked(enum ibv_exp_wr_opcode op)
{
	return op == IBV_EXP_WR_EXT_MASKED_ATOMIC_CMP_AND_SWP || op == IBV_EXP_WR_EXT_MASKED_ATOMIC_FETCH_AND_ADD;
}

static void get_calc(struct reader *r, struct ibv_exp_send_wr *wr, uint8_t opmod)
{
	wr->exp_send_flags |= IBV_EXP_SEND_WITH_CALC;
	wr->op.calc.data_type = IBV_EXP_CALC_DATA_TYPE_UINT;
	wr->op.calc.data_size = IBV_EXP_CALC_DATA_SIZE_64_BIT;
	switch (opmod) {
	case EXP_MLX5_CALC_FLOAT64_ADD:
		wr->op.calc.data_type = IBV_EXP_CALC_DATA_TYPE_FLOAT;
		wr->op.calc.calc_op = IBV_EXP_CALC_OP_ADD;
		break;
	case EXP_MLX5_CALC_UINT64_ADD: wr->op.calc.calc_op = IBV_EXP_CALC_OP_ADD; break;
	case EXP_MLX5_CALC_UINT64_MAXLOC: wr->op.calc.calc_op = (enum ibv_exp_calc_op)SHCA_EXP_CALC_OP_MAXLOC; break;
	case EXP_MLX5_CALC_UINT64_AND: wr->op.calc.calc_op = IBV_EXP_CALC_OP_BAND; break;
	case EXP_MLX5_CALC_UINT64_OR: wr->op.calc.calc_op = IBV_EXP_CALC_OP_BOR; break;
	case EXP_MLX5_CALC_UINT64_XOR: wr->op.calc.calc_op = IBV_EXP_CALC_OP_BXOR; break;
	default: raw_refuse(r, 0, opmod, "no modifier of this opcode: CALC has 1 to 6");
	}
}

static void get_opmod(struct reader *r, struct ibv_exp_send_wr *wr, uint8_t opmod)
{
	uint32_t log = 2 + (opmod & 7u);

	if (raw_is_masked(wr->exp_opcode)) {
		if ((opmod & ~7u) != EXP_MLX5_OPMOD_EXT_ATOMIC || log > 8)
			raw_refuse(r, 0, opmod, "no modifier of a masked atomic: 8 plus log2 of its 4-byte units, 0 to 6");
		wr->ext_op.masked_atomics.log_arg_sz = log;
		wr->exp_send_flags |= IBV_EXP_SEND_EXT_ATOMIC_INLINE;
	} else if (opmod && may_calc(wr->exp_opcode)) {
		get_calc(r, wr, opmod);
	} else if (opmod) {
		raw_refuse(r, 0, opmod, "the device knows no modifier of this opcode");
	}
}

/* Leaves r at the end of the control segment, with the end of the WQE known. */
static void get_control(struct reader *r, const struct shca_user_qp *q, struct ibv_exp_send_wr *wr)
{
	const uint8_t *b = r->wqe;
	uint32_t word, qpn;

	r->end = 16;
	word = get32(r);		/* the WQE index, bytes 1 and 2, is the driver's and is ignored */
	wr->exp_opcode = raw_opcode_of(r, (uint8_t)word);
	get_opmod(r, wr, (uint8_t)(word >> 24));
	word = get32(r);
	qpn = word >> 8;
	if (qpn != q->sh->qpn)
		raw_refuse(r, 4, qpn, "not the number of this queue pair");
	if (b[7] & 0xc0)
		raw_refuse(r, 7, b[7], "bits 6 and 7 are reserved");
	if (!(b[7] & 0x3f))
		raw_refuse(r, 7, b[7], "DS of 0: DS counts the control segment, too");
	r->end = shca_raw_bytes(b);
	word = get32(r);
	if (word >> 24)
		raw_refuse(r, 8, word >> 24, "the signature, which is the driver's, must be zero");
	if (word >> 8 & 0xffff)
		raw_refuse(r, 9, word >> 8 & 0xffff, "reserved (or a DCI stream), must be zero");
	if (word & 0x11 || (word & 0x0c & ~MLX5_WQE_CTRL_CQ_UPDATE))
		raw_refuse(r, 11, word & 0xff, "fm_ce_se: completions are asked for by 0x08, solicited events by 0x02");
	if ((word & 0xe0) != 0 && (word & 0xe0) != MLX5_WQE_CTRL_FENCE && (word & 0xe0) != MLX5_WQE_CTRL_INITIATOR_SMALL_FENCE)
		raw_refuse(r, 11, word & 0xff, "fm_ce_se: the device lacks this fence mode");
	wr->exp_send_flags |= (word & MLX5_WQE_CTRL_CQ_UPDATE ? IBV_EXP_SEND_SIGNALED : 0) |
			      (word & MLX5_WQE_CTRL_SOLICITED ? IBV_EXP_SEND_SOLICITED : 0) |
			      (word & MLX5_WQE_CTRL_FENCE ? IBV_EXP_SEND_FENCE : 0);
	if (wr->exp_opcode != IBV_EXP_WR_SEND_WITH_IMM && wr->exp_opcode != IBV_EXP_WR_RDMA_WRITE_WITH_IMM) {
		reserved(r, 1);
		return;
	}
	memcpy(&wr->ex.imm_data, b + 12, 4);
	r->at += 4;
}

/* ---- WAIT, ENABLE --------------------------------------------------------------------------------------------------- */

/* The index of 64 bits that is nearest to `near` and ends with the 32 that a WQE has; one before the first means none. */
static uint64_t whole_index(uint64_t near, uint32_t low)
{
	int64_t away = (int32_t)(low - (uint32_t)near);

	return away < 0 && near < (uint64_t)-away ? 0 : near + (uint64_t)away;
}

static void get_wait_en(struct reader *r, struct shca_user_qp *q, struct decoded *d)
{
	struct ibv_exp_send_wr *wr = &d->wr;
	bool wait = wr->exp_opcode == IBV_EXP_WR_CQE_WAIT;

	reserved(r, 2);
	uint32_t index = get32(r), at = r->at, number = get32(r);
	if (r->err)
		return;
	const struct shca_tagged *t = number <= 0xffffff ? shca_local_get(q->m, number) : NULL;
	if (!t || t->kind != (wait ? SHCA_KIND_CQ : SHCA_KIND_QP) || !t->qp) {
		raw_refuse(r, at, number, wait ? "no completion queue of this process" : "no queue pair of this process");
		return;
	}
	if (wait) {
		wr->task.cqe_wait.cq = &t->cq->cq;
		wr->task.cqe_wait.cq_count = 1;
		d->index = whole_index(atomic_load(&t->cq->sh->tail), index);
		return;
	}
	wr->task.wqe_enable.qp = &t->qp->qp;
	wr->task.wqe_enable.wqe_count = 1;
	if (wr->exp_opcode == IBV_EXP_WR_RECV_ENABLE && !t->qp->rq) {
		raw_refuse(r, at, number, "this queue pair has no receive queue");
		return;
	}
	if (wr->exp_opcode == IBV_EXP_WR_SEND_ENABLE) {
		d->index = whole_index(__atomic_load_n(&t->qp->pi, __ATOMIC_RELAXED), index);
		return;
	}
	/* an adapter counts receives from 0, positions here begin at the ring's size */
	uint64_t first = t->qp->rq->size;
	d->index = first + whole_index(atomic_load(&t->qp->rq->sh->tail) - first, index);
}

/* ---- data ----------------------------------------------------------------------------------------------------------- */

static void get_address(struct reader *r, uint64_t *addr, uint32_t *rkey)
{
	*addr = get64(r);
	*rkey = get32(r);
	reserved(r, 1);
}

/* Reads one operand of a masked atomic. Returns the value of an operand of up to 8 bytes; of a longer one, the address of a
 * copy. */
static uint64_t get_operand(struct reader *r, uint64_t **keep, uint32_t size)
{
	if (size == 4)
		return get32(r);
	if (size == 8)
		return get64(r);
	uint64_t *to = *keep;
	for (uint32_t i = 0; i < size && !r->err; i += 8)
		*(*keep)++ = get64(r);
	return (uintptr_t)to;
}

static void get_masked(struct reader *r, struct decoded *d)
{
	struct ibv_exp_send_wr *wr = &d->wr;
	struct ibv_exp_cmp_swap *cs = &wr->ext_op.masked_atomics.wr_data.inline_data.op.cmp_swap;
	struct ibv_exp_fetch_add *fa = &wr->ext_op.masked_atomics.wr_data.inline_data.op.fetch_add;
	uint32_t size = 1u << wr->ext_op.masked_atomics.log_arg_sz;
	uint64_t *keep = d->operands;

	get_address(r, &wr->ext_op.masked_atomics.remote_addr, &wr->ext_op.masked_atomics.rkey);
	if (wr->exp_opcode == IBV_EXP_WR_EXT_MASKED_ATOMIC_CMP_AND_SWP) {
		cs->swap_val = get_operand(r, &keep, size);
		cs->compare_val = get_operand(r, &keep, size);
		cs->swap_mask = get_operand(r, &keep, size);
		cs->compare_mask = get_operand(r, &keep, size);
		return;
	}
	fa->add_val = get_operand(r, &keep, size);
	fa->field_boundary = get_operand(r, &keep, size);
	if (size == 4)
		reserved(r, 2);
}

static void get_atomic(struct reader *r, struct ibv_exp_send_wr *wr)
{
	get_address(r, &wr->wr.atomic.remote_addr, &wr->wr.atomic.rkey);
	if (wr->exp_opcode == IBV_EXP_WR_ATOMIC_CMP_AND_SWP) {
		wr->wr.atomic.swap = get64(r);
		wr->wr.atomic.compare_add = get64(r);
	} else {
		wr->wr.atomic.compare_add = get64(r);
		reserved(r, 2);
	}
}

/* Reads inline data: the rest of the WQE is one inline segment, of `bytes` bytes. */
static void get_inline(struct reader *r, struct decoded *d, uint32_t at, uint32_t bytes)
{
	if (d->wr.num_sge || d->wr.exp_opcode == IBV_EXP_WR_RDMA_READ || d->wr.exp_send_flags & IBV_EXP_SEND_WITH_CALC) {
		raw_refuse(r, at, bytes | MLX5_INLINE_SEG, "inline data beside other data, or of an opcode that takes none");
		return;
	}
	if (((at + 4 + bytes + 15) & ~15u) != r->end) {
		raw_refuse(r, at, bytes | MLX5_INLINE_SEG, "inline data is the last segment, and ends where the WQE does");
		return;
	}
	d->sge[0] = (struct ibv_sge){.addr = (uintptr_t)(r->wqe + r->at), .length = bytes};
	d->wr.num_sge = 1;
	d->wr.exp_send_flags |= IBV_EXP_SEND_INLINE;
	for (r->at += bytes; r->at < r->end; r->at++)
		if (r->wqe[r->at])
			raw_refuse(r, r->at, r->wqe[r->at], "padding of inline data, must be zero");
}

/* atomic: bytes of the atomic's result; 0: no atomic. */
static void get_data(struct reader *r, struct decoded *d, uint32_t atomic)
{
	d->wr.sg_list = d->sge;
	while (!r->err && r->at < r->end) {
		uint32_t at = r->at, bytes = get32(r);
		if (bytes & MLX5_INLINE_SEG && !atomic) {
			get_inline(r, d, at, bytes & ~MLX5_INLINE_SEG);
			return;
		}
		if (!bytes)
			raw_refuse(r, at, bytes, "a byte count of 0 means 2^31 to an adapter: leave the segment out");
		if (atomic && bytes != atomic)
			raw_refuse(r, at, bytes, "an atomic's result has the size of its operands");
		struct ibv_sge *s = &d->sge[d->wr.num_sge++];
		s->length = bytes;
		s->lkey = get32(r);
		s->addr = get64(r);
	}
	if (atomic && d->wr.num_sge != 1)
		raw_refuse(r, r->at, (uint64_t)d->wr.num_sge, "segments for the result of an atomic, which needs one");
}

static void get_body(struct reader *r, struct shca_user_qp *q, struct decoded *d)
{
	struct ibv_exp_send_wr *wr = &d->wr;
	uint32_t atomic = 0;

	switch (wr->exp_opcode) {
	case IBV_EXP_WR_NOP:
		break;
	case IBV_EXP_WR_CQE_WAIT:
	case IBV_EXP_WR_SEND_ENABLE:
	case IBV_EXP_WR_RECV_ENABLE:
		get_wait_en(r, q, d);
		break;
	default:
		if (q->type != IBV_QPT_RC && q->type != IBV_QPT_UC && q->type != IBV_QPT_XRC_SEND) {
			raw_refuse(r, 3, r->wqe[3],
				   "this device decodes no address vectors: of datagrams, WAIT, ENABLE and NOP only");
			return;
		}
		if (q->type == IBV_QPT_XRC_SEND) {
			uint32_t at = r->at;
			wr->qp_type.xrc.remote_srqn = get32(r);
			if (wr->qp_type.xrc.remote_srqn > 0xffffff)
				raw_refuse(r, at, wr->qp_type.xrc.remote_srqn,
					   "the number of a shared receive queue has 24 bits");
			reserved(r, 3);
		}
		if (raw_is_masked(wr->exp_opcode)) {
			atomic = 1u << wr->ext_op.masked_atomics.log_arg_sz;
			get_masked(r, d);
		} else if (wr->exp_opcode == IBV_EXP_WR_ATOMIC_CMP_AND_SWP || wr->exp_opcode == IBV_EXP_WR_ATOMIC_FETCH_AND_ADD) {
			atomic = 8;
			get_atomic(r, wr);
		} else if (wr->exp_opcode != IBV_EXP_WR_SEND && wr->exp_opcode != IBV_EXP_WR_SEND_WITH_IMM) {
			get_address(r, &wr->wr.rdma.remote_addr, &wr->wr.rdma.rkey);
		}
		get_data(r, d, atomic);
	}
	if (!r->err && r->at != r->end)
		raw_refuse(r, r->at, r->end / 16, "DS counts more segments than the opcode has");
}

/* 0 or EINVAL; d points into wqe. */
static int decode(struct shca_user_qp *q, const uint8_t *wqe, struct decoded *d)
{
	struct reader r = {.wqe = wqe};

	memset(&d->wr, 0, sizeof d->wr);
	get_control(&r, q, &d->wr);
	if (!r.err)
		get_body(&r, q, d);
	return r.err;
}

/* ---- posting -------------------------------------------------------------------------------------------------------- */

int shca_check_raw(struct shca_user_qp *q, const uint8_t *wqe)
{
	struct decoded d;
	int err = decode(q, wqe, &d);

	if (err)
		return err;
	err = shca_exp_check(q, &d.wr);
	return err ? shca_refuse(err, "mlx5dv_wr_raw_wqe: opcode %#x, DS %u, is sound, but not for this queue pair", wqe[3],
				 wqe[7]) : 0;
}

int shca_reserve_raw(struct shca_user_qp *q, const uint8_t *wqe, uint64_t ahead, bool list)
{
	struct decoded d;
	int err = decode(q, wqe, &d);

	return err ? err : shca_exp_reserve(q, &d.wr, ahead, list);
}

int shca_submit_raw(struct shca_thread *thr, struct shca_user_qp *q, uint64_t wr_id, const uint8_t *wqe)
{
	struct shca_seg segs[SHCA_EXP_SEGS];
	struct shca_send send;
	struct decoded d;
	int err = decode(q, wqe, &d);

	if (err)
		return err;
	send.wr_id = wr_id;
	shca_exp_fill(thr, q, &d.wr, &d.index, &send.req, segs);
	send.req.flags |= SHCA_WQE_RAW;
	return shca_submit(thr, q, &send);
}
