/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ibv_modify_srq(IBV_SRQ_MAX_WR) while senders of other processes take receives and threads of the owner post and poll: each
 * message lands in the receive that is its turn, no receive is lost and none is taken twice. The owner is held at each step of a
 * resize while senders go on, and a sender in the middle of a message while the owner goes on; then processes send at random
 * while the owner's threads receive and resize, and one of them, or the owner, is killed.
 *
 *     srq_resize [CASE]
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>

#include "resize.h"

#define BYTES 24u			/* of a message: its sender, its number, and what follows from both */
static void write_message(void *to, uint32_t from, uint32_t n)
{
	((uint32_t *)to)[0] = from;
	((uint32_t *)to)[1] = n;
	rig_fill((char *)to + 8, BYTES - 8, (uint64_t)from << 32 | n);
}

static void check_message(const void *p, uint32_t from, uint32_t n)
{
	const uint32_t *w = p;

	if (w[0] != from || w[1] != n || rig_check((const char *)p + 8, BYTES - 8, (uint64_t)from << 32 | n) >= 0)
		FAIL("message %u of %u has the bytes of message %u of %u", n, from, w[1], w[0]);
}

static int send_message(struct ibv_qp *qp, uint32_t from, uint32_t n, unsigned flags)
{
	char data[BYTES];
	struct ibv_sge sge = {(uintptr_t)data, BYTES, 0};
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND_WITH_IMM, .imm_data = n, .sg_list = &sge, .num_sge = 1,
				 .send_flags = IBV_SEND_INLINE | flags}, *bad;

	write_message(data, from, n);
	return shca_post_send(qp, &wr, &bad);
}

static int set_size(struct ibv_srq *srq, uint32_t n)
{
	struct ibv_srq_attr at = {.max_wr = n};

	return shca_modify_srq(srq, &at, IBV_SRQ_MAX_WR);
}

static uint32_t size_of(struct ibv_srq *srq)
{
	struct ibv_srq_attr at;

	CHECK(!shca_query_srq(srq, &at));
	return at.max_wr;
}

/* ---- virtual processes, held ------------------------------------------------------------------------------------------ */

#define RECEIVES 1024u
static struct ibv_cq *cq;		/* a's */
static struct ibv_srq *srq;
static struct ibv_qp *from_b, *from_c, *at_b, *at_c;
static char *buffer;			/* BYTES for each receive */
static struct ibv_mr *mr;
static uint32_t posted, sent, seen;	/* receives; messages of b, polled ones */

static struct ibv_qp *end_of(struct rig *r, struct ibv_cq *scq, struct ibv_cq *rcq, struct ibv_srq *of)
{
	struct rig_qp_attr attr = {.type = IBV_QPT_RC, .scq = scq, .rcq = rcq, .srq = of, .send_wr = RECEIVES, .recv_wr = of
				   ? 0 : 1, .sge = 1, .inl = BYTES};
	struct ibv_qp *qp = rig_qp(r, &attr);

	rig_init(qp);
	return qp;
}

static void make_srq(struct rig *r, uint32_t max_wr)
{
	struct ibv_srq_init_attr at = {.attr = {.max_wr = max_wr, .max_sge = 1}};

	srq = shca_create_srq(r->pd, &at);
	buffer = shca_buf_alloc(r->ctx, RECEIVES * BYTES);
	CHECK(srq && buffer);
	mr = shca_reg_mr(r->pd, buffer, RECEIVES * BYTES, (uintptr_t)buffer, IBV_ACCESS_LOCAL_WRITE);
	CHECK(mr);
}

static int post_at(uint32_t place)
{
	struct ibv_sge sge = {(uintptr_t)(buffer + place * BYTES), BYTES, mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = place, .sg_list = &sge, .num_sge = 1}, *bad;

	return shca_post_srq_recv(srq, &wr, &bad);
}

static void a_posts(uint32_t n)
{
	while (n--)
		CHECK(!post_at(posted++ % RECEIVES));
}

static void set_up_queues(uint32_t max_wr)
{
	set_up();
	cq = rig_cq(&a, RECEIVES, NULL);
	make_srq(&a, max_wr);
	from_b = end_of(&a, rig_cq(&a, 8, NULL), cq, srq);
	from_c = end_of(&a, rig_cq(&a, 8, NULL), cq, srq);
	at_b = end_of(&b, rig_cq(&b, 8, NULL), rig_cq(&b, 8, NULL), NULL);
	at_c = end_of(&c, rig_cq(&c, 8, NULL), rig_cq(&c, 8, NULL), NULL);
	connect_both(from_b, at_b);
	connect_both(from_c, at_c);
	posted = sent = seen = 0;
}

