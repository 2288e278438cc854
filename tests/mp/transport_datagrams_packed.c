/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages that waited for room in UD's window go several in a packet; in the midst of them the peer becomes hot, and
 * gets its DC lane at once. That lane is bounded by the packet, which may be lost: though nothing else is in flight,
 * and though it was not full.
 *
 *     transport_datagrams_packed	2 ranks, HEDDLE_TRANSPORT=dc,ud
 *
 * Looks into the transport's inside: when all has been acknowledged, and whether the lane is bounded.
 */
#include "transport_test.h"

enum { GATHERED = 2, WAITING = 6, FILL = 1000, LAST = FILL };

static int expected;
static bool has_last;

static void arrived(void *context, int src, const struct hdl_hdr *hdr, const void *payload)
{
	(void)context;
	(void)payload;
	has_last = hdr->tag == LAST;
	if (!has_last && hdr->tag != expected)
		fail("message %d from rank %d comes when %d is expected", hdr->tag, src, expected);
	expected++;
}

static unsigned waiting;

static void done(struct hdl_send *s, int err)
{
	(void)s;
	if (err)
		fail("a send failed: %s", strerror(-err));
	waiting--;
}

/* Returns true if the message waits for room. */
static bool send_one(struct hdl_ep *ep, int tag)
{
	static struct hdl_send sends[WAITING + 1];
	struct hdl_send *s = &sends[waiting];
	int r;

	s->done = done;
	if ((r = hdl_ep_send(ep, tag, 7, false, NULL, 0, s)) < 0)
		fail("a send: %s", strerror(-r));
	waiting += !r;
	return !r;
}

static void send_all(void)
{
	struct hdl_ep *ep = ep_of(tp, 1);
	unsigned idle = 0;
	int tag = 0;

	hdl_vars.hot_messages = 2 * FILL;
	while (tag < FILL && waiting < WAITING)
		send_one(ep, tag++);
	if (waiting < WAITING)
		fail("%d messages, and no window is full", tag);
	while (!hdl_rel_idle(ep->rel)) {
		hdl_tp_poll_rcq(ep->dev);
		hdl_tp_timers(tp, monotonic_ns());
	}
	hdl_vars.hot_messages = (int)ep->sent_msgs + GATHERED;
	hdl_tp_progress(tp);
	if (waiting || ep->conn.state != HDL_CONN_READY || ep->conn.kind != HDL_QUEUE_DC ||
	    ep->out_srq.msgs != WAITING - GATHERED)
		fail("%u messages wait, %llu went by a connected lane: %d by DC are wanted", waiting,
		     (unsigned long long)ep->out_srq.msgs, WAITING - GATHERED);
	if (!ep->reorder_guard_ud)
		fail("the DC lane is not bounded by the UD packet in flight");
	send_one(ep, LAST);
	while (waiting)
		turn(&idle);
}

int main(void)
{
	static const struct hdl_upcalls up = { .arrived = arrived, .peer_failed = no_peer_fails };
	unsigned idle = 0;

	start(&up);
	if (hdl_job.size != 2)
		fail("%d ranks: 2 are wanted", hdl_job.size);
	if (!hdl_job.rank)
		send_all();
	else
		while (!has_last)
			turn(&idle);
	return finish();
}
