/* SPDX-License-Identifier: BSD-3-Clause */
/* Modifying a queue pair: the checks of attributes, and the transitions to RESET, SQD and ERR. */
#include <errno.h>

#include "shca/engine/common.h"
#include "shca/engine/path.h"
#include "shca/verbs/control.h"
#include "shca/verbs/objects/sq.h"

/* Path migration (IBTA 17.2.8). The device alone makes a queue ARMED. */
static int path_check(const struct shca_user_qp *qp, const struct ibv_qp_attr *a, int mask)
{
	struct ibv_ah_attr ah = a->alt_ah_attr;
	bool loads = mask & IBV_QP_ALT_PATH, sets = mask & IBV_QP_PATH_MIG_STATE;

	if (shca_ports() < 2 && (loads || (sets && a->path_mig_state != IBV_MIG_MIGRATED)))
		return shca_refuse(EOPNOTSUPP, "modify_qp: the device has one port (SHCA_PORTS), there is no alternate path");
	if (sets && a->path_mig_state != IBV_MIG_MIGRATED && a->path_mig_state != IBV_MIG_REARM)
		return shca_refuse(EINVAL, "modify_qp: migration state %d: a program can set MIGRATED and REARM only",
				   a->path_mig_state);
	if (sets && a->path_mig_state == IBV_MIG_REARM && !loads && !SHCA_PATH_ALT_PORT(atomic_load(&qp->sh->path)))
		return shca_refuse(EINVAL, "modify_qp: REARM: no alternate path is loaded%s",
				   SHCA_PATH_STATE(atomic_load(&qp->sh->path)) == IBV_MIG_MIGRATED ?
					   " (a migration uses the alternate path up)" :
					   "");
	if (!loads)
		return 0;
	if (a->alt_port_num < 1 || a->alt_port_num > shca_ports() || a->alt_pkey_index != 0 || a->alt_timeout > 31)
		return shca_refuse(
			EINVAL,
			"modify_qp: alternate path: port %u of %u, P_Key index %u of 1, timeout %u of 0 to 31: one is out of "
			"range",
			a->alt_port_num, shca_ports(), a->alt_pkey_index, a->alt_timeout);
	ah.port_num = a->alt_port_num;
	return shca_address_check(&ah);
}

static int value_check(const struct shca_user_qp *qp, const struct ibv_qp_attr *a, int mask)
{
	if ((mask & IBV_QP_PORT) && (a->port_num < 1 || a->port_num > shca_ports()))
		return shca_refuse(EINVAL, "modify_qp: port %u: the device has %u, numbered from 1 (SHCA_PORTS)", a->port_num,
				   shca_ports());
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
	return path_check(qp, a, mask);
}

/* Brings the owner's attributes up to date with a migration: the alternate path's are the path's. May be repeated. */
static void path_note(struct shca_user_qp *qp)
{
	struct ibv_qp_attr *k = &qp->attr;

	if (likely(!(atomic_load(&qp->sh->path) & SHCA_PATH_MOVED)))
		return;
	k->ah_attr = k->alt_ah_attr;
	k->ah_attr.port_num = k->port_num = k->alt_port_num;
	k->pkey_index = k->alt_pkey_index;
	qp->sh->timeout = k->timeout = k->alt_timeout;
	if (qp->common)
		shca_xrc_applied(qp);
	atomic_fetch_and(&qp->sh->path, ~SHCA_PATH_MOVED);
}

void shca_qp_query_path(struct shca_user_qp *qp, struct ibv_qp_attr *attr)
{
	uint32_t w;

	do {
		path_note(qp);
		w = atomic_load(&qp->sh->path);
	} while (w & SHCA_PATH_MOVED);
	*attr = qp->attr;
	attr->path_mig_state = (enum ibv_mig_state)SHCA_PATH_STATE(w);
	if (SHCA_PATH_ALT_PORT(w))
		return;
	memset(&attr->alt_ah_attr, 0, sizeof(attr->alt_ah_attr));
	attr->alt_pkey_index = attr->alt_port_num = attr->alt_timeout = 0;
}

/* Stores the ports of the paths, and a migration state but that of a migration (shca_path_migrate). The engine may change the
 * word meanwhile: a migration that comes before the new alternate path has been stored is noted first. */
