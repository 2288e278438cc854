/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Measures the ways of a rendezvous where several are possible, for the controllers that choose between them (runtime/autotune.h,
 * HDL_TUNE_RENDEZVOUS): a pure function of time, which a unit test drives.
 *
 * The fastest way depends on the machine (the cost of a cache line that changes cores, of a system call) and on the program
 * (whether the sender is in the library meanwhile, whether this process sends, too). So the ways are measured per class: sizes
 * by powers of two, apart for one direction and both.
 *
 * The unit is the segment: a few transfers of a class that go one way. A transfer's cost is the time since the transfer before
 * has ended, or since its own beginning behind a pause. A trial takes no more transfers than needed, however many begin before
 * the first of them ends. A new class begins with the results of its neighbour.
 */
#ifndef HDL_TUNE_H
#define HDL_TUNE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/autotune.h"

/* The candidates of HDL_TUNE_RENDEZVOUS. */
enum hdl_way {
	HDL_WAY_READ = 0,	/* the receiver reads from the sender's memory */
	HDL_WAY_SPLIT,		/* the receiver reads the front half, the sender writes the rest: both CPUs copy */
	HDL_WAYS,
	HDL_WAY_WRITE = HDL_WAYS,	/* the sender writes the whole message: where neither way above is possible; never a
					 * choice beside them */
};

#define HDL_TUNE_SIZES 9	/* up to 16 KiB, 32 KiB, 64 KiB, ... 2 MiB, more */
#define HDL_TUNE_CLASSES (2 * HDL_TUNE_SIZES)	/* the second half: while this process sends such messages, too */

/* The first transfers of a segment meet cold caches, and are not counted. */
#define HDL_TUNE_COLD 4u
#define HDL_TUNE_COLD_LONG 2u	/* for transfers of 1 MiB and more */
/* A segment ends after so many counted transfers, or after fewer of so many bytes. */
#define HDL_TUNE_COUNT 16u
#define HDL_TUNE_COUNT_LONG 4u
#define HDL_TUNE_BYTES (4u << 20)
#define HDL_TUNE_HOPELESS 8u	/* a trial ends at once when one transfer costs so many times the best way */
#define HDL_TUNE_ENOUGH 3u	/* ... or when so many transfers have cost one and a half times the best way */
#define HDL_TUNE_PAUSE 3000u	/* ns; longer pauses between transfers are not counted */

struct hdl_tune_class {
	struct hdl_autotune *tune;	/* NULL: the class was not used yet. Costs: ns per MiB */
	uint64_t bytes[HDL_WAYS];	/* moved by the way */
};

struct hdl_tune {
	struct hdl_tune_class class[HDL_TUNE_CLASSES];
	uint32_t active, active_way[HDL_WAYS];
	/* The current segment, of class `current`; done: transfers that ended, counted: those of them that count. */
	uint32_t current, done, counted;
	uint32_t begun;			/* transfers that have begun by the way of a trial */
	uint64_t ns, bytes;		/* of the counted transfers */
	uint64_t worst_ns, worst_bytes;	/* the slowest counted transfer, which is left out: the process was interrupted */
	uint64_t since;			/* ns: end of the transfer before, or begin of the first one after a pause */
	bool pure;			/* since `since` only transfers of this segment were under way */
};

/* Class and way of a transfer, for hdl_tune_end. 0: the transfer is not measured. */
typedef uint8_t hdl_tuned;

/* A transfer begins. both: this process sends such messages, too; possible: bits 1 << way, at least one; now: ns. */
enum hdl_way hdl_tune_begin(struct hdl_tune *t, size_t len, bool both, unsigned possible, uint64_t now, hdl_tuned *tuned);
/* A transfer ends; one that failed is not counted. */
void hdl_tune_end(struct hdl_tune *t, hdl_tuned tuned, size_t len, bool failed, uint64_t now);
void hdl_tune_fini(struct hdl_tune *t);
#define HDL_TUNE_CLASS_TEXT 40
/* Writes a class as text: "up to 64 KiB, both ways". Returns text. */
const char *hdl_tune_class_text(int class, char text[static HDL_TUNE_CLASS_TEXT]);
/* Returns the ways of a list such as "read,split" as bits; all ways for an empty list. Must: the words were checked; "write"
 * has no bit. */
unsigned hdl_ways_parse(const char *list);
const char *hdl_way_name(enum hdl_way way);

#endif
