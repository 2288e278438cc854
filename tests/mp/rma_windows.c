/* SPDX-License-Identifier: BSD-3-Clause */
/* Windows as objects: creation, memory, attributes, names, info, error handlers, destruction (MPI-5.0,
 * sections 12.2, 7.7.3, 9.3.2). */
#include "rma_test.h"

#include <dirent.h>

/* ---- 12.2.6: predefined attributes --------------------------------------------------------------------- */

static void check_attributes(MPI_Win win, enum flavour flavour, const void *base, MPI_Aint size, int unit)
{
	static const int flavours[FLAVOURS] = { MPI_WIN_FLAVOR_CREATE, MPI_WIN_FLAVOR_ALLOCATE, MPI_WIN_FLAVOR_SHARED,
						MPI_WIN_FLAVOR_DYNAMIC };
	void *have = &have;
	MPI_Aint *bytes;
	int *value, flag = 0;

	MPI_Win_get_attr(win, MPI_WIN_BASE, &have, &flag);
	CHECK(flag && have == base);
	flag = 0;
	MPI_Win_get_attr(win, MPI_WIN_SIZE, &bytes, &flag);
	CHECK(flag);
	CHECK_EQ(*bytes, size);
	flag = 0;
	MPI_Win_get_attr(win, MPI_WIN_DISP_UNIT, &value, &flag);
	CHECK(flag);
	CHECK_EQ(*value, unit);
	flag = 0;
	MPI_Win_get_attr(win, MPI_WIN_CREATE_FLAVOR, &value, &flag);
	CHECK(flag);
	CHECK_EQ(*value, flavours[flavour]);
	flag = 0;
	MPI_Win_get_attr(win, MPI_WIN_MODEL, &value, &flag);
	CHECK(flag && (*value == MPI_WIN_UNIFIED || *value == MPI_WIN_SEPARATE));
}

static void attributes(void)
{
	struct window w;
	MPI_Group group, all;
	int same;

	MPI_Comm_group(WORLD, &all);
	for (int f = 0; f < FLAVOURS; f++) {
		if (!flavour_possible(f))
			continue;
		window_new(&w, f, 64 * (me + 1), f == DYNAMIC ? 1 : 1 << me % 4, MPI_INFO_NULL, WORLD);
		check_attributes(w.win, f, f == DYNAMIC ? MPI_BOTTOM : w.mem, f == DYNAMIC ? 0 : 64 * (me + 1), w.units[me]);
		MPI_Win_get_group(w.win, &group);
		MPI_Group_compare(group, all, &same);
		CHECK_EQ(same, MPI_IDENT);
		MPI_Group_free(&group);
		window_free(&w);
	}
	MPI_Group_free(&all);
}

/* Ranks of a window are those of the communicator, which may be freed before the window. */
static void communicators(void)
{
	MPI_Comm reverse, half, freed;
	struct window w;
	int value, peer, flag;

	MPI_Comm_split(WORLD, 0, np - me, &reverse);
	MPI_Comm_split(WORLD, me % 2, me, &half);
	for (int f = 0; f < FLAVOURS; f++) {
		if (!flavour_possible(f))
			continue;
		for (int which = 0; which < 3; which++) {
			MPI_Comm comm = which == 0 ? reverse : which == 1 ? half : MPI_COMM_SELF;

			MPI_Comm_dup(comm, &freed);
			window_new(&w, f, sizeof(int), 1, MPI_INFO_NULL, freed);
			MPI_Comm_free(&freed);
			w.comm = comm;
			peer = (w.rank + 1) % w.ranks;
			own_begin(&w);
			memset(w.mem, 0xff, sizeof(int));
			own_end(&w);
			epoch_begin(&w, FENCE, peer, 0);
			MPI_Put(&me, 1, MPI_INT, peer, disp(&w, peer, 0), 1, MPI_INT, w.win);
			epoch_end(&w, FENCE, peer);
			own_begin(&w);
			memcpy(&value, w.mem, sizeof(value));
			own_end(&w);
			CHECK_EQ(value, which == 0 ? (me + 1) % np : which == 2 ? me : me >= 2 ? me - 2 :
				 (np - 1 - me) / 2 * 2 + me);
			window_free(&w);
		}
	}
	MPI_Comm_free(&reverse);
	MPI_Comm_free(&half);
	MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, WORLD, &flag, MPI_STATUS_IGNORE);
	CHECK(!flag);
}

/* ---- 7.7.3: cached attributes --------------------------------------------------------------------------------- */

static int deleted, refuse;
static void *deleted_value;
static MPI_Win deleted_of;

static int on_delete(MPI_Win win, int keyval, void *value, void *extra)
{
	(void)keyval;
	CHECK(extra == &deleted);
	if (refuse)
		return MPI_ERR_OTHER;
	deleted++;
	deleted_value = value;
	deleted_of = win;
	return MPI_SUCCESS;
}

