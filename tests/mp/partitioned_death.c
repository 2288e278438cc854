/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A rank dies in the middle of partitioned communication with all other ranks: each survivor gets MPI_ERR_PROC_ABORTED from the
 * receive, of which some partitions came, from MPI_Parrived, from the send, with or without a matching receive, and from a later
 * start. Requests among survivors go on. Must run under heddlerun --on-death=continue.
 *
 *     partitioned_death DEAD BYTES
 */
#include <stdio.h>
#include <string.h>

#include "survivors.h"

enum { N = 4 };
static int me, all, dead;

static void expect(int cond, const char *what)
{
	if (cond)
		return;
	printf("survivor %d: FAILED: %s\n", me, what);
	fflush(stdout);
	MPI_Abort(MPI_COMM_WORLD, 3);
}

int main(int argc, char **argv)
{
	MPI_Request in, out, waiting, ring[2];
	char *buf[5];
	int bytes, flag = 0, rc = 0, next, last, left;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &me);
	MPI_Comm_size(MPI_COMM_WORLD, &all);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	dead = argc == 3 ? atoi(argv[1]) : -1;
	if (dead < 0 || dead >= all) {
		fprintf(stderr, "usage: partitioned_death DEAD BYTES\n");
		MPI_Abort(MPI_COMM_WORLD, 2);
	}
	bytes = atoi(argv[2]);
	for (int i = 0; i < 5; i++)
		buf[i] = calloc(N, (size_t)bytes);
	MPI_Barrier(MPI_COMM_WORLD);
	if (me == dead) {
		for (int r = 0; r < all; r++) {
			if (r == me)
				continue;
			MPI_Psend_init(buf[0], N, bytes, MPI_BYTE, r, 1, MPI_COMM_WORLD, MPI_INFO_NULL, &out);
			MPI_Precv_init(buf[1], N, bytes, MPI_BYTE, r, 2, MPI_COMM_WORLD, MPI_INFO_NULL, &in);
			MPI_Start(&out);
			MPI_Start(&in);
			MPI_Pready(1, out);
			MPI_Send(NULL, 0, MPI_BYTE, r, 4, MPI_COMM_WORLD);
			MPI_Recv(NULL, 0, MPI_BYTE, r, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		}
		kill(getpid(), SIGKILL);
	}
	MPI_Precv_init(buf[0], N, bytes, MPI_BYTE, dead, 1, MPI_COMM_WORLD, MPI_INFO_NULL, &in);
	MPI_Psend_init(buf[1], N, bytes, MPI_BYTE, dead, 2, MPI_COMM_WORLD, MPI_INFO_NULL, &out);
	MPI_Psend_init(buf[2], N, bytes, MPI_BYTE, dead, 3, MPI_COMM_WORLD, MPI_INFO_NULL, &waiting);
	MPI_Start(&in);
	MPI_Start(&out);
	MPI_Start(&waiting);
	MPI_Pready_range(0, N - 1, waiting);
	MPI_Pready(2, out);
	while (!flag)
		expect(!MPI_Parrived(in, 1, &flag), "MPI_Parrived of what came");
	MPI_Recv(NULL, 0, MPI_BYTE, dead, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	MPI_Send(NULL, 0, MPI_BYTE, dead, 4, MPI_COMM_WORLD);
	for (flag = 0; !rc;)
		rc = MPI_Parrived(in, 3, &flag);
	expect(survivors_told(rc) && !flag, "MPI_Parrived");
	expect(survivors_told(MPI_Wait(&in, MPI_STATUS_IGNORE)), "the receive");
	expect(survivors_told(MPI_Wait(&waiting, MPI_STATUS_IGNORE)), "the send without a receiver");
	MPI_Pready(0, out);
	expect(survivors_told(MPI_Wait(&out, MPI_STATUS_IGNORE)), "the send");
	expect(survivors_told(MPI_Start(&in)), "a start of the receive");
	expect(survivors_told(MPI_Start(&out)), "a start of the send");
	MPI_Request_free(&in);
	MPI_Request_free(&out);
	MPI_Request_free(&waiting);
	/* the living */
	next = (me + 1) % all == dead ? (me + 2) % all : (me + 1) % all;
	last = (me + all - 1) % all == dead ? (me + all - 2) % all : (me + all - 1) % all;
	MPI_Psend_init(buf[3], N, bytes, MPI_BYTE, next, 7, MPI_COMM_WORLD, MPI_INFO_NULL, &ring[0]);
	MPI_Precv_init(buf[4], 2 * N, bytes / 2, MPI_BYTE, last, 7, MPI_COMM_WORLD, MPI_INFO_NULL, &ring[1]);
	for (int epoch = 0; epoch < 3; epoch++) {
		memset(buf[3], 10 * me + epoch, N * (size_t)bytes);
		MPI_Startall(2, ring);
		for (int i = 0; i < N; i++)
			MPI_Pready(i, ring[0]);
		expect(!MPI_Waitall(2, ring, MPI_STATUSES_IGNORE), "the living");
		left = buf[4][N * bytes - 1];
		expect(left == 10 * last + epoch && buf[4][0] == left, "the living's bytes");
	}
	MPI_Request_free(&ring[0]);
	MPI_Request_free(&ring[1]);
	printf("survivor %d: told\n", me);
	fflush(stdout);
	MPI_Finalize();
	return 0;
}
