/* SPDX-License-Identifier: BSD-3-Clause */
/* The requester's queues, and every way in which a request can be posted to one. */
#include "access.h"

#define MAX_SGE 5
#define INLINE_MAX 128

static const uint64_t wr_sends = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;
static const uint64_t wr_writes = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM;
static const uint64_t wr_others = IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
				  IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;

static enum ibv_qp_type type_of(enum transport t)
{
	static const enum ibv_qp_type types[] = {IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_XRC_SEND, IBV_QPT_DRIVER, IBV_QPT_UD};
	return types[t];
}

void access_open(struct requester *r)
{
	struct ibv_td_init_attr ti = {0};
	struct ibv_parent_domain_init_attr pi = {0};
	struct ibv_ah_attr here = {.dlid = 1, .port_num = 1}, far = {.dlid = 9, .port_num = 1};

	memset(r, 0, sizeof(*r));
	r->t = vt_open();
	r->td = ibv_alloc_td(r->t.ctx, &ti);
	CHECK(r->td, "ibv_alloc_td");
	pi.pd = r->t.pd;
	pi.td = r->td;
	r->domain = ibv_alloc_parent_domain(r->t.ctx, &pi);
	CHECK(r->domain, "ibv_alloc_parent_domain");
	r->cq = vt_cq(&r->t, 64, NULL);
	r->ah = ibv_create_ah(r->t.pd, &here);
	r->nowhere = ibv_create_ah(r->t.pd, &far);
	CHECK(r->ah && r->nowhere, "ibv_create_ah");
}

void access_close(struct requester *r)
{
	for (int t = 0; t < TRANSPORTS; t++)
		for (int i = 0; i < 4; i++)
			if (r->queue[t][i & 1][i >> 1].qp)
				CHECK(!ibv_destroy_qp(r->queue[t][i & 1][i >> 1].qp), "ibv_destroy_qp");
	CHECK(!ibv_destroy_ah(r->ah) && !ibv_destroy_ah(r->nowhere) && !ibv_destroy_cq(r->cq), "destroy");
	CHECK(!ibv_dealloc_pd(r->domain) && !ibv_dealloc_td(r->td), "domains");
	vt_close(&r->t);
}

static struct ibv_qp *ordinary(struct requester *r, enum transport t, bool td, uint32_t *max_inline)
{
	struct ibv_qp_init_attr_ex a = {
		.send_cq = r->cq, .recv_cq = r->cq, .qp_type = type_of(t),
		.cap = {.max_send_wr = 8, .max_send_sge = MAX_SGE, .max_inline_data = INLINE_MAX},
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS, .pd = td ? r->domain : r->t.pd,
		.send_ops_flags = wr_sends | (t == UD ? 0 : wr_writes) | (t == UD || t == UC ? 0 : wr_others),
	};
	struct mlx5dv_qp_init_attr dv = {.comp_mask = MLX5DV_QP_INIT_ATTR_MASK_DC, .dc_init_attr.dc_type = MLX5DV_DCTYPE_DCI};
	struct ibv_qp *qp = t == DC ? mlx5dv_create_qp(r->t.ctx, &a, &dv) : ibv_create_qp_ex(r->t.ctx, &a);

	CHECK(qp, "creating a queue of transport %d", t);
	*max_inline = a.cap.max_inline_data;
	return qp;
}

static struct ibv_qp *cross_channel(struct requester *r, enum transport t, uint32_t *max_inline)
{
	struct ibv_exp_qp_init_attr a = {
		.send_cq = r->cq, .recv_cq = r->cq, .qp_type = type_of(t),
		.cap = {.max_send_wr = 8, .max_send_sge = MAX_SGE, .max_inline_data = INLINE_MAX},
		.comp_mask = IBV_EXP_QP_INIT_ATTR_PD | IBV_EXP_QP_INIT_ATTR_CREATE_FLAGS, .pd = r->t.pd,
		.exp_create_flags = IBV_EXP_QP_CREATE_CROSS_CHANNEL,
	};
	struct ibv_qp *qp = ibv_exp_create_qp(r->t.ctx, &a);

