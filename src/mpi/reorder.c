/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reordering. Ranks are sorted by locality: by host, then package, and so on. A grid is bisected recursively, and the sorted
 * list with it: where two adjacent ranks of the list have the greatest distance, then where the cut is smallest. A graph is
 * filled breadth first from a node, so that the ranks of one instance are connected. The result is used if the sum of the
 * distances between neighbors is less than without.
 */
#include "mpi/reorder.h"

#include <stdlib.h>
#include <string.h>

/* Ends the job without memory, since all ranks must compute the same result. */
static void *reorder_must(void *p)
{
	if (!p)
		hdl_rt_abort(MPI_ERR_NO_MEM, "out of memory for reordering the ranks of a virtual topology");
	return p;
}

/* An edge between hosts costs more than all edges inside a host. */
static long reorder_cost_of(const struct hdl_locality *a, const struct hdl_locality *b)
{
	return 1L << 2 * hdl_locality_distance(a, b);
}

struct ranked_locality {
	struct hdl_locality locality;
	int rank;
};

static int by_place(const void *a, const void *b)
{
	const struct ranked_locality *x = a, *y = b;

	for (int l = 0; l < HDL_LEVELS; l++)
		if (x->locality.at[l] != y->locality.at[l])
			return x->locality.at[l] < y->locality.at[l] ? -1 : 1;
	return x->rank < y->rank ? -1 : 1;
}

static struct ranked_locality *sorted(const struct hdl_locality *locality, int n)
{
	struct ranked_locality *list = reorder_must(malloc(((size_t)n + 1) * sizeof(*list)));

	for (int r = 0; r < n; r++)
		list[r] = (struct ranked_locality){ locality[r], r };
	qsort(list, (size_t)n, sizeof(*list), by_place);
	return list;
}

/* ---- grids --------------------------------------------------------------------------------------------- */

struct grid {
	int ndims;
	const int *dims;
	int *order;
};

struct cut {
	int dim, at, distance;
	long area, balance;
};

static bool better(const struct cut *a, const struct cut *b)
{
	if (a->distance != b->distance)
		return a->distance > b->distance;
	if (a->area != b->area)
		return a->area < b->area;
	return a->balance < b->balance;
}

/* lo, extent: the box of cells; list: the ranks for it, one for each cell. */
static void fill_box(const struct grid *g, int *lo, int *extent, const struct ranked_locality *list, int n)
{
	struct cut best = { .dim = -1 };
	int cell = 0, whole, kept;

	for (int d = 0; d < g->ndims; d++)
		for (int at = 1; at < extent[d]; at++) {
			int split = n / extent[d] * at;
			struct cut c = { d, at, hdl_locality_distance(&list[split - 1].locality, &list[split].locality),
					 n / extent[d], labs(2L * at - extent[d]) };

			if (best.dim < 0 || better(&c, &best))
				best = c;
		}
	if (best.dim < 0) {
		for (int d = 0; d < g->ndims; d++)
			cell = cell * g->dims[d] + lo[d];
		g->order[cell] = list->rank;
		return;
	}
	whole = extent[best.dim];
	kept = lo[best.dim];
	extent[best.dim] = best.at;
	fill_box(g, lo, extent, list, n / whole * best.at);
	lo[best.dim] = kept + best.at;
	extent[best.dim] = whole - best.at;
	fill_box(g, lo, extent, list + n / whole * best.at, n - n / whole * best.at);
	lo[best.dim] = kept;
	extent[best.dim] = whole;
}

/* order NULL: the order of comm. */
static long grid_cost(const struct hdl_locality *locality, int ndims, const int *dims, const int *periods, int n,
		      const int *order)
{
	long cost = 0;

	for (int cell = 0; cell < n; cell++)
		for (int d = ndims, stride = 1; d--; stride *= dims[d]) {
			int at = cell / stride % dims[d], next = cell + stride;

			if (at == dims[d] - 1) {
				if (!periods[d] || dims[d] < 3)
					continue;
				next = cell - at * stride;
			}
			cost += reorder_cost_of(&locality[order ? order[cell] : cell], &locality[order ? order[next] : next]);
		}
	return cost;
}