static void path_apply(struct shca_user_qp *qp, const struct ibv_qp_attr *a, int mask)
{
	struct ibv_qp_attr *k = &qp->attr;
	uint32_t w, n, to = mask & IBV_QP_AV ? shca_address_port(qp->qp.context, &a->ah_attr) : 0;
	uint32_t alt = mask & IBV_QP_ALT_PATH ? shca_address_port(qp->qp.context, &a->alt_ah_attr) : 0;

	do {
		path_note(qp);
		n = w = atomic_load(&qp->sh->path) & ~SHCA_PATH_MOVED;
		if (mask & IBV_QP_PORT)
			n = SHCA_PATH_SET_PORT(n, a->port_num);
		if (mask & IBV_QP_AV)
			n = SHCA_PATH_SET_TO(n, to);
		if (mask & IBV_QP_ALT_PATH)
			n = SHCA_PATH_SET_ALT(n, a->alt_port_num, alt, a->alt_timeout) & ~SHCA_PATH_REFUSED;
		if ((mask & IBV_QP_PATH_MIG_STATE) && a->path_mig_state == IBV_MIG_REARM)
			n = SHCA_PATH_SET_STATE(n, IBV_MIG_REARM) & ~SHCA_PATH_REFUSED;
		else if ((mask & IBV_QP_PATH_MIG_STATE) && SHCA_PATH_STATE(n) == IBV_MIG_REARM)
			n = SHCA_PATH_SET_STATE(n, IBV_MIG_MIGRATED);
	} while (!atomic_compare_exchange_strong(&qp->sh->path, &w, n));
	shca_port_moved(qp->m, qp->sh, SHCA_PATH_PORT(w), SHCA_PATH_PORT(n), shca_packets_of(qp->sh));
	if (mask & IBV_QP_ALT_PATH) {
		k->alt_ah_attr = a->alt_ah_attr;
		k->alt_port_num = a->alt_port_num;
		k->alt_pkey_index = a->alt_pkey_index;
		k->alt_timeout = a->alt_timeout;
	}
}

/* Writes the attributes to the shared part. The gate decides when requesters read them. */
static void qp_apply(struct shca_user_qp *qp, const struct ibv_qp_attr *a, int mask)
{
	struct shca_qp *sh = qp->sh;
	struct ibv_qp_attr *k = &qp->attr;

	if (mask & (IBV_QP_PORT | IBV_QP_AV | IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE))
		path_apply(qp, a, mask);
	if (mask & IBV_QP_PKEY_INDEX)
		sh->pkey_index = k->pkey_index = a->pkey_index;
	if (mask & IBV_QP_PORT)
		k->port_num = a->port_num;
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
		sh->dest_qpn = shca_address_port(qp->qp.context, &k->ah_attr) ? k->dest_qp_num : 0;
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
	set_ready(qp, shca_type_sends(qp->type));
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

void shca_qp_stop(struct shca_thread *thr, struct shca_user_qp *qp)
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

void shca_qp_clean_cqs(struct shca_user_qp *qp)
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
	shca_qp_stop(thr, qp);
	SHCA_FAILPOINT(thr, "reset-stopped", sh, 0);
	shca_qp_clean_cqs(qp);
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
	shca_rkey_cache_clear(qp);
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
	atomic_store(&sh->held, 0);
	sh->access = 0;
	sh->qkey = 0;
	shca_port_moved(qp->m, sh, SHCA_PATH_PORT(atomic_exchange(&sh->path, SHCA_PATH_RESET)), 1, shca_packets_of(sh));
	sh->mtu = shca_reset_mtu(qp->type);
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

/* A queue that is connected, or about to be, has another path or migration state. In INIT and before there is no peer. */
static void path_change(struct shca_thread *thr, struct shca_qp *sh, const struct ibv_qp_attr *attr, int mask,
			enum ibv_qp_state from)
{
	bool sets = mask & IBV_QP_PATH_MIG_STATE;

	if (likely(from < IBV_QPS_RTR || !(mask & (IBV_QP_PORT | IBV_QP_AV | IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE))) ||
	    !atomic_load(&thr->m->hdr->ports.two))
		return;
	shca_enter(thr);
	if (sets && attr->path_mig_state == IBV_MIG_MIGRATED)
		shca_path_migrate(thr, sh);
	shca_path_modified(thr, sh);
	shca_leave(thr);
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
	path_note(qp);
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
	path_change(thr, sh, attr, mask, from);
	if (to == IBV_QPS_RTR) {
		set_state(qp, to);
		atomic_store(&sh->gate,
			     SHCA_GATE_RESPOND | (qp->type == IBV_QPT_RC || qp->type == IBV_QPT_UC ? SHCA_GATE_FIRST : 0));
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
		set_ready(qp, shca_type_sends(qp->type));
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
