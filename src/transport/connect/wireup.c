/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connections: messages by UD, as the state machine decides (conn.h). Addresses: address.c.
 *
 *     proposer                                    responder
 *     QP to INIT, REQ(number, qpn, psn)   ──▶     QP to RTR
 *     QP to RTR, RTS                      ◀──     REP(number, qpn, psn)
 *     RTU, on the connection itself       ──▶     QP to RTS
 *
 * No message meets a queue that is not ready: the responder can receive before it answers, and the proposer is in RTR before it
 * sends. REQ and REP are repeated with jitter until they are answered: a rank that computes answers when it next enters the
 * library. A message for another incarnation of this rank is refused.
 *
 * Queues that break while the peer lives are replaced by the same messages, which then report the messages and lines that
 * had arrived by the old queues (taken):
 *
 *     halts, drains; REQ(number + 1, replacing, taken)   ──▶     halts, drains; QP to RTR
 *     QP to RTR, RTS; replays the rest                   ◀──     REP(number + 1, replacing, taken)
 *     RTU, behind that                                   ──▶     QP to RTS; replays the rest
 */
#include <stdlib.h>
#include <string.h>

#include "transport/core/tp.h"

#define RETRY_NS 5000000ull
#define RETRY_MAX_NS 200000000ull
#define ANNOUNCES_MAX 14u	/* REJ of a failed endpoint: sent so often at most, with twice the time between one and the
				 * next: some 80 s */

static uint64_t wireup_random_bits(struct hdl_tp *tp)
{
	tp->rng = tp->rng * 6364136223846793005ull + 1442695040888963407ull;
	return tp->rng >> 32;
}

/* ---- connections ------------------------------------------------------------------------------------------- */

static void end_queue(struct hdl_ep *ep)
{
	struct hdl_conn_queues *q = ep->queues;

	ep->tp->rc_peers -= q->counted;
	q->counted = false;
	hdl_sq_fini(&q->sq);
}

static void wireup_destroy(struct hdl_ep *ep)
{
	if (!ep->queues)
		return;
	end_queue(ep);
	free(ep->queues);
	ep->queues = NULL;
}

void hdl_wire_stop(struct hdl_ep *ep)
{
	struct hdl_conn_queues *q = ep->queues;
	int err;

	hdl_xrc_lose(ep);
	if (!q) {
		if (ep->sq)
			hdl_sq_abandon(ep->sq, ep);
		return;
	}
	/* after this nothing that the peer sends or writes may land either */
	if ((err = hdl_sq_stop(&q->sq)))
		hdl_debug("%s: the sending queue cannot be stopped (%s)", hdl_proc_text(ep->rank), strerror(-err));
	/* A queue that is destroyed is stopped, also on a failed device. Queues of peers of other jobs are destroyed in any case:
	 * jobs may come and go without end while this one runs, and their queues would keep memory, and places among
	 * HEDDLE_RC_PEERS. */
	if (err || !hdl_proc_is_ours(ep->rank))
		end_queue(ep);
}

void hdl_wire_close(struct hdl_ep *ep)
{
	wireup_destroy(ep);
	ep->sq = NULL;
	ep->conn = (struct hdl_conn){ .state = HDL_CONN_NONE };
}

/* Makes this side's part of a lane of this kind: queues in INIT, or the endpoint's share of a queue that is had by address. 0 or
 * a negative errno, reported. */
static int wireup_make(struct hdl_ep *ep, enum hdl_queue kind)
{
	struct hdl_tp *tp = ep->tp;
	struct hdl_conn_queues *q;
	int err;

	if (HDL_QUEUE_IN(HDL_QUEUE_ADDRESSED, kind))
		return hdl_kinds[kind]->make(ep, NULL);
	q = ep->queues = calloc(1, sizeof(*q));
	if (!q)
		return hdl_no_memory("a connection", sizeof(*q));
	q->kind = hdl_kinds[kind];
	q->psn = (uint32_t)wireup_random_bits(tp) & 0xffffff;
	err = q->kind->make(ep, q);
	/* the connection of this rank to itself does not count */
	q->counted = !err && HDL_QUEUE_IN(HDL_QUEUE_LIMITED, kind) && ep->rank != hdl_job.rank;
	tp->rc_peers += q->counted;
	return err;
}

