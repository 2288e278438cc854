/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A third party dies at every step of a request that binds or invalidates a memory window, while executing the request for the
 * owner.
 *
 *     A    owns the queue T, which is connected to A's queue R; T holds a WAIT, then the request
 *     X    sends the message for which the WAIT waits, so that X runs T, and dies there
 *
 * A completes the work that X has left: the request completes once, and peers can access exactly the memory that the request
 * leaves open.
 *
 *     window_death [-v]
 */
#include <stdlib.h>

#include "third_death.h"

enum kind { BIND_2, BIND_1, LOCAL_INV, SEND_INV };
static const char *const kind_name[] = {"BIND_MW (type 2)", "BIND_MW (type 1, bound)", "LOCAL_INV", "SEND_WITH_INV"};
static const int kind_op[] = {SHCA_OP_BIND_MW, SHCA_OP_BIND_MW, SHCA_OP_LOCAL_INV, SHCA_OP_SEND_INV};
#define M(k) (1u << (k))
#define M_ALL (M(BIND_2) | M(BIND_1) | M(LOCAL_INV) | M(SEND_INV))

static const struct {
	const char *name;
	uint32_t kinds;
} points[] = {
	{"exec", M_ALL}, {"unbind", M(BIND_1) | M(LOCAL_INV)}, {"unbound", M(BIND_1) | M(LOCAL_INV)},
	{"bind", M(BIND_1) | M(BIND_2)}, {"bound", M(BIND_1) | M(BIND_2)}, {"taken", M(SEND_INV)}, {"data", M(SEND_INV)},
	{"data-done", M(SEND_INV)}, {"invalidate", M(SEND_INV)}, {"invalidated", M(SEND_INV)}, {"rcqe", M(SEND_INV)},
	{"rcqe-done", M(SEND_INV)}, {"scqe", M_ALL}, {"scqe-done", M_ALL}, {"advanced", M_ALL},
};

#define LEN 64u
#define HALF (LEN / 2)
#define OPEN (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)

static struct ibv_mr *mr;
static char *memory;

static struct ibv_qp *queue(struct ibv_cq *both, uint32_t flags)
{
	struct rig_qp_attr a = {
		.type = IBV_QPT_RC, .exp_flags = flags, .scq = both, .rcq = both, .send_wr = 16, .recv_wr = 4, .sge = 1};
	struct ibv_qp *qp = rig_qp(&r, &a);

	rig_init(qp);
	return qp;
}

static struct ibv_wc next(void)
{
	struct ibv_wc wc;

	for (int i = 0; shca_poll_cq(cq, 1, &wc) != 1; i++, rig_nap())
		if (i > 40000)
			FAIL("a completion is missing");
	if (wc.status != IBV_WC_SUCCESS)
		FAIL("request %lu: %s", (unsigned long)wc.wr_id, ibv_wc_status_str(wc.status));
	return wc;
}

static void bind(struct ibv_qp *qp, struct ibv_mw *mw, uint64_t at, uint64_t id)
{
	struct ibv_send_wr wr = {.wr_id = id, .opcode = IBV_WR_BIND_MW, .send_flags = IBV_SEND_SIGNALED,
				 .bind_mw = {.mw = mw, .rkey = ibv_inc_rkey(mw->rkey),
					     .bind_info = {.mr = mr, .addr = (uintptr_t)memory + at, .length = HALF,
							   .mw_access_flags = OPEN}}}, *bad;

	CHECK(!shca_post_send(qp, &wr, &bad));
	mw->rkey = wr.bind_mw.rkey;
}

static bool opens(const struct ibv_qp *by, uint32_t rkey, uint64_t at)
{
	const struct shca_mr *w = shca_window_find(r.m, rkey, shca_user_pd_of(r.pd)->number, by->qp_num, OPEN);

	return w && w->iova == (uintptr_t)memory + at && w->length == HALF && w->where == shca_off_of(r.m, memory) + at &&
	       w->lane == SHCA_LANE_ARENA;
}

static void request(struct ibv_qp *t, uint32_t rkey)
{
	struct ibv_sge sge = {(uintptr_t)memory, 8, mr->lkey};
	struct ibv_send_wr wr = {.wr_id = 2, .opcode = IBV_WR_LOCAL_INV, .send_flags = IBV_SEND_SIGNALED,
				 .invalidate_rkey = rkey}, *bad;

	if (st->kind == SEND_INV) {
		wr.opcode = IBV_WR_SEND_WITH_INV;
		wr.sg_list = &sge;
		wr.num_sge = 1;
	}
	CHECK(!shca_post_send(t, &wr, &bad));
}

