/* SPDX-License-Identifier: BSD-3-Clause */
/* A process's neighbors in a virtual topology of any kind (MPI-5.0 section 8.6). */
#include "mpi/topo.h"

#include <stdlib.h>

static int neighbors_of_grid(const char *call, struct hdl_comm *comm, struct hdl_neighbors *n)
{
	int ndims = comm->topo->cart.ndims;

	n->made = malloc(((size_t)ndims * 2 + 1) * sizeof(*n->made));
	if (!n->made) {
		hdl_coll_no_memory(comm);
		return hdl_raise(comm, MPI_ERR_NO_MEM, call, "out of memory for the neighbors in %d dimensions", ndims);
	}
	for (int d = 0; d < ndims; d++) {
		n->made[2 * d] = hdl_cart_away(comm->topo, d, -1);
		n->made[2 * d + 1] = hdl_cart_away(comm->topo, d, 1);
	}
	n->from = n->to = n->made;
	n->nfrom = n->nto = 2 * ndims;
	n->grid = true;
	return MPI_SUCCESS;
}

int hdl_topo_neighbors(const char *call, struct hdl_comm *comm, struct hdl_neighbors *n)
{
	const struct hdl_topo *t = comm->topo;
	int first;

	*n = (struct hdl_neighbors){ 0 };
	if (!t)
		return hdl_raise(comm, MPI_ERR_TOPOLOGY, call, "invalid communicator: it has no topology, and so no neighbors");
	if (t->kind == MPI_CART)
		return neighbors_of_grid(call, comm, n);
	if (t->kind == MPI_GRAPH) {
		first = comm->rank ? t->graph.index[comm->rank - 1] : 0;
		n->from = n->to = t->graph.edges + first;
		n->nfrom = n->nto = t->graph.index[comm->rank] - first;
		return MPI_SUCCESS;
	}
	n->from = t->dist.sources;
	n->nfrom = t->dist.indegree;
	n->to = t->dist.destinations;
	n->nto = t->dist.outdegree;
	return MPI_SUCCESS;
}
