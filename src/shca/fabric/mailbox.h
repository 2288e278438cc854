/* SPDX-License-Identifier: BSD-3-Clause */
/* The mailbox of a proxy (proxy.c): requests to copy, in the owner's chunks. */
#ifndef SHCA_MAILBOX_H
#define SHCA_MAILBOX_H

#include "shca/fabric/fabric.h"

#define SHCA_MAIL_SLOTS 4u
#define SHCA_MAIL_PIECE 65536u

enum mail_state { MAIL_FREE = 0, MAIL_CLAIMED, MAIL_PENDING, MAIL_RUNNING, MAIL_DONE };

struct mail_slot {
	_Atomic uint64_t word;		/* requester's thread slot + 1: 32 bits; number of the request: 29; state: 3 */
	uint32_t dir, order;		/* enum shca_copy_dir, enum shca_order; written by the requester */
	uint64_t addr, len;
	int32_t err;
} shca_aligned;

#define STATE(w) ((enum mail_state)((w) & 7))
#define REQUESTER(w) ((uint32_t)((w) >> 32))

static inline uint64_t in_state(uint64_t w, enum mail_state s)
{
	return (w & ~7ull) | s;
}
static inline uint64_t next_request(uint64_t w, uint32_t requester)
{
	return (uint64_t)requester << 32 | (((uint32_t)w & ~7u) + 8u) | MAIL_CLAIMED;
}
static inline uint64_t nobodys(uint64_t w)
{
	return in_state((uint32_t)w, MAIL_FREE);
}
/* The futex on which a slot's requester sleeps. */
static inline _Atomic uint32_t *futex_of(struct mail_slot *s)
{
	return (_Atomic uint32_t *)&s->word + (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__);
}

struct shca_mailbox {
	_Atomic uint32_t calls;		/* futex: the proxy sleeps on it */
	_Atomic uint32_t stop;
	struct mail_slot slot[SHCA_MAIL_SLOTS];
	shca_aligned char data[SHCA_MAIL_SLOTS][SHCA_MAIL_PIECE];
	shca_aligned char own[SHCA_MAIL_PIECE];	/* between the owner's private memory and other memory outside of the fabric */
};

/* The mailbox of a process; NULL: no proxy runs there. */
struct shca_mailbox *shca_mailbox_of(const struct shca_member *m, uint32_t proc);
/* Returns whether the requester in `w` has died. The caller read the word before: if the word is unchanged afterwards, the
 * request is the dead one's. */
bool shca_mail_died(struct shca_member *m, uint64_t w);

#endif
