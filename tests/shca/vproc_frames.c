/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ethernet frames between virtual processes, on two ports, while their flows come and go. Each member has one raw packet queue,
 * and makes and ends two flows at random: of its own MAC, and of broadcast. A sender looks at the receiver's flow before the post
 * and behind the frame's completion:
 *
 *     the same flow stood both times, on the sender's port    the receiver has the frame
 *     no flow both times, or that of the other port           the receiver has not
 *     else                                                    either
 *
 * No queue is without receives, so no frame is lost for another reason. The bytes of each frame, and the order of each sender's
 * frames, are checked when they come.
 */
#include <errno.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#include "frames.h"
#include "vproc.h"

#define RX 256u
#define SPARE 80u			/* receives that a sender leaves: each other member may have a frame under way */
#define ROOM 1024u
#define FRAMES 20000u			/* of a sender, at most */
#define FRAMES_LEAST 200u		/* of a sender */

/* flow words: number of the change << 2 | port << 1 (0: port 1) | present, or CHANGING */
#define PRESENT 1u
#define CHANGING UINT64_MAX
enum { OWN_MAC, BROADCAST, KINDS };
/* of a frame at a receiver */
enum { UNSENT, MUST, MUST_NOT, EITHER };

struct fm {
	struct rig r;
	struct frames *t;
	uint32_t id;
	uint64_t rng;
	pthread_t thread;
	uint8_t port;
	struct ibv_qp *qp;
	struct ibv_cq *scq, *rcq;
	struct ibv_mr *mr;
	char *mem;			/* RX receives, then a frame to be sent */
	struct ibv_flow *flow[KINDS];
	uint64_t changes;
	_Atomic uint64_t word[KINDS];
	_Atomic uint64_t posted;	/* receives */
	uint32_t seq;
	uint8_t *sent;			/* [receiver][FRAMES]: what is expected there */
	uint8_t *got;			/* [sender][FRAMES] */
	uint32_t *last;			/* [sender]: number of the last frame + 1 */
};

struct frames {
	struct fm *vm;
	uint32_t n;
	uint64_t until;
	_Atomic uint32_t stopped;
};

static void post_receive(struct fm *v, uint32_t i)
{
	struct ibv_sge sge = {(uintptr_t)v->mem + (size_t)i * ROOM, ROOM, v->mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = i, .sg_list = &sge, .num_sge = 1}, *bad;

	if (shca_post_recv(v->qp, &wr, &bad))
		FAIL("member %u: a receive", v->id);
	atomic_fetch_add(&v->posted, 1);
}

static void set_up(struct fm *v)
{
	size_t bytes = (size_t)(RX + 1) * ROOM;

	/* half of the members have private memory */
	v->mem = v->id & 1 ? calloc(1, bytes) : shca_buf_alloc(v->r.ctx, bytes);
	v->sent = calloc(v->t->n, FRAMES);
	v->got = calloc(v->t->n, FRAMES);
	v->last = calloc(v->t->n, sizeof(*v->last));
	CHECK(v->mem && v->sent && v->got && v->last);
	v->mr = shca_reg_mr(v->r.pd, v->mem, bytes, (uintptr_t)v->mem, IBV_ACCESS_LOCAL_WRITE);
	v->scq = rig_cq(&v->r, 16, NULL);
	v->rcq = rig_cq(&v->r, 2 * RX, NULL);
	v->qp = rig_raw_qp(&v->r, &(struct rig_qp_attr){.scq = v->scq, .rcq = v->rcq, .send_wr = 4, .recv_wr = RX});
	rig_raw_ready(v->qp, v->port);
	CHECK(v->mr);
	for (uint32_t i = 0; i < RX; i++)
		post_receive(v, i);
}

