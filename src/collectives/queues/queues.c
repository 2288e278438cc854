/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The order in which operations of mailbox and tasks are posted, completed and retired. The executors' tables (exec.h) do the
 * work. See queues.h for links and slots, SLOTS.md for the proof that a slot is free when an operation uses it again.
 *
 * Operations of a communicator are completed in the order in which they were posted, also where a later one would be done
 * earlier: slots become free in that order.
 */
#include "collectives/exec.h"
#include "collectives/mailbox/mailbox.h"
#include "collectives/queues/queues.h"
#include "collectives/select/select.h"
#include "runtime/wait.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(HDL_QUEUES_DEPTH_MAX <= 256, "a ring place has 8 bits in wr_id");

/* ---- posting --------------------------------------------------------------------------------------------- */

static struct hdl_coll_prog *prog_of(const struct hdl_run *run)
{
	return run->plan->prog;
}

static const struct hdl_executor_ops *exec_of(const struct hdl_run *run)
{
	return run->plan->exec;
}

/* Posts an operation. Must: the operation has a slot, (a) of queues.h, and the queues have room for its requests. */
static void queues_post(struct hdl_queues *h, struct hdl_run *run)
{
	struct hdl_coll_prog *p = prog_of(run);

	hdl_queues_number(h, run, p->synchronizes);
	exec_of(run)->post(h, run, p);
	h->posted++;
}

/* ---- operations ------------------------------------------------------------------------------------------ */

static bool graph_to_host(struct hdl_run *run)
{
	if (hdl_run_to_host(run))
		return false;
	hdl_host_start(run);
	return true;
}

static void run_on_host(struct hdl_queues *h, struct hdl_run *run)
{
	hdl_plan_fell_back(run->plan, h->why_refused);
	if (exec_of(run)->to_host ? exec_of(run)->to_host(run) : graph_to_host(run))
		return;
	hdl_reason_set("%s: no memory for its task graph or its scratch", hdl_coll_name(run->args.coll));
	hdl_run_error(run, MPI_ERR_NO_MEM);
	hdl_run_finish(run);
}

static struct hdl_run *dequeue(struct hdl_queues *h)
{
	struct hdl_run *run = h->queue;

	h->queue = run->next;
	if (!h->queue)
		h->queue_tail = &h->queue;
	if (run->plan->key.internal)
		return run;
	h->queued--;
	if (h->late) {
		h->late--;
		run->plan->late++;
	}
	return run;
}

void hdl_queues_fail_run(const struct hdl_queues *h, struct hdl_run *run)
{
	int error;

	hdl_reason_set("%s: %s", hdl_coll_name(run->args.coll), h->wire_error ? h->why_refused : HDL_QUEUES_IN_ERROR);
	/* these two are the cause of a revocation, too */
	if (h->wire_error == MPI_ERR_NO_MEM || h->wire_error == MPI_ERR_BUFFER)
		error = h->wire_error;
	else if (h->cc->lost)
		error = MPI_ERR_PROC_ABORTED;
	else
		error = h->wire_error ? h->wire_error : MPI_ERR_OTHER;
	hdl_run_error(run, error);
}

static void queues_fail(const struct hdl_queues *h, struct hdl_run *run)
{
	hdl_queues_fail_run(h, run);
	hdl_run_finish(run);
}

static __attribute__((noinline)) bool queues_compile(struct hdl_queues *h, struct hdl_run *run)
{
	struct hdl_plan *plan = run->plan;
	int err;

	if (plan == h->slot_barrier[run->class])
		plan->prog = plan->exec->compile_barrier(h, plan, run->class);
	else
		plan->prog = plan->exec->compile(h, plan);
	err = errno;
	if (plan->prog) {
		/* of a persistent plan each request compiles the graph again */
		if (!plan->key.persistent)
			hdl_graph_forget(plan->offload_graph, h->mailbox);
		return true;
	}
	hdl_error("offloaded %s of %zu bytes, algorithm %s: cannot be compiled for this device (%s)",
		  hdl_coll_name(run->args.coll), plan->key.bytes, plan->offload_graph->algorithm, strerror(err));
	hdl_queues_on(h, HDL_QUEUES_ON_BREAK);
	/* a graph that the device cannot run fails on all ranks; for want of memory this rank alone fails, and peers may have
	 * posted */
	if (err == ENOMEM) {
		hdl_reason_set("%s of %zu bytes: no memory for its requests", hdl_coll_name(run->args.coll), plan->key.bytes);
		hdl_run_error(run, MPI_ERR_NO_MEM);
	}
	return false;
}

