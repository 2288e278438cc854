/* SPDX-License-Identifier: BSD-3-Clause */
/* Turns of progress, timers, start and end. */
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "transport/core/active.h"
#include "transport/core/tp.h"

#define RING_BURST 32		/* frames of one ring per turn, so that every peer has its turn */
#define STREAM 8		/* so many messages without an answer are a stream */
#define STREAM_BURST 8
#define PEEKS 24		/* looks at the expected peer's ring before a whole turn */
#define TIMER_US 128		/* between two looks at the clock, and at what was sent without a completion */
#define ACK_US 8		/* for which nothing comes before what has come is acknowledged by a packet of its own */
#define ASYNC_NS 10000000ull	/* between two looks at a device's asynchronous events */
#define BUSY_TURNS 16		/* of turns, or looks, that find something one in so many reads the processor's counter */
#define LOOK_NS 20000000ull	/* period over which a ring counts as silent */

/* ---- receive completions ----------------------------------------------------------------------------------- */

static void receive_failed(struct hdl_dev *dev, const struct ibv_wc *wc)
{
	if (wc->status != IBV_WC_WR_FLUSH_ERR && !dev->tp->closing)
		hdl_error("%s port %u: a receive on queue %u failed: %s (%d, vendor %#x)%s", dev->name,
			  dev->port.port_num, wc->qp_num, ibv_wc_status_str(wc->status), wc->status, wc->vendor_err,
			  wc->status == IBV_WC_LOC_LEN_ERR ? ": a peer sent more than this rank's HEDDLE_EAGER_MAX: it "
							     "must be the same on all ranks"
							   : "");
}

/* A message has taken a receive of the pool that all senders have in common. True: its sender is to hear of it. */
static inline bool came(struct hdl_ep *ep, const struct hdl_rxpool *pool, const struct hdl_hdr *hdr)
{
	struct hdl_srq_credit *p = hdl_ep_srq_credit(ep, pool);

	return p && hdl_srq_credit_came(p, hdl_is_counted(hdr->kind), hdr->reserved);
}

static __attribute__((noinline)) void grant(struct hdl_ep *ep, struct hdl_rxpool *pool)
{
	uint32_t since = ep->pooled->in - ep->pooled->told;
	uint32_t base, share = hdl_rxpool_share(pool, &ep->pooled->active, true, since, &base);
	struct hdl_taken_rec m = hdl_srq_credit_answer(ep->pooled, share, base);

	hdl_ep_ctl(ep, HDL_CTL_TAKEN, &m, sizeof(m), false);
}

static void srq_arrived(struct hdl_rxbuf *b, uint32_t len)
{
	struct hdl_tp *tp = b->pool->dev->tp;
	const struct hdl_wire *w = (const struct hdl_wire *)(uintptr_t)b->sge.addr;
	bool tells = len >= sizeof(*w) && w->src & HDL_TELLS;
	uint32_t head = tells ? HDL_WIRE_MOST : (uint32_t)sizeof(*w);
	struct hdl_ep *ep = NULL;

	if (likely(len >= head))
		ep = tells ? hdl_ep_on_ctl(tp, w->src, w + 1) : hdl_ep_by_id(tp, w->src);
	if (unlikely(!ep || w->nonce != (uint32_t)ep->name.incarnation || w->hdr.len > len - head)) {
		tp->stale++;
		return;
	}
	if (unlikely(!ep->sq || ep->failed))
		hdl_wire_on_message(ep, (enum hdl_pool)(b->pool - b->pool->dev->rx));
	if (ep->queues)
		ep->queues->messages++;
	if (unlikely(w->src == HDL_NAMED && !ep->told_id)) {
		struct hdl_id_rec m = { .id = ep->id };
		ep->told_id = true;
		hdl_ep_ctl(ep, HDL_CTL_ID, &m, sizeof(m), false);
	}
	bool answer = came(ep, b->pool, &w->hdr);
	hdl_ep_dispatch(ep, &w->hdr, (const char *)w + head, &ep->in_srq);
	if (unlikely(answer))
		grant(ep, b->pool);
}

