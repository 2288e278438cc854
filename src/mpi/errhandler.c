/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Error handlers (MPI-5.0 section 9.3) of communicators, of sessions, of windows, and of files, MPI_FILE_NULL among them.
 */
#include "mpi/errhandler.h"
#include "mpi/file.h"
#include "mpi/leaks.h"
#include "mpi/win.h"

#include <stdlib.h>
#include <string.h>

static const char *const kind_name[] = { "communicators", "files", "sessions", "windows" };

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
	struct hdl_errhandler *e = hdl_errhandler_own(h);

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
	if (!hdl_errhandler_valid(h))
		return bad_errhandler(comm, call, h);
	if (hdl_errhandler_own(h) && hdl_errhandler_own(h)->kind != (int)kind)
		return hdl_raise(comm, MPI_ERR_ERRHANDLER, call, "invalid errhandler: it was made for %s, not for %s",
				 kind_name[hdl_errhandler_own(h)->kind], kind_name[kind]);
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
	if (!hdl_errhandler_valid(errhandler) ||
	    (hdl_errhandler_own(errhandler) && hdl_errhandler_own(errhandler)->kind != FOR_WIN))
		return hdl_win_raise(w, MPI_ERR_ERRHANDLER, call,
				     "invalid errhandler: handle %p is none for windows, or was freed", (void *)errhandler);
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
		return hdl_win_raise(w, MPI_ERR_ARG, call, "invalid errorcode %d: it is none (0..%d)", errorcode,
				     hdl_last_used_code());
	hdl_errhandler_call_win(w, errorcode);
	return MPI_SUCCESS;
}
HDL_PROFILED(Win_call_errhandler);

/* Finds the file of a handle: *f is NULL for MPI_FILE_NULL, whose handler new files inherit (section 14.7). */
static int check_file(const char *call, MPI_File file, struct hdl_file **f)
{
	hdl_check_active(call);
	*f = hdl_file_get(file);
	return *f || file == MPI_FILE_NULL ? MPI_SUCCESS : hdl_bad_file(call, file);
}

int PMPI_File_set_errhandler(MPI_File file, MPI_Errhandler errhandler)
{
	HDL_LOCKED;
	static const char call[] = "MPI_File_set_errhandler";
	struct hdl_file *f;
	int rc = check_file(call, file, &f);

	if (rc)
		return rc;
	if (!hdl_errhandler_valid(errhandler) ||
	    (hdl_errhandler_own(errhandler) && hdl_errhandler_own(errhandler)->kind != FOR_FILE))
		return hdl_file_raise(f, MPI_ERR_ERRHANDLER, call,
				      "invalid errhandler: handle %p is none for files, or was freed", (void *)errhandler);
	errhandler_replace(f ? &f->errhandler : &hdl_errhandler_of_files, errhandler);
	/* errors of requests are raised on the file's communicator */
	if (f)
		f->comm->errhandler = errhandler;
	return MPI_SUCCESS;
}
HDL_PROFILED(File_set_errhandler);

int PMPI_File_get_errhandler(MPI_File file, MPI_Errhandler *errhandler)
{
	HDL_LOCKED;
	HDL_GIVES(errhandler);
	static const char call[] = "MPI_File_get_errhandler";
	struct hdl_file *f;
	int rc = check_file(call, file, &f);

	if (rc)
		return rc;
	if (!errhandler)
		return hdl_file_raise(f, MPI_ERR_ARG, call, "invalid errhandler: it is a null pointer");
	*errhandler = open_handle(f ? f->errhandler : hdl_errhandler_of_files);
	return MPI_SUCCESS;
}
HDL_PROFILED(File_get_errhandler);

int PMPI_File_call_errhandler(MPI_File fh, int errorcode)
{
	HDL_LOCKED;
	static const char call[] = "MPI_File_call_errhandler";
	struct hdl_file *f;
	int rc = check_file(call, fh, &f);

	if (rc)
		return rc;
	if (hdl_error_class(errorcode) < 0)
		return hdl_file_raise(f, MPI_ERR_ARG, call, "invalid errorcode %d: it is none (0..%d)", errorcode,
				      hdl_last_used_code());
	if (f)
		hdl_errhandler_call_on_file(f, errorcode);
	else
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
	if (hdl_mpi_state_now() != HDL_ACTIVE && (!errhandler || !hdl_errhandler_valid(*errhandler)))
		return errhandler ? MPI_ERR_ERRHANDLER : MPI_ERR_ARG;
	if (!errhandler)
		return hdl_null_arg(NULL, call, "errhandler");
	if (!hdl_errhandler_valid(*errhandler))
		return bad_errhandler(NULL, call, *errhandler);
	close_handle(*errhandler);
	*errhandler = MPI_ERRHANDLER_NULL;
	return MPI_SUCCESS;
}
HDL_PROFILED(Errhandler_free);
