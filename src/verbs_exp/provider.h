/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the experimental verbs (<infiniband/verbs_exp.h>) want of whoever offers them for a device, its provider. The
 * arguments were validated as far as that needs no knowledge of the objects' insides (validate.c); what depends on them is
 * the provider's to check: whether a queue is cross-channel or managed, how far its requests are posted, the operand sizes
 * that the device can do.
 */
#ifndef IBV_EXP_PROVIDER_H
#define IBV_EXP_PROVIDER_H

#include <infiniband/verbs.h>
#include <infiniband/verbs_exp.h>
#include <stdatomic.h>
#include <stdbool.h>

struct ibv_exp_provider {
	/* Fill in what attr->comp_mask asks for. All integer results: 0 or an errno value. */
	int (*query_device)(struct ibv_context *ctx, struct ibv_exp_device_attr *attr);
	/* NULL with errno on failure. attr may be NULL: no flags. */
	struct ibv_cq *(*create_cq)(struct ibv_context *ctx, int cqe, void *cq_context,
				    struct ibv_comp_channel *channel, int comp_vector,
				    struct ibv_exp_cq_init_attr *attr);
	int (*modify_cq)(struct ibv_cq *cq, struct ibv_exp_cq_attr *attr, int attr_mask);
	struct ibv_qp *(*create_qp)(struct ibv_context *ctx, struct ibv_exp_qp_init_attr *attr);
	int (*modify_qp)(struct ibv_qp *qp, const struct ibv_exp_qp_attr *attr, uint64_t mask);
	/* attr is clear. */
	int (*query_qp)(struct ibv_qp *qp, struct ibv_exp_qp_attr *attr, uint64_t mask, struct ibv_qp_init_attr *init);
	struct ibv_exp_dct *(*create_dct)(struct ibv_context *ctx, struct ibv_exp_dct_init_attr *attr);
	int (*query_dct)(struct ibv_exp_dct *dct, struct ibv_exp_dct_attr *attr);
	int (*arm_dct)(struct ibv_exp_dct *dct);
	int (*destroy_dct)(struct ibv_exp_dct *dct);
	/* As ibv_poll_cq. */
	int (*poll_cq)(struct ibv_cq *cq, int n, struct ibv_exp_wc *wc);
	/* Registers memory that the device allocates, and frees when it is deregistered. access: enum ibv_access_flags. */
	struct ibv_mr *(*reg_allocated)(struct ibv_pd *pd, size_t length, unsigned int access);
	/* *bad_wr and *bad_task name the refused element; neither pointer is NULL. */
	int (*post_send)(struct ibv_qp *qp, struct ibv_exp_send_wr *wr, struct ibv_exp_send_wr **bad_wr);
	int (*post_task)(struct ibv_context *ctx, struct ibv_exp_task *task, struct ibv_exp_task **bad_task);
	/* Says why a call was refused, to who wants to know. Returns err. */
	int (*refuse)(int err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
};

/* The providers that are linked in. Each tells its table for a context of its own, and NULL for any other context, which
 * it does not touch beyond what tells the two apart. The software HCA's: */
const struct ibv_exp_provider *shca_exp_provider(struct ibv_context *ctx);

/* An mlx5's, over mlx5dv (mlx5.c): of contexts that the first one does not know. */
const struct ibv_exp_provider *exp_mlx5_provider(struct ibv_context *ctx);

/* The provider of a context; NULL: none (verbs_exp.c). */
const struct ibv_exp_provider *exp_provider(struct ibv_context *ctx);
/* What is refused: returns err, and lets the context's provider say so; the software HCA's, where there is none or no context. */
int shca_refuse(int err, const char *fmt, ...) __attribute__((cold, format(printf, 2, 3)));
#define exp_refuse(ctx, err, ...)                                                                                   \
	({                                                                                                          \
		const struct ibv_exp_provider *ops_ = exp_provider(ctx);                                            \
		(ops_ ? ops_->refuse : shca_refuse)(err, __VA_ARGS__);                                              \
	})

/* EINVAL of a call whose arguments lack what they need, or have what nobody knows. */
#define exp_wrong(ctx, what) exp_refuse(ctx, EINVAL, "%s: " what, __func__)
/* ENOMEM of a call that found no memory of the process's own. */
#define exp_no_memory(ctx) exp_refuse(ctx, ENOMEM, "%s: the process has no memory left", __func__)

/*
 * What becomes of a device's objects by ordinary verbs, for a provider that knows more of them than they do: it would take the
 * next object at the same address for the one that is gone. Called by the ordinary verbs of this library (shca/interpose).
 */
struct exp_watch {
	/* The object is about to be destroyed: what is known of it is forgotten, and returned; NULL: nothing is. */
	void *(*leave)(const void *object);
	/* What leave returned. gone: it was destroyed; else it stays, and is known again. */
	void (*left)(void *known, bool gone);
	void (*reset)(struct ibv_qp *qp);	/* it is in RESET again */
	void (*closed)(struct ibv_context *ctx);	/* about to be closed, with all that belongs to it */
};
extern const struct exp_watch *_Atomic exp_watch;	/* NULL: nobody wants to know */

/* The value of a variable of libshca's. */
bool shca_env_bool(const char *name);

/* A resource domain (plain.c makes them): a provider asks what it promises. */
struct exp_res_domain {
	struct ibv_exp_res_domain d;
	bool single;			/* one thread at a time uses what belongs to it */
};
/* NULL: no domain, no promise. */
static inline bool exp_single_threaded(const struct ibv_exp_res_domain *domain)
{
	return domain && ((const struct exp_res_domain *)domain)->single;
}

#endif
