/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * DC by the experimental verbs (manual, appendix A.1): targets, initiators, keys and their violation. Written as for the vendor's
 * header; -include brings those names.
 */
#include <fcntl.h>
#include <infiniband/mlx5dv.h>

#include "vt.h"

#define KEY 0x8000123456789abcull
#define OTHER_KEY 0x0000123456789abcull

struct side {
	struct vt t;
	struct ibv_cq *cq;
	struct ibv_srq *srq;
	struct ibv_exp_dct *dct;
	struct ibv_ah *ah;
	uint64_t mem[64];
	struct ibv_mr *mr;
};

static struct ibv_exp_dct_init_attr target_attr(struct side *s)
{
	return (struct ibv_exp_dct_init_attr){
		.pd = s->t.pd, .cq = s->cq, .srq = s->srq, .dc_key = KEY, .port = 1, .access_flags = VT_ACCESS,
		.min_rnr_timer = 2, .tclass = 3, .flow_label = 4, .mtu = IBV_MTU_2048, .hop_limit = 5, .inline_size = 32,
	};
}

static void open_side(struct side *s)
{
	struct ibv_srq_init_attr sa = {.attr = {.max_wr = 16, .max_sge = 1}};
	struct ibv_ah_attr aa = {.dlid = 1, .port_num = 1};

	memset(s, 0, sizeof *s);
	s->t = vt_open();
	s->cq = vt_cq(&s->t, 64, NULL);
	s->srq = ibv_create_srq(s->t.pd, &sa);
	s->ah = ibv_create_ah(s->t.pd, &aa);
	s->mr = vt_mr(&s->t, s->mem, sizeof s->mem, VT_ACCESS);
	CHECK(s->srq && s->ah, "a shared receive queue and an address");
	struct ibv_exp_dct_init_attr da = target_attr(s);
	s->dct = ibv_exp_create_dct(s->t.ctx, &da);
	CHECK(s->dct && s->dct->dct_num && s->dct->context == s->t.ctx && s->dct->srq == s->srq, "ibv_exp_create_dct");
	CHECK(da.inline_size == 0, "%u bytes in completions", da.inline_size);
}

static void close_side(struct side *s)
{
	CHECK(!ibv_exp_destroy_dct(s->dct) && !ibv_destroy_srq(s->srq) && !ibv_destroy_ah(s->ah) && !ibv_dereg_mr(s->mr) &&
		      !ibv_destroy_cq(s->cq), "destroy");
	vt_close(&s->t);
}

/* The transitions as A.1.7 has them. */
static void ready(struct ibv_qp *qp)
{
	struct ibv_exp_qp_attr a = {.qp_state = IBV_QPS_INIT, .pkey_index = 0, .port_num = 1, .dct_key = OTHER_KEY};

	CHECK(!ibv_exp_modify_qp(qp, &a, IBV_EXP_QP_STATE | IBV_EXP_QP_PKEY_INDEX | IBV_EXP_QP_PORT | IBV_EXP_QP_DC_KEY), "INIT");
	a.dct_key = KEY;
	a.qp_state = IBV_QPS_RTR;
	a.path_mtu = IBV_MTU_2048;
	a.ah_attr.port_num = 1;
	a.ah_attr.dlid = 1;
	CHECK(!ibv_exp_modify_qp(qp, &a, IBV_EXP_QP_STATE | IBV_EXP_QP_PATH_MTU | IBV_EXP_QP_AV | IBV_EXP_QP_DC_KEY), "RTR");
	a.qp_state = IBV_QPS_RTS;
	a.timeout = 12;
	a.retry_cnt = 1;
	a.rnr_retry = 7;
	a.max_rd_atomic = 4;
	CHECK(!ibv_exp_modify_qp(qp, &a, IBV_EXP_QP_STATE | IBV_EXP_QP_TIMEOUT | IBV_EXP_QP_RETRY_CNT | IBV_EXP_QP_RNR_RETRY |
						 IBV_EXP_QP_MAX_QP_RD_ATOMIC), "RTS");
}

