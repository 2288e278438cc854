/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * coll_uncompleted COLLECTIVE BYTES FORM WHO CALLERS: a collective that ranks do not complete before MPI_Finalize, which is
 * erroneous (MPI-5.0 section 11.2.2) and no reason for a rank to wait for ever. FORM: nonblocking, persistent. WHO: the rank
 * that does not complete, or `all`. CALLERS: `all` begin the collective, and those that complete it must have the data; `one`:
 * WHO alone begins it. Rank 0 prints "left" behind MPI_Finalize.
 */
#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, size, bytes;
static char *in, *out;

static MPI_Request begin(const char *coll, bool persistent)
{
	MPI_Comm w = MPI_COMM_WORLD;
	MPI_Info none = MPI_INFO_NULL;
	MPI_Datatype b = MPI_BYTE;
	MPI_Request r = MPI_REQUEST_NULL;
	static MPI_Comm made;

	if (!strcmp(coll, "gather"))
		persistent ? MPI_Gather_init(in, bytes, b, out, bytes, b, 0, w, none, &r) :
			     MPI_Igather(in, bytes, b, out, bytes, b, 0, w, &r);
	else if (!strcmp(coll, "alltoall"))
		persistent ? MPI_Alltoall_init(in, bytes, b, out, bytes, b, w, none, &r) :
			     MPI_Ialltoall(in, bytes, b, out, bytes, b, w, &r);
	else if (!strcmp(coll, "allreduce"))
		persistent ? MPI_Allreduce_init(in, out, bytes, b, MPI_BOR, w, none, &r) :
			     MPI_Iallreduce(in, out, bytes, b, MPI_BOR, w, &r);
	else if (!strcmp(coll, "idup"))
		MPI_Comm_idup(w, &made, &r);
	if (persistent)
		MPI_Start(&r);
	return r;
}

/* The first and the last byte of each block that this rank has received. */
static bool has_data(const char *coll)
{
	if (!strcmp(coll, "gather") && rank)
		return true;
	for (int r = 0; r < size && (!strcmp(coll, "gather") || !strcmp(coll, "alltoall")); r++)
		if (out[(size_t)r * bytes] != 1 << r || out[(size_t)(r + 1) * bytes - 1] != 1 << r)
			return false;
	return strcmp(coll, "allreduce") || (out[0] == (1 << size) - 1 && out[bytes - 1] == out[0]);
}

int main(int argc, char **argv)
{
	MPI_Request request;
	int who;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	if (argc != 6 || size > 7)
		return 2;
	bytes = atoi(argv[2]);
	who = !strcmp(argv[4], "all") ? -1 : atoi(argv[4]);
	in = malloc((size_t)bytes * size);
	out = calloc((size_t)size, bytes);
	memset(in, 1 << rank, (size_t)bytes * size);
	if (strcmp(argv[5], "one") || rank == who) {
		request = begin(argv[1], !strcmp(argv[3], "persistent"));
		if (who >= 0 && rank != who) {
			MPI_Wait(&request, MPI_STATUS_IGNORE);
			if (!has_data(argv[1]))
				printf("FAILED: rank %d has wrong data\n", rank);
		}
	}
	MPI_Finalize();
	if (!rank)
		printf("left\n");
	return 0;
}
