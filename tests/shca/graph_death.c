/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Random graphs of requests, of which one member dies: the state that the survivors must be in.
 *
 * Evidence. The completions of a survivor's queue tell which requests ended with success: the first ones. For the dead member's
 * queues, the executor of each notes at failpoints how many requests have begun and ended. So at most one request of each queue
 * may have been interrupted.
 *
 * End. No queue can go on any more (graph_death_settle). Each queue of a survivor is unlocked, and
 *   - all requests of the queue have ended, or
 *   - the queue has failed: all requests and all of its receives have completed; or
 *   - its next request rightly waits: the request is not enabled, its completions have not come, or there is no receive for the
 *     message.
 * The queue of a dead peer has `peer_dead` set, the receives are completed, IBV_EVENT_QP_FATAL is raised, and the next request
 * does not need the dead member. (If the peer was dead before the two were connected, the first send finds that out.) The dead
 * member's slot is free, the member owns no memory, and holds no lock.
 *
 * Failures. A queue to the dead member may fail: the first failed request has IBV_WC_RETRY_EXC_ERR. A queue that a thread of the
 * dead member executed may fail with IBV_WC_FATAL_ERR (whether the request happened is unknown); then the peer of that queue
 * fails, too, with IBV_WC_RETRY_EXC_ERR, if the peer's request needs that queue. No other queue may fail: a request has run if
 * all of its predecessors have ended.
 *
 * Effects. Completions in error count for WAITs as successful ones do (docs/verbs_exp.md): a WAIT for a failed queue is met too
 * early, and the requests that are enabled behind that WAIT may run too early, though their predecessors end later. A request is
 * *in order* if all predecessors had ended before the death was known, or have ended in queues that were not enabled too early,
 * and if neither the request's own queue nor the receives of the peer were enabled too early before the request ran. Then:
 *   - A request in order, with operands that no request out of order may have changed, has had exactly the effect that the graph
 *     states, and once, whichever process executed the request.
 *   - An interrupted request has changed nothing but the target: an atomic, of any size, all of the target or nothing; any other
 *     request, each byte of the target or not. (An RDMA WRITE with immediate that waits for a receive for ever counts as
 *     interrupted.)
 *   - A request that commutes with all requests that have touched the same target has been done exactly once, in order or not.
 *   - Bytes that requests out of order may overwrite are unknown. All other bytes are as before.
 *   - Counters (graph.stamps) have counted each request exactly once.
 */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#include "graph.h"

#define WRONG(g, text, ...) FAIL("seed %lu: " text, (unsigned long)(g)->seed, __VA_ARGS__)

/* ---- witnesses ------------------------------------------------------------------------------------------------------ */

static void raise_to(_Atomic uint32_t *word, uint32_t value)
{
	uint32_t old = atomic_load(word);

	while (old < value && !atomic_compare_exchange_weak(word, &old, value))
		;
}

/* Of the queues of this graph; GRAPH_QUEUES: another. */
static uint32_t queue_of(const struct graph *g, const struct graph_board *board, uint32_t qpn)
{
	uint32_t i = 0;

	while (i < g->queues && board->qpn[i] != qpn)
		i++;
	return i < g->queues ? i : GRAPH_QUEUES;
}

void graph_death_witness(struct graph_death *d, const struct graph *g, const struct graph_board *board, uint32_t id,
			 const char *name, const struct shca_qp *qp)
{
	static _Atomic uint32_t threads;
	static __thread uint32_t mine;
	uint32_t i = qp ? queue_of(g, board, qp->qpn) : GRAPH_QUEUES, head;

	if (i == GRAPH_QUEUES)
		return;
	if (!mine)
		mine = atomic_fetch_add(&threads, 1) % GRAPH_THREADS + 1;
	head = (uint32_t)atomic_load(&qp->head);
	/* flushed requests move the head, too: but only behind this mark */
	if (!atomic_load(&qp->fail))
		raise_to(&d->ended[i], head);
	if (!strcmp(name, "exec")) {
		raise_to(&d->begun[i], head + 1);
		atomic_store(&d->runs[id][mine - 1], i + 1);
	} else if (!strcmp(name, "advanced") || !strcmp(name, "release")) {
		atomic_store(&d->runs[id][mine - 1], 0);
	}
}

