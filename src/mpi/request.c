/* SPDX-License-Identifier: BSD-3-Clause */
/* Completion of nonblocking operations (MPI-5.0 sections 3.7.3 to 3.7.6, 3.8.4). */
#include "mpi/mpi_internal.h"

/* ---- one request that is done -------------------------------------------------------------------------- */

/* The empty status (section 3.7.3), MPI_ERROR included. In other statuses a call that completes one request leaves MPI_ERROR
 * unchanged. */
static void request_empty(MPI_Status *status)
{
	if (!status)
		return;
	hdl_status_empty(status, MPI_ANY_SOURCE);
	status->MPI_ERROR = MPI_SUCCESS;
}

/* Makes a code of a value that a callback of the program returned. */
static int code_of_callback(const char *call, const char *callback, int code)
{
	char text[96];

	if (code >= 0 && code <= hdl_last_used_code())
		return code;
	snprintf(text, sizeof(text), "%s returned %d, which is no error code", callback, code);
	return hdl_error_code(MPI_ERR_OTHER, call, text);
}

/* Section 13.2: query_fn sets the status, then free_fn runs. The code of free_fn counts. */
static int end_generalized(const char *call, MPI_Request *handle, struct hdl_req *req, MPI_Status *status)
{
	MPI_Status own;
	int query = hdl_grequest_query(req, &own), code;

	if (status)
		hdl_status_copy(status, &own);
	*handle = MPI_REQUEST_NULL;
	code = hdl_grequest_free(req);
	return code ? code_of_callback(call, "free_fn", code) : code_of_callback(call, "query_fn", query);
}

/* Completes a persistent or generalized request. Returns its code; no handler is called. A reference to the communicator stays
 * for the caller. */
static cold int end_special(const char *call, MPI_Request *handle, struct hdl_req *req, MPI_Status *status)
{
	int rc = req->error;

	if (req->inactive) {
		request_empty(status);
		return MPI_SUCCESS;
	}
	if (hdl_req_is_generalized(req))
		return end_generalized(call, handle, req, status);
	if (status)
		hdl_status_copy(status, &req->status);
	if (rc) {
		hdl_req_explain(req);
		rc = hdl_error_code(rc, call, hdl_reason_take());
	}
	hdl_req_end_persistent(req);
	return rc;
}

static cold int finish_special(const char *call, MPI_Request *handle, struct hdl_req *req, MPI_Status *status)
{
	struct hdl_comm *comm = req->comm;
	int rc;

	comm->obj.refs++;
	rc = end_special(call, handle, req, status);
	if (rc)
		rc = hdl_raise_code(comm, rc, call);
	hdl_comm_release(comm);
	return rc;
}

/* Completes a request: status, free, null handle. Returns the code, and calls the handler. */
static inline int request_finish(const char *call, MPI_Request *handle, struct hdl_req *req, MPI_Status *status)
{
	struct hdl_comm *comm = req->comm;
	int rc = req->error;

	if (unlikely(req->special))
		return finish_special(call, handle, req, status);
	if (status)
		hdl_status_copy(status, &req->status);
	*handle = MPI_REQUEST_NULL;
	if (likely(!rc)) {
		hdl_req_free(req);
		return MPI_SUCCESS;
	}
	/* The handler may free the communicator: the reference of the request is kept until the handler has returned. */
	hdl_req_explain(req);
	rc = hdl_raise_class(comm, rc, call);
	hdl_req_free(req);
	return rc;
}

