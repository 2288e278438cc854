/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Indirect memory keys (UMR): made and destroyed here; requests configure and invalidate them (engine/umr.c,
 * engine/window.c), and the executor walks them (engine/mkey.c). A key is a struct shca_user_mr, so that ibv_dereg_mr takes
 * the experimental verbs' keys.
 */
#include <errno.h>
#include <infiniband/mlx5dv.h>
#include <search.h>
#include <stdlib.h>

#include "shca/engine/mkey.h"
#include "shca/verbs/control.h"
#include "shca/verbs/objects/mr.h"

#define KEY_ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)

/* The keys of mlx5dv_create_mkey: mlx5dv_destroy_mkey has no context by which to tell them from libmlx5's. */
static struct {
	pthread_mutex_t mutex;
	void *tree;
} dv_keys = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static int by_address(const void *a, const void *b)
{
	return (uintptr_t)a < (uintptr_t)b ? -1 : (uintptr_t)a > (uintptr_t)b;
}

bool shca_mkey_is_ours(const struct mlx5dv_mkey *mkey)
{
	pthread_mutex_lock(&dv_keys.mutex);
	bool ours = tfind(mkey, &dv_keys.tree, by_address) != NULL;
	pthread_mutex_unlock(&dv_keys.mutex);
	return ours;
}

struct shca_user_mr *shca_mkey_alloc(struct ibv_pd *ibpd, uint32_t entries, bool remote_inv, const char *call)
{
	struct shca_context *c = shca_context_of(ibpd->context);
	struct shca_user_pd *pd = shca_user_pd_of(ibpd);
	uint32_t key;

	if (shca_unusable(ibpd->context))
		return NULL;
	if (!entries || entries > SHCA_MKEY_ENTRIES) {
		errno = shca_refuse(EINVAL,
				    "%s: %u entries, a memory key has 1 to %u; for a longer layout, keys can be entries of a key",
				    call, entries, SHCA_MKEY_ENTRIES);
		return NULL;
	}
	struct shca_user_mr *mr = calloc(1, sizeof(*mr));
	if (!mr) {
		errno = shca_no_memory(call);
		return NULL;
	}
	shca_off table = shca_mem_alloc(c->m, shca_mkey_bytes(entries));
	if (table)
		mr->sh = shca_mr_alloc(c->m, &key);
	if (!mr->sh) {
		if (table)
			shca_mem_free(c->m, table, shca_mkey_bytes(entries));
		free(mr);
		return NULL;
	}
	*(struct shca_mkey *)shca_at(c->m->base, table) = (struct shca_mkey){.max = entries};
	mr->sh->pd = pd->number;
	mr->sh->proc = (uint16_t)c->m->slot;
	mr->sh->access = 0;
	mr->sh->lane = SHCA_LANE_CMA;
	mr->sh->implicit = 0;
	mr->sh->iova = mr->sh->length = 0;
	mr->sh->where = table;
	atomic_store(&mr->sh->bound, 0);
	mr->sh->qpn = remote_inv ? SHCA_MKEY_REMOTE_INV : 0;
	atomic_store(&mr->sh->window, SHCA_WINDOW_MKEY);
	mr->entries = entries;
	mr->gen = atomic_load(&mr->sh->gen);
	mr->mr = (struct ibv_mr){.context = ibpd->context, .pd = ibpd, .handle = key >> 8, .lkey = key, .rkey = key};
	mr->dv = (struct mlx5dv_mkey){.lkey = key, .rkey = key};
	mr->pd = pd;
	atomic_fetch_add(&pd->refs, 1);
	shca_mr_list(c, mr);
	return mr;
}

int shca_mkey_free(struct shca_user_mr *mr)
{
	struct shca_context *c = shca_context_of(mr->mr.context);

	if (!shca_inherited(mr->mr.context)) {
		int err = shca_window_retire(c, mr->sh, "destroy_mkey");
		if (err)
			return err;
		shca_mr_unlist(c, mr);
		shca_mem_free(c->m, mr->sh->where, shca_mkey_bytes(mr->entries));
		shca_mr_free(c->m, mr->sh);
	}
	pthread_mutex_lock(&dv_keys.mutex);
	tdelete(&mr->dv, &dv_keys.tree, by_address);
	pthread_mutex_unlock(&dv_keys.mutex);
	atomic_fetch_sub(&mr->pd->refs, 1);
	free(mr);
	return 0;
}

/* ---- configuration -------------------------------------------------------------------------------------------------- */

/* Fills in the offsets of the entries. Returns the bytes of a repetition; 0: an entry without bytes, or too many bytes. */
static uint64_t lay_out(const struct shca_mkey_conf *conf)
{
	uint64_t unit = 0;

	for (uint32_t i = 0; i < conf->n; i++) {
		conf->entry[i].at = unit;
		if (!conf->entry[i].len || conf->entry[i].len > SHCA_MKEY_BYTES - unit)
			return 0;
		unit += conf->entry[i].len;
	}
	return unit;
}

int shca_fill_mkey(const struct shca_user_qp *q, struct shca_user_mr *key, const struct shca_mkey_conf *conf,
		   struct shca_req *req, struct shca_seg *seg)
{
	uint64_t unit = conf->layout_set ? lay_out(conf) : 0;

