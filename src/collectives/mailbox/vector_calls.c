/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls of v-collectives, and of reductions by user-defined operations, on mailbox: the plan, the fast path of blocking calls,
 * persistent requests, and the executor's table. vector.c has the operation.
 */
#include <stdlib.h>
#include <string.h>

#include "collectives/select/select.h"
#include "collectives/mailbox/mailbox.h"

/* ---- entry ----------------------------------------------------------------------------------------------------------- */

static void vector_ended(struct hdl_run *run)
{
	hdl_vector_put_away(run->vector);
	if (run->req)
		hdl_coll_complete(run);
}

bool hdl_vector_to_host(struct hdl_run *run)
{
	return hdl_vcoll_instead(run, &run->vector->a);
}

static uint32_t ranks_in(const int *list, int n, int me)
{
	uint32_t mask = 0;

	for (int i = 0; i < n; i++)
		if (list[i] != MPI_PROC_NULL && list[i] != me)
			mask |= 1u << list[i];
	return mask;
}

/* The collective by which mailbox runs these arguments. */
static enum hdl_coll vector_kind_of(const struct hdl_vcoll *a)
{
	switch (a->coll) {
	case HDL_V_GATHER: return HDL_GATHERV;
	case HDL_V_SCATTER: return HDL_SCATTERV;
	case HDL_V_NEIGHBORS: return HDL_NEIGHBORS;
	case HDL_V_REDUCE: return HDL_VREDUCE;
	case HDL_V_ALLREDUCE: return HDL_VALLREDUCE;
	case HDL_V_REDUCE_SCATTER: return HDL_VREDUCE_SCATTER;
	case HDL_V_SCAN: return HDL_VSCAN;
	case HDL_V_EXSCAN: return HDL_VEXSCAN;
	default: return a->nin == 1 ? HDL_ALLGATHERV : HDL_ALLTOALLV;
	}
}

/* The longest block, if all ranks know all lengths; else 0. */
static size_t longest(const struct hdl_vcoll *a, enum hdl_coll coll, int size)
{
	MPI_Count most = a->counts ? 0 : a->count;

	if (coll == HDL_ALLGATHERV)
		return hdl_vcoll_most(a->out, a->nout);
	if (!hdl_coll_is_vreduce(coll))
		return 0;
	if (coll != HDL_VREDUCE_SCATTER)
		return hdl_vcoll_block_bytes(&a->in[0]);
	for (int i = 0; a->counts && i < size; i++)
		most = a->counts[i] > most ? a->counts[i] : most;
	return (size_t)most * (size_t)hdl_type_size(a->type);
}

/* Makes the plan's key. Returns 0 or a negative errno of this rank's alone, also in errno. */
static int vector_key_of(const struct hdl_comm *comm, const struct hdl_vcoll *a, enum hdl_form_kind form,
			 struct hdl_plan_key *key)
{
	int promises = hdl_comm_promises(comm);
	struct hdl_comm_props props;
	enum hdl_coll coll = vector_kind_of(a);

	if (promises < 0) {
		errno = -promises;
		return promises;
	}
	props = (struct hdl_comm_props){
		.size = comm->size,
		.oversubscribed = promises & HDL_COMM_OVERSUBSCRIBED || hdl_job.oversubscribed,
		.exposes = promises & HDL_PROMISES_EXPOSES,
	};
	*key = (struct hdl_plan_key){
		.coll = (uint8_t)coll,
		.root = hdl_coll_has_root(coll) ? a->root : 0,
		.blocking = form == HDL_BLOCKS,
		.persistent = form == HDL_PERSISTS,
		.op = MPI_OP_NULL,
		.bytes = hdl_vector_cell_max(coll, longest(a, coll, comm->size),
					     hdl_vector_copied(&props, form == HDL_PERSISTS)),
	};

	if (coll == HDL_NEIGHBORS) {
		key->to = ranks_in(a->to, a->nto, comm->rank);
		key->from = ranks_in(a->from, a->nout, comm->rank);
	}
	return 0;
}

