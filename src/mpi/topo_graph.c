/* SPDX-License-Identifier: BSD-3-Clause */
/* Graphs and distributed graphs (MPI-5.0 sections 8.5.3 to 8.5.5). */
#include "mpi/info.h"
#include "mpi/reorder.h"
#include "mpi/topo.h"

#include <stdlib.h>
#include <string.h>

static int list_argument(struct hdl_comm *c, const char *call, const char *arg, int n, const void *list)
{
	if (n < 0)
		return hdl_raise(c, MPI_ERR_ARG, call, "invalid number %d of %s: it must not be negative", n, arg);
	return n && !list ? hdl_null_arg(c, call, arg) : MPI_SUCCESS;
}

/* ---- graphs -------------------------------------------------------------------------------------------- */

static int check_graph(struct hdl_comm *c, const char *call, int nnodes, const int *index, const int *edges)
{
	if (nnodes < 0 || nnodes > c->size)
		return hdl_raise(c, MPI_ERR_TOPOLOGY, call, "invalid nnodes %d: the communicator has %d rank%s", nnodes, c->size,
				 c->size == 1 ? "" : "s");
	if (nnodes && !index)
		return hdl_null_arg(c, call, "index");
	for (int v = 0; v < nnodes; v++)
		if (index[v] < (v ? index[v - 1] : 0))
			return hdl_raise(c, MPI_ERR_TOPOLOGY, call, "invalid index[%d] %d: it is less than the one before", v,
					 index[v]);
	if (nnodes && index[nnodes - 1] && !edges)
		return hdl_null_arg(c, call, "edges");
	for (int e = 0; nnodes && e < index[nnodes - 1]; e++)
		if (edges[e] < 0 || edges[e] >= nnodes)
			return hdl_raise(c, MPI_ERR_TOPOLOGY, call, "invalid edges[%d] %d: the graph has nodes 0..%d", e,
					 edges[e], nnodes - 1);
	return MPI_SUCCESS;
}

int PMPI_Graph_create(MPI_Comm comm_old, int nnodes, const int indx[], const int edges[], int reorder, MPI_Comm *comm_graph)
{
	HDL_LOCKED;
	HDL_GIVES(comm_graph);
	static const char call[] = "MPI_Graph_create";
	struct hdl_comm *c = hdl_intracomm_get(comm_old);
	int rc, nedges, *order = NULL;
	struct hdl_topo *t;

	if (!c)
		return hdl_bad_intracomm(call, comm_old);
	rc = check_graph(c, call, nnodes, indx, edges);
	if (rc)
		return rc;
	if (!comm_graph)
		return hdl_null_arg(c, call, "comm_graph");
	hdl_call = call;
	if (reorder)
		rc = hdl_reorder_graph(c, nnodes, indx, edges, &order);
	if (rc)
		return hdl_raise_class(c, rc, call);
	nedges = nnodes ? indx[nnodes - 1] : 0;
	t = hdl_topo_new(MPI_GRAPH, (size_t)nnodes + (size_t)nedges);
	t->graph.nnodes = nnodes;
	t->graph.nedges = nedges;
	t->graph.index = t->data;
	t->graph.edges = t->data + nnodes;
	if (nnodes)
		memcpy(t->graph.index, indx, (size_t)nnodes * sizeof(*indx));
	if (nedges)
		memcpy(t->graph.edges, edges, (size_t)nedges * sizeof(*edges));
	rc = hdl_topo_return(c, call, t, order, nnodes, comm_graph);
	free(order);
	return rc;
}
HDL_PROFILED(Graph_create);

/* The rank that MPI_Graph_create gives without reordering. */
int PMPI_Graph_map(MPI_Comm comm, int nnodes, const int indx[], const int edges[], int *newrank)
{
	HDL_LOCKED;
	static const char call[] = "MPI_Graph_map";
	struct hdl_comm *c = hdl_intracomm_get(comm);
	int rc;

	if (!c)
		return hdl_bad_intracomm(call, comm);
	rc = check_graph(c, call, nnodes, indx, edges);
	if (rc)
		return rc;
	if (!newrank)
		return hdl_null_arg(c, call, "newrank");
	*newrank = c->rank < nnodes ? c->rank : MPI_UNDEFINED;
	return MPI_SUCCESS;
}
HDL_PROFILED(Graph_map);

