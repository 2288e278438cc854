/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * XRC: messages name the shared receive queue in which they arrive. Here a connection is a sending queue pair of ours
 * towards a receiving one of the peer and the reverse; all of them deliver into the one XRC SRQ of the process. The
 * domain is private to the process (no file): sender and SRQ are tied by the receiving queue pair, which lives in it.
 */
#include <fcntl.h>
#include <string.h>

#include "transport/tp.h"

static int probe(struct hdl_dev *dev)
{
	return dev->srq && dev->attr.orig_attr.device_cap_flags & IBV_DEVICE_XRC;
}

static int open_xrc(struct hdl_dev *dev)
{
	struct ibv_xrcd_init_attr x = { .comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = -1,
					.oflags = O_CREAT };
	uint32_t depth = hdl_srq_depth(dev);
	int err;

	dev->xrcd = ibv_open_xrcd(dev->port.ctx, &x);
	if (!dev->xrcd) {
		err = errno;
		hdl_error("%s: ibv_open_xrcd failed (%s)", dev->name, strerror(err));
		return -err;
	}
	struct ibv_srq_init_attr_ex a = {
		.attr = { .max_wr = depth, .max_sge = 1 },
		.comp_mask =
			IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ | IBV_SRQ_INIT_ATTR_PD,
		.srq_type = IBV_SRQT_XRC,
		.xrcd = dev->xrcd,
		.cq = dev->rcq,
		.pd = dev->port.pd,
	};
	dev->xrc_srq = ibv_create_srq_ex(dev->port.ctx, &a);
	if (!dev->xrc_srq) {
		err = errno;
		hdl_error("%s: cannot create an XRC SRQ of %u receives (%s): lower HEDDLE_SRQ_DEPTH", dev->name, depth,
			  strerror(err));
		return -err;
	}
	err = ibv_get_srq_num(dev->xrc_srq, &dev->xrc_srqn);
	if (err) {
		hdl_error("%s: ibv_get_srq_num failed (%s)", dev->name, strerror(err));
		return -err;
	}
	hdl_rxpool_init(&dev->rx[HDL_POOL_XRC], dev, HDL_QUEUE_XRC, dev->xrc_srq, NULL, hdl_srq_bytes(),
			HDL_SRQ_FIRST(depth), depth);
	return 0;
}

static void close_xrc(struct hdl_dev *dev)
{
	int err = dev->xrc_srq ? ibv_destroy_srq(dev->xrc_srq) : 0;

	if (err)
		hdl_warn("%s: ibv_destroy_srq of the XRC SRQ failed (%s)", dev->name, strerror(err));
	dev->xrc_srq = NULL;
	hdl_rxpool_fini(&dev->rx[HDL_POOL_XRC]);
	err = dev->xrcd ? ibv_close_xrcd(dev->xrcd) : 0;
	if (err)
		hdl_warn("%s: ibv_close_xrcd failed (%s)", dev->name, strerror(err));
	dev->xrcd = NULL;
}

#define ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)

static int make(struct hdl_ep *ep, struct hdl_conn_queues *c)
{
	struct hdl_dev *dev = ep->dev;
	int err = hdl_rxpool_start(&dev->rx[HDL_POOL_XRC], hdl_tp.peers.n);

	if (err || (err = hdl_sq_init(&c->sq, dev, &hdl_kind_xrc, (uint32_t)hdl_vars.sq_depth)))
		return err;
	struct ibv_qp_init_attr_ex s = {
		.qp_type = IBV_QPT_XRC_SEND,
		.send_cq = c->sq.scq->cq,
		.comp_mask = IBV_QP_INIT_ATTR_PD,
		.pd = dev->port.pd,
		.cap = { .max_send_wr = c->sq.depth, .max_send_sge = 3, .max_inline_data = dev->max_inline },
	};
	struct ibv_qp_init_attr_ex r = { .qp_type = IBV_QPT_XRC_RECV,
					 .comp_mask = IBV_QP_INIT_ATTR_XRCD,
					 .xrcd = dev->xrcd };

	c->sq.qp = ibv_create_qp_ex(dev->port.ctx, &s);
	if (!c->sq.qp && hdl_memory_again())
		c->sq.qp = ibv_create_qp_ex(dev->port.ctx, &s);
	if (c->sq.qp)
		c->rqp = ibv_create_qp_ex(dev->port.ctx, &r);
	if (c->sq.qp && !c->rqp && hdl_memory_again())
		c->rqp = ibv_create_qp_ex(dev->port.ctx, &r);
	if (!c->sq.qp || !c->rqp) {
		err = -errno;
		hdl_error("%s: cannot create an XRC_%s queue pair for %s (%s; %u requests)", dev->name,
			  c->sq.qp ? "RECV" : "SEND", hdl_proc_text(ep->rank), strerror(-err), c->sq.depth);
		hdl_sq_fini(&c->sq);
		return err;
	}
	c->sq.ep = ep;
	c->sq.max_inline = s.cap.max_inline_data;
	hdl_sq_ask(&c->sq);
	if ((err = hdl_qp_init(c->sq.qp, &dev->port, ACCESS)) || (err = hdl_qp_init(c->rqp, &dev->port, ACCESS))) {
		ibv_destroy_qp(c->rqp);
		c->rqp = NULL;
		hdl_sq_fini(&c->sq);
	}
	return err;
}

static int renew(struct hdl_conn_queues *q)
{
	int err = hdl_qp_renew(q->sq.qp, &q->sq.dev->port, ACCESS);

	return err ? err : hdl_qp_renew(q->rqp, &q->sq.dev->port, ACCESS);
}

static int to_rtr(struct hdl_ep *ep, const struct hdl_conn_msg *m)
{
	struct hdl_conn_queues *q = ep->queues;
	int err = hdl_qp_rtr(q->rqp, ep->dev, &ep->addr, m->qpn, m->psn);

	return err ? err : hdl_qp_rtr(q->sq.qp, ep->dev, &ep->addr, m->rqpn, 0);
}

static void address(const struct hdl_ep *ep, struct ibv_send_wr *wr)
{
	wr->qp_type.xrc.remote_srqn = ep->addr.xrc_srqn;
}

const struct hdl_tp_kind hdl_kind_xrc = {
	.queue = HDL_QUEUE_XRC, .needs = "XRC (IBV_DEVICE_XRC)", .pool = HDL_POOL_XRC, .reports_end = true,
	.probe = probe, .open = open_xrc, .close = close_xrc, .receives = hdl_srq_depth, .make = make, .to_rtr = to_rtr,
	.renew = renew, .address = address,
};
