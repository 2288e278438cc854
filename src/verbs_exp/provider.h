/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The provider: a device's implementation of the experimental verbs (<infiniband/verbs_exp.h>). validate.c has checked the
 * arguments as far as that needs no knowledge of the objects' insides. The provider checks the rest: whether a queue is
 * cross-channel or managed, how far its requests are posted, the operand sizes of the device.
 */
#ifndef IBV_EXP_PROVIDER_H
#define IBV_EXP_PROVIDER_H

#include <infiniband/verbs.h>
#include <infiniband/verbs_exp.h>
#include <stdatomic.h>
#include <stdbool.h>

struct ibv_exp_provider {
	/* Fills in the attributes that attr->comp_mask names. All functions that return int: 0 or an errno value. */
	int (*query_device)(struct ibv_context *ctx, struct ibv_exp_device_attr *attr);
	/* Returns NULL with errno on failure. attr may be NULL: no flags. */
	struct ibv_cq *(*create_cq)(struct ibv_context *ctx, int cqe, void *cq_context,
				    struct ibv_comp_channel *channel, int comp_vector,
				    struct ibv_exp_cq_init_attr *attr);
	int (*modify_cq)(struct ibv_cq *cq, struct ibv_exp_cq_attr *attr, int attr_mask);
	struct ibv_qp *(*create_qp)(struct ibv_context *ctx, struct ibv_exp_qp_init_attr *attr);
	int (*modify_qp)(struct ibv_qp *qp, const struct ibv_exp_qp_attr *attr, uint64_t mask);
	/* attr is zeroed by the caller. */
	int (*query_qp)(struct ibv_qp *qp, struct ibv_exp_qp_attr *attr, uint64_t mask, struct ibv_qp_init_attr *init);
	struct ibv_exp_dct *(*create_dct)(struct ibv_context *ctx, struct ibv_exp_dct_init_attr *attr);
	int (*query_dct)(struct ibv_exp_dct *dct, struct ibv_exp_dct_attr *attr);
	int (*arm_dct)(struct ibv_exp_dct *dct);
	int (*destroy_dct)(struct ibv_exp_dct *dct);
	/* As ibv_poll_cq. */
	int (*poll_cq)(struct ibv_cq *cq, int n, struct ibv_exp_wc *wc);
	/* Registers memory that the device allocates, and frees at ibv_dereg_mr. access: enum ibv_access_flags. */
	struct ibv_mr *(*reg_allocated)(struct ibv_pd *pd, size_t length, unsigned int access);
	/* Memory keys that requests configure (appendix C); NULL: the provider has none. A key is
	 * deregistered by ibv_dereg_mr. */
	struct ibv_mr *(*create_key)(struct ibv_pd *pd, uint32_t entries);
	uint32_t (*key_entries)(const struct ibv_mr *mr);	/* 0: the region is no such key */
	/* *bad_wr and *bad_task receive the refused element; neither pointer is NULL. */
	int (*post_send)(struct ibv_qp *qp, struct ibv_exp_send_wr *wr, struct ibv_exp_send_wr **bad_wr);
	int (*post_task)(struct ibv_context *ctx, struct ibv_exp_task *task, struct ibv_exp_task **bad_task);
	/* Reports why a call was refused, if the user asks for that. Returns err. */
	int (*refuse)(int err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
};

/* The linked providers. Each returns its table for contexts of its own devices, and NULL for other contexts, of which the
 * provider reads no more than the device's identity. The software HCA's: */
const struct ibv_exp_provider *shca_exp_provider(struct ibv_context *ctx);

/* The provider for mlx5 over mlx5dv (mlx5.c), for contexts that shca_exp_provider does not know. */
const struct ibv_exp_provider *exp_mlx5_provider(struct ibv_context *ctx);

/* Returns the provider of a context; NULL: none (provider.c). */
const struct ibv_exp_provider *exp_provider(struct ibv_context *ctx);
/* Reports a refusal through the context's provider, or the software HCA's if there is none. Returns err. */
int shca_refuse(int err, const char *fmt, ...) __attribute__((cold, format(printf, 2, 3)));
#define exp_refuse(ctx, err, ...)                                                                                   \
	({                                                                                                          \
		const struct ibv_exp_provider *ops_ = exp_provider(ctx);                                            \
		(ops_ ? ops_->refuse : shca_refuse)(err, __VA_ARGS__);                                              \
	})

/* EINVAL: a required argument is missing, or has unknown bits. */
#define exp_wrong(ctx, what) exp_refuse(ctx, EINVAL, "%s: " what, __func__)
/* ENOMEM: malloc has failed. */
#define exp_no_memory(ctx) exp_refuse(ctx, ENOMEM, "%s: the process has no memory left", __func__)

/*
 * Events in the life of objects, for a provider that keeps records of them: without these it would take the next object at the
 * same address for the destroyed one. Called by this library's ordinary verbs (shca/interpose).
 */
struct exp_watch {
	/* Before an object is destroyed: takes its record out. Returns the record; NULL: there is none. */
	void *(*before_destroy)(const void *object);
	/* After the destruction, with the record that `leave` returned. gone: the object was destroyed, and the record is
	 * freed; else the record is entered again. */
	void (*after_destroy)(void *known, bool gone);
	void (*reset)(struct ibv_qp *qp);	/* the queue pair was moved to RESET */
	void (*closing)(struct ibv_context *ctx);	/* before the context is closed, with all its objects */
	/* ibv_dereg_mr. Returns false: the region is the device's. Returns true: the region was the provider's memory key; *rc is
	 * 0 and the key is gone, or *rc is an errno value and the key remains. */
	bool (*dereg_key)(struct ibv_mr *mr, int *rc);
};
extern const struct exp_watch *_Atomic exp_watch;	/* NULL: no provider keeps records */

/* Returns the value of a boolean variable of libshca. */
bool shca_env_bool(const char *name);

/* A resource domain (made by plain.c); providers ask for its promise. */
struct exp_res_domain {
	struct ibv_exp_res_domain d;
	bool single_threaded;			/* at most one thread at a time uses the domain's objects */
};
/* A NULL domain promises nothing. */
static inline bool exp_single_threaded(const struct ibv_exp_res_domain *domain)
{
	return domain && ((const struct exp_res_domain *)domain)->single_threaded;
}

#endif
