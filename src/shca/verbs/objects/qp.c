/* SPDX-License-Identifier: BSD-3-Clause */
/* Queue pairs: create, query, destroy. */
#include <errno.h>
#include <stdlib.h>

#include "shca/engine/common.h"
#include "shca/verbs/control.h"
#include "shca/verbs/objects/sq.h"

static bool has_recv(uint8_t type)
{
	return type == IBV_QPT_RC || type == IBV_QPT_UC || type == IBV_QPT_UD || type == IBV_QPT_RAW_PACKET;
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
	if (shca_type_sends(cr->type) && !a->send_cq)
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
	if (shca_type_sends(cr->type) && (cap->max_send_wr > SHCA_MAX_QP_WR || cap->max_send_sge > SHCA_MAX_SGE ||
				   cap->max_inline_data > SHCA_MAX_INLINE))
		return shca_refuse(EINVAL, "create_qp: send %u requests (at most %d), %u segments (%d), %u inline (%d)",
				   cap->max_send_wr, SHCA_MAX_QP_WR, cap->max_send_sge, SHCA_MAX_SGE,
				   cap->max_inline_data, SHCA_MAX_INLINE);
	if (has_recv(cr->type) && !a->srq && (cap->max_recv_wr > SHCA_MAX_QP_WR || cap->max_recv_sge > SHCA_MAX_SGE))
		return shca_refuse(EINVAL, "create_qp: receive %u requests (at most %d), %u segments (%d)",
				   cap->max_recv_wr, SHCA_MAX_QP_WR, cap->max_recv_sge, SHCA_MAX_SGE);
	return 0;
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

static void qp_publish(struct shca_context *c, struct shca_user_qp *qp)
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
	atomic_store(&sh->path, SHCA_PATH_RESET);
	sh->dc_key = cr->dc_key;
	sh->flags = (uint8_t)(cr->flags | (qp->m->behave & SHCA_BEHAVE_NOORDER ? SHCA_QP_NOORDER : 0) |
			      (qp->m->behave & SHCA_BEHAVE_NOSEQUENCE ? SHCA_QP_NOSEQUENCE : 0));
	sh->rcq = qp->rcq ? qp->rcq->off : 0;
	sh->scq = qp->scq ? qp->scq->off : 0;
	sh->sq_sig_all = qp->sq_sig_all;
	sh->raw = cr->raw;
	sh->mtu = shca_reset_mtu(cr->type);
	atomic_store(&sh->qp_state, IBV_QPS_RESET);
	atomic_store(&sh->enabled, cr->flags & SHCA_QP_MANAGED_SEND ? 0 : UINT64_MAX);
	atomic_store(&sh->shared, qp->shared_only);
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
	qp->scq = shca_type_sends(cr->type) ? shca_user_cq_of(a->send_cq) : NULL;
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
	if (shca_type_sends(cr->type)) {
		err = shca_sq_init(qp, &a->cap);
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
		err = c->queue_ops->fill_qp(qp, ops, cr->dv_send_ops);
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
	qp_publish(c, qp);
	SHCA_FAILPOINT(NULL, "create-published", qp->sh, 0);
	return qp;

free_recv:
	if (qp->rq == &qp->own_rq)
		shca_user_rq_free(m, &qp->own_rq);
free_send:
	shca_sq_free(qp);
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
	return type == IBV_QPT_RC || type == IBV_QPT_UC || type == IBV_QPT_UD || type == IBV_QPT_RAW_PACKET ||
	       type == IBV_QPT_XRC_SEND || type == IBV_QPT_XRC_RECV;
}

/* Refuses attributes that a raw packet queue pair does not have. */
static int raw_check(const struct ibv_qp_init_attr_ex *a)
{
	if (!shca_is_ethernet())
		return shca_refuse(EOPNOTSUPP, "create_qp: the link layer is InfiniBand: raw packets need SHCA_LINK=ethernet");
	if (a->comp_mask & (IBV_QP_INIT_ATTR_RX_HASH | IBV_QP_INIT_ATTR_IND_TABLE))
		return shca_refuse(EOPNOTSUPP,
				   "create_qp: comp_mask %#x: frames are not spread by hashing: a flow steers them to one queue",
				   a->comp_mask);
	if (a->comp_mask & IBV_QP_INIT_ATTR_MAX_TSO_HEADER)
		return shca_refuse(EOPNOTSUPP, "create_qp: comp_mask %#x: frames are sent as they are posted: no segmentation",
				   a->comp_mask);
	return 0;
}

int shca_qp_create_check(const struct ibv_qp_init_attr_ex *attr, struct shca_qp_create *cr)
{
	const uint32_t known = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_XRCD | IBV_QP_INIT_ATTR_CREATE_FLAGS |
			       IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;

	*cr = (struct shca_qp_create){ .attr = *attr, .type = (uint8_t)attr->qp_type };
	/* a datagram to a group comes to every attached queue but the sender's own, whether that is asked for or not */
	const uint32_t flags = attr->qp_type == IBV_QPT_UD ? IBV_QP_CREATE_BLOCK_SELF_MCAST_LB :
			       attr->qp_type == IBV_QPT_RAW_PACKET ? IBV_QP_CREATE_CVLAN_STRIPPING : 0;
	int err = attr->qp_type == IBV_QPT_RAW_PACKET ? raw_check(attr) : 0;
	if (err)
		return err;
	if (!plain_type(attr->qp_type) || (attr->comp_mask & ~known) ||
	    ((attr->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS) && attr->create_flags & ~flags))
		return shca_refuse(EOPNOTSUPP, "create_qp: type %d, comp_mask %#x, create flags %#x", attr->qp_type,
				   attr->comp_mask, attr->create_flags);
	if (!(attr->comp_mask & IBV_QP_INIT_ATTR_PD))
		cr->attr.pd = NULL;
	if (attr->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS && attr->create_flags & IBV_QP_CREATE_CVLAN_STRIPPING)
		cr->raw = SHCA_RAW_STRIP_VLAN;
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
	shca_qp_query_path(qp, attr);
	attr->qp_state = attr->cur_qp_state = ibqp->state = shca_qp_state(qp);
	attr->cap = qp->init.cap;
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

/* Enhanced connection establishment: options that two ends of one vendor agree on. The device has none, and says so. */
int shca_query_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	if (shca_unusable(qp->context))
		return errno;
	*ece = (struct ibv_ece){.vendor_id = SHCA_VENDOR_ID};
	return 0;
}

int shca_set_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	struct shca_user_qp *q = shca_user_qp_of(qp);

	if (shca_unusable(qp->context))
		return errno;
	if (ece->comp_mask)
		return shca_refuse(EINVAL, "set_ece: comp_mask %#x has no bits", ece->comp_mask);
	enum ibv_qp_state state = shca_qp_state(q);
	/* in ERR they may be set: librdmacm does so before it finds that the queue pair cannot be connected */
	if (state > IBV_QPS_INIT && state != IBV_QPS_ERR)
		return shca_refuse(EINVAL, "set_ece: queue pair %#x is in state %d: options are set before RTR", qp->qp_num,
				   (int)state);
	/* another vendor's options mean nothing here, and are not used */
	if (ece->vendor_id == SHCA_VENDOR_ID && ece->options)
		return shca_refuse(EINVAL, "set_ece: options %#x, the device has none", ece->options);
	return 0;
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
		shca_user_rq_forget(&qp->own_rq);
		free(qp->last.inside);
		return;
	}
	shca_qp_leave(c, qp);
	shca_last_forget(qp);
	if (qp->common) {
		shca_xrc_unmap(qp);
		return;
	}
	struct shca_thread *thr = shca_thread_get(m);	/* has one: shca_no_thread */
	shca_groups_leave(thr, qp);
	shca_flows_end(thr, qp);
	shca_qp_stop(thr, qp);
	SHCA_FAILPOINT(thr, "destroy-stopped", sh, 0);
	if (qp->sh->flags & (SHCA_QP_CROSS | SHCA_QP_MANAGED_SEND))
		cross_remove(qp);
	bool zombie = shca_zombie_begin(thr, c->node, qp->zombie);
	struct shca_zombie *done = shca_zombies_done(thr, c->node);
	atomic_store(&sh->gate, SHCA_GATE_DEAD);
	SHCA_FAILPOINT(thr, "destroy-unlisted", sh, 0);
	shca_quiesce(thr, thr->m->slot);
	SHCA_FAILPOINT(thr, "destroy-quiesced", sh, 0);
	shca_windows_leave(c, sh->qpn);
	shca_zombies_free(thr, done);
	if (shca_qp_unread(sh))
		shca_events_gone(c);
	shca_account(m, sh);
	shca_counts_keep(c->node, sh);
	shca_qp_clean_cqs(qp);
	shca_local_set(m, sh->qpn, SHCA_KIND_NONE, NULL);
	if (qp->rq == &qp->own_rq)
		shca_user_rq_free(m, &qp->own_rq);
	shca_sq_free(qp);
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
	/* as the kernel has it */
	if (qp->flows && !shca_inherited(ibqp->context))
		return shca_refuse(EBUSY, "destroy_qp: flows lead to queue pair %#x: ibv_destroy_flow comes first", ibqp->qp_num);
	if (!shca_inherited(ibqp->context) && shca_is_group_member(qp))
		return shca_refuse(EBUSY,
				   "destroy_qp: queue pair %#x is attached to a multicast group: ibv_detach_mcast comes first",
				   ibqp->qp_num);
	shca_qp_unmap(qp);
	shca_wait_acked(&ibqp->mutex, &ibqp->cond, &qp->events_unacked);
	shca_qp_refs(qp, -1);
	pthread_mutex_destroy(&ibqp->mutex);
	pthread_mutex_destroy(&qp->modifying);
	pthread_cond_destroy(&ibqp->cond);
	free(qp->wr);
	free(qp->umr);
	free(qp->key_entries);
	free(qp);
	return 0;
}
