/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One-sided in the strict sense: the target does not enter the library, and rank 0's operations and
 * synchronization on it complete.
 *
 *     rma_progress stopped [CASE] the other ranks are stopped (SIGSTOP) outside the library; every operation on allocated and
 *                                      shared windows, put and get on created and dynamic ones
 *     rma_progress computing [CASE]    the other ranks compute until rank 0 is through: every operation on every window
 *     rma_progress asymmetric created windows: rank 0 has memory of MPI_Alloc_mem, or none, and the other ranks, which compute,
 *                                      have memory of malloc
 *     rma_progress atomics             created windows, RMA_GRANULARITY=8: the other ranks are stopped; all
 *                                      accumulates of 8 bytes
 *     rma_progress holder              a rank is stopped while it holds an exclusive lock: accesses to other ranks go on
 *
 * CASE: create, allocate, shared or dynamic; all without. There is no time limit but an alarm, which names
 * the operation that hangs.
 */
#include "rma_test.h"
#include "stopped.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static int32_t *pids;
static int *word;		/* memory that the ranks share without MPI: rank 0 is through with so many rounds */
static char now[240];		/* the operation under way, for the alarm */

static void let_go(void)
{
	for (int r = 0; r < np; r++)
		if (r != me && pids[r])
			kill(pids[r], SIGCONT);
}

static void too_late(int sig)
{
	static const char text[] = "rma_progress: an operation does not complete while its target stays outside the library: ";

	(void)sig;
	let_go();
	if (write(2, text, sizeof(text) - 1) < 0 || write(2, now, strlen(now)) < 0 || write(2, "\n", 1) < 0)
		_exit(2);
	_exit(1);
}

static void await_stopped(int rank)
{
	time_t end = time(NULL) + 60;

	while (!is_stopped(pids[rank])) {
		if (time(NULL) > end) {
			let_go();
			test_fail(__FILE__, __LINE__, "rank %d does not stop", rank);
		}
		usleep(500);
	}
}

/* One word that all ranks map, by a file that is removed at once. */
static void make_word(void)
{
	char name[] = "/tmp/rma_progress.XXXXXX";
	int fd = -1;

	if (!me)
		fd = mkstemp(name);
	MPI_Bcast(name, sizeof(name), MPI_CHAR, 0, WORLD);
	if (me)
		fd = open(name, O_RDWR);
	CHECK(fd >= 0);
	CHECK(!ftruncate(fd, 4096));
	word = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHECK(word != MAP_FAILED);
	close(fd);
	MPI_Barrier(WORLD);
	if (!me)
		unlink(name);
}

#define NAMED(call)	do { snprintf(now, sizeof(now), "%s, %s", flavour_names[w->flavour], #call); call; } while (0)

/* Put and get of several lengths, all under each lock. */
static void moves(const struct window *w, int target)
{
	static unsigned char out[100000], in[100000];
	static const int sizes[] = { 1, 8, 1000, 100000 };

	for (int i = 0; i < 4; i++) {
		int n = sizes[i];

		fill(out, (size_t)n, (uint64_t)(n + target));
		memset(in, 0, (size_t)n);
		NAMED(MPI_Win_lock(i % 2 ? MPI_LOCK_EXCLUSIVE : MPI_LOCK_SHARED, target, 0, w->win));
		NAMED(MPI_Put(out, n, MPI_BYTE, target, disp(w, target, 64), n, MPI_BYTE, w->win));
		NAMED(MPI_Win_flush(target, w->win));
		NAMED(MPI_Get(in, n, MPI_BYTE, target, disp(w, target, 64), n, MPI_BYTE, w->win));
		NAMED(MPI_Win_flush_local(target, w->win));
		CHECK(!memcmp(in, out, (size_t)n));
		NAMED(MPI_Win_unlock(target, w->win));
	}
}

