/* SPDX-License-Identifier: BSD-3-Clause */
/* Datatypes: chapter 5. Sending one element to oneself shows a type's map: the parts arrive in the order of the map. */
#include "standard.h"

#include <stddef.h>

#define WORLD	MPI_COMM_WORLD
#define SELF	MPI_COMM_SELF

/* One entry of a type map: a basic type at a displacement. */
struct entry {
	MPI_Datatype type;
	MPI_Aint at;
};

#define MAP_MAX		256
#define ORIGIN		512		/* place of the element in memory: displacements may be negative */
#define MEMORY		4096

/* The entries side by side, without gaps. */
static MPI_Datatype dense(const struct entry *map, int n, MPI_Aint *bytes)
{
	MPI_Datatype types[MAP_MAX], t;
	MPI_Aint at[MAP_MAX];
	int ones[MAP_MAX], size;

	*bytes = 0;
	for (int i = 0; i < n; i++) {
		types[i] = map[i].type;
		ones[i] = 1;
		at[i] = *bytes;
		MPI_Type_size(map[i].type, &size);
		*bytes += size;
	}
	MPI_Type_create_struct(n, ones, at, types, &t);
	MPI_Type_commit(&t);
	return t;
}

/* Checks that the type has this map, as sender and as receiver, and these bounds. Commits and frees the type. */
static void has_map(const char *file, int line, MPI_Datatype t, const struct entry *map, int n, MPI_Aint lb, MPI_Aint extent)
{
	static char apart[MEMORY], together[MEMORY], want[MEMORY];
	MPI_Aint bytes, is_lb, is_extent, low = 0, high = 0, true_lb, true_extent;
	MPI_Datatype flat = dense(map, n, &bytes);
	int size, part;

	MPI_Type_commit(&t);
	MPI_Type_size(t, &size);
	MPI_Type_get_extent(t, &is_lb, &is_extent);
	MPI_Type_get_true_extent(t, &true_lb, &true_extent);
	if (size != bytes || is_lb != lb || is_extent != extent)
		test_fail(file, line, "size %d, lb %ld, extent %ld: not %ld, %ld, %ld", size, (long)is_lb, (long)is_extent,
			  (long)bytes, (long)lb, (long)extent);
	fill(apart, MEMORY, 1);
	memset(together, 0, MEMORY);
	MPI_Sendrecv(apart + ORIGIN, 1, t, 0, 0, together, 1, flat, 0, 0, SELF, MPI_STATUS_IGNORE);
	bytes = 0;
	for (int i = 0; i < n; i++) {
		MPI_Type_size(map[i].type, &part);
		if (memcmp(together + bytes, apart + ORIGIN + map[i].at, part))
			test_fail(file, line, "entry %d is not at %ld", i, (long)map[i].at);
		bytes += part;
		low = i && low < map[i].at ? low : map[i].at;
		high = i && high > map[i].at + part ? high : map[i].at + part;
	}
	if (n && (true_lb != low || true_extent != high - low))
		test_fail(file, line, "true lb %ld, true extent %ld", (long)true_lb, (long)true_extent);
	/* receive into the type: the gaps stay */
	memset(apart, 0xc3, MEMORY);
	memset(want, 0xc3, MEMORY);
	fill(together, MEMORY, 2);
	MPI_Sendrecv(together, 1, flat, 0, 0, apart + ORIGIN, 1, t, 0, 0, SELF, MPI_STATUS_IGNORE);
	bytes = 0;
	for (int i = 0; i < n; i++) {
		MPI_Type_size(map[i].type, &part);
		memcpy(want + ORIGIN + map[i].at, together + bytes, part);
		bytes += part;
	}
	if (memcmp(apart, want, MEMORY))
		test_fail(file, line, "what was received lies elsewhere");
	MPI_Type_free(&flat);
	MPI_Type_free(&t);
}
#define HAS_MAP(t, map, n, lb, extent) has_map(__FILE__, __LINE__, t, map, n, lb, extent)
#define HAS(t, lb, extent, ...) \
	HAS_MAP(t, ((const struct entry[]){ __VA_ARGS__ }), \
		sizeof((const struct entry[]){ __VA_ARGS__ }) / sizeof(struct entry), lb, extent)

#define D(at)	{ MPI_DOUBLE, at }
#define C(at)	{ MPI_CHAR, at }
#define I(at)	{ MPI_INT, at }

/* {(double, 0), (char, 8)}, of extent 16 */
static MPI_Datatype double_char(void)
{
	MPI_Datatype types[2] = { MPI_DOUBLE, MPI_CHAR }, t;
	MPI_Aint at[2] = { 0, 8 };
	int ones[2] = { 1, 1 };

	MPI_Type_create_struct(2, ones, at, types, &t);
	return t;
}

/* ---- 5.1.1 to 5.1.9: constructors -------------------------------------------------------------------------- */

