/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Common code of the hd_* benchmarks: options, output, buffers, checked data, the clock, and the two loops that every
 * collective benchmark runs. Plain MPI: compiles with any implementation's compiler wrapper.
 *
 *     main ── hdb_start (MPI_Init, options) ── hdb_header ── measure, hdb_row … ── hdb_finish (verdict, MPI_Finalize)
 *
 * README.md in this folder describes the programs, their quantities and methods.
 */
#ifndef HDB_BENCH_H
#define HDB_BENCH_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#define HDB_VERSION "0.1.0"

/* Exit statuses. */
enum { HDB_PASS = 0, HDB_FAIL = 1, HDB_USAGE = 2 };

/* ---- options ------------------------------------------------------------------------------------------------ */

enum hdb_kind {
	HDB_FLAG,	/* bool: no argument */
	HDB_INT,	/* int, at least .least */
	HDB_REAL,	/* double, at least .least */
	HDB_CHOICE,	/* int: index into .choices */
	HDB_TEXT,	/* const char *: points into argv */
	HDB_BYTES,	/* size_t, at least .least; K, M and G are understood */
	HDB_RANGE,	/* struct hdb_range: MAX, MIN:MAX, MIN: or :MAX, in bytes, K and M allowed */
	HDB_PAIR,	/* int[2]: N (both) or SMALL:LARGE, each at least .least */
};

struct hdb_range {
	size_t min, max;
};

/* One option; a table of them ends with .name == NULL. letter 0: long form only. */
struct hdb_option {
	char letter;
	const char *name;
	enum hdb_kind kind;
	void *out;
	long least;
	const char *const *choices;	/* NULL-terminated */
	const char *arg, *help;
};

/* Option groups of a program; struct hdb_settings has the values. */
enum hdb_feature {
	HDB_SIZES = 1 << 0,	/* -m */
	HDB_LOOPS = 1 << 1,	/* -i, -x */
	HDB_FULL = 1 << 2,	/* -f */
	HDB_VALIDATE = 1 << 3,	/* -c */
	HDB_WINDOW = 1 << 4,	/* -w */
	HDB_BUDGET = 1 << 5,	/* -B */
	HDB_REDUCTION = 1 << 6,	/* -T, -O */
	HDB_TESTS = 1 << 7,	/* -t */
};

enum hdb_element { HDB_CHAR, HDB_FLOAT, HDB_DOUBLE, HDB_INT64 };
enum hdb_op { HDB_SUM, HDB_MAX, HDB_MIN, HDB_BAND, HDB_BOR, HDB_BXOR };

struct hdb_settings {
	struct hdb_range sizes;
	size_t memory;		/* most bytes that one rank's buffers may take */
	int iterations[2];	/* small, large messages */
	int skip[2];
	size_t large;		/* sizes above this are large */
	int window;
	int tests;		/* MPI_Test calls within the dummy computation */
	int digits;		/* behind the point; 0: two, as OSU prints */
	int element;		/* enum hdb_element */
	int op;			/* enum hdb_op */
	double budget;		/* seconds per size; 0: no limit */
	bool full, validate, alloc_mem, binding, persistent;
};

/* A benchmark program; `defaults` are the initial settings. */
struct hdb_program {
	const char *name, *title;
	unsigned features;
	struct hdb_settings defaults;
	int exact_ranks;	/* 0: any number that is at least least_ranks */
	int least_ranks;
	bool even_ranks;
	bool initialised;	/* the program has called MPI_Init itself */
	const struct hdb_option *extra;
};

extern const struct hdb_program *hdb_program;
extern struct hdb_settings hdb;
extern int hdb_rank, hdb_ranks;

/* Initialises MPI (unless the program did), reads the options into hdb. Does not return on -h, on a wrong option or a
 * wrong number of ranks: rank 0 prints the reason and every rank exits with HDB_USAGE (HDB_PASS for -h). */
void hdb_start(int argc, char **argv, const struct hdb_program *program);

/* wrong: this rank's number of wrong bytes or elements. Prints the verdict when data was validated, finalizes MPI;
 * returns the exit status of the process. */
