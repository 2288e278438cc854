/* SPDX-License-Identifier: BSD-3-Clause */
/* The heavy fence: membarrier(2), or a full fence where a fabric was made without it (SHCA_FENCES). */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/membarrier.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "shca.h"
#include "shca/fabric/fabric.h"

bool shca_membarrier_missing(void)
{
	long have = syscall(SYS_membarrier, MEMBARRIER_CMD_QUERY, 0, 0);
	return have < 0 || !(have & MEMBARRIER_CMD_GLOBAL_EXPEDITED);
}

int shca_membarrier_register(void)
{
	return (int)syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0);
}

SHCA_PUBLIC void shca_prepare(void)
{
	shca_membarrier_register();	/* on failure, joining a fabric reports the error */
}

void shca_heavy_fence(struct shca_member *m)
{
	if (!m->hdr->fences) {
		if (!syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0))
			return;
		/* permitted when this process joined; forbidden since (seccomp). There is no safe way on. */
		shca_error("membarrier: %s: this process gave up the right to it after it joined the fabric. Create the fabric "
			   "with SHCA_FENCES=1",
			   strerror(errno));
		abort();
	}
	shca_full_fence();
}
