/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The hang report of a rank. heddlerun requests a report by PMIx (runtime/ask.h), a user by SIGUSR1. The handler is installed
 * only if HEDDLE_REPORT_HANG is set, since the signal belongs to the program.
 *
 * A request may come at any time and in any thread, so its handler reads no queue: the handler sets a flag and wakes the waiting
 * thread, which reports between two turns of progress, when queues are consistent. If the rank does not wait, the signal handler
 * prints that; heddlerun repeats its request, and PMIx's thread answers the last one.
 *
 * The signal's flag is not lost between the last check of it and a sleep:
 *     1. The thread checks the flag, and prepares its sleep.
 *     2. The handler sets the flag and calls hdl_tp_wake, which ends the prepared sleep.
 *     3. If the handler ran before the sleep was prepared, the turn of progress between preparing and sleeping sees the
 *        flag (look_for_wanted).
 * heddlerun's flag is not checked in 3., which would cost each turn of every job; heddlerun repeats the request instead.
 */
#include "p2p/match.h"
#include "runtime/syscalls.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *hdl_call = "";
const struct hdl_op *hdl_blocked;
const struct hdl_comm *hdl_blocked_comm;
struct hdl_requests hdl_blocked_requests;
uint64_t hdl_blocked_since;
void (*hdl_p2p_on_dump)(FILE *out);
unsigned hdl_dated_after = 64;

enum { WANTED = 1, NOTICED };
static volatile sig_atomic_t idling, wanted, installed;
static volatile sig_atomic_t asked;	/* set by heddlerun's request */
static uint64_t leaving_since;	/* monotonic_ns() when the rank began to leave MPI_Finalize; 0: not yet */
static struct sigaction before;
static char busy[512];
static int busy_len;

/* ---- operations, one by one and together ------------------------------------------------------------------ */

static const char *p2p_report_number(char buf[static 16], int value, int any)
{
	if (value == any)
		return "any";
	snprintf(buf, 16, "%d", value);
	return buf;
}

static void print_op(FILE *out, const struct hdl_op *op)
{
	char label[MPI_MAX_OBJECT_NAME], src[16], proc[128] = "", tag[16];
	const char *kind = op->context & 1 ? " (collective)" : "";

	hdl_comm_label(op->req.comm, label);
	if (op->posted) {
		if (op->peer >= 0 && op->peer != op->src)
			snprintf(proc, sizeof(proc), " (%s)", hdl_proc_text_full(op->src));
		fprintf(out, "waits to receive from rank %s%s, tag %s, %s%s, up to %zu bytes",
			p2p_report_number(src, op->peer, MPI_ANY_SOURCE), proc, p2p_report_number(tag, op->tag, MPI_ANY_TAG),
			label, kind, op->bytes);
	} else if (op->kind == HDL_REQ_OTHER) {
		fprintf(out, "waits for a collective of %s", label);
	} else {
		fprintf(out, "waits for %s rank %d, tag %d, %s%s, %zu bytes%s",
			op->kind == HDL_REQ_SEND ? "a send to" : "the data from", op->peer, op->tag, label, kind,
			op->bytes, op->kind == HDL_REQ_SEND && op->sync ? ", synchronous" : "");
	}
}

/* Requests that differ in tag and size only. A program may have a million of them. */
struct heap {
	const struct hdl_op *first;
	size_t n, bytes;
	int low, high;			/* lowest and highest tag */
};
enum { HEAPS = 12, NAMED = 3 };
struct heaps {
	struct heap heap[HEAPS];
	int n;
	size_t rest;			/* requests that found no free heap */
};

static bool same_heap(const struct hdl_op *a, const struct hdl_op *b)
{
	return a->kind == b->kind && !a->posted == !b->posted && a->req.comm == b->req.comm && a->context == b->context &&
	       a->peer == b->peer;
}

static void add_op(const struct hdl_op *op, void *arg)
{
	struct heaps *all = arg;
	struct heap *h = all->heap;

	while (h < all->heap + all->n && !same_heap(h->first, op))
		h++;
	if (h == all->heap + HEAPS) {
		all->rest++;
		return;
	}
	if (h == all->heap + all->n) {
		all->n++;
		*h = (struct heap){ .first = op, .low = op->tag, .high = op->tag };
	}
	h->n++;
	h->bytes += op->bytes;
	if (op->tag < h->low)
		h->low = op->tag;
	if (op->tag > h->high)
		h->high = op->tag;
}

static void add_active(const struct hdl_op *op, void *arg)
{
	if (!op->posted)
		add_op(op, arg);
}

