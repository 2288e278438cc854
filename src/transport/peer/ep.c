/* SPDX-License-Identifier: BSD-3-Clause */
/* Endpoints: the send path. */
#include <stdlib.h>
#include <string.h>

#include "transport/core/tp.h"

#define CTL_RING_MAX HDL_RING_SMALL
#define PACK_NOW 4096u		/* what is packed before it is known that it can leave at once */


/* ---- completions of operations ----------------------------------------------------------------------------- */

static void done_push(struct hdl_tp *tp, void *p, int err, enum hdl_done_what what)
{
	if (tp->ndone == tp->done_cap) {
		uint32_t cap = tp->done_cap ? tp->done_cap * 2 : 64;
		void *q = realloc(tp->done, cap * sizeof(*tp->done));
		if (!q) {
			/* an operation whose end is never told is a hang: there is no way on */
			hdl_rt_abort(1, "out of memory while completing a message");
		}
		tp->done = q;
		tp->done_cap = cap;
	}
	tp->done[tp->ndone].p = p;
	tp->done[tp->ndone].err = err;
	tp->done[tp->ndone++].what = what;
}

void hdl_done_send(struct hdl_send *send, int err)
{
	done_push(send->ep->tp, send, err, HDL_DONE_SEND);
}

void hdl_done_fetch(struct hdl_fetch *fetch, int err)
{
	done_push(fetch->ep->tp, fetch, err, HDL_DONE_FETCH);
}

void hdl_done_read(struct hdl_tp *tp, uint32_t id)
{
	done_push(tp, (void *)(uintptr_t)id, 0, HDL_DONE_READ);
}

void hdl_done_rma(struct hdl_rma *op, int err)
{
	done_push(op->ep->tp, op, err, HDL_DONE_RMA);
}

void hdl_done_broke(struct hdl_ep *ep)
{
	done_push(ep->tp, ep, 0, HDL_DONE_BROKE);
}

void hdl_done_reset(struct hdl_sq *sq)
{
	done_push(sq->dev->tp, sq, 0, HDL_DONE_RESET);
}

void hdl_done_forget(struct hdl_tp *tp, const struct hdl_sq *sq)
{
	for (uint32_t i = 0; i < tp->ndone; i++)
		if (tp->done[i].what == HDL_DONE_RESET && tp->done[i].p == sq)
			tp->done[i].what = HDL_DONE_NONE;
}

void hdl_ep_drop_ctl(struct hdl_ep *ep)
{
	struct hdl_ctl *c;

	for (int i = 0; i < 2; i++)
		while ((c = ep->ctl[i].head)) {
			ep->ctl[i].head = c->next;
			free(c);
		}
}

static void fail_list(struct hdl_send *s, int err)
{
	for (struct hdl_send *next; s; s = next) {
		next = s->next;
		hdl_done_send(s, err);
	}
}

/* Ends what a failed endpoint owns. The peer hears of it first, so that it does not take what follows for an error of the
 * network; and the queues stop before any operation ends, for what is under way must not reach a buffer that its owner has
 * back. What goes through a queue that others share ends with its last request there. */
static void ep_end(struct hdl_ep *ep)
{
	hdl_wire_begin_announcing(ep);
	hdl_wire_stop(ep);
	fail_list(ep->pend, ep->fail_err);
	ep->pend = NULL;
	hdl_ep_drop_ctl(ep);
	hdl_rndv_fail_peer(ep, ep->fail_err);
	hdl_rma_fail_peer(ep, ep->fail_err);
	hdl_ud_drop_peer(ep);
	hdl_ring_lose(ep);
	done_push(ep->tp, ep, ep->fail_err, HDL_DONE_PEER);
}

void hdl_done_run(struct hdl_tp *tp)
{
	/* callbacks may add more, and the array may move */
	for (uint32_t i = 0; i < tp->ndone; i++) {
		void *p = tp->done[i].p;
		int err = tp->done[i].err;
		switch (tp->done[i].what) {
		case HDL_DONE_NONE:
			break;
		case HDL_DONE_SEND:
			((struct hdl_send *)p)->done(p, err);
			break;
		case HDL_DONE_FETCH:
			((struct hdl_fetch *)p)->done(p, err);
			break;
		case HDL_DONE_READ:
			hdl_rndv_read_all(tp, (uint32_t)(uintptr_t)p);
			break;
		case HDL_DONE_RMA:
			((struct hdl_rma *)p)->done(p, err);
			break;
		case HDL_DONE_END:
			ep_end(p);
			break;
		case HDL_DONE_RESET:
			hdl_sq_reset(p);
			break;
		case HDL_DONE_BROKE:
			hdl_wire_replace(p);
			break;
		case HDL_DONE_PEER:
			if (tp->up.peer_failed)
				tp->up.peer_failed(tp->up.context, ((struct hdl_ep *)p)->rank, err);
			break;
		}
	}
	tp->ndone = 0;
}

