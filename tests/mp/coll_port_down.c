/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The port of a rank goes down before that rank posts the cells of a collective, and comes up later: the requests wait meanwhile.
 * A rank whose operation has completed overwrites its buffer, and no other rank may receive the new bytes. Executor mailbox.
 *
 *     coll_port_down SHCACTL
 *     coll_port_down SHCACTL left	the port stays down until the requests fail: a root that has completed by staging reports
 *					the failure to all ranks
 */
#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MOST 4096
#define BEFORE 20	/* calls, and one more: the first few of a communicator run on the host, and the executor's own barriers
			 * come between other calls */

static const char *shcactl;
static int me, all;
static bool persistent;
static unsigned char *in, *out;

static void port(const char *how, const char *before, const char *behind)
{
	char command[512];

	snprintf(command, sizeof(command), "%s '%s' inject port-%s %s", before, shcactl, how, behind);
	if (!me && system(command)) {
		fprintf(stderr, "%s failed\n", command);
		MPI_Abort(MPI_COMM_WORLD, 1);
	}
}

static unsigned char value(int from, int to)
{
	return (unsigned char)(1 + 16 * from + to);
}

static void start(bool exchange, int bytes, MPI_Comm comm, MPI_Request *request)
{
	for (int r = 0; r < all; r++)
		memset(in + (size_t)r * MOST, 0, MOST);
	for (int r = 0; r < all; r++)
		memset(in + (size_t)r * (size_t)bytes, value(me, exchange ? r : 0), (size_t)bytes);
	memset(out, 0, (size_t)all * MOST);
	if (persistent)
		MPI_Start(request);
	else if (exchange)
		MPI_Ialltoall(in, bytes, MPI_BYTE, out, bytes, MPI_BYTE, comm, request);
	else
		MPI_Ibcast(me ? out : in, bytes, MPI_BYTE, 0, comm, request);
}

static void check(bool exchange, int bytes, const char *when)
{
	for (int i = 0; i < (exchange ? all : me ? 1 : 0) * bytes; i++)
		if (out[i] != value(i / bytes, exchange ? me : 0)) {
			fprintf(stderr, "%s of %d bytes, %s: rank %d: byte %d is %#x, not %#x\n",
				exchange ? "alltoall" : "bcast", bytes, when, me, i, out[i],
				value(i / bytes, exchange ? me : 0));
			MPI_Abort(MPI_COMM_WORLD, 1);
		}
}