static void keyvals(void)
{
	int key, plain, flag, a = 1, b = 2;
	void *value;
	MPI_Win win, was;

	MPI_Win_create_keyval(MPI_WIN_NULL_COPY_FN, on_delete, &key, &deleted);
	MPI_Win_create_keyval(MPI_WIN_DUP_FN, MPI_WIN_NULL_DELETE_FN, &plain, NULL);
	CHECK(key != plain && key != MPI_KEYVAL_INVALID);
	MPI_Win_create(NULL, 0, 1, MPI_INFO_NULL, WORLD, &win);
	MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
	flag = 1;
	MPI_Win_get_attr(win, key, &value, &flag);
	CHECK(!flag);
	MPI_Win_set_attr(win, key, &a);
	MPI_Win_get_attr(win, key, &value, &flag);
	CHECK(flag && value == &a);
	MPI_Win_set_attr(win, key, &b);		/* deletes the one before */
	CHECK(deleted == 1 && deleted_value == &a && deleted_of == win);
	MPI_Win_delete_attr(win, key);
	CHECK(deleted == 2 && deleted_value == &b);
	MPI_Win_get_attr(win, key, &value, &flag);
	CHECK(!flag);
	MPI_Win_set_attr(win, plain, NULL);
	value = &a;
	MPI_Win_get_attr(win, plain, &value, &flag);
	CHECK(flag && !value);
	/* A delete function that fails keeps the attribute, and the window. */
	MPI_Win_set_attr(win, key, &a);
	refuse = 1;
	CHECK(MPI_Win_delete_attr(win, key) != MPI_SUCCESS);
	MPI_Win_get_attr(win, key, &value, &flag);
	CHECK(flag && value == &a && deleted == 2);
	refuse = 0;
	/* A freed key works until the last attribute is gone. */
	was = win;
	value = NULL;
	flag = key;
	MPI_Win_free_keyval(&key);
	CHECK_EQ(key, MPI_KEYVAL_INVALID);
	MPI_Win_free_keyval(&plain);
	MPI_Win_free(&win);
	CHECK(deleted == 3 && deleted_value == &a && deleted_of == was);
	CHECK(win == MPI_WIN_NULL);
}

/* ---- 7.8: names ------------------------------------------------------------------------------------------------ */

static void names(void)
{
	char name[MPI_MAX_OBJECT_NAME + 8], longest[2 * MPI_MAX_OBJECT_NAME];
	struct window w;
	int n;

	for (int f = 0; f < FLAVOURS; f++) {
		if (!flavour_possible(f))
			continue;
		window_new(&w, f, 8, 1, MPI_INFO_NULL, WORLD);
		n = -1;
		MPI_Win_get_name(w.win, name, &n);
		CHECK(n == 0 && !name[0]);
		MPI_Win_set_name(w.win, "  one two");	/* leading blanks count */
		MPI_Win_get_name(w.win, name, &n);
		CHECK(n == 9 && !strcmp(name, "  one two"));
		memset(longest, 'x', sizeof(longest));
		longest[MPI_MAX_OBJECT_NAME - 1] = 0;
		MPI_Win_set_name(w.win, longest);
		MPI_Win_get_name(w.win, name, &n);
		CHECK(n == MPI_MAX_OBJECT_NAME - 1 && !strcmp(name, longest));
		MPI_Win_set_name(w.win, "");
		MPI_Win_get_name(w.win, name, &n);
		CHECK(n == 0 && !name[0]);
		window_free(&w);
	}
}

/* ---- 12.2.7: info ---------------------------------------------------------------------------------------------- */

static bool hint(MPI_Info info, const char *key, const char *wanted)
{
	char text[MPI_MAX_INFO_VAL + 1] = "";
	int flag = 0;

	MPI_Info_get(info, key, MPI_MAX_INFO_VAL, text, &flag);
	/* a part of the order may become the full order */
	return !flag || !strcmp(text, wanted) || (!strcmp(wanted, "rar,waw") && strstr(text, "rar") && strstr(text, "waw"));
}

/* A window with any hint works as a window without hints, and MPI_Win_get_info returns the value that was set. */
static void info(void)
{
	static const char *const hints[][2] = {
		{"accumulate_ordering", "none"}, {"accumulate_ops", "same_op"},      {"same_size", "true"},
		{"same_disp_unit", "true"},      {"alloc_shared_noncontig", "true"}, {"mpi_accumulate_granularity", "8"},
		{"nobody_knows_this", "x"},      {"accumulate_ordering", "rar,waw"}, {"accumulate_ops", "same_op_no_op"},
	};
	struct window w;
	MPI_Info in, out;
	int value, peer = (me + 1) % np;

	for (int f = 0; f < FLAVOURS; f++) {
		for (size_t h = 0; flavour_possible(f) && h < sizeof(hints) / sizeof(*hints); h++) {
			MPI_Info_create(&in);
			MPI_Info_set(in, hints[h][0], hints[h][1]);
			window_new(&w, f, 64, 4, in, WORLD);
			MPI_Info_free(&in);
			MPI_Win_get_info(w.win, &out);
			CHECK(out != MPI_INFO_NULL);
			CHECK(hint(out, hints[h][0], hints[h][1]));
			MPI_Info_free(&out);
			own_fill(&w, 0);
			epoch_begin(&w, LOCK_ALL, peer, peer);
			value = me;
			MPI_Accumulate(&value, 1, MPI_INT, peer, disp(&w, peer, 4), 1, MPI_INT, MPI_REPLACE, w.win);
			epoch_end(&w, LOCK_ALL, peer);
			own_begin(&w);
			memcpy(&value, w.mem + 4, sizeof(value));
			own_end(&w);
			CHECK_EQ(value, (me + np - 1) % np);
			window_free(&w);
		}
	}
}

