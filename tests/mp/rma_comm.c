/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The operations of one-sided communication (MPI-5.0, section 12.3) in every flavour of window and every kind of epoch: each rank
 * accesses the right neighbour and is accessed by the left one.
 */
#include "rma_test.h"

static int right, left;

static const struct element elements[N_ELEMENTS] = RMA_ELEMENTS;
static const struct operation operations[N_OPERATIONS] = RMA_OPERATIONS;

/* Runs the case for each flavour and each kind of epoch on a window of so many bytes per rank, filled by rank. */
static void everywhere(MPI_Aint size, void (*run)(const struct window *w, enum epoch e))
{
	struct window w;

	for (int f = 0; f < FLAVOURS; f++) {
		if (!flavour_possible(f))
			continue;
		window_new(&w, f, size, 1, MPI_INFO_NULL, WORLD);
		for (int e = 0; e < EPOCHS; e++) {
			own_fill(&w, (uint64_t)me);
			run(&w, e);
			meet(WORLD);
		}
		window_free(&w);
	}
}

static void begin(const struct window *w, enum epoch e)
{
	epoch_begin(w, e, right, left);
}

static void end(const struct window *w, enum epoch e)
{
	epoch_end(w, e, right);
}

/* Checks n bytes at `at`, which the left neighbour wrote, and that own_fill's bytes are everywhere else. */
static void only_there(const struct window *w, MPI_Aint at, size_t n, uint64_t seed)
{
	static unsigned char was[1 << 21];

	fill(was, (size_t)w->size, (uint64_t)me);
	own_begin(w);
	VERIFY(w->mem + at, n, seed);
	CHECK(!memcmp(was, w->mem, (size_t)at));
	CHECK(!memcmp(was + at + n, w->mem + at + n, (size_t)w->size - (size_t)at - n));
	own_end(w);
}

/* ---- 12.3.1, 12.3.2: put and get --------------------------------------------------------------------------------- */

static const int sizes[] = { 0, 1, 7, 8, 64, 1000, 4096, 70001, 1 << 20 };
enum { N_SIZES = sizeof(sizes) / sizeof(*sizes), PUT_WINDOW = (1 << 20) + 100 };
static unsigned char out[1 << 20], in[(1 << 20) + 16];

static void put_sizes(const struct window *w, enum epoch e)
{
	for (int i = 0; i < N_SIZES; i++) {
		int n = sizes[i], at = i % 2 ? 13 : 0;

		own_fill(w, (uint64_t)me);
		fill(out, (size_t)n, seed_of(me, right, i, e));
		begin(w, e);
		MPI_Put(out, n, MPI_BYTE, right, disp(w, right, at), n, MPI_BYTE, w->win);
		end(w, e);
		only_there(w, at, (size_t)n, seed_of(left, me, i, e));
		meet(WORLD);
	}
}

static void put(void)
{
	everywhere(PUT_WINDOW, put_sizes);
}

static void get_sizes(const struct window *w, enum epoch e)
{
	static unsigned char all[PUT_WINDOW];

	fill(all, sizeof(all), (uint64_t)right);
	for (int i = 0; i < N_SIZES; i++) {
		int n = sizes[i], at = i % 2 ? 13 : 0;

		memset(in, 0xee, sizeof(in));
		begin(w, e);
		MPI_Get(in, n, MPI_BYTE, right, disp(w, right, at), n, MPI_BYTE, w->win);
		end(w, e);
		CHECK(!memcmp(in, all + at, (size_t)n));
		for (int k = n; k < n + 16; k++)
			CHECK_EQ(in[k], 0xee);
	}
}

static void get(void)
{
	everywhere(PUT_WINDOW, get_sizes);
}

/* Long operations again and again: where they are messages of several pieces, answers arrive at any moment of the sending. */
static void long_ones_of(const struct window *w, enum epoch e)
{
	enum { N = 70001 };
	static unsigned char all[N], got[N];

	fill(all, N, (uint64_t)right);
	for (int i = 0; i < 40; i++) {
		memset(got, 0xee, N);
		begin(w, e);
		MPI_Get(got, N, MPI_BYTE, right, disp(w, right, 0), N, MPI_BYTE, w->win);
		end(w, e);
		CHECK(!memcmp(got, all, N));
	}
}

static void long_ones(void)
{
	everywhere(70001, long_ones_of);
}

