/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Invariant I7 after a death: survivors reap a process with overwritten objects. A and B are virtual processes of a fabric and
 * survive; each round has a new victim. The victim makes every kind of object, leaves every kind of work unfinished, and is
 * killed; then some words of the victim's memory get values that are impossible, or plausible and wrong. Then A and B use these
 * objects (they post to the victim's queues, execute one of them, post receives for which those queues wait), and A reaps the
 * victim.
 *
 * Checked: no signal, no endless loop, the victim's slot and chunks are free, A and B exchange checked data, create and destroy
 * objects, and the memory of A and B is unchanged.
 *
 *     reaper_corrupt_objects [-s SEED] [-n ROUNDS] [-r ROUND]
 *
 * -r: that round alone, as part of a run with this seed
 *
 * Each round depends on the seed and the round's number only. A batch of rounds runs in a child; when a child fails, the
 * overwritten words of the last round are printed.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rig.h"

#define BATCH 100u
#define LOOK 50u		/* every LOOK-th round runs shcactl */
#define BYTES 4096u
#define SCRIBBLES 64u
#define ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)

/* The state of a child's round, which the parent prints if the child fails. */
static struct log {
	uint64_t round, scribbles;
	_Atomic uint32_t phase;
	uint32_t n;
	struct scribble {
		char what[24];
		uint64_t at, width, old, value;
	} scribble[SCRIBBLES];
} *lg;
static const char *const phases[] = {"making", "meeting", "reaping", "checking", "parting"};
enum phase { MAKING, MEETING, REAPING, CHECKING, PARTING };

static struct rig a, b;
static struct ibv_cq *acq, *bcq;
static struct ibv_qp *ab, *ba;		/* the survivors' own connection */
static char *a_arena, *b_arena, *a_private;	/* no region covers the first half of each: those bytes must not change */
static struct ibv_mr *a_mr, *b_mr, *a_private_mr;
static struct ibv_xrcd *a_xrcd;
static uint64_t rng;

/* Uses of the victim's objects by A and B, a mask: see meet_the_dead. */
enum {
	MEET_READ = 1, MEET_SEND = 2, MEET_WRITE_IMM = 4, MEET_SRQ = 8, MEET_DATAGRAM = 16, MEET_RECEIVE = 32,
	MEET_RUN_CROSS = 64, MEET_RUN = 128, MEET_DESTROY = 256, MEET_COMPLETION = 512, MEET_OPEN = 1024, MEET_ALL = 2047
};

/* ---- the stage ---------------------------------------------------------------------------------------------------- */

static void connect_pair(struct ibv_qp *p, struct ibv_qp *q)
{
	rig_connect(p, q, &(struct rig_path){.timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .min_rnr_timer = 1});
}

static struct ibv_mr *region(struct rig *r, void *at, size_t n)
{
	struct ibv_mr *mr = shca_reg_mr(r->pd, at, n, (uintptr_t)at, ACCESS);

	CHECK(mr);
	return mr;
}

static void receive(struct ibv_qp *qp, void *at, uint32_t len, uint32_t lkey)
{
	struct ibv_sge sge = {.addr = (uintptr_t)at, .length = len, .lkey = lkey};
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;

	shca_post_recv(qp, &wr, &bad);
}

/* Returns whether the request was posted: a queue in error may refuse. */
static bool post(struct ibv_qp *qp, enum ibv_wr_opcode op, void *from, uint32_t len, uint32_t lkey, uint64_t to, uint32_t rkey)
{
	struct ibv_sge sge = {.addr = (uintptr_t)from, .length = len, .lkey = lkey};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = op, .send_flags = IBV_SEND_SIGNALED}, *bad;

	if (op == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = to;
		wr.wr.atomic.rkey = rkey;
		wr.wr.atomic.compare_add = 1;
	} else {
		wr.wr.rdma.remote_addr = to;
		wr.wr.rdma.rkey = rkey;
	}
	return !shca_post_send(qp, &wr, &bad);
}

