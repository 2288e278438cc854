/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Wrong use of one-sided communication (MPI-5.0, section 12.6): each wrong call ends with its error class and changes nothing,
 * and the window goes on. The standard leaves it open which mistakes a library notices: another MPI may pass over some.
 */
#include "rma_test.h"

#include <sys/mman.h>

static int right, left;
static struct window w;
static int64_t a = 1, b = 2, c = 3;

/* The call on a window fails with that class. */
#define REFUSED(call, class) \
	do { \
		int rc_ = (call); \
		CHECK_EQ(class_of(rc_), class); \
	} while (0)

static void window_open(enum flavour f)
{
	window_new(&w, f, 64, 8, MPI_INFO_NULL, WORLD);
	MPI_Win_set_errhandler(w.win, MPI_ERRORS_RETURN);
	own_begin(&w);
	memset(w.mem, 0, 64);
	own_end(&w);
	meet(WORLD);
}

/* The window is as good as new. */
static void window_close(void)
{
	int64_t value = me;

	CHECK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, right, 0, w.win) == MPI_SUCCESS);
	CHECK(MPI_Put(&value, 1, MPI_INT64_T, right, disp(&w, right, 8), 1, MPI_INT64_T, w.win) == MPI_SUCCESS);
	CHECK(MPI_Win_unlock(right, w.win) == MPI_SUCCESS);
	meet(WORLD);
	own_begin(&w);
	CHECK_EQ(((int64_t *)(void *)w.mem)[1], left);
	CHECK_EQ(((int64_t *)(void *)w.mem)[0], 0);	/* where all that was refused would have written */
	own_end(&w);
	meet(WORLD);
	window_free(&w);
}

static void each_flavour(void (*run)(void))
{
	for (int f = 0; f < FLAVOURS; f++) {
		if (!flavour_possible(f))
			continue;
		window_open(f);
		run();
		meet(WORLD);
		window_close();
	}
}

/* ---- arguments of creation: the communicator's error handler -------------------------------------------------------- */

/* One member's argument is refused: all members fail with that class, and none waits. */
static void one_refused(void)
{
	bool wrong = me == np / 2;
	char mem[64], *p;
	MPI_Info info;
	MPI_Win win;

	FAILS(MPI_Win_create(mem, wrong ? -1 : 64, 1, MPI_INFO_NULL, WORLD, &win), MPI_ERR_SIZE);
	FAILS(MPI_Win_create(mem, 64, wrong ? 0 : 8, MPI_INFO_NULL, WORLD, &win), MPI_ERR_DISP);
	FAILS(MPI_Win_create(wrong ? NULL : mem, 64, 8, MPI_INFO_NULL, WORLD, &win), MPI_ERR_BASE);
	FAILS(MPI_Win_allocate(64, wrong ? -8 : 8, MPI_INFO_NULL, WORLD, &p, &win), MPI_ERR_DISP);
	MPI_Info_create(&info);
	MPI_Info_set(info, "mpi_minimum_memory_alignment", wrong ? "48" : "64");
	FAILS(MPI_Win_allocate(64, 8, info, WORLD, &p, &win), MPI_ERR_INFO_VALUE);
	if (flavour_possible(SHARED)) {
		FAILS(MPI_Win_allocate_shared(wrong ? -1 : 64, 1, MPI_INFO_NULL, WORLD, &p, &win), MPI_ERR_SIZE);
		FAILS(MPI_Win_allocate_shared(64, 8, info, WORLD, &p, &win), MPI_ERR_INFO_VALUE);
	}
	MPI_Info_free(&info);
}

/* The key mpi_minimum_memory_alignment (sections 12.2.2, 12.2.3): memory has that alignment, or there is no window. 2^40 bytes:
 * no memory is so aligned by chance. */
static void alignment(void)
{
	MPI_Info info;
	MPI_Win win;
	char *p;

	MPI_Info_create(&info);
	MPI_Info_set(info, "alloc_shared_noncontig", "true");
	for (int shared = 0; shared <= flavour_possible(SHARED); shared++) {
		MPI_Info_set(info, "mpi_minimum_memory_alignment", "4096");
		if (shared)
			MPI_Win_allocate_shared(100, 1, info, WORLD, &p, &win);
		else
			MPI_Win_allocate(100, 1, info, WORLD, &p, &win);
		CHECK(!((uintptr_t)p & 4095));
		MPI_Win_free(&win);
		MPI_Info_set(info, "mpi_minimum_memory_alignment", "1099511627776");
		if (shared)
			FAILS(MPI_Win_allocate_shared(me == np / 2 ? 100 : 0, 1, info, WORLD, &p, &win), MPI_ERR_NO_MEM);
		else
			FAILS(MPI_Win_allocate(me == np / 2 ? 100 : 0, 1, info, WORLD, &p, &win), MPI_ERR_NO_MEM);
	}
	MPI_Info_free(&info);
}

