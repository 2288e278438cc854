/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Threads of each rank access one file, each its own blocks, blocking and nonblocking, also in atomic mode
 * and at the shared pointer.
 *
 *     io_threads PATH [threads [rounds]]
 */
#include "mpi_test.h"

#include <pthread.h>

enum { BLOCK = 3000 };

static MPI_File f;
static int threads = 4, rounds = 30;

static void *thread_main(void *arg)
{
	int t = (int)(intptr_t)arg;
	unsigned char out[BLOCK], in[BLOCK], more[BLOCK];

	for (int i = 0; i < rounds; i++) {
		MPI_Offset at = ((MPI_Offset)i * np * threads + me * threads + t) * BLOCK;
		uint64_t seed = seed_of(me, t, i, 0);
		MPI_Request r[2];
		MPI_Status status;
		int n;

		fill(out, BLOCK, seed);
		if (i & 1) {
			CHECK_EQ(MPI_File_iwrite_at(f, at, out, BLOCK / 2, MPI_BYTE, &r[0]), MPI_SUCCESS);
			CHECK_EQ(MPI_File_iwrite_at(f, at + BLOCK / 2, out + BLOCK / 2, BLOCK / 2, MPI_BYTE, &r[1]), MPI_SUCCESS);
			CHECK_EQ(MPI_Waitall(2, r, MPI_STATUSES_IGNORE), MPI_SUCCESS);
		} else {
			CHECK_EQ(MPI_File_write_at(f, at, out, BLOCK, MPI_BYTE, MPI_STATUS_IGNORE), MPI_SUCCESS);
		}
		CHECK_EQ(MPI_File_iread_at(f, at, in, BLOCK, MPI_BYTE, &r[0]), MPI_SUCCESS);
		CHECK_EQ(MPI_File_read_at(f, at, more, BLOCK, MPI_BYTE, &status), MPI_SUCCESS);
		MPI_Get_count(&status, MPI_BYTE, &n);
		CHECK_EQ(n, BLOCK);
		VERIFY(more, BLOCK, seed);
		CHECK_EQ(MPI_Wait(&r[0], MPI_STATUS_IGNORE), MPI_SUCCESS);
		VERIFY(in, BLOCK, seed);
		CHECK_EQ(MPI_File_read_shared(f, in, 10, MPI_BYTE, MPI_STATUS_IGNORE), MPI_SUCCESS);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t thread[64];
	MPI_Offset at;
	int provided;

	MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
	CHECK_EQ(provided, MPI_THREAD_MULTIPLE);
	MPI_Comm_rank(MPI_COMM_WORLD, &me);
	MPI_Comm_size(MPI_COMM_WORLD, &np);
	MPI_Comm_dup(MPI_COMM_WORLD, &sync_comm);
	if (argc < 2)
		test_fail(__FILE__, __LINE__, "no path");
	threads = argc > 2 ? atoi(argv[2]) : threads;
	rounds = argc > 3 ? atoi(argv[3]) : rounds;
	CHECK_EQ(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE,
			       MPI_INFO_NULL, &f),
		 MPI_SUCCESS);
	for (int atomic = 0; atomic < 2; atomic++) {
		CHECK_EQ(MPI_File_set_atomicity(f, atomic), MPI_SUCCESS);
		for (int t = 0; t < threads; t++)
			CHECK(!pthread_create(&thread[t], NULL, thread_main, (void *)(intptr_t)t));
		for (int t = 0; t < threads; t++)
			pthread_join(thread[t], NULL);
		meet(sync_comm);
		CHECK_EQ(MPI_File_get_position_shared(f, &at), MPI_SUCCESS);
		CHECK_EQ(at, (MPI_Offset)10 * np * threads * rounds * (atomic + 1));
		meet(sync_comm);
	}
	CHECK_EQ(MPI_File_close(&f), MPI_SUCCESS);
	test_done("io_threads");
	return 0;
}