	if (key->mr.context != q->qp.context)
		return shca_refuse(EINVAL,
				   "configuration of memory key %#x by queue pair %#x: the two are of different contexts; "
				   "create the key on the queue pair's",
				   key->mr.lkey, q->qp.qp_num);
	if (conf->access & ~(uint32_t)(KEY_ACCESS | IBV_ACCESS_OPTIONAL_RANGE) ||
	    (conf->access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC) && !(conf->access & IBV_ACCESS_LOCAL_WRITE)))
		return shca_refuse(
			EINVAL,
			"configuration of memory key %#x: access %#x: a key has rights of %#x only, and "
			"IBV_ACCESS_REMOTE_WRITE and _ATOMIC need IBV_ACCESS_LOCAL_WRITE",
			key->mr.lkey, conf->access, KEY_ACCESS);
	if (conf->layout_set && (!conf->n || conf->n > key->entries))
		return shca_refuse(EINVAL,
				   "configuration of memory key %#x: %u entries, the key was created for 1 to %u "
				   "(mlx5dv_create_mkey: max_entries; ibv_exp_create_mr: max_klm_list_size)",
				   key->mr.lkey, conf->n, key->entries);
	if (conf->layout_set && (!unit || !conf->repeat || conf->repeat > SHCA_MKEY_BYTES / unit ||
				 conf->base > SHCA_MKEY_BYTES - unit * conf->repeat))
		return shca_refuse(
			EINVAL,
			"configuration of memory key %#x: %lu repetitions of %u entries, of %lu bytes together, from address "
			"%#lx on: each entry must have bytes (0 bytes: one has none, or all are too long), there must be a "
			"repetition, and the last address must be below 2^62",
			key->mr.lkey, (unsigned long)conf->repeat, conf->n, (unsigned long)unit, (unsigned long)conf->base);
	req->dqpn = key->mr.lkey >> 8;
	req->rkey = (conf->access_set ? SHCA_UMR_ACCESS : 0) | (conf->layout_set ? SHCA_UMR_LAYOUT : 0);
	req->qkey = conf->access & KEY_ACCESS;
	req->imm = conf->n;
	req->raddr = conf->base;
	req->arg[0] = unit;
	req->arg[1] = key->gen;
	req->arg[2] = conf->repeat;
	if (!conf->layout_set)
		return 0;
	req->flags |= SHCA_WQE_INLINE;
	req->len = conf->n * (uint32_t)sizeof(struct shca_mkey_entry);
	req->inl = conf->entry;
	req->nsge = 1;
	req->sge = seg;
	*seg = (struct shca_seg){.where = (uintptr_t)conf->entry, .len = req->len, .lane = SHCA_LANE_CMA};
	return 0;
}

/* ---- mlx5dv ------------------------------------------------------------------------------------------------------------- */

struct mlx5dv_mkey *shca_dv_create_mkey(struct mlx5dv_mkey_init_attr *attr)
{
	const uint32_t inv = MLX5DV_MKEY_INIT_ATTR_FLAGS_REMOTE_INVALIDATE, known = MLX5DV_MKEY_INIT_ATTR_FLAGS_INDIRECT | inv;

	if (!shca_is_connectx() || (attr->create_flags | inv) != known) {
		errno = shca_refuse(
			EOPNOTSUPP,
			"mlx5dv_create_mkey: create_flags %#x%s: the device makes indirect keys "
			"(MLX5DV_MKEY_INIT_ATTR_FLAGS_INDIRECT), with or without _REMOTE_INVALIDATE (%#x together), and has no "
			"signatures, encryption or tags",
			attr->create_flags, shca_is_connectx() ? "" : " without SHCA_IDENTITY=connectx", known);
		return NULL;
	}
	struct shca_user_mr *mr = shca_mkey_alloc(attr->pd, attr->max_entries, attr->create_flags & inv, "mlx5dv_create_mkey");
	if (!mr)
		return NULL;
	pthread_mutex_lock(&dv_keys.mutex);
	bool kept = tsearch(&mr->dv, &dv_keys.tree, by_address) != NULL;
	pthread_mutex_unlock(&dv_keys.mutex);
	if (!kept) {
		shca_mkey_free(mr);
		errno = shca_no_memory("mlx5dv_create_mkey");
		return NULL;
	}
	return &mr->dv;
}

int shca_dv_destroy_mkey(struct mlx5dv_mkey *mkey)
{
	return shca_mkey_free(container_of(mkey, struct shca_user_mr, dv));
}

/* A key without signatures has no errors of them. */
int shca_dv_mkey_check(struct mlx5dv_mkey *mkey, struct mlx5dv_mkey_err *err, size_t size)
{
	if (size < sizeof(err->err_type))
		return shca_refuse(EINVAL, "mlx5dv_mkey_check of key %#x: %zu bytes for the answer, its err_type alone has %zu",
				   mkey->lkey, size, sizeof(err->err_type));
	memset(err, 0, size < sizeof(*err) ? size : sizeof(*err));
	err->err_type = MLX5DV_MKEY_NO_ERR;
	return 0;
}
