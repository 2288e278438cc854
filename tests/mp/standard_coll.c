/* SPDX-License-Identifier: BSD-3-Clause */
/* Collective communication: chapter 6. */
#include "standard.h"

#include <complex.h>

#define WORLD	MPI_COMM_WORLD
#define MAX	8		/* ranks */

static int last;		/* the root in calls with a root other than 0 */

/* ---- 6.4 to 6.8: moving data ------------------------------------------------------------------------------- */

static void bcast(void)
{
	int a[100];

	for (int root = 0; root < np; root++) {
		for (int i = 0; i < 100; i++)
			a[i] = me == root ? root * 1000 + i : -1;
		MPI_Bcast(a, 100, MPI_INT, root, WORLD);
		for (int i = 0; i < 100; i++)
			CHECK_EQ(a[i], root * 1000 + i);
	}
}

/* A hundred of each rank; received as ints, as one element of a type of a hundred, and in place. */
static void gather(void)
{
	int mine[100], *all = malloc(sizeof(int) * 100 * np);
	MPI_Datatype hundred;

	MPI_Type_contiguous(100, MPI_INT, &hundred);
	MPI_Type_commit(&hundred);
	for (int form = 0; form < 3; form++) {
		memset(all, 0xff, sizeof(int) * 100 * np);
		for (int i = 0; i < 100; i++)
			mine[i] = me * 100 + i + form;
		if (form == 2 && me == last)
			memcpy(all + 100 * me, mine, sizeof(mine));
		MPI_Gather(form == 2 && me == last ? MPI_IN_PLACE : mine, 100, MPI_INT, all, form == 1 ? 1 : 100,
			   form == 1 ? hundred : MPI_INT, last, WORLD);
		for (int i = 0; me == last && i < 100 * np; i++)
			CHECK_EQ(all[i], i + form);
	}
	MPI_Type_free(&hundred);
	free(all);
}

/* Each rank's hundred elements, at a stride that differs by rank; then fewer of each; then columns of a matrix; the gaps are not
 * touched. */
static void gatherv(void)
{
	enum { STRIDE = 137, N = 30 };
	int mine[100], matrix[N][N], counts[MAX], at[MAX], *all = malloc(sizeof(int) * STRIDE * np);
	MPI_Datatype column;

	for (int i = 0; i < 100; i++)
		mine[i] = me * 1000 + i;
	for (int i = 0; i < N * N; i++)
		matrix[i / N][i % N] = me * 10000 + i;
	for (int form = 0; form < 3; form++) {
		for (int i = 0; i < np; i++) {
			at[i] = i * STRIDE;
			counts[i] = form == 0 ? 100 : form == 1 ? 100 - i : N - i;
		}
		memset(all, 0xff, sizeof(int) * STRIDE * np);
		if (form < 2) {
			MPI_Gatherv(mine, counts[me], MPI_INT, all, counts, at, MPI_INT, 0, WORLD);
		} else {	/* the lower end of column me */
			MPI_Type_vector(N - me, 1, N, MPI_INT, &column);
			MPI_Type_commit(&column);
			MPI_Gatherv(&matrix[me][me], 1, column, all, counts, at, MPI_INT, 0, WORLD);
			MPI_Type_free(&column);
		}
		for (int i = 0; !me && i < np; i++)
			for (int k = 0; k < STRIDE; k++)
				CHECK_EQ(all[at[i] + k], k >= counts[i] ? -1 :
							 form < 2       ? i * 1000 + k :
									  i * 10000 + (i + k) * N + i);
	}
	free(all);
}

/* The root gathers the counts first, and chooses the displacements. */
static void gather_unknown(void)
{
	int n = me * me % 5 + (me == 1), mine[32], counts[MAX], at[MAX], *all = NULL, total = 0;

	for (int i = 0; i < n; i++)
		mine[i] = me * 10 + i;
	MPI_Gather(&n, 1, MPI_INT, counts, 1, MPI_INT, last, WORLD);
	if (me == last) {
		for (int i = np; i-- > 0;) {	/* the last rank's come first */
			at[i] = total;
			total += counts[i];
		}
		all = malloc(sizeof(int) * (total + 1));
	}
	MPI_Gatherv(mine, n, MPI_INT, all, counts, at, MPI_INT, last, WORLD);
	for (int i = 0; me == last && i < np; i++) {
		CHECK_EQ(counts[i], i * i % 5 + (i == 1));
		for (int k = 0; k < counts[i]; k++)
			CHECK_EQ(all[at[i] + k], i * 10 + k);
	}
	free(all);
}