static int to_rts(struct hdl_ep *ep)
{
	struct hdl_conn_queues *q = ep->queues;
	bool broke = false;
	int err = hdl_qp_rts(q->sq.qp, q->psn, q->kind->renew ? &broke : NULL);

	/* In RTR the queue can receive, and a refused request of the peer's breaks the queue before RTS. The break is handled as
	 * that of a queue in use. */
	if (broke) {
		q->event = IBV_EVENT_QP_ACCESS_ERR;
		q->sq.resets++;		/* no request is posted that would be counted */
		hdl_wire_broke(ep, NULL);
	}
	return err;
}

static void wireup_up(struct hdl_ep *ep)
{
	if (ep->queues) {
		ep->sq = &ep->queues->sq;
		ep->queues->replaced = false;
		ep->queues->why = (struct ibv_wc){ 0 };
	}
	ep->plain_post = !ep->sq->kind->post;
	if (ep->sq->kind->address)
		ep->sq->kind->address(ep, &ep->wr);
	/* UD packets in flight may be delayed: from here on the lane's lead over them is limited. A packet that is being filled
	 * has messages, but no packet number yet, and so does not count as in flight: that packet is sent first. */
	if (ep->dev->gather == ep)
		hdl_ud_gathered(ep);
	if (ep->rel && !hdl_rel_idle(ep->rel)) {
		ep->reorder_guard_ud = true;
		ep->reorder_guard_seq = ep->tx_seq;
	}
	hdl_debug("%s: %s connected by queue %u", hdl_proc_text(ep->rank), hdl_kind_name(ep->sq->kind), ep->sq->qp->qp_num);
	hdl_ep_refresh(ep);
	hdl_ep_busy(ep);
	hdl_ring_consider(ep);
}

/* Sends REQ or REP with the numbers of the queues, and sets the time of its repetition. */
static void send_numbers(struct hdl_ep *ep, enum hdl_conn_what what)
{
	struct hdl_tp *tp = ep->tp;
	struct hdl_conn_queues *q = ep->queues;
	struct hdl_conn_msg m = { .what = (uint8_t)what, .kind = ep->conn.kind, .named = ep->conn.named,
				  .replacing = ep->conn.replacing, .number = ep->conn.number, .qpn = q->sq.qp->qp_num,
				  .psn = q->psn, .messages = q->taken_messages, .ring = q->taken_ring, .lines = q->taken_lines };
	uint64_t wait = RETRY_NS << (q->tries < 6 ? q->tries : 6);

	q->tries++;
	if (wait > RETRY_MAX_NS)
		wait = RETRY_MAX_NS;
	q->retry_ns = monotonic_ns() + wait + wireup_random_bits(tp) % wait;
	hdl_stirred = true;
	if (!tp->next_timer_ns || q->retry_ns < tp->next_timer_ns)
		tp->next_timer_ns = q->retry_ns;
	hdl_wire_send(ep, &m);
}

/* Returns true if a request of this side broke the queue. If requests were flushed only, or there is an asynchronous event alone,
 * a request of the peer's may have broken the queue. */
static bool has_failed(const struct hdl_conn_queues *q)
{
	return q->why.status != IBV_WC_SUCCESS && q->why.status != IBV_WC_WR_FLUSH_ERR;
}

/* Replays the requests kept of the replaced queues. Returns 0 or a negative errno. */
static int resume(struct hdl_ep *ep)
{
	struct hdl_sq *sq = &ep->queues->sq;
	int err;

	/* the queue has broken again before its use: the requests stay kept for the next queue */
	if (!hdl_sq_is_broken(sq) || ep->queues->event)
		return 0;
	if ((err = hdl_replay_run(sq, has_failed(ep->queues))))
		return err;
	/* messages in pooled receives may wait for a receive, and requests have other numbers now */
	if (sq->head != sq->tail) {
		if (!ep->reorder_guard_sq && !ep->reorder_guard_ud)
			ep->reorder_guard_seq = ep->tx_seq;
		ep->reorder_guard_sq = true;
	}
	ep->reorder_guard_idx = sq->head - 1;
	return 0;
}

