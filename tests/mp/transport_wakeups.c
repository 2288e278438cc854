/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Wake-ups of threads that sleep on descriptors: in every rank several threads wait, each for a partner in the other rank, by
 * every call that waits. poll(2) checks its descriptors again before returning, after a delay that depends on the scheduler; here
 * the replaced poll checks only now and then, so that another thread has the time to read a wake-up that was meant for this one.
 * A thread that is in poll(2) while the wake-up descriptor is written must find the descriptor readable: else another thread has
 * emptied the descriptor. Arguments: rounds, threads.
 */
#include "mpi_test.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

#include "transport/core/tp.h"

extern struct hdl_tp *hdl_mpi_tp;	/* declared in p2p/p2p.h, which cannot be included beside tp.h */
int __real_poll(struct pollfd *fds, nfds_t n, int ms);
int __wrap_poll(struct pollfd *fds, nfds_t n, int ms);
ssize_t __real_write(int fd, const void *buf, size_t len);
ssize_t __wrap_write(int fd, const void *buf, size_t len);

static atomic_uint begun, ended;	/* of writes that end sleeps: how many have begun, and the last one's number
					 * that has ended */
static atomic_uint polls, emptied;
static _Thread_local uint64_t state;	/* 0: not a thread of the test's */

static int rounds;

struct job {
	pthread_t thread;
	MPI_Comm comm;
	int number;
};

static void nap(unsigned long us)
{
	struct timespec t = { 0, (long)us * 1000 };

	nanosleep(&t, NULL);
}

ssize_t __wrap_write(int fd, const void *buf, size_t len)
{
	unsigned mine, seen;
	ssize_t n;

	if (!hdl_mpi_tp || fd != hdl_mpi_tp->wake_fd)
		return __real_write(fd, buf, len);
	mine = atomic_fetch_add(&begun, 1) + 1;
	n = __real_write(fd, buf, len);
	seen = atomic_load(&ended);
	while (seen < mine && !atomic_compare_exchange_weak(&ended, &seen, mine))
		;
	return n;
}

int __wrap_poll(struct pollfd *fds, nfds_t n, int ms)
{
	unsigned before = atomic_load(&begun), longest = state % 2 ? 2000 : 50;
	uint64_t end = monotonic_ns() + (uint64_t)ms * 1000000;
	int some;

	if (!state || !hdl_mpi_tp || fds[n - 1].fd != hdl_mpi_tp->wake_fd)
		return __real_poll(fds, n, ms);
	atomic_fetch_add(&polls, 1);
	for (;;) {
		/* ended before the look, and begun after this call */
		bool written = (int)(atomic_load(&ended) - before) > 0;

		some = __real_poll(fds, n, 0);
		if (some)
			return some;
		if (written) {
			atomic_fetch_add(&emptied, 1);
			return 0;
		}
		if (ms >= 0 && monotonic_ns() >= end)
			return 0;
		nap(1 + mix(++state) % longest);
	}
}

/* ---- ways to wait ------------------------------------------------------------------------------------------------ */

static void by_probe(MPI_Comm comm, int *in)
{
	MPI_Probe(!me, MPI_ANY_TAG, comm, MPI_STATUS_IGNORE);
	MPI_Recv(in, 1, MPI_INT, !me, 1, comm, MPI_STATUS_IGNORE);
}

static void by_request(MPI_Comm comm, int *in, MPI_Request *req)
{
	(void)comm;
	(void)in;
	MPI_Start(req);
	MPI_Wait(req, MPI_STATUS_IGNORE);
}

static void *thread_main(void *arg)
{
	struct job *job = arg;
	MPI_Request req;
	int in = 0;

	state = mix((uint64_t)job->number) * 2 + (uint64_t)job->number % 2 + 2;
	MPI_Recv_init(&in, 1, MPI_INT, !me, 1, job->comm, &req);
	for (int i = 0; i < rounds; i++) {
		int out = i;

		if (me)
			nap(500 + mix(++state) % 2500);		/* the threads of the other rank have gone to sleep */
		if (job->number % 4 == 3) {
			MPI_Allreduce(MPI_IN_PLACE, &out, 1, MPI_INT, MPI_SUM, job->comm);
			CHECK_EQ(out, 2 * i);
			continue;
		}
		for (int half = 0; half < 2; half++)
			if (half == me)
				(i % 7 ? MPI_Send : MPI_Ssend)(&out, 1, MPI_INT, !me, 1, job->comm);
			else if (job->number % 4 == 1)
				by_probe(job->comm, &in);
			else if (job->number % 4 == 2)
				by_request(job->comm, &in, &req);
			else
				MPI_Recv(&in, 1, MPI_INT, !me, 1, job->comm, MPI_STATUS_IGNORE);
		CHECK_EQ(in, i);
	}
	MPI_Request_free(&req);
	state = 0;
	return NULL;
}

int main(int argc, char **argv)
{
	const char *behave = getenv("SHCA_BEHAVE");
	int provided, n = argc > 2 ? atoi(argv[2]) : 2;
	struct job *jobs = calloc((size_t)n, sizeof(*jobs));

	rounds = argc > 1 ? atoi(argv[1]) : 100;
	MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
	MPI_Comm_rank(MPI_COMM_WORLD, &me);
	MPI_Comm_size(MPI_COMM_WORLD, &np);
	MPI_Comm_dup(MPI_COMM_WORLD, &sync_comm);
	CHECK_EQ(provided, MPI_THREAD_MULTIPLE);
	CHECK_EQ(np, 2);
	for (int i = 0; i < n; i++) {
		jobs[i].number = i;
		MPI_Comm_dup(MPI_COMM_WORLD, &jobs[i].comm);
	}
	for (int i = 0; i < n; i++)
		CHECK(!pthread_create(&jobs[i].thread, NULL, thread_main, &jobs[i]));
	for (int i = 0; i < n; i++)
		CHECK(!pthread_join(jobs[i].thread, NULL));
	for (int i = 0; i < n; i++)
		MPI_Comm_free(&jobs[i].comm);
	free(jobs);
	if (getenv("WOKEN_SAYS"))
		fprintf(stderr, "rank %d: %u sleeps, %u ended by another thread, %u of these in vain\n", me, atomic_load(&polls),
			atomic_load(&begun), atomic_load(&emptied));
	if (atomic_load(&emptied))
		test_fail(__FILE__, __LINE__, "of %u sleeps %u were to be ended, and another thread read what was to end them",
			  atomic_load(&polls), atomic_load(&emptied));
	/* the other rank may come too late to wait */
	if (!me && behave && strstr(behave, "nowake"))
		CHECK(atomic_load(&polls));
	MPI_Comm_free(&sync_comm);
	MPI_Finalize();
	if (!me)
		printf("ok\n");
	return 0;
}
