/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * shca_unfinished: behind a post the word is 0 only if all requests were carried out, and 0 if nothing stopped them; whatever
 * happens to the queue at that moment: requests that wait, one that fails in another thread while the next is posted, a thread
 * that takes the queue to ERR, a peer's process that does so by ending, or is killed. 2 seconds; argument: rounds (20).
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define HOLD_OWN_FAILPOINT
#include "hold.h"

static struct stage {
	struct rig_meeting ab;
	uint32_t rkey;
	_Atomic uint64_t landed;	/* the peer's memory */
	_Atomic uint64_t posted;
	_Atomic uint32_t done;
} *st;

enum { SIGNAL_EVERY = 16 };

static struct ibv_qp *qp, *peer;
static struct ibv_cq *cq, *peer_cq;
static struct ibv_mr *mr, *bytes_mr;
static const uint32_t *word;
static char bytes[64];
static int rounds = 20;
static uint8_t rnr_retry = 7;

static bool unfinished(void)
{
	return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

static int posts(enum ibv_wr_opcode op, uint64_t v, bool signaled)
{
	struct ibv_sge sge = {(uintptr_t)&v, sizeof(v), 0};
	struct ibv_send_wr wr = {.wr_id = v, .sg_list = &sge, .num_sge = 1, .opcode = op,
				 .send_flags = IBV_SEND_INLINE | (signaled ? IBV_SEND_SIGNALED : 0),
				 .wr.rdma = {.remote_addr = (uintptr_t)&st->landed, .rkey = st->rkey}}, *bad;

	return shca_post_send(qp, &wr, &bad);
}

static void expect(uint64_t id, enum ibv_wc_status status)
{
	struct ibv_wc wc;

	for (int i = 0; shca_poll_cq(cq, 1, &wc) != 1; i++, rig_nap())
		if (i > 20000)
			FAIL("request %lu does not complete", (unsigned long)id);
	if (wc.wr_id != id || wc.status != status)
		FAIL("request %lu, %s, instead of %lu, %s", (unsigned long)wc.wr_id, ibv_wc_status_str(wc.status),
		     (unsigned long)id, ibv_wc_status_str(status));
}

static void *receives(void *len)
{
	struct ibv_sge sge = {(uintptr_t)bytes, (uint32_t)(uintptr_t)len, bytes_mr->lkey};
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;

	CHECK(!shca_post_recv(peer, &wr, &bad));
	return NULL;
}

static struct ibv_qp *queue(struct rig *r, struct ibv_cq *both)
{
	struct rig_qp_attr at = {.type = IBV_QPT_RC, .scq = both, .rcq = both, .send_wr = 64, .recv_wr = 16, .sge = 1, .inl = 8};
	struct ibv_qp *q = rig_qp(r, &at);

	rig_init(q);
	return q;
}

/* Two virtual processes, connected. */
static void pair(void)
{
	cq = rig_cq(&a, 256, NULL);
	peer_cq = rig_cq(&b, 64, NULL);
	qp = queue(&a, cq);
	peer = queue(&b, peer_cq);
	mr = shca_reg_mr(b.pd, &st->landed, 8, (uintptr_t)&st->landed, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	bytes_mr = shca_reg_mr(b.pd, bytes, sizeof(bytes), (uintptr_t)bytes, IBV_ACCESS_LOCAL_WRITE);
	CHECK(mr && bytes_mr);
	st->rkey = mr->rkey;
	struct ibv_qp *end[2] = {qp, peer};
	for (int i = 0; i < 2; i++) {
		struct rig_path path = {
			.dest_qpn = end[!i]->qp_num, .timeout = 8, .retry_cnt = 7, .rnr_retry = rnr_retry, .min_rnr_timer = 20};
		rig_rtr(end[i], &path);
		rig_rts(end[i], &path);
	}
	CHECK(!shca_query_unfinished(qp, &word) && !unfinished());
}

static void no_pair(void)
{
	CHECK(!shca_destroy_qp(qp) && !shca_destroy_qp(peer) && !shca_destroy_cq(cq) && !shca_destroy_cq(peer_cq) &&
	      !shca_dereg_mr(mr) && !shca_dereg_mr(bytes_mr));
}

/* A message without a receive, and requests posted behind that message. */
static void waits(void)
{
	pair();
	for (uint64_t v = 1; v <= 8; v++)
		if (posts(IBV_WR_RDMA_WRITE, v, v % 2) || unfinished() || atomic_load(&st->landed) != v)
			FAIL("write %lu was carried out, and is not taken for that", (unsigned long)v);
	for (uint64_t v = 1; v <= 8; v += 2)
		expect(v, IBV_WC_SUCCESS);
	CHECK(!posts(IBV_WR_SEND, 9, true));
	if (!unfinished())
		FAIL("a message waits for a receive, and is taken for carried out");
	CHECK(!posts(IBV_WR_RDMA_WRITE, 10, true));
	if (!unfinished() || atomic_load(&st->landed) != 8)
		FAIL("a write behind a message that waits is taken for carried out");
	receives((void *)8);
	expect(9, IBV_WC_SUCCESS);
	expect(10, IBV_WC_SUCCESS);
	if (posts(IBV_WR_RDMA_WRITE, 11, false) || unfinished() || atomic_load(&st->landed) != 11)
		FAIL("all was carried out, and the word does not say so");
	no_pair();
}

static _Atomic bool fail_it;

/* The message that waits fails now, for want of a receive, by the helper thread; the receiver's queue goes on. */
void shca_failpoint(struct shca_thread *thr, const char *name, const struct shca_qp *q, int op)
{
	(void)thr;
	(void)op;
	if (!qp || q != rig_sh(qp) || strcmp(name, "behind-others") || !atomic_load(&fail_it) || atomic_load(&q->fail))
		return;
	for (int i = 0; !atomic_load(&q->fail) || atomic_load(&q->head) != atomic_load(&q->posted) || atomic_load(&q->lock) & 3;
	     i++, rig_nap())
		if (i > 20000)
			FAIL("a message without a receive does not fail");
	atomic_store(&fail_it, false);
}

static void fails_meanwhile(void)
{
	rnr_retry = 1;
	atomic_store(&fail_it, true);
	for (int i = 0; atomic_load(&fail_it); i++) {
		if (i == 200)
			FAIL("the message has always failed before the next one was posted");
		pair();
		CHECK(!posts(IBV_WR_RDMA_WRITE, 1, false) && !posts(IBV_WR_SEND, 2, false) && unfinished());
		CHECK(!posts(IBV_WR_RDMA_WRITE, 3, false));
		if (!unfinished())
			FAIL("a message has failed, and all is taken for carried out");
		expect(2, IBV_WC_RNR_RETRY_EXC_ERR);
		expect(3, IBV_WC_WR_FLUSH_ERR);
		if (atomic_load(&st->landed) != 1)
			FAIL("a write behind a message that failed was carried out");
		no_pair();
	}
	rnr_retry = 7;
}

/* Posts until the queue is in error, or (stop) waits, and is stopped. The requests that the word reported as carried out have
 * landed, and all others complete with an error. The next request may have landed, too, with a completion: the queue went to ERR
 * between the post and the read of the word. */
static void posts_until_error(enum ibv_wc_status first, bool stop)
{
	struct ibv_qp_attr at = {.qp_state = IBV_QPS_ERR};
	struct ibv_wc wc;
	uint64_t v, good;

	for (v = 1;; v++) {
		atomic_store(&st->posted, v);
		CHECK(!posts(IBV_WR_RDMA_WRITE, v, v % SIGNAL_EVERY == 0));
		if (unfinished())
			break;
		if (v % SIGNAL_EVERY == 0)
			expect(v, IBV_WC_SUCCESS);
	}
	good = v - 1;
	if (stop)
		CHECK(!shca_modify_qp(qp, &at, IBV_QP_STATE));
	CHECK(!posts(IBV_WR_RDMA_WRITE, ++v, true));
	if (atomic_load(&st->landed) != good && atomic_load(&st->landed) != good + 1)
		FAIL("write %lu has landed last, and %lu is said to be the last carried out",
		     (unsigned long)atomic_load(&st->landed), (unsigned long)good);
	if (atomic_load(&st->landed) == good + 1 && ++good % SIGNAL_EVERY == 0)
		expect(good, IBV_WC_SUCCESS);
	for (uint64_t i = good + 1; i <= v; i++) {
		for (int n = 0; shca_poll_cq(cq, 1, &wc) != 1; n++, rig_nap())
			if (n > 20000)
				FAIL("%lu of %lu were carried out, and request %lu is not reported", (unsigned long)good,
				     (unsigned long)v, (unsigned long)i);
		if (wc.wr_id != i || wc.status != (i == good + 1 ? first : IBV_WC_WR_FLUSH_ERR))
			FAIL("%lu of %lu were carried out, and request %lu is reported: %s", (unsigned long)good,
			     (unsigned long)v, (unsigned long)wc.wr_id, ibv_wc_status_str(wc.status));
	}
	if (atomic_load(&st->landed) != good || shca_poll_cq(cq, 1, &wc))
		FAIL("write %lu was flushed and has landed, or more is reported", (unsigned long)atomic_load(&st->landed));
}

static void *breaks(void *seed)
{
	struct ibv_qp_attr at = {.qp_state = IBV_QPS_ERR};

	while (atomic_load(&st->posted) < (uintptr_t)seed)
		sched_yield();
	CHECK(!shca_modify_qp(qp, &at, IBV_QP_STATE));
	return NULL;
}

static void broken_by_a_thread(void)
{
	uint64_t seed = 7;

	for (int i = 0; i < rounds; i++) {
		pair();
		atomic_store(&st->posted, 0);
		atomic_store(&st->landed, 0);
		pthread_t t = begin(breaks, (void *)(uintptr_t)rig_below(&seed, 3000));
		posts_until_error(IBV_WC_WR_FLUSH_ERR, false);
		joined(t);
		no_pair();
	}
}

/* ---- the peer is another process -------------------------------------------------------------------------------- */

static char fabric[64];
static bool kills;

static void requester(void)
{
	struct rig r;

	rig_join(&r, fabric);
	cq = rig_cq(&r, 256, NULL);
	qp = rig_meet(&r, cq, &st->ab, 0, 2);
	CHECK(!shca_query_unfinished(qp, &word));
	posts_until_error(kills ? IBV_WC_RETRY_EXC_ERR : IBV_WC_WR_FLUSH_ERR, !kills);
	atomic_store(&st->done, 1);
	CHECK(!shca_destroy_qp(qp));
	rig_leave(&r);
}

static void responder(void)
{
	struct rig r;
	struct ibv_qp_attr at = {.qp_state = IBV_QPS_RESET};

	rig_join(&r, fabric);
	/* shared with the requester, which reads the memory when this process is gone */
	struct ibv_mr *m =
		shca_reg_mr(r.pd, &st->landed, 8, (uintptr_t)&st->landed, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	CHECK(m);
	st->rkey = m->rkey;
	struct ibv_qp *q = rig_meet(&r, rig_cq(&r, 16, NULL), &st->ab, 1, 2);
	while (atomic_load(&st->posted) < 500)
		sched_yield();
	if (kills)
		kill(getpid(), SIGKILL);
	CHECK(!shca_modify_qp(q, &at, IBV_QP_STATE) && !shca_destroy_qp(q));
	rig_await(&st->done, 1);
	CHECK(!shca_dereg_mr(m));
	rig_leave(&r);
}

static void broken_by_the_peer(bool killed)
{
	for (int i = 0; i < rounds / 4; i++) {
		int status[2];

		memset(st, 0, sizeof(*st));
		snprintf(fabric, sizeof(fabric), "unfinished_word-%d-%d", (int)getpid(), i);
		kills = killed;
		pid_t from = rig_child(requester), to = rig_child(responder);
		CHECK(waitpid(from, &status[0], 0) == from && waitpid(to, &status[1], 0) == to);
		if (status[0] || !status[1] == killed)
			FAIL("status %#x of the requester, %#x of its peer", (unsigned)status[0], (unsigned)status[1]);
	}
}

static void ended_by_the_peer(void)
{
	broken_by_the_peer(false);
}

static void killed(void)
{
	broken_by_the_peer(true);
}

/* Queues that promise nothing. */
static void refused(void)
{
	const uint32_t *w = NULL;
	struct ibv_cq *both = rig_cq(&a, 16, NULL);
	struct rig_qp_attr ud = {.type = IBV_QPT_UD, .scq = both, .rcq = both, .send_wr = 4, .recv_wr = 4, .sge = 1},
			   cross = {.type = IBV_QPT_RC, .exp_flags = IBV_EXP_QP_CREATE_CROSS_CHANNEL, .scq = both, .rcq = both,
				    .send_wr = 4, .recv_wr = 4, .sge = 1};

	CHECK(shca_query_unfinished(rig_qp(&a, &ud), &w) == EOPNOTSUPP &&
	      shca_query_unfinished(rig_qp(&a, &cross), &w) == EOPNOTSUPP && !w);
}

int main(int argc, char **argv)
{
	alarm(120);
	if (argc > 1)
		rounds = atoi(argv[1]);
	st = mmap(NULL, sizeof(*st), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(st != MAP_FAILED);
	ended_by_the_peer();
	killed();
	memset(st, 0, sizeof(*st));
	set_up();
	refused();
	waits();
	fails_meanwhile();
	broken_by_a_thread();
	return 0;
}
