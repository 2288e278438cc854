/* SPDX-License-Identifier: BSD-3-Clause */
/* hd_alltoall: time of MPI_Alltoall, averaged over the ranks, a barrier between. The size is what goes to one rank. */
#include "bench.h"

#include <stdio.h>
#include <string.h>

static void call(struct hdb_work *work)
{
	MPI_Alltoall(work->send.p, work->count, work->type, work->recv.p, work->count, work->type, work->comm);
}

static void prepare(struct hdb_work *work, int iteration)
{
	for (int r = 0; r < hdb_ranks; r++)
		hdb_fill(work->send.p + (size_t)r * work->size, work->size, hdb_seed(iteration, hdb_rank, r, 0));
	memset(work->recv.p, 0, work->recv.bytes);
}

static size_t check(struct hdb_work *work, int iteration)
{
	size_t wrong = 0;
	char what[96];

	for (int r = 0; r < hdb_ranks; r++) {
		snprintf(what, sizeof(what), "%zu bytes from rank %d, iteration %d", work->size, r, iteration);
		wrong += hdb_check(work->recv.p + (size_t)r * work->size, work->size,
				   hdb_seed(iteration, r, hdb_rank, 0), what);
	}
	return wrong + hdb_guard(&work->recv) + hdb_guard(&work->send);
}

int main(int argc, char **argv)
{
	static const struct hdb_program program = {
		.name = "hd_alltoall",
		.title = "MPI All-to-All Latency Test",
		.features = HDB_SIZES | HDB_LOOPS | HDB_FULL | HDB_VALIDATE | HDB_BUDGET,
		.defaults = {.sizes = {1, 1 << 20}, .iterations = {1000, 100}, .skip = {100, 10}, .large = 8192},
		.least_ranks = 2,
	};
	static const struct hdb_collective alltoall = {
		.sized = true, .send_blocks = -1, .recv_blocks = -1, .call = call, .prepare = prepare, .check = check,
	};

	hdb_start(argc, argv, &program);
	return hdb_finish(hdb_blocking_main(&alltoall));
}
