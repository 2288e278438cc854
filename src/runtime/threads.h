/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * MPI_THREAD_MULTIPLE: the library is a monitor. One lock lets one thread in; a thread that waits for something gives
 * it up meanwhile. At any lower level nothing of this is taken: one branch on hdl_threads.
 *
 * The lock is handed over in the order in which threads asked for it, so that one which polls, or calls MPI_Test in a
 * loop, keeps nobody out.
 *
 * A thread that waits registers its condition. One of those that wait, the poller, runs the transport: spins, yields,
 * sleeps on the device. The others sleep on a word of their own. Whoever gives the lock up looks at the conditions of
 * those that sleep, and wakes whose it has come true: all that makes one true happens under the lock, so none is
 * missed, whichever thread and whichever call it was.
 *
 * The poller's role is taken by a waiter that finds it free, or finds it with one that sleeps on the device: that sleep
 * was prepared (queues armed, timers looked at) before the newcomer's operations were there. Who leaves with the role
 * wakes another waiter to take it.
 *
 * (D) So two threads may sleep on the device, the poller and one that was the poller. On a word that is no harm: whatever changes it wakes
 *     all that sleep on it. On descriptors it is: poll(2) looks at them again before it returns, and if by then another thread has read
 *     what made one readable, it sleeps on, whoever that was meant for. Therefore
 *     (1) one thread at a time sleeps on descriptors. Who is about to, and finds another one there, wakes that one and sleeps on its own
 *         word until it has left;
 *     (2) who comes back reads what woke it in the hold of the lock in which it leaves, and before it looks at anything else;
 *     (3) who goes there looks at all that a wake-up may be for in the hold of the lock in which it finds nobody there.
 *     A wake-up that is for a thread there is read by this one (1). One that is for whoever waits is for who comes back (2), or is
 *     seen by who goes there next (3).
 */
#ifndef HDL_THREADS_H
#define HDL_THREADS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/base.h"

extern bool hdl_threads;	/* MPI_THREAD_MULTIPLE was granted; set while the process has one thread in the library */

/* Only with hdl_threads. The holder may take the lock again, and gives it as often. */
void hdl_lock_take(void);
void hdl_lock_give(void);
/* Gives the lock up altogether, however often it was taken; hdl_lock_close takes it again, as often. */
unsigned hdl_lock_open_slow(void);
void hdl_lock_close_slow(unsigned depth);
/* Lets those in who ask for the lock, one turn each. */
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

/* ---- waiting: all of it under the lock, with hdl_threads ---------------------------------------------------------- */

enum hdl_asleep { HDL_AWAKE, HDL_ASLEEP_ON_DEVICE, HDL_ASLEEP_ON_WORD };

/* A thread that waits; on its stack. */
struct hdl_waiter {
	bool (*ready)(const void *arg);	/* run by any thread that holds the lock; short, changes nothing */
	const void *arg;
	const char *call;		/* for reports: the MPI function ... */
	const void *op;			/* ... and its operation, or NULL ... */
	const void *comm;		/* ... or the communicator of its collective, or NULL ... */
	const void *requests;		/* ... or its requests: struct hdl_requests */
	uint64_t since;			/* monotonic_ns() of a wait that lasts; 0: not yet */
	struct hdl_waiter *next, **link;
	uint32_t word;			/* 1: look again */
	enum hdl_asleep asleep;
};
extern struct hdl_waiter *hdl_waiters;		/* oldest first */

void hdl_waiter_add(struct hdl_waiter *w);
void hdl_waiter_remove(struct hdl_waiter *w);
/* Whether this waiter is the one that polls; if not, it shall sleep. */
bool hdl_waiter_polls(struct hdl_waiter *w);
void hdl_waiter_sleep(struct hdl_waiter *w);
/* Whether every waiting thread of this host's ranks may have a CPU for itself: then they may spin. */
bool hdl_waiters_may_spin(void);

/* To be asked before a sleep on descriptors, which is one thread's at a time (D). False: another one was there; this one has slept until it
 * left, without the lock, and shall look at everything again. */
bool hdl_device_is_free(void);
/* The poller sleeps on the device between these two, without the lock. Behind the second it reads what woke it, before it gives the lock
 * up. */
struct hdl_device_sleep {
	struct hdl_waiter *w;
	unsigned depth;
};
struct hdl_device_sleep hdl_device_sleep_begin(bool on_descriptors);
void hdl_device_sleep_end(struct hdl_device_sleep sleep);
/* Something has changed that a sleep on the device must be prepared for: a poller that sleeps does it again. */
extern bool hdl_stirred;
/* Ends all sleeps on the device; the transport's. Async-signal-safe. */
extern void (*hdl_device_wake)(void);

#endif