int PMPI_Graphdims_get(MPI_Comm comm, int *nnodes, int *nedges)
{
	HDL_NO_LOCK;
	static const char call[] = "MPI_Graphdims_get";
	int rc;
	struct hdl_topo *t = hdl_topo_get(call, comm, MPI_GRAPH, &rc);

	if (!t)
		return rc;
	if (!nnodes || !nedges)
		return hdl_null_arg(hdl_comm_get_local(comm), call, nnodes ? "nedges" : "nnodes");
	*nnodes = t->graph.nnodes;
	*nedges = t->graph.nedges;
	return MPI_SUCCESS;
}
HDL_PROFILED(Graphdims_get);

static int topo_graph_check_max(const char *call, MPI_Comm comm, const char *arg, int max, int n, const void *array,
		      const char *array_arg)
{
	if (max < n)
		return hdl_raise(hdl_comm_get_local(comm), MPI_ERR_ARG, call, "invalid %s %d: there are %d", arg, max, n);
	return n && !array ? hdl_null_arg(hdl_comm_get_local(comm), call, array_arg) : MPI_SUCCESS;
}

int PMPI_Graph_get(MPI_Comm comm, int maxindex, int maxedges, int indx[], int edges[])
{
	HDL_NO_LOCK;
	static const char call[] = "MPI_Graph_get";
	int rc;
	struct hdl_topo *t = hdl_topo_get(call, comm, MPI_GRAPH, &rc);

	if (!t)
		return rc;
	rc = topo_graph_check_max(call, comm, "maxindex", maxindex, t->graph.nnodes, indx, "index");
	if (!rc)
		rc = topo_graph_check_max(call, comm, "maxedges", maxedges, t->graph.nedges, edges, "edges");
	if (rc)
		return rc;
	for (int i = 0; i < t->graph.nnodes; i++)
		indx[i] = t->graph.index[i];
	for (int i = 0; i < t->graph.nedges; i++)
		edges[i] = t->graph.edges[i];
	return MPI_SUCCESS;
}
HDL_PROFILED(Graph_get);

/* Returns a node's neighbors; NULL: an error was raised. */
static const int *topo_graph_neighbors(const char *call, MPI_Comm comm, int rank, int *n, int *rc)
{
	struct hdl_topo *t = hdl_topo_get(call, comm, MPI_GRAPH, rc);
	int first;

	if (!t)
		return NULL;
	if (rank < 0 || rank >= t->graph.nnodes) {
		*rc = hdl_bad_rank(hdl_comm_get_local(comm), MPI_ERR_RANK, call, "rank", rank);
		return NULL;
	}
	first = rank ? t->graph.index[rank - 1] : 0;
	*n = t->graph.index[rank] - first;
	return t->graph.edges + first;
}

int PMPI_Graph_neighbors_count(MPI_Comm comm, int rank, int *nneighbors)
{
	HDL_NO_LOCK;
	static const char call[] = "MPI_Graph_neighbors_count";
	int n, rc;

	if (!topo_graph_neighbors(call, comm, rank, &n, &rc))
		return rc;
	if (!nneighbors)
		return hdl_null_arg(hdl_comm_get_local(comm), call, "nneighbors");
	*nneighbors = n;
	return MPI_SUCCESS;
}
HDL_PROFILED(Graph_neighbors_count);

int PMPI_Graph_neighbors(MPI_Comm comm, int rank, int maxneighbors, int neighbors_[])
{
	HDL_NO_LOCK;
	static const char call[] = "MPI_Graph_neighbors";
	int n, rc;
	const int *of = topo_graph_neighbors(call, comm, rank, &n, &rc);

	if (!of)
		return rc;
	rc = topo_graph_check_max(call, comm, "maxneighbors", maxneighbors, n, neighbors_, "neighbors");
	for (int i = 0; !rc && i < n; i++)
		neighbors_[i] = of[i];
	return rc;
}
HDL_PROFILED(Graph_neighbors);

/* ---- distributed graphs -------------------------------------------------------------------------------- */

static bool has_weights(const int *weights)
{
	return weights != MPI_UNWEIGHTED && weights != MPI_WEIGHTS_EMPTY;
}

