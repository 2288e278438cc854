/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Unusual programs: exec(3) as a member, limits on file sizes or descriptors, a stop with queues of every kind open, queues with
 * room for one request used by two threads.
 *
 *     process_limits [CASE]
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rig.h"

#define CROWD 70u

static struct stage {
	char fabric[64];
	struct rig_meeting at[CROWD];
	uint32_t slot[CROWD], rkey, ud;
	uint64_t addr;
	_Atomic uint32_t ready, go, done;
} *st;
static const char *what;

static void completes(struct ibv_cq *cq, enum ibv_wc_status status)
{
	struct ibv_wc wc;

	for (int i = 0; shca_poll_cq(cq, 1, &wc) != 1; i++, rig_nap())
		if (i > 20000)
			FAIL("%s: a request never ends", what);
	if (wc.status != status)
		FAIL("%s: %s instead of %s", what, ibv_wc_status_str(wc.status), ibv_wc_status_str(status));
}

static char *memory(struct rig *r, bool priv, struct ibv_mr **mr)
{
	char *p = priv ? aligned_alloc(4096, 8192) : shca_buf_alloc(r->ctx, 8192);

	CHECK(p);
	memset(p, 0, 8192);
	*mr = shca_reg_mr(r->pd, p, 8192, (uintptr_t)p,
			  IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC);
	CHECK(*mr);
	return p;
}

static void request(struct ibv_qp *qp, struct ibv_mr *mr, enum ibv_wr_opcode op)
{
	struct ibv_sge sge = {(uintptr_t)mr->addr, 8, mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = op, .send_flags = IBV_SEND_SIGNALED}, *bad;

	if (op == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = st->addr;
		wr.wr.atomic.rkey = st->rkey;
	} else {
		wr.wr.rdma.remote_addr = st->addr;
		wr.wr.rdma.rkey = st->rkey;
	}
	CHECK(!shca_post_send(qp, &wr, &bad));
}

static void receive(struct ibv_qp *qp, struct ibv_mr *mr)
{
	struct ibv_sge sge = {(uintptr_t)mr->addr, 64, mr->lkey};
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;

	CHECK(!shca_post_recv(qp, &wr, &bad));
}

static pid_t start(void (*role)(uint32_t), uint32_t arg)
{
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (pid)
		return pid;
	alarm(60);
	role(arg);
	_exit(0);
}

static void ends_well(pid_t pid)
{
	int status;

	CHECK(waitpid(pid, &status, 0) == pid);
	if (status)
		FAIL("%s: status %#x", what, status);
}

static void slot_goes(struct rig *r, uint32_t slot)
{
	for (int i = 0; (atomic_load(&r->m->procs[slot].state) & 255) != SHCA_PROC_FREE; i++, rig_nap())
		if (i > 20000)
			FAIL("%s: it is not cleared away", what);
}

/* ---- another program in the same process ---------------------------------------------------------------------------- */

static void becomes_another(uint32_t nobody)
{
	struct ibv_mr *mr;
	struct rig r;

	(void)nobody;
	rig_join(&r, st->fabric);
	st->slot[1] = r.m->slot;
	st->addr = (uintptr_t)memory(&r, true, &mr);
	st->rkey = mr->rkey;
	rig_meet(&r, rig_cq(&r, 8, NULL), &st->at[0], 1, 2);
	atomic_store(&st->ready, 1);
	rig_await(&st->go, 1);
	execl("/bin/sleep", "sleep", "50", (char *)NULL);
	FAIL("exec: %s", strerror(errno));
}

static void another_program(void)
{
	pid_t pid = start(becomes_another, 0);
	struct ibv_mr *mr;
	struct rig r;

	rig_join(&r, st->fabric);
	memory(&r, false, &mr);
	struct ibv_cq *cq = rig_cq(&r, 8, NULL);
	struct ibv_qp *qp = rig_meet(&r, cq, &st->at[0], 0, 2);
	rig_await(&st->ready, 1);
	request(qp, mr, IBV_WR_RDMA_WRITE);
	completes(cq, IBV_WC_SUCCESS);
	atomic_store(&st->go, 1);
	slot_goes(&r, st->slot[1]);
	if (kill(pid, 0))
		FAIL("%s: it has ended: %s", what, strerror(errno));
	request(qp, mr, IBV_WR_RDMA_WRITE);
	completes(cq, IBV_WC_RETRY_EXC_ERR);
	CHECK(!shca_destroy_qp(qp) && !shca_destroy_cq(cq) && !shca_dereg_mr(mr));
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	rig_leave(&r);
}

