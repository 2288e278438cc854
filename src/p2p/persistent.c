/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Persistent requests (MPI-5.0 section 3.9): a request that keeps the arguments of an operation. Each start makes a request of
 * the operation (inner), which the persistent one follows until the completing call: status and error are copied, the explanation
 * of an error stays with the inner request until then. A persistent collective (section 6.13) has no inner request; the
 * collectives complete it.
 *
 *     inactive (done, inactive) ── start ──▶ active ── inner is done ──▶ done ── completing call ──▶ inactive
 */
#include "p2p/request.h"

static inline struct hdl_op *p2p_persistent_op_of(struct hdl_req *req)
{
	return (struct hdl_op *)req;
}

static int start_send(struct hdl_op *op, struct hdl_req **inner)
{
	const struct hdl_type *t = op->type;
	struct hdl_comm *comm = op->req.comm;

	*inner = NULL;
	if (op->persistent.mode == HDL_BUFFERED)
		return hdl_bsend(op->buf, op->count, t, op->peer, op->tag, comm);
	if (op->persistent.mode != HDL_SYNCHRONOUS && hdl_send_now(op->buf, op->count, t, op->peer, op->tag, comm, op->context))
		return MPI_SUCCESS;
	return hdl_isend(op->buf, op->count, t, op->peer, op->tag, comm, op->context,
			 op->persistent.mode == HDL_SYNCHRONOUS, inner);
}

static int start_recv(struct hdl_op *op, struct hdl_req **inner)
{
	return hdl_irecv(op->buf, op->count, op->type, op->peer, op->tag, op->req.comm, op->context, inner);
}

bool hdl_persistent_sends(const struct hdl_op *op)
{
	return op->persistent.start == start_send;
}

static int p2p_persistent_init(int (*start)(struct hdl_op *, struct hdl_req **), const void *buf, MPI_Count count,
			       const struct hdl_type *t, int peer, int tag, struct hdl_comm *comm, enum hdl_send_mode mode,
			       struct hdl_req **req)
{
	struct hdl_op *op = hdl_op_new(comm, HDL_REQ_PERSISTENT);

	*req = NULL;
	if (!op) {
		hdl_reason_set("out of memory for requests");
		return MPI_ERR_NO_MEM;
	}
	op->buf = (void *)buf;
	op->count = count;
	op->type = (struct hdl_type *)t;
	if (t)
		hdl_type_retain(op->type);
	op->peer = peer;
	op->tag = tag;
	op->context = comm->context;
	op->persistent = (struct hdl_persistent){ .start = start, .mode = mode };
	op->req.special = op->req.inactive = true;
	op->req.done = 1;
	*req = &op->req;
	return MPI_SUCCESS;
}

int hdl_send_init(const void *buf, MPI_Count count, const struct hdl_type *t, int dest, int tag, struct hdl_comm *comm,
		  enum hdl_send_mode mode, struct hdl_req **req)
{
	return p2p_persistent_init(start_send, buf, count, t, dest, tag, comm, mode, req);
}

int hdl_recv_init(void *buf, MPI_Count count, const struct hdl_type *t, int src, int tag, struct hdl_comm *comm,
		  struct hdl_req **req)
{
	return p2p_persistent_init(start_recv, buf, count, t, src, tag, comm, HDL_STANDARD, req);
}

int hdl_collective_init(struct hdl_comm *comm, int (*begin)(struct hdl_req *req, void *arg), void (*put)(void *arg), void *arg,
			struct hdl_req **req)
{
	int rc = p2p_persistent_init(NULL, NULL, 0, NULL, MPI_PROC_NULL, 0, comm, HDL_STANDARD, req);

	if (!rc) {
		struct hdl_persistent *p = &p2p_persistent_op_of(*req)->persistent;

		p->begin = begin;
		p->put = put;
		p->arg = arg;
	}
	return rc;
}

static void inner_done(struct hdl_req *inner)
{
	struct hdl_op *op = inner->notify_arg;

	op->req.status = inner->status;
	hdl_req_complete(&op->req, inner->error);
}

/* The request may be complete when begin returns. */
static int start_collective(struct hdl_req *req, const struct hdl_persistent *p)
{
	int rc;

	hdl_status_empty(&req->status, MPI_ANY_SOURCE);
	req->inactive = false;
	req->error = MPI_SUCCESS;
	req->done = 0;
	rc = p->begin(req, p->arg);
	if (rc) {
		req->inactive = true;
		req->done = 1;
	}
	return rc;
}

int hdl_req_start(struct hdl_req *req)
{
	struct hdl_op *op = p2p_persistent_op_of(req);
	struct hdl_req *inner;
	int rc;

	if (op->persistent.begin)
		return start_collective(req, &op->persistent);
	rc = op->persistent.start(op, &inner);
	if (rc)
		return rc;
	req->inactive = false;
	req->error = MPI_SUCCESS;
	op->persistent.inner = inner;
	if (!inner) {
		hdl_status_empty(&req->status, MPI_ANY_SOURCE);
		return MPI_SUCCESS;
	}
	req->done = 0;
	req->ep = inner->ep;
	hdl_req_follow(inner, inner_done, op);
	return MPI_SUCCESS;
}

void hdl_req_end_persistent(struct hdl_req *req)
{
	struct hdl_op *op = p2p_persistent_op_of(req);

	if (op->persistent.inner)
		hdl_req_free(op->persistent.inner);
	op->persistent.inner = NULL;
	req->inactive = true;
	req->error = MPI_SUCCESS;
}

static void persistent_put(struct hdl_op *op)
{
	if (op->persistent.begin) {
		op->persistent.put(op->persistent.arg);
		hdl_buf_put(op->why);	/* the explanation of an error that no completing call has taken */
		return;
	}
	if (op->persistent.inner)
		hdl_req_free(op->persistent.inner);
	hdl_type_release(op->type);
}

static void persistent_cancel(struct hdl_op *op)
{
	if (op->persistent.inner)
		hdl_req_cancel(op->persistent.inner);
}

const struct hdl_req_ops hdl_persistent_ops = { .cancel = persistent_cancel, .put = persistent_put };

struct idle {
	const struct hdl_comm *comm;
	int count;
};

static void count_idle(void *object, void *arg)
{
	const struct hdl_op *op = object;
	struct idle *idle = arg;

	idle->count += op->kind == HDL_REQ_PERSISTENT && op->req.inactive && op->req.comm == idle->comm;
}

int hdl_persistent_idle(const struct hdl_comm *comm)
{
	struct idle idle = { .comm = comm };

	hdl_pool_each(&hdl_reqs, count_idle, &idle);
	return idle.count;
}
