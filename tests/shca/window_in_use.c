/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A memory window, or an indirect memory key, ends while a peer's thread is inside the memory by it: the request that ends it, or
 * the call that frees it, completes when that thread has left. A region is deregistered while a request binds a window to it. And
 * a bind that has waited until its window was freed changes nothing.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "hold.h"

#define LEN 256u
#define OPEN (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)

static struct ibv_qp *qp, *peer;		/* a's, b's */
static struct ibv_qp *key_qp, *key_peer; /* another pair, by which an indirect memory key is used */
static struct ibv_cq *cq, *peer_cq;
static struct ibv_mr *mr, *peer_mr;
static char *memory, *data;
static struct ibv_mw *mw;
static _Atomic uint32_t returned;

static struct ibv_qp *queue(struct rig *r, struct ibv_cq *both, uint32_t flags)
{
	struct rig_qp_attr at = {
		.type = IBV_QPT_RC, .exp_flags = flags, .scq = both, .rcq = both, .send_wr = 16, .recv_wr = 4, .sge = 1};
	struct ibv_qp *q = rig_qp(r, &at);

	rig_init(q);
	return q;
}

static void pair(enum ibv_mw_type type)
{
	unsigned access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND | IBV_ACCESS_REMOTE_WRITE;

	cq = rig_cq(&a, 16, NULL);
	peer_cq = rig_cq(&b, 16, NULL);
	qp = queue(&a, cq, 0);
	peer = queue(&b, peer_cq, 0);
	memory = shca_buf_alloc(a.ctx, LEN);
	data = shca_buf_alloc(b.ctx, LEN);
	CHECK(memory && data);
	memset(memory, 0, LEN);
	memset(data, 7, LEN);
	mr = shca_reg_mr(a.pd, memory, LEN, (uintptr_t)memory, access);
	peer_mr = shca_reg_mr(b.pd, data, LEN, (uintptr_t)data, access);
	mw = shca_alloc_mw(a.pd, type);
	CHECK(mr && peer_mr && mw);
	connect_both(qp, peer);
}

static void no_pair(void)
{
	CHECK(!shca_destroy_qp(qp) && !shca_destroy_qp(peer) && !shca_destroy_cq(cq) && !shca_destroy_cq(peer_cq));
	CHECK((!mw || !shca_dealloc_mw(mw)) && (!mr || !shca_dereg_mr(mr)) && !shca_dereg_mr(peer_mr));
	CHECK(!shca_buf_free(a.ctx, memory) && !shca_buf_free(b.ctx, data));
}

static void post_bind(struct ibv_qp *q, const struct ibv_mr *to)
{
	struct ibv_send_wr wr = {.opcode = IBV_WR_BIND_MW, .send_flags = IBV_SEND_SIGNALED,
				 .bind_mw = {.mw = mw, .rkey = ibv_inc_rkey(mw->rkey),
					     .bind_info = {.mr = (struct ibv_mr *)to, .addr = (uintptr_t)memory, .length = LEN,
							   .mw_access_flags = OPEN}}}, *bad;

	CHECK(!shca_post_send(q, &wr, &bad));
	mw->rkey = wr.bind_mw.rkey;
}

static void post_inv(void)
{
	struct ibv_send_wr wr = {.opcode = IBV_WR_LOCAL_INV, .send_flags = IBV_SEND_SIGNALED, .invalidate_rkey = mw->rkey}, *bad;

	CHECK(!shca_post_send(qp, &wr, &bad));
}

/* b writes through the window. */
static void *writes(void *rkey)
{
	struct ibv_sge sge = {(uintptr_t)data, LEN, peer_mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
				 .send_flags = IBV_SEND_SIGNALED,
					 .wr.rdma = {.remote_addr = (uintptr_t)memory, .rkey = *(uint32_t *)rkey}}, *bad;

	CHECK(!shca_post_send(peer, &wr, &bad));
	return NULL;
}

static void receive(void)
{
	struct ibv_recv_wr wr = {.wr_id = 9}, *bad;

	CHECK(!shca_post_recv(qp, &wr, &bad));
}

static void nothing_completes(const char *what)
{
	struct ibv_wc wc;

	/* longer than the first times at which the request is looked at again */
	for (int i = 0; i < 60; i++, rig_nap())
		if (shca_poll_cq(cq, 1, &wc))
			FAIL("%s completes while a thread is inside the memory by it: %s", what, ibv_wc_status_str(wc.status));
}

