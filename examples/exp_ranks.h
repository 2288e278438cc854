/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Common code of the examples of the experimental verbs: some processes (ranks), a page of shared memory by which they exchange
 * queue pair numbers and addresses, and the ordinary bring-up of RC queue pairs.
 *
 * With -s the example shows that the device needs no process: in every round all ranks but one post their list and stop
 * (SIGSTOP); then the last rank posts, and the operation completes while the other ranks are still stopped.
 */
#ifndef EXAMPLES_EXP_RANKS_H
#define EXAMPLES_EXP_RANKS_H

#include <errno.h>
#include <infiniband/verbs_exp.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MAX_RANKS = 256, MAX_ENDS = 16, TIME_LIMIT_S = 60 };

/* One end of a connection, and the memory that the remote end may address. */
struct end {
	uint32_t qpn, rkey;
	uint64_t addr;
	uint16_t lid;
};

static struct board {
	_Atomic uint32_t arrived, turn;			/* of meet() */
	_Atomic uint32_t go, finished;			/* -s: rounds that the last rank may post; rounds that the last rank has completed */
	_Atomic uint32_t entered[MAX_RANKS];		/* rounds that each rank has begun */
	struct end end[MAX_RANKS][MAX_ENDS];
} *board;

static int ranks = 4, rounds = 20, me = -1;
static bool stopping;
static pid_t child[MAX_RANKS];
static struct ibv_context *ctx;
static struct ibv_pd *pd;
static uint16_t lid;

__attribute__((noreturn, format(printf, 1, 2))) static inline void die(const char *format, ...)
{
	char text[256];
	int err = errno;
	va_list ap;

	va_start(ap, format);
	vsnprintf(text, sizeof(text), format, ap);
	va_end(ap);
	fprintf(stderr, "rank %d: %s%s%s\n", me, text, err ? ": " : "", err ? strerror(err) : "");
	exit(1);
}

/* ---- processes -------------------------------------------------------------------------------------------------- */

/* A barrier in shared memory, without the device. */
static inline void meet(void)
{
	uint32_t turn = atomic_load(&board->turn);

	if (atomic_fetch_add(&board->arrived, 1) + 1 == (uint32_t)ranks) {
		atomic_store(&board->arrived, 0);
		atomic_fetch_add(&board->turn, 1);
	}
	while (atomic_load(&board->turn) == turn)
		sched_yield();
}

/* Whether this rank posts last in the round (-s). */
static inline bool is_last(uint32_t round)
{
	return (int)(round % (uint32_t)ranks) == me;
}

/* Called before and after posting a round's list. */
static inline void before_posting(uint32_t round)
{
	while (stopping && is_last(round) && atomic_load(&board->go) <= round)
		sched_yield();
	atomic_store(&board->entered[me], round + 1);
}
static inline void behind_posting(uint32_t round, struct ibv_cq *done)
{
	struct ibv_wc wc;

	if (!stopping || is_last(round))
		return;
	if (ibv_poll_cq(done, 1, &wc))
		die("round %u is complete, but a rank has not posted it", round);
	if (raise(SIGSTOP))
		die("SIGSTOP");
}

/* Polls until the round is complete. */
static inline void poll_for_the_end(uint32_t round, struct ibv_cq *done)
{
	struct ibv_wc wc;
	int n;

	while (!(n = ibv_poll_cq(done, 1, &wc)))
		sched_yield();
	if (n < 0 || wc.status != IBV_WC_SUCCESS)
		die("round %u: %s", round, n < 0 ? "ibv_poll_cq" : ibv_wc_status_str(wc.status));
	if (stopping && is_last(round))
		atomic_store(&board->finished, round + 1);
}

/* Polls n completions. A send queue entry is free again when its completion has been polled. */
static inline void poll_for(struct ibv_cq *cq, int n)
{
	struct ibv_wc wc;

	for (int got; n; n -= got) {
		got = ibv_poll_cq(cq, 1, &wc);
		if (got < 0 || (got && wc.status != IBV_WC_SUCCESS))
			die("a completion: %s", got < 0 ? "ibv_poll_cq" : ibv_wc_status_str(wc.status));
		if (!got)
			sched_yield();
	}
}

static inline void end_all(void)
{
	for (int r = 0; r < ranks; r++)
		if (child[r] > 0)
			kill(child[r], SIGKILL);
}

/* Waits for a child that stops or ends. Returns true if it has ended; clears *ok if it failed. */
static inline bool child_ended(bool *ok)
{
	int status;
	pid_t pid = waitpid(-1, &status, WUNTRACED);

	if (pid > 0 && WIFSTOPPED(status))
		return false;
	for (int r = 0; pid > 0 && r < ranks; r++)
		if (child[r] == pid)
			child[r] = 0;
	*ok &= pid > 0 && WIFEXITED(status) && !WEXITSTATUS(status);
	if (!*ok)
		end_all();
	return true;
}

/* The first process, which is no rank, waits for the ranks. Returns the exit status. */
static inline int supervise(void)
{
	bool ok = true;
	int left = ranks;

	for (uint32_t round = 0; stopping && ok && round < (uint32_t)rounds; round++) {
		for (int stopped = 0; ok && stopped < ranks - 1;) {
			bool ended = child_ended(&ok);
			left -= ended;
			stopped += !ended;
		}
		/* all ranks but the last are stopped: the last may post */
		atomic_store(&board->go, round + 1);
		while (ok && atomic_load(&board->finished) <= round) {
			siginfo_t info = {0};
			sched_yield();
			if (!waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) && info.si_pid)
				left -= child_ended(&ok);
		}
		for (int r = 0; r < ranks; r++)
			if (child[r] > 0 && r != (int)(round % (uint32_t)ranks))
				kill(child[r], SIGCONT);
	}
	while (left > 0)
		left -= child_ended(&ok);
	return ok ? 0 : 1;
}

