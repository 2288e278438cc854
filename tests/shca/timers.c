/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Timers of queues, as many as possible: none is lost. The helper thread's work for one timer does not depend on the number of
 * other timers; nor does the time that the helper thread stays inside the engine, for which a thread that destroys an object may
 * have to wait. Both are counted in timers that the helper thread looks at ("timer-noted").
 */
#include <stdio.h>
#include <stdlib.h>

#include "rig.h"

static _Atomic bool hold_helper;	/* at "helper-tick" */
static _Atomic uint32_t held;
static _Atomic uint32_t noted, noted_inside, most_inside;	/* timers looked at: in all; since the helper thread entered the
								 * engine; most in one stay */

void shca_failpoint(struct shca_thread *thr, const char *name, const struct shca_qp *qp, int op)
{
	static uint32_t inside;

	(void)qp;
	(void)op;
	if (!strcmp(name, "helper-tick"))
		while (atomic_load(&hold_helper)) {
			atomic_store(&held, 1);
			rig_nap();
		}
	if (strcmp(name, "timer-noted"))
		return;
	/* written by the helper thread alone; identifies the present stay inside the engine */
	uint32_t stay = (uint32_t)atomic_load(&thr->t->active);
	if (stay != inside)
		atomic_store(&noted_inside, 0);
	inside = stay;
	atomic_fetch_add(&noted, 1);
	uint32_t n = atomic_fetch_add(&noted_inside, 1) + 1;
	if (n > atomic_load(&most_inside))
		atomic_store(&most_inside, n);
}

static struct rig r;
static struct ibv_cq *cq;

static struct ibv_qp *queue(void)
{
	struct rig_qp_attr a = {.type = IBV_QPT_RC, .scq = cq, .rcq = cq, .send_wr = 1, .recv_wr = 1, .sge = 1};
	struct ibv_qp *qp = rig_qp(&r, &a);

	rig_init(qp);
	return qp;
}

static void set_up(int entries)
{
	rig_virtual(&r, NULL);
	cq = rig_cq(&r, entries, NULL);
	CHECK(!shca_helper_start(r.m));
}

static void hold(void)
{
	atomic_store(&held, 0);
	atomic_store(&hold_helper, true);
	shca_helper_call(r.m, r.m->slot);
	rig_await(&held, 1);
}

static void let_go(void)
{
	atomic_store(&hold_helper, false);
}

/* Queues of several segments of numbers stall while the helper thread is busy. */
static void none_lost(void)
{
	enum { QUEUES = 2 * SHCA_QP_SEG };
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED}, *bad;
	static struct ibv_qp *a[QUEUES], *b[QUEUES];
	struct rig_path p = {.timeout = 8, .retry_cnt = 7, .rnr_retry = 1, .min_rnr_timer = 1};
	struct ibv_wc wc;
	int n = 0;

	set_up(2 * QUEUES);
	for (int i = 0; i < QUEUES; i++) {
		a[i] = queue();
		b[i] = queue();
		p.dest_qpn = b[i]->qp_num;
		rig_rtr(a[i], &p);
		rig_rts(a[i], &p);
		p.dest_qpn = a[i]->qp_num;
		rig_rtr(b[i], &p);
	}
	hold();
	for (int i = 0; i < QUEUES; i++)
		CHECK(!shca_post_send(a[i], &wr, &bad));
	let_go();
	for (int i = 0; n < QUEUES && i < 10000; rig_nap(), i++)
		while (shca_poll_cq(cq, 1, &wc) == 1 && ++n)
			if (wc.status != IBV_WC_RNR_RETRY_EXC_ERR)
				FAIL("completion %d: %s", n, ibv_wc_status_str(wc.status));
	if (n < QUEUES)
		FAIL("%d of %d queues came to the end of their retries", n, QUEUES);
}

/* The helper thread has looked at all that are due now, and sleeps. */
static void settle(struct ibv_qp **qp, int n)
{
	uint32_t before;

	for (int i = 0; i < n; i++)
		for (int naps = 0; atomic_load(&rig_sh(qp[i])->due); naps++, rig_nap())
			if (naps > 20000)
				FAIL("queue %d's time does not come", i);
	do {
		before = atomic_load(&noted);
		for (int i = 0; i < 20; i++)
			rig_nap();
	} while (before != atomic_load(&noted));
}

