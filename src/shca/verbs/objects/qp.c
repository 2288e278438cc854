/* SPDX-License-Identifier: BSD-3-Clause */
/* Queue pairs: create, modify, query, destroy. */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>

#include "shca/engine/common.h"
#include "shca/verbs/control.h"
#include "shca/verbs/submit/fast_write.h"
#include "shca/verbs/submit/post.h"

static bool has_send(uint8_t type)
{
	return type != IBV_QPT_XRC_RECV && type != SHCA_QPT_DCT;
}
static bool has_recv(uint8_t type)
{
	return type == IBV_QPT_RC || type == IBV_QPT_UC || type == IBV_QPT_UD;
}

/* ---- create ------------------------------------------------------------------------------------------------- */

static int create_check(const struct shca_qp_create *cr)
{
	const struct ibv_qp_init_attr_ex *a = &cr->attr;
	const struct ibv_qp_cap *cap = &a->cap;

	if (cr->type == IBV_QPT_XRC_RECV) {
		if (!(a->comp_mask & IBV_QP_INIT_ATTR_XRCD) || !a->xrcd)
			return shca_refuse(EINVAL, "create_qp: XRC_RECV needs an XRC domain");
		return 0;
	}
	if (!a->pd)
		return shca_refuse(EINVAL, "create_qp: no protection domain");
	if (has_send(cr->type) && !a->send_cq)
		return shca_refuse(EINVAL, "create_qp: no send completion queue");
	if ((has_recv(cr->type) || cr->type == SHCA_QPT_DCT) && !a->recv_cq)
		return shca_refuse(EINVAL, "create_qp: no receive completion queue");
	if ((a->send_cq && shca_cq_in_error(shca_user_cq_of(a->send_cq)->sh)) ||
	    (a->recv_cq && shca_cq_in_error(shca_user_cq_of(a->recv_cq)->sh)))
		return shca_refuse(EINVAL, "create_qp: the completion queue was overrun: destroy it, and make a larger one");
	if (cr->type == SHCA_QPT_DCT && !a->srq)
		return shca_refuse(EINVAL, "create_qp: a DC target needs a shared receive queue");
	if (a->srq && !has_recv(cr->type) && cr->type != SHCA_QPT_DCT)
		return shca_refuse(EINVAL, "create_qp: type %u takes no shared receive queue", cr->type);
	if (a->srq && shca_user_srq_of(a->srq)->type != IBV_SRQT_BASIC)
		return shca_refuse(EINVAL, "create_qp: the shared receive queue is an XRC one");
	if (has_send(cr->type) && (cap->max_send_wr > SHCA_MAX_QP_WR || cap->max_send_sge > SHCA_MAX_SGE ||
				   cap->max_inline_data > SHCA_MAX_INLINE))
		return shca_refuse(EINVAL, "create_qp: send %u requests (at most %d), %u segments (%d), %u inline (%d)",
				   cap->max_send_wr, SHCA_MAX_QP_WR, cap->max_send_sge, SHCA_MAX_SGE,
				   cap->max_inline_data, SHCA_MAX_INLINE);
	if (has_recv(cr->type) && !a->srq && (cap->max_recv_wr > SHCA_MAX_QP_WR || cap->max_recv_sge > SHCA_MAX_SGE))
		return shca_refuse(EINVAL, "create_qp: receive %u requests (at most %d), %u segments (%d)",
				   cap->max_recv_wr, SHCA_MAX_QP_WR, cap->max_recv_sge, SHCA_MAX_SGE);
	return 0;
}

static uint64_t sq_bytes(const struct shca_user_qp *qp)
{
	return (uint64_t)qp->sh->sq_stride * qp->sh->sq_slots;
}

/* Most queues run their requests where they are posted, and write none down. */
int shca_reserve_ring(struct shca_user_qp *qp)
{
	if (qp->sh->wqes)
		return 0;
	shca_off wqes = shca_mem_alloc(qp->m, sq_bytes(qp));
	/* Executors come by a request that is posted, and this is before; an ENABLE ahead of the first post only prefetches. */
	__atomic_store_n(&qp->sh->wqes, wqes, __ATOMIC_RELAXED);
	return wqes ? 0 : ENOMEM;	/* said: shca_mem_alloc */
}

/* Makes the send side. 0 or an errno value: send_free frees the parts that were made. */
static int qp_send_init(struct shca_user_qp *qp, const struct ibv_qp_cap *cap)
{
	uint32_t sge = cap->max_send_sge ? cap->max_send_sge : 1;
	uint32_t room = sge * (uint32_t)sizeof(struct shca_seg), most = cap->max_inline_data;

	/* longer inline data of a request that has to wait is kept elsewhere (post.c) */
	if (room < most)
		room = most < SHCA_WQE_INLINE_MAX ? most : SHCA_WQE_INLINE_MAX;
	room = (uint32_t)align_up(room, SHCA_LINE);
	/* one slot more: a request may have been polled before an executor moves head past the request, see freed() in post.c */
	uint32_t slots = cap->max_send_wr ? cap->max_send_wr + 1 : 2, ids = (uint32_t)pow2_up(slots);
	qp->max_wr = cap->max_send_wr;
	qp->sq_mask = ids - 1;
	qp->max_sge = sge;
	qp->max_atomic = 8;
	qp->max_inline = most > room ? most : room;
	qp->wr_id = calloc(ids, sizeof *qp->wr_id);
	if (!qp->wr_id)
		return ENOMEM;	/* said: shca_qp_new */
	qp->sh->sq_slots = slots;
	qp->sh->sq_magic = UINT64_MAX / slots + 1;
	qp->sh->sq_stride = (uint32_t)sizeof(struct shca_wqe) + room;
	return qp->fast_write_kind ? shca_rkey_cache_init(qp) : 0;
}

