/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which way a rendezvous moves its bytes, where several are right: a pure function over measurements, so that it can be
 * tested.
 *
 * What is fastest depends on the machine (what a line costs that changes cores, what a system call does) and on the
 * program (whether the sender is in the library meanwhile, whether it is busy with messages of its own). So it is
 * measured, per class: sizes by powers of two, one way or both ways at once.
 *
 * The unit is the segment: a few transfers of a class that go one way. What counts of a transfer is the time from the end
 * of the one before, or from its own beginning where there was a pause. The best way has segment after segment; now and
 * then another has one, and is compared with the best one's segments just before and just after, if these agree: only
 * neighbours in time compare, for machines change their speed. The more it loses the rarer its turn. No more transfers
 * begin a trial than it needs, however many begin before the first of them ends; and a class that is new begins with what
 * its neighbour has learned.
 */
#ifndef HDL_TUNE_H
#define HDL_TUNE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum hdl_way {
	HDL_WAY_READ = 0,	/* the receiver reads from the sender's memory */
	HDL_WAY_SPLIT,		/* it reads the front half, the sender writes the rest: both processors copy */
	HDL_WAYS,
	HDL_WAY_WRITE = HDL_WAYS,	/* the sender writes it all: where neither of these can be, and no choice beside them */
};

#define HDL_TUNE_SIZES 9	/* up to 16 KiB, 32 KiB, 64 KiB, ... 2 MiB, more */
#define HDL_TUNE_CLASSES (2 * HDL_TUNE_SIZES)	/* then the same while this process sends such messages, too */

/* The first transfers of a segment find cold caches and are not counted. */
#define HDL_TUNE_COLD 4u
#define HDL_TUNE_COLD_LONG 2u	/* of 1 MiB and more */
/* A segment ends when it has counted so many transfers, or fewer but so many bytes. */
#define HDL_TUNE_COUNT 16u
#define HDL_TUNE_COUNT_LONG 4u
#define HDL_TUNE_BYTES (4u << 20)
#define HDL_TUNE_HOPELESS 8u	/* a trial ends at once when a transfer costs so many times the best way's */
#define HDL_TUNE_ENOUGH 3u	/* or when so many have cost one and a half times as much */
#define HDL_TUNE_PAUSE 3000u	/* ns without a transfer that are not counted */
#define HDL_TUNE_LATER 64u	/* segments until one that was not possible is asked for again */
#define HDL_TUNE_RARE 1024u	/* most segments of the best way between two trials of another */

struct hdl_tune_class {
	uint64_t recent;		/* ns per MiB of the best way's latest segments; 0: not known */
	struct {
		uint32_t ratio;		/* its cost to the best way's, in 1/1024; 0: not tried */
		uint32_t since, every;	/* segments of the best way since its trial, and until the next */
		uint32_t trials;
		uint64_t bytes;		/* that went this way */
	} way[HDL_WAYS];
	uint64_t trial;			/* ns per MiB of a trial that is not judged yet; 0: none */
	uint8_t best, now, tried;	/* ways: the best one, the segment's, the trial's */
	bool used;
};

struct hdl_tune {
	struct hdl_tune_class class[HDL_TUNE_CLASSES];
	uint32_t active, active_way[HDL_WAYS];
	/* the segment, of class `current` */
	uint32_t current, done, counted;
	uint32_t begun;			/* transfers that took the way of a trial */
	uint64_t ns, bytes;		/* of what was counted */
	uint64_t worst_ns, worst_bytes;	/* the slowest of it, which is left out: the process was interrupted */
	uint64_t since;			/* end of the transfer before, or beginning of the first after a pause */
	bool pure;			/* since then there was nothing but the segment's */
};

/* What hdl_tune_end wants to know. 0: the transfer is not measured. */
typedef uint8_t hdl_tuned;

/* A transfer begins; both: while this process sends such messages; possible: a bit per way, not 0; now: ns. */
enum hdl_way hdl_tune_begin(struct hdl_tune *t, size_t len, bool both, unsigned possible, uint64_t now, hdl_tuned *tuned);
/* It ends, well or not (failed: it is not counted). */
void hdl_tune_end(struct hdl_tune *t, hdl_tuned tuned, size_t len, bool failed, uint64_t now);
/* The bits of a list such as "read,split", whose words are checked already ("write" has none); of an empty one, all. */
unsigned hdl_ways_parse(const char *list);
const char *hdl_way_name(enum hdl_way way);

#endif
