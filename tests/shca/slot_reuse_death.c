/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two processes at one place: a new process in the slot of a dead one, a reaper that dies while reaping, and a request that is
 * executed while the responder's process is reaped, the shared receive queue destroyed or the region deregistered. The processes
 * are virtual, a, b and c of one fabric; their threads are held at one failpoint of the engine (hold.h). Each case runs in a
 * separate process.
 *
 *     slot_reuse_death [CASE]
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define HOLD_OWN_FAILPOINT
#include "hold.h"

static const struct shca_qp *_Atomic timed;	/* the thread that sets a timer for this queue stops behind "timer-set" */
static _Atomic uint32_t timer_set;

void shca_failpoint(struct shca_thread *thr, const char *name, const struct shca_qp *qp, int op)
{
	(void)op;
	if (qp && qp == atomic_load(&timed)) {
		struct shca_qp *q = (struct shca_qp *)(uintptr_t)qp;
		if (!strcmp(name, "timer-set") && !atomic_load(&timer_set)) {
			atomic_store(&timer_set, 1);
			for (;;)
				rig_nap();
		}
		/* the next executor finds a timer that expires in 1.5 ms, as if the timer had just been set */
		uint32_t first = 1;
		if (!strcmp(name, "exec") && atomic_compare_exchange_strong(&timer_set, &first, 2) && atomic_load(&q->due))
			atomic_store(&q->due, monotonic_ns() + 1500000);
	}
	hold_here(&hold, thr, name);
	hold_here(&second, thr, name);
}

static void naps(int n)
{
	while (n--)
		rig_nap();
}

/* ---- the stage ------------------------------------------------------------------------------------------------------- */

enum { BYTES = 1 << 16, DEPTH = 8 };

static struct ibv_qp *queue(struct rig *r, uint32_t flags, struct ibv_cq *cq)
{
	struct rig_qp_attr at = {
		.type = IBV_QPT_RC, .exp_flags = flags, .scq = cq, .rcq = cq, .send_wr = DEPTH, .recv_wr = DEPTH, .sge = 1};
	struct ibv_qp *qp = rig_qp(r, &at);

	rig_init(qp);
	return qp;
}

static struct ibv_mr *region(struct rig *r)
{
	char *p = shca_buf_alloc(r->ctx, BYTES);

	CHECK(p);
	struct ibv_mr *mr = shca_reg_mr(r->pd, p, BYTES, (uintptr_t)p, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
	CHECK(mr);
	return mr;
}

static void *sends(void *arg)
{
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND}, *bad;

	CHECK(!shca_post_send(arg, &wr, &bad));
	return NULL;
}

/* ---- slots ----------------------------------------------------------------------------------------------------------- */

/* c dies, b reaps it, and a new process has the slot before a looks at the deaths: a's queue gets peer_dead all the same, and
 * the new process is not taken for dead. */
static void next_user(void)
{
	struct rig next, *who[2] = {&b, &c};

	set_up();
	struct ibv_cq *cq = rig_cq(&a, 16, NULL);
	struct ibv_qp *p = queue(&a, 0, cq), *q = queue(&c, 0, rig_cq(&c, 16, NULL));
	connect_both(p, q);
	uint32_t slot = c.m->slot, deaths = atomic_load(&a.m->procs[slot].deaths);
	hold_at(&a, "helper-awake");
	shca_helper_call(a.m, a.m->slot);
	rig_await(&hold.held, 1);
	shca_engine_kill(c.m);
	joined(begin(reaps, who));
	CHECK(state_of(slot) == SHCA_PROC_FREE && atomic_load(&a.m->procs[slot].deaths) == deaths + 1);
	if (atomic_load(&rig_sh(p)->peer_dead))
		FAIL("a process that was held has cleaned up");
	rig_virtual(&next, &a);
	CHECK(next.m->slot == slot);
	let_go();
	for (int i = 0; !atomic_load(&rig_sh(p)->peer_dead); i++, rig_nap())
		if (i > 20000)
			FAIL("a queue is not told that its peer has died, whose slot has another user");
	struct ibv_qp *mine = queue(&a, 0, cq), *its = queue(&next, 0, rig_cq(&next, 16, NULL));
	connect_both(mine, its);
	struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED}, *bad;
	CHECK(!shca_post_send(mine, &wr, &bad) && completion(cq) == IBV_WC_SUCCESS);
	CHECK(state_of(slot) == SHCA_PROC_LIVE && !atomic_load(&rig_sh(mine)->peer_dead));
}

/* a reaps c and has marked the queues that were connected to c. c's queues can still be found, and a connects one more queue to
 * one of them: that queue gets peer_dead, too. */
static void connects_to_dying(void)
{
	set_up();
	struct ibv_cq *cq = rig_cq(&a, 16, NULL), *its = rig_cq(&c, 16, NULL);
	struct ibv_qp *p = queue(&a, 0, cq), *late = queue(&a, 0, cq), *q = queue(&c, 0, its);
	connect_both(p, queue(&c, 0, its));
	hold_at(&a, "reap-own");
	shca_engine_kill(c.m);
	rig_await(&hold.held, 1);
	CHECK(atomic_load(&rig_sh(p)->peer_dead));
	struct rig_path path = {.dest_qpn = q->qp_num, .timeout = 8, .retry_cnt = 7, .rnr_retry = 7, .min_rnr_timer = 1};
	rig_rtr(late, &path);
	let_go();
	for (int i = 0; !atomic_load(&rig_sh(late)->peer_dead); i++, rig_nap())
		if (i > 20000)
			FAIL("a queue is not told that its peer, to which it was connected while that was being cleaned up "
			     "after, has died");
}