static void qp_send_free(struct shca_user_qp *qp)
{
	if (qp->sh->wqes)
		shca_mem_free(qp->m, qp->sh->wqes, sq_bytes(qp));
	shca_longs_free(qp);
	free(qp->longs);
	free(qp->wr_id);
	free(qp->rkey_cache);
	free(qp->routes);
}

static int qp_recv_init(struct shca_user_qp *qp, uint32_t max_wr, uint32_t max_sge)
{
	int err = shca_user_rq_init(qp->m, &qp->own_rq, max_wr, max_sge ? max_sge : 1);
	if (err)
		return err < 0 ? -err : err;
	struct shca_rq *sh = qp->own_rq.sh;
	qp->own_rq.max_wr = max_wr;
	sh->number = qp->sh->qpn;
	sh->proc = qp->m->slot;
	sh->pd = qp->pd_number;
	sh->managed = (qp->sh->flags & SHCA_QP_MANAGED_RECV) != 0;
	qp->rq = &qp->own_rq;
	qp->sh->rq = qp->own_rq.off;
	return 0;
}

static void refs_take(struct shca_user_qp *qp)
{
	if (qp->pd)
		atomic_fetch_add(&qp->pd->refs, 1);
	if (qp->scq)
		atomic_fetch_add(&qp->scq->refs, 1);
	if (qp->rcq)
		atomic_fetch_add(&qp->rcq->refs, 1);
	if (qp->srq)
		atomic_fetch_add(&qp->srq->refs, 1);
	if (qp->xrcd)
		atomic_fetch_add(&qp->xrcd->refs, 1);
}

static void refs_drop(struct shca_user_qp *qp)
{
	if (qp->pd)
		atomic_fetch_sub(&qp->pd->refs, 1);
	if (qp->scq)
		atomic_fetch_sub(&qp->scq->refs, 1);
	if (qp->rcq)
		atomic_fetch_sub(&qp->rcq->refs, 1);
	if (qp->srq)
		atomic_fetch_sub(&qp->srq->refs, 1);
	if (qp->xrcd)
		atomic_fetch_sub(&qp->xrcd->refs, 1);
}

/* Enters the queue in m->cross: pollers of this process run cross-channel queues that a stopped thread has locked, not begun. */
static int cross_add(struct shca_user_qp *qp)
{
	struct shca_member *m = qp->m;
	int err = 0;
	pthread_mutex_lock(&m->mutex);
	if (m->cross_n == m->cross_cap) {
		uint32_t cap = m->cross_cap ? 2 * m->cross_cap : 8;
		shca_off *p = realloc(m->cross, cap * sizeof *p);
		if (p) {
			m->cross = p;
			m->cross_cap = cap;
		} else {
			err = ENOMEM;	/* said: shca_qp_new */
		}
	}
	if (!err) {
		qp->cross = m->cross_n;
		m->cross[m->cross_n++] = qp->off;
	}
	pthread_mutex_unlock(&m->mutex);
	return err;
}

static void cross_remove(struct shca_user_qp *qp)
{
	struct shca_member *m = qp->m;

	pthread_mutex_lock(&m->mutex);
	/* the last element takes the free place */
	shca_off last = m->cross[--m->cross_n];
	m->cross[qp->cross] = last;
	struct shca_tagged *t = shca_local_get(m, ((struct shca_qp *)shca_at(m->base, last))->qpn);
	t->qp->cross = qp->cross;
	pthread_mutex_unlock(&m->mutex);
}

void shca_qp_enter(struct shca_context *c, struct shca_user_qp *qp)
{
	qp->mapped = true;
	refs_take(qp);
	pthread_mutex_lock(&c->mutex);
	qp->next = c->qps;
	qp->prev = &c->qps;
	if (qp->next)
		qp->next->prev = &qp->next;
	c->qps = qp;
	pthread_mutex_unlock(&c->mutex);
}

static void publish(struct shca_context *c, struct shca_user_qp *qp)
{
	struct shca_member *m = qp->m;

	shca_qp_enter(c, qp);
	pthread_mutex_lock(&c->node->mutex);
	shca_list_add(&c->node->qps, (shca_off *)&m->proc->qp_list, &qp->zombie->listed, qp->off, &qp->sh->next);
	pthread_mutex_unlock(&c->node->mutex);
	shca_number_set(m, qp->sh->qpn, SHCA_KIND_QP, qp->off);
}

static void fill_shared(struct shca_user_qp *qp, const struct shca_qp_create *cr)
{
	struct shca_qp *sh = qp->sh;
	sh->pd = qp->pd_number;
	sh->proc = (uint16_t)qp->m->slot;
	sh->type = cr->type;
	sh->port = 1;
	sh->dc_key = cr->dc_key;
	sh->flags = (uint8_t)(cr->flags | (qp->m->behave & SHCA_BEHAVE_NOORDER ? SHCA_QP_NOORDER : 0) |
			      (qp->m->behave & SHCA_BEHAVE_NOSEQUENCE ? SHCA_QP_NOSEQUENCE : 0));
	sh->rcq = qp->rcq ? qp->rcq->off : 0;
	sh->scq = qp->scq ? qp->scq->off : 0;
	sh->sq_sig_all = qp->sq_sig_all;
	sh->mtu = 4096;
	atomic_store(&sh->qp_state, IBV_QPS_RESET);
	atomic_store(&sh->enabled, cr->flags & SHCA_QP_MANAGED_SEND ? 0 : UINT64_MAX);
	atomic_store(&sh->shared, qp->shared_only);
}

