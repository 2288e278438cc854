/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * DC: a pool of initiators (DCI), where each request names its target, and one target (DCT) per process on the SRQ of RC.
 *
 * All requests to one peer go through one DCI at a time: requests of two DCIs are not ordered. With two of them:
 *
 *     1. the sender writes frame A with its terminator through DCI 0, which is slow
 *     2. the sender writes frame B, at the position of that terminator, through DCI 1
 *     3. A lands behind B: its terminator overwrites the header of B, and the receiver never finds B
 *
 * HEDDLE_DCI_POLICY=hash binds a peer to one DCI for good; lru moves a peer to the least used DCI when no request to that peer
 * is in flight on the old one.
 */
#include <string.h>
#include <stdlib.h>

#include "transport/core/tp.h"

/* The ibv_wr builder copies inline data, so longer payloads are gathered from their place. */
#define DC_INLINE HDL_REPLAY_INLINE

#define DC_SEND_OPS (IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | \
		      IBV_QP_EX_WITH_RDMA_READ)

#define DC_ATOMIC_OPS (IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD)

static int to_init(struct hdl_dev *dev, struct ibv_qp *qp, bool target)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT, .pkey_index = 0, .port_num = dev->port.port_num,
				 .qp_access_flags = (unsigned)hdl_qp_access(dev) & ~(unsigned)IBV_ACCESS_LOCAL_WRITE };
	int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | (target ? IBV_QP_ACCESS_FLAGS : 0);

	return ibv_modify_qp(qp, &a, mask);
}

static int rtr(struct hdl_dev *dev, struct ibv_qp *qp, bool target)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_RTR, .path_mtu = dev->port.mtu, .min_rnr_timer = 12 };

	hdl_dev_ah(dev, &dev->port.gid, dev->port.lid, &a.ah_attr);
	return ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PATH_MTU | IBV_QP_AV | (target ? IBV_QP_MIN_RNR_TIMER : 0));
}

/* Moves a DCI from RESET to RTS. Returns 0 or a positive errno. */
static int dc_start(struct hdl_dev *dev, struct ibv_qp *dci)
{
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_RTS, .timeout = 18, .retry_cnt = 6, .rnr_retry = 7, .max_rd_atomic = 4
	};
	int err;

	if ((err = to_init(dev, dci, false)) || (err = rtr(dev, dci, false)))
		return err;
	return ibv_modify_qp(dci, &a, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			     IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
}

static int dc_reset(struct hdl_sq *sq)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_RESET };
	int err = ibv_modify_qp(sq->qp, &a, IBV_QP_STATE);

	return err ? -err : -dc_start(sq->dev, sq->qp);
}

static struct ibv_qp *dc_create_queue(struct hdl_dev *dev, bool target, struct ibv_cq *scq, uint32_t depth, uint32_t *max_inline)
{
	struct ibv_qp_init_attr_ex a = {
		.qp_type = IBV_QPT_DRIVER, .send_cq = scq, .recv_cq = dev->rcq, .comp_mask = IBV_QP_INIT_ATTR_PD,
		.pd = dev->port.pd,
	};
	struct mlx5dv_qp_init_attr dv = { .comp_mask = MLX5DV_QP_INIT_ATTR_MASK_DC };

	if (target) {
		a.srq = dev->basic_srq;
		dv.dc_init_attr.dc_type = MLX5DV_DCTYPE_DCT;
		dv.dc_init_attr.dct_access_key = dev->dc_key;
	} else {
		a.cap.max_send_wr = depth;
		a.cap.max_send_sge = 3;
		a.cap.max_inline_data = *max_inline < DC_INLINE ? *max_inline : DC_INLINE;
		a.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
		a.send_ops_flags = DC_SEND_OPS | (dev->attr.orig_attr.atomic_cap != IBV_ATOMIC_NONE ? DC_ATOMIC_OPS : 0);
		dv.dc_init_attr.dc_type = MLX5DV_DCTYPE_DCI;
	}
	struct ibv_qp *qp = mlx5dv_create_qp(dev->port.ctx, &a, &dv);
	if (qp && !target)
		*max_inline = a.cap.max_inline_data < DC_INLINE ? a.cap.max_inline_data : DC_INLINE;
	return qp;
}

