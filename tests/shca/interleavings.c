/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Cases that random traffic rarely reaches. Most of them make two threads meet at one instruction: a thread arrives at a
 * failpoint, and before it goes on, the other half of the case runs there (meet). Further cases check the state after the end of
 * an object or a process. Each case runs in a separate process.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rig.h"

/* ---- meetings ------------------------------------------------------------------------------------------------------ */

static struct {
	const char *at;			/* failpoint; NULL: the meeting has been, or there is none */
	void (*action)(void);
	pthread_t who;			/* the thread that meets there */
	bool met;
} meeting;

static _Atomic bool hold_helper;	/* at "helper-tick" */
static const char *dies_at;		/* the failpoint at which this process kills itself; NULL: none */

static struct {
	pthread_t stopper, taker;
	_Atomic bool taken, go_on;
} turning;
static _Thread_local const char *holds_at;	/* until turning.go_on */

static void naps(int n)
{
	while (n--)
		rig_nap();
}

static void *other(void *arg)
{
	(void)arg;
	meeting.action();
	return NULL;
}

void shca_failpoint(struct shca_thread *thr, const char *name, const struct shca_qp *qp, int op)
{
	pthread_t t;

	(void)thr;
	(void)qp;
	(void)op;
	if (!strcmp(name, "helper-tick"))
		while (atomic_load(&hold_helper))
			rig_nap();
	if (holds_at && !strcmp(name, holds_at)) {
		holds_at = NULL;
		atomic_store(&turning.taken, true);
		while (!atomic_load(&turning.go_on))
			rig_nap();
	}
	if (dies_at && !strcmp(name, dies_at))
		kill(getpid(), SIGKILL);
	if (!meeting.at || strcmp(name, meeting.at) || !pthread_equal(pthread_self(), meeting.who))
		return;
	meeting.at = NULL;
	meeting.met = true;
	CHECK(!pthread_create(&t, NULL, other, NULL) && !pthread_join(t, NULL));
}

static void meet(const char *at, void (*action)(void))
{
	meeting.action = action;
	meeting.who = pthread_self();
	meeting.met = false;
	meeting.at = at;
}

/* ---- the stage: one member with queues that are connected with each other ------------------------------------------ */

static struct rig r;
static struct ibv_cq *cq, *counted;	/* cq: of all queues; counted: of u's receives */
static struct ibv_qp *x, *y;		/* x is cross-channel */
static struct ibv_qp *u, *v;		/* UD; u receives */
static struct ibv_mr *mr;

static struct ibv_qp *queue(struct rig *m, enum ibv_qp_type type, uint32_t flags, struct ibv_cq *rcq)
{
	struct rig_qp_attr a = {.type = type, .exp_flags = flags, .scq = cq, .rcq = rcq, .send_wr = 8, .recv_wr = 8, .sge = 1,
				.inl = 64};
	struct ibv_qp *qp = rig_qp(m, &a);

	rig_init(qp);
	return qp;
}

static void connect_to(struct ibv_qp *qp, uint32_t dest, uint8_t rnr_retry)
{
	struct rig_path p = {.dest_qpn = dest, .timeout = 8, .retry_cnt = 7, .rnr_retry = rnr_retry, .min_rnr_timer = 1};

	rig_rtr(qp, &p);
	rig_rts(qp, &p);
}

static void receive(struct ibv_qp *qp)
{
	struct ibv_sge sge = {(uintptr_t)mr->addr, 256, mr->lkey};
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;

	CHECK(!shca_post_recv(qp, &wr, &bad));
}

