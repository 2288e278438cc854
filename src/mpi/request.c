/* SPDX-License-Identifier: BSD-3-Clause */
/* Completion of nonblocking operations (MPI-5.0 sections 3.7.3 to 3.7.6, 3.8.4). */
#include "mpi/mpi_internal.h"

/* ---- one request that is done -------------------------------------------------------------------------- */

/* Returns its status, frees it, sets the handle to null. The error code, with the handler called. */
static inline int finish(const char *call, MPI_Request *handle, struct hdl_req *req, MPI_Status *status)
{
	struct hdl_comm *comm = req->comm;
	int rc = req->error;

	if (status)
		hdl_status_copy(status, &req->status);
	*handle = MPI_REQUEST_NULL;
	if (likely(!rc)) {
		hdl_req_free(req);
		return MPI_SUCCESS;
	}
	/* The handler may free the communicator: the request's reference keeps it for the call. */
	hdl_req_explain(req);
	rc = hdl_raise_class(comm, rc, call);
	hdl_req_free(req);
	return rc;
}

/* The same among several: no handler yet; the error goes to the status, if there is one. */
static inline __attribute__((always_inline)) int finish_one(const char *call, MPI_Request *handle, struct hdl_req *req, MPI_Status *status)
{
	int rc = req->error;

	if (status)
		hdl_status_copy(status, &req->status);
	if (unlikely(rc)) {
		hdl_req_explain(req);
		rc = hdl_error_code(rc, call, hdl_reason_take());
	}
	hdl_req_free(req);
	*handle = MPI_REQUEST_NULL;
	return rc;
}

static void empty(MPI_Status *status)
{
	if (status)
		hdl_status_empty(status, MPI_ANY_SOURCE);
}

/* ---- arrays of requests -------------------------------------------------------------------------------- */

/* Checks the handles; *active: those that are not null. */
static int check_array(const char *call, int count, MPI_Request requests[], int *active)
{
	hdl_check_active(call);
	*active = 0;
	if (unlikely(count < 0))
		return hdl_bad_count(NULL, call, "count", count);
	if (unlikely(count && !requests))
		return hdl_null_arg(NULL, call, "array_of_requests");
	for (int i = 0; i < count; i++) {
		if (requests[i] == MPI_REQUEST_NULL)
			continue;
		if (unlikely(!hdl_req_get(requests[i])))
			return hdl_bad_request(call, i, requests[i]);
		++*active;
	}
	return MPI_SUCCESS;
}

struct requests {
	int count;
	MPI_Request *of;
};

/* The first request that is done, or -1. */
static int find_done(int count, MPI_Request requests[])
{
	for (int i = 0; i < count; i++)
		if (requests[i] != MPI_REQUEST_NULL && ((struct hdl_req *)requests[i])->done)
			return i;
	return -1;
}

static bool one_is_done(const void *arg)
{
	const struct requests *r = arg;

	return find_done(r->count, r->of) >= 0;
}

static bool all_done(int count, MPI_Request requests[])
{
	for (int i = 0; i < count; i++)
		if (requests[i] != MPI_REQUEST_NULL && !((struct hdl_req *)requests[i])->done)
			return false;
	return true;
}

/* Section 3.7.5: MPI_ERROR of each status is set when, and only when, the call returns MPI_ERR_IN_STATUS. */
static int finish_all(const char *call, int count, MPI_Request requests[], MPI_Status *statuses)
{
	struct hdl_comm *comm = NULL;
	int failed = 0, first = 0, rc, code = MPI_SUCCESS;
	char text[MPI_MAX_ERROR_STRING];

	for (int i = 0; i < count; i++) {
		struct hdl_req *req = (struct hdl_req *)requests[i];
		MPI_Status *status = statuses ? &statuses[i] : MPI_STATUS_IGNORE;

		if (requests[i] == MPI_REQUEST_NULL) {
			empty(status);
			continue;
		}
		if (req == &hdl_req_sent) {
			if (status)
				hdl_status_copy(status, &req->status);
			requests[i] = MPI_REQUEST_NULL;
			continue;
		}
		if (likely(!req->error)) {
			finish_one(call, &requests[i], req, status);
			continue;
		}
		if (!failed++) {
			/* Statuses before this one are good; those after it are set below. */
			comm = req->comm;
			comm->obj.refs++;
			first = i;
			for (int k = 0; statuses && k < count; k++)
				statuses[k].MPI_ERROR = MPI_SUCCESS;
		}
		rc = finish_one(call, &requests[i], req, status);
		if (statuses)
			statuses[i].MPI_ERROR = rc;
		if (failed == 1)
			code = rc;
	}
	if (likely(!failed))
		return MPI_SUCCESS;
	PMPI_Error_string(code, text, &rc);
	rc = hdl_raise(comm, MPI_ERR_IN_STATUS, call,
		       "%d of %d requests failed, the first is array_of_requests[%d]: %s", failed,
		       count, first, text);
	hdl_comm_release(comm);
	return rc;
}

