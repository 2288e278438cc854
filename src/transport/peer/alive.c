/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Detection of peers that have died.
 *
 *     peer                                   how the peer's death is detected
 *     of any host, named by the launcher     hdl_rt_has_ended: the endpoint fails at once
 *     with an RC queue of its own            the queue: requests in flight fail, or an asynchronous event (promises.tells_end)
 *     of this host, otherwise                the process is looked at: when packets are not acknowledged, and every LOOK_NS
 *     of another host, silent                a probe every HEDDLE_KEEPALIVE, by the connected lane, made for that if need be:
 *                                            the device answers without the process, and the queue's timeout decides
 *     of another host, UD only               HDL_CTL_PROBE, which the process must acknowledge within HEDDLE_UD_TIMEOUT
 *
 * Neither UD nor a rank that only receives has a request that could fail: a dead peer does not acknowledge packets, and neither
 * does a live peer that computes or is stopped, and will go on.
 *
 * A process of this job ends while others need it only if it fails: MPI_Finalize waits for all ranks. A process of another job
 * may end in order at any time: after its part of the last operation, MPI_Comm_disconnect and MPI_Finalize, it sends
 * HDL_CTL_LEAVE and ends. Its end alone says nothing:
 *     1. Rank 0 polls, and finds nothing; its thread loses the CPU.
 *     2. The process sends the message for which rank 0 waits, then HDL_CTL_LEAVE, and ends.
 *     3. Rank 0 looks at the process, which has ended: the message and HDL_CTL_LEAVE are in rank 0's memory, unread.
 * So the end counts from the second run of the timers behind the first look on: between the two lies a whole turn of progress,
 * which began when all that the process has sent was here. If that turn left anything, another one must follow (hdl_peer_state,
 * ep.c).
 *
 * HDL_CTL_LEAVE goes to peers with which there were messages. Where there were none, and there still is a common communicator,
 * the end is reported by the launcher, or by a member that had messages with the process.
 */
#include "transport/core/tp.h"

#define SILENT_NS 50000000ull	/* a silence of less than this is usual */
#define LOOK_NS 500000000ull
#define SOON_NS 1000000ull	/* between two looks at a process that the first one has found ended */
#define LOOKS 8			/* processes that are looked at in one call, so that a rank with many peers does little else */

static void peer_ended(struct hdl_ep *ep)
{
	bool seen = hdl_proc_state(&ep->proc) == HDL_PROC_ENDED;	/* else reported: the pid is one of another host or PID
									 * namespace */
	char text[HDL_PEER_TEXT];

	if (hdl_ep_replaced(ep)) {
		hdl_wire_report(ep, "the peer's process has ended; look at its output");
		hdl_ep_fail(ep, -ECONNRESET);
		return;
	}
	/* a process of another job that never had a message of this one, or has no communicator with it any more,
	 * may have ended in order */
	if (!hdl_proc_is_ours(ep->rank) && (hdl_ep_is_unused(ep) || hdl_job_of(ep->rank)->left))
		;
	else if (!hdl_ep_may_end(ep) && seen)
		hdl_error("connection to %s failed: its process (pid %u) has ended: look at its output for why",
			  hdl_proc_text(ep->rank), ep->proc.pid);
	else if (!hdl_ep_may_end(ep) && !seen)
		hdl_error("connection to %s failed: its process has ended, says the launcher or a rank of its host: look at its "
			  "output for why", hdl_peer_text(ep, text));
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
	if (!hdl_tp_gives_up(ep->tp, silence_ns))
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

	if (ep && ep != tp->departed)
		return hdl_peer_state(ep);
	return ep || hdl_rt_has_ended(proc) ? HDL_PROC_ENDED : HDL_PROC_UNKNOWN;
}

/* Returns true if a queue would report the peer's end. */
static bool is_watched(const struct hdl_ep *ep)
{
	return ep->conn.state == HDL_CONN_READY && ep->sq && ep->sq->kind->reports_end && ep->dev->promises.tells_end;
}

static bool is_to_be_looked_at(const struct hdl_ep *ep)
{
	/* no queue reports the end of a peer that has departed in order */
	return !ep->failed && ep->rank != hdl_job.rank && (ep->departed || !is_watched(ep));
}

/* Probes a peer whose process cannot be checked from here, if the peer has sent nothing for HEDDLE_KEEPALIVE. Returns true if a
 * probe was sent. A connected lane is preferred: the peer's device answers there, also while the process computes for hours. */
static bool probe_peer(struct hdl_ep *ep, uint64_t now)
{
	uint64_t heard = ep->in_ring.msgs + ep->in_srq.msgs + ep->in_ud.msgs + ep->in_rndv.msgs;

	if (heard != ep->msgs_seen || !ep->msgs_seen_ns) {
		ep->msgs_seen = heard;
		ep->msgs_seen_ns = now;
	}
	if (!hdl_vars.keepalive || (now - ep->msgs_seen_ns) / 1000 < hdl_vars.keepalive)
		return false;
	ep->msgs_seen_ns = now;	/* the next probe follows after as long a silence; until then the queue's timeout decides */
	if (ep->conn.state == HDL_CONN_READY && ep->sq)
		hdl_sq_probe(ep->sq, ep);
	else if (hdl_ep_can_rdma(ep))
		hdl_ep_connect(ep);
	else if (!ep->rel || ep->rel->una == ep->rel->next)
		hdl_ep_ctl(ep, HDL_CTL_PROBE, NULL, 0, false);
	return true;
}

/* Fails the endpoints of peers that hdl_rt_has_ended names, whether or not a queue reports them. */
static void end_reported_peers(struct hdl_tp *tp, unsigned ended)
{
	tp->ended_seen = ended;
	for (uint32_t i = 0; i < tp->peers.n; i++) {
		struct hdl_ep *ep = tp->peers.of[i];

		if (ep && !ep->failed && ep->rank != hdl_job.rank && hdl_rt_has_ended(ep->rank) &&
		    hdl_peer_state(ep) == HDL_PROC_ENDED)
			peer_ended(ep);
	}
}

/* Ends the connections with processes of other jobs that have ended after MPI_Finalize, and with which there was no communicator
 * any more. A program that spawns in a loop meets more of them than LOOKS, and each keeps queues and logs until then. */
static void end_departed(struct hdl_tp *tp)
{
	for (uint32_t i = 0; i < tp->peers.n; i++) {
		struct hdl_ep *ep = tp->peers.of[i];

		if (ep && ep->departed && !ep->failed && !hdl_proc_is_ours(ep->rank) && hdl_job_of(ep->rank)->left &&
		    hdl_peer_state(ep) == HDL_PROC_ENDED)
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
		end_reported_peers(tp, ended);
	if (now < tp->alive_ns)
		return tp->alive_ns;
	tp->alive_ns = now + LOOK_NS;
	tp->look_soon = false;
	end_departed(tp);
	hdl_peers_reap(tp);
	for (uint32_t i = 0; i < n && looks < LOOKS; i++) {
		struct hdl_ep *ep = tp->peers.of[tp->alive_next];

		tp->alive_next = (tp->alive_next + 1) % n;
		if (!ep || !is_to_be_looked_at(ep))
			continue;
		some = true;
		enum hdl_proc_state state = hdl_peer_state(ep);
		if (state == HDL_PROC_ENDED)
			peer_ended(ep);
		/* looking at a process takes system calls; counting a silent peer's messages takes none */
		looks += state == HDL_PROC_UNKNOWN ? probe_peer(ep, now) : 1;
	}
	if (tp->look_soon)
		tp->alive_ns = now + SOON_NS;
	return some ? tp->alive_ns : 0;
}