static int send_rtu(struct hdl_ep *ep)
{
	struct hdl_hdr hdr = { .kind = HDL_CTL_RTU, .tag = (int32_t)ep->conn.number };
	int err;

	if ((err = resume(ep)))
		return err;
	/* a proposal follows, and takes the place of RTU */
	if (ep->queues->event)
		return 0;
	ep->sq = &ep->queues->sq;
	if ((err = hdl_ep_post_rtu(ep, &hdr)) >= 0)
		return 0;
	hdl_error("%s: the new %s connection refuses its first message (%s)", hdl_proc_text(ep->rank),
		  hdl_kind_name(ep->queues->kind), strerror(-err));
	return err;
}

/* Halts the queues of a lane, and takes the messages that have arrived by them. Returns 0 or a negative errno. */
static int wireup_stop(struct hdl_ep *ep)
{
	struct hdl_conn_queues *q = ep->queues;
	int err;

	q->replaced = q->stopped = true;
	q->since_ns = monotonic_ns();
	ep->sq = NULL;
	hdl_ep_refresh(ep);
	if ((err = hdl_sq_halt(&q->sq)))
		return err;
	/* messages that have arrived stand in the receive CQ before later completions of other peers: one round of the CQ's
	 * entries takes all of them */
	for (int seen = 0, n; seen <= ep->dev->rcq->cqe && (n = ep->tp->hooks->poll_rcq(ep->dev)); seen += n)
		;
	while (ep->rx_state >= HDL_RX_ACTIVE && hdl_ring_poll(ep, 64))
		;
	q->taken_messages = q->messages;
	q->taken_ring = ep->rings_out;
	q->taken_lines = ep->rx_state >= HDL_RX_ACTIVE ? ep->rx.consumed : 0;
	return 0;
}

static int wireup_renew(struct hdl_ep *ep)
{
	struct hdl_conn_queues *q = ep->queues;
	int err = q->kind->renew(q);

	q->stopped = false;
	q->messages = 0;
	q->tries = 0;
	q->psn = (uint32_t)wireup_random_bits(ep->tp) & 0xffffff;
	return err;
}

/* There will be no connected lane. Messages go on by UD where that is allowed; without UD, or if a lane was in use, the endpoint
 * fails. */
static void wireup_give_up(struct hdl_ep *ep, int err)
{
	if (ep->failed)
		return;		/* a lane was in use */
	ep->sq = NULL;
	hdl_ep_refresh(ep);
	if (!err)
		err = -ECONNREFUSED;
	if (!(ep->can & HDL_QUEUE_PACKETS) || err == -ECONNABORTED)
		hdl_ep_fail(ep, err);
	else
		hdl_ep_busy(ep);
}

static int wireup_carry_out(struct hdl_ep *ep, enum hdl_conn_do what, const struct hdl_conn_todo *todo,
		     const struct hdl_conn_msg *m, int err)
{
	switch (what) {
	case HDL_CONN_DOWN:
		hdl_ep_fail(ep, err ? err : -ECONNRESET);
		return 0;
	case HDL_CONN_DESTROY:
		/* the requests of a lane that was in use end with the endpoint, and its queues with the transport */
		if (!ep->failed)
			wireup_destroy(ep);
		return 0;
	case HDL_CONN_MAKE:
		return wireup_make(ep, ep->conn.kind);
	case HDL_CONN_RENEW:
		return wireup_renew(ep);
	case HDL_CONN_TO_RTR:
		ep->queues->tries = 0;
		hdl_replay_settle(&ep->queues->sq, m->messages, m->ring == ep->rings_in, m->lines);
		return ep->queues->kind->to_rtr(ep, m);
	case HDL_CONN_TO_RTS:
		return to_rts(ep);
	case HDL_CONN_SEND_REQ:
		send_numbers(ep, HDL_CONN_REQ);
		return 0;
	case HDL_CONN_SEND_REP:
		send_numbers(ep, HDL_CONN_REP);
		return 0;
	case HDL_CONN_SEND_REJ:
		/* an endpoint may fail while completions are taken, where nothing must be posted: hdl_wire_announce follows */
		if (!ep->failed || m)
			hdl_wire_refuse(ep, todo->refused.number, todo->refused.kind, -err);
		return 0;
	case HDL_CONN_SEND_RTU:
		return send_rtu(ep);
	case HDL_CONN_UP:
		if (ep->queues && (err = resume(ep)))
			return err;
		ep->conn.up = true;
		ep->conn.replacing = false;
		wireup_up(ep);
		return 0;
	case HDL_CONN_GIVE_UP:
		wireup_give_up(ep, err);
		return 0;
	}
	return -EINVAL;
}

