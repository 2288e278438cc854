/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Errors as a user meets them, one per run: the argument names the error. mpi_errors.sh checks the output and the exit status.
 */
#include "mpi_test.h"

#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

/* Errors that calls return with MPI_ERRORS_RETURN, with peers of the job. */
static void returned(void)
{
	char text[MPI_MAX_ERROR_STRING], buf[100];
	int rc, class, len, peer = me ^ 1;

	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	rc = MPI_Send(buf, 1, MPI_INT, np, 0, MPI_COMM_WORLD);
	MPI_Error_class(rc, &class);
	MPI_Error_string(rc, text, &len);
	CHECK_EQ(class, MPI_ERR_RANK);
	CHECK(strstr(text, "MPI_Send") && strstr(text, "dest") && strstr(text, "MPI_COMM_WORLD"));
	CHECK_EQ(len, strlen(text));
	rc = MPI_Bcast(buf, 1, MPI_INT, -1, MPI_COMM_WORLD);
	MPI_Error_class(rc, &class);
	CHECK_EQ(class, MPI_ERR_ROOT);
	if (peer < np) {
		MPI_Request r;

		MPI_Isend(buf, 100, MPI_BYTE, peer, 1, MPI_COMM_WORLD, &r);
		rc = MPI_Recv(buf, 40, MPI_BYTE, peer, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		MPI_Error_string(rc, text, &len);
		CHECK(strstr(text, "100") && strstr(text, "40"));
		MPI_Wait(&r, MPI_STATUS_IGNORE);
	}
}

/* Waits until the job's standard error has `line`; fails unless `other` is there, too. */
static void see(const char *path, const char *line, const char *other)
{
	char text[16384];
	int found = 0;

	for (int i = 0; i < 2000 && !found; i++) {
		FILE *f = fopen(path, "r");
		struct timespec ts = { 0, 10000000 };
		size_t n;

		CHECK(f);
		n = fread(text, 1, sizeof(text) - 1, f);
		text[n] = 0;
		fclose(f);
		found = strstr(text, line) != NULL;
		nanosleep(&ts, NULL);
	}
	CHECK(found);
	CHECK(strstr(text, other));
}

/* Rank 0's report. */
static void see_report(const char *path)
{
	see(path, "waits to receive from rank 1, tag 77, MPI_COMM_WORLD", "in MPI_Recv");
}

/* Rank 0 is in MPI_Finalize, and rank 1 has not received messages that rank 0 has sent and has not waited for. Rank 1 receives
 * when rank 0 has reported them. */
static void unreceived(const char *path)
{
	char buf[100] = "";
	MPI_Request r;

	for (int i = 0; me == 0 && i < 3; i++) {
		MPI_Issend(buf, (int)sizeof(buf) - i, MPI_BYTE, 1, 5 + i, MPI_COMM_WORLD, &r);
		MPI_Request_free(&r);
	}
	if (me == 1)
		see(path, "has waited for 0.1 s", "MPI_Finalize waits for a send to rank 1, tag ");
	for (int i = 0; me == 1 && i < 3; i++)
		MPI_Recv(buf, sizeof(buf), MPI_BYTE, 0, 5 + i, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/* Rank 0 waits for ever; rank 1 asks for the hang report of rank 0 by SIGUSR1, finds the report in the job's standard error, and
 * sends the message. */
static void report(const char *path)
{
	pid_t pid = getpid();
	int v = 0;

	if (me == 0) {
		MPI_Send(&pid, sizeof(pid), MPI_BYTE, 1, 0, MPI_COMM_WORLD);
		MPI_Recv(&v, 1, MPI_INT, 1, 77, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	} else if (me == 1) {
		MPI_Recv(&pid, sizeof(pid), MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		CHECK_EQ(kill(pid, SIGUSR1), 0);
		see_report(path);
		MPI_Send(&v, 1, MPI_INT, 0, 77, MPI_COMM_WORLD);
	}
}

static void *writes(void *arg)
{
	sem_t *sem = arg;

	flockfile(stderr);
	sem_post(&sem[0]);
	sem_wait(&sem[1]);
	funlockfile(stderr);
	return NULL;
}

/* The signal comes in this thread, while another one writes to standard error: the handler must not wait for that. */
static void *is_asked(void *arg)
{
	struct timespec ts = { 0, 300000000 };
	sem_t *sem = arg;
	sigset_t usr1;

	sem_wait(&sem[0]);
	nanosleep(&ts, NULL);		/* mostly, the main thread waits by now */
	sigemptyset(&usr1);
	sigaddset(&usr1, SIGUSR1);
	pthread_sigmask(SIG_UNBLOCK, &usr1, NULL);
	pthread_kill(pthread_self(), SIGUSR1);
	sem_post(&sem[1]);
	return NULL;
}

static void report_threads(const char *path)
{
	pthread_t threads[2];
	sem_t sem[2];
	sigset_t usr1;
	int v = 0;

	sigemptyset(&usr1);
	sigaddset(&usr1, SIGUSR1);
	if (me == 0) {
		pthread_sigmask(SIG_BLOCK, &usr1, NULL);
		sem_init(&sem[0], 0, 0);
		sem_init(&sem[1], 0, 0);
		CHECK_EQ(pthread_create(&threads[0], NULL, writes, sem), 0);
		CHECK_EQ(pthread_create(&threads[1], NULL, is_asked, sem), 0);
		MPI_Recv(&v, 1, MPI_INT, 1, 77, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		pthread_join(threads[0], NULL);
		pthread_join(threads[1], NULL);
	} else if (me == 1) {
		see_report(path);
		MPI_Send(&v, 1, MPI_INT, 0, 77, MPI_COMM_WORLD);
	}
}

/* More memory than the machine has is refused with the figures, and the program goes on. */
static void memory(void)
{
	FILE *f = fopen("/proc/meminfo", "r");
	unsigned long long kib = 0;
	int rc, class;
	void *p;

	CHECK(f && fscanf(f, "MemTotal: %llu", &kib) == 1);
	fclose(f);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
	rc = MPI_Alloc_mem((MPI_Aint)(kib + (1 << 20)) << 10, MPI_INFO_NULL, &p);
	MPI_Error_class(rc, &class);
	CHECK_EQ(class, MPI_ERR_NO_MEM);
	CHECK_EQ(MPI_Alloc_mem(1 << 20, MPI_INFO_NULL, &p), MPI_SUCCESS);
	memset(p, 1, 1 << 20);
	MPI_Free_mem(p);
	returned();
}

static void say(const char *when, int rc)
{
	char text[MPI_MAX_ERROR_STRING];
	int class, len;

	MPI_Error_class(rc, &class);
	MPI_Error_string(rc, text, &len);
	fprintf(stderr, "%s: class %d, %s\n", when, class, text);
}

/* The last rank is killed in the middle of collectives; the survivors ignore the launcher's SIGTERM, and print the error that
 * they get. */
static void killed(void)
{
	int rc = MPI_SUCCESS;
	long in = me, out;

	signal(SIGTERM, SIG_IGN);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	for (int i = 0; rc == MPI_SUCCESS; i++) {
		rc = MPI_Allreduce(&in, &out, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
		if (i == 500 && me == np - 1)
			raise(SIGKILL);
	}
	say("after the kill", rc);
	if (me == 0)	/* sends to the lost rank, and waits for none */
		say("sending", MPI_Bcast(&in, 1, MPI_LONG, 0, MPI_COMM_WORLD));
	_exit(0);
}

/* Creates a communicator by the constructor `what`. half: this rank's half, made before. */
static int construct(const char *what, MPI_Comm half, MPI_Group world)
{
	MPI_Comm c = MPI_COMM_NULL;
	MPI_Request q;
	int rc, zero = 0, dims = np;

	if (!strcmp(what, "MPI_Comm_dup"))
		return MPI_Comm_dup(MPI_COMM_WORLD, &c);
	if (!strcmp(what, "MPI_Comm_idup")) {
		rc = MPI_Comm_idup(MPI_COMM_WORLD, &c, &q);
		return rc ? rc : MPI_Wait(&q, MPI_STATUS_IGNORE);
	}
	if (!strcmp(what, "MPI_Comm_split"))
		return MPI_Comm_split(MPI_COMM_WORLD, me % 2, me, &c);
	if (!strcmp(what, "MPI_Comm_split_type"))
		return MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, me, MPI_INFO_NULL, &c);
	if (!strcmp(what, "MPI_Comm_create"))
		return MPI_Comm_create(MPI_COMM_WORLD, world, &c);
	if (!strcmp(what, "MPI_Comm_create_group"))
		return MPI_Comm_create_group(MPI_COMM_WORLD, world, 3, &c);
	if (!strcmp(what, "MPI_Comm_create_from_group"))
		return MPI_Comm_create_from_group(world, "again", MPI_INFO_NULL, MPI_ERRORS_RETURN, &c);
	if (!strcmp(what, "MPI_Intercomm_create"))
		return MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, !(me % 2), 5, &c);
	if (!strcmp(what, "MPI_Cart_create"))
		return MPI_Cart_create(MPI_COMM_WORLD, 1, &dims, &zero, 1, &c);
	CHECK(!"no such constructor");
	return MPI_SUCCESS;
}

/* A rank is killed while all ranks create communicators. */
static void constructing(const char *what, int victim)
{
	MPI_Comm half;
	MPI_Group world;
	int rc = MPI_SUCCESS;

	signal(SIGTERM, SIG_IGN);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
	MPI_Comm_split(MPI_COMM_WORLD, me % 2, me, &half);
	MPI_Comm_set_errhandler(half, MPI_ERRORS_RETURN);
	MPI_Comm_group(MPI_COMM_WORLD, &world);
	for (int i = 0; rc == MPI_SUCCESS; i++) {
		if (i == 20 && me == victim)
			raise(SIGKILL);
		rc = construct(what, half, world);
	}
	say("after the kill", rc);
	_exit(0);
}

static int cannot_delete(MPI_Comm comm, int keyval, void *value, void *extra)
{
	(void)comm;
	(void)keyval;
	(void)value;
	(void)extra;
	return 77;
}

/* The code that a program's callback returns is passed on: only the call's name in the text shows its origin. */
static void leave_attribute(void)
{
	int keyval;

	MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, cannot_delete, &keyval, NULL);
	MPI_Comm_set_attr(MPI_COMM_SELF, keyval, NULL);
}

/* As heddlerun was told, without MPI_COMM_SELF. */
static void refused_outside(void)
{
	int class, rc = MPI_Info_create(NULL);

	CHECK_EQ(MPI_Error_class(rc, &class), MPI_SUCCESS);
	CHECK_EQ(class, MPI_ERR_ARG);
	CHECK_EQ(MPI_Error_class(99999, &class) != MPI_SUCCESS, 1);
}

/* Section 11.2.1. */
static void told_of_handler(void)
{
	char value[MPI_MAX_INFO_VAL];
	int flag;

	MPI_Info_get(MPI_INFO_ENV, "mpi_initial_errhandler", sizeof(value) - 1, value, &flag);
	CHECK(flag && !strcmp(value, "mpi_errors_return"));
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "returned";
	int v = 0;

	if (!strcmp(mode, "before")) {
		MPI_Comm_rank(MPI_COMM_WORLD, &v);
		return 0;
	}
	if (!strcmp(mode, "early")) {	/* allowed, but for the argument */
		MPI_Error_class(99999, &v);
		return 0;
	}
	if (!strcmp(mode, "outside"))		/* likewise; the initial error handler returns the error (section 9.3) */
		refused_outside();
	test_init(&argc, &argv);
	if (!strcmp(mode, "returned")) {
		returned();
	} else if (!strcmp(mode, "outside")) {
		told_of_handler();
		MPI_Comm_free(&sync_comm);
		MPI_Finalize();
		refused_outside();
		return 0;
	} else if (!strcmp(mode, "constructing")) {
		constructing(argv[2], atoi(argv[3]) % np);
	} else if (!strcmp(mode, "fatal")) {
		if (me == np - 1)
			MPI_Send(&v, 1, MPI_INT, 99, 0, MPI_COMM_WORLD);
		else
			MPI_Recv(&v, 1, MPI_INT, np - 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	} else if (!strcmp(mode, "initial")) {	/* as heddlerun was told */
		CHECK_EQ(MPI_Send(&v, 1, MPI_INT, 99, 0, MPI_COMM_WORLD) != MPI_SUCCESS, 1);
		CHECK_EQ(MPI_Recv(&v, 1, MPI_INT, 99, 0, MPI_COMM_SELF, MPI_STATUS_IGNORE) != MPI_SUCCESS, 1);
		CHECK_EQ(MPI_Send(&v, 1, MPI_INT, 99, 0, MPI_COMM_NULL) != MPI_SUCCESS, 1);
		CHECK_EQ(MPI_Send(&v, 1, MPI_INT, 99, 0, sync_comm) != MPI_SUCCESS, 1);	/* the error handler of the parent */
	} else if (!strcmp(mode, "callback")) {
		leave_attribute();
	} else if (!strcmp(mode, "own-code")) {
		int class, code;

		MPI_Add_error_class(&class);
		MPI_Add_error_code(class, &code);
		MPI_Add_error_string(code, "the mill has stopped");
		MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ABORT);
		meet(sync_comm);
		MPI_Comm_call_errhandler(MPI_COMM_WORLD, code);
	} else if (!strcmp(mode, "truncated")) {
		char buf[64] = "";

		if (me == 0)
			MPI_Send(buf, 64, MPI_BYTE, 1, 5, MPI_COMM_WORLD);
		else if (me == 1)
			MPI_Recv(buf, 16, MPI_BYTE, 0, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		meet(sync_comm);
	} else if (!strcmp(mode, "abort")) {
		if (me == np - 1)
			MPI_Abort(MPI_COMM_WORLD, 17);
		MPI_Recv(&v, 1, MPI_INT, np - 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	} else if (!strcmp(mode, "killed")) {
		killed();
	} else if (!strcmp(mode, "memory")) {
		memory();
	} else if (!strcmp(mode, "wait")) {	/* to be ended */
		meet(sync_comm);
		printf("waiting %d pid %d\n", me, (int)getpid());
		fflush(stdout);
		MPI_Recv(&v, 1, MPI_INT, MPI_ANY_SOURCE, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	} else if (!strcmp(mode, "report")) {
		report(argv[2]);
	} else if (!strcmp(mode, "unreceived")) {
		unreceived(argv[2]);
		MPI_Comm_free(&sync_comm);
		MPI_Finalize();
		return 0;
	} else if (!strcmp(mode, "uncompleted")) {
		/* erroneous, and no reason to crash: messages arrive during MPI_Finalize */
		static char in[64 * 1000], out[64 * 1000];
		MPI_Request r;

		MPI_Ialltoall(out, 1000, MPI_BYTE, in, 1000, MPI_BYTE, MPI_COMM_WORLD, &r);
		MPI_Comm_free(&sync_comm);
		MPI_Finalize();
		return 0;
	} else if (!strcmp(mode, "report-threads")) {
		report_threads(argv[2]);
	} else if (!strcmp(mode, "after")) {
		MPI_Comm_free(&sync_comm);
		MPI_Finalize();
		MPI_Send(&v, 1, MPI_INT, 0, 0, MPI_COMM_WORLD);
		return 0;
	}
	test_done(mode);
	return 0;
}
