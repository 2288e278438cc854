/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Task lists and the objects that they name: a refused list posts nothing, for any reason and any refused task; lists and single
 * posts of several threads count their ENABLEs and WAITs correctly; a CQ that a posted WAIT names is in use, a CQ with no WAIT
 * left is not; a WAIT for a CQ that is overrun fails.
 */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <unistd.h>

#include "rig.h"

#define DEPTH 64

static struct rig r;
static struct ibv_cq *cq, *rcq, *ended;
static struct ibv_mr *mr;

static struct ibv_qp *queue(uint32_t flags, struct ibv_cq *scq)
{
	struct rig_qp_attr a = {.type = IBV_QPT_RC, .exp_flags = flags, .scq = scq, .rcq = rcq, .send_wr = DEPTH,
				.recv_wr = DEPTH, .sge = 2, .inl = 256};
	struct ibv_qp *qp = rig_qp(&r, &a);

	rig_init(qp);
	return qp;
}

static void connect_both(struct ibv_qp *a, struct ibv_qp *b)
{
	rig_connect(a, b, &(struct rig_path){.timeout = 8, .retry_cnt = 7, .rnr_retry = 7, .min_rnr_timer = 1});
}

static struct ibv_exp_send_wr send_nop(uint64_t id)
{
	return (struct ibv_exp_send_wr){.wr_id = id, .exp_opcode = IBV_EXP_WR_NOP, .exp_send_flags = IBV_EXP_SEND_SIGNALED};
}

static struct ibv_exp_send_wr enable(struct ibv_qp *target, int count, bool recv)
{
	return (struct ibv_exp_send_wr){.exp_opcode = recv ? IBV_EXP_WR_RECV_ENABLE : IBV_EXP_WR_SEND_ENABLE,
					.exp_send_flags = IBV_EXP_SEND_WAIT_EN_LAST,
					.task.wqe_enable = {.qp = target, .wqe_count = count}};
}

static struct ibv_exp_send_wr wait_for(struct ibv_cq *what, int count)
{
	return (struct ibv_exp_send_wr){.exp_opcode = IBV_EXP_WR_CQE_WAIT, .exp_send_flags = IBV_EXP_SEND_WAIT_EN_LAST,
					.task.cqe_wait = {.cq = what, .cq_count = count}};
}

static int completions(struct ibv_cq *c)
{
	struct ibv_wc wc;
	int n = 0;

	while (shca_poll_cq(c, 1, &wc) > 0)
		n++;
	return n;
}

/* ---- a refused list posts nothing ---------------------------------------------------------------------------------- */

struct state {
	uint64_t posted, enabled, received, wait_index, free_receives;
};

static struct state state_of(struct ibv_qp *qp, struct ibv_cq *c)
{
	struct shca_user_qp *q = shca_user_qp_of(qp);

	return (struct state){.posted = q->pi, .enabled = q->enabled.most + q->rq->enabled.most,
			      .received = atomic_load(&q->rq->sh->tail), .wait_index = shca_user_cq_of(c)->waited.most,
				      .free_receives = q->rq->fifo_tail - q->rq->fifo_head};
}

static void refused(struct ibv_exp_task *first, struct ibv_exp_task *culprit, int err, struct ibv_qp *const *qps, int n,
		    const char *why)
{
	struct state before[4], after[4];
	struct ibv_exp_task *bad = NULL;

	for (int i = 0; i < n; i++)
		before[i] = state_of(qps[i], ended);
	int rc = shca_exp_post_task(r.ctx, first, &bad);
	if (rc != err || bad != culprit)
		FAIL("%s: returned %d (expected %d), the culprit is %s", why, rc, err, bad == culprit ? "right" : "wrong");
	for (int i = 0; i < n; i++) {
		after[i] = state_of(qps[i], ended);
		if (memcmp(&before[i], &after[i], sizeof(before[i])))
			FAIL("%s: queue %d: posted %lu to %lu, enabled %lu to %lu, receives %lu to %lu, wait index %lu to %lu",
			     why, i, (unsigned long)before[i].posted, (unsigned long)after[i].posted,
			     (unsigned long)before[i].enabled, (unsigned long)after[i].enabled,
			     (unsigned long)before[i].received, (unsigned long)after[i].received,
			     (unsigned long)before[i].wait_index, (unsigned long)after[i].wait_index);
	}
	if (completions(cq) || completions(rcq))
		FAIL("%s: something ran", why);
}

