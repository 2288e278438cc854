/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Random WAIT/ENABLE graphs against a reference interpreter. Every member has cross-channel queues, some of them managed, each
 * connected to one queue of some member, and posts task lists on them; then it makes no more calls. A program is random: parts of
 * it may never be able to run. The set of requests that complete is determined: the counts that requests wait for only grow, so
 * there is one largest set. The interpreter finds that set; when the last post has returned, the engine must have completed that
 * set, and no other request.
 *
 * Each queue's requests are stamped: a fetch-and-add on one cell of the fabric, before each request that other ones may wait
 * for. The stamps show that no request ran before those that it depends on.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "vproc.h"

#define MAXQ 6u			/* queues per member */
#define MAXOPS 40u		/* requests per queue */
#define MAXRECV 24u
#define NONE UINT32_MAX

enum op { G_STAMP, G_SEND, G_WRITE, G_NOP, G_WAIT, G_SEND_EN, G_RECV_EN, G_KINDS };

struct node {
	enum op op;
	bool signaled;
	uint32_t cq;			/* WAIT: index of the member's CQ */
	uint32_t target;		/* ENABLE: queue of the member */
	uint64_t count;			/* absolute count: of completions that WAIT waits for, of requests that ENABLE enables */
	int32_t wr_count;		/* the count in the work request, which may be relative */
	bool en_last;
	uint32_t list;			/* the task list with the request */
};

/* The base of relative counts: of WAITs for a CQ, of ENABLEs of a queue. */
struct index {
	uint64_t base, most;
};

struct queue {
	struct ibv_qp *qp;
	uint32_t member, index, peer;	/* member; index in the member; peer: index of all queues */
	bool managed_send, managed_recv;
	uint32_t scq, rcq;		/* of the member's CQs */
	struct node op[MAXOPS];
	uint32_t n;
	uint32_t recvs;			/* receives posted */
	uint32_t recv_list[MAXRECV];	/* task list that posts each */
	struct index send_index, recv_index;	/* while the program is made */
	/* the interpreter */
	uint32_t head, taken;
	uint64_t enabled, recv_enabled;
	/* results */
	uint64_t *stamp;		/* by request */
	uint64_t *payload;		/* the data of SENDs: number of the queue, number of the request */
	uint64_t *inbox;		/* receives, 2 words each */
	uint64_t *cell;			/* the target of the peer's WRITEs */
};

struct cq {
	struct ibv_cq *cq;
	uint64_t count;			/* the interpreter's */
	struct index waited;		/* while the program is made */
};

struct gm {
	struct rig r;
	struct graph *g;
	uint32_t id, nq, ncq, lists;
	struct cq cq[MAXQ + 1];
	uint64_t rng;
	pthread_t thread;
	char *arena;
	struct ibv_mr *mr, *clock_mr;
	size_t used;
};

struct graph {
	struct gm *m;
	uint32_t n;
	struct queue *q;
	uint32_t nq;
	uint64_t *clock;
	pthread_barrier_t start;
	bool pollers;
	uint64_t seed;
};

static uint64_t *words(struct gm *m, uint32_t n)
{
	uint64_t *p = (uint64_t *)(m->arena + m->used);
	m->used += n * 8;
	return p;
}

/* ---- the program -------------------------------------------------------------------------------------------------- */

static struct queue *queue_of(struct graph *g, uint32_t member, uint32_t i)
{
	for (uint32_t k = 0; k < g->nq; k++)
		if (g->q[k].member == member && g->q[k].index == i)
			return &g->q[k];
	return NULL;
}

/* Returns the number of the target's requests (recv: receives) that are posted with the lists up to this one. */
static uint64_t posted_by(const struct queue *t, uint32_t list, bool recv)
{
	uint64_t n = 0;

	if (recv) {
		for (uint32_t i = 0; i < t->recvs; i++)
			n += t->recv_list[i] <= list;
	} else {
		for (uint32_t i = 0; i < t->n; i++)
			n += t->op[i].list <= list;
	}
	return n;
}