static void p2p_report_collect(struct heaps *all)
{
	memset(all, 0, sizeof(*all));
	hdl_match_each_posted(hdl_mpi_matching, add_op, all);
	if (hdl_blocked)
		add_active(hdl_blocked, all);
	hdl_op_each_active(add_active, all);
}

static void print_heaps(FILE *out, const struct heaps *all, const char *head)
{
	for (int i = 0; i < all->n; i++) {
		const struct heap *h = &all->heap[i];

		fputs(head, out);
		print_op(out, h->first);
		if (h->n > 1 && h->low != h->high)
			fprintf(out, "; %zu like it, with tags from %d to %d, %zu bytes in all", h->n - 1, h->low, h->high,
				h->bytes);
		else if (h->n > 1)
			fprintf(out, "; %zu like it, %zu bytes in all", h->n - 1, h->bytes);
		fputc('\n', out);
	}
	if (all->rest)
		fprintf(out, "%sand %zu more requests, with other ranks or in other communicators\n", head, all->rest);
}

/* ---- the report for SIGUSR1 -------------------------------------------------------------------------------- */

static void line_begin(FILE *out)
{
	fprintf(out, "heddle: rank %d (%s): ", hdl_job.rank, hdl_job.hostname);
}

void hdl_p2p_dump(FILE *out)
{
	struct heaps all;
	char head[320];

	snprintf(head, sizeof(head), "heddle: rank %d (%.256s): ", hdl_job.rank, hdl_job.hostname);
	for (const struct hdl_waiter *w = hdl_waiters; w; w = w->next) {
		const struct hdl_op *op = w->op;

		fprintf(out, "%sa thread waits in %s\n", head, w->call);
		if (op && !op->posted) {
			fputs(head, out);
			print_op(out, op);
			fputc('\n', out);
		}
	}
	line_begin(out);
	fprintf(out, "in %s; %zu unexpected messages, %zu bytes\n", hdl_call[0] ? hdl_call : "no MPI call",
		hdl_mpi_matching->nunexpected, hdl_mpi_matching->unexpected_bytes);
	p2p_report_collect(&all);
	print_heaps(out, &all, head);
	if (hdl_p2p_on_dump)
		hdl_p2p_on_dump(out);
	hdl_tp_dump(hdl_mpi_tp, out);
	fflush(out);
}

/* ---- the answer for heddlerun ------------------------------------------------------------------------------- */

/* Prints one thread's wait. Ranks with the same wait must print the same text, by which heddlerun groups them. */
static void print_wait(FILE *out, const char *call, const struct hdl_op *op, const struct hdl_comm *comm,
		       const struct heaps *all)
{
	char label[MPI_MAX_OBJECT_NAME], src[16], tag[16];
	size_t receives = 0, sends = 0;

	fprintf(out, "waits in %s", call[0] ? call : "an MPI call");
	if (op && op->kind == HDL_REQ_SEND && !(op->context & 1)) {
		fprintf(out, " to send %zu bytes with tag %d to rank %d on %s", op->bytes, op->tag, op->peer,
			hdl_comm_label(op->req.comm, label));
	} else if (op && op->kind == HDL_REQ_RECV && !(op->context & 1)) {
		fprintf(out, " for %s with tag %s from rank %s on %s", op->posted ? "a message" : "the data of a message",
			p2p_report_number(tag, op->tag, MPI_ANY_TAG), p2p_report_number(src, op->peer, MPI_ANY_SOURCE),
			hdl_comm_label(op->req.comm, label));
	} else if (comm) {
		fprintf(out, " on %s", hdl_comm_label(comm, label));
	} else {
		for (int i = 0; i < all->n; i++) {
			const struct hdl_op *first = all->heap[i].first;

			if (!comm && (first->context & 1 || first->kind == HDL_REQ_OTHER))
				comm = first->req.comm;
			else if (first->kind == HDL_REQ_RECV)
				receives += all->heap[i].n;
			else if (first->kind == HDL_REQ_SEND)
				sends += all->heap[i].n;
		}
		if (comm && !receives && !sends)
			fprintf(out, " on %s", hdl_comm_label(comm, label));
		else if (receives || sends)
			fprintf(out, "; %zu receives and %zu sends are not complete", receives, sends);
	}
	fputc('\n', out);
}

