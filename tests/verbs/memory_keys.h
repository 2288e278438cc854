/* SPDX-License-Identifier: BSD-3-Clause */
/* For tests of indirect memory keys (UMR) by mlx5dv, on the device as a ConnectX: memories, queue pairs, keys, and requests that
 * configure, use and invalidate them. */
#ifndef TESTS_VERBS_MEMORY_KEYS_H
#define TESTS_VERBS_MEMORY_KEYS_H

#include <infiniband/mlx5dv.h>

#include "owner.h"

#define LEN 65536u
#define RIGHTS VT_ACCESS
#define ALL_OPS                                                                                                                \
	(IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_SEND_WITH_INV | IBV_QP_EX_WITH_RDMA_WRITE |       \
	 IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_LOCAL_INV)
#define UMR_OPS (MLX5DV_QP_EX_WITH_MR_LIST | MLX5DV_QP_EX_WITH_MR_INTERLEAVED | MLX5DV_QP_EX_WITH_MKEY_CONFIGURE)
#define INL (IBV_SEND_SIGNALED | IBV_SEND_INLINE)

/* 0: arena; 1: private; 2: private, registered twice with another address; 3: arena, for the other side */
enum { MEMORIES = 4 };
static struct memory mem[MEMORIES];

static inline struct ibv_qp *queue_of(enum ibv_qp_type type, struct ibv_pd *pd, uint64_t dv_ops)
{
	struct ibv_qp_init_attr_ex a = owner_attr(type, pd, type == IBV_QPT_UD ? IBV_QP_EX_WITH_SEND : ALL_OPS);
	struct mlx5dv_qp_init_attr dv = {.comp_mask = MLX5DV_QP_INIT_ATTR_MASK_SEND_OPS_FLAGS, .send_ops_flags = dv_ops};
	struct ibv_qp *qp = mlx5dv_create_qp(t.ctx, &a, &dv);

	CHECK(qp, "mlx5dv_create_qp");
	return qp;
}

static inline struct ibv_qp *queue(void)
{
	return queue_of(IBV_QPT_RC, t.pd, UMR_OPS);
}

static inline struct pair pair(void)
{
	struct pair p = {queue(), queue()};

	vt_connect_pair(p.owner, p.peer);
	return p;
}

static inline struct mlx5dv_mkey *key_of(struct ibv_pd *pd, uint16_t entries)
{
	struct mlx5dv_mkey_init_attr a = {.pd = pd, .create_flags = MLX5DV_MKEY_INIT_ATTR_FLAGS_INDIRECT, .max_entries = entries};
	struct mlx5dv_mkey *k = mlx5dv_create_mkey(&a);

	CHECK(k && k->lkey && k->lkey == k->rkey, "mlx5dv_create_mkey");
	return k;
}
static inline struct mlx5dv_mkey *key(uint16_t entries)
{
	return key_of(t.pd, entries);
}
static inline void end_key(struct mlx5dv_mkey *k)
{
	int err = mlx5dv_destroy_mkey(k);
	CHECK(!err, "mlx5dv_destroy_mkey: %d", err);
}

static inline struct mlx5dv_qp_ex *begin(struct ibv_qp *qp, uint64_t id, unsigned flags)
{
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(qp);

	ibv_wr_start(ex);
	ex->wr_id = id;
	ex->wr_flags = flags;
	return mlx5dv_qp_ex_from_ibv_qp_ex(ex);
}
static inline int finish(struct ibv_qp *qp)
{
	return ibv_wr_complete(ibv_qp_to_qp_ex(qp));
}

static inline void umr_done(uint64_t id)
{
	struct ibv_wc wc = vt_expect(cq, id, IBV_WC_SUCCESS);
	CHECK((int)wc.opcode == MLX5DV_WC_UMR, "opcode %d", wc.opcode);
}