void shca_qp_fill_verbs(struct shca_user_qp *qp, struct ibv_context *ctx, struct shca_qp_create *cr)
{
	struct ibv_qp_init_attr_ex *a = &cr->attr;
	struct ibv_qp *q = &qp->qp;
	q->context = ctx;
	q->qp_context = a->qp_context;
	q->pd = a->pd;
	q->send_cq = a->send_cq;
	q->recv_cq = a->recv_cq;
	q->srq = a->srq;
	q->handle = q->qp_num = qp->sh->qpn;
	q->state = IBV_QPS_RESET;
	q->qp_type = cr->type == SHCA_QPT_DCI || cr->type == SHCA_QPT_DCT ? IBV_QPT_DRIVER : a->qp_type;
	pthread_mutex_init(&q->mutex, NULL);
	pthread_mutex_init(&qp->modifying, NULL);
	pthread_cond_init(&q->cond, NULL);
	a->cap.max_send_wr = qp->max_wr;
	a->cap.max_send_sge = qp->max_sge;
	a->cap.max_inline_data = qp->max_inline;
	a->cap.max_recv_wr = qp->rq == &qp->own_rq ? qp->own_rq.max_wr : 0;
	a->cap.max_recv_sge = qp->rq == &qp->own_rq ? qp->own_rq.max_sge : 0;
	qp->init = (struct ibv_qp_init_attr){
		.qp_context = a->qp_context, .send_cq = a->send_cq, .recv_cq = a->recv_cq, .srq = a->srq,
		.cap = a->cap, .qp_type = q->qp_type, .sq_sig_all = a->sq_sig_all,
	};
}

/* Makes a queue pair. On success create->attr.cap has the granted sizes. NULL with errno. */
struct shca_user_qp *shca_qp_new(struct ibv_context *ctx, struct shca_qp_create *cr)
{
	struct shca_context *c = shca_context_of(ctx);
	struct shca_member *m = c->m;
	struct ibv_qp_init_attr_ex *a = &cr->attr;
	if (shca_unusable(ctx) || shca_wants_huge("MLX_QP_ALLOC_TYPE"))
		return NULL;
	/* an initiator's is not looked at: programs make initiators and targets of one set of attributes */
	if (cr->type == SHCA_QPT_DCI)
		a->srq = NULL;
	int err = create_check(cr);
	if (err) {
		errno = err;
		return NULL;
	}
	if (cr->type == IBV_QPT_XRC_RECV)
		return shca_xrc_new(ctx, a);
	struct shca_user_qp *qp = calloc(1, sizeof *qp);
	if (qp)
		qp->zombie = calloc(1, sizeof *qp->zombie);
	if (!qp || !qp->zombie) {
		free(qp);
		errno = shca_no_memory("create_qp");
		return NULL;
	}
	qp->m = m;
	qp->type = cr->type;
	bool cross = (cr->flags & (SHCA_QP_CROSS | SHCA_QP_MANAGED_SEND)) != 0;
	qp->shared_only = cross || m->behave & SHCA_BEHAVE_ASYNC;
	qp->fast_write_kind = !qp->shared_only && !(m->behave & SHCA_BEHAVE_NOORDER) &&
		    (qp->type == IBV_QPT_RC || qp->type == IBV_QPT_XRC_SEND || qp->type == SHCA_QPT_DCI);
	qp->sq_sig_all = a->sq_sig_all != 0;
	qp->dv_dc_key = cr->dc_key;
	qp->pd = shca_user_pd_of(a->pd);
	qp->pd_number = qp->pd->number;
	qp->lock.none = qp->pd->td;
	qp->scq = has_send(cr->type) ? shca_user_cq_of(a->send_cq) : NULL;
	qp->rcq = a->recv_cq ? shca_user_cq_of(a->recv_cq) : NULL;
	qp->srq = a->srq ? shca_user_srq_of(a->srq) : NULL;
	qp->off = shca_mem_alloc(m, sizeof *qp->sh);
	if (!qp->off) {
		err = ENOMEM;	/* said: below */
		goto free_qp;
	}
	qp->sh = shca_at(m->base, qp->off);
	qp->sh->qpn = shca_number_alloc(m);
	if (!qp->sh->qpn || shca_local_set(m, qp->sh->qpn, SHCA_KIND_QP, qp)) {
		err = ENOMEM;	/* said: below */
		goto free_number;
	}
	SHCA_FAILPOINT(NULL, "create-number", NULL, 0);
	fill_shared(qp, cr);
	if (has_send(cr->type)) {
		err = qp_send_init(qp, &a->cap);
		if (err)
			goto free_send;
	}
	if (qp->srq) {
		qp->rq = &qp->srq->rq;
		qp->sh->rq = qp->rq->off;
	} else if (has_recv(cr->type) && a->cap.max_recv_wr) {
		err = qp_recv_init(qp, a->cap.max_recv_wr, a->cap.max_recv_sge);
		if (err)
			goto free_send;
	}
	uint64_t ops = a->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS ? a->send_ops_flags : 0;
	qp->has_ex = (a->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) || cr->dv_send_ops;
	if (qp->has_ex) {
		err = shca_wr_ops(qp, ops, cr->dv_send_ops);
		if (err) {
			err = err < 0 ? -err : err;
			shca_refuse(err, "create_qp_ex: send operations %#lx, mlx5dv %#lx, type %u",
				    (unsigned long)ops, (unsigned long)cr->dv_send_ops, cr->type);
			goto free_recv;
		}
	}
	if (cross) {
		err = cross_add(qp);
		if (err)
			goto free_recv;
	}
	shca_qp_fill_verbs(qp, ctx, cr);
	SHCA_FAILPOINT(NULL, "create-made", NULL, 0);
	publish(c, qp);
	SHCA_FAILPOINT(NULL, "create-published", qp->sh, 0);
	return qp;

free_recv:
	if (qp->rq == &qp->own_rq)
		shca_user_rq_free(m, &qp->own_rq);
free_send:
	qp_send_free(qp);
	shca_local_set(m, qp->sh->qpn, SHCA_KIND_NONE, NULL);
free_number:
	if (qp->sh->qpn)
		shca_number_free(m, qp->sh->qpn);
	shca_mem_free(m, qp->off, sizeof *qp->sh);
free_qp:
	free(qp->zombie);
	free(qp);
	errno = err == ENOMEM ? shca_no_memory("create_qp") : err;
	return NULL;
}