	CHECK(qp, "creating a cross-channel queue of transport %d", t);
	*max_inline = a.cap.max_inline_data;
	return qp;
}

bool access_possible(const struct way *w)
{
	const struct shape *s = w->shape;
	bool cross = w->mode == SHARED || w->mode == TASK;

	if (w->op > WRITE_IMM && (s->inl || w->transport == UC))
		return false;
	if ((BIT(w->op) & OPS_ATOMIC) && s->n > 1)
		return false;
	if (w->transport == UD && !(BIT(w->op) & OPS_SEND))
		return false;
	if (w->op >= MCAS && (w->transport != RC || w->api != EXP))
		return false;
	if (w->op >= MCAS && !cross && vt_mlx5())
		return false;		/* of an adapter on queues that ibv_exp_create_qp made */
	if (w->transport == DC && (w->api != WR || cross))
		return false;		/* a DC address is given by mlx5dv_wr_set_dc_addr only */
	if (cross && w->api == WR)
		return false;		/* cross-channel queues have no builder */
	if (w->mode == TASK && w->api != EXP)
		return false;
	/* receives of its own or of a shared queue: where there are both, and receives are taken */
	return !w->srq || (BIT(w->op) & OPS_TAKE && w->transport != XRC && w->transport != DC);
}

struct ibv_qp *access_queue(struct requester *r, const struct way *w, uint32_t *max_inline)
{
	bool td = w->mode == TD, cross = w->mode == SHARED || w->mode == TASK;
	struct ibv_qp **qp = &r->queue[w->transport][td][cross].qp;

	if (!*qp)
		*qp = cross ? cross_channel(r, w->transport, &r->queue[w->transport][td][cross].max_inline) :
			      ordinary(r, w->transport, td, &r->queue[w->transport][td][cross].max_inline);
	*max_inline = r->queue[w->transport][td][cross].max_inline;
	return *qp;
}

void access_connect(const struct way *w, struct ibv_qp *qp, enum ibv_qp_state to, uint32_t peer)
{
	struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET}, rtr = vt_rtr_attr(peer), rts = vt_rts_attr();
	struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = QKEY, .qp_access_flags = VT_ACCESS};
	int what = w->transport == UD ? IBV_QP_QKEY : w->transport == DC ? 0 : IBV_QP_ACCESS_FLAGS;

	rts.timeout = 1;
	rts.retry_cnt = 1;
	CHECK(!ibv_modify_qp(qp, &reset, IBV_QP_STATE), "RESET");
	if (to == IBV_QPS_RESET)
		return;
	CHECK(!ibv_modify_qp(qp, &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | what), "INIT");
	if (to == IBV_QPS_INIT)
		return;
	CHECK(!ibv_modify_qp(qp, &rtr, w->transport == DC ? IBV_QP_STATE | IBV_QP_PATH_MTU : vt_rtr_mask(qp)), "RTR");
	if (to == IBV_QPS_RTR)
		return;
	CHECK(!ibv_modify_qp(qp, &rts, w->transport == DC ? VT_RTS_RC : vt_rts_mask(qp)), "RTS");
	if (to != IBV_QPS_RTS)
		CHECK(!vt_to(qp, to), "state %d", to);
}

/* ---- ibv_post_send --------------------------------------------------------------------------------------------------- */

