/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Members that have died. Whoever waits for one directly is told by the transport, or by its queues; the others wait for a rank that
 * lives, and that waits, or has failed and gone on to something else. So who has a collective under way looks now and then at the
 * processes of all members of this host, and asks the transport for the others; and who learns of a death tells the other members.
 * In either case the communicator is revoked here: what is under way on it ends with MPI_ERR_PROC_ABORTED, and so does all that is
 * begun from now on. Messages between the living, and other communicators, go on.
 *
 *     a look, a failed message, a failed queue, a member's message ──▶ hdl_ft_member_failed: noted ──▶ hdl_ft_progress: carried out
 *
 * Nothing is completed or posted where a death is noted, which may be inside of the transport.
 *
 * A request that fails says that a queue is gone, and that may be one of a member that lives: it has seen the death first and has
 * freed the communicator. So nobody is named whose process lives. Where none has ended yet, the queues of mailbox or tasks are under
 * suspicion: nothing more is posted, until a member's end is seen, or SUSPECT_NS have passed.
 */
#include "collectives/queues/queues.h"

#define LOOK_NS 500000000ull
#define SUSPECT_NS 1000000000ull
#define SUSPECT_LOOK_NS 20000000ull

uint32_t hdl_coll_pending;
static uint64_t hasty_ns;	/* until then communicators are looked at often: the rank that was lost is a member of others */
static bool news;		/* some communicator is lost, and what is under way on it has not been ended yet */
static int orphaned = -1;	/* a process by whose end constructors without a communicator are lost, likewise */

/* ---- members: of an intercommunicator those of both groups, as nodes name them ---------------------------------- */

static int members(const struct hdl_comm *comm)
{
	return comm->local ? comm->size + comm->local->size : comm->size;
}

static int ft_proc_of(struct hdl_comm *comm, int member)
{
	struct hdl_comm *of = hdl_peer_comm(comm, &member);

	return hdl_comm_proc(of, member);
}

/* Of another host's process the transport alone knows: by a message, maybe another communicator's, or a probe, that was not answered. */
static bool has_ended(struct hdl_cc *cc, int member)
{
	for (int i = 0; i < HDL_QUEUE_KINDS; i++)
		if (cc->off[i] && cc->off[i]->state == HDL_QUEUES_READY && cc->off[i]->peers[member].proc.start)
			return hdl_proc_state(&cc->off[i]->peers[member].proc) == HDL_PROC_ENDED;
	return hdl_proc_is_gone(ft_proc_of(cc->comm, member));
}

/* The first member from `first` on whose process has ended, or cannot be reached any more, or -1. */
static int find_ended(struct hdl_cc *cc, int first)
{
	int n = members(cc->comm);

	for (int i = 0; i < n; i++) {
		int member = (first + i) % n;

		if (ft_proc_of(cc->comm, member) != hdl_job.rank && has_ended(cc, member))
			return member;
	}
	return -1;
}

/* ---- noting -------------------------------------------------------------------------------------------------- */

/* Its rank in its group. */
static int member_lost(const struct hdl_cc *cc)
{
	struct hdl_comm *comm = cc->of ? cc->of->comm : cc->comm;
	int proc = cc->lost - 1, rank = hdl_comm_rank_of(comm, proc);

	return rank == MPI_UNDEFINED && comm->local ? hdl_comm_rank_of(comm->local, proc) : rank;
}

/* A member that cannot do its part of a collective (hdl_ft_give_up) says so, and lives. */
static const char *what_became_of_it(const struct hdl_cc *cc)
{
	int proc = cc->lost - 1;

	return proc == hdl_job.rank || hdl_proc_gave_up(proc) ? "lives, and could not do its part of a collective" :
								"has failed or cannot be reached";
}

/* Once for a rank, not for each communicator that it was a member of. One that gives up itself has the reason as its error. */
static void ft_say(const struct hdl_cc *cc)
{
	static int said;

	if (said == cc->lost || cc->lost - 1 == hdl_job.rank)
		return;
	said = cc->lost;
	hdl_error("collectives: rank %d (%s) %s: look at its output for why; those on communicators of which it is a member end with "
		  "MPI_ERR_PROC_ABORTED", member_lost(cc), hdl_proc_text_full(cc->lost - 1), what_became_of_it(cc));
}

/* And what it is the communicator of one host's ranks of, or has such a one. */
static void ft_lose(struct hdl_cc *cc, int proc, bool told)
{
	if (cc->lost)
		return;
	cc->lost = 1 + proc;
	/* the whole's ranks tell those of its hosts, too */
	cc->told = told || cc->of;
	hdl_proc_note_lost(proc);
	news = true;
	hasty_ns = monotonic_ns() + SUSPECT_NS;
	ft_say(cc);
	/* what has arrived may be the end of a queue */
	for (int i = 0; i < HDL_QUEUE_KINDS; i++)
		if (cc->off[i]) {
			cc->off[i]->broken = true;
			cc->off[i]->suspect_ns = 0;
		}
	/* who waits for a rank of its host may do so for the sake of what has ended elsewhere */
	if (cc->of)
		ft_lose(cc->of, proc, told);
	if (cc->within && cc->within->coll)
		ft_lose(cc->within->coll, proc, told);
}

