/* SPDX-License-Identifier: BSD-3-Clause */
/* Error handlers: between errhandler.c, their objects, and errhandler_call.c. */
#ifndef HDL_MPI_ERRHANDLER_H
#define HDL_MPI_ERRHANDLER_H

#include "mpi/mpi_internal.h"

enum kind { FOR_COMM, FOR_FILE, FOR_SESSION, FOR_WIN };	/* struct hdl_errhandler.kind */

typedef void (*any_function)(void);

/* The handler of MPI_FILE_NULL: for operations on files before one is open; new files inherit it (section 14.7). */
extern MPI_Errhandler hdl_errhandler_of_files;

/* The object of a handle that a program made; NULL: a predefined handler, or no handle. */
struct hdl_errhandler *hdl_errhandler_own(MPI_Errhandler h);
/* Returns true if the handle is one, of any kind. */
bool hdl_errhandler_valid(MPI_Errhandler h);

#endif