int hdl_tp_poll_rcq(struct hdl_dev *dev)
{
	struct ibv_wc wc[16];
	int n, all = 0;

	do {
		n = ibv_poll_cq(dev->rcq, 16, wc);
		if (unlikely(n < 0)) {
			hdl_error("%s: ibv_poll_cq of the receive queue failed (%d): the completion queue is in error",
				  dev->name, n);
			return all;
		}
		for (int i = 0; i < n; i++) {
			struct hdl_rxbuf *b = (struct hdl_rxbuf *)(uintptr_t)wc[i].wr_id;
			struct hdl_rxpool *p = b->pool;

			p->posted--;
			hdl_rxbuf_came(b);
			if (unlikely(wc[i].status != IBV_WC_SUCCESS)) {
				receive_failed(dev, &wc[i]);
				if (wc[i].status == IBV_WC_WR_FLUSH_ERR && !hdl_ud_flushed(dev, p))
					continue;	/* its queue is gone */
			} else if (p->packets) {
				/* a GRH or its place comes first */
				if (wc[i].byte_len >= HDL_GRH)
					hdl_ud_arrived(dev, (char *)(uintptr_t)b->sge.addr + HDL_GRH,
						       wc[i].byte_len - HDL_GRH);
			} else if (wc[i].opcode == IBV_WC_RECV_RDMA_WITH_IMM) {
				hdl_rndv_on_imm(dev->tp, wc[i].imm_data, wc[i].byte_len);
			} else {
				srq_arrived(b, wc[i].byte_len);
			}
			hdl_rxbuf_back(b);
		}
		all += n;
	} while (n == 16 && all < 256);
	if (!all) {
		struct hdl_rxpool *p = &dev->rx[HDL_POOL_PACKETS];
		/* where a packet comes with its completion: both are waited for at a time, not one after the other */
		__builtin_prefetch(p->ahead);
		if (p->nback >= HDL_RX_BATCH / 2)
			hdl_rxpool_flush(p);
	}

	for (int i = 0; all > 1 && i < HDL_POOLS; i++) {
		struct hdl_rxpool *p = &dev->rx[i];
		/* one turn took half of the pool: bursts are larger than it */
		if (p->total && p->total < p->max && (p->short_of || (uint32_t)all > p->total / 2))
			hdl_rxpool_grow(p, p->total);
	}
	return all;
}

/* ---- asynchronous events ----------------------------------------------------------------------------------- */

static struct hdl_sq *sq_of(struct hdl_tp *tp, const struct ibv_qp *qp)
{
	for (uint32_t i = 0; i < tp->nsqs; i++)
		if (tp->sqs[i] && tp->sqs[i]->qp == qp)
			return tp->sqs[i];
	return NULL;
}

