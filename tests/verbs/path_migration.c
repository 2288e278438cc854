/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Path migration (IBTA 17.2.8) of RC, UC and XRC connections: alternate paths are loaded and armed, by both ends or by one; a
 * port that goes down, or a modify, moves the connection; the events, the attributes, refusals. Then traffic in both
 * directions between two processes, under which the port in use goes down again and again: no message is lost, none comes
 * twice, none out of order.
 */
#include "ports.h"

static struct vt t;
static struct ibv_cq *cq;
static char *memory;
static struct ibv_mr *mr;

/* Two ends of a connection; of XRC the second one receives only. */
struct pair {
	struct ibv_qp *a, *b;
	struct ibv_srq *srq;
	uint32_t srqn;
};

static struct ibv_xrcd *xrcd;

static struct pair make(enum ibv_qp_type type)
{
	struct pair p = {.a = vt_qp(&t, type, cq, NULL)};

	if (type == IBV_QPT_XRC_SEND) {
		struct ibv_srq_init_attr_ex srq = {
			.attr = {.max_wr = 16, .max_sge = 1}, .srq_type = IBV_SRQT_XRC, .pd = t.pd, .cq = cq, .xrcd = xrcd,
			.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD |
				     IBV_SRQ_INIT_ATTR_CQ,
		};
		struct ibv_qp_init_attr_ex in = {.qp_type = IBV_QPT_XRC_RECV, .comp_mask = IBV_QP_INIT_ATTR_XRCD, .xrcd = xrcd};
		p.srq = ibv_create_srq_ex(t.ctx, &srq);
		p.b = ibv_create_qp_ex(t.ctx, &in);
		CHECK(p.srq && p.b && !ibv_get_srq_num(p.srq, &p.srqn), "XRC");
	} else {
		p.b = vt_qp(&t, type, cq, NULL);
	}
	ports_connect(p.a, p.b->qp_num, 1, 1, vt_rts_attr());
	ports_connect(p.b, p.a->qp_num, 1, 1, vt_rts_attr());
	return p;
}

static void destroy(struct pair *p)
{
	CHECK(!ibv_destroy_qp(p->a) && !ibv_destroy_qp(p->b) && (!p->srq || !ibv_destroy_srq(p->srq)), "destroy");
	while (ibv_poll_cq(cq, 1, &(struct ibv_wc){0}) > 0)
		;
}

static void begin_message(struct pair *p)
{
	struct ibv_sge sge = vt_sge(mr, 0, 64), to = vt_sge(mr, 2048, 64);
	struct ibv_send_wr wr = {.wr_id = 1, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND,
				 .send_flags = IBV_SEND_SIGNALED, .qp_type.xrc.remote_srqn = p->srqn}, *bad;

	memset(memory + 2048, 0, 64);
	CHECK(!(p->srq ? vt_srq_recv(p->srq, 2, to) : vt_recv(p->b, 2, to)) && !ibv_post_send(p->a, &wr, &bad), "post");
}

static void end_message(void)
{
	struct ibv_wc a = vt_wait(cq), b = vt_wait(cq);

	CHECK(a.status == IBV_WC_SUCCESS && b.status == IBV_WC_SUCCESS && a.wr_id + b.wr_id == 3 && memory[2048] == 7,
	      "a message: %s, %s", ibv_wc_status_str(a.status), ibv_wc_status_str(b.status));
}

static void message(struct pair *p)
{
	begin_message(p);
	end_message();
}

static void states_are(struct pair *p, enum ibv_mig_state a, enum ibv_mig_state b, int line)
{
	struct ibv_qp_attr of_a = ports_query(p->a), of_b = ports_query(p->b);

	CHECK(of_a.path_mig_state == a && of_b.path_mig_state == b, "line %d: states %d, %d instead of %d, %d", line,
	      of_a.path_mig_state, of_b.path_mig_state, a, b);
}
#define STATES(p, a, b) states_are(p, IBV_MIG_##a, IBV_MIG_##b, __LINE__)

