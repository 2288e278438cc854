/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Error handlers (MPI-5.0 section 9.3) of communicators, of sessions, and of MPI_FILE_NULL, the only file so far. Handlers for
 * windows can be made and freed.
 */
#include "mpi/leaks.h"
#include "mpi/mpi_internal.h"
#include "mpi/win.h"

#include <stdlib.h>
#include <string.h>

enum kind { FOR_COMM, FOR_FILE, FOR_SESSION, FOR_WIN };
static const char *const kind_name[] = { "communicators", "files", "sessions", "windows" };

typedef void (*any_function)(void);

/* The handler of MPI_FILE_NULL: for operations on files before one is open; new files inherit it (section 14.7). */
static MPI_Errhandler of_files = MPI_ERRORS_RETURN;

/* ---- calls ------------------------------------------------------------------------------------------- */

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

int hdl_errhandler_call_file(int code)
{
	return errhandler_call_on(FOR_FILE, of_files, NULL, code);
}

int hdl_errhandler_call_session(MPI_Errhandler handler, struct hdl_session *session, int code)
{
	return errhandler_call_on(FOR_SESSION, handler, session, code);
}

/* ---- objects ----------------------------------------------------------------------------------------- */

static struct hdl_errhandler *own(MPI_Errhandler h)
{
	return hdl_pool_find(&hdl_errhandlers, h, HDL_MAGIC_ERRH, sizeof(struct hdl_errhandler));
}

static bool is_errhandler(MPI_Errhandler h)
{
	return h == MPI_ERRORS_ARE_FATAL || h == MPI_ERRORS_ABORT || h == MPI_ERRORS_RETURN || own(h);
}

bool hdl_is_errhandler(MPI_Errhandler h)
{
	return is_errhandler(h) && (!own(h) || own(h)->kind == FOR_COMM);
}

bool hdl_is_session_errhandler(MPI_Errhandler h)
{
	return is_errhandler(h) && (!own(h) || own(h)->kind == FOR_SESSION);
}

/* Makes a handle for the handler of an object, as a query returns it. The program must free each. */
static MPI_Errhandler open_handle(MPI_Errhandler h)
{
	struct hdl_errhandler *e = (struct hdl_errhandler *)h;

	if (hdl_handle_is_address(h)) {
		e->handles++;
		e->obj.magic = HDL_MAGIC_ERRH;
		hdl_errhandler_retain(h);
	}
	return h;
}

static void close_handle(MPI_Errhandler h)
{
	struct hdl_errhandler *e = own(h);

	if (e && !--e->handles)
		e->obj.magic = 0;
	hdl_errhandler_release(h);
}

static void errhandler_leaked(void *object, void *arg)
{
	const struct hdl_errhandler *e = object;

	(void)arg;
	for (int i = 0; i < e->handles; i++)
		hdl_leak("handles of error handlers not freed", "for %s", kind_name[e->kind]);
}

void hdl_errhandler_leaks(void)
{
	hdl_pool_each(&hdl_errhandlers, errhandler_leaked, NULL);
}

static int errhandler_create(const char *call, enum kind kind, const char *arg, any_function fn, MPI_Errhandler *errhandler)
{
	struct hdl_errhandler *e;

	if (!fn)
		return hdl_null_arg(NULL, call, arg);
	if (!errhandler)
		return hdl_null_arg(NULL, call, "errhandler");
	e = hdl_pool_take(&hdl_errhandlers);
	if (!e)
		return hdl_raise(NULL, MPI_ERR_NO_MEM, call, "out of memory");
	*e = (struct hdl_errhandler){ { HDL_MAGIC_ERRH, 1 }, 1, kind, fn };
	*errhandler = (MPI_Errhandler)e;
	return MPI_SUCCESS;
}

static cold int bad_errhandler(struct hdl_comm *comm, const char *call, MPI_Errhandler h)
{
	if (h == MPI_ERRHANDLER_NULL)
		return hdl_raise(comm, MPI_ERR_ERRHANDLER, call, "invalid errhandler: MPI_ERRHANDLER_NULL");
	return hdl_raise(comm, MPI_ERR_ERRHANDLER, call, "invalid errhandler: handle %p is none, or was freed", (void *)h);
}

