/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory windows of types 1 and 2B: the accesses that each permits, the rules of binding, LOCAL_INV and SEND_WITH_INV, regions
 * with windows, queue pairs with windows, and the death of the owner.
 */
#include <infiniband/mlx5dv.h>
#include <signal.h>

#include "owner.h"

#define LEN 4096u
#define AT 1024u		/* the window's place in the region */
#define ROOM 256u		/* the window's length */
#define ACCESS (VT_ACCESS | IBV_ACCESS_MW_BIND)
#define OPEN (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)
#define ALL_OPS                                                                                                             \
	(IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_INV | IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_BIND_MW |               \
	 IBV_QP_EX_WITH_RDMA_WRITE)

static struct memory target, source;

static struct ibv_qp *queue(enum ibv_qp_type type, struct ibv_pd *pd)
{
	struct ibv_qp_init_attr_ex a = owner_attr(type, pd, ALL_OPS);
	struct ibv_qp *qp = ibv_create_qp_ex(t.ctx, &a);

	CHECK(qp, "ibv_create_qp_ex");
	return qp;
}

static struct pair pair_of(enum ibv_qp_type type)
{
	struct pair p = {queue(type, t.pd), queue(type, t.pd)};

	vt_connect_pair(p.peer, p.owner);
	return p;
}

static struct ibv_mw *window(enum ibv_mw_type type)
{
	struct ibv_mw *mw = ibv_alloc_mw(t.pd, type);

	CHECK(mw && mw->type == type && mw->pd == t.pd && mw->context == t.ctx && mw->rkey, "ibv_alloc_mw");
	return mw;
}

static struct ibv_mw_bind_info range(const struct ibv_mr *mr, uint64_t at, uint64_t length, unsigned access)
{
	return (struct ibv_mw_bind_info){.mr = (struct ibv_mr *)mr, .addr = (uintptr_t)mr->addr + at, .length = length,
					 .mw_access_flags = access};
}

static int bind1(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind_info info, uint64_t id)
{
	struct ibv_mw_bind b = {.wr_id = id, .send_flags = IBV_SEND_SIGNALED, .bind_info = info};

	return ibv_bind_mw(qp, mw, &b);
}

static int bind2(struct ibv_qp *qp, struct ibv_mw *mw, uint32_t rkey, struct ibv_mw_bind_info info, uint64_t id, unsigned flags)
{
	struct ibv_send_wr wr = {.wr_id = id, .opcode = IBV_WR_BIND_MW, .send_flags = flags,
				 .bind_mw = {.mw = mw, .rkey = rkey, .bind_info = info}}, *bad;

	return ibv_post_send(qp, &wr, &bad);
}

/* Binds a window of either type, which must succeed. */
static void bound(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind_info info)
{
	uint32_t was = mw->rkey;

	if (mw->type == IBV_MW_TYPE_1) {
		CHECK(!bind1(qp, mw, info, 71), "ibv_bind_mw");
	} else {
		CHECK(!bind2(qp, mw, ibv_inc_rkey(was), info, 71, IBV_SEND_SIGNALED), "BIND_MW");
		mw->rkey = ibv_inc_rkey(was);
	}
	struct ibv_wc wc = vt_expect(cq, 71, IBV_WC_SUCCESS);
	CHECK(wc.opcode == IBV_WC_BIND_MW && wc.qp_num == qp->qp_num, "opcode %d", wc.opcode);
	CHECK(mw->rkey != was && mw->rkey >> 8 == was >> 8, "R_Key %#x, was %#x", mw->rkey, was);
}

/* A bind that completes with IBV_WC_MW_BIND_ERR, although not signaled; the queue is in ERR then. */
static void bind_fails(struct ibv_mw *mw, struct ibv_mw_bind_info info, const char *why)
{
	struct pair p = pair_of(IBV_QPT_RC);

	CHECK(!bind2(p.owner, mw, ibv_inc_rkey(mw->rkey), info, 72, 0), "%s", why);
	struct ibv_wc wc = vt_wait(cq);
	CHECK(wc.status == IBV_WC_MW_BIND_ERR && wc.opcode == IBV_WC_BIND_MW && wc.wr_id == 72 &&
		      vt_state(p.owner) == IBV_QPS_ERR,
	      "%s: %s", why, ibv_wc_status_str(wc.status));
	drop(p);
}

static int local_inv(struct ibv_qp *qp, uint32_t rkey, uint64_t id, unsigned flags)
{
	struct ibv_send_wr wr = {.wr_id = id, .opcode = IBV_WR_LOCAL_INV, .send_flags = flags, .invalidate_rkey = rkey}, *bad;

	return ibv_post_send(qp, &wr, &bad);
}

static void invalidated(struct ibv_qp *qp, const struct ibv_mw *mw)
{
	CHECK(!local_inv(qp, mw->rkey, 73, IBV_SEND_SIGNALED), "LOCAL_INV");
	struct ibv_wc wc = vt_expect(cq, 73, IBV_WC_SUCCESS);
	CHECK(wc.opcode == IBV_WC_LOCAL_INV, "opcode %d", wc.opcode);
}

static void local_inv_fails(uint32_t rkey, const char *why)
{
	struct pair p = pair_of(IBV_QPT_RC);

	CHECK(!local_inv(p.owner, rkey, 74, 0), "%s", why);
	struct ibv_wc wc = vt_wait(cq);
	CHECK(wc.status == IBV_WC_MW_BIND_ERR && wc.opcode == IBV_WC_LOCAL_INV && vt_state(p.owner) == IBV_QPS_ERR, "%s: %s", why,
	      ibv_wc_status_str(wc.status));
	drop(p);
}

