/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * MPI_THREAD_MULTIPLE and one-sided communication: in every rank several threads, on one window together and each with a window
 * of its own, in every kind of epoch, while other threads exchange messages; then threads that lock targets of one window, and
 * an owner that attaches regions meanwhile, and threads that wait for a hashed lock. Arguments: threads of each job (2; 0:
 * only the last three), rounds (60).
 */
#include "rma_test.h"

#include <pthread.h>
#include <time.h>
#include <unistd.h>

static int copies = 2, rounds = 60;
static struct window common_window[FLAVOURS];

static void *thread_main(void *arg);

struct job {
	void (*run)(struct job *job);
	int number;
	MPI_Comm comm;		/* its own */
	pthread_t thread;
	enum flavour flavour;
};

/* On the window of all threads, in the epoch that main has opened: counts by every call on one word, and puts and
 * gets in its own place. */
static void together(struct job *job)
{
	const struct window *w = &common_window[job->flavour];
	const int64_t one = 1;
	int64_t old, v, got;
	MPI_Request r;

	for (int i = 0; i < rounds; i++) {
		int target = (me + i) % np;
		MPI_Aint place = 64 + 8 * (me * 64 + job->number);

		switch (i % 3) {
		case 0:
			MPI_Accumulate(&one, 1, MPI_INT64_T, target, disp(w, target, 0), 1, MPI_INT64_T, MPI_SUM, w->win);
			break;
		case 1:
			MPI_Fetch_and_op(&one, &old, MPI_INT64_T, target, disp(w, target, 0), MPI_SUM, w->win);
			break;
		default:
			MPI_Get_accumulate(&one, 1, MPI_INT64_T, &old, 1, MPI_INT64_T, target, disp(w, target, 0), 1,
					   MPI_INT64_T, MPI_SUM, w->win);
			break;
		}
		v = 100000 * job->number + i;
		MPI_Put(&v, 1, MPI_INT64_T, target, disp(w, target, place), 1, MPI_INT64_T, w->win);
		MPI_Win_flush(target, w->win);
		if (i % 2) {
			MPI_Get(&got, 1, MPI_INT64_T, target, disp(w, target, place), 1, MPI_INT64_T, w->win);
			MPI_Win_flush_local(target, w->win);
		} else {
			MPI_Rget(&got, 1, MPI_INT64_T, target, disp(w, target, place), 1, MPI_INT64_T, w->win, &r);
			MPI_Wait(&r, MPI_STATUS_IGNORE);
		}
		CHECK_EQ(got, v);
	}
	MPI_Win_flush_all(w->win);
}

/* A window of its own, in all epochs. */
static void alone(struct job *job)
{
	struct window w;
	int64_t v, n = 0;

	window_new(&w, job->flavour, 16, 1, MPI_INFO_NULL, job->comm);
	own_begin(&w);
	memset(w.mem, 0, 16);
	own_end(&w);
	meet(job->comm);
	for (int i = 0; i < rounds / 4; i++) {
		enum epoch e = (enum epoch)((i + job->number) % EPOCHS);
		int right = (me + 1) % np, left = (me + np - 1) % np;

		v = 1000 * me + i;
		epoch_begin(&w, e, right, left);
		MPI_Put(&v, 1, MPI_INT64_T, right, disp(&w, right, 8), 1, MPI_INT64_T, w.win);
		n = 1;
		MPI_Accumulate(&n, 1, MPI_INT64_T, right, disp(&w, right, 0), 1, MPI_INT64_T, MPI_SUM, w.win);
		epoch_end(&w, e, right);
		own_begin(&w);
		memcpy(&v, w.mem + 8, 8);
		memcpy(&n, w.mem, 8);
		own_end(&w);
		CHECK_EQ(v, 1000 * left + i);
		CHECK_EQ(n, i + 1);
		meet(job->comm);
	}
	window_free(&w);
}

/* Windows come and go while the other threads work. */
static void created(struct job *job)
{
	struct window w;

	for (int i = 0; i < rounds / 10; i++) {
		window_new(&w, (enum flavour)((job->flavour + (unsigned)i) % SHARED), 64, 1, MPI_INFO_NULL, job->comm);
		window_free(&w);
	}
}

