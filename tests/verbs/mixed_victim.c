/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The victim of mixed: a process that is stopped and killed while the threads write and read its memory, and while it sends to
 * the threads, writes and reads theirs. A successor, which has another generation, replaces a victim that was killed. A thread
 * connects to each victim anew:
 *
 *     thread                             victim
 *     queue pair, WAY_ASKED        ->
 *                                  <-    queue pair, connected, WAY_ANSWERED
 *     connected, WAY_CONNECTED     ->
 *     RDMA                        <->    SEND, RDMA
 *
 * A request may fail only if the victim of that generation was killed. The victims of odd generations have private memory, the
 * others memory of the arena.
 */
#include "mixed.h"

enum { VRECVS = 4 }; /* receives of a thread for the victim's messages */

enum { WAY_ASKED = 1, WAY_ANSWERED, WAY_CONNECTED };
struct way {
	_Atomic uint32_t stage;
	uint32_t qpn, victims_qpn, rkey, generation;
	uint32_t threads_rkey; /* of memory that the victim writes and reads */
	uint64_t addr, threads_addr;
};
/* Shared by all processes of the test. */
static struct shared {
	struct way way[THREADS];
	_Atomic uint32_t generation; /* of the victim that lives, or was killed last */
	_Atomic uint32_t killed; /* generation of the victim that was killed last */
	_Atomic uint32_t messages; /* requests of victims that were right */
	_Atomic uint32_t wrong; /* a victim has read other bytes than it has written */
} * sh;

/* ---- a thread --------------------------------------------------------------------------------------------------------- */

static void victim_make(struct worker *w)
{
	w->vcq = vt_cq(&device, VRECVS + 2, NULL);
	w->landing = calloc(1, 4096);
	w->lmr = vt_mr(&device, w->landing, 4096, VT_ACCESS);
}

static void victim_end(struct worker *w)
{
	CHECK(!w->victim || !ibv_destroy_qp(w->victim), "destroy");
	CHECK(!ibv_dereg_mr(w->lmr) && !ibv_destroy_cq(w->vcq), "destroy");
	free(w->landing);
}

static void victim_lost(struct worker *w, enum ibv_wc_status status)
{
	struct way *y = &sh->way[w->n];

	CHECK(status == IBV_WC_RETRY_EXC_ERR || status == IBV_WC_FATAL_ERR || status == IBV_WC_WR_FLUSH_ERR,
	      "seed %lu: %s towards the victim", seed, ibv_wc_status_str(status));
	CHECK(atomic_load(&sh->killed) >= y->generation, "seed %lu: %s towards a process that lives", seed,
	      ibv_wc_status_str(status));
	CHECK(!ibv_destroy_qp(w->victim), "destroy");
	w->victim = NULL;
	w->victim_connected = false;
	for (struct ibv_wc wc; ibv_poll_cq(w->vcq, 1, &wc) > 0;)
		;
	atomic_fetch_add(&counts.lost, 1);
}

static void victims_receive(struct worker *w, uint64_t slot)
{
	struct ibv_sge s = vt_sge(w->lmr, MSG + slot * GRAM, GRAM);

	CHECK(!vt_recv(w->victim, slot, s), "receive of the victim's messages");
}

/* Waits for the request `id`, and takes the victim's messages. Returns false if the victim is gone. */
static bool victims_done(struct worker *w, uint64_t id)
{
	char want[GRAM];

	for (;;) {
		struct ibv_wc wc = vt_wait(w->vcq);
		if (wc.status != IBV_WC_SUCCESS) {
			victim_lost(w, wc.status);
			return false;
		}
		if (wc.wr_id == id)
			return true;
		struct gram *g = (struct gram *)(void *)(w->landing + MSG + wc.wr_id * GRAM);
		CHECK(wc.wr_id < VRECVS && wc.byte_len == sizeof(*g) + g->n, "seed %lu: a message of %u bytes", seed,
		      wc.byte_len);
		gram_fill(g, want);
		mixed_equal(w, g->data, want, g->n, "a message of the victim");
		victims_receive(w, wc.wr_id);
	}
}

/* Asks the victim for a connection, if the thread has none. Returns whether both ends are connected. */
static bool victim_connected(struct worker *w)
{
	struct way *y = &sh->way[w->n];

	if (!w->victim) {
		w->victim = mixed_queue(w->vcq);
		y->qpn = w->victim->qp_num;
		y->threads_rkey = w->lmr->rkey;
		y->threads_addr = (uintptr_t)w->landing;
		atomic_store(&y->stage, WAY_ASKED);
	}
	if (w->victim_connected)
		return true;
	if (atomic_load(&y->stage) != WAY_ANSWERED)
		return false;
	mixed_connect(w->victim, y->victims_qpn, 2);
	w->victim_connected = true;
	for (uint64_t i = 0; i < VRECVS; i++)
		victims_receive(w, i);
	atomic_store(&y->stage, WAY_CONNECTED);
	return true;
}