static int check_ends(struct hdl_comm *c, const char *call, const char *arg, int n, const int *ranks, const char *weights_arg,
		      const int *weights)
{
	int rc = list_argument(c, call, arg, n, ranks);

	if (!rc && n && (!weights || weights == MPI_WEIGHTS_EMPTY))
		return hdl_raise(c, MPI_ERR_ARG, call, "invalid %s: %s, and there are %d %s", weights_arg,
				 weights ? "MPI_WEIGHTS_EMPTY" : "a null pointer", n, arg);
	for (int i = 0; !rc && i < n; i++) {
		if (ranks[i] < 0 || ranks[i] >= c->size)
			rc = hdl_bad_rank(c, MPI_ERR_RANK, call, arg, ranks[i]);
		else if (has_weights(weights) && weights[i] < 0)
			rc = hdl_raise(c, MPI_ERR_ARG, call, "invalid %s[%d] %d: it must not be negative", weights_arg, i,
				       weights[i]);
	}
	return rc;
}

static struct hdl_topo *dist_new(int in, int out, bool weighted)
{
	struct hdl_topo *t = hdl_topo_new(MPI_DIST_GRAPH, 2 * ((size_t)in + (size_t)out));

	t->dist.indegree = in;
	t->dist.outdegree = out;
	t->dist.weighted = weighted;
	t->dist.sources = t->data;
	t->dist.source_weights = t->dist.sources + in;
	t->dist.destinations = t->dist.source_weights + in;
	t->dist.dest_weights = t->dist.destinations + out;
	return t;
}

static void copy_ends(int *ranks, int *weights, int n, const int *from, const int *from_weights)
{
	for (int i = 0; i < n; i++) {
		ranks[i] = from[i];
		weights[i] = has_weights(from_weights) ? from_weights[i] : 1;
	}
}

/* Ranks keep their order: each process knows its own neighbors only, and reorder is only a permission. */
int PMPI_Dist_graph_create_adjacent(MPI_Comm comm_old, int indegree, const int sources[], const int *sourceweights,
				    int outdegree, const int destinations[], const int *destweights, MPI_Info info,
				    int reorder, MPI_Comm *comm_dist_graph)
{
	HDL_LOCKED;
	HDL_GIVES(comm_dist_graph);
	static const char call[] = "MPI_Dist_graph_create_adjacent";
	struct hdl_comm *c = hdl_intracomm_get(comm_old);
	const struct hdl_info *hints;
	struct hdl_topo *t;
	int rc;

	(void)reorder;
	if (!c)
		return hdl_bad_intracomm(call, comm_old);
	rc = check_ends(c, call, "sources", indegree, sources, "sourceweights", sourceweights);
	if (!rc)
		rc = check_ends(c, call, "destinations", outdegree, destinations, "destweights", destweights);
	if (!rc && (sourceweights == MPI_UNWEIGHTED) != (destweights == MPI_UNWEIGHTED))
		rc = hdl_raise(c, MPI_ERR_ARG, call,
			       "invalid weights: sourceweights and destweights must both be MPI_UNWEIGHTED, or none");
	if (!rc)
		rc = hdl_info_arg(c, call, info, &hints);
	if (rc)
		return rc;
	if (!comm_dist_graph)
		return hdl_null_arg(c, call, "comm_dist_graph");
	t = dist_new(indegree, outdegree, sourceweights != MPI_UNWEIGHTED);
	copy_ends(t->dist.sources, t->dist.source_weights, indegree, sources, sourceweights);
	copy_ends(t->dist.destinations, t->dist.dest_weights, outdegree, destinations, destweights);
	return hdl_topo_return(c, call, t, NULL, c->size, comm_dist_graph);
}
HDL_PROFILED(Dist_graph_create_adjacent);

/* ---- the general constructor: a process passes edges of any processes -------------------------------------------- */

struct edge {
	int source, destination, weight;
};

static void *topo_graph_must(void *p)
{
	if (!p)
		hdl_rt_abort(MPI_ERR_NO_MEM, "out of memory for a distributed graph");
	return p;
}

