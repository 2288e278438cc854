/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The event loop: signals, the ends of ranks, notes from the PMIx server, tagged output, terminal input, time.
 *
 *     RUNNING ──a rank fails, abort, timeout, second SIGINT──▶ ENDING (SIGTERM) ──GRACE──▶ KILLED (SIGKILL)
 *
 * With --on-death=continue a rank that has published its address may fail without that.
 *
 * With spawned ranks there are several namespaces. A failure ends the rank's namespace and those that are connected with it
 * (nspace_mark). If that is not all of them, these are ending, one by one, and the state stays RUNNING for the remaining ones.
 *
 * A rank is reaped only after its process group was killed: as long as the leader is a zombie, the pid cannot be given
 * to another process.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launcher/launcher.h"
#include "runtime/ask.h"
#include "runtime/runtime.h"

enum {
	GRACE_MS = 2000,	/* milliseconds between SIGTERM and SIGKILL of ranks whose job has failed */
	PATIENCE_MS = 5000,	/* milliseconds; then a message says that ranks have not ended yet */
	END_MS = 2000,		/* milliseconds for a process that is ending to be gone */
};

/* One request to end a job often comes as two signals: timeout(1) signals the child and then the whole process group, a
 * batch system each process of the job. A signal within this time after the first is the same request. */
#define REPEAT_NS 1000000000ull

struct loop {
	struct job *job;
	int epoll, signal_fd, note_fd;
	int running;			/* ranks of all namespaces that have not ended */
	int lingering;			/* ranks that have ended before their process group */
	/* LEAVING: a signal that ends programs was passed on, and the first rank has ended: the remaining ranks end by
	 * themselves. ENDING: the ranks got SIGTERM. */
	enum { RUNNING, LEAVING, ENDING, KILLED } state;
	int exit_code;			/* the job's: of the first failure, see fail_with; with --timeout 124, also after an
					 * earlier failure */
	int forwarded;			/* the last signal that ends programs which was passed on; 0: none */
	uint64_t forwarded_at;		/* monotonic_ns() of that */
	bool asked;			/* SIGINT or SIGTERM was passed on: another one ends the job at once */
	double kill_after;		/* seconds that kill_at was set for */
	uint64_t kill_at, tell_at, timeout_at, hang_at;	/* monotonic_ns(); 0: never */
	struct terminal terminal;
};

static void signal_rank(const struct rank *rank, int sig)
{
	if (!rank->foreign && rank->pid > 0 && (!rank->ended || rank->lingers))
		kill(-rank->pid, sig);
}

static void signal_all(struct loop *l, int sig)
{
	for (const struct rank *r = rank_first(l->job); r; r = rank_next(r))
		signal_rank(r, sig);
}

static void signal_nspace(const struct nspace *ns, int sig)
{
	for (int r = 0; r < ns->nranks; r++)
		signal_rank(&ns->ranks[r], sig);
}

/* Sets the time of SIGKILL; never to a later one than before. 0 s: never. */
static void kill_after(struct loop *l, double seconds)
{
	uint64_t at = monotonic_ns() + (uint64_t)(seconds * 1e9);

	if (seconds > 0 && (!l->kill_at || at < l->kill_at)) {
		l->kill_at = at;
		l->kill_after = seconds;
	}
}

/* Ranks have the time of --kill-after to end; a message reports ranks that have not ended after PATIENCE_MS. */
static void be_patient(struct loop *l)
{
	kill_after(l, l->job->opt.kill_after);
	if (!l->tell_at)
		l->tell_at = monotonic_ns() + PATIENCE_MS * 1000000ull;
}

/* Notes the job's exit code; the first one counts, since with --on-death=continue several ranks may fail. */
static void fail_with(struct loop *l, int exit_code)
{
	if (l->state == RUNNING && !l->exit_code)
		l->exit_code = exit_code;
}

static void tell_to_end(struct loop *l, double seconds)
{
	if (l->state != RUNNING && l->state != LEAVING)
		return;
	l->state = ENDING;
	kill_after(l, seconds);
	signal_all(l, SIGTERM);
	signal_all(l, SIGCONT);		/* a stopped process must see the signal */
}

