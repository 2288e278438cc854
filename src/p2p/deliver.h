/* SPDX-License-Identifier: BSD-3-Clause */
/* Delivery of a message to the receive that it matches. The path of every message is inline. */
#ifndef HDL_P2P_DELIVER_H
#define HDL_P2P_DELIVER_H

#include <string.h>

#include "lines/lines.h"
#include "p2p/unexpected.h"

static inline void hdl_deliver_status(struct hdl_op *op, int src, int tag, size_t bytes)
{
	MPI_Status *s = &op->req.status;

	s->MPI_SOURCE = likely(op->src != MPI_ANY_SOURCE) ? op->peer : hdl_comm_rank_of_member(op->req.comm, src);
	s->MPI_TAG = tag;
	hdl_status_set_bytes(s, bytes, false);
}

static inline void hdl_deliver_eager(struct hdl_op *op, int src, int tag, const void *data, size_t len)
{
	size_t n = len;
	int error = MPI_SUCCESS;

	if (unlikely(n > op->bytes)) {
		n = op->bytes;
		op->arrived = len;
		error = MPI_ERR_TRUNCATE;
	}
	if (likely(!op->type)) {
		/* a copy of constant size compiles to a move, not a call */
		if (n == 8)
			memcpy(op->buf, data, 8);
		else if (n == 4)
			memcpy(op->buf, data, 4);
		else if (n)
			lines_copy_in(op->buf, data, n);
	} else {
		hdl_unpack(op->buf, data, op->count, op->type, 0, n);
		hdl_type_release(op->type);
	}
	hdl_deliver_status(op, src, tag, n);
	hdl_req_complete(&op->req, error);
}

void hdl_deliver_rts(struct hdl_matching *m, struct hdl_op *op, int src, int tag, const void *rts, size_t len);
/* Delivers a message that is out of the queues to the receive, and frees the message. The receive may be freed on return. */
void hdl_recv_deliver(struct hdl_op *op, struct hdl_unexpected *u);
/* Delivers a message of this rank to a matching receive of the same rank. Completes both. */
void hdl_recv_deliver_self(struct hdl_op *recv, struct hdl_op *send);
/* Queues a message of this rank to itself. buffered: copies the data and completes the send. */
void hdl_unexpected_self(struct hdl_op *send, bool buffered);

#endif