static void survivors_join(void)
{
	rig_virtual(&a, NULL);
	rig_virtual(&b, &a);
	acq = rig_cq(&a, 64, NULL);
	bcq = rig_cq(&b, 64, NULL);
	ab = rig_small_qp(&a, IBV_QPT_RC, acq, acq, NULL, 0);
	ba = rig_small_qp(&b, IBV_QPT_RC, bcq, bcq, NULL, 0);
	connect_pair(ab, ba);
	a_arena = shca_buf_alloc(a.ctx, 2 * BYTES);
	b_arena = shca_buf_alloc(b.ctx, 2 * BYTES);
	a_private = malloc(2 * BYTES);
	CHECK(a_arena && b_arena && a_private);
	a_mr = region(&a, a_arena + BYTES, BYTES);
	b_mr = region(&b, b_arena + BYTES, BYTES);
	a_private_mr = region(&a, a_private + BYTES, BYTES);
	struct ibv_xrcd_init_attr xa = {.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
					.oflags = O_CREAT,
					.fd = -1};
	a_xrcd = shca_open_xrcd(a.ctx, &xa);
	CHECK(a_xrcd);
	/* the receive of the next message from A: if an executor gives this receive to another queue's message, A's message
	 * stalls */
	receive(ba, b_arena + BYTES, 512, b_mr->lkey);
	snprintf(a.m->hdr->name, sizeof(a.m->hdr->name), "scribbled-%d", (int)getpid());
	CHECK(shca_name_publish(a.m->hdr->name, a.m->fd.n) >= 0);
}

/* A victim, and the survivors' objects that lead to it. */
static struct victim {
	struct rig r;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq, *xcq, *pcq;		/* pcq, qcq: the survivors' */
	struct ibv_cq *qcq;
	struct ibv_srq *srq;
	struct ibv_qp *d[7], *p[7];		/* pairs; see meet */
	struct ibv_qp *managed;
	char *arena, *private;
	struct ibv_mr *mr, *private_mr;
	struct ibv_ah *ah;
} v;

enum { IDLE, IDLE_B, AT_A, AT_D, SHARED_RQ, UD, CROSS };

static void unfinished_work(void)
{
	struct ibv_sge sge = {.addr = (uintptr_t)v.arena, .length = 64, .lkey = v.mr->lkey};
	struct ibv_exp_send_wr wr[3] = {
		{.exp_opcode = IBV_EXP_WR_CQE_WAIT, .exp_send_flags = IBV_EXP_SEND_WAIT_EN_LAST, .next = &wr[1],
		 .task.cqe_wait = {.cq = v.cq, .cq_count = 1}},
		{.exp_opcode = IBV_EXP_WR_SEND_ENABLE, .next = &wr[2], .task.wqe_enable = {.qp = v.managed, .wqe_count = 1}},
		{.exp_opcode = IBV_EXP_WR_RDMA_WRITE, .exp_send_flags = IBV_EXP_SEND_SIGNALED, .sg_list = &sge, .num_sge = 1,
		 .wr.rdma = {.remote_addr = (uintptr_t)a_arena + BYTES, .rkey = a_mr->rkey}},
	}, *bad;

	for (int i = 0; i < 4; i++) {
		receive(v.d[IDLE], v.arena + 64 * i, 64, v.mr->lkey);
		receive(v.d[UD], v.arena + 512 + 128 * i, 128, v.mr->lkey);
	}
	struct ibv_sge into = {.addr = (uintptr_t)v.arena + 1024, .length = 64, .lkey = v.mr->lkey};
	struct ibv_recv_wr rwr = {.sg_list = &into, .num_sge = 1}, *rbad;
	CHECK(!shca_post_srq_recv(v.srq, &rwr, &rbad));
	/* stalled for lack of a receive: the victim's SEND at A, and A's at the victim */
	for (int i = 0; i < 2; i++) {
		CHECK(post(v.d[AT_A], IBV_WR_SEND, v.arena, 8, v.mr->lkey, 0, 0));
		CHECK(post(v.p[AT_D], IBV_WR_SEND, a_arena + BYTES, 8, a_mr->lkey, 0, 0));
	}
	CHECK(!shca_own_exp_provider.post_send(v.d[CROSS], wr, &bad));
	CHECK(!shca_req_notify_cq(v.cq, 0));
}

