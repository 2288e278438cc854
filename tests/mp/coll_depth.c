/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * coll_depth COUNT: rank 0 starts COUNT Iallreduces while all other ranks wait for a message of rank 0, so that none is complete
 * before the last is started; then the other ranks start theirs, and all ranks complete them, the odd ones first.
 */
#include "mpi_test.h"

int main(int argc, char **argv)
{
	int n = argc > 1 ? atoi(argv[1]) : 17;
	MPI_Request *req = calloc((size_t)n, sizeof(MPI_Request));
	int64_t *in = calloc((size_t)n, sizeof(*in)), *out = calloc((size_t)n, sizeof(*out));

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &me);
	MPI_Comm_size(MPI_COMM_WORLD, &np);
	/* there are queues */
	MPI_Iallreduce(&in[0], &out[0], 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD, &req[0]);
	MPI_Wait(&req[0], MPI_STATUS_IGNORE);
	if (me)
		MPI_Recv(NULL, 0, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	for (int i = 0; i < n; i++) {
		in[i] = (int64_t)(mix((uint64_t)me << 32 ^ (uint64_t)i) >> 16);
		MPI_Iallreduce(&in[i], &out[i], 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD, &req[i]);
	}
	for (int r = 1; r < np && !me; r++)
		MPI_Send(NULL, 0, MPI_BYTE, r, 0, MPI_COMM_WORLD);
	for (int odd = 1; odd >= 0; odd--)
		for (int i = odd; i < n; i += 2)
			MPI_Wait(&req[i], MPI_STATUS_IGNORE);
	for (int i = 0; i < n; i++) {
		int64_t want = 0;

		for (int r = 0; r < np; r++)
			want += (int64_t)(mix((uint64_t)r << 32 ^ (uint64_t)i) >> 16);
		if (out[i] != want)
			test_fail(__FILE__, __LINE__, "operation %d: %lld, not %lld", i, (long long)out[i], (long long)want);
	}
	free(req);
	free(in);
	free(out);
	MPI_Finalize();
	return 0;
}