/* One request through a window; the queues of a refused one are gone afterwards. */
static enum ibv_wc_status remote(struct ibv_qp *qp, enum ibv_wr_opcode op, uint64_t addr, uint32_t n, uint32_t rkey)
{
	struct ibv_sge sge = vt_sge(source.mr, 0, n);
	struct ibv_send_wr wr = {.wr_id = 75, .sg_list = &sge, .num_sge = 1, .opcode = op, .send_flags = IBV_SEND_SIGNALED}, *bad;

	if (op == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = addr;
		wr.wr.atomic.rkey = rkey;
		wr.wr.atomic.compare_add = 1;
	} else {
		wr.wr.rdma.remote_addr = addr;
		wr.wr.rdma.rkey = rkey;
	}
	CHECK(!ibv_post_send(qp, &wr, &bad), "post");
	struct ibv_wc wc = vt_wait(cq);
	CHECK(wc.wr_id == 75, "wr_id %lu", (unsigned long)wc.wr_id);
	return wc.status;
}

static void opens(struct ibv_qp *qp, uint64_t addr, uint32_t n, uint32_t rkey, char *at)
{
	memset(source.p, 'w', n);
	memset(at, '.', n);
	CHECK(remote(qp, IBV_WR_RDMA_WRITE, addr, n, rkey) == IBV_WC_SUCCESS && !memcmp(at, source.p, n), "RDMA WRITE");
	if (qp->qp_type == IBV_QPT_UC)
		return;
	memset(at, 'r', n);
	CHECK(remote(qp, IBV_WR_RDMA_READ, addr, n, rkey) == IBV_WC_SUCCESS && source.p[n - 1] == 'r', "RDMA READ");
	memset(at, 0, 8);
	CHECK(remote(qp, IBV_WR_ATOMIC_FETCH_AND_ADD, addr, 8, rkey) == IBV_WC_SUCCESS && *at == 1, "FETCH_ADD");
}

/* The access is refused; the pair is used up. */
static void refuses(struct pair p, enum ibv_wr_opcode op, uint64_t addr, uint32_t n, uint32_t rkey, const char *why)
{
	char before[LEN];

	memset(source.p, 'x', n);
	memcpy(before, target.p, LEN);
	enum ibv_wc_status s = remote(p.peer, op, addr, n, rkey);
	/* an unreliable connection loses a refused request */
	CHECK(s == (p.owner->qp_type == IBV_QPT_UC ? IBV_WC_SUCCESS : IBV_WC_REM_ACCESS_ERR), "%s: %s", why,
	      ibv_wc_status_str(s));
	CHECK(!memcmp(before, target.p, LEN), "%s: the memory was changed", why);
	drop(p);
}

/* ---- the device's attributes ------------------------------------------------------------------------------------------ */

static void capabilities(void)
{
	const unsigned all = IBV_DEVICE_MEM_MGT_EXTENSIONS | IBV_DEVICE_MEM_WINDOW | IBV_DEVICE_MEM_WINDOW_TYPE_2B;
	struct ibv_device_attr d;

	CHECK(!ibv_query_device(t.ctx, &d) && (d.device_cap_flags & all) == all && d.max_mw > 1000, "capabilities");
	CHECK(!(d.device_cap_flags & IBV_DEVICE_MEM_WINDOW_TYPE_2A), "type 2A");
	CHECK((errno = 0, !ibv_alloc_mw(t.pd, (enum ibv_mw_type)3)) && errno == EINVAL, "type 3");
	struct ibv_pd *pd = ibv_alloc_pd(t.ctx);
	struct ibv_mw *mw = ibv_alloc_mw(pd, IBV_MW_TYPE_2);
	CHECK(mw && ibv_dealloc_pd(pd) == EBUSY && !ibv_dealloc_mw(mw) && !ibv_dealloc_pd(pd), "a domain with a window");
}

/* Queue pairs that take neither binds nor invalidations. */
static void other_queues(void)
{
	struct ibv_mw *mw = window(IBV_MW_TYPE_2);
	struct ibv_qp *ud = vt_qp(&t, IBV_QPT_UD, cq, NULL);
	struct ibv_qp_init_attr_ex a = {.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_UD, .pd = t.pd,
					.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
					.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_LOCAL_INV};

	vt_connect(ud, 0);
	CHECK(bind2(ud, mw, ibv_inc_rkey(mw->rkey), range(target.mr, AT, ROOM, OPEN), 1, 0) == EINVAL &&
		      local_inv(ud, mw->rkey, 1, 0) == EINVAL,
	      "UD");
	CHECK((errno = 0, !ibv_create_qp_ex(t.ctx, &a)) && errno == EOPNOTSUPP, "UD with LOCAL_INV");
	a.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_BIND_MW;
	CHECK((errno = 0, !ibv_create_qp_ex(t.ctx, &a)) && errno == EOPNOTSUPP, "UD with BIND_MW");
	struct mlx5dv_qp_init_attr dv = {.comp_mask = MLX5DV_QP_INIT_ATTR_MASK_DC, .dc_init_attr.dc_type = MLX5DV_DCTYPE_DCI};
	a.qp_type = IBV_QPT_DRIVER;
	CHECK((errno = 0, !mlx5dv_create_qp(t.ctx, &a, &dv)) && errno == EOPNOTSUPP, "a DC initiator with BIND_MW");
	vt_none(cq);
	CHECK(!ibv_destroy_qp(ud) && !ibv_dealloc_mw(mw), "destroy");
}

/* ---- type 1 ---------------------------------------------------------------------------------------------------------- */

