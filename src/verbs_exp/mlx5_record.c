/* SPDX-License-Identifier: BSD-3-Clause */
/* Records of objects that libmlx5 made, found by the objects' addresses. */
#include "verbs_exp/mlx5.h"

#include <errno.h>
#include <infiniband/mlx5dv.h>
#include <stdlib.h>

#include "base/base.h"
#include "verbs_exp/provider.h"

enum kind { KIND_QP, KIND_CQ, KIND_CONTEXT, KIND_KEY };
struct record {
	struct record *next;
	const void *object;
	const struct ibv_context *ctx;
	enum kind kind;
	union {
		struct exp_mlx5_qp qp;
		struct exp_mlx5_cq cq;
		struct exp_mlx5_context context;
		struct exp_mlx5_key key;
	};
};

#define BUCKETS 1024
pthread_mutex_t exp_mlx5_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct record *all[BUCKETS];		/* by the object's address */
static struct exp_mlx5_qp *numbered[BUCKETS];	/* by the queue pair's number */

static struct record **bucket_of(const void *object)
{
	return &all[((uintptr_t)object >> 6) * 0x9e3779b97f4a7c15ull >> 54];
}

/* Returns the link to the object's record; the link is NULL if the object is unknown. */
static struct record **mlx5_record_find(const void *object)
{
	struct record **at = bucket_of(object);

	while (*at && (*at)->object != object)
		at = &(*at)->next;
	return at;
}

static struct exp_mlx5_qp **mlx5_record_number_of(const struct exp_mlx5_qp *qp)
{
	struct exp_mlx5_qp **at = &numbered[qp->qp->qp_num % BUCKETS];

	while (*at && *at != qp)
		at = &(*at)->by_number;
	return at;
}

static void link_in(struct record *r)
{
	struct record **bucket = bucket_of(r->object);

	r->next = *bucket;
	*bucket = r;
	if (r->kind == KIND_QP) {
		struct exp_mlx5_qp **at = mlx5_record_number_of(&r->qp);
		r->qp.by_number = NULL;
		*at = &r->qp;
	}
}

static void unlink_from(struct record **at)
{
	struct record *r = *at;

	*at = r->next;
	if (r->kind == KIND_QP)
		*mlx5_record_number_of(&r->qp) = r->qp.by_number;
}

static void free_record(struct record *r)
{
	if (r->kind == KIND_QP)
		free(r->qp.raw);
	free(r);
}

/* ---- results of ordinary verbs --------------------------------------------------------------------------------------- */

static void *mlx5_record_take_out(const void *object)
{
	pthread_mutex_lock(&exp_mlx5_mutex);
	struct record **at = mlx5_record_find(object), *r = *at;
	if (r)
		unlink_from(at);
	pthread_mutex_unlock(&exp_mlx5_mutex);
	return r;
}

static void mlx5_record_destroyed(void *known, bool gone)
{
	if (gone) {
		free_record(known);
		return;
	}
	pthread_mutex_lock(&exp_mlx5_mutex);
	link_in(known);
	pthread_mutex_unlock(&exp_mlx5_mutex);
}

static void mlx5_record_reset(struct ibv_qp *qp)
{
	pthread_mutex_lock(&exp_mlx5_mutex);
	struct exp_mlx5_qp *q = exp_mlx5_qp_of(qp);
	if (q) {
		q->send = q->recv = (struct exp_mlx5_index){.base = 0};
		q->sent = q->received = q->raw_first = q->raw_end = 0;
	}
	pthread_mutex_unlock(&exp_mlx5_mutex);
}

static void mlx5_record_closing(struct ibv_context *ctx)
{
	pthread_mutex_lock(&exp_mlx5_mutex);
	for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
		for (struct record **at = &all[i]; *at;) {
			struct record *r = *at;
			if (r->ctx != ctx) {
				at = &r->next;
				continue;
			}
			unlink_from(at);
			if (r->kind == KIND_KEY)
				mlx5dv_destroy_mkey(r->key.dv);
			free_record(r);
		}
	}
	pthread_mutex_unlock(&exp_mlx5_mutex);
}

static bool mlx5_record_dereg_key(struct ibv_mr *mr, int *rc)
{
	pthread_mutex_lock(&exp_mlx5_mutex);
	struct record **at = mlx5_record_find(mr), *r = *at;
	bool ours = r && r->kind == KIND_KEY;
	if (ours) {
		*rc = mlx5dv_destroy_mkey(r->key.dv);
		if (!*rc) {
			unlink_from(at);
			free_record(r);
		}
	}
	pthread_mutex_unlock(&exp_mlx5_mutex);
	return ours;
}

/* ---- for the provider --------------------------------------------------------------------------------------------------- */

static struct record *mlx5_record_known(const void *object, enum kind kind)
{
	struct record *r = *mlx5_record_find(object);

