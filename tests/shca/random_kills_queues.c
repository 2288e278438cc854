/* SPDX-License-Identifier: BSD-3-Clause */
/* A worker of random_kills: its memory, receives, connections, requests, completions, and the end of its queues. */
#include <errno.h>
#include <sched.h>
#include <string.h>

#include "random_kills.h"

/* Four fields, three of which overflow often: no carry may leave one. */
#define MASKED_ADD 0xfff180010003c001ull
#define MASKED_ENDS (1ull << 15 | 1ull << 31 | 1ull << 47)
static uint64_t masked_sum(uint64_t n)
{
	uint64_t sum = 0;

	for (int i = 0; i < 64; i += 16)
		sum |= (n * (MASKED_ADD >> i & 0xffff) & 0xffff) << i;
	return sum;
}

/* ---- memory: per peer: TX buffers for D, for C, RX for D, for C, a window, a cell, results ------------------------- */

static char *area(struct worker *w, uint32_t peer, uint32_t slot)
{
	/* half the pairs use private memory */
	return w->mem[(w->id + peer) & 1] + peer * PER_PEER + slot * MSG;
}
static char *tx_buf(struct worker *w, uint32_t p, int k, uint32_t i)
{
	return area(w, p, k == D ? i : TX + i);
}
static char *rx_buf(struct worker *w, uint32_t p, int k, uint32_t i)
{
	return area(w, p, TX + 2 * LISTS + (k == D ? i : RX + i));
}
static char *window(struct worker *w, uint32_t p)
{
	return area(w, p, TX + 2 * LISTS + 2 * RX);
}
static uint64_t *cell(struct worker *w, uint32_t p)
{
	return (uint64_t *)area(w, p, TX + 2 * LISTS + 2 * RX + 1);
}
static char *srx_buf(struct worker *w, uint32_t i)
{
	return w->mem[0] + MAXW * PER_PEER + i * MSG;
}
static uint32_t key_of(struct worker *w, const void *p)
{
	const char *a = w->mem[0];
	return (const char *)p >= a && (const char *)p < a + MEM ? w->mr[0]->lkey : w->mr[1]->lkey;
}

/* ---- receives ------------------------------------------------------------------------------------------------------ */

static void post_recv(struct worker *w, struct conn *c, int k, uint32_t i)
{
	char *buf = rx_buf(w, c->peer, k, i);
	struct ibv_sge sge = {(uintptr_t)buf, MSG, key_of(w, buf)};
	struct ibv_recv_wr wr = {.wr_id = i, .sg_list = &sge, .num_sge = 1}, *bad;
	int err = shca_post_recv(c->q[k].qp, &wr, &bad);

	if (err)
		FAIL("worker %u: post_recv: %s", w->id, strerror(err));
	c->q[k].posted++;
}

void post_srq(struct worker *w, uint32_t i)
{
	struct ibv_sge sge = {(uintptr_t)srx_buf(w, i), MSG, w->mr[0]->lkey};
	struct ibv_recv_wr wr = {.wr_id = i, .sg_list = &sge, .num_sge = 1}, *bad;
	int err = shca_post_srq_recv(w->srq, &wr, &bad);

	if (err)
		FAIL("worker %u: post_srq_recv: %s", w->id, strerror(err));
}

/* ---- connecting ---------------------------------------------------------------------------------------------------- */

