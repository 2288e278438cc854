/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A rank dies at a random place in collectives of all kinds, each on a separate communicator: the collectives of every survivor
 * end with MPI_ERR_PROC_ABORTED, on every communicator, even while one survivor makes no call; the next collective fails at once;
 * messages among survivors, a communicator of them, and MPI_Finalize go on. Must run under heddlerun --on-death=continue.
 *
 *     coll_death_random FORM BYTES DEAD LATE SEED FILE
 *
 * FORM: blocking, nonblocking, persistent. BYTES: of each rank's input. LATE: a survivor that calls only when all other survivors
 * have the error; -1: none. FILE: see survivors.h. Each survivor prints a line.
 */
#include <stdint.h>
#include <stdio.h>

#include "survivors.h"

enum { BARRIER, BCAST, REDUCE, ALLREDUCE, GATHER, SCATTER, ALLGATHER, ALLTOALL, ALLTOALLV, REDUCE_SCATTER, SCAN, EXSCAN, USER,
       LED, GATHERV, SCATTERV, ALLGATHERV, USER_REDUCE, USER_SCAN, NEIGHBORS, KINDS };
static const char *const names[] = { "barrier", "bcast", "reduce", "allreduce", "gather", "scatter", "allgather", "alltoall",
				     "alltoallv", "reduce_scatter", "scan", "exscan", "allreduce (program's operation)",
				     "barrier behind bcast", "gatherv", "scatterv", "allgatherv", "reduce (program's operation)",
				     "scan (program's operation)", "neighbor_alltoall" };
enum { BLOCKING, NONBLOCKING, PERSISTENT };

static int me, all, dead, late, form, count;
static int *met;
static MPI_Comm comms[KINDS];
static MPI_Request requests[KINDS];
static int64_t *in[KINDS], *out[KINDS];
static int *counts, *places;
static MPI_Op user;

static void add(void *a, void *b, int *n, MPI_Datatype *t)
{
	for (int i = 0; i < *n; i++)
		((int64_t *)b)[i] += ((int64_t *)a)[i];
}

/* Waits for a counter, and makes progress meanwhile: a receiver of long messages must be in the library now and then. */
static bool await(int *counter, int n)
{
	return survivors_await(counter, n, 30, count > 512);
}

#define CALL(Name, name, ...) (how == BLOCKING ? MPI_##Name(__VA_ARGS__, comms[k]) : \
			 how == NONBLOCKING ? MPI_I##name(__VA_ARGS__, comms[k], &requests[k]) : \
			 MPI_##Name##_init(__VA_ARGS__, comms[k], MPI_INFO_NULL, &requests[k]))

static int begin(int k, int how, int root)
{
	int64_t *a = in[k], *b = out[k];
	MPI_Datatype t = MPI_INT64_T;
	int rc;

	switch (k) {
	case LED:
		rc = how == BLOCKING ? MPI_Bcast(b, count, t, root, comms[k]) : MPI_SUCCESS;
		if (rc)
			return rc;
		/* fallthrough */
	case BARRIER:
		return how == BLOCKING ? MPI_Barrier(comms[k]) : how == NONBLOCKING ? MPI_Ibarrier(comms[k], &requests[k]) :
		       MPI_Barrier_init(comms[k], MPI_INFO_NULL, &requests[k]);
	case BCAST:
		return how == BLOCKING ? MPI_Bcast(b, count, t, root, comms[k]) :
		       how == NONBLOCKING ? MPI_Ibcast(b, count, t, root, comms[k], &requests[k]) :
		       MPI_Bcast_init(b, count, t, root, comms[k], MPI_INFO_NULL, &requests[k]);
	case REDUCE: return CALL(Reduce, reduce, a, b, count, t, MPI_SUM, root);
	case ALLREDUCE: return CALL(Allreduce, allreduce, a, b, count, t, MPI_SUM);
	case GATHER: return CALL(Gather, gather, a, count, t, b, count, t, root);
	case SCATTER: return CALL(Scatter, scatter, a, count, t, b, count, t, root);
	case ALLGATHER: return CALL(Allgather, allgather, a, count, t, b, count, t);
	case ALLTOALL: return CALL(Alltoall, alltoall, a, count, t, b, count, t);
	case ALLTOALLV: return CALL(Alltoallv, alltoallv, a, counts, places, t, b, counts, places, t);
	case REDUCE_SCATTER: return CALL(Reduce_scatter_block, reduce_scatter_block, a, b, count, t, MPI_SUM);
	case SCAN: return CALL(Scan, scan, a, b, count, t, MPI_SUM);
	case EXSCAN: return CALL(Exscan, exscan, a, b, count, t, MPI_SUM);
	case GATHERV: return CALL(Gatherv, gatherv, a, count, t, b, counts, places, t, root);
	case SCATTERV: return CALL(Scatterv, scatterv, a, counts, places, t, b, count, t, root);
	case ALLGATHERV: return CALL(Allgatherv, allgatherv, a, count, t, b, counts, places, t);
	case USER_REDUCE: return CALL(Reduce, reduce, a, b, count, t, user, root);
	case USER_SCAN: return CALL(Scan, scan, a, b, count, t, user);
	case USER: return CALL(Allreduce, allreduce, a, b, count, t, user);
	default: return CALL(Neighbor_alltoall, neighbor_alltoall, a, count, t, b, count, t);
	}
}

static void fail(const char *what, int k, int rc)
{
	char text[MPI_MAX_ERROR_STRING] = "";
	int n;

	if (rc)
		MPI_Error_string(rc, text, &n);
	printf("survivor %d: FAILED: %s %s %s\n", me, names[k], what, text);
	fflush(stdout);
	MPI_Abort(MPI_COMM_WORLD, 3);
}