/* The events of both ends, in any order. */
static void events_are(struct pair *p, enum ibv_event_type a, enum ibv_event_type b)
{
	struct ibv_async_event ev;
	int seen_a = 0, seen_b = 0;

	for (int n = !!a + !!b; n;) {
		struct pollfd pd = {.fd = t.ctx->async_fd, .events = POLLIN};
		if (ibv_get_async_event(t.ctx, &ev)) {
			CHECK(errno == EAGAIN && poll(&pd, 1, 60000) == 1, "an event is missing: %d, %d", seen_a, seen_b);
			continue;
		}
		ibv_ack_async_event(&ev);
		if (ev.event_type == IBV_EVENT_PORT_ERR || ev.event_type == IBV_EVENT_PORT_ACTIVE ||
		    ev.event_type == IBV_EVENT_COMM_EST)
			continue;
		CHECK(ev.element.qp == p->a || ev.element.qp == p->b, "whose event is %s?", ibv_event_type_str(ev.event_type));
		*(ev.element.qp == p->a ? &seen_a : &seen_b) = (int)ev.event_type;
		n--;
	}
	CHECK(seen_a == (int)a && seen_b == (int)b, "events %d, %d instead of %d, %d", seen_a, seen_b, (int)a, (int)b);
	while (!ibv_get_async_event(t.ctx, &ev)) {
		CHECK(ev.event_type == IBV_EVENT_PORT_ERR || ev.event_type == IBV_EVENT_PORT_ACTIVE ||
			      ev.event_type == IBV_EVENT_COMM_EST,
		      "one more: %s", ibv_event_type_str(ev.event_type));
		ibv_ack_async_event(&ev);
	}
}
#define NO_EVENT ((enum ibv_event_type)0)

static void arm(struct pair *p, uint8_t from, uint8_t to)
{
	CHECK(!ports_alternate(p->a, from, to, IBV_MIG_REARM), "REARM");
	CHECK(!ports_alternate(p->b, to, from, IBV_MIG_REARM), "REARM");
	STATES(p, ARMED, ARMED);
}

static void ports_are(struct pair *p, uint8_t port)
{
	struct ibv_qp_attr a = ports_query(p->a), b = ports_query(p->b);

	CHECK(a.port_num == port && a.ah_attr.port_num == port && a.ah_attr.dlid == ports_lid(t.ctx, port) &&
		      a.alt_port_num == 0 && b.port_num == port && b.ah_attr.dlid == ports_lid(t.ctx, port) &&
		      !b.alt_ah_attr.dlid,
	      "ports %u, %u", a.port_num, b.port_num);
	CHECK(a.timeout == 9, "timeout %u", a.timeout);
}

/* The port of the connection goes down, and comes again. */
static void port_down(enum ibv_qp_type type)
{
	struct pair p = make(type);
	struct ibv_sge sge = vt_sge(mr, 0, 8);
	bool writes = type != IBV_QPT_XRC_SEND;

	arm(&p, 2, 2);
	struct ibv_qp_attr a = ports_query(p.a);
	CHECK(a.alt_port_num == 2 && a.alt_ah_attr.dlid == ports_lid(t.ctx, 2) && a.alt_timeout == 9 && a.timeout != 9 &&
		      a.port_num == 1,
	      "alternate");
	if (writes) {		/* which remembers where it goes */
		CHECK(!vt_rdma(p.a, IBV_WR_RDMA_WRITE, 3, sge, (uintptr_t)memory + 512, mr->rkey), "write");
		vt_expect(cq, 3, IBV_WC_SUCCESS);
	}
	message(&p);
	events_are(&p, NO_EVENT, NO_EVENT);
	ports_inject(1, "port-down");
	memory[512] = 0;
	if (writes) {
		CHECK(!vt_rdma(p.a, IBV_WR_RDMA_WRITE, 3, sge, (uintptr_t)memory + 512, mr->rkey), "write");
		vt_expect(cq, 3, IBV_WC_SUCCESS);
		CHECK(memory[512] == 7, "a write is lost");
	}
	message(&p);
	events_are(&p, IBV_EVENT_PATH_MIG, IBV_EVENT_PATH_MIG);
	STATES(&p, MIGRATED, MIGRATED);
	ports_are(&p, 2);
	CHECK(ports_set(p.a, IBV_MIG_REARM) == EINVAL, "the alternate path is used up");
	ports_inject(1, "port-up");
	message(&p);
	/* back, by way of another path */
	arm(&p, 1, 1);
	ports_inject(2, "port-down");
	message(&p);
	events_are(&p, IBV_EVENT_PATH_MIG, IBV_EVENT_PATH_MIG);
	ports_are(&p, 1);
	ports_inject(2, "port-up");
	destroy(&p);
}