/* Messages meanwhile. */
static void messages(struct job *job)
{
	static char out[3000];
	char in[3000];

	for (int i = 0; i < rounds; i++)
		MPI_Sendrecv(out, 3000, MPI_BYTE, (me + 1) % np, job->number, in, 3000, MPI_BYTE, (me + np - 1) % np,
			     job->number, job->comm, MPI_STATUS_IGNORE);
}

/* ---- threads that lock targets of one window ------------------------------------------------------------- */

static struct window locked_window;

/* A thread for each target: epochs of its own, beside those of the other threads. */
static void locks_target(struct job *job)
{
	const struct window *w = &locked_window;
	static char out[5000];
	const int64_t one = 1;
	int64_t old;

	for (int i = 0; i < rounds; i++) {
		MPI_Win_lock(i % 2 ? MPI_LOCK_EXCLUSIVE : MPI_LOCK_SHARED, job->number, 0, w->win);
		MPI_Put(out, sizeof(out), MPI_BYTE, job->number, disp(w, job->number, 64 + me * (MPI_Aint)sizeof(out)),
			sizeof(out), MPI_BYTE, w->win);
		MPI_Accumulate(&one, 1, MPI_INT64_T, job->number, disp(w, job->number, 0), 1, MPI_INT64_T, MPI_SUM, w->win);
		MPI_Fetch_and_op(&one, &old, MPI_INT64_T, job->number, disp(w, job->number, 8), MPI_SUM, w->win);
		MPI_Win_unlock(job->number, w->win);
		if (i % 2)
			usleep((useconds_t)(50 * (i % 7)));	/* now and then one thread alone has a lock */
	}
}

/* Two threads lock rank 0 while rank 0 holds that lock: one of them waits, and the other one has MPI_ERR_RMA_SYNC. */
static void locks_the_same(struct job *job)
{
	const struct window *w = &locked_window;
	int rc = MPI_Win_lock(job->number ? MPI_LOCK_SHARED : MPI_LOCK_EXCLUSIVE, 0, 0, w->win), class;

	MPI_Error_class(rc, &class);
	if (!rc) {
		MPI_Win_unlock(0, w->win);
	} else {
		CHECK_EQ(class, MPI_ERR_RMA_SYNC);
		MPI_Send(NULL, 0, MPI_BYTE, 0, 0, job->comm);
	}
}

/* Rank 0 holds its own lock: a thread waits in MPI_Win_lock_all, and until that call returns no other thread opens an epoch. */
static void locks_all(struct job *job)
{
	const struct window *w = &locked_window;
	int rc, class;

	if (!job->number) {
		/* the other thread may have an epoch open for a moment */
		do
			rc = MPI_Win_lock_all(0, w->win);
		while (rc);
		MPI_Win_unlock_all(w->win);
		return;
	}
	for (time_t end = time(NULL) + 20; !(rc = MPI_Win_start(MPI_GROUP_EMPTY, 0, w->win)) && time(NULL) < end;)
		MPI_Win_complete(w->win);
	MPI_Error_class(rc, &class);
	CHECK_EQ(class, MPI_ERR_RMA_SYNC);
	MPI_Send(NULL, 0, MPI_BYTE, 0, 0, job->comm);
}

static void run_threads(void (*run)(struct job *), int n, MPI_Comm comm)
{
	struct job jobs[64];

	for (int i = 0; i < n; i++) {
		jobs[i] = (struct job){ .run = run, .number = i, .comm = comm };
		CHECK(!pthread_create(&jobs[i].thread, NULL, thread_main, &jobs[i]));
	}
	for (int i = 0; i < n; i++)
		CHECK(!pthread_join(jobs[i].thread, NULL));
}

