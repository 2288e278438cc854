/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The queues that failpoints does not cover: a third party dies at every step of a request of a UD, XRC or DC queue while
 * executing that queue for the owner.
 *
 *     A  owns the queue T, and is stopped by SIGSTOP before executing T
 *     B  has the receives (its own, an XRC SRQ, or a DC target's SRQ) and the memory; sends nothing
 *     X  executes T: T's first request is a WAIT for X's message; or (DC, without WAIT) X kicks T without having looked up the
 *        target, as a thread does that finds a queue in `left`
 *
 * B must find the requests that X leaves unfinished completed while A is stopped.
 *
 *     failpoints_kinds [-v] [KIND [POINT [REQUEST]]]
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "failpoint.h"
#include "rig.h"

enum kind { UD, XRC, DC, KINDS };
static const char *const kind_name[] = {"UD", "XRC", "DC"};

enum req { SEND, WRITE, WRITE_IMM, READ, FAA, REQS };
static const char *const req_name[] = {"SEND", "WRITE", "WRITE_IMM", "READ", "FAA"};
static const int req_op[] = {SHCA_OP_SEND, SHCA_OP_WRITE, SHCA_OP_WRITE_IMM, SHCA_OP_READ, SHCA_OP_FAA};
#define M(r) (1u << (r))
#define M_TAKES (M(SEND) | M(WRITE_IMM))
#define M_WRITES (M(WRITE) | M(WRITE_IMM))
#define M_ALL ((1u << REQS) - 1)

static const struct point {
	const char *name, *fp;
	uint32_t reqs;
	bool of_queue;			/* not of one request */
	uint32_t skip;			/* completions that come before, if the request takes a receive */
	bool ambiguous;			/* T has to fail */
	bool connected;			/* not where datagrams are sent */
} points[] = {
	{"kick", "kick", M(SEND), true, 0, false, false},
	{"claimed", "claimed", M(SEND), true, 0, false, false},
	{"run", "run", M(SEND), true, 0, false, false},
	{"exec", "exec", M_ALL, false, 0, false, false},
	{"found", "found", M_ALL, false, 0, false, true},
	{"take", "take", M_TAKES, false, 0, false, false},
	{"taken", "taken", M_TAKES, false, 0, false, false},
	{"data", "data", M(SEND) | M(READ) | M_WRITES, false, 0, false, false},
	{"data-done", "data-done", M(SEND) | M(READ), false, 0, false, false},
	{"final", "final", M_WRITES, false, 0, true, false},
	{"final-done", "final-done", M_WRITES, false, 0, true, false},
	{"wrote", "wrote", M(WRITE_IMM), false, 0, false, false},
	{"atomic", "atomic", M(FAA), false, 0, true, false},
	{"atomic-done", "atomic-done", M(FAA), false, 0, true, false},
	{"rcqe", "rcqe", M_TAKES, false, 0, false, false},
	{"rcqe-visible", "cqe-visible", M_TAKES, false, 0, false, false},
	{"rcqe-done", "rcqe-done", M_TAKES, false, 0, false, false},
	{"scqe", "scqe", M_ALL, false, 0, false, false},
	{"scqe-visible", "cqe-visible", M_ALL, false, 1, false, false},
	{"scqe-done", "scqe-done", M_ALL, false, 0, false, false},
	{"advanced", "advanced", M_ALL, false, 0, false, false},
	{"release", "release", M(SEND), true, 0, false, false},
};

enum { A, B, X, ROLES };
#define RECVS 4
#define LEN 200
#define GRH 40
#define ROOM 256
#define CELL0 0x100u
static struct stage {
	char fabric[64];
	enum kind kind;
	enum req req;
	const struct point *p;
	bool priv;
	uint32_t t[2], srqn, slot_a, slot_x;	/* numbers of T and of the queue that responds; slots of A and X */
	shca_off off;			/* T's */
	uint64_t addr, cell;
	uint32_t rkey;
	struct rig_meeting xa, xb;
	struct rig_stops stops;
	_Atomic uint32_t made, up, posted, open, dead, b_done, finish;
	struct failpoint_arm arm[FAILPOINT_ARMS];
} *st;

static int datagram(void)
{
	return st->kind == UD;
}

static char *memory(struct rig *r, bool priv, struct ibv_mr **mr)
{
	unsigned access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
	char *p = priv ? aligned_alloc(4096, 8192) : shca_buf_alloc(r->ctx, 8192);

	CHECK(p);
	memset(p, 0, 8192);
	*mr = shca_reg_mr(r->pd, p, 8192, (uintptr_t)p, access);
	CHECK(*mr);
	return p;
}

static void poll_one(struct ibv_cq *cq, struct ibv_wc *wc, const char *what)
{
	for (int i = 0; shca_poll_cq(cq, 1, wc) != 1; i++, rig_nap())
		if (i > 20000)
			FAIL("no completion: %s", what);
}

/* ---- queues ---------------------------------------------------------------------------------------------------------- */

static struct ibv_qp *dc_queue(struct rig *r, struct ibv_cq *cq, struct ibv_srq *srq)
{
	return rig_dc_qp(r, cq, srq, IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |
			 IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD);
}

/* Takes an initiator to RTS, a target to RTR. */
static void dc_up(struct ibv_qp *qp, bool target)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_4096,
				   .ah_attr = {.dlid = SHCA_LID, .port_num = 1}, .retry_cnt = 7, .rnr_retry = 7};

	CHECK(!shca_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PATH_MTU | (target ? IBV_QP_AV | IBV_QP_MIN_RNR_TIMER : 0)));
	attr.qp_state = IBV_QPS_RTS;
	attr.max_rd_atomic = 1;
	if (!target)
		CHECK(!shca_modify_qp(qp, &attr,
				      IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
					      IBV_QP_MAX_QP_RD_ATOMIC));
}

