/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rings that are taken back: each rank may give one ring only (HEDDLE_RING_PEERS=1), and changes partners. Every round the
 * partners exchange messages until each has given its ring to the other, for which the ring of the round before must be revoked.
 * Then both send without making progress, and in every second round the ring is revoked right then, full of unread frames. No
 * message may be lost, doubled or out of order.
 *
 *     transport_rings [rounds]		4 ranks, HEDDLE_RING_PEERS=1
 *
 * Uses internal state of the transport: whether a ring is given; and makes the peer look silent when the ring is to be revoked.
 */
#include "transport_test.h"

enum { RANKS = 4, BURST = 400 };

struct note {
	uint32_t round;
	uint32_t given;			/* the sender has given a ring to the receiver */
	uint32_t last;			/* this is the sender's last message of the round */
	uint32_t burst;			/* number of messages of the round's burst sent so far, this one included; 0: this message
					 * is not of the burst */
	uint8_t filling[200];		/* a part of these bytes is sent, too */
};
#define NOTE_HEAD offsetof(struct note, filling)

static uint32_t sent_to[RANKS], got_from[RANKS];
static uint32_t got_round[RANKS], got_in_round[RANKS];	/* the latest round, and how many messages were of it */
static uint32_t given[RANKS], last[RANKS];	/* the latest round with that flag from a rank, plus one */
static uint32_t got_burst[RANKS];		/* of the latest round's first burst */

static void arrived(void *context, int src, const struct hdl_hdr *hdr, const void *payload)
{
	struct note n;
	uint32_t len = hdr->len;

	(void)context;
	if (hdr->kind != HDL_EAGER || len < NOTE_HEAD || len > sizeof(n))
		fail("a message of kind %u with %u bytes from rank %d", hdr->kind, len, src);
	if ((uint32_t)hdr->tag != got_from[src])
		fail("message %d from rank %d comes when %u is expected", hdr->tag, src, got_from[src]);
	memcpy(&n, payload, len);
	for (uint32_t i = 0; i < len - NOTE_HEAD; i++)
		if (n.filling[i] != (uint8_t)(got_from[src] + i))
			fail("message %u from rank %d is damaged at byte %u", got_from[src], src, i);
	got_from[src]++;
	if (n.round != got_round[src])
		got_in_round[src] = got_burst[src] = 0;
	got_round[src] = n.round;
	got_in_round[src]++;
	if (n.burst)
		got_burst[src] = n.burst;
	if (n.given)
		given[src] = n.round + 1;
	if (n.last)
		last[src] = n.round + 1;
}

static void done(struct hdl_send *s, int err)
{
	if (err)
		fail("a send failed: %s", strerror(-err));
	free(s);
}

static void send_note(int to, uint32_t round, bool is_given, bool is_last, uint32_t burst)
{
	/* the buffer lives until the send is done */
	struct { struct hdl_send send; struct note n; } *m = calloc(1, sizeof(*m));
	uint32_t more = sent_to[to] % 5 ? sent_to[to] % 40 : (uint32_t)sizeof(m->n.filling);

	if (!m)
		fail("out of memory");
	m->send.done = done;
	m->n.round = round;
	m->n.given = is_given;
	m->n.last = is_last;
	m->n.burst = burst;
	for (uint32_t i = 0; i < more; i++)
		m->n.filling[i] = (uint8_t)(sent_to[to] + i);
	int r = hdl_ep_send(ep_of(tp, to), (int32_t)sent_to[to], 7, false, &m->n, NOTE_HEAD + more, &m->send);
	if (r < 0)
		fail("send to rank %d: %s", to, strerror(-r));
	sent_to[to]++;
	if (r)
		free(m);
}

/* Exchanges messages until each has given its ring to the other, and nothing waits. */
static void talk(int partner, uint32_t round)
{
	struct hdl_ep *ep = ep_of(tp, partner);
	uint32_t sent = 0;
	bool said = false;
	unsigned idle = 0;

	while (!said || given[partner] <= round || ep->pend) {
		bool now = ep->rx_state == HDL_RX_ACTIVE;
		uint32_t got = got_round[partner] == round ? got_in_round[partner] : 0;

		if (sent < got + 4 || (now && !said)) {
			send_note(partner, round, now, false, 0);
			sent++;
			said |= now;
		}
		turn(&idle);
	}
}

/*
 * Makes the partner look silent, as if by earlier checks, and the next partner busy. Some of the partner's burst lies in the ring
 * unread: the partner sends all of the burst before making progress. But a partner that knows that this rank sleeps (idle.c)
 * sends the burst by another lane, and may wait for an answer; so this rank makes progress now and then, and if all of the burst
 * has come that way, the ring is not revoked. Returns whether the ring is revoked.
 */
static bool take_back(struct hdl_ep *ep, struct hdl_ep *next, uint32_t round)
{
	enum { ANSWER_NS = 2000000 };
	uint64_t from = monotonic_ns(), began = from;

	while (!hdl_ring_peek(&ep->rx)) {
		uint64_t now = monotonic_ns();

		if (got_round[ep->rank] == round && got_burst[ep->rank] == BURST)
			return false;
		if (now - began > 60000000000ull)
			fail("%u of %d messages of rank %d have come, and none lies in its ring", got_burst[ep->rank], BURST,
			     ep->rank);
		if (now - from > ANSWER_NS) {
			hdl_tp_progress(tp);
			from = monotonic_ns();
		}
	}
	ep->rx_rate = 0;
	ep->rx_mark = ep->rx.consumed;
	next->slow_msgs = (uint32_t)hdl_vars.hot_messages;
	hdl_ring_consider(next);
	if (ep->rx_state != HDL_RX_REVOKING)
		fail("the ring of rank %d is not taken back", ep->rank);
	return true;
}

int main(int argc, char **argv)
{
	static const struct hdl_upcalls up = { .arrived = arrived, .peer_failed = no_peer_fails };
	uint32_t rounds = argc > 1 ? (uint32_t)atoi(argv[1]) : 9, given_away = 0, taken_full = 0;
	unsigned idle = 0;

	start(&up);
	if (hdl_job.size != RANKS || hdl_vars.ring_peers != 1)
		fail("%d ranks with HEDDLE_RING_PEERS=%d: 4 and 1 are wanted", hdl_job.size, hdl_vars.ring_peers);
	for (uint32_t round = 0; round < rounds; round++) {
		int partner = hdl_job.rank ^ (int)(1 + round % (RANKS - 1));
		int next = hdl_job.rank ^ (int)(1 + (round + 1) % (RANKS - 1));
		struct hdl_ep *ep = ep_of(tp, partner);

		talk(partner, round);
		for (int i = 0; i < BURST; i++)
			send_note(partner, round, true, false, (uint32_t)i + 1);
		if (round % 2 && ep_of(tp, next)->sq)
			taken_full += take_back(ep, ep_of(tp, next), round);
		for (int i = 0; i < BURST; i++)
			send_note(partner, round, true, i == BURST - 1, 0);
		while (last[partner] != round + 1)
			turn(&idle);
	}
	for (int r = 0; r < RANKS; r++)
		given_away += ep_of(tp, r)->rings_out;
	/* one at a time: each but the first was given after another one had come back */
	if (given_away < rounds || (rounds > 3 && !taken_full))
		fail("%u rings were given in %u rounds, %u taken back with frames in them", given_away, rounds, taken_full);
	return finish();
}
