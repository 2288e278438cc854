/* SPDX-License-Identifier: BSD-3-Clause */
/* The loops that every collective benchmark runs, blocking and nonblocking. */
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static double us(int64_t ns)
{
	return (double)ns / 1e3;
}

/* ---- work ----------------------------------------------------------------------------------------------------- */

void hdb_work_new(struct hdb_work *work, const struct hdb_collective *c, size_t size)
{
	memset(work, 0, sizeof(*work));
	work->c = c;
	work->comm = MPI_COMM_WORLD;
	work->size = size;
	work->type = MPI_CHAR;
	work->op = MPI_OP_NULL;
	work->count = (int)size;
	if (c->reduction) {
		const MPI_Op ops[] = {MPI_SUM, MPI_MAX, MPI_MIN, MPI_BAND, MPI_BOR, MPI_BXOR};

		work->op = ops[hdb.op];
		work->type = hdb_element_type();
		work->count = (int)(size / hdb_element_size());
	}
	work->counts = calloc((size_t)hdb_ranks, sizeof(*work->counts));
	work->displs = calloc((size_t)hdb_ranks, sizeof(*work->displs));
	if (!work->counts || !work->displs)
		hdb_quit(HDB_USAGE, "no memory for %d counts", hdb_ranks);
	for (int r = 0; r < hdb_ranks; r++) {
		work->counts[r] = work->count;
		/* displacements of sizes whose last block lies beyond an int are unused: the benchmark calls the int form of the vector collectives */
		work->displs[r] = (int)((unsigned)r * (unsigned)work->count);
	}
	if (c->send_blocks)
		hdb_buffer_new(&work->send, size * hdb_blocks(c->send_blocks));
	if (c->recv_blocks)
		hdb_buffer_new(&work->recv, size * hdb_blocks(c->recv_blocks));
	hdb_prepare(work, 0);
}

void hdb_work_free(struct hdb_work *work)
{
	free(work->counts);
	free(work->displs);
	if (work->send.base)
		hdb_buffer_free(&work->send);
	if (work->recv.base)
		hdb_buffer_free(&work->recv);
}

/* ---- one iteration -------------------------------------------------------------------------------------------- */

/* Checks a barrier: no rank may leave before the last rank has entered. Collective. */
static size_t order_wrong(int64_t entered, int64_t left)
{
	int64_t last;

	MPI_Allreduce(&entered, &last, 1, MPI_INT64_T, MPI_MAX, MPI_COMM_WORLD);
	if (left >= last)
		return 0;
	fprintf(stderr, "%s: rank %d left the barrier %.2f us before the last rank entered it\n", hdb_program->name,
		hdb_rank, us(last - left));
	return 1;
}

static void prepare(struct hdb_work *work, int iteration)
{
	if (!hdb.validate)
		return;
	hdb_prepare(work, iteration);
	MPI_Barrier(work->comm);
}

static size_t verify(struct hdb_work *work, int iteration, int64_t entered, int64_t left)
{
	if (!hdb.validate)
		return 0;
	return work->c->sized ? hdb_verify(work, iteration) : order_wrong(entered, left);
}

/* ---- blocking ------------------------------------------------------------------------------------------------- */

static double blocking_loop(const struct hdb_collective *c, struct hdb_work *work, int iterations, int skip,
			    size_t *wrong)
{
	int64_t sum = 0;

	MPI_Barrier(work->comm);
	for (int i = 0; i < skip + iterations; i++) {
		int64_t begin, end;

		prepare(work, i);
		begin = hdb_now();
		c->call(work);
		end = hdb_now();
		if (i >= skip)
			sum += end - begin;
		*wrong += verify(work, i, begin, end);
		/* A barrier needs no other one to keep the ranks together. */
		if (c->sized)
			MPI_Barrier(work->comm);
	}
	return us(sum) / iterations;
}

/* Time of two iterations, s, by which the budget is divided. The barriers between count, too. */
static double probe_blocking(const struct hdb_collective *c, struct hdb_work *work)
{
	size_t ignored = 0;
	int64_t begin = hdb_now();

	blocking_loop(c, work, 2, 1, &ignored);
	return (double)(hdb_now() - begin) / 1e9 / 3;
}

