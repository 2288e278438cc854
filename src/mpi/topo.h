/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the files of virtual topologies (MPI-5.0 chapter 8). */
#ifndef HDL_MPI_TOPO_H
#define HDL_MPI_TOPO_H

#include "mpi/mpi_internal.h"

/* Makes a topology with space for so many ints, with one reference. Without memory the job ends. */
struct hdl_topo *hdl_topo_new(int kind, size_t ints);
/* Returns the communicator's topology of this kind. NULL: an error was raised; *rc is the code for the program. */
struct hdl_topo *hdl_topo_get(const char *call, MPI_Comm comm, int kind, int *rc);
/* This process's neighbors in the order of section 8.6: ranks, or MPI_PROC_NULL. made: the caller must free() it, also after
 * an error. */
struct hdl_neighbors {
	const int *from, *to;
	int nfrom, nto;
	bool grid;			/* Cartesian: in each dimension the rank below, then the rank above */
	int *made;
};
int hdl_topo_neighbors(const char *call, struct hdl_comm *comm, struct hdl_neighbors *n);
/* Returns the rank so many steps away in a dimension of a Cartesian topology, or MPI_PROC_NULL. */
int hdl_cart_away(const struct hdl_topo *t, int direction, long long steps);
/* Makes a communicator of the first n ranks of comm with a topology, whose reference it takes over; the other ranks get
 * MPI_COMM_NULL. order: see hdl_comm_permute; NULL: comm's order. made may be NULL. */
int hdl_topo_return(struct hdl_comm *comm, const char *call, struct hdl_topo *topo, const int *order, int n, MPI_Comm *newcomm);

#endif