static void contiguous_and_vectors(void)
{
	MPI_Datatype old = double_char(), t;

	MPI_Type_dup(old, &t);
	HAS(t, 0, 16, D(0), C(8));
	MPI_Type_contiguous(3, old, &t);
	HAS(t, 0, 48, D(0), C(8), D(16), C(24), D(32), C(40));
	MPI_Type_vector(2, 3, 4, old, &t);
	HAS(t, 0, 112, D(0), C(8), D(16), C(24), D(32), C(40), D(64), C(72), D(80), C(88), D(96), C(104));
	MPI_Type_vector(3, 1, -2, old, &t);
	HAS(t, -64, 80, D(0), C(8), D(-32), C(-24), D(-64), C(-56));
	MPI_Type_create_hvector(2, 2, 40, old, &t);
	HAS(t, 0, 72, D(0), C(8), D(16), C(24), D(40), C(48), D(56), C(64));
	MPI_Type_create_hvector(3, 1, -20, MPI_INT, &t);
	HAS(t, -40, 44, I(0), I(-20), I(-40));
	MPI_Type_vector(2, 2, 2, MPI_INT, &t);
	HAS(t, 0, 16, I(0), I(4), I(8), I(12));
	MPI_Type_free(&old);
}

static void indexed(void)
{
	MPI_Datatype old = double_char(), t;
	int lengths[] = { 3, 1 }, at[] = { 4, 0 }, places[] = { 5, 0, 3 };
	MPI_Aint bytes[] = { 64, 0 }, where[] = { 100, 0, 48 };

	MPI_Type_indexed(2, lengths, at, old, &t);
	HAS(t, 0, 112, D(64), C(72), D(80), C(88), D(96), C(104), D(0), C(8));
	MPI_Type_create_hindexed(2, lengths, bytes, old, &t);
	HAS(t, 0, 112, D(64), C(72), D(80), C(88), D(96), C(104), D(0), C(8));
	MPI_Type_create_indexed_block(3, 2, places, MPI_INT, &t);
	HAS(t, 0, 28, I(20), I(24), I(0), I(4), I(12), I(16));
	MPI_Type_create_hindexed_block(3, 2, where, MPI_INT, &t);
	HAS(t, 0, 108, I(100), I(104), I(0), I(4), I(48), I(52));
	lengths[0] = 0;		/* blocks of nothing change nothing, not even the bounds */
	MPI_Type_indexed(2, lengths, at, old, &t);
	HAS(t, 0, 16, D(0), C(8));
	MPI_Type_free(&old);
}

static void structs(void)
{
	MPI_Datatype old = double_char(), types[3] = { MPI_FLOAT, old, MPI_CHAR }, t, moved;
	MPI_Aint at[3] = { 0, 16, 26 };
	int lengths[3] = { 2, 1, 3 };

	MPI_Type_create_struct(3, lengths, at, types, &t);
	HAS(t, 0, 32, { MPI_FLOAT, 0 }, { MPI_FLOAT, 4 }, D(16), C(24), C(26), C(27), C(28));
	/* bounds are part of the type: a struct of two keeps them, and an array is laid out by them */
	MPI_Type_create_resized(MPI_INT, -3, 9, &moved);
	MPI_Type_contiguous(2, moved, &t);
	HAS(t, -3, 18, I(0), I(9));
	MPI_Type_create_resized(old, 0, 9, &t);
	MPI_Type_free(&moved);
	MPI_Type_contiguous(3, t, &moved);
	HAS(moved, 0, 27, D(0), C(8), D(9), C(17), D(18), C(26));
	HAS(t, 0, 9, D(0), C(8));
	MPI_Type_free(&old);
}

/* The part of a 3-D array that begins at starts: the elements that nested loops would visit, in the order of the memory. */
static void subarrays(void)
{
	int size[3] = { 5, 6, 7 }, part[3] = { 2, 3, 4 }, start[3] = { 1, 2, 3 };
	struct entry map[24];
	MPI_Datatype t;
	int n = 0;

	for (int i = 0; i < 2; i++)
		for (int j = 0; j < 3; j++)
			for (int k = 0; k < 4; k++)
				map[n++] = (struct entry)I(4 * (((i + 1) * 6 + j + 2) * 7 + k + 3));
	MPI_Type_create_subarray(3, size, part, start, MPI_ORDER_C, MPI_INT, &t);
	HAS_MAP(t, map, n, 0, 4 * 210);
	n = 0;
	for (int k = 0; k < 4; k++)
		for (int j = 0; j < 3; j++)
			for (int i = 0; i < 2; i++)
				map[n++] = (struct entry)I(4 * (((k + 3) * 6 + j + 2) * 5 + i + 1));
	MPI_Type_create_subarray(3, size, part, start, MPI_ORDER_FORTRAN, MPI_INT, &t);
	HAS_MAP(t, map, n, 0, 4 * 210);
}

/* Returns the owner of element i, dealt to p processes in blocks of k. */
static int owner(int i, int k, int p)
{
	return i / k % p;
}

/* A distributed array: the processes of a grid own disjoint parts that are the whole, each in the array's order. */
static void darray_of(const int *global, const int *distribs, const int *args, const int *grid, const int *blocks, int order)
{
	int procs = grid[0] * grid[1], total = global[0] * global[1], seen = 0;
	struct entry map[MAP_MAX];
	MPI_Datatype t;

	for (int rank = 0; rank < procs; rank++) {
		int row = rank / grid[1], column = rank % grid[1], n = 0;	/* the grid is in C's order always */

		for (int e = 0; e < total; e++) {
			int i = order == MPI_ORDER_C ? e / global[1] : e % global[0];
			int j = order == MPI_ORDER_C ? e % global[1] : e / global[0];

			if (owner(i, blocks[0], grid[0]) == row && owner(j, blocks[1], grid[1]) == column)
				map[n++] = (struct entry)I(4 * e);
		}
		MPI_Type_create_darray(procs, rank, 2, global, distribs, args, grid, order, MPI_INT, &t);
		HAS_MAP(t, map, n, 0, 4 * total);
		seen += n;
	}
	CHECK_EQ(seen, total);
}