static void make_queue(struct graph *g, struct queue *q)
{
	struct gm *m = &g->m[q->member];

	q->n = 3 + rig_below(&m->rng, MAXOPS - 3);
	q->recvs = rig_below(&m->rng, MAXRECV + 1);
	for (uint32_t i = 0, list = 0; i < q->n; i++) {
		struct node *d = &q->op[i];
		list += rig_below(&m->rng, 8) == 0 && list + 1 < m->lists;
		*d = (struct node){.op = G_STAMP, .list = list, .signaled = rig_below(&m->rng, 3) == 0};
		/* requests that other ones depend on have odd places, with a stamp before each */
		if (i & 1)
			d->op = (enum op)(1 + rig_below(&m->rng, G_KINDS - 1));
	}
	for (uint32_t i = 0, list = 0; i < q->recvs; i++) {
		list += rig_below(&m->rng, 8) == 0 && list + 1 < m->lists;
		q->recv_list[i] = list;
	}
}

/* Returns the absolute count of a relative one (0: `all`). The base moves with the last request of a group, to the
 * largest count of the group. */
static uint64_t count_on(struct index *x, int32_t count, uint64_t all, bool last)
{
	uint64_t to = count ? x->base + (uint64_t)count : all;

	if (to > x->most)
		x->most = to;
	if (last)
		x->base = x->most;
	return to;
}

/* Gives WAITs and ENABLEs their counts, in the order in which they are posted, since relative counts accumulate. */
static void make_counts(struct graph *g, struct gm *m)
{
	for (uint32_t list = 0; list < m->lists; list++)
		for (uint32_t k = 0; k < m->nq; k++) {
			struct queue *q = queue_of(g, m->id, k);
			for (uint32_t i = 0; i < q->n; i++) {
				struct node *d = &q->op[i];
				if (d->list != list || d->op < G_WAIT)
					continue;
				if (d->op == G_WAIT) {
					d->cq = rig_below(&m->rng, m->ncq);
					d->wr_count = 1 + (int32_t)rig_below(&m->rng, rig_below(&m->rng, 3) ? 3 : 8);
					d->en_last = rig_below(&m->rng, 2);
					d->count = count_on(&m->cq[d->cq].waited, d->wr_count, 0, d->en_last);
					continue;
				}
				bool recv = d->op == G_RECV_EN;
				d->target = rig_below(&m->rng, m->nq);
				struct queue *t = queue_of(g, m->id, d->target);
				uint64_t posted = posted_by(t, list, recv);
				if (!(recv ? t->managed_recv : t->managed_send)) {
					d->op = G_NOP;
					continue;
				}
				/* the count may need requests of a later list, or more than will ever be posted */
				d->wr_count = (int32_t)rig_below(&m->rng, 8);
				d->en_last = rig_below(&m->rng, 4);
				d->count = count_on(recv ? &t->recv_index : &t->send_index, d->wr_count, posted, d->en_last);
			}
		}
}

/* ---- the interpreter ---------------------------------------------------------------------------------------------- */

/* Interpreter: runs the next request of the queue if possible. Returns whether the request ran. */
static bool step(struct graph *g, struct queue *q)
{
	struct gm *m = &g->m[q->member];
	struct queue *p = &g->q[q->peer], *t;

	if (q->head == q->n || (q->managed_send && q->head >= q->enabled))
		return false;
	struct node *d = &q->op[q->head];
	switch (d->op) {
	case G_SEND:
		if (p->taken == p->recvs || (p->managed_recv && p->taken >= p->recv_enabled))
			return false;
		p->taken++;
		g->m[p->member].cq[p->rcq].count++;
		break;
	case G_WAIT:
		if (m->cq[d->cq].count < d->count)
			return false;
		break;
	case G_SEND_EN:
		t = queue_of(g, q->member, d->target);
		if (t->enabled < d->count)
			t->enabled = d->count;
		break;
	case G_RECV_EN:
		t = queue_of(g, q->member, d->target);
		if (t->recv_enabled < d->count)
			t->recv_enabled = d->count;
		break;
	default:
		break;
	}
	if (d->signaled)
		m->cq[q->scq].count++;
	q->head++;
	return true;
}

static void interpret(struct graph *g)
{
	bool any;

	do {
		any = false;
		for (uint32_t i = 0; i < g->nq; i++)
			while (step(g, &g->q[i]))
				any = true;
	} while (any);
}

