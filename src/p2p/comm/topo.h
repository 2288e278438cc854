/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The virtual topology of a communicator (MPI-5.0 chapter 8). It never changes; a communicator and its duplicates share it. One
 * block of memory: the arrays lie behind the struct.
 */
#ifndef HDL_P2P_TOPO_H
#define HDL_P2P_TOPO_H

#include <mpi.h>
#include <stdbool.h>
#include <stdlib.h>

struct hdl_topo {
	int refs;
	int kind;			/* MPI_CART, MPI_GRAPH, MPI_DIST_GRAPH */
	union {
		struct {
			int ndims;
			int *dims, *periods, *coords;		/* coords: this process's */
		} cart;
		struct {
			int nnodes, nedges;
			int *index, *edges;			/* as the program passed them (section 8.5.3) */
		} graph;
		struct {
			int indegree, outdegree;		/* this process's */
			bool weighted;
			int *sources, *source_weights, *destinations, *dest_weights;
		} dist;
	};
	int data[];
};

static inline struct hdl_topo *hdl_topo_retain(struct hdl_topo *topo)
{
	if (topo)
		topo->refs++;
	return topo;
}

static inline void hdl_topo_release(struct hdl_topo *topo)
{
	if (topo && !--topo->refs)
		free(topo);
}

#endif
