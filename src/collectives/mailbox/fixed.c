/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of the executor mailbox for blocks of one length. cell.c has the operations; tasks/compile.c turns a graph into
 * requests. */
#include "collectives/mailbox/mailbox.h"
#include "collectives/queues/queues.h"

struct hdl_coll_prog *hdl_mailbox_compile(struct hdl_queues *h, const struct hdl_plan *plan)
{
	return hdl_task_compile(h, plan->offload_graph, plan->key.bytes, &plan->enc, hdl_coll_synchronizes(plan->key.coll));
}

const struct hdl_executor_ops hdl_exec_mailbox = {
	.name = "mailbox",
	.reducer = HDL_EXEC_MAILBOX,
	.prepare = hdl_run_prepare_tmp,
	.region = hdl_cell_region,
	.compile = hdl_mailbox_compile,
	.compile_barrier = hdl_slot_barrier_compile,
	.has_room = hdl_cell_has_room,
	.post = hdl_cell_post,
	.poll = hdl_cell_poll,
	.finish = hdl_cell_take,
	.await = hdl_cell_await,
};