/* The connected kind that this side would take now. */
static enum hdl_queue preferred(const struct hdl_ep *ep)
{
	/* a queue that is being made for this peer does not count against the limit */
	bool counted = ep->queues && ep->queues->counted;

	return hdl_ep_select(ep, ep->can & HDL_QUEUE_CONNECTED, true, ep->tp->rc_peers - counted);
}

/* Gives the state machine an event and carries out the actions; an action that fails is the event LOST. m: the message that is
 * the event, or NULL. err: negative errno of LOST, and of a refusal. */
static void feed(struct hdl_ep *ep, const struct hdl_conn_event *e, const struct hdl_conn_msg *m, int err)
{
	struct hdl_tp *tp = ep->tp;
	struct hdl_conn_self self = { .can = ep->can, .lower = hdl_name_before(&tp->self, &ep->name) };
	unsigned waited = hdl_conn_waits(&ep->conn);
	struct hdl_conn_todo todo;

	if (e->what == HDL_CONN_REQ)
		self.prefer = preferred(ep);
	hdl_conn_step(&ep->conn, &self, e, &todo);
	tp->connecting += hdl_conn_waits(&ep->conn) - waited;
	for (unsigned i = 0; i < todo.n; i++) {
		int failed = wireup_carry_out(ep, todo.what[i], &todo, m, err);
		if (failed) {
			feed(ep, &(struct hdl_conn_event){ .what = HDL_CONN_LOST }, NULL, failed);
			return;
		}
	}
}

static int join_to_self(struct hdl_ep *ep)
{
	struct hdl_conn_msg m = { .qpn = ep->queues->sq.qp->qp_num, .psn = ep->queues->psn };
	int err = ep->queues->kind->to_rtr(ep, &m);

	return err ? err : to_rts(ep);
}

/* Connects this rank to itself, by the same queues but without messages. */
static int connect_to_self(struct hdl_ep *ep, enum hdl_queue kind)
{
	int err;

	ep->conn.kind = (uint8_t)kind;
	if (!(err = wireup_make(ep, kind)))
		err = join_to_self(ep);
	if (err) {
		ep->conn.state = HDL_CONN_FAILED;
		wireup_destroy(ep);
		wireup_give_up(ep, err);
		return err;
	}
	ep->conn.state = HDL_CONN_READY;
	ep->conn.up = true;
	wireup_up(ep);
	return 0;
}

/* ---- queues that break ------------------------------------------------------------------------------------- */

static void replace_queues(struct hdl_tp *tp, void *ep, int err)
{
	(void)tp;
	(void)err;
	hdl_wire_replace(ep);
}

void hdl_wire_broke(struct hdl_ep *ep, const struct ibv_wc *wc)
{
	if (wc && !ep->queues->stopped)
		ep->queues->why = *wc;
	hdl_done_push(ep->tp, replace_queues, ep, 0);
}

void hdl_wire_report(const struct hdl_ep *ep, const char *why)
{
	const struct hdl_conn_queues *q = ep->queues;
	if (hdl_ep_may_end(ep))
		return;
	char text[HDL_PEER_TEXT], what[160] = "the peer has asked for another queue";

	if (q->why.wr_id || q->why.status)
		snprintf(what, sizeof(what), "%s (status %d, vendor %#x)", ibv_wc_status_str(q->why.status), q->why.status,
			 q->why.vendor_err);
	else if (q->event)
		snprintf(what, sizeof(what), "%s", ibv_event_type_str((enum ibv_event_type)q->event));
	hdl_error("connection to %s failed: %s port %u, %s queue %u: %s; it was not replaced: %s", hdl_peer_text(ep, text),
		  ep->dev->name, ep->dev->port.port_num, hdl_kind_name(q->kind), q->sq.qp ? q->sq.qp->qp_num : 0, what, why);
}

