/* SPDX-License-Identifier: BSD-3-Clause */
/* Point-to-point communication (MPI-5.0 chapter 3). request.c has completion. */
#include "mpi/mpi_internal.h"

#include <limits.h>

/* ---- argument checks: the common case is inline, errors are told apart out of line ---------------------------- */

int hdl_check_send(const char *call, MPI_Comm comm, struct hdl_comm *c, const void *buf, MPI_Count count,
		   MPI_Datatype datatype, int dest, int tag)
{
	struct hdl_type *t;

	if (!c)
		return hdl_bad_comm(call, comm);
	t = hdl_type_get(datatype);
	if (!t || !hdl_type_is_committed(t))
		return hdl_bad_type(c, call, "datatype", datatype);
	if (count < 0)
		return hdl_bad_count(c, call, "count", count);
	if ((dest < 0 || dest >= c->size) && dest != MPI_PROC_NULL)
		return hdl_bad_rank(c, MPI_ERR_RANK, call, "dest", dest);
	if (tag < 0)
		return hdl_raise(c, MPI_ERR_TAG, call, "invalid tag %d%s: tags are 0..%d", tag,
				 tag == MPI_ANY_TAG ? " (MPI_ANY_TAG)" : "", INT_MAX);
	if (dest != MPI_PROC_NULL && hdl_bad_buffer(buf, count, t))
		return hdl_bad_buffer_error(c, call, "buf", buf);
	return MPI_SUCCESS;
}

int hdl_check_source_tag(const char *call, struct hdl_comm *c, int source, int tag)
{
	if ((source < 0 || source >= c->size) && source != MPI_PROC_NULL && source != MPI_ANY_SOURCE)
		return hdl_bad_rank(c, MPI_ERR_RANK, call, "source", source);
	if (tag < 0 && tag != MPI_ANY_TAG)
		return hdl_raise(c, MPI_ERR_TAG, call, "invalid tag %d: tags are 0..%d, or MPI_ANY_TAG (%d)", tag,
				 INT_MAX,
				 MPI_ANY_TAG);
	return MPI_SUCCESS;
}

int hdl_check_recv(const char *call, MPI_Comm comm, struct hdl_comm *c, const void *buf, MPI_Count count,
		   MPI_Datatype datatype, int source, int tag)
{
	struct hdl_type *t;
	int rc;

	if (!c)
		return hdl_bad_comm(call, comm);
	t = hdl_type_get(datatype);
	if (!t || !hdl_type_is_committed(t))
		return hdl_bad_type(c, call, "datatype", datatype);
	if (count < 0)
		return hdl_bad_count(c, call, "count", count);
	rc = hdl_check_source_tag(call, c, source, tag);
	if (rc)
		return rc;
	if (source != MPI_PROC_NULL && hdl_bad_buffer(buf, count, t))
		return hdl_bad_buffer_error(c, call, "buf", buf);
	return MPI_SUCCESS;
}

/* ---- blocking ------------------------------------------------------------------------------------------ */

static inline __attribute__((always_inline)) int send_any(const char *call, const void *buf, MPI_Count count,
							  MPI_Datatype datatype, int dest, int tag, MPI_Comm comm,
							  bool sync)
{
	struct hdl_comm *c = hdl_comm_get(comm);
	struct hdl_type *t = hdl_type_get(datatype);
	int rc;

	if (unlikely(!hdl_send_is_plain(c, t, buf, count, dest, tag))) {
		rc = hdl_check_send(call, comm, c, buf, count, datatype, dest, tag);
		if (rc)
			return rc;
	}
	hdl_call = call;
	if (!sync && likely(hdl_send_now(buf, count, t, dest, tag, c, c->context)))
		return MPI_SUCCESS;
	rc = hdl_send(buf, count, t, dest, tag, c, c->context, sync);
	return likely(!rc) ? MPI_SUCCESS : hdl_raise_class(c, rc, call);
}

