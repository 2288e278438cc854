/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Third parties: a process dies, stops, or loses all descriptors, beside processes without a connection to that process, or while
 * executing a queue of another process.
 *
 *     A  the process that must go on
 *     B  the peer of A
 *     X  the third party; D, if there is one, dies for X
 *
 * Each case names the promise under test; docs/shca-engine.md, "Who watches whom".
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rig.h"

enum { A, B, X, D, ROLES };
#define LARGE (1u << 20)

static struct stage {
	struct rig_meeting ab, xd;
	uint32_t t[2], u[ROLES];	/* queue numbers: A's task queue and B's end; UD of A and of X */
	uint32_t rkey;
	uint64_t addr;
	pid_t pid[ROLES];
	uint64_t posted;
	_Atomic uint32_t ready, go, there, done;
} *st;
static int role;
static const struct test *test;

/* The failpoint at which X dies or stops. */
static const char *where;
static int what;

struct test {
	const char *name, *where;
	int what;
	void (*play[ROLES])(struct rig *r);
	const char *then;		/* a failpoint: X stops there at the first pass behind `where`; NULL: X stops at
					 * `where` */
	bool proxy;			/* process_vm_readv and _writev are refused to all processes */
	bool no_receive;		/* A's request is a SEND that B has no receive for */
	const char *death_ms;
};

/* X executes A's queue: notes how much A had posted by then, and waits until A posts more. */
static void watch_the_owner(const char *name, const struct shca_qp *qp)
{
	static uint64_t last;

	if (qp->qpn != st->t[A])
		return;
	if (!strcmp(name, "run") && !atomic_load(&st->there)) {
		st->posted = last = atomic_load(&qp->posted);
		atomic_store(&st->there, 1);
	}
	if (strcmp(name, "advanced"))
		return;
	for (int i = 0; i < 200 && atomic_load(&qp->posted) == last && !atomic_load(&st->go); i++)
		rig_nap();
	last = atomic_load(&qp->posted);
}

void shca_failpoint(struct shca_thread *thr, const char *name, const struct shca_qp *qp, int op)
{
	(void)thr;
	(void)op;
	if (role == X && test->what == 0 && test->where && qp)
		watch_the_owner(name, qp);
	if (role == X && test->what == 0)
		return;
	if (role != X || !where || strcmp(name, where) || (qp && st->t[A] && qp->qpn != st->t[A]))
		return;
	if (test->then && strcmp(where, test->then)) {
		where = test->then;
		return;
	}
	where = NULL;
	atomic_store(&st->there, 1);
	kill(getpid(), what);
}

static void meet(uint32_t n)
{
	atomic_fetch_add(&st->ready, 1);
	rig_await(&st->ready, n);
}

static void completes(struct ibv_cq *cq, enum ibv_wc_status status, const char *text)
{
	struct ibv_wc wc;

	for (int i = 0; shca_poll_cq(cq, 1, &wc) != 1; i++, rig_nap())
		if (i > 40000)
			FAIL("%s never ends", text);
	if (wc.status != status)
		FAIL("%s: %s", text, ibv_wc_status_str(wc.status));
}

static struct ibv_qp *new_queue(struct rig *r, struct ibv_cq *cq, enum ibv_qp_type type, uint32_t flags)
{
	struct rig_qp_attr a = {.type = type, .exp_flags = flags, .scq = cq, .rcq = cq, .send_wr = 16, .recv_wr = 16, .sge = 1,
				.inl = 16};
	struct ibv_qp *qp = rig_qp(r, &a);

	rig_init(qp);
	return qp;
}

static void up(struct ibv_qp *qp, uint32_t dest)
{
	/* three times 41 ms for a receive */
	struct rig_path p = {.dest_qpn = dest, .rnr_retry = 3, .retry_cnt = 7, .min_rnr_timer = 24};

	rig_rtr(qp, &p);
	rig_rts(qp, &p);
}

