/* SPDX-License-Identifier: BSD-3-Clause */
/* The manual's chapter 6 by the table of docs/shca.md: each completion status that can arise is provoked, with the state and the
 * event that go with it at either end; and the events of queues that no other test has. */
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <infiniband/verbs_exp.h>

#include "vt.h"

static struct vt t;
static char mem[8192];
static struct ibv_mr *mr;
static struct ibv_cq *scq, *rcq;
static uint32_t provoked;		/* bit per status */

static struct ibv_wc completion(struct ibv_cq *cq, uint64_t wr_id, enum ibv_wc_status status, const struct ibv_qp *qp)
{
	struct ibv_wc wc = vt_expect(cq, wr_id, status);

	CHECK(wc.qp_num == qp->qp_num, "queue pair %#x, not %#x", wc.qp_num, qp->qp_num);
	/* a program may rely on 0 for success, and on something to print for the rest */
	CHECK((wc.vendor_err != 0) == (status != IBV_WC_SUCCESS) && wc.vendor_err < 0x100, "vendor_err %#x of %s", wc.vendor_err,
	      ibv_wc_status_str(status));
	provoked |= 1u << status;
	return wc;
}

/* The next event is this one, of this object, and the last. */
static void event_is(enum ibv_event_type type, const void *element)
{
	struct pollfd p = { .fd = t.ctx->async_fd, .events = POLLIN };
	struct ibv_async_event ev;

	CHECK(poll(&p, 1, 60000) == 1 && !ibv_get_async_event(t.ctx, &ev), "no event, %s expected", ibv_event_type_str(type));
	CHECK(ev.event_type == type && (const void *)ev.element.qp == element, "%s, expected %s",
	      ibv_event_type_str(ev.event_type), ibv_event_type_str(type));
	ibv_ack_async_event(&ev);
}

static void no_event(void)
{
	struct pollfd p = { .fd = t.ctx->async_fd, .events = POLLIN };

	CHECK(poll(&p, 1, 0) == 0, "an event");
}

struct pair {
	struct ibv_qp *a, *b;
};

static struct pair connected(void)
{
	struct ibv_qp_init_attr i = { .send_cq = scq, .recv_cq = rcq, .qp_type = IBV_QPT_RC,
				      .cap = { .max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 2, .max_recv_sge = 2 } };
	struct pair p = { ibv_create_qp(t.pd, &i), ibv_create_qp(t.pd, &i) };
	struct ibv_qp_attr rts = vt_rts_attr();

	CHECK(p.a && p.b && !vt_init(p.a) && !vt_init(p.b), "create");
	rts.rnr_retry = 1;
	vt_rtr_rts(p.a, p.b->qp_num, rts);
	vt_rtr_rts(p.b, p.a->qp_num, rts);
	return p;
}

static void gone(struct pair p)
{
	CHECK(!ibv_destroy_qp(p.a) && !ibv_destroy_qp(p.b), "destroy");
	vt_none(scq);
	vt_none(rcq);
	no_event();
}

/* The requester failed with this status: its queue is in ERR without an event, since its completion tells of the error, and later
 * requests are flushed. */
static void requester_failed(struct pair p, enum ibv_wc_status status)
{
	completion(scq, 1, status, p.a);
	CHECK(vt_state(p.a) == IBV_QPS_ERR, "the requester is in state %d after %s", vt_state(p.a), ibv_wc_status_str(status));
	CHECK(!vt_send(p.a, 2, vt_sge(mr, 0, 8), 0) && !vt_recv(p.a, 3, vt_sge(mr, 0, 8)), "posts to a queue in error");
	completion(scq, 2, IBV_WC_WR_FLUSH_ERR, p.a);
	completion(rcq, 3, IBV_WC_WR_FLUSH_ERR, p.a);
}

