/* SPDX-License-Identifier: BSD-3-Clause */
/* Output, clock, buffers and checked data of the hd_* benchmarks. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "bench.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FIRST_COLUMN = 10, COLUMN = 18, GUARD = 64, GUARD_BYTE = 0xa5, MOST_REPORTS = 5 };

size_t hdb_next_size(size_t size)
{
	return size ? size * 2 : 1;
}

void hdb_loops(size_t size, int *iterations, int *skip)
{
	int large = size > hdb.large;

	*iterations = hdb.iterations[large];
	*skip = hdb.skip[large];
}

void hdb_fit(double seconds, int *iterations, int *skip)
{
	double slowest;

	if (hdb.budget <= 0)
		return;
	MPI_Allreduce(&seconds, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
	if (slowest * *iterations > hdb.budget) {
		*iterations = (int)(hdb.budget / slowest);
		if (*iterations < 2)
			*iterations = 2;
	}
	if (*skip > *iterations)
		*skip = *iterations;
}

/* ---- CPUs ----------------------------------------------------------------------------------------------------- */

enum { MASK_WORDS = 128 };	/* 8192 CPUs */

static void cpu_mask(int64_t mask[MASK_WORDS])
{
	memset(mask, 0, MASK_WORDS * sizeof(*mask));
	if (sched_getaffinity(0, MASK_WORDS * sizeof(*mask), (cpu_set_t *)(void *)mask))
		hdb_die("sched_getaffinity: %s", strerror(errno));
}

static bool cpu_in(const int64_t *mask, int cpu)
{
	return cpu < MASK_WORDS * 64 && (mask[cpu / 64] >> (cpu % 64) & 1);
}

int hdb_cpus(void)
{
	int64_t mine[MASK_WORDS], all[MASK_WORDS];
	int n = 0;

	cpu_mask(mine);
	MPI_Allreduce(mine, all, MASK_WORDS, MPI_INT64_T, MPI_BOR, MPI_COMM_WORLD);
	for (int i = 0; i < MASK_WORDS * 64; i++)
		n += cpu_in(all, i);
	return n;
}

/* "0-3,8" */
static void cpu_text(const int64_t *mask, char *text, size_t bytes)
{
	size_t n = 0;

	text[0] = '\0';
	for (int from = 0; from < MASK_WORDS * 64 && n + 16 < bytes; from++) {
		int to = from;

		if (!cpu_in(mask, from))
			continue;
		while (cpu_in(mask, to + 1))
			to++;
		n += (size_t)snprintf(text + n, bytes - n, to > from ? "%s%d-%d" : "%s%d", n ? "," : "", from, to);
		from = to;
	}
}

