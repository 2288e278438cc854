/* SPDX-License-Identifier: BSD-3-Clause */
/* The victim of single_step: every verbs call, with the objects that the call needs. */
#include <errno.h>
#include <fcntl.h>
#include <infiniband/mlx5dv.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <unistd.h>

#include "shca/verbs/device.h"
#include "single_step.h"

static struct {
	struct rig r;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq, *armed, *wcq;
	struct ibv_qp *rc, *ud, *xrc, *dci, *cross, *managed, *own, *frames[2];
	struct ibv_flow *flow;
	struct ibv_srq *srq;
	struct ibv_ah *ah;
	struct ibv_pd *pd;
	struct ibv_mr *mr[2], *mr2;
	struct ibv_xrcd *xrcd;
	char *mem[2], *buf;
} v;

static void ok(int err)
{
	if (err)
		FAIL("a call of the victim's fails: %s", strerror(err));
}

static struct ibv_qp *queue(enum ibv_qp_type type, uint32_t flags)
{
	struct rig_qp_attr a = {
		.type = type, .exp_flags = flags, .scq = v.cq, .rcq = v.cq, .send_wr = 16, .recv_wr = 16, .sge = 2, .inl = 64};
	return rig_qp(&v.r, &a);
}

static void join(void)
{
	const unsigned access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
				IBV_ACCESS_REMOTE_ATOMIC;
	struct ibv_ah_attr attr = {.dlid = SHCA_LID, .port_num = 1};

	rig_join(&v.r, st->fabric);
	v.cq = rig_cq(&v.r, 64, NULL);
	v.wcq = rig_cq(&v.r, 64, NULL);
	v.mem[ARENA] = shca_buf_alloc(v.r.ctx, BIG);
	v.mem[PRIVATE] = aligned_alloc(4096, BIG);
	v.ah = shca_create_ah(v.r.pd, &attr);
	CHECK(v.mem[0] && v.mem[1] && v.ah);
	for (int i = 0; i < 2; i++) {
		v.mr[i] = shca_reg_mr(v.r.pd, v.mem[i], BIG, (uintptr_t)v.mem[i], access);
		CHECK(v.mr[i]);
		message_fill(v.mem[i], LEN, FROM_V);
	}
	v.rc = queue(IBV_QPT_RC, 0);
	rig_init(v.rc);
	v.ud = queue(IBV_QPT_UD, 0);
	rig_init(v.ud);
	connect_queue(v.ud, 0);
	st->v_b = v.rc->qp_num;
	v.xrc = xrc_queue(&v.r, v.cq, NULL);
	st->v_x = v.xrc->qp_num;
	atomic_store(&st->v_made, 1);
	connect_queue(v.rc, st->b_v);
	connect_queue(v.xrc, st->b_vx);
	rig_await(&st->connected, 1);
}

static void receives(struct ibv_qp *qp, unsigned n)
{
	struct ibv_sge sge = {(uintptr_t)v.mem[0], 64, v.mr[0]->lkey};
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;

	for (unsigned i = 0; i < n; i++)
		ok(shca_post_recv(qp, &wr, &bad));
}

/* A queue to itself, in RTS, with receives. */
static struct ibv_qp *to_itself(enum ibv_qp_type type, uint32_t flags)
{
	struct ibv_qp *qp = queue(type, flags);

	rig_init(qp);
	connect_queue(qp, qp->qp_num);
	receives(qp, 4);
	return qp;
}

/* ---- life ------------------------------------------------------------------------------------------------------------ */

static void call_join(const struct call *c)
{
	(void)c;
	rig_join(&v.r, st->fabric);
}

static void call_close(const struct call *c)
{
	(void)c;
	ok(shca_close_device(v.r.ctx));
}

static void call_pd(const struct call *c)
{
	(void)c;
	v.pd = shca_alloc_pd(v.r.ctx);
	CHECK(v.pd);
	ok(shca_dealloc_pd(v.pd));
}

static void call_channel(const struct call *c)
{
	(void)c;
	v.channel = shca_create_comp_channel(v.r.ctx);
	CHECK(v.channel);
	ok(shca_destroy_comp_channel(v.channel));
}

static void call_cq(const struct call *c)
{
	struct ibv_cq *cq = rig_cq(&v.r, c->arg, NULL);

	ok(shca_destroy_cq(cq));
}