/* Returns the reason why broken queues are not replaced; NULL: they are replaced. asked: the peer has proposed the replacement,
 * so the peer's process lives, or has lived until now: if the process has ended, is_given_up ends the endpoint. */
static const char *is_hopeless(struct hdl_ep *ep, bool asked)
{
	struct hdl_conn_queues *q = ep->queues;
	struct hdl_sq *sq = &q->sq;

	/* q->messages <= 1: the only message that came is the RTU of the new connection */
	if (hdl_sq_is_broken(sq) && sq->replay_failed && sq->replay_tail == sq->replay_first && has_failed(q) && q->messages <= 1)
		return "the request that went again by the new queue has failed again";
	if (q->messages)
		sq->resets = 0;
	if (hdl_sq_is_broken(sq) && sq->resets > HDL_SQ_RESETS_MAX)
		return "it breaks time and again, and nothing is carried out in between: the device ails";
	if (ep->rank == hdl_job.rank)
		return NULL;
	switch (hdl_peer_state(ep)) {
	case HDL_PROC_ENDED:
		return "the peer's process has ended; look at its output";
	case HDL_PROC_UNKNOWN:
		return q->why.status == IBV_WC_RETRY_EXC_ERR && !asked ?
			       "no answer: the peer's process or host has ended, or the network between is down" :
			       NULL;
	case HDL_PROC_LIVES:
		break;
	}
	return NULL;
}

static int replace_own(struct hdl_ep *ep)
{
	struct hdl_conn_queues *q = ep->queues;
	int err = wireup_renew(ep);

	hdl_replay_settle(&q->sq, q->taken_messages, q->taken_ring == ep->rings_in, q->taken_lines);
	if (!err && !(err = join_to_self(ep)) && !(err = resume(ep)))
		wireup_up(ep);
	return err;
}

void hdl_wire_replace(struct hdl_ep *ep)
{
	struct hdl_conn_queues *q = ep->queues;
	const char *why;
	int err;

	if (ep->failed || !q)
		return;
	bool asked = q->has_proposal && q->proposal.number > ep->conn.number, own = ep->conn.up && !q->replaced;
	bool broke = own && (hdl_sq_is_broken(&q->sq) || q->event);

	q->has_proposal = false;
	if (!asked && !broke)
		return;		/* the break has been handled */
	if (broke && (why = is_hopeless(ep, asked))) {
		hdl_wire_report(ep, why);
		hdl_ep_fail(ep, -ECONNRESET);
		return;
	}
	hdl_debug("%s: %s queue %u is replaced, %s", hdl_proc_text(ep->rank), hdl_kind_name(q->kind), q->sq.qp->qp_num,
		  asked ? "as the peer asks" : q->event ? "after an event" : ibv_wc_status_str(q->why.status));
	q->event = 0;	/* the event belongs to the queue that goes: with an event set, resume would not replay on the new one */
	if (!(err = wireup_stop(ep)) && ep->rank == hdl_job.rank)
		err = replace_own(ep);
	else if (!err && asked)
		feed(ep, &(struct hdl_conn_event){ .what = HDL_CONN_REQ, .kind = q->proposal.kind, .number = q->proposal.number,
						   .named = q->proposal.named, .replacing = true }, &q->proposal, 0);
	else if (!err)
		feed(ep, &(struct hdl_conn_event){ .what = HDL_CONN_BROKE }, NULL, 0);
	if (err) {
		hdl_wire_report(ep, strerror(-err));
		hdl_ep_fail(ep, err);
	}
}

int hdl_wire_connect(struct hdl_ep *ep, enum hdl_queue kind)
{
	if (ep->conn.state == HDL_CONN_NONE && ep->rank == hdl_job.rank && !HDL_QUEUE_IN(HDL_QUEUE_ADDRESSED, kind))
		return connect_to_self(ep, kind);
	feed(ep, &(struct hdl_conn_event){ .what = HDL_CONN_WANT, .kind = kind }, NULL, 0);
	return ep->conn.state == HDL_CONN_FAILED ? -ECONNREFUSED : 0;
}

