/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hd_rma: one-sided operations by flavour of window and kind of synchronization: time of one with its completion, bandwidth and rate of many,
 * many origins on one word, and the time of one while its target computes.
 */
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum measure { LATENCY, BANDWIDTH, CONTENTION, COMPUTING };
enum operation { PUT, GET, ACCUMULATE, FETCH_AND_OP, COMPARE_AND_SWAP };
enum flavour { CREATE, ALLOCATE, SHARED, DYNAMIC };
enum sync { FLUSH, LOCK, FENCE, POST };

static const char *const measures[] = {"latency", "bw", "contention", "computing", NULL};
static const char *const operations[] = {"put", "get", "accumulate", "fetch_and_op", "compare_and_swap", NULL};
static const char *const flavours[] = {"create", "allocate", "shared", "dynamic", NULL};
static const char *const syncs[] = {"flush", "lock", "fence", "post", NULL};

static int measure = LATENCY, operation = PUT, flavour = ALLOCATE, how = FLUSH;
static double compute = 1;
static const char *hint;

enum { SLOTS_BYTES = 8 << 20 };

/* The window, and the origin's buffers. The target of a pair is rank 1, of further ranks there are their parts of the window only;
 * that of a contention rank 0. */
static struct {
	MPI_Win win;
	unsigned char *mem;
	size_t bytes;
	MPI_Aint base;		/* of the target's memory in displacements: an address in a dynamic window */
	int target;
	size_t size;
	int slots;		/* places that operations go to in turns */
	MPI_Group peer;
	struct hdb_buffer origin, result;
	int64_t seen;		/* the last result of a compare-and-swap */
} w;

static const struct hdb_option options[] = {
	{0, "measure", HDB_CHOICE, &measure, 0, measures, "WHAT", "latency, bw, contention or computing"},
	{0, "operation", HDB_CHOICE, &operation, 0, operations, "OP",
	 "put, get, accumulate (sums of int64), fetch_and_op or compare_and_swap (8 bytes)"},
	{0, "flavour", HDB_CHOICE, &flavour, 0, flavours, "FLAVOUR", "create, allocate, shared or dynamic"},
	{0, "sync", HDB_CHOICE, &how, 0, syncs, "SYNC",
	 "of latency: flush (under MPI_Win_lock_all), lock (exclusive, of each operation), fence, post"},
	{0, "hint", HDB_TEXT, &hint, 0, NULL, "KEY=VALUE", "an info key of the window (mpi_accumulate_granularity=8)"},
	{0, "compute", HDB_REAL, &compute, 0, NULL, "SECONDS", "how long the target computes (computing; default 1)"},
	{0},
};

/* ---- the window ------------------------------------------------------------------------------------------------- */

static MPI_Info hints(void)
{
	const char *value = hint ? strchr(hint, '=') : NULL;
	char key[MPI_MAX_INFO_KEY + 1];
	MPI_Info info;

	if (!hint)
		return MPI_INFO_NULL;
	if (!value || value == hint || value - hint > MPI_MAX_INFO_KEY)
		hdb_quit(HDB_USAGE, "--hint %s: KEY=VALUE is wanted", hint);
	snprintf(key, sizeof(key), "%.*s", (int)(value - hint), hint);
	MPI_Info_create(&info);
	MPI_Info_set(info, key, value + 1);
	return info;
}

static void window_new(size_t size, int slots)
{
	MPI_Info info = hints();
	MPI_Group all;
	int peer = 1 - hdb_rank;

	memset(&w, 0, sizeof(w));
	w.size = size;
	w.slots = slots;
	w.bytes = (size < 8 ? 8 : size) * (size_t)slots;
	w.target = measure == CONTENTION ? 0 : 1;
	switch (flavour) {
	case CREATE:
	case DYNAMIC:
		if (posix_memalign((void **)&w.mem, 4096, w.bytes))
			hdb_die("no memory for a window of %zu bytes", w.bytes);
		break;
	default:
		break;
	}
	if (flavour == CREATE) {
		MPI_Win_create(w.mem, (MPI_Aint)w.bytes, 1, info, MPI_COMM_WORLD, &w.win);
	} else if (flavour == ALLOCATE) {
		MPI_Win_allocate((MPI_Aint)w.bytes, 1, info, MPI_COMM_WORLD, &w.mem, &w.win);
	} else if (flavour == SHARED) {
		MPI_Win_allocate_shared((MPI_Aint)w.bytes, 1, info, MPI_COMM_WORLD, &w.mem, &w.win);
	} else {
		MPI_Win_create_dynamic(info, MPI_COMM_WORLD, &w.win);
		MPI_Win_attach(w.win, w.mem, (MPI_Aint)w.bytes);
		MPI_Get_address(w.mem, &w.base);
	}
	if (info != MPI_INFO_NULL)
		MPI_Info_free(&info);
	MPI_Bcast(&w.base, 1, MPI_AINT, w.target, MPI_COMM_WORLD);
	memset(w.mem, 0, w.bytes);
	hdb_buffer_new(&w.origin, w.bytes);
	hdb_buffer_new(&w.result, w.bytes);
	for (size_t i = 0; operation >= ACCUMULATE && i < w.bytes / 8; i++)
		((int64_t *)(void *)w.origin.p)[i] = 1;
	if (hdb_ranks == 2) {
		MPI_Win_get_group(w.win, &all);
		MPI_Group_incl(all, 1, &peer, &w.peer);
		MPI_Group_free(&all);
	}
	MPI_Barrier(MPI_COMM_WORLD);
}

