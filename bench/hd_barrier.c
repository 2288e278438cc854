/* SPDX-License-Identifier: BSD-3-Clause */
/* hd_barrier: time of MPI_Barrier, back to back. */
#include "bench.h"

static void call(struct hdb_work *work)
{
	MPI_Barrier(work->comm);
}

int main(int argc, char **argv)
{
	static const struct hdb_program program = {
		.name = "hd_barrier",
		.title = "MPI Barrier Latency Test",
		.features = HDB_LOOPS | HDB_FULL | HDB_VALIDATE | HDB_BUDGET,
		.defaults = {.iterations = {1000, 1000}, .skip = {100, 100}},
		.least_ranks = 2,
	};
	static const struct hdb_collective barrier = {.call = call};

	hdb_start(argc, argv, &program);
	if (hdb.validate && !hdb_one_host())
		hdb_quit(HDB_USAGE, "-c compares clocks: all ranks must be on one host");
	return hdb_finish(hdb_blocking_main(&barrier));
}