/* Returns the edges sorted by the ranks that need them: both ends, but a loop once. count[r]: how many are for rank r. */
static struct edge *by_owner(int size, const struct edge *edges, int n, int *count)
{
	struct edge *out = topo_graph_must(malloc((2 * (size_t)n + 1) * sizeof(*out)));
	int *at = topo_graph_must(calloc((size_t)size + 1, sizeof(*at)));

	for (int i = 0; i < n; i++) {
		count[edges[i].source]++;
		count[edges[i].destination] += edges[i].destination != edges[i].source;
	}
	for (int r = 1; r < size; r++)
		at[r] = at[r - 1] + count[r - 1];
	for (int i = 0; i < n; i++) {
		out[at[edges[i].source]++] = edges[i];
		if (edges[i].destination != edges[i].source)
			out[at[edges[i].destination]++] = edges[i];
	}
	free(at);
	return out;
}

/* Exchanges the edges, so that each process has those of which it is an end. */
static int topo_graph_collect(struct hdl_comm *c, const struct edge *own, int n, struct edge **all, int *total)
{
	int *count = topo_graph_must(calloc(2 * (size_t)c->size, sizeof(*count))), *in = count + c->size, rc;
	const struct hdl_type *ints = hdl_type_get(MPI_INT);
	const struct hdl_coll_args args = { .coll = HDL_ALLTOALL, .sendbuf = count, .recvbuf = in, .sendcount = 1, .recvcount = 1,
					    .sendtype = ints, .recvtype = ints, .op = MPI_OP_NULL };
	struct edge *out = by_owner(c->size, own, n, count);
	size_t sum = 0;

	*all = NULL;
	rc = hdl_coll_run(c, &args);
	if (!rc) {
		for (int r = 0; r < c->size; r++)
			sum += (size_t)in[r];
		*all = topo_graph_must(malloc((sum + 1) * sizeof(**all)));
		rc = hdl_comm_deliver(c, sizeof(*out), out, count, *all, in);
	}
	*total = (int)sum;
	free(count);
	free(out);
	return rc;
}

static struct hdl_topo *dist_of_edges(int rank, const struct edge *edges, int n, bool weighted)
{
	int in = 0, out = 0;
	struct hdl_topo *t;

	for (int i = 0; i < n; i++) {
		in += edges[i].destination == rank;
		out += edges[i].source == rank;
	}
	t = dist_new(in, out, weighted);
	in = out = 0;
	for (int i = 0; i < n; i++) {
		if (edges[i].destination == rank) {
			t->dist.sources[in] = edges[i].source;
			t->dist.source_weights[in++] = edges[i].weight;
		}
		if (edges[i].source == rank) {
			t->dist.destinations[out] = edges[i].destination;
			t->dist.dest_weights[out++] = edges[i].weight;
		}
	}
	return t;
}

static int check_edges(struct hdl_comm *c, const char *call, int n, const int *sources, const int *degrees,
		       const int *destinations, const int *weights, int *nedges)
{
	long long total = 0;
	int rc = list_argument(c, call, "sources", n, sources);

	if (!rc)
		rc = list_argument(c, call, "degrees", n, degrees);
	for (int i = 0; !rc && i < n; i++) {
		if (sources[i] < 0 || sources[i] >= c->size)
			rc = hdl_bad_rank(c, MPI_ERR_RANK, call, "sources", sources[i]);
		else if (degrees[i] < 0)
			rc = hdl_raise(c, MPI_ERR_ARG, call, "invalid degrees[%d] %d: it must not be negative", i, degrees[i]);
		else
			total += degrees[i];
	}
	if (!rc && total > INT32_MAX / 2)
		rc = hdl_raise(c, MPI_ERR_ARG, call, "invalid degrees: together they are %lld edges", total);
	*nedges = (int)total;
	return rc ? rc : check_ends(c, call, "destinations", *nedges, destinations, "weights", weights);
}