static void make_srq(const struct call *c)
{
	struct ibv_srq_init_attr a = {.attr = {.max_wr = 64, .max_sge = 1}};

	(void)c;
	v.srq = shca_create_srq(v.r.pd, &a);
	CHECK(v.srq);
}

static void call_srq(const struct call *c)
{
	make_srq(c);
	ok(shca_destroy_srq(v.srq));
}

static void call_modify_srq(const struct call *c)
{
	struct ibv_srq_attr a = {.srq_limit = 2};

	(void)c;
	ok(shca_modify_srq(v.srq, &a, IBV_SRQ_LIMIT));
}

static void call_post_srq(const struct call *c)
{
	struct ibv_sge sge = {(uintptr_t)v.mem[0], 64, v.mr[0]->lkey};
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;

	(void)c;
	ok(shca_post_srq_recv(v.srq, &wr, &bad));
}

/* An SRQ with receives, two of which have their message. */
static void ready_resize(const struct call *c)
{
	make_srq(c);
	for (unsigned i = 0; i < 8; i++)
		call_post_srq(c);
	struct rig_qp_attr a = {.type = IBV_QPT_RC, .scq = v.cq, .rcq = v.cq, .srq = v.srq, .send_wr = 4, .sge = 1, .inl = 64};
	struct ibv_sge sge = {(uintptr_t)v.mem[0], 8, v.mr[0]->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND}, *bad;
	v.own = rig_qp(&v.r, &a);
	rig_init(v.own);
	connect_queue(v.own, v.own->qp_num);
	for (unsigned i = 0; i < 2; i++)
		ok(shca_post_send(v.own, &wr, &bad));
}

static void call_resize_srq(const struct call *c)
{
	struct ibv_srq_attr a = {.max_wr = (uint32_t)c->arg, .srq_limit = (uint32_t)c->arg2};

	ok(shca_modify_srq(v.srq, &a, IBV_SRQ_MAX_WR | (c->arg2 ? IBV_SRQ_LIMIT : 0)));
}

static void call_ah(const struct call *c)
{
	struct ibv_ah_attr attr = {.dlid = SHCA_LID, .port_num = 1};
	struct ibv_ah *ah = shca_create_ah(v.r.pd, &attr);

	(void)c;
	CHECK(ah);
	ok(shca_destroy_ah(ah));
}

static void call_xrcd(const struct call *c)
{
	(void)c;
	ok(shca_close_xrcd(xrc_domain(&v.r)));
}

/* ---- memory ---------------------------------------------------------------------------------------------------------- */

static void call_buf(const struct call *c)
{
	v.buf = shca_buf_alloc(v.r.ctx, (size_t)c->arg);
	CHECK(v.buf);
	ok(shca_buf_free(v.r.ctx, v.buf));
}

static void call_reg(const struct call *c)
{
	v.mr2 = shca_reg_mr(v.r.pd, v.mem[c->arg], 4096, 0, IBV_ACCESS_LOCAL_WRITE);
	CHECK(v.mr2);
}

static void call_dereg(const struct call *c)
{
	(void)c;
	ok(shca_dereg_mr(v.mr2));
}

/* ---- queues ---------------------------------------------------------------------------------------------------------- */

enum { DCI = 100, DCT };

static void call_create(const struct call *c)
{
	switch (c->arg) {
	case DCI: v.own = dc_queue(&v.r, v.cq, NULL); break;
	case DCT: v.own = dc_queue(&v.r, v.cq, v.srq); break;
	case IBV_QPT_XRC_SEND: v.own = xrc_queue(&v.r, v.cq, NULL); break;
	case IBV_QPT_XRC_RECV: v.own = xrc_queue(&v.r, NULL, v.xrcd); break;
	default: v.own = queue((enum ibv_qp_type)c->arg, (uint32_t)c->arg2); break;
	}
}

static void ready_create(const struct call *c)
{
	if (c->arg == DCT)
		make_srq(c);
	v.xrcd = c->arg == IBV_QPT_XRC_RECV ? xrc_domain(&v.r) : NULL;
}

static void ready_destroy(const struct call *c)
{
	if (c->arg == IBV_QPT_RC || c->arg == IBV_QPT_UD) {
		v.own = to_itself((enum ibv_qp_type)c->arg, (uint32_t)c->arg2);
		return;
	}
	ready_create(c);
	call_create(c);
}

