/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ethernet frames between processes on two ports, while their flows come and go and processes are killed and stopped anywhere: a
 * worker makes and ends flows of its MAC, of broadcast, and of all frames (sniffer), sends to the other workers, and checks the
 * bytes of each frame and the order of each sender's frames. A worker that is killed has a successor. In the end each worker
 * gets all its receives back, and nothing is left of the dead ones.
 *
 *     frame_kills [-k KILLS] [-s SEED]          long form: -k 2000
 *
 * Whether a frame comes that has to: tests/shca/vproc -o frames, tests/verbs/raw_steering.
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

#include "frames.h"

#define WORKERS 5u
#define RX 64u
#define ROOM 600u
/* between two kills, of all workers */
#define FRAMES_LEAST 300u
#define FLOWS_LEAST 20u

static struct board {
	char fabric[64];
	_Atomic uint32_t stop, leaving;
	_Atomic uint64_t frames, flows;
} *bd;

enum { OWN_MAC, BROADCAST, SNIFFER, KINDS };
static struct {
	struct rig r;
	uint32_t id, gen, seq;
	uint64_t rng;
	struct ibv_qp *qp;
	struct ibv_cq *scq, *rcq;
	struct ibv_mr *mr;
	char *mem;			/* RX receives, then a frame to be sent */
	struct ibv_flow *flow[KINDS];
	struct {
		uint32_t gen, seq;
	} last[WORKERS];		/* frames from each worker */
} w;

static void nap(long us)
{
	struct timespec t = {0, us * 1000};
	nanosleep(&t, NULL);
}

/* The engine is built with failpoints: the thread gives the CPU away now and then, so that a kill meets short windows too. */
void shca_failpoint(struct shca_thread *thr, const char *name, const struct shca_qp *qp, int op)
{
	static __thread uint64_t rng;

	(void)name;
	(void)qp;
	(void)op;
	if (!rng)
		rng = (uint64_t)getpid() << 20 | (thr ? thr->slot + 1 : 777777);
	if (rig_below(&rng, 30) == 0)
		sched_yield();
	else if (rig_below(&rng, 5000) == 0)
		nap(rig_below(&rng, 2000));
}

static void post_receive(uint64_t i)
{
	struct ibv_sge sge = {(uintptr_t)w.mem + i * ROOM, ROOM, w.mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = i, .sg_list = &sge, .num_sge = 1}, *bad;

	if (shca_post_recv(w.qp, &wr, &bad))
		FAIL("worker %u: a receive", w.id);
}

static void set_up(void)
{
	size_t bytes = (size_t)(RX + 1) * ROOM;

	w.mem = w.id & 1 ? calloc(1, bytes) : shca_buf_alloc(w.r.ctx, bytes);
	CHECK(w.mem);
	w.mr = shca_reg_mr(w.r.pd, w.mem, bytes, (uintptr_t)w.mem, IBV_ACCESS_LOCAL_WRITE);
	w.scq = rig_cq(&w.r, 16, NULL);
	w.rcq = rig_cq(&w.r, 2 * RX, NULL);
	w.qp = rig_raw_qp(&w.r, &(struct rig_qp_attr){.scq = w.scq, .rcq = w.rcq, .send_wr = 4, .recv_wr = RX});
	rig_raw_ready(w.qp, (uint8_t)(1 + w.id % 2));
	CHECK(w.mr);
	for (uint64_t i = 0; i < RX; i++)
		post_receive(i);
}

static void change_flow(unsigned kind)
{
	uint8_t port = (uint8_t)(1 + rig_below(&w.rng, 2)), mac[6];

	frame_mac(mac, w.id);
	if (w.flow[kind]) {
		CHECK(!shca_destroy_flow(w.flow[kind]));
		w.flow[kind] = NULL;
	} else {
		w.flow[kind] = frame_flow(w.qp, kind == SNIFFER ? IBV_FLOW_ATTR_SNIFFER : IBV_FLOW_ATTR_NORMAL, port,
					  kind == SNIFFER ? NULL : kind == OWN_MAC ? mac : frame_broadcast);
		CHECK(w.flow[kind]);
	}
	atomic_fetch_add(&bd->flows, 1);
}

static void send_frame(void)
{
	uint8_t *at = (uint8_t *)w.mem + (size_t)RX * ROOM, to[6];
	struct frame_header h = {.from = w.id, .gen = w.gen, .seq = w.seq++, .fill = (uint32_t)rig_rand(&w.rng)};
	struct ibv_send_wr wr = {.num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED}, *bad;
	struct ibv_wc wc;
	int n;

	h.len = rig_below(&w.rng, ROOM - FRAME_HEAD);
	struct ibv_sge sge = {(uintptr_t)at, FRAME_HEAD + h.len, w.mr->lkey};
	wr.sg_list = &sge;
	memcpy(to, frame_broadcast, 6);
	if (rig_below(&w.rng, 4))
		frame_mac(to, rig_below(&w.rng, WORKERS));
	frame_write(at, to, &h);
	if (shca_post_send(w.qp, &wr, &bad))
		FAIL("worker %u: a frame", w.id);
	while (!(n = shca_poll_cq(w.scq, 1, &wc)))
		sched_yield();
	if (n < 0 || wc.status != IBV_WC_SUCCESS)
		FAIL("worker %u: a frame: %s", w.id, n < 0 ? "the poll fails" : ibv_wc_status_str(wc.status));
}

