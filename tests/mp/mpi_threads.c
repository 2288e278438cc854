/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * MPI_THREAD_MULTIPLE: in every rank several threads, each with one job and a partner thread of the same job in the other ranks:
 * messages by a tag of the thread on one communicator, on a communicator of the thread, wildcards, Test and Iprobe loops,
 * nonblocking operations, collectives, constructors of communicators, messages to the rank itself, errors, and one thread that
 * only waits. Arguments: rounds, threads of each job (1).
 */
#include "mpi_test.h"

#include <pthread.h>
#include <time.h>

#define MAX	70000

static int rounds = 60, copies = 1;

struct job {
	const char *name;
	void (*run)(struct job *job);
	int number;		/* of the thread: the tag where threads share a communicator */
	MPI_Comm comm;		/* the job's communicator */
	pthread_t thread;
};

static int right(int by)
{
	return (me + by) % np;
}

static int left(int by)
{
	return (me + np - by) % np;
}

static void nap(long us)
{
	struct timespec t = { 0, us * 1000 };

	nanosleep(&t, NULL);
}

/* The same random numbers in all ranks, so that each rank knows the messages of all ranks. */
static uint64_t common(struct job *job, int round)
{
	return mix(mix((uint64_t)job->number) ^ (uint64_t)round);
}

/* ---- the jobs ---------------------------------------------------------------------------------------------------- */

/* Own tag on MPI_COMM_WORLD: even ranks of the ring send first. */
static void own_tag(struct job *job)
{
	char *out = malloc(MAX), *in = malloc(MAX);
	MPI_Status s;
	int n;

	for (int i = 0; i < rounds; i++) {
		uint64_t c = common(job, i);
		size_t len = c % 4 ? c % 200 : c % MAX;
		int to = right(1), from = left(1);

		fill(out, len, seed_of(me, to, job->number, i));
		if (me % 2 == 0) {
			(i % 5 ? MPI_Send : MPI_Ssend)(out, (int)len, MPI_BYTE, to, job->number, MPI_COMM_WORLD);
			MPI_Recv(in, MAX, MPI_BYTE, from, job->number, MPI_COMM_WORLD, &s);
		} else {
			MPI_Recv(in, MAX, MPI_BYTE, from, job->number, MPI_COMM_WORLD, &s);
			(i % 5 ? MPI_Send : MPI_Ssend)(out, (int)len, MPI_BYTE, to, job->number, MPI_COMM_WORLD);
		}
		MPI_Get_count(&s, MPI_BYTE, &n);
		CHECK_EQ(n, len);
		CHECK_EQ(s.MPI_SOURCE, from);
		CHECK_EQ(s.MPI_TAG, job->number);
		VERIFY(in, len, seed_of(from, me, job->number, i));
	}
	free(out);
	free(in);
}

/* Bursts of nonblocking operations on an own communicator, completed in every way. */
static void nonblocking(struct job *job)
{
	enum { N = 12 };
	char *out[N], *in[N];
	MPI_Request req[2 * N];

	for (int k = 0; k < N; k++) {
		out[k] = malloc(MAX);
		in[k] = malloc(MAX);
	}
	for (int i = 0; i < rounds; i++) {
		int by = 1 + i % (np - 1), done = 0, index, count, some[2 * N];
		size_t len[N];

		for (int k = 0; k < N; k++) {
			uint64_t c = common(job, i * N + k);

			len[k] = c % 5 ? c % 300 : c % MAX;
			MPI_Irecv(in[k], MAX, MPI_BYTE, left(by), k, job->comm, &req[k]);
		}
		for (int k = 0; k < N; k++) {
			fill(out[k], len[k], seed_of(me, right(by), k, i));
			MPI_Isend(out[k], (int)len[k], MPI_BYTE, right(by), k, job->comm, &req[N + k]);
		}
		switch (i % 4) {
		case 0:
			MPI_Waitall(2 * N, req, MPI_STATUSES_IGNORE);
			break;
		case 1:
			for (int k = 0; k < 2 * N; k++) {
				MPI_Waitany(2 * N, req, &index, MPI_STATUS_IGNORE);
				CHECK(index != MPI_UNDEFINED);
			}
			break;
		case 2:
			for (; done < 2 * N; done += count)
				MPI_Waitsome(2 * N, req, &count, some, MPI_STATUSES_IGNORE);
			break;
		case 3:
			for (done = 0; !done;)
				MPI_Testall(2 * N, req, &done, MPI_STATUSES_IGNORE);
			break;
		}
		for (int k = 0; k < N; k++)
			VERIFY(in[k], len[k], seed_of(left(by), me, k, i));
	}
	for (int k = 0; k < N; k++) {
		free(out[k]);
		free(in[k]);
	}
}

