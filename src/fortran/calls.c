/* SPDX-License-Identifier: BSD-3-Clause */
/* The procedures MPI_Xxx of Fortran, which call the functions MPI_Xxx of C: a tool that replaces either sees a
 * Fortran program's calls. */
#include "fortran/mpifort.h"

/* Fortran knows these by their names only. */
#pragma GCC diagnostic ignored "-Wmissing-prototypes"
#pragma GCC visibility push(default)
#define MPIFORT_NAME(low) mpi_##low##_
#define MPIFORT_CALL(name) MPI_##name
#define MPIFORT_ALIAS(low, other) extern __typeof__(mpi_##low##_) mpi_##other##_ __attribute__((alias("mpi_" #low "_")))
#define CALLS(name) calls_##name
#include "fortran/special.h"
#include "fortran/made_calls.h"
#pragma GCC visibility pop
