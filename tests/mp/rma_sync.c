/* SPDX-License-Identifier: BSD-3-Clause */
/* Synchronization of one-sided communication: fences, post/start/complete/wait, locks, flushes, assertions
 * (MPI-5.0, section 12.5). */
#include "rma_test.h"

static int right, left;

static int64_t *numbers(const struct window *w)
{
	return (int64_t *)(void *)w->mem;
}

static void put_number(const struct window *w, int rank, int i, int64_t value)
{
	static int64_t values[64];	/* must stay as they are until the operation is complete at the origin */
	static int next;
	int64_t *v = &values[next++ % 64];

	*v = value;
	MPI_Put(v, 1, MPI_INT64_T, rank, disp(w, rank, i * 8), 1, MPI_INT64_T, w->win);
}

/* ---- 12.5.1: fence ------------------------------------------------------------------------------------------------- */

/* Fences one after the other, each the end of an epoch and the start of the next: puts, stores and gets alternate. */
static void fences(const struct window *w)
{
	int64_t got = -1;

	MPI_Win_fence(0, w->win);
	for (int i = 0; i < 50; i++) {
		put_number(w, right, 0, 100 * me + i);
		MPI_Win_fence(0, w->win);
		CHECK_EQ(numbers(w)[0], 100 * left + i);
		numbers(w)[1] = -(100 * me + i);
		MPI_Win_fence(0, w->win);
		MPI_Get(&got, 1, MPI_INT64_T, right, disp(w, right, 8), 1, MPI_INT64_T, w->win);
		MPI_Win_fence(0, w->win);
		CHECK_EQ(got, -(100 * right + i));
	}
}

static void fence(void)
{
	on_each_flavour(16, fences);
}

/* The assertions of section 12.5.5, where they hold. */
static void fences_asserted(const struct window *w)
{
	int64_t got = -1;

	for (int i = 0; i < 30; i++) {
		numbers(w)[1] = 1000 * me + i;
		/* no RMA calls before; no rank puts here until the next fence */
		MPI_Win_fence(MPI_MODE_NOPRECEDE | MPI_MODE_NOPUT, w->win);
		MPI_Get(&got, 1, MPI_INT64_T, right, disp(w, right, 8), 1, MPI_INT64_T, w->win);
		/* no stores since the last one */
		MPI_Win_fence(MPI_MODE_NOSTORE, w->win);
		CHECK_EQ(got, 1000 * right + i);
		put_number(w, right, 0, 1000 * me + i);
		MPI_Win_fence(MPI_MODE_NOSTORE | MPI_MODE_NOSUCCEED, w->win);
		CHECK_EQ(numbers(w)[0], 1000 * left + i);
		/* between a fence without successor and one without predecessor only messages */
		meet(WORLD);
	}
}

static void fence_asserted(void)
{
	on_each_flavour(16, fences_asserted);
}

/* ---- 12.5.2: post, start, complete, wait ----------------------------------------------------------------------------- */

static MPI_Group group_of(const struct window *w, const int *ranks, int n)
{
	MPI_Group all, some;

	MPI_Win_get_group(w->win, &all);
	MPI_Group_incl(all, n, ranks, &some);
	MPI_Group_free(&all);
	return some;
}

/* Rank 0 accesses all other ranks, then all other ranks access rank 0; some take no part. */
static void star_of(const struct window *w)
{
	int others[64], n = 0, zero = 0;
	MPI_Group all_others, first;

	for (int r = 1; r < np; r++)
		if (r % 3 != 2)
			others[n++] = r;
	all_others = group_of(w, others, n);
	first = group_of(w, &zero, 1);
	for (int round = 0; round < 20; round++) {
		if (!me) {
			MPI_Win_start(all_others, 0, w->win);
			for (int i = 0; i < n; i++)
				put_number(w, others[i], 0, 100 * others[i] + round);
			MPI_Win_complete(w->win);
			MPI_Win_post(all_others, 0, w->win);
			MPI_Win_wait(w->win);
			for (int i = 0; i < n; i++)
				CHECK_EQ(numbers(w)[others[i]], -(others[i] + 100 * round));
		} else if (me % 3 != 2) {
			MPI_Win_post(first, 0, w->win);
			MPI_Win_wait(w->win);
			CHECK_EQ(numbers(w)[0], 100 * me + round);
			MPI_Win_start(first, 0, w->win);
			put_number(w, 0, me, -(me + 100 * round));
			MPI_Win_complete(w->win);
		}
	}
	MPI_Group_free(&all_others);
	MPI_Group_free(&first);
}