/* Many operations in one epoch, from and to places side by side, gets among them; a rank is also a target of itself. */
static void many(const struct window *w, enum epoch e)
{
	enum { N = 300, PLACE = 24 };
	static unsigned char src[N][PLACE], dst[N][PLACE];
	static unsigned char theirs[N * PLACE];
	int target = e == FENCE || e == LOCK_ALL ? MPI_PROC_NULL : right;

	fill(theirs, sizeof(theirs), (uint64_t)right);
	begin(w, e);
	for (int i = 0; i < N; i++) {
		fill(src[i], PLACE, seed_of(me, right, i, e));
		if (i % 3 == 0)
			MPI_Get(dst[i], PLACE, MPI_BYTE, right, disp(w, right, i * PLACE), PLACE, MPI_BYTE, w->win);
		else
			MPI_Put(src[i], PLACE, MPI_BYTE, right, disp(w, right, i * PLACE), PLACE, MPI_BYTE, w->win);
	}
	if (target == MPI_PROC_NULL) {		/* these epochs reach every rank: the rank itself, behind the
						 * neighbour's places */
		MPI_Put(src[1], PLACE, MPI_BYTE, me, disp(w, me, N * PLACE), PLACE, MPI_BYTE, w->win);
		MPI_Get(in, PLACE, MPI_BYTE, me, disp(w, me, (N + 1) * PLACE), PLACE, MPI_BYTE, w->win);
	}
	end(w, e);
	own_begin(w);
	for (int i = 0; i < N; i++) {
		if (i % 3 == 0)
			CHECK(!memcmp(dst[i], theirs + i * PLACE, PLACE));
		else
			VERIFY(w->mem + i * PLACE, PLACE, seed_of(left, me, i, e));
	}
	if (target == MPI_PROC_NULL) {
		VERIFY(w->mem + N * PLACE, PLACE, seed_of(me, right, 1, e));
		CHECK(!memcmp(in, w->mem + (N + 1) * PLACE, PLACE));
	}
	own_end(w);
}

static void many_at_once(void)
{
	everywhere(302 * 24, many);
}

/* The origin's buffer is part of the origin's memory in the window. */
static void from_window(const struct window *w, enum epoch e)
{
	static unsigned char was[4000];

	begin(w, e);
	MPI_Put(w->mem, 1000, MPI_BYTE, right, disp(w, right, 1000), 1000, MPI_BYTE, w->win);
	MPI_Get(w->mem + 2000, 1000, MPI_BYTE, right, disp(w, right, 3000), 1000, MPI_BYTE, w->win);
	end(w, e);
	own_begin(w);
	VERIFY(w->mem, 1000, (uint64_t)me);
	VERIFY(w->mem + 1000, 1000, (uint64_t)left);
	fill(was, 4000, (uint64_t)right);
	CHECK(!memcmp(w->mem + 2000, was + 3000, 1000));
	own_end(w);
}

static void between_windows(void)
{
	everywhere(4000, from_window);
}

/* ---- 12.3.4: accumulates ----------------------------------------------------------------------------------------- */

enum { PER_KIND = 3 };

/* A combination of type and operation: the number of elements is small, since there are many combinations. */
static bool defined(int type, int op)
{
	return operations[op].groups & elements[type].group;
}

/* Before an accumulate: the elements at the target that this rank owns. */
static void own_elements(const struct window *w, const struct element *e, int n, uint64_t seed)
{
	own_begin(w);
	for (int i = 0; i < n; i++)
		set_element(e, w->mem + (size_t)i * e->size, seed + (uint64_t)i);
	own_end(w);
	meet(WORLD);
}

static void elements_fill(const struct element *e, void *p, int n, uint64_t seed)
{
	for (int i = 0; i < n; i++)
		set_element(e, (char *)p + (size_t)i * e->size, seed + (uint64_t)i);
}

static void elements_check(const struct element *e, const char *op, const void *have, const void *want, int n, const char *what)
{
	for (int i = 0; i < n; i++)
		if (!same_element(e, (const char *)have + (size_t)i * e->size, (const char *)want + (size_t)i * e->size))
			test_fail(__FILE__, __LINE__, "%s: element %d of %d of %s, %s, is wrong", what, i, n, e->name, op);
}

enum call { ACCUMULATE, GET_ACCUMULATE, FETCH_AND_OP, RACCUMULATE, RGET_ACCUMULATE, CALLS };
static const char *const call_names[CALLS] = { "accumulate", "get_accumulate", "fetch_and_op", "raccumulate", "rget_accumulate" };

static void accumulate_once(const struct window *w, enum epoch epoch, const struct element *e, const struct operation *o,
			    enum call call, int n)
{
	union { char bytes[4096]; long double aligned; } origin, result, target;
	MPI_Request r = MPI_REQUEST_NULL;
	MPI_Aint at = disp(w, right, 0);
	bool request = call == RACCUMULATE || call == RGET_ACCUMULATE;

	CHECK(e->size * (size_t)n <= sizeof(origin));
	own_elements(w, e, n, seed_of(me, 0, call, n));
	elements_fill(e, origin.bytes, n, seed_of(me, 1, call, n));
	memset(result.bytes, 0x77, sizeof(result));
	begin(w, epoch);
	switch (call) {
	case ACCUMULATE:
		MPI_Accumulate(origin.bytes, n, e->type, right, at, n, e->type, o->op, w->win);
		break;
	case GET_ACCUMULATE:
		MPI_Get_accumulate(origin.bytes, n, e->type, result.bytes, n, e->type, right, at, n, e->type, o->op, w->win);
		break;
	case FETCH_AND_OP:
		MPI_Fetch_and_op(origin.bytes, result.bytes, e->type, right, at, o->op, w->win);
		break;
	case RACCUMULATE:
		MPI_Raccumulate(origin.bytes, n, e->type, right, at, n, e->type, o->op, w->win, &r);
		break;
	default:
		MPI_Rget_accumulate(origin.bytes, n, e->type, result.bytes, n, e->type, right, at, n, e->type, o->op, w->win, &r);
		break;
	}
	if (request)
		MPI_Wait(&r, MPI_STATUS_IGNORE);
	end(w, epoch);
	if (call != ACCUMULATE && call != RACCUMULATE) {
		elements_fill(e, target.bytes, n, seed_of(right, 0, call, n));
		elements_check(e, o->name, result.bytes, target.bytes, n, call_names[call]);
	}
	elements_fill(e, target.bytes, n, seed_of(me, 0, call, n));
	elements_fill(e, origin.bytes, n, seed_of(left, 1, call, n));
	reference(e, o->op, origin.bytes, target.bytes, n);
	own_begin(w);
	elements_check(e, o->name, w->mem, target.bytes, n, call_names[call]);
	own_end(w);
	meet(WORLD);
}