static void end_job(struct loop *l, int exit_code)
{
	fail_with(l, exit_code);
	if (l->state == RUNNING)
		tell_to_end(l, GRACE_MS / 1e3);
}

/* Ends the ranks of one namespace, while the other namespaces go on. */
static void end_nspace(struct nspace *ns)
{
	if (ns->ending)
		return;
	ns->ending = true;
	ns->kill_at = monotonic_ns() + GRACE_MS * 1000000ull;
	signal_nspace(ns, SIGTERM);
	signal_nspace(ns, SIGCONT);		/* a stopped process must see the signal */
}

/* Ends the ranks of a namespace and of those that are connected with it. */
static void end_connected(struct loop *l, struct nspace *ns, int exit_code)
{
	if (!nspace_mark(l->job, ns)) {
		end_job(l, exit_code);
		return;
	}
	fail_with(l, exit_code);
	for (struct nspace *n = l->job->nspaces; n; n = n->next)
		if (n->marked)
			end_nspace(n);
}

/* Spawned ranks that have no communicator with their parents yet: the parents get an error, and go on. */
static void fail_spawn(struct nspace *ns, const char *why)
{
	server_spawn_failed(ns->spawn_id, why);
	end_nspace(ns);
}

static void lose_rank(struct loop *l, const struct rank *rank, int exit_code, const char *why)
{
	if (!rank->ns->met)
		fail_spawn(rank->ns, why);
	else if (!rank->outlived)
		end_connected(l, rank->ns, exit_code);
	else
		fail_with(l, exit_code);
}

/* A rank has ended because of a signal that was passed on to all. The remaining ranks have got the signal, too, and may
 * have data to write before they end: they have the time of --kill-after. */
static void supervise_leave_job(struct loop *l, int exit_code)
{
	if (l->state != RUNNING)
		return;
	fail_with(l, exit_code);
	l->state = LEAVING;
	be_patient(l);
}

static void kill_job(struct loop *l)
{
	l->state = KILLED;
	l->kill_at = 0;
	signal_all(l, SIGKILL);
}

/* Returns true if the end of a rank follows from a signal of the user: one that was passed on less than --kill-after ago. */
static bool asked_to_end(const struct loop *l)
{
	double limit = l->job->opt.kill_after;

	return l->forwarded && (limit <= 0 || (double)(monotonic_ns() - l->forwarded_at) < limit * 1e9);
}

/* "; ending the other 3 ranks". rank: the one that has failed. whatever: --on-death does not matter. */
static const char *supervise_others(struct loop *l, const struct rank *rank, bool whatever, char *text, size_t size)
{
	int n = 0;

	nspace_mark(l->job, rank->ns);
	for (const struct rank *r = rank_first(l->job); r; r = rank_next(r))
		n += r->ns->marked && !r->ended && r != rank && !r->foreign;
	*text = 0;
	if (!rank->ns->met)
		snprintf(text, size, "; so the spawn fails");
	else if (n > 0 && !whatever && rank->outlived)
		snprintf(text, size, "; the others go on (--on-death)");
	else if (n > 0)
		snprintf(text, size, "; ending the other %s%.0d%s", n == 1 ? "rank" : "", n == 1 ? 0 : n, n == 1 ? "" : " ranks");
	return text;
}

/* ---- ends of ranks ------------------------------------------------------------------------------------------------ */

static void take_notes(struct loop *l);

static void drain_output(struct stream **stream)
{
	/* The rank is gone: its output is in the pipe. Other processes that hold the pipe are not waited for. */
	if (!*stream)
		return;
	stream_copy(*stream);
	stream_free(*stream);
	*stream = NULL;
}

/* Returns true if the reader of this output has gone (`| head`). */
static bool reader_gone(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLOUT };

	return poll(&p, 1, 0) > 0 && p.revents & (POLLERR | POLLHUP);
}

/* Reports why a rank's end is a failure, and ends the remaining ranks, or fails the spawn. */
static void supervise_blame(struct loop *l, const struct rank *rank, int exit_code, const char *how)
{
	char rest[64], why[512];

	snprintf(why, sizeof why, "%s (%.200s, pid %d) %s", rank_name(rank), rank->app->argv[0], (int)rank->pid, how);
	complain("%s%s", why, supervise_others(l, rank, false, rest, sizeof rest));
	lose_rank(l, rank, exit_code, why);
}

