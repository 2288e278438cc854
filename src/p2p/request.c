/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests (MPI-5.0 section 3.7): a pool that only grows, completion, explanations of errors. */
#include "p2p/request.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SOME	64		/* operations that are added to the free list at a time */

/* The first slab has 144 KiB, which malloc gets from the kernel: only pages of operations in use are touched. A smaller slab
 * might be memory that was used, which calloc clears as a whole. */
struct hdl_pool hdl_reqs = HDL_POOL(struct hdl_op, 512);

/* comm serves to raise errors only, and this request has none */
struct hdl_req hdl_req_sent = {
	.obj = { HDL_MAGIC_REQ, 1 },
	.done = 1,
	.comm = &hdl_world,
	.status = { .MPI_SOURCE = MPI_ANY_SOURCE, .MPI_TAG = MPI_ANY_TAG },
};

const struct hdl_req_ops *hdl_req_ops[HDL_REQ_KINDS];
struct hdl_op *hdl_free_ops;
size_t hdl_pending;
size_t hdl_detached_collectives;

bool hdl_op_pool_grow(void)
{
	struct hdl_op *op, **link = &hdl_free_ops;

	for (int i = 0; i < SOME && (op = hdl_pool_take_new(&hdl_reqs)); i++) {
		*link = op;
		link = &op->next;
	}
	return hdl_free_ops;
}

struct hdl_req *hdl_req_new(struct hdl_comm *comm)
{
	struct hdl_op *op = hdl_op_new(comm, HDL_REQ_OTHER);

	if (!op)
		return NULL;
	hdl_status_empty(&op->req.status, MPI_ANY_SOURCE);
	return &op->req;
}

struct hdl_req *hdl_req_new_access(struct hdl_comm *comm)
{
	struct hdl_op *op = hdl_op_new(comm, HDL_REQ_ACCESS);

	if (!op)
		return NULL;
	hdl_status_empty(&op->req.status, MPI_ANY_SOURCE);
	return &op->req;
}

/* Invariant of the free list: no callback, error number, type or pooled memory; not detached, pending, special or posted.
 * hdl_op_new relies on it. */
void hdl_op_put(struct hdl_op *op)
{
	struct hdl_comm *comm = op->req.comm;

	if (unlikely(op->kind == HDL_REQ_PERSISTENT))
		hdl_req_ops[HDL_REQ_PERSISTENT]->put(op);
	op->req.obj.magic = 0;
	if (unlikely(op->req.notify || op->req.look || op->errnum || op->req.detached)) {
		op->req.notify = NULL;
		op->req.look = NULL;
		op->errnum = 0;
		op->req.detached = false;
	}
	op->req.special = op->req.inactive = false;
	op->type = NULL;
	op->why = NULL;
	op->next = hdl_free_ops;
	hdl_free_ops = op;
	if (unlikely(comm->obj.refs == 1))
		hdl_comm_release(comm);		/* the last reference to a communicator that was freed */
	else
		comm->obj.refs--;
}

/* The program cannot get this error (section 3.7.3, MPI_REQUEST_FREE), so the job ends. */
void hdl_req_orphan_failed(struct hdl_req *req)
{
	char text[512];

	hdl_req_explain(req);
	snprintf(text, sizeof(text), "an operation whose request was freed by MPI_Request_free, or a buffered send, failed: %s",
		 hdl_reason_take());
	hdl_rt_abort(req->error, text);
}

static inline void request_release(struct hdl_req *req)
{
	/* section 13.2: the completion of a request that was freed early frees it */
	if (unlikely(((struct hdl_op *)req)->kind == HDL_REQ_GENERALIZED))
		hdl_req_ops[HDL_REQ_GENERALIZED]->free((struct hdl_op *)req);
	else
		hdl_op_put((struct hdl_op *)req);
}

void hdl_req_complete(struct hdl_req *req, int error)
{
	req->error = error;
	if (req->pending) {
		req->pending = false;
		hdl_pending--;
	}
	req->done = 1;
	if (unlikely(req->notify != NULL)) {
		req->notify(req);
	} else if (unlikely(req->detached)) {
		if (error)
			hdl_req_orphan_failed(req);
		hdl_detached_collectives -= hdl_req_is_persistent_collective(req);
		request_release(req);
	}
}

/* The program frees a request that is not done. Only MPI_Grequest_complete may use the handle afterwards. */
static __attribute__((noinline)) void request_detach(struct hdl_req *req)
{
	req->detached = true;
	hdl_detached_collectives += hdl_req_is_persistent_collective(req);
	if (!req->special || !hdl_req_is_generalized(req))
		req->obj.magic = HDL_MAGIC_DETACHED;
}

void hdl_req_free(struct hdl_req *req)
{
	if (req == &hdl_req_sent)
		return;
	if (unlikely(!req->done))
		request_detach(req);
	else
		request_release(req);
}

void hdl_req_cancel(struct hdl_req *req)
{
	struct hdl_op *op = (struct hdl_op *)req;

	/* A receive that has matched is received, as section 3.8.4 allows. */
	if (!req->done && hdl_req_ops[op->kind]->cancel)
		hdl_req_ops[op->kind]->cancel(op);
}

bool hdl_req_is_collective(const struct hdl_req *req)
{
	/* hdl_req_sent is no struct hdl_op */
	return req != &hdl_req_sent && ((const struct hdl_op *)req)->kind == HDL_REQ_OTHER;
}

bool hdl_req_is_sendrecv(const struct hdl_req *req)
{
	return req != &hdl_req_sent && ((const struct hdl_op *)req)->kind == HDL_REQ_PAIR;
}

