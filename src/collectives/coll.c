/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The door: finds or makes the plan of a collective (executor, graph and reason), binds a run of the plan to the caller's buffers
 * and hands the run to the executor.
 *
 * Must: executor and algorithm depend only on properties that are the same on all ranks: the collective, its size, the
 * communicator, the configuration, whether ranks outnumber cores. Otherwise ranks run one collective on different executors, and
 * wait forever.
 */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "collectives/exec.h"
#include "collectives/internal.h"
#include "collectives/mailbox/mailbox.h"
#include "collectives/select/select.h"

/* Returns the plan for these arguments, or NULL with errno. */
static inline struct hdl_plan *plan_get(struct hdl_comm *comm, const struct hdl_coll_args *a, enum hdl_form_kind form,
					size_t bytes, bool in_place)
{
	struct hdl_cc *cc = comm->coll;
	bool reduction = hdl_coll_reduces(a->coll);
	struct hdl_plan_key key = { .op = reduction ? a->op : MPI_OP_NULL, .type = reduction ? a->recvtype : NULL,
				    .bytes = bytes, .root = hdl_coll_has_root(a->coll) ? a->root : 0,
				    .coll = (uint8_t)a->coll, .in_place = in_place, .blocking = form == HDL_BLOCKS,
				    .persistent = form == HDL_PERSISTS, .node_phase = cc && cc->node_of };
	struct hdl_plan *plan;

	if (unlikely(!cc)) {
		cc = hdl_coll_state(comm);
		if (!cc)
			return NULL;
	}
	key.leader = a->coll == HDL_BARRIER && form == HDL_BLOCKS ? cc->leader : 0;
	plan = cc->last[a->coll];
	if (likely(plan && hdl_plan_is_of(&plan->key, &key)))
		return plan;
	plan = hdl_plan_of(cc, &key);
	cc->last[a->coll] = plan;
	return plan;
}

/* ---- arguments ------------------------------------------------------------------------------------------- */

/* Returns true if the root's block for itself has the length of its place in the receive buffer. Blocks of other ranks do not
 * depend on this. */
static inline bool fits_itself(const struct hdl_comm *comm, const struct hdl_coll_args *a)
{
	return (a->coll != HDL_GATHER && a->coll != HDL_SCATTER) || comm->rank != a->root ||
	       a->sendcount * hdl_type_size(a->sendtype) == a->recvcount * hdl_type_size(a->recvtype);
}

static inline bool is_in_place(const struct hdl_comm *comm, const struct hdl_coll_args *a)
{
	if (a->coll == HDL_GATHER || a->coll == HDL_SCATTER)
		return comm->rank == a->root &&
		       ((a->coll == HDL_GATHER ? a->sendbuf : a->recvbuf) == MPI_IN_PLACE || !fits_itself(comm, a));
	return a->coll != HDL_BARRIER && a->coll != HDL_BCAST && a->sendbuf == MPI_IN_PLACE &&
	       (a->coll != HDL_REDUCE || comm->rank == a->root);
}

/* Returns the bytes of struct hdl_shape. Type signatures agree between ranks, therefore bytes do; counts and types need not. */
static inline size_t coll_bytes_of(const struct hdl_coll_args *a)
{
	if (a->coll == HDL_BARRIER)
		return 0;
	if (a->coll == HDL_SCATTER)
		return (size_t)a->sendcount * (size_t)hdl_type_size(a->sendtype);
	return (size_t)a->recvcount * (size_t)hdl_type_size(a->recvtype);
}

/* Revokes the communicator, and sets the reason. err: a positive errno, the cause. Returns its MPI error class. */
static __attribute__((noinline, cold)) int coll_unable(struct hdl_comm *comm, const struct hdl_coll_args *a, int err)
{
	int error = hdl_coll_unable(comm, err);

	hdl_reason_set("%s of %zu bytes%s: %s%s", hdl_coll_name(a->coll), coll_bytes_of(a),
		       a->coll >= HDL_ALLGATHER && a->coll <= HDL_REDUCE_SCATTER ? " for a rank" : "", hdl_ft_lacks(err),
		       err == ENOMEM ? " for its task graph or its scratch" : "");
	return error;
}