static size_t window_free(void)
{
	size_t wrong = hdb_guard(&w.origin) + hdb_guard(&w.result);

	MPI_Barrier(MPI_COMM_WORLD);
	if (w.peer)
		MPI_Group_free(&w.peer);
	if (flavour == DYNAMIC)
		MPI_Win_detach(w.win, w.mem);
	MPI_Win_free(&w.win);
	if (flavour == CREATE || flavour == DYNAMIC)
		free(w.mem);
	hdb_buffer_free(&w.origin);
	hdb_buffer_free(&w.result);
	return wrong;
}

/* ---- one operation ------------------------------------------------------------------------------------------------ */

static inline void operate(int slot)
{
	const size_t at = (size_t)slot * w.size;
	const MPI_Aint disp = w.base + (MPI_Aint)at;
	const int n = (int)w.size;

	switch (operation) {
	case PUT:
		MPI_Put(w.origin.p + at, n, MPI_CHAR, w.target, disp, n, MPI_CHAR, w.win);
		break;
	case GET:
		MPI_Get(w.result.p + at, n, MPI_CHAR, w.target, disp, n, MPI_CHAR, w.win);
		break;
	case ACCUMULATE:
		MPI_Accumulate(w.origin.p + at, n / 8, MPI_INT64_T, w.target, disp, n / 8, MPI_INT64_T, MPI_SUM, w.win);
		break;
	case FETCH_AND_OP:
		MPI_Fetch_and_op(w.origin.p, w.result.p, MPI_INT64_T, w.target, w.base, MPI_SUM, w.win);
		break;
	default:
		/* the last result, and one more */
		((int64_t *)(void *)w.origin.p)[0] = w.seen + 1;
		MPI_Compare_and_swap(w.origin.p, &w.seen, w.result.p, MPI_INT64_T, w.target, w.base, w.win);
		break;
	}
}

/* After a completed compare-and-swap: sets the value that the next one compares with. */
static inline void learn(void)
{
	int64_t found = ((int64_t *)(void *)w.result.p)[0];

	if (operation == COMPARE_AND_SWAP)
		w.seen = found == w.seen ? found + 1 : found;
}

/* One operation of rank 0 with its synchronization; the target's part of it, where it has one. */
static inline void round_of(void)
{
	switch (how) {
	case FLUSH:
		if (hdb_rank)
			return;
		operate(0);
		MPI_Win_flush(1, w.win);
		break;
	case LOCK:
		if (hdb_rank)
			return;
		MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 1, 0, w.win);
		operate(0);
		MPI_Win_unlock(1, w.win);
		break;
	case FENCE:
		if (!hdb_rank)
			operate(0);
		MPI_Win_fence(0, w.win);
		break;
	default:
		if (hdb_rank) {
			MPI_Win_post(w.peer, 0, w.win);
			MPI_Win_wait(w.win);
			return;
		}
		MPI_Win_start(w.peer, 0, w.win);
		operate(0);
		MPI_Win_complete(w.win);
		break;
	}
	learn();
}

static void epoch_open(void)
{
	if (how == FLUSH)
		MPI_Win_lock_all(0, w.win);
	else if (how == FENCE)
		MPI_Win_fence(0, w.win);
}

static void epoch_close(void)
{
	if (how == FLUSH)
		MPI_Win_unlock_all(w.win);
}

/* ---- -c ------------------------------------------------------------------------------------------------------------- */

