/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * HEDDLE_CHECK=1: before a collective runs, its ranks tell each other what they call, and what they send each other; where that does
 * not fit, it fails on all of them with a text that names two ranks. The host executor runs all then.
 */
#ifndef HDL_COLL_CHECK_H
#define HDL_COLL_CHECK_H

#include "collectives/internal.h"

enum hdl_form_kind { HDL_BLOCKS, HDL_STARTS, HDL_PERSISTS };

struct hdl_check;

/* What this rank says of a call: kept with its run (hdl_run.check), freed with it. NULL: no memory, and nobody would know: the call
 * fails. */
struct hdl_check *hdl_check_args(struct hdl_comm *comm, const struct hdl_coll_args *args, enum hdl_form_kind form);
struct hdl_check *hdl_check_vcoll(struct hdl_comm *comm, const struct hdl_vcoll *args, enum hdl_form_kind form);
/* Compares; then the run starts on the host executor, or fails. It has its tag. */
void hdl_check_start(struct hdl_run *run);
/* Compares as the communicator's next collective, and waits for that: the call that makes a persistent one. MPI error class. Frees it. */
int hdl_check_agree(struct hdl_check *check, struct hdl_comm *comm);
void hdl_check_free(struct hdl_check *check);

#endif