static struct ibv_qp *initiator(struct side *s)
{
	/* with the shared receive queue of the target: an initiator has no use for it */
	struct ibv_exp_qp_init_attr a = {
		.send_cq = s->cq, .recv_cq = s->cq, .srq = s->srq, .qp_type = IBV_EXP_QPT_DC_INI,
		.cap = {.max_send_wr = 8, .max_send_sge = 2, .max_inline_data = 64}, .comp_mask = IBV_EXP_QP_INIT_ATTR_PD,
		.pd = s->t.pd,
	};
	struct ibv_qp *qp = ibv_exp_create_qp(s->t.ctx, &a);

	CHECK(qp && qp->qp_type == IBV_EXP_QPT_DC_INI, "an initiator");
	ready(qp);
	return qp;
}

struct aim {
	uint64_t addr;
	uint32_t rkey, number;
};

static int post(struct side *s, struct ibv_qp *qp, enum ibv_exp_wr_opcode op, struct aim to, uint64_t key, uint64_t id)
{
	struct ibv_sge sge = vt_sge(s->mr, 0, 8);
	struct ibv_exp_send_wr wr = {.wr_id = id, .sg_list = &sge, .num_sge = 1, .exp_opcode = op,
				     .exp_send_flags = IBV_EXP_SEND_SIGNALED, .ex.imm_data = 77}, *bad;

	if (op == IBV_EXP_WR_ATOMIC_FETCH_AND_ADD || op == IBV_EXP_WR_ATOMIC_CMP_AND_SWP) {
		wr.wr.atomic.remote_addr = to.addr;
		wr.wr.atomic.rkey = to.rkey;
		wr.wr.atomic.compare_add = 5;
		wr.wr.atomic.swap = 6;
	} else {
		wr.wr.rdma.remote_addr = to.addr;
		wr.wr.rdma.rkey = to.rkey;
	}
	wr.dc.ah = s->ah;
	wr.dc.dct_access_key = key;
	wr.dc.dct_number = to.number;
	return ibv_exp_post_send(qp, &wr, &bad);
}

/* Each operation's effect, and its completions at initiator and target. */
static void operations(struct side *s)
{
	struct ibv_qp *qp = initiator(s);
	struct aim me = {.addr = (uintptr_t)&s->mem[8], .rkey = s->mr->rkey, .number = s->dct->dct_num};
	struct ibv_exp_wc wc;

	s->mem[0] = 40;
	CHECK(!post(s, qp, IBV_EXP_WR_RDMA_WRITE, me, KEY, 1), "write");
	wc = vt_exp_wait(s->cq);
	CHECK(wc.wr_id == 1 && wc.status == IBV_WC_SUCCESS && wc.exp_opcode == IBV_EXP_WC_RDMA_WRITE && s->mem[8] == 40, "write");
	CHECK((wc.exp_wc_flags & IBV_EXP_WC_QP) && wc.qp == qp && !wc.dct && !wc.srq, "flags %#lx",
	      (unsigned long)wc.exp_wc_flags);
	CHECK(!post(s, qp, IBV_EXP_WR_ATOMIC_FETCH_AND_ADD, me, KEY, 2), "add");
	wc = vt_exp_wait(s->cq);
	CHECK(wc.exp_opcode == IBV_EXP_WC_FETCH_ADD && s->mem[8] == 45 && s->mem[0] == 40, "add: %lu", (unsigned long)s->mem[8]);
	CHECK(!post(s, qp, IBV_EXP_WR_RDMA_READ, me, KEY, 3), "read");
	wc = vt_exp_wait(s->cq);
	CHECK(wc.wr_id == 3 && s->mem[0] == 45, "read: %lu", (unsigned long)s->mem[0]);
	for (int i = 0; i < 2; i++) {
		CHECK(!vt_srq_recv(s->srq, 100, vt_sge(s->mr, 16 * 8, 64)), "receive");
		CHECK(!post(s, qp, i ? IBV_EXP_WR_RDMA_WRITE_WITH_IMM : IBV_EXP_WR_SEND_WITH_IMM, me, KEY, 4), "send");
		for (int seen = 0; seen != 3;) {
			wc = vt_exp_wait(s->cq);
			CHECK(wc.status == IBV_WC_SUCCESS, "%s", ibv_wc_status_str(wc.status));
			if (wc.exp_opcode & IBV_EXP_WC_RECV) {
				CHECK(wc.wr_id == 100 && (wc.exp_wc_flags & IBV_EXP_WC_DCT) && wc.dct == s->dct &&
					      (wc.exp_wc_flags & IBV_EXP_WC_SRQ) && wc.srq == s->srq && !wc.qp, "target's");
				CHECK((wc.exp_wc_flags & IBV_EXP_WC_WITH_IMM) && wc.imm_data == 77 && wc.byte_len == 8, "data");
				seen |= 1;
			} else {
				CHECK(wc.wr_id == 4, "initiator's");
				seen |= 2;
			}
		}
		CHECK(s->mem[i ? 8 : 16] == 45, "payload");
	}
	CHECK(!ibv_destroy_qp(qp), "destroy");
}

