/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Random graphs of requests with a determined outcome (graph.h) among real processes, one graph after the other, in four ways:
 *
 *  PLAIN    all members post at once
 *  STOPPED  all members but one post, and stop (SIGSTOP); the last one posts, and finds all requests completed meanwhile
 *  PAUSED   members are stopped at random points, for a while
 *  KILLED   one member is killed: before, while or after posting, at a random time or at a failpoint of the engine that an
 *           executor has passed before. graph_death.c checks the state after that
 *
 *     graphs [-n MEMBERS] [-s SEED] [-t SECONDS] [-r REQUESTS] [-w WAY]
 */
#include <errno.h>
#include <getopt.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "graph.h"

#define POINTS 128u

enum way { PLAIN, STOPPED, PAUSED, KILLED, WAYS };
static const char *const ways[WAYS] = {"plain", "stopped", "paused", "killed"};
enum stage { IDLE, MAKE_FIRST, MAKE, CONNECT, POST, SETTLE, COMPARE, UNMAKE, UNMAKE_FIRST, LEAVE, STAGES };

static struct board {
	char fabric[64];
	uint64_t seed;
	uint32_t members;
	enum way way;
	uint32_t last;				/* STOPPED: the member that posts last */
	_Atomic uint32_t turn;			/* round * STAGES + stage that all members are in */
	_Atomic uint32_t done[GRAPH_MEMBERS];	/* by member: the last turn that the member has completed */
	_Atomic uint32_t go;			/* STOPPED: all other members are stopped; the last one clears this flag if one is
						 * stopped inside the engine */
	struct graph_board g;
	/* KILLED */
	struct graph_death death;
	uint32_t slot_of[GRAPH_MEMBERS];
	struct graph_tally tally[GRAPH_MEMBERS];
	_Atomic uint32_t armed;			/* the victim dies at a failpoint: */
	enum stage dies_in;			/* the stage in which the victim dies; at a failpoint, it may be the
						 * stage before */
	const char *at;				/* the failpoint; NULL: any */
	_Atomic uint32_t passes;		/* how many times the victim passes the failpoint first */
	uint32_t nap_us;			/* the victim sleeps there before dying, so that other threads may come there,
						 * too */
	const char *_Atomic points[POINTS];	/* failpoints that were passed; the strings' addresses are equal in all these
						 * processes, which were forked */
} *bd;
static uint64_t rng;
static pid_t pid_of[GRAPH_MEMBERS];
static struct graph_member *_Atomic self;	/* this process's member, during a graph of which a member dies */

static void nap(uint32_t us)
{
	struct timespec t = {us / 1000000, (long)(us % 1000000) * 1000};

	nanosleep(&t, NULL);
}

/* Half of the graphs of each way. */
static bool has_stamps(uint64_t seed)
{
	return seed / WAYS & 1;
}

static void note_point(const char *name)
{
	for (uint32_t i = 0; i < POINTS; i++) {
		const char *seen = atomic_load_explicit(&bd->points[i], memory_order_relaxed);
		if (seen == name || (!seen && atomic_compare_exchange_strong(&bd->points[i], &seen, name)))
			return;
	}
}

static void maybe_die(const struct graph_member *m, const char *name)
{
	if (!atomic_load(&bd->armed) || m->id != bd->death.victim || (bd->at && bd->at != name))
		return;
	if (atomic_fetch_sub(&bd->passes, 1) != 1)
		return;
	if (bd->nap_us)
		nap(bd->nap_us);
	graph_death_before(&bd->death);
	kill(getpid(), SIGKILL);
}

/* The engine is built with failpoints: here they yield the CPU now and then, so that other threads meet
 * windows of nanoseconds. */
void shca_failpoint(struct shca_thread *thr, const char *name, const struct shca_qp *qp, int op)
{
	static __thread uint64_t mine;

	if (!mine)
		mine = (uint64_t)getpid() << 20 | (thr ? thr->slot + 1 : 777777);
	const struct graph_member *m = atomic_load(&self);
	if (m) {
		graph_death_witness(&bd->death, m->g, &bd->g, m->id, name, qp);
		note_point(name);
		maybe_die(m, name);
	}
	if (rig_below(&mine, 40) == 0)
		sched_yield();
	else if (rig_below(&mine, 5000) == 0)
		usleep(rig_below(&mine, 500));
}

/* ---- a member ------------------------------------------------------------------------------------------------------- */