/* The reset of a's queue has stopped the queue when the reaper notices the death of the peer. The reaper either marks the queue
 * before the queue is in RESET, or finds that the queue has no peer. */
static void told_while_reset(void)
{
	set_up();
	struct ibv_cq *cq = rig_cq(&a, 16, NULL);
	struct ibv_qp *p = queue(&a, 0, cq), *q = queue(&b, 0, rig_cq(&b, 16, NULL));
	connect_both(p, queue(&c, 0, rig_cq(&c, 16, NULL)));
	told_while_it_resets(p);
	if (atomic_load(&rig_sh(p)->peer_dead) || shca_qp_unread(rig_sh(p)))
		FAIL("a queue that has begun anew is told that the peer is dead which it had before: events %#x",
		     shca_qp_unread(rig_sh(p)));
	struct ibv_recv_wr wr = {.wr_id = 1}, *bad;
	struct ibv_wc wc;
	rig_init(p);
	connect_both(p, q);
	CHECK(!shca_post_recv(p, &wr, &bad) && !shca_poll_cq(cq, 1, &wc));
	joined(begin(sends, q));
	CHECK(completion(cq) == IBV_WC_SUCCESS);
}

static void await_told(struct ibv_qp *qp)
{
	for (int i = 0; !atomic_load(&rig_sh(qp)->peer_dead); i++, rig_nap())
		if (i > 20000)
			FAIL("a queue is not told that its peer has died");
}

/* a's queue has peer_dead and is reset: the mark is gone, and the queue receives from and writes to the new peer. */
static void reset_behind_death(void)
{
	struct ibv_send_wr write = {.opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED}, *bad_send;
	struct ibv_recv_wr wr = {.wr_id = 1}, *bad;
	struct ibv_wc wc;

	set_up();
	struct ibv_cq *cq = rig_cq(&a, 16, NULL);
	struct ibv_qp *p = queue(&a, 0, cq), *q = queue(&b, 0, rig_cq(&b, 16, NULL));
	connect_both(p, queue(&c, 0, rig_cq(&c, 16, NULL)));
	shca_engine_kill(c.m);
	await_told(p);
	resets(p);
	rig_init(p);
	connect_both(p, q);
	CHECK(!shca_post_recv(p, &wr, &bad));
	if (shca_poll_cq(cq, 1, &wc))
		FAIL("a receive of a queue that has begun anew completes before a message comes: %s",
		     ibv_wc_status_str(wc.status));
	joined(begin(sends, q));
	CHECK(completion(cq) == IBV_WC_SUCCESS);
	CHECK(!shca_post_send(p, &write, &bad_send) && completion(cq) == IBV_WC_SUCCESS);
}

/* b dies while reaping c. The reaper of b also completes the reaping of c, before the slot of b is free. */
static void reaper_dies(void)
{
	struct rig *of_b[2] = {&b, &c}, *of_a[2] = {&a, &b};

	set_up();
	hold_at(&b, "reap-own");
	shca_engine_kill(c.m);
	begin(reaps, of_b);
	rig_await(&hold.held, 1);
	shca_engine_kill(b.m);
	CHECK(state_of(c.m->slot) == SHCA_PROC_REAPING);
	joined(begin(reaps, of_a));
	if (state_of(b.m->slot) != SHCA_PROC_FREE || state_of(c.m->slot) != SHCA_PROC_FREE)
		FAIL("a process has no reaper, for its reaper died");
}

/* ---- receives that no queue will use any more ------------------------------------------------------------------------- */

static void post_task_receive(struct ibv_qp *qp)
{
	struct ibv_recv_wr wr = {.wr_id = 1};
	struct ibv_exp_task task = {.task_type = IBV_EXP_TASK_RECV, .item = {.qp = qp, .recv_wr = &wr}}, *bad;

	CHECK(!shca_exp_post_task(a.ctx, &task, &bad));
}

/* A queue has peer_dead and no send request that could fail: receives that are posted later are flushed, too. */
static void posted_behind_death(void)
{
	struct ibv_recv_wr wr = {.wr_id = 1}, *bad;

	set_up();
	struct ibv_cq *cq = rig_cq(&a, 16, NULL);
	struct ibv_qp *p = queue(&a, 0, cq);
	connect_both(p, queue(&c, 0, rig_cq(&c, 16, NULL)));
	shca_engine_kill(c.m);
	await_told(p);
	CHECK(!shca_post_recv(p, &wr, &bad) && completion(cq) == IBV_WC_WR_FLUSH_ERR);
	post_task_receive(p);
	CHECK(completion(cq) == IBV_WC_WR_FLUSH_ERR);
}

/* ---- requests on their way ------------------------------------------------------------------------------------------- */

static struct read {
	struct ibv_qp *qp;
	struct ibv_mr *from, *to;
} way;

static struct ibv_sge all_of(const struct ibv_mr *mr)
{
	return (struct ibv_sge){(uintptr_t)mr->addr, BYTES, mr->lkey};
}

static void *posts_read(void *arg)
{
	struct read *w = arg;
	struct ibv_sge sge = all_of(w->to);
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_READ, .send_flags = IBV_SEND_SIGNALED,
				 .wr.rdma = {.remote_addr = (uintptr_t)w->from->addr, .rkey = w->from->rkey}}, *bad;

	CHECK(!shca_post_send(w->qp, &wr, &bad));
	return NULL;
}

