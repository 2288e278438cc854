/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages in the mailbox of a process's proxy whose requester has died.
 *
 *     T  has the memory and the mailbox; T's helper thread reaps X at a moment that the test chooses
 *     X  dies when the store is in the mailbox, before waking the proxy
 *     Y  reads other memory of T, so that the proxy reads the mailbox; reaps X in the cases in which T does not
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rig.h"

enum { T, X, Y, ROLES };
#define READERS 4u		/* as many as the mailbox has slots */

static struct stage {
	uint32_t qpn[2][1 + READERS], rkey[2];	/* T's, and those of X and of Y */
	uint64_t addr[2];			/* target of X's store; source of Y's reads */
	_Atomic uint32_t ready, dies, dead, read, cancels, go_on, hold, pending, reap, cleared, done;
} *st;
static const struct play {
	const char *name;
	uint32_t letters;			/* X dies at this message */
	bool atomic;
	void (*t)(struct rig *r);
} *play;
static int role;

void shca_failpoint(struct shca_thread *thr, const char *name, const struct shca_qp *qp, int op)
{
	static _Atomic uint32_t letters;

	(void)thr;
	(void)qp;
	(void)op;
	if (!st)
		return;
	if (role == X && !strcmp(name, "mail-pending") && atomic_fetch_add(&letters, 1) + 1 == play->letters)
		raise(SIGKILL);
	if (role == Y && !strcmp(name, "mail-pending"))
		atomic_fetch_add(&st->pending, 1);
	/* until then no thread reaps X */
	if (role != X && !strcmp(name, "helper-look") && atomic_load(&st->ready))
		rig_await(&st->cleared, 1);
	/* the proxy has found a message, perhaps X's, and has not begun with it: X's slot of the mailbox can be taken */
	if (role == T && !strcmp(name, "mail-found") && atomic_load(&st->hold))
		rig_await(&st->hold, 2);
	/* once: the helper thread, which reaps, is not held */
	if (role == T && !strcmp(name, "mail-cancel") && !atomic_exchange(&st->cancels, 1))
		rig_await(&st->go_on, 1);
}

static struct ibv_qp *queue(struct rig *r)
{
	struct ibv_cq *cq = rig_cq(r, 16, NULL);
	struct rig_qp_attr a = {.type = IBV_QPT_RC, .scq = cq, .rcq = cq, .send_wr = 4, .recv_wr = 4, .sge = 1};
	struct ibv_qp *qp = rig_qp(r, &a);

	rig_init(qp);
	return qp;
}

static void connect_to(struct ibv_qp *qp, uint32_t dest)
{
	struct rig_path p = {.dest_qpn = dest, .retry_cnt = 7};

	rig_rtr(qp, &p);
	rig_rts(qp, &p);
}

static void meet(uint32_t n)
{
	atomic_fetch_add(&st->ready, 1);
	rig_await(&st->ready, n);
}

static void completes(struct ibv_qp *qp)
{
	struct ibv_wc wc;

	for (int i = 0; shca_poll_cq(qp->send_cq, 1, &wc) != 1; i++, rig_nap())
		if (i > 40000)
			FAIL("%s: a request never ends", play->name);
	if (wc.status != IBV_WC_SUCCESS)
		FAIL("%s: %s", play->name, ibv_wc_status_str(wc.status));
}

static char *private_region(struct rig *r, int i)
{
	unsigned access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
	char *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(p != MAP_FAILED);
	struct ibv_mr *mr = shca_reg_mr(r->pd, p, 4096, (uintptr_t)p, access);
	CHECK(mr);
	if (i < 2) {
		st->addr[i] = (uintptr_t)p;
		st->rkey[i] = mr->rkey;
	}
	return p;
}

/* ---- T ------------------------------------------------------------------------------------------------------------- */

static char *memory;
static struct ibv_mr *region;

/* Waits until Y has read twice more, so that the proxy has looked at every slot. */
static void proxy_looks(void)
{
	uint32_t n = atomic_load(&st->read);

	atomic_store(&st->read, n | 1);
	rig_await(&st->read, (n | 1) + 1);
}

static bool x_is_left(struct rig *r)
{
	for (uint32_t s = 0; s < atomic_load(&r->m->hdr->proc_high); s++)
		if ((atomic_load(&r->m->procs[s].state) & 255) != SHCA_PROC_FREE && !shca_proc_alive(r->m, s))
			return true;
	return false;
}

static void x_is_cleared_away(struct rig *r)
{
	atomic_store(&st->cleared, 1);
	for (uint32_t i = 0; x_is_left(r); i++, rig_nap())
		if (i > 40000)
			FAIL("%s: nobody clears away what X left", play->name);
}

static void stays_as_it_is(const char *what)
{
	for (uint32_t i = 0; i < 4096; i++)
		if (memory[i] != 0x77)
			FAIL("%s: byte %u of %s was written", play->name, i, what);
}