static void refusals(void)
{
	struct ibv_qp *master = queue(IBV_EXP_QP_CREATE_CROSS_CHANNEL, cq), *plain = queue(0, cq);
	struct ibv_qp *slave = queue(IBV_EXP_QP_CREATE_CROSS_CHANNEL | IBV_EXP_QP_CREATE_MANAGED_SEND |
					     IBV_EXP_QP_CREATE_MANAGED_RECV, cq);
	struct ibv_qp *peer = queue(0, cq), *qps[3] = {master, slave, plain};

	connect_both(master, plain);
	connect_both(slave, peer);
	struct ibv_sge sge = {(uintptr_t)mr->addr, 8, mr->lkey}, large = {(uintptr_t)mr->addr, 4000, mr->lkey};
	struct ibv_recv_wr recv = {.wr_id = 1, .sg_list = &sge, .num_sge = 1};
	struct ibv_exp_send_wr good = send_nop(1), wait = wait_for(ended, 1), en, last;
	wait.next = &good;
	struct ibv_exp_task t[3] = {{.task_type = IBV_EXP_TASK_SEND, .item = {.qp = master, .send_wr = &wait}, .next = &t[1]},
				    {.task_type = IBV_EXP_TASK_RECV, .item = {.qp = slave, .recv_wr = &recv}, .next = &t[2]},
				    {.task_type = IBV_EXP_TASK_SEND, .item = {.qp = plain, .send_wr = &last}}};

	/* no task before the refused one counts: neither the enables of the slave's queues nor the wait */
	en = enable(slave, 2, false);
	last = enable(slave, 2, true);
	en.next = &last;
	last.next = NULL;
	struct ibv_exp_send_wr wrong = wait_for(NULL, 1);
	struct ibv_exp_send_wr one = send_nop(3);
	struct ibv_exp_task post = {.task_type = IBV_EXP_TASK_SEND, .item = {.qp = slave, .send_wr = &one}};
	struct ibv_exp_task enabling = {.task_type = IBV_EXP_TASK_SEND, .item = {.qp = master, .send_wr = &en}, .next = &post};
	t[2] = (struct ibv_exp_task){.task_type = IBV_EXP_TASK_SEND, .item = {.qp = master, .send_wr = &wrong}};
	t[1].next = &enabling;
	enabling.next = &t[2];
	refused(t, &t[2], EINVAL, qps, 3, "a WAIT for nothing");
	en.next = NULL;
	enabling.next = &post;
	t[1].next = &t[2];
	t[2].item.qp = plain;
	t[2].item.send_wr = &last;

	last = (struct ibv_exp_send_wr){.exp_opcode = IBV_EXP_WR_RDMA_WRITE, .exp_send_flags = IBV_EXP_SEND_INLINE,
					.sg_list = &large, .num_sge = 1};
	refused(t, &t[2], EINVAL, qps, 3, "more inline data than the queue takes");

	struct ibv_exp_send_wr many[DEPTH + 1];
	for (int i = 0; i <= DEPTH; i++) {
		many[i] = send_nop(9);
		many[i].next = i < DEPTH ? &many[i + 1] : NULL;
	}
	t[2].item.send_wr = many;
	refused(t, &t[2], ENOMEM, qps, 3, "more requests than the queue has room for");
	t[2].item.send_wr = &last;
	last = enable(plain, 1, false);
	refused(t, &t[2], EINVAL, qps, 3, "an ENABLE on a queue that is not cross-channel");

	/* the refused tasks were not counted either: the same tasks in a valid list are accepted, and enable the stated
	 * requests */
	last = send_nop(4);
	en = enable(slave, 1, false);
	t[2].next = &enabling;
	struct ibv_exp_task *bad;
	CHECK(!shca_exp_post_task(r.ctx, t, &bad));
	CHECK(completions(cq) == 1);	/* plain's: master waits */
	CHECK(!shca_destroy_qp(slave) && !shca_destroy_qp(peer) && !shca_destroy_qp(master) && !shca_destroy_qp(plain));
	completions(cq);
}

