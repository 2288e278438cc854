/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * No sender runs another sender's queue into RNR: the receives of a pool are shared out among the senders (srq_credit.h). Rank 0
 * is the receiver, the last rank sends one message, the ranks between (fast senders) send as fast as possible. Without rings:
 *     1. Rank 0 makes no progress. The fast senders send up to their credits; then the device of the last rank completes that
 *        rank's message all the same, and so has every request of the fast senders.
 *     2. Rank 0 receives all messages slowly: waiting senders go on, nothing is lost, and requests that meet no receive stay
 *        rare.
 * A device reports uncompleted requests by a word of the queue (shca_unfinished): that is a request that waits for a receive. On
 * a device without that word there is nothing to count.
 */
#include <inttypes.h>
#include <shca.h>

#include "transport_test.h"

enum { GREETINGS = 40, BURST = 300, STREAM = 3000, TURNS = 3000, TAG_LAST = 7 };
/* Of a hundred requests. A grant that was made while the other ranks did not send may still be used when they begin. */
#define RARE 5

static unsigned got, last_ones, ended, rnr;
static struct hdl_send sends[GREETINGS + BURST + STREAM + 1];

static void arrived(void *context, int src, const struct hdl_hdr *hdr, const void *payload)
{
	(void)context;
	got++;
	last_ones += hdr->tag == TAG_LAST;
}

static void sent(struct hdl_send *s, int err)
{
	ended++;
}

static _Noreturn void wrong(const char *text)
{
	fail("%s (got %u, ended %u, %u met no receive)", text, got, ended, rnr);
}

static bool meets_none(int peer)
{
	const struct hdl_sq *sq = ep_of(tp, peer)->sq;

	return sq && __atomic_load_n(sq->unfinished, __ATOMIC_ACQUIRE);
}

static void send_one(int peer, int tag, struct hdl_send *s)
{
	static const char text[100] = "a message";

	s->done = sent;
	if (hdl_ep_send(ep_of(tp, peer), tag, 2, false, text, sizeof(text), s) == 1)
		ended++;
	rnr += meets_none(peer);
}

static void greet(void)
{
	int from = hdl_job.rank ? 0 : 1, to = hdl_job.rank ? 1 : hdl_job.size;
	unsigned idle = 0, peers = (unsigned)(to - from);

	for (unsigned i = 0; i < GREETINGS; i++) {
		static struct hdl_send s[64];
		for (int p = from; p < to; p++)
			send_one(p, 1, &s[p]);
		while (got < peers * (i + 1) || ended < peers * (i + 1))
			turn(&idle);
	}
	for (int p = from; p < to; p++)
		if (!ep_of(tp, p)->sq)
			wrong("there is no connected lane: nothing is tested");
	got = ended = 0;
}

static void fence(void)
{
	if (hdl_rt_fence())
		wrong("no fence");
}

static void receiver(unsigned all)
{
	unsigned idle = 0;

	fence();	/* the fast senders have used up their credits, ... */
	fence();	/* ... and the last rank has sent its message */
	while (got < all) {
		turn(&idle);
		if (got < all && got % 64 == 0)
			usleep(200);
	}
	if (!last_ones)
		wrong("the last one's message is missing");
	if (hdl_ep_find(tp, 0))
		wrong("a message to itself");
}

static void sender(bool fast)
{
	unsigned idle = 0, n = 0;

	for (; fast && n < BURST; n++) {
		send_one(0, 2, &sends[n]);
		hdl_tp_progress(tp);
	}
	for (int i = 0; fast && i < TURNS; i++)
		hdl_tp_progress(tp);
	if (fast && ended == BURST)
		wrong("all is sent though the receiver is not there: nothing is tested");
	if (meets_none(0))
		wrong("a request waits for a receive");
	fence();
	if (!fast) {
		send_one(0, TAG_LAST, &sends[n++]);
		if (meets_none(0))
			wrong("others have taken all receives");
	}
	fence();
	for (; fast && n < BURST + STREAM; n++) {
		send_one(0, 3, &sends[n]);
		while (ended + 64 < n)
			turn(&idle);
	}
	while (ended < n)
		turn(&idle);
	if (rnr * 100 > n * RARE)
		wrong("requests that meet no receive are not rare");
}

int main(void)
{
	static const struct hdl_upcalls up = { .arrived = arrived };
	const uint32_t *word;
	bool tells;
	int rank;

	start(&up);
	rank = hdl_job.rank;
	greet();
	tells = tp->dev[0]->promises.at_once;
	if (tells && rank && shca_unfinished(ep_of(tp, 0)->sq->qp, &word))
		wrong("this device does not tell what it has not carried out");
	fence();
	rnr = 0;
	if (!tells)
		fprintf(stderr,
			"rank %d: this device does not tell what it has not carried out (SHCA_BEHAVE=async): nothing is "
			"counted\n",
			rank);
	else if (rank)
		sender(rank < hdl_job.size - 1);
	else
		receiver((unsigned)(hdl_job.size - 2) * (BURST + STREAM) + 1);
	if (getenv("SHARES_SHOW") && rank && tells)
		fprintf(stderr, "rank %d: %u of its requests met no receive, sent %" PRIu64 "\n", rank, rnr,
			ep_of(tp, 0)->sq->requests);
	return finish();
}
