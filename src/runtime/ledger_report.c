/* SPDX-License-Identifier: BSD-3-Clause */
/* HEDDLE_REPORT_MEMORY: the printed ledger (ledger.c). */
#include <inttypes.h>
#include <stdlib.h>

#include "runtime/ledger.h"

static const char *const class_names[CLASSES] = {
	[PMIX] = "libpmix: its libraries", [VERBS] = "libibverbs: its libraries", [HEDDLE] = "libheddle: its libraries",
	[FILES] = "the program and other libraries",
};

/* Pages of the fabric that several processes map: the tables are every local process's; for the remaining pages only
 * the kernel knows how many processes map each, so they get equal parts of the rest of the mapping's PSS. */
static void share_out(uint64_t pss)
{
	struct row *tables = hdl_ledger_row(HDL_LEDGER_TABLES);
	uint64_t taken = 0, shared = 0;

	tables->touched = tables->alone * PAGE + tables->shared * PAGE / (unsigned)hdl_job.local_size;
	taken = tables->touched;
	for (const struct row *r = hdl_ledger.rows; r; r = r->next) {
		if (r == tables)
			continue;
		taken += r->alone * PAGE;
		shared += r->shared;
	}
	for (struct row *r = hdl_ledger.rows; r; r = r->next)
		if (r != tables && (r->alone || r->shared))
			r->touched = r->alone * PAGE + (shared && pss > taken ? (pss - taken) * r->shared / shared : 0);
}

static uint64_t grown(uint64_t before, uint64_t after)
{
	return after > before ? after - before : 0;
}

static void enter_phase(const char *what, enum hdl_ledger_phase from)
{
	struct row *r = hdl_ledger_row(what);

	r->allocated = grown(hdl_ledger.at_phase[from].heap, hdl_ledger.at_phase[from + 1].heap);
	r->touched = grown(hdl_ledger.at_phase[from].pss[HEAP], hdl_ledger.at_phase[from + 1].pss[HEAP]);
}

/* The heap since MPI_Init: libheddle's own without a row, the program's, and blocks that are free in malloc. */
static void enter_rest(const struct shares *now)
{
	struct row *r = hdl_ledger_row("heap: all else since MPI_Init, and free blocks");
	const struct shares *from = &hdl_ledger.at_phase[HDL_LEDGER_OPENED];

	r->allocated = grown(from->heap + hdl_ledger.of_heap, now->heap);
	r->touched = grown(from->pss[HEAP] + hdl_ledger.of_heap, now->pss[HEAP]);
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
	const struct shares *start = &hdl_ledger.at_phase[HDL_LEDGER_START];
	struct shares now;
	char *text = NULL;
	size_t n = 0;
	FILE *out;

	hdl_ledger_measure(&now);
	for (const struct range *r = hdl_ledger.ranges; r; r = r->next)
		hdl_ledger_row(r->what)->allocated += r->bytes;
	share_out(now.pss[FABRIC]);
	struct row *heap = hdl_ledger_row("heap: before MPI_Init");
	heap->allocated = start->heap;
	heap->touched = start->pss[HEAP];
	enter_phase("heap: libpmix, joining the job", HDL_LEDGER_START);
	enter_phase("heap: opening devices and queues", HDL_LEDGER_JOINED);
	enter_rest(&now);
	for (enum class c = 0; c < CLASSES; c++) {
		before += start->pss[c];
		after += now.pss[c];
		if (class_names[c])
			hdl_ledger_row(class_names[c])->touched = now.pss[c];
	}
	out = open_memstream(&text, &n);
	if (!out)
		return;
	fprintf(out, "heddle: memory: rank %d: %-46s %10s %10s %10s\n", hdl_job.rank, "KiB", "predicted", "allocated", "touched");
	for (const struct row *r = hdl_ledger.rows; r; r = r->next) {
		print_row(out, r);
		allocated += r->allocated;
		touched += r->touched;
	}
	print_row(out, &(struct row){ .what = "sum", .allocated = allocated, .touched = touched });
	fprintf(out, "heddle: memory: rank %d: PSS before MPI_Init %.1f KiB, at the end %.1f KiB: grown by %.1f KiB\n",
		hdl_job.rank, (double)before / 1024, (double)after / 1024, ((double)after - (double)before) / 1024);
	fclose(out);
	fwrite(text, 1, n, whole);
	fflush(whole);
	free(text);
	hdl_ledger_clear();
}