static void b_sends(uint32_t n)
{
	while (n--)
		CHECK(!send_message(at_b, 1, sent++, 0));
}

/* Messages of b for which there is a receive. */
static uint32_t served(void)
{
	return sent < posted ? sent : posted;
}

/* Messages that have come, polled or not. For a thread that may not poll: the owner's lock is held. */
static uint64_t come(void)
{
	struct shca_thread *thr = shca_thread_get(a.m);

	shca_enter(thr);
	uint64_t n = shca_cq_count(thr, shca_user_cq_of(cq)->sh);
	shca_leave(thr);
	return n;
}

/* All of them have come. */
static void b_has_delivered(void)
{
	uint64_t n = come();

	if (n != served())
		FAIL("%lu of %u messages have come, %u receives were posted", (unsigned long)n, sent, posted);
}

/* The next n messages of b are there, each in the receive that was its turn. */
static void a_polls(uint32_t n)
{
	struct ibv_wc wc;

	while (n--) {
		if (shca_poll_cq(cq, 1, &wc) != 1)
			FAIL("message %u of %u is not there", seen, sent);
		if (wc.status != IBV_WC_SUCCESS || wc.imm_data != seen || wc.wr_id != seen % RECEIVES ||
		    wc.qp_num != from_b->qp_num)
			FAIL("message %u is %u, in receive %lu: %s", seen, wc.imm_data, (unsigned long)wc.wr_id,
			     ibv_wc_status_str(wc.status));
		check_message(buffer + wc.wr_id * BYTES, 1, seen);
		seen++;
	}
}

static void a_polls_all(void)
{
	struct ibv_wc wc;

	a_polls(served() - seen);
	CHECK(!shca_poll_cq(cq, 1, &wc));
}

/* Every receive that is posted takes a message, and no more do. */
static void all_are_used(void)
{
	b_sends(posted - sent);
	a_polls_all();
	b_sends(1);
	struct ibv_wc wc;
	CHECK(!shca_poll_cq(cq, 1, &wc));
	a_posts(1);
	a_polls_all();
}

static uint32_t to_size;
static int got;
static void *resizes(void *arg)
{
	(void)arg;
	got = set_size(srq, to_size);
	return NULL;
}

static const struct resize_point points[] = {
	{"rq-move-written", true}, {"rq-move-begun", true}, {"rq-move-coming", true}, {"rq-move-one", true},
	{"rq-move-copied", false}, {"rq-move-closed", false}, {"rq-move-half", false}, {"rq-moved", false},
};

static struct turn {
	uint32_t from, to, before, posts, during;
	int after;			/* times that the point is passed */
	size_t point;
} turn;

static void held_at_point(void)
{
	const struct turn *n = &turn;

	set_up_queues(n->from);
	/* the ring has gone round */
	for (int i = 0; i < 5; i++) {
		a_posts(3);
		b_sends(3);
		a_polls(3);
	}
	a_posts(n->posts);
	b_sends(n->before);
	to_size = n->to;
	pthread_t t = begin_held(resizes, &a, points[n->point].at, n->after);
	b_sends(n->during);
	if (!points[n->point].locked) {
		a_polls_all();
		a_posts(n->to - n->posts);
		a_polls(served() - seen);
		b_sends(2);
		a_polls(1);
	} else {
		b_has_delivered();
	}
	let_go();
	joined(t);
	CHECK(!got && size_of(srq) == n->to);
	a_posts(n->to - (posted - seen));
	CHECK(post_at(0) == ENOMEM);
	all_are_used();
	/* the new ring goes round */
	for (uint32_t i = 0; i < 3 * n->to; i++) {
		a_posts(1 + i % 2);
		b_sends(1 + i % 2);
		a_polls_all();
	}
}

/* a is held at each point of a resize, with `posts` receives of which `before` are taken; b takes `during` meanwhile. */
static void held_resize(uint32_t from, uint32_t to, uint32_t posts, uint32_t before, uint32_t during)
{
	for (size_t i = 0; i < ARRAY_SIZE(points); i++) {
		bool each = !strcmp(points[i].at, "rq-move-coming") || !strcmp(points[i].at, "rq-move-one");
		for (int after = 0; after < (each ? (int)(posts - before) : 1); after++) {
			turn = (struct turn){from, to, before, posts, during, after, i};
			apart(held_at_point);
		}
	}
}

static void grows(void)
{
	held_resize(8, 32, 6, 2, 1);
}

