/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Addresses and connections. A process publishes its numbers through the runtime; connections are made over UD:
 *
 *     initiator                                   responder
 *     QP to INIT, REQ(attempt, qpn, psn)  ──▶     QP to RTR; keeps the answer
 *     QP to RTR, RTS                      ◀──     REP(attempt, qpn, psn)       (again for every repeated REQ)
 *     RTU, on the connection itself       ──▶     QP to RTS
 *
 * The responder can receive before it answers; the initiator can be received from before it sends; so no message can
 * meet a queue that is not ready. REQ is repeated with jitter until it is answered: a peer that computes answers when
 * it next enters the library. When both ask at once, the lower rank's request counts and the other side turns its own
 * queue pair, still in INIT, into the answer. A message for another incarnation of this rank is refused.
 */
#include <stdlib.h>
#include <string.h>

#include "transport/tp.h"

#define KEY "hdl.addr"
#define RETRY_NS 5000000ull
#define RETRY_MAX_NS 200000000ull

static uint64_t random_bits(void)
{
	hdl_tp.rng = hdl_tp.rng * 6364136223846793005ull + 1442695040888963407ull;
	return hdl_tp.rng >> 32;
}

int hdl_wire_publish(void)
{
	char blob[sizeof(struct hdl_addr_head) + 2 * sizeof(struct hdl_addr)];
	struct hdl_addr_head h = { .version = HDL_ADDR_VERSION, .count = (uint32_t)hdl_tp.ndev, .nonce = hdl_tp.nonce };
	size_t n = sizeof(h);

	hdl_proc_self(&h.proc);
	memcpy(blob, &h, sizeof(h));
	for (int i = 0; i < hdl_tp.ndev; i++, n += sizeof(struct hdl_addr))
		memcpy(blob + n, &hdl_tp.dev[i]->addr, sizeof(struct hdl_addr));
	int err = hdl_rt_put(KEY, blob, n);
	return err ? err : hdl_rt_commit();
}

static bool same_host(int rank)
{
	return !hdl_job.host_of || hdl_job.host_of[rank] == hdl_job.my_host;
}

int hdl_wire_lookup(struct hdl_ep *ep)
{
	enum hdl_role want = same_host(ep->rank) ? HDL_ROLE_LOCAL : HDL_ROLE_REMOTE;
	struct hdl_addr_head h;
	void *data = NULL;
	size_t len = 0;
	int err = -EHOSTUNREACH;

	for (int i = 0; i < hdl_tp.ndev; i++)
		if (hdl_tp.dev[i]->role == want || hdl_tp.dev[i]->role == HDL_ROLE_ANY)
			ep->dev = hdl_tp.dev[i];
	if (ep->rank == hdl_job.rank) {
		ep->dev = hdl_tp.dev[0];
		ep->addr = ep->dev->addr;
		ep->nonce = hdl_tp.nonce;
		return 0;
	}
	if (!ep->dev) {
		hdl_error("no device reaches rank %d, which is on %s: set HEDDLE_DEVICE to a device that does",
			  ep->rank, want == HDL_ROLE_LOCAL ? "this host" : "another host");
		return -EHOSTUNREACH;
	}
	if ((err = hdl_rt_get(ep->rank, KEY, &data, &len)))
		return err;
	err = -EPROTO;
	if (len < sizeof(h)) {
		hdl_error("rank %d published an address of %zu bytes: is it another version of the library?", ep->rank,
			  len);
		goto out;
	}
	memcpy(&h, data, sizeof(h));
	if (h.version != HDL_ADDR_VERSION || len != sizeof(h) + h.count * sizeof(struct hdl_addr)) {
		hdl_error("rank %d published an address of version %u (%zu bytes), this library knows version %u: all "
			  "ranks must "
			  "use the same library",
			  ep->rank, h.version, len, HDL_ADDR_VERSION);
		goto out;
	}
	ep->nonce = h.nonce;
	if (same_host(ep->rank))
		ep->proc = h.proc;
	for (uint32_t i = 0; i < h.count; i++) {
		struct hdl_addr a;
		memcpy(&a, (char *)data + sizeof(h) + i * sizeof(a), sizeof(a));
		if (a.role == want || a.role == HDL_ROLE_ANY) {
			ep->addr = a;
			err = 0;
		}
	}
	if (err)
		hdl_error("rank %d has no device towards %s: HEDDLE_DEVICE must name devices that reach each other",
			  ep->rank, want == HDL_ROLE_LOCAL ? "its own host" : "other hosts");
out:
	free(data);
	return err;
}

