/* SPDX-License-Identifier: BSD-3-Clause */
/* The queue pair state machine: the attributes that each transition requires, allows and refuses; the behaviour of each state. */
#include "vt.h"

static void needs_each(struct vt *t, struct ibv_cq *cq, enum ibv_qp_type type)
{
	static const int bits[] = {
		IBV_QP_PORT, IBV_QP_PKEY_INDEX, IBV_QP_ACCESS_FLAGS, IBV_QP_QKEY, IBV_QP_AV, IBV_QP_PATH_MTU,
				IBV_QP_DEST_QPN,
		IBV_QP_RQ_PSN, IBV_QP_SQ_PSN, IBV_QP_MAX_DEST_RD_ATOMIC, IBV_QP_MIN_RNR_TIMER, IBV_QP_TIMEOUT,
		IBV_QP_RETRY_CNT, IBV_QP_RNR_RETRY, IBV_QP_MAX_QP_RD_ATOMIC,
	};
	struct ibv_qp *qp = vt_qp(t, type, cq, NULL);
	struct ibv_qp_attr attrs[3] = {
		{ .qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = VT_QKEY, .qp_access_flags = VT_ACCESS },
		vt_rtr_attr(qp->qp_num), vt_rts_attr(),
	};
	int masks[3] = {
		IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX |
				(type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS),
		vt_rtr_mask(qp), vt_rts_mask(qp),
	};
	for (int step = 0; step < 3; step++) {
		enum ibv_qp_state before = vt_state(qp);
		for (size_t i = 0; i < sizeof bits / sizeof *bits; i++) {
			if (!(masks[step] & bits[i]))
				continue;
			int err = ibv_modify_qp(qp, &attrs[step], masks[step] & ~bits[i]);
			CHECK(err == EINVAL, "type %d step %d without %#x: %d", type, step, bits[i], err);
			CHECK(vt_state(qp) == before, "the state changed");
		}
		int err = ibv_modify_qp(qp, &attrs[step], masks[step] | IBV_QP_CAP);
		CHECK(err == EINVAL, "type %d step %d with an attribute that has no place: %d", type, step, err);
		err = ibv_modify_qp(qp, &attrs[step], masks[step]);
		CHECK(!err, "type %d step %d: %d", type, step, err);
		CHECK(vt_state(qp) == attrs[step].qp_state && qp->state == attrs[step].qp_state, "state %d", qp->state);
	}
	CHECK(vt_to(qp, IBV_QPS_INIT) == EINVAL, "RTS to INIT");
	CHECK(vt_to(qp, IBV_QPS_RTR) == EINVAL, "RTS to RTR");
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_RTS, .cur_qp_state = IBV_QPS_RTR };
	CHECK(ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_CUR_STATE) == EINVAL, "wrong current state");
	CHECK(!vt_to(qp, IBV_QPS_ERR) && vt_state(qp) == IBV_QPS_ERR, "to ERR");
	CHECK(vt_to(qp, IBV_QPS_RTS) == EINVAL, "ERR to RTS");
	CHECK(!vt_to(qp, IBV_QPS_RESET) && vt_state(qp) == IBV_QPS_RESET, "to RESET");
	CHECK(vt_to(qp, IBV_QPS_RTS) == EINVAL, "RESET to RTS");
	CHECK(!vt_init(qp), "INIT again");
	CHECK(!ibv_destroy_qp(qp), "destroy");
}

static void bad_values(struct vt *t, struct ibv_cq *cq)
{
	struct ibv_qp *qp = vt_qp(t, IBV_QPT_RC, cq, NULL);
	const int init = IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS;
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT, .port_num = 7 };
	CHECK(ibv_modify_qp(qp, &a, init) == EINVAL, "port 7");
	a.port_num = 1;
	a.pkey_index = 5;
	CHECK(ibv_modify_qp(qp, &a, init) == EINVAL, "P_Key index 5");
	CHECK(!vt_init(qp), "init");
	a = vt_rtr_attr(1 << 24);
	CHECK(ibv_modify_qp(qp, &a, VT_RTR_RC) == EINVAL, "destination of 25 bits");
	a = vt_rtr_attr(qp->qp_num);
	a.path_mtu = 6;
	CHECK(ibv_modify_qp(qp, &a, VT_RTR_RC) == EINVAL, "MTU 6");
	a = vt_rtr_attr(qp->qp_num);
	a.max_dest_rd_atomic = 200;
	CHECK(ibv_modify_qp(qp, &a, VT_RTR_RC) == EINVAL, "max_dest_rd_atomic 200");
	a = vt_rtr_attr(qp->qp_num);
	a.ah_attr.is_global = 1;
	a.ah_attr.grh.sgid_index = 9;
	CHECK(ibv_modify_qp(qp, &a, VT_RTR_RC) == EINVAL, "GID index 9");
	a = vt_rtr_attr(qp->qp_num);
	CHECK(!ibv_modify_qp(qp, &a, VT_RTR_RC), "rtr");
	a = vt_rts_attr();
	a.retry_cnt = 8;
	CHECK(ibv_modify_qp(qp, &a, VT_RTS_RC) == EINVAL, "retry_cnt 8");
	CHECK(!ibv_destroy_qp(qp), "destroy");
}

