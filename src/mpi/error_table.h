/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of error classes and codes that programs add (error_table.c), for the functions of the standard (error_add.c). */
#ifndef HDL_MPI_ERROR_TABLE_H
#define HDL_MPI_ERROR_TABLE_H

#include "mpi/mpi_internal.h"

/* Adds a code of this class; 0: a class. Returns the new number; 0: no memory; -1: the class does not exist any more. */
int hdl_user_error_add(int class);
/* Sets or clears a code's string, and returns the former one. false: there is no such code. */
bool hdl_user_error_swap_string(int code, char **string);
/* Removes a class without codes. Returns 0; the number of its codes: not removed; -1: there is no such class. */
int hdl_user_class_remove(int errorclass);
/* Removes a code that is no class and has no string. Returns the code's class; 0: there is no such code. */
int hdl_user_code_remove(int errorcode, bool *has_string);

#endif