static void set_up(void)
{
	rig_virtual(&r, NULL);
	cq = rig_cq(&r, 256, NULL);
	counted = rig_cq(&r, 16, NULL);
	char *p = shca_buf_alloc(r.ctx, 4096);
	CHECK(p);
	mr = shca_reg_mr(r.pd, p, 4096, (uintptr_t)p, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	CHECK(mr);
	x = queue(&r, IBV_QPT_RC, IBV_EXP_QP_CREATE_CROSS_CHANNEL, cq);
	y = queue(&r, IBV_QPT_RC, 0, cq);
	connect_to(x, y->qp_num, 7);
	connect_to(y, x->qp_num, 7);
	u = queue(&r, IBV_QPT_UD, 0, counted);
	v = queue(&r, IBV_QPT_UD, 0, cq);
	connect_to(u, 0, 0);
	connect_to(v, 0, 0);
}

static void datagram(struct ibv_qp *from, uint32_t qpn)
{
	struct ibv_ah_attr aa = {.dlid = SHCA_LID, .port_num = 1};
	struct ibv_ah *ah = shca_create_ah(r.pd, &aa);
	struct ibv_sge sge = {(uintptr_t) "datagram", 8, 0};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_INLINE,
				 .wr.ud = {.ah = ah, .remote_qpn = qpn, .remote_qkey = RIG_QKEY}}, *bad;

	CHECK(ah && !shca_post_send(from, &wr, &bad) && !shca_destroy_ah(ah));
}

static void datagram_to(uint32_t qpn)
{
	datagram(v, qpn);
}

/* On x: a WAIT for the first completion of counted, then a request that completes. */
static void post_wait(void)
{
	struct ibv_exp_send_wr nop = {.wr_id = 7, .exp_opcode = IBV_EXP_WR_NOP, .exp_send_flags = IBV_EXP_SEND_SIGNALED};
	struct ibv_exp_send_wr wait = {.exp_opcode = IBV_EXP_WR_CQE_WAIT, .exp_send_flags = IBV_EXP_SEND_WAIT_EN_LAST,
				       .next = &nop, .task.cqe_wait = {.cq = counted, .cq_count = 1}}, *bad;

	CHECK(!shca_exp_post_send(x, &wait, &bad));
}

static enum ibv_wc_status completion(uint64_t id)
{
	struct ibv_wc wc;

	for (int i = 0; shca_poll_cq(cq, 1, &wc) != 1; i++, rig_nap())
		if (i > 10000)
			FAIL("request %lu does not complete", (unsigned long)id);
	if (wc.wr_id != id)
		FAIL("request %lu completes, not %lu", (unsigned long)wc.wr_id, (unsigned long)id);
	return wc.status;
}

static void completes_counted(void)
{
	datagram_to(u->qp_num);
}

/* The completion that a WAIT waits for arrives when the executor has read the count, and has not entered the queue into the
 * table of WAITs; or when the executor is about to release the queue (at: "release"). */
static void wait_and_completion(const char *at)
{
	set_up();
	receive(u);
	meet(at, completes_counted);
	post_wait();
	CHECK(meeting.met);
	CHECK(completion(7) == IBV_WC_SUCCESS);
}

static void wait_unmet(void)
{
	wait_and_completion("wait-unmet");
}

/* The thread that is about to kick the waiting queue is held: the producer of the next completion kicks the queue. */
static struct ibv_qp *another;

static void next_completion_kicks(void)
{
	datagram(another, u->qp_num);
	CHECK(completion(7) == IBV_WC_SUCCESS);
}

static void wait_kick(void)
{
	set_up();
	another = queue(&r, IBV_QPT_UD, 0, cq);
	connect_to(another, 0, 0);
	receive(u);
	receive(u);
	post_wait();
	meet("kick", next_completion_kicks);
	completes_counted();
	CHECK(meeting.met);
}

/* A producer with a visible completion is held before the kick of the waiting queue: the producer of the next completion looks up
 * the table of WAITs, too. */
static void wait_stopped(void)
{
	set_up();
	another = queue(&r, IBV_QPT_UD, 0, cq);
	connect_to(another, 0, 0);
	receive(u);
	receive(u);
	post_wait();
	meet("cqe-visible", next_completion_kicks);
	completes_counted();
	CHECK(meeting.met);
}

static struct ibv_qp *busy;

/* Posts WAITs for counts that are reached already: the table of WAITs changes several times, and both copies of the table are
 * written. */
static void many_waits(void)
{
	struct ibv_exp_send_wr wait = {.exp_opcode = IBV_EXP_WR_CQE_WAIT, .task.cqe_wait = {.cq = counted, .cq_count = 1}}, *bad;
	const struct shca_user_waits *w = &((struct shca_user_cq *)counted)->waits;
	uint64_t changes = w->changes;

	for (int i = 0; i < 100; i++)
		CHECK(!shca_exp_post_send(busy, &wait, &bad));
	if (w->log2 != SHCA_WAITS_LOG2_MIN || w->changes < changes + 4)
		FAIL("the table changed %lu times, its size is 2^%u", (unsigned long)(w->changes - changes), w->log2);
}

