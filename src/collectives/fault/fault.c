/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Failure detection and revocation. A rank that waits directly for a dead rank gets an error from the transport or from its
 * queues; any other rank waits for living ranks, which in turn wait, or have failed and gone on. Therefore a rank with a
 * collective in flight regularly checks the processes of all members on its host, and the transport's state of members on other
 * hosts; a rank that detects a death sends a failure notice to the other members. The detection and the notice both revoke the
 * communicator on this rank: operations in flight end with MPI_ERR_PROC_ABORTED, and so does every later one. Messages between
 * living ranks, and other communicators, go on.
 *
 *     timer, failed message, failed queue, member's notice ──▶ hdl_ft_member_failed: recorded ──▶ hdl_ft_progress: revoked
 *
 * Recording must neither complete nor post anything: the caller may be inside the transport.
 *
 * A failed request means only that a queue is gone. The peer may live, and have detected the death first and freed the
 * communicator. No member is named whose process lives. While no member's process has ended, the queues of mailbox or tasks are
 * under suspicion: nothing is posted until a member's end is detected, or SUSPECT_NS have passed.
 */
#include <errno.h>
#include <string.h>

#include "collectives/queues/queues.h"

#define LOOK_NS 500000000ull
#define SUSPECT_NS 1000000000ull
#define SUSPECT_LOOK_NS 20000000ull

static uint64_t frequent_until_ns;	/* CLOCK_MONOTONIC ns; until then all communicators are checked often: the lost rank may
					 * be a member of other communicators */
static bool revoke_pending;		/* some communicator is lost, and its operations in flight have not ended */
static bool ranks_leave;		/* hdl_ft_ranks_leave was called */
static int orphaning_proc = -1;	/* failed process for which constructors without a communicator must end, or -1 */

/* ---- members: of an intercommunicator both groups, numbered like nodes' peers ------------------------------------- */

static int member_count(const struct hdl_comm *comm)
{
	return comm->local ? comm->size + comm->local->size : comm->size;
}

static int ft_proc_of(struct hdl_comm *comm, int member)
{
	struct hdl_comm *of = hdl_peer_comm(comm, &member);

	return hdl_comm_proc(of, member);
}

/* Returns true if the member's process has ended or cannot be reached. For a process on another host the transport is the only
 * source: a message (of any communicator) or a probe without answer; the transport also records that a process of another job has
 * ended in order. A member that has departed has done its part of the communicator's operations. */
static bool member_has_ended(struct hdl_cc *cc, int member)
{
	int proc = ft_proc_of(cc->comm, member);

	if (hdl_ep_has_departed(hdl_mpi_tp, proc))
		return false;
	for (int i = 0; i < HDL_QUEUE_KINDS && hdl_proc_is_ours(proc); i++)
		if (cc->queues[i] && cc->queues[i]->state == HDL_QUEUES_READY && cc->queues[i]->peers[member].proc.start)
			return hdl_proc_state(&cc->queues[i]->peers[member].proc) == HDL_PROC_ENDED;
	return hdl_proc_is_gone(proc);
}

/* Returns the first member from `first` on (cyclically) whose process has ended or is unreachable, or -1. */
static int find_ended(struct hdl_cc *cc, int first)
{
	int n = member_count(cc->comm);

	for (int i = 0; i < n; i++) {
		int member = (first + i) % n;

		if (ft_proc_of(cc->comm, member) != hdl_job.rank && member_has_ended(cc, member))
			return member;
	}
	return -1;
}

/* ---- recording ----------------------------------------------------------------------------------------------------- */

/* Returns the lost process's rank in the communicator's group. */
static int member_lost(const struct hdl_cc *cc)
{
	struct hdl_comm *comm = cc->node_of ? cc->node_of->comm : cc->comm;
	int proc = cc->lost - 1, rank = hdl_comm_rank_of(comm, proc);

	return rank == MPI_UNDEFINED && comm->local ? hdl_comm_rank_of(comm->local, proc) : rank;
}

