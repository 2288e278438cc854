/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ibv_resize_cq while producers of other processes put completions into the same ring: nothing is lost, nothing appears twice,
 * each producer's completions stay in order, and an overrun comes at the new size. The owner is held at each step of a resize
 * while a producer goes on, and a producer in the middle of a completion while the owner goes on; then processes produce at
 * random while the owner resizes, and one of them, or the owner, is killed.
 *
 *     cq_resize [CASE]
 */
#include <errno.h>

#include "resize.h"

/* ---- virtual processes, held ------------------------------------------------------------------------------------------ */

#define RECEIVES 64u
static struct ibv_cq *cq;		/* a's: 8 entries, of two queues */
static struct ibv_qp *from_b, *from_c;	/* a's ends */
static struct ibv_qp *at_b, *at_c;
static uint32_t sent, seen;		/* messages of b */

static struct ibv_qp *end_of(struct rig *r, struct ibv_cq *scq, struct ibv_cq *rcq)
{
	struct rig_qp_attr attr = {
		.type = IBV_QPT_RC, .scq = scq, .rcq = rcq, .send_wr = RECEIVES, .recv_wr = RECEIVES, .sge = 1};
	struct ibv_qp *qp = rig_qp(r, &attr);

	rig_init(qp);
	return qp;
}

static void receives(struct ibv_qp *qp, uint32_t n)
{
	struct ibv_recv_wr wr = {.wr_id = qp->qp_num}, *bad;

	while (n--)
		CHECK(!shca_post_recv(qp, &wr, &bad));
}

static void message(struct ibv_qp *qp, uint32_t n)
{
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND_WITH_IMM, .imm_data = n}, *bad;

	CHECK(!shca_post_send(qp, &wr, &bad));
}

static void set_up_queues(int entries)
{
	set_up();
	cq = rig_cq(&a, entries, NULL);
	from_b = end_of(&a, rig_cq(&a, 8, NULL), cq);
	from_c = end_of(&a, rig_cq(&a, 8, NULL), cq);
	at_b = end_of(&b, rig_cq(&b, 8, NULL), rig_cq(&b, 8, NULL));
	at_c = end_of(&c, rig_cq(&c, 8, NULL), rig_cq(&c, 8, NULL));
	connect_both(from_b, at_b);
	connect_both(from_c, at_c);
	receives(from_b, RECEIVES);
	receives(from_c, RECEIVES);
	sent = seen = 0;
}

static void b_sends(uint32_t n)
{
	while (n--)
		message(at_b, sent++);
}

/* Exactly n messages of b are there, in order. */
static void a_polls(uint32_t n)
{
	struct ibv_wc wc;

	while (n--) {
		if (shca_poll_cq(cq, 1, &wc) != 1)
			FAIL("message %u of %u is not there", seen, sent);
		if (wc.status != IBV_WC_SUCCESS || wc.imm_data != seen || wc.wr_id != from_b->qp_num)
			FAIL("message %u is %u: %s", seen, wc.imm_data, ibv_wc_status_str(wc.status));
		seen++;
	}
}

static void a_polls_all(void)
{
	struct ibv_wc wc;

	a_polls(sent - seen);
	CHECK(!shca_poll_cq(cq, 1, &wc));
}

static int to_size, got;
static void *resizes(void *arg)
{
	(void)arg;
	got = shca_resize_cq(cq, to_size);
	return NULL;
}

static const struct resize_point points[] = {
	{"cq-move-written", true}, {"cq-move-begun", true}, {"cq-settle", true}, {"cq-settled", true},
	{"cq-move-copied", false}, {"cq-move-half", false}, {"cq-move-sealed", false}, {"cq-moved", false},
};

static struct turn {
	int from, to, answer;
	uint32_t before, during;
	size_t point;
} turn;

