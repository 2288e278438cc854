/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A responder dies, and its objects are reaped, while a request to the responder is being executed: between the look-up of the
 * queue and the look-up of the region, or of the receives. The death must complete the request with IBV_WC_RETRY_EXC_ERR, never
 * with a refusal; and the requester's queue can be destroyed, although that queue has begun to wait for a receive of the dead.
 *
 *     A    requests, stopped at the failpoint "found"
 *     B    the responder, killed then
 *     C    reaps B
 */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rig.h"

static struct stage {
	struct rig_meeting ab;
	uint32_t rkey;
	uint64_t addr;
	pid_t b;
	_Atomic uint32_t dead, done;
	uint32_t skip;			/* hits of the failpoint to let pass */
} *st;

static const struct request {
	const char *name;
	enum ibv_wr_opcode op;
	uint32_t skip;
} requests[] = {
	{"WRITE", IBV_WR_RDMA_WRITE, 0},
	{"READ", IBV_WR_RDMA_READ, 0},
	{"FAA", IBV_WR_ATOMIC_FETCH_AND_ADD, 0},
	/* checked first at the post, then by the queue, which stands on the list after that */
	{"SEND", IBV_WR_SEND, 1},
};

void shca_failpoint(struct shca_thread *thr, const char *name, const struct shca_qp *qp, int op)
{
	(void)op;
	if (!st || strcmp(name, "found") || qp->qpn != st->ab.qpn[0] || atomic_load(&st->dead))
		return;
	if (st->skip) {
		st->skip--;
		return;
	}
	kill(st->b, SIGKILL);
	atomic_store(&st->dead, 1);
	for (int i = 0; shca_mr_get(thr->m, st->rkey); i++, rig_nap())
		if (i > 40000)
			FAIL("nobody clears away what B left");
}

static void role_a(struct rig *r, enum ibv_wr_opcode op)
{
	static uint64_t word[1] __attribute__((aligned(64)));
	struct ibv_mr *mr = shca_reg_mr(r->pd, word, 8, (uintptr_t)word, IBV_ACCESS_LOCAL_WRITE);
	struct ibv_cq *cq = rig_cq(r, 16, NULL);
	struct ibv_qp *qp = rig_meet(r, cq, &st->ab, 0, 3);
	struct ibv_sge sge = {(uintptr_t)word, 8, mr->lkey};
	struct ibv_send_wr wr = {.wr_id = 5, .sg_list = &sge, .num_sge = 1, .opcode = op, .send_flags = IBV_SEND_SIGNALED}, *bad;
	struct ibv_wc wc;

	if (op == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = st->addr;
		wr.wr.atomic.rkey = st->rkey;
	} else if (op != IBV_WR_SEND) {
		wr.wr.rdma.remote_addr = st->addr;
		wr.wr.rdma.rkey = st->rkey;
	}
	CHECK(!shca_post_send(qp, &wr, &bad));
	for (int i = 0; shca_poll_cq(cq, 1, &wc) != 1; i++, rig_nap())
		if (i > 40000)
			FAIL("the request never ends");
	if (!atomic_load(&st->dead))
		FAIL("the point was not reached");
	if (wc.wr_id != 5 || wc.status != IBV_WC_RETRY_EXC_ERR)
		FAIL("a request to a process that died: %s", ibv_wc_status_str(wc.status));
	atomic_store(&st->done, 1);
	CHECK(!shca_destroy_qp(qp) && !shca_destroy_cq(cq) && !shca_dereg_mr(mr));
}

static void role_b(struct rig *r)
{
	static uint64_t word[8] __attribute__((aligned(64)));
	struct ibv_mr *mr = shca_reg_mr(r->pd, word, sizeof(word), (uintptr_t)word,
					IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
						IBV_ACCESS_REMOTE_ATOMIC);

	st->addr = (uintptr_t)word;
	st->rkey = mr->rkey;
	rig_meet(r, rig_cq(r, 16, NULL), &st->ab, 1, 3);
	for (;;)
		pause();
}

static void role_c(struct rig *r)
{
	atomic_fetch_add(&st->ab.joined, 1);
	rig_await(&st->dead, 1);
	for (int i = 0; !atomic_load(&st->done); i++, rig_nap()) {
		shca_proc_sweep(shca_thread_get(r->m));
		if (i > 40000)
			FAIL("A does not end");
	}
}

static int play(const struct request *q)
{
	char name[64];
	pid_t pid[3];
	int status, failed = 0;

	snprintf(name, sizeof(name), "responder-dies-%d", (int)getpid());
	memset(st, 0, sizeof(*st));
	st->skip = q->skip;
	for (int i = 2; i >= 0; i--) {
		pid[i] = fork();
		CHECK(pid[i] >= 0);
		if (!pid[i]) {
			struct rig r;
			alarm(120);
			rig_join(&r, name);
			i == 0 ? role_a(&r, q->op) : i == 1 ? role_b(&r) : role_c(&r);
			rig_leave(&r);
			_exit(0);
		}
		if (i == 1)
			st->b = pid[i];
	}
	for (int i = 0; i < 3; i++) {
		if (i == 1)
			kill(pid[1], SIGKILL);
		waitpid(pid[i], &status, 0);
		if (i != 1 && status) {
			fprintf(stderr, "FAIL: %s: %c: status %#x\n", q->name, "ABC"[i], status);
			failed = 1;
			atomic_store(&st->done, 1);
		}
	}
	return failed;
}

int main(void)
{
	int failed = 0;

	unsetenv("SHCA_FABRIC_FD");
	st = mmap(NULL, sizeof(*st), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(st != MAP_FAILED);
	for (size_t i = 0; i < sizeof(requests) / sizeof(*requests); i++)
		failed |= play(&requests[i]);
	return failed;
}
