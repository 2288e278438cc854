/* SPDX-License-Identifier: BSD-3-Clause */
/* Generalized requests (MPI-5.0 section 13.2). request.c has their completion. */
#include "mpi/mpi_internal.h"

int PMPI_Grequest_start(MPI_Grequest_query_function *query_fn, MPI_Grequest_free_function *free_fn,
			MPI_Grequest_cancel_function *cancel_fn, void *extra_state, MPI_Request *request)
{
	HDL_LOCKED;
	HDL_GIVES(request);
	static const char call[] = "MPI_Grequest_start";
	struct hdl_req *req;
	int rc;

	hdl_check_active(call);
	if (!query_fn || !free_fn || !cancel_fn)
		return hdl_null_arg(NULL, call, !query_fn ? "query_fn" : !free_fn ? "free_fn" : "cancel_fn");
	if (!request)
		return hdl_null_arg(NULL, call, "request");
	rc = hdl_grequest_start(query_fn, free_fn, cancel_fn, extra_state, &req);
	if (rc)
		return hdl_raise_class(NULL, rc, call);
	*request = (MPI_Request)req;
	return MPI_SUCCESS;
}
HDL_PROFILED(Grequest_start);

int PMPI_Grequest_complete(MPI_Request request)
{
	HDL_LOCKED;
	static const char call[] = "MPI_Grequest_complete";
	struct hdl_req *req = hdl_req_get(request);

	hdl_check_active(call);
	if (!req)
		return hdl_bad_request(call, -1, request);
	if (!req->special || !hdl_req_is_generalized(req) || req->done)
		return hdl_raise(NULL, MPI_ERR_REQUEST, call, "invalid request: it is %s", !req->done ?
				 "not generalized" : "complete already, or not generalized");
	hdl_req_complete(req, MPI_SUCCESS);
	return MPI_SUCCESS;
}
HDL_PROFILED(Grequest_complete);