static void held_at_point(void)
{
	const struct turn *n = &turn;
	/* before the resize has begun the old size counts */
	uint32_t during = n->point || n->before + n->during <= (uint32_t)n->from ? n->during : 0;

	set_up_queues(n->from);
	b_sends(3);
	a_polls(3);
	b_sends(n->before);
	to_size = n->to;
	pthread_t t = begin_held(resizes, &a, points[n->point].at, 0);
	b_sends(during);
	if (!points[n->point].locked) {
		a_polls(n->before + during);
		b_sends(during);
	}
	let_go();
	joined(t);
	if (got != n->answer)
		FAIL("held at %s: %d, not %d", points[n->point].at, got, n->answer);
	CHECK(cq->cqe == (n->answer ? n->from : n->to));
	b_sends(2);
	a_polls_all();
	while (sent + 4 <= RECEIVES) {
		b_sends(4);
		a_polls_all();
	}
	CHECK(!shca_cq_in_error(shca_user_cq_of(cq)->sh));
}

/* a, held at each point of a resize, has `before` completions unread; b sends `during` meanwhile. */
static void held_resize(int from, int to, uint32_t before, uint32_t during, int answer)
{
	for (size_t i = 0; i < ARRAY_SIZE(points); i++) {
		turn = (struct turn){from, to, answer, before, during, i};
		/* a ring whose last free slot is filled needs no end */
		if (3 + before < (uint32_t)from || strcmp(points[i].at, "cq-settle"))
			apart(held_at_point);
	}
}

static void grows(void)
{
	held_resize(8, 32, 4, 3, 0);
}

/* More comes meanwhile than the old ring has room for. */
static void grows_beyond(void)
{
	held_resize(8, 64, 6, 20, 0);
}

static void grows_full(void)
{
	held_resize(8, 32, 8, 6, 0);
}

static void shrinks(void)
{
	held_resize(32, 8, 3, 2, 0);
}

/* As many come, before the old ring is ended, as the smaller one has no room for: it stays as long as it was. */
static void shrinks_in_vain(void)
{
	set_up_queues(32);
	b_sends(6);
	to_size = 8;
	/* behind the first look, which finds 6 */
	hold_at(&a, "cq-move-written");
	pthread_t t = begin(resizes, NULL);
	rig_await(&hold.held, 1);
	b_sends(7);
	let_go();
	joined(t);
	CHECK(got == EINVAL && cq->cqe == 32);
	b_sends(32 - sent);
	a_polls_all();
	CHECK(!shca_resize_cq(cq, 8) && cq->cqe == 8);
	b_sends(8);
	a_polls_all();
}

static void *b_sends_one(void *arg)
{
	(void)arg;
	b_sends(1);
	return NULL;
}

/* b has found the place of its completion in the old ring, and is held; then the ring is ended. What c sends is there at once,
 * although the resizer waits for b. */
static void producer_held(void)
{
	struct ibv_wc wc;

	set_up_queues(8);
	to_size = 64;
	hold_at(&b, "rcqe");
	pthread_t producer = begin(b_sends_one, NULL);
	rig_await(&hold.held, 1);
	pthread_t resizer = begin(resizes, NULL);
	for (int i = 0; !(atomic_load(&shca_user_cq_of(cq)->sh->move_first) & SHCA_CQ_SETTLED); i++, rig_nap())
		CHECK(i < 20000);
	message(at_c, 77);
	for (int i = 0; !shca_poll_cq(cq, 1, &wc); i++, rig_nap())
		CHECK(i < 20000);
	CHECK(wc.status == IBV_WC_SUCCESS && wc.wr_id == from_c->qp_num && wc.imm_data == 77);
	let_go();
	joined(producer);
	joined(resizer);
	CHECK(!got && cq->cqe == 64);
	a_polls_all();
}

/* A WAIT counts completions over a resize: not the end of the old ring. */
static void counts(void)
{
	struct ibv_wc wc;

	set_up_queues(8);
	struct ibv_cq *done = rig_cq(&a, 8, NULL);
	struct rig_qp_attr attr = {.type = IBV_QPT_RC, .exp_flags = IBV_EXP_QP_CREATE_CROSS_CHANNEL, .scq = done, .rcq = done,
				   .send_wr = 8, .recv_wr = 1, .sge = 1};
	struct ibv_qp *qp = rig_qp(&a, &attr);
	struct rig_path p = {.dest_qpn = qp->qp_num, .retry_cnt = 7, .rnr_retry = 7, .min_rnr_timer = 1};
	rig_init(qp);
	rig_rtr(qp, &p);
	rig_rts(qp, &p);
	struct ibv_exp_send_wr nop = {.exp_opcode = IBV_EXP_WR_NOP, .exp_send_flags = IBV_EXP_SEND_SIGNALED}, *bad;
	struct ibv_exp_send_wr wait = {.exp_opcode = IBV_EXP_WR_CQE_WAIT,
				       .task.cqe_wait = {.cq = cq, .cq_count = 5},
				       .next = &nop};
	b_sends(2);
	CHECK(!shca_exp_post_send(qp, &wait, &bad));
	for (int size = 16; size <= 64; size *= 2) {
		CHECK(!shca_resize_cq(cq, size));
		b_sends(size < 64);
		CHECK(!shca_poll_cq(done, 1, &wc));
	}
	b_sends(1);
	CHECK(completion(done) == IBV_WC_SUCCESS);
	a_polls_all();
}