/* ---- few descriptors ------------------------------------------------------------------------------------------------ */

static void one_of_many(uint32_t me)
{
	struct ibv_mr *mr;
	struct rig r;

	rig_join(&r, st->fabric);
	memory(&r, false, &mr);
	st->slot[me] = r.m->slot;
	struct ibv_cq *cq = rig_cq(&r, 8, NULL);
	struct ibv_qp *qp = rig_meet(&r, cq, &st->at[me], 1, 2);
	receive(qp, mr);
	atomic_fetch_add(&st->ready, 1);
	completes(cq, IBV_WC_SUCCESS);
	rig_await(&st->done, 1);
	CHECK(!shca_destroy_qp(qp) && !shca_destroy_cq(cq) && !shca_dereg_mr(mr));
	rig_leave(&r);
}

/* A process is connected with more processes than its limit of descriptors: all respond, and their deaths are noticed. */
static void few_descriptors(void)
{
	struct rlimit few = {64, 64};
	struct ibv_qp *qp[CROWD];
	struct ibv_cq *cq[CROWD];
	pid_t pid[CROWD];
	struct ibv_mr *mr;
	struct rig r;

	for (uint32_t i = 0; i < CROWD; i++)
		pid[i] = start(one_of_many, i);
	CHECK(!setrlimit(RLIMIT_NOFILE, &few));
	rig_join(&r, st->fabric);
	memory(&r, false, &mr);
	for (uint32_t i = 0; i < CROWD; i++) {
		cq[i] = rig_cq(&r, 4, NULL);
		qp[i] = rig_meet(&r, cq[i], &st->at[i], 0, 2);
	}
	rig_await(&st->ready, CROWD);
	for (uint32_t i = 0; i < CROWD; i++) {
		request(qp[i], mr, IBV_WR_SEND);
		completes(cq[i], IBV_WC_SUCCESS);
	}
	for (uint32_t i = CROWD - 3; i < CROWD; i++) {
		kill(pid[i], SIGKILL);
		waitpid(pid[i], NULL, 0);
		slot_goes(&r, st->slot[i]);
		request(qp[i], mr, IBV_WR_SEND);
		completes(cq[i], IBV_WC_RETRY_EXC_ERR);
	}
	atomic_store(&st->done, 1);
	for (uint32_t i = 0; i < CROWD - 3; i++)
		ends_well(pid[i]);
	for (uint32_t i = 0; i < CROWD; i++)
		CHECK(!shca_destroy_qp(qp[i]) && !shca_destroy_cq(cq[i]));
	CHECK(!shca_dereg_mr(mr));
	rig_leave(&r);
}

/* ---- no room ---------------------------------------------------------------------------------------------------------- */

/* A limit on file sizes, which applies to the fabric's memory: growing that memory is refused, and existing objects go on. */
static void small_files(void)
{
	struct rlimit small = {1 << 20, 1 << 20};
	struct ibv_mr *mr, *more;
	struct rig r;

	rig_join(&r, st->fabric);
	char *p = memory(&r, false, &mr);
	CHECK(!setrlimit(RLIMIT_FSIZE, &small));
	errno = 0;
	if (shca_buf_alloc(r.ctx, 64u << 20) || errno != ENOMEM)
		FAIL("%s: %s instead of ENOMEM", what, strerror(errno));
	struct ibv_cq *cq = rig_cq(&r, 8, NULL);
	struct rig_qp_attr a = {.type = IBV_QPT_RC, .scq = cq, .rcq = cq, .send_wr = 1, .recv_wr = 1, .sge = 1};
	struct ibv_qp *qp = rig_qp(&r, &a);
	struct rig_path path = {.dest_qpn = qp->qp_num, .retry_cnt = 7};
	rig_init(qp);
	rig_rtr(qp, &path);
	rig_rts(qp, &path);
	st->addr = (uintptr_t)p;
	st->rkey = mr->rkey;
	request(qp, mr, IBV_WR_RDMA_WRITE);
	completes(cq, IBV_WC_SUCCESS);
	char *small_one = memory(&r, false, &more);
	CHECK(!shca_dereg_mr(more) && !shca_buf_free(r.ctx, small_one));
	CHECK(!shca_destroy_qp(qp) && !shca_destroy_cq(cq) && !shca_dereg_mr(mr));
	rig_leave(&r);
}

/* ---- one is stopped ---------------------------------------------------------------------------------------------------- */

