/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Errors (MPI-5.0 sections 9.4 and 9.5): classes, codes, texts.
 *
 * A code has its class in the low six bits, and above them a slot in a ring that keeps its text: which call, which argument,
 * which value. The ABI's classes end at 62 and its codes at 16383, so the ring has 255 slots, less the one whose codes are the
 * classes of MPI_T. After 254 later errors a slot is reused: an old code then has the text of its class, if the slot's new
 * class differs. Classes and codes above 16383 belong to programs: error_table.c.
 */

#include "mpi/mpi_internal.h"

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

bool hdl_error_is_class(int code)
{
	return code > 0 && code <= CLASS_MASK && class_text[code];
}
