/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which algorithm: a pure function of the shape's collective, size and ranks, so that all ranks choose alike, and of
 * HEDDLE_COLL_<COLLECTIVE>, which must be set alike on all ranks (heddlerun -x does).
 */
#ifndef HDL_TUNER_H
#define HDL_TUNER_H

#include "collectives/algorithms/algorithms.h"

const char *hdl_coll_name(enum hdl_coll coll);
/* The host executor's algorithm; never NULL. forced: a name, or NULL or "" for the table's choice; a forced algorithm
 * that does not fit the shape gives the table's choice. */
const struct hdl_algorithm *hdl_tune_host(const struct hdl_shape *s, const char *forced);
/* Up to so many ranks, each writes to every other: mailbox. */
#define HDL_MAILBOX_RANKS 16
/* Whether that is in two levels, and so short that the level of each host is better by itself (hierarchical.c). */
bool hdl_tune_hier(const struct hdl_shape *s, const char *forced);
const char *hdl_executor_name(enum hdl_executor executor);
/* Who computes a reduction on that executor; "-" for what reduces nothing. */
const char *hdl_reducer_name(enum hdl_coll coll, enum hdl_executor executor);
/* Whether a nonblocking collective goes to tasks rather than to mailbox, where both can do it. */
bool hdl_tune_prefers_tasks(enum hdl_coll coll, int size, size_t bytes);
/* Whether a blocking one of ranks that are too many for mailbox goes to tasks rather than to the host executor. */
bool hdl_tune_blocks_on_tasks(enum hdl_coll coll, size_t bytes);
/* Whose rows say from how many ranks and bytes on it does. */
struct hdl_crossing {
	enum hdl_coll coll;
	int min_ranks;
	size_t min_bytes;
};
extern const struct hdl_crossing hdl_tasks_from[];
extern const size_t hdl_ntasks_from;
/* The algorithm of mailbox or tasks. NULL: it has none for this collective. */
const struct hdl_algorithm *hdl_tune_offload(enum hdl_executor executor, const struct hdl_shape *s);
/* Whether the algorithm of tasks goes over pair links among all ranks, rather than over the tree's. */
bool hdl_tune_pairs(enum hdl_coll coll);
/* Checks a forced name: 0, or -EINVAL with *nearest a known name or NULL. */
int hdl_tune_check(enum hdl_coll coll, const char *forced, const char **nearest);

#endif
