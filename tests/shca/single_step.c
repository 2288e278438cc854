/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Death after every instruction: in each round a victim joins, prepares a verbs call, executes n instructions of that call under
 * ptrace, and is killed. The survivors' traffic must go on, and be whole:
 *
 *     B  is the victim's peer, and has the receives (an SRQ and an XRC SRQ) that the victim and A share
 *     A  sends to B; the victim may execute a cross-channel queue of A
 *
 * After each death no slot, thread or chunk of the victim is left; the victim's messages have arrived whole, once or not at all;
 * as many messages of A arrive as there are receives that the victim has not used; B's connection to the victim fails; the
 * requests of A's cross-channel queue are executed once.
 *
 *     single_step [--all] [--seconds S] [--seed X] [-v] [CALL [N]]
 *
 * Without --all: for so many seconds, at random instructions of all calls. With --all: every instruction of a short call; of a
 * long call some hundreds, at a stride with a random offset.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <infiniband/mlx5dv.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "single_step.h"

#define ID_TO_VICTIM 1000u
#define ID_TO_A 1001u
#define STEPS 6400000u			/* --all: instructions to execute for one call, roughly; a step takes some 20 us */
#define USUAL 8000u			/* instructions of a call of unknown length */
#define SKIPPED 77

struct stage *st;

void message_fill(void *p, uint32_t len, enum who who)
{
	uint64_t tag = message_tag(who);

	rig_fill(p, len, tag);
	memcpy(p, &tag, sizeof(tag));
}

/* ---- objects ----------------------------------------------------------------------------------------------------------- */

void connect_queue(struct ibv_qp *qp, uint32_t dest)
{
	/* the other end may be destroyed in good order: then only the time-out shows the end */
	struct rig_path p = {.dest_qpn = dest, .timeout = 16, .retry_cnt = 2, .rnr_retry = 7, .min_rnr_timer = 1};

	rig_rtr(qp, &p);
	if (qp->qp_type != IBV_QPT_XRC_RECV)
		rig_rts(qp, &p);
}

struct ibv_xrcd *xrc_domain(struct rig *r)
{
	struct ibv_xrcd_init_attr x = {.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
				       .oflags = O_CREAT,
				       .fd = -1};
	struct ibv_xrcd *xrcd = shca_open_xrcd(r->ctx, &x);

	CHECK(xrcd);
	return xrcd;
}

/* Returns an XRC queue pair in INIT: XRC_RECV of the domain; xrcd is NULL: XRC_SEND. */
struct ibv_qp *xrc_queue(struct rig *r, struct ibv_cq *cq, struct ibv_xrcd *xrcd)
{
	struct ibv_qp_init_attr_ex a = {.qp_type = xrcd ? IBV_QPT_XRC_RECV : IBV_QPT_XRC_SEND, .send_cq = cq, .pd = r->pd,
					.xrcd = xrcd, .cap = {.max_send_wr = 16, .max_send_sge = 1},
					.comp_mask = xrcd ? IBV_QP_INIT_ATTR_XRCD : IBV_QP_INIT_ATTR_PD};
	struct ibv_qp *qp = shca_create_qp_ex(r->ctx, &a);

	CHECK(qp);
	rig_init(qp);
	return qp;
}

struct ibv_qp *dc_queue(struct rig *r, struct ibv_cq *cq, struct ibv_srq *srq)
{
	struct ibv_qp *qp = rig_dc_qp(r, cq, srq, IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE);

	rig_dc_ready(qp, srq != NULL);
	return qp;
}

static struct ibv_qp *queue(struct rig *r, enum ibv_qp_type type, uint32_t flags, struct ibv_cq *scq, struct ibv_cq *rcq,
			    struct ibv_srq *srq)
{
	struct rig_qp_attr a = {.type = type, .exp_flags = flags, .scq = scq, .rcq = rcq, .srq = srq, .send_wr = 16,
				.recv_wr = 16, .sge = 2, .inl = 64};
	struct ibv_qp *qp = rig_qp(r, &a);