/* The same for one of several requests: no handler is called, and the error goes to the status, if there is one. */
static inline __attribute__((always_inline)) int finish_one(const char *call, MPI_Request *handle, struct hdl_req *req,
							    MPI_Status *status)
{
	int rc = req->error;

	if (unlikely(req->special))
		return end_special(call, handle, req, status);
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

/* ---- arrays of requests -------------------------------------------------------------------------------- */

/* Checks the handles. *active: how many are neither null nor inactive. */
static int request_check_array(const char *call, int count, const MPI_Request requests[], int *active)
{
	hdl_check_active(call);
	*active = 0;
	if (unlikely(count < 0))
		return hdl_bad_count(NULL, call, "count", count);
	if (unlikely(count && !requests))
		return hdl_null_arg(NULL, call, "array_of_requests");
	for (int i = 0; i < count; i++) {
		const struct hdl_req *req;

		if (requests[i] == MPI_REQUEST_NULL)
			continue;
		req = hdl_req_get(requests[i]);
		if (unlikely(!req))
			return hdl_bad_request(call, i, requests[i]);
		*active += !req->inactive;
	}
	return MPI_SUCCESS;
}

/* Checks the arguments of a call for some of an array's requests. Returns true if the call returns *rc at once: the code of an
 * error, or MPI_SUCCESS, since no request is active; then *outcount is MPI_UNDEFINED. */
static inline __attribute__((always_inline)) bool are_none(const char *call, int count, const MPI_Request requests[],
							   int *outcount, const int indices[], int *rc)
{
	int active;

	*rc = request_check_array(call, count, requests, &active);
	if (unlikely(*rc))
		return true;
	if (unlikely(!outcount || (active && !indices)))
		*rc = hdl_null_arg(NULL, call, outcount ? "array_of_indices" : "outcount");
	else if (!active)
		*outcount = MPI_UNDEFINED;
	else
		return false;
	return true;
}

/* Returns the index of the first request that is done and not inactive; -1: none. */
static int find_done(int count, const MPI_Request requests[])
{
	for (int i = 0; i < count; i++) {
		const struct hdl_req *req = (const struct hdl_req *)requests[i];

		if (requests[i] != MPI_REQUEST_NULL && req->done && likely(!req->inactive))
			return i;
	}
	return -1;
}

static bool one_is_done(const void *arg)
{
	const struct hdl_requests *r = arg;

	return find_done(r->count, r->of) >= 0;
}

static bool all_done(int count, const MPI_Request requests[])
{
	for (int i = 0; i < count; i++)
		if (requests[i] != MPI_REQUEST_NULL && !((struct hdl_req *)requests[i])->done)
			return false;
	return true;
}

/* The errors of several requests. */
struct failures {
	int count;
	int index, code;		/* of the first request that failed */
	struct hdl_comm *comm;		/* communicator of that request, with a reference */
};

/* Completes a request that has failed or may fail at completion. Section 3.7.5: MPI_ERROR of each of the n statuses is set if,
 * and only if, the call returns MPI_ERR_IN_STATUS. */
static cold void finish_doubtful(const char *call, MPI_Request *handle, int index, MPI_Status statuses[], int n, int at,
				 struct failures *f)
{
	struct hdl_req *req = (struct hdl_req *)*handle;
	struct hdl_comm *comm = req->comm;
	int rc;

	comm->obj.refs++;
	rc = finish_one(call, handle, req, statuses ? &statuses[at] : MPI_STATUS_IGNORE);
	if (rc && !f->count++) {
		f->index = index;
		f->code = rc;
		f->comm = comm;
		for (int k = 0; statuses && k < n; k++)
			statuses[k].MPI_ERROR = MPI_SUCCESS;
	} else {
		hdl_comm_release(comm);
	}
	if (f->count && statuses)
		statuses[at].MPI_ERROR = rc;
}

static cold int report_failures(const char *call, int of, const char *what, const struct failures *f)
{
	char text[MPI_MAX_ERROR_STRING];
	int rc;

	PMPI_Error_string(f->code, text, &rc);
	rc = hdl_raise(f->comm, MPI_ERR_IN_STATUS, call, "%d of %d %srequests failed, the first is array_of_requests[%d]: %s",
		       f->count, of, what, f->index, text);
	hdl_comm_release(f->comm);
	return rc;
}

/* Completes all requests. Must: all are done, so that no status gets MPI_ERR_PENDING. */
static int finish_all(const char *call, int count, MPI_Request requests[], MPI_Status *statuses)
{
	struct failures f = { 0 };

	for (int i = 0; i < count; i++) {
		struct hdl_req *req = (struct hdl_req *)requests[i];
		MPI_Status *status = statuses ? &statuses[i] : MPI_STATUS_IGNORE;

		if (requests[i] == MPI_REQUEST_NULL) {
			request_empty(status);
			continue;
		}
		if (req == &hdl_req_sent) {
			if (status)
				hdl_status_copy(status, &req->status);
			requests[i] = MPI_REQUEST_NULL;
			continue;
		}
		if (likely(!req->error && !req->special))
			finish_one(call, &requests[i], req, status);
		else
			finish_doubtful(call, &requests[i], i, statuses, count, i, &f);
	}
	return likely(!f.count) ? MPI_SUCCESS : report_failures(call, count, "", &f);
}

static int finish_some(const char *call, int incount, MPI_Request requests[], int *outcount, int indices[],
		       MPI_Status *statuses)
{
	struct failures f = { 0 };
	int n = 0;

	for (int i = 0; i < incount; i++) {
		struct hdl_req *req = (struct hdl_req *)requests[i];

		if (requests[i] == MPI_REQUEST_NULL || !req->done || unlikely(req->inactive))
			continue;
		if (likely(!req->error && !req->special && !f.count))
			finish_one(call, &requests[i], req, statuses ? &statuses[n] : MPI_STATUS_IGNORE);
		else
			finish_doubtful(call, &requests[i], i, statuses, n, n, &f);
		indices[n++] = i;
	}
	*outcount = n;
	return likely(!f.count) ? MPI_SUCCESS : report_failures(call, n, "completed ", &f);
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
		request_empty(status);
		return MPI_SUCCESS;
	}
	hdl_call = call;
	hdl_req_wait(req);
	return request_finish(call, request, req, status);
}
HDL_PROFILED(Wait);

