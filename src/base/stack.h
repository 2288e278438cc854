/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Stacks of threads that other libraries start. They are as large as `ulimit -s` says, and libpmix's threads need more than 128 KiB: a small
 * limit, meant for the main thread, would end the process by SIGSEGV.
 */
#ifndef BASE_STACK_H
#define BASE_STACK_H

#include <pthread.h>
#include <stddef.h>

/* Least stack of a thread of libpmix, in bytes. Pages that the thread does not touch cost nothing. */
#define STACK_MIN ((size_t)2 << 20)

/* From here on threads get a stack of at least STACK_MIN unless their creator says otherwise. Returns the size until now, for stack_restore;
 * 0: nothing was changed. */
static inline size_t stack_raise(void)
{
	pthread_attr_t attr;
	size_t before = 0;

	if (pthread_getattr_default_np(&attr))
		return 0;
	if (pthread_attr_getstacksize(&attr, &before) || before >= STACK_MIN || pthread_attr_setstacksize(&attr, STACK_MIN) ||
	    pthread_setattr_default_np(&attr))
		before = 0;
	pthread_attr_destroy(&attr);
	return before;
}

static inline void stack_restore(size_t before)
{
	pthread_attr_t attr;

	if (!before || pthread_getattr_default_np(&attr))
		return;
	if (!pthread_attr_setstacksize(&attr, before))
		pthread_setattr_default_np(&attr);
	pthread_attr_destroy(&attr);
}

#endif
