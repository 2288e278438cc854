/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside src/runtime: bounds calls into PMIx that have no bound of their own. */
#ifndef HDL_WATCHDOG_H
#define HDL_WATCHDOG_H

#include <stdint.h>

/* From here on the call described by `what` (a literal) may take timeout_us; 0: for ever. After that the watchdog's thread
 * reports the call and exits with this code, since the caller is blocked in another library. One call at a time per process. */
void hdl_watch(const char *what, uint64_t timeout_us, int exit_code);
/* The call has ended in time, and another one is to be watched soon: the watchdog's thread stays for that. */
void hdl_watch_pause(void);
/* The call has ended in time, or no call is watched. */
void hdl_watch_end(void);

#endif
