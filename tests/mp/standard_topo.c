/* SPDX-License-Identifier: BSD-3-Clause */
/* Virtual topologies: chapter 8. */
#include "standard.h"

#define WORLD	MPI_COMM_WORLD
#define MAX	8

/* ---- 8.5.1 to 8.5.5: grids ------------------------------------------------------------------------------------- */

static void dims_create(void)
{
	static const struct {
		int nodes, n, in[3], out[3];
	} rows[] = {
		{ 6, 2, { 0, 0 }, { 3, 2 } },
		{ 7, 2, { 0, 0 }, { 7, 1 } },
		{ 6, 3, { 0, 3, 0 }, { 2, 3, 1 } },
		{ 24, 3, { 0, 0, 0 }, { 4, 3, 2 } },
		{ 64, 3, { 0, 0, 0 }, { 4, 4, 4 } },
		{ 36, 2, { 0, 0 }, { 6, 6 } },
		{ 12, 2, { 2, 0 }, { 2, 6 } },
		{ 1, 3, { 0, 0, 0 }, { 1, 1, 1 } },
	};
	int dims[3] = { 0, 3, 0 };

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		memcpy(dims, rows[i].in, sizeof(dims));
		MPI_Dims_create(rows[i].nodes, rows[i].n, dims);
		for (int k = 0; k < rows[i].n; k++)
			CHECK_EQ(dims[k], rows[i].out[k]);
	}
	memcpy(dims, (int[]){ 0, 3, 0 }, sizeof(dims));
	FAILS(MPI_Dims_create(7, 3, dims), MPI_ERR_DIMS);
}

/* Coordinates count the last dimension fastest; ranks of a circle wrap, those of a line are refused. */
static void coordinates(void)
{
	int dims[2] = { 0, 0 }, periods[2] = { 1, 0 }, d[2], p[2], c[2], at[2], r, n, topology, rank;
	MPI_Comm grid, part;

	MPI_Dims_create(np, 2, dims);
	MPI_Cart_create(WORLD, 2, dims, periods, 1, &grid);
	MPI_Topo_test(grid, &topology);
	CHECK_EQ(topology, MPI_CART);
	MPI_Topo_test(WORLD, &topology);
	CHECK_EQ(topology, MPI_UNDEFINED);
	MPI_Cartdim_get(grid, &n);
	CHECK_EQ(n, 2);
	MPI_Comm_rank(grid, &rank);
	MPI_Cart_get(grid, 2, d, p, at);
	CHECK(d[0] == dims[0] && d[1] == dims[1] && p[0] && !p[1]);
	for (int i = 0; i < np; i++) {
		MPI_Cart_coords(grid, i, 2, c);
		CHECK(c[0] == i / dims[1] && c[1] == i % dims[1]);
		MPI_Cart_rank(grid, c, &r);
		CHECK_EQ(r, i);
		for (int turn = -2; turn < 3; turn++) {
			int beyond[2] = { c[0] + turn * dims[0], c[1] };

			MPI_Cart_rank(grid, beyond, &r);
			CHECK_EQ(r, i);
		}
	}
	CHECK(at[0] == rank / dims[1] && at[1] == rank % dims[1]);
	c[1] = dims[1];
	MPI_Comm_set_errhandler(grid, MPI_ERRORS_RETURN);
	r = class_of(MPI_Cart_rank(grid, c, &n));
	CHECK(r == MPI_ERR_RANK || r == MPI_ERR_ARG || r == MPI_ERR_DIMS);
	MPI_Comm_free(&grid);
	/* a smaller grid: the rest gets none; a larger one is refused; one without dimensions has one process */
	dims[0] = np - 1;
	dims[1] = 1;
	if (np > 1) {
		MPI_Cart_create(WORLD, 2, dims, periods, 0, &part);
		CHECK_EQ(part == MPI_COMM_NULL, me == np - 1);
		if (part != MPI_COMM_NULL)
			MPI_Comm_free(&part);
	}
	dims[0] = np + 1;
	FAILS(MPI_Cart_create(WORLD, 2, dims, periods, 0, &part), MPI_ERR_DIMS);
	MPI_Cart_create(WORLD, 0, dims, periods, 0, &part);
	CHECK_EQ(part == MPI_COMM_NULL, me != 0);
	if (part != MPI_COMM_NULL) {
		MPI_Cartdim_get(part, &n);
		CHECK_EQ(n, 0);
		MPI_Comm_free(&part);
	}
}