static void event(struct hdl_dev *dev, const struct ibv_async_event *e)
{
	struct hdl_tp *tp = dev->tp;
	struct hdl_sq *sq;

	switch (e->event_type) {
	case IBV_EVENT_SRQ_LIMIT_REACHED:
		for (int i = 0; i < HDL_POOLS; i++) {
			struct hdl_rxpool *p = &dev->rx[i];
			if (p->srq != e->element.srq)
				continue;
			p->limit = 0;
			p->short_of = true;
			hdl_rxpool_flush(p);
			hdl_rxpool_grow(p, p->total);
		}
		break;
	case IBV_EVENT_COMM_EST:
	case IBV_EVENT_QP_LAST_WQE_REACHED:
	case IBV_EVENT_SQ_DRAINED:
	case IBV_EVENT_PATH_MIG:
	case IBV_EVENT_GID_CHANGE:
	case IBV_EVENT_PKEY_CHANGE:
	case IBV_EVENT_LID_CHANGE:
	case IBV_EVENT_SM_CHANGE:
	case IBV_EVENT_CLIENT_REREGISTER:
	case IBV_EVENT_PORT_ACTIVE:
		hdl_debug("%s: %s", dev->name, ibv_event_type_str(e->event_type));
		break;
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_PATH_MIG_ERR: {
		struct hdl_ep *ep = (sq = sq_of(tp, e->element.qp)) ? sq->ep : NULL;
		char text[HDL_PEER_TEXT];
		/* what is finished by now says more than the event does */
		hdl_tp_reap(tp);
		if (sq && sq->kind->repeats && !tp->closing) {
			hdl_sq_broken(sq);
			break;
		}
		/* one that peers share starts again when a request has failed in it; and a receiving one goes with its sender */
		if ((sq && sq->kind->reset) || hdl_xrc_event(dev, e->element.qp))
			break;
		/* the event may be read while the queue is being replaced because of it. (When that is done it is replaced once more: the
		 * event may also tell that the peer has ended, with nothing wrong with the queue.) */
		if (ep && hdl_ep_away(ep))
			break;
		/* a request that this side has refused before it has heard that it may send: to_rts finds the queue in ERR, and replaces it */
		if (e->event_type == IBV_EVENT_QP_ACCESS_ERR && ep && !ep->failed && !ep->conn.up && ep->queues && ep->queues->kind->renew)
			break;
		if (ep && !ep->failed && ep->conn.up && ep->queues && ep->queues->kind->renew && !tp->closing) {
			ep->queues->event = (int)e->event_type;
			hdl_wire_broke(ep, NULL);
			break;
		}
		if (ep && !ep->failed && !tp->closing)
			hdl_error("connection to %s failed: %s port %u, %s queue %u: %s: the peer's process has "
				  "ended, or "
				  "sent what this device refuses; look at the peer's output",
				  hdl_peer_text(ep, text), dev->name, dev->port.port_num,
				  hdl_kind_name(ep->queues ? ep->queues->kind : NULL), e->element.qp->qp_num,
				  ibv_event_type_str(e->event_type));
		else if (!ep && !tp->closing)
			hdl_error("%s port %u: queue %u: %s: messages may be lost", dev->name, dev->port.port_num,
				  e->element.qp->qp_num, ibv_event_type_str(e->event_type));
		if (ep)
			hdl_ep_fail(ep, -ECONNRESET);
		break;
	}
	default:
		if (!tp->closing)
			hdl_error("%s port %u: %s: messages may be lost; see the device's log and `heddle_info "
				  "--devices`",
				  dev->name, dev->port.port_num, ibv_event_type_str(e->event_type));
		if (e->event_type == IBV_EVENT_DEVICE_FATAL)
			for (uint32_t i = 0; i < tp->peers.n; i++)
				if (tp->peers.of[i]->dev == dev)
					hdl_ep_fail(tp->peers.of[i], -EIO);
	}
}

void hdl_tp_async(struct hdl_dev *dev)
{
	struct ibv_async_event e;

	/* the descriptor is non-blocking */
	while (!ibv_get_async_event(dev->port.ctx, &e)) {
		event(dev, &e);
		ibv_ack_async_event(&e);
	}
	hdl_xrc_tidy(dev);
}

int hdl_tp_reap(struct hdl_tp *tp)
{
	int n = 0;

	for (int i = 0; i < tp->ndev; i++)
		for (struct hdl_scq *s = tp->dev[i]->scqs; s; s = s->next)
			n += hdl_sq_reap(tp, s);
	return n;
}

/* ---- turns ------------------------------------------------------------------------------------------------- */

void hdl_tp_timers(struct hdl_tp *tp, uint64_t now)
{
	uint64_t at[] = { hdl_ud_timers(tp, now), hdl_wire_timers(tp, now), hdl_xrc_timers(tp, now), hdl_peers_look(tp, now),
			  tp->exec_timers ? tp->exec_timers(now) : 0 };

	for (int i = 0; i < tp->ndev * HDL_POOLS; i++)
		hdl_rxpool_period(&tp->dev[i / HDL_POOLS]->rx[i % HDL_POOLS], now);
	tp->next_timer_ns = 0;
	for (unsigned i = 0; i < ARRAY_SIZE(at); i++)
		if (at[i] && (!tp->next_timer_ns || at[i] < tp->next_timer_ns))
			tp->next_timer_ns = at[i];
	if (now - tp->looked_ns > LOOK_NS) {
		tp->looked_ns = now;
		hdl_rings_look(tp);
	}
	hdl_regcache_tidy(tp);
}

