/* SPDX-License-Identifier: BSD-3-Clause */
/* One thread, alive only while a call is watched or soon will be: a signal or a timer would be the application's. */
#include <errno.h>
#include <pthread.h>
#include <time.h>
#include <unistd.h>

#include "base/stack.h"
#include "runtime/runtime.h"
#include "runtime/thread.h"
#include "runtime/watchdog.h"

static struct {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	pthread_t thread;
	bool running, watching, end;
	const char *what;
	uint64_t timeout_us;
	uint64_t deadline;	/* monotonic_ns */
	int exit_code;
} dog = { .lock = PTHREAD_MUTEX_INITIALIZER };

static void *watchdog_watch(void *arg)
{
	pthread_mutex_lock(&dog.lock);
	while (!dog.end) {
		struct timespec t = { (time_t)(dog.deadline / 1000000000u), (long)(dog.deadline % 1000000000u) };

		if (!dog.watching) {
			pthread_cond_wait(&dog.changed, &dog.lock);
		} else if (monotonic_ns() < dog.deadline) {
			pthread_cond_timedwait(&dog.changed, &dog.lock, &t);
		} else {
			hdl_error("%s took longer than %g s: the launcher's PMIx server does not answer; "
				  "is the launcher stopped, or ended?", dog.what, (double)dog.timeout_us / 1e6);
			_exit(dog.exit_code);
		}
	}
	pthread_mutex_unlock(&dog.lock);
	return NULL;
}

static void watchdog_start(void)
{
	pthread_condattr_t cond;
	pthread_attr_t attr;

	dog.end = false;
	pthread_condattr_init(&cond);
	pthread_condattr_setclock(&cond, CLOCK_MONOTONIC);
	pthread_cond_init(&dog.changed, &cond);
	pthread_condattr_destroy(&cond);

	/* a small stack suffices */
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, stack_for(64 * 1024));
	dog.running = !hdl_thread_create(&dog.thread, &attr, watchdog_watch, NULL, NULL);
	pthread_attr_destroy(&attr);
	if (!dog.running)	/* no thread can be created: the call is unbounded, but not refused */
		hdl_debug("no thread to bound: %s", dog.what);
}

void hdl_watch(const char *what, uint64_t timeout_us, int exit_code)
{
	if (!timeout_us)
		return;
	pthread_mutex_lock(&dog.lock);
	dog.what = what;
	dog.timeout_us = timeout_us;
	dog.exit_code = exit_code;
	dog.deadline = monotonic_ns() + timeout_us * 1000;
	dog.watching = true;
	if (dog.running)
		pthread_cond_signal(&dog.changed);
	else
		watchdog_start();
	pthread_mutex_unlock(&dog.lock);
}

void hdl_watch_pause(void)
{
	pthread_mutex_lock(&dog.lock);
	dog.watching = false;	/* the thread reads the flag when woken */
	pthread_mutex_unlock(&dog.lock);
}

void hdl_watch_end(void)
{
	if (!dog.running)
		return;
	pthread_mutex_lock(&dog.lock);
	dog.watching = false;
	dog.end = true;
	pthread_cond_signal(&dog.changed);
	pthread_mutex_unlock(&dog.lock);
	pthread_join(dog.thread, NULL);
	pthread_cond_destroy(&dog.changed);
	dog.running = false;
}
