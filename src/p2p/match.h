/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Matching (MPI-5.0 section 3.5). An instance has one hash table by (context, source, tag), whose buckets hold the posted
 * receives without wildcards and the unexpected messages. Each context has a list of the receives with wildcards, in the order
 * of posting, and a list of the unexpected messages, in the order of arrival.
 *
 * A message looks at the head of one bucket and at the context's wildcards. A receive without wildcard looks at the head of
 * one bucket, whatever else is queued. If both an exact receive and one with a wildcard match a message, the one with the lower
 * stamp was posted first.
 *
 * Wildcard lists are walked while they are short, up to HDL_MATCH_WALK entries. Longer ones are hashed:
 *     - Receives: all wildcard receives of the context move into the buckets, under (context, MPI_ANY_SOURCE, tag) and the
 *       like, until none is left. A message then looks up the at most three wildcard keys that match.
 *     - Messages: a receive or probe that has walked HDL_MATCH_WALK unexpected messages makes an index for the context, with
 *       two entries for each message, (context, MPI_ANY_SOURCE, tag) and (context, source, MPI_ANY_TAG), in the order of
 *       arrival. The index stays until the context has no message, and takes 64 bytes for each. Without memory for an index
 *       the list is walked.
 * So a search takes a bounded number of steps, whatever is queued. A bucket holds several keys: if very many receives of one
 * key are queued, a search for another key in that bucket is longer. The table grows with the number of entries, so few keys
 * share a bucket.
 *
 * A context need not have a communicator here: messages for a communicator that this rank has not finished constructing wait as
 * unexpected ones.
 *
 * All state is in struct hdl_matching, one for each instance of the transport. The instance's upcalls get it as their context,
 * and a communicator points to the one in which its messages are matched.
 *
 * The path of every message is inline; the rest is in match.c.
 */
#ifndef HDL_P2P_MATCH_H
#define HDL_P2P_MATCH_H

#include "p2p/request.h"

struct hdl_bucket {
	struct hdl_op *posted, **posted_end;
	struct hdl_unexpected *unexpected, **unexpected_end;
};
_Static_assert(sizeof(struct hdl_bucket) == 32, "two buckets to a cache line");

/* An entry of the index: an unexpected message under one of its two wildcard keys. */
struct hdl_match_entry {
	struct hdl_match_entry *next, **at;		/* in its bucket of the index; the pointer to this entry there */
	struct hdl_unexpected *u;
	int32_t src, tag;				/* one of the two is MPI_ANY_SOURCE or MPI_ANY_TAG */
};

struct hdl_match_bucket {
	struct hdl_match_entry *first, **end;
};

/* The kinds of keys of posted receives, as two bits. */
enum hdl_match_kind { HDL_MATCH_EXACT, HDL_MATCH_ANY_SOURCE, HDL_MATCH_ANY_TAG, HDL_MATCH_ANY, HDL_MATCH_KINDS };
static inline enum hdl_match_kind hdl_match_kind(int32_t src, int32_t tag)
{
	return (enum hdl_match_kind)((src == MPI_ANY_SOURCE) * HDL_MATCH_ANY_SOURCE + (tag == MPI_ANY_TAG) * HDL_MATCH_ANY_TAG);
}

struct hdl_match_context {
	/* wild_end: NULL until the first is posted. wild is NULL if there are none, or (nwild) if all are in the buckets */
	struct hdl_op *wild, **wild_end;
	/* receives in the buckets, by kind; [HDL_MATCH_EXACT]: all receives with wildcards, in the list or the buckets */
	uint32_t nwild[HDL_MATCH_KINDS];
	/* unexpected messages; either all have entries in the index, or none has */
	struct hdl_unexpected *first, *last;
};

/* Entries of a context's list, of receives with wildcards or of unexpected messages, that are walked. */
#define HDL_MATCH_WALK 64u

struct hdl_matching {
	struct hdl_bucket *buckets;
	unsigned shift;			/* 64 - log2 of the number of buckets */
	unsigned failed_peers;
	uint64_t stamp;
	size_t nbuckets, nentries, nunexpected;
	struct hdl_match_bucket *index;	/* NULL: no context has one; index_size is a power of two */
	size_t index_size, nindexed;
	size_t steps;			/* entries that searches with wildcards have visited; for tests */
	/* the transport of its messages, from hdl_p2p_init until the transport is closed; else NULL */
	struct hdl_tp *tp;

	/* unexpected.c's */
	size_t unexpected_bytes;	/* heap bytes of the HDL_EAGER messages that wait here */
	bool counts_peers;	/* the limit was reached once: bytes are counted for each peer (struct hdl_ep_note), too */
	int neager_off;			/* peers that have HDL_CTL_HOLD: they announce their messages */
	size_t unexpected_warn;		/* the next warning comes above so many bytes */
	bool (*on_failed)(uint16_t context, int proc, bool by_message);		/* hdl_ft_on_message's */

	/* By context. Pages of zeros until they are used, so this memory must come from the kernel (hdl_matching_new). */
	_Alignas(64) struct hdl_match_context contexts[UINT16_MAX + 1];
	/* mpi_assert_allow_overtaking: a message that an exact receive matches does not look at wildcards. */
	bool overtaking[UINT16_MAX + 1];
	int revoked[UINT16_MAX + 1];	/* by collective context: 1 + the failed process (hdl_recv_revoke); 0: in use */
};

void hdl_match_grow(struct hdl_matching *m);

/* Fibonacci hashing: all bits of the key influence the high bits. */
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

/* Takes a receive out of a bucket or list that ends at *end. */
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

/* Appends a receive to its queue. Must: no unexpected message matches it (hdl_match_find). */
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

/* hdl_match_arrived in a context with wildcard receives. Takes out and returns the earlier one of `exact` (NULL: none matches)
 * and of the first wildcard receive that matches. */
struct hdl_op *hdl_match_wild(struct hdl_matching *m, struct hdl_bucket *b, struct hdl_op *exact, uint16_t context, int32_t src,
			      int32_t tag);

/* Takes out and returns the receive that a message matches; NULL: none. */
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

/* hdl_match_find for a receive or probe with a wildcard. */
struct hdl_unexpected *hdl_match_find_wild(struct hdl_matching *m, uint16_t context, int32_t src, int32_t tag);

/* Returns the earliest unexpected message that a receive or probe matches; NULL: none. The message stays in the queue. */
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

/* Returns NULL without memory. */
struct hdl_matching *hdl_matching_new(void);
/* Frees the unexpected messages, too. Must: no receive is posted. m may be NULL. */
void hdl_matching_free(struct hdl_matching *m);
void hdl_match_add(struct hdl_matching *m, struct hdl_unexpected *u);
void hdl_match_remove(struct hdl_matching *m, struct hdl_unexpected *u);
/* Takes a posted receive out of its queue. */
void hdl_match_withdraw(struct hdl_matching *m, struct hdl_op *op);
/* Takes out the posted receives for which fn returns true. Returns them, linked by next, in the order of posting within each
 * queue. */
struct hdl_op *hdl_match_sweep(struct hdl_matching *m, bool (*fn)(const struct hdl_op *op, void *arg), void *arg);
void hdl_match_each_posted(const struct hdl_matching *m, void (*fn)(const struct hdl_op *op, void *arg), void *arg);
/* Frees the unexpected messages of a context. Returns how many there were. */
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
