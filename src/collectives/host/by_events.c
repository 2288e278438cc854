/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The host executor: runs a graph by messages (run.c).
 *
 * Blocking and small runs: in order. The nodes are carried out in the algorithm's order, which is topological, and receives
 * block; the only state is that of sends that the transport keeps.
 *
 * All other runs: by events. A node starts when its predecessors are done. The transport reports completions from inside its
 * progress, where nothing may be posted: a completion only marks nodes as ready, and hdl_host_progress starts them.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "collectives/exec.h"
#include "collectives/host/host.h"
#include "collectives/internal.h"

static struct hdl_run *runnable_head, **runnable_tail = &runnable_head;

/* Withdraws the run's sends, so that no sender waits for a receiver that never enters the collective. A send that was announced
 * stays in flight until its receiver refuses the message: before that the receiver may read the data at any time. */
static void withdraw_sends(struct hdl_run *run)
{
	for (uint32_t i = 0; i < run->g->nnodes; i++) {
		int peer = run->g->nodes[i].peer;

		if (run->nodes[i].sending)
			hdl_send_withdraw(&run->nodes[i].send, peer, hdl_peer_comm(run->comm, &peer));
	}
}

/* ---- blocking, in order ----------------------------------------------------------------------------------- */

/* With more nodes runs by events are faster: receives are posted before their messages come. */
#define INLINE_NODES 256

bool hdl_host_can_inline(const struct hdl_graph *g)
{
	return g->nnodes <= INLINE_NODES && g->max_msg <= hdl_vars.eager_max;
}

static void inline_sent(struct hdl_send *send, int err)
{
	struct hdl_run_node *node = container_of(send, struct hdl_run_node, send);
	struct hdl_run *run = node->run;

	if (err)
		hdl_run_send_failed(run, &run->g->nodes[node - run->nodes], err);
	node->done = true;
	node->sending = false;
	run->inflight--;
}

struct inflight {
	struct hdl_run *run;
	uint32_t most;
};

static bool few_in_flight(const void *arg)
{
	const struct inflight *in = arg;

	return in->run->inflight <= in->most || (!in->run->withdrawn && ((const struct hdl_cc *)in->run->comm->coll)->lost);
}

static void progress_until(struct hdl_run *run, uint32_t inflight)
{
	struct inflight in = { run, inflight };

	hdl_wait_until(few_in_flight, &in);
	if (likely(run->inflight <= inflight))
		return;
	run->withdrawn = true;
	run->mode = HDL_RUN_NORMAL;	/* the run must end here: sends that start later would not be withdrawn */
	hdl_run_error(run, MPI_ERR_PROC_ABORTED);
	withdraw_sends(run);
	hdl_wait_until(few_in_flight, &in);
}

/* Waits for the predecessors that are not done, which are sends: a node that writes memory that a send reads must wait for the
 * send. */
static void wait_for_sends_before(struct hdl_run *run, const struct hdl_node *n)
{
	for (uint32_t p = 0; p < n->npreds; p++) {
		uint32_t on = run->g->preds[n->pred0 + p];

		while (run->g->nodes[on].kind == HDL_N_SEND && !run->nodes[on].done)
			progress_until(run, run->inflight - 1);
	}
}

int hdl_host_run_inline(struct hdl_run *run)
{
	const struct hdl_graph *g = run->g;
	const struct hdl_node *n = g->nodes, *end = n + g->nnodes;
	struct hdl_cc *cc = run->comm->coll;

	run->inflight = 0;
	run->withdrawn = false;
	cc->pending++;
	hdl_coll_pending++;
	for (uint32_t i = 0; n < end && likely(hdl_run_goes_on(run)); n++, i++) {
		int rc;

		if (unlikely(run->inflight))
			wait_for_sends_before(run, n);
		switch (n->kind) {
		case HDL_N_SEND: {
			struct hdl_run_node *node = &run->nodes[i];

			node->done = true;
			if (likely(hdl_run_send_now(run, n)))
				break;
			node->done = false;
			node->sending = true;
			node->send.done = inline_sent;
			run->inflight++;
			rc = hdl_run_send(run, n, &node->send);
			if (likely(rc == 1)) {
				node->done = true;
				run->inflight--;
				node->sending = false;
			} else if (rc < 0) {
				run->inflight--;
				node->sending = false;
				hdl_run_send_failed(run, n, rc);
			}
			break;
		}
		case HDL_N_RECV:
			hdl_run_recv(run, n);
			break;
		default:
			if (likely(!run->error))
				hdl_run_local(run, n);
			break;
		}
	}
	if (unlikely(run->inflight))
		progress_until(run, 0);
	cc->pending--;
	hdl_coll_pending--;
	return run->error;
}