	rig_init(qp);
	return qp;
}

static void wait_for_round(uint32_t number)
{
	/* without a limit, since stepping may take long; children die with the runner */
	while (atomic_load(&st->round) < number)
		rig_nap();
	alarm(120);
}

static void until(_Atomic uint32_t *word)
{
	/* stepping through a long call takes long */
	for (int i = 0; !atomic_load(word); i++, rig_nap())
		if (i > 60000)
			FAIL("another process of the test does not come");
}

/* Fails unless all process slots, threads and chunks of memory are A's, B's or free. */
static void nothing_left(struct shca_member *m)
{
	uint32_t left = 1;

	for (int i = 0; i < 40000 && left; i++, rig_nap()) {
		left = 0;
		for (uint32_t p = 0; p < atomic_load(&m->hdr->proc_high); p++) {
			uint32_t state = atomic_load(&m->procs[p].state) & 255;
			/* a process that died while joining owns nothing: the next process takes the slot unchanged */
			bool empty = state == SHCA_PROC_JOINING && !shca_proc_alive(m, p);
			left += p != st->slot[0] && p != st->slot[1] && state != SHCA_PROC_FREE && !empty;
		}
	}
	if (left)
		FAIL("%u process slots are not free", left);
	for (uint32_t p = 0; p < atomic_load(&m->hdr->proc_high); p++)
		if (p != st->slot[0] && p != st->slot[1] && rig_chunks(m, p))
			FAIL("%u chunks of the dead process are left", rig_chunks(m, p));
	for (uint32_t t = 0; t < atomic_load(&m->hdr->thread_high); t++) {
		uint32_t owner = atomic_load(&m->threads[t].owner);
		if (owner && owner != st->slot[0] + 1 && owner != st->slot[1] + 1)
			FAIL("thread slot %u of the dead process is left", t);
	}
	for (uint32_t i = 0; i < 256; i++) {
		uint32_t holder = atomic_load(&m->hdr->atomic_locks[i]);
		if (holder && !atomic_load(&m->threads[holder - 1].owner))
			FAIL("a lock of private atomics is left");
	}
}

/* Returns the next completion; fails if none comes. */
static struct ibv_wc next(struct ibv_cq *cq, const char *what)
{
	struct ibv_wc wc;

	for (int i = 0; shca_poll_cq(cq, 1, &wc) != 1; i++, rig_nap())
		if (i > 40000)
			FAIL("%s never ends", what);
	return wc;
}

static void succeeds(struct ibv_cq *cq, const char *what)
{
	struct ibv_wc wc = next(cq, what);

	if (wc.status != IBV_WC_SUCCESS)
		FAIL("%s: %s", what, ibv_wc_status_str(wc.status));
}

/* The request of A's cross-channel queue in a round: a SEND from the arena or from private memory, a divided READ, a datagram. */
enum program { SENDS, SENDS_PRIVATE, READS, SENDS_DATAGRAM, PROGRAMS };
static enum program program(void)
{
	return (enum program)(st->number % PROGRAMS);
}

/* ---- B ------------------------------------------------------------------------------------------------------------------ */

static struct {
	struct rig r;
	struct ibv_cq *cq, *xcq;
	struct ibv_srq *srq, *xsrq;
	struct ibv_xrcd *xrcd;
	struct ibv_qp *to_a;
	struct ibv_mr *mr[2], *rx[2];
	char *mem[2], *room[2];		/* REGION each; receives: those with even numbers in the arena, those with odd numbers
					 * private */
} b;

static char *room(uint32_t i)
{
	return b.room[i & 1] + (uint64_t)(i >> 1) * ROOM;
}

