/* SPDX-License-Identifier: BSD-3-Clause */
/* The fast path of the eager ring: one frame as one inline request. Included by the send path and by post.c, to be inlined in
 * both. */
#ifndef HDL_TP_PLAIN_H
#define HDL_TP_PLAIN_H

#include "transport/core/tp.h"

/* Writes a frame of k lines into the peer's ring. Must: ep->fast, room in ep->sq, and hdl_ring_plain_ready. Returns 1, or a
 * negative errno: the endpoint has failed. Budget: one header written, one request posted, nothing else. */
static inline __attribute__((always_inline)) int hdl_put_plain(struct hdl_ep *ep, int32_t tag, uint16_t context, uint16_t seq,
							  uint8_t kind, const void *buf, size_t len, uint32_t k)
{
	struct hdl_sq *sq = ep->sq;
	struct ibv_send_wr *bad;
	uint32_t i = sq->head;

	hdl_hdr_set(&ep->head, tag, context, seq, (uint32_t)len, kind, ep->tx.phase);
	ep->sge[0].addr = (uintptr_t)buf;
	ep->sge[0].length = (uint32_t)len;
	ep->wr.sg_list = len ? ep->sge : ep->sge + 1;
	ep->wr.num_sge = len ? 2 : 1;
	ep->wr.wr.rdma.remote_addr = hdl_ring_header_addr(&ep->tx, ep->tx.line) - len;
	ep->wr.wr_id = (uint64_t)sq->id << 32 | i;
	ep->wr.send_flags = IBV_SEND_INLINE;
	if (unlikely(i + 1 - sq->signaled >= sq->interval)) {
		ep->wr.send_flags = IBV_SEND_INLINE | IBV_SEND_SIGNALED;
		sq->slot[i & sq->mask].signaled = 1;
		sq->signaled = i + 1;
		sq->scq->pending++;
	}
	int err;
	if (likely(ep->plain_post)) {
		err = ibv_post_send(sq->qp, &ep->wr, &bad);
	} else {
		sq->slot[i & sq->mask].ep = ep;
		err = sq->kind->post(sq, ep, &ep->wr);
	}
	if (unlikely(err)) {
		hdl_error("%s port %u: cannot post to %s queue %u towards %s (%s)", sq->dev->name, sq->dev->port.port_num,
			  hdl_kind_name(sq->kind), sq->qp->qp_num, hdl_proc_text(ep->rank), strerror(err));
		hdl_sq_step(sq, HDL_SQ_FAIL);
		hdl_ep_fail(ep, -err);
		return -err;
	}
	sq->head = i + 1;
	sq->requests++;
	sq->bytes += len + sizeof(ep->head);
	hdl_ring_plain_sent(&ep->tx, k);
	hdl_replay_record(sq, &ep->wr, ep->tx.sent);
	return 1;
}

#endif