/* ---- set-up ------------------------------------------------------------------------------------------------------- */

static void make_objects(struct graph *g, struct gm *m)
{
	size_t bytes = (size_t)MAXQ * (MAXOPS * 3 + MAXRECV * 2 + 8) * 8 + 4096;

	m->arena = rig_below(&m->rng, 3) ? shca_buf_alloc(m->r.ctx, bytes) : NULL;
	bool arena = m->arena != NULL;
	if (!arena)
		m->arena = calloc(1, bytes);
	CHECK(m->arena);
	memset(m->arena, 0xff, bytes);
	m->mr = shca_reg_mr(m->r.pd, m->arena, bytes, (uintptr_t)m->arena,
			    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC);
	CHECK(m->mr);
	m->used = 0;
	m->ncq = 2 + rig_below(&m->rng, MAXQ);
	if (m->ncq > MAXQ + 1)
		m->ncq = MAXQ + 1;
	for (uint32_t i = 0; i < m->ncq; i++)
		m->cq[i].cq = rig_cq(&m->r, MAXQ * (MAXOPS + MAXRECV), NULL);
	for (uint32_t k = 0; k < m->nq; k++) {
		struct queue *q = queue_of(g, m->id, k);
		q->scq = rig_below(&m->rng, m->ncq);
		q->rcq = rig_below(&m->rng, m->ncq);
		q->managed_send = rig_below(&m->rng, 2);
		q->managed_recv = rig_below(&m->rng, 2);
		struct rig_qp_attr a = {
			.type = IBV_QPT_RC, .scq = m->cq[q->scq].cq, .rcq = m->cq[q->rcq].cq,
			.send_wr = MAXOPS, .recv_wr = MAXRECV, .sge = 2, .inl = 16,
			.exp_flags = IBV_EXP_QP_CREATE_CROSS_CHANNEL | (q->managed_send ? IBV_EXP_QP_CREATE_MANAGED_SEND : 0) |
				     (q->managed_recv ? IBV_EXP_QP_CREATE_MANAGED_RECV : 0),
		};
		q->qp = rig_qp(&m->r, &a);
		rig_init(q->qp);
		q->stamp = words(m, MAXOPS);
		q->payload = words(m, 2 * MAXOPS);
		q->inbox = words(m, 2 * MAXRECV);
		q->cell = words(m, 8);
		for (uint32_t i = 0; i < MAXOPS; i++) {
			q->payload[2 * i] = (uint64_t)(q - g->q);
			q->payload[2 * i + 1] = i;
		}
	}
}

static void make_graph(struct graph *g)
{
	for (uint32_t i = 0; i < g->n; i++) {
		struct gm *m = &g->m[i];
		m->nq = 1 + rig_below(&m->rng, MAXQ);
		m->lists = 1 + rig_below(&m->rng, 3);
		for (uint32_t k = 0; k < m->nq; k++, g->nq++)
			g->q[g->nq] = (struct queue){.member = i, .index = k, .peer = NONE};
	}
	/* connects random pairs of queues; a queue that is left over is connected to itself */
	uint64_t *rng = &g->m[0].rng;
	for (uint32_t i = 0; i < g->nq; i++) {
		uint32_t left = 0, pick;
		if (g->q[i].peer != NONE)
			continue;
		for (uint32_t k = i + 1; k < g->nq; k++)
			left += g->q[k].peer == NONE;
		pick = left ? rig_below(rng, left) : 0;
		g->q[i].peer = i;
		for (uint32_t k = i + 1; left && k < g->nq; k++)
			if (g->q[k].peer == NONE && pick-- == 0) {
				g->q[i].peer = k;
				g->q[k].peer = i;
				break;
			}
	}
	for (uint32_t i = 0; i < g->n; i++)
		make_objects(g, &g->m[i]);
	for (uint32_t i = 0; i < g->nq; i++)
		make_queue(g, &g->q[i]);
	for (uint32_t i = 0; i < g->n; i++)
		make_counts(g, &g->m[i]);
	/* one word, which every member registers: the word must be in the arena, where atomics are instructions of the CPU */
	g->clock = shca_buf_alloc(g->m[0].r.ctx, 8);
	CHECK(g->clock);
	*g->clock = 0;
	for (uint32_t i = 0; i < g->n; i++) {
		g->m[i].clock_mr = shca_reg_mr(g->m[i].r.pd, g->clock, 8, (uintptr_t)g->clock,
					       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC);
		CHECK(g->m[i].clock_mr);
	}
	for (uint32_t i = 0; i < g->nq; i++) {
		struct rig_path path = {.dest_qpn = g->q[g->q[i].peer].qp->qp_num, .retry_cnt = 7, .rnr_retry = 7,
					.min_rnr_timer = 1};
		rig_rtr(g->q[i].qp, &path);
		rig_rts(g->q[i].qp, &path);
	}
	interpret(g);
}