static void give(struct ibv_srq *srq, uint32_t i)
{
	/* receives of the XRC SRQ lie at the end of those of the other SRQ, which a long message never reaches */
	struct ibv_sge sge = {(uintptr_t)room(i) + (srq == b.xsrq ? BIG + 2048 : 0), srq == b.xsrq ? 2048 : BIG + 2048,
			      b.rx[i & 1]->lkey};
	struct ibv_recv_wr wr = {.wr_id = i, .sg_list = &sge, .num_sge = 1}, *bad;

	CHECK(!shca_post_srq_recv(srq, &wr, &bad));
}

/* The messages since the receives were posted. */
struct came {
	bool used[RECVS];
	uint32_t n, from[FROM_V + 1];
};

static void judge(const struct ibv_wc *wc, struct came *c, bool xrc)
{
	if (wc->wr_id >= RECVS || c->used[wc->wr_id])
		FAIL("receive %lu comes twice", (unsigned long)wc->wr_id);
	c->used[wc->wr_id] = true;
	c->n++;
	if (wc->status != IBV_WC_SUCCESS)
		FAIL("a receive of the SRQ: %s", ibv_wc_status_str(wc->status));
	if (wc->opcode == IBV_WC_RECV_RDMA_WITH_IMM) {
		c->from[FROM_V]++;
		return;
	}
	uint32_t grh = wc->qp_num == st->b_ud ? GRH : 0, len = wc->byte_len - grh;
	const char *p = room((uint32_t)wc->wr_id) + (xrc ? BIG + 2048 : 0) + grh;
	uint64_t tag;
	memcpy(&tag, p, sizeof(tag));
	if ((uint32_t)tag != st->number || tag >> 56 < FROM_A || tag >> 56 > FROM_V)
		FAIL("a message that nobody sent in round %u: %lx", st->number, (unsigned long)tag);
	static char want[BIG];
	message_fill(want, len < BIG ? len : BIG, (enum who)(tag >> 56));
	if (len > BIG || memcmp(p, want, len))
		FAIL("a message of process %lu, %u bytes long, is damaged", (unsigned long)(tag >> 56), len);
	c->from[tag >> 56]++;
}

static void look(struct came *c, struct came *x)
{
	struct ibv_wc wc;

	while (shca_poll_cq(b.cq, 1, &wc) == 1)
		if (wc.wr_id < RECVS)
			judge(&wc, c, false);
		else if (wc.wr_id == ID_TO_A && wc.status != IBV_WC_SUCCESS)
			FAIL("B's message to A: %s", ibv_wc_status_str(wc.status));
	while (shca_poll_cq(b.xcq, 1, &wc) == 1)
		judge(&wc, x, true);
}

static void send_word(struct ibv_qp *qp, uint64_t id)
{
	uint64_t word = st->number;
	struct ibv_sge sge = {(uintptr_t)&word, 8, 0};
	struct ibv_send_wr wr = {.wr_id = id, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND,
				 .send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE}, *bad;

	CHECK(!shca_post_send(qp, &wr, &bad));
}

static void drain_events(struct rig *r)
{
	struct ibv_async_event ev;

	while (!shca_get_async_event(r->ctx, &ev))
		shca_ack_async_event(&ev);
}

/* The queue that is connected to the victim must fail, and is destroyed. */
static void farewell(struct ibv_qp *qp, bool connected)
{
	struct ibv_wc wc;

	if (connected) {
		send_word(qp, ID_TO_VICTIM);
		do
			wc = next(b.cq, "a request to the dead one");
		while (wc.wr_id != ID_TO_VICTIM);
		if (wc.status != IBV_WC_RETRY_EXC_ERR && wc.status != IBV_WC_WR_FLUSH_ERR)
			FAIL("a request to the dead one: %s", ibv_wc_status_str(wc.status));
	}
	drain_events(&b.r);
	CHECK(!shca_destroy_qp(qp));
}