static void by_modify(enum ibv_qp_type type)
{
	struct pair p = make(type);

	for (int round = 0; round < 4; round++) {
		uint8_t port = round & 1 ? 1 : 2;
		arm(&p, port, port);
		message(&p);
		/* either end */
		CHECK(!ports_set(round & 2 ? p.a : p.b, IBV_MIG_MIGRATED), "MIGRATED");
		STATES(&p, MIGRATED, MIGRATED);
		ports_are(&p, port);
		events_are(&p, IBV_EVENT_PATH_MIG, IBV_EVENT_PATH_MIG);
		message(&p);
	}
	destroy(&p);
}

/* One end alone is REARM: nothing moves, and a message waits for the port. */
static void one_sided(void)
{
	struct pair p = make(IBV_QPT_RC);
	struct ibv_qp_attr patient = {.timeout = 0, .qp_state = IBV_QPS_SQD};

	/* without a timeout the message waits without a limit */
	CHECK(!ibv_modify_qp(p.a, &patient, IBV_QP_STATE), "SQD");
	CHECK(!ibv_modify_qp(p.a, &patient, IBV_QP_TIMEOUT) && !vt_to(p.a, IBV_QPS_RTS), "timeout");
	CHECK(!ports_alternate(p.a, 2, 2, IBV_MIG_REARM), "REARM");
	STATES(&p, REARM, MIGRATED);
	message(&p);
	STATES(&p, REARM, MIGRATED);
	ports_inject(1, "port-down");
	begin_message(&p);
	vt_none(cq);
	/* the other end comes late: no packet gets through that would arm either */
	CHECK(!ports_alternate(p.b, 2, 2, IBV_MIG_REARM), "REARM");
	STATES(&p, REARM, REARM);
	vt_none(cq);
	ports_inject(1, "port-up");
	end_message();
	STATES(&p, ARMED, ARMED);
	events_are(&p, NO_EVENT, NO_EVENT);
	CHECK(!ports_set(p.a, IBV_MIG_REARM), "REARM");
	STATES(&p, ARMED, ARMED);
	destroy(&p);
	/* REARM is given up: MIGRATED, on the same path */
	p = make(IBV_QPT_RC);
	CHECK(!ports_alternate(p.a, 2, 2, IBV_MIG_REARM) && !ports_set(p.a, IBV_MIG_MIGRATED), "MIGRATED");
	STATES(&p, MIGRATED, MIGRATED);
	CHECK(ports_query(p.a).port_num == 1 && ports_query(p.a).alt_port_num == 2, "path");
	message(&p);
	destroy(&p);
}

