/* SPDX-License-Identifier: BSD-3-Clause */
/* Virtual topologies (MPI-5.0 chapter 8) on any number of ranks: constructors, queries, and errors. */
#include "mpi_test.h"

#include <limits.h>

static int class_of(int code)
{
	int class;

	MPI_Error_class(code, &class);
	return class;
}

/* ---- MPI_Dims_create ----------------------------------------------------------------------------------- */

/* Of n as k factors of at most `most` each. largest: 0, or the one before these. */
static void smallest_spread(int n, int k, int most, int largest, int *best)
{
	if (k == 1) {
		if (n <= most && (largest ? largest - n : 0) < *best)
			*best = largest ? largest - n : 0;
		return;
	}
	for (int d = 1; d <= most && d <= n; d++)
		if (n % d == 0)
			smallest_spread(n / d, k - 1, d, largest ? largest : d, best);
}

static void dims_create(void)
{
	static const struct {
		int n, k, in[4], out[4];
	} cases[] = {
		/* the standard's examples (8.5.2) */
		{ 6, 2, { 0, 0 }, { 3, 2 } }, { 7, 2, { 0, 0 }, { 7, 1 } }, { 6, 3, { 0, 3, 0 }, { 2, 3, 1 } },
		{ 1, 3, { 0, 0, 0 }, { 1, 1, 1 } }, { 12, 3, { 0, 0, 0 }, { 3, 2, 2 } }, { 16, 3, { 0, 0, 0 }, { 4, 2, 2 } },
		{ 36, 2, { 0, 0 }, { 6, 6 } }, { 72, 3, { 0, 0, 0 }, { 6, 4, 3 } }, { 60, 4, { 0, 0, 0, 0 }, { 5, 3, 2, 2 } },
		{ 24, 3, { 0, 2, 0 }, { 4, 2, 3 } }, { 8, 2, { 8, 1 }, { 8, 1 } }, { 1000003, 2, { 0, 0 }, { 1000003, 1 } },
		{ INT_MAX, 3, { 0, 0, 0 }, { INT_MAX, 1, 1 } }, { 1 << 30, 4, { 0, 0, 0, 0 }, { 256, 256, 128, 128 } },
		/* the largest and the smallest are as close as possible; where that leaves a choice, the largest is as small as
		 * possible */
		{ 34425, 3, { 0, 0, 0 }, { 51, 27, 25 } }, { 34425 * 7, 4, { 0, 7, 0, 0 }, { 51, 7, 27, 25 } },
		{ 20, 4, { 0, 0, 0, 0 }, { 5, 2, 2, 1 } }, { 1440, 4, { 0, 0, 0, 0 }, { 8, 6, 6, 5 } },
		{ 720720, 4, { 0, 0, 0, 0 }, { 33, 30, 28, 26 } }, { 1, 0, { 0 }, { 0 } }, { 1024, 1, { 0 }, { 1024 } },
	};
	int d[24];

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		memcpy(d, cases[i].in, sizeof(cases[i].in));
		CHECK_EQ(MPI_Dims_create(cases[i].n, cases[i].k, d), MPI_SUCCESS);
		if (memcmp(d, cases[i].out, (size_t)cases[i].k * sizeof(int)))
			test_fail(__FILE__, __LINE__, "%d in %d: %d %d %d %d", cases[i].n, cases[i].k, d[0], d[1], d[2], d[3]);
	}
	/* any number: the product is right, and the order descends; many divisors take no time */
	for (int n = 1; n < 200; n++) {
		int product = 1;

		memset(d, 0, sizeof(d));
		MPI_Dims_create(n, 5, d);
		for (int k = 0; k < 5; k++) {
			product *= d[k];
			CHECK(!k || d[k] <= d[k - 1]);
		}
		CHECK_EQ(product, n);
	}
	memset(d, 0, sizeof(d));
	MPI_Dims_create(1396755360, 20, d);
	CHECK(d[0] == 19 && d[19] == 1);
	/* against all ways there are */
	for (int n = 1; n <= 400; n++)
		for (int k = 1; k <= 5; k++) {
			int best = INT_MAX;

			memset(d, 0, sizeof(d));
			MPI_Dims_create(n, k, d);
			smallest_spread(n, k, n, 0, &best);
			CHECK_EQ(d[0] - d[k - 1], best);
		}
	for (int k = 1; k <= 24; k++)		/* 1536 divisors, 30 prime factors */
		for (int i = 0; i < 3; i++) {
			long long product = 1;

			memset(d, 0, sizeof(d));
			MPI_Dims_create(((int[]){ 2095133040, 1037836800, 1 << 30 })[i], k, d);
			for (int at = 0; at < k; at++)
				product *= d[at];
			CHECK_EQ(product, ((int[]){ 2095133040, 1037836800, 1 << 30 })[i]);
		}
}

