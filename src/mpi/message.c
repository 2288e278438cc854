/* SPDX-License-Identifier: BSD-3-Clause */
/* Matched probe and receive (MPI-5.0 section 3.8.2). */
#include "mpi/mpi_internal.h"

static MPI_Message handle_of(struct hdl_message *m)
{
	return m ? (MPI_Message)m : MPI_MESSAGE_NO_PROC;
}

static int check_probe(const char *call, MPI_Comm comm, int source, int tag, const MPI_Message *message)
{
	struct hdl_comm *c = hdl_comm_get(comm);
	int rc;

	if (!c)
		return hdl_bad_comm(call, comm);
	rc = hdl_check_source_tag(call, c, source, tag);
	return !rc && !message ? hdl_null_arg(c, call, "message") : rc;
}

int PMPI_Mprobe(int source, int tag, MPI_Comm comm, MPI_Message *message, MPI_Status *status)
{
	HDL_LOCKED;
	HDL_GIVES(message);
	static const char call[] = "MPI_Mprobe";
	struct hdl_comm *c = hdl_comm_get(comm);
	struct hdl_message *m;
	int rc = check_probe(call, comm, source, tag, message);

	if (rc)
		return rc;
	hdl_call = call;
	rc = hdl_mprobe(source, tag, c, c->context, &m, status);
	if (unlikely(rc))
		return hdl_raise_class(c, rc, call);
	*message = handle_of(m);
	return MPI_SUCCESS;
}
HDL_PROFILED(Mprobe);

int PMPI_Improbe(int source, int tag, MPI_Comm comm, int *flag, MPI_Message *message, MPI_Status *status)
{
	HDL_LOCKED;
	HDL_GIVES(message);
	static const char call[] = "MPI_Improbe";
	struct hdl_comm *c = hdl_comm_get(comm);
	struct hdl_message *m;
	int rc = check_probe(call, comm, source, tag, message);

	if (rc)
		return rc;
	if (!flag)
		return hdl_null_arg(c, call, "flag");
	rc = hdl_improbe(source, tag, c, c->context, flag, &m, status);
	if (unlikely(rc))
		return hdl_raise_class(c, rc, call);
	if (*flag)
		*message = handle_of(m);
	return MPI_SUCCESS;
}
HDL_PROFILED(Improbe);

/* *m: NULL for MPI_MESSAGE_NO_PROC. *c: the communicator on which errors are raised. */
static int check_receive(const char *call, const void *buf, MPI_Count count, MPI_Datatype datatype, const MPI_Message *message,
			 struct hdl_message **m, struct hdl_comm **c)
{
	struct hdl_type *t = hdl_type_get(datatype);

	hdl_check_active(call);
	*c = NULL;
	if (!message)
		return hdl_null_arg(NULL, call, "message");
	*m = hdl_message_get(*message);
	if (!*m && *message != MPI_MESSAGE_NO_PROC)
		return hdl_raise(NULL, MPI_ERR_REQUEST, call, "invalid message: handle %p is %s", (void *)*message,
				 *message == MPI_MESSAGE_NULL ? "MPI_MESSAGE_NULL" : "none, or was received already");
	*c = *m ? hdl_message_comm(*m) : NULL;
	if (!t || !hdl_type_is_committed(t))
		return hdl_bad_type(*c, call, "datatype", datatype);
	if (count < 0)
		return hdl_bad_count(*c, call, "count", count);
	if (*m && hdl_bad_buffer(buf, count, t))
		return hdl_bad_buffer_error(*c, call, "buf", buf);
	return MPI_SUCCESS;
}

static int mrecv(const char *call, void *buf, MPI_Count count, MPI_Datatype datatype, MPI_Message *message, MPI_Status *status)
{
	struct hdl_message *m;
	struct hdl_comm *c;
	int rc = check_receive(call, buf, count, datatype, message, &m, &c);

	if (rc)
		return rc;
	if (c)
		c->obj.refs++;	/* the message's reference goes with it, and an error may have to be raised on the communicator */
	hdl_call = call;
	rc = hdl_mrecv(buf, count, hdl_type_get(datatype), m, status);
	if (!m || hdl_message_get((MPI_Message)m) != m)
		*message = MPI_MESSAGE_NULL;
	if (unlikely(rc))
		rc = hdl_raise_class(c, rc, call);
	if (c)
		hdl_comm_release(c);
	return rc;
}

static int imrecv(const char *call, void *buf, MPI_Count count, MPI_Datatype datatype, MPI_Message *message,
		  MPI_Request *request)
{
	struct hdl_message *m;
	struct hdl_comm *c;
	struct hdl_req *req;
	int rc = check_receive(call, buf, count, datatype, message, &m, &c);

	if (!rc && !request)
		rc = hdl_null_arg(c, call, "request");
	if (rc)
		return rc;
	hdl_call = call;
	rc = hdl_imrecv(buf, count, hdl_type_get(datatype), m, &req);
	if (unlikely(rc))
		return hdl_raise_class(c, rc, call);
	*request = (MPI_Request)req;
	*message = MPI_MESSAGE_NULL;
	return MPI_SUCCESS;
}

#define FORM(_c, Count)												\
int PMPI_Mrecv##_c(void *buf, Count count, MPI_Datatype datatype, MPI_Message *message, MPI_Status *status)	\
{														\
	HDL_LOCKED;												\
	return mrecv("MPI_Mrecv" #_c, buf, count, datatype, message, status);					\
}														\
HDL_PROFILED(Mrecv##_c);											\
														\
int PMPI_Imrecv##_c(void *buf, Count count, MPI_Datatype datatype, MPI_Message *message, MPI_Request *request)	\
{														\
	HDL_LOCKED;												\
	HDL_GIVES(request);											\
	return imrecv("MPI_Imrecv" #_c, buf, count, datatype, message, request);				\
}														\
HDL_PROFILED(Imrecv##_c);

FORM(, int)
FORM(_c, MPI_Count)
#undef FORM