static void darrays(void)
{
	enum { B = MPI_DISTRIBUTE_BLOCK, Y = MPI_DISTRIBUTE_CYCLIC, N = MPI_DISTRIBUTE_NONE, DEFAULT = MPI_DISTRIBUTE_DFLT_DARG };

	for (int i = 0; i < 2; i++) {
		int order = i ? MPI_ORDER_FORTRAN : MPI_ORDER_C;

		darray_of((int[]){10, 9}, (int[]){B, B}, (int[]){DEFAULT, DEFAULT}, (int[]){2, 3}, (int[]){5, 3}, order);
		darray_of((int[]){ 7, 11 }, (int[]){ B, Y }, (int[]){ 4, DEFAULT }, (int[]){ 2, 2 }, (int[]){ 4, 1 }, order);
		darray_of((int[]){ 13, 8 }, (int[]){ Y, Y }, (int[]){ 2, 3 }, (int[]){ 3, 2 }, (int[]){ 2, 3 }, order);
		darray_of((int[]){ 6, 12 }, (int[]){ N, Y }, (int[]){ DEFAULT, 5 }, (int[]){ 1, 2 }, (int[]){ 6, 5 }, order);
	}
}

/* A freed type stays valid in derived types, and in operations under way. */
static void lifetime(void)
{
	MPI_Datatype column, pair;
	int a[4][4], b[8] = { 0 };
	MPI_Request r[2];

	for (int i = 0; i < 16; i++)
		a[i / 4][i % 4] = i;
	MPI_Type_vector(4, 1, 4, MPI_INT, &column);
	MPI_Type_create_hvector(2, 1, 2 * sizeof(int), column, &pair);
	MPI_Type_free(&column);
	CHECK(column == MPI_DATATYPE_NULL);
	MPI_Type_commit(&pair);
	MPI_Irecv(b, 8, MPI_INT, 0, 1, SELF, &r[0]);
	MPI_Isend(a, 1, pair, 0, 1, SELF, &r[1]);
	MPI_Type_free(&pair);
	MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
	for (int i = 0; i < 8; i++)
		CHECK_EQ(b[i], i % 4 * 4 + i / 4 * 2);
}

/* ---- 5.1.11 to 5.1.13: received counts; how a type was made --------------------------------------------------- */

static void counts(void)
{
	MPI_Datatype pair, mixed = double_char();
	float x[8] = { 0 };
	MPI_Status s;
	char m[64];
	int n;

	MPI_Type_contiguous(2, MPI_FLOAT, &pair);
	MPI_Type_commit(&pair);
	MPI_Type_commit(&mixed);
	for (int sent = 0; sent < 5; sent++) {
		MPI_Sendrecv(x, sent, MPI_FLOAT, 0, 0, x + 4, 2, pair, 0, 0, SELF, &s);
		CHECK_EQ(count_of(&s, pair), sent % 2 ? MPI_UNDEFINED : sent / 2);
		MPI_Get_elements(&s, pair, &n);
		CHECK_EQ(n, sent);
		CHECK_EQ(count_of(&s, MPI_FLOAT), sent);
	}
	memset(m, 0, sizeof(m));
	MPI_Sendrecv(m, 2, mixed, 0, 0, m + 32, 2, mixed, 0, 0, SELF, &s);
	CHECK_EQ(count_of(&s, mixed), 2);
	MPI_Get_elements(&s, mixed, &n);
	CHECK_EQ(n, 4);
	/* one and a half elements: three basic ones */
	MPI_Status_set_elements(&s, mixed, 3);
	CHECK_EQ(count_of(&s, mixed), MPI_UNDEFINED);
	MPI_Get_elements(&s, mixed, &n);
	CHECK_EQ(n, 3);
	MPI_Type_free(&mixed);
	MPI_Type_free(&pair);
	/* of a type without data there is any number in no data, and none in some */
	MPI_Type_contiguous(0, MPI_INT, &pair);
	MPI_Type_commit(&pair);
	MPI_Status_set_elements(&s, MPI_FLOAT, 0);
	CHECK_EQ(count_of(&s, pair), 0);
	MPI_Sendrecv(x, 1, MPI_FLOAT, 0, 0, x + 4, 1, MPI_FLOAT, 0, 0, SELF, &s);
	CHECK_EQ(count_of(&s, pair), MPI_UNDEFINED);
	MPI_Type_free(&pair);
}

