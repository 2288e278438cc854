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

/* ---- buffers: of the process, of a communicator or of a session ------------------------------------------------ */

/* The object that has the buffer; both NULL: the process. */
struct owner {
	struct hdl_comm *comm;
	struct hdl_session *session;
};

static struct hdl_bsend_space **space_of(struct owner o)
{
	return o.comm ? &o.comm->bsend : o.session ? &o.session->bsend : &hdl_bsend_process;
}

/* Raises an error on the owner, with hdl_reason_set. class 0: none. */
static int owner_raise(struct owner o, int class, const char *call)
{
	if (!class)
		return MPI_SUCCESS;
	return o.session ? hdl_raise_session_class(o.session, class, call) : hdl_raise_class(o.comm, class, call);
}

static int owner_null(struct owner o, const char *call, const char *arg)
{
	hdl_reason_set("invalid %s: it is a null pointer", arg);
	return owner_raise(o, MPI_ERR_ARG, call);
}

static int attach(const char *call, struct owner o, void *buffer, MPI_Count size)
{
	hdl_check_active(call);
	if (buffer != MPI_BUFFER_AUTOMATIC) {
		if (size < 0) {
			hdl_reason_set("invalid size %lld: it must not be negative", (long long)size);
			return owner_raise(o, MPI_ERR_ARG, call);
		}
		if (!buffer && size) {
			hdl_reason_set("invalid buffer: a null pointer with size %lld", (long long)size);
			return owner_raise(o, MPI_ERR_BUFFER, call);
		}
	}
	return owner_raise(o, hdl_bsend_attach(space_of(o), buffer, (size_t)size), call);
}

/* buffer_addr: the address of a pointer of any type. *size is not changed after an error. */
static int detach(const char *call, struct owner o, void *buffer_addr, void *size_arg, MPI_Count *size)
{
	void *buffer;
	size_t bytes;

	hdl_check_active(call);
	if (!buffer_addr || !size_arg)
		return owner_null(o, call, buffer_addr ? "size" : "buffer_addr");
	hdl_call = call;
	hdl_bsend_detach(space_of(o), &buffer, &bytes);
	__builtin_memcpy(buffer_addr, &buffer, sizeof(buffer));
	*size = (MPI_Count)bytes;
	return MPI_SUCCESS;
}

static int detach_int(const char *call, struct owner o, void *buffer_addr, int *size)
{
	MPI_Count bytes = 0;
	int rc = detach(call, o, buffer_addr, size, &bytes);

	if (!rc)
		*size = bytes > INT_MAX ? MPI_UNDEFINED : (int)bytes;
	return rc;
}

static int buffer_flush(const char *call, struct owner o)
{
	hdl_check_active(call);
	hdl_call = call;
	hdl_bsend_flush(*space_of(o));
	return MPI_SUCCESS;
}

static int iflush(const char *call, struct owner o, MPI_Request *request)
{
	struct hdl_req *req;
	int rc;

	hdl_check_active(call);
	if (!request)
		return owner_null(o, call, "request");
	rc = hdl_bsend_iflush(*space_of(o), o.comm ? o.comm : &hdl_self, &req);
	if (rc)
		return owner_raise(o, rc, call);
	*request = (MPI_Request)req;
	return MPI_SUCCESS;
}

#define PROCESS		(struct owner){ NULL, NULL }
#define OF_COMM(c)	(struct owner){ c, NULL }
#define OF_SESSION(s)	(struct owner){ NULL, s }