/* Finds out whether the device can create a DCI at all. Needs no SRQ. */
static int dc_probe(struct hdl_dev *dev)
{
	if (!dev->srq || !mlx5dv_is_supported(dev->port.ctx->device))
		return 0;
	struct ibv_cq *cq = ibv_create_cq(dev->port.ctx, 16, NULL, NULL, 0);
	uint32_t max_inline = 64;
	if (!cq)
		return 0;
	struct ibv_cq *rcq = dev->rcq;
	dev->rcq = cq;
	struct ibv_qp *qp = dc_create_queue(dev, false, cq, 16, &max_inline);
	dev->rcq = rcq;
	if (qp)
		ibv_destroy_qp(qp);
	ibv_destroy_cq(cq);
	return qp != NULL;
}

static int open_dc(struct hdl_dev *dev)
{
	struct hdl_tp *tp = dev->tp;
	int err, n = hdl_vars.dci_count > 0 ? hdl_vars.dci_count : 1;
	const char *step = "create the DCT";

	tp->rng = tp->rng * 6364136223846793005ull + 1442695040888963407ull;
	dev->dc_key = tp->rng;
	/* peers may send to the DCT without asking, so its pool must have receives now */
	if ((err = hdl_srq_open(dev)) || (err = hdl_rxpool_start(&dev->rx[HDL_POOL_SRQ], (uint32_t)hdl_job.size - 1)))
		return err;
	dev->dct = dc_create_queue(dev, true, dev->rcq, 0, NULL);
	if (!dev->dct) {
		err = errno;
		goto fail;
	}
	step = "bring the DCT to RTR";
	if ((err = to_init(dev, dev->dct, true)) || (err = rtr(dev, dev->dct, true)))
		goto fail;
	dev->dci = calloc((size_t)n, sizeof(*dev->dci));
	step = "allocate the DC initiators";
	if (!dev->dci) {
		err = ENOMEM;
		goto fail;
	}
	for (int i = 0; i < n; i++) {
		struct hdl_sq *sq = &dev->dci[i];
		if ((err = hdl_sq_init(sq, dev, &hdl_kind_dc, (uint32_t)hdl_vars.sq_depth)))
			return err;
		dev->ndci = i + 1;
		step = "create a DCI";
		sq->qp = dc_create_queue(dev, false, sq->scq->cq, sq->mask, &sq->max_inline);
		if (!sq->qp) {
			err = errno;
			goto fail;
		}
		hdl_sq_ask(sq);
		sq->qpx = ibv_qp_to_qp_ex(sq->qp);
		sq->mqpx = mlx5dv_qp_ex_from_ibv_qp_ex(sq->qpx);
		step = "bring a DCI to RTS";
		if ((err = dc_start(dev, sq->qp)))
			goto fail;
	}
	return 0;
fail:
	hdl_error("%s: cannot %s (%s)", dev->name, step, strerror(err));
	return -err;
}

static void close_dc(struct hdl_dev *dev)
{
	for (int i = 0; i < dev->ndci; i++)
		hdl_sq_fini(&dev->dci[i]);
	free(dev->dci);
	dev->dci = NULL;
	dev->ndci = 0;
	int err = dev->dct ? ibv_destroy_qp(dev->dct) : 0;

	if (err)
		hdl_warn("%s: ibv_destroy_qp of the DCT failed (%s)", dev->name, strerror(err));
	dev->dct = NULL;
}

/* Binds the endpoint to an initiator. */
static int bind_dci(struct hdl_ep *ep)
{
	struct hdl_dev *dev = ep->dev;
	bool lru = !strcasecmp(hdl_vars.dci_policy, "lru");
	struct hdl_sq *best = NULL;

	if (!lru) {
		best = &dev->dci[(uint32_t)ep->rank % (uint32_t)dev->ndci];
	} else {
		for (int i = 0; i < dev->ndci; i++) {
			struct hdl_sq *sq = &dev->dci[i];
			if (!hdl_sq_is_dead(sq) && (!best || sq->head - sq->tail < best->head - best->tail ||
					  (sq->head - sq->tail == best->head - best->tail && sq->users < best->users)))
				best = sq;
		}
	}
	if (!best || hdl_sq_is_dead(best))
		return -ECONNRESET;
	if (ep->sq && ep->sq != best) {
		/* order of requests: rebind only when none to this peer is in flight on the old initiator */
		if ((int32_t)(ep->sq->tail - ep->dci_last) < 0)
			return 0;
		ep->sq->users--;
	}
	if (ep->sq != best)
		best->users++;
	ep->sq = best;
	return 0;
}

static void bind_again(struct hdl_ep *ep)
{
	bind_dci(ep);
}