/* The executor has found the responder, and then the responder's process is reaped: the request completes with
 * IBV_WC_RETRY_EXC_ERR, not with an access error for the regions that are gone. */
static void responder_reaped(void)
{
	struct rig *who[2] = {&b, &c};

	set_up();
	struct ibv_cq *cq = rig_cq(&a, 16, NULL);
	struct ibv_qp *q = queue(&c, 0, rig_cq(&c, 16, NULL));
	way = (struct read){queue(&a, 0, cq), region(&c), region(&a)};
	connect_both(way.qp, q);
	uint32_t key = way.from->rkey;
	hold_at(&a, "found");
	pthread_t poster = begin(posts_read, &way);
	rig_await(&hold.held, 1);
	shca_engine_kill(c.m);
	pthread_t reaper = begin(reaps, who);
	for (int i = 0; shca_mr_get(a.m, key); i++, rig_nap())
		if (i > 20000)
			FAIL("the regions of a dead process are found");
	let_go();
	joined(poster);
	joined(reaper);
	enum ibv_wc_status status = completion(cq);
	if (status != IBV_WC_RETRY_EXC_ERR)
		FAIL("a request to a process that died completes with %s", ibv_wc_status_str(status));
}

static _Atomic bool taken_away;

static void *takes_away(void *arg)
{
	CHECK(!shca_dereg_mr(arg));
	atomic_store(&taken_away, true);
	return NULL;
}

/* b executes a's queue, which reads c's region: ibv_dereg_mr of c waits for b. */
static void third_party_reads(void)
{
	struct ibv_exp_send_wr *bad;

	set_up();
	struct ibv_cq *cq = rig_cq(&a, 16, NULL);
	struct ibv_qp *p = queue(&a, IBV_EXP_QP_CREATE_CROSS_CHANNEL | IBV_EXP_QP_CREATE_MANAGED_SEND, cq);
	struct ibv_qp *q = queue(&c, 0, rig_cq(&c, 16, NULL));
	struct ibv_mr *from = region(&c), *to = region(&a);
	struct ibv_sge sge = all_of(to);
	connect_both(p, q);
	struct ibv_exp_send_wr wr = {.sg_list = &sge, .num_sge = 1, .exp_opcode = IBV_EXP_WR_RDMA_READ,
				     .exp_send_flags = IBV_EXP_SEND_SIGNALED,
				     .wr.rdma = {.remote_addr = (uintptr_t)from->addr, .rkey = from->rkey}};
	CHECK(!shca_exp_post_send(p, &wr, &bad));
	hold_at(&b, "data");
	atomic_store(&rig_sh(p)->enabled, 1);
	pthread_t executor = begin(runs, p);
	rig_await(&hold.held, 1);
	pthread_t taker = begin(takes_away, from);
	naps(100);		/* until shca_dereg_mr waits; no failpoint reports that */
	if (atomic_load(&taken_away))
		FAIL("a region was taken away while somebody read it for a third");
	let_go();
	joined(executor);
	joined(taker);
	CHECK(completion(cq) == IBV_WC_SUCCESS);
}

/* b has locked a's queue and is stopped before executing a request: a's poller steals the lock and executes the queue, although
 * other queues of a's have been destroyed meanwhile. */
static void poller_steals(void)
{
	struct ibv_exp_send_wr nop = {.exp_opcode = IBV_EXP_WR_NOP, .exp_send_flags = IBV_EXP_SEND_SIGNALED}, *bad;
	struct ibv_qp *p[3];

	set_up();
	struct ibv_cq *cq = rig_cq(&a, 16, NULL), *its = rig_cq(&c, 16, NULL);
	for (int i = 0; i < 3; i++) {
		p[i] = queue(&a, IBV_EXP_QP_CREATE_CROSS_CHANNEL | IBV_EXP_QP_CREATE_MANAGED_SEND, cq);
		connect_both(p[i], queue(&c, 0, its));
	}
	CHECK(!shca_destroy_qp(p[0]) && !shca_destroy_qp(p[2]));
	CHECK(!shca_exp_post_send(p[1], &nop, &bad));
	hold_at(&b, "claimed");
	atomic_store(&rig_sh(p[1])->enabled, 1);
	pthread_t executor = begin(runs, p[1]);
	rig_await(&hold.held, 1);
	CHECK(completion(cq) == IBV_WC_SUCCESS);
	let_go();
	joined(executor);
}

/* As runs, in a thread without memory for the list of queues and executes each queue within shca_kick. */
static void *runs_without_memory(void *arg)
{
	struct shca_thread *thr = shca_thread_get(b.m);
	uint32_t cap = thr->todo_cap;

	shca_enter(thr);
	thr->todo_n = thr->todo_cap = 1u << 30;
	thr->budget = 1;
	shca_kick(thr, shca_user_qp_of((struct ibv_qp *)arg)->off);
	thr->todo_n = 0;
	thr->todo_cap = cap;
	shca_leave(thr);
	return NULL;
}

static void *polls(void *arg)
{
	CHECK(completion(arg) == IBV_WC_SUCCESS);
	return NULL;
}

/* b has locked a's queue and has no memory to list the queue. Meanwhile a has stolen the lock and executes the queue: b must not
 * execute the queue. */