static void call_destroy(const struct call *c)
{
	(void)c;
	ok(shca_destroy_qp(v.own));
}

/* The connection to B goes. */
static void call_destroy_rc(const struct call *c)
{
	(void)c;
	ok(shca_destroy_qp(v.rc));
}

static void ready_modify(const struct call *c)
{
	v.own = queue(IBV_QPT_RC, 0);
	if (c->arg != IBV_QPS_INIT)
		rig_init(v.own);
	receives(v.own, c->arg == IBV_QPS_INIT ? 0 : 4);
	struct rig_path p = {.dest_qpn = v.own->qp_num, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .min_rnr_timer = 1};
	if (c->arg == IBV_QPS_RTS || c->arg == IBV_QPS_ERR || c->arg == IBV_QPS_RESET)
		rig_rtr(v.own, &p);
	if (c->arg == IBV_QPS_ERR || c->arg == IBV_QPS_RESET)
		rig_rts(v.own, &p);
}

static void call_modify(const struct call *c)
{
	struct rig_path p = {.dest_qpn = v.own->qp_num, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .min_rnr_timer = 1};
	struct ibv_qp_attr a = {.qp_state = (enum ibv_qp_state)c->arg};

	if (c->arg == IBV_QPS_INIT)
		rig_init(v.own);
	else if (c->arg == IBV_QPS_RTR)
		rig_rtr(v.own, &p);
	else if (c->arg == IBV_QPS_RTS)
		rig_rts(v.own, &p);
	else
		ok(shca_modify_qp(v.own, &a, IBV_QP_STATE));
}

/* The connection to B breaks. */
static void call_break(const struct call *c)
{
	struct ibv_qp_attr a = {.qp_state = (enum ibv_qp_state)c->arg};

	ok(shca_modify_qp(v.rc, &a, IBV_QP_STATE));
}

static void call_post_recv(const struct call *c)
{
	(void)c;
	receives(v.rc, 1);
}

/* ---- requests -------------------------------------------------------------------------------------------------------- */

enum { LARGE = 1, INLINED = 2, FOREIGN_PRIVATE = 4, OWN_PRIVATE = 8 };

static uint32_t bytes(const struct call *c)
{
	return c->arg2 & LARGE ? BIG : c->arg2 & INLINED ? 48 : LEN;
}

static void ready_request(const struct call *c)
{
	if (c->arg2 & LARGE)
		for (int i = 0; i < 2; i++)
			message_fill(v.mem[i], BIG, FROM_V);
	if (c->arg2 & INLINED)
		message_fill(v.mem[0], bytes(c), FROM_V);
}

static struct ibv_sge data(const struct call *c)
{
	int own = !!(c->arg2 & OWN_PRIVATE);

	return (struct ibv_sge){(uintptr_t)v.mem[own], bytes(c), v.mr[own]->lkey};
}

static void call_send(const struct call *c)
{
	int to = !!(c->arg2 & FOREIGN_PRIVATE);
	struct ibv_sge sge = data(c);
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = (enum ibv_wr_opcode)c->arg, .imm_data = 5,
				 .send_flags = IBV_SEND_SIGNALED | (c->arg2 & INLINED ? IBV_SEND_INLINE : 0)}, *bad;

	wr.wr.rdma.remote_addr = st->addr[to] + (c->arg == IBV_WR_RDMA_READ ? O_SRC : O_DST);
	wr.wr.rdma.rkey = st->rkey[to];
	if (c->arg == IBV_WR_ATOMIC_CMP_AND_SWP || c->arg == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		sge.length = 8;
		wr.wr.atomic.remote_addr = st->addr[to] + O_CELL;
		wr.wr.atomic.rkey = st->rkey[to];
		wr.wr.atomic.compare_add = c->arg == IBV_WR_ATOMIC_CMP_AND_SWP ? 0 : 1;
		wr.wr.atomic.swap = 1;
	}
	ok(shca_post_send(v.rc, &wr, &bad));
}

