/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Gather, scatter, allgatherv, alltoallv, alltoallw, reduce_scatter, scan and exscan (MPI-5.0 chapter 6), and operations of
 * programs in every reduction: pieces of all lengths, zero among them, types with holes, in place, blocking and not.
 */
#include "mpi_test.h"

#define GUARD (-77)
static int nonblocking;

/* The blocking form, or the nonblocking one and its completion. */
#define RUN(name, ...) \
	do { \
		if (nonblocking) { \
			MPI_Request r_; \
			MPI_I##name(__VA_ARGS__, &r_); \
			MPI_Wait(&r_, MPI_STATUS_IGNORE); \
			CHECK(r_ == MPI_REQUEST_NULL); \
		} else { \
			MPI_RUN_##name(__VA_ARGS__); \
		} \
	} while (0)
#define MPI_RUN_gather MPI_Gather
#define MPI_RUN_gatherv MPI_Gatherv
#define MPI_RUN_scatter MPI_Scatter
#define MPI_RUN_scatterv MPI_Scatterv
#define MPI_RUN_allgatherv MPI_Allgatherv
#define MPI_RUN_alltoallv MPI_Alltoallv
#define MPI_RUN_alltoallw MPI_Alltoallw
#define MPI_RUN_scan MPI_Scan
#define MPI_RUN_exscan MPI_Exscan
#define MPI_RUN_reduce MPI_Reduce
#define MPI_RUN_allreduce MPI_Allreduce
#define MPI_RUN_reduce_scatter MPI_Reduce_scatter
#define MPI_RUN_reduce_scatter_block MPI_Reduce_scatter_block

static int value(int from, int to, int i)
{
	return 10000 * from + 100 * to + i;
}

static int *ints(int n, int v)
{
	int *a = malloc(sizeof(int) * (n + 1));

	for (int i = 0; i < n; i++)
		a[i] = v;
	return a;
}

/* ---- one to all, all to one ---------------------------------------------------------------------------- */

static void gather(int root, int n, int in_place)
{
	int *in = ints(n, 0), *out = ints(np * n, GUARD);

	for (int i = 0; i < n; i++)
		in[i] = value(me, root, i);
	if (in_place && me == root) {
		memcpy(out + me * n, in, n * sizeof(int));
		RUN(gather, MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, out, n, MPI_INT, root, MPI_COMM_WORLD);
	} else {
		RUN(gather, in, n, MPI_INT, me == root ? out : NULL, n, me == root ? MPI_INT : MPI_DATATYPE_NULL, root,
		    MPI_COMM_WORLD);
	}
	for (int r = 0; r < np; r++)
		for (int i = 0; i < n; i++)
			CHECK_EQ(out[r * n + i], me == root ? value(r, root, i) : GUARD);
	for (int i = 0; i < np * n; i++)
		out[i] = value(root, i / (n ? n : 1), i);
	if (in_place && me == root) {
		RUN(scatter, out, n, MPI_INT, MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, root, MPI_COMM_WORLD);
	} else {
		RUN(scatter, out, n, MPI_INT, in, n, MPI_INT, root, MPI_COMM_WORLD);
		for (int i = 0; i < n; i++)
			CHECK_EQ(in[i], value(root, me, me * n + i));
	}
	free(in);
	free(out);
}

/* Rank r has (r * 3) % 5 elements, in the reverse order of ranks with a gap between them; every second int of a row. */
static int length(int r)
{
	return r * 3 % 5;
}

static void gatherv(int root, int in_place, MPI_Datatype spread)
{
	int count[64], displ[64], all = np * 12, n = length(me);
	int *in = ints(12, GUARD), *out = ints(all, GUARD), *again;

	for (int r = 0; r < np; r++) {
		count[r] = length(r);
		displ[r] = 6 * (np - 1 - r);
	}
	for (int i = 0; i < n; i++)
		in[2 * i] = value(me, root, i);
	if (in_place && me == root) {
		for (int i = 0; i < n; i++)
			out[2 * (displ[me] + i)] = in[2 * i];
		RUN(gatherv, MPI_IN_PLACE, 0, MPI_INT, out, count, displ, spread, root, MPI_COMM_WORLD);
	} else {
		RUN(gatherv, in, n, spread, out, count, displ, spread, root, MPI_COMM_WORLD);
	}
	for (int r = 0; r < np; r++)
		for (int k = 0; k < 12; k++)
			CHECK_EQ(out[2 * displ[r] + k],
				 me == root && k < 2 * length(r) && k % 2 == 0 ? value(r, root, k / 2) : GUARD);
	again = ints(12, GUARD);
	if (in_place && me == root)
		RUN(scatterv, out, count, displ, spread, MPI_IN_PLACE, 0, MPI_INT, root, MPI_COMM_WORLD);
	else
		RUN(scatterv, out, count, displ, spread, again, n, spread, root, MPI_COMM_WORLD);
	for (int k = 0; k < 12 && !(in_place && me == root); k++)
		CHECK_EQ(again[k], in[k]);
	free(in);
	free(out);
	free(again);
}

