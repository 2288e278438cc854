/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/rel.h"

#include <string.h>

void hdl_rel_init(struct hdl_rel *r, uint32_t tx_psn, uint32_t rx_psn, uint64_t rto_ns)
{
	memset(r, 0, sizeof(*r));
	r->next = r->una = r->seen_una = tx_psn;
	r->expected = rx_psn;
	r->first_rto_ns = r->rto_ns = rto_ns;
}

static void finish(struct hdl_rel *r, uint32_t psn, const struct hdl_rel_ops *ops, unsigned *n)
{
	void **pkt = &r->pkt[psn % HDL_REL_WINDOW];

	if (*pkt) {
		ops->acked(ops->arg, *pkt);
		*pkt = NULL;
		++*n;
	}
}

/* The first n packets of the window are finished. */
static void advance(struct hdl_rel *r, uint32_t n)
{
	r->una += n;
	r->sacked = n < 64 ? r->sacked >> n : 0;
	r->resent = n < 64 ? r->resent >> n : 0;
}

unsigned hdl_rel_ack(struct hdl_rel *r, uint32_t ack, uint64_t sack, const struct hdl_rel_ops *ops)
{
	unsigned n = 0;
	uint32_t moved = ack - r->una, flight = r->next - r->una, late = 0;

	r->heard = true;

	if (moved > flight) {
		/* of something never sent, or older than what is known: its selection may still tell something */
		late = r->una - ack;
		if (late > 63)
			return 0;
	} else {
		for (uint32_t i = 0; i < moved; i++)
			finish(r, r->una + i, ops, &n);
		advance(r, moved);
		flight -= moved;
	}

	/* bit i of sack is ack + 1 + i, of sacked una + i; only what was sent counts */
	uint64_t got = late ? sack >> (late - 1) : sack << 1;
	if (flight < 64)
		got &= (1ull << flight) - 1;
	got |= r->sacked;
	for (uint64_t fresh = got & ~r->sacked; fresh; fresh &= fresh - 1)
		finish(r, r->una + (uint32_t)__builtin_ctzll(fresh), ops, &n);
	r->sacked = got;
	/* the peer may have said "all before una" while it already held una: it may never say so again */
	if (got & 1)
		advance(r, got == UINT64_MAX ? 64 : (uint32_t)__builtin_ctzll(~got));
	got = r->sacked;
	if (!got)
		return n;
	uint64_t below = (2ull << (63 - __builtin_clzll(got))) - 1;
	for (uint64_t holes = below & ~got & ~r->resent; holes; holes &= holes - 1) {
		uint32_t i = (uint32_t)__builtin_ctzll(holes), psn = r->una + i;
		r->resent |= 1ull << i;
		r->resends++;
		ops->resend(ops->arg, r->pkt[psn % HDL_REL_WINDOW], psn);
	}
	return n;
}

uint64_t hdl_rel_timer(struct hdl_rel *r, uint64_t now_ns, const struct hdl_rel_ops *ops)
{
	if (hdl_rel_idle(r)) {
		r->since_ns = r->heard_ns = 0;
		return 0;
	}
	if (r->heard || !r->heard_ns) {
		r->heard = false;
		r->heard_ns = now_ns;
	}
	if (r->since_ns == 0 || r->una != r->seen_una) {
		r->seen_una = r->una;
		r->since_ns = now_ns;
		r->rto_ns = r->first_rto_ns;
	} else if (now_ns - r->since_ns >= r->rto_ns) {
		/* the last one missing: whatever the peer says of it shows all the holes below it, and they may go again */
		uint32_t flight = r->next - r->una;
		uint64_t missing = ~r->sacked & (flight < 64 ? (1ull << flight) - 1 : UINT64_MAX);
		uint32_t psn = r->una + 63 - (uint32_t)__builtin_clzll(missing);
		r->timeouts++;
		r->resent = 0;
		r->resends++;
		ops->resend(ops->arg, r->pkt[psn % HDL_REL_WINDOW], psn);
		r->since_ns = now_ns;
		r->rto_ns = r->rto_ns * 2 < HDL_REL_RTO_MAX_NS ? r->rto_ns * 2 : HDL_REL_RTO_MAX_NS;
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
	r->owed += HDL_REL_ACK_EVERY;	/* the sender does not know: tell it soon */
	return HDL_REL_DUPLICATE;
}

void hdl_rel_hold(struct hdl_rel *r, uint32_t psn, void *copy)
{
	r->held[psn % HDL_REL_WINDOW] = copy;
	r->ahead |= 1ull << (psn - r->expected);
	r->held_count++;
	r->owed += HDL_REL_ACK_EVERY;	/* a hole: let the sender fill it */
}

void hdl_rel_clear(struct hdl_rel *r, const struct hdl_rel_ops *ops, void (*drop)(void *copy))
{
	unsigned n = 0;

	for (; r->una != r->next; r->una++)
		finish(r, r->una, ops, &n);
	for (unsigned i = 0; i < HDL_REL_WINDOW; i++)
		if (r->held[i]) {
			drop(r->held[i]);
			r->held[i] = NULL;
		}
	r->ahead = r->sacked = r->resent = 0;
}
