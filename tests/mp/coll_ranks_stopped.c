/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Offload, in the strict sense: all ranks but the last post a nonblocking Allreduce and are stopped (SIGSTOP). The last rank then
 * posts its part, and MPI_Wait of the last rank returns with the right sum while the other ranks are still stopped. Then they are
 * continued, and theirs return, too. The same for Ireduce and Igather (to the last rank), Ibarrier, Iallgather, Ialltoall,
 * Ireduce_scatter_block and, from a root that is stopped, Ibcast and Iscatter; and the vector forms, which are mailbox's.
 *
 *     coll_ranks_stopped          sums of int64, three sizes
 *     coll_ranks_stopped moved    all of these, int64
 *     coll_ranks_stopped pieces	the vector forms
 *     coll_ranks_stopped persistent	all of these by persistent requests
 *     coll_ranks_stopped all      every operation on every type for which the operation is defined, and sizes up to 64 KiB in
 *                                 turn
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

#include "stopped.h"

static int me, all;
static int32_t *pids;

static void die(const char *what)
{
	/* The stopped ranks must not be left behind, also after an error. */
	for (int r = 0; r < all; r++)
		if (r != me)
			kill(pids[r], SIGCONT);
	fprintf(stderr, "coll_ranks_stopped: rank %d: %s\n", me, what);
	MPI_Abort(MPI_COMM_WORLD, 1);
	exit(1);
}

