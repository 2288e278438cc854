/* SPDX-License-Identifier: BSD-3-Clause */
/* The responder of access: the memory that requests name, and the check that only valid requests have changed it. */
#include "access.h"

static struct peer {
	struct vt t;
	struct ibv_pd *other_pd;
	struct ibv_cq *cq;
	struct ibv_xrcd *xrcd, *other_xrcd;
	struct ibv_srq *srq, *other_srq;
	uint32_t other_srqn;
	struct ibv_qp *qp;
	unsigned char *mem[LANES];
	struct ibv_mr *mr[LANES][REGIONS];
	/* over the second window: good, without the right to write, of another domain */
	struct ibv_mr *rmr[LANES], *rmr_no_write[LANES], *rmr_other[LANES], *rmr_small[LANES], *rmr_gone;
	struct order now;		/* the objects of this case */
	uint32_t receive_at[2], receive_n[2];
} p;

#define READS (IBV_ACCESS_REMOTE_READ)
#define WRITES (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)
#define ATOMICS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC)

static struct ibv_mr *reg(struct ibv_pd *pd, enum lane l, uint32_t at, uint32_t n, unsigned access)
{
	struct ibv_mr *mr = ibv_reg_mr(pd, p.mem[l] + at, n, access);
	CHECK(mr, "ibv_reg_mr, access %#x", access);
	return mr;
}

static struct ibv_srq *xrc_srq(struct ibv_xrcd *xrcd, uint32_t *number)
{
	struct ibv_srq_init_attr_ex a = {
		.attr = {.max_wr = 4, .max_sge = 1}, .srq_type = IBV_SRQT_XRC, .pd = p.t.pd, .xrcd = xrcd, .cq = p.cq,
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
	};
	struct ibv_srq *srq = ibv_create_srq_ex(p.t.ctx, &a);

	CHECK(srq && !ibv_get_srq_num(srq, number), "an XRC SRQ");
	return srq;
}

static struct ibv_xrcd *xrc_domain(const char *file)
{
	struct ibv_xrcd_init_attr x = {.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .oflags = O_CREAT};

	x.fd = open(file, O_RDONLY | O_CLOEXEC);
	CHECK(x.fd >= 0, "%s", file);
	struct ibv_xrcd *xrcd = ibv_open_xrcd(p.t.ctx, &x);
	CHECK(xrcd, "ibv_open_xrcd");
	close(x.fd);
	return xrcd;
}

static void set_up(struct card *card)
{
	p.t = vt_open();
	p.other_pd = ibv_alloc_pd(p.t.ctx);
	CHECK(p.other_pd, "ibv_alloc_pd");
	p.cq = vt_cq(&p.t, 64, NULL);
	p.xrcd = xrc_domain("/proc/self/exe");
	p.other_xrcd = xrc_domain("/proc/self/status");
	for (int l = 0; l < LANES; l++) {
		p.mem[l] = l == ARENA ? shca_alloc(p.t.ctx, MEMORY) : aligned_alloc(4096, MEMORY);
		CHECK(p.mem[l], "memory");
		p.mr[l][G_GOOD] = reg(p.t.pd, l, WIN_AT, WIN_LEN, VT_ACCESS);
		p.mr[l][G_NO_WRITE] = reg(p.t.pd, l, WIN_AT, WIN_LEN, READS | ATOMICS);
		p.mr[l][G_NO_READ] = reg(p.t.pd, l, WIN_AT, WIN_LEN, WRITES | ATOMICS);
		p.mr[l][G_NO_ATOMIC] = reg(p.t.pd, l, WIN_AT, WIN_LEN, WRITES | READS);
		p.mr[l][G_OTHER_PD] = reg(p.other_pd, l, WIN_AT, WIN_LEN, VT_ACCESS);
		p.mr[l][G_SMALL] = reg(p.t.pd, l, SMALL_AT, SMALL_LEN, VT_ACCESS);
		p.rmr_small[l] = reg(p.t.pd, l, RWIN_AT + 350, SMALL_LEN, IBV_ACCESS_LOCAL_WRITE);
		p.rmr[l] = reg(p.t.pd, l, RWIN_AT, RWIN_LEN, IBV_ACCESS_LOCAL_WRITE);
		p.rmr_no_write[l] = reg(p.t.pd, l, RWIN_AT, RWIN_LEN, READS);
		p.rmr_other[l] = reg(p.other_pd, l, RWIN_AT, RWIN_LEN, IBV_ACCESS_LOCAL_WRITE);
		card->addr[l] = (uintptr_t)p.mem[l];
		card->lkey[l] = p.rmr[l]->lkey;
		for (int g = 0; g < G_GONE; g++)
			card->rkey[l][g] = p.mr[l][g]->rkey;
	}
	p.other_srq = xrc_srq(p.other_xrcd, &p.other_srqn);
	CHECK(!vt_srq_recv(p.other_srq, 9, (struct ibv_sge){(uintptr_t)p.mem[ARENA] + RWIN_AT, RWIN_LEN, p.rmr[ARENA]->lkey}),
	      "a receive in the other domain");
	CHECK(!fcntl(p.t.ctx->async_fd, F_SETFL, O_NONBLOCK), "async_fd");
}