/* The responder's side: in error, with this event; or untouched. */
static void responder_failed(struct pair p, enum ibv_event_type event)
{
	CHECK(vt_state(p.b) == IBV_QPS_ERR, "the responder is in state %d", vt_state(p.b));
	event_is(event, p.b);
}
static void responder_well(struct pair p)
{
	CHECK(vt_state(p.b) == IBV_QPS_RTS, "the responder is in state %d", vt_state(p.b));
	no_event();
}

/* Depths of 0 for READs and atomics: at the requester they fail before anything is sent, at the responder they are no valid
 * request. Other requests go. */
static void no_depth(bool initiator)
{
	static const enum ibv_wr_opcode ops[] = {IBV_WR_RDMA_READ, IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_ATOMIC_CMP_AND_SWP,
						 IBV_WR_RDMA_READ};

	for (unsigned i = 0; i < 4; i++) {
		struct ibv_qp_init_attr a = { .send_cq = scq, .recv_cq = rcq, .qp_type = IBV_QPT_RC,
					      .cap = { .max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 2,
						       .max_recv_sge = 2 } };
		struct pair p = { ibv_create_qp(t.pd, &a), ibv_create_qp(t.pd, &a) };
		struct ibv_qp_attr rtr_a = vt_rtr_attr(p.b->qp_num), rtr_b = vt_rtr_attr(p.a->qp_num), rts = vt_rts_attr();
		rtr_b.max_dest_rd_atomic = initiator;
		CHECK(!vt_init(p.a) && !vt_init(p.b) && !ibv_modify_qp(p.a, &rtr_a, VT_RTR_RC) &&
			      !ibv_modify_qp(p.b, &rtr_b, VT_RTR_RC),
		      "RTR");
		CHECK(!ibv_modify_qp(p.b, &rts, VT_RTS_RC), "RTS");
		rts.max_rd_atomic = !initiator;
		CHECK(!ibv_modify_qp(p.a, &rts, VT_RTS_RC), "RTS");
		CHECK(!vt_rdma(p.a, IBV_WR_RDMA_WRITE, 1, vt_sge(mr, 0, 8), (uintptr_t)mem + 64, mr->rkey), "write");
		completion(scq, 1, IBV_WC_SUCCESS, p.a);
		/* the other direction has its own depths */
		CHECK(!vt_rdma(p.b, IBV_WR_RDMA_READ, 2, vt_sge(mr, 0, 8), (uintptr_t)mem + 64, mr->rkey), "read");
		completion(scq, 2, IBV_WC_SUCCESS, p.b);
		memset(mem + 64, 0, 8);
		struct ibv_sge s = vt_sge(mr, 0, 8);
		struct ibv_send_wr wr = { .wr_id = 3, .sg_list = &s, .num_sge = i < 3, .opcode = ops[i],
					  .send_flags = IBV_SEND_SIGNALED }, *bad;
		if (ops[i] == IBV_WR_RDMA_READ)
			wr.wr.rdma.remote_addr = (uintptr_t)mem + 64, wr.wr.rdma.rkey = mr->rkey;
		else
			wr.wr.atomic.remote_addr = (uintptr_t)mem + 64, wr.wr.atomic.rkey = mr->rkey,
			wr.wr.atomic.compare_add = 1;
		CHECK(!ibv_post_send(p.a, &wr, &bad), "post");
		completion(scq, 3, initiator ? IBV_WC_LOC_QP_OP_ERR : IBV_WC_REM_INV_REQ_ERR, p.a);
		CHECK(!mem[64], "the atomic has been carried out");
		if (!initiator)
			event_is(IBV_EVENT_QP_REQ_ERR, p.b);
		CHECK(!ibv_destroy_qp(p.a) && !ibv_destroy_qp(p.b), "destroy");
		no_event();
	}
}

