/* SPDX-License-Identifier: BSD-3-Clause */
/* Counters of the collectives by name, for performance variables. Plans count their uses; this file adds the plans up. */
#include "collectives/exec.h"
#include "collectives/internal.h"
#include "collectives/queues/queues.h"
#include "collectives/select/select.h"

enum { ON_HOST, ON_MAILBOX, ON_SINGLE_COPY, ON_TASKS, FELL_BACK, LATE, WAITS, ENABLES, CALCS, COUNTERS };

static const struct hdl_counter table[COUNTERS] = {
	[ON_HOST] = { "collectives_on_host", "Collectives that the host executor ran, by messages", false },
	[ON_MAILBOX] = { "collectives_on_mailbox", "Collectives that the mailbox executor ran, by RDMA writes into cells",
			 false },
	[ON_SINGLE_COPY] = { "collectives_by_single_copy", "Collectives that ranks ran by copies between their buffers", false },
	[ON_TASKS] = { "collectives_on_tasks", "Collectives that the device ran as task lists", false },
	[FELL_BACK] = { "collectives_fallen_back", "Collectives of mailbox or tasks that the host executor ran in their place",
			false },
	[LATE] = { "collectives_late", "Offloaded collectives that waited in the library for a slot", false },
	[WAITS] = { "collective_waits", "WAIT requests of collectives that the device ran as task lists", false },
	[ENABLES] = { "collective_enables", "SEND_ENABLE and RECV_ENABLE requests of such collectives", false },
	[CALCS] = { "collective_calcs", "Requests with a CALC of such collectives", false },
};

static struct hdl_plan *all;
static uint64_t gone[COUNTERS];		/* of plans that were freed */

/* Adds the requests of `times` task lists of a plan. */
static void add_tasks(const struct hdl_coll_prog *prog, uint64_t times, uint64_t sum[COUNTERS])
{
	for (uint32_t i = 0; i < prog->nwrs; i++) {
		enum ibv_exp_wr_opcode op = prog->wrs[i].exp_opcode;

		if (op == IBV_EXP_WR_CQE_WAIT)
			sum[WAITS] += times;
		else if (op == IBV_EXP_WR_SEND_ENABLE || op == IBV_EXP_WR_RECV_ENABLE)
			sum[ENABLES] += times;
		else if (prog->wrs[i].exp_send_flags & IBV_EXP_SEND_WITH_CALC)
			sum[CALCS] += times;
	}
}

static void plan_add(const struct hdl_plan *plan, uint64_t sum[COUNTERS])
{
	static const uint8_t by_kind[HDL_RUN_KINDS] = { [HDL_RUN_HOST] = ON_HOST, [HDL_RUN_MAILBOX] = ON_MAILBOX,
							[HDL_RUN_VECTOR] = ON_MAILBOX, [HDL_RUN_SINGLE_COPY] = ON_SINGLE_COPY,
							[HDL_RUN_TASKS] = ON_TASKS };
	uint64_t back = plan->executor == HDL_EXEC_HOST ? 0 : plan->fallbacks;
	int kind = 0;

	if (plan->key.internal || !plan->exec)
		return;
	while (kind < HDL_RUN_KINDS - 1 && hdl_executors[kind] != plan->exec)
		kind++;
	sum[by_kind[kind]] += plan->uses - back;
	sum[ON_HOST] += back;
	sum[FELL_BACK] += back;
	sum[LATE] += plan->late;
	if (plan->prog && by_kind[kind] == ON_TASKS)
		add_tasks(plan->prog, plan->uses - back, sum);
}

void hdl_coll_counted(struct hdl_plan *plan)
{
	plan->next_all = all;
	if (all)
		all->link_all = &plan->next_all;
	plan->link_all = &all;
	all = plan;
}

void hdl_coll_uncount(struct hdl_plan *plan)
{
	plan_add(plan, gone);
	*plan->link_all = plan->next_all;
	if (plan->next_all)
		plan->next_all->link_all = plan->link_all;
}

const struct hdl_counter *hdl_coll_counter(unsigned i)
{
	return i < COUNTERS ? &table[i] : NULL;
}

uint64_t hdl_coll_counter_read(unsigned i)
{
	uint64_t sum[COUNTERS];

	memcpy(sum, gone, sizeof(sum));
	for (const struct hdl_plan *p = all; p; p = p->next_all)
		plan_add(p, sum);
	return sum[i];
}