/* ---- endpoints --------------------------------------------------------------------------------------------- */

unsigned hdl_ep_kinds(const struct hdl_ep *ep)
{
	unsigned can = ep->tp->allowed & ep->addr.caps & ep->dev->addr.caps;
	char here[HDL_KINDS_TEXT], there[HDL_KINDS_TEXT];

	if (!can)
		hdl_error("no queue kind of HEDDLE_TRANSPORT=%s is possible between this rank (%s:%s) and %s (its device:%s)",
			  hdl_vars.transport, ep->dev->name, hdl_kinds_text(ep->dev->addr.caps, here), hdl_proc_text(ep->rank),
			  hdl_kinds_text(ep->addr.caps, there));
	return can;
}

struct hdl_ep *hdl_ep_make(struct hdl_tp *tp, int proc)
{
	struct hdl_ep *ep;
	int64_t id;
	int err;

	if (posix_memalign((void **)&ep, 64, sizeof(*ep))) {
		errno = ENOMEM;
		return NULL;
	}
	memset(ep, 0, sizeof(*ep));
	ep->tp = tp;
	ep->rank = ep->note.rank = proc;
	ep->theirs = ep->src = HDL_NAMED;
	ep->wr.opcode = IBV_WR_RDMA_WRITE;
	ep->wr.sg_list = ep->sge;
	ep->wr.num_sge = 2;
	ep->sge[1] = (struct ibv_sge){ .addr = (uintptr_t)&ep->head, .length = sizeof(ep->head) };
	if ((err = hdl_wire_lookup(ep)))
		goto none;
	ep->can = hdl_ep_kinds(ep);
	if (!ep->can) {
		err = -EOPNOTSUPP;
		goto none;
	}
	id = hdl_peers_add(&tp->peers, proc, ep);
	if (id < 0) {
		err = hdl_no_memory("the table of peers", (tp->peers.n + 1) * HDL_PEER_BYTES);
		goto none;
	}
	ep->id = (uint32_t)id;
	hdl_wire_forget(tp, proc);
	if (!hdl_proc_is_ours(proc))
		hdl_rxpools_more(ep->dev);
	return ep;
none:
	free(ep->host);
	free(ep);
	errno = -err;
	return NULL;
}

/* Who has heard of us before we have of him is heard again: he repeats himself. */
static struct hdl_ep *ep_named(struct hdl_tp *tp, const struct hdl_name *name)
{
	int proc = hdl_proc_of(name->job, name->rank);

	return proc >= 0 && hdl_wire_is_known(tp, proc) ? hdl_ep(tp, proc) : NULL;
}

struct hdl_ep *hdl_ep_on_ctl(struct hdl_tp *tp, uint32_t src, const void *name)
{
	struct hdl_name n;
	struct hdl_ep *ep;

	tp->names++;
	memcpy(&n, name, sizeof(n));
	ep = src == HDL_NAMED ? ep_named(tp, &n) : hdl_peers_of(&tp->peers, src & ~HDL_TELLS);
	if (!ep || n.incarnation != ep->name.incarnation || n.job != ep->name.job || n.rank != ep->name.rank)
		return NULL;
	ep->theirs = n.yours;
	ep->src = src == HDL_NAMED ? n.yours | HDL_TELLS : n.yours;
	return ep;
}

void hdl_ep_name(const struct hdl_ep *ep, void *name)
{
	struct hdl_name n = ep->tp->self;

	n.yours = ep->id;
	memcpy(name, &n, sizeof(n));
}

uint32_t hdl_ep_others(const struct hdl_ep *ep)
{
	const struct hdl_other_job *job = hdl_job_of(ep->rank);
	int size = job && job->size > hdl_job.size ? job->size : hdl_job.size;

	return (uint32_t)size - (job == NULL);
}

struct hdl_srq_credit *hdl_ep_srq_credit(struct hdl_ep *ep, const struct hdl_rxpool *pool)
{
	struct hdl_srq_credit *p = ep->pooled;
	uint32_t others, base;

	if (likely(p != NULL))
		return p;
	others = hdl_ep_others(ep);
	p = calloc(1, sizeof(*p));
	if (!p) {
		hdl_ep_fail(ep, hdl_no_memory("the credits of a peer", sizeof(*p)));
		return NULL;
	}
	/* the peer's pool is as ours */
	hdl_rel_shares(pool->first, others, others, &base);
	p->base = p->window = p->granted = (uint16_t)base;
	return ep->pooled = p;
}

