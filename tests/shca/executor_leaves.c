/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A process that ran another's queue leaves in good order, or is stopped, while that queue waits for a receive: the timer of the
 * retries belongs to the owner of the queue.
 *
 *     A    posts WAIT, SEND to B, which posts no receive
 *     X    sends the message that A's WAIT waits for, so runs A's queue, which stalls while X executes; then leaves, or stops
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rig.h"

static struct stage {
	uint32_t t[2], x[2];		/* queue numbers: A-B, X-A */
	_Atomic uint32_t at[4], done;
} *st;

static void barrier(int i)
{
	atomic_fetch_add(&st->at[i], 1);
	while (atomic_load(&st->at[i]) < 3)
		rig_nap();
}

static struct ibv_qp *queue(struct rig *r, struct ibv_cq *cq, uint32_t flags)
{
	struct rig_qp_attr a = {
		.type = IBV_QPT_RC, .exp_flags = flags, .scq = cq, .rcq = cq, .send_wr = 4, .recv_wr = 4, .sge = 1, .inl = 16};
	struct ibv_qp *qp = rig_qp(r, &a);

	rig_init(qp);
	return qp;
}

static void connect_to(struct ibv_qp *qp, uint32_t dest)
{
	/* three times 41 ms */
	struct rig_path p = {.dest_qpn = dest, .rnr_retry = 3, .retry_cnt = 7, .min_rnr_timer = 24};

	rig_rtr(qp, &p);
	rig_rts(qp, &p);
}

static void role_a(struct rig *r)
{
	struct ibv_cq *cq = rig_cq(r, 16, NULL), *wcq = rig_cq(r, 16, NULL);
	struct ibv_qp *t = queue(r, cq, IBV_EXP_QP_CREATE_CROSS_CHANNEL), *x = queue(r, wcq, 0);
	static char buf[64];
	struct ibv_mr *mr = shca_reg_mr(r->pd, buf, sizeof(buf), (uintptr_t)buf, IBV_ACCESS_LOCAL_WRITE);
	struct ibv_sge sge = {(uintptr_t)buf, 8, mr->lkey};
	struct ibv_recv_wr rwr = {.sg_list = &sge, .num_sge = 1}, *bad_recv;
	struct ibv_exp_send_wr wr[2] = {{.exp_opcode = IBV_EXP_WR_CQE_WAIT, .next = &wr[1]},
					{.wr_id = 5, .exp_opcode = IBV_EXP_WR_SEND, .sg_list = &sge, .num_sge = 1,
					 .exp_send_flags = IBV_EXP_SEND_SIGNALED}}, *bad;
	struct ibv_wc wc;

	st->t[0] = t->qp_num;
	st->x[1] = x->qp_num;
	barrier(0);
	connect_to(t, st->t[1]);
	connect_to(x, st->x[0]);
	CHECK(!shca_post_recv(x, &rwr, &bad_recv));
	wr[0].task.cqe_wait.cq = wcq;
	wr[0].task.cqe_wait.cq_count = 1;
	CHECK(!shca_exp_post_send(t, wr, &bad));
	barrier(1);
	for (int i = 0; shca_poll_cq(cq, 1, &wc) != 1; i++, rig_nap())
		if (i > 40000)
			FAIL("the request that stalled never ends");
	if (wc.wr_id != 5 || wc.status != IBV_WC_RNR_RETRY_EXC_ERR)
		FAIL("request %lu: %s", (unsigned long)wc.wr_id, ibv_wc_status_str(wc.status));
	atomic_store(&st->done, 1);
	CHECK(!shca_destroy_qp(t) && !shca_destroy_qp(x) && !shca_destroy_cq(cq) && !shca_destroy_cq(wcq) && !shca_dereg_mr(mr));
}

static void role_b(struct rig *r)
{
	struct ibv_cq *cq = rig_cq(r, 16, NULL);
	struct ibv_qp *t = queue(r, cq, 0);

	st->t[1] = t->qp_num;
	barrier(0);
	connect_to(t, st->t[0]);
	barrier(1);
	while (!atomic_load(&st->done))
		rig_nap();
	CHECK(!shca_destroy_qp(t) && !shca_destroy_cq(cq));
}

static void role_x(struct rig *r, bool stop)
{
	struct ibv_cq *cq = rig_cq(r, 16, NULL);
	struct ibv_qp *x = queue(r, cq, 0);
	uint64_t word = 1;
	struct ibv_sge sge = {(uintptr_t)&word, 8, 0};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_INLINE}, *bad;

	st->x[0] = x->qp_num;
	barrier(0);
	connect_to(x, st->x[1]);
	barrier(1);
	CHECK(!shca_post_send(x, &wr, &bad));
	const struct shca_qp *theirs = shca_number_get(r->m, st->t[0], SHCA_KIND_QP);
	if (!theirs || !atomic_load(&theirs->rnr_since))
		FAIL("A's queue did not stall in X's hands");
	if (stop)
		raise(SIGSTOP);
	CHECK(!shca_destroy_qp(x) && !shca_destroy_cq(cq));
}

static int play(bool stop)
{
	char name[64];
	pid_t pid[3];
	int failed = 0, status;

	unsetenv("SHCA_FABRIC_FD");
	snprintf(name, sizeof(name), "executor_leaves-%d-%d", (int)getpid(), stop);
	st = mmap(NULL, sizeof(*st), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(st != MAP_FAILED);
	for (int i = 0; i < 3; i++) {
		pid[i] = fork();
		CHECK(pid[i] >= 0);
		if (!pid[i]) {
			struct rig r;
			alarm(120);
			rig_join(&r, name);
			i == 0 ? role_a(&r) : i == 1 ? role_b(&r) : role_x(&r, stop);
			rig_leave(&r);
			_exit(0);
		}
	}
	for (int i = 0; i < 3; i++) {
		waitpid(pid[i], &status, 0);
		if (i == 0)
			kill(pid[2], SIGCONT);
		if (status) {
			fprintf(stderr, "FAIL: %c: status %#x, X %s\n", "ABX"[i], status, stop ? "stops" : "leaves");
			failed = 1;
			atomic_store(&st->done, 1);
		}
	}
	return failed;
}

int main(void)
{
	return play(false) | play(true);
}
