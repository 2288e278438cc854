/* SPDX-License-Identifier: BSD-3-Clause */
/* hd_mbw_mr: bandwidth and message rate of several pairs at once; rank r of the first half sends to rank r + pairs. */
#include "bench.h"

#include <stdio.h>

enum { TAG_DATA = 1, TAG_ACK = 2 };

static int pairs;

static void iteration(struct hdb_window *w, int peer)
{
	char ack[4] = {0};

	if (hdb_rank < pairs) {
		hdb_window_isend(w, peer, TAG_DATA);
		hdb_window_wait_sends(w);
		MPI_Recv(ack, sizeof(ack), MPI_CHAR, peer, TAG_ACK, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	} else {
		hdb_window_irecv(w, peer, TAG_DATA);
		hdb_window_wait_recvs(w);
		MPI_Send(ack, sizeof(ack), MPI_CHAR, peer, TAG_ACK, MPI_COMM_WORLD);
	}
}

int main(int argc, char **argv)
{
	static const struct hdb_option extra[] = {
		{'p', "num-pairs", HDB_INT, &pairs, 1, NULL, "N", "pairs of ranks (half the ranks unless given)"},
		{0},
	};
	static const struct hdb_program program = {
		.name = "hd_mbw_mr",
		.title = "MPI Multiple Bandwidth / Message Rate Test",
		.features = HDB_SIZES | HDB_LOOPS | HDB_FULL | HDB_VALIDATE | HDB_WINDOW,
		.defaults =
			{.sizes = {1, 4 << 20}, .iterations = {100, 20}, .skip = {10, 2}, .large = 8192, .window = 64},
		.least_ranks = 2,
		.even_ranks = true,
		.extra = extra,
	};
	const char *columns[] = {"Size", "MB/s", "Messages/s", "Iterations", NULL};
	char note[80];
	const char *notes[] = {"Datatype: MPI_CHAR.", note, NULL};
	size_t wrong = 0;
	int peer;

	hdb_start(argc, argv, &program);
	if (pairs > hdb_ranks / 2)
		hdb_quit(HDB_USAGE, "-p %d: %d ranks make at most %d pairs", pairs, hdb_ranks, hdb_ranks / 2);
	if (!pairs)
		pairs = hdb_ranks / 2;
	peer = hdb_rank < pairs ? hdb_rank + pairs : hdb_rank < 2 * pairs ? hdb_rank - pairs : -1;
	snprintf(note, sizeof(note), "[ pairs: %d ] [ window size: %d ]", pairs, hdb.window);
	if (!hdb.full)
		columns[3] = NULL;
	hdb_header(notes, columns);
	for (size_t size = hdb.sizes.min; size <= hdb.sizes.max; size = hdb_next_size(size)) {
		struct hdb_window w;
		double mine, seconds, values[2];
		int iterations, skip;

		hdb_loops(size, &iterations, &skip);
		hdb_window_new(&w, size);
		mine = (double)hdb_window_loop(&w, peer, iterations, skip, iteration, hdb_rank < pairs,
					       hdb_rank >= pairs, &wrong) /
		       1e9;
		if (hdb_rank >= pairs)
			mine = 0;	/* the senders' clocks count: theirs end with the acknowledgement */
		MPI_Reduce(&mine, &seconds, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
		if (hdb_rank == 0) {
			values[1] = (double)iterations * hdb.window * pairs / seconds;
			values[0] = values[1] * (double)size / 1e6;
			if (hdb.full)
				hdb_row_count((long long)size, values, 2, iterations);
			else
				hdb_row((long long)size, values, 2);
		}
		hdb_window_free(&w);
	}
	return hdb_finish(wrong);
}
