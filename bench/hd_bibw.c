/* SPDX-License-Identifier: BSD-3-Clause */
/* hd_bibw: bandwidth of windows of nonblocking messages in both directions at once, summed. */
#include "bench.h"

enum { TAG = 1 };

static void iteration(struct hdb_window *w, int peer)
{
	hdb_window_irecv(w, peer, TAG);
	hdb_window_isend(w, peer, TAG);
	hdb_window_wait_sends(w);
	hdb_window_wait_recvs(w);
}

int main(int argc, char **argv)
{
	static const struct hdb_program program = {
		.name = "hd_bibw",
		.title = "MPI Bi-Directional Bandwidth Test",
		.features = HDB_SIZES | HDB_LOOPS | HDB_FULL | HDB_VALIDATE | HDB_WINDOW,
		.defaults =
			{.sizes = {1, 4 << 20}, .iterations = {100, 20}, .skip = {10, 2}, .large = 8192, .window = 64},
		.exact_ranks = 2,
	};
	const char *columns[] = {"Size", "Bandwidth (MB/s)", "Messages/s", "Iterations", NULL};
	const char *notes[] = {"Datatype: MPI_CHAR.", NULL};
	size_t wrong = 0;

	hdb_start(argc, argv, &program);
	if (!hdb.full)
		columns[2] = NULL;
	hdb_header(notes, columns);
	for (size_t size = hdb.sizes.min; size <= hdb.sizes.max; size = hdb_next_size(size)) {
		struct hdb_window w;
		double seconds, messages;
		int iterations, skip;

		hdb_loops(size, &iterations, &skip);
		hdb_window_new(&w, size);
		seconds = (double)hdb_window_loop(&w, 1 - hdb_rank, iterations, skip, iteration, true, true, &wrong) /
			  1e9;
		messages = (double)iterations * hdb.window * 2 / seconds;
		if (hdb.full)
			hdb_row_count((long long)size, (double[]){messages * (double)size / 1e6, messages}, 2,
				      iterations);
		else
			hdb_row((long long)size, (double[]){messages * (double)size / 1e6}, 1);
		hdb_window_free(&w);
	}
	return hdb_finish(wrong);
}