struct hdl_ep *hdl_ep_find(struct hdl_tp *tp, int proc)
{
	return hdl_peers_find(&tp->peers, proc);
}

struct hdl_ep *hdl_ep_next(struct hdl_tp *tp, const struct hdl_ep *ep)
{
	uint32_t id = ep ? ep->id + 1 : 0;

	return id < tp->peers.n ? tp->peers.of[id] : NULL;
}

struct hdl_ep_note *hdl_ep_note(struct hdl_ep *ep)
{
	return &ep->note;
}

struct hdl_ep *hdl_ep(struct hdl_tp *tp, int proc)
{
	struct hdl_ep *ep = hdl_peers_find(&tp->peers, proc);

	return likely(ep != NULL) ? ep : hdl_ep_make(tp, proc);
}

bool hdl_ep_can_rdma(const struct hdl_ep *ep)
{
	return (ep->can & HDL_QUEUE_CONNECTED) && ep->conn.state != HDL_CONN_FAILED;
}

enum hdl_queue hdl_ep_select(const struct hdl_ep *ep, unsigned allowed, bool rdma, int rc_peers)
{
	struct hdl_select s = { .caps = ep->can,
				.allowed = allowed,
				.job_size = hdl_job.size,
				.ppn = hdl_job.ppn,
				.rc_peers = rc_peers,
				.rc_most = hdl_vars.rc_peers,
				.messages = ep->sent_msgs,
				.hot = (uint64_t)hdl_vars.hot_messages,
				.rdma = rdma,
				.same_host = ep->dev->role != HDL_ROLE_REMOTE };

	return hdl_select_queue(&s, NULL);
}

int hdl_ep_connect(struct hdl_ep *ep)
{
	enum hdl_queue queue = hdl_ep_select(ep, ep->can & HDL_QUEUE_CONNECTED, true, ep->tp->rc_peers);

	if (queue == HDL_QUEUE_NONE || ep->conn.state == HDL_CONN_FAILED)
		return -EOPNOTSUPP;
	return ep->conn.state == HDL_CONN_NONE ? hdl_wire_connect(ep, queue) : 0;
}

void hdl_ep_refresh(struct hdl_ep *ep)
{
	ep->fast = ep->ring && ep->sq && !ep->pend && !ep->wake_mode && !ep->hold && !ep->failed && !ep->reorder_guard_ud &&
		   !ep->reorder_guard_sq && ep->sq->max_inline >= HDL_LINE && ep->ring_max >= HDL_RING_SMALL;
	if (!ep->fast)
		return;
	ep->now_max = ep->sq->max_inline - sizeof(struct hdl_hdr);
	if (ep->now_max > ep->ring_max)
		ep->now_max = ep->ring_max;
	if (ep->now_max > hdl_vars.eager_max)	/* of longer ones it is asked whether they are awaited */
		ep->now_max = hdl_vars.eager_max;
}

void hdl_ep_busy(struct hdl_ep *ep)
{
	struct hdl_tp *tp = ep->tp;

	if (ep->busy)
		return;
	ep->busy = true;
	ep->busy_next = tp->busy;
	tp->busy = ep;
}

void hdl_ep_fail(struct hdl_ep *ep, int err)
{
	struct hdl_tp *tp = ep->tp;

	if (ep->failed || tp->closing)
		return;
	ep->failed = true;
	ep->fail_err = err;
	ep->fast = ep->ring = false;
	hdl_wire_failed(ep);
	done_push(tp, ep, err, HDL_DONE_END);
}

/* ---- control messages -------------------------------------------------------------------------------------- */

static int try_ctl(struct hdl_ep *ep, unsigned kind, const void *body, uint32_t len, bool ordered)
{
	struct hdl_hdr hdr = { .kind = (uint8_t)kind, .len = len };

	if (hdl_ep_away(ep))
		return -EAGAIN;
	/* a peer's first message may come by DC before we have sent it any */
	if (ep->conn.state == HDL_CONN_NONE && !(ep->can & HDL_QUEUE_PACKETS))
		hdl_ep_connect(ep);
	if (ep->conn.state == HDL_CONN_READY) {
		int r = -EAGAIN;
		if (!ordered && ep->ring && !ep->wake_mode && len <= CTL_RING_MAX)
			r = hdl_post_ring(ep, &hdr, body, len, NULL, NULL, HDL_IN_PLACE_NO);
		if (r == -EAGAIN)
			r = hdl_ep_post_srq(ep, &hdr, body, len, NULL);
		return r;
	}
	/* where there will be no connected lane there is nothing to be behind */
	if (ep->can & HDL_QUEUE_PACKETS && (!ordered || ep->conn.state == HDL_CONN_FAILED))
		return hdl_ud_send(ep, &hdr, body, len, NULL, 0);
	return -EAGAIN;
}