static int finish_some(const char *call, int incount, MPI_Request requests[], int *outcount, int indices[],
		       MPI_Status *statuses)
{
	struct hdl_comm *comm = NULL;
	int n = 0, failed = 0, code = MPI_SUCCESS, rc;
	char text[MPI_MAX_ERROR_STRING];

	for (int i = 0; i < incount; i++) {
		struct hdl_req *req = (struct hdl_req *)requests[i];

		if (requests[i] == MPI_REQUEST_NULL || !req->done)
			continue;
		if (unlikely(req->error) && !failed++) {
			comm = req->comm;
			comm->obj.refs++;
			for (int k = 0; statuses && k < n; k++)
				statuses[k].MPI_ERROR = MPI_SUCCESS;
		}
		rc = finish_one(call, &requests[i], req, statuses ? &statuses[n] : MPI_STATUS_IGNORE);
		if (failed && statuses)
			statuses[n].MPI_ERROR = rc;
		if (rc && !code)
			code = rc;
		indices[n++] = i;
	}
	*outcount = n;
	if (likely(!failed))
		return MPI_SUCCESS;
	PMPI_Error_string(code, text, &rc);
	rc = hdl_raise(comm, MPI_ERR_IN_STATUS, call, "%d of %d completed requests failed: %s", failed, n, text);
	hdl_comm_release(comm);
	return rc;
}

/* ---- wait ---------------------------------------------------------------------------------------------- */

int PMPI_Wait(MPI_Request *request, MPI_Status *status)
{
	HDL_LOCKED;
	static const char call[] = "MPI_Wait";
	struct hdl_req *req;

	if (unlikely(!request)) {
		hdl_check_active(call);
		return hdl_null_arg(NULL, call, "request");
	}
	req = hdl_req_get(*request);
	if (unlikely(!req)) {
		if (*request != MPI_REQUEST_NULL)
			return hdl_bad_request(call, -1, *request);
		hdl_check_active(call);
		empty(status);
		return MPI_SUCCESS;
	}
	hdl_call = call;
	hdl_req_wait(req);
	return finish(call, request, req, status);
}
HDL_PROFILED(Wait);

int PMPI_Waitall(int count, MPI_Request array_of_requests[], MPI_Status *array_of_statuses)
{
	HDL_LOCKED;
	static const char call[] = "MPI_Waitall";
	int active, rc;

	rc = check_array(call, count, array_of_requests, &active);
	if (unlikely(rc))
		return rc;
	hdl_call = call;
	for (int i = 0; i < count; i++)
		if (array_of_requests[i] != MPI_REQUEST_NULL && !((struct hdl_req *)array_of_requests[i])->done)
			hdl_req_wait((struct hdl_req *)array_of_requests[i]);
	return finish_all(call, count, array_of_requests, array_of_statuses);
}
HDL_PROFILED(Waitall);

int PMPI_Waitany(int count, MPI_Request array_of_requests[], int *indx, MPI_Status *status)
{
	HDL_LOCKED;
	static const char call[] = "MPI_Waitany";
	struct requests r = { count, array_of_requests };
	int active, i, rc;

	rc = check_array(call, count, array_of_requests, &active);
	if (unlikely(rc))
		return rc;
	if (unlikely(!indx))
		return hdl_null_arg(NULL, call, "indx");
	if (!active) {
		*indx = MPI_UNDEFINED;
		empty(status);
		return MPI_SUCCESS;
	}
	hdl_call = call;
	hdl_wait_until(one_is_done, &r);
	*indx = i = find_done(count, array_of_requests);
	return finish(call, &array_of_requests[i], (struct hdl_req *)array_of_requests[i], status);
}
HDL_PROFILED(Waitany);

int PMPI_Waitsome(int incount, MPI_Request array_of_requests[], int *outcount, int array_of_indices[],
		  MPI_Status *array_of_statuses)
{
	HDL_LOCKED;
	static const char call[] = "MPI_Waitsome";
	struct requests r = { incount, array_of_requests };
	int active, rc;

	rc = check_array(call, incount, array_of_requests, &active);
	if (unlikely(rc))
		return rc;
	if (unlikely(!outcount || (active && !array_of_indices)))
		return hdl_null_arg(NULL, call, outcount ? "array_of_indices" : "outcount");
	if (!active) {
		*outcount = MPI_UNDEFINED;
		return MPI_SUCCESS;
	}
	hdl_call = call;
	hdl_wait_until(one_is_done, &r);
	return finish_some(call, incount, array_of_requests, outcount, array_of_indices, array_of_statuses);
}
HDL_PROFILED(Waitsome);

/* ---- test: one turn of progress, unless it is not needed ------------------------------------------------ */