static int run_busy(struct hdl_tp *tp)
{
	struct hdl_ep *ep = tp->busy, *next;
	int n = 0;

	tp->busy = NULL;
	for (; ep; ep = next) {
		next = ep->busy_next;
		ep->busy = false;
		if (hdl_ep_drain(ep, &n))
			hdl_ep_busy(ep);
	}
	return n;
}

static int poll_rings(struct hdl_tp *tp)
{
	int n = 0;

	for (int i = tp->nrings; i-- > 0;) {
		struct hdl_ep *ep = tp->rings[i];
		int some = hdl_ring_poll(ep, RING_BURST);
		n += some;
		if (unlikely(some && ep->failed))
			hdl_wire_announce(ep);
		if (unlikely(ep->rx_state == HDL_RX_REVOKING))
			hdl_ring_check_final(ep);
	}
	return n;
}

void hdl_tp_take_in(struct hdl_tp *tp)
{
	if (tp->inside)
		return;
	tp->inside = true;
	poll_rings(tp);
	for (int i = 0; i < tp->ndev; i++)
		hdl_tp_poll_rcq(tp->dev[i]);
	tp->inside = false;
}

/* Returns how many completions there were. */
static __attribute__((noinline)) int go_by_clock(struct hdl_tp *tp)
{
	uint64_t now = monotonic_ns();

	tp->timers_at = tp->at;
	hdl_tp_timers(tp, now);
	if (now - tp->async_ns >= ASYNC_NS) {
		tp->async_ns = now;
		for (int i = 0; i < tp->ndev; i++)
			hdl_tp_async(tp->dev[i]);
	}
	return hdl_tp_reap(tp);		/* requests that were not signaled may have failed */
}

/*
 * The end of a turn. Time decides, however seldom a program polls: one that calls MPI_Test every 10 ms has its timers looked at, and
 * its acknowledgements sent, in each turn that finds nothing. Idle since: the last turn that found nothing before something came, which
 * is a moment ago where the program polls without pause, and long ago where it does not.
 */
static inline int look_at_time(struct hdl_tp *tp, int n)
{
	if (n) {
		tp->idle_since = tp->at;
		if (likely(++tp->busy_turns % BUSY_TURNS))
			return n;
	}
	tp->at = ticks();
	if (tp->acks && !n && tp->at - tp->idle_since >= ticks_of_us(ACK_US))
		hdl_ud_acks(tp);
	if (unlikely(tp->at - tp->timers_at >= ticks_of_us(TIMER_US)))
		n += go_by_clock(tp);
	return n;
}

static int progress_turn(struct hdl_tp *tp)
{
	int n = poll_rings(tp);

	for (int i = 0; i < tp->ndev; i++) {
		struct hdl_dev *dev = tp->dev[i];
		n += hdl_tp_poll_rcq(dev);
		for (struct hdl_scq *s = dev->scqs; s; s = s->next)
			if (s->pending)
				n += hdl_sq_reap(tp, s);
	}
	if (tp->busy)
		n += run_busy(tp);
	if (tp->ndone) {
		n += (int)tp->ndone;
		hdl_done_run(tp);
	}
	for (int i = 0; i < tp->nextra; i++)
		n += tp->extra[i].fn(tp->extra[i].arg);
	return look_at_time(tp, n);
}

int hdl_tp_progress(struct hdl_tp *tp)
{
	if (tp->inside)
		return 0;
	tp->inside = true;
	int n = progress_turn(tp);
	tp->inside = false;
	return n;
}

