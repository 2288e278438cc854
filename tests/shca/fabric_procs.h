/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared by the parts of fabric_procs. Each case is a separate process with a separate fabric, and returns 0, 1 or SKIP.
 *
 *     fabric_procs.c          the runner, and joining, leaving and dying
 *     fabric_procs_limits.c   memory, address space, users, namespaces
 *     fabric_procs_wake.c     sleeping and waking, bells, the proxy thread
 */
#ifndef TESTS_SHCA_FABRIC_PROCS_H
#define TESTS_SHCA_FABRIC_PROCS_H

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "shca/engine/engine.h"

#define SKIP 77
#define CHECK(c)                                                                                                      \
	do {                                                                                                          \
		if (!(c)) {                                                                                           \
			fprintf(stderr, "%s:%d: %s: failed (errno %d)\n", __func__, __LINE__, #c, errno);             \
			_exit(1);                                                                                     \
		}                                                                                                     \
	} while (0)

extern char fabric[64];		/* this case's */

/* Joins this case's fabric, or ends the process. */
void join(struct shca_member *m);
/* Forks a child that calls f, exits with the result, and dies with the test. */
pid_t spawn(int (*f)(void *), void *arg);
/* Waits for a child: its exit status, or 256 + the signal that ended it. */
int exit_of(pid_t pid);
/* Zeroed memory that children share. */
void *shared(size_t bytes);
/* Waits, boundedly, until *word >= v. */
void await(_Atomic uint32_t *word, uint32_t v);
/* A field of /proc/meminfo, such as "Shmem:". */
uint64_t meminfo_kib(const char *field);
/* Number of abstract sockets with a text in their names. */
int sockets_with(const char *text);
/* Chunks that a slot owns; UINT32_MAX: that any slot owns. */
uint32_t chunks_of(const struct shca_member *m, uint32_t slot);
/* Captures the standard error of f, which runs in a child. Returns the child's exit status. */
int capture(int (*f)(void *), void *arg, char *text, size_t size);

/* fabric_procs_limits.c */
int case_growth(void);
int case_dev_shm(void);
int case_limit_as(void);
int case_no_memory(void);
int case_cgroup(void);
int case_cgroup_v2(void);
int case_other_user(void);
int case_squatters(void);
int case_misnamed(void);
int case_refused(void);
int case_other_version(void);
int case_no_fabric(void);
int case_span(void);

/* fabric_procs_wake.c */
int case_nap(void);
int case_bells(void);
int case_proxy(void);

#endif