/* Returns the type, made again from MPI_Type_get_contents; frees the types of the contents that are not predefined. */
static MPI_Datatype remade(MPI_Datatype t)
{
	int ints[64], ni, na, nd, combiner;
	MPI_Datatype types[8], new = MPI_DATATYPE_NULL;
	MPI_Aint at[32];

	MPI_Type_get_envelope(t, &ni, &na, &nd, &combiner);
	if (combiner == MPI_COMBINER_NAMED)
		return t;
	CHECK(ni <= 64 && na <= 32 && nd <= 8);
	MPI_Type_get_contents(t, ni, na, nd, ints, at, types);
	for (int i = 0; i < nd; i++) {
		MPI_Datatype part = remade(types[i]);
		int a, b, c, kind;

		MPI_Type_get_envelope(types[i], &a, &b, &c, &kind);
		if (kind != MPI_COMBINER_NAMED)
			MPI_Type_free(&types[i]);
		types[i] = part;
	}
	switch (combiner) {
	case MPI_COMBINER_DUP: MPI_Type_dup(types[0], &new); break;
	case MPI_COMBINER_CONTIGUOUS: MPI_Type_contiguous(ints[0], types[0], &new); break;
	case MPI_COMBINER_VECTOR: MPI_Type_vector(ints[0], ints[1], ints[2], types[0], &new); break;
	case MPI_COMBINER_HVECTOR: MPI_Type_create_hvector(ints[0], ints[1], at[0], types[0], &new); break;
	case MPI_COMBINER_INDEXED: MPI_Type_indexed(ints[0], ints + 1, ints + 1 + ints[0], types[0], &new); break;
	case MPI_COMBINER_HINDEXED: MPI_Type_create_hindexed(ints[0], ints + 1, at, types[0], &new); break;
	case MPI_COMBINER_INDEXED_BLOCK: MPI_Type_create_indexed_block(ints[0], ints[1], ints + 2, types[0], &new); break;
	case MPI_COMBINER_HINDEXED_BLOCK: MPI_Type_create_hindexed_block(ints[0], ints[1], at, types[0], &new); break;
	case MPI_COMBINER_STRUCT: MPI_Type_create_struct(ints[0], ints + 1, at, types, &new); break;
	case MPI_COMBINER_RESIZED: MPI_Type_create_resized(types[0], at[0], at[1], &new); break;
	case MPI_COMBINER_SUBARRAY: {
		int n = ints[0];

		MPI_Type_create_subarray(n, ints + 1, ints + 1 + n, ints + 1 + 2 * n, ints[1 + 3 * n], types[0], &new);
		break;
	}
	case MPI_COMBINER_DARRAY: {
		int n = ints[2];

		MPI_Type_create_darray(ints[0], ints[1], n, ints + 3, ints + 3 + n, ints + 3 + 2 * n, ints + 3 + 3 * n,
				       ints[3 + 4 * n], types[0], &new);
		break;
	}
	default: CHECK(!"a combiner of these");
	}
	for (int i = 0; i < nd; i++) {
		int a, b, c, kind;

		MPI_Type_get_envelope(types[i], &a, &b, &c, &kind);
		if (kind != MPI_COMBINER_NAMED)
			MPI_Type_free(&types[i]);
	}
	return new;
}

/* Every constructor once, each upon the one before: taken apart and made again, the type sends the same bytes. */
static void decoding(void)
{
	static char from[200000], a[4096], b[4096];
	MPI_Datatype t[13], again;
	MPI_Aint lb, extent, lb2, extent2;
	int n = 0, size, size2, pa, pb;

	t[n++] = double_char();
	MPI_Type_dup(t[0], &t[n++]);
	MPI_Type_contiguous(2, t[1], &t[n++]);
	MPI_Type_vector(2, 1, 2, t[2], &t[n++]);
	MPI_Type_create_hvector(2, 1, 200, t[3], &t[n++]);
	MPI_Type_indexed(2, (int[]){ 1, 0 }, (int[]){ 1, 3 }, t[4], &t[n++]);
	MPI_Type_create_hindexed(1, (int[]){ 1 }, (MPI_Aint[]){ 24 }, t[5], &t[n++]);
	MPI_Type_create_indexed_block(2, 1, (int[]){ 1, 0 }, t[6], &t[n++]);
	MPI_Type_create_hindexed_block(1, 1, (MPI_Aint[]){ 8 }, t[7], &t[n++]);
	MPI_Type_create_struct(2, (int[]){ 1, 2 }, (MPI_Aint[]){ 0, 3000 }, (MPI_Datatype[]){ t[8], MPI_INT }, &t[n++]);
	MPI_Type_create_resized(t[9], -8, 4000, &t[n++]);
	MPI_Type_create_subarray(2, (int[]){ 3, 3 }, (int[]){ 1, 2 }, (int[]){ 1, 1 }, MPI_ORDER_C, t[10], &t[n++]);
	MPI_Type_create_darray(2, 1, 1, (int[]){ 4 }, (int[]){ MPI_DISTRIBUTE_CYCLIC }, (int[]){ MPI_DISTRIBUTE_DFLT_DARG },
			       (int[]){ 2 }, MPI_ORDER_FORTRAN, t[10], &t[n++]);
	fill(from, sizeof(from), 5);
	for (int i = 0; i < n; i++) {
		again = remade(t[i]);
		CHECK(again != t[i]);
		MPI_Type_commit(&t[i]);
		MPI_Type_commit(&again);
		MPI_Type_get_extent(t[i], &lb, &extent);
		MPI_Type_get_extent(again, &lb2, &extent2);
		MPI_Type_size(t[i], &size);
		MPI_Type_size(again, &size2);
		CHECK(lb == lb2 && extent == extent2 && size == size2 && size > 0);
		pa = pb = 0;
		MPI_Pack(from + 1000, 1, t[i], a, sizeof(a), &pa, SELF);
		MPI_Pack(from + 1000, 1, again, b, sizeof(b), &pb, SELF);
		CHECK(pa == pb && !memcmp(a, b, pa));
		MPI_Type_free(&again);
	}
	for (int i = 0; i < n; i++)
		MPI_Type_free(&t[i]);
}