static void open_b(void)
{
	const unsigned access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
				IBV_ACCESS_REMOTE_ATOMIC;
	struct ibv_srq_init_attr sa = {.attr = {.max_wr = RECVS, .max_sge = 1}};

	rig_join(&b.r, st->fabric);
	fcntl(b.r.ctx->async_fd, F_SETFL, O_NONBLOCK);
	st->slot[1] = b.r.m->slot;
	b.cq = rig_cq(&b.r, 256, NULL);
	b.xcq = rig_cq(&b.r, 64, NULL);
	b.mem[0] = shca_buf_alloc(b.r.ctx, REGION);
	b.mem[1] = aligned_alloc(4096, REGION);
	b.room[0] = shca_buf_alloc(b.r.ctx, RECVS / 2 * ROOM);
	b.room[1] = aligned_alloc(4096, RECVS / 2 * ROOM);
	for (int i = 0; i < 2; i++) {
		CHECK(b.mem[i] && b.room[i]);
		memset(b.mem[i], 0, REGION);
		memset(b.room[i], 0, RECVS / 2 * ROOM);
		b.mr[i] = shca_reg_mr(b.r.pd, b.mem[i], REGION, (uintptr_t)b.mem[i], access);
		b.rx[i] = shca_reg_mr(b.r.pd, b.room[i], RECVS / 2 * ROOM, (uintptr_t)b.room[i], IBV_ACCESS_LOCAL_WRITE);
		CHECK(b.mr[i] && b.rx[i]);
		st->addr[i] = (uintptr_t)b.mem[i];
		st->rkey[i] = b.mr[i]->rkey;
	}
	b.srq = shca_create_srq(b.r.pd, &sa);
	b.xrcd = xrc_domain(&b.r);
	struct ibv_srq_init_attr_ex xa = {
		.attr = {.max_wr = RECVS, .max_sge = 1}, .srq_type = IBV_SRQT_XRC, .pd = b.r.pd, .xrcd = b.xrcd, .cq = b.xcq,
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
	};
	b.xsrq = shca_create_srq_ex(b.r.ctx, &xa);
	CHECK(b.srq && b.xsrq && !shca_get_srq_num(b.xsrq, &st->b_xrc_srqn));
	for (uint32_t i = 0; i < RECVS; i++) {
		give(b.srq, i);
		give(b.xsrq, i);
	}
}

static void round_b(uint32_t number)
{
	struct came c = {.n = 0}, x = {.n = 0};

	wait_for_round(number);
	struct ibv_qp *v = queue(&b.r, IBV_QPT_RC, 0, b.cq, b.cq, b.srq), *vx = xrc_queue(&b.r, NULL, b.xrcd);
	st->b_v = v->qp_num;
	st->b_vx = vx->qp_num;
	atomic_store(&st->b_ready, 1);
	bool connected = st->joins;
	if (connected) {
		until(&st->v_made);
		connect_queue(v, st->v_b);
		connect_queue(vx, st->v_x);
		atomic_store(&st->connected, 1);
	}
	until(&st->dead);
	nothing_left(b.r.m);
	until(&st->settled);
	/* a poll posts returned receives again */
	look(&c, &x);
	look(&c, &x);
	if (c.from[FROM_T] != (st->third && program() != READS) || c.from[FROM_V] + x.from[FROM_V] > 1 || c.n + x.n > 2)
		FAIL("%u messages of A's queue, %u of the victim's", c.from[FROM_T], c.from[FROM_V] + x.from[FROM_V]);
	/* A sends as many messages as receives are left */
	atomic_store(&st->counted, 1 + c.n + 16 * x.n);
	send_word(b.to_a, ID_TO_A);
	until(&st->sent);
	look(&c, &x);
	if (c.n != RECVS || x.n != RECVS)
		FAIL("%u and %u of %u receives were used", c.n, x.n, RECVS);
	*(volatile uint64_t *)(b.mem[0] + O_CELL) = 0;
	*(volatile uint64_t *)(b.mem[1] + O_CELL) = 0;
	for (uint32_t i = 0; i < RECVS; i++) {
		give(b.srq, i);
		give(b.xsrq, i);
	}
	farewell(v, connected);
	drain_events(&b.r);
	CHECK(!shca_destroy_qp(vx));
	atomic_store(&st->done, 1);
}

