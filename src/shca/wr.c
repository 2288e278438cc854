/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The ibv_wr_* interface: requests are built in a private list between ibv_wr_start and ibv_wr_complete, and submitted
 * together; one bad call refuses the whole list (ibv_wr_post(3)).
 */
#include <errno.h>
#include <stdlib.h>

#include "shca/device.h"
#include "shca/post.h"

/* One request of the list; segments, then inline bytes, follow. Pointers are set at submission: the list may move. */
struct shca_build {
	struct shca_req req;
	uint64_t wr_id;
	bool has_data, has_dest;
};

static inline struct shca_lqp *lqp_of(struct ibv_qp_ex *ex)
{
	return (struct shca_lqp *)ex;
}

static inline size_t stride_of(const struct shca_lqp *q)
{
	return (sizeof(struct shca_build) + q->max_sge * sizeof(struct shca_seg) + q->max_inline + 15) & ~(size_t)15;
}

static inline struct shca_build *build_at(struct shca_lqp *q, uint32_t i)
{
	return (struct shca_build *)((char *)q->wr + i * stride_of(q));
}

static inline struct shca_seg *segs_of(struct shca_build *b)
{
	return (struct shca_seg *)(b + 1);
}

static inline char *inline_of(struct shca_lqp *q, struct shca_build *b)
{
	return (char *)(segs_of(b) + q->max_sge);
}

static void wr_start(struct ibv_qp_ex *ex)
{
	struct shca_lqp *q = lqp_of(ex);

	shca_lock(&q->lock);
	q->wr_n = 0;
	q->wr_err = 0;
}

static void wr_abort(struct ibv_qp_ex *ex)
{
	shca_unlock(&lqp_of(ex)->lock);
}

static int wr_complete(struct ibv_qp_ex *ex)
{
	struct shca_lqp *q = lqp_of(ex);
	struct shca_cpu *cpu = shca_cpu_get(q->m);
	int rc = q->wr_err;

	if (!cpu)
		rc = ENOMEM;
	/* all or nothing */
	if (!rc && q->wr_n > shca_send_room(q))
		rc = ENOMEM;
	if (!rc) {
		shca_enter(cpu);
		for (uint32_t i = 0; i < q->wr_n && !rc; i++) {
			struct shca_build *b = build_at(q, i);
			b->req.sge = segs_of(b);
			if (b->req.flags & SHCA_WQE_INLINE) {
				b->req.inl = inline_of(q, b);
				segs_of(b)[0].where = (uintptr_t)b->req.inl;
			}
			rc = shca_submit(cpu, q, b->wr_id, &b->req);
		}
		shca_leave(cpu);
	}
	shca_unlock(&q->lock);
	return rc;
}

static struct shca_build *new_request(struct ibv_qp_ex *ex, uint8_t op)
{
	struct shca_lqp *q = lqp_of(ex);

	if (q->wr_n == q->wr_cap) {
		uint32_t cap = q->wr_cap ? q->wr_cap * 2 : 4;
		void *wr = realloc(q->wr, cap * stride_of(q));
		if (!wr) {
			q->wr_err = ENOMEM;
			return NULL;
		}
		q->wr = wr;
		q->wr_cap = cap;
	}
	struct shca_build *b = build_at(q, q->wr_n++);
	memset(b, 0, sizeof(*b));
	b->wr_id = ex->wr_id;
	b->req.op = op;
	b->req.flags = (ex->wr_flags & IBV_SEND_SIGNALED ? SHCA_WQE_SIGNALED : 0) |
		       (ex->wr_flags & IBV_SEND_SOLICITED ? SHCA_WQE_SOLICITED : 0);
	return b;
}

static struct shca_build *current(struct shca_lqp *q)
{
	if (!q->wr_n && !q->wr_err)
		q->wr_err = EINVAL;	/* a setter without a request */
	return q->wr_err ? NULL : build_at(q, q->wr_n - 1);
}