void begin(struct worker *w, uint32_t p, uint32_t gen, uint32_t epoch)
{
	struct conn *c = &w->c[p];
	struct offer *o = &bd->w[w->id].to[p];

	/* the previous offer is void while the new one is written */
	atomic_store(&o->ready, 0);
	memset(c, 0, sizeof(*c));
	c->peer = p;
	c->gen = gen;
	c->epoch = epoch;
	c->q[D].srq = (w->id & 3) != 3;
	for (int k = 0; k < 2; k++) {
		struct rig_qp_attr a = {
			.type = IBV_QPT_RC, .scq = w->scq, .rcq = w->wcq, .srq = c->q[k].srq ? w->srq : NULL,
			.send_wr = k == D ? TX : 4 * LISTS, .recv_wr = RX, .sge = 2, .inl = 64,
			.exp_flags = k == C ? IBV_EXP_QP_CREATE_CROSS_CHANNEL : 0,
		};
		c->q[k].slots = k == D ? TX : 2 * LISTS;
		c->q[k].qp = rig_qp(&w->r, &a);
		rig_init(c->q[k].qp);
		o->qpn[k] = c->q[k].qp->qp_num;
		for (uint32_t i = 0; !c->q[k].srq && i < RX; i++)
			post_recv(w, c, k, i);
	}
	memset(window(w, p), 0, MSG);
	cell(w, p)[0] = cell(w, p)[1] = 0;
	o->cell = (uintptr_t)cell(w, p);
	o->window = (uintptr_t)window(w, p);
	o->rkey = key_of(w, window(w, p));
	o->big = (uintptr_t)w->big + p * (uint64_t)BIG;
	o->big_rkey = w->big_mr->rkey;
	atomic_store(&o->ready, (uint64_t)gen << 32 | epoch);
}

static uint64_t my_word(const struct worker *w, const struct conn *c)
{
	return (uint64_t)w->gen << 32 | c->epoch;
}

static bool dead(const struct conn *c)
{
	return atomic_load(&bd->w[c->peer].killed) == c->gen || atomic_load(&bd->w[c->peer].gen) != c->gen;
}

void try_connect(struct worker *w, struct conn *c)
{
	struct offer *o = &bd->w[c->peer].to[w->id];
	uint64_t ready = atomic_load(&o->ready);

	if (ready != my_word(w, c))
		return;
	memcpy(c->other.qpn, o->qpn, sizeof(o->qpn));
	c->other.cell = o->cell;
	c->other.window = o->window;
	c->other.rkey = o->rkey;
	c->other.big = o->big;
	c->other.big_rkey = o->big_rkey;
	if (atomic_load(&o->ready) != ready || atomic_load(&bd->w[c->peer].gen) != c->gen)
		return;
	for (int k = 0; k < 2; k++) {
		struct rig_path path = {.dest_qpn = c->other.qpn[k], .timeout = 0, .retry_cnt = 7, .rnr_retry = 7,
					.min_rnr_timer = 1};
		int err = rig_try_connect(c->q[k].qp, &path);
		if (err && !dead(c))
			FAIL("worker %u: connecting to %u, which lives: %s", w->id, c->peer, strerror(err));
		c->q[k].broken = err != 0;
	}
	c->up = true;
	atomic_fetch_add(&bd->connections, 1);
}

/* ---- sending ------------------------------------------------------------------------------------------------------- */

static struct tx *tx_new(struct queue *q, enum what what, uint32_t *slot)
{
	*slot = (q->head + q->n) % q->slots;
	struct tx *x = &q->tx[*slot];
	*x = (struct tx){.what = what};
	q->n++;
	return x;
}

static uint32_t message(struct worker *w, char *buf, uint32_t seq, struct tx *x)
{
	/* mostly short: the test needs many messages, and each byte is made and checked */
	x->len = HDR + rig_below(&w->rng, rig_below(&w->rng, 12) ? 100 : MSG - HDR);
	x->seed = rig_rand(&w->rng);
	struct header h = {.seq = seq, .len = x->len, .seed = x->seed};
	memcpy(buf, &h, HDR);
	rig_fill(buf + HDR, x->len - HDR, x->seed);
	return x->len;
}

static void post(struct worker *w, const struct conn *c, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;
	int err = shca_post_send(c->q[D].qp, wr, &bad);

	if (err)
		FAIL("worker %u: post_send to %u: %s", w->id, c->peer, strerror(err));
}

/* As many as there is room for, in one list. (A WRITE_WITH_IMM's data would need a window of its own: a SEND
 * with immediate instead.) */