static void scatter(void)
{
	enum { STRIDE = 150 };
	int mine[100], counts[MAX], at[MAX], *all = malloc(sizeof(int) * STRIDE * np);

	for (int i = 0; i < STRIDE * np; i++)
		all[i] = i;
	MPI_Scatter(all, 100, MPI_INT, mine, 100, MPI_INT, 0, WORLD);
	for (int i = 0; i < 100; i++)
		CHECK_EQ(mine[i], me * 100 + i);
	for (int i = 0; i < np; i++) {
		at[i] = i * STRIDE + 7;
		counts[i] = 100 - 9 * i;
	}
	memset(mine, 0xff, sizeof(mine));
	if (me == last)		/* the root's own part stays in place */
		MPI_Scatterv(all, counts, at, MPI_INT, MPI_IN_PLACE, 0, MPI_INT, last, WORLD);
	else
		MPI_Scatterv(NULL, NULL, NULL, MPI_INT, mine, counts[me], MPI_INT, last, WORLD);
	for (int i = 0; me != last && i < 100; i++)
		CHECK_EQ(mine[i], i < counts[me] ? me * STRIDE + 7 + i : -1);
	for (int i = 0; i < STRIDE * np; i++)
		CHECK_EQ(all[i], i);
	free(all);
}

/* Arguments that are significant at the root only may be anything at other ranks; so may those that MPI_IN_PLACE replaces. */
static void insignificant(void)
{
	static int *volatile address = (int *)16;	/* volatile, so that the compiler does not warn of an invalid address */
	int v = me + 1, w[MAX], counts[MAX], at[MAX], *nowhere = address, root = me == last;
	MPI_Datatype none = MPI_DATATYPE_NULL;

	for (int i = 0; i < np; i++) {
		counts[i] = 1;
		at[i] = np - 1 - i;
	}
	memset(w, 0xff, sizeof(w));
	w[me] = v;
	MPI_Gather(root ? MPI_IN_PLACE : &v, root ? -1 : 1, root ? none : MPI_INT, root ? w : nowhere, root ? 1 : -1,
		   root ? MPI_INT : none, last, WORLD);
	for (int i = 0; root && i < np; i++)
		CHECK_EQ(w[i], i + 1);
	MPI_Gatherv(&v, 1, MPI_INT, root ? w : nowhere, root ? counts : nowhere, root ? at : nowhere, root ? MPI_INT : none, last,
		    WORLD);
	for (int i = 0; root && i < np; i++)
		CHECK_EQ(w[i], np - i);
	v = -1;
	MPI_Scatterv(root ? w : nowhere, root ? counts : nowhere, root ? at : nowhere, root ? MPI_INT : none, &v, 1, MPI_INT,
		     last, WORLD);
	CHECK_EQ(v, me + 1);
	v = -1;
	MPI_Scatter(root ? w : nowhere, root ? 1 : -1, root ? MPI_INT : none, root ? MPI_IN_PLACE : &v, root ? -1 : 1,
		    root ? none : MPI_INT, last, WORLD);
	CHECK_EQ(v, root ? -1 : np - me);
	v = me;
	MPI_Reduce(&v, root ? w : nowhere, 1, MPI_INT, MPI_SUM, last, WORLD);
	if (root)
		CHECK_EQ(w[0], np * (np - 1) / 2);
	w[me] = me;
	MPI_Allgather(MPI_IN_PLACE, -1, none, w, 1, MPI_INT, WORLD);
	for (int i = 0; i < np; i++)
		CHECK_EQ(w[i], i);
	/* nothing at all */
	MPI_Bcast(NULL, 0, MPI_INT, 0, WORLD);
	MPI_Alltoall(NULL, 0, MPI_INT, NULL, 0, MPI_INT, WORLD);
	MPI_Allreduce(NULL, NULL, 0, MPI_INT, MPI_SUM, WORLD);
}

