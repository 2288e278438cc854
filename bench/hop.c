/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hop: the cost of one WAIT -> SEND step of a task list on the device. Two processes, each pinned to a separate CPU; no MPI.
 *
 * A chain of N hops: hop i is a SEND from process i mod 2 to the other, into a separate completion queue, after a WAIT for the
 * arrival of hop i - 1. Both processes post their halves; then process 0 sends the first hop, and polls for the last.
 *
 *     process 0   SEND 0 ─╮  WAIT 1, SEND 2 ─╮  WAIT 3 ...
 *     process 1           ╰▶ WAIT 0, SEND 1 ─╯▶ ...
 *
 * Two forms: both requests in one cross-channel queue (wait_send); or, as in the collectives, a WAIT and a
 * SEND_ENABLE in the process's one master queue, and the SEND in a managed queue (wait_enable_send).
 *
 * The figure is the time of a chain divided by the number of hops, which includes the first send and the last poll. The senders poll
 * their own completions only now and then, so that their queues do not fill.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <ctype.h>
#include <errno.h>
#include <infiniband/verbs_exp.h>
#include <sched.h>
#include <shca.h>
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
#include <signal.h>
#include <time.h>
#include <unistd.h>

enum { SIGNAL_EVERY = 8, LINE = 64, MOST_HOPS = 512, MOST_ROUNDS = 100000, PATIENCE_S = 20 };
enum form { WAIT_SEND, WAIT_ENABLE_SEND, FORMS };
static const char *const form_names[FORMS] = {"wait_send", "wait_enable_send"};

static int hops = 64, rounds = 300, warm_up = 30;
static int cpus[2] = {-1, -1};
static bool csv;

/* Memory that the two processes share. */
struct shared {
	_Alignas(2 * LINE) atomic_uint gate[2];
	_Alignas(2 * LINE) atomic_uint ball;
	_Alignas(2 * LINE) uint32_t send_qpn[MOST_HOPS], recv_qpn[MOST_HOPS];
};
static struct shared *sh;
static int me;
static unsigned phase;

static void die(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));
static void die(const char *format, ...)
{
	va_list ap;

	fprintf(stderr, "hop: ");
	va_start(ap, format);
	vfprintf(stderr, format, ap);
	va_end(ap);
	fputc('\n', stderr);
	exit(1);
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* A barrier of the two processes, without the device. */
static void meet(void)
{
	double end = now() + PATIENCE_S * 1e9;

	atomic_store(&sh->gate[me], ++phase);
	for (unsigned spins = 1; atomic_load(&sh->gate[1 - me]) < phase; spins++) {
		if (spins % 4096)
			continue;
		sched_yield();
		if (now() > end)
			die("the other process did not come within %d s", PATIENCE_S);
	}
}

static void pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		die("cannot run on CPU %d: %s", cpu, strerror(errno));
}

/* ---- queues ---------------------------------------------------------------------------------------------------- */

struct chain {
	enum form form;
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_cq *send_cq;
	struct ibv_cq *arrived[MOST_HOPS];	/* of the hops that come here */
	struct ibv_qp *send[MOST_HOPS], *recv[MOST_HOPS];
	struct ibv_qp *master;
	int own;				/* hops from here, the first one of process 0 left out */
};

static struct ibv_cq *new_cq(struct chain *c, int entries)
{
	struct ibv_exp_cq_init_attr attr = {.comp_mask = IBV_EXP_CQ_INIT_ATTR_FLAGS,
					    .flags = IBV_EXP_CQ_CREATE_CROSS_CHANNEL};
	struct ibv_cq *cq = ibv_exp_create_cq(c->ctx, entries, NULL, NULL, 0, &attr);

	if (!cq)
		die("no completion queue of %d entries: %s", entries, strerror(errno));
	return cq;
}

static struct ibv_qp *new_qp(struct chain *c, uint32_t flags, uint32_t depth, struct ibv_cq *recv_cq)
{
	struct ibv_exp_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC, .pd = c->pd, .send_cq = c->send_cq, .recv_cq = recv_cq, .exp_create_flags = flags,
		.comp_mask = IBV_EXP_QP_INIT_ATTR_PD | IBV_EXP_QP_INIT_ATTR_CREATE_FLAGS,
		.cap = {.max_send_wr = depth, .max_recv_wr = 2, .max_send_sge = 1, .max_recv_sge = 1},
	};
	struct ibv_qp *qp = ibv_exp_create_qp(c->ctx, &attr);

	if (!qp)
		die("no queue pair with create flags %#x: %s", flags, strerror(errno));
	return qp;
}