static void shaped_moves(const struct window *w, int target)
{
	int32_t out[300], in[300];
	MPI_Datatype third;
	MPI_Request r;

	MPI_Type_vector(100, 1, 3, MPI_INT32_T, &third);
	MPI_Type_commit(&third);
	for (int i = 0; i < 300; i++) {
		out[i] = i;
		in[i] = -1;
	}
	NAMED(MPI_Win_lock_all(0, w->win));
	NAMED(MPI_Put(out, 1, third, target, disp(w, target, 64), 1, third, w->win));
	NAMED(MPI_Win_flush_all(w->win));
	NAMED(MPI_Rget(in, 100, MPI_INT32_T, target, disp(w, target, 64), 1, third, w->win, &r));
	NAMED(MPI_Wait(&r, MPI_STATUS_IGNORE));
	for (int i = 0; i < 100; i++)
		CHECK_EQ(in[i], 3 * i);
	NAMED(MPI_Win_unlock_all(w->win));
	MPI_Type_free(&third);
}

/* Every call that reads and changes, on elements of 8 bytes, of other sizes, and on a hundred of them. */
static void accumulates(const struct window *w, int target)
{
	const int64_t one = 1, five = 5, two = 2;
	const int16_t small = 3;
	const long double wide = 1.5L;
	double many[100], got_many[100];
	long double got_wide = 0;
	int64_t got = -1;
	int16_t got_small = -1;

	NAMED(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, w->win));
	memset(many, 0, sizeof(many));
	NAMED(MPI_Put(many, 8, MPI_DOUBLE, target, disp(w, target, 0), 8, MPI_DOUBLE, w->win));
	NAMED(MPI_Put(many, 100, MPI_DOUBLE, target, disp(w, target, 64), 100, MPI_DOUBLE, w->win));
	NAMED(MPI_Win_flush(target, w->win));
	NAMED(MPI_Accumulate(&one, 1, MPI_INT64_T, target, disp(w, target, 0), 1, MPI_INT64_T, MPI_SUM, w->win));
	NAMED(MPI_Fetch_and_op(&one, &got, MPI_INT64_T, target, disp(w, target, 0), MPI_SUM, w->win));
	NAMED(MPI_Win_flush(target, w->win));
	CHECK_EQ(got, 1);
	NAMED(MPI_Compare_and_swap(&five, &two, &got, MPI_INT64_T, target, disp(w, target, 0), w->win));
	NAMED(MPI_Win_flush(target, w->win));
	CHECK_EQ(got, 2);
	NAMED(MPI_Get_accumulate(NULL, 0, MPI_INT64_T, &got, 1, MPI_INT64_T, target, disp(w, target, 0), 1, MPI_INT64_T,
				 MPI_NO_OP, w->win));
	NAMED(MPI_Win_flush_local(target, w->win));
	CHECK_EQ(got, 5);
	NAMED(MPI_Fetch_and_op(&small, &got_small, MPI_INT16_T, target, disp(w, target, 10), MPI_MAX, w->win));
	NAMED(MPI_Accumulate(&wide, 1, MPI_LONG_DOUBLE, target, disp(w, target, 16), 1, MPI_LONG_DOUBLE, MPI_SUM, w->win));
	NAMED(MPI_Fetch_and_op(&wide, &got_wide, MPI_LONG_DOUBLE, target, disp(w, target, 16), MPI_SUM, w->win));
	for (int i = 0; i < 100; i++)
		many[i] = i;
	NAMED(MPI_Accumulate(many, 100, MPI_DOUBLE, target, disp(w, target, 64), 100, MPI_DOUBLE, MPI_SUM, w->win));
	NAMED(MPI_Get_accumulate(many, 100, MPI_DOUBLE, got_many, 100, MPI_DOUBLE, target, disp(w, target, 64), 100, MPI_DOUBLE,
				 MPI_MAX, w->win));
	NAMED(MPI_Win_flush(target, w->win));
	CHECK_EQ(got_small, 0);
	CHECK(got_wide == 1.5L);
	for (int i = 0; i < 100; i++)
		CHECK(got_many[i] == i);
	NAMED(MPI_Win_unlock(target, w->win));
}

static void all_operations(const struct window *w, bool atomics)
{
	for (int r = 1; r < np; r++) {
		moves(w, r);
		shaped_moves(w, r);
		if (atomics)
			accumulates(w, r);
	}
}

