/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A dissemination barrier as one task list per rank. In step k, rank r sends a message to rank r + 2^k and waits for the message of
 * rank r - 2^k; after ceil(log2(n)) steps each rank's entry is known to all ranks. A rank posts the whole barrier, and then polls
 * for one completion: the device executes the steps, also while the process computes, sleeps or is stopped.
 *
 *     master    ENABLE out[0]   WAIT arrived[0]   ENABLE out[1]   WAIT arrived[1]   ...   WAIT arrived[last], signaled ─▶ done
 *     out[k]    SEND to r + 2^k      managed: runs when the master enables it
 *     in[k]     receives from r - 2^k, completions to arrived[k]
 *
 * Each step has a separate completion queue, since a message of step k + 1 may arrive before a message of step k. A rank is at
 * most one barrier ahead of any other rank; so each list posts the receives of the next barrier, and every message finds a
 * receive.
 *
 *     exp_barrier [-n ranks] [-r rounds] [-s]
 */
#include "exp_ranks.h"

enum { MAX_STEPS = 8 };

static int steps;
static struct ibv_qp *master, *out[MAX_STEPS], *in[MAX_STEPS];
static struct ibv_cq *done, *sent, *arrived[MAX_STEPS];

static void set_up(void)
{
	const uint32_t cross = IBV_EXP_QP_CREATE_CROSS_CHANNEL;

	open_device(IBV_EXP_DEVICE_CROSS_CHANNEL);
	done = new_cq(4);
	sent = new_cq(4 * MAX_STEPS);
	/* the master sends nothing: it may be connected to itself */
	master = new_qp(cross, done, done);
	connect_qp(master, &(struct end){.qpn = master->qp_num, .lid = lid});
	for (int k = 0; k < steps; k++) {
		arrived[k] = new_cq(8);
		out[k] = new_qp(cross | IBV_EXP_QP_CREATE_MANAGED_SEND, sent, sent);
		in[k] = new_qp(0, sent, arrived[k]);
		post_receive(in[k], NULL);	/* for the first barrier */
		offer(2 * k, out[k], NULL);
		offer(2 * k + 1, in[k], NULL);
	}
	meet();
	for (int k = 0; k < steps; k++) {
		connect_qp(out[k], &board->end[(me + (1 << k)) % ranks][2 * k + 1]);
		connect_qp(in[k], &board->end[(me + ranks - (1 << k) % ranks) % ranks][2 * k]);
	}
	meet();
}

static void post_barrier(void)
{
	struct ibv_recv_wr receive[MAX_STEPS] = {0};
	struct ibv_exp_send_wr control[2 * MAX_STEPS], notify[MAX_STEPS];
	struct ibv_exp_task task[2 * MAX_STEPS + 1];
	int n = 0;

	for (int k = 0; k < steps; k++) {
		/* for the next barrier */
		task[n++] = (struct ibv_exp_task){.task_type = IBV_EXP_TASK_RECV, .item = {.qp = in[k], .recv_wr = &receive[k]}};
		notify[k] = (struct ibv_exp_send_wr){.exp_opcode = IBV_EXP_WR_SEND, .exp_send_flags = IBV_EXP_SEND_SIGNALED};
		task[n++] = (struct ibv_exp_task){.task_type = IBV_EXP_TASK_SEND, .item = {.qp = out[k], .send_wr = &notify[k]}};
		control[2 * k] = (struct ibv_exp_send_wr){
			.exp_opcode = IBV_EXP_WR_SEND_ENABLE, .exp_send_flags = IBV_EXP_SEND_WAIT_EN_LAST,
			.task.wqe_enable = {.qp = out[k], .wqe_count = 1}, .next = &control[2 * k + 1],
		};
		control[2 * k + 1] = wait_for(arrived[k], 1, k + 1 < steps ? &control[2 * k + 2] : NULL);
	}
	control[2 * steps - 1].exp_send_flags |= IBV_EXP_SEND_SIGNALED;
	task[n++] = (struct ibv_exp_task){.task_type = IBV_EXP_TASK_SEND, .item = {.qp = master, .send_wr = control}};
	post_list(task, n);
}

static void one_barrier(uint32_t round)
{
	before_posting(round);
	post_barrier();
	behind_posting(round, done);
	poll_for_the_end(round, done);
	/* the property of a barrier: every rank has entered before any rank leaves */
	for (int r = 0; r < ranks; r++)
		if (atomic_load(&board->entered[r]) <= round)
			die("left barrier %u, and rank %d has not come to it", round, r);
	/* polled completions free the queue entries for the next lists */
	poll_for(sent, steps);
	for (int k = 0; k < steps; k++)
		poll_for(arrived[k], 1);
}

int main(int argc, char **argv)
{
	int c;

	while ((c = getopt(argc, argv, "n:r:s")) != -1) {
		switch (c) {
		case 'n': ranks = atoi(optarg); break;
		case 'r': rounds = atoi(optarg); break;
		case 's': stopping = true; break;
		default: ranks = 0; break;
		}
	}
	if (ranks < 2 || ranks > MAX_RANKS || rounds < 1 || optind < argc) {
		fprintf(stderr, "usage: exp_barrier [-n ranks, 2 to %d] [-r rounds] [-s: all ranks but one stop]\n", MAX_RANKS);
		return 2;
	}
	while (1 << steps < ranks)
		steps++;
	start_ranks();
	set_up();
	for (uint32_t round = 0; round < (uint32_t)rounds; round++) {
		/* one rank is late in each barrier */
		if (!stopping && is_last(round))
			nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
		one_barrier(round);
	}
	meet();
	if (!me)
		printf("%d barriers of %d ranks%s\n", rounds, ranks, stopping ? ", all but one of which were stopped" : "");
	return 0;
}