/* Whether a helper thread of a stopped process is inside the engine: for that case nothing is promised,
 * and the stop is repeated. */
static bool again(const struct graph_member *m)
{
	const struct shca_member *f = m->r->m;
	bool inside = false;

	for (uint32_t slot = 0; slot < atomic_load(&f->hdr->proc_high); slot++)
		inside |= slot != f->slot && rig_is_inside(f, slot);
	if (inside)
		atomic_store(&bd->go, 0);
	return inside;
}

static void post(struct graph_member *m)
{
	bool last = bd->way == STOPPED && bd->last == m->id;

	/* all members but the last stop after posting */
	do {
		while (last && !atomic_load(&bd->go))
			sched_yield();
	} while (last && again(m));
	for (uint32_t list = 0; list < m->g->lists; list++)
		graph_member_post(m, list);
	if (bd->way == STOPPED && !last)
		CHECK(!raise(SIGSTOP));
	if (last)
		graph_await_all(m, 40);
}

static void do_stage(struct graph_member *m, struct graph **g, enum stage stage)
{
	bool first = m->id == 0;

	if (stage == MAKE_FIRST)
		*g = graph_make(bd->seed, bd->members, has_stamps(bd->seed));
	if (stage == (first ? MAKE_FIRST : MAKE)) {
		*m = (struct graph_member){.r = m->r, .g = *g, .board = &bd->g, .id = m->id};
		graph_member_make(m);
	}
	if (stage == CONNECT && bd->way == KILLED)
		atomic_store(&self, m);
	if (stage == CONNECT)
		CHECK(graph_member_connect(m));
	if (stage == POST)
		post(m);
	if (stage == SETTLE && bd->way == KILLED)
		/* half of them without a call of the library */
		graph_death_settle(m, &bd->death, bd->seed / WAYS & 2, 40);
	if (stage == COMPARE && bd->way == KILLED) {
		atomic_store(&self, NULL);
		graph_death_check(m, &bd->death, &bd->tally[m->id]);
	} else if (stage == COMPARE) {
		graph_await_all(m, 40);
		graph_compare(m, &m->g->image);
	}
	if (stage == (first ? UNMAKE_FIRST : UNMAKE))
		graph_member_unmake(m);
	if (stage == UNMAKE_FIRST) {
		graph_free(*g);
		*g = NULL;
	}
}

static void member(uint32_t id, uint32_t turn)
{
	struct rig r;
	struct graph_member m = {.r = &r, .id = id};
	struct graph *g = NULL;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	alarm(3600);
	rig_join(&r, bd->fabric);
	bd->slot_of[id] = r.m->slot;
	for (;;) {
		atomic_store(&bd->done[id], turn);
		while (atomic_load(&bd->turn) == turn)
			sched_yield();
		turn = atomic_load(&bd->turn);
		if (turn % STAGES == LEAVE)
			break;
		do_stage(&m, &g, (enum stage)(turn % STAGES));
	}
	rig_leave(&r);
	exit(0);
}

/* ---- the conductor ---------------------------------------------------------------------------------------------------- */

static void quit(int status)
{
	for (uint32_t i = 0; i < bd->members; i++)
		if (pid_of[i] > 0)
			kill(pid_of[i], SIGKILL);
	exit(status);
}

static void start(uint32_t id)
{
	uint32_t turn = atomic_load(&bd->turn);

	atomic_store(&bd->done[id], UINT32_MAX);
	fflush(NULL);
	pid_of[id] = fork();
	CHECK(pid_of[id] >= 0);
	if (!pid_of[id])
		member(id, turn);
}

/* Fails if a member has ended that should not have; the member has printed why. */
static void look_for_ends(void)
{
	int status;
	pid_t pid = waitpid(-1, &status, WNOHANG);

	if (pid > 0 && bd->way == KILLED && pid == pid_of[bd->death.victim] && WIFSIGNALED(status) &&
	    WTERMSIG(status) == SIGKILL) {
		pid_of[bd->death.victim] = 0;
	} else if (pid > 0) {
		fprintf(stderr, "FAIL: graphs, seed %lu, %s: process %d ended with status %#x\n", (unsigned long)bd->seed,
			ways[bd->way], (int)pid, status);
		quit(1);
	}
}