static void check_frame(const struct ibv_wc *wc)
{
	struct frame_header h;

	if (!frame_read(w.mem + wc->wr_id * ROOM, wc->byte_len, WORKERS, &h))
		FAIL("worker %u: frame %u of %u: its bytes", w.id, h.seq, h.from);
	/* the last frame of a dead worker may come behind its successor's first ones, when the reaper finds it */
	if (h.gen == w.last[h.from].gen && h.seq <= w.last[h.from].seq)
		FAIL("worker %u: frame %u of %u behind %u", w.id, h.seq, h.from, w.last[h.from].seq);
	if (h.gen >= w.last[h.from].gen) {
		w.last[h.from].gen = h.gen;
		w.last[h.from].seq = h.seq;
	}
}

static int receive(void)
{
	struct ibv_wc wc[8];
	int n = shca_poll_cq(w.rcq, 8, wc);

	if (n < 0)
		FAIL("worker %u: the poll fails", w.id);
	for (int i = 0; i < n; i++) {
		if (wc[i].status != IBV_WC_SUCCESS)
			FAIL("worker %u: a receive: %s", w.id, ibv_wc_status_str(wc[i].status));
		check_frame(&wc[i]);
		post_receive(wc[i].wr_id);
	}
	if (n)
		atomic_fetch_add(&bd->frames, (uint64_t)n);
	return n;
}

/* All receives come back: flushed, or with a frame that had come. */
static void all_receives(void)
{
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_ERR};
	uint64_t limit = monotonic_ns() + 60000000000ull, seen = 0;
	struct ibv_wc wc;

	CHECK(!shca_modify_qp(w.qp, &a, IBV_QP_STATE));
	for (uint32_t n = 0; n < RX;) {
		int got = shca_poll_cq(w.rcq, 1, &wc);
		if (got < 0 || monotonic_ns() > limit)
			FAIL("worker %u: %u of %u receives come back", w.id, n, RX);
		if (!got) {
			sched_yield();
			continue;
		}
		if (wc.status == IBV_WC_SUCCESS)
			check_frame(&wc);
		else if (wc.status != IBV_WC_WR_FLUSH_ERR)
			FAIL("worker %u: a receive: %s", w.id, ibv_wc_status_str(wc.status));
		if (wc.wr_id >= RX || seen >> wc.wr_id & 1)
			FAIL("worker %u: receive %lu comes back twice", w.id, (unsigned long)wc.wr_id);
		seen |= 1ull << wc.wr_id;
		n++;
	}
}
_Static_assert(RX <= 64, "a bit of `seen` for each");

static void work(uint32_t id, uint32_t gen, uint64_t seed)
{
	w.id = id;
	w.gen = gen;
	w.rng = (seed * 1000003 + gen * 64 + id) * 0x9e3779b97f4a7c15ull | 1;
	rig_join(&w.r, bd->fabric);
	set_up();
	while (!atomic_load(&bd->stop)) {
		for (uint32_t k = rig_below(&w.rng, 4); k; k--)
			send_frame();
		if (!rig_below(&w.rng, 5))
			change_flow(rig_below(&w.rng, KINDS));
		if (!receive())
			sched_yield();
	}
	atomic_fetch_add(&bd->leaving, 1);
	for (uint64_t limit = monotonic_ns() + 60000000000ull; atomic_load(&bd->leaving) < WORKERS;) {
		if (monotonic_ns() > limit)
			FAIL("worker %u: another worker does not leave", w.id);
		if (!receive())
			nap(200);
	}
	for (unsigned k = 0; k < KINDS; k++)
		if (w.flow[k])
			CHECK(!shca_destroy_flow(w.flow[k]));
	all_receives();
	CHECK(!shca_destroy_qp(w.qp) && !shca_destroy_cq(w.scq) && !shca_destroy_cq(w.rcq) && !shca_dereg_mr(w.mr));
	if (w.id & 1)
		free(w.mem);
	else
		CHECK(!shca_buf_free(w.r.ctx, w.mem));
	rig_leave(&w.r);
}

/* A member that sends nothing: when the workers are gone, nothing of them is left. */
static void audit(int told, int tells)
{
	uint64_t limit;
	uint32_t chunks = 0;
	struct rig r;
	char byte;

	rig_join(&r, bd->fabric);
	if (write(tells, "j", 1) != 1 || read(told, &byte, 1) != 1)
		FAIL("auditor: the runner is gone");
	struct shca_member *m = r.m;
	shca_proc_sweep(shca_thread_get(m));
	limit = monotonic_ns() + 60000000000ull;
	for (uint32_t p = 0; p < atomic_load(&m->hdr->proc_high); p++)
		while (p != m->slot && (atomic_load(&m->procs[p].state) & 255) != SHCA_PROC_FREE) {
			if (monotonic_ns() > limit)
				FAIL("process slot %u is not free", p);
			nap(1000);
		}
	for (uint32_t p = 0; p < atomic_load(&m->hdr->proc_high); p++) {
		chunks += p != m->slot ? rig_chunks(m, p) : 0;
		if (p != m->slot && m->procs[p].flow_list)
			FAIL("process slot %u has flows", p);
	}
	if (chunks)
		FAIL("%u chunks of memory are left", chunks);
	rig_leave(&r);
}

