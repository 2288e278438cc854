/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * transport_progress_rare WHAT: a program that enters the library for one MPI_Test every 10 ms only. The test bounds the number
 * of its calls: timers must go by the clock, not by calls.
 *     killed       rank 1 ends by SIGKILL; rank 0, which waits for a message of rank 1, gets the error
 *     lossy        ranks exchange ROUNDS messages while packets get lost (SHCA_FAULT)
 *     served PATH  one thread of rank 0 is in the library, and waits for another message: the long message of rank 0 arrives.
 *                  Rank 1 has received it and makes the file PATH, for which rank 0 waits
 */
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <unistd.h>

#include "mpi_test.h"

#define PERIOD_US 10000
#define ROUNDS 40
#define KILLED_MOST 150			/* calls until a death is reported, which takes half a second */
#define LOSSY_MOST (ROUNDS * 20)		/* a thousand calls for each lost packet would be more */

/* Returns the number of MPI_Test calls until the request is done. */
static int test_until_done(MPI_Request *q, int most, int *rc)
{
	int calls = 0, done = 0;

	for (*rc = MPI_SUCCESS; !done && !*rc; calls++) {
		if (calls > most)
			test_fail(__FILE__, __LINE__, "nothing has come of %d calls of MPI_Test", calls);
		*rc = MPI_Test(q, &done, MPI_STATUS_IGNORE);
		if (!done && !*rc)
			usleep(PERIOD_US);
	}
	return calls;
}

static void killed(void)
{
	int token = 0, rc, class = MPI_SUCCESS, calls;
	MPI_Request q;

	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	/* they have met, by all lanes that they have */
	for (int i = 0; i < 40; i++)
		meet(MPI_COMM_WORLD);
	if (me == 1)
		raise(SIGKILL);
	MPI_Irecv(&token, 1, MPI_INT, 1, 0, MPI_COMM_WORLD, &q);
	calls = test_until_done(&q, KILLED_MOST, &rc);
	MPI_Error_class(rc, &class);
	CHECK_EQ(class, MPI_ERR_PROC_ABORTED);
	printf("told after %d calls\n", calls);
	fflush(stdout);
	_exit(0);
}

static void lossy(void)
{
	int calls = 0, rc, in, out;
	MPI_Request q[2];

	for (int i = 0; i < ROUNDS; i++) {
		out = i;
		MPI_Irecv(&in, 1, MPI_INT, !me, 0, MPI_COMM_WORLD, &q[0]);
		MPI_Isend(&out, 1, MPI_INT, !me, 0, MPI_COMM_WORLD, &q[1]);
		calls += test_until_done(&q[0], LOSSY_MOST, &rc) + test_until_done(&q[1], LOSSY_MOST, &rc);
		CHECK_EQ(in, i);
	}
	printf("rank %d: %d calls\n", me, calls);
	if (calls > LOSSY_MOST)
		test_fail(__FILE__, __LINE__, "%d rounds took %d calls of MPI_Test", ROUNDS, calls);
	MPI_Finalize();
}

static void *wait_for_other(void *arg)
{
	int token;

	(void)arg;
	MPI_Recv(&token, 1, MPI_INT, 0, 1, MPI_COMM_SELF, MPI_STATUS_IGNORE);
	return NULL;
}

static void served(const char *path)
{
	static char big[1 << 20];
	int token = 0;
	MPI_Request q;
	pthread_t t;

	alarm(60);
	if (me) {
		FILE *f;

		MPI_Recv(big, sizeof(big), MPI_CHAR, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		CHECK((f = fopen(path, "w")));
		fclose(f);
	} else {
		CHECK(!pthread_create(&t, NULL, wait_for_other, NULL));
		MPI_Isend(big, sizeof(big), MPI_CHAR, 1, 0, MPI_COMM_WORLD, &q);
		while (access(path, F_OK))
			usleep(PERIOD_US);
		MPI_Wait(&q, MPI_STATUS_IGNORE);
		MPI_Send(&token, 1, MPI_INT, 0, 1, MPI_COMM_SELF);
		pthread_join(t, NULL);
		printf("served\n");
	}
	MPI_Finalize();
}

int main(int argc, char **argv)
{
	bool serves = argc == 3 && !strcmp(argv[1], "served");
	int level;

	MPI_Init_thread(&argc, &argv, serves ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &level);
	MPI_Comm_rank(MPI_COMM_WORLD, &me);
	MPI_Comm_size(MPI_COMM_WORLD, &np);
	CHECK((argc == 2 || serves) && np == 2);
	if (serves)
		served(argv[2]);
	else if (!strcmp(argv[1], "killed"))
		killed();
	else
		lossy();
	return 0;
}