static void supervise_judge(struct loop *l, struct rank *rank, const siginfo_t *how)
{
	int code = how->si_code == CLD_EXITED ? how->si_status : EXIT_BY_SIGNAL + how->si_status;
	char text[128];

	if (l->state != RUNNING || rank->ns->ending)
		return;
	/* without this rank's address the remaining ranks would wait until HEDDLE_INIT_TIMEOUT */
	rank->outlived = l->job->opt.outlive && rank->joined && server_has(rank, HDL_ADDRESS);
	if (code && asked_to_end(l) && (how->si_code == CLD_EXITED || how->si_status == l->forwarded)) {
		supervise_leave_job(l, code);
	} else if (code == EXIT_BY_SIGNAL + SIGPIPE && (reader_gone(1) || reader_gone(2))) {
		lose_rank(l, rank, code, "its output has no reader");	/* no message: the user has ended the reader */
	} else if (how->si_code != CLD_EXITED) {
		snprintf(text, sizeof text, "was ended by signal %d (%s)%s", how->si_status, strsignal(how->si_status),
			 how->si_code == CLD_DUMPED ? ", core dumped" : "");
		supervise_blame(l, rank, code, text);
	} else if (code) {
		snprintf(text, sizeof text, "ended with exit code %d", code);
		supervise_blame(l, rank, code, text);
	} else if ((rank->joined && !rank->left) || !rank->ns->met) {
		/* the remaining ranks would wait for this one; even the last rank's end shows that the program did not
		 * complete. Spawned ranks must call MPI_Init, where their parents wait for them. */
		if (asked_to_end(l))
			supervise_leave_job(l, EXIT_BY_SIGNAL + l->forwarded);
		else
			supervise_blame(l, rank, EXIT_FAILURE,
					rank->joined && !rank->left ? "ended with exit code 0, but without MPI_Finalize" :
								      "ended with exit code 0, but without MPI_Init");
	}
}

/* Returns a rank that waits for all ranks of the namespace, or NULL. Such a rank has published HDL_WORLD; one with sessions only
 * has HDL_SESSION. A rank joins first, and publishes then; one that publishes neither within UNKNOWN_NS is another library's.
 * Sets ns->unjudged_ns while there is a rank that has published neither yet. */
static const struct rank *find_waiting(struct nspace *ns)
{
	const uint64_t UNKNOWN_NS = 10000000000u;
	const struct rank *ranks = ns->ranks, *unknown = NULL;

	for (int r = 0; r < ns->nranks; r++) {
		if (ranks[r].ended || !ranks[r].joined || ranks[r].left)
			continue;
		if (server_has(&ranks[r], HDL_WORLD))
			return &ranks[r];
		if (!server_has(&ranks[r], HDL_SESSION))
			unknown = &ranks[r];
	}
	if (unknown && !ns->unjudged_ns)
		ns->unjudged_ns = monotonic_ns();
	if (!unknown)
		ns->unjudged_ns = 0;
	return unknown && monotonic_ns() - ns->unjudged_ns > UNKNOWN_NS ? unknown : NULL;
}

/* A rank that has called MPI_Init waits for all ranks, in MPI_Finalize at the latest: for a rank that ended without
 * having joined, for ever. A rank that has joined by MPI_Session_init waits for no other. Must be called when a rank has
 * joined, when one has ended, and again as long as `unjudged_ns` is set. */
static void judge_absent(struct loop *l, struct nspace *ns)
{
	const struct rank *absent = NULL, *present;
	char rest[64];

	for (int r = 0; r < ns->nranks && !absent; r++)
		if (ns->ranks[r].ended && !ns->ranks[r].joined)
			absent = &ns->ranks[r];
	ns->unjudged_ns = l->state == RUNNING && !ns->ending && absent ? ns->unjudged_ns : 0;
	if (l->state != RUNNING || ns->ending || !absent)
		return;
	present = find_waiting(ns);
	if (!present)
		return;
	if (asked_to_end(l)) {
		supervise_leave_job(l, EXIT_BY_SIGNAL + l->forwarded);
		return;
	}
	complain("%s (%s, pid %d) ended with exit code 0, but without MPI_Init, which rank %d has called%s", rank_name(absent),
		 absent->app->argv[0], (int)absent->pid, present->number, supervise_others(l, absent, true, rest, sizeof rest));
	end_connected(l, ns, EXIT_FAILURE);
}