static int by_post_send(const struct way *w, struct ibv_qp *qp, const struct request *q, int n)
{
	static const enum ibv_wr_opcode codes[] = {
		[SEND] = IBV_WR_SEND, [SEND_IMM] = IBV_WR_SEND_WITH_IMM, [WRITE] = IBV_WR_RDMA_WRITE,
		[WRITE_IMM] = IBV_WR_RDMA_WRITE_WITH_IMM, [READ] = IBV_WR_RDMA_READ,
		[CAS] = IBV_WR_ATOMIC_CMP_AND_SWP, [FAA] = IBV_WR_ATOMIC_FETCH_AND_ADD,
	};
	struct ibv_send_wr wr[2], *bad;

	memset(wr, 0, sizeof(wr));
	for (int i = 0; i < n; i++) {
		wr[i].wr_id = q[i].id;
		wr[i].next = i + 1 < n ? &wr[i + 1] : NULL;
		wr[i].sg_list = (struct ibv_sge *)(uintptr_t)q[i].sge;
		wr[i].num_sge = q[i].n;
		wr[i].opcode = codes[w->op];
		wr[i].send_flags = (q[i].signaled ? IBV_SEND_SIGNALED : 0) | (q[i].inl ? IBV_SEND_INLINE : 0);
		if (w->op == SEND_IMM || w->op == WRITE_IMM)
			wr[i].imm_data = htobe32(77);
		if (w->transport == UD) {
			wr[i].wr.ud.ah = q[i].ah;
			wr[i].wr.ud.remote_qpn = q[i].qpn;
			wr[i].wr.ud.remote_qkey = q[i].qkey;
		} else if (BIT(w->op) & OPS_ATOMIC) {
			wr[i].wr.atomic.remote_addr = q[i].raddr;
			wr[i].wr.atomic.rkey = q[i].rkey;
			wr[i].wr.atomic.compare_add = q[i].operand[0];
			wr[i].wr.atomic.swap = q[i].operand[1];
		} else {
			wr[i].wr.rdma.remote_addr = q[i].raddr;
			wr[i].wr.rdma.rkey = q[i].rkey;
		}
		if (w->transport == XRC)
			wr[i].qp_type.xrc.remote_srqn = q[i].srqn;
	}
	return ibv_post_send(qp, wr, &bad);
}

/* ---- ibv_wr_* -------------------------------------------------------------------------------------------------------- */

static void build(const struct way *w, struct ibv_qp_ex *ex, const struct request *q)
{
	ex->wr_id = q->id;
	ex->wr_flags = q->signaled ? IBV_SEND_SIGNALED : 0;
	switch (w->op) {
	case SEND: ibv_wr_send(ex); break;
	case SEND_IMM: ibv_wr_send_imm(ex, htobe32(77)); break;
	case WRITE: ibv_wr_rdma_write(ex, q->rkey, q->raddr); break;
	case WRITE_IMM: ibv_wr_rdma_write_imm(ex, q->rkey, q->raddr, htobe32(77)); break;
	case READ: ibv_wr_rdma_read(ex, q->rkey, q->raddr); break;
	case CAS: ibv_wr_atomic_cmp_swp(ex, q->rkey, q->raddr, q->operand[0], q->operand[1]); break;
	default: ibv_wr_atomic_fetch_add(ex, q->rkey, q->raddr, q->operand[0]); break;
	}
	if (w->transport == UD)
		ibv_wr_set_ud_addr(ex, q->ah, q->qpn, q->qkey);
	if (w->transport == XRC)
		ibv_wr_set_xrc_srqn(ex, q->srqn);
	if (w->transport == DC)
		mlx5dv_wr_set_dc_addr(mlx5dv_qp_ex_from_ibv_qp_ex(ex), q->ah, q->qpn, q->dc_key);
	if (q->inl) {
		struct ibv_data_buf bufs[33];
		for (int i = 0; i < q->n; i++)
			bufs[i] = (struct ibv_data_buf){.addr = (void *)(uintptr_t)q->sge[i].addr, .length = q->sge[i].length};
		if (q->n == 1)
			ibv_wr_set_inline_data(ex, bufs[0].addr, bufs[0].length);
		else
			ibv_wr_set_inline_data_list(ex, (size_t)q->n, bufs);
	} else if (q->n == 1) {
		ibv_wr_set_sge(ex, q->sge[0].lkey, q->sge[0].addr, q->sge[0].length);
	} else {
		ibv_wr_set_sge_list(ex, (size_t)q->n, q->sge);
	}
}

static int by_builder(const struct way *w, struct ibv_qp *qp, const struct request *q, int n)
{
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(qp);

	ibv_wr_start(ex);
	for (int i = 0; i < n; i++)
		build(w, ex, &q[i]);
	return ibv_wr_complete(ex);
}

/* ---- ibv_exp_post_send, ibv_exp_post_task ---------------------------------------------------------------------------- */

