/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * scale: the cost of an operation next to few and to many other objects: 10, 1,000 and 20,000, or the numbers given as arguments.
 * The device alone, one process, no MPI. A row's median of up to 64 operations, in ns, for each number; at last, the memory of a
 * queue.
 *
 * If a number of objects cannot be created, the row has the reason instead of a figure.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dirent.h>
#include <errno.h>
#include <infiniband/verbs_exp.h>
#include <shca.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { TIMES = 64, SIZES = 8, EXTRA = TIMES + 1 };

static struct ibv_context *ctx;
static struct ibv_pd *pd;
static int most;			/* the largest number of objects */
static struct ibv_qp **qp[2];		/* room for `most` and EXTRA */

static void must(int err, const char *what)
{
	if (!err)
		return;
	fprintf(stderr, "scale: %s: %s\n", what, strerror(err < 0 ? errno : err));
	exit(1);
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(double *ns, int n)
{
	qsort(ns, (size_t)n, sizeof(*ns), by_value);
	return ns[n / 2];
}

/* ---- objects ---------------------------------------------------------------------------------------------------------- */

static struct ibv_cq *completions(int entries)
{
	struct ibv_cq *cq = ibv_create_cq(ctx, entries, NULL, NULL, 0);

	must(cq ? 0 : -1, "completion queue");
	return cq;
}

/* NULL with errno. */
static struct ibv_qp *queue(struct ibv_cq *cq, struct ibv_srq *srq, uint32_t depth, uint32_t exp_flags)
{
	struct ibv_exp_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC, .pd = pd, .send_cq = cq, .recv_cq = cq, .srq = srq, .exp_create_flags = exp_flags,
		.comp_mask = IBV_EXP_QP_INIT_ATTR_PD | (exp_flags ? IBV_EXP_QP_INIT_ATTR_CREATE_FLAGS : 0),
		.cap = {.max_send_wr = depth, .max_recv_wr = srq ? 0 : depth, .max_send_sge = 1, .max_recv_sge = 1},
	};
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};
	struct ibv_qp *q = ibv_exp_create_qp(ctx, &attr);

	if (q)
		must(ibv_modify_qp(q, &a, IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS), "INIT");
	return q;
}

static void connect_to(struct ibv_qp *q, const struct ibv_qp *to)
{
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_4096, .dest_qp_num = to->qp_num, .max_dest_rd_atomic = 1,
				.min_rnr_timer = 1, .ah_attr = {.dlid = 1, .port_num = 1}};

	must(ibv_modify_qp(q, &a, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				  IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER), "RTR");
	a = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS, .timeout = 25, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1};
	must(ibv_modify_qp(q, &a, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				  IBV_QP_MAX_QP_RD_ATOMIC), "RTS");
}

static void sends(struct ibv_qp *q)
{
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED}, *bad;

	must(ibv_post_send(q, &wr, &bad), "send");
}

static struct ibv_srq *shared_receives(uint32_t room)
{
	struct ibv_srq_init_attr init = {.attr = {.max_wr = room, .max_sge = 1}};
	struct ibv_srq *srq = ibv_create_srq(pd, &init);

	must(srq ? 0 : -1, "shared receive queue");
	return srq;
}

static void queues_go(int n)
{
	for (int side = 0; side < 2; side++)
		for (int i = 0; i < n; i++) {
			if (qp[side][i])
				must(ibv_destroy_qp(qp[side][i]), "destroy a queue");
			qp[side][i] = NULL;
		}
}

/* ---- rows: n objects beside; ns of one or two operations. 0 or an errno value ----------------------------------------------- */

static int make_queues(int n, double ns[2])
{
	struct ibv_cq *cq = completions(8);
	double made[TIMES], gone[TIMES];
	int err = 0;

	for (int i = 0; !err && i < n; i++)
		err = (qp[0][i] = queue(cq, NULL, 4, 0)) ? 0 : errno;
	for (int k = 0; !err && k < TIMES; k++) {
		double t0 = now();
		struct ibv_qp *q = queue(cq, NULL, 4, 0);
		double t1 = now();
		if (!q) {
			err = errno;
			break;
		}
		must(ibv_destroy_qp(q), "destroy a queue");
		gone[k] = now() - t1;
		made[k] = t1 - t0;
	}
	queues_go(n);
	must(ibv_destroy_cq(cq), "destroy a CQ");
	if (err)
		return err;
	ns[0] = median(made, TIMES);
	ns[1] = median(gone, TIMES);
	return 0;
}