/* Every rank sends to every rank, and receives from any source, or by any tag. A peer may be a round ahead. */
static void wildcards(struct job *job)
{
	char *out = malloc(MAX), *in = malloc(MAX);
	MPI_Request *req = malloc(sizeof(*req) * (size_t)np);
	MPI_Status s;
	int n;

	for (int i = 0; i < rounds; i++) {
		size_t len = common(job, i) % 12000;
		int seen = 0;

		fill(out, len, seed_of(me, 0, 0, i));
		for (int r = 0; r < np; r++)
			MPI_Isend(out, (int)len, MPI_BYTE, r, i, job->comm, &req[r]);
		for (int r = 0; r < np; r++) {
			int source = i % 2 ? MPI_ANY_SOURCE : r, tag = i % 2 ? i : MPI_ANY_TAG;

			if (i % 3 == 0)
				MPI_Probe(source, tag, job->comm, &s);
			MPI_Recv(in, MAX, MPI_BYTE, source, tag, job->comm, &s);
			CHECK_EQ(s.MPI_TAG, i);
			MPI_Get_count(&s, MPI_BYTE, &n);
			CHECK_EQ(n, len);
			VERIFY(in, len, seed_of(s.MPI_SOURCE, 0, 0, i));
			seen |= 1 << s.MPI_SOURCE;
		}
		CHECK_EQ(seen, (1 << np) - 1);
		MPI_Waitall(np, req, MPI_STATUSES_IGNORE);
	}
	free(req);
	free(out);
	free(in);
}

/* Never in a blocking call. */
static void test_loops(struct job *job)
{
	char *out = malloc(MAX), *in = malloc(MAX);
	MPI_Request req[2];
	MPI_Status s;

	for (int i = 0; i < rounds; i++) {
		uint64_t c = common(job, i);
		size_t len = c % 3 ? c % 100 : c % MAX;
		int flag, index, n;

		fill(out, len, seed_of(me, right(1), i, 1));
		MPI_Isend(out, (int)len, MPI_BYTE, right(1), i, job->comm, &req[0]);
		if (i % 2) {
			do
				MPI_Iprobe(MPI_ANY_SOURCE, i, job->comm, &flag, &s);
			while (!flag);
			CHECK_EQ(s.MPI_SOURCE, left(1));
			MPI_Get_count(&s, MPI_BYTE, &n);
			CHECK_EQ(n, len);
		}
		MPI_Irecv(in, MAX, MPI_BYTE, left(1), i, job->comm, &req[1]);
		if (i % 4 < 2) {
			do
				MPI_Test(&req[1], &flag, MPI_STATUS_IGNORE);
			while (!flag);
		}
		do
			MPI_Testany(2, req, &index, &flag, MPI_STATUS_IGNORE);
		while (!flag || index != MPI_UNDEFINED);
		VERIFY(in, len, seed_of(left(1), me, i, 1));
	}
	free(out);
	free(in);
}

static void collectives(struct job *job)
{
	long in[64], out[64];
	char *big = malloc(MAX);
	MPI_Request req;

	for (int i = 0; i < rounds; i++) {
		size_t len = common(job, i) % MAX;
		int root = i % np;

		for (int k = 0; k < 64; k++)
			in[k] = me + k * i;
		MPI_Allreduce(in, out, 64, MPI_LONG, MPI_SUM, job->comm);
		for (int k = 0; k < 64; k++)
			CHECK_EQ(out[k], (long)np * (np - 1) / 2 + (long)np * k * i);
		if (me == root)
			fill(big, len, seed_of(root, 0, 0, i));
		MPI_Bcast(big, (int)len, MPI_BYTE, root, job->comm);
		VERIFY(big, len, seed_of(root, 0, 0, i));
		MPI_Iallreduce(in, out, 1, MPI_LONG, MPI_MAX, job->comm, &req);
		MPI_Wait(&req, MPI_STATUS_IGNORE);
		CHECK_EQ(out[0], np - 1);
		MPI_Ibarrier(job->comm, &req);
		for (int flag = 0; !flag;)
			MPI_Test(&req, &flag, MPI_STATUS_IGNORE);
		if (i % 7 == 0)
			MPI_Barrier(job->comm);
	}
	free(big);
}