static void run(enum flavour f, bool stopped)
{
	static int rounds;
	struct window w;
	bool mapped = f == ALLOCATE || f == SHARED;

	if (!flavour_possible(f))
		return;
	window_new(&w, f, 200000, 1, MPI_INFO_NULL, WORLD);
	/* where no memory is mapped the first contact takes two */
	if (!mapped && !me)
		for (int r = 1; r < np; r++)
			moves(&w, r);
	MPI_Barrier(WORLD);
	rounds++;
	if (me) {
		if (stopped)
			raise(SIGSTOP);
		while (__atomic_load_n(word, __ATOMIC_ACQUIRE) < rounds)	/* computes, as far as MPI can tell */
			;
	} else {
		for (int r = 1; stopped && r < np; r++)
			await_stopped(r);
		alarm(60);
		all_operations(&w, mapped || !stopped);
		alarm(0);
		__atomic_store_n(word, rounds, __ATOMIC_RELEASE);
		let_go();
	}
	MPI_Barrier(WORLD);
	window_free(&w);
}

/* Rank 1 stops with an exclusive lock on rank 0 (and on itself): rank 0 works on rank 2 meanwhile, and gets the
 * lock when rank 1 goes on. */
static void holder(void)
{
	struct window win, *w = &win;
	int64_t v = 7, got = -1;

	for (int f = ALLOCATE; f <= SHARED; f++) {
		if (!flavour_possible(f))
			continue;
		window_new(w, f, 200000, 1, MPI_INFO_NULL, WORLD);
		MPI_Barrier(WORLD);
		if (me == 1) {
			MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, w->win);
			MPI_Put(&v, 1, MPI_INT64_T, 0, disp(w, 0, 0), 1, MPI_INT64_T, w->win);
			MPI_Win_flush(0, w->win);
			MPI_Send(&v, 1, MPI_INT64_T, 0, 1, WORLD);
			raise(SIGSTOP);
			v = 8;
			MPI_Put(&v, 1, MPI_INT64_T, 0, disp(w, 0, 0), 1, MPI_INT64_T, w->win);
			MPI_Win_unlock(0, w->win);
		} else if (!me) {
			MPI_Recv(&got, 1, MPI_INT64_T, 1, 1, WORLD, MPI_STATUS_IGNORE);
			await_stopped(1);
			alarm(60);
			for (int r = 2; r < np; r++) {
				moves(w, r);
				accumulates(w, r);
			}
			alarm(0);
			kill(pids[1], SIGCONT);
			MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, w->win);
			MPI_Get(&got, 1, MPI_INT64_T, 0, disp(w, 0, 0), 1, MPI_INT64_T, w->win);
			MPI_Win_unlock(0, w->win);
			CHECK_EQ(got, 8);
		}
		MPI_Barrier(WORLD);
		window_free(w);
	}
}

/* The device updates elements of 8 bytes: no rank has operated on another before the targets stop, and locks are by
 * MPI_MODE_NOCHECK, since the window's locks may be messages. */
