/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A member of a window is killed: every operation on that member and every synchronization with that member ends with
 * MPI_ERR_PROC_ABORTED, none hangs, and the survivors go on with each other in the same window. To be run with heddlerun
 * --on-death=continue.
 *
 *     rma_member_dies RANK FLAVOUR WHAT FILE [MICROSECONDS]     FILE: see survivors.h
 *     rma_member_dies_at RANK FLAVOUR WHAT FILE POINT           WHAT: random, or within: all ranks accumulate at the lowest
 *                                                               survivor. The rank is killed at the third pass of this failpoint
 *                                                               (src/rma/failpoint.h)
 *
 * WHAT: put, get, accumulate, fetch_and_op, compare_and_swap, lock (the dead rank's own), holder (the dead rank held an exclusive
 * lock at the lowest survivor), flush, start (the dead rank has not posted), wait (the dead rank has not completed), fence,
 * freed (the lowest survivor has freed the window, while the other survivors go on to lock it and to accumulate there), groups
 * (the lowest survivor posts to, and then starts, a group of the dead rank and of survivors: their epochs end as usual), random
 * (traffic of all kinds, and the rank is killed after so many microseconds). Each survivor prints a line; the job's exit code is
 * the launcher's for a killed rank.
 */
#include "survivors.h"	/* before the header with the global `me` */

#include "rma_test.h"

static const char *const names[] = {"put",   "get",   "accumulate", "fetch_and_op", "compare_and_swap", "lock",  "holder",
				    "flush", "start", "wait",       "fence",        "freed",            "groups",
				    "random", "within"};
enum { PUT, GET, ACCUMULATE, FETCH_AND_OP, COMPARE_AND_SWAP, OWN_LOCK, HOLDER, FLUSH, START, WAIT, WHOLE_FENCE, FREED, GROUPS,
       RANDOM, WITHIN, WHATS };

static struct window w;
static int dead, what, first;	/* first: the lowest survivor */
static int *seen;
static int64_t a = 1, b;

static void must(int rc, const char *call)
{
	if (rc)
		survivors_fail(me, call, rc);
}
#define MUST(call)	must(call, #call)

static void survivors_meet(int *count)
{
	if (me != dead)
		survivors_count(count);
	survivors_await(count, np - 1, 60, true);
}

static int operate(int op, int target)
{
	const MPI_Aint at = disp(&w, target, 8 * me);

	switch (op) {
	case PUT: return MPI_Put(&a, 1, MPI_INT64_T, target, at, 1, MPI_INT64_T, w.win);
	case GET: return MPI_Get(&b, 1, MPI_INT64_T, target, at, 1, MPI_INT64_T, w.win);
	case ACCUMULATE: return MPI_Accumulate(&a, 1, MPI_INT64_T, target, disp(&w, target, 0), 1, MPI_INT64_T, MPI_SUM, w.win);
	case FETCH_AND_OP: return MPI_Fetch_and_op(&a, &b, MPI_INT64_T, target, disp(&w, target, 0), MPI_SUM, w.win);
	default: return MPI_Compare_and_swap(&a, &b, &b, MPI_INT64_T, target, disp(&w, target, 0), w.win);
	}
}

/* One operation and its completion, until there is an error: an operation may pass while the death is not known yet. */
static int until_told(int op, bool flush)
{
	int rc = 0, i = 0;

	for (time_t end = time(NULL) + 60; !rc && time(NULL) < end; i++) {
		rc = MPI_Win_lock(MPI_LOCK_SHARED, dead, 0, w.win);
		if (rc)
			return rc;
		for (int k = 0; !rc && k < 3; k++) {
			rc = operate(op < WHATS && op <= COMPARE_AND_SWAP ? op : PUT, dead);
			if (!rc && flush)
				rc = k % 2 ? MPI_Win_flush(dead, w.win) : MPI_Win_flush_local(dead, w.win);
		}
		/* the epoch ends in any case */
		if (rc)
			MPI_Win_unlock(dead, w.win);
		else
			rc = MPI_Win_unlock(dead, w.win);
	}
	return rc;
}

static MPI_Group only(int rank)
{
	return one_rank(&w, rank);
}

/* Operations on a survivor that has freed the window end: they are carried out or not, and the error tells of the rank that died,
 * or that the memory is gone. */