/* Every type with every operation defined for that type, by every call. Epochs and flavours take turns: each combination is in
 * one of them. */
static void all_types(void)
{
	int turn = 0;

	for (int f = 0; f < FLAVOURS; f++) {
		struct window w;

		if (!flavour_possible(f))
			continue;
		window_new(&w, f, 4096, 1, MPI_INFO_NULL, WORLD);
		for (int t = 0; t < N_ELEMENTS; t++) {
			for (int o = 0; o < N_OPERATIONS; o++) {
				enum call call = (enum call)((t + o + turn) % CALLS);

				if (!defined(t, o))
					continue;
				if (operations[o].op == MPI_NO_OP && (call == ACCUMULATE || call == RACCUMULATE))
					call = call == ACCUMULATE ? GET_ACCUMULATE : RGET_ACCUMULATE;
				/* requests belong to passive target epochs */
				accumulate_once(&w, call >= RACCUMULATE ? LOCK + turn % 2 : turn % EPOCHS, &elements[t],
						&operations[o], call, call == FETCH_AND_OP ? 1 : PER_KIND + (t + o) % 3);
				turn++;
			}
		}
		window_free(&w);
		turn++;
	}
}

/* MPI_Compare_and_swap replaces the element if equal, and returns the old element in any case. */
static void swap_elements(const struct window *w, enum epoch epoch)
{
	for (int t = 0; t < N_ELEMENTS; t++) {
		const struct element *e = &elements[t];
		char origin[16], compare[16], result[16];

		if (!(e->group & (INTEGER | LOGICAL | BYTES | ADDRESS)))
			continue;
		for (int equal = 0; equal < 2; equal++) {
			own_begin(w);
			memset(w->mem, 0, 64);
			set_element(e, w->mem + 2 * e->size, (uint64_t)(3 * me));
			own_end(w);
			meet(WORLD);
			memset(result, 0x55, sizeof(result));
			memset(origin, 0, sizeof(origin));
			origin[0] = 1;
			memset(compare, 0, sizeof(compare));
			set_element(e, compare, (uint64_t)(3 * right));
			if (!equal)
				compare[0] ^= 1;
			begin(w, epoch);
			MPI_Compare_and_swap(origin, compare, result, e->type, right, disp(w, right, (MPI_Aint)(2 * e->size)),
					     w->win);
			end(w, epoch);
			set_element(e, compare, (uint64_t)(3 * right));
			CHECK(!memcmp(result, compare, e->size));
			if (!equal)
				set_element(e, origin, (uint64_t)(3 * me));
			own_begin(w);
			CHECK(!memcmp(w->mem + 2 * e->size, origin, e->size));
			for (size_t i = 0; i < 2 * e->size; i++)
				CHECK(!w->mem[i] && !w->mem[3 * e->size + i]);
			own_end(w);
			meet(WORLD);
		}
	}
}

static void compare_and_swap(void)
{
	everywhere(64, swap_elements);
}

/* Accumulates of many elements: more than any buffer takes at once. */
static void accumulate_long(const struct window *w, enum epoch epoch)
{
	enum { N = 30000 };
	static double one[N], got[N], *mem;
	static int32_t *ints;

	own_begin(w);
	mem = (double *)(void *)w->mem;
	for (int i = 0; i < N; i++) {
		mem[i] = me + i;
		one[i] = 0.5 * i;
	}
	own_end(w);
	meet(WORLD);
	begin(w, epoch);
	MPI_Accumulate(one, N, MPI_DOUBLE, right, disp(w, right, 0), N, MPI_DOUBLE, MPI_SUM, w->win);
	MPI_Get_accumulate(one, N, MPI_DOUBLE, got, N, MPI_DOUBLE, right, disp(w, right, 0), N, MPI_DOUBLE, MPI_SUM, w->win);
	end(w, epoch);
	own_begin(w);
	for (int i = 0; i < N; i++) {
		CHECK(got[i] == right + 1.5 * i);
		CHECK(mem[i] == me + 2.0 * i);
	}
	ints = (int32_t *)(void *)w->mem;
	memset(ints, 0, (size_t)w->size);
	own_end(w);
	meet(WORLD);
	begin(w, epoch);
	MPI_Get_accumulate(NULL, 0, MPI_DATATYPE_NULL, got, N, MPI_INT32_T, right, disp(w, right, 4), N, MPI_INT32_T, MPI_NO_OP,
			   w->win);
	end(w, epoch);
	for (int i = 0; i < N / 2; i++)
		CHECK(got[i] == 0);
}

static void long_accumulates(void)
{
	everywhere(30000 * 8 + 8, accumulate_long);
}