/* Communicators made by several threads at a time must not share a context: a message on one would be received on
 * another. */
static void constructors(struct job *job)
{
	for (int i = 0; i < rounds / 4 + 1; i++) {
		MPI_Comm dup, half;
		int v = 1000 * job->number + i, got, r, n;

		MPI_Comm_dup(job->comm, &dup);
		MPI_Comm_split(dup, me % 2, -me, &half);
		MPI_Sendrecv(&v, 1, MPI_INT, right(1), 7, &got, 1, MPI_INT, left(1), 7, dup, MPI_STATUS_IGNORE);
		CHECK_EQ(got, v);
		MPI_Comm_rank(half, &r);
		MPI_Comm_size(half, &n);
		MPI_Sendrecv(&v, 1, MPI_INT, (r + 1) % n, 7, &got, 1, MPI_INT, (r + n - 1) % n, 7, half,
			     MPI_STATUS_IGNORE);
		CHECK_EQ(got, v);
		MPI_Comm_free(&half);
		MPI_Comm_dup(MPI_COMM_SELF, &half);
		MPI_Sendrecv(&v, 1, MPI_INT, 0, 9, &got, 1, MPI_INT, 0, 9, half, MPI_STATUS_IGNORE);
		CHECK_EQ(got, v);
		MPI_Comm_free(&half);
		MPI_Comm_free(&dup);
	}
}

/* Between two threads of one rank, with all that would never complete in a rank with one. */
static void *self_sender(void *arg)
{
	struct job *job = arg;
	char *out = malloc(MAX);

	for (int i = 0; i < rounds; i++) {
		size_t len = common(job, i) % MAX;

		if (i % 8 == 0)
			nap(300);	/* the receiver waits, asleep, for a message that only this thread will send */
		fill(out, len, seed_of(me, me, job->number, i));
		(i % 2 ? MPI_Ssend : MPI_Send)(out, (int)len, MPI_BYTE, me, i, job->comm);
	}
	free(out);
	return NULL;
}

static void self_pair(struct job *job)
{
	char *in = malloc(MAX);
	pthread_t sender;
	MPI_Status s;
	int n;

	CHECK(!pthread_create(&sender, NULL, self_sender, job));
	for (int i = 0; i < rounds; i++) {
		if (i % 8 == 4)
			nap(300);
		MPI_Recv(in, MAX, MPI_BYTE, i % 3 ? me : MPI_ANY_SOURCE, i, job->comm, &s);
		MPI_Get_count(&s, MPI_BYTE, &n);
		CHECK_EQ(n, common(job, i) % MAX);
		VERIFY(in, (size_t)n, seed_of(me, me, job->number, i));
	}
	CHECK(!pthread_join(sender, NULL));
	free(in);
}

/* A handler may call MPI; a text is the one of the call that failed. */
static _Thread_local int handled;

static void on_error(MPI_Comm *comm, int *code, ...)
{
	char text[MPI_MAX_ERROR_STRING];
	int n, rank;

	MPI_Error_string(*code, text, &n);
	MPI_Comm_rank(*comm, &rank);
	MPI_Send(&n, 0, MPI_INT, rank, 5, *comm);	/* to itself */
	MPI_Recv(&n, 0, MPI_INT, rank, 5, *comm, MPI_STATUS_IGNORE);
	handled++;
}

