/* SPDX-License-Identifier: BSD-3-Clause */
/* hd_allreduce: time of MPI_Allreduce (float SUM unless told otherwise), averaged over the ranks, a barrier between. */
#include "bench.h"

static void call(struct hdb_work *work)
{
	MPI_Allreduce(work->send.p, work->recv.p, work->count, work->type, work->op, work->comm);
}

int main(int argc, char **argv)
{
	static const struct hdb_program program = {
		.name = "hd_allreduce",
		.title = "MPI Allreduce Latency Test",
		.features = HDB_SIZES | HDB_LOOPS | HDB_FULL | HDB_VALIDATE | HDB_BUDGET | HDB_REDUCTION,
		.defaults = {.sizes = {4, 1 << 20}, .iterations = {1000, 100}, .skip = {100, 10}, .large = 8192,
			     .element = HDB_FLOAT, .op = HDB_SUM},
		.least_ranks = 2,
	};
	static const struct hdb_collective allreduce = {
		.sized = true, .reduction = true, .send_blocks = 1, .recv_blocks = 1, .call = call,
		.prepare = hdb_reduction_prepare, .check = hdb_reduction_check,
	};

	hdb_start(argc, argv, &program);
	return hdb_finish(hdb_blocking_main(&allreduce));
}
