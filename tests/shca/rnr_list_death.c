/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An uninvolved process dies, and is reaped, just when a queue is about to enter the list of queues that wait for a receive: the
 * reaper, which looks for links of dead threads, must not take this link for lost. A queue that is on the list without a mark of
 * that would be entered twice, and the list would have no end.
 *
 *     A    sends to B, which has no receive; stopped at the failpoint "rnr-link"
 *     B    posts its receive at last
 *     C    reaps D
 *     D    is killed
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rig.h"

enum { A, B, C, D, ROLES };

static struct stage {
	struct rig_meeting ab;
	pid_t d;
	_Atomic uint32_t stopped, reaping, stalled, done;
} *st;
static int role;

void shca_failpoint(struct shca_thread *thr, const char *name, const struct shca_qp *qp, int op)
{
	(void)thr;
	(void)qp;
	(void)op;
	/* the reaper is C, which looks for deaths all the time, or the helper thread of A or B */
	if (!strcmp(name, "reap-links"))
		atomic_store(&st->reaping, 1);
	if (role != A || strcmp(name, "rnr-link") || atomic_exchange(&st->stopped, 1))
		return;
	kill(st->d, SIGKILL);
	rig_await(&st->reaping, 1);
	/* until the reaper has seen the link and waits for all to leave the engine: nothing tells when */
	for (int i = 0; i < 100; i++)
		rig_nap();
}

static void completes(struct ibv_cq *cq)
{
	struct ibv_wc wc;

	for (int i = 0; shca_poll_cq(cq, 1, &wc) != 1; i++, rig_nap())
		if (i > 40000)
			FAIL("the message does not come");
	if (wc.status != IBV_WC_SUCCESS)
		FAIL("the message: %s", ibv_wc_status_str(wc.status));
}

static void role_ends(struct rig *r)
{
	static char buf[64];
	struct ibv_mr *mr = shca_reg_mr(r->pd, buf, sizeof(buf), (uintptr_t)buf, IBV_ACCESS_LOCAL_WRITE);
	struct ibv_cq *cq = rig_cq(r, 16, NULL);
	struct ibv_qp *qp = rig_meet(r, cq, &st->ab, role, ROLES);
	struct ibv_sge sge = {(uintptr_t)buf, sizeof(buf), mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED}, *bad;
	struct ibv_recv_wr rwr = {.sg_list = &sge, .num_sge = 1}, *bad_recv;

	if (role == A) {
		CHECK(!shca_post_send(qp, &wr, &bad));
		/* its timers have run it again meanwhile, in vain: 1, 2, 4, ... 32 ms */
		for (int i = 0; i < 200; i++)
			rig_nap();
		atomic_store(&st->stalled, 1);
	} else {
		rig_await(&st->stalled, 1);
		CHECK(!shca_post_recv(qp, &rwr, &bad_recv));
	}
	completes(cq);
	atomic_fetch_add(&st->done, 1);
	rig_await(&st->done, 2);
	CHECK(!shca_destroy_qp(qp) && !shca_destroy_cq(cq) && !shca_dereg_mr(mr));
}

static void role_reaper(struct rig *r)
{
	atomic_fetch_add(&st->ab.joined, 1);
	rig_await(&st->stopped, 1);
	for (int i = 0; atomic_load(&st->done) < 2; i++, rig_nap()) {
		shca_proc_sweep(shca_thread_get(r->m));
		if (i > 40000)
			FAIL("the others do not end");
	}
}

static void play_role(const char *name)
{
	struct rig r;

	alarm(60);
	rig_join(&r, name);
	if (role == C) {
		role_reaper(&r);
	} else if (role == D) {
		atomic_fetch_add(&st->ab.joined, 1);
		for (;;)
			pause();
	} else {
		role_ends(&r);
	}
	rig_leave(&r);
	_exit(0);
}

int main(void)
{
	char name[64];
	pid_t pid[ROLES];
	int status, failed = 0;

	unsetenv("SHCA_FABRIC_FD");
	snprintf(name, sizeof(name), "stalled-link-%d", (int)getpid());
	st = mmap(NULL, sizeof(*st), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(st != MAP_FAILED);
	for (role = D; role >= A; role--) {
		pid[role] = fork();
		CHECK(pid[role] >= 0);
		if (!pid[role])
			play_role(name);
		if (role == D)
			st->d = pid[D];
	}
	for (int i = A; i < D; i++) {
		waitpid(pid[i], &status, 0);
		if (status) {
			fprintf(stderr, "FAIL: %c: status %#x\n", "ABC"[i], status);
			failed = 1;
			atomic_store(&st->done, 2);
		}
	}
	kill(pid[D], SIGKILL);
	waitpid(pid[D], &status, 0);
	if (!failed && !atomic_load(&st->reaping)) {
		fprintf(stderr, "FAIL: nobody reaped D while A was at the point\n");
		failed = 1;
	}
	return failed;
}