static void all_to_all(void)
{
	int mine[3] = { me, 2 * me, 3 * me }, all[3 * MAX], out[MAX], in[MAX], counts[MAX], at[MAX], total = 0;
	int scounts[MAX], rcounts[MAX], sat[MAX], rat[MAX], big_out[MAX * MAX], big_in[MAX * MAX];
	MPI_Datatype types[MAX];

	MPI_Allgather(mine, 3, MPI_INT, all, 3, MPI_INT, WORLD);
	for (int i = 0; i < 3 * np; i++)
		CHECK_EQ(all[i], i / 3 * (i % 3 + 1));
	for (int i = 0; i < np; i++) {
		counts[i] = (i + 1) % 4;
		at[i] = total;
		total += counts[i];
	}
	memset(all, 0xff, sizeof(all));
	MPI_Allgatherv(mine, counts[me], MPI_INT, all, counts, at, MPI_INT, WORLD);
	for (int i = 0; i < np; i++)
		for (int k = 0; k < counts[i]; k++)
			CHECK_EQ(all[at[i] + k], i * (k + 1));
	for (int i = 0; i < np; i++)
		out[i] = me * 10 + i;
	MPI_Alltoall(out, 1, MPI_INT, in, 1, MPI_INT, WORLD);
	for (int i = 0; i < np; i++)
		CHECK_EQ(in[i], i * 10 + me);
	MPI_Alltoall(MPI_IN_PLACE, 0, MPI_INT, in, 1, MPI_INT, WORLD);
	for (int i = 0; i < np; i++)
		CHECK_EQ(in[i], me * 10 + i);
	/* to rank i, i elements; and by bytes and types */
	for (int w = 0; w < 2; w++) {
		for (int i = 0; i < np; i++) {
			int unit = w ? (int)sizeof(int) : 1;

			scounts[i] = i;
			rcounts[i] = me;
			sat[i] = i * MAX * unit;
			rat[i] = (np - 1 - i) * MAX * unit;
			types[i] = MPI_INT;
			for (int k = 0; k < MAX; k++)
				big_out[i * MAX + k] = me * 100 + i * 10 + k;
		}
		memset(big_in, 0xff, sizeof(big_in));
		if (w)
			MPI_Alltoallw(big_out, scounts, sat, types, big_in, rcounts, rat, types, WORLD);
		else
			MPI_Alltoallv(big_out, scounts, sat, MPI_INT, big_in, rcounts, rat, MPI_INT, WORLD);
		for (int i = 0; i < np; i++)
			for (int k = 0; k < MAX; k++)
				CHECK_EQ(big_in[(np - 1 - i) * MAX + k], k < me ? i * 100 + me * 10 + k : -1);
	}
}

/* A matrix that lies in rows is transposed: each rank's columns are sent by a type of that rank. */
static void transpose(void)
{
	enum { K = 3 };			/* rows of a rank */
	int a[K][K * MAX], b[K][K * MAX], n = K * np;
	MPI_Datatype block, in_order, landing, by_block;

	for (int i = 0; i < K; i++)
		for (int j = 0; j < n; j++)
			a[i][j] = (me * K + i) * 1000 + j;
	/* K columns of this rank's rows, column by column; received by rows */
	MPI_Type_vector(K, 1, K * MAX, MPI_INT, &block);
	MPI_Type_create_hvector(K, 1, sizeof(int), block, &in_order);
	MPI_Type_create_resized(in_order, 0, K * sizeof(int), &by_block);
	MPI_Type_free(&in_order);
	MPI_Type_vector(K, K, K * MAX, MPI_INT, &in_order);
	MPI_Type_create_resized(in_order, 0, K * sizeof(int), &landing);
	MPI_Type_commit(&by_block);
	MPI_Type_commit(&landing);
	MPI_Alltoall(a, 1, by_block, b, 1, landing, WORLD);
	for (int i = 0; i < K; i++)
		for (int j = 0; j < n; j++)
			CHECK_EQ(b[i][j], j * 1000 + me * K + i);
	MPI_Type_free(&block);
	MPI_Type_free(&in_order);
	MPI_Type_free(&landing);
	MPI_Type_free(&by_block);
}