/* ---- Cartesian ----------------------------------------------------------------------------------------- */

/* The neighbor by coordinates, or MPI_PROC_NULL. */
static int neighbor(MPI_Comm c, const int *dims, const int *periods, const int *at, int n, int d, int steps)
{
	int to[4], rank;

	memcpy(to, at, (size_t)n * sizeof(int));
	to[d] += steps;
	if (!periods[d] && (to[d] < 0 || to[d] >= dims[d]))
		return MPI_PROC_NULL;
	MPI_Cart_rank(c, to, &rank);
	return rank;
}

static void sub_grids(MPI_Comm c, int n, const int *dims, const int *at)
{
	MPI_Comm s;

	for (int keep = 0; keep < 1 << n; keep++) {
		int remain[4], nd, k = 0, size = 1, got, sd[4], sp[4], sc[4];

		for (int d = 0; d < n; d++)
			remain[d] = keep >> d & 1;
		MPI_Cart_sub(c, remain, &s);
		MPI_Cartdim_get(s, &nd);
		MPI_Cart_get(s, 4, sd, sp, sc);
		for (int d = 0; d < n; d++)
			if (remain[d]) {
				CHECK(sd[k] == dims[d] && sc[k] == at[d]);
				size *= dims[d];
				k++;
			}
		CHECK_EQ(nd, k);
		MPI_Comm_size(s, &got);
		CHECK_EQ(got, size);
		meet(s);
		MPI_Comm_free(&s);
	}
}

static void grid(int n, const int *want, const int *periods, int reorder)
{
	int dims[4], p[4], at[4], rank, size = 1, r, from, to, got, status, back;
	MPI_Comm c, d;

	for (int i = 0; i < n; i++)
		size *= want[i];
	MPI_Cart_create(MPI_COMM_WORLD, n, want, periods, reorder, &c);
	if (c == MPI_COMM_NULL) {
		CHECK(size < np && (reorder || me >= size));
		return;
	}
	MPI_Comm_size(c, &got);
	CHECK_EQ(got, size);
	MPI_Comm_rank(c, &rank);
	if (!reorder)
		CHECK_EQ(rank, me);
	MPI_Topo_test(c, &status);
	CHECK_EQ(status, MPI_CART);
	MPI_Cartdim_get(c, &got);
	CHECK_EQ(got, n);
	MPI_Cart_get(c, n, dims, p, at);
	MPI_Cart_rank(c, at, &r);
	CHECK_EQ(r, rank);
	for (r = 0; r < size; r++) {
		int x[4], sum = 0;

		MPI_Cart_coords(c, r, 4, x);
		for (int i = 0; i < n; i++) {
			CHECK(x[i] >= 0 && x[i] < want[i] && dims[i] == want[i] && !p[i] == !periods[i]);
			sum = sum * want[i] + x[i];
		}
		CHECK_EQ(sum, r);	/* row-major */
		MPI_Cart_rank(c, x, &back);
		CHECK_EQ(back, r);
	}
	for (int i = 0; i < n; i++)
		for (int steps = -3; steps <= 3; steps++) {
			MPI_Cart_shift(c, i, steps, &from, &to);
			CHECK_EQ(to, neighbor(c, dims, p, at, n, i, steps));
			CHECK_EQ(from, neighbor(c, dims, p, at, n, i, -steps));
			MPI_Sendrecv(&rank, 1, MPI_INT, to, 1, &got, 1, MPI_INT, from, 1, c, MPI_STATUS_IGNORE);
			if (from != MPI_PROC_NULL)
				CHECK_EQ(got, from);
		}
	sub_grids(c, n, dims, at);
	/* a duplicate has the topology, a split has not */
	MPI_Comm_dup(c, &d);
	MPI_Cartdim_get(d, &got);
	CHECK_EQ(got, n);
	MPI_Comm_free(&c);
	MPI_Cart_rank(d, at, &r);
	CHECK_EQ(r, rank);
	MPI_Comm_split(d, 0, 0, &c);
	MPI_Topo_test(c, &status);
	CHECK_EQ(status, MPI_UNDEFINED);
	MPI_Comm_free(&c);
	MPI_Comm_free(&d);
}

