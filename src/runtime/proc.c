/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads the state and the identity of a process from /proc. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "runtime/runtime.h"

int hdl_proc_stat(uint32_t pid, char *text, size_t size, char **fields)
{
	char path[32], *name_end;
	FILE *f;
	size_t n;

	snprintf(path, sizeof path, "/proc/%u/stat", pid);
	errno = 0;
	f = fopen(path, "re");
	if (!f)
		return errno == ENOENT || errno == ESRCH ? -ESRCH : -EIO;
	n = fread(text, 1, size - 1, f);
	if (!n && errno == ESRCH) {
		fclose(f);
		return -ESRCH;
	}
	fclose(f);
	text[n] = 0;
	name_end = strrchr(text, ')');
	if (!name_end || name_end[1] != ' ')
		return -EIO;
	*fields = name_end + 2;
	return 0;
}