/* The next completion of a, but for b's message. */
static void completes(const char *what)
{
	struct ibv_wc wc;

	do
		for (int i = 0; shca_poll_cq(cq, 1, &wc) != 1; i++, rig_nap())
			if (i > 20000)
				FAIL("%s does not complete", what);
	while (wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM);
	if (wc.status != IBV_WC_SUCCESS)
		FAIL("%s: %s", what, ibv_wc_status_str(wc.status));
}

static pthread_t write_held(uint32_t *rkey)
{
	receive();
	*rkey = mw->rkey;
	hold_at(&b, "data");
	pthread_t writer = begin(writes, rkey);
	rig_await(&hold.held, 1);
	return writer;
}

static void ends(enum ibv_mw_type type)
{
	const char *what = type == IBV_MW_TYPE_1 ? "a bind of a window that is bound" : "LOCAL_INV";
	uint32_t rkey;

	pair(type);
	post_bind(qp, mr);
	completes("the first bind");
	uint64_t unanswered = atomic_load(&shca_port_of(a.m, 1)->hw[SHCA_HW_NO_ANSWER]);
	pthread_t writer = write_held(&rkey);
	if (type == IBV_MW_TYPE_1)
		post_bind(qp, mr);
	else
		post_inv();
	nothing_completes(what);
	/* no other thread gets in meanwhile */
	CHECK(!shca_window_find(a.m, rkey, rig_sh(qp)->pd, qp->qp_num, 0));
	let_go();
	completes(what);
	if (atomic_load(&shca_port_of(a.m, 1)->hw[SHCA_HW_NO_ANSWER]) != unanswered)
		FAIL("%s counts as a request without an answer", what);
	for (uint32_t i = 0; i < LEN; i++)
		if (memory[i] != 7)
			FAIL("%s has completed, and byte %u is still to be written", what, i);
	joined(writer);
	CHECK(completion(peer_cq) == IBV_WC_SUCCESS);
	no_pair();
}

/* c's queue, which writes by the key. */
static struct ibv_cq *key_cq;
static char *key_data;
static struct ibv_mr *key_data_mr;

static void key_pair(void)
{
	key_cq = rig_cq(&c, 16, NULL);
	key_qp = queue(&a, cq, IBV_EXP_QP_CREATE_UMR);
	key_peer = queue(&c, key_cq, 0);
	key_data = shca_buf_alloc(c.ctx, LEN);
	CHECK(key_data);
	memset(key_data, 7, LEN);
	key_data_mr = shca_reg_mr(c.pd, key_data, LEN, (uintptr_t)key_data, IBV_ACCESS_LOCAL_WRITE);
	CHECK(key_data_mr);
	connect_both(key_qp, key_peer);
}

static void *writes_by_key(void *arg)
{
	struct ibv_sge sge = {(uintptr_t)key_data, LEN, key_data_mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_RDMA_WRITE,
				 .send_flags = IBV_SEND_SIGNALED,
				 .wr.rdma = {.rkey = *(uint32_t *)arg}},
			   *bad;

	CHECK(!shca_post_send(key_peer, &wr, &bad));
	return NULL;
}

/* An indirect memory key ends by a message of b's while a thread of c is inside the memory by it. The receive lies in the key,
 * too: the message is not copied again when the request is tried anew. */