/* ---- A ---------------------------------------------------------------------------------------------------------------- */

static struct ibv_qp *make_t(struct rig *r, struct ibv_cq *cq)
{
	struct rig_qp_attr a = {.type = datagram() ? IBV_QPT_UD : IBV_QPT_XRC_SEND, .exp_flags = IBV_EXP_QP_CREATE_CROSS_CHANNEL,
				.scq = cq, .rcq = datagram() ? cq : NULL, .send_wr = 16, .recv_wr = datagram() ? 1 : 0, .sge = 1};
	struct rig_path path = {.retry_cnt = 7, .rnr_retry = 7};
	struct ibv_qp *qp = st->kind == DC ? dc_queue(r, cq, NULL) : rig_qp(r, &a);

	if (st->kind != DC)
		rig_init(qp);
	st->t[0] = qp->qp_num;
	st->off = shca_user_qp_of(qp)->off;
	atomic_fetch_add(&st->made, 1);
	rig_await(&st->made, 2);
	path.dest_qpn = st->t[1];
	if (st->kind == DC) {
		dc_up(qp, false);
	} else {
		rig_rtr(qp, &path);
		rig_rts(qp, &path);
	}
	return qp;
}

static void post_program(struct ibv_qp *t, struct ibv_cq *waited, struct ibv_ah *ah, struct ibv_sge *sge)
{
	static const enum ibv_exp_wr_opcode op[] = {IBV_EXP_WR_SEND, IBV_EXP_WR_RDMA_WRITE, IBV_EXP_WR_RDMA_WRITE_WITH_IMM,
						    IBV_EXP_WR_RDMA_READ, IBV_EXP_WR_ATOMIC_FETCH_AND_ADD};
	struct ibv_exp_send_wr wr[3] = {
		{.exp_opcode = IBV_EXP_WR_CQE_WAIT, .next = &wr[1], .task.cqe_wait = {.cq = waited, .cq_count = 1}},
		{.wr_id = 1, .exp_opcode = op[st->req], .exp_send_flags = IBV_EXP_SEND_SIGNALED, .sg_list = &sge[0], .num_sge = 1,
		 .next = &wr[2]},
		{.wr_id = 2, .exp_opcode = IBV_EXP_WR_SEND, .exp_send_flags = IBV_EXP_SEND_SIGNALED, .sg_list = &sge[1],
		 .num_sge = 1},
	}, *bad;

	for (int i = 1; i < 3; i++) {
		if (datagram()) {
			wr[i].wr.ud.ah = ah;
			wr[i].wr.ud.remote_qpn = st->t[1];
			wr[i].wr.ud.remote_qkey = RIG_QKEY;
		} else {
			wr[i].qp_type.xrc.remote_srqn = st->srqn;
		}
	}
	if (st->req == FAA) {
		wr[1].wr.atomic.remote_addr = st->cell;
		wr[1].wr.atomic.rkey = st->rkey;
		wr[1].wr.atomic.compare_add = 3;
	} else if (st->req != SEND) {
		wr[1].wr.rdma.remote_addr = st->addr;
		wr[1].wr.rdma.rkey = st->rkey;
	}
	CHECK(!shca_exp_post_send(t, wr, &bad));
}