/* ---- a case ---------------------------------------------------------------------------------------------------------- */

static void discard(void)
{
	struct ibv_wc wc;
	struct ibv_async_event e;

	if (p.qp)
		CHECK(!ibv_destroy_qp(p.qp), "ibv_destroy_qp");
	if (p.srq)
		CHECK(!ibv_destroy_srq(p.srq), "ibv_destroy_srq");
	p.qp = NULL;
	p.srq = NULL;
	for (int l = 0; l < LANES; l++) {
		if (p.mr[l][G_GONE])
			CHECK(!ibv_dereg_mr(p.mr[l][G_GONE]), "ibv_dereg_mr");
		p.mr[l][G_GONE] = NULL;
	}
	while (ibv_poll_cq(p.cq, 1, &wc) > 0)
		;
	while (!ibv_get_async_event(p.t.ctx, &e))
		ibv_ack_async_event(&e);
}

static struct ibv_qp *create(const struct order *o)
{
	static const enum ibv_qp_type types[] = {IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_XRC_RECV, IBV_QPT_DRIVER, IBV_QPT_UD};
	struct ibv_qp_init_attr_ex a = {
		.send_cq = p.cq, .recv_cq = p.cq, .srq = p.srq, .qp_type = types[o->transport],
		.cap = {.max_send_wr = 1, .max_send_sge = 1, .max_recv_wr = p.srq ? 0 : 4, .max_recv_sge = p.srq ? 0 : 1},
		.comp_mask = IBV_QP_INIT_ATTR_PD, .pd = p.t.pd,
	};
	struct mlx5dv_qp_init_attr dv = {.comp_mask = MLX5DV_QP_INIT_ATTR_MASK_DC,
					 .dc_init_attr = {.dc_type = MLX5DV_DCTYPE_DCT, .dct_access_key = DC_KEY}};

	if (o->transport == XRC)
		a = (struct ibv_qp_init_attr_ex){.qp_type = IBV_QPT_XRC_RECV, .comp_mask = IBV_QP_INIT_ATTR_XRCD, .xrcd = p.xrcd};
	struct ibv_qp *qp = o->transport == DC ? mlx5dv_create_qp(p.t.ctx, &a, &dv) : ibv_create_qp_ex(p.t.ctx, &a);
	CHECK(qp, "creating a queue of transport %d", o->transport);
	return qp;
}

static void bring_up(const struct order *o)
{
	unsigned access = VT_ACCESS;

	if (o->answerer == Q_NO_WRITE)
		access &= ~(unsigned)IBV_ACCESS_REMOTE_WRITE;
	if (o->answerer == Q_NO_READ)
		access &= ~(unsigned)IBV_ACCESS_REMOTE_READ;
	if (o->answerer == Q_NO_ATOMIC)
		access &= ~(unsigned)IBV_ACCESS_REMOTE_ATOMIC;
	struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = QKEY, .qp_access_flags = access};
	struct ibv_qp_attr rtr = vt_rtr_attr(o->answerer == Q_OTHER_PEER ? 0xfffff0 : o->peer), rts = vt_rts_attr();
	int what = o->transport == UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS;

	if (o->answerer == Q_RESET)
		return;
	CHECK(!ibv_modify_qp(p.qp, &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | what), "INIT");
	if (o->answerer == Q_INIT)
		return;
	if (o->transport == DC) {
		CHECK(!ibv_modify_qp(p.qp, &rtr, IBV_QP_STATE | IBV_QP_PATH_MTU | IBV_QP_AV | IBV_QP_MIN_RNR_TIMER), "RTR");
	} else {
		CHECK(!ibv_modify_qp(p.qp, &rtr, vt_rtr_mask(p.qp)), "RTR");
		CHECK(!ibv_modify_qp(p.qp, &rts, vt_rts_mask(p.qp)), "RTS");
	}
	if (o->answerer == Q_ERR)
		CHECK(!vt_to(p.qp, IBV_QPS_ERR), "ERR");
}