static void query(struct vt *t, struct ibv_cq *cq)
{
	struct ibv_qp *a = vt_qp(t, IBV_QPT_RC, cq, NULL), *b = vt_qp(t, IBV_QPT_RC, cq, NULL);
	struct ibv_qp_attr q;
	struct ibv_qp_init_attr i;
	vt_connect_pair(a, b);
	CHECK(!ibv_query_qp(a, &q, ~0, &i), "query");
	CHECK(q.dest_qp_num == b->qp_num && q.path_mtu == IBV_MTU_4096 && q.rnr_retry == 7 && q.retry_cnt == 3 &&
	      q.timeout == 8 && q.min_rnr_timer == 1 && q.port_num == 1 && q.qp_access_flags == VT_ACCESS &&
	      q.sq_psn == 1 && q.rq_psn == 1 && q.ah_attr.dlid == 1 && q.max_rd_atomic == 1, "attributes as set");
	CHECK(i.send_cq == cq && i.qp_type == IBV_QPT_RC && i.cap.max_send_wr >= 64 && i.cap.max_inline_data >= 128,
	      "as created");
	CHECK(!vt_to(a, IBV_QPS_RESET), "reset");
	CHECK(!ibv_query_qp(a, &q, ~0, &i) && q.dest_qp_num == 0 && q.qp_access_flags == 0, "reset forgets");
	CHECK(!ibv_destroy_qp(a) && !ibv_destroy_qp(b), "destroy");
}

static void posting(struct vt *t, struct ibv_cq *cq)
{
	static char buf[64];
	struct ibv_mr *mr = vt_mr(t, buf, sizeof buf, VT_ACCESS);
	struct ibv_qp *a = vt_qp(t, IBV_QPT_RC, cq, NULL), *b = vt_qp(t, IBV_QPT_RC, cq, NULL);
	struct ibv_sge s = vt_sge(mr, 0, 8);

	CHECK(vt_recv(a, 1, s) == EINVAL, "a receive in RESET");
	CHECK(vt_send(a, 1, s, IBV_SEND_SIGNALED) == EINVAL, "a send in RESET");
	CHECK(!vt_init(a) && !vt_init(b), "init");
	CHECK(!vt_recv(b, 2, s), "a receive in INIT");
	CHECK(vt_send(a, 1, s, IBV_SEND_SIGNALED) == EINVAL, "a send in INIT");
	vt_rtr_rts(b, a->qp_num, vt_rts_attr());
	vt_rtr_rts(a, b->qp_num, vt_rts_attr());
	CHECK(!vt_send(a, 1, s, IBV_SEND_SIGNALED), "a send in RTS");
	struct ibv_wc w1 = vt_wait(cq), w2 = vt_wait(cq);
	CHECK(w1.status == IBV_WC_SUCCESS && w2.status == IBV_WC_SUCCESS && w1.wr_id + w2.wr_id == 3, "both complete");

	/* in error both queues are flushed, and so are requests posted then */
	CHECK(!vt_recv(b, 3, s) && !vt_recv(b, 4, s), "receives");
	CHECK(!vt_to(b, IBV_QPS_ERR), "to ERR");
	vt_expect(cq, 3, IBV_WC_WR_FLUSH_ERR);
	vt_expect(cq, 4, IBV_WC_WR_FLUSH_ERR);
	CHECK(!vt_recv(b, 5, s), "a receive in ERR");
	vt_expect(cq, 5, IBV_WC_WR_FLUSH_ERR);
	CHECK(!vt_send(b, 6, s, 0), "a send in ERR");
	vt_expect(cq, 6, IBV_WC_WR_FLUSH_ERR);
	/* each has its completion, and its place until that is polled: completions that are not polled cannot overrun the CQ */
	for (uint64_t n = 0; n < 64; n++)
		CHECK(!vt_send(b, n, s, 0), "send %lu in ERR", (unsigned long)n);
	CHECK(vt_send(b, 64, s, 0) == ENOMEM, "more sends than the queue has room for");
	for (uint64_t n = 0; n < 64; n++)
		vt_expect(cq, n, IBV_WC_WR_FLUSH_ERR);
	CHECK(!vt_send(b, 6, s, 0), "a send in ERR");
	vt_expect(cq, 6, IBV_WC_WR_FLUSH_ERR);

	/* RESET drops posted requests and unpolled completions, and the pair works again */
	CHECK(!vt_recv(b, 7, s), "a receive in ERR");
	CHECK(!vt_to(b, IBV_QPS_RESET) && !vt_to(a, IBV_QPS_RESET), "reset");
	vt_none(cq);
	vt_connect_pair(a, b);
	CHECK(!vt_recv(b, 8, s) && !vt_send(a, 9, s, 0), "again");
	vt_expect(cq, 8, IBV_WC_SUCCESS);
	vt_none(cq);
	CHECK(!ibv_destroy_qp(a) && !ibv_destroy_qp(b) && !ibv_dereg_mr(mr), "destroy");
}