static void role_b(void)
{
	open_b();
	struct ibv_qp *ud = queue(&b.r, IBV_QPT_UD, 0, b.cq, b.cq, b.srq), *dct = dc_queue(&b.r, b.cq, b.srq);
	struct ibv_qp *from_t = queue(&b.r, IBV_QPT_RC, 0, b.cq, b.cq, b.srq), *ax = xrc_queue(&b.r, NULL, b.xrcd);
	b.to_a = queue(&b.r, IBV_QPT_RC, 0, b.cq, b.cq, b.srq);
	st->b_ud = ud->qp_num;
	st->b_dct = dct->qp_num;
	st->b_t = from_t->qp_num;
	st->b_a = b.to_a->qp_num;
	st->b_ax = ax->qp_num;
	connect_queue(ud, 0);
	atomic_fetch_add(&st->here, 1);
	rig_await(&st->here, 2);
	connect_queue(from_t, st->a_t);
	connect_queue(b.to_a, st->a_b);
	connect_queue(ax, st->a_x);
	atomic_fetch_add(&st->up, 1);
	for (uint32_t n = 1;; n++)
		round_b(n);
}

/* ---- A ------------------------------------------------------------------------------------------------------------------ */

static struct {
	struct rig r;
	struct ibv_cq *cq, *tcq, *wcq, *bcq;	/* completions of A's sends; of queue T; of datagrams; of messages of B */
	struct ibv_qp *t, *tud, *ud, *to_b, *x;
	struct ibv_ah *ah;
	struct ibv_mr *mr[2];
	char *mem[2], *big;
	struct ibv_mr *big_mr;
} a;

static void post_receive(struct ibv_qp *qp)
{
	struct ibv_sge sge = {(uintptr_t)a.mem[0] + 4096, 1024, a.mr[0]->lkey};
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;

	CHECK(!shca_post_recv(qp, &wr, &bad));
}

/* T: WAIT for a datagram, then a request to B. */
static void post_program(void)
{
	int lane = program() == SENDS_PRIVATE;
	struct ibv_qp *t = program() == SENDS_DATAGRAM ? a.tud : a.t;
	struct ibv_sge sge = {(uintptr_t)a.mem[lane], LEN, a.mr[lane]->lkey};
	struct ibv_exp_send_wr wr[2] = {{.exp_opcode = IBV_EXP_WR_CQE_WAIT, .next = &wr[1]},
					{.exp_opcode = IBV_EXP_WR_SEND, .sg_list = &sge, .num_sge = 1,
					 .exp_send_flags = IBV_EXP_SEND_SIGNALED}}, *bad;

	message_fill(a.mem[lane], LEN, FROM_T);
	wr[0].task.cqe_wait.cq = a.wcq;
	wr[0].task.cqe_wait.cq_count = 1;
	if (program() == READS) {
		sge = (struct ibv_sge){(uintptr_t)a.big, BIG, a.big_mr->lkey};
		wr[1].exp_opcode = IBV_EXP_WR_RDMA_READ;
		wr[1].wr.rdma.remote_addr = st->addr[PRIVATE];
		wr[1].wr.rdma.rkey = st->rkey[PRIVATE];
	}
	if (program() == SENDS_DATAGRAM) {
		wr[1].wr.ud.ah = a.ah;
		wr[1].wr.ud.remote_qpn = st->b_ud;
		wr[1].wr.ud.remote_qkey = RIG_QKEY;
	}
	post_receive(a.ud);
	CHECK(!shca_exp_post_send(t, wr, &bad));
}