static void dc_post(struct ibv_qp *t, struct ibv_ah *ah, struct ibv_sge *sge)
{
	struct ibv_qp_ex *ex = &shca_user_qp_of(t)->ex;

	ibv_wr_start(ex);
	for (int i = 0; i < 2; i++) {
		ex->wr_id = 1 + (uint64_t)i;
		ex->wr_flags = IBV_SEND_SIGNALED;
		switch (i ? SEND : st->req) {
		case WRITE: ibv_wr_rdma_write(ex, st->rkey, st->addr); break;
		case WRITE_IMM: ibv_wr_rdma_write_imm(ex, st->rkey, st->addr, 0); break;
		case READ: ibv_wr_rdma_read(ex, st->rkey, st->addr); break;
		case FAA: ibv_wr_atomic_fetch_add(ex, st->rkey, st->cell, 3); break;
		default: ibv_wr_send(ex); break;
		}
		shca_dv_qp_ex(ex)->wr_set_dc_addr(shca_dv_qp_ex(ex), ah, st->t[1], RIG_DC_KEY);
		ibv_wr_set_sge(ex, sge[i].lkey, sge[i].addr, sge[i].length);
	}
	CHECK(!ibv_wr_complete(ex));
}

static void wants(struct ibv_cq *cq, uint64_t id, enum ibv_wc_status status)
{
	struct ibv_wc wc;

	poll_one(cq, &wc, "T's");
	if (wc.wr_id != id || wc.status != status)
		FAIL("T: request %lu: %s, instead of request %lu: %s", (unsigned long)wc.wr_id, ibv_wc_status_str(wc.status),
		     (unsigned long)id, ibv_wc_status_str(status));
}

static void role_a(struct rig *r)
{
	struct ibv_ah_attr attr = {.dlid = SHCA_LID, .port_num = 1};
	struct ibv_ah *ah = shca_create_ah(r->pd, &attr);
	struct ibv_cq *cq = rig_cq(r, 32, NULL), *waited = rig_cq(r, 16, NULL);
	struct ibv_mr *mr;
	char *p = memory(r, st->priv, &mr);
	struct ibv_qp *t = make_t(r, cq), *from_x = rig_meet(r, waited, &st->xa, 0, 2);
	struct ibv_sge in = {(uintptr_t)p + 4096, 64, mr->lkey};
	struct ibv_recv_wr rwr = {.sg_list = &in, .num_sge = 1}, *bad;
	struct ibv_wc wc;

	st->slot_a = r->m->slot;
	CHECK(ah && !shca_post_recv(from_x, &rwr, &bad));
	rig_fill(p, LEN, 1);
	*(uint64_t *)(p + 2048) = 9;
	/* the request under test, and the next one */
	struct ibv_sge sge[2] = {{(uintptr_t)p, LEN, mr->lkey}, {(uintptr_t)p + 2048, 8, mr->lkey}};
	if (st->req == READ || st->req == FAA)
		sge[0] = (struct ibv_sge){(uintptr_t)p + 1024, st->req == FAA ? 8 : LEN, mr->lkey};
	atomic_fetch_add(&st->up, 1);
	rig_await(&st->up, 3);
	if (st->kind == DC)
		dc_post(t, ah, sge);
	else
		post_program(t, waited, ah, sge);
	atomic_store(&st->posted, 1);
	/* here SIGSTOP comes; not in a library call (for the helper thread: stopped_outside) */
	while (!atomic_load(&st->finish))
		rig_nap();
	wants(cq, 1, st->p->ambiguous ? IBV_WC_FATAL_ERR : IBV_WC_SUCCESS);
	wants(cq, 2, st->p->ambiguous ? IBV_WC_WR_FLUSH_ERR : IBV_WC_SUCCESS);
	if (shca_poll_cq(cq, 1, &wc) > 0)
		FAIL("T: request %lu completes again: %s", (unsigned long)wc.wr_id, ibv_wc_status_str(wc.status));
	if (!st->p->ambiguous && st->req == READ && rig_check(p + 1024, LEN, 2) >= 0)
		FAIL("the read's byte %ld is wrong", rig_check(p + 1024, LEN, 2));
	if (!st->p->ambiguous && st->req == FAA && *(uint64_t *)(p + 1024) != CELL0)
		FAIL("the atomic returned %lu", (unsigned long)*(uint64_t *)(p + 1024));
	CHECK(!shca_destroy_qp(t) && !shca_destroy_qp(from_x) && !shca_destroy_cq(cq) && !shca_destroy_cq(waited));
	CHECK(!shca_dereg_mr(mr) && !shca_destroy_ah(ah));
}