static int coll_no_memory(struct hdl_comm *comm, const struct hdl_coll_args *a)
{
	return coll_unable(comm, a, ENOMEM);
}

/* The run fails before its first message. The run's messages are sent all the same, empty, so that the other ranks do not
 * wait. */
static __attribute__((noinline, cold)) void fail_misfit(struct hdl_run *run, const struct hdl_coll_args *a)
{
	hdl_run_misfit(run, (size_t)a->sendcount * (size_t)hdl_type_size(a->sendtype),
		       (size_t)a->recvcount * (size_t)hdl_type_size(a->recvtype));
	run->mode = HDL_RUN_EMPTY;
}

/* Binds the run to the caller's buffers. Returns an MPI error class. */
static int bind(struct hdl_run *run, const struct hdl_coll_args *args, bool in_place, enum hdl_form_kind form)
{
	int rc;

	if (unlikely(hdl_vars.check)) {
		run->check = hdl_check_args(run->comm, args, form);
		if (!run->check)
			return MPI_ERR_NO_MEM;
	}
	rc = hdl_run_bind(run, args, run->comm->size, in_place);
	if (unlikely(!rc && !fits_itself(run->comm, args)))
		fail_misfit(run, args);
	return rc;
}

/* Returns true if there is nothing to do, on any rank: no message is needed. With HEDDLE_CHECK=1 the ranks compare the call all
 * the same. */
static inline bool is_nothing(const struct hdl_coll_args *args, size_t bytes)
{
	return unlikely(!bytes) && args->coll != HDL_BARRIER && !hdl_vars.check;
}

/* ---- the door -------------------------------------------------------------------------------------------- */

int hdl_coll_start(struct hdl_comm *comm, const struct hdl_coll_args *args, struct hdl_req **req)
{
	bool in_place = is_in_place(comm, args);
	size_t bytes = coll_bytes_of(args);
	struct hdl_plan *plan;
	struct hdl_run *run = NULL;
	int rc, err;

	*req = hdl_req_new(comm);
	if (!*req)
		return coll_no_memory(comm, args);
	if (is_nothing(args, bytes)) {
		hdl_req_complete(*req, MPI_SUCCESS);
		return MPI_SUCCESS;
	}
	plan = plan_get(comm, args, HDL_STARTS, bytes, in_place);
	run = plan ? hdl_plan_run(plan, comm) : NULL;
	err = run ? ENOMEM : errno;
	rc = run ? bind(run, args, in_place, HDL_STARTS) : hdl_class_of(err);
	if (rc) {
		if (run)
			hdl_plan_run_put(run);
		hdl_req_complete(*req, rc);
		hdl_req_free(*req);
		*req = NULL;
		return coll_unable(comm, args, err);
	}
	run->req = *req;
	if (plan->executor != HDL_EXEC_HOST)
		run->req->look = hdl_queues_look;
	run->done = hdl_coll_complete;
	hdl_coll_dispatch(run, plan->executor == HDL_EXEC_HOST);
	return MPI_SUCCESS;
}

/* ---- persistent: the request keeps a run, bound to its buffers, and with that the plan ------------------------ */

/* Starts the request. run: NULL if there is nothing to move. Returns an MPI error class. */
static int begin_persistent(struct hdl_req *req, void *arg)
{
	struct hdl_run *run = arg;

	if (!run) {
		hdl_req_complete(req, MPI_SUCCESS);
		return MPI_SUCCESS;
	}
	hdl_run_again(run, req);
	hdl_run_repack(run);
	if (unlikely(!fits_itself(run->comm, &run->args)))
		fail_misfit(run, &run->args);
	if (likely(run->pcoll && !((struct hdl_cc *)run->comm->coll)->lost)) {
		hdl_pcoll_start(run->pcoll);
		return MPI_SUCCESS;
	}
	run->plan->fallbacks += run->plan->executor != HDL_EXEC_HOST;
	hdl_coll_dispatch(run, true);
	return MPI_SUCCESS;
}

