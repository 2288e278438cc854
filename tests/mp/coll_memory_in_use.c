/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory that a collective still needs, or must not touch. Where a rank has to be late, a message or a counter in shared memory
 * holds the rank up, so that the result does not depend on chance: without the wait or the copy under test each run fails.
 *
 *     coll_memory_in_use gather	three ranks: the root of a Gather of long blocks completes after the writers
 *     coll_memory_in_use exchange	two ranks, host executor: MPI_Alltoallv in place of long blocks ends
 *     coll_memory_in_use untouched	two ranks, host executor: blocks that no rank sends keep their bytes
 *     coll_memory_in_use scratch	two ranks, host executor: a blocking call whose scratch exceeds the kept one;
 *					HEDDLE_EAGER_MAX=64m
 *     coll_memory_in_use kept		four ranks, host executor, HEDDLE_COLL_VECTOR=tree, HEDDLE_UNEXPECTED_MAX=2: a Scan keeps
 *					data that rank 0 has not received
 */
#include <signal.h>
#include <stdbool.h>

#include "stopped.h"
#include "survivors.h"

#include "mpi_test.h"

static int *counters;

static void tell(int rank, int tag)
{
	MPI_Send(NULL, 0, MPI_BYTE, rank, tag, MPI_COMM_WORLD);
}

