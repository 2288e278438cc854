/* SPDX-License-Identifier: BSD-3-Clause */
/* Who gets which rank of a virtual topology, so that neighbors are near to each other in the machine (MPI-5.0 section 8.1). */
#ifndef HDL_MPI_REORDER_H
#define HDL_MPI_REORDER_H

#include "mpi/mpi_internal.h"
#include "mpi/locality.h"

/* Collective over comm. *order (malloc'd): see hdl_comm_permute; NULL: comm's own order is as good. Of a grid of n ranks in row-major
 * order; of a graph as MPI_Graph_create has it. Return an MPI error class. */
int hdl_reorder_grid(struct hdl_comm *comm, int ndims, const int *dims, const int *periods, int n, int **order);
int hdl_reorder_graph(struct hdl_comm *comm, int nnodes, const int *index, const int *edges, int **order);

/* The pure parts: place[r] is where rank r is. */
int *hdl_grid_order(const struct hdl_locality *locality, int ndims, const int *dims, const int *periods, int n);
int *hdl_graph_order(const struct hdl_locality *locality, int nnodes, const int *index, const int *edges);

#endif