/* A process of its own, for SHCA_LENIENT is read when the device is opened: receives that were posted in RESET are there in
 * RTR. */
static void lenient(void)
{
	pid_t pid = fork();
	int status;

	CHECK(pid >= 0, "fork");
	if (pid) {
		CHECK(waitpid(pid, &status, 0) == pid && !status, "the process ended with %#x", (unsigned)status);
		return;
	}
	static char buf[64];
	CHECK(!setenv("SHCA_LENIENT", "1", 1), "setenv");
	struct vt t = vt_open();
	struct ibv_cq *cq = vt_cq(&t, 256, NULL);
	struct ibv_mr *mr = vt_mr(&t, buf, sizeof buf, VT_ACCESS);
	struct ibv_srq_init_attr sa = { .attr = { .max_wr = 4, .max_sge = 1 } };
	struct ibv_srq *srq = ibv_create_srq(t.pd, &sa);
	struct ibv_qp *a = vt_qp(&t, IBV_QPT_RC, cq, NULL), *b = vt_qp(&t, IBV_QPT_RC, cq, NULL),
		      *c = vt_qp(&t, IBV_QPT_RC, cq, srq);
	for (int again = 0; again < 2; again++) {
		buf[0] = 1;
		CHECK(!vt_recv(b, 1, vt_sge(mr, 8, 8)) && !vt_recv(b, 2, vt_sge(mr, 16, 8)), "receives in RESET");
		CHECK(vt_send(b, 1, vt_sge(mr, 0, 8), 0) == EINVAL && vt_recv(c, 1, vt_sge(mr, 8, 8)) == EINVAL,
		      "what is refused all the same");
		vt_connect_pair(a, b);
		CHECK(!vt_send(a, 3, vt_sge(mr, 0, 8), 0), "send");
		vt_expect(cq, 1, IBV_WC_SUCCESS);
		CHECK(buf[8] == 1, "the data");
		/* the other one goes with RESET, or is flushed */
		if (again)
			CHECK(!vt_to(b, IBV_QPS_ERR), "ERR");
		if (again)
			vt_expect(cq, 2, IBV_WC_WR_FLUSH_ERR);
		CHECK(!vt_to(a, IBV_QPS_RESET) && !vt_to(b, IBV_QPS_RESET), "RESET");
		vt_none(cq);
	}
	CHECK(!vt_recv(b, 5, vt_sge(mr, 8, 8)), "a receive in RESET");
	CHECK(!ibv_destroy_qp(a) && !ibv_destroy_qp(b) && !ibv_destroy_qp(c), "destroy");
	vt_none(cq);
	CHECK(!ibv_destroy_srq(srq) && !ibv_destroy_cq(cq) && !ibv_dereg_mr(mr), "destroy");
	vt_close(&t);
	exit(0);
}

