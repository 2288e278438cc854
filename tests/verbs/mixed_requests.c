/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ordinary requests of a thread of mixed to itself: SEND, RDMA and atomics by a connection with an armed alternate path, while
 * the CQ is resized, also with completions in it; RDMA through memory windows of types 1 and 2B, which are then invalidated by
 * their owner or by the peer's SEND_WITH_INV.
 */
#include "mixed.h"

/* ---- a connection with an armed path ---------------------------------------------------------------------------------- */

static void armed_make(struct worker *w)
{
	w->a = mixed_queue(w->cq);
	w->b = mixed_queue(w->cq);
	mixed_connect(w->a, w->b->qp_num, 1);
	mixed_connect(w->b, w->a->qp_num, 1);
	mixed_arm(w->a, 2, 2);
	mixed_arm(w->b, 2, 2);
}

static void armed_end(struct worker *w)
{
	CHECK(!ibv_destroy_qp(w->a) && !ibv_destroy_qp(w->b), "destroy");
}

static void armed_send(struct worker *w, struct ibv_qp *from, struct ibv_sge source, struct ibv_sge target)
{
	struct ibv_qp *to = from == w->a ? w->b : w->a;
	uint64_t sum = 0;

	CHECK(!vt_recv(to, 1, target) && !vt_send(from, 2, source, SIGNALED), "SEND");
	/* both completions are in the queue while it gets another size */
	if (rnd(&w->r, 2))
		CHECK(!ibv_resize_cq(w->cq, 2 + (int)rnd(&w->r, 8)), "ibv_resize_cq");
	for (int i = 0; i < 2; i++) {
		struct ibv_wc wc = vt_wait(w->cq);
		CHECK(wc.status == IBV_WC_SUCCESS && (wc.wr_id != 1 || wc.byte_len == source.length), "seed %lu: %s", seed,
		      ibv_wc_status_str(wc.status));
		sum += wc.wr_id;
	}
	CHECK(sum == 3, "seed %lu: two completions of one kind", seed);
}

/* Adds to a cell of m[d]; the result goes to m[s]. */
static void armed_atomic(struct worker *w, struct ibv_qp *from, int s, int d)
{
	uint64_t *cell = (uint64_t *)(void *)(w->m[d] + HALF + 3 * MSG), before = *cell, add = rnd(&w->r, 1000), got;
	struct ibv_sge sge = mixed_flat(w, s, 0, 8);
	struct ibv_send_wr wr = {.wr_id = 3,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
				 .send_flags = SIGNALED,
				 .wr.atomic = {(uintptr_t)cell, add, 0, w->mr[d]->rkey}},
			   *bad;

	CHECK(!ibv_post_send(from, &wr, &bad), "atomic");
	mixed_done(w, w->cq, 3);
	memcpy(&got, w->m[s] + HALF, 8);
	CHECK(got == before && *cell == before + add, "seed %lu: an atomic", seed);
}

static void armed_act(struct worker *w)
{
	struct ibv_qp *from = rnd(&w->r, 2) ? w->a : w->b;
	int s = (int)rnd(&w->r, 2), d = (int)rnd(&w->r, 2);
	uint32_t n = 1 + rnd(&w->r, MSG), at = rnd(&w->r, MSG - n + 1), back = MSG + rnd(&w->r, MSG - n + 1);
	char *source = w->m[s] + HALF + at, *target = w->m[d] + HALF + back;
	enum { SEND, WRITE, READ, ATOMIC, OPS } op = rnd(&w->r, OPS);

	fill(&w->r, source, n);
	fill(&w->r, target, n);
	if (rnd(&w->r, 4) == 0)
		CHECK(!ibv_resize_cq(w->cq, 2 + (int)rnd(&w->r, 30)), "ibv_resize_cq");
	if (op == ATOMIC) {
		armed_atomic(w, from, s, d);
		return;
	}
	if (op == SEND) {
		armed_send(w, from, mixed_flat(w, s, at, n), mixed_flat(w, d, back, n));
	} else {
		/* READ: from the target to the source */
		CHECK(!vt_rdma(from, op == WRITE ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ, 4, mixed_flat(w, s, at, n),
			       (uintptr_t)target, w->mr[d]->rkey),
		      "RDMA");
		mixed_done(w, w->cq, 4);
	}
	mixed_equal(w, source, target, n, "an armed connection");
}