/* ---- 12.3, chapter 5: derived types on both sides ------------------------------------------------------------------- */

enum { COLUMNS = 12, ROWS = 10 };

/* A column at the origin becomes a row at the target, and the other way round; the type goes before the operation is complete. */
static void columns(const struct window *w, enum epoch e)
{
	int a[ROWS][COLUMNS], b[ROWS][COLUMNS], theirs[ROWS][COLUMNS], (*mine)[COLUMNS] = (int(*)[COLUMNS])(void *)w->mem;
	MPI_Datatype column, row;

	for (int i = 0; i < ROWS; i++)
		for (int k = 0; k < COLUMNS; k++) {
			a[i][k] = 10000 * me + 100 * i + k;
			b[i][k] = -1;
		}
	fill(theirs, sizeof(theirs), (uint64_t)right);
	MPI_Type_vector(ROWS, 1, COLUMNS, MPI_INT, &column);
	MPI_Type_contiguous(ROWS, MPI_INT, &row);
	MPI_Type_commit(&column);
	MPI_Type_commit(&row);
	begin(w, e);
	/* column 2 to their row 1, from column 1 of that row on; their row 0 to row 4, their column 0 to column 11 */
	MPI_Put(&a[0][2], 1, column, right, disp(w, right, (COLUMNS + 1) * (MPI_Aint)sizeof(int)), 1, row, w->win);
	MPI_Get(&b[4][0], 1, row, right, disp(w, right, 0), ROWS, MPI_INT, w->win);
	MPI_Get(&b[0][11], 1, column, right, disp(w, right, 0), 1, column, w->win);
	MPI_Type_free(&column);
	MPI_Type_free(&row);
	end(w, e);
	own_begin(w);
	for (int i = 0; i < ROWS; i++) {
		CHECK_EQ(mine[1][1 + i], 10000 * left + 100 * i + 2);
		CHECK_EQ(b[4][i], theirs[0][i]);
		CHECK_EQ(b[i][11], theirs[i][0]);
		for (int k = 0; k < 11; k++)
			CHECK_EQ(b[i][k], i == 4 && k < ROWS ? theirs[0][k] : -1);
	}
	own_end(w);
}

static void derived_columns(void)
{
	everywhere(ROWS * COLUMNS * sizeof(int), columns);
}

struct record { char tag; double value; int list[3]; };

/* Structures with holes, absolute addresses at the origin, a negative lower bound at the target, blocks in descending order. */
static void shapes(const struct window *w, enum epoch e)
{
	struct record out_records[5], in_records[5], *mine = (struct record *)(void *)(w->mem + 16);
	int lengths[3] = { 1, 1, 2 }, two[2] = { 4, 2 }, places[2] = { 6, 0 }, scattered[6], got[6];
	MPI_Aint at[3] = {offsetof(struct record, tag), offsetof(struct record, value), offsetof(struct record, list) + 4},
		 absolute[2];
	MPI_Datatype of[3] = { MPI_CHAR, MPI_DOUBLE, MPI_INT }, record, plain, bottom, back, descending;

	MPI_Type_create_struct(3, lengths, at, of, &plain);
	MPI_Type_create_resized(plain, 0, sizeof(struct record), &record);
	MPI_Type_commit(&record);
	MPI_Type_free(&plain);
	/* 4 ints, then 2, by addresses */
	MPI_Get_address(&scattered[2], &absolute[0]);
	MPI_Get_address(&scattered[0], &absolute[1]);
	MPI_Type_create_hindexed(2, two, absolute, MPI_INT, &bottom);
	MPI_Type_commit(&bottom);
	/* ints at 8 bytes before the displacement, and at the displacement */
	MPI_Type_create_hindexed(2, (int[]){ 1, 1 }, (MPI_Aint[]){ -8, 0 }, MPI_INT, &back);
	MPI_Type_commit(&back);
	MPI_Type_indexed(2, two, places, MPI_INT, &descending);
	MPI_Type_commit(&descending);
	memset(out_records, 0, sizeof(out_records));
	memset(in_records, 0x33, sizeof(in_records));
	for (int i = 0; i < 5; i++)
		out_records[i] = (struct record){ (char)('a' + me + i), me + i / 8.0, { -1, me, i } };
	for (int i = 0; i < 6; i++)
		scattered[i] = 100 * me + i;
	own_begin(w);
	memset(w->mem, 0x11, (size_t)w->size);
	own_end(w);
	meet(WORLD);
	begin(w, e);
	MPI_Put(out_records, 5, record, right, disp(w, right, 16), 5, record, w->win);
	MPI_Put(MPI_BOTTOM, 1, bottom, right, disp(w, right, 400), 1, descending, w->win);
	MPI_Put(scattered, 2, MPI_INT, right, disp(w, right, 8), 1, back, w->win);
	end(w, e);
	own_begin(w);
	for (int i = 0; i < 5; i++) {
		CHECK_EQ(mine[i].tag, (char)('a' + left + i));
		CHECK(mine[i].value == left + i / 8.0);
		CHECK(mine[i].list[0] == 0x11111111 && mine[i].list[1] == left && mine[i].list[2] == i);
		CHECK_EQ(((char *)&mine[i])[1], 0x11);		/* a hole */
	}
	for (int i = 0; i < 4; i++)
		CHECK_EQ(((int *)(void *)(w->mem + 400))[6 + i], 100 * left + 2 + i);
	for (int i = 0; i < 2; i++)
		CHECK_EQ(((int *)(void *)(w->mem + 400))[i], 100 * left + i);
	CHECK_EQ(((int *)(void *)(w->mem + 400))[2], 0x11111111);
	CHECK(((int *)(void *)w->mem)[0] == 100 * left && ((int *)(void *)w->mem)[1] == 0x11111111 &&
	      ((int *)(void *)w->mem)[2] == 100 * left + 1);
	own_end(w);
	meet(WORLD);
	memset(scattered, 0, sizeof(scattered));
	begin(w, e);
	MPI_Get(in_records, 5, record, right, disp(w, right, 16), 5, record, w->win);
	MPI_Get(MPI_BOTTOM, 1, bottom, right, disp(w, right, 400), 1, descending, w->win);
	MPI_Get(got, 2, MPI_INT, right, disp(w, right, 8), 1, back, w->win);
	MPI_Type_free(&record);
	MPI_Type_free(&bottom);
	MPI_Type_free(&back);
	MPI_Type_free(&descending);
	end(w, e);
	for (int i = 0; i < 5; i++) {
		CHECK_EQ(in_records[i].tag, out_records[i].tag);
		CHECK(in_records[i].value == me + i / 8.0 && in_records[i].list[0] == 0x33333333 && in_records[i].list[2] == i);
		CHECK_EQ(((char *)&in_records[i])[1], 0x33);
	}
	for (int i = 0; i < 6; i++)
		CHECK_EQ(scattered[i], 100 * me + i);
	CHECK(got[0] == 100 * me && got[1] == 100 * me + 1);
}

