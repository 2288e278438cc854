/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reliability over UD: an ordered, exactly-once stream of packets to and from one peer. A pure state machine over
 * packet numbers and opaque packets, without verbs and without a clock of its own.
 *
 * Every packet carries (psn), and the reverse stream's (ack, sack): ack is the first number not yet received, bit i of sack
 * says that ack + 1 + i was.
 *
 * Sender. In flight is at most the least of three: the congestion window `cwnd`, the peer's `share`, and HDL_REL_WINDOW.
 *     cwnd     doubles (slow start), then grows by one packet for a window's worth of acknowledged ones, while cwnd is the
 *              limit; halved once for the losses of one window
 *     share    part of the receives that all senders of the peer share, reported by the peer's acknowledgements; a sender
 *              that had nothing in flight begins with `base`, which needs no report, and learns the share on reaching `base`
 *
 * A packet is sent again only on evidence of its loss: a packet that left later has come, and this one has not.
 *
 *     sent once     a packet of a higher number has come
 *     sent again    a packet has come whose number is higher than any had by the time of the repetition (if a lower packet
 *                   was sent again, too, either of its two transmissions may be the one that came)
 *     either        a probe that left later was answered; a probe carries no packet
 *
 * So a peer that computes, and cannot answer, costs a probe now and then, and no packet. A probe is sent
 *     - when nothing has moved for the timeout, which grows by half from one probe to the next (where 30 % are lost a probe is
 *       answered as often as not, and waits that double until an answer have no mean)
 *     - behind packets that are sent again
 *     - when half of a small window is in flight: the peer acknowledges after HDL_REL_ACK_EVERY packets, or when idle, and either
 *       may take long
 *
 * The timeout is SRTT + 4 RTTVAR (RFC 6298). Measured are one packet in HDL_REL_TIMED that was sent once and for which no
 * timeout was over (Karn), and probes that did not wait for a timeout. After a timeout the grown value stays until there is
 * such a measurement, or a probe is answered within the former value. So a network slower than the first timeout is learnt, a
 * peer that computed for a second is not taken for a slow network, and chance losses are forgotten.
 *
 * Receiver: delivers in order. A packet that is early is kept (the caller's copy), so that a receive buffer is never kept back
 * and a hole can always be filled.
 */
#ifndef HDL_REL_H
#define HDL_REL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HDL_REL_WINDOW 64u		/* the bits of sack */
#define HDL_REL_ACK_EVERY 16u		/* packets after which an acknowledgement is sent by itself */
#define HDL_REL_TIMED 64u		/* one packet in so many is timed */
#define HDL_REL_FIRST 24u		/* the first congestion window */
#define HDL_REL_LEAST 24u		/* the least congestion window: packets are lost by chance, too */
#define HDL_REL_SMALL (2 * HDL_REL_ACK_EVERY)	/* of a larger window half is acknowledged unasked before the rest has arrived */
#define HDL_REL_RTO_MAX_NS 500000000u
#define HDL_REL_RTO_LESS 4u		/* the least timeout is the first one divided by this */
#define HDL_REL_RTO_KEEP_NS 100000000u	/* the most that is left of a timeout that has grown, once something moves again */

struct hdl_rel {
	/* sender */
	uint32_t next;			/* number of the next packet */
	uint32_t una;			/* first packet that is not acknowledged */
	uint32_t window;		/* packets that may be in flight */
	uint32_t timed;			/* number of the packet that will be timed, or is */
	uint64_t sacked;		/* bit i: una + i was received */
	uint64_t resent;		/* bit i: una + i was sent again */
	uint64_t asked;			/* of these, bit i: the last probe left behind the repetition */
	uint8_t slow;			/* flags: each acknowledgement takes the slow path while one is set */
	uint8_t share, base;		/* packets that the peer grants while something is in flight (0: not reported yet), and
					 * always */
	uint8_t cwnd, ssthresh;
	uint8_t grown;			/* packets acknowledged since cwnd grew by one */
	bool packet_seen;		/* a packet of the peer has come since the timer last looked */
	bool backed_off;		/* the timeout has grown, and no answer has come in time since */
	uint32_t recover;		/* losses before this number have halved the window already */
	uint32_t probe, probe_next;	/* the last probe's number, and `next` when it left */
	uint32_t seen_una;
	uint32_t first_rto_ns, rto_ns, srtt_ns, rttvar_ns;	/* srtt_ns 0: nothing was timed yet */
	uint64_t timed_ns, probe_ns, since_ns;
	uint64_t packet_seen_ns;	/* while something is in flight: the time at which the timer saw the peer's last packet */
	/* receiver */
	uint32_t expected;
	uint32_t owed;			/* packets received since the last acknowledgement */
	uint64_t ahead;			/* bit i: expected + i is kept; bit 0 only while packets are being delivered */
	/* counters */
	uint32_t resends, timeouts, duplicates, early_count, probes;
	void *pkt[HDL_REL_WINDOW];	/* by number; the caller's packets in flight */
	void *early[HDL_REL_WINDOW];	/* by number; the caller's copies of early packets */
	uint8_t again_next[HDL_REL_WINDOW];	/* by number, of packets sent again: low bits of `next` at the last repetition */
};
#define HDL_REL_LIMITED 1	/* a message waits for the window */
#define HDL_REL_WIDE 2		/* the window is not the one of an idle stream, or a new share is due */
#define HDL_REL_TIMING 4	/* timed_ns counts */
#define HDL_REL_ASKED 8		/* a probe is on its way */
#define HDL_REL_AGAIN 16	/* another probe must follow that one */
#define HDL_REL_LATE 32		/* the probe was sent since nothing had come for the timeout */

struct hdl_rel_ops {
	void (*acked)(void *arg, void *pkt);			/* ownership of the packet is the caller's again */
	void (*resend)(void *arg, void *pkt, uint32_t psn);
	void (*probe)(void *arg, uint32_t number);		/* sends the peer a probe; its answer carries the number, which is
								 * not 0 */
	uint64_t (*now)(void);
	void *arg;
};

/* rto_ns: the first timeout, longer than a peer that makes progress takes to answer. base: see hdl_rel_shares. */
void hdl_rel_init(struct hdl_rel *r, uint32_t tx_psn, uint32_t rx_psn, uint32_t rto_ns, uint32_t base);

/* The share of each of `active` sending peers, of `peers` senders that share a pool of so many receives: packets in flight, 1 to
 * HDL_REL_WINDOW. *base: packets that a sender which begins may have in flight. A quarter of the pool is left for packets without
 * a number. */
uint32_t hdl_rel_shares(uint32_t pool, uint32_t peers, uint32_t active, uint32_t *base);
/* Takes the shares of an acknowledgement. Must be called before hdl_rel_ack of the same. */
void hdl_rel_share(struct hdl_rel *r, uint32_t share, uint32_t base);

static inline bool hdl_rel_room(const struct hdl_rel *r)
{
	return r->next - r->una < r->window;
}
/* The caller has a packet to send and no room: the window may grow, or the peer is asked for its share. Returns whether there is
 * room now. */
bool hdl_rel_limited(struct hdl_rel *r, const struct hdl_rel_ops *ops);
/* Returns true if n packets have room together. If the window is too small for them even when empty, the peer is not asked. */
bool hdl_rel_has_room_for(struct hdl_rel *r, uint32_t n, const struct hdl_rel_ops *ops);
static inline bool hdl_rel_idle(const struct hdl_rel *r)
{
	return r->next == r->una;
}
/* Returns true if the next packet is to be timed: then hdl_rel_time must be called when that packet leaves. */
static inline bool hdl_rel_is_timed(const struct hdl_rel *r)
{
	return r->next == r->timed;
}
void hdl_rel_time(struct hdl_rel *r, uint64_t now_ns);
/* Gives a packet the next number. Must: hdl_rel_room or hdl_rel_has_room_for has returned true. Ownership: the
 * stream's until ops->acked. */
static inline uint32_t hdl_rel_push(struct hdl_rel *r, void *pkt)
{
	r->pkt[r->next % HDL_REL_WINDOW] = pkt;
	return r->next++;
}
static inline uint32_t hdl_rel_run(const struct hdl_rel *r)
{
	return r->ahead == UINT64_MAX ? 63 : (uint32_t)__builtin_ctzll(~r->ahead);
}
/* The (ack, sack) of an outgoing packet. */
static inline void hdl_rel_stamp(struct hdl_rel *r, uint32_t *ack, uint64_t *sack)
{
	/* packets that are being delivered are here, and must not be sent again */
	uint32_t run = r->ahead & 1 ? hdl_rel_run(r) : 0;

	*ack = r->expected + run;
	*sack = r->ahead >> run >> 1;
	r->owed = 0;
}

/* Fast path of an arriving (ack, sack): nothing new, or one packet more; no holes. True: *pkt is the caller's again, or NULL.
 * False: hdl_rel_ack must be called. */
static inline bool hdl_rel_ack_one(struct hdl_rel *r, uint32_t ack, uint64_t sack, void **pkt)
{
	uint32_t moved = ack - r->una;

	r->packet_seen = true;
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
/* Any (ack, sack): every packet carries one. Returns the number of packets newly finished. */
unsigned hdl_rel_ack(struct hdl_rel *r, uint32_t ack, uint64_t sack, const struct hdl_rel_ops *ops);
/* The packet was the answer to this probe. Must follow hdl_rel_ack. */
void hdl_rel_answered(struct hdl_rel *r, uint32_t number, const struct hdl_rel_ops *ops);
/* Runs the timeout. Returns when to call again at the latest, in ns; 0: nothing is in flight. */
uint64_t hdl_rel_timer(struct hdl_rel *r, uint64_t now_ns, const struct hdl_rel_ops *ops);
/* Nanoseconds for which packets have been in flight while no packet of any kind came. */
static inline uint64_t hdl_rel_silence(const struct hdl_rel *r, uint64_t now_ns)
{
	return r->packet_seen_ns && !r->packet_seen ? now_ns - r->packet_seen_ns : 0;
}

enum hdl_rel_verdict { HDL_REL_DELIVER, HDL_REL_HOLD, HDL_REL_DUPLICATE };
/* Takes the number of a packet that arrived. DELIVER: the caller must handle the packet, then those of hdl_rel_next. HOLD: copy
 * the packet and call hdl_rel_hold. DUPLICATE (or beyond the window): drop the packet; an acknowledgement is owed. */
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
/* The early packet that is in order now, or NULL. */
static inline void *hdl_rel_next(struct hdl_rel *r)
{
	if (!(r->ahead & 1))
		return NULL;
	void **at = &r->early[r->expected % HDL_REL_WINDOW], *copy = *at;
	*at = NULL;
	r->expected++;
	r->ahead >>= 1;
	return copy;
}

/* Gives every packet back: those in flight by ops->acked, early ones by drop. */
void hdl_rel_clear(struct hdl_rel *r, const struct hdl_rel_ops *ops, void (*drop)(void *copy));

#endif
