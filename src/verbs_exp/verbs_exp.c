/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The experimental verbs (appendices B and D of the manual): validation, then the provider of the context. A context without a
 * provider gets EOPNOTSUPP and empty capabilities: nothing is emulated above a device.
 */
#include "verbs_exp/exported.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "verbs_exp/provider.h"
#include "verbs_exp/validate.h"

/* Refuses a call with NULL for the object or for its attributes. Returns EINVAL. */
static int provider_missing(const char *call, struct ibv_context *context)
{
	return exp_refuse(context, EINVAL, "%s: NULL for an object or for its attributes", call);
}

/* Refuses a call on a context without a provider. Returns EOPNOTSUPP. */
static int not_provided(const char *call)
{
	return shca_refuse(EOPNOTSUPP, "%s: the device has no experimental verbs", call);
}

int ibv_exp_query_device(struct ibv_context *context, struct ibv_exp_device_attr *attr)
{
	const uint32_t known = (IBV_EXP_DEVICE_ATTR_RESERVED - 1) | SHCA_EXP_DEVICE_ATTR_EXTENSIONS;
	const struct ibv_exp_provider *ops;
	uint32_t wanted;

	if (!context || !attr)
		return provider_missing(__func__, context);
	/* bits of a later header are cleared in the answer */
	wanted = attr->comp_mask & known;
	/* A program that was written for the vendor's header does not ask for the extensions, and has no memory for them. */
	memset(attr, 0, wanted & SHCA_EXP_DEVICE_ATTR_EXTENSIONS ? sizeof(*attr) :
								   offsetof(struct ibv_exp_device_attr, max_task_wrs));
	ops = exp_provider(context);
	if (!ops)
		return not_provided(__func__);
	attr->comp_mask = wanted;
	return ops->query_device(context, attr);
}

/* Returns the provider for a call that creates an object; NULL with errno if err, or without a provider. */
static const struct ibv_exp_provider *provider_unless(int err, const char *call, struct ibv_context *context)
{
	const struct ibv_exp_provider *ops = err ? NULL : exp_provider(context);

	if (!ops)
		errno = err ? err : not_provided(call);
	return ops;
}

struct ibv_cq *ibv_exp_create_cq(struct ibv_context *context, int cqe, void *cq_context,
				 struct ibv_comp_channel *channel, int comp_vector, struct ibv_exp_cq_init_attr *attr)
{
	const struct ibv_exp_provider *ops;
	int err;

	err = context ? exp_check_cq_init(context, cqe, attr) : provider_missing(__func__, context);
	if (!err && channel && channel->context != context)
		err = exp_refuse(context, EINVAL, "ibv_exp_create_cq: the completion channel is of another context");
	ops = provider_unless(err, __func__, context);
	return ops ? ops->create_cq(context, cqe, cq_context, channel, comp_vector, attr) : NULL;
}

int ibv_exp_modify_cq(struct ibv_cq *cq, struct ibv_exp_cq_attr *attr, int attr_mask)
{
	const struct ibv_exp_provider *ops;
	int err;

	err = cq ? exp_check_cq_attr(cq, attr, attr_mask) : provider_missing(__func__, NULL);
	if (err)
		return err;
	ops = exp_provider(cq->context);
	return ops ? ops->modify_cq(cq, attr, attr_mask) : not_provided(__func__);
}

struct ibv_qp *ibv_exp_create_qp(struct ibv_context *context, struct ibv_exp_qp_init_attr *attr)
{
	const struct ibv_exp_provider *ops;
	int err;

	err = context ? exp_check_qp_init(context, attr) : provider_missing(__func__, context);
	ops = provider_unless(err, __func__, context);
	return ops ? ops->create_qp(context, attr) : NULL;
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
		return provider_missing(__func__, qp ? qp->context : NULL);
	ops = exp_provider(qp->context);
	if (!ops)
		return not_provided(__func__);

	/* As ibv_post_send: requests before the refused one are posted. */
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
		return provider_missing(__func__, context);
	ops = exp_provider(context);
	if (!ops)
		return not_provided(__func__);
	for (struct ibv_exp_task *t = task; t; t = t->next) {
		int err = exp_check_task(context, t);

		if (err) {
			*bad_task = t;
			return err;
		}
	}
	return ops->post_task(context, task, bad_task);
}

