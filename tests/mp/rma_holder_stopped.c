/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A process is stopped while it holds a hashed lock of a window: a process that waits for that lock goes on with its other
 * threads' calls, and waits for nothing but the holder.
 *
 *     rma_holder_stopped [ROUNDS [target]]     three ranks; 12 rounds
 *
 *     rank 0                               rank 1                          rank 2: owner of the memory
 *                                          accumulates without end         stops rank 1
 *     thread: MPI_Accumulate ◀──────────────────────────────────────────── "go"
 *     main:   messages to and fro ◀──────────────────────────────────────▶ answers
 *                                          goes on ◀────────────────────── lets rank 1 go on
 *     joins the thread ────────────────────────────────────────────────▶ the next round
 *
 * Rank 1 is stopped at any instruction, and holds the lock at most of them: the accumulate is one of complex numbers of 32
 * bytes, of which one lock covers all. So a round in which rank 1 does not hold the lock tests nothing, and there are several.
 *
 * target: rank 1 is the owner of the memory, and the thread holds the lock while it waits for rank 1 (over UD, where the owner
 * moves the memory).
 */
#include "rma_test.h"
#include "stopped.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <time.h>

#define BYTES	32768
#define MANY	(BYTES / (int)sizeof(long double _Complex))
#define TALKS	200			/* messages to and fro of a round: some begin when the thread waits for the lock */
#define SECONDS	30			/* the bound of each wait */

enum { GO = 1, TALK, ANSWER, JOINED, ENOUGH };
static struct window w;
static int rounds = 12, owning = 2, accumulated;	/* owning: the owner of the memory */

static void accumulate(int count)
{
	const MPI_Datatype type = MPI_C_LONG_DOUBLE_COMPLEX;
	static long double _Complex ones[MANY];

	for (int i = 0; i < count; i++)
		ones[i] = 1;
	CHECK_EQ(MPI_Accumulate(ones, count, type, owning, disp(&w, owning, 0), count, type, MPI_PROD, w.win), MPI_SUCCESS);
}

static void holder(void)
{
	int enough = 0;

	while (!enough) {
		/* a call that makes progress yields the CPU, so that the rank would be stopped there */
		for (int i = 0; i < 200 && owning != me; i++)
			accumulate(MANY);
		MPI_Iprobe(2, ENOUGH, WORLD, &enough, MPI_STATUS_IGNORE);
	}
	MPI_Recv(NULL, 0, MPI_BYTE, 2, ENOUGH, WORLD, MPI_STATUS_IGNORE);
}

static void *thread_main(void *arg)
{
	(void)arg;
	accumulate(1);
	__atomic_add_fetch(&accumulated, 1, __ATOMIC_RELAXED);
	return NULL;
}

static void waiter(void)
{
	pthread_t thread;

	for (int round = 0; round < rounds; round++) {
		MPI_Recv(NULL, 0, MPI_BYTE, 2, GO, WORLD, MPI_STATUS_IGNORE);
		CHECK_EQ(pthread_create(&thread, NULL, thread_main, NULL), 0);
		for (int i = 0; i < TALKS; i++) {
			MPI_Send(&i, 1, MPI_INT, 2, TALK, WORLD);
			MPI_Recv(NULL, 0, MPI_BYTE, 2, ANSWER, WORLD, MPI_STATUS_IGNORE);
			sched_yield();
		}
		pthread_join(thread, NULL);
		MPI_Send(NULL, 0, MPI_BYTE, 2, JOINED, WORLD);
	}
	CHECK_EQ(accumulated, rounds);
}

/* Answers rank 0's messages. Returns how many have come before the time was up. */
static int answer(void)
{
	int n = 0, i, flag;

	for (time_t end = time(NULL) + SECONDS; n < TALKS && time(NULL) < end;) {
		MPI_Iprobe(0, TALK, WORLD, &flag, MPI_STATUS_IGNORE);
		if (!flag) {
			sched_yield();
			continue;
		}
		MPI_Recv(&i, 1, MPI_INT, 0, TALK, WORLD, MPI_STATUS_IGNORE);
		CHECK_EQ(i, n);
		MPI_Send(NULL, 0, MPI_BYTE, 0, ANSWER, WORLD);
		n++;
	}
	return n;
}

static void stopper(pid_t pid)
{
	int n;

	for (int round = 0; round < rounds; round++) {
		const struct timespec pause = { .tv_nsec = 2000000 };	/* in which rank 1 has a CPU */
		bool stopped;

		nanosleep(&pause, NULL);
		CHECK_EQ(kill(pid, SIGSTOP), 0);
		for (time_t end = time(NULL) + SECONDS; !(stopped = is_stopped(pid)) && time(NULL) < end;)
			sched_yield();
		CHECK(stopped);
		MPI_Send(NULL, 0, MPI_BYTE, 0, GO, WORLD);
		n = answer();
		CHECK_EQ(kill(pid, SIGCONT), 0);
		if (n < TALKS) {
			fprintf(stderr, "round %d: rank 0 has sent %d messages of %d: a thread within an accumulate keeps the "
				"others out\n", round, n, TALKS);
			MPI_Abort(WORLD, 1);
		}
		MPI_Recv(NULL, 0, MPI_BYTE, 0, JOINED, WORLD, MPI_STATUS_IGNORE);
	}
	MPI_Send(NULL, 0, MPI_BYTE, 1, ENOUGH, WORLD);
}

int main(int argc, char **argv)
{
	int level, pid = (int)getpid();
	MPI_Info info;

	MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
	MPI_Comm_rank(WORLD, &me);
	MPI_Comm_size(WORLD, &np);
	MPI_Comm_dup(WORLD, &sync_comm);
	if (level < MPI_THREAD_MULTIPLE || np != 3) {
		fprintf(stderr, "rma_holder_stopped: three ranks, and MPI_THREAD_MULTIPLE\n");
		MPI_Abort(WORLD, 2);
	}
	if (argc > 1)
		rounds = atoi(argv[1]);
	if (argc > 2 && !strcmp(argv[2], "target"))
		owning = 1;
	MPI_Info_create(&info);
	MPI_Info_set(info, "mpi_accumulate_granularity", "32768");
	window_new(&w, owning == 1 ? CREATE : ALLOCATE, BYTES, 1, info, WORLD);
	MPI_Info_free(&info);
	own_begin(&w);
	for (int i = 0; i < MANY; i++)
		((long double _Complex *)(void *)w.mem)[i] = 1;
	own_end(&w);
	MPI_Bcast(&pid, 1, MPI_INT, 1, WORLD);
	meet(WORLD);
	MPI_Win_lock_all(0, w.win);
	if (me == 0)
		waiter();
	else if (me == 1)
		holder();
	else
		stopper(pid);
	MPI_Win_unlock_all(w.win);
	meet(WORLD);
	own_begin(&w);
	for (int i = 0; i < MANY; i++)
		CHECK(((long double _Complex *)(void *)w.mem)[i] == 1);
	own_end(&w);
	window_free(&w);
	test_done("holder stopped");
	return 0;
}
