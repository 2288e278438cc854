/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Objects that the kinds of mixed share: a thread's memory and its CQ of 2 entries, queue pairs and their connection by either
 * port, the pair owner and peer for windows and keys; and the check of completions and bytes.
 */
#include "mixed.h"

#define ACCESS (VT_ACCESS | IBV_ACCESS_MW_BIND)

/* ---- queue pairs ------------------------------------------------------------------------------------------------------ */

static struct ibv_ah_attr address(struct ibv_context *ctx, uint8_t from, uint8_t to)
{
	struct ibv_ah_attr a = {.is_global = 1, .port_num = from, .grh = {.hop_limit = 1}};

	CHECK(!ibv_query_gid(ctx, to, 0, &a.grh.dgid), "ibv_query_gid");
	return a;
}

struct ibv_qp *mixed_queue(struct ibv_cq *cq)
{
	struct ibv_qp_init_attr_ex a = {
		.send_cq = cq,
		.recv_cq = cq,
		.qp_type = IBV_QPT_RC,
		.pd = device.pd,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_INV | IBV_QP_EX_WITH_RDMA_WRITE |
				  IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_BIND_MW,
		.cap = {.max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 4, .max_recv_sge = 4, .max_inline_data = 128},
	};
	struct mlx5dv_qp_init_attr dv = {
		.comp_mask = MLX5DV_QP_INIT_ATTR_MASK_SEND_OPS_FLAGS,
		.send_ops_flags = MLX5DV_QP_EX_WITH_MR_LIST | MLX5DV_QP_EX_WITH_MR_INTERLEAVED,
	};
	struct ibv_qp *qp = mlx5dv_create_qp(device.ctx, &a, &dv);

	CHECK(qp, "mlx5dv_create_qp");
	return qp;
}

void mixed_connect(struct ibv_qp *qp, uint32_t dest, uint8_t port)
{
	struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT, .port_num = port, .qp_access_flags = VT_ACCESS};
	struct ibv_qp_attr rtr = vt_rtr_attr(dest), rts = vt_rts_attr();

	rtr.ah_attr = address(qp->context, port, port);
	rts.timeout = 14;
	rts.retry_cnt = 7;
	CHECK(!ibv_modify_qp(qp, &init, IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS), "INIT");
	CHECK(!ibv_modify_qp(qp, &rtr, vt_rtr_mask(qp)), "RTR");
	CHECK(!ibv_modify_qp(qp, &rts, vt_rts_mask(qp)), "RTS");
}

void mixed_arm(struct ibv_qp *qp, uint8_t from, uint8_t to)
{
	struct ibv_qp_attr a = {.alt_ah_attr = address(device.ctx, from, to),
				.alt_port_num = from,
				.alt_timeout = 14,
				.path_mig_state = IBV_MIG_REARM};

	CHECK(!ibv_modify_qp(qp, &a, IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE), "REARM");
}

void mixed_own_pair(struct worker *w)
{
	w->owner = mixed_queue(w->cq);
	w->peer = mixed_queue(w->cq);
	mixed_connect(w->owner, w->peer->qp_num, 2);
	mixed_connect(w->peer, w->owner->qp_num, 2);
	w->mw1 = ibv_alloc_mw(device.pd, IBV_MW_TYPE_1);
	w->mw2 = ibv_alloc_mw(device.pd, IBV_MW_TYPE_2);
	CHECK(w->mw1 && w->mw2, "ibv_alloc_mw");
}

void mixed_own_pair_end(struct worker *w)
{
	CHECK(!ibv_dealloc_mw(w->mw1) && !ibv_dealloc_mw(w->mw2), "ibv_dealloc_mw");
	CHECK(!ibv_destroy_qp(w->owner) && !ibv_destroy_qp(w->peer), "destroy");
	for (struct ibv_wc wc; ibv_poll_cq(w->cq, 1, &wc) > 0;)
		;
}

/* ---- memory ----------------------------------------------------------------------------------------------------------- */

void mixed_worker_make(struct worker *w)
{
	for (int i = 0; i < 2; i++) {
		w->m[i] = i ? aligned_alloc(4096, LEN) : shca_alloc(device.ctx, LEN);
		CHECK(w->m[i], "memory");
		memset(w->m[i], 0, LEN);
		w->mr[i] = vt_mr(&device, w->m[i], LEN, ACCESS);
	}
	w->cq = vt_cq(&device, 2, NULL);
}

void mixed_worker_end(struct worker *w)
{
	CHECK(!ibv_dereg_mr(w->mr[0]) && !ibv_dereg_mr(w->mr[1]), "dereg");
	CHECK(!ibv_destroy_cq(w->cq), "destroy_cq");
	shca_free(device.ctx, w->m[0]);
	free(w->m[1]);
}

/* ---- completions ------------------------------------------------------------------------------------------------------ */

void mixed_done(struct worker *w, struct ibv_cq *cq, uint64_t id)
{
	struct ibv_wc wc = vt_wait(cq);

	CHECK(wc.status == IBV_WC_SUCCESS && wc.wr_id == id, "seed %lu, thread %u: %s of %lu instead of %lu", seed, w->n,
	      ibv_wc_status_str(wc.status), wc.wr_id, id);
}

void mixed_refused(struct worker *w, uint64_t addr, uint32_t rkey)
{
	CHECK(!vt_rdma(w->peer, IBV_WR_RDMA_WRITE, 6, mixed_flat(w, 0, 0, 8), addr, rkey), "RDMA");
	struct ibv_wc wc = vt_wait(w->cq);
	CHECK(wc.status == IBV_WC_REM_ACCESS_ERR, "seed %lu: %s of a key that was invalidated", seed,
	      ibv_wc_status_str(wc.status));
	mixed_own_pair_end(w);
	mixed_own_pair(w);
	atomic_fetch_add(&counts.refusals, 1);
}

void mixed_equal(const struct worker *w, const char *a, const char *b, uint32_t n, const char *what)
{
	CHECK(!memcmp(a, b, n), "seed %lu, thread %u: %s of %u bytes", seed, w->n, what, n);
}