static bool event_waits(struct side *s)
{
	struct pollfd p = {.fd = s->t.ctx->async_fd, .events = POLLIN};

	return poll(&p, 1, 0) > 0;
}

static void expect_violation(struct side *s)
{
	struct ibv_async_event event;
	uint32_t before = s->dct->events_completed;

	CHECK(!ibv_get_async_event(s->t.ctx, &event), "ibv_get_async_event");
	CHECK(event.event_type == IBV_EXP_EVENT_DCT_KEY_VIOLATION && event.element.dct == s->dct &&
		      ibv_exp_event_dct(&event) == s->dct,
	      "event %d", event.event_type);
	ibv_ack_async_event(&event);
	CHECK(s->dct->events_completed == before + 1, "acknowledged");
}

static uint32_t violations(struct side *s)
{
	struct ibv_exp_dct_attr a = {.comp_mask = 0};

	CHECK(!ibv_exp_query_dct(s->dct, &a), "ibv_exp_query_dct");
	return a.key_violations;
}

static void wrong_request(struct side *s, struct side *from, struct aim to)
{
	struct ibv_qp *qp = initiator(from);

	CHECK(!post(from, qp, IBV_EXP_WR_RDMA_WRITE, to, OTHER_KEY, 9), "post");
	vt_expect(from->cq, 9, IBV_WC_RETRY_EXC_ERR);
	CHECK(!ibv_destroy_qp(qp), "destroy");
}

/* Each request counts once; each arming is good for one event. */
static void keys(struct side *s)
{
	struct aim me = {.addr = (uintptr_t)&s->mem[8], .rkey = s->mr->rkey, .number = s->dct->dct_num};
	struct ibv_exp_arm_attr arm = {.comp_mask = 0};

	s->mem[0] = 1;
	s->mem[8] = 2;
	wrong_request(s, s, me);
	CHECK(violations(s) == 1 && !event_waits(s), "not armed");
	CHECK(!ibv_exp_arm_dct(s->dct, &arm), "arm");
	wrong_request(s, s, me);
	expect_violation(s);
	CHECK(violations(s) == 2 && !event_waits(s), "armed once");
	wrong_request(s, s, me);
	CHECK(violations(s) == 3 && !event_waits(s), "fired");
	CHECK(!ibv_exp_arm_dct(s->dct, &arm), "arm");
	wrong_request(s, s, me);
	expect_violation(s);
	CHECK(s->mem[8] == 2, "a request with a wrong key was executed");
	/* a number that names no target counts as no target's key violation */
	me.number = 1;
	wrong_request(s, s, me);
	CHECK(violations(s) == 4, "%u", violations(s));
}

