/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How sessions begin and end (MPI-5.0 sections 11.2 to 11.4): a program per order of MPI_Init, MPI_Finalize, MPI_Session_init and
 * MPI_Session_finalize. Argument: the name of the order. Correct programs under any MPI with sessions.
 */
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "stopped.h"

static int me = -1, np = -1;	/* rank and size in mpi://WORLD, from the first session on */

#define CHECK(cond) \
	do { \
		if (!(cond)) { \
			fprintf(stderr, "%s:%d: rank %d of %d: %s\n", __FILE__, __LINE__, me, np, #cond); \
			_exit(1); \
		} \
	} while (0)

static MPI_Session session_new(const char *level)
{
	MPI_Info info = MPI_INFO_NULL;
	MPI_Session s;

	if (level) {
		MPI_Info_create(&info);
		MPI_Info_set(info, "thread_level", level);
	}
	CHECK(!MPI_Session_init(info, MPI_ERRORS_ARE_FATAL, &s));
	if (info != MPI_INFO_NULL)
		MPI_Info_free(&info);
	return s;
}

static MPI_Comm comm_of(MPI_Session s, const char *pset, const char *tag)
{
	MPI_Group g;
	MPI_Comm c;

	CHECK(!MPI_Group_from_session_pset(s, pset, &g));
	CHECK(g != MPI_GROUP_NULL);
	CHECK(!MPI_Comm_create_from_group(g, tag, MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &c));
	CHECK(c != MPI_COMM_NULL);
	MPI_Group_free(&g);
	return c;
}

/* Sends, receives, reduces, makes further communicators. */
static void traffic(MPI_Comm c)
{
	int r, n, sum, from = -1, twice[2], big = 100000;
	char *out = malloc(big), *in = malloc(big);
	MPI_Comm dup, half;

	MPI_Comm_rank(c, &r);
	MPI_Comm_size(c, &n);
	MPI_Sendrecv(&r, 1, MPI_INT, (r + 1) % n, 5, &from, 1, MPI_INT, (r + n - 1) % n, 5, c, MPI_STATUS_IGNORE);
	CHECK(from == (r + n - 1) % n);
	memset(out, r + 1, big);
	MPI_Sendrecv(out, big, MPI_CHAR, (r + 1) % n, 6, in, big, MPI_CHAR, (r + n - 1) % n, 6, c, MPI_STATUS_IGNORE);
	CHECK(in[0] == from + 1 && in[big - 1] == from + 1);
	MPI_Allreduce(&r, &sum, 1, MPI_INT, MPI_SUM, c);
	CHECK(sum == n * (n - 1) / 2);
	MPI_Comm_dup(c, &dup);
	MPI_Comm_split(dup, r % 2, r, &half);
	MPI_Allreduce((int[]){ 1, r }, twice, 2, MPI_INT, MPI_SUM, half);
	CHECK(twice[0] == (n + 1 - r % 2) / 2);
	MPI_Comm_free(&half);
	MPI_Comm_free(&dup);
	MPI_Barrier(c);
	free(out);
	free(in);
}

static bool has_ended(pid_t pid)
{
	char state = process_state(pid);

	return !state || state == 'X' || state == 'Z';
}

static void know(MPI_Session s)
{
	MPI_Group g;

	CHECK(!MPI_Group_from_session_pset(s, "mpi://WORLD", &g));
	MPI_Group_rank(g, &me);
	MPI_Group_size(g, &np);
	MPI_Group_free(&g);
}

static void one_session(const char *level, const char *tag)
{
	MPI_Session s = session_new(level);
	MPI_Comm c;

	know(s);
	c = comm_of(s, "mpi://WORLD", tag);
	traffic(c);
	MPI_Comm_disconnect(&c);
	c = comm_of(s, "mpi://SELF", tag);
	traffic(c);
	MPI_Comm_free(&c);
	CHECK(!MPI_Session_finalize(&s));
	CHECK(s == MPI_SESSION_NULL);
}

/* ---- the orders ------------------------------------------------------------------------------------------ */

static void states(int initialized, int finalized)
{
	int flag;

	MPI_Initialized(&flag);
	CHECK(flag == initialized);
	MPI_Finalized(&flag);
	CHECK(flag == finalized);
}

/* Sessions one after the other, without the world model. */
static void only(void)
{
	states(0, 0);
	for (int i = 0; i < 5; i++) {
		one_session(i % 2 ? "MPI_THREAD_SINGLE" : NULL, "only");
		states(0, 0);	/* of the world model */
	}
}

/* Two sessions at a time, and communicators of one of them outlive the other. */
static void overlap(void)
{
	MPI_Session a = session_new(NULL), b = session_new("MPI_THREAD_MULTIPLE");
	MPI_Comm ca, cb;

	know(a);
	CHECK(a != b);
	ca = comm_of(a, "mpi://WORLD", "a");
	cb = comm_of(b, "mpi://WORLD", "b");
	traffic(ca);
	traffic(cb);
	MPI_Comm_free(&ca);
	MPI_Session_finalize(&a);
	traffic(cb);
	MPI_Comm_free(&cb);
	MPI_Session_finalize(&b);
}

/* Section 11.3: MPI_Finalize ends the world model alone. */
static void world(void)
{
	int rank, class = 0;
	MPI_Session s;
	MPI_Comm c;

	MPI_Init(NULL, NULL);
	states(1, 0);
	traffic(MPI_COMM_WORLD);
	s = session_new(NULL);
	know(s);
	c = comm_of(s, "mpi://WORLD", "world");
	traffic(c);
	traffic(MPI_COMM_WORLD);
	MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);	/* for errors that are raised without a communicator */
	MPI_Finalize();
	states(1, 1);
	traffic(c);
	MPI_Error_class(MPI_Comm_rank(MPI_COMM_WORLD, &rank), &class);
	CHECK(class == MPI_ERR_COMM);
	MPI_Comm_free(&c);
	MPI_Session_finalize(&s);
	one_session(NULL, "again");
}