/* ---- 6.9: reductions ----------------------------------------------------------------------------------------- */

/* The product of two distributed vectors, and of a vector and a matrix with distributed rows. */
static void dot_products(void)
{
	enum { M = 12, N = 9 };
	double a[M], b[M], sum = 0, all = 0, x[M], y[N], c[N] = { 0 }, want;

	for (int i = 0; i < M; i++) {
		a[i] = me * M + i + 1;
		b[i] = 2;
		sum += a[i] * b[i];
		x[i] = me * M + i;
	}
	MPI_Reduce(&sum, &all, 1, MPI_DOUBLE, MPI_SUM, last, WORLD);
	if (me == last)
		CHECK(all == (double)np * M * (np * M + 1));
	for (int j = 0; j < N; j++)
		for (int i = 0; i < M; i++)
			c[j] += x[i] * (j + 1);
	MPI_Reduce(c, y, N, MPI_DOUBLE, MPI_SUM, 0, WORLD);
	for (int j = 0; !me && j < N; j++) {
		want = (double)np * M * (np * M - 1) / 2 * (j + 1);
		CHECK(y[j] == want);
	}
	MPI_Allreduce(MPI_IN_PLACE, c, N, MPI_DOUBLE, MPI_SUM, WORLD);
	for (int j = 0; j < N; j++)
		CHECK(c[j] == (double)np * M * (np * M - 1) / 2 * (j + 1));
}

/* MPI_MAXLOC: the maximum of each column and the rank of the maximum; of equal values the lowest index. */
static void locations(void)
{
	enum { N = 30 };
	struct {
		double value;
		int rank;
	} in[N], out[N];
	struct {
		float value;
		int index;
	} f = { (float)(me / 2), me }, low;
	struct {
		short value;
		int index;
	} h = { (short)-me, me }, least;
	struct {
		long value;
		int index;
	} g = { 5, np - me }, first;
	int pair[2] = { me % 3, me }, top[2];

	for (int i = 0; i < N; i++) {
		in[i].value = (me * 7 + i * 3) % 11;
		in[i].rank = me;
	}
	MPI_Reduce(in, out, N, MPI_DOUBLE_INT, MPI_MAXLOC, last, WORLD);
	for (int i = 0; me == last && i < N; i++) {
		int best = 0;

		for (int r = 1; r < np; r++)
			if ((r * 7 + i * 3) % 11 > (best * 7 + i * 3) % 11)
				best = r;
		CHECK_EQ(out[i].rank, best);
		CHECK(out[i].value == (best * 7 + i * 3) % 11);
	}
	MPI_Allreduce(&f, &low, 1, MPI_FLOAT_INT, MPI_MINLOC, WORLD);
	CHECK(low.value == 0 && low.index == 0);
	MPI_Allreduce(&h, &least, 1, MPI_SHORT_INT, MPI_MINLOC, WORLD);
	CHECK(least.value == -(np - 1) && least.index == np - 1);
	MPI_Allreduce(&g, &first, 1, MPI_LONG_INT, MPI_MAXLOC, WORLD);
	CHECK(first.value == 5 && first.index == 1);
	MPI_Allreduce(pair, top, 1, MPI_2INT, MPI_MAXLOC, WORLD);
	CHECK(top[0] == (np > 2 ? 2 : np - 1) && top[1] == top[0]);
}

