/* SPDX-License-Identifier: BSD-3-Clause */
/* One-sided communication, each function once or a few times, over windows of every flavour: does it work at
 * all? Any number of ranks. */
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "mpi_test.h"

#define N 64

enum flavor { CREATE, ALLOCATE, SHARED, DYNAMIC, FLAVORS };
static const int flavors[] = { MPI_WIN_FLAVOR_CREATE, MPI_WIN_FLAVOR_ALLOCATE, MPI_WIN_FLAVOR_SHARED, MPI_WIN_FLAVOR_DYNAMIC };
static const char *const names[] = { "create", "allocate", "shared", "dynamic" };

/* A window of N longs per rank, and each rank's address for target_disp (0 but in dynamic windows). */
struct window {
	MPI_Win win;
	long *mem;
	MPI_Aint *base;
	int unit;
};

static struct window window_make(enum flavor f, bool fill)
{
	struct window w = { .unit = sizeof(long), .base = calloc((size_t)np, sizeof(MPI_Aint)) };
	MPI_Aint mine = 0;

	switch (f) {
	case CREATE:
		w.mem = malloc(N * sizeof(long));
		MPI_Win_create(w.mem, N * sizeof(long), w.unit, MPI_INFO_NULL, MPI_COMM_WORLD, &w.win);
		break;
	case ALLOCATE:
		MPI_Win_allocate(N * sizeof(long), w.unit, MPI_INFO_NULL, MPI_COMM_WORLD, &w.mem, &w.win);
		break;
	case SHARED:
		MPI_Win_allocate_shared(N * sizeof(long), w.unit, MPI_INFO_NULL, MPI_COMM_WORLD, &w.mem, &w.win);
		break;
	default:
		w.mem = malloc(N * sizeof(long));
		w.unit = 1;
		MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &w.win);
		MPI_Win_attach(w.win, w.mem, N * sizeof(long));
		MPI_Get_address(w.mem, &mine);
		break;
	}
	CHECK(w.win != MPI_WIN_NULL && w.mem);
	MPI_Allgather(&mine, 1, MPI_AINT, w.base, 1, MPI_AINT, MPI_COMM_WORLD);
	for (int i = 0; i < N && fill; i++)
		w.mem[i] = 1000 * me + i;
	MPI_Barrier(MPI_COMM_WORLD);
	return w;
}

static void window_free(enum flavor f, struct window *w)
{
	MPI_Barrier(MPI_COMM_WORLD);
	if (f == DYNAMIC)
		MPI_Win_detach(w->win, w->mem);
	MPI_Win_free(&w->win);
	CHECK(w->win == MPI_WIN_NULL);
	if (f == CREATE || f == DYNAMIC)
		free(w->mem);
	free(w->base);
}

/* The displacement of long i at a rank. */
static MPI_Aint at(const struct window *w, int rank, int i)
{
	return w->unit == 1 ? w->base[rank] + i * (MPI_Aint)sizeof(long) : i;
}

static void fences(enum flavor f)
{
	struct window w = window_make(f, true);
	int right = (me + 1) % np, left = (me + np - 1) % np;
	long out = 77 + me, in = -1;

	MPI_Win_fence(MPI_MODE_NOPRECEDE, w.win);
	MPI_Put(&out, 1, MPI_LONG, right, at(&w, right, 3), 1, MPI_LONG, w.win);
	MPI_Get(&in, 1, MPI_LONG, left, at(&w, left, 5), 1, MPI_LONG, w.win);
	MPI_Win_fence(0, w.win);
	CHECK_EQ(w.mem[3], 77 + left);
	CHECK_EQ(in, 1000 * left + 5);
	MPI_Accumulate(&out, 1, MPI_LONG, 0, at(&w, 0, 7), 1, MPI_LONG, MPI_SUM, w.win);
	MPI_Win_fence(MPI_MODE_NOSUCCEED, w.win);
	if (!me)
		CHECK_EQ(w.mem[7], 7 + 77 * np + np * (np - 1) / 2);
	window_free(f, &w);
}