int hdl_tp_progress_peer(struct hdl_ep *ep)
{
	struct hdl_tp *tp = ep->tp;
	int n = 0;

	if (tp->inside)
		return 0;
	tp->inside = true;
	if (ep->rx_state >= HDL_RX_ACTIVE) {
		/* one message may be all that is waited for; in a stream there will be more */
		int max = ep->streak < STREAM ? 1 : STREAM_BURST;
		for (int i = 0; i < PEEKS && !n; i++)
			n = hdl_ring_poll(ep, max);
	} else {
		for (int i = 0; i < PEEKS && !n; i++)
			n = hdl_tp_poll_rcq(ep->dev);
	}
	if (n) {
		if (unlikely(tp->ndone))
			hdl_done_run(tp);
		/* a caller that finds each message at once must run whole turns, too */
		if (unlikely(++tp->busy_turns % BUSY_TURNS == 0) && ticks() - tp->timers_at >= ticks_of_us(TIMER_US))
			n += progress_turn(tp);
	} else {
		n = progress_turn(tp);
	}
	tp->inside = false;
	return n;
}

int hdl_tp_progress_add(struct hdl_tp *tp, hdl_progress_fn fn, void *arg)
{
	void *p = realloc(tp->extra, (size_t)(tp->nextra + 1) * sizeof(*tp->extra));

	if (!p)
		return hdl_no_memory("the list of progress functions", (size_t)(tp->nextra + 1) * sizeof(*tp->extra));
	tp->extra = p;
	tp->extra[tp->nextra].fn = fn;
	tp->extra[tp->nextra++].arg = arg;
	return 0;
}

void hdl_tp_progress_remove(struct hdl_tp *tp, hdl_progress_fn fn, void *arg)
{
	for (int i = 0; i < tp->nextra; i++)
		if (tp->extra[i].fn == fn && tp->extra[i].arg == arg) {
			memmove(&tp->extra[i], &tp->extra[i + 1],
				(size_t)(--tp->nextra - i) * sizeof(*tp->extra));
			return;
		}
}

static const struct hdl_dev *local_dev(struct hdl_tp *tp)
{
	for (int i = 0; i < tp->ndev; i++)
		if (tp->dev[i]->role != HDL_ROLE_REMOTE)
			return tp->dev[i];
	return NULL;
}

const struct hdl_port *hdl_tp_local_port(struct hdl_tp *tp)
{
	const struct hdl_dev *dev = local_dev(tp);

	return dev ? &dev->port : NULL;
}

bool hdl_tp_can_expose(struct hdl_tp *tp)
{
	const struct hdl_dev *dev = local_dev(tp);

	return dev && dev->promises.can_expose;
}

int hdl_tp_promises(struct hdl_tp *tp, int proc)
{
	const struct hdl_ep *ep = hdl_ep(tp, proc);

	return ep ? (int)(ep->dev->addr.promises & ep->addr.promises) : -errno;
}

bool hdl_tp_exposes(struct hdl_tp *tp, uint32_t *lkey, uint32_t *rkey)
{
	const struct hdl_dev *dev = local_dev(tp);

	if (!dev || !dev->promises.pages_read || !dev->promises.pages_written)
		return false;
	if (lkey)
		*lkey = dev->vouched_lkey;
	if (rkey)
		*rkey = dev->all->rkey;
	return true;
}

struct ibv_comp_channel *hdl_tp_local_channel(struct hdl_tp *tp)
{
	const struct hdl_dev *dev = local_dev(tp);

	return dev ? dev->chan : NULL;
}

void hdl_tp_on_sleep(struct hdl_tp *tp, void (*arm)(void))
{
	tp->arm = arm;
}

void hdl_tp_on_timers(struct hdl_tp *tp, uint64_t (*timers)(uint64_t now))
{
	tp->exec_timers = timers;
}

void hdl_tp_on_shortage(struct hdl_tp *tp, bool (*give)(void))
{
	tp->give = give;
}

/* ---- start and end ----------------------------------------------------------------------------------------- */

static int add_device(struct hdl_tp *tp, const char *name, enum hdl_role role)
{
	struct hdl_dev *dev = calloc(1, sizeof(*dev));

	if (!dev)
		return hdl_no_memory("a device", sizeof(*dev));
	dev->tp = tp;
	tp->dev[tp->ndev++] = dev;	/* a half-opened one is closed by fini */
	return hdl_dev_open(dev, name, role, tp->allowed);
}