/* The minimum of values that are distributed in blocks: the index is global, the rank follows from the index. */
static void global_minimum(void)
{
	enum { N = 40 };
	struct {
		float value;
		int index;
	} in, out;
	float values[N];
	int lowest = (3 * np * N) / 4;

	for (int i = 0; i < N; i++)
		values[i] = (float)((me * N + i - lowest) * (me * N + i - lowest) + 2);
	in.value = values[0];
	in.index = 0;
	for (int i = 1; i < N; i++)
		if (values[i] < in.value) {
			in.value = values[i];
			in.index = i;
		}
	in.index += me * N;
	MPI_Reduce(&in, &out, 1, MPI_FLOAT_INT, MPI_MINLOC, 0, WORLD);
	if (!me)
		CHECK(out.value == 2 && out.index == lowest && out.index / N < np);
}

/* ---- 6.9.5: operations of the program's ----------------------------------------------------------------------- */

static void complex_product(void *in, void *inout, int *len, MPI_Datatype *type)
{
	double complex *a = in, *b = inout;

	(void)type;
	for (int i = 0; i < *len; i++)
		b[i] *= a[i];
}

/* A type of the program's, of two doubles; commutative. */
static void products(void)
{
	enum { N = 50 };
	double complex a[N], b[N], want[N];
	MPI_Datatype pair;
	MPI_Op op;

	MPI_Type_contiguous(2, MPI_DOUBLE, &pair);
	MPI_Type_commit(&pair);
	MPI_Op_create(complex_product, 1, &op);
	for (int i = 0; i < N; i++) {
		a[i] = me % 2 ? 1 + I : (i % 3) - I;
		want[i] = 1;
		for (int r = 0; r < np; r++)
			want[i] *= r % 2 ? 1 + I : (i % 3) - I;
	}
	MPI_Reduce(a, b, N, pair, op, last, WORLD);
	for (int i = 0; me == last && i < N; i++)
		CHECK(b[i] == want[i]);		/* small integers: exact in any order */
	MPI_Op_free(&op);
	CHECK(op == MPI_OP_NULL);
	MPI_Type_free(&pair);
}

/* x -> a x + b, one after the other: associative, and the order counts. */
struct line {
	long a, b;
};

static void then(void *in, void *inout, int *len, MPI_Datatype *type)
{
	struct line *f = in, *g = inout;	/* first f, of the lower rank, then g */
	int size;

	MPI_Type_size(*type, &size);
	CHECK_EQ(size, sizeof(struct line));
	for (int i = 0; i < *len; i++)
		g[i] = (struct line){ g[i].a * f[i].a, g[i].a * f[i].b + g[i].b };
}

static struct line lines_of(int from, int to, int i)
{
	struct line l = { 1, 0 }, m;
	int one = 1;
	MPI_Datatype type;

	MPI_Type_contiguous(2, MPI_LONG, &type);
	for (int r = from; r < to; r++) {
		m = (struct line){ r % 2 + 2, r + i };
		then(&l, &m, &one, &type);
		l = m;
	}
	MPI_Type_free(&type);
	return l;
}

static void same_line(struct line a, struct line b)
{
	CHECK_EQ(a.a, b.a);
	CHECK_EQ(a.b, b.b);
}

/* Not commutative: the ranks' order holds in every reduction. */
static void in_order(void)
{
	enum { N = 5 };
	struct line a[N * MAX], b[N * MAX];
	int counts[MAX], first = 0, flag;
	MPI_Datatype type;
	MPI_Op op;

	MPI_Type_contiguous(2, MPI_LONG, &type);
	MPI_Type_commit(&type);
	MPI_Op_create(then, 0, &op);
	MPI_Op_commutative(op, &flag);
	CHECK(!flag);
	MPI_Op_commutative(MPI_MAXLOC, &flag);
	CHECK(flag);
	for (int i = 0; i < N * np; i++)
		a[i] = (struct line){ me % 2 + 2, me + i };
	MPI_Reduce(a, b, N, type, op, last, WORLD);
	for (int i = 0; me == last && i < N; i++)
		same_line(b[i], lines_of(0, np, i));
	MPI_Allreduce(a, b, N, type, op, WORLD);
	for (int i = 0; i < N; i++)
		same_line(b[i], lines_of(0, np, i));
	MPI_Scan(a, b, N, type, op, WORLD);
	for (int i = 0; i < N; i++)
		same_line(b[i], lines_of(0, me + 1, i));
	MPI_Exscan(a, b, N, type, op, WORLD);
	for (int i = 0; me && i < N; i++)
		same_line(b[i], lines_of(0, me, i));
	MPI_Reduce_scatter_block(a, b, N, type, op, WORLD);
	for (int i = 0; i < N; i++)
		same_line(b[i], lines_of(0, np, me * N + i));
	for (int i = 0; i < np; i++) {
		counts[i] = i % N;
		first += i < me ? counts[i] : 0;
	}
	MPI_Reduce_scatter(a, b, counts, type, op, WORLD);
	for (int i = 0; i < counts[me]; i++)
		same_line(b[i], lines_of(0, np, first + i));
	b[0] = lines_of(1, 2, 0);
	a[0] = lines_of(0, 1, 0);
	MPI_Reduce_local(a, b, 1, type, op);
	same_line(b[0], lines_of(0, 2, 0));
	MPI_Op_free(&op);
	MPI_Type_free(&type);
}

