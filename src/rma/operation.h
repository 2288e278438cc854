/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside of src/rma: operations on a target and their parts. */
#ifndef HDL_RMA_OPERATION_H
#define HDL_RMA_OPERATION_H

#include "rma/target.h"

/* ---- request.c ------------------------------------------------------------------------------------------------------- */

/* A part of an operation has ended. class: an MPI error class. */
void hdl_rma_part_ended(struct hdl_target *t, struct hdl_rma_group *g, int class);

/* ---- move.c ---------------------------------------------------------------------------------------------------------- */

/* Checks the displacement. Returns MPI_ERR_DISP or MPI_ERR_RMA_RANGE. *offset: of the target buffer from the member's base. */
int hdl_rma_range(const struct hdl_win *w, const struct hdl_target *t, const struct hdl_rma_args *a, int64_t *offset);
/* Moves `bytes` between buf and the member's memory at `address` (the owner's) and returns when that is complete. Waits with the
 * lock of runtime/threads.h open, also under a hashed lock: a thread that wants the same one waits in the same way. */
int hdl_rma_move_now(struct hdl_win *w, struct hdl_target *t, bool put, uint64_t address, void *buf, size_t bytes);

/* ---- acc.c ----------------------------------------------------------------------------------------------------------- */

/* Carries an accumulate out by this process's CPU. compare: packed; NULL: no compare-and-swap. offset: of the target buffer from
 * the member's base. Must: the window is mapped; of a dynamic window the regions are known (hdl_region_find). */
int hdl_acc_by_cpu(struct hdl_win *w, struct hdl_target *t, const struct hdl_acc_args *a, const struct hdl_type *base,
		   const char *compare, int64_t offset);

/* ---- acc_origin.c ---------------------------------------------------------------------------------------------------- */

/* Begins an accumulate by messages. offset: of the target buffer from the member's base (hdl_rma_range). */
int hdl_rma_msg_accumulate(struct hdl_win *w, struct hdl_target *t, const struct hdl_acc_args *a, const void *compare,
			   int64_t offset, struct hdl_rma_group *g);
/* The target's process has failed: ends its accumulates. */
void hdl_acc_origin_fail(struct hdl_target *t);
/* Frees the accumulates to a target that are not complete. */
void hdl_acc_origin_drop(struct hdl_target *t);
/* Registers the handler of RESULT. Returns 0 or a negative errno. */
int hdl_acc_origin_init(void);

/* ---- acc_target.c ---------------------------------------------------------------------------------------------------- */

/* Answers the pieces that wait here, of all members: MPI_Win_free of this process ends though a member has failed, and the
 * others go on. A send may take arrivals in, which may carry pieces out. */
void hdl_acc_target_gone(struct hdl_win *w);
/* Frees the pieces of a member that wait here. */
void hdl_acc_target_drop(struct hdl_target *t);
/* Registers the handler of ACC. Returns 0 or a negative errno. */
int hdl_acc_target_init(void);

#endif