static void print_binding(void)
{
	int64_t mask[MASK_WORDS];
	char text[256];

	cpu_mask(mask);
	if (hdb_rank) {
		MPI_Send(mask, MASK_WORDS, MPI_INT64_T, 0, 0, MPI_COMM_WORLD);
		return;
	}
	for (int r = 0; r < hdb_ranks; r++) {
		if (r)
			MPI_Recv(mask, MASK_WORDS, MPI_INT64_T, r, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		cpu_text(mask, text, sizeof(text));
		printf("# CPUs of rank %d: %s\n", r, text);
	}
}

bool hdb_one_host(void)
{
	/* Boot ids differ between hosts; containers of one host share the id, and the clock. */
	unsigned char id[64] = {0};
	FILE *f = fopen("/proc/sys/kernel/random/boot_id", "r");
	uint64_t hash = 0xcbf29ce484222325u;
	int64_t mine, least, most;

	if (f) {
		if (!fread(id, 1, sizeof(id) - 1, f))
			id[0] = 0;
		fclose(f);
	}
	for (size_t i = 0; i < sizeof(id); i++)
		hash = (hash ^ id[i]) * 0x100000001b3u;
	/* Without an id the ranks must not look alike. */
	mine = f ? (int64_t)(hash >> 1) : hdb_rank;
	MPI_Allreduce(&mine, &least, 1, MPI_INT64_T, MPI_MIN, MPI_COMM_WORLD);
	MPI_Allreduce(&mine, &most, 1, MPI_INT64_T, MPI_MAX, MPI_COMM_WORLD);
	return least == most;
}

/* ---- output --------------------------------------------------------------------------------------------------- */

void hdb_header(const char *const *notes, const char *const *columns)
{
	int first = 1;

	if (hdb_rank == 0) {
		printf("# Heddle %s (%s %s)\n", hdb_program->title, hdb_program->name, HDB_VERSION);
		for (; notes && *notes; notes++)
			if (**notes)
				printf("# %s\n", *notes);
	}
	if (hdb.binding)
		print_binding();
	if (hdb_rank == 0) {
		for (; *columns; columns++) {
			if (first && !strcmp(*columns, "Size"))
				printf("%-*s", FIRST_COLUMN, "# Size");
			else if (first)
				printf("#%*s", COLUMN - 1, *columns);
			else
				printf(" %*s", COLUMN - 1, *columns);
			first = 0;
		}
		putchar('\n');
		fflush(stdout);
	}
}

static void row(long long size, const double *values, int n)
{
	if (size >= 0)
		printf("%-*lld", FIRST_COLUMN, size);
	for (int i = 0; i < n; i++)
		printf(" %*.*f", COLUMN - 1, hdb.digits, values[i]);
}

void hdb_row(long long size, const double *values, int n)
{
	if (hdb_rank)
		return;
	row(size, values, n);
	putchar('\n');
	fflush(stdout);
}

void hdb_row_count(long long size, const double *values, int n, int iterations)
{
	if (hdb_rank)
		return;
	row(size, values, n);
	printf(" %*d\n", COLUMN - 1, iterations);
	fflush(stdout);
}

int hdb_finish(size_t wrong)
{
	int64_t mine = (int64_t)wrong, all = 0;

	MPI_Allreduce(&mine, &all, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
	if (hdb_rank == 0 && hdb.validate)
		printf("# Validation: %s\n", all ? "FAIL" : "Pass");
	if (hdb_rank == 0 && all)
		fprintf(stderr, "%s: %lld wrong bytes, elements or orders were seen\n", hdb_program->name,
			(long long)all);
	fflush(stdout);
	MPI_Finalize();
	return all ? HDB_FAIL : HDB_PASS;
}

/* ---- clock and computation ------------------------------------------------------------------------------------ */

double hdb_clock_cost(void)
{
	int64_t least = INT64_MAX;

	for (int i = 0; i < 10000; i++) {
		int64_t t = hdb_now();

		t = hdb_now() - t;
		if (t < least)
			least = t;
	}
	return (double)least;
}

/* About 60 ns of dependent arithmetic in registers. */
static double grain(double x)
{
	for (int i = 0; i < 48; i++)
		x = x * 0.999999 + 1e-6;
	return x;
}

int64_t hdb_compute(int64_t ns, MPI_Request *request, int tests)
{
	static volatile double sink;
	double x = sink;
	int64_t begin = hdb_now(), now = begin, spent = 0;
	int done = 0, flag;

	while (now - begin - spent < ns) {
		x = grain(x);
		now = hdb_now();
		if (done < tests && (now - begin - spent) * (tests + 1) >= ns * (done + 1)) {
			MPI_Test(request, &flag, MPI_STATUS_IGNORE);
			done++;
			spent += hdb_now() - now;
			now = hdb_now();
		}
	}
	sink = x;
	return spent;
}

/* ---- buffers -------------------------------------------------------------------------------------------------- */

void hdb_buffer_new(struct hdb_buffer *b, size_t bytes)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE), need = bytes + GUARD + page;
	int err;

	b->bytes = bytes;
	if (hdb.alloc_mem) {
		MPI_Alloc_mem((MPI_Aint)need, MPI_INFO_NULL, &b->base);
		b->p = (unsigned char *)(((uintptr_t)b->base + page - 1) & ~(uintptr_t)(page - 1));
	} else {
		err = posix_memalign(&b->base, page, need);
		if (err)
			hdb_die("no memory for a buffer of %zu bytes: %s; lower -m, -w or -M", need, strerror(err));
		b->p = b->base;
	}
	memset(b->p, 'h', bytes);
	memset(b->p + bytes, GUARD_BYTE, GUARD);
}