/* Prints the first NAMED requests, of those passed to the call, that are not complete, each with its index. */
static void print_requests(FILE *out, const char *call, const struct hdl_requests *r)
{
	int open = 0;

	for (int i = 0; r && r->of && i < r->count; i++) {
		const struct hdl_req *req = hdl_req_get(r->of[i]);
		const struct hdl_op *op = (const struct hdl_op *)req;

		if (!req || req->done || open++ >= NAMED)
			continue;
		if (op->kind == HDL_REQ_PERSISTENT && op->persistent.inner)
			op = (const struct hdl_op *)op->persistent.inner;
		fprintf(out, "%s's array_of_requests[%d] ", call, i);
		if (op->kind < HDL_REQ_NONE)
			print_op(out, op);
		else
			fputs("is not complete", out);
		fputc('\n', out);
	}
	if (open > NAMED)
		fprintf(out, "and %d more of %s's %d requests\n", open - NAMED, call, r->count);
}

/* Removes messages inside of collectives, which are the library's and not the program's. */
static void drop_collectives(struct heaps *all)
{
	int n = 0;

	for (int i = 0; i < all->n; i++)
		if (!(all->heap[i].first->context & 1) && all->heap[i].first->kind != HDL_REQ_OTHER)
			all->heap[n++] = all->heap[i];
	all->n = n;
}

static uint64_t us_ago(uint64_t since)
{
	uint64_t now = monotonic_ns();

	return since && now > since ? (now - since) / 1000 + 1 : 0;
}

/* Prints the system calls of I/O threads while the rank waits. */
static void print_syscalls(FILE *out)
{
	struct hdl_syscall s;

	for (uint64_t after = 0; hdl_syscall_oldest(after, &s); after = s.since) {
		fprintf(out, "%s%s is in ", *s.call ? "a thread in " : "an I/O thread", s.call);
		hdl_syscall_print(&s, out);
		fputc('\n', out);
		hdl_syscall_print_holders(&s, out);
	}
}

/* Answers with the system call on a file in which the rank's thread blocks. Returns false if there is none. */
static bool answer_by_syscall(void)
{
	struct hdl_syscall s;
	char *text = NULL;
	size_t len;
	FILE *out;

	if (!hdl_syscall_oldest(0, &s) || !(out = open_memstream(&text, &len)))
		return false;
	fprintf(out, "%llu\nwaits in %s: in ", (unsigned long long)us_ago(s.since), *s.call ? s.call : "an I/O thread");
	hdl_syscall_print(&s, out);
	fputc('\n', out);
	hdl_syscall_print_holders(&s, out);
	if (!fclose(out))
		hdl_rt_answer(text);
	free(text);
	return true;
}

static void p2p_report_answer(void)
{
	const struct hdl_waiter *w = hdl_waiters;
	struct heaps all;
	char *text = NULL;
	size_t len, more = 0;
	FILE *out = open_memstream(&text, &len);

	if (!out)
		return;		/* heddlerun reports that this rank does not answer */
	p2p_report_collect(&all);
	fprintf(out, "%llu\n", (unsigned long long)us_ago(w ? w->since : hdl_blocked_since));
	if (w)
		print_wait(out, w->call, w->op, w->comm, &all);
	else
		print_wait(out, hdl_call, hdl_blocked, hdl_blocked_comm, &all);
	for (w = w ? w->next : NULL; w; w = w->next) {
		if (more++ >= HEAPS)
			continue;
		fputs("another thread ", out);
		print_wait(out, w->call, w->op, w->comm, &all);
	}
	if (more > HEAPS)
		fprintf(out, "and %zu more threads\n", more - HEAPS);
	if (hdl_waiters)
		print_requests(out, hdl_waiters->call, hdl_waiters->requests);
	else
		print_requests(out, hdl_call, &hdl_blocked_requests);
	print_syscalls(out);
	drop_collectives(&all);
	if (hdl_p2p_on_dump)
		hdl_p2p_on_dump(out);
	if (all.n > 1 || (all.n && (all.heap[0].n > 1 || !(hdl_blocked || (hdl_waiters && hdl_waiters->op)))))
		print_heaps(out, &all, "");
	if (hdl_mpi_matching->nunexpected)
		fprintf(out, "has %zu bytes in messages that came before their receive, those of collectives included: %zu\n",
			hdl_mpi_matching->unexpected_bytes, hdl_mpi_matching->nunexpected);
	if (!fclose(out))
		hdl_rt_answer(text);
	free(text);
}

/* Called on PMIx's thread. */
static void p2p_report_on_ask(bool now)
{
	const char *call = hdl_call;
	char text[256];

	if (!now) {
		hdl_syscalls_date();
		asked = WANTED;
		hdl_tp_wake(hdl_mpi_tp);
	} else if (asked) {
		asked = 0;
		if (answer_by_syscall())
			return;
		snprintf(text, sizeof(text), "0\ndoes not wait in MPI%s%s%s\n",
			 call[0] ? ": it computes (the last call that could wait: " : ", and has not done so since MPI_Init",
			 call, call[0] ? ")" : "");
		hdl_rt_answer(text);
	}
}