/* Column c is shifted down by c rows, as in systolic algorithms: along a dimension with ends or without. */
static void skewed_shift(void)
{
	int dims[2] = { 0, 0 }, at[2], source, dest, v, r, from[2];
	MPI_Status s;
	MPI_Comm grid;

	MPI_Dims_create(np, 2, dims);
	for (int round = 0; round < 2; round++) {
		int periods[2] = { round, round };

		MPI_Cart_create(WORLD, 2, dims, periods, 0, &grid);
		MPI_Comm_rank(grid, &r);
		MPI_Cart_coords(grid, r, 2, at);
		MPI_Cart_shift(grid, 0, at[1], &source, &dest);
		v = r;
		MPI_Sendrecv_replace(&v, 1, MPI_INT, dest, 0, source, 0, grid, &s);
		from[0] = at[0] - at[1];
		from[1] = at[1];
		if (round || from[0] >= 0) {
			MPI_Cart_rank(grid, (int[]){ round ? from[0] : from[0] < 0 ? 0 : from[0], from[1] }, &r);
			CHECK_EQ(v, r);
			CHECK_EQ(source, r);
		} else {
			CHECK(source == MPI_PROC_NULL && v == r);
		}
		MPI_Cart_shift(grid, 1, -1, &source, &dest);
		if (!round && at[1] == 0)
			CHECK_EQ(dest, MPI_PROC_NULL);
		if (!round && at[1] == dims[1] - 1)
			CHECK_EQ(source, MPI_PROC_NULL);
		MPI_Comm_free(&grid);
	}
}

/* Poisson's equation by relaxation on a grid of processes, with the frames of neighbours: the values are those of one process. */
static void relaxation(void)
{
	enum { N = 12, STEPS = 15, WIDE = N * MAX + 2 };
	static double u[N + 2][N + 2], v[N + 2][N + 2], all[WIDE][WIDE], next[WIDE][WIDE];
	int dims[2] = { 0, 0 }, periods[2] = { 0, 0 }, at[2], r, up, down, left, right, rows, columns;
	MPI_Datatype column;
	MPI_Comm grid;

	MPI_Dims_create(np, 2, dims);
	MPI_Cart_create(WORLD, 2, dims, periods, 1, &grid);
	MPI_Comm_rank(grid, &r);
	MPI_Cart_coords(grid, r, 2, at);
	MPI_Cart_shift(grid, 0, 1, &up, &down);
	MPI_Cart_shift(grid, 1, 1, &left, &right);
	MPI_Type_vector(N, 1, N + 2, MPI_DOUBLE, &column);
	MPI_Type_commit(&column);
	rows = dims[0] * N;
	columns = dims[1] * N;
	memset(all, 0, sizeof(all));
	memset(u, 0, sizeof(u));
	for (int i = 1; i <= rows; i++)
		for (int j = 1; j <= columns; j++)
			all[i][j] = (i * 31 + j * 17) % 101;
	for (int i = 1; i <= N; i++)
		for (int j = 1; j <= N; j++)
			u[i][j] = all[at[0] * N + i][at[1] * N + j];
	for (int step = 0; step < STEPS; step++) {
		MPI_Sendrecv(&u[N][1], N, MPI_DOUBLE, down, 0, &u[0][1], N, MPI_DOUBLE, up, 0, grid, MPI_STATUS_IGNORE);
		MPI_Sendrecv(&u[1][1], N, MPI_DOUBLE, up, 1, &u[N + 1][1], N, MPI_DOUBLE, down, 1, grid, MPI_STATUS_IGNORE);
		MPI_Sendrecv(&u[1][N], 1, column, right, 2, &u[1][0], 1, column, left, 2, grid, MPI_STATUS_IGNORE);
		MPI_Sendrecv(&u[1][1], 1, column, left, 3, &u[1][N + 1], 1, column, right, 3, grid, MPI_STATUS_IGNORE);
		for (int i = 1; i <= N; i++)
			for (int j = 1; j <= N; j++)
				v[i][j] = (u[i - 1][j] + u[i + 1][j] + u[i][j - 1] + u[i][j + 1]) / 4;
		for (int i = 1; i <= N; i++)
			memcpy(&u[i][1], &v[i][1], N * sizeof(double));
		for (int i = 1; i <= rows; i++)
			for (int j = 1; j <= columns; j++)
				next[i][j] = (all[i - 1][j] + all[i + 1][j] + all[i][j - 1] + all[i][j + 1]) / 4;
		for (int i = 1; i <= rows; i++)
			memcpy(&all[i][1], &next[i][1], columns * sizeof(double));
	}
	for (int i = 1; i <= N; i++)
		for (int j = 1; j <= N; j++)
			CHECK(u[i][j] == all[at[0] * N + i][at[1] * N + j]);
	MPI_Type_free(&column);
	MPI_Comm_free(&grid);
}