/* A window that is never locked; hints that are changed afterwards; an info object of MPI_Win_get_info is the caller's own. */
static void info_changes(void)
{
	struct window w;
	MPI_Info in, out, again;
	int value = me, peer = (me + 1) % np, flag;
	char text[16];

	MPI_Info_create(&in);
	MPI_Info_set(in, "no_locks", "true");
	for (int f = 0; f < FLAVOURS; f++) {
		if (!flavour_possible(f))
			continue;
		window_new(&w, f, sizeof(int), 1, in, WORLD);
		for (int e = FENCE; e <= PSCW; e++) {
			epoch_begin(&w, e, peer, (me + np - 1) % np);
			MPI_Put(&value, 1, MPI_INT, peer, disp(&w, peer, 0), 1, MPI_INT, w.win);
			epoch_end(&w, e, peer);
			CHECK_EQ(*(int *)(void *)w.mem, (me + np - 1) % np);
		}
		MPI_Win_get_info(w.win, &out);
		CHECK(hint(out, "no_locks", "true"));
		MPI_Info_set(out, "mine_alone", "1");
		MPI_Win_get_info(w.win, &again);
		MPI_Info_get(again, "mine_alone", 15, text, &flag);
		CHECK(!flag);
		MPI_Info_free(&again);
		MPI_Info_set(out, "accumulate_ops", "same_op");
		MPI_Win_set_info(w.win, out);
		MPI_Info_free(&out);
		window_free(&w);
	}
	MPI_Info_free(&in);
}

/* alloc_shared_noncontig is rank 0's, and counts at creation only. */
static void info_of_rank_0(void)
{
	struct window w;
	MPI_Info in, out;

	if (!flavour_possible(SHARED))
		return;
	for (int given = 0; given < 2; given++) {
		MPI_Info_create(&in);
		MPI_Info_set(in, "alloc_shared_noncontig", (me == 0) == given ? "true" : "false");
		window_new(&w, SHARED, 64, 1, in, WORLD);
		MPI_Win_set_info(w.win, in);
		MPI_Info_free(&in);
		MPI_Win_get_info(w.win, &out);
		CHECK(hint(out, "alloc_shared_noncontig", given ? "true" : "false"));
		MPI_Info_free(&out);
		window_free(&w);
	}
}

/* The promises of same_size and same_disp_unit are checked with HEDDLE_CHECK only, and all ranks get the error. */
static void promises(void)
{
	static const char *const keys[] = { "same_size", "same_disp_unit" };
	int64_t mem[4] = { 0 };
	bool checked_here = getenv("HEDDLE_CHECK") != NULL;
	MPI_Info info;
	MPI_Win win;
	int rc, class;

	MPI_Comm_set_errhandler(WORLD, MPI_ERRORS_RETURN);
	for (int k = 0; k < 2; k++)
		for (int kept = 0; kept < 2; kept++) {
			bool last = me == np - 1 && !kept;

			MPI_Info_create(&info);
			MPI_Info_set(info, keys[k], "true");
			rc = MPI_Win_create(mem, k == 0 && last ? 16 : 32, k == 1 && last ? 4 : 8, info, WORLD, &win);
			MPI_Info_free(&info);
			MPI_Error_class(rc, &class);
			CHECK_EQ(class, checked_here && !kept && np > 1 ? k ? MPI_ERR_DISP : MPI_ERR_SIZE : MPI_SUCCESS);
			if (!rc)
				MPI_Win_free(&win);
		}
	MPI_Comm_set_errhandler(WORLD, MPI_ERRORS_ARE_FATAL);
}

static MPI_Win copied;
static int64_t copied_memory[4];

/* Whether this process has the library's helper thread of windows. */
static bool has_helper(void)
{
	DIR *tasks = opendir("/proc/self/task");
	char path[300], name[32];
	struct dirent *d;
	bool found = false;
	FILE *f;

	while (tasks && !found && (d = readdir(tasks))) {
		snprintf(path, sizeof(path), "/proc/self/task/%s/comm", d->d_name);
		if (!(f = fopen(path, "r")))
			continue;
		found = fgets(name, sizeof(name), f) && !strcmp(name, "heddle-rma\n");
		fclose(f);
	}
	if (tasks)
		closedir(tasks);
	return found;
}

