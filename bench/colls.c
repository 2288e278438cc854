/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The measured collectives: each with its blocking, nonblocking and persistent form, and with the blocks that it moves, from which
 * follow the buffers, the data and the expected result of every rank.
 */
#include "bench.h"

#include <stdio.h>
#include <string.h>

/* Rank 0 is the root of the rooted ones. */
static void call_barrier(struct hdb_work *w)
{
	MPI_Barrier(w->comm);
}

static void start_barrier(struct hdb_work *w, MPI_Request *request)
{
	MPI_Ibarrier(w->comm, request);
}

/* The root sends from the buffer into which the other ranks receive. */
static void call_bcast(struct hdb_work *w)
{
	MPI_Bcast(w->recv.p, w->count, w->type, 0, w->comm);
}

static void start_bcast(struct hdb_work *w, MPI_Request *request)
{
	MPI_Ibcast(w->recv.p, w->count, w->type, 0, w->comm, request);
}

static void call_gather(struct hdb_work *w)
{
	MPI_Gather(w->send.p, w->count, w->type, w->recv.p, w->count, w->type, 0, w->comm);
}

static void start_gather(struct hdb_work *w, MPI_Request *request)
{
	MPI_Igather(w->send.p, w->count, w->type, w->recv.p, w->count, w->type, 0, w->comm, request);
}

static void call_scatter(struct hdb_work *w)
{
	MPI_Scatter(w->send.p, w->count, w->type, w->recv.p, w->count, w->type, 0, w->comm);
}

static void start_scatter(struct hdb_work *w, MPI_Request *request)
{
	MPI_Iscatter(w->send.p, w->count, w->type, w->recv.p, w->count, w->type, 0, w->comm, request);
}

static void call_allgather(struct hdb_work *w)
{
	MPI_Allgather(w->send.p, w->count, w->type, w->recv.p, w->count, w->type, w->comm);
}

static void start_allgather(struct hdb_work *w, MPI_Request *request)
{
	MPI_Iallgather(w->send.p, w->count, w->type, w->recv.p, w->count, w->type, w->comm, request);
}

static void call_alltoall(struct hdb_work *w)
{
	MPI_Alltoall(w->send.p, w->count, w->type, w->recv.p, w->count, w->type, w->comm);
}

static void start_alltoall(struct hdb_work *w, MPI_Request *request)
{
	MPI_Ialltoall(w->send.p, w->count, w->type, w->recv.p, w->count, w->type, w->comm, request);
}

static void call_gatherv(struct hdb_work *w)
{
	MPI_Gatherv(w->send.p, w->count, w->type, w->recv.p, w->counts, w->displs, w->type, 0, w->comm);
}

static void start_gatherv(struct hdb_work *w, MPI_Request *request)
{
	MPI_Igatherv(w->send.p, w->count, w->type, w->recv.p, w->counts, w->displs, w->type, 0, w->comm, request);
}

static void call_scatterv(struct hdb_work *w)
{
	MPI_Scatterv(w->send.p, w->counts, w->displs, w->type, w->recv.p, w->count, w->type, 0, w->comm);
}

static void start_scatterv(struct hdb_work *w, MPI_Request *request)
{
	MPI_Iscatterv(w->send.p, w->counts, w->displs, w->type, w->recv.p, w->count, w->type, 0, w->comm, request);
}

static void call_allgatherv(struct hdb_work *w)
{
	MPI_Allgatherv(w->send.p, w->count, w->type, w->recv.p, w->counts, w->displs, w->type, w->comm);
}

static void start_allgatherv(struct hdb_work *w, MPI_Request *request)
{
	MPI_Iallgatherv(w->send.p, w->count, w->type, w->recv.p, w->counts, w->displs, w->type, w->comm, request);
}

static void call_alltoallv(struct hdb_work *w)
{
	MPI_Alltoallv(w->send.p, w->counts, w->displs, w->type, w->recv.p, w->counts, w->displs, w->type, w->comm);
}

static void start_alltoallv(struct hdb_work *w, MPI_Request *request)
{
	MPI_Ialltoallv(w->send.p, w->counts, w->displs, w->type, w->recv.p, w->counts, w->displs, w->type, w->comm, request);
}

static void call_reduce(struct hdb_work *w)
{
	MPI_Reduce(w->send.p, w->recv.p, w->count, w->type, w->op, 0, w->comm);
}

static void start_reduce(struct hdb_work *w, MPI_Request *request)
{
	MPI_Ireduce(w->send.p, w->recv.p, w->count, w->type, w->op, 0, w->comm, request);
}

static void call_allreduce(struct hdb_work *w)
{
	MPI_Allreduce(w->send.p, w->recv.p, w->count, w->type, w->op, w->comm);
}

