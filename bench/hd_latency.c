/* SPDX-License-Identifier: BSD-3-Clause */
/* hd_latency: half the time of a ping-pong of blocking sends and receives between two ranks. */
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TAG = 1 };

static struct hdb_buffer out, in;

/* Receives from any source that wait meanwhile, each for a tag that no rank sends: the library checks whether a message matches
 * one of them, unless messages may overtake each other. */
static int wildcards;
static bool overtaking;
static MPI_Comm comm = MPI_COMM_WORLD;
static MPI_Request *waiting;

static void post_wildcards(void)
{
	static char nothing;
	MPI_Info info;

	if (overtaking) {
		MPI_Info_create(&info);
		MPI_Info_set(info, "mpi_assert_allow_overtaking", "true");
		MPI_Comm_dup_with_info(MPI_COMM_WORLD, info, &comm);
		MPI_Info_free(&info);
	}
	waiting = malloc(((size_t)wildcards + 1) * sizeof(*waiting));
	if (!waiting)
		hdb_die("no memory for %d requests", wildcards);
	for (int i = 0; i < wildcards; i++)
		MPI_Irecv(&nothing, 1, MPI_CHAR, MPI_ANY_SOURCE, TAG + 1 + i, comm, &waiting[i]);
}

static void withdraw_wildcards(void)
{
	for (int i = 0; i < wildcards; i++)
		MPI_Cancel(&waiting[i]);
	MPI_Waitall(wildcards, waiting, MPI_STATUSES_IGNORE);
	free(waiting);
	if (comm != MPI_COMM_WORLD)
		MPI_Comm_free(&comm);
}

/* One round trip as seen by rank 0. */
static inline void round_trip(int bytes)
{
	if (hdb_rank == 0) {
		MPI_Send(out.p, bytes, MPI_CHAR, 1, TAG, comm);
		MPI_Recv(in.p, bytes, MPI_CHAR, 1, TAG, comm, MPI_STATUS_IGNORE);
	} else {
		MPI_Recv(in.p, bytes, MPI_CHAR, 0, TAG, comm, MPI_STATUS_IGNORE);
		MPI_Send(out.p, bytes, MPI_CHAR, 0, TAG, comm);
	}
}

/* Reads the clock twice per size, so that the clock adds nothing to a message. Returns µs one way. */
static double plain(int bytes, int iterations, int skip)
{
	int64_t begin = hdb_now();

	for (int i = 0; i < skip + iterations; i++) {
		if (i == skip)
			begin = hdb_now();
		round_trip(bytes);
	}
	return (double)(hdb_now() - begin) / 1e3 / iterations / 2;
}

/* With -f or -c: times every round trip. With -c both ranks fill the buffers before and check them after each. */
static double each(int bytes, int iterations, int skip, double *least, double *most, size_t *wrong)
{
	const int other = 1 - hdb_rank;
	int64_t sum = 0, lo = INT64_MAX, hi = 0;
	char what[64];

	for (int i = 0; i < skip + iterations; i++) {
		int64_t t;

		if (hdb.validate) {
			hdb_fill(out.p, (size_t)bytes, hdb_seed(i, hdb_rank, other, 0));
			memset(in.p, 0, (size_t)bytes);
			MPI_Barrier(MPI_COMM_WORLD);
		}
		t = hdb_now();
		round_trip(bytes);
		t = hdb_now() - t;
		if (i >= skip) {
			sum += t;
			lo = t < lo ? t : lo;
			hi = t > hi ? t : hi;
		}
		if (hdb.validate) {
			snprintf(what, sizeof(what), "%d bytes, iteration %d", bytes, i);
			*wrong +=
				hdb_check(in.p, (size_t)bytes, hdb_seed(i, other, hdb_rank, 0), what) + hdb_guard(&in);
		}
	}
	*least = (double)lo / 1e3 / 2;
	*most = (double)hi / 1e3 / 2;
	return (double)sum / 1e3 / iterations / 2;
}

static const struct hdb_option options[] = {
	{0, "wildcards", HDB_INT, &wildcards, 0, NULL, "N",
	 "receives from any source, of other tags, that wait meanwhile on each rank"},
	{0, "overtaking", HDB_FLAG, &overtaking, 0, NULL, NULL,
	 "on a communicator with the hint mpi_assert_allow_overtaking"},
	{0},
};

int main(int argc, char **argv)
{
	static const struct hdb_program program = {
		.name = "hd_latency",
		.title = "MPI Latency Test",
		.features = HDB_SIZES | HDB_LOOPS | HDB_FULL | HDB_VALIDATE,
		.defaults = {.sizes = {0, 4 << 20}, .iterations = {10000, 1000}, .skip = {100, 10}, .large = 8192},
		.exact_ranks = 2,
		.extra = options,
	};
	const char *columns[] = {"Size", "Avg Latency(us)", "Min Latency(us)", "Max Latency(us)", "Iterations", NULL};
	const char *notes[] = {"Datatype: MPI_CHAR.", NULL};
	size_t wrong = 0;

	hdb_start(argc, argv, &program);
	post_wildcards();
	if (!hdb.full)
		columns[2] = NULL;
	hdb_header(notes, columns);
	for (size_t size = hdb.sizes.min; size <= hdb.sizes.max; size = hdb_next_size(size)) {
		double values[3];
		int iterations, skip;

		hdb_loops(size, &iterations, &skip);
		hdb_buffer_new(&out, size);
		hdb_buffer_new(&in, size);
		MPI_Barrier(MPI_COMM_WORLD);
		if (hdb.full || hdb.validate)
			values[0] = each((int)size, iterations, skip, &values[1], &values[2], &wrong);
		else
			values[0] = plain((int)size, iterations, skip);
		if (hdb.full)
			hdb_row_count((long long)size, values, 3, iterations);
		else
			hdb_row((long long)size, values, 1);
		hdb_buffer_free(&out);
		hdb_buffer_free(&in);
	}
	withdraw_wildcards();
	return hdb_finish(wrong);
}