static int make_window(MPI_Comm comm, int key, void *state, void *value, void *out, int *flag)
{
	(void)key;
	(void)state;
	*(void **)out = value;
	*flag = 1;
	MPI_Win_create(copied_memory, sizeof(copied_memory), 8, MPI_INFO_NULL, comm, &copied);
	/* the first one with a helper thread: MPI_Comm_dup goes on without the lock that the thread would take */
	CHECK(!getenv("RMA_FIRST") || !has_helper());
	return MPI_SUCCESS;
}

/* A window that an attribute callback of MPI_Comm_dup makes. RMA_FIRST in the environment: that is the process's first window,
 * and one that has a helper thread. */
static void in_callback(void)
{
	MPI_Comm a, b;
	int64_t v = me;
	int key;

	MPI_Comm_dup(WORLD, &a);
	MPI_Comm_create_keyval(make_window, MPI_COMM_NULL_DELETE_FN, &key, NULL);
	MPI_Comm_set_attr(a, key, &key);
	MPI_Comm_dup(a, &b);
	MPI_Win_fence(0, copied);
	CHECK(!getenv("RMA_FIRST") || has_helper());
	MPI_Put(&v, 1, MPI_INT64_T, (me + 1) % np, 1, 1, MPI_INT64_T, copied);
	MPI_Win_fence(0, copied);
	CHECK_EQ(copied_memory[1], (me + np - 1) % np);
	MPI_Win_free(&copied);
	MPI_Comm_free(&a);
	MPI_Comm_free(&b);
	MPI_Comm_free_keyval(&key);
}

/* ---- 9.3.2: error handlers ------------------------------------------------------------------------------------ */

static int handled, handled_code;
static MPI_Win handled_win;

static void on_error(MPI_Win *win, int *code, ...)
{
	handled++;
	handled_code = *code;
	handled_win = *win;
}

static void error_handlers(void)
{
	MPI_Errhandler handler, have;
	struct window w;
	int class, code, rc;

	MPI_Win_create_errhandler(on_error, &handler);
	MPI_Add_error_class(&class);
	MPI_Add_error_code(class, &code);
	for (int f = 0; f < FLAVOURS; f++) {
		if (!flavour_possible(f))
			continue;
		window_new(&w, f, 8, 1, MPI_INFO_NULL, WORLD);
		MPI_Win_get_errhandler(w.win, &have);
		CHECK(have == MPI_ERRORS_ARE_FATAL);
		MPI_Errhandler_free(&have);
		MPI_Win_set_errhandler(w.win, handler);
		MPI_Win_get_errhandler(w.win, &have);
		CHECK(have == handler);
		MPI_Errhandler_free(&have);
		handled = 0;
		MPI_Win_call_errhandler(w.win, code);
		CHECK(handled == 1 && handled_code == code && handled_win == w.win);
		/* an operation's error goes to the handler of the window, with the window's handle, and the call returns the
		 * code */
		MPI_Win_lock_all(0, w.win);
		rc = MPI_Put(&code, 1, MPI_INT, np, 0, 1, MPI_INT, w.win);
		CHECK(handled == 2 && handled_win == w.win);
		CHECK(rc == handled_code);
		CHECK_EQ(class_of(rc), MPI_ERR_RANK);
		MPI_Win_unlock_all(w.win);
		MPI_Win_set_errhandler(w.win, MPI_ERRORS_RETURN);
		MPI_Win_lock_all(0, w.win);
		rc = MPI_Put(&code, -1, MPI_INT, 0, 0, 1, MPI_INT, w.win);
		CHECK_EQ(class_of(rc), MPI_ERR_COUNT);
		MPI_Win_unlock_all(w.win);
		MPI_Win_call_errhandler(w.win, code);	/* returns */
		MPI_Win_set_errhandler(w.win, handler);
		if (f == FLAVOURS - 1)
			MPI_Errhandler_free(&handler);	/* the window keeps the handler until the window is freed */
		handled = 0;
		MPI_Win_call_errhandler(w.win, class);
		CHECK_EQ(handled, 1);
		window_free(&w);
	}
}

/* ---- 12.2.1 to 12.2.3: memory ----------------------------------------------------------------------------------- */

