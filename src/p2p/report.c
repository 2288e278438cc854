/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a rank waits for, when somebody asks: SIGUSR1, from a person or from heddlerun --report-hang.
 *
 * The handler is installed only when HEDDLE_REPORT_HANG asks for it: the signal belongs to the program. It may run at any
 * time and in any thread, so it prints no report: it leaves a flag, and wakes who waits. That one prints it between two
 * turns of progress, when no queue is half changed. Of a rank that does not wait the handler says so.
 *
 * A flag set after the last look at it and before the sleep is not lost: the sleep is prepared first, and then ended by
 * the handler's wake; and the turn of progress between preparing and sleeping looks at the flag, too (look_for_wanted).
 */
#include "p2p/match.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

const char *hdl_call = "";
const struct hdl_op *hdl_blocked;

enum { WANTED = 1, NOTICED };
static volatile sig_atomic_t idling, wanted, installed;
static struct sigaction before;
static char busy[512];
static int busy_len;

/* ---- explanations -------------------------------------------------------------------------------------- */

static char reason[320], reason_taken[320];

void hdl_reason_set(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(reason, sizeof(reason), fmt, ap);
	va_end(ap);
}

const char *hdl_reason_take(void)
{
	if (!reason[0])
		return "";
	memcpy(reason_taken, reason, sizeof(reason));
	reason[0] = 0;
	return reason_taken;
}

/* ---- the report ---------------------------------------------------------------------------------------- */

static void line_begin(FILE *out)
{
	fprintf(out, "heddle: rank %d (%s): ", hdl_job.rank, hdl_job.hostname);
}

static const char *number(char buf[static 16], int value, int any)
{
	if (value == any)
		return "any";
	snprintf(buf, 16, "%d", value);
	return buf;
}

static void dump_posted(const struct hdl_op *op, void *arg)
{
	char label[MPI_MAX_OBJECT_NAME], src[16], world[32] = "", tag[16];
	FILE *out = arg;

	if (op->peer >= 0 && op->peer != op->src)
		snprintf(world, sizeof(world), " (%d in MPI_COMM_WORLD)", op->src);
	line_begin(out);
	fprintf(out, "waits to receive from rank %s%s, tag %s, %s%s, up to %zu bytes\n",
		number(src, op->peer, MPI_ANY_SOURCE), world, number(tag, op->tag, MPI_ANY_TAG),
		hdl_comm_label(op->req.comm, label), op->context & 1 ? " (collective)" : "", op->bytes);
}

static void dump_active(const struct hdl_op *op, void *arg)
{
	char label[MPI_MAX_OBJECT_NAME];
	FILE *out = arg;

	if (op->posted)
		return;
	hdl_comm_label(op->req.comm, label);
	line_begin(out);
	if (op->kind == HDL_REQ_OTHER)
		fprintf(out, "waits for a collective of %s\n", label);
	else
		fprintf(out, "waits for %s rank %d, tag %d, %s%s, %zu bytes%s\n",
			op->kind == HDL_REQ_SEND ? "a send to" : "the data from", op->peer, op->tag, label,
			op->context & 1 ? " (collective)" : "", op->bytes, op->kind == HDL_REQ_SEND && op->sync ?
			", synchronous" : "");
}

void hdl_p2p_dump(FILE *out)
{
	for (const struct hdl_waiter *w = hdl_waiters; w; w = w->next) {
		line_begin(out);
		fprintf(out, "a thread waits in %s\n", w->call);
		if (w->op)
			dump_active(w->op, out);
	}
	line_begin(out);
	fprintf(out, "in %s; %zu unexpected messages, %zu bytes\n", hdl_call[0] ? hdl_call : "no MPI call",
		hdl_match_unexpected_count(), hdl_unexpected_bytes);
	hdl_match_each_posted(dump_posted, out);
	if (hdl_blocked)
		dump_active(hdl_blocked, out);
	hdl_op_each_active(dump_active, out);
	hdl_tp_dump(out);
	fflush(out);
}

static void on_signal(int sig)
{
	int saved = errno;

	(void)sig;
	wanted = WANTED;
	if (hdl_threads ? hdl_waiters != NULL : idling)
		hdl_tp_wake();
	else if (write(STDERR_FILENO, busy, (size_t)busy_len) < 0)
		wanted = WANTED;
	errno = saved;
}

/* Part of a turn of progress: one more turn instead of a sleep. */
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
	if (unlikely(wanted)) {
		wanted = 0;
		hdl_p2p_dump(stderr);
	}
	hdl_tp_idle(idle);
	idling = 0;
}

int hdl_report_start(void)
{
	return installed ? hdl_tp_progress_add(look_for_wanted, NULL) : 0;
}

int hdl_report_init(void)
{
	/* No SA_RESTART: a sleeping rank comes back, and looks at its queues. */
	struct sigaction sa = { .sa_handler = on_signal };

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