/* ---- all to all ---------------------------------------------------------------------------------------- */

static void allgatherv(int scale, int in_place)
{
	int count[64], displ[64], all = 0, n = length(me) * scale, *in = ints(n, 0), *out;

	for (int r = 0; r < np; r++) {
		count[r] = length(r) * scale;
		displ[r] = all;
		all += count[r] + 1;
	}
	out = ints(all, GUARD);
	for (int i = 0; i < n; i++)
		(in_place ? out + displ[me] : in)[i] = value(me, 0, i);
	RUN(allgatherv, in_place ? MPI_IN_PLACE : (void *)in, n, MPI_INT, out, count, displ, MPI_INT, MPI_COMM_WORLD);
	for (int r = 0; r < np; r++)
		for (int i = 0; i <= count[r]; i++)
			CHECK_EQ(out[displ[r] + i], i < count[r] ? value(r, 0, i) : GUARD);
	free(in);
	free(out);
}

/* a to b: (a + 2b) % 4 elements; in place as many in both directions. */
static int amount(int a, int b, int in_place)
{
	return in_place ? (a + b) % 4 : (a + 2 * b) % 4;
}

static void alltoallv(int in_place, int w)
{
	int sc[64], rc[64], sd[64], rd[64], *in = ints(np * 4, GUARD), *out = ints(np * 4, GUARD);
	MPI_Datatype types[64];

	for (int r = 0; r < np; r++) {
		sc[r] = amount(me, r, in_place);
		rc[r] = amount(r, me, in_place);
		sd[r] = 4 * r * (w ? (int)sizeof(int) : 1);
		rd[r] = 4 * (np - 1 - r) * (w ? (int)sizeof(int) : 1);
		types[r] = MPI_INT;
		for (int i = 0; i < sc[r]; i++)
			(in_place ? out + 4 * (np - 1 - r) : in + 4 * r)[i] = value(me, r, i);
	}
	if (w)
		RUN(alltoallw, in_place ? MPI_IN_PLACE : (void *)in, in_place ? NULL : sc, in_place ? NULL : sd,
		    in_place ? NULL : types, out, rc, rd, types, MPI_COMM_WORLD);
	else
		RUN(alltoallv, in_place ? MPI_IN_PLACE : (void *)in, in_place ? NULL : sc, in_place ? NULL : sd, MPI_INT, out, rc,
		    rd, MPI_INT, MPI_COMM_WORLD);
	for (int r = 0; r < np; r++)
		for (int i = 0; i < 4; i++)
			CHECK_EQ(out[4 * (np - 1 - r) + i], i < rc[r] ? value(r, me, i) : GUARD);
	free(in);
	free(out);
}

/* ---- reductions by an operation that does not commute ---------------------------------------------------- */

/* Affine maps x -> a x + b modulo a prime, composed: associative, not commutative. */
struct map {
	int a, b;
};
#define PRIME 10007

static struct map map_of(int rank, int i)
{
	return (struct map){ 2 + (rank * 31 + i) % 97, 1 + (rank * 17 + i * 5) % 89 };
}

static struct map compose(struct map first, struct map then)
{
	return (struct map){ first.a * then.a % PRIME, (first.b * then.a + then.b) % PRIME };
}

static struct map product(int from, int to, int i)
{
	struct map m = map_of(from, i);

	for (int r = from + 1; r < to; r++)
		m = compose(m, map_of(r, i));
	return m;
}

static MPI_Datatype seen_type;
static long calls;

static void maps(void *in, void *inout, int *len, MPI_Datatype *type)
{
	struct map *a = in, *b = inout;

	CHECK(*type == seen_type);
	calls++;
	for (int i = 0; i < *len; i++)
		b[i] = compose(a[i], b[i]);
}