static void victim_joins(void)
{
	memset(&v, 0, sizeof(v));
	rig_virtual(&v.r, &a);
	v.channel = shca_create_comp_channel(v.r.ctx);
	CHECK(v.channel);
	v.cq = rig_cq(&v.r, 16, v.channel);
	v.xcq = rig_cq(&v.r, 16, NULL);
	v.pcq = rig_cq(&a, 64, NULL);
	v.qcq = rig_cq(&b, 64, NULL);
	struct ibv_srq_init_attr sa = {.attr = {.max_wr = 8, .max_sge = 2}};
	v.srq = shca_create_srq(v.r.pd, &sa);
	v.arena = shca_buf_alloc(v.r.ctx, BYTES);
	v.private = malloc(BYTES);
	CHECK(v.srq && v.arena && v.private);
	v.mr = region(&v.r, v.arena, BYTES);
	v.private_mr = region(&v.r, v.private, BYTES);
	for (int i = 0; i < 7; i++) {
		enum ibv_qp_type type = i == UD ? IBV_QPT_UD : IBV_QPT_RC;
		bool at_b = i == IDLE_B || i == SHARED_RQ;
		v.d[i] = rig_small_qp(&v.r, type, i == CROSS ? v.xcq : v.cq, i == CROSS ? v.xcq : v.cq,
				      i == SHARED_RQ ? v.srq : NULL, i == CROSS ? IBV_EXP_QP_CREATE_CROSS_CHANNEL : 0);
		v.p[i] = at_b ? rig_small_qp(&b, type, v.qcq, v.qcq, NULL, 0) : rig_small_qp(&a, type, v.pcq, v.pcq, NULL, 0);
		connect_pair(v.d[i], v.p[i]);
	}
	v.managed = rig_small_qp(&v.r, IBV_QPT_RC, v.xcq, v.xcq, NULL,
				 IBV_EXP_QP_CREATE_CROSS_CHANNEL | IBV_EXP_QP_CREATE_MANAGED_SEND);
	rig_init(v.managed);
	struct ibv_ah_attr ah = {.dlid = SHCA_LID, .port_num = 1};
	v.ah = shca_create_ah(a.pd, &ah);
	CHECK(v.ah);
	unfinished_work();
}

/* ---- scribbling ----------------------------------------------------------------------------------------------------- */

struct piece {
	const char *what;
	char *at;
	size_t bytes;
};
static struct piece pieces[256];
static size_t npieces;

static void piece(const char *what, void *at, size_t bytes)
{
	if (npieces < ARRAY_SIZE(pieces))
		pieces[npieces++] = (struct piece){what, at, bytes};
}

static void rq_pieces(struct shca_rq *rq)
{
	char *base = a.m->base;

	piece("rq", rq, sizeof(*rq));
	if (!shca_rq_made(a.m, rq))
		return;
	piece("receives", base + rq->wqes, (size_t)rq->stride << rq->log2);
	piece("receive ring", base + (rq->ring & ~63ull), (size_t)8 << (rq->ring & 63));
	piece("marks", base + rq->marks, (size_t)8 << rq->log2);
}

static void cq_pieces(struct ibv_cq *ibcq)
{
	struct shca_cq *cq = ((struct shca_user_cq *)ibcq)->sh;
	shca_off waits = SHCA_WAITS_AT(cq->waits);

	piece("cq", cq, sizeof(*cq));
	piece("cq ring", a.m->base + cq->ring, sizeof(struct shca_cqe) << cq->log2);
	if (waits)
		piece("waits", a.m->base + waits, shca_waits_bytes(((struct shca_waits *)(a.m->base + waits))->log2));
}

static void qp_pieces(struct ibv_qp *ibqp)
{
	struct shca_qp *qp = rig_sh(ibqp);

	piece("qp", qp, sizeof(*qp));
	if (qp->wqes)
		piece("requests", a.m->base + qp->wqes, (size_t)qp->sq_slots * qp->sq_stride);
	if (ibqp->srq == NULL && qp->rq)
		rq_pieces(shca_at(a.m->base, qp->rq));
}

