/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Agent queues. Where this process reaches peers of its host by one device and all other peers by a second one, the second one
 * may carry out the atomic operations on a region (mr.c). Peers of other hosts post them to their ordinary lane. A peer of this
 * host, and the owner itself, has no lane on that device, and posts them to an agent queue:
 *
 *     peer of another host ── lane of the endpoint ──────▶ ┌────────┐
 *     peer of this host    ── agent queue ───────────────▶ │ second │──▶ the owner's memory
 *     the owner            ── agent queue to itself ─────▶ │ device │
 *                               ▲                          └────────┘
 *     peer without a queue ── message ── the owner's handler
 *
 * An agent queue is a pair of RC queue pairs: `out` has this process's requests, `in` answers those of the peer. Each process
 * connects its own `out` to the peer's `in`, also where the peer's `out` does not stand, so that a request of the peer which is
 * refused stops none of this process, and a queue that one side has lost is replaced on that side:
 *
 *     process                                             peer
 *     `out` to INIT, HDL_CTL_AGENT_ASK(out, turn)  ──▶    makes its half, if there is none; `in` to RTR
 *     `out` to RTR, RTS                            ◀──    HDL_CTL_AGENT_ANSWER(in, turn); 0 for `in`: it has no queue
 *
 * The states are of `out`. A queue carries atomic requests only.
 *
 *     MADE, GONE ── hdl_agent_connect: ASK ▶ ──▶ ASKED ── ANSWER ◀ ──▶ UP ── a request fails ──▶ BROKEN
 *     BROKEN ── all requests have completed: ASK ▶ ──▶ ASKED; if no request has succeeded since ANSWER ◀ ──▶ GONE
 *     ASKED ── ANSWER ◀ without a queue ──▶ GONE       any ── the peer has failed ──▶ BROKEN, GONE
 *     to itself: MADE ──▶ UP ── a request fails ──▶ BROKEN ── all requests have completed ──▶ UP
 *
 * BROKEN: updates wait. MADE, ASKED, GONE: updates go by message. Updates of one process are begun in their order, so messages
 * and requests are never under way together: with the first update of BROKEN all requests have completed, and requests of UP wait
 * for the answers of messages (`held`). Otherwise:
 *
 *     1. ASKED: an addition of this process is a message, which the peer has not read
 *     2. ANSWER arrives, and MPI_Fetch_and_op(MPI_NO_OP) on the same word is posted by the queue
 *     3. The word is returned without the addition
 *
 * An update whose request failed ends with an error. The updates behind a request that the responder refused were not begun,
 * since a queue pair begins requests in their order, and go again; the updates behind any other failed request may have been
 * carried out, and end with -ECONNRESET.
 */
#include <stdlib.h>
#include <string.h>

#include "transport/core/tp.h"

#define DEPTH	16u		/* requests in flight of a queue, and entries of its CQ */

/* ---- lists ---------------------------------------------------------------------------------------------------------- */

static void list_append(struct hdl_agent_list *l, struct hdl_rma *op)
{
	op->queued = true;
	op->wait_next = NULL;
	*(l->first ? &l->last->wait_next : &l->first) = op;
	l->last = op;
}

static struct hdl_rma *list_take(struct hdl_agent_list *l)
{
	struct hdl_rma *op = l->first;

	if (op) {
		l->first = op->wait_next;
		op->queued = false;
	}
	return op;
}

/* ---- requests ------------------------------------------------------------------------------------------------------- */

static void agent_broke(struct hdl_agent_queue *q, bool refused)
{
	q->state = HDL_AGENT_BROKEN;
	q->rest_unstarted = refused;
}

/* Posts the next request. Returns false: no buffer now. */
static bool agent_post_one(struct hdl_agent_queue *q)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .send_flags = IBV_SEND_SIGNALED }, *bad;
	struct hdl_rma *op = q->wait.first;
	int err = q->user->fill(op, q->dev, &wr, &sge);

	if (err)
		return false;
	list_take(&q->wait);
	wr.wr_id = (uintptr_t)op;
	op->inflight++;
	q->inflight++;
	err = ibv_post_send(q->out, &wr, &bad);
	if (!err)
		return true;
	hdl_error("%s port %u: cannot post an atomic operation on memory of %s (%s)", q->dev->name, q->dev->port.port_num,
		  hdl_proc_text(q->ep->rank), strerror(err));
	q->inflight--;
	agent_broke(q, false);
	q->user->done(op, -ECONNRESET);
	return true;
}