static void star(void)
{
	on_each_flavour(64 * 8, star_of);
}

/* Random graphs of accesses: each rank is origin and target at once, of other ranks each round; the ends come in any order. */
static void graphs_of(const struct window *w)
{
	uint64_t state = 7;
	int to[64], from[64];

	for (int round = 0; round < 60; round++) {
		uint64_t bits = rnd(&state);
		int nto = 0, nfrom = 0;
		MPI_Group g;

		for (int r = 0; r < np; r++) {
			if (mix(bits ^ (uint64_t)(me * 64 + r)) % 3 == 0)
				to[nto++] = r;
			if (mix(bits ^ (uint64_t)(r * 64 + me)) % 3 == 0)
				from[nfrom++] = r;
		}
		g = group_of(w, from, nfrom);
		MPI_Win_post(g, 0, w->win);
		MPI_Group_free(&g);
		g = group_of(w, to, nto);
		MPI_Win_start(g, 0, w->win);
		MPI_Group_free(&g);
		for (int i = 0; i < nto; i++)
			put_number(w, to[i], me, 1000 * me + round);
		MPI_Win_complete(w->win);
		if (round % 2) {
			MPI_Win_wait(w->win);
		} else {
			int flag = 0;

			while (!flag)
				MPI_Win_test(w->win, &flag);
		}
		for (int i = 0; i < nfrom; i++)
			CHECK_EQ(numbers(w)[from[i]], 1000 * from[i] + round);
	}
}

static void graphs(void)
{
	on_each_flavour(64 * 8, graphs_of);
}

/* MPI_Win_test returns false until the origin has called MPI_Win_complete, which a message shows; then true once, and the epoch
 * is over. The complete does not wait for the target's wait. */
static void tests_of(const struct window *w)
{
	int peer = me ^ 1, flag = -1, token = 0;
	MPI_Group g;

	if (peer >= np)
		return;
	g = group_of(w, &peer, 1);
	for (int round = 0; round < 10; round++) {
		if (me % 2) {
			MPI_Win_post(g, 0, w->win);
			MPI_Win_test(w->win, &flag);
			CHECK(!flag);
			MPI_Send(&token, 1, MPI_INT, peer, 1, WORLD);
			/* the origin has returned from MPI_Win_complete */
			MPI_Recv(&token, 1, MPI_INT, peer, 2, WORLD, MPI_STATUS_IGNORE);
			do
				MPI_Win_test(w->win, &flag);
			while (!flag);
			CHECK_EQ(numbers(w)[0], round);
		} else {
			MPI_Win_start(g, 0, w->win);
			MPI_Recv(&token, 1, MPI_INT, peer, 1, WORLD, MPI_STATUS_IGNORE);
			put_number(w, peer, 0, round);
			MPI_Win_complete(w->win);
			MPI_Send(&token, 1, MPI_INT, peer, 2, WORLD);
		}
	}
	MPI_Group_free(&g);
}

static void tested(void)
{
	on_each_flavour(8, tests_of);
}

/* Both sides know by a message that the post came first, so that the start need not look. No stores since
 * the last wait; no puts. */