static void creation(void)
{
	MPI_Comm inter, half;
	char mem[64], *p;
	MPI_Win win;

	FAILS(MPI_Win_create(mem, -1, 1, MPI_INFO_NULL, WORLD, &win), MPI_ERR_SIZE);
	FAILS(MPI_Win_create(mem, 64, 0, MPI_INFO_NULL, WORLD, &win), MPI_ERR_DISP);
	FAILS(MPI_Win_allocate(-1, 1, MPI_INFO_NULL, WORLD, &p, &win), MPI_ERR_SIZE);
	FAILS(MPI_Win_allocate(64, -3, MPI_INFO_NULL, WORLD, &p, &win), MPI_ERR_DISP);
	FAILS(MPI_Win_allocate_shared(-5, 1, MPI_INFO_NULL, WORLD, &p, &win), MPI_ERR_SIZE);
	FAILS(MPI_Win_allocate_shared(64, 0, MPI_INFO_NULL, WORLD, &p, &win), MPI_ERR_DISP);
	FAILS(MPI_Win_create(mem, 64, 1, MPI_INFO_NULL, MPI_COMM_NULL, &win), MPI_ERR_COMM);
	FAILS(MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_NULL, &win), MPI_ERR_COMM);
	if (np > 1) {
		MPI_Comm_split(WORLD, me % 2, me, &half);
		MPI_Intercomm_create(half, 0, WORLD, 1 - me % 2, 1, &inter);
		MPI_Comm_set_errhandler(inter, MPI_ERRORS_RETURN);
		REFUSED(MPI_Win_create(mem, 64, 1, MPI_INFO_NULL, inter, &win), MPI_ERR_COMM);
		REFUSED(MPI_Win_allocate(64, 1, MPI_INFO_NULL, inter, &p, &win), MPI_ERR_COMM);
		REFUSED(MPI_Win_allocate_shared(64, 1, MPI_INFO_NULL, inter, &p, &win), MPI_ERR_COMM);
		REFUSED(MPI_Win_create_dynamic(MPI_INFO_NULL, inter, &win), MPI_ERR_COMM);
		MPI_Comm_free(&inter);
		MPI_Comm_free(&half);
	}
	/* More memory than any machine has: on every rank alike, and on one alone. */
	FAILS(MPI_Win_allocate((MPI_Aint)1 << 52, 1, MPI_INFO_NULL, WORLD, &p, &win), MPI_ERR_NO_MEM);
	FAILS(MPI_Win_allocate(me == np / 2 ? (MPI_Aint)1 << 52 : 64, 1, MPI_INFO_NULL, WORLD, &p, &win), MPI_ERR_NO_MEM);
	if (flavour_possible(SHARED))
		FAILS(MPI_Win_allocate_shared((MPI_Aint)1 << 52, 1, MPI_INFO_NULL, WORLD, &p, &win), MPI_ERR_NO_MEM);
	else
		FAILS(MPI_Win_allocate_shared(64, 1, MPI_INFO_NULL, WORLD, &p, &win), MPI_ERR_RMA_SHARED);
}

/* ---- arguments of operations ------------------------------------------------------------------------------------------ */

static void mul(void *in, void *out, int *len, MPI_Datatype *type)
{
	(void)in;
	(void)out;
	(void)len;
	(void)type;
}