static void derived_shapes(void)
{
	everywhere(500, shapes);
}

/* Accumulates with derived types of one basic type: origin, result and target each have a layout of their own. */
static void accumulate_shapes(const struct window *w, enum epoch e)
{
	enum { N = 500 };
	static double origin[3 * N], result[2 * N], *mem;
	MPI_Datatype third, pairs, reversed;
	int places[N];

	for (int i = 0; i < N; i++)
		places[i] = 2 * (N - 1 - i);
	MPI_Type_vector(N, 1, 3, MPI_DOUBLE, &third);
	MPI_Type_vector(N / 2, 2, 4, MPI_DOUBLE, &pairs);
	MPI_Type_create_indexed_block(N, 1, places, MPI_DOUBLE, &reversed);
	MPI_Type_commit(&third);
	MPI_Type_commit(&pairs);
	MPI_Type_commit(&reversed);
	own_begin(w);
	mem = (double *)(void *)w->mem;
	for (int i = 0; i < 2 * N; i++) {
		mem[i] = 1000 * me + i;
		result[i] = -1;
	}
	own_end(w);
	meet(WORLD);
	for (int i = 0; i < 3 * N; i++)
		origin[i] = i % 3 ? 1e9 : i / 3;
	begin(w, e);
	MPI_Get_accumulate(origin, 1, third, result, 1, pairs, right, disp(w, right, 8), 1, reversed, MPI_SUM, w->win);
	MPI_Accumulate(origin, 1, third, right, disp(w, right, 8), 1, reversed, MPI_SUM, w->win);
	MPI_Type_free(&third);
	MPI_Type_free(&pairs);
	MPI_Type_free(&reversed);
	end(w, e);
	own_begin(w);
	for (int i = 0; i < N; i++) {
		CHECK(mem[2 * i] == 1000 * me + 2 * i);
		CHECK(mem[2 * i + 1] == 1000 * me + 2 * i + 1 + 2 * (N - 1 - i));
		CHECK(result[i / 2 * 4 + i % 2] == 1000 * right + places[i] + 1);
		CHECK(result[i / 2 * 4 + 2 + i % 2] == -1 || i / 2 * 4 + 2 + i % 2 >= 2 * N);
	}
	own_end(w);
}

static void derived_accumulates(void)
{
	everywhere(1001 * sizeof(double), accumulate_shapes);
}

/* Types of many pieces, more than a message or a list takes: every second byte of 200,000. */
static void many_pieces(const struct window *w, enum epoch e)
{
	enum { N = 100000 };
	static unsigned char src[N], dst[2 * N];
	MPI_Datatype second;

	MPI_Type_vector(N, 1, 2, MPI_BYTE, &second);
	MPI_Type_commit(&second);
	fill(src, N, seed_of(me, right, 0, e));
	memset(dst, 0x99, sizeof(dst));
	own_begin(w);
	memset(w->mem, 0x44, (size_t)w->size);
	own_end(w);
	meet(WORLD);
	begin(w, e);
	MPI_Put(src, N, MPI_BYTE, right, disp(w, right, 1), 1, second, w->win);
	end(w, e);
	begin(w, e);
	MPI_Get(dst, 1, second, right, disp(w, right, 1), 1, second, w->win);
	MPI_Type_free(&second);
	end(w, e);
	own_begin(w);
	for (int i = 0; i < N; i++) {
		CHECK_EQ(w->mem[2 * i], 0x44);
		CHECK(dst[2 * i] == src[i] && (i == N - 1 || dst[2 * i + 1] == 0x99));
	}
	fill(src, N, seed_of(left, me, 0, e));
	for (int i = 0; i < N; i++)
		CHECK_EQ(w->mem[2 * i + 1], src[i]);
	own_end(w);
}