static bool plain_type(enum ibv_qp_type type)
{
	return type == IBV_QPT_RC || type == IBV_QPT_UC || type == IBV_QPT_UD || type == IBV_QPT_XRC_SEND ||
	       type == IBV_QPT_XRC_RECV;
}

int shca_qp_create_check(const struct ibv_qp_init_attr_ex *attr, struct shca_qp_create *cr)
{
	const uint32_t known = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_XRCD | IBV_QP_INIT_ATTR_CREATE_FLAGS |
			       IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;

	*cr = (struct shca_qp_create){ .attr = *attr, .type = (uint8_t)attr->qp_type };
	if (!plain_type(attr->qp_type) || (attr->comp_mask & ~known) ||
	    ((attr->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS) && attr->create_flags))
		return shca_refuse(EOPNOTSUPP, "create_qp: type %d, comp_mask %#x, create flags %#x", attr->qp_type,
				   attr->comp_mask, attr->create_flags);
	if (!(attr->comp_mask & IBV_QP_INIT_ATTR_PD))
		cr->attr.pd = NULL;
	return 0;
}

struct ibv_qp *shca_create_qp_ex(struct ibv_context *ctx, struct ibv_qp_init_attr_ex *attr)
{
	struct shca_qp_create cr;
	int err = shca_qp_create_check(attr, &cr);
	if (err) {
		errno = err;
		return NULL;
	}
	struct shca_user_qp *qp = shca_qp_new(ctx, &cr);
	if (!qp)
		return NULL;
	attr->cap = cr.attr.cap;
	return &qp->qp;
}

struct ibv_qp *shca_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct ibv_qp_init_attr_ex ex = {
		.qp_context = attr->qp_context, .send_cq = attr->send_cq, .recv_cq = attr->recv_cq, .srq = attr->srq,
		.cap = attr->cap, .qp_type = attr->qp_type, .sq_sig_all = attr->sq_sig_all,
		.comp_mask = IBV_QP_INIT_ATTR_PD, .pd = pd,
	};
	struct ibv_qp *qp = shca_create_qp_ex(pd->context, &ex);
	if (qp)
		attr->cap = ex.cap;
	return qp;
}

struct ibv_qp_ex *shca_qp_to_qp_ex(struct ibv_qp *ibqp)
{
	struct shca_user_qp *qp = shca_user_qp_of(ibqp);
	return qp->has_ex ? &qp->ex : NULL;
}

/* ---- modify ------------------------------------------------------------------------------------------------- */

/* The state as the engine left the queue: a queue whose request failed is in error. */
enum ibv_qp_state shca_qp_state(const struct shca_user_qp *qp)
{
	return (enum ibv_qp_state)atomic_load(&qp->sh->qp_state);
}

static int value_check(const struct shca_user_qp *qp, const struct ibv_qp_attr *a, int mask)
{
	if ((mask & IBV_QP_PORT) && (a->port_num < 1 || a->port_num > SHCA_PORTS))
		return shca_refuse(EINVAL, "modify_qp: port %u, the device has %d", a->port_num, SHCA_PORTS);
	if ((mask & IBV_QP_PKEY_INDEX) && a->pkey_index != 0)
		return shca_refuse(EINVAL, "modify_qp: P_Key index %u, the table has one entry", a->pkey_index);
	if ((mask & IBV_QP_AV)) {
		struct ibv_ah_attr ah = a->ah_attr;
		if (!ah.port_num)	/* the queue's own port is meant */
			ah.port_num = 1;
		int err = shca_address_check(&ah);
		if (err)
			return err;
	}
	if ((mask & IBV_QP_PATH_MTU) && (a->path_mtu < IBV_MTU_256 || a->path_mtu > IBV_MTU_4096))
		return shca_refuse(EINVAL, "modify_qp: path MTU %d", a->path_mtu);
	if ((mask & IBV_QP_MAX_QP_RD_ATOMIC) && a->max_rd_atomic > SHCA_MAX_RD_ATOMIC)
		return shca_refuse(EINVAL, "modify_qp: max_rd_atomic %u, at most %d", a->max_rd_atomic,
				   SHCA_MAX_RD_ATOMIC);
	if ((mask & IBV_QP_MAX_DEST_RD_ATOMIC) && a->max_dest_rd_atomic > SHCA_MAX_RD_ATOMIC)
		return shca_refuse(EINVAL, "modify_qp: max_dest_rd_atomic %u, at most %d", a->max_dest_rd_atomic,
				   SHCA_MAX_RD_ATOMIC);
	if (((mask & IBV_QP_TIMEOUT) && a->timeout > 31) || ((mask & IBV_QP_RETRY_CNT) && a->retry_cnt > 7) ||
	    ((mask & IBV_QP_RNR_RETRY) && a->rnr_retry > 7) ||
	    ((mask & IBV_QP_MIN_RNR_TIMER) && a->min_rnr_timer > 31))
		return shca_refuse(EINVAL, "modify_qp: timeout %u retry_cnt %u rnr_retry %u min_rnr_timer %u",
				   a->timeout, a->retry_cnt, a->rnr_retry, a->min_rnr_timer);
	if ((mask & IBV_QP_DEST_QPN) && a->dest_qp_num > 0xffffff)
		return shca_refuse(EINVAL, "modify_qp: destination %#x", a->dest_qp_num);
	/* flags that speak of registration only mean nothing here, and are passed by programs all the same */
	const unsigned int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
				    IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND | IBV_ACCESS_ZERO_BASED |
				    IBV_ACCESS_ON_DEMAND | IBV_ACCESS_HUGETLB;
	if ((mask & IBV_QP_ACCESS_FLAGS) && (a->qp_access_flags & ~access & ~(unsigned)IBV_ACCESS_OPTIONAL_RANGE))
		return shca_refuse(EINVAL, "modify_qp: access %#x", a->qp_access_flags);
	if ((mask & IBV_QP_ALT_PATH) || ((mask & IBV_QP_PATH_MIG_STATE) && a->path_mig_state != IBV_MIG_MIGRATED))
		return shca_refuse(EOPNOTSUPP, "modify_qp: the device has one port, there is no alternate path");
	return 0;
}

