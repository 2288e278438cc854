/* SPDX-License-Identifier: BSD-3-Clause */
/* Internal header of select/: the choice of executor and algorithm, the check of calls (HEDDLE_CHECK=1), and the report. */
#ifndef HDL_COLL_SELECT_H
#define HDL_COLL_SELECT_H

#include "collectives/internal.h"

/* ---- choose.c: which executor, and why ---------------------------------------------------------------------- */

/* Properties of a communicator that are the same on all its ranks. A promise is true if the devices of all members make it
 * (hdl_comm_promises): the devices need not be alike. */
struct hdl_comm_props {
	int size;
	bool one_host;			/* all ranks are on this one */
	const struct hdl_hosts *hosts;	/* the ranks of each host, if there are several hosts; NULL: one host, or not known */
	bool oversubscribed;		/* ranks outnumber cores */
	int cpus;			/* oversubscribed, one host: the CPUs that the ranks share, at most HDL_MAILBOX_RANKS, by
					 * which single_copy/reduce.c selects the ranks that reduce; 0: each rank has a CPU */
	bool rc;			/* RC queues are allowed */
	const char *device;		/* name of the device whose port connects the ranks of this host; NULL: no device */
	bool wakes;			/* the device wakes its process when a peer's write lands */
	bool at_once;			/* the device promises that a write has landed when its post returns */
	bool exposes;			/* the device lets peers read and write all memory of the process */
	const struct hdl_reduce_caps *reduce_caps;	/* of the device; NULL: the device runs no task lists */
};

/* Settings that every rank must share. The ranks exchange them at bring-up and compare them with memcmp: the struct must have no
 * padding. */
struct hdl_agreed_config {
	uint64_t mailbox_max, bcast_mailbox_max, tasks_max, single_copy_min;
	struct ibv_exp_device_calc_cap calc;
	uint32_t depth, radix, offload_ranks;
	uint8_t executor_forced, reduce_order_fixed, oversubscribed, rc, wakes, at_once, exposes, tasks, vector, atomics;
	uint8_t cpus;			/* hdl_comm_props.cpus */
	uint8_t reserved;
};

struct hdl_choice {
	enum hdl_executor executor;
	bool single_copy;		/* mailbox: copies between the ranks' buffers (single_copy.c) */
	bool pairs;			/* tasks: among all pairs of ranks */
	bool oversubscribed;		/* host: the ranks share the cores of one host */
	bool in_order;			/* host: a reduction gives the same bits as on mailbox */
	const struct hdl_hosts *hosts;	/* host: the hosts that a two-level algorithm may use; NULL: none */
	bool in_phases;			/* host: node phase and leader phase are collectives of their own, the node phase on any
					 * executor (host/hierarchical.c) */
	struct hdl_enc enc;		/* tasks: encoding of a reduction for the device */
	char why[112];
};

/* In the order of the names of HEDDLE_COLL_EXECUTOR. */
enum hdl_executor_choice { HDL_FORCED_AUTO, HDL_FORCED_HOST, HDL_FORCED_MAILBOX, HDL_FORCED_TASKS };
extern enum hdl_executor_choice hdl_executor_forced;

/* Checks the configuration and prints an error if invalid. Returns 0 or -EINVAL. */
int hdl_choose_init(void);
/* Chooses executor and algorithm. Returns 0, or -ENOMEM if this rank alone cannot find out the choice of all ranks. */
int hdl_choose(const struct hdl_plan_key *key, const struct hdl_comm_props *props, struct hdl_choice *out);
void hdl_agreed_config_of(const struct hdl_comm_props *props, struct hdl_agreed_config *out);
/* Writes the first setting in which the two differ to `out`, for the parameter `what` of hdl_queues_note_reason. */
void hdl_agreed_config_difference(const struct hdl_agreed_config *mine, const struct hdl_agreed_config *theirs, char *out,
				  size_t room);
/* Returns 1 + the rank for which the other ranks wait in this collective, where ranks share cores; 0: none. That rank leads a
 * Barrier that follows, and so leaves the Barrier first. Without a leader:
 *     1. The last rank that enters the Barrier continues at once; earlier ranks of its core need the CPU first.
 *     2. In the next such collective the last rank waits for one of these, and two context switches have been wasted. */
uint8_t hdl_choose_leader(const struct hdl_plan_key *key, const struct hdl_comm_props *props);
/* Builds a rank's graph. Returns NULL with errno. */
struct hdl_graph *hdl_graph_of(const struct hdl_plan_key *key, const struct hdl_choice *choice, int rank, int size);

/* ---- tuner.c -------------------------------------------------------------------------------------------------------- */

/*
 * Tables that choose the algorithm: a pure function of the shape (collective, bytes, number and placement of ranks), so that
 * all ranks choose alike, and of HEDDLE_COLL_<COLLECTIVE>, which must be the same on all ranks (heddlerun -x exports it).
 */
/* The host executor's algorithm; never NULL. forced: a name; NULL or "" for the table's choice. A forced algorithm that does
 * not fit the shape is replaced by the table's choice. */
const struct hdl_algorithm *hdl_tune_host(const struct hdl_shape *s, const char *forced);
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

/* ---- check.c -------------------------------------------------------------------------------------------------------- */

/*
 * HEDDLE_CHECK=1: before a collective runs, its ranks compare their calls and the signatures of all data that they exchange.
 * On a mismatch the collective fails on all ranks with a text that names two of them. All collectives run on the host executor
 * then.
 */
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

/* ---- report.c ---------------------------------------------------------------------------------------------- */

void hdl_coll_count(const struct hdl_plan *plan);
void hdl_coll_report(FILE *out);
void hdl_coll_report_free(void);

/* ---- counters.c ----------------------------------------------------------------------------------------------------- */

/* Lists a new plan, so that its uses are counted; hdl_coll_uncount keeps the counts of a plan that is freed. */
void hdl_coll_counted(struct hdl_plan *plan);
void hdl_coll_uncount(struct hdl_plan *plan);

#endif