static void one_blocking(const struct hdb_collective *c, size_t size, size_t *wrong)
{
	struct hdb_work work;
	int iterations, skip;
	double mine, sum, values[3];

	hdb_work_new(&work, c, size);
	hdb_loops(size, &iterations, &skip);
	if (hdb.budget > 0)
		hdb_fit(probe_blocking(c, &work), &iterations, &skip);
	mine = blocking_loop(c, &work, iterations, skip, wrong);
	MPI_Reduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, 0, work.comm);
	MPI_Reduce(&mine, &values[1], 1, MPI_DOUBLE, MPI_MIN, 0, work.comm);
	MPI_Reduce(&mine, &values[2], 1, MPI_DOUBLE, MPI_MAX, 0, work.comm);
	values[0] = sum / hdb_ranks;
	if (hdb.full)
		hdb_row_count(c->sized ? (long long)size : -1, values, 3, iterations);
	else
		hdb_row(c->sized ? (long long)size : -1, values, 1);
	hdb_work_free(&work);
}

/* Sizes that are whole elements and fit the memory limit; says on rank 0 when that lowers the largest. */
static void fit_sizes(const struct hdb_collective *c, char *note, size_t bytes)
{
	size_t element = hdb_element_size(), per = hdb_blocks(c->send_blocks) + hdb_blocks(c->recv_blocks);
	size_t most = hdb.memory / (per ? per : 1);

	note[0] = '\0';
	hdb.sizes.min = (hdb.sizes.min + element - 1) / element * element;
	if (hdb.sizes.min == 0 && element > 1)
		hdb.sizes.min = element;
	if (hdb.sizes.max > most) {
		snprintf(note, bytes,
			 "Largest size lowered from %zu: buffers of one rank are limited to %zu bytes (-M).",
			 hdb.sizes.max, hdb.memory);
		hdb.sizes.max = most;
	}
	if (hdb.sizes.max < hdb.sizes.min)
		hdb_quit(HDB_USAGE, "no size is left: the smallest is %zu bytes, the largest that fits (-M %zu) is %zu",
			 hdb.sizes.min, hdb.memory, hdb.sizes.max);
}

size_t hdb_blocking_main(const struct hdb_collective *c)
{
	char note[160] = "";
	const char *notes[] = {c->reduction ? hdb_reduction_note() : c->sized ? "Datatype: MPI_CHAR." : "", note, NULL};
	const char *columns[] = {"Size", "Avg Latency(us)", "Min Latency(us)", "Max Latency(us)", "Iterations", NULL};
	size_t wrong = 0;

	if (c->sized)
		fit_sizes(c, note, sizeof(note));
	if (!hdb.full)
		columns[2] = NULL;
	hdb_header(notes, columns + !c->sized);
	if (!c->sized)
		one_blocking(c, 0, &wrong);
	for (size_t size = hdb.sizes.min; c->sized && size <= hdb.sizes.max; size = hdb_next_size(size))
		one_blocking(c, size, &wrong);
	return wrong;
}

/* ---- nonblocking ---------------------------------------------------------------------------------------------- */

/* One loop; compute_ns < 0: no computation between start and wait. */
static void nonblocking_loop(const struct hdb_collective *c, struct hdb_work *work, int iterations, int skip,
			     int64_t compute_ns, struct hdb_overlap *o, size_t *wrong)
{
	int64_t all = 0, init = 0, compute = 0, test = 0, wait = 0;
	MPI_Request request;

	if (hdb.persistent)
		c->make(work, &request);
	MPI_Barrier(work->comm);
	for (int i = 0; i < skip + iterations; i++) {
		int64_t t[4], tested = 0;

		prepare(work, i);
		t[0] = hdb_now();
		if (hdb.persistent)
			MPI_Start(&request);
		else
			c->start(work, &request);
		t[1] = hdb_now();
		if (compute_ns >= 0) {
			tested = hdb_compute(compute_ns, &request, hdb.tests);
			t[2] = hdb_now();
		} else {
			t[2] = t[1];
		}
		MPI_Wait(&request, MPI_STATUS_IGNORE);
		t[3] = hdb_now();
		if (i >= skip) {
			all += t[3] - t[0];
			init += t[1] - t[0];
			compute += t[2] - t[1] - tested;
			test += tested;
			wait += t[3] - t[2];
		}
		*wrong += verify(work, i, t[0], t[3]);
		MPI_Barrier(work->comm);
	}
	if (hdb.persistent)
		MPI_Request_free(&request);
	if (compute_ns < 0) {
		o->pure = us(all) / iterations;
		return;
	}
	o->overall = us(all) / iterations;
	o->init = us(init) / iterations;
	o->compute = us(compute) / iterations;
	o->test = us(test) / iterations;
	o->wait = us(wait) / iterations;
}