/* Checks that the handler is for this kind of object. */
static int check_kind(struct hdl_comm *comm, const char *call, enum kind kind, MPI_Errhandler h)
{
	if (!is_errhandler(h))
		return bad_errhandler(comm, call, h);
	if (own(h) && own(h)->kind != (int)kind)
		return hdl_raise(comm, MPI_ERR_ERRHANDLER, call, "invalid errhandler: it was made for %s, not for %s",
				 kind_name[own(h)->kind], kind_name[kind]);
	return MPI_SUCCESS;
}

static void errhandler_replace(MPI_Errhandler *of, MPI_Errhandler h)
{
	hdl_errhandler_retain(h);
	hdl_errhandler_release(*of);
	*of = h;
}

static int check_code(struct hdl_comm *comm, const char *call, int errorcode)
{
	if (hdl_error_class(errorcode) >= 0)
		return MPI_SUCCESS;
	return hdl_raise(comm, MPI_ERR_ARG, call, "invalid errorcode %d: it is none (0..%d)", errorcode, hdl_last_used_code());
}

/* ---- the functions of the standard ------------------------------------------------------------------- */

int PMPI_Comm_create_errhandler(MPI_Comm_errhandler_function *comm_errhandler_fn, MPI_Errhandler *errhandler)
{
	HDL_LOCKED;
	HDL_GIVES(errhandler);
	static const char call[] = "MPI_Comm_create_errhandler";

	hdl_check_active(call);
	return errhandler_create(call, FOR_COMM, "comm_errhandler_fn", (any_function)comm_errhandler_fn, errhandler);
}
HDL_PROFILED(Comm_create_errhandler);

int PMPI_File_create_errhandler(MPI_File_errhandler_function *file_errhandler_fn, MPI_Errhandler *errhandler)
{
	HDL_LOCKED;
	HDL_GIVES(errhandler);
	static const char call[] = "MPI_File_create_errhandler";

	hdl_check_active(call);
	return errhandler_create(call, FOR_FILE, "file_errhandler_fn", (any_function)file_errhandler_fn, errhandler);
}
HDL_PROFILED(File_create_errhandler);

int PMPI_Win_create_errhandler(MPI_Win_errhandler_function *win_errhandler_fn, MPI_Errhandler *errhandler)
{
	HDL_LOCKED;
	HDL_GIVES(errhandler);
	static const char call[] = "MPI_Win_create_errhandler";

	hdl_check_active(call);
	return errhandler_create(call, FOR_WIN, "win_errhandler_fn", (any_function)win_errhandler_fn, errhandler);
}
HDL_PROFILED(Win_create_errhandler);

/* MPI_Session_create_errhandler may be called at any time, since MPI_Session_init takes a handler. */
int PMPI_Session_create_errhandler(MPI_Session_errhandler_function *session_errhandler_fn, MPI_Errhandler *errhandler)
{
	HDL_LOCKED;
	HDL_GIVES(errhandler);

	return errhandler_create("MPI_Session_create_errhandler", FOR_SESSION, "session_errhandler_fn",
		      (any_function)session_errhandler_fn, errhandler);
}
HDL_PROFILED(Session_create_errhandler);

int PMPI_Comm_set_errhandler(MPI_Comm comm, MPI_Errhandler errhandler)
{
	HDL_LOCKED;
	static const char call[] = "MPI_Comm_set_errhandler";
	struct hdl_comm *c = hdl_comm_get_local(comm);
	int rc;

	if (!c)
		return hdl_bad_comm(call, comm);
	rc = check_kind(c, call, FOR_COMM, errhandler);
	if (!rc)
		errhandler_replace(&c->errhandler, errhandler);
	return rc;
}
HDL_PROFILED(Comm_set_errhandler);