static void *memory(struct rig *r, size_t n, struct ibv_mr **mr)
{
	void *p = aligned_alloc(4096, n);

	CHECK(p);
	memset(p, 0, n);
	*mr = shca_reg_mr(r->pd, p, n, (uintptr_t)p, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	CHECK(*mr);
	return p;
}

/* ---- a queue of A's in the hands of X --------------------------------------------------------------------------- */

/* A: a WAIT for a datagram, then a large WRITE to B, from private memory to private memory, or a SEND for which B has no
 * receive. X, which has no connection, sends the datagram, so X executes the queue. */
static void waits_for_x(struct rig *r)
{
	struct ibv_cq *cq = rig_cq(r, 16, NULL), *wcq = rig_cq(r, 16, NULL);
	struct ibv_qp *t = new_queue(r, cq, IBV_QPT_RC, IBV_EXP_QP_CREATE_CROSS_CHANNEL), *u = new_queue(r, wcq, IBV_QPT_UD, 0);
	struct ibv_mr *mr;
	char *buf = memory(r, LARGE, &mr);
	rig_fill(buf, LARGE, 5);
	struct ibv_sge sge = {(uintptr_t)buf, LARGE, mr->lkey};
	struct ibv_mr *umr;
	char *into = memory(r, 4096, &umr);
	struct ibv_sge usge = {(uintptr_t)into, 64, umr->lkey};
	struct ibv_recv_wr rwr = {.sg_list = &usge, .num_sge = 1}, *bad_recv;
	struct ibv_exp_send_wr wr[2] = {{.exp_opcode = IBV_EXP_WR_CQE_WAIT, .next = &wr[1]},
					{.wr_id = 5, .exp_opcode = IBV_EXP_WR_RDMA_WRITE, .sg_list = &sge, .num_sge = 1,
					 .exp_send_flags = IBV_EXP_SEND_SIGNALED}}, *bad;
	struct ibv_wc wc;

	st->t[A] = t->qp_num;
	st->u[A] = u->qp_num;
	meet(3);
	up(t, st->t[B]);
	up(u, 0);
	CHECK(!shca_post_recv(u, &rwr, &bad_recv));
	wr[0].task.cqe_wait.cq = wcq;
	wr[0].task.cqe_wait.cq_count = 1;
	wr[1].wr.rdma.remote_addr = st->addr;
	wr[1].wr.rdma.rkey = st->rkey;
	if (test->no_receive)
		wr[1].exp_opcode = IBV_EXP_WR_SEND;
	CHECK(!shca_own_exp_provider.post_send(t, wr, &bad));
	meet(6);
	rig_await(&st->there, 1);
	for (int i = 0; shca_poll_cq(cq, 1, &wc) != 1; i++, rig_nap())
		if (i > 40000)
			FAIL("the request never ends");
	/* X has stored no part of the last line, so the next executor writes all of that line */
	if (wc.status != (test->no_receive ? IBV_WC_RNR_RETRY_EXC_ERR : IBV_WC_SUCCESS))
		FAIL("the request: %s", ibv_wc_status_str(wc.status));
	/* X is stopped within the objects that are to be destroyed, and must leave them */
	kill(st->pid[X], SIGCONT);
	atomic_store(&st->done, 1);
	CHECK(!shca_destroy_qp(t) && !shca_destroy_qp(u) && !shca_destroy_cq(cq) && !shca_destroy_cq(wcq) && !shca_dereg_mr(mr) &&
	      !shca_dereg_mr(umr));
}

/* B: A writes to B's memory until `done` is `until`. checks: the bytes are A's in the end. */
static void written_to(struct rig *r, uint32_t until, bool checks)
{
	struct ibv_cq *cq = rig_cq(r, 16, NULL);
	struct ibv_qp *t = new_queue(r, cq, IBV_QPT_RC, 0);
	struct ibv_mr *mr;
	char *buf = memory(r, LARGE, &mr);

	st->t[B] = t->qp_num;
	st->addr = (uintptr_t)buf;
	st->rkey = mr->rkey;
	meet(3);
	up(t, st->t[A]);
	meet(6);
	rig_await(&st->done, until);
	if (checks && rig_check(buf, LARGE, 5) >= 0)
		FAIL("A's WRITE: byte %ld is wrong", rig_check(buf, LARGE, 5));
	CHECK(!shca_destroy_qp(t) && !shca_destroy_cq(cq) && !shca_dereg_mr(mr));
}

static void is_written_to(struct rig *r)
{
	written_to(r, 1, !test->no_receive);
}

static void is_written_to_until(struct rig *r)
{
	written_to(r, 2, false);
}

static void sends_datagram(struct rig *r)
{
	struct ibv_cq *cq = rig_cq(r, 16, NULL);
	struct ibv_qp *u = new_queue(r, cq, IBV_QPT_UD, 0);
	struct ibv_ah_attr ah = {.dlid = SHCA_LID, .port_num = 1};
	uint64_t word = 1;
	struct ibv_sge sge = {(uintptr_t)&word, 8, 0};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_INLINE}, *bad;

	meet(3);
	up(u, 0);
	meet(6);
	wr.wr.ud.ah = shca_create_ah(r->pd, &ah);
	wr.wr.ud.remote_qpn = st->u[A];
	wr.wr.ud.remote_qkey = RIG_QKEY;
	where = test->where;
	what = test->what;
	CHECK(wr.wr.ud.ah && !shca_post_send(u, &wr, &bad));
	if (!atomic_load(&st->there))
		FAIL("X does not come by \"%s\" of A's queue", test->where);
	CHECK(!shca_destroy_ah(wr.wr.ud.ah) && !shca_destroy_qp(u) && !shca_destroy_cq(cq));
}