/* ---- 5.1.14: uses of types ------------------------------------------------------------------------------- */

/* Every second plane, all of the second dimension but the ends, the first half of the third: gathered into a dense array. */
static void section_of_array(void)
{
	enum { X = 17, Y = 11, Z = 10, PX = 9, PY = 9, PZ = 9 };
	static double a[Z][Y][X], e[PZ][PY][PX];
	MPI_Datatype line, plane, all;

	for (int z = 0; z < Z; z++)
		for (int y = 0; y < Y; y++)
			for (int x = 0; x < X; x++)
				a[z][y][x] = 10000 * z + 100 * y + x;
	MPI_Type_vector(PX, 1, 2, MPI_DOUBLE, &line);
	MPI_Type_create_hvector(PY, 1, X * sizeof(double), line, &plane);
	MPI_Type_create_hvector(PZ, 1, X * Y * sizeof(double), plane, &all);
	MPI_Type_commit(&all);
	MPI_Sendrecv(&a[1][2][0], 1, all, me, 0, e, PX * PY * PZ, MPI_DOUBLE, me, 0, WORLD, MPI_STATUS_IGNORE);
	for (int z = 0; z < PZ; z++)
		for (int y = 0; y < PY; y++)
			for (int x = 0; x < PX; x++)
				CHECK(e[z][y][x] == 10000 * (z + 1) + 100 * (y + 2) + 2 * x);
	MPI_Type_free(&line);
	MPI_Type_free(&plane);
	MPI_Type_free(&all);
}

/* The triangle below the diagonal goes to the neighbour, and leaves the rest of the neighbour's matrix unchanged. */
static void triangle(void)
{
	enum { N = 100 };
	static double a[N][N], b[N][N];
	int lengths[N], at[N], right = (me + 1) % np, left = (me + np - 1) % np;
	MPI_Datatype lower;

	for (int i = 0; i < N; i++) {
		lengths[i] = i + 1;
		at[i] = i * N;
		for (int j = 0; j < N; j++) {
			a[i][j] = me * 100000 + i * N + j;
			b[i][j] = -1;
		}
	}
	MPI_Type_indexed(N, lengths, at, MPI_DOUBLE, &lower);
	MPI_Type_commit(&lower);
	MPI_Sendrecv(a, 1, lower, right, 0, b, 1, lower, left, 0, WORLD, MPI_STATUS_IGNORE);
	for (int i = 0; i < N; i++)
		for (int j = 0; j < N; j++)
			CHECK(b[i][j] == (j > i ? -1 : left * 100000 + i * N + j));
	MPI_Type_free(&lower);
}

/* Transposed by the sender's type (columns one after the other), and by the receiver's (rows that are interleaved). */
static void transposition(void)
{
	enum { N = 60, M = 45 };
	static int a[N][M], b[M][N], c[M][N];
	int right = (me + 1) % np, left = (me + np - 1) % np;
	MPI_Datatype column, columns, interleaved;

	for (int i = 0; i < N; i++)
		for (int j = 0; j < M; j++)
			a[i][j] = me * 10000 + i * M + j;
	MPI_Type_vector(N, 1, M, MPI_INT, &column);
	MPI_Type_create_hvector(M, 1, sizeof(int), column, &columns);
	MPI_Type_commit(&columns);
	MPI_Sendrecv(a, 1, columns, right, 0, b, N * M, MPI_INT, left, 0, WORLD, MPI_STATUS_IGNORE);
	MPI_Type_free(&column);
	MPI_Type_vector(M, 1, N, MPI_INT, &column);
	MPI_Type_create_resized(column, 0, sizeof(int), &interleaved);
	MPI_Type_commit(&interleaved);
	MPI_Sendrecv(a, N * M, MPI_INT, right, 1, c, N, interleaved, left, 1, WORLD, MPI_STATUS_IGNORE);
	for (int i = 0; i < N; i++)
		for (int j = 0; j < M; j++) {
			CHECK_EQ(b[j][i], left * 10000 + i * M + j);
			CHECK_EQ(c[j][i], left * 10000 + i * M + j);
		}
	MPI_Type_free(&column);
	MPI_Type_free(&columns);
	MPI_Type_free(&interleaved);
}

struct particle {
	int class;		/* 0 or 1 */
	double x[6];
	char b[7];
};

enum { PARTICLES = 200 };

static MPI_Datatype particle_type(void)
{
	MPI_Datatype types[3] = { MPI_INT, MPI_DOUBLE, MPI_CHAR }, t, array;
	int lengths[3] = { 1, 6, 7 };
	struct particle p[2] = { { 0 } };
	MPI_Aint at[3], base, next;

	MPI_Get_address(&p[0], &base);
	MPI_Get_address(&p[0].class, &at[0]);
	MPI_Get_address(&p[0].x, &at[1]);
	MPI_Get_address(&p[0].b, &at[2]);
	MPI_Get_address(&p[1], &next);
	for (int i = 0; i < 3; i++)
		at[i] = MPI_Aint_diff(at[i], base);
	CHECK(MPI_Aint_add(base, sizeof(p[0])) == next);
	MPI_Type_create_struct(3, lengths, at, types, &t);
	MPI_Type_create_resized(t, 0, MPI_Aint_diff(next, base), &array);
	MPI_Type_free(&t);
	MPI_Type_commit(&array);
	return array;
}