static void grows_used_up(void)
{
	held_resize(8, 16, 7, 3, 4);
}

/* One message more than there are receives. */
static void grows_beyond(void)
{
	held_resize(8, 16, 7, 3, 5);
}

static void grows_full(void)
{
	held_resize(4, 64, 4, 0, 2);
}

static void grows_from_one(void)
{
	set_up_queues(1);
	for (uint32_t size = 1; size <= 512; size *= 2) {
		CHECK(!set_size(srq, size) && size_of(srq) == size);
		a_posts(size - (posted - seen));
		CHECK(post_at(0) == ENOMEM);
		b_sends(size / 2);
		a_polls(size / 4);
	}
	all_are_used();
}

/* The size is the one asked for, whatever the ring's: when it shrinks, too, and when it grows again. */
static void shrinks(void)
{
	set_up_queues(100);
	/* no receive was posted so far */
	CHECK(!set_size(srq, 3) && size_of(srq) == 3 && !set_size(srq, 64));
	a_posts(10);
	b_sends(4);
	/* 6 are posted and not taken */
	CHECK(set_size(srq, 5) == EINVAL && size_of(srq) == 64 && !set_size(srq, 6) && size_of(srq) == 6);
	/* those that are not polled have their places yet */
	CHECK(post_at(0) == ENOMEM);
	a_polls(4);
	CHECK(post_at(0) == ENOMEM);
	b_sends(1);
	a_polls(1);
	a_posts(1);
	CHECK(post_at(0) == ENOMEM);
	CHECK(!set_size(srq, 33));
	a_posts(27);
	CHECK(post_at(0) == ENOMEM);
	all_are_used();
	CHECK(!set_size(srq, 1));
	a_posts(1);
	CHECK(post_at(0) == ENOMEM);
	CHECK(!set_size(srq, 65));
	a_posts(64);
	CHECK(post_at(0) == ENOMEM);
	all_are_used();
}

static void refusals(void)
{
	struct ibv_srq_attr at = {.max_wr = 16, .srq_limit = 16};

	set_up_queues(8);
	CHECK(set_size(srq, 0) == EINVAL && set_size(srq, SHCA_MAX_SRQ_WR + 1) == EINVAL && size_of(srq) == 8);
	CHECK(shca_modify_srq(srq, &at, IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT) == EINVAL && size_of(srq) == 8);
	a_posts(8);
	at.srq_limit = 7;
	CHECK(!shca_modify_srq(srq, &at, IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT) && size_of(srq) == 16);
	b_sends(8);
	/* the limit has gone off */
	CHECK(!shca_query_srq(srq, &at) && !at.srq_limit);
	a_polls_all();
	a_posts(10);
	at.srq_limit = 6;
	CHECK(!shca_modify_srq(srq, &at, IBV_SRQ_LIMIT) && !set_size(srq, 10) && set_size(srq, 6) == EINVAL);
	/* armed, over a resize */
	CHECK(!set_size(srq, 40));
	b_sends(4);
	CHECK(!shca_query_srq(srq, &at) && at.srq_limit == 6);
	b_sends(1);
	CHECK(!shca_query_srq(srq, &at) && !at.srq_limit);
	all_are_used();
}

/* The limit goes off by a receive that is taken in the middle of a resize. */
static void limit_in_the_middle(void)
{
	struct ibv_srq_attr at = {.srq_limit = 3};

	set_up_queues(8);
	a_posts(5);
	CHECK(!shca_modify_srq(srq, &at, IBV_SRQ_LIMIT));
	to_size = 16;
	hold_at(&a, "rq-move-closed");
	pthread_t t = begin(resizes, NULL);
	rig_await(&hold.held, 1);
	b_sends(2);
	CHECK(!shca_query_srq(srq, &at) && at.srq_limit == 3);
	b_sends(1);
	CHECK(!shca_query_srq(srq, &at) && !at.srq_limit);
	let_go();
	joined(t);
	all_are_used();
}

/* There is no memory for a longer ring: everything is as before. */
static void no_memory(void)
{
	struct rlimit usual, small;

	set_up_queues(16);
	a_posts(16);
	b_sends(5);
	CHECK(!getrlimit(RLIMIT_FSIZE, &usual));
	small = (struct rlimit){1 << 20, usual.rlim_max};
	CHECK(!setrlimit(RLIMIT_FSIZE, &small));
	CHECK(set_size(srq, SHCA_MAX_SRQ_WR) == ENOMEM && size_of(srq) == 16);
	a_polls_all();
	a_posts(5);
	CHECK(post_at(0) == ENOMEM);
	CHECK(!setrlimit(RLIMIT_FSIZE, &usual));
	all_are_used();
	CHECK(!set_size(srq, 64));
	a_posts(48);
	all_are_used();
}