/* A sends the datagram that the victim may not have sent, so that queue T runs. */
static void settle(void)
{
	struct ibv_sge sge = {(uintptr_t)a.mem[0], 8, a.mr[0]->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED,
				 .wr.ud = {.ah = a.ah, .remote_qpn = st->a_ud, .remote_qkey = RIG_QKEY}}, *bad;
	struct ibv_wc wc;
	int n = shca_poll_cq(a.wcq, 1, &wc);

	if (!n)
		n = shca_poll_cq(a.wcq, 1, &wc);	/* the first poll posts a returned receive again */
	if (!n) {
		CHECK(!shca_post_send(a.ud, &wr, &bad));
		succeeds(a.cq, "A's own datagram");
		wc = next(a.wcq, "the receive of A's own datagram");
	}
	if (wc.status != IBV_WC_SUCCESS)
		FAIL("a datagram's receive: %s", ibv_wc_status_str(wc.status));
	succeeds(a.tcq, "the request of A's cross-channel queue");
}

static void send_to_b(struct ibv_qp *qp, uint32_t n)
{
	struct ibv_sge sge = {(uintptr_t)a.mem[1], LEN, a.mr[1]->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED,
				 .qp_type.xrc.remote_srqn = st->b_xrc_srqn}, *bad;

	message_fill(a.mem[1], LEN, FROM_A);
	for (uint32_t i = 0; i < n; i++)
		CHECK(!shca_post_send(qp, &wr, &bad));
	for (uint32_t i = 0; i < n; i++)
		succeeds(a.cq, "A's message to B");
}

static void round_a(uint32_t number)
{
	wait_for_round(number);
	if (st->third)
		post_program();
	atomic_store(&st->a_ready, 1);
	until(&st->dead);
	nothing_left(a.r.m);
	if (st->third)
		settle();
	atomic_store(&st->settled, 1);
	until(&st->counted);
	uint32_t used = atomic_load(&st->counted) - 1;
	send_to_b(a.to_b, RECVS - used % 16);
	send_to_b(a.x, RECVS - used / 16);
	succeeds(a.bcq, "B's message to A");
	post_receive(a.to_b);
	atomic_store(&st->sent, 1);
}

static void role_a(void)
{
	struct ibv_ah_attr attr = {.dlid = SHCA_LID, .port_num = 1};

	rig_join(&a.r, st->fabric);
	st->slot[0] = a.r.m->slot;
	a.cq = rig_cq(&a.r, 64, NULL);
	a.tcq = rig_cq(&a.r, 64, NULL);
	a.wcq = rig_cq(&a.r, 64, NULL);
	a.bcq = rig_cq(&a.r, 64, NULL);
	a.mem[0] = shca_buf_alloc(a.r.ctx, 8192);
	a.mem[1] = aligned_alloc(4096, 8192);
	a.ah = shca_create_ah(a.r.pd, &attr);
	CHECK(a.mem[0] && a.mem[1] && a.ah);
	for (int i = 0; i < 2; i++) {
		memset(a.mem[i], 0, 8192);
		a.mr[i] = shca_reg_mr(a.r.pd, a.mem[i], 8192, (uintptr_t)a.mem[i], IBV_ACCESS_LOCAL_WRITE);
		CHECK(a.mr[i]);
	}
	a.big = aligned_alloc(4096, BIG);
	CHECK(a.big);
	memset(a.big, 0, BIG);
	a.big_mr = shca_reg_mr(a.r.pd, a.big, BIG, (uintptr_t)a.big, IBV_ACCESS_LOCAL_WRITE);
	CHECK(a.big_mr);
	a.tud = queue(&a.r, IBV_QPT_UD, IBV_EXP_QP_CREATE_CROSS_CHANNEL, a.tcq, a.tcq, NULL);
	connect_queue(a.tud, 0);
	a.t = queue(&a.r, IBV_QPT_RC, IBV_EXP_QP_CREATE_CROSS_CHANNEL, a.tcq, a.tcq, NULL);
	a.ud = queue(&a.r, IBV_QPT_UD, 0, a.cq, a.wcq, NULL);
	a.to_b = queue(&a.r, IBV_QPT_RC, 0, a.cq, a.bcq, NULL);
	a.x = xrc_queue(&a.r, a.cq, NULL);
	st->a_t = a.t->qp_num;
	st->a_ud = a.ud->qp_num;
	st->a_b = a.to_b->qp_num;
	st->a_x = a.x->qp_num;
	connect_queue(a.ud, 0);
	atomic_fetch_add(&st->here, 1);
	rig_await(&st->here, 2);
	connect_queue(a.t, st->b_t);
	connect_queue(a.to_b, st->b_a);
	connect_queue(a.x, st->b_ax);
	post_receive(a.to_b);
	atomic_fetch_add(&st->up, 1);
	for (uint32_t n = 1;; n++)
		round_a(n);
}