static void type_1(void)
{
	struct pair p = pair_of(IBV_QPT_RC), other = pair_of(IBV_QPT_RC);
	struct ibv_mw *mw = window(IBV_MW_TYPE_1);
	uint64_t base = (uintptr_t)target.p + AT;
	uint32_t old = mw->rkey;

	refuses(pair_of(IBV_QPT_RC), IBV_WR_RDMA_WRITE, base, 8, old, "not bound yet");
	bound(p.owner, mw, range(target.mr, AT, ROOM, OPEN));
	opens(p.peer, base, ROOM, mw->rkey, target.p + AT);
	opens(other.peer, base, ROOM, mw->rkey, target.p + AT);		/* by any queue pair of the domain */
	struct ibv_pd *pd = ibv_alloc_pd(t.ctx);
	struct pair foreign = {.peer = queue(IBV_QPT_RC, t.pd), .owner = queue(IBV_QPT_RC, pd)};
	vt_connect_pair(foreign.peer, foreign.owner);
	refuses(foreign, IBV_WR_RDMA_WRITE, base, 8, mw->rkey, "a queue pair of another domain");
	CHECK(!ibv_dealloc_pd(pd), "ibv_dealloc_pd");
	refuses(pair_of(IBV_QPT_RC), IBV_WR_RDMA_WRITE, base - 1, 8, mw->rkey, "before the window");
	refuses(pair_of(IBV_QPT_RC), IBV_WR_RDMA_WRITE, base + ROOM - 7, 8, mw->rkey, "behind the window");
	refuses(pair_of(IBV_QPT_RC), IBV_WR_RDMA_WRITE, base, ROOM + 1, mw->rkey, "longer than the window");
	refuses(pair_of(IBV_QPT_RC), IBV_WR_RDMA_WRITE, base, 8, old, "the R_Key before the bind");
	refuses(pair_of(IBV_QPT_RC), IBV_WR_RDMA_WRITE, base, 8, mw->rkey ^ 0x80, "an R_Key that was not chosen");

	/* bound anew: another range, other rights, another R_Key */
	old = mw->rkey;
	bound(other.owner, mw, range(target.mr, 0, 64, IBV_ACCESS_REMOTE_WRITE));
	refuses(pair_of(IBV_QPT_RC), IBV_WR_RDMA_WRITE, base, 8, old, "bound anew");
	CHECK(remote(p.peer, IBV_WR_RDMA_WRITE, (uintptr_t)target.p, 64, mw->rkey) == IBV_WC_SUCCESS, "the new range");
	refuses(pair_of(IBV_QPT_RC), IBV_WR_RDMA_WRITE, base, 8, mw->rkey, "the old range");
	refuses(pair_of(IBV_QPT_RC), IBV_WR_RDMA_READ, (uintptr_t)target.p, 8, mw->rkey, "no right to read");
	refuses(pair_of(IBV_QPT_RC), IBV_WR_ATOMIC_FETCH_AND_ADD, (uintptr_t)target.p, 8, mw->rkey, "no right to atomics");

	/* the window's R_Key is no L_Key */
	struct pair q = pair_of(IBV_QPT_RC);
	struct ibv_sge sge = {.addr = (uintptr_t)target.p, .length = 8, .lkey = mw->rkey};
	CHECK(!vt_rdma(q.peer, IBV_WR_RDMA_WRITE, 5, sge, base, target.mr->rkey), "post");
	vt_expect(cq, 5, IBV_WC_LOC_PROT_ERR);
	drop(q);

	/* unbound by a bind of no bytes, of no region; twice, which does not matter */
	old = mw->rkey;
	for (int i = 0; i < 2; i++)
		bound(p.owner, mw, (struct ibv_mw_bind_info){.mr = NULL});
	refuses(pair_of(IBV_QPT_RC), IBV_WR_RDMA_WRITE, (uintptr_t)target.p, 8, old, "unbound");
	refuses(pair_of(IBV_QPT_RC), IBV_WR_RDMA_WRITE, (uintptr_t)target.p, 8, mw->rkey, "unbound, its R_Key of now");

	/* not signaled; freed while bound */
	struct ibv_mw_bind b = {.wr_id = 6, .bind_info = range(target.mr, AT, ROOM, OPEN)};
	CHECK(!ibv_bind_mw(p.owner, mw, &b), "unsignaled");
	opens(p.peer, base, ROOM, mw->rkey, target.p + AT);
	vt_none(cq);
	old = mw->rkey;
	CHECK(!ibv_dealloc_mw(mw), "ibv_dealloc_mw");
	refuses(p, IBV_WR_RDMA_WRITE, base, 8, old, "freed");
	drop(other);
}

/* ---- the rules of binding ----------------------------------------------------------------------------------------------- */

