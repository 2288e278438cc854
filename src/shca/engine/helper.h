/* SPDX-License-Identifier: BSD-3-Clause */
/* The helper thread's data: between helper.c, the thread, and calls.c, through which other threads call it. */
#ifndef SHCA_HELPER_H
#define SHCA_HELPER_H

#include "shca/engine/engine.h"

struct watch {
	_Atomic uint32_t gen;	/* generation of the slot's user that is watched; 0: none */
	uint32_t deaths;	/* the slot's count of deaths when the watch began */
};

/* A queue to look at again, by number, because the queue may be destroyed before. In a heap by `due`. */
struct timer {
	uint64_t due;
	uint32_t qpn;
};

struct shca_helper {
	struct shca_member *m;
	pthread_mutex_t lock;	/* for running, stop, watches; never held while the engine runs */
	pthread_t thread;
	pthread_cond_t settled;
	bool running, ready, stop;
	uint64_t death_ns;
	uint32_t *watched;	/* slots that are watched */
	uint32_t watched_n, watched_cap;
	/* heap to again: accessed by the helper thread only */
	struct timer *heap;
	uint32_t timers, heap_cap;
	uint64_t events_at;	/* ns; when the process is woken to look at its events again; 0: not set */
	uint32_t again;		/* times in a row that a dying process was not gone yet */
	struct watch watch[SHCA_MAX_PROCS];	/* by slot; gen is stored under `lock`; sparse */
};

/* Ends the watch of the process that had generation `gen` of the slot. */
void shca_unwatch(struct shca_helper *h, uint32_t slot, uint32_t gen);

/* Sets a queue number's timer bit of process `owner`, then the bit of its group. If this thread dies in between, the reaper kicks
 * all queues with requests. */
void shca_timer_note(struct shca_member *m, uint32_t owner, uint32_t qpn);

#endif
