/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Staging of single-copy collectives (collectives/single_copy/staging.c): a rank with a buffer that only other ranks read (the
 * input of a Reduce, the root's buffer of a Bcast or Scatter, the result that the next rank of a Scan reads) copies the buffer
 * and completes. The tests read the staged copy late: when the communicator has been freed, while the rank that staged is in
 * MPI_Finalize, or never, since the reader has died. Without staging a test hangs: the rank waits for the reader, and the reader
 * for a message of that rank. Three ranks, executor mailbox.
 *
 *     coll_sc_staging freed ROUNDS	the communicator is freed, and the input overwritten, before the reader makes the call
 *     coll_sc_staging stream ROUNDS	collectives follow each other, one rank late in each: no staged copy is overwritten early
 *     coll_sc_staging killed FILE	the reader, rank 0, is killed (heddlerun --on-death=continue; FILE:
 *					see survivors.h)
 *     coll_sc_staging gone FILE	the reader is killed while the survivors are in MPI_Finalize
 *     coll_sc_staging many COMMS	a root is ahead on many communicators: the memory of the staged copies is bounded
 *     coll_sc_staging stopped		the reader is stopped until the other ranks are in MPI_Finalize
 */
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "finalize.h"
#include "stopped.h"
#include "survivors.h"

enum { REDUCE, SCAN, BCAST, SCATTER, KINDS };
enum { MOST = 8192, PART = MOST / 4 };	/* elements: 64 KiB, of which three ranks' root reduces all; 16 KiB */
static int64_t in[MOST], out[MOST];
static int me;

static void fail(const char *what)
{
	fprintf(stderr, "coll_sc_staging: rank %d: FAILED: %s\n", me, what);
	MPI_Abort(MPI_COMM_WORLD, 1);
	exit(1);
}

static void fill(int round)
{
	for (int i = 0; i < MOST; i++)
		in[i] = (me + 1) * 1000 + round + i;
}

static void run(MPI_Comm comm, int kind, int root, int n)
{
	const MPI_Datatype t = MPI_INT64_T;
	int rc;

	switch (kind) {
	case REDUCE: rc = MPI_Reduce(in, out, n, t, MPI_SUM, root, comm); break;
	case SCAN: rc = MPI_Scan(in, out, n, t, MPI_SUM, comm); break;
	case BCAST: rc = MPI_Bcast(me == root ? in : out, n, t, root, comm); break;
	default: rc = MPI_Scatter(in, PART, t, out, PART, t, root, comm); break;
	}
	if (rc)
		fail("a collective ends with an error");
	memset(in, 0x5a, sizeof(in));	/* the input is the user's again */
}

/* Element i of the results of the round. */
static int64_t expected(int kind, int root, int round, int i)
{
	int from = kind == SCAN ? me + 1 : 3;		/* inputs */

	if (kind == BCAST || kind == SCATTER)
		return (root + 1) * 1000 + round + i + (kind == SCATTER ? me * PART : 0);
	return from * (from + 1) / 2 * 1000 + (int64_t)from * (round + i);
}

static void check(int kind, int root, int n, int round)
{
	if ((kind == REDUCE && me != root) || (kind == BCAST && me == root))
		return;
	for (int i = 0; i < (kind == SCATTER ? PART : n); i++)
		if (out[i] != expected(kind, root, round, i))
			fail("a result is wrong");
}

/* Returns a communicator with connected queues: each kind of collective has run once. */
static MPI_Comm make(void)
{
	MPI_Comm comm;

	MPI_Comm_dup(MPI_COMM_WORLD, &comm);
	MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
	for (int kind = 0; kind < KINDS; kind++) {
		fill(0);
		run(comm, kind, 0, MOST);
		check(kind, 0, MOST, 0);
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

/* Whether rank `reader` reads the staged copy of rank `other`. */
static bool reads(int kind, int root, int reader, int other)
{
	return reader != other && (kind == SCAN ? reader == other + 1 : kind == REDUCE ? reader == root : other == root);
}

/* The readers call the collective after the ranks that staged have freed the communicator. */
static void freed(int rounds)
{
	for (int round = 1; round <= rounds; round++) {
		int kind = round % KINDS, root = round / KINDS % 3, n = round % 5 ? MOST : MOST / 2;
		MPI_Comm comm = make();

		fill(round);
		for (int r = 0; r < 3; r++)
			if (reads(kind, root, me, r))
				hear(r);
		run(comm, kind, root, n);
		check(kind, root, n, round);
		MPI_Comm_free(&comm);
		for (int r = 0; r < 3; r++)
			if (reads(kind, root, r, me))
				tell(r);
	}
}

/* All ranks call the same collective; the late rank is the reader: the root of a Reduce, else rank 2. */
static void stream(int rounds)
{
	MPI_Comm comm = make();

	for (int round = 1; round <= rounds; round++) {
		int kind = round / 8 % KINDS, root = round / 32 % 3, late = kind == REDUCE ? root : 2;

		if (me == late)
			usleep((useconds_t)(round * 37 % 400));
		fill(round);
		run(comm, kind, root, MOST);
		check(kind, root, MOST, round);
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

/* Rank 0, the reader, dies. Rank 1 has freed the communicator; rank 2 calls Reduce until the staging memory is used
 * up and the call fails. */
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
	run(comm, REDUCE, 0, MOST);
	fill(2);
	run(comm, BCAST, 1, MOST);
	check(BCAST, 1, MOST, 2);
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
	finalize_quietly("coll_sc_staging", me);
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
	run(comm, REDUCE, 0, MOST);
	run(comm, SCATTER, 1, MOST);
	if (me == 1)
		MPI_Comm_free(&comm);
	printf("survivor %d: told nothing\n", me);
	fflush(stdout);
	survivors_count(counter);
}

static long resident_kib(void)
{
	char line[256];
	long kib = 0;
	FILE *f = fopen("/proc/self/status", "re");

	while (f && fgets(line, sizeof(line), f))
		sscanf(line, "VmRSS: %ld", &kib);
	if (f)
		fclose(f);
	return kib;
}

/* Staged copies take 64 MiB at most. The readers are late; their delay decides only whether the limit is reached. */
static void many(int comms)
{
	enum { EACH = 6, LONGEST = 256 << 10, LIMIT_KIB = 96 << 10 };
	MPI_Comm *comm = malloc((size_t)comms * sizeof(MPI_Comm));
	char *buf = malloc(LONGEST);
	long before;

	if (!comm || !buf)
		fail("no memory");
	for (int c = 0; c < comms; c++)
		comm[c] = make();
	memset(buf, 1, LONGEST);
	before = resident_kib();
	MPI_Barrier(MPI_COMM_WORLD);
	if (me)
		usleep(500000);
	for (int c = 0; c < comms; c++) {
		for (int i = 0; i < EACH; i++) {
			memset(buf, me ? 0 : c + i, LONGEST);
			MPI_Bcast(buf, LONGEST, MPI_BYTE, 0, comm[c]);
			if (buf[0] != (char)(c + i) || buf[LONGEST - 1] != (char)(c + i))
				fail("a result is wrong");
		}
		MPI_Comm_free(&comm[c]);
	}
	if (resident_kib() - before > LIMIT_KIB)
		fail("the staged copies take more memory than their limit");
	free(buf);
	free(comm);
}

/* Forks a process that continues the stopped reader half a second after it has stopped. Returns its pid, or -1. */
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
	run(comm, REDUCE, 0, MOST);
	check(REDUCE, 0, MOST, 1);
	fill(2);
	run(comm, BCAST, 2, MOST);
	check(BCAST, 2, MOST, 2);
	if (me == 1)
		MPI_Comm_free(&comm);
	finalize_quietly("coll_sc_staging", me);
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
		fail("usage: heddlerun -n 3 coll_sc_staging freed ROUNDS | stream ROUNDS | many COMMS | killed FILE | gone "
		     "FILE | stopped");
	if (!strcmp(mode, "stopped")) {
		stopped();
		return 0;
	}
	if (!strcmp(mode, "killed")) {
		killed();
		return 0;
	}
	if (!strcmp(mode, "freed"))
		freed(atoi(argv[2]));
	else if (!strcmp(mode, "stream"))
		stream(atoi(argv[2]));
	else if (!strcmp(mode, "many"))
		many(atoi(argv[2]));
	else
		gone(survivors_counters(argv[2]));
	if (!strcmp(mode, "gone"))
		MPI_Finalize();		/* may give up: the reader dies meanwhile */
	else
		finalize_quietly("coll_sc_staging", me);
	return 0;
}