/* The peer waits for each control message: one that cannot leave ends the endpoint, on both sides. */
static void ctl_left(struct hdl_ep *ep, int r)
{
	if (unlikely(r < 0))
		hdl_ep_fail(ep, r);
}

void hdl_ep_ctl(struct hdl_ep *ep, unsigned kind, const void *body, uint32_t len, bool ordered)
{
	struct hdl_ctl_list *list = &ep->ctl[ordered];
	int r;

	if (ep->failed)
		return;
	r = list->head ? -EAGAIN : try_ctl(ep, kind, body, len, ordered);
	if (r != -EAGAIN) {
		ctl_left(ep, r);
		return;
	}
	struct hdl_ctl *c = malloc(sizeof(*c) + len);
	if (!c) {
		hdl_error("out of memory for a control message to %s", hdl_proc_text(ep->rank));
		hdl_ep_fail(ep, -ENOMEM);
		return;
	}
	*c = (struct hdl_ctl){ .kind = kind, .len = len };
	if (len)
		memcpy(c->body, body, len);
	if (list->head)
		list->tail->next = c;
	else
		list->head = c;
	list->tail = c;
	hdl_ep_busy(ep);
}

/* Sends what waits in one of the lists. True: something still does. */
static bool drain_ctl(struct hdl_ep *ep, bool ordered, int *events)
{
	struct hdl_ctl_list *list = &ep->ctl[ordered];
	struct hdl_ctl *c;

	while (!ep->failed && (c = list->head)) {
		int r = try_ctl(ep, c->kind, c->body, c->len, ordered);

		if (r == -EAGAIN)
			return true;
		list->head = c->next;
		free(c);
		ctl_left(ep, r);
		++*events;
	}
	return false;
}

/* ---- the send path ----------------------------------------------------------------------------------------- */

/* How far a lane may run ahead of one that may delay its messages. */
static bool guarded(struct hdl_ep *ep)
{
	if (ep->reorder_guard_ud && (!ep->rel || hdl_rel_idle(ep->rel)))
		ep->reorder_guard_ud = false;
	if (ep->reorder_guard_sq && ep->sq) {
		if ((int32_t)(ep->sq->tail - ep->reorder_guard_idx) <= 0 && ep->sq->scq->pending)
			hdl_sq_reap(ep->tp, ep->sq->scq);
		if ((int32_t)(ep->sq->tail - ep->reorder_guard_idx) > 0)
			ep->reorder_guard_sq = false;
		else if ((uint16_t)(ep->tx_seq - ep->reorder_guard_seq) > HDL_ORDER_SPAN / 4)
			hdl_sq_flush(ep->sq, ep);
	}
	if (ep->reorder_guard_ud || ep->reorder_guard_sq)
		return (uint16_t)(ep->tx_seq - ep->reorder_guard_seq) > HDL_ORDER_SPAN / 2;
	hdl_ep_refresh(ep);
	return false;
}

static void ep_sent(struct hdl_ep *ep)
{
	ep->tx_seq++;
	ep->sent_msgs++;
}

static int send_connected(struct hdl_ep *ep, struct hdl_hdr *hdr, const void *buf, size_t len, struct hdl_send *send)
{
	int r;

	if ((ep->reorder_guard_ud || ep->reorder_guard_sq) && guarded(ep))
		return -EAGAIN;
	hdr->seq = ep->tx_seq;
	if (ep->ring && !ep->wake_mode && len <= ep->ring_most) {
		r = hdl_post_ring(ep, hdr, buf, len, NULL, send, send ? HDL_IN_PLACE_DONE : HDL_IN_PLACE_NO);
		if (r >= 0) {
			ep_sent(ep);
			ep->out_ring.msgs++;
			ep->out_ring.bytes += len;
		}
		return r;
	}
	r = hdl_ep_post_srq(ep, hdr, buf, len, send);
	if (r >= 0) {
		ep_sent(ep);
		ep->out_srq.msgs++;
		ep->out_srq.bytes += len;
		if (ep->ring) {
			/* this one may wait for a receive while the ring runs ahead */
			if (!ep->reorder_guard_sq && !ep->reorder_guard_ud)
				ep->reorder_guard_seq = ep->tx_seq;
			ep->reorder_guard_sq = true;
			ep->reorder_guard_idx = ep->sq->head - 1;
			hdl_ep_refresh(ep);
		}
	} else if (r == -EAGAIN && ep->sq->kind->rebind) {
		ep->sq->kind->rebind(ep);
	}
	return r;
}