static void *b_sends_one(void *arg)
{
	(void)arg;
	b_sends(1);
	return NULL;
}

/* b is in the middle of a message, and is held; the ring is replaced as far as that goes. c sends, and a posts, polls, and waits
 * for b only to give up the old ring. */
static const char *sender_at;
static void sender_held_at(void)
{
	struct ibv_wc wc;

	set_up_queues(4);
	a_posts(4);
	b_sends(1);
	to_size = 16;
	hold_at(&b, sender_at);
	pthread_t sender = begin(b_sends_one, NULL);
	rig_await(&hold.held, 1);
	pthread_t resizer = begin(resizes, NULL);
	for (int i = 0; size_of(srq) != 16; i++, rig_nap())
		CHECK(i < 20000);
	for (uint32_t i = 0; i < 6; i++) {
		CHECK(!send_message(at_c, 2, i, 0));
		a_posts(1);
	}
	a_polls(1);
	bool taken = strcmp(sender_at, "take");		/* or c has taken it before b */
	for (uint32_t i = 0; i < 6; i++) {
		CHECK(shca_poll_cq(cq, 1, &wc) == 1 && wc.qp_num == from_c->qp_num && wc.wr_id == 1 + taken + i);
		check_message(buffer + wc.wr_id * BYTES, 2, i);
	}
	let_go();
	joined(sender);
	joined(resizer);
	CHECK(!got && shca_poll_cq(cq, 1, &wc) == 1 && wc.imm_data == 1 && wc.wr_id == (taken ? 1 : 7));
	check_message(buffer + wc.wr_id * BYTES, 1, 1);
	/* the rest, and once more */
	for (uint32_t i = 8; i < 10; i++) {
		CHECK(!send_message(at_c, 2, i, 0) && shca_poll_cq(cq, 1, &wc) == 1 && wc.wr_id == i);
		check_message(buffer + wc.wr_id * BYTES, 2, i);
	}
	CHECK(!send_message(at_c, 2, 10, 0) && !shca_poll_cq(cq, 1, &wc));
	a_posts(1);
	CHECK(shca_poll_cq(cq, 1, &wc) == 1 && wc.wr_id == 10);
}

static void sender_held(void)
{
	static const char *const at[] = {"take", "taken", "data", "data-done", "rcqe"};

	for (size_t i = 0; i < ARRAY_SIZE(at); i++) {
		sender_at = at[i];
		apart(sender_held_at);
	}
}

/* b has taken a receive that is to be moved, and `head` does not say so yet: c finds no receive, in neither ring. */
static void taken_while_coming(void)
{
	struct ibv_wc wc;

	set_up_queues(4);
	a_posts(1);
	to_size = 16;
	hold_at(&a, "rq-move-coming");
	pthread_t resizer = begin(resizes, NULL);
	rig_await(&hold.held, 1);
	hold_one_at(&second, &b, "taken");
	pthread_t sender = begin(b_sends_one, NULL);
	rig_await(&second.held, 1);
	CHECK(!send_message(at_c, 2, 0, 0) && !come());
	let_go();
	/* the owner waits for b only behind the move */
	for (int i = 0; size_of(srq) != 16; i++, rig_nap())
		CHECK(i < 20000);
	CHECK(!come());
	atomic_store(&second.m, NULL);
	joined(sender);
	joined(resizer);
	CHECK(!got);
	a_polls_all();
	a_posts(1);
	CHECK(shca_poll_cq(cq, 1, &wc) == 1 && wc.qp_num == from_c->qp_num && wc.wr_id == 1);
	check_message(buffer + BYTES, 2, 0);
	CHECK(!shca_poll_cq(cq, 1, &wc));
}

/* A receive that was taken before the ring is replaced, by an executor that has died: it is still held, goes back, is posted
 * again behind the others, and the mark of a receive whose completion is polled says so, wherever the receive is. */