/* The timers of FEW queues expire while n other queues have a timer that is far off. Returns the number of timers that the helper
 * thread looks at. */
enum { FEW = 60, MANY = 1000 };
static struct ibv_qp *some[FEW], *others[MANY];

static uint32_t looked_at(int n)
{
	uint64_t now = monotonic_ns();

	for (int i = 0; i < n; i++)
		shca_timer_add(r.m, rig_sh(others[i]), now + 1000000000000);
	/* the helper thread has taken these timers; timers far off did not wake that thread */
	hold();
	let_go();
	settle(NULL, 0);
	hold();
	uint32_t before = atomic_load(&noted);
	for (int i = 0; i < FEW; i++)
		shca_timer_add(r.m, rig_sh(some[i]), now + 1);
	let_go();
	settle(some, FEW);
	return atomic_load(&noted) - before;
}

static void make(void)
{
	set_up(8);
	for (int i = 0; i < FEW; i++)
		some[i] = queue();
	for (int i = 0; i < MANY; i++)
		others[i] = queue();
}

static void beside_others(void)
{
	make();
	uint32_t few = looked_at(0), many = looked_at(MANY);

	printf("%d timers beside none: %u looked at; beside %d: %u\n", FEW, few, MANY, many);
	if (few < FEW || many < FEW)
		FAIL("of %d timers %u and %u were looked at", FEW, few, many);
	if (few > 2 * FEW || many > 2 * FEW)
		FAIL("for %d timers %u were looked at beside none, %u beside %d others", FEW, few, many, MANY);
}

/* All times of many queues come at once. */
static void bounded_inside(void)
{
	make();
	hold();
	for (int i = 0; i < MANY; i++)
		shca_timer_add(r.m, rig_sh(others[i]), monotonic_ns() + 1);
	let_go();
	settle(others, MANY);
	printf("%u timers, at most %u of them without leaving the engine\n", atomic_load(&noted), atomic_load(&most_inside));
	if (atomic_load(&most_inside) > 64)
		FAIL("the helper thread looks at %u timers without leaving the engine", atomic_load(&most_inside));
}

/* A queue with a number of another process, or of none, gets no timer, and nothing is written at that number (I7). */
static void strange_number(void)
{
	static struct rig other;

	make();
	struct shca_qp *sh = rig_sh(some[0]);
	uint32_t own = sh->qpn;
	rig_virtual(&other, &r);
	struct rig_qp_attr a = {
		.type = IBV_QPT_RC, .scq = rig_cq(&other, 8, NULL), .rcq = NULL, .send_wr = 1, .recv_wr = 1, .sge = 1};
	a.rcq = a.scq;
	sh->qpn = rig_qp(&other, &a)->qp_num;
	const struct shca_numbers *its = shca_numbers_of(r.m, sh->qpn / SHCA_QP_SEG, other.m->slot);
	CHECK(its);
	hold();
	shca_timer_add(r.m, sh, monotonic_ns() + 1);
	for (size_t i = 0; i < ARRAY_SIZE(its->timers); i++)
		if (atomic_load(&its->timers[i]))
			FAIL("a queue that names another process's number has set a timer there");
	let_go();

	for (uint64_t rng = 1, i = 0; i < 1000; i++) {
		sh->qpn = (uint32_t)rig_rand(&rng);
		atomic_store(&sh->due, 0);
		shca_timer_add(r.m, sh, monotonic_ns() + 1);
	}
	sh->qpn = own;
	atomic_store(&sh->due, 0);
	shca_timer_add(r.m, sh, monotonic_ns() + 1);
	settle(some, 1);
}

static const struct rig_case cases[] = {
	{"none-lost", none_lost}, {"beside-others", beside_others}, {"bounded-inside", bounded_inside},
	{"strange-number", strange_number},
};

int main(int argc, char **argv)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	return rig_cases(argc, argv, cases, ARRAY_SIZE(cases), NULL);
}