/* The overrun comes where the granted size is exceeded, behind the resize and in its middle. */
static const char *overrun_at;
static void overruns_at(void)
{
	struct ibv_wc wc;
	pthread_t t = 0;

	set_up_queues(8);
	b_sends(5);
	to_size = 16;
	if (overrun_at) {
		hold_at(&a, overrun_at);
		t = begin(resizes, NULL);
		rig_await(&hold.held, 1);
	} else {
		resizes(NULL);
	}
	b_sends(11);
	CHECK(!shca_cq_in_error(shca_user_cq_of(cq)->sh));
	message(at_b, 16);
	CHECK(shca_cq_in_error(shca_user_cq_of(cq)->sh));
	if (overrun_at) {
		let_go();
		joined(t);
	}
	CHECK(!got);
	a_polls(sent);
	CHECK(shca_poll_cq(cq, 1, &wc) == -EIO && shca_resize_cq(cq, 64) == EINVAL);
}

static void overruns(void)
{
	static const char *const at[] = {NULL, "cq-move-copied", "cq-move-half", "cq-move-sealed", "cq-moved"};

	for (size_t i = 0; i < ARRAY_SIZE(at); i++) {
		overrun_at = at[i];
		apart(overruns_at);
	}
}

/* ---- processes --------------------------------------------------------------------------------------------------------- */

#define MESSAGES 6000u
#define WINDOW 24u			/* messages of a producer under way */

/* Sends numbered messages as they are allowed; ends when the owner is dead. */
static void producer(void)
{
	struct rig r;
	struct ibv_wc wc;
	uint32_t n = 0, done = 0;

	rig_join(&r, sh->fabric);
	struct ibv_cq *own = rig_cq(&r, 64, NULL);
	struct ibv_qp *qp = end_of(&r, own, own);
	peer_connects(qp);
	for (;;) {
		if (n < atomic_load(&sh->allowed[me]) && n - done < 32) {
			struct ibv_send_wr wr = {.opcode = IBV_WR_SEND_WITH_IMM, .imm_data = n++,
						 .send_flags = IBV_SEND_SIGNALED}, *bad;
			CHECK(!shca_post_send(qp, &wr, &bad));
		} else if (n - done < 32) {
			rig_nap();
		}
		int got_one = shca_poll_cq(own, 1, &wc);
		CHECK(got_one >= 0);
		if (got_one && wc.status != IBV_WC_SUCCESS)
			break;
		done += (uint32_t)got_one;
		if (!got_one && n == done && atomic_load(&sh->allowed[me]) == UINT32_MAX / 2)
			break;
	}
	atomic_fetch_add(&sh->failed, 1);
	_exit(0);
}

static void owner_connects(struct rig *r)
{
	rig_join(r, sh->fabric);
	cq = rig_cq(r, PEERS * WINDOW, NULL);
	for (int i = 0; i < PEERS; i++) {
		ends[i] = end_of(r, rig_cq(r, 8, NULL), cq);
		receives(ends[i], WINDOW);
	}
	connect_ends();
}