static void agent_completed(struct hdl_agent_queue *q, const struct ibv_wc *wc)
{
	struct hdl_rma *op = (struct hdl_rma *)(uintptr_t)wc->wr_id;
	int refused;

	q->inflight--;
	if (likely(wc->status == IBV_WC_SUCCESS)) {
		q->proven = true;
		q->user->done(op, 0);
	} else if (q->state == HDL_AGENT_UP) {
		refused = q->user->refusal(wc->status);
		if (!refused && !q->ep->failed)
			hdl_error("%s port %u: an atomic operation on memory of %s failed: %s (status %d, vendor %#x)",
				  q->dev->name, q->dev->port.port_num, hdl_proc_text(q->ep->rank),
				  ibv_wc_status_str(wc->status), wc->status, wc->vendor_err);
		agent_broke(q, refused);
		q->user->done(op, refused ? refused : -ECONNRESET);
	} else if (q->rest_unstarted && !q->ep->failed) {
		op->inflight--;
		list_append(&q->again, op);
	} else {
		q->user->done(op, -ECONNRESET);
	}
}

/* Takes completions. Returns how many there were. */
static int agent_reap(struct hdl_agent_queue *q)
{
	struct ibv_wc wc[DEPTH];
	int n = q->inflight ? ibv_poll_cq(q->cq, DEPTH, wc) : 0;

	for (int i = 0; i < n; i++)
		agent_completed(q, &wc[i]);
	return n < 0 ? 0 : n;
}

/* Connects the queue to itself, also again. Returns whether it stands. */
static bool agent_join(struct hdl_agent_queue *q)
{
	const struct hdl_port *port = &q->dev->port;
	int access = hdl_qp_access(q->dev);

	return !hdl_qp_renew(q->in, port, access) && !hdl_qp_renew(q->out, port, access) &&
	       !hdl_qp_connect(q->in, q->dev, &port->gid, port->lid, q->out->qp_num, 0) &&
	       !hdl_qp_connect(q->out, q->dev, &port->gid, port->lid, q->in->qp_num, 0);
}

static void agent_send(struct hdl_agent_queue *q, enum hdl_ctl_kind kind, uint32_t qpn, uint32_t psn, uint16_t turn)
{
	struct hdl_agent_rec m = { .qpn = qpn, .psn = psn, .lid = q->dev->port.lid, .turn = turn };

	memcpy(m.gid, q->dev->port.gid.raw, sizeof(m.gid));
	hdl_ep_ctl(q->ep, kind, &m, sizeof(m), false);
}

/* Asks the peer for the other end of `out`. Must: no request is in flight. */
static void agent_ask(struct hdl_agent_queue *q)
{
	struct hdl_tp *tp = q->ep->tp;

	q->state = HDL_AGENT_GONE;
	q->proven = false;
	if (hdl_qp_renew(q->out, &q->dev->port, hdl_qp_access(q->dev)))
		return;
	q->state = HDL_AGENT_ASKED;
	tp->rng = tp->rng * 6364136223846793005ull + 1442695040888963407ull;
	q->psn = (uint32_t)(tp->rng >> 40);
	agent_send(q, HDL_CTL_AGENT_ASK, q->out->qp_num, q->psn, ++q->turn);
}

/* BROKEN, and all requests have completed: replaces the queue. Puts the updates that go again in front of those that wait. */
static void agent_settle(struct hdl_agent_queue *q)
{
	bool to_itself = q->ep->rank == hdl_job.rank;
	struct hdl_rma *op;

	if (q->again.first) {
		q->again.last->wait_next = q->wait.first;
		if (!q->wait.first)
			q->wait.last = q->again.last;
		q->wait.first = q->again.first;
		q->again.first = NULL;
	}
	q->state = HDL_AGENT_GONE;
	if (to_itself && agent_join(q)) {
		q->state = HDL_AGENT_UP;
		return;
	}
	while ((op = list_take(&q->wait)))
		q->user->by_message(op);
	/* behind the messages: the peer reads them first on a lane that keeps the order */
	if (!to_itself && !q->ep->failed && (q->rest_unstarted || q->proven))
		agent_ask(q);
}

/* Returns true if updates of this process by message are under way, behind which requests wait. */
static bool agent_is_held(struct hdl_agent_queue *q)
{
	if (unlikely(q->held))
		q->held = q->user->asks(q->ep);
	return q->held;
}

/* Posts the waiting updates, and polls completions. Returns the number of events. On a device that carries requests out while
 * they are posted, updates end here. */