static void arguments_of(void)
{
	const MPI_Aint at = disp(&w, right, 0);
	MPI_Datatype open, two_kinds, types[2] = { MPI_INT64_T, MPI_DOUBLE };
	MPI_Op own;

	MPI_Type_contiguous(2, MPI_INT, &open);		/* never committed */
	MPI_Type_create_struct(2, (int[]){ 1, 1 }, (MPI_Aint[]){ 0, 8 }, types, &two_kinds);
	MPI_Type_commit(&two_kinds);
	MPI_Op_create(mul, 1, &own);
	CHECK(MPI_Win_lock_all(0, w.win) == MPI_SUCCESS);
	REFUSED(MPI_Put(&a, 1, MPI_INT64_T, np, at, 1, MPI_INT64_T, w.win), MPI_ERR_RANK);
	REFUSED(MPI_Put(&a, 1, MPI_INT64_T, -17, at, 1, MPI_INT64_T, w.win), MPI_ERR_RANK);
	REFUSED(MPI_Get(&b, 1, MPI_INT64_T, np + 3, at, 1, MPI_INT64_T, w.win), MPI_ERR_RANK);
	REFUSED(MPI_Put(&a, -1, MPI_INT64_T, right, at, 1, MPI_INT64_T, w.win), MPI_ERR_COUNT);
	REFUSED(MPI_Put(&a, 1, MPI_INT64_T, right, at, -1, MPI_INT64_T, w.win), MPI_ERR_COUNT);
	REFUSED(MPI_Put(&a, 1, MPI_DATATYPE_NULL, right, at, 1, MPI_INT64_T, w.win), MPI_ERR_TYPE);
	REFUSED(MPI_Put(&a, 1, MPI_INT64_T, right, at, 1, open, w.win), MPI_ERR_TYPE);
	REFUSED(MPI_Get(&b, 1, open, right, at, 1, MPI_INT64_T, w.win), MPI_ERR_TYPE);
	REFUSED(MPI_Accumulate(&a, 1, MPI_INT64_T, right, at, 1, MPI_INT64_T, MPI_OP_NULL, w.win), MPI_ERR_OP);
	REFUSED(MPI_Accumulate(&a, 1, MPI_INT64_T, right, at, 1, MPI_INT64_T, own, w.win), MPI_ERR_OP);
	REFUSED(MPI_Accumulate(&a, 1, MPI_DOUBLE, right, at, 1, MPI_DOUBLE, MPI_BAND, w.win), MPI_ERR_OP);
	REFUSED(MPI_Accumulate(&a, 1, MPI_INT64_T, right, at, 1, MPI_INT64_T, MPI_MAXLOC, w.win), MPI_ERR_OP);
	REFUSED(MPI_Get_accumulate(&a, 1, MPI_INT64_T, &b, 1, MPI_INT64_T, right, at, 1, MPI_INT64_T, own, w.win), MPI_ERR_OP);
	REFUSED(MPI_Fetch_and_op(&a, &b, MPI_INT64_T, right, at, own, w.win), MPI_ERR_OP);
	REFUSED(MPI_Fetch_and_op(&a, &b, two_kinds, right, at, MPI_REPLACE, w.win), MPI_ERR_TYPE);
	REFUSED(MPI_Accumulate(&a, 1, two_kinds, right, at, 1, two_kinds, MPI_SUM, w.win), MPI_ERR_TYPE);
	REFUSED(MPI_Compare_and_swap(&a, &c, &b, MPI_DOUBLE, right, at, w.win), MPI_ERR_TYPE);
	REFUSED(MPI_Compare_and_swap(&a, &c, &b, two_kinds, right, at, w.win), MPI_ERR_TYPE);
	REFUSED(MPI_Win_flush(np, w.win), MPI_ERR_RANK);
	REFUSED(MPI_Win_flush_local(-9, w.win), MPI_ERR_RANK);
	CHECK(MPI_Win_unlock_all(w.win) == MPI_SUCCESS);
	REFUSED(MPI_Win_lock(17, right, 0, w.win), MPI_ERR_LOCKTYPE);
	REFUSED(MPI_Win_lock(MPI_LOCK_SHARED, np, 0, w.win), MPI_ERR_RANK);
	REFUSED(MPI_Win_lock(MPI_LOCK_SHARED, right, 1 << 30, w.win), MPI_ERR_ASSERT);
	REFUSED(MPI_Win_lock_all(1 << 30, w.win), MPI_ERR_ASSERT);
	REFUSED(MPI_Win_fence(1 << 30, w.win), MPI_ERR_ASSERT);
	REFUSED(MPI_Win_post(MPI_GROUP_NULL, 0, w.win), MPI_ERR_GROUP);
	REFUSED(MPI_Win_start(MPI_GROUP_NULL, 0, w.win), MPI_ERR_GROUP);
	MPI_Type_free(&open);
	MPI_Type_free(&two_kinds);
	MPI_Op_free(&own);
	CHECK(a == 1 && b == 2 && c == 3);
}

static void arguments(void)
{
	each_flavour(arguments_of);
}

