/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A process is asked to start its proxy thread in the middle of a run, when the kernel begins to forbid another process the
 * access to private memory, and is busy, stopped or dead at that moment. Each process posts to the next one; devices are
 * asynchronous (SHCA_BEHAVE) where the helper thread must execute the requests.
 */
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rig.h"
#include "shca/fabric/mailbox.h"

enum { P, Q, Z, ROLES };

static struct stage {
	uint32_t qpn[ROLES][ROLES], rkey[ROLES], slot[ROLES];
	uint64_t addr[ROLES];
	pid_t pid[ROLES];
	_Atomic uint32_t ready, asks, locks, go, mails, ended, done;
} *st;
static void (*play)(int role, struct rig *r);
static int role;
static bool plays;

void shca_failpoint(struct shca_thread *thr, const char *name, const struct shca_qp *qp, int op)
{
	(void)thr;
	(void)qp;
	(void)op;
	if (!plays)
		return;
	if (!strcmp(name, "mail-asks")) {
		atomic_fetch_add(&st->asks, 1);
		rig_await(&st->go, 1);
	}
	if (!strcmp(name, "mail-pending"))
		atomic_fetch_add(&st->mails, 1);
	if (role == Q && !strcmp(name, "atomic"))
		atomic_fetch_add(&st->locks, 1);
}

/* ---- queues: from each role to each, itself included ---------------------------------------------------------------- */

static struct ibv_qp *qp[ROLES];
static char *memory;
static struct ibv_mr *region;

static void make(struct rig *r)
{
	unsigned access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
	struct ibv_cq *cq = rig_cq(r, 64, NULL);
	struct rig_qp_attr a = {.type = IBV_QPT_RC, .scq = cq, .rcq = cq, .send_wr = 4, .recv_wr = 4, .sge = 1};

	memory = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(memory != MAP_FAILED);
	region = shca_reg_mr(r->pd, memory, 8192, (uintptr_t)memory, access);
	CHECK(region);
	for (int to = 0; to < ROLES; to++) {
		qp[to] = rig_qp(r, &a);
		rig_init(qp[to]);
		st->qpn[role][to] = qp[to]->qp_num;
	}
	st->addr[role] = (uintptr_t)memory;
	st->rkey[role] = region->rkey;
	st->slot[role] = r->m->slot;
	st->pid[role] = getpid();
	atomic_fetch_add(&st->ready, 1);
	rig_await(&st->ready, ROLES);
	for (int to = 0; to < ROLES; to++) {
		struct rig_path p = {.dest_qpn = st->qpn[to][role], .retry_cnt = 7, .timeout = 14};
		rig_rtr(qp[to], &p);
		rig_rts(qp[to], &p);
	}
	atomic_fetch_add(&st->ready, 1);
	rig_await(&st->ready, 2 * ROLES);
	plays = true;
}

/* Writes the second half of the memory to the first half of `to`'s memory, or adds 1 to the first word there. */
static void post(int to, enum ibv_wr_opcode opcode)
{
	bool adds = opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
	struct ibv_sge sge = {(uintptr_t)memory + 4096, adds ? 8 : 4096, region->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = opcode, .send_flags = IBV_SEND_SIGNALED}, *bad;

	if (adds) {
		wr.wr.atomic.remote_addr = st->addr[to];
		wr.wr.atomic.rkey = st->rkey[to];
		wr.wr.atomic.compare_add = 1;
	} else {
		wr.wr.rdma.remote_addr = st->addr[to];
		wr.wr.rdma.rkey = st->rkey[to];
	}
	CHECK(!shca_post_send(qp[to], &wr, &bad));
}

static void completes(int to, enum ibv_wc_status status)
{
	struct ibv_wc wc;

	for (int i = 0; shca_poll_cq(qp[to]->send_cq, 1, &wc) != 1; i++, rig_nap())
		if (i > 20000)
			FAIL("role %d: a request to role %d never ends", role, to);
	if (wc.status != status)
		FAIL("role %d: a request to role %d: %s", role, to, ibv_wc_status_str(wc.status));
}

static void denied(struct rig *r, int by)
{
	shca_cma_deny(r->m, st->slot[by], SHCA_COPY_READ, EPERM);
}