static void call_datagram(const struct call *c)
{
	struct ibv_sge sge = data(c);
	/* inline and unsignaled, it goes the short way */
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND,
				 .send_flags = c->arg2 & INLINED ? IBV_SEND_INLINE : IBV_SEND_SIGNALED,
				 .wr.ud = {.ah = v.ah, .remote_qpn = c->third ? st->a_ud : st->b_ud, .remote_qkey = RIG_QKEY}},
					 *bad;

	ok(shca_post_send(v.ud, &wr, &bad));
}

static void call_xrc(const struct call *c)
{
	struct ibv_sge sge = data(c);
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = (enum ibv_wr_opcode)c->arg, .send_flags =
				 IBV_SEND_SIGNALED, .qp_type.xrc.remote_srqn = st->b_xrc_srqn}, *bad;

	wr.wr.rdma.remote_addr = st->addr[ARENA] + O_DST;
	wr.wr.rdma.rkey = st->rkey[ARENA];
	ok(shca_post_send(v.xrc, &wr, &bad));
}

static void ready_dci(const struct call *c)
{
	v.dci = dc_queue(&v.r, v.cq, NULL);
	ready_request(c);
}

static void call_dc(const struct call *c)
{
	struct ibv_qp_ex *ex = &shca_user_qp_of(v.dci)->ex;

	ibv_wr_start(ex);
	ex->wr_flags = IBV_SEND_SIGNALED;
	if (c->arg == IBV_WR_SEND)
		ibv_wr_send(ex);
	else
		ibv_wr_rdma_write(ex, st->rkey[ARENA], st->addr[ARENA] + O_DST);
	shca_dv_qp_ex(ex)->wr_set_dc_addr(shca_dv_qp_ex(ex), v.ah, st->b_dct, RIG_DC_KEY);
	ibv_wr_set_sge(ex, data(c).lkey, data(c).addr, data(c).length);
	ok(ibv_wr_complete(ex));
}

/* ---- Ethernet frames ------------------------------------------------------------------------------------------------- */

static void call_flow(const struct call *c)
{
	struct ibv_flow_attr attr = {.type = (enum ibv_flow_attr_type)c->arg, .size = sizeof(attr), .port = 1};

	v.flow = shca_create_flow(v.frames[1], &attr);
	CHECK(v.flow);
}

/* Two raw packet queues; arg2: the second one has a flow of all frames. */
static void ready_frames(const struct call *c)
{
	struct rig_qp_attr a = {.scq = v.cq, .rcq = v.cq, .send_wr = 4, .recv_wr = 8};

	/* the link layer is a thing of each process */
	CHECK(!setenv("SHCA_LINK", "ethernet", 1));
	for (int q = 0; q < 2; q++) {
		v.frames[q] = rig_raw_qp(&v.r, &a);
		rig_raw_ready(v.frames[q], 1);
	}
	receives(v.frames[1], 4);
	if (c->arg2)
		call_flow(c);
}

static void call_destroy_flow(const struct call *c)
{
	(void)c;
	ok(shca_destroy_flow(v.flow));
}

static void call_frame(const struct call *c)
{
	struct ibv_sge sge = {(uintptr_t)v.mem[0], 60, v.mr[0]->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED}, *bad;

	(void)c;
	ok(shca_post_send(v.frames[0], &wr, &bad));
}

/* ---- the experimental verbs ------------------------------------------------------------------------------------------ */

static void ready_cross(const struct call *c)
{
	ready_request(c);
	v.cross = to_itself(IBV_QPT_RC, IBV_EXP_QP_CREATE_CROSS_CHANNEL);
	v.managed = to_itself(IBV_QPT_RC, IBV_EXP_QP_CREATE_CROSS_CHANNEL | IBV_EXP_QP_CREATE_MANAGED_SEND |
						  IBV_EXP_QP_CREATE_MANAGED_RECV);
	struct ibv_sge sge = data(c);
	struct ibv_exp_send_wr wr = {.exp_opcode = IBV_EXP_WR_SEND, .sg_list = &sge, .num_sge = 1}, *bad;
	sge.length = 8;
	ok(shca_exp_post_send(v.managed, &wr, &bad));
}

