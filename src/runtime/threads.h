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

/* The poller sleeps on the device between these two, without the lock. */
struct hdl_device_sleep {
	struct hdl_waiter *w;
	unsigned depth;
};
struct hdl_device_sleep hdl_device_sleep_begin(void);
void hdl_device_sleep_end(struct hdl_device_sleep sleep);
/* Something has changed that a sleep on the device must be prepared for: a poller that sleeps does it again. */
extern bool hdl_stirred;
/* Ends all sleeps on the device; the transport's. Async-signal-safe. */
extern void (*hdl_device_wake)(void);

#endif