/* Init, finalize, init: the sessions come when all is closed. */
static void after(void)
{
	MPI_Init(NULL, NULL);
	traffic(MPI_COMM_WORLD);
	MPI_Finalize();
	states(1, 1);
	for (int i = 0; i < 3; i++)
		one_session(NULL, "after");
	states(1, 1);
}

/* The world model between sessions. */
static void between(void)
{
	one_session("MPI_THREAD_SINGLE", "first");
	states(0, 0);
	MPI_Init(NULL, NULL);
	traffic(MPI_COMM_WORLD);
	one_session(NULL, "inside");
	traffic(MPI_COMM_WORLD);
	MPI_Finalize();
	one_session(NULL, "last");
}

/* Sessions are local: only every other rank has any, and those meet. */
static void some(void)
{
	int rank = atoi(getenv("PMIX_RANK") ? getenv("PMIX_RANK") : "0"), ranks[64], n = 0;
	MPI_Group all, odd;
	MPI_Session s;
	MPI_Comm c;

	if (rank % 2 == 0)
		return;
	s = session_new(NULL);
	know(s);
	CHECK(me == rank);
	for (int r = 1; r < np && n < 64; r += 2)
		ranks[n++] = r;
	MPI_Group_from_session_pset(s, "mpi://WORLD", &all);
	MPI_Group_incl(all, n, ranks, &odd);
	MPI_Comm_create_from_group(odd, "odd", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &c);
	traffic(c);
	MPI_Comm_free(&c);
	MPI_Group_free(&all);
	MPI_Group_free(&odd);
	MPI_Session_finalize(&s);
}

/* Rank 0 ends a first session, and opens a second one, while the other ranks wait for rank 0 with the communicator of their first
 * session. */
