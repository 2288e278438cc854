/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How a thread waits for another process or thread: one policy (docs/architecture.md, "Waiting").
 *
 * A wait is a loop of looks. The caller brings the look. Behind a look that found nothing the policy takes a step:
 *
 *     spin     pauses the processor. Costs this CPU, and no system call.
 *     yield    sched_yield. Costs a system call, and up to a time slice if the CPU has other work.
 *     end      the budget is spent: the caller sleeps, or goes on to a look that costs more.
 *
 * Whose CPU may be needed decides which step comes first:
 *
 *     own      no awaited process or thread can need this CPU. Spin, since nothing is quicker; then yield, since the awaited
 *              process computes, or has lost its CPU to another job.
 *     shared   ranks outnumber cores (hdl_job.oversubscribed), or waiting threads do: the awaited process may be queued on this
 *              CPU behind this thread. Yield at once; but while all missing processes are bound to other CPUs, as far as the
 *              caller knows, first spin for a short time: the yield would lose a turn of the scheduler for nothing.
 *
 *     struct hdl_wait w = hdl_wait_begin(HDL_WAIT_CELLS, shared);
 *     while (!(found = look()) && hdl_wait_step(&w, needed))
 *             ;
 *
 * The budget is the row of the wait.
 */
#ifndef HDL_WAIT_H
#define HDL_WAIT_H

#include <sched.h>

#include "runtime/runtime.h"
#include "runtime/threads.h"

struct hdl_wait_budget {
	/* Own CPU: spins, then the end. Shared CPU: rounds of at most shared_spins spins and a yield, then the end. */
	unsigned spins, shared_spins, rounds;
	/* cpu_relax() of a spin. 2 where the look reads memory that the awaited process writes: the writer must own the cache
	 * line, and looks in haste take the line away from the writer's cache time and again (measured: an Allreduce takes 205
	 * ns with one, 190 with two). 1 elsewhere. */
	unsigned pauses;
};

/* Spins of a wait that ends with a sleep: HEDDLE_SPIN; 0 where ranks, or waiting threads, outnumber cores.
 * Must: the library's lock. */
static inline unsigned hdl_wait_spins(void)
{
	return hdl_waiters_may_spin() ? (unsigned)hdl_vars.spin : 0;
}

/* The next thread in line for the library's lock: the holder is usually inside for less than the spins take. Waiting threads are
 * not counted, since no thread may read their number without the lock. Behind the end: a futex. */
#define HDL_WAIT_LOCK ((struct hdl_wait_budget){ .spins = 100, .pauses = 1 })
/* A thread beside the poller, on a word of its own. Behind the end: a futex. */
#define HDL_WAIT_WORD ((struct hdl_wait_budget){ .spins = hdl_wait_spins(), .pauses = 1 })
/* A blocking call on mailbox: some microseconds, in which all cells come if the ranks enter the call at the same time. Behind the
 * end: a turn of progress. Rounds: the awaited rank may be queued on its CPU behind a rank that in turn waits for a rank queued
 * behind this one. */
#define HDL_WAIT_CELLS ((struct hdl_wait_budget){ .spins = 100, .shared_spins = 10, .rounds = 3, .pauses = 2 })
/* The same for single copy and v-collectives: the peers copy before their records come. */
#define HDL_WAIT_COPIES ((struct hdl_wait_budget){ .spins = 400, .shared_spins = 100, .rounds = 3, .pauses = 2 })
/* A call that only polls (MPI_Test), perhaps in a loop, and returns to the program: no spin. Shared CPU: a yield behind so many
 * turns in vain, which are cheaper together than a context switch, and few enough for a rank that computes between its calls. */
#define HDL_WAIT_POLLS 16

struct hdl_wait {
	struct hdl_wait_budget left;	/* spins: of this round */
	bool shared;
	bool fresh;			/* no round has ended */
};

/* shared: an awaited process or thread may need this CPU. */
static inline __attribute__((always_inline)) struct hdl_wait hdl_wait_begin(struct hdl_wait_budget b, bool shared)
{
	struct hdl_wait w = { .left = b, .shared = shared, .fresh = true };

	if (shared)
		w.left.spins = b.shared_spins;
	else
		w.left.rounds = 0;
	return w;
}

/* Yields the CPU, with the library's lock open. */
static inline void hdl_wait_yield(void)
{
	unsigned depth = hdl_lock_open();

	sched_yield();
	hdl_lock_close(depth);
}

/* Takes the step behind a look that found nothing. needed: a missing process may need this CPU; read only where the CPU is
 * shared. Returns false, without a step, if the budget is spent. With MPI_THREAD_MULTIPLE the first yield ends the budget:
 * the caller holds the library's lock, for which other threads wait, and cannot open the lock, since another thread may
 * free what the look reads. */
static inline __attribute__((always_inline)) bool hdl_wait_step(struct hdl_wait *w, bool needed)
{
	if (w->left.spins && !(w->shared && needed)) {
		w->left.spins--;
		for (unsigned i = 0; i < w->left.pauses; i++)
			cpu_relax();
		return true;
	}
	if (!w->left.rounds || hdl_threads)
		return false;
	sched_yield();
	w->left.spins = --w->left.rounds ? w->left.shared_spins : 0;
	w->fresh = false;
	return true;
}

/* ---- waits for a request: between their looks lie turns of progress, and behind the yields a sleep ------------------------ */

enum hdl_wait_next { HDL_WAIT_SPIN, HDL_WAIT_YIELD, HDL_WAIT_SLEEP };

/* Returns the step behind look number `vain` (from 0) in vain. */
static inline enum hdl_wait_next hdl_wait_nth(unsigned vain, unsigned spins, unsigned yields)
{
	return vain < spins ? HDL_WAIT_SPIN : vain - spins < yields ? HDL_WAIT_YIELD : HDL_WAIT_SLEEP;
}

#endif