static void send_messages(struct worker *w, struct conn *c)
{
	struct queue *q = &c->q[D];
	struct ibv_send_wr wr[BURST];
	struct ibv_sge sge[BURST];
	uint32_t most = TX - q->n < BURST ? TX - q->n : BURST, n = 1 + rig_below(&w->rng, most), slot;

	for (uint32_t i = 0; i < n; i++) {
		struct tx *x = tx_new(q, W_SEND, &slot);
		char *buf = tx_buf(w, c->peer, D, slot);
		sge[i] = (struct ibv_sge){(uintptr_t)buf, message(w, buf, q->seq++, x), key_of(w, buf)};
		wr[i] = (struct ibv_send_wr){.wr_id = slot, .next = i + 1 < n ? &wr[i + 1] : NULL, .sg_list = &sge[i],
					     .num_sge = 1, .opcode = rig_below(&w->rng, 2) ? IBV_WR_SEND : IBV_WR_SEND_WITH_IMM,
					     .send_flags = IBV_SEND_SIGNALED};
	}
	post(w, c, wr);
}

void send_ordinary(struct worker *w, struct conn *c)
{
	struct queue *q = &c->q[D];
	enum what what = (enum what)rig_below(&w->rng, 4);
	uint32_t slot;

	if (q->n == TX || q->broken || (what == W_WRITE && c->writing) || (what == W_READ && !c->writing))
		return;
	if (what == W_SEND || what == W_WRITE_IMM) {
		send_messages(w, c);
		return;
	}
	struct tx *x = tx_new(q, what, &slot);
	char *buf = tx_buf(w, c->peer, D, slot);
	struct ibv_sge sge = {(uintptr_t)buf, 0, key_of(w, buf)};
	struct ibv_send_wr wr = {.wr_id = slot, .sg_list = &sge, .num_sge = 1, .send_flags = IBV_SEND_SIGNALED};
	switch (what) {
	case W_WRITE:
		sge.length = message(w, buf, 0, x);
		c->writing = true;
		c->write_len = x->len;
		c->write_seed = x->seed;
		wr.opcode = IBV_WR_RDMA_WRITE;
		break;
	default:
		x->len = sge.length = c->write_len;
		x->seed = c->write_seed;
		c->writing = false;
		memset(buf, 0, x->len);
		wr.opcode = IBV_WR_RDMA_READ;
		break;
	}
	wr.wr.rdma.remote_addr = c->other.window;
	wr.wr.rdma.rkey = c->other.rkey;
	post(w, c, &wr);
}

/* A large block to the peer, and back. */
void send_big(struct worker *w, struct conn *c)
{
	struct queue *q = &c->q[D];
	bool back = w->big_conn == c;
	uint32_t slot;

	if (q->n == TX || q->broken || (w->big_conn && !back))
		return;
	for (uint32_t i = 0; i < q->n; i++)
		if (q->tx[(q->head + i) % q->slots].what >= W_BIG_WRITE)
			return;
	struct tx *x = tx_new(q, back ? W_BIG_READ : W_BIG_WRITE, &slot);
	struct ibv_sge sge = {(uintptr_t)(back ? BIG_RESULT(w) : BIG_SOURCE(w)), 0, w->big_mr->lkey};
	struct ibv_send_wr wr = {.wr_id = slot, .sg_list = &sge, .num_sge = 1, .send_flags = IBV_SEND_SIGNALED,
				 .opcode = back ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE}, *bad;
	if (back) {
		memset(BIG_RESULT(w), 0, w->big_len);
	} else {
		w->big_conn = c;
		w->big_len = BIG_MIN + rig_below(&w->rng, BIG - BIG_MIN);
		w->big_seed = rig_rand(&w->rng);
		rig_fill(BIG_SOURCE(w), w->big_len, w->big_seed);
	}
	x->len = sge.length = w->big_len;
	wr.wr.rdma.remote_addr = c->other.big;
	wr.wr.rdma.rkey = c->other.big_rkey;
	int err = shca_post_send(q->qp, &wr, &bad);
	if (err)
		FAIL("worker %u: large copy to %u: %s", w->id, c->peer, strerror(err));
}