static void wr_rdma(struct ibv_qp_ex *ex, uint8_t op, uint32_t rkey, uint64_t raddr, uint32_t imm)
{
	struct shca_build *b = new_request(ex, op);

	if (!b)
		return;
	b->req.rkey = rkey;
	b->req.raddr = raddr;
	b->req.imm = imm;
}

static void wr_rdma_write(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t raddr)
{
	wr_rdma(ex, SHCA_OP_WRITE, rkey, raddr, 0);
}

static void wr_rdma_write_imm(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t raddr, __be32 imm)
{
	wr_rdma(ex, SHCA_OP_WRITE_IMM, rkey, raddr, imm);
}

static void wr_rdma_read(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t raddr)
{
	wr_rdma(ex, SHCA_OP_READ, rkey, raddr, 0);
}

static void wr_send(struct ibv_qp_ex *ex)
{
	new_request(ex, SHCA_OP_SEND);
}

static void wr_send_imm(struct ibv_qp_ex *ex, __be32 imm)
{
	wr_rdma(ex, SHCA_OP_SEND_IMM, 0, 0, imm);
}

static void wr_send_inv(struct ibv_qp_ex *ex, uint32_t rkey)
{
	wr_rdma(ex, SHCA_OP_SEND_INV, 0, 0, rkey);
}

static void wr_atomic(struct ibv_qp_ex *ex, uint8_t op, uint32_t rkey, uint64_t raddr, uint64_t a, uint64_t b)
{
	struct shca_build *w = new_request(ex, op);

	if (!w)
		return;
	w->req.rkey = rkey;
	w->req.raddr = raddr;
	w->req.arg[0] = a;
	w->req.arg[1] = b;
}

static void wr_atomic_cmp_swp(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t raddr, uint64_t compare, uint64_t swap)
{
	wr_atomic(ex, SHCA_OP_CAS, rkey, raddr, compare, swap);
}

static void wr_atomic_fetch_add(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t raddr, uint64_t add)
{
	wr_atomic(ex, SHCA_OP_FAA, rkey, raddr, add, 0);
}

static void wr_set_sge_list(struct ibv_qp_ex *ex, size_t n, const struct ibv_sge *list)
{
	struct shca_lqp *q = lqp_of(ex);
	struct shca_build *b = current(q);

	if (!b)
		return;
	if (n > q->max_sge) {
		q->wr_err = EINVAL;
		return;
	}
	bool write = b->req.op >= SHCA_OP_READ && b->req.op <= SHCA_OP_MASKED_FAA;
	b->req.nsge = (uint8_t)n;
	b->req.bad = shca_resolve_list(q, list, (int)n, write, segs_of(b), &b->req.len);
}

static void wr_set_sge(struct ibv_qp_ex *ex, uint32_t lkey, uint64_t addr, uint32_t length)
{
	struct ibv_sge sge = {.addr = addr, .length = length, .lkey = lkey};

	wr_set_sge_list(ex, length ? 1 : 0, &sge);
}

static void wr_set_inline_data_list(struct ibv_qp_ex *ex, size_t n, const struct ibv_data_buf *list)
{
	struct shca_lqp *q = lqp_of(ex);
	struct shca_build *b = current(q);
	size_t total = 0;

	if (!b)
		return;
	for (size_t i = 0; i < n; i++) {
		if (list[i].length > q->max_inline - total) {
			q->wr_err = EINVAL;
			return;
		}
		memcpy(inline_of(q, b) + total, list[i].addr, list[i].length);
		total += list[i].length;
	}
	b->req.len = (uint32_t)total;
	b->req.flags |= SHCA_WQE_INLINE;
	b->req.nsge = 1;
	segs_of(b)[0] = (struct shca_seg){.len = (uint32_t)total, .lane = SHCA_LANE_CMA};
}