static void prepare(int iteration)
{
	if (operation == PUT && !hdb_rank)
		hdb_fill(w.origin.p, w.size, hdb_seed(iteration, 0, 1, 0));
	else if (operation == GET && hdb_rank == w.target)
		hdb_fill(w.mem, w.size, hdb_seed(iteration, 1, 0, 0));
	if (how == FLUSH)
		MPI_Win_sync(w.win);
	MPI_Barrier(MPI_COMM_WORLD);
	if (how == FENCE)
		MPI_Win_fence(0, w.win);
}

static size_t check(int iteration)
{
	size_t wrong = 0;

	MPI_Barrier(MPI_COMM_WORLD);
	if (how == FLUSH)
		MPI_Win_sync(w.win);
	else if (how == LOCK)
		MPI_Win_lock(MPI_LOCK_SHARED, hdb_rank, 0, w.win);
	if (operation == PUT && hdb_rank == w.target)
		wrong = hdb_check(w.mem, w.size, hdb_seed(iteration, 0, 1, 0), "put");
	else if (operation == GET && !hdb_rank)
		wrong = hdb_check(w.result.p, w.size, hdb_seed(iteration, 1, 0, 0), "get");
	else if (operation >= ACCUMULATE && hdb_rank == w.target)
		for (size_t i = 0; i < (operation == ACCUMULATE ? w.size / 8 : 1); i++)
			wrong += ((int64_t *)(void *)w.mem)[i] != iteration + 1;
	if (how == LOCK)
		MPI_Win_unlock(hdb_rank, w.win);
	MPI_Barrier(MPI_COMM_WORLD);
	return wrong;
}

/* ---- measurements ---------------------------------------------------------------------------------------------------- */

/* µs of one operation with its synchronization. */
static double latency(int iterations, int skip, size_t *wrong)
{
	int64_t sum = 0, begin = 0;

	epoch_open();
	for (int i = 0; hdb.validate && i < skip + iterations; i++) {
		int64_t t;

		prepare(i);
		t = hdb_now();
		round_of();
		t = hdb_now() - t;
		if (i >= skip)
			sum += t;
		*wrong += check(i);
	}
	for (int i = 0; !hdb.validate && i < skip + iterations; i++) {
		if (i == skip)
			begin = hdb_now();
		round_of();
	}
	if (!hdb.validate)
		sum = hdb_now() - begin;
	epoch_close();
	return (double)sum / 1e3 / iterations;
}

/* Seconds of the counted windows of operations, each with a flush behind. */
static double windows(int iterations, int skip)
{
	int64_t begin = 0;
	int slot = 0;

	MPI_Win_lock_all(0, w.win);
	MPI_Barrier(MPI_COMM_WORLD);
	for (int i = 0; !hdb_rank && i < skip + iterations; i++) {
		if (i == skip)
			begin = hdb_now();
		for (int k = 0; k < hdb.window; k++) {
			operate(slot);
			slot = slot + 1 < w.slots ? slot + 1 : 0;
		}
		MPI_Win_flush(1, w.win);
		learn();
	}
	begin = hdb_now() - begin;
	MPI_Win_unlock_all(w.win);
	return (double)begin / 1e9;
}

/* Operations per second of all ranks on one word of rank 0, which is an origin, too. */
static double contention(int iterations, int skip, size_t *wrong)
{
	double mine, slowest;
	int64_t begin = 0, sum;

	MPI_Win_lock_all(0, w.win);
	MPI_Barrier(MPI_COMM_WORLD);
	for (int i = 0; i < skip + iterations; i++) {
		if (i == skip) {
			MPI_Barrier(MPI_COMM_WORLD);
			begin = hdb_now();
		}
		operate(0);
		MPI_Win_flush(0, w.win);
		learn();
	}
	mine = (double)(hdb_now() - begin) / 1e9;
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Win_sync(w.win);
	memcpy(&sum, w.mem, sizeof(sum));
	if (hdb.validate && !hdb_rank && (operation == FETCH_AND_OP || operation == ACCUMULATE))
		*wrong += sum != (int64_t)hdb_ranks * (skip + iterations);
	MPI_Win_unlock_all(w.win);
	MPI_Reduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
	return (double)hdb_ranks * iterations / slowest;
}

