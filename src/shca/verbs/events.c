/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Asynchronous events of contexts.
 *
 * One fabric member serves all contexts of a process. The member's event bell is one socket, rung by each thread that raises an
 * event. A context's async_fd is an epoll descriptor over that bell and a bell of the context (`told`). The reader of the
 * member's bell rings `told` of all other contexts with unread events, so no wake-up is lost; async_fd may be readable for
 * another context's event, as any shared descriptor may.
 *
 * Danger: the application may have closed any of these descriptors, and use the number for another file. A socket is known by
 * its inode. An epoll descriptor has no inode of its own; it is known by the sockets that it watches. So no descriptor here is
 * an eventfd.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/epoll.h>

#include "shca/engine/common.h"
#include "shca/verbs/control.h"

bool shca_async_ours(const struct shca_context *c)
{
	struct epoll_event ev = { .events = EPOLLIN };

	return c->async.n >= 0 && shca_fd_ours(&c->node->bell) && !epoll_ctl(c->async.n, EPOLL_CTL_MOD, c->node->bell.n, &ev);
}

/* Takes the next event of the device or of a port that the process has, in the order in which the events came. Must hold
 * c->mutex. A late reader has lost the oldest events, as on a device whose event queue is full. */
static bool find_port_event(struct shca_context *c, struct ibv_async_event *event)
{
	const struct shca_ports *p = &c->m->hdr->ports;
	uint64_t n = atomic_load(&p->events), e;

	if (n - c->port_events > SHCA_PORT_EVENTS)
		c->port_events = n - SHCA_PORT_EVENTS;
	for (; c->port_events < n; c->port_events++) {
		e = atomic_load(&p->event[c->port_events % SHCA_PORT_EVENTS]);
		/* one that is overwritten just now is behind those that are left */
		if (e >> 8 != c->port_events + 1 || SHCA_EVENT_PORT(e) > shca_ports())
			continue;
		if (!event)
			return true;
		c->port_events++;
		*event =
			(struct ibv_async_event){.event_type = SHCA_EVENT_TYPE(e), .element.port_num = (int)SHCA_EVENT_PORT(e)};
		return true;
	}
	return false;
}

/*
 * Whether LAST_WQE_REACHED may be given out: every message that was under way to the queue has completed, or never will. The
 * sender may be a stopped process, so no thread waits here: the first look notes the threads that are inside, and the helper
 * thread has the process look again. Must hold c->mutex.
 */
static bool last_has_come(struct shca_context *c, struct shca_user_qp *qp)
{
	struct shca_thread *thr = shca_thread_get(c->m);

	if (!thr)
		return true;
	if (!qp->last_seen)
		qp->last_seen = shca_quiesce_begin(thr, &qp->last, c->m->slot);
	if (qp->last_seen && shca_quiesced(thr, &qp->last))
		return true;
	if (!shca_events_again(c->m))
		return false;
	/* there is no helper thread, nor can one be started */
	shca_quiesce(thr, c->m->slot);
	return true;
}

void shca_last_forget(struct shca_user_qp *qp)
{
	struct shca_context *c = shca_context_of(qp->qp.context);

	pthread_mutex_lock(&c->mutex);
	shca_quiesce_end(&qp->last);
	qp->last_seen = false;
	pthread_mutex_unlock(&c->mutex);
}

/* Makes an event of qp, a target of the experimental verbs, one of the target. */
static void event_of_target(const struct shca_user_qp *qp, struct ibv_async_event *event)
{
	event->event_type = event->event_type == (enum ibv_event_type)SHCA_EVENT_DC_KEY ? IBV_EXP_EVENT_DCT_KEY_VIOLATION :
											  IBV_EXP_EVENT_DCT_REQ_ERR;
	/* the place of the member `dct` in programs whose struct has one */
	event->element.qp = (struct ibv_qp *)(void *)qp->dct;
}

/* Finds an unread event of c, and takes it unless event is NULL. *late: an event will come as soon as all noted threads have
 * left (last_has_come). */