/* A sum that begins anew wherever the number of the segment changes. */
struct segmented {
	double value;
	int segment;
};

static void segmented_sum(void *in, void *inout, int *len, MPI_Datatype *type)
{
	struct segmented *a = in, *b = inout;

	(void)type;
	for (int i = 0; i < *len; i++)
		if (a[i].segment == b[i].segment)
			b[i].value += a[i].value;
}

static void segmented_scan(void)
{
	struct segmented a = { me + 1, me / 3 }, b = { 0, 0 };
	MPI_Datatype types[2] = { MPI_DOUBLE, MPI_INT }, t;
	MPI_Aint at[2] = { 0, sizeof(double) };
	int ones[2] = { 1, 1 };
	double want = 0;
	MPI_Op op;

	MPI_Type_create_struct(2, ones, at, types, &t);
	MPI_Type_commit(&t);
	MPI_Op_create(segmented_sum, 0, &op);
	MPI_Scan(&a, &b, 1, t, op, WORLD);
	for (int r = me / 3 * 3; r <= me; r++)
		want += r + 1;
	CHECK(b.value == want && b.segment == me / 3);
	MPI_Op_free(&op);
	MPI_Type_free(&t);
}

static void in_place(void)
{
	int v = me + 1, w[MAX], sum = np * (np + 1) / 2;

	MPI_Allreduce(MPI_IN_PLACE, &v, 1, MPI_INT, MPI_SUM, WORLD);
	CHECK_EQ(v, sum);
	v = me + 1;
	MPI_Reduce(me == last ? MPI_IN_PLACE : &v, &v, 1, MPI_INT, MPI_SUM, last, WORLD);
	CHECK_EQ(v, me == last ? sum : me + 1);
	v = me + 1;
	MPI_Scan(MPI_IN_PLACE, &v, 1, MPI_INT, MPI_SUM, WORLD);
	CHECK_EQ(v, (me + 1) * (me + 2) / 2);
	v = me + 1;
	MPI_Exscan(MPI_IN_PLACE, &v, 1, MPI_INT, MPI_SUM, WORLD);
	CHECK_EQ(v, me ? me * (me + 1) / 2 : 1);	/* the value of rank 0 is not touched */
	for (int i = 0; i < np; i++)
		w[i] = me + i;
	MPI_Reduce_scatter_block(MPI_IN_PLACE, w, 1, MPI_INT, MPI_MAX, WORLD);
	CHECK_EQ(w[0], np - 1 + me);
	w[me] = me * me;
	MPI_Allgather(MPI_IN_PLACE, 0, MPI_INT, w, 1, MPI_INT, WORLD);
	for (int i = 0; i < np; i++)
		CHECK_EQ(w[i], i * i);
}

/* ---- 6.12 to 6.14: nonblocking, and operations at the same time ------------------------------------------------- */