static void nocheck_of(const struct window *w)
{
	MPI_Group to = group_of(w, &right, 1), from = group_of(w, &left, 1);
	int64_t got = -1;

	for (int round = 0; round < 20; round++) {
		MPI_Win_post(from, MPI_MODE_NOCHECK | MPI_MODE_NOSTORE, w->win);
		meet(WORLD);
		MPI_Win_start(to, MPI_MODE_NOCHECK, w->win);
		put_number(w, right, 0, 10 * me + round);
		MPI_Win_complete(w->win);
		MPI_Win_wait(w->win);
		CHECK_EQ(numbers(w)[0], 10 * left + round);
		MPI_Win_post(from, MPI_MODE_NOPUT, w->win);
		MPI_Win_start(to, 0, w->win);
		MPI_Get(&got, 1, MPI_INT64_T, right, disp(w, right, 0), 1, MPI_INT64_T, w->win);
		MPI_Win_complete(w->win);
		MPI_Win_wait(w->win);
		CHECK_EQ(got, 10 * me + round);
	}
	MPI_Group_free(&to);
	MPI_Group_free(&from);
}

static void nocheck(void)
{
	on_each_flavour(8, nocheck_of);
}

/* Epochs with empty groups. */
static void nobody_of(const struct window *w)
{
	int flag = 0;

	MPI_Win_start(MPI_GROUP_EMPTY, 0, w->win);
	MPI_Win_complete(w->win);
	MPI_Win_post(MPI_GROUP_EMPTY, 0, w->win);
	MPI_Win_wait(w->win);
	MPI_Win_post(MPI_GROUP_EMPTY, 0, w->win);
	MPI_Win_test(w->win, &flag);
	CHECK(flag);
}

static void nobody(void)
{
	on_each_flavour(8, nobody_of);
}

/* ---- 12.5.3: locks ---------------------------------------------------------------------------------------------------- */

/* One number at each rank is counted up by get and put: only exclusive locks keep the sum. */
static void exclusive_of(const struct window *w)
{
	enum { TIMES = 40 };
	int64_t v;

	for (int i = 0; i < TIMES; i++) {
		int target = (me + i) % np;

		MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, w->win);
		MPI_Get(&v, 1, MPI_INT64_T, target, disp(w, target, 0), 1, MPI_INT64_T, w->win);
		MPI_Win_flush(target, w->win);
		v++;
		MPI_Put(&v, 1, MPI_INT64_T, target, disp(w, target, 0), 1, MPI_INT64_T, w->win);
		MPI_Win_unlock(target, w->win);
		/* the lowest rank with a busy neighbour: all at one */
		MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, w->win);
		MPI_Get(&v, 1, MPI_INT64_T, 0, disp(w, 0, 8), 1, MPI_INT64_T, w->win);
		MPI_Win_flush_local(0, w->win);
		v += me + 1;
		MPI_Put(&v, 1, MPI_INT64_T, 0, disp(w, 0, 8), 1, MPI_INT64_T, w->win);
		MPI_Win_unlock(0, w->win);
	}
	meet(WORLD);
	own_begin(w);
	v = numbers(w)[0];
	MPI_Allreduce(MPI_IN_PLACE, &v, 1, MPI_INT64_T, MPI_SUM, WORLD);
	CHECK_EQ(v, TIMES * np);
	if (!me)
		CHECK_EQ(numbers(w)[1], TIMES * np * (np + 1) / 2);
	own_end(w);
}

static void exclusive(void)
{
	on_each_flavour(16, exclusive_of);
}

/* Several hold a shared lock at a time: they exchange messages while they do. And one may hold locks at several ranks. */
static void shared_of(const struct window *w)
{
	int64_t v = me, got = 0;

	for (int round = 0; round < 5; round++) {
		int target = round % np;

		MPI_Win_lock(MPI_LOCK_SHARED, target, 0, w->win);
		MPI_Barrier(WORLD);
		MPI_Get(&got, 1, MPI_INT64_T, target, disp(w, target, 0), 1, MPI_INT64_T, w->win);
		MPI_Accumulate(&v, 1, MPI_INT64_T, target, disp(w, target, 8), 1, MPI_INT64_T, MPI_SUM, w->win);
		MPI_Win_unlock(target, w->win);
		CHECK_EQ(got, 0);
	}
	for (int r = 0; r < np; r++)
		MPI_Win_lock(MPI_LOCK_SHARED, r, 0, w->win);
	MPI_Barrier(WORLD);
	for (int r = 0; r < np; r++)
		put_number(w, r, 2 + me, 10 * me + r);
	for (int r = np; r-- > 0;)
		MPI_Win_unlock(r, w->win);
	meet(WORLD);
	own_begin(w);
	for (int r = 0; r < np; r++)
		CHECK_EQ(numbers(w)[2 + r], 10 * r + me);
	v = numbers(w)[1];
	own_end(w);
	MPI_Allreduce(MPI_IN_PLACE, &v, 1, MPI_INT64_T, MPI_SUM, WORLD);
	CHECK_EQ(v, 5 * np * (np - 1) / 2);
}

