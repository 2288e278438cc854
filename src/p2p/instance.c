/* SPDX-License-Identifier: BSD-3-Clause */
/* MPI's instances of the transport and of matching; hdl_p2p_init sets both, hdl_p2p_fini clears both. */
#include "p2p/p2p.h"

struct hdl_tp *hdl_mpi_tp;
struct hdl_matching *hdl_mpi_matching;
/* of MPI's instance */
void (*hdl_p2p_on_failed)(int proc);
