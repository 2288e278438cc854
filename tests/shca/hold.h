/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Three virtual processes of one fabric, and threads of them that are held at one point of the engine. For tests of one source
 * file. A test that does more at a failpoint defines HOLD_OWN_FAILPOINT, and shca_failpoint, which calls hold_here.
 */
#ifndef TESTS_SHCA_HOLD_H
#define TESTS_SHCA_HOLD_H

#include <pthread.h>
#include <string.h>

#include "rig.h"

static struct hold {
	const struct shca_member *_Atomic m;	/* threads of this process are held; NULL: none */
	const char *at;				/* the failpoint */
	int after;				/* how many times the failpoint is passed first */
	_Atomic uint32_t held;
} hold, second;					/* two holds at a time */

static inline void hold_here(struct hold *h, const struct shca_thread *thr, const char *name)
{
	if (!thr || thr->m != atomic_load(&h->m) || strcmp(name, h->at) || h->after-- > 0)
		return;
	atomic_store(&h->held, 1);
	while (thr->m == atomic_load(&h->m))
		rig_nap();
}

#ifndef HOLD_OWN_FAILPOINT
void shca_failpoint(struct shca_thread *thr, const char *name, const struct shca_qp *qp, int op)
{
	(void)qp;
	(void)op;
	hold_here(&hold, thr, name);
	hold_here(&second, thr, name);
}
#endif

static inline void hold_one_at(struct hold *h, const struct rig *r, const char *at)
{
	h->at = at;
	h->after = 0;
	atomic_store(&h->held, 0);
	atomic_store(&h->m, r->m);
}

static inline void hold_at(const struct rig *r, const char *at)
{
	hold_one_at(&hold, r, at);
}

static inline void let_go(void)
{
	atomic_store(&hold.m, NULL);
}

static inline pthread_t begin(void *(*f)(void *), void *arg)
{
	pthread_t t;

	CHECK(!pthread_create(&t, NULL, f, arg));
	return t;
}

static inline void joined(pthread_t t)
{
	CHECK(!pthread_join(t, NULL));
}

static struct rig a, b, c;		/* virtual processes of one fabric */

static inline void set_up(void)
{
	rig_virtual(&a, NULL);
	rig_virtual(&b, &a);
	rig_virtual(&c, &a);
}

static inline uint32_t state_of(uint32_t slot)
{
	return atomic_load(&a.m->procs[slot].state) & 255;
}

static inline void connect_both(struct ibv_qp *p, struct ibv_qp *q)
{
	struct ibv_qp *end[2] = {p, q};

	for (int i = 0; i < 2; i++) {
		struct rig_path path = {
			.dest_qpn = end[!i]->qp_num, .timeout = 8, .retry_cnt = 7, .rnr_retry = 7, .min_rnr_timer = 1};
		rig_rtr(end[i], &path);
		rig_rts(end[i], &path);
	}
}

/* A thread of `by` kicks a queue of any process and executes the queue as far as possible. */
static inline void run_queue(const struct rig *by, struct ibv_qp *qp)
{
	struct shca_thread *thr = shca_thread_get(by->m);

	shca_enter(thr);
	shca_kick(thr, shca_user_qp_of(qp)->off);
	shca_drain(thr);
	shca_leave(thr);
}

/* Thread function: b executes the queue. */
static inline void *runs(void *qp)
{
	run_queue(&b, qp);
	return NULL;
}

static inline enum ibv_wc_status completion(struct ibv_cq *cq)
{
	struct ibv_wc wc;

	for (int i = 0; shca_poll_cq(cq, 1, &wc) != 1; i++, rig_nap())
		if (i > 20000)
			FAIL("a request does not complete");
	return wc.status;
}

static inline void *reaps(void *arg)
{
	struct rig *const *who = arg;		/* the reaper; the dead process */

	shca_reap(shca_thread_get(who[0]->m), who[1]->m->slot);
	return NULL;
}

/* Returns when the reaper of c is held, or has freed the slot of c. */
static inline void held_or_reaped(void)
{
	for (int i = 0; !atomic_load(&hold.held) && state_of(c.m->slot) != SHCA_PROC_FREE; i++, rig_nap())
		if (i > 20000)
			FAIL("nobody cleans up after a dead process");
}

static inline void *resets(void *arg)
{
	struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET};

	CHECK(!shca_modify_qp(arg, &reset, IBV_QP_STATE));
	return NULL;
}

/* The reset of a's queue has stopped the queue when the death of its peer c is noticed, and completes while the reaper is
 * about to mark the queue. */
static inline void told_while_it_resets(struct ibv_qp *qp)
{
	struct rig *who[2] = {&a, &c};

	hold_one_at(&second, &a, "reset-stopped");
	pthread_t resetter = begin(resets, qp);
	rig_await(&second.held, 1);
	hold_at(&a, "survivor");
	shca_engine_kill(c.m);
	pthread_t reaper = begin(reaps, who);
	held_or_reaped();
	atomic_store(&second.m, NULL);
	/* shca_modify_qp need not return before the reaper has left the queue, so this looks at the state */
	for (int i = 0; atomic_load(&rig_sh(qp)->qp_state) != IBV_QPS_RESET; i++, rig_nap())
		CHECK(i < 20000);
	let_go();
	joined(resetter);
	joined(reaper);
}

#endif
