/* SPDX-License-Identifier: BSD-3-Clause */
/* Raising errors (MPI-5.0 sections 9.4 and 9.5), and the texts of wrong arguments. error_code.c has the codes,
 * errhandler_call.c the calls of handlers. */
#include "mpi/mpi_internal.h"

#include <stdarg.h>
#include <string.h>

int hdl_raise(struct hdl_comm *comm, int class, const char *call, const char *fmt, ...)
{
	HDL_LOCKED;
	char text[MPI_MAX_ERROR_STRING];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	return hdl_errhandler_call(comm ? comm : &hdl_self, hdl_error_code(class, call, text));
}

int hdl_raise_class(struct hdl_comm *comm, int class, const char *call)
{
	return hdl_errhandler_call(comm ? comm : &hdl_self, hdl_error_code(class, call, hdl_reason_take()));
}

int hdl_raise_class_by(MPI_Errhandler handler, int class, const char *call)
{
	return hdl_errhandler_call_by(handler, &hdl_self, hdl_error_code(class, call, hdl_reason_take()));
}

#define MISSING "this version of the library does not have this function; heddle_info --functions lists the existing ones"

int hdl_missing(const char *call, MPI_Comm comm)
{
	hdl_check_active(call);
	return hdl_raise(hdl_comm_get(comm), MPI_ERR_UNSUPPORTED_OPERATION, call, MISSING);
}

