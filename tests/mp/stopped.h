/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TEST_STOPPED_H
#define TEST_STOPPED_H

#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

/* Returns the state of the first thread of a process (proc_pid_stat(5), the field behind the name in brackets); 0: there is no
 * such process. */
static inline char process_state(pid_t pid)
{
	char path[64], state = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	f = fopen(path, "re");
	if (!f)
		return 0;
	if (fscanf(f, "%*d (%*[^)]) %c", &state) != 1)
		state = 0;
	fclose(f);
	return state;
}

static inline bool is_stopped(pid_t pid)
{
	return process_state(pid) == 'T';
}

#endif