static void call_cross(const struct call *c)
{
	struct ibv_sge sge = data(c);
	struct ibv_exp_send_wr wr = {.exp_opcode = (enum ibv_exp_wr_opcode)c->arg, .exp_send_flags = IBV_EXP_SEND_SIGNALED}, *bad;

	if (c->arg == IBV_EXP_WR_CQE_WAIT) {
		wr.task.cqe_wait.cq = v.wcq;
		wr.task.cqe_wait.cq_count = 1;
	} else if (c->arg == IBV_EXP_WR_SEND_ENABLE || c->arg == IBV_EXP_WR_RECV_ENABLE) {
		wr.task.wqe_enable.qp = v.managed;
		wr.task.wqe_enable.wqe_count = 1;
	} else {
		sge.length = 8;
		wr.sg_list = &sge;
		wr.num_sge = 1;
	}
	if (!(c->arg2 & LARGE)) {
		ok(shca_exp_post_send(v.cross, &wr, &bad));
		return;
	}
	struct ibv_exp_task task = {.task_type = IBV_EXP_TASK_SEND, .item = {.qp = v.cross, .send_wr = &wr}}, *bad_task;
	ok(shca_exp_post_task(v.r.ctx, &task, &bad_task));
}

static void call_masked(const struct call *c)
{
	int to = !!(c->arg2 & FOREIGN_PRIVATE);
	struct ibv_sge sge = {(uintptr_t)v.mem[0], 8, v.mr[0]->lkey};
	struct ibv_exp_send_wr wr = {.exp_opcode = (enum ibv_exp_wr_opcode)c->arg, .sg_list = &sge, .num_sge = 1}, *bad;

	wr.exp_send_flags = IBV_EXP_SEND_EXT_ATOMIC_INLINE;
	wr.ext_op.masked_atomics.log_arg_sz = 3;
	wr.ext_op.masked_atomics.remote_addr = st->addr[to] + O_CELL;
	wr.ext_op.masked_atomics.rkey = st->rkey[to];
	if (c->arg == IBV_EXP_WR_EXT_MASKED_ATOMIC_CMP_AND_SWP)
		wr.ext_op.masked_atomics.wr_data.inline_data.op.cmp_swap =
			(struct ibv_exp_cmp_swap){.compare_mask = 0xff, .swap_val = 1, .swap_mask = 0xff};
	else
		wr.ext_op.masked_atomics.wr_data.inline_data.op.fetch_add =
			(struct ibv_exp_fetch_add){.add_val = 1, .field_boundary = 1ull << 31};
	ok(shca_exp_post_send(v.rc, &wr, &bad));
}

/* ---- completions and events -------------------------------------------------------------------------------------------- */

static void ready_completion(const struct call *c)
{
	struct ibv_qp_attr err = {.qp_state = IBV_QPS_ERR};

	(void)c;
	v.channel = shca_create_comp_channel(v.r.ctx);
	CHECK(v.channel);
	v.armed = rig_cq(&v.r, 16, v.channel);
	if (c->arg)
		ok(shca_req_notify_cq(v.armed, 0));
	struct rig_qp_attr a = {.type = IBV_QPT_RC, .scq = v.armed, .rcq = v.armed, .send_wr = 4, .recv_wr = 4, .sge = 1};
	v.own = rig_qp(&v.r, &a);
	rig_init(v.own);
	connect_queue(v.own, v.own->qp_num);
	receives(v.own, 4);
	ok(shca_modify_qp(v.own, &err, IBV_QP_STATE));
}

static void call_poll(const struct call *c)
{
	struct ibv_wc wc[8];

	(void)c;
	CHECK(shca_poll_cq(v.armed, 8, wc) == 4);
}

static void call_arm(const struct call *c)
{
	(void)c;
	ok(shca_req_notify_cq(v.armed, 0));
}

static void call_event(const struct call *c)
{
	struct ibv_cq *cq;
	void *context;

	(void)c;
	CHECK(!shca_get_cq_event(v.channel, &cq, &context));
	shca_ack_cq_events(cq, 1);
}

static void call_async(const struct call *c)
{
	struct ibv_async_event ev;

	(void)c;
	fcntl(v.r.ctx->async_fd, F_SETFL, O_NONBLOCK);
	if (!shca_get_async_event(v.r.ctx, &ev))
		shca_ack_async_event(&ev);
}

static void ready_reg(const struct call *c)
{
	call_reg(c);
}