/* A goes on posting to the queue that X runs. */
#define MANY 2000u
static void goes_on_posting(struct rig *r)
{
	struct ibv_cq *cq = rig_cq(r, 4096, NULL), *wcq = rig_cq(r, 16, NULL);
	struct rig_qp_attr a = {.type = IBV_QPT_RC, .exp_flags = IBV_EXP_QP_CREATE_CROSS_CHANNEL, .scq = cq, .rcq = cq,
				.send_wr = 4096, .recv_wr = 1, .sge = 1, .inl = 16};
	struct ibv_qp *t = rig_qp(r, &a), *u = new_queue(r, wcq, IBV_QPT_UD, 0);
	struct ibv_mr *mr;
	char *buf = memory(r, 4096, &mr);
	struct ibv_sge sge = {(uintptr_t)buf, 64, mr->lkey};
	struct ibv_recv_wr rwr = {.sg_list = &sge, .num_sge = 1}, *bad_recv;
	struct ibv_exp_send_wr wait = {.exp_opcode = IBV_EXP_WR_CQE_WAIT}, *bad;
	struct ibv_exp_send_wr wr = {.exp_opcode = IBV_EXP_WR_RDMA_WRITE, .sg_list = &sge, .num_sge = 1,
				     .exp_send_flags = IBV_EXP_SEND_SIGNALED};

	rig_init(t);
	st->t[A] = t->qp_num;
	st->u[A] = u->qp_num;
	meet(3);
	up(t, st->t[B]);
	up(u, 0);
	CHECK(!shca_post_recv(u, &rwr, &bad_recv));
	wait.task.cqe_wait.cq = wcq;
	wait.task.cqe_wait.cq_count = 1;
	wr.wr.rdma.remote_addr = st->addr;
	wr.wr.rdma.rkey = st->rkey;
	CHECK(!shca_own_exp_provider.post_send(t, &wait, &bad));
	uint32_t n = 10;
	for (uint32_t i = 0; i < n; i++)
		CHECK(!shca_own_exp_provider.post_send(t, &wr, &bad));
	meet(6);
	rig_await(&st->there, 1);
	for (; n < MANY && !atomic_load(&st->done); n++) {
		CHECK(!shca_own_exp_provider.post_send(t, &wr, &bad));
		rig_nap();
	}
	atomic_store(&st->go, 1);
	for (uint32_t i = 0; i < n; i++)
		completes(cq, IBV_WC_SUCCESS, "a WRITE that X left to A");
	atomic_store(&st->done, 2);
	CHECK(!shca_destroy_qp(t) && !shca_destroy_qp(u) && !shca_destroy_cq(cq) && !shca_destroy_cq(wcq) && !shca_dereg_mr(mr));
}

static void runs_what_there_was(struct rig *r)
{
	uint64_t before = atomic_load(&r->m->proc->foreign_wqes);

	sends_datagram(r);
	uint64_t ran = atomic_load(&r->m->proc->foreign_wqes) - before;
	atomic_store(&st->done, 1);
	/* the WAIT does not count */
	if (ran >= st->posted)
		FAIL("X has run %lu requests of A, who had posted %lu when X began", (unsigned long)ran,
		     (unsigned long)st->posted);
}

/* ---- X is stopped inside a SEND of X's own queue ---------------------------------------------------------------- */

