/* SPDX-License-Identifier: BSD-3-Clause */
/* Reports of memory that cannot be had, or not be registered. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "transport/core/tp.h"

/* Returns the KiB of memory that the process has pinned (VmPin). */
static unsigned long long pinned_kib(void)
{
	FILE *f = fopen("/proc/self/status", "re");
	unsigned long long kib = 0;
	char line[256];

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "VmPin: %llu", &kib) == 1)
			break;
	if (f)
		fclose(f);
	return kib;
}

int hdl_register_failed(const struct hdl_dev *dev, const char *what, uint64_t bytes, int err)
{
	struct rlimit lim = { RLIM_INFINITY, RLIM_INFINITY };
	char advice[320] = "";

	getrlimit(RLIMIT_MEMLOCK, &lim);
	if (err != ENOMEM && err != EAGAIN && err != EPERM)
		;
	else if (lim.rlim_cur == RLIM_INFINITY)
		snprintf(advice, sizeof(advice),
			 ". The limit on locked memory (ulimit -l) is not the cause: there is none; is the machine short of "
			 "memory?");
	else
		snprintf(advice, sizeof(advice),
			 ". This process may lock %llu KiB in memory and has locked %llu KiB: raise the limit by 'ulimit -l "
			 "unlimited', for all logins by memlock in /etc/security/limits.d/, for services by "
			 "LimitMEMLOCK=infinity",
			 (unsigned long long)lim.rlim_cur >> 10, pinned_kib());
	hdl_error("%s: cannot register %llu bytes of %s (%s)%s", dev->name, (unsigned long long)bytes, what, strerror(err),
		  advice);
	return -err;
}

int hdl_no_memory(const char *what, size_t bytes)
{
	char limits[160];

	hdl_error("out of memory: %zu bytes for %s%s: raise the limit (ulimit -v, ulimit -d, the job's memory), or run fewer "
		  "ranks on this host", bytes, what, hdl_memory_limits(limits, sizeof(limits)));
	return -ENOMEM;
}