static void make_particles(struct particle *p, int of)
{
	for (int i = 0; i < PARTICLES; i++) {
		p[i].class = (i * 7 + of) % 3 == 0;
		for (int k = 0; k < 6; k++)
			p[i].x[k] = of * 10000 + i * 10 + k;
		for (int k = 0; k < 7; k++)
			p[i].b[k] = (char)(i + k + of);
	}
}

/* An array of structs as a whole; those of class 0; their first two coordinates; and the same by absolute addresses. */
static void particles(void)
{
	static struct particle p[PARTICLES], q[PARTICLES], want[PARTICLES];
	int right = (me + 1) % np, left = (me + np - 1) % np, at[PARTICLES], ones[PARTICLES], n, got, k;
	MPI_Datatype particle = particle_type(), some, coordinates, absolute;
	static double xy[2 * PARTICLES];
	MPI_Aint here;
	MPI_Status s;

	make_particles(p, me);
	make_particles(want, left);
	MPI_Sendrecv(p, PARTICLES, particle, right, 0, q, PARTICLES, particle, left, 0, WORLD, &s);
	CHECK_EQ(count_of(&s, particle), PARTICLES);
	for (int i = 0; i < PARTICLES; i++)
		CHECK(q[i].class == want[i].class && !memcmp(q[i].x, want[i].x, sizeof(q[i].x)) &&
		      !memcmp(q[i].b, want[i].b, sizeof(q[i].b)));

	/* of class 0 only: runs of them are blocks */
	n = 0;
	for (int i = 0; i < PARTICLES; i++) {
		if (p[i].class)
			continue;
		if (n && at[n - 1] + ones[n - 1] == i) {
			ones[n - 1]++;
			continue;
		}
		at[n] = i;
		ones[n++] = 1;
	}
	MPI_Type_indexed(n, ones, at, particle, &some);
	MPI_Type_commit(&some);
	memset(q, 0, sizeof(q));
	MPI_Sendrecv(p, 1, some, right, 1, q, PARTICLES, particle, left, 1, WORLD, &s);
	got = count_of(&s, particle);
	k = 0;
	for (int i = 0; i < PARTICLES; i++)
		if (!want[i].class) {
			CHECK(k < got && q[k].x[5] == want[i].x[5] && q[k].b[6] == want[i].b[6]);
			k++;
		}
	CHECK_EQ(k, got);
	MPI_Type_free(&some);

	/* two coordinates of each */
	MPI_Type_create_hvector(PARTICLES, 2, sizeof(struct particle), MPI_DOUBLE, &coordinates);
	MPI_Type_commit(&coordinates);
	MPI_Sendrecv(p[0].x, 1, coordinates, right, 2, xy, 2 * PARTICLES, MPI_DOUBLE, left, 2, WORLD, MPI_STATUS_IGNORE);
	for (int i = 0; i < PARTICLES; i++)
		CHECK(xy[2 * i] == want[i].x[0] && xy[2 * i + 1] == want[i].x[1]);
	MPI_Type_free(&coordinates);

	/* the place is in the type */
	MPI_Get_address(&p[3], &here);
	MPI_Type_create_hindexed_block(1, PARTICLES - 3, &here, particle, &absolute);
	MPI_Type_commit(&absolute);
	memset(q, 0, sizeof(q));
	MPI_Sendrecv(MPI_BOTTOM, 1, absolute, right, 3, q, PARTICLES, particle, left, 3, WORLD, &s);
	CHECK_EQ(count_of(&s, particle), PARTICLES - 3);
	CHECK(q[0].x[1] == want[3].x[1] && q[PARTICLES - 4].x[1] == want[PARTICLES - 1].x[1]);
	MPI_Type_free(&absolute);
	MPI_Type_free(&particle);
}

/* A union: each element has the type named by a tag, all of them the extent of the union. */
static void unions(void)
{
	union {
		int i;
		float f;
		double d;
	} u[40], v[40];
	MPI_Datatype kinds[3] = { MPI_INT, MPI_FLOAT, MPI_DOUBLE }, sized[3], types[40], t;
	int right = (me + 1) % np, left = (me + np - 1) % np, ones[40];
	MPI_Aint at[40];

	for (int i = 0; i < 3; i++)
		MPI_Type_create_resized(kinds[i], 0, sizeof(u[0]), &sized[i]);
	for (int i = 0; i < 40; i++) {
		ones[i] = 1;
		at[i] = i * (MPI_Aint)sizeof(u[0]);
		types[i] = sized[i * i % 3];
		if (i * i % 3)
			u[i].f = me + i / 4.0f;
		else
			u[i].i = me * 100 + i;
	}
	MPI_Type_create_struct(40, ones, at, types, &t);
	MPI_Type_commit(&t);
	MPI_Sendrecv(u, 1, t, right, 0, v, 1, t, left, 0, WORLD, MPI_STATUS_IGNORE);
	for (int i = 0; i < 40; i++)
		CHECK(i * i % 3 ? v[i].f == left + i / 4.0f : v[i].i == left * 100 + i);
	MPI_Type_free(&t);
	for (int i = 0; i < 3; i++)
		MPI_Type_free(&sized[i]);
}

/* ---- 5.2, 5.3: packing --------------------------------------------------------------------------------------- */

