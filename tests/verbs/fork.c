/* SPDX-License-Identifier: BSD-3-Clause */
/* A forked child does not have the fabric: inherited objects refuse work, and the child may open the device for itself. A
 * program that closes the device without destroying anything leaves nothing behind for its peers. */
#include <infiniband/mlx5dv.h>
#include <infiniband/verbs_exp.h>

#include "vt.h"

static char buf[4096];

/* The test closes the device before its objects: leaked handles are expected. */
__attribute__((visibility("default"))) int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void)
{
	return 1;
}

static void child_refuses(struct vt *t, struct ibv_cq *cq, struct ibv_qp *qp, struct ibv_mr *mr, struct ibv_srq *srq,
			  struct ibv_qp *ex, struct ibv_cq_ex *cqx, struct ibv_dm *dm)
{
	CHECK(!ibv_alloc_pd(t->ctx) && errno == ENODEV, "alloc_pd");
	CHECK(!ibv_reg_mr(t->pd, buf, sizeof buf, IBV_ACCESS_LOCAL_WRITE) && errno == ENODEV, "reg_mr");
	CHECK(!ibv_create_cq(t->ctx, 8, NULL, NULL, 0) && errno == ENODEV, "create_cq");
	CHECK(vt_to(qp, IBV_QPS_ERR) == ENODEV, "modify_qp");
	struct ibv_wc wc = { .wc_flags = IBV_WC_GRH };
	struct ibv_grh grh = { .hop_limit = 1 };
	struct ibv_ah_attr at;
	CHECK(ibv_init_ah_from_wc(t->ctx, 1, &wc, &grh, &at) == -1 && errno == ENODEV, "init_ah_from_wc");
	CHECK(!ibv_create_ah_from_wc(t->pd, &wc, &grh, 1) && errno == ENODEV, "create_ah_from_wc");
	struct ibv_srq_attr sa;
	struct ibv_td_init_attr ta = { .comp_mask = 0 };
	struct ibv_parent_domain_init_attr pa = { .pd = t->pd };
	CHECK(ibv_query_srq(srq, &sa) == ENODEV, "query_srq");
	CHECK(!ibv_alloc_td(t->ctx, &ta) && errno == ENODEV, "alloc_td");
	CHECK(!ibv_alloc_parent_domain(t->ctx, &pa) && errno == ENODEV, "alloc_parent_domain");
	CHECK(!ibv_query_qp_data_in_order(qp, IBV_WR_RDMA_WRITE, 0), "query_qp_data_in_order");
	uint32_t seen = 0;
	CHECK(shca_await_prepare(t->ctx, &seen) == ENODEV && shca_await(t->ctx, seen, 1) == ENODEV &&
		      shca_await_wake(t->ctx) == ENODEV,
	      "shca_await");
	shca_await_cancel(t->ctx);
	uint32_t word = 1;
	CHECK(ibv_memcpy_to_dm(dm, 0, &word, 4) == ENODEV && ibv_memcpy_from_dm(&word, dm, 0, 4) == ENODEV, "memcpy_dm");
	struct ibv_sge advised = vt_sge(mr, 0, 8);
	CHECK(ibv_advise_mr(t->pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &advised, 1) == ENODEV, "advise_mr");
	struct ibv_exp_cq_attr ca = { .comp_mask = IBV_EXP_CQ_ATTR_CQ_CAP_FLAGS };
	CHECK(ibv_exp_modify_cq(cq, &ca, IBV_EXP_CQ_CAP_FLAGS) == ENODEV, "exp_modify_cq");
	struct ibv_sge sge = vt_sge(mr, 0, 8);
	struct ibv_send_wr sw = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND }, *bad_send = NULL;
	struct ibv_recv_wr rw = { .sg_list = &sge, .num_sge = 1 }, *bad_recv = NULL;
	CHECK(ibv_post_send(qp, &sw, &bad_send) == ENODEV && bad_send == &sw, "post_send");
	CHECK(ibv_post_recv(qp, &rw, &bad_recv) == ENODEV && bad_recv == &rw, "post_recv");
	bad_recv = NULL;
	CHECK(ibv_post_srq_recv(srq, &rw, &bad_recv) == ENODEV && bad_recv == &rw, "post_srq_recv");
	CHECK(ibv_poll_cq(cq, 1, &wc) < 0 && ibv_req_notify_cq(cq, 0) == ENODEV, "poll_cq, req_notify_cq");
	struct ibv_qp_ex *x = ibv_qp_to_qp_ex(ex);
	for (int n = 0; n < 2; n++) {
		ibv_wr_start(x);
		ibv_wr_rdma_write(x, mr->rkey, (uintptr_t)buf);
		ibv_wr_set_sge(x, mr->lkey, (uintptr_t)buf, 8);
		ibv_wr_send(x);
		ibv_wr_set_inline_data(x, buf, 8);
		CHECK(ibv_wr_complete(x) == ENODEV, "wr_complete");
		ibv_wr_start(x);
		ibv_wr_abort(x);
	}
	struct ibv_poll_cq_attr pq = { .comp_mask = 0 };
	CHECK(ibv_start_poll(cqx, &pq) == ENODEV, "start_poll");
	CHECK(!ibv_destroy_qp(ex) && !ibv_destroy_cq(ibv_cq_ex_to_cq(cqx)), "destroy");
	/* taking things down is harmless */
	CHECK(!ibv_destroy_qp(qp) && !ibv_destroy_srq(srq) && !ibv_destroy_cq(cq) && !ibv_dereg_mr(mr), "destroy");
	CHECK(!ibv_dealloc_pd(t->pd) && !ibv_close_device(t->ctx), "close");

	struct vt own = vt_open();
	struct ibv_cq *own_cq = vt_cq(&own, 16, NULL);
	struct ibv_qp *a = vt_qp(&own, IBV_QPT_RC, own_cq, NULL), *b = vt_qp(&own, IBV_QPT_RC, own_cq, NULL);
	struct ibv_mr *own_mr = vt_mr(&own, buf, sizeof buf, VT_ACCESS);
	vt_connect_pair(a, b);
	CHECK(!vt_recv(b, 1, vt_sge(own_mr, 0, 8)) && !vt_send(a, 2, vt_sge(own_mr, 8, 8), 0), "post");
	vt_expect(own_cq, 1, IBV_WC_SUCCESS);
}

