/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The speed of copies to another processor, and the choice between two ways. Bytes go from one process to another by memory
 * that both reach, one copy in and one out, or by the kernel (process_vm_readv), one copy in all. The kernel's way costs about
 * the same everywhere, since most of it is looking up pages. The two copies cost the way of the lines: some 50 ns for each line
 * where the processors share a cache, in which case the two copies take a third of the kernel's time, and five times as much
 * where they do not, in which case they take twice the kernel's time. A virtual machine's processors may even change from one
 * case to the other while a program runs. So the copying process does not ask about the machine: it times its copies, and
 * chooses by them the way of the next transfers. While transfers go by the kernel, one is copied now and then as a trial.
 *
 * For one processor's copies to one other processor, and one thread at a time.
 */
#ifndef LINES_PACE_H
#define LINES_PACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* `quick`: ns per KiB, of the copy in alone, up to which the two copies are quicker: a default for callers without a better
 * value. By measurement: 45 and 120 in the two states of a machine, where the kernel takes some 150 for the whole. */
#define LINES_PACE_QUICK 75u
#define LINES_PACE_MOST(quick) (2 * (quick))	/* limit of one copy's weight: its thread may have lost its processor meanwhile */
#define LINES_PACE_PAUSE 63u			/* most transfers between two trials */
#define LINES_PACE_LEAST 1024u			/* bytes of the shortest copy that counts */

/* Zeroed: quick, until three copies have shown otherwise. */
struct lines_pace {
	uint16_t ns;			/* per KiB: mean of the last copies */
	uint8_t pause, wait;		/* transfers between two trials; until the next one */
};

/* Returns whether the next transfer must be copied, and timed; else it goes by the kernel. */
static inline bool lines_pace_next(struct lines_pace *p, unsigned quick)
{
	if (p->ns <= quick)
		return true;
	if (!p->wait)
		return true;
	p->wait--;
	return false;
}

/* Notes that a copy of `bytes` took `ns`. Short copies, as at the end of a segmented transfer, do not count: the clock takes
 * longer than the copy. */
static inline void lines_pace_took(struct lines_pace *p, size_t bytes, uint64_t ns, unsigned quick)
{
	if (bytes < LINES_PACE_LEAST)
		return;
	uint64_t each = ns * 1024 / bytes;
	bool is = each <= quick, was = p->ns <= quick;

	if (each > LINES_PACE_MOST(quick))
		each = LINES_PACE_MOST(quick);
	p->ns = (uint16_t)(was ? (3u * p->ns + each) / 4 : (p->ns + each) / 2);
	if (p->ns <= quick)
		p->pause = 0;
	else if (is)
		p->pause /= 2;		/* perhaps the state has changed: try sooner */
	else
		p->pause = p->pause < LINES_PACE_PAUSE / 2 ? (uint8_t)(2 * p->pause + 1) : LINES_PACE_PAUSE;
	p->wait = p->pause;
}

#endif
