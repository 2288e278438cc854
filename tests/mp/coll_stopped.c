/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Offload, in the strict sense: all ranks but the last post a nonblocking Allreduce and are stopped (SIGSTOP). The last rank
 * then posts its part, and its Wait returns with the right sum while the others are still stopped. Then they are
 * continued, and theirs return, too. The same for Ibarrier and, from a root that is stopped, Ibcast.
 */
#include <mpi.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int me, all;
static int32_t *pids;

static void die(const char *what)
{
	/* The stopped ones must not be left behind, whatever went wrong. */
	for (int r = 0; r < all; r++)
		if (r != me)
			kill(pids[r], SIGCONT);
	fprintf(stderr, "coll_stopped: rank %d: %s\n", me, what);
	MPI_Abort(MPI_COMM_WORLD, 1);
	exit(1);
}

static void too_late(int sig)
{
	static const char text[] = "coll_stopped: the last rank's Wait did not return while the others were stopped\n";

	(void)sig;
	for (int r = 0; r < all; r++)
		if (r != me)
			kill(pids[r], SIGCONT);
	if (write(2, text, sizeof(text) - 1) < 0)
		_exit(2);
	_exit(1);
}

static bool is_stopped(int32_t pid)
{
	char path[64], line[512], *state;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	f = fopen(path, "r");
	if (!f)
		return false;
	if (!fgets(line, sizeof(line), f))
		line[0] = 0;
	fclose(f);
	state = strrchr(line, ')');
	return state && state[1] == ' ' && state[2] == 'T';
}

static void others_stopped(void)
{
	time_t end = time(NULL) + 30;

	for (int r = 0; r < all; r++)
		while (r != me && !is_stopped(pids[r])) {
			if (time(NULL) > end)
				die("the other ranks did not stop");
			usleep(1000);
		}
}

static void post(int what, int64_t *v, int64_t *sum, int n, MPI_Request *req)
{
	switch (what) {
	case 0:
		MPI_Iallreduce(v, sum, n, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD, req);
		break;
	case 1:
		MPI_Ibarrier(MPI_COMM_WORLD, req);
		break;
	default:
		if (me == 0)
			memcpy(sum, v, sizeof(*v) * (size_t)n);
		MPI_Ibcast(sum, n, MPI_INT64_T, 0, MPI_COMM_WORLD, req);
		break;
	}
}

static void verify(int what, const int64_t *sum, int n)
{
	for (int i = 0; i < n && what != 1; i++) {
		int64_t e = what ? 1000 + i : (int64_t)all * (1000 + i) + (int64_t)all * (all - 1) / 2;

		if (sum[i] != e)
			die(what ? "wrong value" : "wrong sum");
	}
}

int main(int argc, char **argv)
{
	static const int sizes[] = { 1, 8, 128 };
	int32_t pid;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &me);
	MPI_Comm_size(MPI_COMM_WORLD, &all);
	pids = calloc((size_t)all, sizeof(*pids));
	pid = getpid();
	MPI_Allgather(&pid, 1, MPI_INT32_T, pids, 1, MPI_INT32_T, MPI_COMM_WORLD);
	for (int what = 0; what < 3; what++)
		for (int s = 0; s < 3; s++) {
			int64_t v[128], sum[128];
			MPI_Request req;

			for (int i = 0; i < 128; i++)
				v[i] = 1000 + i + me;
			memset(sum, 0, sizeof(sum));
			/* The queues are there: what is posted now goes to the device at once. */
			post(what, v, sum, sizes[s], &req);
			MPI_Wait(&req, MPI_STATUS_IGNORE);
			MPI_Barrier(MPI_COMM_WORLD);
			memset(sum, 0, sizeof(sum));
			if (me == all - 1) {
				others_stopped();
				signal(SIGALRM, too_late);
				alarm(20);
				post(what, v, sum, sizes[s], &req);
				MPI_Wait(&req, MPI_STATUS_IGNORE);
				alarm(0);
				for (int r = 0; r < all - 1; r++)
					if (!is_stopped(pids[r]))
						die("a rank went on by itself");
				verify(what, sum, sizes[s]);
				for (int r = 0; r < all - 1; r++)
					kill(pids[r], SIGCONT);
			} else {
				post(what, v, sum, sizes[s], &req);
				raise(SIGSTOP);
				MPI_Wait(&req, MPI_STATUS_IGNORE);
				verify(what, sum, sizes[s]);
			}
			MPI_Barrier(MPI_COMM_WORLD);
		}
	if (!me)
		printf("coll_stopped: passed\n");
	free(pids);
	MPI_Finalize();
	return 0;
}