/* Returns the state of the lost member for error texts. A member that called hdl_ft_give_up lives, and could not do its part of a
 * collective. */
static const char *lost_state_text(const struct hdl_cc *cc)
{
	int proc = cc->lost - 1;

	return proc == hdl_job.rank || hdl_proc_gave_up(proc) ? "lives, and could not do its part of a collective" :
								"has failed or cannot be reached";
}

/* Prints the loss, once per lost process, not per communicator. A rank that gives up itself reports the reason as its error
 * instead. */
static void ft_report(const struct hdl_cc *cc)
{
	static int reported;

	if (reported == cc->lost || cc->lost - 1 == hdl_job.rank || ranks_leave)
		return;
	reported = cc->lost;
	hdl_error("collectives: rank %d (%s) %s: its output may tell why; collectives on its communicators end with "
		  "MPI_ERR_PROC_ABORTED", member_lost(cc), hdl_proc_text_full(cc->lost - 1), lost_state_text(cc));
}

/* Marks the communicator, and the related one of hierarchical collectives, as lost. */
static void ft_mark_lost(struct hdl_cc *cc, int proc, bool by_notice)
{
	if (cc->lost)
		return;
	cc->lost = 1 + proc;
	/* cc is a node communicator: the ranks of the whole communicator notify the members */
	cc->lost_by_notice = by_notice || cc->node_of;
	hdl_ft_record_failed(proc);
	revoke_pending = true;
	frequent_until_ns = monotonic_ns() + SUSPECT_NS;
	ft_report(cc);
	/* an arrival seen from here on may be a flushed queue */
	for (int i = 0; i < HDL_QUEUE_KINDS; i++)
		if (cc->queues[i]) {
			hdl_queues_on(cc->queues[i], HDL_QUEUES_ON_BREAK);
		}
	/* a rank that waits within its host may do so because of a death elsewhere */
	if (cc->node_of)
		ft_mark_lost(cc->node_of, proc, by_notice);
	if (cc->node_comm && cc->node_comm->coll)
		ft_mark_lost(cc->node_comm->coll, proc, by_notice);
}

void hdl_ft_member_failed(struct hdl_cc *cc, int member)
{
	int ended;

	if (cc->lost)
		return;
	ended = find_ended(cc, member);
	ft_mark_lost(cc, ft_proc_of(cc->comm, ended < 0 ? member : ended), false);
}

void hdl_ft_member_gave_up(struct hdl_cc *cc)
{
	int ended = cc->lost ? -1 : find_ended(cc, 0);

	if (ended >= 0)
		ft_mark_lost(cc, ft_proc_of(cc->comm, ended), false);
}

void hdl_ft_give_up(struct hdl_comm *comm, const char *why)
{
	struct hdl_cc *cc = hdl_coll_state(comm);

	if (!cc)
		hdl_out_of_memory("telling the other ranks that this one cannot do its part of a collective", sizeof(*cc));
	if (cc->lost)
		return;
	/* the texts of the other ranks refer to this one */
	hdl_error("collectives: this rank cannot do its part of one (%s): the other ranks get that error", why);
	hdl_ft_member_failed(cc, hdl_own_peer(comm, hdl_own_rank(comm)));
}

static struct {
	uint16_t context;
	struct hdl_comm *comm;
} sought;

static void is_sought(struct hdl_comm *comm)
{
	if (comm->context == sought.context && !comm->part)
		sought.comm = comm;
}

/*
 * Handles a member's notice. A rank may have freed the communicator after an error, and reused its context id for another one,
 * before a slower member's notice arrives. The new communicator is without the lost rank, so a notice about a rank that is no
 * member is ignored.
 */
bool hdl_ft_on_notice(uint16_t context, int proc, bool by_notice)
{
	struct hdl_cc *cc;

	sought.context = (uint16_t)(context - 1);
	sought.comm = NULL;
	hdl_comm_each(is_sought);
	if (sought.comm && !hdl_comm_has(sought.comm, proc))
		return true;
	cc = sought.comm ? hdl_coll_state(sought.comm) : NULL;
	if (!cc)
		return false;
	ft_mark_lost(cc, proc, by_notice);
	if (!by_notice)
		hdl_ft_progress();
	return true;
}