/* ---- posting ------------------------------------------------------------------------------------------------------ */

struct posting {
	struct ibv_exp_task task[2 * MAXQ];
	struct ibv_exp_send_wr swr[MAXQ][MAXOPS];
	struct ibv_sge sge[MAXQ][MAXOPS], rsge[MAXQ][MAXRECV];
	struct ibv_recv_wr rwr[MAXQ][MAXRECV];
};

static void fill_send(struct graph *g, struct gm *m, struct queue *q, uint32_t i, struct ibv_exp_send_wr *wr,
		      struct ibv_sge *sge)
{
	struct node *d = &q->op[i];
	struct queue *p = &g->q[q->peer];
	struct gm *pm = &g->m[p->member];

	*wr = (struct ibv_exp_send_wr){.wr_id = i, .exp_send_flags = d->signaled ? IBV_EXP_SEND_SIGNALED : 0};
	switch (d->op) {
	case G_STAMP:
		*sge = (struct ibv_sge){(uintptr_t)&q->stamp[i], 8, m->mr->lkey};
		wr->sg_list = sge;
		wr->num_sge = 1;
		if (i % 3 == 0) {
			wr->exp_opcode = IBV_EXP_WR_EXT_MASKED_ATOMIC_FETCH_AND_ADD;
			wr->exp_send_flags |= IBV_EXP_SEND_EXT_ATOMIC_INLINE;
			wr->ext_op.masked_atomics.log_arg_sz = 3;
			wr->ext_op.masked_atomics.remote_addr = (uintptr_t)g->clock;
			wr->ext_op.masked_atomics.rkey = pm->clock_mr->rkey;
			wr->ext_op.masked_atomics.wr_data.inline_data.op.fetch_add.add_val = 1;
		} else {
			wr->exp_opcode = IBV_EXP_WR_ATOMIC_FETCH_AND_ADD;
			wr->wr.atomic.remote_addr = (uintptr_t)g->clock;
			wr->wr.atomic.rkey = pm->clock_mr->rkey;
			wr->wr.atomic.compare_add = 1;
		}
		break;
	case G_SEND:
		*sge = (struct ibv_sge){(uintptr_t)&q->payload[2 * i], 16, m->mr->lkey};
		wr->sg_list = sge;
		wr->num_sge = 1;
		wr->exp_opcode = IBV_EXP_WR_SEND;
		if (i % 5 == 0)
			wr->exp_send_flags |= IBV_EXP_SEND_INLINE;
		break;
	case G_WRITE:
		*sge = (struct ibv_sge){(uintptr_t)&q->payload[2 * i], 16, m->mr->lkey};
		wr->sg_list = sge;
		wr->num_sge = 1;
		wr->exp_opcode = IBV_EXP_WR_RDMA_WRITE;
		wr->wr.rdma.remote_addr = (uintptr_t)p->cell;
		wr->wr.rdma.rkey = pm->mr->rkey;
		break;
	case G_WAIT:
		wr->exp_opcode = IBV_EXP_WR_CQE_WAIT;
		wr->task.cqe_wait.cq = m->cq[d->cq].cq;
		wr->task.cqe_wait.cq_count = d->wr_count;
		if (d->en_last)
			wr->exp_send_flags |= IBV_EXP_SEND_WAIT_EN_LAST;
		break;
	case G_SEND_EN:
	case G_RECV_EN:
		wr->exp_opcode = d->op == G_SEND_EN ? IBV_EXP_WR_SEND_ENABLE : IBV_EXP_WR_RECV_ENABLE;
		wr->task.wqe_enable.qp = queue_of(g, m->id, d->target)->qp;
		wr->task.wqe_enable.wqe_count = d->wr_count;
		if (d->en_last)
			wr->exp_send_flags |= IBV_EXP_SEND_WAIT_EN_LAST;
		break;
	default:
		wr->exp_opcode = IBV_EXP_WR_NOP;
		break;
	}
}

