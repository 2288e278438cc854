/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * XRC's receiving queue pairs: handles to what is common to all who have one (engine/common.h). ibv_create_qp makes the queue pair and
 * the first handle, ibv_open_qp further ones, in any process that has the domain; with the last one it goes.
 */
#include <errno.h>
#include <stdlib.h>

#include "shca/engine/common.h"
#include "shca/verbs/control.h"

_Static_assert(sizeof(struct ibv_qp_attr) <= sizeof(((struct shca_common_qp *)NULL)->attr), "attributes as they are queried");

/* A handle to c, whose lock the caller has. NULL with errno. */
static struct shca_user_qp *handle_new(struct ibv_context *ctx, struct shca_thread *thr, struct shca_common_qp *c,
				       const struct ibv_qp_init_attr_ex *attr)
{
	struct shca_context *context = shca_context_of(ctx);
	struct shca_qp_create cr = {.attr = *attr, .type = IBV_QPT_XRC_RECV};
	struct shca_user_qp *qp = calloc(1, sizeof *qp);
	struct shca_tagged *t;

	if (!qp) {
		errno = shca_no_memory("create_qp, open_qp");
		return NULL;
	}
	qp->m = context->m;
	qp->type = IBV_QPT_XRC_RECV;
	qp->xrcd = (struct shca_user_xrcd *)attr->xrcd;
	qp->common = c;
	qp->sh = &c->qp;
	qp->off = shca_off_of(context->m, c);
	qp->holder = shca_common_hold(thr, c);
	if (!qp->holder) {
		errno = shca_refuse(ENOMEM, "open_qp: queue pair %#x has %u handles, which is the most", c->qp.qpn, SHCA_COMMON_HOLDERS);
		free(qp);
		return NULL;
	}
	SHCA_FAILPOINT(thr, "common-held", NULL, 0);
	/* of the handles of a process, completions name the first */
	t = shca_local_get(context->m, c->qp.qpn);
	if ((!t || !t->qp) && shca_local_set(context->m, c->qp.qpn, SHCA_KIND_QP, qp)) {
		atomic_store(qp->holder, 0);
		free(qp);
		errno = shca_no_memory("create_qp, open_qp");
		return NULL;
	}
	shca_qp_fill_verbs(qp, ctx, &cr);
	qp->qp.state = shca_qp_state(qp);
	shca_qp_enter(context, qp);
	return qp;
}

struct shca_user_qp *shca_xrc_new(struct ibv_context *ctx, const struct ibv_qp_init_attr_ex *attr)
{
	const struct shca_user_xrcd *xrcd = (struct shca_user_xrcd *)attr->xrcd;
	struct shca_member *m = shca_context_of(ctx)->m;
	struct shca_thread *thr = shca_thread_get(m);
	struct shca_common_qp *c = thr ? shca_common_take(thr) : NULL;
	struct shca_user_qp *qp;
	int err;

	if (!c) {
		errno = thr ? ENOMEM : errno;	/* said: shca_common_grow, shca_thread_get */
		return NULL;
	}
	c->qp.proc = shca_xrcd_is_common(xrcd) ? SHCA_COMMON : (uint16_t)m->slot;
	c->qp.port = 1;
	c->qp.xrcd = xrcd->number;
	c->qp.mtu = 4096;
	atomic_store(&c->qp.enabled, UINT64_MAX);
	atomic_store(&c->qp.qp_state, IBV_QPS_RESET);
	/* last: what has no type is none yet */
	c->qp.type = IBV_QPT_XRC_RECV;
	SHCA_FAILPOINT(thr, "common-made", NULL, 0);
	qp = handle_new(ctx, thr, c, attr);
	err = errno;
	if (qp)
		shca_number_set(m, c->qp.qpn, SHCA_KIND_QP, qp->off);
	SHCA_FAILPOINT(thr, "common-published", NULL, 0);
	shca_common_unlock(thr, c);
	errno = err;
	return qp;
}

struct ibv_qp *shca_open_qp(struct ibv_context *ctx, struct ibv_qp_open_attr *attr)
{
	const uint32_t need = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE;
	struct shca_member *m = shca_context_of(ctx)->m;
	struct shca_user_qp *qp = NULL;
	struct shca_thread *thr;
	struct shca_common_qp *c;
	int err;