/* No window: the communicator self or world is blamed. */
static void no_window(void)
{
	MPI_Win none = MPI_WIN_NULL;
	MPI_Group group;
	char name[MPI_MAX_OBJECT_NAME];
	int n, flag;
	MPI_Info info;

	FAILS(MPI_Put(&a, 1, MPI_INT64_T, 0, 0, 1, MPI_INT64_T, none), MPI_ERR_WIN);
	FAILS(MPI_Get(&a, 1, MPI_INT64_T, 0, 0, 1, MPI_INT64_T, none), MPI_ERR_WIN);
	FAILS(MPI_Accumulate(&a, 1, MPI_INT64_T, 0, 0, 1, MPI_INT64_T, MPI_SUM, none), MPI_ERR_WIN);
	FAILS(MPI_Fetch_and_op(&a, &b, MPI_INT64_T, 0, 0, MPI_SUM, none), MPI_ERR_WIN);
	FAILS(MPI_Compare_and_swap(&a, &c, &b, MPI_INT64_T, 0, 0, none), MPI_ERR_WIN);
	FAILS(MPI_Win_fence(0, none), MPI_ERR_WIN);
	FAILS(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, none), MPI_ERR_WIN);
	FAILS(MPI_Win_unlock(0, none), MPI_ERR_WIN);
	FAILS(MPI_Win_lock_all(0, none), MPI_ERR_WIN);
	FAILS(MPI_Win_unlock_all(none), MPI_ERR_WIN);
	FAILS(MPI_Win_flush(0, none), MPI_ERR_WIN);
	FAILS(MPI_Win_flush_all(none), MPI_ERR_WIN);
	FAILS(MPI_Win_flush_local(0, none), MPI_ERR_WIN);
	FAILS(MPI_Win_flush_local_all(none), MPI_ERR_WIN);
	FAILS(MPI_Win_sync(none), MPI_ERR_WIN);
	FAILS(MPI_Win_post(MPI_GROUP_EMPTY, 0, none), MPI_ERR_WIN);
	FAILS(MPI_Win_start(MPI_GROUP_EMPTY, 0, none), MPI_ERR_WIN);
	FAILS(MPI_Win_complete(none), MPI_ERR_WIN);
	FAILS(MPI_Win_wait(none), MPI_ERR_WIN);
	FAILS(MPI_Win_test(none, &flag), MPI_ERR_WIN);
	FAILS(MPI_Win_attach(none, &a, 8), MPI_ERR_WIN);
	FAILS(MPI_Win_detach(none, &a), MPI_ERR_WIN);
	FAILS(MPI_Win_get_group(none, &group), MPI_ERR_WIN);
	FAILS(MPI_Win_get_info(none, &info), MPI_ERR_WIN);
	FAILS(MPI_Win_set_name(none, "x"), MPI_ERR_WIN);
	MPI_Win_get_name(none, name, &n);	/* the null handle has a name (section 7.8) */
	CHECK(!strcmp(name, "MPI_WIN_NULL") && n == 12);
	FAILS(MPI_Win_free(&none), MPI_ERR_WIN);
}

/* ---- 12.5: epochs ------------------------------------------------------------------------------------------------------- */