static void shared(void)
{
	on_each_flavour(16 + 64 * 8, shared_of);
}

/* Readers under lock_all or a shared lock and writers under an exclusive one: a reader never sees half of a write. */
static void readers_of(const struct window *w)
{
	enum { TIMES = 30, N = 16 };
	int64_t v[N];

	for (int i = 0; i < TIMES; i++) {
		int target = i % np;

		if ((me + i) % 3 == 0) {
			for (int k = 0; k < N; k++)
				v[k] = 1000 * me + i;
			MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, w->win);
			for (int k = 0; k < N; k++)
				MPI_Put(&v[k], 1, MPI_INT64_T, target, disp(w, target, 8 * k), 1, MPI_INT64_T, w->win);
			MPI_Win_unlock(target, w->win);
			continue;
		}
		if ((me + i) % 3 == 1)
			MPI_Win_lock_all(0, w->win);
		else
			MPI_Win_lock(MPI_LOCK_SHARED, target, 0, w->win);
		for (int k = 0; k < N; k++)
			MPI_Get(&v[k], 1, MPI_INT64_T, target, disp(w, target, 8 * k), 1, MPI_INT64_T, w->win);
		if ((me + i) % 3 == 1)
			MPI_Win_unlock_all(w->win);
		else
			MPI_Win_unlock(target, w->win);
		for (int k = 1; k < N; k++)
			CHECK_EQ(v[k], v[0]);
	}
}

static void readers(void)
{
	on_each_flavour(16 * 8, readers_of);
}

/* Locks that cannot conflict; a lock without operations; the own one. */
static void locks_asserted_of(const struct window *w)
{
	for (int i = 0; i < 10; i++) {
		MPI_Win_lock(MPI_LOCK_EXCLUSIVE, right, MPI_MODE_NOCHECK, w->win);	/* no other rank locks this window at the
											 * time */
		put_number(w, right, 0, 10 * me + i);
		MPI_Win_unlock(right, w->win);
		meet(WORLD);
		own_begin(w);
		CHECK_EQ(numbers(w)[0], 10 * left + i);
		own_end(w);
		MPI_Win_lock(MPI_LOCK_SHARED, left, 0, w->win);
		MPI_Win_unlock(left, w->win);
		meet(WORLD);
		MPI_Win_lock_all(MPI_MODE_NOCHECK, w->win);
		MPI_Win_unlock_all(w->win);
		meet(WORLD);
	}
}

static void locks_asserted(void)
{
	on_each_flavour(8, locks_asserted_of);
}

/* ---- 12.5.4: flush and sync -------------------------------------------------------------------------------------------- */

/* Each kind of flush: completion at the target, or at the origin (the buffer is free again); for one rank, or for all. */
static void flushes_of(const struct window *w)
{
	int64_t v, got;

	MPI_Win_lock_all(0, w->win);
	for (int i = 0; i < 20; i++) {
		for (int r = 0; r < np; r++) {
			v = 1000 * me + 10 * i + r;
			MPI_Put(&v, 1, MPI_INT64_T, r, disp(w, r, 8 * me), 1, MPI_INT64_T, w->win);
			if (i % 4 < 2)
				MPI_Win_flush_local(r, w->win);
			else
				MPI_Win_flush_local_all(w->win);
			v = -1;
		}
		if (i % 2)
			MPI_Win_flush_all(w->win);
		for (int r = 0; r < np; r++) {
			if (!(i % 2))
				MPI_Win_flush(r, w->win);
			got = -1;
			MPI_Get(&got, 1, MPI_INT64_T, r, disp(w, r, 8 * me), 1, MPI_INT64_T, w->win);
			MPI_Win_flush_local(r, w->win);
			CHECK_EQ(got, 1000 * me + 10 * i + r);
		}
		/* complete at the target: after a barrier the target's process sees them */
		MPI_Barrier(WORLD);
		MPI_Win_sync(w->win);
		for (int r = 0; r < np; r++)
			CHECK_EQ(numbers(w)[r], 1000 * r + 10 * i + me);
		MPI_Barrier(WORLD);
	}
	MPI_Win_unlock_all(w->win);
}

