/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The host executor: runs a graph over p2p and the transport. Sends go to the transport directly (their matching
 * header is all that p2p would add), receives are matched by p2p.
 *
 * Two ways. Blocking and small: the nodes in the algorithm's order, which is topological, receives block; no state but
 * the sends that the transport keeps. Otherwise by events: a node starts when its predecessors are done. Completions are
 * reported from inside the transport's progress, where nothing may be posted: they only mark what became ready, and
 * hdl_host_progress starts it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "collectives/select/check.h"
#include "collectives/internal.h"
#include "collectives/select/tuner.h"

static struct hdl_run *runnable_head, **runnable_tail = &runnable_head;

/* ---- runs ------------------------------------------------------------------------------------------------ */

#define KEEP_TMP ((size_t)64 << 10)	/* larger scratch is given back after each run, for others */

struct hdl_run *hdl_run_new(const struct hdl_graph *g, struct hdl_comm *comm)
{
	struct hdl_run *run = calloc(1, sizeof(*run));

	if (!run)
		return NULL;
	run->g = g;
	run->comm = comm;
	return run;
}

void hdl_run_free(struct hdl_run *run)
{
	if (!run)
		return;
	hdl_check_free(run->check);
	hdl_scratch_put(&run->tmp);
	free(run->nodes);
	free(run->ready);
	hdl_sc_free(run->reads);
	hdl_vector_free(run->parcels);
	free(run);
}

void hdl_run_change_graph(struct hdl_run *run, const struct hdl_graph *g)
{
	if (run->g == g)
		return;
	hdl_scratch_put(&run->tmp);
	free(run->nodes);
	free(run->ready);
	run->nodes = NULL;
	run->ready = NULL;
	run->g = g;
}

int hdl_run_prepare_tmp(struct hdl_run *run)
{
	if (!run->tmp.p && run->g->tmp_bytes && hdl_scratch_get(&run->tmp, run->g->tmp_bytes))
		return -ENOMEM;
	run->base[HDL_SP_TMP] = run->tmp.p;
	return 0;
}

int hdl_run_prepare_host(struct hdl_run *run)
{
	const struct hdl_graph *g = run->g;

	if (!run->nodes) {
		run->nodes = calloc(g->nnodes ? g->nnodes : 1, sizeof(*run->nodes));
		run->ready = calloc(g->nnodes ? g->nnodes : 1, sizeof(*run->ready));
		if (!run->nodes || !run->ready)
			return -ENOMEM;
		for (uint32_t i = 0; i < g->nnodes; i++)
			run->nodes[i].run = run;
	}
	return hdl_run_prepare_tmp(run);
}

/* In a graph elements are packed: also those of reductions, so that no executor has to know where a type has holes. */
static int pack_whole(void **packed, const void *buf, MPI_Count count, const struct hdl_type *t, bool fill)
{
	size_t bytes;

	*packed = NULL;
	if (!__builtin_mul_overflow((size_t)count, (size_t)hdl_type_size(t), &bytes))
		*packed = malloc(bytes ? bytes : 1);
	if (!*packed)
		return MPI_ERR_NO_MEM;
	if (fill)
		hdl_pack(*packed, buf, count, t, 0, bytes);
	return MPI_SUCCESS;
}

static MPI_Count elements_sent(const struct hdl_coll_args *a, int ranks, int rank)
{
	return a->coll == HDL_ALLTOALL ? a->sendcount * ranks :
	       a->coll == HDL_SCATTER ? rank == a->root ? a->sendcount * ranks : 0 : a->sendcount;
}

static MPI_Count elements_received(const struct hdl_coll_args *a, int ranks, int rank)
{
	switch (a->coll) {
	case HDL_SCATTER:
		return a->recvbuf == MPI_IN_PLACE ? 0 : a->recvcount;
	case HDL_REDUCE:
		return rank == a->root ? a->recvcount : 0;
	case HDL_EXSCAN:
		return rank ? a->recvcount : 0;
	case HDL_BCAST:
	case HDL_ALLREDUCE:
	case HDL_SCAN:
	case HDL_REDUCE_SCATTER:
		return a->recvcount;
	case HDL_GATHER:
		return rank == a->root ? a->recvcount * ranks : 0;
	default:
		return a->recvcount * ranks;
	}
}