/* No rank has memory, or only some ranks; an operation of no bytes is in range. */
static void zero_size(void)
{
	MPI_Win win;
	struct window w;
	void *base = &w;
	int one = 1, peer = (me + 1) % np;

	MPI_Win_create(NULL, 0, 1, MPI_INFO_NULL, WORLD, &win);
	check_attributes(win, CREATE, NULL, 0, 1);
	MPI_Win_fence(0, win);
	MPI_Put(&one, 0, MPI_INT, peer, 0, 0, MPI_INT, win);
	MPI_Win_fence(0, win);
	MPI_Win_free(&win);
	MPI_Win_allocate(0, 8, MPI_INFO_NULL, WORLD, &base, &win);
	check_attributes(win, ALLOCATE, base, 0, 8);
	MPI_Win_lock_all(0, win);
	MPI_Get(NULL, 0, MPI_INT, peer, 0, 0, MPI_INT, win);
	MPI_Win_flush(peer, win);
	MPI_Win_unlock_all(win);
	MPI_Win_free(&win);
	for (int f = 0; f < FLAVOURS; f++) {
		if (!flavour_possible(f))
			continue;
		/* odd ranks have nothing */
		window_new(&w, f, me % 2 ? 0 : 16, 4, MPI_INFO_NULL, WORLD);
		own_fill(&w, 0);
		MPI_Win_lock_all(0, w.win);
		for (int r = 0; r < np; r++) {
			if (!w.sizes[r])
				MPI_Accumulate(&one, 0, MPI_INT, r, 0, 0, MPI_INT, MPI_SUM, w.win);
			else if (r == peer)
				MPI_Accumulate(&me, 1, MPI_INT, r, disp(&w, r, 12), 1, MPI_INT, MPI_REPLACE, w.win);
		}
		MPI_Win_unlock_all(w.win);
		meet(WORLD);
		if (w.size && np > 1) {
			int value;

			own_begin(&w);
			memcpy(&value, w.mem + 12, sizeof(value));
			own_end(&w);
			CHECK_EQ(value, (me + np - 1) % np);
		}
		window_free(&w);
	}
}

/* Each rank has another size and another displacement unit, which is the target's at each access; up to the last byte. */
static void sizes_and_units(void)
{
	static const int units[] = { 1, 4, 8, 2, 16, 3, 7 };
	struct window w;
	int64_t value, got;
	int unit = units[me % 7];

	for (int f = 0; f < FLAVOURS; f++) {
		if (!flavour_possible(f))
			continue;
		window_new(&w, f, (MPI_Aint)8 * unit * np * (me + 1), unit, MPI_INFO_NULL, WORLD);
		own_begin(&w);
		memset(w.mem, 0, (size_t)w.size);
		own_end(&w);
		meet(WORLD);
		MPI_Win_lock_all(0, w.win);
		for (int r = 0; r < np; r++) {
			/* a place for each origin, from the end backwards */
			MPI_Aint at = disp(&w, r, w.sizes[r] - (MPI_Aint)8 * units[r % 7] * (me + 1));

			value = 1000 * me + r;
			MPI_Put(&value, 1, MPI_INT64_T, r, at, 1, MPI_INT64_T, w.win);
			MPI_Win_flush(r, w.win);
			MPI_Get(&got, 1, MPI_INT64_T, r, at, 1, MPI_INT64_T, w.win);
			MPI_Win_flush(r, w.win);
			CHECK_EQ(got, value);
		}
		MPI_Win_unlock_all(w.win);
		meet(WORLD);
		own_begin(&w);
		for (int r = 0; r < np; r++) {
			memcpy(&value, w.mem + w.size - (MPI_Aint)8 * unit * (r + 1), 8);
			CHECK_EQ(value, 1000 * r + me);
		}
		own_end(&w);
		window_free(&w);
	}
}

/* Windows over one buffer, one of them shifted: after the epoch a put through one window is read through the other. */
static void overlapping(void)
{
	enum { N = 64, SHIFT = 8 };
	int64_t *mem = checked(malloc(N * sizeof(*mem))), in[N];
	int peer = (me + 1) % np, left = (me + np - 1) % np;
	MPI_Win whole, part;

	fill(mem, N * sizeof(*mem), (uint64_t)me);
	MPI_Win_create(mem, N * sizeof(*mem), 8, MPI_INFO_NULL, WORLD, &whole);
	MPI_Win_create(mem + SHIFT, (N - SHIFT) * sizeof(*mem), 8, MPI_INFO_NULL, WORLD, &part);
	for (int round = 0; round < 4; round++) {
		int64_t out[4];

		fill(out, sizeof(out), seed_of(me, peer, round, 0));
		MPI_Win_fence(0, round % 2 ? part : whole);
		MPI_Put(out, 4, MPI_INT64_T, peer, round % 2 ? 8 : 8 + SHIFT, 4, MPI_INT64_T, round % 2 ? part : whole);
		MPI_Win_fence(0, round % 2 ? part : whole);
		MPI_Win_fence(0, round % 2 ? whole : part);
		MPI_Get(in, N - SHIFT, MPI_INT64_T, peer, round % 2 ? SHIFT : 0, N - SHIFT, MPI_INT64_T,
			round % 2 ? whole : part);
		MPI_Win_fence(0, round % 2 ? whole : part);
		VERIFY(in + 8, sizeof(out), seed_of(me, peer, round, 0));
		VERIFY(mem + 8 + SHIFT, sizeof(out), seed_of(left, me, round, 0));
		VERIFY(mem, SHIFT * sizeof(*mem), (uint64_t)me);
		meet(WORLD);
	}
	MPI_Win_free(&whole);
	MPI_Win_free(&part);
	free(mem);
}

/* ---- 12.2.3: shared memory --------------------------------------------------------------------------------------- */