static void is_stopped(uint32_t nobody)
{
	struct ibv_mr *mr;
	struct rig r;

	(void)nobody;
	rig_join(&r, st->fabric);
	char *p = memory(&r, true, &mr);
	st->addr = (uintptr_t)p + 2048;
	st->rkey = mr->rkey;
	struct ibv_cq *cq = rig_cq(&r, 64, NULL);
	struct rig_qp_attr u = {.type = IBV_QPT_UD, .scq = cq, .rcq = cq, .send_wr = 1, .recv_wr = 4, .sge = 1};
	struct rig_qp_attr c = {.type = IBV_QPT_RC, .exp_flags = IBV_EXP_QP_CREATE_CROSS_CHANNEL, .scq = cq, .rcq = cq,
				.send_wr = 4, .recv_wr = 1, .sge = 1};
	struct ibv_cq *waited = rig_cq(&r, 8, NULL);
	struct ibv_qp *qp = rig_meet(&r, waited, &st->at[0], 1, 2), *ud = rig_qp(&r, &u), *cross = rig_qp(&r, &c);
	rig_init(ud);
	rig_rtr(ud, &(struct rig_path){0});
	st->ud = ud->qp_num;
	/* the task list: a WAIT for the other process's message, then a write to own memory, which the other process reads */
	struct rig_path path = {.dest_qpn = cross->qp_num, .retry_cnt = 7};
	struct ibv_sge sge = {(uintptr_t)p + 1024, 8, mr->lkey};
	struct ibv_exp_send_wr wr[2] = {
		{.exp_opcode = IBV_EXP_WR_CQE_WAIT, .next = &wr[1], .task.cqe_wait = {.cq = waited, .cq_count = 1}},
		{.exp_opcode = IBV_EXP_WR_RDMA_WRITE, .sg_list = &sge, .num_sge = 1, .wr.rdma = {(uintptr_t)p + 2048, mr->rkey}},
	}, *bad;
	*(uint64_t *)(p + 1024) = 42;
	rig_init(cross);
	rig_rtr(cross, &path);
	rig_rts(cross, &path);
	CHECK(!shca_exp_post_send(cross, wr, &bad));
	for (int i = 0; i < 4; i++)
		receive(ud, mr);
	receive(qp, mr);
	atomic_store(&st->ready, 1);
	while (!atomic_load(&st->done))
		rig_nap();
	CHECK(!shca_destroy_qp(qp) && !shca_destroy_qp(ud) && !shca_destroy_qp(cross) && !shca_destroy_cq(cq));
	CHECK(!shca_destroy_cq(waited) && !shca_dereg_mr(mr));
	rig_leave(&r);
}

static void send_datagram(struct rig *r, struct ibv_mr *mr)
{
	struct ibv_cq *cq = rig_cq(r, 8, NULL);
	struct rig_qp_attr u = {.type = IBV_QPT_UD, .scq = cq, .rcq = cq, .send_wr = 1, .recv_wr = 1, .sge = 1};
	struct ibv_ah_attr aa = {.dlid = SHCA_LID, .port_num = 1};
	struct ibv_ah *ah = shca_create_ah(r->pd, &aa);
	struct ibv_qp *ud = rig_qp(r, &u);
	struct ibv_sge sge = {(uintptr_t)mr->addr, 8, mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED,
				 .wr.ud = {.ah = ah, .remote_qpn = st->ud, .remote_qkey = RIG_QKEY}}, *bad;

	CHECK(ah);
	rig_init(ud);
	rig_rtr(ud, &(struct rig_path){0});
	rig_rts(ud, &(struct rig_path){0});
	CHECK(!shca_post_send(ud, &wr, &bad));
	completes(cq, IBV_WC_SUCCESS);
	CHECK(!shca_destroy_qp(ud) && !shca_destroy_ah(ah) && !shca_destroy_cq(cq));
}

/* A process with connected queues, datagrams and a task list is stopped outside of any call: requests to that process complete,
 * the task list runs, and a process that leaves does not wait for the stopped one. */