void hdl_wire_on_message(struct hdl_ep *ep, enum hdl_pool pool)
{
	enum hdl_queue addressed = HDL_QUEUE_NONE;

	while (addressed < HDL_QUEUES && !(HDL_QUEUE_IN(HDL_QUEUE_ADDRESSED, addressed) && hdl_kinds[addressed]->pool == pool))
		addressed++;
	if (ep->failed)
		hdl_wire_announce(ep);
	else
		feed(ep, &(struct hdl_conn_event){ .what = HDL_CONN_RTU_SEEN, .kind = addressed }, NULL, -ECONNREFUSED);
}

static void stop_announcing(struct hdl_ep *ep)
{
	ep->tp->announcing -= ep->announces != 0;
	ep->announces = 0;
}

/* Sends REJ again when due. Returns when to call again, in ns; 0: not again. */
static uint64_t announce_again(struct hdl_ep *ep, uint64_t now)
{
	struct hdl_tp *tp = ep->tp;
	uint64_t wait;

	if (now < ep->announce_ns)
		return ep->announce_ns;
	hdl_wire_announce(ep);
	if (ep->announces == 1 || ep->departed || hdl_peer_state(ep) == HDL_PROC_ENDED) {
		stop_announcing(ep);
		return 0;
	}
	wait = RETRY_NS << (ANNOUNCES_MAX - ep->announces--);
	ep->announce_ns = now + wait + wireup_random_bits(tp) % wait;
	return ep->announce_ns;
}

void hdl_wire_begin_announcing(struct hdl_ep *ep)
{
	struct hdl_tp *tp = ep->tp;
	uint64_t at;

	if (ep->peer_failed) {
		hdl_wire_announce(ep);	/* the peer stops repeating its own REJ when this one comes */
		return;
	}
	ep->announces = ANNOUNCES_MAX;
	ep->announce_ns = 0;
	tp->announcing++;
	at = announce_again(ep, monotonic_ns());
	hdl_stirred = true;
	if (at && (!tp->next_timer_ns || at < tp->next_timer_ns))
		tp->next_timer_ns = at;
}

void hdl_wire_on_rtu(struct hdl_ep *ep, uint32_t number)
{
	/* halted queues will not be used, although messages have arrived by them */
	if (ep->queues && ep->queues->stopped)
		return;
	feed(ep, &(struct hdl_conn_event){ .what = HDL_CONN_RTU, .number = number }, NULL, 0);
}

/* The peer will have no connected lane to this rank: reports that. Returns the errno with which operations end. */
static int was_refused(const struct hdl_ep *ep, const struct hdl_conn_msg *m)
{
	bool aborted = m->reason == ECONNABORTED;

	if (ep->conn.state == HDL_CONN_FAILED || hdl_ep_may_end(ep))
		hdl_debug("%s refuses connections (%s)", hdl_proc_text(ep->rank), strerror(m->reason));
	else if (aborted)
		hdl_error("connection to %s failed: that rank has met an error on its side and has given the connection "
			  "up; look at its output", hdl_proc_text(ep->rank));
	else
		hdl_error("%s refuses a %s connection (%s)", hdl_proc_text(ep->rank),
			  hdl_queue_name(ep->conn.state == HDL_CONN_NONE ? m->kind : ep->conn.kind),
			  m->reason == ESTALE ? "the rank was restarted" : strerror(m->reason));
	return aborted ? -ECONNABORTED : -ECONNREFUSED;
}

/* The peer has announced that its endpoint of this process has failed. */
static void has_failed_there(struct hdl_ep *ep)
{
	bool again = ep->peer_failed && ep->failed;

	ep->peer_failed = true;
	stop_announcing(ep);
	/* The peer's repetition shows that the answer was lost. The first announcement is not answered with REJ here: both sides
	 * would answer each other for ever. */
	if (again && ep->fail_err == -ECONNABORTED)
		hdl_wire_announce(ep);
	/* without a connection UD may have served until now, and the peer acknowledges no UD packet any more */
	if (ep->conn.state == HDL_CONN_FAILED)
		hdl_ep_fail(ep, -ECONNABORTED);
}

