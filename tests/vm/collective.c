/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Collectives of all ranks and of each host's ranks, by turns, with checked results, for ever: an error ends a rank, which
 * reports the error and exits with status 3. One rank is killed meanwhile.
 *
 *     collective allreduce|bcast|barrier DEAD FILE
 *
 * DEAD: the rank that kills itself after some rounds; -1: no rank. FILE: a rank with an error stays until this file exists, so
 * that its exit is not taken for a failure. SIGTERM is ignored: the ranks must end by the error, not by a launcher that ends the
 * job after the death of a rank. Such a launcher may not forward the ranks' output at once, so that each rank writes the report
 * to FILE.RANK, too.
 */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { LONG = 8192, KILLED = 60, STAYS_S = 60 };

static int me, all;

/* 0: right; negative: wrong; else the error. */
static int round_of(const char *what, MPI_Comm comm, long n)
{
	static long in[LONG], out[LONG];
	int count = n % 3 ? 1 : LONG, rank, size, err;
	long want;

	MPI_Comm_rank(comm, &rank);
	MPI_Comm_size(comm, &size);
	int root = (int)(n % size);
	for (int i = 0; i < count; i++)
		in[i] = out[i] = rank + n + i;
	if (*what == 'a') {
		err = MPI_Allreduce(in, out, count, MPI_LONG, MPI_SUM, comm);
		want = (long)size * (size - 1) / 2 + size * n;
	} else if (*what == 'b' && what[1] == 'c') {
		err = MPI_Bcast(out, count, MPI_LONG, root, comm);
		want = root + n;
	} else {
		err = MPI_Barrier(comm);
		want = rank + n;
	}
	for (int i = 0; i < count && !err; i++)
		if (out[i] != want + (*what == 'a' ? (long)size * i : i))
			return -1;
	return err;
}

/* Writes to standard output and to FILE.RANK, which appears under that name when complete. */
static void say(const char *file, const char *text)
{
	char name[512], begun[520];
	FILE *f;

	printf("rank %d %s\n", me, text);
	fflush(stdout);
	snprintf(name, sizeof(name), "%s.%d", file, me);
	snprintf(begun, sizeof(begun), "%s.new", name);
	if ((f = fopen(begun, "w"))) {
		fprintf(f, "rank %d %s\n", me, text);
		if (!fclose(f))
			rename(begun, name);
	}
}

static void stay(const char *file)
{
	time_t end = time(NULL) + STAYS_S;
	int flag;

	while (access(file, F_OK) && time(NULL) < end) {
		MPI_Iprobe(0, 0, MPI_COMM_SELF, &flag, MPI_STATUS_IGNORE);
		usleep(1000);
	}
}

/* Runs until there is an error, and returns the error. After an error in a collective of all ranks, the rank goes on in
 * collectives of its host until all ranks of the host have the error. */
static int rounds(const char *what, int dead, const char *file, MPI_Comm world, MPI_Comm here)
{
	int err = 0, near = 0, failed = 0, any = 0;
	long n = 0;

	for (; !any && !near; n++) {
		if (n == KILLED / 3) {
			printf("rank %d exchanges\n", me);
			fflush(stdout);
		}
		if (n == KILLED && me == dead) {
			say(file, "dies");
			kill(getpid(), SIGKILL);
		}
		/* the killed rank may be in a collective of the host's ranks, or of all ranks */
		if (n % 2)
			near = round_of(what, here, n);
		if (!near)
			err = round_of(what, world, n);
		if (n % 2 == 0)
			near = round_of(what, here, n);
		failed = err != 0;
		if (!near)
			near = MPI_Allreduce(&failed, &any, 1, MPI_INT, MPI_MAX, here);
	}
	if (near < 0 || (near && !err))
		return near;
	for (; !err; n++)
		err = round_of(what, world, n);
	return err;
}

int main(int argc, char **argv)
{
	char text[MPI_MAX_ERROR_STRING], line[MPI_MAX_ERROR_STRING + 64];
	MPI_Comm world, here;
	int err = 0, class = 0, len;

	signal(SIGTERM, SIG_IGN);
	if (argc != 4 || MPI_Init(&argc, &argv))
		return 1;
	int dead = atoi(argv[2]);
	MPI_Comm_dup(MPI_COMM_WORLD, &world);
	MPI_Comm_rank(world, &me);
	MPI_Comm_size(world, &all);
	MPI_Comm_split_type(world, MPI_COMM_TYPE_SHARED, me, MPI_INFO_NULL, &here);
	MPI_Comm_set_errhandler(world, MPI_ERRORS_RETURN);
	MPI_Comm_set_errhandler(here, MPI_ERRORS_RETURN);
	err = rounds(argv[1], dead, argv[3], world, here);
	if (err < 0) {
		printf("rank %d: a result of %s is wrong\n", me, argv[1]);
		fflush(stdout);
		_Exit(4);
	}
	MPI_Error_class(err, &class);
	MPI_Error_string(err, text, &len);
	snprintf(line, sizeof(line), "ends: %s: %s", class == MPI_ERR_PROC_ABORTED ? "MPI_ERR_PROC_ABORTED" : "another class",
		 text);
	say(argv[3], line);
	stay(argv[3]);
	_Exit(3);
}