static void grids(void)
{
	int d[4], none[4] = { 0 }, all[4] = { 1, 1, 1, 1 }, mixed[4] = { 0, 1, 0, 1 }, r;

	for (int n = 0; n <= 3; n++)
		for (int reorder = 0; reorder < 2; reorder++) {
			memset(d, 0, sizeof(d));
			if (n)
				MPI_Dims_create(np, n, d);
			grid(n, d, none, reorder);
			grid(n, d, all, reorder);
			grid(n, d, mixed, reorder);
		}
	if (np > 2) {		/* smaller than the communicator */
		d[0] = np - 1, d[1] = 1;
		grid(2, d, mixed, 0);
		grid(2, d, mixed, 1);
	}
	d[0] = np > 1 ? np - 1 : 1;
	MPI_Cart_map(MPI_COMM_WORLD, 1, d, none, &r);
	CHECK_EQ(r, me < d[0] ? me : MPI_UNDEFINED);
}

/* ---- graphs -------------------------------------------------------------------------------------------- */

/* A ring with a chord to 0; node v has neighbors v + 1, v - 1 and 0, itself included. */
static void graph(int reorder)
{
	int index[16], edges[48], e = 0, n, m, rank, got[48], status, r;
	MPI_Comm c, d;

	for (int v = 0; v < np; v++) {
		edges[e++] = (v + 1) % np;
		edges[e++] = (v + np - 1) % np;
		if (v)
			edges[e++] = 0;
		index[v] = e;
	}
	MPI_Graph_create(MPI_COMM_WORLD, np, index, edges, reorder, &d);
	MPI_Comm_dup(d, &c);
	MPI_Comm_free(&d);
	MPI_Topo_test(c, &status);
	CHECK_EQ(status, MPI_GRAPH);
	MPI_Comm_rank(c, &rank);
	if (!reorder)
		CHECK_EQ(rank, me);
	MPI_Graphdims_get(c, &n, &m);
	CHECK(n == np && m == e);
	MPI_Graph_get(c, 16, 48, got, got + 16);
	CHECK(!memcmp(got, index, (size_t)np * sizeof(int)));
	MPI_Graph_get(c, np, e, got + e, got);
	CHECK(!memcmp(got, edges, (size_t)e * sizeof(int)));
	for (int v = 0; v < np; v++) {
		MPI_Graph_neighbors_count(c, v, &n);
		CHECK_EQ(n, v ? 3 : 2);
		MPI_Graph_neighbors(c, v, n, got);
		CHECK(got[0] == (v + 1) % np && got[1] == (v + np - 1) % np && (!v || got[2] == 0));
	}
	MPI_Comm_free(&c);
	MPI_Graph_map(MPI_COMM_WORLD, np, index, edges, &r);
	CHECK_EQ(r, me);
	/* of the first one only; of none */
	index[0] = 1, edges[0] = 0;
	MPI_Graph_create(MPI_COMM_WORLD, 1, index, edges, 0, &c);
	CHECK((c == MPI_COMM_NULL) == (me > 0));
	if (!me)
		MPI_Comm_free(&c);
	MPI_Graph_create(MPI_COMM_WORLD, 0, NULL, NULL, 0, &c);
	CHECK(c == MPI_COMM_NULL);
}

static int compare_pairs(const void *a, const void *b)
{
	return memcmp(a, b, 2 * sizeof(int));
}

/* Edges v -> v + 1 (weight 1 + v) and v -> 0 (weight 100), by: rank v + by specifies the edges of v; below 0: rank 0 specifies
 * all. */
