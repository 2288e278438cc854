/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Choices by the clock. A controller chooses between two candidates, ways to do the same thing, of which the faster one depends
 * on the machine and the program. While the program runs, the controller's user times the work done by each candidate; the
 * controller keeps means, takes the candidate that costs less, and tries the other one again now and then, the rarer the more
 * that one loses.
 *
 * A row of the table (autotune.c) is a kind of controllers: subject, candidates, and how costs are compared:
 *
 *     stated   candidate 1 has a stated cost, and only candidate 0 is timed, each time it is taken. While its mean is above the
 *              stated cost candidate 1 is taken, and candidate 0 is tried after 1, 3, 7, ... times, or after a time.
 *     paired   both are timed, by segments of several transfers. A segment of the other candidate, a trial, is compared with the
 *              segments of the choice right before and behind, if these agree: a machine changes its speed, so only
 *              neighbours in time compare.
 *
 * Candidate 0 is the choice before anything is known, and with HEDDLE_TUNE=fixed for ever. `heddlerun --report-tuning` prints
 * each controller at the end. All of this under the library's lock.
 */
#ifndef HDL_AUTOTUNE_H
#define HDL_AUTOTUNE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum hdl_autotune_subject { HDL_TUNE_RING, HDL_TUNE_STAGING, HDL_TUNE_RENDEZVOUS, HDL_TUNE_YIELD, HDL_TUNE_SUBJECTS };

#define HDL_TUNE_COPY_NS 75u	/* ns per KiB of a copy in as quick as the kernel's copy, without a better value (autotune.c) */
#define HDL_TUNE_LEAST 1024u	/* bytes of the shortest copy that counts: the clock takes longer than a shorter one */
#define HDL_TUNE_MOST(stated) (2 * (stated))	/* limit of one measurement's weight: the thread may have lost its
						 * CPU meanwhile */
#define HDL_TUNE_STATED_RARE 63u	/* stated: most uses of candidate 1 between two trials */
#define HDL_TUNE_RARE 1024u	/* paired: most segments of the choice between two trials */
#define HDL_TUNE_LATER 64u	/* paired: segments until a candidate that was not possible is tried again */

struct hdl_autotune_row;

struct hdl_autotune {
	const struct hdl_autotune_row *row;
	char *label;			/* peer, class, communicator; or NULL */
	uint32_t id;
	bool fixed;			/* candidate 0 is always taken */
	uint8_t choice;			/* the candidate that costs less */
	uint8_t now, trial_of;		/* paired: candidate of the current segment; of `trial` */
	uint32_t stated;		/* ns per unit of candidate 1; 0: paired */
	uint64_t ns;			/* mean per unit; stated: of candidate 0; paired: of the choice; 0: unknown */
	uint64_t trial;			/* paired: ns per unit of a trial that waits for the segment behind it; 0: none */
	uint64_t again_ns;		/* time at which a trial is due, for rows with trials by time */
	struct hdl_autotune_of {
		uint32_t ratio;		/* paired: cost relative to the choice, in 1/1024; 0: not tried */
		uint32_t since, every;	/* uses (paired: segments) of the choice: since the last trial; until the next */
		uint32_t trials;	/* paired */
		uint64_t tries, uses;	/* measurements; times taken: for the report */
	} of[2];
};

/* Makes a controller. stated: ns per unit of candidate 1, the row's own if 0. The label, as printf's, is for the report. Never
 * NULL: without memory, a controller that is fixed and shared. Ownership: hdl_autotune_free. */
struct hdl_autotune *hdl_autotune_new(enum hdl_autotune_subject subject, uint32_t stated, const char *label, ...)
	__attribute__((format(printf, 3, 4)));
/* With --report-tuning the controller is kept for the report. t may be NULL. */
void hdl_autotune_free(struct hdl_autotune *t);
/* The controller of an id, which takes less room than a pointer; 0: the shared one. */
struct hdl_autotune *hdl_autotune_of(uint32_t id);

/* ---- stated ----- */
/* Returns the candidate for this use. 0: the use must be timed. now: monotonic_ns() for rows with trials by time; else 0. */
unsigned hdl_autotune_next(struct hdl_autotune *t, uint64_t now);
/* A use of candidate 0 took `ns`, for `bytes` bytes; the unit is the KiB. Fewer than HDL_TUNE_LEAST do not count. */
void hdl_autotune_copied(struct hdl_autotune *t, size_t bytes, uint64_t ns);
/* A use of candidate 0 cost `ns` per unit. now: as above. */
void hdl_autotune_took(struct hdl_autotune *t, uint64_t ns, uint64_t now);

/* ---- paired ----- */
/* A segment of candidate t->now has ended. ns: per unit; 0: not measured. Sets t->now. */
void hdl_autotune_segment(struct hdl_autotune *t, uint64_t ns);
/* The candidate is not possible now: its trial comes later. */
void hdl_autotune_put_off(struct hdl_autotune *t, unsigned candidate);
/* Begins with the findings of a neighbour, if both candidates were tried there. */
void hdl_autotune_inherit(struct hdl_autotune *t, const struct hdl_autotune *from);

/* Prints all controllers if HEDDLE_REPORT_TUNING asks for that, and frees those that were kept. Must: none is used any more. */
void hdl_autotune_fini(FILE *out);

#endif
