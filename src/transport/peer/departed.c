/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Endpoints of departed processes. A program that spawns jobs without end makes endpoints without end, so the endpoint of a
 * process is freed when
 *     1. the endpoint has failed: its operations have ended, its queues are destroyed or used by other peers,
 *     2. the process is of another job with which this process has no communicator any more, and has ended, and
 *     3. no list, queue or table of this instance has a pointer to the endpoint, nor has the layer above (is_held).
 *
 * All these processes then have one failed endpoint together, tp->departed: a message to one of them ends with an error as
 * before, and it has the sums of their counters. 8 bytes of the table of ids stay for each; the entry of the table of ranks stays
 * until hdl_tp_forget, which the layer above calls when nothing has the process's number any more. The endpoint of a process
 * whose end is not known (of another host, without an event of the launcher) stays.
 */
#include <stdlib.h>
#include <string.h>

#include "runtime/jobs.h"
#include "transport/core/tp.h"
#include "transport/kinds/kind.h"
#include "transport/rma/rma.h"

static void ep_free(struct hdl_ep *ep)
{
	hdl_ep_drop_ctl(ep);
	hdl_ud_forget_peer(ep);
	hdl_order_clear(&ep->order);
	hdl_autotune_free(hdl_autotune_of(ep->ring_tune));
	free(ep->dirty);
	free(ep->srq_credit);
	free(ep->host);
	free(ep);
}

void hdl_peers_free(struct hdl_tp *tp)
{
	for (uint32_t i = 0; i < tp->peers.n; i++)
		if (tp->peers.of[i])
			ep_free(tp->peers.of[i]);
	tp->departed = NULL;
	hdl_peers_clear(&tp->peers);
}

/* ---- pointers to an endpoint -------------------------------------------------------------------------------- */

static bool is_in_slots(const struct hdl_sq *sq, uint32_t from, uint32_t to, const struct hdl_ep *ep)
{
	for (; from != to; from++)
		if (sq->slot[from & sq->mask].ep == ep)
			return true;
	return false;
}

/* Returns true if a request to the peer is in flight, or is to be posted again. */
static bool is_in_queues(const struct hdl_tp *tp, const struct hdl_ep *ep)
{
	for (uint32_t i = 0; i < tp->nsqs; i++) {
		const struct hdl_sq *sq = tp->sqs[i];

		if (!sq || !sq->dev || sq->ep == ep)
			continue;
		/* the requests that a broken queue keeps for their replay lie behind its tail */
		if (hdl_sq_is_broken(sq) ? is_in_slots(sq, 0, sq->depth, ep) : is_in_slots(sq, sq->tail, sq->head, ep))
			return true;
	}
	return false;
}

static bool is_in_operations(const struct hdl_tp *tp, const struct hdl_ep *ep)
{
	for (uint32_t i = 0; tp->sends.used && i < tp->sends.n; i++) {
		const struct hdl_send *s = tp->sends.e[i].p;

		if (s && s->ep == ep)
			return true;
	}
	for (uint32_t i = 0; tp->fetches.used && i < tp->fetches.n; i++) {
		const struct hdl_fetch *f = tp->fetches.e[i].p;

		if (f && f->ep == ep)
			return true;
	}
	return false;
}

static bool is_listed(const struct hdl_tp *tp, const struct hdl_ep *ep)
{
	for (int i = 0; i < tp->ndev; i++)
		if (tp->dev[i]->gather == ep)
			return true;
	return ep->busy || ep->rel_timer || ep->ack_list || ep->announces || hdl_conn_waits(&ep->conn) || ep->pend ||
	       ep->ctl[0].head || ep->ctl[1].head || ep->rdma_wait || ep->stream || ep->reads;
}

static bool ep_is_held(struct hdl_tp *tp, const struct hdl_ep *ep)
{
	return is_listed(tp, ep) || is_in_operations(tp, ep) || is_in_queues(tp, ep) || hdl_xrc_holds(ep) ||
	       hdl_agent_of(ep) || tp->up.holds(tp->up.context, ep);
}

/* ---- the end of an endpoint ----------------------------------------------------------------------------------- */

/* Makes tp->departed. Returns false without memory: then endpoints stay. */
static bool make_departed(struct hdl_tp *tp)
{
	struct hdl_ep *ep;
	int64_t id;

	if (posix_memalign((void **)&ep, 64, sizeof(*ep)))
		return false;
	memset(ep, 0, sizeof(*ep));
	ep->tp = tp;
	ep->rank = ep->note.rank = -1;
	ep->note.failed = ECONNRESET;
	ep->failed = ep->peer_failed = ep->departed = true;
	ep->fail_err = -ECONNRESET;
	ep->conn.state = HDL_CONN_FAILED;
	ep->rel = calloc(1, sizeof(*ep->rel));	/* counters */
	id = ep->rel ? hdl_peers_add_nameless(&tp->peers, ep) : -1;
	if (id < 0) {
		free(ep->rel);
		free(ep);
		return false;
	}
	ep->id = (uint32_t)id;
	tp->departed = ep;
	return true;
}

static void departed_reap(struct hdl_tp *tp, struct hdl_ep *ep)
{
	if (!hdl_rma_forget_peer(ep))
		return;
	hdl_counters_move(tp->departed, ep);
	hdl_peers_replace(&tp->peers, ep->rank, tp->departed->id);
	hdl_ring_drop(ep);
	if (ep->sq && !ep->queues && ep->sq->kind->rebind)
		ep->sq->users--;
	hdl_wire_close(ep);
	hdl_credit_put(ep);
	ep_free(ep);
}

void hdl_peers_reap(struct hdl_tp *tp)
{
	/* operations that have ended, and whose done() is still to run, may name any endpoint */
	if (tp->ndone || !tp->up.holds)
		return;
	for (uint32_t i = 0; i < tp->peers.n; i++) {
		struct hdl_ep *ep = tp->peers.of[i];

		if (!ep || !ep->failed || ep == tp->departed || hdl_proc_is_ours(ep->rank) || !hdl_job_of(ep->rank)->left)
			continue;
		if (hdl_peer_state(ep) == HDL_PROC_ENDED && !ep_is_held(tp, ep) && (tp->departed || make_departed(tp)))
			departed_reap(tp, ep);
	}
}

bool hdl_tp_forget(struct hdl_tp *tp, int first, int n)
{
	if (!hdl_peers_remove_range(&tp->peers, first, n, tp->departed))
		return false;
	hdl_wire_forget(tp, first, n);
	return true;
}
