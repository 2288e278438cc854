/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Queues that wait for a receive, on the list of stalled queues of the receive queue, when they are destroyed, their
 * process ends, or another thread has taken the list. Threads are held at failpoints. No timer runs the queues: the
 * thread that has taken one must.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "rig.h"

/* The failpoints at which a thread is held, one after the other. */
struct hold {
	const char *at[3];
	_Atomic uint32_t reached, passed;
};
static _Thread_local struct hold *held;

void shca_failpoint(struct shca_thread *thr, const char *name, const struct shca_qp *qp, int op)
{
	struct hold *h = held;

	(void)thr;
	(void)qp;
	(void)op;
	uint32_t n = h ? atomic_load(&h->reached) : 0;
	if (!h || !h->at[n] || strcmp(name, h->at[n]))
		return;
	atomic_store(&h->reached, n + 1);
	rig_await(&h->passed, n + 1);
}

static void let_go(struct hold *h)
{
	atomic_fetch_add(&h->passed, 1);
}

/* ---- the stage: senders that are stalled on one SRQ -------------------------------------------------------------------- */

enum { SENDERS = 4 };
static struct rig r;
static struct ibv_cq *cq, *rcq;
static struct ibv_srq *srq;
static struct shca_rq *rq;
static struct ibv_qp *sender[SENDERS], *receiver[SENDERS];

static struct ibv_qp *queue(struct rig *of, struct ibv_cq *to, struct ibv_srq *from)
{
	struct rig_qp_attr a = {
		.type = IBV_QPT_RC, .scq = to, .rcq = to, .srq = from, .send_wr = 4, .recv_wr = from ? 0 : 1, .sge = 1};
	struct ibv_qp *qp = rig_qp(of, &a);

	rig_init(qp);
	return qp;
}

static void connect_to(struct ibv_qp *qp, struct ibv_qp *to)
{
	struct rig_path p = {.dest_qpn = to->qp_num, .timeout = 8, .retry_cnt = 7, .rnr_retry = 7, .min_rnr_timer = 1};

	rig_rtr(qp, &p);
	rig_rts(qp, &p);
}

static struct shca_qp *shared(int i)
{
	return rig_sh(sender[i]);
}

/* The helper thread may be executing the queue at this moment, and set another timer. */
static void no_timer(struct shca_qp *qp)
{
	for (int quiet = 0; quiet < 20; rig_nap())
		quiet = atomic_exchange(&qp->due, 0) ? 0 : quiet + 1;
}

static void sends(int i)
{
	struct ibv_send_wr wr = {.wr_id = (uint64_t)i, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED}, *bad;

	CHECK(!shca_post_send(sender[i], &wr, &bad));
}

static void stalls(int i)
{
	sends(i);
	no_timer(shared(i));
	CHECK(atomic_load(&shared(i)->rnr_linked) & 1);
}

static void set_up(void)
{
	struct ibv_srq_init_attr init = {.attr = {.max_wr = 16, .max_sge = 1}};

	rig_virtual(&r, NULL);
	cq = rig_cq(&r, 64, NULL);
	rcq = rig_cq(&r, 64, NULL);
	CHECK(srq = shca_create_srq(r.pd, &init));
	rq = shca_user_srq_of(srq)->rq.sh;
	for (int i = 0; i < SENDERS; i++) {
		sender[i] = queue(&r, cq, NULL);
		receiver[i] = queue(&r, rcq, srq);
		connect_to(sender[i], receiver[i]);
		connect_to(receiver[i], sender[i]);
	}
}

static void receives(int n)
{
	struct ibv_recv_wr wr = {.num_sge = 0}, *bad;

	while (n--)
		CHECK(!shca_post_srq_recv(srq, &wr, &bad));
}

/* Fails unless the message of sender i has got a receive, and no other one. */
static void served(int i)
{
	struct ibv_wc wc = {0};
	int n = shca_poll_cq(cq, 1, &wc);

	if (n != 1 || wc.wr_id != (uint64_t)i || wc.status != IBV_WC_SUCCESS)
		FAIL("sender %d has no receive: %d completions, of sender %d with status %d", i, n, (int)wc.wr_id, wc.status);
}

static bool on_list(struct shca_qp *qp)
{
	shca_off first[2] = {atomic_load(&rq->rnr), atomic_load(&rq->rnr_turn.first)};

	for (int i = 0; i < 2; i++)
		for (shca_off off = first[i]; off; off = atomic_load(&((struct shca_qp *)shca_at(r.m->base, off))->rnr_next))
			if (shca_at(r.m->base, off) == qp)
				return true;
	return false;
}