/* Each rank is the root of a pipeline of broadcasts; all are under way at once, and are waited for in any order. */
static void pipelined(void)
{
	enum { DEPTH = 8, N = 600 };
	static int data[DEPTH][N];
	MPI_Request r[DEPTH];
	int index;

	for (int k = 0; k < DEPTH; k++) {
		for (int i = 0; i < N; i++)
			data[k][i] = me == k % np ? k * 10000 + i : -1;
		MPI_Ibcast(data[k], N, MPI_INT, k % np, WORLD, &r[k]);
	}
	for (int k = 0; k < DEPTH; k++) {
		MPI_Waitany(DEPTH, r, &index, MPI_STATUS_IGNORE);
		CHECK(index != MPI_UNDEFINED);
		for (int i = 0; i < N; i++)
			CHECK_EQ(data[index][i], index * 10000 + i);
	}
}

/* A broadcast between a send and the matching receive: neither takes the other's message, and with nonblocking operations no rank
 * waits. */
static void beside_messages(void)
{
	int v = -1, w = -1, right = (me + 1) % np, left = (me + np - 1) % np;
	MPI_Request r[3];

	MPI_Irecv(&v, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, WORLD, &r[0]);
	if (!me)
		w = 77;
	MPI_Bcast(&w, 1, MPI_INT, 0, WORLD);
	CHECK_EQ(w, 77);
	MPI_Send(&me, 1, MPI_INT, right, 0, WORLD);
	MPI_Wait(&r[0], MPI_STATUS_IGNORE);
	CHECK_EQ(v, left);
	/* rank 1 receives before its broadcast, rank 0 sends after: the nonblocking broadcast does not keep rank 0 from
	 * sending */
	w = me ? -1 : 78;
	if (me == 0) {
		MPI_Ibcast(&w, 1, MPI_INT, 0, WORLD, &r[0]);
		if (np > 1)
			MPI_Send(&me, 1, MPI_INT, 1, 1, WORLD);
	} else {
		if (me == 1)
			MPI_Recv(&v, 1, MPI_INT, 0, 1, WORLD, MPI_STATUS_IGNORE);
		MPI_Ibcast(&w, 1, MPI_INT, 0, WORLD, &r[0]);
	}
	MPI_Wait(&r[0], MPI_STATUS_IGNORE);
	CHECK_EQ(w, 78);
}

/* Communicators that overlap in a circle: each of three ranks starts on two of them, which blocking calls could not. */
static void circle(void)
{
	int data[3] = { -1, -1, -1 };
	MPI_Request r[2];
	MPI_Comm c[3];

	for (int i = 0; i < 3; i++)	/* i and the next rank */
		MPI_Comm_split(WORLD, me == i || me == (i + 1) % 3 ? 0 : MPI_UNDEFINED, me == i ? 0 : 1, &c[i]);
	if (me < 3) {
		int own = me, before = (me + 2) % 3;

		data[own] = 100 + me;
		MPI_Ibcast(&data[own], 1, MPI_INT, 0, c[own], &r[0]);
		MPI_Ibcast(&data[before], 1, MPI_INT, 0, c[before], &r[1]);
		MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
		CHECK_EQ(data[before], 100 + before);
		MPI_Comm_free(&c[own]);
		MPI_Comm_free(&c[before]);
	}
}

/* Only the senders know the receivers: synchronous sends, and a nonblocking barrier that completes when all
 * messages were received. */
static void sparse_exchange(void)
{
	int out[MAX], n = 0, got = 0, want = 0, flag, done = 0, barrier = 0, v;
	MPI_Request r[MAX], b;
	MPI_Comm comm;
	MPI_Status s;

	MPI_Comm_dup(WORLD, &comm);
	for (int to = 0; to < np; to++) {
		if ((me + 2 * to) % 3 == 0) {
			out[n] = me * 100 + to;
			MPI_Issend(&out[n], 1, MPI_INT, to, 0, comm, &r[n]);
			n++;
		}
		want += (to + 2 * me) % 3 == 0;
	}
	while (!done) {
		MPI_Iprobe(MPI_ANY_SOURCE, 0, comm, &flag, &s);
		if (flag) {
			MPI_Recv(&v, 1, MPI_INT, s.MPI_SOURCE, 0, comm, MPI_STATUS_IGNORE);
			CHECK_EQ(v, s.MPI_SOURCE * 100 + me);
			got++;
		}
		if (barrier) {
			MPI_Test(&b, &done, MPI_STATUS_IGNORE);
		} else {
			MPI_Testall(n, r, &flag, MPI_STATUSES_IGNORE);
			if (flag) {
				MPI_Ibarrier(comm, &b);
				barrier = 1;
			}
		}
	}
	CHECK_EQ(got, want);
	MPI_Comm_free(&comm);
}