static void still_works(struct vt *t, struct ibv_cq *cq, struct ibv_qp *qp, struct ibv_mr *mr)
{
	CHECK(!vt_recv(qp, 1, vt_sge(mr, 0, 8)) && !vt_send(qp, 2, vt_sge(mr, 8, 8), 0), "post");
	vt_expect(cq, 1, IBV_WC_SUCCESS);
}

/* Indirect memory keys and windows, on the device as a ConnectX: the child of a fork neither configures nor binds any. */
static void keys_and_windows(void)
{
	CHECK(!setenv("SHCA_IDENTITY", "connectx", 1), "setenv");
	struct vt t = vt_open();
	struct ibv_cq *cq = vt_cq(&t, 16, NULL);
	struct ibv_mr *mr = vt_mr(&t, buf, sizeof buf, VT_ACCESS | IBV_ACCESS_MW_BIND);
	struct ibv_qp_init_attr_ex xa = {
		.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC, .pd = t.pd,
		.send_ops_flags = IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_LOCAL_INV,
		.cap = { .max_send_wr = 8, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 64 },
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
	};
	struct mlx5dv_qp_init_attr dv = { .comp_mask = MLX5DV_QP_INIT_ATTR_MASK_SEND_OPS_FLAGS,
					  .send_ops_flags = MLX5DV_QP_EX_WITH_MR_LIST };
	struct mlx5dv_mkey_init_attr ka = { .pd = t.pd, .create_flags = MLX5DV_MKEY_INIT_ATTR_FLAGS_INDIRECT, .max_entries = 2 };
	struct ibv_qp *qp = mlx5dv_create_qp(t.ctx, &xa, &dv);
	struct mlx5dv_mkey *key = mlx5dv_create_mkey(&ka);
	struct ibv_mw *one = ibv_alloc_mw(t.pd, IBV_MW_TYPE_1), *two = ibv_alloc_mw(t.pd, IBV_MW_TYPE_2);
	CHECK(qp && key && one && two, "objects");
	vt_connect(qp, qp->qp_num);
	pid_t pid = fork();
	CHECK(pid >= 0, "fork");
	struct ibv_qp_ex *x = ibv_qp_to_qp_ex(qp);
	struct ibv_sge sge[2] = { vt_sge(mr, 0, 8), vt_sge(mr, 64, 8) };
	struct ibv_mw_bind_info info = { .mr = mr, .addr = (uintptr_t)buf, .length = 8,
					 .mw_access_flags = IBV_ACCESS_REMOTE_READ };
	if (pid) {
		int status;
		CHECK(waitpid(pid, &status, 0) == pid && status == 0, "child %#x", status);
		ibv_wr_start(x);
		x->wr_id = 1;
		x->wr_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE;
		mlx5dv_wr_mr_list(mlx5dv_qp_ex_from_ibv_qp_ex(x), key, IBV_ACCESS_LOCAL_WRITE, 2, sge);
		CHECK(!ibv_wr_complete(x), "mr_list");
		vt_expect(cq, 1, IBV_WC_SUCCESS);
		return;
	}
	ibv_wr_start(x);
	x->wr_flags = IBV_SEND_INLINE;
	mlx5dv_wr_mr_list(mlx5dv_qp_ex_from_ibv_qp_ex(x), key, IBV_ACCESS_LOCAL_WRITE, 2, sge);
	CHECK(ibv_wr_complete(x) == ENODEV, "mr_list");
	ibv_wr_start(x);
	x->wr_flags = 0;
	ibv_wr_bind_mw(x, two, ibv_inc_rkey(two->rkey), &info);
	CHECK(ibv_wr_complete(x) == ENODEV, "wr_bind_mw");
	ibv_wr_start(x);
	ibv_wr_local_inv(x, key->rkey);
	CHECK(ibv_wr_complete(x) == ENODEV, "wr_local_inv");
	struct ibv_mw_bind b = { .bind_info = info };
	CHECK(ibv_bind_mw(qp, one, &b) == ENODEV, "bind_mw");
	CHECK(!mlx5dv_create_mkey(&ka) && errno == ENODEV && !ibv_alloc_mw(t.pd, IBV_MW_TYPE_1) && errno == ENODEV, "new ones");
	CHECK(!mlx5dv_destroy_mkey(key) && !ibv_dealloc_mw(one) && !ibv_dealloc_mw(two) && !ibv_destroy_qp(qp), "destroy");
	_exit(0);
}