/* Types with holes. */
static __attribute__((noinline)) int bind_packed(struct hdl_run *run, int ranks, bool in_place)
{
	const struct hdl_coll_args *a = &run->args;
	bool sends_it = a->coll == HDL_SCATTER || (a->coll != HDL_BCAST && !in_place);
	MPI_Count sends = elements_sent(a, ranks, run->comm->rank);
	int rc = MPI_SUCCESS;

	run->recv_elems = in_place && hdl_coll_reduces(a->coll) ? sends : elements_received(a, ranks, run->comm->rank);
	if (sends_it && sends && !hdl_type_is_run(a->sendtype, sends)) {
		rc = pack_whole(&run->packed_send, a->sendbuf, sends, a->sendtype, true);
		run->base[HDL_SP_SEND] = run->packed_send;
	}
	if (!rc && run->recv_elems && !hdl_type_is_run(a->recvtype, run->recv_elems)) {
		bool fill = in_place || (a->coll == HDL_BCAST && run->comm->rank == a->root);

		rc = pack_whole(&run->packed_recv, a->recvbuf, run->recv_elems, a->recvtype, fill);
		run->base[HDL_SP_RECV] = run->packed_recv;
		if (!rc)
			hdl_type_retain((struct hdl_type *)a->recvtype);	/* its user may free it meanwhile */
	}
	if (rc) {
		free(run->packed_send);
		run->packed_send = NULL;
	} else if (run->packed_send) {
		hdl_type_retain((struct hdl_type *)a->sendtype);	/* what keeps packs again */
	}
	return rc;
}

int hdl_run_bind(struct hdl_run *run, const struct hdl_coll_args *args, int ranks, bool in_place)
{
	run->base[HDL_SP_SEND] = (char *)args->sendbuf;
	run->base[HDL_SP_RECV] = args->recvbuf;
	run->packed_send = run->packed_recv = NULL;
	run->args = *args;
	hdl_run_begin(run);
	if (args->coll == HDL_BARRIER ||
	    (likely(hdl_type_is_contiguous(args->recvtype)) &&
	     (args->coll == HDL_BCAST || in_place || hdl_type_is_contiguous(args->sendtype))))
		return MPI_SUCCESS;
	return bind_packed(run, ranks, in_place);
}

static bool sends_recvbuf(const struct hdl_run *run)
{
	const struct hdl_coll_args *a = &run->args;

	return a->coll == HDL_BCAST ? run->comm->rank == a->root : a->sendbuf == MPI_IN_PLACE;
}

void hdl_run_repack(struct hdl_run *run)
{
	const struct hdl_coll_args *a = &run->args;

	if (run->packed_send) {
		MPI_Count n = elements_sent(a, run->comm->size, run->comm->rank);

		hdl_pack(run->packed_send, a->sendbuf, n, a->sendtype, 0, (size_t)n * (size_t)hdl_type_size(a->sendtype));
	}
	if (run->packed_recv && sends_recvbuf(run))
		hdl_pack(run->packed_recv, a->recvbuf, run->recv_elems, a->recvtype, 0,
			 (size_t)run->recv_elems * (size_t)hdl_type_size(a->recvtype));
}

void hdl_run_unbind(struct hdl_run *run)
{
	if (run->packed_send)
		hdl_type_release((struct hdl_type *)run->args.sendtype);
	if (run->packed_recv)
		hdl_type_release((struct hdl_type *)run->args.recvtype);
	free(run->packed_send);
	free(run->packed_recv);
	run->packed_send = run->packed_recv = NULL;
}

static __attribute__((noinline)) void take_packed(struct hdl_run *run)
{
	const struct hdl_coll_args *a = &run->args;

	if (run->packed_recv && !run->error && !(a->coll == HDL_BCAST && run->comm->rank == a->root))
		hdl_unpack(a->recvbuf, run->packed_recv, run->recv_elems, a->recvtype, 0,
			   (size_t)run->recv_elems * (size_t)hdl_type_size(a->recvtype));
	if (!run->keeps)
		hdl_run_unbind(run);
}

void hdl_run_finish(struct hdl_run *run)
{
	if (unlikely(run->packed_send || run->packed_recv))
		take_packed(run);
	if (unlikely(run->g->tmp_bytes > KEEP_TMP && !run->keeps))
		hdl_scratch_put(&run->tmp);
	run->finished = true;
	if (run->done)
		run->done(run);
}

/* A rank with a buffer that cannot be reached makes its peers send empty messages, and one of these may have been found too short before
 * the transport reports the buffer: the buffer is the cause. */
static bool is_cause(const struct hdl_run *run, int error)
{
	return !run->error || (run->error == MPI_ERR_COUNT && error == MPI_ERR_BUFFER);
}

