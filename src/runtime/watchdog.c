/* SPDX-License-Identifier: BSD-3-Clause */
/* One thread, alive only while something is watched: a signal or a timer would be the application's. */
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "runtime/runtime.h"
#include "runtime/watchdog.h"

static struct {
	pthread_mutex_t lock;
	pthread_cond_t ended;
	pthread_t thread;
	bool running, end;
	const char *what;
	uint64_t timeout_us;
	struct timespec deadline;
	int exit_code;
} dog = { .lock = PTHREAD_MUTEX_INITIALIZER };

static void *watch(void *arg)
{
	int err = 0;

	pthread_mutex_lock(&dog.lock);
	while (!dog.end && err != ETIMEDOUT)
		err = pthread_cond_timedwait(&dog.ended, &dog.lock, &dog.deadline);
	if (!dog.end) {
		hdl_error("%s took longer than %g s: the launcher's PMIx server does not answer; "
			  "is the launcher stopped, or ended?", dog.what, (double)dog.timeout_us / 1e6);
		_exit(dog.exit_code);
	}
	pthread_mutex_unlock(&dog.lock);
	return NULL;
}

void hdl_watch(const char *what, uint64_t timeout_us, int exit_code)
{
	pthread_condattr_t cond;
	pthread_attr_t attr;
	sigset_t all, old;

	if (!timeout_us)
		return;
	dog.what = what;
	dog.timeout_us = timeout_us;
	dog.exit_code = exit_code;
	dog.end = false;
	clock_gettime(CLOCK_MONOTONIC, &dog.deadline);
	dog.deadline.tv_sec += (time_t)(timeout_us / 1000000);
	dog.deadline.tv_nsec += (long)(timeout_us % 1000000) * 1000;
	if (dog.deadline.tv_nsec >= 1000000000) {
		dog.deadline.tv_nsec -= 1000000000;
		dog.deadline.tv_sec++;
	}
	pthread_condattr_init(&cond);
	pthread_condattr_setclock(&cond, CLOCK_MONOTONIC);
	pthread_cond_init(&dog.ended, &cond);
	pthread_condattr_destroy(&cond);

	/* The application's signals are not for this thread; a small stack suffices. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 64 * 1024 > PTHREAD_STACK_MIN ? 64 * 1024 : PTHREAD_STACK_MIN);
	dog.running = !pthread_create(&dog.thread, &attr, watch, NULL);
	pthread_attr_destroy(&attr);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (!dog.running)	/* no thread is left: then unbounded, but not refused */
		hdl_debug("no thread to bound: %s", what);
}

void hdl_watch_end(void)
{
	if (!dog.running)
		return;
	pthread_mutex_lock(&dog.lock);
	dog.end = true;
	pthread_cond_signal(&dog.ended);
	pthread_mutex_unlock(&dog.lock);
	pthread_join(dog.thread, NULL);
	pthread_cond_destroy(&dog.ended);
	dog.running = false;
}
