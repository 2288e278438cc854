/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A peer that is gone: two ranks exchange messages, then rank 1 is killed by a signal that it sends itself. Rank 0 must
 * be told: its sends and fetches end with an error, and peer_failed names the peer. Rank 0 ignores the launcher's
 * SIGTERM while it waits for that. Argument:
 *     (none)   rank 0 goes on sending
 *     waits    it has nothing to send, and sleeps
 *     unknown  it goes on sending, and is not on the peer's host, as far as it knows
 *     silent   rank 0 has nothing to send, and is not on the peer's host, as far as it knows: it must ask (UD)
 *     computes the same, but rank 1 only computes: it must be asked, and not be taken for dead (connected kinds)
 *     fails    rank 0 lives and gives rank 1 up, which must be told
 *     lost     the same, but what says so is lost the first time, and rank 1 only waits
 *     refused  the same, where no connection was to be had and UD serves all
 *     stop     rank 1 is only stopped, for longer than HEDDLE_UD_TIMEOUT: it must not be taken for dead
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
	int r = hdl_ep_send(hdl_ep(tp, peer), 1, 2, false, data, n, s);
	if (!r)
		pending++;
	else
		free(s);
}

/* Rank 1 comes back after a while and answers what it was sent meanwhile. */
static int stopped(int peer)
{
	uint64_t until = monotonic_ns() + 1500000000;
	unsigned n, idle = 0;

	if (hdl_job.rank == 1) {
		kill(getpid(), SIGSTOP);
		while (got < GREETINGS + 100)	/* some may be here already */
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
		kill((pid_t)hdl_ep(tp, peer)->proc.pid, SIGCONT);
		for (; n < 100; n++)
			send_to(peer, 8);
		while (got == GREETINGS && dead < 0)
			turn(&idle);
		fprintf(stderr, dead < 0 ? "the stopped rank answers\n" : "a stopped rank is taken for dead\n");
	}
	return dead < 0 && !hdl_tp_fini(&tp) ? hdl_rt_fini(false) : 1;
}

/* Rank 1 computes for longer than HEDDLE_KEEPALIVE and HEDDLE_UD_TIMEOUT together. Its device answers rank 0 all the same. */
static int computes(int peer)
{
	uint64_t until = monotonic_ns() + 2500000000;
	unsigned idle = 0;

	if (hdl_job.rank == 1) {
		while (monotonic_ns() < until)
			;
		send_to(peer, 8);
	} else {
		struct hdl_ep *ep = hdl_ep(tp, peer);
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

/* Rank 0 meets an error on its side of the connection. Does not return. */
static void gives_up(int peer, bool lost)
{
	unsigned idle = 0;

	if (hdl_job.rank == 0) {
		struct hdl_ep *ep = hdl_ep(tp, peer);

		signal(SIGTERM, SIG_DFL);
		ep->name.incarnation ^= lost;	/* what is for another life is dropped */
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
	int again = hdl_ep_send(hdl_ep(tp, peer), 1, 2, false, "x", 1, &s);
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
		hdl_ep(tp, peer)->conn.state = HDL_CONN_FAILED;
	for (unsigned i = 0; i < GREETINGS; i++) {
		send_to(peer, 8);
		/* who gives the connection up may do so before its last one has left */
		while (got < i + 1 && dead < 0)
			hdl_tp_progress(tp);
	}
	if (!strcmp(mode, "stop"))
		return stopped(peer);
	if (!strcmp(mode, "computes"))
		return computes(peer);
	if (!strcmp(mode, "fails") || !strcmp(mode, "lost") || !strcmp(mode, "refused"))
		gives_up(peer, !strcmp(mode, "lost"));
	/* rank 0 has all of them: a device may only have queued what was posted, and it would die with its process */
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
		hdl_ep(tp, peer)->proc.start = 0;
	/* a rendezvous that nobody will answer, and eager messages that nobody will read */
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
	int again = hdl_ep_send(hdl_ep(tp, peer), 1, 2, false, "x", 1, &s);
	fprintf(stderr, "told of rank %d, %d sends ended, then %s\n", dead, ended, again < 0 ? "refused" : "accepted");
	fflush(NULL);
	_exit(dead == 1 && again < 0 && (ended > 0 || !sends) ? 0 : 1);
}
