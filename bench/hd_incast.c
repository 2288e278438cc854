/* SPDX-License-Identifier: BSD-3-Clause */
/* hd_incast: every rank but 0 sends windows of messages to rank 0, all at once; each window is acknowledged. */
#include "bench.h"

#include <stdlib.h>

enum { TAG_DATA = 1, TAG_ACK = 2 };

/* All that one rank has in flight; each message has its own buffer. */
struct incast {
	struct hdb_buffer buffer;
	MPI_Request *requests;
	size_t size;
	int n;
};

static uint64_t seed_of(int iteration, int from, int index)
{
	return hdb_seed(iteration, from, 0, index);
}

static void prepare(struct incast *c, int iteration)
{
	for (int i = 0; hdb.validate && hdb_rank && i < c->n; i++)
		hdb_fill(c->buffer.p + (size_t)i * c->size, c->size, seed_of(iteration, hdb_rank, i));
}

static size_t check(const struct incast *c, int iteration)
{
	size_t wrong = 0;

	for (int i = 0; hdb.validate && !hdb_rank && i < c->n; i++)
		wrong += hdb_check(c->buffer.p + (size_t)i * c->size, c->size,
				   seed_of(iteration, 1 + i / hdb.window, i % hdb.window), "incast");
	return wrong;
}

static void round_of(struct incast *c)
{
	char ack[4] = {0};

	for (int i = 0; i < c->n; i++) {
		unsigned char *at = c->buffer.p + (size_t)i * c->size;

		if (hdb_rank)
			MPI_Isend(at, (int)c->size, MPI_CHAR, 0, TAG_DATA, MPI_COMM_WORLD, &c->requests[i]);
		else
			MPI_Irecv(at, (int)c->size, MPI_CHAR, 1 + i / hdb.window, TAG_DATA, MPI_COMM_WORLD, &c->requests[i]);
	}
	MPI_Waitall(c->n, c->requests, MPI_STATUSES_IGNORE);
	if (hdb_rank)
		MPI_Recv(ack, sizeof(ack), MPI_CHAR, 0, TAG_ACK, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	for (int r = 1; !hdb_rank && r < hdb_ranks; r++)
		MPI_Send(ack, sizeof(ack), MPI_CHAR, r, TAG_ACK, MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
	static const struct hdb_program program = {
		.name = "hd_incast",
		.title = "MPI Incast Test",
		.features = HDB_SIZES | HDB_LOOPS | HDB_FULL | HDB_VALIDATE | HDB_WINDOW,
		.defaults =
			{.sizes = {100, 100}, .iterations = {50, 10}, .skip = {5, 2}, .large = 8192, .window = 256},
		.least_ranks = 2,
	};
	const char *columns[] = {"Size", "Time(us)", "Longest(us)", "Messages/s", NULL};
	const char *notes[] = {"Time: of one round, in which each rank but 0 sends a window of messages to rank 0.", NULL};
	size_t wrong = 0;

	hdb_start(argc, argv, &program);
	hdb_header(notes, columns);
	for (size_t size = hdb.sizes.min; size <= hdb.sizes.max; size = hdb_next_size(size)) {
		struct incast c = {.size = size, .n = hdb_rank ? hdb.window : hdb.window * (hdb_ranks - 1)};
		int64_t all = 0, longest = 0;
		int iterations, skip;

		hdb_loops(size, &iterations, &skip);
		hdb_buffer_new(&c.buffer, size * (size_t)c.n);
		c.requests = malloc((size_t)c.n * sizeof(*c.requests));
		if (!c.requests)
			hdb_die("no memory for %d requests", c.n);
		for (int i = -skip; i < iterations; i++) {
			int64_t begin, t;

			prepare(&c, i);
			MPI_Barrier(MPI_COMM_WORLD);
			begin = hdb_now();
			round_of(&c);
			t = hdb_now() - begin;
			if (i >= 0)
				all += t;
			if (i >= 0 && t > longest)
				longest = t;
			wrong += check(&c, i);
		}
		if (!hdb_rank)
			hdb_row((long long)size,
				(double[]){(double)all / iterations / 1e3, (double)longest / 1e3,
					   (double)iterations * c.n / ((double)all / 1e9)}, 3);
		wrong += hdb_guard(&c.buffer);
		free(c.requests);
		hdb_buffer_free(&c.buffer);
	}
	return hdb_finish(wrong);
}
