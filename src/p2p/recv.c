/* SPDX-License-Identifier: BSD-3-Clause */
/* Receives and probes: an unexpected message that matches is delivered at once, otherwise the receive is posted. */
#include "p2p/deliver.h"
#include "p2p/fault/fault.h"

#include <string.h>

/* Takes an unexpected message out of the queues and delivers it. */
static void deliver_unexpected(struct hdl_matching *m, struct hdl_op *op, struct hdl_unexpected *u)
{
	hdl_match_remove(m, u);
	hdl_recv_deliver(op, u);
}

static inline __attribute__((always_inline)) int fill_buffer(struct hdl_op *op, void *buf, MPI_Count count,
							     const struct hdl_type *t)
{
	op->buf = buf;
	op->count = count;
	op->type = NULL;
	if (unlikely(__builtin_mul_overflow((size_t)count, (size_t)t->size, &op->bytes))) {
		hdl_reason_set("%lld elements of %lld bytes do not fit the address space", (long long)count,
			       (long long)t->size);
		return MPI_ERR_COUNT;
	}
	if (unlikely(!hdl_type_is_run(t, count)) && !hdl_type_find_run(t, count, &op->buf)) {
		op->type = (struct hdl_type *)t;
		hdl_type_retain(op->type);
	}
	return MPI_SUCCESS;
}

int hdl_recv_fill_buffer(struct hdl_op *op, void *buf, MPI_Count count, const struct hdl_type *t)
{
	return fill_buffer(op, buf, count, t);
}

static inline int recv_fill(struct hdl_op *op, void *buf, MPI_Count count, const struct hdl_type *t, int src, int tag,
			    struct hdl_comm *comm, uint16_t context)
{
	op->src = src == MPI_ANY_SOURCE ? src : hdl_comm_proc(comm, src);
	op->peer = src;
	op->tag = tag;
	op->context = context;
	return fill_buffer(op, buf, count, t);
}

static inline struct hdl_ep *ep_of(struct hdl_comm *comm, int src)
{
	return src < 0 ? NULL : hdl_comm_ep(comm, src);
}

int hdl_irecv(void *buf, MPI_Count count, const struct hdl_type *t, int src, int tag, struct hdl_comm *comm,
	      uint16_t context, struct hdl_req **req)
{
	struct hdl_op *op = hdl_op_new(comm, HDL_REQ_RECV);
	struct hdl_unexpected *u;
	int rc;

	*req = NULL;
	if (unlikely(!op)) {
		hdl_reason_set("out of memory for requests");
		return MPI_ERR_NO_MEM;
	}
	if (unlikely(src == MPI_PROC_NULL)) {
		op->kind = HDL_REQ_NONE;
		hdl_status_empty(&op->req.status, MPI_PROC_NULL);
		op->req.done = 1;
		*req = &op->req;
		return MPI_SUCCESS;
	}
	rc = recv_fill(op, buf, count, t, src, tag, comm, context);
	if (unlikely(rc)) {
		op->req.done = 1;
		hdl_req_free(&op->req);
		return rc;
	}
	op->req.ep = ep_of(comm, src);
	*req = &op->req;
	u = hdl_match_find(comm->matching, context, op->src, tag);
	if (u) {
		deliver_unexpected(comm->matching, op, u);
		return MPI_SUCCESS;
	}
	rc = hdl_check_peer(comm, src, &op->errnum);
	if (likely(!rc)) {
		hdl_match_post(comm->matching, op);
	} else {
		if (op->type)
			hdl_type_release(op->type);
		hdl_status_empty(&op->req.status, src);
		hdl_req_complete(&op->req, rc);
	}
	return MPI_SUCCESS;
}

