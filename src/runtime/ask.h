/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The hang report's questions from heddlerun to its ranks, and the ranks' answers: by PMIx alone, whose thread in each
 * rank answers even while the program computes. No signal and no handler is involved: these belong to the program.
 *
 *     heddlerun ── event HDL_ASK, twice ──▶ rank: a thread that waits in MPI sees the event, and answers
 *               ── event HDL_ASK_NOW ─────▶ rank: PMIx's thread answers if no thread has
 *               ◀── job control, HDL_ANSWER: a string ──
 *
 * An answer is lines: since when the rank waits (microseconds ago; 0: unknown), the call it is in, and any number of
 * details.
 */
#ifndef HDL_ASK_H
#define HDL_ASK_H

#include <pmix_common.h>

#define HDL_ASK (PMIX_EXTERNAL_ERR_BASE - 7101)
#define HDL_ASK_NOW (PMIX_EXTERNAL_ERR_BASE - 7102)
#define HDL_ANSWER "hdl.waits"

/* The key of a rank that has joined by MPI_Session_init, and waits for no other rank unless HDL_WORLD (runtime.h) comes, too. */
#define HDL_SESSION "hdl.session"

/* Event from the launcher, with PMIX_EVENT_AFFECTED_PROC: a rank's process has ended without MPI_Finalize, and the
 * remaining ranks go on (--on-death=continue). A code of the PMIx standard, as other launchers have it. */
#define HDL_RANK_ENDED PMIX_ERR_PROC_TERM_WO_SYNC

#endif
