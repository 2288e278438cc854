/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Credits for pooled receives (RC, XRC, DC): how many messages one peer may have in another's pool. Pure: it knows counts, neither verbs
 * nor lanes.
 *
 * All senders of a process share its pool, and one that is faster than the receiver takes every receive: then the others' queues, and its
 * own, stop until receives are posted (RNR), and with a queue that is shared whoever stands behind. So messages that have no bound of
 * their own are *counted* (hdl_is_counted), by both sides, and a sender has `window` of them in flight at most. Control messages are few;
 * for them a quarter of the pool is left (hdl_rel_shares).
 *
 * The sender asks with a counted message when half of its window is in flight, and it has not asked already; the answer is a control
 * message with what was taken and how much is granted from now on. Every message that comes by a pooled receive says what was taken, too
 * (15 bits of `reserved`), so that who answers messages by messages is not asked. A grant counts while something is in flight: who
 * begins has `base`, which all may use at a time.
 *
 * C: a sender that has no room hears something. If it has asked, by the answer. If not, its window is the one of the receiver's last
 *    answer: it is reset to base only when nothing is in flight, and of what follows half is in flight before all is. Then the receiver
 *    has taken `granted` messages since it last said so, and answers unasked. Answers may overtake each other: `turn` tells which
 *    is the last.
 */
#ifndef HDL_SRQ_CREDIT_H
#define HDL_SRQ_CREDIT_H

#include <stdbool.h>
#include <stdint.h>

#define HDL_SRQ_CREDIT_ASKS 0x8000u		/* in `reserved`; the rest: messages taken from whom this goes to */

struct hdl_srq_credit {
	/* sender */
	uint32_t sent, taken;		/* counted messages; of these, known to be taken out of their receives */
	uint16_t window, base;
	uint16_t turn_in;		/* of the last answer */
	bool asked;
	/* receiver */
	uint16_t active;		/* period in which the peer was last counted among those that send much: struct hdl_rxpool */
	uint32_t in, told;		/* counted messages taken; as the peer knows, or will */
	uint16_t granted, turn_out;
};

/* The answer, by HDL_CTL_TAKEN. */
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

/* What the next message says in `reserved`; hdl_srq_credit_left follows when it has left. */
static inline uint16_t hdl_srq_credit_mark(const struct hdl_srq_credit *p, bool counted)
{
	bool asks = counted && !p->asked && p->sent + 1 - p->taken >= (p->window + 1u) / 2;

	return (uint16_t)((p->in & (HDL_SRQ_CREDIT_ASKS - 1)) | (asks ? HDL_SRQ_CREDIT_ASKS : 0));
}

static inline void hdl_srq_credit_left(struct hdl_srq_credit *p, bool counted, uint16_t mark)
{
	p->sent += counted;
	p->asked |= (mark & HDL_SRQ_CREDIT_ASKS) != 0;
	p->told = p->in;
}

/* More was taken. Where a message was sent twice (a DC initiator that was stopped in the middle of it) the peer has taken one more than
 * were sent. */
static inline void hdl_srq_credit_taken(struct hdl_srq_credit *p, uint32_t more)
{
	if ((int32_t)more > 0)
		p->taken += more <= p->sent - p->taken ? more : p->sent - p->taken;
}

/* A message has come that says this. True: it is to be answered (hdl_srq_credit_answer). */
static inline bool hdl_srq_credit_came(struct hdl_srq_credit *p, bool counted, uint16_t mark)
{
	/* 15 bits, with their sign */
	hdl_srq_credit_taken(p, (uint32_t)((int32_t)((uint32_t)(mark - p->taken) << 17) >> 17));
	p->in += counted;
	return counted && (mark & HDL_SRQ_CREDIT_ASKS || p->in - p->told >= p->granted);
}

static inline struct hdl_taken_rec hdl_srq_credit_answer(struct hdl_srq_credit *p, uint32_t window, uint32_t base)
{
	p->told = p->in;
	p->granted = (uint16_t)window;
	return (struct hdl_taken_rec){ .taken = p->in, .window = (uint16_t)window, .base = (uint16_t)base, .turn = ++p->turn_out };
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
