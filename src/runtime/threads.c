/* SPDX-License-Identifier: BSD-3-Clause */
#include "runtime/threads.h"

#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "runtime/events.h"
#include "runtime/runtime.h"
#include "runtime/wait.h"

bool hdl_threads, hdl_stirred;
void (*hdl_device_wake)(void);
void (*hdl_event_hook)(enum hdl_event event, const void *elements);
struct hdl_waiter *hdl_waiters;

static struct hdl_waiter **waiters_end = &hdl_waiters, *poller;
static struct hdl_waiter *alone;	/* sleeps on the device's descriptors, or has not come back from there: (D) */
static int nwaiters;

/* A ticket lock whose waiters sleep. `serving` is a futex; each waiter sleeps on a bit of its own of 32, so that a
 * hand-over wakes the next holder only. */
static struct {
	_Alignas(64) uint32_t next;	/* ticket of the next thread that comes */
	_Alignas(64) uint32_t serving;	/* ticket of the holder; equal to next: free */
	const char *owner;
	unsigned depth;
} lock;

/* The address of `self` is this thread's identity. */
static __thread char self __attribute__((tls_model("initial-exec")));

static void futex_wait(uint32_t *word, uint32_t seen, uint32_t bits)
{
	/* EAGAIN and EINTR: the caller reads the word again */
	syscall(SYS_futex, word, FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG, seen, NULL, NULL, bits);
}

static void futex_wake(uint32_t *word, uint32_t bits)
{
	syscall(SYS_futex, word, FUTEX_WAKE_BITSET | FUTEX_PRIVATE_FLAG, INT_MAX, NULL, NULL, bits);
}

/* ---- the lock ---------------------------------------------------------------------------------------------------- */

static void acquire(void)
{
	uint32_t mine = __atomic_fetch_add(&lock.next, 1, __ATOMIC_SEQ_CST);
	struct hdl_wait w = hdl_wait_begin(HDL_WAIT_LOCK, hdl_job.oversubscribed);

	for (;;) {
		uint32_t now = __atomic_load_n(&lock.serving, __ATOMIC_SEQ_CST);

		if (now == mine)
			break;
		if (mine - now != 1 || !hdl_wait_step(&w, false))
			futex_wait(&lock.serving, now, 1u << mine % 32);
	}
	__atomic_store_n(&lock.owner, &self, __ATOMIC_RELAXED);
}

static void threads_release(void)
{
	uint32_t now = lock.serving + 1;

	__atomic_store_n(&lock.owner, NULL, __ATOMIC_RELAXED);
	/* Either a thread that comes sees the new `serving`, or its ticket is seen here: this store and load are
	 * sequentially consistent, as are that thread's draw of a ticket and its load of `serving`. */
	__atomic_store_n(&lock.serving, now, __ATOMIC_SEQ_CST);
	if (__atomic_load_n(&lock.next, __ATOMIC_SEQ_CST) != now)
		futex_wake(&lock.serving, 1u << now % 32);
}

static bool threads_is_wanted(void)
{
	return __atomic_load_n(&lock.next, __ATOMIC_RELAXED) != lock.serving + 1;
}

/* ---- waking ------------------------------------------------------------------------------------------------------ */

static void threads_wake(struct hdl_waiter *w)
{
	if (w->asleep == HDL_ASLEEP_ON_DEVICE) {
		hdl_device_wake();
	} else if (w->asleep == HDL_ASLEEP_ON_WORD) {
		__atomic_store_n(&w->word, 1, __ATOMIC_RELEASE);
		futex_wake(&w->word, FUTEX_BITSET_MATCH_ANY);
	}
	w->asleep = HDL_AWAKE;		/* once is enough */
}

static void wake_whose_time_has_come(void)
{
	for (struct hdl_waiter *w = hdl_waiters; w; w = w->next)
		if (w->asleep && (w->ready(w->arg) || (w == poller && w->asleep == HDL_ASLEEP_ON_DEVICE && hdl_stirred)))
			threads_wake(w);
}

