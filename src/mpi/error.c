/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Errors (MPI-5.0 sections 9.4 and 9.5): classes, codes, texts. errhandler.c has the handlers.
 *
 * A code has its class in the low six bits, and above them a slot in a ring that keeps its text: which call, which argument,
 * which value. The ABI's classes end at 62 and its codes at 16383, so the ring has 255 slots, less the one whose codes are the
 * classes of MPI_T. After 254 later errors a slot is reused: an old code then has the text of its class, if the slot's new
 * class differs. Classes and codes above 16383 belong to programs: error_add.c.
 */
#include "mpi/mpi_internal.h"

#include <stdarg.h>
#include <string.h>

#define CLASS_BITS	6
#define CLASS_MASK	((1 << CLASS_BITS) - 1)
#define SLOTS		255
#define T_SLOT		(MPI_T_ERR_CANNOT_INIT >> CLASS_BITS)
_Static_assert(MPI_T_ERR_PVAR_NO_ATOMIC >> CLASS_BITS == T_SLOT, "one slot holds the classes of MPI_T");
_Static_assert((SLOTS << CLASS_BITS | CLASS_MASK) == MPI_ERR_LASTCODE, "codes fill the ABI's range");

static const char *const class_text[CLASS_MASK + 1] = {
	[MPI_SUCCESS] = "MPI_SUCCESS: no error",
	[MPI_ERR_BUFFER] = "MPI_ERR_BUFFER: invalid buffer address",
	[MPI_ERR_COUNT] = "MPI_ERR_COUNT: invalid count",
	[MPI_ERR_TYPE] = "MPI_ERR_TYPE: invalid datatype",
	[MPI_ERR_TAG] = "MPI_ERR_TAG: invalid tag",
	[MPI_ERR_COMM] = "MPI_ERR_COMM: invalid communicator",
	[MPI_ERR_RANK] = "MPI_ERR_RANK: invalid rank",
	[MPI_ERR_REQUEST] = "MPI_ERR_REQUEST: invalid request",
	[MPI_ERR_ROOT] = "MPI_ERR_ROOT: invalid root",
	[MPI_ERR_GROUP] = "MPI_ERR_GROUP: invalid group",
	[MPI_ERR_OP] = "MPI_ERR_OP: invalid operation",
	[MPI_ERR_TOPOLOGY] = "MPI_ERR_TOPOLOGY: invalid topology",
	[MPI_ERR_DIMS] = "MPI_ERR_DIMS: invalid dimensions",
	[MPI_ERR_ARG] = "MPI_ERR_ARG: invalid argument",
	[MPI_ERR_UNKNOWN] = "MPI_ERR_UNKNOWN: unknown error",
	[MPI_ERR_TRUNCATE] = "MPI_ERR_TRUNCATE: message truncated on receive",
	[MPI_ERR_OTHER] = "MPI_ERR_OTHER: error of no other class",
	[MPI_ERR_INTERN] = "MPI_ERR_INTERN: internal error",
	[MPI_ERR_PENDING] = "MPI_ERR_PENDING: request not complete",
	[MPI_ERR_IN_STATUS] = "MPI_ERR_IN_STATUS: the error is in a status",
	[MPI_ERR_ACCESS] = "MPI_ERR_ACCESS: permission denied",
	[MPI_ERR_AMODE] = "MPI_ERR_AMODE: invalid access mode",
	[MPI_ERR_ASSERT] = "MPI_ERR_ASSERT: invalid assertion",
	[MPI_ERR_BAD_FILE] = "MPI_ERR_BAD_FILE: invalid file name",
	[MPI_ERR_BASE] = "MPI_ERR_BASE: invalid base address",
	[MPI_ERR_CONVERSION] = "MPI_ERR_CONVERSION: error in data conversion",
	[MPI_ERR_DISP] = "MPI_ERR_DISP: invalid displacement",
	[MPI_ERR_DUP_DATAREP] = "MPI_ERR_DUP_DATAREP: data representation defined already",
	[MPI_ERR_FILE_EXISTS] = "MPI_ERR_FILE_EXISTS: file exists",
	[MPI_ERR_FILE_IN_USE] = "MPI_ERR_FILE_IN_USE: file in use",
	[MPI_ERR_FILE] = "MPI_ERR_FILE: invalid file handle",
	[MPI_ERR_INFO_KEY] = "MPI_ERR_INFO_KEY: invalid info key",
	[MPI_ERR_INFO_NOKEY] = "MPI_ERR_INFO_NOKEY: no such info key",
	[MPI_ERR_INFO_VALUE] = "MPI_ERR_INFO_VALUE: invalid info value",
	[MPI_ERR_INFO] = "MPI_ERR_INFO: invalid info object",
	[MPI_ERR_IO] = "MPI_ERR_IO: input or output error",
	[MPI_ERR_KEYVAL] = "MPI_ERR_KEYVAL: invalid attribute key",
	[MPI_ERR_LOCKTYPE] = "MPI_ERR_LOCKTYPE: invalid lock type",
	[MPI_ERR_NAME] = "MPI_ERR_NAME: unknown service name",
	[MPI_ERR_NO_MEM] = "MPI_ERR_NO_MEM: out of memory",
	[MPI_ERR_NOT_SAME] = "MPI_ERR_NOT_SAME: argument differs among processes",
	[MPI_ERR_NO_SPACE] = "MPI_ERR_NO_SPACE: no space left",
	[MPI_ERR_NO_SUCH_FILE] = "MPI_ERR_NO_SUCH_FILE: no such file",
	[MPI_ERR_PORT] = "MPI_ERR_PORT: invalid port name",
	[MPI_ERR_QUOTA] = "MPI_ERR_QUOTA: quota exceeded",
	[MPI_ERR_READ_ONLY] = "MPI_ERR_READ_ONLY: read-only file or file system",
	[MPI_ERR_RMA_ATTACH] = "MPI_ERR_RMA_ATTACH: memory cannot be attached",
	[MPI_ERR_RMA_CONFLICT] = "MPI_ERR_RMA_CONFLICT: conflicting accesses to a window",
	[MPI_ERR_RMA_RANGE] = "MPI_ERR_RMA_RANGE: target memory is not in the window",
	[MPI_ERR_RMA_SHARED] = "MPI_ERR_RMA_SHARED: memory cannot be shared",
	[MPI_ERR_RMA_SYNC] = "MPI_ERR_RMA_SYNC: wrong synchronization of a window",
	[MPI_ERR_SERVICE] = "MPI_ERR_SERVICE: invalid service name",
	[MPI_ERR_SIZE] = "MPI_ERR_SIZE: invalid size",
	[MPI_ERR_SPAWN] = "MPI_ERR_SPAWN: processes could not be started",
	[MPI_ERR_UNSUPPORTED_DATAREP] = "MPI_ERR_UNSUPPORTED_DATAREP: unsupported data representation",
	[MPI_ERR_UNSUPPORTED_OPERATION] = "MPI_ERR_UNSUPPORTED_OPERATION: unsupported operation",
	[MPI_ERR_WIN] = "MPI_ERR_WIN: invalid window",
	[MPI_ERR_RMA_FLAVOR] = "MPI_ERR_RMA_FLAVOR: wrong flavor of window",
	[MPI_ERR_PROC_ABORTED] = "MPI_ERR_PROC_ABORTED: a peer process has failed",
	[MPI_ERR_VALUE_TOO_LARGE] = "MPI_ERR_VALUE_TOO_LARGE: value too large",
	[MPI_ERR_SESSION] = "MPI_ERR_SESSION: invalid session",
	[MPI_ERR_ERRHANDLER] = "MPI_ERR_ERRHANDLER: invalid error handler",
	[MPI_ERR_ABI] = "MPI_ERR_ABI: error of the ABI",
};

