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

/* Job control of a rank to heddlerun, a string: a namespace; this rank has made its first communicator with ranks of that
 * namespace, or has freed the last one. */
#define HDL_CONNECTED "hdl.connected"
#define HDL_DISCONNECTED "hdl.disconnected"

/* Job control, a number in decimal: the spawn (HDL_SPAWN_ID) for whose ranks the caller has stopped waiting. */
#define HDL_SPAWN_GIVEN_UP "hdl.given_up"

/* Directives of PMIx_Spawn: the caller's number of the spawn (PMIX_UINT64), and of a program the keys soft and path of MPI's
 * info (PMIX_STRING). */
#define HDL_SPAWN_ID "hdl.spawn"
#define HDL_SPAWN_SOFT "hdl.soft"
#define HDL_SPAWN_PATH "hdl.path"
/* Event from heddlerun, with HDL_SPAWN_ID and PMIX_EVENT_TEXT_MESSAGE: the spawn has failed, or its ranks have ended before they
 * had an intercommunicator with their parents. */
#define HDL_SPAWN_FAILED (PMIX_EXTERNAL_ERR_BASE - 7103)
/* The same event, ahead of the answer, if a program has HDL_SPAWN_SOFT: the text has the ranks of each program. */
#define HDL_SPAWN_RANKS (PMIX_EXTERNAL_ERR_BASE - 7105)
/* heddlerun's answer to PMIx_Spawn with HDL_SPAWN_ID in place of PMIX_SUCCESS: libpmix would send the description of the new
 * namespace along with that, and the caller's libpmix keeps some 50 KiB of tables for each for ever. */
#define HDL_SPAWN_STARTED (PMIX_EXTERNAL_ERR_BASE - 7104)

/* Event from the launcher, with PMIX_EVENT_AFFECTED_PROC: a rank's process has ended without MPI_Finalize, and the
 * remaining ranks go on (--on-death=continue). A code of the PMIx standard, as other launchers have it. */
#define HDL_RANK_ENDED PMIX_ERR_PROC_TERM_WO_SYNC

#endif