/* ---- several threads -------------------------------------------------------------------------------------------------- */

#define ROUNDS 20000

struct worker {
	struct ibv_qp *own, *target;
	bool task;
	_Atomic uint32_t *go;
};

static void retry(struct worker *w, struct ibv_exp_send_wr *wr)
{
	struct ibv_exp_task task = {.task_type = IBV_EXP_TASK_SEND, .item = {.qp = w->own, .send_wr = wr}}, *bad_task;
	struct ibv_exp_send_wr *bad;
	int rc;

	while ((rc = w->task ? shca_exp_post_task(r.ctx, &task, &bad_task) : shca_exp_post_send(w->own, wr, &bad)) == ENOMEM)
		sched_yield();
	if (rc)
		FAIL("%s: %s", w->task ? "post_task" : "post_send", strerror(rc));
}

/* Each enables one request more of the common target, and moves the index of the common CQ by one. */
static void *work(void *arg)
{
	struct worker *w = arg;

	atomic_fetch_add(w->go, 1);
	while (atomic_load(w->go) < 2)
		;
	for (int i = 0; i < ROUNDS; i++) {
		struct ibv_exp_send_wr en = enable(w->target, 1, true), wait = wait_for(ended, 1);
		wait.next = &en;
		retry(w, &wait);
	}
	return NULL;
}

static void threads(void)
{
	struct ibv_qp *end[4];
	_Atomic uint32_t go = 0;
	pthread_t id[2];

	for (int i = 0; i < 4; i++)
		end[i] = queue(i == 2 ? IBV_EXP_QP_CREATE_MANAGED_RECV : i < 2 ? IBV_EXP_QP_CREATE_CROSS_CHANNEL : 0, cq);
	connect_both(end[0], end[1]);
	connect_both(end[2], end[3]);
	/* as if so many were posted: only the counts matter */
	struct shca_user_rq *rq = shca_user_qp_of(end[2])->rq;
	uint64_t from = rq->enabled.base, index = shca_user_cq_of(ended)->waited.base;
	atomic_fetch_add(&rq->sh->tail, 2 * ROUNDS);
	atomic_fetch_add(&shca_user_cq_of(ended)->sh->tail, 4ull * ROUNDS);	/* all WAITs are met */
	struct worker w[2] = {{end[0], end[2], true, &go}, {end[1], end[2], false, &go}};
	for (int i = 0; i < 2; i++)
		CHECK(!pthread_create(&id[i], NULL, work, &w[i]));
	for (int i = 0; i < 2; i++)
		CHECK(!pthread_join(id[i], NULL));
	if (rq->enabled.base - from != 2 * ROUNDS || shca_user_cq_of(ended)->waited.base - index != 2 * ROUNDS)
		FAIL("%d ENABLEs and WAITs were posted, %lu and %lu counted", 2 * ROUNDS,
		     (unsigned long)(rq->enabled.base - from), (unsigned long)(shca_user_cq_of(ended)->waited.base - index));
	atomic_fetch_sub(&rq->sh->tail, 2 * ROUNDS);
	for (int i = 0; i < 4; i++)
		CHECK(!shca_destroy_qp(end[i]));
}

/* A list waits for a thread that is posting to one of the list's queues, to send or to receive. */
struct lister {
	struct ibv_exp_task task[2];
	_Atomic uint32_t begun, done;
};

static void *post_list(void *arg)
{
	struct lister *l = arg;
	struct ibv_exp_task *bad;

	atomic_store(&l->begun, 1);
	CHECK(!shca_exp_post_task(r.ctx, l->task, &bad));
	atomic_store(&l->done, 1);
	return NULL;
}

static void held_queue(struct ibv_qp *q, struct shca_lock *lock)
{
	struct ibv_exp_send_wr nop = send_nop(1);
	struct ibv_recv_wr recv = {.wr_id = 1};
	struct lister l = {{{.task_type = IBV_EXP_TASK_SEND, .item = {.qp = q, .send_wr = &nop}},
			    {.task_type = IBV_EXP_TASK_RECV, .item = {.qp = q, .recv_wr = &recv}}}, 0, 0};
	pthread_t id;

	l.task[0].next = &l.task[1];
	shca_lock(lock);
	CHECK(!pthread_create(&id, NULL, post_list, &l));
	rig_await(&l.begun, 1);
	for (int i = 0; i < 50; i++) {
		rig_nap();
		if (atomic_load(&l.done))
			FAIL("a list was posted to a queue that another thread held");
	}
	shca_unlock(lock);
	CHECK(!pthread_join(id, NULL));
}