void graph_death_before(struct graph_death *d)
{
	for (uint32_t i = 0; i < GRAPH_QUEUES; i++)
		d->before[i] = atomic_load(&d->ended[i]);
}

/* ---- until nothing can go on ------------------------------------------------------------------------------------------- */

static bool survives(const struct graph *g, const struct graph_death *d, uint32_t queue)
{
	return g->q[queue].member != d->victim;
}

static bool peer_survives(const struct graph *g, const struct graph_death *d, uint32_t queue)
{
	return survives(g, d, g->q[queue].peer);
}

static struct shca_qp *shared_of(const struct graph_member *m, uint32_t queue)
{
	struct shca_qp *sh = shca_number_get(m->r->m, m->board->qpn[queue], SHCA_KIND_QP);

	CHECK(sh);
	return sh;
}

static uint64_t receives_completed(const struct graph_member *m, const struct shca_qp *sh)
{
	return shca_cq_count(shca_thread_get(m->r->m), shca_at(m->r->m->base, sh->rcq));
}

/* Returns whether a queue is right to wait at its next request. Must: that request needs a survivor, or no other member. */
static bool waits(const struct graph_member *m, uint32_t queue, const struct shca_qp *sh, uint64_t head)
{
	const struct graph_queue *q = &m->g->q[queue], *p = &m->g->q[q->peer];
	const struct shca_wqe *wqe = shca_wqe_at(m->r->m->base, sh, head);
	enum graph_op op = q->req[head].op;

	if (op == GRAPH_WAIT)
		return shca_cq_count(shca_thread_get(m->r->m), shca_at(m->r->m->base, wqe->raddr)) < wqe->arg[0];
	if (op != GRAPH_SEND && op != GRAPH_WRITE_IMM)
		return false;
	const struct shca_qp *to = shared_of(m, q->peer);
	const struct shca_rq *rq = shca_at(m->r->m->base, to->rq);
	/* positions begin at the ring's size */
	uint64_t may = p->posted_recv, begin = 1ull << rq->log2, enabled = atomic_load(&rq->enabled);
	if (rq->managed && enabled < begin + may)
		may = enabled > begin ? enabled - begin : 0;
	return !atomic_load(&to->fail) && receives_completed(m, to) == may;
}

/* Returns NULL if the queue has reached its end (head of the file), else the reason why not. Adds every value that changes while
 * the queue runs to *state. */
static const char *unsettled(const struct graph_member *m, const struct graph_death *d, uint32_t queue, uint64_t *state)
{
	const struct graph_queue *q = &m->g->q[queue];
	const struct shca_qp *sh = shared_of(m, queue);
	uint64_t lock = atomic_load(&sh->lock), head = atomic_load(&sh->head), received = receives_completed(m, sh);
	bool failed = atomic_load(&sh->fail), dead = !peer_survives(m->g, d, queue);

	*state += (lock * 3 + head * 5 + received * 7 + failed) * (2 * queue + 1);
	if (lock & 7)
		return "it is locked";
	/* not connected: the peer had died before; the queue's first send finds that out */
	bool connected = sh->peer_proc, told = atomic_load(&sh->peer_dead) && atomic_load(&sh->events) & 1u << IBV_EVENT_QP_FATAL;
	if (dead && connected && !told && !failed)
		return "it was not told that its peer has died";
	if ((failed || (dead && connected)) && received < q->posted_recv)
		return "receives are not flushed";
	if (failed && head < q->n)
		return "requests are not flushed";
	if (head == q->n || (q->managed_send && head >= atomic_load(&sh->enabled)))
		return NULL;
	enum graph_op op = q->req[head].op;
	if (dead && op != GRAPH_WAIT && op != GRAPH_SEND_EN && op != GRAPH_RECV_EN && op != GRAPH_NOP)
		return "its next request is for the dead";
	return waits(m, queue, sh, head) ? NULL : "its next request could run";
}

