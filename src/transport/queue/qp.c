/* SPDX-License-Identifier: BSD-3-Clause */
/* State transitions of queue pairs, for RC, XRC and the collectives' queues. */
#include <string.h>

#include "transport/core/tp.h"

/* Local acknowledgement timeout 4.096 us * 2^18 = 1.07 s and 6 retries: a peer that does not answer for some seconds is gone. (7
 * retries mean "forever" on some devices, and shorter timeouts expire spuriously on loaded ones.) */
#define ACK_TIMEOUT 18
#define ACK_RETRIES 6
#define RNR_FOREVER 7
#define RNR_TIMER 12		/* 0.64 ms */

int hdl_qp_access(const struct hdl_dev *dev)
{
	return IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
	       (dev->attr.orig_attr.atomic_cap != IBV_ATOMIC_NONE ? IBV_ACCESS_REMOTE_ATOMIC : 0);
}

int hdl_qp_init(struct ibv_qp *qp, const struct hdl_port *port, int access)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT, .pkey_index = 0, .port_num = port->port_num,
				 .qp_access_flags = (unsigned)access };
	int err = ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);

	if (err)
		hdl_error("port %u: queue %u: RESET to INIT failed (%s)", port->port_num, qp->qp_num, strerror(err));
	return -err;
}

int hdl_qp_renew(struct ibv_qp *qp, const struct hdl_port *port, int access)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_RESET };
	int err = ibv_modify_qp(qp, &a, IBV_QP_STATE);

	if (!err)
		return hdl_qp_init(qp, port, access);
	hdl_error("port %u: queue %u cannot be reset (%s)", port->port_num, qp->qp_num, strerror(err));
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

static int qp_to_rtr(struct ibv_qp *qp, enum ibv_mtu mtu, const struct ibv_ah_attr *ah, uint32_t qpn, uint32_t psn)
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
	return qp_to_rtr(qp, mtu, &ah, qpn, psn);
}

int hdl_qp_rts(struct ibv_qp *qp, uint32_t psn, bool *broke)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_RTS, .timeout = ACK_TIMEOUT, .retry_cnt = ACK_RETRIES,
				 .rnr_retry = RNR_FOREVER, .sq_psn = psn & 0xffffff, .max_rd_atomic = 4 };
	int err = ibv_modify_qp(qp, &a,
				IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
					IBV_QP_MAX_QP_RD_ATOMIC);

	/* the query must follow the attempt: before the attempt the queue may still be about to break */
	if (err && broke && !ibv_query_qp(qp, &a, IBV_QP_STATE, &init) && a.qp_state == IBV_QPS_ERR) {
		*broke = true;
		return 0;
	}
	if (err)
		hdl_error("queue %u: RTR to RTS failed (%s)", qp->qp_num, strerror(err));
	return -err;
}

int hdl_qp_connect(struct ibv_qp *qp, const struct hdl_dev *dev, const union ibv_gid *gid, uint16_t lid, uint32_t qpn,
		   uint32_t psn)
{
	struct ibv_ah_attr ah;
	int err;

	hdl_dev_ah(dev, gid, lid, &ah);
	err = qp_to_rtr(qp, dev->port.mtu, &ah, qpn, psn);
	return err ? err : hdl_qp_rts(qp, psn, NULL);
}

bool hdl_dev_in_order(struct ibv_qp *qp)
{
	return ibv_query_qp_data_in_order(qp, IBV_WR_RDMA_WRITE, 0) == 1;
}