int PMPI_Waitall(int count, MPI_Request array_of_requests[], MPI_Status *array_of_statuses)
{
	HDL_LOCKED;
	static const char call[] = "MPI_Waitall";
	int active, rc;

	rc = request_check_array(call, count, array_of_requests, &active);
	if (unlikely(rc))
		return rc;
	hdl_call = call;
	hdl_blocked_requests = (struct hdl_requests){ count, array_of_requests };
	for (int i = 0; i < count; i++)
		if (array_of_requests[i] != MPI_REQUEST_NULL && !((struct hdl_req *)array_of_requests[i])->done)
			hdl_req_wait((struct hdl_req *)array_of_requests[i]);
	hdl_blocked_requests.of = NULL;
	return finish_all(call, count, array_of_requests, array_of_statuses);
}
HDL_PROFILED(Waitall);

int PMPI_Waitany(int count, MPI_Request array_of_requests[], int *indx, MPI_Status *status)
{
	HDL_LOCKED;
	static const char call[] = "MPI_Waitany";
	struct hdl_requests r = { count, array_of_requests };
	int active, i, rc;

	rc = request_check_array(call, count, array_of_requests, &active);
	if (unlikely(rc))
		return rc;
	if (unlikely(!indx))
		return hdl_null_arg(NULL, call, "indx");
	if (!active) {
		*indx = MPI_UNDEFINED;
		request_empty(status);
		return MPI_SUCCESS;
	}
	hdl_call = call;
	hdl_blocked_requests = r;
	hdl_wait_until(one_is_done, &r);
	hdl_blocked_requests.of = NULL;
	*indx = i = find_done(count, array_of_requests);
	return request_finish(call, &array_of_requests[i], (struct hdl_req *)array_of_requests[i], status);
}
HDL_PROFILED(Waitany);

