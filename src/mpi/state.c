/* SPDX-License-Identifier: BSD-3-Clause */
/* Whether MPI is active: between MPI_Init and MPI_Finalize. */
#include "mpi/mpi_internal.h"

#include <stdlib.h>

enum hdl_mpi_state hdl_mpi_state;
struct hdl_comm *hdl_parent;

void hdl_not_active(const char *call)
{
	if (hdl_mpi_state == HDL_ACTIVE)
		return;
	fflush(stdout);
	if (hdl_mpi_state == HDL_BEFORE_INIT)
		hdl_error("%s was called before MPI_Init or MPI_Init_thread, and without a session; the program ends", call);
	else
		hdl_error("%s was called after MPI_Finalize, and without a session; the program ends", call);
	_Exit(MPI_ERR_OTHER);
}
