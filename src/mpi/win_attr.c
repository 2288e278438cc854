/* SPDX-License-Identifier: BSD-3-Clause */
/* Attributes of windows (MPI-5.0 sections 7.7.3, 12.2.6). */
#include "mpi/attr.h"
#include "mpi/win.h"

static int win_raise_code(struct hdl_win *w, int code, const char *call)
{
	return hdl_errhandler_call_win(w, code <= MPI_ERR_ABI ? hdl_error_code(code, call, hdl_reason_take()) : code);
}

int PMPI_Win_create_keyval(MPI_Win_copy_attr_function *win_copy_attr_fn, MPI_Win_delete_attr_function *win_delete_attr_fn,
			   int *win_keyval, void *extra_state)
{
	HDL_LOCKED;
	static const char call[] = "MPI_Win_create_keyval";
	int rc;

	hdl_check_active(call);
	if (!win_keyval)
		return hdl_null_arg(NULL, call, "win_keyval");
	rc = hdl_keyval_create(HDL_ATTR_WIN, (union hdl_attr_copy){ .win = win_copy_attr_fn },
			       (union hdl_attr_del){ .win = win_delete_attr_fn }, extra_state, win_keyval);
	return rc ? hdl_raise_code(NULL, rc, call) : MPI_SUCCESS;
}
HDL_PROFILED(Win_create_keyval);

int PMPI_Win_free_keyval(int *win_keyval)
{
	HDL_LOCKED;
	static const char call[] = "MPI_Win_free_keyval";
	int rc;

	hdl_check_active(call);
	if (!win_keyval)
		return hdl_null_arg(NULL, call, "win_keyval");
	rc = hdl_keyval_free(HDL_ATTR_WIN, win_keyval);
	return rc ? hdl_raise_code(NULL, rc, call) : MPI_SUCCESS;
}
HDL_PROFILED(Win_free_keyval);

/* Returns the value of a predefined attribute; NULL: there is no such one. */
static void *win_predefined(struct hdl_win *w, int keyval)
{
	switch (keyval) {
	case MPI_WIN_BASE:
		return w->base;
	case MPI_WIN_SIZE:
		return &w->bytes;
	case MPI_WIN_DISP_UNIT:
		return &w->disp_unit;
	case MPI_WIN_CREATE_FLAVOR:
		return &w->flavor;
	default:
		return &w->model;
	}
}

int PMPI_Win_get_attr(MPI_Win win, int win_keyval, void *attribute_val, int *flag)
{
	HDL_LOCKED;
	static const char call[] = "MPI_Win_get_attr";
	struct hdl_win *w = hdl_win_get(win);
	int rc;

	if (!w)
		return hdl_bad_win(call, win);
	if (!attribute_val || !flag)
		return hdl_win_raise(w, MPI_ERR_ARG, call, "invalid %s: it is a null pointer",
				     attribute_val ? "flag" : "attribute_val");
	if (win_keyval >= MPI_WIN_BASE && win_keyval <= MPI_WIN_MODEL) {
		*flag = 1;
		*(void **)attribute_val = win_predefined(w, win_keyval);
		return MPI_SUCCESS;
	}
	rc = hdl_attr_get(HDL_ATTR_WIN, w->attrs, win_keyval, attribute_val, flag);
	return rc ? win_raise_code(w, rc, call) : MPI_SUCCESS;
}
HDL_PROFILED(Win_get_attr);

int PMPI_Win_set_attr(MPI_Win win, int win_keyval, void *attribute_val)
{
	HDL_LOCKED;
	static const char call[] = "MPI_Win_set_attr";
	struct hdl_win *w = hdl_win_get(win);
	int rc;

	if (!w)
		return hdl_bad_win(call, win);
	hdl_call = call;
	rc = hdl_attr_set(HDL_ATTR_WIN, win, &w->attrs, win_keyval, attribute_val);
	return rc ? win_raise_code(w, rc, call) : MPI_SUCCESS;
}
HDL_PROFILED(Win_set_attr);

int PMPI_Win_delete_attr(MPI_Win win, int win_keyval)
{
	HDL_LOCKED;
	static const char call[] = "MPI_Win_delete_attr";
	struct hdl_win *w = hdl_win_get(win);
	int rc;

	if (!w)
		return hdl_bad_win(call, win);
	hdl_call = call;
	rc = hdl_attr_delete(HDL_ATTR_WIN, win, &w->attrs, win_keyval);
	return rc ? win_raise_code(w, rc, call) : MPI_SUCCESS;
}
HDL_PROFILED(Win_delete_attr);

static void drop(void *object, void *arg)
{
	(void)arg;
	hdl_attrs_drop(&((struct hdl_win *)object)->attrs);
}

void hdl_win_drop_attrs(void)
{
	hdl_pool_each(&hdl_wins, drop, NULL);
}