/* Writes the attributes to the shared part. The gate decides when requesters read them. */
static void qp_apply(struct shca_user_qp *qp, const struct ibv_qp_attr *a, int mask)
{
	struct shca_qp *sh = qp->sh;
	struct ibv_qp_attr *k = &qp->attr;

	if (mask & IBV_QP_PKEY_INDEX)
		sh->pkey_index = k->pkey_index = a->pkey_index;
	if (mask & IBV_QP_PORT)
		sh->port = k->port_num = a->port_num;
	if (mask & IBV_QP_ACCESS_FLAGS)
		sh->access = k->qp_access_flags = a->qp_access_flags;
	if (mask & IBV_QP_QKEY)
		sh->qkey = k->qkey = a->qkey;
	if (mask & IBV_QP_AV)
		k->ah_attr = a->ah_attr;
	if (mask & IBV_QP_PATH_MTU) {
		k->path_mtu = a->path_mtu;
		sh->mtu = 128u << a->path_mtu;
	}
	if (mask & IBV_QP_DEST_QPN)
		k->dest_qp_num = a->dest_qp_num;
	if (mask & (IBV_QP_DEST_QPN | IBV_QP_AV))	/* number 0 is no queue's: packets out of the fabric are lost */
		sh->dest_qpn = shca_address_is_ours(qp->qp.context, &k->ah_attr) ? k->dest_qp_num : 0;
	if (mask & IBV_QP_RQ_PSN)
		k->rq_psn = a->rq_psn & 0xffffff;
	if (mask & IBV_QP_SQ_PSN)
		k->sq_psn = a->sq_psn & 0xffffff;
	if (mask & IBV_QP_MAX_QP_RD_ATOMIC) {
		k->max_rd_atomic = a->max_rd_atomic;
		qp->no_reads = !a->max_rd_atomic;
	}
	if (mask & IBV_QP_MAX_DEST_RD_ATOMIC) {
		k->max_dest_rd_atomic = a->max_dest_rd_atomic;
		sh->flags = (uint8_t)((sh->flags & ~SHCA_QP_NO_READS) | (a->max_dest_rd_atomic ? 0 : SHCA_QP_NO_READS));
	}
	if (mask & IBV_QP_MIN_RNR_TIMER)
		sh->min_rnr_timer = k->min_rnr_timer = a->min_rnr_timer;
	if (mask & IBV_QP_TIMEOUT)
		sh->timeout = k->timeout = a->timeout;
	if (mask & IBV_QP_RETRY_CNT)
		sh->retry_cnt = k->retry_cnt = a->retry_cnt;
	if (mask & IBV_QP_RNR_RETRY)
		sh->rnr_retry = k->rnr_retry = a->rnr_retry;
	qp->attr_mask |= mask;
	if (qp->common)
		shca_xrc_applied(qp);
	/* rights and connections of a queue that answers already */
	if (!(mask & (IBV_QP_ACCESS_FLAGS | IBV_QP_DEST_QPN | IBV_QP_AV | IBV_QP_QKEY)))
		return;
	if (qp->common)
		shca_common_revoke(qp->m, qp->common);
	else
		shca_revoke(qp->m, qp->m->slot);
}

static void set_ready(struct shca_user_qp *qp, bool ready)
{
	qp->ready = ready;
	atomic_store_explicit(&qp->fast_writes, ready && qp->fast_write_kind && !qp->sq_sig_all, memory_order_relaxed);
}

static void set_state(struct shca_user_qp *qp, enum ibv_qp_state s)
{
	atomic_store(&qp->sh->qp_state, s);
	qp->attr.qp_state = qp->attr.cur_qp_state = s;
	qp->qp.state = s;
}

/* Watches the peer's process: its death must be noticed even without requests. A peer that is not there yet is watched from the
 * first request on. */
static void watch_peer(struct shca_thread *thr, struct shca_user_qp *qp)
{
	shca_enter(thr);
	const struct shca_qp *peer = shca_number_get(qp->m, qp->sh->dest_qpn, SHCA_KIND_QP);
	if (peer)
		shca_peer_known(thr, qp->sh, peer);
	shca_leave(thr);
}

/* Kicks the requesters that wait for a receive of this queue: the gate has changed. */
static void kick_requesters(struct shca_thread *thr, struct shca_user_qp *qp)
{
	if (qp->rq != &qp->own_rq)
		return;
	shca_recv_kick(thr, qp->own_rq.sh);
}

/* In DIRECT mode the owner alone has the positions. Makes the queue SHARED, so that other threads can read them. Must hold
 * qp->lock. */
