/* SPDX-License-Identifier: BSD-3-Clause */
/* Endpoints: made, found, named; the kinds that a peer can have; failure. */
#include <stdlib.h>
#include <string.h>

#include "transport/core/tp.h"

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
	ep->id_there = ep->src = HDL_NAMED;
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
	hdl_wire_forget(tp, proc, 1);
	if (!hdl_proc_is_ours(proc))
		hdl_rxpools_more(ep->dev);
	return ep;
none:
	free(ep->host);
	free(ep);
	errno = -err;
	return NULL;
}

/* The endpoint of a process that does not know its id here. Returns NULL if the process's address is not known yet: the process
 * repeats the message. */
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
	ep->id_there = n.yours;
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
	struct hdl_srq_credit *p = ep->srq_credit;
	uint32_t others, base;

	if (likely(p != NULL))
		return p;
	others = hdl_ep_others(ep);
	p = calloc(1, sizeof(*p));
	if (!p) {
		hdl_ep_fail(ep, hdl_no_memory("the credits of a peer", sizeof(*p)));
		return NULL;
	}
	/* the peer's pool is as large as this process's */
	hdl_rel_shares(pool->first, others, others, &base);
	p->base = p->window = p->granted = (uint16_t)base;
	return ep->srq_credit = p;
}

struct hdl_ep *hdl_ep_find(struct hdl_tp *tp, int proc)
{
	return hdl_peers_find(&tp->peers, proc);
}

struct hdl_ep *hdl_ep_next(struct hdl_tp *tp, const struct hdl_ep *ep)
{
	uint32_t id = ep ? ep->id + 1 : 0;

	while (id < tp->peers.n && (!tp->peers.of[id] || tp->peers.of[id] == tp->departed))
		id++;
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

void hdl_ep_refresh(struct hdl_ep *ep)
{
	ep->fast = ep->ring && ep->sq && !ep->pend && !ep->wake_mode && !ep->eager_off && !ep->failed && !ep->reorder_guard_ud &&
		   !ep->reorder_guard_sq && ep->sq->max_inline >= HDL_LINE && ep->ring_max >= HDL_RING_SMALL;
	if (!ep->fast)
		return;
	ep->now_max = ep->sq->max_inline - sizeof(struct hdl_hdr);
	if (ep->now_max > ep->ring_max)
		ep->now_max = ep->ring_max;
	if (ep->now_max > hdl_vars.eager_max)	/* whether longer ones are awaited is asked first: choose_protocol */
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

/* The connection's event LOST, without actions: hdl_ep_end stops the queues and sends REJ, and a failed endpoint does not go on
 * by UD. */
static void conn_failed(struct hdl_ep *ep)
{
	const struct hdl_conn_self self = { .can = ep->can, .lower = hdl_name_before(&ep->tp->self, &ep->name) };
	unsigned waited = hdl_conn_waits(&ep->conn);
	struct hdl_conn_todo todo;

	hdl_conn_step(&ep->conn, &self, &(struct hdl_conn_event){ .what = HDL_CONN_LOST }, &todo);
	ep->tp->connecting += hdl_conn_waits(&ep->conn) - waited;
}

void hdl_ep_fail(struct hdl_ep *ep, int err)
{
	struct hdl_tp *tp = ep->tp;

	if (ep->failed || tp->closing)
		return;
	ep->failed = true;
	ep->departed |= hdl_ep_may_end(ep);
	ep->fail_err = err;
	ep->fast = ep->ring = false;
	conn_failed(ep);
	hdl_done_push(tp, tp->hooks->ep_end, ep, err);
}



const char *hdl_peer_text(const struct hdl_ep *ep, char text[HDL_PEER_TEXT])
{
	snprintf(text, HDL_PEER_TEXT, ep->host ? "%s on %s" : "%s", hdl_proc_text(ep->rank), ep->host);
	return text;
}

/* Returns true if all that the peer's process, which has ended, has sent to this one has been taken in. */
static bool is_taken_in(struct hdl_ep *ep)
{
	struct hdl_tp *tp = ep->tp;
	uint32_t now = tp->clock_turns + 1;

	if (!ep->ended_at)
		ep->ended_at = now;
	if (now - ep->ended_at >= 2 && (!tp->cut_short_at || now - tp->cut_short_at >= 2) &&
	    !(ep->rx_state >= HDL_RX_ACTIVE && hdl_ring_peek(&ep->rx)))
		return true;
	tp->look_soon = true;
	return false;
}

enum hdl_proc_state hdl_peer_state(struct hdl_ep *ep)
{
	enum hdl_proc_state state = hdl_proc_state(&ep->proc);

	/* the state seen on this host counts for more */
	if (state == HDL_PROC_UNKNOWN && hdl_rt_has_ended(ep->rank))
		state = HDL_PROC_ENDED;
	bool ours = hdl_proc_is_ours(ep->rank);

	/* the launcher, and members, report failures only */
	if (state != HDL_PROC_ENDED || (ours && !ep->tp->stays) || ep->failed || hdl_rt_has_ended(ep->rank))
		return state;
	if (hdl_ep_is_unused(ep) && (ours || !hdl_job_of(ep->rank)->left))
		return HDL_PROC_LIVES;
	return is_taken_in(ep) ? HDL_PROC_ENDED : HDL_PROC_LIVES;
}

bool hdl_ep_has_departed(struct hdl_tp *tp, int proc)
{
	const struct hdl_ep *ep = hdl_peers_find(&tp->peers, proc);

	return ep && ep->departed;
}