static void errors(struct job *job)
{
	char text[MPI_MAX_ERROR_STRING], want[64];
	MPI_Errhandler mine;
	int rc, n, dummy = 0, got, times = rounds < 20 ? rounds : 20;	/* texts are kept of the last 255 errors */
	MPI_Comm comm;

	MPI_Comm_dup(job->comm, &comm);
	MPI_Comm_create_errhandler(on_error, &mine);
	for (int i = 0; i < times; i++) {
		int wrong = 1000 * (job->number + 1) + i;

		MPI_Comm_set_errhandler(comm, i % 2 ? mine : MPI_ERRORS_RETURN);
		rc = MPI_Send(&dummy, 1, MPI_INT, wrong, 0, comm);
		CHECK(rc != MPI_SUCCESS);
		MPI_Error_string(rc, text, &n);
		snprintf(want, sizeof(want), "dest %d", wrong);
		CHECK(strstr(text, want));
		/* the reason comes from below */
		MPI_Send(&text, 20 + job->number, MPI_BYTE, me, 3, comm);
		rc = MPI_Recv(&got, 4, MPI_BYTE, me, 3, comm, MPI_STATUS_IGNORE);
		MPI_Error_class(rc, &n);
		CHECK_EQ(n, MPI_ERR_TRUNCATE);
		MPI_Error_string(rc, text, &n);
		snprintf(want, sizeof(want), "truncated: %d bytes", 20 + job->number);
		CHECK(strstr(text, want));
	}
	CHECK_EQ(handled, times / 2 * 2);
	MPI_Errhandler_free(&mine);
	MPI_Comm_free(&comm);
}

/* Sleeps in one receive while the other threads work, until the partner in the last rank has finished all rounds. */
static void waits(struct job *job)
{
	int token = 0;

	if (me == np - 1) {
		for (int i = 0; i < rounds; i++) {
			nap(500);
			MPI_Allreduce(MPI_IN_PLACE, &token, 1, MPI_INT, MPI_SUM, MPI_COMM_SELF);
		}
		token = 77;
		for (int r = 0; r < np - 1; r++)
			MPI_Send(&token, 1, MPI_INT, r, 1, job->comm);
		return;
	}
	MPI_Recv(&token, 1, MPI_INT, np - 1, 1, job->comm, MPI_STATUS_IGNORE);
	CHECK_EQ(token, 77);
}

/* ------------------------------------------------------------------------------------------------------------------ */

static void *thread_main(void *arg)
{
	struct job *job = arg;

	job->run(job);
	return NULL;
}

int main(int argc, char **argv)
{
	static const struct { const char *name; void (*run)(struct job *); } kinds[] = {
		{ "own_tag", own_tag }, { "nonblocking", nonblocking }, { "wildcards", wildcards },
		{ "test_loops", test_loops }, { "collectives", collectives }, { "constructors", constructors },
		{ "constructors", constructors }, { "self_pair", self_pair }, { "errors", errors }, { "waits", waits },
	};
	const int n = (int)(sizeof(kinds) / sizeof(kinds[0]));
	const char *only = argc > 3 ? argv[3] : NULL;
	struct job *jobs;
	int provided, main_thread;

	MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
	if (provided != MPI_THREAD_MULTIPLE) {
		printf("MPI_THREAD_MULTIPLE is not provided\n");
		MPI_Abort(MPI_COMM_WORLD, 1);
	}
	MPI_Is_thread_main(&main_thread);
	CHECK(main_thread);
	MPI_Comm_rank(MPI_COMM_WORLD, &me);
	MPI_Comm_size(MPI_COMM_WORLD, &np);
	MPI_Comm_dup(MPI_COMM_WORLD, &sync_comm);
	if (argc > 1)
		rounds = atoi(argv[1]);
	if (argc > 2)
		copies = atoi(argv[2]);
	CHECK(np > 1);
	jobs = calloc((size_t)(n * copies), sizeof(*jobs));
	for (int i = 0; i < n * copies; i++) {
		jobs[i] = (struct job){ .name = kinds[i % n].name, .run = kinds[i % n].run, .number = i };
		MPI_Comm_dup(MPI_COMM_WORLD, &jobs[i].comm);
	}
	for (int i = 0; i < n * copies; i++)
		if (!only || !strcmp(only, jobs[i].name))
			CHECK(!pthread_create(&jobs[i].thread, NULL, thread_main, &jobs[i]));
	for (int i = 0; i < n * copies; i++)
		if (!only || !strcmp(only, jobs[i].name))
			CHECK(!pthread_join(jobs[i].thread, NULL));
	for (int i = 0; i < n * copies; i++)
		MPI_Comm_free(&jobs[i].comm);
	free(jobs);
	test_done("threads");
	return 0;
}