static void role_a(void)
{
	const struct rig_path path = {.retry_cnt = 7, .rnr_retry = 7, .min_rnr_timer = 1};
	struct ibv_exp_send_wr wait = {.exp_opcode = IBV_EXP_WR_CQE_WAIT}, *bad;
	bool binds = st->kind == BIND_1 || st->kind == BIND_2;

	rig_join(&r, st->fabric);
	cq = rig_cq(&r, 32, NULL);
	struct ibv_cq *waited = rig_cq(&r, 4, NULL);
	memory = shca_buf_alloc(r.ctx, LEN);
	CHECK(memory);
	memset(memory, 0, LEN);
	mr = shca_reg_mr(r.pd, memory, LEN, (uintptr_t)memory, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	CHECK(mr);
	struct ibv_qp *t = queue(cq, IBV_EXP_QP_CREATE_CROSS_CHANNEL), *to = queue(cq, 0);
	rig_connect(t, to, &path);
	struct ibv_mw *mw = shca_alloc_mw(r.pd, st->kind == BIND_1 ? IBV_MW_TYPE_1 : IBV_MW_TYPE_2);
	CHECK(mw);
	if (st->kind != BIND_2) {
		bind(st->kind == SEND_INV ? to : t, mw, 0, 1);
		next();
	}
	if (st->kind == SEND_INV) {
		struct ibv_sge sge = {(uintptr_t)memory + HALF, 8, mr->lkey};
		struct ibv_recv_wr wr = {.wr_id = 3, .sg_list = &sge, .num_sge = 1}, *rbad;
		memory[0] = 5;
		CHECK(!shca_post_recv(to, &wr, &rbad));
	}
	struct ibv_qp *u = rig_meet(&r, waited, &st->xa, 0, 2);
	struct ibv_recv_wr wr = {.wr_id = 4}, *rbad;
	CHECK(!shca_post_recv(u, &wr, &rbad));
	wait.task.cqe_wait.cq = waited;
	wait.task.cqe_wait.cq_count = 1;
	CHECK(!shca_exp_post_send(t, &wait, &bad));
	uint32_t old = mw->rkey;
	if (binds)
		bind(t, mw, HALF, 2);
	else
		request(t, old);
	atomic_store(&st->posted, 1);
	rig_await(&st->dead, 1);
	bool sent = false, received = false;
	for (int i = 0; i < (st->kind == SEND_INV ? 2 : 1); i++) {
		struct ibv_wc wc = next();
		CHECK(wc.wr_id == 3 ? !received : wc.wr_id == 2 && !sent);
		if (wc.wr_id == 3) {
			received = true;
			CHECK(wc.wc_flags & IBV_WC_WITH_INV && wc.invalidated_rkey == old && wc.byte_len == 8 &&
			      memory[HALF] == 5);
		} else {
			sent = true;
		}
	}
	CHECK(sent && received == (st->kind == SEND_INV));
	struct ibv_wc wc;
	for (int i = 0; i < 20; i++, rig_nap())
		CHECK(!shca_poll_cq(cq, 1, &wc));
	if (binds)
		CHECK(opens(t, mw->rkey, HALF) && !opens(t, old, 0) && !opens(t, old, HALF));
	else
		CHECK(!opens(t, old, 0) && !opens(to, old, 0));
	/* the window is as good as before */
	if (!binds) {
		bind(to, mw, 0, 5);
		next();
		CHECK(opens(to, mw->rkey, 0));
	}
	CHECK(shca_dereg_mr(mr) == EBUSY && !shca_dealloc_mw(mw) && !shca_dereg_mr(mr));
	CHECK(!shca_destroy_qp(t) && !shca_destroy_qp(to) && !shca_destroy_qp(u) && !shca_destroy_cq(cq) &&
	      !shca_destroy_cq(waited));
	CHECK(!shca_buf_free(r.ctx, memory));
	rig_leave(&r);
}

int main(int argc, char **argv)
{
	bool verbose = argc > 1 && !strcmp(argv[1], "-v");
	unsigned failed = 0, passed = 0;

	third_setup();
	for (unsigned i = 0; i < ARRAY_SIZE(points); i++)
		for (enum kind k = BIND_2; k <= SEND_INV; k++) {
			if (!(points[i].kinds & M(k)))
				continue;
			bool good = third_dies("window_death", role_a, k, points[i].name, kind_op[k], 0);
			passed += good;
			failed += !good;
			if (!good || verbose)
				printf("%s: %s, %s\n", good ? "ok" : "FAIL", points[i].name, kind_name[k]);
		}
	printf("%u passed, %u failed\n", passed, failed);
	return failed || !passed;
}