static void lock_targets(enum flavour flavour)
{
	struct window *w = &locked_window;
	int64_t sums[2];

	window_new(w, flavour, 64 + np * 5000, 1, MPI_INFO_NULL, WORLD);
	own_begin(w);
	memset(w->mem, 0, (size_t)w->size);
	own_end(w);
	meet(WORLD);
	run_threads(locks_target, np, WORLD);
	/* no epoch is open: a fence is allowed */
	MPI_Win_fence(0, w->win);
	memcpy(sums, w->mem, sizeof(sums));
	CHECK_EQ(sums[0], (int64_t)np * rounds);
	CHECK_EQ(sums[1], (int64_t)np * rounds);
	MPI_Win_fence(MPI_MODE_NOSUCCEED, w->win);
	if (!me)
		MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, w->win);
	meet(WORLD);
	MPI_Win_set_errhandler(w->win, MPI_ERRORS_RETURN);
	if (me) {
		run_threads(locks_the_same, 2, WORLD);
	} else {
		for (int i = 1; i < np; i++)
			MPI_Recv(NULL, 0, MPI_BYTE, MPI_ANY_SOURCE, 0, WORLD, MPI_STATUS_IGNORE);
		MPI_Win_unlock(0, w->win);
	}
	meet(WORLD);
	if (!me)
		MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, w->win);
	meet(WORLD);
	if (me) {
		run_threads(locks_all, 2, WORLD);
	} else {
		for (int i = 1; i < np; i++)
			MPI_Recv(NULL, 0, MPI_BYTE, MPI_ANY_SOURCE, 0, WORLD, MPI_STATUS_IGNORE);
		MPI_Win_unlock(0, w->win);
	}
	meet(WORLD);
	MPI_Win_set_errhandler(w->win, MPI_ERRORS_ARE_FATAL);
	window_free(w);
}

static void *thread_main(void *arg)
{
	struct job *job = arg;

	job->run(job);
	return NULL;
}

/* ---- a dynamic window whose owner attaches and detaches meanwhile ------------------------------------------ */

enum { LONG = 300000, PAGE = 4096, PAGES = 24 };
static bool attaching_ends;	/* atomic */

static void attaches(struct job *job)
{
	char *mem = checked(malloc(PAGES * PAGE));

	(void)job;
	for (int i = 0; i < PAGES || !__atomic_load_n(&attaching_ends, __ATOMIC_RELAXED); i++) {
		MPI_Win_attach(locked_window.win, mem + i % PAGES * PAGE, PAGE);
		MPI_Win_detach(locked_window.win, mem + i % PAGES * PAGE);
		usleep(50);
	}
	free(mem);
}

/* Each finds another version of the target's table at almost every call, with operations of other threads under way. */
static void moves_and_counts(struct job *job)
{
	const struct window *w = &locked_window;
	char *out = checked(calloc(1, LONG));
	const int64_t one = 1;

	for (int i = 0; i < rounds; i++) {
		int target = (me + 1 + i) % np;

		MPI_Put(out, i % 3 ? 100 : LONG, MPI_BYTE, target, disp(w, target, 64 + job->number * LONG), i % 3 ? 100 : LONG,
			MPI_BYTE, w->win);
		MPI_Accumulate(&one, 1, MPI_INT64_T, target, disp(w, target, 0), 1, MPI_INT64_T, MPI_SUM, w->win);
		if (i % 5 == 0)
			MPI_Win_flush(target, w->win);
	}
	MPI_Win_flush_all(w->win);
	free(out);
}

static void attach_meanwhile(void)
{
	struct window *w = &locked_window;
	struct job owner = { .run = attaches };
	enum { MOVERS = 4 };
	int64_t sum;

	window_new(w, DYNAMIC, 64 + MOVERS * LONG, 1, MPI_INFO_NULL, WORLD);
	own_begin(w);
	memset(w->mem, 0, (size_t)w->size);
	own_end(w);
	meet(WORLD);
	MPI_Win_lock_all(0, w->win);
	CHECK(!pthread_create(&owner.thread, NULL, thread_main, &owner));
	run_threads(moves_and_counts, MOVERS, WORLD);
	meet(WORLD);
	__atomic_store_n(&attaching_ends, true, __ATOMIC_RELAXED);
	CHECK(!pthread_join(owner.thread, NULL));
	MPI_Win_unlock_all(w->win);
	meet(WORLD);
	own_begin(w);
	memcpy(&sum, w->mem, sizeof(sum));
	own_end(w);
	MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_INT64_T, MPI_SUM, WORLD);
	CHECK_EQ(sum, (int64_t)np * MOVERS * rounds);
	window_free(w);
}

/* ---- accumulates under one hashed lock, whose operands are packed first --------------------------------------- */

enum { ADDERS = 4, STRIDED = 100 };