static void thief_runs_it(void)
{
	struct ibv_exp_send_wr nop = {.exp_opcode = IBV_EXP_WR_NOP, .exp_send_flags = IBV_EXP_SEND_SIGNALED}, *bad;
	struct rlimit all, none;

#ifdef SHCA_SANITIZED
	printf("# AddressSanitizer ends a process that has no memory\n");
	return;
#endif
	set_up();
	struct ibv_cq *cq = rig_cq(&a, 16, NULL);
	struct ibv_qp *p = queue(&a, IBV_EXP_QP_CREATE_CROSS_CHANNEL | IBV_EXP_QP_CREATE_MANAGED_SEND, cq);
	connect_both(p, queue(&c, 0, rig_cq(&c, 16, NULL)));
	CHECK(!shca_exp_post_send(p, &nop, &bad));
	hold_at(&b, "claimed");
	atomic_store(&rig_sh(p)->enabled, 1);
	pthread_t executor = begin(runs_without_memory, p);
	rig_await(&hold.held, 1);
	hold_one_at(&second, &a, "run");
	pthread_t poller = begin(polls, cq);
	rig_await(&second.held, 1);
	CHECK(!getrlimit(RLIMIT_AS, &all));
	none = (struct rlimit){1 << 20, all.rlim_max};
	CHECK(!setrlimit(RLIMIT_AS, &none));
	uint64_t lock = atomic_load(&rig_sh(p)->lock);
	let_go();
	joined(executor);
	CHECK(!setrlimit(RLIMIT_AS, &all));
	if (atomic_load(&rig_sh(p)->lock) >> 3 != lock >> 3)
		FAIL("a queue that a thief is running is run by another as well: its lock was %#lx, and is %#lx",
		     (unsigned long)lock, (unsigned long)atomic_load(&rig_sh(p)->lock));
	atomic_store(&second.m, NULL);
	joined(poller);
}

static void *to_error(void *arg)
{
	struct ibv_qp_attr err = {.qp_state = IBV_QPS_ERR};

	CHECK(!shca_modify_qp(arg, &err, IBV_QP_STATE));
	return NULL;
}

/* b executes c's SEND to a. The data of the SEND cannot be read, so the receive is put back. Meanwhile a's queue has gone to ERR
 * and been flushed: the receive that was put back is flushed, too. */
static void comes_back_late(void)
{
	struct ibv_exp_send_wr *bad;
	struct ibv_recv_wr *bad_recv;

	set_up();
	struct ibv_cq *cq = rig_cq(&a, 16, NULL);
	struct ibv_qp *p = queue(&c, IBV_EXP_QP_CREATE_CROSS_CHANNEL | IBV_EXP_QP_CREATE_MANAGED_SEND, rig_cq(&c, 16, NULL));
	struct ibv_qp *q = queue(&a, 0, cq);
	char *gone = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(gone != MAP_FAILED);
	struct ibv_mr *from = shca_reg_mr(c.pd, gone, BYTES, (uintptr_t)gone, IBV_ACCESS_LOCAL_WRITE), *to = region(&a);
	CHECK(from && !mprotect(gone, BYTES, PROT_NONE));
	struct ibv_sge sge = all_of(from), into = all_of(to);
	connect_both(p, q);
	struct ibv_recv_wr recv = {.sg_list = &into, .num_sge = 1};
	struct ibv_exp_send_wr wr = {.sg_list = &sge, .num_sge = 1, .exp_opcode = IBV_EXP_WR_SEND};
	CHECK(!shca_post_recv(q, &recv, &bad_recv) && !shca_exp_post_send(p, &wr, &bad));
	hold_at(&b, "data");
	atomic_store(&rig_sh(p)->enabled, 1);
	pthread_t executor = begin(runs, p);
	rig_await(&hold.held, 1);
	/* the transition to ERR waits for b */
	pthread_t modifier = begin(to_error, q);
	for (int i = 0; !atomic_load(&rig_sh(q)->fail); i++, rig_nap())
		CHECK(i < 20000);
	let_go();
	joined(executor);
	joined(modifier);
	/* no ibv_poll_cq: a program that sleeps until a completion event does not poll */
	for (int i = 0; !shca_cq_count(shca_thread_get(a.m), shca_user_cq_of(cq)->sh); i++, rig_nap())
		if (i > 20000)
			FAIL("a receive that came back is not flushed");
	enum ibv_wc_status status = completion(cq);
	if (status != IBV_WC_WR_FLUSH_ERR)
		FAIL("a receive that came back completes with %s", ibv_wc_status_str(status));
}

static void post_wait(struct ibv_qp *qp, struct ibv_cq *what, int count)
{
	struct ibv_exp_send_wr nop = {.exp_opcode = IBV_EXP_WR_NOP, .exp_send_flags = IBV_EXP_SEND_SIGNALED}, *bad;
	struct ibv_exp_send_wr wait = {.exp_opcode = IBV_EXP_WR_CQE_WAIT, .next = &nop,
				       .task.cqe_wait = {.cq = what, .cq_count = count}};

	CHECK(!shca_exp_post_send(qp, &wait, &bad));
}

/* b executes a's queue and dies between the completion of a request and the end of the execution. a has polled the completion and
 * filled the queue again: the place of the request is not used again before the next executor has ended the request. */