static int agent_run(struct hdl_agent_queue *q)
{
	int n, all = 0;

	if (q->running)
		return 0;
	q->running = true;
	do {
		while (q->wait.first && q->state == HDL_AGENT_UP && q->inflight < DEPTH && !agent_is_held(q) && agent_post_one(q))
			;
		n = agent_reap(q);
		all += n;
		if (q->state == HDL_AGENT_BROKEN && !q->inflight) {
			agent_settle(q);
			n++;
		}
	} while (n && q->wait.first);
	q->running = false;
	return all + (q->wait.first && !q->inflight && !q->held);
}

static int agents_progress(void *arg)
{
	struct hdl_tp *tp = arg;
	int n = 0;

	for (struct hdl_agent_queue *q = tp->agents; q; q = q->next)
		if (q->inflight || q->wait.first)
			n += agent_run(q);
	return n;
}

int hdl_agents_arm(struct hdl_dev *dev)
{
	int err = 0;

	for (struct hdl_agent_queue *q = dev->tp->agents; q && !err; q = q->next)
		if (q->dev == dev && q->inflight)
			err = ibv_req_notify_cq(q->cq, 0);
	return err;
}

void hdl_agent_update(struct hdl_agent_queue *q, struct hdl_rma *op)
{
	list_append(&q->wait, op);
	agent_run(q);
}

/* ---- queues --------------------------------------------------------------------------------------------------------- */

struct hdl_dev *hdl_agent_dev(struct hdl_tp *tp, bool of_host)
{
	struct hdl_dev *dev = tp->dev[of_host ? 0 : tp->ndev - 1];

	if (!(dev->possible & HDL_QUEUE_CONNECTED) || dev->attr.orig_attr.atomic_cap == IBV_ATOMIC_NONE)
		return NULL;
	return dev == tp->dev[0] || hdl_tp_allows_rc(tp) ? dev : NULL;
}

struct hdl_agent_queue *hdl_agent_of(const struct hdl_ep *ep)
{
	struct hdl_agent_queue *q;

	for (q = ep->tp->agents; q && q->ep != ep; q = q->next)
		;
	return q;
}

bool hdl_agent_has(const struct hdl_tp *tp, const struct ibv_qp *qp)
{
	for (const struct hdl_agent_queue *q = tp->agents; q; q = q->next)
		if (q->out == qp || q->in == qp)
			return true;
	return false;
}

static void agent_free(struct hdl_agent_queue *q)
{
	int err = q->out ? ibv_destroy_qp(q->out) : 0;

	if (!err && q->in)
		err = ibv_destroy_qp(q->in);
	if (!err && q->cq)
		err = ibv_destroy_cq(q->cq);
	if (err)
		hdl_warn("%s: the queue of atomic operations cannot be destroyed (%s)", q->dev->name, strerror(err));
	free(q);
}

static struct ibv_qp *agent_qp(const struct hdl_agent_queue *q, uint32_t depth)
{
	struct ibv_qp_init_attr a = { .qp_type = IBV_QPT_RC, .send_cq = q->cq, .recv_cq = q->cq,
				      .cap = { .max_send_wr = depth, .max_send_sge = 1, .max_recv_wr = 1, .max_recv_sge = 1 } };
	struct ibv_qp *qp = ibv_create_qp(q->dev->port.pd, &a);

	if (qp && hdl_qp_init(qp, &q->dev->port, hdl_qp_access(q->dev))) {
		ibv_destroy_qp(qp);
		qp = NULL;
	}
	return qp;
}

/* Returns the queue to a peer of this host, created at the first call. NULL: no queue can be created. */
static struct hdl_agent_queue *agent_make(struct hdl_ep *ep)
{
	struct hdl_tp *tp = ep->tp;
	struct hdl_agent_queue *q = hdl_agent_of(ep);
	struct hdl_dev *dev = hdl_agent_dev(tp, false);

	if (q || ep->failed)
		return q;
	/* the peer asks, which has a device for agent queues: this process need not have one */
	if (!dev)
		return NULL;
	q = calloc(1, sizeof(*q));
	if (!q)
		return NULL;
	q->ep = ep;
	q->dev = dev;
	q->user = tp->agent_user;
	q->cq = ibv_create_cq(q->dev->port.ctx, (int)DEPTH, NULL, q->dev->chan, 0);
	if (q->cq)
		q->out = agent_qp(q, DEPTH);
	if (q->out)
		q->in = agent_qp(q, 1);
	if (!q->in || (!tp->agents && tp->hooks->progress_add(tp, agents_progress, tp))) {
		hdl_debug("%s: no queue for atomic operations on memory of %s can be had (%s): they go by message", q->dev->name,
			  hdl_proc_text(ep->rank), strerror(errno));
		agent_free(q);
		return NULL;
	}
	q->next = tp->agents;
	tp->agents = q;
	return q;
}