/* Meanwhile A destroys objects of A, and timers of A's queues run, although A's peer D has died. */
static void goes_on(struct rig *r)
{
	struct ibv_cq *cq = rig_cq(r, 16, NULL), *dcq = rig_cq(r, 16, NULL);
	struct ibv_qp *t = new_queue(r, cq, IBV_QPT_RC, 0), *d = new_queue(r, dcq, IBV_QPT_RC, 0);
	uint64_t word = 1;
	struct ibv_sge sge = {(uintptr_t)&word, 8, 0};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND,
				 .send_flags = IBV_SEND_INLINE | IBV_SEND_SIGNALED}, *bad;
	struct ibv_mr *mr;
	void *p;

	st->u[A] = t->qp_num;
	st->xd.qpn[0] = d->qp_num;
	meet(4);
	up(t, st->u[X]);
	up(d, st->xd.qpn[1]);
	meet(8);
	rig_await(&st->there, 1);
	for (int i = 0; i < 100; i++) {
		p = memory(r, 4096, &mr);
		CHECK(!shca_dereg_mr(mr));
		free(p);
	}
	kill(st->pid[D], SIGKILL);
	/* B posts no receive: the SEND fails by the timer, which the reaping of D must not delay for ever */
	CHECK(!shca_post_send(t, &wr, &bad));
	completes(cq, IBV_WC_RNR_RETRY_EXC_ERR, "a SEND to B, who posts no receive,");
	CHECK(!shca_post_send(d, &wr, &bad));
	completes(dcq, IBV_WC_RETRY_EXC_ERR, "a SEND to D, who is dead,");
	CHECK(!shca_destroy_qp(t) && !shca_destroy_qp(d) && !shca_destroy_cq(cq) && !shca_destroy_cq(dcq));
	kill(st->pid[X], SIGCONT);
	atomic_store(&st->done, 1);
}

/* X is stopped inside a section for any member's objects, D dies with memory of a member, and only a process that joins looks for
 * deaths: the joining process cannot complete the reaping of D, and becomes a member nevertheless. */
static void joins_beside(struct rig *r)
{
	struct ibv_cq *cq = rig_cq(r, 16, NULL);
	struct ibv_qp *t = new_queue(r, cq, IBV_QPT_RC, 0), *d = new_queue(r, cq, IBV_QPT_RC, 0);

	st->u[A] = t->qp_num;
	st->xd.qpn[0] = d->qp_num;
	meet(4);
	rig_await(&st->ready, 7);
	CHECK(!shca_destroy_qp(t) && !shca_destroy_qp(d) && !shca_destroy_cq(cq));
	rig_leave(r);
	meet(8);
	rig_await(&st->there, 1);
	kill(st->pid[D], SIGKILL);
	/* D is not this process's child: D is dead when the life lock is free, which the joiner finds or not */
	for (int i = 0; i < 100; i++)
		rig_nap();
	rig_join(r, getenv("SHCA_FABRIC"));
	kill(st->pid[X], SIGCONT);
	atomic_store(&st->done, 1);
}

/* B: X's peer and A's. */
static void serves_both(struct rig *r)
{
	struct ibv_cq *cq = rig_cq(r, 16, NULL);
	struct ibv_qp *a = new_queue(r, cq, IBV_QPT_RC, 0), *x = new_queue(r, cq, IBV_QPT_RC, 0);
	static char buf[64];
	struct ibv_mr *mr = shca_reg_mr(r->pd, buf, sizeof(buf), (uintptr_t)buf, IBV_ACCESS_LOCAL_WRITE);
	struct ibv_sge sge = {(uintptr_t)buf, sizeof(buf), mr->lkey};
	struct ibv_recv_wr rwr = {.sg_list = &sge, .num_sge = 1}, *bad;

	st->u[X] = a->qp_num;
	st->ab.qpn[1] = x->qp_num;
	meet(4);
	up(a, st->u[A]);
	up(x, st->ab.qpn[0]);
	CHECK(!shca_post_recv(x, &rwr, &bad));
	meet(8);
	rig_await(&st->done, 1);
	completes(cq, IBV_WC_SUCCESS, "the message of X");
	CHECK(!shca_destroy_qp(a) && !shca_destroy_qp(x) && !shca_destroy_cq(cq) && !shca_dereg_mr(mr));
}