/* Compiles the plan for this communicator's queues when first posted. Returns false on an error, which breaks the queues. */
static bool ready_prog(struct hdl_queues *h, struct hdl_run *run)
{
	return likely(run->plan->prog) || queues_compile(h, run);
}

static struct hdl_run *slot_barrier_run(struct hdl_queues *h, uint8_t class);

/* Posts queued operations as far as slots and queues permit; fails them if the queues are broken, and hands them to the host
 * executor if queues or region were refused. Returns 0 if no operation moved on. */
static int queues_pump(struct hdl_queues *h)
{
	int n = 0;

	/* also if the queues are broken: the exchange's done function uses h */
	if (h->state == HDL_QUEUES_WIRING || h->region[h->region_wired].state == HDL_REGION_WIRING)
		return 0;
	for (; h->queue && h->health != HDL_QUEUES_SUSPECT; n++) {
		struct hdl_run *run = h->queue;

		if (h->state == HDL_QUEUES_REFUSED) {
			run_on_host(h, dequeue(h));
			continue;
		}
		if (unlikely(hdl_queues_are_broken(h))) {
			queues_fail(h, dequeue(h));
			continue;
		}
		if (unlikely(!run->plan->prog)) {
			enum hdl_region_state state = hdl_region_request(h, exec_of(run)->region(h, run->plan));

			if (state == HDL_REGION_WIRING)
				break;
			if (hdl_queues_are_broken(h))
				continue;
			if (state == HDL_REGION_REFUSED) {
				run_on_host(h, dequeue(h));
				continue;
			}
		}
		if (!ready_prog(h, run))
			continue;
		if (!run->plan->key.internal)
			run->class = prog_of(run)->class;
		/* Every rank counts the same operations, so that all ranks insert the slot barrier at the same place. */
		if (unlikely(hdl_slot_barrier_due(h, prog_of(run), h->mailbox))) {
			struct hdl_run *barrier = slot_barrier_run(h, run->class);

			if (!barrier) {
				hdl_reason_set("%s: no memory for the barrier that comes before it",
					       hdl_coll_name(run->args.coll));
				hdl_run_error(run, MPI_ERR_NO_MEM);
				hdl_queues_on(h, HDL_QUEUES_ON_BREAK);
				continue;
			}
			run = barrier;
			run->next = h->queue;
			h->queue = run;
			if (!ready_prog(h, run))
				continue;
		}
		if (!hdl_queues_has_slot(h, run->class) || !exec_of(run)->has_room(h, prog_of(run))) {
			h->late = h->queued;
			break;
		}
		queues_post(h, dequeue(h));
	}
	return n;
}

static bool queues_is_complete(struct hdl_queues *h, struct hdl_run *run)
{
	return exec_of(run)->poll(h, run, prog_of(run));
}

/* Returns true if the operation has work left that was only postponed to the next turn. */
static bool has_more(const struct hdl_run *run)
{
	return exec_of(run)->has_more && exec_of(run)->has_more(run);
}

/* Completes an operation that waits for no rank: copies the result out, or fails the run if the queues are broken. */
static void complete(struct hdl_queues *h, struct hdl_run *run)
{
	h->completed++;
	if (unlikely(hdl_queues_are_broken(h))) {
		hdl_queues_stop(h);
		hdl_queues_fail_run(h, run);
	} else if (exec_of(run)->finish) {
		exec_of(run)->finish(h, run, prog_of(run));
	}
}