static void make_shared(struct shca_user_qp *qp)
{
	struct shca_qp *sh = qp->sh;
	if (atomic_load(&sh->shared))
		return;
	atomic_store(&sh->head, qp->pi);
	atomic_store(&sh->posted, qp->pi);
	atomic_store(&sh->shared, 1);
}

static void to_error(struct shca_thread *thr, struct shca_user_qp *qp)
{
	struct shca_qp *sh = qp->sh;
	uint16_t none = 0;

	shca_lock(&qp->lock);
	shca_enter(thr);
	atomic_store(&sh->gate, SHCA_GATE_ERR);
	SHCA_FAILPOINT(thr, "error-gate", sh, 0);
	shca_revoke(qp->m, qp->m->slot);
	make_shared(qp);
	atomic_compare_exchange_strong(&sh->fail, &none, (uint16_t)(IBV_WC_WR_FLUSH_ERR + 1));
	set_state(qp, IBV_QPS_ERR);
	/* running a failed queue flushes its requests and receives; requests posted later are flushed as well */
	set_ready(qp, has_send(qp->type));
	/* pairs with the light fence of shca_rq_post, behind which the poster asks shca_flushes */
	shca_heavy_fence(qp->m);
	shca_kick(thr, qp->off);
	shca_drain(thr);
	shca_leave(thr);
	shca_unlock(&qp->lock);
	shca_quiesce(thr, thr->m->slot);
	shca_enter(thr);
	kick_requesters(thr, qp);
	shca_drain(thr);
	shca_leave(thr);
}

/* Stops the queue: when this returns, no request runs for qp or into qp, and posting is refused. The engine's lock is kept. Must
 * be called before the number goes: reapers still have to find the queue by number, as do threads that walk the list of
 * requesters waiting for its receives. If qp itself waits for a receive, it stays on that list: a thread that takes qp off finds
 * nothing to run, and goes on to the next queue. */
static void qp_stop(struct shca_thread *thr, struct shca_user_qp *qp)
{
	struct shca_qp *sh = qp->sh;

	atomic_store(&sh->gate, 0);
	shca_revoke(qp->m, qp->m->slot);
	shca_lock(&qp->lock);
	set_ready(qp, false);
	shca_enter(thr);
	shca_qp_lock(thr, sh);
	atomic_store(&sh->head, atomic_load(&sh->posted));
	/* No thread may fail qp for its peer's sake, or record the peer's death, after this: a thread that has read the old
	 * numbers is inside the engine, and the quiesce waits for it. Words cleared behind the quiesce stay clear. */
	sh->dest_qpn = sh->peer_proc = 0;
	shca_leave(thr);
	shca_unlock(&qp->lock);
	shca_quiesce(thr, thr->m->slot);
	shca_enter(thr);
	kick_requesters(thr, qp);
	shca_drain(thr);
	shca_leave(thr);
}

/* Removes the queue's unpolled completions; receives of an SRQ go back to the SRQ. Send and receive completions may share one
 * CQ. */
static void clean_cqs(struct shca_user_qp *qp)
{
	if (qp->scq)
		shca_cq_clean(qp->scq, qp->sh->qpn, qp->srq);
	if (qp->rcq && qp->rcq != qp->scq)
		shca_cq_clean(qp->rcq, qp->sh->qpn, qp->srq);
}

/* *unread: whether the queue had unread events. */
static int to_reset(struct shca_thread *thr, struct shca_user_qp *qp, bool *unread)
{
	struct shca_qp *sh = qp->sh;
	struct shca_user_rq fresh = { .size = 0 }, old = { .size = 0 };

	if (qp->rq == &qp->own_rq) {
		int err = shca_user_rq_init(qp->m, &fresh, qp->own_rq.max_wr, qp->own_rq.max_sge);
		if (err)
			return err < 0 ? -err : err;
	}
	/* first: a timer or a list may have the queue run meanwhile, which would take an old position for a new request */
	qp_stop(thr, qp);
	SHCA_FAILPOINT(thr, "reset-stopped", sh, 0);
	clean_cqs(qp);
	shca_lock(&qp->lock);
	if (qp->rq == &qp->own_rq) {
		struct shca_rq *was = qp->own_rq.sh;
		fresh.sh->number = was->number;
		fresh.sh->proc = was->proc;
		fresh.sh->pd = was->pd;
		fresh.sh->managed = was->managed;
		fresh.max_wr = qp->own_rq.max_wr;
		old = qp->own_rq;
		qp->own_rq = fresh;
		__atomic_store_n(&sh->rq, fresh.off, __ATOMIC_RELEASE);
	}
	qp->pi = qp->freed = qp->signaled = 0;
	qp->enabled = (struct shca_index){0, 0};
	atomic_store(&sh->polled, 0);
	atomic_store(&sh->flushing, 0);
	qp->wr_n = 0;
	atomic_store(&sh->head, 0);
	atomic_store(&sh->posted, 0);
	atomic_store(&sh->enabled, sh->flags & SHCA_QP_MANAGED_SEND ? 0 : UINT64_MAX);
	atomic_store(&sh->shared, qp->shared_only);
	atomic_store(&sh->fail, 0);
	atomic_store(&sh->step, SHCA_STEP_NONE);
	sh->ahead = 0;
	*unread = (atomic_exchange(&sh->events, 0) & ~SHCA_DC_ARMED) != 0;
	atomic_store(&sh->peer_dead, 0);
	atomic_store(&sh->rnr_since, 0);
	sh->access = 0;
	sh->qkey = 0;
	sh->mtu = 4096;
	memset(&qp->attr, 0, sizeof qp->attr);
	qp->attr_mask = 0;
	set_state(qp, IBV_QPS_RESET);
	shca_enter(thr);
	shca_qp_unlock(thr, sh);
	shca_leave(thr);
	shca_unlock(&qp->lock);
	/* I8: an ENABLE, a reaper, or a peer that gives a receive back may have looked the old receive queue up since the queue
	 * was stopped */
	if (old.off) {
		shca_quiesce(thr, thr->m->slot);
		shca_user_rq_free(qp->m, &old);
	}
	return 0;
}

