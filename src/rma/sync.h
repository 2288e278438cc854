/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside of src/rma: completion, locks, the report and the helper thread, as win.c needs them. */
#ifndef HDL_RMA_SYNC_H
#define HDL_RMA_SYNC_H

#include "rma/message.h"

/* ---- locks.c --------------------------------------------------------------------------------------------------------- */

extern const struct hdl_lock_owner hdl_lock_owner;
/* Owner, locks by message. lost: the process of a member has failed. gone: MPI_Win_free of this process ends though a member has
 * failed: refuses the requests that wait here, so that other members go on. */
void hdl_lock_lost(struct hdl_win *w, struct hdl_target *dead);
void hdl_lock_gone(struct hdl_win *w);
/* The lock for which this process waits; NULL: none. */
extern const struct hdl_win *hdl_rma_waits_win;
extern const struct hdl_target *hdl_rma_waits_target;

/* ---- sync.c ---------------------------------------------------------------------------------------------------------- */

int hdl_win_barrier(struct hdl_win *w);

/* ---- helper.c -------------------------------------------------------------------------------------------------------- */

/* Starts the helper thread for one more window. Must be the last thing that a call of MPI does: from here on the lock of
 * runtime/threads.h is in use, and a call that began without the lock goes on without it. So an attribute
 * callback of MPI_Comm_dup that makes a window must not start the thread (hdl_win_help in mpi/win.h). */
void hdl_rma_helper_begin(void);
/* Must follow hdl_rma_helper_begin once. Opens the lock during the wait for the thread. */
void hdl_rma_helper_end(void);

/* ---- report.c -------------------------------------------------------------------------------------------------------- */

/* Prints a line for each window (HEDDLE_REPORT_TRANSPORTS). */
void hdl_win_report(const struct hdl_win *w);
/* Prints the holder of the lock for which this process waits, and since when: for hang reports. */
void hdl_rma_dump(FILE *out);

#endif