static const char *unreaped(const struct graph_member *m, const struct graph_death *d)
{
	const struct shca_member *f = m->r->m;

	if ((atomic_load(&f->procs[d->slot].state) & 255) != SHCA_PROC_FREE)
		return "its slot is not free";
	if (rig_chunks(f, d->slot))
		return "it owns memory";
	for (uint32_t i = 0; i < SHCA_ATOMIC_LOCKS; i++) {
		uint32_t holder = atomic_load(&f->hdr->atomic_locks[i]);
		if (holder && !atomic_load(&f->threads[holder - 1].owner))
			return "an atomic's lock is held by nobody";
	}
	return NULL;
}

/* Returns true if nothing has changed since the last call, and all queues have come to their end. */
static bool settled(const struct graph_member *m, const struct graph_death *d, uint64_t *state, bool say)
{
	const struct graph *g = m->g;
	const char *what = unreaped(m, d);
	uint64_t now = 1;
	bool all = !what;

	if (what && say)
		fprintf(stderr, "seed %lu: the dead member %u: %s\n", (unsigned long)g->seed, d->victim, what);
	for (uint32_t i = 0; i < g->queues; i++) {
		what = survives(g, d, i) ? unsettled(m, d, i, &now) : NULL;
		all = all && !what;
		if (!what || !say)
			continue;
		const struct shca_qp *sh = shared_of(m, i);
		uint64_t head = atomic_load(&sh->head);
		fprintf(stderr,
			"seed %lu: queue %u (%#x) of member %u, its peer %u of member %u: %s; %lu of %u requests have ended, "
			"the next one: kind %d; enabled %lu, fail %d, peer_dead %u, gate %#x, lock %#lx, receives %lu of %u\n",
			(unsigned long)g->seed, i, sh->qpn, g->q[i].member, g->q[i].peer, g->q[g->q[i].peer].member, what,
			(unsigned long)head, g->q[i].n, head < g->q[i].n ? (int)g->q[i].req[head].op : -1,
			(unsigned long)atomic_load(&sh->enabled), atomic_load(&sh->fail), atomic_load(&sh->peer_dead),
			atomic_load(&sh->gate), (unsigned long)atomic_load(&sh->lock), (unsigned long)receives_completed(m, sh),
			g->q[i].posted_recv);
	}
	bool same = now == *state;
	*state = now;
	return all && same;
}

/* Progress of a queue that its completions so far prove. */
struct reading {
	uint32_t next, received;	/* the request to complete next; receives that got a message */
	bool taken[GRAPH_OPS];
};

static void read_requests(const struct graph_member *m, struct graph_death *d, uint32_t i, struct reading *x)
{
	const struct graph_queue *q = &m->g->q[i];
	struct ibv_wc wc;

	for (int n; (n = shca_poll_cq(m->cq[2 * i], 1, &wc)); x->next = (uint32_t)wc.wr_id + 1) {
		CHECK(n > 0);
		bool failed = d->queue[i].status != IBV_WC_SUCCESS;
		/* unsignaled requests have no completion, unless they fail */
		while (!failed && x->next < wc.wr_id && x->next < q->n && !q->req[x->next].signaled)
			x->next++;
		if (wc.wr_id != x->next || wc.wr_id >= q->n || (failed && wc.status != IBV_WC_WR_FLUSH_ERR) ||
		    (wc.status == IBV_WC_SUCCESS && !q->req[x->next].signaled))
			WRONG(m->g, "queue %u: request %lu completes with %s, where %u of %u was to come, after %s", i,
			      (unsigned long)wc.wr_id, ibv_wc_status_str(wc.status), x->next, q->n,
			     ibv_wc_status_str((enum ibv_wc_status)d->queue[i].status));
		if (failed || wc.status == IBV_WC_SUCCESS)
			continue;
		d->queue[i].ok = x->next;
		d->queue[i].status = (int)wc.status;
	}
}

