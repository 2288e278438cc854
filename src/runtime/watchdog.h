/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside src/runtime: bounds calls into PMIx that have no bound of their own. */
#ifndef HDL_WATCHDOG_H
#define HDL_WATCHDOG_H

#include <stdint.h>

/* From here on `what` may take timeout_us; 0: for ever. Else the process reports it and exits with this code, for the
 * caller is stuck in a library and cannot. what is a literal. One at a time per process. */
void hdl_watch(const char *what, uint64_t timeout_us, int exit_code);
/* It has ended in time, and something else is to be watched soon: the thread that watches stays for that. */
void hdl_watch_pause(void);
/* It has ended in time, or nothing is watched. */
void hdl_watch_end(void);

#endif