void hdl_ft_before(struct hdl_cc *cc)
{
	int proc = hdl_ft_waiting_notice(cc->comm);

	if (proc >= 0)
		ft_mark_lost(cc, proc, true);
}

void hdl_ft_reason(const struct hdl_cc *cc, const char *name)
{
	hdl_reason_set("%s: rank %d (%s) %s: this communicator is revoked; make one without that rank "
		       "(MPI_Comm_create_group)", name, member_lost(cc), hdl_proc_text_full(cc->lost - 1), lost_state_text(cc));
}

/* ---- revocation ----------------------------------------------------------------------------------------------------- */

/* Up to this many members each rank notifies all others: a rank that has the notice at once sends no more messages to a rank that
 * has gone on. */
#define NOTIFY_ALL 64

/* Notifies all members, or beyond NOTIFY_ALL only those on other hosts than the ended process, which cannot check the process. */
static void ft_notify(struct hdl_cc *cc)
{
	struct hdl_comm *comm = cc->comm;
	int proc = cc->lost - 1, n = member_count(comm);
	bool ended = hdl_ep_process(hdl_mpi_tp, proc) == HDL_PROC_ENDED, seen = n > NOTIFY_ALL && ended;

	for (int member = 0; member < n; member++) {
		int to = ft_proc_of(comm, member), peer = member;
		struct hdl_comm *of = hdl_peer_comm(comm, &peer);

		if (to == hdl_job.rank || to == proc || (seen && hdl_ep_process(hdl_mpi_tp, to) != HDL_PROC_UNKNOWN))
			continue;
		hdl_ft_send_notice(peer, of, (uint16_t)(comm->context + 1), proc, ended);
	}
}

/* Returns true if the process has ended or cannot be reached. A process that gave up for want of memory lives, on any host. */
static bool is_dead(int proc)
{
	enum hdl_proc_state state = hdl_ep_process(hdl_mpi_tp, proc);

	return state == HDL_PROC_ENDED || (state == HDL_PROC_UNKNOWN && !hdl_proc_gave_up(proc));
}

/* Returns true if this rank must notify the members: no notice has come, or the notice was a suspicion (no HDL_FT_ENDED), and the
 * process has ended on this rank's host. */
static bool must_notify(const struct hdl_cc *cc)
{
	if (ranks_leave)
		return false;
	return !cc->lost_by_notice ||
	       (!hdl_rt_has_ended(cc->lost - 1) && hdl_ep_process(hdl_mpi_tp, cc->lost - 1) == HDL_PROC_ENDED);
}

static void revoke(struct hdl_comm *comm)
{
	struct hdl_cc *cc = comm->coll;

	if (!cc || !cc->lost || cc->revoked)
		return;
	cc->revoked = true;
	/* before the refusals, which do not name the lost process */
	if (must_notify(cc))
		ft_notify(cc);
	if (cc->lost - 1 != hdl_job.rank && is_dead(cc->lost - 1))
		hdl_cid_fail_member(cc->lost - 1);
	hdl_coll_hooks.revoke_runs(cc);
	hdl_recv_revoke(comm, cc->lost - 1);
	hdl_cid_revoke((uint16_t)(comm->context + 1));
}

void hdl_ft_ranks_leave(bool leave)
{
	ranks_leave = leave;
}

int hdl_ft_progress(void)
{
	if (likely(!revoke_pending))
		return 0;
	revoke_pending = false;
	hdl_comm_each(revoke);
	if (orphaning_proc >= 0)
		hdl_cid_fail_member(orphaning_proc);
	orphaning_proc = -1;
	return 1;
}