int PMPI_Test(MPI_Request *request, int *flag, MPI_Status *status)
{
	HDL_LOCKED;
	static const char call[] = "MPI_Test";
	struct hdl_req *req;

	if (unlikely(!request || !flag)) {
		hdl_check_active(call);
		return hdl_null_arg(NULL, call, request ? "flag" : "request");
	}
	req = hdl_req_get(*request);
	if (unlikely(!req)) {
		if (*request != MPI_REQUEST_NULL)
			return hdl_bad_request(call, -1, *request);
		hdl_check_active(call);
		*flag = 1;
		empty(status);
		return MPI_SUCCESS;
	}
	hdl_req_look(req);
	if (!req->done)
		hdl_progress_test();
	*flag = req->done;
	return req->done ? finish(call, request, req, status) : MPI_SUCCESS;
}
HDL_PROFILED(Test);

int PMPI_Testall(int count, MPI_Request array_of_requests[], int *flag, MPI_Status *array_of_statuses)
{
	HDL_LOCKED;
	static const char call[] = "MPI_Testall";
	int active, rc;

	rc = check_array(call, count, array_of_requests, &active);
	if (unlikely(rc))
		return rc;
	if (unlikely(!flag))
		return hdl_null_arg(NULL, call, "flag");
	*flag = all_done(count, array_of_requests);
	if (!*flag) {
		hdl_progress_test();
		*flag = all_done(count, array_of_requests);
	}
	return *flag ? finish_all(call, count, array_of_requests, array_of_statuses) : MPI_SUCCESS;
}
HDL_PROFILED(Testall);

int PMPI_Testany(int count, MPI_Request array_of_requests[], int *indx, int *flag, MPI_Status *status)
{
	HDL_LOCKED;
	static const char call[] = "MPI_Testany";
	int active, i, rc;

	rc = check_array(call, count, array_of_requests, &active);
	if (unlikely(rc))
		return rc;
	if (unlikely(!indx || !flag))
		return hdl_null_arg(NULL, call, indx ? "flag" : "indx");
	*indx = MPI_UNDEFINED;
	if (!active) {
		*flag = 1;
		empty(status);
		return MPI_SUCCESS;
	}
	i = find_done(count, array_of_requests);
	if (i < 0) {
		hdl_progress_test();
		i = find_done(count, array_of_requests);
	}
	*flag = i >= 0;
	if (i < 0)
		return MPI_SUCCESS;
	*indx = i;
	return finish(call, &array_of_requests[i], (struct hdl_req *)array_of_requests[i], status);
}
HDL_PROFILED(Testany);

int PMPI_Testsome(int incount, MPI_Request array_of_requests[], int *outcount, int array_of_indices[],
		  MPI_Status *array_of_statuses)
{
	HDL_LOCKED;
	static const char call[] = "MPI_Testsome";
	int active, rc;

	rc = check_array(call, incount, array_of_requests, &active);
	if (unlikely(rc))
		return rc;
	if (unlikely(!outcount || (active && !array_of_indices)))
		return hdl_null_arg(NULL, call, outcount ? "array_of_indices" : "outcount");
	if (!active) {
		*outcount = MPI_UNDEFINED;
		return MPI_SUCCESS;
	}
	if (find_done(incount, array_of_requests) < 0)
		hdl_progress_test();
	return finish_some(call, incount, array_of_requests, outcount, array_of_indices, array_of_statuses);
}
HDL_PROFILED(Testsome);

/* ---- the rest ------------------------------------------------------------------------------------------ */

int PMPI_Request_get_status(MPI_Request request, int *flag, MPI_Status *status)
{
	HDL_LOCKED;
	static const char call[] = "MPI_Request_get_status";
	struct hdl_req *req = hdl_req_get(request);

	hdl_check_active(call);
	if (!req && request != MPI_REQUEST_NULL)
		return hdl_bad_request(call, -1, request);
	if (!flag)
		return hdl_null_arg(NULL, call, "flag");
	if (!req) {
		*flag = 1;
		empty(status);
		return MPI_SUCCESS;
	}
	if (!req->done)
		hdl_progress_test();
	*flag = req->done;
	if (req->done && status)
		hdl_status_copy(status, &req->status);
	return MPI_SUCCESS;
}
HDL_PROFILED(Request_get_status);

int PMPI_Request_free(MPI_Request *request)
{
	HDL_LOCKED;
	static const char call[] = "MPI_Request_free";
	struct hdl_req *req;

	if (!request) {
		hdl_check_active(call);
		return hdl_null_arg(NULL, call, "request");
	}
	req = hdl_req_get(*request);
	if (!req)
		return hdl_bad_request(call, -1, *request);
	hdl_req_free(req);
	*request = MPI_REQUEST_NULL;
	return MPI_SUCCESS;
}
HDL_PROFILED(Request_free);

int PMPI_Cancel(MPI_Request *request)
{
	HDL_LOCKED;
	static const char call[] = "MPI_Cancel";
	struct hdl_req *req;

	if (!request) {
		hdl_check_active(call);
		return hdl_null_arg(NULL, call, "request");
	}
	req = hdl_req_get(*request);
	if (!req)
		return hdl_bad_request(call, -1, *request);
	hdl_req_cancel(req);
	return MPI_SUCCESS;
}
HDL_PROFILED(Cancel);