/* ---- B ---------------------------------------------------------------------------------------------------------------- */

struct answers {
	struct ibv_qp *qp;
	struct ibv_srq *srq;
	struct ibv_xrcd *xrcd;
	struct shca_user_rq *rq;
};

static struct answers make_answers(struct rig *r, struct ibv_cq *cq)
{
	struct ibv_xrcd_init_attr xd = {.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
					.oflags = O_CREAT,
					.fd = -1};
	struct ibv_srq_init_attr sa = {.attr = {.max_wr = RECVS, .max_sge = 1}};
	struct answers s = {NULL, NULL, NULL, NULL};

	if (datagram()) {
		struct rig_qp_attr a = {.type = IBV_QPT_UD, .scq = cq, .rcq = cq, .send_wr = 1, .recv_wr = RECVS, .sge = 1};
		s.qp = rig_qp(r, &a);
		rig_init(s.qp);
		rig_rtr(s.qp, &(struct rig_path){0});
		s.rq = shca_user_qp_of(s.qp)->rq;
		return s;
	}
	if (st->kind == DC) {
		s.srq = shca_create_srq(r->pd, &sa);
		CHECK(s.srq);
		s.qp = dc_queue(r, cq, s.srq);
	} else {
		s.xrcd = shca_open_xrcd(r->ctx, &xd);
		CHECK(s.xrcd);
		struct ibv_srq_init_attr_ex a = {
			.attr = sa.attr, .srq_type = IBV_SRQT_XRC, .pd = r->pd, .xrcd = s.xrcd, .cq = cq,
			.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD |
				     IBV_SRQ_INIT_ATTR_CQ,
		};
		struct ibv_qp_init_attr_ex to = {.qp_type = IBV_QPT_XRC_RECV, .xrcd = s.xrcd, .comp_mask = IBV_QP_INIT_ATTR_XRCD};
		s.srq = shca_create_srq_ex(r->ctx, &a);
		CHECK(s.srq && !shca_get_srq_num(s.srq, &st->srqn));
		s.qp = shca_create_qp_ex(r->ctx, &to);
		CHECK(s.qp);
		rig_init(s.qp);
	}
	s.rq = &shca_user_srq_of(s.srq)->rq;
	return s;
}

static void receive(struct answers *s, char *p, struct ibv_mr *mr, uint64_t i)
{
	struct ibv_sge sge = {(uintptr_t)p + 4096 + i * ROOM, ROOM, mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = i, .sg_list = &sge, .num_sge = 1}, *bad;

	CHECK(!(s->srq ? shca_post_srq_recv(s->srq, &wr, &bad) : shca_post_recv(s->qp, &wr, &bad)));
}

/* Receives that can be taken. */
static uint32_t posted(struct rig *r, struct answers *s)
{
	struct shca_thread *thr = shca_thread_get(r->m);
	uint32_t n = 0;

	for (uint32_t i = 0; i < 1u << s->rq->sh->log2; i++)
		n += (atomic_load(&shca_rwqe_at(thr, s->rq->sh, i)->word) & 3) == SHCA_R_POSTED;
	return n;
}