static pid_t start(uint32_t id, uint32_t gen, uint64_t seed)
{
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (pid)
		return pid;
	CHECK(!prctl(PR_SET_PDEATHSIG, SIGKILL));
	work(id, gen, seed);
	_exit(0);
}

/* Waits until so much has got through since the last call. */
static void flows(void)
{
	static uint64_t frames, changes;

	for (uint64_t limit = monotonic_ns() + 60000000000ull;
	     atomic_load(&bd->frames) < frames + FRAMES_LEAST || atomic_load(&bd->flows) < changes + FLOWS_LEAST; nap(500))
		if (monotonic_ns() > limit)
			FAIL("%lu frames, %lu changes of flows within a minute",
			     (unsigned long)(atomic_load(&bd->frames) - frames),
			     (unsigned long)(atomic_load(&bd->flows) - changes));
	frames = atomic_load(&bd->frames);
	changes = atomic_load(&bd->flows);
}

static int failed;

static void reap(pid_t pid, const char *who, uint32_t id)
{
	int status;

	CHECK(waitpid(pid, &status, 0) == pid);
	if (!WIFEXITED(status) || WEXITSTATUS(status)) {
		fprintf(stderr, "FAIL: %s %u: status %#x\n", who, id, status);
		failed = 1;
	}
}

int main(int argc, char **argv)
{
	uint32_t kills = 25, gen[WORKERS] = {0}, stops = 0;
	int to[2], from[2], c, status;
	uint64_t seed = 1;
	pid_t pid[WORKERS];
	char byte;

	while ((c = getopt(argc, argv, "k:s:")) != -1)
		if (c == 'k')
			kills = (uint32_t)strtoul(optarg, NULL, 0);
		else if (c == 's')
			seed = strtoull(optarg, NULL, 0);
		else
			return 2;
	CHECK(!setenv("SHCA_LINK", "ethernet", 1) && !setenv("SHCA_PORTS", "2", 1) && !setenv("SHCA_DEATH_MS", "20", 0));
	unsetenv("SHCA_FABRIC_FD");
	bd = mmap(NULL, sizeof(*bd), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(bd != MAP_FAILED && !pipe(to) && !pipe(from));
	snprintf(bd->fabric, sizeof(bd->fabric), "frame_kills-%d", (int)getpid());
	pid_t auditor = fork();
	CHECK(auditor >= 0);
	if (!auditor) {
		CHECK(!prctl(PR_SET_PDEATHSIG, SIGKILL));
		close(to[1]);
		audit(to[0], from[1]);
		_exit(0);
	}
	close(from[1]);
	CHECK(read(from[0], &byte, 1) == 1);
	for (uint32_t i = 0; i < WORKERS; i++)
		pid[i] = start(i, ++gen[i], seed);
	uint64_t rng = seed * 0x9e3779b97f4a7c15ull | 1;
	for (uint32_t k = 0; k < kills; k++) {
		uint32_t v = rig_below(&rng, WORKERS), asleep = (v + 1 + rig_below(&rng, WORKERS - 1)) % WORKERS;
		uint32_t way = rig_below(&rng, 5);
		flows();
		for (uint32_t i = 0; i < WORKERS; i++)
			if (waitpid(pid[i], &status, WNOHANG))
				FAIL("worker %u ended by itself: status %#x", i, (unsigned)status);
		nap(rig_below(&rng, 5000));
		/* another worker sleeps over the kill, or the one that is killed is stopped before */
		if (way < 2) {
			kill(pid[way ? asleep : v], SIGSTOP);
			nap(rig_below(&rng, 10000));
			stops++;
		}
		kill(pid[v], SIGKILL);
		CHECK(waitpid(pid[v], &status, 0) == pid[v]);
		if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)
			FAIL("worker %u ended by itself: status %#x", v, status);
		if (way == 1) {
			nap(rig_below(&rng, 10000));
			kill(pid[asleep], SIGCONT);
		}
		pid[v] = start(v, ++gen[v], seed);
	}
	flows();
	atomic_store(&bd->stop, 1);
	for (uint32_t i = 0; i < WORKERS; i++)
		reap(pid[i], "worker", i);
	CHECK(write(to[1], "g", 1) == 1);
	reap(auditor, "auditor", 0);
	printf("%u killed, %u stopped; %lu frames, %lu changes of flows\n", kills, stops, (unsigned long)atomic_load(&bd->frames),
	       (unsigned long)atomic_load(&bd->flows));
	return failed;
}