/* The target's number and key are in the peer's address record, so the lane needs no answer of the peer. */
static int dc_make(struct hdl_ep *ep, struct hdl_conn_queues *q)
{
	int err = hdl_ep_ah(ep);

	if (err)
		return err;
	if ((err = bind_dci(ep)))
		hdl_error("%s port %u: no DC lane to %s (%s): its initiator is in error after a request to another "
			  "rank; a larger HEDDLE_DCI_COUNT gives more initiators", ep->dev->name, ep->dev->port.port_num,
			  hdl_proc_text(ep->rank), strerror(-err));
	return err;
}

/* Posts an inline RDMA WRITE of one or two segments: a frame of a ring. */
static inline int post_write(struct hdl_sq *sq, struct hdl_ep *ep, const struct ibv_send_wr *wr)
{
	const struct ibv_sge *s = wr->sg_list;
	struct ibv_qp_ex *q = sq->qpx;

	ibv_wr_start(q);
	q->wr_id = wr->wr_id;
	q->wr_flags = wr->send_flags & ~(unsigned)IBV_SEND_INLINE;
	ibv_wr_rdma_write(q, wr->wr.rdma.rkey, wr->wr.rdma.remote_addr);
	mlx5dv_wr_set_dc_addr(sq->mqpx, ep->ah, ep->addr.dctn, ep->addr.dc_key);
	if (wr->num_sge == 1) {
		ibv_wr_set_inline_data(q, (void *)(uintptr_t)s[0].addr, s[0].length);
	} else {
		struct ibv_data_buf b[2] = { { .addr = (void *)(uintptr_t)s[0].addr, .length = s[0].length },
					     { .addr = (void *)(uintptr_t)s[1].addr, .length = s[1].length } };
		ibv_wr_set_inline_data_list(q, 2, b);
	}
	return ibv_wr_complete(q);
}

static int dc_post(struct hdl_sq *sq, struct hdl_ep *ep, struct ibv_send_wr *wr)
{
	struct ibv_qp_ex *q = sq->qpx;

	ep->dci_last = sq->head + 1;
	if (likely(wr->opcode == IBV_WR_RDMA_WRITE && wr->send_flags & IBV_SEND_INLINE && (unsigned)wr->num_sge - 1 < 2))
		return post_write(sq, ep, wr);
	ibv_wr_start(q);
	q->wr_id = wr->wr_id;
	q->wr_flags = wr->send_flags & ~(unsigned)IBV_SEND_INLINE;
	switch (wr->opcode) {
	case IBV_WR_SEND:
		ibv_wr_send(q);
		break;
	case IBV_WR_RDMA_WRITE:
		ibv_wr_rdma_write(q, wr->wr.rdma.rkey, wr->wr.rdma.remote_addr);
		break;
	case IBV_WR_RDMA_READ:
		ibv_wr_rdma_read(q, wr->wr.rdma.rkey, wr->wr.rdma.remote_addr);
		break;
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		ibv_wr_rdma_write_imm(q, wr->wr.rdma.rkey, wr->wr.rdma.remote_addr, wr->imm_data);
		break;
	case IBV_WR_ATOMIC_CMP_AND_SWP:
		ibv_wr_atomic_cmp_swp(q, wr->wr.atomic.rkey, wr->wr.atomic.remote_addr, wr->wr.atomic.compare_add,
				      wr->wr.atomic.swap);
		break;
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		ibv_wr_atomic_fetch_add(q, wr->wr.atomic.rkey, wr->wr.atomic.remote_addr, wr->wr.atomic.compare_add);
		break;
	default:
		ibv_wr_abort(q);
		return EINVAL;
	}
	mlx5dv_wr_set_dc_addr(sq->mqpx, ep->ah, ep->addr.dctn, ep->addr.dc_key);
	if (wr->send_flags & IBV_SEND_INLINE) {
		struct ibv_data_buf b[3];
		for (int i = 0; i < wr->num_sge; i++)
			b[i] = (struct ibv_data_buf){.addr = (void *)(uintptr_t)wr->sg_list[i].addr,
						     .length = wr->sg_list[i].length};
		ibv_wr_set_inline_data_list(q, (size_t)wr->num_sge, b);
	} else {
		ibv_wr_set_sge_list(q, (size_t)wr->num_sge, wr->sg_list);
	}
	return ibv_wr_complete(q);
}

const struct hdl_tp_kind hdl_kind_dc = {
	.queue = HDL_QUEUE_DC, .needs = "DC (mlx5dv_create_qp with a DCI, and a shared receive queue)", .pool = HDL_POOL_SRQ,
	.shares_sq = true, .serial_targets = true, .full_text = "initiators were full at times",
	.probe = dc_probe, .open = open_dc, .close = close_dc, .receives = hdl_srq_depth, .make = dc_make, .rebind = bind_again,
	.post = dc_post, .reset = dc_reset,
};
