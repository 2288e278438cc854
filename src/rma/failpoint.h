/* SPDX-License-Identifier: BSD-3-Clause */
/* Named points at which tests end a process. Only programs that are built with HDL_RMA_FAILPOINTS have code for them. */
#ifndef HDL_RMA_FAILPOINT_H
#define HDL_RMA_FAILPOINT_H

#ifdef HDL_RMA_FAILPOINTS
void hdl_rma_failpoint(const char *name);
#define HDL_FAILPOINT(name) hdl_rma_failpoint(name)
#else
#define HDL_FAILPOINT(name) ((void)0)
#endif

#endif
