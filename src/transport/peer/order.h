/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Per-peer order: messages carry a sequence number and may arrive by several lanes; they are delivered once, in sequence. A
 * message ahead of its turn is parked (copied); a message behind its turn is a duplicate.
 *
 * Invariant: a sender is never more than HDL_ORDER_SPAN messages ahead of the receiver's `expected`. Otherwise a number of 16
 * bits is ambiguous:
 *
 *     1. message 5 waits for a receive at the SRQ
 *     2. 65,536 messages go by the ring
 *     3. the next one has number 5, too: delivered in place of the first
 *
 * So a lane that can delay a message for long (UD's retransmission, RNR at an SRQ) limits how far other lanes run ahead:
 * reorder_guard_* of struct hdl_ep.
 */
#ifndef HDL_ORDER_H
#define HDL_ORDER_H

#include <stddef.h>
#include <stdint.h>

#include "base/base.h"

#define HDL_ORDER_SPAN 16384

struct hdl_parked;
struct hdl_order {
	uint16_t expected;
	uint32_t parked;		/* messages that are parked */
	struct hdl_parked *head;	/* ascending numbers */
	uint64_t duplicates, reordered;	/* counters */
};

struct hdl_parked {
	struct hdl_parked *next;
	uint16_t seq;
	size_t bytes;
	_Alignas(16) char data[];
};

enum hdl_order_verdict { HDL_ORDER_DELIVER, HDL_ORDER_PARK, HDL_ORDER_DROP };

/* The verdict on a message of this number. HDL_ORDER_DELIVER: the caller must deliver the message (`expected` has moved on),
 * then those of hdl_order_next. */
static inline enum hdl_order_verdict hdl_order_check(struct hdl_order *o, uint16_t seq)
{
	if (likely(seq == o->expected)) {
		o->expected++;
		return HDL_ORDER_DELIVER;
	}
	if ((uint16_t)(seq - o->expected) < 0x8000)
		return HDL_ORDER_PARK;
	o->duplicates++;
	return HDL_ORDER_DROP;
}

/* Parks a copy of two pieces (header, payload). 0; 1: a duplicate of a parked one; -ENOMEM. */
int hdl_order_park(struct hdl_order *o, uint16_t seq, const void *a, size_t an, const void *b, size_t bn);
/* Returns the parked message that is expected, or NULL; `expected` moves on. Ownership: the caller must free the message. */
struct hdl_parked *hdl_order_next(struct hdl_order *o);
void hdl_order_clear(struct hdl_order *o);

#endif
