/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * HEDDLE_REPORT_MEMORY: a ledger of this rank's memory, by subsystem.
 *
 * Touched bytes are proportional shares, as PSS counts them (proc_pid_smaps(5)): a page that n processes map counts
 * 4096 / n. Rows are
 *
 *   ranges     of the fabric, or mapped: hdl_ledger_add notes each when it is allocated. A page counts if this process maps it
 *              (proc_pid_pagemap(5), bit 63)
 *   phases     of MPI_Init: growth of the heap and of the anonymous mappings in each
 *   files      the mappings of libraries and of the program, by file
 *   the rest   of the heap, of which the rows of hdl_ledger_heap are taken
 *
 * So the rows' sum is the process's PSS.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/runtime.h"

enum { PAGE = 4096, ROWS = 40 };

/* Classes of mappings. HEAP is all anonymous memory: [heap], and the mappings of malloc and of threads' stacks. */
enum class { HEAP, FABRIC, PMIX, VERBS, HEDDLE, FILES, CLASSES };
static const char *const class_names[CLASSES] = {
	[PMIX] = "libpmix: its libraries", [VERBS] = "libibverbs: its libraries", [HEDDLE] = "libheddle: its libraries",
	[FILES] = "the program and other libraries",
};

struct shares {
	uint64_t pss[CLASSES];
	uint64_t heap;			/* bytes that malloc has given out */
};
static struct shares at_phase[HDL_LEDGER_PHASES];

struct range {
	struct range *next;
	const char *what;
	uintptr_t p;
	size_t bytes;
};
static struct range *ranges;

static struct row {
	const char *what;
	uint64_t predicted;		/* by the settings and the number of peers, if nothing has grown with the
					 * traffic; 0: not known */
	uint64_t allocated, touched;
	uint64_t alone, shared;		/* pages of the fabric mapped by this process alone; by other processes, too */
} rows[ROWS];
static unsigned nrows;
static uint64_t of_heap;			/* bytes of the heap that have rows (hdl_ledger_heap) */

static struct row *row_of(const char *what)
{
	unsigned i;

	for (i = 0; i < nrows && strcmp(rows[i].what, what); i++)
		;
	if (i == nrows && nrows < ROWS)
		rows[nrows++] = (struct row){ .what = what };
	return &rows[i < ROWS ? i : ROWS - 1];
}

static enum class class_of(const char *line)
{
	static const struct { const char *name; enum class class; } files[] = {
		{ "memfd:shca", FABRIC }, { "libpmix", PMIX }, { "libhwloc", PMIX }, { "libevent", PMIX }, { "libmunge", PMIX },
		{ "libudev", PMIX }, { "/pmix", PMIX }, { "libibverbs", VERBS }, { "libnl", VERBS }, { "libheddle", HEDDLE },
		{ "libmpi_abi", HEDDLE }, { "libshca", HEDDLE },
	};
	const char *path = strchr(line, '/');

	for (size_t i = 0; path && i < ARRAY_SIZE(files); i++)
		if (strstr(path, files[i].name))
			return files[i].class;
	return path ? FILES : HEAP;
}

static void measure(struct shares *s)
{
	FILE *f = fopen("/proc/self/smaps", "re");
	enum class class = FILES;
	unsigned long from, to;
	char line[512];
	uint64_t kib;

	*s = (struct shares){ .heap = hdl_ledger_heap_now() };
	while (f && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%lx-%lx ", &from, &to) == 2)
			class = class_of(line);
		else if (sscanf(line, "Pss: %" SCNu64, &kib) == 1)
			s->pss[class] += kib << 10;
	}
	if (f)
		fclose(f);
}

void hdl_ledger_phase(enum hdl_ledger_phase phase)
{
	if (hdl_vars.report_memory)
		measure(&at_phase[phase]);
}

void hdl_ledger_add(const char *what, const void *p, size_t bytes)
{
	struct range *r;

	if (!hdl_vars.report_memory)
		return;
	hdl_ledger_drop(p);
	r = malloc(sizeof(*r));
	if (!r)
		return;
	*r = (struct range){ .next = ranges, .what = what, .p = (uintptr_t)p, .bytes = bytes };
	ranges = r;
}

void hdl_ledger_drop(const void *p)
{
	for (struct range **at = &ranges, *r; (r = *at); at = &r->next) {
		if (r->p != (uintptr_t)p)
			continue;
		*at = r->next;
		free(r);
		return;
	}
}

void hdl_ledger_predict(const char *what, uint64_t bytes)
{
	if (hdl_vars.report_memory)
		row_of(what)->predicted += bytes;
}

/* ---- pages ------------------------------------------------------------------------------------------------- */

#define PRESENT (1ull << 63)
#define EXCLUSIVE (1ull << 56)

static const char *owner_of(uintptr_t at, const char *otherwise)
{
	for (const struct range *r = ranges; r; r = r->next)
		if (at < r->p + r->bytes && at + PAGE > r->p)
			return r->what;
	return otherwise;
}

void hdl_ledger_pages(const char *otherwise, bool ours, const void *p, size_t bytes)
{
	int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	uint64_t entry[16];
	uintptr_t at = (uintptr_t)p, end = at + bytes;

	for (size_t n; fd >= 0 && at < end; at += n * PAGE) {
		n = (end - at + PAGE - 1) / PAGE;
		if (n > ARRAY_SIZE(entry))
			n = ARRAY_SIZE(entry);
		if (pread(fd, entry, n * sizeof(*entry), (off_t)(at / PAGE * sizeof(*entry))) != (ssize_t)(n * sizeof(*entry)))
			break;
		for (size_t i = 0; i < n; i++) {
			const char *what = owner_of(at + i * PAGE, otherwise);
			struct row *r = row_of(what);

			if (what == otherwise && ours)
				r->allocated += PAGE;
			if (entry[i] & PRESENT)
				++*(entry[i] & EXCLUSIVE ? &r->alone : &r->shared);
		}
	}
	if (fd >= 0)
		close(fd);
}