static void stops_in_send(struct rig *r)
{
	struct ibv_cq *cq = rig_cq(r, 16, NULL);
	struct ibv_qp *qp = new_queue(r, cq, IBV_QPT_RC, 0);
	static char buf[64];
	struct ibv_mr *mr = shca_reg_mr(r->pd, buf, sizeof(buf), (uintptr_t)buf, IBV_ACCESS_LOCAL_WRITE);
	struct ibv_sge sge = {(uintptr_t)buf, sizeof(buf), mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED}, *bad;

	st->ab.qpn[0] = qp->qp_num;
	meet(4);
	up(qp, st->ab.qpn[1]);
	meet(8);
	where = test->where;
	what = test->what;
	CHECK(!shca_post_send(qp, &wr, &bad));
	completes(cq, IBV_WC_SUCCESS, "the message to B");
	CHECK(!shca_destroy_qp(qp) && !shca_destroy_cq(cq) && !shca_dereg_mr(mr));
}

static void is_killed(struct rig *r)
{
	struct ibv_cq *cq = rig_cq(r, 16, NULL);
	struct ibv_qp *qp = new_queue(r, cq, IBV_QPT_RC, 0);

	st->xd.qpn[1] = qp->qp_num;
	meet(4);
	up(qp, st->xd.qpn[0]);
	meet(8);
	for (;;)
		pause();
}

/* ---- a DC target dies ----------------------------------------------------------------------------------------------- */

static struct ibv_qp *dc_queue(struct rig *r, struct ibv_cq *cq, struct ibv_srq *srq)
{
	struct ibv_qp *qp = rig_dc_qp(r, cq, srq, IBV_QP_EX_WITH_SEND);

	rig_dc_ready(qp, srq != NULL);
	return qp;
}

static enum ibv_wc_status dc_send(struct ibv_qp *qp, struct ibv_cq *cq, struct ibv_ah *ah)
{
	struct ibv_qp_ex *ex = &shca_user_qp_of(qp)->ex;
	struct ibv_wc wc;
	uint64_t word = 1;

	ibv_wr_start(ex);
	ex->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_send(ex);
	shca_dv_qp_ex(ex)->wr_set_dc_addr(shca_dv_qp_ex(ex), ah, st->t[B], RIG_DC_KEY);
	ibv_wr_set_inline_data(ex, &word, sizeof(word));
	CHECK(!ibv_wr_complete(ex));
	for (int i = 0; shca_poll_cq(cq, 1, &wc) != 1; i++, rig_nap())
		if (i > 40000)
			FAIL("a DC request never ends");
	return wc.status;
}

static void sends_to_the_dead(struct rig *r)
{
	struct ibv_cq *cq = rig_cq(r, 64, NULL);
	struct ibv_qp *qp = dc_queue(r, cq, NULL);
	struct ibv_ah_attr attr = {.dlid = SHCA_LID, .port_num = 1};
	struct ibv_ah *ah = shca_create_ah(r->pd, &attr);
	enum ibv_wc_status status;
	uint32_t slot = st->u[B];

	CHECK(ah);
	meet(2);
	slot = st->u[B];
	for (int i = 0; i < 10; i++)
		if ((status = dc_send(qp, cq, ah)))
			FAIL("message %d to B, who lives: %s", i, ibv_wc_status_str(status));
	kill(st->pid[B], SIGKILL);
	/* from the moment at which the kernel reports the death */
	for (int i = 0; !shca_proc_dying(r->m, slot) && !shca_proc_gone(r->m, slot); i++, rig_nap())
		if (i > 40000)
			FAIL("nobody notices the death of B");
	if ((status = dc_send(qp, cq, ah)) != IBV_WC_RETRY_EXC_ERR)
		FAIL("a message to B, who is dead: %s", ibv_wc_status_str(status));
	if ((status = dc_send(qp, cq, ah)) != IBV_WC_WR_FLUSH_ERR)
		FAIL("the one behind it: %s", ibv_wc_status_str(status));
	CHECK(!shca_destroy_ah(ah) && !shca_destroy_qp(qp) && !shca_destroy_cq(cq));
}

