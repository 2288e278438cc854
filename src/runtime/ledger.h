/* SPDX-License-Identifier: BSD-3-Clause */
/* The ledger of memory: between ledger.c, which collects, and ledger_report.c, which prints. */
#ifndef HDL_LEDGER_H
#define HDL_LEDGER_H

#include "runtime/runtime.h"

enum { PAGE = 4096 };

/* Classes of mappings. HEAP is all anonymous memory: [heap], and the mappings of malloc and of threads' stacks. */
enum class { HEAP, FABRIC, PMIX, VERBS, HEDDLE, FILES, CLASSES };

struct shares {
	uint64_t pss[CLASSES];
	uint64_t heap;			/* bytes that malloc has given out */
};

struct range {
	struct range *next;
	const char *what;
	uintptr_t p;
	size_t bytes;
};

struct row {
	struct row *next;
	const char *what;
	uint64_t predicted;		/* by the settings and the number of peers, if nothing has grown with the
					 * traffic; 0: not known */
	uint64_t allocated, touched;
	uint64_t alone, shared;		/* pages of the fabric mapped by this process alone; by other processes, too */
};

extern struct hdl_ledger {
	struct shares at_phase[HDL_LEDGER_PHASES];
	struct range *ranges;
	struct row *rows;		/* in the order of their first entries */
	uint64_t of_heap;		/* bytes of the heap that have rows (hdl_ledger_heap) */
} hdl_ledger;

/* The row of a subsystem, made if there is none. Without memory, the last row, which all further subsystems share. */
struct row *hdl_ledger_row(const char *what);
void hdl_ledger_measure(struct shares *s);
/* Forgets rows and ranges. */
void hdl_ledger_clear(void);

#endif