/* Posts one list for two peers: a masked add at each, behind a WAIT for the next arrival, which may come from a third worker. */
void send_masked(struct worker *w, struct conn *a, struct conn *b)
{
	struct conn *to[2] = {a, b};
	struct ibv_exp_send_wr wr[2][2];
	struct ibv_exp_task task[2], *bad;
	struct ibv_sge sge[2];
	uint32_t slot;

	for (int i = 0; i < 2; i++)
		if (!to[i]->up || to[i]->q[C].n + 1 > 2 * LISTS || to[i]->q[C].broken)
			return;
	uint64_t seen = shca_cq_count(shca_thread_get(w->r.m), shca_user_cq_of(w->wcq)->sh);
	memset(wr, 0, sizeof(wr));
	memset(task, 0, sizeof(task));
	for (int i = 0; i < 2; i++) {
		struct tx *x = tx_new(&to[i]->q[C], W_MASKED, &slot);
		char *result = tx_buf(w, to[i]->peer, C, slot);
		x->len = 8;
		wr[i][0].exp_opcode = IBV_EXP_WR_CQE_WAIT;
		wr[i][0].task.cqe_wait.cq = w->wcq;
		wr[i][0].task.cqe_wait.cq_count = (int32_t)(seen + rig_below(&w->rng, 3) + 1);
		wr[i][0].next = &wr[i][1];
		sge[i] = (struct ibv_sge){(uintptr_t)result, 8, key_of(w, result)};
		wr[i][1] = (struct ibv_exp_send_wr){
			.wr_id = slot, .exp_opcode = IBV_EXP_WR_EXT_MASKED_ATOMIC_FETCH_AND_ADD, .sg_list = &sge[i], .num_sge = 1,
			.exp_send_flags = IBV_EXP_SEND_SIGNALED | IBV_EXP_SEND_EXT_ATOMIC_INLINE};
		wr[i][1].ext_op.masked_atomics.log_arg_sz = 3;
		wr[i][1].ext_op.masked_atomics.remote_addr = to[i]->other.cell + 8;
		wr[i][1].ext_op.masked_atomics.rkey = to[i]->other.rkey;
		wr[i][1].ext_op.masked_atomics.wr_data.inline_data.op.fetch_add =
			(struct ibv_exp_fetch_add){.add_val = MASKED_ADD, .field_boundary = MASKED_ENDS};
		task[i] = (struct ibv_exp_task){.task_type = IBV_EXP_TASK_SEND, .item = {.qp = to[i]->q[C].qp, .send_wr = wr[i]},
						.next = i ? NULL : &task[1]};
	}
	int err = shca_exp_post_task(w->r.ctx, task, &bad);
	if (err)
		FAIL("worker %u: a task list for %u and %u: %s", w->id, a->peer, b->peer, strerror(err));
}

