/* SPDX-License-Identifier: BSD-3-Clause */
/* The manual's older XRC calls over ordinary ones: receiving queue pairs by number. */
#include "verbs_exp/exported.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

#include "verbs_exp/provider.h"

/* A receiving queue pair for which this process is registered. */
struct registered {
	struct registered *next;
	struct ibv_xrcd *domain;
	struct ibv_qp *qp;
};
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct registered *all;

/* Returns an errno value in the manner of these calls: -1 with errno. */
static int result(int err)
{
	if (!err)
		return 0;
	errno = err;
	return -1;
}

/* Returns the link to the entry; the link is NULL if this process is not registered. Must: the mutex is held. */
static struct registered **xrc_find(const struct ibv_xrcd *domain, uint32_t number)
{
	struct registered **at = &all;

	while (*at && ((*at)->domain != domain || (*at)->qp->qp_num != number))
		at = &(*at)->next;
	return at;
}

struct ibv_xrc_domain *ibv_open_xrc_domain(struct ibv_context *context, int fd, int oflag)
{
	struct ibv_xrcd_init_attr attr = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = fd, .oflags = oflag,
	};

	if (!context) {
		errno = exp_wrong(context, "NULL for the context");
		return NULL;
	}
	return ibv_open_xrcd(context, &attr);
}

int ibv_close_xrc_domain(struct ibv_xrc_domain *d)
{
	return result(d ? ibv_close_xrcd(d) : exp_wrong(NULL, "NULL for the domain"));
}

struct ibv_srq *ibv_create_xrc_srq(struct ibv_pd *pd, struct ibv_xrc_domain *xrc_domain, struct ibv_cq *xrc_cq,
				   struct ibv_srq_init_attr *srq_init_attr)
{
	struct ibv_srq_init_attr_ex attr = {
		.srq_type = IBV_SRQT_XRC, .pd = pd, .xrcd = xrc_domain, .cq = xrc_cq,
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
	};
	struct ibv_srq *srq;

	if (!pd || !xrc_domain || !xrc_cq || !srq_init_attr) {
		errno = exp_wrong(pd ? pd->context : NULL, "both domains, a completion queue and attributes are needed");
		return NULL;
	}
	attr.srq_context = srq_init_attr->srq_context;
	attr.attr = srq_init_attr->attr;
	srq = ibv_create_srq_ex(pd->context, &attr);
	if (srq)
		srq_init_attr->attr = attr.attr;
	return srq;
}

/* Must: the mutex is held. */
static void xrc_enter(struct registered *r)
{
	r->next = all;
	all = r;
}

int ibv_create_xrc_rcv_qp(struct ibv_qp_init_attr_ex *init_attr, uint32_t *xrc_rcv_qpn)
{
	struct ibv_qp_init_attr_ex attr = {.qp_type = IBV_QPT_XRC_RECV, .comp_mask = IBV_QP_INIT_ATTR_XRCD};
	struct registered *r;

	if (!init_attr || !init_attr->xrcd || !xrc_rcv_qpn)
		return result(exp_wrong(NULL, "attributes with an XRC domain, and room for the number, are needed"));
	r = malloc(sizeof(*r));
	if (!r)
		return result(exp_no_memory(init_attr->xrcd->context));
	attr.qp_context = init_attr->qp_context;
	attr.xrcd = r->domain = init_attr->xrcd;
	r->qp = ibv_create_qp_ex(attr.xrcd->context, &attr);
	if (!r->qp) {
		free(r);
		return -1;
	}
	*xrc_rcv_qpn = r->qp->qp_num;
	pthread_mutex_lock(&mutex);
	xrc_enter(r);
	pthread_mutex_unlock(&mutex);
	return 0;
}

/* Opens a handle of the queue pair, which another process may have made. Returns NULL with errno. */
static struct ibv_qp *open_number(struct ibv_xrc_domain *xrc_domain, uint32_t number)
{
	struct ibv_qp_open_attr attr = {
		.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE, .qp_num = number,
		.xrcd = xrc_domain, .qp_type = IBV_QPT_XRC_RECV,
	};

	return ibv_open_qp(xrc_domain->context, &attr);
}