bool hdl_req_is_persistent(const struct hdl_req *req)
{
	return req != &hdl_req_sent && ((const struct hdl_op *)req)->kind == HDL_REQ_PERSISTENT;
}

bool hdl_req_is_persistent_collective(const struct hdl_req *req)
{
	return hdl_req_is_persistent(req) && ((const struct hdl_op *)req)->persistent.begin;
}

void *hdl_req_collective_arg(const struct hdl_req *req)
{
	return ((const struct hdl_op *)req)->persistent.arg;
}

bool hdl_req_is_generalized(const struct hdl_req *req)
{
	return ((const struct hdl_op *)req)->kind == HDL_REQ_GENERALIZED;
}

void hdl_req_follow(struct hdl_req *req, void (*fn)(struct hdl_req *req), void *arg)
{
	req->notify_arg = arg;
	req->notify = fn;	/* set even if the request is done: notify marks parts of other requests (leaks.c) */
	if (req->done)
		fn(req);
}

void hdl_req_reason(struct hdl_req *req, const char *why)
{
	struct hdl_op *op = (struct hdl_op *)req;
	size_t n = strlen(why) + 1;

	/* Without memory the error has no explanation besides its class. */
	if (n > 1 && !op->why && (op->why = hdl_buf_get(n)))
		memcpy(op->why, why, n);
}

static const char *peer_lost(int error)
{
	return error == MPI_ERR_PROC_ABORTED ? "that rank has failed or cannot be reached: " : "";
}

/* Returns why a message failed. Valid until the next call. */
static const char *request_cause(int errnum, const struct hdl_op *op)
{
	static char text[128];
	bool send = op && op->kind == HDL_REQ_SEND;

	if (errnum == EREMOTEIO)
		return "that rank's buffer cannot be reached by the device: look at the lines above, and at its output";
	if (errnum == ENOBUFS)
		return "that rank has no memory for the message, or cannot register it; look at its output";
	if (errnum != EFAULT || !op)
		return errnum == EFAULT ? "this rank's buffer cannot be read by the device" : strerror(errnum);
	snprintf(text, sizeof(text), "this rank's buffer at %p of %zu bytes cannot be %s by the device", op->buf, op->bytes,
		 send ? "read" : "written");
	return text;
}

static void explain_send(int error, const char *why, int peer, int tag, const struct hdl_comm *comm, size_t bytes)
{
	char label[MPI_MAX_OBJECT_NAME];

	hdl_comm_label(comm, label);
	hdl_reason_set("send to rank %d with tag %d in %s, %zu bytes: %s%s", peer, tag, label, bytes, peer_lost(error), why);
}

void hdl_send_explain(int error, int errnum, int peer, int tag, const struct hdl_comm *comm, size_t bytes)
{
	explain_send(error, request_cause(errnum, NULL), peer, tag, comm, bytes);
}

void hdl_req_explain(struct hdl_req *req)
{
	struct hdl_op *op = (struct hdl_op *)req;
	/* a truncated receive has no errno, and a blocking one has not even set the member */
	const char *why = req->error == MPI_ERR_TRUNCATE ? "" : request_cause(op->errnum, op);
	char label[MPI_MAX_OBJECT_NAME];

	if (!req->error)
		return;
	if (op->kind == HDL_REQ_PERSISTENT && !op->persistent.begin) {
		if (op->persistent.inner)
			hdl_req_explain(op->persistent.inner);
		return;
	}
	if (op->kind != HDL_REQ_SEND && op->kind != HDL_REQ_RECV) {
		if (op->why)
			hdl_reason_set("%s", op->why);
		hdl_buf_put(op->why);
		op->why = NULL;
		return;
	}
	hdl_comm_label(req->comm, label);
	if (req->error == MPI_ERR_TRUNCATE)
		hdl_reason_set("message truncated: %zu bytes from rank %d with tag %d in %s, the receive buffer has "
			       "%zu bytes", op->arrived, req->status.MPI_SOURCE, req->status.MPI_TAG, label, op->bytes);
	else if (op->kind == HDL_REQ_SEND)
		explain_send(req->error, why, op->peer, op->tag, req->comm, op->bytes);
	else if (op->peer == MPI_ANY_SOURCE)
		hdl_reason_set("receive from any source with tag %d in %s: %s%s", op->tag, label,
			       *peer_lost(req->error) ? "a rank has failed, and may be the sender: " : "", why);
	else
		hdl_reason_set("receive from rank %d with tag %d in %s: %s%s", op->peer, op->tag, label,
			       peer_lost(req->error), why);
}

struct each_active {
	void (*fn)(const struct hdl_op *op, void *arg);
	void *arg;
};

static void call_active(void *object, void *arg)
{
	struct hdl_op *op = object;
	struct each_active *each = arg;

	if (op->req.obj.magic != HDL_MAGIC_MESSAGE && !op->req.done && op->kind < HDL_REQ_NONE)
		each->fn(op, each->arg);
}

void hdl_op_each_active(void (*fn)(const struct hdl_op *op, void *arg), void *arg)
{
	hdl_pool_each(&hdl_reqs, call_active, &(struct each_active){ fn, arg });
}

static void put_message(void *object, void *arg)
{
	struct hdl_op *op = object;

	(void)arg;
	if (op->req.obj.magic == HDL_MAGIC_MESSAGE)
		hdl_buf_put(op->message);
}

void hdl_req_fini(void)
{
	hdl_pool_each(&hdl_reqs, put_message, NULL);
	hdl_pool_fini(&hdl_reqs);
	hdl_free_ops = NULL;
}
