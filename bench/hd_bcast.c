/* SPDX-License-Identifier: BSD-3-Clause */
/* hd_bcast: time of MPI_Bcast from rank 0, averaged over the ranks, a barrier between. */
#include "bench.h"

#include <stdio.h>
#include <string.h>

/* The root sends from the same buffer that the others receive into. */
static void call(struct hdb_work *work)
{
	MPI_Bcast(work->recv.p, work->count, work->type, 0, work->comm);
}

static void prepare(struct hdb_work *work, int iteration)
{
	if (hdb_rank == 0)
		hdb_fill(work->recv.p, work->size, hdb_seed(iteration, 0, 0, 0));
	else
		memset(work->recv.p, 0, work->size);
}

static size_t check(struct hdb_work *work, int iteration)
{
	char what[64];

	snprintf(what, sizeof(what), "%zu bytes, iteration %d", work->size, iteration);
	return hdb_check(work->recv.p, work->size, hdb_seed(iteration, 0, 0, 0), what) + hdb_guard(&work->recv);
}

int main(int argc, char **argv)
{
	static const struct hdb_program program = {
		.name = "hd_bcast",
		.title = "MPI Broadcast Latency Test",
		.features = HDB_SIZES | HDB_LOOPS | HDB_FULL | HDB_VALIDATE | HDB_BUDGET,
		.defaults = {.sizes = {1, 1 << 20}, .iterations = {1000, 100}, .skip = {100, 10}, .large = 8192},
		.least_ranks = 2,
	};
	static const struct hdb_collective bcast = {
		.sized = true, .recv_blocks = 1, .call = call, .prepare = prepare, .check = check,
	};

	hdb_start(argc, argv, &program);
	return hdb_finish(hdb_blocking_main(&bcast));
}
