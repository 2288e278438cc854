/* SPDX-License-Identifier: BSD-3-Clause */
/* Completion channels and asynchronous events: they wake poll(2), come once, go to the right context, and hold back
 * the destruction of their object until they are acknowledged. */
#include <fcntl.h>
#include <pthread.h>

#include "vt.h"

static char buf[4096];
static struct ibv_mr *mr;

static bool readable(int fd, int ms)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	int n = poll(&p, 1, ms);
	CHECK(n >= 0, "poll");
	return n > 0;
}

static struct ibv_cq *cq_event(struct ibv_comp_channel *ch)
{
	struct ibv_cq *cq;
	void *context;
	CHECK(readable(ch->fd, 60000), "the channel's descriptor does not wake");
	CHECK(!ibv_get_cq_event(ch, &cq, &context), "ibv_get_cq_event");
	CHECK(context == cq->cq_context, "cq_context");
	ibv_ack_cq_events(cq, 1);
	return cq;
}

static void channel(struct vt *t)
{
	struct ibv_comp_channel *ch = ibv_create_comp_channel(t->ctx);
	CHECK(ch, "create_comp_channel");
	struct ibv_cq *s = vt_cq(t, 64, ch), *r = vt_cq(t, 64, ch);
	struct ibv_qp_init_attr i = { .send_cq = s, .recv_cq = r, .qp_type = IBV_QPT_RC,
				      .cap = { .max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 1,
						.max_recv_sge = 1 } };
	struct ibv_qp *a = ibv_create_qp(t->pd, &i), *b = ibv_create_qp(t->pd, &i);
	CHECK(a && b, "create");
	vt_connect_pair(a, b);
	CHECK(ibv_destroy_comp_channel(ch) == EBUSY, "the channel is in use");
	fcntl(ch->fd, F_SETFL, fcntl(ch->fd, F_GETFL) | O_NONBLOCK);

	/* not armed: no event */
	CHECK(!vt_recv(b, 1, vt_sge(mr, 0, 8)) && !vt_send(a, 2, vt_sge(mr, 8, 8), IBV_SEND_SIGNALED), "post");
	vt_expect(r, 1, IBV_WC_SUCCESS);
	vt_expect(s, 2, IBV_WC_SUCCESS);
	CHECK(!readable(ch->fd, 0), "an event without arming");
	struct ibv_cq *none;
	void *context;
	CHECK(ibv_get_cq_event(ch, &none, &context) == -1 && errno == EAGAIN, "nonblocking");

	/* armed: one event a CQ, and only one */
	CHECK(!ibv_req_notify_cq(r, 0) && !ibv_req_notify_cq(s, 0), "arm");
	for (int n = 0; n < 3; n++)
		CHECK(!vt_recv(b, 3, vt_sge(mr, 0, 8)) && !vt_send(a, 4, vt_sge(mr, 8, 8), IBV_SEND_SIGNALED), "post");
	struct ibv_cq *e1 = cq_event(ch), *e2 = cq_event(ch);
	CHECK((e1 == s && e2 == r) || (e1 == r && e2 == s), "one event of each");
	CHECK(ibv_get_cq_event(ch, &none, &context) == -1 && errno == EAGAIN, "a third event");
	for (int n = 0; n < 3; n++) {
		vt_expect(r, 3, IBV_WC_SUCCESS);
		vt_expect(s, 4, IBV_WC_SUCCESS);
	}

	/* solicited only */
	CHECK(!ibv_req_notify_cq(r, 1), "arm");
	CHECK(!vt_recv(b, 5, vt_sge(mr, 0, 8)) && !vt_send(a, 6, vt_sge(mr, 8, 8), 0), "post");
	vt_expect(r, 5, IBV_WC_SUCCESS);
	CHECK(!readable(ch->fd, 0), "an event of an unsolicited message");
	CHECK(!vt_recv(b, 7, vt_sge(mr, 0, 8)) && !vt_send(a, 8, vt_sge(mr, 8, 8), IBV_SEND_SOLICITED), "post");
	CHECK(cq_event(ch) == r, "solicited");
	vt_expect(r, 7, IBV_WC_SUCCESS);
	/* an error is an event for solicited waiters, too */
	CHECK(!ibv_req_notify_cq(r, 1) && !vt_recv(b, 9, vt_sge(mr, 0, 8)) && !vt_to(b, IBV_QPS_ERR), "error");
	CHECK(cq_event(ch) == r, "flushed");
	vt_expect(r, 9, IBV_WC_WR_FLUSH_ERR);
	CHECK(!ibv_destroy_qp(a) && !ibv_destroy_qp(b) && !ibv_destroy_cq(s) && !ibv_destroy_cq(r), "destroy");
	CHECK(!ibv_destroy_comp_channel(ch), "destroy");
}