int ibv_exp_modify_qp(struct ibv_qp *qp, struct ibv_exp_qp_attr *attr, uint64_t exp_attr_mask)
{
	const struct ibv_exp_provider *ops;

	if (!qp || !attr)
		return provider_missing(__func__, qp ? qp->context : NULL);
	ops = exp_provider(qp->context);
	return ops ? ops->modify_qp(qp, attr, exp_attr_mask) : not_provided(__func__);
}

int ibv_exp_query_qp(struct ibv_qp *qp, struct ibv_exp_qp_attr *attr, uint64_t exp_attr_mask,
		     struct ibv_exp_qp_init_attr *init_attr)
{
	struct ibv_qp_init_attr init = {.qp_context = NULL};
	const struct ibv_exp_provider *ops;
	int err;

	if (!qp || !attr)
		return provider_missing(__func__, qp ? qp->context : NULL);
	ops = exp_provider(qp->context);
	if (!ops)
		return not_provided(__func__);
	memset(attr, 0, sizeof(*attr));
	err = ops->query_qp(qp, attr, exp_attr_mask, &init);
	if (!err && init_attr)
		*init_attr = (struct ibv_exp_qp_init_attr){
			.qp_context = init.qp_context, .send_cq = init.send_cq, .recv_cq = init.recv_cq, .srq = init.srq,
			.cap = init.cap, .qp_type = init.qp_type, .sq_sig_all = init.sq_sig_all,
			.comp_mask = qp->pd ? IBV_EXP_QP_INIT_ATTR_PD : 0, .pd = qp->pd,
		};
	return err;
}

/* ---- DC targets -------------------------------------------------------------------------------------------------- */

struct ibv_exp_dct *ibv_exp_create_dct(struct ibv_context *context, struct ibv_exp_dct_init_attr *attr)
{
	const struct ibv_exp_provider *ops;
	int err;

	err = context ? exp_check_dct_init(context, attr) : provider_missing(__func__, context);
	ops = provider_unless(err, __func__, context);
	return ops ? ops->create_dct(context, attr) : NULL;
}

int ibv_exp_query_dct(struct ibv_exp_dct *dct, struct ibv_exp_dct_attr *attr)
{
	return dct && attr ? exp_provider(dct->context)->query_dct(dct, attr) :
			     provider_missing(__func__, dct ? dct->context : NULL);
}

int ibv_exp_arm_dct(struct ibv_exp_dct *dct, struct ibv_exp_arm_attr *attr)
{
	return dct ? exp_provider(dct->context)->arm_dct(dct) : provider_missing(__func__, NULL);
}

int ibv_exp_destroy_dct(struct ibv_exp_dct *dct)
{
	return dct ? exp_provider(dct->context)->destroy_dct(dct) : provider_missing(__func__, NULL);
}

/* ---- completions ------------------------------------------------------------------------------------------------- */

int ibv_exp_poll_cq(struct ibv_cq *cq, int num_entries, struct ibv_exp_wc *wc, uint32_t wc_size)
{
	const struct ibv_exp_provider *ops = cq ? exp_provider(cq->context) : NULL;
	struct ibv_exp_wc one;
	int n = 0;

	if (!ops)
		return -(cq ? not_provided(__func__) : provider_missing(__func__, NULL));
	if (num_entries < 0 || (num_entries && !wc) || !wc_size)
		return -ops->refuse(EINVAL, "ibv_exp_poll_cq: %d completions of %u bytes to %p", num_entries, wc_size,
				    (void *)wc);
	if (wc_size == sizeof(*wc))
		return ops->poll_cq(cq, num_entries, wc);
	/* the caller was built with a shorter or longer struct ibv_exp_wc */
	for (; n < num_entries; n++) {
		char *to = (char *)wc + (size_t)n * wc_size;
		int got = ops->poll_cq(cq, 1, &one);

		if (got <= 0)
			return n ? n : got;
		if (wc_size > sizeof(one))
			memset(to + sizeof(one), 0, wc_size - sizeof(one));
		memcpy(to, &one, wc_size < sizeof(one) ? wc_size : sizeof(one));
	}
	return n;
}