void hdl_wire_arrived(struct hdl_ep *ep, const struct hdl_conn_msg *m)
{
	struct hdl_tp *tp = ep->tp;
	struct hdl_conn_event e = { .what = m->what, .kind = m->kind, .number = m->number, .named = m->named,
				    .replacing = m->replacing };
	int err = 0;

	if (m->to != tp->self.incarnation) {
		if (m->what == HDL_CONN_REQ)
			hdl_wire_refuse(ep, m->number, HDL_QUEUE_NONE, ESTALE);
		return;
	}
	if (m->nonce == ep->name.incarnation && (m->what == HDL_CONN_ASK || m->what == HDL_CONN_TARGET)) {
		hdl_xrc_on_ctl(ep, m);
		return;
	}
	if (m->nonce != ep->name.incarnation || m->kind >= HDL_QUEUES ||
	    (m->what != HDL_CONN_REQ && m->what != HDL_CONN_REP && m->what != HDL_CONN_REJ)) {
		tp->stale++;
		return;
	}
	if (e.what == HDL_CONN_REQ && e.replacing && m->number > ep->conn.number && ep->queues && !ep->failed &&
	    ep->conn.state != HDL_CONN_ASKED) {
		/* queues that may be in use are halted first: hdl_wire_replace */
		ep->queues->proposal = *m;
		ep->queues->has_proposal = true;
		hdl_done_push(tp, replace_queues, ep, 0);
		return;
	}
	if (m->what == HDL_CONN_REJ && m->kind == HDL_QUEUE_NONE) {
		err = was_refused(ep, m);
		if (err == -ECONNABORTED)
			has_failed_there(ep);
	} else if (m->what != HDL_CONN_REJ && ep->conn.state == HDL_CONN_FAILED)
		err = ep->failed ? -ECONNABORTED : -ECONNREFUSED;
	feed(ep, &e, m, err);
}

/* Fails an endpoint if the peer does not answer the proposal to replace queues, and the peer's process is not known to live or to
 * have ended. Returns true if the endpoint has failed. */
static bool is_given_up(struct hdl_ep *ep, uint64_t now)
{
	char why[160];

	if (!hdl_ep_replaced(ep) || !hdl_tp_gives_up(ep->tp, now - ep->queues->since_ns) ||
	    hdl_peer_state(ep) != HDL_PROC_UNKNOWN)
		return false;
	snprintf(why, sizeof(why),
		 "the peer has not answered for %.1f s: its process or its host has ended, or it computes for longer "
		 "than HEDDLE_UD_TIMEOUT",
		 (double)(now - ep->queues->since_ns) / 1e9);
	hdl_wire_report(ep, why);
	hdl_ep_fail(ep, -ETIMEDOUT);
	return true;
}

uint64_t hdl_wire_timers(struct hdl_tp *tp, uint64_t now)
{
	uint64_t first = 0;

	if (!tp->connecting && !tp->announcing)
		return 0;
	for (uint32_t i = 0; i < tp->peers.n; i++) {
		struct hdl_ep *ep = tp->peers.of[i];
		uint64_t at = ep && ep->announces ? announce_again(ep, now) : 0;
		if (at && (!first || at < first))
			first = at;
		if (!ep || !hdl_conn_waits(&ep->conn))
			continue;
		if (is_given_up(ep, now))
			continue;
		if (now >= ep->queues->retry_ns)
			feed(ep, &(struct hdl_conn_event){ .what = HDL_CONN_TIMER }, NULL, 0);
		if (!first || ep->queues->retry_ns < first)
			first = ep->queues->retry_ns;
	}
	return first;
}

int hdl_ep_connect(struct hdl_ep *ep)
{
	enum hdl_queue queue = hdl_ep_select(ep, ep->can & HDL_QUEUE_CONNECTED, true, ep->tp->rc_peers);

	if (queue == HDL_QUEUE_NONE || ep->conn.state == HDL_CONN_FAILED)
		return -EOPNOTSUPP;
	return ep->conn.state == HDL_CONN_NONE ? hdl_wire_connect(ep, queue) : 0;
}
