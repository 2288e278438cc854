/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Failure detection: two ranks exchange messages, then rank 1 kills itself by a signal. Rank 0 must detect that: sends and
 * fetches end with an error, and the upcall peer_failed names the peer. Rank 0 ignores the launcher's SIGTERM meanwhile.
 * Argument:
 *     (none)   rank 0 goes on sending
 *     waits    rank 0 has nothing to send, and sleeps
 *     unknown  rank 0 goes on sending, and takes rank 1 for a process of another host (proc.start is 0)
 *     silent   rank 0 has nothing to send, and takes rank 1 for a process of another host: it must send keepalives (UD)
 *     computes the same, but rank 1 only computes: rank 0 must send keepalives, and not take rank 1 for dead (connected kinds)
 *     fails    rank 0 lives and fails the endpoint of rank 1; rank 1 must learn that
 *     lost     the same, but the control message that tells rank 1 is lost the first time, and rank 1 only waits
 *     refused  the same, where no connection was to be had and UD serves all
 *     stop     rank 1 is stopped by SIGSTOP for longer than HEDDLE_UD_TIMEOUT: rank 0 must not take rank 1 for dead
 */
#include <errno.h>

#include "transport_test.h"

#define GREETINGS 100u

static unsigned got;
static int dead = -1, ended, pending;

static void arrived(void *context, int src, const struct hdl_hdr *hdr, const void *payload)
{
	(void)context;
	got++;
}

static void peer_failed(void *context, int peer, int err)
{
	(void)context;
	dead = peer;
}

static void sent(struct hdl_send *s, int err)
{
	ended++;
	pending--;
	free(s);
}

static void send_to(int peer, size_t n)
{
	static char data[100000];
	struct hdl_send *s = calloc(1, sizeof(*s));

	s->done = sent;
	int r = hdl_ep_send(ep_of(tp, peer), 1, 2, false, data, n, s);
	if (!r)
		pending++;
	else
		free(s);
}

/* Rank 1 is continued after 1.5 s, receives the messages sent meanwhile, and answers. */
static int stopped(int peer)
{
	uint64_t until = monotonic_ns() + 1500000000;
	unsigned n, idle = 0;

	if (hdl_job.rank == 1) {
		kill(getpid(), SIGSTOP);
		while (got < GREETINGS + 100)	/* some of the 100 messages may have arrived before SIGSTOP */
			turn(&idle);
		send_to(peer, 8);
	} else {
		for (n = 0; monotonic_ns() < until; usleep(1000)) {
			if (n < 50) {
				send_to(peer, 8);
				n++;
			}
			hdl_tp_progress(tp);
		}
		kill((pid_t)ep_of(tp, peer)->proc.pid, SIGCONT);
		for (; n < 100; n++)
			send_to(peer, 8);
		while (got == GREETINGS && dead < 0)
			turn(&idle);
		fprintf(stderr, dead < 0 ? "the stopped rank answers\n" : "a stopped rank is taken for dead\n");
	}
	return dead < 0 && !hdl_tp_fini(&tp) ? hdl_rt_fini(false) : 1;
}

/* Rank 1 computes for longer than HEDDLE_KEEPALIVE and HEDDLE_UD_TIMEOUT together. The device of rank 1 answers rank 0 all the
 * same. */
static int computes(int peer)
{
	uint64_t until = monotonic_ns() + 2500000000;
	unsigned idle = 0;

	if (hdl_job.rank == 1) {
		while (monotonic_ns() < until)
			;
		send_to(peer, 8);
	} else {
		struct hdl_ep *ep = ep_of(tp, peer);
		uint64_t before = ep->sq ? ep->sq->requests : 0;

		ep->proc.start = 0;
		ep->dev->promises.tells_end = false;
		while (got == GREETINGS && dead < 0)
			turn(&idle);
		uint64_t probes = ep->sq ? ep->sq->requests - before : 0;
		fprintf(stderr, dead < 0 && probes >= 2 ? "was asked and lives\n" : "dead: %d, %u requests\n", dead,
			(unsigned)probes);
	}
	return dead < 0 && !hdl_tp_fini(&tp) ? hdl_rt_fini(false) : 1;
}

/* Rank 0 fails the endpoint of rank 1 (hdl_ep_fail). Rank 1 must learn that. Does not return. */
static void gives_up(int peer, bool lost)
{
	unsigned idle = 0;

	if (hdl_job.rank == 0) {
		struct hdl_ep *ep = ep_of(tp, peer);

		signal(SIGTERM, SIG_DFL);
		ep->name.incarnation ^= lost;	/* rank 1 drops a message for another incarnation */
		hdl_ep_fail(ep, -EIO);
		while (tp->ndone)
			hdl_tp_progress(tp);
		ep->name.incarnation ^= lost;
		for (;;)
			turn(&idle);
	}
	while (dead < 0)
		turn(&idle);
	struct hdl_send s = { .done = sent };
	int again = hdl_ep_send(ep_of(tp, peer), 1, 2, false, "x", 1, &s);
	fprintf(stderr, "told of rank %d, which lives, then %s\n", dead, again < 0 ? "refused" : "accepted");
	fflush(NULL);
	_exit(0);
}

int main(int argc, char **argv)
{
	static const struct hdl_upcalls up = { .arrived = arrived, .peer_failed = peer_failed };
	const char *mode = argc > 1 ? argv[1] : "";
	unsigned idle = 0;

	signal(SIGTERM, SIG_IGN);
	start(&up);
	int peer = !hdl_job.rank;
	if (!strcmp(mode, "refused"))
		ep_of(tp, peer)->conn.state = HDL_CONN_FAILED;
	for (unsigned i = 0; i < GREETINGS; i++) {
		send_to(peer, 8);
		/* rank 0 of gives_up may fail the endpoint before its last greeting has left */
		while (got < i + 1 && dead < 0)
			hdl_tp_progress(tp);
	}
	if (!strcmp(mode, "stop"))
		return stopped(peer);
	if (!strcmp(mode, "computes"))
		return computes(peer);
	if (!strcmp(mode, "fails") || !strcmp(mode, "lost") || !strcmp(mode, "refused"))
		gives_up(peer, !strcmp(mode, "lost"));
	/* Rank 1 dies only when rank 0 has all greetings: posted requests may still be queued in the device of rank 1, and would
	 * die with the process */
	if (hdl_job.rank == 0)
		send_to(peer, 8);
	while (hdl_job.rank == 1 && got < GREETINGS + 1)
		hdl_tp_progress(tp);
	if (hdl_job.rank == 1) {
		if (!strcmp(mode, "waits") || !strcmp(mode, "silent"))
			usleep(100000);
		kill(getpid(), SIGKILL);
		pause();
	}
	if (!strcmp(mode, "unknown") || !strcmp(mode, "silent"))
		ep_of(tp, peer)->proc.start = 0;
	/* a rendezvous that rank 1 will not answer, and eager messages that rank 1 will not read */
	bool sends = strcmp(mode, "waits") && strcmp(mode, "silent");
	if (sends)
		send_to(peer, 100000);
	while (dead < 0) {
		if (sends)
			send_to(peer, 8);
		turn(&idle);
	}
	while (pending)
		hdl_tp_progress(tp);
	struct hdl_send s = { .done = sent };
	int again = hdl_ep_send(ep_of(tp, peer), 1, 2, false, "x", 1, &s);
	fprintf(stderr, "told of rank %d, %d sends ended, then %s\n", dead, ended, again < 0 ? "refused" : "accepted");
	fflush(NULL);
	_exit(dead == 1 && again < 0 && (ended > 0 || !sends) ? 0 : 1);
}
