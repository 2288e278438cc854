/* SPDX-License-Identifier: BSD-3-Clause */
/* Sends. One run of bytes is passed to the transport as it lies in memory; the transport has any other layout packed piece by
 * piece. */
#include "p2p/deliver.h"

#include <errno.h>
#include <stdlib.h>

static inline struct hdl_op *send_op_of(struct hdl_send *send)
{
	return container_of(send, struct hdl_op, send);
}

static void send_pack(const struct hdl_send *send, uint64_t at, void *to, size_t n)
{
	const struct hdl_op *op = container_of(send, const struct hdl_op, send);

	hdl_pack(to, op->buf, op->count, op->type, (MPI_Count)at, n);
}

static void op_send_done(struct hdl_send *send, int err)
{
	struct hdl_op *op = send_op_of(send);

	if (op->type)
		hdl_type_release(op->type);
	if (unlikely(err == -ECANCELED)) {
		hdl_status_set_bytes(&op->req.status, 0, true);
		err = 0;
	}
	hdl_req_complete(&op->req, likely(!err) ? MPI_SUCCESS : hdl_op_fail(op, err));
}

static int too_large(MPI_Count count, const struct hdl_type *t)
{
	hdl_reason_set("%lld elements of %lld bytes do not fit the address space", (long long)count,
		       (long long)t->size);
	return MPI_ERR_COUNT;
}

/* Sets the members that the fast path of hdl_send leaves unset. */
static int send_fill(struct hdl_op *op, const void *buf, MPI_Count count, const struct hdl_type *t, int dest, int tag,
		     struct hdl_comm *comm, uint16_t context, bool sync)
{
	op->src = hdl_job.rank;
	op->peer = dest;
	op->tag = tag;
	op->context = context;
	op->sync = sync;
	op->buf = (void *)buf;
	op->count = count;
	op->type = NULL;
	op->why = NULL;
	if (__builtin_mul_overflow((size_t)count, (size_t)t->size, &op->bytes))
		return too_large(count, t);
	if (hdl_type_is_run(t, count) || hdl_type_find_run(t, count, &op->buf))
		return MPI_SUCCESS;
	op->type = (struct hdl_type *)t;
	hdl_type_retain(op->type);
	return MPI_SUCCESS;
}

/* Returns the result of hdl_ep_send. */
static int send_filled(struct hdl_op *op, struct hdl_ep *ep)
{
	op->send.done = op_send_done;
	if (!op->type)
		return hdl_ep_send(ep, op->tag, op->context, op->sync, op->buf, op->bytes, &op->send);
	op->send.pack = send_pack;
	return hdl_ep_send_runs(ep, op->tag, op->context, op->sync, op->bytes, &op->send);
}

/* Sends a message of the rank to itself, without the transport. blocking: op is done on return, unless there are several threads:
 * another thread may receive the message. */
static int send_to_self(struct hdl_op *op, bool blocking)
{
	struct hdl_matching *m = op->req.comm->matching;
	struct hdl_op *recv = hdl_match_arrived(m, op->context, hdl_job.rank, op->tag);
	bool buffered = !op->sync && op->bytes <= hdl_vars.eager_max &&
			(blocking || m->unexpected_bytes <= hdl_vars.unexpected_max);

	if (recv) {
		hdl_recv_deliver_self(recv, op);
	} else if (buffered || !blocking || hdl_threads) {
		hdl_unexpected_self(op, buffered);
	} else {
		if (op->type)
			hdl_type_release(op->type);
		hdl_reason_set("the rank sends itself %zu bytes with tag %d, and has posted no receive for them: "
			       "this could never complete", op->bytes, op->tag);
		return MPI_ERR_OTHER;
	}
	return MPI_SUCCESS;
}

int hdl_isend(const void *buf, MPI_Count count, const struct hdl_type *t, int dest, int tag, struct hdl_comm *comm,
	      uint16_t context, bool sync, struct hdl_req **req)
{
	struct hdl_op *op = hdl_op_new(comm, HDL_REQ_SEND);
	int rc;

	*req = NULL;
	if (unlikely(!op)) {
		hdl_reason_set("out of memory for requests");
		return MPI_ERR_NO_MEM;
	}
	hdl_status_empty(&op->req.status, MPI_ANY_SOURCE);
	if (unlikely(dest == MPI_PROC_NULL)) {
		op->kind = HDL_REQ_NONE;
		op->req.done = 1;
		*req = &op->req;
		return MPI_SUCCESS;
	}
	rc = send_fill(op, buf, count, t, dest, tag, comm, context, sync);
	if (unlikely(rc)) {
		op->req.done = 1;
		hdl_req_free(&op->req);
		return rc;
	}
	*req = &op->req;
	op->req.pending = true;
	hdl_pending++;
	if (unlikely(dest == comm->rank))
		return send_to_self(op, false);
	op->req.ep = hdl_comm_ep(comm, dest);
	rc = send_filled(op, op->req.ep);
	if (rc)
		op_send_done(&op->send, rc < 0 ? rc : 0);
	return MPI_SUCCESS;
}