static void rules(void)
{
	struct pair p = pair_of(IBV_QPT_RC);
	struct ibv_mr *plain = vt_mr(&t, target.p, LEN, VT_ACCESS);
	struct ibv_mr *read_only = vt_mr(&t, target.p, LEN, IBV_ACCESS_REMOTE_READ | IBV_ACCESS_MW_BIND);
	struct ibv_pd *pd = ibv_alloc_pd(t.ctx);
	struct ibv_mr *foreign = ibv_reg_mr(pd, target.p, LEN, ACCESS), gone;
	struct ibv_mw *mw[3] = {NULL, window(IBV_MW_TYPE_1), window(IBV_MW_TYPE_2)}, *theirs = ibv_alloc_mw(pd, IBV_MW_TYPE_2);

	CHECK(foreign && theirs, "another domain's");
	for (int type = 1; type <= 2; type++) {
		struct ibv_mw *w = mw[type];
		bind_fails(w, range(plain, AT, ROOM, OPEN), "a region without MW_BIND");
		bind_fails(w, range(read_only, AT, ROOM, IBV_ACCESS_REMOTE_WRITE), "remote write without local write");
		bind_fails(w, range(read_only, AT, ROOM, IBV_ACCESS_REMOTE_ATOMIC), "remote atomic without local write");
		bind_fails(w, range(target.mr, LEN - ROOM + 1, ROOM, OPEN), "behind the region");
		bind_fails(w, range(target.mr, (uint64_t)-1, ROOM, OPEN), "before the region");
		bind_fails(w, range(target.mr, 0, LEN + 1, OPEN), "longer than the region");
		bind_fails(w, range(target.mr, 0, UINT64_MAX, OPEN), "around the end of the address space");
		bind_fails(w, range(foreign, AT, ROOM, OPEN), "a region of another domain");
		gone = *read_only;
		gone.lkey ^= 1;
		bind_fails(w, range(&gone, AT, ROOM, IBV_ACCESS_REMOTE_READ), "a key of no region");
	}
	bind_fails(theirs, range(foreign, AT, ROOM, OPEN), "a window of another domain than the queue pair's");
	bind_fails(mw[2], range(target.mr, AT, 0, OPEN), "a window of type 2, of no bytes");
	/* a region that may be read only has a window for reading */
	bound(p.owner, mw[1], range(read_only, AT, ROOM, IBV_ACCESS_REMOTE_READ));
	CHECK(remote(p.peer, IBV_WR_RDMA_READ, (uintptr_t)target.p + AT, 8, mw[1]->rkey) == IBV_WC_SUCCESS, "to read");

	/* refusals of the post call */
	uint32_t next = ibv_inc_rkey(mw[2]->rkey), rkey1 = mw[1]->rkey;
	struct ibv_mw_bind_info good = range(target.mr, AT, ROOM, OPEN), info = good;
	CHECK(bind2(p.owner, mw[2], next ^ 0x100, good, 1, 0) == EINVAL, "an R_Key of another index");
	CHECK(bind2(p.owner, NULL, next, good, 1, 0) == EINVAL, "no window");
	info.mw_access_flags = IBV_ACCESS_ON_DEMAND;
	CHECK(bind2(p.owner, mw[2], next, info, 1, 0) == EINVAL, "access that a window has not");
	info = (struct ibv_mw_bind_info){.mr = NULL, .length = ROOM};
	CHECK(bind2(p.owner, mw[2], next, info, 1, 0) == EINVAL, "bytes of no region");
	info = good;
	info.mw_access_flags |= IBV_ACCESS_ZERO_BASED;
	CHECK(bind1(p.owner, mw[1], info, 1) == EINVAL, "type 1, zero-based");
	CHECK(bind1(p.owner, mw[2], good, 1) == EINVAL, "type 2 by ibv_bind_mw");
	CHECK(bind1(p.owner, mw[1], range(foreign, AT, ROOM, OPEN), 1) == EPERM, "ibv_bind_mw with another domain's region");
	CHECK(mw[1]->rkey == rkey1, "a refused bind has changed the R_Key");
	vt_none(cq);
	CHECK(vt_state(p.owner) == IBV_QPS_RTS, "the queue pair");

	/* flushed by a queue pair in error */
	CHECK(!vt_to(p.owner, IBV_QPS_ERR) && !bind2(p.owner, mw[2], next, good, 8, 0) && !local_inv(p.owner, next, 9, 0),
	      "posts in ERR");
	vt_expect(cq, 8, IBV_WC_WR_FLUSH_ERR);
	vt_expect(cq, 9, IBV_WC_WR_FLUSH_ERR);
	refuses(pair_of(IBV_QPT_RC), IBV_WR_RDMA_WRITE, (uintptr_t)target.p + AT, 8, next, "flushed");
	drop(p);
	CHECK(!ibv_dealloc_mw(mw[1]) && !ibv_dealloc_mw(mw[2]) && !ibv_dealloc_mw(theirs), "ibv_dealloc_mw");
	CHECK(!ibv_dereg_mr(plain) && !ibv_dereg_mr(read_only) && !ibv_dereg_mr(foreign) && !ibv_dealloc_pd(pd), "regions");
}

/* ---- type 2 ---------------------------------------------------------------------------------------------------------- */

static void send_inv(struct ibv_qp *qp, uint32_t rkey, uint64_t id, bool by_wr)
{
	struct ibv_sge sge = vt_sge(source.mr, 0, 16);
	struct ibv_send_wr wr = {.wr_id = id, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND_WITH_INV,
				 .invalidate_rkey = rkey, .send_flags = IBV_SEND_SIGNALED | (id & 1 ? IBV_SEND_INLINE : 0)}, *bad;
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(qp);

	if (!by_wr) {
		CHECK(!ibv_post_send(qp, &wr, &bad), "SEND_WITH_INV");
		return;
	}
	ibv_wr_start(ex);
	ex->wr_id = id;
	ex->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_send_inv(ex, rkey);
	ibv_wr_set_inline_data(ex, source.p, 16);
	CHECK(!ibv_wr_complete(ex), "ibv_wr_send_inv");
}

