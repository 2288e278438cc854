/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Accumulates under contention, and their order (MPI-5.0, sections 12.7.1, 12.7.2): atomic for each basic element, in
 * the read and in the operation together, whichever calls meet at a location; operations of one origin on one location
 * in the order of their calls.
 *
 *     rma_atomic [CASE...]     RMA_TIMES in the environment: operations of each rank (200)
 */
#include "rma_test.h"

static int right, left, times = 200;

/* Reads n elements of a rank's memory as accumulates see them. */
static void read_elements(const struct window *w, void *to, int n, MPI_Datatype type, int rank, MPI_Aint offset)
{
	MPI_Get_accumulate(NULL, 0, MPI_BYTE, to, n, type, rank, disp(w, rank, offset), n, type, MPI_NO_OP, w->win);
	MPI_Win_flush(rank, w->win);
}

static int by_value(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return x < y ? -1 : x > y;
}

/* ---- 12.7.1: atomicity ----------------------------------------------------------------------------------------------- */

/* All ranks count on one word of one rank, by every call that can: no count is lost, and no two fetches have the same value. */
static void one_counter(const struct window *w)
{
	const int64_t one = 1;
	int64_t *mine = checked(malloc((size_t)times * sizeof(*mine))), *all = NULL, sum;
	int n = 0, target = np / 2, *counts = checked(calloc((size_t)np, sizeof(int))),
	    *places = checked(calloc((size_t)np, sizeof(int)));

	MPI_Win_lock_all(0, w->win);
	for (int i = 0; i < times; i++) {
		switch ((i + me) % 3) {
		case 0:
			MPI_Accumulate(&one, 1, MPI_INT64_T, target, disp(w, target, 8), 1, MPI_INT64_T, MPI_SUM, w->win);
			break;
		case 1:
			MPI_Fetch_and_op(&one, &mine[n++], MPI_INT64_T, target, disp(w, target, 8), MPI_SUM, w->win);
			break;
		default:
			MPI_Get_accumulate(&one, 1, MPI_INT64_T, &mine[n++], 1, MPI_INT64_T, target, disp(w, target, 8), 1,
					   MPI_INT64_T, MPI_SUM, w->win);
			break;
		}
		if (i % 4 == 0)
			MPI_Win_flush(target, w->win);
	}
	MPI_Win_unlock_all(w->win);
	meet(WORLD);
	for (int i = 1; i < n; i++)
		CHECK(mine[i] > mine[i - 1]);
	own_begin(w);
	sum = *(int64_t *)(void *)(w->mem + 8);
	own_end(w);
	CHECK_EQ(sum, me == target ? (int64_t)times * np : 0);
	MPI_Gather(&n, 1, MPI_INT, counts, 1, MPI_INT, 0, WORLD);
	for (int r = 1; r < np; r++)
		places[r] = places[r - 1] + counts[r - 1];
	if (!me)
		all = checked(malloc((size_t)(places[np - 1] + counts[np - 1]) * sizeof(*all)));
	MPI_Gatherv(mine, n, MPI_INT64_T, all, counts, places, MPI_INT64_T, 0, WORLD);
	if (!me) {
		n = places[np - 1] + counts[np - 1];
		qsort(all, (size_t)n, sizeof(*all), by_value);
		for (int i = 0; i < n; i++)
			CHECK(all[i] >= 0 && all[i] < (int64_t)times * np && (!i || all[i] > all[i - 1]));
	}
	free(all);
	free(mine);
	free(counts);
	free(places);
}

static void counter(void)
{
	on_each_flavour(24, one_counter);
}

/* The same, by compare-and-swap in a loop, some ranks from the target's own host or the target itself. */
static void swap_counter(const struct window *w)
{
	int64_t was = 0, next, old;
	int32_t small = 0, small_next, small_old;

	MPI_Win_lock_all(0, w->win);
	for (int i = 0; i < times / 2; i++) {
		for (;;) {
			next = was + 1;
			MPI_Compare_and_swap(&next, &was, &old, MPI_INT64_T, 0, disp(w, 0, 0), w->win);
			MPI_Win_flush(0, w->win);
			if (old == was)
				break;
			was = old;
		}
		for (;;) {	/* the upper half of a word with a lower half that is counted, too */
			small_next = small + 1;
			MPI_Compare_and_swap(&small_next, &small, &small_old, MPI_INT32_T, 0, disp(w, 0, 12), w->win);
			MPI_Win_flush(0, w->win);
			if (small_old == small)
				break;
			small = small_old;
		}
		small_next = 1;
		MPI_Accumulate(&small_next, 1, MPI_INT32_T, 0, disp(w, 0, 8), 1, MPI_INT32_T, MPI_SUM, w->win);
		MPI_Win_flush_local(0, w->win);
	}
	MPI_Win_unlock_all(w->win);
	meet(WORLD);
	own_begin(w);
	if (!me) {
		CHECK_EQ(*(int64_t *)(void *)w->mem, (int64_t)(times / 2) * np);
		CHECK_EQ(*(int32_t *)(void *)(w->mem + 8), times / 2 * np);
		CHECK_EQ(*(int32_t *)(void *)(w->mem + 12), times / 2 * np);
	}
	own_end(w);
}