/* Contiguous over the ranks unless told otherwise; loads and stores reach every segment. */
static void shared_segments(void)
{
	MPI_Aint size;
	MPI_Win win;
	MPI_Info info;
	int *mine, *theirs, unit;
	char *end = NULL;

	if (!flavour_possible(SHARED))
		return;
	MPI_Info_create(&info);
	MPI_Info_set(info, "alloc_shared_noncontig", "true");
	for (int noncontig = 0; noncontig < 2; noncontig++) {
		int n = me % 3 == 1 ? 0 : 100 + me;

		MPI_Win_allocate_shared(n * (MPI_Aint)sizeof(int), me % 2 ? 4 : 1, noncontig ? info : MPI_INFO_NULL, WORLD,
					&mine, &win);
		MPI_Win_lock_all(MPI_MODE_NOCHECK, win);
		for (int i = 0; i < n; i++)
			mine[i] = 1000 * me + i;
		MPI_Win_sync(win);
		MPI_Barrier(WORLD);
		MPI_Win_sync(win);
		for (int r = 0; r < np; r++) {
			size = -1;
			unit = -1;
			MPI_Win_shared_query(win, r, &size, &unit, &theirs);
			CHECK_EQ(size, (r % 3 == 1 ? 0 : 100 + r) * (MPI_Aint)sizeof(int));
			CHECK_EQ(unit, r % 2 ? 4 : 1);
			if (r == me && n)
				CHECK(theirs == mine);
			if (!noncontig && size && end)
				CHECK((char *)theirs == end);
			end = size ? (char *)theirs + size : end;
			for (int i = 0; i < size / (MPI_Aint)sizeof(int); i++)
				CHECK_EQ(theirs[i], 1000 * r + i);
		}
		end = NULL;
		/* the lowest rank that has some */
		MPI_Win_shared_query(win, MPI_PROC_NULL, &size, &unit, &theirs);
		CHECK_EQ(size, 100 * (MPI_Aint)sizeof(int));
		CHECK_EQ(theirs[7], 7);
		MPI_Barrier(WORLD);
		/* stores to the right neighbour's segment */
		MPI_Win_shared_query(win, (me + 1) % np, &size, &unit, &theirs);
		if (size)
			theirs[me % 100] = -me;
		MPI_Win_sync(win);
		MPI_Barrier(WORLD);
		MPI_Win_sync(win);
		if (n)
			CHECK_EQ(mine[(me + np - 1) % np % 100], -((me + np - 1) % np));
		MPI_Win_unlock_all(win);
		MPI_Win_free(&win);
	}
	MPI_Info_free(&info);
	/* no rank has memory */
	MPI_Win_allocate_shared(0, 1, MPI_INFO_NULL, WORLD, &mine, &win);
	size = -1;
	MPI_Win_shared_query(win, MPI_PROC_NULL, &size, &unit, &theirs);
	CHECK_EQ(size, 0);
	MPI_Win_free(&win);
}

#if MPI_VERSION > 4 || (MPI_VERSION == 4 && MPI_SUBVERSION > 0)
/* Section 12.2.3: other flavours tell, too, if their memory can be reached by loads; else the size is 0. */
static void shared_others(void)
{
	struct window w;
	MPI_Aint size, self;
	int unit;
	int64_t *at, v;

	for (int f = CREATE; f <= ALLOCATE; f++) {
		window_new(&w, f, 64, 8, MPI_INFO_NULL, WORLD);
		own_begin(&w);
		for (int i = 0; i < 8; i++) {
			v = 100 * me + i;
			memcpy(w.mem + 8 * i, &v, 8);
		}
		own_end(&w);
		meet(WORLD);
		MPI_Win_lock_all(0, w.win);
		MPI_Barrier(WORLD);
		MPI_Win_sync(w.win);
		for (int r = 0; r < np; r++) {
			size = -1;
			at = &v;
			MPI_Win_shared_query(w.win, r, &size, &unit, &at);
			CHECK(size == 64 ? at != NULL : size == 0);
			for (int i = 0; size && i < 8; i++)
				CHECK_EQ(at[i], 100 * r + i);
			self = r == me ? size : self;
		}
		CHECK_EQ(self, 64);
		MPI_Barrier(WORLD);
		MPI_Win_unlock_all(w.win);
		window_free(&w);
	}
}
#endif

/* ---- 12.2.4: dynamic windows ------------------------------------------------------------------------------------ */

static MPI_Aint address_of(const void *p)
{
	MPI_Aint a;

	MPI_Get_address(p, &a);
	return a;
}

/* Memory that is attached while other ranks are already in an access epoch; more regions than any table may hold; regions side by
 * side. */