static int send_packet(struct hdl_ep *ep, struct hdl_hdr *hdr, const void *buf, size_t len, const struct hdl_send *send)
{
	int r;

	hdr->seq = ep->tx_seq;
	hdr->len = (uint32_t)len;
	if (len > ep->dev->max_ud)
		r = hdl_ud_send_parts(ep, hdr, buf, (uint32_t)len, send);
	else if (buf || !len)
		r = hdl_ud_send(ep, hdr, buf, (uint32_t)len, NULL, 0);
	else
		r = hdl_ud_send_runs(ep, hdr, send, 0, (uint32_t)len, NULL, 0);
	if (r)
		return r;
	ep_sent(ep);
	ep->out_ud.msgs++;
	ep->out_ud.bytes += len;
	return 1;
}

/* Which way the next message goes; makes connections. */
enum way { WAY_NONE, WAY_PACKET, WAY_CONNECTED };
static enum way way_of(struct hdl_ep *ep, bool rdma)
{
	bool packets = ep->can & HDL_QUEUE_PACKETS, only = !(ep->can & ~HDL_QUEUE_PACKETS);
	bool busy = rdma || ep->sent_msgs >= (uint64_t)hdl_vars.hot_messages;

	if (hdl_ep_away(ep))
		return WAY_NONE;
	if (ep->conn.state == HDL_CONN_READY)
		return WAY_CONNECTED;
	if (packets && (only || !busy || ep->conn.state != HDL_CONN_NONE))
		return WAY_PACKET;
	if (ep->conn.state == HDL_CONN_NONE) {
		enum hdl_queue queue = hdl_ep_select(ep, ep->can, rdma, ep->tp->rc_peers);
		if (!HDL_QUEUE_IN(HDL_QUEUE_PACKETS, queue))
			hdl_wire_connect(ep, queue);
		if (ep->conn.state == HDL_CONN_READY)
			return WAY_CONNECTED;
	}
	return packets ? WAY_PACKET : WAY_NONE;
}

/* An active message outside of the order. */
static int ep_send_free(struct hdl_ep *ep, enum way way, struct hdl_hdr *hdr, const void *buf, size_t len, struct hdl_send *send)
{
	struct hdl_count *out = &ep->out_srq;
	int r;

	if (way == WAY_PACKET) {
		hdr->len = (uint32_t)len;
		out = &ep->out_ud;
		r = buf ? hdl_ud_send(ep, hdr, buf, (uint32_t)len, NULL, 0) : hdl_ud_send_runs(ep, hdr, send, 0, (uint32_t)len, NULL, 0);
		r = r ? r : 1;
	} else if (ep->ring && !ep->wake_mode && len <= ep->ring_max) {
		out = &ep->out_ring;
		r = hdl_post_ring(ep, hdr, buf, len, NULL, send, HDL_IN_PLACE_NO);
	} else {
		r = hdl_ep_post_srq(ep, hdr, buf, len, buf ? NULL : send);
		if (r == -EAGAIN && ep->sq->kind->rebind)
			ep->sq->kind->rebind(ep);
	}
	if (r < 0)
		return r;
	ep->sent_msgs++;
	out->msgs++;
	out->bytes += len;
	return r;
}

/* head and payload, or the announcement of a payload and its head, which are at buf then. */
static int send_active(struct hdl_ep *ep, enum way way, struct hdl_am_send *am, bool rts, const void *buf, size_t len)
{
	struct hdl_hdr hdr = { .tag = am->send.tag, .context = (uint16_t)am->head_len };
	struct hdl_send *s = &am->send;

	if (am->flags & HDL_AM_ORDERED) {
		hdr.kind = rts ? HDL_AM_RTS : HDL_AM;
		return way == WAY_PACKET ? send_packet(ep, &hdr, buf, len, s) : send_connected(ep, &hdr, buf, len, rts ? NULL : s);
	}
	hdr.kind = rts ? HDL_AM_FREE_RTS : HDL_AM_FREE;
	return ep_send_free(ep, way, &hdr, buf, len, s);
}