static void maps_c(void *in, void *inout, MPI_Count *len, MPI_Datatype *type)
{
	struct map *a = in, *b = inout;

	CHECK(*type == seen_type);
	for (MPI_Count i = 0; i < *len; i++)
		b[i] = compose(a[i], b[i]);
}

/* The same on elements with a hole behind each int. */
static void maps_spread(void *in, void *inout, int *len, MPI_Datatype *type)
{
	int *a = in, *b = inout;

	CHECK(*type == seen_type);
	for (int i = 0; i < *len; i++) {
		struct map m = compose((struct map){ a[4 * i], a[4 * i + 2] }, (struct map){ b[4 * i], b[4 * i + 2] });

		b[4 * i] = m.a;
		b[4 * i + 2] = m.b;
	}
}

/* A map's two numbers lie `step` ints apart, maps twice that. */
static void put(int *buf, int step, int n, int rank, int from)
{
	for (int i = 0; i < n; i++) {
		buf[2 * step * i] = map_of(rank, from + i).a;
		buf[2 * step * i + step] = map_of(rank, from + i).b;
	}
}

static void check_maps(const int *buf, int step, int n, int from, int to, int first)
{
	for (int i = 0; i < n; i++) {
		struct map m = product(from, to, first + i);

		CHECK_EQ(buf[2 * step * i], m.a);
		CHECK_EQ(buf[2 * step * i + step], m.b);
		if (step == 2) {
			CHECK_EQ(buf[4 * i + 1], GUARD);
			CHECK_EQ(buf[4 * i + 3], GUARD);
		}
	}
}

static void reductions(MPI_Op op, MPI_Datatype type, int step, int n, int in_place)
{
	int all = np * n, counts[64], first = 0, mine = 0;
	int *in = ints(2 * step * all + 4, GUARD), *out = ints(2 * step * all + 4, GUARD);
	int *target = in_place ? out : in;
	void *send = in_place ? MPI_IN_PLACE : (void *)in;

	seen_type = type;
	for (int root = 0; root < np; root++) {
		int here = in_place && me == root;

		put(here ? out : in, step, n, me, 0);
		RUN(reduce, here ? MPI_IN_PLACE : (void *)in, me == root ? out : NULL, n, type, op, root, MPI_COMM_WORLD);
		if (me == root)
			check_maps(out, step, n, 0, np, 0);
	}
	put(target, step, n, me, 0);
	RUN(allreduce, send, out, n, type, op, MPI_COMM_WORLD);
	check_maps(out, step, n, 0, np, 0);
	put(target, step, n, me, 0);
	RUN(scan, send, out, n, type, op, MPI_COMM_WORLD);
	check_maps(out, step, n, 0, me + 1, 0);
	put(target, step, n, me, 0);
	RUN(exscan, send, out, n, type, op, MPI_COMM_WORLD);
	if (me)
		check_maps(out, step, n, 0, me, 0);
	put(target, step, all, me, 0);
	RUN(reduce_scatter_block, send, out, n, type, op, MPI_COMM_WORLD);
	check_maps(out, step, n, 0, np, me * n);
	/* rank r gets r % 3 * n elements, of as many as there are */
	for (int r = 0; r < np; r++) {
		counts[r] = r % 3 == 1 ? n : 0;
		mine += counts[r];
		if (r < me)
			first += counts[r];
	}
	put(target, step, mine, me, 0);
	RUN(reduce_scatter, send, out, counts, type, op, MPI_COMM_WORLD);
	check_maps(out, step, counts[me], 0, np, first);
	free(in);
	free(out);
}

