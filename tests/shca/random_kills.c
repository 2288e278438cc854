/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Random kills under full traffic: workers, all connected to all by an ordinary and by a cross-channel queue, send, write,
 * read, copy large blocks and post task lists that other workers run, some of them with masked atomics at two others; each
 * changes the size of its shared receive queue all the while. Now and then one is killed by SIGKILL and replaced, or stopped by
 * SIGSTOP for a while, and sometimes killed in that state, or while another is stopped. Survivors check every byte, the order of
 * each queue and every status; in the end nothing may be left. No kill comes before some of each kind of traffic has got through
 * since the last one.
 *
 *     random_kills [-n WORKERS] [-k|--kills KILLS] [-s SEED]
 *
 * The long form, `random_kills --kills 10000`, is 10 million messages at least, since so many must get through between two kills.
 */
#include <errno.h>
#include <getopt.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "random_kills.h"

struct board *bd;
uint32_t workers = 8;
/* The traffic of all workers that must complete between two kills. */
static const struct {
	const char *name;
	unsigned least;
} traffic[TRAFFICS] = {
	{"messages", 1000}, {"messages of task lists", 5}, {"writes read back", 4}, {"adds", 5}, {"masked adds at two others", 2},
	{"large writes read back", 0}, {"sizes of shared receive queues", 1},
};

/* The engine is built with failpoints: here they give the CPU away now and then, so that a kill meets windows of
 * nanoseconds too. */
void shca_failpoint(struct shca_thread *thr, const char *name, const struct shca_qp *qp, int op)
{
	static __thread uint64_t rng;

	if (!rng)
		rng = (uint64_t)getpid() << 20 | (thr ? thr->slot + 1 : 777777);
	if (rig_below(&rng, 30) == 0)
		sched_yield();
	else if (rig_below(&rng, 5000) == 0)
		usleep(rig_below(&rng, 2000));
}

/* ---- a worker ------------------------------------------------------------------------------------------------------ */

static void tend(struct worker *w, uint32_t p)
{
	struct conn *c = &w->c[p];
	uint32_t gen = atomic_load(&bd->w[p].gen);

	if (c->gen) {
		bool broken = c->q[D].broken || c->q[C].broken;
		if (c->gen != gen || atomic_load(&bd->w[p].killed) == c->gen || given_up(w, c) || (c->up && broken)) {
			/* The engine must notice the death: the connection is closed here only when both queues have failed, or
			 * when they have no request that could fail. */
			if (broken || !c->up || given_up(w, c) || rig_below(&w->rng, 50) == 0)
				end(w, c);
		} else if (!c->up) {
			try_connect(w, c);
		}
		return;
	}
	if (!gen || atomic_load(&bd->w[p].killed) == gen)
		return;
	/* an epoch is used once: the peer may not have noticed yet that the last one is over */
	uint64_t his = atomic_load(&bd->w[p].to[w->id].ready);
	uint32_t epoch = ++w->epochs[p];
	if (his >> 32 == w->gen && (uint32_t)his > epoch)
		epoch = w->epochs[p] = (uint32_t)his;
	begin(w, p, gen, epoch);
}

/* Another size of the SRQ, with all its receives in use, while peers' messages take them. */
static void resize_srq(struct worker *w)
{
	struct ibv_srq_attr a = {.max_wr = SRX + rig_below(&w->rng, 3 * SRX)};
	int err = shca_modify_srq(w->srq, &a, IBV_SRQ_MAX_WR);

	if (err)
		FAIL("worker %u: modify_srq: %s", w->id, strerror(err));
	atomic_fetch_add(&bd->done[RESIZES], 1);
}

