/* SPDX-License-Identifier: BSD-3-Clause */
/* A send and a receive under one request (MPI-5.0 section 3.10). */
#include "p2p/request.h"

static void sendrecv_part_done(struct hdl_req *part)
{
	struct hdl_op *op = part->notify_arg;
	struct hdl_pair *pair = &op->pair;

	if (part->error && !op->req.error) {
		op->req.error = part->error;
		hdl_req_explain(part);
		hdl_req_reason(&op->req, hdl_reason_take());
	}
	if (part == pair->recv)
		op->req.status = part->status;
	hdl_req_free(part);
	if (--pair->npending)
		return;
	hdl_buf_put(pair->temp);
	hdl_req_complete(&op->req, op->req.error);
}

int hdl_isendrecv(const void *sendbuf, MPI_Count sendcount, const struct hdl_type *sendtype, int dest, int sendtag,
		  void *recvbuf, MPI_Count recvcount, const struct hdl_type *recvtype, int src, int recvtag,
		  struct hdl_comm *comm, void *temp, struct hdl_req **req)
{
	struct hdl_op *op = hdl_op_new(comm, HDL_REQ_PAIR);
	struct hdl_pair pair = { .temp = temp, .npending = 2 };
	int rc = MPI_ERR_NO_MEM;

	*req = NULL;
	if (!op) {
		hdl_reason_set("out of memory for requests");
		goto fail;
	}
	rc = hdl_irecv(recvbuf, recvcount, recvtype, src, recvtag, comm, comm->context, &pair.recv);
	if (rc)
		goto fail_op;
	rc = hdl_isend(sendbuf, sendcount, sendtype, dest, sendtag, comm, comm->context, false, &pair.send);
	if (rc)
		goto fail_recv;
	op->pair = pair;
	*req = &op->req;
	hdl_req_follow(pair.recv, sendrecv_part_done, op);
	hdl_req_follow(pair.send, sendrecv_part_done, op);
	return MPI_SUCCESS;
fail_recv:
	hdl_req_cancel(pair.recv);
	hdl_req_free(pair.recv);
fail_op:
	op->req.done = 1;
	hdl_req_free(&op->req);
fail:
	hdl_buf_put(temp);
	return rc;
}
