/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The executor interface: each executor is a constant table of operations, and a plan points to the table of its executor.
 *
 *     hdl_exec_host         host/by_events.c          messages; runs never come to queues.c
 *     hdl_exec_mailbox      mailbox/fixed.c           one RDMA WRITE per pair of ranks and direction, into a cell of the peer's
 *                           slot; the operations are in mailbox/cell.c
 *     hdl_exec_vector       mailbox/vector_calls.c    mailbox, with blocks of different lengths (collectives of enum hdl_coll
 *                           from HDL_COLLS on); the operations are in mailbox/vector.c
 *     hdl_exec_single_copy  single_copy/single_copy.c one copy between the ranks' own buffers
 *     hdl_exec_tasks        tasks/post.c              a task list that the device carries out
 *
 * queues.c decides when an operation is posted, completed and retired; the table's functions do the work. Only the tables' own
 * files ask which executor an operation has. Two exceptions, for speed: coll.c calls hdl_queues_quick, and vector_calls.c
 * hdl_queues_quick_vcoll, directly.
 *
 *     state of an operation      accepted ─▶ posted ─▶ completed ─▶ retired
 *     table                      compile,    post      poll,        finish
 *                                region,               abort
 *                                has_room
 *
 * Files call downwards only (tests/unit/layers.sh): queues.c reaches the tables through the plan, and plan.c through
 * hdl_executors, in which the door (coll.c) registers them.
 */
#ifndef HDL_COLL_EXEC_H
#define HDL_COLL_EXEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "collectives/algorithms/algorithms.h"

struct hdl_coll_prog;
struct hdl_plan;
struct hdl_queues;
struct hdl_run;
struct hdl_vcoll;

struct hdl_executor_ops {
	const char *name;
	enum hdl_executor reducer;	/* executor whose order of operands reductions have: HOST: each rank reduces a part.
					 * MAILBOX: each rank with a result reduces all. TASKS: the device reduces */
	/* Reductions combine in another order than on the host executor: the communicator's first calls must not run on the host
	 * executor, so that each call gives the same bits. */
	bool own_order;

	/* Memory of a run. plan.c calls prepare when the run is taken for a call: allocates the memory that the run keeps for
	 * later calls; returns 0 or -ENOMEM. run.c calls free when the run is freed: frees the memory that prepare and post have
	 * allocated; NULL: the executor has allocated nothing beyond scratch. */
	int (*prepare)(struct hdl_run *run);
	void (*free)(struct hdl_run *run);

	/* Compilation of a plan for the communicator's queues, called by queues.c before the plan's first operation is posted.
	 * From here on all entries are NULL for the host executor. region: returns the index in hdl_queues.region of the
	 * operations' slots. compile: compiles the requests of an operation; returns NULL with errno (EOPNOTSUPP: the device
	 * cannot carry out such a graph). compile_barrier: the same for a slot barrier, in that class of slots; NULL: no slot
	 * barrier runs on this executor. */
	int (*region)(const struct hdl_queues *h, const struct hdl_plan *plan);
	struct hdl_coll_prog *(*compile)(struct hdl_queues *h, const struct hdl_plan *plan);
	struct hdl_coll_prog *(*compile_barrier)(struct hdl_queues *h, const struct hdl_plan *plan, uint8_t class);

	/* Posting an operation. has_room: returns true if each queue has room for the operation's requests. post: posts them;
	 * must: has_room, and a slot (queues.h, (a)); an error breaks the queues. */
	bool (*has_room)(struct hdl_queues *h, const struct hdl_coll_prog *prog);
	void (*post)(struct hdl_queues *h, struct hdl_run *run, const struct hdl_coll_prog *prog);
	/* poll: does all work that is possible now; returns true if the operation waits for no other rank. has_more: returns true
	 * if poll has returned false only because the operation's share of a turn is used up; NULL: never. */
	bool (*poll)(struct hdl_queues *h, struct hdl_run *run, const struct hdl_coll_prog *prog);
	bool (*has_more)(const struct hdl_run *run);
	/* finish: called after poll has returned true: copies the result to the user's buffer, or gives the run an error; NULL:
	 * poll has done so. */
	void (*finish)(struct hdl_queues *h, struct hdl_run *run, const struct hdl_coll_prog *prog);
	/* abort: the queues are broken; withdraws messages. Returns true if no message of the operation uses a user's buffer;
	 * NULL: the executor sends no messages. */
	bool (*abort)(struct hdl_queues *h, struct hdl_run *run);

	/* Waiting. await: polls for a bounded time, as long as ranks take that enter the call at the same time; returns as poll;
	 * NULL: does not pay. by_device: returns true if the operation waits for the queues only, so that polling these is
	 * enough; NULL: never. needs_cpu: returns true if the operation waits for a rank that may need this rank's CPU; with
	 * by_device. end_at_once: returns true if a blocking operation that was just posted has already ended, so that it can be
	 * retired; NULL: not tried. */
	bool (*await)(struct hdl_run *run, const struct hdl_coll_prog *prog);
	bool (*by_device)(const struct hdl_run *run);
	bool (*needs_cpu)(struct hdl_queues *h, const struct hdl_run *run);
	bool (*end_at_once)(struct hdl_queues *h, struct hdl_run *run, const struct hdl_coll_prog *prog);

	/* Hands the run over to the host executor, which finishes the run, where queues or a region were refused. Returns false
	 * if there is no memory. NULL: the host executor runs the plan's host graph. */
	bool (*to_host)(struct hdl_run *run);
	/* A blocking operation that hdl_queues_quick_vcoll posted has not ended in that call: prepares the run for later
	 * turns. */
	void (*go_on)(struct hdl_run *run, const struct hdl_vcoll *a);
};

extern const struct hdl_executor_ops hdl_exec_host, hdl_exec_mailbox, hdl_exec_vector, hdl_exec_single_copy, hdl_exec_tasks;

enum hdl_exec_kind { HDL_RUN_HOST, HDL_RUN_MAILBOX, HDL_RUN_VECTOR, HDL_RUN_SINGLE_COPY, HDL_RUN_TASKS, HDL_RUN_KINDS };
/* The tables, as hdl_coll_init registers them. */
extern const struct hdl_executor_ops *hdl_executors[HDL_RUN_KINDS];

#endif