	if (shca_unusable(ctx))
		return NULL;
	if ((attr->comp_mask & need) != need || (attr->comp_mask & ~(need | (uint32_t)IBV_QP_OPEN_ATTR_CONTEXT)) || !attr->xrcd ||
	    attr->qp_type != IBV_QPT_XRC_RECV) {
		errno = shca_refuse(EINVAL, "open_qp: comp_mask %#x (NUM, XRCD and TYPE are needed), type %d: only XRC_RECV is opened",
				    attr->comp_mask, attr->qp_type);
		return NULL;
	}
	/* others may reach this process from now on, and have to learn of its death */
	err = shca_helper_start(m);
	thr = err ? NULL : shca_thread_get(m);
	if (!thr) {
		errno = err ? -err : errno;
		return NULL;
	}
	c = shca_common_find(thr, attr->qp_num);
	if (!c) {
		errno = shca_refuse(EINVAL, "open_qp: there is no XRC_RECV queue pair %#x, or no more", attr->qp_num);
		return NULL;
	}
	SHCA_FAILPOINT(thr, "common-found", NULL, 0);
	if (c->qp.xrcd != ((struct shca_user_xrcd *)attr->xrcd)->number) {
		err = shca_refuse(EINVAL, "open_qp: queue pair %#x is of another XRC domain", attr->qp_num);
	} else {
		struct ibv_qp_init_attr_ex init = {
			.qp_context = attr->comp_mask & IBV_QP_OPEN_ATTR_CONTEXT ? attr->qp_context : NULL,
			.qp_type = IBV_QPT_XRC_RECV, .xrcd = attr->xrcd,
		};
		qp = handle_new(ctx, thr, c, &init);
		err = errno;
	}
	shca_common_unlock(thr, c);
	errno = err;
	return qp ? &qp->qp : NULL;
}

void shca_xrc_lock(struct shca_thread *thr, struct shca_user_qp *qp)
{
	shca_common_lock(thr, qp->common);
	memcpy(&qp->attr, qp->common->attr, sizeof qp->attr);
	SHCA_FAILPOINT(thr, "common-locked", NULL, 0);
}

void shca_xrc_unlock(struct shca_thread *thr, struct shca_user_qp *qp)
{
	shca_common_unlock(thr, qp->common);
}

void shca_xrc_applied(struct shca_user_qp *qp)
{
	memcpy(qp->common->attr, &qp->attr, sizeof qp->attr);
}

void shca_xrc_to_error(struct shca_thread *thr, struct shca_user_qp *qp)
{
	bool already = shca_qp_state(qp) == IBV_QPS_ERR;

	shca_common_job(qp->common, already ? SHCA_JOB_NONE : SHCA_JOB_ERROR);
	atomic_store(&qp->sh->gate, SHCA_GATE_ERR);
	SHCA_FAILPOINT(thr, "common-gate", NULL, 0);
	shca_common_withdraw(qp->m, qp->common);
	atomic_store(&qp->sh->qp_state, IBV_QPS_ERR);
	shca_common_quiesce(thr, qp->common);
	if (already)
		return;
	shca_enter(thr);
	shca_qp_event(thr, qp->sh, IBV_EVENT_QP_LAST_WQE_REACHED);
	shca_leave(thr);
}

bool shca_xrc_to_reset(struct shca_thread *thr, struct shca_user_qp *qp)
{
	shca_common_job(qp->common, SHCA_JOB_RESET);
	atomic_store(&qp->sh->gate, 0);
	SHCA_FAILPOINT(thr, "common-gate", NULL, 0);
	shca_common_withdraw(qp->m, qp->common);
	shca_common_quiesce(thr, qp->common);
	shca_common_clear(qp->common);
	memset(&qp->attr, 0, sizeof qp->attr);
	/* what others have not read is theirs to read */
	return (atomic_fetch_and(qp->holder, UINT32_MAX) >> 32) != 0;
}

void shca_xrc_unmap(struct shca_user_qp *qp)
{
	struct shca_context *c = shca_context_of(qp->qp.context);
	struct shca_thread *thr = shca_thread_get(qp->m);	/* has one: shca_no_thread */

	if (shca_local_get(qp->m, qp->qp.qp_num)->qp == qp)
		shca_local_set(qp->m, qp->qp.qp_num, SHCA_KIND_NONE, NULL);
	shca_common_lock(thr, qp->common);
	if (shca_common_part(thr, qp->common, qp->holder))
		shca_events_gone(c);
	qp->sh = NULL;
}