/* A message that invalidates the window: the receiver's completion has the R_Key. */
static void invalidated_by_message(struct pair p, const struct ibv_mw *mw, uint64_t id, bool by_wr)
{
	bool received = false;

	memset(source.p, 'i', 16);
	memset(target.p, 0, 16);
	CHECK(!vt_recv(p.owner, 30, vt_sge(target.mr, 0, 16)), "receive");
	send_inv(p.peer, mw->rkey, id, by_wr);
	for (int i = 0; i < 2; i++) {
		struct ibv_wc wc = vt_wait(cq);
		CHECK(wc.status == IBV_WC_SUCCESS, "%s", ibv_wc_status_str(wc.status));
		if (wc.wr_id != 30)
			continue;
		received = true;
		CHECK(wc.opcode == IBV_WC_RECV && wc.wc_flags & IBV_WC_WITH_INV && !(wc.wc_flags & IBV_WC_WITH_IMM) &&
			      wc.invalidated_rkey == mw->rkey && wc.byte_len == 16 && !memcmp(target.p, source.p, 16),
		      "the completion");
	}
	CHECK(received, "no receive");
}

/* A message with an R_Key of no window that the message may invalidate. */
static void message_refused(struct pair p, uint32_t rkey, const char *why)
{
	bool rc = p.owner->qp_type == IBV_QPT_RC;

	CHECK(!vt_recv(p.owner, 31, vt_sge(target.mr, 0, 16)), "receive");
	send_inv(p.peer, rkey, 32, false);
	for (int i = 0; i < 2; i++) {
		struct ibv_wc wc = vt_wait(cq);
		enum ibv_wc_status want = wc.wr_id == 31 ? IBV_WC_REM_INV_REQ_ERR : rc ? IBV_WC_REM_ACCESS_ERR : IBV_WC_SUCCESS;
		CHECK(wc.status == want, "%s: %lu %s", why, (unsigned long)wc.wr_id, ibv_wc_status_str(wc.status));
	}
	CHECK(!rc || (vt_state(p.owner) == IBV_QPS_ERR && vt_state(p.peer) == IBV_QPS_ERR), "%s: the queue pairs go on", why);
	drop(p);
}

/* Accesses that a window of type 2 on p.owner does not permit. */
static void not_permitted(struct pair p, struct ibv_mw *mw)
{
	struct pair other = pair_of(IBV_QPT_RC);
	struct ibv_mw *first = window(IBV_MW_TYPE_1);
	uint64_t base = (uintptr_t)target.p + AT;

	refuses(pair_of(IBV_QPT_RC), IBV_WR_RDMA_WRITE, base, 8, mw->rkey, "a queue pair that it is not bound to");
	refuses(pair_of(IBV_QPT_RC), IBV_WR_RDMA_READ, base, 8, mw->rkey, "a queue pair that it is not bound to");
	bind_fails(mw, range(target.mr, 0, ROOM, OPEN), "bound already");
	local_inv_fails(mw->rkey, "LOCAL_INV by another queue pair");
	local_inv_fails(mw->rkey ^ 0x80, "LOCAL_INV of an R_Key that is not the window's");
	local_inv_fails(target.mr->rkey, "LOCAL_INV of a region");
	local_inv_fails(0, "LOCAL_INV of no key");
	bound(other.owner, first, range(target.mr, AT, ROOM, OPEN));
	local_inv_fails(first->rkey, "LOCAL_INV of a window of type 1");
	message_refused(pair_of(IBV_QPT_RC), first->rkey, "a message to invalidate a window of type 1");
	message_refused(pair_of(IBV_QPT_RC), mw->rkey, "a message by another queue pair");
	message_refused(pair_of(IBV_QPT_RC), target.mr->rkey, "a message to invalidate a region");
	opens(p.peer, base, ROOM, mw->rkey, target.p + AT);		/* after all that */
	opens(other.peer, base, ROOM, first->rkey, target.p + AT);
	CHECK(!ibv_dealloc_mw(first), "ibv_dealloc_mw");
	drop(other);
}

static void type_2(enum ibv_qp_type type)
{
	struct pair p = pair_of(type);
	struct ibv_mw *mw = window(IBV_MW_TYPE_2);
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(p.owner);
	uint64_t base = (uintptr_t)target.p + AT;

	bound(p.owner, mw, range(target.mr, AT, ROOM, OPEN));
	opens(p.peer, base, ROOM, mw->rkey, target.p + AT);
	if (type == IBV_QPT_RC)
		not_permitted(p, mw);
	else
		message_refused(pair_of(type), mw->rkey, "a message by another queue pair");
	invalidated(p.owner, mw);
	if (type == IBV_QPT_RC)
		local_inv_fails(mw->rkey, "LOCAL_INV, twice");

	/* zero-based; by ibv_wr_bind_mw, and ended by ibv_wr_local_inv, in one list with a bind before and behind */
	struct ibv_mw_bind_info info = range(target.mr, AT, ROOM, OPEN | IBV_ACCESS_ZERO_BASED | IBV_ACCESS_LOCAL_WRITE);
	uint32_t one = ibv_inc_rkey(mw->rkey), two = ibv_inc_rkey(one);
	ibv_wr_start(ex);
	ex->wr_id = 40;
	ex->wr_flags = 0;
	ibv_wr_bind_mw(ex, mw, one, &info);
	ibv_wr_local_inv(ex, one);
	ex->wr_id = 41;
	ex->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_bind_mw(ex, mw, two, &info);
	CHECK(!ibv_wr_complete(ex), "ibv_wr_complete");
	CHECK(vt_expect(cq, 41, IBV_WC_SUCCESS).opcode == IBV_WC_BIND_MW, "opcode");
	mw->rkey = two;
	opens(p.peer, 0, ROOM, mw->rkey, target.p + AT);
	opens(p.peer, ROOM - 8, 8, mw->rkey, target.p + AT + ROOM - 8);
	ibv_wr_start(ex);
	ibv_wr_bind_mw(ex, mw, two ^ 0x100, &info);
	CHECK(ibv_wr_complete(ex) == EINVAL, "ibv_wr_bind_mw with another index");

	/* by messages: inline or not, by either interface; and bound again */
	for (uint64_t i = 0; i < 4; i++) {
		invalidated_by_message(p, mw, 50 + i, i >= 2);
		bound(p.owner, mw, range(target.mr, AT, ROOM, OPEN));
		opens(p.peer, base, ROOM, mw->rkey, target.p + AT);
	}
	uint32_t old = mw->rkey;
	invalidated_by_message(p, mw, 54, false);
	if (type == IBV_QPT_RC) {
		message_refused(p, old, "a message, twice");
		p = pair_of(type);
	}
	refuses(p, IBV_WR_RDMA_WRITE, base, 8, old, "invalidated by a message");
	CHECK(!ibv_dealloc_mw(mw), "ibv_dealloc_mw");
}