static void attached_later(void)
{
	enum { REGIONS = 200 };
	int peer = (me + 1) % np, left = (me + np - 1) % np;
	static int one[100];
	int *regions[REGIONS], got, value;
	MPI_Aint theirs[REGIONS], mine[REGIONS];
	MPI_Win win;

	MPI_Win_create_dynamic(MPI_INFO_NULL, WORLD, &win);
	MPI_Win_lock_all(0, win);
	/* a region attached whole, by halves that touch, and once more after detaching */
	for (int round = 0; round < 3; round++) {
		if (round == 1) {
			MPI_Win_attach(win, one, 50 * sizeof(int));
			MPI_Win_attach(win, one + 50, 50 * sizeof(int));
		} else {
			MPI_Win_attach(win, one, sizeof(one));
		}
		one[49] = -1;
		MPI_Win_sync(win);
		mine[0] = address_of(one);
		MPI_Sendrecv(mine, 1, MPI_AINT, left, 1, theirs, 1, MPI_AINT, peer, 1, WORLD, MPI_STATUS_IGNORE);
		value = 10 * me + round;
		MPI_Put(&value, 1, MPI_INT, peer, MPI_Aint_add(theirs[0], 49 * sizeof(int)), 1, MPI_INT, win);
		MPI_Accumulate(&value, 1, MPI_INT, peer, MPI_Aint_add(theirs[0], 99 * sizeof(int)), 1, MPI_INT, MPI_REPLACE, win);
		MPI_Win_flush(peer, win);
		MPI_Barrier(WORLD);
		MPI_Win_sync(win);
		CHECK_EQ(one[49], 10 * left + round);
		CHECK_EQ(one[99], 10 * left + round);
		MPI_Barrier(WORLD);
		MPI_Win_detach(win, one);
		if (round == 1)
			MPI_Win_detach(win, one + 50);
	}
	for (int i = 0; i < REGIONS; i++) {
		regions[i] = checked(malloc((size_t)(i + 1) * sizeof(int)));
		regions[i][i] = 1000 * me + i;
		MPI_Win_attach(win, regions[i], (i + 1) * (MPI_Aint)sizeof(int));
		mine[i] = address_of(&regions[i][i]);
	}
	MPI_Win_sync(win);
	MPI_Sendrecv(mine, REGIONS, MPI_AINT, left, 1, theirs, REGIONS, MPI_AINT, peer, 1, WORLD, MPI_STATUS_IGNORE);
	for (int i = REGIONS; i-- > 0;) {
		MPI_Get(&got, 1, MPI_INT, peer, theirs[i], 1, MPI_INT, win);
		MPI_Win_flush(peer, win);
		CHECK_EQ(got, 1000 * peer + i);
	}
	MPI_Barrier(WORLD);
	/* Every second region is detached and freed, and other memory, perhaps at the same address, takes its place. */
	for (int i = 0; i < REGIONS; i += 2) {
		MPI_Win_detach(win, regions[i]);
		free(regions[i]);
		regions[i] = checked(malloc((size_t)(i + 1) * sizeof(int)));
	}
	for (int i = REGIONS - 2; i >= 0; i -= 2) {
		MPI_Win_attach(win, regions[i], (i + 1) * (MPI_Aint)sizeof(int));
		regions[i][i] = -i;
		mine[i] = address_of(&regions[i][i]);
	}
	MPI_Win_sync(win);
	MPI_Sendrecv(mine, REGIONS, MPI_AINT, left, 1, theirs, REGIONS, MPI_AINT, peer, 1, WORLD, MPI_STATUS_IGNORE);
	for (int i = 0; i < REGIONS; i++) {
		value = 1;
		MPI_Fetch_and_op(&value, &got, MPI_INT, peer, theirs[i], MPI_SUM, win);
		MPI_Win_flush(peer, win);
		CHECK_EQ(got, i % 2 ? 1000 * peer + i : -i);
	}
	MPI_Barrier(WORLD);
	MPI_Win_unlock_all(win);
	for (int i = 0; i < REGIONS; i++) {
		CHECK_EQ(regions[i][i], (i % 2 ? 1000 * me + i : -i) + 1);
		if (i % 3)
			MPI_Win_detach(win, regions[i]);
	}
	MPI_Win_free(&win);	/* some are still attached */
	for (int i = 0; i < REGIONS; i++)
		free(regions[i]);
}

/* A list that grows by regions which only their owners know: each rank appends elements at the end, wherever
 * that is (section 12.8). */