static void swaps(void)
{
	on_each_flavour(16, swap_counter);
}

/* Elements of every size side by side, all counted by all ranks at once: a neighbour's update never takes one back. */
static void neighbours_of(const struct window *w)
{
	const int8_t b = 1;
	const int16_t s = 1;
	const int32_t i4 = 1;
	const float f = 1;
	const double d = 1;
	const long double l = 1;
	struct cells { int8_t b[4]; int16_t s[2]; int32_t i; float f; double d[2]; long double l[2]; } *mine;
	const MPI_Aint at[] = { offsetof(struct cells, b), offsetof(struct cells, b) + 1, offsetof(struct cells, b) + 3,
				offsetof(struct cells, s), offsetof(struct cells, s) + 2, offsetof(struct cells, i),
				offsetof(struct cells, f), offsetof(struct cells, d), offsetof(struct cells, d) + 8,
					offsetof(struct cells, l), offsetof(struct cells, l) + sizeof(long double) };
	const void *const ones[] = { &b, &b, &b, &s, &s, &i4, &f, &d, &d, &l, &l };
	const MPI_Datatype types[] = {MPI_INT8_T, MPI_INT8_T, MPI_INT8_T, MPI_INT16_T,     MPI_INT16_T,    MPI_INT32_T,
				      MPI_FLOAT,  MPI_DOUBLE, MPI_DOUBLE, MPI_LONG_DOUBLE, MPI_LONG_DOUBLE};
	enum { CELLS = sizeof(at) / sizeof(*at) };
	int n = times / 4;

	MPI_Win_lock_all(0, w->win);
	for (int i = 0; i < n; i++) {
		for (int c = 0; c < CELLS; c++) {
			int k = (c + me + i) % CELLS;

			MPI_Accumulate(ones[k], 1, types[k], 0, disp(w, 0, at[k]), 1, types[k], MPI_SUM, w->win);
		}
		if (i % 8 == 0)
			MPI_Win_flush(0, w->win);
	}
	MPI_Win_unlock_all(w->win);
	meet(WORLD);
	own_begin(w);
	mine = (struct cells *)(void *)w->mem;
	if (!me) {
		n *= np;
		CHECK(mine->b[0] == (int8_t)n && mine->b[1] == (int8_t)n && mine->b[2] == 0 && mine->b[3] == (int8_t)n);
		CHECK(mine->s[0] == (int16_t)n && mine->s[1] == (int16_t)n && mine->i == n && mine->f == (float)n);
		CHECK(mine->d[0] == n && mine->d[1] == n && mine->l[0] == n && mine->l[1] == n);
	}
	own_end(w);
}

static void neighbours(void)
{
	on_each_flavour(128, neighbours_of);
}

/* Elements that no instruction takes at once: both parts of a complex number, value and index of a pair, are of one operation. */
static void wide_of(const struct window *w)
{
	double complex one = 1 + 1 * I, seen;
	struct double_int mine, pair = { 0, 0 };

	own_begin(w);
	pair.v = 1e9;
	pair.i = -1000000000;
	memcpy(w->mem + 16, &pair, sizeof(pair));
	own_end(w);
	meet(WORLD);
	MPI_Win_lock_all(0, w->win);
	for (int i = 0; i < times / 2; i++) {
		MPI_Accumulate(&one, 1, MPI_C_DOUBLE_COMPLEX, 0, disp(w, 0, 0), 1, MPI_C_DOUBLE_COMPLEX, MPI_SUM, w->win);
		/* smaller and smaller: value and index belong together */
		memset(&mine, 0, sizeof(mine));
		mine.v = 1000000 - 10 * i - me;
		mine.i = -(1000000 - 10 * i - me);
		MPI_Accumulate(&mine, 1, MPI_DOUBLE_INT, 0, disp(w, 0, 16), 1, MPI_DOUBLE_INT, MPI_MINLOC, w->win);
		if (i % 3)
			MPI_Win_flush_local(0, w->win);
		else
			MPI_Win_flush(0, w->win);
		read_elements(w, &seen, 1, MPI_C_DOUBLE_COMPLEX, 0, 0);
		CHECK(creal(seen) == cimag(seen) && creal(seen) >= i + 1);
		read_elements(w, &pair, 1, MPI_DOUBLE_INT, 0, 16);
		CHECK(pair.v == -pair.i && pair.v <= mine.v);
	}
	MPI_Win_unlock_all(w->win);
	meet(WORLD);
	own_begin(w);
	if (!me) {
		memcpy(&seen, w->mem, sizeof(seen));
		CHECK(creal(seen) == times / 2 * np && cimag(seen) == times / 2 * np);
	}
	own_end(w);
}

