/* SPDX-License-Identifier: BSD-3-Clause */
/* RC: one queue pair per peer; messages arrive in the shared receive queue. Also connects the queue pairs of collectives. */
#include <string.h>

#include "transport/core/tp.h"

/* Creates the shared receive queue of RC and DC, and its pool. */
int hdl_srq_open(struct hdl_dev *dev)
{
	uint32_t depth = hdl_srq_depth(dev);
	struct ibv_srq_init_attr a = { .attr = { .max_wr = depth, .max_sge = 1 } };

	if (dev->basic_srq)
		return 0;
	dev->basic_srq = ibv_create_srq(dev->port.pd, &a);
	if (!dev->basic_srq) {
		int err = errno;
		hdl_error("%s: ibv_create_srq of %u receives failed (%s): lower HEDDLE_SRQ_DEPTH", dev->name, depth,
			  strerror(err));
		return -err;
	}
	hdl_rxpool_init(&dev->rx[HDL_POOL_SRQ], dev, HDL_QUEUE_RC, dev->basic_srq, NULL, hdl_srq_bytes(),
			HDL_SRQ_FIRST(depth), depth);
	return 0;
}

void hdl_srq_close(struct hdl_dev *dev)
{
	int err = dev->basic_srq ? ibv_destroy_srq(dev->basic_srq) : 0;

	if (err)
		hdl_warn("%s: ibv_destroy_srq failed (%s)", dev->name, strerror(err));
	dev->basic_srq = NULL;
	hdl_rxpool_fini(&dev->rx[HDL_POOL_SRQ]);
}

static int rc_make(struct hdl_ep *ep, struct hdl_conn_queues *c)
{
	struct hdl_dev *dev = ep->dev;
	int err = hdl_rxpool_start(&dev->rx[HDL_POOL_SRQ], ep->tp->peers.live);

	if (err || (err = hdl_sq_init(&c->sq, dev, &hdl_kind_rc, (uint32_t)hdl_vars.sq_depth)))
		return err;
	struct ibv_qp_init_attr a = {
		.qp_type = IBV_QPT_RC, .send_cq = c->sq.scq->cq, .recv_cq = dev->rcq, .srq = dev->basic_srq,
		.cap = { .max_send_wr = c->sq.depth, .max_send_sge = 3, .max_inline_data = dev->max_inline },
	};
	c->sq.qp = ibv_create_qp(dev->port.pd, &a);
	if (!c->sq.qp && hdl_memory_again(dev))
		c->sq.qp = ibv_create_qp(dev->port.pd, &a);
	if (!c->sq.qp) {
		err = -errno;
		hdl_error("%s: cannot create an RC queue pair for %s (%s; %u requests, %u bytes inline): lower "
			  "HEDDLE_SQ_DEPTH, or use kinds that share queues (HEDDLE_TRANSPORT=ud,dc)",
			  dev->name, hdl_proc_text(ep->rank), strerror(-err), c->sq.depth, dev->max_inline);
		hdl_sq_fini(&c->sq);
		return err;
	}
	c->sq.ep = ep;
	c->sq.max_inline = a.cap.max_inline_data;
	hdl_sq_ask(&c->sq);
	if ((err = hdl_qp_init(c->sq.qp, &dev->port, hdl_qp_access(dev))))
		hdl_sq_fini(&c->sq);
	return err;
}

static int rc_renew(struct hdl_conn_queues *q)
{
	return hdl_qp_renew(q->sq.qp, &q->sq.dev->port, hdl_qp_access(q->sq.dev));
}

static int rc_to_rtr(struct hdl_ep *ep, const struct hdl_conn_msg *m)
{
	return hdl_qp_rtr(ep->queues->sq.qp, ep->dev, &ep->addr, m->qpn, m->psn);
}

/* Probes RC, and finds the inline size, which a device tells only by creating a queue pair. */
static int rc_probe(struct hdl_dev *dev)
{
	/* The first try is a whole frame of the largest ring message: on a device that copies inline data, the sender's buffer
	 * is free when the post returns, and no completion has to be awaited. */
	const uint32_t tries[] = { (uint32_t)dev->tp->ring_max + HDL_BOUNCE_AROUND, 1024, 512, 256, 220, 128, 64, 0 };
	struct ibv_cq *cq = ibv_create_cq(dev->port.ctx, 16, NULL, NULL, 0);
	struct ibv_qp *qp = NULL;

	if (!cq) {
		int err = errno;
		hdl_error("%s: ibv_create_cq of 16 entries failed (%s)", dev->name, strerror(err));
		return -err;
	}
	for (unsigned i = 0; i < ARRAY_SIZE(tries) && !qp; i++) {
		struct ibv_qp_init_attr a = {
			.qp_type = IBV_QPT_RC, .send_cq = cq, .recv_cq = cq,
			.cap = { .max_send_wr = 16, .max_send_sge = 3, .max_recv_wr = 1, .max_recv_sge = 1,
				 .max_inline_data = tries[i] },
		};
		qp = ibv_create_qp(dev->port.pd, &a);
		if (qp)
			dev->max_inline = tries[i];
	}
	if (qp)
		ibv_destroy_qp(qp);
	ibv_destroy_cq(cq);
	return qp && dev->srq;
}

bool hdl_tp_allows_rc(struct hdl_tp *tp)
{
	return tp->allowed & HDL_QUEUE_BIT(HDL_QUEUE_RC);
}

int hdl_tp_rc_connect(struct hdl_tp *tp, struct ibv_qp *qp, const struct hdl_port *port, const union ibv_gid *gid, uint16_t lid,
		      uint32_t qpn, uint32_t psn)
{
	struct hdl_dev *dev = NULL;
	int err;

	for (int i = 0; i < tp->ndev; i++)
		if (&tp->dev[i]->port == port)
			dev = tp->dev[i];
	if (!dev)
		return -EINVAL;
	err = hdl_qp_init(qp, port, hdl_qp_access(dev));
	return err ? err : hdl_qp_connect(qp, dev, gid, lid, qpn, psn);
}

const struct hdl_tp_kind hdl_kind_rc = {
	.queue = HDL_QUEUE_RC, .needs = "RC queue pairs on a shared receive queue", .pool = HDL_POOL_SRQ, .reports_end = true,
	.probe = rc_probe, .open = hdl_srq_open, .close = hdl_srq_close, .receives = hdl_srq_depth, .make = rc_make,
	.to_rtr = rc_to_rtr, .renew = rc_renew,
};