const char *hdl_ft_lacks(int err)
{
	switch (err) {
	case ENOMEM: return "no memory";
	case EMFILE: return "no descriptor: too many open files in this process; raise the limit (ulimit -n)";
	case ENFILE: return "no descriptor: too many open files on this host (sysctl fs.file-max)";
	default: return strerror(err);
	}
}

int hdl_coll_unable(struct hdl_comm *comm, int err)
{
	hdl_ft_give_up(comm, hdl_ft_lacks(err));
	hdl_ft_progress();
	return hdl_class_of(err);
}

void hdl_coll_no_memory(struct hdl_comm *comm)
{
	hdl_coll_unable(comm, ENOMEM);
}

/* ---- detection -------------------------------------------------------------------------------------------------------- */

void hdl_queues_break(struct hdl_queues *h, const char *why)
{
	hdl_queues_on(h, HDL_QUEUES_ON_BREAK);
	/* During bring-up the exchange carries the error; queues without a communicator have no waiters. */
	if (h->cc && h->state == HDL_QUEUES_READY)
		hdl_ft_give_up(h->cc->comm, why);
}

/* Looks for an ended member, the peer first. If there is none, the queues are under suspicion. */
static void find_ended_or_suspect(struct hdl_queues *h, int peer)
{
	int ended = find_ended(h->cc, peer);

	if (ended >= 0) {
		hdl_ft_member_failed(h->cc, ended);
		return;
	}
	hdl_queues_on(h, HDL_QUEUES_ON_SUSPECT);
	h->suspect_until_ns = monotonic_ns() + SUSPECT_NS;
}

/* A single copy was refused because of a user buffer. The queue is in error, and writes of other operations on that queue are
 * lost: the communicator's collectives end here. */
static void buffer_failed(struct hdl_queues *h, int peer, bool mine)
{
	const char *name = hdl_proc_text_full(hdl_comm_proc(h->cc->comm, peer));

	h->wire_error = MPI_ERR_BUFFER;
	if (mine)
		snprintf(h->why_refused, sizeof(h->why_refused), "a buffer of this rank cannot be read or written by the "
			 "device, in a copy from or to %.150s", name);
	else
		snprintf(h->why_refused, sizeof(h->why_refused), "a buffer of %.150s cannot be read or written by the device",
			 name);
	hdl_queues_break(h, h->why_refused);
}

static bool is_of_gone_queue(enum ibv_wc_status status)
{
	return status == IBV_WC_RETRY_EXC_ERR || status == IBV_WC_WR_FLUSH_ERR || status == IBV_WC_FATAL_ERR;
}

void hdl_queues_failed(struct hdl_queues *h, const char *what, int peer, enum ibv_wc_status status)
{
	bool gone = peer != h->rank && is_of_gone_queue(status);

	if (h->health != HDL_QUEUES_SOUND)
		return;
	if (!h->cc) {
		hdl_queues_on(h, HDL_QUEUES_ON_BREAK);	/* cached queues: no operation is outstanding */
		return;
	}
	if (gone) {
		find_ended_or_suspect(h, peer);
		return;
	}
	bool mine = status == IBV_WC_LOC_PROT_ERR;
	if (h->mailbox && (mine || status == IBV_WC_REM_ACCESS_ERR || status == IBV_WC_REM_OP_ERR)) {
		buffer_failed(h, peer, mine);
		return;
	}
	hdl_error("offloaded collectives, communicator of %d ranks: %s rank %d of it (%s): %s", h->size, what,
		  peer, hdl_proc_text_full(hdl_comm_proc(h->cc->comm, peer)), ibv_wc_status_str(status));
	hdl_queues_break(h, HDL_QUEUES_IN_ERROR);
}

/*
 * A process of another job, or of a program with sessions, may end in order as soon as its part of the communicator's last
 * operation is done. Its memory and queues go with the process, while members still wait for each other. All data that the
 * members need from that process are in their own memory already.
 */