static void wide(void)
{
	on_each_flavour(32, wide_of);
}

/* Words that one rank replaces while other ranks read them: a reader sees one writer's value, never a mixture; arrays of
 * them element by element. */
static void replaced_of(const struct window *w)
{
	enum { N = 40 };
	int64_t v[N], seen[N];

	MPI_Win_lock_all(0, w->win);
	for (int i = 1; i <= times / 2; i++) {
		for (int k = 0; k < N; k++)
			v[k] = (int64_t)((uint64_t)(me + 1) * 0x0101010101010101u);
		if ((i + me) % 2) {
			MPI_Accumulate(v, N, MPI_INT64_T, 0, disp(w, 0, 0), N, MPI_INT64_T, MPI_REPLACE, w->win);
			MPI_Win_flush(0, w->win);
		} else {
			read_elements(w, seen, N, MPI_INT64_T, 0, 0);
			for (int k = 0; k < N; k++) {
				uint64_t x = (uint64_t)seen[k];

				CHECK(x % 0x0101010101010101u == 0 && x / 0x0101010101010101u <= (unsigned)np);
			}
		}
	}
	MPI_Win_unlock_all(w->win);
}

static void replaced(void)
{
	on_each_flavour(40 * 8, replaced_of);
}

enum { LONG = 300 };			/* elements of an accumulate that is no single one: more than a batch of doubles and no
					 * multiple of one */

/* Long accumulates of all ranks and single ones on the same elements, by shared locks and exclusive ones in turns: none is lost.
 * MAX and BOR mostly leave their elements as they are. */
static void long_ones_of(const struct window *w)
{
	const MPI_Aint at_max = LONG * 8, at_bits = 2 * LONG * 8, at_shorts = 3 * LONG * 8;
	double ones[LONG], highest[LONG], was[LONG], *mine;
	uint64_t bits[LONG];
	int16_t shorts[LONG];
	int n = times / 8;

	for (int k = 0; k < LONG; k++) {
		ones[k] = 1;
		highest[k] = k + me;
		bits[k] = (uint64_t)1 << (k + me) % 64;
		shorts[k] = 1;
	}
	for (int i = 0; i < n; i++) {
		int first = 7 * i % LONG, target = i % np;

		MPI_Win_lock((i + me) % 3 ? MPI_LOCK_SHARED : MPI_LOCK_EXCLUSIVE, target, 0, w->win);
		MPI_Accumulate(ones, LONG, MPI_DOUBLE, target, disp(w, target, 0), LONG, MPI_DOUBLE, MPI_SUM, w->win);
		MPI_Accumulate(ones, 1, MPI_DOUBLE, target, disp(w, target, 8 * first), 1, MPI_DOUBLE, MPI_SUM, w->win);
		MPI_Accumulate(highest, LONG, MPI_DOUBLE, target, disp(w, target, at_max), LONG, MPI_DOUBLE, MPI_MAX, w->win);
		MPI_Accumulate(bits, LONG, MPI_UINT64_T, target, disp(w, target, at_bits), LONG, MPI_UINT64_T, MPI_BOR, w->win);
		MPI_Accumulate(shorts, LONG, MPI_INT16_T, target, disp(w, target, at_shorts), LONG, MPI_INT16_T, MPI_SUM, w->win);
		MPI_Get_accumulate(ones, LONG, MPI_DOUBLE, was, LONG, MPI_DOUBLE, target, disp(w, target, 0), LONG, MPI_DOUBLE,
				   MPI_SUM, w->win);
		MPI_Win_unlock(target, w->win);
		for (int k = 0; k < LONG; k++)
			CHECK(was[k] >= 1 + (k == first) && was[k] == (double)(long)was[k]);
	}
	meet(WORLD);
	own_begin(w);
	mine = (double *)(void *)w->mem;
	for (int k = 0; k < LONG; k++) {
		int sum = 0;

		for (int i = me; i < n; i += np)
			sum += np * (2 + (7 * i % LONG == k));
		CHECK_EQ((long)mine[k], sum);
		CHECK(mine[LONG + k] == (n > me ? k + np - 1 : 0));
		for (int r = 0; r < np && n > me; r++)
			CHECK(((uint64_t *)(void *)mine)[2 * LONG + k] >> (k + r) % 64 & 1);
		CHECK_EQ(((int16_t *)(void *)mine)[12 * LONG + k], np * ((n - me + np - 1) / np));
	}
	own_end(w);
}