/* A ready send may be a standard send (section 3.4). */
#define FORM(_c, Count)												\
int PMPI_Send##_c(const void *buf, Count count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm)	\
{														\
	HDL_LOCKED;												\
	return send_any("MPI_Send" #_c, buf, count, datatype, dest, tag, comm, false);				\
}														\
HDL_PROFILED(Send##_c);												\
														\
int PMPI_Ssend##_c(const void *buf, Count count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm)	\
{														\
	HDL_LOCKED;												\
	return send_any("MPI_Ssend" #_c, buf, count, datatype, dest, tag, comm, true);				\
}														\
HDL_PROFILED(Ssend##_c);											\
														\
int PMPI_Rsend##_c(const void *buf, Count count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm)	\
{														\
	HDL_LOCKED;												\
	return send_any("MPI_Rsend" #_c, buf, count, datatype, dest, tag, comm, false);				\
}														\
HDL_PROFILED(Rsend##_c);

FORM(, int)
FORM(_c, MPI_Count)
#undef FORM

static inline __attribute__((always_inline)) int recv_any(const char *call, void *buf, MPI_Count count,
							  MPI_Datatype datatype, int source, int tag, MPI_Comm comm,
							  MPI_Status *status)
{
	struct hdl_comm *c = hdl_comm_get(comm);
	struct hdl_type *t = hdl_type_get(datatype);
	int rc;

	if (unlikely(!hdl_recv_is_plain(c, t, buf, count, source, tag))) {
		rc = hdl_check_recv(call, comm, c, buf, count, datatype, source, tag);
		if (rc)
			return rc;
	}
	hdl_call = call;
	rc = hdl_recv(buf, count, t, source, tag, c, c->context, status);
	return likely(!rc) ? MPI_SUCCESS : hdl_raise_class(c, rc, call);
}

#define FORM(_c, Count)												\
int PMPI_Recv##_c(void *buf, Count count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm,		\
		  MPI_Status *status)										\
{														\
	HDL_LOCKED;												\
	return recv_any("MPI_Recv" #_c, buf, count, datatype, source, tag, comm, status);			\
}														\
HDL_PROFILED(Recv##_c);

FORM(, int)
FORM(_c, MPI_Count)
#undef FORM

/* ---- nonblocking --------------------------------------------------------------------------------------- */

static inline __attribute__((always_inline)) int isend_any(const char *call, const void *buf, MPI_Count count,
							   MPI_Datatype datatype, int dest, int tag, MPI_Comm comm,
							   bool sync, MPI_Request *request)
{
	struct hdl_comm *c = hdl_comm_get(comm);
	struct hdl_type *t = hdl_type_get(datatype);
	struct hdl_req *req;
	int rc;

	if (unlikely(!hdl_send_is_plain(c, t, buf, count, dest, tag))) {
		HDL_GIVES(request);
		rc = hdl_check_send(call, comm, c, buf, count, datatype, dest, tag);
		if (rc)
			return rc;
	}
	if (unlikely(!request))
		return hdl_null_arg(c, call, "request");
	hdl_call = call;
	if (!sync && likely(hdl_send_now(buf, count, t, dest, tag, c, c->context))) {
		*request = (MPI_Request)&hdl_req_sent;
		return MPI_SUCCESS;
	}
	rc = hdl_isend(buf, count, t, dest, tag, c, c->context, sync, &req);
	if (unlikely(rc)) {
		HDL_GIVES(request);
		return hdl_raise_class(c, rc, call);
	}
	*request = (MPI_Request)req;
	return MPI_SUCCESS;
}

#define FORM(_c, Count)												\
int PMPI_Isend##_c(const void *buf, Count count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm,	\
		   MPI_Request *request)									\
{														\
	HDL_LOCKED;												\
	return isend_any("MPI_Isend" #_c, buf, count, datatype, dest, tag, comm, false, request);		\
}														\
HDL_PROFILED(Isend##_c);											\
														\
int PMPI_Issend##_c(const void *buf, Count count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm,	\
		    MPI_Request *request)									\
{														\
	HDL_LOCKED;												\
	return isend_any("MPI_Issend" #_c, buf, count, datatype, dest, tag, comm, true, request);		\
}														\
HDL_PROFILED(Issend##_c);											\
														\
int PMPI_Irsend##_c(const void *buf, Count count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm,	\
		    MPI_Request *request)									\
{														\
	HDL_LOCKED;												\
	return isend_any("MPI_Irsend" #_c, buf, count, datatype, dest, tag, comm, false, request);		\
}														\
HDL_PROFILED(Irsend##_c);

FORM(, int)
FORM(_c, MPI_Count)
#undef FORM

static inline __attribute__((always_inline)) int irecv_any(const char *call, void *buf, MPI_Count count,
							   MPI_Datatype datatype, int source, int tag, MPI_Comm comm,
							   MPI_Request *request)
{
	struct hdl_comm *c = hdl_comm_get(comm);
	struct hdl_type *t = hdl_type_get(datatype);
	struct hdl_req *req;
	int rc;

	if (unlikely(!hdl_recv_is_plain(c, t, buf, count, source, tag))) {
		HDL_GIVES(request);
		rc = hdl_check_recv(call, comm, c, buf, count, datatype, source, tag);
		if (rc)
			return rc;
	}
	if (unlikely(!request))
		return hdl_null_arg(c, call, "request");
	hdl_call = call;
	rc = hdl_irecv(buf, count, t, source, tag, c, c->context, &req);
	if (unlikely(rc)) {
		HDL_GIVES(request);
		return hdl_raise_class(c, rc, call);
	}
	*request = (MPI_Request)req;
	return MPI_SUCCESS;
}

#define FORM(_c, Count)												\
int PMPI_Irecv##_c(void *buf, Count count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm,		\
		   MPI_Request *request)									\
{														\
	HDL_LOCKED;												\
	return irecv_any("MPI_Irecv" #_c, buf, count, datatype, source, tag, comm, request);			\
}														\
HDL_PROFILED(Irecv##_c);

FORM(, int)
FORM(_c, MPI_Count)
#undef FORM

/* ---- probe --------------------------------------------------------------------------------------------- */

int PMPI_Probe(int source, int tag, MPI_Comm comm, MPI_Status *status)
{
	HDL_LOCKED;
	static const char call[] = "MPI_Probe";
	struct hdl_comm *c = hdl_comm_get(comm);
	int rc;

	if (!c)
		return hdl_bad_comm(call, comm);
	rc = hdl_check_source_tag(call, c, source, tag);
	if (rc)
		return rc;
	hdl_call = call;
	rc = hdl_probe(source, tag, c, c->context, status);
	return likely(!rc) ? MPI_SUCCESS : hdl_raise_class(c, rc, call);
}
HDL_PROFILED(Probe);

int PMPI_Iprobe(int source, int tag, MPI_Comm comm, int *flag, MPI_Status *status)
{
	HDL_LOCKED;
	static const char call[] = "MPI_Iprobe";
	struct hdl_comm *c = hdl_comm_get(comm);
	int rc;

	if (!c)
		return hdl_bad_comm(call, comm);
	rc = hdl_check_source_tag(call, c, source, tag);
	if (rc)
		return rc;
	if (!flag)
		return hdl_null_arg(c, call, "flag");
	rc = hdl_iprobe(source, tag, c, c->context, flag, status);
	return likely(!rc) ? MPI_SUCCESS : hdl_raise_class(c, rc, call);
}
HDL_PROFILED(Iprobe);

/* ---- statuses ------------------------------------------------------------------------------------------ */

static int get_count(const char *call, const MPI_Status *status, MPI_Datatype datatype, MPI_Count *count)
{
	struct hdl_type *t;
	MPI_Count bytes, size;

	hdl_check_active(call);
	if (!status)
		return hdl_null_arg(NULL, call, "status");
	t = hdl_type_get(datatype);
	if (!t)
		return hdl_bad_type(NULL, call, "datatype", datatype);
	bytes = hdl_status_bytes(status);
	size = hdl_type_size(t);
	if (!size)
		*count = bytes ? MPI_UNDEFINED : 0;
	else
		*count = bytes % size ? MPI_UNDEFINED : bytes / size;
	return MPI_SUCCESS;
}

int PMPI_Get_count(const MPI_Status *status, MPI_Datatype datatype, int *count)
{
	HDL_NO_LOCK;
	static const char call[] = "MPI_Get_count";
	MPI_Count n = 0;
	int rc;

	rc = get_count(call, status, datatype, &n);
	if (rc)
		return rc;
	if (!count)
		return hdl_null_arg(NULL, call, "count");
	*count = n > INT_MAX ? MPI_UNDEFINED : (int)n;
	return MPI_SUCCESS;
}
HDL_PROFILED(Get_count);

int PMPI_Get_count_c(const MPI_Status *status, MPI_Datatype datatype, MPI_Count *count)
{
	HDL_NO_LOCK;
	static const char call[] = "MPI_Get_count_c";

	if (!count) {
		hdl_check_active(call);
		return hdl_null_arg(NULL, call, "count");
	}
	return get_count(call, status, datatype, count);
}
HDL_PROFILED(Get_count_c);

int PMPI_Test_cancelled(const MPI_Status *status, int *flag)
{
	HDL_NO_LOCK;
	static const char call[] = "MPI_Test_cancelled";

	hdl_check_active(call);
	if (!status || !flag)
		return hdl_null_arg(NULL, call, status ? "flag" : "status");
	*flag = hdl_status_cancelled(status);
	return MPI_SUCCESS;
}
HDL_PROFILED(Test_cancelled);

#define STATUS_GET(name, field, arg) \
int PMPI_Status_get_##name(const MPI_Status *status, int *arg) \
{ \
	HDL_NO_LOCK; \
	static const char call[] = "MPI_Status_get_" #name; \
 \
	hdl_check_active(call); \
	if (!status || !arg) \
		return hdl_null_arg(NULL, call, status ? #arg : "status"); \
	*arg = status->field; \
	return MPI_SUCCESS; \
} \
HDL_PROFILED(Status_get_##name)

#define STATUS_SET(name, field, arg) \
int PMPI_Status_set_##name(MPI_Status *status, int arg) \
{ \
	HDL_NO_LOCK; \
	static const char call[] = "MPI_Status_set_" #name; \
 \
	hdl_check_active(call); \
	if (!status) \
		return hdl_null_arg(NULL, call, "status"); \
	status->field = arg; \
	return MPI_SUCCESS; \
} \
HDL_PROFILED(Status_set_##name)

STATUS_GET(source, MPI_SOURCE, source);
STATUS_SET(source, MPI_SOURCE, source);
STATUS_GET(tag, MPI_TAG, tag);
STATUS_SET(tag, MPI_TAG, tag);
STATUS_GET(error, MPI_ERROR, error);
STATUS_SET(error, MPI_ERROR, error);

int PMPI_Status_set_cancelled(MPI_Status *status, int flag)
{
	HDL_NO_LOCK;
	static const char call[] = "MPI_Status_set_cancelled";

	hdl_check_active(call);
	if (!status)
		return hdl_null_arg(NULL, call, "status");
	hdl_status_set_bytes(status, hdl_status_bytes(status), flag != 0);
	return MPI_SUCCESS;
}
HDL_PROFILED(Status_set_cancelled);