int hdl_raise_session(struct hdl_session *session, int class, const char *call, const char *fmt, ...)
{
	char text[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	return hdl_errhandler_call_session(session->errhandler, session, hdl_error_code(class, call, text));
}

int hdl_raise_session_class(struct hdl_session *session, int class, const char *call)
{
	return hdl_errhandler_call_session(session->errhandler, session, hdl_error_code(class, call, hdl_reason_take()));
}

int hdl_bad_session(const char *call, MPI_Session handle)
{
	hdl_not_active(call);
	if (handle == MPI_SESSION_NULL)
		return hdl_raise(NULL, MPI_ERR_SESSION, call, "invalid session: MPI_SESSION_NULL");
	return hdl_raise(NULL, MPI_ERR_SESSION, call, "invalid session: handle %p is none, or was finalized", (void *)handle);
}

int hdl_raise_code(struct hdl_comm *comm, int code, const char *call)
{
	const char *why;

	if (hdl_error_is_class(code))
		return hdl_raise_class(comm, code, call);
	/* the code has a text of the program, or of an old error */
	comm = comm ? comm : &hdl_self;
	why = hdl_reason_take();
	if (why[0] && hdl_errhandler_is_fatal(comm))
		hdl_error("%s: %s", call, why);
	return hdl_errhandler_call(comm, code);
}

int hdl_bad_comm(const char *call, MPI_Comm handle)
{
	hdl_not_active(call);
	if (handle == MPI_COMM_NULL)
		return hdl_raise(NULL, MPI_ERR_COMM, call, "invalid communicator: MPI_COMM_NULL");
	if (handle == MPI_COMM_WORLD || handle == MPI_COMM_SELF)
		return hdl_raise(NULL, MPI_ERR_COMM, call,
				 "invalid communicator: %s exists from MPI_Init to MPI_Finalize only, and sessions have no such "
				 "communicator",
				 handle == MPI_COMM_WORLD ? "MPI_COMM_WORLD" : "MPI_COMM_SELF");
	if (hdl_comm_get_local(handle))
		return hdl_raise(NULL, MPI_ERR_COMM, call,
				 "invalid communicator: it is not complete: MPI_Comm_idup's request has to be "
				 "completed first");
	return hdl_raise(NULL, MPI_ERR_COMM, call, "invalid communicator: handle %p is none, or was freed",
			 (void *)handle);
}

int hdl_bad_intracomm(const char *call, MPI_Comm handle)
{
	struct hdl_comm *c = hdl_comm_get(handle);

	return c ? hdl_raise(c, MPI_ERR_COMM, call, "invalid communicator: an intercommunicator, where an intracommunicator is "
			     "needed (MPI_Intercomm_merge makes one)") : hdl_bad_comm(call, handle);
}

int hdl_bad_type(struct hdl_comm *comm, const char *call, const char *arg, MPI_Datatype handle)
{
	if (handle == MPI_DATATYPE_NULL)
		return hdl_raise(comm, MPI_ERR_TYPE, call, "invalid %s: MPI_DATATYPE_NULL", arg);
	if (hdl_type_get(handle))
		return hdl_raise(comm, MPI_ERR_TYPE, call,
				 "invalid %s: the datatype %p is not committed (MPI_Type_commit)", arg,
				 (void *)handle);
	return hdl_raise(comm, MPI_ERR_TYPE, call, "invalid %s: handle %p is no datatype of this library, or was freed",
			 arg,
			 (void *)handle);
}

int hdl_bad_request(const char *call, int index, MPI_Request handle)
{
	char which[48] = "";

	hdl_not_active(call);
	if (index >= 0)
		snprintf(which, sizeof(which), " array_of_requests[%d]", index);
	return hdl_raise(NULL, MPI_ERR_REQUEST, call,
			 "invalid request%s: handle %p is none, or is complete and was freed",
			 which, (void *)handle);
}

static const char *op_name(MPI_Op op)
{
	static const struct {
		MPI_Op op;
		const char *name;
	} names[] = {
		{MPI_OP_NULL, "MPI_OP_NULL"}, {MPI_SUM, "MPI_SUM"},         {MPI_MIN, "MPI_MIN"},
		{MPI_MAX, "MPI_MAX"},         {MPI_PROD, "MPI_PROD"},       {MPI_BAND, "MPI_BAND"},
		{MPI_BOR, "MPI_BOR"},         {MPI_BXOR, "MPI_BXOR"},       {MPI_LAND, "MPI_LAND"},
		{MPI_LOR, "MPI_LOR"},         {MPI_LXOR, "MPI_LXOR"},       {MPI_MINLOC, "MPI_MINLOC"},
		{MPI_MAXLOC, "MPI_MAXLOC"},   {MPI_REPLACE, "MPI_REPLACE"}, {MPI_NO_OP, "MPI_NO_OP"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (names[i].op == op)
			return names[i].name;
	return NULL;
}

int hdl_bad_op(struct hdl_comm *comm, const char *call, MPI_Op op, const struct hdl_type *type)
{
	const char *name = op_name(op);

	if (!name)
		return hdl_raise(comm, MPI_ERR_OP, call, "invalid op: handle %p is no operation", (void *)op);
	if (op == MPI_OP_NULL)
		return hdl_raise(comm, MPI_ERR_OP, call, "invalid op: MPI_OP_NULL");
	if (op == MPI_REPLACE || op == MPI_NO_OP)
		return hdl_raise(comm, MPI_ERR_OP, call, "invalid op: %s is for one-sided communication only", name);
	return hdl_raise(comm, MPI_ERR_OP, call, "invalid op: %s is not defined on %s", name,
			 hdl_type_label(type));
}

int hdl_bad_rank(struct hdl_comm *comm, int class, const char *call, const char *arg, int rank)
{
	const char *special = rank == MPI_ANY_SOURCE ? " (MPI_ANY_SOURCE)" :
			      rank == MPI_PROC_NULL ? " (MPI_PROC_NULL)" : "";
	char label[MPI_MAX_OBJECT_NAME + 16];

	if (comm->name[0])
		snprintf(label, sizeof(label), "communicator %s", comm->name);
	else
		snprintf(label, sizeof(label), "communicator #%u", comm->context / 2u);
	return hdl_raise(comm, class, call, "invalid %s %d%s: %s has %d rank%s (0..%d)", arg, rank, special, label,
			 comm->size,
			 comm->size == 1 ? "" : "s", comm->size - 1);
}

int hdl_bad_count(struct hdl_comm *comm, const char *call, const char *arg, long long count)
{
	return hdl_raise(comm, MPI_ERR_COUNT, call, "invalid %s %lld: it must not be negative", arg, count);
}

int hdl_null_arg(struct hdl_comm *comm, const char *call, const char *arg)
{
	return hdl_raise(comm, MPI_ERR_ARG, call, "invalid %s: it is a null pointer", arg);
}

int hdl_bad_buffer_error(struct hdl_comm *comm, const char *call, const char *arg, const void *buf)
{
	return hdl_raise(
		comm, MPI_ERR_BUFFER, call, "invalid %s: %s", arg,
		buf ? "MPI_IN_PLACE is not allowed here" :
		      "a null pointer, and there is data to move (MPI_BOTTOM is one: it goes with a datatype of absolute "
		      "addresses, and this one is relative to the buffer)");
}

/* ---- the functions of the standard --------------------------------------------------------------------- */

static int bad_code(const char *call, int errorcode)
{
	return hdl_raise(NULL, MPI_ERR_ARG, call, "invalid errorcode %d: it is none (0..%d)", errorcode, hdl_last_used_code());
}

int PMPI_Error_class(int errorcode, int *errorclass)
{
	HDL_LOCKED;
	static const char call[] = "MPI_Error_class";
	int class = hdl_error_class(errorcode);

	if (class < 0)
		return bad_code(call, errorcode);
	if (!errorclass)
		return hdl_null_arg(NULL, call, "errorclass");
	*errorclass = class;
	return MPI_SUCCESS;
}
HDL_PROFILED(Error_class);

int PMPI_Error_string(int errorcode, char *string, int *resultlen)
{
	HDL_LOCKED;
	static const char call[] = "MPI_Error_string";

	if (hdl_error_class(errorcode) < 0)
		return bad_code(call, errorcode);
	if (!string || !resultlen)
		return hdl_null_arg(NULL, call, string ? "resultlen" : "string");
	*resultlen = hdl_error_text(errorcode, string);
	return MPI_SUCCESS;
}
HDL_PROFILED(Error_string);
