/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reliability over UD: an ordered, exactly-once stream of packets to and from one peer. A pure state machine: it knows
 * packet numbers and opaque packets, neither verbs nor a clock of its own.
 *
 * Sender: a window of HDL_REL_WINDOW packets. Every packet carries (psn), and the reverse stream's (ack, sack): ack is
 * the first number not yet received, bit i of sack says that ack + 1 + i was. A hole below something that was received
 * is sent again at once, once. When nothing moves until the timeout, one packet is sent again, the last one missing: what
 * the peer says then shows every hole. The timeout doubles (a peer that computes cannot answer: few probes, no storm).
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
#define HDL_REL_RTO_MAX_NS 500000000ull

struct hdl_rel {
	/* sender */
	uint32_t next;			/* number of the next packet */
	uint32_t una;			/* first one not acknowledged */
	uint64_t sacked;		/* bit i: una + i was received */
	uint64_t resent;		/* bit i: una + i was sent again because of a hole */
	void *pkt[HDL_REL_WINDOW];	/* by number */
	uint64_t first_rto_ns, since_ns, rto_ns;
	uint64_t heard_ns;		/* when something was in flight and the peer was last heard, as seen by the timer */
	uint32_t seen_una;
	bool heard;
	/* receiver */
	uint32_t expected;
	uint64_t ahead;			/* bit i: expected + i is held; bit 0 only while packets are being delivered */
	void *held[HDL_REL_WINDOW];	/* by number */
	uint32_t owed;			/* packets received since an acknowledgement left */
	/* counters */
	uint64_t resends, timeouts, duplicates, held_count;
};

struct hdl_rel_ops {
	void (*acked)(void *arg, void *pkt);			/* the packet is the caller's again */
	void (*resend)(void *arg, void *pkt, uint32_t psn);
	void *arg;
};

/* rto_ns: the first timeout, above the time that a peer in the library takes to answer. */
void hdl_rel_init(struct hdl_rel *r, uint32_t tx_psn, uint32_t rx_psn, uint64_t rto_ns);

static inline bool hdl_rel_room(const struct hdl_rel *r)
{
	return r->next - r->una < HDL_REL_WINDOW;
}
static inline bool hdl_rel_idle(const struct hdl_rel *r)
{
	return r->next == r->una;
}
/* Gives a packet the next number. Only with room. */
static inline uint32_t hdl_rel_push(struct hdl_rel *r, void *pkt)
{
	r->pkt[r->next % HDL_REL_WINDOW] = pkt;
	return r->next++;
}
/* What an outgoing packet says about the reverse stream. */
static inline void hdl_rel_stamp(struct hdl_rel *r, uint32_t *ack, uint64_t *sack)
{
	*ack = r->expected;
	*sack = r->ahead >> 1;
	r->owed = 0;
}

/* An acknowledgement arrived. What most of them say: nothing new, or that one packet more is there; no holes. True: *pkt
 * is the caller's again, or NULL. False: it says more, hdl_rel_ack. */
static inline bool hdl_rel_ack_one(struct hdl_rel *r, uint32_t ack, uint64_t sack, void **pkt)
{
	uint32_t moved = ack - r->una;

	r->heard = true;
	*pkt = NULL;
	if (sack | r->sacked | (moved > 1) | (moved > r->next - r->una))
		return false;
	if (moved) {
		void **at = &r->pkt[r->una % HDL_REL_WINDOW];
		*pkt = *at;
		*at = NULL;
		r->una = ack;
		r->resent >>= 1;
	}
	return true;
}
/* The same for whatever it says: every packet brings one. Returns packets newly finished. */
unsigned hdl_rel_ack(struct hdl_rel *r, uint32_t ack, uint64_t sack, const struct hdl_rel_ops *ops);
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