static void dist_graph(int by, int weighted)
{
	int in[32][2], out[2][2], sources[32], sw[32], dests[32], dw[32], n = 0, i, indeg, outdeg, w, want = 0, status;
	int s[32], deg[32], to[32], weight[32];
	MPI_Comm c, d;

	for (int v = 0; v < np; v++)
		if ((v + by) % np == me) {
			s[n] = v, deg[n] = 2;
			to[2 * n] = (v + 1) % np, weight[2 * n] = 1 + v;
			to[2 * n + 1] = 0, weight[2 * n++ + 1] = 100;
		}
	if (by < 0) {		/* rank 0 tells all */
		n = me ? 0 : np;
		for (int v = 0; v < n; v++) {
			s[v] = v, deg[v] = 2;
			to[2 * v] = (v + 1) % np, weight[2 * v] = 1 + v;
			to[2 * v + 1] = 0, weight[2 * v + 1] = 100;
		}
	}
	MPI_Dist_graph_create(MPI_COMM_WORLD, n, s, deg, to, weighted ? weight : MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &d);
	MPI_Comm_dup(d, &c);
	MPI_Comm_free(&d);
	MPI_Topo_test(c, &status);
	CHECK_EQ(status, MPI_DIST_GRAPH);
	MPI_Dist_graph_neighbors_count(c, &indeg, &outdeg, &w);
	CHECK(indeg == 1 + (me ? 0 : np) && outdeg == 2 && !w == !weighted);
	MPI_Dist_graph_neighbors(c, 32, sources, weighted ? sw : MPI_UNWEIGHTED, 32, dests, weighted ? dw : MPI_UNWEIGHTED);
	for (i = 0; i < indeg; i++)
		in[i][0] = sources[i], in[i][1] = weighted ? sw[i] : 0;
	for (i = 0; i < 2; i++)
		out[i][0] = dests[i], out[i][1] = weighted ? dw[i] : 0;
	for (i = 0; i < indeg; i++)	/* the sum tells enough: every source is there once, the ring's neighbor as well */
		want += in[i][0] * 1000 + in[i][1];
	CHECK_EQ(want, ((me + np - 1) % np) * 1000 + (weighted ? 1 + (me + np - 1) % np : 0) +
		 (me ? 0 : np * (np - 1) / 2 * 1000 + (weighted ? 100 * np : 0)));
	qsort(out, 2, sizeof(*out), compare_pairs);
	CHECK(out[0][0] == 0 && (out[1][0] == (me + 1) % np));
	if (weighted)
		CHECK_EQ(out[0][1] + out[1][1], 101 + me);
	MPI_Dist_graph_neighbors(c, 1, sources, sw, 0, NULL, NULL);
	MPI_Comm_free(&c);
}

static void adjacent(void)
{
	int src[2] = { (me + np - 1) % np, me }, dst[1] = { (me + 1) % np }, sw[2] = { 5, 6 }, dw[1] = { 7 }, got[4], w[4];
	int in, out, weighted;
	MPI_Comm c;

	MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 2, src, sw, 1, dst, dw, MPI_INFO_NULL, 1, &c);
	MPI_Dist_graph_neighbors(c, 2, got, w, 1, got + 2, w + 2);
	CHECK(got[0] == src[0] && got[1] == me && got[2] == dst[0] && w[0] == 5 && w[1] == 6 && w[2] == 7);
	MPI_Comm_free(&c);
	MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 0, NULL, MPI_WEIGHTS_EMPTY, 0, NULL, MPI_WEIGHTS_EMPTY, MPI_INFO_NULL, 0,
				       &c);
	MPI_Dist_graph_neighbors_count(c, &in, &out, &weighted);
	CHECK(!in && !out && weighted);
	MPI_Comm_free(&c);
	MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 2, src, MPI_UNWEIGHTED, 1, dst, MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &c);
	MPI_Dist_graph_neighbors_count(c, &in, &out, &weighted);
	CHECK(in == 2 && out == 1 && !weighted);
	MPI_Comm_free(&c);
}

/* ---- errors ----------------------------------------------------------------------------------------- */