	return r && r->kind == kind ? r : NULL;
}

struct exp_mlx5_qp *exp_mlx5_qp_of(const struct ibv_qp *qp)
{
	struct record *r = mlx5_record_known(qp, KIND_QP);

	return r ? &r->qp : NULL;
}

struct exp_mlx5_context *exp_mlx5_context_of(const struct ibv_context *ctx)
{
	struct record *r = mlx5_record_known(ctx, KIND_CONTEXT);

	return r ? &r->context : NULL;
}

struct exp_mlx5_key *exp_mlx5_key_of(const struct ibv_mr *mr)
{
	struct record *r = mlx5_record_known(mr, KIND_KEY);

	return r ? &r->key : NULL;
}

struct exp_mlx5_qp *exp_mlx5_qp_by_number(const struct ibv_context *ctx, uint32_t number)
{
	struct exp_mlx5_qp *qp = numbered[number % BUCKETS];

	while (qp && (qp->qp->qp_num != number || qp->qp->context != ctx))
		qp = qp->by_number;
	return qp;
}

/* At a fork, another thread of the parent may hold the mutex. The child, which closes inherited objects, would wait for it for
 * ever. */
static void mlx5_record_fork_prepare(void)
{
	pthread_mutex_lock(&exp_mlx5_mutex);
}

static void mlx5_record_fork_parent(void)
{
	pthread_mutex_unlock(&exp_mlx5_mutex);
}

static void mlx5_record_fork_child(void)
{
	pthread_mutex_init(&exp_mlx5_mutex, NULL);
}

static struct record *mlx5_record_enter(const void *object, const struct ibv_context *ctx, enum kind kind)
{
	static const struct exp_watch watch = {
		.before_destroy = mlx5_record_take_out, .after_destroy = mlx5_record_destroyed, .reset = mlx5_record_reset,
		.closing = mlx5_record_closing, .dereg_key = mlx5_record_dereg_key,
	};
	static bool fork_handlers;

	/* Registered when a device is open, so that this mutex is taken before those of the device's library, here and at a
	 * fork. */
	if (!fork_handlers && pthread_atfork(mlx5_record_fork_prepare, mlx5_record_fork_parent, mlx5_record_fork_child))
		return NULL;
	fork_handlers = true;
	struct record *r = calloc(1, sizeof(*r));
	if (!r)
		return NULL;
	atomic_store(&exp_watch, &watch);
	r->object = object;
	r->ctx = ctx;
	r->kind = kind;
	return r;
}

struct exp_mlx5_cq *exp_mlx5_cq_of(struct ibv_cq *cq)
{
	struct mlx5dv_cq numbers = {.comp_mask = 0};
	struct mlx5dv_obj obj = {.cq = {.in = cq, .out = &numbers}};
	struct record *r = mlx5_record_known(cq, KIND_CQ);
	int err;

	if (r)
		return &r->cq;
	err = mlx5dv_init_obj(&obj, MLX5DV_OBJ_CQ);
	r = err ? NULL : mlx5_record_enter(cq, cq->context, KIND_CQ);
	if (!r) {
		errno = shca_refuse(err ? err : mlx5_no_memory(), "the number of a completion queue, for a WAIT");
		return NULL;
	}
	r->cq.number = numbers.cqn;
	link_in(r);
	return &r->cq;
}

int exp_mlx5_enter_qp(const struct exp_mlx5_qp *qp)
{
	uint64_t size = pow2_up(qp->cap.max_send_wr ? qp->cap.max_send_wr : 1);
	struct exp_mlx5_raw *raw = calloc(size, sizeof(*raw));
	struct record *r = raw ? mlx5_record_enter(qp->qp, qp->qp->context, KIND_QP) : NULL;

	if (!r) {
		free(raw);
		return mlx5_no_memory();
	}
	r->qp = *qp;
	r->qp.raw = raw;
	r->qp.raw_mask = size - 1;
	link_in(r);
	return 0;
}

int exp_mlx5_enter_context(struct ibv_context *ctx, const struct exp_mlx5_context *c)
{
	struct record *r;

	if (mlx5_record_known(ctx, KIND_CONTEXT))
		return 0;
	r = mlx5_record_enter(ctx, ctx, KIND_CONTEXT);
	if (!r)
		return mlx5_no_memory();
	r->context = *c;
	link_in(r);
	return 0;
}

struct ibv_mr *exp_mlx5_enter_key(const struct exp_mlx5_key *key)
{
	struct record *r = mlx5_record_enter(NULL, key->mr.context, KIND_KEY);

	if (!r)
		return NULL;	/* said: the caller, mlx5_create_key in mlx5.c */
	r->key = *key;
	r->object = &r->key.mr;
	link_in(r);
	return &r->key.mr;
}