static void of_requests(void)
{
	struct pair p = connected();
	struct ibv_sge s = vt_sge(mr, 0, 8);

	CHECK(!vt_recv(p.b, 4, vt_sge(mr, 64, 8)) && !vt_send(p.a, 1, s, IBV_SEND_SIGNALED), "post");
	completion(scq, 1, IBV_WC_SUCCESS, p.a);
	completion(rcq, 4, IBV_WC_SUCCESS, p.b);
	responder_well(p);
	/* a local error does not reach the responder */
	s.lkey ^= 0x5500;
	CHECK(!vt_send(p.a, 1, s, 0), "post");
	requester_failed(p, IBV_WC_LOC_PROT_ERR);
	responder_well(p);
	gone(p);

	p = connected();
	CHECK(!vt_rdma(p.a, IBV_WR_RDMA_WRITE, 1, vt_sge(mr, 0, 8), (uintptr_t)mem, mr->rkey ^ 0x5500), "post");
	requester_failed(p, IBV_WC_REM_ACCESS_ERR);
	responder_failed(p, IBV_EVENT_QP_ACCESS_ERR);
	gone(p);

	p = connected();
	struct ibv_sge r = vt_sge(mr, 0, 8);
	struct ibv_send_wr wr = { .wr_id = 1, .sg_list = &r, .num_sge = 1, .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
				  .wr.atomic = { .remote_addr = (uintptr_t)mem + 1025, .rkey = mr->rkey } }, *bad;
	CHECK(!ibv_post_send(p.a, &wr, &bad), "post");
	requester_failed(p, IBV_WC_REM_INV_REQ_ERR);
	responder_failed(p, IBV_EVENT_QP_REQ_ERR);
	gone(p);
}

static void of_receives(void)
{
	struct pair p = connected();

	/* too short: the responder's later receives are flushed */
	CHECK(!vt_recv(p.b, 4, vt_sge(mr, 64, 4)) && !vt_recv(p.b, 5, vt_sge(mr, 64, 8)), "receives");
	CHECK(!vt_send(p.a, 1, vt_sge(mr, 0, 8), 0), "post");
	completion(rcq, 4, IBV_WC_LOC_LEN_ERR, p.b);
	completion(rcq, 5, IBV_WC_WR_FLUSH_ERR, p.b);
	requester_failed(p, IBV_WC_REM_INV_REQ_ERR);
	responder_failed(p, IBV_EVENT_QP_FATAL);
	gone(p);

	p = connected();
	struct ibv_sge s = vt_sge(mr, 64, 8);
	s.lkey ^= 0x5500;
	CHECK(!vt_recv(p.b, 4, s) && !vt_send(p.a, 1, vt_sge(mr, 0, 8), 0), "post");
	completion(rcq, 4, IBV_WC_LOC_PROT_ERR, p.b);
	requester_failed(p, IBV_WC_REM_OP_ERR);
	responder_failed(p, IBV_EVENT_QP_FATAL);
	gone(p);

	/* no receive, and no responder: the responder gets no completion */
	p = connected();
	CHECK(!vt_send(p.a, 1, vt_sge(mr, 0, 8), 0), "post");
	requester_failed(p, IBV_WC_RNR_RETRY_EXC_ERR);
	responder_well(p);
	gone(p);

	p = connected();
	CHECK(!vt_to(p.b, IBV_QPS_ERR) && !vt_send(p.a, 1, vt_sge(mr, 0, 8), 0), "post");
	requester_failed(p, IBV_WC_RETRY_EXC_ERR);
	gone(p);
}