static void filled_again(void)
{
	struct ibv_exp_send_wr nop = {.exp_opcode = IBV_EXP_WR_NOP, .exp_send_flags = IBV_EXP_SEND_SIGNALED}, *bad;
	struct rig *who[2] = {&c, &b};

	set_up();
	struct ibv_cq *cq = rig_cq(&a, 16, NULL), *never = rig_cq(&a, 16, NULL);
	struct ibv_qp *p = queue(&a, IBV_EXP_QP_CREATE_CROSS_CHANNEL | IBV_EXP_QP_CREATE_MANAGED_SEND, cq);
	struct ibv_exp_send_wr wait = {.exp_opcode = IBV_EXP_WR_CQE_WAIT, .task.cqe_wait = {.cq = never, .cq_count = 1}};
	connect_both(p, queue(&c, 0, rig_cq(&c, 16, NULL)));
	CHECK(!shca_exp_post_send(p, &nop, &bad));
	hold_at(&b, "cqe-visible");
	atomic_store(&rig_sh(p)->enabled, 1);
	begin(runs, p);
	rig_await(&hold.held, 1);
	CHECK(completion(cq) == IBV_WC_SUCCESS);
	for (int i = 0; i < DEPTH - 1; i++)
		CHECK(!shca_exp_post_send(p, &nop, &bad));
	CHECK(!shca_exp_post_send(p, &wait, &bad) && shca_exp_post_send(p, &nop, &bad) == ENOMEM);
	atomic_store(&rig_sh(p)->enabled, UINT64_MAX);
	shca_engine_kill(b.m);
	joined(begin(reaps, who));
	for (int i = 0; i < DEPTH - 1; i++)
		CHECK(completion(cq) == IBV_WC_SUCCESS);
}

static void *takes_left(void *arg)
{
	struct shca_thread *thr = shca_thread_get(b.m);

	(void)arg;
	shca_enter(thr);
	shca_take_left(thr);
	shca_drain(thr);
	shca_leave(thr);
	return NULL;
}

/* b takes the number of a's queue out of `left` and dies before locking the queue: only the reaper of b executes the queue
 * then. */
static void taken_out(void)
{
	struct ibv_exp_send_wr nop = {.exp_opcode = IBV_EXP_WR_NOP, .exp_send_flags = IBV_EXP_SEND_SIGNALED}, *bad;
	struct rig *who[2] = {&c, &b};

	set_up();
	struct ibv_cq *cq = rig_cq(&a, 16, NULL);
	struct ibv_qp *p = queue(&a, IBV_EXP_QP_CREATE_CROSS_CHANNEL | IBV_EXP_QP_CREATE_MANAGED_SEND, cq);
	connect_both(p, queue(&c, 0, rig_cq(&c, 16, NULL)));
	CHECK(!shca_exp_post_send(p, &nop, &bad));
	atomic_store(&rig_sh(p)->enabled, 1);
	hold_at(&b, "kick");
	atomic_store(&a.m->hdr->left[0], p->qp_num);
	begin(takes_left, NULL);
	rig_await(&hold.held, 1);
	CHECK(!atomic_load(&a.m->hdr->left[0]));
	shca_engine_kill(b.m);
	joined(begin(reaps, who));
	CHECK(completion(cq) == IBV_WC_SUCCESS);
}

static struct ibv_exp_send_wr sent;

static void *posts_exp(void *qp)
{
	struct ibv_exp_send_wr *bad;

	CHECK(!shca_exp_post_send(qp, &sent, &bad));
	return NULL;
}

/* b executes a SEND or an RDMA WRITE with immediate to a. Meanwhile a's queue goes to ERR, and the first receive is flushed: the
 * message must not take the second receive. */
static void passes_over(enum ibv_exp_wr_opcode op)
{
	struct ibv_recv_wr *bad_recv;

	set_up();
	struct ibv_cq *cq = rig_cq(&a, 16, NULL);
	struct ibv_qp *p = queue(&b, IBV_EXP_QP_CREATE_CROSS_CHANNEL, rig_cq(&b, 16, NULL)), *q = queue(&a, 0, cq);
	struct ibv_mr *from = region(&b), *to = region(&a);
	struct ibv_sge sge = {(uintptr_t)from->addr, 8, from->lkey}, into[2];
	connect_both(p, q);
	memset(from->addr, 1, 8);
	memset(to->addr, 0, 32);
	for (int i = 0; i < 2; i++) {
		into[i] = (struct ibv_sge){(uintptr_t)to->addr + 8 * i, 8, to->lkey};
		struct ibv_recv_wr recv = {.wr_id = i, .sg_list = &into[i], .num_sge = 1};
		CHECK(!shca_post_recv(q, &recv, &bad_recv));
	}
	sent = (struct ibv_exp_send_wr){.sg_list = &sge, .num_sge = op == IBV_EXP_WR_SEND, .exp_opcode = op};
	hold_at(&b, "found");
	pthread_t sender = begin(posts_exp, p);
	rig_await(&hold.held, 1);
	hold_one_at(&second, &a, "flush-taken");
	pthread_t modifier = begin(to_error, q);
	rig_await(&second.held, 1);
	let_go();
	joined(sender);
	atomic_store(&second.m, NULL);
	joined(modifier);
	for (int i = 0; i < 2; i++) {
		enum ibv_wc_status status = completion(cq);
		if (status != IBV_WC_WR_FLUSH_ERR)
			FAIL("receive %d of a queue in error completes with %s", i, ibv_wc_status_str(status));
	}
	if (((char *)to->addr)[8])
		FAIL("a message has come to another receive than its own");
}

static void send_passes_over(void)
{
	passes_over(IBV_EXP_WR_SEND);
}

static void write_passes_over(void)
{
	passes_over(IBV_EXP_WR_RDMA_WRITE_WITH_IMM);
}

/* A request of b has taken a's queue to ERR, and b dies behind the flush of the queue's receive. a has polled that completion:
 * the completion must not come a second time. */
