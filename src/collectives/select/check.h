/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * HEDDLE_CHECK=1: before a collective runs, its ranks compare their calls and the signatures of all data that they exchange.
 * On a mismatch the collective fails on all ranks with a text that names two of them. All collectives run on the host executor
 * then.
 */
#ifndef HDL_COLL_CHECK_H
#define HDL_COLL_CHECK_H

#include "collectives/internal.h"

enum hdl_form_kind { HDL_BLOCKS, HDL_STARTS, HDL_PERSISTS };

struct hdl_check;

/* The description of this rank's call. Ownership: the run (hdl_run.check) keeps and frees the description. NULL: no memory;
 * the call must fail, since the other ranks would miss this rank's record. */
struct hdl_check *hdl_check_args(struct hdl_comm *comm, const struct hdl_coll_args *args, enum hdl_form_kind form);
struct hdl_check *hdl_check_vcoll(struct hdl_comm *comm, const struct hdl_vcoll *args, enum hdl_form_kind form);
/* Compares the calls, then starts or fails the run on the host executor. Must: the run has a tag. */
void hdl_check_start(struct hdl_run *run);
/* Compares as the communicator's next collective and blocks until that has ended: for the call that makes a persistent
 * request. Frees `check`. Returns an MPI error class. */
int hdl_check_agree(struct hdl_check *check, struct hdl_comm *comm);
void hdl_check_free(struct hdl_check *check);

#endif