static struct ibv_qp *cross(void)
{
	struct ibv_qp *qp = queue(&r, IBV_QPT_RC, IBV_EXP_QP_CREATE_CROSS_CHANNEL, cq);

	connect_to(qp, y->qp_num, 7);
	return qp;
}

/* Two queues wait for the second completion. When the first of them is kicked the table of WAITs has changed, and the place of
 * the second queue has entries of WAITs for the first completion: both queues must run. */
static void wait_changed(void)
{
	struct ibv_qp *qp[4];
	struct ibv_wc wc;
	int n = 0;

	set_up();
	struct ibv_exp_send_wr nop = {.wr_id = 7, .exp_opcode = IBV_EXP_WR_NOP, .exp_send_flags = IBV_EXP_SEND_SIGNALED};
	struct ibv_exp_send_wr wait = {.exp_opcode = IBV_EXP_WR_CQE_WAIT, .next = &nop,
				       .task.cqe_wait = {.cq = counted, .cq_count = 2}}, *bad;
	busy = cross();
	receive(u);
	receive(u);
	completes_counted();
	for (int i = 0; i < 4; i++) {
		qp[i] = cross();
		CHECK(!shca_exp_post_send(qp[i], &wait, &bad));
	}
	/* the other two queues move to other places in the table */
	CHECK(!shca_destroy_qp(qp[0]) && !shca_destroy_qp(qp[1]));
	meet("kick", many_waits);
	completes_counted();
	CHECK(meeting.met);
	/* a poller finds a queue that is locked, but none that was never kicked */
	while (shca_poll_cq(cq, 1, &wc) == 1)
		n += wc.wr_id == 7;
	if (n != 2)
		FAIL("of two queues that wait for a completion %d run", n);
}

/* A WAIT that has run does not count as a user of the CQ. */
static void waits_run(void)
{
	set_up();
	receive(u);
	post_wait();
	CHECK(shca_waits_posted((struct shca_user_cq *)counted) == 1);
	completes_counted();
	CHECK(completion(7) == IBV_WC_SUCCESS);
	CHECK(!shca_waits_posted((struct shca_user_cq *)counted));
}

/* A CQ that overruns never comes to the count that a queue waits for: the WAIT fails. */
static void wait_error(void)
{
	struct ibv_exp_send_wr wait = {.wr_id = 9, .exp_opcode = IBV_EXP_WR_CQE_WAIT}, *bad;

	set_up();
	wait.task.cqe_wait.cq = counted;
	wait.task.cqe_wait.cq_count = 1000;
	CHECK(!shca_exp_post_send(x, &wait, &bad));
	struct ibv_qp *more[3];
	for (int i = 0; i < 3; i++) {
		more[i] = queue(&r, IBV_QPT_UD, 0, counted);
		connect_to(more[i], 0, 0);
		for (int k = 0; k < 8; k++)
			receive(more[i]);
		for (int k = 0; k < 8; k++)
			datagram_to(more[i]->qp_num);
	}
	CHECK(completion(9) == IBV_WC_LOC_QP_OP_ERR);
}

static void wait_release(void)
{
	wait_and_completion("release");
}

/* Deregistering a region waits for another process that reads the region. */
static struct rig owner;
static struct ibv_mr *target;
static _Atomic bool taken_away;

static void *takes_away(void *arg)
{
	(void)arg;
	CHECK(!shca_dereg_mr(target));
	atomic_store(&taken_away, true);
	return NULL;
}

static pthread_t taker;

static void meets_the_taker(void)
{
	CHECK(!pthread_create(&taker, NULL, takes_away, NULL));
	for (int i = 0; i < 40; i++)
		rig_nap();
	if (atomic_load(&taken_away))
		FAIL("a region was taken away while somebody read it");
}

