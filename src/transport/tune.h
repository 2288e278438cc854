/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which way a rendezvous moves its bytes, where several are right: a pure function over measurements, so that it can be
 * tested.
 *
 * What is fastest depends on the machine (what a line costs that changes cores, what a system call does) and on the
 * program (whether the sender is in the library meanwhile). So it is measured: per class of sizes, the cost of each way.
 * The unit of measurement is an episode: from the first active transfer to the moment when none is left. All transfers of
 * an episode that are of its class go its way, so messages that overlap are measured together. A way is kept for a term
 * of many episodes, for the first ones after a change find cold caches and are not counted.
 */
#ifndef HDL_TUNE_H
#define HDL_TUNE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum hdl_way {
	HDL_WAY_STAGE = 0,	/* through the ring in pieces: both processors copy, the sender must be in the library */
	HDL_WAY_READ,		/* the receiver reads from the sender's memory */
	HDL_WAYS,
};

#define HDL_TUNE_CLASSES 8	/* up to 32 KiB, 64 KiB, ... 2 MiB, more */
/* A trial of the way that is not the best ends after so many bytes and episodes, or so many episodes. */
#define HDL_TUNE_TRIAL_BYTES (16u << 20)
#define HDL_TUNE_TRIAL_MIN 4u
#define HDL_TUNE_TRIAL_MAX 64u
/* Episodes before this many bytes are not counted (nor the first), unless they are this many. */
#define HDL_TUNE_COLD_BYTES (8u << 20)
#define HDL_TUNE_COLD_MAX 16u
#define HDL_TUNE_TERM 12u	/* the best way is kept for so many trials, times the square of how much better it is */
#define HDL_TUNE_LONG (64u << 20)	/* bytes after which an episode counts though it has not ended */

struct hdl_tune {
	struct hdl_tune_class {
		uint64_t cost[HDL_WAYS];	/* ns per MiB, smoothed; 0: not known */
		uint32_t tried[HDL_WAYS];	/* episodes */
		uint64_t term_bytes;		/* since the way was chosen */
		uint32_t term_episodes;
		uint32_t terms;			/* trials that the term may last; 0: it is one */
		uint8_t way;
	} class[HDL_TUNE_CLASSES];
	uint32_t active;		/* transfers */
	uint32_t current;		/* class of the episode */
	bool mixed;			/* transfers of another class came in between: no measurement */
	uint64_t since, bytes;
};

/* A transfer begins; now: ns. Returns its way: one of `possible` (bit per way, not 0). */
enum hdl_way hdl_tune_begin(struct hdl_tune *t, size_t len, unsigned possible, uint64_t now);
/* It ends, well or not (failed: the episode is not counted). */
void hdl_tune_end(struct hdl_tune *t, size_t len, bool failed, uint64_t now);

#endif