static void *acker(void *arg)
{
	struct timespec ts = { .tv_nsec = 50000000 };
	nanosleep(&ts, NULL);
	__atomic_store_n((bool *)((void **)arg)[1], true, __ATOMIC_SEQ_CST);
	ibv_ack_cq_events(((void **)arg)[0], 1);
	return NULL;
}

/* destroy waits for the acknowledgement. */
static void unacknowledged(struct vt *t)
{
	struct ibv_comp_channel *ch = ibv_create_comp_channel(t->ctx);
	struct ibv_cq *cq = vt_cq(t, 64, ch), *got;
	struct ibv_qp *qp = vt_qp(t, IBV_QPT_RC, cq, NULL);
	void *context;
	bool acked = false;
	vt_connect(qp, qp->qp_num);
	CHECK(!ibv_req_notify_cq(cq, 0) && !vt_recv(qp, 1, vt_sge(mr, 0, 8)) && !vt_to(qp, IBV_QPS_ERR), "event");
	CHECK(!ibv_get_cq_event(ch, &got, &context) && got == cq, "get");
	CHECK(!ibv_destroy_qp(qp), "destroy QP");
	pthread_t th;
	void *arg[2] = { cq, &acked };
	CHECK(!pthread_create(&th, NULL, acker, arg), "thread");
	CHECK(!ibv_destroy_cq(cq), "destroy CQ");
	CHECK(__atomic_load_n(&acked, __ATOMIC_SEQ_CST), "destroyed before the event was acknowledged");
	pthread_join(th, NULL);
	CHECK(!ibv_destroy_comp_channel(ch), "destroy");
}

static struct ibv_async_event async_event(struct ibv_context *ctx, enum ibv_event_type type)
{
	struct ibv_async_event ev;
	CHECK(readable(ctx->async_fd, 60000), "async_fd does not wake");
	CHECK(!ibv_get_async_event(ctx, &ev), "ibv_get_async_event");
	CHECK(ev.event_type == type, "event %s, expected %s", ibv_event_type_str(ev.event_type),
			ibv_event_type_str(type));
	return ev;
}

static void srq_limit(struct vt *t)
{
	struct ibv_srq_init_attr i = { .attr = { .max_wr = 16, .max_sge = 1 } };
	struct ibv_srq *srq = ibv_create_srq(t->pd, &i);
	CHECK(srq && i.attr.max_wr >= 16, "create_srq");
	struct ibv_cq *cq = vt_cq(t, 64, NULL);
	struct ibv_qp *a = vt_qp(t, IBV_QPT_RC, cq, NULL), *b = vt_qp(t, IBV_QPT_RC, cq, srq);
	vt_connect_pair(a, b);
	CHECK(ibv_destroy_srq(srq) == EBUSY, "the SRQ is in use");
	CHECK(vt_recv(b, 1, vt_sge(mr, 0, 8)) == EINVAL, "a receive on a QP with SRQ");
	for (uint64_t n = 0; n < 8; n++)
		CHECK(!vt_srq_recv(srq, n, vt_sge(mr, 0, 8)), "post");
	struct ibv_srq_attr at = { .srq_limit = 6 };
	CHECK(!ibv_modify_srq(srq, &at, IBV_SRQ_LIMIT), "arm");
	CHECK(!ibv_query_srq(srq, &at) && at.srq_limit == 6 && at.max_wr >= 16, "limit %u", at.srq_limit);
	for (uint64_t n = 0; n < 2; n++) {
		CHECK(!vt_send(a, 10, vt_sge(mr, 8, 8), 0), "send");
		vt_expect(cq, n, IBV_WC_SUCCESS);
		CHECK(!readable(t->ctx->async_fd, 0), "the limit is not crossed yet");
	}
	CHECK(!vt_send(a, 10, vt_sge(mr, 8, 8), 0), "send");
	vt_expect(cq, 2, IBV_WC_SUCCESS);
	struct ibv_async_event ev = async_event(t->ctx, IBV_EVENT_SRQ_LIMIT_REACHED);
	CHECK(ev.element.srq == srq, "srq");
	ibv_ack_async_event(&ev);
	CHECK(!ibv_query_srq(srq, &at) && at.srq_limit == 0, "disarmed after the event");
	CHECK(!vt_send(a, 10, vt_sge(mr, 8, 8), 0), "send");
	vt_expect(cq, 3, IBV_WC_SUCCESS);
	CHECK(!readable(t->ctx->async_fd, 0), "one event only");
	/* armed when the limit is crossed already */
	at.srq_limit = 10;
	CHECK(!ibv_modify_srq(srq, &at, IBV_SRQ_LIMIT), "arm");
	ev = async_event(t->ctx, IBV_EVENT_SRQ_LIMIT_REACHED);
	ibv_ack_async_event(&ev);
	at.srq_limit = 10000;
	CHECK(ibv_modify_srq(srq, &at, IBV_SRQ_LIMIT) == EINVAL, "limit beyond the size");

	/* LAST_WQE_REACHED, for queues with an SRQ */
	CHECK(!vt_to(b, IBV_QPS_ERR), "to ERR");
	ev = async_event(t->ctx, IBV_EVENT_QP_LAST_WQE_REACHED);
	CHECK(ev.element.qp == b, "qp");
	ibv_ack_async_event(&ev);
	vt_none(cq);	/* a shared queue is not flushed */
	CHECK(!ibv_destroy_qp(a) && !ibv_destroy_qp(b) && !ibv_destroy_srq(srq) && !ibv_destroy_cq(cq), "destroy");
}