static void errors(void)
{
	struct pair p = make(IBV_QPT_RC);
	struct ibv_qp *ud = vt_qp(&t, IBV_QPT_UD, cq, NULL);
	struct ibv_qp_attr bad[] = {
		{.alt_port_num = 0}, {.alt_port_num = 3}, {.alt_port_num = 2, .alt_pkey_index = 1},
		{.alt_port_num = 2, .alt_timeout = 32}, {.alt_port_num = 2, .alt_ah_attr = {.is_global = 1, .grh.sgid_index = 1}},
	};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		CHECK(ibv_modify_qp(p.a, &bad[i], IBV_QP_ALT_PATH) == EINVAL, "alternate path %zu", i);
	CHECK(ports_set(p.a, IBV_MIG_REARM) == EINVAL, "REARM without an alternate path");
	CHECK(ports_alternate(p.a, 2, 2, IBV_MIG_ARMED) == EINVAL && ports_set(p.a, 3) == EINVAL, "ARMED is the device's to set");
	CHECK(ports_query(p.a).alt_port_num == 0, "what was refused is there");
	vt_connect(ud, 0);
	CHECK(ports_alternate(ud, 2, 2, IBV_MIG_REARM) == EINVAL, "a datagram queue has no path");
	CHECK(!ibv_destroy_qp(ud), "destroy");
	/* the alternate paths lead past each other: the first end moves, the other one refuses to follow */
	CHECK(!ports_alternate(p.a, 2, 2, IBV_MIG_REARM) && !ports_alternate(p.b, 2, 1, IBV_MIG_REARM), "REARM");
	STATES(&p, ARMED, ARMED);
	message(&p);
	ports_inject(1, "port-down");
	begin_message(&p);
	vt_expect(cq, 1, IBV_WC_RETRY_EXC_ERR);
	events_are(&p, IBV_EVENT_PATH_MIG, IBV_EVENT_PATH_MIG_ERR);
	STATES(&p, MIGRATED, ARMED);
	ports_inject(1, "port-up");
	destroy(&p);
	/* the alternate path's port is down, too: the migration fails, and the message comes when either port is up */
	p = make(IBV_QPT_RC);
	struct ibv_qp_attr sqd = {.timeout = 0, .qp_state = IBV_QPS_SQD};
	CHECK(!ibv_modify_qp(p.a, &sqd, IBV_QP_STATE) && !ibv_modify_qp(p.a, &sqd, IBV_QP_TIMEOUT) && !vt_to(p.a, IBV_QPS_RTS),
	      "timeout");
	arm(&p, 2, 2);
	ports_inject(2, "port-down");
	CHECK(!ports_set(p.a, IBV_MIG_MIGRATED), "MIGRATED");
	STATES(&p, ARMED, ARMED);
	events_are(&p, IBV_EVENT_PATH_MIG_ERR, NO_EVENT);
	message(&p);
	ports_inject(1, "port-down");
	begin_message(&p);
	vt_none(cq);
	ports_inject(2, "port-up");
	end_message();
	events_are(&p, IBV_EVENT_PATH_MIG, IBV_EVENT_PATH_MIG);
	ports_inject(1, "port-up");
	destroy(&p);
	/* an address that is no port's */
	p = make(IBV_QPT_RC);
	struct ibv_qp_attr lost = {.alt_port_num = 2,
				   .alt_ah_attr = {.dlid = 4000, .port_num = 2},
				   .path_mig_state = IBV_MIG_REARM};
	CHECK(!ibv_modify_qp(p.a, &lost, IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE) && !ports_alternate(p.b, 2, 2, IBV_MIG_REARM),
	      "REARM");
	CHECK(!ports_set(p.a, IBV_MIG_MIGRATED), "MIGRATED");
	events_are(&p, IBV_EVENT_PATH_MIG_ERR, NO_EVENT);
	message(&p);
	/* RESET forgets the paths */
	CHECK(!vt_to(p.a, IBV_QPS_RESET), "RESET");
	ports_connect(p.a, p.b->qp_num, 1, 1, vt_rts_attr());
	CHECK(ports_query(p.a).path_mig_state == IBV_MIG_MIGRATED && ports_query(p.a).alt_port_num == 0, "RESET");
	destroy(&p);
}

/* The paths may be loaded on the way to RTS, and in SQD. */
static void loading(void)
{
	struct ibv_qp *a = vt_qp(&t, IBV_QPT_RC, cq, NULL), *b = vt_qp(&t, IBV_QPT_RC, cq, NULL);
	struct ibv_qp_attr rtr = vt_rtr_attr(b->qp_num), rts = vt_rts_attr(), sqd = {.qp_state = IBV_QPS_SQD};
	struct pair p = {.a = a, .b = b};

	rtr.alt_port_num = 2;
	rtr.alt_ah_attr.dlid = ports_lid(t.ctx, 2);
	rts.path_mig_state = IBV_MIG_REARM;
	CHECK(!vt_init(a) && !ibv_modify_qp(a, &rtr, VT_RTR_RC | IBV_QP_ALT_PATH), "RTR");
	CHECK(!ibv_modify_qp(a, &rts, VT_RTS_RC | IBV_QP_PATH_MIG_STATE), "RTS");
	ports_connect(b, a->qp_num, 1, 1, vt_rts_attr());
	CHECK(!ibv_modify_qp(b, &sqd, IBV_QP_STATE) && !ports_alternate(b, 2, 2, IBV_MIG_REARM), "SQD");
	STATES(&p, ARMED, ARMED);
	CHECK(!vt_to(b, IBV_QPS_RTS), "RTS");
	ports_inject(1, "port-down");
	message(&p);
	events_are(&p, IBV_EVENT_PATH_MIG, IBV_EVENT_PATH_MIG);
	ports_inject(1, "port-up");
	destroy(&p);
}

