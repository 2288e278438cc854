/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A peer that is gone: two ranks exchange messages, then rank 1 is killed by a signal that it sends itself. Rank 0 goes
 * on sending and must be told: its sends and fetches end with an error, and peer_failed names the peer. Rank 0 ignores
 * the launcher's SIGTERM while it waits for that.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/runtime.h"
#include "transport/transport.h"

static unsigned got;
static int dead = -1, ended, pending;

static void arrived(int src, const struct hdl_hdr *hdr, const void *payload)
{
	got++;
}

static void peer_failed(int peer, int err)
{
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
	int r = hdl_ep_send(hdl_ep(peer), 1, 2, false, data, n, s);
	if (!r)
		pending++;
	else
		free(s);
}

int main(void)
{
	static const struct hdl_upcalls up = { .arrived = arrived, .peer_failed = peer_failed };
	unsigned idle = 0;

	signal(SIGTERM, SIG_IGN);
	if (hdl_vars_load() || hdl_rt_init() || hdl_tp_init(&up))
		return 1;
	int peer = !hdl_job.rank;
	for (unsigned i = 0; i < 100; i++) {
		send_to(peer, 8);
		while (got < i + 1)
			hdl_tp_progress();
	}
	if (hdl_job.rank == 1) {
		kill(getpid(), SIGKILL);
		pause();
	}
	/* a rendezvous that nobody will answer, and eager messages that nobody will read */
	send_to(peer, 100000);
	while (dead < 0) {
		send_to(peer, 8);
		if (hdl_tp_progress())
			idle = 0;
		else
			hdl_tp_idle(&idle);
	}
	while (pending)
		hdl_tp_progress();
	struct hdl_send s = { .done = sent };
	int again = hdl_ep_send(hdl_ep(peer), 1, 2, false, "x", 1, &s);
	fprintf(stderr, "told of rank %d, %d sends ended, then %s\n", dead, ended, again < 0 ? "refused" : "accepted");
	fflush(NULL);
	_exit(dead == 1 && again < 0 && ended > 0 ? 0 : 1);
}