static void work(uint32_t id, uint32_t gen, uint64_t seed)
{
	struct worker w = {.id = id, .gen = gen, .rng = (seed * 1000003 + gen * 64 + id) * 0x9e3779b97f4a7c15ull | 1};
	struct ibv_srq_init_attr sa = {.attr = {.max_wr = SRX, .max_sge = 1}};
	unsigned access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;

	rig_join(&w.r, bd->fabric);
	w.mem[0] = shca_buf_alloc(w.r.ctx, MEM);
	w.mem[1] = aligned_alloc(4096, (MEM + 4095) & ~4095u);
	CHECK(w.mem[0] && w.mem[1]);
	for (int i = 0; i < 2; i++) {
		w.mr[i] = shca_reg_mr(w.r.pd, w.mem[i], MEM, (uintptr_t)w.mem[i], access);
		CHECK(w.mr[i]);
	}
	w.big = aligned_alloc(4096, BIG_BYTES);
	CHECK(w.big);
	w.big_mr = shca_reg_mr(w.r.pd, w.big, BIG_BYTES, (uintptr_t)w.big, access);
	CHECK(w.big_mr);
	w.scq = rig_cq(&w.r, 1024, NULL);
	w.wcq = rig_cq(&w.r, 1024, NULL);
	w.srq = shca_create_srq(w.r.pd, &sa);
	CHECK(w.srq);
	for (uint32_t i = 0; i < SRX; i++)
		post_srq(&w, i);
	atomic_store(&bd->w[id].gen, gen);
	while (!atomic_load(&bd->stop)) {
		for (uint32_t p = 0; p < workers; p++) {
			struct conn *c = &w.c[p];
			if (p == id)
				continue;
			tend(&w, p);
			if (!c->up)
				continue;
			for (uint32_t n = rig_below(&w.rng, 3); n; n--)
				send_ordinary(&w, c);
			if (rig_below(&w.rng, 3) == 0)
				send_list(&w, c);
			if (rig_below(&w.rng, 4) == 0)
				send_masked(&w, c, &w.c[(p + 1 + rig_below(&w.rng, workers - 1)) % workers]);
			if (w.big_conn == c || rig_below(&w.rng, 100) == 0)
				send_big(&w, c);
		}
		if (rig_below(&w.rng, 50) == 0)
			resize_srq(&w);
		poll_all(&w, false);
		uint64_t foreign = atomic_load(&w.r.m->proc->foreign_wqes);
		atomic_fetch_add(&bd->foreign, foreign - w.foreign);
		w.foreign = foreign;
		atomic_fetch_add(&bd->w[id].beat, 1);
		/* at times the worker makes no calls: the worker's lists run all the same */
		if (rig_below(&w.rng, 200) == 0)
			nap(rig_below(&w.rng, 3000));
		else if (rig_below(&w.rng, 4) == 0)
			sched_yield();
	}
	/* all workers stop: the first one to stop closes its queues, and the peers' queues fail */
	atomic_fetch_add(&bd->leaving, 1);
	for (uint64_t limit = now() + 5000000000ull; atomic_load(&bd->leaving) < workers && now() < limit; nap(200))
		poll_all(&w, true);
	for (uint32_t p = 0; p < workers; p++)
		if (w.c[p].gen)
			end(&w, &w.c[p]);
	CHECK(!shca_dereg_mr(w.big_mr));
	free(w.big);
	CHECK(!shca_destroy_srq(w.srq));
	CHECK(!shca_destroy_cq(w.scq));
	CHECK(!shca_destroy_cq(w.wcq));
	for (int i = 0; i < 2; i++)
		CHECK(!shca_dereg_mr(w.mr[i]));
	CHECK(!shca_buf_free(w.r.ctx, w.mem[0]));
	free(w.mem[1]);
	rig_leave(&w.r);
}

/* ---- the auditor: a member without connections that looks for remains -------------------------------------------- */

static void audit(int tell, int hear)
{
	struct rig r;
	char byte;

	rig_join(&r, bd->fabric);
	if (write(tell, "j", 1) != 1 || read(hear, &byte, 1) != 1)
		FAIL("auditor: the runner is gone");
	struct shca_member *m = r.m;
	/* a worker that died before any traffic is found by the next process that joins: here by this one */
	shca_proc_sweep(shca_thread_get(m));
	uint32_t chunks = 0, mine = rig_chunks(m, m->slot);
	for (uint64_t limit = now() + 10000000000ull;; nap(1000)) {
		uint32_t busy = 0;
		for (uint32_t p = 0; p < atomic_load(&m->hdr->proc_high); p++)
			busy += p != m->slot && (atomic_load(&m->procs[p].state) & 255) != SHCA_PROC_FREE;
		if (!busy)
			break;
		if (now() > limit)
			FAIL("%u process slots are not free", busy);
	}
	for (uint32_t p = 0; p < atomic_load(&m->hdr->proc_high); p++)
		chunks += rig_chunks(m, p);
	if (chunks != mine)
		FAIL("%u chunks of memory are left", chunks - mine);
	for (uint32_t t = 0; t < atomic_load(&m->hdr->thread_high); t++)
		if (atomic_load(&m->threads[t].owner) && atomic_load(&m->threads[t].owner) != m->slot + 1)
			FAIL("thread slot %u is left to process slot %u", t, atomic_load(&m->threads[t].owner) - 1);
	for (uint32_t i = 0; i < shca_segments_used(m, false); i++)
		if (atomic_load(&m->qp_segs[i]))
			FAIL("segment %u of queue numbers is left", i);
	for (unsigned i = 0; i < SHCA_ATOMIC_LOCKS; i++)
		if (atomic_load(&m->hdr->atomic_locks[i]))
			FAIL("lock %u of private atomics is left", i);
	rig_leave(&r);
}

