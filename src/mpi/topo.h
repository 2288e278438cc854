/* SPDX-License-Identifier: BSD-3-Clause */
/* What the functions of virtual topologies share (MPI-5.0 chapter 8). */
#ifndef HDL_MPI_TOPO_H
#define HDL_MPI_TOPO_H

#include "mpi/mpi_internal.h"

/* With room for so many ints; one reference. Never NULL: without memory the job ends. */
struct hdl_topo *hdl_topo_new(int kind, size_t ints);
/* The communicator's topology of this kind; NULL: raised, *rc is what the function returns. */
struct hdl_topo *hdl_topo_get(const char *call, MPI_Comm comm, int kind, int *rc);
/* A communicator of the first n ranks of comm, with a topology (the reference is taken over); the others get MPI_COMM_NULL. order: see
 * hdl_comm_permute; NULL: comm's own. made may be NULL. */
int hdl_topo_return(struct hdl_comm *comm, const char *call, struct hdl_topo *topo, const int *order, int n, MPI_Comm *newcomm);

#endif