static void epochs_of(void)
{
	const MPI_Aint at = disp(&w, right, 0);
	MPI_Group self, none_yet;
	MPI_Request r;
	int flag;

	/* none is open */
	REFUSED(MPI_Put(&a, 1, MPI_INT64_T, right, at, 1, MPI_INT64_T, w.win), MPI_ERR_RMA_SYNC);
	REFUSED(MPI_Get(&b, 1, MPI_INT64_T, right, at, 1, MPI_INT64_T, w.win), MPI_ERR_RMA_SYNC);
	REFUSED(MPI_Accumulate(&a, 1, MPI_INT64_T, right, at, 1, MPI_INT64_T, MPI_SUM, w.win), MPI_ERR_RMA_SYNC);
	REFUSED(MPI_Get_accumulate(&a, 1, MPI_INT64_T, &b, 1, MPI_INT64_T, right, at, 1, MPI_INT64_T, MPI_SUM, w.win),
		MPI_ERR_RMA_SYNC);
	REFUSED(MPI_Fetch_and_op(&a, &b, MPI_INT64_T, right, at, MPI_SUM, w.win), MPI_ERR_RMA_SYNC);
	REFUSED(MPI_Compare_and_swap(&a, &c, &b, MPI_INT64_T, right, at, w.win), MPI_ERR_RMA_SYNC);
	REFUSED(MPI_Rput(&a, 1, MPI_INT64_T, right, at, 1, MPI_INT64_T, w.win, &r), MPI_ERR_RMA_SYNC);
	REFUSED(MPI_Win_unlock(right, w.win), MPI_ERR_RMA_SYNC);
	REFUSED(MPI_Win_unlock_all(w.win), MPI_ERR_RMA_SYNC);
	REFUSED(MPI_Win_flush(right, w.win), MPI_ERR_RMA_SYNC);
	REFUSED(MPI_Win_flush_all(w.win), MPI_ERR_RMA_SYNC);
	REFUSED(MPI_Win_flush_local(right, w.win), MPI_ERR_RMA_SYNC);
	REFUSED(MPI_Win_flush_local_all(w.win), MPI_ERR_RMA_SYNC);
	REFUSED(MPI_Win_complete(w.win), MPI_ERR_RMA_SYNC);
	REFUSED(MPI_Win_wait(w.win), MPI_ERR_RMA_SYNC);
	REFUSED(MPI_Win_test(w.win, &flag), MPI_ERR_RMA_SYNC);
	/* a lock is open */
	CHECK(MPI_Win_lock(MPI_LOCK_SHARED, right, 0, w.win) == MPI_SUCCESS);
	REFUSED(MPI_Win_lock(MPI_LOCK_SHARED, right, 0, w.win), MPI_ERR_RMA_SYNC);
	REFUSED(MPI_Win_lock_all(0, w.win), MPI_ERR_RMA_SYNC);
	REFUSED(MPI_Win_unlock_all(w.win), MPI_ERR_RMA_SYNC);
	REFUSED(MPI_Win_fence(0, w.win), MPI_ERR_RMA_SYNC);
	REFUSED(MPI_Win_start(MPI_GROUP_EMPTY, 0, w.win), MPI_ERR_RMA_SYNC);
	if (np > 1) {
		REFUSED(MPI_Put(&a, 1, MPI_INT64_T, me, disp(&w, me, 0), 1, MPI_INT64_T, w.win), MPI_ERR_RMA_SYNC);
		REFUSED(MPI_Win_flush(me, w.win), MPI_ERR_RMA_SYNC);
		REFUSED(MPI_Win_unlock(me, w.win), MPI_ERR_RMA_SYNC);
	}
	CHECK(MPI_Win_unlock(right, w.win) == MPI_SUCCESS);
	REFUSED(MPI_Win_unlock(right, w.win), MPI_ERR_RMA_SYNC);
	/* all locks are open */
	CHECK(MPI_Win_lock_all(0, w.win) == MPI_SUCCESS);
	REFUSED(MPI_Win_lock(MPI_LOCK_SHARED, right, 0, w.win), MPI_ERR_RMA_SYNC);
	REFUSED(MPI_Win_lock_all(0, w.win), MPI_ERR_RMA_SYNC);
	REFUSED(MPI_Win_unlock(right, w.win), MPI_ERR_RMA_SYNC);
	REFUSED(MPI_Win_fence(0, w.win), MPI_ERR_RMA_SYNC);
	CHECK(MPI_Win_unlock_all(w.win) == MPI_SUCCESS);
	meet(WORLD);
	/* exposed to itself and accessing itself alone */
	MPI_Win_get_group(w.win, &none_yet);
	MPI_Group_incl(none_yet, 1, &me, &self);
	MPI_Group_free(&none_yet);
	CHECK(MPI_Win_post(self, 0, w.win) == MPI_SUCCESS);
	REFUSED(MPI_Win_post(self, 0, w.win), MPI_ERR_RMA_SYNC);
	CHECK(MPI_Win_start(self, 0, w.win) == MPI_SUCCESS);
	REFUSED(MPI_Win_start(self, 0, w.win), MPI_ERR_RMA_SYNC);
	REFUSED(MPI_Win_lock(MPI_LOCK_SHARED, right, 0, w.win), MPI_ERR_RMA_SYNC);
	REFUSED(MPI_Win_flush(me, w.win), MPI_ERR_RMA_SYNC);
	REFUSED(MPI_Rput(&a, 1, MPI_INT64_T, me, disp(&w, me, 0), 1, MPI_INT64_T, w.win, &r), MPI_ERR_RMA_SYNC);
	if (np > 1)
		REFUSED(MPI_Put(&a, 1, MPI_INT64_T, right, at, 1, MPI_INT64_T, w.win), MPI_ERR_RMA_SYNC);
	CHECK(MPI_Win_complete(w.win) == MPI_SUCCESS);
	REFUSED(MPI_Win_complete(w.win), MPI_ERR_RMA_SYNC);
	CHECK(MPI_Win_wait(w.win) == MPI_SUCCESS);
	REFUSED(MPI_Win_wait(w.win), MPI_ERR_RMA_SYNC);
	MPI_Group_free(&self);
	CHECK(a == 1 && b == 2 && c == 3);
}