static void types(enum flavor f)
{
	struct window w = window_make(f, true);
	int right = (me + 1) % np, left = (me + np - 1) % np;
	MPI_Datatype every, pair;
	long out[N], in[N];

	for (int i = 0; i < N; i++)
		out[i] = 5000 + 100 * me + i;
	MPI_Type_vector(8, 1, 2, MPI_LONG, &every);
	MPI_Type_commit(&every);
	MPI_Type_contiguous(4, MPI_LONG, &pair);
	MPI_Type_commit(&pair);
	MPI_Win_fence(0, w.win);
	MPI_Put(out, 1, every, right, at(&w, right, 0), 2, pair, w.win);	/* holes at the origin */
	MPI_Put(out, 8, MPI_LONG, right, at(&w, right, 16), 1, every, w.win);	/* at the target */
	MPI_Get(in, 1, every, left, at(&w, left, 40), 1, every, w.win);		/* at both */
	MPI_Type_free(&every);
	MPI_Type_free(&pair);
	MPI_Win_fence(0, w.win);
	for (int i = 0; i < 8; i++) {
		CHECK_EQ(w.mem[i], 5000 + 100 * left + 2 * i);
		CHECK_EQ(w.mem[16 + 2 * i], 5000 + 100 * left + i);
		CHECK_EQ(w.mem[17 + 2 * i], 1000 * me + 17 + 2 * i);
		CHECK_EQ(in[2 * i], 1000 * left + 40 + 2 * i);
	}
	window_free(f, &w);
}

static void locks(enum flavor f)
{
	struct window w = window_make(f, true);
	long one = 1, old, result, compare, in = 0;

	for (int i = 0; i < 50; i++) {
		MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, w.win);
		MPI_Get(&in, 1, MPI_LONG, 0, at(&w, 0, 1), 1, MPI_LONG, w.win);
		MPI_Win_flush(0, w.win);
		in++;
		MPI_Put(&in, 1, MPI_LONG, 0, at(&w, 0, 1), 1, MPI_LONG, w.win);
		MPI_Win_unlock(0, w.win);
	}
	MPI_Win_lock_all(0, w.win);
	for (int i = 0; i < 50; i++) {
		MPI_Fetch_and_op(&one, &old, MPI_LONG, 0, at(&w, 0, 2), MPI_SUM, w.win);
		MPI_Win_flush(0, w.win);
		CHECK(old >= 2 && old < 2 + 50 * np);
		do {
			MPI_Fetch_and_op(NULL, &compare, MPI_LONG, 0, at(&w, 0, 4), MPI_NO_OP, w.win);
			MPI_Win_flush_local(0, w.win);
			result = compare + 1;
			MPI_Compare_and_swap(&result, &compare, &old, MPI_LONG, 0, at(&w, 0, 4), w.win);
			MPI_Win_flush(0, w.win);
		} while (old != compare);
	}
	MPI_Win_flush_all(w.win);
	MPI_Win_sync(w.win);
	MPI_Win_unlock_all(w.win);
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, w.win);
	for (int i = 1; i <= 4; i += i == 2 ? 2 : 1) {
		MPI_Get(&in, 1, MPI_LONG, 0, at(&w, 0, i), 1, MPI_LONG, w.win);
		MPI_Win_flush(0, w.win);
		CHECK_EQ(in, i + 50 * np);
	}
	MPI_Win_unlock(0, w.win);
	window_free(f, &w);
}

struct loc { double v; int i; };

static void accumulates(enum flavor f)
{
	struct window w = window_make(f, false);
	struct loc mine = { (double)(me * 7 % np), me }, was;
	double d[4] = { 1, 2, 3, 4 }, old[4];
	MPI_Request req[2];

	memset(w.mem, 0, N * sizeof(long));
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Win_lock_all(0, w.win);
	for (int i = 0; i < 20; i++)
		MPI_Accumulate(d, 4, MPI_DOUBLE, 0, at(&w, 0, 0), 4, MPI_DOUBLE, MPI_SUM, w.win);
	MPI_Get_accumulate(&mine, 1, MPI_DOUBLE_INT, &was, 1, MPI_DOUBLE_INT, 0, at(&w, 0, 8), 1, MPI_DOUBLE_INT, MPI_MAXLOC,
			   w.win);
	MPI_Win_flush(0, w.win);
	CHECK(was.v >= 0 && was.v < np);
	MPI_Raccumulate(d, 4, MPI_DOUBLE, 0, at(&w, 0, 0), 4, MPI_DOUBLE, MPI_SUM, w.win, &req[0]);
	MPI_Rget_accumulate(d, 4, MPI_DOUBLE, old, 4, MPI_DOUBLE, 0, at(&w, 0, 0), 4, MPI_DOUBLE, MPI_SUM, w.win, &req[1]);
	MPI_Waitall(2, req, MPI_STATUSES_IGNORE);
	CHECK(old[3] >= 84 && old[3] <= 4. * 22 * np);
	MPI_Win_unlock_all(w.win);
	MPI_Barrier(MPI_COMM_WORLD);
	if (!me) {
		MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, w.win);
		MPI_Get(old, 4, MPI_DOUBLE, 0, at(&w, 0, 0), 4, MPI_DOUBLE, w.win);
		MPI_Get(&was, 1, MPI_DOUBLE_INT, 0, at(&w, 0, 8), 1, MPI_DOUBLE_INT, w.win);
		MPI_Win_unlock(0, w.win);
		for (int i = 0; i < 4; i++)
			CHECK_EQ(old[i], (i + 1) * 22 * np);
		if (np > 1 && np != 7)
			CHECK_EQ(was.v, np - 1);
	}
	window_free(f, &w);
}