static void long_ones(void)
{
	on_each_flavour(LONG * 26, long_ones_of);
}

/* After an exclusive lock, in which accumulates may be plain, they are atomic again: all ranks add to the
 * same long vector at once. */
static void after_exclusive_of(const struct window *w)
{
	int64_t ones[LONG];
	int n = times * (w->flavour == ALLOCATE || w->flavour == SHARED ? 20 : 1);

	for (int k = 0; k < LONG; k++)
		ones[k] = 1;
	MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, w->win);
	MPI_Accumulate(ones, LONG, MPI_INT64_T, 0, disp(w, 0, 0), LONG, MPI_INT64_T, MPI_SUM, w->win);
	MPI_Win_unlock(0, w->win);
	meet(WORLD);
	MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, w->win);
	for (int i = 1; i < n; i++)
		MPI_Accumulate(ones, LONG, MPI_INT64_T, 0, disp(w, 0, 0), LONG, MPI_INT64_T, MPI_SUM, w->win);
	MPI_Win_unlock(0, w->win);
	meet(WORLD);
	own_begin(w);
	for (int k = 0; !me && k < LONG; k++)
		CHECK_EQ(((int64_t *)(void *)w->mem)[k], (int64_t)np * n);
	own_end(w);
}

static void after_exclusive(void)
{
	on_each_flavour(LONG * 8, after_exclusive_of);
}

/* long_ones with a granularity, which MPI_Win_get_info returns, unless the ranks give different ones. */
static void granular(void)
{
	static const char *const bytes[] = { "8", "256", "4096", "1048576", NULL };
	char own[16], text[16];
	struct window w;
	MPI_Info info;
	int flag;

	for (int i = 0; i < 5; i++) {
		snprintf(own, sizeof(own), "%s", bytes[i] ? bytes[i] : me ? "64" : "65536");
		for (int f = 0; f < FLAVOURS; f++) {
			if (!flavour_possible(f))
				continue;
			MPI_Info_create(&info);
			MPI_Info_set(info, "mpi_accumulate_granularity", own);
			window_new(&w, f, LONG * 26, 1, info, WORLD);
			MPI_Info_free(&info);
			MPI_Win_get_info(w.win, &info);
			MPI_Info_get(info, "mpi_accumulate_granularity", sizeof(text) - 1, text, &flag);
			MPI_Info_free(&info);
			CHECK(flag);
			CHECK(!strcmp(text, bytes[i] || np == 1 ? own : "0"));
			own_begin(&w);
			memset(w.mem, 0, (size_t)w.size);
			own_end(&w);
			meet(WORLD);
			long_ones_of(&w);
			meet(WORLD);
			window_free(&w);
		}
	}
}

/* Put_accumulate (replace, without reading) and get_accumulate (read, without writing) and fetches on one location, from all
 * ranks at once: a location only ever has values that were written, and ends with a last one. */
static void one_location_of(const struct window *w)
{
	int64_t v, seen;

	MPI_Win_lock_all(0, w->win);
	for (int i = 0; i < times; i++) {
		v = 1000 * (me + 1) + i;
		switch ((i + me) % 4) {
		case 0:
			MPI_Accumulate(&v, 1, MPI_INT64_T, 0, disp(w, 0, 0), 1, MPI_INT64_T, MPI_REPLACE, w->win);
			MPI_Win_flush_local(0, w->win);
			continue;
		case 1:
			MPI_Fetch_and_op(&v, &seen, MPI_INT64_T, 0, disp(w, 0, 0), MPI_REPLACE, w->win);
			break;
		case 2:
			MPI_Fetch_and_op(NULL, &seen, MPI_INT64_T, 0, disp(w, 0, 0), MPI_NO_OP, w->win);
			break;
		default:
			MPI_Get_accumulate(&v, 1, MPI_INT64_T, &seen, 1, MPI_INT64_T, 0, disp(w, 0, 0), 1, MPI_INT64_T,
					   MPI_REPLACE, w->win);
			break;
		}
		MPI_Win_flush(0, w->win);
		CHECK(!seen || (seen / 1000 >= 1 && seen / 1000 <= np + times / 1000 && seen % 1000 < times));
	}
	MPI_Win_unlock_all(w->win);
}

static void one_location(void)
{
	on_each_flavour(8, one_location_of);
}