static void key_ended_by_message(void)
{
	struct ibv_exp_mem_region region = {.base_addr = (uintptr_t)memory, .length = LEN};
	struct ibv_exp_send_wr fill = {.exp_opcode = IBV_EXP_WR_UMR_FILL,
				       .exp_send_flags = IBV_EXP_SEND_SIGNALED | IBV_EXP_SEND_INLINE},
			       *bad_fill;
	struct ibv_recv_wr *bad_recv;

	pair(IBV_MW_TYPE_2);
	key_pair();
	struct shca_user_mr *key = shca_mkey_alloc(a.pd, 1, true, "key");
	CHECK(key);
	region.base_addr = (uintptr_t)memory;
	region.mr = mr;
	fill.ext_op.umr.exp_access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
	fill.ext_op.umr.modified_mr = &key->mr;
	fill.ext_op.umr.num_mrs = 1;
	fill.ext_op.umr.mem_list.mem_reg_list = &region;
	CHECK(!shca_exp_post_send(key_qp, &fill, &bad_fill));
	completes("UMR_FILL");
	uint32_t rkey = key->mr.rkey;
	hold_at(&c, "key-walk");
	pthread_t writer = begin(writes_by_key, &rkey);
	rig_await(&hold.held, 1);
	struct ibv_sge to = {0, 8, key->mr.lkey};
	struct ibv_recv_wr recv = {.wr_id = 9, .sg_list = &to, .num_sge = 1};
	struct ibv_sge from = {(uintptr_t)data, 8, peer_mr->lkey};
	struct ibv_send_wr send = {.wr_id = 10,
				   .sg_list = &from,
				   .num_sge = 1,
				   .opcode = IBV_WR_SEND_WITH_INV,
				   .send_flags = IBV_SEND_SIGNALED,
				   .invalidate_rkey = rkey},
			   *bad;
	CHECK(!shca_post_recv(qp, &recv, &bad_recv) && !shca_post_send(peer, &send, &bad));
	nothing_completes("a message that invalidates a key");
	CHECK(!shca_window_find(a.m, rkey, rig_sh(qp)->pd, qp->qp_num, 0));
	let_go();
	completes("a message that invalidates a key");
	for (uint32_t i = 0; i < LEN; i++)
		if (memory[i] != 7)
			FAIL("the key has ended, and byte %u is still to be written", i);
	joined(writer);
	CHECK(completion(peer_cq) == IBV_WC_SUCCESS && completion(key_cq) == IBV_WC_SUCCESS);
	CHECK(!shca_destroy_qp(key_qp) && !shca_destroy_qp(key_peer) && !shca_destroy_cq(key_cq) && !shca_mkey_free(key) &&
	      !shca_dereg_mr(key_data_mr) && !shca_buf_free(c.ctx, key_data));
	no_pair();
}

static void *frees(void *arg)
{
	(void)arg;
	CHECK(!shca_dealloc_mw(mw));
	atomic_store(&returned, 1);
	return NULL;
}

static void freed(void)
{
	uint32_t rkey;

	pair(IBV_MW_TYPE_2);
	post_bind(qp, mr);
	completes("the bind");
	pthread_t writer = write_held(&rkey);
	atomic_store(&returned, 0);
	pthread_t other = begin(frees, NULL);
	for (int i = 0; i < 60; i++, rig_nap())
		if (atomic_load(&returned))
			FAIL("a window is freed while a thread is inside the memory by it");
	let_go();
	joined(other);
	joined(writer);
	CHECK(completion(peer_cq) == IBV_WC_SUCCESS);
	mw = NULL;
	no_pair();
}

static void *binds(void *arg)
{
	(void)arg;
	post_bind(qp, mr);
	return NULL;
}

/* A request is binding the window. */
static void freed_meanwhile(void)
{
	pair(IBV_MW_TYPE_2);
	uint32_t index = mw->rkey >> 8;
	hold_at(&a, "bind");
	pthread_t binder = begin(binds, NULL);
	rig_await(&hold.held, 1);
	atomic_store(&returned, 0);
	pthread_t other = begin(frees, NULL);
	for (int i = 0; i < 60; i++, rig_nap())
		if (atomic_load(&returned))
			FAIL("a window is freed while it is being bound");
	let_go();
	joined(other);
	joined(binder);
	completes("the bind");
	struct shca_mr *sh = shca_mr_entry(a.m, index);
	CHECK(!atomic_load(&sh->bound) && !atomic_load(&sh->window));
	mw = NULL;
	no_pair();
}

static void *deregisters(void *arg)
{
	*(int *)arg = shca_dereg_mr(mr);
	atomic_store(&returned, 1);
	return NULL;
}

/* The request has looked at the region; the window is bound when the call looks. */
static void bound_meanwhile(void)
{
	int err = 0;

	pair(IBV_MW_TYPE_2);
	hold_at(&a, "bind");
	pthread_t binder = begin(binds, NULL);
	rig_await(&hold.held, 1);
	atomic_store(&returned, 0);
	pthread_t other = begin(deregisters, &err);
	for (int i = 0; i < 60; i++, rig_nap())
		if (atomic_load(&returned))
			FAIL("a region is deregistered while a window is being bound to it: %s", strerror(err));
	let_go();
	joined(other);
	joined(binder);
	CHECK(err == EBUSY);
	completes("the bind");
	no_pair();
}