static void attributes(struct side *s)
{
	struct ibv_exp_dct_attr a = {.comp_mask = 0};
	struct ibv_exp_qp_attr qa;
	struct ibv_exp_qp_init_attr qi;
	struct ibv_qp *qp = initiator(s), *rc = vt_qp(&s->t, IBV_QPT_RC, s->cq, NULL);

	CHECK(!ibv_exp_query_dct(s->dct, &a), "query");
	CHECK(a.dc_key == KEY && a.port == 1 && a.access_flags == VT_ACCESS && a.min_rnr_timer == 2 && a.tclass == 3 &&
		      a.flow_label == 4 && a.mtu == IBV_MTU_2048 && a.hop_limit == 5 && a.state == IBV_EXP_DCT_STATE_ACTIVE &&
		      a.srq == s->srq && a.cq == s->cq && a.pd == s->t.pd && !a.gid_index && !a.pkey_index, "attributes");
	CHECK(!ibv_exp_query_qp(qp, &qa, IBV_EXP_QP_STATE | IBV_EXP_QP_DC_KEY, &qi), "query");
	CHECK(qa.qp_state == IBV_QPS_RTS && qa.dct_key == KEY && qi.qp_type == IBV_EXP_QPT_DC_INI && qi.pd == s->t.pd && !qi.srq,
	      "of an initiator");
	qa.dct_key = 1;
	CHECK(ibv_exp_modify_qp(rc, &qa, IBV_EXP_QP_DC_KEY) == EOPNOTSUPP, "a key of an RC queue");
	CHECK(!ibv_exp_modify_qp(qp, &qa, IBV_EXP_QP_DC_KEY) && !ibv_exp_query_qp(qp, &qa, 0, NULL) && qa.dct_key == 1,
	      "a new key");
	CHECK(!ibv_destroy_qp(qp) && !ibv_destroy_qp(rc), "destroy");
}

static void refused(struct side *s)
{
	struct ibv_exp_dct_init_attr a = target_attr(s);
	struct aim me = {.number = s->dct->dct_num};
	struct ibv_qp *qp = initiator(s);
	struct ibv_ah *ah = s->ah;

	a.srq = NULL;
	CHECK(!ibv_exp_create_dct(s->t.ctx, &a) && errno == EINVAL, "no shared receive queue");
	a = target_attr(s);
	a.port = 2;
	CHECK(!ibv_exp_create_dct(s->t.ctx, &a) && errno == EINVAL, "port 2");
	a = target_attr(s);
	a.gid_index = 1;
	CHECK(!ibv_exp_create_dct(s->t.ctx, &a) && errno == EINVAL, "GID 1");
	a = target_attr(s);
	a.create_flags = 1;
	CHECK(!ibv_exp_create_dct(s->t.ctx, &a) && errno == EOPNOTSUPP, "flags");
	s->ah = NULL;
	CHECK(post(s, qp, IBV_EXP_WR_RDMA_WRITE, me, KEY, 1) == EINVAL, "no address");
	s->ah = ah;
	/* nor do ordinary requests say where they go */
	CHECK(vt_send(qp, 1, vt_sge(s->mr, 0, 8), IBV_SEND_SIGNALED) == EINVAL, "ibv_post_send");
	/* of direct verbs, too, an initiator may be made with a shared receive queue */
	struct mlx5dv_qp_init_attr dv = {.comp_mask = MLX5DV_QP_INIT_ATTR_MASK_DC, .dc_init_attr.dc_type = MLX5DV_DCTYPE_DCI};
	struct ibv_qp_init_attr_ex ex = {.qp_type = IBV_QPT_DRIVER, .comp_mask = IBV_QP_INIT_ATTR_PD, .pd = s->t.pd,
					 .send_cq = s->cq, .recv_cq = s->cq, .srq = s->srq,
						 .cap = {.max_send_wr = 1, .max_send_sge = 1}};
	struct ibv_qp *by_dv = mlx5dv_create_qp(s->t.ctx, &ex, &dv);
	CHECK(by_dv, "mlx5dv_create_qp");
	CHECK(!ibv_destroy_qp(by_dv) && !ibv_destroy_qp(qp), "destroy");
}