/* SQD holds posted requests back, raises IBV_EVENT_SQ_DRAINED, and goes on in RTS. */
static void drained(struct vt *t, struct ibv_cq *cq)
{
	static char buf[64];
	struct ibv_mr *mr = vt_mr(t, buf, sizeof buf, VT_ACCESS);
	struct ibv_qp *a = vt_qp(t, IBV_QPT_RC, cq, NULL), *b = vt_qp(t, IBV_QPT_RC, cq, NULL);
	struct ibv_sge s = vt_sge(mr, 0, 8);
	struct ibv_qp_attr sqd = { .qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1 };
	struct ibv_async_event ev;

	vt_connect_pair(a, b);
	CHECK(!ibv_modify_qp(a, &sqd, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY), "RTS to SQD");
	CHECK(!ibv_get_async_event(t->ctx, &ev), "event");
	CHECK(ev.event_type == IBV_EVENT_SQ_DRAINED && ev.element.qp == a, "event %d", ev.event_type);
	ibv_ack_async_event(&ev);
	CHECK(!vt_recv(b, 1, s) && !vt_send(a, 2, s, IBV_SEND_SIGNALED), "posting in SQD");
	vt_none(cq);
	CHECK(!vt_to(a, IBV_QPS_RTS), "SQD to RTS");
	CHECK(vt_wait(cq).wr_id + vt_wait(cq).wr_id == 3, "what was held went out");
	CHECK(!vt_recv(b, 3, s) && !vt_send(a, 4, s, 0), "and on");
	vt_expect(cq, 3, IBV_WC_SUCCESS);
	CHECK(!ibv_destroy_qp(a) && !ibv_destroy_qp(b) && !ibv_dereg_mr(mr), "destroy");
}

static void refuses(struct vt *t, struct ibv_cq *cq)
{
	struct ibv_qp_init_attr a = { .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
				      .cap = { .max_send_wr = 1 << 20, .max_send_sge = 1 } };
	struct ibv_device_attr d;
	CHECK(!ibv_query_device(t->ctx, &d), "query");
	CHECK(!ibv_create_qp(t->pd, &a) && errno == EINVAL, "too many requests");
	a.cap.max_send_wr = 4;
	a.cap.max_send_sge = (uint32_t)d.max_sge + 1;
	CHECK(!ibv_create_qp(t->pd, &a) && errno == EINVAL, "too many segments");
	a.cap.max_send_sge = 1;
	a.cap.max_inline_data = 1 << 20;
	CHECK(!ibv_create_qp(t->pd, &a) && errno == EINVAL, "too much inline");
	a.cap.max_inline_data = 0;
	a.send_cq = NULL;
	CHECK(!ibv_create_qp(t->pd, &a) && errno == EINVAL, "no CQ");
	a.send_cq = cq;
	a.qp_type = IBV_QPT_RAW_PACKET;
	CHECK(!ibv_create_qp(t->pd, &a) && errno == EOPNOTSUPP, "raw packets");
	a.qp_type = IBV_QPT_RC;
	struct ibv_qp *qp = ibv_create_qp(t->pd, &a);
	CHECK(qp, "create");
	CHECK(ibv_destroy_cq(cq) == EBUSY, "the CQ is in use");
	CHECK(ibv_dealloc_pd(t->pd) == EBUSY, "the PD is in use");
	CHECK(!ibv_destroy_qp(qp), "destroy");
	CHECK(!ibv_create_cq(t->ctx, 0, NULL, NULL, 0) && errno == EINVAL, "CQ of no entries");
	CHECK(!ibv_create_cq(t->ctx, d.max_cqe + 1, NULL, NULL, 0) && errno == EINVAL, "CQ too large");
	CHECK(!ibv_create_cq(t->ctx, 1, NULL, NULL, 99) && errno == EINVAL, "completion vector");
}