static void connect_qp(struct ibv_qp *qp, uint32_t dest)
{
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_LOCAL_WRITE};
	int err = ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS);

	a = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_4096, .dest_qp_num = dest,
				 .max_dest_rd_atomic = 1, .min_rnr_timer = 1, .ah_attr = {.dlid = 1, .port_num = 1}};
	if (!err)
		err = ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
						    IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
	a = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 6, .rnr_retry = 6, .max_rd_atomic = 1};
	if (!err)
		err = ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
						    IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC);
	if (err)
		die("connecting a queue failed: %s", strerror(err));
}

static bool from_here(int hop)
{
	return hop % 2 == me;
}

static void make(struct chain *c)
{
	struct ibv_device **list = shca_get_device_list(NULL);
	struct ibv_exp_device_attr attr = {.comp_mask = IBV_EXP_DEVICE_ATTR_EXP_CAP_FLAGS};
	uint32_t flags = c->form == WAIT_SEND ? IBV_EXP_QP_CREATE_CROSS_CHANNEL : IBV_EXP_QP_CREATE_MANAGED_SEND;

	c->ctx = list && list[0] ? ibv_open_device(list[0]) : NULL;
	if (!c->ctx)
		die("the software device cannot be opened: %s", strerror(errno));
	shca_free_device_list(list);
	if (ibv_exp_query_device(c->ctx, &attr) || !(attr.exp_device_cap_flags & IBV_EXP_DEVICE_CROSS_CHANNEL))
		die("%s has no cross-channel support", ibv_get_device_name(c->ctx->device));
	c->pd = ibv_alloc_pd(c->ctx);
	if (!c->pd)
		die("no protection domain: %s", strerror(errno));
	c->send_cq = new_cq(c, 4 * hops);
	if (c->form == WAIT_ENABLE_SEND)
		c->master = new_qp(c, IBV_EXP_QP_CREATE_CROSS_CHANNEL, (uint32_t)(SIGNAL_EVERY * hops + 2), c->send_cq);
	for (int i = 0; i < hops; i++) {
		if (from_here(i)) {
			c->send[i] = new_qp(c, i ? flags : 0, 2 * SIGNAL_EVERY + 2, c->send_cq);
			sh->send_qpn[i] = c->send[i]->qp_num;
			c->own += i > 0;
		} else {
			c->arrived[i] = new_cq(c, 4);
			c->recv[i] = new_qp(c, 0, 1, c->arrived[i]);
			sh->recv_qpn[i] = c->recv[i]->qp_num;
		}
	}
	meet();
	if (c->master)
		connect_qp(c->master, c->master->qp_num);
	for (int i = 0; i < hops; i++)
		connect_qp(from_here(i) ? c->send[i] : c->recv[i], from_here(i) ? sh->recv_qpn[i] : sh->send_qpn[i]);
	meet();
}

static void unmake(struct chain *c)
{
	int err = 0;

	meet();
	for (int i = 0; i < hops && !err; i++) {
		err = ibv_destroy_qp(from_here(i) ? c->send[i] : c->recv[i]);
		if (!err && !from_here(i))
			err = ibv_destroy_cq(c->arrived[i]);
	}
	if (!err && c->master)
		err = ibv_destroy_qp(c->master);
	if (!err)
		err = ibv_destroy_cq(c->send_cq);
	if (!err)
		err = ibv_dealloc_pd(c->pd);
	if (!err)
		err = ibv_close_device(c->ctx);
	if (err)
		die("taking the queues down failed: %s", strerror(err));
}

/* ---- one round --------------------------------------------------------------------------------------------------- */

static void post_receives(struct chain *c)
{
	for (int i = 0; i < hops; i++) {
		struct ibv_recv_wr wr = {.wr_id = (uint64_t)i}, *bad;
		int err = from_here(i) ? 0 : ibv_post_recv(c->recv[i], &wr, &bad);

		if (err)
			die("posting a receive failed: %s", strerror(err));
	}
}