/* Makes the flow, or ends it. */
static void change_flow(struct fm *v, unsigned kind)
{
	uint8_t port = (uint8_t)(1 + rig_below(&v->rng, 2)), mac[6];
	uint64_t word = ++v->changes << 2;

	atomic_store(&v->word[kind], CHANGING);
	if (v->flow[kind]) {
		if (shca_destroy_flow(v->flow[kind]))
			FAIL("member %u: destroy_flow", v->id);
		v->flow[kind] = NULL;
	} else {
		frame_mac(mac, v->id);
		v->flow[kind] = frame_flow(v->qp, IBV_FLOW_ATTR_NORMAL, port, kind == BROADCAST ? frame_broadcast : mac);
		if (!v->flow[kind])
			FAIL("member %u: create_flow: %s", v->id, strerror(errno));
		word |= PRESENT | (port == 2 ? 2u : 0);
	}
	atomic_store(&v->word[kind], word);
}

static uint8_t expected(const struct fm *v, uint64_t before, uint64_t after)
{
	if (before != after || before == CHANGING)
		return EITHER;
	return before & PRESENT && (before & 2 ? 2 : 1) == v->port ? MUST : MUST_NOT;
}

/* Whether no receiver could be without a receive. */
static bool room(struct frames *t)
{
	for (uint32_t i = 0; i < t->n; i++) {
		/* before the other count: a frame that comes in between makes the room look smaller */
		uint64_t posted = atomic_load(&t->vm[i].posted), came = atomic_load(&rig_sh(t->vm[i].qp)->n_recv_msgs);
		if ((int64_t)(posted - came) < (int64_t)SPARE)
			return false;
	}
	return true;
}

static void send_frame(struct fm *v)
{
	struct frames *t = v->t;
	uint8_t *at = (uint8_t *)v->mem + (size_t)RX * ROOM, mac[6];
	struct frame_header h = {.from = v->id, .seq = v->seq, .len = rig_below(&v->rng, ROOM - FRAME_HEAD),
				 .fill = (uint32_t)rig_rand(&v->rng)};
	struct ibv_sge sge = {(uintptr_t)at, FRAME_HEAD + h.len, v->mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED}, *bad;
	unsigned kind = rig_below(&v->rng, 4) ? OWN_MAC : BROADCAST;
	uint32_t to = rig_below(&v->rng, t->n);
	uint64_t before[64];
	struct ibv_wc wc;
	int n;

	if (v->seq == FRAMES || !room(t))
		return;
	v->seq++;
	frame_mac(mac, to);
	frame_write(at, kind == BROADCAST ? frame_broadcast : mac, &h);
	for (uint32_t i = 0; i < t->n; i++)
		before[i] = atomic_load(&t->vm[i].word[kind]);
	if (shca_post_send(v->qp, &wr, &bad))
		FAIL("member %u: a frame", v->id);
	while (!(n = shca_poll_cq(v->scq, 1, &wc)))
		sched_yield();
	if (n < 0 || wc.status != IBV_WC_SUCCESS)
		FAIL("member %u: a frame: %s", v->id, n < 0 ? "the poll fails" : ibv_wc_status_str(wc.status));
	for (uint32_t i = 0; i < t->n; i++)
		if (i != v->id && (kind == BROADCAST || i == to))
			v->sent[(size_t)i * FRAMES + h.seq] = expected(v, before[i], atomic_load(&t->vm[i].word[kind]));
}

static int receive(struct fm *v)
{
	struct ibv_wc wc[8];
	struct frame_header h;
	int n = shca_poll_cq(v->rcq, 8, wc);

	if (n < 0)
		FAIL("member %u: the poll fails", v->id);
	for (int i = 0; i < n; i++) {
		if (wc[i].status != IBV_WC_SUCCESS)
			FAIL("member %u: a receive: %s", v->id, ibv_wc_status_str(wc[i].status));
		if (!frame_read(v->mem + wc[i].wr_id * ROOM, wc[i].byte_len, v->t->n, &h) || h.seq >= FRAMES)
			FAIL("member %u: frame %u of %u: its bytes", v->id, h.seq, h.from);
		if (h.seq < v->last[h.from])
			FAIL("member %u: frame %u of %u behind %u", v->id, h.seq, h.from, v->last[h.from] - 1);
		v->last[h.from] = h.seq + 1;
		v->got[(size_t)h.from * FRAMES + h.seq]++;
		post_receive(v, (uint32_t)wc[i].wr_id);
	}
	return n;
}