static void collect_pieces(void)
{
	struct shca_proc_slot *p = v.r.m->proc;

	npieces = 0;
	for (int i = 0; i < 7; i++)
		qp_pieces(v.d[i]);
	qp_pieces(v.managed);
	cq_pieces(v.cq);
	cq_pieces(v.xcq);
	rq_pieces(((struct shca_user_srq *)v.srq)->rq.sh);
	piece("region", ((struct shca_user_mr *)v.mr)->sh, sizeof(struct shca_mr));
	piece("region", ((struct shca_user_mr *)v.private_mr)->sh, sizeof(struct shca_mr));
	for (uint32_t i = 0; i < shca_segments_used(a.m, false); i++) {
		struct shca_numbers *n = shca_numbers_of(a.m, i, v.r.m->slot);
		if (n) {
			piece("numbers", n, 32 * sizeof(n->entry[0]));
			piece("timers", n->timers, sizeof(n->timers));
		}
	}
	/* of the slots of the process and its threads, the words that other processes follow; not the words with the identity of
	 * the process or the evidence of its life */
	piece("slot lists", &p->qp_list,
	      offsetof(struct shca_proc_slot, foreign_wqes) - offsetof(struct shca_proc_slot, qp_list));
	piece("slot mailbox", &p->mailbox, sizeof(p->mailbox));
	piece("slot share", &p->share, sizeof(p->share));
	piece("slot timers", p->timers, sizeof(p->timers));
	piece("slot address", p->async_addr, sizeof(p->async_addr));
	piece("slot name", p->comm, sizeof(p->comm));
	for (uint32_t t = 0; t < atomic_load(&a.m->hdr->thread_high); t++)
		if (atomic_load(&a.m->threads[t].owner) == v.r.m->slot + 1)
			piece("thread share", &a.m->threads[t].share, 8);
}

/* Returns the offset of a random object of the fabric, and its number in *number. */
static shca_off any_object(uint32_t *number)
{
	struct ibv_qp *qps[] = {ab, ba, v.d[rig_below(&rng, 7)], v.p[rig_below(&rng, 7)], v.managed};
	struct ibv_cq *cqs[] = {acq, bcq, v.cq, v.xcq, v.pcq, v.qcq};
	uint32_t i = rig_below(&rng, 14);

	if (i < 5) {
		*number = qps[i]->qp_num;
		return shca_off_of(a.m, rig_sh(qps[i]));
	}
	if (i < 11) {
		struct shca_cq *cq = ((struct shca_user_cq *)cqs[i - 5])->sh;
		*number = cq->cqn;
		return shca_off_of(a.m, cq);
	}
	struct shca_qp *qp = rig_sh(qps[i - 11]);
	*number = qp->qpn;
	return i == 13 ? shca_off_of(a.m, a_arena) : qp->rq;
}

static uint64_t a_thread(void)
{
	static const uint32_t wrong[] = {65535, 65536, 65537, 0x1fffff, 0x100000};

	return rig_below(&rng, 2) ? rig_below(&rng, atomic_load(&a.m->hdr->thread_high) + 2) : wrong[rig_below(&rng, 5)];
}

static uint64_t nasty(uint64_t old)
{
	uint32_t number;
	shca_off object = any_object(&number);
	uint64_t high = (uint64_t)atomic_load(&a.m->hdr->chunk_high) * SHCA_CHUNK;

	switch (rig_below(&rng, 22)) {
	case 0: return 0;
	case 1: return UINT64_MAX;
	case 2: return old + 1;
	case 3: return old - 1;
	case 4: return old ^ 1ull << rig_below(&rng, 64);
	case 5: return old + 64;
	case 6: return old - 64;
	case 7: return object;
	case 8: return object | (1 + rig_below(&rng, 5));
	case 9: return number;
	case 10: return rig_rand(&rng);
	case 11: return rig_rand(&rng) % high & ~63ull;
	case 12: return high - 64 * rig_below(&rng, 4);
	case 13: return a.m->bytes - 64 * rig_below(&rng, 4);
	case 14: return (high + rig_rand(&rng) % (a.m->bytes - high)) & ~63ull;
	case 15: return (1 + rig_below(&rng, 2)) | rig_below(&rng, 2) << 2 | a_thread() << 3 | rig_rand(&rng) << 24;
	case 16: return a_thread() << 32 | SHCA_CQ_EVENT_OWED | (rig_rand(&rng) & 0xffff00);
	case 17: return rig_below(&rng, 40);
	case 18: return 1ull << rig_below(&rng, 64);
	case 19: return (uint64_t)rig_below(&rng, 0x8000) << 49 | (rig_rand(&rng) & 0x1ffffffffffff);
	case 20: return rig_rand(&rng) % SHCA_CHUNK;
	default: return a.m->slot + rig_below(&rng, 3);
	}
}