/* Lines of a grid of three dimensions; planes; single processes. */
static void sub_grids(void)
{
	int dims[3] = { 0, 0, 0 }, periods[3] = { 0, 1, 0 }, at[3], keep[3], n, want, where, r, d[3], p[3], c[3];
	MPI_Comm grid, sub;

	MPI_Dims_create(np, 3, dims);
	MPI_Cart_create(WORLD, 3, dims, periods, 0, &grid);
	MPI_Comm_rank(grid, &r);
	MPI_Cart_coords(grid, r, 3, at);
	for (int mask = 0; mask < 8; mask++) {
		int left = 0;

		want = 1;
		where = 0;
		for (int i = 0; i < 3; i++) {
			keep[i] = mask >> i & 1;
			if (keep[i]) {
				want *= dims[i];
				where = where * dims[i] + at[i];
			}
		}
		MPI_Cart_sub(grid, keep, &sub);
		MPI_Comm_size(sub, &n);
		MPI_Comm_rank(sub, &r);
		CHECK(n == want && r == where);
		MPI_Cartdim_get(sub, &n);
		MPI_Cart_get(sub, n, d, p, c);
		for (int i = 0; i < 3; i++) {
			if (!keep[i])
				continue;
			CHECK(d[left] == dims[i] && !p[left] == !periods[i] && c[left] == at[i]);
			left++;
		}
		CHECK_EQ(left, n);
		n = 1;
		MPI_Allreduce(MPI_IN_PLACE, &n, 1, MPI_INT, MPI_SUM, sub);
		CHECK_EQ(n, want);
		MPI_Comm_free(&sub);
	}
	MPI_Comm_free(&grid);
}

/* ---- 8.5.3 to 8.5.5: graphs ------------------------------------------------------------------------------------------ */

/* Four processes: 0 to 1 and 3, 1 to 0, 2 to 3, 3 to 0 and 2. */
static void small_graph(void)
{
	static const int index[4] = { 2, 3, 4, 6 }, edges[6] = { 1, 3, 0, 3, 0, 2 };
	int nodes, n, i[4], e[6], topology, around[4], count, r;
	MPI_Comm graph;

	MPI_Graph_create(WORLD, 4, index, edges, 0, &graph);
	CHECK_EQ(graph == MPI_COMM_NULL, me > 3);
	if (graph == MPI_COMM_NULL)
		return;
	MPI_Comm_size(graph, &n);
	CHECK_EQ(n, 4);
	MPI_Comm_rank(graph, &r);
	MPI_Topo_test(graph, &topology);
	CHECK_EQ(topology, MPI_GRAPH);
	MPI_Graphdims_get(graph, &nodes, &n);
	CHECK(nodes == 4 && n == 6);
	MPI_Graph_get(graph, 4, 6, i, e);
	CHECK(!memcmp(i, index, sizeof(i)) && !memcmp(e, edges, sizeof(e)));
	for (int k = 0; k < 4; k++) {
		int from = k ? index[k - 1] : 0;

		MPI_Graph_neighbors_count(graph, k, &count);
		CHECK_EQ(count, index[k] - from);
		MPI_Graph_neighbors(graph, k, count, around);
		CHECK(!memcmp(around, edges + from, sizeof(int) * count));
	}
	/* along the edges, which are symmetric: every rank receives from all neighbours */
	MPI_Request q[4];
	int heard[4];

	MPI_Graph_neighbors_count(graph, r, &count);
	MPI_Graph_neighbors(graph, r, count, around);
	for (int k = 0; k < count; k++)
		MPI_Isendrecv(&r, 1, MPI_INT, around[k], 0, &heard[k], 1, MPI_INT, around[k], 0, graph, &q[k]);
	MPI_Waitall(count, q, MPI_STATUSES_IGNORE);
	for (int k = 0; k < count; k++)
		CHECK_EQ(heard[k], around[k]);
	MPI_Comm_free(&graph);
}

/* The shuffle-exchange network on a power of two: each node has as neighbors a partner, a shuffle and an unshuffle, which may be
 * the node itself or equal. A value that is shuffled as often as there are bits returns to its rank. */
