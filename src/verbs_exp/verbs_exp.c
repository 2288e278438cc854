/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The experimental verbs (appendices B and D of the manual): validates, then hands over to the provider of the
 * context. A context that no provider knows is answered with EOPNOTSUPP and empty capabilities; nothing is
 * emulated in software above a device that cannot do it.
 */
#ifdef SHCA_EXPORT	/* libshca.so offers them to strangers */
#pragma GCC visibility push(default)
#endif
#include <infiniband/verbs_exp.h>
#ifdef SHCA_EXPORT
#pragma GCC visibility pop
#endif

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "verbs_exp/provider.h"
#include "verbs_exp/validate.h"

/* One provider so far. One for devices that take raw work requests would be asked after it. */
static const struct ibv_exp_provider *provider(struct ibv_context *ctx)
{
	return ctx ? shca_exp_provider(ctx) : NULL;
}

int ibv_exp_query_device(struct ibv_context *context, struct ibv_exp_device_attr *attr)
{
	const uint32_t known = IBV_EXP_DEVICE_ATTR_EXP_CAP_FLAGS | IBV_EXP_DEVICE_ATTR_CALC_CAP |
			       IBV_EXP_DEVICE_ATTR_EXT_ATOMIC_ARGS | SHCA_EXP_DEVICE_ATTR_EXTENSIONS;
	const struct ibv_exp_provider *ops;
	uint32_t wanted;

	if (!context || !attr)
		return EINVAL;
	/* a later header's bits are answered by their absence */
	wanted = attr->comp_mask & known;
	/* what a program knows that was built with an earlier header ends before the extensions */
	memset(attr, 0, wanted & SHCA_EXP_DEVICE_ATTR_EXTENSIONS ? sizeof(*attr) :
								   offsetof(struct ibv_exp_device_attr, shca_extensions));
	ops = provider(context);
	if (!ops)
		return EOPNOTSUPP;
	attr->comp_mask = wanted;
	return ops->query_device(context, attr);
}

struct ibv_cq *ibv_exp_create_cq(struct ibv_context *context, int cqe, void *cq_context,
				 struct ibv_comp_channel *channel, int comp_vector, struct ibv_exp_cq_init_attr *attr)
{
	const struct ibv_exp_provider *ops;
	int err;

	err = context ? exp_check_cq_init(cqe, attr) : EINVAL;
	if (!err && channel && channel->context != context)
		err = EINVAL;
	if (err) {
		errno = err;
		return NULL;
	}
	ops = provider(context);
	if (!ops) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	return ops->create_cq(context, cqe, cq_context, channel, comp_vector, attr);
}

int ibv_exp_modify_cq(struct ibv_cq *cq, struct ibv_exp_cq_attr *attr, int attr_mask)
{
	const struct ibv_exp_provider *ops;
	int err;

	err = cq ? exp_check_cq_attr(attr, attr_mask) : EINVAL;
	if (err)
		return err;
	ops = provider(cq->context);
	return ops ? ops->modify_cq(cq, attr, attr_mask) : EOPNOTSUPP;
}

struct ibv_qp *ibv_exp_create_qp(struct ibv_context *context, struct ibv_exp_qp_init_attr *attr)
{
	const struct ibv_exp_provider *ops;
	int err;

	err = context ? exp_check_qp_init(context, attr) : EINVAL;
	if (err) {
		errno = err;
		return NULL;
	}
	ops = provider(context);
	if (!ops) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	return ops->create_qp(context, attr);
}

int ibv_exp_post_send(struct ibv_qp *qp, struct ibv_exp_send_wr *wr, struct ibv_exp_send_wr **bad_wr)
{
	const struct ibv_exp_provider *ops;
	struct ibv_exp_send_wr *bad;
	int err, first_err = 0;

	if (!bad_wr)
		bad_wr = &bad;
	*bad_wr = wr;
	if (!qp || !wr)
		return EINVAL;
	ops = provider(qp->context);
	if (!ops)
		return EOPNOTSUPP;

	/* Like ibv_post_send: what stands before the refused request is posted. */
	for (struct ibv_exp_send_wr *w = wr, *prev = NULL; w; prev = w, w = w->next) {
		first_err = exp_check_send_wr(qp, w);
		if (!first_err)
			continue;
		*bad_wr = w;
		if (!prev)
			return first_err;
		prev->next = NULL;
		err = ops->post_send(qp, wr, bad_wr);
		prev->next = w;
		if (err)
			return err;
		*bad_wr = w;
		return first_err;
	}
	return ops->post_send(qp, wr, bad_wr);
}

int ibv_exp_post_task(struct ibv_context *context, struct ibv_exp_task *task, struct ibv_exp_task **bad_task)
{
	const struct ibv_exp_provider *ops;
	struct ibv_exp_task *bad;

	if (!bad_task)
		bad_task = &bad;
	*bad_task = task;
	if (!context || !task)
		return EINVAL;
	ops = provider(context);
	if (!ops)
		return EOPNOTSUPP;
	for (struct ibv_exp_task *t = task; t; t = t->next) {
		int err = exp_check_task(context, t);

		if (err) {
			*bad_task = t;
			return err;
		}
	}
	return ops->post_task(context, task, bad_task);
}