/* ---- connections ------------------------------------------------------------------------------------------- */

static int create(struct hdl_ep *ep, enum hdl_queue queue)
{
	struct hdl_conn *c = ep->conn;
	int err;

	if (!c && !(c = ep->conn = calloc(1, sizeof(*c))))
		return hdl_no_memory("a connection", sizeof(*c));
	c->queue = queue;
	c->psn = (uint32_t)random_bits() & 0xffffff;
	err = queue == HDL_QUEUE_XRC ? hdl_xrc_create(ep, c) : hdl_rc_create(ep, c);
	if (!err && queue == HDL_QUEUE_RC)
		hdl_tp.rc_peers++;
	return err;
}

static void destroy(struct hdl_ep *ep)
{
	struct hdl_conn *c = ep->conn;

	if (!c)
		return;
	if (c->sq.dev && c->queue == HDL_QUEUE_RC)
		hdl_tp.rc_peers--;
	if (c->rqp)
		ibv_destroy_qp(c->rqp);
	c->rqp = NULL;
	hdl_sq_fini(&c->sq);
}

void hdl_wire_close(struct hdl_ep *ep)
{
	destroy(ep);
	free(ep->conn);
	ep->conn = NULL;
	ep->sq = NULL;
	ep->conn_state = HDL_CONN_NONE;
}

static int to_rtr(struct hdl_ep *ep, const struct hdl_conn_msg *m)
{
	struct hdl_conn *c = ep->conn;
	int err;

	if (c->queue == HDL_QUEUE_RC)
		return hdl_qp_rtr(c->sq.qp, ep->dev, &ep->addr, m->qpn, m->psn);
	if ((err = hdl_qp_rtr(c->rqp, ep->dev, &ep->addr, m->qpn, m->psn)))
		return err;
	return hdl_qp_rtr(c->sq.qp, ep->dev, &ep->addr, m->rqpn, 0);
}

static void ready(struct hdl_ep *ep)
{
	ep->conn_state = HDL_CONN_READY;
	if (ep->conn)
		ep->sq = &ep->conn->sq;
	ep->direct = ep->sq->queue != HDL_QUEUE_DC;
	/* what is in flight over UD may be delayed: bound how far we run ahead of it */
	if (ep->rel && !hdl_rel_idle(ep->rel)) {
		ep->guard_ud = true;
		ep->guard_seq = ep->tx_seq;
	}
	hdl_debug("rank %d: %s connected by queue %u", ep->rank, hdl_queue_name(ep->sq->queue), ep->sq->qp->qp_num);
	hdl_ep_refresh(ep);
	hdl_ep_busy(ep);
	hdl_ring_consider(ep);
}

static void failed(struct hdl_ep *ep, int err)
{
	if (ep->conn_state == HDL_CONN_ASKED)
		hdl_tp.connecting--;
	ep->conn_state = HDL_CONN_FAILED;
	ep->sq = NULL;
	destroy(ep);
	hdl_ep_refresh(ep);
	/* messages go on over UD where that is allowed */
	if (!(ep->can & HDL_QUEUE_BIT(HDL_QUEUE_UD)))
		hdl_ep_fail(ep, err);
	else
		hdl_ep_busy(ep);
}