int hdl_agent_connect(struct hdl_ep *ep)
{
	struct hdl_agent_queue *q = agent_make(ep);

	if (!q)
		return ep->failed ? ep->fail_err : -EOPNOTSUPP;
	if (q->state == HDL_AGENT_MADE || q->state == HDL_AGENT_GONE)
		agent_ask(q);
	return q->state == HDL_AGENT_GONE ? -EOPNOTSUPP : 0;
}

bool hdl_agent_connecting(const struct hdl_ep *ep)
{
	const struct hdl_agent_queue *q = hdl_agent_of(ep);

	return q && q->state == HDL_AGENT_ASKED && !ep->failed;
}

bool hdl_agent_stands(const struct hdl_ep *ep)
{
	const struct hdl_agent_queue *q = hdl_agent_of(ep);

	return q && q->state == HDL_AGENT_UP;
}

/* Connects `in` to the queue pair of an ASK. Returns 0 or a negative errno. */
static int agent_answer(struct hdl_agent_queue *q, const struct hdl_agent_rec *m)
{
	int err = hdl_qp_renew(q->in, &q->dev->port, hdl_qp_access(q->dev));

	return err ? err : hdl_qp_connect(q->in, q->dev, (const union ibv_gid *)m->gid, m->lid, m->qpn, m->psn);
}

void hdl_agent_on_ask(struct hdl_ep *ep, const struct hdl_agent_rec *m)
{
	bool near = ep->rank != hdl_job.rank && hdl_proc_is_ours(ep->rank) && hdl_is_local(ep->rank);
	struct hdl_agent_queue *q = near ? agent_make(ep) : NULL;
	struct hdl_agent_rec none = { .turn = m->turn };

	if (!q) {
		hdl_ep_ctl(ep, HDL_CTL_AGENT_ANSWER, &none, sizeof(none), false);
		return;
	}
	if ((int16_t)(m->turn - q->turn_in) <= 0)
		return;		/* late */
	q->turn_in = m->turn;
	agent_send(q, HDL_CTL_AGENT_ANSWER, agent_answer(q, m) ? 0 : q->in->qp_num, m->psn, m->turn);
}

void hdl_agent_on_answer(struct hdl_ep *ep, const struct hdl_agent_rec *m)
{
	struct hdl_agent_queue *q = hdl_agent_of(ep);

	if (!q || q->state != HDL_AGENT_ASKED || m->turn != q->turn)
		return;		/* late */
	q->state = HDL_AGENT_GONE;
	if (!m->qpn || hdl_qp_connect(q->out, q->dev, (const union ibv_gid *)m->gid, m->lid, m->qpn, q->psn))
		return;
	q->state = HDL_AGENT_UP;
	q->held = true;
}

int hdl_agent_to_self(struct hdl_tp *tp)
{
	struct hdl_ep *self = hdl_ep(tp, hdl_job.rank);
	struct hdl_agent_queue *q = self ? agent_make(self) : NULL;

	if (!q)
		return -ENOMEM;
	if (q->state == HDL_AGENT_MADE || q->state == HDL_AGENT_GONE)
		q->state = agent_join(q) ? HDL_AGENT_UP : HDL_AGENT_GONE;
	return q->state == HDL_AGENT_GONE ? -ECONNREFUSED : 0;
}

void hdl_agent_stop(struct hdl_ep *ep)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_ERR };
	struct hdl_agent_queue *q = hdl_agent_of(ep);
	int err;

	if (!q)
		return;
	/* the caller ends those that wait */
	q->wait.first = q->again.first = NULL;
	agent_broke(q, false);
	err = ibv_modify_qp(q->out, &a, IBV_QP_STATE);
	if (err)
		hdl_warn("%s: the queue of atomic operations to %s cannot be stopped (%s): its requests end by themselves",
			 q->dev->name, hdl_proc_text(ep->rank), strerror(err));
}

void hdl_agents_close(struct hdl_tp *tp)
{
	for (struct hdl_agent_queue *q; (q = tp->agents);) {
		tp->agents = q->next;
		agent_free(q);
	}
}