static void operations(void)
{
	static const int lengths[] = { 0, 1, 5, 3000, 40000 };
	MPI_Datatype pair, spread, row;
	MPI_Op op, op_c, op_spread;
	int flag, a[4] = { 2, 3, 4, 5 }, b[4] = { 6, 7, 8, 9 };

	MPI_Type_contiguous(2, MPI_INT, &pair);
	MPI_Type_commit(&pair);
	MPI_Type_vector(2, 1, 2, MPI_INT, &row);
	MPI_Type_create_resized(row, 0, 4 * sizeof(int), &spread);
	MPI_Type_commit(&spread);
	MPI_Op_create(maps, 0, &op);
	MPI_Op_create_c(maps_c, 0, &op_c);
	MPI_Op_create(maps_spread, 0, &op_spread);
	MPI_Op_commutative(op, &flag);
	CHECK_EQ(flag, 0);
	MPI_Op_commutative(MPI_SUM, &flag);
	CHECK_EQ(flag, 1);
	MPI_Op_commutative(MPI_REPLACE, &flag);
	CHECK_EQ(flag, 1);
	for (int k = 0; k < 5; k++)
		for (int in_place = 0; in_place < 2; in_place++) {
			reductions(op, pair, 1, lengths[k], in_place);
			reductions(op_c, pair, 1, lengths[k], in_place);
			if (lengths[k] < 10000)
				reductions(op_spread, spread, 2, lengths[k], in_place);
		}
	CHECK(np == 1 || calls > 0);
	seen_type = pair;
	MPI_Reduce_local(a, b, 2, pair, op);
	CHECK_EQ(b[0], 12);
	CHECK_EQ(b[1], 3 * 6 + 7);
	/* one that is freed while a collective uses it */
	MPI_Request r;
	struct map mine = map_of(me, 0), got;
	MPI_Iallreduce(&mine, &got, 1, pair, op, MPI_COMM_WORLD, &r);
	MPI_Op_free(&op);
	CHECK(op == MPI_OP_NULL);
	MPI_Wait(&r, MPI_STATUS_IGNORE);
	CHECK_EQ(got.a, product(0, np, 0).a);
	CHECK_EQ(got.b, product(0, np, 0).b);
	MPI_Op_free(&op_c);
	MPI_Op_free(&op_spread);
	MPI_Type_free(&spread);
	MPI_Type_free(&row);
	MPI_Type_free(&pair);
}

#if defined(HEDDLE_MPI) && defined(__SIZEOF_INT128__) && defined(__SIZEOF_FLOAT128__) && defined(__FLT16_MAX__)
__extension__ typedef __int128 int16;
__extension__ typedef __float128 real16;
__extension__ typedef _Float16 real2;

/* The standard's optional types that this compiler has; and buffers that are aligned for none of them. */
static void wide(void)
{
	int16 i[2] = { (int16)(me + 1) << 90, -me }, isum[2];
	real16 r[2] = { (real16)me / 3, 1 }, rsum[2], c[2] = { 0, 1 }, turn[2];
	real2 h[2] = { (real2)(me + 0.5), (real2)-me }, hmin[2];
	char place[100], result[100];

	RUN(allreduce, i, isum, 2, MPI_INTEGER16, MPI_SUM, MPI_COMM_WORLD);
	CHECK(isum[0] == (int16)(np * (np + 1) / 2) << 90 && isum[1] == -np * (np - 1) / 2);
	RUN(scan, i, isum, 2, MPI_INTEGER16, MPI_MAX, MPI_COMM_WORLD);
	CHECK(isum[0] == (int16)(me + 1) << 90 && isum[1] == 0);
	RUN(allreduce, i, isum, 2, MPI_LOGICAL16, MPI_LAND, MPI_COMM_WORLD);
	CHECK((np == 1 ? isum[0] != 0 : isum[0] == 1) && isum[1] == 0);
	RUN(allreduce, r, rsum, 2, MPI_REAL16, MPI_SUM, MPI_COMM_WORLD);
	rsum[0] -= (real16)(np * (np - 1) / 2) / 3;
	CHECK(rsum[0] < 1e-30 && rsum[0] > -1e-30 && rsum[1] == np);
	RUN(allreduce, c, turn, 1, MPI_COMPLEX32, MPI_PROD, MPI_COMM_WORLD);
	CHECK(turn[np % 2] == (np / 2 % 2 ? -1 : 1) && turn[1 - np % 2] == 0);
	RUN(allreduce, h, hmin, 2, MPI_REAL2, MPI_MIN, MPI_COMM_WORLD);
	CHECK(hmin[0] == (real2)0.5 && hmin[1] == (real2)(1 - np));
	RUN(allreduce, h, hmin, 1, MPI_COMPLEX4, MPI_SUM, MPI_COMM_WORLD);
	CHECK(hmin[0] == (real2)(np * np * 0.5) && hmin[1] == (real2)(-np * (np - 1) / 2));
	memcpy(place + 1, i, sizeof(i));
	RUN(allreduce, place + 1, result + 3, 2, MPI_INTEGER16, MPI_SUM, MPI_COMM_WORLD);
	memcpy(isum, result + 3, sizeof(isum));
	CHECK(isum[0] == (int16)(np * (np + 1) / 2) << 90);
	memcpy(place + 1, c, sizeof(c));
	RUN(allreduce, place + 1, result + 3, 1, MPI_COMPLEX32, MPI_SUM, MPI_COMM_WORLD);
	memcpy(turn, result + 3, sizeof(turn));
	CHECK(turn[0] == 0 && turn[1] == np);
}
#else
static void wide(void)
{
}
#endif

