/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * MPI_THREAD_MULTIPLE: the library is a monitor. One lock lets one thread in; a thread that waits for something gives
 * the lock up meanwhile. At any lower thread level there is no lock: one branch on hdl_threads.
 *
 * The lock is handed over in the order in which threads asked for it, so that a thread which polls, or calls MPI_Test
 * in a loop, keeps no other thread out.
 *
 * A thread that waits registers its condition. One waiter, the poller, runs the transport: spins, yields, sleeps on the
 * device. Every other waiter sleeps on a word of its own. A thread that gives the lock up evaluates the conditions of
 * the sleeping waiters, and wakes each whose condition has become true: conditions become true under the lock only, so
 * none is missed, whichever thread and whichever call made the change.
 *
 * The poller's role is taken by a waiter that finds the role free, or finds the poller asleep on the device: that sleep
 * was prepared (queues armed, timers looked at) before the newcomer's operations were there. A poller that leaves wakes
 * another waiter to take the role.
 *
 * (D) So two threads may sleep on the device, the poller and one that was the poller. On a word that is no harm: a
 *     change of the word wakes all its sleepers. On descriptors it is: poll(2) checks the descriptors again before
 *     returning, and if by then another thread has read the data that made one readable, poll sleeps on, whichever
 *     thread the data were for. Therefore
 *     (1) one thread at a time sleeps on descriptors. A second thread that is about to wakes the first, and sleeps on
 *         its own word until the first has left;
 *     (2) a thread that comes back takes the lock, ceases to be the sleeper, and reads the data that woke it before
 *         anything else, in one hold of the lock;
 *     (3) a thread that goes to sleep there finds that there is no sleeper, and checks everything that a wake-up may be
 *         for, in one hold of the lock.
 *     A wake-up for the sleeper is read by the sleeper (1). A wake-up for any waiter is read by the thread that comes
 *     back (2), or seen by the next one that goes to sleep there (3).
 */
#ifndef HDL_THREADS_H
#define HDL_THREADS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/base.h"

extern bool hdl_threads;	/* MPI_THREAD_MULTIPLE was granted; set while the process has one thread in the library */

/* Only with hdl_threads. The holder may take the lock again, and must give the lock as often. */
void hdl_lock_take(void);
void hdl_lock_give(void);
/* Gives the lock up altogether, however often this thread has taken it; hdl_lock_close takes the lock again, as
 * often. */
unsigned hdl_lock_open_slow(void);
void hdl_lock_close_slow(unsigned depth);
/* Lets the threads in that ask for the lock, one turn each. */
void hdl_lock_pass(void);

static inline unsigned hdl_lock_open(void)
{
	return unlikely(hdl_threads) ? hdl_lock_open_slow() : 0;
}
static inline void hdl_lock_close(unsigned depth)
{
	if (unlikely(depth))
		hdl_lock_close_slow(depth);
}

/* ---- waiting: all under the lock, with hdl_threads ---------------------------------------------------------------- */

enum hdl_asleep { HDL_AWAKE, HDL_ASLEEP_ON_DEVICE, HDL_ASLEEP_ON_WORD };

/* A thread that waits; lies on that thread's stack. */
struct hdl_waiter {
	bool (*ready)(const void *arg);	/* whether the wait is over; run by any thread that holds the lock; must be
					 * short and change nothing */
	const void *arg;
	const char *call;		/* for reports: the MPI function */
	const void *op;			/* for reports: the operation, or NULL */
	const void *comm;		/* for reports: the collective's communicator, or NULL */
	const void *requests;		/* for reports: struct hdl_requests, or NULL */
	uint64_t since;			/* monotonic_ns() of a wait that lasts; 0: not yet */
	struct hdl_waiter *next, **link;
	uint32_t word;			/* 1: look again */
	enum hdl_asleep asleep;
};
extern struct hdl_waiter *hdl_waiters;		/* oldest first */

void hdl_waiter_add(struct hdl_waiter *w);
void hdl_waiter_remove(struct hdl_waiter *w);
/* Returns true if this waiter is the poller; if not, the caller must sleep. */
bool hdl_waiter_polls(struct hdl_waiter *w);
void hdl_waiter_sleep(struct hdl_waiter *w);
/* Returns true if every waiting thread of this host's ranks may have a CPU for itself: then they may spin. */
bool hdl_waiters_may_spin(void);

/* Must be called before a sleep on descriptors, where one thread at a time may sleep (D). Returns false if another
 * thread was there: this thread has slept without the lock until that one left, and must check everything again. */
bool hdl_device_is_free(void);
/* The poller sleeps on the device between these two, without the lock. After hdl_device_sleep_end the poller must read
 * the data that woke it before giving the lock up. */
struct hdl_device_sleep {
	struct hdl_waiter *w;
	unsigned depth;
};
struct hdl_device_sleep hdl_device_sleep_begin(bool on_descriptors);
void hdl_device_sleep_end(struct hdl_device_sleep sleep);
/* Set when something has changed that a sleep on the device must be prepared for: a sleeping poller prepares its sleep
 * again. */
extern bool hdl_stirred;
/* Ends all sleeps on the device; the transport's. Async-signal-safe. */
extern void (*hdl_device_wake)(void);

#endif
