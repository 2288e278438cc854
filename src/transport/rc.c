/* SPDX-License-Identifier: BSD-3-Clause */
/* RC queue pairs: creation, and the state transitions that RC, XRC and the collectives' queues share. */
#include <string.h>

#include "transport/tp.h"

/* Local acknowledgement timeout 4.096 us * 2^18 = 1.07 s and 6 retries: a peer that does not answer for some seconds is
 * gone. (7 retries mean "forever" on some devices, and shorter timeouts expire spuriously on loaded ones.) */
#define ACK_TIMEOUT 18
#define ACK_RETRIES 6
#define RNR_FOREVER 7
#define RNR_TIMER 12		/* 0.64 ms */

int hdl_qp_init(struct ibv_qp *qp, const struct hdl_port *port, int access)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT, .pkey_index = 0, .port_num = port->port_num,
				 .qp_access_flags = (unsigned)access };
	int err = ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);

	if (err)
		hdl_error("port %u: queue %u: RESET to INIT failed (%s)", port->port_num, qp->qp_num, strerror(err));
	return -err;
}

static void fill_ah(const struct hdl_port *port, bool grh, const union ibv_gid *gid, uint16_t lid,
		    struct ibv_ah_attr *ah)
{
	*ah = (struct ibv_ah_attr){ .dlid = lid, .port_num = port->port_num };
	if (grh) {
		ah->is_global = 1;
		ah->grh.dgid = *gid;
		ah->grh.sgid_index = (uint8_t)port->gid_index;
		ah->grh.hop_limit = 64;
	}
}

void hdl_dev_ah(const struct hdl_dev *dev, const union ibv_gid *gid, uint16_t lid, struct ibv_ah_attr *ah)
{
	bool grh = dev->port_attr.link_layer == IBV_LINK_LAYER_ETHERNET || !lid ||
		   dev->port_attr.flags & IBV_QPF_GRH_REQUIRED;
	fill_ah(&dev->port, grh, gid, lid, ah);
}

static int to_rtr(struct ibv_qp *qp, enum ibv_mtu mtu, const struct ibv_ah_attr *ah, uint32_t qpn, uint32_t psn)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_RTR, .path_mtu = mtu, .dest_qp_num = qpn, .rq_psn = psn & 0xffffff,
				 .max_dest_rd_atomic = 4, .min_rnr_timer = RNR_TIMER, .ah_attr = *ah };
	int mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;

	/* an XRC initiator responds to nothing */
	if (qp->qp_type != IBV_QPT_XRC_SEND)
		mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	int err = ibv_modify_qp(qp, &a, mask);

	if (err)
		hdl_error("port %u: queue %u: INIT to RTR towards queue %u (lid %u) failed (%s)", ah->port_num,
			  qp->qp_num, qpn, ah->dlid, strerror(err));
	return -err;
}

int hdl_qp_rtr(struct ibv_qp *qp, const struct hdl_dev *dev, const struct hdl_addr *addr, uint32_t qpn, uint32_t psn)
{
	struct ibv_ah_attr ah;
	enum ibv_mtu mtu = addr->mtu < dev->port.mtu ? addr->mtu : dev->port.mtu;

	hdl_dev_ah(dev, (const union ibv_gid *)addr->gid, addr->lid, &ah);
	return to_rtr(qp, mtu, &ah, qpn, psn);
}

int hdl_qp_rts(struct ibv_qp *qp, uint32_t psn)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_RTS, .timeout = ACK_TIMEOUT, .retry_cnt = ACK_RETRIES,
				 .rnr_retry = RNR_FOREVER, .sq_psn = psn & 0xffffff, .max_rd_atomic = 4 };
	int err = ibv_modify_qp(qp, &a,
				IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
					IBV_QP_MAX_QP_RD_ATOMIC);

	if (err)
		hdl_error("queue %u: RTR to RTS failed (%s)", qp->qp_num, strerror(err));
	return -err;
}

int hdl_rc_create(struct hdl_ep *ep, struct hdl_conn_queues *c)
{
	struct hdl_dev *dev = ep->dev;
	int err = hdl_rxpool_start(&dev->rx_srq);

	if (err || (err = hdl_sq_init(&c->sq, dev, HDL_QUEUE_RC, (uint32_t)hdl_vars.sq_depth)))
		return err;
	struct ibv_qp_init_attr a = {
		.qp_type = IBV_QPT_RC, .send_cq = c->sq.scq->cq, .recv_cq = dev->rcq, .srq = dev->basic_srq,
		.cap = { .max_send_wr = c->sq.mask, .max_send_sge = 3, .max_inline_data = dev->max_inline },
	};
	c->sq.qp = ibv_create_qp(dev->port.pd, &a);
	if (!c->sq.qp) {
		err = -errno;
		hdl_error("%s: cannot create an RC queue pair for rank %d (%s; %u requests, %u bytes inline): lower "
			  "HEDDLE_SQ_DEPTH, or use kinds that share queues (HEDDLE_TRANSPORT=ud,dc)",
			  dev->name, ep->rank, strerror(-err), c->sq.depth, dev->max_inline);
		hdl_sq_fini(&c->sq);
		return err;
	}
	c->sq.ep = ep;
	c->sq.max_inline = a.cap.max_inline_data;
	err = hdl_qp_init(c->sq.qp, &dev->port,
			  IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
	if (err)
		hdl_sq_fini(&c->sq);
	return err;
}

int hdl_tp_rc_connect(struct ibv_qp *qp, const struct hdl_port *port, const union ibv_gid *gid, uint16_t lid,
		      uint32_t qpn, uint32_t psn)
{
	struct hdl_dev *dev = NULL;
	struct ibv_ah_attr ah;
	int err;

	for (int i = 0; i < hdl_tp.ndev; i++)
		if (&hdl_tp.dev[i]->port == port)
			dev = hdl_tp.dev[i];
	if (!dev)
		return -EINVAL;
	hdl_dev_ah(dev, gid, lid, &ah);
	err = hdl_qp_init(qp, port, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
			  (dev->attr.orig_attr.atomic_cap != IBV_ATOMIC_NONE ? IBV_ACCESS_REMOTE_ATOMIC : 0));
	if (!err)
		err = to_rtr(qp, port->mtu, &ah, qpn, psn);
	if (!err)
		err = hdl_qp_rts(qp, psn);
	return err;
}

/* What only a queue pair can tell: how much may be inline, and whether a write's bytes land in order. */
int hdl_rc_caps(struct hdl_dev *dev)
{
	/* A device that copies when it is posted to may take whole frames: then nothing has to be completed before the
	 * sender's buffer is free again. */
	const uint32_t tries[] = { (uint32_t)hdl_tp.ring_max + HDL_BOUNCE_AROUND, 1024, 512, 256, 220, 128, 64, 0 };
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
	if (qp) {
		dev->caps |= HDL_QUEUE_BIT(HDL_QUEUE_RC);
		dev->in_order = ibv_query_qp_data_in_order(qp, IBV_WR_RDMA_WRITE, 0) == 1;
		ibv_destroy_qp(qp);
	}
	ibv_destroy_cq(cq);
	return 0;
}