static void predefined(void)
{
	struct {
		double v;
		int i;
	} d = { me % 3, me }, m;
	char c = 3, sum;
	MPI_Aint some = me == 0, any;
	int s[3] = { me, -me, 1 }, t[3] = { GUARD, GUARD, GUARD }, least = np < 3 ? np - 1 : 2;

	RUN(scan, s, t, 3, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	CHECK_EQ(t[0], me * (me + 1) / 2);
	CHECK_EQ(t[2], me + 1);
	t[0] = GUARD;
	RUN(exscan, s, t, 3, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
	CHECK_EQ(t[0], me ? me - 1 : GUARD);
	/* pairs have holes */
	m.v = -1;
	m.i = GUARD;
	RUN(scan, &d, &m, 1, MPI_DOUBLE_INT, MPI_MAXLOC, MPI_COMM_WORLD);
	CHECK_EQ(m.v, me < least ? me : least);
	CHECK_EQ(m.i, me < least ? me : least);
	RUN(allreduce, &d, &m, 1, MPI_DOUBLE_INT, MPI_MINLOC, MPI_COMM_WORLD);
	CHECK(m.v == 0 && m.i == 0);
	/* beyond the standard's list */
	RUN(allreduce, &c, &sum, 1, MPI_CHAR, MPI_SUM, MPI_COMM_WORLD);
	CHECK_EQ(sum, 3 * np);
	RUN(allreduce, &some, &any, 1, MPI_AINT, MPI_LOR, MPI_COMM_WORLD);
	CHECK_EQ(any, 1);
	RUN(allreduce, &some, &any, 1, MPI_AINT, MPI_LAND, MPI_COMM_WORLD);
	CHECK_EQ(any, np == 1);
}

/* Element i of the input of rank r; the sum of element i over ranks `from` to `to` - 1. */
static long given(int r, int i)
{
	return 1000L * r + i % 977;
}

static long sum_of(int from, int to, int i)
{
	long sum = 0;

	for (int r = from; r < to; r++)
		sum += given(r, i);
	return sum;
}

/* Vectors of several segments, short ones, and none; in place the result of reduce_scatter overwrites the parts that go to other
 * ranks, and the rank's own part: the first rank's part is the least. */
static void sums(int n, int in_place)
{
	int counts[64], all = 0, mine = 0, wrong = 0;
	long *in, *out, *from;

	for (int r = 0; r < np; all += counts[r++]) {
		counts[r] = r ? n : n / 5;
		if (r < me)
			mine += counts[r];
	}
	all += n;
	in = malloc(sizeof(long) * (all + 1));
	out = malloc(sizeof(long) * (all + 1));
	from = in_place ? out : in;
	for (int turn = 0; turn < 3; turn++) {
		int elements = turn == 2 ? all : n, from_rank = 0, to_rank = turn == 1 ? me : me + 1, len = n, first = 0;

		for (int i = 0; i < elements; i++)
			from[i] = given(me, i);
		if (turn == 0) {
			RUN(scan, in_place ? MPI_IN_PLACE : in, out, n, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
		} else if (turn == 1) {
			RUN(exscan, in_place ? MPI_IN_PLACE : in, out, n, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
			len = me ? n : 0;
		} else {
			RUN(reduce_scatter, in_place ? MPI_IN_PLACE : in, out, counts, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
			to_rank = np;
			len = counts[me];
			first = mine;
		}
		for (int i = 0; i < len; i++)
			wrong += out[i] != sum_of(from_rank, to_rank, first + i);
		for (int i = 0; i < elements && !in_place; i++)
			wrong += in[i] != given(me, i);
		CHECK_EQ(wrong, 0);
	}
	free(in);
	free(out);
}

static int class_of(int rc)
{
	int class;

	MPI_Error_class(rc, &class);
	return class;
}

/* Errors that every rank detects by itself; nothing is sent. */
static void errors(void)
{
	int v = 0, w[64], counts[64] = { 0 }, displs[64] = { 0 };
	MPI_Op op = MPI_OP_NULL, stale;
	MPI_Datatype loose;

	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
	CHECK_EQ(class_of(MPI_Gather(&v, 1, MPI_INT, w, 1, MPI_INT, np, MPI_COMM_WORLD)), MPI_ERR_ROOT);
	CHECK_EQ(class_of(MPI_Gather(&v, -1, MPI_INT, w, 1, MPI_INT, 0, MPI_COMM_WORLD)), MPI_ERR_COUNT);
	CHECK_EQ(class_of(MPI_Scatter(w, 1, MPI_INT, &v, 1, MPI_DATATYPE_NULL, 0, MPI_COMM_WORLD)), MPI_ERR_TYPE);
	CHECK_EQ(class_of(MPI_Gather(NULL, 1, MPI_INT, w, 1, MPI_INT, 0, MPI_COMM_WORLD)), MPI_ERR_BUFFER);
	CHECK_EQ(class_of(MPI_Gather(&v, 1, MPI_INT, w, 1, MPI_INT, 0, MPI_COMM_NULL)), MPI_ERR_COMM);
	CHECK_EQ(class_of(MPI_Allgatherv(&v, 1, MPI_INT, w, NULL, displs, MPI_INT, MPI_COMM_WORLD)), MPI_ERR_ARG);
	counts[np - 1] = -3;
	CHECK_EQ(class_of(MPI_Alltoallv(w, counts, displs, MPI_INT, w + 32, counts, displs, MPI_INT, MPI_COMM_WORLD)),
		 MPI_ERR_COUNT);
	CHECK_EQ(class_of(MPI_Reduce_scatter(w, w + 32, counts, MPI_INT, MPI_SUM, MPI_COMM_WORLD)), MPI_ERR_COUNT);
	CHECK_EQ(class_of(MPI_Scan(&v, w, 1, MPI_INT, MPI_OP_NULL, MPI_COMM_WORLD)), MPI_ERR_OP);
	CHECK_EQ(class_of(MPI_Scan(&v, w, 1, MPI_DOUBLE, MPI_BXOR, MPI_COMM_WORLD)), MPI_ERR_OP);
	CHECK_EQ(class_of(MPI_Scan(&v, &v, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD)), MPI_ERR_BUFFER);
	CHECK_EQ(class_of(MPI_Op_free(&op)), MPI_ERR_OP);
	op = MPI_SUM;
	CHECK_EQ(class_of(MPI_Op_free(&op)), MPI_ERR_OP);
	MPI_Op_create(maps, 1, &op);
	stale = op;
	MPI_Op_free(&op);
	CHECK_EQ(class_of(MPI_Allreduce(&v, w, 1, MPI_INT, stale, MPI_COMM_WORLD)), MPI_ERR_OP);
	CHECK_EQ(class_of(MPI_Op_commutative(stale, &v)), MPI_ERR_OP);
	CHECK_EQ(class_of(MPI_Op_create(NULL, 1, &op)), MPI_ERR_ARG);
	CHECK_EQ(class_of(MPI_Reduce_local(&v, w, 1, MPI_DOUBLE, MPI_BAND)), MPI_ERR_OP);
	MPI_Type_contiguous(2, MPI_INT, &loose);
	CHECK_EQ(class_of(MPI_Gather(w, 1, loose, w + 32, 1, loose, 0, MPI_COMM_WORLD)), MPI_ERR_TYPE);
	MPI_Type_free(&loose);
	MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
}

int main(int argc, char **argv)
{
	static const int lengths[] = { 0, 1, 7, 20000 };
	MPI_Datatype spread;

	test_init(&argc, &argv);
	MPI_Type_create_resized(MPI_INT, 0, 2 * sizeof(int), &spread);
	MPI_Type_commit(&spread);
	for (nonblocking = 0; nonblocking < 2; nonblocking++) {
		for (int in_place = 0; in_place < 2; in_place++) {
			for (int root = 0; root < np; root++) {
				for (int k = 0; k < 4; k++)
					gather(root, lengths[k], in_place);
				gatherv(root, in_place, spread);
			}
			allgatherv(1, in_place);
			allgatherv(5000, in_place);
			alltoallv(in_place, 0);
			alltoallv(in_place, 1);
		}
		operations();
		predefined();
		for (int in_place = 0; in_place < 2; in_place++)
			for (int k = 0; k < 4; k++)
				sums(10 * lengths[k], in_place);
		wide();
	}
	errors();
	MPI_Type_free(&spread);
	test_done("vcoll");
	return 0;
}