static inline void list(struct ibv_qp *qp, struct mlx5dv_mkey *k, unsigned access, uint16_t n, struct ibv_sge *sge)
{
	mlx5dv_wr_mr_list(begin(qp, 41, INL), k, access, n, sge);
	CHECK(!finish(qp), "mr_list");
	umr_done(41);
}
static inline void interleaved(struct ibv_qp *qp, struct mlx5dv_mkey *k, unsigned access, uint32_t repeat, uint16_t n,
			struct mlx5dv_mr_interleaved *d)
{
	mlx5dv_wr_mr_interleaved(begin(qp, 42, INL), k, access, repeat, n, d);
	CHECK(!finish(qp), "mr_interleaved");
	umr_done(42);
}
static inline void invalidated(struct ibv_qp *qp, struct mlx5dv_mkey *k)
{
	begin(qp, 43, IBV_SEND_SIGNALED);
	ibv_wr_local_inv(ibv_qp_to_qp_ex(qp), k->rkey);
	CHECK(!finish(qp), "local_inv");
	vt_expect(cq, 43, IBV_WC_SUCCESS);
}

static inline struct ibv_sge at_key(const struct mlx5dv_mkey *k, uint64_t addr, uint32_t n)
{
	return (struct ibv_sge){.addr = addr, .length = n, .lkey = k->lkey};
}

static uint32_t rnd_state = 12345;
static inline uint32_t rnd(uint32_t n)
{
	rnd_state = rnd_state * 1664525u + 1013904223u;
	return (rnd_state >> 8) % n;
}

static inline void fill(void)
{
	for (int m = 0; m < MEMORIES; m++)
		for (uint32_t i = 0; i < LEN; i++)
			mem[m].p[i] = (char)rnd(256);
}

static inline enum ibv_wc_status write_by(uint64_t addr, uint32_t n, uint32_t rkey, struct pair p)
{
	CHECK(!vt_rdma(p.peer, IBV_WR_RDMA_WRITE, 1, vt_sge(mem[3].mr, 0, n), addr, rkey), "write");
	return vt_wait(cq).status;
}
static inline enum ibv_wc_status send_by(uint64_t addr, uint32_t n, const struct mlx5dv_mkey *k, struct pair p)
{
	struct ibv_wc wc;

	CHECK(!vt_recv(p.peer, 2, vt_sge(mem[3].mr, 0, 4096)) && !vt_send(p.owner, 3, at_key(k, addr, n), IBV_SEND_SIGNALED),
	      "send");
	do
		wc = vt_wait(cq);
	while (wc.wr_id != 3);
	return wc.status;
}

/* Checks the status of a WRITE by a peer and of a SEND by the owner; each on queues of its own, which are gone afterwards. */
static inline void used(const struct mlx5dv_mkey *k, uint64_t addr, uint32_t n, enum ibv_wc_status remote,
			enum ibv_wc_status local, const char *why)
{
	struct ibv_wc wc;
	struct pair p = pair();
	enum ibv_wc_status s = write_by(addr, n, k->rkey, p);

	CHECK(s == remote, "%s: a peer's WRITE: %s", why, ibv_wc_status_str(s));
	drop(p);
	p = pair();
	s = send_by(addr, n, k, p);
	CHECK(s == local, "%s: the owner's SEND: %s", why, ibv_wc_status_str(s));
	drop(p);
	while (ibv_poll_cq(cq, 1, &wc) > 0)
		;
}
#define REFUSED IBV_WC_REM_ACCESS_ERR, IBV_WC_LOC_PROT_ERR
#define GRANTED IBV_WC_SUCCESS, IBV_WC_SUCCESS

/* Opens the device as a ConnectX, in a fabric of the test. */
static inline void keys_fabric(void)
{
	CHECK(!setenv("SHCA_IDENTITY", "connectx", 1), "setenv");
	vt_fabric();
}

static inline void keys_open(void)
{
	t = vt_open();
	cq = vt_cq(&t, 256, NULL);
	for (int i = 0; i < MEMORIES; i++)
		memory_make(&mem[i], i == 1 || i == 2, LEN, RIGHTS);
}

/* A context that is closed takes its keys along. */
static inline void keys_close(void)
{
	key(3);
	for (int i = 0; i < MEMORIES; i++)
		CHECK(!ibv_dereg_mr(mem[i].mr), "dereg");
	CHECK(!ibv_destroy_cq(cq), "destroy_cq");
	CHECK(!ibv_close_device(t.ctx), "close");
}

#endif
