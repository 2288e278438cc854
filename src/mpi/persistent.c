/* SPDX-License-Identifier: BSD-3-Clause */
/* Persistent communication requests (MPI-5.0 section 3.9). */
#include "mpi/mpi_internal.h"

static int mpi_persistent_send_init(const char *call, const void *buf, MPI_Count count, MPI_Datatype datatype, int dest,
				    int tag, MPI_Comm comm, enum hdl_send_mode mode, MPI_Request *request)
{
	struct hdl_comm *c = hdl_comm_get(comm);
	struct hdl_req *req;
	int rc = hdl_check_send(call, comm, c, buf, count, datatype, dest, tag);

	if (!rc && !request)
		rc = hdl_null_arg(c, call, "request");
	if (rc)
		return rc;
	rc = hdl_send_init(buf, count, hdl_type_get(datatype), dest, tag, c, mode, &req);
	if (rc)
		return hdl_raise_class(c, rc, call);
	*request = (MPI_Request)req;
	return MPI_SUCCESS;
}

static int mpi_persistent_recv_init(const char *call, void *buf, MPI_Count count, MPI_Datatype datatype, int source, int tag,
				    MPI_Comm comm, MPI_Request *request)
{
	struct hdl_comm *c = hdl_comm_get(comm);
	struct hdl_req *req;
	int rc = hdl_check_recv(call, comm, c, buf, count, datatype, source, tag);

	if (!rc && !request)
		rc = hdl_null_arg(c, call, "request");
	if (rc)
		return rc;
	rc = hdl_recv_init(buf, count, hdl_type_get(datatype), source, tag, c, &req);
	if (rc)
		return hdl_raise_class(c, rc, call);
	*request = (MPI_Request)req;
	return MPI_SUCCESS;
}

#define FORM(_c, Count)												\
int PMPI_Send_init##_c(const void *buf, Count count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm,	\
		       MPI_Request *request)									\
{														\
	HDL_LOCKED;												\
	HDL_GIVES(request);											\
	return mpi_persistent_send_init("MPI_Send_init" #_c, buf, count, datatype, dest, tag, comm, HDL_STANDARD, request);	\
}														\
HDL_PROFILED(Send_init##_c);											\
														\
int PMPI_Ssend_init##_c(const void *buf, Count count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm,	\
			MPI_Request *request)									\
{														\
	HDL_LOCKED;												\
	HDL_GIVES(request);											\
	return mpi_persistent_send_init("MPI_Ssend_init" #_c, buf, count, datatype, dest, tag, comm, HDL_SYNCHRONOUS, request);	\
}														\
HDL_PROFILED(Ssend_init##_c);											\
														\
int PMPI_Bsend_init##_c(const void *buf, Count count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm,	\
			MPI_Request *request)									\
{														\
	HDL_LOCKED;												\
	HDL_GIVES(request);											\
	return mpi_persistent_send_init("MPI_Bsend_init" #_c, buf, count, datatype, dest, tag, comm, HDL_BUFFERED, request);	\
}														\
HDL_PROFILED(Bsend_init##_c);											\
														\
int PMPI_Rsend_init##_c(const void *buf, Count count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm,	\
			MPI_Request *request)									\
{														\
	HDL_LOCKED;												\
	HDL_GIVES(request);											\
	return mpi_persistent_send_init("MPI_Rsend_init" #_c, buf, count, datatype, dest, tag, comm, HDL_READY, request);	\
}														\
HDL_PROFILED(Rsend_init##_c);											\
														\
int PMPI_Recv_init##_c(void *buf, Count count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm,	\
		       MPI_Request *request)									\
{														\
	HDL_LOCKED;												\
	HDL_GIVES(request);											\
	return mpi_persistent_recv_init("MPI_Recv_init" #_c, buf, count, datatype, source, tag, comm, request);		\
}														\
HDL_PROFILED(Recv_init##_c);

FORM(, int)
FORM(_c, MPI_Count)
#undef FORM

/* Whether a request can be started. index: in an array, or -1. */
static int check_startable(const char *call, int index, MPI_Request handle, struct hdl_req **req)
{
	char which[48] = "";

	*req = hdl_req_get(handle);
	if (unlikely(!*req))
		return hdl_bad_request(call, index, handle);
	if (likely((*req)->inactive))
		return MPI_SUCCESS;
	if (index >= 0)
		snprintf(which, sizeof(which), " array_of_requests[%d]", index);
	return hdl_raise((*req)->comm, MPI_ERR_REQUEST, call, "invalid request%s: it is %s", which,
			 (*req)->special && hdl_req_is_persistent(*req) ? "active: complete it before it is started again" :
			 "not persistent");
}

static int mpi_persistent_start(const char *call, struct hdl_req *req)
{
	int rc = hdl_req_start(req);

	return likely(!rc) ? MPI_SUCCESS : hdl_raise_class(req->comm, rc, call);
}

int PMPI_Start(MPI_Request *request)
{
	HDL_LOCKED;
	static const char call[] = "MPI_Start";
	struct hdl_req *req;
	int rc;

	if (unlikely(!request)) {
		hdl_check_active(call);
		return hdl_null_arg(NULL, call, "request");
	}
	rc = check_startable(call, -1, *request, &req);
	if (unlikely(rc))
		return rc;
	hdl_call = call;
	return mpi_persistent_start(call, req);
}
HDL_PROFILED(Start);

int PMPI_Startall(int count, MPI_Request array_of_requests[])
{
	HDL_LOCKED;
	static const char call[] = "MPI_Startall";
	struct hdl_req *req;
	int rc = MPI_SUCCESS;

	hdl_check_active(call);
	if (count < 0)
		return hdl_bad_count(NULL, call, "count", count);
	if (count && !array_of_requests)
		return hdl_null_arg(NULL, call, "array_of_requests");
	for (int i = 0; !rc && i < count; i++)
		rc = check_startable(call, i, array_of_requests[i], &req);
	hdl_call = call;
	for (int i = 0; !rc && i < count; i++) {
		/* a second look: the array may contain a request twice */
		rc = check_startable(call, i, array_of_requests[i], &req);
		if (!rc)
			rc = mpi_persistent_start(call, req);
	}
	return rc;
}
HDL_PROFILED(Startall);