/* The i-th receive. Each receive has one half of the window; a defective one begins or ends one byte outside. */
static void post(const struct order *o, int i)
{
	uint32_t room = o->length + (o->transport == UD ? GRH : 0), at = RWIN_AT + (i ? 350 : 0);
	uint32_t key = p.rmr[o->lane]->lkey;
	int err;

	switch (o->receive[i]) {
	case V_NONE: return;
	case V_GOOD: break;
	case V_SHORT: room--; break;
	case V_KEY: key ^= 1; break;
	case V_BEFORE: at = RWIN_AT - 1; break;
	case V_BEHIND: at = RWIN_AT + RWIN_LEN - room + 1; break;
	case V_OTHER_PD: key = p.rmr_other[o->lane]->lkey; break;
	case V_SMALL: key = p.rmr_small[o->lane]->lkey; break;
	case V_NO_WRITE: key = p.rmr_no_write[o->lane]->lkey; break;
	case V_GONE:
		p.rmr_gone = reg(p.t.pd, o->lane, RWIN_AT, RWIN_LEN, IBV_ACCESS_LOCAL_WRITE);
		key = p.rmr_gone->lkey;
		break;
	}
	p.receive_at[i] = at;
	p.receive_n[i] = room;
	struct ibv_sge sge = {(uintptr_t)p.mem[o->lane] + at, room, key};
	err = p.srq ? vt_srq_recv(p.srq, (uint64_t)i, sge) : vt_recv(p.qp, (uint64_t)i, sge);
	CHECK(!err, "posting receive %d: %d", i, err);
	if (p.rmr_gone)
		CHECK(!ibv_dereg_mr(p.rmr_gone), "ibv_dereg_mr");
	p.rmr_gone = NULL;
}

static void prepare(const struct order *o, struct answer *a)
{
	struct ibv_srq_init_attr sa = {.attr = {.max_wr = 4, .max_sge = 1}};

	discard();
	p.now = *o;
	for (int l = 0; l < LANES; l++)
		memset(p.mem[l], UNTOUCHED, MEMORY);
	if (o->transport == XRC)
		p.srq = xrc_srq(p.xrcd, &a->srqn);
	else if (o->srq || o->transport == DC)
		p.srq = ibv_create_srq(p.t.pd, &sa);
	CHECK(p.srq || !(o->srq || o->transport == XRC || o->transport == DC), "an SRQ");
	p.qp = create(o);
	p.mr[o->lane][G_GONE] = reg(p.t.pd, o->lane, WIN_AT, WIN_LEN, VT_ACCESS);
	a->gone_rkey = p.mr[o->lane][G_GONE]->rkey;
	bring_up(o);
	if (o->answerer != Q_RESET || p.srq)
		for (int i = 0; i < 2; i++)
			post(o, i);
	/* a DC target has a number once ready to receive */
	a->qpn = p.qp->qp_num;
	a->other_srqn = p.other_srqn;
}

static void happen(enum event e)
{
	struct ibv_mr **gone = &p.mr[p.now.lane][G_GONE];

	if (e == E_REGION_GONE) {
		CHECK(!ibv_dereg_mr(*gone), "ibv_dereg_mr");
		*gone = NULL;
	} else if (e == E_QUEUE_ERR) {
		CHECK(!vt_to(p.qp, IBV_QPS_ERR), "ERR");
	}
}

/* ---- the look -------------------------------------------------------------------------------------------------------- */

#define COMPLAIN(...) return (void)snprintf(a->complaint, sizeof(a->complaint), __VA_ARGS__)

/* Returns whether byte i of this lane has the expected value. */
static bool as_expected(const struct order *o, uint32_t at, int l, uint32_t i)
{
	uint8_t byte = p.mem[l][i];

	if (o->good && l == (int)p.now.lane && i >= at && i < at + o->n)
		return byte == o->data[i - at];
	return byte == UNTOUCHED;
}