/* Gathers the values of all ranks at rank 0, in ascending order. Returns them, and their number in *total; elsewhere NULL. */
static int64_t *gather_sorted(const int64_t *mine, int n, int *total)
{
	int *counts = checked(calloc((size_t)np, sizeof(int))), *places = checked(calloc((size_t)np, sizeof(int)));
	int64_t *all = NULL;

	MPI_Gather(&n, 1, MPI_INT, counts, 1, MPI_INT, 0, WORLD);
	for (int r = 1; r < np; r++)
		places[r] = places[r - 1] + counts[r - 1];
	*total = places[np - 1] + counts[np - 1];
	if (!me)
		all = checked(calloc((size_t)*total + 1, sizeof(*all)));
	MPI_Gatherv(mine, n, MPI_INT64_T, all, counts, places, MPI_INT64_T, 0, WORLD);
	if (!me)
		qsort(all, (size_t)*total, sizeof(*all), by_value);
	free(counts);
	free(places);
	return all;
}

/* Every value is written once, by fetches that replace or by compare-and-swap: each value that is gone was returned by
 * one call, and only one. */
static void exchanged_of(const struct window *w)
{
	int64_t *put = checked(calloc((size_t)times + 1, sizeof(*put))),
		*took = checked(calloc((size_t)times + 1, sizeof(*took)));
	int64_t seen = 0, old = 0, *all_put, *all_took, next = 1 + (int64_t)me * (times + 1);
	int n = 0, puts, takes;

	MPI_Win_lock_all(0, w->win);
	for (int i = 0; i < times; i++) {
		switch ((i + me) % 3) {
		case 0:
			MPI_Fetch_and_op(&next, &old, MPI_INT64_T, 0, disp(w, 0, 0), MPI_REPLACE, w->win);
			break;
		case 1:
			MPI_Get_accumulate(&next, 1, MPI_INT64_T, &old, 1, MPI_INT64_T, 0, disp(w, 0, 0), 1, MPI_INT64_T,
					   MPI_REPLACE, w->win);
			break;
		default:
			MPI_Fetch_and_op(NULL, &seen, MPI_INT64_T, 0, disp(w, 0, 0), MPI_NO_OP, w->win);
			MPI_Win_flush(0, w->win);
			MPI_Compare_and_swap(&next, &seen, &old, MPI_INT64_T, 0, disp(w, 0, 0), w->win);
			break;
		}
		MPI_Win_flush(0, w->win);
		if ((i + me) % 3 == 2 && old != seen)
			continue;
		put[n] = next++;
		took[n++] = old;
	}
	MPI_Win_unlock_all(w->win);
	meet(WORLD);
	own_begin(w);
	if (!me)	/* the value that is left was stored last; the first value was there before */
		took[n] = *(int64_t *)(void *)w->mem;
	own_end(w);
	all_took = gather_sorted(took, n + !me, &takes);
	all_put = gather_sorted(put, n + !me, &puts);
	CHECK_EQ(takes, puts);
	for (int i = 0; !me && i < puts; i++)
		CHECK(all_took[i] == all_put[i] && (!i || all_put[i] > all_put[i - 1]));
	free(all_took);
	free(all_put);
	free(took);
	free(put);
}

static void exchanged(void)
{
	on_each_flavour(8, exchanged_of);
}

enum { STRIDED = 60, STRIDE = 12 };

/* Words of which every second one is no multiple of its size: all ranks count in all of them at once. */
static void strides_of(const struct window *w)
{
	int64_t ones[STRIDED], was[2 * STRIDED], last = 0;
	MPI_Datatype at, apart;
	int n = times / 8;

	MPI_Type_create_hvector(STRIDED, 1, STRIDE, MPI_INT64_T, &at);
	MPI_Type_commit(&at);
	MPI_Type_vector(STRIDED, 1, 2, MPI_INT64_T, &apart);
	MPI_Type_commit(&apart);
	for (int k = 0; k < STRIDED; k++)
		ones[k] = 1;
	MPI_Win_lock_all(0, w->win);
	for (int i = 0; i < n; i++) {
		MPI_Accumulate(ones, STRIDED, MPI_INT64_T, 0, disp(w, 0, 4), 1, at, MPI_SUM, w->win);
		memset(was, 0, sizeof(was));
		MPI_Get_accumulate(ones, STRIDED, MPI_INT64_T, was, 1, apart, 0, disp(w, 0, 4), 1, at, MPI_SUM, w->win);
		MPI_Win_flush(0, w->win);
		for (int k = 0; k < 2 * STRIDED; k++)
			CHECK(k % 2 ? was[k] == 0 : was[k] > (k ? 0 : last));
		last = was[0];
	}
	MPI_Win_unlock_all(w->win);
	meet(WORLD);
	own_begin(w);
	for (int k = 0; !me && k < STRIDED; k++) {
		memcpy(&last, w->mem + 4 + STRIDE * k, sizeof(last));
		CHECK_EQ(last, 2 * n * np);
	}
	own_end(w);
	meet(WORLD);
	MPI_Type_free(&at);
	MPI_Type_free(&apart);
}