/* Returns true if a plan is made for this communicator and collective. */
static bool vector_possible(const struct hdl_comm *comm, const struct hdl_vcoll *a)
{
	return !comm->local && comm->size > 1 && comm->size <= HDL_MAILBOX_RANKS && a->coll <= HDL_V_EXSCAN && !hdl_vars.check &&
	       hdl_vector_reduces_by(a->op != MPI_OP_NULL && hdl_op_get(a->op));
}

/* Revokes the communicator, and sets the reason. err: a positive errno, the cause. Returns its MPI error class. */
static int vector_unable(struct hdl_comm *comm, const struct hdl_plan *plan, int err)
{
	int error = hdl_coll_unable(comm, err);

	hdl_reason_set("%s: %s%s", plan ? hdl_coll_name((enum hdl_coll)plan->key.coll) : "collective", hdl_ft_lacks(err),
		       err == ENOMEM ? " for its blocks" : "");
	return error;
}

bool hdl_vector_begin(struct hdl_comm *comm, const struct hdl_vcoll *a, struct hdl_req **req, int *rc)
{
	struct hdl_plan_key key;
	struct hdl_plan *plan;
	struct hdl_run *run;
	struct hdl_cc *cc;
	int err;

	if (!vector_possible(comm, a))
		return false;
	cc = hdl_coll_state(comm);
	plan = cc && !vector_key_of(comm, a, req ? HDL_STARTS : HDL_BLOCKS, &key) ? hdl_plan_of(cc, &key) : NULL;
	if (!plan) {
		*rc = vector_unable(comm, NULL, errno);
		return true;
	}
	/* as for every blocking collective: a later Barrier depends on the last plans, and all ranks know the sequence of
	 * calls */
	if (!req) {
		cc->leader = plan->leader;
		cc->last[plan->key.coll] = plan;
	}
	if (plan->executor == HDL_EXEC_HOST || (!req && a->op == MPI_OP_NULL && hdl_plan_is_early(cc, plan))) {
		plan->uses++;
		if (plan->executor != HDL_EXEC_HOST)
			hdl_plan_fell_back(plan, HDL_EARLY);
		return false;
	}
	run = hdl_plan_run(plan, comm);
	err = run ? ENOMEM : errno;
	if (run && req)
		*req = run->req = hdl_req_new(comm);
	if (!run || (req && !*req) || !hdl_vector_setup(run, comm, a, req)) {
		if (run && req && *req) {
			hdl_req_complete(*req, MPI_ERR_NO_MEM);
			hdl_req_free(*req);
			*req = NULL;
		}
		*rc = vector_unable(comm, plan, err);
		if (run && run->vector)
			hdl_vector_put_away(run->vector);
		if (run)
			hdl_plan_run_put(run);
		return true;
	}
	run->args.coll = (enum hdl_coll)plan->key.coll;
	hdl_run_begin(run);
	run->done = vector_ended;
	if (req)
		run->req->look = hdl_queues_look;
	hdl_vector_take_own(run, comm, a);
	hdl_coll_submit(run);
	*rc = req ? MPI_SUCCESS : hdl_coll_end(run);
	return true;
}

/* ---- fast path: hdl_queues_quick_vcoll --------------------------------------------------------------------------------- */

static inline bool fits_cells(const struct hdl_vcoll_block *p, int n, size_t cell)
{
	for (const struct hdl_vcoll_block *end = p + n; p < end; p++)
		if (!hdl_type_is_contiguous(p->type) || hdl_vcoll_block_bytes(p) > cell)
			return false;
	return true;
}

/*
 * Returns true if the plan serves these arguments, and all their blocks fit its cells, are contiguous and match. Where the
 * plan depends on lengths, one plan serves all that fit medium cells; longer ones have no fast path.
 */