static void region_goes(void)
{
	struct ibv_sge sge = {0};
	struct ibv_send_wr wr = {.wr_id = 1, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_READ,
				 .send_flags = IBV_SEND_SIGNALED},
			   *bad;

	set_up();
	rig_virtual(&owner, &r);
	struct ibv_cq *own = rig_cq(&owner, 16, NULL), *mine = cq;
	char *p = shca_buf_alloc(owner.ctx, 1 << 16), *from = shca_buf_alloc(r.ctx, 1 << 16);
	CHECK(p && from);
	target = shca_reg_mr(owner.pd, p, 1 << 16, (uintptr_t)p, IBV_ACCESS_REMOTE_READ);
	struct ibv_mr *source = shca_reg_mr(r.pd, from, 1 << 16, (uintptr_t)from, IBV_ACCESS_LOCAL_WRITE);
	CHECK(target && source);
	struct ibv_qp *a = queue(&r, IBV_QPT_RC, 0, cq);
	cq = own;
	struct ibv_qp *b = queue(&owner, IBV_QPT_RC, 0, own);
	cq = mine;
	connect_to(a, b->qp_num, 7);
	connect_to(b, a->qp_num, 7);
	sge = (struct ibv_sge){(uintptr_t)from, 1 << 16, source->lkey};
	wr.wr.rdma.remote_addr = (uintptr_t)p;
	wr.wr.rdma.rkey = target->rkey;
	meet("data", meets_the_taker);
	CHECK(!shca_post_send(a, &wr, &bad));
	CHECK(meeting.met && completion(1) == IBV_WC_SUCCESS && !pthread_join(taker, NULL));
}

/* ---- state behind the end of an object ------------------------------------------------------------------------------ */

static void reset(struct ibv_qp *qp)
{
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_RESET};

	CHECK(!shca_modify_qp(qp, &a, IBV_QP_STATE));
}

/* A queue is reset while a thread enables receives of that queue: the reset waits until that thread has left the queue. */
static _Atomic bool was_reset;

static void *enables(void *arg)
{
	(void)arg;
	holds_at = "enable-raised";
	completes_counted();
	return NULL;
}

static void *lets_go(void *arg)
{
	(void)arg;
	/* until the reset waits; no failpoint reports that */
	naps(100);
	if (atomic_load(&was_reset))
		FAIL("a queue was reset while another thread had its receive queue in hands");
	atomic_store(&turning.go_on, true);
	return NULL;
}

static void held_while_it_enables(void)
{
	CHECK(!pthread_create(&turning.taker, NULL, enables, NULL));
	for (int i = 0; !atomic_load(&turning.taken); i++, rig_nap())
		if (i > 10000)
			FAIL("nobody enables receives");
	CHECK(!pthread_create(&turning.stopper, NULL, lets_go, NULL));
}

static void enabled_queue_resets(void)
{
	struct ibv_exp_send_wr enable = {.exp_opcode = IBV_EXP_WR_RECV_ENABLE}, *bad;
	struct ibv_exp_send_wr wait = {.exp_opcode = IBV_EXP_WR_CQE_WAIT,
				       .exp_send_flags = IBV_EXP_SEND_WAIT_EN_LAST,
				       .next = &enable};

	set_up();
	struct ibv_qp *managed = queue(&r, IBV_QPT_RC, IBV_EXP_QP_CREATE_CROSS_CHANNEL | IBV_EXP_QP_CREATE_MANAGED_RECV, cq);
	connect_to(managed, y->qp_num, 7);
	receive(managed);
	receive(u);
	wait.task.cqe_wait.cq = counted;
	wait.task.cqe_wait.cq_count = 1;
	enable.task.wqe_enable.qp = managed;
	enable.task.wqe_enable.wqe_count = 1;
	CHECK(!shca_exp_post_send(x, &wait, &bad));
	meet("reset-stopped", held_while_it_enables);
	reset(managed);
	atomic_store(&was_reset, true);
	CHECK(meeting.met && !pthread_join(turning.stopper, NULL) && !pthread_join(turning.taker, NULL));
}

static struct ibv_srq *first_srq;

static void receive_of(struct ibv_srq *srq)
{
	struct ibv_sge sge = {(uintptr_t)mr->addr, 256, mr->lkey};
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;

	CHECK(!shca_post_srq_recv(srq, &wr, &bad));
}

static void first_gets_a_receive(void)
{
	receive_of(first_srq);
}