static void comes_back(void)
{
	set_up_queues(4);
	a_posts(4);
	b_sends(1);
	struct shca_user_rq *rq = &shca_user_srq_of(srq)->rq;
	struct shca_thread *thr = shca_thread_get(c.m);
	uint64_t first = atomic_load(&rq->sh->head) - 1;
	shca_enter(thr);
	int index = shca_rq_take(thr, rq->sh, at_c->qp_num, NULL);
	CHECK(index == 1);
	shca_leave(thr);
	for (uint32_t size = 16; size <= 64; size *= 2)
		CHECK(!set_size(srq, size));
	shca_enter(thr);
	CHECK(!shca_rq_taken_at(thr, rq->sh, 1, first + 1, at_b->qp_num) &&
	      !shca_rq_taken_at(thr, rq->sh, 1, first, at_c->qp_num));
	CHECK(shca_rq_taken_at(thr, rq->sh, 0, first, at_b->qp_num));
	a_polls(1);
	CHECK(!shca_rq_taken_at(thr, rq->sh, 0, first, at_b->qp_num));
	struct shca_rq *in = shca_rq_taken_at(thr, rq->sh, 1, first + 1, at_c->qp_num);
	CHECK(in && in != rq->sh && in->log2 == 2);
	shca_rq_return(thr, rq->sh, 1, first + 1, at_c->qp_num);
	CHECK(!shca_rq_taken_at(thr, rq->sh, 1, first + 1, at_c->qp_num));
	shca_drain(thr);
	shca_leave(thr);
	struct ibv_wc wc;
	/* posts it again */
	CHECK(!shca_poll_cq(cq, 1, &wc));
	static const uint32_t order[] = {2, 3, 1};
	for (uint32_t i = 0; i < ARRAY_SIZE(order); i++) {
		b_sends(1);
		if (shca_poll_cq(cq, 1, &wc) != 1 || wc.wr_id != order[i])
			FAIL("message %u is not in receive %u", i, order[i]);
		check_message(buffer + wc.wr_id * BYTES, 1, seen++);
	}
	CHECK(!send_message(at_b, 1, sent, 0) && !shca_poll_cq(cq, 1, &wc));
}

/* The same of a receive that was taken by the ring that replaces it. */
static void comes_back_moved(void)
{
	set_up_queues(4);
	a_posts(3);
	to_size = 8;
	hold_at(&a, "rq-move-closed");
	pthread_t t = begin(resizes, NULL);
	rig_await(&hold.held, 1);
	struct shca_thread *thr = shca_thread_get(c.m);
	struct shca_rq *ring = shca_user_srq_of(srq)->rq.sh, *in = ring;
	shca_enter(thr);
	uint64_t pos = atomic_load(&ring->head);
	CHECK(shca_rq_take(thr, ring, at_c->qp_num, NULL) == -1 && shca_rq_take_moved(thr, &in, -1, at_c->qp_num, NULL) == 0 &&
	      in != ring);
	CHECK(shca_rq_taken_at(thr, ring, 0, pos, at_c->qp_num) == in);
	shca_rq_return(thr, in, 0, pos, at_c->qp_num);
	shca_leave(thr);
	let_go();
	joined(t);
	struct ibv_wc wc;
	CHECK(!got && !shca_poll_cq(cq, 1, &wc));
	static const uint32_t order[] = {1, 2, 0};
	for (uint32_t i = 0; i < ARRAY_SIZE(order); i++) {
		b_sends(1);
		CHECK(shca_poll_cq(cq, 1, &wc) == 1 && wc.wr_id == order[i]);
		check_message(buffer + wc.wr_id * BYTES, 1, i);
	}
	CHECK(!send_message(at_b, 1, sent, 0) && !shca_poll_cq(cq, 1, &wc));
}

