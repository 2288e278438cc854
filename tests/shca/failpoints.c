/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Death at every step: for each failpoint of the engine, each kind of request and each kind of executor three processes join a
 * new fabric, one of them is killed exactly at that failpoint, and the survivors must find everything right.
 *
 *     A    owns the queue T under test; T is connected to B
 *     B    T's responder; also sends to A
 *     X    a third process, connected to both
 *
 * The executor that dies is A itself (A's queue ordinary: "owner", or cross-channel: "owner, shared"), or X ("third party"): then
 * T holds a WAIT before the request, A is stopped by SIGSTOP, and X's message to A, for which the WAIT waits, makes X execute T.
 * Work that X leaves unfinished must be completed while A is still stopped.
 *
 * Executor "reaper": a fourth process Y finds X dead, which died just after locking T, and goes on with T; B is stopped
 * meanwhile, too. Then Y dies at the point, and B, continued, must complete the work of both.
 *
 * Executor "helper": B, polling, copies chunks of A's large write, and dies in one.
 *
 *     failpoints [--all] [-v] [POINT [REQUEST [EXECUTOR [MEMORY]]]]
 *
 * Cases run by turns in memory of the fabric and in private memory; MEMORY is "arena" or "private" for all of them.
 */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "failpoints.h"

/* ---- the cases --------------------------------------------------------------------------------------------------- */

static const char *const req_name[] = {
	"SEND", "SEND_IMM", "WRITE", "WRITE_IMM", "READ", "CAS", "FAA", "MASKED_CAS", "MASKED_FAA", "MASKED_FAA(wide)", "WAIT",
	"SEND_ENABLE", "RECV_ENABLE", "SEND(too-long)", "WRITE(bad-key)", "SEND(bad-lkey)", "SEND(rnr)", "SEND(srq)",
	"SEND(calc)", "READ(calc)", "any",
};
static const char *const executor_name[] = {"owner", "owner-shared", "third-party", "reaper", "helper"};
#define D (1u << E_DIRECT)
#define S (1u << E_SHARED)
#define T2 (1u << E_THIRD)
#define R4 (1u << E_REAPER)
#define H5 (1u << E_HELPER)
#define T3 (T2 | R4)

static const struct point points[] = {
	{"exec", "exec", M_DATA | M_BAD | M(SEND_RNR), D | S | T3, W_REQ, 0, false, "WAIT and ENABLE move nothing"},
	{"found", "found", M_DATA | M_BAD | M(SEND_RNR), D | S | T3, W_REQ, 0, false, "WAIT and ENABLE go nowhere"},
	{"calc", "calc", M_CALC, S | T3, W_REQ, 0, false, "nothing is computed"},
	{"operands", "operands", M_ATOMICS, D | S | T3, W_REQ, 0, false, "no atomic"},
	{"take", "take", M_TAKES, D | S | T3, W_REQ, 0, false, "takes no receive"},
	{"taken", "taken", M_TAKES | M(SEND_LONG), D | S | T3, W_REQ, 0, false, "takes no receive"},
	{"data", "data", M_SENDS | M(WRITE) | M(WRITE_IMM) | M(READ) | M(READ_CALC), D | S | T3, W_REQ, 0, false,
	 "moves no data that could be partly there"},
	{"data-done", "data-done", M_SENDS | M(READ) | M(READ_CALC), D | S | T3, W_REQ, 0, false, "a write ends with final-done"},
	{"body-done", "body-done", M(WRITE) | M(WRITE_IMM), T3, W_REQ, 0, false,
	 "the end is read before only where a third process writes"},
	{"final", "final", M(WRITE) | M(WRITE_IMM), D | S | T3, W_REQ, 0, true, "only writes have a last line"},
	{"final-done", "final-done", M(WRITE) | M(WRITE_IMM), D | S | T3, W_REQ, 0, true, "only writes have a last line"},
	{"wrote", "wrote", M(WRITE_IMM), D | S | T3, W_REQ, 0, false, "only WRITE_IMM takes a receive after its data"},
	{"atomic", "atomic", M_ATOMICS, D | S | T3, W_REQ, 0, true, "no atomic"},
	{"atomic-locked", "atomic-locked", M_ATOMICS, D | S | T3, W_LAST, 0, true, "no atomic"},
	{"atomic-journaled", "atomic-journaled", M(WFAA), D | S | T3, W_LAST, 0, true, "not wide"},
	{"atomic-half", "atomic-half", M(WFAA), D | S | T3, W_LAST, 0, true, "not wide"},
	{"atomic-stored", "atomic-stored", M(WFAA), D | S | T3, W_LAST, 0, true, "not wide"},
	{"atomic-done", "atomic-done", M_ATOMICS, D | S | T3, W_REQ, 0, true, "no atomic"},
	{"rcqe", "rcqe", M_TAKES | M(SEND_LONG), D | S | T3, W_REQ, 0, false, "the responder gets no completion"},
	{"rcqe-visible", "cqe-visible", M_TAKES | M(SEND_LONG), D | S | T3, W_REQ, 0, false, "the responder gets no completion"},
	{"rcqe-done", "rcqe-done", M_TAKES | M(SEND_LONG), D | S | T3, W_REQ, 0, false, "the responder gets no completion"},
	{"half-failed", "half-failed", M_BAD, D | S | T3, W_REQ, 0, false,
	 "the request does not fail, or fails before it is run"},
	{"failing", "failing", M_BAD | M_OWN, S | T3, W_REQ, 0, false, "the request does not fail"},
	{"failed", "failed", M_BAD | M_OWN, D | S | T3, W_REQ, 0, false, "the request does not fail"},
	{"scqe", "scqe", M_DATA | M_CROSS | M_BAD | M_OWN, D | S | T3, W_REQ, 0, false,
	 "an ordinary queue takes no WAIT or ENABLE"},
	{"scqe-visible", "cqe-visible", M_DATA | M_CROSS | M_BAD | M_OWN, D | S | T3, W_REQ, 1, false,
	 "an ordinary queue takes no WAIT or ENABLE"},
	{"scqe-done", "scqe-done", M_DATA | M_CROSS | M_BAD | M_OWN, D | S | T3, W_REQ, 0, false,
	 "an ordinary queue takes no WAIT or ENABLE"},
	{"advanced", "advanced", M_DATA | M_CROSS, S | T3, W_REQ, 0, false, "an ordinary queue that runs at once has no head"},
	{"wait-unmet", "wait-unmet", M(WAIT), S | T3, W_T, 0, false, "not a WAIT"},
	{"wait-met", "wait-met", M(WAIT), S | T3, W_REQ, 0, false, "not a WAIT"},
	{"enable-raised", "enable-raised", M(SEND_EN) | M(RECV_EN), S | T3, W_REQ, 0, false, "not an ENABLE"},
	{"enabled", "enabled", M(SEND_EN) | M(RECV_EN), S | T3, W_REQ, 0, false, "not an ENABLE"},
	{"kick", "kick", M(ANY), S | T2, W_T, 0, false, "belongs to the queue, not to one request: see any"},
	{"claimed", "claimed", M(ANY), S | T2, W_T, 0, false, "belongs to the queue, not to one request: see any"},
	{"run", "run", M(ANY), S | T3, W_T, 0, false, "belongs to the queue, not to one request: see any"},
	{"release", "release", M(ANY), S | T3, W_T, 0, false, "belongs to the queue, not to one request: see any"},
	{"timer-set", "timer-set", M(SEND_RNR), D | S | T3, W_ANY, 0, false, "does not wait"},
	/* X dies in the message to A, when the completion is visible and before X looks up the WAITs for it */
	{"trigger-visible", "cqe-visible", M(ANY), T2, W_XA, 0, false, "belongs to X's queue, not to one request: see any"},
	{"flush-taken", "flush-taken", M_BAD, S | T3, W_T, 0, false, "nothing is flushed"},
	{"flush-done", "flush-done", M_BAD, S | T3, W_T, 0, false, "nothing is flushed"},
	{"nak", "nak", M_BAD, D | S | T3, W_REQ, 0, false, "the responder does not refuse it"},
	{"peer-half-failed", "half-failed", M_BAD, D | S | T3, W_TB, 0, false, "the responder's queue does not fail"},
	{"peer-fatal", "fatal", M_BAD, D | S | T3, W_TB, 0, false, "the responder's queue does not fail"},
	{"peer-kick", "kick", M_BAD, D | S | T3, W_TB, 0, false, "the responder's queue does not fail"},
	{"peer-claimed", "claimed", M_BAD, D | S | T3, W_TB, 0, false, "the responder's queue does not fail"},
	{"peer-flush-taken", "flush-taken", M_BAD, D | S | T3, W_TB, 0, false, "the responder's queue is not flushed"},
	{"peer-flush-done", "flush-done", M_BAD, D | S | T3, W_TB, 0, false, "the responder's queue is not flushed"},
	{"rnr-link", "rnr-link", M(SEND_RNR), D | S | T3, W_T, 0, false, "does not wait for a receive"},
	{"rnr-list", "rnr-list", M(RECV_EN), S | T3, W_ANY, 0, false, "makes no receive available"},
	{"rnr-turn", "rnr-turn", M(RECV_EN), S | T3, W_RS, 0, false, "makes no receive available"},
	{"rnr-unlink", "rnr-unlink", M(RECV_EN), S | T3, W_RS, 0, false, "makes no receive available"},
	{"rnr-woken", "rnr-woken", M(RECV_EN), S | T3, W_RS, 0, false, "makes no receive available"},
	{"peer-kick-en", "kick", M(SEND_EN) | M(RECV_EN), S | T3, W_RS, 0, false, "not an ENABLE"},
	{"peer-claimed-en", "claimed", M(SEND_EN) | M(RECV_EN), S | T3, W_RS, 0, false, "not an ENABLE"},
	{"share", "share", M(WRITE) | M(READ), H5, W_ANY, 0, false, "only large writes and reads of private memory are divided"},
	{"share-done", "share-done", M(WRITE) | M(READ), H5, W_ANY, 0, false,
	 "only large writes and reads of private memory are divided"},
	{"helper-look", "helper-look", M_REAP, R4, W_ANY, 0, false, "independent of the request"},
	{"reap-begin", "reap-begin", M_REAP, R4, W_ANY, 0, false, "independent of the request"},
	{"reap-own", "reap-own", M_REAP, R4, W_ANY, 0, false, "independent of the request"},
	{"reap-foreign", "reap-foreign", M_REAP, R4, W_ANY, 0, false, "independent of the request"},
	{"reap-waiters", "reap-waiters", M_REAP, R4, W_ANY, 0, false, "independent of the request"},
	{"reap-links", "reap-links", M_REAP, R4, W_ANY, 0, false, "independent of the request"},
	{"reap-memory", "reap-memory", M_REAP, R4, W_ANY, 0, false, "independent of the request"},
	{"reap-end", "reap-end", M_REAP, R4, W_ANY, 0, false, "independent of the request"},
};
#define POINTS (sizeof(points) / sizeof(*points))

/* ---- the runner ------------------------------------------------------------------------------------------------------ */

static pid_t start(int role)
{
	pid_t pid = fork();

	if (pid < 0)
		FAIL("fork: %s", strerror(errno));
	if (pid)
		return pid;
	failpoint_arms = st->arm;
	alarm(60);
	if (st->ex == E_HELPER)
		role == A ? help_a() : role == B ? help_b() : help_x();
	else if (role == A)
		role_a();
	else if (role == B)
		role_b();
	else if (role == Y)
		role_y();
	else
		role_x();
	_exit(0);
}

static bool ended(pid_t pid, int *status, uint64_t within_ns)
{
	for (uint64_t end = now() + within_ns; now() < end; nap()) {
		pid_t p = waitpid(pid, status, WNOHANG);
		if (p == pid)
			return true;
	}
	return false;
}

/* Barriers count roles: the dead ones are counted by the runner. */
static void stand_in(uint32_t n)
{
	for (int i = 4; i < 16; i++)
		atomic_fetch_add(&st->at[i], n);
}

/* Waits for a victim. Returns whether the victim died at the failpoint. */
static bool died(pid_t pid, int i, char *why, size_t n, bool *gone)
{
	int status;

	*gone = ended(pid, &status, 2 * WITHIN);
	if (!*gone)
		snprintf(why, n, "victim %d lives on", i);
	else if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL || !atomic_load(&st->arm[i].hit))
		snprintf(why, n, "the point was not hit: victim's status %#x, hit %u", status, atomic_load(&st->arm[i].hit));
	else
		return true;
	return false;
}

