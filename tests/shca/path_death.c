/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A third party dies at every step of a path migration, or of arming, which the third party carries out for the two ends of a
 * connection.
 *
 *     A    owns the queue T, which is connected to A's queue R by port 2; T holds a WAIT, then a SEND
 *     X    sends, by port 1, the message for which the WAIT waits, so that X runs T, and dies there
 *
 * A completes the work that X has left: the message comes once, both ends have migrated and have their event, or both are ARMED.
 *
 *     path_death [-v]
 */
#include <fcntl.h>
#include <stdlib.h>

#include "third_death.h"

/* T is RC and R its peer; T is an XRC_SEND queue and R belongs to no process. */
enum kind { MIGRATE, MIGRATE_XRC, ARM };
static const char *const kind_name[] = {"port down", "port down, XRC", "arming"};

static const struct {
	const char *name;
	uint32_t kinds;
} points[] = {
	{"path-migrate", 1u << MIGRATE | 1u << MIGRATE_XRC}, {"path-migrated", 1u << MIGRATE | 1u << MIGRATE_XRC},
	{"path-event", 1u << MIGRATE | 1u << MIGRATE_XRC}, {"path-armed", 1u << ARM},
};

static void connect_end(struct ibv_qp *qp, uint32_t dest)
{
	struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT, .port_num = 2};
	struct ibv_qp_attr rtr = {.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_4096, .dest_qp_num = dest, .min_rnr_timer = 1,
				  .max_dest_rd_atomic = 1, .ah_attr = {.dlid = SHCA_LID_2, .port_num = 2}};
	struct ibv_qp_attr rts = {.qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1};
	int of_rtr = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
		     IBV_QP_MIN_RNR_TIMER;
	int of_rts =
		IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;

	CHECK(!shca_modify_qp(qp, &init, IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS));
	CHECK(!shca_modify_qp(qp, &rtr, of_rtr) && !shca_modify_qp(qp, &rts, of_rts));
}

static void load(struct ibv_qp *qp)
{
	struct ibv_qp_attr a = {.alt_ah_attr = {.dlid = SHCA_LID, .port_num = 1}, .alt_port_num = 1, .alt_timeout = 14,
				.path_mig_state = IBV_MIG_REARM};

	CHECK(!shca_modify_qp(qp, &a, IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE));
}

static enum ibv_mig_state state_of(struct ibv_qp *qp, uint8_t port)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr a;

	CHECK(!shca_query_qp(qp, &a, IBV_QP_PATH_MIG_STATE, &init) && a.port_num == port);
	return a.path_mig_state;
}

/* Both ends' events, in any order; a dead thread may have raised one that its successor raises again. */
static void both_events(const struct ibv_qp *t, const struct ibv_qp *to)
{
	unsigned seen = 0;
	struct ibv_async_event ev;

	CHECK(!fcntl(r.ctx->async_fd, F_SETFL, O_NONBLOCK));
	for (int i = 0; seen != 3; rig_nap()) {
		CHECK(i++ < 40000);
		if (shca_get_async_event(r.ctx, &ev))
			continue;
		/* the queue that X was connected to has an event, too */
		if (ev.element.qp == t || ev.element.qp == to)
			CHECK(ev.event_type == IBV_EVENT_PATH_MIG || ev.event_type == IBV_EVENT_COMM_EST);
		if (ev.event_type == IBV_EVENT_PATH_MIG)
			seen |= ev.element.qp == t ? 1 : ev.element.qp == to ? 2 : 4;
		shca_ack_async_event(&ev);
	}
}