/* A queue with an SRQ gets IBV_EVENT_QP_LAST_WQE_REACHED once when the queue enters ERR, by any cause, behind the event of that
 * cause; and once more after RESET. Receives that are posted stay in the SRQ for other queues. */
static void last_receive(struct vt *t)
{
	enum { MODIFIED, REQUESTED, RESPONDED, TOO_SHORT, OVERRUN, WAYS };
	struct ibv_srq_init_attr i = {.attr = {.max_wr = 16, .max_sge = 1}};

	for (int way = 0; way < 2 * WAYS; way++) {
		struct ibv_srq *srq = ibv_create_srq(t->pd, &i);
		struct ibv_cq *cq = vt_cq(t, 64, NULL), *small = vt_cq(t, 2, NULL);
		struct ibv_qp *a = vt_qp(t, IBV_QPT_RC, cq, NULL),
			      *b = vt_qp(t, IBV_QPT_RC, way % WAYS == OVERRUN ? small : cq, srq);
		struct ibv_async_event ev;
		bool fatal = way % WAYS >= RESPONDED;

		vt_connect_pair(a, b);
		if (way >= WAYS) {
			CHECK(!vt_to(b, IBV_QPS_ERR), "to ERR");
			ev = async_event(t->ctx, IBV_EVENT_QP_LAST_WQE_REACHED);
			ibv_ack_async_event(&ev);
			CHECK(!vt_to(a, IBV_QPS_RESET) && !vt_to(b, IBV_QPS_RESET) && !readable(t->ctx->async_fd, 0), "RESET");
			vt_connect_pair(a, b);
		}
		for (uint64_t n = 0; n < 12; n++)
			CHECK(!vt_srq_recv(srq, n, vt_sge(mr, 0, 8)), "post");
		switch (way % WAYS) {
		case MODIFIED: CHECK(!vt_to(b, IBV_QPS_ERR), "to ERR"); break;
		case REQUESTED: CHECK(!vt_rdma(b, IBV_WR_RDMA_WRITE, 9, vt_sge(mr, 0, 8), 0, 0x123400), "a wrong key"); break;
		case RESPONDED: CHECK(!vt_rdma(a, IBV_WR_RDMA_WRITE, 9, vt_sge(mr, 0, 8), 0, 0x123400), "a wrong key"); break;
		case TOO_SHORT: CHECK(!vt_send(a, 9, vt_sge(mr, 0, 16), 0), "a message that is too long"); break;
		default:
			for (int n = 0; n <= small->cqe; n++)
				CHECK(!vt_send(a, 9, vt_sge(mr, 0, 8), 0), "a message without room for its completion");
		}
		CHECK(vt_state(b) == IBV_QPS_ERR, "way %d: the state", way);
		/* REQUESTED: one more event, of the peer, which has refused the request */
		for (int events = 0; events < 1 + fatal + (way % WAYS == OVERRUN) + (way % WAYS == REQUESTED); events++) {
			CHECK(readable(t->ctx->async_fd, 60000) && !ibv_get_async_event(t->ctx, &ev), "way %d: event %d", way,
			      events);
			bool last = ev.event_type == IBV_EVENT_QP_LAST_WQE_REACHED;
			CHECK(!last || ev.element.qp == b, "of the queue with the SRQ");
			CHECK(ev.event_type == IBV_EVENT_CQ_ERR || !fatal || ev.element.qp != b || last == (events == 1),
			      "way %d: event %d is %s", way, events, ibv_event_type_str(ev.event_type));
			ibv_ack_async_event(&ev);
		}
		CHECK(!vt_to(b, IBV_QPS_ERR) && !readable(t->ctx->async_fd, 0), "way %d: once only", way);
		CHECK(!ibv_destroy_qp(a) && !ibv_destroy_qp(b) && !ibv_destroy_srq(srq) && !ibv_destroy_cq(cq) &&
			      !ibv_destroy_cq(small),
		      "destroy");
	}
}