static void is_a_target(struct rig *r)
{
	struct ibv_cq *cq = rig_cq(r, 64, NULL);
	struct ibv_srq_init_attr attr = {.attr = {.max_wr = 64, .max_sge = 1}};
	struct ibv_srq *srq = shca_create_srq(r->pd, &attr);
	/* in the fabric's memory: only the life word shows that the process is dead */
	char *buf = shca_at(r->m->base, shca_mem_alloc(r->m, 4096));
	struct ibv_mr *mr = shca_reg_mr(r->pd, buf, 4096, (uintptr_t)buf, IBV_ACCESS_LOCAL_WRITE);
	struct ibv_sge sge = {(uintptr_t)buf, 64, mr->lkey};
	struct ibv_recv_wr rwr = {.sg_list = &sge, .num_sge = 1}, *bad;

	CHECK(srq);
	st->t[B] = dc_queue(r, cq, srq)->qp_num;
	st->u[B] = r->m->slot;
	for (int i = 0; i < 64; i++)
		CHECK(!shca_post_srq_recv(srq, &rwr, &bad));
	meet(2);
	for (;;)
		pause();
}

/* ---- descriptors ------------------------------------------------------------------------------------------------ */

static void exchange(struct rig *r, struct ibv_qp *qp, struct ibv_cq *cq, uint32_t n)
{
	static uint64_t word[2];
	struct ibv_mr *mr = shca_reg_mr(r->pd, word, sizeof(word), (uintptr_t)word, IBV_ACCESS_LOCAL_WRITE);
	struct ibv_wc wc;

	CHECK(mr);
	struct ibv_sge in = {(uintptr_t)&word[1], 8, mr->lkey}, out = {(uintptr_t)&word[0], 8, mr->lkey};
	struct ibv_recv_wr rwr = {.wr_id = 1, .sg_list = &in, .num_sge = 1}, *bad_recv;
	struct ibv_send_wr wr = {.sg_list = &out, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED}, *bad;
	for (uint32_t i = 0; i < n; i++) {
		word[0] = i;
		CHECK(!shca_post_recv(qp, &rwr, &bad_recv) && !shca_post_send(qp, &wr, &bad));
		for (int got = 0; got < 2;) {
			int k = shca_poll_cq(cq, 1, &wc);
			if (k == 1 && wc.status != IBV_WC_SUCCESS)
				FAIL("message %u: %s", i, ibv_wc_status_str(wc.status));
			got += k;
		}
		if (word[1] != i)
			FAIL("message %u has %lu in it", i, (unsigned long)word[1]);
	}
	CHECK(!shca_dereg_mr(mr));
}

/* The program closes all descriptors, and files of the program get these numbers. */
static void loses_descriptors(struct rig *r)
{
	struct ibv_cq *cq = rig_cq(r, 16, NULL);
	struct ibv_qp *qp = rig_meet(r, cq, &st->ab, 0, 3);
	char path[64];
	int tmp = -1;
	struct stat s;

	/* a second descriptor of the fabric's file, as another user might make a process open one */
	snprintf(path, sizeof(path), "/proc/self/fd/%d", r->m->fd.n);
	int fd = open(path, O_RDWR | O_CLOEXEC);
	CHECK(fd >= 0 && !close(fd));
	CHECK(!syscall(SYS_close_range, 3, ~0u, 0));
	tmp = memfd_create("mine", 0);
	while (fd < 40)
		CHECK((fd = dup(tmp)) >= 0);
	atomic_store(&st->go, 1);
	rig_await(&st->there, 1);
	exchange(r, qp, cq, 10000);
	/* memory may have to grow */
	struct ibv_mr *mr;
	void *p = memory(r, 1 << 20, &mr);
	CHECK(!shca_dereg_mr(mr));
	free(p);
	atomic_store(&st->done, 1);
	struct ibv_recv_wr rwr = {.wr_id = 1}, *bad;
	CHECK(!shca_post_recv(qp, &rwr, &bad));
	completes(cq, IBV_WC_WR_FLUSH_ERR, "a receive from B, who is dead,");
	CHECK(!fstat(tmp, &s));
	if (s.st_size)
		FAIL("%ld bytes were written to a file of the application", (long)s.st_size);
	CHECK(!shca_destroy_qp(qp) && !shca_destroy_cq(cq));
	CHECK(!fstat(tmp, &s));
}

static void talks_to_a(struct rig *r)
{
	struct ibv_cq *cq = rig_cq(r, 16, NULL);
	struct ibv_qp *qp = rig_meet(r, cq, &st->ab, 1, 3);

	rig_await(&st->there, 1);
	exchange(r, qp, cq, 10000);
	rig_await(&st->done, 1);
	kill(getpid(), SIGKILL);
}

/* X joins when A has no descriptor any more: a joiner reaps the dead. */
static void joins_late(struct rig *r)
{
	atomic_fetch_add(&st->ab.joined, 1);
	rig_await(&st->go, 1);
	rig_leave(r);
	rig_join(r, getenv("SHCA_FABRIC"));
	atomic_store(&st->there, 1);
}

