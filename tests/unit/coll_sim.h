/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Runs the graphs of all ranks of a collective against each other in one process: a reference interpreter that shares
 * nothing with the executors. Which runnable node comes next is drawn at random.
 */
#ifndef COLL_SIM_H
#define COLL_SIM_H

#include "collectives/algorithms/algorithms.h"

enum sim_mode {
	SIM_ANY_ORDER,		/* any order that the dependences allow */
	SIM_PROGRAM_ORDER,	/* each rank in the algorithm's order, receives block, sends do not: the blocking path */
};

struct sim_rank {
	struct hdl_graph *g;
	char *space[HDL_SPACES];
};

/* Returns NULL, or the error (deadlock, unmatched message, length mismatch). */
const char *sim_run(struct sim_rank *ranks, int n, enum sim_mode mode, const struct hdl_enc *enc, unsigned seed);

#endif