static void stopped(void)
{
	pid_t pid = start(is_stopped, 0);
	struct ibv_mr *mr;
	struct rig r;
	int status;

	rig_join(&r, st->fabric);
	char *p = memory(&r, true, &mr);
	struct ibv_cq *cq = rig_cq(&r, 8, NULL);
	struct ibv_qp *qp = rig_meet(&r, cq, &st->at[0], 0, 2);
	rig_await(&st->ready, 1);
	/* the process naps between two looks at the shared state, so most likely the process is in no call */
	for (int i = 0; i < 20; i++)
		rig_nap();
	kill(pid, SIGSTOP);
	CHECK(waitpid(pid, &status, WUNTRACED) == pid && WIFSTOPPED(status));
	request(qp, mr, IBV_WR_ATOMIC_FETCH_AND_ADD);
	completes(cq, IBV_WC_SUCCESS);
	send_datagram(&r, mr);
	request(qp, mr, IBV_WR_SEND);
	completes(cq, IBV_WC_SUCCESS);
	/* the message has made this process execute the task list */
	request(qp, mr, IBV_WR_RDMA_READ);
	completes(cq, IBV_WC_SUCCESS);
	if (*(uint64_t *)p != 42)
		FAIL("%s: its task list has not run: %lu", what, (unsigned long)*(uint64_t *)p);
	CHECK(!shca_destroy_qp(qp) && !shca_destroy_cq(cq) && !shca_dereg_mr(mr));
	rig_leave(&r);
	atomic_store(&st->done, 1);
	kill(pid, SIGCONT);
	ends_well(pid);
}

/* ---- two threads, and room for one ------------------------------------------------------------------------------------ */

struct worker {
	struct rig *r;
	struct ibv_mr *mr;
	struct ibv_srq *srq;
	uint64_t seed;
};

/* Makes a pair of queues on the common SRQ, sends one message, and destroys the pair. */
static void *makes_and_destroys(void *arg)
{
	struct worker *w = arg;

	for (int i = 0; i < 300; i++) {
		struct ibv_cq *cq = rig_cq(w->r, 1, NULL), *rcq = rig_cq(w->r, 2, NULL);
		struct rig_qp_attr a = {.type = IBV_QPT_RC, .scq = cq, .rcq = rcq, .send_wr = 1, .recv_wr = 1, .sge = 1};
		struct rig_qp_attr b = {.type = IBV_QPT_RC, .scq = rcq, .rcq = rcq, .srq = w->srq, .send_wr = 1, .sge = 1};
		struct rig_path path = {.retry_cnt = 7, .rnr_retry = 7, .min_rnr_timer = 1};
		struct ibv_qp *qa = rig_qp(w->r, &a), *qb = rig_qp(w->r, &b);
		struct ibv_sge sge = {(uintptr_t)w->mr->addr, 64, w->mr->lkey};
		struct ibv_recv_wr rwr = {.sg_list = &sge, .num_sge = 1}, *bad;

		rig_init(qa);
		rig_init(qb);
		path.dest_qpn = qb->qp_num;
		rig_rtr(qa, &path);
		rig_rts(qa, &path);
		path.dest_qpn = qa->qp_num;
		rig_rtr(qb, &path);
		rig_rts(qb, &path);
		request(qa, w->mr, IBV_WR_SEND);
		if (rig_below(&w->seed, 8)) {
			/* the SRQ has one entry: the other thread may have that entry, and frees the entry by a message */
			while (shca_post_srq_recv(w->srq, &rwr, &bad) == ENOMEM) {
				struct ibv_wc wc;
				if (shca_poll_cq(rcq, 1, &wc) > 0)
					goto received;
				rig_nap();
			}
			/* either thread's message may take the receive: this thread's queue may still wait when destroyed */
		}
	received:
		CHECK(!shca_destroy_qp(qa) && !shca_destroy_qp(qb));
		CHECK(!shca_destroy_cq(cq) && !shca_destroy_cq(rcq));
	}
	return NULL;
}

static void room_for_one(void)
{
	struct ibv_srq_init_attr sa = {.attr = {.max_wr = 1, .max_sge = 1}};
	pthread_t t[2];
	struct worker w[2];
	struct ibv_mr *mr;
	struct rig r;

	rig_join(&r, st->fabric);
	st->addr = (uintptr_t)memory(&r, false, &mr);
	st->rkey = mr->rkey;
	struct ibv_srq *srq = shca_create_srq(r.pd, &sa);
	CHECK(srq);
	for (int i = 0; i < 2; i++) {
		w[i] = (struct worker){&r, mr, srq, 77 + (uint64_t)i};
		CHECK(!pthread_create(&t[i], NULL, makes_and_destroys, &w[i]));
	}
	for (int i = 0; i < 2; i++)
		CHECK(!pthread_join(t[i], NULL));
	CHECK(!shca_destroy_srq(srq) && !shca_dereg_mr(mr));
	rig_leave(&r);
}