/* Returns true if a process is ending: connections and locks are gone already, memory perhaps not yet (PF_EXITING among the
 * flags of proc(5)). */
static bool supervise_is_ending(pid_t pid)
{
	enum { EXITING = 4 };
	char line[512], *fields;
	unsigned flags = 0;

	return !hdl_proc_stat((uint32_t)pid, line, sizeof line, &fields) &&
	       sscanf(fields, "%*c %*d %*d %*d %*d %*d %u", &flags) == 1 && flags & EXITING;
}

/* Waits until a process that is ending can be reaped: a process with much memory takes a while. */
static void await_end(pid_t pid, uint64_t until_ns)
{
	struct pollfd end = { .fd = pidfd_open(pid, 0), .events = POLLIN };
	uint64_t now;

	if (end.fd < 0)
		return;		/* no kernel before 5.3 has pidfd_open: then the first failure seen is blamed */
	while ((now = monotonic_ns()) < until_ns && poll(&end, 1, (int)((until_ns - now) / 1000000) + 1) < 0 && errno == EINTR)
		;
	close(end.fd);
}

/* The first failure seen need not be the cause: ranks end because another rank was killed, and both ends may be known, or the
 * killed rank may still be ending. So ranks that a signal ended are searched first, and reported before any other rank. They are
 * reaped later. */
static void judge_killed(struct loop *l)
{
	uint64_t until = monotonic_ns() + END_MS * 1000000ull;		/* for all ranks together: the event loop stands
									 * still meanwhile */

	for (struct rank *rank = rank_first(l->job); rank && l->state == RUNNING; rank = rank_next(rank)) {
		siginfo_t how = { 0 };

		if (rank->ended || rank->foreign)
			continue;
		if (supervise_is_ending(rank->pid))
			await_end(rank->pid, until);
		if (waitid(P_PID, (id_t)rank->pid, &how, WEXITED | WNOHANG | WNOWAIT) || !how.si_pid || how.si_code == CLD_EXITED)
			continue;
		supervise_judge(l, rank, &how);
	}
}

/* A rank is often a script, which a signal ends at once while the program that it started still writes its checkpoint.
 * So when ranks are ending, the rest of a process group has the time that the rank itself has. heddlerun is the group's
 * reaper (PR_SET_CHILD_SUBREAPER): the end of the group's last process is seen, and no process of the group stays a
 * zombie. */
static void look_for_lingerers(struct loop *l)
{
	for (struct rank *rank = rank_first(l->job); l->lingering && rank; rank = rank_next(rank)) {
		if (!rank->lingers || !kill(-rank->pid, 0))
			continue;
		rank->lingers = false;
		l->lingering--;
		guard_set(l->job->guard, rank->slot, 0);
		drain_output(&rank->out);
		drain_output(&rank->err);
	}
}

static struct rank *rank_of_pid(struct loop *l, pid_t pid)
{
	struct rank *rank = rank_first(l->job);

	while (rank && (rank->pid != pid || rank->ended || rank->foreign))
		rank = rank_next(rank);
	return rank;
}

static void note_end(struct loop *l, struct rank *rank)
{
	rank->ended = true;
	rank->ns->running--;
	l->running--;
	names_drop(rank->ns->name, rank->number);
}

static void supervise_reap(struct loop *l)
{
	for (;;) {
		siginfo_t how = { 0 };
		struct rank *rank;

		if (waitid(P_ALL, 0, &how, WEXITED | WNOHANG | WNOWAIT) || !how.si_pid)
			break;
		rank = rank_of_pid(l, how.si_pid);
		if (!rank) {
			if (guard_is(l->job->guard, how.si_pid))	/* killed from outside: go on */
				complain("the guard process was ended: if heddlerun is killed now, processes may be left over");
			waitpid(how.si_pid, NULL, 0);
			continue;
		}
		take_notes(l);		/* the rank's requests to the server came before its end */
		/* with --on-death=continue each rank is judged for itself */
		if (!l->job->opt.outlive && how.si_code == CLD_EXITED && (how.si_status || (rank->joined && !rank->left)))
			judge_killed(l);
		note_end(l, rank);
		supervise_judge(l, rank, &how);
		judge_absent(l, rank->ns);
		if (l->state == LEAVING || l->state == ENDING || (l->state == RUNNING && (asked_to_end(l) || rank->ns->kill_at)))
			rank->lingers = true;	/* until look_for_lingerers finds the group empty */
		else
			kill(-how.si_pid, SIGKILL);
		waitpid(how.si_pid, NULL, 0);
		if (rank->lingers) {
			l->lingering++;
			continue;
		}
		if (rank->outlived && !rank->left)
			server_notify_end(rank);
		guard_set(l->job->guard, rank->slot, 0);
		drain_output(&rank->out);
		drain_output(&rank->err);
	}
	look_for_lingerers(l);
}