/* Each thread has its own summand: one that another thread has packed meanwhile would show in the sum. */
static void adds_strided(struct job *job)
{
	const struct window *w = &locked_window;
	int64_t summands[2 * STRIDED];
	MPI_Datatype strided;

	MPI_Type_vector(STRIDED, 1, 2, MPI_INT64_T, &strided);
	MPI_Type_commit(&strided);
	for (int i = 0; i < 2 * STRIDED; i++)
		summands[i] = (int64_t)1 << (10 * job->number);
	for (int i = 0; i < rounds; i++)
		MPI_Accumulate(summands, 1, strided, 0, disp(w, 0, 0), STRIDED, MPI_INT64_T, MPI_SUM, w->win);
	MPI_Win_flush(0, w->win);
	MPI_Type_free(&strided);
}

static void add_strided(void)
{
	struct window *w = &locked_window;
	int64_t sum = 0, sums[STRIDED];

	for (int i = 0; i < ADDERS; i++)
		sum += (int64_t)np * rounds << (10 * i);
	window_new(w, CREATE, sizeof(sums), 1, MPI_INFO_NULL, WORLD);
	own_begin(w);
	memset(w->mem, 0, (size_t)w->size);
	own_end(w);
	meet(WORLD);
	MPI_Win_lock_all(0, w->win);
	run_threads(adds_strided, ADDERS, WORLD);
	MPI_Win_unlock_all(w->win);
	meet(WORLD);
	own_begin(w);
	memcpy(sums, w->mem, sizeof(sums));
	own_end(w);
	for (int i = 0; !me && i < STRIDED; i++)
		CHECK_EQ(sums[i], sum);
	window_free(w);
}

int main(int argc, char **argv)
{
	static void (*const kinds[])(struct job *) = { together, alone, together, created, messages, alone };
	enum { KINDS = sizeof(kinds) / sizeof(*kinds) };
	struct job jobs[64];
	int provided, n, counters[FLAVOURS] = { 0 };

	MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
	MPI_Comm_rank(WORLD, &me);
	MPI_Comm_size(WORLD, &np);
	MPI_Comm_dup(WORLD, &sync_comm);
	CHECK_EQ(provided, MPI_THREAD_MULTIPLE);
	if (argc > 1)
		copies = atoi(argv[1]);
	if (argc > 2)
		rounds = atoi(argv[2]);
	n = KINDS * copies;
	CHECK(n <= 64);
	for (int f = 0; f < FLAVOURS; f++) {
		if (!flavour_possible(f))
			continue;
		window_new(&common_window[f], f, 64 + 8 * 64 * np, 1, MPI_INFO_NULL, WORLD);
		own_begin(&common_window[f]);
		memset(common_window[f].mem, 0, (size_t)common_window[f].size);
		own_end(&common_window[f]);
	}
	meet(WORLD);
	for (int f = 0; f < FLAVOURS; f++)
		if (flavour_possible(f))
			MPI_Win_lock_all(0, common_window[f].win);
	for (int i = 0; i < n; i++) {
		jobs[i] = (struct job){.run = kinds[i % KINDS],
				       .number = i,
				       .flavour = (enum flavour)((i + i / KINDS) % FLAVOURS)};
		if (!flavour_possible(jobs[i].flavour))
			jobs[i].flavour = CREATE;
		if (jobs[i].run == together)
			counters[jobs[i].flavour]++;
		MPI_Comm_dup(WORLD, &jobs[i].comm);
	}
	for (int i = 0; i < n; i++)
		CHECK(!pthread_create(&jobs[i].thread, NULL, thread_main, &jobs[i]));
	for (int i = 0; i < n; i++)
		CHECK(!pthread_join(jobs[i].thread, NULL));
	for (int f = 0; f < FLAVOURS; f++)
		if (flavour_possible(f))
			MPI_Win_unlock_all(common_window[f].win);
	meet(WORLD);
	for (int f = 0; f < FLAVOURS; f++) {
		int64_t sum;

		if (!flavour_possible(f))
			continue;
		own_begin(&common_window[f]);
		memcpy(&sum, common_window[f].mem, sizeof(sum));
		own_end(&common_window[f]);
		MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_INT64_T, MPI_SUM, WORLD);
		CHECK_EQ(sum, (int64_t)counters[f] * rounds * np);
		window_free(&common_window[f]);
	}
	for (int i = 0; i < n; i++)
		MPI_Comm_free(&jobs[i].comm);
	for (int f = 0; f < FLAVOURS; f++)
		if (flavour_possible(f))
			lock_targets(f);
	attach_meanwhile();
	add_strided();
	test_done("threads");
	return 0;
}