static const struct test tests[] = {
	{"X dies while it runs A's queue", "run", SIGKILL, .play = {waits_for_x, is_written_to, sends_datagram}},
	{"X dies when it has locked A's queue", "claimed", SIGKILL, .play = {waits_for_x, is_written_to, sends_datagram}},
	{"X stops when it has locked A's queue, and A steals it", "claimed", SIGSTOP,
	 .play = {waits_for_x, is_written_to, sends_datagram}},
	{"A posts as fast as X runs", "run", 0, .play = {goes_on_posting, is_written_to_until, runs_what_there_was}},
	{"X stops inside a SEND to B", "data", SIGSTOP, .play = {goes_on, serves_both, stops_in_send, is_killed}},
	{"B, a DC target, is killed", NULL, 0, .play = {sends_to_the_dead, is_a_target}},
	{"A's descriptors are closed", NULL, 0, .play = {loses_descriptors, talks_to_a, joins_late}},
	{"X dies when it has set a timer of A's queue", "timer-set", SIGKILL,
	 .play = {waits_for_x, is_written_to, sends_datagram}, .no_receive = true, .death_ms = "5"},
	{"a process joins beside X, who is stopped, and D, who is dead", "found", SIGSTOP,
	 .play = {joins_beside, serves_both, stops_in_send, is_killed}, .death_ms = "60000"},
	{"X dies before it writes to B for A", "data", SIGKILL, .play = {waits_for_x, is_written_to, sends_datagram}},
	{"X dies when it has written all to B for A but the last line", "body-done", SIGKILL,
	 .play = {waits_for_x, is_written_to, sends_datagram}},
	{"X dies before it writes to B for A, by a proxy", "data", SIGKILL,
	 .play = {waits_for_x, is_written_to, sends_datagram}, .proxy = true},
	{"X dies when it has written all to B for A but the last line, by a proxy", "body-done", SIGKILL,
	 .play = {waits_for_x, is_written_to, sends_datagram}, .proxy = true},
	{"X dies while it copies from A to B for A, by a proxy", "data", SIGKILL,
	 .play = {waits_for_x, is_written_to, sends_datagram}, .proxy = true, .then = "mail-pending"},
};

static int run(const struct test *t, int number)
{
	char name[64];
	int status, failed = 0;

	test = t;
	memset(st, 0, sizeof(*st));
	snprintf(name, sizeof(name), "third-%d-%d", (int)getpid(), number);
	for (role = A; role < ROLES; role++) {
		if (!t->play[role])
			continue;
		pid_t pid = fork();
		CHECK(pid >= 0);
		if (pid)
			st->pid[role] = pid;
		if (!pid) {
			struct rig r;
			alarm(60);
			if (t->death_ms)
				setenv("SHCA_DEATH_MS", t->death_ms, 1);
			if (t->proxy)
				setenv("SHCA_CMA", "0", 1);
			rig_join(&r, name);
			t->play[role](&r);
			rig_leave(&r);
			_exit(0);
		}
	}
	role = ROLES;
	for (int i = A; i < ROLES; i++) {
		if (!st->pid[i])
			continue;
		bool may_die = i == D || (i == X && t->what == SIGKILL) || (i == B && !t->where);
		waitpid(st->pid[i], &status, 0);
		if (i == A && st->pid[X])
			kill(st->pid[X], SIGCONT);
		if (status && !(may_die && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)) {
			fprintf(stderr, "FAIL: %s: %c: status %#x\n", t->name, "ABXD"[i], status);
			failed = 1;
			atomic_store(&st->done, 1);
			for (int k = i + 1; k < ROLES; k++)
				if (st->pid[k])
					kill(st->pid[k], SIGKILL);
		}
	}
	printf("%s: %s\n", failed ? "FAIL" : "ok", t->name);
	fflush(stdout);
	return failed;
}

int main(int argc, char **argv)
{
	int failed = 0;

	unsetenv("SHCA_FABRIC_FD");
	st = mmap(NULL, sizeof(*st), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(st != MAP_FAILED);
	for (int i = 0; i < (int)(sizeof(tests) / sizeof(*tests)); i++)
		if (argc < 2 || atoi(argv[1]) == i)
			failed |= run(&tests[i], i);
	return failed;
}