static void scribble(void)
{
	const struct piece *p = &pieces[rig_below(&rng, (uint32_t)npieces)];
	size_t width = rig_below(&rng, 4) ? 8 : 1u << rig_below(&rng, 3);
	size_t at = rig_below(&rng, (uint32_t)(p->bytes / width ? p->bytes / width : 1)) * width;
	uint64_t old = 0, value;

	if (at + width > p->bytes)
		return;
	memcpy(&old, p->at + at, width);
	value = nasty(old);
	struct scribble *s = &lg->scribble[lg->n++];
	*s = (struct scribble){.at = at, .width = width, .old = old, .value = value};
	snprintf(s->what, sizeof(s->what), "%s", p->what);
	memcpy(p->at + at, &value, width);
	lg->scribbles++;
}

/* Overwrites a word that a survivor certainly follows: one in each of the first rounds. *meet is set to the uses by A and B in
 * that round. Returns false if there is no `which`-th word. */
static bool chosen(uint64_t which, uint32_t *meet)
{
	struct shca_qp *listed = rig_sh(v.managed), *waits = rig_sh(v.d[AT_A]), *idle = rig_sh(v.d[IDLE]);
	uint32_t foreign = shca_thread_get(b.m)->slot;
	const struct {
		void *at;
		uint64_t value;
		uint32_t meet;
	} word[] = {
		{&listed->next, shca_off_of(a.m, rig_sh(ab)), MEET_ALL},	/* the list of queues leads into a survivor's */
		{&listed->next, shca_off_of(a.m, listed), MEET_ALL},		/* the list of queues is cyclic */
		/* the list of stalled queues leads to an address that has no queue */
		{&waits->rnr_next, shca_off_of(a.m, a_arena), MEET_ALL},
		{&waits->rnr_next, shca_off_of(a.m, waits), MEET_ALL},
		/* the list of stalled queues is cyclic; no receive is posted, so that the list is still cyclic when the reaper
		 * kicks these queues */
		{&waits->rnr_next, shca_off_of(a.m, waits), MEET_ALL & ~MEET_RECEIVE},
		{&listed->lock, SHCA_L_RUN | (uint64_t)SHCA_MAX_THREADS << 3, MEET_ALL},	/* a thread that does not exist */
		{&listed->lock, SHCA_L_RUN | 0x1fffffull << 3, MEET_ALL},
		{&listed->lock, SHCA_L_RUN | (uint64_t)foreign << 3, MEET_ALL},		/* a living thread */
		{&idle->rq, rig_sh(ba)->rq, MEET_ALL},			/* a survivor's receives */
	};

	const struct shca_cq *cq = ((struct shca_user_cq *)v.cq)->sh;
	const struct shca_rq *rq = shca_at(a.m->base, rig_sh(v.d[IDLE])->rq);
	struct shca_cqe *cqe = shca_at(a.m->base, cq->ring);
	uint64_t *ring = shca_at(a.m->base, rq->ring & ~63ull);

	lg->n = 0;
	*meet = MEET_ALL;
	if (which == ARRAY_SIZE(word)) {
		/* the lap in each completion leads on to the other lap */
		for (uint32_t i = 0; i < 1u << cq->log2; i++)
			atomic_store(&cqe[i].w0, (i & 1 ? 900ull : 5ull) << 49);
		return true;
	}
	if (which == ARRAY_SIZE(word) + 1) {
		/* each position fits the ring index where the position stands, and is beyond the posted receives */
		for (uint32_t i = 0; i < 1u << rq->log2; i++)
			ring[i] = ((i ? 0 : 1ull << 38) + (1u << rq->log2) + i) << 24;
		return true;
	}
	if (which == ARRAY_SIZE(word) + 2) {
		/* XRC_RECV (several processes may hold such a queue pair), in an XRC domain of A */
		idle->type = IBV_QPT_XRC_RECV;
		idle->xrcd = ((struct shca_user_xrcd *)a_xrcd)->number;
		*meet = MEET_OPEN;
		return true;
	}
	if (which == ARRAY_SIZE(word) + 3) {
		/* a type that does not exist: the queue pair is counted in the slot of another type */
		idle->type = 250;
		return true;
	}
	if (which > ARRAY_SIZE(word))
		return false;
	*meet = word[which].meet;
	memcpy(word[which].at, &word[which].value, sizeof(word[which].value));
	return true;
}

