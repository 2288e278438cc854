/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * HOME for libpmix. Without HOME, PMIx_Init and PMIx_server_init read the directory from the user's passwd entry, and end the
 * process by SIGSEGV where the user has none (a container that runs as any user number).
 */
#ifndef BASE_HOME_H
#define BASE_HOME_H

#include <pwd.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

/* Sets HOME to "/" if the user has neither HOME nor a passwd entry. Returns whether it was set, for home_take_back. */
static inline bool home_lend(void)
{
	return !getenv("HOME") && !getpwuid(geteuid()) && !setenv("HOME", "/", 0);
}

static inline void home_take_back(bool lent)
{
	if (lent)
		unsetenv("HOME");
}

#endif