/* ---- by events -------------------------------------------------------------------------------------------- */

static void make_runnable(struct hdl_run *run)
{
	if (run->runnable)
		return;
	run->runnable = true;
	run->next = NULL;
	*runnable_tail = run;
	runnable_tail = &run->next;
}

static void node_done(struct hdl_run *run, uint32_t i)
{
	const struct hdl_node *n = &run->g->nodes[i];

	run->nodes[i].done = true;
	run->nodes_left--;
	for (uint32_t s = 0; s < n->nsuccs; s++) {
		uint32_t succ = run->g->succs[n->succ0 + s];

		if (--run->nodes[succ].waiting == 0)
			run->ready[run->nready++] = succ;
	}
}

/* Withdraws the run's receives, whose messages may never come. */
static void withdraw_receives(struct hdl_run *run)
{
	for (uint32_t i = 0; i < run->g->nnodes; i++)
		if (run->nodes[i].req && !run->nodes[i].req->done)
			hdl_req_cancel(run->nodes[i].req);
}

/* Notes an error: the machine of enum hdl_run_mode. The first error that ends the run withdraws its receives. */
static void run_failed(struct hdl_run *run, int error)
{
	bool failed = run->error && run->mode != HDL_RUN_EMPTY;

	hdl_run_error(run, error);
	if (hdl_is_of_arguments(error)) {
		if (!failed)
			run->mode = HDL_RUN_EMPTY;
		return;
	}
	if (run->mode == HDL_RUN_EMPTY)
		run->mode = hdl_run_wires_up(run) ? HDL_RUN_ALL : HDL_RUN_NORMAL;
	if (!failed && run->mode != HDL_RUN_ALL)
		withdraw_receives(run);
}

void hdl_host_revoke(struct hdl_cc *cc)
{
	for (struct hdl_run *run = cc->runs, *next; run; run = next) {
		next = run->after;
		run->mode = HDL_RUN_NORMAL;
		hdl_run_error(run, MPI_ERR_PROC_ABORTED);
		withdraw_receives(run);
		withdraw_sends(run);
		make_runnable(run);
	}
}

static void event_done(struct hdl_run_node *node, int error)
{
	struct hdl_run *run = node->run;

	run->inflight--;
	if (unlikely(error))
		run_failed(run, error);
	node_done(run, (uint32_t)(node - run->nodes));
	if (run->nready || !run->inflight)
		make_runnable(run);
}

static void event_sent(struct hdl_send *send, int err)
{
	struct hdl_run_node *node = container_of(send, struct hdl_run_node, send);

	node->sending = false;
	event_done(node, err ? hdl_run_errno(node->run, &node->run->g->nodes[node - node->run->nodes], err) : 0);
}

static void event_received(struct hdl_req *req)
{
	struct hdl_run_node *node = req->notify_arg;
	const struct hdl_node *n = &node->run->g->nodes[node - node->run->nodes];
	int error = req->error;

	node->req = NULL;
	if (unlikely(error)) {
		hdl_run_note_loss(node->run, n, error);
		hdl_req_explain(req);
	} else if (likely(!hdl_status_cancelled(&req->status))) {
		error = hdl_run_check_length(node->run, n, &req->status);
	}
	hdl_req_free(req);
	event_done(node, error);
}