static void epochs(void)
{
	each_flavour(epochs_of);
}

/* ---- 12.2, 12.6.2: places ---------------------------------------------------------------------------------------- */

static void ranges_of(void)
{
	const bool dynamic = w.flavour == DYNAMIC;
	const MPI_Aint first = disp(&w, right, 0), end = dynamic ? MPI_Aint_add(first, 64) : 8, unit = dynamic ? 8 : 1;
	MPI_Datatype back, far;
	int64_t nine[9] = { 0 }, got[9];

	MPI_Type_create_hindexed(1, (int[]){ 1 }, (MPI_Aint[]){ -8 }, MPI_INT64_T, &back);
	MPI_Type_commit(&back);
	MPI_Type_create_hindexed(2, (int[]){ 1, 1 }, (MPI_Aint[]){ 0, 64 }, MPI_INT64_T, &far);
	MPI_Type_commit(&far);
	CHECK(MPI_Win_lock_all(0, w.win) == MPI_SUCCESS);
	REFUSED(MPI_Put(&a, 1, MPI_INT64_T, right, end, 1, MPI_INT64_T, w.win), MPI_ERR_RMA_RANGE);
	REFUSED(MPI_Get(got, 9, MPI_INT64_T, right, first, 9, MPI_INT64_T, w.win), MPI_ERR_RMA_RANGE);
	REFUSED(MPI_Put(nine, 2, MPI_INT64_T, right, end - unit, 2, MPI_INT64_T, w.win), MPI_ERR_RMA_RANGE);
	REFUSED(MPI_Put(&a, 1, MPI_INT64_T, right, first, 1, back, w.win), MPI_ERR_RMA_RANGE);
	REFUSED(MPI_Put(nine, 2, MPI_INT64_T, right, first, 1, far, w.win), MPI_ERR_RMA_RANGE);
	REFUSED(MPI_Accumulate(&a, 1, MPI_INT64_T, right, end, 1, MPI_INT64_T, MPI_SUM, w.win), MPI_ERR_RMA_RANGE);
	REFUSED(MPI_Get_accumulate(&a, 1, MPI_INT64_T, got, 1, MPI_INT64_T, right, end, 1, MPI_INT64_T, MPI_SUM, w.win),
		MPI_ERR_RMA_RANGE);
	REFUSED(MPI_Fetch_and_op(&a, got, MPI_INT64_T, right, end, MPI_SUM, w.win), MPI_ERR_RMA_RANGE);
	REFUSED(MPI_Compare_and_swap(&a, &c, got, MPI_INT64_T, right, end, w.win), MPI_ERR_RMA_RANGE);
	if (!dynamic) {
		/* beyond the addresses of a process; a sum that overflows */
		REFUSED(MPI_Put(&a, 1, MPI_INT64_T, right, (MPI_Aint)1 << 60, 1, MPI_INT64_T, w.win), MPI_ERR_RMA_RANGE);
		REFUSED(MPI_Put(&a, 1, MPI_INT64_T, right, INT64_MAX, 1, MPI_INT64_T, w.win), MPI_ERR_RMA_RANGE);
	}
	/* at the edges all is well */
	CHECK(MPI_Get(got, 1, MPI_INT64_T, right, end, 1, back, w.win) == MPI_SUCCESS);
	CHECK(MPI_Get(got, 1, MPI_INT64_T, right, end - unit, 1, MPI_INT64_T, w.win) == MPI_SUCCESS);
	CHECK(MPI_Win_unlock_all(w.win) == MPI_SUCCESS);
	MPI_Type_free(&back);
	MPI_Type_free(&far);
}

static void ranges(void)
{
	each_flavour(ranges_of);
}