/* A datagram that is longer than the port can send: an error of the requester alone. */
static void of_datagrams(void)
{
	struct ibv_qp *ud = vt_qp(&t, IBV_QPT_UD, scq, NULL);
	struct ibv_ah_attr at = { .dlid = 1, .port_num = 1 };
	struct ibv_ah *ah = ibv_create_ah(t.pd, &at);
	struct ibv_sge s = vt_sge(mr, 0, 4097);
	struct ibv_send_wr wr = { .wr_id = 1, .sg_list = &s, .num_sge = 1, .opcode = IBV_WR_SEND,
				  .wr.ud = { .ah = ah, .remote_qpn = ud->qp_num, .remote_qkey = VT_QKEY } }, *bad;

	CHECK(ah, "create_ah");
	vt_connect(ud, 0);
	CHECK(!ibv_post_send(ud, &wr, &bad), "post");
	completion(scq, 1, IBV_WC_LOC_LEN_ERR, ud);
	CHECK(vt_state(ud) == IBV_QPS_ERR, "state %d", vt_state(ud));
	no_event();
	CHECK(!ibv_destroy_qp(ud) && !ibv_destroy_ah(ah), "destroy");
}

/* A WAIT for a completion queue from which nothing comes any more. */
static void of_waits(void)
{
	struct ibv_cq *small = vt_cq(&t, 8, NULL);
	struct ibv_qp *filler = vt_qp(&t, IBV_QPT_RC, small, NULL);
	struct ibv_exp_qp_init_attr i = {
		.send_cq = scq, .recv_cq = rcq, .qp_type = IBV_QPT_RC, .pd = t.pd,
		.exp_create_flags = IBV_EXP_QP_CREATE_CROSS_CHANNEL,
		.comp_mask = IBV_EXP_QP_INIT_ATTR_PD | IBV_EXP_QP_INIT_ATTR_CREATE_FLAGS,
		.cap = { .max_send_wr = 4, .max_recv_wr = 4 },
	};
	struct ibv_qp *q = ibv_exp_create_qp(t.ctx, &i);
	struct ibv_exp_send_wr wait = { .wr_id = 1, .exp_opcode = IBV_EXP_WR_CQE_WAIT,
					.task.cqe_wait = { .cq = small, .cq_count = 100 } }, *bad;

	CHECK(q, "ibv_exp_create_qp");
	vt_connect(q, q->qp_num);
	CHECK(!ibv_exp_post_send(q, &wait, &bad), "WAIT");
	CHECK(!vt_init(filler), "INIT");
	for (int n = 0; n <= small->cqe; n++)
		CHECK(!vt_recv(filler, 0, vt_sge(mr, 0, 8)), "receive");
	CHECK(!vt_to(filler, IBV_QPS_ERR), "overrun");
	completion(scq, 1, IBV_WC_LOC_QP_OP_ERR, q);
	CHECK(vt_state(q) == IBV_QPS_ERR, "state %d", vt_state(q));
	event_is(IBV_EVENT_CQ_ERR, small);
	no_event();
	CHECK(!ibv_destroy_qp(q) && !ibv_destroy_qp(filler) && !ibv_destroy_cq(small), "destroy");
}

/* An XRC shared receive queue with an overrun completion queue; the queue pairs serve other SRQs and go on. */
static void srq_error(void)
{
	struct ibv_xrcd_init_attr xa = {.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
					.fd = -1,
					.oflags = O_CREAT};
	struct ibv_xrcd *xrcd = ibv_open_xrcd(t.ctx, &xa);
	struct ibv_cq *small = vt_cq(&t, 8, NULL);
	struct ibv_srq_init_attr_ex sa = {
		.attr = { .max_wr = 32, .max_sge = 1 }, .srq_type = IBV_SRQT_XRC, .pd = t.pd, .xrcd = xrcd, .cq = small,
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
	};
	struct ibv_srq *srq = ibv_create_srq_ex(t.ctx, &sa);
	struct ibv_qp_init_attr_ex ra = { .qp_type = IBV_QPT_XRC_RECV, .comp_mask = IBV_QP_INIT_ATTR_XRCD, .xrcd = xrcd };
	struct ibv_qp *to = ibv_create_qp_ex(t.ctx, &ra);
	struct ibv_qp *from = vt_qp(&t, IBV_QPT_XRC_SEND, scq, NULL);
	uint32_t number;

	CHECK(xrcd && srq && to && !ibv_get_srq_num(srq, &number), "XRC");
	vt_connect_pair(to, from);
	for (int n = 0; n <= small->cqe; n++) {
		struct ibv_sge s = vt_sge(mr, 0, 8);
		struct ibv_send_wr wr = { .wr_id = 1, .sg_list = &s, .num_sge = 1, .opcode = IBV_WR_SEND,
					  .qp_type.xrc.remote_srqn = number }, *bad;
		CHECK(!vt_srq_recv(srq, 0, vt_sge(mr, 64, 8)) && !ibv_post_send(from, &wr, &bad), "post");
	}
	completion(scq, 1, IBV_WC_REM_OP_ERR, from);
	event_is(IBV_EVENT_CQ_ERR, small);
	event_is(IBV_EVENT_SRQ_ERR, srq);
	no_event();
	CHECK(vt_state(to) == IBV_QPS_RTS, "the receiving queue pair is in state %d", vt_state(to));
	CHECK(!ibv_destroy_qp(from) && !ibv_destroy_qp(to) && !ibv_destroy_srq(srq) && !ibv_destroy_cq(small) &&
		      !ibv_close_xrcd(xrcd),
	      "destroy");
}