/* Whether all threads of a process are stopped by a signal (proc_pid_stat(5), the field behind the name in brackets). */
static bool all_stopped(pid_t pid)
{
	char path[300], state;
	bool all = true;
	struct dirent *e;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	DIR *tasks = opendir(path);
	CHECK(tasks);
	while (all && (e = readdir(tasks))) {
		if (*e->d_name == '.')
			continue;
		snprintf(path, sizeof(path), "/proc/%d/task/%s/stat", (int)pid, e->d_name);
		FILE *f = fopen(path, "re");
		all = f && fscanf(f, "%*d (%*[^)]) %c", &state) == 1 && state == 'T';
		if (f)
			fclose(f);
	}
	closedir(tasks);
	return all;
}

/* kill() returns before the threads have stopped: the proxy thread could still serve a request. */
static void stop(int who)
{
	CHECK(!kill(st->pid[who], SIGSTOP));
	for (int i = 0; !all_stopped(st->pid[who]); i++, rig_nap())
		if (i > 20000)
			FAIL("role %d does not stop", who);
}

/* All but those that are gone. */
static void all_end(uint32_t n)
{
	atomic_fetch_add(&st->ended, 1);
	rig_await(&st->ended, n);
}

/* ---- cases --------------------------------------------------------------------------------------------------------- */

/* P holds the lock of a word of Q's, and asks Q while Q's helper thread waits for that lock. */
static void holds_lock(int me, struct rig *r)
{
	if (me == P) {
		denied(r, Q);
		post(Q, IBV_WR_ATOMIC_FETCH_AND_ADD);
		completes(Q, IBV_WC_SUCCESS);
	} else if (me == Q) {
		rig_await(&st->asks, 1);
		post(Q, IBV_WR_ATOMIC_FETCH_AND_ADD);
		/* the helper thread is about to take the lock, or waits for the lock */
		rig_await(&st->locks, 1);
		for (int i = 0; i < 40; i++)
			rig_nap();
		atomic_store(&st->go, 1);
		completes(Q, IBV_WC_SUCCESS);
	}
	all_end(ROLES);
	if (me == Q && *(volatile uint64_t *)memory != 2)
		FAIL("the word is %lu after two additions of 1", (unsigned long)*(uint64_t *)memory);
}

/* The helper threads of P and Q ask each other's process at once. */
static void ask_each_other(int me, struct rig *r)
{
	if (me == Z) {
		rig_await(&st->asks, 2);
		atomic_store(&st->go, 1);
	} else {
		denied(r, 1 - me);
		memset(memory + 4096, 1 + me, 4096);
		post(1 - me, IBV_WR_RDMA_WRITE);
		completes(1 - me, IBV_WC_SUCCESS);
	}
	all_end(ROLES);
	for (int i = 0; me != Z && i < 4096; i++)
		if (memory[i] != 2 - me)
			FAIL("role %d: byte %d is %d", me, i, memory[i]);
}

/* Q's helper thread waits for the proxy of Z, which is stopped, when P asks Q. */
static void behind_a_stopped_one(int me, struct rig *r)
{
	atomic_store(&st->go, 1);
	if (me == Q) {
		denied(r, Z);
		post(Z, IBV_WR_RDMA_WRITE);	/* Z's proxy runs from then on */
		completes(Z, IBV_WC_SUCCESS);
		stop(Z);
		post(Z, IBV_WR_RDMA_WRITE);
		rig_await(&st->mails, 2);
		atomic_store(&st->done, 1);
		completes(Z, IBV_WC_SUCCESS);
	} else if (me == P) {
		rig_await(&st->done, 1);
		denied(r, Q);
		post(Q, IBV_WR_RDMA_WRITE);
		completes(Q, IBV_WC_SUCCESS);
		CHECK(!kill(st->pid[Z], SIGCONT));
	}
	all_end(ROLES);
}