static void flushed_once(void)
{
	struct ibv_recv_wr recv = {.wr_id = 1}, *bad_recv;
	struct rig *who[2] = {&c, &b};
	struct ibv_wc wc;

	set_up();
	struct ibv_cq *cq = rig_cq(&a, 16, NULL);
	struct ibv_qp *p = queue(&b, 0, rig_cq(&b, 16, NULL)), *q = queue(&a, 0, cq);
	struct ibv_mr *from = region(&b), *to = region(&a);
	struct ibv_sge sge = all_of(from);
	connect_both(p, q);
	CHECK(!shca_post_recv(q, &recv, &bad_recv));
	sent = (struct ibv_exp_send_wr){.sg_list = &sge, .num_sge = 1, .exp_opcode = IBV_EXP_WR_RDMA_WRITE,
					.wr.rdma = {.remote_addr = (uintptr_t)to->addr, .rkey = to->rkey ^ 1}};
	hold_at(&b, "flush-done");
	begin(posts_exp, p);
	rig_await(&hold.held, 1);
	CHECK(completion(cq) == IBV_WC_WR_FLUSH_ERR);
	shca_engine_kill(b.m);
	joined(begin(reaps, who));
	for (int i = 0; state_of(b.m->slot) != SHCA_PROC_FREE; i++, rig_nap())
		if (i > 20000)
			FAIL("nobody cleans up after a dead process");
	if (shca_poll_cq(cq, 1, &wc))
		FAIL("a receive that was flushed, and polled, completes again: %s", ibv_wc_status_str(wc.status));
}

static void in_error(const char *whose, struct ibv_qp *qp)
{
	struct shca_qp *sh = rig_sh(qp);

	if (!atomic_load(&sh->fail) || atomic_load(&sh->qp_state) != IBV_QPS_ERR || atomic_load(&sh->gate) & SHCA_GATE_RESPOND)
		FAIL("the %s has failed, by half: fail %d, state %u, gate %#x", whose, atomic_load(&sh->fail),
		     atomic_load(&sh->qp_state), atomic_load(&sh->gate));
}

/* b executes a request of a's queue that c refuses, and dies while taking c's queue to ERR (passes: 0), or a's (1): the reaper of
 * b completes both transitions. */
static void dies_failing(int passes)
{
	struct ibv_exp_send_wr *bad;
	struct rig *who[2] = {&c, &b};

	set_up();
	struct ibv_cq *cq = rig_cq(&a, 16, NULL);
	struct ibv_qp *p = queue(&a, IBV_EXP_QP_CREATE_CROSS_CHANNEL | IBV_EXP_QP_CREATE_MANAGED_SEND, cq);
	struct ibv_qp *q = queue(&c, 0, rig_cq(&c, 16, NULL));
	struct ibv_mr *from = region(&a), *to = region(&c);
	struct ibv_sge sge = all_of(from);
	connect_both(p, q);
	struct ibv_exp_send_wr wr = {.sg_list = &sge, .num_sge = 1, .exp_opcode = IBV_EXP_WR_RDMA_WRITE,
				     .wr.rdma = {.remote_addr = (uintptr_t)to->addr, .rkey = to->rkey ^ 1}};
	CHECK(!shca_exp_post_send(p, &wr, &bad));
	hold_at(&b, "half-failed");
	hold.after = passes;
	atomic_store(&rig_sh(p)->enabled, 1);
	begin(runs, p);
	rig_await(&hold.held, 1);
	shca_engine_kill(b.m);
	joined(begin(reaps, who));
	CHECK(completion(cq) == IBV_WC_REM_ACCESS_ERR);
	in_error("requester", p);
	in_error("responder", q);
}

static void dies_failing_peer(void)
{
	dies_failing(0);
}

static void dies_failing_own(void)
{
	dies_failing(1);
}

/* A completion kicks two queues that wait for that completion. Between the two kicks the first queue waits for one more
 * completion: that completion must kick it. */
static void waits_anew(void)
{
	struct ibv_recv_wr wr = {.wr_id = 1}, *bad;
	struct ibv_qp *p[2];

	set_up();
	struct ibv_cq *cq = rig_cq(&a, 16, NULL), *its = rig_cq(&c, 16, NULL), *counted = rig_cq(&a, 16, NULL);
	for (int i = 0; i < 2; i++) {
		p[i] = queue(&a, IBV_EXP_QP_CREATE_CROSS_CHANNEL, cq);
		connect_both(p[i], queue(&c, 0, its));
		post_wait(p[i], counted, 1);
	}
	struct ibv_qp *in = queue(&a, 0, counted), *out = queue(&b, 0, rig_cq(&b, 16, NULL));
	connect_both(in, out);
	CHECK(!shca_post_recv(in, &wr, &bad) && !shca_post_recv(in, &wr, &bad));
	hold_at(&b, "kick");
	hold.after = 1;
	pthread_t sender = begin(sends, out);
	rig_await(&hold.held, 1);
	CHECK(completion(cq) == IBV_WC_SUCCESS);
	post_wait(p[0], counted, 2);
	let_go();
	joined(sender);
	CHECK(completion(cq) == IBV_WC_SUCCESS);
	joined(begin(sends, out));
	CHECK(completion(cq) == IBV_WC_SUCCESS);
}

static struct ibv_qp *shares(struct rig *r, struct ibv_cq *cq, struct ibv_srq *srq)
{
	struct rig_qp_attr at = {.type = IBV_QPT_RC, .scq = cq, .rcq = cq, .srq = srq, .send_wr = DEPTH, .sge = 1};
	struct ibv_qp *qp = rig_qp(r, &at);

	rig_init(qp);
	return qp;
}