void hdl_ft_member_failed(struct hdl_cc *cc, int member)
{
	int ended;

	if (cc->lost)
		return;
	ended = find_ended(cc, member);
	ft_lose(cc, ft_proc_of(cc->comm, ended < 0 ? member : ended), false);
}

void hdl_ft_member_gave_up(struct hdl_cc *cc)
{
	int ended = cc->lost ? -1 : find_ended(cc, 0);

	if (ended >= 0)
		ft_lose(cc, ft_proc_of(cc->comm, ended), false);
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

/* Whoever has failed on a communicator may have freed it, and its contexts be another's here, before a slower member's message comes:
 * the way out is a communicator without the rank that is named. */
bool hdl_ft_heard(uint16_t context, int proc, bool told)
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
	ft_lose(cc, proc, told);
	if (!told)
		hdl_ft_progress();
	return true;
}

void hdl_ft_before(struct hdl_cc *cc)
{
	int proc = hdl_recv_lost(cc->comm);

	if (proc >= 0)
		ft_lose(cc, proc, true);
}

void hdl_ft_reason(const struct hdl_cc *cc, const char *name)
{
	hdl_reason_set("%s: rank %d (%s) %s: this communicator has no collectives any more; one without that rank has "
		       "(MPI_Comm_create_group)", name, member_lost(cc), hdl_proc_text_full(cc->lost - 1), what_became_of_it(cc));
}

/* ---- carrying out -------------------------------------------------------------------------------------------- */

/* Of so many members each tells every other one: who comes to know at once sends nothing more to a rank that has gone on. */
#define TELL_ALL 64

/* All members, or if they are many, those that cannot look for themselves at the process which has ended. */
static void ft_tell(struct hdl_cc *cc)
{
	struct hdl_comm *comm = cc->comm;
	int proc = cc->lost - 1, n = members(comm);
	bool ended = hdl_ep_process(hdl_mpi_tp, proc) == HDL_PROC_ENDED, seen = n > TELL_ALL && ended;

	for (int member = 0; member < n; member++) {
		int to = ft_proc_of(comm, member), peer = member;
		struct hdl_comm *of = hdl_peer_comm(comm, &peer);

		if (to == hdl_job.rank || to == proc || (seen && hdl_ep_process(hdl_mpi_tp, to) != HDL_PROC_UNKNOWN))
			continue;
		hdl_send_lost(peer, of, (uint16_t)(comm->context + 1), proc, ended);
	}
}

/* Whether nothing is to be expected of the process any more. One that has given up, for want of memory, lives, on whatever host. */
static bool is_dead(int proc)
{
	enum hdl_proc_state state = hdl_ep_process(hdl_mpi_tp, proc);

	return state == HDL_PROC_ENDED || (state == HDL_PROC_UNKNOWN && !hdl_proc_gave_up(proc));
}

/* Whether this rank is the first to know, or knows more than whoever has told it: its host is the one that sees the process, which
 * is there no more, and that was not said. */
static bool has_news(const struct hdl_cc *cc)
{
	return !cc->told || (!hdl_rt_has_ended(cc->lost - 1) && hdl_ep_process(hdl_mpi_tp, cc->lost - 1) == HDL_PROC_ENDED);
}

static void revoke(struct hdl_comm *comm)
{
	struct hdl_cc *cc = comm->coll;

	if (!cc || !cc->lost || cc->revoked)
		return;
	cc->revoked = true;
	/* ahead of the refusals, which do not say who has ended */
	if (has_news(cc))
		ft_tell(cc);
	if (cc->lost - 1 != hdl_job.rank && is_dead(cc->lost - 1))
		hdl_cid_lose(cc->lost - 1);
	hdl_host_revoke(cc);
	hdl_recv_revoke(comm, cc->lost - 1);
	hdl_cid_revoke((uint16_t)(comm->context + 1));
}

int hdl_ft_progress(void)
{
	if (likely(!news))
		return 0;
	news = false;
	hdl_comm_each(revoke);
	if (orphaned >= 0)
		hdl_cid_lose(orphaned);
	orphaned = -1;
	return 1;
}

/* ---- looking ------------------------------------------------------------------------------------------------- */

void hdl_queues_break(struct hdl_queues *h, const char *why)
{
	h->broken = true;
	/* while queues are brought up, the exchange tells; where there is no communicator nobody waits */
	if (h->cc && h->state == HDL_QUEUES_READY)
		hdl_ft_give_up(h->cc->comm, why);
}

