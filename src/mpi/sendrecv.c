/* SPDX-License-Identifier: BSD-3-Clause */
/* A send and a receive in one call (MPI-5.0 section 3.10). */
#include "mpi/mpi_internal.h"

#include <limits.h>

/* Must: the arguments are checked. */
static int sendrecv_run(const char *call, const void *sendbuf, MPI_Count sendcount, const struct hdl_type *st, int dest,
			int sendtag, void *recvbuf, MPI_Count recvcount, const struct hdl_type *rt, int source, int recvtag,
			struct hdl_comm *c, MPI_Status *status)
{
	struct hdl_req *recv;
	int rc, recv_rc, result;

	hdl_call = call;
	rc = hdl_irecv(recvbuf, recvcount, rt, source, recvtag, c, c->context, &recv);
	if (unlikely(rc))
		return hdl_raise_class(c, rc, call);
	rc = hdl_send(sendbuf, sendcount, st, dest, sendtag, c, c->context, false);
	if (unlikely(rc)) {
		/* The receive is not waited for: the partner's send may never come. */
		result = hdl_raise_class(c, rc, call);
		hdl_req_cancel(recv);
		hdl_req_wait(recv);
		hdl_req_free(recv);
		return result;
	}
	hdl_req_wait(recv);
	if (status)
		hdl_status_copy(status, &recv->status);
	recv_rc = recv->error;
	if (unlikely(recv_rc))
		hdl_req_explain(recv);
	hdl_req_free(recv);
	return likely(!recv_rc) ? MPI_SUCCESS : hdl_raise_class(c, recv_rc, call);
}

static int sendrecv(const char *call, const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, int dest,
		    int sendtag, void *recvbuf, MPI_Count recvcount, MPI_Datatype recvtype, int source, int recvtag,
		    MPI_Comm comm, MPI_Status *status)
{
	struct hdl_comm *c = hdl_comm_get(comm);
	struct hdl_type *st = hdl_type_get(sendtype), *rt = hdl_type_get(recvtype);
	int rc;

	if (unlikely(!hdl_send_is_plain(c, st, sendbuf, sendcount, dest, sendtag))) {
		rc = hdl_check_send(call, comm, c, sendbuf, sendcount, sendtype, dest, sendtag);
		if (rc)
			return rc;
	}
	if (unlikely(!hdl_recv_is_plain(c, rt, recvbuf, recvcount, source, recvtag))) {
		rc = hdl_check_recv(call, comm, c, recvbuf, recvcount, recvtype, source, recvtag);
		if (rc)
			return rc;
	}
	return sendrecv_run(call, sendbuf, sendcount, st, dest, sendtag, recvbuf, recvcount, rt, source, recvtag, c, status);
}

/* Packs the data into pooled memory, since its buffer receives at the same time. */
static int sendrecv_pack(const char *call, const void *buf, MPI_Count count, const struct hdl_type *t, struct hdl_comm *c,
			 void **temp, size_t *bytes)
{
	*temp = NULL;
	if (__builtin_mul_overflow((size_t)count, (size_t)t->size, bytes))
		return hdl_raise(c, MPI_ERR_COUNT, call, "invalid count %lld: so many elements of %lld bytes do not fit the "
				 "address space", (long long)count, (long long)t->size);
	*temp = hdl_buf_get(*bytes);
	if (!*temp)
		return hdl_raise(c, MPI_ERR_NO_MEM, call, "out of memory: %zu bytes for the data to be sent", *bytes);
	hdl_pack(*temp, buf, count, t, 0, *bytes);
	return MPI_SUCCESS;
}

static int check_replace(const char *call, void *buf, MPI_Count count, MPI_Datatype datatype, int dest, int sendtag,
			 int source, int recvtag, MPI_Comm comm)
{
	struct hdl_comm *c = hdl_comm_get(comm);
	int rc = hdl_check_send(call, comm, c, buf, count, datatype, dest, sendtag);

	return rc ? rc : hdl_check_recv(call, comm, c, buf, count, datatype, source, recvtag);
}

static int sendrecv_replace(const char *call, void *buf, MPI_Count count, MPI_Datatype datatype, int dest, int sendtag,
			    int source, int recvtag, MPI_Comm comm, MPI_Status *status)
{
	struct hdl_comm *c = hdl_comm_get(comm);
	struct hdl_type *t = hdl_type_get(datatype);
	size_t bytes;
	void *temp;
	int rc = check_replace(call, buf, count, datatype, dest, sendtag, source, recvtag, comm);

	if (!rc)
		rc = sendrecv_pack(call, buf, count, t, c, &temp, &bytes);
	if (rc)
		return rc;
	rc = sendrecv_run(call, temp, (MPI_Count)bytes, hdl_type_get(MPI_BYTE), dest, sendtag, buf, count, t, source, recvtag,
			  c, status);
	hdl_buf_put(temp);
	return rc;
}