/* Attaching is for dynamic windows, each byte once; a detached region is out of range. */
static void attaching(void)
{
	int64_t mem[16] = { 0 };
	MPI_Aint size;
	int unit, *p, rc;
	MPI_Win win;

	for (int f = CREATE; f <= SHARED; f++) {
		if (!flavour_possible(f))
			continue;
		window_open(f);
		REFUSED(MPI_Win_attach(w.win, mem, 8), MPI_ERR_RMA_FLAVOR);
		REFUSED(MPI_Win_detach(w.win, mem), MPI_ERR_RMA_FLAVOR);
		window_close();
	}
	MPI_Win_create_dynamic(MPI_INFO_NULL, WORLD, &win);
	MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
	rc = MPI_Win_shared_query(win, 0, &size, &unit, &p);	/* refused, or none that is shared */
	CHECK(class_of(rc) == MPI_ERR_RMA_FLAVOR || (rc == MPI_SUCCESS && size == 0));
	REFUSED(MPI_Win_attach(win, mem, -8), MPI_ERR_SIZE);
	CHECK(MPI_Win_attach(win, mem + 4, 64) == MPI_SUCCESS);
	REFUSED(MPI_Win_attach(win, mem, 40), MPI_ERR_RMA_ATTACH);
	REFUSED(MPI_Win_attach(win, mem + 6, 8), MPI_ERR_RMA_ATTACH);
	REFUSED(MPI_Win_attach(win, mem + 4, 64), MPI_ERR_RMA_ATTACH);
	REFUSED(MPI_Win_detach(win, mem + 5), MPI_ERR_RMA_ATTACH);
	CHECK(MPI_Win_attach(win, mem + 6, 0) == MPI_SUCCESS);	/* no byte of it is another's */
	CHECK(MPI_Win_detach(win, mem + 6) == MPI_SUCCESS);
	CHECK(MPI_Win_attach(win, mem, 32) == MPI_SUCCESS);
	CHECK(MPI_Win_detach(win, mem) == MPI_SUCCESS);
	REFUSED(MPI_Win_detach(win, mem), MPI_ERR_RMA_ATTACH);
	{
		MPI_Aint mine, theirs;

		MPI_Get_address(mem, &mine);
		MPI_Sendrecv(&mine, 1, MPI_AINT, left, 1, &theirs, 1, MPI_AINT, right, 1, WORLD, MPI_STATUS_IGNORE);
		MPI_Win_lock_all(0, win);
		REFUSED(MPI_Put(&a, 1, MPI_INT64_T, right, theirs, 1, MPI_INT64_T, win), MPI_ERR_RMA_RANGE);
		CHECK(MPI_Put(&a, 1, MPI_INT64_T, right, MPI_Aint_add(theirs, 32), 1, MPI_INT64_T, win) == MPI_SUCCESS);
		MPI_Win_unlock_all(win);
		meet(WORLD);
		CHECK(mem[4] == 1 && mem[0] == 0);
	}
	MPI_Win_free(&win);
}

static void attributes(void)
{
	void *value;
	int flag, comm_key;
	int key = MPI_KEYVAL_INVALID;

	window_open(CREATE);
	CHECK(MPI_Win_set_attr(w.win, MPI_WIN_BASE, &a) != MPI_SUCCESS);
	CHECK(MPI_Win_delete_attr(w.win, MPI_WIN_SIZE) != MPI_SUCCESS);
	REFUSED(MPI_Win_get_attr(w.win, key, &value, &flag), MPI_ERR_KEYVAL);
	REFUSED(MPI_Win_set_attr(w.win, key, &a), MPI_ERR_KEYVAL);
	MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &comm_key, NULL);
	REFUSED(MPI_Win_set_attr(w.win, comm_key, &a), MPI_ERR_KEYVAL);	/* another kind's key */
	MPI_Comm_free_keyval(&comm_key);
	window_close();
}

/* ---- memory that cannot be reached ------------------------------------------------------------------------------------- */

#define PAGE 4096

/* The last `bytes` of a page that a page without rights follows. */
static char *page_end(size_t bytes)
{
	char *m = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (m == MAP_FAILED || mprotect(m + PAGE, PAGE, PROT_NONE))
		exit(2);
	return m + PAGE - bytes;
}

/* An element with padding behind its last member: only bytes of the type map are read and written, at the origin, of the
 * result, and at the target. */