static void groups(enum flavor f)
{
	struct window w = window_make(f, true);
	int right = (me + 1) % np, left = (me + np - 1) % np, flag = 0;
	MPI_Group all, from, to;
	long out = 90 + me;

	MPI_Win_get_group(w.win, &all);
	MPI_Group_incl(all, 1, &left, &from);
	MPI_Group_incl(all, 1, &right, &to);
	for (int i = 0; i < 5; i++) {
		MPI_Win_post(from, 0, w.win);
		MPI_Win_start(to, 0, w.win);
		MPI_Put(&out, 1, MPI_LONG, right, at(&w, right, i), 1, MPI_LONG, w.win);
		MPI_Win_complete(w.win);
		if (i & 1)
			MPI_Win_wait(w.win);
		for (flag = i & 1; !flag;)
			MPI_Win_test(w.win, &flag);
		CHECK_EQ(w.mem[i], 90 + left);
	}
	MPI_Group_free(&all);
	MPI_Group_free(&from);
	MPI_Group_free(&to);
	window_free(f, &w);
}

static void requests(enum flavor f)
{
	struct window w = window_make(f, true);
	int right = (me + 1) % np;
	long out = 33 + me, in = 0;
	MPI_Request req[2];

	MPI_Win_lock_all(0, w.win);
	MPI_Rput(&out, 1, MPI_LONG, right, at(&w, right, 9), 1, MPI_LONG, w.win, &req[0]);
	MPI_Wait(&req[0], MPI_STATUS_IGNORE);
	MPI_Win_flush(right, w.win);
	MPI_Rget(&in, 1, MPI_LONG, right, at(&w, right, 9), 1, MPI_LONG, w.win, &req[1]);
	MPI_Waitall(1, &req[1], MPI_STATUSES_IGNORE);
	CHECK_EQ(in, out);
	MPI_Put(&out, 1, MPI_LONG, MPI_PROC_NULL, 0, 1, MPI_LONG, w.win);
	MPI_Win_unlock_all(w.win);
	window_free(f, &w);
}

static int keyval_gone;
static int on_delete(MPI_Win win, int keyval, void *value, void *extra)
{
	(void)win;
	(void)keyval;
	(void)extra;
	keyval_gone += value == &keyval_gone;
	return MPI_SUCCESS;
}

static int class_of(int rc)
{
	int class = -1;

	MPI_Error_class(rc, &class);
	return class;
}

static void objects(enum flavor f)
{
	struct window w = window_make(f, true);
	int flag, key, len, unit, *flavor, *model;
	char name[MPI_MAX_OBJECT_NAME];
	MPI_Errhandler eh;
	MPI_Info info;
	MPI_Aint size;
	long *p, x = 0;

	MPI_Win_get_attr(w.win, MPI_WIN_BASE, &p, &flag);
	CHECK(flag && p == (f == DYNAMIC ? NULL : w.mem));
	MPI_Win_get_attr(w.win, MPI_WIN_CREATE_FLAVOR, &flavor, &flag);
	CHECK(flag && *flavor == flavors[f]);
	MPI_Win_get_attr(w.win, MPI_WIN_MODEL, &model, &flag);
	CHECK(flag && *model == MPI_WIN_UNIFIED);
	MPI_Win_create_keyval(MPI_WIN_NULL_COPY_FN, on_delete, &key, NULL);
	MPI_Win_set_attr(w.win, key, &keyval_gone);
	MPI_Win_get_attr(w.win, key, &p, &flag);
	CHECK(flag && (void *)p == &keyval_gone);
	MPI_Win_free_keyval(&key);
	MPI_Win_set_name(w.win, "smoke");
	MPI_Win_get_name(w.win, name, &len);
	CHECK(!strcmp(name, "smoke") && len == 5);
	MPI_Win_get_info(w.win, &info);
	MPI_Win_set_info(w.win, info);
	MPI_Info_free(&info);
	MPI_Win_shared_query(w.win, 0, &size, &unit, &p);
	if (f == SHARED) {
		CHECK(size == N * sizeof(long) && unit == sizeof(long));
		CHECK_EQ(p[5], 5);
	}
	CHECK(MPI_Win_fromint(MPI_Win_toint(w.win)) == w.win);
	MPI_Win_set_errhandler(w.win, MPI_ERRORS_RETURN);
	MPI_Win_get_errhandler(w.win, &eh);
	CHECK(eh == MPI_ERRORS_RETURN);
	CHECK_EQ(class_of(MPI_Put(&x, 1, MPI_LONG, 0, at(&w, 0, 0), 1, MPI_LONG, w.win)), MPI_ERR_RMA_SYNC);
	CHECK_EQ(class_of(MPI_Win_unlock(0, w.win)), MPI_ERR_RMA_SYNC);
	CHECK_EQ(class_of(MPI_Win_lock(0, 0, 0, w.win)), MPI_ERR_LOCKTYPE);
	CHECK_EQ(class_of(MPI_Win_fence(1, w.win)), MPI_ERR_ASSERT);
	CHECK_EQ(class_of(MPI_Win_complete(w.win)), MPI_ERR_RMA_SYNC);
	MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, w.win);
	CHECK_EQ(class_of(MPI_Put(&x, 1, MPI_LONG, np, at(&w, 0, 0), 1, MPI_LONG, w.win)), MPI_ERR_RANK);
	if (f != DYNAMIC)
		CHECK_EQ(class_of(MPI_Put(&x, 1, MPI_LONG, 0, N, 1, MPI_LONG, w.win)), MPI_ERR_RMA_RANGE);
	MPI_Win_unlock(0, w.win);
	window_free(f, &w);
	CHECK_EQ(keyval_gone, 1);
	keyval_gone = 0;
}