static bool find_event(struct shca_context *c, struct ibv_async_event *event, bool *late)
{
	const uint32_t last = 1u << IBV_EVENT_QP_LAST_WQE_REACHED;

	pthread_mutex_lock(&c->mutex);
	bool found = find_port_event(c, event);
	for (struct shca_user_qp *qp = c->qps; qp && !found; qp = qp->next) {
		uint32_t bits = qp->common ? shca_common_unread(qp->holder) : shca_qp_unread(qp->sh);
		if (bits & last && !last_has_come(c, qp)) {
			*late = true;
			bits &= ~last;
		}
		if (!bits)
			continue;
		found = true;
		if (event) {
			uint32_t bit = (uint32_t)__builtin_ctz(bits);
			if (qp->common)
				atomic_fetch_and(qp->holder, ~(1ull << bit << 32));
			else
				atomic_fetch_and(&qp->sh->events, ~(1u << bit));
			if (1u << bit == last)
				qp->last_seen = false;
			event->event_type = (enum ibv_event_type)bit;
			event->element.qp = &qp->qp;
			if (qp->dct)
				event_of_target(qp, event);
			pthread_mutex_lock(&qp->qp.mutex);
			qp->events_unacked++;
			pthread_mutex_unlock(&qp->qp.mutex);
		}
	}
	for (struct shca_user_cq *cq = c->cqs; cq && !found; cq = cq->next) {
		if (!(atomic_load(&cq->sh->error) & SHCA_ERROR_EVENT))
			continue;
		found = true;
		if (event) {
			atomic_fetch_and(&cq->sh->error, ~SHCA_ERROR_EVENT);
			event->event_type = IBV_EVENT_CQ_ERR;
			event->element.cq = &cq->cq;
			pthread_mutex_lock(&cq->cq.mutex);
			cq->async_unacked++;
			pthread_mutex_unlock(&cq->cq.mutex);
		}
	}
	for (struct shca_user_srq *srq = c->srqs; srq && !found; srq = srq->next) {
		bool error = atomic_load(&srq->rq.sh->error) & SHCA_ERROR_EVENT;
		if (!error && !(atomic_load(&srq->rq.sh->limit) & SHCA_LIMIT_EVENT))
			continue;
		found = true;
		if (event) {
			if (error)
				atomic_fetch_and(&srq->rq.sh->error, ~SHCA_ERROR_EVENT);
			else
				atomic_fetch_and(&srq->rq.sh->limit, ~SHCA_LIMIT_EVENT);
			event->event_type = error ? IBV_EVENT_SRQ_ERR : IBV_EVENT_SRQ_LIMIT_REACHED;
			event->element.srq = &srq->srq;
			pthread_mutex_lock(&srq->srq.mutex);
			srq->events_unacked++;
			pthread_mutex_unlock(&srq->srq.mutex);
		}
	}
	pthread_mutex_unlock(&c->mutex);
	return found;
}

#define LATE_ROUNDS 50u

static void silence(const struct shca_fd *bell)
{
	struct shca_ring r;

	while (shca_fd_ours(bell) && shca_ring_read(bell->n, false, &r) > 0)
		;
}

/* Makes c's async_fd readable exactly when c has unread events. Must hold node->mutex. */
static void device_tell(struct shca_context *c)
{
	bool late;

	silence(&c->bell);
	if (find_event(c, NULL, &late))
		shca_bell_ring(c->m, c->bell_addr);
}

/* Empties the member's bell, then rings `told` of every context with an unread event. An event raised after the bell was emptied
 * rings it again, since async_pending is cleared before the objects are looked at. */
static void dispatch_events(struct shca_node *node)
{
	pthread_mutex_lock(&node->mutex);
	silence(&node->bell);
	atomic_store(&node->m.proc->async_pending, 0);
	for (struct shca_context *c = node->contexts; c; c = c->next)
		device_tell(c);
	pthread_mutex_unlock(&node->mutex);
}

