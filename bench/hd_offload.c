/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hd_offload: is a nonblocking collective complete when a rank calls MPI_Wait, although no rank has entered MPI between
 * post and MPI_Wait?
 *
 * In every iteration one rank (a different one each time) is late: that rank posts only after the skew, K times the blocking
 * operation's time. The other ranks post at once and then compute (or sleep), without MPI calls, until the deadline
 *
 *     early   post |---------------- compute ----------------| Wait or Test
 *     late    |------ compute: skew ------| post |- compute -| Wait or Test
 *
 * In every other iteration the first call after the computation is MPI_Wait, and the program measures its cost; in the remaining
 * iterations the first call is MPI_Test, and the program records its flag. MPI_Test may make progress itself, so neither figure
 * is enough alone. All ranks are on one host and share a clock, which shows afterwards in which iterations the last rank posted
 * early enough before a rank's MPI_Wait. Operations of the other iterations cannot be complete: they are counted in the column
 * Unready and not judged.
 *
 * The CPU time charged is CLOCK_PROCESS_CPUTIME_ID over [post .. Wait] without the computation's own, summed over the
 * ranks, less the charge of the same loop without a collective; the same loop measures the blocking forms.
 *
 * A row is a proof if all three hold: nearly all judged operations were complete (Tested), enough operations were judged, and the device
 * has counted exactly the CALCs, WAITs, ENABLEs and atomics of the collective's graph (heddle_info --explain), and none where no
 * task list runs. The host executor is the negative control, which must fail.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "bench.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum { COMPUTE, SLEEP };
static const char *const while_names[] = {"compute", "sleep", NULL};

static const char *operations = "iallreduce,ibarrier";
static int meanwhile;			/* COMPUTE or SLEEP */
static double factor = 10;		/* skew in units of the blocking operation's time */
static double margin_us;		/* from the last post to Wait; 0: chosen */
static const char *sizes = "8,1024";
static bool stop;			/* the SIGSTOP demonstration instead */
static const char *wait_limit = "10";	/* seconds that the demonstration waits */
static bool incomplete;			/* the demonstration failed, or a row is no proof; the same on every rank */
static const struct hdb_collective **operation;
static size_t noperations;

/* Of the iterations of a row, per cent that may not be judged, and of those that are, per cent that must be complete. */
#define UNREADY_MOST 50
#define TESTED_LEAST 99

/* ---- time ----------------------------------------------------------------------------------------------------- */

