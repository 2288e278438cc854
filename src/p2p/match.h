/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Matching (MPI-5.0 section 3.5): one hash table for an instance, by (context, source, tag), whose buckets hold the
 * posted receives without wildcards and the unexpected messages; and per context a list of the receives with
 * wildcards and a list of the unexpected messages by arrival.
 *
 * A message looks at the head of one bucket and at its context's wildcards, a receive without wildcard at the head of
 * one bucket, whatever else is queued. Where both an exact receive and one with a wildcard match, the stamp tells which
 * was posted first.
 *
 * What is looked for by wildcards is walked while it is short, HDL_MATCH_WALK entries at most; beyond that it is found by hashing, too:
 *   - A context that has more receives with wildcards has them all in the buckets, under (context, MPI_ANY_SOURCE, tag) and the like, until
 *     none is left. A message looks up the at most three keys with wildcards that it matches.
 *   - A receive or probe that has walked so many unexpected messages makes an *index* for its context, in which each message has two
 *     entries, (context, MPI_ANY_SOURCE, tag) and (context, source, MPI_ANY_TAG), by arrival, until the context has no message
 *     any more. It takes 64 bytes for a message; without memory the list is walked.
 * So a search takes a bounded number of steps, whatever is queued. Buckets hold several keys: a key of which very many are queued makes
 * searches for another one in the same bucket longer, but the table grows with what is queued, so that bucket is unlikely to be hit.
 *
 * Contexts need not be known here: messages for a communicator that this rank has not finished to make just wait.
 *
 * All of its state is in struct hdl_matching, which goes with one instance of the transport: it is what the upcalls' context is, and
 * a communicator leads to the one in which its messages match.
 *
 * What every message goes through is inline; the rest is in match.c.
 */
#ifndef HDL_P2P_MATCH_H
#define HDL_P2P_MATCH_H

#include "p2p/request.h"

struct hdl_bucket {
	struct hdl_op *posted, **posted_end;
	struct hdl_unexpected *unexpected, **unexpected_end;
};
_Static_assert(sizeof(struct hdl_bucket) == 32, "two buckets to a cache line");

/* An entry of the index: an unexpected message under one of its wildcard keys. */
struct hdl_match_entry {
	struct hdl_match_entry *next, **at;		/* in its bucket of the index; the pointer to it there */
	struct hdl_unexpected *u;
	int32_t src, tag;				/* one of them is MPI_ANY_SOURCE or MPI_ANY_TAG */
};

struct hdl_match_bucket {
	struct hdl_match_entry *first, **end;
};

/* The keys of posted receives. */
enum hdl_match_kind { HDL_MATCH_EXACT, HDL_MATCH_ANY_SOURCE, HDL_MATCH_ANY_TAG, HDL_MATCH_ANY, HDL_MATCH_KINDS };
static inline enum hdl_match_kind hdl_match_kind(int32_t src, int32_t tag)
{
	return (enum hdl_match_kind)((src == MPI_ANY_SOURCE) * HDL_MATCH_ANY_SOURCE + (tag == MPI_ANY_TAG) * HDL_MATCH_ANY_TAG);
}

struct hdl_match_context {
	struct hdl_op *wild, **wild_end;		/* wild_end: NULL until the first. No wild, but nwild: they are in the buckets */
	uint32_t nwild[HDL_MATCH_KINDS];		/* those in the buckets, by kind; [HDL_MATCH_EXACT]: all, wherever they are */
	struct hdl_unexpected *first, *last;		/* all have entries in the index, or none */
};

/* Receives with wildcards, or unexpected messages, of a context that are walked. */
#define HDL_MATCH_WALK 64u

struct hdl_matching {
	struct hdl_bucket *buckets;
	unsigned shift;			/* 64 - log2 of the number of buckets */
	unsigned failed_peers;
	uint64_t stamp;
	size_t nbuckets, nentries, nunexpected;
	struct hdl_match_bucket *index;	/* NULL: no context has one; index_size is a power of two */
	size_t index_size, nindexed;
	size_t steps;			/* entries that searches with wildcards have looked at; for tests */
	struct hdl_tp *tp;		/* what its messages come by, since hdl_p2p_init has it, until it is closed; else NULL */

	/* recv.c's */
	size_t unexpected_bytes;	/* memory of the messages that are held here in full */
	bool counts_peers;	/* the limit was reached: they are counted per peer (struct hdl_ep_note), too */
	int neager_off;			/* peers that were asked to hold back */
	size_t unexpected_warn;		/* so many bytes are reported */
	bool (*on_failed)(uint16_t context, int proc, bool by_message);		/* hdl_ft_on_message's */

	/* By context: zero pages until one is used, so that this has to come from the kernel. */
	_Alignas(64) struct hdl_match_context contexts[UINT16_MAX + 1];
	/* Messages need not match in their order (mpi_assert_allow_overtaking), so that one which an exact receive waits for does
	 * not look at the wildcards. */
	bool overtaking[UINT16_MAX + 1];
	int revoked[UINT16_MAX + 1];	/* of collective ones: 1 + the process that has ended; see hdl_recv_revoke */
};

void hdl_match_grow(struct hdl_matching *m);

/* The high bits depend on all bits of the key: the multiplier is that of Fibonacci hashing. */
static inline uint64_t hdl_match_hash(uint16_t context, int32_t src, int32_t tag)
{
	uint64_t key = (uint64_t)(uint32_t)src << 32 | (uint32_t)tag;

	return (key ^ (uint64_t)context << 48) * 0x9e3779b97f4a7c15u;
}

