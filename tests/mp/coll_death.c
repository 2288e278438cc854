/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A rank dies between two collectives: the next collectives of every survivor end with MPI_ERR_PROC_ABORTED, none with a result
 * that lacks the dead rank's part. Survivors stay alive until all have the error (the exit of a survivor is not part of this
 * test). Must run under heddlerun --on-death=continue.
 *
 *     coll_death RANK COLLECTIVE FILE [ELEMENTS]     FILE: see survivors.h
 *
 * COLLECTIVE: allreduce, barrier, allgather, alltoall, reduce_scatter, bcast, reduce, gather, scatter, scan.
 * ELEMENTS: of 8 bytes, for each rank; 4 unless given. Each survivor prints a line; the job's exit code is the
 * launcher's for a rank that was killed.
 */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "survivors.h"

/* The first five are synchronizing: they complete nowhere before all ranks have begun. */
enum { ALLREDUCE, BARRIER, ALLGATHER, ALLTOALL, REDUCE_SCATTER, BCAST, REDUCE, GATHER, SCATTER, SCAN, WHATS };
static const char *const names[WHATS] = {"allreduce", "barrier", "allgather", "alltoall", "reduce_scatter",
					 "bcast",     "reduce",  "gather",    "scatter",  "scan"};
static int me, all, dead, what, n = 4;
static int64_t *in, *out;	/* for each rank n elements */
static int *seen;		/* number of ranks that have completed the collectives before the death; of survivors that have
				 * the error */

/* Until all survivors have come so far, or for a minute. */
static void meet(int *count)
{
	if (me != dead)
		survivors_count(count);
	survivors_await(count, all - 1, 60, false);
}

static int run(int round, bool *wrong)
{
	const MPI_Datatype t = MPI_INT64_T;
	int64_t sum = 0, before = 0, roots;
	MPI_Request req;
	int rc, root = round % all;

	for (int i = 0; i < n * all; i++) {
		in[i] = me + 1 + round;
		out[i] = 0;
	}
	roots = root + 1 + round;
	for (int r = 0; r < all; r++) {
		sum += r + 1 + round;
		before = r == me ? sum : before;
	}
	switch (what) {
	case ALLREDUCE: rc = MPI_Iallreduce(in, out, n, t, MPI_SUM, MPI_COMM_WORLD, &req); break;
	case BARRIER: rc = MPI_Ibarrier(MPI_COMM_WORLD, &req); break;
	case ALLGATHER: rc = MPI_Iallgather(in, n, t, out, n, t, MPI_COMM_WORLD, &req); break;
	case ALLTOALL: rc = MPI_Ialltoall(in, n, t, out, n, t, MPI_COMM_WORLD, &req); break;
	case REDUCE_SCATTER: rc = MPI_Ireduce_scatter_block(in, out, n, t, MPI_SUM, MPI_COMM_WORLD, &req); break;
	case BCAST: rc = MPI_Ibcast(me == root ? in : out, n, t, root, MPI_COMM_WORLD, &req); break;
	case REDUCE: rc = MPI_Ireduce(in, out, n, t, MPI_SUM, root, MPI_COMM_WORLD, &req); break;
	case GATHER: rc = MPI_Igather(in, n, t, out, n, t, root, MPI_COMM_WORLD, &req); break;
	case SCAN: rc = MPI_Iscan(in, out, n, t, MPI_SUM, MPI_COMM_WORLD, &req); break;
	default: rc = MPI_Iscatter(in, n, t, out, n, t, root, MPI_COMM_WORLD, &req); break;
	}
	if (!rc)
		rc = MPI_Wait(&req, MPI_STATUS_IGNORE);
	if (rc)
		return rc;
	switch (what) {
	case ALLREDUCE: case REDUCE_SCATTER: *wrong = out[n - 1] != sum; break;
	case ALLGATHER: case ALLTOALL: case GATHER:
		for (int r = 0; r < all && (what != GATHER || me == root); r++)
			*wrong |= out[n * r + n - 1] != r + 1 + round;
		break;
	case SCAN: *wrong = out[n - 1] != before; break;
	case BCAST: *wrong = me != root && out[n - 1] != roots; break;
	case REDUCE: *wrong = me == root && out[n - 1] != sum; break;
	case SCATTER: *wrong = out[n - 1] != roots; break;
	default: break;
	}
	return rc;
}

int main(int argc, char **argv)
{
	int rc = 0, round, last;
	bool wrong = false;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &me);
	MPI_Comm_size(MPI_COMM_WORLD, &all);
	if (argc != 4 && argc != 5) {
		fprintf(stderr, "usage: coll_death RANK COLLECTIVE FILE [ELEMENTS]\n");
		MPI_Abort(MPI_COMM_WORLD, 2);
	}
	dead = atoi(argv[1]);
	while (what < WHATS - 1 && strcmp(names[what], argv[2]))
		what++;
	n = argc == 5 ? atoi(argv[4]) : n;
	in = calloc((size_t)n * (size_t)all, sizeof(*in));
	out = calloc((size_t)n * (size_t)all, sizeof(*out));
	if (n < 1 || !in || !out)
		MPI_Abort(MPI_COMM_WORLD, 2);
	seen = survivors_counters(argv[3]);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	for (round = 0; round < 20; round++)
		if (run(round, &wrong) || wrong)
			MPI_Abort(MPI_COMM_WORLD, 3);
	last = round;
	/* the rank to die has its results, maybe before other ranks have theirs */
	meet(&seen[0]);
	if (me == dead)
		raise(SIGKILL);
	/* Collectives that do not synchronize may complete some more times, at a rank that only sends many times. */
	for (double begun = MPI_Wtime(); !rc && !wrong && MPI_Wtime() < begun + 60; round++) {
		rc = run(round, &wrong);
		wrong |= !rc && what < BCAST;
	}
	printf("survivor %d: %s by %s after %d\n", me,
	       wrong ? "WRONG RESULT" : survivors_told(rc) ? "told" : rc ? "ANOTHER ERROR" : "NOT TOLD", names[what],
		       round - last);
	fflush(stdout);
	meet(&seen[1]);
	MPI_Finalize();
	return 0;
}