static void read_receives(const struct graph_member *m, uint32_t i, struct reading *x)
{
	uint32_t posted = m->g->q[i].posted_recv;
	struct ibv_wc wc;

	for (int n; (n = shca_poll_cq(m->cq[2 * i + 1], 1, &wc));) {
		CHECK(n > 0);
		bool again = wc.wr_id < posted && x->taken[wc.wr_id];
		if (wc.wr_id >= posted || again || (wc.status != IBV_WC_SUCCESS && wc.status != IBV_WC_WR_FLUSH_ERR))
			WRONG(m->g, "queue %u: receive %lu of %u completes%s with %s", i,
			     (unsigned long)wc.wr_id, posted, again ? " again" : "", ibv_wc_status_str(wc.status));
		x->taken[wc.wr_id] = true;
		x->received += wc.status == IBV_WC_SUCCESS;
	}
}

static void read_all(const struct graph_member *m, struct graph_death *d, struct reading *x)
{
	for (uint32_t i = 0; i < m->g->queues; i++)
		if (m->qp[i]) {
			read_requests(m, d, i, &x[i]);
			read_receives(m, i, &x[i]);
		}
}

static void tell(const struct graph_member *m, struct graph_death *d, uint32_t i, const struct reading *x)
{
	const struct graph_queue *q = &m->g->q[i];
	uint32_t missing = 0, head = (uint32_t)atomic_load(&shared_of(m, i)->head);
	bool failed = d->queue[i].status != IBV_WC_SUCCESS;

	if (!failed)
		d->queue[i].ok = head;
	for (uint32_t k = x->next; k < head; k++)
		missing += failed || q->req[k].signaled;
	if (missing || x->next > head)
		WRONG(m->g, "queue %u: %u requests have ended, but of %u there are completions, %u are missing", i,
		     head, x->next, missing);
	d->queue[i].received = x->received;
}

void graph_death_settle(const struct graph_member *m, struct graph_death *d, bool quiet, double seconds)
{
	uint64_t end = monotonic_ns() + (uint64_t)(seconds * 1e9), state = 0;
	struct reading *x = calloc(GRAPH_QUEUES, sizeof(*x));

	CHECK(x);
	for (uint32_t i = 0; i < m->g->queues; i++)
		if (m->qp[i])
			d->queue[i].status = IBV_WC_SUCCESS;
	while (!settled(m, d, &state, false)) {
		if (monotonic_ns() > end) {
			settled(m, d, &state, true);
			WRONG(m->g, "member %u: what the death of member %u has left does not come to an end", m->id, d->victim);
		}
		/* a poller finds the rest; but no member need poll */
		if (!quiet)
			read_all(m, d, x);
		rig_nap();
	}
	read_all(m, d, x);
	for (uint32_t i = 0; i < m->g->queues; i++)
		if (m->qp[i])
			tell(m, d, i, &x[i]);
	free(x);
}

/* ---- effects of the requests that ran ----------------------------------------------------------------------------------- */

/* How a request touches memory that is compared. */
enum touch { READS = 1, WRITES = 2, ADDS = 4, SETS = 8 };
struct part {
	enum touch how;
	uint32_t member;
	struct graph_seg seg;
};

static bool is_atomic(const struct graph_req *r)
{
	return r->op >= GRAPH_FAA && r->op <= GRAPH_MCAS;
}

/* graph_make.c: the results of such a request go to memory that is not compared. */
static bool commutes(const struct graph_req *r)
{
	return is_atomic(r) && r->seg[0].off >= GRAPH_MEM;
}

static uint32_t parts_of(const struct graph *g, uint32_t queue, uint32_t req, struct part *p)
{
	const struct graph_queue *q = &g->q[queue];
	const struct graph_req *r = &q->req[req];
	uint32_t mine = q->member, theirs = g->q[q->peer].member, n = 0;

	if (r->op < GRAPH_SEND || r->op > GRAPH_MCAS)
		return 0;
	if (commutes(r)) {
		p[n++] = (struct part){r->op == GRAPH_MCAS ? SETS : ADDS, theirs, r->remote};
		return n;
	}
	/* an atomic reads the target, too: the result of a comparison depends on those bytes */
	if (is_atomic(r))
		p[n++] = (struct part){READS, theirs, r->remote};
	p[n++] = (struct part){r->op == GRAPH_READ ? READS : WRITES, theirs, r->remote};
	for (uint32_t i = 0; i < r->nseg && !r->inl; i++)
		p[n++] = (struct part){r->op == GRAPH_READ || (is_atomic(r) && !i) ? WRITES : READS, mine, r->seg[i]};
	return n;
}
#define MOST_PARTS (GRAPH_SEGS + 3)

