/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by programs in which a rank dies: counters that the survivors have in common, in a file, and the check of the error. */
#ifndef TEST_SURVIVORS_H
#define TEST_SURVIVORS_H

#include <fcntl.h>
#include <mpi.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

/* 1,024 counters in the file, which every rank maps; 0 in a new file. */
static inline int *survivors_counters(const char *file)
{
	int fd = open(file, O_RDWR | O_CREAT, 0600);
	int *counters = MAP_FAILED;

	if (fd >= 0 && !ftruncate(fd, 4096))
		counters = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (counters == MAP_FAILED)
		MPI_Abort(MPI_COMM_WORLD, 2);
	close(fd);
	return counters;
}

/* The same; "-": of a new file without a name. Collective over MPI_COMM_WORLD then. */
static inline int *survivors_counters_of(const char *file)
{
	char name[] = "/tmp/survivors.XXXXXX";
	int *counters, rank, fd;

	if (strcmp(file, "-"))
		return survivors_counters(file);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	if (!rank && (fd = mkstemp(name)) >= 0)
		close(fd);
	MPI_Bcast(name, sizeof(name), MPI_CHAR, 0, MPI_COMM_WORLD);
	counters = survivors_counters(name);
	MPI_Barrier(MPI_COMM_WORLD);
	if (!rank)
		unlink(name);
	return counters;
}

/* rc: the error code of MPI, or 0. */
static inline void survivors_fail(int me, const char *what, int rc)
{
	char text[MPI_MAX_ERROR_STRING] = "";
	int n;

	if (rc)
		MPI_Error_string(rc, text, &n);
	printf("survivor %d: FAILED: %s: %s\n", me, what, text);
	fflush(stdout);
	MPI_Abort(MPI_COMM_WORLD, 3);
}

static inline void survivors_count(int *counter)
{
	__atomic_fetch_add(counter, 1, __ATOMIC_SEQ_CST);
}

/* Waits until n processes have counted, or `seconds` have passed. Returns whether n have. progress: calls MPI now and then, as a
 * receiver of long messages must. */
static inline bool survivors_await(const int *counter, int n, int seconds, bool progress)
{
	time_t end = time(NULL) + seconds;
	int flag;

	while (__atomic_load_n(counter, __ATOMIC_SEQ_CST) < n && time(NULL) < end) {
		if (progress)
			MPI_Iprobe(0, 0, MPI_COMM_SELF, &flag, MPI_STATUS_IGNORE);
		usleep(1000);
	}
	return __atomic_load_n(counter, __ATOMIC_SEQ_CST) >= n;
}

static inline bool survivors_told(int rc)
{
	int class = 0;

	MPI_Error_class(rc, &class);
	return class == MPI_ERR_PROC_ABORTED;
}

static inline void survivors_kill_self(int sig)
{
	(void)sig;
	kill(getpid(), SIGKILL);
}

/* This process is killed after so many microseconds (fewer than a million), wherever it is then. */
static inline void survivors_die_in(int us)
{
	struct itimerval when = { .it_value = { .tv_usec = us } };

	signal(SIGALRM, survivors_kill_self);
	setitimer(ITIMER_REAL, &when, NULL);
}

#endif