/* ---- the runner --------------------------------------------------------------------------------------------------------- */

static pid_t survivor[2];
static unsigned rounds;

static pid_t start(void (*role)(void), const struct call *c)
{
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	alarm(600);
	if (c)
		victim(c);
	role();
	_exit(0);
}

static bool survivors_live(void)
{
	int status;

	for (int i = 0; i < 2; i++)
		if (waitpid(survivor[i], &status, WNOHANG) == survivor[i]) {
			fprintf(stderr, "    %c ended: status %#x\n", "AB"[i], (unsigned)status);
			survivor[i] = 0;
			return false;
		}
	return true;
}

static bool runner_waits(_Atomic uint32_t *word)
{
	for (int i = 0; !atomic_load(word); i++, rig_nap())
		if (i > 40000 || !survivors_live())
			return false;
	return true;
}

/* Steps the victim through n instructions of the call, and kills the victim there. Returns the number of executed instructions;
 * -1: ptrace failed. */
static long step(pid_t pid, long n)
{
	int status, sig = 0;
	long done = 0;

	for (;;) {
		if (waitpid(pid, &status, __WALL) != pid || !WIFSTOPPED(status))
			break;
		sig = WSTOPSIG(status) == SIGTRAP || WSTOPSIG(status) == SIGSTOP ? 0 : WSTOPSIG(status);
		uint32_t inside = atomic_load(&st->inside);
		if (inside == 2 || (inside == 1 && done >= n)) {
			kill(pid, SIGKILL);
			waitpid(pid, &status, __WALL);
			break;
		}
		done += inside == 1;
		if (ptrace(PTRACE_SINGLESTEP, pid, NULL, (void *)(long)sig))
			FAIL("PTRACE_SINGLESTEP: %s", strerror(errno));
	}
	if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL) {
		fprintf(stderr, "    the victim ended by itself: status %#x\n", (unsigned)status);
		return -1;
	}
	return done;
}

static long play(const struct call *c, long n)
{
	st->third = c->third;
	st->joins = !c->outside;
	atomic_store(&st->inside, 0);
	atomic_store(&st->v_made, 0);
	atomic_store(&st->b_ready, 0);
	atomic_store(&st->a_ready, 0);
	atomic_store(&st->connected, 0);
	atomic_store(&st->dead, 0);
	atomic_store(&st->settled, 0);
	atomic_store(&st->counted, 0);
	atomic_store(&st->sent, 0);
	atomic_store(&st->done, 0);
	st->number = ++rounds;
	atomic_store(&st->round, rounds);
	if (!runner_waits(&st->b_ready) || !runner_waits(&st->a_ready))
		return -1;
	pid_t pid = start(NULL, c);
	long done = step(pid, n);
	atomic_store(&st->dead, 1);
	return !runner_waits(&st->done) ? -1 : done;
}

/* Returns whether a process may trace and step a child here. */
static bool can_trace(void)
{
	int status;
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (!pid) {
		if (ptrace(PTRACE_TRACEME, 0, NULL, NULL))
			_exit(1);
		raise(SIGSTOP);
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid);
	if (!WIFSTOPPED(status))
		return false;
	bool can = !ptrace(PTRACE_SINGLESTEP, pid, NULL, NULL) && waitpid(pid, &status, 0) == pid && WIFSTOPPED(status);
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	return can;
}