enum fate { NOT_RUN, INTERRUPTED, RAN };
struct paper {
	const struct graph *g;
	const struct graph_death *d;
	struct graph_image image, other;	/* other: with the effects of interrupted requests */
	uint8_t touched[GRAPH_MEMBERS][GRAPH_MEM];	/* enum touch */
	uint8_t unknown[GRAPH_MEMBERS][GRAPH_MEM];
	uint8_t open[GRAPH_MEMBERS][GRAPH_MEM];	/* by a request that was interrupted */
	uint32_t ok[GRAPH_QUEUES], known[GRAPH_QUEUES];	/* ended with success; ended in order: other queues may rely on these */
	bool early[GRAPH_QUEUES];			/* enabled by a request out of order */
};

static enum fate fate_of(const struct paper *x, uint32_t queue, uint32_t req)
{
	if (req < x->ok[queue])
		return RAN;
	/* an RDMA WRITE with immediate that waits for a receive has written already */
	bool stopped = !survives(x->g, x->d, queue) || x->d->queue[queue].status != IBV_WC_SUCCESS ||
		       x->g->q[queue].req[req].op == GRAPH_WRITE_IMM;
	return stopped && req == x->ok[queue] && atomic_load(&x->d->begun[queue]) > req ? INTERRUPTED : NOT_RUN;
}

/* Returns a queue with a predecessor of the request that had not ended in order; `queue` if that queue was enabled too early;
 * GRAPH_QUEUES if the request is in order. Predecessors in the request's own queue have ended: a queue runs in order. */
static uint32_t out_of_order(const struct paper *x, uint32_t queue, uint32_t req)
{
	uint32_t o = 0;

	if (x->early[queue] && req >= x->d->before[queue])
		return queue;
	while (o < x->g->queues && (o == queue || x->g->q[queue].ended[req][o] <= x->known[o]))
		o++;
	return o < x->g->queues ? o : GRAPH_QUEUES;
}

/* Returns whether any byte of a part has one of these bits. */
static bool any(const uint8_t (*mark)[GRAPH_MEM], const struct part *p, uint8_t bits)
{
	for (uint32_t i = p->seg.off; i < p->seg.off + p->seg.len && i < GRAPH_MEM; i++)
		if (mark[p->member][i] & bits)
			return true;
	return false;
}

static bool mark(uint8_t (*mark)[GRAPH_MEM], const struct part *p, uint8_t bits)
{
	bool new = false;

	for (uint32_t i = p->seg.off; i < p->seg.off + p->seg.len && i < GRAPH_MEM; i++) {
		new |= (mark[p->member][i] & bits) != bits;
		mark[p->member][i] |= bits;
	}
	return new;
}

/* Finds ENABLEs that ran out of order: the requests of the enabled send queue, or the messages for the enabled receives, may have
 * come too early. Returns true if a queue was added. */
static bool enable_early(struct paper *x)
{
	bool more = false;

	for (uint32_t s = 0; s < x->g->steps; s++) {
		uint32_t q = x->g->order[s].queue, i = x->g->order[s].req;
		const struct graph_req *r = &x->g->q[q].req[i];
		if ((r->op != GRAPH_SEND_EN && r->op != GRAPH_RECV_EN) || fate_of(x, q, i) != RAN ||
		    out_of_order(x, q, i) == GRAPH_QUEUES)
			continue;
		uint32_t whose = r->op == GRAPH_SEND_EN ? r->target : x->g->q[r->target].peer;
		more |= !x->early[whose];
		x->early[whose] = true;
		x->known[whose] = x->d->before[whose];
	}
	return more;
}

/* Marks the bytes that requests out of order may have read and written at any time. Returns true if more
 * bytes are unknown now. */