static void memory_goes(struct rig *r)
{
	CHECK(!shca_dereg_mr(region));
	memset(memory, 0x77, 4096);
	proxy_looks();
	x_is_cleared_away(r);
	stays_as_it_is("memory that is not registered any more");
}

/* Y reaps X: behind that, no store of X may be carried out. */
static void another_reaps(struct rig *r)
{
	atomic_store(&st->reap, 1);
	rig_await(&st->reap, 2);
	memset(memory, 0x77, 4096);
	proxy_looks();
	x_is_cleared_away(r);
	stays_as_it_is("memory that a process stored to which was cleared away before");
}

static uint64_t result __attribute__((aligned(8)));

static struct ibv_qp *adds_itself(struct rig *r)
{
	struct ibv_mr *mr = shca_reg_mr(r->pd, &result, 8, (uintptr_t)&result, IBV_ACCESS_LOCAL_WRITE);
	struct ibv_qp *qp = queue(r), *to = queue(r);
	struct ibv_sge sge = {(uintptr_t)&result, 8, mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
				 .send_flags = IBV_SEND_SIGNALED}, *bad;

	connect_to(qp, to->qp_num);
	connect_to(to, qp->qp_num);
	wr.wr.atomic.remote_addr = (uintptr_t)memory;
	wr.wr.atomic.rkey = region->rkey;
	wr.wr.atomic.compare_add = 10;
	CHECK(!shca_post_send(qp, &wr, &bad));
	return qp;
}

static void sum_is_right(void)
{
	uint64_t sum = *(volatile uint64_t *)memory;

	if (result > 1 || sum != result + 10)
		FAIL("%s: %lu, and 10 was added to %lu", play->name, (unsigned long)sum, (unsigned long)result);
}

/* T takes the lock of the word that X was adding to. */
static void atomic_goes_on(struct rig *r)
{
	completes(adds_itself(r));
	proxy_looks();
	sum_is_right();
	x_is_cleared_away(r);
	sum_is_right();
}

static void *adds(void *r)
{
	completes(adds_itself(r));
	return NULL;
}

/* Two threads find X's message at once. The slower one goes on when the slot has a message of another process. */
static void two_cancel(struct rig *r)
{
	pthread_t t;

	CHECK(!pthread_create(&t, NULL, adds, r));
	rig_await(&st->cancels, 1);
	/* the helper thread goes ahead: X's slot is free, and used again */
	atomic_store(&st->hold, 1);
	atomic_store(&st->pending, 0);
	atomic_store(&st->cleared, 1);
	atomic_store(&st->read, 1);
	rig_await(&st->pending, READERS);
	/* X's queue numbers are not free: a thread that is inheriting X's work would take their next user for X's queue */
	for (int i = 0; i < 100; i++)
		rig_nap();
	if (!x_is_left(r))
		FAIL("%s: X is cleared away while somebody succeeds it", play->name);
	atomic_store(&st->go_on, 1);
	CHECK(!pthread_join(t, NULL));
	atomic_store(&st->hold, 2);
	rig_await(&st->read, 2);
	sum_is_right();
	x_is_cleared_away(r);
}

static void role_t(struct rig *r)
{
	struct ibv_qp *qp[1 + READERS];

	atomic_store(&st->go_on, play->t != two_cancel);
	memory = private_region(r, 0);
	private_region(r, 1);
	region = shca_reg_mr(r->pd, memory, 4096, (uintptr_t)memory,
			     IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC);
	CHECK(region);
	st->rkey[0] = region->rkey;
	for (uint32_t i = 0; i < 1 + READERS; i++) {
		qp[i] = queue(r);
		st->qpn[0][i] = qp[i]->qp_num;
	}
	meet(3);
	for (uint32_t i = 0; i < 1 + READERS; i++)
		connect_to(qp[i], st->qpn[1][i]);
	meet(6);
	atomic_store(&st->dies, 1);
	rig_await(&st->dead, 1);
	play->t(r);
	atomic_store(&st->done, 1);
}

/* ---- X and Y ------------------------------------------------------------------------------------------------------- */

static void role_x(struct rig *r)
{
	char *p = private_region(r, 2);
	struct ibv_qp *qp = queue(r);
	struct ibv_mr *mr = shca_reg_mr(r->pd, p, 4096, (uintptr_t)p, IBV_ACCESS_LOCAL_WRITE);
	struct ibv_sge sge = {(uintptr_t)p, 8, mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE}, *bad;

	st->qpn[1][0] = qp->qp_num;
	meet(3);
	connect_to(qp, st->qpn[0][0]);
	meet(6);
	wr.wr.rdma.remote_addr = st->addr[0];
	wr.wr.rdma.rkey = st->rkey[0];
	if (play->atomic) {
		wr.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
		wr.wr.atomic.remote_addr = st->addr[0];
		wr.wr.atomic.rkey = st->rkey[0];
		wr.wr.atomic.compare_add = 1;
	}
	rig_await(&st->dies, 1);
	CHECK(!shca_post_send(qp, &wr, &bad));
	FAIL("%s: X lives on", play->name);
}