int PMPI_Waitsome(int incount, MPI_Request array_of_requests[], int *outcount, int array_of_indices[],
		  MPI_Status *array_of_statuses)
{
	HDL_LOCKED;
	static const char call[] = "MPI_Waitsome";
	struct hdl_requests r = { incount, array_of_requests };
	int rc;

	if (are_none(call, incount, array_of_requests, outcount, array_of_indices, &rc))
		return rc;
	hdl_call = call;
	hdl_blocked_requests = r;
	hdl_wait_until(one_is_done, &r);
	hdl_blocked_requests.of = NULL;
	if (!all_done(incount, array_of_requests))
		/* fairness (section 3.7.5): a request that is done at each call must not keep the others from progress */
		hdl_progress();
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
		request_empty(status);
		return MPI_SUCCESS;
	}
	hdl_req_look(req, false);
	if (!req->done)
		hdl_progress_test();
	*flag = req->done;
	return req->done ? request_finish(call, request, req, status) : MPI_SUCCESS;
}
HDL_PROFILED(Test);

int PMPI_Testall(int count, MPI_Request array_of_requests[], int *flag, MPI_Status *array_of_statuses)
{
	HDL_LOCKED;
	static const char call[] = "MPI_Testall";
	int active, rc;

	rc = request_check_array(call, count, array_of_requests, &active);
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

/* Finds a request that is done: *i; -1: none, and the caller returns. */
static int test_any(const char *call, int count, const MPI_Request requests[], int *indx, int *flag, MPI_Status *status, int *i)
{
	int active, rc = request_check_array(call, count, requests, &active);

	*i = -1;
	if (unlikely(rc))
		return rc;
	if (unlikely(!indx || !flag))
		return hdl_null_arg(NULL, call, indx ? "flag" : "indx");
	*indx = MPI_UNDEFINED;
	*flag = 1;
	if (!active) {
		request_empty(status);
		return MPI_SUCCESS;
	}
	*i = find_done(count, requests);
	if (*i < 0) {
		hdl_progress_test();
		*i = find_done(count, requests);
	}
	if (*i < 0)
		*flag = 0;
	else
		*indx = *i;
	return MPI_SUCCESS;
}

int PMPI_Testany(int count, MPI_Request array_of_requests[], int *indx, int *flag, MPI_Status *status)
{
	HDL_LOCKED;
	static const char call[] = "MPI_Testany";
	int i, rc = test_any(call, count, array_of_requests, indx, flag, status, &i);

	return rc || i < 0 ? rc : request_finish(call, &array_of_requests[i], (struct hdl_req *)array_of_requests[i], status);
}
HDL_PROFILED(Testany);

int PMPI_Testsome(int incount, MPI_Request array_of_requests[], int *outcount, int array_of_indices[],
		  MPI_Status *array_of_statuses)
{
	HDL_LOCKED;
	static const char call[] = "MPI_Testsome";
	int rc;

	if (are_none(call, incount, array_of_requests, outcount, array_of_indices, &rc))
		return rc;
	if (!all_done(incount, array_of_requests))
		hdl_progress_test();	/* even if one is done, for fairness (section 3.7.5) */
	return finish_some(call, incount, array_of_requests, outcount, array_of_indices, array_of_statuses);
}
HDL_PROFILED(Testsome);

/* ---- status without completion (section 3.7.6) -------------------------------------------------------------- */

/* Returns the code and the status of a request that is done, and does not free it. A generalized one's query_fn is called. */
static int status_of(struct hdl_req *req, MPI_Status *status)
{
	MPI_Status own;
	int code = MPI_SUCCESS;

	if (!req->special) {
		if (status)
			hdl_status_copy(status, &req->status);
	} else if (req->inactive) {
		request_empty(status);
	} else if (hdl_req_is_generalized(req)) {
		code = hdl_grequest_query(req, &own);
		if (status)
			hdl_status_copy(status, &own);
	} else if (status) {
		hdl_status_copy(status, &req->status);
	}
	return code;
}

static int looked_at(const char *call, struct hdl_req *req, MPI_Status *status)
{
	int code = status_of(req, status);

	return likely(!code) ? MPI_SUCCESS : hdl_raise_code(req->comm, code_of_callback(call, "query_fn", code), call);
}

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
		request_empty(status);
		return MPI_SUCCESS;
	}
	if (!req->done)
		hdl_progress_test();
	*flag = req->done;
	return req->done ? looked_at(call, req, status) : MPI_SUCCESS;
}
HDL_PROFILED(Request_get_status);