static void hear(int rank, int tag)
{
	MPI_Recv(NULL, 0, MPI_BYTE, rank, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/* ---- gather --------------------------------------------------------------------------------------------------- */

/* Rank 0 calls MPI_Igather, and tests the request while the writers wait for a message from rank 0. Blocks of this length are
 * written into the root's buffer. */
static void gather(void)
{
	enum { BYTES = 640 << 10, TESTS = 1000 };
	char *in = malloc(BYTES), *out = malloc((size_t)BYTES * (size_t)np);

	CHECK(in && out);
	for (int round = 0; round < 3; round++) {
		MPI_Request q;
		int done = 0;

		fill(in, BYTES, seed_of(me, 0, round, BYTES));
		memset(out, 0, (size_t)BYTES * (size_t)np);
		if (me)
			hear(0, 1);
		MPI_Igather(in, BYTES, MPI_BYTE, out, BYTES, MPI_BYTE, 0, MPI_COMM_WORLD, &q);
		/* the first round makes the queues, which needs all ranks */
		for (int i = 0; !me && i < TESTS; i++) {
			MPI_Test(&q, &done, MPI_STATUS_IGNORE);
			CHECK(!done);
		}
		for (int r = 1; !me && r < np; r++)
			tell(r, 1);
		MPI_Wait(&q, MPI_STATUS_IGNORE);
		for (int r = 0; !me && r < np; r++)
			VERIFY(out + (size_t)r * BYTES, BYTES, seed_of(r, 0, round, BYTES));
	}
	free(in);
	free(out);
}

/* ---- exchange ------------------------------------------------------------------------------------------------- */

/* In place each block lies in the memory into which the peer's block is received. Both are announced, so that each rank's send
 * ends when the peer receives: a receive that waits for the send of the same memory would never begin. */
static void exchange(void)
{
	enum { BYTES = 256 << 10 };
	int counts[2] = { BYTES, BYTES }, displs[2] = { 0, BYTES };
	char *buf = malloc(2 * BYTES);

	CHECK(buf && np == 2);
	for (int round = 0; round < 4; round++) {
		MPI_Request q = MPI_REQUEST_NULL;

		for (int r = 0; r < 2; r++)
			fill(buf + displs[r], BYTES, seed_of(me, r, round, BYTES));
		if (round % 2)
			MPI_Alltoallv(MPI_IN_PLACE, NULL, NULL, MPI_BYTE, buf, counts, displs, MPI_BYTE, MPI_COMM_WORLD);
		else
			MPI_Ialltoallv(MPI_IN_PLACE, NULL, NULL, MPI_BYTE, buf, counts, displs, MPI_BYTE, MPI_COMM_WORLD, &q);
		MPI_Wait(&q, MPI_STATUS_IGNORE);
		for (int r = 0; r < 2; r++)
			VERIFY(buf + displs[r], BYTES, seed_of(r, me, round, BYTES));
	}
	free(buf);
}

/* ---- untouched ------------------------------------------------------------------------------------------------ */

enum { ELEMENTS = 8192, BLOCK = 2 * ELEMENTS };		/* a block has a hole behind each of its ints */

/* Sends the block `with` to both neighbors of a ring or of a row, in packed form. Returns with the blocks of both in `out`. */
static void neighbors(bool ring, MPI_Datatype spread, int with, int *in, int *out)
{
	int dims = 2, periods = ring;
	MPI_Comm comm;

	MPI_Cart_create(MPI_COMM_WORLD, 1, &dims, &periods, 0, &comm);
	for (int i = 0; i < 2 * BLOCK; i++) {
		in[i] = with;
		out[i] = -1;
	}
	MPI_Neighbor_alltoall(in, ELEMENTS, spread, out, ELEMENTS, spread, comm);
	MPI_Comm_free(&comm);
}

/*
 * 1. MPI_Neighbor_alltoall on a ring fills the scratch with 77.
 * 2. On a row each rank has one neighbor, and the other block must stay; the call gets the same scratch.
 * 3. MPI_Exscan by an operation of the program must not write the buffer of rank 0.
 */
static void keep_second(void *in, void *inout, int *len, MPI_Datatype *type)
{
	(void)in;
	(void)inout;
	(void)len;
	(void)type;
}

static void untouched(void)
{
	int *in = malloc(2 * BLOCK * sizeof(int)), *out = malloc(2 * BLOCK * sizeof(int));
	MPI_Datatype spread;
	MPI_Op op;

	CHECK(in && out && np == 2);
	MPI_Type_create_resized(MPI_INT, 0, 2 * sizeof(int), &spread);
	MPI_Type_commit(&spread);
	MPI_Op_create(keep_second, 0, &op);
	for (int round = 0; round < 2; round++) {
		neighbors(true, spread, 77, in, out);
		for (int i = 0; i < 2 * BLOCK; i++)
			CHECK_EQ(out[i], i % 2 ? -1 : 77);
		neighbors(false, spread, 78, in, out);
		for (int i = 0; i < 2 * BLOCK; i++)
			CHECK_EQ(out[i], i / BLOCK == me || i % 2 ? -1 : 78);
		neighbors(true, spread, 77, in, out);
		for (int i = 0; i < BLOCK; i++) {
			in[i] = 79;
			out[i] = -1;
		}
		MPI_Exscan(in, out, ELEMENTS, spread, op, MPI_COMM_WORLD);
		for (int i = 0; i < BLOCK; i++)
			CHECK_EQ(out[i], me && i % 2 == 0 ? 79 : -1);
	}
	MPI_Op_free(&op);
	MPI_Type_free(&spread);
	free(in);
	free(out);
}

/* ---- scratch -------------------------------------------------------------------------------------------------- */

/* Types with holes are packed into scratch: far more than the call before used, and more than the heap has behind that. */
static void scratch(void)
{
	enum { INTS = 4 << 20 };
	int counts[2] = { INTS, INTS }, displs[2] = { 0, INTS }, few[2] = { 1, 1 };
	size_t bytes = (size_t)2 * 2 * INTS * sizeof(int);
	int *in = malloc(bytes), *out = calloc(1, bytes);
	MPI_Datatype spread;

	CHECK(in && out && np == 2);
	MPI_Type_create_resized(MPI_INT, 0, 2 * sizeof(int), &spread);
	MPI_Type_commit(&spread);
	for (int i = 0; i < 2 * INTS; i++)
		in[2 * i] = me + i;
	MPI_Alltoallv(in, few, displs, spread, out, few, displs, spread, MPI_COMM_WORLD);
	MPI_Alltoallv(in, counts, displs, spread, out, counts, displs, spread, MPI_COMM_WORLD);
	for (int r = 0; r < 2; r++)
		for (int i = 0; i < INTS; i++)
			if (out[2 * (r * INTS + i)] != r + me * INTS + i)
				test_fail(__FILE__, __LINE__, "element %d of rank %d is wrong", i, r);
	MPI_Type_free(&spread);
	free(in);
	free(out);
}

/* ---- kept ----------------------------------------------------------------------------------------------------- */

enum { PID, CALLS, ONCE, TWICE };	/* counters: rank 0's process; rank 0 calls MPI_Scan; calls of rank 1's operation */

/* Rank 0 receives nothing until rank 1 has combined twice, or has combined once and waits. */
static void pause_rank_0(int sig)
{
	(void)sig;
	for (int i = 0; i < 20000 && !__atomic_load_n(&counters[ONCE], __ATOMIC_SEQ_CST); i++)
		usleep(1000);
	for (int i = 0; i < 500 && !__atomic_load_n(&counters[TWICE], __ATOMIC_SEQ_CST); i++)
		usleep(1000);
}

static void add_slowly(void *in, void *inout, int *len, MPI_Datatype *type)
{
	int *a = in, *b = inout;

	(void)type;
	for (int i = 0; i < *len; i++)
		b[i] += a[i];
	if (me == 1)
		survivors_count(&counters[__atomic_load_n(&counters[ONCE], __ATOMIC_SEQ_CST) ? TWICE : ONCE]);
}

/* Returns when rank 0 waits in MPI_Scan, its data sent, and is paused; or after two seconds. */
static void await_rank_0(void)
{
	CHECK(survivors_await(&counters[CALLS], 1, 60, true));
	for (int i = 0, flag; i < 2000 && (i < 20 || process_state(counters[PID]) != 'S'); i++) {
		MPI_Iprobe(0, 0, MPI_COMM_SELF, &flag, MPI_STATUS_IGNORE);
		usleep(1000);
	}
	kill(counters[PID], SIGUSR1);
}

/*
 * 1. Rank 1 sends messages that rank 0 does not receive, so that rank 0 answers HDL_CTL_HOLD: rank 1's further messages are
 *    announced, and stay in rank 1's memory.
 * 2. Rank 0 calls MPI_Scan, sends to rank 1, waits for rank 1's message, and is paused by a signal.
 * 3. Rank 1 calls MPI_Scan: rank 1 announces its vector to rank 0, and receives rank 0's. Rank 1 combines that with the result
 *    and with the announced vector, which must wait until rank 0 has read.
 */
static void kept(void)
{
	enum { N = 1000, UNEXPECTED = 16 };
	int in[N], out[N], got[N];
	MPI_Op op;

	CHECK(np == 4);
	MPI_Op_create(add_slowly, 1, &op);
	if (!me) {
		struct sigaction sa = { .sa_handler = pause_rank_0, .sa_flags = SA_RESTART };

		sigaction(SIGUSR1, &sa, NULL);
		counters[PID] = getpid();
	}
	for (int i = 0; i < N; i++)
		in[i] = 1 << 8 * me;
	meet(sync_comm);
	if (me == 1) {
		for (int k = 0; k < UNEXPECTED; k++)
			MPI_Send(in, k < 2 ? N : 1, MPI_INT, 0, 7, MPI_COMM_WORLD);
		tell(0, 8);
		hear(0, 9);
		await_rank_0();
	} else if (!me) {
		hear(1, 8);
		tell(1, 9);
		survivors_count(&counters[CALLS]);
	}
	MPI_Scan(in, out, N, MPI_INT, op, MPI_COMM_WORLD);
	for (int i = 0; i < N; i++)
		CHECK_EQ(out[i], 0x01010101 & ((2LL << (8 * me)) - 1));
	for (int k = 0; !me && k < UNEXPECTED; k++)
		MPI_Recv(got, N, MPI_INT, 1, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	MPI_Op_free(&op);
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "";

	test_init(&argc, &argv);
	counters = survivors_counters_of("-");
	if (!strcmp(mode, "gather"))
		gather();
	else if (!strcmp(mode, "exchange"))
		exchange();
	else if (!strcmp(mode, "untouched"))
		untouched();
	else if (!strcmp(mode, "scratch"))
		scratch();
	else if (!strcmp(mode, "kept"))
		kept();
	else
		test_fail(__FILE__, __LINE__, "usage: coll_memory_in_use gather | exchange | untouched | scratch | kept");
	meet(sync_comm);
	MPI_Comm_free(&sync_comm);
	MPI_Finalize();
	return 0;
}
