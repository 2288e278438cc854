/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tables that choose the algorithm: a pure function of the shape (collective, bytes, number and placement of ranks), so that
 * all ranks choose alike, and of HEDDLE_COLL_<COLLECTIVE>, which must be the same on all ranks (heddlerun -x exports it).
 */
#ifndef HDL_TUNER_H
#define HDL_TUNER_H

#include "collectives/algorithms/algorithms.h"

/* The host executor's algorithm; never NULL. forced: a name; NULL or "" for the table's choice. A forced algorithm that does
 * not fit the shape is replaced by the table's choice. */
const struct hdl_algorithm *hdl_tune_host(const struct hdl_shape *s, const char *forced);
/* Most ranks of the mailbox executor, in which each rank writes to each other. */
#define HDL_MAILBOX_RANKS 16
/* Returns true if the choice is two-level and the collective is so short that its node phases run as collectives of their own
 * (host/hierarchical.c). */
bool hdl_tune_hier(const struct hdl_shape *s, const char *forced);
const char *hdl_executor_name(enum hdl_executor executor);
/* The report's word for the reducer on this executor: ranks, owner or device; "-" if the collective does not reduce. */
const char *hdl_reducer_name(enum hdl_coll coll, enum hdl_executor executor);
/* Returns true if a nonblocking collective that both mailbox and tasks can run goes to tasks. */
bool hdl_tune_prefers_tasks(enum hdl_coll coll, int size, size_t bytes);
/* Returns true if a blocking collective of more than HDL_MAILBOX_RANKS ranks goes to tasks rather than to the host executor. */
bool hdl_tune_blocks_on_tasks(enum hdl_coll coll, size_t bytes);
/* A row of hdl_tune_prefers_tasks: from that many ranks and bytes on the choice is tasks. */
struct hdl_crossing {
	enum hdl_coll coll;
	int min_ranks;
	size_t min_bytes;
};
extern const struct hdl_crossing hdl_tasks_from[];
extern const size_t hdl_ntasks_from;
/* The algorithm of mailbox or tasks. NULL: the executor has none for this shape. */
const struct hdl_algorithm *hdl_tune_offload(enum hdl_executor executor, const struct hdl_shape *s);
/* Returns true if the tasks algorithm uses pair links among all ranks, rather than the tree's links. */
bool hdl_tune_pairs(enum hdl_coll coll);
/* Checks a forced name. Returns 0, or -EINVAL with *nearest a similar known name or NULL. */
int hdl_tune_check(enum hdl_coll coll, const char *forced, const char **nearest);

#endif