/* ---- traffic between two processes ---------------------------------------------------------------------------------- */

#define FLIPS 24
#define DEPTH 16
#define BYTES 256u

struct end {
	struct ibv_qp *qp;
	uint64_t sent, received, acked;
	char *mem;
	struct ibv_mr *mr;
};

static void post_receive(struct end *e, uint64_t n)
{
	CHECK(!vt_recv(e->qp, n, vt_sge(e->mr, (DEPTH + n % DEPTH) * BYTES, BYTES)), "receive");
}

static void post_next(struct end *e)
{
	uint64_t n = e->sent++;
	uint64_t *at = (uint64_t *)(e->mem + n % DEPTH * BYTES);

	for (unsigned i = 0; i < BYTES / 8; i++)
		at[i] = n * 1000 + i;
	CHECK(!vt_send(e->qp, n | 1ull << 63, vt_sge(e->mr, n % DEPTH * BYTES, BYTES), IBV_SEND_SIGNALED), "send");
}

/* Each message comes once, whole, in its turn. */
static void turn(struct end *e, bool more)
{
	struct ibv_wc wc;

	while (more && e->sent - e->acked < DEPTH / 2)
		post_next(e);
	while (ibv_poll_cq(cq, 1, &wc) > 0) {
		CHECK(wc.status == IBV_WC_SUCCESS, "%s", ibv_wc_status_str(wc.status));
		if (wc.wr_id >> 63) {
			CHECK((wc.wr_id & ~(1ull << 63)) == e->acked++, "completion %lu", (unsigned long)wc.wr_id);
			continue;
		}
		CHECK(wc.wr_id == e->received && wc.byte_len == BYTES, "message %lu instead of %lu", (unsigned long)wc.wr_id,
		      (unsigned long)e->received);
		const uint64_t *at = (const uint64_t *)(e->mem + (DEPTH + e->received % DEPTH) * BYTES);
		for (unsigned i = 0; i < BYTES / 8; i++)
			CHECK(at[i] == e->received * 1000 + i, "message %lu, word %u: %lu", (unsigned long)e->received, i,
			      (unsigned long)at[i]);
		e->received++;
		post_receive(e, e->received + DEPTH - 1);
	}
}

/* Runs the traffic until the other process has said one byte. */
static void run_until_told(struct end *e, struct vt_peer *p)
{
	struct pollfd pd = {.fd = p->fd[0], .events = POLLIN};
	char c;

	do
		turn(e, true);
	while (!poll(&pd, 1, 0));
	vt_hear(p, &c, 1);
}

static void run_for(struct end *e, uint64_t messages)
{
	uint64_t until = e->received + messages, late = vt_ms() + 60000;

	while (e->received < until) {
		CHECK(vt_ms() < late, "the traffic has stopped: %lu sent, %lu acknowledged, %lu received", (unsigned long)e->sent,
		      (unsigned long)e->acked, (unsigned long)e->received);
		turn(e, true);
		sched_yield();
	}
}

static void await_migration(struct end *e, uint8_t port)
{
	uint64_t late = vt_ms() + 60000;
	int type;

	while (!(type = ports_event(t.ctx, e->qp, 0))) {
		CHECK(vt_ms() < late, "no migration to port %u", port);
		turn(e, true);
		sched_yield();
	}
	CHECK(type == IBV_EVENT_PATH_MIG, "%s", ibv_event_type_str((enum ibv_event_type)type));
	CHECK(ports_query(e->qp).port_num == port, "port");
}

