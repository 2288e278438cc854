/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hd_partitioned: one message of several partitions, each made ready by one of several threads, beside a message of each partition by
 * MPI_Isend of its thread. An MPI before 4.0 has the second only.
 */
#include "bench.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TAG_DATA = 1, TAG_ACK = 1000, MOST_THREADS = 64 };

static int partitions = 32, threads = 8;

/* A round that the threads of rank 0 share. */
static struct {
	unsigned started __attribute__((aligned(64)));	/* number of the round that the threads may begin */
	unsigned through __attribute__((aligned(64)));	/* threads that are through with it, counted over all rounds */
	bool stop, ready;				/* ready: by MPI_Pready, else by MPI_Isend */
	size_t size;
	struct hdb_buffer buffer;
	MPI_Request request, *requests;
} work;

static const struct hdb_option options[] = {
	{0, "partitions", HDB_INT, &partitions, 1, NULL, "N", "partitions of a message, or messages (default 32)"},
	{0, "threads", HDB_INT, &threads, 1, NULL, "N", "threads of the sender that share them (default 8)"},
	{0},
};

static void part_of(int thread)
{
	for (int i = thread; i < partitions; i += threads) {
#if MPI_VERSION >= 4
		if (work.ready) {
			MPI_Pready(i, work.request);
			continue;
		}
#endif
		MPI_Isend(work.buffer.p + (size_t)i * work.size, (int)work.size, MPI_CHAR, 1, TAG_DATA + i, MPI_COMM_WORLD, &work.requests[i]);
	}
}

static void *thread_main(void *arg)
{
	int mine = (int)(intptr_t)arg;

	for (unsigned round = 1;; round++) {
		while (__atomic_load_n(&work.started, __ATOMIC_ACQUIRE) != round)
			sched_yield();
		if (work.stop)
			return NULL;
		part_of(mine);
		__atomic_fetch_add(&work.through, 1, __ATOMIC_RELEASE);
	}
}

/* Rank 0 is the first of its threads. */
static void all_parts(void)
{
	unsigned round = work.started + 1;

	__atomic_store_n(&work.started, round, __ATOMIC_RELEASE);
	part_of(0);
	while (__atomic_load_n(&work.through, __ATOMIC_ACQUIRE) != round * (unsigned)(threads - 1))
		sched_yield();
}

static void exchange(void)
{
	char ack[4] = {0};

	if (hdb_rank) {
#if MPI_VERSION >= 4
		if (work.ready) {
			MPI_Start(&work.request);
			MPI_Wait(&work.request, MPI_STATUS_IGNORE);
		}
#endif
		for (int i = 0; !work.ready && i < partitions; i++)
			MPI_Irecv(work.buffer.p + (size_t)i * work.size, (int)work.size, MPI_CHAR, 0, TAG_DATA + i, MPI_COMM_WORLD, &work.requests[i]);
		if (!work.ready)
			MPI_Waitall(partitions, work.requests, MPI_STATUSES_IGNORE);
		MPI_Send(ack, sizeof(ack), MPI_CHAR, 0, TAG_ACK, MPI_COMM_WORLD);
		return;
	}
#if MPI_VERSION >= 4
	if (work.ready)
		MPI_Start(&work.request);
#endif
	all_parts();
	if (work.ready)
		MPI_Wait(&work.request, MPI_STATUS_IGNORE);
	else
		MPI_Waitall(partitions, work.requests, MPI_STATUSES_IGNORE);
	MPI_Recv(ack, sizeof(ack), MPI_CHAR, 1, TAG_ACK, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/* µs of a message of all partitions with its acknowledgement. */
static double rounds(bool ready, int iterations, int skip, size_t *wrong)
{
	int64_t sum = 0;

	work.ready = ready;
#if MPI_VERSION >= 4
	if (ready && !hdb_rank)
		MPI_Psend_init(work.buffer.p, partitions, (MPI_Count)work.size, MPI_CHAR, 1, TAG_DATA, MPI_COMM_WORLD, MPI_INFO_NULL, &work.request);
	else if (ready)
		MPI_Precv_init(work.buffer.p, partitions, (MPI_Count)work.size, MPI_CHAR, 0, TAG_DATA, MPI_COMM_WORLD, MPI_INFO_NULL, &work.request);
#endif
	MPI_Barrier(MPI_COMM_WORLD);
	for (int i = 0; i < skip + iterations; i++) {
		const size_t bytes = work.size * (size_t)partitions;
		int64_t t;

		if (hdb.validate && !hdb_rank)
			hdb_fill(work.buffer.p, bytes, hdb_seed(i, 0, 1, ready));
		t = hdb_now();
		exchange();
		t = hdb_now() - t;
		if (i >= skip)
			sum += t;
		if (hdb.validate && hdb_rank)
			*wrong += hdb_check(work.buffer.p, bytes, hdb_seed(i, 0, 1, ready), ready ? "partitions" : "messages");
	}
	if (ready)
		MPI_Request_free(&work.request);
	return (double)sum / 1e3 / iterations;
}

int main(int argc, char **argv)
{
	static const struct hdb_program program = {
		.name = "hd_partitioned",
		.title = "MPI Partitioned Communication Test",
		.features = HDB_SIZES | HDB_LOOPS | HDB_VALIDATE,
		.defaults = {.sizes = {1024, 1024}, .iterations = {1000, 100}, .skip = {50, 5}, .large = 65536},
		.exact_ranks = 2,
		.initialised = true,
		.extra = options,
	};
	const char *columns[] = {"Size", "Isend(us)", "Partitioned(us)", NULL};
	char note[100];
	const char *notes[] = {note, NULL};
	pthread_t thread[MOST_THREADS];
	size_t wrong = 0;
	int provided, n = 1;

	MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
	hdb_start(argc, argv, &program);
	if (provided < MPI_THREAD_MULTIPLE)
		hdb_quit(HDB_FAIL, "MPI_THREAD_MULTIPLE is not provided");
	if (threads > MOST_THREADS)
		hdb_quit(HDB_USAGE, "--threads %d: at most %d", threads, MOST_THREADS);
	snprintf(note, sizeof(note), "Size: of a partition. [ partitions: %d ] [ threads: %d ]", partitions, threads);
	if (MPI_VERSION < 4)
		columns[2] = NULL;
	hdb_header(notes, columns);
	work.requests = malloc((size_t)partitions * sizeof(*work.requests));
	if (!work.requests)
		hdb_die("no memory for %d requests", partitions);
	for (int t = 1; !hdb_rank && t < threads; t++)
		if (pthread_create(&thread[t], NULL, thread_main, (void *)(intptr_t)t))
			hdb_die("no thread %d", t);
	for (size_t size = hdb.sizes.min; size <= hdb.sizes.max; size = hdb_next_size(size)) {
		double values[2];
		int iterations, skip;

		hdb_loops(size, &iterations, &skip);
		work.size = size;
		hdb_buffer_new(&work.buffer, size * (size_t)partitions);
		values[0] = rounds(false, iterations, skip, &wrong);
		if (MPI_VERSION >= 4) {
			values[1] = rounds(true, iterations, skip, &wrong);
			n = 2;
		}
		hdb_row((long long)size, values, n);
		wrong += hdb_guard(&work.buffer);
		hdb_buffer_free(&work.buffer);
	}
	work.stop = true;
	__atomic_store_n(&work.started, work.started + 1, __ATOMIC_RELEASE);
	for (int t = 1; !hdb_rank && t < threads; t++)
		pthread_join(thread[t], NULL);
	free(work.requests);
	return hdb_finish(wrong);
}