static int64_t cpu_clock(clockid_t id)
{
	struct timespec t;

	clock_gettime(id, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void pass_until(int64_t deadline)
{
	int64_t left = deadline - hdb_now();

	if (left <= 0)
		return;
	if (meanwhile == COMPUTE) {
		hdb_compute(left, NULL, 0);
		return;
	}
	struct timespec t = {deadline / 1000000000, deadline % 1000000000};

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR)
		;
}

/* ---- one shape of a run ---------------------------------------------------------------------------------------- */

struct plan {
	const struct hdb_collective *c;
	struct hdb_work work;
	int iterations, skip;
	double block_us;	/* the blocking operation, all ranks together */
	int64_t skew, margin;	/* ns */
	double clock_ns;	/* a pair of clock readings */
};

/* The late rank of an iteration: pseudo-random, the same on every rank, each rank equally often. */
static int late_rank(int iteration)
{
	return (int)(hdb_seed(iteration, 0, 0, 1) % (uint64_t)hdb_ranks);
}

static double mean_over_ranks(double mine)
{
	double sum;

	MPI_Allreduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
	return sum / hdb_ranks;
}

/* µs of the blocking form, back to back with a barrier between, as hd_allreduce and hd_barrier measure. */
static double blocking_us(struct plan *p, int iterations, int skip)
{
	int64_t sum = 0, t;

	MPI_Barrier(MPI_COMM_WORLD);
	for (int i = 0; i < skip + iterations; i++) {
		t = hdb_now();
		p->c->call(&p->work);
		if (i >= skip)
			sum += hdb_now() - t;
		if (p->c->sized)
			MPI_Barrier(MPI_COMM_WORLD);
	}
	return mean_over_ranks((double)sum / 1e3 / iterations - p->clock_ns / 1e3);
}

/* Chooses skew, margin and how many iterations fit the budget. */
static void make_plan(struct plan *p)
{
	const int cpus = hdb_cpus(), per_cpu = (hdb_ranks + cpus - 1) / cpus;
	int few = 10, warm = 5;
	double seconds;

	p->clock_ns = hdb_clock_cost();
	p->iterations = hdb.iterations[0];
	p->skip = hdb.skip[0];
	p->block_us = blocking_us(p, few, warm);
	if (hdb.budget > 0 && p->block_us * 1e-6 * hdb.iterations[0] > hdb.budget)
		few = (int)(hdb.budget / (p->block_us * 1e-6)) + 1;
	else
		few = hdb.iterations[0];
	p->block_us = blocking_us(p, few, warm);
	p->skew = (int64_t)(p->block_us * factor * 1e3) + 1;
	if (margin_us > 0)
		p->margin = (int64_t)(margin_us * 1e3);
	else if (meanwhile == SLEEP)
		p->margin = 2 * p->skew + 300000;	/* a sleeper wakes late by tens of µs */
	else if (per_cpu > 1)
		p->margin = p->skew + (int64_t)per_cpu * 8000000; /* the late one gets the CPU after a slice or two */
	else
		p->margin = p->skew + 5000 + 2 * (int64_t)(p->block_us * 1e3);
	/* All ranks must plan alike. */
	int64_t mine[2] = {p->skew, p->margin}, most[2];

	MPI_Allreduce(mine, most, 2, MPI_INT64_T, MPI_MAX, MPI_COMM_WORLD);
	p->skew = most[0];
	p->margin = most[1];
	seconds = (double)(p->skew + p->margin) / 1e9 + p->block_us / 1e6;
	hdb_fit(seconds, &p->iterations, &p->skip);
}

/* ---- complete at Wait entry ------------------------------------------------------------------------------------ */

struct samples {
	int64_t *posted, *came;		/* per iteration: end of the post, entry of Wait or Test */
	double *start_ns;		/* in the call that posts */
	double *cost_ns;		/* in Wait or Test */
	unsigned char *flag;		/* of MPI_Test */
};

static bool tested(int iteration)
{
	return iteration % 2;
}

static void *array(size_t n, size_t bytes)
{
	void *p = calloc(n ? n : 1, bytes);

	if (!p)
		hdb_die("no memory for %zu samples: lower -i", n);
	return p;
}

static size_t one_nonblocking(struct plan *p, int i, struct samples *s, int slot)
{
	const bool late = late_rank(i) == hdb_rank;
	MPI_Request request;
	int64_t begin, from, after;
	int flag = 0;

	if (hdb.validate)
		hdb_prepare(&p->work, i);
	MPI_Barrier(MPI_COMM_WORLD);
	begin = hdb_now();
	if (late)
		pass_until(begin + p->skew);
	from = hdb_now();
	p->c->start(&p->work, &request);
	after = hdb_now();
	pass_until(begin + p->skew + p->margin);
	begin = hdb_now();
	if (tested(i))
		MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
	else
		MPI_Wait(&request, MPI_STATUS_IGNORE);
	if (slot >= 0) {
		s->cost_ns[slot] = (double)(hdb_now() - begin) - p->clock_ns;
		s->start_ns[slot] = (double)(after - from) - p->clock_ns;
		s->posted[slot] = after;
		s->came[slot] = begin;
		s->flag[slot] = (unsigned char)flag;
	}
	if (tested(i) && !flag)
		MPI_Wait(&request, MPI_STATUS_IGNORE);
	return hdb.validate && p->c->sized ? hdb_verify(&p->work, i) : 0;
}

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

struct verdict {
	double start_us, wait_median_us, wait_p99_us, cheap, tested, unready;	/* shares in per cent */
	bool judged;	/* enough iterations were */
};

/* Costs of the judged Waits of all ranks, sorted, on rank 0; returns their number. */
static int gather_costs(const double *mine, int n, double **all)
{
	int total = n;

	*all = NULL;
	if (hdb_rank) {
		MPI_Send(&n, 1, MPI_INT, 0, 1, MPI_COMM_WORLD);
		MPI_Send(mine, n, MPI_DOUBLE, 0, 2, MPI_COMM_WORLD);
		return 0;
	}
	*all = array((size_t)n, sizeof(double));
	memcpy(*all, mine, (size_t)n * sizeof(double));
	for (int r = 1; r < hdb_ranks; r++) {
		int more;

		MPI_Recv(&more, 1, MPI_INT, r, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		*all = realloc(*all, ((size_t)total + (size_t)more + 1) * sizeof(double));
		if (!*all)
			hdb_die("no memory for %d samples: lower -i", total + more);
		MPI_Recv(*all + total, more, MPI_DOUBLE, r, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		total += more;
	}
	qsort(*all, (size_t)total, sizeof(double), ascending);
	return total;
}

/* On rank 0: median over the iterations of the slowest rank's time in the posting call, µs. */
static double slowest_start(const double *mine, int n)
{
	double *most = array((size_t)n, sizeof(*most)), median;

	MPI_Reduce(mine, most, n, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
	qsort(most, (size_t)n, sizeof(*most), ascending);
	median = n ? most[n / 2] / 1e3 : 0;
	free(most);
	return median;
}

static void judge(struct plan *p, struct samples *s, struct verdict *v)
{
	const int n = p->iterations;
	int64_t *last = array((size_t)n, sizeof(*last));
	double *costs = array((size_t)n, sizeof(*costs)), *all;
	int64_t mine[5] = {0}, sum[5];	/* judged waits, cheap ones, judged tests, true ones, unready */
	int total;

	MPI_Allreduce(s->posted, last, n, MPI_INT64_T, MPI_MAX, MPI_COMM_WORLD);
	for (int i = 0; i < n; i++) {
		/* the operation can be complete no earlier than one operation's time after the last post */
		if (s->came[i] < last[i] + (int64_t)(p->block_us * 1e3)) {
			mine[4]++;
		} else if (tested(p->skip + i)) {
			mine[2]++;
			mine[3] += s->flag[i];
		} else {
			costs[mine[0]++] = s->cost_ns[i];
			mine[1] += s->cost_ns[i] <= p->block_us * 1e3 / 10;
		}
	}
	total = gather_costs(costs, (int)mine[0], &all);
	MPI_Allreduce(mine, sum, 5, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
	v->wait_median_us = total ? all[total / 2] / 1e3 : 0;
	v->wait_p99_us = total ? all[(int)((double)(total - 1) * 0.99)] / 1e3 : 0;
	v->cheap = sum[0] ? 100.0 * (double)sum[1] / (double)sum[0] : 0;
	v->tested = sum[2] ? 100.0 * (double)sum[3] / (double)sum[2] : 0;
	v->unready = 100.0 * (double)sum[4] / n / hdb_ranks;
	v->judged = v->unready <= UNREADY_MOST && sum[0] && sum[2];
	v->start_us = slowest_start(s->start_ns, n);
	free(all);
	free(costs);
	free(last);
}

static size_t measure_completion(struct plan *p, struct verdict *v)
{
	const size_t n = (size_t)p->iterations;
	struct samples s = {array(n, sizeof(int64_t)), array(n, sizeof(int64_t)), array(n, sizeof(double)),
			    array(n, sizeof(double)), array(n, 1)};
	size_t wrong = 0;

	for (int i = 0; i < p->skip + p->iterations; i++)
		wrong += one_nonblocking(p, i, &s, i - p->skip);
	judge(p, &s, v);
	free(s.posted);
	free(s.came);
	free(s.start_ns);
	free(s.cost_ns);
	free(s.flag);
	return wrong;
}

/* ---- CPU charged ----------------------------------------------------------------------------------------------- */

enum form { NONE, NONBLOCKING, BLOCKING };

static void compute_charged(int64_t deadline, int64_t *own)
{
	int64_t t = cpu_clock(CLOCK_THREAD_CPUTIME_ID);

	pass_until(deadline);
	*own += cpu_clock(CLOCK_THREAD_CPUTIME_ID) - t;
}

/* One iteration: time charged to this process beside its own computation, ns. *in_call: ns in the blocking call, or, of no
 * operation, in MPI_Wait of a null request, which nothing was charged for. */
static int64_t one_charged(struct plan *p, int i, enum form form, int64_t skew, int64_t *in_call)
{
	const bool late = late_rank(i) == hdb_rank;
	MPI_Request request = MPI_REQUEST_NULL;
	int64_t begin, from, called, own = 0, charged;

	MPI_Barrier(MPI_COMM_WORLD);
	begin = hdb_now();
	from = cpu_clock(CLOCK_PROCESS_CPUTIME_ID);
	compute_charged(late ? begin + skew : begin, &own);
	called = hdb_now();
	if (form == NONBLOCKING)
		p->c->start(&p->work, &request);
	else if (form == BLOCKING)
		p->c->call(&p->work);
	*in_call = hdb_now() - called;
	compute_charged(begin + skew + p->margin, &own);
	if (form == NONBLOCKING)
		MPI_Wait(&request, MPI_STATUS_IGNORE);
	charged = cpu_clock(CLOCK_PROCESS_CPUTIME_ID) - from - own;
	if (form == NONE) {
		called = hdb_now();
		MPI_Wait(&request, MPI_STATUS_IGNORE);
		*in_call = hdb_now() - called;
	}
	return charged;
}

/* µs per operation charged to all ranks together. *call_us: µs in the call; of the blocking one the mean, of a null request's MPI_Wait the
 * median over ranks and iterations, on rank 0. */
static double charged_us(struct plan *p, enum form form, int64_t skew, double *call_us)
{
	double *calls = array((size_t)p->iterations, sizeof(*calls)), *all, sum = 0, in_calls = 0;
	int64_t in_call;

	for (int i = 0; i < p->skip + p->iterations; i++) {
		int64_t t = one_charged(p, i, form, skew, &in_call);

		if (i < p->skip)
			continue;
		sum += (double)t;
		calls[i - p->skip] = (double)in_call - p->clock_ns;
		in_calls += calls[i - p->skip];
	}
	*call_us = mean_over_ranks(in_calls / 1e3 / p->iterations);
	if (form == NONE) {
		int n = gather_costs(calls, p->iterations, &all);

		*call_us = n ? all[n / 2] / 1e3 : 0;
		free(all);
	}
	free(calls);
	return mean_over_ranks(sum / 1e3 / p->iterations) * hdb_ranks;
}

/* ---- counters of the device -------------------------------------------------------------------------------------- */

/* Without a collective, which the device might have a part in. */
static void meet(void)
{
	for (int r = 1; r < hdb_ranks && hdb_rank == 0; r++)
		MPI_Recv(NULL, 0, MPI_BYTE, r, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	if (hdb_rank) {
		MPI_Send(NULL, 0, MPI_BYTE, 0, 3, MPI_COMM_WORLD);
		MPI_Recv(NULL, 0, MPI_BYTE, 0, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	}
	for (int r = 1; r < hdb_ranks && hdb_rank == 0; r++)
		MPI_Send(NULL, 0, MPI_BYTE, r, 4, MPI_COMM_WORLD);
}

/* *c += times * add */
static void add_counts(struct hdb_counts *c, const struct hdb_counts *add, int times)
{
	c->calcs += times * add->calcs;
	c->waits += times * add->waits;
	c->enables += times * add->enables;
	c->atomics += times * add->atomics;
}

static bool reaches(const struct hdb_counts *c, const struct hdb_counts *least)
{
	return c->calcs >= least->calcs && c->waits >= least->waits && c->enables >= least->enables && c->atomics >= least->atomics;
}

static bool is_same(const struct hdb_counts *a, const struct hdb_counts *b)
{
	return a->calcs == b->calcs && a->waits == b->waits && a->enables == b->enables && a->atomics == b->atomics;
}

/* Difference of the counters since `before`. A rank may complete an operation before the device has counted the last request of another rank. */
static bool counted_since(const struct hdb_counts *before, const struct hdb_counts *expected, struct hdb_counts *moved)
{
	const struct timespec ms = {0, 1000000};

	for (int tries = 0; tries < 200; tries++) {
		if (!hdb_device_counts(moved))
			return false;
		add_counts(moved, before, -1);
		if (reaches(moved, expected))
			return true;
		nanosleep(&ms, NULL);
	}
	return true;
}

struct moves {
	int wrong;			/* operations with other counts than the graph's */
	int there;			/* a device that counts, and */
	int known;			/* ... counters and graph are known */
	char executor[16];
};

static const char *word_of(const struct moves *m)
{
	return !m->there ? "-" : !m->known ? "UNKNOWN" : m->wrong ? "WRONG" : m->executor;
}

/* On rank 0: the counts of one operation; barrier: of the barrier that the tasks executor inserts after some operations that do not synchronize. */
static void compare_counts(const struct plan *p, const struct hdb_counts *before, const struct hdb_counts *graph,
			   const struct hdb_counts *barrier, struct moves *m)
{
	const bool may_insert = !strcmp(m->executor, "tasks") && (p->c->root_sends || p->c->root_receives || p->c->prefix);
	struct hdb_counts moved, both = *graph;

	add_counts(&both, barrier, 1);
	if (!counted_since(before, graph, &moved)) {
		m->known = 0;
		return;
	}
	if (!is_same(&moved, graph) && may_insert)
		counted_since(before, &both, &moved);
	if (is_same(&moved, graph) || (may_insert && is_same(&moved, &both)))
		return;
	m->wrong++;
	fprintf(stderr, "%s: i%s, %zu bytes, on %s: the device counted %lld CALCs, %lld WAITs, %lld ENABLEs and %lld atomics where the graph has "
		"%lld, %lld, %lld and %lld\n", hdb_program->name, p->c->name, p->work.size, m->executor, moved.calcs, moved.waits, moved.enables,
		moved.atomics, graph->calcs, graph->waits, graph->enables, graph->atomics);
}

#define COUNTED 3

/* Whether single operations move exactly the counters of their graph. */
static void count_moves(struct plan *p, struct moves *m)
{
	static struct hdb_counts barrier;
	static char barrier_on[16];
	struct hdb_counts graph, before;
	MPI_Request request;

	*m = (struct moves){.executor = "-"};
	m->there = hdb_device_is_there();
	if (hdb_rank == 0 && m->there)
		m->known = hdb_device_counts(&before) &&
			   (barrier_on[0] || hdb_device_explained(hdb_collective_named("barrier"), 0, "tasks", &barrier, barrier_on)) &&
			   hdb_device_explained(p->c, p->work.size, NULL, &graph, m->executor);
	for (int i = 0; i < COUNTED; i++) {
		meet();
		if (hdb_rank == 0 && m->known)
			m->known = hdb_device_counts(&before);
		meet();
		p->c->start(&p->work, &request);
		MPI_Wait(&request, MPI_STATUS_IGNORE);
		meet();
		if (hdb_rank == 0 && m->known)
			compare_counts(p, &before, &graph, &barrier, m);
	}
	/* no rank starts the next collective before rank 0 has read the counters */
	meet();
	MPI_Bcast(m, (int)sizeof(*m), MPI_BYTE, 0, MPI_COMM_WORLD);
}

/* ---- one row --------------------------------------------------------------------------------------------------- */

static size_t one_row(const struct hdb_collective *c, size_t size)
{
	struct plan p = {.c = c};
	struct verdict v;
	struct moves moves;
	struct hdb_overlap mine, mean = {0};
	double idle, charged, blocking, together, overlap, skewed_us, null_us, ignored, least = 0, most = 0;
	int iterations = hdb.iterations[0], skip = hdb.skip[0];
	size_t wrong;

	hdb_work_new(&p.work, c, size);
	make_plan(&p);
	wrong = measure_completion(&p, &v);
	idle = charged_us(&p, NONE, p.skew, &null_us);
	charged = charged_us(&p, NONBLOCKING, p.skew, &ignored) - idle;
	blocking = charged_us(&p, BLOCKING, p.skew, &skewed_us) - idle;
	together = charged_us(&p, BLOCKING, 0, &ignored) - idle;
	hdb_fit(p.block_us * 4e-6, &iterations, &skip);
	hdb_overlap_measure(c, &p.work, iterations, skip, &mine, &wrong);
	count_moves(&p, &moves);
	overlap = hdb_overlap_reduce(&mine, &mean, &least, &most);
	if (hdb_rank == 0)
		printf("i%-15s %-7zu %10.3f %10.3f %10.3f %10.3f %10.3f %10.3f %10.3f %10.1f %10.2f %10.2f %10.2f "
		       "%10.3f %10.3f %11.3f %10.2f %8d %8s\n",
		       c->name, size, p.block_us, skewed_us, (double)p.skew / 1e3, v.start_us, v.wait_median_us, v.wait_p99_us, null_us,
		       v.wait_median_us / p.block_us * 100, v.cheap, v.tested,
		       v.unready, charged, blocking, together, overlap, p.iterations,
		       word_of(&moves));
	fflush(stdout);
	if (v.judged && v.tested < TESTED_LEAST) {
		if (hdb_rank == 0)
			fprintf(stderr, "%s: i%s, %zu bytes: %.1f %% of the operations were complete when their owner came to Test (at least %d %% "
				"are wanted)\n", hdb_program->name, c->name, size, v.tested, TESTED_LEAST);
		incomplete = true;
	}
	if (moves.there && !moves.known) {
		if (hdb_rank == 0)
			fprintf(stderr, "%s: i%s, %zu bytes: shcactl totals or heddle_info --explain failed, or is not beside this program, in the "
				"folder above or in PATH: whether the device did what the graph has is not known\n", hdb_program->name, c->name, size);
		incomplete = true;
	}
	incomplete |= moves.known && moves.wrong;
	if (!v.judged) {
		if (hdb_rank == 0)
			fprintf(stderr, "%s: i%s, %zu bytes: a rank came to Wait before the last had posted in %.0f %% of the iterations (at most %d %% "
				"are accepted): the row proves nothing; raise --margin or -i, or run on an idle machine\n",
				hdb_program->name, c->name, size, v.unready, UNREADY_MOST);
		incomplete = true;
	}
	hdb_work_free(&p.work);
	return wrong;
}

/* One row per size of every operation asked for. */
static size_t rows_of(size_t (*row)(const struct hdb_collective *c, size_t size))
{
	size_t wrong = 0;

	for (size_t i = 0; i < noperations; i++) {
		const char *p = operation[i]->sized ? sizes : "0";

		while (*p) {
			char *end;
			unsigned long size = strtoul(p, &end, 10);

			wrong += row(operation[i], size);
			p = *end ? end + 1 : end;
		}
	}
	return wrong;
}

static size_t all_rows(void)
{

	if (hdb_rank == 0) {
		printf("# Heddle %s (%s %s)\n# %d ranks on %d CPUs. %s Late by %.1f x Block; meanwhile "
		       "the others %s.\n",
		       hdb_program->title, hdb_program->name, HDB_VERSION, hdb_ranks, hdb_cpus(), hdb_reduction_note(),
		       factor, while_names[meanwhile]);
		printf("# %-14s %-7s %10s %10s %10s %10s %10s %10s %10s %10s %10s %10s %10s %10s %10s %11s %10s %8s %8s\n",
		       "Operation", "Size", "Block(us)", "BlkSkw(us)", "Skew(us)", "Start(us)", "Wait(us)", "Wait99(us)",
		       "Null(us)", "Wait/Bl(%)", "Cheap(%)", "Tested(%)", "Unready(%)", "CPU(us)", "CPUblk(us)", "CPUblk0(us)",
		       "Overlap(%)", "Iter", "Counted");
	} else {
		hdb_cpus();
	}
	return rows_of(one_row);
}

/* ---- all ranks but the last stopped ---------------------------------------------------------------------------- */

static int64_t *pids;
static volatile sig_atomic_t gave_up;

static void wake_all(int sig)
{
	gave_up = sig == SIGALRM;
	for (int r = 0; r < hdb_ranks; r++)
		if (r != hdb_rank)
			kill((pid_t)pids[r], SIGCONT);
}

/* Whether the process is stopped, without a call into MPI. */
static bool is_stopped(pid_t pid)
{
	char path[48], text[512];
	const char *p;
	FILE *f;
	size_t n;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	f = fopen(path, "r");
	if (!f)
		hdb_die("%s: %s: the rank is gone or in another PID namespace", path, strerror(errno));
	n = fread(text, 1, sizeof(text) - 1, f);
	fclose(f);
	text[n] = '\0';
	p = strrchr(text, ')');
	return p && p[1] == ' ' && p[2] == 'T';
}

static void await_stopped(void)
{
	const struct timespec ms = {0, 1000000};

	for (int r = 0; r < hdb_ranks - 1; r++) {
		for (int tries = 0; !is_stopped((pid_t)pids[r]); tries++) {
			if (tries > 10000) {
				wake_all(0);
				hdb_die("rank %d did not stop itself within 10 s", r);
			}
			nanosleep(&ms, NULL);
		}
	}
}

/* The last rank posts and waits while every other is stopped. An alarm continues them if that takes too long, so that
 * libraries that cannot do it do not hang. Returns the number of wrong elements; prints the verdict. */
static size_t stopped_row(const struct hdb_collective *c, size_t size)
{
	const bool last = hdb_rank == hdb_ranks - 1;
	const struct itimerval off = {{0, 0}, {0, 0}}, alarm_in = {{0, 0}, {strtol(wait_limit, NULL, 10), 0}};
	struct hdb_work w;
	MPI_Request request;
	int64_t mine = getpid(), begin = 0, took[2] = {0, 0};
	size_t wrong;

	MPI_Allgather(&mine, 1, MPI_INT64_T, pids, 1, MPI_INT64_T, MPI_COMM_WORLD);
	hdb_work_new(&w, c, size);
	/* two ordinary operations first, so that lazy set-up is done */
	for (int i = 0; i < 2; i++) {
		c->start(&w, &request);
		MPI_Wait(&request, MPI_STATUS_IGNORE);
	}
	hdb_prepare(&w, 3);
	MPI_Barrier(MPI_COMM_WORLD);
	if (last) {
		signal(SIGALRM, wake_all);
		await_stopped();
		setitimer(ITIMER_REAL, &alarm_in, NULL);	/* MPI_Start may wait for other ranks, too */
		begin = hdb_now();
		c->start(&w, &request);
		MPI_Wait(&request, MPI_STATUS_IGNORE);
		took[0] = hdb_now() - begin;
		setitimer(ITIMER_REAL, &off, NULL);
		took[1] = gave_up;
		wrong = (c->sized ? hdb_verify(&w, 3) : 0);
		for (int r = 0; r < hdb_ranks - 1; r++)
			if (!gave_up && !is_stopped((pid_t)pids[r]))
				took[1] = 2;
		wake_all(0);
	} else {
		c->start(&w, &request);
		raise(SIGSTOP);
		MPI_Wait(&request, MPI_STATUS_IGNORE);
		wrong = (c->sized ? hdb_verify(&w, 3) : 0);
	}
	/* all ranks get the last rank's result */
	MPI_Bcast(took, 2, MPI_INT64_T, hdb_ranks - 1, MPI_COMM_WORLD);
	if (hdb_rank == 0)
		printf("i%-15s %-7zu %14.2f   %s\n", c->name, size, (double)took[0] / 1e3,
		       took[1] == 1 ? "NO: complete only after the others were continued"
		       : took[1]    ? "NO: a rank had been continued by somebody else"
				    : "yes: complete while all other ranks were stopped");
	fflush(stdout);
	hdb_work_free(&w);
	incomplete |= took[1] != 0;
	return wrong;
}

static size_t all_stopped(void)
{
	size_t wrong;

	pids = array((size_t)hdb_ranks, sizeof(*pids));
	if (hdb_rank == 0)
		printf("# Heddle %s (%s %s)\n# %d ranks; all but the last post, then stop themselves (SIGSTOP); the last posts and "
		       "waits. %s\n# %-14s %-7s %14s   %s\n",
		       hdb_program->title, hdb_program->name, HDB_VERSION, hdb_ranks, hdb_reduction_note(), "Operation",
		       "Size", "Post+Wait(us)", "Complete");
	wrong = rows_of(stopped_row);
	free(pids);
	return wrong;
}

/* ---- main ------------------------------------------------------------------------------------------------------ */

static void add_operation(const struct hdb_collective *c)
{
	operation = realloc(operation, (noperations + 1) * sizeof(*operation));
	if (!operation)
		hdb_die("no memory for %zu operations", noperations + 1);
	operation[noperations++] = c;
}

/* --operation: names with commas, with or without the i of the nonblocking form; or all. */
static void choose_operations(void)
{
	const char *p = operations;
	const struct hdb_collective *c;

	if (!strcmp(p, "all")) {
		for (size_t i = 0; (c = hdb_collective_at(i)); i++)
			add_operation(c);
		return;
	}
	while (*p) {
		char name[32];
		size_t n = strcspn(p, ",");

		snprintf(name, sizeof(name), "%.*s", (int)n, p);
		c = hdb_collective_named(name);
		if (!c && name[0] == 'i')
			c = hdb_collective_named(name + 1);
		if (!c)
			hdb_quit(HDB_USAGE, "--operation '%s': '%s' is no collective (iallreduce, ibarrier, ... or all)", operations, name);
		add_operation(c);
		p += n + (p[n] == ',');
	}
}

static void check_options(void)
{
	const char *p = sizes;
	char *end;

	choose_operations();
	do {
		unsigned long size = strtoul(p, &end, 10);

		if (end == p || size == 0 || size % 8 || size > (64 << 20) || (*end && *end != ',') ||
		    (*end && !end[1]))
			hdb_quit(HDB_USAGE,
				 "--sizes '%s': sizes in bytes are wanted, multiples of 8 with commas between", sizes);
		p = end + 1;
	} while (*end);
	if (strtol(wait_limit, &end, 10) < 1 || *end)
		hdb_quit(HDB_USAGE, "--wait_limit '%s': a whole number of seconds is wanted", wait_limit);
	if (!hdb_one_host())
		hdb_quit(HDB_USAGE, "the ranks' clocks are compared: all ranks must be on one host");
}

int main(int argc, char **argv)
{
	static const struct hdb_option extra[] = {
		{0, "operation", HDB_TEXT, &operations, 0, NULL, "LIST",
		 "nonblocking collectives with commas, or all (default iallreduce,ibarrier)"},
		{0, "sizes", HDB_TEXT, &sizes, 0, NULL, "LIST", "bytes of those that have a size, with commas (default 8,1024)"},
		{'k', "skew", HDB_REAL, &factor, 1, NULL, "K",
		 "one rank is late by K times the blocking operation (10)"},
		{0, "margin", HDB_REAL, &margin_us, 0, NULL, "US",
		 "us from the late rank's post to Wait (default: enough for its post to return)"},
		{0, "while", HDB_CHOICE, &meanwhile, 0, while_names, "WHAT",
		 "what goes on meanwhile: compute or sleep"},
		{0, "stop", HDB_FLAG, &stop, 0, NULL, NULL,
		 "instead: all ranks but the last stop themselves after posting; the last waits"},
		{0, "wait_limit", HDB_TEXT, &wait_limit, 0, NULL, "SECONDS", "how long --stop waits (default 10)"},
		{0},
	};
	static const struct hdb_program program = {
		.name = "hd_offload",
		.title = "MPI Collective Offload Test",
		.features = HDB_LOOPS | HDB_VALIDATE | HDB_BUDGET | HDB_REDUCTION,
		.defaults = {.iterations = {2000, 2000},
			     .skip = {100, 100},
			     .budget = 3,
			     .element = HDB_INT64,
			     .op = HDB_SUM},
		/* Of two ranks either sees the other come: a library that does nothing by itself would pass. */
		.least_ranks = 3,
		.extra = extra,
	};

	int status;

	hdb_start(argc, argv, &program);
	check_options();
	/* without timer slack: a sleep is not prolonged by 50 µs */
	prctl(PR_SET_TIMERSLACK, 1);
	hdb.validate |= stop;
	status = hdb_finish(stop ? all_stopped() : all_rows());
	free(operation);
	return status == HDB_PASS && incomplete ? HDB_FAIL : status;
}
