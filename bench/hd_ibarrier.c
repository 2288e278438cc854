/* SPDX-License-Identifier: BSD-3-Clause */
/* hd_ibarrier: MPI_Ibarrier alone and beside a computation; the overlap. */
#include "bench.h"

static void start(struct hdb_work *work, MPI_Request *request)
{
	MPI_Ibarrier(work->comm, request);
}

int main(int argc, char **argv)
{
	static const struct hdb_program program = {
		.name = "hd_ibarrier",
		.title = "MPI Non-blocking Barrier Latency Test",
		.features = HDB_LOOPS | HDB_FULL | HDB_VALIDATE | HDB_BUDGET | HDB_TESTS,
		.defaults = {.iterations = {1000, 1000}, .skip = {100, 100}},
		.least_ranks = 2,
	};
	static const struct hdb_collective ibarrier = {.start = start};

	hdb_start(argc, argv, &program);
	if (hdb.validate && !hdb_one_host())
		hdb_quit(HDB_USAGE, "-c compares clocks: all ranks must be on one host");
	return hdb_finish(hdb_nonblocking_main(&ibarrier));
}