/* This process's part of the chain: the arrival of hop i - 1 lets hop i go. */
static void post_tasks(struct chain *c, bool signal)
{
	static struct ibv_exp_send_wr wait[MOST_HOPS], enable[MOST_HOPS], send[MOST_HOPS];
	static struct ibv_exp_task task[MOST_HOPS + 1];
	struct ibv_exp_send_wr *last = NULL;
	struct ibv_exp_task *bad;
	int n = 0, err;

	for (int i = 1; i < hops; i++) {
		if (!from_here(i))
			continue;
		send[i] = (struct ibv_exp_send_wr){.wr_id = (uint64_t)i, .exp_opcode = IBV_EXP_WR_SEND,
						   .exp_send_flags = signal ? IBV_EXP_SEND_SIGNALED : 0};
		wait[i] = (struct ibv_exp_send_wr){.exp_opcode = IBV_EXP_WR_CQE_WAIT,
						   .exp_send_flags = IBV_EXP_SEND_WAIT_EN_LAST,
						   .task.cqe_wait = {c->arrived[i - 1], 1}};
		enable[i] = (struct ibv_exp_send_wr){.exp_opcode = IBV_EXP_WR_SEND_ENABLE,
						     .exp_send_flags = IBV_EXP_SEND_WAIT_EN_LAST,
						     .task.wqe_enable = {c->send[i], 1}};
		task[n] = (struct ibv_exp_task){.task_type = IBV_EXP_TASK_SEND, .item = {.qp = c->send[i], .send_wr = &send[i]}};
		if (c->form == WAIT_SEND) {
			wait[i].next = &send[i];
			task[n].item.send_wr = &wait[i];
		} else {
			wait[i].next = &enable[i];
			if (last)
				last->next = &wait[i];
			else
				task[MOST_HOPS].item.send_wr = &wait[i];
			last = &enable[i];
		}
		if (n)
			task[n - 1].next = &task[n];
		n++;
	}
	if (last) {
		last->exp_send_flags |= signal ? IBV_EXP_SEND_SIGNALED : 0;
		task[MOST_HOPS].task_type = IBV_EXP_TASK_SEND;
		task[MOST_HOPS].item.qp = c->master;
		task[n - 1].next = &task[MOST_HOPS];
	}
	err = n ? ibv_exp_post_task(c->ctx, &task[0], &bad) : 0;
	if (err)
		die("posting the task list failed: %s", strerror(err));
}

static void poll_one(struct ibv_cq *cq, const char *what)
{
	double end = 0;
	struct ibv_wc wc;
	int n;

	for (unsigned spins = 1; !(n = ibv_poll_cq(cq, 1, &wc)); spins++) {
		if (spins % 65536)
			continue;
		if (!end)
			end = now() + PATIENCE_S * 1e9;
		else if (now() > end)
			die("%s: no completion within %d s", what, PATIENCE_S);
	}
	if (n < 0 || wc.status != IBV_WC_SUCCESS)
		die("%s: %s", what, n < 0 ? "polling failed" : ibv_wc_status_str(wc.status));
}

/* ns of the chain; process 0's. */
static double one_round(struct chain *c, bool signal)
{
	struct ibv_send_wr first = {.opcode = IBV_WR_SEND, .send_flags = signal ? IBV_SEND_SIGNALED : 0}, *bad;
	double begin = 0, end = 0;
	int err;

	post_receives(c);
	meet();
	post_tasks(c, signal);
	meet();
	if (me == 0) {
		begin = now();
		err = ibv_post_send(c->send[0], &first, &bad);
		if (err)
			die("sending the first hop failed: %s", strerror(err));
		poll_one(c->arrived[hops - 1], "the last hop");
		end = now();
	}
	meet();
	for (int i = 0; i < hops; i++)
		if (!from_here(i) && !(me == 0 && i == hops - 1))
			poll_one(c->arrived[i], "a hop");
	for (int i = 0; signal && i < c->own + (me == 0) + (c->master && c->own); i++)
		poll_one(c->send_cq, "a request");
	return end - begin;
}

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double clock_cost(void)
{
	double least = 1e9;

	for (int i = 0; i < 1000; i++) {
		double t = now(), d = now() - t;

		least = d < least ? d : least;
	}
	return least;
}

/* ns for a cache line to move from one CPU to the other, the least of many: the reference for a hop. */
static double line_hop(void)
{
	enum { TURNS = 2000, TRIES = 50 };
	double best = 1e9;

	for (int t = 0; t < TRIES; t++) {
		atomic_store(&sh->ball, 0);
		meet();
		double begin = now();
		for (unsigned i = 0; i < TURNS; i++) {
			unsigned spins = 0;
			while (atomic_load_explicit(&sh->ball, memory_order_acquire) != 2 * i + (unsigned)me)
				/* both on one CPU, or much else there */
				if (!(++spins % 65536))
					sched_yield();
			atomic_store_explicit(&sh->ball, 2 * i + (unsigned)me + 1, memory_order_release);
		}
		double ns = (now() - begin) / (2 * TURNS);
		best = ns < best ? ns : best;
		meet();
	}
	return best;
}

static void figure(enum form form, double line)
{
	struct chain c = {.form = form};
	double *ns = calloc((size_t)rounds, sizeof(*ns)), clock = clock_cost(), mid, best;

	if (!ns)
		die("no memory for %d figures", rounds);
	make(&c);
	for (int r = -warm_up; r < rounds; r++) {
		double t = one_round(&c, (r + warm_up) % SIGNAL_EVERY == SIGNAL_EVERY - 1);

		if (r >= 0)
			ns[r] = (t - clock) / hops;
	}
	unmake(&c);
	qsort(ns, (size_t)rounds, sizeof(*ns), ascending);
	mid = ns[rounds / 2];
	best = ns[0];
	free(ns);
	if (me)
		return;
	if (csv)
		printf("%s,,ns,%.3f,%.3f,%d,\n", form_names[form], mid, best, rounds);
	else
		printf("%-24s %9d %12.2f %12.2f  ns; at most 3 line hops of %.1f and 100: %.1f, %s\n", form_names[form], hops, mid, best,
		       line, 3 * line + 100, best <= 3 * line + 100 ? "reached" : "not reached");
	fflush(stdout);
}

