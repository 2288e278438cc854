/* SPDX-License-Identifier: BSD-3-Clause */
/* hd_bw: bandwidth of windows of nonblocking sends from rank 0 to rank 1, each window acknowledged. */
#include "bench.h"

enum { TAG_DATA = 1, TAG_ACK = 2 };

static void iteration(struct hdb_window *w, int peer)
{
	char ack[4] = {0};

	if (hdb_rank == 0) {
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
	static const struct hdb_program program = {
		.name = "hd_bw",
		.title = "MPI Bandwidth Test",
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
		seconds = (double)hdb_window_loop(&w, 1 - hdb_rank, iterations, skip, iteration, hdb_rank == 0,
						  hdb_rank == 1, &wrong) /
			  1e9;
		messages = (double)iterations * hdb.window / seconds;
		if (hdb.full)
			hdb_row_count((long long)size, (double[]){messages * (double)size / 1e6, messages}, 2,
				      iterations);
		else
			hdb_row((long long)size, (double[]){messages * (double)size / 1e6}, 1);
		hdb_window_free(&w);
	}
	return hdb_finish(wrong);
}
