/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What spawned jobs leave behind in their parents: after 2n spawns the parents have as many descriptors as after n, and as many
 * allocated bytes, but for EACH_BYTES for each spawn (the ids of endpoints). BACKLOG_BYTES: endpoints of the last spawns, which
 * stay until a later request of a shared queue completes.
 *
 *     dpm_growth N
 */
#define _GNU_SOURCE
#include "mpi_test.h"

#include <dirent.h>
#include <malloc.h>
#include <unistd.h>

enum { CHILDREN = 2, EACH_BYTES = 32, BACKLOG_BYTES = 96 << 10, SETTLES = 150, WAITS = 6000 };

static const char *self;

static int descriptors(void)
{
	DIR *d = opendir("/proc/self/fd");
	int n = 0;

	CHECK(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

static long long allocated(void)
{
	struct mallinfo2 m = mallinfo2();

	return (long long)(m.uordblks + m.hblkhd);
}

/* Parents and children: messages of several lengths, and a communicator more. */
static void talk(MPI_Comm inter)
{
	enum { MESSAGES = 100 };
	static char data[100000];
	MPI_Comm all;
	int n, rank, sum, one = 1;

	MPI_Intercomm_merge(inter, 0, &all);
	MPI_Comm_size(all, &n);
	MPI_Comm_rank(all, &rank);
	MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, all);
	CHECK_EQ(sum, n);
	/* around in a ring, so many messages that neighbours have queues and rings */
	for (int i = 0; i < MESSAGES; i++)
		MPI_Sendrecv(&one, 1, MPI_INT, (rank + 1) % n, 1, &sum, 1, MPI_INT, (rank + n - 1) % n, 1, all,
			     MPI_STATUS_IGNORE);
	MPI_Bcast(data, sizeof(data), MPI_CHAR, 0, all);
	MPI_Comm_disconnect(&all);
	MPI_Comm_disconnect(&inter);
}

static void spawn(int times)
{
	char *argv[] = { (char[]){ "child" }, NULL };
	MPI_Comm inter;

	for (int i = 0; i < times; i++) {
		CHECK_EQ(MPI_Comm_spawn(self, argv, CHILDREN, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter, MPI_ERRCODES_IGNORE),
			 MPI_SUCCESS);
		talk(inter);
	}
}

/* Returns the least number of allocated bytes in so many turns, up to one with at most `most`: that a child has ended is seen
 * some time after its end, in a turn of progress. */
static long long settled(int turns, long long most)
{
	long long least = allocated(), bytes;
	int flag;

	for (int i = 0; i < turns && least > most; i++) {
		usleep(10000);
		MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
		bytes = allocated();
		least = bytes < least ? bytes : least;
	}
	return least;
}

int main(int argc, char **argv)
{
	long long before, after, most;
	int times, fds, fds_before;
	MPI_Comm parent;

	test_init(&argc, &argv);
	self = argv[0];
	MPI_Comm_get_parent(&parent);
	if (parent != MPI_COMM_NULL) {
		talk(parent);
		MPI_Finalize();
		return 0;
	}
	times = argc > 1 ? atoi(argv[1]) : 10;
	spawn(times);
	before = settled(SETTLES, 0);
	/* the last children's descriptors go when they have ended */
	for (fds = descriptors(), fds_before = fds + 1; fds < fds_before; fds = descriptors()) {
		fds_before = fds;
		settled(SETTLES / 5, 0);
	}
	spawn(times);
	most = before + (long long)times * EACH_BYTES + BACKLOG_BYTES;
	after = settled(SETTLES, 0);
	if (after > most)
		after = settled(WAITS, most);
	if (!me)
		printf("%d spawns: %lld bytes, %d spawns: %lld bytes; %lld for each\n", times, before, 2 * times, after,
		       (after - before) / times);
	CHECK(after <= most);
	for (int i = 0; i < WAITS && descriptors() > fds; i++)
		settled(1, 0);
	CHECK(descriptors() <= fds);
	test_done("dpm_growth");
	return 0;
}