static int sendrecv_start(const char *call, const void *sendbuf, MPI_Count sendcount, const struct hdl_type *st, int dest,
			  int sendtag, void *recvbuf, MPI_Count recvcount, const struct hdl_type *rt, int source, int recvtag,
			  struct hdl_comm *c, void *temp, MPI_Request *request)
{
	struct hdl_req *req;
	int rc;

	hdl_call = call;
	rc = hdl_isendrecv(sendbuf, sendcount, st, dest, sendtag, recvbuf, recvcount, rt, source, recvtag, c, temp, &req);
	if (rc)
		return hdl_raise_class(c, rc, call);
	*request = (MPI_Request)req;
	return MPI_SUCCESS;
}

static int isendrecv(const char *call, const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, int dest, int sendtag,
		     void *recvbuf, MPI_Count recvcount, MPI_Datatype recvtype, int source, int recvtag, MPI_Comm comm,
		     MPI_Request *request)
{
	struct hdl_comm *c = hdl_comm_get(comm);
	int rc = hdl_check_send(call, comm, c, sendbuf, sendcount, sendtype, dest, sendtag);

	if (!rc)
		rc = hdl_check_recv(call, comm, c, recvbuf, recvcount, recvtype, source, recvtag);
	if (!rc && !request)
		rc = hdl_null_arg(c, call, "request");
	return rc ? rc : sendrecv_start(call, sendbuf, sendcount, hdl_type_get(sendtype), dest, sendtag, recvbuf, recvcount,
			       hdl_type_get(recvtype), source, recvtag, c, NULL, request);
}

static int ireplace(const char *call, void *buf, MPI_Count count, MPI_Datatype datatype, int dest, int sendtag, int source,
		    int recvtag, MPI_Comm comm, MPI_Request *request)
{
	struct hdl_comm *c = hdl_comm_get(comm);
	struct hdl_type *t = hdl_type_get(datatype);
	size_t bytes;
	void *temp;
	int rc = check_replace(call, buf, count, datatype, dest, sendtag, source, recvtag, comm);

	if (!rc && !request)
		rc = hdl_null_arg(c, call, "request");
	if (!rc)
		rc = sendrecv_pack(call, buf, count, t, c, &temp, &bytes);
	return rc ? rc :
		    sendrecv_start(call, temp, (MPI_Count)bytes, hdl_type_get(MPI_BYTE), dest, sendtag, buf, count, t, source,
				   recvtag, c, temp, request);
}

#define FORM(_c, Count)												\
int PMPI_Sendrecv##_c(const void *sendbuf, Count sendcount, MPI_Datatype sendtype, int dest, int sendtag,	\
		      void *recvbuf, Count recvcount, MPI_Datatype recvtype, int source, int recvtag,		\
		      MPI_Comm comm, MPI_Status *status)							\
{														\
	HDL_LOCKED;												\
	return sendrecv("MPI_Sendrecv" #_c, sendbuf, sendcount, sendtype, dest, sendtag, recvbuf, recvcount, recvtype,	\
		source, recvtag, comm, status);									\
}														\
HDL_PROFILED(Sendrecv##_c);											\
														\
int PMPI_Sendrecv_replace##_c(void *buf, Count count, MPI_Datatype datatype, int dest, int sendtag, int source,	\
			      int recvtag, MPI_Comm comm, MPI_Status *status)					\
{														\
	HDL_LOCKED;												\
	return sendrecv_replace("MPI_Sendrecv_replace" #_c, buf, count, datatype, dest, sendtag, source, recvtag, comm, status); \
}														\
HDL_PROFILED(Sendrecv_replace##_c);										\
														\
int PMPI_Isendrecv##_c(const void *sendbuf, Count sendcount, MPI_Datatype sendtype, int dest, int sendtag,	\
		       void *recvbuf, Count recvcount, MPI_Datatype recvtype, int source, int recvtag,		\
		       MPI_Comm comm, MPI_Request *request)							\
{														\
	HDL_LOCKED;												\
	HDL_GIVES(request);											\
	return isendrecv("MPI_Isendrecv" #_c, sendbuf, sendcount, sendtype, dest, sendtag, recvbuf, recvcount, recvtype,	\
		source, recvtag, comm, request);								\
}														\
HDL_PROFILED(Isendrecv##_c);											\
														\
int PMPI_Isendrecv_replace##_c(void *buf, Count count, MPI_Datatype datatype, int dest, int sendtag, int source,	\
			       int recvtag, MPI_Comm comm, MPI_Request *request)				\
{														\
	HDL_LOCKED;												\
	HDL_GIVES(request);											\
	return ireplace("MPI_Isendrecv_replace" #_c, buf, count, datatype, dest, sendtag, source, recvtag, comm, request);	\
}														\
HDL_PROFILED(Isendrecv_replace##_c);

FORM(, int)
FORM(_c, MPI_Count)
#undef FORM