static void check_b(struct rig *r, struct ibv_cq *cq, struct answers *s, char *p)
{
	uint32_t n = st->p->ambiguous ? 0 : M_TAKES & M(st->req) ? 2 : 1, skip = datagram() ? GRH : 0;
	struct ibv_wc wc;

	for (uint32_t i = 0; i < n; i++) {
		bool mark = i == n - 1;
		poll_one(cq, &wc, mark ? "the last message" : "T's message");
		uint32_t len = (mark ? 8 : LEN) + skip;
		const char *at = !mark && st->req == WRITE_IMM ? p : p + 4096 + wc.wr_id * ROOM + skip;
		if (wc.status != IBV_WC_SUCCESS || wc.byte_len != len || wc.wr_id != i)
			FAIL("message %u: %s, %u bytes instead of %u, receive %lu", i, ibv_wc_status_str(wc.status),
			     wc.byte_len, len, (unsigned long)wc.wr_id);
		if (mark ? *(const uint64_t *)at != 9 : rig_check(at, LEN, 1) >= 0)
			FAIL("message %u is damaged", i);
	}
	if (!st->p->ambiguous && st->req == WRITE && rig_check(p, LEN, 1) >= 0)
		FAIL("the write's byte %ld is wrong", rig_check(p, LEN, 1));
	uint64_t cell = *(volatile uint64_t *)(p + 2048);
	if (st->req == FAA ? cell != CELL0 + 3 && !(st->p->ambiguous && cell == CELL0) : cell != CELL0)
		FAIL("the atomic's word is %#lx", (unsigned long)cell);
	for (int i = 0; i < 5; i++, rig_nap())
		if (shca_poll_cq(cq, 1, &wc) > 0)
			FAIL("one message too many: receive %lu, %s", (unsigned long)wc.wr_id, ibv_wc_status_str(wc.status));
	if (posted(r, s) != RECVS - n)
		FAIL("%u receives are left, of %u", posted(r, s), RECVS - n);
}

static void role_b(struct rig *r)
{
	struct ibv_cq *cq = rig_cq(r, 32, NULL), *xcq = rig_cq(r, 4, NULL);
	struct answers s = make_answers(r, cq);
	struct ibv_mr *mr;
	char *p = memory(r, st->priv, &mr);

	if (st->req == READ)
		rig_fill(p, LEN, 2);
	*(uint64_t *)(p + 2048) = CELL0;
	st->t[1] = s.qp->qp_num;
	st->addr = (uintptr_t)p;
	st->cell = (uintptr_t)p + 2048;
	st->rkey = mr->rkey;
	for (uint64_t i = 0; i < RECVS; i++)
		receive(&s, p, mr, i);
	atomic_fetch_add(&st->made, 1);
	rig_await(&st->made, 2);
	if (s.xrcd)
		rig_rtr(s.qp, &(struct rig_path){.dest_qpn = st->t[0], .min_rnr_timer = 1});
	struct ibv_qp *from_x = rig_meet(r, xcq, &st->xb, 0, 2);
	atomic_fetch_add(&st->up, 1);
	/* A's helper thread may be executing T by a timer */
	rig_await_outside(r, &st->stops, &st->slot_a, 1);
	if (st->kind == DC)
		dc_up(s.qp, true);
	atomic_store(&st->open, 1);
	rig_await(&st->dead, 1);
	for (int i = 0; (atomic_load(&r->m->procs[st->slot_x].state) & 255) != SHCA_PROC_FREE; i++, rig_nap())
		if (i > 20000)
			FAIL("X is not cleared away");
	check_b(r, cq, &s, p);
	atomic_store(&st->b_done, 1);
	rig_await(&st->finish, 2);
	CHECK(!shca_destroy_qp(s.qp) && !shca_destroy_qp(from_x) && (!s.srq || !shca_destroy_srq(s.srq)));
	CHECK((!s.xrcd || !shca_close_xrcd(s.xrcd)) && !shca_destroy_cq(cq) && !shca_destroy_cq(xcq) && !shca_dereg_mr(mr));
}

/* ---- X ---------------------------------------------------------------------------------------------------------------- */

static void arm(void)
{
	struct failpoint_arm *f = &st->arm[0];

	snprintf(f->name, sizeof(f->name), "%s", st->p->fp);
	f->op = st->p->of_queue ? -1 : req_op[st->req];
	f->qpn = st->t[0];
	f->who = FP_THIRD;
	f->skip = M_TAKES & M(st->req) ? st->p->skip : 0;
	atomic_store(&f->pid, (int32_t)getpid());
}

static void role_x(struct rig *r)
{
	struct ibv_cq *cq = rig_cq(r, 16, NULL);
	struct ibv_mr *mr;
	char *p = memory(r, false, &mr);
	struct ibv_qp *to_a = rig_meet(r, cq, &st->xa, 1, 2);
	struct ibv_sge sge = {(uintptr_t)p, 8, mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND}, *bad;

	st->slot_x = r->m->slot;
	rig_meet(r, cq, &st->xb, 1, 2);
	atomic_fetch_add(&st->up, 1);
	rig_await(&st->open, 1);
	arm();
	if (st->kind == DC) {
		struct shca_thread *thr = shca_thread_get(r->m);
		shca_enter(thr);
		shca_kick(thr, st->off);
		shca_drain(thr);
		shca_leave(thr);
	} else {
		CHECK(!shca_post_send(to_a, &wr, &bad));
	}
	_exit(3);
}

