/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tasks: the cost of the experimental verbs on the device, each next to its reference, alternating, in one process; no MPI.
 *
 *  list     a task list of 64 NOPs                       beside 64 posts of one
 *  masked   a masked fetch-and-add of 8 bytes            beside an ordinary one
 *  calc     CALC of two vectors of 64 KiB, an RDMA WRITE beside memcpy and an addition of as much
 *  calc-net the same in network order, the manual's      beside the same, in the host's
 *
 * The result is the ratio of the shortest rounds, next to its target. Rounds alternate, so that other load of the machine affects
 * both.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <infiniband/verbs_exp.h>
#include <shca.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { LIST = 64, VECTOR = 65536, ATOMICS = 64 };

static int rounds = 2000;
static struct ibv_context *ctx;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_qp *qp;
static struct ibv_mr *mr;
static char *mem;			/* operands of CALC, its result, a copy; a word for atomics at the end */
enum { RESULT = 2 * VECTOR, COPY = 3 * VECTOR, WORD = 4 * VECTOR, MEMORY = 4 * VECTOR + 4096 };

static void must(int err, const char *what)
{
	if (!err)
		return;
	fprintf(stderr, "tasks: %s: %s\n", what, strerror(err < 0 ? errno : err));
	exit(1);
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void make(void)
{
	struct ibv_device **list = shca_get_device_list(NULL);
	struct ibv_exp_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC, .exp_create_flags = IBV_EXP_QP_CREATE_CROSS_CHANNEL,
		.comp_mask = IBV_EXP_QP_INIT_ATTR_PD | IBV_EXP_QP_INIT_ATTR_CREATE_FLAGS,
		.cap = {.max_send_wr = 2 * LIST, .max_recv_wr = 1, .max_send_sge = 2, .max_recv_sge = 1},
	};
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT, .port_num = 1,
				.qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC};

	ctx = list && list[0] ? ibv_open_device(list[0]) : NULL;
	must(ctx ? 0 : -1, "the software device");
	shca_free_device_list(list);
	pd = ibv_alloc_pd(ctx);
	cq = ibv_create_cq(ctx, 2 * LIST, NULL, NULL, 0);
	mem = shca_alloc(ctx, MEMORY);
	must(pd && cq && mem ? 0 : -1, "protection domain, completion queue, memory");
	memset(mem, 1, MEMORY);
	mr = ibv_reg_mr(pd, mem, MEMORY, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC);
	attr.pd = pd;
	attr.send_cq = attr.recv_cq = cq;
	qp = mr ? ibv_exp_create_qp(ctx, &attr) : NULL;
	must(qp ? 0 : -1, "memory region and queue pair");
	must(ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS), "INIT");
	a = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_4096, .dest_qp_num = qp->qp_num,
				 .max_dest_rd_atomic = 1, .min_rnr_timer = 1, .ah_attr = {.dlid = 1, .port_num = 1}};
	must(ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				     IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER), "RTR");
	a = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 6, .rnr_retry = 6, .max_rd_atomic = 1};
	must(ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				     IBV_QP_MAX_QP_RD_ATOMIC), "RTS");
}

static void unmake(void)
{
	must(ibv_destroy_qp(qp), "the queue pair goes");
	must(ibv_destroy_cq(cq), "the completion queue goes");
	must(ibv_dereg_mr(mr), "the region goes");
	must(ibv_dealloc_pd(pd), "the protection domain goes");
	must(ibv_close_device(ctx), "the device goes");
}

/* Of each batch the last one is signaled: that frees the slots of all. */
static void poll_one(void)
{
	struct ibv_wc wc;
	int n;

	while (!(n = ibv_poll_cq(cq, 1, &wc)))
		;
	must(n < 0 ? -1 : 0, "ibv_poll_cq");
	if (wc.status != IBV_WC_SUCCESS) {
		fprintf(stderr, "tasks: a request: %s\n", ibv_wc_status_str(wc.status));
		exit(1);
	}
}

/* ---- measurements: ns ------------------------------------------------------------------------------------------- */

static struct ibv_exp_send_wr nop[LIST];

static void make_nops(void)
{
	for (int i = 0; i < LIST; i++)
		nop[i] = (struct ibv_exp_send_wr){.exp_opcode = IBV_EXP_WR_NOP, .next = i + 1 < LIST ? &nop[i + 1] : NULL,
						  .exp_send_flags = i + 1 < LIST ? 0 : IBV_EXP_SEND_SIGNALED};
}

static double by_list(void)
{
	struct ibv_exp_task task = {.task_type = IBV_EXP_TASK_SEND, .item = {.qp = qp, .send_wr = nop}}, *bad;

	make_nops();
	double begin = now();
	must(ibv_exp_post_task(ctx, &task, &bad), "ibv_exp_post_task");
	double end = now();
	poll_one();
	return end - begin;
}

static double by_posts(void)
{
	struct ibv_exp_send_wr *bad;

	make_nops();
	for (int i = 0; i < LIST; i++)
		nop[i].next = NULL;
	double begin = now();
	for (int i = 0; i < LIST; i++)
		must(ibv_exp_post_send(qp, &nop[i], &bad), "ibv_exp_post_send");
	double end = now();
	poll_one();
	return end - begin;
}

