/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Indirect memory keys in mixed: key[0] is a list of pieces, key[1] strides over key[0] and a piece of its own. A model of the
 * bytes behind each key gives the expected results of SEND, RDMA WRITE and READ from and to the keys.
 */
#include "mixed.h"

struct model {
	uint32_t n;
	char *byte[3 * MSG];
};

static void keys_make(struct worker *w)
{
	struct mlx5dv_mkey_init_attr a = {.pd = device.pd,
					  .create_flags = MLX5DV_MKEY_INIT_ATTR_FLAGS_INDIRECT,
					  .max_entries = 4};

	for (int i = 0; i < 2; i++) {
		w->key[i] = mlx5dv_create_mkey(&a);
		CHECK(w->key[i], "mlx5dv_create_mkey");
	}
}

static void keys_end(struct worker *w)
{
	CHECK(!mlx5dv_destroy_mkey(w->key[0]) && !mlx5dv_destroy_mkey(w->key[1]), "a key");
}

static struct mlx5dv_qp_ex *begin(struct ibv_qp *qp)
{
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(qp);

	ibv_wr_start(ex);
	ex->wr_id = 12;
	ex->wr_flags = SIGNALED | IBV_SEND_INLINE;
	return mlx5dv_qp_ex_from_ibv_qp_ex(ex);
}

static void configured(struct worker *w)
{
	CHECK(!ibv_wr_complete(ibv_qp_to_qp_ex(w->owner)), "a key");
	mixed_done(w, w->cq, 12);
}

/* key[0]: a list. */
static void list_configure(struct worker *w, struct model *list)
{
	struct ibv_sge sge[3];
	uint32_t pieces = 1 + rnd(&w->r, 3);

	list->n = 0;
	for (uint32_t i = 0; i < pieces; i++) {
		int m = (int)rnd(&w->r, 2);
		uint32_t at = i * MSG + rnd(&w->r, 1000), n = 1 + rnd(&w->r, 1000);
		sge[i] = vt_sge(w->mr[m], at, n);
		for (uint32_t k = 0; k < n; k++)
			list->byte[list->n++] = w->m[m] + at + k;
	}
	mlx5dv_wr_mr_list(begin(w->owner), w->key[0], VT_ACCESS, (uint16_t)pieces, sge);
	configured(w);
}

/* key[1]: strides over the list and a piece of memory in turn. */
static void strides_configure(struct worker *w, const struct model *list, struct model *strides)
{
	uint32_t repeat = 1 + rnd(&w->r, 4), step = list->n / repeat;
	while (!step)
		step = list->n / --repeat;
	uint32_t count = 1 + rnd(&w->r, step), own = 1 + rnd(&w->r, 200), skip = rnd(&w->r, 200);
	int m = (int)rnd(&w->r, 2);
	struct mlx5dv_mr_interleaved d[2] = {
		{.addr = 0, .bytes_count = count, .bytes_skip = step - count, .lkey = w->key[0]->lkey},
		{.addr = (uintptr_t)w->m[m] + 3 * MSG, .bytes_count = own, .bytes_skip = skip, .lkey = w->mr[m]->lkey},
	};

	mlx5dv_wr_mr_interleaved(begin(w->owner), w->key[1], VT_ACCESS, repeat, 2, d);
	configured(w);
	strides->n = 0;
	for (uint32_t r = 0; r < repeat; r++) {
		for (uint32_t k = 0; k < count; k++)
			strides->byte[strides->n++] = list->byte[r * step + k];
		for (uint32_t k = 0; k < own; k++)
			strides->byte[strides->n++] = w->m[m] + 3 * MSG + r * (own + skip) + k;
	}
}

/* One request from or to a part of the bytes behind key[k], and the same part of the other side's flat memory. */
static void key_use(struct worker *w, const struct model *mod, int k)
{
	enum { SOURCE_WRITE, SOURCE_SEND, TARGET_READ, TARGET_WRITE, OPS };
	int f = (int)rnd(&w->r, 2), op = (int)rnd(&w->r, OPS);
	uint32_t n = 1 + rnd(&w->r, mod->n), at = rnd(&w->r, mod->n - n + 1);
	char *other = w->m[f] + HALF;
	struct ibv_sge sge = {at, n, w->key[k]->lkey};

	for (uint32_t i = 0; i < n; i++)
		*mod->byte[at + i] = (char)rnd(&w->r, 256);
	fill(&w->r, other, n);
	switch (op) {
	case SOURCE_WRITE:
		CHECK(!vt_rdma(w->owner, IBV_WR_RDMA_WRITE, 13, sge, (uintptr_t)other, w->mr[f]->rkey), "WRITE");
		break;
	case SOURCE_SEND:
		CHECK(!vt_recv(w->peer, 14, mixed_flat(w, f, 0, n)) && !vt_send(w->owner, 13, sge, 0), "SEND");
		break;
	case TARGET_READ:
		CHECK(!vt_rdma(w->owner, IBV_WR_RDMA_READ, 13, sge, (uintptr_t)other, w->mr[f]->rkey), "READ");
		break;
	case TARGET_WRITE:
		CHECK(!vt_rdma(w->peer, IBV_WR_RDMA_WRITE, 13, mixed_flat(w, f, 0, n), at, w->key[k]->rkey), "WRITE to a key");
		break;
	}
	mixed_done(w, w->cq, op == SOURCE_SEND ? 14 : 13);
	for (uint32_t i = 0; i < n; i++)
		CHECK(*mod->byte[at + i] == other[i], "seed %lu, thread %u: key %d, operation %d, byte %u of %u", seed, w->n, k,
		      op, i, n);
}

static void keys_act(struct worker *w)
{
	static _Thread_local struct model mod[2];

	list_configure(w, &mod[0]);
	strides_configure(w, &mod[0], &mod[1]);
	for (int turn = 0; turn < 3; turn++) {
		int k = (int)rnd(&w->r, 2);
		key_use(w, &mod[k], k);
	}
	/* the outer key first: the inner one is in use by it */
	for (int k = 1; k >= 0; k--) {
		struct ibv_send_wr inv = {.wr_id = 15,
					  .opcode = IBV_WR_LOCAL_INV,
					  .send_flags = SIGNALED,
					  .invalidate_rkey = w->key[k]->rkey},
				   *bad;
		CHECK(!ibv_post_send(w->owner, &inv, &bad), "LOCAL_INV");
		mixed_done(w, w->cq, 15);
	}
	if (rnd(&w->r, 32) == 0)
		mixed_refused(w, 0, w->key[rnd(&w->r, 2)]->rkey);
}

const struct kind mixed_keys = {keys_make, keys_act, keys_end};