/* A datagram with an immediate keeps its sender in the receive: that of the old ring if it was taken there. */
static void datagrams(void)
{
	set_up();
	cq = rig_cq(&a, 64, NULL);
	make_srq(&a, 4);
	struct rig_qp_attr ud = {.type = IBV_QPT_UD, .scq = cq, .rcq = cq, .srq = srq, .send_wr = 1, .sge = 1};
	struct ibv_qp *in = rig_qp(&a, &ud);
	ud = (struct rig_qp_attr){.type = IBV_QPT_UD, .scq = rig_cq(&b, 64, NULL), .rcq = rig_cq(&b, 8, NULL), .send_wr = 64,
				  .recv_wr = 1, .sge = 1, .inl = BYTES};
	struct ibv_qp *out = rig_qp(&b, &ud);
	struct rig_path p = {0};
	rig_init(in);
	rig_rtr(in, &p);
	rig_init(out);
	rig_rtr(out, &p);
	rig_rts(out, &p);
	struct ibv_ah_attr to = {.dlid = SHCA_LID, .port_num = 1, .sl = 5};
	struct ibv_ah *ah = shca_create_ah(b.pd, &to);
	CHECK(ah);
	char data[BYTES] = "";
	struct ibv_sge sge = {(uintptr_t)data, 8, 0}, room;
	uint32_t n = 0, m = 0;
	for (uint32_t size = 4; size <= 32; size *= 2) {
		if (size > 4)
			CHECK(!set_size(srq, size));
		for (; n < size; n++) {
			room = (struct ibv_sge){(uintptr_t)(buffer + n * 2 * BYTES), 2 * BYTES, mr->lkey};
			struct ibv_recv_wr wr = {.wr_id = n, .sg_list = &room, .num_sge = 1}, *bad;
			CHECK(!shca_post_srq_recv(srq, &wr, &bad));
		}
		/* half of them, and none is polled: the rings change between them */
		for (; m < size / 2 + (size == 32) * 16; m++) {
			struct ibv_send_wr wr = {.opcode = m & 1 ? IBV_WR_SEND : IBV_WR_SEND_WITH_IMM, .imm_data = m,
						 .sg_list = &sge, .num_sge = 1, .send_flags = IBV_SEND_INLINE,
						 .wr.ud = {.ah = ah, .remote_qpn = in->qp_num, .remote_qkey = RIG_QKEY}}, *bad;
			CHECK(!shca_post_send(out, &wr, &bad));
		}
	}
	struct ibv_wc wc;
	for (uint32_t i = 0; i < 32; i++) {
		if (shca_poll_cq(cq, 1, &wc) != 1 || wc.wr_id != i || wc.src_qp != out->qp_num || wc.sl != 5)
			FAIL("datagram %u: receive %lu, from %#x, service level %u", i, (unsigned long)wc.wr_id, wc.src_qp,
			     wc.sl);
		CHECK(i & 1 || wc.imm_data == i);
	}
}

static struct ibv_xrcd *domain(struct rig *r)
{
	struct ibv_xrcd_init_attr x = {.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
				       .oflags = O_CREAT,
				       .fd = -1};
	struct ibv_xrcd *d = shca_open_xrcd(r->ctx, &x);

	CHECK(d);
	return d;
}

/* An XRC SRQ's completions name the receiving queue pair, which stands in the receive. */
static void xrc(void)
{
	set_up();
	struct ibv_xrcd *d = domain(&a);
	cq = rig_cq(&a, RECEIVES, NULL);
	buffer = shca_buf_alloc(a.ctx, RECEIVES * BYTES);
	mr = shca_reg_mr(a.pd, buffer, RECEIVES * BYTES, (uintptr_t)buffer, IBV_ACCESS_LOCAL_WRITE);
	struct ibv_srq_init_attr_ex at = {
		.attr = {.max_wr = 2, .max_sge = 1}, .srq_type = IBV_SRQT_XRC, .pd = a.pd, .xrcd = d, .cq = cq,
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ};
	srq = shca_create_srq_ex(a.ctx, &at);
	CHECK(mr && srq);
	uint32_t number;
	CHECK(!shca_get_srq_num(srq, &number));
	struct ibv_qp_init_attr_ex to = {.qp_type = IBV_QPT_XRC_RECV, .comp_mask = IBV_QP_INIT_ATTR_XRCD, .xrcd = d};
	struct rig_qp_attr from = {
		.type = IBV_QPT_XRC_SEND, .scq = rig_cq(&b, 16, NULL), .send_wr = RECEIVES, .sge = 1, .inl = BYTES};
	struct ibv_qp *out = rig_qp(&b, &from), *in = shca_create_qp_ex(a.ctx, &to);
	CHECK(in);
	rig_init(out);
	rig_init(in);
	connect_both(out, in);
	uint32_t n = 0, m = 0;
	for (uint32_t size = 2; size <= 64; size *= 2) {
		if (size > 2)
			CHECK(!set_size(srq, size));
		for (; n < size; n++)
			CHECK(!post_at(n));
		for (; m < (size == 64 ? 64 : size / 2); m++) {
			char data[BYTES];
			struct ibv_sge sge = {(uintptr_t)data, BYTES, 0};
			struct ibv_send_wr wr = {.opcode = IBV_WR_SEND_WITH_IMM, .imm_data = m, .sg_list = &sge, .num_sge = 1,
						 .send_flags = IBV_SEND_INLINE, .qp_type.xrc.remote_srqn = number}, *bad;
			write_message(data, 3, m);
			CHECK(!shca_post_send(out, &wr, &bad));
		}
	}
	struct ibv_wc wc;
	for (uint32_t i = 0; i < 64; i++) {
		if (shca_poll_cq(cq, 1, &wc) != 1 || wc.wr_id != i || wc.qp_num != in->qp_num || wc.imm_data != i)
			FAIL("message %u: receive %lu, queue pair %#x", i, (unsigned long)wc.wr_id, wc.qp_num);
		check_message(buffer + i * BYTES, 3, i);
	}
}