static void derived_pieces(void)
{
	everywhere(200001, many_pieces);
}

/* ---- 12.3.5: requests -------------------------------------------------------------------------------------------- */

/* A put's request frees the buffer, a get's has the data; they wait among receives and sends, in every way. */
static void requests(const struct window *w, enum epoch e)
{
	enum { N = 40, LEN = 100 };
	static int64_t src[N][LEN], dst[N][LEN];
	MPI_Request r[N + 2];
	MPI_Status s[N + 2];
	int index, flag, some, which[N + 2], open = N, token = -1;

	if (e < LOCK)
		return;
	begin(w, e);
	for (int i = 0; i < N; i++) {
		fill(src[i], sizeof(src[i]), seed_of(me, right, i, e));
		MPI_Rput(src[i], LEN, MPI_INT64_T, right, disp(w, right, i * (MPI_Aint)sizeof(src[i])), LEN, MPI_INT64_T,
			 w->win, &r[i]);
	}
	MPI_Irecv(&token, 1, MPI_INT, left, 5, WORLD, &r[N]);
	MPI_Isend(&me, 1, MPI_INT, right, 5, WORLD, &r[N + 1]);
	MPI_Waitall(N + 2, r, s);
	CHECK_EQ(token, left);
	CHECK(s[N].MPI_SOURCE == left && s[N].MPI_TAG == 5);
	for (int i = 0; i < N; i++)
		CHECK(r[i] == MPI_REQUEST_NULL && !was_cancelled(&s[i]));
	memset(src, 0, sizeof(src));
	MPI_Win_flush(right, w->win);
	for (int i = 0; i < N; i++)
		MPI_Rget(dst[i], LEN, MPI_INT64_T, right, disp(w, right, i * (MPI_Aint)sizeof(src[i])), LEN, MPI_INT64_T,
			 w->win, &r[i]);
	while (open) {
		if (open % 3 == 0) {
			MPI_Waitany(N, r, &index, &s[0]);
			VERIFY(dst[index], sizeof(dst[index]), seed_of(me, right, index, e));
			open--;
		} else if (open % 3 == 1) {
			MPI_Waitsome(N, r, &some, which, s);
			for (int i = 0; i < some; i++)
				VERIFY(dst[which[i]], sizeof(dst[0]), seed_of(me, right, which[i], e));
			open -= some;
		} else {
			MPI_Testany(N, r, &index, &flag, &s[0]);
			if (!flag)
				continue;
			VERIFY(dst[index], sizeof(dst[index]), seed_of(me, right, index, e));
			open--;
		}
	}
	/* one that is tested, and one that is waited for when the flush has completed the operation */
	MPI_Rget(dst[0], 1, MPI_INT64_T, right, disp(w, right, 8), 1, MPI_INT64_T, w->win, &r[0]);
	do
		MPI_Test(&r[0], &flag, MPI_STATUS_IGNORE);
	while (!flag);
	VERIFY(dst[0], 8, seed_of(me, right, 0, e) + 8);
	MPI_Rput(dst[1], LEN, MPI_INT64_T, right, disp(w, right, 0), LEN, MPI_INT64_T, w->win, &r[0]);
	MPI_Win_flush(right, w->win);
	MPI_Wait(&r[0], MPI_STATUS_IGNORE);
	CHECK(r[0] == MPI_REQUEST_NULL);
	end(w, e);
	own_begin(w);
	VERIFY(w->mem, sizeof(src[0]), seed_of(left, me, 1, e));
	for (int i = 1; i < N; i++)
		VERIFY(w->mem + i * sizeof(src[0]), sizeof(src[0]), seed_of(left, me, i, e));
	own_end(w);
}

/* A request may be freed while active (section 3.7.3): the operation goes on, and a flush completes it. MPI-4.1 allows that for
 * one-sided operations; MPI-5.0 demands a wait or a test. */
static void freed(const struct window *w, enum epoch e)
{
	enum { LEN = 50000 };
	static int64_t src[LEN], dst[LEN], old[LEN], zero[LEN];
	MPI_Request r;

	if (e < LOCK)
		return;
	MPI_Barrier(WORLD);
	begin(w, e);
	fill(src, sizeof(src), seed_of(me, right, 3, e));
	memset(dst, -1, sizeof(dst));
	memset(old, -1, sizeof(old));
	CHECK(!MPI_Rput(src, LEN, MPI_INT64_T, right, disp(w, right, 0), LEN, MPI_INT64_T, w->win, &r));
	CHECK(!MPI_Request_free(&r) && r == MPI_REQUEST_NULL);
	MPI_Win_flush(right, w->win);
	CHECK(!MPI_Raccumulate(zero, LEN, MPI_INT64_T, right, disp(w, right, 0), LEN, MPI_INT64_T, MPI_SUM, w->win, &r));
	CHECK(!MPI_Request_free(&r) && r == MPI_REQUEST_NULL);
	CHECK(!MPI_Rget_accumulate(zero, LEN, MPI_INT64_T, old, LEN, MPI_INT64_T, right, disp(w, right, 0), LEN, MPI_INT64_T,
				   MPI_SUM, w->win, &r));
	CHECK(!MPI_Request_free(&r) && r == MPI_REQUEST_NULL);
	MPI_Win_flush(right, w->win);
	CHECK(!MPI_Rget(dst, LEN, MPI_INT64_T, right, disp(w, right, 0), LEN, MPI_INT64_T, w->win, &r));
	CHECK(!MPI_Request_free(&r) && r == MPI_REQUEST_NULL);
	end(w, e);
	VERIFY(dst, sizeof(dst), seed_of(me, right, 3, e));
	VERIFY(old, sizeof(old), seed_of(me, right, 3, e));
	MPI_Barrier(WORLD);
}

