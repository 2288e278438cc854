/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A rank that only gives its input to a Reduce, or whose result the next one reads in a Scan, leaves that behind and goes on
 * (collectives/reads_fold.c). Here it is read late, when its communicator has been freed; or never, since the reader is killed; or while the
 * rank that has left is in MPI_Finalize. A rank that would not leave waits for a reader that waits for its message. Three ranks, by direct.
 *
 *     coll_left freed ROUNDS	the communicator is freed, and the input overwritten, before the reader comes
 *     coll_left stream ROUNDS	they follow each other at the speed of the slowest: nothing is overwritten that is still to be read
 *     coll_left killed FILE	the same, but the reader, rank 0, is killed: others go on (heddlerun --on-death=continue; FILE: see survivors.h)
 *     coll_left gone FILE	the same while all others are in MPI_Finalize
 *     coll_left stopped	the reader is stopped until all others are in MPI_Finalize
 */
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "survivors.h"

enum { MOST = 4096 };		/* elements: 32 KiB, of which three ranks' root reduces all */
static int64_t in[MOST], out[MOST];
static int me;

static void fail(const char *what)
{
	fprintf(stderr, "coll_left: rank %d: FAILED: %s\n", me, what);
	MPI_Abort(MPI_COMM_WORLD, 1);
	exit(1);
}

static void fill(int round)
{
	for (int i = 0; i < MOST; i++)
		in[i] = (me + 1) * 1000 + round + i;
}

static void run(MPI_Comm comm, bool scan, int root, int n)
{
	if (scan ? MPI_Scan(in, out, n, MPI_INT64_T, MPI_SUM, comm) : MPI_Reduce(in, out, n, MPI_INT64_T, MPI_SUM, root, comm))
		fail("a collective ends with an error");
	memset(in, 0x5a, sizeof(in));	/* the input is the user's again */
}

static void check(bool scan, int root, int n, int round)
{
	int from = scan ? me + 1 : 3;		/* inputs */

	for (int i = 0; i < n && (scan || me == root); i++)
		if (out[i] != from * (from + 1) / 2 * 1000 + (int64_t)from * (round + i))
			fail("a result is wrong");
}

/* A communicator whose queues stand. */
static MPI_Comm make(void)
{
	MPI_Comm comm;

	MPI_Comm_dup(MPI_COMM_WORLD, &comm);
	MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
	for (int scan = 0; scan < 2; scan++) {
		fill(0);
		run(comm, scan, 0, MOST);
		check(scan, 0, MOST, 0);
	}
	MPI_Barrier(comm);
	return comm;
}

static void tell(int rank)
{
	MPI_Send(NULL, 0, MPI_BYTE, rank, 1, MPI_COMM_WORLD);
}