/* Packed and unpacked, packed and received by a type, sent by a type and unpacked. */
static void packing(void)
{
	int right = (me + 1) % np, left = (me + np - 1) % np, n = 50, got, position = 0, size, part, lengths[2];
	MPI_Datatype types[2] = { MPI_INT, MPI_DOUBLE }, t;
	double x[50], y[50];
	char buf[2000], in[2000];
	MPI_Aint at[2];
	MPI_Status s;

	for (int i = 0; i < n; i++)
		x[i] = me + i / 8.0;
	/* a size is no communication: the type need not be committed (section 5.1.9) */
	MPI_Aint external;
	MPI_Type_vector(3, 2, 4, MPI_LONG, &t);
	MPI_Pack_size(2, t, WORLD, &size);
	MPI_Pack_external_size("external32", 2, t, &external);
	CHECK(size == 2 * 6 * (int)sizeof(long) && external == 2 * 6 * 4);
	FAILS(MPI_Pack(x, 1, t, buf, sizeof(buf), &position, WORLD), MPI_ERR_TYPE);
	MPI_Type_free(&t);
	MPI_Pack_size(1, MPI_INT, WORLD, &size);
	MPI_Pack_size(n, MPI_DOUBLE, WORLD, &part);
	size += part;
	CHECK(size <= (int)sizeof(buf));
	MPI_Pack(&n, 1, MPI_INT, buf, size, &position, WORLD);
	MPI_Pack(x, n, MPI_DOUBLE, buf, size, &position, WORLD);
	CHECK(position <= size);
	MPI_Sendrecv(buf, position, MPI_PACKED, right, 0, in, sizeof(in), MPI_PACKED, left, 0, WORLD, &s);
	CHECK_EQ(count_of(&s, MPI_PACKED), position);
	for (int form = 0; form < 3; form++) {
		got = 0;
		memset(y, 0, sizeof(y));
		lengths[0] = 1;
		lengths[1] = n;
		MPI_Get_address(form == 2 ? &n : &got, &at[0]);
		MPI_Get_address(form == 2 ? x : y, &at[1]);
		MPI_Type_create_struct(2, lengths, at, types, &t);
		MPI_Type_commit(&t);
		if (form == 1)
			MPI_Sendrecv(buf, position, MPI_PACKED, right, 0, MPI_BOTTOM, 1, t, left, 0, WORLD, &s);
		else if (form == 2)
			MPI_Sendrecv(MPI_BOTTOM, 1, t, right, 0, in, sizeof(in), MPI_PACKED, left, 0, WORLD, &s);
		MPI_Type_free(&t);
		if (form != 1) {
			part = 0;
			MPI_Unpack(in, sizeof(in), &part, &got, 1, MPI_INT, WORLD);
			CHECK_EQ(got, n);
			MPI_Unpack(in, sizeof(in), &part, y, got, MPI_DOUBLE, WORLD);
			CHECK_EQ(part, count_of(&s, MPI_PACKED));
		}
		CHECK_EQ(got, n);
		for (int i = 0; i < n; i++)
			CHECK(y[i] == left + i / 8.0);
	}
}

/* Each rank packs a different amount; the root gathers the lengths, then the bytes, and unpacks one after the other. */
static void packed_gather(void)
{
	int n = 3 + 5 * me, size, a, position = 0, at[8] = { 0 }, lengths[8], v[64], total = 0, got;
	char *buf, *all = NULL;

	MPI_Pack_size(1, MPI_INT, WORLD, &a);
	MPI_Pack_size(n, MPI_INT, WORLD, &size);
	buf = malloc(size + a);
	for (int i = 0; i < n; i++)
		v[i] = me * 1000 + i;
	MPI_Pack(&n, 1, MPI_INT, buf, size + a, &position, WORLD);
	MPI_Pack(v, n, MPI_INT, buf, size + a, &position, WORLD);
	MPI_Gather(&position, 1, MPI_INT, lengths, 1, MPI_INT, 0, WORLD);
	for (int i = 0; !me && i < np; i++) {
		at[i] = total;
		total += lengths[i];
	}
	all = malloc(total + 1);
	MPI_Gatherv(buf, position, MPI_PACKED, all, lengths, at, MPI_PACKED, 0, WORLD);
	for (int i = 0; !me && i < np; i++) {
		position = 0;
		MPI_Unpack(all + at[i], lengths[i], &position, &got, 1, MPI_INT, WORLD);
		CHECK_EQ(got, 3 + 5 * i);
		MPI_Unpack(all + at[i], lengths[i], &position, v, got, MPI_INT, WORLD);
		CHECK_EQ(position, lengths[i]);
		for (int k = 0; k < got; k++)
			CHECK_EQ(v[k], i * 1000 + k);
	}
	free(all);
	free(buf);
}

