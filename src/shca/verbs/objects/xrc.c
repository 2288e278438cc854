/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * XRC's receiving queue pairs: each struct shca_user_qp is a handle to a queue pair that all its holders share
 * (engine/common.h). ibv_create_qp makes the queue pair and the first handle; ibv_open_qp makes further handles, in any process
 * that has the domain open; the queue pair goes with the last handle. Also the list of the processes that have a file's domain
 * open.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>

#include "shca/engine/common.h"
#include "shca/verbs/control.h"

_Static_assert(sizeof(struct ibv_qp_attr) <= sizeof(((struct shca_common_qp *)NULL)->attr), "attributes as they are queried");

/* ---- domains of files --------------------------------------------------------------------------------------------- */

enum found { FOUND_NONE, FOUND_BELOW, FOUND_ABOVE, FOUND_OPEN };

/* The state of other processes' handles to this domain: open, or being opened exclusively by a handle that lies above or below
 * `own`. Must be called inside the engine. */
static enum found xrc_others(struct shca_member *m, uint32_t number, shca_off own)
{
	uint32_t high = atomic_load(&m->hdr->proc_high);
	enum found found = FOUND_NONE;

	for (uint32_t p = 0; p < high; p++) {
		const struct shca_xrcd *x;
		for (shca_off at = __atomic_load_n(&m->procs[p].xrcd_list, __ATOMIC_ACQUIRE);
		     (x = shca_at_checked(m, at, sizeof(*x))); at = __atomic_load_n(&x->next, __ATOMIC_ACQUIRE)) {
			uint32_t state = atomic_load(&x->state);
			if (at == own || x->number != number || state == SHCA_XRCD_CLOSED || shca_proc_gone(m, p))
				continue;
			enum found this = state == SHCA_XRCD_OPEN ? FOUND_OPEN : at > own ? FOUND_ABOVE : FOUND_BELOW;
			found = this > found ? this : found;
		}
	}
	return found;
}

/* The rules of the kernel's ib_uverbs_open_xrcd. */
static int may_open(struct shca_thread *thr, const struct shca_user_xrcd *xrcd, int oflags)
{
	bool exclusive = oflags & O_EXCL;
	enum found found;

	if ((oflags & O_CREAT) && !exclusive)
		return 0;
	do {
		shca_enter(thr);
		found = xrc_others(thr->m, xrcd->number, xrcd->off);
		shca_leave(thr);
	} while (exclusive && found == FOUND_ABOVE && !sched_yield());
	if (exclusive && found != FOUND_NONE)
		return shca_refuse(EINVAL, "open_xrcd: O_EXCL, and the file has a domain that is open");
	if (!(oflags & O_CREAT) && found != FOUND_OPEN)
		return shca_refuse(EAGAIN, "open_xrcd: without O_CREAT, and no process has a domain of the file open");
	return 0;
}

int shca_xrcd_leave(struct shca_context *c, struct shca_user_xrcd *xrcd)
{
	struct shca_thread *thr = shca_thread_get(c->m);
	struct shca_xrcd *sh = shca_at(c->m->base, xrcd->off);

	if (!thr)
		return shca_no_thread("close_xrcd");
	/* before the quiesce: an opener that waits for this handle to decide is in and out of the engine meanwhile */
	atomic_store(&sh->state, SHCA_XRCD_CLOSED);
	pthread_mutex_lock(&c->node->mutex);
	shca_list_remove(&c->node->xrcds, &c->m->proc->xrcd_list, &xrcd->listed);
	pthread_mutex_unlock(&c->node->mutex);
	pthread_mutex_lock(&c->mutex);
	*xrcd->prev = xrcd->next;
	if (xrcd->next)
		xrcd->next->prev = xrcd->prev;
	pthread_mutex_unlock(&c->mutex);
	shca_quiesce(thr, thr->m->slot);
	shca_mem_free(c->m, xrcd->off, sizeof(*sh));
	xrcd->off = 0;
	return 0;
}

int shca_xrcd_enter(struct shca_context *c, struct shca_user_xrcd *xrcd, int oflags)
{
	struct shca_thread *thr = shca_thread_get(c->m);

	xrcd->off = thr ? shca_mem_alloc(c->m, sizeof(struct shca_xrcd)) : 0;
	if (!xrcd->off)
		return shca_no_memory("open_xrcd");
	struct shca_xrcd *sh = shca_at(c->m->base, xrcd->off);
	sh->number = xrcd->number;
	/* an opener without O_CREAT counts as having no domain until it has found an open one: exclusive openers skip it */
	atomic_store(&sh->state, !(oflags & O_CREAT) ? SHCA_XRCD_CLOSED : oflags & O_EXCL ? SHCA_XRCD_OPENING : SHCA_XRCD_OPEN);
	pthread_mutex_lock(&c->node->mutex);
	shca_list_add(&c->node->xrcds, &c->m->proc->xrcd_list, &xrcd->listed, xrcd->off, &sh->next);
	pthread_mutex_unlock(&c->node->mutex);
	pthread_mutex_lock(&c->mutex);
	xrcd->next = c->xrcds;
	xrcd->prev = &c->xrcds;
	if (xrcd->next)
		xrcd->next->prev = &xrcd->next;
	c->xrcds = xrcd;
	pthread_mutex_unlock(&c->mutex);
	/* the domain is in the list before may_open reads the list: of two openers at a time, one sees the other */
	shca_full_fence();
	int err = may_open(thr, xrcd, oflags);
	if (err)
		shca_xrcd_leave(c, xrcd);
	else
		atomic_store(&sh->state, SHCA_XRCD_OPEN);
	return err;
}

/* ---- receiving queue pairs ---------------------------------------------------------------------------------------- */

/* A handle to c. Must hold c's lock. NULL with errno. */
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
		errno = shca_refuse(ENOMEM, "open_qp: queue pair %#x has %u handles, which is the most", c->qp.qpn,
				    SHCA_COMMON_HOLDERS);
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
	atomic_store(&c->qp.path, SHCA_PATH_RESET);
	c->qp.xrcd = xrcd->number;
	c->qp.mtu = 4096;
	atomic_store(&c->qp.enabled, UINT64_MAX);
	atomic_store(&c->qp.qp_state, IBV_QPS_RESET);
	/* last: a queue pair without type is not there yet */
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
		errno = shca_refuse(EINVAL,
				    "open_qp: comp_mask %#x (NUM, XRCD and TYPE are needed), type %d: only XRC_RECV is opened",
				    attr->comp_mask, attr->qp_type);
		return NULL;
	}
	/* peers may reach this process from here on, and must learn of its death */
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
	shca_common_revoke(qp->m, qp->common);
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
	shca_common_revoke(qp->m, qp->common);
	shca_common_quiesce(thr, qp->common);
	shca_common_clear(qp->common);
	memset(&qp->attr, 0, sizeof qp->attr);
	/* events that other handles have not read stay theirs */
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