/* ---- regions and queue pairs with windows ------------------------------------------------------------------------- */

static void regions(void)
{
	struct pair p = pair_of(IBV_QPT_RC);
	struct ibv_mr *mr = vt_mr(&t, target.p, LEN, ACCESS);
	struct ibv_mw *mw[2] = {window(IBV_MW_TYPE_1), window(IBV_MW_TYPE_2)};
	uint64_t base = (uintptr_t)target.p + AT;

	for (int i = 0; i < 2; i++) {
		bound(p.owner, mw[i], range(mr, AT, ROOM, OPEN));
		CHECK(ibv_dereg_mr(mr) == EBUSY, "a region with a window is deregistered");
		struct ibv_mw *more = window(IBV_MW_TYPE_1);
		bound(p.owner, more, range(mr, 0, 8, OPEN));
		CHECK(!ibv_dealloc_mw(more), "ibv_dealloc_mw");
		CHECK((errno = 0, ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, VT_ACCESS)) ==
				      IBV_REREG_MR_ERR_INPUT &&
			      errno == EBUSY,
		      "a region with a window is changed");
		/* refused, it is as it was: for peers, and for binds */
		opens(p.peer, base, ROOM, mw[i]->rkey, target.p + AT);
		opens(p.peer, base, ROOM, mr->rkey, target.p + AT);
		more = window(IBV_MW_TYPE_1);
		bound(p.owner, more, range(mr, 0, 8, OPEN));
		CHECK(!ibv_dealloc_mw(more), "ibv_dealloc_mw");
		if (i)
			invalidated(p.owner, mw[i]);
		else
			bound(p.owner, mw[i], (struct ibv_mw_bind_info){.mr = NULL});
	}
	CHECK(!ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, ACCESS), "without windows");
	/* windows of the region are bound elsewhere */
	for (int i = 0; i < 2; i++)
		bound(p.owner, mw[i], range(mr, AT, ROOM, OPEN));
	invalidated(p.owner, mw[1]);
	for (int i = 0; i < 2; i++)
		bound(p.owner, mw[i], range(target.mr, AT, ROOM, OPEN));
	struct ibv_mr was = *mr;
	CHECK(!ibv_dereg_mr(mr), "the windows are bound to another region");
	struct ibv_mw *late = window(IBV_MW_TYPE_2);
	bind_fails(late, range(&was, AT, ROOM, OPEN), "a region that is gone");
	CHECK(!ibv_dealloc_mw(mw[0]) && !ibv_dealloc_mw(mw[1]) && !ibv_dealloc_mw(late), "ibv_dealloc_mw");
	/* the windows' keys: used again for regions, they are regions' */
	for (int i = 0; i < 2000; i++) {
		mr = vt_mr(&t, target.p, LEN, ACCESS);
		CHECK(!ibv_dereg_mr(mr), "ibv_dereg_mr");
	}
	drop(p);
}

/* Another queue pair gets the number of one that is gone, with a window. */
static void number_used_again(void)
{
	struct pair p = pair_of(IBV_QPT_RC);
	struct ibv_mw *mw = window(IBV_MW_TYPE_2);
	struct ibv_mr *mr = vt_mr(&t, target.p, LEN, ACCESS);
	uint32_t number = p.owner->qp_num;

	bound(p.owner, mw, range(mr, AT, ROOM, OPEN));
	drop(p);
	CHECK(!ibv_dereg_mr(mr), "the window went with its queue pair");
	mr = vt_mr(&t, target.p, LEN, ACCESS);
	struct ibv_qp *to = vt_qp(&t, IBV_QPT_RC, cq, NULL), *from = vt_qp(&t, IBV_QPT_RC, cq, NULL);
	for (int i = 0; to->qp_num != number; i++) {
		CHECK(i < 100000, "the number does not come back");
		CHECK(!ibv_destroy_qp(to), "destroy");
		to = vt_qp(&t, IBV_QPT_RC, cq, NULL);
	}
	vt_connect_pair(from, to);
	refuses((struct pair){.peer = from, .owner = to}, IBV_WR_RDMA_WRITE, (uintptr_t)target.p + AT, 8, mw->rkey,
		"the number, used again");
	CHECK(!ibv_dealloc_mw(mw) && !ibv_dereg_mr(mr), "destroy");
}