static void shuffle_exchange(void)
{
	int bits = np >= 4 ? 2 : np >= 2 ? 1 : 0, n = 1 << bits, index[4], edges[12], around[3], r, v, to, from;
	MPI_Comm graph;

	for (int i = 0; i < n; i++) {
		index[i] = 3 * (i + 1);
		edges[3 * i] = i ^ (n > 1);
		edges[3 * i + 1] = bits ? (i << 1 | i >> (bits - 1)) & (n - 1) : 0;
		edges[3 * i + 2] = bits ? (i >> 1 | (i & 1) << (bits - 1)) : 0;
	}
	MPI_Graph_create(WORLD, n, index, edges, 0, &graph);
	CHECK_EQ(graph == MPI_COMM_NULL, me >= n);
	if (graph == MPI_COMM_NULL)
		return;
	MPI_Comm_rank(graph, &r);
	MPI_Graph_neighbors(graph, r, 3, around);
	CHECK(!memcmp(around, edges + 3 * r, sizeof(around)));
	v = 100 + r;
	MPI_Sendrecv_replace(&v, 1, MPI_INT, around[0], 0, around[0], 0, graph, MPI_STATUS_IGNORE);
	CHECK_EQ(v, 100 + around[0]);
	for (int i = 0; i < bits; i++) {
		to = around[1];
		from = around[2];
		MPI_Sendrecv_replace(&v, 1, MPI_INT, to, 1, from, 1, graph, MPI_STATUS_IGNORE);
	}
	CHECK_EQ(v, 100 + around[0]);
	MPI_Comm_free(&graph);
}

/* Checks a rank's sources and destinations in a distributed graph, as sets with weights. */
static void has_neighbors(int line, MPI_Comm graph, const int (*edges)[3], int n, int weighted)
{
	int in, out, w, from[32], to[32], fw[32], tw[32], r, ins = 0, outs = 0;

	MPI_Comm_rank(graph, &r);
	MPI_Dist_graph_neighbors_count(graph, &in, &out, &w);
	CHECK_EQ(!w, !weighted);
	for (int i = 0; i < n; i++) {
		ins += edges[i][1] == r;
		outs += edges[i][0] == r;
	}
	if (in != ins || out != outs)
		test_fail(__FILE__, line, "%d in, %d out, not %d and %d", in, out, ins, outs);
	MPI_Dist_graph_neighbors(graph, in, from, weighted ? fw : MPI_UNWEIGHTED, out, to, weighted ? tw : MPI_UNWEIGHTED);
	for (int i = 0; i < n; i++) {
		int found = edges[i][1] != r, left = edges[i][0] != r;

		for (int k = 0; k < in && !found; k++)
			if (from[k] == edges[i][0] && (!weighted || fw[k] == edges[i][2])) {
				found = 1;
				from[k] = -1;
			}
		for (int k = 0; k < out && !left; k++)
			if (to[k] == edges[i][1] && (!weighted || tw[k] == edges[i][2])) {
				left = 1;
				to[k] = -1;
			}
		if (!found || !left)
			test_fail(__FILE__, line, "the edge from %d to %d is missing", edges[i][0], edges[i][1]);
	}
}

/* A torus of two dimensions with diagonals, heavier along the axes: each rank specifies the edges from itself, one rank all
 * edges, each rank every np-th edge (without weights), and both ends each edge (adjacent). All of these are the same graph. */