static void flushes(void)
{
	on_each_flavour(64 * 8, flushes_of);
}

/* Local completion, again and again, must not wait for anything that only a full flush would bring about. */
static void local_progress_of(const struct window *w)
{
	enum { TIMES = 3000 };
	int64_t v;

	MPI_Win_lock_all(0, w->win);
	for (int i = 0; i < TIMES; i++) {
		v = i;
		MPI_Accumulate(&v, 1, MPI_INT64_T, right, disp(w, right, 0), 1, MPI_INT64_T, MPI_SUM, w->win);
		if (i % 2)
			MPI_Win_flush_local(right, w->win);
		else
			MPI_Win_flush_local_all(w->win);
		v = -1;
	}
	MPI_Win_unlock_all(w->win);
	meet(WORLD);
	own_begin(w);
	CHECK_EQ(numbers(w)[0], TIMES * (TIMES - 1) / 2);
	own_end(w);
}

static void local_progress(void)
{
	on_each_flavour(8, local_progress_of);
}

/* A poll for a flag that a peer raises through the window, without any message: the peer's write must arrive while this rank
 * makes one-sided calls only. */
static void flag_of(const struct window *w)
{
	int64_t v = 0;

	MPI_Win_lock_all(0, w->win);
	for (int i = 1; i <= 100; i++) {
		int64_t first = i;

		if (!me) {
			MPI_Accumulate(&first, 1, MPI_INT64_T, right, disp(w, right, 0), 1, MPI_INT64_T, MPI_REPLACE, w->win);
			MPI_Win_flush(right, w->win);
		}
		do {
			MPI_Fetch_and_op(NULL, &v, MPI_INT64_T, me, disp(w, me, 0), MPI_NO_OP, w->win);
			MPI_Win_flush(me, w->win);
		} while (v < i);
		if (me) {
			int64_t next = v;

			MPI_Accumulate(&next, 1, MPI_INT64_T, right, disp(w, right, 0), 1, MPI_INT64_T, MPI_REPLACE, w->win);
			MPI_Win_flush(right, w->win);
		}
	}
	MPI_Win_unlock_all(w->win);
}

static void flags(void)
{
	on_each_flavour(8, flag_of);
}

/* ---- several epochs, several windows --------------------------------------------------------------------------------------- */

/* One window goes through all kinds of epochs, in turns. */
static void kinds_of(const struct window *w)
{
	static const enum epoch turns[] = {FENCE, LOCK,  PSCW,  LOCK_ALL, FENCE, PSCW, PSCW,
					   LOCK,  FENCE, FENCE, LOCK_ALL, LOCK,  LOCK};

	for (int i = 0; i < 39; i++) {
		enum epoch e = turns[i % 13];

		epoch_begin(w, e, right, left);
		put_number(w, right, i % 4, 100 * me + i);
		epoch_end(w, e, right);
		own_begin(w);
		CHECK_EQ(numbers(w)[i % 4], 100 * left + i);
		own_end(w);
		meet(WORLD);
	}
}

static void kinds(void)
{
	on_each_flavour(32, kinds_of);
}