/* A queue stays on an SRQ's list of stalled queues if the stalled message gets a receive while the queue is entered into the
 * list. When the next message of the queue stalls at another SRQ, the queue must move to that SRQ's list. */
static void stalls_elsewhere(void)
{
	struct ibv_xrcd_init_attr xd = {.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
					.oflags = O_CREAT,
					.fd = -1};
	struct ibv_send_wr wr = {.wr_id = 3, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED}, *bad;
	struct ibv_srq *srq[2];
	uint32_t number[2];

	set_up();
	struct ibv_xrcd *xrcd = shca_open_xrcd(r.ctx, &xd);
	CHECK(xrcd);
	for (int i = 0; i < 2; i++) {
		struct ibv_srq_init_attr_ex a = {
			.attr = {.max_wr = 4, .max_sge = 1}, .srq_type = IBV_SRQT_XRC, .pd = r.pd, .xrcd = xrcd, .cq = counted,
			.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD |
				     IBV_SRQ_INIT_ATTR_CQ,
		};
		srq[i] = shca_create_srq_ex(r.ctx, &a);
		CHECK(srq[i] && !shca_get_srq_num(srq[i], &number[i]));
	}
	struct ibv_qp_init_attr_ex from = {.qp_type = IBV_QPT_XRC_SEND, .send_cq = cq, .pd = r.pd,
					   .comp_mask = IBV_QP_INIT_ATTR_PD, .cap = {.max_send_wr = 8, .max_send_sge = 1}};
	struct ibv_qp_init_attr_ex to = {.qp_type = IBV_QPT_XRC_RECV, .xrcd = xrcd, .comp_mask = IBV_QP_INIT_ATTR_XRCD};
	struct ibv_qp *a = shca_create_qp_ex(r.ctx, &from), *b = shca_create_qp_ex(r.ctx, &to);
	CHECK(a && b);
	rig_init(a);
	rig_init(b);
	struct rig_path at_b = {.dest_qpn = a->qp_num, .min_rnr_timer = 1};
	rig_rtr(b, &at_b);
	connect_to(a, b->qp_num, 7);
	first_srq = srq[0];
	wr.qp_type.xrc.remote_srqn = number[0];
	meet("rnr-link", first_gets_a_receive);
	CHECK(!shca_post_send(a, &wr, &bad));
	CHECK(meeting.met && completion(3) == IBV_WC_SUCCESS);
	wr.qp_type.xrc.remote_srqn = number[1];
	CHECK(!shca_post_send(a, &wr, &bad));
	if (!atomic_load(&rig_sh(a)->rnr_linked) ||
	    shca_at(r.m->base, rig_sh(a)->rnr_rq) != shca_user_srq_of(srq[1])->rq.sh)
		FAIL("the queue does not stand on the list of the SRQ that it waits for");
	receive_of(srq[1]);
	CHECK(completion(3) == IBV_WC_SUCCESS);
}

static struct {
	struct ibv_qp *a;
	pthread_t writer;
} shared;

static void *writes_inline(void *arg)
{
	char *at = (char *)mr->addr + 1024, text[8] = "written";
	struct ibv_sge sge = {(uintptr_t)text, sizeof(text), 0};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_INLINE,
				 .wr.rdma = {.remote_addr = (uintptr_t)at, .rkey = mr->rkey}}, *bad;

	(void)arg;
	/* a new thread does not take the fast write */
	CHECK(shca_thread_get(r.m) && !shca_post_send(shared.a, &wr, &bad));
	return NULL;
}

/* The writer arrives at the queue's lock, which the sender holds. */
static void writer_comes(void)
{
	CHECK(!pthread_create(&shared.writer, NULL, writes_inline, NULL));
	naps(20);
}

/* A second thread posts a write, finds the queue idle, and has to wait for the queue's lock. Meanwhile a SEND stalls on the
 * queue: the write must not overtake the SEND. */