/* Pages of the fabric that several processes map: the tables are every local process's; for the remaining pages only
 * the kernel knows how many processes map each, so they get equal parts of the rest of the mapping's PSS. */
static void share_out(uint64_t pss)
{
	struct row *tables = row_of(HDL_LEDGER_TABLES);
	uint64_t taken = 0, shared = 0;

	tables->touched = tables->alone * PAGE + tables->shared * PAGE / (unsigned)hdl_job.local_size;
	taken = tables->touched;
	for (unsigned i = 0; i < nrows; i++) {
		if (&rows[i] == tables)
			continue;
		taken += rows[i].alone * PAGE;
		shared += rows[i].shared;
	}
	for (unsigned i = 0; i < nrows; i++)
		if (&rows[i] != tables && (rows[i].alone || rows[i].shared))
			rows[i].touched = rows[i].alone * PAGE +
					  (shared && pss > taken ? (pss - taken) * rows[i].shared / shared : 0);
}

/* ---- the report -------------------------------------------------------------------------------------------- */

void hdl_ledger_heap(const char *what, uint64_t predicted, uint64_t bytes)
{
	struct row *r = row_of(what);

	r->predicted += predicted;
	r->allocated += bytes;
	r->touched += bytes;
	of_heap += bytes;
}

size_t hdl_ledger_heap_now(void)
{
	struct mallinfo2 m;

	if (!hdl_vars.report_memory)
		return 0;
	m = mallinfo2();
	return m.uordblks + m.hblkhd;
}

void hdl_ledger_heap_since(const char *what, size_t before)
{
	size_t now = hdl_ledger_heap_now();

	if (now > before)
		hdl_ledger_heap(what, 0, now - before);
}

static uint64_t grown(uint64_t before, uint64_t after)
{
	return after > before ? after - before : 0;
}

static void enter_phase(const char *what, enum hdl_ledger_phase from)
{
	struct row *r = row_of(what);

	r->allocated = grown(at_phase[from].heap, at_phase[from + 1].heap);
	r->touched = grown(at_phase[from].pss[HEAP], at_phase[from + 1].pss[HEAP]);
}

/* The heap since MPI_Init: libheddle's own without a row, the program's, and blocks that are free in malloc. */
static void enter_rest(const struct shares *now)
{
	struct row *r = row_of("heap: all else since MPI_Init, and free blocks");
	const struct shares *from = &at_phase[HDL_LEDGER_OPENED];

	r->allocated = grown(from->heap + of_heap, now->heap);
	r->touched = grown(from->pss[HEAP] + of_heap, now->pss[HEAP]);
}

static void print_row(FILE *out, const struct row *r)
{
	char predicted[32] = "-", allocated[32] = "-";

	if (r->predicted)
		snprintf(predicted, sizeof(predicted), "%" PRIu64, r->predicted >> 10);
	if (r->allocated)
		snprintf(allocated, sizeof(allocated), "%" PRIu64, r->allocated >> 10);
	fprintf(out, "heddle: memory: rank %d: %-46s %10s %10s %10.1f\n", hdl_job.rank, r->what, predicted, allocated,
		(double)r->touched / 1024);
}

void hdl_ledger_print(FILE *whole)
{
	uint64_t allocated = 0, touched = 0, before = 0, after = 0;
	const struct shares *start = &at_phase[HDL_LEDGER_START];
	struct shares now;
	char *text = NULL;
	size_t n = 0;
	FILE *out;

	measure(&now);
	if (hdl_rt_fence())	/* hdl_rt_fence has reported; the figures may be wrong, since other ranks have unmapped
				 * memory */
		hdl_debug("the ledger of memory was made without the other ranks");
	for (const struct range *r = ranges; r; r = r->next)
		row_of(r->what)->allocated += r->bytes;
	share_out(now.pss[FABRIC]);
	*row_of("heap: before MPI_Init") = (struct row){ .what = "heap: before MPI_Init", .allocated = start->heap,
							 .touched = start->pss[HEAP] };
	enter_phase("heap: libpmix, joining the job", HDL_LEDGER_START);
	enter_phase("heap: opening devices and queues", HDL_LEDGER_JOINED);
	enter_rest(&now);
	for (enum class c = 0; c < CLASSES; c++) {
		before += start->pss[c];
		after += now.pss[c];
		if (class_names[c])
			row_of(class_names[c])->touched = now.pss[c];
	}
	out = open_memstream(&text, &n);
	if (!out)
		return;
	fprintf(out, "heddle: memory: rank %d: %-46s %10s %10s %10s\n", hdl_job.rank, "KiB", "predicted", "allocated", "touched");
	for (unsigned i = 0; i < nrows; i++) {
		print_row(out, &rows[i]);
		allocated += rows[i].allocated;
		touched += rows[i].touched;
	}
	print_row(out, &(struct row){ .what = "sum", .allocated = allocated, .touched = touched });
	fprintf(out, "heddle: memory: rank %d: PSS before MPI_Init %.1f KiB, at the end %.1f KiB: grown by %.1f KiB\n", hdl_job.rank,
		(double)before / 1024, (double)after / 1024, ((double)after - (double)before) / 1024);
	fclose(out);
	fwrite(text, 1, n, whole);
	fflush(whole);
	free(text);
	while (ranges)
		hdl_ledger_drop((void *)ranges->p);
	nrows = 0;
	of_heap = 0;
}
