/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Runs: one execution of a graph, bound to the caller's buffers, and the messages of its nodes. The executors decide when a node
 * is carried out. Sends go to the transport directly (p2p would add only their matching header); p2p matches the receives.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "collectives/exec.h"
#include "collectives/internal.h"
#include "collectives/select/select.h"

/* ---- runs ------------------------------------------------------------------------------------------------ */

#define KEEP_TMP ((size_t)64 << 10)	/* larger scratch is given back after each run, for runs of any plan */

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
	hdl_scratch_put(&run->tmp);
	free(run->nodes);
	free(run->ready);
	if (run->plan && run->plan->exec->free)
		run->plan->exec->free(run);
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

/* Allocates a buffer for packed elements, and packs them if fill. Elements in a graph are packed, also those of reductions: no
 * executor has to know the holes of a type. Returns an MPI error class. */
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

/* Binds buffers of types with holes. Returns an MPI error class. */
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
			hdl_type_retain((struct hdl_type *)a->recvtype);	/* take_packed uses the type */
	}
	if (rc) {
		free(run->packed_send);
		run->packed_send = NULL;
	} else if (run->packed_send) {
		hdl_type_retain((struct hdl_type *)a->sendtype);	/* hdl_run_repack uses the type */
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
	if (!run->retain)
		hdl_run_unbind(run);
}

void hdl_run_finish(struct hdl_run *run)
{
	if (unlikely(run->packed_send || run->packed_recv))
		take_packed(run);
	if (unlikely(run->g->tmp_bytes > KEEP_TMP && !run->retain))
		hdl_scratch_put(&run->tmp);
	run->finished = true;
	if (run->done)
		run->done(run);
}

/* A rank with a buffer that cannot be reached makes its peers send empty messages, and one of these may have been found too short
 * before the transport reports the buffer: the buffer is the cause. */
static bool is_cause(const struct hdl_run *run, int error)
{
	return !run->error || (run->error == MPI_ERR_COUNT && error == MPI_ERR_BUFFER);
}

void hdl_run_error(struct hdl_run *run, int error)
{
	const struct hdl_cc *cc = run->comm->coll;
	const char *why;

	/* the cause is the lost member, whichever rank this run waited for */
	if (error == MPI_ERR_PROC_ABORTED && cc && cc->lost)
		hdl_ft_reason(cc, run->plan ? hdl_coll_name(run->args.coll) : "collective");
	why = hdl_reason_take();
	if (!is_cause(run, error))
		return;
	run->error = error;
	snprintf(run->why, sizeof(run->why), "%s", why);
	/* an exchange of the bring-up continues and leaves no rank waiting; otherwise the communicator is revoked */
	if (error == MPI_ERR_NO_MEM && !hdl_run_wires_up(run))
		hdl_ft_give_up(run->comm, run->why);
}

__attribute__((noinline, cold)) void hdl_run_misfit(struct hdl_run *run, size_t sent, size_t room)
{
	hdl_reason_set("this rank sends itself %zu bytes, and receives %zu from itself: its counts and types do not fit each "
		       "other", sent, room);
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

/* Returns the rank for an error text, numbered as in the program's communicator: a node_comm (hierarchical.c) has no handle. */
static int rank_named(struct hdl_comm *comm, int rank)
{
	const struct hdl_cc *cc = comm->coll;

	return cc->node_of ? hdl_comm_rank_of(cc->node_of->comm, hdl_comm_proc(comm, rank)) : rank;
}

int hdl_run_errno(const struct hdl_run *run, const struct hdl_node *n, int err)
{
	int error = hdl_class_of(-err), peer = n->peer;
	struct hdl_comm *comm = hdl_peer_comm(run->comm, &peer);

	if (err == -ECANCELED) {
		/* the send was withdrawn here, or the receiver has refused the message: a member has ended, as the receiver
		 * knows */
		hdl_ft_member_gave_up(run->comm->coll);
		hdl_reason_set("rank %d has given this collective up: a member of the communicator cannot do its part any more",
			       rank_named(run->comm, peer));
		return MPI_ERR_PROC_ABORTED;
	}
	/* HDL_RUN_ALL does not help this receiver, which waits for this message */
	if (hdl_run_wires_up(run) && error != MPI_ERR_PROC_ABORTED)
		hdl_ft_give_up(run->comm, strerror(-err));
	hdl_send_explain(error, -err, peer, run->tag | (int32_t)n->sub, comm, n->len);
	return hdl_run_note_loss(run, n, error);
}

void hdl_run_send_failed(struct hdl_run *run, const struct hdl_node *n, int err)
{
	int error = hdl_run_errno(run, n, err);

	hdl_run_error(run, error);
	if (hdl_is_of_arguments(error))
		run->mode = HDL_RUN_EMPTY;
}

int hdl_run_send(struct hdl_run *run, const struct hdl_node *n, struct hdl_send *send)
{
	int peer = n->peer;
	struct hdl_comm *comm = hdl_peer_comm(run->comm, &peer);

	return hdl_ep_send(hdl_comm_ep(comm, peer), run->tag | (int32_t)n->sub, run->comm->context + 1, false,
			   hdl_run_memory(run, n->src_space, n->src_off), unlikely(run->mode == HDL_RUN_EMPTY) ? 0 : n->len,
			   send);
}

__attribute__((noinline, cold)) int hdl_run_bad_length(const struct hdl_run *run, const struct hdl_node *n,
						       const MPI_Status *status)
{
	hdl_reason_set("a message of %lld bytes came from rank %d where %zu were expected: " HDL_CALLS_DIFFER
		       ", or it failed there",
		       (long long)hdl_status_bytes(status), rank_named(run->comm, status->MPI_SOURCE), n->len);
	return MPI_ERR_COUNT;
}

void hdl_run_recv(struct hdl_run *run, const struct hdl_node *n)
{
	int peer = n->peer, rc;
	struct hdl_comm *comm = hdl_peer_comm(run->comm, &peer);
	MPI_Status status;

	/* hdl_recv_revoke withdraws the receives posted at that time; one posted after that would wait forever */
	if (unlikely(((const struct hdl_cc *)run->comm->coll)->lost)) {
		hdl_run_error(run, MPI_ERR_PROC_ABORTED);
		return;
	}
	rc = hdl_recv(hdl_run_memory(run, n->dst_space, n->dst_off), (MPI_Count)n->len, hdl_type_get(MPI_BYTE), peer,
		      run->tag | (int32_t)n->sub, comm, run->comm->context + 1, &status);
	if (likely(!rc))
		rc = hdl_run_check_length(run, n, &status);
	if (unlikely(rc)) {
		hdl_run_error(run, hdl_run_note_loss(run, n, rc));
		if (hdl_is_of_arguments(rc))
			run->mode = HDL_RUN_EMPTY;
	}
}