static void shared_queue(void)
{
	struct ibv_send_wr send = {.wr_id = 3, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED}, *bad;

	set_up();
	struct ibv_qp *b = queue(&r, IBV_QPT_RC, 0, cq);
	const char *at = (const char *)mr->addr + 1024;
	shared.a = queue(&r, IBV_QPT_RC, 0, cq);
	connect_to(shared.a, b->qp_num, 7);
	connect_to(b, shared.a->qp_num, 7);
	/* the queue keeps the look-up of the rkey (rkey_cache) */
	writes_inline(NULL);
	CHECK(!strcmp(at, "written"));
	memset((char *)mr->addr + 1024, 0, 8);
	meet("exec", writer_comes);
	CHECK(!shca_post_send(shared.a, &send, &bad));
	CHECK(meeting.met && !pthread_join(shared.writer, NULL));
	if (*(const volatile char *)at)
		FAIL("a write overtakes the request before it");
	receive(b);
	/* the completions of the receive and of the SEND */
	struct ibv_wc wc;
	for (int n = 0, i = 0; n < 2; n += shca_poll_cq(cq, 1, &wc), i++, rig_nap())
		if (i > 10000)
			FAIL("%d completions, not 2", n);
	for (int i = 0; *(const volatile char *)at != 'w'; i++, rig_nap())
		if (i > 10000)
			FAIL("the write does not come");
}

/* A completion looks up a waiting queue that has been destroyed, and finds none. */
static void waiting_queue_goes(void)
{
	set_up();
	post_wait();
	CHECK(!shca_destroy_qp(x));
	/* the destroyed queue's WAIT does not count as a user of the CQ */
	CHECK(!shca_waits_posted((struct shca_user_cq *)counted));
	receive(u);
	completes_counted();
}

/* ---- a process that is being reaped ------------------------------------------------------------------------------------ */

static struct rig dead;
static struct ibv_qp *dead_u;
static char *dead_mem;

static void sends_to_the_dead(void)
{
	datagram_to(dead_u->qp_num);
}

/* The queues of a process that is being reaped respond to no request, although the memory of the process can still be read. */
static void dead_answer_nobody(void)
{
	struct ibv_recv_wr wr = {.num_sge = 1}, *bad;

	set_up();
	rig_virtual(&dead, &r);
	struct ibv_cq *own = rig_cq(&dead, 16, NULL), *mine = cq;
	dead_mem = shca_buf_alloc(dead.ctx, 4096);
	CHECK(dead_mem);
	struct ibv_mr *its = shca_reg_mr(dead.pd, dead_mem, 4096, (uintptr_t)dead_mem, IBV_ACCESS_LOCAL_WRITE);
	CHECK(its);
	cq = own;
	dead_u = queue(&dead, IBV_QPT_UD, 0, own);
	cq = mine;
	connect_to(dead_u, 0, 0);
	struct ibv_sge sge = {(uintptr_t)dead_mem, 256, its->lkey};
	wr.sg_list = &sge;
	CHECK(!shca_post_recv(dead_u, &wr, &bad));
	memset(dead_mem, 0x55, 256);
	shca_fabric_kill(dead.m);
	meet("reap-own", sends_to_the_dead);
	shca_reap(shca_thread_get(r.m), dead.m->slot);
	CHECK(meeting.met);
	if (!memcmp(dead_mem + 40, "datagram", 8))
		FAIL("a datagram arrived at a process that was being reaped");
}

/* ---- processes --------------------------------------------------------------------------------------------------------- */

static struct shared {
	char fabric[64];
	_Atomic uint32_t slot, joined, grandchild, done;
	struct rig_meeting meeting;
	uint64_t addr;
	uint32_t rkey;
} *st;

static void ends_well(pid_t pid)
{
	int status;

	CHECK(waitpid(pid, &status, 0) == pid);
	if (status)
		FAIL("a process of the test: status %#x", status);
}

static void is_killed(pid_t pid)
{
	CHECK(!kill(pid, SIGKILL) && waitpid(pid, NULL, 0) == pid);
}

/* A member without queues: without a helper thread, the member does not look for deaths. */
static void stays(void)
{
	struct rig m;

	rig_join(&m, st->fabric);
	atomic_fetch_add(&st->joined, 1);
	rig_await(&st->done, 1);
	rig_leave(&m);
}

static void dies(void)
{
	struct rig m;

	rig_await(&st->joined, 1);
	rig_join(&m, st->fabric);
	atomic_store(&st->slot, m.m->slot);
	atomic_fetch_add(&st->joined, 1);
	for (;;)
		pause();
}