static void send_msg(struct hdl_ep *ep, struct hdl_conn_msg *m)
{
	m->nonce = hdl_tp.nonce;
	m->to = ep->nonce;
	hdl_ud_raw(ep, HDL_UD_CONN, m, sizeof(*m));	/* when there is no room, the repetition comes */
}

static void ask(struct hdl_ep *ep, uint64_t now)
{
	struct hdl_conn *c = ep->conn;
	struct hdl_conn_msg m = { .what = HDL_CONN_REQ, .queue = (uint8_t)c->queue, .attempt = c->attempt,
				  .qpn = c->sq.qp->qp_num, .rqpn = c->rqp ? c->rqp->qp_num : 0, .psn = c->psn };
	uint64_t wait = RETRY_NS << (c->tries < 6 ? c->tries : 6);

	c->tries++;
	if (wait > RETRY_MAX_NS)
		wait = RETRY_MAX_NS;
	c->retry_ns = now + wait + random_bits() % wait;
	hdl_stirred = true;
	if (!hdl_tp.next_timer_ns || c->retry_ns < hdl_tp.next_timer_ns)
		hdl_tp.next_timer_ns = c->retry_ns;
	send_msg(ep, &m);
}

int hdl_wire_connect(struct hdl_ep *ep, enum hdl_queue queue)
{
	int err;

	if (ep->conn_state == HDL_CONN_FAILED)
		return -ECONNREFUSED;
	if (ep->conn_state != HDL_CONN_NONE)
		return 0;
	if (queue == HDL_QUEUE_DC) {
		/* no connection: the target's number and key are known */
		if (!(err = hdl_ep_ah(ep)) && !(err = hdl_dc_bind(ep)))
			ready(ep);
		else
			failed(ep, err);
		return err;
	}
	if ((err = create(ep, queue))) {
		failed(ep, err);
		return err;
	}
	struct hdl_conn *c = ep->conn;
	if (ep->rank == hdl_job.rank) {
		struct hdl_conn_msg m = { .qpn = c->sq.qp->qp_num, .rqpn = c->rqp ? c->rqp->qp_num : 0, .psn = c->psn };
		if (!(err = to_rtr(ep, &m)) && !(err = hdl_qp_rts(c->sq.qp, c->psn)))
			ready(ep);
		else
			failed(ep, err);
		return err;
	}
	c->initiator = true;
	c->attempt++;
	c->tries = 0;
	ep->conn_state = HDL_CONN_ASKED;
	hdl_tp.connecting++;
	ask(ep, monotonic_ns());
	return 0;
}

static void refuse(struct hdl_ep *ep, const struct hdl_conn_msg *m, int reason)
{
	struct hdl_conn_msg r = { .what = HDL_CONN_REJ, .queue = m->queue, .attempt = m->attempt, .reason = reason };

	hdl_tp.refused++;
	send_msg(ep, &r);
}

static void accept_req(struct hdl_ep *ep, const struct hdl_conn_msg *m)
{
	struct hdl_conn *c;
	int err;

	if (ep->conn_state == HDL_CONN_ASKED) {
		/* our own request gives way; its queue pair is still in INIT */
		hdl_tp.connecting--;
		ep->conn_state = HDL_CONN_NONE;
		if (ep->conn->queue != m->queue)
			destroy(ep);
	}
	if ((!ep->conn || !ep->conn->sq.dev) && (err = create(ep, m->queue))) {
		refuse(ep, m, -err);
		failed(ep, err);
		return;
	}
	c = ep->conn;
	c->initiator = false;
	if ((err = to_rtr(ep, m))) {
		refuse(ep, m, -err);
		failed(ep, err);
		return;
	}
	ep->conn_state = HDL_CONN_ANSWERED;
	c->rep_to = m->attempt;
	c->rep = (struct hdl_conn_msg){ .what = HDL_CONN_REP, .queue = m->queue, .attempt = m->attempt,
					.qpn = c->sq.qp->qp_num, .rqpn = c->rqp ? c->rqp->qp_num : 0, .psn = c->psn };
	send_msg(ep, &c->rep);
}