static void distributed_graph(void)
{
	static const int way[8][3] = {
		{ 0, 1, 10 }, { 0, -1, 10 }, { 1, 0, 10 }, { -1, 0, 10 }, { 1, 1, 1 }, { 1, -1, 1 }, { -1, 1, 1 }, { -1, -1, 1 },
	};
	int dims[2] = { 0, 0 }, edges[8 * MAX][3], n = 8 * np, m, src[8 * MAX], degree[8 * MAX], to[8 * MAX], w[8 * MAX];
	int from[8 * MAX], fw[8 * MAX], k = 0, topology;
	MPI_Comm graph;

	MPI_Dims_create(np, 2, dims);
	for (int r = 0; r < np; r++)
		for (int i = 0; i < 8; i++) {
			int row = (r / dims[1] + way[i][0] + dims[0]) % dims[0],
			    column = (r % dims[1] + way[i][1] + dims[1]) % dims[1];

			edges[r * 8 + i][0] = r;
			edges[r * 8 + i][1] = row * dims[1] + column;
			edges[r * 8 + i][2] = way[i][2];
		}
	for (int form = 0; form < 4; form++) {
		int weighted = form != 2;

		m = k = 0;
		for (int i = 0; i < n; i++) {
			if (form == 0 && edges[i][0] != me)
				continue;
			if (form == 1 && me != np - 1)
				continue;
			if (form == 2 && i % np != me)
				continue;
			if (form == 3) {
				if (edges[i][0] == me) {
					to[m] = edges[i][1];
					w[m++] = edges[i][2];
				}
				if (edges[i][1] == me) {
					from[k] = edges[i][0];
					fw[k++] = edges[i][2];
				}
				continue;
			}
			src[m] = edges[i][0];
			degree[m] = 1;
			to[m] = edges[i][1];
			w[m++] = edges[i][2];
		}
		if (form == 0) {	/* one source with eight destinations */
			degree[0] = 8;
			m = 1;
		}
		if (form == 3)
			MPI_Dist_graph_create_adjacent(WORLD, k, from, fw, m, to, w, MPI_INFO_NULL, 0, &graph);
		else
			MPI_Dist_graph_create(WORLD, m, src, degree, to, !weighted ? MPI_UNWEIGHTED : m ? w : MPI_WEIGHTS_EMPTY,
					      MPI_INFO_NULL, 0, &graph);
		MPI_Topo_test(graph, &topology);
		CHECK_EQ(topology, MPI_DIST_GRAPH);
		has_neighbors(__LINE__, graph, (const int (*)[3])edges, n, weighted);
		MPI_Comm_free(&graph);
	}
}

/* Some have no edges at all; all of them call. */
static void star_of_edges(void)
{
	int edges[MAX][3], n = np - 1, sources[1] = { 0 }, degrees[1] = { n }, to[MAX], w[MAX];
	MPI_Comm graph, dup;

	for (int i = 0; i < n; i++) {
		edges[i][0] = 0;
		edges[i][1] = to[i] = i + 1;
		edges[i][2] = w[i] = i;
	}
	MPI_Dist_graph_create(WORLD, me == np - 1, sources, degrees, to, me == np - 1 ? w : MPI_WEIGHTS_EMPTY, MPI_INFO_NULL, 0,
			      &graph);
	has_neighbors(__LINE__, graph, (const int (*)[3])edges, n, 1);
	/* a duplicate has the topology, too */
	MPI_Comm_dup(graph, &dup);
	has_neighbors(__LINE__, dup, (const int (*)[3])edges, n, 1);
	MPI_Comm_free(&graph);
	MPI_Comm_free(&dup);
}

/* ---- 8.5.8: as in a library -------------------------------------------------------------------------------------- */

static void maps(void)
{
	static const int index[2] = { 1, 2 }, edges[2] = { 1, 0 };
	int dims[2] = { 0, 0 }, periods[2] = { 1, 1 }, rank = -7, seen[MAX] = { 0 }, all[MAX];

	MPI_Dims_create(np, 2, dims);
	MPI_Cart_map(WORLD, 2, dims, periods, &rank);
	CHECK(rank >= 0 && rank < np);
	MPI_Allgather(&rank, 1, MPI_INT, all, 1, MPI_INT, WORLD);
	for (int i = 0; i < np; i++)
		seen[all[i]]++;
	for (int i = 0; i < np; i++)
		CHECK_EQ(seen[i], 1);
	if (np < 2)
		return;
	MPI_Graph_map(WORLD, 2, index, edges, &rank);
	CHECK(rank == MPI_UNDEFINED || rank == 0 || rank == 1);
	rank = rank != MPI_UNDEFINED;
	MPI_Allreduce(MPI_IN_PLACE, &rank, 1, MPI_INT, MPI_SUM, WORLD);
	CHECK_EQ(rank, 2);
}

static const struct standard_case cases[] = {
	{ "8.5.2", "dims_create", 1, dims_create },
	{ "8.5.1, 8.5.5", "coordinates", 1, coordinates },
	{ "8.5.6", "skewed_shift", 1, skewed_shift },
	{ "8.5.6, 8.9", "relaxation", 1, relaxation },
	{ "8.5.7", "sub_grids", 1, sub_grids },
	{ "8.5.3", "small_graph", 4, small_graph },
	{ "8.5.5", "shuffle_exchange", 1, shuffle_exchange },
	{ "8.5.4", "distributed_graph", 1, distributed_graph },
	{ "8.5.4", "star_of_edges", 1, star_of_edges },
	{ "8.5.8", "maps", 1, maps },
};

int main(int argc, char **argv)
{
	test_init(&argc, &argv);
	standard_run(cases, sizeof(cases) / sizeof(*cases), argc, argv);
	test_done("topo");
	return 0;
}
