/* SPDX-License-Identifier: BSD-3-Clause */
/* Threads of the library's own. */
#ifndef HDL_THREAD_H
#define HDL_THREAD_H

#include <pthread.h>
#include <signal.h>
#include <stddef.h>

/* Creates a thread with all signals blocked. Signals are for the program's threads: the program's handlers may take
 * long, or allocate. attr: NULL: the process's defaults; name: as tools show the thread, NULL: the program's. Returns 0
 * or a negative errno. */
static inline int hdl_thread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *arg,
				    const char *name)
{
	sigset_t all, before;
	int err;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	err = pthread_create(thread, attr, run, arg);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (!err && name)
		pthread_setname_np(*thread, name);
	return -err;
}

#endif