int hdl_recv(void *buf, MPI_Count count, const struct hdl_type *t, int src, int tag, struct hdl_comm *comm,
	     uint16_t context, MPI_Status *status)
{
	struct hdl_op op;
	struct hdl_unexpected *u;
	int rc;

	if (unlikely(src == MPI_PROC_NULL)) {
		if (status)
			hdl_status_empty(status, MPI_PROC_NULL);
		return MPI_SUCCESS;
	}
	op.req.done = 0;
	op.req.comm = comm;
	op.req.notify = NULL;
	op.req.detached = op.req.pending = false;
	op.kind = HDL_REQ_RECV;
	op.why = NULL;
	op.posted = false;
	rc = recv_fill(&op, buf, count, t, src, tag, comm, context);
	if (unlikely(rc))
		return rc;
	u = hdl_match_find(comm->matching, context, op.src, tag);
	if (u) {
		deliver_unexpected(comm->matching, &op, u);
	} else {
		rc = hdl_check_peer(comm, src, &op.errnum);
		if (likely(!rc) && unlikely(src == comm->rank) && !hdl_threads) {
			hdl_reason_set("the rank receives from itself, but has sent itself no message with tag %d: "
				       "this could never complete", tag);
			rc = MPI_ERR_OTHER;
		}
		if (unlikely(rc)) {
			if (op.type)
				hdl_type_release(op.type);
			if (rc == MPI_ERR_PROC_ABORTED) {
				op.req.error = rc;
				hdl_req_explain(&op.req);
			}
			return rc;
		}
		hdl_match_post(comm->matching, &op);
	}
	hdl_wait_done(&op.req.done, ep_of(comm, src), &op);
	if (status) {
		status->MPI_SOURCE = op.req.status.MPI_SOURCE;
		status->MPI_TAG = op.req.status.MPI_TAG;
		hdl_status_set_bytes(status, hdl_status_bytes(&op.req.status), false);
	}
	if (unlikely(op.req.error))
		hdl_req_explain(&op.req);
	return op.req.error;
}

struct hdl_unexpected *hdl_probe_find(int src, int tag, struct hdl_comm *comm, uint16_t context, MPI_Status *status, int *rc)
{
	int proc = src == MPI_ANY_SOURCE ? src : hdl_comm_proc(comm, src);
	struct hdl_unexpected *u = hdl_match_find(comm->matching, context, proc, tag);
	int errnum;

	*rc = MPI_SUCCESS;
	if (u) {
		if (status) {
			status->MPI_SOURCE = src != MPI_ANY_SOURCE ? src : hdl_comm_rank_of_member(comm, u->src);
			status->MPI_TAG = u->tag;
			hdl_status_set_bytes(status, u->len, false);
		}
		return u;
	}
	*rc = hdl_check_peer(comm, src, &errnum);
	if (*rc)
		hdl_reason_set("%s %d has failed: %s",
			       src == MPI_ANY_SOURCE ? "a rank of the communicator, source" : "rank",
			       src, strerror(errnum));
	return NULL;
}

static void recv_cancel(struct hdl_op *op)
{
	if (!op->posted)
		return;
	hdl_match_withdraw(op->req.comm->matching, op);
	if (op->type)
		hdl_type_release(op->type);
	hdl_status_empty(&op->req.status, MPI_ANY_SOURCE);
	hdl_status_set_bytes(&op->req.status, 0, true);
	hdl_req_complete(&op->req, MPI_SUCCESS);
}

const struct hdl_req_ops hdl_recv_ops = { .cancel = recv_cancel };

static int probe_found(int src, int tag, struct hdl_comm *comm, uint16_t context, int *flag, MPI_Status *status)
{
	int rc;

	*flag = hdl_probe_find(src, tag, comm, context, status, &rc) != NULL;
	return rc;
}

int hdl_iprobe(int src, int tag, struct hdl_comm *comm, uint16_t context, int *flag, MPI_Status *status)
{
	int rc;

	if (unlikely(src == MPI_PROC_NULL)) {
		*flag = 1;
		if (status)
			hdl_status_empty(status, MPI_PROC_NULL);
		return MPI_SUCCESS;
	}
	rc = probe_found(src, tag, comm, context, flag, status);
	if (rc || *flag)
		return rc;
	hdl_progress_test();
	return probe_found(src, tag, comm, context, flag, status);
}

struct probe {
	int src, tag;
	struct hdl_comm *comm;
	uint16_t context;
};

static bool probe_is_over(const void *arg)
{
	const struct probe *p = arg;
	int proc = p->src == MPI_ANY_SOURCE ? p->src : hdl_comm_proc(p->comm, p->src), errnum;

	return hdl_match_find(p->comm->matching, p->context, proc, p->tag) || hdl_check_peer(p->comm, p->src, &errnum);
}

void hdl_probe_wait(int src, int tag, struct hdl_comm *comm, uint16_t context)
{
	struct probe p = { .src = src, .tag = tag, .comm = comm, .context = context };

	hdl_wait_until(probe_is_over, &p);
}

int hdl_probe(int src, int tag, struct hdl_comm *comm, uint16_t context, MPI_Status *status)
{
	int flag;

	if (unlikely(src == MPI_PROC_NULL)) {
		if (status)
			hdl_status_empty(status, MPI_PROC_NULL);
		return MPI_SUCCESS;
	}
	hdl_probe_wait(src, tag, comm, context);
	return probe_found(src, tag, comm, context, &flag, status);
}