/* A queue is destroyed or reset while completions of its SRQ receives are not polled: in a separate CQ, or in the CQ of the
 * queue's sends. */
static void unpolled(void)
{
	struct ibv_srq_init_attr sa = {.attr = {.max_wr = 1, .max_sge = 1}};
	struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET};
	struct ibv_mr *mr;
	struct rig r;

	rig_join(&r, st->fabric);
	st->addr = (uintptr_t)memory(&r, false, &mr);
	struct ibv_srq *srq = shca_create_srq(r.pd, &sa);
	struct ibv_cq *cq = rig_cq(&r, 8, NULL), *other = rig_cq(&r, 8, NULL);
	CHECK(srq);
	/* more than the CQs hold: completions of destroyed queues take no room */
	for (int i = 0; i < 40; i++) {
		struct rig_qp_attr a = {
			.type = IBV_QPT_RC, .scq = i & 1 ? other : cq, .rcq = cq, .srq = srq, .send_wr = 1, .sge = 1};
		struct ibv_qp *qp = rig_qp(&r, &a);
		struct rig_path path = {.dest_qpn = qp->qp_num, .retry_cnt = 7, .rnr_retry = 7, .min_rnr_timer = 1};
		struct ibv_sge sge = {(uintptr_t)mr->addr, 64, mr->lkey};
		struct ibv_recv_wr rwr = {.sg_list = &sge, .num_sge = 1}, *bad;
		rig_init(qp);
		rig_rtr(qp, &path);
		rig_rts(qp, &path);
		errno = shca_post_srq_recv(srq, &rwr, &bad);
		if (errno)
			FAIL("%s: receive %d of a queue that went is lost: %s", what, i - 1, strerror(errno));
		request(qp, mr, IBV_WR_SEND);
		if (i & 2)
			CHECK(!shca_modify_qp(qp, &reset, IBV_QP_STATE));
		CHECK(!shca_destroy_qp(qp));
	}
	CHECK(!shca_destroy_srq(srq) && !shca_destroy_cq(cq) && !shca_destroy_cq(other) && !shca_dereg_mr(mr));
	rig_leave(&r);
}

static struct ibv_qp *loop(struct rig *r, struct ibv_cq *cq, uint32_t flags, uint32_t depth)
{
	struct rig_qp_attr a = {
		.type = IBV_QPT_RC, .exp_flags = flags, .scq = cq, .rcq = cq, .send_wr = depth, .recv_wr = 1, .sge = 1};
	struct ibv_qp *qp = rig_qp(r, &a);
	struct rig_path path = {.dest_qpn = qp->qp_num, .retry_cnt = 7};

	rig_init(qp);
	rig_rtr(qp, &path);
	rig_rts(qp, &path);
	return qp;
}

/* Produces one completion in the CQ that a WAIT waits for. */
static void tick(struct rig *r, struct ibv_cq *waited)
{
	struct ibv_qp *qp = loop(r, waited, IBV_EXP_QP_CREATE_CROSS_CHANNEL, 1);
	struct ibv_exp_send_wr nop = {.exp_opcode = IBV_EXP_WR_NOP, .exp_send_flags = IBV_EXP_SEND_SIGNALED}, *bad;

	CHECK(!shca_exp_post_send(qp, &nop, &bad));
	completes(waited, IBV_WC_SUCCESS);
	CHECK(!shca_destroy_qp(qp));
}

/* A WAIT that is refused for lack of memory does not count: the next one waits for the first completion. */
static void refused_wait(void)
{
	struct rlimit limit = {0, RLIM_INFINITY};
	struct ibv_exp_send_wr nop = {.exp_opcode = IBV_EXP_WR_NOP, .exp_send_flags = IBV_EXP_SEND_SIGNALED}, *bad;
	struct rig r;

	rig_join(&r, st->fabric);
	CHECK(!getrlimit(RLIMIT_FSIZE, &limit));
	struct ibv_cq *waited = rig_cq(&r, 8, NULL), *cq = rig_cq(&r, 8, NULL);
	struct ibv_qp *qp = loop(&r, cq, IBV_EXP_QP_CREATE_CROSS_CHANNEL, 4096);
	struct ibv_exp_send_wr wait = {.exp_opcode = IBV_EXP_WR_CQE_WAIT, .exp_send_flags = IBV_EXP_SEND_WAIT_EN_LAST,
				       .task.cqe_wait = {.cq = waited, .cq_count = 1}};
	limit.rlim_cur = 1 << 20;
	CHECK(!setrlimit(RLIMIT_FSIZE, &limit));
	for (size_t bytes = 1 << 20; bytes >= 4096;)
		if (!shca_buf_alloc(r.ctx, bytes))
			bytes /= 2;
	errno = shca_exp_post_send(qp, &wait, &bad);
	if (errno != ENOMEM)
		FAIL("%s: %s instead of ENOMEM", what, strerror(errno));
	limit.rlim_cur = limit.rlim_max;
	CHECK(!setrlimit(RLIMIT_FSIZE, &limit));
	wait.next = &nop;
	CHECK(!shca_exp_post_send(qp, &wait, &bad));
	tick(&r, waited);
	completes(cq, IBV_WC_SUCCESS);
	CHECK(!shca_destroy_qp(qp) && !shca_destroy_cq(cq) && !shca_destroy_cq(waited));
	rig_leave(&r);
}

