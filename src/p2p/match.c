/* SPDX-License-Identifier: BSD-3-Clause */
/* Matching: what is off the path of every message. match.h has the invariants. */
#include "p2p/match.h"

#include <errno.h>
#include <stdlib.h>

#define BUCKETS_MIN	256

struct hdl_match hdl_match;
size_t hdl_unexpected_bytes;
bool hdl_unexpected_counting;

/* Zero pages until a context is used: untouched ones cost nothing. */
struct hdl_match_context hdl_match_contexts[UINT16_MAX + 1];

bool hdl_match_overtaking[UINT16_MAX + 1];

static void bucket_init(struct hdl_bucket *b)
{
	b->posted = NULL;
	b->posted_end = &b->posted;
	b->unexpected = NULL;
	b->unexpected_end = &b->unexpected;
}

static int table_make(size_t n)
{
	struct hdl_bucket *table = aligned_alloc(64, n * sizeof(*table));

	if (!table)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		bucket_init(&table[i]);
	hdl_match.buckets = table;
	hdl_match.nbuckets = n;
	hdl_match.shift = 64 - __builtin_ctzl(n);
	return 0;
}

static inline void bucket_add(struct hdl_bucket *b, struct hdl_unexpected *u)
{
	u->next = NULL;
	*b->unexpected_end = u;
	b->unexpected_end = &u->next;
}

/* Entries of one key keep their order: a bucket is moved from its head. Without memory the old table serves on. */
void hdl_match_grow(void)
{
	struct hdl_bucket *old = hdl_match.buckets;
	size_t n = hdl_match.nbuckets;

	if (table_make(n * 4))
		return;
	for (size_t i = 0; i < n; i++) {
		for (struct hdl_op *op = old[i].posted, *next; op; op = next) {
			next = op->next;
			hdl_bucket_post(hdl_match_bucket(op->context, op->src, op->tag), op);
		}
		for (struct hdl_unexpected *u = old[i].unexpected, *next; u; u = next) {
			next = u->next;
			bucket_add(hdl_match_bucket(u->context, u->src, u->tag), u);
		}
	}
	free(old);
}

int hdl_match_init(void)
{
	return table_make(BUCKETS_MIN);
}

void hdl_match_fini(void)
{
	for (unsigned c = 0; hdl_match.nunexpected; c++)
		hdl_match_purge(c);
	free(hdl_match.buckets);
	hdl_match.buckets = NULL;
	hdl_match.nbuckets = hdl_match.nentries = 0;
}

struct hdl_op *hdl_match_wild(struct hdl_bucket *b, struct hdl_op **link, uint16_t context, int32_t src, int32_t tag)
{
	struct hdl_match_context *c = &hdl_match_contexts[context];
	struct hdl_op **wlink = &c->wild, *wild, *op = *link;

	if (op && hdl_match_overtaking[context])
		wlink = c->wild_end;	/* the end of the list */
	while ((wild = *wlink) && !hdl_wild_matches(wild->src, wild->tag, src, tag))
		wlink = &wild->next;
	if (wild && (!op || wild->stamp < op->stamp)) {
		hdl_match_unlink(wlink, wild, &c->wild_end);
		return wild;
	}
	if (op) {
		hdl_match_unlink(link, op, &b->posted_end);
		hdl_match.nentries--;
	}
	return op;
}

struct hdl_unexpected *hdl_match_find_wild(uint16_t context, int32_t src, int32_t tag)
{
	struct hdl_unexpected *u = hdl_match_contexts[context].first;

	while (u && !hdl_wild_matches(src, tag, u->src, u->tag))
		u = u->after;
	return u;
}

void hdl_match_add(struct hdl_unexpected *u)
{
	struct hdl_match_context *c = &hdl_match_contexts[u->context];

	bucket_add(hdl_match_bucket(u->context, u->src, u->tag), u);
	u->after = NULL;
	u->before = c->last;
	if (c->last)
		c->last->after = u;
	else
		c->first = u;
	c->last = u;
	hdl_unexpected_count(u, true);
	hdl_match.nunexpected++;
	hdl_match_count();
}

void hdl_match_remove(struct hdl_unexpected *u)
{
	struct hdl_bucket *b = hdl_match_bucket(u->context, u->src, u->tag);
	struct hdl_match_context *c = &hdl_match_contexts[u->context];
	struct hdl_unexpected **link = &b->unexpected;

	while (*link != u)
		link = &(*link)->next;
	*link = u->next;
	if (!u->next)
		b->unexpected_end = link;
	*(u->before ? &u->before->after : &c->first) = u->after;
	*(u->after ? &u->after->before : &c->last) = u->before;
	hdl_unexpected_count(u, false);
	hdl_match.nunexpected--;
	hdl_match.nentries--;
}

void hdl_match_withdraw(struct hdl_op *op)
{
	bool wild = hdl_is_wild(op->src, op->tag);
	struct hdl_bucket *b = hdl_match_bucket(op->context, op->src, op->tag);
	struct hdl_match_context *c = &hdl_match_contexts[op->context];
	struct hdl_op **link = wild ? &c->wild : &b->posted;

	while (*link != op)
		link = &(*link)->next;
	hdl_match_unlink(link, op, wild ? &c->wild_end : &b->posted_end);
	hdl_match.nentries -= !wild;
}

static void sweep_list(struct hdl_op **link, struct hdl_op ***end, bool (*fn)(const struct hdl_op *, void *), void *arg,
		       struct hdl_op ***out, size_t *count)
{
	struct hdl_op *op;

	while ((op = *link)) {
		if (!fn(op, arg)) {
			link = &op->next;
			continue;
		}
		hdl_match_unlink(link, op, end);
		op->next = NULL;
		**out = op;
		*out = &op->next;
		if (count)
			--*count;
	}
}

struct hdl_op *hdl_match_sweep(bool (*fn)(const struct hdl_op *op, void *arg), void *arg)
{
	struct hdl_op *found = NULL, **out = &found;

	for (size_t i = 0; i < hdl_match.nbuckets; i++)
		sweep_list(&hdl_match.buckets[i].posted, &hdl_match.buckets[i].posted_end, fn, arg, &out,
			   &hdl_match.nentries);
	for (unsigned c = 0; c <= UINT16_MAX; c++)
		if (hdl_match_contexts[c].wild)
			sweep_list(&hdl_match_contexts[c].wild, &hdl_match_contexts[c].wild_end, fn, arg, &out, NULL);
	return found;
}

void hdl_match_each_posted(void (*fn)(const struct hdl_op *op, void *arg), void *arg)
{
	for (size_t i = 0; i < hdl_match.nbuckets; i++)
		for (struct hdl_op *op = hdl_match.buckets[i].posted; op; op = op->next)
			fn(op, arg);
	for (unsigned c = 0; c <= UINT16_MAX; c++)
		for (struct hdl_op *op = hdl_match_contexts[c].wild; op; op = op->next)
			fn(op, arg);
}

unsigned hdl_match_purge(uint16_t context)
{
	struct hdl_unexpected *u;
	unsigned n = 0;

	while ((u = hdl_match_contexts[context].first)) {
		hdl_match_remove(u);
		hdl_buf_put(u);
		n++;
	}
	return n;
}

void hdl_match_each_unexpected(void (*fn)(const struct hdl_unexpected *u, void *arg), void *arg)
{
	for (size_t i = 0; i < hdl_match.nbuckets; i++)
		for (struct hdl_unexpected *u = hdl_match.buckets[i].unexpected; u; u = u->next)
			fn(u, arg);
}
