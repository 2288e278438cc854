/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How quick copies to another processor are. Bytes that one process has and another one wants can go by memory that both reach, one copy
 * in and one out, or by the kernel (process_vm_readv), one copy in all. The kernel's costs about the same everywhere, since most of it is
 * looking up pages. What the two copies cost is the way of the lines: some 50 ns for each where the processors share a cache, in which the
 * two take a third of the kernel's time, and five times as much where they do not, in which they take twice its time. A virtual machine's
 * processors may even be moved from one to the other while a program runs. So nothing about the machine is asked: who copies takes the
 * time, and decides by it which way the next ones go. While they go by the kernel one is tried now and then.
 *
 * For one processor's copies to one other, and one thread at a time.
 */
#ifndef LINES_PACE_H
#define LINES_PACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* `quick`: ns per KiB, of the copy in alone, up to which the two copies are quicker, for those who do not know better. By measurement: 45 and 120
 * in the two states of a machine, where the kernel takes some 150 for the whole. */
#define LINES_PACE_QUICK 75u
#define LINES_PACE_MOST(quick) (2 * (quick))	/* what one copy counts at most: its thread may have lost its processor meanwhile */
#define LINES_PACE_PAUSE 63u			/* between two trials, at most */
#define LINES_PACE_LEAST 1024u			/* bytes of a copy that counts */

/* Zeroed: quick, until three copies say otherwise. */
struct lines_pace {
	uint16_t ns;			/* per KiB: the mean of the last ones */
	uint8_t pause, wait;		/* transfers between two trials; until the next one */
};

/* Whether the next transfer is to be copied by us, and timed. */
static inline bool lines_pace_next(struct lines_pace *p, unsigned quick)
{
	if (p->ns <= quick)
		return true;
	if (!p->wait)
		return true;
	p->wait--;
	return false;
}

/* A copy of so many bytes took so long. Of a few, as at the end of what goes in segments, the clock takes longer than the copy. */
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
		p->pause /= 2;		/* perhaps it is so again: look sooner */
	else
		p->pause = p->pause < LINES_PACE_PAUSE / 2 ? (uint8_t)(2 * p->pause + 1) : LINES_PACE_PAUSE;
	p->wait = p->pause;
}

#endif
