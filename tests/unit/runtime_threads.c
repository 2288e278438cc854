/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Threads that sleep on the device (runtime/threads.h, D). The device is a descriptor here, which only the test writes: a thread
 * that is not woken is a test that does not end.
 */
#include <criterion/criterion.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "runtime/runtime.h"
#include "runtime/threads.h"

struct hdl_job hdl_job = { .size = 2, .local_size = 2, .oversubscribed = true };
struct hdl_vars hdl_vars;

static int device;
static unsigned wakes;		/* under the lock */
static atomic_bool asleep, may_end, left;

static void wake_device(void)
{
	wakes++;
	cr_assert_eq(eventfd_write(device, 1), 0);
}

static bool holds(const void *arg)
{
	return atomic_load((const atomic_bool *)arg);
}

/* Waits as hdl_wait_idle does: polls, and sleeps on the device; or on its word, once another one polls. */
static void *older(void *on_descriptors)
{
	struct hdl_waiter w = { .ready = holds, .arg = &may_end };
	eventfd_t n;

	hdl_lock_take();
	hdl_waiter_add(&w);
	while (!holds(w.arg)) {
		if (!hdl_waiter_polls(&w)) {
			hdl_waiter_sleep(&w);
			continue;
		}
		struct hdl_device_sleep sleep = hdl_device_sleep_begin(on_descriptors != NULL);
		atomic_store(&asleep, true);
		eventfd_read(device, &n);
		hdl_device_sleep_end(sleep);
		atomic_store(&left, true);
	}
	hdl_waiter_remove(&w);
	hdl_lock_give();
	return NULL;
}

static pthread_t begin(bool on_descriptors)
{
	pthread_t thread;

	device = eventfd(0, EFD_CLOEXEC);
	hdl_device_wake = wake_device;
	hdl_threads = true;
	cr_assert_eq(pthread_create(&thread, NULL, older, on_descriptors ? &device : NULL), 0);
	while (!atomic_load(&asleep))
		sched_yield();
	hdl_lock_take();
	return thread;
}

static void end(pthread_t thread, struct hdl_waiter *w)
{
	atomic_store(&may_end, true);
	hdl_waiter_remove(w);
	hdl_lock_give();
	pthread_join(thread, NULL);
	close(device);
}

/* A newcomer polls at once; before it sleeps on the descriptors the other one is sent away, once, and has left. */
Test(runtime_threads, one_at_a_time_on_descriptors, .timeout = 60)
{
	pthread_t thread = begin(true);
	struct hdl_waiter w = { .ready = holds, .arg = &may_end };

	hdl_waiter_add(&w);
	cr_assert(hdl_waiter_polls(&w));
	cr_expect(!atomic_load(&left));
	cr_expect_eq(wakes, 0);
	cr_expect(!hdl_device_is_free());
	cr_expect(atomic_load(&left));
	cr_expect_eq(wakes, 1);
	cr_expect(hdl_waiter_polls(&w));
	cr_expect(hdl_device_is_free());
	end(thread, &w);
	cr_expect_eq(wakes, 1, "who sleeps on its word is woken by that");
}

/* The newcomer sleeps on the descriptors in its turn, and something changes that such a sleep is prepared for. */
Test(runtime_threads, stirred, .timeout = 60)
{
	pthread_t thread = begin(true);
	struct hdl_waiter w = { .ready = holds, .arg = &may_end };
	eventfd_t n;

	hdl_waiter_add(&w);
	cr_assert(hdl_waiter_polls(&w));
	while (!hdl_device_is_free())
		cr_assert(hdl_waiter_polls(&w));
	struct hdl_device_sleep sleep = hdl_device_sleep_begin(true);
	hdl_lock_take();
	hdl_stirred = true;
	hdl_lock_give();
	eventfd_read(device, &n);
	hdl_device_sleep_end(sleep);
	cr_expect_eq(wakes, 2);
	end(thread, &w);
}

/* The thread that changes a word wakes all threads that sleep on it, of which there may be two. */
Test(runtime_threads, several_on_a_word, .timeout = 60)
{
	pthread_t thread = begin(false);
	struct hdl_waiter w = { .ready = holds, .arg = &may_end };

	hdl_waiter_add(&w);
	cr_assert(hdl_waiter_polls(&w));
	cr_expect(hdl_device_is_free());
	cr_expect_eq(wakes, 0);
	cr_expect(!atomic_load(&left));
	end(thread, &w);
	cr_expect_eq(wakes, 1, "its time has come");
}

/* One thread alone: no other thread sleeps, and no wake-up is sent. */
Test(runtime_threads, one_thread)
{
	struct hdl_waiter w = { .ready = holds, .arg = &may_end };

	cr_expect(hdl_device_is_free());
	hdl_threads = true;
	hdl_lock_take();
	hdl_waiter_add(&w);
	cr_expect(hdl_waiter_polls(&w));
	cr_expect(hdl_device_is_free());
	hdl_waiter_remove(&w);
	hdl_lock_give();
}