/* P writes more to Q than fits a request to the proxy, from memory of the fabric, and reads that back. */
static void pieces(int me, struct rig *r)
{
	enum { LONG = 2 * SHCA_MAIL_PIECE + 4096 };
	unsigned access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
	char *mine = me == Q ? mmap(NULL, LONG, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) :
			       shca_buf_alloc(r->ctx, LONG);

	CHECK(mine && mine != MAP_FAILED);
	struct ibv_mr *mr = shca_reg_mr(r->pd, mine, LONG, (uintptr_t)mine, access);
	CHECK(mr);
	if (me == Q) {
		st->addr[Q] = (uintptr_t)mine;
		st->rkey[Q] = mr->rkey;
	}
	atomic_store(&st->go, 1);
	all_end(ROLES);
	for (int back = 0; me == P && back < 2; back++) {
		struct ibv_sge sge = {(uintptr_t)mine, LONG, mr->lkey};
		struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .send_flags = IBV_SEND_SIGNALED,
					 .opcode = back ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE,
					 .wr.rdma = {.remote_addr = st->addr[Q], .rkey = st->rkey[Q]}}, *bad;
		for (int i = 0; i < LONG; i++)
			mine[i] = back ? 0 : (char)(i ^ i >> 8 ^ i >> 16);
		denied(r, Q);
		CHECK(!shca_post_send(qp[Q], &wr, &bad));
		completes(Q, IBV_WC_SUCCESS);
	}
	all_end(2 * ROLES);
	for (int i = 0; me != Z && i < LONG; i++)
		if (mine[i] != (char)(i ^ i >> 8 ^ i >> 16))
			FAIL("role %d: byte %d is %d", me, i, mine[i]);
}

/* Q is stopped when P asks, and continued. */
static void stopped(int me, struct rig *r)
{
	atomic_store(&st->go, 1);
	if (me == P) {
		stop(Q);
		denied(r, Q);
		post(Q, IBV_WR_RDMA_WRITE);
		completes(Q, IBV_WC_SUCCESS);
	} else if (me == Z) {
		rig_await(&st->asks, 1);
		for (int i = 0; i < 40; i++)
			rig_nap();
		CHECK(!kill(st->pid[Q], SIGCONT));
	}
	all_end(ROLES);
}

/* Q is stopped when P asks, and dies. */
static void dies(int me, struct rig *r)
{
	atomic_store(&st->go, 1);
	if (me == P) {
		stop(Q);
		denied(r, Q);
		post(Q, IBV_WR_RDMA_WRITE);
		completes(Q, IBV_WC_RETRY_EXC_ERR);
	} else if (me == Z) {
		rig_await(&st->asks, 1);
		for (int i = 0; i < 40; i++)
			rig_nap();
		CHECK(!kill(st->pid[Q], SIGKILL));
	} else {
		for (;;)
			pause();
	}
	all_end(ROLES - 1);
}

static void act(void)
{
	struct rig r;

	/* P's own thread executes P's requests in the cases where P waits in the middle of one */
	if (play == ask_each_other || (role == Q && play != dies) || (role == P && play != holds_lock))
		setenv("SHCA_BEHAVE", "async", 1);
	rig_join(&r, getenv("SHCA_FABRIC"));
	make(&r);
	play(role, &r);
	_exit(0);
}

static void all_roles(void (*what)(int role, struct rig *r))
{
	pid_t pid[ROLES];
	char name[64];

	snprintf(name, sizeof(name), "asked-%d", (int)getpid());
	setenv("SHCA_FABRIC", name, 1);
	st = mmap(NULL, sizeof(*st), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(st != MAP_FAILED);
	play = what;
	for (role = 0; role < ROLES; role++)
		pid[role] = rig_child(act);
	for (int i = 0; i < ROLES; i++) {
		int status;
		CHECK(waitpid(pid[i], &status, 0) == pid[i]);
		if (status && !(what == dies && i == Q && WIFSIGNALED(status)))
			FAIL("role %d: status %#x", i, status);
	}
}

static void case_lock(void) { all_roles(holds_lock); }
static void case_each_other(void) { all_roles(ask_each_other); }
static void case_behind(void) { all_roles(behind_a_stopped_one); }
static void case_pieces(void) { all_roles(pieces); }
static void case_stopped(void) { all_roles(stopped); }
static void case_dies(void) { all_roles(dies); }

int main(int argc, char **argv)
{
	static const struct rig_case cases[] = {
		{"lock", case_lock}, {"each-other", case_each_other}, {"behind", case_behind}, {"pieces", case_pieces},
		{"stopped", case_stopped}, {"dies", case_dies},
	};

	return rig_cases(argc, argv, cases, sizeof(cases) / sizeof(cases[0]), NULL);
}