static void start_allreduce(struct hdb_work *w, MPI_Request *request)
{
	MPI_Iallreduce(w->send.p, w->recv.p, w->count, w->type, w->op, w->comm, request);
}

static void call_reduce_scatter(struct hdb_work *w)
{
	MPI_Reduce_scatter_block(w->send.p, w->recv.p, w->count, w->type, w->op, w->comm);
}

static void start_reduce_scatter(struct hdb_work *w, MPI_Request *request)
{
	MPI_Ireduce_scatter_block(w->send.p, w->recv.p, w->count, w->type, w->op, w->comm, request);
}

static void call_scan(struct hdb_work *w)
{
	MPI_Scan(w->send.p, w->recv.p, w->count, w->type, w->op, w->comm);
}

static void start_scan(struct hdb_work *w, MPI_Request *request)
{
	MPI_Iscan(w->send.p, w->recv.p, w->count, w->type, w->op, w->comm, request);
}

#if MPI_VERSION >= 4
static void make_barrier(struct hdb_work *w, MPI_Request *request)
{
	MPI_Barrier_init(w->comm, MPI_INFO_NULL, request);
}

static void make_bcast(struct hdb_work *w, MPI_Request *request)
{
	MPI_Bcast_init(w->recv.p, w->count, w->type, 0, w->comm, MPI_INFO_NULL, request);
}

static void make_gather(struct hdb_work *w, MPI_Request *request)
{
	MPI_Gather_init(w->send.p, w->count, w->type, w->recv.p, w->count, w->type, 0, w->comm, MPI_INFO_NULL, request);
}

static void make_scatter(struct hdb_work *w, MPI_Request *request)
{
	MPI_Scatter_init(w->send.p, w->count, w->type, w->recv.p, w->count, w->type, 0, w->comm, MPI_INFO_NULL, request);
}

static void make_allgather(struct hdb_work *w, MPI_Request *request)
{
	MPI_Allgather_init(w->send.p, w->count, w->type, w->recv.p, w->count, w->type, w->comm, MPI_INFO_NULL, request);
}

static void make_alltoall(struct hdb_work *w, MPI_Request *request)
{
	MPI_Alltoall_init(w->send.p, w->count, w->type, w->recv.p, w->count, w->type, w->comm, MPI_INFO_NULL, request);
}

static void make_gatherv(struct hdb_work *w, MPI_Request *request)
{
	MPI_Gatherv_init(w->send.p, w->count, w->type, w->recv.p, w->counts, w->displs, w->type, 0, w->comm, MPI_INFO_NULL, request);
}

static void make_scatterv(struct hdb_work *w, MPI_Request *request)
{
	MPI_Scatterv_init(w->send.p, w->counts, w->displs, w->type, w->recv.p, w->count, w->type, 0, w->comm, MPI_INFO_NULL, request);
}

static void make_allgatherv(struct hdb_work *w, MPI_Request *request)
{
	MPI_Allgatherv_init(w->send.p, w->count, w->type, w->recv.p, w->counts, w->displs, w->type, w->comm, MPI_INFO_NULL, request);
}

static void make_alltoallv(struct hdb_work *w, MPI_Request *request)
{
	MPI_Alltoallv_init(w->send.p, w->counts, w->displs, w->type, w->recv.p, w->counts, w->displs, w->type, w->comm, MPI_INFO_NULL,
			   request);
}

static void make_reduce(struct hdb_work *w, MPI_Request *request)
{
	MPI_Reduce_init(w->send.p, w->recv.p, w->count, w->type, w->op, 0, w->comm, MPI_INFO_NULL, request);
}

static void make_allreduce(struct hdb_work *w, MPI_Request *request)
{
	MPI_Allreduce_init(w->send.p, w->recv.p, w->count, w->type, w->op, w->comm, MPI_INFO_NULL, request);
}

static void make_reduce_scatter(struct hdb_work *w, MPI_Request *request)
{
	MPI_Reduce_scatter_block_init(w->send.p, w->recv.p, w->count, w->type, w->op, w->comm, MPI_INFO_NULL, request);
}

static void make_scan(struct hdb_work *w, MPI_Request *request)
{
	MPI_Scan_init(w->send.p, w->recv.p, w->count, w->type, w->op, w->comm, MPI_INFO_NULL, request);
}

#define ALL(name) .call = call_##name, .start = start_##name, .make = make_##name
#else
#define ALL(name) .call = call_##name, .start = start_##name
#endif