int PMPI_Request_get_status_any(int count, const MPI_Request array_of_requests[], int *indx, int *flag, MPI_Status *status)
{
	HDL_LOCKED;
	static const char call[] = "MPI_Request_get_status_any";
	int i, rc = test_any(call, count, array_of_requests, indx, flag, status, &i);

	return rc || i < 0 ? rc : looked_at(call, (struct hdl_req *)array_of_requests[i], status);
}
HDL_PROFILED(Request_get_status_any);

/* Statuses of several requests. MPI_ERR_IN_STATUS if a query_fn of a generalized request fails. */
struct looking {
	int at, failed, code;
};

static void request_look_at(const char *call, MPI_Request request, MPI_Status *statuses, struct looking *l)
{
	MPI_Status *status = statuses ? &statuses[l->at] : MPI_STATUS_IGNORE;
	int code = MPI_SUCCESS;

	if (request == MPI_REQUEST_NULL)
		request_empty(status);
	else
		code = status_of((struct hdl_req *)request, status);
	if (code) {
		code = code_of_callback(call, "query_fn", code);
		for (int k = 0; statuses && !l->failed && k < l->at; k++)
			statuses[k].MPI_ERROR = MPI_SUCCESS;
		l->failed++;
		l->code = code;
	}
	if (l->failed && status)
		status->MPI_ERROR = code;
	l->at++;
}

static int end_looking(const char *call, const struct looking *l)
{
	char text[MPI_MAX_ERROR_STRING];
	int len;

	if (likely(!l->failed))
		return MPI_SUCCESS;
	PMPI_Error_string(l->code, text, &len);
	return hdl_raise(NULL, MPI_ERR_IN_STATUS, call, "the query_fn of %d generalized requests failed: %s", l->failed, text);
}

int PMPI_Request_get_status_all(int count, const MPI_Request array_of_requests[], int *flag, MPI_Status *array_of_statuses)
{
	HDL_LOCKED;
	static const char call[] = "MPI_Request_get_status_all";
	struct looking l = { 0 };
	int active, rc;

	rc = request_check_array(call, count, array_of_requests, &active);
	if (unlikely(rc))
		return rc;
	if (unlikely(!flag))
		return hdl_null_arg(NULL, call, "flag");
	*flag = all_done(count, array_of_requests);
	if (!*flag) {
		hdl_progress_test();
		*flag = all_done(count, array_of_requests);
	}
	for (int i = 0; *flag && i < count; i++)
		request_look_at(call, array_of_requests[i], array_of_statuses, &l);
	return end_looking(call, &l);
}
HDL_PROFILED(Request_get_status_all);

int PMPI_Request_get_status_some(int incount, const MPI_Request array_of_requests[], int *outcount, int array_of_indices[],
				 MPI_Status *array_of_statuses)
{
	HDL_LOCKED;
	static const char call[] = "MPI_Request_get_status_some";
	struct looking l = { 0 };
	int rc;

	if (are_none(call, incount, array_of_requests, outcount, array_of_indices, &rc))
		return rc;
	/* requests that are done are not freed, so a caller in a loop needs a turn of progress at each call */
	if (!all_done(incount, array_of_requests))
		hdl_progress_test();
	for (int i = 0; i < incount; i++) {
		const struct hdl_req *req = (const struct hdl_req *)array_of_requests[i];

		if (array_of_requests[i] == MPI_REQUEST_NULL || !req->done || req->inactive)
			continue;
		array_of_indices[l.at] = i;
		request_look_at(call, array_of_requests[i], array_of_statuses, &l);
	}
	*outcount = l.at;
	return end_looking(call, &l);
}
HDL_PROFILED(Request_get_status_some);