static void by_requests(void)
{
	everywhere(40 * 100 * 8, requests);
	everywhere(50000 * 8, freed);
}

/* A request may be completed after the epoch: the end of the epoch has completed the operation already. */
static void late_waits(void)
{
	struct window w;
	MPI_Request r[2];
	int64_t a = me, b = -1;

	for (int f = 0; f < FLAVOURS; f++) {
		if (!flavour_possible(f))
			continue;
		window_new(&w, f, 16, 1, MPI_INFO_NULL, WORLD);
		own_fill(&w, 0);
		MPI_Win_lock(MPI_LOCK_SHARED, right, 0, w.win);
		MPI_Rput(&a, 1, MPI_INT64_T, right, disp(&w, right, 0), 1, MPI_INT64_T, w.win, &r[0]);
		MPI_Win_flush(right, w.win);
		MPI_Rget(&b, 1, MPI_INT64_T, right, disp(&w, right, 0), 1, MPI_INT64_T, w.win, &r[1]);
		MPI_Win_unlock(right, w.win);
		CHECK_EQ(b, me);
		MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
		meet(WORLD);
		window_free(&w);
	}
}

/* ---- 3.11, 12.3: MPI_PROC_NULL ----------------------------------------------------------------------------------- */

static void null_target(const struct window *w, enum epoch e)
{
	int a = 1, b = 2, c = 3;
	MPI_Request r[4];
	const int null = MPI_PROC_NULL;

	begin(w, e);
	MPI_Put(&a, 1, MPI_INT, null, 0, 1, MPI_INT, w->win);
	MPI_Get(&a, 1, MPI_INT, null, 0, 1, MPI_INT, w->win);
	MPI_Accumulate(&a, 1, MPI_INT, null, 0, 1, MPI_INT, MPI_SUM, w->win);
	MPI_Get_accumulate(&a, 1, MPI_INT, &b, 1, MPI_INT, null, 0, 1, MPI_INT, MPI_SUM, w->win);
	MPI_Fetch_and_op(&a, &b, MPI_INT, null, 0, MPI_SUM, w->win);
	MPI_Compare_and_swap(&a, &c, &b, MPI_INT, null, 0, w->win);
	if (e >= LOCK) {
		MPI_Rput(&a, 1, MPI_INT, null, 0, 1, MPI_INT, w->win, &r[0]);
		MPI_Rget(&a, 1, MPI_INT, null, 0, 1, MPI_INT, w->win, &r[1]);
		MPI_Raccumulate(&a, 1, MPI_INT, null, 0, 1, MPI_INT, MPI_SUM, w->win, &r[2]);
		MPI_Rget_accumulate(&a, 1, MPI_INT, &b, 1, MPI_INT, null, 0, 1, MPI_INT, MPI_SUM, w->win, &r[3]);
		MPI_Waitall(4, r, MPI_STATUSES_IGNORE);
	}
	end(w, e);
	CHECK(a == 1 && b == 2 && c == 3);
}

static void nowhere(void)
{
	everywhere(8, null_target);
}

#if MPI_VERSION >= 4
/* ---- the forms with large counts ---------------------------------------------------------------------------------- */

static void large_counts(const struct window *w, enum epoch e)
{
	int64_t a[4] = { me, me + 1, me + 2, me + 3 }, b[4] = { 0 }, c[4] = { 0 }, *mem = (int64_t *)(void *)w->mem;
	const MPI_Count n = 4;
	MPI_Request r[4];

	own_begin(w);
	memset(w->mem, 0, (size_t)w->size);
	own_end(w);
	meet(WORLD);
	begin(w, e);
	MPI_Put_c(a, n, MPI_INT64_T, right, disp(w, right, 0), n, MPI_INT64_T, w->win);
	MPI_Accumulate_c(a, n, MPI_INT64_T, right, disp(w, right, 32), n, MPI_INT64_T, MPI_SUM, w->win);
	MPI_Get_accumulate_c(a, n, MPI_INT64_T, b, n, MPI_INT64_T, right, disp(w, right, 32), n, MPI_INT64_T, MPI_SUM, w->win);
	MPI_Get_c(c, n, MPI_INT64_T, right, disp(w, right, 96), n, MPI_INT64_T, w->win);
	end(w, e);
	own_begin(w);
	for (int i = 0; i < 4; i++) {
		CHECK_EQ(mem[i], left + i);
		CHECK_EQ(mem[4 + i], 2 * (left + i));
		CHECK_EQ(b[i], me + i);
		CHECK_EQ(c[i], 0);
	}
	own_end(w);
	meet(WORLD);
	if (e < LOCK)
		return;
	begin(w, e);
	MPI_Rput_c(a, n, MPI_INT64_T, right, disp(w, right, 64), n, MPI_INT64_T, w->win, &r[0]);
	MPI_Raccumulate_c(a, n, MPI_INT64_T, right, disp(w, right, 32), n, MPI_INT64_T, MPI_SUM, w->win, &r[1]);
	MPI_Rget_accumulate_c(a, n, MPI_INT64_T, b, n, MPI_INT64_T, right, disp(w, right, 32), n, MPI_INT64_T, MPI_SUM, w->win,
			      &r[2]);
	MPI_Rget_c(c, n, MPI_INT64_T, right, disp(w, right, 0), n, MPI_INT64_T, w->win, &r[3]);
	MPI_Waitall(4, r, MPI_STATUSES_IGNORE);
	for (int i = 0; i < 4; i++) {
		CHECK_EQ(b[i], 3 * (me + i));
		CHECK_EQ(c[i], me + i);
	}
	end(w, e);
	own_begin(w);
	for (int i = 0; i < 4; i++) {
		CHECK_EQ(mem[8 + i], left + i);
		CHECK_EQ(mem[4 + i], 4 * (left + i));
	}
	own_end(w);
}