/* Empties async_fd after an object with an unread event was destroyed or reset: otherwise the descriptor would stay readable
 * without an event. Must hold no lock. */
void shca_events_gone(struct shca_context *c)
{
	dispatch_events(c->node);
}

int shca_get_async_event(struct ibv_context *ctx, struct ibv_async_event *event)
{
	struct shca_context *c = shca_context_of(ctx);
	struct shca_thread *thr;
	if (shca_inherited(ctx))
		return -1;
	for (unsigned round = 0;; round++) {
		bool late = false;

		dispatch_events(c->node);
		if (find_event(c, event, &late)) {
			pthread_mutex_lock(&c->node->mutex);
			device_tell(c);
			pthread_mutex_unlock(&c->node->mutex);
			/* a process that no peer can reach has no helper thread that would fail its queues */
			if (event->event_type == IBV_EVENT_DEVICE_FATAL && (thr = shca_thread_get(c->m)) != NULL)
				shca_fail_all(thr);
			return 0;
		}
		/* a message takes microseconds, unless its sender is stopped or has lost its CPU */
		if (late && round < LATE_ROUNDS) {
			sched_yield();
			continue;
		}
		int fl = shca_async_ours(c) ? fcntl(c->async.n, F_GETFL) : -1;
		if (fl < 0) {
			errno = shca_refuse(EBADF, "get_async_event: the application has closed descriptor %d", c->async.n);
			return -1;
		}
		if (fl & O_NONBLOCK) {
			errno = EAGAIN;	/* said: nothing is refused, there is no event */
			return -1;
		}
		struct pollfd p = { .fd = c->async.n, .events = POLLIN };
		if (poll(&p, 1, -1) < 0)
			return -1;
	}
}

static void ack(pthread_mutex_t *mutex, pthread_cond_t *cond, uint32_t *unacked, uint32_t *completed)
{
	pthread_mutex_lock(mutex);
	if (*unacked)
		--*unacked;
	++*completed;
	pthread_cond_broadcast(cond);
	pthread_mutex_unlock(mutex);
}

void shca_ack_async_event(struct ibv_async_event *event)
{
	if (event->event_type >= IBV_EXP_EVENT_DCT_KEY_VIOLATION) {
		struct ibv_exp_dct *dct = ibv_exp_event_dct(event);
		struct shca_user_qp *qp = shca_user_dct_of(dct)->qp;
		ack(&qp->qp.mutex, &qp->qp.cond, &qp->events_unacked, &dct->events_completed);
		return;
	}
	switch (event->event_type) {
	case IBV_EVENT_CQ_ERR: {
		struct shca_user_cq *cq = shca_user_cq_of(event->element.cq);
		ack(&cq->cq.mutex, &cq->cq.cond, &cq->async_unacked, &cq->cq.async_events_completed);
		return;
	}
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_COMM_EST:
	case IBV_EVENT_SQ_DRAINED:
	case IBV_EVENT_PATH_MIG:
	case IBV_EVENT_PATH_MIG_ERR:
	case IBV_EVENT_QP_LAST_WQE_REACHED: {
		struct shca_user_qp *qp = shca_user_qp_of(event->element.qp);
		ack(&qp->qp.mutex, &qp->qp.cond, &qp->events_unacked, &qp->qp.events_completed);
		return;
	}
	case IBV_EVENT_SRQ_ERR:
	case IBV_EVENT_SRQ_LIMIT_REACHED: {
		struct shca_user_srq *srq = shca_user_srq_of(event->element.srq);
		ack(&srq->srq.mutex, &srq->srq.cond, &srq->events_unacked, &srq->srq.events_completed);
		return;
	}
	default:
		return;	/* events of ports and the device need no acknowledgement */
	}
}

void shca_wait_acked(pthread_mutex_t *mutex, pthread_cond_t *cond, const uint32_t *unacked)
{
	pthread_mutex_lock(mutex);
	while (*unacked)
		pthread_cond_wait(cond, mutex);
	pthread_mutex_unlock(mutex);
}