/* ---- the rest ------------------------------------------------------------------------------------------ */

/* Section 6.12: requests of nonblocking collectives must not be freed or cancelled; section 6.13: those of persistent ones may
 * be freed. One that is done is freed all the same, as a wait would: that does no harm, and other MPIs do it. */
static int is_collective(const char *call, struct hdl_req *req)
{
	return hdl_raise(req->comm, MPI_ERR_REQUEST, call, "invalid request: it belongs to a %s collective, which %s",
			 hdl_req_is_collective(req) ? "nonblocking" : "persistent",
			 hdl_req_is_collective(req) ? "is active: MPI_Wait or MPI_Test completes it" : "cannot be cancelled");
}

/* Checks the argument `request` of a call that MPI_REQUEST_NULL is no request for. Returns MPI_SUCCESS and
 * *req, or an error's code. */
static int request_arg(const char *call, const MPI_Request *request, struct hdl_req **req)
{
	if (!request) {
		hdl_check_active(call);
		return hdl_null_arg(NULL, call, "request");
	}
	*req = hdl_req_get(*request);
	return *req ? MPI_SUCCESS : hdl_bad_request(call, -1, *request);
}

int PMPI_Request_free(MPI_Request *request)
{
	HDL_LOCKED;
	static const char call[] = "MPI_Request_free";
	struct hdl_req *req;
	int code = request_arg(call, request, &req);

	if (code)
		return code;
	if (hdl_req_is_collective(req)) {
		if (!req->done)
			hdl_progress_test();
		return req->done ? request_finish(call, request, req, MPI_STATUS_IGNORE) : is_collective(call, req);
	}
	*request = MPI_REQUEST_NULL;
	if (req->special && req->done && hdl_req_is_generalized(req)) {
		code = hdl_grequest_free(req);
		return code ? hdl_raise_code(NULL, code_of_callback(call, "free_fn", code), call) : MPI_SUCCESS;
	}
	hdl_req_free(req);
	return MPI_SUCCESS;
}
HDL_PROFILED(Request_free);

int PMPI_Cancel(MPI_Request *request)
{
	HDL_LOCKED;
	static const char call[] = "MPI_Cancel";
	struct hdl_req *req;
	int code = request_arg(call, request, &req);

	if (code)
		return code;
	if (hdl_req_part(req))
		return hdl_raise(req->comm, MPI_ERR_REQUEST, call,
				 "invalid request: partitioned communication cannot be cancelled");
	if (hdl_req_is_collective(req) || hdl_req_is_persistent_collective(req))
		return is_collective(call, req);
	/* section 3.8.4 allows a send or a receive only. Of the two parts, one might be withdrawn when the other is complete */
	if (hdl_req_is_sendrecv(req))
		return hdl_raise(req->comm, MPI_ERR_REQUEST, call, "invalid request: a send and a receive in one cannot be "
				 "cancelled; MPI_Isend and MPI_Irecv have a request each");
	if (req->inactive)
		return hdl_raise(req->comm, MPI_ERR_REQUEST, call, "invalid request: it is persistent and was not started");
	if (req->special && hdl_req_is_generalized(req)) {
		code = hdl_grequest_cancel(req);
		return code ? hdl_raise_code(NULL, code_of_callback(call, "cancel_fn", code), call) : MPI_SUCCESS;
	}
	hdl_req_cancel(req);
	return MPI_SUCCESS;
}
HDL_PROFILED(Cancel);
