/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Plans: a communicator's executor, graph and reason for a (collective, shape, form), chosen once and kept. A plan keeps the runs
 * that were given back for its next calls.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "collectives/exec.h"
#include "collectives/host/host.h"
#include "collectives/internal.h"
#include "collectives/queues/queues.h"
#include "collectives/select/select.h"

struct hdl_graph *hdl_plan_host_graph(struct hdl_plan *plan, struct hdl_comm *comm)
{
	/* in_order: a mailbox plan whose first calls run here must give the same bits on both executors */
	struct hdl_choice choice = { .executor = HDL_EXEC_HOST, .in_order = plan->executor == HDL_EXEC_MAILBOX,
				     .oversubscribed = plan->oversubscribed, .hosts = plan->hosts };

	if (!plan->graph)
		plan->graph = hdl_graph_of(&plan->key, &choice, comm->rank, comm->size);
	return plan->graph;
}

int hdl_run_to_host(struct hdl_run *run)
{
	struct hdl_graph *g = hdl_plan_host_graph(run->plan, run->comm);

	if (!g)
		return -ENOMEM;
	hdl_run_change_graph(run, g);
	return hdl_run_prepare_host(run);
}

void hdl_plan_put(struct hdl_plan *plan)
{
	if (--plan->refs)
		return;
	hdl_coll_count(plan);
	hdl_coll_uncount(plan);
	while (plan->spare) {
		struct hdl_run *run = plan->spare;

		plan->spare = run->next;
		hdl_run_free(run);
	}
	hdl_coll_prog_free(plan->prog);
	hdl_graph_free(plan->graph);
	hdl_graph_free(plan->offload_graph);
	free(plan);
}

int hdl_plan_choose(const struct hdl_plan_key *key, const struct hdl_comm *comm, struct hdl_comm_props *props,
		    struct hdl_choice *choice)
{
	int err = hdl_comm_props_of(comm, props);

	if (!err && comm->size <= HDL_HIER_RANKS && hdl_group_hosts(comm->group, &props->hosts))
		err = -ENOMEM;
	if (!err)
		err = hdl_choose(key, props, choice);
	errno = -err;
	return err;
}

/* Returns true if a reduction's calls of this plan must pack their elements. For other collectives coll_is_plan_of checks the
 * types of each call. */
static bool needs_packing(const struct hdl_plan_key *key, int ranks)
{
	MPI_Count blocks = key->coll == HDL_REDUCE_SCATTER ? ranks : 1;

	return key->type && !hdl_type_is_run(key->type, blocks * (MPI_Count)key->bytes / hdl_type_size(key->type));
}

static enum hdl_exec_kind plan_exec_of(const struct hdl_plan_key *key, const struct hdl_choice *choice)
{
	switch (choice->executor) {
	case HDL_EXEC_HOST: return HDL_RUN_HOST;
	case HDL_EXEC_TASKS: return HDL_RUN_TASKS;
	default: return choice->single_copy ? HDL_RUN_SINGLE_COPY :
			hdl_coll_is_vcoll((enum hdl_coll)key->coll) ? HDL_RUN_VECTOR : HDL_RUN_MAILBOX;
	}
}

static struct hdl_plan *plan_new(const struct hdl_plan_key *key, struct hdl_comm *comm)
{
	struct hdl_plan *plan = calloc(1, sizeof(*plan));
	struct hdl_choice choice;
	struct hdl_comm_props props;
	int err;

	if (!plan)
		return NULL;
	plan->key = *key;
	plan->refs = 1;
	err = hdl_plan_choose(key, comm, &props, &choice);
	if (err) {
		free(plan);
		errno = -err;
		return NULL;
	}
	hdl_coll_counted(plan);
	plan->executor = choice.executor;
	plan->exec = hdl_executors[plan_exec_of(key, &choice)];
	plan->enc = choice.enc;
	plan->pairs = choice.pairs;
	plan->oversubscribed = choice.oversubscribed;
	plan->cpus = (uint8_t)props.cpus;
	plan->hosts = choice.hosts;
	plan->in_phases = choice.in_phases;
	plan->leader = hdl_choose_leader(key, &props);
	memcpy(plan->why, choice.why, sizeof(plan->why));
	if (plan->executor != HDL_EXEC_HOST)
		plan->offload_graph = hdl_graph_of(key, &choice, comm->rank, comm->size);
	if (plan->executor != HDL_EXEC_HOST ? !plan->offload_graph :
	    !hdl_coll_is_vcoll((enum hdl_coll)key->coll) && !hdl_plan_host_graph(plan, comm)) {
		hdl_plan_put(plan);
		return NULL;
	}
	plan->in_order = key->blocking && plan->executor == HDL_EXEC_HOST && !plan->in_phases && plan->graph && !hdl_vars.check &&
			 hdl_host_can_inline(plan->graph) && !needs_packing(key, comm->size);
	plan->quick = plan->in_order || (plan->exec == hdl_executors[HDL_RUN_MAILBOX] && !needs_packing(key, comm->size));
	return plan;
}

/* Returns the first of the two cache entries of the key. */
static inline struct hdl_plan **plan_slot(struct hdl_cc *cc, const struct hdl_plan_key *key)
{
	uint64_t h = key->bytes ^ (uint64_t)key->coll << 56 ^ (uint64_t)key->blocking << 52 ^ (uint64_t)key->in_place << 51 ^
		     (uint64_t)key->persistent << 50 ^ (uint64_t)key->leader_phase << 49 ^
		     (uint64_t)((uint32_t)key->root + key->leader) << 40 ^ (uintptr_t)key->op << 32 ^
		     (uintptr_t)key->type << 16;

	_Static_assert(HDL_PLANS == 2 * 64, "six bits");
	return &cc->plans[h * 0x9e3779b97f4a7c15ULL >> 58 << 1];
}

static __attribute__((noinline)) struct hdl_plan *plan_make(struct hdl_cc *cc, const struct hdl_plan_key *key)
{
	struct hdl_plan **slot = plan_slot(cc, key), *plan = plan_new(key, cc->comm);

	if (!plan)
		return NULL;
	memset(cc->last, 0, sizeof(cc->last));
	if (slot[1])
		hdl_plan_put(slot[1]);
	slot[1] = slot[0];
	slot[0] = plan;
	return plan;
}

struct hdl_plan *hdl_plan_of(struct hdl_cc *cc, const struct hdl_plan_key *key)
{
	struct hdl_plan **slot = plan_slot(cc, key);

	for (int i = 0; i < 2; i++)
		if (slot[i] && hdl_plan_is_of(&slot[i]->key, key))
			return slot[i];
	return plan_make(cc, key);
}

struct hdl_run *hdl_plan_run(struct hdl_plan *plan, struct hdl_comm *comm)
{
	struct hdl_run *run = plan->spare;

	if (likely(run)) {
		plan->spare = run->next;
	} else {
		run = hdl_run_new(plan->executor != HDL_EXEC_HOST ? plan->offload_graph : plan->graph, comm);
		if (!run)
			return NULL;
		run->plan = plan;
	}
	if (unlikely(plan->exec->prepare(run))) {
		hdl_run_free(run);
		errno = ENOMEM;
		return NULL;
	}
	plan->refs++;
	plan->uses++;
	run->req = NULL;
	run->done = NULL;
	return run;
}

void hdl_plan_run_put(struct hdl_run *run)
{
	struct hdl_plan *plan = run->plan;

	if (unlikely(run->check)) {
		hdl_check_free(run->check);
		run->check = NULL;
	}
	run->no_data = false;
	run->next = plan->spare;
	plan->spare = run;
	hdl_plan_put(plan);
}