static void strides(void)
{
	on_each_flavour(736, strides_of);
}

/* Rank 0's memory begins at an address, or ends at one, by which no device updates it; the last rank has none. */
static void odd_address(void)
{
	int64_t *mem = checked(calloc(20, sizeof(*mem))), one = 1, old, sum;
	MPI_Info info;
	MPI_Win win;

	MPI_Info_create(&info);
	MPI_Info_set(info, "mpi_accumulate_granularity", "8");
	for (int way = 0; way < 3; way++) {
		MPI_Aint size = me && me == np - 1 ? 0 : 64 + (way == 1 && !me ? 4 : 0);
		char *base = (char *)mem + (way == 0 && !me ? 4 : 0);

		memset(mem, 0, 20 * sizeof(*mem));
		MPI_Win_create(base, size, 1, info, WORLD, &win);
		meet(WORLD);
		MPI_Win_lock_all(0, win);
		for (int r = 0; r < np - (np > 1); r++)
			for (int i = 0; i < times / 4; i++) {
				MPI_Accumulate(&one, 1, MPI_INT64_T, r, 8, 1, MPI_INT64_T, MPI_SUM, win);
				MPI_Fetch_and_op(&one, &old, MPI_INT64_T, r, 8, MPI_SUM, win);
			}
		MPI_Win_unlock_all(win);
		MPI_Win_free(&win);
		memcpy(&sum, base + 8, sizeof(sum));
		CHECK_EQ(sum, size ? 2 * (times / 4) * np : 0);
	}
	MPI_Info_free(&info);
	free(mem);
}

/* ---- 12.7.2: order ------------------------------------------------------------------------------------------------------- */

/* One origin, one location, no synchronization between: read after read, after write, write after read, after write. */
static void ordered(const struct window *w, MPI_Datatype type, const struct element *e, int n)
{
	enum { STEPS = 40 };
	char *out = checked(malloc(STEPS * (size_t)n * e->size)), *got = checked(malloc(STEPS * (size_t)n * e->size)), want[32];
	const size_t row = (size_t)n * e->size;

	for (int i = 0; i < STEPS; i++)
		for (int k = 0; k < n; k++)
			set_element(e, out + i * row + (size_t)k * e->size, (uint64_t)(100 * i + k + me));
	memset(got, 0x5a, STEPS * row);
	MPI_Win_lock(MPI_LOCK_SHARED, right, 0, w->win);
	MPI_Accumulate(out, n, type, right, disp(w, right, 0), n, type, MPI_REPLACE, w->win);
	for (int i = 1; i < STEPS; i++) {
		switch (i % 3) {
		case 0:		/* writes, and reads the old value */
			MPI_Get_accumulate(out + i * row, n, type, got + i * row, n, type, right, disp(w, right, 0), n, type,
					   MPI_REPLACE, w->win);
			break;
		case 1:
			MPI_Accumulate(out + i * row, n, type, right, disp(w, right, 0), n, type, MPI_REPLACE, w->win);
			break;
		default:
			MPI_Get_accumulate(NULL, 0, type, got + i * row, n, type, right, disp(w, right, 0), n, type, MPI_NO_OP,
					   w->win);
			break;
		}
	}
	MPI_Win_unlock(right, w->win);
	for (int i = 2; i < STEPS; i++) {
		int from = i % 3 == 0 ? i - 2 : i % 3 == 2 ? i - 1 : -1;	/* the last write before */

		for (int k = 0; from >= 0 && k < n; k++) {
			set_element(e, want, (uint64_t)(100 * from + k + me));
			if (!same_element(e, got + i * row + (size_t)k * e->size, want))
				test_fail(__FILE__, __LINE__, "%s, %s: step %d, element %d of %d does not see step %d",
					  flavour_names[w->flavour], e->name, i, k, n, from);
		}
	}
	meet(WORLD);
	own_begin(w);
	for (int k = 0; k < n; k++) {
		/* steps 39 (replace), the last */
		set_element(e, want, (uint64_t)(100 * (STEPS - 1) + k + left));
		CHECK(same_element(e, w->mem + (size_t)k * e->size, want));
	}
	own_end(w);
	meet(WORLD);
	free(out);
	free(got);
}