/* ---- processes --------------------------------------------------------------------------------------------------------- */

#define MESSAGES 4000u
static uint32_t messages = MESSAGES;	/* of a sender */

/* Sends numbered messages; ends when the owner is dead, or has them all. */
static void sender(void)
{
	struct rig r;
	struct ibv_wc wc;
	uint32_t n = 0, done = 0;

	rig_join(&r, sh->fabric);
	struct ibv_cq *own = rig_cq(&r, 64, NULL);
	struct ibv_qp *qp = end_of(&r, own, own, NULL);
	peer_connects(qp);
	while (done < messages) {
		if (n < messages && n - done < 32)
			CHECK(!send_message(qp, (uint32_t)me, n++, IBV_SEND_SIGNALED));
		int polled = shca_poll_cq(own, 1, &wc);
		CHECK(polled >= 0);
		if (polled && wc.status != IBV_WC_SUCCESS)
			break;
		done += (uint32_t)polled;
		if (!polled)
			sched_yield();
	}
	atomic_fetch_add(&sh->failed, done < messages);
	_exit(0);
}

static void owner_connects(struct rig *r)
{
	rig_join(r, sh->fabric);
	cq = rig_cq(r, 2 * RECEIVES, NULL);
	make_srq(r, 1);
	for (int i = 0; i < PEERS; i++)
		ends[i] = end_of(r, rig_cq(r, 8, NULL), cq, srq);
	connect_ends();
}

/* The places of `buffer` that are not posted, for the thread that posts and the thread that polls. */
static uint32_t places[RECEIVES], n_places;
static pthread_mutex_t places_lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic uint32_t all_done, posts;

static void *poster(void *arg)
{
	while (!atomic_load(&all_done)) {
		pthread_mutex_lock(&places_lock);
		uint32_t place = n_places ? places[--n_places] : RECEIVES;
		pthread_mutex_unlock(&places_lock);
		int rc = place < RECEIVES ? post_at(place) : ENOMEM;
		if (rc && rc != ENOMEM)
			FAIL("post: %s", strerror(rc));
		atomic_fetch_add(&posts, !rc);
		if (!rc || place == RECEIVES) {
			if (rc)
				sched_yield();
			continue;
		}
		pthread_mutex_lock(&places_lock);
		places[n_places++] = place;
		pthread_mutex_unlock(&places_lock);
		sched_yield();
	}
	return arg;
}

/* By steps of any size, up, and down now and then, until the largest size is reached. */
static void *resizer(void *arg)
{
	uint64_t rng = 88172645463325252ull ^ *(uint64_t *)arg;
	uint32_t size = 1, most = 1;

	while (!atomic_load(&all_done)) {
		uint32_t start = atomic_load(&sh->received);
		uint32_t to = rig_below(&rng, 3) ? 1 + rig_below(&rng, size) : most * 2 + rig_below(&rng, most);
		if (to > RECEIVES)
			to = 1 + rig_below(&rng, RECEIVES);
		int rc = set_size(srq, to);
		if (rc && (rc != EINVAL || to > size))
			FAIL("resize from %u to %u: %s", size, to, strerror(rc));
		size = rc ? size : to;
		most = size > most ? size : most;
		CHECK(size_of(srq) == size);
		atomic_fetch_add(&sh->resized, 1);
		/* some messages at each size */
		while (!atomic_load(&all_done) && atomic_load(&sh->received) - start < 40)
			sched_yield();
	}
	return NULL;
}