/* Posts a WAIT for the next arrival, from any worker, then an add and a message. The sender of that arrival executes them. */
void send_list(struct worker *w, struct conn *c)
{
	struct queue *q = &c->q[C];
	struct ibv_exp_send_wr wr[3], *first = wr, *bad;
	struct ibv_sge sge[2];
	uint32_t slot[2];

	if (q->n + 2 > 2 * LISTS || q->broken)
		return;
	struct tx *add = tx_new(q, W_FAA, &slot[0]), *msg = tx_new(q, W_SEND, &slot[1]);
	char *result = tx_buf(w, c->peer, C, slot[0]), *buf = tx_buf(w, c->peer, C, slot[1]);
	uint64_t seen = shca_cq_count(shca_thread_get(w->r.m), shca_user_cq_of(w->wcq)->sh);
	memset(wr, 0, sizeof(wr));
	wr[0].exp_opcode = IBV_EXP_WR_CQE_WAIT;
	wr[0].task.cqe_wait.cq = w->wcq;
	wr[0].task.cqe_wait.cq_count = (int32_t)(seen + rig_below(&w->rng, 3) + 1);
	wr[0].next = &wr[1];
	add->len = 8;
	sge[0] = (struct ibv_sge){(uintptr_t)result, 8, key_of(w, result)};
	wr[1] = (struct ibv_exp_send_wr){.wr_id = slot[0], .exp_opcode = IBV_EXP_WR_ATOMIC_FETCH_AND_ADD, .sg_list = &sge[0],
					 .num_sge = 1, .exp_send_flags = IBV_EXP_SEND_SIGNALED, .next = &wr[2]};
	wr[1].wr.atomic.remote_addr = c->other.cell;
	wr[1].wr.atomic.rkey = c->other.rkey;
	wr[1].wr.atomic.compare_add = 1;
	sge[1] = (struct ibv_sge){(uintptr_t)buf, message(w, buf, q->seq++, msg), key_of(w, buf)};
	wr[2] = (struct ibv_exp_send_wr){.wr_id = slot[1], .exp_opcode = IBV_EXP_WR_SEND, .sg_list = &sge[1], .num_sge = 1,
					 .exp_send_flags = IBV_EXP_SEND_SIGNALED};
	if (rig_below(&w->rng, 4) == 0)
		first = &wr[1];
	struct ibv_exp_task task = {.task_type = IBV_EXP_TASK_SEND, .item = {.qp = q->qp, .send_wr = first}}, *bad_task;
	int err = rig_below(&w->rng, 2) ? shca_exp_post_task(w->r.ctx, &task, &bad_task) :
					  shca_exp_post_send(q->qp, first, &bad);
	if (err)
		FAIL("worker %u: task list to %u: %s", w->id, c->peer, strerror(err));
}

/* ---- completions --------------------------------------------------------------------------------------------------- */

/* Returns whether the peer has given these queues up: it may destroy queues that this worker still uses. */
bool given_up(const struct worker *w, const struct conn *c)
{
	uint64_t ready = atomic_load(&bd->w[c->peer].to[w->id].ready);
	return c->up ? ready != my_word(w, c) : (ready >> 32) == w->gen && (uint32_t)ready > c->epoch;
}

static struct conn *find(struct worker *w, uint32_t qpn, int *k)
{
	for (uint32_t p = 0; p < workers; p++)
		for (*k = 0; *k < 2; ++*k)
			if (w->c[p].gen && w->c[p].q[*k].qp->qp_num == qpn)
				return &w->c[p];
	FAIL("worker %u: completion of queue %#x, which is not there", w->id, qpn);
}

