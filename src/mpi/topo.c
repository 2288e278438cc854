/* SPDX-License-Identifier: BSD-3-Clause */
/* Virtual topologies (MPI-5.0 chapter 8): common to all kinds. */
#include "mpi/topo.h"

#include <stdlib.h>

struct hdl_topo *hdl_topo_new(int kind, size_t ints)
{
	struct hdl_topo *topo = calloc(1, sizeof(*topo) + ints * sizeof(topo->data[0]));

	if (!topo)
		hdl_rt_abort(MPI_ERR_NO_MEM, "out of memory for a virtual topology");
	topo->refs = 1;
	topo->kind = kind;
	return topo;
}

static const char *topo_kind_name(int kind)
{
	return kind == MPI_CART ? "Cartesian" : kind == MPI_GRAPH ? "graph" : "distributed graph";
}

struct hdl_topo *hdl_topo_get(const char *call, MPI_Comm comm, int kind, int *rc)
{
	struct hdl_comm *c = hdl_comm_get_local(comm);

	*rc = MPI_SUCCESS;
	if (likely(c && c->topo && c->topo->kind == kind))
		return c->topo;
	if (!c)
		*rc = hdl_bad_comm(call, comm);
	else
		*rc = hdl_raise(c, MPI_ERR_TOPOLOGY, call, "invalid communicator: it has %s%s topology, and this needs a %s one",
				c->topo ? "a " : "no", c->topo ? topo_kind_name(c->topo->kind) : "", topo_kind_name(kind));
	return NULL;
}

int hdl_topo_return(struct hdl_comm *comm, const char *call, struct hdl_topo *topo, const int *order, int n, MPI_Comm *newcomm)
{
	struct hdl_comm *made;
	int *own = NULL, rc;

	if (!order) {
		order = own = malloc(((size_t)n + 1) * sizeof(*own));
		if (!own) {
			hdl_topo_release(topo);
			hdl_coll_no_memory(comm);
			return hdl_raise(comm, MPI_ERR_NO_MEM, call, "out of memory for %d ranks", n);
		}
		for (int r = 0; r < n; r++)
			own[r] = r;
	}
	hdl_call = call;
	rc = hdl_comm_permute(comm, order, n, &made);
	free(own);
	if (rc) {
		hdl_topo_release(topo);
		return hdl_raise_class(comm, rc, call);
	}
	if (made)
		made->topo = topo;
	else
		hdl_topo_release(topo);
	*newcomm = made ? (MPI_Comm)made : MPI_COMM_NULL;
	return MPI_SUCCESS;
}

int PMPI_Topo_test(MPI_Comm comm, int *status)
{
	HDL_NO_LOCK;
	static const char call[] = "MPI_Topo_test";
	struct hdl_comm *c = hdl_comm_get_local(comm);

	if (!c)
		return hdl_bad_comm(call, comm);
	if (!status)
		return hdl_null_arg(c, call, "status");
	*status = c->topo ? c->topo->kind : MPI_UNDEFINED;
	return MPI_SUCCESS;
}
HDL_PROFILED(Topo_test);