static inline struct hdl_bucket *hdl_match_bucket(const struct hdl_matching *m, uint16_t context, int32_t src, int32_t tag)
{
	return &m->buckets[hdl_match_hash(context, src, tag) >> m->shift];
}

static inline void hdl_bucket_post(struct hdl_bucket *b, struct hdl_op *op)
{
	op->next = NULL;
	op->posted = b->posted_end;
	*b->posted_end = op;
	b->posted_end = &op->next;
}

/* Takes a receive out of its bucket, or of a list, that ends at *end. */
static inline void hdl_match_unlink(struct hdl_op *op, struct hdl_op ***end)
{
	*op->posted = op->next;
	if (op->next)
		op->next->posted = op->posted;
	else
		*end = op->posted;
	op->posted = NULL;
}

static inline void hdl_match_count(struct hdl_matching *m)
{
	if (unlikely(++m->nentries > 2 * m->nbuckets))
		hdl_match_grow(m);
}

static inline bool hdl_is_wild(int32_t src, int32_t tag)
{
	return src == MPI_ANY_SOURCE || tag == MPI_ANY_TAG;
}

static inline bool hdl_wild_matches(int32_t want_src, int32_t want_tag, int32_t src, int32_t tag)
{
	return (want_src == src || want_src == MPI_ANY_SOURCE) && (want_tag == tag || want_tag == MPI_ANY_TAG);
}

void hdl_match_post_wild(struct hdl_matching *m, struct hdl_op *op);

/* Appends a receive to the queue; its message is not there yet. */
static inline void hdl_match_post(struct hdl_matching *m, struct hdl_op *op)
{
	op->stamp = ++m->stamp;
	if (likely(!hdl_is_wild(op->src, op->tag))) {
		hdl_bucket_post(hdl_match_bucket(m, op->context, op->src, op->tag), op);
		hdl_match_count(m);
	} else {
		hdl_match_post_wild(m, op);
	}
}

/* hdl_match_arrived for a context with wildcard receives: takes out the earlier one of `exact` (NULL: no exact receive) and of the first
 * wildcard receive that matches. */
struct hdl_op *hdl_match_wild(struct hdl_matching *m, struct hdl_bucket *b, struct hdl_op *exact, uint16_t context, int32_t src,
			      int32_t tag);

/* Takes out the receive that a message matches, or NULL. */
static inline struct hdl_op *hdl_match_arrived(struct hdl_matching *m, uint16_t context, int32_t src, int32_t tag)
{
	struct hdl_bucket *b = hdl_match_bucket(m, context, src, tag);
	struct hdl_op *op = b->posted;

	while (op && unlikely(op->tag != tag || op->src != src || op->context != context))
		op = op->next;
	if (unlikely(m->contexts[context].nwild[HDL_MATCH_EXACT]))
		return hdl_match_wild(m, b, op, context, src, tag);
	if (op) {
		hdl_match_unlink(op, &b->posted_end);
		m->nentries--;
	}
	return op;
}

/* The earliest unexpected message of any that a wildcard receive or probe matches, or NULL. */
struct hdl_unexpected *hdl_match_find_wild(struct hdl_matching *m, uint16_t context, int32_t src, int32_t tag);

/* The earliest unexpected message that a receive or a probe matches, or NULL. It stays in the queue. */
static inline struct hdl_unexpected *hdl_match_find(struct hdl_matching *m, uint16_t context, int32_t src, int32_t tag)
{
	struct hdl_unexpected *u;

	if (likely(!m->nunexpected))
		return NULL;
	if (unlikely(hdl_is_wild(src, tag)))
		return hdl_match_find_wild(m, context, src, tag);
	u = hdl_match_bucket(m, context, src, tag)->unexpected;
	while (u && (u->tag != tag || u->src != src || u->context != context))
		u = u->next;
	return u;
}

/* NULL without memory. */
struct hdl_matching *hdl_matching_new(void);
/* Forgets the unexpected messages, too. Receives are not posted any more; m may be NULL. */
void hdl_matching_free(struct hdl_matching *m);
void hdl_match_add(struct hdl_matching *m, struct hdl_unexpected *u);
void hdl_match_remove(struct hdl_matching *m, struct hdl_unexpected *u);
/* Takes a posted receive out. */
void hdl_match_withdraw(struct hdl_matching *m, struct hdl_op *op);
/* Takes out the posted receives for which fn is true; returns them, linked by next, in order of posting per queue. */
struct hdl_op *hdl_match_sweep(struct hdl_matching *m, bool (*fn)(const struct hdl_op *op, void *arg), void *arg);
void hdl_match_each_posted(const struct hdl_matching *m, void (*fn)(const struct hdl_op *op, void *arg), void *arg);
/* Forgets the unexpected messages of a context that is given back, and returns how many there were. */
unsigned hdl_match_purge(struct hdl_matching *m, uint16_t context);
void hdl_unexpected_count_from(struct hdl_matching *m, const struct hdl_unexpected *u, bool more);
static inline void hdl_unexpected_count(struct hdl_matching *m, const struct hdl_unexpected *u, bool more)
{
	if (u->kind != HDL_EAGER)
		return;
	m->unexpected_bytes = more ? m->unexpected_bytes + u->heap_bytes : m->unexpected_bytes - u->heap_bytes;
	if (unlikely(m->counts_peers))
		hdl_unexpected_count_from(m, u, more);
}
void hdl_match_each_unexpected(const struct hdl_matching *m, void (*fn)(const struct hdl_unexpected *u, void *arg), void *arg);

#endif