#define FORM(_c, Count)												\
int PMPI_Buffer_attach##_c(void *buffer, Count size)								\
{														\
	HDL_LOCKED;												\
	return attach("MPI_Buffer_attach" #_c, PROCESS, buffer, size);						\
}														\
HDL_PROFILED(Buffer_attach##_c);

FORM(, int)
FORM(_c, MPI_Count)
#undef FORM

int PMPI_Buffer_detach(void *buffer_addr, int *size)
{
	HDL_LOCKED;
	return detach_int("MPI_Buffer_detach", PROCESS, buffer_addr, size);
}
HDL_PROFILED(Buffer_detach);

int PMPI_Buffer_detach_c(void *buffer_addr, MPI_Count *size)
{
	HDL_LOCKED;
	return detach("MPI_Buffer_detach_c", PROCESS, buffer_addr, size, size);
}
HDL_PROFILED(Buffer_detach_c);

int PMPI_Buffer_flush(void)
{
	HDL_LOCKED;
	return buffer_flush("MPI_Buffer_flush", PROCESS);
}
HDL_PROFILED(Buffer_flush);

int PMPI_Buffer_iflush(MPI_Request *request)
{
	HDL_LOCKED;
	HDL_GIVES(request);
	return iflush("MPI_Buffer_iflush", PROCESS, request);
}
HDL_PROFILED(Buffer_iflush);

/* The buffers of communicators and of sessions. */
#define FUNCTIONS(Kind, kind, OF)											\
int PMPI_##Kind##_attach_buffer(MPI_##Kind object, void *buffer, int size)						\
{															\
	HDL_LOCKED;													\
	static const char call[] = "MPI_" #Kind "_attach_buffer";							\
	struct hdl_##kind *o = hdl_##kind##_get(object);								\
															\
	return o ? attach(call, OF(o), buffer, size) : hdl_bad_##kind(call, object);					\
}															\
HDL_PROFILED(Kind##_attach_buffer);											\
															\
int PMPI_##Kind##_detach_buffer(MPI_##Kind object, void *buffer_addr, int *size)					\
{															\
	HDL_LOCKED;													\
	static const char call[] = "MPI_" #Kind "_detach_buffer";							\
	struct hdl_##kind *o = hdl_##kind##_get(object);								\
															\
	return o ? detach_int(call, OF(o), buffer_addr, size) : hdl_bad_##kind(call, object);				\
}															\
HDL_PROFILED(Kind##_detach_buffer);											\
															\
int PMPI_##Kind##_attach_buffer_c(MPI_##Kind object, void *buffer, MPI_Count size)					\
{															\
	HDL_LOCKED;													\
	static const char call[] = "MPI_" #Kind "_attach_buffer_c";							\
	struct hdl_##kind *o = hdl_##kind##_get(object);								\
															\
	return o ? attach(call, OF(o), buffer, size) : hdl_bad_##kind(call, object);					\
}															\
HDL_PROFILED(Kind##_attach_buffer_c);											\
															\
int PMPI_##Kind##_detach_buffer_c(MPI_##Kind object, void *buffer_addr, MPI_Count *size)				\
{															\
	HDL_LOCKED;													\
	static const char call[] = "MPI_" #Kind "_detach_buffer_c";							\
	struct hdl_##kind *o = hdl_##kind##_get(object);								\
															\
	return o ? detach(call, OF(o), buffer_addr, size, size) : hdl_bad_##kind(call, object);				\
}															\
HDL_PROFILED(Kind##_detach_buffer_c);											\
															\
int PMPI_##Kind##_flush_buffer(MPI_##Kind object)									\
{															\
	HDL_LOCKED;													\
	static const char call[] = "MPI_" #Kind "_flush_buffer";							\
	struct hdl_##kind *o = hdl_##kind##_get(object);								\
															\
	return o ? buffer_flush(call, OF(o)) : hdl_bad_##kind(call, object);						\
}															\
HDL_PROFILED(Kind##_flush_buffer);											\
															\
int PMPI_##Kind##_iflush_buffer(MPI_##Kind object, MPI_Request *request)						\
{															\
	HDL_LOCKED;													\
	HDL_GIVES(request);												\
	static const char call[] = "MPI_" #Kind "_iflush_buffer";							\
	struct hdl_##kind *o = hdl_##kind##_get(object);								\
															\
	return o ? iflush(call, OF(o), request) : hdl_bad_##kind(call, object);						\
}															\
HDL_PROFILED(Kind##_iflush_buffer);

FUNCTIONS(Comm, comm, OF_COMM)
FUNCTIONS(Session, session, OF_SESSION)
#undef FUNCTIONS
