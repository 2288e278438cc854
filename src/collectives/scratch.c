/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Scratch of runs. The process keeps memory that was given back, up to a limit, for the next run of any collective: memory that
 * is mapped anew costs a page fault and a clear for each page, many times as long as filling the page.
 */
#include <stdlib.h>
#include <string.h>

#include "collectives/internal.h"

#define ARENA_LEAST 4096		/* from this size on scratch lies in the arena, which peers write without the kernel's
					 * help */
#define SPARES	16
#define SPARE_BYTES ((size_t)64 << 20)

static struct hdl_scratch spares[SPARES];	/* in the order in which they were given back, oldest first */
static int nspares;
static size_t spare_bytes;

/* Rounds up to one of few sizes, so that a spare fits other runs: each power of two, and three sizes between that and the
 * next. */
static size_t scratch_round_up(size_t bytes)
{
	size_t step = pow2_down(bytes) / 4;

	return step > 64 ? (bytes + step - 1) & ~(step - 1) : (bytes + 63) & ~(size_t)63;
}

static struct hdl_scratch take_spare(int i)
{
	struct hdl_scratch s = spares[i];

	memmove(&spares[i], &spares[i + 1], (size_t)(--nspares - i) * sizeof(spares[0]));
	spare_bytes -= s.bytes;
	return s;
}

static void scratch_give_back(struct hdl_scratch s)
{
	if (s.arena)
		hdl_tp_free(hdl_mpi_tp, s.p);
	else
		free(s.p);
}

int hdl_scratch_get(struct hdl_scratch *s, size_t bytes)
{
	size_t room = scratch_round_up(bytes);

	/* newest first: that memory may still be in the processor's cache */
	for (int i = nspares; i-- > 0;)
		if (spares[i].bytes >= room && spares[i].bytes / 2 <= room) {
			*s = take_spare(i);
			return 0;
		}
	*s = (struct hdl_scratch){ .bytes = room, .arena = room >= ARENA_LEAST };
	if (s->arena)
		s->p = hdl_tp_alloc(hdl_mpi_tp, room);
	if (s->p) {
		hdl_ledger_add("collectives' scratch", s->p, room);
	} else {
		s->arena = false;
		s->p = aligned_alloc(64, room);
	}
	return s->p ? 0 : -ENOMEM;
}

void hdl_scratch_put(struct hdl_scratch *s)
{
	struct hdl_scratch it = *s;

	*s = (struct hdl_scratch){ 0 };
	if (!it.p)
		return;
	if (it.bytes < ARENA_LEAST || it.bytes > SPARE_BYTES) {
		scratch_give_back(it);
		return;
	}
	while (nspares == SPARES || spare_bytes + it.bytes > SPARE_BYTES)
		scratch_give_back(take_spare(0));
	spares[nspares++] = it;
	spare_bytes += it.bytes;
}

bool hdl_scratch_give(void)
{
	bool any = nspares;

	while (nspares)
		scratch_give_back(take_spare(0));
	return any;
}

void hdl_scratch_fini(void)
{
	hdl_scratch_give();
}