static void uneven(void)
{
	MPI_Session s = session_new(NULL);
	MPI_Comm c;

	know(s);
	if (!me) {
		c = comm_of(s, "mpi://SELF", "self");
		traffic(c);
		MPI_Comm_free(&c);
		MPI_Session_finalize(&s);
		s = session_new(NULL);
	}
	c = comm_of(s, "mpi://WORLD", "all");
	traffic(c);
	MPI_Comm_disconnect(&c);
	MPI_Session_finalize(&s);
}

/* Rank 0 has a session open in MPI_Finalize, the other ranks have none: they end without waiting for rank 0. */
static void stays(void)
{
	MPI_Session s = MPI_SESSION_NULL;
	MPI_Comm c;

	MPI_Init(NULL, NULL);
	MPI_Comm_rank(MPI_COMM_WORLD, &me);
	MPI_Comm_size(MPI_COMM_WORLD, &np);
	traffic(MPI_COMM_WORLD);
	if (!me)
		s = session_new(NULL);
	MPI_Finalize();
	if (me)
		return;
	usleep(300000);	/* the other ranks have ended */
	c = comm_of(s, "mpi://SELF", "self");
	traffic(c);
	MPI_Comm_free(&c);
	MPI_Session_finalize(&s);
}

/* The process of rank 0 ends after the last session; the other ranks go on without rank 0. */
static void leaves(void)
{
	MPI_Session s = session_new(NULL);
	MPI_Group g, rest;
	MPI_Comm c;
	int got;

	know(s);
	c = comm_of(s, "mpi://WORLD", "all");
	traffic(c);
	MPI_Comm_disconnect(&c);
	if (!me) {
		MPI_Session_finalize(&s);
		return;
	}
	MPI_Group_from_session_pset(s, "mpi://WORLD", &g);
	MPI_Group_excl(g, 1, (int[]){ 0 }, &rest);
	for (int i = 0; i < 3; i++) {
		usleep(400000);		/* the end of rank 0 is noticed meanwhile */
		MPI_Comm_create_from_group(rest, "rest", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &c);
		traffic(c);
		MPI_Send(&me, 1, MPI_INT, me % (np - 1), 9, c);
		MPI_Recv(&got, 1, MPI_INT, MPI_ANY_SOURCE, 9, c, MPI_STATUS_IGNORE);
		CHECK(got == (me == 1 ? np - 1 : me - 1));
		MPI_Comm_free(&c);
	}
	MPI_Group_free(&g);
	MPI_Group_free(&rest);
	MPI_Session_finalize(&s);
}

/* Rank 0 ends while rank 1, which never had a message of rank 0, waits for the last rank: rank 0 has not failed. */
static void strangers(void)
{
	MPI_Session s = MPI_SESSION_NULL;
	int a = 1;

	MPI_Init(NULL, NULL);
	MPI_Comm_rank(MPI_COMM_WORLD, &me);
	MPI_Comm_size(MPI_COMM_WORLD, &np);
	if (me)
		s = session_new(NULL);
	if (me == np - 1)
		usleep(1500000);	/* rank 1 looks at processes meanwhile */
	MPI_Bcast(&a, 1, MPI_INT, np - 1, MPI_COMM_WORLD);
	MPI_Finalize();
	if (!me)
		return;
	usleep(1200000);
	MPI_Session_finalize(&s);
}

static MPI_Session by_other;

static void *session_for_once(void *arg)
{
	MPI_Comm c;

	usleep(300000);		/* the main thread is in MPI_Finalize, most likely */
	MPI_Session_finalize(&by_other);
	by_other = session_new("MPI_THREAD_MULTIPLE");
	c = comm_of(by_other, "mpi://WORLD", "beside");
	traffic(c);
	MPI_Comm_free(&c);
	MPI_Session_finalize(&by_other);
	return arg;
}

/* A thread ends its session and begins another one, while MPI_Finalize of the main thread waits for a rank which enters
 * MPI_Finalize only behind the traffic of that session. (Sections 11.3.1 and 11.3.4: both calls are local.) */