static void must_end(int rc, const char *call)
{
	int class;

	MPI_Error_class(rc, &class);
	if (rc && class != MPI_ERR_PROC_ABORTED && class != MPI_ERR_RMA_RANGE)
		survivors_fail(me, call, rc);
}

static int freed(void)
{
	static const int64_t many[128];
	int rc;

	if (me == first) {
		rc = MPI_Win_free(&w.win);
		survivors_count(&seen[7]);
		return rc;
	}
	survivors_await(&seen[7], 1, 60, true);
	rc = MPI_Win_lock(MPI_LOCK_EXCLUSIVE, first, 0, w.win);
	must_end(rc, "MPI_Win_lock of a rank that has freed the window");
	if (!rc)
		must_end(MPI_Win_unlock(first, w.win), "MPI_Win_unlock");
	MUST(MPI_Win_lock(MPI_LOCK_SHARED, first, MPI_MODE_NOCHECK, w.win));
	must_end(operate(FETCH_AND_OP, first), "MPI_Fetch_and_op");
	must_end(MPI_Accumulate(many, 128, MPI_INT64_T, first, disp(&w, first, 0), 128, MPI_INT64_T, MPI_SUM, w.win),
		 "MPI_Accumulate");
	must_end(operate(PUT, first), "MPI_Put");
	must_end(MPI_Win_unlock(first, w.win), "MPI_Win_unlock after operations");
	return until_told(PUT, true);
}

/* The dead rank is the first of the group, so that an error at that rank would keep the call from the others. */
static int groups(void)
{
	int ranks[64], n = 0, rc = until_told(PUT, true);
	MPI_Group all, g;

	if (!survivors_told(rc))
		return rc;
	ranks[n++] = dead;
	for (int r = 0; r < np; r++)
		if (r != dead && r != first)
			ranks[n++] = r;
	MPI_Win_get_group(w.win, &all);
	MPI_Group_incl(all, me == first ? n : 1, me == first ? ranks : &first, &g);
	MPI_Group_free(&all);
	if (me == first) {
		MUST(MPI_Win_post(g, 0, w.win));
		rc = MPI_Win_wait(w.win);
		if (survivors_told(rc))
			rc = MPI_Win_start(g, 0, w.win);
	} else {
		MUST(MPI_Win_start(g, 0, w.win));
		MUST(operate(PUT, first));
		MUST(MPI_Win_complete(w.win));
		MUST(MPI_Win_post(g, 0, w.win));
		MUST(MPI_Win_wait(w.win));
	}
	MPI_Group_free(&g);
	return rc;
}

static int provoke(void)
{
	MPI_Group g;
	int rc = 0, flag = 0;

	switch (what) {
	case OWN_LOCK:
		for (time_t end = time(NULL) + 60; !rc && time(NULL) < end;) {
			rc = MPI_Win_lock(MPI_LOCK_EXCLUSIVE, dead, 0, w.win);
			if (!rc)
				rc = MPI_Win_unlock(dead, w.win);
		}
		return rc;
	case HOLDER:
		/* a rank that waits for the dead holder gets the error; then the lock is free */
		rc = MPI_Win_lock(MPI_LOCK_EXCLUSIVE, first, 0, w.win);
		if (!rc)
			rc = MPI_Win_unlock(first, w.win);
		return rc ? rc : until_told(PUT, true);
	case START:
		g = only(dead);
		rc = MPI_Win_start(g, 0, w.win);
		one_rank_free(&g);
		if (!rc)
			rc = MPI_Put(&a, 1, MPI_INT64_T, dead, disp(&w, dead, 0), 1, MPI_INT64_T, w.win);
		if (!rc)
			rc = MPI_Win_complete(w.win);
		return rc;
	case WAIT:
		g = only(dead);
		rc = MPI_Win_post(g, 0, w.win);
		one_rank_free(&g);
		if (me % 2)
			while (!rc && !flag)
				rc = MPI_Win_test(w.win, &flag);
		return rc ? rc : MPI_Win_wait(w.win);
	case WHOLE_FENCE:
		for (time_t end = time(NULL) + 60; !rc && time(NULL) < end;)
			rc = MPI_Win_fence(0, w.win);
		return rc;
	case FREED:
		return freed();
	case GROUPS:
		return groups();
	default:
		return until_told(what, what == FLUSH || me % 2);
	}
}