const struct call calls[] = {
	{"join", false, true, 0, 0, NULL, call_join},
	{"close_device", false, false, 0, 0, NULL, call_close},
	{"pd", false, false, 0, 0, NULL, call_pd},
	{"channel", false, false, 0, 0, NULL, call_channel},
	{"cq", false, false, 64, 0, NULL, call_cq},
	{"cq large", false, false, 65536, 0, NULL, call_cq},
	{"srq", false, false, 0, 0, NULL, call_srq},
	{"modify_srq", false, false, 0, 0, make_srq, call_modify_srq},
	{"post_srq_recv", false, false, 0, 0, make_srq, call_post_srq},
	{"resize_srq larger", false, false, 300, 0, ready_resize, call_resize_srq},
	{"resize_srq smaller", false, false, 10, 0, ready_resize, call_resize_srq},
	{"resize_srq, limit", false, false, 128, 4, ready_resize, call_resize_srq},
	{"ah", false, false, 0, 0, NULL, call_ah},
	{"xrcd", false, false, 0, 0, NULL, call_xrcd},
	{"buf small", false, false, 4096, 0, NULL, call_buf},
	{"buf large", false, false, 2 << 20, 0, NULL, call_buf},
	{"reg_mr arena", false, false, ARENA, 0, NULL, call_reg},
	{"reg_mr private", false, false, PRIVATE, 0, NULL, call_reg},
	{"dereg_mr arena", false, false, ARENA, 0, ready_reg, call_dereg},
	{"dereg_mr private", false, false, PRIVATE, 0, ready_reg, call_dereg},
	{"create RC", false, false, IBV_QPT_RC, 0, NULL, call_create},
	{"create RC cross-channel", false, false, IBV_QPT_RC, IBV_EXP_QP_CREATE_CROSS_CHANNEL, NULL, call_create},
	{"create UD", false, false, IBV_QPT_UD, 0, NULL, call_create},
	{"create XRC_SEND", false, false, IBV_QPT_XRC_SEND, 0, NULL, call_create},
	{"create XRC_RECV", false, false, IBV_QPT_XRC_RECV, 0, ready_create, call_create},
	{"create DCI", false, false, DCI, 0, NULL, call_create},
	{"create DCT", false, false, DCT, 0, ready_create, call_create},
	{"destroy RC", false, false, IBV_QPT_RC, 0, ready_destroy, call_destroy},
	{"destroy RC cross-channel", false, false, IBV_QPT_RC, IBV_EXP_QP_CREATE_CROSS_CHANNEL, ready_destroy, call_destroy},
	{"destroy RC to B", false, false, 0, 0, NULL, call_destroy_rc},
	{"destroy UD", false, false, IBV_QPT_UD, 0, ready_destroy, call_destroy},
	{"destroy XRC_RECV", false, false, IBV_QPT_XRC_RECV, 0, ready_destroy, call_destroy},
	{"destroy DCT", false, false, DCT, 0, ready_destroy, call_destroy},
	{"modify INIT", false, false, IBV_QPS_INIT, 0, ready_modify, call_modify},
	{"modify RTR", false, false, IBV_QPS_RTR, 0, ready_modify, call_modify},
	{"modify RTS", false, false, IBV_QPS_RTS, 0, ready_modify, call_modify},
	{"modify ERR", false, false, IBV_QPS_ERR, 0, ready_modify, call_modify},
	{"modify RESET", false, false, IBV_QPS_RESET, 0, ready_modify, call_modify},
	{"modify ERR to B", false, false, IBV_QPS_ERR, 0, NULL, call_break},
	{"modify RESET to B", false, false, IBV_QPS_RESET, 0, NULL, call_break},
	{"post_recv", false, false, 0, 0, NULL, call_post_recv},
	{"SEND", false, false, IBV_WR_SEND, 0, ready_request, call_send},
	{"SEND inline", false, false, IBV_WR_SEND, INLINED, ready_request, call_send},
	{"SEND private", false, false, IBV_WR_SEND, OWN_PRIVATE, ready_request, call_send},
	{"SEND large", false, false, IBV_WR_SEND, OWN_PRIVATE | LARGE, ready_request, call_send},
	{"SEND_WITH_IMM", false, false, IBV_WR_SEND_WITH_IMM, 0, ready_request, call_send},
	{"WRITE", false, false, IBV_WR_RDMA_WRITE, 0, ready_request, call_send},
	{"WRITE inline", false, false, IBV_WR_RDMA_WRITE, INLINED, ready_request, call_send},
	{"WRITE private", false, false, IBV_WR_RDMA_WRITE, OWN_PRIVATE | FOREIGN_PRIVATE, ready_request, call_send},
	{"WRITE large", false, false, IBV_WR_RDMA_WRITE, OWN_PRIVATE | FOREIGN_PRIVATE | LARGE, ready_request, call_send},
	{"WRITE_WITH_IMM", false, false, IBV_WR_RDMA_WRITE_WITH_IMM, 0, ready_request, call_send},
	{"READ", false, false, IBV_WR_RDMA_READ, 0, ready_request, call_send},
	{"READ private", false, false, IBV_WR_RDMA_READ, OWN_PRIVATE | FOREIGN_PRIVATE, ready_request, call_send},
	{"CAS", false, false, IBV_WR_ATOMIC_CMP_AND_SWP, 0, ready_request, call_send},
	{"FAA", false, false, IBV_WR_ATOMIC_FETCH_AND_ADD, 0, ready_request, call_send},
	{"FAA private", false, false, IBV_WR_ATOMIC_FETCH_AND_ADD, FOREIGN_PRIVATE, ready_request, call_send},
	{"UD SEND", false, false, 0, 0, ready_request, call_datagram},
	{"UD SEND inline", false, false, 0, INLINED, ready_request, call_datagram},
	{"UD SEND, runs A's queue", true, false, 0, 0, ready_request, call_datagram},
	{"UD SEND inline, runs A's queue", true, false, 0, INLINED, ready_request, call_datagram},
	{"XRC SEND", false, false, IBV_WR_SEND, 0, ready_request, call_xrc},
	{"XRC WRITE", false, false, IBV_WR_RDMA_WRITE, 0, ready_request, call_xrc},
	{"DC SEND", false, false, IBV_WR_SEND, 0, ready_dci, call_dc},
	{"DC WRITE", false, false, IBV_WR_RDMA_WRITE, 0, ready_dci, call_dc},
	{"create_flow", false, false, IBV_FLOW_ATTR_NORMAL, 0, ready_frames, call_flow},
	{"create_flow, another", false, false, IBV_FLOW_ATTR_SNIFFER, 1, ready_frames, call_flow},
	{"destroy_flow", false, false, IBV_FLOW_ATTR_NORMAL, 1, ready_frames, call_destroy_flow},
	{"frame", false, false, IBV_FLOW_ATTR_NORMAL, 1, ready_frames, call_frame},
	{"frame, no flow", false, false, IBV_FLOW_ATTR_NORMAL, 0, ready_frames, call_frame},
	{"exp SEND", false, false, IBV_EXP_WR_SEND, 0, ready_cross, call_cross},
	{"exp WAIT", false, false, IBV_EXP_WR_CQE_WAIT, 0, ready_cross, call_cross},
	{"exp SEND_ENABLE", false, false, IBV_EXP_WR_SEND_ENABLE, 0, ready_cross, call_cross},
	{"exp RECV_ENABLE", false, false, IBV_EXP_WR_RECV_ENABLE, 0, ready_cross, call_cross},
	{"exp task", false, false, IBV_EXP_WR_SEND, LARGE, ready_cross, call_cross},
	{"MASKED_CAS", false, false, IBV_EXP_WR_EXT_MASKED_ATOMIC_CMP_AND_SWP, 0, NULL, call_masked},
	{"MASKED_FAA private", false, false, IBV_EXP_WR_EXT_MASKED_ATOMIC_FETCH_AND_ADD, FOREIGN_PRIVATE, NULL, call_masked},
	{"poll", false, false, 1, 0, ready_completion, call_poll},
	{"arm", false, false, 0, 0, ready_completion, call_arm},
	{"cq_event", false, false, 1, 0, ready_completion, call_event},
	{"async_event", false, false, 1, 0, ready_completion, call_async},
};
const unsigned n_calls = sizeof(calls) / sizeof(*calls);

void victim(const struct call *c)
{
	if (!c->outside)
		join();
	if (c->prepare)
		c->prepare(c);
	if (ptrace(PTRACE_TRACEME, 0, NULL, NULL))
		FAIL("PTRACE_TRACEME: %s", strerror(errno));
	raise(SIGSTOP);
	atomic_store(&st->inside, 1);
	c->make(c);
	atomic_store(&st->inside, 2);
	raise(SIGKILL);
}
