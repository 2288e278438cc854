/* SPDX-License-Identifier: BSD-3-Clause */
/* hd_iallreduce: MPI_Iallreduce (int64 SUM unless told otherwise) alone and beside a computation; the overlap. */
#include "bench.h"

static void start(struct hdb_work *work, MPI_Request *request)
{
	MPI_Iallreduce(work->send.p, work->recv.p, work->count, work->type, work->op, work->comm, request);
}

int main(int argc, char **argv)
{
	static const struct hdb_program program = {
		.name = "hd_iallreduce",
		.title = "MPI Non-blocking Allreduce Latency Test",
		.features = HDB_SIZES | HDB_LOOPS | HDB_FULL | HDB_VALIDATE | HDB_BUDGET | HDB_REDUCTION | HDB_TESTS,
		.defaults = {.sizes = {4, 1 << 20}, .iterations = {1000, 100}, .skip = {100, 10}, .large = 8192,
			     .element = HDB_INT64, .op = HDB_SUM},
		.least_ranks = 2,
	};
	static const struct hdb_collective iallreduce = {
		.sized = true, .reduction = true, .send_blocks = 1, .recv_blocks = 1, .start = start,
		.prepare = hdb_reduction_prepare, .check = hdb_reduction_check,
	};

	hdb_start(argc, argv, &program);
	return hdb_finish(hdb_nonblocking_main(&iallreduce));
}