static void order_of(const struct window *w)
{
	static const struct element elements[N_ELEMENTS] = RMA_ELEMENTS;

	for (int t = 0; t < N_ELEMENTS; t++)
		if (elements[t].type == MPI_INT64_T || elements[t].type == MPI_INT16_T || elements[t].type == MPI_DOUBLE ||
		    elements[t].type == MPI_LONG_DOUBLE || elements[t].type == MPI_DOUBLE_INT ||
		    elements[t].type == MPI_C_FLOAT_COMPLEX) {
			ordered(w, elements[t].type, &elements[t], 1);
			ordered(w, elements[t].type, &elements[t], 7);
			ordered(w, elements[t].type, &elements[t], 700);
		}
}

static void order(void)
{
	on_each_flavour(700 * 32, order_of);
}

/* Fetches of one origin are ordered by themselves, the element of an array as well as a single one. */
static void sums_in_order_of(const struct window *w)
{
	enum { N = 300 };
	const int64_t one[2] = { 1, 1 };
	int64_t got[N][2];

	MPI_Win_lock_all(0, w->win);
	for (int i = 0; i < N; i++) {
		if (i % 5 == 4)
			MPI_Fetch_and_op(one, &got[i][1], MPI_INT64_T, right, disp(w, right, 8), MPI_SUM, w->win);
		else
			MPI_Get_accumulate(one, 2, MPI_INT64_T, got[i], 2, MPI_INT64_T, right, disp(w, right, 0), 2,
					   MPI_INT64_T, MPI_SUM, w->win);
	}
	MPI_Win_unlock_all(w->win);
	for (int i = 0; i < N; i++)
		CHECK_EQ(got[i][1], i);
}

static void sums_in_order(void)
{
	on_each_flavour(16, sums_in_order_of);
}

/* Without order, by the hint, the result of sums is the same. */
static void unordered(void)
{
	const int64_t one = 1;
	struct window w;
	MPI_Info info;

	MPI_Info_create(&info);
	MPI_Info_set(info, "accumulate_ordering", "none");
	MPI_Info_set(info, "accumulate_ops", "same_op");
	for (int f = 0; f < FLAVOURS; f++) {
		if (!flavour_possible(f))
			continue;
		window_new(&w, f, 8, 1, info, WORLD);
		own_begin(&w);
		memset(w.mem, 0, 8);
		own_end(&w);
		meet(WORLD);
		MPI_Win_lock_all(0, w.win);
		for (int i = 0; i < times; i++)
			MPI_Accumulate(&one, 1, MPI_INT64_T, i % np, disp(&w, i % np, 0), 1, MPI_INT64_T, MPI_SUM, w.win);
		MPI_Win_unlock_all(w.win);
		meet(WORLD);
		own_begin(&w);
		CHECK_EQ(*(int64_t *)(void *)w.mem, (int64_t)np * (times / np + (me < times % np)));
		own_end(&w);
		window_free(&w);
	}
	MPI_Info_free(&info);
}

/* ---- 12.8: locks of the program's own ---------------------------------------------------------------------------- */

/* A critical region by compare-and-swap: the ranks count in it by get and put. */
static void critical_of(const struct window *w)
{
	const int64_t unlocked = 0, locked = 1;
	int64_t was, v;

	MPI_Win_lock_all(0, w->win);
	for (int i = 0; i < times / 10; i++) {
		do {
			MPI_Compare_and_swap(&locked, &unlocked, &was, MPI_INT64_T, 0, disp(w, 0, 0), w->win);
			MPI_Win_flush(0, w->win);
		} while (was == locked);
		MPI_Get(&v, 1, MPI_INT64_T, right, disp(w, right, 8), 1, MPI_INT64_T, w->win);
		MPI_Win_flush(right, w->win);
		v++;
		MPI_Put(&v, 1, MPI_INT64_T, right, disp(w, right, 8), 1, MPI_INT64_T, w->win);
		MPI_Win_flush(right, w->win);
		MPI_Get(&v, 1, MPI_INT64_T, 0, disp(w, 0, 16), 1, MPI_INT64_T, w->win);
		MPI_Win_flush(0, w->win);
		v++;
		MPI_Put(&v, 1, MPI_INT64_T, 0, disp(w, 0, 16), 1, MPI_INT64_T, w->win);
		MPI_Win_flush(0, w->win);
		MPI_Accumulate(&unlocked, 1, MPI_INT64_T, 0, disp(w, 0, 0), 1, MPI_INT64_T, MPI_REPLACE, w->win);
		MPI_Win_flush(0, w->win);
	}
	MPI_Win_unlock_all(w->win);
	meet(WORLD);
	own_begin(w);
	CHECK_EQ(((int64_t *)(void *)w->mem)[1], times / 10);
	if (!me)
		CHECK_EQ(((int64_t *)(void *)w->mem)[2], times / 10 * np);
	own_end(w);
}