void hdl_run_error(struct hdl_run *run, int error)
{
	const struct hdl_cc *cc = run->comm->coll;
	const char *why;

	/* whoever was waited for, the cause is that one */
	if (error == MPI_ERR_PROC_ABORTED && cc && cc->lost)
		hdl_ft_reason(cc, run->plan ? hdl_coll_name(run->args.coll) : "collective");
	why = hdl_reason_take();
	if (!is_cause(run, error))
		return;
	run->error = error;
	snprintf(run->why, sizeof(run->why), "%s", why);
	/* what goes on all the same, others need not wait for */
	if (error == MPI_ERR_NO_MEM && !run->persists)
		hdl_ft_give_up(run->comm, run->why);
}

__attribute__((noinline, cold)) void hdl_run_misfit(struct hdl_run *run, size_t sent, size_t room)
{
	hdl_reason_set("this rank sends itself %zu bytes, and receives %zu from itself: its counts and types do not fit each other",
		       sent, room);
	hdl_run_error(run, sent > room ? MPI_ERR_TRUNCATE : MPI_ERR_COUNT);
}

void hdl_run_local(const struct hdl_run *run, const struct hdl_node *n)
{
	char *dst = run->base[n->dst_space] + n->dst_off;
	const char *src = run->base[n->src_space] + n->src_off;

	if (n->kind == HDL_N_REDUCE && likely(run->g->fn != NULL))
		run->g->fn(src, dst, n->len / run->g->esize);
	else if (n->kind == HDL_N_REDUCE)
		run->reduce(run, src, dst, n->len);
	else
		memcpy(dst, src, n->len);
}

/* ---- messages -------------------------------------------------------------------------------------------- */

/* Of a message of this node. */
static inline int note_loss(const struct hdl_run *run, const struct hdl_node *n, int error)
{
	if (unlikely(error == MPI_ERR_PROC_ABORTED))
		hdl_ft_member_failed(run->comm->coll, n->peer);
	return error;
}

/* As the program numbers it, which has no handle for the communicator of one host's ranks (hierarchical.c). */
static int rank_named(struct hdl_comm *comm, int rank)
{
	const struct hdl_cc *cc = comm->coll;

	return cc->of ? hdl_comm_rank_of(cc->of->comm, hdl_comm_proc(comm, rank)) : rank;
}

int hdl_run_errno(const struct hdl_run *run, const struct hdl_node *n, int err)
{
	int error = hdl_class_of(-err), peer = n->peer;
	struct hdl_comm *comm = hdl_peer_comm(run->comm, &peer);

	if (err == -ECANCELED) {
		/* withdrawn here, or refused there: a member has ended, and that one knows */
		hdl_ft_member_gave_up(run->comm->coll);
		hdl_reason_set("rank %d has given this collective up: a member of the communicator cannot do its part any more",
			       rank_named(run->comm, peer));
		return MPI_ERR_PROC_ABORTED;
	}
	/* the receiver waits for this message, however the run goes on */
	if (run->persists && error != MPI_ERR_PROC_ABORTED)
		hdl_ft_give_up(run->comm, strerror(-err));
	hdl_send_explain(error, -err, peer, run->tag | (int32_t)n->sub, comm, n->len);
	return note_loss(run, n, error);
}

void hdl_run_send_failed(struct hdl_run *run, const struct hdl_node *n, int err)
{
	int error = hdl_run_errno(run, n, err);

	hdl_run_error(run, error);
	run->spoiled |= hdl_is_of_arguments(error);
}

static void *node_memory(const struct hdl_run *run, uint8_t space, size_t off)
{
	return space < HDL_SPACES ? run->base[space] + off : NULL;
}

int hdl_run_send(struct hdl_run *run, const struct hdl_node *n, struct hdl_send *send)
{
	int peer = n->peer;
	struct hdl_comm *comm = hdl_peer_comm(run->comm, &peer);

	return hdl_ep_send(hdl_comm_ep(comm, peer), run->tag | (int32_t)n->sub, run->comm->context + 1, false,
			   node_memory(run, n->src_space, n->src_off), unlikely(run->spoiled) ? 0 : n->len, send);
}

/* A message that is shorter than the ranks' arguments promise would leave a part of the buffer as it was. */
static inline int host_check_length(const struct hdl_run *run, const struct hdl_node *n, const MPI_Status *status)
{
	MPI_Count bytes = hdl_status_bytes(status);

	if (likely((size_t)bytes == n->len))
		return MPI_SUCCESS;
	hdl_reason_set("a message of %lld bytes came from rank %d where %zu were expected: " HDL_CALLS_DIFFER ", or it failed there",
		       (long long)bytes, rank_named(run->comm, status->MPI_SOURCE), n->len);
	return MPI_ERR_COUNT;
}

/* So that nobody waits for a receiver that does not come. What has been announced, and is not refused before its receiver has come
 * into the library, is waited for all the same: it may be read at any time. */