static void send_done(struct worker *w, const struct ibv_wc *wc, bool closing)
{
	int k;
	struct conn *c = find(w, wc->qp_num, &k);
	struct queue *q = &c->q[k];

	if (wc->opcode == IBV_WC_DRIVER2 && wc->wr_id == 0 && wc->status == IBV_WC_WR_FLUSH_ERR)
		return;			/* a WAIT, not signaled, flushed */
	if (!q->n || wc->wr_id != q->head) {
		/* a flushed WAIT's completion has the opcode of its kind only when it succeeds */
		if (k == C && wc->status == IBV_WC_WR_FLUSH_ERR)
			return;
		FAIL("worker %u: to %u: completion of request %lu, %u of %u are outstanding", w->id, c->peer,
		     (unsigned long)wc->wr_id, q->head, q->n);
	}
	struct tx *x = &q->tx[q->head];
	char *buf = tx_buf(w, c->peer, k, q->head);
	q->head = (q->head + 1) % q->slots;
	q->n--;
	if (wc->status != IBV_WC_SUCCESS) {
		bool ambiguous = wc->status == IBV_WC_FATAL_ERR && atomic_load(&bd->kills);
		bool peer = wc->status == IBV_WC_RETRY_EXC_ERR || wc->status == IBV_WC_WR_FLUSH_ERR ||
			    wc->status == IBV_WC_REM_OP_ERR;
		if (ambiguous)
			atomic_fetch_add(&bd->ambiguous, 1);
		else if (!(peer && (dead(c) || given_up(w, c) || closing)) && !(q->broken && wc->status == IBV_WC_WR_FLUSH_ERR))
			FAIL("worker %u: to %u, which lives: request of kind %d on queue %d: %s", w->id, c->peer, x->what, k,
			     ibv_wc_status_str(wc->status));
		q->broken = q->failed = true;
		return;
	}
	if (q->failed)
		FAIL("worker %u: to %u: a request of a queue that has failed succeeded", w->id, c->peer);
	switch (x->what) {
	case W_SEND:
		q->sent++;
		break;
	case W_READ: {
		struct header h;
		memcpy(&h, buf, HDR);
		if (h.len != x->len || h.seed != x->seed || rig_check(buf + HDR, x->len - HDR, x->seed) >= 0)
			FAIL("worker %u: read from %u: %u of %u bytes, first wrong byte %ld", w->id, c->peer, h.len, x->len,
			     rig_check(buf + HDR, x->len - HDR, x->seed));
		atomic_fetch_add(&bd->done[WRITES], 1);
		break;
	}
	case W_BIG_READ: {
		long wrong = rig_check(BIG_RESULT(w), w->big_len, w->big_seed);
		if (wrong >= 0)
			FAIL("worker %u: large block of %u bytes from %u: first wrong byte %ld", w->id, w->big_len, c->peer,
			     wrong);
		w->big_conn = NULL;
		atomic_fetch_add(&bd->done[LARGE], 1);
		break;
	}
	case W_MASKED: {
		uint64_t old;
		memcpy(&old, buf, 8);
		if (old != masked_sum(c->masked))
			FAIL("worker %u: masked add %u at %u returned %#lx instead of %#lx", w->id, c->masked, c->peer,
			     (unsigned long)old, (unsigned long)masked_sum(c->masked));
		c->masked++;
		atomic_fetch_add(&bd->done[MASKED], 1);
		break;
	}
	case W_FAA: {
		uint64_t old;
		memcpy(&old, buf, 8);
		if (old != c->adds)
			FAIL("worker %u: add at %u returned %lu instead of %u", w->id, c->peer, (unsigned long)old, c->adds);
		c->adds++;
		atomic_fetch_add(&bd->done[ADDS], 1);
		break;
	}
	default:
		break;
	}
}

static int drain(struct worker *w, struct ibv_cq *cq, void (*done)(struct worker *, const struct ibv_wc *, bool), bool closing)
{
	struct ibv_wc wc[8];
	int n, got = 0;

	while ((n = shca_poll_cq(cq, 8, wc)) > 0)
		for (int i = 0; i < n; i++, got++)
			done(w, &wc[i], closing);
	if (n < 0)
		FAIL("worker %u: poll: %d", w->id, n);
	return got;
}

static void recv_done(struct worker *w, const struct ibv_wc *wc, bool closing)
{
	int k;
	struct conn *c = find(w, wc->qp_num, &k);
	struct queue *q = &c->q[k];
	uint32_t i = (uint32_t)wc->wr_id;
	char *buf = q->srq ? srx_buf(w, i) : rx_buf(w, c->peer, k, i);
	struct header h;

	if (!q->srq) {
		if (!q->posted)
			FAIL("worker %u: from %u: more receives completed than posted", w->id, c->peer);
		q->posted--;
	}
	if (wc->status == IBV_WC_WR_FLUSH_ERR) {
		/* The reason is in the other queue: the executor of a request of this worker was killed there, perhaps after the
		 * last poll of that queue. */
		for (int look = 0; look < 1000 && !dead(c) && !given_up(w, c) && !closing && !q->broken; look++) {
			drain(w, w->scq, send_done, closing);
			sched_yield();
		}
		if (!dead(c) && !given_up(w, c) && !closing && !q->broken)
			FAIL("worker %u: receive from %u, which lives, flushed", w->id, c->peer);
		q->broken = true;
		if (q->srq)
			FAIL("worker %u: a shared receive was flushed", w->id);
		return;
	}
	if (wc->status != IBV_WC_SUCCESS)
		FAIL("worker %u: receive from %u: %s", w->id, c->peer, ibv_wc_status_str(wc->status));
	memcpy(&h, buf, HDR);
	if (h.seq != q->expect || h.len != wc->byte_len || h.len < HDR || h.len > MSG ||
	    rig_check(buf + HDR, h.len - HDR, h.seed) >= 0)
		FAIL("worker %u: from %u, queue %d: message %u of %u bytes instead of %u of %u, first wrong byte %ld", w->id,
		     c->peer, k, h.seq, h.len, q->expect, wc->byte_len,
		     h.len >= HDR && h.len <= MSG ? rig_check(buf + HDR, h.len - HDR, h.seed) : 0);
	q->expect++;
	atomic_fetch_add(&bd->done[k == D ? MESSAGES : LISTS_RUN], 1);
	if (q->srq)
		post_srq(w, i);
	else if (!closing && !q->broken)
		post_recv(w, c, k, i);
}