static void large_forms(void)
{
	everywhere(128, large_counts);
}
#endif

/* ---- 12.3.3, 12.8: examples ----------------------------------------------------------------------------------------- */

/* An array distributed over the ranks is gathered by a list of indices, with a type for each owner. */
static void indirect(void)
{
	enum { EACH = 100 };
	int map[EACH], places[EACH], theirs[EACH];
	double a[EACH], b[EACH];
	MPI_Datatype here, there;
	uint64_t state = (uint64_t)me;
	MPI_Win win;

	for (int i = 0; i < EACH; i++) {
		map[i] = (int)(rnd(&state) % (unsigned)(EACH * np));
		b[i] = EACH * me + i;
	}
	MPI_Win_create(b, sizeof(b), sizeof(double), MPI_INFO_NULL, WORLD, &win);
	MPI_Win_fence(0, win);
	for (int r = 0; r < np; r++) {
		int n = 0;

		for (int i = 0; i < EACH; i++)
			if (map[i] / EACH == r) {
				places[n] = i;
				theirs[n++] = map[i] % EACH;
			}
		MPI_Type_create_indexed_block(n, 1, places, MPI_DOUBLE, &here);
		MPI_Type_create_indexed_block(n, 1, theirs, MPI_DOUBLE, &there);
		MPI_Type_commit(&here);
		MPI_Type_commit(&there);
		MPI_Get(a, 1, here, r, 0, 1, there, win);
		MPI_Type_free(&here);
		MPI_Type_free(&there);
	}
	MPI_Win_fence(0, win);
	for (int i = 0; i < EACH; i++)
		CHECK(a[i] == map[i]);
	/* and the sums back: each element has been incremented once per occurrence in the map */
	memset(b, 0, sizeof(b));
	MPI_Win_fence(0, win);
	for (int i = 0; i < EACH; i++) {
		static const double one = 1;

		MPI_Accumulate(&one, 1, MPI_DOUBLE, map[i] / EACH, map[i] % EACH, 1, MPI_DOUBLE, MPI_SUM, win);
	}
	MPI_Win_fence(0, win);
	for (int i = 0; i < EACH; i++) {
		int n = 0;

		for (int r = 0; r < np; r++) {
			state = (uint64_t)r;
			for (int k = 0; k < EACH; k++)
				n += (int)(rnd(&state) % (unsigned)(EACH * np)) == EACH * me + i;
		}
		CHECK(b[i] == n);
	}
	MPI_Win_free(&win);
}

static const struct standard_case cases[] = {
	{ "12.3.1", "put", 1, put },
	{ "12.3.2", "get", 1, get },
	{ "12.3", "many_at_once", 1, many_at_once },
	{ "12.3", "between_windows", 1, between_windows },
	{ "12.3.4", "all_types", 1, all_types },
	{ "12.3.4", "compare_and_swap", 1, compare_and_swap },
	{ "12.3.4", "long_accumulates", 1, long_accumulates },
	{ "12.3.1", "derived_columns", 1, derived_columns },
	{ "12.3.1", "derived_shapes", 1, derived_shapes },
	{ "12.3.4", "derived_accumulates", 1, derived_accumulates },
	{ "12.3.1", "derived_pieces", 1, derived_pieces },
	{ "12.3.2", "long_ones", 1, long_ones },
	{ "12.3.5", "by_requests", 1, by_requests },
	{ "12.3.5", "late_waits", 1, late_waits },
	{ "12.3", "nowhere", 1, nowhere },
#if MPI_VERSION >= 4
	{ "12.3", "large_forms", 1, large_forms },
#endif
	{ "12.3.3", "indirect", 1, indirect },
};

int main(int argc, char **argv)
{
	test_init(&argc, &argv);
	right = (me + 1) % np;
	left = (me + np - 1) % np;
	standard_run(cases, sizeof(cases) / sizeof(*cases), argc, argv);
	test_done("comm");
	return 0;
}