static const struct hdb_collective all[] = {
	{.name = "barrier", .title = "Barrier", ALL(barrier)},
	{.name = "bcast", .title = "Broadcast", ALL(bcast), .sized = true, .recv_blocks = 1, .root_sends = true},
	{.name = "gather", .title = "Gather", ALL(gather), .sized = true, .send_blocks = 1, .recv_blocks = -1,
	 .root_receives = true},
	{.name = "scatter", .title = "Scatter", ALL(scatter), .sized = true, .send_blocks = -1, .recv_blocks = 1,
	 .root_sends = true, .personal = true},
	{.name = "allgather", .title = "Allgather", ALL(allgather), .sized = true, .send_blocks = 1, .recv_blocks = -1},
	{.name = "alltoall", .title = "All-to-All", ALL(alltoall), .sized = true, .send_blocks = -1, .recv_blocks = -1,
	 .personal = true},
	{.name = "gatherv", .title = "Gatherv", ALL(gatherv), .sized = true, .send_blocks = 1, .recv_blocks = -1,
	 .root_receives = true},
	{.name = "scatterv", .title = "Scatterv", ALL(scatterv), .sized = true, .send_blocks = -1, .recv_blocks = 1,
	 .root_sends = true, .personal = true},
	{.name = "allgatherv", .title = "Allgatherv", ALL(allgatherv), .sized = true, .send_blocks = 1, .recv_blocks = -1},
	{.name = "alltoallv", .title = "All-to-Allv", ALL(alltoallv), .sized = true, .send_blocks = -1, .recv_blocks = -1,
	 .personal = true},
	{.name = "reduce", .title = "Reduce", ALL(reduce), .sized = true, .send_blocks = 1, .recv_blocks = 1,
	 .reduction = true, .root_receives = true},
	{.name = "allreduce", .title = "Allreduce", ALL(allreduce), .sized = true, .send_blocks = 1, .recv_blocks = 1,
	 .reduction = true},
	{.name = "reduce_scatter", .title = "Reduce_scatter_block", ALL(reduce_scatter), .sized = true,
	 .send_blocks = -1, .recv_blocks = 1, .reduction = true, .personal = true},
	{.name = "scan", .title = "Scan", ALL(scan), .sized = true, .send_blocks = 1, .recv_blocks = 1,
	 .reduction = true, .prefix = true},
};

const struct hdb_collective *hdb_collective_at(size_t i)
{
	return i < sizeof(all) / sizeof(all[0]) ? &all[i] : NULL;
}

const struct hdb_collective *hdb_collective_named(const char *name)
{
	const struct hdb_collective *c;

	for (size_t i = 0; (c = hdb_collective_at(i)); i++)
		if (!strcmp(c->name, name))
			return c;
	return NULL;
}

/* ---- blocks of bytes ------------------------------------------------------------------------------------------ */

size_t hdb_blocks(int n)
{
	return (size_t)(n < 0 ? hdb_ranks : n);
}

/* The contents of a block depend on the sender and, for personal blocks, on the receiver. */
static void prepare_blocks(struct hdb_work *w, int iteration)
{
	const struct hdb_collective *c = w->c;
	const struct hdb_buffer *from = c->send_blocks ? &w->send : &w->recv;

	memset(w->recv.p, 0, w->recv.bytes);
	if (c->root_sends && hdb_rank)
		return;
	for (int b = 0; b < (int)(from->bytes / w->size); b++)
		hdb_fill(from->p + (size_t)b * w->size, w->size, hdb_seed(iteration, hdb_rank, c->personal ? b : 0, 0));
}

static size_t check_blocks(const struct hdb_work *w, int iteration)
{
	const struct hdb_collective *c = w->c;
	size_t wrong = 0;
	char what[96];

	for (int b = 0; b < (int)hdb_blocks(c->recv_blocks) && !(c->root_receives && hdb_rank); b++) {
		snprintf(what, sizeof(what), "%zu bytes from rank %d, iteration %d", w->size, b, iteration);
		wrong += hdb_check(w->recv.p + (size_t)b * w->size, w->size,
				   hdb_seed(iteration, b, c->personal ? hdb_rank : 0, 0), what);
	}
	return wrong;
}

/* ---- reductions ----------------------------------------------------------------------------------------------- */

size_t hdb_element_size(void)
{
	return hdb.element == HDB_INT64 ? sizeof(int64_t) : hdb.element == HDB_DOUBLE ? sizeof(double)
		: hdb.element == HDB_FLOAT ? sizeof(float) : 1;
}

MPI_Datatype hdb_element_type(void)
{
	return hdb.element == HDB_INT64 ? MPI_INT64_T : hdb.element == HDB_DOUBLE ? MPI_DOUBLE : MPI_FLOAT;
}