/* The owner resizes and polls by turns. `dies`: producer 0 is killed in the middle. */
static void produce(bool dies)
{
	uint64_t rng = 88172645463325252ull;
	uint32_t next[PEERS] = {0}, flushed = 0, total = 0, turns = 0;
	bool killed = false;
	struct rig r;
	struct ibv_wc wc[8];

	owner_connects(&r);
	for (int i = 0; i < PEERS; i++)
		atomic_store(&sh->allowed[i], WINDOW);
	while (total < PEERS * MESSAGES - (killed ? MESSAGES - next[0] : 0) || (killed && flushed < WINDOW)) {
		if (turns++ % 16 == 0) {
			int size = 1 << (3 + rig_below(&rng, 8));
			int rc = shca_resize_cq(cq, size < (int)(PEERS * WINDOW) ? (int)(PEERS * WINDOW) : size);
			if (rc && rc != EINVAL)
				FAIL("resize to %d: %s", size, strerror(rc));
			atomic_fetch_add(&sh->resized, 1);
		}
		int n = shca_poll_cq(cq, (int)rig_below(&rng, 8) + 1, wc);
		CHECK(n >= 0);
		if (!n)
			rig_nap();
		for (int i = 0; i < n; i++) {
			int k = peer_of((uint32_t)wc[i].wr_id);
			if (killed && !k && wc[i].status == IBV_WC_WR_FLUSH_ERR) {
				flushed++;
				continue;
			}
			if (k == PEERS || wc[i].status != IBV_WC_SUCCESS || wc[i].imm_data != next[k])
				FAIL("producer %d: message %u in place of %u: %s", k, wc[i].imm_data, next[k],
				     ibv_wc_status_str(wc[i].status));
			next[k]++;
			total++;
			if (next[k] + WINDOW <= MESSAGES) {
				receives(ends[k], 1);
				atomic_fetch_add(&sh->allowed[k], 1);
			}
			if (killed && !k)
				flushed += next[0] + WINDOW > MESSAGES;
		}
		if (dies && !killed && next[0] > MESSAGES / 2) {
			killed = true;
			CHECK(!kill(pids[0], SIGKILL));
		}
	}
	for (int i = 0; i < PEERS; i++)
		atomic_store(&sh->allowed[i], UINT32_MAX / 2);
	CHECK(!shca_poll_cq(cq, 1, wc) && !shca_cq_in_error(shca_user_cq_of(cq)->sh));
	for (int i = 0; i < PEERS; i++)
		CHECK(!shca_destroy_qp(ends[i]));
	CHECK(!shca_destroy_cq(cq));
}

static void many(void)
{
	start_peers("cq_resize", producer);
	produce(false);
}

static void producer_dies(void)
{
	start_peers("cq_resize", producer);
	produce(true);
}

/* Resizes until it is killed; nobody polls what it does not allow. */
static void resizing_owner(void)
{
	struct rig r;
	struct ibv_wc wc;

	owner_connects(&r);
	for (int i = 0; i < PEERS; i++)
		atomic_store(&sh->allowed[i], WINDOW);
	for (uint32_t n = 0;; n++) {
		CHECK(!shca_resize_cq(cq, n & 1 ? 128 : 1024));
		atomic_fetch_add(&sh->resized, 1);
		while (shca_poll_cq(cq, 1, &wc) == 1)
			for (int i = 0; i < PEERS; i++)
				if (wc.wr_id == ends[i]->qp_num) {
					receives(ends[i], 1);
					atomic_fetch_add(&sh->allowed[i], 1);
				}
	}
}

/* Every producer learns that the owner is dead, wherever it was. */
static void owner_dies(void)
{
	for (uint32_t round = 1; round <= 4; round++) {
		start_peers("cq_resize", producer);
		kill_owner(resizing_owner, 50 * round, 7 * round);
		/* so that each has a request under way */
		for (int i = 0; i < PEERS; i++)
			atomic_fetch_add(&sh->allowed[i], WINDOW);
		peers_have_failed();
	}
}

int main(int argc, char **argv)
{
	static const struct rig_case cases[] = {
		{"grows", grows}, {"grows-beyond", grows_beyond}, {"grows-full", grows_full}, {"shrinks", shrinks},
		{"shrinks-in-vain", shrinks_in_vain}, {"producer-held", producer_held}, {"counts", counts},
		{"overruns", overruns}, {"many", many}, {"producer-dies", producer_dies}, {"owner-dies", owner_dies},
	};

	return rig_cases(argc, argv, cases, ARRAY_SIZE(cases), NULL);
}