static void retire(struct hdl_queues *h, struct hdl_run *run)
{
	const struct hdl_coll_prog *p = prog_of(run);

	h->unfit |= run->error != MPI_SUCCESS;
	if (p->uses_acc)
		memset(run->base[HDL_SP_ACC], 0, p->g->acc_bytes);
	hdl_queues_retire(h, run);
}

#define LOCAL_US 8		/* microseconds between two polls of local_cq on tasks */

static bool is_to_drain(struct hdl_queues *h)
{
	uint64_t now = ticks();

	if (now - h->drained_at < ticks_of_us(LOCAL_US))
		return false;
	h->drained_at = now;
	return true;
}

static int queues_advance(struct hdl_queues *h)
{
	int n = 0;

	while (h->completed < h->posted || h->retired < h->completed) {
		struct hdl_run *run = h->ring[h->oldest];

		if (h->completed == h->retired) {
			if (!hdl_queues_are_broken(h) && !queues_is_complete(h, run)) {
				/* The end of a peer shows in completions of requests to the peer, or of the receive that takes no
				 * message: these may be the only event that wakes this rank. */
				if (h->mailbox || is_to_drain(h))
					hdl_queues_drain(h);
				if (!hdl_queues_are_broken(h)) {
					n += has_more(run);
					break;
				}
			}
			if (unlikely(hdl_queues_are_broken(h)) && exec_of(run)->abort && !exec_of(run)->abort(h, run))
				break;
			complete(h, run);
			n++;
		}
		if (run->outstanding && !hdl_queues_are_broken(h)) {
			hdl_queues_drain(h);
			if (run->outstanding && !hdl_queues_are_broken(h))
				break;
		}
		retire(h, run);
		hdl_run_finish(run);
		n++;	/* maybe the only progress of this turn: a thread that waits for this operation must not sleep now */
	}
	return n;
}

/* One pass over the queues: advances, posts, and completes persistent operations. Returns the number of operations that moved on.
 * Completing an operation may free its communicator, and with that h: h is destroyed at the end of this function
 * (HDL_TURN_DESTROYS). */
static int queues_turn(struct hdl_queues *h)
{
	int n = 0, posted;
	bool destroy;

	h->turn = HDL_TURN_RUNS;
	if (unlikely(h->nstaging)) {
		/* with no operation under way, nothing else polls for a failure of the requests that announced the buffers */
		if (h->posted == h->retired)
			hdl_queues_drain(h);
		hdl_sc_staging_reclaim(h);
	}
	do {
		n += queues_advance(h);
		posted = h->queue ? queues_pump(h) : 0;
		n += posted;
	} while (posted);
	if (h->started)
		n += h->pcoll_ops->turn(h);
	destroy = h->turn == HDL_TURN_DESTROYS;
	h->turn = HDL_TURN_NONE;
	if (unlikely(destroy))
		hdl_queues_destroy(h);
	return n;
}

static void turn_if_idle(struct hdl_queues *h)
{
	/* otherwise called from a completion inside queues_turn, which will do this turn's work */
	if (!h->turn)
		queues_turn(h);
}

__attribute__((noinline, cold)) struct hdl_queues *hdl_queues_make(struct hdl_cc *cc, enum hdl_executor executor, bool pairs,
								   uint8_t coll)
{
	struct hdl_queues *h = cc->queues[hdl_queues_index(executor, pairs)] = hdl_queues_new(cc, executor, pairs);

	if (!h)
		hdl_reason_set("%s: the queues of offloaded collectives: %s; HEDDLE_COLL_EXECUTOR=host does without",
			       hdl_coll_name((enum hdl_coll)coll), hdl_ft_lacks(errno));
	return h;
}

/* The queues that hdl_queues_progress visits after the current turn. The turn may unlist any queues: freeing a communicator
 * unlists all of its. */
static struct hdl_queues *progress_next;

static void queues_unlist(struct hdl_queues *h)
{
	if (!h->link)
		return;
	if (h == progress_next)
		progress_next = h->next;
	*h->link = h->next;
	if (h->next)
		h->next->link = h->link;
	h->link = NULL;
}