static void post_list(struct graph *g, struct gm *m, uint32_t list, struct posting *p)
{
	struct ibv_exp_task *first = NULL, **link = &first, *bad;
	uint32_t t = 0;

	for (uint32_t k = 0; k < m->nq; k++) {
		struct queue *q = queue_of(g, m->id, k);
		struct ibv_exp_send_wr **wl = NULL;
		struct ibv_recv_wr **rl = NULL;
		for (uint32_t i = 0; i < q->recvs; i++) {
			if (q->recv_list[i] != list)
				continue;
			p->rsge[k][i] = (struct ibv_sge){(uintptr_t)&q->inbox[2 * i], 16, m->mr->lkey};
			p->rwr[k][i] = (struct ibv_recv_wr){.wr_id = i, .sg_list = &p->rsge[k][i], .num_sge = 1};
			if (!rl) {
				p->task[t] = (struct ibv_exp_task){.task_type = IBV_EXP_TASK_RECV, .item.qp = q->qp};
				rl = &p->task[t].item.recv_wr;
				*link = &p->task[t];
				link = &p->task[t++].next;
			}
			*rl = &p->rwr[k][i];
			rl = &p->rwr[k][i].next;
		}
		for (uint32_t i = 0; i < q->n; i++) {
			if (q->op[i].list != list)
				continue;
			fill_send(g, m, q, i, &p->swr[k][i], &p->sge[k][i]);
			if (!wl) {
				p->task[t] = (struct ibv_exp_task){.task_type = IBV_EXP_TASK_SEND, .item.qp = q->qp};
				wl = &p->task[t].item.send_wr;
				*link = &p->task[t];
				link = &p->task[t++].next;
			}
			*wl = &p->swr[k][i];
			wl = &p->swr[k][i].next;
		}
	}
	if (!first)
		return;
	int err = shca_exp_post_task(m->r.ctx, first, &bad);
	if (err)
		FAIL("seed %lu: member %u, list %u, task of queue %#x: %s", (unsigned long)g->seed, m->id, list,
		     bad->item.qp->qp_num, strerror(err));
}

static void *poster(void *arg)
{
	struct gm *m = arg;
	struct graph *g = m->g;
	struct posting *p = malloc(sizeof(*p));
	struct ibv_wc wc;

	CHECK(p);
	pthread_barrier_wait(&g->start);
	for (uint32_t list = 0; list < m->lists; list++) {
		post_list(g, m, list, p);
		/* pollers steal queues that other threads have locked */
		for (uint32_t i = 0; g->pollers && i < m->ncq; i++)
			while (shca_poll_cq(m->cq[i].cq, 1, &wc) > 0)
				if (wc.status != IBV_WC_SUCCESS)
					FAIL("seed %lu: completion %s", (unsigned long)g->seed, ibv_wc_status_str(wc.status));
	}
	free(p);
	return NULL;
}

/* ---- checks -------------------------------------------------------------------------------------------------------- */

/* Returns the stamp before request i: the request ran after that time. */
static uint64_t stamp_before(const struct queue *q, uint32_t i)
{
	while (i && q->op[i].op != G_STAMP)
		i--;
	return q->stamp[i];
}

/* Returns the number of completions in a member's CQ of requests with a preceding stamp below `at`. */
static uint64_t completions_before(const struct graph *g, uint32_t member, uint32_t cq, uint64_t at)
{
	uint64_t n = 0;

	for (uint32_t k = 0; k < g->nq; k++) {
		const struct queue *q = &g->q[k], *p = &g->q[q->peer];
		for (uint32_t i = 0; i < q->head; i++) {
			if (stamp_before(q, i) >= at && q->op[i].op != G_STAMP)
				continue;
			if (q->op[i].op == G_STAMP && q->stamp[i] >= at)
				continue;
			n += q->op[i].signaled && q->member == member && q->scq == cq;
			n += q->op[i].op == G_SEND && p->member == member && p->rcq == cq;
		}
	}
	return n;
}