static void waits(bool exchange, int bytes, int before)
{
	MPI_Request request;
	char *more = NULL;
	int done = 0;

	if (persistent && exchange)
		MPI_Alltoall_init(in, bytes, MPI_BYTE, out, bytes, MPI_BYTE, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
	else if (persistent)
		MPI_Bcast_init(me ? out : in, bytes, MPI_BYTE, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
	for (int i = 0; i < before; i++) {
		start(exchange, bytes, MPI_COMM_WORLD, &request);
		MPI_Wait(&request, MPI_STATUS_IGNORE);
		check(exchange, bytes, "before");
	}
	MPI_Barrier(MPI_COMM_WORLD);
	port("down", "", "");
	start(exchange, bytes, MPI_COMM_WORLD, &request);
	for (int i = 0; !me && i < 100 && !done; i++)
		MPI_Test(&request, &done, MPI_STATUS_IGNORE);
	if (done)
		memset(in, 0xee, (size_t)all * MOST);
	/* freed memory may be allocated again at once */
	if (persistent && done)
		MPI_Request_free(&request);
	if (persistent && done)
		MPI_Alloc_mem(1 << 20, MPI_INFO_NULL, &more);
	if (more)
		memset(more, 0xee, 1 << 20);
	port("up", "", "");
	if (!done)
		MPI_Wait(&request, MPI_STATUS_IGNORE);
	check(exchange, bytes, "posted while the port was down");
	if (more)
		MPI_Free_mem(more);
	if (persistent && !done)
		MPI_Request_free(&request);
}

/* Overwrites the stack memory of the frames that have returned. */
static __attribute__((noinline)) void overwrite_stack(void)
{
	volatile char some[64 << 10];

	for (size_t i = 0; i < sizeof(some); i++)
		some[i] = (char)0xee;
}

/* A v-collective with one short block with holes, which is packed, and long blocks. */
static void unequal(void)
{
	int *counts = malloc(2 * (size_t)all * sizeof(int)), *at = counts + all;
	MPI_Datatype holes;
	MPI_Request request;

	MPI_Type_create_resized(MPI_BYTE, 0, 2, &holes);
	MPI_Type_commit(&holes);
	for (int r = 0; r < all; r++) {
		counts[r] = r ? 2000 : 1000;
		at[r] = r * MOST;
	}
	for (int i = 0; i <= BEFORE; i++) {
		memset(in, value(me, 0), (size_t)2 * (size_t)counts[me]);
		memset(out, 0, (size_t)all * MOST);
		MPI_Barrier(MPI_COMM_WORLD);
		if (i == BEFORE)
			port("down", "", "");
		MPI_Iallgatherv(in, counts[me], holes, out, counts, at, MPI_BYTE, MPI_COMM_WORLD, &request);
		overwrite_stack();
		if (i == BEFORE)
			port("up", "", "");
		MPI_Wait(&request, MPI_STATUS_IGNORE);
		for (int r = 0; r < all; r++)
			for (int k = 0; k < counts[r]; k++)
				if (out[at[r] + k] != value(r, 0)) {
					fprintf(stderr, "allgatherv, time %d: rank %d: byte %d of rank %d is %#x, not %#x\n", i,
						me, k, r, out[at[r] + k], value(r, 0));
					MPI_Abort(MPI_COMM_WORLD, 1);
				}
	}
	MPI_Type_free(&holes);
	free(counts);
}

/* The communicator is freed while a cell of its last collective is still to be sent. */
static void freed(void)
{
	MPI_Request request;
	MPI_Comm comm;

	MPI_Comm_dup(MPI_COMM_WORLD, &comm);
	for (int i = 0; i < BEFORE; i++) {
		start(false, 8, comm, &request);
		MPI_Wait(&request, MPI_STATUS_IGNORE);
	}
	MPI_Barrier(MPI_COMM_WORLD);
	port("down", "", "");
	start(false, 8, comm, &request);
	port("up", "(sleep 0.3;", ") &");
	MPI_Wait(&request, MPI_STATUS_IGNORE);
	MPI_Comm_free(&comm);
	check(false, 8, "freed while the port was down");
}

/* The same by a persistent request: its root completes, frees the request and allocates memory before any cell is sent. */
static void unequal_persistent(void)
{
	int *counts = malloc(2 * (size_t)all * sizeof(int)), *at = counts + all, done = 0;
	MPI_Request request;
	MPI_Datatype holes;
	char *more = NULL;

	MPI_Type_create_resized(MPI_BYTE, 0, 2, &holes);
	MPI_Type_commit(&holes);
	for (int r = 0; r < all; r++) {
		counts[r] = r % 2 ? 900 : 40;
		at[r] = r * MOST / 2;
	}
	MPI_Scatterv_init(in, counts, at, holes, out, counts[me], MPI_BYTE, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
	for (int i = 0; i <= BEFORE; i++) {
		for (int r = 0; r < all; r++)
			memset(in + (size_t)r * MOST, value(0, r), MOST);
		memset(out, 0, (size_t)all * MOST);
		MPI_Barrier(MPI_COMM_WORLD);
		if (i == BEFORE)
			port("down", "", "");
		MPI_Start(&request);
		overwrite_stack();
		for (int k = 0; !me && i == BEFORE && k < 100 && !done; k++)
			MPI_Test(&request, &done, MPI_STATUS_IGNORE);
		if (done) {
			memset(in, 0xee, (size_t)all * MOST);
			MPI_Request_free(&request);
			MPI_Alloc_mem(1 << 20, MPI_INFO_NULL, &more);
			memset(more, 0xee, 1 << 20);
		}
		if (i == BEFORE)
			port("up", "", "");
		if (!done)
			MPI_Wait(&request, MPI_STATUS_IGNORE);
		for (int k = 0; k < counts[me] && (me || !done); k++)
			if (out[k] != value(0, me)) {
				fprintf(stderr, "scatterv, persistent, time %d: rank %d: byte %d is %#x, not %#x\n", i, me, k,
					out[k], value(0, me));
				MPI_Abort(MPI_COMM_WORLD, 1);
			}
	}
	if (more)
		MPI_Free_mem(more);
	if (!done)
		MPI_Request_free(&request);
	MPI_Type_free(&holes);
	free(counts);
}

/* The root has no operation under way, only staged copies that are not sent. */
static int left_behind(void)
{
	enum { LONG = 65536 };
	char *message = calloc(1, LONG);
	int class;

	for (int i = 0; i < 2 * BEFORE; i++)
		MPI_Bcast(message, LONG, MPI_BYTE, 0, MPI_COMM_WORLD);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	MPI_Barrier(MPI_COMM_WORLD);
	port("down", "", "");
	port("up", "(sleep 10;", ") &");
	/* the other ranks go on when the port is down */
	if (me)
		usleep(300000);
	MPI_Error_class(MPI_Bcast(message, LONG, MPI_BYTE, 0, MPI_COMM_WORLD), &class);
	if (class != (me ? MPI_ERR_PROC_ABORTED : MPI_SUCCESS)) {
		fprintf(stderr, "bcast, left behind while the port was down: rank %d: error class %d\n", me, class);
		return 1;
	}
	free(message);
	MPI_Finalize();
	return 0;
}

int main(int argc, char **argv)
{
	const int sizes[] = { 8, 1024, MOST };

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &me);
	MPI_Comm_size(MPI_COMM_WORLD, &all);
	shcactl = argv[1];
	if (argc > 2)
		return left_behind();
	in = malloc((size_t)all * MOST);
	out = malloc((size_t)all * MOST);
	for (int s = 0; s < 3; s++)
		for (int k = 0; k < 4; k++)
			waits(k & 1, sizes[s], BEFORE + k / 2);
	freed();
	unequal();
	unequal_persistent();
	persistent = true;
	for (int s = 0; s < 2; s++)
		for (int k = 0; k < 4; k++)
			waits(k & 1, sizes[s], BEFORE + k / 2);
	free(in);
	free(out);
	MPI_Finalize();
	return 0;
}