static const char *const t_class_text[] = {
	"MPI_T_ERR_CANNOT_INIT: the tool interface cannot be initialized now",
	"MPI_T_ERR_NOT_ACCESSIBLE: the requested item is not accessible",
	"MPI_T_ERR_NOT_INITIALIZED: the tool interface is not initialized",
	"MPI_T_ERR_NOT_SUPPORTED: not supported",
	"MPI_T_ERR_MEMORY: out of memory",
	"MPI_T_ERR_INVALID: invalid or bad parameter",
	"MPI_T_ERR_INVALID_INDEX: invalid index",
	"MPI_T_ERR_INVALID_ITEM: invalid item index",
	"MPI_T_ERR_INVALID_SESSION: invalid session",
	"MPI_T_ERR_INVALID_HANDLE: invalid handle",
	"MPI_T_ERR_INVALID_NAME: unknown name",
	"MPI_T_ERR_OUT_OF_HANDLES: no more handles",
	"MPI_T_ERR_OUT_OF_SESSIONS: no more sessions",
	"MPI_T_ERR_CVAR_SET_NOT_NOW: the control variable cannot be set now",
	"MPI_T_ERR_CVAR_SET_NEVER: the control variable cannot be set",
	"MPI_T_ERR_PVAR_NO_WRITE: the performance variable cannot be written or reset",
	"MPI_T_ERR_PVAR_NO_STARTSTOP: the performance variable cannot be started or stopped",
	"MPI_T_ERR_PVAR_NO_ATOMIC: the performance variable cannot be read and reset at once",
};

struct slot {
	int class;
	char text[MPI_MAX_ERROR_STRING];
};
static struct slot ring[SLOTS + 1];	/* slot 0 is not used: a code with slot 0 is a class */
static unsigned errors;

static const char *class_name(int class)
{
	return class_text[class & CLASS_MASK] ? class_text[class & CLASS_MASK] : class_text[MPI_ERR_UNKNOWN];
}