int hdb_finish(size_t wrong);

/* Rank 0 prints "name: message" on standard error; every rank finalizes and exits with the status. Collective. */
void hdb_quit(int status, const char *format, ...) __attribute__((noreturn, format(printf, 2, 3)));
/* The calling rank prints and ends the job: for errors of one rank alone (no memory, a system call failed). */
void hdb_die(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));

/* The next size after size, doubling (0, 1, 2, 4, …). */
size_t hdb_next_size(size_t size);
/* Iterations and warm-up of a size. */
void hdb_loops(size_t size, int *iterations, int *skip);
/* Lowers *iterations (at least 2) and *skip (at most as many) so that they fit the budget, at seconds per iteration;
 * all ranks agree. Collective when -B was given, else nothing. */
void hdb_fit(double seconds, int *iterations, int *skip);

/* ---- output (rank 0) ---------------------------------------------------------------------------------------- */

/* The title; further comment lines (each without "# ", may be NULL) and the column names, ending with NULL. */
void hdb_header(const char *const *notes, const char *const *columns);
/* One row. size < 0: the row has no size column. A negative number in values is a number like any other. */
void hdb_row(long long size, const double *values, int n);
/* The same with a last column of text or a whole number. */
void hdb_row_count(long long size, const double *values, int n, int iterations);

/* ---- clock -------------------------------------------------------------------------------------------------- */

/* Nanoseconds of CLOCK_MONOTONIC: the same clock for every measured library, and common to all processes of a host. */
static inline int64_t hdb_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}
/* Cost of a pair of hdb_now() calls, ns: the least of many. */
double hdb_clock_cost(void);
/* True on every rank if all ranks are on one host (hdb_now() may be compared). Collective. */
bool hdb_one_host(void);
/* CPUs that the ranks may use, in all (on one host). Collective. */
int hdb_cpus(void);

/* Computes for at least so many ns, without entering MPI; calls MPI_Test on *request tests times, evenly spread (0, and
 * then request may be NULL). Returns the ns spent in those tests. */
int64_t hdb_compute(int64_t ns, MPI_Request *request, int tests);

/* ---- buffers and checked data ------------------------------------------------------------------------------- */

/* Page-aligned memory, every page touched, with guard bytes behind it; from MPI_Alloc_mem with --alloc-mem. */
struct hdb_buffer {
	unsigned char *p;
	size_t bytes;
	void *base;
};
void hdb_buffer_new(struct hdb_buffer *b, size_t bytes);
void hdb_buffer_free(struct hdb_buffer *b);
/* Sets the guard; checks it: number of guard bytes that were overwritten, reported on standard error. */
size_t hdb_guard(const struct hdb_buffer *b);

/* A seed that differs for each iteration, sender, receiver and message. */
uint64_t hdb_seed(int iteration, int from, int to, int index);
/* Fills p: every byte depends on the seed and on its offset. */
void hdb_fill(void *p, size_t bytes, uint64_t seed);
/* Returns the number of bytes that differ; reports the first few mismatches of a program with the text `what`. */
size_t hdb_check(const void *p, size_t bytes, uint64_t seed, const char *what);

/* ---- windows of messages -------------------------------------------------------------------------------------- */

/* hdb.window messages of one size in flight each way. They share one buffer per direction, as OSU's do; with -c every
 * message has its own. */
struct hdb_window {
	struct hdb_buffer send, recv;
	MPI_Request *sends, *recvs;
	size_t size, stride;	/* stride: bytes from one message's buffer to the next's; 0 when shared */
};
void hdb_window_new(struct hdb_window *w, size_t size);
void hdb_window_free(struct hdb_window *w);
void hdb_window_isend(struct hdb_window *w, int peer, int tag);
void hdb_window_irecv(struct hdb_window *w, int peer, int tag);
void hdb_window_wait_sends(struct hdb_window *w);
void hdb_window_wait_recvs(struct hdb_window *w);
/* With -c: data to peer before an iteration; number of wrong bytes from peer after it. */
void hdb_window_prepare(struct hdb_window *w, int peer, int iteration);
size_t hdb_window_check(struct hdb_window *w, int peer, int iteration);

