/* SPDX-License-Identifier: BSD-3-Clause */
/* Delivery: the data of a message goes into the buffer of the receive that it matches. */
#include "p2p/deliver.h"

#include <errno.h>
#include <string.h>

#include "base/memcheck.h"

static void op_fetch_done(struct hdl_fetch *fetch, int err)
{
	struct hdl_op *op = container_of(fetch, struct hdl_op, fetch);
	int error = err ? hdl_op_fail(op, err) : op->arrived > op->bytes ? MPI_ERR_TRUNCATE : MPI_SUCCESS;

	if (op->type)
		hdl_type_release(op->type);
	else if (!err)
		memcheck_received(op->buf, op->arrived < op->bytes ? op->arrived : op->bytes);
	hdl_req_complete(&op->req, error);
}

static void recv_unpack(const struct hdl_fetch *fetch, uint64_t at, const void *from, size_t n)
{
	const struct hdl_op *op = container_of(fetch, const struct hdl_op, fetch);

	hdl_unpack(op->buf, from, op->count, op->type, (MPI_Count)at, n);
}

void hdl_deliver_rts(struct hdl_matching *m, struct hdl_op *op, int src, int tag, const void *rts, size_t len)
{
	size_t n = len < op->bytes ? len : op->bytes;
	int rc;

	op->arrived = len;
	hdl_deliver_status(op, src, tag, n);
	op->fetch.done = op_fetch_done;
	op->fetch.unpack = recv_unpack;
	if (op->type)
		rc = hdl_ep_fetch_runs(hdl_ep(m->tp, src), rts, n, &op->fetch);
	else
		rc = hdl_ep_fetch(hdl_ep(m->tp, src), rts, op->buf, n, &op->fetch);
	if (unlikely(rc < 0))
		op_fetch_done(&op->fetch, rc);
}

/* Copies between two layouts, through a buffer that stays in the cache. */
static __attribute__((noinline)) void deliver_runs(struct hdl_op *recv, const struct hdl_op *send, size_t n)
{
	char packed[16384];

	for (size_t at = 0, k; at < n; at += k) {
		k = n - at < sizeof(packed) ? n - at : sizeof(packed);
		hdl_pack(packed, send->buf, send->count, send->type, (MPI_Count)at, k);
		hdl_unpack(recv->buf, packed, recv->count, recv->type, (MPI_Count)at, k);
	}
}

/* Copies n bytes of a message of this rank to itself. */
static void copy_self(struct hdl_op *recv, const struct hdl_op *send, size_t n)
{
	if (!recv->type && !send->type) {
		if (n)
			memmove(recv->buf, send->buf, n);
	} else if (!recv->type) {
		hdl_pack(recv->buf, send->buf, send->count, send->type, 0, n);
	} else if (!send->type) {
		hdl_unpack(recv->buf, send->buf, recv->count, recv->type, 0, n);
	} else {
		deliver_runs(recv, send, n);
	}
}

void hdl_recv_deliver_self(struct hdl_op *recv, struct hdl_op *send)
{
	bool truncated = send->bytes > recv->bytes;

	recv->arrived = send->bytes;
	copy_self(recv, send, truncated ? recv->bytes : send->bytes);
	hdl_deliver_status(recv, recv->src == MPI_ANY_SOURCE ? hdl_job.rank : recv->src, send->tag,
		   truncated ? recv->bytes : send->bytes);
	if (recv->type)
		hdl_type_release(recv->type);
	if (send->type)
		hdl_type_release(send->type);
	hdl_req_complete(&recv->req, truncated ? MPI_ERR_TRUNCATE : MPI_SUCCESS);
	hdl_req_complete(&send->req, MPI_SUCCESS);
}

void hdl_recv_deliver(struct hdl_op *op, struct hdl_unexpected *u)
{
	struct hdl_matching *m = op->req.comm->matching;	/* before the receive completes, which may free op */

	switch (u->kind) {
	case HDL_EAGER:
		hdl_deliver_eager(op, u->src, u->tag, u->data, u->len);
		break;
	case HDL_RTS:
		hdl_deliver_rts(m, op, u->src, u->tag, u->data, u->len);
		break;
	default:
		hdl_recv_deliver_self(op, u->self);
	}
	int src = u->src;
	hdl_buf_put(u);
	hdl_unexpected_removed(m, src);
}

void hdl_unexpected_self(struct hdl_op *send, bool buffered)
{
	struct hdl_matching *m = send->req.comm->matching;
	struct hdl_unexpected *u;

	if (buffered) {
		u = hdl_unexpected_new(send->context, hdl_job.rank, send->tag, HDL_EAGER, send->bytes, send->bytes);
		if (send->type) {
			hdl_pack(u->data, send->buf, send->count, send->type, 0, send->bytes);
			hdl_type_release(send->type);
			send->type = NULL;
		} else if (send->bytes) {
			memcpy(u->data, send->buf, send->bytes);
		}
		hdl_match_add(m, u);
		hdl_req_complete(&send->req, MPI_SUCCESS);
		return;
	}
	u = hdl_unexpected_new(send->context, hdl_job.rank, send->tag, HDL_SELF, send->bytes, 0);
	u->self = send;
	send->message = u;
	hdl_match_add(m, u);
}