static void await_done(uint32_t turn)
{
	for (uint32_t i = 0; i < bd->members; i++)
		while (pid_of[i] && atomic_load(&bd->done[i]) != turn) {
			look_for_ends();
			sched_yield();
		}
}

static void to_others(int signal)
{
	for (uint32_t i = 0; i < bd->members; i++)
		if (i != bd->last)
			CHECK(!kill(pid_of[i], signal));
}

static void await_stopped(void)
{
	for (uint32_t i = 0; i < bd->members; i++) {
		siginfo_t info = {0};
		while (i != bd->last && !info.si_pid) {
			CHECK(!waitid(P_PID, (id_t)pid_of[i], &info, WSTOPPED | WNOHANG));
			look_for_ends();
			sched_yield();
		}
	}
}

/* KILLED: chooses the victim and the failpoint. Member 0, which has the counters, survives. */
static void arm(void)
{
	uint32_t n = 0;

	memset(&bd->death, 0, sizeof(bd->death));
	bd->death.victim = 1 + rig_below(&rng, bd->members - 1);
	while (n < POINTS && atomic_load(&bd->points[n]))
		n++;
	/* of a kind of point, or of all, that a member comes by some thousand times */
	bd->at = n && rig_below(&rng, 2) ? atomic_load(&bd->points[rig_below(&rng, n)]) : NULL;
	atomic_store(&bd->passes, 1 + rig_below(&rng, bd->at ? 1u << rig_below(&rng, 8) : 1u << (6 + rig_below(&rng, 7))));
	bd->nap_us = rig_below(&rng, 2) ? rig_below(&rng, 3000) : 0;
	bd->dies_in = rig_below(&rng, 8) ? POST : CONNECT;
	atomic_store(&bd->armed, rig_below(&rng, 4) != 0);
}

static void kill_victim(void)
{
	uint32_t victim = bd->death.victim;
	uint64_t posted = 0;

	if (!atomic_load(&bd->armed)) {
		nap(rig_below(&rng, 1u << rig_below(&rng, 13)));
		if (rig_below(&rng, 3) == 0) {
			CHECK(!kill(pid_of[victim], SIGSTOP));
			nap(rig_below(&rng, 5000));
		}
	}
	/* the victim may not pass the failpoint: then the victim is killed a while after all members have posted */
	while (pid_of[victim] && atomic_load(&bd->armed)) {
		bool all = true;
		for (uint32_t i = 0; i < bd->members; i++)
			all &= atomic_load(&bd->done[i]) == atomic_load(&bd->turn);
		posted = all && !posted ? monotonic_ns() : posted;
		if (posted && monotonic_ns() - posted > 5000000)
			break;
		look_for_ends();
		sched_yield();
	}
	if (pid_of[victim]) {
		graph_death_before(&bd->death);
		atomic_store(&bd->armed, 0);
		CHECK(!kill(pid_of[victim], SIGKILL));
	}
	while (pid_of[victim]) {
		look_for_ends();
		sched_yield();
	}
	bd->death.slot = bd->slot_of[victim];
}

/* While they post. */
static void disturb(void)
{
	uint32_t victim = rig_below(&rng, bd->members);

	while (bd->way == STOPPED && atomic_load(&bd->done[bd->last]) != atomic_load(&bd->turn)) {
		await_stopped();
		atomic_store(&bd->go, 1);
		while (atomic_load(&bd->go) && atomic_load(&bd->done[bd->last]) != atomic_load(&bd->turn)) {
			look_for_ends();
			sched_yield();
		}
		bool over = atomic_load(&bd->go);
		to_others(SIGCONT);
		if (over)
			break;
		nap(200);
		to_others(SIGSTOP);
	}
	if (bd->way == PAUSED)
		for (uint32_t n = 1 + rig_below(&rng, 3); n--; victim = rig_below(&rng, bd->members)) {
			nap(rig_below(&rng, 300));
			kill(pid_of[victim], SIGSTOP);
			nap(rig_below(&rng, 2000));
			kill(pid_of[victim], SIGCONT);
		}
}

static void run_graph(uint64_t seed, uint32_t round, int only)
{
	bd->seed = seed;
	bd->way = only >= 0 ? (enum way)only : (enum way)(seed % WAYS);
	bd->last = rig_below(&rng, bd->members);
	atomic_store(&bd->go, 0);
	for (uint32_t stage = MAKE_FIRST; stage <= UNMAKE_FIRST; stage++) {
		uint32_t turn = round * STAGES + stage;
		if (stage == CONNECT && bd->way == KILLED)
			arm();
		atomic_store(&bd->turn, turn);
		if (stage == POST)
			disturb();
		if (bd->way == KILLED && stage == bd->dies_in)
			kill_victim();
		await_done(turn);
	}
	if (bd->way == KILLED)
		start(bd->death.victim);
}