static int make_cqs(int n, double ns[2])
{
	struct ibv_cq **cq = calloc((size_t)n, sizeof(*cq));
	double made[TIMES], gone[TIMES];
	int err = cq ? 0 : ENOMEM;

	for (int i = 0; !err && i < n; i++)
		err = (cq[i] = ibv_create_cq(ctx, 8, NULL, NULL, 0)) ? 0 : errno;
	for (int k = 0; !err && k < TIMES; k++) {
		double t0 = now();
		struct ibv_cq *c = completions(8);
		double t1 = now();
		must(ibv_destroy_cq(c), "destroy a CQ");
		gone[k] = now() - t1;
		made[k] = t1 - t0;
	}
	for (int i = 0; cq && i < n && cq[i]; i++)
		must(ibv_destroy_cq(cq[i]), "destroy a CQ");
	free(cq);
	if (err)
		return err;
	ns[0] = median(made, TIMES);
	ns[1] = median(gone, TIMES);
	return 0;
}

/* n senders wait for a receive of one SRQ: a receive is posted, for one of them; one of them goes. */
static int stalled(int n, double ns[2])
{
	struct ibv_cq *cq = completions(2 * (n + EXTRA));
	struct ibv_srq *srq = shared_receives(1024);
	struct ibv_recv_wr wr = {.num_sge = 0}, *bad;
	double posted[TIMES], gone[TIMES];
	int err = 0, all = n + EXTRA, times = n < TIMES ? n : TIMES;

	for (int i = 0; !err && i < all; i++) {
		qp[0][i] = queue(cq, NULL, 1, 0);
		qp[1][i] = qp[0][i] ? queue(cq, srq, 1, 0) : NULL;
		if (!qp[1][i]) {
			err = errno;
			break;
		}
		connect_to(qp[0][i], qp[1][i]);
		connect_to(qp[1][i], qp[0][i]);
		sends(qp[0][i]);
	}
	for (int k = 0; !err && k < TIMES; k++) {
		double t0 = now();
		must(ibv_post_srq_recv(srq, &wr, &bad), "receive");
		posted[k] = now() - t0;
	}
	for (int k = 0; !err && k < times; k++) {
		/* the last ones have had no receive */
		double t0 = now();
		must(ibv_destroy_qp(qp[0][all - 1 - k]), "destroy a queue");
		gone[k] = now() - t0;
		qp[0][all - 1 - k] = NULL;
	}
	queues_go(all);
	must(ibv_destroy_srq(srq), "destroy an SRQ");
	must(ibv_destroy_cq(cq), "destroy a CQ");
	if (err)
		return err;
	ns[0] = median(posted, TIMES);
	ns[1] = median(gone, times);
	return 0;
}

/* n receives are posted into memory; then a region of that memory is deregistered. */
static int deregister(int n, double ns[2])
{
	char *mem = shca_alloc(ctx, 4096);
	double took[TIMES];

	(void)ns[1];
	must(mem ? 0 : -1, "memory");
	if (n > 32768)
		return ERANGE;
	struct ibv_srq *srq = shared_receives((uint32_t)n);
	struct ibv_mr *mr = ibv_reg_mr(pd, mem, 4096, IBV_ACCESS_LOCAL_WRITE), *other;
	must(mr ? 0 : -1, "region");
	struct ibv_sge sge = {(uintptr_t)mem, 64, mr->lkey};
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;
	for (int i = 0; i < n; i++)
		must(ibv_post_srq_recv(srq, &wr, &bad), "receive");
	for (int k = 0; k < TIMES; k++) {
		must((other = ibv_reg_mr(pd, mem, 4096, IBV_ACCESS_LOCAL_WRITE)) ? 0 : -1, "region");
		double t0 = now();
		must(ibv_dereg_mr(other), "deregister");
		took[k] = now() - t0;
	}
	must(ibv_destroy_srq(srq), "destroy an SRQ");
	must(ibv_dereg_mr(mr), "deregister");
	must(shca_free(ctx, mem), "free");
	ns[0] = median(took, TIMES);
	return 0;
}

