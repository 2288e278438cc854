/* SPDX-License-Identifier: BSD-3-Clause */
/* The transport's side of coll_queue_cache: a verb has found no memory. */
#include <errno.h>

#include "transport/mem/regcache.h"
#include "transport/core/tp.h"

extern struct hdl_tp *hdl_mpi_tp;
bool lack_memory(void);

bool lack_memory(void)
{
	errno = ENOMEM;
	return hdl_memory_again(hdl_mpi_tp->dev[0]);
}