static void on_req(struct hdl_ep *ep, const struct hdl_conn_msg *m)
{
	bool can = (m->queue == HDL_QUEUE_RC || m->queue == HDL_QUEUE_XRC) &&
		   ep->dev->addr.caps & hdl_tp.allowed & HDL_QUEUE_BIT(m->queue);

	switch (ep->conn_state) {
	case HDL_CONN_ASKED:
		if (hdl_job.rank < ep->rank)
			return;		/* ours counts: the peer answers it */
		/* fall through */
	case HDL_CONN_NONE:
		if (can)
			accept_req(ep, m);
		else
			refuse(ep, m, EOPNOTSUPP);
		return;
	case HDL_CONN_ANSWERED:
	case HDL_CONN_READY:
		if (ep->conn && !ep->conn->initiator && ep->conn->rep_to == m->attempt)
			send_msg(ep, &ep->conn->rep);
		return;
	default:
		refuse(ep, m, ECONNREFUSED);
	}
}

static void on_rep(struct hdl_ep *ep, const struct hdl_conn_msg *m)
{
	struct hdl_conn *c = ep->conn;
	int err;

	if (ep->conn_state != HDL_CONN_ASKED || m->attempt != c->attempt || m->queue != c->queue)
		return;		/* a repetition */
	if ((err = to_rtr(ep, m)) || (err = hdl_qp_rts(c->sq.qp, c->psn))) {
		failed(ep, err);
		return;
	}
	hdl_tp.connecting--;
	ep->conn_state = HDL_CONN_READY;
	ep->sq = &c->sq;
	struct hdl_hdr hdr = { .kind = HDL_CTL_RTU };
	if ((err = hdl_ep_post_srq(ep, &hdr, NULL, 0, NULL)) < 0) {
		hdl_error("rank %d: the new %s connection refuses its first message (%s)", ep->rank,
			  hdl_queue_name(c->queue), strerror(-err));
		return;		/* hdl_sq_post has failed the peer */
	}
	ready(ep);
}

void hdl_wire_on_rtu(struct hdl_ep *ep)
{
	int err;

	if (ep->conn_state != HDL_CONN_ANSWERED)
		return;
	if ((err = hdl_qp_rts(ep->conn->sq.qp, ep->conn->psn)))
		failed(ep, err);
	else
		ready(ep);
}

void hdl_wire_arrived(struct hdl_ep *ep, const struct hdl_conn_msg *m)
{
	if (m->to != hdl_tp.nonce) {
		if (m->what == HDL_CONN_REQ)
			refuse(ep, m, ESTALE);
		return;
	}
	if (m->nonce != ep->nonce) {
		hdl_tp.stale++;
		return;
	}
	switch (m->what) {
	case HDL_CONN_REQ:
		on_req(ep, m);
		break;
	case HDL_CONN_REP:
		on_rep(ep, m);
		break;
	case HDL_CONN_REJ:
		if (ep->conn_state == HDL_CONN_ASKED && m->attempt == ep->conn->attempt) {
			hdl_error("rank %d refuses a %s connection (%s)", ep->rank, hdl_queue_name(m->queue),
				  m->reason == ESTALE ? "the rank was restarted" : strerror(m->reason));
			failed(ep, -ECONNREFUSED);
		}
		break;
	}
}

uint64_t hdl_wire_timers(uint64_t now)
{
	uint64_t first = 0;

	if (!hdl_tp.connecting)
		return 0;
	for (int i = 0; i < hdl_tp.neps; i++) {
		struct hdl_ep *ep = hdl_tp.eps[i];
		if (!ep || ep->conn_state != HDL_CONN_ASKED)
			continue;
		if (now >= ep->conn->retry_ns)
			ask(ep, now);
		if (!first || ep->conn->retry_ns < first)
			first = ep->conn->retry_ns;
	}
	return first;
}