static bool spread(struct paper *x, uint32_t queue, uint32_t req)
{
	struct part p[MOST_PARTS];
	uint32_t n = parts_of(x->g, queue, req, p);
	bool wild = out_of_order(x, queue, req) < GRAPH_QUEUES, more = false;

	for (uint32_t i = 0; i < n; i++)
		wild |= p[i].how != WRITES && any(x->unknown, &p[i], 1);
	for (uint32_t i = 0; i < n && wild; i++) {
		bool alone = p[i].how >= ADDS && !any(x->touched, &p[i], (uint8_t)~p[i].how) && !any(x->unknown, &p[i], 1);
		if (p[i].how != READS && !alone)
			more |= mark(x->unknown, &p[i], 1);
	}
	return more;
}

/* Computes the target as the interrupted request leaves it if all of the request has happened. */
static void imagine(struct paper *x, uint32_t queue, uint32_t req)
{
	struct part p[MOST_PARTS];
	uint32_t n = parts_of(x->g, queue, req, p);
	struct graph_image *after = malloc(sizeof(*after));

	CHECK(after);
	*after = x->image;
	graph_apply(x->g, after, queue, req);
	for (uint32_t i = 0; i < n; i++)
		for (uint32_t b = p[i].seg.off; p[i].how == WRITES && b < p[i].seg.off + p[i].seg.len && b < GRAPH_MEM; b++) {
			x->other.mem[p[i].member][b] = after->mem[p[i].member][b];
			x->open[p[i].member][b] = 1;
		}
	free(after);
}

static void make_paper(struct paper *x, const struct graph_member *m, const struct graph_death *d)
{
	const struct graph *g = m->g;
	struct part p[MOST_PARTS];

	x->g = g;
	x->d = d;
	for (uint32_t i = 0; i < g->queues; i++) {
		x->ok[i] = survives(g, d, i) ? d->queue[i].ok : atomic_load(&d->ended[i]);
		x->known[i] = survives(g, d, i) ? x->ok[i] : d->before[i];
	}
	for (uint32_t s = 0; s < g->steps; s++) {
		uint32_t q = g->order[s].queue, r = g->order[s].req, n = parts_of(g, q, r, p);
		for (uint32_t i = 0; i < n && fate_of(x, q, r) != NOT_RUN; i++)
			mark(x->touched, &p[i], p[i].how);
	}
	while (enable_early(x))
		;
	for (bool more = true; more;) {
		more = false;
		for (uint32_t s = 0; s < g->steps; s++)
			if (fate_of(x, g->order[s].queue, g->order[s].req) != NOT_RUN)
				more |= spread(x, g->order[s].queue, g->order[s].req);
	}
	graph_begin(g, &x->image);
	for (uint32_t s = 0; s < g->steps; s++) {
		uint32_t q = g->order[s].queue, r = g->order[s].req;
		enum fate fate = fate_of(x, q, r);
		bool ordered = out_of_order(x, q, r) == GRAPH_QUEUES;
		if (fate == RAN && (ordered || commutes(&g->q[q].req[r])))
			graph_apply(g, &x->image, q, r);
		else if (fate == INTERRUPTED && ordered && !commutes(&g->q[q].req[r]))
			imagine(x, q, r);
	}
}

/* ---- checks ------------------------------------------------------------------------------------------------------------- */

static bool is_message(const struct graph_req *r)
{
	return r->op == GRAPH_SEND || r->op == GRAPH_WRITE_IMM;
}

/* Checks the reason for which a queue of this member has failed. */
static void check_failure(const struct graph_member *m, const struct graph_death *d, uint32_t i)
{
	const struct graph_queue *q = &m->g->q[i];
	int status = d->queue[i].status;
	bool right = false;

	if (status == IBV_WC_SUCCESS)
		right = !atomic_load(&shared_of(m, i)->fail);
	else if (status == IBV_WC_RETRY_EXC_ERR)
		right = !peer_survives(m->g, d, i) || d->queue[q->peer].status != IBV_WC_SUCCESS;
	else if (status == IBV_WC_FATAL_ERR)
		for (uint32_t t = 0; t < GRAPH_THREADS; t++)
			right |= atomic_load(&d->runs[d->victim][t]) == i + 1;
	if (!right)
		WRONG(m->g,
		      "queue %u of member %u, to member %u: request %u of %u (kind %d) has failed with %s; member %u has died",
		      i, m->id, m->g->q[q->peer].member, d->queue[i].ok, q->n,
		      d->queue[i].ok < q->n ? (int)q->req[d->queue[i].ok].op : -1,
		      ibv_wc_status_str((enum ibv_wc_status)status), d->victim);
}