static void look(const struct order *o, struct answer *a)
{
	uint32_t at = o->good_received ? p.receive_at[0] + (p.now.transport == UD ? GRH : 0) : o->at;
	struct ibv_wc wc;
	struct ibv_async_event e;
	bool good = false, refused = false;
	int event = -1;

	/* an unsignaled request may still be under way: the data, or the receive's completion, show its arrival */
	for (uint64_t end = vt_ms() + 20000; o->good && memcmp(p.mem[p.now.lane] + at, o->data, o->n) && vt_ms() < end;)
		sched_yield();
	for (uint64_t end = vt_ms() + 20000; vt_ms() < end;) {
		bool wanted = (o->received >= 0 && !refused) || (o->good_takes && !good);
		int n = ibv_poll_cq(p.cq, 1, &wc);
		if (n < 0)
			COMPLAIN("ibv_poll_cq: %d", n);
		if (!n && !wanted)
			break;
		if (!n) {
			sched_yield();
			continue;
		}
		if (wc.status == IBV_WC_WR_FLUSH_ERR)
			continue;
		if (wc.wr_id == 0 && wc.status == IBV_WC_SUCCESS && !good)
			good = true;
		else if (wc.wr_id == 1 && (int)wc.status == o->received && !refused)
			refused = true;
		else
			COMPLAIN("receive %lu completed: %s", (unsigned long)wc.wr_id, ibv_wc_status_str(wc.status));
	}
	if (o->received >= 0 && !refused)
		COMPLAIN("the receive of the refused message did not complete");
	if (o->good_takes && !good)
		COMPLAIN("the good message's receive did not complete");
	for (int l = 0; l < LANES; l++)
		for (uint32_t i = 0; i < MEMORY; i++)
			if (!as_expected(o, at, l, i))
				COMPLAIN(
					"byte %u of %s memory is %#x (regions at %u + %u and %u + %u, the good data at %u + %u)",
					i, l == ARENA ? "arena" : "private", p.mem[l][i], WIN_AT, WIN_LEN, RWIN_AT, RWIN_LEN,
					o->good ? at : 0, o->good ? o->n : 0);
	while (!ibv_get_async_event(p.t.ctx, &e)) {
		if (e.event_type != IBV_EVENT_QP_LAST_WQE_REACHED && e.event_type != IBV_EVENT_COMM_EST)
			event = (int)e.event_type;
		ibv_ack_async_event(&e);
	}
	if (o->event_wanted >= 0 && event != o->event_wanted)
		COMPLAIN("event %d instead of %d", event, o->event_wanted);
	if (p.now.transport == XRC || p.now.transport == DC || p.now.answerer >= Q_RESET)
		return;
	bool broken = vt_state(p.qp) == IBV_QPS_ERR;
	if (broken != o->broken)
		COMPLAIN("the responder's queue is %s", broken ? "in error" : "not in error");
}

/* Sleeps until memory is written. The peer sends nothing before this process announces the sleep, so no second look is needed. */
static void sleep_until_written(struct vt_peer *peer, struct answer *a)
{
	uint32_t seen;
	int err = shca_await_prepare(p.t.ctx, &seen);

	CHECK(!err, "shca_await_prepare: %d", err);
	vt_tell(peer, a, sizeof(*a));
	err = shca_await(p.t.ctx, seen, 6 * 1000000000ull);
	if (err)
		COMPLAIN("the sleeper was not woken: %d", err);
}

void access_answer(struct vt_peer *peer)
{
	struct card card = {.addr = {0}};
	struct order o;

	set_up(&card);
	vt_tell(peer, &card, sizeof(card));
	for (;;) {
		struct answer a = {.qpn = 0};
		vt_hear(peer, &o, sizeof(o));
		if (o.what == END)
			break;
		alarm(ACCESS_CASE_SECONDS);
		if (o.what == PREPARE)
			prepare(&o, &a);
		else if (o.what == HAPPEN)
			happen(o.event);
		else if (o.what == SLEEP)
			sleep_until_written(peer, &a);
		else
			look(&o, &a);
		vt_tell(peer, &a, sizeof(a));
	}
	discard();
	CHECK(!ibv_destroy_srq(p.other_srq) && !ibv_close_xrcd(p.xrcd) && !ibv_close_xrcd(p.other_xrcd), "destroy");
	for (int l = 0; l < LANES; l++) {
		for (int g = 0; g < G_GONE; g++)
			CHECK(!ibv_dereg_mr(p.mr[l][g]), "ibv_dereg_mr");
		CHECK(!ibv_dereg_mr(p.rmr[l]) && !ibv_dereg_mr(p.rmr_no_write[l]) && !ibv_dereg_mr(p.rmr_small[l]) &&
		      !ibv_dereg_mr(p.rmr_other[l]), "ibv_dereg_mr");
	}
	CHECK(!shca_free(p.t.ctx, p.mem[ARENA]) && !ibv_destroy_cq(p.cq) && !ibv_dealloc_pd(p.other_pd), "destroy");
	free(p.mem[PRIVATE]);
	vt_close(&p.t);
}