static void pair_at_page_end(void)
{
	struct { double value; int index; } in = { 7, me }, out = { 0, -1 }, now = { 9, 99 };
	size_t bytes = offsetof(__typeof__(in), index) + sizeof(int);
	char *mem = page_end(bytes), *origin = page_end(bytes), *result = page_end(bytes);
	MPI_Win win;

	memcpy(mem, &now, bytes);
	memcpy(origin, &in, bytes);
	MPI_Win_create(mem, (MPI_Aint)bytes, 1, MPI_INFO_NULL, WORLD, &win);
	for (int i = 0; i < 3; i++) {
		MPI_Win_lock(MPI_LOCK_EXCLUSIVE, right, 0, win);
		if (i == 0)
			MPI_Accumulate(origin, 1, MPI_DOUBLE_INT, right, 0, 1, MPI_DOUBLE_INT, MPI_MINLOC, win);
		else if (i == 1)
			MPI_Get_accumulate(origin, 1, MPI_DOUBLE_INT, result, 1, MPI_DOUBLE_INT, right, 0, 1, MPI_DOUBLE_INT,
					   MPI_MINLOC, win);
		else
			MPI_Fetch_and_op(origin, result, MPI_DOUBLE_INT, right, 0, MPI_MINLOC, win);
		MPI_Win_unlock(right, win);
		memcpy(&out, result, bytes);
		CHECK(!i || (out.value == 7 && out.index == me));
	}
	MPI_Win_free(&win);
	memcpy(&now, mem, bytes);
	CHECK(now.value == 7 && now.index == left);
}

/* Memory of a target with pages that may not be accessed: the operation fails at the origin, the owner and the window go on. */
static void target_protected(void)
{
	char *mem = page_end(PAGE);
	int64_t got = 0;
	MPI_Win win;

	MPI_Win_create(mem, PAGE, 1, MPI_INFO_NULL, WORLD, &win);
	MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
	if (mprotect(mem, PAGE, PROT_NONE))
		exit(2);
	meet(WORLD);
	for (int i = 0; i < 4 && right != me; i++) {	/* one's own memory is a signal */
		int rc;

		MPI_Win_lock(MPI_LOCK_SHARED, right, 0, win);
		rc = i == 0 ? MPI_Put(&a, 1, MPI_INT64_T, right, 8, 1, MPI_INT64_T, win) :
		     i == 1 ? MPI_Get(&got, 1, MPI_INT64_T, right, 8, 1, MPI_INT64_T, win) :
		     i == 2 ? MPI_Accumulate(&a, 1, MPI_INT64_T, right, 8, 1, MPI_INT64_T, MPI_SUM, win) :
			      MPI_Get_accumulate(&a, 1, MPI_INT64_T, &got, 1, MPI_INT64_T, right, 8, 1, MPI_INT64_T, MPI_SUM,
						 win);
		if (!rc)
			rc = MPI_Win_flush(right, win);
		CHECK_EQ(class_of(rc), MPI_ERR_RMA_RANGE);
		MPI_Win_unlock(right, win);
	}
	meet(WORLD);
	mprotect(mem, PAGE, PROT_READ | PROT_WRITE);
	meet(WORLD);
	MPI_Win_lock(MPI_LOCK_SHARED, right, 0, win);
	CHECK(MPI_Accumulate(&a, 1, MPI_INT64_T, right, 8, 1, MPI_INT64_T, MPI_SUM, win) == MPI_SUCCESS);
	CHECK(MPI_Win_unlock(right, win) == MPI_SUCCESS);
	MPI_Win_free(&win);
	memcpy(&got, mem + 8, sizeof(got));
	CHECK_EQ(got, a);
}

static const struct standard_case cases[] = {
	{ "12.6.2", "creation", 1, creation },
	{ "12.6.2", "one_refused", 1, one_refused },
	{ "12.2.2", "alignment", 1, alignment },
	{ "12.6.2", "arguments", 1, arguments },
	{ "12.6.2", "no_window", 1, no_window },
	{ "12.6.2", "epochs", 1, epochs },
	{ "12.6.2", "ranges", 1, ranges },
	{ "12.6.2", "attaching", 1, attaching },
	{ "7.7.3", "attributes", 1, attributes },
	{ "12.3.4", "pair_at_page_end", 1, pair_at_page_end },
	{ "12.6.2", "target_protected", 1, target_protected },
};

int main(int argc, char **argv)
{
	test_init(&argc, &argv);
	right = (me + 1) % np;
	left = (me + np - 1) % np;
	standard_run(cases, sizeof(cases) / sizeof(*cases), argc, argv);
	test_done("errors");
	return 0;
}
