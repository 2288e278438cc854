/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The cost of operations as numbers grow, in counted steps: with twenty times as many objects beside it, an operation must take
 * about as many steps. Steps are instructions (counted by the processor's trap flag, so the count does not depend on load) or,
 * where the trap flag is not to be had and for operations that wake other queues, touched queues (failpoints of the library).
 * The lists that other processes follow must hold exactly the existing objects, in whatever order these came and went.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include "rig.h"

static struct rig r;
static _Atomic uint64_t touched;
static _Thread_local uint64_t touched_here;	/* queues that this thread has touched; the timers' thread is not counted */
/* The helper thread runs no timers while `hold` is set; the thread sets `held` when it has stopped. */
static _Atomic uint32_t hold, held;

void shca_failpoint(struct shca_thread *thr, const char *name, const struct shca_qp *qp, int op)
{
	(void)thr;
	(void)qp;
	(void)op;
	if (!strcmp(name, "kick") || !strcmp(name, "rnr-unlink") || !strcmp(name, "rnr-turn")) {
		atomic_fetch_add(&touched, 1);
		touched_here++;
	}
	while (!strcmp(name, "helper-tick") && atomic_load(&hold)) {
		atomic_store(&held, 1);
		rig_nap();
	}
}

/* ---- instructions ---------------------------------------------------------------------------------------------------- */

#if defined(__x86_64__)
#define TRAP 0x100
static volatile uint64_t counted;
static volatile sig_atomic_t counting;

static void trapped(int sig, siginfo_t *info, void *context)
{
	ucontext_t *u = context;

	(void)sig;
	(void)info;
	counted++;
	if (!counting)
		u->uc_mcontext.gregs[REG_EFL] &= ~(greg_t)TRAP;
}

static void count_begin(void)
{
	struct sigaction sa = {.sa_sigaction = trapped, .sa_flags = SA_SIGINFO};

	CHECK(!sigaction(SIGTRAP, &sa, NULL));
	counted = 0;
	counting = 1;
	__asm__ volatile("sub $128, %%rsp; pushf; orq %0, (%%rsp); popf; add $128, %%rsp" ::"i"(TRAP) : "memory", "cc");
}
static uint64_t count_end(void)
{
	counting = 0;
	__asm__ volatile("nop; nop" ::: "memory");
	return counted;
}
#else
static uint64_t touched_before;
static void count_begin(void)
{
	touched_before = touched;
}
static uint64_t count_end(void)
{
	return touched - touched_before;
}
#endif

static struct ibv_qp *queue(struct ibv_cq *cq, struct ibv_srq *srq, uint32_t flags)
{
	struct rig_qp_attr a = {.type = IBV_QPT_RC, .exp_flags = flags, .scq = cq, .rcq = cq, .srq = srq, .send_wr = 1,
				.recv_wr = srq ? 0 : 1, .sge = 1};
	struct ibv_qp *qp = rig_qp(&r, &a);

	rig_init(qp);
	return qp;
}

static void connect_both(struct ibv_qp *a, struct ibv_qp *b)
{
	rig_connect(a, b, &(struct rig_path){.timeout = 8, .retry_cnt = 7, .rnr_retry = 7, .min_rnr_timer = 1});
}

enum { FEW = 20, MANY = 20 * FEW };

/* Prints the steps of an operation among few and among many objects; fails if the second number is too large. */
static void compare(const char *what, uint64_t few, uint64_t many)
{
	printf("%-48s %7lu %7lu\n", what, (unsigned long)few, (unsigned long)many);
	if (many > few + few / 2 + 40)
		FAIL("%s: %lu steps among few, %lu among %d times as many", what, (unsigned long)few, (unsigned long)many,
		     MANY / FEW);
}

static void least(uint64_t *of, uint64_t took)
{
	*of = took < *of ? took : *of;
}

/* ---- lists ----------------------------------------------------------------------------------------------------------- */

static uint32_t listed(struct shca_user_qp **qp, uint32_t n)
{
	uint32_t found = 0;

	shca_for_each_qp(r.m, sh, r.m->slot) {
		bool known = false;
		for (uint32_t i = 0; i < n; i++)
			known |= qp[i] && qp[i]->sh == sh;
		if (!known)
			FAIL("a queue that is gone is listed");
		found++;
	}
	return found;
}

static void lists(void)
{
	struct shca_user_qp *qp[64] = {NULL};
	struct ibv_cq *cq = rig_cq(&r, 8, NULL);
	uint64_t rng = 1;
	uint32_t there = 0;

	for (int i = 0; i < 2000; i++) {
		uint32_t k = rig_below(&rng, 64);
		if (qp[k]) {
			CHECK(!shca_destroy_qp(&qp[k]->qp));
			qp[k] = NULL;
			there--;
		} else {
			qp[k] = shca_user_qp_of(queue(cq, NULL, rig_below(&rng, 2) ? IBV_EXP_QP_CREATE_CROSS_CHANNEL : 0));
			there++;
		}
		if (i % 16 == 0 && listed(qp, 64) != there)
			FAIL("%u queues are listed, there are %u", listed(qp, 64), there);
	}
	for (int k = 0; k < 64; k++)
		CHECK(!qp[k] || !shca_destroy_qp(&qp[k]->qp));
	CHECK(!listed(qp, 64) && !shca_destroy_cq(cq) && !r.m->cross_n);
}

/* ---- making and destroying ------------------------------------------------------------------------------------------- */

enum kind { QP, CQ, SRQ, KINDS };
static const char *const kind_name[KINDS] = {"queue", "completion queue", "shared receive queue"};

struct thing {
	struct ibv_qp *qp;
	struct ibv_cq *cq;
	struct ibv_srq *srq;
};

static void make(struct thing *t, enum kind kind, struct ibv_cq *cq)
{
	struct ibv_srq_init_attr srq = {.attr = {.max_wr = 4, .max_sge = 1}};

	if (kind == QP)
		t->qp = queue(cq, NULL, IBV_EXP_QP_CREATE_CROSS_CHANNEL);
	else if (kind == CQ)
		t->cq = rig_cq(&r, 8, NULL);
	else
		CHECK(t->srq = shca_create_srq(r.pd, &srq));
}

static void destroy(struct thing *t)
{
	CHECK(!(t->qp && shca_destroy_qp(t->qp)) && !(t->srq && shca_destroy_srq(t->srq)) && !(t->cq && shca_destroy_cq(t->cq)));
	memset(t, 0, sizeof(*t));
}

/* Makes one more object and destroys the oldest, among n. */
static void among(enum kind kind, int n, uint64_t *made, uint64_t *destroyed)
{
	static struct thing things[MANY + 2];
	struct ibv_cq *cq = rig_cq(&r, 8, NULL);

	for (int i = 0; i < n; i++)
		make(&things[i], kind, cq);
	/* the allocators of fabric and process now and then do more work: the minimum of several runs counts */
	*made = *destroyed = UINT64_MAX;
	for (int i = 0; i < 8; i++) {
		count_begin();
		make(&things[n], kind, cq);
		uint64_t took = count_end();
		*made = took < *made ? took : *made;
		count_begin();
		destroy(&things[i]);
		took = count_end();
		*destroyed = took < *destroyed ? took : *destroyed;
		things[i] = things[n];
		memset(&things[n], 0, sizeof(things[n]));
	}
	for (int i = 0; i < n; i++)
		destroy(&things[i]);
	CHECK(!shca_destroy_cq(cq));
}

static void objects(void)
{
	for (enum kind k = 0; k < KINDS; k++) {
		uint64_t made[2], destroyed[2];
		char what[80];
		among(k, FEW, &made[0], &destroyed[0]);
		among(k, MANY, &made[1], &destroyed[1]);
		snprintf(what, sizeof(what), "make a %s", kind_name[k]);
		compare(what, made[0], made[1]);
		snprintf(what, sizeof(what), "destroy a %s", kind_name[k]);
		compare(what, destroyed[0], destroyed[1]);
	}
}

/* ---- receives ----------------------------------------------------------------------------------------------------------- */

static void post(struct ibv_srq *srq, int n)
{
	struct ibv_recv_wr recv[MANY], *bad;

	for (int i = 0; i < n; i++)
		recv[i] = (struct ibv_recv_wr){.next = i + 1 < n ? &recv[i + 1] : NULL};
	CHECK(!shca_post_srq_recv(srq, recv, &bad));
}

/* Fails unless exactly the requests of senders first, first + 1, ... complete, n of them. */
static void come(struct ibv_cq *cq, uint64_t first, int n)
{
	struct ibv_wc wc;

	for (int i = 0; i < n; i++) {
		int got = shca_poll_cq(cq, 1, &wc);
		if (got != 1 || wc.status != IBV_WC_SUCCESS || wc.wr_id != first + (uint64_t)i)
			FAIL("sender %lu: %d completions, of sender %lu with status %d",
			     (unsigned long)first + (unsigned long)i, got, got ? (unsigned long)wc.wr_id : 0,
			     got ? wc.status : 0);
	}
	if (shca_poll_cq(cq, 1, &wc))
		FAIL("%d receives for more than %d senders: sender %lu, status %d", n, n, (unsigned long)wc.wr_id, wc.status);
}

/* n senders wait for receives of one SRQ. Counts the queues that posting a receive touches; each receive must go to the sender
 * that waits longest and can use it. */
static void stalled(int n, uint64_t *one, uint64_t *several)
{
	static struct ibv_qp *qp[MANY][2];
	struct ibv_srq_init_attr init = {.attr = {.max_wr = MANY, .max_sge = 1}};
	struct ibv_srq *srq = shca_create_srq(r.pd, &init);
	struct ibv_cq *scq = rig_cq(&r, 2 * MANY, NULL), *rcq = rig_cq(&r, 2 * MANY, NULL);
	struct ibv_wc wc;
	struct ibv_qp_attr error = {.qp_state = IBV_QPS_ERR};

	CHECK(srq);
	atomic_store(&hold, 1);
	for (int i = 0; i < n; i++) {
		qp[i][0] = queue(scq, NULL, 0);
		qp[i][1] = queue(rcq, srq, 0);
		connect_both(qp[i][0], qp[i][1]);
	}
	for (int i = 0; i < n; i++) {
		struct ibv_send_wr send = {.wr_id = (uint64_t)i, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED}, *bad;
		CHECK(!shca_post_send(qp[i][0], &send, &bad));
	}
	/* the helper thread's timers would give the receives to other senders */
	rig_await(&held, 1);
	post(srq, 1);
	come(scq, 0, 1);
	uint64_t before = touched;
	post(srq, 1);
	*one = touched - before;
	come(scq, 1, 1);
	before = touched;
	post(srq, 4);
	*several = touched - before;
	come(scq, 2, 4);
	/* the next two senders go to ERR and stay on the list: their receives must go to the third */
	atomic_store(&hold, 0);
	for (int i = 6; i < 8; i++) {
		CHECK(!shca_modify_qp(qp[i][0], &error, IBV_QP_STATE));
		CHECK(shca_poll_cq(scq, 1, &wc) == 1 && wc.status == IBV_WC_WR_FLUSH_ERR && wc.wr_id == (uint64_t)i);
	}
	atomic_store(&held, 0);
	atomic_store(&hold, 1);
	rig_await(&held, 1);
	post(srq, 1);
	CHECK(shca_poll_cq(scq, 1, &wc) == 1 && wc.status == IBV_WC_SUCCESS && !shca_poll_cq(scq, 1, &wc));
	atomic_store(&hold, 0);
	for (int i = 0; i < n; i++)
		CHECK(!shca_destroy_qp(qp[i][0]) && !shca_destroy_qp(qp[i][1]));
	CHECK(!shca_destroy_srq(srq) && !shca_destroy_cq(scq) && !shca_destroy_cq(rcq));
}

/* n senders wait for receives of one SRQ, and all but the last are destroyed. Returns the steps of one destruction; *all: queues
 * touched by all of them. The next receive must go to the last sender. */
static uint64_t stalled_go(int n, uint64_t *all)
{
	static struct ibv_qp *qp[MANY][2];
	struct ibv_srq_init_attr init = {.attr = {.max_wr = MANY, .max_sge = 1}};
	struct ibv_srq *srq = shca_create_srq(r.pd, &init);
	struct ibv_cq *scq = rig_cq(&r, 2 * MANY, NULL), *rcq = rig_cq(&r, 2 * MANY, NULL);
	uint64_t took = UINT64_MAX;

	CHECK(srq);
	for (int i = 0; i < n; i++) {
		struct ibv_send_wr send = {.wr_id = (uint64_t)i, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED}, *bad;
		qp[i][0] = queue(scq, NULL, 0);
		qp[i][1] = queue(rcq, srq, 0);
		connect_both(qp[i][0], qp[i][1]);
		CHECK(!shca_post_send(qp[i][0], &send, &bad));
	}
	uint64_t before = touched_here;
	for (int i = 0; i < n - 1; i++) {
		if (i < 8)
			count_begin();
		CHECK(!shca_destroy_qp(qp[i][0]));
		if (i < 8)
			least(&took, count_end());
	}
	*all = touched_here - before;
	post(srq, 1);
	come(scq, (uint64_t)n - 1, 1);
	for (int i = 0; i < n; i++)
		CHECK(!shca_destroy_qp(qp[i][1]));
	CHECK(!shca_destroy_qp(qp[n - 1][0]) && !shca_destroy_srq(srq) && !shca_destroy_cq(scq) && !shca_destroy_cq(rcq));
	return took;
}

static void stalled_senders_go(void)
{
	uint64_t all[2], few = stalled_go(FEW, &all[0]), many = stalled_go(MANY, &all[1]);

	compare("destroy a stalled sender beside others", few, many);
	printf("%-48s %7.1f %7.1f\n", "... queues touched for each", (double)all[0] / FEW, (double)all[1] / MANY);
	if (all[1] > 4 * MANY)
		FAIL("%d stalled senders go: %lu queues are touched", MANY, (unsigned long)all[1]);
}

static void wake(void)
{
	uint64_t one[2], several[2];

	stalled(FEW, &one[0], &several[0]);
	stalled(MANY, &one[1], &several[1]);
	compare("a receive beside stalled senders: queues", one[0], one[1]);
	compare("four receives: queues", several[0], several[1]);
	if (one[1] > 4 || several[1] > 16)
		FAIL("a receive for one of many senders touched %lu queues, four for four %lu", (unsigned long)one[1],
		     (unsigned long)several[1]);
}

/* Deregisters a region into which receives are posted, which cannot be read meanwhile: ibv_dereg_mr must not look at receives. A
 * message that takes one of them fails, and the memory is unchanged. */
static void deregister(int n, uint64_t *took)
{
	struct ibv_srq_init_attr init = {.attr = {.max_wr = 1024, .max_sge = 1}};
	struct ibv_srq *srq = shca_create_srq(r.pd, &init);
	struct ibv_cq *cq = rig_cq(&r, 16, NULL);
	struct ibv_qp *a = queue(cq, NULL, 0), *b = queue(cq, srq, 0);
	char *mem = shca_buf_alloc(r.ctx, 4096), text[8] = "message";
	struct ibv_mr *mr = shca_reg_mr(r.pd, mem, 4096, (uintptr_t)mem, IBV_ACCESS_LOCAL_WRITE), *other;
	struct ibv_sge sge = {(uintptr_t)mem, 64, mr->lkey}, out = {(uintptr_t)text, 8, 0};
	struct ibv_recv_wr recv = {.sg_list = &sge, .num_sge = 1}, *bad_recv;
	struct ibv_send_wr send = {.sg_list = &out, .num_sge = 1, .opcode = IBV_WR_SEND,
				   .send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE}, *bad;
	struct ibv_wc wc;
	int there = 0;

	CHECK(srq && mem && mr);
	connect_both(a, b);
	for (int i = 0; i < n; i++)
		CHECK(!shca_post_srq_recv(srq, &recv, &bad_recv));
	/* deregistering another region changes nothing */
	CHECK((other = shca_reg_mr(r.pd, mem, 4096, (uintptr_t)mem, 0)) && !shca_dereg_mr(other));
	CHECK(!shca_post_send(a, &send, &bad));
	while (there < 2 && shca_poll_cq(cq, 1, &wc) == 1 && wc.status == IBV_WC_SUCCESS)
		there++;
	CHECK(there == 2 && !memcmp(mem, text, 8));
	struct shca_user_srq *u = (struct shca_user_srq *)srq;
	void *receives = shca_at(r.m->base, u->rq.sh->wqes);
	size_t bytes = (size_t)u->rq.size * u->rq.sh->stride;
	CHECK(!((uintptr_t)receives & 4095) && !mprotect(receives, bytes, PROT_NONE));
	count_begin();
	int err = shca_dereg_mr(mr);
	*took = count_end();
	CHECK(!err && !mprotect(receives, bytes, PROT_READ | PROT_WRITE));
	memset(mem, 0, 64);
	CHECK(!shca_post_send(a, &send, &bad));
	there = 0;
	while (there < 2 && shca_poll_cq(cq, 1, &wc) == 1) {
		if (wc.status != (wc.opcode & IBV_WC_RECV ? IBV_WC_LOC_PROT_ERR : IBV_WC_REM_OP_ERR))
			FAIL("a receive whose region is gone: opcode %d, status %d", wc.opcode, wc.status);
		there++;
	}
	CHECK(there == 2 && !mem[0]);
	CHECK(!shca_destroy_qp(a) && !shca_destroy_qp(b) && !shca_destroy_srq(srq) && !shca_destroy_cq(cq));
	CHECK(!shca_buf_free(r.ctx, mem));
}

/* ---- completions --------------------------------------------------------------------------------------------------------- */

/* n queues have waited for a completion of a CQ. Returns the steps of a completion after that. */
static uint64_t once_waited_on(int n)
{
	static struct ibv_qp *qp[MANY];
	struct ibv_cq *cq = rig_cq(&r, 64, NULL), *own = rig_cq(&r, 2 * MANY, NULL);
	struct ibv_qp *nop = queue(cq, NULL, IBV_EXP_QP_CREATE_CROSS_CHANNEL), *peer = queue(own, NULL, 0);
	struct ibv_exp_send_wr done = {.exp_opcode = IBV_EXP_WR_NOP, .exp_send_flags = IBV_EXP_SEND_SIGNALED}, *bad;
	struct ibv_exp_send_wr wait = {.wr_id = 1, .exp_opcode = IBV_EXP_WR_CQE_WAIT, .exp_send_flags = IBV_EXP_SEND_SIGNALED,
				       .task.cqe_wait = {.cq = cq, .cq_count = 1}};
	struct ibv_wc wc;
	uint64_t least = UINT64_MAX;

	connect_both(nop, peer);
	for (int i = 0; i < n; i++) {
		struct rig_path p = {.dest_qpn = peer->qp_num};
		qp[i] = queue(own, NULL, IBV_EXP_QP_CREATE_CROSS_CHANNEL);
		rig_rtr(qp[i], &p);
		rig_rts(qp[i], &p);
		CHECK(!shca_exp_post_send(qp[i], &wait, &bad));
	}
	CHECK(!shca_poll_cq(own, 1, &wc));
	for (int i = 0; i < 8; i++) {
		count_begin();
		CHECK(!shca_exp_post_send(nop, &done, &bad));
		uint64_t took = count_end();
		least = took < least ? took : least;
		CHECK(shca_poll_cq(cq, 1, &wc) == 1 && wc.status == IBV_WC_SUCCESS);
		/* all queues waited for the first completion */
		for (int k = 0; !i && k < n; k++)
			CHECK(shca_poll_cq(own, 1, &wc) == 1 && wc.status == IBV_WC_SUCCESS);
	}
	for (int i = 0; i < n; i++)
		CHECK(!shca_destroy_qp(qp[i]));
	CHECK(!shca_destroy_qp(nop) && !shca_destroy_qp(peer) && !shca_destroy_cq(cq) && !shca_destroy_cq(own));
	return least;
}

/* n queues wait for completions of a CQ that come later, each for another one. Steps of a completion meanwhile, of one
 * more WAIT, and of destroying a queue that waits. Then completions come up to the middle: each must run the queue that
 * waits for it, and no other. */
struct waiting {
	uint64_t completion, wait, gone;
};

static void waited_on(int n, struct waiting *w)
{
	static struct ibv_qp *qp[MANY];
	enum { TIMES = 8 };
	struct ibv_cq *cq = rig_cq(&r, 64, NULL), *own = rig_cq(&r, 2 * MANY, NULL);
	struct ibv_qp *nop = queue(cq, NULL, IBV_EXP_QP_CREATE_CROSS_CHANNEL), *peer = queue(own, NULL, 0);
	struct ibv_exp_send_wr done = {.exp_opcode = IBV_EXP_WR_NOP, .exp_send_flags = IBV_EXP_SEND_SIGNALED}, *bad;
	struct ibv_exp_send_wr wait = {.exp_opcode = IBV_EXP_WR_CQE_WAIT, .exp_send_flags = IBV_EXP_SEND_SIGNALED};
	struct ibv_wc wc;

	*w = (struct waiting){UINT64_MAX, UINT64_MAX, UINT64_MAX};
	connect_both(nop, peer);
	for (int i = 0; i < n; i++) {
		struct rig_path p = {.dest_qpn = peer->qp_num};
		qp[i] = queue(own, NULL, IBV_EXP_QP_CREATE_CROSS_CHANNEL);
		rig_rtr(qp[i], &p);
		rig_rts(qp[i], &p);
		wait.wr_id = (uint64_t)i;
		wait.task.cqe_wait.cq = cq;
		wait.task.cqe_wait.cq_count = TIMES + 1 + (n - 1 - i);
		bool counts = i >= n - TIMES;
		if (counts)
			count_begin();
		CHECK(!shca_exp_post_send(qp[i], &wait, &bad));
		if (counts)
			least(&w->wait, count_end());
	}
	for (int i = 0; i < TIMES; i++) {
		count_begin();
		CHECK(!shca_exp_post_send(nop, &done, &bad));
		least(&w->completion, count_end());
		CHECK(shca_poll_cq(cq, 1, &wc) == 1 && wc.status == IBV_WC_SUCCESS && !shca_poll_cq(own, 1, &wc));
	}
	for (int i = n - 1; i >= n / 2; i--) {
		CHECK(!shca_exp_post_send(nop, &done, &bad) && shca_poll_cq(cq, 1, &wc) == 1);
		if (shca_poll_cq(own, 1, &wc) != 1 || wc.wr_id != (uint64_t)i || wc.status != IBV_WC_SUCCESS ||
		    shca_poll_cq(own, 1, &wc))
			FAIL("completion %d is for queue %d: queue %d runs, or more than that", TIMES + n - i, i, (int)wc.wr_id);
	}
	for (int i = 0; i < n; i++) {
		bool counts = i < TIMES;
		if (counts)
			count_begin();
		int err = shca_destroy_qp(qp[i]);
		if (counts)
			least(&w->gone, count_end());
		CHECK(!err);
	}
	CHECK(!shca_destroy_qp(nop) && !shca_destroy_qp(peer) && !shca_destroy_cq(cq) && !shca_destroy_cq(own));
}

static void later(void)
{
	struct waiting few, many;

	waited_on(FEW, &few);
	waited_on(MANY, &many);
	compare("a completion where queues wait for later ones", few.completion, many.completion);
	compare("a WAIT beside others", few.wait, many.wait);
	compare("destroy a queue that waits", few.gone, many.gone);
}

/* ---- timers ------------------------------------------------------------------------------------------------------------ */

/* n queues have a peer that does not respond, and a timer each. Returns the steps of one more such queue. */
static uint64_t timers(int n)
{
	static struct ibv_qp *qp[MANY + 8];
	struct ibv_cq *cq = rig_cq(&r, 2 * MANY, NULL);
	struct ibv_qp *gone = queue(cq, NULL, 0);
	struct ibv_send_wr send = {.opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED}, *bad;
	uint64_t took = UINT64_MAX;

	atomic_store(&held, 0);
	atomic_store(&hold, 1);
	for (int i = 0; i < n + 8; i++) {
		struct rig_path p = {.dest_qpn = gone->qp_num, .timeout = 20, .retry_cnt = 7, .rnr_retry = 7, .min_rnr_timer = 1};
		qp[i] = queue(cq, NULL, 0);
		rig_rtr(qp[i], &p);
		rig_rts(qp[i], &p);
		if (i >= n)
			count_begin();
		CHECK(!shca_post_send(qp[i], &send, &bad));
		if (i >= n)
			least(&took, count_end());
	}
	atomic_store(&hold, 0);
	for (int i = 0; i < n + 8; i++)
		CHECK(!shca_destroy_qp(qp[i]));
	CHECK(!shca_destroy_qp(gone) && !shca_destroy_cq(cq));
	return took;
}

static void armed(void)
{
	uint64_t few = timers(FEW), many = timers(MANY);

	compare("a timer beside others", few, many);
}

static void regions(void)
{
	uint64_t few, many;

	deregister(FEW, &few);
	deregister(MANY, &many);
	compare("deregister beside receives", few, many);
}

/* ---- memory ----------------------------------------------------------------------------------------------------------- */

enum { QUEUES = 128, DEPTH = 1024 };

/* Returns KiB of the fabric for each of QUEUES more queues of depth DEPTH. */
static double footprint(uint32_t before)
{
	return (double)(rig_chunks(r.m, r.m->slot) - before) * (SHCA_CHUNK / 1024.0) / QUEUES;
}

static void memory(void)
{
	struct rig_qp_attr a = {
		.type = IBV_QPT_RC, .exp_flags = IBV_EXP_QP_CREATE_CROSS_CHANNEL, .send_wr = DEPTH, .recv_wr = DEPTH, .sge = 1};
	struct ibv_qp *qp[QUEUES];
	struct ibv_cq *cq = rig_cq(&r, 16, NULL);
	struct ibv_recv_wr recv = {.wr_id = 1}, *bad_recv;
	struct ibv_exp_send_wr nop = {.exp_opcode = IBV_EXP_WR_NOP}, *bad;
	uint32_t before = rig_chunks(r.m, r.m->slot);

	a.scq = a.rcq = cq;
	for (int i = 0; i < QUEUES; i++) {
		qp[i] = rig_qp(&r, &a);
		rig_init(qp[i]);
	}
	double idle = footprint(before);
	for (int i = 0; i < QUEUES; i += 2)
		connect_both(qp[i], qp[i + 1]);
	for (int i = 0; i < QUEUES; i++)
		CHECK(!shca_post_recv(qp[i], &recv, &bad_recv) && !shca_exp_post_send(qp[i], &nop, &bad));
	double used = footprint(before);
	/* requests and receives of one segment each, and their completions */
	double asked = DEPTH * (double)(128 + 64 + 2 * sizeof(struct shca_cqe)) / 1024;
	printf("a queue of depth %d: %.1f KiB idle, %.1f KiB in use, %.1f asked for\n", DEPTH, idle, used, asked);
	if (idle > 4 || used > 1.25 * asked)
		FAIL("a queue of depth %d: %.1f KiB idle, %.1f KiB in use, %.1f asked for", DEPTH, idle, used, asked);
	for (int i = 0; i < QUEUES; i++)
		CHECK(!shca_destroy_qp(qp[i]));
	CHECK(!shca_destroy_cq(cq));
}

int main(void)
{
	alarm(200);
	setvbuf(stdout, NULL, _IOLBF, 0);
	rig_virtual(&r, NULL);
	lists();
	memory();
	objects();
	wake();
	stalled_senders_go();
	regions();
	uint64_t few = once_waited_on(FEW), many = once_waited_on(MANY);
	compare("a completion where queues have waited", few, many);
	later();
	armed();
	rig_virtual_leave(&r);
	return 0;
}