static bool enabled_before(const struct graph *g, const struct queue *t, bool recv, uint64_t index, uint64_t at)
{
	for (uint32_t k = 0; k < g->nq; k++) {
		const struct queue *q = &g->q[k];
		for (uint32_t i = 0; i < q->head && q->member == t->member; i++)
			if (q->op[i].op == (recv ? G_RECV_EN : G_SEND_EN) && q->op[i].target == t->index &&
			    q->op[i].count > index && stamp_before(q, i) < at)
				return true;
	}
	return false;
}

/* The posting threads have ended, but a helper thread may hold the lock of a queue that waits for receives, and execute
 * the requests that the posting threads found locked. Returns when no more can run: the release of the locks publishes
 * clock, stamps and inboxes. */
static void settle(const struct graph *g)
{
	uint64_t end = vproc_now() + 10000000000ull;

	for (uint32_t k = 0; k < g->nq; k++) {
		const struct queue *q = &g->q[k];
		struct shca_qp *sh = rig_sh(q->qp);

		for (; atomic_load(&sh->head) < q->head; sched_yield())
			if (vproc_now() > end)
				return;		/* check_queue says which */
		for (; atomic_load(&sh->lock) & 7; sched_yield())
			if (vproc_now() > end)
				FAIL("seed %lu: queue %u.%u is left locked: %#lx", (unsigned long)g->seed, q->member, q->index,
				     (unsigned long)atomic_load(&sh->lock));
	}
}

static void check_queue(struct graph *g, struct queue *q, bool *seen, uint64_t clock)
{
	unsigned long seed = (unsigned long)g->seed;
	uint64_t last = 0, head = atomic_load(&rig_sh(q->qp)->head);

	if (head != q->head)
		FAIL("seed %lu: queue %u.%u ran %lu of %u requests, the interpreter %u (kind %d; lock %#lx, enabled %lu)", seed,
		     q->member, q->index, (unsigned long)head, q->n, q->head,
		     q->op[head < q->head ? head : q->head].op, (unsigned long)atomic_load(&rig_sh(q->qp)->lock),
		     (unsigned long)atomic_load(&rig_sh(q->qp)->enabled));
	for (uint32_t i = 0; i < q->n; i++) {
		const struct node *d = &q->op[i];
		if (d->op != G_STAMP)
			continue;
		uint64_t s = q->stamp[i];
		if (i >= q->head) {
			if (s != UINT64_MAX)
				FAIL("seed %lu: queue %u.%u: request %u ran", seed, q->member, q->index, i);
			continue;
		}
		if (s >= clock || seen[s])
			FAIL("seed %lu: queue %u.%u: request %u has stamp %lu of %lu, seen %d", seed, q->member, q->index, i,
			     (unsigned long)s, (unsigned long)clock, s < clock && seen[s]);
		seen[s] = true;
		if (i && s <= last)
			FAIL("seed %lu: queue %u.%u: request %u ran before its predecessor", seed, q->member, q->index, i);
		last = s;
		if (q->managed_send && !enabled_before(g, q, false, i, s))
			FAIL("seed %lu: queue %u.%u: request %u ran before it was enabled", seed, q->member, q->index, i);
		if (i && q->op[i - 1].op == G_WAIT) {
			const struct node *w = &q->op[i - 1];
			uint64_t n = completions_before(g, q->member, w->cq, s);
			if (n < w->count)
				FAIL("seed %lu: queue %u.%u: request %u ran after %lu completions, it waited for %lu", seed,
				     q->member, q->index, i, (unsigned long)n, (unsigned long)w->count);
		}
	}
}

/* Fails unless the queue's receives hold its peer's SENDs, in order, each once. */
static void check_inbox(struct graph *g, struct queue *q)
{
	struct queue *p = &g->q[q->peer];
	uint32_t next = 0;

	for (uint32_t i = 0; i < q->recvs; i++) {
		uint64_t *in = &q->inbox[2 * i];
		while (next < p->head && p->op[next].op != G_SEND)
			next++;
		bool got = next < p->head;
		if (in[0] != (got ? (uint64_t)q->peer : UINT64_MAX) || in[1] != (got ? next : UINT64_MAX))
			FAIL("seed %lu: queue %u.%u: receive %u holds request %lu of queue %lu", (unsigned long)g->seed,
			     q->member, q->index, i, (unsigned long)in[1], (unsigned long)in[0]);
		next += got;
	}
}