/* The first message to a queue in RTR raises IBV_EVENT_COMM_EST; to a queue in RTS, or a later message, no event. */
static void first_message(struct vt *t)
{
	const enum ibv_qp_type types[] = {IBV_QPT_RC, IBV_QPT_UC};
	char *arena = shca_alloc(t->ctx, 4096);
	struct ibv_mr *amr = vt_mr(t, arena, 4096, VT_ACCESS);

	for (int way = 0; way < 12; way++) {
		struct ibv_cq *cq = vt_cq(t, 64, NULL);
		struct ibv_qp *a = vt_qp(t, types[way % 2], cq, NULL), *b = vt_qp(t, types[way % 2], cq, NULL);
		struct ibv_qp_attr rtr = vt_rtr_attr(a->qp_num), rts = vt_rts_attr();
		struct ibv_async_event ev;

		for (int again = 0; again < 2; again++) {
			vt_connect(a, b->qp_num);
			CHECK(!vt_init(b) && !ibv_modify_qp(b, &rtr, vt_rtr_mask(b)), "RTR");
			CHECK(way < 6 || !ibv_modify_qp(b, &rts, vt_rts_mask(b)), "RTS");
			for (int n = 0; n < 3; n++) {
				CHECK(!vt_recv(b, 1, vt_sge(mr, 0, 8)), "receive");
				CHECK(way % 6 < 2 ?
					      !vt_send(a, 2, vt_sge(mr, 8, 8), IBV_SEND_SIGNALED) :
				      way % 6 < 4 ?
					      !vt_rdma(a, IBV_WR_RDMA_WRITE, 2, vt_sge(mr, 8, 8), (uintptr_t)buf, mr->rkey) :
					      !vt_rdma(a, IBV_WR_RDMA_WRITE, 2, vt_sge(amr, 8, 8), (uintptr_t)arena, amr->rkey),
				      "post");
				for (int c = 0; c < (way % 6 < 2 ? 2 : 1); c++)
					CHECK(vt_wait(cq).status == IBV_WC_SUCCESS, "a completion");
				if (way < 6 && n == 0) {
					ev = async_event(t->ctx, IBV_EVENT_COMM_EST);
					CHECK(ev.element.qp == b, "of the queue in RTR");
					ibv_ack_async_event(&ev);
				}
				CHECK(!readable(t->ctx->async_fd, 0), "way %d: once only, message %d", way, n);
				if (way < 6 && n == 1)
					CHECK(!ibv_modify_qp(b, &rts, vt_rts_mask(b)), "RTS");
			}
			CHECK(!vt_to(a, IBV_QPS_RESET) && !vt_to(b, IBV_QPS_RESET), "RESET");
		}
		CHECK(!ibv_destroy_qp(a) && !ibv_destroy_qp(b) && !ibv_destroy_cq(cq), "destroy");
	}
	CHECK(!ibv_dereg_mr(amr) && !shca_free(t->ctx, arena), "free");
}