struct reader {
	struct rig *r;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	char *p;
};

static void *reads(void *arg)
{
	struct reader *me = arg;
	struct ibv_sge sge = {(uintptr_t)me->p, 64, me->mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_READ, .send_flags = IBV_SEND_SIGNALED},
			   *bad;

	wr.wr.rdma.remote_addr = st->addr[1];
	wr.wr.rdma.rkey = st->rkey[1];
	for (int i = 0; i < 2; i++) {
		CHECK(!shca_post_send(me->qp, &wr, &bad));
		completes(me->qp);
	}
	return NULL;
}

static void reaps_x(struct rig *r)
{
	struct shca_thread *thr = shca_thread_get(r->m);

	rig_await(&st->reap, 1);
	for (uint32_t i = 0; x_is_left(r); i++, rig_nap()) {
		shca_proc_sweep(thr);
		shca_reap_on(thr);
		if (i > 40000)
			FAIL("%s: X is not cleared away", play->name);
	}
	atomic_store(&st->reap, 2);
}

static void role_y(struct rig *r)
{
	struct reader me[READERS];
	pthread_t t[READERS];

	for (uint32_t i = 0; i < READERS; i++) {
		me[i] = (struct reader){.r = r, .qp = queue(r), .p = shca_buf_alloc(r->ctx, 64)};
		CHECK(me[i].p);
		me[i].mr = shca_reg_mr(r->pd, me[i].p, 64, (uintptr_t)me[i].p, IBV_ACCESS_LOCAL_WRITE);
		CHECK(me[i].mr);
		st->qpn[1][1 + i] = me[i].qp->qp_num;
	}
	meet(3);
	for (uint32_t i = 0; i < READERS; i++)
		connect_to(me[i].qp, st->qpn[0][1 + i]);
	meet(6);
	if (play->t == another_reaps)
		reaps_x(r);
	rig_await(&st->read, 1);
	for (uint32_t i = 0; i < READERS; i++)
		CHECK(!pthread_create(&t[i], NULL, reads, &me[i]));
	for (uint32_t i = 0; i < READERS; i++)
		CHECK(!pthread_join(t[i], NULL));
	atomic_store(&st->read, 2);
	rig_await(&st->done, 1);
}

/* ---- the runner ---------------------------------------------------------------------------------------------------- */

static const struct play plays[] = {
	{"a region goes", 1, false, memory_goes},
	{"another reaps", 1, false, another_reaps},
	/* the first message asks for the word */
	{"an atomic's successor", 2, true, atomic_goes_on},
	{"two who cancel", 2, true, two_cancel},
};

static int run(void)
{
	void (*const roles[ROLES])(struct rig *) = {role_t, role_x, role_y};
	char name[64];
	pid_t pid[ROLES];
	int status, failed = 0;

	snprintf(name, sizeof(name), "dead-letters-%d-%d", (int)getpid(), (int)(play - plays));
	memset(st, 0, sizeof(*st));
	for (int i = 0; i < ROLES; i++) {
		pid[i] = fork();
		CHECK(pid[i] >= 0);
		if (!pid[i]) {
			struct rig r;
			role = i;
			alarm(120);
			rig_join(&r, name);
			roles[i](&r);
			_exit(0);
		}
	}
	CHECK(waitpid(pid[X], &status, 0) == pid[X]);
	if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL) {
		fprintf(stderr, "FAIL: %s: X did not die at its point: status %#x\n", play->name, status);
		failed = 1;
	}
	atomic_store(&st->dead, 1);
	CHECK(waitpid(pid[T], &status, 0) == pid[T]);
	if (status) {
		fprintf(stderr, "FAIL: %s: T: status %#x\n", play->name, status);
		failed = 1;
		kill(pid[Y], SIGKILL);
	}
	CHECK(waitpid(pid[Y], &status, 0) == pid[Y]);
	if (!failed && status) {
		fprintf(stderr, "FAIL: %s: Y: status %#x\n", play->name, status);
		failed = 1;
	}
	printf("%-24s %s\n", play->name, failed ? "FAIL" : "ok");
	return failed;
}

int main(void)
{
	int failed = 0;

	setvbuf(stdout, NULL, _IOLBF, 0);
	setenv("SHCA_CMA", "0", 1);
	setenv("SHCA_DEATH_MS", "20", 0);
	unsetenv("SHCA_FABRIC_FD");
	st = mmap(NULL, sizeof(*st), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(st != MAP_FAILED);
	for (size_t i = 0; i < ARRAY_SIZE(plays); i++) {
		play = &plays[i];
		failed |= run();
	}
	return failed;
}