/* The bind waits for a completion; meanwhile the window is freed, and a region has its entry. */
static void freed_before(void)
{
	struct ibv_exp_send_wr wait = {.exp_opcode = IBV_EXP_WR_CQE_WAIT}, *bad;
	struct ibv_mr *r = NULL;

	pair(IBV_MW_TYPE_2);
	struct ibv_cq *waited = rig_cq(&a, 4, NULL);
	struct ibv_qp *t = queue(&a, cq, IBV_EXP_QP_CREATE_CROSS_CHANNEL), *to = queue(&b, peer_cq, 0), *u = queue(&a, waited, 0);
	connect_both(t, to);
	uint32_t index = mw->rkey >> 8;
	wait.task.cqe_wait.cq = waited;
	wait.task.cqe_wait.cq_count = 1;
	CHECK(!shca_exp_post_send(t, &wait, &bad));
	post_bind(t, mr);
	CHECK(!shca_dealloc_mw(mw));
	mw = NULL;
	/* entries are used again first in, first out */
	for (int i = 0; i < 2000 && (!r || r->rkey >> 8 != index); i++) {
		CHECK(!r || !shca_dereg_mr(r));
		r = shca_reg_mr(a.pd, memory, 8, (uintptr_t)memory, IBV_ACCESS_LOCAL_WRITE);
		CHECK(r);
	}
	CHECK(r->rkey >> 8 == index);
	struct ibv_qp_attr err = {.qp_state = IBV_QPS_ERR};
	struct ibv_recv_wr wr = {.wr_id = 1}, *rbad;
	CHECK(!shca_post_recv(u, &wr, &rbad) && !shca_modify_qp(u, &err, IBV_QP_STATE));		/* a completion */
	CHECK(completion(cq) == IBV_WC_MW_BIND_ERR);
	struct shca_mr *sh = shca_mr_entry(a.m, index);
	CHECK(atomic_load(&sh->key) == r->rkey && !atomic_load(&sh->bound) && sh->length == 8 &&
	      sh->access == IBV_ACCESS_LOCAL_WRITE);
	CHECK(!shca_destroy_qp(t) && !shca_destroy_qp(to) && !shca_destroy_qp(u) && !shca_destroy_cq(waited) &&
	      !shca_dereg_mr(r));
	no_pair();
}

static void *destroys(void *q)
{
	CHECK(!shca_destroy_qp(q));
	return NULL;
}

/* The call that destroys a queue pair looks at a window that was bound there once; meanwhile the window
 * is bound on another one. */
static void bound_elsewhere(void)
{
	pair(IBV_MW_TYPE_2);
	struct ibv_qp *first = queue(&a, cq, 0), *to = queue(&b, peer_cq, 0);

	connect_both(first, to);
	post_bind(first, mr);
	completes("the first bind");
	struct ibv_send_wr inv = {.opcode = IBV_WR_LOCAL_INV, .send_flags = IBV_SEND_SIGNALED, .invalidate_rkey = mw->rkey}, *bad;
	CHECK(!shca_post_send(first, &inv, &bad));
	completes("LOCAL_INV");
	hold_at(&a, "windows-end");
	pthread_t other = begin(destroys, first);
	rig_await(&hold.held, 1);
	post_bind(qp, mr);
	completes("the second bind");
	let_go();
	joined(other);
	if (!shca_window_find(a.m, mw->rkey, rig_sh(qp)->pd, qp->qp_num, 0))
		FAIL("a window has ended that was bound on another queue pair");
	CHECK(!shca_destroy_qp(to));
	no_pair();
}

int main(void)
{
	alarm(120);
	set_up();
	ends(IBV_MW_TYPE_2);
	ends(IBV_MW_TYPE_1);
	key_ended_by_message();
	freed();
	bound_meanwhile();
	freed_meanwhile();
	freed_before();
	bound_elsewhere();
	rig_virtual_leave(&c);
	rig_virtual_leave(&b);
	rig_virtual_leave(&a);
	return 0;
}
