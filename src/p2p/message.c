/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Matched probe and receive (MPI-5.0 section 3.8.2). A matched message is a receive of the pool that has a message, but no
 * buffer until the program's receive gives one. The handle's magic word differs from a request's, so a handle that was used up
 * is recognized.
 */
#include "p2p/deliver.h"

struct hdl_message {
	struct hdl_op op;
};

struct hdl_comm *hdl_message_comm(const struct hdl_message *m)
{
	return m->op.req.comm;
}

/* Takes the message out of the queues. Returns MPI_ERR_NO_MEM without memory for the receive. */
static int message_take(struct hdl_unexpected *u, struct hdl_comm *comm, struct hdl_message **m)
{
	struct hdl_op *op = hdl_op_new(comm, HDL_REQ_RECV);

	if (!op) {
		hdl_reason_set("out of memory for requests");
		return MPI_ERR_NO_MEM;
	}
	hdl_match_remove(comm->matching, u);
	hdl_unexpected_count(comm->matching, u, true);
	op->req.obj.magic = HDL_MAGIC_MESSAGE;
	op->message = u;
	op->src = u->src;
	op->peer = hdl_comm_rank_of_member(comm, u->src);
	op->tag = u->tag;
	op->context = u->context;
	*m = (struct hdl_message *)op;
	return MPI_SUCCESS;
}

static bool of_nobody(int src, struct hdl_message **m, MPI_Status *status)
{
	*m = NULL;
	if (src == MPI_PROC_NULL && status)
		hdl_status_empty(status, MPI_PROC_NULL);
	return src == MPI_PROC_NULL;
}

int hdl_improbe(int src, int tag, struct hdl_comm *comm, uint16_t context, int *flag, struct hdl_message **m,
		MPI_Status *status)
{
	struct hdl_unexpected *u;
	int rc;

	*flag = 1;
	if (of_nobody(src, m, status))
		return MPI_SUCCESS;
	u = hdl_probe_find(src, tag, comm, context, status, &rc);
	if (!u && !rc) {
		hdl_progress_test();
		u = hdl_probe_find(src, tag, comm, context, status, &rc);
	}
	*flag = u != NULL;
	return u ? message_take(u, comm, m) : rc;
}

int hdl_mprobe(int src, int tag, struct hdl_comm *comm, uint16_t context, struct hdl_message **m, MPI_Status *status)
{
	struct hdl_unexpected *u;
	int rc;

	if (of_nobody(src, m, status))
		return MPI_SUCCESS;
	/* The message that ends the wait is taken before the lock is given up, so no other thread gets it. */
	hdl_probe_wait(src, tag, comm, context);
	u = hdl_probe_find(src, tag, comm, context, status, &rc);
	return u ? message_take(u, comm, m) : rc;
}

static void receive_nothing(struct hdl_req *req)
{
	hdl_status_empty(&req->status, MPI_PROC_NULL);
	req->done = 1;
}

int hdl_imrecv(void *buf, MPI_Count count, const struct hdl_type *t, struct hdl_message *m, struct hdl_req **req)
{
	struct hdl_op *op = m ? &m->op : hdl_op_new(&hdl_self, HDL_REQ_NONE);
	struct hdl_unexpected *u;
	int rc;

	*req = NULL;
	if (!op) {
		hdl_reason_set("out of memory for requests");
		return MPI_ERR_NO_MEM;
	}
	if (!m) {
		receive_nothing(&op->req);
		*req = &op->req;
		return MPI_SUCCESS;
	}
	u = op->message;
	rc = hdl_recv_fill_buffer(op, buf, count, t);
	if (rc)
		return rc;
	hdl_unexpected_count(op->req.comm->matching, u, false);
	op->req.obj.magic = HDL_MAGIC_REQ;
	op->req.ep = hdl_comm_ep(op->req.comm, op->peer);
	*req = &op->req;
	hdl_recv_deliver(op, u);
	return MPI_SUCCESS;
}

int hdl_mrecv(void *buf, MPI_Count count, const struct hdl_type *t, struct hdl_message *m, MPI_Status *status)
{
	struct hdl_req *req;
	int rc = hdl_imrecv(buf, count, t, m, &req);

	if (rc)
		return rc;
	hdl_req_wait(req);
	if (status) {
		status->MPI_SOURCE = req->status.MPI_SOURCE;
		status->MPI_TAG = req->status.MPI_TAG;
		hdl_status_set_bytes(status, hdl_status_bytes(&req->status), false);
	}
	rc = req->error;
	if (rc)
		hdl_req_explain(req);
	hdl_req_free(req);
	return rc;
}