static bool acked;
static void *acker(void *arg)
{
	struct timespec ts = { .tv_nsec = 20000000 };

	nanosleep(&ts, NULL);
	__atomic_store_n(&acked, true, __ATOMIC_SEQ_CST);
	ibv_ack_async_event(arg);
	return NULL;
}

/* An object is not destroyed before its event is acknowledged; those of ports need none. */
static void acknowledged(void)
{
	struct pair p = connected();
	struct ibv_async_event ev;
	pthread_t th;

	CHECK(!vt_rdma(p.a, IBV_WR_RDMA_WRITE, 1, vt_sge(mr, 0, 8), 0, 0x123400), "post");
	completion(scq, 1, IBV_WC_REM_ACCESS_ERR, p.a);
	CHECK(!ibv_get_async_event(t.ctx, &ev) && ev.element.qp == p.b, "event");
	CHECK(!pthread_create(&th, NULL, acker, &ev), "thread");
	CHECK(!ibv_destroy_qp(p.b) && __atomic_load_n(&acked, __ATOMIC_SEQ_CST), "destroyed before its event was acknowledged");
	pthread_join(th, NULL);
	CHECK(!ibv_destroy_qp(p.a), "destroy");
	no_event();
	ev = (struct ibv_async_event){ .event_type = IBV_EVENT_PORT_ERR, .element.port_num = 1 };
	ibv_ack_async_event(&ev);
}

int main(void)
{
	const uint32_t can = 1u << IBV_WC_SUCCESS | 1u << IBV_WC_LOC_LEN_ERR | 1u << IBV_WC_LOC_QP_OP_ERR |
			     1u << IBV_WC_LOC_PROT_ERR | 1u << IBV_WC_WR_FLUSH_ERR | 1u << IBV_WC_REM_INV_REQ_ERR |
			     1u << IBV_WC_REM_ACCESS_ERR | 1u << IBV_WC_REM_OP_ERR | 1u << IBV_WC_RETRY_EXC_ERR |
			     1u << IBV_WC_RNR_RETRY_EXC_ERR;

	vt_fabric();
	t = vt_open();
	mr = vt_mr(&t, mem, sizeof mem, VT_ACCESS);
	scq = vt_cq(&t, 256, NULL);
	rcq = vt_cq(&t, 256, NULL);
	of_requests();
	no_depth(true);
	no_depth(false);
	of_receives();
	of_datagrams();
	of_waits();
	srq_error();
	acknowledged();
	CHECK(provoked == can, "statuses %#x were provoked, docs/shca.md has %#x", provoked, can);
	CHECK(!ibv_destroy_cq(scq) && !ibv_destroy_cq(rcq) && !ibv_dereg_mr(mr), "destroy");
	vt_close(&t);
	return 0;
}