static void beside(void)
{
	MPI_Session s;
	pthread_t t;
	int provided;

	MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &provided);
	s = session_new("MPI_THREAD_MULTIPLE");
	by_other = session_new("MPI_THREAD_MULTIPLE");
	know(s);
	if (me) {
		session_for_once(NULL);
	} else {
		/* the last session ends in MPI_Finalize's wait */
		MPI_Session_finalize(&s);
		CHECK(!pthread_create(&t, NULL, session_for_once, NULL));
	}
	MPI_Finalize();
	if (me)
		MPI_Session_finalize(&s);
	else
		pthread_join(t, NULL);
}

/* Rank 1's process ends while rank 0 makes no call, and waits for that end. (No rank waits for other ranks at its exit.) */
static void busy(void)
{
	MPI_Session s = session_new(NULL);
	MPI_Comm c;

	know(s);
	c = comm_of(s, "mpi://WORLD", "busy");
	MPI_Barrier(c);
	int pid = getpid();
	MPI_Bcast(&pid, 1, MPI_INT, 1, c);
	MPI_Comm_free(&c);
	MPI_Session_finalize(&s);
	for (int i = 0; !me && !has_ended(pid); i++, usleep(10000))
		CHECK(i < 3000);
}

/* A child of fork that calls exit does not end the parent's part in the job. */
static void child(void)
{
	MPI_Session s = session_new(NULL);
	MPI_Comm c;
	pid_t pid;

	know(s);
	c = comm_of(s, "mpi://WORLD", "child");
	traffic(c);
	MPI_Comm_free(&c);
	MPI_Session_finalize(&s);
	pid = fork();
	if (!pid)
		exit(0);
	CHECK(pid > 0);
	int status;
	CHECK(waitpid(pid, &status, 0) == pid && !status);
	one_session(NULL, "parent");
}

static void *thread_run(void *arg)
{
	char tag[32];

	for (int i = 0; i < 4; i++) {
		MPI_Session s = session_new("MPI_THREAD_MULTIPLE");
		MPI_Comm c;

		snprintf(tag, sizeof tag, "thread %d", (int)(long)arg);
		c = comm_of(s, "mpi://WORLD", tag);
		traffic(c);
		MPI_Comm_free(&c);
		MPI_Session_finalize(&s);
	}
	return NULL;
}

/* Section 11.4.1: any thread may make a session at any time; communicators made at once differ by their string tags. */
static void threads(void)
{
	pthread_t t[4];

	for (long i = 0; i < 4; i++)
		CHECK(!pthread_create(&t[i], NULL, thread_run, (void *)i));
	for (int i = 0; i < 4; i++)
		pthread_join(t[i], NULL);
	one_session(NULL, "joined");
}

/* HEDDLE_DEVICE names a device that does not exist: each attempt to start a session fails. */
static void refused(void)
{
	for (int i = 0; i < 2; i++) {
		MPI_Session s = (MPI_Session)&i;
		int rc = MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &s), class = -1;

		MPI_Error_class(rc, &class);
		CHECK(class == MPI_ERR_OTHER);
		CHECK(s == MPI_SESSION_NULL);
	}
	states(0, 0);
}

static const struct order {
	const char *name;
	void (*run)(void);
} orders[] = {
	{"only", only},       {"overlap", overlap}, {"world", world},     {"after", after},
	{"between", between}, {"some", some},       {"uneven", uneven},   {"stays", stays},
	{"leaves", leaves},   {"child", child},     {"threads", threads}, {"refused", refused},
	{"beside", beside},   {"busy", busy},       {"strangers", strangers},
};

int main(int argc, char **argv)
{
	for (size_t i = 0; i < sizeof orders / sizeof *orders; i++)
		if (argc > 1 && !strcmp(argv[1], orders[i].name)) {
			orders[i].run();
			if (me <= 0)
				printf("%s: ok\n", argv[1]);
			return 0;
		}
	fprintf(stderr, "no order %s\n", argc > 1 ? argv[1] : "");
	return 2;
}
