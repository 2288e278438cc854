/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared by the files of src/mpi. One file for each chapter of the standard; each function checks its arguments and calls the
 * layers below.
 *
 * Every function is defined as PMPI_Xxx and exported. MPI_Xxx is a weak alias of it, so that a tool that is linked or
 * preloaded may define its own (MPI-5.0 section 15.2). functions.def lists all functions, missing ones included.
 */
#ifndef HDL_MPI_INTERNAL_H
#define HDL_MPI_INTERNAL_H

/* The library is built with hidden visibility; the library exports the declarations in mpi.h. */
#pragma GCC visibility push(default)
#include <mpi.h>
#pragma GCC visibility pop

#include "base/base.h"
#include "collectives/collectives.h"
#include "datatype/datatype.h"
#include "mpi/functions.h"
#include "p2p/p2p.h"
#include "runtime/runtime.h"
#include "runtime/threads.h"

/* The communicator of MPI_Comm_get_parent; NULL: this process was not spawned, or has freed it. */
extern struct hdl_comm *hdl_parent;

#define cold		__attribute__((cold, noinline))

/* The other two names of PMPI_name: MPI_name, and the one to which libmpi_abi.so.1's function jumps. */
#define HDL_ALIAS(name)										\
	extern __typeof__(PMPI_##name) MPI_##name __attribute__((weak, alias("PMPI_" #name)));		\
	extern __typeof__(PMPI_##name) hdl_abi_##name __attribute__((alias("PMPI_" #name), visibility("default")))
/* Must follow the definition of PMPI_name: defines MPI_name, and checks that functions.def lists the function. */
#define HDL_PROFILED(name)									\
	_Static_assert(HDL_IS_PRESENT_##name, "MPI_" #name " is defined here: mark it as present in src/mpi/functions.def");	\
	HDL_ALIAS(name)

/* ---- threads ------------------------------------------------------------------------------------------- */

static inline bool hdl_lock_enter(void)
{
	if (likely(!hdl_threads))
		return false;
	hdl_lock_take();
	return true;
}

static inline void hdl_lock_leave(const bool *taken)
{
	if (unlikely(*taken))
		hdl_lock_give();
}

/* Must be the first line of every exported function. With MPI_THREAD_MULTIPLE it takes the lock until the function returns.
 * HDL_NO_LOCK marks a function that needs no lock, since it uses only its arguments, or data that never changes. */
#define HDL_LOCKED	__attribute__((cleanup(hdl_lock_leave), unused)) const bool hdl_locked = hdl_lock_enter()
#define HDL_NO_LOCK	_Static_assert(1, "")

/* The null handle of the type to which p points. */
#define HDL_NULL_HANDLE(p)											\
	_Generic(*(p), MPI_Comm: MPI_COMM_NULL, MPI_Request: MPI_REQUEST_NULL, MPI_Group: MPI_GROUP_NULL,	\
		 MPI_Datatype: MPI_DATATYPE_NULL, MPI_Op: MPI_OP_NULL, MPI_Info: MPI_INFO_NULL,			\
		 MPI_Errhandler: MPI_ERRHANDLER_NULL, MPI_Message: MPI_MESSAGE_NULL, MPI_Win: MPI_WIN_NULL,	\
		 MPI_File: MPI_FILE_NULL, MPI_Session: MPI_SESSION_NULL)

/* Sets a handle that the function returns to the null handle. So the handle is null if the call fails, even if the error
 * handler does not return (tests/mp/mpi_outputs.c). Must follow HDL_LOCKED, for every such argument, with two exceptions: an
 * element of an array that the function also reads, and the path of a message, where the failing paths set it. */
#define HDL_GIVES(p)												\
	do {													\
		if (p)												\
			*(p) = HDL_NULL_HANDLE(p);								\
	} while (0)

enum hdl_mpi_state { HDL_BEFORE_INIT, HDL_ACTIVE, HDL_AFTER_FINALIZE };
extern enum hdl_mpi_state hdl_mpi_state;

/* For functions that any thread may call at any time. Acquire: a thread that sees HDL_ACTIVE sees all that MPI_Init wrote.
 * Pairs with the release in hdl_mpi_state_set. */
static inline enum hdl_mpi_state hdl_mpi_state_now(void)
{
	return __atomic_load_n(&hdl_mpi_state, __ATOMIC_ACQUIRE);
}

static inline void hdl_mpi_state_set(enum hdl_mpi_state state)
{
	__atomic_store_n(&hdl_mpi_state, state, __ATOMIC_RELEASE);
}

/* ---- handles ------------------------------------------------------------------------------------------- */

/* Returns the object behind a communicator's handle, or NULL. MPI_COMM_WORLD and MPI_COMM_SELF give NULL, too, before MPI_Init
 * and after MPI_Finalize, so a function with a communicator needs no other test of the state. */
static inline struct hdl_comm *hdl_comm_get(MPI_Comm handle)
{
	struct hdl_comm *comm;

	if (likely(handle == MPI_COMM_WORLD))
		comm = &hdl_world;
	else if (handle == MPI_COMM_SELF)
		comm = &hdl_self;
	else
		return hdl_pool_find(&hdl_comms, handle, HDL_MAGIC_COMM, sizeof(*comm));
	return likely(comm->obj.magic == HDL_MAGIC_COMM) ? comm : NULL;
}

/* hdl_comm_get for local calls, which may get a communicator of MPI_Comm_idup before it is complete: its group, attributes and
 * error handler exist, its context ids do not. Functions that communicate must use hdl_comm_get. */
static inline struct hdl_comm *hdl_comm_get_local(MPI_Comm handle)
{
	struct hdl_comm *comm = hdl_comm_get(handle);

	return likely(comm) ? comm : hdl_pool_find(&hdl_comms, handle, HDL_MAGIC_COMM_BEGUN, sizeof(*comm));
}

static inline MPI_Comm hdl_comm_handle(struct hdl_comm *comm)
{
	return comm == &hdl_world ? MPI_COMM_WORLD : comm == &hdl_self ? MPI_COMM_SELF : (MPI_Comm)comm;
}

/* hdl_comm_get; NULL also for an intercommunicator. */
static inline struct hdl_comm *hdl_intracomm_get(MPI_Comm handle)
{
	struct hdl_comm *comm = hdl_comm_get(handle);

	return likely(comm && !hdl_comm_is_inter(comm)) ? comm : NULL;
}

/* Returns the object behind a session's handle, or NULL. */
static inline struct hdl_session *hdl_session_get(MPI_Session handle)
{
	return hdl_pool_find(&hdl_sessions, handle, HDL_MAGIC_SESSION, sizeof(struct hdl_session));
}

/* Makes a group a result; its reference becomes the handle's. g may be NULL: no memory. Returns the code for the program. */
int hdl_group_return(const char *call, struct hdl_group *g, MPI_Group *newgroup);
cold int hdl_bad_group(struct hdl_comm *comm, const char *call, const char *arg, MPI_Group handle);

/* ---- errors (error.c): all return the code for the program ------------------------------------------------ */

/* Raises an error of this class on comm; NULL: by MPI_COMM_SELF's handler (section 9.3). The text is "call: ...". */
cold int hdl_raise(struct hdl_comm *comm, int class, const char *call, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
/* Raises an error that a layer below returned as a class, with hdl_reason_take(). */
cold int hdl_raise_class(struct hdl_comm *comm, int class, const char *call);
/* ... of a constructor without a communicator: by the handler that the new communicator would have (MPI-5.0 section 7.4.2). A
 * handler of the program gets MPI_COMM_SELF. */
cold int hdl_raise_class_by(MPI_Errhandler handler, int class, const char *call);
/* hdl_raise_class; a code that a function of the program returned is passed on unchanged. */
cold int hdl_raise_code(struct hdl_comm *comm, int code, const char *call);
/* Returns the value of MPI_LASTUSEDCODE. */
int hdl_last_used_code(void);
/* hdl_error_class: returns the class of a code; -1: not a code. hdl_error_text: writes its text and returns the length.
 * hdl_error_class_name: the class's name and text; "" for classes of programs and of MPI_T. */
int hdl_error_class(int code);
int hdl_error_text(int code, char text[MPI_MAX_ERROR_STRING]);
const char *hdl_error_class_name(int code);
/* Returns true if a code is a class of the standard, and so has no text of its own. */
bool hdl_error_is_class(int code);
/* Codes above MPI_ERR_LASTCODE (error_add.c): the class, or 0 if there is none; the text and its length. */
int hdl_user_error_class(int code);
int hdl_user_error_text(int code, char text[MPI_MAX_ERROR_STRING]);
/* Returns true if an error on this communicator ends the job. */
bool hdl_errhandler_is_fatal(const struct hdl_comm *comm);
/* Calls the error handler of the communicator, or of files, for a code. Returns the code that the handler leaves, but never
 * MPI_SUCCESS. */
cold int hdl_errhandler_call(struct hdl_comm *comm, int code);
cold int hdl_errhandler_call_by(MPI_Errhandler handler, struct hdl_comm *comm, int code);
cold int hdl_errhandler_call_file(int code);
/* The same by a session's handler; session NULL: MPI_Session_init makes none. Must: hdl_is_session_errhandler(handler). */
cold int hdl_errhandler_call_session(MPI_Errhandler handler, struct hdl_session *session, int code);
/* Returns a code with this text without calling a handler: for MPI_Status.MPI_ERROR. */
cold int hdl_error_code(int class, const char *call, const char *text);
cold int hdl_bad_comm(const char *call, MPI_Comm handle);
/* Errors on a session; the second one of a class that a layer below returned. */
cold int hdl_raise_session(struct hdl_session *session, int class, const char *call, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
cold int hdl_raise_session_class(struct hdl_session *session, int class, const char *call);
/* Raises an error for a handle that hdl_session_get refuses. */
cold int hdl_bad_session(const char *call, MPI_Session handle);
/* Raises an error for a handle that hdl_intracomm_get refuses. */
cold int hdl_bad_intracomm(const char *call, MPI_Comm handle);
/* Returns true if h is a predefined handler, or an existing one for communicators. */
bool hdl_is_errhandler(MPI_Errhandler h);
/* ... or an existing one for sessions. */
bool hdl_is_session_errhandler(MPI_Errhandler h);
cold int hdl_bad_type(struct hdl_comm *comm, const char *call, const char *arg, MPI_Datatype handle);
cold int hdl_bad_request(const char *call, int index, MPI_Request handle);
cold int hdl_bad_op(struct hdl_comm *comm, const char *call, MPI_Op op, const struct hdl_type *type);
cold int hdl_bad_rank(struct hdl_comm *comm, int class, const char *call, const char *arg, int rank);
cold int hdl_bad_count(struct hdl_comm *comm, const char *call, const char *arg, long long count);
cold int hdl_null_arg(struct hdl_comm *comm, const char *call, const char *arg);
/* Functions that this version lacks: raises MPI_ERR_UNSUPPORTED_OPERATION on comm. */
cold int hdl_missing(const char *call, MPI_Comm comm);
/* For functions without a communicator: ends the program unless MPI is initialized and not finalized. */
cold void hdl_not_active(const char *call);
static inline void hdl_check_active(const char *call)
{
	if (unlikely(hdl_mpi_state != HDL_ACTIVE))
		hdl_not_active(call);
}

/* Returns true if a buffer argument is certainly wrong: NULL or MPI_IN_PLACE where data is expected. NULL is also MPI_BOTTOM,
 * which is right with datatypes of absolute addresses (MPI-5.0 section 5.1.5), unless their data begins in the first page, where
 * nothing can be mapped. displ: bytes from the buffer argument to the first element. */
static inline bool hdl_bad_buffer_at(const void *buf, MPI_Count displ, MPI_Count count, const struct hdl_type *t)
{
	return unlikely((uintptr_t)buf <= 1) && count && t->size && (buf || displ + t->true_lb < 4096);
}

static inline bool hdl_bad_buffer(const void *buf, MPI_Count count, const struct hdl_type *t)
{
	return hdl_bad_buffer_at(buf, 0, count, t);
}
cold int hdl_bad_buffer_error(struct hdl_comm *comm, const char *call, const char *arg, const void *buf);

/* ---- arguments of chapter 3 (p2p.c) --------------------------------------------------------------------- */

/* The common case, inline: all arguments are valid, and dest is a rank. Everything else, MPI_PROC_NULL included, is told apart
 * out of line. c: the object of comm, or NULL. */
static inline bool hdl_send_is_plain(const struct hdl_comm *c, const struct hdl_type *t, const void *buf, MPI_Count count,
				     int dest, int tag)
{
	return c && t && t->committed && count >= 0 && (unsigned)dest < (unsigned)c->size && tag >= 0 &&
	       ((uintptr_t)buf > 1 || !count);
}

static inline bool hdl_recv_is_plain(const struct hdl_comm *c, const struct hdl_type *t, const void *buf, MPI_Count count,
				     int source, int tag)
{
	return c && t && t->committed && count >= 0 &&
	       ((unsigned)source < (unsigned)c->size || source == MPI_ANY_SOURCE) && (tag >= 0 || tag == MPI_ANY_TAG) &&
	       ((uintptr_t)buf > 1 || !count);
}

cold int hdl_check_send(const char *call, MPI_Comm comm, struct hdl_comm *c, const void *buf, MPI_Count count,
			MPI_Datatype datatype, int dest, int tag);
cold int hdl_check_recv(const char *call, MPI_Comm comm, struct hdl_comm *c, const void *buf, MPI_Count count,
			MPI_Datatype datatype, int source, int tag);
cold int hdl_check_source_tag(const char *call, struct hdl_comm *c, int source, int tag);

/* ---- collectives ----------------------------------------------------------------------------------------- */

/* The form of a call of a collective. NULL: blocking. */
struct hdl_form {
	bool persistent;
	MPI_Info info;
	MPI_Request *request;
};

/* Must be called with the error code of a collective on c (or NULL) whose arguments are refused. If the arguments are significant
 * at this rank only, the other ranks cannot detect the error; with HEDDLE_CHECK they get a message. Returns the code. */
cold int hdl_refused(struct hdl_comm *c, int rc);
cold int hdl_check_form(struct hdl_comm *c, const char *call, const struct hdl_form *form);

/*
 * Defines the three functions of a collective, and with _c their large forms. PARAMS: the parameters of the blocking one, in
 * parentheses. The last argument is an expression of the parameters, of `call`, the function's name, and of `form`.
 */
#define HDL_LIST(...) __VA_ARGS__
#define HDL_COLLECTIVE(Name, name, _c, PARAMS, ...)								\
int PMPI_##Name##_c(HDL_LIST PARAMS)										\
{														\
	HDL_LOCKED;												\
	static const char call[] = "MPI_" #Name #_c;								\
	const struct hdl_form *const form = NULL;								\
														\
	return __VA_ARGS__;											\
}														\
HDL_PROFILED(Name##_c);												\
														\
int PMPI_I##name##_c(HDL_LIST PARAMS, MPI_Request *request)							\
{														\
	HDL_LOCKED;												\
	HDL_GIVES(request);											\
	static const char call[] = "MPI_I" #name #_c;								\
	const struct hdl_form *const form = &(struct hdl_form){ .request = request };				\
														\
	return __VA_ARGS__;											\
}														\
HDL_PROFILED(I##name##_c);											\
														\
int PMPI_##Name##_init##_c(HDL_LIST PARAMS, MPI_Info info, MPI_Request *request)				\
{														\
	HDL_LOCKED;												\
	HDL_GIVES(request);											\
	static const char call[] = "MPI_" #Name "_init" #_c;							\
	const struct hdl_form *const form = &(struct hdl_form){ true, info, request };				\
														\
	return __VA_ARGS__;											\
}														\
HDL_PROFILED(Name##_init##_c);

/* Collectives that only vcoll.c has, with the checks of their arguments: MPI_Reduce and MPI_Allreduce by an operation of the
 * program, and the forms of others on intercommunicators and for persistent requests. */
cold int hdl_vcoll_reduce(const char *call, const void *sendbuf, void *recvbuf, MPI_Count count, MPI_Datatype datatype, MPI_Op op,
			   bool all, int root, MPI_Comm comm, const struct hdl_form *form);
cold int hdl_vcoll_exchange(const char *call, bool one, const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype,
			    void *recvbuf, MPI_Count recvcount, MPI_Datatype recvtype, MPI_Comm comm,
			    const struct hdl_form *form);
cold int hdl_vcoll_bcast(const char *call, void *buffer, MPI_Count count, MPI_Datatype datatype, int root, MPI_Comm comm,
			  const struct hdl_form *form);
cold int hdl_vcoll_rooted(const char *call, bool gather, const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype,
			  void *recvbuf, MPI_Count recvcount, MPI_Datatype recvtype, int root, MPI_Comm comm,
			  const struct hdl_form *form);
cold int hdl_vcoll_reduce_part(const char *call, enum hdl_coll coll, const void *sendbuf, void *recvbuf, MPI_Count count,
				MPI_Datatype datatype, MPI_Op op, MPI_Comm comm, const struct hdl_form *form);
cold int hdl_vcoll_barrier(const char *call, MPI_Comm comm, const struct hdl_form *form);

/* Copies a status as completing calls return it: without MPI_ERROR (section 3.7.5). */
static inline void hdl_status_copy(MPI_Status *to, const MPI_Status *from)
{
	to->MPI_SOURCE = from->MPI_SOURCE;
	to->MPI_TAG = from->MPI_TAG;
	__builtin_memcpy(to->MPI_internal, from->MPI_internal, sizeof(to->MPI_internal));
}

#endif