static void role_a(void)
{
	struct ibv_exp_send_wr wait = {.exp_opcode = IBV_EXP_WR_CQE_WAIT}, *bad;
	bool xrc = st->kind == MIGRATE_XRC;

	rig_join(&r, st->fabric);
	cq = rig_cq(&r, 32, NULL);
	struct ibv_cq *waited = rig_cq(&r, 4, NULL);
	char *memory = shca_buf_alloc(r.ctx, 128);
	CHECK(memory);
	memset(memory, 5, 64);
	memset(memory + 64, 0, 64);
	struct ibv_mr *mr = shca_reg_mr(r.pd, memory, 128, (uintptr_t)memory, IBV_ACCESS_LOCAL_WRITE);
	CHECK(mr);
	struct rig_qp_attr a = {.type = xrc ? IBV_QPT_XRC_SEND : IBV_QPT_RC, .exp_flags = IBV_EXP_QP_CREATE_CROSS_CHANNEL,
				.scq = cq, .rcq = xrc ? NULL : cq, .send_wr = 16, .recv_wr = xrc ? 0 : 4, .sge = 1};
	struct ibv_qp *t = rig_qp(&r, &a), *to;
	struct ibv_xrcd *xrcd = NULL;
	struct ibv_srq *srq = NULL;
	struct ibv_sge here = {(uintptr_t)memory, 64, mr->lkey}, there = {(uintptr_t)memory + 64, 64, mr->lkey};
	struct ibv_recv_wr recv = {.wr_id = 3, .sg_list = &there, .num_sge = 1}, *rbad;
	struct ibv_send_wr send = {.wr_id = 2, .sg_list = &here, .num_sge = 1, .opcode = IBV_WR_SEND,
				   .send_flags = IBV_SEND_SIGNALED}, *sbad;
	if (xrc) {
		struct ibv_xrcd_init_attr x = {.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
					       .oflags = O_CREAT,
					       .fd = -1};
		xrcd = shca_open_xrcd(r.ctx, &x);
		struct ibv_srq_init_attr_ex s = {
			.attr = {.max_wr = 4, .max_sge = 1}, .srq_type = IBV_SRQT_XRC, .pd = r.pd, .cq = cq, .xrcd = xrcd,
			.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD |
				     IBV_SRQ_INIT_ATTR_CQ,
		};
		struct ibv_qp_init_attr_ex in = {.qp_type = IBV_QPT_XRC_RECV, .comp_mask = IBV_QP_INIT_ATTR_XRCD, .xrcd = xrcd};
		srq = shca_create_srq_ex(r.ctx, &s);
		to = shca_create_qp_ex(r.ctx, &in);
		CHECK(srq && to && !shca_get_srq_num(srq, &send.qp_type.xrc.remote_srqn) &&
		      !shca_post_srq_recv(srq, &recv, &rbad));
	} else {
		a.exp_flags = 0;
		to = rig_qp(&r, &a);
	}
	connect_end(t, to->qp_num);
	connect_end(to, t->qp_num);
	if (!xrc)
		CHECK(!shca_post_recv(to, &recv, &rbad));
	load(t);
	if (st->kind != ARM)
		load(to);
	struct ibv_qp *u = rig_meet(&r, waited, &st->xa, 0, 2);
	struct ibv_recv_wr wr = {.wr_id = 4};
	CHECK(!shca_post_recv(u, &wr, &rbad));
	wait.task.cqe_wait.cq = waited;
	wait.task.cqe_wait.cq_count = 1;
	CHECK(!shca_exp_post_send(t, &wait, &bad) && !shca_post_send(t, &send, &sbad));
	if (st->kind == ARM) {
		/* both ends are REARM, and no packet has told either of the other */
		atomic_store(&shca_port_of(r.m, 2)->down, 1);
		load(to);
		CHECK(state_of(t, 2) == IBV_MIG_REARM && state_of(to, 2) == IBV_MIG_REARM);
		atomic_store(&shca_port_of(r.m, 2)->down, 0);
	} else {
		CHECK(state_of(t, 2) == IBV_MIG_ARMED && state_of(to, 2) == IBV_MIG_ARMED);
		atomic_store(&shca_port_of(r.m, 2)->down, 1);
	}
	shca_ports_changed(r.m);
	atomic_store(&st->posted, 1);
	rig_await(&st->dead, 1);
	unsigned got = 0;
	struct ibv_wc wc;
	for (int i = 0; got != (1u << 2 | 1u << 3); rig_nap()) {
		CHECK(i++ < 40000);
		if (shca_poll_cq(cq, 1, &wc) != 1)
			continue;
		CHECK(wc.status == IBV_WC_SUCCESS && (wc.wr_id == 2 || wc.wr_id == 3) && !(got & 1u << wc.wr_id));
		got |= 1u << wc.wr_id;
	}
	CHECK(!memcmp(memory, memory + 64, 64));
	if (st->kind == ARM) {
		CHECK(state_of(t, 2) == IBV_MIG_ARMED && state_of(to, 2) == IBV_MIG_ARMED);
	} else {
		CHECK(state_of(t, 1) == IBV_MIG_MIGRATED && state_of(to, 1) == IBV_MIG_MIGRATED);
		both_events(t, to);
	}
	CHECK(!shca_destroy_qp(t) && !shca_destroy_qp(to) && !shca_destroy_qp(u) && (!srq || !shca_destroy_srq(srq)) &&
	      (!xrcd || !shca_close_xrcd(xrcd)) && !shca_destroy_cq(cq) && !shca_destroy_cq(waited));
	CHECK(!shca_dereg_mr(mr) && !shca_buf_free(r.ctx, memory));
	rig_leave(&r);
}

int main(int argc, char **argv)
{
	bool verbose = argc > 1 && !strcmp(argv[1], "-v");
	unsigned failed = 0, passed = 0;

	third_setup();
	setenv("SHCA_PORTS", "2", 1);
	for (unsigned i = 0; i < ARRAY_SIZE(points); i++)
		for (enum kind k = MIGRATE; k <= ARM; k++) {
			/* at the first end, and at the second one */
			for (unsigned after = 0; points[i].kinds & 1u << k && after < (k == ARM ? 1u : 2u); after++) {
				bool good = third_dies("path_death", role_a, k, points[i].name, -1, after);
				passed += good;
				failed += !good;
				if (!good || verbose)
					printf("%s: %s, %s, end %u\n", good ? "ok" : "FAIL", points[i].name, kind_name[k],
					       after + 1);
			}
		}
	printf("%u passed, %u failed\n", passed, failed);
	return failed || !passed;
}