/* The loop of every bandwidth test: runs iteration() skip + iterations times; returns the ns of the counted ones on
 * this rank (with -c only the communication is counted). Collective over MPI_COMM_WORLD. peer < 0: the rank has no
 * part. */
int64_t hdb_window_loop(struct hdb_window *w, int peer, int iterations, int skip,
			void (*iteration)(struct hdb_window *w, int peer), bool sends, bool receives, size_t *wrong);

/* ---- collectives -------------------------------------------------------------------------------------------- */

struct hdb_work;

/* A collective; rank 0 is the root of a rooted one (colls.c has them all). */
struct hdb_collective {
	const char *name;		/* as in hd_NAME */
	const char *title;
	bool sized;			/* has a message size (a barrier has none) */
	bool reduction;
	int send_blocks, recv_blocks;	/* in units of size; -1: one per rank */
	bool root_sends, root_receives;	/* only the root sends; only the root receives */
	bool personal;			/* each receiver has a block of its own */
	bool prefix;			/* a reduction over the ranks up to the caller */
	void (*call)(struct hdb_work *work);
	void (*start)(struct hdb_work *work, MPI_Request *request);
	void (*make)(struct hdb_work *work, MPI_Request *request);	/* the persistent form; NULL: an MPI before 4.0 */
};

/* One collective at one size on this rank. */
struct hdb_work {
	const struct hdb_collective *c;
	MPI_Comm comm;
	struct hdb_buffer send, recv;
	int count;		/* elements per block */
	int *counts, *displs;	/* the same for each rank, for the vector forms */
	size_t size;		/* bytes per block */
	MPI_Datatype type;
	MPI_Op op;
};

/* The i-th collective; NULL: i is past the end. */
const struct hdb_collective *hdb_collective_at(size_t i);
/* The collective of that name, or NULL. */
const struct hdb_collective *hdb_collective_named(const char *name);
/* send_blocks, recv_blocks as a number. */
size_t hdb_blocks(int n);

void hdb_work_new(struct hdb_work *work, const struct hdb_collective *c, size_t size);
void hdb_work_free(struct hdb_work *work);

/* Fills the buffers before an iteration; the number of wrong bytes or elements after it. */
void hdb_prepare(struct hdb_work *work, int iteration);
size_t hdb_verify(struct hdb_work *work, int iteration);
/* "Datatype: MPI_FLOAT. Operation: MPI_SUM." */
const char *hdb_reduction_note(void);
/* The element of reductions: hdb.element. */
size_t hdb_element_size(void);
MPI_Datatype hdb_element_type(void);

/* This rank's averages of a nonblocking collective, µs: alone, and beside a computation that takes as long as the collective
 * alone. */
struct hdb_overlap {
	double pure, overall, compute, init, test, wait;
};
void hdb_overlap_measure(const struct hdb_collective *c, struct hdb_work *work, int iterations, int skip,
			 struct hdb_overlap *o, size_t *wrong);
/* Averages over the ranks, valid on rank 0; returns OSU's overlap in per cent there. Collective. */
double hdb_overlap_reduce(const struct hdb_overlap *mine, struct hdb_overlap *mean, double *least, double *most);

/* Counters of the software HCA for task lists, summed over all ranks. */
struct hdb_counts {
	long long calcs, waits, enables, atomics;
};
/* Whether the ranks run Heddle on the software HCA. */
bool hdb_device_is_there(void);
/* Reads the counters since the job's fabric was made. False: shcactl is missing or fails. */
bool hdb_device_counts(struct hdb_counts *sum);
/* Asks heddle_info --explain for the counts and the executor of one nonblocking collective. forced: for this executor; NULL: for the
 * executor that the library selects. False: heddle_info is missing or fails. */
bool hdb_device_explained(const struct hdb_collective *c, size_t size, const char *forced, struct hdb_counts *all, char executor[16]);

/* Whole programs: main of a blocking or a nonblocking collective's benchmark after hdb_start. */
size_t hdb_blocking_main(const struct hdb_collective *c);
size_t hdb_nonblocking_main(const struct hdb_collective *c);

#endif