/* Two executors are about to take the same receive of an SRQ: the executor that loses takes the next receive, and skips none. */
static void takes_in_order(void)
{
	struct ibv_srq_init_attr sa = {.attr = {.max_wr = 4, .max_sge = 1}};
	struct ibv_recv_wr *bad;
	struct ibv_wc wc;

	set_up();
	struct ibv_cq *cq = rig_cq(&c, 16, NULL);
	struct ibv_srq *srq = shca_create_srq(c.pd, &sa);
	CHECK(srq);
	struct ibv_qp *p = queue(&a, 0, rig_cq(&a, 16, NULL)), *q = queue(&b, 0, rig_cq(&b, 16, NULL));
	connect_both(p, shares(&c, cq, srq));
	connect_both(q, shares(&c, cq, srq));
	for (uint64_t i = 1; i <= 3; i++) {
		struct ibv_recv_wr wr = {.wr_id = i};
		CHECK(!shca_post_srq_recv(srq, &wr, &bad));
	}
	hold_at(&a, "take");
	pthread_t sender = begin(sends, p);
	rig_await(&hold.held, 1);
	joined(begin(sends, q));
	let_go();
	joined(sender);
	for (uint64_t i = 1; i <= 2; i++) {
		CHECK(shca_poll_cq(cq, 1, &wc) == 1 && wc.status == IBV_WC_SUCCESS);
		if (wc.wr_id != i)
			FAIL("receive %lu was taken before receive %lu", (unsigned long)wc.wr_id, (unsigned long)i);
	}
}

static void *destroys(void *arg)
{
	CHECK(!shca_destroy_srq(arg));
	return NULL;
}

/* A message to an XRC SRQ that is being destroyed takes no receive and fails. */
static void srq_goes(void)
{
	struct ibv_xrcd_init_attr xd = {.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = -1};
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED}, *bad;
	struct ibv_wc wc;

	set_up();
	struct ibv_cq *cq = rig_cq(&a, 16, NULL), *rcq = rig_cq(&a, 16, NULL);
	struct ibv_xrcd *xrcd = shca_open_xrcd(a.ctx, &xd);
	CHECK(xrcd);
	struct ibv_srq_init_attr_ex sa = {
		.attr = {.max_wr = 4, .max_sge = 1}, .srq_type = IBV_SRQT_XRC, .pd = a.pd, .xrcd = xrcd, .cq = rcq,
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
	};
	struct ibv_qp_init_attr_ex to = {.qp_type = IBV_QPT_XRC_RECV, .xrcd = xrcd, .comp_mask = IBV_QP_INIT_ATTR_XRCD};
	struct rig_qp_attr from = {.type = IBV_QPT_XRC_SEND, .scq = cq, .send_wr = 8, .sge = 1};
	struct ibv_srq *srq = shca_create_srq_ex(a.ctx, &sa);
	struct ibv_qp *in = shca_create_qp_ex(a.ctx, &to), *out = rig_qp(&a, &from);
	CHECK(srq && in && !shca_get_srq_num(srq, &wr.qp_type.xrc.remote_srqn));
	rig_init(in);
	rig_init(out);
	connect_both(out, in);
	struct ibv_mr *mr = region(&a);
	struct ibv_sge sge = all_of(mr);
	struct ibv_recv_wr rw = {.sg_list = &sge, .num_sge = 1}, *bad_recv;
	CHECK(!shca_post_srq_recv(srq, &rw, &bad_recv));
	hold_at(&a, "srq-dead");
	pthread_t t = begin(destroys, srq);
	rig_await(&hold.held, 1);
	CHECK(!shca_post_send(out, &wr, &bad));
	let_go();
	joined(t);
	if (completion(cq) == IBV_WC_SUCCESS || shca_poll_cq(rcq, 1, &wc))
		FAIL("a message landed in a shared receive queue that was being destroyed");
}

/* ---- DC ---------------------------------------------------------------------------------------------------------------- */

/* c executes a's DC initiator and dies before raising the event of a wrong key at the target: the next executor of the queue
 * raises the event. */
static struct ibv_qp *initiator;

static void *runs_initiator(void *arg)
{
	(void)arg;
	run_queue(&c, initiator);
	return NULL;
}