/* Returns in each rank; the first process ends in here. */
static inline void start_ranks(void)
{
	board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (board == MAP_FAILED)
		die("no memory to share");
	alarm(TIME_LIMIT_S);
	for (int r = 0; r < ranks; r++) {
		child[r] = fork();
		if (child[r] < 0) {
			end_all();
			die("fork");
		}
		if (!child[r]) {
			me = r;
			/* the kernel ends a stopped rank when the first process dies */
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			alarm(TIME_LIMIT_S);
			return;
		}
	}
	exit(supervise());
}

/* ---- ordinary verbs ----------------------------------------------------------------------------------------------- */

/* Opens the first device that has all of `flags`. */
static inline void open_device(uint64_t flags)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_port_attr port;

	for (int i = 0; list && list[i] && !ctx; i++) {
		struct ibv_exp_device_attr attr = {.comp_mask = IBV_EXP_DEVICE_ATTR_EXP_CAP_FLAGS};
		ctx = ibv_open_device(list[i]);
		if (ctx && (ibv_exp_query_device(ctx, &attr) || (attr.exp_device_cap_flags & flags) != flags)) {
			ibv_close_device(ctx);
			ctx = NULL;
		}
	}
	if (!ctx)
		die("no device with cross-channel requests%s", flags & IBV_EXP_DEVICE_EXT_ATOMICS ? " and extended atomics" : "");
	ibv_free_device_list(list);
	pd = ibv_alloc_pd(ctx);
	if (!pd || ibv_query_port(ctx, 1, &port))
		die("protection domain and port");
	lid = port.lid;
}

static inline struct ibv_cq *new_cq(int entries)
{
	struct ibv_exp_cq_init_attr attr = {.comp_mask = IBV_EXP_CQ_INIT_ATTR_FLAGS, .flags = IBV_EXP_CQ_CREATE_CROSS_CHANNEL};
	struct ibv_cq *cq = ibv_exp_create_cq(ctx, entries, NULL, NULL, 0, &attr);

	if (!cq)
		die("a completion queue of %d entries", entries);
	return cq;
}

/* An RC queue pair in INIT: receives may be posted. */
static inline struct ibv_qp *new_qp(uint32_t flags, struct ibv_cq *send_cq, struct ibv_cq *recv_cq)
{
	struct ibv_exp_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC, .send_cq = send_cq, .recv_cq = recv_cq,
		.cap = {.max_send_wr = 64, .max_recv_wr = 4, .max_send_sge = 2, .max_recv_sge = 1},
		.comp_mask = IBV_EXP_QP_INIT_ATTR_PD | IBV_EXP_QP_INIT_ATTR_CREATE_FLAGS, .pd = pd, .exp_create_flags = flags,
	};
	struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT, .port_num = 1,
				   .qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC};
	struct ibv_qp *qp = ibv_exp_create_qp(ctx, &attr);

	if (!qp)
		die("a queue pair with create flags %#x", flags);
	errno = ibv_modify_qp(qp, &init, IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS);
	if (errno)
		die("a queue pair to INIT");
	return qp;
}

/* Publishes this rank's i-th end; mr: memory that the remote end may address, or NULL. */
static inline void offer(int i, const struct ibv_qp *qp, const struct ibv_mr *mr)
{
	board->end[me][i] = (struct end){.qpn = qp->qp_num, .lid = lid, .addr = mr ? (uintptr_t)mr->addr : 0,
					 .rkey = mr ? mr->rkey : 0};
}

static inline void connect_qp(struct ibv_qp *qp, const struct end *to)
{
	struct ibv_qp_attr rtr = {.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_4096, .dest_qp_num = to->qpn,
				  .max_dest_rd_atomic = 1, .min_rnr_timer = 1, .ah_attr = {.dlid = to->lid, .port_num = 1}};
	struct ibv_qp_attr rts = {.qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1};

	errno = ibv_modify_qp(qp, &rtr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
					IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
	if (!errno)
		errno = ibv_modify_qp(qp, &rts, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
						IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
	if (errno)
		die("a queue pair to RTR and RTS");
}

static inline void post_receive(struct ibv_qp *qp, struct ibv_sge *sge)
{
	struct ibv_recv_wr wr = {.sg_list = sge, .num_sge = sge ? 1 : 0}, *bad;

	errno = ibv_post_recv(qp, &wr, &bad);
	if (errno)
		die("a receive");
}

/* ---- task lists ---------------------------------------------------------------------------------------------------- */

/* Builds a WAIT for `count` completions of cq beyond the CQ's wait index, and moves the index past them. */
static inline struct ibv_exp_send_wr wait_for(struct ibv_cq *cq, int count, struct ibv_exp_send_wr *next)
{
	return (struct ibv_exp_send_wr){.exp_opcode = IBV_EXP_WR_CQE_WAIT, .exp_send_flags = IBV_EXP_SEND_WAIT_EN_LAST,
					.task.cqe_wait = {.cq = cq, .cq_count = count}, .next = next};
}

static inline void post_list(struct ibv_exp_task *task, int n)
{
	struct ibv_exp_task *bad;

	for (int i = 0; i < n; i++)
		task[i].next = i + 1 < n ? &task[i + 1] : NULL;
	errno = ibv_exp_post_task(ctx, task, &bad);
	if (errno)
		die("task %d of the list", (int)(bad - task));
}

#endif