static void linked_list(void)
{
	enum { EACH = 20 };
	struct node { MPI_Aint next; int64_t rank_of_next; int64_t value; };
	struct node *own[EACH + 1] = { NULL };
	struct { MPI_Aint next; int64_t rank; } at, next;
	const MPI_Aint none = 0;
	MPI_Win win;
	int n = 0, seen[64] = { 0 };

	MPI_Win_create_dynamic(MPI_INFO_NULL, WORLD, &win);
	if (!me) {
		own[EACH] = checked(calloc(1, sizeof(struct node)));
		own[EACH]->value = -1;
		MPI_Win_attach(win, own[EACH], sizeof(struct node));
		at.next = address_of(own[EACH]);
	}
	at.rank = 0;
	MPI_Bcast(&at, 2, MPI_AINT, 0, WORLD);
	next = at;
	MPI_Win_lock_all(0, win);
	for (int i = 0; i < EACH; i++) {
		MPI_Aint mine, was;

		own[i] = checked(calloc(1, sizeof(struct node)));
		own[i]->value = 100 * me + i;
		MPI_Win_attach(win, own[i], sizeof(struct node));
		MPI_Win_sync(win);
		mine = address_of(own[i]);
		for (;;) {
			int64_t rank, my_rank = me;

			MPI_Compare_and_swap(&mine, &none, &was, MPI_AINT, (int)next.rank, next.next, win);
			MPI_Win_flush((int)next.rank, win);
			if (was == none) {
				/* the rank behind the address: a reader that finds 0 there polls again */
				my_rank = me + 1;
				MPI_Accumulate(&my_rank, 1, MPI_INT64_T, (int)next.rank, MPI_Aint_add(next.next, 8), 1,
					       MPI_INT64_T, MPI_REPLACE, win);
				MPI_Win_flush((int)next.rank, win);
				break;
			}
			do {
				MPI_Fetch_and_op(NULL, &rank, MPI_INT64_T, (int)next.rank, MPI_Aint_add(next.next, 8),
						 MPI_NO_OP, win);
				MPI_Win_flush((int)next.rank, win);
			} while (!rank);
			next.next = was;
			next.rank = rank - 1;
		}
	}
	MPI_Barrier(WORLD);
	for (next = at; next.next; n++) {
		struct node node;

		MPI_Get(&node, 3, MPI_INT64_T, (int)next.rank, next.next, 3, MPI_INT64_T, win);
		MPI_Win_flush((int)next.rank, win);
		if (n) {
			CHECK_EQ(node.value % 100, seen[node.value / 100]);	/* elements of each rank in that rank's order */
			seen[node.value / 100]++;
		}
		next.next = node.next;
		next.rank = node.rank_of_next - 1;
	}
	CHECK_EQ(n, EACH * np + 1);
	MPI_Win_unlock_all(win);
	MPI_Barrier(WORLD);
	MPI_Win_free(&win);
	for (int i = 0; i <= EACH; i++)
		free(own[i]);
}

#if MPI_VERSION >= 4
/* Section 12.2, the forms with displacement units beyond int. */
static void large_forms(void)
{
	MPI_Aint size, unit = 0, big = (MPI_Aint)1 << 33;
	char *mem, *base, own[64];
	MPI_Win win;
	int value = me, peer = (me + 1) % np;

	MPI_Win_create_c(own, sizeof(own), (MPI_Aint)8, MPI_INFO_NULL, WORLD, &win);
	MPI_Win_fence(0, win);
	MPI_Put_c(&value, 1, MPI_INT, peer, 3, 1, MPI_INT, win);
	MPI_Win_fence(0, win);
	memcpy(&value, own + 24, sizeof(value));
	CHECK_EQ(value, (me + np - 1) % np);
	MPI_Win_free(&win);
	MPI_Win_allocate_c(64, big, MPI_INFO_NULL, WORLD, &mem, &win);	/* only displacement 0 is inside of the window */
	value = me;
	MPI_Win_fence(0, win);
	MPI_Put_c(&value, 1, MPI_INT, peer, 0, 1, MPI_INT, win);
	MPI_Win_fence(0, win);
	memcpy(&value, mem, sizeof(value));
	CHECK_EQ(value, (me + np - 1) % np);
	MPI_Win_free(&win);
	if (!flavour_possible(SHARED))
		return;
	MPI_Win_allocate_shared_c(64, big + me, MPI_INFO_NULL, WORLD, &mem, &win);
	MPI_Win_shared_query_c(win, peer, &size, &unit, &base);
	CHECK_EQ(size, 64);
	CHECK(unit == big + peer);
	MPI_Win_free(&win);
}
#endif

static const struct standard_case cases[] = {
	{ "12.2.6", "attributes", 1, attributes },
	{ "12.2.1", "communicators", 1, communicators },
	{ "7.7.3", "keyvals", 1, keyvals },
	{ "7.8", "names", 1, names },
	{ "12.2.7", "info", 1, info },
	{ "12.2.7", "info_changes", 1, info_changes },
	{ "12.2.7", "info_of_rank_0", 1, info_of_rank_0 },
	{ "12.2.7", "promises", 1, promises },
	{ "7.7.2", "in_callback", 1, in_callback },
	{ "9.3.2", "error_handlers", 1, error_handlers },
	{ "12.2.1", "zero_size", 1, zero_size },
	{ "12.2.1", "sizes_and_units", 1, sizes_and_units },
	{ "12.2.1", "overlapping", 1, overlapping },
	{ "12.2.3", "shared_segments", 1, shared_segments },
#if MPI_VERSION > 4 || (MPI_VERSION == 4 && MPI_SUBVERSION > 0)
	{ "12.2.3", "shared_others", 1, shared_others },
#endif
	{ "12.2.4", "attached_later", 1, attached_later },
	{ "12.2.4, 12.8", "linked_list", 1, linked_list },
#if MPI_VERSION >= 4
	{ "12.2", "large_forms", 1, large_forms },
#endif
};

int main(int argc, char **argv)
{
	test_init(&argc, &argv);
	standard_run(cases, sizeof(cases) / sizeof(*cases), argc, argv);
	test_done("windows");
	return 0;
}