/* Returns true if queues_pump would post the operation at once, if first in h->queue. Sets run->class. */
static bool is_next(struct hdl_queues *h, struct hdl_run *run)
{
	const struct hdl_coll_prog *p = prog_of(run);

	if (!p || !hdl_queues_can_post(h, p, false))
		return false;
	run->class = p->class;
	return exec_of(run)->has_room(h, p);
}

/* Returns true if the operation waits for this communicator's queues only. */
static bool is_by_device(const struct hdl_run *run)
{
	return exec_of(run)->by_device && exec_of(run)->by_device(run);
}

/* Polls for a blocking operation of single copy, or of vector.c, for a bounded time: the peers' records and cells are there soon,
 * or already. Every HDL_TURN_EVERY operations the caller's progress runs instead. */
static void look_a_while(struct hdl_queues *h, struct hdl_run *run)
{
	struct hdl_wait w = hdl_wait_begin(HDL_WAIT_COPIES, hdl_job.oversubscribed);

	if (h->posted % HDL_TURN_EVERY == 0)
		return;
	do
		queues_turn(h);
	while (!run->finished && is_by_device(run) && !has_more(run) &&
	       hdl_wait_step(&w, w.shared && exec_of(run)->needs_cpu(h, run)));
}

/* Ends a blocking operation of vector.c that was just posted, with no operation before it, if all cells come within a bounded
 * time. Returns true if the operation has retired. False if blocks do not fit cells: later turns copy these as their cells
 * come. */
static bool queues_end_at_once(struct hdl_queues *h, struct hdl_run *run)
{
	if (h->posted % HDL_TURN_EVERY == 0 || h->retired + 1 != h->posted || !exec_of(run)->end_at_once(h, run, prog_of(run)) ||
	    run->outstanding || hdl_queues_are_broken(h))
		return false;
	h->completed++;
	retire(h, run);
	hdl_run_finish(run);
	return true;
}

void hdl_queues_submit(struct hdl_cc *cc, struct hdl_run *run)
{
	const struct hdl_plan *plan = run->plan;
	struct hdl_queues *h = hdl_queues_of(cc, plan->executor, plan->pairs, plan->key.coll);

	if (unlikely(!h)) {
		int err = errno;

		if (err != ENOMEM)	/* hdl_run_error does so for MPI_ERR_NO_MEM */
			hdl_ft_give_up(run->comm, hdl_ft_lacks(err));
		hdl_run_error(run, hdl_class_of(err));
		hdl_run_finish(run);
		return;
	}
	if (likely(is_next(h, run))) {
		queues_post(h, run);
		if (exec_of(run)->end_at_once && !run->req && queues_end_at_once(h, run))
			return;
		hdl_queues_enlist(h);
		if (!run->req && is_by_device(run))
			look_a_while(h, run);
		return;
	}
	hdl_queues_enlist(h);
	run->next = NULL;
	*h->queue_tail = run;
	h->queue_tail = &run->next;
	h->queued++;
	turn_if_idle(h);
}

int hdl_queues_progress(void)
{
	int n = 0;

	for (struct hdl_queues *h = hdl_queues_active; h; h = progress_next) {
		progress_next = h->next;
		if (hdl_queues_is_active(h))
			n += queues_turn(h);
		else
			queues_unlist(h);
	}
	return n;
}

/* Polls for a bounded time for the cells of the oldest operation; the turn that follows takes them. */
static void await_lines(struct hdl_queues *h)
{
	struct hdl_run *run = h->ring[h->oldest];

	if (exec_of(run)->await && h->completed == h->retired && !h->turn && !hdl_queues_are_broken(h))
		exec_of(run)->await(run, prog_of(run));
}

void hdl_queues_look(struct hdl_req *req, bool waits)
{
	for (int i = 0; i < HDL_QUEUE_KINDS; i++) {
		/* looked up again: a turn may complete an operation that frees the communicator's state */
		struct hdl_cc *cc = req->comm->coll;
		struct hdl_queues *h = cc ? cc->queues[i] : NULL;

		if (!h || h->posted == h->retired)
			continue;
		if (waits)
			await_lines(h);
		turn_if_idle(h);
	}
}