int PMPI_Comm_get_errhandler(MPI_Comm comm, MPI_Errhandler *errhandler)
{
	HDL_LOCKED;
	HDL_GIVES(errhandler);
	static const char call[] = "MPI_Comm_get_errhandler";
	struct hdl_comm *c = hdl_comm_get_local(comm);

	if (!c)
		return hdl_bad_comm(call, comm);
	if (!errhandler)
		return hdl_null_arg(c, call, "errhandler");
	*errhandler = open_handle(c->errhandler);
	return MPI_SUCCESS;
}
HDL_PROFILED(Comm_get_errhandler);

int PMPI_Comm_call_errhandler(MPI_Comm comm, int errorcode)
{
	HDL_LOCKED;
	static const char call[] = "MPI_Comm_call_errhandler";
	struct hdl_comm *c = hdl_comm_get_local(comm);
	int rc;

	if (!c)
		return hdl_bad_comm(call, comm);
	rc = check_code(c, call, errorcode);
	if (rc)
		return rc;
	hdl_errhandler_call(c, errorcode);
	return MPI_SUCCESS;
}
HDL_PROFILED(Comm_call_errhandler);

int PMPI_Win_set_errhandler(MPI_Win win, MPI_Errhandler errhandler)
{
	HDL_LOCKED;
	static const char call[] = "MPI_Win_set_errhandler";
	struct hdl_win *w = hdl_win_get(win);

	if (!w)
		return hdl_bad_win(call, win);
	if (!is_errhandler(errhandler) || (own(errhandler) && own(errhandler)->kind != FOR_WIN))
		return hdl_win_raise(w, MPI_ERR_ERRHANDLER, call, "invalid errhandler: handle %p is none for windows, or was freed",
				     (void *)errhandler);
	errhandler_replace(&w->errhandler, errhandler);
	/* errors of requests are raised on the window's communicator; a handler of windows cannot be called for them */
	w->comm->errhandler = hdl_handle_is_address(errhandler) ? MPI_ERRORS_RETURN : errhandler;
	return MPI_SUCCESS;
}
HDL_PROFILED(Win_set_errhandler);

int PMPI_Win_get_errhandler(MPI_Win win, MPI_Errhandler *errhandler)
{
	HDL_LOCKED;
	HDL_GIVES(errhandler);
	static const char call[] = "MPI_Win_get_errhandler";
	struct hdl_win *w = hdl_win_get(win);

	if (!w)
		return hdl_bad_win(call, win);
	if (!errhandler)
		return hdl_win_raise(w, MPI_ERR_ARG, call, "invalid errhandler: it is a null pointer");
	*errhandler = open_handle(w->errhandler);
	return MPI_SUCCESS;
}
HDL_PROFILED(Win_get_errhandler);

int PMPI_Win_call_errhandler(MPI_Win win, int errorcode)
{
	HDL_LOCKED;
	static const char call[] = "MPI_Win_call_errhandler";
	struct hdl_win *w = hdl_win_get(win);

	if (!w)
		return hdl_bad_win(call, win);
	if (hdl_error_class(errorcode) < 0)
		return hdl_win_raise(w, MPI_ERR_ARG, call, "invalid errorcode %d: it is none (0..%d)", errorcode, hdl_last_used_code());
	hdl_errhandler_call_win(w, errorcode);
	return MPI_SUCCESS;
}
HDL_PROFILED(Win_call_errhandler);

/* MPI_FILE_NULL is the only valid handle of a file so far. The three functions raise their errors on it. */
static int check_file(const char *call, MPI_File file)
{
	char text[64];

	hdl_check_active(call);
	if (file == MPI_FILE_NULL)
		return MPI_SUCCESS;
	snprintf(text, sizeof(text), "invalid file: handle %p is none", (void *)file);
	return hdl_errhandler_call_file(hdl_error_code(MPI_ERR_FILE, call, text));
}

int PMPI_File_set_errhandler(MPI_File file, MPI_Errhandler errhandler)
{
	HDL_LOCKED;
	static const char call[] = "MPI_File_set_errhandler";
	int rc = check_file(call, file);

	if (rc)
		return rc;
	rc = check_kind(NULL, call, FOR_FILE, errhandler);
	if (!rc)
		errhandler_replace(&of_files, errhandler);
	return rc;
}
HDL_PROFILED(File_set_errhandler);

