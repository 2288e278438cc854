/* SPDX-License-Identifier: BSD-3-Clause */
/* Failed peers, and revoked communicators: posted receives that end with an error, messages that are dropped. */
#include "p2p/comm/comm_cid.h"
#include "p2p/fault/fault.h"
#include "p2p/unexpected.h"
#include "runtime/events.h"

#include <errno.h>

bool hdl_tag_is_revocable(int tag)
{
	return tag >= 0 || hdl_cid_is_collective(tag);
}

static bool recv_is_of_revoked(const struct hdl_op *op, void *arg)
{
	return op->context == *(const uint16_t *)arg && hdl_tag_is_revocable(op->tag);
}

/* Ends the receives of a list, which are out of the queues. */
static void fail_all(struct hdl_op *op, int errnum)
{
	struct hdl_op *next;

	for (; op; op = next) {
		next = op->next;
		op->errnum = errnum;
		if (op->type)
			hdl_type_release(op->type);
		hdl_status_empty(&op->req.status, op->peer);
		hdl_req_complete(&op->req, MPI_ERR_PROC_ABORTED);
	}
}

void hdl_recv_fail(struct hdl_matching *m, bool (*fn)(const struct hdl_op *op, void *arg), void *arg)
{
	fail_all(hdl_match_sweep(m, fn, arg), ECONNRESET);
}

void hdl_recv_drop(struct hdl_matching *m, int src, uint8_t kind, const void *payload)
{
	if (kind == HDL_RTS)
		hdl_ep_refuse(hdl_ep(m->tp, src), payload);
}

void hdl_recv_revoke(struct hdl_comm *comm, int proc)
{
	struct hdl_matching *m = comm->matching;
	struct hdl_unexpected *u, *after;
	uint16_t context = (uint16_t)(comm->context + 1);

	m->revoked[context] = 1 + proc;
	hdl_recv_fail(m, recv_is_of_revoked, &context);
	for (u = m->contexts[context].first; u; u = after) {
		after = u->after;
		if (!hdl_tag_is_revocable(u->tag) || hdl_ft_is_message(context, u->tag))
			continue;
		hdl_match_remove(m, u);
		hdl_recv_drop(m, u->src, u->kind, u->data);
		hdl_buf_put(u);
	}
	if (m->neager_off)
		hdl_unexpected_release_all(m);
}

struct lost_peer {
	int proc;
	bool departed;			/* the peer has ended in order, which is no failure: a message from another source may
					 * still come */
};

/* Returns true if a posted receive waits for this peer, or for any source of a communicator with this peer. */
static bool concerns_peer(const struct hdl_op *op, void *arg)
{
	const struct lost_peer *peer = arg;

	return op->src == peer->proc || (op->src == MPI_ANY_SOURCE && !peer->departed &&
					 hdl_comm_rank_of(op->req.comm, peer->proc) != MPI_UNDEFINED);
}

void hdl_peer_failed(void *context, int peer, int err)
{
	struct hdl_matching *m = context;
	struct hdl_ep_note *note = hdl_ep_note(hdl_ep(m->tp, peer));
	struct lost_peer lost = { peer, hdl_ep_has_departed(m->tp, peer) };

	if (note->failed)
		return;
	note->failed = err < 0 ? -err : err ? err : ECONNRESET;
	m->failed_peers++;
	if (lost.departed) {
		hdl_ft_record_departed(peer);
	} else {
		hdl_ft_record_failed(peer);
		hdl_event_raise(HDL_EVENT_PEER_FAILED, &(const struct hdl_event_peer){ peer, (unsigned)note->failed });
	}
	/* The transport ends sends and fetches in flight by their done(). */
	fail_all(hdl_match_sweep(m, concerns_peer, &lost), note->failed);
	if (hdl_p2p_on_failed && m == hdl_mpi_matching)
		hdl_p2p_on_failed(peer);
}

int hdl_failed_in(struct hdl_comm *comm, int src)
{
	struct hdl_matching *m = comm->matching;
	struct hdl_ep *ep;

	if (src != MPI_ANY_SOURCE) {
		ep = hdl_ep_find(m->tp, hdl_comm_proc(comm, src));
		return ep ? hdl_ep_note(ep)->failed : 0;
	}
	for (ep = hdl_ep_next(m->tp, NULL); ep; ep = hdl_ep_next(m->tp, ep)) {
		struct hdl_ep_note *note = hdl_ep_note(ep);

		if (note->failed && hdl_comm_rank_of(comm, note->rank) != MPI_UNDEFINED &&
		    !hdl_ep_has_departed(m->tp, note->rank))
			return note->failed;
	}
	return 0;
}

bool hdl_proc_is_gone(int proc)
{
	struct hdl_matching *m = hdl_mpi_matching;
	struct hdl_ep *ep = likely(!m->failed_peers) ? NULL : hdl_ep_find(m->tp, proc);

	if (hdl_ep_has_departed(m->tp, proc))
		return false;
	return (ep && hdl_ep_note(ep)->failed) || hdl_ep_process(m->tp, proc) == HDL_PROC_ENDED;
}