void hdl_lock_take(void)
{
	if (__atomic_load_n(&lock.owner, __ATOMIC_RELAXED) != &self)
		acquire();
	lock.depth++;
}

void hdl_lock_give(void)
{
	if (--lock.depth)
		return;
	if (hdl_waiters)
		wake_whose_time_has_come();
	threads_release();
}

unsigned hdl_lock_open_slow(void)
{
	unsigned depth = lock.depth;

	lock.depth = 1;
	hdl_lock_give();
	return depth;
}

void hdl_lock_close_slow(unsigned depth)
{
	acquire();
	lock.depth = depth;
}

void hdl_lock_pass(void)
{
	if (hdl_waiters)
		wake_whose_time_has_come();
	if (threads_is_wanted())
		hdl_lock_close_slow(hdl_lock_open_slow());
}

/* ---- waiters ----------------------------------------------------------------------------------------------------- */

void hdl_waiter_add(struct hdl_waiter *w)
{
	w->asleep = HDL_AWAKE;
	w->next = NULL;
	w->link = waiters_end;
	*waiters_end = w;
	waiters_end = &w->next;
	nwaiters++;
}

void hdl_waiter_remove(struct hdl_waiter *w)
{
	*w->link = w->next;
	if (w->next)
		w->next->link = w->link;
	else
		waiters_end = w->link;
	nwaiters--;
	if (poller == w)
		poller = NULL;
	/* As long as there are waiters, one of them polls, or is awake and will poll. The waiter that was woken to poll
	 * may be this one, which leaves without polling. */
	if (!poller && hdl_waiters)
		threads_wake(hdl_waiters);
}

bool hdl_waiter_polls(struct hdl_waiter *w)
{
	if (!poller || poller->asleep == HDL_ASLEEP_ON_DEVICE)
		poller = w;
	return poller == w;
}

void hdl_waiter_sleep(struct hdl_waiter *w)
{
	struct hdl_wait wait = hdl_wait_begin(HDL_WAIT_WORD, false);
	unsigned depth;

	w->word = 0;
	w->asleep = HDL_ASLEEP_ON_WORD;
	if (!w->since)
		w->since = monotonic_ns();
	depth = hdl_lock_open_slow();
	while (!__atomic_load_n(&w->word, __ATOMIC_ACQUIRE)) {
		if (!hdl_wait_step(&wait, false))
			futex_wait(&w->word, 0, FUTEX_BITSET_MATCH_ANY);
	}
	hdl_lock_close_slow(depth);
}

bool hdl_waiters_may_spin(void)
{
	return !hdl_job.oversubscribed && (!hdl_threads || nwaiters * hdl_job.local_size <= hdl_job.ncores);
}

bool hdl_device_is_free(void)
{
	if (!hdl_threads || !alone)
		return true;
	if (alone->asleep)
		threads_wake(alone);
	if (poller)
		hdl_waiter_sleep(poller);
	return false;
}

struct hdl_device_sleep hdl_device_sleep_begin(bool on_descriptors)
{
	struct hdl_device_sleep sleep = { .w = poller };

	hdl_stirred = false;
	if (!hdl_threads)
		return sleep;
	if (poller)
		poller->asleep = HDL_ASLEEP_ON_DEVICE;
	if (on_descriptors)
		alone = poller;
	sleep.depth = hdl_lock_open_slow();
	return sleep;
}

void hdl_device_sleep_end(struct hdl_device_sleep sleep)
{
	hdl_lock_close(sleep.depth);
	/* another waiter may poll by now: then hdl_waiter_polls is false for this one */
	if (!sleep.w)
		return;
	sleep.w->asleep = HDL_AWAKE;
	if (alone != sleep.w)
		return;
	alone = NULL;
	/* the poller may wait for just this (D.1) */
	if (poller && poller->asleep == HDL_ASLEEP_ON_WORD)
		threads_wake(poller);
}