/* Retains or releases the types, which each start uses: the user may free them after the request was made. */
static void coll_retain_types(const struct hdl_coll_args *a, bool retain)
{
	struct hdl_type *types[] = { (struct hdl_type *)a->sendtype, (struct hdl_type *)a->recvtype };

	for (int i = 0; i < 2; i++)
		if (types[i])
			(retain ? hdl_type_retain : hdl_type_release)(types[i]);
}

static void coll_put_persistent(void *arg)
{
	struct hdl_run *run = arg;

	if (!run)
		return;
	if (run->pcoll)
		hdl_pcoll_free(run->pcoll);
	run->pcoll = NULL;
	coll_retain_types(&run->args, false);
	hdl_run_unbind(run);
	run->retain = false;
	hdl_plan_run_put(run);
}

/* Makes a run bound to these arguments for the life of a persistent request. Returns NULL with errno. */
static struct hdl_run *run_for_good(struct hdl_comm *comm, const struct hdl_coll_args *args, size_t bytes)
{
	bool in_place = is_in_place(comm, args);
	struct hdl_plan *plan = plan_get(comm, args, HDL_PERSISTS, bytes, in_place);
	struct hdl_run *run = plan ? hdl_plan_run(plan, comm) : NULL;

	if (!run)
		return NULL;
	plan->uses--;		/* counted at each start */
	if (bind(run, args, in_place, HDL_PERSISTS)) {
		hdl_plan_run_put(run);
		errno = ENOMEM;
		return NULL;
	}
	run->retain = true;
	run->done = hdl_coll_complete_persistent;
	coll_retain_types(args, true);
	return run;
}

/* Makes the executor's part of a persistent request, together with all ranks. Returns an MPI error class. */
static int make_persistent(struct hdl_run *run)
{
	struct hdl_check *check = run->check;
	int rc;

	/* compared once: the arguments are the same at each start */
	run->check = NULL;
	rc = unlikely(check) ? hdl_check_agree(check, run->comm) : MPI_SUCCESS;
	if (rc)
		return rc;
	hdl_coll_number_persistent(run);
	if (run->plan->executor == HDL_EXEC_HOST)
		return MPI_SUCCESS;
	rc = hdl_pcoll_new(run);
	if (rc || run->pcoll)
		return rc;
	return hdl_run_to_host(run) ? coll_no_memory(run->comm, &run->args) : MPI_SUCCESS;
}

int hdl_coll_prepare(struct hdl_comm *comm, const struct hdl_coll_args *args, struct hdl_req **req)
{
	size_t bytes = coll_bytes_of(args);
	struct hdl_run *run = NULL;
	int rc;

	*req = NULL;
	if (!is_nothing(args, bytes)) {
		run = run_for_good(comm, args, bytes);
		if (!run)
			return coll_unable(comm, args, errno);
	}
	rc = run ? make_persistent(run) : MPI_SUCCESS;
	if (!rc && hdl_collective_init(comm, begin_persistent, coll_put_persistent, run, req))
		rc = run ? coll_no_memory(comm, args) : MPI_ERR_NO_MEM;	/* peers may have their request, and start it */
	if (rc)
		coll_put_persistent(run);
	else if (run && run->pcoll)
		(*req)->look = hdl_pcoll_look;
	return rc;
}

/* Returns true if the plan of this key serves a blocking call with these arguments, whose data need no packing. */
static inline bool coll_is_plan_of(const struct hdl_plan_key *key, const struct hdl_comm *comm, const struct hdl_coll_args *a)
{
	if (!key->blocking)
		return false;
	if (a->coll == HDL_BARRIER)
		return key->leader == ((const struct hdl_cc *)comm->coll)->leader;
	if (!key->bytes || key->bytes != coll_bytes_of(a) || key->in_place != is_in_place(comm, a) ||
	    (hdl_coll_has_root(a->coll) && key->root != a->root))
		return false;
	if (hdl_coll_reduces(a->coll))
		return key->type == a->recvtype && key->op == a->op;
	return hdl_type_is_contiguous(a->recvtype) && hdl_type_is_contiguous(a->sendtype) && fits_itself(comm, a);
}

/* Runs a blocking collective by a new or spare run of the plan. plan NULL: errno says why. error: as in struct hdl_hier_phases.
 * Returns an MPI error class. */