static void start_node(struct hdl_run *run, uint32_t i)
{
	const struct hdl_node *n = &run->g->nodes[i];
	struct hdl_run_node *node = &run->nodes[i];
	struct hdl_comm *comm;
	struct hdl_req *req;
	int rc, peer = n->peer;

	switch (n->kind) {
	case HDL_N_SEND:
		node->send.done = event_sent;
		node->sending = true;
		run->inflight++;
		rc = hdl_run_send(run, n, &node->send);
		if (rc == 0)
			return;
		node->sending = false;
		run->inflight--;
		if (rc < 0)
			run_failed(run, hdl_run_errno(run, n, rc));
		break;
	case HDL_N_RECV:
		comm = hdl_peer_comm(run->comm, &peer);
		rc = hdl_irecv(hdl_run_memory(run, n->dst_space, n->dst_off), (MPI_Count)n->len, hdl_type_get(MPI_BYTE), peer,
			       run->tag | (int32_t)n->sub, comm, run->comm->context + 1, &req);
		if (rc) {
			run_failed(run, hdl_run_note_loss(run, n, rc));
			break;
		}
		if (!req->done) {
			node->req = req;
			req->notify_arg = node;
			req->notify = event_received;
			run->inflight++;
			return;
		}
		rc = hdl_run_note_loss(run, n, req->error);
		if (unlikely(rc))
			hdl_req_explain(req);
		else
			rc = hdl_run_check_length(run, n, &req->status);
		hdl_req_free(req);
		if (unlikely(rc))
			run_failed(run, rc);
		break;
	default:
		if (likely(!run->error))
			hdl_run_local(run, n);
		break;
	}
	node_done(run, i);
}

static void begin_run(struct hdl_run *run)
{
	struct hdl_cc *cc = run->comm->coll;

	cc->pending++;
	hdl_coll_pending++;
	run->after = cc->runs;
	run->link = &cc->runs;
	if (run->after)
		run->after->link = &run->after;
	cc->runs = run;
}

static void end_run(struct hdl_run *run)
{
	struct hdl_cc *cc = run->comm->coll;

	cc->pending--;
	hdl_coll_pending--;
	*run->link = run->after;
	if (run->after)
		run->after->link = run->link;
}

/* Starts all ready nodes. Returns their number. Must: the caller does not touch the run afterwards, which may be finished and
 * reused. */
static int run_on(struct hdl_run *run)
{
	int n = 0;

	while (run->nready && likely(hdl_run_goes_on(run))) {
		start_node(run, run->ready[--run->nready]);
		n++;
	}
	/* A run that an event has made runnable meanwhile is finished by hdl_host_progress. */
	if (!run->runnable && (run->nodes_left == 0 || (!hdl_run_goes_on(run) && !run->inflight))) {
		end_run(run);
		hdl_run_finish(run);
	}
	return n;
}

void hdl_host_start(struct hdl_run *run)
{
	const struct hdl_graph *g = run->g;
	const struct hdl_cc *cc = run->comm->coll;

	if (unlikely(cc->lost)) {
		hdl_run_error(run, MPI_ERR_PROC_ABORTED);
		hdl_run_finish(run);
		return;
	}
	begin_run(run);
	run->nodes_left = g->nnodes;
	run->inflight = run->nready = 0;
	run->runnable = false;
	if (run->mode != HDL_RUN_ALL)	/* hdl_run_misfit may have set the error before the start */
		run->mode = hdl_is_of_arguments(run->error) ? HDL_RUN_EMPTY : HDL_RUN_NORMAL;
	for (uint32_t i = g->nnodes; i-- > 0;) {
		run->nodes[i].waiting = g->nodes[i].npreds;
		run->nodes[i].done = false;
		run->nodes[i].req = NULL;
		if (!g->nodes[i].npreds)
			run->ready[run->nready++] = i;	/* a stack: the first node comes out first */
	}
	run_on(run);
}

int hdl_host_progress(void)
{
	struct hdl_run *run = runnable_head;
	int n = 0;

	if (likely(!run))
		return 0;
	/* Runs that become runnable during this loop wait for the next turn. */
	runnable_head = NULL;
	runnable_tail = &runnable_head;
	while (run) {
		struct hdl_run *next = run->next;

		run->runnable = false;
		n += 1 + run_on(run);
		run = next;
	}
	return n;
}

void hdl_host_forget(void)
{
	runnable_head = NULL;
	runnable_tail = &runnable_head;
}

/* Starts the run by events, with the communicator's next number; a persistent run keeps its tag. */
void hdl_host_begin(struct hdl_run *run)
{
	struct hdl_cc *cc = run->comm->coll;

	if (!(run->tag & HDL_PERSISTENT_TAG))
		run->tag = hdl_coll_tag(cc->seq++);
	hdl_host_start(run);
}

const struct hdl_executor_ops hdl_exec_host = { .name = "host", .prepare = hdl_run_prepare_host };