static uint32_t zombies(void)
{
	return r.node->zombies.n;
}

/* ---- they go ---------------------------------------------------------------------------------------------------------- */

/* Destroyed queues are skipped, at any place of the list, and k receives go to k existing queues. The memory of a destroyed queue
 * (zombie) is freed when no list has it. */
static void some_go(void)
{
	set_up();
	for (int i = 0; i < SENDERS; i++)
		stalls(i);
	struct shca_qp *first = shared(0), *third = shared(2);
	uint32_t number = first->qpn;
	CHECK(!shca_destroy_qp(sender[0]) && !shca_destroy_qp(sender[2]));
	if (!on_list(first) || !on_list(third) || zombies() != 2)
		FAIL("of queues that are gone, %u are zombies, not 2", zombies());
	if (shca_number_get(r.m, number, SHCA_KIND_QP))
		FAIL("a queue that is gone is found by its number");
	receives(1);
	served(1);
	receives(1);
	served(3);
	if (on_list(first) || on_list(third))
		FAIL("a queue that is gone still stands on the list");
	CHECK(!shca_destroy_qp(sender[1]));
	if (zombies())
		FAIL("%u zombies are left that stand nowhere", zombies());
}

/* The first queue is taken off the list, and destroyed before running: the receive goes to the second queue. */
static void *wakes(void *arg)
{
	held = arg;
	receives(1);
	return NULL;
}

static void *goes(void *arg)
{
	CHECK(!shca_destroy_qp(arg));
	return NULL;
}

static void woken_goes(void)
{
	struct hold waker = {.at = {"rnr-woken"}};
	pthread_t t, u;

	set_up();
	stalls(0);
	stalls(1);
	struct shca_qp *first = shared(0);
	CHECK(!pthread_create(&t, NULL, wakes, &waker));
	rig_await(&waker.reached, 1);
	CHECK(!pthread_create(&u, NULL, goes, sender[0]));
	/* the destroying thread has the lock, and waits until the waking thread has left the engine */
	for (int i = 0; (atomic_load(&first->lock) & 3) != SHCA_L_RUN; i++, rig_nap())
		if (i > 20000)
			FAIL("nobody destroys the queue");
	let_go(&waker);
	CHECK(!pthread_join(t, NULL) && !pthread_join(u, NULL));
	served(1);
}

/* A queue that is reset stays on the list and is skipped. When used again, that queue can stall again. */
static void reset_goes(void)
{
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_RESET};

	set_up();
	stalls(0);
	stalls(1);
	CHECK(!shca_modify_qp(sender[0], &a, IBV_QP_STATE));
	if (!on_list(shared(0)))
		FAIL("a queue that is reset empties the list of all that wait");
	receives(1);
	served(1);
	rig_init(sender[0]);
	connect_to(sender[0], receiver[0]);
	stalls(0);
	receives(1);
	served(0);
}

/* More zombies than may stay: their lists are emptied, and the existing queues are put back. */
static void many_go(void)
{
	enum { MANY = 200 };
	static struct ibv_qp *qp[MANY];
	uint32_t most = 0;

	set_up();
	stalls(0);
	for (int i = 0; i < MANY; i++) {
		struct ibv_send_wr wr = {.opcode = IBV_WR_SEND}, *bad;
		qp[i] = queue(&r, cq, NULL);
		struct ibv_qp *to = queue(&r, rcq, srq);
		connect_to(qp[i], to);
		connect_to(to, qp[i]);
		CHECK(!shca_post_send(qp[i], &wr, &bad));
	}
	for (int i = 0; i < MANY; i++) {
		CHECK(!shca_destroy_qp(qp[i]));
		most = zombies() > most ? zombies() : most;
	}
	/* the first time there are 64 zombies, the next time as many as queues stood beside these */
	if (most < 64 || most > MANY - 64 + 1)
		FAIL("of %d queues that went, %u were zombies at a time", MANY, most);
	no_timer(shared(0));
	receives(1);
	served(0);
}

/*
 * A thread is reversing the list when zombies are removed from it: the queues that this thread puts back are looked at again,
 * and queues that another thread took from there are waited for.
 */
static struct hold turner = {.at = {"rnr-turn", "rnr-turned"}}, taker = {.at = {"rnr-list"}};
static _Atomic uint32_t cleared;

static void *takes(void *arg)
{
	struct shca_thread *thr = shca_thread_get(r.m);

	held = arg;
	shca_enter(thr);
	shca_recv_kick(thr, rq);
	shca_drain(thr);
	shca_leave(thr);
	return NULL;
}