/*
 * Finds the queue pair for modify and query, which need the domain and the number only: a process that is not registered opens
 * a handle for the duration of the call. Returns NULL with errno. The mutex is held until xrc_give_back, so that no thread
 * unregisters meanwhile. So other threads' calls wait while one waits for another process at the queue pair, which may be
 * stopped.
 */
static struct ibv_qp *borrow(struct ibv_xrc_domain *xrc_domain, uint32_t number, bool *ours)
{
	pthread_mutex_lock(&mutex);
	struct registered *r = *xrc_find(xrc_domain, number);
	*ours = r != NULL;
	return r ? r->qp : open_number(xrc_domain, number);
}

static void xrc_give_back(struct ibv_qp *qp, bool ours)
{
	pthread_mutex_unlock(&mutex);
	if (qp && !ours)
		ibv_destroy_qp(qp);
}

int ibv_modify_xrc_rcv_qp(struct ibv_xrc_domain *xrc_domain, uint32_t xrc_qp_num, struct ibv_qp_attr *attr, int attr_mask)
{
	struct ibv_qp *qp;
	bool ours;
	int err;

	if (!xrc_domain || !attr)
		return result(exp_wrong(xrc_domain ? xrc_domain->context : NULL, "a domain and attributes are needed"));
	qp = borrow(xrc_domain, xrc_qp_num, &ours);
	err = qp ? ibv_modify_qp(qp, attr, attr_mask) : errno;
	xrc_give_back(qp, ours);
	return result(err);
}

int ibv_query_xrc_rcv_qp(struct ibv_xrc_domain *xrc_domain, uint32_t xrc_qp_num, struct ibv_qp_attr *attr, int attr_mask,
			 struct ibv_qp_init_attr *init_attr)
{
	struct ibv_qp *qp;
	bool ours;
	int err;

	if (!xrc_domain || !attr || !init_attr)
		return result(
			exp_wrong(xrc_domain ? xrc_domain->context : NULL, "a domain, and room for attributes, are needed"));
	qp = borrow(xrc_domain, xrc_qp_num, &ours);
	err = qp ? ibv_query_qp(qp, attr, attr_mask, init_attr) : errno;
	xrc_give_back(qp, ours);
	return result(err);
}

int ibv_reg_xrc_rcv_qp(struct ibv_xrc_domain *xrc_domain, uint32_t xrc_qp_num)
{
	struct registered *r;
	int err = 0;

	if (!xrc_domain)
		return result(exp_wrong(NULL, "NULL for the domain"));
	/* held until the entry is made: of two threads, one opens the queue pair */
	pthread_mutex_lock(&mutex);
	/* a second registration changes nothing */
	if (*xrc_find(xrc_domain, xrc_qp_num))
		goto out;
	r = malloc(sizeof(*r));
	if (!r) {
		err = exp_no_memory(xrc_domain->context);
		goto out;
	}
	r->domain = xrc_domain;
	r->qp = open_number(xrc_domain, xrc_qp_num);
	if (r->qp) {
		xrc_enter(r);
	} else {
		err = errno;
		free(r);
	}
out:
	pthread_mutex_unlock(&mutex);
	return result(err);
}

int ibv_unreg_xrc_rcv_qp(struct ibv_xrc_domain *xrc_domain, uint32_t xrc_qp_num)
{
	struct registered **at, *r;
	int err;

	pthread_mutex_lock(&mutex);
	at = xrc_find(xrc_domain, xrc_qp_num);
	r = *at;
	if (r)
		*at = r->next;
	pthread_mutex_unlock(&mutex);
	if (!r)
		return result(
			exp_refuse(xrc_domain ? xrc_domain->context : NULL, EINVAL,
				   "ibv_unreg_xrc_rcv_qp: this process is not registered for queue pair %#x of that domain",
				   xrc_qp_num));
	/* The mutex is not held: ibv_destroy_qp waits for events of the queue pair to be acknowledged, and the thread that has
	 * them may need the mutex. */
	err = ibv_destroy_qp(r->qp);
	if (!err) {
		free(r);
		return 0;
	}
	pthread_mutex_lock(&mutex);
	xrc_enter(r);
	pthread_mutex_unlock(&mutex);
	return result(err);
}