static void wr_set_inline_data(struct ibv_qp_ex *ex, void *addr, size_t length)
{
	struct ibv_data_buf buf = {.addr = addr, .length = length};

	wr_set_inline_data_list(ex, 1, &buf);
}

static void wr_set_ud_addr(struct ibv_qp_ex *ex, struct ibv_ah *ah, uint32_t qpn, uint32_t qkey)
{
	struct shca_lqp *q = lqp_of(ex);
	struct shca_build *b = current(q);

	if (!b)
		return;
	b->req.dqpn = shca_route((struct shca_lah *)ah, qpn);
	b->req.qkey = qkey;
	if (((struct shca_lah *)ah)->attr.is_global)
		b->req.flags |= SHCA_WQE_GRH;
}

static void wr_set_xrc_srqn(struct ibv_qp_ex *ex, uint32_t srqn)
{
	struct shca_build *b = current(lqp_of(ex));

	if (b)
		b->req.dqpn = srqn;
}

static void wr_set_dc_addr(struct mlx5dv_qp_ex *dv, struct ibv_ah *ah, uint32_t dctn, uint64_t key)
{
	struct shca_lqp *q = (struct shca_lqp *)((char *)dv - offsetof(struct shca_lqp, dv));
	struct shca_build *b = current(q);

	if (!b)
		return;
	b->req.dqpn = shca_route((struct shca_lah *)ah, dctn);
	b->req.arg[3] = key;
	if (((struct shca_lah *)ah)->attr.is_global)
		b->req.flags |= SHCA_WQE_GRH;
}

#define UD_OPS (IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM)
#define UC_OPS (UD_OPS | IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_SEND_WITH_INV)
#define RC_OPS (UC_OPS | IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD)

int shca_wr_ops(struct shca_lqp *q, uint64_t ops, uint64_t dv_flags)
{
	struct ibv_qp_ex *ex = &q->ex;
	uint64_t can = q->type == IBV_QPT_UD ? UD_OPS : q->type == IBV_QPT_UC ? UC_OPS :
		       q->type == IBV_QPT_RC || q->type == IBV_QPT_XRC_SEND || q->type == SHCA_QPT_DCI ? RC_OPS : 0;

	if ((ops & ~can) || dv_flags)
		return EOPNOTSUPP;
	ex->wr_start = wr_start;
	ex->wr_complete = wr_complete;
	ex->wr_abort = wr_abort;
	if (ops & IBV_QP_EX_WITH_SEND)
		ex->wr_send = wr_send;
	if (ops & IBV_QP_EX_WITH_SEND_WITH_IMM)
		ex->wr_send_imm = wr_send_imm;
	if (ops & IBV_QP_EX_WITH_SEND_WITH_INV)
		ex->wr_send_inv = wr_send_inv;
	if (ops & IBV_QP_EX_WITH_RDMA_WRITE)
		ex->wr_rdma_write = wr_rdma_write;
	if (ops & IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM)
		ex->wr_rdma_write_imm = wr_rdma_write_imm;
	if (ops & IBV_QP_EX_WITH_RDMA_READ)
		ex->wr_rdma_read = wr_rdma_read;
	if (ops & IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP)
		ex->wr_atomic_cmp_swp = wr_atomic_cmp_swp;
	if (ops & IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD)
		ex->wr_atomic_fetch_add = wr_atomic_fetch_add;
	ex->wr_set_sge = wr_set_sge;
	ex->wr_set_sge_list = wr_set_sge_list;
	ex->wr_set_inline_data = wr_set_inline_data;
	ex->wr_set_inline_data_list = wr_set_inline_data_list;
	if (q->type == IBV_QPT_UD)
		ex->wr_set_ud_addr = wr_set_ud_addr;
	if (q->type == IBV_QPT_XRC_SEND)
		ex->wr_set_xrc_srqn = wr_set_xrc_srqn;
	if (q->type == SHCA_QPT_DCI)
		q->dv.wr_set_dc_addr = wr_set_dc_addr;
	return 0;
}
