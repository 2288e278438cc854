/* SPDX-License-Identifier: BSD-3-Clause */
/* The procedures PMPI_Xxx of Fortran, which call the functions PMPI_Xxx of C (section 15.2). */
#include "fortran/mpifort.h"

/* Fortran knows these by their names only. */
#pragma GCC diagnostic ignored "-Wmissing-prototypes"
#pragma GCC visibility push(default)
#define MPIFORT_NAME(low) pmpi_##low##_
#define MPIFORT_CALL(name) PMPI_##name
#define MPIFORT_ALIAS(low, other) extern __typeof__(pmpi_##low##_) pmpi_##other##_ __attribute__((alias("pmpi_" #low "_")))
#define CALLS(name) pcalls_##name
#include "fortran/special.h"
#include "fortran/made_calls.h"
#pragma GCC visibility pop
