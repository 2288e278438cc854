/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A program's output may be written only when the program ends, and exit() does not report a failure: on a full disk,
 * or beyond a quota, all output of a job would be gone with exit code 0.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/runtime.h"

enum { EARLIER = -1 };	/* the errno is not known any more */

/* 0, or a positive or negative errno of the output that could not be written. */
static int flush_output(void)
{
	int failed = ferror(stdout), fd;

	errno = 0;
	if (fflush(stdout))
		return errno ? errno : EIO;
	if (failed)
		return EARLIER;
	/* A network file system reports a quota when a descriptor is closed. */
	fd = dup(STDOUT_FILENO);
	if (fd >= 0 && close(fd) && errno != EINTR)
		return errno;
	return 0;
}

static void at_exit(int status, void *arg)
{
	int err = flush_output();

	if (!err)
		return;
	hdl_error("standard output cannot be written: %s; printed output is lost, at least in part%s",
		  err == EARLIER ? "an earlier write has failed" : strerror(err),
		  err == ENOSPC ? " (is the disk full?)" : err == EDQUOT ? " (the quota of this user is used up)" : "");
	if (!status)
		_exit(EXIT_FAILURE);
}

void hdl_output_watch(void)
{
	static bool watched;

	if (!watched)
		watched = !on_exit(at_exit, NULL);
}
