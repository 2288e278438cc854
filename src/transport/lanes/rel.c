/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/lanes/rel.h"

#include <string.h>

static uint32_t rel_least(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

/* ---- packets in flight ------------------------------------------------------------------------------------- */

uint32_t hdl_rel_shares(uint32_t pool, uint32_t peers, uint32_t active, uint32_t *base)
{
	uint32_t usable = pool - pool / 4, rest, share;

	if (peers < 1)
		peers = 1;
	if (active < 1)
		active = 1;
	if (active > peers)
		active = peers;
	/* Senders that are idle may begin at any time, all at once. Where the pool suffices for all of them for good, no sender
	 * has to ask. */
	if (usable / peers >= HDL_REL_WINDOW / 2) {
		*base = rel_least(usable / peers, HDL_REL_WINDOW);
		return *base;
	}
	*base = usable / 2 / peers;
	*base = *base < 2 ? 2 : *base;
	rest = rel_least(*base * (peers - active), usable / 2);
	share = (usable - rest) / active;
	return share < 1 ? 1 : rel_least(share, HDL_REL_WINDOW);
}

static uint32_t whole_window(const struct hdl_rel *r)
{
	return rel_least(r->cwnd, r->share ? r->share : r->base);
}

/* At first half of a small window: then the peer is asked, and may answer while the other half is on the way. For a window of
 * three packets or fewer asking does not pay. */
static void set_window(struct hdl_rel *r)
{
	uint32_t full;

	if (r->next == r->una)
		r->share = 0;		/* reported while packets were in flight: other senders may have begun since */
	full = whole_window(r);
	r->window = full > 3 && full < HDL_REL_SMALL && !(r->slow & HDL_REL_ASKED) ? full / 2 : full;
	r->slow &= (uint8_t)~HDL_REL_WIDE;
	if (r->share)
		r->slow |= HDL_REL_WIDE;
}

void hdl_rel_init(struct hdl_rel *r, uint32_t tx_psn, uint32_t rx_psn, uint32_t rto_ns, uint32_t base)
{
	memset(r, 0, sizeof(*r));
	r->next = r->una = r->seen_una = r->timed = r->recover = tx_psn;
	r->expected = rx_psn;
	r->first_rto_ns = r->rto_ns = rto_ns;
	r->base = (uint8_t)(base < 1 ? 1 : rel_least(base, HDL_REL_WINDOW));
	r->cwnd = HDL_REL_FIRST;
	r->ssthresh = HDL_REL_WINDOW;
	set_window(r);
}

void hdl_rel_share(struct hdl_rel *r, uint32_t share, uint32_t base)
{
	if (share < 1 || share > HDL_REL_WINDOW || base < 1 || base > HDL_REL_WINDOW)
		return;
	r->base = (uint8_t)base;
	r->share = (uint8_t)share;
	set_window(r);
}

/* Sends a probe. late: since nothing has come for the timeout. */
static void rel_ask(struct hdl_rel *r, bool late, uint64_t now_ns, const struct hdl_rel_ops *ops)
{
	if (!++r->probe)
		r->probe = 1;
	r->probe_next = r->next;
	r->probe_ns = now_ns;
	r->asked = r->resent;
	r->probes++;
	r->slow &= (uint8_t)~(HDL_REL_AGAIN | HDL_REL_LATE);
	r->slow |= late ? HDL_REL_ASKED | HDL_REL_LATE : HDL_REL_ASKED;
	ops->probe(ops->arg, r->probe);
}

/* One probe at a time: if each replaced the one before, none might be answered in time. */
static void ask_behind(struct hdl_rel *r, const struct hdl_rel_ops *ops)
{
	if (r->slow & HDL_REL_ASKED)
		r->slow |= HDL_REL_AGAIN;
	else
		rel_ask(r, false, ops->now(), ops);
}

bool hdl_rel_limited(struct hdl_rel *r, const struct hdl_rel_ops *ops)
{
	if (r->window < HDL_REL_SMALL && r->probe_next != r->next) {
		ask_behind(r, ops);
		set_window(r);
	}
	if (hdl_rel_room(r))
		return true;
	r->slow |= HDL_REL_LIMITED;
	return false;
}

bool hdl_rel_has_room_for(struct hdl_rel *r, uint32_t n, const struct hdl_rel_ops *ops)
{
	if (r->next - r->una + n <= r->window)
		return true;
	if (n > whole_window(r))
		return false;
	hdl_rel_limited(r, ops);
	if (r->next - r->una + n <= r->window)
		return true;
	r->slow |= HDL_REL_LIMITED;
	return false;
}

static void rel_grow(struct hdl_rel *r, uint32_t acked)
{
	r->slow &= (uint8_t)~HDL_REL_LIMITED;
	while (acked && r->cwnd < HDL_REL_WINDOW) {
		if (r->cwnd < r->ssthresh) {
			acked--;
			r->cwnd++;
			continue;
		}
		uint32_t n = rel_least(acked, (uint32_t)(r->cwnd - r->grown));
		acked -= n;
		r->grown = (uint8_t)(r->grown + n);
		if (r->grown >= r->cwnd) {
			r->grown = 0;
			r->cwnd++;
		}
	}
}

/* A packet was lost: halves the window, once for the losses of one window. */
static void shrink(struct hdl_rel *r)
{
	if ((int32_t)(r->una - r->recover) < 0)
		return;
	r->recover = r->next;
	r->cwnd = r->cwnd / 2 > HDL_REL_LEAST ? r->cwnd / 2 : HDL_REL_LEAST;
	r->ssthresh = r->cwnd;
	r->grown = 0;
	set_window(r);
}

/* ---- times ------------------------------------------------------------------------------------------------- */

void hdl_rel_time(struct hdl_rel *r, uint64_t now_ns)
{
	r->timed_ns = now_ns;
	r->slow |= HDL_REL_TIMING;
}

/* RFC 6298, section 2. */
static void round_trip(struct hdl_rel *r, uint64_t ns)
{
	uint32_t t = (uint32_t)ns + 1;

	/* a timeout was over and the timer had not run: this process computed */
	if (ns > r->rto_ns)
		return;
	if (!r->srtt_ns) {
		r->srtt_ns = t;
		r->rttvar_ns = t / 2;
	} else {
		uint32_t off = t > r->srtt_ns ? t - r->srtt_ns : r->srtt_ns - t;
		r->rttvar_ns = r->rttvar_ns - r->rttvar_ns / 4 + off / 4;
		r->srtt_ns = r->srtt_ns - r->srtt_ns / 8 + t / 8;
	}
	r->backed_off = false;
}

/* The timeout while nothing has been lost. The first one is for a peer that was never measured; a measurement may be much less,
 * or by chance. */
static uint32_t timeout(const struct hdl_rel *r)
{
	uint64_t t = r->srtt_ns + 4ull * r->rttvar_ns;

	if (!r->srtt_ns)
		return r->first_rto_ns;
	t = t < r->first_rto_ns / HDL_REL_RTO_LESS ? r->first_rto_ns / HDL_REL_RTO_LESS : t;
	return t < HDL_REL_RTO_MAX_NS ? (uint32_t)t : HDL_REL_RTO_MAX_NS;
}

/* The timed packet is no measurement any more: the next one is. */
static void stop_timing(struct hdl_rel *r)
{
	r->slow &= (uint8_t)~HDL_REL_TIMING;
	r->timed = r->next;
}

/* ---- acknowledgements -------------------------------------------------------------------------------------- */

static void rel_finish(struct hdl_rel *r, uint32_t psn, const struct hdl_rel_ops *ops, unsigned *n)
{
	void **pkt = &r->pkt[psn % HDL_REL_WINDOW];

	if (*pkt) {
		ops->acked(ops->arg, *pkt);
		*pkt = NULL;
		++*n;
	}
}

/* The first n packets of the window are finished. */
static void rel_advance(struct hdl_rel *r, uint32_t n)
{
	r->una += n;
	r->sacked = n < 64 ? r->sacked >> n : 0;
	r->resent = n < 64 ? r->resent >> n : 0;
	r->asked = n < 64 ? r->asked >> n : 0;
}

static void resend(struct hdl_rel *r, uint32_t i, const struct hdl_rel_ops *ops)
{
	uint32_t psn = r->una + i;

	if (psn == r->timed && r->slow & HDL_REL_TIMING)
		stop_timing(r);
	r->resent |= 1ull << i;
	r->asked &= ~(1ull << i);
	r->resends++;
	r->again_next[psn % HDL_REL_WINDOW] = (uint8_t)r->next;
	ops->resend(ops->arg, r->pkt[psn % HDL_REL_WINDOW], psn);
}

static uint64_t first_bits(uint32_t n)
{
	return n < 64 ? (1ull << n) - 1 : UINT64_MAX;
}

/* Returns the packets that were sent again and have not come, although a packet that was sent later has, by its number. */
static uint64_t lost_again(const struct hdl_rel *r)
{
	uint64_t open = r->resent & ~r->sacked, lost = 0;
	uint32_t top = r->sacked ? 64 - (uint32_t)__builtin_clzll(r->sacked) : 0;

	for (; open; open &= open - 1) {
		uint32_t i = (uint32_t)__builtin_ctzll(open);

		if ((uint8_t)(r->again_next[(r->una + i) % HDL_REL_WINDOW] - r->una) < top)
			lost |= 1ull << i;
	}
	return lost;
}

/* Sends again the missing ones of the first n packets that were sent once, and of those that were sent again the ones lost by
 * now, some of which the caller knows (lost). Then sends a probe behind them. */
static void rel_fill(struct hdl_rel *r, uint32_t n, uint64_t lost, const struct hdl_rel_ops *ops)
{
	uint64_t holes = ((~r->resent & first_bits(n)) | lost | (r->resent ? lost_again(r) : 0)) & ~r->sacked;

	if (!holes)
		return;
	shrink(r);
	r->since_ns = ops->now();
	for (; holes; holes &= holes - 1)
		resend(r, (uint32_t)__builtin_ctzll(holes), ops);
	ask_behind(r, ops);
}

/* The rest of an acknowledgement that has finished n packets. */
static void rel_settle(struct hdl_rel *r, unsigned n, const struct hdl_rel_ops *ops)
{
	uint32_t i = r->timed - r->una;

	if (r->slow & HDL_REL_TIMING && (i >= r->next - r->una || (i < 64 && r->sacked >> i & 1))) {
		r->slow &= (uint8_t)~HDL_REL_TIMING;
		r->timed = r->next + HDL_REL_TIMED;
		round_trip(r, ops->now() - r->timed_ns);
	}
	if (r->slow & HDL_REL_LIMITED && n)
		rel_grow(r, n);
	if (r->slow || n)
		set_window(r);
	uint32_t top = r->sacked ? 63 - (uint32_t)__builtin_clzll(r->sacked) : 0;
	/* a packet that left after the probe has come; an answer to the probe would have come before that packet */
	if (r->slow & HDL_REL_ASKED && (int32_t)(r->una + top - r->probe_next) > 0 && !hdl_rel_idle(r))
		rel_ask(r, true, ops->now(), ops);
	rel_fill(r, top, 0, ops);
}

unsigned hdl_rel_ack(struct hdl_rel *r, uint32_t ack, uint64_t sack, const struct hdl_rel_ops *ops)
{
	unsigned n = 0;
	uint32_t moved = ack - r->una, flight = r->next - r->una, late = 0;

	r->packet_seen = true;

	if (moved > flight) {
		/* an acknowledgement of packets never sent, or older than the last one, whose selection may still be new */
		late = r->una - ack;
		if (late > 63)
			return 0;
	} else {
		for (uint32_t i = 0; i < moved; i++)
			rel_finish(r, r->una + i, ops, &n);
		rel_advance(r, moved);
		flight -= moved;
		if ((int32_t)(r->una - r->recover) > 0)
			r->recover = r->una;
	}

	/* bit i of sack is ack + 1 + i, of sacked una + i; only packets that were sent count */
	uint64_t got = late ? sack >> (late - 1) : sack << 1;
	if (flight < 64)
		got &= (1ull << flight) - 1;
	got |= r->sacked;
	for (uint64_t fresh = got & ~r->sacked; fresh; fresh &= fresh - 1)
		rel_finish(r, r->una + (uint32_t)__builtin_ctzll(fresh), ops, &n);
	r->sacked = got;
	/* the peer may have acknowledged all packets before una while una was held, and may never do so again */
	if (got & 1)
		rel_advance(r, got == UINT64_MAX ? 64 : (uint32_t)__builtin_ctzll(~got));
	rel_settle(r, n, ops);
	return n;
}

void hdl_rel_answered(struct hdl_rel *r, uint32_t number, const struct hdl_rel_ops *ops)
{
	bool again = r->slow & HDL_REL_AGAIN;
	uint32_t n = r->probe_next - r->una;
	uint64_t now;

	if (!number || number != r->probe || !(r->slow & HDL_REL_ASKED))
		return;
	now = ops->now();
	/* The answer to a late probe is no measurement: the peer may have computed. But the peer is there now. */
	if (!(r->slow & HDL_REL_LATE))
		round_trip(r, now - r->probe_ns);
	else if (now - r->probe_ns <= timeout(r))
		r->backed_off = false;
	if (!r->backed_off)
		r->rto_ns = timeout(r);
	r->slow &= (uint8_t)~(HDL_REL_ASKED | HDL_REL_AGAIN | HDL_REL_LATE);
	/* Packets that left before the probe have come by now, or are lost. Packets sent again after the probe may be on their
	 * way. */
	rel_fill(r, (int32_t)n > 0 ? n : 0, r->asked, ops);
	if (again && !hdl_rel_idle(r))
		ask_behind(r, ops);
	set_window(r);
}

uint64_t hdl_rel_timer(struct hdl_rel *r, uint64_t now_ns, const struct hdl_rel_ops *ops)
{
	if (hdl_rel_idle(r)) {
		r->since_ns = r->packet_seen_ns = 0;
		return 0;
	}
	if (r->packet_seen || !r->packet_seen_ns) {
		r->packet_seen = false;
		r->packet_seen_ns = now_ns;
	}
	if (r->since_ns == 0 || r->una != r->seen_una) {
		r->seen_una = r->una;
		r->since_ns = now_ns;
		if (!r->backed_off)
			r->rto_ns = timeout(r);
		else if (r->rto_ns > HDL_REL_RTO_KEEP_NS)
			r->rto_ns = HDL_REL_RTO_KEEP_NS;
	} else if (now_ns - r->since_ns >= r->rto_ns) {
		r->timeouts++;
		if (r->slow & HDL_REL_TIMING)
			stop_timing(r);
		r->backed_off = true;
		rel_ask(r, true, now_ns, ops);
		r->since_ns = now_ns;
		r->rto_ns = rel_least(r->rto_ns + r->rto_ns / 2, HDL_REL_RTO_MAX_NS);
	}
	return r->since_ns + r->rto_ns;
}

enum hdl_rel_verdict hdl_rel_receive_other(struct hdl_rel *r, uint32_t psn)
{
	uint32_t dist = psn - r->expected;

	r->owed++;
	if (dist < HDL_REL_WINDOW && !(r->ahead >> dist & 1))
		return HDL_REL_HOLD;
	r->duplicates++;
	r->owed += HDL_REL_ACK_EVERY;	/* the sender does not know that the packet has come: an acknowledgement is due soon */
	return HDL_REL_DUPLICATE;
}

void hdl_rel_hold(struct hdl_rel *r, uint32_t psn, void *copy)
{
	r->early[psn % HDL_REL_WINDOW] = copy;
	uint32_t dist = psn - r->expected;

	/* a new hole: the sender can fill it */
	if (!(r->ahead >> (dist - 1) & 1))
		r->owed += HDL_REL_ACK_EVERY;
	r->ahead |= 1ull << dist;
	r->early_count++;
}

void hdl_rel_clear(struct hdl_rel *r, const struct hdl_rel_ops *ops, void (*drop)(void *copy))
{
	unsigned n = 0;

	for (; r->una != r->next; r->una++)
		rel_finish(r, r->una, ops, &n);
	for (unsigned i = 0; i < HDL_REL_WINDOW; i++)
		if (r->early[i]) {
			drop(r->early[i]);
			r->early[i] = NULL;
		}
	r->ahead = r->sacked = r->resent = r->asked = 0;
	r->slow = 0;
}
