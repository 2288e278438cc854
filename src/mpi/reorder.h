/* SPDX-License-Identifier: BSD-3-Clause */
/* Assignment of ranks of a virtual topology such that neighbors are close in the machine (MPI-5.0 section 8.1). */
#ifndef HDL_MPI_REORDER_H
#define HDL_MPI_REORDER_H

#include "mpi/mpi_internal.h"
#include "mpi/locality.h"

/* Collective over comm. Set *order (malloc'd, the caller's) as for hdl_comm_permute; NULL: comm's own order is as good. Of a
 * grid of n ranks in row-major order; of a graph as in MPI_Graph_create. Return an MPI error class. */
int hdl_reorder_grid(struct hdl_comm *comm, int ndims, const int *dims, const int *periods, int n, int **order);
int hdl_reorder_graph(struct hdl_comm *comm, int nnodes, const int *index, const int *edges, int **order);

/* The computations alone. locality[r]: of rank r. */
int *hdl_grid_order(const struct hdl_locality *locality, int ndims, const int *dims, const int *periods, int n);
int *hdl_graph_order(const struct hdl_locality *locality, int nnodes, const int *index, const int *edges);

#endif
