/* SPDX-License-Identifier: BSD-3-Clause */
/* Asynchronous events of devices (IBTA 11.6.3): a table by type. */
#include "transport/core/tp.h"

static struct hdl_sq *sq_of(struct hdl_tp *tp, const struct ibv_qp *qp)
{
	for (uint32_t i = 0; i < tp->nsqs; i++)
		if (tp->sqs[i] && tp->sqs[i]->qp == qp)
			return tp->sqs[i];
	return NULL;
}

static void on_news(struct hdl_dev *dev, const struct ibv_async_event *e)
{
	hdl_debug("%s: %s", dev->name, ibv_event_type_str(e->event_type));
}

static void on_srq_limit(struct hdl_dev *dev, const struct ibv_async_event *e)
{
	for (int i = 0; i < HDL_POOLS; i++) {
		struct hdl_rxpool *p = &dev->rx[i];
		if (p->srq != e->element.srq)
			continue;
		p->limit = 0;
		p->short_of = true;
		hdl_rxpool_flush(p);
		hdl_rxpool_grow(p, p->total);
	}
}

/* Where a queue's error leads. */
enum queue_error {
	QUEUE_REPEATED,		/* UD: the queue is reset, and streams send lost packets again */
	QUEUE_SHARED,		/* the queue restarts when a request has failed in it; a receiving queue ends with the process
				 * that sends to it; an agent queue has its completions (agent_queue.c) */
	QUEUE_REPLACED,		/* the queue is being replaced, or will be when the connection is up */
	QUEUE_BROKE,		/* the queue is to be replaced */
	QUEUE_FAILED,		/* the endpoint fails */
};

static enum queue_error queue_error_of(struct hdl_dev *dev, const struct ibv_async_event *e, const struct hdl_sq *sq)
{
	struct hdl_ep *ep = sq ? sq->ep : NULL;
	bool closing = dev->tp->closing;

	if (sq && sq->kind->repeats && !closing)
		return QUEUE_REPEATED;
	if ((sq && sq->kind->reset) || hdl_xrc_event(dev, e->element.qp) || hdl_agent_has(dev->tp, e->element.qp))
		return QUEUE_SHARED;
	/* The event may be read while the queue is being replaced for that event's cause. (After that the queue is replaced once
	 * more: the event may also mean that the peer has ended, with nothing wrong with the queue.) */
	if (ep && hdl_ep_replaced(ep))
		return QUEUE_REPLACED;
	if (!ep || ep->failed || !ep->queues || !ep->queues->kind->renew)
		return QUEUE_FAILED;
	if (ep->conn.up)
		return closing ? QUEUE_FAILED : QUEUE_BROKE;
	/* this side has refused a request before RTS: to_rts finds the queue in ERR, and replaces the queue */
	return e->event_type == IBV_EVENT_QP_ACCESS_ERR ? QUEUE_REPLACED : QUEUE_FAILED;
}

static void queue_failed(struct hdl_dev *dev, const struct ibv_async_event *e, struct hdl_ep *ep)
{
	char text[HDL_PEER_TEXT];

	if (ep && !ep->failed && !hdl_ep_may_end(ep) && !dev->tp->closing)
		hdl_error("connection to %s failed: %s port %u, %s queue %u: %s: the peer's process has ended, or sent what this "
			  "device refuses; look at the peer's output", hdl_peer_text(ep, text), dev->name, dev->port.port_num,
			  hdl_kind_name(ep->queues ? ep->queues->kind : NULL), e->element.qp->qp_num,
				  ibv_event_type_str(e->event_type));
	else if (!ep && !dev->tp->closing)
		hdl_error("%s port %u: queue %u: %s: messages may be lost", dev->name, dev->port.port_num,
			  e->element.qp->qp_num, ibv_event_type_str(e->event_type));
	if (ep)
		hdl_ep_fail(ep, -ECONNRESET);
}

static void on_queue_error(struct hdl_dev *dev, const struct ibv_async_event *e)
{
	struct hdl_sq *sq = sq_of(dev->tp, e->element.qp);
	struct hdl_ep *ep = sq ? sq->ep : NULL;

	/* completions say more than the event does */
	hdl_tp_reap(dev->tp);
	switch (queue_error_of(dev, e, sq)) {
	case QUEUE_REPEATED:
		hdl_sq_broken(sq);
		return;
	case QUEUE_SHARED:
	case QUEUE_REPLACED:
		return;
	case QUEUE_BROKE:
		ep->queues->event = (int)e->event_type;
		hdl_wire_broke(ep, NULL);
		return;
	case QUEUE_FAILED:
		queue_failed(dev, e, ep);
		return;
	}
}

static void on_loss(struct hdl_dev *dev, const struct ibv_async_event *e)
{
	if (!dev->tp->closing)
		hdl_error("%s port %u: %s: messages may be lost; see the device's log and `heddle_info --devices`", dev->name,
			  dev->port.port_num, ibv_event_type_str(e->event_type));
}

static void on_device_fatal(struct hdl_dev *dev, const struct ibv_async_event *e)
{
	struct hdl_tp *tp = dev->tp;

	on_loss(dev, e);
	for (uint32_t i = 0; i < tp->peers.n; i++)
		if (tp->peers.of[i] && tp->peers.of[i]->dev == dev)
			hdl_ep_fail(tp->peers.of[i], -EIO);
}

typedef void (*event_fn)(struct hdl_dev *dev, const struct ibv_async_event *e);
/* By enum ibv_event_type; NULL, and types beyond the table: on_loss. */
static const event_fn handlers[] = {
	[IBV_EVENT_SRQ_LIMIT_REACHED] = on_srq_limit,
	[IBV_EVENT_COMM_EST] = on_news,
	[IBV_EVENT_QP_LAST_WQE_REACHED] = on_news,
	[IBV_EVENT_SQ_DRAINED] = on_news,
	[IBV_EVENT_PATH_MIG] = on_news,
	[IBV_EVENT_GID_CHANGE] = on_news,
	[IBV_EVENT_PKEY_CHANGE] = on_news,
	[IBV_EVENT_LID_CHANGE] = on_news,
	[IBV_EVENT_SM_CHANGE] = on_news,
	[IBV_EVENT_CLIENT_REREGISTER] = on_news,
	[IBV_EVENT_PORT_ACTIVE] = on_news,
	[IBV_EVENT_QP_FATAL] = on_queue_error,
	[IBV_EVENT_QP_REQ_ERR] = on_queue_error,
	[IBV_EVENT_QP_ACCESS_ERR] = on_queue_error,
	[IBV_EVENT_PATH_MIG_ERR] = on_queue_error,
	[IBV_EVENT_DEVICE_FATAL] = on_device_fatal,
};

void hdl_tp_async(struct hdl_dev *dev)
{
	struct ibv_async_event e;

	/* the descriptor is non-blocking */
	while (!ibv_get_async_event(dev->port.ctx, &e)) {
		event_fn fn = (unsigned)e.event_type < ARRAY_SIZE(handlers) ? handlers[e.event_type] : NULL;

		(fn ? fn : on_loss)(dev, &e);
		ibv_ack_async_event(&e);
	}
	hdl_xrc_tidy(dev);
}