#ifdef HDL_RMA_FAILPOINTS
#include "rma/failpoint.h"

static const char *point = "";

void hdl_rma_failpoint(const char *name)
{
	static int times;

	if (!strcmp(name, point) && ++times == 3)
		raise(SIGKILL);
}
#endif

/* An accumulate of elements that no instruction updates, and one of many doubles. */
static int operate_long(int target)
{
	static const double doubles[30] = { 1 };
	long double wide = 1;
	int rc = MPI_Accumulate(&wide, 1, MPI_LONG_DOUBLE, target, disp(&w, target, 1040), 1, MPI_LONG_DOUBLE, MPI_SUM, w.win);

	return rc ? rc : MPI_Accumulate(doubles, 30, MPI_DOUBLE, target, disp(&w, target, 1088), 30, MPI_DOUBLE, MPI_SUM, w.win);
}

/* All operations at once, until a call returns the error of the death. */
static int traffic(void)
{
	uint64_t state = (uint64_t)me + 1;
	int rc = 0;

	for (time_t end = time(NULL) + 60; !rc && time(NULL) < end;) {
		int target = (int)(rnd(&state) % (unsigned)np), how = (int)(rnd(&state) % 3);

		rc = how == 2 ? MPI_Win_lock_all(0, w.win) :
				MPI_Win_lock(how ? MPI_LOCK_EXCLUSIVE : MPI_LOCK_SHARED, target, 0, w.win);
		if (rc)
			break;
		for (int k = (int)(rnd(&state) % 8); !rc && k > 0; k--) {
			int op = (int)(rnd(&state) % 6);

			rc = op == 5 ? operate_long(target) : operate(op, target);
			if (!rc && rnd(&state) % 3 == 0)
				rc = MPI_Win_flush(target, w.win);
		}
		if (rc)
			(void)(how == 2 ? MPI_Win_unlock_all(w.win) : MPI_Win_unlock(target, w.win));
		else
			rc = how == 2 ? MPI_Win_unlock_all(w.win) : MPI_Win_unlock(target, w.win);
	}
	return rc;
}

/* All accumulate at the lowest survivor: of the survivors one gets the error, and the next accumulate is carried out. */
static int within(void)
{
	int rc = 0;

	for (time_t end = time(NULL) + 60; !rc && !__atomic_load_n(&seen[5], __ATOMIC_SEQ_CST) && time(NULL) < end;)
		rc = operate_long(first);
	if (survivors_told(rc))
		survivors_count(&seen[5]);
	else
		must(rc, "MPI_Accumulate");
	for (int i = 0; i < 20; i++)
		MUST(operate_long(first));
	MPI_Win_unlock_all(w.win);
	survivors_meet(&seen[6]);
	return seen[5] == 1 ? MPI_ERR_PROC_ABORTED : MPI_SUCCESS;
}

/* Locks a living rank. The dead rank may have held that lock: then the first attempt gets the error, and the lock is free. */
static void lock_living(int type, int rank)
{
	int rc = MPI_Win_lock(type, rank, 0, w.win);

	if (survivors_told(rc))
		rc = MPI_Win_lock(type, rank, 0, w.win);
	must(rc, "MPI_Win_lock of a living rank");
}

/* Counts at a living rank. The dead rank may have been in the middle of an accumulate there: the first attempt gets the error. */
static void count_at(int rank)
{
	const int64_t one = 1;
	int64_t old;
	int rc = MPI_Fetch_and_op(&one, &old, MPI_INT64_T, rank, disp(&w, rank, 1024), MPI_SUM, w.win);

	if (survivors_told(rc))
		rc = MPI_Fetch_and_op(&one, &old, MPI_INT64_T, rank, disp(&w, rank, 1024), MPI_SUM, w.win);
	must(rc, "MPI_Fetch_and_op at a living rank");
}

