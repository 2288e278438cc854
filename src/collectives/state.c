/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A communicator's state of collectives, and the process's variables for all communicators. The lowest file of this folder:
 * state.c and fault.c call upper files through hdl_coll_hooks, which the door (coll.c) sets.
 */
#include <stdlib.h>

#include "collectives/exec.h"
#include "collectives/queues/queues.h"

const struct hdl_executor_ops *hdl_executors[HDL_RUN_KINDS];
struct hdl_coll_hooks hdl_coll_hooks;
uint32_t hdl_coll_pending;
struct hdl_queues *hdl_queues_active;

struct hdl_cc *hdl_coll_state(struct hdl_comm *comm)
{
	struct hdl_cc *cc = comm->coll;

	if (likely(cc))
		return cc;
	cc = calloc(1, sizeof(*cc));
	comm->coll = cc;
	if (cc) {
		cc->comm = comm;
		hdl_coll_hooks.state_made(cc);
	}
	return cc;
}
