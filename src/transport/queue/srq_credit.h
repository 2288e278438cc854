/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Credits for pooled receives (RC, XRC, DC): how many messages one peer may have in another's pool. Pure: the functions know
 * counts, neither verbs nor lanes.
 *
 * All senders of a process share its pool. Without credits a sender that is faster than the receiver takes every receive; then
 * all senders' queues stop until receives are posted (RNR), and with a shared queue the peers behind it, too. So messages without
 * another bound are *counted* (hdl_is_counted), by both sides, and a sender has at most `window` of them in flight. Control
 * messages are few; a quarter of the pool is left for them (hdl_rel_shares).
 *
 *     sender                                                   receiver
 *     counted message with ASKS: half of the window     ──▶    hdl_rxpool_share
 *     is in flight, and the sender has not asked yet
 *     window = granted                                  ◀──    HDL_CTL_TAKEN(taken, granted)
 *
 * Every message into a pooled receive also reports how many messages were taken (15 bits of `reserved`), so that a peer that
 * answers messages by messages is not asked. A grant counts while something is in flight: a sender that begins has `base`, which
 * all may use at a time.
 *
 * C: a sender without room gets an answer.
 *
 *     1. The sender has asked: the answer to that.
 *     2. Otherwise the sender's window is that of the receiver's last answer: the window is reset to base only when nothing is in
 *        flight, and of the messages that follow, half is in flight before all is. Then the receiver has taken `granted` messages
 *        since its last report, and answers unasked.
 *
 * Answers may overtake each other: `turn` tells the last.
 */
#ifndef HDL_SRQ_CREDIT_H
#define HDL_SRQ_CREDIT_H

#include <stdbool.h>
#include <stdint.h>

#define HDL_SRQ_CREDIT_ASKS 0x8000u		/* in `reserved`: the sender asks; the other bits: messages taken from the process
						 * to which the message goes */

struct hdl_srq_credit {
	/* sender */
	uint32_t sent, taken;		/* counted messages sent; of these, known to be taken out of their receives */
	uint16_t window, base;
	uint16_t turn_in;		/* turn of the last answer */
	bool asked;
	/* receiver */
	uint16_t active;		/* period of struct hdl_rxpool in which the peer was last counted as active */
	uint32_t in, in_reported;	/* counted messages taken; of these, reported to the sender */
	uint16_t granted, turn_out;
};

/* The answer, HDL_CTL_TAKEN. */
struct hdl_taken_rec {
	uint32_t taken;
	uint16_t window, base, turn, reserved;
};

static inline bool hdl_srq_credit_room(struct hdl_srq_credit *p)
{
	if (p->sent == p->taken)
		p->window = p->base;
	return p->sent - p->taken < p->window;
}

/* `reserved` of the next message; hdl_srq_credit_sent must follow when it has been posted. */
static inline uint16_t hdl_srq_credit_mark(const struct hdl_srq_credit *p, bool counted)
{
	bool asks = counted && !p->asked && p->sent + 1 - p->taken >= (p->window + 1u) / 2;

	return (uint16_t)((p->in & (HDL_SRQ_CREDIT_ASKS - 1)) | (asks ? HDL_SRQ_CREDIT_ASKS : 0));
}

static inline void hdl_srq_credit_sent(struct hdl_srq_credit *p, bool counted, uint16_t mark)
{
	p->sent += counted;
	p->asked |= (mark & HDL_SRQ_CREDIT_ASKS) != 0;
	p->in_reported = p->in;
}

/* The peer has taken `more` messages. A message that was sent twice (by a DC initiator that was stopped in the middle of the
 * post) is taken once more than sent. */
static inline void hdl_srq_credit_taken(struct hdl_srq_credit *p, uint32_t more)
{
	if ((int32_t)more > 0)
		p->taken += more <= p->sent - p->taken ? more : p->sent - p->taken;
}

/* A message with this `reserved` has come. Returns true if hdl_srq_credit_answer must follow. */
static inline bool hdl_srq_credit_came(struct hdl_srq_credit *p, bool counted, uint16_t mark)
{
	/* the difference of 15 bits, with its sign */
	hdl_srq_credit_taken(p, (uint32_t)((int32_t)((uint32_t)(mark - p->taken) << 17) >> 17));
	p->in += counted;
	return counted && (mark & HDL_SRQ_CREDIT_ASKS || p->in - p->in_reported >= p->granted);
}

static inline struct hdl_taken_rec hdl_srq_credit_answer(struct hdl_srq_credit *p, uint32_t window, uint32_t base)
{
	p->in_reported = p->in;
	p->granted = (uint16_t)window;
	return (struct hdl_taken_rec){.taken = p->in, .window = (uint16_t)window, .base = (uint16_t)base, .turn = ++p->turn_out};
}

static inline void hdl_srq_credit_on_answer(struct hdl_srq_credit *p, const struct hdl_taken_rec *m)
{
	hdl_srq_credit_taken(p, m->taken - p->taken);
	if ((int16_t)(m->turn - p->turn_in) <= 0 || !m->window || !m->base)
		return;
	p->turn_in = m->turn;
	p->window = m->window;
	p->base = m->base;
	p->asked = false;
}

#endif