/* A queue that is connected with another queue must not use the cached rkey of a window, nor of a region. */
static void connected_anew(void)
{
	struct pair p = pair_of(IBV_QPT_RC);
	struct ibv_pd *pd = ibv_alloc_pd(t.ctx);
	struct ibv_qp *second = queue(IBV_QPT_RC, t.pd), *third = queue(IBV_QPT_RC, pd);
	struct ibv_mw *mw = window(IBV_MW_TYPE_2);
	struct ibv_sge sge = {.addr = (uintptr_t)source.p, .length = 8};
	struct ibv_send_wr wr = {.wr_id = 75, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
				 .send_flags = IBV_SEND_INLINE}, *bad;
	struct ibv_qp *to[] = {second, third};

	bound(p.owner, mw, range(target.mr, AT, ROOM, OPEN));
	for (int i = 0; i < 2; i++) {
		wr.wr.rdma.remote_addr = (uintptr_t)target.p + AT;
		wr.wr.rdma.rkey = i ? target.mr->rkey : mw->rkey;
		for (int k = 0; k < 3; k++) {
			source.p[0] = (char)('a' + k);
			CHECK(!ibv_post_send(p.peer, &wr, &bad) && target.p[AT] == source.p[0], "inline");
		}
		vt_connect(to[i], p.peer->qp_num);
		CHECK(!vt_to(p.peer, IBV_QPS_RESET), "RESET");
		vt_connect(p.peer, to[i]->qp_num);
		source.p[0] = 'z';
		CHECK(!ibv_post_send(p.peer, &wr, &bad), "inline");
		CHECK(vt_wait(cq).status == IBV_WC_REM_ACCESS_ERR && target.p[AT] != 'z', "a %s", i ? "region" : "window");
		CHECK(!vt_to(p.peer, IBV_QPS_RESET), "RESET");
		vt_connect(p.peer, p.owner->qp_num);
	}
	CHECK(!ibv_destroy_qp(second) && !ibv_destroy_qp(third) && !ibv_dealloc_pd(pd) && !ibv_dealloc_mw(mw), "destroy");
	drop(p);
}

/* The short way of inline writes ends with the window, whichever way that ends. */
static void fast_writes(void)
{
	struct ibv_mw *mw = window(IBV_MW_TYPE_2);
	struct ibv_sge sge = {.addr = (uintptr_t)source.p, .length = 8};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_INLINE}, *bad;

	for (int way = 0; way < 3; way++) {
		struct pair p = pair_of(IBV_QPT_RC);
		bound(p.owner, mw, range(target.mr, AT, ROOM, OPEN));
		wr.wr.rdma.remote_addr = (uintptr_t)target.p + AT;
		wr.wr.rdma.rkey = mw->rkey;
		for (int k = 0; k < 3; k++) {
			source.p[0] = (char)('a' + k);
			CHECK(!ibv_post_send(p.peer, &wr, &bad) && target.p[AT] == source.p[0], "inline");
		}
		if (way == 0) {
			invalidated(p.owner, mw);
		} else if (way == 1) {
			invalidated_by_message(p, mw, 60, false);
		} else {
			CHECK(!ibv_dealloc_mw(mw), "ibv_dealloc_mw");
			mw = NULL;
		}
		source.p[0] = 'z';
		CHECK(!ibv_post_send(p.peer, &wr, &bad), "inline");
		CHECK(vt_wait(cq).status == IBV_WC_REM_ACCESS_ERR && target.p[AT] != 'z', "ended by way %d", way);
		drop(p);
	}
}

/* Windows in regions of other sorts. */
static void other_regions(void)
{
	struct pair p = pair_of(IBV_QPT_RC);
	struct ibv_mr *all = ibv_reg_mr(t.pd, NULL, SIZE_MAX, ACCESS | IBV_ACCESS_ON_DEMAND);
	struct ibv_mr *moved = ibv_reg_mr_iova(t.pd, target.p, LEN, 0x10000, ACCESS);
	struct ibv_mw *mw = window(IBV_MW_TYPE_2);
	struct ibv_mw_bind_info info = {.mr = all, .addr = (uintptr_t)target.p + AT, .length = ROOM, .mw_access_flags = OPEN};

	CHECK(all && moved, "regions");
	bound(p.owner, mw, info);
	opens(p.peer, info.addr, ROOM, mw->rkey, target.p + AT);
	invalidated(p.owner, mw);
	info.mr = moved;
	info.addr = 0x10000 + AT;
	bound(p.owner, mw, info);
	opens(p.peer, info.addr, ROOM, mw->rkey, target.p + AT);
	CHECK(ibv_dereg_mr(moved) == EBUSY && !ibv_dereg_mr(all) && !ibv_dealloc_mw(mw) && !ibv_dereg_mr(moved), "destroy");
	drop(p);
}

/* ---- two processes ------------------------------------------------------------------------------------------------------ */

struct card {
	uint32_t qpn[2], rkey[2];
	uint64_t addr;
};

static void owner(struct vt_peer *peer)
{
	t = vt_open();
	cq = vt_cq(&t, 64, NULL);
	target.p = shca_alloc(t.ctx, LEN);
	CHECK(target.p, "memory");
	target.mr = vt_mr(&t, target.p, LEN, ACCESS);
	struct ibv_pd *pd = ibv_alloc_pd(t.ctx);
	struct ibv_qp *qp = queue(IBV_QPT_RC, t.pd), *other = queue(IBV_QPT_RC, pd);
	struct ibv_mw *mw[2] = {window(IBV_MW_TYPE_1), window(IBV_MW_TYPE_2)};
	struct card mine = {.qpn = {qp->qp_num, other->qp_num}, .addr = (uintptr_t)target.p + AT}, theirs;

	vt_tell(peer, &mine, sizeof mine);
	vt_hear(peer, &theirs, sizeof theirs);
	vt_connect(qp, theirs.qpn[0]);
	vt_connect(other, theirs.qpn[0]);
	for (int i = 0; i < 2; i++) {
		bound(qp, mw[i], range(target.mr, AT, ROOM, OPEN));
		mine.rkey[i] = mw[i]->rkey;
	}
	vt_tell(peer, &mine, sizeof mine);
	vt_meet(peer);
	CHECK(target.p[AT] == 'w', "written");
	/* ended while the peer writes */
	target.p[AT] = 0;
	vt_tell(peer, &mine, sizeof mine);
	while (!*(volatile char *)&target.p[AT])
		sched_yield();
	invalidated(qp, mw[1]);
	memset(target.p, 0, LEN);
	vt_meet(peer);
	for (int i = 0; i < (int)LEN; i++)
		CHECK(!target.p[i], "byte %d was written behind the completion of LOCAL_INV", i);
	vt_meet(peer);
	pause();
}