/* The same when the transport may be closed already. */
static void on_ask_leaving(bool now)
{
	char text[64];

	(void)now;
	snprintf(text, sizeof(text), "%llu\nwaits in MPI_Finalize for the other ranks\n",
		 (unsigned long long)us_ago(leaving_since));
	hdl_rt_answer(text);
}

/* ---- being asked ---------------------------------------------------------------------------------------------- */

static void report_on_signal(int sig)
{
	int saved = errno;

	(void)sig;
	wanted = WANTED;
	if (hdl_threads ? hdl_waiters != NULL : idling)
		hdl_tp_wake(hdl_mpi_tp);
	else if (write(STDERR_FILENO, busy, (size_t)busy_len) < 0)
		wanted = WANTED;
	errno = saved;
}

/* Part of a turn of progress: if a report was requested, the turn counts as one that found something, so that no sleep
 * follows. */
static int look_for_wanted(void *arg)
{
	(void)arg;
	if (likely(wanted != WANTED))
		return 0;
	wanted = NOTICED;
	return 1;
}

void hdl_p2p_idle(unsigned *idle)
{
	idling = 1;
	if (unlikely(*idle == hdl_dated_after) && !hdl_blocked_since)
		hdl_blocked_since = monotonic_ns();
	if (unlikely(wanted)) {
		wanted = 0;
		hdl_p2p_dump(stderr);
	}
	if (unlikely(asked)) {
		asked = 0;
		p2p_report_answer();
	}
	hdl_tp_idle(hdl_mpi_tp, idle);
	idling = 0;
}

int hdl_report_start(void)
{
	/* A rank that neither spins nor yields may sleep after its first turn that finds nothing. */
	if ((unsigned)hdl_vars.yield < hdl_dated_after)
		hdl_dated_after = (unsigned)hdl_vars.yield;
	hdl_rt_on_ask(p2p_report_on_ask);
	return installed ? hdl_tp_progress_add(hdl_mpi_tp, look_for_wanted, NULL) : 0;
}

/* ---- MPI_Finalize that waits for sends ---------------------------------------------------------------------- */

static uint64_t late_at;	/* monotonic_ns() when the report is due; 0: already printed, or not configured */

static void add_send(const struct hdl_op *op, void *arg)
{
	if (op->kind == HDL_REQ_SEND)
		add_op(op, arg);
}

/* hdl_tp_on_p2p_timers's function. Returns the time of its next call; 0: never. */
static uint64_t report_late(uint64_t now)
{
	struct heaps all = { .n = 0 };
	char head[320];

	if (!late_at || now < late_at)
		return late_at;
	late_at = 0;
	hdl_op_each_active(add_send, &all);
	snprintf(head, sizeof(head), "heddle: rank %d (%.256s): MPI_Finalize ", hdl_job.rank, hdl_job.hostname);
	print_heaps(stderr, &all, head);
	line_begin(stderr);
	fprintf(stderr,
		"MPI_Finalize has waited for %g s, and waits until each of these sends is received: is a receive missing there, "
		"or is that rank late? (HEDDLE_FINALIZE_WARN)\n",
		(double)hdl_vars.finalize_warn / 1e6);
	return 0;
}

void hdl_report_finalizing(bool waits)
{
	late_at = waits && hdl_vars.finalize_warn ? monotonic_ns() + hdl_vars.finalize_warn * 1000 : 0;
	hdl_tp_on_p2p_timers(hdl_mpi_tp, waits ? report_late : NULL);
}

void hdl_report_leaving(void)
{
	leaving_since = monotonic_ns();
	hdl_rt_on_ask(on_ask_leaving);
}

int hdl_report_init(void)
{
	/* No SA_RESTART: a sleep ends, and the rank looks at its queues. */
	struct sigaction sa = { .sa_handler = report_on_signal };

	if (!hdl_vars.report_hang)
		return 0;
	busy_len = snprintf(busy, sizeof(busy),
			    "heddle: rank %d (%.256s): does not wait in MPI at this moment: it computes, or "
			    "a message is being handled; it reports when it waits\n", hdl_job.rank, hdl_job.hostname);
	if (sigaction(SIGUSR1, &sa, &before))
		return -errno;
	installed = 1;
	return 0;
}

void hdl_report_fini(void)
{
	if (installed)
		sigaction(SIGUSR1, &before, NULL);
	installed = 0;
}