static void scribbles(void)
{
	uint32_t n = rig_below(&rng, 10);

	n = n < 6 ? 1 : n < 9 ? 1 + rig_below(&rng, 8) : 1 + rig_below(&rng, SCRIBBLES);
	collect_pieces();
	for (lg->n = 0; n--;)
		scribble();
}

/* ---- survivors ------------------------------------------------------------------------------------------------------- */

static void drain(struct ibv_cq *cq)
{
	struct ibv_wc wc[16];

	for (int i = 0; i < 64 && shca_poll_cq(cq, 16, wc) > 0; i++)
		;
}

/* A executes the victim's queue, as any process may. */
static void runs(struct ibv_qp *qp)
{
	struct shca_thread *thr = shca_thread_get(a.m);

	shca_enter(thr);
	shca_kick(thr, shca_user_qp_of(qp)->off);
	shca_take_left(thr);
	shca_drain(thr);
	shca_leave(thr);
}

static void datagram(void)
{
	struct ibv_sge sge = {.addr = (uintptr_t)a_arena + BYTES, .lkey = a_mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_INLINE}, *bad;

	wr.wr.ud.ah = v.ah;
	wr.wr.ud.remote_qpn = v.d[UD]->qp_num;
	wr.wr.ud.remote_qkey = RIG_QKEY;
	shca_post_send(v.p[UD], &wr, &bad);
}

/* shcactl must succeed with any values in the victim's memory. */
static void is_looked_at(void)
{
	static const char *const commands[] = {"queues", "totals", "regions", "processes"};
	char command[160];

	for (size_t i = 0; i < ARRAY_SIZE(commands); i++) {
		snprintf(command, sizeof(command), "./shcactl --fabric %s %s > /dev/null", a.m->hdr->name, commands[i]);
		int status = system(command);
		if (status)
			FAIL("%s: status %#x", command, status);
	}
}

/* The victim has written an impossible completion into A's completion queue. */
static void wild_completion(void)
{
	struct shca_thread *thr = shca_thread_get(a.m);
	struct shca_cqe_in in = {.index = rig_below(&rng, 0x8000), .op = (uint8_t)rig_below(&rng, 32), .byte_len = 1};

	any_object(&in.qpn);
	shca_enter(thr);
	shca_cq_push(thr, ((struct shca_user_cq *)v.pcq)->sh, &in);
	shca_leave(thr);
}

static unsigned victim_state(void)
{
	return atomic_load(&a.m->procs[v.r.m->slot].state) & 255;
}

/* A opens the victim's queue pair as if it were an XRC_RECV queue pair of several holders. */
static void opens(const struct ibv_qp *qp)
{
	struct ibv_qp_open_attr attr = {
		.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE,
		.qp_num = qp->qp_num, .xrcd = a_xrcd, .qp_type = IBV_QPT_XRC_RECV,
	};
	const void *before = shca_number_get(a.m, qp->qp_num, SHCA_KIND_QP);

	if (shca_open_qp(a.ctx, &attr))
		FAIL("a queue pair of the victim is opened as a common one");
	/* unless a helper thread, which a request to the dead process wakes, has begun to reap the victim */
	if (shca_number_get(a.m, qp->qp_num, SHCA_KIND_QP) != before && victim_state() == SHCA_PROC_LIVE)
		FAIL("a queue pair of the victim is ended as a common one");
}

/* A and B use the objects of the victim, which has just died, before any process has noticed. Stores into memory that the victim
 * names are left out: a wrong address cannot be told from the right one (docs/shca-engine.md, Trust). */