static long length[128];		/* instructions of each call, as last counted */

/* The victim dies in the call after n instructions, or at the end of the call. */
static bool die(unsigned i, long n, uint64_t seed)
{
	long done = play(&calls[i], n);

	if (done > 0 && done < n)
		length[i] = done;
	if (done < 0)
		printf("FAIL: %s, instruction %ld of about %ld, round %u, seed %lu\n", calls[i].name, n, length[i], rounds,
		       (unsigned long)seed);
	return done >= 0;
}

/* Every instruction of a short call; of a long one as many as the time allows, at a stride with a random offset. */
static bool every(unsigned i, uint64_t *rnd, uint64_t end, uint64_t seed)
{
	if (!die(i, LONG_MAX, seed))
		return false;
	long stride = length[i] * length[i] / STEPS + 1;
	for (long n = rig_below(rnd, (uint32_t)stride); n < length[i] && monotonic_ns() < end; n += stride)
		if (!die(i, n, seed))
			return false;
	return true;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {{"all", no_argument, NULL, 'a'}, {"seconds", required_argument, NULL, 's'},
						{"seed", required_argument, NULL, 'r'}, {NULL, 0, NULL, 0}};
	uint64_t seed = monotonic_ns() ^ (uint64_t)getpid() << 32, rnd, end;
	bool all = false, verbose = false, good = true;
	unsigned tried = 0;
	long seconds = 10;
	int opt;

	while ((opt = getopt_long(argc, argv, "v", options, NULL)) != -1) {
		if (opt == 'a')
			all = true, seconds = 1000000;
		else if (opt == 's')
			seconds = atol(optarg);
		else if (opt == 'r')
			seed = strtoull(optarg, NULL, 0);
		else if (opt == 'v')
			verbose = true;
		else
			return 2;
	}
	argv += optind;
	argc -= optind;
	setvbuf(stdout, NULL, _IOLBF, 0);
	setenv("SHCA_DEATH_MS", "20", 0);
	unsetenv("SHCA_FABRIC_FD");
	if (!can_trace()) {
		printf("SKIP: ptrace is not permitted here: no death at single instructions was tried\n");
		return SKIPPED;
	}
	rnd = seed | 1;
	printf("seed %lu\n", (unsigned long)seed);
	st = mmap(NULL, sizeof(*st), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(st != MAP_FAILED);
	snprintf(st->fabric, sizeof(st->fabric), "single-step-%d", (int)getpid());
	survivor[0] = start(role_a, NULL);
	survivor[1] = start(role_b, NULL);
	good = runner_waits(&st->up);
	end = monotonic_ns() + (uint64_t)seconds * 1000000000ull;
	for (unsigned i = 0; i < n_calls && good; i++) {
		if (argc > 0 ? strcmp(argv[0], calls[i].name) : !all)
			continue;
		good = argc > 1 ? die(i, atol(argv[1]), seed) : every(i, &rnd, end, seed);
		if (verbose)
			printf("%-30s %ld instructions, %u deaths so far\n", calls[i].name, length[i], rounds);
	}
	/* the calls in turns, at a random instruction each */
	uint32_t first = rig_below(&rnd, n_calls);
	for (unsigned k = 0; good && !all && argc == 0 && monotonic_ns() < end; k++) {
		unsigned i = (first + k) % n_calls;
		uint32_t most = length[i] ? (uint32_t)length[i] + 1 : USUAL << (rig_below(&rnd, 32) ? 0 : 4);
		good = die(i, rig_below(&rnd, most), seed);
		tried = k + 1;
	}
	printf("%u deaths%s\n", rounds, !all && argc == 0 && tried < n_calls ? "; not every call had its turn" : "");
	for (int i = 0; i < 2; i++)
		if (survivor[i]) {
			kill(survivor[i], SIGKILL);
			waitpid(survivor[i], NULL, 0);
		}
	return !good;
}