/* While A is stopped, B checks the results of T. */
static bool b_is_content(pid_t b, bool *gone, char *why, size_t n)
{
	int status;

	for (uint64_t end = now() + 2 * WITHIN; !atomic_load(&st->b_done) && now() < end; nap()) {
		if (waitpid(b, &status, WNOHANG) == b) {
			*gone = true;
			snprintf(why, n, "B failed while A was stopped");
			return false;
		}
	}
	return true;
}

static bool run_case(const struct point *p, enum req req, enum executor ex, unsigned number, bool private, char *why, size_t n)
{
	pid_t pid[ROLES];
	int status;
	bool gone[ROLES] = {false}, good;

	memset(st, 0, sizeof(*st));
	snprintf(st->fabric, sizeof(st->fabric), "failpoints-%d-%u", (int)getpid(), number);
	st->p = *p;
	st->req = req;
	st->ex = ex;
	st->priv = private;
	why[0] = 0;
	for (uint32_t r = 0; r < roles(); r++)
		pid[r] = start((int)r);
	if (third()) {
		for (uint64_t end = now() + WITHIN; atomic_load(&st->at[3]) < roles() && now() < end;)
			nap();
		/* before X dies: the helper thread of A or B might find X dead, and be stopped in the middle of the reaping */
		rig_stop_outside(&st->stops, pid, stopped_ends());
	}
	int victim = third() ? X : ex == E_HELPER ? B : A;
	good = died(pid[victim], 0, why, n, &gone[victim]);
	if (good && ex == E_REAPER)
		good = died(pid[Y], 1, why, n, &gone[Y]);
	if (good) {
		stand_in(ex == E_REAPER ? 2 : 1);
		atomic_store(&st->dead, 1);
		if (third()) {
			kill(pid[B], SIGCONT);
			good = b_is_content(pid[B], &gone[B], why, n);
			atomic_store(&st->finish, 1);
		}
	}
	for (uint32_t r = 0; r < roles(); r++) {
		if (gone[r])
			continue;
		if (!good)
			kill(pid[r], SIGKILL);
		kill(pid[r], SIGCONT);
		if (!ended(pid[r], &status, 3 * WITHIN)) {
			if (good)
				snprintf(why, n, "%c does not end", "ABXY"[r]);
			good = false;
			kill(pid[r], SIGKILL);
			waitpid(pid[r], &status, 0);
		} else if (good && (!WIFEXITED(status) || WEXITSTATUS(status))) {
			snprintf(why, n, "%c: status %#x", "ABXY"[r], status);
			good = false;
		}
	}
	return good;
}

