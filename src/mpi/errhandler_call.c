/* SPDX-License-Identifier: BSD-3-Clause */
/* Calling error handlers (MPI-5.0 section 9.3). */
#include "mpi/errhandler.h"
#include "mpi/file.h"
#include "mpi/win.h"

#include <stdlib.h>
#include <string.h>

MPI_Errhandler hdl_errhandler_of_files = MPI_ERRORS_RETURN;

/* Returns a code's class if it is one of the standard's. Other values would not fit an exit code, or be 0. */
static int exit_code(int code)
{
	int class = hdl_error_class(code);

	return class > 0 && class <= MPI_ERR_ABI ? class : MPI_ERR_OTHER;
}

static _Noreturn void die(MPI_Errhandler handler, const char *on, int code)
{
	const char *name = hdl_error_class_name(code), *why = "no other error handler was set";
	char text[MPI_MAX_ERROR_STRING], line[2 * MPI_MAX_ERROR_STRING];

	if (handler == MPI_ERRORS_ABORT)	/* no object has this handler unless the program or the user set it */
		why = "its error handler is MPI_ERRORS_ABORT";
	if (!hdl_error_text(code, text))
		snprintf(line, sizeof(line), "error code %d%s, which is fatal: %s", code, on, why);
	else if (name[0] && strcmp(text, name))
		snprintf(line, sizeof(line), "%s (%.*s%s, which is fatal: %s)", text, (int)strcspn(name, ":"), name, on, why);
	else
		snprintf(line, sizeof(line), "%s%s, which is fatal: %s", text, on, why);
	fflush(stdout);
	hdl_rt_abort(exit_code(code), line);
}

/* Ends the program when there is no job to end. */
static _Noreturn void die_alone(int code)
{
	char text[MPI_MAX_ERROR_STRING];

	hdl_error_text(code, text);
	fflush(stdout);
	hdl_error("%s; the program ends", text);
	_Exit(exit_code(code));
}

/* The initial error handler (section 9.3) before MPI_Init and after MPI_Finalize. The variables may not have been read yet. */
static int initial_alone(int code)
{
	const char *name = getenv("HEDDLE_INITIAL_ERRHANDLER");

	if (name && !strcmp(name, "mpi_errors_return"))
		return code;
	die_alone(code);
}

bool hdl_errhandler_is_fatal(const struct hdl_comm *comm)
{
	return comm->errhandler != MPI_ERRORS_RETURN && !hdl_handle_is_address(comm->errhandler);
}

int hdl_errhandler_call(struct hdl_comm *comm, int code)
{
	return hdl_errhandler_call_by(comm->errhandler, comm, code);
}

/* Returns the call's code: a handler may replace it, but not by MPI_SUCCESS. */
static int errhandler_code(int raised, int code_after)
{
	return code_after == MPI_SUCCESS ? raised : code_after;
}

/* For errors of requests: the file whose communicator this is. NULL: the file was closed. */
static struct hdl_file *comm_file_of(const struct hdl_comm *comm)
{
	struct hdl_file *f = hdl_file_list;

	while (f && f->comm != comm)
		f = f->next;
	return f;
}

int hdl_errhandler_call_by(MPI_Errhandler handler, struct hdl_comm *comm, int code)
{
	char on[MPI_MAX_OBJECT_NAME + 8] = "";
	int code_after = code;
	MPI_Comm handle;
	bool lent;
	unsigned depth;
	any_function fn;

	if (hdl_mpi_state != HDL_ACTIVE)
		return initial_alone(code);
	if (handler == MPI_ERRORS_RETURN)
		return code;
	if (!hdl_handle_is_address(handler)) {
		if (comm->name[0])
			snprintf(on, sizeof(on), " on %s", comm->name);
		die(handler, on, code);
	}
	if (((struct hdl_errhandler *)handler)->kind == FOR_FILE) {
		struct hdl_file *f = comm_file_of(comm);

		return f ? hdl_errhandler_call_on_file(f, code) : code;
	}
	handle = hdl_comm_handle(comm);
	fn = ((struct hdl_errhandler *)handler)->fn;
	/* A communicator that was freed and whose operations go on has a valid handle while the handler runs. */
	lent = comm->lent || !comm->obj.magic;
	if (lent) {
		comm->lent++;
		comm->obj.magic = HDL_MAGIC_COMM;
		comm->obj.refs++;
	}
	/* The handler may free the communicator, or not return. So comm must not be used afterwards unless it was lent, which
	 * holds a reference. */
	depth = hdl_lock_open();
	((MPI_Comm_errhandler_function *)fn)(&handle, &code_after);
	hdl_lock_close(depth);
	if (lent) {
		if (!--comm->lent)
			comm->obj.magic = 0;
		hdl_comm_release(comm);
	}
	return errhandler_code(code, code_after);
}