/* Fails if an abstract socket name of the fabric, or a bell of these processes, is left. */
static void check_names(const pid_t *pids, size_t n)
{
	FILE *f = fopen("/proc/net/unix", "r");
	char line[512], bell[64];

	if (!f)
		FAIL("/proc/net/unix: %s", strerror(errno));
	while (fgets(line, sizeof(line), f)) {
		if (strstr(line, bd->fabric))
			FAIL("a name is left: %s", line);
		for (size_t i = 0; strstr(line, "shca-bell/") && i < n; i++) {
			snprintf(bell, sizeof(bell), "shca-bell/%d/", (int)pids[i]);
			if (strstr(line, bell))
				FAIL("a bell is left: %s", line);
		}
	}
	fclose(f);
}

/* ---- the runner ---------------------------------------------------------------------------------------------------- */

static pid_t start(uint32_t id, uint32_t gen, uint64_t seed)
{
	pid_t pid = fork();

	if (pid < 0)
		FAIL("fork: %s", strerror(errno));
	if (pid)
		return pid;
	alarm(600 + atomic_load(&bd->patience));	/* in case the runner is gone */
	work(id, gen, seed);
	_exit(0);
}

/* Waits, 30 s at most, until each kind of traffic has grown by its minimum since *before. Returns whether all have; *before is
 * updated. */
static bool flows(uint64_t *before)
{
	for (uint64_t limit = now() + 30000000000ull;; nap(1000)) {
		bool all = true;
		for (int i = 0; i < TRAFFICS; i++)
			all &= atomic_load(&bd->done[i]) >= before[i] + traffic[i].least;
		if (all || now() > limit) {
			for (int i = 0; i < TRAFFICS; i++) {
				uint64_t is = atomic_load(&bd->done[i]);
				if (!all && is < before[i] + traffic[i].least)
					fprintf(stderr, "FAIL: %lu %s within 30 s\n", (unsigned long)(is - before[i]),
						traffic[i].name);
				before[i] = is;
			}
			return all;
		}
	}
}

static void end_all(const pid_t *pid)
{
	for (uint32_t i = 0; i < workers; i++)
		if (pid[i] > 0)
			kill(pid[i], SIGKILL);
}