int PMPI_File_get_errhandler(MPI_File file, MPI_Errhandler *errhandler)
{
	HDL_LOCKED;
	HDL_GIVES(errhandler);
	static const char call[] = "MPI_File_get_errhandler";
	int rc = check_file(call, file);

	if (rc)
		return rc;
	if (!errhandler)
		return hdl_null_arg(NULL, call, "errhandler");
	*errhandler = open_handle(of_files);
	return MPI_SUCCESS;
}
HDL_PROFILED(File_get_errhandler);

int PMPI_File_call_errhandler(MPI_File fh, int errorcode)
{
	HDL_LOCKED;
	static const char call[] = "MPI_File_call_errhandler";
	int rc = check_file(call, fh);

	if (!rc)
		rc = check_code(NULL, call, errorcode);
	if (rc)
		return rc;
	hdl_errhandler_call_file(errorcode);
	return MPI_SUCCESS;
}
HDL_PROFILED(File_call_errhandler);

int PMPI_Session_set_errhandler(MPI_Session session, MPI_Errhandler errhandler)
{
	HDL_LOCKED;
	static const char call[] = "MPI_Session_set_errhandler";
	struct hdl_session *s = hdl_session_get(session);

	if (!s)
		return hdl_bad_session(call, session);
	if (!hdl_is_session_errhandler(errhandler))
		return hdl_raise_session(s, MPI_ERR_ERRHANDLER, call,
					 "invalid errhandler: handle %p is none for sessions, or was freed", (void *)errhandler);
	errhandler_replace(&s->errhandler, errhandler);
	return MPI_SUCCESS;
}
HDL_PROFILED(Session_set_errhandler);

int PMPI_Session_get_errhandler(MPI_Session session, MPI_Errhandler *errhandler)
{
	HDL_LOCKED;
	HDL_GIVES(errhandler);
	static const char call[] = "MPI_Session_get_errhandler";
	struct hdl_session *s = hdl_session_get(session);

	if (!s)
		return hdl_bad_session(call, session);
	if (!errhandler)
		return hdl_raise_session(s, MPI_ERR_ARG, call, "invalid errhandler: it is a null pointer");
	*errhandler = open_handle(s->errhandler);
	return MPI_SUCCESS;
}
HDL_PROFILED(Session_get_errhandler);

int PMPI_Session_call_errhandler(MPI_Session session, int errorcode)
{
	HDL_LOCKED;
	static const char call[] = "MPI_Session_call_errhandler";
	struct hdl_session *s = hdl_session_get(session);

	if (!s)
		return hdl_bad_session(call, session);
	if (hdl_error_class(errorcode) < 0)
		return hdl_raise_session(s, MPI_ERR_ARG, call, "invalid errorcode %d: it is none (0..%d)", errorcode,
					 hdl_last_used_code());
	hdl_errhandler_call_session(s->errhandler, s, errorcode);
	return MPI_SUCCESS;
}
HDL_PROFILED(Session_call_errhandler);

int PMPI_Errhandler_free(MPI_Errhandler *errhandler)
{
	HDL_LOCKED;
	static const char call[] = "MPI_Errhandler_free";

	/* section 11.4.1: may be called at any time; without MPI no handler exists for its own errors */
	if (hdl_mpi_state_now() != HDL_ACTIVE && (!errhandler || !is_errhandler(*errhandler)))
		return errhandler ? MPI_ERR_ERRHANDLER : MPI_ERR_ARG;
	if (!errhandler)
		return hdl_null_arg(NULL, call, "errhandler");
	if (!is_errhandler(*errhandler))
		return bad_errhandler(NULL, call, *errhandler);
	close_handle(*errhandler);
	*errhandler = MPI_ERRHANDLER_NULL;
	return MPI_SUCCESS;
}
HDL_PROFILED(Errhandler_free);