/* ---- the runner -------------------------------------------------------------------------------------------------------- */

static bool well(pid_t pid, const char *who, char *why, size_t n)
{
	int status;

	CHECK(waitpid(pid, &status, 0) == pid);
	if (WIFEXITED(status) && !WEXITSTATUS(status))
		return true;
	if (!*why)
		snprintf(why, n, "%s: status %#x", who, status);
	return false;
}

static bool run(unsigned number, char *why, size_t n)
{
	void (*const roles[ROLES])(struct rig *) = {role_a, role_b, role_x};
	pid_t pid[ROLES];
	int status;

	snprintf(st->fabric, sizeof(st->fabric), "kinds-%d-%u", (int)getpid(), number);
	st->priv = number & 1;
	/* a write's body is a separate step only in the arena */
	if (!strcmp(st->p->name, "data") && (M_WRITES & M(st->req)))
		st->priv = false;
	for (int i = 0; i < ROLES; i++) {
		pid[i] = fork();
		CHECK(pid[i] >= 0);
		if (!pid[i]) {
			struct rig r;
			failpoint_arms = st->arm;
			alarm(60);
			rig_join(&r, st->fabric);
			roles[i](&r);
			rig_leave(&r);
			_exit(0);
		}
	}
	for (int i = 0; !atomic_load(&st->posted) && i < 20000; i++)
		rig_nap();
	rig_stop_outside(&st->stops, &pid[A], 1);
	CHECK(waitpid(pid[X], &status, 0) == pid[X]);
	if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL || !atomic_load(&st->arm[0].hit))
		snprintf(why, n, "the point was not hit: X's status %#x", status);
	atomic_store(&st->dead, 1);
	for (int i = 0; !*why && !atomic_load(&st->b_done) && i < 40000; i++, rig_nap())
		if (waitpid(pid[B], &status, WNOHANG | WNOWAIT) == pid[B] && !atomic_load(&st->b_done))
			snprintf(why, n, "B failed while A was stopped");
	if (*why) {
		kill(pid[A], SIGKILL);
		kill(pid[B], SIGKILL);
	}
	atomic_store(&st->finish, 1);
	kill(pid[A], SIGCONT);
	bool good = well(pid[A], "A", why, n);
	atomic_store(&st->finish, 2);
	return well(pid[B], "B", why, n) && good && !*why;
}

static bool selected(int argc, char **argv, enum kind k, const struct point *p, enum req q)
{
	return (argc < 1 || !strcmp(argv[0], kind_name[k])) && (argc < 2 || !strcmp(argv[1], p->name)) &&
	       (argc < 3 || !strcmp(argv[2], req_name[q]));
}

int main(int argc, char **argv)
{
	bool verbose = argc > 1 && !strcmp(argv[1], "-v");
	unsigned passed = 0, failed = 0;
	char why[200];

	argc -= 1 + verbose;
	argv += 1 + verbose;
	setvbuf(stdout, NULL, _IOLBF, 0);
	setenv("SHCA_DEATH_MS", "20", 0);
	unsetenv("SHCA_FABRIC_FD");
	st = mmap(NULL, sizeof(*st), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(st != MAP_FAILED);
	for (enum kind k = 0; k < KINDS; k++)
		for (const struct point *p = points; p < points + ARRAY_SIZE(points); p++)
			for (enum req q = 0; q < REQS; q++) {
				if (!(p->reqs & M(q)) || (k == UD && (q != SEND || p->connected)) ||
				    !selected(argc, argv, k, p, q))
					continue;
				memset(st, 0, sizeof(*st));
				st->kind = k;
				st->p = p;
				st->req = q;
				*why = 0;
				bool good = run(passed + failed, why, sizeof(why));
				passed += good;
				failed += !good;
				if (!good || verbose)
					printf("%-4s %-14s %-10s %s%s\n", kind_name[k], p->name, req_name[q],
					       good ? "ok" : "FAIL: ", why);
			}
	printf("%u passed, %u failed\n", passed, failed);
	return failed || !passed;
}