/* A READ with an invalid CALC fails, and the responder does not. */
static void unsound_calc(void)
{
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;
	struct ibv_mr *mr;
	struct rig r;

	rig_join(&r, st->fabric);
	char *p = memory(&r, false, &mr);
	struct ibv_cq *waited = rig_cq(&r, 8, NULL), *cq = rig_cq(&r, 8, NULL);
	struct rig_qp_attr a = {.type = IBV_QPT_RC, .exp_flags = IBV_EXP_QP_CREATE_CROSS_CHANNEL, .scq = cq, .rcq = cq,
				.send_wr = 4, .recv_wr = 1, .sge = 1};
	struct ibv_qp *qp = rig_qp(&r, &a), *to = rig_qp(&r, &a);
	struct rig_path path = {.dest_qpn = to->qp_num, .retry_cnt = 7}, back = {.dest_qpn = qp->qp_num, .retry_cnt = 7};
	struct ibv_sge sge = {(uintptr_t)p, 32, mr->lkey};
	struct ibv_exp_send_wr wr[2] = {
		{.exp_opcode = IBV_EXP_WR_CQE_WAIT, .next = &wr[1], .task.cqe_wait = {.cq = waited, .cq_count = 1}},
		{.exp_opcode = IBV_EXP_WR_RDMA_READ, .exp_send_flags = IBV_EXP_SEND_WITH_CALC, .sg_list = &sge, .num_sge = 1,
		 .wr.rdma = {(uintptr_t)p + 1024, mr->rkey},
		 .op.calc = {.calc_op = IBV_EXP_CALC_OP_ADD, .data_type = IBV_EXP_CALC_DATA_TYPE_UINT,
			     .data_size = IBV_EXP_CALC_DATA_SIZE_64_BIT}},
	}, *bad;

	rig_init(qp);
	rig_init(to);
	rig_rtr(qp, &path);
	rig_rts(qp, &path);
	rig_rtr(to, &back);
	rig_rts(to, &back);
	CHECK(!shca_exp_post_send(qp, wr, &bad));
	shca_wqe_at(r.m->base, rig_sh(qp), 1)->arg[0] = UINT64_MAX;
	tick(&r, waited);
	completes(cq, IBV_WC_LOC_QP_OP_ERR);
	CHECK(!shca_query_qp(to, &attr, IBV_QP_STATE, &init));
	if (attr.qp_state != IBV_QPS_RTS)
		FAIL("%s: the responder's queue is in state %d", what, attr.qp_state);
	CHECK(!shca_destroy_qp(qp) && !shca_destroy_qp(to) && !shca_destroy_cq(cq) && !shca_destroy_cq(waited) &&
	      !shca_dereg_mr(mr));
	rig_leave(&r);
}

static const struct rig_case cases[] = {
	{"another-program", another_program}, {"few-descriptors", few_descriptors}, {"small-files", small_files},
	{"stopped", stopped}, {"unpolled", unpolled}, {"room-for-one", room_for_one},
	{"refused-wait", refused_wait}, {"unsound-calc", unsound_calc},
};

/* Each case has a separate fabric and shared memory. */
static void begins(const struct rig_case *c)
{
	memset(st, 0, sizeof(*st));
	snprintf(st->fabric, sizeof(st->fabric), "process_limits-%d-%zu", (int)getpid(), (size_t)(c - cases));
	what = c->name;
}

int main(int argc, char **argv)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	setenv("SHCA_DEATH_MS", "20", 0);
	st = mmap(NULL, sizeof(*st), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(st != MAP_FAILED);
	return rig_cases(argc, argv, cases, ARRAY_SIZE(cases), begins);
}