/* Has a handler deal with a code: FOR_FILE of MPI_FILE_NULL, FOR_SESSION of the session, or of MPI_SESSION_NULL. */
static int errhandler_call_on(enum kind kind, MPI_Errhandler handler, struct hdl_session *of, int code)
{
	MPI_File file = MPI_FILE_NULL;
	MPI_Session session = of ? (MPI_Session)of : MPI_SESSION_NULL;
	int code_after = code;
	unsigned depth;
	any_function fn;

	if (handler == MPI_ERRORS_RETURN)
		return code;
	if (!hdl_handle_is_address(handler)) {
		if (hdl_mpi_state != HDL_ACTIVE && kind == FOR_FILE)
			return initial_alone(code);
		if (hdl_mpi_state != HDL_ACTIVE)
			die_alone(code);
		die(handler, kind == FOR_FILE ? " on MPI_FILE_NULL" : of ? " on a session" : " on MPI_SESSION_NULL", code);
	}
	fn = ((struct hdl_errhandler *)handler)->fn;
	depth = hdl_lock_open();
	if (kind == FOR_FILE)
		((MPI_File_errhandler_function *)fn)(&file, &code_after);
	else
		((MPI_Session_errhandler_function *)fn)(&session, &code_after);
	hdl_lock_close(depth);
	return errhandler_code(code, code_after);
}

int hdl_errhandler_call_win(struct hdl_win *w, int code)
{
	MPI_Win handle = (MPI_Win)w;
	int code_after = code;
	char label[MPI_MAX_OBJECT_NAME + 16], on[MPI_MAX_OBJECT_NAME + 24];
	unsigned depth;
	any_function fn;

	if (w->errhandler == MPI_ERRORS_RETURN)
		return code;
	if (!hdl_handle_is_address(w->errhandler)) {
		snprintf(on, sizeof(on), " on %s", hdl_win_label(w, label));
		die(w->errhandler, on, code);
	}
	fn = ((struct hdl_errhandler *)w->errhandler)->fn;
	/* the handler may free the window */
	depth = hdl_lock_open();
	((MPI_Win_errhandler_function *)fn)(&handle, &code_after);
	hdl_lock_close(depth);
	return errhandler_code(code, code_after);
}

int hdl_errhandler_call_on_file(struct hdl_file *f, int code)
{
	MPI_File handle = (MPI_File)f;
	char on[64];
	int code_after = code;
	unsigned depth;
	any_function fn;

	if (f->errhandler == MPI_ERRORS_RETURN)
		return code;
	if (!hdl_handle_is_address(f->errhandler)) {
		snprintf(on, sizeof(on), " on file %.50s", f->name);
		die(f->errhandler, on, code);
	}
	fn = ((struct hdl_errhandler *)f->errhandler)->fn;
	/* the handler may close the file */
	depth = hdl_lock_open();
	((MPI_File_errhandler_function *)fn)(&handle, &code_after);
	hdl_lock_close(depth);
	return errhandler_code(code, code_after);
}

int hdl_errhandler_call_file(int code)
{
	return errhandler_call_on(FOR_FILE, hdl_errhandler_of_files, NULL, code);
}

int hdl_errhandler_call_session(MPI_Errhandler handler, struct hdl_session *session, int code)
{
	return errhandler_call_on(FOR_SESSION, handler, session, code);
}

struct hdl_errhandler *hdl_errhandler_own(MPI_Errhandler h)
{
	return hdl_pool_find(&hdl_errhandlers, h, HDL_MAGIC_ERRH, sizeof(struct hdl_errhandler));
}

bool hdl_errhandler_valid(MPI_Errhandler h)
{
	return h == MPI_ERRORS_ARE_FATAL || h == MPI_ERRORS_ABORT || h == MPI_ERRORS_RETURN || hdl_errhandler_own(h);
}

bool hdl_is_errhandler(MPI_Errhandler h)
{
	return hdl_errhandler_valid(h) && (!hdl_errhandler_own(h) || hdl_errhandler_own(h)->kind == FOR_COMM);
}

bool hdl_is_session_errhandler(MPI_Errhandler h)
{
	return hdl_errhandler_valid(h) && (!hdl_errhandler_own(h) || hdl_errhandler_own(h)->kind == FOR_SESSION);
}
