/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the files of chapter 14: errors of files. */
#ifndef HDL_MPI_FILE_H
#define HDL_MPI_FILE_H

#include "mpi/mpi_internal.h"
#include "io/io.h"

/* Raise an error by the file's handler; f NULL: by that of MPI_FILE_NULL. Return the code for the program. */
cold int hdl_file_raise(struct hdl_file *f, int class, const char *call, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
/* ... that a layer below returned as a class, with hdl_reason_take(). */
cold int hdl_file_raise_class(struct hdl_file *f, int class, const char *call);
cold int hdl_bad_file(const char *call, MPI_File handle);
/* ... that an output argument is a null pointer. */
cold int hdl_file_null_arg(struct hdl_file *f, const char *call, const char *arg);
/* Calls the file's handler for a code. */
cold int hdl_errhandler_call_on_file(struct hdl_file *f, int code);

/* Checks an info argument and reads its hints; h NULL: checks alone. Returns an error class with the reason. */
int hdl_file_info(MPI_Info info, struct hdl_io_hints *h);
/* Finds the file of a handle, for a call that MPI_MODE_SEQUENTIAL forbids. Returns MPI_SUCCESS, or the
 * code of the error raised. */
int hdl_file_find_random(MPI_File handle, const char *call, struct hdl_file **f);

#endif