static bool has_lingerers(const struct nspace *ns)
{
	bool some = false;

	for (int r = 0; r < ns->nranks; r++)
		some |= ns->ranks[r].lingers;
	return some;
}

/* Frees the spawned namespaces whose last rank has ended. */
static void drop_nspaces(struct loop *l)
{
	for (struct nspace *ns = l->job->nspaces->next, *next; ns; ns = next) {
		next = ns->next;
		if (ns->running || has_lingerers(ns) || hang_is_asking())
			continue;
		server_deregister(ns);
		nspace_free(l->job, ns);
	}
}

/* ---- notes of the PMIx server ---------------------------------------------------------------------------------------- */

static void watch_ranks(struct loop *l, struct nspace *ns);

static void take_spawn(struct loop *l, struct spawn_request *req)
{
	const struct nspace *parent = nspace_find(l->job, req->parent);
	struct nspace *ns = NULL, *part = NULL;
	char why[512] = "the job is ending";
	int code = EXIT_FAILURE;

	if (l->state == RUNNING && !asked_to_end(l) && parent && !parent->ending)
		ns = dynamic_spawn(l->job, req, &part, &code, why, sizeof why);
	if (ns || part)
		watch_ranks(l, ns ? ns : part);
	if (part) {
		part->ending = true;
		signal_nspace(part, SIGKILL);
	}
	if (l->job->opt.verbose && !ns)
		complain("nothing is spawned: %s", why);
	server_spawn_answer(req, ns, code, why);
}

static void take_abort(struct loop *l, const struct rank *rank, int code)
{
	char rest[64];

	judge_killed(l);
	if (l->state != RUNNING || rank->ns->ending)
		return;
	complain("%s (%s, pid %d) aborted the job with code %d%s", rank_name(rank), rank->app->argv[0], (int)rank->pid,
		 code, supervise_others(l, rank, true, rest, sizeof rest));
	if (rank->ns->met)
		end_connected(l, rank->ns, code & 255 ? code & 255 : EXIT_FAILURE);
	else
		fail_spawn(rank->ns, "the spawned ranks have aborted their job in MPI_Init or ahead of it");
}

/* A rank reports its first communicator with another namespace, or that it has freed the last. */
static void take_connection(struct loop *l, struct rank *rank, const char *name, bool more)
{
	struct nspace *other = nspace_find(l->job, name);	/* NULL: of another heddlerun, or ended */

	if (!other)
		return;
	rank_connect(rank, other, more);
	rank->ns->bound &= more || strcmp(rank->ns->parent, other->name);
	rank->ns->met |= more;
	other->met |= more;
}

/* A rank stops waiting for its spawned ranks, whose program may never call MPI_Init. */
static void take_given_up(struct loop *l, const struct rank *rank, const char *id)
{
	uint64_t number = strtoull(id, NULL, 10);

	for (struct nspace *ns = l->job->nspaces; ns && number; ns = ns->next) {
		if (ns->spawn_id != number || ns->met || ns->ending || strcmp(ns->parent, rank->ns->name) ||
		    ns->parent_rank != rank->number)
			continue;
		complain("%s, which has spawned job %d (%s), waits for it no longer (HEDDLE_INIT_TIMEOUT); ending job %d",
			 rank_name(rank), ns->number, ns->ranks[0].app->argv[0], ns->number);
		end_nspace(ns);
	}
}