/* n queues have waited for the first completion of a CQ. Cost of a NOP that completes there. */
static int once_waited_on(int n, double ns[2])
{
	struct ibv_cq *cq = completions(1024), *own = completions(n + EXTRA);
	struct ibv_exp_send_wr done = {.exp_opcode = IBV_EXP_WR_NOP, .exp_send_flags = IBV_EXP_SEND_SIGNALED}, *bad;
	struct ibv_exp_send_wr wait = {.exp_opcode = IBV_EXP_WR_CQE_WAIT, .task.cqe_wait = {.cq = cq, .cq_count = 1}};
	struct ibv_qp *nop = queue(cq, NULL, 4 * TIMES, IBV_EXP_QP_CREATE_CROSS_CHANNEL);
	double took[TIMES];
	struct ibv_wc wc;
	int err = nop ? 0 : errno;

	(void)ns[1];
	if (nop)
		connect_to(nop, nop);
	for (int i = 0; !err && i < n; i++) {
		qp[0][i] = queue(own, NULL, 2, IBV_EXP_QP_CREATE_CROSS_CHANNEL);
		if (!qp[0][i]) {
			err = errno;
			break;
		}
		connect_to(qp[0][i], nop);
		must(ibv_exp_post_send(qp[0][i], &wait, &bad), "wait");
	}
	for (int k = -1; !err && k < TIMES; k++) {
		double t0 = now();
		must(ibv_exp_post_send(nop, &done, &bad), "NOP");
		if (k >= 0)	/* the first completion releases the n queues */
			took[k] = now() - t0;
		while (ibv_poll_cq(cq, 1, &wc) > 0)
			;
	}
	queues_go(n);
	if (nop)
		must(ibv_destroy_qp(nop), "destroy a queue");
	must(ibv_destroy_cq(cq), "destroy a CQ");
	must(ibv_destroy_cq(own), "destroy a CQ");
	if (!err)
		ns[0] = median(took, TIMES);
	return err;
}

/* n requests wait for an answer, with a timer each. Cost of one more. */
static int timers(int n, double ns[2])
{
	struct ibv_cq *cq = completions(n + EXTRA);
	struct ibv_qp *silent = queue(cq, NULL, 1, 0);
	double took[TIMES];
	int err = silent ? 0 : errno;

	(void)ns[1];
	for (int i = 0; !err && i < n + TIMES; i++) {
		qp[0][i] = queue(cq, NULL, 1, 0);
		if (!qp[0][i]) {
			err = errno;
			break;
		}
		connect_to(qp[0][i], silent);
		double t0 = now();
		sends(qp[0][i]);
		if (i >= n)
			took[i - n] = now() - t0;
	}
	queues_go(n + TIMES);
	if (silent)
		must(ibv_destroy_qp(silent), "destroy a queue");
	must(ibv_destroy_cq(cq), "destroy a CQ");
	if (!err)
		ns[0] = median(took, TIMES);
	return err;
}

static const struct {
	const char *what[2];		/* the second one NULL: the row has one figure */
	int (*run)(int n, double ns[2]);
} rows[] = {
	{{"make a queue", "destroy a queue"}, make_queues},
	{{"make a CQ", "destroy a CQ"}, make_cqs},
	{{"a receive for stalled senders", "destroy a stalled sender"}, stalled},
	{{"deregister beside receives", NULL}, deregister},
	{{"a completion where queues waited", NULL}, once_waited_on},
	{{"a timer beside others", NULL}, timers},
};

/* ---- memory ----------------------------------------------------------------------------------------------------------- */