int hdl_error_code(int class, const char *call, const char *text)
{
	/* atomic: thread-safe functions raise errors without the lock, also without MPI_THREAD_MULTIPLE */
	unsigned n = 1 + __atomic_fetch_add(&errors, 1, __ATOMIC_RELAXED) % (SLOTS - 1);

	n += n >= T_SLOT;
	if (class == MPI_ERR_PROC_ABORTED)
		hdl_ft_records_tell_program();
	ring[n].class = class;
	if (text[0])
		snprintf(ring[n].text, sizeof(ring[n].text), "%s: %s", call, text);
	else
		snprintf(ring[n].text, sizeof(ring[n].text), "%s: %s", call, strchr(class_name(class), ':') + 2);
	return (int)(n << CLASS_BITS) | class;
}

static bool is_t_class(int code)
{
	return code >= MPI_T_ERR_CANNOT_INIT && code <= MPI_T_ERR_PVAR_NO_ATOMIC;
}

int hdl_error_class(int code)
{
	int class = code & CLASS_MASK;

	if (code < 0)
		return -1;
	if (code > MPI_ERR_LASTCODE) {
		class = hdl_user_error_class(code);
		return class ? class : -1;
	}
	if (is_t_class(code) || code == MPI_ERR_LASTCODE)
		return code;
	return class_text[class] && (class || !code) ? class : -1;
}

int hdl_error_text(int code, char text[MPI_MAX_ERROR_STRING])
{
	int n = code >> CLASS_BITS;
	const char *own;

	if (code > MPI_ERR_LASTCODE)
		return hdl_user_error_text(code, text);
	if (is_t_class(code))
		own = t_class_text[code - MPI_T_ERR_CANNOT_INIT];
	else
		own = n && ring[n].class == (code & CLASS_MASK) ? ring[n].text : class_name(code);
	return snprintf(text, MPI_MAX_ERROR_STRING, "%s", own);
}

const char *hdl_error_class_name(int code)
{
	return code > MPI_ERR_LASTCODE || is_t_class(code) ? "" : class_name(code);
}

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

#define MISSING "this version of the library does not have this function; heddle_info --functions lists what there is"

int hdl_missing(const char *call, MPI_Comm comm)
{
	hdl_check_active(call);
	return hdl_raise(hdl_comm_get(comm), MPI_ERR_UNSUPPORTED_OPERATION, call, MISSING);
}

int hdl_missing_file(const char *call)
{
	HDL_LOCKED;

	return hdl_errhandler_call_file(hdl_error_code(MPI_ERR_UNSUPPORTED_OPERATION, call, MISSING));
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

	if (code > 0 && code <= CLASS_MASK && class_text[code])
		return hdl_raise_class(comm, code, call);
	/* the code has a text of the program, or of an old error */
	comm = comm ? comm : &hdl_self;
	why = hdl_reason_take();
	if (why[0] && hdl_errhandler_is_fatal(comm))
		hdl_error("%s: %s", call, why);
	return hdl_errhandler_call(comm, code);
}

void hdl_not_active(const char *call)
{
	if (hdl_mpi_state == HDL_ACTIVE)
		return;
	fflush(stdout);
	if (hdl_mpi_state == HDL_BEFORE_INIT)
		hdl_error("%s was called before MPI_Init or MPI_Init_thread, and without a session; the program ends", call);
	else
		hdl_error("%s was called after MPI_Finalize, and without a session; the program ends", call);
	_Exit(MPI_ERR_OTHER);
}

int hdl_bad_comm(const char *call, MPI_Comm handle)
{
	hdl_not_active(call);
	if (handle == MPI_COMM_NULL)
		return hdl_raise(NULL, MPI_ERR_COMM, call, "invalid communicator: MPI_COMM_NULL");
	if (handle == MPI_COMM_WORLD || handle == MPI_COMM_SELF)
		return hdl_raise(NULL, MPI_ERR_COMM, call, "invalid communicator: %s exists from MPI_Init to MPI_Finalize only, and "
				 "sessions have no such communicator",
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
		{ MPI_OP_NULL, "MPI_OP_NULL" }, { MPI_SUM, "MPI_SUM" }, { MPI_MIN, "MPI_MIN" }, { MPI_MAX, "MPI_MAX" },
		{ MPI_PROD, "MPI_PROD" }, { MPI_BAND, "MPI_BAND" }, { MPI_BOR, "MPI_BOR" }, { MPI_BXOR, "MPI_BXOR" },
		{ MPI_LAND, "MPI_LAND" }, { MPI_LOR, "MPI_LOR" }, { MPI_LXOR, "MPI_LXOR" },
		{ MPI_MINLOC, "MPI_MINLOC" }, { MPI_MAXLOC, "MPI_MAXLOC" }, { MPI_REPLACE, "MPI_REPLACE" }, { MPI_NO_OP, "MPI_NO_OP" },
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
		      "a null pointer, and there is data to move (MPI_BOTTOM is one: it goes with a datatype of absolute addresses, "
		      "and this one is relative to the buffer)");
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