static void refused(void)
{
	int one[2] = {1, 1}, neg[2] = {1, -1}, big[2] = {np, 2}, zero[1] = {0}, idx[2] = {1, 0}, bad_edge[1] = {np}, r;
	int a, b, d2[2] = { 4, 0 };
	MPI_Comm c, cart, none = MPI_COMM_NULL;

	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
	CHECK_EQ(class_of(MPI_Cart_create(none, 1, one, one, 0, &c)), MPI_ERR_COMM);
	CHECK_EQ(class_of(MPI_Cart_create(MPI_COMM_WORLD, -1, one, one, 0, &c)), MPI_ERR_DIMS);
	CHECK_EQ(class_of(MPI_Cart_create(MPI_COMM_WORLD, 2, neg, one, 0, &c)), MPI_ERR_DIMS);
	CHECK_EQ(class_of(MPI_Cart_create(MPI_COMM_WORLD, 2, big, one, 0, &c)), MPI_ERR_DIMS);
	CHECK_EQ(class_of(MPI_Cart_create(MPI_COMM_WORLD, 1, zero, one, 0, &c)), MPI_ERR_DIMS);
	CHECK_EQ(class_of(MPI_Cart_create(MPI_COMM_WORLD, 1, NULL, one, 0, &c)), MPI_ERR_ARG);
	CHECK_EQ(class_of(MPI_Cart_create(MPI_COMM_WORLD, 1, one, one, 0, NULL)), MPI_ERR_ARG);
	CHECK_EQ(class_of(MPI_Cart_map(MPI_COMM_WORLD, 2, big, one, &r)), MPI_ERR_DIMS);
	CHECK_EQ(class_of(MPI_Cartdim_get(MPI_COMM_WORLD, &r)), MPI_ERR_TOPOLOGY);
	CHECK_EQ(class_of(MPI_Cart_rank(MPI_COMM_WORLD, one, &r)), MPI_ERR_TOPOLOGY);
	CHECK_EQ(class_of(MPI_Cart_sub(MPI_COMM_WORLD, one, &c)), MPI_ERR_TOPOLOGY);
	CHECK_EQ(class_of(MPI_Graphdims_get(MPI_COMM_WORLD, &a, &b)), MPI_ERR_TOPOLOGY);
	CHECK_EQ(class_of(MPI_Dist_graph_neighbors_count(MPI_COMM_WORLD, &a, &b, &r)), MPI_ERR_TOPOLOGY);
	CHECK_EQ(class_of(MPI_Topo_test(none, &r)), MPI_ERR_COMM);
	big[1] = 1;
	MPI_Cart_create(MPI_COMM_WORLD, 2, big, (int[]){ 0, 1 }, 0, &cart);
	MPI_Comm_set_errhandler(cart, MPI_ERRORS_RETURN);
	CHECK_EQ(class_of(MPI_Graphdims_get(cart, &a, &b)), MPI_ERR_TOPOLOGY);
	CHECK_EQ(class_of(MPI_Cart_rank(cart, (int[]){ np, 0 }, &r)), MPI_ERR_ARG);
	CHECK_EQ(class_of(MPI_Cart_rank(cart, (int[]){ -1, 0 }, &r)), MPI_ERR_ARG);
	CHECK_EQ(class_of(MPI_Cart_coords(cart, np, 2, d2)), MPI_ERR_RANK);
	CHECK_EQ(class_of(MPI_Cart_coords(cart, 0, 1, d2)), MPI_ERR_DIMS);
	CHECK_EQ(class_of(MPI_Cart_get(cart, 1, d2, d2, d2)), MPI_ERR_DIMS);
	CHECK_EQ(class_of(MPI_Cart_shift(cart, 2, 1, &a, &b)), MPI_ERR_ARG);
	CHECK_EQ(class_of(MPI_Cart_shift(cart, -1, 1, &a, &b)), MPI_ERR_ARG);
	MPI_Comm_free(&cart);
	d2[0] = 4, d2[1] = 0;
	CHECK_EQ(class_of(MPI_Dims_create(6, 2, d2)), MPI_ERR_DIMS);
	CHECK_EQ(class_of(MPI_Dims_create(6, 2, neg)), MPI_ERR_DIMS);
	CHECK_EQ(class_of(MPI_Dims_create(0, 2, d2)), MPI_ERR_ARG);
	CHECK_EQ(class_of(MPI_Dims_create(6, 2, one)), MPI_ERR_DIMS);
	CHECK_EQ(class_of(MPI_Graph_create(MPI_COMM_WORLD, np + 1, one, one, 0, &c)), MPI_ERR_TOPOLOGY);
	CHECK_EQ(class_of(MPI_Graph_create(MPI_COMM_WORLD, 1, one, bad_edge, 0, &c)), MPI_ERR_TOPOLOGY);
	if (np > 1)
		CHECK_EQ(class_of(MPI_Graph_create(MPI_COMM_WORLD, 2, idx, zero, 0, &c)), MPI_ERR_TOPOLOGY);
	CHECK_EQ(class_of(MPI_Dist_graph_create(MPI_COMM_WORLD, 1, bad_edge, one, zero, MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &c)),
		 MPI_ERR_RANK);
	CHECK_EQ(class_of(MPI_Dist_graph_create(MPI_COMM_WORLD, 1, zero, neg + 1, zero, MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &c)),
		 MPI_ERR_ARG);
	CHECK_EQ(class_of(MPI_Dist_graph_create(MPI_COMM_WORLD, 1, zero, one, bad_edge, MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &c)),
		 MPI_ERR_RANK);
	CHECK_EQ(class_of(MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, zero, neg + 1, 0, NULL, MPI_WEIGHTS_EMPTY,
							 MPI_INFO_NULL, 0, &c)),
		 MPI_ERR_ARG);
	CHECK_EQ(class_of(MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, -1, zero, one, 0, NULL, one, MPI_INFO_NULL, 0, &c)),
		 MPI_ERR_ARG);
}

int main(int argc, char **argv)
{
	test_init(&argc, &argv);
	dims_create();
	grids();
	graph(0);
	graph(1);
	for (int by = -1; by < 2; by++)
		for (int weighted = 0; weighted < 2; weighted++)
			dist_graph(by, weighted);
	adjacent();
	refused();
	test_done("topologies");
	return 0;
}