void hdb_buffer_free(struct hdb_buffer *b)
{
	if (hdb.alloc_mem)
		MPI_Free_mem(b->base);
	else
		free(b->base);
	memset(b, 0, sizeof(*b));
}

static bool may_report(void)
{
	static int reports;

	return reports++ < MOST_REPORTS;
}

size_t hdb_guard(const struct hdb_buffer *b)
{
	size_t wrong = 0, first = 0;

	for (size_t i = GUARD; i-- > 0;) {
		if (b->p[b->bytes + i] != GUARD_BYTE) {
			first = i;
			wrong++;
		}
	}
	if (wrong && may_report())
		fprintf(stderr,
			"%s: rank %d: %zu bytes were written behind a buffer of %zu bytes, from %zu beyond its end\n",
			hdb_program->name, hdb_rank, wrong, b->bytes, first);
	memset(b->p + b->bytes, GUARD_BYTE, GUARD);
	return wrong;
}

static uint64_t mix(uint64_t x)
{
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
	return x ^ (x >> 31);
}

uint64_t hdb_seed(int iteration, int from, int to, int index)
{
	return mix(mix((uint64_t)iteration << 32 | (uint32_t)index) + ((uint64_t)from << 32 | (uint32_t)to));
}

static inline uint64_t word(uint64_t seed, size_t k)
{
	uint64_t w = (seed + k) * 0x9e3779b97f4a7c15u;

	return w ^ w >> 32;
}

void hdb_fill(void *p, size_t bytes, uint64_t seed)
{
	unsigned char *c = p;
	size_t k, words = bytes / 8;

	for (k = 0; k < words; k++) {
		uint64_t w = word(seed, k);

		memcpy(c + 8 * k, &w, 8);
	}
	if (bytes % 8) {
		uint64_t w = word(seed, k);

		memcpy(c + 8 * k, &w, bytes % 8);
	}
}

static size_t count_wrong(const unsigned char *c, size_t bytes, uint64_t seed, size_t *first)
{
	size_t wrong = 0;

	for (size_t i = 0; i < bytes; i++) {
		uint64_t w = word(seed, i / 8);
		unsigned char want[8];

		memcpy(want, &w, 8);
		if (c[i] != want[i % 8] && wrong++ == 0)
			*first = i;
	}
	return wrong;
}

size_t hdb_check(const void *p, size_t bytes, uint64_t seed, const char *what)
{
	const unsigned char *c = p;
	uint64_t differ = 0, w = 0, have = 0;
	size_t k, words = bytes / 8, wrong, first = 0;

	for (k = 0; k < words; k++) {
		memcpy(&have, c + 8 * k, 8);
		differ |= have ^ word(seed, k);
	}
	if (bytes % 8) {
		have = 0;
		memcpy(&have, c + 8 * k, bytes % 8);
		/* the same bytes of the wanted word, for either byte order */
		uint64_t full = word(seed, k);

		memcpy(&w, &full, bytes % 8);
		differ |= have ^ w;
	}
	if (!differ)
		return 0;
	wrong = count_wrong(c, bytes, seed, &first);
	if (may_report())
		fprintf(stderr, "%s: rank %d: %s: %zu of %zu bytes are wrong, the first at offset %zu (0x%02x)\n",
			hdb_program->name, hdb_rank, what, wrong, bytes, first, c[first]);
	return wrong;
}