/* `dies`: sender 0 is killed in the middle. */
static void receive_all(uint64_t seed, bool dies)
{
	uint32_t next[PEERS] = {0}, total = 0, all = PEERS * MESSAGES;
	bool in_use[RECEIVES] = {false}, killed = false;
	struct ibv_wc wc[8];
	struct rig r;

	owner_connects(&r);
	for (n_places = 0; n_places < RECEIVES; n_places++)
		places[n_places] = n_places;
	atomic_store(&all_done, 0);
	atomic_store(&posts, 0);
	pthread_t t[2] = {begin(poster, NULL), begin(resizer, &seed)};
	while (killed ? next[1] + next[2] < 2 * MESSAGES : total < all) {
		int n = shca_poll_cq(cq, 8, wc);
		CHECK(n >= 0);
		if (!n)
			sched_yield();
		for (int i = 0; i < n; i++) {
			int k = peer_of(wc[i].qp_num);
			if (k == PEERS || wc[i].status != IBV_WC_SUCCESS || wc[i].imm_data != next[k] ||
			    wc[i].wr_id >= RECEIVES)
				FAIL("sender %d: message %u in place of %u: %s", k, wc[i].imm_data, next[k],
				     ibv_wc_status_str(wc[i].status));
			check_message(buffer + wc[i].wr_id * BYTES, (uint32_t)k, next[k]++);
			memset(buffer + wc[i].wr_id * BYTES, 0, BYTES);
			total++;
			atomic_fetch_add(&sh->received, 1);
			pthread_mutex_lock(&places_lock);
			places[n_places++] = (uint32_t)wc[i].wr_id;
			pthread_mutex_unlock(&places_lock);
		}
		if (dies && !killed && next[0] > MESSAGES / 2) {
			killed = true;
			CHECK(!kill(pids[0], SIGKILL));
		}
	}
	atomic_store(&all_done, 1);
	joined(t[0]);
	joined(t[1]);
	for (int i = 0; i < PEERS; i++) {
		int status;
		CHECK(waitpid(pids[i], &status, 0) == pids[i] && (!status || (killed && !i)));
	}
	if (killed)
		rig_nap();
	/* every receive that has no message is posted: each place is one or the other */
	for (uint32_t i = 0; i < n_places; i++) {
		CHECK(!in_use[places[i]]);
		in_use[places[i]] = true;
	}
	struct shca_user_rq *rq = &shca_user_srq_of(srq)->rq;
	uint32_t out = 0;
	for (int n; (n = shca_poll_cq(cq, 8, wc)) > 0;)
		out += (uint32_t)n;
	if (n_places + out + rq->size - (rq->fifo_tail - rq->fifo_head) != RECEIVES)
		FAIL("%u receives are free, %u in the queue: not %u together", n_places,
		     rq->size - (rq->fifo_tail - rq->fifo_head), RECEIVES);
	for (int i = 0; i < PEERS; i++)
		CHECK(!shca_destroy_qp(ends[i]));
	CHECK(!shca_destroy_srq(srq) && !shca_destroy_cq(cq));
}

#define ROUNDS 10u
static void many_once(void)
{
	start_peers("srq_resize", sender);
	receive_all((uint64_t)me << 32 | (uint32_t)getpid(), false);
}

static void many(void)
{
	for (uint32_t i = 0; i < ROUNDS; i++)
		apart(many_once);
}

static void sender_dies_once(void)
{
	start_peers("srq_resize", sender);
	receive_all((uint64_t)me << 32 | (uint32_t)getpid(), true);
}

static void sender_dies(void)
{
	for (uint32_t i = 0; i < ROUNDS; i++)
		apart(sender_dies_once);
}

/* Makes the ring longer until it is killed, and posts what there is room for; polls. */
static void resizing_owner(void)
{
	struct rig r;
	struct ibv_wc wc;

	owner_connects(&r);
	for (uint32_t n = 1, place = 0; n <= RECEIVES; n *= 2) {
		CHECK(!set_size(srq, n));
		for (; !post_at(place); place = (place + 1) % RECEIVES)
			;
		uint32_t start = atomic_fetch_add(&sh->resized, 1);
		while (shca_poll_cq(cq, 1, &wc) == 1 || (n == RECEIVES && start))
			post_at(place++ % RECEIVES);
	}
}

/* Every sender learns that the owner is dead, wherever it was. */
static void owner_dies(void)
{
	messages = UINT32_MAX;
	for (uint32_t round = 1; round <= 6; round++) {
		start_peers("srq_resize", sender);
		kill_owner(resizing_owner, round + 2, 5 * round);
		peers_have_failed();
	}
}

int main(int argc, char **argv)
{
	static const struct rig_case cases[] = {
		{"grows", grows}, {"grows-used-up", grows_used_up},
		{"grows-beyond", grows_beyond}, {"grows-full", grows_full}, {"grows-from-one", grows_from_one},
		{"shrinks", shrinks}, {"refusals", refusals}, {"limit", limit_in_the_middle}, {"no-memory", no_memory},
		{"sender-held", sender_held}, {"taken-while-coming", taken_while_coming}, {"comes-back", comes_back},
		{"comes-back-moved", comes_back_moved}, {"datagrams", datagrams},
		{"xrc", xrc}, {"many", many}, {"sender-dies", sender_dies}, {"owner-dies", owner_dies},
	};

	return rig_cases(argc, argv, cases, ARRAY_SIZE(cases), NULL);
}