/* Objects in use cannot be destroyed, and invalid arguments are refused. */
static void refuses_objects(struct vt *t, struct ibv_cq *cq)
{
	static _Alignas(4096) char buf[8192];
	struct ibv_parent_domain_init_attr pa = { .pd = t->pd };
	struct ibv_pd *pd = ibv_alloc_pd(t->ctx);
	struct ibv_alloc_dm_attr da = { .length = 64 };
	struct ibv_modify_cq_attr mc = { .attr_mask = IBV_CQ_ATTR_MODERATE, .moderate = { 4, 4 } };
	struct ibv_cq_init_attr_ex ce = { .cqe = 8, .wc_flags = IBV_WC_EX_WITH_FLOW_TAG };
	struct ibv_srq_init_attr sa = { .attr = { .max_wr = 8, .max_sge = 1 } };
	struct ibv_srq_attr limit = { .srq_limit = 8 };
	char eight[8] = "";

	CHECK(pd, "alloc_pd");
	pa.pd = pd;
	struct ibv_pd *parent = ibv_alloc_parent_domain(t->ctx, &pa);
	CHECK(parent && ibv_dealloc_pd(pd) == EBUSY, "the domain of a parent domain");
	CHECK(!ibv_dealloc_pd(parent) && !ibv_dealloc_pd(pd), "dealloc_pd");
	CHECK(!ibv_reg_mr(t->pd, buf, 64, IBV_ACCESS_REMOTE_WRITE), "remote write without local write");
	CHECK(!ibv_reg_mr(t->pd, buf, 64, 1 << 19), "an unknown right");
	CHECK(!ibv_reg_mr(t->pd, (void *)64, 64, 0), "memory that is not there");
	struct ibv_dm *dm = ibv_alloc_dm(t->ctx, &da);
	CHECK(dm, "alloc_dm");
	CHECK(ibv_memcpy_to_dm(dm, 60, eight, 8) && ibv_memcpy_to_dm(dm, 2, eight, 4),
	      "device memory beyond its end, parts of words");
	CHECK(!ibv_reg_dm_mr(t->pd, dm, 32, 64, IBV_ACCESS_ZERO_BASED), "a region beyond device memory");
	struct ibv_mr *one = ibv_reg_dm_mr(t->pd, dm, 0, 64, IBV_ACCESS_ZERO_BASED | IBV_ACCESS_LOCAL_WRITE);
	struct ibv_mr *two = ibv_reg_dm_mr(t->pd, dm, 32, 32, IBV_ACCESS_ZERO_BASED);
	CHECK(one && two && ibv_free_dm(dm) == EBUSY, "device memory with regions");
	CHECK(ibv_rereg_mr(one, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, buf, 64, 0) == IBV_REREG_MR_ERR_INPUT,
	      "a region of device memory that becomes one of other memory");
	CHECK(!ibv_dereg_mr(one) && ibv_free_dm(dm) == EBUSY && !ibv_dereg_mr(two), "device memory with a region");
	CHECK(!ibv_free_dm(dm), "free_dm");
	CHECK(shca_free(t->ctx, buf) == EINVAL, "memory of the program's own");
	CHECK(ibv_resize_cq(cq, (1 << 22) + 1) == EINVAL, "a CQ beyond the device's limit");
	CHECK(!ibv_modify_cq(cq, &mc), "moderation: no event is held back");
	mc.attr_mask |= 2;
	CHECK(ibv_modify_cq(cq, &mc) == EINVAL, "an unknown attribute");
	CHECK(!ibv_create_cq_ex(t->ctx, &ce), "completion fields that nobody keeps");
	struct ibv_srq *srq = ibv_create_srq(t->pd, &sa);
	CHECK(srq && ibv_modify_srq(srq, &limit, IBV_SRQ_LIMIT) == EINVAL, "a limit beyond the queue");
	struct ibv_qp_init_attr qa = {
		.send_cq = cq, .recv_cq = cq, .srq = srq, .qp_type = IBV_QPT_RC, .cap = {.max_send_wr = 1}};
	struct ibv_qp *qp = ibv_create_qp(t->pd, &qa);
	CHECK(qp && ibv_destroy_srq(srq) == EBUSY, "an SRQ in use");
	CHECK(!ibv_destroy_qp(qp) && !ibv_destroy_srq(srq), "destroy");
}

int main(void)
{
	static const enum ibv_qp_type types[] = { IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD };
	vt_fabric();
	lenient();
	struct vt t = vt_open();
	struct ibv_cq *cq = vt_cq(&t, 256, NULL);
	for (size_t i = 0; i < sizeof types / sizeof *types; i++)
		needs_each(&t, cq, types[i]);
	bad_values(&t, cq);
	query(&t, cq);
	posting(&t, cq);
	drained(&t, cq);
	refuses(&t, cq);
	refuses_objects(&t, cq);
	CHECK(!ibv_destroy_cq(cq), "destroy CQ");
	vt_close(&t);
	return 0;
}
