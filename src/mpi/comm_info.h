/* SPDX-License-Identifier: BSD-3-Clause */
/* Hints of communicators, for the constructors that take some. */
#ifndef HDL_MPI_COMM_INFO_H
#define HDL_MPI_COMM_INFO_H

#include "mpi/info.h"

/* Returns `hints` (bits of enum hdl_hint) as changed by info, which may be NULL. */
unsigned hdl_comm_hints_of(const struct hdl_info *info, unsigned hints);

#endif