static void withdraw_sends(struct hdl_run *run)
{
	for (uint32_t i = 0; i < run->g->nnodes; i++) {
		int peer = run->g->nodes[i].peer;

		if (run->nodes[i].sending)
			hdl_send_withdraw(&run->nodes[i].send, peer, hdl_peer_comm(run->comm, &peer));
	}
}

void hdl_run_recv(struct hdl_run *run, const struct hdl_node *n)
{
	int peer = n->peer, rc;
	struct hdl_comm *comm = hdl_peer_comm(run->comm, &peer);
	MPI_Status status;

	/* the receives that were posted were taken back: one that is posted now would wait for ever */
	if (unlikely(((const struct hdl_cc *)run->comm->coll)->lost)) {
		hdl_run_error(run, MPI_ERR_PROC_ABORTED);
		return;
	}
	rc = hdl_recv(node_memory(run, n->dst_space, n->dst_off), (MPI_Count)n->len, hdl_type_get(MPI_BYTE), peer,
		      run->tag | (int32_t)n->sub, comm, run->comm->context + 1, &status);
	if (likely(!rc))
		rc = host_check_length(run, n, &status);
	if (unlikely(rc)) {
		hdl_run_error(run, note_loss(run, n, rc));
		run->spoiled |= hdl_is_of_arguments(rc);
	}
}

/* ---- blocking, in order ----------------------------------------------------------------------------------- */

/* Beyond this the events pay: receives are posted before their messages come. */
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
	run->spoiled = false;	/* what were sent now could not be withdrawn */
	hdl_run_error(run, MPI_ERR_PROC_ABORTED);
	withdraw_sends(run);
	hdl_wait_until(few_in_flight, &in);
}

/* Only sends can be behind: a node that writes what they read must wait for them. */
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
	for (uint32_t i = 0; n < end && likely(!run->error || run->spoiled); n++, i++) {
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
	run->left--;
	for (uint32_t s = 0; s < n->nsuccs; s++) {
		uint32_t succ = run->g->succs[n->succ0 + s];

		if (--run->nodes[succ].waiting == 0)
			run->ready[run->nready++] = succ;
	}
}

/* Receives that wait for messages which may never come. */
static void withdraw_receives(struct hdl_run *run)
{
	for (uint32_t i = 0; i < run->g->nnodes; i++)
		if (run->nodes[i].req && !run->nodes[i].req->done)
			hdl_req_cancel(run->nodes[i].req);
}

/* The first error ends the graph, unless it persists. */
static void run_failed(struct hdl_run *run, int error)
{
	bool failed = run->error && !run->spoiled;

	hdl_run_error(run, error);
	if (hdl_is_of_arguments(error)) {
		run->spoiled = !failed;
		return;
	}
	run->spoiled = false;
	if (!failed && !run->persists)
		withdraw_receives(run);
}

void hdl_host_revoke(struct hdl_cc *cc)
{
	for (struct hdl_run *run = cc->runs, *next; run; run = next) {
		next = run->after;
		run->persists = run->spoiled = false;
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
		note_loss(node->run, n, error);
		hdl_req_explain(req);
	} else if (likely(!hdl_status_cancelled(&req->status))) {
		error = host_check_length(node->run, n, &req->status);
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
		rc = hdl_irecv(node_memory(run, n->dst_space, n->dst_off), (MPI_Count)n->len, hdl_type_get(MPI_BYTE), peer,
			       run->tag | (int32_t)n->sub, comm, run->comm->context + 1, &req);
		if (rc) {
			run_failed(run, note_loss(run, n, rc));
			break;
		}
		if (!req->done) {
			node->req = req;
			req->notify_arg = node;
			req->notify = event_received;
			run->inflight++;
			return;
		}
		rc = note_loss(run, n, req->error);
		if (unlikely(rc))
			hdl_req_explain(req);
		else
			rc = host_check_length(run, n, &req->status);
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

static inline bool host_goes_on(const struct hdl_run *run)
{
	return !run->error || run->persists || run->spoiled;
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

/* Starts all that is ready. Returns the number of nodes. The run may be finished, and its owner's, afterwards. */
static int run_on(struct hdl_run *run)
{
	int n = 0;

	while (run->nready && likely(host_goes_on(run))) {
		start_node(run, run->ready[--run->nready]);
		n++;
	}
	/* A run that an event has put on the list meanwhile is finished from there. */
	if (!run->runnable && (run->left == 0 || (!host_goes_on(run) && !run->inflight))) {
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
	run->left = g->nnodes;
	run->inflight = run->nready = 0;
	run->runnable = false;
	run->spoiled = hdl_is_of_arguments(run->error);	/* this rank's own arguments do not fit each other */
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
	/* Runs that become runnable meanwhile wait for the next turn. */
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