static void atomics(void)
{
	const int64_t one = 1, seven = 7;
	int64_t got[3], many[200], old[200];
	struct window win, *w = &win;
	MPI_Request r;

	window_new(w, CREATE, 8 * 201, 8, MPI_INFO_NULL, WORLD);
	memset(w->mem, 0, 8 * 201);
	MPI_Barrier(WORLD);
	if (me) {
		raise(SIGSTOP);
		for (int i = 0; i < 200; i++)
			CHECK_EQ(((int64_t *)(void *)w->mem)[1 + i], i % 2 ? 7 : i);
	} else {
		for (int t = 1; t < np; t++)
			await_stopped(t);
		alarm(60);
		NAMED(MPI_Win_lock_all(MPI_MODE_NOCHECK, w->win));
		for (int t = 1; t < np; t++) {
			NAMED(MPI_Accumulate(&one, 1, MPI_INT64_T, t, 0, 1, MPI_INT64_T, MPI_SUM, w->win));
			NAMED(MPI_Fetch_and_op(&one, &got[0], MPI_INT64_T, t, 0, MPI_SUM, w->win));
			NAMED(MPI_Fetch_and_op(&seven, &got[1], MPI_INT64_T, t, 0, MPI_MAX, w->win));
			NAMED(MPI_Compare_and_swap(&one, &seven, &got[2], MPI_INT64_T, t, 0, w->win));
			NAMED(MPI_Win_flush(t, w->win));
			CHECK(got[0] == 1 && got[1] == 2 && got[2] == 7);
			for (int i = 0; i < 200; i++)
				many[i] = i;
			NAMED(MPI_Accumulate(many, 200, MPI_INT64_T, t, 1, 200, MPI_INT64_T, MPI_REPLACE, w->win));
			for (int i = 0; i < 200; i++)
				many[i] = i % 2 ? 7 : 0;
			NAMED(MPI_Rget_accumulate(many, 200, MPI_INT64_T, old, 200, MPI_INT64_T, t, 1, 200, MPI_INT64_T,
						  MPI_NO_OP, w->win, &r));
			NAMED(MPI_Wait(&r, MPI_STATUS_IGNORE));
			for (int i = 0; i < 200; i++) {
				CHECK_EQ(old[i], i);
				if (i % 2)
					NAMED(MPI_Accumulate(&many[i], 1, MPI_INT64_T, t, 1 + i, 1, MPI_INT64_T, MPI_REPLACE,
							     w->win));
			}
			NAMED(MPI_Win_flush_all(w->win));
		}
		NAMED(MPI_Win_unlock_all(w->win));
		alarm(0);
		let_go();
	}
	MPI_Barrier(WORLD);
	window_free(w);
}

/* Rank 0 has had no operation yet: the first ones, too, complete while the targets compute. */
static void asymmetric(void)
{
	static char mine[200000];
	int *units = checked(calloc((size_t)np, sizeof(*units)));

	for (int r = 0; r < np; r++)
		units[r] = 1;
	for (int way = 1; way <= 2; way++) {
		struct window w = { .flavour = CREATE, .units = units };
		void *p = mine;
		MPI_Aint bytes = sizeof(mine);

		if (!me && way == 1)
			MPI_Alloc_mem(bytes, MPI_INFO_NULL, &p);
		else if (!me)
			bytes = 0;
		MPI_Win_create(p, bytes, 1, MPI_INFO_NULL, WORLD, &w.win);
		MPI_Barrier(WORLD);
		if (me) {
			while (__atomic_load_n(word, __ATOMIC_ACQUIRE) < way)
				usleep(100);
		} else {
			alarm(60);
			/* of many targets six: collectives have connected queues to some of them */
			for (int r = 1; r < np; r += np > 8 ? 11 : 1) {
				moves(&w, r);
				shaped_moves(&w, r);
				accumulates(&w, r);
			}
			alarm(0);
			__atomic_store_n(word, way, __ATOMIC_RELEASE);
		}
		MPI_Barrier(WORLD);
		MPI_Win_free(&w.win);
		if (p != mine)
			MPI_Free_mem(p);
	}
	free(units);
}

int main(int argc, char **argv)
{
	int32_t pid = getpid();

	test_init(&argc, &argv);
	CHECK(argc > 1 && np > 1);
	pids = checked(calloc((size_t)np, sizeof(*pids)));
	MPI_Allgather(&pid, 1, MPI_INT32_T, pids, 1, MPI_INT32_T, WORLD);
	make_word();
	if (!me)
		signal(SIGALRM, too_late);
	if (!strcmp(argv[1], "holder"))
		holder();
	if (!strcmp(argv[1], "asymmetric"))
		asymmetric();
	if (!strcmp(argv[1], "atomics"))
		atomics();
	for (int f = 0; f < FLAVOURS && (!strcmp(argv[1], "stopped") || !strcmp(argv[1], "computing")); f++)
		if (argc < 3 || !strcmp(argv[2], flavour_names[f]))
			run(f, !strcmp(argv[1], "stopped"));
	free(pids);
	test_done("progress");
	return 0;
}