/* limit: bytes of an eager message; a head alone always fits. Nobody is asked to hold active ones: their handlers take them at once. */
static int try_active(struct hdl_ep *ep, enum way way, size_t limit, struct hdl_am_send *am)
{
	struct { struct hdl_rts_rec rec; char head[HDL_AM_HEAD_MAX]; } rts;
	struct hdl_send *s = &am->send;
	int r;

	if (!(am->flags & HDL_AM_ANNOUNCE) && (!am->len || am->head_len + am->len <= limit)) {
		s->pack = hdl_am_pack;
		return send_active(ep, way, am, false, NULL, am->head_len + am->len);
	}
	s->pack = NULL;
	s->buf = am->data;
	s->len = am->len;
	if ((r = hdl_rndv_announce(ep, s, &rts.rec)))
		return r;
	memcpy(rts.head, am->head, am->head_len);
	if ((r = send_active(ep, way, am, true, &rts, sizeof(rts.rec) + am->head_len)) >= 0)
		return 0;
	hdl_rndv_unannounce(s);
	return r;
}

/*
 * Whether the peer is likely to wait for a message that is longer than HEDDLE_EAGER_MAX: it has sent something since the last such one, as
 * in an exchange or a ping-pong. Then it reads the message in less time than one copy into the ring and one out of it take, where these
 * are slow. Otherwise messages stream, and the sender had better go on; and where processes share a CPU nobody should wait.
 */
static bool is_awaited(struct hdl_ep *ep, const struct hdl_send *send)
{
	uint16_t came = (uint16_t)ep->in_ring.msgs;
	bool answered = came != ep->answered;

	ep->answered = came;
	return answered && !send->pack && ep->dev->promises.pages_read && ep->tp->ways & 1u << HDL_WAY_READ && hdl_waiters_may_spin();
}

/* How long a message beyond HEDDLE_EAGER_MAX may be that takes the ring. *timed: its copy is. */
static size_t ring_limit(struct hdl_ep *ep, size_t len, const struct hdl_send *send, bool *timed)
{
	if (ep->ring_max < ep->ring_most && len <= ep->ring_most && !send->pack && lines_pace_next(&ep->pace, LINES_PACE_QUICK)) {
		*timed = true;
		return ep->ring_most;
	}
	return len <= ep->ring_max && is_awaited(ep, send) ? hdl_vars.eager_max : ep->ring_max;
}

static int try_send(struct hdl_ep *ep, int32_t tag, uint16_t context, bool sync, const void *buf, size_t len,
		    struct hdl_send *send)
{
	struct hdl_hdr hdr = { .tag = tag, .context = context };
	enum way way = way_of(ep, len > hdl_vars.eager_max);
	size_t limit = hdl_vars.eager_max;
	bool ring = way != WAY_PACKET && ep->ring && !ep->wake_mode && limit < ep->ring_max, timed = false;
	int r;

	if (way == WAY_PACKET && limit > ep->dev->max_ud)
		limit = ep->dev->max_ud;
	else if (ring && send->active)
		limit = ep->ring_max;

	if (ep->failed)
		return ep->fail_err;
	if (way == WAY_NONE)
		return -EAGAIN;
	if (send->active)
		return try_active(ep, way, limit, container_of(send, struct hdl_am_send, send));
	if (ring && len > limit)
		limit = ring_limit(ep, len, send, &timed);
	if (len <= limit && !sync && (!ep->hold || len <= HDL_HOLD_LEAST)) {
		hdr.kind = HDL_EAGER;
		uint64_t since = timed ? monotonic_ns() : 0;
		r = way == WAY_PACKET ? send_packet(ep, &hdr, buf, len, send) : send_connected(ep, &hdr, buf, len, send);
		if (timed && r >= 0)
			lines_pace_took(&ep->pace, len, monotonic_ns() - since, LINES_PACE_QUICK);
		return r;
	}
	/* Where the data would go in packets anyway, once its receiver has asked for it: they spare that, as long as they are few. */
	if (way == WAY_PACKET && len > limit && len <= hdl_vars.eager_max && !sync && !ep->hold && !hdl_ep_can_rdma(ep)) {
		hdr.kind = HDL_EAGER;
		r = send_packet(ep, &hdr, buf, len, send);
		if (r != -EAGAIN)
			return r;
	}
	struct hdl_rts_rec rec;
	send->buf = buf;
	send->len = len;
	if ((r = hdl_rndv_announce(ep, send, &rec)))
		return r;
	hdr.kind = HDL_RTS;
	r = way == WAY_PACKET ? send_packet(ep, &hdr, &rec, sizeof(rec), NULL)
			      : send_connected(ep, &hdr, &rec, sizeof(rec), NULL);
	if (r < 0) {
		hdl_rndv_unannounce(send);
		return r;
	}
	return 0;
}

/* A sender that never waits, because its messages leave at once, looks all the same, now and then, at what arrives: the
 * peer may ask it to hold. */
static void ep_look(struct hdl_ep *ep)
{
	ep->unlooked = 0;
	ep->looked_sent = ep->tx.sent;
	hdl_tp_take_in(ep->tp);
}