static inline bool vector_is_plan_of(const struct hdl_plan *plan, const struct hdl_comm *comm, const struct hdl_vcoll *a)
{
	const struct hdl_vcoll_block *in, *out;

	return (a->coll == HDL_V_EXCHANGE || plan->key.root == a->root) &&
	       fits_cells(a->in, a->nin, plan->key.bytes) && fits_cells(a->out, a->nout, plan->key.bytes) &&
	       (!hdl_vcoll_own(a, comm->rank, &in, &out) || hdl_vcoll_block_bytes(in) == hdl_vcoll_block_bytes(out));
}

bool hdl_vector_quick(struct hdl_comm *comm, const struct hdl_vcoll *a, int *rc)
{
	struct hdl_cc *cc = comm->coll;
	struct hdl_plan *plan = cc && a->coll <= HDL_V_EXCHANGE ? cc->last[vector_kind_of(a)] : NULL;

	/* a plan of the host executor has no runs */
	if (!plan || !plan->spare || unlikely(cc->lost) || !vector_is_plan_of(plan, comm, a) ||
	    !hdl_queues_quick_vcoll(cc, plan->spare, a))
		return false;
	*rc = hdl_coll_end_quick(cc, plan);
	return true;
}

void hdl_vector_go_on(struct hdl_run *run, const struct hdl_vcoll *a)
{
	hdl_vector_setup(run, run->comm, a, false);
	run->vector->prog = run->plan->prog;
	run->tag = hdl_coll_tag(((struct hdl_cc *)run->comm->coll)->seq);
	run->req = NULL;
	run->done = vector_ended;
}

/* ---- persistent: the request keeps the run, the lists and the cells ---------------------------------------------------- */

static int vector_begin_again(struct hdl_req *req, void *arg)
{
	struct hdl_run *run = arg;
	struct hdl_vector_run *x = run->vector;

	hdl_run_again(run, req);
	if (unlikely(((struct hdl_cc *)run->comm->coll)->lost)) {
		hdl_run_error(run, MPI_ERR_PROC_ABORTED);
		hdl_run_finish(run);
		return MPI_SUCCESS;
	}
	x->cells_read = false;
	for (uint32_t i = 0; i < x->nrecvs; i++)
		x->recvs[i].cell_read = false;
	/* cannot fail: both have their memory since hdl_vector_setup */
	hdl_vector_copy_out(x, run->plan->key.bytes);
	if (x->reduces)
		hdl_vector_copy_operand(x, run->comm, &x->a);
	hdl_vector_take_own(run, run->comm, &x->a);
	hdl_pcoll_start(run->pcoll);
	return MPI_SUCCESS;
}

static void vector_put_persistent(void *arg)
{
	struct hdl_run *run = arg;

	if (run->pcoll)
		hdl_pcoll_free(run->pcoll);
	run->pcoll = NULL;
	hdl_vector_put_away(run->vector);
	hdl_plan_run_put(run);
}

static struct hdl_most vector_most_of(const struct hdl_vcoll *a, size_t cell)
{
	struct hdl_most most = { 0 };

	for (int i = 0; i < a->nin + a->nout; i++) {
		size_t bytes = hdl_vcoll_block_bytes(i < a->nin ? &a->in[i] : &a->out[i - a->nin]);

		most.any |= bytes != 0;
		if (bytes <= cell && bytes > most.fits)
			most.fits = (uint32_t)bytes;
	}
	return most;
}

/*
 * The plan of a persistent operation. The cells exist as long as the request: they hold the longest block of any rank that fits a
 * cell. *rc: MPI error class. *none: all blocks are messages, which cells would only announce.
 */
