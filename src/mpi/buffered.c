/* SPDX-License-Identifier: BSD-3-Clause */
/* Buffered sends and their buffers (MPI-5.0 sections 3.4 to 3.7). */
#include "mpi/mpi_internal.h"

#include <limits.h>

static int bsend(const char *call, const void *buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm)
{
	struct hdl_comm *c = hdl_comm_get(comm);
	int rc = hdl_check_send(call, comm, c, buf, count, datatype, dest, tag);

	if (rc)
		return rc;
	hdl_call = call;
	rc = hdl_bsend(buf, count, hdl_type_get(datatype), dest, tag, c);
	return likely(!rc) ? MPI_SUCCESS : hdl_raise_class(c, rc, call);
}

/* The buffer has the message on return, so the request is done. */
static int ibsend(const char *call, const void *buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm,
		  MPI_Request *request)
{
	int rc;

	if (!request) {
		hdl_check_active(call);
		return hdl_null_arg(hdl_comm_get(comm), call, "request");
	}
	rc = bsend(call, buf, count, datatype, dest, tag, comm);
	if (!rc)
		*request = (MPI_Request)&hdl_req_sent;
	return rc;
}

#define FORM(_c, Count)												\
int PMPI_Bsend##_c(const void *buf, Count count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm)	\
{														\
	HDL_LOCKED;												\
	return bsend("MPI_Bsend" #_c, buf, count, datatype, dest, tag, comm);					\
}														\
HDL_PROFILED(Bsend##_c);											\
														\
int PMPI_Ibsend##_c(const void *buf, Count count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm,	\
		    MPI_Request *request)									\
{														\
	HDL_LOCKED;												\
	HDL_GIVES(request);											\
	return ibsend("MPI_Ibsend" #_c, buf, count, datatype, dest, tag, comm, request);			\
}														\
HDL_PROFILED(Ibsend##_c);

FORM(, int)
FORM(_c, MPI_Count)
#undef FORM

/* ---- buffers: of the process (c is NULL) or of a communicator ----------------------------------------------- */

static struct hdl_bsend_space **space_of(struct hdl_comm *c)
{
	return c ? &c->bsend : &hdl_bsend_process;
}

static int attach(const char *call, struct hdl_comm *c, void *buffer, MPI_Count size)
{
	int rc;

	hdl_check_active(call);
	if (buffer != MPI_BUFFER_AUTOMATIC) {
		if (size < 0)
			return hdl_raise(c, MPI_ERR_ARG, call, "invalid size %lld: it must not be negative", (long long)size);
		if (!buffer && size)
			return hdl_raise(c, MPI_ERR_BUFFER, call, "invalid buffer: a null pointer with size %lld",
					 (long long)size);
	}
	rc = hdl_bsend_attach(space_of(c), buffer, (size_t)size);
	return rc ? hdl_raise_class(c, rc, call) : MPI_SUCCESS;
}

/* buffer_addr: the address of a pointer of any type. *size is not changed after an error. */
static int detach(const char *call, struct hdl_comm *c, void *buffer_addr, void *size_arg, MPI_Count *size)
{
	void *buffer;
	size_t bytes;

	hdl_check_active(call);
	if (!buffer_addr || !size_arg)
		return hdl_null_arg(c, call, buffer_addr ? "size" : "buffer_addr");
	hdl_call = call;
	hdl_bsend_detach(space_of(c), &buffer, &bytes);
	__builtin_memcpy(buffer_addr, &buffer, sizeof(buffer));
	*size = (MPI_Count)bytes;
	return MPI_SUCCESS;
}

static int detach_int(const char *call, struct hdl_comm *c, void *buffer_addr, int *size)
{
	MPI_Count bytes = 0;
	int rc = detach(call, c, buffer_addr, size, &bytes);

	if (!rc)
		*size = bytes > INT_MAX ? MPI_UNDEFINED : (int)bytes;
	return rc;
}

static int flush(const char *call, struct hdl_comm *c)
{
	hdl_check_active(call);
	hdl_call = call;
	hdl_bsend_flush(*space_of(c));
	return MPI_SUCCESS;
}

static int iflush(const char *call, struct hdl_comm *c, MPI_Request *request)
{
	struct hdl_req *req;
	int rc;

	hdl_check_active(call);
	if (!request)
		return hdl_null_arg(c, call, "request");
	rc = hdl_bsend_iflush(*space_of(c), c ? c : &hdl_self, &req);
	if (rc)
		return hdl_raise_class(c, rc, call);
	*request = (MPI_Request)req;
	return MPI_SUCCESS;
}

#define FORM(_c, Count)												\
int PMPI_Buffer_attach##_c(void *buffer, Count size)								\
{														\
	HDL_LOCKED;												\
	return attach("MPI_Buffer_attach" #_c, NULL, buffer, size);						\
}														\
HDL_PROFILED(Buffer_attach##_c);

FORM(, int)
FORM(_c, MPI_Count)
#undef FORM

int PMPI_Buffer_detach(void *buffer_addr, int *size)
{
	HDL_LOCKED;
	return detach_int("MPI_Buffer_detach", NULL, buffer_addr, size);
}
HDL_PROFILED(Buffer_detach);

int PMPI_Buffer_detach_c(void *buffer_addr, MPI_Count *size)
{
	HDL_LOCKED;
	return detach("MPI_Buffer_detach_c", NULL, buffer_addr, size, size);
}
HDL_PROFILED(Buffer_detach_c);

int PMPI_Buffer_flush(void)
{
	HDL_LOCKED;
	return flush("MPI_Buffer_flush", NULL);
}
HDL_PROFILED(Buffer_flush);

int PMPI_Buffer_iflush(MPI_Request *request)
{
	HDL_LOCKED;
	HDL_GIVES(request);
	return iflush("MPI_Buffer_iflush", NULL, request);
}
HDL_PROFILED(Buffer_iflush);

#define FORM(_c, Count)												\
int PMPI_Comm_attach_buffer##_c(MPI_Comm comm, void *buffer, Count size)					\
{														\
	HDL_LOCKED;												\
	static const char call[] = "MPI_Comm_attach_buffer" #_c;						\
	struct hdl_comm *c = hdl_comm_get(comm);								\
														\
	return c ? attach(call, c, buffer, size) : hdl_bad_comm(call, comm);					\
}														\
HDL_PROFILED(Comm_attach_buffer##_c);

FORM(, int)
FORM(_c, MPI_Count)
#undef FORM

int PMPI_Comm_detach_buffer(MPI_Comm comm, void *buffer_addr, int *size)
{
	HDL_LOCKED;
	static const char call[] = "MPI_Comm_detach_buffer";
	struct hdl_comm *c = hdl_comm_get(comm);

	return c ? detach_int(call, c, buffer_addr, size) : hdl_bad_comm(call, comm);
}
HDL_PROFILED(Comm_detach_buffer);

int PMPI_Comm_detach_buffer_c(MPI_Comm comm, void *buffer_addr, MPI_Count *size)
{
	HDL_LOCKED;
	static const char call[] = "MPI_Comm_detach_buffer_c";
	struct hdl_comm *c = hdl_comm_get(comm);

	return c ? detach(call, c, buffer_addr, size, size) : hdl_bad_comm(call, comm);
}
HDL_PROFILED(Comm_detach_buffer_c);

int PMPI_Comm_flush_buffer(MPI_Comm comm)
{
	HDL_LOCKED;
	static const char call[] = "MPI_Comm_flush_buffer";
	struct hdl_comm *c = hdl_comm_get(comm);

	return c ? flush(call, c) : hdl_bad_comm(call, comm);
}
HDL_PROFILED(Comm_flush_buffer);

int PMPI_Comm_iflush_buffer(MPI_Comm comm, MPI_Request *request)
{
	HDL_LOCKED;
	HDL_GIVES(request);
	static const char call[] = "MPI_Comm_iflush_buffer";
	struct hdl_comm *c = hdl_comm_get(comm);

	return c ? iflush(call, c, request) : hdl_bad_comm(call, comm);
}
HDL_PROFILED(Comm_iflush_buffer);