/* Returns whether all predecessors of a request are in queues between survivors that have not failed. */
static bool independent(const struct paper *x, uint32_t queue, uint32_t req)
{
	for (uint32_t o = 0; o < x->g->queues; o++)
		if (x->g->q[queue].ended[req][o] && (!survives(x->g, x->d, o) || !peer_survives(x->g, x->d, o) ||
						     x->d->queue[o].status != IBV_WC_SUCCESS))
			return false;
	return true;
}

static void check_queue(const struct graph_member *m, const struct paper *x, uint32_t i, struct graph_tally *t)
{
	const struct graph_queue *q = &x->g->q[i], *p = &x->g->q[q->peer];
	uint32_t ok = x->ok[i], messages = 0;

	check_failure(m, x->d, i);
	for (uint32_t k = 0; k < q->n; k++) {
		bool alone = independent(x, i, k);
		if (alone && k >= ok)
			WRONG(x->g, "queue %u of member %u: request %u has not run, and depends on survivors only", i,
			     m->id, k);
		t->independent += alone;
	}
	uint32_t o = 0;
	while (ok < q->n && o < x->g->queues && (o == i || q->ended[ok][o] <= x->ok[o]))
		o++;
	if (ok < q->n && o == x->g->queues && x->d->queue[i].status == IBV_WC_SUCCESS)
		WRONG(x->g, "queue %u of member %u: request %u has not run, and nothing is before it", i, m->id, ok);
	for (uint32_t k = 0; k < x->ok[q->peer]; k++)
		messages += is_message(&p->req[k]);
	uint32_t most = messages, next = x->ok[q->peer];
	if (next < p->n && is_message(&p->req[next]) && fate_of(x, q->peer, next) == INTERRUPTED)
		most++;
	if (x->d->queue[i].received < messages || x->d->queue[i].received > most)
		WRONG(x->g, "queue %u of member %u has received %u messages, its peer has sent %u, or %u", i, m->id,
		     x->d->queue[i].received, messages, most);
	t->ok += ok;
	t->failed += x->d->queue[i].status != IBV_WC_SUCCESS;
	t->fatal += x->d->queue[i].status == IBV_WC_FATAL_ERR;
	t->waiting += x->d->queue[i].status == IBV_WC_SUCCESS && ok < q->n;
}

static void check_stamps(const struct graph_member *m, const struct paper *x)
{
	for (uint32_t i = 0; i < x->g->queues; i++) {
		const struct graph_queue *q = &x->g->q[i];
		uint64_t least = 0, ok = x->ok[i], n = atomic_load(&m->stamps[i]);
		for (uint32_t k = 0; k < ok; k++)
			least += q->req[k].op == GRAPH_STAMP;
		bool perhaps = ok < q->n && q->req[ok].op == GRAPH_STAMP && fate_of(x, i, (uint32_t)ok) == INTERRUPTED;
		if (n < least || n > least + perhaps)
			WRONG(x->g, "queue %u: %lu increments of its counter, not %lu%s", i, (unsigned long)n,
			     (unsigned long)least, perhaps ? ", nor one more" : "");
	}
}

static uint8_t byte_of(const struct graph_member *m, uint32_t off)
{
	return (uint8_t)*graph_memory(m, off);
}

/* The target of an interrupted atomic is as before or as after the atomic; of any other interrupted request, each byte is. */
static void check_interrupted(const struct graph_member *m, const struct paper *x, uint32_t queue, uint32_t req,
			      struct graph_tally *t)
{
	const struct graph_req *r = &x->g->q[queue].req[req];
	struct part p[MOST_PARTS];
	uint32_t n = parts_of(x->g, queue, req, p), old = 0, new = 0;