static int __attribute__((noinline)) ep_send_slow(struct hdl_ep *ep, int32_t tag, uint16_t context, bool sync,
					       const void *buf, size_t len, struct hdl_send *send)
{
	if (++ep->unlooked >= HDL_UNLOOKED_MAX)
		ep_look(ep);
	if (ep->failed)
		return ep->fail_err;
	if (!ep->pend) {
		int r = try_send(ep, tag, context, sync, buf, len, send);
		if (r != -EAGAIN)
			return r;
	}
	send->ep = ep;
	send->buf = buf;
	send->len = len;
	send->tag = tag;
	send->context = context;
	send->sync = sync;
	send->next = NULL;
	if (ep->pend)
		ep->pend_tail->next = send;
	else
		ep->pend = send;
	ep->pend_tail = send;
	ep->fast = false;
	hdl_ep_busy(ep);
	return 0;
}

/* A frame of k lines for which hdl_ring_plain_ready. Budget: one header written here, one request posted, nothing else. */
static inline __attribute__((always_inline)) int put_plain(struct hdl_ep *ep, int32_t tag, uint16_t context, uint16_t seq,
							  uint8_t kind, const void *buf, size_t len, uint32_t k)
{
	struct hdl_sq *sq = ep->sq;
	struct ibv_send_wr *bad;
	uint32_t i = sq->head;

	hdl_hdr_set(&ep->head, tag, context, seq, (uint32_t)len, kind, ep->tx.phase);
	ep->sge[0].addr = (uintptr_t)buf;
	ep->sge[0].length = (uint32_t)len;
	ep->wr.sg_list = len ? ep->sge : ep->sge + 1;
	ep->wr.num_sge = len ? 2 : 1;
	ep->wr.wr.rdma.remote_addr = hdl_ring_header_addr(&ep->tx, ep->tx.line) - len;
	ep->wr.wr_id = (uint64_t)sq->id << 32 | i;
	ep->wr.send_flags = IBV_SEND_INLINE;
	if (unlikely(i + 1 - sq->signaled >= sq->interval)) {
		ep->wr.send_flags = IBV_SEND_INLINE | IBV_SEND_SIGNALED;
		sq->slot[i & sq->mask].signaled = 1;
		sq->signaled = i + 1;
		sq->scq->pending++;
	}
	int err;
	if (likely(ep->direct)) {
		err = ibv_post_send(sq->qp, &ep->wr, &bad);
	} else {
		sq->slot[i & sq->mask].ep = ep;
		err = sq->kind->post(sq, ep, &ep->wr);
	}
	if (unlikely(err)) {
		hdl_error("%s port %u: cannot post to %s queue %u towards %s (%s)", sq->dev->name,
			  sq->dev->port.port_num, hdl_kind_name(sq->kind), sq->qp->qp_num, hdl_proc_text(ep->rank), strerror(err));
		sq->dead = true;
		hdl_ep_fail(ep, -err);
		return -err;
	}
	sq->head = i + 1;
	sq->requests++;
	sq->bytes += len + sizeof(ep->head);
	hdl_ring_plain_sent(&ep->tx, k);
	hdl_replay_record(sq, &ep->wr, ep->tx.sent);
	return 1;
}

int hdl_ep_put_line(struct hdl_ep *ep, const struct hdl_hdr *hdr, const void *buf, size_t len)
{
	return put_plain(ep, hdr->tag, hdr->context, hdr->seq, hdr->kind, buf, len, 1);
}

static inline __attribute__((always_inline)) int send_plain(struct hdl_ep *ep, int32_t tag, uint16_t context, const void *buf,
							    size_t len, uint32_t k)
{
	int r = put_plain(ep, tag, context, ep->tx_seq, HDL_EAGER, buf, len, k);

	if (unlikely(r < 0))
		return 0;
	ep->streak = 0;
	ep->tx_seq++;
	ep->out_ring.msgs++;
	ep->out_ring.bytes += len;
	return 1;
}

/* A frame before which something else is written, or for which nothing has been given back. */
static int __attribute__((noinline)) send_frame(struct hdl_ep *ep, int32_t tag, uint16_t context, const void *buf, size_t len)
{
	struct hdl_hdr hdr = { .tag = tag, .context = context, .kind = HDL_EAGER };

	if (ep->tx.sent - ep->looked_sent > ep->tx.lines / 2) {
		ep_look(ep);
		if (!ep->fast)
			return 0;
	}
	hdr.seq = ep->tx_seq;	/* handlers that ran meanwhile may have taken numbers */
	if (hdl_post_ring(ep, &hdr, buf, len, NULL, NULL, HDL_IN_PLACE_NO) < 0)
		return 0;
	ep_sent(ep);
	ep->out_ring.msgs++;
	ep->out_ring.bytes += len;
	return 1;
}