static int open_devices(struct hdl_tp *tp)
{
	struct hdl_device_names names;
	int err = hdl_device_names(hdl_vars.device, &names);

	if (err)
		return err;
	if (names.n == 1)
		return add_device(tp, names.name[0], HDL_ROLE_ANY);
	err = add_device(tp, names.n ? names.name[0] : NULL, HDL_ROLE_LOCAL);
	if (!err && (names.n || hdl_job.local))
		err = add_device(tp, names.n ? names.name[1] : NULL, HDL_ROLE_REMOTE);
	return err;
}

static void destroy_all(struct hdl_tp *tp)
{
	tp->closing = true;
	hdl_fd_waker_close(&tp->rouser);
	for (uint32_t i = 0; i < tp->peers.n; i++) {
		struct hdl_ep *ep = tp->peers.of[i];
		hdl_ring_drop(ep);
		hdl_wire_close(ep);
	}
	for (int i = 0; i < tp->ndev; i++)
		hdl_dev_stop(tp->dev[i]);
	for (uint32_t i = 0; i < tp->peers.n; i++) {
		struct hdl_ep *ep = tp->peers.of[i];
		hdl_ep_drop_ctl(ep);
		hdl_ud_drop_peer(ep);
		hdl_order_clear(&ep->order);
		free(ep->dirty);
		free(ep->pooled);
		free(ep->host);
		free(ep);
	}
	hdl_peers_clear(&tp->peers);
	hdl_addresses_fini(tp);
	hdl_regcache_close(tp);
	hdl_rma_close(tp);
	hdl_mem_close(tp);
	for (int i = 0; i < tp->ndev; i++) {
		hdl_dev_close(tp->dev[i]);
		free(tp->dev[i]);
	}
	free(tp->rings);
	free(tp->done);
	free(tp->sqs);
	free(tp->extra);
	free(tp->sends.e);
	free(tp->fetches.e);
	free(tp->handlers);
	free(tp->rmas.e);
	free(tp->mrs.e);
	if (tp->wake_fd >= 0)
		close(tp->wake_fd);
	hdl_regcache_free(tp);
	free(tp);
}

/* Values with which the transport would not come to an end, or would count in too few bits. */
static int check_vars(void)
{
	if (hdl_vars.eager_max > (size_t)1 << 30)
		hdl_error("HEDDLE_EAGER_MAX=%zu: at most 1g, for every pooled receive is of this size", hdl_vars.eager_max);
	else if (hdl_srq_room() < HDL_SRQ_LEAST)
		hdl_error("HEDDLE_EAGER_MAX=%zu: each process keeps at least %d receives of this size posted, and those of this host's %d "
			  "processes may take a quarter of its memory: at most %zu here",
			  hdl_vars.eager_max, HDL_SRQ_LEAST, hdl_job.local_size, hdl_srq_memory() / HDL_SRQ_LEAST - HDL_WIRE_MOST);
	else if (!hdl_vars.rndv_chunk)
		hdl_error("HEDDLE_RNDV_CHUNK=0: an RDMA write of a rendezvous carries at least 1 byte");
	else if (hdl_vars.sq_depth > 1 << 20)
		hdl_error("HEDDLE_SQ_DEPTH=%d: at most %d requests", hdl_vars.sq_depth, 1 << 20);
	else
		return 0;
	return -EINVAL;
}

