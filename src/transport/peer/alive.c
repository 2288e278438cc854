/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Peers that have died. A queue of one's own reports it (RC: by errors of what was sent, and an event). UD reports
 * nothing: packets are just not acknowledged, neither by a dead peer nor by one that computes, or is stopped, and will
 * go on. And one that only receives, by UD, DC or XRC, has nothing that could fail.
 *
 * So a peer of this host is asked for by its process: as soon as packets to it are not answered, and now and then
 * anyhow where no queue would report its end. A peer on another host that has been silent for HEDDLE_KEEPALIVE is sent a probe, for
 * who only waits for it has nothing in flight that could fail: by its connected lane, which is made for that if need be. The other
 * end's device answers without its process, so the queue's own timeout decides. Where there can be nothing but UD, a packet asks, which
 * the peer's process must acknowledge, and HEDDLE_UD_TIMEOUT decides as for other packets. All this is needed only where nobody says
 * who has ended (hdl_rt_has_ended): the endpoint of one that the launcher, or a process of its host, names fails at once.
 */
#include "transport/core/tp.h"

#define SILENT_NS 50000000ull	/* not answered for less than this is nothing unusual */
#define LOOK_NS 500000000ull
#define LOOKS 8			/* processes that are asked for at a time, so that a rank with many peers does little else */

enum hdl_proc_state hdl_peer_state(const struct hdl_ep *ep)
{
	enum hdl_proc_state state = hdl_proc_state(&ep->proc);

	/* what is seen here counts for more */
	return state == HDL_PROC_UNKNOWN && hdl_rt_has_ended(ep->rank) ? HDL_PROC_ENDED : state;
}

static void peer_ended(struct hdl_ep *ep)
{
	bool seen = hdl_proc_state(&ep->proc) == HDL_PROC_ENDED;	/* else told; its pid is one of another host or PID namespace */
	char text[HDL_PEER_TEXT];

	if (hdl_ep_away(ep)) {
		hdl_wire_report(ep, "the peer's process has ended; look at its output");
		hdl_ep_fail(ep, -ECONNRESET);
		return;
	}
	/* one of another job that has never heard of this process may have left in order */
	if (!ep->left && seen && (hdl_proc_is_ours(ep->rank) || !hdl_ep_is_unused(ep)))
		hdl_error("connection to %s failed: its process (pid %u) has ended: look at its output for why",
			  hdl_proc_text(ep->rank), ep->proc.pid);
	else if (!ep->left && !seen)
		hdl_error("connection to %s failed: its process has ended, says the launcher or a rank of its host: look at its output for why",
			  hdl_peer_text(ep, text));
	hdl_ep_fail(ep, -ECONNRESET);
}

bool hdl_peer_is_silent(struct hdl_ep *ep, uint64_t silence_ns)
{
	if (silence_ns < SILENT_NS || ep->tp->leaving)
		return false;
	switch (hdl_peer_state(ep)) {
	case HDL_PROC_LIVES:
		return false;
	case HDL_PROC_ENDED:
		peer_ended(ep);
		return true;
	case HDL_PROC_UNKNOWN:
		break;
	}
	char text[HDL_PEER_TEXT];
	if (!hdl_vars.ud_timeout || silence_ns / 1000 < hdl_vars.ud_timeout)
		return false;
	hdl_error("connection to %s failed: %s port %u, UD: %u packets are not acknowledged, and there was no sign of "
		  "life for %.1f s: its process or its host has ended, or it computes for longer than that without an MPI "
		  "call; then raise HEDDLE_UD_TIMEOUT (%g s), or set it to 0", hdl_peer_text(ep, text), ep->dev->name,
		  ep->dev->port.port_num, ep->rel->next - ep->rel->una, (double)silence_ns / 1e9,
		  (double)hdl_vars.ud_timeout / 1e6);
	hdl_ep_fail(ep, -ETIMEDOUT);
	return true;
}

enum hdl_proc_state hdl_ep_process(struct hdl_tp *tp, int proc)
{
	struct hdl_ep *ep = hdl_proc_is_ours(proc) && !hdl_is_local(proc) ? NULL : hdl_ep(tp, proc);

	if (ep)
		return hdl_peer_state(ep);
	return hdl_rt_has_ended(proc) ? HDL_PROC_ENDED : HDL_PROC_UNKNOWN;
}

/* Whether a queue would report the peer's end. */
static bool is_watched(const struct hdl_ep *ep)
{
	return ep->conn.state == HDL_CONN_READY && ep->sq && ep->sq->kind->reports_end && ep->dev->promises.tells_end;
}

static bool is_to_be_looked_at(const struct hdl_ep *ep)
{
	/* of who has left in order no queue reports anything */
	return !ep->failed && ep->rank != hdl_job.rank && (ep->left || !is_watched(ep));
}

/* Asks a peer whose process cannot be looked at whether it lives, if nothing has come from it for long. True: it is asked now. By a
 * connected lane wherever there can be one: there its device answers, also while its process computes for hours. */
static bool peer_alive_probe(struct hdl_ep *ep, uint64_t now)
{
	uint64_t heard = ep->in_ring.msgs + ep->in_srq.msgs + ep->in_ud.msgs + ep->in_rndv.msgs;

	if (heard != ep->heard || !ep->heard_ns) {
		ep->heard = heard;
		ep->heard_ns = now;
	}
	if (!hdl_vars.keepalive || (now - ep->heard_ns) / 1000 < hdl_vars.keepalive)
		return false;
	ep->heard_ns = now;	/* the next one after as long a silence again; until then the queue's timeout decides */
	if (ep->conn.state == HDL_CONN_READY && ep->sq)
		hdl_sq_probe(ep->sq, ep);
	else if (hdl_ep_can_rdma(ep))
		hdl_ep_connect(ep);
	else if (!ep->rel || ep->rel->una == ep->rel->next)
		hdl_ep_ctl(ep, HDL_CTL_PROBE, NULL, 0, false);
	return true;
}

/* Some have been named: whether or not a queue reports it. */
static void look_at_ended(struct hdl_tp *tp, unsigned ended)
{
	tp->ended_seen = ended;
	for (uint32_t i = 0; i < tp->peers.n; i++) {
		struct hdl_ep *ep = tp->peers.of[i];

		if (!ep->failed && ep->rank != hdl_job.rank && hdl_rt_has_ended(ep->rank) && hdl_peer_state(ep) == HDL_PROC_ENDED)
			peer_ended(ep);
	}
}

uint64_t hdl_peers_look(struct hdl_tp *tp, uint64_t now)
{
	unsigned ended = hdl_rt_ended();
	uint32_t n = tp->peers.n;
	int looks = 0;
	bool some = false;

	if (tp->leaving)
		return 0;
	if (unlikely(ended != tp->ended_seen))
		look_at_ended(tp, ended);
	if (now < tp->alive_ns)
		return tp->alive_ns;
	tp->alive_ns = now + LOOK_NS;
	for (uint32_t i = 0; i < n && looks < LOOKS; i++) {
		struct hdl_ep *ep = tp->peers.of[tp->alive_next];

		tp->alive_next = (tp->alive_next + 1) % n;
		if (!is_to_be_looked_at(ep))
			continue;
		some = true;
		enum hdl_proc_state state = hdl_peer_state(ep);
		if (state == HDL_PROC_ENDED)
			peer_ended(ep);
		/* a look at a process takes system calls, one at a silent peer almost nothing */
		looks += state == HDL_PROC_UNKNOWN ? peer_alive_probe(ep, now) : 1;
	}
	return some ? tp->alive_ns : 0;
}