/* A target with an overrun completion queue is lost; the owner gets an event. */
static void overrun(struct side *s)
{
	struct ibv_cq *tiny = vt_cq(&s->t, 1, NULL);
	struct ibv_exp_dct_init_attr da = target_attr(s);
	struct ibv_exp_dct_attr now = {.comp_mask = 0};
	struct ibv_async_event event;
	bool lost = false, overrun = false;

	da.cq = tiny;
	struct ibv_exp_dct *dct = ibv_exp_create_dct(s->t.ctx, &da);
	struct ibv_qp *qp = initiator(s);
	struct aim to = {.number = dct->dct_num};
	for (int i = 0; i <= tiny->cqe; i++) {
		CHECK(!vt_srq_recv(s->srq, 100, vt_sge(s->mr, 16 * 8, 64)) && !post(s, qp, IBV_EXP_WR_SEND, to, KEY, 4), "send");
		vt_wait(s->cq);
	}
	while (!lost || !overrun) {
		CHECK(!ibv_get_async_event(s->t.ctx, &event), "an event");
		if (event.event_type == IBV_EVENT_CQ_ERR && event.element.cq == tiny)
			overrun = true;
		else if (event.event_type == IBV_EXP_EVENT_DCT_REQ_ERR && event.element.dct == dct)
			lost = true;
		else
			CHECK(false, "event %d", event.event_type);
		ibv_ack_async_event(&event);
	}
	CHECK(!ibv_exp_query_dct(dct, &now) && now.state == IBV_EXP_DCT_STATE_DRAINED && now.cq == tiny, "state %u", now.state);
	CHECK(!ibv_exp_destroy_dct(dct) && !ibv_destroy_qp(qp) && !ibv_destroy_cq(tiny), "destroy");
}

/* Between processes: the target's owner gets the event of another process's violation. */
static void two_processes(void)
{
	struct vt_peer p = vt_fork();
	static struct side s;
	struct aim mine, theirs;
	struct ibv_exp_arm_attr arm = {.comp_mask = 0};

	open_side(&s);
	mine = (struct aim){.addr = (uintptr_t)&s.mem[8], .rkey = s.mr->rkey, .number = s.dct->dct_num};
	CHECK(!ibv_exp_arm_dct(s.dct, &arm) && !vt_srq_recv(s.srq, 100, vt_sge(s.mr, 16 * 8, 64)), "ready");
	vt_tell(&p, &mine, sizeof mine);
	vt_hear(&p, &theirs, sizeof theirs);
	s.mem[0] = 7;
	wrong_request(&s, &s, theirs);
	expect_violation(&s);
	/* the other process's message completes in the CQ that the WAIT names */
	vt_meet(&p);
	struct ibv_qp *qp = initiator(&s);
	CHECK(!post(&s, qp, IBV_EXP_WR_SEND, theirs, KEY, 4), "send");
	for (int seen = 0; seen != 3;) {
		struct ibv_exp_wc wc = vt_exp_wait(s.cq);

		CHECK(wc.status == IBV_WC_SUCCESS, "%s", ibv_wc_status_str(wc.status));
		seen |= wc.wr_id == 100 && wc.dct == s.dct ? 1 : wc.wr_id == 4 && wc.qp == qp ? 2 : 0;
	}
	CHECK(s.mem[16] == 7, "payload");
	vt_meet(&p);
	CHECK(!ibv_destroy_qp(qp), "destroy");
	close_side(&s);
	vt_join(&p);
	if (!p.child)
		exit(0);
}

int main(void)
{
	static struct side s;

	vt_fabric();
	two_processes();
	open_side(&s);
	attributes(&s);
	operations(&s);
	keys(&s);
	refused(&s);
	overrun(&s);
	close_side(&s);
	return 0;
}
