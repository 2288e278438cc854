/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the files of chapter 12: errors of windows. */
#ifndef HDL_MPI_WIN_H
#define HDL_MPI_WIN_H

#include "mpi/mpi_internal.h"
#include "rma/rma.h"

/* Raise an error by the window's handler. Return the code for the program. */
cold int hdl_win_raise(struct hdl_win *w, int class, const char *call, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
/* ... that a layer below returned as a class, with hdl_reason_take(). */
cold int hdl_win_raise_class(struct hdl_win *w, int class, const char *call);
cold int hdl_bad_win(const char *call, MPI_Win handle);
/* Checks the epoch. Returns 0 with w->epoch unchanged and *next set, or the code for the program. */
cold int hdl_win_bad_epoch(struct hdl_win *w, const char *call);
cold int hdl_win_bad_rank(struct hdl_win *w, const char *call, const char *arg, int rank);
/* Calls the window's handler for a code. */
cold int hdl_errhandler_call_win(struct hdl_win *w, int code);
/* Starts the helper thread of a window that needs one and has none yet. Must be the last thing that a call does. Does nothing in
 * a function of the program that a call without the lock has started (hdl_attrs_run): that call goes on without the lock. Then
 * the window's next fence, post or lock_all outside does it. */
void hdl_win_help(struct hdl_win *w);
/* MPI_Finalize: frees the stores of attributes of windows that were never freed. */
void hdl_win_drop_attrs(void);

#endif