/* Values that are possible, but not what is used. */
static void tell_adjusted(struct hdl_tp *tp)
{
	uint32_t depth = hdl_sq_depth((uint32_t)hdl_vars.sq_depth), lines = hdl_ring_share();
	size_t largest = hdl_ring_max(lines) < tp->ring_most ? hdl_ring_max(lines) : tp->ring_most;

	if (depth != (uint32_t)hdl_vars.sq_depth)
		hdl_vars_adjusted("HEDDLE_SQ_DEPTH", depth, "a send queue has a power of two of requests, at least 16");
	if (hdl_vars.srq_depth < HDL_SRQ_LEAST)
		hdl_vars_adjusted("HEDDLE_SRQ_DEPTH", HDL_SRQ_LEAST, "fewer receives could not take in what is under way (UD: 64)");
	else if ((uint64_t)hdl_vars.srq_depth > hdl_srq_room())
		hdl_vars_adjusted("HEDDLE_SRQ_DEPTH", hdl_srq_room(),
				  "the pools of this host's processes, of receives of HEDDLE_EAGER_MAX, take a quarter of its memory at most");
	if (hdl_vars.dci_count < 1)
		hdl_vars_adjusted("HEDDLE_DCI_COUNT", 1, "DC needs an initiator; HEDDLE_TRANSPORT forbids a kind");
	if (hdl_vars.ring_size && lines < HDL_RING_LINES_MIN)
		hdl_vars_adjusted("HEDDLE_RING_SIZE", 0, "a ring has at least 512 bytes, so there are none");
	else if ((size_t)lines * HDL_LINE < hdl_vars.ring_size / HDL_LINE * HDL_LINE)
		hdl_vars_adjusted("HEDDLE_RING_SIZE", (uint64_t)lines * HDL_LINE,
				  "so much of HEDDLE_RING_MEMORY there is for each of the peers (HEDDLE_RING_PEERS)");
	if (hdl_vars.ring_size && lines >= HDL_RING_LINES_MIN && largest < hdl_vars.ring_max)
		hdl_vars_adjusted("HEDDLE_RING_MAX", largest,
				  "at most 24 times HEDDLE_EAGER_MAX, and three eighths of a ring (HEDDLE_RING_SIZE)");
}

/* A frame's length has 32 bits in its header. */
static uint32_t frame_max(size_t by_eager)
{
	size_t most = hdl_vars.ring_max < by_eager ? hdl_vars.ring_max : by_eager;

	return most < UINT32_MAX ? (uint32_t)most : UINT32_MAX;
}

static void name_self(struct hdl_tp *tp)
{
	struct hdl_name *self = &tp->self;

	self->rank = (uint32_t)hdl_job.rank;
	self->job = hdl_job_id(hdl_job.nspace);
	if (getrandom(&self->incarnation, sizeof(self->incarnation), 0) != sizeof(self->incarnation))
		self->incarnation = monotonic_ns() ^ (uint64_t)getpid() << 40;
}