static void lists_and_posts(void)
{
	struct ibv_qp *q = queue(0, cq), *peer = queue(0, cq);

	connect_both(q, peer);
	held_queue(q, &shca_user_qp_of(q)->lock);
	held_queue(q, &shca_user_qp_of(q)->rq->lock);
	CHECK(completions(cq) == 2 && !shca_destroy_qp(q) && !shca_destroy_qp(peer));
}

/* ---- CQs that are waited for --------------------------------------------------------------------------------------------- */

static void waited_for(void)
{
	struct ibv_cq *first = rig_cq(&r, 8, NULL), *full = rig_cq(&r, 8, NULL);
	struct ibv_qp *w = queue(IBV_EXP_QP_CREATE_CROSS_CHANNEL, cq), *s = queue(0, first), *t = queue(0, full);
	struct ibv_qp *peer = queue(0, cq);
	struct ibv_exp_send_wr wait = wait_for(first, 1), nop = send_nop(1), *bad;

	connect_both(w, peer);
	connect_both(s, t);
	CHECK(!shca_exp_post_send(w, &wait, &bad));
	CHECK(!shca_exp_post_send(s, &nop, &bad));	/* fulfils the WAIT */
	wait = wait_for(first, 1);
	CHECK(!shca_exp_post_send(w, &wait, &bad));
	CHECK(!shca_destroy_qp(s));
	if (shca_destroy_cq(first) != EBUSY)
		FAIL("a CQ that a posted WAIT names was destroyed");
	/* flushed: no request waits for the CQ any more, although the queue of that request still exists */
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_ERR};
	CHECK(!shca_modify_qp(w, &a, IBV_QP_STATE));
	CHECK(!shca_destroy_cq(first));
	CHECK(!shca_destroy_qp(w) && !shca_destroy_qp(peer));
	completions(cq);

	/* a WAIT for a CQ that is overrun would wait for ever */
	w = queue(IBV_EXP_QP_CREATE_CROSS_CHANNEL, cq);
	peer = queue(0, cq);
	connect_both(w, peer);
	wait = wait_for(full, full->cqe + 1);
	wait.wr_id = 77;
	CHECK(!shca_exp_post_send(w, &wait, &bad));
	struct ibv_qp *u = queue(0, cq);
	CHECK(!shca_destroy_qp(t));
	t = queue(0, full);
	connect_both(u, t);
	for (int i = 0; i <= full->cqe; i++)
		CHECK(!shca_exp_post_send(t, &nop, &bad));
	struct ibv_wc wc = {0};
	if (shca_poll_cq(cq, 1, &wc) != 1 || wc.wr_id != 77 || wc.status != IBV_WC_LOC_QP_OP_ERR)
		FAIL("a WAIT for a CQ that is overrun: completion of %lu with %s", (unsigned long)wc.wr_id,
		     ibv_wc_status_str(wc.status));
	CHECK(!shca_destroy_qp(w) && !shca_destroy_qp(peer) && !shca_destroy_qp(u) && !shca_destroy_qp(t) &&
	      !shca_destroy_cq(full));
	completions(cq);
}

int main(void)
{
	alarm(60);
	rig_virtual(&r, NULL);
	cq = rig_cq(&r, 4096, NULL);
	rcq = rig_cq(&r, 256, NULL);
	ended = rig_cq(&r, 256, NULL);
	void *p = shca_buf_alloc(r.ctx, 4096);
	CHECK(p);
	mr = shca_reg_mr(r.pd, p, 4096, (uintptr_t)p, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	CHECK(mr);
	refusals();
	threads();
	lists_and_posts();
	waited_for();
	CHECK(!shca_dereg_mr(mr) && !shca_buf_free(r.ctx, p));
	CHECK(!shca_destroy_cq(cq) && !shca_destroy_cq(rcq) && !shca_destroy_cq(ended));
	rig_virtual_leave(&r);
	return 0;
}