static void side(struct vt_peer *p, bool leads)
{
	struct end e = {.qp = NULL};
	uint32_t own, other;

	t = vt_open();
	CHECK(!fcntl(t.ctx->async_fd, F_SETFL, O_NONBLOCK), "fcntl");
	cq = vt_cq(&t, 64, NULL);
	e.qp = vt_qp(&t, IBV_QPT_RC, cq, NULL);
	/* one side's memory is private: messages to and from it wait for the kernel's copy */
	e.mem = leads ? shca_alloc(t.ctx, 2 * DEPTH * BYTES) : calloc(2 * DEPTH, BYTES);
	CHECK(e.mem, "memory");
	e.mr = vt_mr(&t, e.mem, 2 * DEPTH * BYTES, VT_ACCESS);
	own = e.qp->qp_num;
	vt_tell(p, &own, sizeof(own));
	vt_hear(p, &other, sizeof(other));
	struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = VT_ACCESS};
	CHECK(!ibv_modify_qp(e.qp, &init, IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS), "INIT");
	vt_rtr_rts(e.qp, other, vt_rts_attr());
	for (uint64_t n = 0; n < DEPTH; n++)
		post_receive(&e, n);
	vt_meet(p);
	for (int flip = 0; flip < FLIPS; flip++) {
		uint8_t now = flip & 1 ? 2 : 1, next = 3 - now;
		CHECK(!ports_alternate(e.qp, next, next, IBV_MIG_REARM), "REARM");
		/* both ends are ARMED from here on */
		vt_tell(p, "", 1);
		run_until_told(&e, p);
		CHECK(ports_query(e.qp).path_mig_state == IBV_MIG_ARMED, "flip %d: state %d", flip,
		      ports_query(e.qp).path_mig_state);
		run_for(&e, 50);
		vt_tell(p, "", 1);
		run_until_told(&e, p);
		if (leads && flip % 3 == 2)
			CHECK(!ports_set(e.qp, IBV_MIG_MIGRATED), "MIGRATED");
		else if (leads)
			ports_inject(now, "port-down");
		await_migration(&e, next);
		run_for(&e, 50);
		/* the other one has seen the event, too, before the port comes up */
		vt_tell(p, "", 1);
		run_until_told(&e, p);
		if (leads && flip % 3 != 2)
			ports_inject(now, "port-up");
		vt_tell(p, "", 1);
		run_until_told(&e, p);
	}
	/* to the end: all that either has sent */
	uint64_t count = e.sent, all;
	vt_tell(p, &count, sizeof(count));
	struct pollfd pd = {.fd = p->fd[0], .events = POLLIN};
	while (!poll(&pd, 1, 0))
		turn(&e, false);
	vt_hear(p, &all, sizeof(all));
	uint64_t late = vt_ms() + 60000;
	while (e.received < all || e.acked < e.sent) {
		CHECK(vt_ms() < late, "%lu of %lu messages", (unsigned long)e.received, (unsigned long)all);
		turn(&e, false);
	}
	CHECK(e.received == all, "%lu of %lu messages", (unsigned long)e.received, (unsigned long)all);
	vt_meet(p);
	CHECK(!ibv_destroy_qp(e.qp) && !ibv_destroy_cq(cq) && !ibv_dereg_mr(e.mr), "destroy");
	if (leads)
		CHECK(!shca_free(t.ctx, e.mem), "shca_free");
	else
		free(e.mem);
	vt_close(&t);
}

int main(void)
{
	static const enum ibv_qp_type types[] = {IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_XRC_SEND};
	struct ibv_xrcd_init_attr x = {.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
				       .oflags = O_CREAT,
				       .fd = -1};

	vt_fabric();
	ports_begin();
	struct vt_peer p = vt_fork();
	if (!p.child) {
		vt_meet(&p);
		side(&p, false);
		exit(0);
	}
	t = vt_open();
	CHECK(!fcntl(t.ctx->async_fd, F_SETFL, O_NONBLOCK), "fcntl");
	cq = vt_cq(&t, 64, NULL);
	xrcd = ibv_open_xrcd(t.ctx, &x);
	memory = shca_alloc(t.ctx, 4096);
	CHECK(memory && xrcd, "shca_alloc, open_xrcd");
	memset(memory, 7, 4096);
	mr = vt_mr(&t, memory, 4096, VT_ACCESS);
	for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
		port_down(types[i]);
		if (types[i] != IBV_QPT_UC)
			by_modify(types[i]);
	}
	one_sided();
	errors();
	loading();
	CHECK(!ibv_dereg_mr(mr) && !shca_free(t.ctx, memory) && !ibv_destroy_cq(cq) && !ibv_close_xrcd(xrcd), "destroy");
	vt_close(&t);
	vt_meet(&p);
	side(&p, true);
	vt_join(&p);
	ports_end();
	return 0;
}