int main(int argc, char **argv)
{
	uint32_t kills = 300, gen[MAXW] = {0};
	uint64_t seed = (uint64_t)time(NULL);
	pid_t pid[MAXW], auditor;
	int c, status, pipes[2][2];

	static const struct option options[] = {{"kills", required_argument, NULL, 'k'}, {NULL, 0, NULL, 0}};
	uint64_t before[TRAFFICS] = {0}, stops = 0;
	while ((c = getopt_long(argc, argv, "n:k:s:", options, NULL)) != -1) {
		switch (c) {
		case 'n': workers = (uint32_t)strtoul(optarg, NULL, 0); break;
		case 'k': kills = (uint32_t)strtoul(optarg, NULL, 0); break;
		case 's': seed = strtoull(optarg, NULL, 0); break;
		default:
			fprintf(stderr, "usage: %s [-n workers] [-k|--kills kills] [-s seed]\n", argv[0]);
			return 2;
		}
	}
	if (workers < 3 || workers > MAXW) {
		fprintf(stderr, "%s: 3 to %u workers\n", argv[0], MAXW);
		return 2;
	}
	setenv("SHCA_DEATH_MS", "20", 0);
	unsetenv("SHCA_FABRIC_FD");
	bd = mmap(NULL, sizeof(*bd), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t *all = calloc(kills + 2 * MAXW + 1, sizeof(*all));
	size_t n_all = 0;
	if (bd == MAP_FAILED || !all)
		FAIL("memory: %s", strerror(errno));
	snprintf(bd->fabric, sizeof(bd->fabric), "random_kills-%d", (int)getpid());
	atomic_store(&bd->patience, kills);
	printf("random_kills: %u workers, %u kills, seed %lu\n", workers, kills, (unsigned long)seed);
	fflush(stdout);
	CHECK(!pipe(pipes[0]) && !pipe(pipes[1]));
	auditor = fork();
	CHECK(auditor >= 0);
	if (!auditor) {
		close(pipes[0][0]);
		close(pipes[1][1]);
		audit(pipes[0][1], pipes[1][0]);
		_exit(0);
	}
	close(pipes[0][1]);
	close(pipes[1][0]);
	char byte;
	if (read(pipes[0][0], &byte, 1) != 1)
		FAIL("the auditor did not join");
	all[n_all++] = auditor;
	for (uint32_t i = 0; i < workers; i++)
		all[n_all++] = pid[i] = start(i, ++gen[i], seed);
	uint64_t rng = seed * 0x9e3779b97f4a7c15ull | 1;
	for (uint32_t k = 0; k < kills; k++) {
		nap(2000 + rig_below(&rng, 30000));
		uint32_t v = rig_below(&rng, workers), asleep = (v + 1 + rig_below(&rng, workers - 1)) % workers;
		bool good = flows(before);
		/* a worker that has failed is found here, too */
		for (uint32_t i = 0; i < workers; i++)
			if (waitpid(pid[i], &status, WNOHANG) == pid[i]) {
				fprintf(stderr, "FAIL: seed %lu: worker %u ended by itself: status %#x\n", (unsigned long)seed,
					i, status);
				pid[i] = 0;
				end_all(pid);
				kill(auditor, SIGKILL);
				return 1;
			}
		if (!good) {
			fprintf(stderr, "FAIL: seed %lu: the traffic stands still\n", (unsigned long)seed);
			end_all(pid);
			kill(auditor, SIGKILL);
			return 1;
		}
		/* the worker is stopped at any place; then the worker is continued, or killed while stopped, or another one is
		 * killed meanwhile */
		uint32_t way = rig_below(&rng, 6);
		if (way < 3) {
			kill(pid[way ? asleep : v], SIGSTOP);
			nap(1000 + rig_below(&rng, 20000));
			stops++;
		}
		if (way == 2)
			kill(pid[asleep], SIGCONT);
		atomic_store(&bd->w[v].killed, gen[v]);
		atomic_fetch_add(&bd->kills, 1);
		kill(pid[v], SIGKILL);
		waitpid(pid[v], &status, 0);
		if (way == 1) {
			nap(rig_below(&rng, 20000));
			kill(pid[asleep], SIGCONT);
		}
		/* the killed worker's offers are void */
		for (uint32_t p = 0; p < workers; p++) {
			atomic_store(&bd->w[v].to[p].ready, 0);
			atomic_store(&bd->w[v].to[p].said, 0);
		}
		all[n_all++] = pid[v] = start(v, ++gen[v], seed);
	}
	nap(50000);
	atomic_store(&bd->stop, 1);
	int failed = 0;
	for (uint32_t i = 0; i < workers; i++) {
		uint64_t limit = now() + 60000000000ull;
		pid_t got = 0;
		while (!(got = waitpid(pid[i], &status, WNOHANG)) && now() < limit)
			nap(1000);
		if (got != pid[i] || !WIFEXITED(status) || WEXITSTATUS(status)) {
			fprintf(stderr, "FAIL: seed %lu: worker %u: %s, status %#x\n", (unsigned long)seed, i,
				got == pid[i] ? "ended" : "does not end", status);
			failed = 1;
			if (got != pid[i]) {
				kill(pid[i], SIGKILL);
				waitpid(pid[i], &status, 0);
			}
		}
	}
	if (write(pipes[1][1], "g", 1) != 1)
		FAIL("the auditor is gone");
	waitpid(auditor, &status, 0);
	if (!WIFEXITED(status) || WEXITSTATUS(status)) {
		fprintf(stderr, "FAIL: seed %lu: the auditor: status %#x\n", (unsigned long)seed, status);
		failed = 1;
	}
	check_names(all, n_all);
	printf("%u killed, %lu stopped; %lu connections, %lu requests run for others, %lu ambiguous", atomic_load(&bd->kills),
	       (unsigned long)stops, (unsigned long)atomic_load(&bd->connections), (unsigned long)atomic_load(&bd->foreign),
	       (unsigned long)atomic_load(&bd->ambiguous));
	for (int i = 0; i < TRAFFICS; i++)
		printf(", %lu %s", (unsigned long)atomic_load(&bd->done[i]), traffic[i].name);
	printf("\n");
	if (kills >= 50 && (atomic_load(&bd->done[LARGE]) < kills / 10 || atomic_load(&bd->foreign) < kills)) {
		fprintf(stderr, "FAIL: seed %lu: too few large blocks, or requests run for others\n", (unsigned long)seed);
		failed = 1;
	}
	free(all);
	return failed;
}
