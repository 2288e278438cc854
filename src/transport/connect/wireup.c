/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connections: made over UD, as the state machine says (conn.h). Addresses: address.c.
 *
 *     proposer                                    responder
 *     QP to INIT, REQ(number, qpn, psn)   ──▶     QP to RTR
 *     QP to RTR, RTS                      ◀──     REP(number, qpn, psn)
 *     RTU, on the connection itself       ──▶     QP to RTS
 *
 * The responder can receive before it answers; the proposer can be received from before it sends; so no message can
 * meet a queue that is not ready. REQ and REP are repeated with jitter until they are answered: a peer that computes
 * answers when it next enters the library. A message for another incarnation of this rank is refused.
 *
 * Queues that break while the peer lives are replaced by the same messages, which then say what had come by them:
 *
 *     stops, takes what has come; REQ(number + 1, again, taken)  ──▶  stops, takes what has come; QP to RTR
 *     QP to RTR, RTS; what had not come goes again               ◀──  REP(number + 1, again, taken)
 *     RTU, behind it                                             ──▶  QP to RTS; what had not come goes again
 */
#include <stdlib.h>
#include <string.h>

#include "transport/core/tp.h"

#define RETRY_NS 5000000ull
#define RETRY_MAX_NS 200000000ull
#define TELLS 14u	/* with twice the time between one and the next: some 80 s */

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
	/* what the peer sends and writes, too, must not land when this returns */
	if ((err = hdl_sq_stop(&q->sq)))
		hdl_debug("%s: the sending queue cannot be stopped (%s)", hdl_proc_text(ep->rank), strerror(-err));
	/* One that is destroyed is stopped, whatever ails the device. And there is no end to the jobs that may come and go while this one
	 * runs: their queues would take memory, and places among HEDDLE_RC_PEERS, for good. */
	if (err || !hdl_proc_is_ours(ep->rank))
		end_queue(ep);
}

void hdl_wire_close(struct hdl_ep *ep)
{
	wireup_destroy(ep);
	ep->sq = NULL;
	ep->conn = (struct hdl_conn){ .state = HDL_CONN_NONE };
}

/* What a lane of this kind needs on this side. */
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
	/* this rank itself is no peer */
	q->counted = !err && HDL_QUEUE_IN(HDL_QUEUE_LIMITED, kind) && ep->rank != hdl_job.rank;
	tp->rc_peers += q->counted;
	return err;
}

static int to_rts(struct hdl_ep *ep)
{
	struct hdl_conn_queues *q = ep->queues;
	bool broke = false;
	int err = hdl_qp_rts(q->sq.qp, q->psn, q->kind->renew ? &broke : NULL);

	/* Who can be received from can break our queue, by a request that it refuses, before we have come here. Then it is one that broke
	 * while it was used. */
	if (broke) {
		q->event = IBV_EVENT_QP_ACCESS_ERR;
		q->sq.resets++;		/* nothing is posted that would be counted */
		hdl_wire_broke(ep, NULL);
	}
	return err;
}