static void joins_late(void)
{
	struct rig m;

	rig_join(&m, st->fabric);
	if ((atomic_load(&m.m->procs[atomic_load(&st->slot)].state) & 255) != SHCA_PROC_FREE)
		FAIL("who joins does not clean up after one that died unnoticed");
	rig_leave(&m);
}

/* A death that no member has noticed: the next process that joins the fabric reaps the dead one. */
static void death_unnoticed(void)
{
	pid_t a = rig_child(stays), b = rig_child(dies);

	rig_await(&st->joined, 2);
	is_killed(b);
	ends_well(rig_child(joins_late));
	atomic_store(&st->done, 1);
	ends_well(a);
}

static void dies_in_joining(void)
{
	struct rig m;

	rig_await(&st->joined, 1);
	dies_at = "join-slot";
	rig_join(&m, st->fabric);
}

static void has_slot_1(void)
{
	struct rig m;

	rig_join(&m, st->fabric);
	if (m.m->slot != 1)
		FAIL("slot %u, not that of the one who died while it joined", m.m->slot);
	rig_leave(&m);
}

/* The slot of a process that died while joining goes to the next process that joins. */
static void half_joined(void)
{
	int status;
	pid_t a = rig_child(stays), b = rig_child(dies_in_joining);

	CHECK(waitpid(b, &status, 0) == b && WIFSIGNALED(status));
	ends_well(rig_child(has_slot_1));
	atomic_store(&st->done, 1);
	ends_well(a);
}

static void dies_and_leaves_a_child(void)
{
	struct rig m;

	rig_await(&st->joined, 1);
	rig_join(&m, st->fabric);
	atomic_store(&st->slot, m.m->slot);
	pid_t pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		alarm(60);
		rig_await(&st->done, 1);
		_exit(0);
	}
	atomic_store(&st->grandchild, 1);
	for (;;)
		pause();
}

static void sees_the_death(void)
{
	struct rig m;

	rig_join(&m, st->fabric);
	atomic_fetch_add(&st->joined, 1);
	rig_await(&st->joined, 2);
	for (int i = 0; shca_proc_alive(m.m, atomic_load(&st->slot)); i++, rig_nap())
		if (i > 10000)
			FAIL("a process is dead, and a child of it seems to be it");
	rig_leave(&m);
}

/* A forked child does not count as the parent: the parent's death is seen. */
static void parent_dies(void)
{
	pid_t a = rig_child(sees_the_death), b = rig_child(dies_and_leaves_a_child);

	rig_await(&st->grandchild, 1);
	is_killed(b);
	atomic_fetch_add(&st->joined, 1);
	ends_well(a);
	atomic_store(&st->done, 1);
}

enum { HALF = 4096 };

