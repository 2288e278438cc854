/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Generalized requests (MPI-5.0 section 13.2): the program runs the operation, Heddle provides the request. The program's
 * functions run with the lock open, so they may call MPI, and other threads may, too.
 */
#include "p2p/request.h"

static inline struct hdl_generalized *of(struct hdl_req *req)
{
	return &((struct hdl_op *)req)->generalized;
}

int hdl_grequest_start(MPI_Grequest_query_function *query_fn, MPI_Grequest_free_function *free_fn,
		       MPI_Grequest_cancel_function *cancel_fn, void *extra_state, struct hdl_req **req)
{
	struct hdl_op *op = hdl_op_new(&hdl_self, HDL_REQ_GENERALIZED);

	*req = NULL;
	if (!op) {
		hdl_reason_set("out of memory for requests");
		return MPI_ERR_NO_MEM;
	}
	op->generalized = (struct hdl_generalized){ query_fn, free_fn, cancel_fn, extra_state };
	op->req.special = true;
	hdl_status_empty(&op->req.status, MPI_ANY_SOURCE);
	*req = &op->req;
	return MPI_SUCCESS;
}

int hdl_grequest_query(struct hdl_req *req, MPI_Status *status)
{
	struct hdl_generalized g = *of(req);
	unsigned depth;
	int code;

	hdl_status_empty(status, MPI_ANY_SOURCE);
	if (!g.query_fn)
		return MPI_SUCCESS;
	depth = hdl_lock_open();
	code = g.query_fn(g.extra_state, status);
	hdl_lock_close(depth);
	return code;
}

int hdl_grequest_cancel(struct hdl_req *req)
{
	struct hdl_generalized g = *of(req);
	int code, complete = req->done;
	unsigned depth;

	if (!g.cancel_fn)
		return MPI_SUCCESS;
	depth = hdl_lock_open();
	code = g.cancel_fn(g.extra_state, complete);
	hdl_lock_close(depth);
	return code;
}

int hdl_grequest_free(struct hdl_req *req)
{
	struct hdl_generalized g = *of(req);
	int code = MPI_SUCCESS;
	unsigned depth;

	/* before the call: free_fn may start another request */
	hdl_op_put((struct hdl_op *)req);
	if (!g.free_fn)
		return MPI_SUCCESS;
	depth = hdl_lock_open();
	code = g.free_fn(g.extra_state);
	hdl_lock_close(depth);
	return code;
}

static void grequest_free(struct hdl_op *op)
{
	hdl_grequest_free(&op->req);
}

const struct hdl_req_ops hdl_generalized_ops = { .free = grequest_free };