static void key_violation(void)
{
	set_up();
	struct ibv_cq *cq = rig_cq(&a, 8, NULL), *its = rig_cq(&b, 8, NULL);
	struct ibv_srq_init_attr sa = {.attr = {.max_wr = 4, .max_sge = 1}};
	struct ibv_exp_dct_init_attr da = {.pd = b.pd, .cq = its, .srq = shca_create_srq(b.pd, &sa), .dc_key = 1, .port = 1,
					   .mtu = IBV_MTU_1024, .min_rnr_timer = 1};
	struct ibv_exp_dct *dct = shca_create_dct(b.ctx, &da);
	struct ibv_qp_init_attr_ex attr = {.qp_type = IBV_QPT_DRIVER, .pd = a.pd, .send_cq = cq, .recv_cq = cq,
					   .cap = {.max_send_wr = 4},
					   .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
					   .send_ops_flags = IBV_QP_EX_WITH_SEND};
	struct mlx5dv_qp_init_attr dv = {.comp_mask = MLX5DV_QP_INIT_ATTR_MASK_DC,
					 .dc_init_attr = {.dc_type = MLX5DV_DCTYPE_DCI}};
	struct ibv_ah_attr aa = {.dlid = SHCA_LID, .port_num = 1};
	struct ibv_ah *ah = shca_create_ah(a.pd, &aa);

	CHECK(dct && ah && (initiator = shca_dv_create_qp(a.ctx, &attr, &dv)));
	struct ibv_qp_attr to_rts = {
		.qp_state = IBV_QPS_INIT, .port_num = 1, .path_mtu = IBV_MTU_4096, .retry_cnt = 7, .rnr_retry = 7};
	CHECK(!shca_modify_qp(initiator, &to_rts, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT));
	to_rts.qp_state = IBV_QPS_RTR;
	CHECK(!shca_modify_qp(initiator, &to_rts, IBV_QP_STATE | IBV_QP_PATH_MTU));
	to_rts.qp_state = IBV_QPS_RTS;
	to_rts.max_rd_atomic = 1;
	CHECK(!shca_modify_qp(initiator, &to_rts,
			      IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
				      IBV_QP_MAX_QP_RD_ATOMIC));
	struct shca_qp *sh = rig_sh(initiator), *to = shca_user_dct_of(dct)->qp->sh;
	struct ibv_qp_ex *ex = &shca_user_qp_of(initiator)->ex;
	ibv_wr_start(ex);
	ibv_wr_send(ex);
	shca_dv_qp_ex(ex)->wr_set_dc_addr(shca_dv_qp_ex(ex), ah, to->qpn, 2);
	CHECK(!ibv_wr_complete(ex));
	CHECK(atomic_load(&to->dc_violations) == 1 && !shca_qp_unread(to));
	CHECK(!shca_arm_dct(dct) && !shca_qp_unread(to));
	/* as if the queue had not been executed; the helper thread may execute the queue meanwhile */
	for (int quiet = 0; quiet < 20; rig_nap())
		quiet = atomic_exchange(&sh->due, 0) ? 0 : quiet + 1;
	atomic_store(&sh->rnr_since, 0);
	hold_at(&c, "dc-violation");
	begin(runs_initiator, NULL);
	rig_await(&hold.held, 1);
	shca_fabric_kill(c.m);
	shca_reap(shca_thread_get(a.m), c.m->slot);
	for (int i = 0; !shca_qp_unread(to); i++, rig_nap())
		if (i > 20000)
			FAIL("nobody tells the target of the wrong key: %u are counted", atomic_load(&to->dc_violations));
	/* c's thread stays held: the process is dead */
}

/* b executes a's first request, leaves the later ones to other executors, and dies after storing the expiry of a timer, before
 * announcing the timer. The next executor runs the rest, which waits for a receive: that executor must set a timer of its own. */
static void leaves_over(void)
{
	struct ibv_exp_send_wr wr = {.exp_opcode = IBV_EXP_WR_RDMA_WRITE}, *bad;
	struct rig_path path = {.timeout = 8, .retry_cnt = 7, .rnr_retry = 1, .min_rnr_timer = 0};

	set_up();
	struct ibv_cq *cq = rig_cq(&a, 16, NULL);
	struct ibv_qp *p = queue(&a, IBV_EXP_QP_CREATE_CROSS_CHANNEL | IBV_EXP_QP_CREATE_MANAGED_SEND, cq);
	struct ibv_qp *end[2] = {p, queue(&c, 0, rig_cq(&c, 16, NULL))};

	for (int i = 0; i < 2; i++) {
		path.dest_qpn = end[!i]->qp_num;
		rig_rtr(end[i], &path);
		rig_rts(end[i], &path);
	}
	CHECK(!shca_exp_post_send(p, &wr, &bad));
	atomic_store(&rig_sh(p)->enabled, 2);
	hold_at(&b, "release");
	begin(runs, p);
	rig_await(&hold.held, 1);
	wr = (struct ibv_exp_send_wr){.exp_opcode = IBV_EXP_WR_SEND, .exp_send_flags = IBV_EXP_SEND_SIGNALED};
	CHECK(!shca_exp_post_send(p, &wr, &bad));
	run_queue(&a, p);
	atomic_store(&timed, rig_sh(p));
	let_go();
	rig_await(&timer_set, 1);
	shca_fabric_kill(b.m);
	shca_reap(shca_thread_get(a.m), b.m->slot);
	/* no ibv_poll_cq, which would look for queues in `left` */
	for (int i = 0; atomic_load(&rig_sh(p)->head) < 2; i++, rig_nap())
		if (i > 10000)
			FAIL("a queue relies on the timer of a dead process");
	if (completion(cq) != IBV_WC_RNR_RETRY_EXC_ERR)
		FAIL("a SEND without a receive does not end so");
	/* b's thread stays held: the process is dead */
}

static const struct rig_case cases[] = {
	{"leaves-over", leaves_over},
	{"next-user", next_user}, {"reaper-dies", reaper_dies}, {"responder-reaped", responder_reaped},
	{"third-party-reads", third_party_reads}, {"srq-goes", srq_goes}, {"poller-steals", poller_steals},
	{"thief-runs-it", thief_runs_it}, {"waits-anew", waits_anew},
	{"filled-again", filled_again}, {"taken-out", taken_out}, {"flushed-once", flushed_once},
	{"takes-in-order", takes_in_order}, {"posted-behind-death", posted_behind_death}, {"comes-back-late", comes_back_late},
	{"connects-to-dying", connects_to_dying}, {"told-while-reset", told_while_reset},
	{"reset-behind-death", reset_behind_death},
	{"key-violation", key_violation},
	{"dies-failing-peer", dies_failing_peer}, {"dies-failing", dies_failing_own},
	{"send-passes-over", send_passes_over}, {"write-passes-over", write_passes_over},
};

int main(int argc, char **argv)
{
	setenv("SHCA_DEATH_MS", "20", 0);
	return rig_cases(argc, argv, cases, ARRAY_SIZE(cases), NULL);
}