/* More windows than any table has room for; windows without memory. */
static void many(void)
{
	enum { M = 100 };
	MPI_Win win[M];
	char *p;

	for (int i = 0; i < M; i++)
		MPI_Win_allocate(i % 3 ? 100 : 0, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &p, &win[i]);
	for (int i = 0; i < M; i++) {
		MPI_Win_fence(0, win[i]);
		MPI_Put(NULL, 0, MPI_BYTE, 0, 0, 0, MPI_BYTE, win[i]);
		MPI_Win_fence(0, win[i]);
		MPI_Win_free(&win[i]);
	}
}

/* Memory of MPI_Alloc_mem in MPI_Win_create, from its middle on; every second rank has memory of malloc. Where ranks share
 * memory, that of MPI_Alloc_mem is mapped. */
static void allocated(void)
{
	const char *behave = getenv("SHCA_BEHAVE");
	long *mem, *base, one = 1, x = 100 + me, got = 0;
	int right = (me + 1) % np, unit;
	MPI_Aint size;
	MPI_Win win;

	if (me % 2)
		mem = malloc(2 * N * sizeof(long));
	else
		MPI_Alloc_mem(2 * N * sizeof(long), MPI_INFO_NULL, &mem);
	memset(mem, 0, 2 * N * sizeof(long));
	MPI_Win_create(mem + N, N * sizeof(long), sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &win);
	for (int r = 0; r < np; r += 2) {
		MPI_Win_shared_query(win, r, &size, &unit, &base);
		if (!behave || !strstr(behave, "noarena"))
			CHECK(base && size == N * (MPI_Aint)sizeof(long) && unit == (int)sizeof(long));
	}
	MPI_Win_fence(0, win);
	MPI_Put(&x, 1, MPI_LONG, right, 3, 1, MPI_LONG, win);
	for (int r = 0; r < np; r++)
		MPI_Accumulate(&one, 1, MPI_LONG, r, 5, 1, MPI_LONG, MPI_SUM, win);
	MPI_Win_fence(0, win);
	CHECK_EQ(mem[N + 3], 100 + (me + np - 1) % np);
	CHECK_EQ(mem[N + 5], np);
	MPI_Get(&got, 1, MPI_LONG, right, 3, 1, MPI_LONG, win);
	MPI_Win_fence(0, win);
	CHECK_EQ(got, 100 + me);
	MPI_Win_free(&win);
	if (me % 2)
		free(mem);
	else
		MPI_Free_mem(mem);
}

int main(int argc, char **argv)
{
	test_init(&argc, &argv);
	for (int f = 0; f < FLAVORS; f++) {
		void (*const all[])(enum flavor) = { fences, types, locks, accumulates, groups, requests, objects };
		for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
			if (getenv("RMA_SMOKE_VERBOSE") && !me)
				fprintf(stderr, "%s %zu\n", names[f], i);
			all[i](f);
		}
	}
	many();
	allocated();
	MPI_Comm_free(&sync_comm);
	MPI_Finalize();
	if (!me)
		puts("ok");
	return 0;
}
