/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Stacks of threads that other libraries start. Such a stack is as large as `ulimit -s`, and libpmix's threads need more than 128
 * KiB: a small limit, meant for the main thread, would end the process by SIGSEGV.
 */
#ifndef BASE_STACK_H
#define BASE_STACK_H

#include <link.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* Least stack of a thread of libpmix, in bytes. Pages that the thread does not touch cost nothing. */
#define STACK_MIN ((size_t)2 << 20)

/* Gives new threads a stack of at least STACK_MIN unless their creator says otherwise. Returns the former size, for
 * stack_restore; 0: nothing was changed. */
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

/* For dl_iterate_phdr: adds the thread-local memory of a loaded object. */
static inline int stack_add_tls(struct dl_phdr_info *o, size_t size, void *sum)
{
	(void)size;
	for (int i = 0; i < o->dlpi_phnum; i++)
		if (o->dlpi_phdr[i].p_type == PT_TLS)
			*(size_t *)sum += o->dlpi_phdr[i].p_memsz + o->dlpi_phdr[i].p_align;
	return 0;
}

/* Returns the size of a stack, for pthread_attr_setstacksize, on which a thread has `bytes`. glibc takes the thread-local memory
 * of the program and its libraries from a thread's stack, which may leave nothing of a small one: pthread_create says EINVAL
 * then, or the thread ends by SIGSEGV. */
static inline size_t stack_for(size_t bytes)
{
	enum { RESERVE = 8192 };	/* struct pthread, and glibc's room for objects that are loaded later */

	bytes += (size_t)sysconf(_SC_THREAD_STACK_MIN) + RESERVE;
	dl_iterate_phdr(stack_add_tls, &bytes);
	return (bytes + 4095) & ~(size_t)4095;
}

/* Least stack of a main thread that starts a job or calls MPI_Init, in KiB. MPI_Init was measured to take between 16 and 20. */
#define STACK_MAIN_KIB 32
#define STACK_TEXT_(kib) \
	": the limit on the stack (ulimit -s) is below " #kib " KiB, which is too little: raise it (ulimit -s 8192)\n"
#define STACK_TEXT(kib) STACK_TEXT_(kib)

/* Returns whether this is the main thread and its stack is limited to less than STACK_MAIN_KIB, which is then reported in the
 * program's name. Takes next to no stack: stdio, and so hdl_error, has buffers there. */
static inline bool stack_is_small(const char *who)
{
	static const char text[] = STACK_TEXT(STACK_MAIN_KIB);
	struct rlimit limit;

	if (gettid() != getpid() || getrlimit(RLIMIT_STACK, &limit) || limit.rlim_cur >= (rlim_t)STACK_MAIN_KIB << 10)
		return false;
	if (write(2, who, strlen(who)) < 0 || write(2, text, sizeof(text) - 1) < 0)
		return true;	/* there is no other place to report an error */
	return true;
}

#endif