static int run_by(struct hdl_plan *plan, struct hdl_comm *comm, const struct hdl_coll_args *args, bool in_place, int error)
{
	struct hdl_run *run = likely(plan) ? hdl_plan_run(plan, comm) : NULL;
	bool host, early;

	if (unlikely(!run))
		return coll_unable(comm, args, errno);
	((struct hdl_cc *)comm->coll)->leader = plan->leader;
	early = plan->executor != HDL_EXEC_HOST && hdl_plan_is_early(comm->coll, plan);
	host = early || plan->executor == HDL_EXEC_HOST;
	if (early)
		hdl_plan_fell_back(plan, HDL_EARLY);
	if (unlikely(bind(run, args, in_place, HDL_BLOCKS) || (early && hdl_run_to_host(run)))) {
		hdl_plan_run_put(run);
		return coll_no_memory(comm, args);
	}
	if (unlikely(error)) {
		hdl_run_error(run, error);
		run->no_data = true;
	}
	if (host && likely(!error && hdl_host_can_inline(run->g) && !run->check && !((struct hdl_cc *)comm->coll)->lost)) {
		run->tag = hdl_coll_tag(((struct hdl_cc *)comm->coll)->seq++);
		hdl_host_run_inline(run);
		hdl_run_finish(run);
	} else {
		hdl_coll_dispatch(run, host);
	}
	return hdl_coll_end(run);
}

static const struct hdl_hier_phases phases;

static __attribute__((noinline)) int run_plan(struct hdl_comm *comm, const struct hdl_coll_args *args)
{
	bool in_place = is_in_place(comm, args);
	size_t bytes = coll_bytes_of(args);
	struct hdl_plan *plan;
	int rc = MPI_SUCCESS;

	if (is_nothing(args, bytes))
		return MPI_SUCCESS;
	plan = plan_get(comm, args, HDL_BLOCKS, bytes, in_place);
	if (plan && plan->in_phases) {
		if (hdl_hier_ready(comm->coll, plan->hosts, &rc)) {
			plan->uses++;
			return hdl_hier_run(comm->coll, args, &phases);
		}
		if (rc)
			return rc;
	}
	return run_by(plan, comm, args, in_place, MPI_SUCCESS);
}

/* Fast path of the host executor, in order: reuses the plan's spare run, which has kept all memory but large scratch. Returns an
 * MPI error class. Must: the plan is in_order and has a spare run, and coll_is_plan_of. */
static inline int run_again(struct hdl_cc *cc, struct hdl_plan *plan, const struct hdl_coll_args *args)
{
	struct hdl_run *run = plan->spare;

	if (unlikely(run->g->tmp_bytes && !run->tmp.p && hdl_run_prepare_tmp(run)))
		return coll_no_memory(cc->comm, args);
	plan->spare = run->next;
	plan->refs++;
	plan->uses++;
	run->req = NULL;
	run->done = NULL;
	run->base[HDL_SP_SEND] = (char *)args->sendbuf;
	run->base[HDL_SP_RECV] = args->recvbuf;
	run->error = MPI_SUCCESS;
	run->mode = HDL_RUN_NORMAL;
	run->tag = hdl_coll_tag(cc->seq++);
	hdl_host_run_inline(run);
	hdl_run_finish(run);
	/* as hdl_coll_end: run->check and run->no_data are not set on this path */
	if (likely(!run->error && plan->refs > 1)) {
		run->next = plan->spare;
		plan->spare = run;
		plan->refs--;
		return MPI_SUCCESS;
	}
	return hdl_coll_end(run);
}

static int coll_run_node_phase(struct hdl_comm *comm, const struct hdl_coll_args *args, int error)
{
	bool in_place = is_in_place(comm, args);

	if (likely(!error))
		return hdl_coll_run(comm, args);
	return run_by(plan_get(comm, args, HDL_BLOCKS, coll_bytes_of(args), in_place), comm, args, in_place, error);
}

