/* SPDX-License-Identifier: BSD-3-Clause */
/* What the functions of virtual topologies share (MPI-5.0 chapter 8). */
#ifndef HDL_MPI_TOPO_H
#define HDL_MPI_TOPO_H

#include "mpi/mpi_internal.h"

/* With room for so many ints; one reference. Never NULL: without memory the job ends. */
struct hdl_topo *hdl_topo_new(int kind, size_t ints);
/* The communicator's topology of this kind; NULL: raised, *rc is what the function returns. */
struct hdl_topo *hdl_topo_get(const char *call, MPI_Comm comm, int kind, int *rc);
/* This process's neighbors, in the order of section 8.6: ranks, or MPI_PROC_NULL. made: the caller's to free, whatever is returned. */
struct hdl_neighbors {
	const int *from, *to;
	int nfrom, nto;
	bool grid;			/* Cartesian: for each dimension the one below and the one above */
	int *made;
};
int hdl_topo_neighbors(const char *call, struct hdl_comm *comm, struct hdl_neighbors *n);
/* The rank so many steps away in a dimension of a Cartesian topology, or MPI_PROC_NULL. */
int hdl_cart_away(const struct hdl_topo *t, int direction, long long steps);
/* A communicator of the first n ranks of comm, with a topology (the reference is taken over); the others get MPI_COMM_NULL. order: see
 * hdl_comm_permute; NULL: comm's own. made may be NULL. */
int hdl_topo_return(struct hdl_comm *comm, const char *call, struct hdl_topo *topo, const int *order, int n, MPI_Comm *newcomm);

#endif
