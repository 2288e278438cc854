/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * First contact: names go with messages until the receiver's id is known, and no longer. Rank 1 sends rank 0 a message, which
 * rank 0's program never answers, and learns its id at rank 0 all the same; later messages of rank 1 carry that id. The ranks
 * then send each other messages by turns, and few more names may have come. Over the kinds of HEDDLE_TRANSPORT, without rings:
 * frames do not name their sender. A third rank meets the others in another order, so that ids and ranks are not the same.
 */
#include "transport_test.h"

#define MANY	500
#define NAMES	12		/* from a peer, before both have heard their ids: connecting takes some messages */
#define LONG_NS	60000000000u

static unsigned got[3];

static void arrived(void *context, int src, const struct hdl_hdr *hdr, const void *payload)
{
	(void)context;
	if (hdr->len != 4 || memcmp(payload, "name", 4))
		fail("a message of %u bytes from rank %d", hdr->len, src);
	got[src]++;
}

static void sent(struct hdl_send *s, int err)
{
	if (err)
		fail("a send failed (%d)", err);
	free(s);
}

static void send_to(int peer)
{
	struct hdl_send *s = calloc(1, sizeof(*s));
	int r;

	s->done = sent;
	r = hdl_ep_send(ep_of(tp, peer), 1, 2, false, "name", 4, s);
	if (r < 0)
		fail("send to rank %d (%d)", peer, r);
	if (r)
		free(s);
}

static bool told(int peer)
{
	return ep_of(tp, peer)->id_there != HDL_NAMED && !(ep_of(tp, peer)->src & HDL_TELLS);
}

#define UNTIL(cond) \
	do { \
		uint64_t end_ = monotonic_ns() + LONG_NS; \
		unsigned idle_ = 0; \
		while (!(cond)) { \
			turn(&idle_); \
			if (monotonic_ns() > end_) \
				fail("waits in vain: %s", #cond); \
		} \
	} while (0)

/* before: messages that have come from the peer ahead of these */
static void turns(int peer, bool first, unsigned before)
{
	for (unsigned i = 1; i <= MANY; i++) {
		if (first)
			send_to(peer);
		UNTIL(got[peer] >= before + i);
		if (!first)
			send_to(peer);
	}
}

int main(int argc, char **argv)
{
	static const struct hdl_upcalls up = { .arrived = arrived, .peer_failed = no_peer_fails };
	int me;

	start(&up);
	me = hdl_job.rank;
	if (me == 2) {		/* is rank 0's first peer, or not, depending on the order of arrival */
		send_to(0);
		turns(0, true, 0);
	}
	if (me == 1) {
		send_to(0);
		UNTIL(ep_of(tp, 0)->id_there != HDL_NAMED);
		for (int i = 1; i < MANY; i++)
			send_to(0);
		turns(0, true, 0);
		if (!told(0))
			fail("rank 0 does not know its id here, which it was told %u times", MANY);
	}
	if (me == 0) {
		UNTIL(got[2]);
		turns(2, false, 1);
		UNTIL(got[1] >= MANY);
		turns(1, false, MANY);
		if (ep_of(tp, 1)->id == ep_of(tp, 2)->id || !told(1) || !told(2))
			fail("ids are not known after %u messages", MANY);
	}
	if (tp->names > 2 * NAMES)
		fail("%llu messages came with their sender's name", (unsigned long long)tp->names);
	if (tp->stale)
		fail("%llu messages were refused", (unsigned long long)tp->stale);
	return finish();
}