	for (uint32_t i = 0; i < n; i++) {
		if (p[i].how != WRITES || p[i].member != m->id || any(x->unknown, &p[i], 1))
			continue;
		uint32_t was = 0, is = 0;
		for (uint32_t b = p[i].seg.off; b < p[i].seg.off + p[i].seg.len && b < GRAPH_MEM; b++) {
			uint8_t before = (uint8_t)x->image.mem[m->id][b], after = (uint8_t)x->other.mem[m->id][b];
			was += before != after && byte_of(m, b) == before;
			is += before != after && byte_of(m, b) == after;
		}
		if (was && is && is_atomic(r) && i == 1)
			WRONG(x->g,
			      "member %u: an atomic of %u bytes (queue %u, request %u) has been done to %u bytes, not to %u",
			      m->id, r->remote.len, queue, req, is, was);
		old += was;
		new += is;
	}
	t->done += new && !old;
	t->undone += old && !new;
	t->partly += old && new;
}

/* Of several interrupted additions, or bits set, any subset has been done. */
static void check_commuting(const struct graph_member *m, struct paper *x)
{
	struct { uint32_t queue, req; } open[16];
	struct graph_image *try = malloc(sizeof(*try));
	struct part p[MOST_PARTS];
	uint32_t n = 0, set;
	bool right = false;

	CHECK(try);
	for (uint32_t i = 0; i < x->g->queues && n < ARRAY_SIZE(open); i++) {
		uint32_t k = x->ok[i];
		if (k >= x->g->q[i].n || fate_of(x, i, k) != INTERRUPTED || !commutes(&x->g->q[i].req[k]))
			continue;
		parts_of(x->g, i, k, p);
		if (p[0].member != m->id || any(x->unknown, p, 1))
			continue;
		open[n].queue = i;
		open[n++].req = k;
	}
	CHECK(n < ARRAY_SIZE(open));
	for (set = 0; set < 1u << n && !right; set++) {
		*try = x->image;
		for (uint32_t i = 0; i < n; i++)
			if (set >> i & 1)
				graph_apply(x->g, try, open[i].queue, open[i].req);
		right = true;
		for (uint32_t i = 0; i < n && right; i++) {
			const struct graph_seg *s = &x->g->q[open[i].queue].req[open[i].req].remote;
			for (uint32_t b = s->off; b < s->off + s->len && right; b++)
				right = byte_of(m, b) == (uint8_t)try->mem[m->id][b];
		}
	}
	/* the image takes over the subset that fits; if none fits, check_memory compares with an image that differs, and fails */
	if (right)
		x->image = *try;
	free(try);
}

static void check_memory(const struct graph_member *m, struct paper *x, struct graph_tally *t)
{
	for (uint32_t i = 0; i < x->g->queues; i++)
		if (x->ok[i] < x->g->q[i].n && fate_of(x, i, x->ok[i]) == INTERRUPTED && !commutes(&x->g->q[i].req[x->ok[i]]))
			check_interrupted(m, x, i, x->ok[i], t);
	check_commuting(m, x);
	t->bytes += GRAPH_MEM;
	for (uint32_t b = 0; b < GRAPH_MEM; b++) {
		uint8_t must = (uint8_t)x->image.mem[m->id][b], is = byte_of(m, b);
		t->unknown += x->unknown[m->id][b];
		if (x->unknown[m->id][b] || is == must || (x->open[m->id][b] && is == (uint8_t)x->other.mem[m->id][b]))
			continue;
		graph_blame(m, b);
		for (uint32_t i = 0; i < x->g->queues; i++)
			fprintf(stderr, "queue %u of member %u: %u of %u have ended, %u when all lived, %u had begun\n", i,
				x->g->q[i].member, x->ok[i], x->g->q[i].n, x->d->before[i], atomic_load(&x->d->begun[i]));
		WRONG(x->g, "member %u, when member %u has died: byte %u is %#x, not %#x", m->id, x->d->victim, b,
		     is, must);
	}
}

void graph_death_check(const struct graph_member *m, const struct graph_death *d, struct graph_tally *t)
{
	struct paper *x = calloc(1, sizeof(*x));

	CHECK(x);
	make_paper(x, m, d);
	for (uint32_t i = 0; i < m->g->queues; i++)
		if (m->qp[i])
			check_queue(m, x, i, t);
	check_stamps(m, x);
	check_memory(m, x, t);
	free(x);
}