static void too_late(int sig)
{
	static const char text[] = "coll_ranks_stopped: the last rank's Wait did not return while the others were stopped\n";

	(void)sig;
	for (int r = 0; r < all; r++)
		if (r != me)
			kill(pids[r], SIGCONT);
	if (write(2, text, sizeof(text) - 1) < 0)
		_exit(2);
	_exit(1);
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

/* ---- operands -------------------------------------------------------------------------------------------- */

enum { IALLREDUCE, IBARRIER, IBCAST, IREDUCE, IALLGATHER, IALLTOALL, IGATHER, ISCATTER, IREDUCE_SCATTER, WHATS,
       IALLGATHERV = WHATS, IALLTOALLV, IGATHERV, ISCATTERV, ALL_WHATS };

/* Whether a rank sends a different block to each rank; whether a rank receives a block of each rank. */
static bool many_in(int what)
{
	return what == IALLTOALL || what == ISCATTER || what == IREDUCE_SCATTER || what == IALLTOALLV || what == ISCATTERV;
}

static bool many_out(int what)
{
	return what == IALLTOALL || what == IALLGATHER || what == IGATHER || what == IALLTOALLV || what == IALLGATHERV ||
	       what == IGATHERV;
}


static const MPI_Datatype types[] = {
	MPI_INT64_T, MPI_UINT64_T, MPI_INT32_T, MPI_UINT32_T, MPI_INT16_T, MPI_UINT16_T, MPI_INT8_T, MPI_UINT8_T, MPI_FLOAT,
	MPI_DOUBLE, MPI_C_BOOL, MPI_BYTE, MPI_C_FLOAT_COMPLEX, MPI_C_DOUBLE_COMPLEX, MPI_2INT, MPI_DOUBLE_INT, MPI_FLOAT_INT,
	MPI_LONG_INT, MPI_SHORT_INT,
};
#define INTEGERS 8		/* of types */
static const MPI_Op ops[] = { MPI_SUM, MPI_MIN, MPI_MAX, MPI_PROD, MPI_BAND, MPI_BOR, MPI_BXOR, MPI_LAND, MPI_LOR, MPI_LXOR,
			      MPI_MINLOC, MPI_MAXLOC };

static bool defined(int op, int type)
{
	if (type >= 14)
		return op >= 10;
	if (op >= 10)
		return false;
	if (type < INTEGERS)
		return true;
	switch (types[type] == MPI_C_BOOL ? 0 : types[type] == MPI_BYTE ? 1 : type < 10 ? 2 : 3) {
	case 0: return op >= 7;
	case 1: return op >= 4 && op <= 6;
	case 2: return op < 4;
	default: return op == 0 || op == 3;
	}
}

/* Element i of a rank: small numbers, of which sums and products are exact, and the same on all ranks now and then. */
static void fill(char *p, int type, int rank, int n)
{
	MPI_Aint lb, extent;

	MPI_Type_get_extent(types[type], &lb, &extent);
	memset(p, 0, (size_t)extent * (size_t)n);
	for (int i = 0; i < n; i++, p += extent) {
		int v = (rank * 5 + i * 3) % 4 - (type & 1 || type == 10 || type == 11 ? 0 : 1);

		switch (type) {
		case 0: case 1: *(int64_t *)p = v; break;
		case 2: case 3: *(int32_t *)p = v; break;
		case 4: case 5: *(int16_t *)p = (int16_t)v; break;
		case 6: case 7: case 11: *p = (char)v; break;
		case 8: *(float *)p = (float)v; break;
		case 9: *(double *)p = v; break;
		case 10: *(_Bool *)p = v; break;
		case 12: ((float *)p)[0] = (float)v; ((float *)p)[1] = (float)(i % 2); break;
		case 13: ((double *)p)[0] = v; ((double *)p)[1] = i % 2; break;
		case 14: ((int *)p)[0] = v; ((int *)p)[1] = rank; break;
		case 15: *(double *)p = v; *(int *)(p + 8) = rank; break;
		case 16: *(float *)p = (float)v; *(int *)(p + 4) = rank; break;
		case 17: *(long *)p = v; *(int *)(p + 8) = rank; break;
		default: *(short *)p = (short)v; *(int *)(p + 4) = rank; break;
		}
	}
}

#define BYTES (1 << 18)			/* blocks of 17 ranks */
static char *mine, *result, *expected, *scratch;

static bool persistent;
static int *lengths, *displs;		/* of vectors */

/* The same request is started again, until freed. */
#define FORM(Name, name, ...)											\
	do {													\
		if (persistent && *req == MPI_REQUEST_NULL)							\
			MPI_##Name##_init(__VA_ARGS__, MPI_INFO_NULL, req);					\
		if (persistent)											\
			MPI_Start(req);										\
		else												\
			MPI_I##name(__VA_ARGS__, req);								\
	} while (0)

static void post(int what, int type, int op, int n, MPI_Request *req)
{
	for (int r = 0; r < all; r++) {
		lengths[r] = n;
		displs[r] = r * n;
	}
	switch (what) {
	case IALLGATHERV:
		FORM(Allgatherv, allgatherv, mine, n, types[type], result, lengths, displs, types[type], MPI_COMM_WORLD);
		break;
	case IALLTOALLV:
		FORM(Alltoallv, alltoallv, mine, lengths, displs, types[type], result, lengths, displs, types[type],
		     MPI_COMM_WORLD);
		break;
	case IGATHERV:
		FORM(Gatherv, gatherv, mine, n, types[type], result, lengths, displs, types[type], all - 1, MPI_COMM_WORLD);
		break;
	case ISCATTERV:
		FORM(Scatterv, scatterv, mine, lengths, displs, types[type], result, n, types[type], 0, MPI_COMM_WORLD);
		break;
	case IALLREDUCE:
		FORM(Allreduce, allreduce, mine, result, n, types[type], ops[op], MPI_COMM_WORLD);
		break;
	case IBARRIER:
		FORM(Barrier, barrier, MPI_COMM_WORLD);
		break;
	case IBCAST:
		if (me == 0)
			fill(result, type, 0, n);
		FORM(Bcast, bcast, result, n, types[type], 0, MPI_COMM_WORLD);
		break;
	case IALLGATHER:
		FORM(Allgather, allgather, mine, n, types[type], result, n, types[type], MPI_COMM_WORLD);
		break;
	case IALLTOALL:
		FORM(Alltoall, alltoall, mine, n, types[type], result, n, types[type], MPI_COMM_WORLD);
		break;
	case IGATHER:
		FORM(Gather, gather, mine, n, types[type], result, n, types[type], all - 1, MPI_COMM_WORLD);
		break;
	case ISCATTER:
		FORM(Scatter, scatter, mine, n, types[type], result, n, types[type], 0, MPI_COMM_WORLD);
		break;
	case IREDUCE_SCATTER:
		FORM(Reduce_scatter_block, reduce_scatter_block, mine, result, n, types[type], ops[op], MPI_COMM_WORLD);
		break;
	default:
		FORM(Reduce, reduce, mine, result, n, types[type], ops[op], all - 1, MPI_COMM_WORLD);
		break;
	}
}

static void expect(int what, int type, int op, int n)
{
	MPI_Aint lb, extent;
	size_t block;

	MPI_Type_get_extent(types[type], &lb, &extent);
	block = (size_t)extent * (size_t)n;
	for (int r = 0; r < (what == IBCAST || what == ISCATTER || what == ISCATTERV ? 1 : all); r++) {
		char *from = scratch + (many_in(what) ? (size_t)me * block : 0);

		fill(scratch, type, r, many_in(what) ? n * all : n);
		if (many_out(what))
			memcpy(expected + (size_t)r * block, from, block);
		else if (!r)
			memcpy(expected, from, block);
		else
			MPI_Reduce_local(from, expected, n, types[type], ops[op]);
	}
}

static void verify(int what, int type, int op, int n)
{
	MPI_Aint lb, extent;
	char why[300], name[MPI_MAX_OBJECT_NAME];
	int len;

	if (what == IBARRIER || ((what == IREDUCE || what == IGATHER || what == IGATHERV) && me != all - 1))
		return;
	n *= many_out(what) ? all : 1;
	MPI_Type_get_extent(types[type], &lb, &extent);
	MPI_Type_get_name(types[type], name, &len);
	for (size_t i = 0; i < (size_t)extent * (size_t)n; i++)
		/* the bytes between the members of a pair are undefined */
		if (result[i] != expected[i] && !(type == 18 && (i % 8 == 2 || i % 8 == 3)) &&
		    !(type >= 15 && i % (size_t)extent >= 12)) {
			snprintf(why, sizeof(why), "collective %d of %d x %s, operation %d: wrong byte %zu: %d, not %d", what,
				 n, name, op, i, result[i], expected[i]);
			die(why);
		}
}

/* All ranks but the last post and are stopped; the last one's Wait returns. */
static void one(int what, int type, int op, int n)
{
	MPI_Request req = MPI_REQUEST_NULL;

	fill(mine, type, me, many_in(what) ? n * all : n);
	expect(what, type, op, n);
	/* The queues are connected from here on: the next operation goes to the device at once. */
	post(what, type, op, n, &req);
	MPI_Wait(&req, MPI_STATUS_IGNORE);
	verify(what, type, op, n);
	MPI_Barrier(MPI_COMM_WORLD);
	memset(result, 0x77, BYTES);
	if (me == all - 1) {
		others_stopped();
		signal(SIGALRM, too_late);
		alarm(60);
		post(what, type, op, n, &req);
		MPI_Wait(&req, MPI_STATUS_IGNORE);
		alarm(0);
		for (int r = 0; r < all - 1; r++)
			if (!is_stopped(pids[r]))
				die("a rank went on by itself");
		verify(what, type, op, n);
		for (int r = 0; r < all - 1; r++)
			kill(pids[r], SIGCONT);
	} else {
		post(what, type, op, n, &req);
		raise(SIGSTOP);
		MPI_Wait(&req, MPI_STATUS_IGNORE);
		verify(what, type, op, n);
	}
	if (persistent)
		MPI_Request_free(&req);
	MPI_Barrier(MPI_COMM_WORLD);
}

/* Sizes in turn: from one element to the most of a hop. Without the device's extensions a reduction ends at 1 KiB and at 128
 * elements. */
static void everything(void)
{
	static const int counts[] = { 1, 16, 5, 100, 1024, 7, 4096, 33, 3 };
	const char *text = getenv("HEDDLE_COLL_EXTENSIONS");
	bool extensions = !text || strcmp(text, "0");
	int turn = 0;

	for (int type = 0; type < (int)(sizeof(types) / sizeof(types[0])); type++)
		for (int op = 0; op < 12; op++) {
			int n = counts[turn++ % 9];

			/* products of complex numbers are nothing that the device knows */
			if (!defined(op, type) || (op == 3 && (type == 12 || type == 13)) ||
			    (!extensions &&
			     (op == 1 || op == 2 || op == 3 || op >= 10 || (op == 0 && (type == 8 || type >= 12)))))
				continue;
			if (!extensions && n > 128)
				n = 128;
			one(turn % 2 ? IALLREDUCE : IREDUCE, type, op, n);
		}
}

int main(int argc, char **argv)
{
	static const int sizes[] = { 1, 8, 128, 900 };
	int32_t pid;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &me);
	MPI_Comm_size(MPI_COMM_WORLD, &all);
	pids = calloc((size_t)all, sizeof(*pids));
	mine = calloc(4, BYTES);
	if (!pids || !mine)
		die("no memory");
	result = mine + BYTES;
	expected = result + BYTES;
	scratch = expected + BYTES;
	pid = getpid();
	MPI_Allgather(&pid, 1, MPI_INT32_T, pids, 1, MPI_INT32_T, MPI_COMM_WORLD);
	lengths = calloc((size_t)all * 2, sizeof(*lengths));
	if (!lengths)
		die("no memory");
	displs = lengths + all;
	persistent = argc > 1 && !strcmp(argv[1], "persistent");
	if (argc > 1 && !strcmp(argv[1], "all"))
		everything();
	else if (argc > 1 && !strcmp(argv[1], "pieces"))
		for (int what = WHATS; what < ALL_WHATS; what++)
			/* of allgatherv all know the lengths, and take longer lines */
			for (int s = 0; s < (what == IALLGATHERV ? 4 : 3); s++)
				one(what, 0, 0, sizes[s]);
	else
		for (int what = 0; what < (persistent ? ALL_WHATS : argc > 1 ? WHATS : IREDUCE); what++)
			/* reductions without extensions of the device end at 128 elements */
			for (int s = 0; s < (argc > 1 && !persistent && (many_out(what) || what == ISCATTER) ? 4 : 3); s++)
				one(what, 0, 0, sizes[s]);
	if (!me)
		printf("coll_ranks_stopped: passed\n");
	free(pids);
	free(lengths);
	free(mine);
	MPI_Finalize();
	return 0;
}