static bool selected(char **argv, int argc, const struct point *p, int r, int e)
{
	return (argc < 1 || !strcmp(argv[0], p->name)) && (argc < 2 || !strcmp(argv[1], req_name[r])) &&
	       (argc < 3 || !strcmp(argv[2], executor_name[e]));
}

/* An executor that cannot come here, though the request can. */
static const char *impossible(const struct point *p, int r, int e)
{
	if (!(p->reqs & 1u << r))
		return p->why;
	if (!(p->executors & 1u << e) && e == E_HELPER)
		return "a helper only copies";
	if (!(p->executors & 1u << e) && (p->executors & H5))
		return "the executor's own chunks are part of its copy: see data, final";
	if (!(p->executors & 1u << e) && p->where == W_ANY)
		return "a reaper's step";
	if (!(p->executors & 1u << e) && e == E_REAPER)
		return "the reaper finds the queue locked: it takes it over";
	if (!(p->executors & 1u << e) && p->where == W_XA)
		return "X's own queue";
	if (!(p->executors & 1u << e))
		return "an ordinary queue's owner runs it without lock, list or head";
	if (e == E_DIRECT && (M_CALC & 1u << r))
		return "an ordinary queue computes nothing";
	if (e == E_DIRECT && (M_CROSS & 1u << r))
		return "an ordinary queue takes no WAIT or ENABLE";
	if (e == E_DIRECT && r >= R_MCAS && r <= R_MFAA && !strcmp(p->name, "advanced"))
		return "an ordinary queue's owner runs it without lock, list or head";
	return NULL;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {{"all", no_argument, NULL, 'a'}, {NULL, 0, NULL, 0}};
	unsigned passed = 0, failed = 0, number = 0;
	bool verbose = false;
	char why[200];
	int c;

	while ((c = getopt_long(argc, argv, "av", options, NULL)) != -1) {
		if (c == 'v')
			verbose = true;
		else if (c != 'a') {
			fprintf(stderr, "usage: %s [--all] [-v] [point [request [executor [arena|private]]]]\n", argv[0]);
			return 2;
		}
	}
	argv += optind;
	argc -= optind;
	setvbuf(stdout, NULL, _IOLBF, 0);
	setenv("SHCA_DEATH_MS", "20", 0);
	unsetenv("SHCA_FABRIC_FD");
	st = mmap(NULL, sizeof(*st), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (st == MAP_FAILED)
		FAIL("mmap: %s", strerror(errno));
	for (size_t i = 0; i < POINTS; i++)
		for (int r = 0; r < R_KINDS; r++)
			for (int e = 0; e < E_KINDS; e++) {
				const struct point *p = &points[i];
				const char *no = impossible(p, r, e);
				if (!selected(argv, argc, p, r, e))
					continue;
				number++;
				if (no) {
					/* variants of a request, and helpers, are there for some points only */
					if ((r < R_SEND_LONG && (e != E_HELPER || p->executors & H5)) || verbose)
						printf("%-18s %-15s %-13s -     cannot occur: %s\n", p->name, req_name[r],
						       executor_name[e], no);
					continue;
				}
				uint64_t t0 = now();
				bool private = argc > 3 ? !strcmp(argv[3], "private") : number & 1;
				bool good = run_case(p, r, e, number, private, why, sizeof(why));
				passed += good;
				failed += !good;
				printf("%-18s %-15s %-13s %s hit by %s%s%s", p->name, req_name[r], executor_name[e],
				       good ? "ok   " : "FAIL ",
				       atomic_load(&st->arm[e == E_REAPER].hit_foreign) ? "another" : "its owner",
				       good ? "" : ": ", why);
				if (verbose)
					printf(" (%lu ms)", (unsigned long)((now() - t0) / 1000000));
				printf("\n");
			}
	printf("%u passed, %u failed\n", passed, failed);
	return failed || !passed;
}