static void check_graph(struct graph *g)
{
	settle(g);

	uint64_t clock = *g->clock, stamps = 0;
	bool *seen = calloc(clock + 1, sizeof(*seen));

	CHECK(seen);
	for (uint32_t k = 0; k < g->nq; k++) {
		check_queue(g, &g->q[k], seen, clock);
		check_inbox(g, &g->q[k]);
		for (uint32_t i = 0; i < g->q[k].head; i++)
			stamps += g->q[k].op[i].op == G_STAMP;
	}
	if (stamps != clock)
		FAIL("seed %lu: %lu stamps, the clock shows %lu", (unsigned long)g->seed, (unsigned long)stamps,
		     (unsigned long)clock);
	for (uint32_t i = 0; i < g->n; i++)
		for (uint32_t c = 0; c < g->m[i].ncq; c++) {
			struct gm *m = &g->m[i];
			uint64_t n = shca_cq_count(shca_thread_get(m->r.m), shca_user_cq_of(m->cq[c].cq)->sh);
			if (n != m->cq[c].count)
				FAIL("seed %lu: CQ %u.%u has %lu completions, the interpreter %lu", (unsigned long)g->seed, i, c,
				     (unsigned long)n, (unsigned long)m->cq[c].count);
		}
	free(seen);
}

static void destroy_graph(struct graph *g)
{
	for (uint32_t k = 0; k < g->nq; k++)
		CHECK(!shca_destroy_qp(g->q[k].qp));
	for (uint32_t i = 0; i < g->n; i++) {
		struct gm *m = &g->m[i];
		for (uint32_t c = 0; c < m->ncq; c++)
			CHECK(!shca_destroy_cq(m->cq[c].cq));
		CHECK(!shca_dereg_mr(m->mr));
		CHECK(!shca_dereg_mr(m->clock_mr));
		if (shca_in_arena(m->r.m, m->arena, 1))
			CHECK(!shca_buf_free(m->r.ctx, m->arena));
		else
			free(m->arena);
	}
	CHECK(!shca_buf_free(g->m[0].r.ctx, g->clock));
}

static void run_graph(struct rig *rigs, uint32_t n, uint64_t seed, uint64_t *ran, uint64_t *all)
{
	struct graph g = {.n = n, .seed = seed};

	g.m = calloc(n, sizeof(*g.m));
	g.q = calloc((size_t)n * MAXQ, sizeof(*g.q));
	CHECK(g.m && g.q);
	for (uint32_t i = 0; i < n; i++) {
		g.m[i].r = rigs[i];
		g.m[i].g = &g;
		g.m[i].id = i;
		g.m[i].rng = seed * 0x9e3779b97f4a7c15ull + i + 1;
	}
	g.pollers = seed & 1;
	make_graph(&g);
	CHECK(!pthread_barrier_init(&g.start, NULL, n));
	for (uint32_t i = 0; i < n; i++)
		CHECK(!pthread_create(&g.m[i].thread, NULL, poster, &g.m[i]));
	for (uint32_t i = 0; i < n; i++)
		CHECK(!pthread_join(g.m[i].thread, NULL));
	check_graph(&g);
	for (uint32_t k = 0; k < g.nq; k++) {
		*ran += g.q[k].head;
		*all += g.q[k].n;
	}
	destroy_graph(&g);
	pthread_barrier_destroy(&g.start);
	free(g.m);
	free(g.q);
}

void vproc_graphs(struct rig *rigs, uint32_t n, uint64_t seed, double seconds)
{
	uint64_t until = vproc_now() + (uint64_t)(seconds * 1e9), ran = 0, all = 0, graphs = 0;

	do {
		run_graph(rigs, n, seed++, &ran, &all);
		graphs++;
	} while (vproc_now() < until);
	printf("graphs: %lu, %lu of %lu requests could run\n", (unsigned long)graphs, (unsigned long)ran, (unsigned long)all);
}
