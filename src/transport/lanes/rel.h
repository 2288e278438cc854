/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reliability over UD: an ordered, exactly-once stream of packets to and from one peer. A pure state machine: it knows
 * packet numbers and opaque packets, neither verbs nor a clock of its own.
 *
 * Every packet carries (psn), and the reverse stream's (ack, sack): ack is the first number not yet received, bit i of sack
 * says that ack + 1 + i was.
 *
 * Sender: what may be in flight is the least of three. The congestion window `cwnd` doubles (slow start), then grows by one
 * packet for a window's worth of acknowledged ones, while it is what limits; it is halved once for the losses of one window. The
 * peer's `share`, of the receives that all of its senders have in common, which it names in its acknowledgements; a sender that
 * had nothing in flight begins with `base`, which it may use unasked, and learns more when it reaches that. HDL_REL_WINDOW.
 *
 * A packet is sent again only on evidence that it was lost: something that was sent behind it has come, and it has not. That is a
 * packet of a higher number; for one that was sent again, one of a higher number than any had by then (of a lower one that was sent
 * again, too, nobody knows which of the two has come); or the answer to a probe, which carries no packet. So a peer that computes, and
 * cannot answer, costs a probe now and then, and no packet. A probe goes when nothing has moved for the timeout, which grows by half from one probe to
 * the next; behind what is sent again; and when half of a small window is in flight, since the peer acknowledges after
 * HDL_REL_ACK_EVERY packets, or when it is idle, and either may be long in coming. (By half: where 30 % are lost a probe is answered as
 * often as not, and waits that double until one is have no mean.)
 *
 * The timeout is SRTT + 4 RTTVAR (RFC 6298), of one packet in HDL_REL_TIMED that was sent once and for which no timeout was
 * over (Karn), or of a probe that did not wait for one. After a timeout it stays what it has grown to until there is such a time, or a
 * probe is answered within what it was before; so a network slower than the first timeout is learnt, and a peer that computed for a
 * second is not taken for one, and what was lost by chance is forgotten.
 *
 * Receiver: delivers in order; a packet that is ahead is held (the caller's copy), so that a receive buffer is never
 * kept back and a hole can always be filled.
 */
#ifndef HDL_REL_H
#define HDL_REL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HDL_REL_WINDOW 64u		/* as many as sack has bits */
#define HDL_REL_ACK_EVERY 16u		/* an acknowledgement of its own after so many packets */
#define HDL_REL_TIMED 64u		/* one packet in so many is timed */
#define HDL_REL_FIRST 24u		/* the congestion window at first */
#define HDL_REL_LEAST 24u		/* ... and at least: packets are lost by chance, too */
#define HDL_REL_SMALL (2 * HDL_REL_ACK_EVERY)	/* of a larger window half is acknowledged unasked before the rest has arrived */
#define HDL_REL_RTO_MAX_NS 500000000u
#define HDL_REL_RTO_LESS 4u		/* no timeout is shorter than the first one divided by this */
#define HDL_REL_RTO_KEEP_NS 100000000u	/* what stays of a timeout that has grown, once something moves again */

struct hdl_rel {
	/* sender */
	uint32_t next;			/* number of the next packet */
	uint32_t una;			/* first one not acknowledged */
	uint32_t window;		/* packets that may be in flight */
	uint32_t timed;			/* this number will be timed, or is */
	uint64_t sacked;		/* bit i: una + i was received */
	uint64_t resent;		/* bit i: una + i was sent again */
	uint64_t asked;			/* ... and the last probe left behind that */
	uint8_t slow;			/* acknowledgements are to be looked at as a whole: HDL_REL_LIMITED, ... */
	uint8_t share, base;		/* what the peer grants while something is in flight (0: not said), and always */
	uint8_t cwnd, ssthresh;
	uint8_t grown;			/* acknowledged since cwnd grew by one */
	bool heard;
	bool backed_off;		/* the timeout has grown, and nothing has come in time since */
	uint32_t recover;		/* losses before this one have been answered by a smaller window */
	uint32_t probe, probe_next;	/* the last probe's number, and `next` when it left */
	uint32_t seen_una;
	uint32_t first_rto_ns, rto_ns, srtt_ns, rttvar_ns;	/* srtt 0: nothing was timed yet */
	uint64_t timed_ns, probe_ns, since_ns;
	uint64_t heard_ns;		/* when something was in flight and the peer was last heard, as seen by the timer */
	/* receiver */
	uint32_t expected;
	uint32_t owed;			/* packets received since an acknowledgement left */
	uint64_t ahead;			/* bit i: expected + i is held; bit 0 only while packets are being delivered */
	/* counters */
	uint32_t resends, timeouts, duplicates, held_count, probes;
	void *pkt[HDL_REL_WINDOW];	/* by number */
	void *held[HDL_REL_WINDOW];	/* by number */
	uint8_t again_next[HDL_REL_WINDOW];	/* by number, of what was sent again: `next` at the last time, its low bits */
};
#define HDL_REL_LIMITED 1	/* something waits for the window */
#define HDL_REL_WIDE 2		/* the window is not what it is at rest, or news of it are due */
#define HDL_REL_TIMING 4	/* timed_ns counts */
#define HDL_REL_ASKED 8		/* a probe is on its way */
#define HDL_REL_AGAIN 16	/* ... and another one is to follow it */
#define HDL_REL_LATE 32		/* ... it left because nothing had come for a while */

struct hdl_rel_ops {
	void (*acked)(void *arg, void *pkt);			/* the packet is the caller's again */
	void (*resend)(void *arg, void *pkt, uint32_t psn);
	void (*probe)(void *arg, uint32_t number);		/* asks the peer for an answer that carries the number, not 0 */
	uint64_t (*now)(void);
	void *arg;
};

/* rto_ns: the first timeout, above the time that a peer in the library takes to answer. base: see hdl_rel_shares. */
void hdl_rel_init(struct hdl_rel *r, uint32_t tx_psn, uint32_t rx_psn, uint32_t rto_ns, uint32_t base);

/* A receiver whose pool has so many receives for `peers` senders, of which `active` are sending: what each of these may have in
 * flight (1 to HDL_REL_WINDOW). *base: what one may send that begins. A quarter is left for what has no number. */
uint32_t hdl_rel_shares(uint32_t pool, uint32_t peers, uint32_t active, uint32_t *base);
/* What an acknowledgement says of that. Before hdl_rel_ack of the same. */
void hdl_rel_share(struct hdl_rel *r, uint32_t share, uint32_t base);

static inline bool hdl_rel_room(const struct hdl_rel *r)
{
	return r->next - r->una < r->window;
}
/* There is no room, and something to send: the window may grow, and the peer is asked for what it has not said yet. True: there is
 * room now. */
bool hdl_rel_limited(struct hdl_rel *r, const struct hdl_rel_ops *ops);
/* Whether n packets have room, all of them at once. Where the window, even an empty one, is too small for them the peer is not asked. */
bool hdl_rel_has_room_for(struct hdl_rel *r, uint32_t n, const struct hdl_rel_ops *ops);
static inline bool hdl_rel_idle(const struct hdl_rel *r)
{
	return r->next == r->una;
}
/* The next packet is to be timed: hdl_rel_time, when it leaves. */
static inline bool hdl_rel_is_timed(const struct hdl_rel *r)
{
	return r->next == r->timed;
}
void hdl_rel_time(struct hdl_rel *r, uint64_t now_ns);
/* Gives a packet the next number. Only with room. */
static inline uint32_t hdl_rel_push(struct hdl_rel *r, void *pkt)
{
	r->pkt[r->next % HDL_REL_WINDOW] = pkt;
	return r->next++;
}
static inline uint32_t hdl_rel_run(const struct hdl_rel *r)
{
	return r->ahead == UINT64_MAX ? 63 : (uint32_t)__builtin_ctzll(~r->ahead);
}
/* What an outgoing packet says about the reverse stream. */
static inline void hdl_rel_stamp(struct hdl_rel *r, uint32_t *ack, uint64_t *sack)
{
	/* what is being delivered is here, all of it, and not to be sent again */
	uint32_t run = r->ahead & 1 ? hdl_rel_run(r) : 0;

	*ack = r->expected + run;
	*sack = r->ahead >> run >> 1;
	r->owed = 0;
}

/* An acknowledgement arrived. What most of them say: nothing new, or that one packet more is there; no holes. True: *pkt
 * is the caller's again, or NULL. False: it says more, hdl_rel_ack. */
static inline bool hdl_rel_ack_one(struct hdl_rel *r, uint32_t ack, uint64_t sack, void **pkt)
{
	uint32_t moved = ack - r->una;

	r->heard = true;
	*pkt = NULL;
	if (sack | r->sacked | r->resent | r->slow | (moved > 1) | (moved > r->next - r->una))
		return false;
	if (moved) {
		void **at = &r->pkt[r->una % HDL_REL_WINDOW];
		*pkt = *at;
		*at = NULL;
		r->una = ack;
	}
	return true;
}
/* The same for whatever it says: every packet brings one. Returns packets newly finished. */
unsigned hdl_rel_ack(struct hdl_rel *r, uint32_t ack, uint64_t sack, const struct hdl_rel_ops *ops);
/* It was the answer to this probe. After hdl_rel_ack. */
void hdl_rel_answered(struct hdl_rel *r, uint32_t number, const struct hdl_rel_ops *ops);
/* Time has passed. Returns when to call again at the latest (0: nothing is in flight). */
uint64_t hdl_rel_timer(struct hdl_rel *r, uint64_t now_ns, const struct hdl_rel_ops *ops);
/* For how long packets have been in flight without a sign of life: no packet of any kind came in. */
static inline uint64_t hdl_rel_silence(const struct hdl_rel *r, uint64_t now_ns)
{
	return r->heard_ns && !r->heard ? now_ns - r->heard_ns : 0;
}

enum hdl_rel_verdict { HDL_REL_DELIVER, HDL_REL_HOLD, HDL_REL_DUPLICATE };
/* A packet arrived. DELIVER: the caller handles it, then what hdl_rel_next gives. HOLD: the caller makes a copy and
 * calls hdl_rel_hold. DUPLICATE (or beyond the window): drop it; an acknowledgement is owed. */
enum hdl_rel_verdict hdl_rel_receive_other(struct hdl_rel *r, uint32_t psn);
static inline enum hdl_rel_verdict hdl_rel_receive(struct hdl_rel *r, uint32_t psn)
{
	if (psn != r->expected)
		return hdl_rel_receive_other(r, psn);
	r->owed++;
	r->expected++;
	r->ahead >>= 1;
	return HDL_REL_DELIVER;
}
void hdl_rel_hold(struct hdl_rel *r, uint32_t psn, void *copy);
/* The held packet that is now in order, or NULL. */
static inline void *hdl_rel_next(struct hdl_rel *r)
{
	if (!(r->ahead & 1))
		return NULL;
	void **at = &r->held[r->expected % HDL_REL_WINDOW], *copy = *at;
	*at = NULL;
	r->expected++;
	r->ahead >>= 1;
	return copy;
}

/* Gives every packet back: sent ones by ops->acked, held ones by drop. */
void hdl_rel_clear(struct hdl_rel *r, const struct hdl_rel_ops *ops, void (*drop)(void *copy));

#endif