static void hear(int rank)
{
	MPI_Recv(NULL, 0, MPI_BYTE, rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/* Who reads comes when those that have left have freed the communicator. */
static void freed(int rounds)
{
	for (int round = 1; round <= rounds; round++) {
		bool scan = round % 2;
		int root = round / 2 % 3, n = round % 5 ? MOST : MOST / 2;
		MPI_Comm comm = make();

		fill(round);
		if (scan && me) {
			hear(me - 1);
		} else if (!scan && me == root) {
			hear((root + 1) % 3);
			hear((root + 2) % 3);
		}
		run(comm, scan, root, n);
		check(scan, root, n, round);
		MPI_Comm_free(&comm);
		if (scan && me < 2)
			tell(me + 1);
		else if (!scan && me != root)
			tell(root);
	}
}

/* All call the same; one of them, each in its turn, is late. */
static void stream(int rounds)
{
	MPI_Comm comm = make();

	for (int round = 1; round <= rounds; round++) {
		bool scan = round / 8 % 2;
		int root = round / 16 % 3;

		if (me == root)
			usleep((useconds_t)(round * 37 % 400));
		fill(round);
		run(comm, scan, root, MOST);
		check(scan, root, MOST, round);
	}
	MPI_Comm_free(&comm);
}

static void go_on(void)
{
	int of[] = { 1, 2 }, sum = 0;
	MPI_Group world, group;
	MPI_Comm pair;

	MPI_Comm_group(MPI_COMM_WORLD, &world);
	MPI_Group_incl(world, 2, of, &group);
	if (MPI_Comm_create_group(MPI_COMM_WORLD, group, 3, &pair))
		fail("the living have no communicator");
	for (int i = 0; i < 20; i++)
		if (MPI_Allreduce(&me, &sum, 1, MPI_INT, MPI_SUM, pair) || sum != 3)
			fail("the living have no collectives");
	MPI_Comm_free(&pair);
	MPI_Group_free(&group);
	MPI_Group_free(&world);
}

/* Rank 1 has freed the communicator; rank 2 goes on with it, by something that needs the memory of what it has left behind. */
static void killed(void)
{
	MPI_Comm comm = make();
	int rc = 0, one = 1, sum;

	fill(1);
	if (!me) {
		hear(1);
		hear(2);
		raise(SIGKILL);
	}
	run(comm, false, 0, MOST);
	if (me == 1)
		MPI_Comm_free(&comm);
	tell(0);
	while (me == 2 && !rc)
		rc = MPI_Reduce(in, out, MOST, MPI_INT64_T, MPI_SUM, 0, comm);
	if (rc && !survivors_told(rc))
		fail("the communicator says something else");
	for (rc = 0; !rc;)
		rc = MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	if (!survivors_told(rc))
		fail("MPI_COMM_WORLD says something else");
	go_on();
	if (me == 2)
		MPI_Comm_free(&comm);
	printf("survivor %d: told\n", me);
	fflush(stdout);
}

static void gone(int *counter)
{
	MPI_Comm comm = make();

	fill(1);
	if (!me) {
		survivors_await(counter, 2, 30, false);
		usleep(300000);
		raise(SIGKILL);
	}
	run(comm, false, 0, MOST);
	if (me == 1)
		MPI_Comm_free(&comm);
	printf("survivor %d: told nothing\n", me);
	fflush(stdout);
	survivors_count(counter);
}

static bool is_stopped(pid_t pid)
{
	char path[64], line[512] = "", *state;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	if ((f = fopen(path, "re"))) {
		if (!fgets(line, sizeof(line), f))
			line[0] = 0;
		fclose(f);
	}
	state = strrchr(line, ')');
	return state && state[1] == ' ' && state[2] == 'T';
}

/* Rank 0 goes on some time after it has stopped. */
static pid_t waker_of(pid_t reader)
{
	pid_t pid = fork();

	if (pid)
		return pid;
	for (int i = 0; i < 30000 && !is_stopped(reader); i++)
		usleep(1000);
	usleep(500000);
	kill(reader, SIGCONT);
	_exit(0);
}

static void stopped(void)
{
	MPI_Comm comm = make();
	int pid = getpid();
	pid_t waker = 0;

	MPI_Bcast(&pid, 1, MPI_INT, 0, MPI_COMM_WORLD);
	fill(1);
	if (me == 2 && (waker = waker_of(pid)) < 0)
		fail("no process to wake the reader");
	if (!me)
		raise(SIGSTOP);
	run(comm, false, 0, MOST);
	check(false, 0, MOST, 1);
	if (me == 1)
		MPI_Comm_free(&comm);
	MPI_Finalize();
	if (waker)
		waitpid(waker, NULL, 0);
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "";
	int all;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &me);
	MPI_Comm_size(MPI_COMM_WORLD, &all);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	if (all != 3 || (argc != 3 && strcmp(mode, "stopped")))
		fail("usage: heddlerun -n 3 coll_left freed ROUNDS | stream ROUNDS | killed FILE | gone FILE | stopped");
	if (!strcmp(mode, "stopped")) {
		stopped();
		return 0;
	}
	if (!strcmp(mode, "freed"))
		freed(atoi(argv[2]));
	else if (!strcmp(mode, "stream"))
		stream(atoi(argv[2]));
	else if (!strcmp(mode, "killed"))
		killed();
	else
		gone(survivors_counters(argv[2]));
	MPI_Finalize();
	return 0;
}