static void take_note_of(struct loop *l, struct rank *rank, const struct note *note)
{
	switch (note->kind) {
	case NOTE_JOINED:
		rank->joined = true;
		rank->left = false;	/* by MPI_Session_init after MPI_Finalize */
		judge_absent(l, rank->ns);
		break;
	case NOTE_LEFT:
		rank->left = true;
		break;
	case NOTE_ANSWER:
		hang_answer(rank, note->text);
		break;
	case NOTE_CONNECTED:
	case NOTE_DISCONNECTED:
		take_connection(l, rank, note->text, note->kind == NOTE_CONNECTED);
		break;
	case NOTE_GIVEN_UP:
		take_given_up(l, rank, note->text);
		break;
	case NOTE_ABORT:
		take_abort(l, rank, note->code);
		break;
	case NOTE_SPAWN:
		break;
	}
}

static void take_note(struct loop *l, const struct note *note)
{
	struct nspace *ns = nspace_find(l->job, note->nspace);

	if (note->kind == NOTE_SPAWN)
		take_spawn(l, note->spawn);
	else if (ns && note->rank < 0)
		for (int r = 0; r < ns->nranks; r++)
			take_note_of(l, &ns->ranks[r], note);
	else if (ns && note->rank < ns->nranks)
		take_note_of(l, &ns->ranks[note->rank], note);
}

static void take_notes(struct loop *l)
{
	struct note *note;

	while ((note = notes_take())) {
		take_note(l, note);
		free(note);
	}
}

/* ---- signals ------------------------------------------------------------------------------------------------------------ */

/* A later SIGCONT is passed on like any other signal. */
static void stop_self(struct loop *l, int sig)
{
	signal_all(l, sig);
	raise(SIGSTOP);		/* sig itself is blocked */
}

/* A signal that ends programs. The first goes to the ranks, which end by themselves; a later SIGINT or SIGTERM, unless
 * within REPEAT_NS, kills all ranks. */
static void take_ending_signal(struct loop *l, int sig)
{
	uint64_t now = monotonic_ns();

	bool wish = sig == SIGINT || sig == SIGTERM;

	if (l->forwarded && now - l->forwarded_at < REPEAT_NS) {
		if (sig == l->forwarded)
			return;
	} else if (l->asked && wish) {
		complain("second signal: ending all ranks now");
		end_job(l, EXIT_BY_SIGNAL + sig);
		kill_job(l);
		return;
	}
	l->asked |= wish;
	l->forwarded_at = now;
	l->forwarded = sig;
	signal_all(l, sig);
	if (sig == SIGTERM) {
		signal_all(l, SIGCONT);		/* a stopped process must see the signal */
		be_patient(l);
	}
}

static void take_signal(struct loop *l, int sig)
{
	switch (sig) {
	case SIGCHLD:
		break;
	case SIGTSTP:
		stop_self(l, sig);
		break;
	case SIGINT:
	case SIGTERM:
	case SIGHUP:
	case SIGQUIT:
		take_ending_signal(l, sig);
		break;
	case SIGUSR1:
		hang_ask(l->job, true);
		break;
	default:
		signal_all(l, sig);
	}
}

static void take_signals(struct loop *l)
{
	struct signalfd_siginfo info;

	while (read(l->signal_fd, &info, sizeof info) == sizeof info)
		take_signal(l, (int)info.ssi_signo);
	supervise_reap(l);
}

/* ---- time --------------------------------------------------------------------------------------------------------------- */

static void list_running(struct loop *l, char *text, size_t size)
{
	size_t len = 0;

	*text = 0;
	for (const struct rank *r = rank_first(l->job); r; r = rank_next(r)) {
		char number[24];

		if ((r->ended && !r->lingers) || r->foreign)
			continue;
		if (len + 32 > size) {
			snprintf(text + len, size - len, ", ...");
			return;
		}
		rank_tag(r, ':', number, sizeof number);
		len += (size_t)snprintf(text + len, size - len, "%s%s", len ? ", " : "", number);
	}
}

/* The ranks have had their time to end: kills them. */
static void escalate(struct loop *l)
{
	char who[256];

	list_running(l, who, sizeof who);
	if (*who && l->kill_after != GRACE_MS / 1e3)
		complain("rank %s did not end within %g s after %s (--kill-after): killed", who, l->kill_after,
			 l->forwarded && l->forwarded != SIGTERM ? "the first rank did" : "SIGTERM");
	fail_with(l, EXIT_BY_SIGNAL + (l->forwarded ? l->forwarded : SIGKILL));
	kill_job(l);
}