static void wireup_up(struct hdl_ep *ep)
{
	if (ep->queues) {
		ep->sq = &ep->queues->sq;
		ep->queues->away = false;
		ep->queues->why = (struct ibv_wc){ 0 };
	}
	ep->direct = !ep->sq->kind->post;
	if (ep->sq->kind->address)
		ep->sq->kind->address(ep, &ep->wr);
	/* what is in flight over UD may be delayed: bound how far we run ahead of it. A packet that is being filled has messages, but no
	 * number by which it would be known to be in flight. */
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

void hdl_wire_send(struct hdl_ep *ep, struct hdl_conn_msg *m)
{
	m->nonce = ep->tp->self.incarnation;
	m->to = ep->name.incarnation;
	hdl_ud_raw(ep, HDL_UD_CONN, m, sizeof(*m));	/* when there is no room, the repetition comes */
}

/* A proposal, or the answer to one: with the numbers of the queues, and again until it is answered. */
static void send_numbers(struct hdl_ep *ep, enum hdl_conn_what what)
{
	struct hdl_tp *tp = ep->tp;
	struct hdl_conn_queues *q = ep->queues;
	struct hdl_conn_msg m = { .what = (uint8_t)what, .kind = ep->conn.kind, .named = ep->conn.named,
				  .again = ep->conn.again, .number = ep->conn.number, .qpn = q->sq.qp->qp_num,
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

static void send_rej(struct hdl_ep *ep, uint32_t number, enum hdl_queue kind, int reason)
{
	struct hdl_conn_msg m = { .what = HDL_CONN_REJ, .kind = (uint8_t)kind, .number = number, .reason = reason };

	ep->tp->refused++;
	hdl_wire_send(ep, &m);
}

/* Whether a request of its own broke the queue. One whose requests were flushed only, or of which an event alone tells, may have been broken
 * by the peer's: none of its own was found wanting. */
static bool has_failed(const struct hdl_conn_queues *q)
{
	return q->why.status != IBV_WC_SUCCESS && q->why.status != IBV_WC_WR_FLUSH_ERR;
}

/* What was kept of the queues that were replaced goes again. */
static int resume(struct hdl_ep *ep)
{
	struct hdl_sq *sq = &ep->queues->sq;
	int err;

	/* broken again before it was in use: it stays kept for the queue that follows */
	if (!sq->broken || ep->queues->event)
		return 0;
	if ((err = hdl_replay_run(sq, has_failed(ep->queues))))
		return err;
	/* messages in pooled receives may wait for one, and have other numbers now */
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
	/* the proposal that follows says as much */
	if (ep->queues->event)
		return 0;
	ep->sq = &ep->queues->sq;
	if ((err = hdl_ep_post_rtu(ep, &hdr)) >= 0)
		return 0;
	hdl_error("%s: the new %s connection refuses its first message (%s)", hdl_proc_text(ep->rank), hdl_kind_name(ep->queues->kind),
		  strerror(-err));
	return err;
}

/* Stops the queues of a lane, and takes what has come by them. */
static int wireup_stop(struct hdl_ep *ep)
{
	struct hdl_conn_queues *q = ep->queues;
	int err;

	q->away = q->stopped = true;
	q->since_ns = monotonic_ns();
	ep->sq = NULL;
	hdl_ep_refresh(ep);
	if ((err = hdl_sq_halt(&q->sq)))
		return err;
	/* what has been received is in the completion queue, in front of what comes from others now */
	for (int seen = 0, n; seen <= ep->dev->rcq->cqe && (n = hdl_tp_poll_rcq(ep->dev)); seen += n)
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

/* There will be no connected lane. Messages go on over UD where that is allowed, but what went by a lane is lost. */
static void wireup_give_up(struct hdl_ep *ep, int err)
{
	if (ep->failed)
		return;		/* it had one */
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
			send_rej(ep, todo->refused.number, todo->refused.kind, -err);
		return 0;
	case HDL_CONN_SEND_RTU:
		return send_rtu(ep);
	case HDL_CONN_UP:
		if (ep->queues && (err = resume(ep)))
			return err;
		ep->conn.up = true;
		ep->conn.again = false;
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
	/* a queue that is being made for this peer does not count against it */
	bool counted = ep->queues && ep->queues->counted;

	return hdl_ep_select(ep, ep->can & HDL_QUEUE_CONNECTED, true, ep->tp->rc_peers - counted);
}

/* m: the message that the event is, or NULL. err: of LOST and of a refusal. */
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

/* This rank's own messages take no kernel and no network, but the same queues. */
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

void hdl_wire_broke(struct hdl_ep *ep, const struct ibv_wc *wc)
{
	if (wc && !ep->queues->stopped)
		ep->queues->why = *wc;
	hdl_done_broke(ep);
}

void hdl_wire_report(const struct hdl_ep *ep, const char *why)
{
	const struct hdl_conn_queues *q = ep->queues;
	if (ep->left)
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

/* Why queues that broke are not replaced; NULL: they are. */
static const char *is_hopeless(struct hdl_ep *ep)
{
	struct hdl_conn_queues *q = ep->queues;
	struct hdl_sq *sq = &q->sq;

	/* one message that came is that of the new connection */
	if (sq->broken && sq->failed_again && sq->broken_tail == sq->first_again && has_failed(q) && q->messages <= 1)
		return "the request that went again by the new queue has failed again";
	if (q->messages)
		sq->resets = 0;
	if (sq->broken && sq->resets > HDL_SQ_RESETS_MAX)
		return "it breaks time and again, and nothing is carried out in between: the device ails";
	if (ep->rank == hdl_job.rank)
		return NULL;
	switch (hdl_peer_state(ep)) {
	case HDL_PROC_ENDED:
		return "the peer's process has ended; look at its output";
	case HDL_PROC_UNKNOWN:
		return q->why.status == IBV_WC_RETRY_EXC_ERR ? "nobody answers there: the peer's process or host has ended, or the "
							       "network between is down" : NULL;
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
	bool asked = q->is_asked && q->asked.number > ep->conn.number, own = ep->conn.up && !q->away;
	bool broke = own && (q->sq.broken || q->event);

	q->is_asked = false;
	if (!asked && !broke)
		return;		/* it has been seen to */
	if (broke && (why = is_hopeless(ep))) {
		hdl_wire_report(ep, why);
		hdl_ep_fail(ep, -ECONNRESET);
		return;
	}
	hdl_debug("%s: %s queue %u is replaced, %s", hdl_proc_text(ep->rank), hdl_kind_name(q->kind), q->sq.qp->qp_num,
		  asked ? "as the peer asks" : q->event ? "after an event" : ibv_wc_status_str(q->why.status));
	q->event = 0;	/* it is of the queue that goes: what is kept waits behind one of the new queue */
	if (!(err = wireup_stop(ep)) && ep->rank == hdl_job.rank)
		err = replace_own(ep);
	else if (!err && asked)
		feed(ep, &(struct hdl_conn_event){ .what = HDL_CONN_REQ, .kind = q->asked.kind, .number = q->asked.number,
						   .named = q->asked.named, .again = true }, &q->asked, 0);
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

void hdl_wire_announce(struct hdl_ep *ep)
{
	send_rej(ep, ep->conn.number, HDL_QUEUE_NONE, ECONNABORTED);
}

static void stop_telling(struct hdl_ep *ep)
{
	ep->tp->telling -= ep->tells != 0;
	ep->tells = 0;
}

/* Returns when to come again; 0: not at all. */
static uint64_t tell_again(struct hdl_ep *ep, uint64_t now)
{
	struct hdl_tp *tp = ep->tp;
	uint64_t wait;

	if (now < ep->tell_ns)
		return ep->tell_ns;
	hdl_wire_announce(ep);
	if (ep->tells == 1 || ep->left || hdl_peer_state(ep) == HDL_PROC_ENDED) {
		stop_telling(ep);
		return 0;
	}
	wait = RETRY_NS << (TELLS - ep->tells--);
	ep->tell_ns = now + wait + wireup_random_bits(tp) % wait;
	return ep->tell_ns;
}

void hdl_wire_begin_announcing(struct hdl_ep *ep)
{
	struct hdl_tp *tp = ep->tp;
	uint64_t at;

	if (ep->told_failed) {
		hdl_wire_announce(ep);	/* so that it stops saying so */
		return;
	}
	ep->tells = TELLS;
	ep->tell_ns = 0;
	tp->telling++;
	at = tell_again(ep, monotonic_ns());
	hdl_stirred = true;
	if (at && (!tp->next_timer_ns || at < tp->next_timer_ns))
		tp->next_timer_ns = at;
}

void hdl_wire_failed(struct hdl_ep *ep)
{
	feed(ep, &(struct hdl_conn_event){ .what = HDL_CONN_LOST }, NULL, -ECONNABORTED);
}

void hdl_wire_on_rtu(struct hdl_ep *ep, uint32_t number)
{
	/* queues that are stopped will not be used, whatever had come by them */
	if (ep->queues && ep->queues->stopped)
		return;
	feed(ep, &(struct hdl_conn_event){ .what = HDL_CONN_RTU, .number = number }, NULL, 0);
}

/* The peer will have no connected lane to this rank. Returns what that is for operations. */
static int was_refused(const struct hdl_ep *ep, const struct hdl_conn_msg *m)
{
	bool aborted = m->reason == ECONNABORTED;

	if (ep->conn.state == HDL_CONN_FAILED || ep->tp->leaving || ep->left)
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

/* The peer's endpoint of this process has failed. */
static void has_failed_there(struct hdl_ep *ep)
{
	bool again = ep->told_failed && ep->failed;

	ep->told_failed = true;
	stop_telling(ep);
	/* the answer was lost. (It is none to this, which it would be from both sides for ever, but to what is said again.) */
	if (again && ep->fail_err == -ECONNABORTED)
		hdl_wire_announce(ep);
	/* without a connection UD may have served until now, and what goes by that is not acknowledged any more */
	if (ep->conn.state == HDL_CONN_FAILED)
		hdl_ep_fail(ep, -ECONNABORTED);
}

void hdl_wire_arrived(struct hdl_ep *ep, const struct hdl_conn_msg *m)
{
	struct hdl_tp *tp = ep->tp;
	struct hdl_conn_event e = { .what = m->what, .kind = m->kind, .number = m->number, .named = m->named,
				    .again = m->again };
	int err = 0;

	if (m->to != tp->self.incarnation) {
		if (m->what == HDL_CONN_REQ)
			send_rej(ep, m->number, HDL_QUEUE_NONE, ESTALE);
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
	if (e.what == HDL_CONN_REQ && e.again && m->number > ep->conn.number && ep->queues && !ep->failed &&
	    ep->conn.state != HDL_CONN_ASKED) {
		/* queues that may be in use are stopped first */
		ep->queues->asked = *m;
		ep->queues->is_asked = true;
		hdl_done_broke(ep);
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

/* The peer does not answer a proposal to replace queues, and nobody can know whether its process lives. */
static bool is_given_up(struct hdl_ep *ep, uint64_t now)
{
	char why[160];

	if (!hdl_ep_away(ep) || !hdl_vars.ud_timeout || (now - ep->queues->since_ns) / 1000 < hdl_vars.ud_timeout ||
	    hdl_peer_state(ep) != HDL_PROC_UNKNOWN)
		return false;
	snprintf(why, sizeof(why), "the peer has not answered for %.1f s: its process or its host has ended, or it computes for longer "
		 "than HEDDLE_UD_TIMEOUT", (double)(now - ep->queues->since_ns) / 1e9);
	hdl_wire_report(ep, why);
	hdl_ep_fail(ep, -ETIMEDOUT);
	return true;
}

uint64_t hdl_wire_timers(struct hdl_tp *tp, uint64_t now)
{
	uint64_t first = 0;

	if (!tp->connecting && !tp->telling)
		return 0;
	for (uint32_t i = 0; i < tp->peers.n; i++) {
		struct hdl_ep *ep = tp->peers.of[i];
		uint64_t at = ep->tells ? tell_again(ep, now) : 0;
		if (at && (!first || at < first))
			first = at;
		if (!hdl_conn_waits(&ep->conn))
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