static void *member(void *arg)
{
	struct fm *v = arg;

	/* on a busy machine longer, until each member has sent some frames */
	while (vproc_now() < v->t->until || (v->seq < FRAMES_LEAST && vproc_now() < v->t->until + 60000000000ull)) {
		for (uint32_t k = rig_below(&v->rng, 4); k; k--)
			send_frame(v);
		if (!rig_below(&v->rng, 6))
			change_flow(v, rig_below(&v->rng, KINDS));
		if (!receive(v))
			sched_yield();
	}
	atomic_fetch_add(&v->t->stopped, 1);
	while (atomic_load(&v->t->stopped) < v->t->n)
		if (!receive(v))
			sched_yield();
	/* nothing is sent any more */
	while (receive(v))
		;
	return NULL;
}

/* Compares a sender's expectations with what has come to a receiver. */
static void compare(const struct fm *from, const struct fm *to, uint64_t count[4])
{
	for (uint32_t s = 0; s < from->seq; s++) {
		uint8_t want = from->sent[(size_t)to->id * FRAMES + s], got = to->got[(size_t)from->id * FRAMES + s];
		if (got > 1 || (got && (want == UNSENT || want == MUST_NOT)) || (!got && want == MUST))
			FAIL("frame %u of member %u came %u times to member %u: expected %s", s, from->id, got, to->id,
			     want == MUST ? "once" : want == EITHER ? "once or not" : "not at all");
		count[want]++;
	}
}

void vproc_frames(struct rig *rigs, uint32_t n, uint64_t seed, double seconds)
{
	struct frames t = {.n = n};
	uint64_t count[4] = {0};

	t.vm = calloc(n, sizeof(*t.vm));
	CHECK(t.vm);
	for (uint32_t i = 0; i < n; i++) {
		struct fm *v = &t.vm[i];
		v->r = rigs[i];
		v->t = &t;
		v->id = i;
		v->port = (uint8_t)(1 + i % 2);
		v->rng = seed * 0x9e3779b97f4a7c15ull + i + 1;
		set_up(v);
	}
	t.until = vproc_now() + (uint64_t)(seconds * 1e9);
	for (uint32_t i = 0; i < n; i++)
		CHECK(!pthread_create(&t.vm[i].thread, NULL, member, &t.vm[i]));
	for (uint32_t i = 0; i < n; i++)
		CHECK(!pthread_join(t.vm[i].thread, NULL));
	for (uint32_t i = 0; i < n; i++)
		for (uint32_t k = 0; k < n; k++)
			compare(&t.vm[i], &t.vm[k], count);
	CHECK(count[MUST] && count[MUST_NOT]);
	printf("frames: %u members: %lu had to come, %lu must not, %lu might\n", n, (unsigned long)count[MUST],
	       (unsigned long)count[MUST_NOT], (unsigned long)count[EITHER]);
	for (uint32_t i = 0; i < n; i++) {
		struct fm *v = &t.vm[i];
		for (unsigned k = 0; k < KINDS; k++)
			if (v->flow[k])
				CHECK(!shca_destroy_flow(v->flow[k]));
		CHECK(!shca_destroy_qp(v->qp) && !shca_destroy_cq(v->scq) && !shca_destroy_cq(v->rcq) && !shca_dereg_mr(v->mr));
		if (v->id & 1)
			free(v->mem);
		else
			CHECK(!shca_buf_free(v->r.ctx, v->mem));
		free(v->sent);
		free(v->got);
		free(v->last);
	}
	free(t.vm);
}