/* Writes to the victim's memory, and reads back. */
static void victim_act(struct worker *w)
{
	const struct way *y = &sh->way[w->n];

	if (!victim_connected(w))
		return;
	int s = (int)rnd(&w->r, 2);
	uint32_t n = 1 + rnd(&w->r, MSG), at = rnd(&w->r, MSG - n + 1);
	fill(&w->r, w->m[s] + HALF, n);
	for (int back = 0; back < 2; back++) {
		enum ibv_wr_opcode op = back ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE;
		CHECK(!vt_rdma(w->victim, op, 16, mixed_flat(w, s, back ? MSG : 0, n), y->addr + at, y->rkey), "RDMA");
		if (!victims_done(w, 16))
			return;
	}
	mixed_equal(w, w->m[s] + HALF, w->m[s] + HALF + MSG, n, "the victim's memory");
}

const struct kind mixed_victim = {victim_make, victim_act, victim_end};

/* ---- the victim ------------------------------------------------------------------------------------------------------- */

/* One request of the victim's to a thread, and its completion. Returns false if the queue pair has failed. */
static bool request(struct ibv_qp *qp, struct ibv_cq *cq, enum ibv_wr_opcode op, struct ibv_sge sge, const struct way *y)
{
	struct ibv_wc wc;

	if (op == IBV_WR_SEND ? vt_send(qp, 1, sge, SIGNALED) : vt_rdma(qp, op, 1, sge, y->threads_addr, y->threads_rkey))
		return false;
	/* the thread may take its time to post a receive, or have given the queue pair up */
	wc = vt_wait(cq);
	return wc.status == IBV_WC_SUCCESS;
}

/* A message, or bytes that are written and read back. Returns false if the queue pair has failed. */
static bool requests(struct random *r, struct ibv_qp *qp, struct ibv_cq *cq, const struct ibv_mr *mr, const struct way *y)
{
	char *m = (char *)mr->addr;
	struct gram *g = (struct gram *)(void *)m;
	uint32_t n = 1 + rnd(r, MSG);

	if (rnd(r, 2)) {
		g->seed = rnd(r, 1u << 30);
		g->n = rnd(r, GRAM - sizeof(*g) + 1);
		gram_fill(g, g->data);
		return request(qp, cq, IBV_WR_SEND, vt_sge(mr, 0, sizeof(*g) + g->n), y);
	}
	fill(r, m, n);
	if (!request(qp, cq, IBV_WR_RDMA_WRITE, vt_sge(mr, 0, n), y) ||
	    !request(qp, cq, IBV_WR_RDMA_READ, vt_sge(mr, MSG, n), y))
		return false;
	if (memcmp(m, m + MSG, n))
		atomic_store(&sh->wrong, 1);
	return true;
}

/* Until it is killed. */
static void victim_run(void)
{
	uint32_t generation = atomic_load(&sh->generation);
	struct ibv_qp *qp[THREADS] = {NULL};
	bool works[THREADS] = {false};
	struct random r = {seed + generation};

	device = vt_open();
	struct ibv_cq *cq = vt_cq(&device, 16, NULL);
	char *m = generation & 1 ? aligned_alloc(4096, LEN) : shca_alloc(device.ctx, LEN), *own = calloc(2, MSG);
	CHECK(m && own, "memory");
	struct ibv_mr *mr = vt_mr(&device, m, LEN, VT_ACCESS), *own_mr = vt_mr(&device, own, 2 * MSG, VT_ACCESS);
	for (;;) {
		for (int i = 0; i < THREADS; i++) {
			struct way *y = &sh->way[i];
			if (atomic_load(&y->stage) == WAY_ASKED) {
				if (qp[i])
					ibv_destroy_qp(qp[i]);
				qp[i] = mixed_queue(cq);
				mixed_connect(qp[i], y->qpn, 2);
				y->victims_qpn = qp[i]->qp_num;
				y->rkey = mr->rkey;
				y->addr = (uintptr_t)m + (unsigned)i * MSG;
				y->generation = generation;
				atomic_store(&y->stage, WAY_ANSWERED);
				works[i] = true;
			}
			/* to a queue pair that is not connected a request would get no answer */
			if (!works[i] || atomic_load(&y->stage) != WAY_CONNECTED)
				continue;
			works[i] = requests(&r, qp[i], cq, own_mr, y);
			atomic_fetch_add(&sh->messages, works[i]);
		}
		usleep(rnd(&r, 100));
	}
}

/* ---- the thread that disturbs ----------------------------------------------------------------------------------------- */

static pid_t victim;

void mixed_victim_memory(void)
{
	sh = mixed_processes_memory(sizeof(*sh));
	atomic_store(&sh->generation, 1);
}

void mixed_victim_start(void)
{
	victim = mixed_process(victim_run);
}

void mixed_victim_kill(void)
{
	atomic_store(&sh->killed, atomic_load(&sh->generation));
	CHECK(!kill(victim, SIGKILL), "kill");
	atomic_fetch_add(&sh->generation, 1);
	mixed_victim_start();
}

void mixed_victim_go_on(void)
{
	CHECK(!kill(victim, SIGCONT), "kill");
}

void mixed_victim_stop(struct random *r)
{
	CHECK(!kill(victim, SIGSTOP), "kill");
	usleep(rnd(r, 30000));
	if (rnd(r, 2))
		mixed_victim_kill();
	else
		mixed_victim_go_on();
}

uint32_t mixed_victim_messages(void)
{
	CHECK(!atomic_load(&sh->wrong), "seed %lu: a victim has read other bytes than it has written", seed);
	return atomic_load(&sh->messages);
}
