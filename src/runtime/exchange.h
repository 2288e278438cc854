/* SPDX-License-Identifier: BSD-3-Clause */
/* This rank in PMIx: between job.c, which joins and leaves, and exchange.c. */
#ifndef HDL_EXCHANGE_H
#define HDL_EXCHANGE_H

#include <pmix.h>

#include "runtime/runtime.h"

extern pmix_proc_t hdl_rt_me;		/* valid while hdl_rt_joined */
extern bool hdl_rt_joined;		/* PMIx_Init succeeded */
extern unsigned hdl_rt_epoch;		/* how often this process has left the job by hdl_rt_fini */

extern bool hdl_rt_by_heddlerun;	/* the server is heddlerun's */

/* PMIx_Init, which sets hdl_rt_me. */
pmix_status_t hdl_rt_pmix_init(void);
/* Returns the address of the PMIx server by the environment, or a text that says that there is none. */
const char *hdl_rt_server_uri(void);

/* A rank of this job, as PMIx names it. */
pmix_proc_t hdl_rt_proc(pmix_rank_t rank);

#endif