static void say_deaths(void)
{
	struct graph_tally all = {0};

	for (uint32_t i = 0; i < bd->members; i++) {
		const struct graph_tally *t = &bd->tally[i];
		all.ok += t->ok;
		all.independent += t->independent;
		all.failed += t->failed;
		all.fatal += t->fatal;
		all.waiting += t->waiting;
		all.bytes += t->bytes;
		all.unknown += t->unknown;
		all.done += t->done;
		all.undone += t->undone;
		all.partly += t->partly;
	}
	printf("deaths: survivors have run %lu requests, %lu independent of the dead; %lu queues have failed, %lu in its hands, "
	       "%lu wait; %.1f %% of memory compared; of interrupted requests that show %lu were done, %lu not, %lu in part\n",
	       (unsigned long)all.ok, (unsigned long)all.independent, (unsigned long)all.failed, (unsigned long)all.fatal,
	       (unsigned long)all.waiting, 100.0 * (double)(all.bytes - all.unknown) / (double)(all.bytes ? all.bytes : 1),
	       (unsigned long)all.done, (unsigned long)all.undone, (unsigned long)all.partly);
}

static void leave(uint32_t round)
{
	int status;

	atomic_store(&bd->turn, round * STAGES + LEAVE);
	for (uint32_t i = 0; i < bd->members; i++)
		if (waitpid(pid_of[i], &status, 0) < 0 || status) {
			fprintf(stderr, "FAIL: graphs: member %u ended with status %#x\n", i, status);
			pid_of[i] = 0;
			quit(1);
		}
}

int main(int argc, char **argv)
{
	uint32_t n = 8, round = 1;
	uint64_t seed = 1, requests = 0, wanted = 0, graphs[WAYS] = {0};
	double seconds = 8;
	int only = -1, c;

	while ((c = getopt(argc, argv, "n:s:t:r:w:")) != -1) {
		switch (c) {
		case 'n': n = (uint32_t)strtoul(optarg, NULL, 0); break;
		case 's': seed = strtoull(optarg, NULL, 0); break;
		case 't': seconds = strtod(optarg, NULL); break;
		case 'r': wanted = strtoull(optarg, NULL, 0); break;
		case 'w':
			for (only = 0; only < WAYS && strcmp(optarg, ways[only]); only++)
				;
			break;
		default: n = 0; break;
		}
	}
	if (n < 2 || n > GRAPH_MEMBERS || only == WAYS) {
		fprintf(stderr, "usage: %s [-n members, 2 to %u] [-s seed] [-t seconds, or -r requests in all] "
			"[-w plain|stopped|paused|killed]\n", argv[0], GRAPH_MEMBERS);
		return 2;
	}
	alarm(wanted ? 3600 : (unsigned)seconds * 20 + 200);
	bd = mmap(NULL, sizeof(*bd), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(bd != MAP_FAILED);
	snprintf(bd->fabric, sizeof(bd->fabric), "graphs-%d", (int)getpid());
	bd->members = n;
	rng = seed * 0x9e3779b97f4a7c15ull + 1;
	for (uint32_t i = 0; i < n; i++)
		start(i);
	await_done(0);
	uint64_t until = monotonic_ns() + (uint64_t)(seconds * 1e9);
	do {
		run_graph(seed, round++, only);
		struct graph *g = graph_make(seed++, n, has_stamps(bd->seed));
		requests += g->steps;
		graphs[bd->way]++;
		graph_free(g);
		await_done(atomic_load(&bd->turn));
	} while (wanted ? requests < wanted : monotonic_ns() < until);
	leave(round);
	printf("%u processes: %lu requests in graphs: %lu plain, %lu stopped, %lu paused, %lu killed; last seed %lu\n", n,
	       (unsigned long)requests, (unsigned long)graphs[PLAIN], (unsigned long)graphs[STOPPED],
	       (unsigned long)graphs[PAUSED], (unsigned long)graphs[KILLED], (unsigned long)seed - 1);
	if (graphs[KILLED])
		say_deaths();
	return 0;
}