static void *clears(void *arg)
{
	(void)arg;
	shca_zombies_clear(shca_thread_get(r.m), r.node);
	atomic_store(&cleared, 1);
	return NULL;
}

static void turned(bool taken)
{
	pthread_t t, c, k;

	set_up();
	for (int i = 0; i < 3; i++)
		stalls(i);
	struct shca_qp *second = shared(1);
	uint32_t link = atomic_load(&second->rnr_linked);
	CHECK(!shca_destroy_qp(sender[1]));
	CHECK(!pthread_create(&t, NULL, wakes, &turner));
	rig_await(&turner.reached, 1);
	CHECK(!pthread_create(&c, NULL, clears, NULL));
	/* until the emptying thread waits for all threads to leave the engine; no failpoint reports that */
	for (int i = 0; i < 100; i++)
		rig_nap();
	let_go(&turner);
	rig_await(&turner.reached, 2);
	if (taken) {
		CHECK(!pthread_create(&k, NULL, takes, &taker));
		rig_await(&taker.reached, 1);
	}
	let_go(&turner);
	CHECK(!pthread_join(t, NULL));
	served(0);
	if (taken) {
		for (int i = 0; i < 100; i++)
			rig_nap();
		if (atomic_load(&cleared) || atomic_load(&second->rnr_linked) != link)
			FAIL("a zombie was freed while another thread had it in hands");
		let_go(&taker);
		CHECK(!pthread_join(k, NULL));
	}
	CHECK(!pthread_join(c, NULL));
	if (on_list(second))
		FAIL("a zombie that was freed stands on the list");
	no_timer(shared(2));
	receives(1);
	served(2);
}

static void turned_goes(void)
{
	turned(false);
}

static void turned_taken_goes(void)
{
	turned(true);
}

/* ---- their process goes -------------------------------------------------------------------------------------------------- */

static struct rig other;
static struct ibv_qp *others;

/* Returns the queue of another process, which has stalled on the list. */
static struct shca_qp *other_stalls(void)
{
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND}, *bad;

	set_up();
	rig_virtual(&other, &r);
	others = queue(&other, rig_cq(&other, 4, NULL), NULL);
	struct ibv_qp *to = queue(&r, rcq, srq);
	connect_to(others, to);
	connect_to(to, others);
	CHECK(!shca_post_send(others, &wr, &bad));
	no_timer(rig_sh(others));
	CHECK(on_list(rig_sh(others)));
	return rig_sh(others);
}

/* Returns the queue of another process, which has stalled on the list and is destroyed. */
static struct shca_qp *other_goes(void)
{
	struct shca_qp *sh = other_stalls();

	CHECK(!shca_destroy_qp(others) && on_list(sh));
	return sh;
}

static void next_is_served(struct shca_qp *gone)
{
	if (on_list(gone))
		FAIL("a queue whose process is gone stands on a list");
	stalls(0);
	receives(1);
	served(0);
}

static void owner_leaves(void)
{
	struct shca_qp *gone = other_goes();

	CHECK(!shca_close_device(other.ctx));
	next_is_served(gone);
}

/* A process closes both of its contexts at a time: the queue, which the program has not destroyed, ends with the queue's context
 * when the other one is closed already. */
static void *closes(void *arg)
{
	held = arg;
	CHECK(!shca_close_device(other.ctx));
	return NULL;
}

static void contexts_leave(void)
{
	struct hold closer = {.at = {"destroy-stopped"}};
	pthread_t t;

	struct shca_qp *gone = other_stalls();
	struct ibv_context *second = shca_open_member(other.node);
	CHECK(second);
	other.node->refs++;
	CHECK(!pthread_create(&t, NULL, closes, &closer));
	rig_await(&closer.reached, 1);
	CHECK(!shca_close_device(second));
	let_go(&closer);
	CHECK(!pthread_join(t, NULL));
	next_is_served(gone);
}

/*
 * A thread that has no slot of the engine cannot free anything that another process may follow: not a queue on another process's
 * list, nor, with the device, the process's memory, in which such queues lie. A thread with a slot can.
 */
static void *finds_no_slot(void *arg)
{
	int err = shca_destroy_qp(arg);

	if (err != ENOSPC)
		FAIL("a thread without a slot destroys a queue: %d", err);
	CHECK(shca_destroy_cq(others->send_cq) == ENOSPC);
	if (shca_close_device(other.ctx) != -1 || errno != ENOSPC)
		FAIL("a thread without a slot closes the device");
	return NULL;
}