/* Who of the communicator has ended, the peer first; if nobody has, the queues are under suspicion. */
static void seek_ended(struct hdl_queues *h, int peer)
{
	int ended = find_ended(h->cc, peer);

	if (ended >= 0)
		hdl_ft_member_failed(h->cc, ended);
	else
		h->suspect_ns = monotonic_ns() + SUSPECT_NS;
}

/* A copy from or to users' buffers was refused for the sake of one of them. The queue is in error, with what others have written by it:
 * the communicator's collectives end here. */
static void buffer_failed(struct hdl_queues *h, int peer, bool mine)
{
	const char *name = hdl_proc_text_full(hdl_comm_proc(h->cc->comm, peer));

	h->wire_error = MPI_ERR_BUFFER;
	if (mine)
		snprintf(h->why_off, sizeof(h->why_off), "a buffer of this rank's cannot be read or written by the device, which copies "
			 "from or to %.150s", name);
	else
		snprintf(h->why_off, sizeof(h->why_off), "a buffer of %.150s cannot be read or written by the device", name);
	hdl_queues_break(h, h->why_off);
}

void hdl_queues_failed(struct hdl_queues *h, const char *what, int peer, enum ibv_wc_status status)
{
	bool gone = peer != h->rank &&
		    (status == IBV_WC_RETRY_EXC_ERR || status == IBV_WC_WR_FLUSH_ERR || status == IBV_WC_FATAL_ERR);

	if (h->broken || h->suspect_ns)
		return;
	if (!h->cc) {
		h->broken = true;	/* nobody waits for anything there */
		return;
	}
	if (gone) {
		seek_ended(h, peer);
		return;
	}
	bool mine = status == IBV_WC_LOC_PROT_ERR;
	if (h->lines && (mine || status == IBV_WC_REM_ACCESS_ERR || status == IBV_WC_REM_OP_ERR)) {
		buffer_failed(h, peer, mine);
		return;
	}
	hdl_error("offloaded collectives, communicator of %d ranks: %s rank %d of it (%s): %s", h->size, what,
		  peer, hdl_proc_text_full(hdl_comm_proc(h->cc->comm, peer)), ibv_wc_status_str(status));
	hdl_queues_break(h, HDL_QUEUES_IN_ERROR);
}

void hdl_queues_peer_gone(struct hdl_queues *h, int peer)
{
	h->queue_gone = true;
	if (h->cc && !h->broken && !h->suspect_ns)
		seek_ended(h, peer);
}

static void end_suspicion(struct hdl_queues *h, uint64_t now)
{
	if (!h || !h->suspect_ns || now < h->suspect_ns)
		return;
	h->suspect_ns = 0;
	news = true;
	hdl_error("offloaded collectives, communicator of %d ranks: a queue to another rank has failed, and no rank's process has "
		  "ended: one has freed the communicator, or the device has failed", h->size);
	hdl_queues_break(h, HDL_QUEUES_IN_ERROR);
}

static bool makes_one(const struct hdl_comm *comm)
{
	return comm->agreeing || (comm->local && comm->local->agreeing);
}

static bool is_waiting(const struct hdl_cc *cc)
{
	for (int i = 0; i < HDL_QUEUE_KINDS; i++)
		if (cc->off[i] && hdl_queues_is_active(cc->off[i]))
			return true;
	/* who waits for a rank of its host may do so for the sake of one elsewhere */
	return cc->pending || makes_one(cc->comm) || (cc->within && cc->within->coll && is_waiting(cc->within->coll));
}

static bool is_suspect(const struct hdl_cc *cc)
{
	for (int i = 0; i < HDL_QUEUE_KINDS; i++)
		if (cc->off[i] && cc->off[i]->suspect_ns)
			return true;
	return false;
}

/* A communicator whose collectives follow each other is looked at half as often: a look takes a system call or three for each member. */
static void ft_look_at(struct hdl_comm *comm)
{
	struct hdl_cc *cc = makes_one(comm) && !comm->part ? hdl_coll_state(comm) : comm->coll;
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
		end_suspicion(cc->off[i], monotonic_ns());
}

/* Nothing is completed from here: the next turn of progress does it. */
uint64_t hdl_ft_timers(uint64_t now)
{
	static uint64_t next;
	bool suspects = now < hasty_ns;

	if (!hdl_coll_pending && !hdl_queues_active && !hdl_agreements)
		return 0;
	for (const struct hdl_queues *h = hdl_queues_active; h; h = h->next)
		suspects |= h->suspect_ns != 0;
	if (suspects && next > now + SUSPECT_LOOK_NS)
		next = now + SUSPECT_LOOK_NS;
	if (now < next)
		return next;
	next = now + (suspects ? SUSPECT_LOOK_NS : LOOK_NS);
	hdl_comm_each(ft_look_at);
	if (hdl_agreements && (orphaned = hdl_cid_find_ended()) >= 0)
		news = true;
	/* before this process sleeps, progress has to end what waits */
	return news ? now : next;
}