/* Withdraws a message of this rank to itself. Returns false if a matched probe has taken the message. */
static bool cancel_self(struct hdl_op *op)
{
	struct hdl_unexpected *u = op->message;

	if (!u->at)
		return false;
	hdl_match_remove(op->req.comm->matching, u);
	hdl_buf_put(u);
	if (op->type)
		hdl_type_release(op->type);
	hdl_status_set_bytes(&op->req.status, 0, true);
	hdl_req_complete(&op->req, MPI_SUCCESS);
	return true;
}

static void send_forget(struct hdl_req *req)
{
	hdl_req_free(req);
}

void hdl_send_note(int peer, int tag, struct hdl_comm *comm, uint16_t context, const void *data, size_t bytes)
{
	struct hdl_req *req;
	int rc = hdl_isend(data, (MPI_Count)bytes, hdl_type_get(MPI_BYTE), peer, tag, comm, context, false, &req);

	if (!rc)
		hdl_req_follow(req, send_forget, NULL);
	else if (rc == MPI_ERR_NO_MEM)
		hdl_out_of_memory("a message that another rank waits for", sizeof(struct hdl_op));
}

void hdl_send_withdraw(struct hdl_send *send, int peer, struct hdl_comm *comm)
{
	uint32_t number;

	/* 0: the message is announced. The receiver looks among the unexpected messages; the completion of the send is the
	 * answer. */
	if (hdl_ep_withdraw(hdl_comm_ep(comm, peer), send, &number) == 0)
		hdl_send_note(peer, (int)number, comm, HDL_CONTEXT_CANCEL, NULL, 0);
}

void hdl_send_cancel(struct hdl_op *op)
{
	if (op->peer == op->req.comm->rank)
		cancel_self(op);
	else
		hdl_send_withdraw(&op->send, op->peer, op->req.comm);
}

const struct hdl_req_ops hdl_send_ops = { .cancel = hdl_send_cancel };

/* The rest of a blocking send that was not done at once. */
static __attribute__((noinline)) int send_wait(struct hdl_op *op, struct hdl_ep *ep, int rc)
{
	if (rc < 0)
		op_send_done(&op->send, rc);
	hdl_wait_done(&op->req.done, ep, op);
	if (op->req.error)
		hdl_req_explain(&op->req);
	return op->req.error;
}

static __attribute__((noinline)) int send_slow(const void *buf, MPI_Count count, const struct hdl_type *t, int dest,
					       int tag, struct hdl_comm *comm, uint16_t context, bool sync)
{
	struct hdl_op op = { .req = { .comm = comm }, .kind = HDL_REQ_SEND };
	struct hdl_ep *ep;
	int rc;

	if (dest == MPI_PROC_NULL)
		return MPI_SUCCESS;
	rc = send_fill(&op, buf, count, t, dest, tag, comm, context, sync);
	if (rc)
		return rc;
	if (dest == comm->rank) {
		rc = send_to_self(&op, true);
		if (!rc)
			hdl_wait_done(&op.req.done, NULL, &op);	/* until another thread has received */
		return rc;
	}
	ep = hdl_comm_ep(comm, dest);
	rc = send_filled(&op, ep);
	if (rc == 1) {
		if (op.type)
			hdl_type_release(op.type);
		return MPI_SUCCESS;
	}
	return send_wait(&op, ep, rc);
}

int hdl_send(const void *buf, MPI_Count count, const struct hdl_type *t, int dest, int tag, struct hdl_comm *comm,
	     uint16_t context, bool sync)
{
	struct hdl_op op;
	struct hdl_ep *ep;
	size_t bytes;
	int rc;

	/* no endpoint yet, the rank itself, MPI_PROC_NULL, or not one run */
	if (unlikely(dest < 0) || unlikely(!(ep = hdl_comm_ep_met(comm, dest))) || unlikely(!hdl_type_is_run(t, count)))
		return send_slow(buf, count, t, dest, tag, comm, context, sync);
	if (unlikely(__builtin_mul_overflow((size_t)count, (size_t)t->size, &bytes)))
		return too_large(count, t);
	op.send.done = op_send_done;
	op.req.done = 0;
	op.req.notify = NULL;
	op.req.detached = op.req.pending = false;
	rc = hdl_ep_send(ep, tag, context, sync, buf, bytes, &op.send);
	if (rc == 1)
		return MPI_SUCCESS;
	op.req.comm = comm;
	op.type = NULL;
	op.why = NULL;
	op.kind = HDL_REQ_SEND;
	op.posted = NULL;
	op.sync = sync;
	op.peer = dest;
	op.tag = tag;
	op.context = context;
	op.bytes = bytes;
	return send_wait(&op, ep, rc);
}
