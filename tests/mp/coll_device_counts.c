/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * coll_device_counts COLLECTIVE ELEMENTS TIMES: nothing but TIMES nonblocking collectives, one after the other, so that the
 * counters of the device show these operations only. int64, SUM, or an addition defined by this program, root 0, blocks of so
 * many elements each where ranks have one; neighbors of a ring. Collectives are called as by --report-collectives; bcast+barrier
 * is one behind the other.
 */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int *counts, *at;		/* of all ranks */
static MPI_Comm ring;
static MPI_Op own;

static void add(void *in, void *inout, int *len, MPI_Datatype *type)
{
	const int64_t *a = in;
	int64_t *b = inout;

	(void)type;
	for (int i = 0; i < *len; i++)
		b[i] += a[i];
}

static void prepare(int ranks, int n)
{
	const int periodic = 1;

	counts = calloc(2 * (size_t)ranks, sizeof(*counts));
	if (!counts)
		MPI_Abort(MPI_COMM_WORLD, 1);
	at = counts + ranks;
	for (int r = 0; r < ranks; r++) {
		counts[r] = n;
		at[r] = r * n;
	}
	MPI_Cart_create(MPI_COMM_WORLD, 1, &ranks, &periodic, 0, &ring);
	MPI_Op_create(add, 1, &own);
}

static void clean(void)
{
	MPI_Op_free(&own);
	MPI_Comm_free(&ring);
	free(counts);
}

static int start(const char *what, int64_t *in, int64_t *out, int n, MPI_Request *req)
{
	const MPI_Datatype t = MPI_INT64_T;
	const MPI_Comm w = MPI_COMM_WORLD;

	if (!strcmp(what, "barrier"))
		return MPI_Ibarrier(w, req);
	if (!strcmp(what, "bcast"))
		return MPI_Ibcast(out, n, t, 0, w, req);
	if (!strcmp(what, "bcast+barrier")) {
		MPI_Ibcast(out, n, t, 0, w, req);
		MPI_Wait(req, MPI_STATUS_IGNORE);
		return MPI_Ibarrier(w, req);
	}
	if (!strcmp(what, "reduce"))
		return MPI_Ireduce(in, out, n, t, MPI_SUM, 0, w, req);
	if (!strcmp(what, "allreduce"))
		return MPI_Iallreduce(in, out, n, t, MPI_SUM, w, req);
	if (!strcmp(what, "allgather"))
		return MPI_Iallgather(in, n, t, out, n, t, w, req);
	if (!strcmp(what, "alltoall"))
		return MPI_Ialltoall(in, n, t, out, n, t, w, req);
	if (!strcmp(what, "gather"))
		return MPI_Igather(in, n, t, out, n, t, 0, w, req);
	if (!strcmp(what, "scatter"))
		return MPI_Iscatter(in, n, t, out, n, t, 0, w, req);
	if (!strcmp(what, "reduce_scatter"))
		return MPI_Ireduce_scatter_block(in, out, n, t, MPI_SUM, w, req);
	if (!strcmp(what, "gatherv"))
		return MPI_Igatherv(in, n, t, out, counts, at, t, 0, w, req);
	if (!strcmp(what, "scatterv"))
		return MPI_Iscatterv(in, counts, at, t, out, n, t, 0, w, req);
	if (!strcmp(what, "allgatherv"))
		return MPI_Iallgatherv(in, n, t, out, counts, at, t, w, req);
	if (!strcmp(what, "alltoallv"))
		return MPI_Ialltoallv(in, counts, at, t, out, counts, at, t, w, req);
	if (!strcmp(what, "neighbors"))
		return MPI_Ineighbor_alltoall(in, n, t, out, n, t, ring, req);
	if (!strcmp(what, "reduce (op)"))
		return MPI_Ireduce(in, out, n, t, own, 0, w, req);
	if (!strcmp(what, "allreduce (op)"))
		return MPI_Iallreduce(in, out, n, t, own, w, req);
	if (!strcmp(what, "reduce_scatter (v)"))
		return MPI_Ireduce_scatter(in, out, counts, t, MPI_SUM, w, req);
	if (!strcmp(what, "scan (op)"))
		return MPI_Iscan(in, out, n, t, own, w, req);
	if (!strcmp(what, "exscan (op)"))
		return MPI_Iexscan(in, out, n, t, own, w, req);
	fprintf(stderr, "coll_device_counts: %s?\n", what);
	return -1;
}

int main(int argc, char **argv)
{
	int ranks, n = argc > 2 ? atoi(argv[2]) : 1, times = argc > 3 ? atoi(argv[3]) : 1;
	int64_t *buf;

	MPI_Init(&argc, &argv);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	prepare(ranks, n);
	buf = calloc(2 * (size_t)ranks * (size_t)n, sizeof(*buf));
	for (int i = 0; buf && i < times; i++) {
		MPI_Request req;

		if (start(argc > 1 ? argv[1] : "barrier", buf, buf + (size_t)ranks * (size_t)n, n, &req))
			MPI_Abort(MPI_COMM_WORLD, 1);
		MPI_Wait(&req, MPI_STATUS_IGNORE);
	}
	free(buf);
	clean();
	MPI_Finalize();
	return 0;
}