static int coll_run_leader_phase(struct hdl_comm *comm, const struct hdl_coll_args *args, int error)
{
	bool in_place = is_in_place(comm, args);
	const struct hdl_plan_key key = { .op = hdl_coll_reduces(args->coll) ? args->op : MPI_OP_NULL,
					  .type = hdl_coll_reduces(args->coll) ? args->recvtype : NULL,
					  .bytes = coll_bytes_of(args), .root = hdl_coll_has_root(args->coll) ? args->root : 0,
					  .coll = (uint8_t)args->coll, .in_place = in_place, .blocking = true, .internal = true,
					  .leader_phase = true };
	struct hdl_plan *plan = hdl_plan_of(comm->coll, &key);

	if (likely(plan && plan->in_order && plan->spare && !error && coll_is_plan_of(&key, comm, args)))
		return run_again(comm->coll, plan, args);
	return run_by(plan, comm, args, in_place, error);
}

static const struct hdl_hier_phases phases = { coll_run_node_phase, coll_run_leader_phase };

/* A call with the arguments of the collective's last plan takes the fast path of the host executor or of mailbox
 * (hdl_queues_quick). */
int hdl_coll_run(struct hdl_comm *comm, const struct hdl_coll_args *args)
{
	struct hdl_cc *cc = comm->coll;
	struct hdl_plan *plan = cc ? cc->last[args->coll] : NULL;
	struct hdl_run *run;

	if (!plan || !plan->spare || unlikely(cc->lost) || !plan->quick ||
	    !coll_is_plan_of(&plan->key, comm, args))
		return run_plan(comm, args);
	if (plan->in_order) {
		cc->leader = plan->leader;
		return run_again(cc, plan, args);
	}
	run = plan->spare;
	run->base[HDL_SP_SEND] = (char *)args->sendbuf;
	run->base[HDL_SP_RECV] = args->recvbuf;
	if (unlikely(!hdl_queues_quick(cc, run)))
		return run_plan(comm, args);
	return hdl_coll_end_quick(cc, plan);
}

static int coll_progress(void *arg)
{
	return hdl_host_progress() + hdl_queues_progress() + hdl_ft_progress();
}

static void comm_release(struct hdl_comm *comm)
{
	struct hdl_cc *cc = comm->coll;

	if (!cc)
		return;
	/* The plans first: the report quotes the executor's reasons. */
	for (int i = 0; i < HDL_PLANS; i++)
		if (cc->plans[i])
			hdl_plan_put(cc->plans[i]);
	hdl_queues_free(cc);
	if (cc->lost && !cc->revoked)
		hdl_recv_revoke(comm, cc->lost - 1);
	comm->coll = NULL;
	free(cc);
}

static void comm_freed(struct hdl_comm *comm)
{
	struct hdl_cc *cc = comm->coll;
	struct hdl_comm *node_comm = cc ? cc->node_comm : NULL;

	if (node_comm)
		hdl_comm_release(node_comm);
	comm_release(comm);
	if (hdl_jobs_are_several())
		hdl_queue_cache_depart();
}

/* Frees memory on a shortage: spare scratch first, then cached queues, which cost more to make again. */
static bool coll_give(void)
{
	return hdl_scratch_give() || hdl_queue_cache_give();
}

static const struct hdl_executor_ops *const executors[HDL_RUN_KINDS] = {
	[HDL_RUN_HOST] = &hdl_exec_host, [HDL_RUN_MAILBOX] = &hdl_exec_mailbox, [HDL_RUN_VECTOR] = &hdl_exec_vector,
	[HDL_RUN_SINGLE_COPY] = &hdl_exec_single_copy, [HDL_RUN_TASKS] = &hdl_exec_tasks,
};

int hdl_coll_init(void)
{
	int err = hdl_choose_init();

	if (err)
		return err;
	hdl_ft_ranks_leave(false);
	hdl_comm_on_free = comm_freed;
	hdl_coll_hooks = (struct hdl_coll_hooks){ .state_made = hdl_ft_before, .revoke_runs = hdl_host_revoke };
	for (int i = 0; i < HDL_RUN_KINDS; i++)
		hdl_executors[i] = executors[i];
	hdl_tp_on_sleep(hdl_mpi_tp, hdl_queues_arm);
	hdl_tp_on_timers(hdl_mpi_tp, hdl_ft_timers);
	hdl_tp_on_shortage(hdl_mpi_tp, coll_give);
	hdl_ft_on_message(hdl_ft_on_notice);
	return hdl_tp_progress_add(hdl_mpi_tp, coll_progress, NULL);
}