static void critical(void)
{
	on_each_flavour(24, critical_of);
}

/* A queue of waiting ranks: the tail is swapped, each waits at its own memory until the one before hands over. */
static void queue_of(const struct window *w)
{
	enum { TAIL = 0, NEXT = 8, WAIT = 16, COUNT = 24 };
	const int64_t none = 0, mine = me + 1, go = 0, blocked = 1;
	int64_t before, next, waits, was, v;

	MPI_Win_lock_all(0, w->win);
	for (int i = 0; i < times / 10; i++) {
		MPI_Accumulate(&none, 1, MPI_INT64_T, me, disp(w, me, NEXT), 1, MPI_INT64_T, MPI_REPLACE, w->win);
		MPI_Accumulate(&blocked, 1, MPI_INT64_T, me, disp(w, me, WAIT), 1, MPI_INT64_T, MPI_REPLACE, w->win);
		MPI_Win_flush(me, w->win);
		MPI_Fetch_and_op(&mine, &before, MPI_INT64_T, 0, disp(w, 0, TAIL), MPI_REPLACE, w->win);
		MPI_Win_flush(0, w->win);
		if (before != none) {
			MPI_Accumulate(&mine, 1, MPI_INT64_T, (int)before - 1, disp(w, (int)before - 1, NEXT), 1, MPI_INT64_T,
				       MPI_REPLACE, w->win);
			MPI_Win_flush((int)before - 1, w->win);
			do {
				MPI_Fetch_and_op(NULL, &waits, MPI_INT64_T, me, disp(w, me, WAIT), MPI_NO_OP, w->win);
				MPI_Win_flush(me, w->win);
			} while (waits == blocked);
		}
		MPI_Get(&v, 1, MPI_INT64_T, 0, disp(w, 0, COUNT), 1, MPI_INT64_T, w->win);
		MPI_Win_flush(0, w->win);
		v++;
		MPI_Put(&v, 1, MPI_INT64_T, 0, disp(w, 0, COUNT), 1, MPI_INT64_T, w->win);
		MPI_Win_flush(0, w->win);
		MPI_Compare_and_swap(&none, &mine, &was, MPI_INT64_T, 0, disp(w, 0, TAIL), w->win);
		MPI_Win_flush(0, w->win);
		if (was == mine)
			continue;
		do {
			MPI_Fetch_and_op(NULL, &next, MPI_INT64_T, me, disp(w, me, NEXT), MPI_NO_OP, w->win);
			MPI_Win_flush(me, w->win);
		} while (next == none);
		MPI_Accumulate(&go, 1, MPI_INT64_T, (int)next - 1, disp(w, (int)next - 1, WAIT), 1, MPI_INT64_T, MPI_REPLACE,
			       w->win);
		MPI_Win_flush((int)next - 1, w->win);
	}
	MPI_Win_unlock_all(w->win);
	meet(WORLD);
	own_begin(w);
	if (!me)
		CHECK_EQ(((int64_t *)(void *)w->mem)[COUNT / 8], times / 10 * np);
	own_end(w);
}

static void queue(void)
{
	on_each_flavour(32, queue_of);
}

static const struct standard_case cases[] = {
	{ "12.7.1", "counter", 1, counter },
	{ "12.7.1", "swaps", 1, swaps },
	{ "12.7.1", "neighbours", 1, neighbours },
	{ "12.7.1", "wide", 1, wide },
	{ "12.7.1", "replaced", 1, replaced },
	{ "12.7.1", "one_location", 1, one_location },
	{ "12.7.1", "exchanged", 1, exchanged },
	{ "12.7.1", "strides", 1, strides },
	{ "12.2.1", "odd_address", 1, odd_address },
	{ "12.7.1", "long_ones", 1, long_ones },
	{ "12.7.1", "after_exclusive", 1, after_exclusive },
	{ "12.2.1", "granular", 1, granular },
	{ "12.7.2", "order", 1, order },
	{ "12.7.2", "sums_in_order", 1, sums_in_order },
	{ "12.7.2", "unordered", 1, unordered },
	{ "12.8", "critical", 1, critical },
	{ "12.8", "queue", 1, queue },
};

int main(int argc, char **argv)
{
	const char *text = getenv("RMA_TIMES");

	test_init(&argc, &argv);
	right = (me + 1) % np;
	left = (me + np - 1) % np;
	if (text)
		times = atoi(text);
	standard_run(cases, sizeof(cases) / sizeof(*cases), argc, argv);
	test_done("atomic");
	return 0;
}
