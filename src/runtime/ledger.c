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

#include "runtime/ledger.h"

struct hdl_ledger hdl_ledger;

static struct row lost;	/* sum of the entries for which there was no memory for a row */

struct row *hdl_ledger_row(const char *what)
{
	struct row *r, **last = &hdl_ledger.rows;

	for (; (r = *last) != NULL; last = &r->next)
		if (!strcmp(r->what, what) || r == &lost)
			return r;
	r = calloc(1, sizeof(*r));
	if (!r) {
		r = &lost;
		lost = (struct row){ .what = "rows that there was no memory for" };
	} else {
		r->what = what;
	}
	*last = r;
	return r;
}

void hdl_ledger_clear(void)
{
	for (struct row *r = hdl_ledger.rows, *next; r; r = next) {
		next = r->next;
		if (r != &lost)
			free(r);
	}
	hdl_ledger.rows = NULL;
	while (hdl_ledger.ranges)
		hdl_ledger_drop((void *)hdl_ledger.ranges->p);
	hdl_ledger.of_heap = 0;
}

static enum class ledger_class_of(const char *line)
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

void hdl_ledger_measure(struct shares *s)
{
	FILE *f = fopen("/proc/self/smaps", "re");
	enum class class = FILES;
	unsigned long from, to;
	char line[512];
	uint64_t kib;

	*s = (struct shares){ .heap = hdl_ledger_heap_now() };
	while (f && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%lx-%lx ", &from, &to) == 2)
			class = ledger_class_of(line);
		else if (sscanf(line, "Pss: %" SCNu64, &kib) == 1)
			s->pss[class] += kib << 10;
	}
	if (f)
		fclose(f);
}

void hdl_ledger_phase(enum hdl_ledger_phase phase)
{
	if (hdl_vars.report_memory)
		hdl_ledger_measure(&hdl_ledger.at_phase[phase]);
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
	*r = (struct range){ .next = hdl_ledger.ranges, .what = what, .p = (uintptr_t)p, .bytes = bytes };
	hdl_ledger.ranges = r;
}

void hdl_ledger_drop(const void *p)
{
	for (struct range **at = &hdl_ledger.ranges, *r; (r = *at); at = &r->next) {
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
		hdl_ledger_row(what)->predicted += bytes;
}

/* ---- pages ------------------------------------------------------------------------------------------------- */

#define PRESENT (1ull << 63)
#define EXCLUSIVE (1ull << 56)

static const char *owner_of(uintptr_t at, const char *otherwise)
{
	for (const struct range *r = hdl_ledger.ranges; r; r = r->next)
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
			struct row *r = hdl_ledger_row(what);

			if (what == otherwise && ours)
				r->allocated += PAGE;
			if (entry[i] & PRESENT)
				++*(entry[i] & EXCLUSIVE ? &r->alone : &r->shared);
		}
	}
	if (fd >= 0)
		close(fd);
}

void hdl_ledger_heap(const char *what, uint64_t predicted, uint64_t bytes)
{
	struct row *r = hdl_ledger_row(what);

	r->predicted += predicted;
	r->allocated += bytes;
	r->touched += bytes;
	hdl_ledger.of_heap += bytes;
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