/* SQD: requests wait from here on. A managed queue is already held by its enables, which stay. */
static void to_drained(struct shca_thread *thr, struct shca_user_qp *qp, bool notify)
{
	struct shca_qp *sh = qp->sh;
	shca_lock(&qp->lock);
	shca_enter(thr);
	shca_qp_lock(thr, sh);
	if (!(sh->flags & SHCA_QP_MANAGED_SEND)) {
		qp->shared_only = true;
		make_shared(qp);
		atomic_store(&sh->enabled, atomic_load(&sh->head));
	}
	set_state(qp, IBV_QPS_SQD);
	shca_qp_unlock(thr, sh);
	if (notify)
		shca_qp_event(thr, sh, IBV_EVENT_SQ_DRAINED);
	shca_leave(thr);
	shca_unlock(&qp->lock);
}

static void from_drained(struct shca_thread *thr, struct shca_user_qp *qp)
{
	struct shca_qp *sh = qp->sh;
	shca_lock(&qp->lock);
	shca_enter(thr);
	set_state(qp, IBV_QPS_RTS);
	if (!(sh->flags & SHCA_QP_MANAGED_SEND)) {
		qp->shared_only = sh->flags & SHCA_QP_CROSS || qp->m->behave & SHCA_BEHAVE_ASYNC;
		atomic_store(&sh->enabled, UINT64_MAX);
		shca_kick(thr, qp->off);
		shca_drain(thr);
	}
	shca_leave(thr);
	shca_unlock(&qp->lock);
}

