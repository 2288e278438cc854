/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A rank that uses a window dies: every survivor's wait ends with MPI_ERR_PROC_ABORTED, none hangs. Must run under heddlerun
 * --on-death=continue.
 *
 *     rma_death RANK CASE FILE [created]     FILE: see survivors.h, or -; created: by MPI_Win_create
 *
 * Cases:
 *     holder        the rank holds rank 0's lock, exclusive, and the other ranks wait for the lock, or come later
 *     waiter        the rank waits for the lock, which rank 0 holds, and other ranks wait behind that rank
 *     target        the rank is the target: lock, operations, flush
 *     fence, post   the other ranks wait for the rank in MPI_Win_fence, MPI_Win_wait
 */
#include <string.h>

#include "survivors.h"

static int me, all, dead;
static int *seen;

static void told(const char *what, int rc)
{
	if (!survivors_told(rc))
		survivors_fail(me, what, rc);
}

static int lock(MPI_Win win, int rank)
{
	return MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, win);
}

static void holder(MPI_Win win)
{
	if (me == dead) {
		lock(win, 0);
		survivors_count(&seen[0]);
		survivors_await(&seen[1], all - 2, 20, false);
		usleep(200000);
		raise(SIGKILL);
	}
	survivors_await(&seen[0], 1, 20, true);	/* rank 0 grants, where locks are messages */
	if (me == all - 1 && dead != me) {	/* comes when the rank is dead */
		survivors_await(&seen[2], all - 2, 60, true);
		told("a later lock", lock(win, 0));
		return;
	}
	survivors_count(&seen[1]);
	told("lock", lock(win, 0));
	survivors_count(&seen[2]);
}

static void waiter(MPI_Win win)
{
	if (!me) {
		if (lock(win, 0))
			survivors_fail(me, "lock", 0);
		survivors_count(&seen[0]);
		survivors_await(&seen[1], 1, 20, false);	/* the rank is about to wait */
		usleep(300000);
		survivors_count(&seen[2]);
		survivors_await(&seen[3], all - 2, 60, true);	/* those behind have been told */
		MPI_Win_unlock(0, win);
		return;
	}
	survivors_await(&seen[0], 1, 20, false);
	if (me == dead) {
		survivors_count(&seen[1]);
		survivors_die_in(900000);
		lock(win, 0);
	}
	survivors_await(&seen[2], 1, 20, false);
	told("lock behind the dead rank", lock(win, 0));
	survivors_count(&seen[3]);
}

static void target(MPI_Win win)
{
	long x = 1;
	int rc = 0;

	if (MPI_Win_lock_all(0, win))
		survivors_fail(me, "lock_all", 0);
	MPI_Put(&x, 1, MPI_LONG, dead, 0, 1, MPI_LONG, win);
	if (MPI_Win_flush(dead, win))
		survivors_fail(me, "flush", 0);
	survivors_count(&seen[0]);
	survivors_await(&seen[0], all, 20, true);
	if (me == dead)
		raise(SIGKILL);
	for (time_t end = time(NULL) + 30; !rc && time(NULL) < end;) {
		rc = MPI_Fetch_and_op(&x, &x, MPI_LONG, dead, 0, MPI_SUM, win);
		rc = rc ? rc : MPI_Win_flush(dead, win);
	}
	told("operations to the dead rank", rc);
	told("put", MPI_Put(&x, 1, MPI_LONG, dead, 0, 1, MPI_LONG, win));
	rc = MPI_Put(&x, 1, MPI_LONG, me, 0, 1, MPI_LONG, win);
	if (rc || MPI_Win_flush(me, win))
		survivors_fail(me, "operations of survivors", rc);
	MPI_Win_unlock_all(win);
}

static void fence(MPI_Win win)
{
	int rc = MPI_Win_fence(0, win);

	if (rc)
		survivors_fail(me, "fence", rc);
	if (me == dead)
		survivors_die_in(200000), pause();
	told("fence", MPI_Win_fence(0, win));
}

static void post(MPI_Win win)
{
	MPI_Group group, one;

	MPI_Win_get_group(win, &group);
	MPI_Group_incl(group, 1, &dead, &one);
	if (me == dead)
		survivors_die_in(200000), pause();
	MPI_Win_post(one, 0, win);
	told("wait", MPI_Win_wait(win));
	told("start", MPI_Win_start(one, 0, win));
	MPI_Group_free(&group);
	MPI_Group_free(&one);
}

static const struct { const char *name; void (*run)(MPI_Win win); } cases[] = {
	{ "holder", holder }, { "waiter", waiter }, { "target", target }, { "fence", fence }, { "post", post },
};

int main(int argc, char **argv)
{
	MPI_Win win;
	long *mem;
	char *own = malloc(64);

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &me);
	MPI_Comm_size(MPI_COMM_WORLD, &all);
	dead = atoi(argv[1]);
	seen = survivors_counters_of(argv[3]);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	if (argc > 4)
		MPI_Win_create(own, 64, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
	else
		MPI_Win_allocate(64, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &mem, &win);
	MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		if (!strcmp(cases[i].name, argv[2]))
			cases[i].run(win);
	printf("survivor %d: told by %s\n", me, argv[2]);
	fflush(stdout);
	survivors_count(&seen[9]);
	survivors_await(&seen[9], all - 1, 60, true);
	MPI_Win_free(&win);
	MPI_Finalize();
	return 0;
}