/* The events that are there, each acknowledged; how many there were of a type and an object. */
static int drain_events(struct ibv_context *ctx, enum ibv_event_type type, const void *object)
{
	struct ibv_async_event ev;
	int n = 0;

	while (readable(ctx->async_fd, 0)) {
		CHECK(!ibv_get_async_event(ctx, &ev), "ibv_get_async_event");
		CHECK(ev.event_type == IBV_EVENT_CQ_ERR || ev.event_type == IBV_EVENT_QP_FATAL, "event %s",
		      ibv_event_type_str(ev.event_type));
		n += ev.event_type == type && (object == NULL || ev.element.cq == object || ev.element.qp == object);
		ibv_ack_async_event(&ev);
	}
	return n;
}

static struct ibv_qp *small_qp(struct vt *t, struct ibv_cq *scq, struct ibv_cq *rcq)
{
	struct ibv_qp_init_attr i = { .send_cq = scq, .recv_cq = rcq, .qp_type = IBV_QPT_RC,
				      .cap = { .max_send_wr = 64, .max_recv_wr = 64, .max_send_sge = 1,
						.max_recv_sge = 1 } };
	struct ibv_qp *qp = ibv_create_qp(t->pd, &i);
	CHECK(qp, "create_qp");
	return qp;
}

/* Completions that fit are delivered and may be polled; a message with a completion that did not fit fails at the sender; every
 * queue of the CQ is in ERR, with an event; polling does not end the CQ's error. */
static void overrun(struct vt *t)
{
	struct ibv_cq *small = vt_cq(t, 8, NULL), *cq = vt_cq(t, 256, NULL);
	struct ibv_qp *a = small_qp(t, cq, cq), *b = small_qp(t, cq, small), *idle = small_qp(t, small, cq);
	struct ibv_qp *bystander = small_qp(t, cq, cq);
	vt_connect_pair(a, b);
	vt_connect_pair(idle, bystander);
	for (int n = 0; n <= small->cqe; n++)
		CHECK(!vt_recv(b, (uint64_t)n, vt_sge(mr, 0, 8)) && !vt_send(a, 2, vt_sge(mr, 8, 8), 0), "post");
	struct ibv_async_event ev;
	int qps = 0, cqs = 0;
	while (qps < 2 || !cqs) {
		CHECK(readable(t->ctx->async_fd, 60000), "an event is missing: %d queues, %d CQs", qps, cqs);
		CHECK(!ibv_get_async_event(t->ctx, &ev), "ibv_get_async_event");
		if (ev.event_type == IBV_EVENT_CQ_ERR) {
			CHECK(ev.element.cq == small && !cqs++, "one event of the CQ");
		} else {
			CHECK(ev.event_type == IBV_EVENT_QP_FATAL && (ev.element.qp == b || ev.element.qp == idle) && qps++ < 2,
			      "%s", ibv_event_type_str(ev.event_type));
		}
		ibv_ack_async_event(&ev);
	}
	CHECK(vt_state(b) == IBV_QPS_ERR && vt_state(idle) == IBV_QPS_ERR, "the queues of the CQ are in error");
	CHECK(vt_state(bystander) == IBV_QPS_RTS, "the others are not");
	/* the message with the lost completion is no success at the sender */
	vt_expect(cq, 2, IBV_WC_REM_OP_ERR);
	struct ibv_wc wc;
	for (uint64_t n = 0; n < (uint64_t)small->cqe; n++)
		vt_expect(small, n, IBV_WC_SUCCESS);
	CHECK(ibv_poll_cq(small, 1, &wc) < 0, "a CQ in error says so");
	/* the CQ stays in error: a queue that is brought up again fails again */
	CHECK(!vt_to(idle, IBV_QPS_RESET) && !vt_to(bystander, IBV_QPS_RESET), "reset");
	vt_connect_pair(idle, bystander);
	CHECK(!vt_recv(bystander, 7, vt_sge(mr, 0, 8)) && !vt_send(idle, 8, vt_sge(mr, 8, 8), IBV_SEND_SIGNALED), "post");
	vt_expect(cq, 7, IBV_WC_SUCCESS);
	CHECK(ibv_poll_cq(small, 1, &wc) < 0, "nothing comes to a CQ in error");
	CHECK(vt_state(idle) == IBV_QPS_ERR && drain_events(t->ctx, IBV_EVENT_QP_FATAL, idle) == 1, "it fails again");
	CHECK(!drain_events(t->ctx, IBV_EVENT_CQ_ERR, NULL), "one event only");
	/* no queue can be created on that CQ */
	struct ibv_qp_init_attr i = { .send_cq = small, .recv_cq = cq, .qp_type = IBV_QPT_RC, .cap = { .max_send_wr = 1 } };
	CHECK(!ibv_create_qp(t->pd, &i) && errno == EINVAL, "a queue for a CQ in error");
	CHECK(!ibv_destroy_qp(a) && !ibv_destroy_qp(b) && !ibv_destroy_qp(idle) && !ibv_destroy_qp(bystander) &&
	      !ibv_destroy_cq(small) && !ibv_destroy_cq(cq), "destroy");
}