int shca_modify_qp(struct ibv_qp *ibqp, struct ibv_qp_attr *attr, int mask)
{
	struct shca_user_qp *qp = shca_user_qp_of(ibqp);
	struct shca_qp *sh = qp->sh;
	bool unread = false;
	int err = 0;

	if (shca_unusable(ibqp->context))
		return errno;
	struct shca_thread *thr = shca_thread_get(qp->m);
	if (!thr)
		return errno;
	/* programs set up each half of an XRC connection as an RC queue: attributes that a half lacks are ignored */
	if (qp->type == IBV_QPT_XRC_SEND)
		mask &= ~(IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
	else if (qp->type == IBV_QPT_XRC_RECV)
		mask &= ~(IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY);
	pthread_mutex_lock(&qp->modifying);
	if (qp->common)
		shca_xrc_lock(thr, qp);
	enum ibv_qp_state from = shca_qp_state(qp);
	enum ibv_qp_state to = mask & IBV_QP_STATE ? attr->qp_state : from;
	if ((mask & IBV_QP_CUR_STATE) && attr->cur_qp_state != from)
		err = shca_refuse(EINVAL, "modify_qp: the current state is %d, not %d", from, attr->cur_qp_state);
	if (!err)
		err = shca_qp_transition(qp->type, from, to, mask);
	if (!err)
		err = value_check(qp, attr, mask);
	/* from here on peers may reach this process, and must learn of its death */
	if (!err && to == IBV_QPS_RTR)
		err = -shca_helper_start(qp->m);
	if (err)
		goto out;
	if (to == IBV_QPS_RESET) {
		if (from != IBV_QPS_RESET && qp->common)
			unread = shca_xrc_to_reset(thr, qp);
		else if (from != IBV_QPS_RESET)
			err = to_reset(thr, qp, &unread);
		goto out;
	}
	if (to == IBV_QPS_ERR) {
		if (qp->common)
			shca_xrc_to_error(thr, qp);
		else
			to_error(thr, qp);
		goto out;
	}
	qp_apply(qp, attr, mask);
	SHCA_FAILPOINT(thr, "modify-applied", sh, 0);
	if (to == IBV_QPS_RTR) {
		set_state(qp, to);
		atomic_store(&sh->gate, SHCA_GATE_RESPOND | (qp->type == IBV_QPT_RC || qp->type == IBV_QPT_UC ? SHCA_GATE_FIRST : 0));
		SHCA_FAILPOINT(thr, "modify-gate", sh, 0);
		if (sh->dest_qpn)
			watch_peer(thr, qp);
	} else if (to == IBV_QPS_SQD && from == IBV_QPS_RTS && !qp->common) {
		to_drained(thr, qp, (mask & IBV_QP_EN_SQD_ASYNC_NOTIFY) && attr->en_sqd_async_notify);
	} else if (to == IBV_QPS_RTS && from == IBV_QPS_SQD && !qp->common) {
		from_drained(thr, qp);
	} else if (to == IBV_QPS_RTS) {
		atomic_fetch_and(&sh->gate, ~SHCA_GATE_FIRST);
		set_state(qp, to);
		set_ready(qp, has_send(qp->type));
	} else {
		set_state(qp, to);
		/* a queue pair without send queue is drained at once */
		if (to == IBV_QPS_SQD && qp->common && (mask & IBV_QP_EN_SQD_ASYNC_NOTIFY) && attr->en_sqd_async_notify) {
			shca_enter(thr);
			shca_qp_event(thr, sh, IBV_EVENT_SQ_DRAINED);
			shca_leave(thr);
		}
	}
out:
	/* Against shca_fail_all: the helper thread loads the device's failure, then looks at the queues; this thread stores the
	 * queue's state, then loads the failure. So either the helper thread finds the new state and fails the queue, or the
	 * failure is read here. */
	shca_full_fence();
	if (!err && to != IBV_QPS_ERR && shca_device_broken(qp->m)) {
		if (qp->common)
			shca_xrc_to_error(thr, qp);
		else
			to_error(thr, qp);
		err = shca_unusable(ibqp->context) ? errno : 0;
	}
	if (qp->common) {
		qp->qp.state = shca_qp_state(qp);
		shca_xrc_unlock(thr, qp);
	}
	pthread_mutex_unlock(&qp->modifying);
	if (!err && to == IBV_QPS_RESET)
		shca_last_forget(qp);
	if (unread)	/* takes the locks of all contexts' events */
		shca_events_gone(shca_context_of(ibqp->context));
	return err;
}

/* ---- query, destroy ----------------------------------------------------------------------------------------- */

int shca_query_qp(struct ibv_qp *ibqp, struct ibv_qp_attr *attr, int mask, struct ibv_qp_init_attr *init)
{
	struct shca_user_qp *qp = shca_user_qp_of(ibqp);
	if (shca_unusable(ibqp->context))
		return errno;
	struct shca_thread *thr = qp->common ? shca_thread_get(qp->m) : NULL;
	if (qp->common && !thr)
		return errno;
	pthread_mutex_lock(&qp->modifying);
	if (thr)
		shca_xrc_lock(thr, qp);
	*attr = qp->attr;
	attr->qp_state = attr->cur_qp_state = ibqp->state = shca_qp_state(qp);
	attr->cap = qp->init.cap;
	attr->path_mig_state = IBV_MIG_MIGRATED;
	*init = qp->init;
	if (thr)
		shca_xrc_unlock(thr, qp);
	pthread_mutex_unlock(&qp->modifying);
	return 0;
}

/* A program may poll the last bytes of an RDMA WRITE instead of the completion: they become visible behind all other bytes of
 * the request (I5). As on adapters, a queue that is not connected promises nothing, so that a program that asks too early fails
 * here already. */
int shca_query_qp_data_in_order(struct ibv_qp *qp, enum ibv_wr_opcode op, uint32_t flags)
{
	struct shca_user_qp *q = (struct shca_user_qp *)qp;

	/* nothing is promised in a forked child, either */
	if (shca_inherited(qp->context))
		return 0;
	enum ibv_qp_state state = shca_qp_state(q);
	if (flags || q->m->behave & SHCA_BEHAVE_NOORDER || (state != IBV_QPS_RTR && state != IBV_QPS_RTS && state != IBV_QPS_SQD))
		return 0;
	return op == IBV_WR_RDMA_WRITE || op == IBV_WR_RDMA_WRITE_WITH_IMM;
}

void shca_qp_unmap(struct shca_user_qp *qp)
{
	struct shca_context *c = shca_context_of(qp->qp.context);
	struct shca_member *m = qp->m;
	struct shca_qp *sh = qp->sh;

	qp->mapped = false;
	if (shca_inherited(qp->qp.context)) {
		/* a thread of the parent may have held the locks at the fork: neither the locks nor the data under them are
		 * touched */
		free(qp->zombie);
		free(qp->wr_id);
		free(qp->rkey_cache);
		free(qp->routes);
		free(qp->longs);
		free(qp->own_rq.wr_id);
		free(qp->own_rq.fifo);
		free(qp->last.inside);
		return;
	}
	pthread_mutex_lock(&c->mutex);
	*qp->prev = qp->next;
	if (qp->next)
		qp->next->prev = qp->prev;
	pthread_mutex_unlock(&c->mutex);
	shca_last_forget(qp);
	if (qp->common) {
		shca_xrc_unmap(qp);
		return;
	}
	struct shca_thread *thr = shca_thread_get(m);	/* has one: shca_no_thread */
	shca_groups_leave(thr, qp);
	qp_stop(thr, qp);
	SHCA_FAILPOINT(thr, "destroy-stopped", sh, 0);
	if (qp->sh->flags & (SHCA_QP_CROSS | SHCA_QP_MANAGED_SEND))
		cross_remove(qp);
	bool zombie = shca_zombie_begin(thr, c->node, qp->zombie);
	struct shca_zombie *done = shca_zombies_done(thr, c->node);
	atomic_store(&sh->gate, SHCA_GATE_DEAD);
	SHCA_FAILPOINT(thr, "destroy-unlisted", sh, 0);
	shca_quiesce(thr, thr->m->slot);
	SHCA_FAILPOINT(thr, "destroy-quiesced", sh, 0);
	shca_zombies_free(thr, done);
	if (shca_qp_unread(sh))
		shca_events_gone(c);
	shca_account(m, sh);
	clean_cqs(qp);
	shca_local_set(m, sh->qpn, SHCA_KIND_NONE, NULL);
	if (qp->rq == &qp->own_rq)
		shca_user_rq_free(m, &qp->own_rq);
	qp_send_free(qp);
	if (zombie)
		shca_zombie_end(thr, c->node, qp->zombie);
	else
		shca_zombies_free(thr, qp->zombie);
	qp->sh = NULL;
}

int shca_destroy_qp(struct ibv_qp *ibqp)
{
	struct shca_user_qp *qp = shca_user_qp_of(ibqp);
	if (!shca_inherited(ibqp->context) && !shca_thread_get(qp->m))
		return shca_no_thread("destroy_qp");
	shca_qp_unmap(qp);
	shca_wait_acked(&ibqp->mutex, &ibqp->cond, &qp->events_unacked);
	refs_drop(qp);
	pthread_mutex_destroy(&ibqp->mutex);
	pthread_mutex_destroy(&qp->modifying);
	pthread_cond_destroy(&ibqp->cond);
	free(qp->wr);
	free(qp);
	return 0;
}