/* The owner of a region with an unmapped second half. */
static void has_half(void)
{
	struct rig m;

	rig_join(&m, st->fabric);
	char *p = mmap(NULL, 2 * HALF, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(p != MAP_FAILED);
	struct ibv_mr *half = shca_reg_mr(m.pd, p, 2 * HALF, (uintptr_t)p,
					  IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
	CHECK(half && !munmap(p + HALF, HALF));
	st->addr = (uintptr_t)p;
	st->rkey = half->rkey;
	struct ibv_cq *own = rig_cq(&m, 16, NULL);
	struct ibv_qp *qp = rig_meet(&m, own, &st->meeting, 0, 2);
	rig_await(&st->done, 1);
	CHECK(!shca_destroy_qp(qp) && !shca_destroy_cq(own) && !shca_dereg_mr(half) && !munmap(p, HALF));
	rig_leave(&m);
}

static void copies_all(void)
{
	static char mine[2 * HALF];
	struct rig m;

	rig_join(&m, st->fabric);
	struct ibv_mr *own = shca_reg_mr(m.pd, mine, sizeof(mine), (uintptr_t)mine, IBV_ACCESS_LOCAL_WRITE);
	CHECK(own);
	cq = rig_cq(&m, 16, NULL);
	struct ibv_qp *qp = rig_meet(&m, cq, &st->meeting, 1, 2);
	struct ibv_sge sge = {(uintptr_t)mine, sizeof(mine), own->lkey};
	struct ibv_send_wr wr = {.wr_id = 1, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
				 .send_flags = IBV_SEND_SIGNALED, .wr.rdma = {.remote_addr = st->addr, .rkey = st->rkey}}, *bad;
	CHECK(!shca_post_send(qp, &wr, &bad));
	enum ibv_wc_status status = completion(1);
	if (status == IBV_WC_SUCCESS)
		FAIL("all of a region was written, of which half is there");
	atomic_store(&st->done, 1);
	CHECK(!shca_destroy_qp(qp) && !shca_destroy_cq(cq) && !shca_dereg_mr(own));
	rig_leave(&m);
}

/* A copy of which the kernel does a part only fails the request. */
static void half_there(void)
{
	pid_t b = rig_child(has_half), a = rig_child(copies_all);

	ends_well(a);
	ends_well(b);
}

static void takes_event(void)
{
	struct ibv_async_event ev;

	CHECK(!shca_get_async_event(r.ctx, &ev));
	if (ev.event_type != IBV_EVENT_QP_REQ_ERR || ev.element.qp != x)
		FAIL("event %d", ev.event_type);
	shca_ack_async_event(&ev);
}

/* An event of a queue can be got and acknowledged while ibv_modify_qp of that queue waits for a stopped process, which may take
 * long. */
static void event_of_modified(void)
{
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_RESET};
	struct shca_thread *thr;

	set_up();
	thr = shca_thread_get(r.m);
	CHECK(thr);
	shca_enter(thr);
	shca_qp_event(thr, rig_sh(x), IBV_EVENT_QP_REQ_ERR);
	shca_leave(thr);
	meet("reset-stopped", takes_event);
	CHECK(!shca_modify_qp(x, &a, IBV_QP_STATE) && meeting.met);
}

static _Atomic long handled_by;

static void handler(int sig)
{
	(void)sig;
	atomic_store(&handled_by, syscall(SYS_gettid));
}

/* The helper thread handles no signal of the program. */
static void signals(void)
{
	struct sigaction sa = {.sa_handler = handler};
	struct rig m;
	sigset_t set;

	rig_join(&m, st->fabric);
	CHECK(!shca_helper_start(m.m));
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	CHECK(!sigaction(SIGUSR1, &sa, NULL) && !pthread_sigmask(SIG_BLOCK, &set, NULL));
	CHECK(!kill(getpid(), SIGUSR1));
	for (int i = 0; i < 40; i++)
		rig_nap();
	if (atomic_load(&handled_by))
		FAIL("a signal was handled in a thread of the library");
	CHECK(!pthread_sigmask(SIG_UNBLOCK, &set, NULL));
	if (atomic_load(&handled_by) != syscall(SYS_gettid))
		FAIL("the signal was lost");
	rig_leave(&m);
}

/* ---------------------------------------------------------------------------------------------------------------------- */

static const struct rig_case cases[] = {
	{"wait-unmet", wait_unmet}, {"wait-changed", wait_changed}, {"wait-stopped", wait_stopped}, {"wait-error", wait_error},
	{"waits-run", waits_run}, {"wait-kick", wait_kick}, {"wait-release", wait_release},
	{"region-goes", region_goes}, {"shared-queue", shared_queue},
	{"stalls-elsewhere", stalls_elsewhere},
	{"enabled-queue-resets", enabled_queue_resets},
	{"waiting-queue-goes", waiting_queue_goes},
	{"dead-answer-nobody", dead_answer_nobody}, {"death-unnoticed", death_unnoticed}, {"half-joined", half_joined},
	{"parent-dies", parent_dies},
	{"half-there", half_there}, {"event-of-modified", event_of_modified}, {"signals", signals},
};

/* Each case has a separate fabric and shared memory. */
static void begins(const struct rig_case *c)
{
	memset(st, 0, sizeof(*st));
	snprintf(st->fabric, sizeof(st->fabric), "interleavings-%d-%zu", (int)getpid(), (size_t)(c - cases));
}

int main(int argc, char **argv)
{
	setenv("SHCA_DEATH_MS", "20", 0);
	st = mmap(NULL, sizeof(*st), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(st != MAP_FAILED);
	return rig_cases(argc, argv, cases, ARRAY_SIZE(cases), begins);
}