/* Kills the ranks of namespaces whose time to end is over, while the other namespaces go on. */
static void escalate_nspaces(struct loop *l, uint64_t now)
{
	for (struct nspace *ns = l->job->nspaces; ns; ns = ns->next) {
		if (!ns->kill_at || now < ns->kill_at)
			continue;
		ns->kill_at = 0;
		signal_nspace(ns, SIGKILL);
	}
}

static void judge_all_absent(struct loop *l)
{
	for (struct nspace *ns = l->job->nspaces; ns; ns = ns->next)
		if (ns->unjudged_ns)
			judge_absent(l, ns);
}

/* Returns true if a namespace has the time that its ranks' ends have to be looked for, and the earliest time of a SIGKILL. */
static bool nspaces_wait(const struct loop *l, uint64_t *next)
{
	bool unjudged = false;

	for (const struct nspace *ns = l->job->nspaces; ns; ns = ns->next) {
		unjudged |= ns->unjudged_ns != 0;
		if (ns->kill_at && ns->kill_at < *next)
			*next = ns->kill_at;
	}
	return unjudged;
}

static void check_time(struct loop *l)
{
	uint64_t now = monotonic_ns();
	char who[256];

	if (l->timeout_at && now >= l->timeout_at) {
		l->timeout_at = 0;
		list_running(l, who, sizeof who);
		complain("the job has not ended within %g s (%s): ending rank %s", l->job->opt.timeout,
			 l->job->opt.timeout_by, who);
		if (l->state == RUNNING)
			l->exit_code = EXIT_TIMEOUT;
		tell_to_end(l, l->job->opt.kill_after);
	}
	if (l->tell_at && now >= l->tell_at) {
		l->tell_at = 0;
		list_running(l, who, sizeof who);
		if (*who && l->kill_at > now)
			complain("still waiting for rank %s, which is killed in %.0f s (--kill-after); another SIGINT or SIGTERM "
				 "ends it now", who, (double)(l->kill_at - now) / 1e9);
	}
	if (l->hang_at && now >= l->hang_at) {
		l->hang_at = 0;
		complain("the job has run for %g s (--report-hang)", l->job->opt.report_hang);
		hang_ask(l->job, false);
	}
	if (l->kill_at && now >= l->kill_at)
		escalate(l);
	escalate_nspaces(l, now);
	judge_all_absent(l);
	hang_check(l->job);
}

static int wait_ms(const struct loop *l)
{
	uint64_t now = monotonic_ns(), next = hang_next() ? hang_next() : UINT64_MAX;
	bool unjudged = nspaces_wait(l, &next);

	if (l->timeout_at && l->timeout_at < next)
		next = l->timeout_at;
	if (l->hang_at && l->hang_at < next)
		next = l->hang_at;
	if (l->kill_at && l->kill_at < next)
		next = l->kill_at;
	if (l->tell_at && l->tell_at < next)
		next = l->tell_at;
	/* Terminal input while the rank is slow or another process group is in the foreground has no event to wait for,
	 * nor has the end of a process whose parent is no rank. */
	if ((l->terminal.fd >= 0 || l->lingering || unjudged) && next > now + 200000000)
		next = now + 200000000;
	if (next == UINT64_MAX)
		return -1;
	return next <= now ? 0 : next - now > 1000000000000ull ? 1000000 : (int)((next - now) / 1000000) + 1;
}

/* ---- the loop ------------------------------------------------------------------------------------------------------------ */

static void supervise_watch(struct loop *l, int fd, void *what)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.ptr = what };

	if (epoll_ctl(l->epoll, EPOLL_CTL_ADD, fd, &ev)) {
		complain("descriptor %d cannot be watched: %s", fd, strerror(errno));
		end_job(l, EXIT_FAILURE);
	}
}