static struct hdl_plan *persistent_plan(struct hdl_comm *comm, const struct hdl_vcoll *a, struct hdl_plan_key key, int *rc,
					bool *none)
{
	struct hdl_most most = { 0 };
	size_t room;

	/* known lengths are the same on all ranks, and fit */
	if (hdl_vector_known((enum hdl_coll)key.coll)) {
		most.fits = (uint32_t)longest(a, (enum hdl_coll)key.coll, comm->size);
	} else {
		most = vector_most_of(a, key.bytes);
		*rc = hdl_pcoll_agree(comm->coll, key.coll, &most);
	}
	*none = !most.fits && most.any;
	if (*rc || *none)
		return NULL;
	/* rounded up to whole cells, so that requests of similar lengths share a plan */
	room = hdl_cell_bytes(most.fits) - HDL_CELL_TRAILER;
	key.bytes = room < key.bytes ? room : key.bytes;
	return hdl_plan_of(comm->coll, &key);
}

bool hdl_vector_prepare(struct hdl_comm *comm, const struct hdl_vcoll *a, struct hdl_req **req, int *rc)
{
	struct hdl_plan *plan = NULL;
	struct hdl_run *run = NULL;
	struct hdl_choice choice;
	struct hdl_plan_key key;
	struct hdl_comm_props props;
	bool none = false;

	if (!vector_possible(comm, a))
		return false;
	*rc = MPI_SUCCESS;
	if (hdl_coll_state(comm) && !vector_key_of(comm, a, HDL_PERSISTS, &key) &&
	    !hdl_plan_choose(&key, comm, &props, &choice)) {
		if (choice.executor == HDL_EXEC_HOST)
			return false;
		plan = persistent_plan(comm, a, key, rc, &none);
	}
	if (*rc || none)
		return *rc != MPI_SUCCESS;
	if (plan)
		run = hdl_plan_run(plan, comm);
	if (run)
		plan->uses--;		/* counted at each start */
	if (!run || !hdl_vector_setup(run, comm, a, true)) {
		*rc = vector_unable(comm, plan, run ? ENOMEM : errno);
		goto undo;
	}
	run->args.coll = (enum hdl_coll)plan->key.coll;
	run->done = hdl_coll_complete_persistent;
	*rc = hdl_pcoll_new(run);
	if (*rc || !run->pcoll)
		goto undo;
	hdl_coll_number_persistent(run);
	if (!hdl_collective_init(comm, vector_begin_again, vector_put_persistent, run, req)) {
		(*req)->look = hdl_pcoll_look;
		return true;
	}
	*rc = vector_unable(comm, plan, ENOMEM);	/* the other ranks may have succeeded, and start their requests */
undo:
	/* without an error no rank has cells, and all use messages */
	if (run && run->vector)
		vector_put_persistent(run);
	else if (run)
		hdl_plan_run_put(run);
	return *rc != MPI_SUCCESS;
}

static void vector_free(struct hdl_run *run)
{
	hdl_vector_free(run->vector);
}

static bool vector_abort(struct hdl_queues *h, struct hdl_run *run)
{
	(void)h;
	return hdl_vector_stop(run);
}

static bool vector_poll(struct hdl_queues *h, struct hdl_run *run, const struct hdl_coll_prog *prog)
{
	(void)prog;
	return hdl_vector_turn(h, run);
}

static bool vector_end_at_once(struct hdl_queues *h, struct hdl_run *run, const struct hdl_coll_prog *prog)
{
	return !hdl_vector_await_long(run) && hdl_cell_await(run, prog) && hdl_vector_turn(h, run);
}

const struct hdl_executor_ops hdl_exec_vector = {
	.name = "mailbox, vector",
	.reducer = HDL_EXEC_MAILBOX,
	.prepare = hdl_run_prepare_tmp,
	.free = vector_free,
	.region = hdl_cell_region,
	.compile = hdl_mailbox_compile,
	.has_room = hdl_cell_has_room,
	.post = hdl_vector_post,
	.poll = vector_poll,
	.has_more = hdl_vector_more,
	.abort = vector_abort,
	.await = hdl_cell_await,
	.by_device = hdl_vector_by_device,
	.needs_cpu = hdl_vector_needs_cpu,
	.end_at_once = vector_end_at_once,
	.to_host = hdl_vector_to_host,
	.go_on = hdl_vector_go_on,
};