/* Bytes of the fabric's file: the one memory file that this process has mapped and open. */
static double fabric_bytes(void)
{
	DIR *d = opendir("/proc/self/fd");
	double bytes = 0;
	char to[256];

	for (struct dirent *e; d && (e = readdir(d));) {
		ssize_t n = readlinkat(dirfd(d), e->d_name, to, sizeof(to) - 1);
		struct stat s;
		to[n > 0 ? n : 0] = 0;
		if (!strncmp(to, "/memfd:", 7) && !fstat(atoi(e->d_name), &s) && (double)s.st_blocks * 512 > bytes)
			bytes = (double)s.st_blocks * 512;
	}
	if (d)
		closedir(d);
	return bytes;
}

static void memory(void)
{
	enum { QUEUES = 256 };
	static const uint32_t depth[] = {16, 128, 1024};

	printf("\n%-36s %10s %10s\n", "KiB of a queue of depth", "idle", "in use");
	for (size_t k = 0; k < sizeof(depth) / sizeof(depth[0]); k++) {
		struct ibv_cq *cq = completions(8);
		struct ibv_recv_wr recv = {.num_sge = 0}, *bad_recv;
		struct ibv_exp_send_wr nop = {.exp_opcode = IBV_EXP_WR_NOP}, *bad;
		double before = fabric_bytes();
		for (int i = 0; i < QUEUES; i++)
			must((qp[0][i] = queue(cq, NULL, depth[k], IBV_EXP_QP_CREATE_CROSS_CHANNEL)) ? 0 : -1, "queue");
		double idle = fabric_bytes();
		for (int i = 0; i < QUEUES; i++) {
			connect_to(qp[0][i], qp[0][i]);
			must(ibv_post_recv(qp[0][i], &recv, &bad_recv), "receive");
			must(ibv_exp_post_send(qp[0][i], &nop, &bad), "NOP");
		}
		double used = fabric_bytes();
		printf("%-36u %10.1f %10.1f\n", depth[k], (idle - before) / QUEUES / 1024, (used - before) / QUEUES / 1024);
		queues_go(QUEUES);
		must(ibv_destroy_cq(cq), "destroy a CQ");
	}
}

int main(int argc, char **argv)
{
	int size[SIZES] = {10, 1000, 20000}, sizes = 3;
	struct ibv_device **list = shca_get_device_list(NULL);

	if (argc > 1)
		for (sizes = 0; sizes < SIZES && sizes + 1 < argc; sizes++)
			if ((size[sizes] = atoi(argv[sizes + 1])) < 1 || size[sizes] > 1000000) {
				fprintf(stderr, "scale: %s is no number of objects (1 to 1000000)\nusage: scale [N...]\n", argv[sizes + 1]);
				return 2;
			}
	ctx = list && list[0] ? ibv_open_device(list[0]) : NULL;
	must(ctx ? 0 : -1, "the software device");
	shca_free_device_list(list);
	must((pd = ibv_alloc_pd(ctx)) ? 0 : -1, "protection domain");
	for (int i = 0; i < sizes; i++)
		most = size[i] > most ? size[i] : most;
	most = most < 256 ? 256 : most;
	for (int side = 0; side < 2; side++)
		must((qp[side] = calloc((size_t)(most + EXTRA), sizeof(*qp[side]))) ? 0 : -1, "memory");
	printf("%-36s", "ns (median), beside");
	for (int i = 0; i < sizes; i++)
		printf(" %10d", size[i]);
	for (size_t k = 0; k < sizeof(rows) / sizeof(rows[0]); k++) {
		double ns[SIZES][2] = {{0}};
		int err[SIZES];
		for (int i = 0; i < sizes; i++)
			err[i] = rows[k].run(size[i], ns[i]);
		for (int row = 0; row < 2 && rows[k].what[row]; row++) {
			printf("\n%-36s", rows[k].what[row]);
			for (int i = 0; i < sizes; i++)
				if (err[i])
					printf(" %10s", strerrorname_np(err[i]));
				else
					printf(" %10.0f", ns[i][row]);
		}
		fflush(stdout);
	}
	putchar('\n');
	memory();
	must(ibv_dealloc_pd(pd), "dealloc_pd");
	return ibv_close_device(ctx) != 0;
}
