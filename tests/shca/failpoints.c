/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Death at every step: for each failpoint of the engine, each kind of request and each kind of executor three processes
 * join a fabric of their own, one of them is killed exactly there, and the survivors must find everything right.
 *
 *     A    owns the queue T under test; T is connected to B
 *     B    T's responder; also sends to A
 *     X    a third process, connected to both
 *
 * The executor that dies is A itself (its queue ordinary: "owner", or cross-channel: "owner, shared"), or X ("third
 * party"): then T holds a WAIT before the request, A is stopped by SIGSTOP, and X's message to A, which the WAIT waits for,
 * makes X run T. What X leaves unfinished must be finished while A is still stopped.
 *
 * Executor "reaper": a fourth process Y finds X dead, which died when it had just locked T, and goes on with T; B is
 * stopped meanwhile too. Then Y dies at the point, and B, continued, must finish what both have left.
 *
 * Executor "helper": B, polling, copies chunks of A's large write for it, and dies in one.
 *
 *     failpoints [--all] [-v] [POINT [REQUEST [EXECUTOR]]]
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "failpoint.h"
#include "rig.h"

/* ---- what is tested ------------------------------------------------------------------------------------------------ */

enum req {
	R_SEND, R_SEND_IMM, R_WRITE, R_WRITE_IMM, R_READ, R_CAS, R_FAA, R_MCAS, R_MFAA, R_WAIT, R_SEND_EN, R_RECV_EN,
	R_SEND_LONG, R_WRITE_KEY, R_SEND_RNR, R_SEND_SRQ, R_ANY, R_KINDS
};
static const char *const req_name[] = {
	"SEND", "SEND_IMM", "WRITE", "WRITE_IMM", "READ", "CAS", "FAA", "MASKED_CAS", "MASKED_FAA", "WAIT", "SEND_ENABLE",
	"RECV_ENABLE", "SEND(too-long)", "WRITE(bad-key)", "SEND(rnr)", "SEND(srq)", "any",
};
static const int req_op[] = {
	SHCA_OP_SEND, SHCA_OP_SEND_IMM, SHCA_OP_WRITE, SHCA_OP_WRITE_IMM, SHCA_OP_READ, SHCA_OP_CAS, SHCA_OP_FAA,
	SHCA_OP_MASKED_CAS, SHCA_OP_MASKED_FAA, SHCA_OP_WAIT, SHCA_OP_SEND_EN, SHCA_OP_RECV_EN, SHCA_OP_SEND, SHCA_OP_WRITE,
	SHCA_OP_SEND, SHCA_OP_SEND, SHCA_OP_SEND,
};
#define M(r) (1u << R_##r)
#define M_SENDS (M(SEND) | M(SEND_IMM) | M(SEND_SRQ))
#define M_TAKES (M_SENDS | M(WRITE_IMM))
#define M_ATOMICS (M(CAS) | M(FAA) | M(MCAS) | M(MFAA))
#define M_DATA (M_TAKES | M(WRITE) | M(READ) | M_ATOMICS)
#define M_CROSS (M(WAIT) | M(SEND_EN) | M(RECV_EN))
#define M_BAD (M(SEND_LONG) | M(WRITE_KEY))
#define M_REAP (M(SEND) | M(SEND_SRQ) | M(WAIT) | M(SEND_RNR) | M(RECV_EN))

enum executor { E_DIRECT, E_SHARED, E_THIRD, E_REAPER, E_HELPER, E_KINDS };
static const char *const executor_name[] = {"owner", "owner-shared", "third-party", "reaper", "helper"};
#define D (1u << E_DIRECT)
#define S (1u << E_SHARED)
#define T2 (1u << E_THIRD)
#define R4 (1u << E_REAPER)
#define H5 (1u << E_HELPER)
#define T3 (T2 | R4)

/* On which queue the point lies, if not on T for the request's own opcode. */
enum where { W_REQ, W_T, W_TB, W_RS, W_LAST, W_XA, W_ANY };

struct point {
	const char *name, *fp;
	uint32_t reqs, executors;
	enum where where;
	uint32_t skip;
	bool ambiguous;			/* whether the request happened cannot be known: its queue must fail */
	const char *why;		/* other requests and executors cannot come here */
};
static const struct point points[] = {
	{"exec", "exec", M_DATA | M_BAD | M(SEND_RNR), D | S | T3, W_REQ, 0, false, "WAIT and ENABLE move nothing"},
	{"take", "take", M_TAKES, D | S | T3, W_REQ, 0, false, "takes no receive"},
	{"taken", "taken", M_TAKES | M(SEND_LONG), D | S | T3, W_REQ, 0, false, "takes no receive"},
	{"data", "data", M_SENDS | M(WRITE) | M(WRITE_IMM) | M(READ), D | S | T3, W_REQ, 0, false,
	 "moves no data that could be partly there"},
	{"data-done", "data-done", M_SENDS | M(READ), D | S | T3, W_REQ, 0, false, "a write ends with final-done"},
	{"final", "final", M(WRITE) | M(WRITE_IMM), D | S | T3, W_REQ, 0, true, "only writes have a last line"},
	{"final-done", "final-done", M(WRITE) | M(WRITE_IMM), D | S | T3, W_REQ, 0, true, "only writes have a last line"},
	{"wrote", "wrote", M(WRITE_IMM), D | S | T3, W_REQ, 0, false, "only WRITE_IMM takes a receive after its data"},
	{"atomic", "atomic", M_ATOMICS, D | S | T3, W_REQ, 0, true, "no atomic"},
	{"atomic-locked", "atomic-locked", M_ATOMICS, D | S | T3, W_LAST, 0, true, "no atomic"},
	{"atomic-done", "atomic-done", M_ATOMICS, D | S | T3, W_REQ, 0, true, "no atomic"},
	{"rcqe", "rcqe", M_TAKES | M(SEND_LONG), D | S | T3, W_REQ, 0, false, "the responder gets no completion"},
	{"rcqe-visible", "cqe-visible", M_TAKES | M(SEND_LONG), D | S | T3, W_REQ, 0, false, "the responder gets no completion"},
	{"rcqe-done", "rcqe-done", M_TAKES | M(SEND_LONG), D | S | T3, W_REQ, 0, false, "the responder gets no completion"},
	{"failed", "failed", M_BAD, D | S | T3, W_REQ, 0, false, "the request does not fail"},
	{"scqe", "scqe", M_DATA | M_CROSS | M_BAD, D | S | T3, W_REQ, 0, false, "an ordinary queue takes no WAIT or ENABLE"},
	{"scqe-visible", "cqe-visible", M_DATA | M_CROSS | M_BAD, D | S | T3, W_REQ, 1, false,
	 "an ordinary queue takes no WAIT or ENABLE"},
	{"scqe-done", "scqe-done", M_DATA | M_CROSS | M_BAD, D | S | T3, W_REQ, 0, false,
	 "an ordinary queue takes no WAIT or ENABLE"},
	{"advanced", "advanced", M_DATA | M_CROSS, S | T3, W_REQ, 0, false, "an ordinary queue that runs at once has no head"},
	{"wait-armed", "wait-armed", M(WAIT), S | T3, W_REQ, 0, false, "not a WAIT"},
	{"wait-met", "wait-met", M(WAIT), S | T3, W_REQ, 0, false, "not a WAIT"},
	{"enable-raised", "enable-raised", M(SEND_EN) | M(RECV_EN), S | T3, W_REQ, 0, false, "not an ENABLE"},
	{"enabled", "enabled", M(SEND_EN) | M(RECV_EN), S | T3, W_REQ, 0, false, "not an ENABLE"},
	{"kick", "kick", M(ANY), S | T2, W_T, 0, false, "belongs to the queue, not to one request: see any"},
	{"claimed", "claimed", M(ANY), S | T2, W_T, 0, false, "belongs to the queue, not to one request: see any"},
	{"run", "run", M(ANY), S | T3, W_T, 0, false, "belongs to the queue, not to one request: see any"},
	/* X dies in its own message to A, when that is there but nobody has looked who waits for it */
	{"trigger-visible", "cqe-visible", M(ANY), T2, W_XA, 0, false, "belongs to X's queue, not to one request: see any"},
	{"flush-taken", "flush-taken", M_BAD, S | T3, W_T, 0, false, "nothing is flushed"},
	{"flush-done", "flush-done", M_BAD, S | T3, W_T, 0, false, "nothing is flushed"},
	{"nak", "nak", M_BAD, D | S | T3, W_REQ, 0, false, "the responder does not refuse it"},
	{"peer-fatal", "fatal", M_BAD, D | S | T3, W_TB, 0, false, "the responder's queue does not fail"},
	{"peer-kick", "kick", M_BAD, D | S | T3, W_TB, 0, false, "the responder's queue does not fail"},
	{"peer-claimed", "claimed", M_BAD, D | S | T3, W_TB, 0, false, "the responder's queue does not fail"},
	{"peer-flush-taken", "flush-taken", M_BAD, D | S | T3, W_TB, 0, false, "the responder's queue is not flushed"},
	{"peer-flush-done", "flush-done", M_BAD, D | S | T3, W_TB, 0, false, "the responder's queue is not flushed"},
	{"rnr-link", "rnr-link", M(SEND_RNR), D | S | T3, W_T, 0, false, "does not wait for a receive"},
	{"rnr-list", "rnr-list", M(RECV_EN), S | T3, W_LAST, 0, false, "makes no receive available"},
	{"rnr-unlink", "rnr-unlink", M(RECV_EN), S | T3, W_RS, 0, false, "makes no receive available"},
	{"peer-kick-en", "kick", M(SEND_EN) | M(RECV_EN), S | T3, W_RS, 0, false, "not an ENABLE"},
	{"peer-claimed-en", "claimed", M(SEND_EN) | M(RECV_EN), S | T3, W_RS, 0, false, "not an ENABLE"},
	{"share", "share", M(WRITE), H5, W_ANY, 0, false, "only large writes and reads of private memory are divided"},
	{"share-done", "share-done", M(WRITE), H5, W_ANY, 0, false, "only large writes and reads of private memory are divided"},
	{"reap-begin", "reap-begin", M_REAP, R4, W_ANY, 0, false, "independent of the request"},
	{"reap-own", "reap-own", M_REAP, R4, W_ANY, 0, false, "independent of the request"},
	{"reap-foreign", "reap-foreign", M_REAP, R4, W_ANY, 0, false, "independent of the request"},
	{"reap-waiters", "reap-waiters", M_REAP, R4, W_ANY, 0, false, "independent of the request"},
	{"reap-links", "reap-links", M_REAP, R4, W_ANY, 0, false, "independent of the request"},
	{"reap-memory", "reap-memory", M_REAP, R4, W_ANY, 0, false, "independent of the request"},
	{"reap-end", "reap-end", M_REAP, R4, W_ANY, 0, false, "independent of the request"},
};
#define POINTS (sizeof(points) / sizeof(*points))

/* ---- the stage ----------------------------------------------------------------------------------------------------- */

enum { A, B, X, Y, ROLES };
/* Connections: between whom. */
enum link { L_T, L_XA, L_XB, L_AB, L_M, L_R, L_XY, L_BY, LINKS };
static const int ends[LINKS][2] = {{A, B}, {X, A}, {X, B}, {A, B}, {A, B}, {B, A}, {X, Y}, {B, Y}};

#define RECVS 4
#define ROOM 256
#define LEN 200
#define CELL0 5ull
#define REGION 65536
/* offsets in each process's two regions */
#define O_SRC 0
#define O_DST 4096
#define O_CELL 8192
#define O_MARK 12288
#define O_MSG 16384
#define O_RX 20480		/* [link][RECVS] of ROOM */

struct stage {
	char fabric[64];
	struct point p;
	enum req req;
	enum executor ex;
	bool priv;			/* T's data in private memory */
	uint32_t qpn[LINKS][2];
	uint32_t slot[ROLES];
	uint64_t addr[ROLES][2];	/* arena, private */
	uint32_t rkey[ROLES][2];
	_Atomic uint32_t at[16];	/* barriers */
	uint64_t big;			/* B's large buffer */
	uint32_t big_rkey;
	_Atomic uint32_t go, dead, b_done, finish, fill;
	struct failpoint_arm arm[FAILPOINT_ARMS];
};
static struct stage *st;

struct end {
	struct ibv_qp *qp;
	struct ibv_cq *scq, *rcq;
	bool rx_done[RECVS];
	int rx_status[RECVS];
	int rx_n;
	struct ibv_wc rx_wc[RECVS];
	bool told;			/* an event said that it is in error */
};

struct actor {
	struct rig r;
	int role;
	char *mem[2];
	struct ibv_mr *mr[2];
	struct end e[LINKS];
	struct ibv_cq *wcq;		/* A: what T's WAIT waits for */
	struct ibv_srq *srq;
	struct ibv_comp_channel *channel;	/* B: of T's receives */
};

static uint64_t now(void)
{
	return shca_now_ns();
}

static void nap(void)
{
	struct timespec t = {0, 200000};
	nanosleep(&t, NULL);
}

#define WITHIN (10 * 1000000000ull)
#define UNTIL(cond, ...)                                                                  \
	for (uint64_t until_ = now() + WITHIN; !(cond); nap())                             \
		if (now() > until_)                                                        \
			FAIL(__VA_ARGS__)

static uint32_t roles(void)
{
	return st->ex == E_REAPER ? 4 : 3;
}

static void barrier(int i)
{
	atomic_fetch_add(&st->at[i], 1);
	UNTIL(atomic_load(&st->at[i]) >= roles(), "barrier %d: only %u are here", i, atomic_load(&st->at[i]));
}

static bool in(int role, int link)
{
	if (roles() == 3 && (ends[link][0] == Y || ends[link][1] == Y))
		return false;
	return ends[link][0] == role || ends[link][1] == role;
}
static int side(int role, int link)
{
	return ends[link][0] == role ? 0 : 1;
}
static bool third(void)
{
	return st->ex == E_THIRD || st->ex == E_REAPER;
}
static int lane(void)
{
	return st->priv ? 1 : 0;
}

/* ---- objects --------------------------------------------------------------------------------------------------------- */

static void make_end(struct actor *a, int l)
{
	struct end *e = &a->e[l];
	bool tested = l == L_T && a->role == A;
	struct rig_qp_attr q = {.type = IBV_QPT_RC, .send_wr = 16, .recv_wr = RECVS, .sge = 5, .inl = 64};

	e->scq = rig_cq(&a->r, 32, NULL);
	if (l == L_T && a->role == B) {
		a->channel = shca_create_comp_channel(a->r.ctx);
		CHECK(a->channel);
		e->rcq = rig_cq(&a->r, 32, a->channel);
		CHECK(!shca_req_notify_cq(e->rcq, 0));
	} else {
		e->rcq = a->role == A && (l == L_XA || l == L_AB) ? a->wcq : rig_cq(&a->r, 32, NULL);
	}
	q.scq = e->scq;
	q.rcq = e->rcq;
	if (tested && st->ex != E_DIRECT)
		q.exp_flags = IBV_EXP_QP_CREATE_CROSS_CHANNEL;
	if (l == L_M && a->role == A)
		q.exp_flags = IBV_EXP_QP_CREATE_CROSS_CHANNEL | IBV_EXP_QP_CREATE_MANAGED_SEND;
	if (l == L_R && a->role == A)
		q.exp_flags = IBV_EXP_QP_CREATE_CROSS_CHANNEL | IBV_EXP_QP_CREATE_MANAGED_RECV;
	if (l == L_T && a->role == B && st->req == R_SEND_SRQ) {
		struct ibv_srq_init_attr sa = {.attr = {.max_wr = RECVS, .max_sge = 1}};
		a->srq = shca_create_srq(a->r.pd, &sa);
		CHECK(a->srq);
	}
	if (a->srq && (l == L_T || l == L_XB || l == L_AB))
		q.srq = a->srq;
	e->qp = rig_qp(&a->r, &q);
	rig_init(e->qp);
	st->qpn[l][side(a->role, l)] = e->qp->qp_num;
}

static void enter_stage(struct actor *a, int role)
{
	unsigned access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;

	memset(a, 0, sizeof(*a));
	a->role = role;
	rig_join(&a->r, st->fabric);
	st->slot[role] = a->r.m->slot;
	a->mem[0] = shca_buf_alloc(a->r.ctx, REGION);
	a->mem[1] = aligned_alloc(4096, REGION);
	CHECK(a->mem[0] && a->mem[1]);
	for (int i = 0; i < 2; i++) {
		memset(a->mem[i], 0, REGION);
		a->mr[i] = shca_reg_mr(a->r.pd, a->mem[i], REGION, (uintptr_t)a->mem[i], access);
		CHECK(a->mr[i]);
		rig_fill(a->mem[i] + O_SRC, LEN, 100 + (uint64_t)role);
		*(uint64_t *)(a->mem[i] + O_CELL) = CELL0;
		st->addr[role][i] = (uintptr_t)a->mem[i];
		st->rkey[role][i] = a->mr[i]->rkey;
	}
	if (role == A)
		a->wcq = rig_cq(&a->r, 32, NULL);
	for (int l = 0; l < LINKS; l++)
		if (in(role, l))
			make_end(a, l);
	barrier(0);
	for (int l = 0; l < LINKS; l++) {
		struct rig_path path = {.timeout = 0, .retry_cnt = 7, .rnr_retry = 7, .min_rnr_timer = 1};
		if (!in(role, l))
			continue;
		path.dest_qpn = st->qpn[l][1 - side(role, l)];
		rig_rtr(a->e[l].qp, &path);
		rig_rts(a->e[l].qp, &path);
	}
	barrier(1);
}

static char *rx_buffer(struct actor *a, int l, int i)
{
	if (a->e[l].qp->srq)
		l = L_T;
	return a->mem[0] + O_RX + (l * RECVS + i) * ROOM;
}

static void post_recv(struct actor *a, int l, int i, uint32_t room)
{
	struct ibv_sge sge = {(uintptr_t)rx_buffer(a, l, i), room, a->mr[0]->lkey};
	struct ibv_recv_wr wr = {.wr_id = (uint64_t)i, .sg_list = &sge, .num_sge = 1}, *bad;
	int err = a->e[l].qp->srq ? shca_post_srq_recv(a->e[l].qp->srq, &wr, &bad) : shca_post_recv(a->e[l].qp, &wr, &bad);

	if (err)
		FAIL("post_recv on link %d: %s", l, strerror(err));
}

static void post_recvs(struct actor *a, int l)
{
	for (int i = 0; i < RECVS; i++)
		post_recv(a, l, i, st->req == R_SEND_LONG && l == L_T && a->role == B && i == 0 ? 64 : ROOM);
}

/* A message of 32 bytes: who, number, twice. */
static void send_msg(struct actor *a, int l, uint64_t number)
{
	uint64_t *m = (uint64_t *)(a->mem[0] + O_MSG);
	struct ibv_sge sge = {(uintptr_t)m, 32, a->mr[0]->lkey};
	struct ibv_send_wr wr = {.wr_id = number, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND,
				 .send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE}, *bad;

	m[0] = m[2] = (uint64_t)a->role;
	m[1] = m[3] = number;
	int err = shca_post_send(a->e[l].qp, &wr, &bad);
	if (err)
		FAIL("post_send on link %d: %s", l, strerror(err));
}

static void want_send(struct actor *a, int l, enum ibv_wc_status want, enum ibv_wc_status or_else)
{
	struct ibv_wc wc;

	UNTIL(shca_poll_cq(a->e[l].scq, 1, &wc) == 1, "role %d: no send completion on link %d", a->role, l);
	if (wc.status != want && wc.status != or_else)
		FAIL("role %d: send on link %d: %s instead of %s", a->role, l, ibv_wc_status_str(wc.status),
		     ibv_wc_status_str(want));
}

/* Takes completions of a link's receives. true: there was one. */
static bool poll_recv(struct actor *a, int l)
{
	struct end *e = &a->e[l];
	struct ibv_wc wc;

	if (shca_poll_cq(e->rcq, 1, &wc) != 1)
		return false;
	/* A's wcq serves two links */
	for (int k = 0; k < LINKS; k++)
		if (in(a->role, k) && a->e[k].qp->qp_num == wc.qp_num)
			e = &a->e[k];
	if (wc.wr_id >= RECVS || e->rx_done[wc.wr_id])
		FAIL("role %d: receive %lu of link %d completed twice (%s)", a->role, (unsigned long)wc.wr_id, l,
		     ibv_wc_status_str(wc.status));
	e->rx_done[wc.wr_id] = true;
	e->rx_status[e->rx_n] = wc.status;
	e->rx_wc[e->rx_n++] = wc;
	return true;
}

static void want_recvs(struct actor *a, int l, int n)
{
	for (uint64_t end = now() + WITHIN; a->e[l].rx_n < n;) {
		if (!poll_recv(a, l)) {
			if (now() > end)
				FAIL("role %d: link %d has %d of %d receive completions", a->role, l, a->e[l].rx_n, n);
			nap();
		}
	}
}

static void no_more_recvs(struct actor *a, int l, int n)
{
	for (int i = 0; i < 5; i++, nap())
		poll_recv(a, l);
	if (a->e[l].rx_n != n)
		FAIL("role %d: link %d has %d receive completions instead of %d", a->role, l, a->e[l].rx_n, n);
}

static void check_msg(struct actor *a, int l, int i, int from, uint64_t number)
{
	const struct ibv_wc *wc = &a->e[l].rx_wc[i];
	const uint64_t *m = (const uint64_t *)rx_buffer(a, l, (int)wc->wr_id);

	if (wc->status != IBV_WC_SUCCESS || wc->byte_len != 32 || m[0] != (uint64_t)from || m[2] != m[0] || m[1] != number ||
	    m[3] != m[1])
		FAIL("role %d: link %d, receive %d: %s, %u bytes, message %lu of %lu instead of %lu of %d", a->role, l, i,
		     ibv_wc_status_str(wc->status), wc->byte_len, (unsigned long)m[1], (unsigned long)m[0],
		     (unsigned long)number, from);
}

/* ---- T's program ----------------------------------------------------------------------------------------------------- */

static int op_lane(void)
{
	/* a write's body is a step of its own only in the arena; an atomic's lock is there only for private memory */
	if (!strcmp(st->p.name, "data") && (st->req == R_WRITE || st->req == R_WRITE_IMM))
		return 0;
	if (!strcmp(st->p.name, "atomic-locked"))
		return 1;
	return lane();
}

static int fill_op(struct actor *a, struct ibv_exp_send_wr *wr, struct ibv_sge *sge)
{
	int l = lane();
	uint64_t to = st->addr[B][op_lane()];
	uint32_t rkey = st->rkey[B][op_lane()];

	*wr = (struct ibv_exp_send_wr){.wr_id = 1, .exp_send_flags = IBV_EXP_SEND_SIGNALED, .sg_list = sge, .num_sge = 5};
	/* five segments: the short way for plain writes does not do that */
	for (int i = 0; i < 5; i++)
		sge[i] = (struct ibv_sge){(uintptr_t)a->mem[l] + O_SRC + i * 40, 40, a->mr[l]->lkey};
	switch (st->req) {
	case R_SEND_IMM:
		wr->exp_opcode = IBV_EXP_WR_SEND_WITH_IMM;
		wr->ex.imm_data = 77;
		break;
	case R_WRITE:
	case R_WRITE_KEY:
		wr->exp_opcode = IBV_EXP_WR_RDMA_WRITE;
		wr->wr.rdma.remote_addr = to + O_DST;
		wr->wr.rdma.rkey = st->req == R_WRITE ? rkey : 0xdeadbe00;
		break;
	case R_WRITE_IMM:
		wr->exp_opcode = IBV_EXP_WR_RDMA_WRITE_WITH_IMM;
		wr->ex.imm_data = 77;
		wr->wr.rdma.remote_addr = to + O_DST;
		wr->wr.rdma.rkey = rkey;
		break;
	case R_READ:
		wr->exp_opcode = IBV_EXP_WR_RDMA_READ;
		wr->wr.rdma.remote_addr = to + O_SRC;
		wr->wr.rdma.rkey = rkey;
		for (int i = 0; i < 5; i++)
			sge[i].addr = (uintptr_t)a->mem[l] + O_DST + (uint64_t)i * 40;
		break;
	case R_CAS:
	case R_FAA:
		wr->exp_opcode = st->req == R_CAS ? IBV_EXP_WR_ATOMIC_CMP_AND_SWP : IBV_EXP_WR_ATOMIC_FETCH_AND_ADD;
		wr->wr.atomic.remote_addr = to + O_CELL;
		wr->wr.atomic.rkey = rkey;
		wr->wr.atomic.compare_add = st->req == R_CAS ? CELL0 : 3;
		wr->wr.atomic.swap = CELL0 + 3;
		break;
	case R_MCAS:
	case R_MFAA:
		wr->exp_opcode = st->req == R_MCAS ? IBV_EXP_WR_EXT_MASKED_ATOMIC_CMP_AND_SWP :
						     IBV_EXP_WR_EXT_MASKED_ATOMIC_FETCH_AND_ADD;
		wr->ext_op.masked_atomics.log_arg_sz = 3;
		wr->ext_op.masked_atomics.remote_addr = to + O_CELL;
		wr->ext_op.masked_atomics.rkey = rkey;
		if (st->req == R_MCAS)
			wr->ext_op.masked_atomics.wr_data.inline_data.op.cmp_swap = (struct ibv_exp_cmp_swap){
				.compare_mask = 0xff, .compare_val = CELL0, .swap_val = CELL0 + 3, .swap_mask = 0xff};
		else
			wr->ext_op.masked_atomics.wr_data.inline_data.op.fetch_add =
				(struct ibv_exp_fetch_add){.add_val = 3, .field_boundary = 1ull << 31};
		break;
	case R_WAIT:
		wr->exp_opcode = IBV_EXP_WR_CQE_WAIT;
		wr->task.cqe_wait.cq = a->wcq;
		/* armed by a third party: it must find it unmet, so it is the second that it runs */
		wr->task.cqe_wait.cq_count = third() && !strcmp(st->p.name, "wait-armed") ? 2 : 1;
		break;
	case R_SEND_EN:
		wr->exp_opcode = IBV_EXP_WR_SEND_ENABLE;
		wr->task.wqe_enable.qp = a->e[L_M].qp;
		wr->task.wqe_enable.wqe_count = 1;
		break;
	case R_RECV_EN:
		wr->exp_opcode = IBV_EXP_WR_RECV_ENABLE;
		wr->task.wqe_enable.qp = a->e[L_R].qp;
		wr->task.wqe_enable.wqe_count = 1;
		break;
	default:
		wr->exp_opcode = IBV_EXP_WR_SEND;
		break;
	}
	if (st->req >= R_CAS && st->req <= R_MFAA) {
		sge[0] = (struct ibv_sge){(uintptr_t)a->mem[l] + O_DST, 8, a->mr[l]->lkey};
		wr->num_sge = 1;
	} else if (st->req >= R_WAIT && st->req <= R_RECV_EN) {
		wr->num_sge = 0;
	}
	return 0;
}

static void post_program(struct actor *a)
{
	struct ibv_exp_send_wr wr[3], *bad;
	struct ibv_sge sge[5], mark = {(uintptr_t)a->mem[0] + O_MARK, 32, a->mr[0]->lkey};
	uint64_t *m = (uint64_t *)(a->mem[0] + O_MARK);
	int n = 0;

	m[0] = m[2] = A;
	m[1] = m[3] = 9;
	if (third() && (st->req != R_WAIT || !strcmp(st->p.name, "wait-armed"))) {
		wr[n] = (struct ibv_exp_send_wr){.wr_id = 7, .exp_opcode = IBV_EXP_WR_CQE_WAIT};
		wr[n].task.cqe_wait.cq = a->wcq;
		wr[n++].task.cqe_wait.cq_count = 1;
	}
	fill_op(a, &wr[n++], sge);
	wr[n++] = (struct ibv_exp_send_wr){.wr_id = 2, .exp_opcode = IBV_EXP_WR_SEND, .exp_send_flags = IBV_EXP_SEND_SIGNALED,
					   .sg_list = &mark, .num_sge = 1};
	for (int i = 0; i < n - 1; i++)
		wr[i].next = &wr[i + 1];
	int err = shca_exp_post_send(a->e[L_T].qp, wr, &bad);
	if (err)
		FAIL("posting T's program: request %lu: %s", (unsigned long)bad->wr_id, strerror(err));
}

/* The managed queue's SEND, which SEND_ENABLE enables; receives of the managed receive queue. */
static void post_managed(struct actor *a)
{
	struct ibv_sge sge = {(uintptr_t)a->mem[0] + O_MSG, 32, a->mr[0]->lkey};
	struct ibv_exp_send_wr wr = {.wr_id = 3, .exp_opcode = IBV_EXP_WR_SEND, .exp_send_flags = IBV_EXP_SEND_SIGNALED,
				     .sg_list = &sge, .num_sge = 1}, *bad;
	uint64_t *m = (uint64_t *)(a->mem[0] + O_MSG);

	m[0] = m[2] = A;
	m[1] = m[3] = 33;
	int err = shca_exp_post_send(a->e[L_M].qp, &wr, &bad);
	if (err)
		FAIL("posting the managed send: %s", strerror(err));
	post_recvs(a, L_R);
}

/* ---- arming ---------------------------------------------------------------------------------------------------------- */

static void arm(int i)
{
	struct failpoint_arm *f = &st->arm[i];
	const struct point *p = &st->p;

	snprintf(f->name, sizeof(f->name), "%s", p->fp);
	f->op = p->where == W_REQ || p->where == W_LAST ? req_op[st->req] : -1;
	f->qpn = 0;
	f->who = 0;
	if (p->where == W_REQ || p->where == W_T) {
		f->qpn = st->qpn[L_T][0];
		f->who = third() ? FP_THIRD : FP_OWNER;
	} else if (p->where == W_XA) {
		f->qpn = st->qpn[L_XA][0];
		f->who = FP_OWNER;
	} else if (p->where == W_TB) {
		f->qpn = st->qpn[L_T][1];
	} else if (p->where == W_RS) {
		/* the queue that an ENABLE makes runnable: A's managed one, or B's, which waits for the receive */
		f->qpn = st->req == R_SEND_EN ? st->qpn[L_M][0] : st->qpn[L_R][0];
	}
	if (p->where == W_ANY)
		f->op = -1;
	f->skip = p->skip;
	if (p->skip && !(M_TAKES & 1u << st->req) && st->req != R_SEND_LONG)
		f->skip = 0;		/* its first completion is its own */
	atomic_store(&f->pid, (int32_t)getpid());
}

/* ---- roles ----------------------------------------------------------------------------------------------------------- */

/* When the process in a role is dead: waits until nothing of it is left. */
static void want_reaped(struct actor *a, int role)
{
	struct shca_member *m = a->r.m;
	uint32_t slot = st->slot[role];

	UNTIL((atomic_load(&m->procs[slot].state) & 255) == SHCA_PROC_FREE, "the dead process's slot is not free: state %#x",
	      atomic_load(&m->procs[slot].state));
	if (rig_chunks(m, slot))
		FAIL("%u chunks of the dead process are left", rig_chunks(m, slot));
	for (unsigned i = 0; i < 256; i++) {
		uint32_t holder = atomic_load(&m->hdr->atomic_locks[i]);
		uint32_t owner = holder ? atomic_load(&m->threads[holder - 1].owner) : 0;
		/* a second one who died is looked at when he is reaped */
		if (holder && (!owner || owner == slot + 1))
			FAIL("lock %u of private atomics is held by thread %u", i, holder - 1);
	}
	for (uint32_t t = 0; t < atomic_load(&m->hdr->thread_high); t++)
		if (atomic_load(&m->threads[t].owner) == slot + 1)
			FAIL("thread slot %u of the dead process is left", t);
}

/* The peer of this link died: an event, what is posted fails, all receives come back, each once. */
static void want_peer_dead(struct actor *a, int l, bool failed_before)
{
	struct ibv_async_event ev;

	int fl = fcntl(a->r.ctx->async_fd, F_GETFL);
	fcntl(a->r.ctx->async_fd, F_SETFL, fl | O_NONBLOCK);
	for (uint64_t end = now() + WITHIN; !a->e[l].told; nap()) {
		while (!shca_get_async_event(a->r.ctx, &ev)) {
			/* those of other links are asked for later */
			for (int k = 0; k < LINKS; k++)
				if (in(a->role, k) && a->e[k].qp == ev.element.qp &&
				    (ev.event_type == IBV_EVENT_QP_FATAL || ev.event_type == IBV_EVENT_QP_ACCESS_ERR ||
				     ev.event_type == IBV_EVENT_QP_REQ_ERR))
					a->e[k].told = true;
			shca_ack_async_event(&ev);
		}
		if (now() > end)
			FAIL("role %d: no event for link %d", a->role, l);
	}
	send_msg(a, l, 50);
	want_send(a, l, IBV_WC_RETRY_EXC_ERR, failed_before ? IBV_WC_WR_FLUSH_ERR : IBV_WC_RETRY_EXC_ERR);
}

/* All of T's receives at B, when A died: what arrived, in order and whole, then flushed. */
static void check_owner_died(struct actor *b)
{
	struct end *e = &b->e[L_T];
	int ok = 0, i = 0;

	if (st->req == R_SEND_SRQ)
		return;			/* receives stay in the shared queue: its user checks that none is lost */
	want_recvs(b, L_T, RECVS);
	if (st->req == R_SEND_LONG && e->rx_wc[0].status == IBV_WC_LOC_LEN_ERR)
		i = 1;
	for (; i < RECVS && e->rx_wc[i].status == IBV_WC_SUCCESS; i++)
		ok++;
	for (int k = i; k < RECVS; k++)
		if (e->rx_wc[k].status != IBV_WC_WR_FLUSH_ERR)
			FAIL("receive %d of T: %s behind flushed ones", k, ibv_wc_status_str(e->rx_wc[k].status));
	if (ok && (M_TAKES & 1u << st->req)) {
		const struct ibv_wc *wc = &e->rx_wc[0];
		const char *data = st->req == R_WRITE_IMM ? b->mem[op_lane()] + O_DST : rx_buffer(b, L_T, (int)wc->wr_id);
		if (wc->byte_len != LEN || rig_check(data, LEN, 100 + A) >= 0)
			FAIL("T's message arrived damaged: %u bytes, first wrong byte %ld", wc->byte_len,
			     rig_check(data, LEN, 100 + A));
	}
	no_more_recvs(b, L_T, RECVS);
}

/* The cell after an atomic that happened once, or (ambiguous) perhaps. */
static void check_cell(struct actor *b, bool perhaps)
{
	uint64_t v = *(volatile uint64_t *)(b->mem[op_lane()] + O_CELL);

	if (!(M_ATOMICS & 1u << st->req))
		return;
	if (v != CELL0 + 3 && !(perhaps && v == CELL0))
		FAIL("the atomic's cell is %lu", (unsigned long)v);
}

/* Who sleeps until T's message comes is woken, whoever put it in, or died in doing so. */
static void want_wakeup(struct actor *b)
{
	struct pollfd p = {.fd = b->channel->fd, .events = POLLIN};
	struct ibv_cq *cq;
	void *ctx;

	if (poll(&p, 1, 10000) != 1 || shca_get_cq_event(b->channel, &cq, &ctx) || cq != b->e[L_T].rcq)
		FAIL("no completion event for T's message");
	shca_ack_cq_events(cq, 1);
}

/* B, while A is stopped: X's work on T is finished. */
static void check_third_at_b(struct actor *b)
{
	const struct point *p = &st->p;
	int n = 0;

	if (!p->ambiguous)
		want_wakeup(b);

	if (p->ambiguous) {
		check_cell(b, true);
		no_more_recvs(b, L_T, 0);
		return;
	}
	if (M_BAD & 1u << st->req) {
		/* B's end failed too: its receives are back */
		want_recvs(b, L_T, RECVS);
		for (int i = 0; i < RECVS; i++) {
			int want = st->req == R_SEND_LONG && i == 0 ? IBV_WC_LOC_LEN_ERR : IBV_WC_WR_FLUSH_ERR;
			if (b->e[L_T].rx_status[i] != want)
				FAIL("receive %d of T: %s", i, ibv_wc_status_str(b->e[L_T].rx_status[i]));
		}
		return;
	}
	if ((M_TAKES & 1u << st->req) || st->req == R_SEND_RNR || st->req == R_ANY) {
		want_recvs(b, L_T, 1);
		const struct ibv_wc *wc = &b->e[L_T].rx_wc[0];
		const char *data = st->req == R_WRITE_IMM ? b->mem[op_lane()] + O_DST : rx_buffer(b, L_T, (int)wc->wr_id);
		if (wc->status != IBV_WC_SUCCESS || wc->byte_len != LEN || rig_check(data, LEN, 100 + A) >= 0)
			FAIL("T's message: %s, %u bytes, first wrong byte %ld", ibv_wc_status_str(wc->status), wc->byte_len,
			     rig_check(data, LEN, 100 + A));
		n = 1;
	}
	want_recvs(b, L_T, n + 1);
	check_msg(b, L_T, n, A, 9);
	if (st->req == R_WRITE && rig_check(b->mem[op_lane()] + O_DST, LEN, 100 + A) >= 0)
		FAIL("T's write: first wrong byte %ld", rig_check(b->mem[op_lane()] + O_DST, LEN, 100 + A));
	check_cell(b, false);
	if (st->req == R_SEND_EN) {
		want_recvs(b, L_M, 1);
		check_msg(b, L_M, 0, A, 33);
		no_more_recvs(b, L_M, 1);
	}
	if (st->req == R_RECV_EN)
		want_send(b, L_R, IBV_WC_SUCCESS, IBV_WC_SUCCESS);
	no_more_recvs(b, L_T, n + 1);
}

/* Ten messages each way, one at a time. */
static void talk(struct actor *a, int l, bool first)
{
	struct end *e = &a->e[l];
	int other = ends[l][0] == a->role ? ends[l][1] : ends[l][0];

	for (uint64_t k = 0; k < 10; k++) {
		if (first)
			send_msg(a, l, 200 + k);
		want_recvs(a, l, 1);
		check_msg(a, l, 0, other, 200 + k);
		int i = (int)e->rx_wc[0].wr_id;
		e->rx_done[i] = false;
		e->rx_n = 0;
		post_recv(a, l, i, ROOM);
		if (!first)
			send_msg(a, l, 200 + k);
		want_send(a, l, IBV_WC_SUCCESS, IBV_WC_SUCCESS);
	}
}

/* The shared receive queue has lost none of its receives: as many messages as are not used on T fit, and arrive. */
static void check_srq(struct actor *b, int l)
{
	struct end *e = &b->e[l];

	if (!b->srq)
		return;
	while (poll_recv(b, L_T))
		;
	for (int i = 0; i < b->e[L_T].rx_n; i++)
		if (b->e[L_T].rx_wc[i].status != IBV_WC_SUCCESS)
			FAIL("T: shared receive: %s", ibv_wc_status_str(b->e[L_T].rx_wc[i].status));
	int left = RECVS - b->e[L_T].rx_n;
	atomic_store(&st->fill, (uint32_t)left + 1);
	want_recvs(b, l, left);
	for (int i = 0; i < left; i++)
		check_msg(b, l, i, ends[l][0] == B ? ends[l][1] : ends[l][0], 300 + (uint64_t)i);
	e->rx_n = b->e[L_T].rx_n = 0;
	memset(e->rx_done, 0, sizeof(e->rx_done));
	post_recvs(b, l);
}

static void fill_srq(struct actor *a, int l)
{
	if (st->req != R_SEND_SRQ)
		return;
	UNTIL(atomic_load(&st->fill), "B does not say how many receives are left");
	uint32_t left = atomic_load(&st->fill) - 1;
	for (uint32_t i = 0; i < left; i++) {
		send_msg(a, l, 300 + i);
		want_send(a, l, IBV_WC_SUCCESS, IBV_WC_SUCCESS);
	}
}

static void leave(struct actor *a)
{
	for (int l = 0; l < LINKS; l++)
		if (in(a->role, l))
			CHECK(!shca_destroy_qp(a->e[l].qp));
	if (a->srq)
		CHECK(!shca_destroy_srq(a->srq));
	for (int l = 0; l < LINKS; l++) {
		if (!in(a->role, l))
			continue;
		CHECK(!shca_destroy_cq(a->e[l].scq));
		if (a->e[l].rcq != a->wcq)
			CHECK(!shca_destroy_cq(a->e[l].rcq));
	}
	if (a->wcq)
		CHECK(!shca_destroy_cq(a->wcq));
	if (a->channel)
		CHECK(!shca_destroy_comp_channel(a->channel));
	for (int i = 0; i < 2; i++)
		CHECK(!shca_dereg_mr(a->mr[i]));
	CHECK(!shca_buf_free(a->r.ctx, a->mem[0]));
	free(a->mem[1]);
	rig_leave(&a->r);
}

static void want_t(struct actor *a, uint64_t id, enum ibv_wc_status status)
{
	struct ibv_wc wc;

	UNTIL(shca_poll_cq(a->e[L_T].scq, 1, &wc) == 1, "T: request %lu has no completion", (unsigned long)id);
	if (wc.wr_id != id || wc.status != status)
		FAIL("T: completion of request %lu: %s, instead of request %lu: %s", (unsigned long)wc.wr_id,
		     ibv_wc_status_str(wc.status), (unsigned long)id, ibv_wc_status_str(status));
}

/* A, when it goes on after X's death. */
static void check_third_at_a(struct actor *a)
{
	bool bad = M_BAD & 1u << st->req;
	struct ibv_wc wc;
	int l = lane();

	if (st->p.ambiguous) {
		want_t(a, 1, IBV_WC_FATAL_ERR);
		want_t(a, 2, IBV_WC_WR_FLUSH_ERR);
	} else if (bad) {
		want_t(a, 1, st->req == R_SEND_LONG ? IBV_WC_REM_INV_REQ_ERR : IBV_WC_REM_ACCESS_ERR);
		want_t(a, 2, IBV_WC_WR_FLUSH_ERR);
	} else {
		want_t(a, 1, IBV_WC_SUCCESS);
		want_t(a, 2, IBV_WC_SUCCESS);
	}
	if (st->p.ambiguous || bad) {
		want_recvs(a, L_T, RECVS);
		for (int i = 0; i < RECVS; i++)
			if (a->e[L_T].rx_status[i] != IBV_WC_WR_FLUSH_ERR)
				FAIL("T's own receive %d: %s", i, ibv_wc_status_str(a->e[L_T].rx_status[i]));
		no_more_recvs(a, L_T, RECVS);
	}
	if (!st->p.ambiguous && st->req == R_READ && rig_check(a->mem[l] + O_DST, LEN, 100 + B) >= 0)
		FAIL("T's read: first wrong byte %ld", rig_check(a->mem[l] + O_DST, LEN, 100 + B));
	if (!st->p.ambiguous && (M_ATOMICS & 1u << st->req) && *(uint64_t *)(a->mem[l] + O_DST) != CELL0)
		FAIL("T's atomic returned %lu", (unsigned long)*(uint64_t *)(a->mem[l] + O_DST));
	if (st->req == R_SEND_EN)
		want_send(a, L_M, IBV_WC_SUCCESS, IBV_WC_SUCCESS);
	if (st->req == R_RECV_EN) {
		want_recvs(a, L_R, 1);
		check_msg(a, L_R, 0, B, 44);
		no_more_recvs(a, L_R, 1);
	}
	if (shca_poll_cq(a->e[L_T].scq, 1, &wc) > 0)
		FAIL("T: request %lu completed again: %s", (unsigned long)wc.wr_id, ibv_wc_status_str(wc.status));
}

#define BIG (4u << 20)

static struct ibv_mr *big_region(struct actor *a)
{
	void *p = aligned_alloc(4096, BIG);

	CHECK(p);
	memset(p, a->role, BIG);
	struct ibv_mr *mr = shca_reg_mr(a->r.pd, p, BIG, (uintptr_t)p, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	CHECK(mr);
	return mr;
}

/* A writes large blocks to B until B, who helps, dies of it. */
static void help_a(void)
{
	struct actor a;
	struct ibv_wc wc = {.status = IBV_WC_SUCCESS};

	enter_stage(&a, A);
	struct ibv_mr *mr = big_region(&a);
	post_recvs(&a, L_XA);
	barrier(2);
	struct ibv_sge sge = {(uintptr_t)mr->addr, BIG, mr->lkey};
	struct ibv_send_wr wr = {.wr_id = 1, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
				 .send_flags = IBV_SEND_SIGNALED}, *bad;
	wr.wr.rdma.remote_addr = st->big;
	wr.wr.rdma.rkey = st->big_rkey;
	for (int i = 0; wc.status == IBV_WC_SUCCESS; i++) {
		CHECK(!shca_post_send(a.e[L_T].qp, &wr, &bad));
		UNTIL(shca_poll_cq(a.e[L_T].scq, 1, &wc) == 1, "the large write does not complete");
		if (i > 5000)
			FAIL("B does not help");
	}
	if (wc.status != IBV_WC_RETRY_EXC_ERR)
		FAIL("large write: %s", ibv_wc_status_str(wc.status));
	/* told by the completion: an event is for those who only receive */
	want_reaped(&a, B);
	send_msg(&a, L_T, 50);
	want_send(&a, L_T, IBV_WC_WR_FLUSH_ERR, IBV_WC_WR_FLUSH_ERR);
	barrier(5);
	talk(&a, L_XA, true);
	barrier(6);
	CHECK(!shca_dereg_mr(mr));
	leave(&a);
}

static void help_b(void)
{
	struct actor b;
	struct ibv_wc wc;

	enter_stage(&b, B);
	struct ibv_mr *mr = big_region(&b);
	st->big = (uintptr_t)mr->addr;
	st->big_rkey = mr->rkey;
	arm(0);
	barrier(2);
	for (uint64_t end = now() + WITHIN; now() < end;)
		shca_poll_cq(b.e[L_T].rcq, 1, &wc);
	_exit(3);
}

static void help_x(void)
{
	struct actor x;

	enter_stage(&x, X);
	post_recvs(&x, L_XA);
	barrier(2);
	UNTIL(atomic_load(&st->dead), "nobody died");
	want_peer_dead(&x, L_XB, false);
	barrier(5);
	talk(&x, L_XA, false);
	barrier(6);
	leave(&x);
}

static void role_a(void)
{
	struct actor a;

	enter_stage(&a, A);
	post_recvs(&a, L_XA);
	post_recvs(&a, L_AB);
	post_recvs(&a, L_T);
	post_managed(&a);
	barrier(2);
	if (!third()) {
		/* what a WAIT of mine waits for is there already, or never comes */
		if (st->req == R_WAIT && strcmp(st->p.name, "wait-armed"))
			UNTIL(shca_cq_count(shca_cpu_get(a.r.m), shca_lcq_of(a.wcq)->sh) > 0, "B's message is not here");
		arm(0);
		post_program(&a);
		_exit(3);
	}
	post_program(&a);
	barrier(3);
	/* here SIGSTOP comes; not in a library call */
	while (!atomic_load(&st->finish))
		nap();
	check_third_at_a(&a);
	want_peer_dead(&a, L_XA, false);
	while (poll_recv(&a, L_AB))
		;
	/* X's message, if it was sent, and the flushed ones */
	UNTIL((poll_recv(&a, L_XA), a.e[L_XA].rx_n == RECVS), "A: %d of X's receives are back", a.e[L_XA].rx_n);
	/* the queues between survivors go on; the one after an early message has one receive less */
	for (int i = 0; i < a.e[L_AB].rx_n; i++) {
		post_recv(&a, L_AB, (int)a.e[L_AB].rx_wc[i].wr_id, ROOM);
		a.e[L_AB].rx_done[a.e[L_AB].rx_wc[i].wr_id] = false;
	}
	a.e[L_AB].rx_n = 0;
	barrier(5);
	fill_srq(&a, L_AB);
	talk(&a, L_AB, true);
	barrier(6);
	leave(&a);
}

static void role_b(void)
{
	struct actor b;

	enter_stage(&b, B);
	if (b.srq) {
		post_recvs(&b, L_T);
	} else {
		post_recvs(&b, L_AB);
		post_recvs(&b, L_XB);
		if (st->req != R_SEND_RNR)
			post_recvs(&b, L_T);
	}
	post_recvs(&b, L_M);
	/* it waits: A's receives are there, but not enabled */
	send_msg(&b, L_R, 44);
	if (!third() && st->req == R_WAIT && strcmp(st->p.name, "wait-armed"))
		send_msg(&b, L_AB, 200), want_send(&b, L_AB, IBV_WC_SUCCESS, IBV_WC_SUCCESS);
	barrier(2);
	if (third())
		barrier(3);
	UNTIL(atomic_load(&st->dead), "nobody died");
	if (third()) {
		if (!strcmp(st->p.name, "wait-armed"))
			send_msg(&b, L_AB, 201);	/* the second completion that T waits for */
		if (st->req == R_SEND_RNR)
			post_recvs(&b, L_T);
		want_reaped(&b, X);
		check_third_at_b(&b);
		if (!strcmp(st->p.name, "wait-armed"))
			want_send(&b, L_AB, IBV_WC_SUCCESS, IBV_WC_SUCCESS);
		want_peer_dead(&b, L_XB, false);
		if (st->ex == E_REAPER) {
			want_reaped(&b, Y);
			want_peer_dead(&b, L_BY, false);
		}
		atomic_store(&st->b_done, 1);
		barrier(5);
		check_srq(&b, L_AB);
		talk(&b, L_AB, false);
		barrier(6);
	} else {
		if (st->req == R_SEND_RNR)
			post_recvs(&b, L_T);
		want_reaped(&b, A);
		bool failed = M_BAD & 1u << st->req;
		want_peer_dead(&b, L_T, failed);
		check_owner_died(&b);
		want_peer_dead(&b, L_AB, false);
		atomic_store(&st->b_done, 1);
		barrier(5);
		check_srq(&b, L_XB);
		talk(&b, L_XB, false);
		barrier(6);
	}
	leave(&b);
}

/* Finds X dead; its helper thread dies in what follows. */
static void role_y(void)
{
	struct actor y;

	enter_stage(&y, Y);
	arm(1);
	barrier(2);
	barrier(3);
	UNTIL(atomic_load(&st->dead), "nobody died");
	_exit(3);
}

static void role_x(void)
{
	struct actor x;

	enter_stage(&x, X);
	post_recvs(&x, L_XA);
	post_recvs(&x, L_XB);
	barrier(2);
	if (third()) {
		barrier(3);
		UNTIL(atomic_load(&st->go), "the runner does not go on");
		arm(0);
		if (st->ex == E_REAPER) {
			snprintf(st->arm[0].name, sizeof(st->arm[0].name), "claimed");
			st->arm[0].op = -1;
			st->arm[0].qpn = st->qpn[L_T][0];
			st->arm[0].who = FP_THIRD;
			st->arm[0].skip = 0;
		}
		/* A waits for this: so X runs T */
		send_msg(&x, L_XA, 1);
		_exit(3);
	}
	UNTIL(atomic_load(&st->dead), "nobody died");
	want_peer_dead(&x, L_XA, false);
	barrier(5);
	fill_srq(&x, L_XB);
	talk(&x, L_XB, true);
	barrier(6);
	leave(&x);
}

/* ---- the runner ------------------------------------------------------------------------------------------------------ */

static pid_t start(int role)
{
	pid_t pid = fork();

	if (pid < 0)
		FAIL("fork: %s", strerror(errno));
	if (pid)
		return pid;
	failpoint_arms = st->arm;
	alarm(60);
	if (st->ex == E_HELPER)
		role == A ? help_a() : role == B ? help_b() : help_x();
	else if (role == A)
		role_a();
	else if (role == B)
		role_b();
	else if (role == Y)
		role_y();
	else
		role_x();
	_exit(0);
}

static bool ended(pid_t pid, int *status, uint64_t within_ns)
{
	for (uint64_t end = now() + within_ns; now() < end; nap()) {
		pid_t p = waitpid(pid, status, WNOHANG);
		if (p == pid)
			return true;
	}
	return false;
}

/* Barriers count roles: the dead ones are counted by the runner. */
static void stand_in(uint32_t n)
{
	for (int i = 4; i < 16; i++)
		atomic_fetch_add(&st->at[i], n);
}

/* Waits for a victim; whether it died at its point. */
static bool died(pid_t pid, int i, char *why, size_t n, bool *gone)
{
	int status;

	*gone = ended(pid, &status, 2 * WITHIN);
	if (!*gone)
		snprintf(why, n, "victim %d lives on", i);
	else if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL || !atomic_load(&st->arm[i].hit))
		snprintf(why, n, "the point was not hit: victim's status %#x, hit %u", status, atomic_load(&st->arm[i].hit));
	else
		return true;
	return false;
}

/* Between two naps: not in the library. Until it has really stopped its helper thread might find X dead and be stopped in
 * the middle of that. */
static void stop(pid_t pid)
{
	int status;

	kill(pid, SIGSTOP);
	waitpid(pid, &status, WUNTRACED);
}

/* While A is stopped, B sees what becomes of T. */
static bool b_is_content(pid_t b, bool *gone, char *why, size_t n)
{
	int status;

	for (uint64_t end = now() + 2 * WITHIN; !atomic_load(&st->b_done) && now() < end; nap()) {
		if (waitpid(b, &status, WNOHANG) == b) {
			*gone = true;
			snprintf(why, n, "B failed while A was stopped");
			return false;
		}
	}
	return true;
}

static bool run_case(const struct point *p, enum req req, enum executor ex, unsigned number, char *why, size_t n)
{
	pid_t pid[ROLES];
	int status;
	bool gone[ROLES] = {false}, good;

	memset(st, 0, sizeof(*st));
	snprintf(st->fabric, sizeof(st->fabric), "failpoints-%d-%u", (int)getpid(), number);
	st->p = *p;
	st->req = req;
	st->ex = ex;
	st->priv = number & 1;
	why[0] = 0;
	for (uint32_t r = 0; r < roles(); r++)
		pid[r] = start((int)r);
	if (third()) {
		for (uint64_t end = now() + WITHIN; atomic_load(&st->at[3]) < roles() && now() < end;)
			nap();
		stop(pid[A]);
		if (ex == E_REAPER)
			stop(pid[B]);
		atomic_store(&st->go, 1);
	}
	int victim = third() ? X : ex == E_HELPER ? B : A;
	good = died(pid[victim], 0, why, n, &gone[victim]);
	if (good && ex == E_REAPER)
		good = died(pid[Y], 1, why, n, &gone[Y]);
	if (good) {
		stand_in(ex == E_REAPER ? 2 : 1);
		atomic_store(&st->dead, 1);
		if (third()) {
			kill(pid[B], SIGCONT);
			good = b_is_content(pid[B], &gone[B], why, n);
			atomic_store(&st->finish, 1);
		}
	}
	for (uint32_t r = 0; r < roles(); r++) {
		if (gone[r])
			continue;
		if (!good)
			kill(pid[r], SIGKILL);
		kill(pid[r], SIGCONT);
		if (!ended(pid[r], &status, 3 * WITHIN)) {
			if (good)
				snprintf(why, n, "%c does not end", "ABXY"[r]);
			good = false;
			kill(pid[r], SIGKILL);
			waitpid(pid[r], &status, 0);
		} else if (good && (!WIFEXITED(status) || WEXITSTATUS(status))) {
			snprintf(why, n, "%c: status %#x", "ABXY"[r], status);
			good = false;
		}
	}
	return good;
}

static bool selected(char **argv, int argc, const struct point *p, int r, int e)
{
	return (argc < 1 || !strcmp(argv[0], p->name)) && (argc < 2 || !strcmp(argv[1], req_name[r])) &&
	       (argc < 3 || !strcmp(argv[2], executor_name[e]));
}

/* An executor that cannot come here, though the request can. */
static const char *impossible(const struct point *p, int r, int e)
{
	if (!(p->reqs & 1u << r))
		return p->why;
	if (!(p->executors & 1u << e) && e == E_HELPER)
		return "a helper only copies";
	if (!(p->executors & 1u << e) && (p->executors & H5))
		return "the executor's own chunks are part of its copy: see data, final";
	if (!(p->executors & 1u << e) && p->where == W_ANY)
		return "a reaper's step";
	if (!(p->executors & 1u << e) && e == E_REAPER)
		return "the reaper finds the queue locked: it takes it over";
	if (!(p->executors & 1u << e) && p->where == W_XA)
		return "X's own queue";
	if (!(p->executors & 1u << e))
		return "an ordinary queue's owner runs it without lock, list or head";
	if (e == E_DIRECT && (M_CROSS & 1u << r))
		return "an ordinary queue takes no WAIT or ENABLE";
	if (e == E_DIRECT && r >= R_MCAS && r <= R_MFAA && !strcmp(p->name, "advanced"))
		return "an ordinary queue's owner runs it without lock, list or head";
	return NULL;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {{"all", no_argument, NULL, 'a'}, {NULL, 0, NULL, 0}};
	unsigned passed = 0, failed = 0, number = 0;
	bool verbose = false;
	char why[200];
	int c;

	while ((c = getopt_long(argc, argv, "av", options, NULL)) != -1) {
		if (c == 'v')
			verbose = true;
		else if (c != 'a') {
			fprintf(stderr, "usage: %s [--all] [-v] [point [request [executor]]]\n", argv[0]);
			return 2;
		}
	}
	argv += optind;
	argc -= optind;
	setvbuf(stdout, NULL, _IOLBF, 0);
	setenv("SHCA_DEATH_MS", "20", 0);
	unsetenv("SHCA_FABRIC_FD");
	st = mmap(NULL, sizeof(*st), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (st == MAP_FAILED)
		FAIL("mmap: %s", strerror(errno));
	for (size_t i = 0; i < POINTS; i++)
		for (int r = 0; r < R_KINDS; r++)
			for (int e = 0; e < E_KINDS; e++) {
				const struct point *p = &points[i];
				const char *no = impossible(p, r, e);
				if (!selected(argv, argc, p, r, e))
					continue;
				number++;
				if (no) {
					/* variants of a request, and helpers, are there for some points only */
					if ((r < R_SEND_LONG && (e != E_HELPER || p->executors & H5)) || verbose)
						printf("%-18s %-15s %-13s -     cannot occur: %s\n", p->name, req_name[r],
						       executor_name[e], no);
					continue;
				}
				uint64_t t0 = now();
				bool good = run_case(p, r, e, number, why, sizeof(why));
				passed += good;
				failed += !good;
				printf("%-18s %-15s %-13s %s hit by %s%s%s", p->name, req_name[r], executor_name[e],
				       good ? "ok   " : "FAIL ", atomic_load(&st->arm[e == E_REAPER].hit_foreign) ? "another" : "its owner",
				       good ? "" : ": ", why);
				if (verbose)
					printf(" (%lu ms)", (unsigned long)((now() - t0) / 1000000));
				printf("\n");
			}
	printf("%u passed, %u failed\n", passed, failed);
	return failed || !passed;
}