static void meet_the_dead(uint32_t meet)
{
	if (meet & MEET_READ)
		post(v.p[IDLE], IBV_WR_RDMA_READ, a_arena + BYTES, 8, a_mr->lkey, (uintptr_t)v.arena, v.mr->rkey);
	if (meet & MEET_SEND)
		post(v.p[IDLE], IBV_WR_SEND, a_arena + BYTES, 0, a_mr->lkey, 0, 0);
	if (meet & MEET_WRITE_IMM)
		post(v.p[IDLE_B], IBV_WR_RDMA_WRITE_WITH_IMM, b_arena + BYTES, 0, b_mr->lkey, 0, 0);
	if (meet & MEET_SRQ)
		post(v.p[SHARED_RQ], IBV_WR_SEND, b_arena + BYTES, 0, b_mr->lkey, 0, 0);
	if (meet & MEET_DATAGRAM)
		datagram();
	if (meet & MEET_RECEIVE)
		receive(v.p[AT_A], a_arena + BYTES, 64, a_mr->lkey);
	if (meet & MEET_RUN_CROSS)
		runs(v.d[CROSS]);
	if (meet & MEET_RUN)
		runs(v.d[rig_below(&rng, 7)]);
	if (meet & MEET_OPEN)
		opens(v.d[IDLE]);
	if (meet & MEET_COMPLETION)
		wild_completion();
	if (meet & MEET_DESTROY)
		shca_destroy_qp(v.p[AT_D]), v.p[AT_D] = NULL;
	drain(v.pcq);
	drain(v.qcq);
}

static void reap(void)
{
	shca_reap(shca_thread_get(a.m), v.r.m->slot);
	/* the helper thread of another process may be reaping the victim */
	for (int i = 0; victim_state() != SHCA_PROC_FREE; i++) {
		if (i > 20000)
			FAIL("the victim is not reaped");
		rig_nap();
	}
}

/* Returns the number of retired queue pairs, of all types, that the fabric counts. */
static uint64_t retired(void)
{
	uint64_t n = 0;

	for (size_t i = 0; i < ARRAY_SIZE(a.m->hdr->retired); i++)
		n += atomic_load(&a.m->hdr->retired[i].queues);
	return n;
}

static void completes(struct ibv_cq *cq, const char *what)
{
	struct ibv_wc wc;

	for (int i = 0; shca_poll_cq(cq, 1, &wc) != 1; i++)
		if (i > 2000000)
			FAIL("%s does not complete", what);
	if (wc.status != IBV_WC_SUCCESS)
		FAIL("%s: %s", what, ibv_wc_status_str(wc.status));
}

static void still_works(void)
{
	static uint32_t place;
	uint64_t seed = rig_rand(&rng) | 1;

	if (rig_check(a_arena, BYTES, 1) >= 0 || rig_check(b_arena, BYTES, 2) >= 0 || rig_check(a_private, BYTES, 3) >= 0)
		FAIL("a survivor's memory has changed");
	rig_fill(a_arena + BYTES, 512, seed);
	CHECK(post(ab, IBV_WR_SEND, a_arena + BYTES, 512, a_mr->lkey, 0, 0));
	completes(acq, "A's SEND");
	completes(bcq, "B's receive");
	/* messages land in two places in turns */
	char *landed = b_arena + BYTES + 512 * (place & 1);
	receive(ba, b_arena + BYTES + 512 * (++place & 1), 512, b_mr->lkey);
	CHECK(post(ba, IBV_WR_RDMA_WRITE, landed, 512, b_mr->lkey, (uintptr_t)a_arena + BYTES + 1024, a_mr->rkey));
	completes(bcq, "B's WRITE");
	if (rig_check(a_arena + BYTES + 1024, 512, seed) >= 0)
		FAIL("wrong data between the survivors");
	struct ibv_cq *cq = rig_cq(&b, 8, NULL);
	struct ibv_qp *qp = rig_small_qp(&b, IBV_QPT_RC, cq, cq, NULL, 0);
	struct ibv_mr *mr = region(&b, b_arena, 64);
	rig_init(qp);
	CHECK(!shca_destroy_qp(qp) && !shca_destroy_cq(cq) && !shca_dereg_mr(mr));
}

static void part(void)
{
	struct shca_local *local = v.r.m->local;

	for (int i = 0; i < 7; i++)
		if (v.p[i])
			CHECK(!shca_destroy_qp(v.p[i]));
	CHECK(!shca_destroy_ah(v.ah) && !shca_destroy_cq(v.pcq) && !shca_destroy_cq(v.qcq));
	if (rig_chunks(a.m, v.r.m->slot))
		FAIL("the victim has %u chunks still", rig_chunks(a.m, v.r.m->slot));
	/* the larger private resources of the virtual victim: descriptors and memory */
	close(v.channel->fd);
	shca_fd_close(&v.r.node->bell);
	shca_fabric_leave(v.r.m);
	for (uint32_t i = 0; i < SHCA_QP_SEGS; i++)
		free(atomic_load(&local->seg[i]));
	free(local);
	free(v.private);
}