static void no_slot_left(void)
{
	struct shca_qp *gone = other_stalls(), *sh = rig_sh(others);
	struct rig_qp_attr a = {
		.type = IBV_QPT_RC, .scq = others->send_cq, .rcq = others->send_cq, .send_wr = 1, .recv_wr = 1, .sge = 1};
	struct ibv_qp *second = rig_qp(&other, &a);
	struct shca_thread_slot *t = r.m->threads;
	pthread_t p;

	for (uint32_t i = 0; i < SHCA_MAX_THREADS; i++)
		if (!atomic_load(&t[i].owner))
			atomic_store(&t[i].owner, SHCA_MAX_PROCS);	/* an owner that no process looks for */
	CHECK(!pthread_create(&p, NULL, finds_no_slot, second) && !pthread_join(p, NULL));
	CHECK(rig_sh(others) == sh && on_list(gone));
	for (uint32_t i = 0; i < SHCA_MAX_THREADS; i++)
		if (atomic_load(&t[i].owner) == SHCA_MAX_PROCS)
			atomic_store(&t[i].owner, 0);
	CHECK(!shca_destroy_qp(others) && on_list(gone));
	CHECK(!shca_close_device(other.ctx));
	next_is_served(gone);
}

static void owner_dies(void)
{
	struct shca_qp *gone = other_goes();

	shca_fabric_kill(other.m);
	shca_reap(shca_thread_get(r.m), other.m->slot);
	next_is_served(gone);
}

/* ---- the reaper's rounds --------------------------------------------------------------------------------------------------- */

static void *stalls_held(void *arg)
{
	held = arg;
	sends(1);
	return NULL;
}

/*
 * A reaper looks for links that no thread owns, while one link passes from the thread that makes it to the thread that reverses
 * the list, and to the thread that takes the link from there. At no time may the reaper take the link for one without an owner.
 */
static void three_hands(void)
{
	struct hold maker = {.at = {"rnr-link", "release"}};
	pthread_t m, t, k;

	set_up();
	struct shca_thread *thr = shca_thread_get(r.m);
	rig_virtual(&other, &r);
	stalls(0);
	struct shca_qp *second = shared(1);
	CHECK(!pthread_create(&m, NULL, stalls_held, &maker));
	rig_await(&maker.reached, 1);
	uint32_t link = atomic_load(&second->rnr_linked);
	CHECK(link & 1);
	shca_fabric_kill(other.m);
	/* as a helper thread, which returns instead of waiting */
	thr->helper = true;
	shca_reap(thr, other.m->slot);
	CHECK(thr->reaping && !on_list(second));
	let_go(&maker);
	rig_await(&maker.reached, 2);
	CHECK(on_list(second));
	/* the helper thread would look once more */
	no_timer(second);
	atomic_fetch_and(&second->lock, ~4ull);
	CHECK(!pthread_create(&t, NULL, wakes, &turner));
	rig_await(&turner.reached, 1);
	let_go(&maker);
	CHECK(!pthread_join(m, NULL));
	if (!shca_reap_on(thr) || atomic_load(&second->rnr_linked) != link)
		FAIL("a link was taken for lost that another thread was turning round");
	let_go(&turner);
	rig_await(&turner.reached, 2);
	CHECK(!pthread_create(&k, NULL, takes, &taker));
	rig_await(&taker.reached, 1);
	let_go(&turner);
	CHECK(!pthread_join(t, NULL));
	served(0);
	if (!shca_reap_on(thr) || atomic_load(&second->rnr_linked) != link)
		FAIL("a link was taken for lost that another thread had taken");
	let_go(&taker);
	CHECK(!pthread_join(k, NULL) && !shca_reap_on(thr));
	no_timer(second);
	CHECK(atomic_load(&second->rnr_linked) & 1);
	receives(1);
	served(1);
	if (atomic_load(&second->rnr_linked) & 1)
		FAIL("a queue that has got its receive stands on a list");
}

static const struct rig_case cases[] = {
	{"some-go", some_go}, {"woken-goes", woken_goes}, {"reset-goes", reset_goes},
	{"many-go", many_go}, {"turned-goes", turned_goes},
	{"turned-taken-goes", turned_taken_goes}, {"owner-leaves", owner_leaves}, {"owner-dies", owner_dies},
	{"contexts-leave", contexts_leave}, {"no-slot-left", no_slot_left}, {"three-hands", three_hands},
};

int main(int argc, char **argv)
{
	/* no helper thread reaps by itself */
	setenv("SHCA_DEATH_MS", "100000", 1);
	return rig_cases(argc, argv, cases, ARRAY_SIZE(cases), NULL);
}