int PMPI_Dist_graph_create(MPI_Comm comm_old, int n, const int sources[], const int degrees[], const int destinations[],
			   const int *weights, MPI_Info info, int reorder, MPI_Comm *comm_dist_graph)
{
	HDL_LOCKED;
	HDL_GIVES(comm_dist_graph);
	static const char call[] = "MPI_Dist_graph_create";
	struct hdl_comm *c = hdl_intracomm_get(comm_old);
	const struct hdl_info *hints;
	struct edge *own, *all;
	int rc, nedges, total, k = 0;
	struct hdl_topo *t;

	(void)reorder;
	if (!c)
		return hdl_bad_intracomm(call, comm_old);
	rc = check_edges(c, call, n, sources, degrees, destinations, weights, &nedges);
	if (!rc)
		rc = hdl_info_arg(c, call, info, &hints);
	if (rc)
		return rc;
	if (!comm_dist_graph)
		return hdl_null_arg(c, call, "comm_dist_graph");
	own = malloc(((size_t)nedges + 1) * sizeof(*own));
	if (!own) {
		hdl_coll_no_memory(c);
		return hdl_raise(c, MPI_ERR_NO_MEM, call, "out of memory for %d edges", nedges);
	}
	for (int i = 0; i < n; i++)
		for (int j = 0; j < degrees[i]; j++, k++)
			own[k] = (struct edge){ sources[i], destinations[k], has_weights(weights) ? weights[k] : 1 };
	hdl_call = call;
	rc = topo_graph_collect(c, own, nedges, &all, &total);
	free(own);
	if (rc) {
		free(all);
		return hdl_raise_class(c, rc, call);
	}
	t = dist_of_edges(c->rank, all, total, weights != MPI_UNWEIGHTED);
	free(all);
	return hdl_topo_return(c, call, t, NULL, c->size, comm_dist_graph);
}
HDL_PROFILED(Dist_graph_create);

/* ---- inquiry ------------------------------------------------------------------------------------------- */

int PMPI_Dist_graph_neighbors_count(MPI_Comm comm, int *indegree, int *outdegree, int *weighted)
{
	HDL_NO_LOCK;
	static const char call[] = "MPI_Dist_graph_neighbors_count";
	int rc;
	struct hdl_topo *t = hdl_topo_get(call, comm, MPI_DIST_GRAPH, &rc);

	if (!t)
		return rc;
	if (!indegree || !outdegree || !weighted)
		return hdl_null_arg(hdl_comm_get_local(comm), call,
				    !indegree  ? "indegree" :
				    !outdegree ? "outdegree" :
						 "weighted");
	*indegree = t->dist.indegree;
	*outdegree = t->dist.outdegree;
	*weighted = t->dist.weighted;
	return MPI_SUCCESS;
}
HDL_PROFILED(Dist_graph_neighbors_count);

/* Returns the first ones if the caller's arrays are shorter (section 8.5.5). */
static int give_ends(struct hdl_comm *c, const char *call, const char *max_arg, int max, const char *arg, int *ranks,
		     int *weights, int n, const int *from, const int *from_weights)
{
	if (max < 0)
		return hdl_raise(c, MPI_ERR_ARG, call, "invalid %s %d: it must not be negative", max_arg, max);
	if (n > max)
		n = max;
	if (n && !ranks)
		return hdl_null_arg(c, call, arg);
	for (int i = 0; i < n; i++) {
		ranks[i] = from[i];
		if (weights && has_weights(weights))
			weights[i] = from_weights[i];
	}
	return MPI_SUCCESS;
}

int PMPI_Dist_graph_neighbors(MPI_Comm comm, int maxindegree, int sources[], int *sourceweights, int maxoutdegree,
			      int destinations[], int *destweights)
{
	HDL_NO_LOCK;
	static const char call[] = "MPI_Dist_graph_neighbors";
	int rc;
	struct hdl_topo *t = hdl_topo_get(call, comm, MPI_DIST_GRAPH, &rc);
	struct hdl_comm *c = hdl_comm_get_local(comm);

	if (!t)
		return rc;
	rc = give_ends(c, call, "maxindegree", maxindegree, "sources", sources, t->dist.weighted ? sourceweights : NULL,
		       t->dist.indegree, t->dist.sources, t->dist.source_weights);
	if (!rc)
		rc = give_ends(c, call, "maxoutdegree", maxoutdegree, "destinations", destinations,
			       t->dist.weighted ? destweights : NULL, t->dist.outdegree, t->dist.destinations,
			       t->dist.dest_weights);
	return rc;
}
HDL_PROFILED(Dist_graph_neighbors);
