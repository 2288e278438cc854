/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * DC targets of the experimental verbs (manual, A.1.3 to A.1.6): a DC target queue pair that is brought up when the target is
 * made, and the attributes that the experimental verbs report of the target.
 */
#include <errno.h>
#include <stdlib.h>

#include "shca/verbs/control.h"

/* 0 or an errno value. */
static int bring_up(struct ibv_qp *qp, const struct ibv_exp_dct_init_attr *init)
{
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_INIT, .pkey_index = init->pkey_index, .port_num = init->port,
		.qp_access_flags = init->access_flags,
	};
	int err = shca_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);

	if (err)
		return err;
	a = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTR, .path_mtu = init->mtu, .min_rnr_timer = init->min_rnr_timer,
		.ah_attr = {
			.is_global = 1, .dlid = shca_lid(shca_context_of(qp->context)->m, init->port), .port_num = init->port,
			.grh = {
				.sgid_index = init->gid_index, .hop_limit = init->hop_limit, .traffic_class = init->tclass,
				.flow_label = init->flow_label,
			},
		},
	};
	return shca_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PATH_MTU | IBV_QP_AV | IBV_QP_MIN_RNR_TIMER);
}

struct ibv_exp_dct *shca_create_dct(struct ibv_context *ctx, struct ibv_exp_dct_init_attr *init)
{
	struct shca_qp_create cr = {
		.type = SHCA_QPT_DCT, .dc_key = init->dc_key,
		.attr = {
			.qp_type = IBV_QPT_DRIVER, .comp_mask = IBV_QP_INIT_ATTR_PD, .pd = init->pd, .recv_cq = init->cq,
			.srq = init->srq,
		},
	};
	struct shca_user_dct *d = calloc(1, sizeof *d);
	int err;

	if (!d) {
		errno = shca_no_memory("create_dct");
		return NULL;
	}
	d->qp = shca_qp_new(ctx, &cr);
	if (!d->qp) {
		free(d);
		return NULL;
	}
	d->dct = (struct ibv_exp_dct){
		.context = ctx, .handle = d->qp->qp.qp_num, .dct_num = d->qp->qp.qp_num, .pd = init->pd, .srq = init->srq,
		.cq = init->cq,
	};
	d->attr = (struct ibv_exp_dct_attr){
		.dc_key = init->dc_key, .port = init->port, .access_flags = init->access_flags,
		.min_rnr_timer = init->min_rnr_timer, .tclass = init->tclass, .flow_label = init->flow_label, .mtu = init->mtu,
		.pkey_index = init->pkey_index, .gid_index = init->gid_index, .hop_limit = init->hop_limit, .srq = init->srq,
		.cq = init->cq, .pd = init->pd,
	};
	pthread_mutex_init(&d->dct.mutex, NULL);
	pthread_cond_init(&d->dct.cond, NULL);
	/* before the queue pair can have an event, or be reported in a completion */
	d->qp->dct = &d->dct;
	err = bring_up(&d->qp->qp, init);
	if (err) {
		shca_destroy_dct(&d->dct);
		errno = err;
		return NULL;
	}
	init->inline_size = 0;
	return &d->dct;
}

int shca_query_dct(struct ibv_exp_dct *dct, struct ibv_exp_dct_attr *attr)
{
	struct shca_user_dct *d = shca_user_dct_of(dct);

	if (shca_unusable(dct->context))
		return errno;
	*attr = d->attr;
	attr->key_violations = atomic_load(&d->qp->sh->dc_violations);
	attr->state = shca_qp_state(d->qp) == IBV_QPS_ERR ? IBV_EXP_DCT_STATE_DRAINED : IBV_EXP_DCT_STATE_ACTIVE;
	return 0;
}

int shca_arm_dct(struct ibv_exp_dct *dct)
{
	if (shca_unusable(dct->context))
		return errno;
	atomic_fetch_or(&shca_user_dct_of(dct)->qp->sh->events, SHCA_DC_ARMED);
	return 0;
}

int shca_destroy_dct(struct ibv_exp_dct *dct)
{
	struct shca_user_dct *d = shca_user_dct_of(dct);
	int err = shca_destroy_qp(&d->qp->qp);

	if (err)
		return err;
	pthread_mutex_destroy(&dct->mutex);
	pthread_cond_destroy(&dct->cond);
	free(d);
	return 0;
}