/* The same by datagrams, on the short way, and by completions of requests. */
static void overrun_datagrams(struct vt *t)
{
	struct ibv_cq *small = vt_cq(t, 8, NULL), *cq = vt_cq(t, 256, NULL);
	struct ibv_qp_init_attr i = { .send_cq = cq, .recv_cq = small, .qp_type = IBV_QPT_UD,
				      .cap = { .max_send_wr = 64, .max_recv_wr = 64, .max_send_sge = 1, .max_recv_sge = 1,
						.max_inline_data = 64 } };
	struct ibv_qp *to = ibv_create_qp(t->pd, &i);
	i.recv_cq = cq;
	struct ibv_qp *from = ibv_create_qp(t->pd, &i);
	CHECK(to && from, "create_qp");
	vt_connect(to, 0);
	vt_connect(from, 0);
	struct ibv_ah_attr aa = { .dlid = 1, .port_num = 1 };
	struct ibv_ah *ah = ibv_create_ah(t->pd, &aa);
	struct ibv_sge sge = { .addr = (uintptr_t)buf, .length = 8, .lkey = mr->lkey };
	for (int n = 0; n <= small->cqe; n++) {
		struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_INLINE,
					  .wr.ud = { .ah = ah, .remote_qpn = to->qp_num, .remote_qkey = VT_QKEY } }, *bad;
		CHECK(!vt_recv(to, (uint64_t)n, vt_sge(mr, 64, 64)) && !ibv_post_send(from, &wr, &bad), "post");
	}
	CHECK(vt_state(to) == IBV_QPS_ERR && vt_state(from) == IBV_QPS_RTS, "the receiver fails");
	CHECK(drain_events(t->ctx, IBV_EVENT_QP_FATAL, to) == 1, "with its event");
	CHECK(!ibv_destroy_qp(to) && !ibv_destroy_qp(from) && !ibv_destroy_ah(ah) && !ibv_destroy_cq(small) &&
	      !ibv_destroy_cq(cq), "destroy");
}

static void overrun_requests(struct vt *t)
{
	struct ibv_cq *small = vt_cq(t, 8, NULL), *cq = vt_cq(t, 256, NULL);
	struct ibv_qp *a = small_qp(t, small, cq), *b = small_qp(t, cq, cq);
	vt_connect_pair(a, b);
	for (int n = 0; n <= small->cqe; n++)
		CHECK(!vt_recv(b, (uint64_t)n, vt_sge(mr, 0, 8)) && !vt_send(a, (uint64_t)n, vt_sge(mr, 8, 8), IBV_SEND_SIGNALED),
		      "post");
	CHECK(vt_state(a) == IBV_QPS_ERR, "the requester fails");
	CHECK(drain_events(t->ctx, IBV_EVENT_QP_FATAL, a) == 1, "with its event");
	for (uint64_t n = 0; n < (uint64_t)small->cqe; n++)
		vt_expect(small, n, IBV_WC_SUCCESS);
	CHECK(!ibv_destroy_qp(a) && !ibv_destroy_qp(b) && !ibv_destroy_cq(small) && !ibv_destroy_cq(cq), "destroy");
}