const struct kind mixed_armed = {armed_make, armed_act, armed_end};

/* ---- memory windows --------------------------------------------------------------------------------------------------- */

static void window_bind(struct worker *w, struct ibv_mw *mw, struct ibv_mw_bind_info info)
{
	if (mw->type == IBV_MW_TYPE_2) {
		uint32_t rkey = ibv_inc_rkey(mw->rkey);
		struct ibv_send_wr wr = {.wr_id = 7,
					 .opcode = IBV_WR_BIND_MW,
					 .send_flags = SIGNALED,
					 .bind_mw = {.mw = mw, .rkey = rkey, .bind_info = info}},
				   *bad;
		CHECK(!ibv_post_send(w->owner, &wr, &bad), "BIND_MW");
		mw->rkey = rkey;
	} else {
		struct ibv_mw_bind b = {.wr_id = 7, .send_flags = SIGNALED, .bind_info = info};
		CHECK(!ibv_bind_mw(w->owner, mw, &b), "ibv_bind_mw");
	}
	mixed_done(w, w->cq, 7);
}

/* Writes `len` bytes of m[s] through the window to `target`, and reads them back. */
static void window_use(struct worker *w, const struct ibv_mw *mw, int s, char *target, uint32_t len)
{
	fill(&w->r, w->m[s] + HALF, len);
	CHECK(!vt_rdma(w->peer, IBV_WR_RDMA_WRITE, 8, mixed_flat(w, s, 0, len), (uintptr_t)target, mw->rkey), "WRITE");
	mixed_done(w, w->cq, 8);
	mixed_equal(w, w->m[s] + HALF, target, len, "a WRITE through a window");
	CHECK(!vt_rdma(w->peer, IBV_WR_RDMA_READ, 9, mixed_flat(w, s, MSG, len), (uintptr_t)target, mw->rkey), "READ");
	mixed_done(w, w->cq, 9);
	mixed_equal(w, w->m[s] + HALF + MSG, target, len, "a READ through a window");
}

static void window_invalidate(struct worker *w, const struct ibv_mw *mw, int s)
{
	struct ibv_send_wr inv = {.wr_id = 10, .opcode = IBV_WR_LOCAL_INV, .send_flags = SIGNALED, .invalidate_rkey = mw->rkey},
			   *bad;
	bool by_peer = rnd(&w->r, 2);

	if (by_peer) {
		inv.opcode = IBV_WR_SEND_WITH_INV;
		CHECK(!vt_recv(w->owner, 11, mixed_flat(w, s, 0, 8)), "receive");
	}
	CHECK(!ibv_post_send(by_peer ? w->peer : w->owner, &inv, &bad), "invalidate");
	for (int i = 0; i < 1 + by_peer; i++) {
		struct ibv_wc wc = vt_wait(w->cq);
		CHECK(wc.status == IBV_WC_SUCCESS, "seed %lu: invalidate: %s", seed, ibv_wc_status_str(wc.status));
	}
}

static void windows_act(struct worker *w)
{
	bool two = rnd(&w->r, 2);
	int s = (int)rnd(&w->r, 2), d = (int)rnd(&w->r, 2);
	uint32_t n = 8 + rnd(&w->r, MSG - 8), at = rnd(&w->r, HALF - n), in = rnd(&w->r, n - 7),
		 len = 8 + rnd(&w->r, n - in - 7);
	struct ibv_mw *mw = two ? w->mw2 : w->mw1;
	struct ibv_mw_bind_info info = {.mr = w->mr[d],
					.addr = (uintptr_t)w->m[d] + at,
					.length = n,
					.mw_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ};
	uint32_t was = mw->rkey;

	window_bind(w, mw, info);
	window_use(w, mw, s, w->m[d] + at + in, len);
	if (two)
		window_invalidate(w, mw, s);
	/* the key of the window, which is invalid now; of type 1, the key before this one */
	if (rnd(&w->r, 16) == 0 && (two || was != mw->rkey))
		mixed_refused(w, info.addr, two ? mw->rkey : was);
}

const struct kind mixed_windows = {mixed_own_pair, windows_act, mixed_own_pair_end};