int *hdl_grid_order(const struct hdl_locality *locality, int ndims, const int *dims, const int *periods, int n)
{
	struct ranked_locality *list = sorted(locality, n);
	int *box = reorder_must(calloc(2 * (size_t)ndims + 1, sizeof(*box)));
	struct grid g = { ndims, dims, reorder_must(malloc(((size_t)n + 1) * sizeof(*g.order))) };

	memcpy(box + ndims, dims, (size_t)ndims * sizeof(*dims));
	fill_box(&g, box, box + ndims, list, n);
	free(list);
	free(box);
	if (grid_cost(locality, ndims, dims, periods, n, g.order) < grid_cost(locality, ndims, dims, periods, n, NULL))
		return g.order;
	free(g.order);
	return NULL;
}

/* ---- graphs -------------------------------------------------------------------------------------------- */

static long graph_cost(const struct hdl_locality *locality, int n, const int *index, const int *edges, const int *order)
{
	long cost = 0;

	for (int v = 0; v < n; v++)
		for (int e = v ? index[v - 1] : 0; e < index[v]; e++)
			cost += reorder_cost_of(&locality[order ? order[v] : v], &locality[order ? order[edges[e]] : edges[e]]);
	return cost;
}

/* Breadth first, so that the nodes of one instance are connected. */
static void fill_graph(const struct ranked_locality *list, int n, const int *index, const int *edges, int *order, int *queue)
{
	int head = 0, tail = 0, seed = 0;

	for (int v = 0; v < n; v++)
		order[v] = -1;
	while (head < n) {
		if (head == tail) {		/* another connected component of the graph */
			while (order[seed] >= 0)
				seed++;
			order[seed] = list[tail].rank;
			queue[tail++] = seed;
		}
		for (int v = queue[head++], e = v ? index[v - 1] : 0; e < index[v]; e++)
			if (order[edges[e]] < 0) {
				order[edges[e]] = list[tail].rank;
				queue[tail++] = edges[e];
			}
	}
}

int *hdl_graph_order(const struct hdl_locality *locality, int nnodes, const int *index, const int *edges)
{
	struct ranked_locality *list = sorted(locality, nnodes);
	int *order = reorder_must(malloc(((size_t)nnodes + 1) * sizeof(*order)));
	int *queue = reorder_must(malloc(((size_t)nnodes + 1) * sizeof(*queue)));

	fill_graph(list, nnodes, index, edges, order, queue);
	free(list);
	free(queue);
	if (graph_cost(locality, nnodes, index, edges, order) < graph_cost(locality, nnodes, index, edges, NULL))
		return order;
	free(order);
	return NULL;
}

/* ---- with the communicator ----------------------------------------------------------------------------- */

static int gather_localities(struct hdl_comm *comm, struct hdl_locality **locality)
{
	*locality = reorder_must(malloc((size_t)comm->size * sizeof(**locality)));
	hdl_locality_get(&(*locality)[comm->rank]);
	return hdl_comm_exchange(comm, *locality, sizeof(**locality));
}

int hdl_reorder_grid(struct hdl_comm *comm, int ndims, const int *dims, const int *periods, int n, int **order)
{
	struct hdl_locality *locality;
	int rc = gather_localities(comm, &locality);

	*order = rc ? NULL : hdl_grid_order(locality, ndims, dims, periods, n);
	free(locality);
	return rc;
}

int hdl_reorder_graph(struct hdl_comm *comm, int nnodes, const int *index, const int *edges, int **order)
{
	struct hdl_locality *locality;
	int rc = gather_localities(comm, &locality);

	*order = rc ? NULL : hdl_graph_order(locality, nnodes, index, edges);
	free(locality);
	return rc;
}