/* Each survivor puts to every other and to itself, under both kinds of lock, and counts with all at the first one. */
static void go_on(void)
{
	int64_t got;

	for (int r = 0; r < np; r++) {
		if (r == dead)
			continue;
		lock_living(me % 2 ? MPI_LOCK_EXCLUSIVE : MPI_LOCK_SHARED, r);
		a = 100 * me + r;
		got = -1;
		MUST(MPI_Put(&a, 1, MPI_INT64_T, r, disp(&w, r, 512 + 8 * me), 1, MPI_INT64_T, w.win));
		MUST(MPI_Win_flush(r, w.win));
		MUST(MPI_Get(&got, 1, MPI_INT64_T, r, disp(&w, r, 512 + 8 * me), 1, MPI_INT64_T, w.win));
		MUST(MPI_Win_unlock(r, w.win));
		if (got != a)
			survivors_fail(me, "what was put is not there", 0);
	}
	for (int i = 0; i < 50; i++) {
		lock_living(MPI_LOCK_SHARED, first);
		count_at(first);
		MUST(MPI_Win_unlock(first, w.win));
	}
	survivors_meet(&seen[2]);
	lock_living(MPI_LOCK_SHARED, first);
	MUST(MPI_Get(&got, 1, MPI_INT64_T, first, disp(&w, first, 1024), 1, MPI_INT64_T, w.win));
	MUST(MPI_Win_unlock(first, w.win));
	if (got != 50 * (np - 1))
		survivors_fail(me, "a count is lost", 0);
}

int main(int argc, char **argv)
{
	int f = 0, rc;

	test_init(&argc, &argv);
	if (argc < 5) {
		fprintf(stderr, "usage: rma_member_dies RANK FLAVOUR WHAT FILE [MICROSECONDS]\n");
		MPI_Abort(WORLD, 2);
	}
	dead = atoi(argv[1]);
	first = dead == 0;
	while (f < FLAVOURS - 1 && strcmp(argv[2], flavour_names[f]))
		f++;
	while (what < WHATS - 1 && strcmp(argv[3], names[what]))
		what++;
	seen = survivors_counters_of(argv[4]);
	window_new(&w, f, 2048, 1, MPI_INFO_NULL, WORLD);
	MPI_Win_set_errhandler(w.win, MPI_ERRORS_RETURN);
	MPI_Comm_set_errhandler(WORLD, MPI_ERRORS_RETURN);
	MPI_Comm_set_errhandler(sync_comm, MPI_ERRORS_RETURN);
	own_begin(&w);
	memset(w.mem, 0, 2048);
	own_end(&w);
	meet(WORLD);
	/* all have been at all */
	MUST(MPI_Win_lock_all(0, w.win));
	for (int r = 0; r < np; r++)
		for (int op = PUT; op <= COMPARE_AND_SWAP; op++)
			MUST(operate(op, r));
	MUST(MPI_Win_unlock_all(w.win));
	meet(WORLD);
	if (what == WITHIN)
		MUST(MPI_Win_lock_all(0, w.win));
	meet(WORLD);
	if (me == dead) {
		if (what == RANDOM || what == WITHIN) {
#ifdef HDL_RMA_FAILPOINTS
			point = argc > 5 ? argv[5] : "";
#else
			survivors_die_in(argc > 5 ? atoi(argv[5]) : 20000);
#endif
			for (;;)
				if (what == WITHIN ? operate_long(first) : traffic())
					_exit(4);
		}
		if (what == HOLDER)
			MUST(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, first, 0, w.win));
		survivors_count(&seen[0]);
		raise(SIGKILL);
	}
	if (what == RANDOM) {
		rc = traffic();
	} else if (what == WITHIN) {
		rc = within();
	} else {
		survivors_await(&seen[0], 1, 60, false);
		rc = provoke();
	}
	printf("survivor %d: %s by %s on %s\n", me, survivors_told(rc) ? "told" : rc ? "ANOTHER ERROR" : "NOT TOLD", names[what],
	       flavour_names[f]);
	fflush(stdout);
	survivors_meet(&seen[1]);
	/* after an epoch that failed the window has locks again */
	if (what != START && what != WAIT && what != WHOLE_FENCE && what != FREED)
		go_on();
	survivors_meet(&seen[3]);
	if (w.win != MPI_WIN_NULL)
		MPI_Win_free(&w.win);	/* with a member missing MPI_Win_free returns, with or without an error */
	survivors_meet(&seen[4]);
	MPI_Finalize();
	return 0;
}