bool hdl_queues_parted(struct hdl_queues *h, struct hdl_coll_link *l, enum ibv_wc_status status)
{
	int proc = h->members[l->peer];

	if (!h->mailbox || !is_of_gone_queue(status) || (hdl_proc_is_ours(proc) && !hdl_ep_has_departed(hdl_mpi_tp, proc)))
		return false;
	if (!l->parted)
		frequent_until_ns = monotonic_ns() + SUSPECT_NS;
	l->parted = true;
	h->unfit = true;
	return true;
}

void hdl_queues_peer_gone(struct hdl_queues *h, int peer)
{
	h->unfit = true;
	if (h->cc && h->health == HDL_QUEUES_SOUND)
		find_ended_or_suspect(h, peer);
}

static void end_suspicion(struct hdl_queues *h, uint64_t now)
{
	if (!h || h->health != HDL_QUEUES_SUSPECT || now < h->suspect_until_ns)
		return;
	revoke_pending = true;
	hdl_error("offloaded collectives, communicator of %d ranks: a queue to another rank has failed, and no rank's "
		  "process has ended: a rank has freed the communicator, or the device has failed", h->size);
	hdl_queues_break(h, HDL_QUEUES_IN_ERROR);
}

static bool makes_comm(const struct hdl_comm *comm)
{
	return comm->agreeing || (comm->local && comm->local->agreeing);
}

static bool is_waiting(const struct hdl_cc *cc)
{
	for (int i = 0; i < HDL_QUEUE_KINDS; i++)
		if (cc->queues[i] && hdl_queues_is_active(cc->queues[i]))
			return true;
	/* a rank that waits within its host may do so because of a rank elsewhere */
	return cc->pending || makes_comm(cc->comm) || (cc->node_comm && cc->node_comm->coll && is_waiting(cc->node_comm->coll));
}

static bool is_suspect(const struct hdl_cc *cc)
{
	for (int i = 0; i < HDL_QUEUE_KINDS; i++)
		if (cc->queues[i] && cc->queues[i]->health == HDL_QUEUES_SUSPECT)
			return true;
	return false;
}

/* Checks the members of one communicator. If collectives have completed since the last check, the communicator is checked half as
 * often: a check costs up to three system calls per member. */
static void ft_look_at(struct hdl_comm *comm)
{
	struct hdl_cc *cc = makes_comm(comm) && !comm->part ? hdl_coll_state(comm) : comm->coll;
	bool suspect = cc && is_suspect(cc), moves;
	int ended;

	if (!cc || cc->lost || (!suspect && !is_waiting(cc)))
		return;
	moves = cc->seq != cc->seq_looked && !cc->passed_over;
	cc->seq_looked = cc->seq;
	cc->passed_over = moves;
	if (moves && !suspect)
		return;
	ended = find_ended(cc, 0);
	if (ended >= 0) {
		hdl_ft_member_failed(cc, ended);
		return;
	}
	for (int i = 0; i < HDL_QUEUE_KINDS; i++)
		end_suspicion(cc->queues[i], monotonic_ns());
}

/*
 * hdl_tp_on_timers: nothing is completed from here; the next turn of progress does. Returns the time of the next check, ns.
 */
uint64_t hdl_ft_timers(uint64_t now)
{
	static uint64_t next;
	bool suspects = now < frequent_until_ns;

	if (!hdl_coll_pending && !hdl_queues_active && !hdl_agreements)
		return 0;
	for (const struct hdl_queues *h = hdl_queues_active; h; h = h->next)
		suspects |= h->health == HDL_QUEUES_SUSPECT;
	if (suspects && next > now + SUSPECT_LOOK_NS)
		next = now + SUSPECT_LOOK_NS;
	if (now < next)
		return next;
	next = now + (suspects ? SUSPECT_LOOK_NS : LOOK_NS);
	hdl_comm_each(ft_look_at);
	if (hdl_agreements && (orphaning_proc = hdl_cid_find_ended()) >= 0)
		revoke_pending = true;
	/* returning `now` keeps this process from sleeping before progress has ended the operations */
	return revoke_pending ? now : next;
}