/* µs of an operation with its flush while the target waits in the library (not busy), or computes. Ends before the target does. */
static void computing(int iterations, bool busy, double *mean, double *longest)
{
	int64_t begin, now, most = 0;
	int token = 0, n = 0;

	MPI_Win_lock_all(0, w.win);
	for (int i = 0; !hdb_rank && i < 10; i++) {
		operate(0);
		MPI_Win_flush(1, w.win);
		learn();
	}
	MPI_Barrier(MPI_COMM_WORLD);
	if (hdb_rank) {
		if (busy)
			hdb_compute((int64_t)(compute * 1e9), NULL, 0);
		MPI_Recv(&token, 1, MPI_INT, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	} else {
		/* the target has left the barrier, too */
		hdb_compute(10000000, NULL, 0);
		begin = now = hdb_now();
		while (n < iterations && (double)(now - begin) < compute * 0.4e9) {
			int64_t t = now;

			operate(0);
			MPI_Win_flush(1, w.win);
			learn();
			now = hdb_now();
			n++;
			most = now - t > most ? now - t : most;
		}
		*mean = (double)(now - begin) / 1e3 / n;
		*longest = (double)most / 1e3;
		MPI_Send(&token, 1, MPI_INT, 1, 1, MPI_COMM_WORLD);
	}
	MPI_Win_unlock_all(w.win);
	MPI_Barrier(MPI_COMM_WORLD);
}

static size_t one_size(size_t size)
{
	int iterations, skip, slots = 1;
	double values[3] = {0, 0, 0};
	size_t wrong = 0;

	hdb_loops(size, &iterations, &skip);
	if (measure == BANDWIDTH) {
		slots = size < SLOTS_BYTES ? (int)(SLOTS_BYTES / size) : 1;
		slots = slots < hdb.window ? slots : hdb.window;
	}
	window_new(size, slots);
	switch (measure) {
	case LATENCY:
		values[0] = latency(iterations, skip, &wrong);
		hdb_row((long long)size, values, 1);
		break;
	case BANDWIDTH:
		iterations = iterations > 10 ? iterations / 10 : 1;
		values[1] = (double)iterations * hdb.window / windows(iterations, skip > 10 ? skip / 10 : 1);
		values[0] = values[1] * (double)size / 1e6;
		hdb_row((long long)size, values, 2);
		break;
	case CONTENTION:
		values[0] = contention(iterations, skip, &wrong);
		hdb_row((long long)size, values, 1);
		break;
	default:
		computing(iterations, false, &values[0], &values[2]);
		computing(iterations, true, &values[1], &values[2]);
		hdb_row((long long)size, values, 3);
		break;
	}
	return wrong + window_free();
}

int main(int argc, char **argv)
{
	static const struct hdb_program program = {
		.name = "hd_rma",
		.title = "MPI One-sided Test",
		.features = HDB_SIZES | HDB_LOOPS | HDB_VALIDATE | HDB_WINDOW,
		.defaults =
			{.sizes = {8, 4 << 20}, .iterations = {10000, 1000}, .skip = {100, 10}, .large = 8192, .window = 64},
		.least_ranks = 2,
		.extra = options,
	};
	static const char *const columns[][5] = {
		{"Size", "Time(us)", NULL},
		{"Size", "MB/s", "Operations/s", NULL},
		{"Size", "Operations/s", NULL},
		{"Size", "Waiting(us)", "Computing(us)", "Longest(us)", NULL},
	};
	char note[160];
	const char *notes[] = {note, NULL};
	size_t wrong = 0;

	hdb_start(argc, argv, &program);
	if ((measure == COMPUTING || how != FLUSH) && hdb_ranks != 2)
		hdb_quit(HDB_USAGE, "--measure %s --sync %s: 2 ranks are wanted, these are %d", measures[measure], syncs[how], hdb_ranks);
	if (measure != LATENCY && how != FLUSH)
		hdb_quit(HDB_USAGE, "--sync %s is for --measure latency: %s is by flush", syncs[how], measures[measure]);
	if (operation >= FETCH_AND_OP || measure == CONTENTION)
		hdb.sizes.min = hdb.sizes.max = 8;
	if (hdb.sizes.min < 8)
		hdb.sizes.min = 8;
	if (operation == COMPARE_AND_SWAP && measure == BANDWIDTH)
		hdb_quit(HDB_USAGE, "--operation compare_and_swap has no bandwidth: each needs the last one's result");
	snprintf(note, sizeof(note), "Operation: %s. Window: %s. Completion: %s.", operations[operation], flavours[flavour],
		 measure == LATENCY ? syncs[how] : "flush");
	hdb_header(notes, columns[measure]);
	for (size_t size = hdb.sizes.min; size <= hdb.sizes.max; size = hdb_next_size(size))
		wrong += one_size(size);
	return hdb_finish(wrong);
}