static void play(uint64_t seed, uint64_t round)
{
	bool known;
	uint32_t meet;
	uint64_t gone, all;

	rng = (seed * 0x9e3779b97f4a7c15ull + round * 0xd1b54a32d192ed03ull) | 1;
	rig_rand(&rng);
	alarm(10);
	lg->round = round;
	lg->n = 0;
	atomic_store(&lg->phase, MAKING);
	rig_fill(a_arena, BYTES, 1);
	rig_fill(b_arena, BYTES, 2);
	rig_fill(a_private, BYTES, 3);
	victim_joins();
	shca_engine_kill(v.r.m);
	known = chosen(round, &meet);
	if (!known) {
		scribbles();
		meet = lg->n ? (uint32_t)rig_rand(&rng) : MEET_ALL;
	}
	atomic_store(&lg->phase, MEETING);
	gone = retired();
	if (round % LOOK == 0 && !access("./shcactl", X_OK))
		is_looked_at();
	meet_the_dead(meet);
	atomic_store(&lg->phase, REAPING);
	reap();
	atomic_store(&lg->phase, CHECKING);
	/* The reaper, which another thread may be while the survivors still meet the victim's objects, finds all of the victim's
	 * queue pairs by their numbers, unless the numbers' table was overwritten. meet_the_dead retires one of A. */
	all = ARRAY_SIZE(v.d) + 1 + !!(meet & MEET_DESTROY);
	if (known && retired() != gone + all)
		FAIL("%lu queue pairs are counted, not %lu", retired() - gone, all);
	still_works();
	atomic_store(&lg->phase, PARTING);
	part();
}

/* ---- rounds ---------------------------------------------------------------------------------------------------------- */

static int batch(uint64_t seed, uint64_t first, uint64_t end)
{
	int status;
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (!pid) {
		survivors_join();
		for (uint64_t r = first; r < end; r++)
			play(seed, r);
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid);
	if (!status)
		return 0;
	printf("FAIL: -s %lu -r %lu: %s %d while %s\n", seed, lg->round,
	       !WIFSIGNALED(status) ? "exit status" : WTERMSIG(status) == SIGALRM ? "no end:" : "signal",
	       WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status), phases[atomic_load(&lg->phase)]);
	for (uint32_t i = 0; i < lg->n; i++)
		printf("  %-14s +%-5lu %lu bytes: %#lx -> %#lx\n", lg->scribble[i].what, lg->scribble[i].at,
		       lg->scribble[i].width, lg->scribble[i].old, lg->scribble[i].value);
	return 1;
}

int main(int argc, char **argv)
{
	uint64_t seed = 1, rounds = 1000, only = UINT64_MAX, failed = 0;
	int c;

	while ((c = getopt(argc, argv, "s:n:r:")) != -1) {
		switch (c) {
		case 's': seed = strtoull(optarg, NULL, 0); break;
		case 'n': rounds = strtoull(optarg, NULL, 0); break;
		case 'r': only = strtoull(optarg, NULL, 0); break;
		default:
			fprintf(stderr, "usage: %s [-s seed] [-n rounds] [-r round]\n", argv[0]);
			return 2;
		}
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (access("./shcactl", X_OK))
		printf("note: there is no ./shcactl, which would look at it, too\n");
	setenv("SHCA_DEATH_MS", "60000", 1);	/* the helper threads of A and B must not reap the victim before meet_the_dead */
	lg = mmap(NULL, sizeof(*lg), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(lg != MAP_FAILED);
	if (only != UINT64_MAX)
		return batch(seed, only, only + 1);
	for (uint64_t r = 0; r < rounds; r = lg->round + 1)
		failed += (uint64_t)batch(seed, r, r + BATCH < rounds ? r + BATCH : rounds);
	printf("seed %lu: %lu rounds, %lu scribbles, %lu failed\n", seed, rounds, lg->scribbles, failed);
	return failed != 0;
}