int main(void)
{
	vt_fabric();
	pid_t connectx = fork();
	CHECK(connectx >= 0, "fork");
	if (!connectx) {
		keys_and_windows();
		_exit(0);
	}
	int ended;
	CHECK(waitpid(connectx, &ended, 0) == connectx && ended == 0, "the device as a ConnectX: %#x", ended);
	struct vt t = vt_open();
	struct ibv_cq *cq = vt_cq(&t, 16, NULL);
	struct ibv_qp *qp = vt_qp(&t, IBV_QPT_RC, cq, NULL);
	struct ibv_mr *mr = vt_mr(&t, buf, sizeof buf, VT_ACCESS);
	struct ibv_srq_init_attr sa = { .attr = { .max_wr = 8, .max_sge = 1 } };
	struct ibv_srq *srq = ibv_create_srq(t.pd, &sa);
	CHECK(srq, "create_srq");
	struct ibv_cq_init_attr_ex ca = { .cqe = 8, .wc_flags = IBV_WC_STANDARD_FLAGS };
	struct ibv_cq_ex *cqx = ibv_create_cq_ex(t.ctx, &ca);
	struct ibv_qp_init_attr_ex xa = {
		.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC, .pd = t.pd,
		.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_SEND,
		.cap = { .max_send_wr = 8, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 64 },
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
	};
	struct ibv_qp *ex = ibv_create_qp_ex(t.ctx, &xa);
	CHECK(cqx && ex, "create_cq_ex, create_qp_ex");
	vt_connect(ex, ex->qp_num);
	vt_connect(qp, qp->qp_num);
	still_works(&t, cq, qp, mr);
	struct ibv_alloc_dm_attr da = { .length = 64 };
	struct ibv_dm *dm = ibv_alloc_dm(t.ctx, &da);
	CHECK(dm, "alloc_dm");
	pid_t pid = fork();
	CHECK(pid >= 0, "fork");
	if (!pid) {
		child_refuses(&t, cq, qp, mr, srq, ex, cqx, dm);
		return 0;
	}
	int status;
	CHECK(waitpid(pid, &status, 0) == pid && status == 0, "child %#x", status);
	still_works(&t, cq, qp, mr);
	CHECK(!ibv_destroy_qp(ex) && !ibv_destroy_cq(ibv_cq_ex_to_cq(cqx)) && !ibv_free_dm(dm), "destroy");

	/* closed with everything in use: requests of a peer in this process end by IBV_WC_RETRY_EXC_ERR */
	struct vt other = vt_open();
	struct ibv_cq *ocq = vt_cq(&other, 16, NULL);
	struct ibv_qp *oqp = vt_qp(&other, IBV_QPT_RC, ocq, NULL);
	struct ibv_mr *omr = vt_mr(&other, buf, sizeof buf, VT_ACCESS);
	CHECK(!vt_to(qp, IBV_QPS_RESET), "reset");
	vt_connect_pair(qp, oqp);
	CHECK(!vt_send(oqp, 1, vt_sge(omr, 0, 8), 0), "send");	/* waits for a receive */
	CHECK(!ibv_close_device(t.ctx), "close");
	vt_expect(ocq, 1, IBV_WC_RETRY_EXC_ERR);
	CHECK(!ibv_destroy_qp(oqp) && !ibv_destroy_cq(ocq) && !ibv_dereg_mr(omr), "destroy");
	vt_close(&other);

	/* the last context is gone: the process left the fabric, and may name another and join that */
	CHECK(!shca_set_fabric("vt-other"), "shca_set_fabric");
	t = vt_open();
	CHECK(shca_set_fabric("vt-third") == EBUSY, "set_fabric while joined");
	vt_close(&t);
	return 0;
}