static int open_all(struct hdl_tp *tp)
{
	char bad[32];
	unsigned reserved;
	int err;

	if (hdl_queue_parse(hdl_vars.transport, &tp->allowed, bad, sizeof(bad))) {
		static const char *const known[] = { "rc", "ud", "xrc", "dc", NULL };
		const char *near = hdl_nearest(bad, known);
		hdl_error("HEDDLE_TRANSPORT=%s: there is no queue kind \"%s\"%s%s%s; the kinds are rc, ud, xrc, dc",
			  hdl_vars.transport, bad, near ? " (did you mean \"" : "", near ? near : "",
			  near ? "\"?)" : "");
		return -EINVAL;
	}
	tp->ways = hdl_ways_parse(hdl_vars.rendezvous);
	if ((err = check_vars()))
		return err;
	name_self(tp);
	if ((err = hdl_wire_find_alike(tp)))
		return err;
	tp->rng = tp->self.incarnation;
	/* one who lowers the eager limit wants fewer bytes to come unasked, by whatever way */
	tp->ring_max = frame_max(2 * hdl_vars.eager_max);
	tp->ring_most = frame_max(24 * hdl_vars.eager_max);
	tell_adjusted(tp);
	tp->wake_fd = fd_raise(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	if (tp->wake_fd < 0) {
		err = errno;
		hdl_error("no descriptor can be had to wake this process with (%s): raise the limit (ulimit -n)",
			  strerror(err));
		return -err;
	}
	reserved = fd_reserve();
	err = open_devices(tp);
	fd_release(reserved);
	if (!err)
		err = hdl_idle_open(tp);
	if (!err)
		err = hdl_regcache_open(tp);
	if (!err)
		err = hdl_rma_open(tp);
	if (!err && !tp->up.unpublished)
		err = hdl_wire_publish(tp);
	return err;
}

int hdl_tp_init(const struct hdl_upcalls *up, struct hdl_tp **instance)
{
	struct hdl_tp *tp;
	int err;

	if (posix_memalign((void **)&tp, 64, sizeof(*tp)))
		return hdl_no_memory("the transport", sizeof(*tp));
	memset(tp, 0, sizeof(*tp));
	tp->wake_fd = -1;
	tp->up = *up;
	err = open_all(tp);
	if (err)
		destroy_all(tp);
	else
		*instance = tp;
	return err;
}

/* Nothing is owed to a peer that has failed, or has left. */
static bool is_gone(const struct hdl_ep *ep)
{
	return ep->failed || ep->left;
}

static bool some_busy(struct hdl_tp *tp)
{
	const struct hdl_ep *ep = tp->busy;

	while (ep && is_gone(ep))
		ep = ep->busy_next;
	return ep;
}

static bool progress_quiet(struct hdl_tp *tp)
{
	bool q = !some_busy(tp) && !tp->sends.used && !tp->fetches.used && !tp->rma_open && !tp->ndone;

	for (struct hdl_ep *ep = tp->timers; ep; ep = ep->timer_next)
		if (ep->rel && !hdl_rel_idle(ep->rel) && !is_gone(ep))
			q = false;
	for (uint32_t i = 0; i < tp->peers.n; i++) {
		struct hdl_ep *ep = tp->peers.of[i];
		if (!is_gone(ep) && hdl_ep_away(ep))
			q = false;
		if (!ep->sq || is_gone(ep) || ep->sq->dead)
			continue;
		if (ep->sq->head != ep->sq->tail) {
			hdl_sq_flush(ep->sq, ep);
			q = false;
		}
	}
	return q;
}

/* Until nothing is under way that this process has begun. */
static void progress_settle(struct hdl_tp *tp)
{
	unsigned idle = 0;

	while (!progress_quiet(tp)) {
		hdl_ud_acks(tp);
		if (hdl_tp_progress(tp))
			idle = 0;
		else
			hdl_tp_idle(tp, &idle);
	}
}

/* Processes of other jobs are not in the fence: they go on, and learn that this one's end is none to be told. */
static bool tell_others(struct hdl_tp *tp)
{
	bool some = false;

	for (uint32_t i = 0; i < tp->peers.n; i++) {
		struct hdl_ep *ep = tp->peers.of[i];

		/* a connection that is made for this would find the peer gone, which never hears of this process and never tells it
		 * that it leaves */
		if (hdl_proc_is_ours(ep->rank) || ep->failed || hdl_ep_is_unused(ep))
			continue;
		hdl_ep_ctl(ep, HDL_CTL_LEAVE, NULL, 0, false);	/* all that it could be ordered behind has been acknowledged */
		some = true;
	}
	return some;
}

int hdl_tp_fini(struct hdl_tp **instance)
{
	struct hdl_tp *tp = *instance;
	uint64_t pause_us = 50;
	int fenced;

	if (!tp)
		return 0;
	progress_settle(tp);
	if (tell_others(tp))
		progress_settle(tp);
	/* Peers may still need our acknowledgements (a lost one is asked for again): answer until all have come here.
	 */
	hdl_ud_acks(tp);
	tp->leaving = true;
	fenced = hdl_rt_fence_begin();
	while (!fenced) {
		/* Many ranks may wait here for one that computes: look ever more seldom while nothing comes. */
		if (hdl_tp_progress(tp))
			pause_us = 50;
		else if (pause_us < 2000)
			pause_us *= 2;
		fenced = hdl_rt_fence_wait(pause_us);
	}
	if (hdl_vars.report_transports)
		hdl_report_transports(tp, stderr);
	*instance = NULL;	/* a handler of a signal may look at it at any time */
	destroy_all(tp);
	return 0;
}