/* An epoch of one window while others are open on other windows; each window has separate locks and counters. */
static void windows_at_once(void)
{
	struct window w[4];
	MPI_Group to, from;

	for (int i = 0; i < 4; i++) {
		window_new(&w[i], flavour_possible(i) ? i : CREATE, 16, 1, MPI_INFO_NULL, WORLD);
		memset(w[i].mem, 0, 16);
	}
	to = group_of(&w[0], &right, 1);
	from = group_of(&w[0], &left, 1);
	meet(WORLD);
	for (int round = 0; round < 10; round++) {
		MPI_Win_fence(0, w[0].win);
		MPI_Win_post(from, 0, w[1].win);
		MPI_Win_start(to, 0, w[1].win);
		MPI_Win_lock(MPI_LOCK_EXCLUSIVE, right, 0, w[2].win);
		MPI_Win_lock_all(0, w[3].win);
		for (int i = 0; i < 4; i++)
			put_number(&w[i], right, 0, 1000 * me + 10 * round + i);
		MPI_Win_complete(w[1].win);
		MPI_Win_unlock_all(w[3].win);
		MPI_Win_unlock(right, w[2].win);
		MPI_Win_wait(w[1].win);
		MPI_Win_fence(0, w[0].win);
		meet(WORLD);
		for (int i = 0; i < 4; i++) {
			if (i >= 2)
				own_begin(&w[i]);
			CHECK_EQ(numbers(&w[i])[0], 1000 * left + 10 * round + i);
			if (i >= 2)
				own_end(&w[i]);
		}
		meet(WORLD);
	}
	MPI_Group_free(&to);
	MPI_Group_free(&from);
	for (int i = 0; i < 4; i++)
		window_free(&w[i]);
}

/* MPI_Win_free waits until every member's accesses to this rank's memory are complete. */
static void freed_late(void)
{
	struct window w;
	int64_t sum = 0;

	for (int f = 0; f < FLAVOURS; f++) {
		MPI_Win win;

		if (!flavour_possible(f) || f == DYNAMIC)
			continue;
		window_new(&w, f, 8, 1, MPI_INFO_NULL, WORLD);
		own_fill(&w, 0);
		own_begin(&w);
		memset(w.mem, 0, 8);
		own_end(&w);
		meet(WORLD);
		if (me) {
			for (int64_t i = 0; i < 200; i++) {
				MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, w.win);
				MPI_Accumulate(&i, 1, MPI_INT64_T, 0, 0, 1, MPI_INT64_T, MPI_SUM, w.win);
				MPI_Win_unlock(0, w.win);
			}
		}
		win = w.win;
		if (f == CREATE) {
			MPI_Win_free(&win);	/* the memory is the program's own */
			sum = numbers(&w)[0];
			CHECK_EQ(sum, me ? 0 : (np - 1) * 200 * 199 / 2);
			free(w.mem);
			free(w.sizes);
			free(w.bases);
			free(w.units);
		} else {
			window_free(&w);
		}
	}
}

static const struct standard_case cases[] = {
	{ "12.5.1", "fence", 1, fence },
	{ "12.5.1", "fence_asserted", 1, fence_asserted },
	{ "12.5.2", "star", 2, star },
	{ "12.5.2", "graphs", 1, graphs },
	{ "12.5.2", "tested", 2, tested },
	{ "12.5.2", "nocheck", 1, nocheck },
	{ "12.5.2", "nobody", 1, nobody },
	{ "12.5.3", "exclusive", 1, exclusive },
	{ "12.5.3", "shared", 1, shared },
	{ "12.5.3", "readers", 1, readers },
	{ "12.5.3", "locks_asserted", 1, locks_asserted },
	{ "12.5.4", "flushes", 1, flushes },
	{ "12.5.4", "local_progress", 1, local_progress },
	{ "12.5.4", "flags", 1, flags },
	{ "12.5", "kinds", 1, kinds },
	{ "12.5", "windows_at_once", 1, windows_at_once },
	{ "12.2.5", "freed_late", 1, freed_late },
};

int main(int argc, char **argv)
{
	test_init(&argc, &argv);
	right = (me + 1) % np;
	left = (me + np - 1) % np;
	standard_run(cases, sizeof(cases) / sizeof(*cases), argc, argv);
	test_done("sync");
	return 0;
}