static void fill_masked(const struct way *w, const struct request *q, struct ibv_exp_send_wr *wr)
{
	wr->exp_send_flags |= IBV_EXP_SEND_EXT_ATOMIC_INLINE;
	wr->ext_op.masked_atomics.log_arg_sz = 3;
	wr->ext_op.masked_atomics.remote_addr = q->raddr;
	wr->ext_op.masked_atomics.rkey = q->rkey;
	if (w->op == MCAS)
		wr->ext_op.masked_atomics.wr_data.inline_data.op.cmp_swap = (struct ibv_exp_cmp_swap){
			.compare_val = q->operand[0], .swap_val = q->operand[1], .compare_mask = q->operand[2],
			.swap_mask = q->operand[3]};
	else
		wr->ext_op.masked_atomics.wr_data.inline_data.op.fetch_add =
			(struct ibv_exp_fetch_add){.add_val = q->operand[0], .field_boundary = q->operand[1]};
}

static int by_exp(struct requester *r, const struct way *w, struct ibv_qp *qp, const struct request *q, int n)
{
	static const enum ibv_exp_wr_opcode codes[] = {
		[SEND] = IBV_EXP_WR_SEND, [SEND_IMM] = IBV_EXP_WR_SEND_WITH_IMM, [WRITE] = IBV_EXP_WR_RDMA_WRITE,
		[WRITE_IMM] = IBV_EXP_WR_RDMA_WRITE_WITH_IMM, [READ] = IBV_EXP_WR_RDMA_READ,
		[CAS] = IBV_EXP_WR_ATOMIC_CMP_AND_SWP, [FAA] = IBV_EXP_WR_ATOMIC_FETCH_AND_ADD,
		[MCAS] = IBV_EXP_WR_EXT_MASKED_ATOMIC_CMP_AND_SWP, [MFAA] = IBV_EXP_WR_EXT_MASKED_ATOMIC_FETCH_AND_ADD,
	};
	struct ibv_exp_send_wr wr[2], *bad;

	memset(wr, 0, sizeof(wr));
	for (int i = 0; i < n; i++) {
		wr[i].wr_id = q[i].id;
		wr[i].next = i + 1 < n ? &wr[i + 1] : NULL;
		wr[i].sg_list = (struct ibv_sge *)(uintptr_t)q[i].sge;
		wr[i].num_sge = q[i].n;
		wr[i].exp_opcode = codes[w->op];
		wr[i].exp_send_flags = (q[i].signaled ? IBV_EXP_SEND_SIGNALED : 0) | (q[i].inl ? IBV_EXP_SEND_INLINE : 0);
		if (w->op == SEND_IMM || w->op == WRITE_IMM)
			wr[i].ex.imm_data = htobe32(77);
		if (w->op >= MCAS) {
			fill_masked(w, &q[i], &wr[i]);
		} else if (w->transport == UD) {
			wr[i].wr.ud.ah = q[i].ah;
			wr[i].wr.ud.remote_qpn = q[i].qpn;
			wr[i].wr.ud.remote_qkey = q[i].qkey;
		} else if (BIT(w->op) & OPS_ATOMIC) {
			wr[i].wr.atomic.remote_addr = q[i].raddr;
			wr[i].wr.atomic.rkey = q[i].rkey;
			wr[i].wr.atomic.compare_add = q[i].operand[0];
			wr[i].wr.atomic.swap = q[i].operand[1];
		} else {
			wr[i].wr.rdma.remote_addr = q[i].raddr;
			wr[i].wr.rdma.rkey = q[i].rkey;
		}
		if (w->transport == XRC)
			wr[i].qp_type.xrc.remote_srqn = q[i].srqn;
	}
	if (w->mode != TASK)
		return ibv_exp_post_send(qp, wr, &bad);
	struct ibv_exp_task task = {.task_type = IBV_EXP_TASK_SEND, .item = {.qp = qp, .send_wr = wr}}, *bad_task;
	return ibv_exp_post_task(r->t.ctx, &task, &bad_task);
}

int access_post(struct requester *r, const struct way *w, struct ibv_qp *qp, const struct request *q, int n)
{
	return w->api == POST ? by_post_send(w, qp, q, n) : w->api == WR ? by_builder(w, qp, q, n) : by_exp(r, w, qp, q, n);
}