/* A responder that denies access raises an event. */
static void access_error(struct vt *t, struct vt *other)
{
	struct ibv_cq *cq = vt_cq(t, 64, NULL), *ocq = vt_cq(other, 64, NULL);
	struct ibv_qp *a = vt_qp(t, IBV_QPT_RC, cq, NULL), *b = vt_qp(other, IBV_QPT_RC, ocq, NULL);
	vt_connect_pair(a, b);
	CHECK(!vt_rdma(a, IBV_WR_RDMA_WRITE, 1, vt_sge(mr, 0, 8), 0, 0x123400), "post");
	vt_expect(cq, 1, IBV_WC_REM_ACCESS_ERR);
	/* the event is the other context's; ibv_get_async_event of this context must not remove it */
	struct ibv_async_event ev;
	fcntl(t->ctx->async_fd, F_SETFL, O_NONBLOCK);
	CHECK(ibv_get_async_event(t->ctx, &ev) == -1 && errno == EAGAIN, "the wrong context got an event");
	ev = async_event(other->ctx, IBV_EVENT_QP_ACCESS_ERR);
	CHECK(ev.element.qp == b, "qp");
	ibv_ack_async_event(&ev);
	CHECK(!readable(t->ctx->async_fd, 0) && !readable(other->ctx->async_fd, 0), "nothing is left");
	CHECK(!ibv_destroy_qp(a) && !ibv_destroy_qp(b) && !ibv_destroy_cq(cq) && !ibv_destroy_cq(ocq), "destroy");
}

static bool has_event(struct vt *t)
{
	return readable(t->ctx->async_fd, 0);
}

/* Destroying an object removes the object's unread events, and poll(2) shows that. Events of other objects stay. */
static void goes_unread(struct vt *t)
{
	struct ibv_srq_init_attr i = { .attr = { .max_wr = 8, .max_sge = 1 } };
	struct ibv_srq_attr limit = { .srq_limit = 4 };
	struct ibv_cq *cq = vt_cq(t, 64, NULL);

	for (int reset = 0; reset < 2; reset++) {
		struct ibv_qp *a = vt_qp(t, IBV_QPT_RC, cq, NULL), *b = vt_qp(t, IBV_QPT_RC, cq, NULL);
		vt_connect_pair(a, b);
		CHECK(!vt_rdma(a, IBV_WR_RDMA_WRITE, 1, vt_sge(mr, 0, 8), 0, 0x123400), "post");
		vt_expect(cq, 1, IBV_WC_REM_ACCESS_ERR);
		CHECK(has_event(t), "no event");
		CHECK(!reset || !vt_to(b, IBV_QPS_RESET), "reset");
		CHECK(!reset || !has_event(t), "the event of a queue that was reset");
		CHECK(!ibv_destroy_qp(a) && !ibv_destroy_qp(b) && !has_event(t), "the event of a queue that is gone");
	}
	struct ibv_srq *stays = ibv_create_srq(t->pd, &i), *goes = ibv_create_srq(t->pd, &i);
	CHECK(stays && goes && !ibv_modify_srq(stays, &limit, IBV_SRQ_LIMIT) && !ibv_modify_srq(goes, &limit, IBV_SRQ_LIMIT),
	      "limits");
	CHECK(!ibv_destroy_srq(goes) && has_event(t), "the event of a shared queue that stays");
	CHECK(!ibv_destroy_srq(stays) && !has_event(t), "the event of a shared queue that is gone");

	struct ibv_cq *small = vt_cq(t, 8, NULL);
	struct ibv_qp *qp = small_qp(t, cq, small);
	CHECK(!vt_init(qp), "INIT");
	for (int n = 0; n <= small->cqe; n++)
		CHECK(!vt_recv(qp, (uint64_t)n, vt_sge(mr, 0, 8)), "receive");
	CHECK(!vt_to(qp, IBV_QPS_ERR) && has_event(t), "an overrun");
	CHECK(!ibv_destroy_qp(qp) && has_event(t) && !ibv_destroy_cq(small) && !has_event(t), "the event of a CQ that is gone");
	CHECK(!ibv_destroy_cq(cq), "destroy");
}

int main(void)
{
	vt_fabric();
	struct vt t = vt_open(), other = vt_open();
	mr = vt_mr(&t, buf, sizeof buf, VT_ACCESS);
	channel(&t);
	unacknowledged(&t);
	srq_limit(&t);
	last_receive(&t);
	first_message(&t);
	overrun(&t);
	overrun_datagrams(&t);
	overrun_requests(&t);
	access_error(&t, &other);
	goes_unread(&t);
	CHECK(!ibv_dereg_mr(mr), "dereg");
	vt_close(&other);
	vt_close(&t);
	return 0;
}