void hdb_overlap_measure(const struct hdb_collective *c, struct hdb_work *work, int iterations, int skip,
			 struct hdb_overlap *o, size_t *wrong)
{
	nonblocking_loop(c, work, iterations, skip, -1, o, wrong);
	nonblocking_loop(c, work, iterations, skip, (int64_t)(o->pure * 1e3), o, wrong);
}

double hdb_overlap_reduce(const struct hdb_overlap *mine, struct hdb_overlap *mean, double *least, double *most)
{
	const double in[6] = {mine->pure, mine->overall, mine->compute, mine->init, mine->test, mine->wait};
	double out[6], overlap;

	MPI_Reduce(in, out, 6, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
	MPI_Reduce(in, least, 1, MPI_DOUBLE, MPI_MIN, 0, MPI_COMM_WORLD);
	MPI_Reduce(in, most, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
	if (hdb_rank)
		return 0;
	for (int i = 0; i < 6; i++)
		out[i] /= hdb_ranks;
	*mean = (struct hdb_overlap){.pure = out[0], .overall = out[1], .compute = out[2],
				     .init = out[3], .test = out[4], .wait = out[5]};
	overlap = out[0] > 0 ? 100 - (out[1] - out[2]) / out[0] * 100 : 0;
	return overlap > 0 ? overlap : 0;
}

/* Time of one iteration of both loops, s. */
static double probe_nonblocking(const struct hdb_collective *c, struct hdb_work *work)
{
	struct hdb_overlap o;
	size_t ignored = 0;
	int64_t begin = hdb_now();

	hdb_overlap_measure(c, work, 2, 1, &o, &ignored);
	return (double)(hdb_now() - begin) / 1e9 / 3;
}

static void one_nonblocking(const struct hdb_collective *c, size_t size, size_t *wrong)
{
	struct hdb_overlap mine, mean;
	struct hdb_work work;
	int iterations, skip;
	double least = 0, most = 0, overlap;

	hdb_work_new(&work, c, size);
	hdb_loops(size, &iterations, &skip);
	if (hdb.budget > 0)
		hdb_fit(probe_nonblocking(c, &work), &iterations, &skip);
	hdb_overlap_measure(c, &work, iterations, skip, &mine, wrong);
	overlap = hdb_overlap_reduce(&mine, &mean, &least, &most);
	if (hdb_rank == 0 && hdb.full)
		hdb_row_count(c->sized ? (long long)size : -1,
			      (double[]){mean.overall, mean.compute, mean.init, mean.test, mean.wait, mean.pure, least,
					 most, overlap},
			      9, iterations);
	else if (hdb_rank == 0)
		hdb_row(c->sized ? (long long)size : -1,
			(double[]){mean.overall, mean.compute, mean.pure, overlap}, 4);
	hdb_work_free(&work);
}

size_t hdb_nonblocking_main(const struct hdb_collective *c)
{
	char note[160] = "";
	const char *notes[] = {c->reduction ? hdb_reduction_note() : c->sized ? "Datatype: MPI_CHAR." : "", note,
			       "Overall = Coll. Init + Compute + MPI_Test + MPI_Wait", NULL};
	const char *brief[] = {"Size", "Overall(us)", "Compute(us)", "Pure Comm.(us)", "Overlap(%)", NULL};
	const char *full[] = {"Size", "Overall(us)", "Compute(us)", "Coll. Init(us)", "MPI_Test(us)", "MPI_Wait(us)",
			      "Pure Comm.(us)", "Min Comm.(us)", "Max Comm.(us)", "Overlap(%)", "Iterations", NULL};
	size_t wrong = 0;

	if (c->sized)
		fit_sizes(c, note, sizeof(note));
	hdb_header(notes, (hdb.full ? full : brief) + !c->sized);
	if (!c->sized)
		one_nonblocking(c, 0, &wrong);
	for (size_t size = hdb.sizes.min; c->sized && size <= hdb.sizes.max; size = hdb_next_size(size))
		one_nonblocking(c, size, &wrong);
	return wrong;
}