/* ---- options --------------------------------------------------------------------------------------------------- */

static void usage(FILE *f)
{
	fprintf(f, "hop: ns per WAIT -> SEND step of a chain of task lists on the software device, between two processes\n"
		"Options:\n"
		"  -n HOPS    of a chain, even (default %d, at most %d)\n"
		"  -r N       chains that are timed (default %d)\n"
		"  -b A,B     CPUs of the two processes (default: the first two allowed ones)\n"
		"  -o FORMAT  table or csv\n"
		"  -h         print this\n", hops, MOST_HOPS, rounds);
}

static int number(const char *text, int least, int most, const char *what)
{
	char *end;
	long n = strtol(text, &end, 10);

	if (end == text || *end || n < least || n > most) {
		fprintf(stderr, "hop: %s '%s': a number from %d to %d is wanted (-h lists the options)\n", what, text, least, most);
		exit(2);
	}
	return (int)n;
}

static void options(int argc, char **argv)
{
	char *comma;
	int c;

	opterr = 0;
	while ((c = getopt(argc, argv, ":n:r:b:o:h")) != -1) {
		switch (c) {
		case 'n':
			/* process 0 begins, and notices the end */
			hops = number(optarg, 2, MOST_HOPS, "-n") & ~1;
			break;
		case 'r':
			rounds = number(optarg, 1, MOST_ROUNDS, "-r");
			break;
		case 'b':
			comma = strchr(optarg, ',');
			if (comma)
				*comma++ = '\0';
			cpus[0] = number(optarg, 0, CPU_SETSIZE - 1, "-b");
			cpus[1] = comma ? number(comma, 0, CPU_SETSIZE - 1, "-b") : cpus[0];
			break;
		case 'o':
			csv = !strcmp(optarg, "csv");
			if (csv || !strcmp(optarg, "table"))
				break;
			fprintf(stderr, "hop: -o '%s' is unknown; table and csv are known (-h lists the options)\n", optarg);
			exit(2);
		case 'h':
			usage(stdout);
			exit(0);
		default:
			fprintf(stderr, "hop: '%s': %s (-h lists the options)\n", argv[optind - 1],
				c == ':' ? "a value is missing" : "unknown option; known are -n -r -b -o -h");
			exit(2);
		}
	}
	if (optind < argc) {
		fprintf(stderr, "hop: '%s': no arguments are taken but options (-h lists them)\n", argv[optind]);
		exit(2);
	}
}

static void choose_cpus(void)
{
	cpu_set_t set;

	if (cpus[0] >= 0)
		return;
	if (sched_getaffinity(0, sizeof(set), &set))
		die("sched_getaffinity: %s", strerror(errno));
	for (int c = 0; c < CPU_SETSIZE && cpus[1] < 0; c++)
		if (CPU_ISSET(c, &set))
			cpus[cpus[0] >= 0] = c;
	if (cpus[1] < 0)
		cpus[1] = cpus[0];
}

int main(int argc, char **argv)
{
	char fabric[64];
	int status;
	pid_t child;

	options(argc, argv);
	choose_cpus();
	sh = mmap(NULL, sizeof(*sh), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (sh == MAP_FAILED)
		die("no shared memory of %zu bytes: %s", sizeof(*sh), strerror(errno));
	snprintf(fabric, sizeof(fabric), "hop-%d", (int)getpid());
	if (setenv("SHCA_FABRIC", fabric, 1))
		die("setenv: %s", strerror(errno));
	child = fork();
	if (child < 0)
		die("fork: %s", strerror(errno));
	if (!child) {
		me = 1;
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	}
	pin(cpus[me]);
	if (!me && csv)
		printf("name,bytes,unit,median,best,repeats,note\n");
	else if (!me)
		printf("# CPUs %d and %d; chains of %d hops, each form %d times\n%-24s %9s %12s %12s  %s\n", cpus[0], cpus[1], hops,
		       rounds, "# what", "hops", "median", "best", "unit");
	double line = line_hop();
	for (int f = 0; f < FORMS; f++)
		figure((enum form)f, line);
	if (me)
		_exit(0);
	if (waitpid(child, &status, 0) < 0 || !WIFEXITED(status) || WEXITSTATUS(status))
		die("the second process ended badly (status 0x%x)", status);
	return 0;
}