/* Takes the ranks of a namespace that was started under supervision. */
static void watch_ranks(struct loop *l, struct nspace *ns)
{
	l->running += ns->running;
	for (int r = 0; r < ns->nranks; r++) {
		struct rank *rank = &ns->ranks[r];

		if (rank->out)
			supervise_watch(l, stream_fd(rank->out), &rank->out);
		if (rank->err)
			supervise_watch(l, stream_fd(rank->err), &rank->err);
	}
}

static bool open_loop(struct loop *l, const sigset_t *signals)
{
	l->epoll = epoll_create1(EPOLL_CLOEXEC);
	l->signal_fd = signalfd(-1, signals, SFD_CLOEXEC | SFD_NONBLOCK);
	if (l->epoll < 0 || l->signal_fd < 0) {
		complain("no descriptors to wait on: %s", strerror(errno));
		return false;
	}
	supervise_watch(l, l->signal_fd, &l->signal_fd);
	supervise_watch(l, l->note_fd, &l->note_fd);
	if (l->job->behind_fd >= 0)
		supervise_watch(l, l->job->behind_fd, &l->job->behind_fd);
	if (l->job->behind_pidfd >= 0)
		supervise_watch(l, l->job->behind_pidfd, &l->job->behind_fd);
	watch_ranks(l, l->job->nspaces);
	return true;
}

/* The program that has started this heddlerun has ended, or has called MPI_Finalize. The ranks that the program has spawned go
 * on after MPI_Finalize only. */
static void end_behind(struct loop *l)
{
	struct rank *rank = l->job->nspaces->ranks;
	char rest[64];

	epoll_ctl(l->epoll, EPOLL_CTL_DEL, l->job->behind_fd, NULL);
	epoll_ctl(l->epoll, EPOLL_CTL_DEL, l->job->behind_pidfd, NULL);
	take_notes(l);
	note_end(l, rank);
	if (!rank->joined || rank->left || l->state != RUNNING)
		return;
	if (*supervise_others(l, rank, true, rest, sizeof rest))
		complain("process %d (%s), which has spawned ranks, has ended without MPI_Finalize%s", (int)rank->pid,
			 rank->app->argv[0], rest);
	end_connected(l, rank->ns, EXIT_FAILURE);
}

static void supervise_turn(struct loop *l)
{
	struct epoll_event ev[64];
	int n = epoll_wait(l->epoll, ev, 64, wait_ms(l));
	bool signals = false, behind = false;

	for (int i = 0; i < n; i++) {
		void *what = ev[i].data.ptr;
		struct stream **stream = what;

		if (what == &l->signal_fd)
			signals = true;
		else if (what == &l->note_fd)
			;	/* below */
		else if (what == &l->job->behind_fd)
			behind = true;
		else if (*stream && !stream_copy(*stream)) {
			stream_free(*stream);
			*stream = NULL;
		}
	}
	if (l->terminal.fd >= 0)
		terminal_copy(&l->terminal);
	take_notes(l);
	if (signals)
		take_signals(l);
	else if (l->lingering)
		look_for_lingerers(l);
	if (behind)
		end_behind(l);
	check_time(l);
	drop_nspaces(l);
}

int supervise(struct job *job, int note_fd, int tty_fd, int failed)
{
	struct loop l = { .job = job, .note_fd = note_fd, .terminal = { .fd = tty_fd } };
	uint64_t now = monotonic_ns();

	if (!open_loop(&l, &job->taken))
		return EXIT_FAILURE;	/* the guard ends the ranks */
	if (job->opt.timeout > 0)
		l.timeout_at = now + (uint64_t)(job->opt.timeout * 1e9);
	if (job->opt.report_hang > 0)
		l.hang_at = now + (uint64_t)(job->opt.report_hang * 1e9);
	if (failed)
		end_job(&l, failed);
	supervise_reap(&l);
	/* After SIGKILL only the ranks themselves are waited for: any other process may be in the kernel for long. */
	while (l.running || (l.lingering && l.state != KILLED))
		supervise_turn(&l);
	for (struct rank *r = rank_first(job); r; r = rank_next(r)) {
		drain_output(&r->out);
		drain_output(&r->err);
	}
	terminal_close(&l.terminal);
	detached_end(job, l.signal_fd, l.state == LEAVING || l.state == ENDING, l.kill_at ? l.kill_at : UINT64_MAX);
	close(l.signal_fd);
	close(l.epoll);
	return l.exit_code;
}