int poll_all(struct worker *w, bool closing)
{
	int got = drain(w, w->scq, send_done, closing);

	return got + drain(w, w->wcq, recv_done, closing);
}

/* ---- teardown ------------------------------------------------------------------------------------------------------ */

/* Closes both ends: every posted request and receive must complete, and all messages that the peer reports
 * as sent must have come. */
void end(struct worker *w, struct conn *c)
{
	struct ibv_qp_attr err = {.qp_state = IBV_QPS_ERR};
	struct offer *mine = &bd->w[w->id].to[c->peer];

	/* the peer's requests fail from here on */
	atomic_store(&mine->ready, 0);
	for (int k = 0; k < 2; k++) {
		enum ibv_qp_state s = shca_qp_state(shca_user_qp_of(c->q[k].qp));
		if (s != IBV_QPS_RESET && shca_modify_qp(c->q[k].qp, &err, IBV_QP_STATE))
			FAIL("worker %u: modify to ERR", w->id);
	}
	for (uint64_t limit = now() + 20000000000ull;; nap(100)) {
		poll_all(w, true);
		if (!c->q[D].n && !c->q[C].n && !c->q[D].posted && !c->q[C].posted)
			break;
		if (now() > limit)
			FAIL("worker %u: to %u: not flushed: %u, %u requests, %u, %u receives (states %d %d, locks %#lx %#lx)",
			     w->id, c->peer, c->q[D].n, c->q[C].n, c->q[D].posted, c->q[C].posted,
			     shca_qp_state(shca_user_qp_of(c->q[D].qp)), shca_qp_state(shca_user_qp_of(c->q[C].qp)),
			     (unsigned long)atomic_load(&rig_sh(c->q[D].qp)->lock),
			     (unsigned long)atomic_load(&rig_sh(c->q[C].qp)->lock));
	}
	for (int k = 0; k < 2; k++)
		mine->sent[k] = c->q[k].sent;
	atomic_store(&mine->said, (uint64_t)c->gen << 32 | c->epoch);
	/* the SRQ also has the last messages of the peer: they come before the peer reports their number */
	struct offer *his = &bd->w[c->peer].to[w->id];
	if (c->up && !dead(c) && atomic_load(&his->said) == my_word(w, c)) {
		uint32_t sent[2] = {his->sent[0], his->sent[1]};
		poll_all(w, true);
		for (int k = 0; k < 2 && !dead(c) && atomic_load(&his->said) == my_word(w, c); k++)
			if (sent[k] > c->q[k].expect)
				FAIL("worker %u: from %u: %u messages came, %u were sent on queue %d", w->id, c->peer,
				     c->q[k].expect, sent[k], k);
	}
	for (int k = 0; k < 2; k++)
		if (shca_destroy_qp(c->q[k].qp))
			FAIL("worker %u: destroy_qp", w->id);
	if (w->big_conn == c)
		w->big_conn = NULL;
	c->gen = 0;
	c->up = false;
}