static void two_processes(void)
{
	struct vt_peer peer = vt_fork();

	if (!peer.child) {
		owner(&peer);
		exit(0);
	}
	t = vt_open();
	cq = vt_cq(&t, 64, NULL);
	source.p = shca_alloc(t.ctx, LEN);
	CHECK(source.p, "memory");
	source.mr = vt_mr(&t, source.p, LEN, ACCESS);
	struct ibv_qp *qp = queue(IBV_QPT_RC, t.pd);
	struct card mine = {.qpn = {qp->qp_num}}, theirs;
	vt_hear(&peer, &theirs, sizeof theirs);
	vt_tell(&peer, &mine, sizeof mine);
	vt_connect(qp, theirs.qpn[0]);
	vt_hear(&peer, &theirs, sizeof theirs);
	memset(source.p, 'w', LEN);
	for (int i = 0; i < 2; i++)
		CHECK(remote(qp, IBV_WR_RDMA_WRITE, theirs.addr, ROOM, theirs.rkey[i]) == IBV_WC_SUCCESS, "window of type %d",
		      i + 1);
	/* the queue has looked both up; then the queue gets another responder, of another domain, and back */
	for (int i = 0; i < 2; i++) {
		CHECK(!vt_to(qp, IBV_QPS_RESET), "RESET");
		vt_connect(qp, theirs.qpn[1]);
		memset(source.p, 'x', ROOM);
		enum ibv_wc_status refused = remote(qp, IBV_WR_RDMA_WRITE, theirs.addr, ROOM, theirs.rkey[i]);
		CHECK(refused == (i ? IBV_WC_RETRY_EXC_ERR : IBV_WC_REM_ACCESS_ERR), "by another responder: %s",
		      ibv_wc_status_str(refused));
		CHECK(!vt_to(qp, IBV_QPS_RESET), "RESET");
		vt_connect(qp, theirs.qpn[0]);
	}
	memset(source.p, 'w', LEN);
	vt_meet(&peer);
	vt_hear(&peer, &theirs, sizeof theirs);
	enum ibv_wc_status s;
	do
		s = remote(qp, IBV_WR_RDMA_WRITE, theirs.addr, ROOM, theirs.rkey[1]);
	while (s == IBV_WC_SUCCESS);
	CHECK(s == IBV_WC_REM_ACCESS_ERR, "ended: %s", ibv_wc_status_str(s));
	vt_meet(&peer);
	vt_meet(&peer);
	/* windows go with their process; keys of a dead process lead nowhere */
	CHECK(!kill(peer.child, SIGKILL) && waitpid(peer.child, NULL, 0) == peer.child, "kill");
	CHECK(!vt_to(qp, IBV_QPS_RESET), "RESET");
	vt_connect(qp, theirs.qpn[0]);
	s = remote(qp, IBV_WR_RDMA_WRITE, theirs.addr, 8, theirs.rkey[0]);
	CHECK(s == IBV_WC_RETRY_EXC_ERR, "the owner has died: %s", ibv_wc_status_str(s));
	struct ibv_qp *to = queue(IBV_QPT_RC, t.pd);
	CHECK(!vt_to(qp, IBV_QPS_RESET), "RESET");
	vt_connect_pair(qp, to);
	s = remote(qp, IBV_WR_RDMA_WRITE, theirs.addr, 8, theirs.rkey[0]);
	CHECK(s == IBV_WC_REM_ACCESS_ERR, "its R_Key here: %s", ibv_wc_status_str(s));
	CHECK(!ibv_destroy_qp(qp) && !ibv_destroy_qp(to) && !ibv_dereg_mr(source.mr) && !ibv_destroy_cq(cq) &&
		      !shca_free(t.ctx, source.p),
	      "destroy");
	vt_close(&t);
}

/* A context that is closed with windows that are bound. */
static void closed(void)
{
	struct vt keep = vt_open();
	struct pair p = pair_of(IBV_QPT_RC);
	struct ibv_mw *mw = window(IBV_MW_TYPE_2);

	bound(p.owner, mw, range(target.mr, AT, ROOM, OPEN));
	bound(p.owner, window(IBV_MW_TYPE_1), range(target.mr, AT, ROOM, OPEN));
	CHECK(!ibv_close_device(t.ctx), "ibv_close_device");
	vt_close(&keep);
}

int main(void)
{
	vt_fabric();
	two_processes();
	for (int private = 0; private < 2; private++) {
		t = vt_open();
		cq = vt_cq(&t, 256, NULL);
		memory_make(&target, private, LEN, ACCESS);
		memory_make(&source, private, LEN, ACCESS);
		capabilities();
		other_queues();
		type_1();
		rules();
		type_2(IBV_QPT_RC);
		type_2(IBV_QPT_UC);
		regions();
		number_used_again();
		connected_anew();
		fast_writes();
		other_regions();
		vt_none(cq);
		closed();
	}
	return 0;
}