int hdl_ep_send_now(struct hdl_ep *ep, int32_t tag, uint16_t context, const void *buf, size_t len)
{
	if (unlikely(!ep->fast) || len > ep->now_max)
		return ep->fast ? 0 : hdl_ud_send_now(ep, tag, context, buf, len);
	uint32_t k = hdl_ring_lines(len);
	if (unlikely(!hdl_sq_room(ep->sq, 1)) || unlikely(!hdl_ring_plain_ready(&ep->tx, k)))
		return send_frame(ep, tag, context, buf, len);
	return send_plain(ep, tag, context, buf, len, k);
}

int hdl_ep_send(struct hdl_ep *ep, int32_t tag, uint16_t context, bool sync, const void *buf, size_t len,
		struct hdl_send *send)
{
	if (!sync && hdl_ep_send_now(ep, tag, context, buf, len))
		return 1;
	send->pack = NULL;
	send->active = false;
	return ep_send_slow(ep, tag, context, sync, buf, len, send);
}

/* What is short is packed to be sent at once. If that fails, it is packed from the user's memory a second time when its turn comes: that
 * is as cheap as to keep the packed bytes. */
int hdl_ep_send_runs(struct hdl_ep *ep, int32_t tag, uint16_t context, bool sync, size_t len, struct hdl_send *send)
{
	char packed[PACK_NOW];

	if (!sync && len <= sizeof(packed)) {
		send->pack(send, 0, packed, len);
		if (hdl_ep_send_now(ep, tag, context, packed, len))
			return 1;
	}
	send->active = false;
	return ep_send_slow(ep, tag, context, sync, NULL, len, send);
}

int hdl_ep_send_am(struct hdl_ep *ep, struct hdl_am_send *am)
{
	struct hdl_send *s = &am->send;

	s->active = true;
	/* one that has no order need not wait behind those that have one */
	if (ep->pend && !(am->flags & HDL_AM_ORDERED) && !ep->failed) {
		int r = try_send(ep, s->tag, 0, false, NULL, am->len, s);
		if (r != -EAGAIN)
			return r;
	}
	return ep_send_slow(ep, s->tag, 0, false, am->data, am->len, s);
}

int hdl_ep_withdraw(struct hdl_ep *ep, struct hdl_send *send, uint32_t *number)
{
	struct hdl_send *before = NULL, *s = ep->pend;

	while (s && s != send) {
		before = s;
		s = s->next;
	}
	if (!s)
		return hdl_rndv_announced(send, number) ? 0 : -EBUSY;
	*(before ? (struct hdl_send **)&before->next : &ep->pend) = s->next;
	if (!s->next)
		ep->pend_tail = before;
	hdl_done_send(s, -ECANCELED);
	return 1;
}

bool hdl_ep_drain(struct hdl_ep *ep, int *events)
{
	bool waits = false, gathers;
	struct hdl_send *s;
	int left = 0;

	/* when the new queues stand it is called again */
	if (ep->failed || hdl_ep_away(ep))
		return false;
	if (ep->credit_due)
		hdl_ring_give_credit(ep);
	for (int i = 0; i < 2; i++)
		waits |= drain_ctl(ep, i, events);
	if (ep->failed)
		return false;
	waits |= hdl_rndv_read(ep, events);
	waits |= hdl_rndv_push(ep);
	waits |= hdl_rma_push(ep);
	gathers = ep->pend && ep->pend->next && ep->can & HDL_QUEUE_PACKETS;
	if (gathers)
		hdl_ud_gather(ep);
	while ((s = ep->pend)) {
		struct hdl_send *next = s->next;
		int r;

		/* A receiver that keeps up with the list would keep us from hearing that it asks us to hold: every turn looks
		 * at what arrives. A turn that ends here had events, so that nobody sleeps on what is left. */
		if (left == HDL_UNLOOKED_MAX) {
			waits = true;
			break;
		}
		r = try_send(ep, s->tag, s->context, s->sync, s->buf, s->len, s);
		if (r == -EAGAIN) {
			waits = true;
			break;
		}
		ep->pend = next;
		if (r)
			hdl_done_send(s, r < 0 ? r : 0);
		++*events;
		left++;
	}
	if (gathers)
		hdl_ud_gathered(ep);
	if (!ep->pend && ep->ring && !ep->fast)
		hdl_ep_refresh(ep);
	waits |= hdl_rndv_stream(ep);
	return waits || ep->credit_due || ep->ctl[0].head || ep->ctl[1].head || ep->pend;
}