/* All nonblocking ones at a time, on one communicator, finished by one call. */
static void all_at_once(void)
{
	int a[MAX], b[MAX], c[MAX], d[MAX], e[MAX], in[MAX], ones[MAX], sum = 0, prefix = 0, v = me + 1, w = me ? -1 : 9;
	MPI_Request r[7];

	for (int i = 0; i < np; i++) {
		in[i] = me * 10 + i;
		ones[i] = 1;
	}
	MPI_Iallreduce(&v, &sum, 1, MPI_INT, MPI_SUM, WORLD, &r[0]);
	MPI_Ialltoall(in, 1, MPI_INT, a, 1, MPI_INT, WORLD, &r[1]);
	MPI_Iallgather(&v, 1, MPI_INT, b, 1, MPI_INT, WORLD, &r[2]);
	MPI_Iscan(&v, &prefix, 1, MPI_INT, MPI_SUM, WORLD, &r[3]);
	MPI_Ibcast(&w, 1, MPI_INT, 0, WORLD, &r[4]);
	MPI_Igather(&v, 1, MPI_INT, c, 1, MPI_INT, last, WORLD, &r[5]);
	MPI_Ireduce_scatter(in, d, ones, MPI_INT, MPI_SUM, WORLD, &r[6]);
	MPI_Waitall(7, r, MPI_STATUSES_IGNORE);
	CHECK_EQ(sum, np * (np + 1) / 2);
	CHECK_EQ(prefix, (me + 1) * (me + 2) / 2);
	CHECK_EQ(w, 9);
	CHECK_EQ(d[0], 10 * np * (np - 1) / 2 + np * me);
	for (int i = 0; i < np; i++) {
		CHECK_EQ(a[i], i * 10 + me);
		CHECK_EQ(b[i], i + 1);
		CHECK(me != last || c[i] == i + 1);
		e[i] = -1;
	}
	MPI_Iscatter(in, 1, MPI_INT, e, 1, MPI_INT, last, WORLD, &r[0]);
	FAILS(MPI_Cancel(&r[0]), MPI_ERR_REQUEST);
	MPI_Wait(&r[0], MPI_STATUS_IGNORE);
	CHECK_EQ(e[0], last * 10 + me);
}

static const struct standard_case cases[] = {
	{ "6.4", "bcast", 1, bcast },
	{ "6.5", "gather", 1, gather },
	{ "6.5", "gatherv", 1, gatherv },
	{ "6.5", "gather_unknown", 1, gather_unknown },
	{ "6.6", "scatter", 1, scatter },
	{ "6.5, 6.6", "insignificant", 1, insignificant },
	{ "6.7, 6.8", "all_to_all", 1, all_to_all },
	{ "6.8", "transpose", 1, transpose },
	{ "6.9.2", "dot_products", 1, dot_products },
	{ "6.9.4", "locations", 1, locations },
	{ "6.9.4", "global_minimum", 1, global_minimum },
	{ "6.9.5", "products", 1, products },
	{ "6.9.5 to 6.11", "in_order", 1, in_order },
	{ "6.11", "segmented_scan", 1, segmented_scan },
	{ "6.9 to 6.11", "in_place", 1, in_place },
	{ "6.12", "pipelined", 1, pipelined },
	{ "6.14", "beside_messages", 1, beside_messages },
	{ "6.14", "circle", 3, circle },
	{ "6.14", "sparse_exchange", 1, sparse_exchange },
	{ "6.12", "all_at_once", 1, all_at_once },
};

int main(int argc, char **argv)
{
	test_init(&argc, &argv);
	last = np - 1;
	standard_run(cases, sizeof(cases) / sizeof(*cases), argc, argv);
	test_done("coll");
	return 0;
}