/* One collective on each communicator that has not failed yet. Returns how many have failed. */
static int round_of_all(bool *failed, int root)
{
	int n = 0;

	for (int k = 0; k < KINDS; k++) {
		int rc = failed[k] ? 0 : form == PERSISTENT ? MPI_Start(&requests[k]) : begin(k, form, root);

		if (rc && !survivors_told(rc))
			fail("begins with", k, rc);
		failed[k] |= rc != 0;
	}
	for (int k = 0; form != BLOCKING && k < KINDS; k++) {
		int rc = failed[k] ? 0 : MPI_Wait(&requests[k], MPI_STATUS_IGNORE);

		if (rc && !survivors_told(rc))
			fail("ends with", k, rc);
		failed[k] |= rc != 0;
	}
	for (int k = 0; k < KINDS; k++)
		n += failed[k];
	return n;
}

/* The survivors exchange messages, and create a communicator, which may get the context ids of a lost one. */
static void go_on(void)
{
	int *living = malloc(sizeof(int) * (size_t)all), n = 0, mine = 0, sum = 0, want = 0;
	MPI_Group world, group;
	MPI_Comm others;

	for (int r = 0; r < all; r++) {
		if (r == dead)
			continue;
		mine = r == me ? n : mine;
		want += r;
		living[n++] = r;
	}
	for (int i = 0; i < 20 && n > 1; i++) {
		int to = living[(mine + 1) % n], from = living[(mine + n - 1) % n], x = me * 100 + i, y = -1;

		if (MPI_Sendrecv(&x, 1, MPI_INT, to, 7, &y, 1, MPI_INT, from, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE) ||
		    y != from * 100 + i)
			fail("and then messages among the living", 0, 0);
	}
	for (int k = 0; k < KINDS; k++) {
		if (form == PERSISTENT)
			MPI_Request_free(&requests[k]);
		MPI_Comm_free(&comms[k]);
	}
	MPI_Comm_group(MPI_COMM_WORLD, &world);
	MPI_Group_incl(world, n, living, &group);
	if (MPI_Comm_create_group(MPI_COMM_WORLD, group, 3, &others))
		fail("and then a communicator of the living", 0, 0);
	MPI_Comm_set_errhandler(others, MPI_ERRORS_RETURN);
	for (int i = 0; i < 20; i++)
		if (MPI_Allreduce(&me, &sum, 1, MPI_INT, MPI_SUM, others) || sum != want)
			fail("and then a collective among the living", 0, 0);
	MPI_Comm_free(&others);
	MPI_Group_free(&group);
	MPI_Group_free(&world);
	free(living);
}

static void prepare(void)
{
	int periodic = 1;

	counts = malloc(sizeof(int) * (size_t)all);
	places = malloc(sizeof(int) * (size_t)all);
	for (int r = 0; r < all; r++) {
		counts[r] = count;
		places[r] = r * count;
	}
	MPI_Op_create(add, 1, &user);
	for (int k = 0; k < KINDS; k++) {
		in[k] = calloc((size_t)count * (size_t)all + 1, 8);
		out[k] = calloc((size_t)count * (size_t)all + 1, 8);
		if (k == NEIGHBORS)
			MPI_Cart_create(MPI_COMM_WORLD, 1, &all, &periodic, 0, &comms[k]);
		else
			MPI_Comm_dup(MPI_COMM_WORLD, &comms[k]);
		MPI_Comm_set_errhandler(comms[k], MPI_ERRORS_RETURN);
		if (form == PERSISTENT)
			begin(k, PERSISTENT, k % all);
	}
}

int main(int argc, char **argv)
{
	bool failed[KINDS] = { 0 };
	int round = 0;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &me);
	MPI_Comm_size(MPI_COMM_WORLD, &all);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	if (argc != 7) {
		fprintf(stderr, "usage: coll_death_random blocking|nonblocking|persistent BYTES DEAD LATE SEED FILE\n");
		MPI_Abort(MPI_COMM_WORLD, 2);
	}
	form = argv[1][0] == 'b' ? BLOCKING : argv[1][0] == 'n' ? NONBLOCKING : PERSISTENT;
	count = atoi(argv[2]) / 8;
	dead = atoi(argv[3]);
	late = atoi(argv[4]);
	met = survivors_counters(argv[6]);
	prepare();
	for (; round < 12; round++)		/* queues are there, and mailbox and tasks are in use */
		if (round_of_all(failed, round / 3 % all))	/* also short ways, of what is called as before */
			fail("before the death", 0, 0);
	survivors_count(&met[1]);	/* all ranks have the results of those */
	if (!await(&met[1], all))
		fail("not all come to the death", 0, 0);
	if (me == dead)
		survivors_die_in(1 + atoi(argv[5]) % 20000);
	if (me == late && !await(&met[0], all - 2))
		fail("the others wait for one that is not there", 0, 0);
	while (round_of_all(failed, round++ / 3 % all) < KINDS)
		if (round > 5000000)
			fail("never fails", 0, 0);
	survivors_count(&met[0]);
	for (int k = 0; k < KINDS; k++)
		if (!survivors_told(begin(k, BLOCKING, 0)))
			fail("works after it has failed", k, 0);
	if (!await(&met[0], all - 1))
		fail("not all have been told", 0, 0);
	go_on();
	printf("survivor %d: told in all %d\n", me, KINDS);
	fflush(stdout);
	MPI_Finalize();
	return 0;
}