/* Before this process sleeps: arms the CQs for which the oldest operation of each communicator waits, so that a completion wakes
 * the process. */
void hdl_queues_arm(void)
{
	for (struct hdl_queues *h = hdl_queues_active; h; h = h->next) {
		const struct hdl_coll_prog *p;
		int err = 0;

		if (h->posted == h->retired && !h->started && !h->nstaging)
			continue;
		p = h->posted == h->retired ? NULL : prog_of(h->ring[h->oldest]);
		for (uint32_t w = 0; p && w < p->nwatches && !err; w++)
			err = ibv_req_notify_cq(p->watches[w]->rcq, 0);
		/* Failures of this rank's own requests show here, too. */
		if (!err)
			err = ibv_req_notify_cq(h->local_cq, 0);
		if (err)
			hdl_error("offloaded collectives: ibv_req_notify_cq failed (%s): this rank may sleep on", strerror(err));
	}
}

/* ---- the barrier of (b) ------------------------------------------------------------------------------------- */

static void slot_barrier_done(struct hdl_run *run)
{
	hdl_run_free(run);
}

static struct hdl_plan *slot_barrier_plan(struct hdl_queues *h, uint8_t class)
{
	size_t bytes = h->mailbox ? hdl_cell_least(class) : 0;	/* selects the class; the barrier carries no data */
	struct hdl_shape s = { .coll = HDL_BARRIER, .rank = h->rank, .size = h->size, .radix = h->radix,
			       .cell_bytes = hdl_cell_bytes_of(bytes) };
	struct hdl_plan *plan = calloc(1, sizeof(*plan));

	if (!plan)
		return NULL;
	plan->key = (struct hdl_plan_key){ .coll = HDL_BARRIER, .bytes = bytes, .internal = true };
	plan->executor = h->mailbox ? HDL_EXEC_MAILBOX : HDL_EXEC_TASKS;
	plan->exec = hdl_executors[h->mailbox ? HDL_RUN_MAILBOX : HDL_RUN_TASKS];
	plan->refs = 1;
	plan->offload_graph = hdl_tune_offload(plan->executor, &s)->build(&s);
	if (!plan->offload_graph) {
		free(plan);
		return NULL;
	}
	return plan;
}

static struct hdl_run *slot_barrier_run(struct hdl_queues *h, uint8_t class)
{
	struct hdl_plan *plan = h->slot_barrier[class] ? h->slot_barrier[class] : slot_barrier_plan(h, class);
	struct hdl_run *run;

	h->slot_barrier[class] = plan;
	if (!plan)
		return NULL;
	run = hdl_run_new(plan->offload_graph, h->cc->comm);
	if (!run)
		return NULL;
	run->plan = plan;
	run->class = class;
	run->args.coll = HDL_BARRIER;
	run->done = slot_barrier_done;
	return run;
}

/* ---- the end ------------------------------------------------------------------------------- */

bool hdl_queues_have_operations(void)
{
	for (const struct hdl_queues *h = hdl_queues_active; h; h = h->next)
		if (h->posted != h->retired || h->queue || h->started)
			return true;
	return false;
}

void hdl_queues_abandon(struct hdl_cc *cc)
{
	for (int i = 0; i < HDL_QUEUE_KINDS; i++) {
		if (!cc->queues[i])
			continue;
		queues_unlist(cc->queues[i]);
		hdl_queues_unmake(cc->queues[i]);
	}
}

void hdl_queues_free(struct hdl_cc *cc)
{
	for (int i = 0; i < HDL_QUEUE_KINDS; i++) {
		struct hdl_queues *h = cc->queues[i];

		cc->queues[i] = NULL;
		if (!h)
			continue;
		/* Every user's operation holds a reference to the communicator, and completes after the slot barriers inserted
		 * before the operation: nothing is outstanding when the last reference goes. */
		queues_unlist(h);
		if (!hdl_queue_cache_keep(h))
			hdl_queues_end(h);
	}
}