/* Sums of these are exact in a float for thousands of ranks. */
static double real_value(int iteration, int rank, size_t k)
{
	return (double)((int)((unsigned)iteration * 7 + (unsigned)rank * 3 + k * 5) % 61 - 30);
}

/* Both signs, carries across all bytes, and no overflow below 2^15 ranks. */
static int64_t int64_value(int iteration, int rank, size_t k)
{
	uint64_t x = hdb_seed(iteration, rank, 0, (int)k);

	return (int64_t)(x >> 16) - ((int64_t)1 << 47);
}

static void prepare_reduction(struct hdb_work *w, int iteration)
{
	size_t n = w->send.bytes / hdb_element_size();

	for (size_t k = 0; k < n; k++) {
		if (hdb.element == HDB_FLOAT)
			((float *)(void *)w->send.p)[k] = (float)real_value(iteration, hdb_rank, k);
		else if (hdb.element == HDB_DOUBLE)
			((double *)(void *)w->send.p)[k] = real_value(iteration, hdb_rank, k);
		else
			((int64_t *)(void *)w->send.p)[k] = int64_value(iteration, hdb_rank, k);
	}
	memset(w->recv.p, 0x5a, w->recv.bytes);
}

static int64_t combine_int64(int64_t a, int64_t b)
{
	switch (hdb.op) {
	case HDB_MAX:
		return a > b ? a : b;
	case HDB_MIN:
		return a < b ? a : b;
	case HDB_BAND:
		return a & b;
	case HDB_BOR:
		return a | b;
	case HDB_BXOR:
		return a ^ b;
	default:
		return a + b;
	}
}

static double combine_real(double a, double b)
{
	switch (hdb.op) {
	case HDB_MAX:
		return a > b ? a : b;
	case HDB_MIN:
		return a < b ? a : b;
	default:
		return a + b;
	}
}

/* Element k of the result is made of element `of` of the inputs of the ranks before `ranks`. */
static bool element_right(const struct hdb_work *w, int iteration, size_t k, size_t of, int ranks)
{
	if (hdb.element == HDB_INT64) {
		int64_t want = int64_value(iteration, 0, of), have;

		for (int r = 1; r < ranks; r++)
			want = combine_int64(want, int64_value(iteration, r, of));
		memcpy(&have, w->recv.p + k * sizeof(have), sizeof(have));
		return have == want;
	}
	double want = real_value(iteration, 0, of), have;

	for (int r = 1; r < ranks; r++)
		want = combine_real(want, real_value(iteration, r, of));
	if (hdb.element == HDB_FLOAT)
		have = ((const float *)(const void *)w->recv.p)[k];
	else
		have = ((const double *)(const void *)w->recv.p)[k];
	return !(have < want) && !(have > want) && have == have;
}

static size_t check_reduction(const struct hdb_work *w, int iteration)
{
	static int reports;
	const struct hdb_collective *c = w->c;
	size_t wrong = 0, first = 0, offset = c->personal ? (size_t)hdb_rank * (size_t)w->count : 0;

	for (size_t k = 0; k < (size_t)w->count && !(c->root_receives && hdb_rank); k++)
		if (!element_right(w, iteration, k, offset + k, c->prefix ? hdb_rank + 1 : hdb_ranks) && wrong++ == 0)
			first = k;
	if (wrong && reports++ < 5)
		fprintf(stderr, "%s: rank %d: %zu bytes, iteration %d: %zu of %d elements are wrong, the first is element %zu\n",
			hdb_program->name, hdb_rank, w->size, iteration, wrong, w->count, first);
	return wrong;
}

const char *hdb_reduction_note(void)
{
	static const char *const ops[] = {"MPI_SUM", "MPI_MAX", "MPI_MIN", "MPI_BAND", "MPI_BOR", "MPI_BXOR"};
	static char text[64];

	snprintf(text, sizeof(text), "Datatype: %s. Operation: %s.",
		 hdb.element == HDB_INT64 ? "MPI_INT64_T" : hdb.element == HDB_DOUBLE ? "MPI_DOUBLE" : "MPI_FLOAT",
		 ops[hdb.op]);
	return text;
}

/* ---- either --------------------------------------------------------------------------------------------------- */

void hdb_prepare(struct hdb_work *w, int iteration)
{
	if (w->c->reduction)
		prepare_reduction(w, iteration);
	else if (w->c->sized)
		prepare_blocks(w, iteration);
}

size_t hdb_verify(struct hdb_work *w, int iteration)
{
	size_t wrong = w->c->reduction ? check_reduction(w, iteration) : check_blocks(w, iteration);

	return wrong + (w->recv.base ? hdb_guard(&w->recv) : 0) + (w->send.base ? hdb_guard(&w->send) : 0);
}