/* external32: big-endian, without gaps, of sizes that the standard fixes: MPI_LONG has 4 bytes. */
static void external(void)
{
	static const unsigned char want[] = { 0x01, 0x02, 0x03, 0x04, 0x3f, 0xf8, 0, 0, 0, 0, 0, 0, 'x', 0xff, 0xfe,
					      0, 0, 0, 5 };
	struct mixed {
		int i;
		double d;
		char c;
		short s;
		long l;
	} a = { 0x01020304, 1.5, 'x', -2, 5 }, b;
	MPI_Datatype types[5] = { MPI_INT, MPI_DOUBLE, MPI_CHAR, MPI_SHORT, MPI_LONG }, t;
	MPI_Aint at[5] = {offsetof(struct mixed, i), offsetof(struct mixed, d), offsetof(struct mixed, c),
			  offsetof(struct mixed, s), offsetof(struct mixed, l)},
		 size, position = 0;
	int ones[5] = { 1, 1, 1, 1, 1 };
	unsigned char buf[64];

	MPI_Type_create_struct(5, ones, at, types, &t);
	MPI_Type_commit(&t);
	MPI_Pack_external_size("external32", 1, t, &size);
	CHECK_EQ(size, sizeof(want));
	MPI_Pack_external("external32", &a, 1, t, buf, sizeof(buf), &position);
	CHECK_EQ(position, sizeof(want));
	CHECK(!memcmp(buf, want, sizeof(want)));
	memset(&b, 0, sizeof(b));
	position = 0;
	MPI_Unpack_external("external32", buf, sizeof(want), &position, &b, 1, t);
	CHECK(b.i == a.i && b.d == a.d && b.c == a.c && b.s == a.s && b.l == a.l);
	CHECK_EQ(position, sizeof(want));
	MPI_Type_free(&t);
}

/* Types by their size, by Fortran's precision and range; the pair of a value and an index; names. */
static void found_types(void)
{
	static const int bytes[] = { 4, 8 };
	char name[MPI_MAX_OBJECT_NAME];
	int size, ni, na, nd, combiner, ints[2], len;
	MPI_Aint at[1];
	MPI_Datatype t, again, of[1];

	for (int i = 0; i < 2; i++) {
		MPI_Type_match_size(MPI_TYPECLASS_REAL, bytes[i], &t);
		MPI_Type_size(t, &size);
		CHECK_EQ(size, bytes[i]);
		MPI_Type_match_size(MPI_TYPECLASS_INTEGER, bytes[i], &t);
		MPI_Type_size(t, &size);
		CHECK_EQ(size, bytes[i]);
		MPI_Type_match_size(MPI_TYPECLASS_COMPLEX, 2 * bytes[i], &t);
		MPI_Type_size(t, &size);
		CHECK_EQ(size, 2 * bytes[i]);
	}
	MPI_Type_create_f90_real(15, MPI_UNDEFINED, &t);
	MPI_Type_size(t, &size);
	CHECK_EQ(size, 8);
	MPI_Type_get_envelope(t, &ni, &na, &nd, &combiner);
	CHECK(combiner == MPI_COMBINER_F90_REAL && ni == 2 && !na && !nd);
	MPI_Type_get_contents(t, 2, 0, 0, ints, at, of);
	CHECK(ints[0] == 15 && ints[1] == MPI_UNDEFINED);
	MPI_Type_create_f90_real(15, MPI_UNDEFINED, &again);
	CHECK(again == t);
	MPI_Type_create_f90_integer(9, &t);
	MPI_Type_size(t, &size);
	CHECK_EQ(size, 4);
	MPI_Type_contiguous(3, MPI_INT, &t);
	MPI_Type_get_name(t, name, &len);
	CHECK(!len && !name[0]);
	MPI_Type_set_name(t, "three of them");
	MPI_Type_get_name(t, name, &len);
	CHECK(len == 13 && !strcmp(name, "three of them"));
	MPI_Type_dup(t, &again);
	MPI_Type_get_name(again, name, &len);
	CHECK(!len);
	MPI_Type_get_name(MPI_DOUBLE, name, &len);
	CHECK(!strcmp(name, "MPI_DOUBLE"));
	MPI_Type_free(&again);
	MPI_Type_free(&t);
#if MPI_VERSION > 4 || (MPI_VERSION == 4 && MPI_SUBVERSION >= 1)
	MPI_Type_get_value_index(MPI_DOUBLE, MPI_INT, &t);
	CHECK(t == MPI_DOUBLE_INT);
	MPI_Type_get_value_index(MPI_INT, MPI_INT, &t);
	CHECK(t == MPI_2INT);
	MPI_Type_get_value_index(MPI_CHAR, MPI_INT, &t);
	CHECK(t == MPI_DATATYPE_NULL);
#endif
}

static const struct standard_case cases[] = {
	{ "5.1.1, 5.1.2", "contiguous_and_vectors", 1, contiguous_and_vectors },
	{ "5.1.2", "indexed", 1, indexed },
	{ "5.1.2, 5.1.7", "structs", 1, structs },
	{ "5.1.3", "subarrays", 1, subarrays },
	{ "5.1.4", "darrays", 1, darrays },
	{ "5.1.9", "lifetime", 1, lifetime },
	{ "5.1.11", "counts", 1, counts },
	{ "5.1.13", "decoding", 1, decoding },
	{ "5.1.14", "section_of_array", 1, section_of_array },
	{ "5.1.14", "triangle", 1, triangle },
	{ "5.1.14", "transposition", 1, transposition },
	{ "5.1.14", "particles", 1, particles },
	{ "5.1.14", "unions", 1, unions },
	{ "5.2", "packing", 1, packing },
	{ "5.2", "packed_gather", 1, packed_gather },
	{ "5.3", "external", 1, external },
	{ "7.8, 19.1.9", "found_types", 1, found_types },
};

int main(int argc, char **argv)
{
	test_init(&argc, &argv);
	standard_run(cases, sizeof(cases) / sizeof(*cases), argc, argv);
	test_done("types");
	return 0;
}