/* Returns true if operations of the communicator are under way: on the host executor, or on queues. */
static bool comm_is_busy(const struct hdl_cc *cc)
{
	for (int i = 0; i < HDL_QUEUE_KINDS; i++)
		if (cc->queues[i] && hdl_queues_is_active(cc->queues[i]))
			return true;
	return cc->pending;
}

/* Releases the state of a communicator without operations. State that an operation uses stays until the process ends:
 *
 *     1. MPI_Ialltoall has announced messages, whose records lie in a run; a rank never calls MPI_Ialltoall
 *     2. the run is freed, and the transport ends the sends when it destroys its queues
 *     3. their completion writes to the freed run */
static void comm_release_idle(struct hdl_comm *comm)
{
	struct hdl_cc *cc = comm->coll;

	if (!cc || !comm_is_busy(cc))
		comm_release(comm);
	else
		hdl_queues_abandon(cc);
}

static void coll_close(void)
{
	hdl_comm_on_free = NULL;
	hdl_comm_each(comm_release_idle);
	hdl_tp_on_shortage(hdl_mpi_tp, NULL);
	hdl_queue_cache_fini();
	hdl_tp_progress_remove(hdl_mpi_tp, coll_progress, NULL);
	hdl_host_forget();
	hdl_coll_pending = 0;
	hdl_detached_collectives = 0;
	hdl_tp_on_sleep(hdl_mpi_tp, NULL);
	hdl_tp_on_timers(hdl_mpi_tp, NULL);
	hdl_ft_on_message(NULL);
	if (hdl_vars.report_collectives && hdl_job.rank == 0)
		hdl_coll_report(stderr);
	hdl_coll_report_free();
	hdl_immediate_fini();
	hdl_scratch_fini();
}

static bool comms_busy;

static void find_busy(struct hdl_comm *comm)
{
	comms_busy |= comm->coll && comm_is_busy(comm->coll);
}

static bool coll_under_way(bool fenced)
{
	if (fenced)
		hdl_ft_ranks_leave(true);
	comms_busy = false;
	hdl_comm_each(find_busy);
	return comms_busy;
}

static void comm_break(struct hdl_comm *comm)
{
	struct hdl_cc *cc = comm->coll;

	for (int i = 0; cc && i < HDL_QUEUE_KINDS; i++)
		if (cc->queues[i] && hdl_queues_is_active(cc->queues[i]))
			hdl_queues_on(cc->queues[i], HDL_QUEUES_ON_BREAK);
}

/* hdl_tp_on_close's function: operations that wait for ranks which never begin them end with an error that no call returns. */
static void coll_give_up(void)
{
	if (coll_under_way(true)) {
		hdl_warn("MPI_Finalize: the collective that was not completed is given up: not all ranks have begun the same");
		hdl_comm_each(comm_break);
		coll_progress(NULL);
	}
	coll_close();
}

/* Peers read this rank's staging buffers, or have not started a persistent request that was freed while active. */
static void await_detached(void)
{
	enum { AWHILE_NS = 200000000 };
	uint64_t deadline = monotonic_ns() + AWHILE_NS;

	while (hdl_detached_collectives && monotonic_ns() < deadline)
		if (!hdl_progress())
			sched_yield();
}

/* A collective that was begun and not completed (erroneous: MPI-5.0 section 11.2.2) goes on while MPI_Finalize waits for the
 * other ranks: a rank that completes the same collective before its MPI_Finalize needs this rank's part. */
int hdl_coll_fini(void)
{
	await_detached();
	if (!coll_under_way(false)) {
		coll_close();
		return 0;
	}
	if (hdl_coll_pending || hdl_queues_have_operations())
		hdl_warn("MPI_Finalize: a collective was begun and not completed (by MPI_Wait, MPI_Test, or their like): its "
			 "result is undefined");
	hdl_tp_on_close(hdl_mpi_tp, coll_under_way, coll_give_up);
	return 0;
}