static double atomics(int masked)
{
	struct ibv_sge sge = {(uintptr_t)mem + WORD + 64, 8, mr->lkey};
	struct ibv_exp_send_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;

	if (masked) {
		wr.exp_opcode = IBV_EXP_WR_EXT_MASKED_ATOMIC_FETCH_AND_ADD;
		wr.ext_op.masked_atomics.log_arg_sz = 3;
		wr.ext_op.masked_atomics.remote_addr = (uintptr_t)mem + WORD;
		wr.ext_op.masked_atomics.rkey = mr->rkey;
		wr.ext_op.masked_atomics.wr_data.inline_data.op.fetch_add =
			(struct ibv_exp_fetch_add){.add_val = 1, .field_boundary = 1ull << 31};
	} else {
		wr.exp_opcode = IBV_EXP_WR_ATOMIC_FETCH_AND_ADD;
		wr.wr.atomic.remote_addr = (uintptr_t)mem + WORD;
		wr.wr.atomic.rkey = mr->rkey;
		wr.wr.atomic.compare_add = 1;
	}
	double begin = now();
	for (int i = 0; i < ATOMICS; i++) {
		wr.exp_send_flags = (masked ? IBV_EXP_SEND_EXT_ATOMIC_INLINE : 0) | (i + 1 < ATOMICS ? 0 : IBV_EXP_SEND_SIGNALED);
		must(ibv_exp_post_send(qp, &wr, &bad), "an atomic");
	}
	double end = now();
	poll_one();
	return end - begin;
}

static double masked(void)
{
	return atomics(1);
}
static double ordinary(void)
{
	return atomics(0);
}

static double vector(uint64_t order)
{
	struct ibv_sge sge[2] = {{(uintptr_t)mem, VECTOR, mr->lkey}, {(uintptr_t)mem + VECTOR, VECTOR, mr->lkey}};
	struct ibv_exp_send_wr wr = {.exp_opcode = IBV_EXP_WR_RDMA_WRITE, .sg_list = sge, .num_sge = 2,
				     .exp_send_flags = IBV_EXP_SEND_SIGNALED | IBV_EXP_SEND_WITH_CALC | SHCA_EXP_SEND_CALC_VECTOR |
						       order}, *bad;

	wr.wr.rdma.remote_addr = (uintptr_t)mem + RESULT;
	wr.wr.rdma.rkey = mr->rkey;
	wr.op.calc.calc_op = IBV_EXP_CALC_OP_ADD;
	wr.op.calc.data_type = IBV_EXP_CALC_DATA_TYPE_INT;
	wr.op.calc.data_size = IBV_EXP_CALC_DATA_SIZE_64_BIT;
	double begin = now();
	must(ibv_exp_post_send(qp, &wr, &bad), "CALC");
	poll_one();
	return now() - begin;
}

static double calc(void)
{
	return vector(SHCA_EXP_SEND_CALC_HOST_ORDER);
}
static double calc_net(void)
{
	return vector(0);
}

/* The reference in plain C: memcpy into the result, then an addition. */
__attribute__((noinline)) static void add(int64_t *restrict a, const int64_t *restrict b, int n)
{
	for (int i = 0; i < n; i++)
		a[i] += b[i];
}
static double by_hand(void)
{
	double begin = now();

	memcpy(mem + COPY, mem, VECTOR);
	add((int64_t *)(void *)(mem + COPY), (const int64_t *)(const void *)(mem + VECTOR), VECTOR / 8);
	return now() - begin;
}

static const struct figure {
	const char *name, *what, *beside;
	double (*it)(void), (*other)(void);
	int each;			/* requests of a round */
	double most;			/* times the other */
} figures[] = {
	{"list", "task list of 64", "64 posts", by_list, by_posts, LIST, 1.0},
	{"masked", "masked FAA of 8 B", "ordinary FAA", masked, ordinary, ATOMICS, 1.2},
	{"calc", "CALC of 64 KiB", "memcpy and addition", calc, by_hand, 1, 1 / 0.7},
	{"calc-net", "... in network order", "memcpy and addition", calc_net, by_hand, 1, 1 / 0.7},
};

static void measure(const struct figure *f, int csv)
{
	double best[2] = {1e18, 1e18};

	for (int i = 0; i < rounds; i++) {
		double t[2] = {f->it(), f->other()};
		for (int k = 0; k < 2; k++)
			best[k] = t[k] < best[k] ? t[k] : best[k];
	}
	double ratio = best[0] / best[1];
	if (csv)
		printf("%s,%.1f,%.1f,%.3f,%.3f,%s\n", f->name, best[0] / f->each, best[1] / f->each, ratio, f->most,
		       ratio <= f->most ? "yes" : "no");
	else
		printf("%-20s %10.1f %-22s %10.1f %8.2f %8.2f  %s\n", f->what, best[0] / f->each, f->beside, best[1] / f->each, ratio,
		       f->most, ratio <= f->most ? "yes" : "no");
	fflush(stdout);
}

int main(int argc, char **argv)
{
	char fabric[64];
	int csv = 0, c;

	while ((c = getopt(argc, argv, "r:o:h")) != -1) {
		if (c == 'r' && atoi(optarg) > 0)
			rounds = atoi(optarg);
		else if (c == 'o' && (!strcmp(optarg, "csv") || !strcmp(optarg, "table")))
			csv = *optarg == 'c';
		else {
			fprintf(stderr, "usage: tasks [-r rounds] [-o table|csv]\n");
			return c == 'h' ? 0 : 2;
		}
	}
	snprintf(fabric, sizeof(fabric), "tasks-%d", (int)getpid());
	must(setenv("SHCA_FABRIC", fabric, 1), "setenv");
	make();
	printf(csv ? "name,ns,beside_ns,ratio,most,reached\n" :
		     "# what              ns each beside                    ns each    ratio  at most reached\n");
	for (unsigned i = 0; i < sizeof(figures) / sizeof(figures[0]); i++)
		measure(&figures[i], csv);
	unmake();
	return 0;
}
