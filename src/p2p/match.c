/* SPDX-License-Identifier: BSD-3-Clause */
/* Matching: what is off the path of every message. match.h has the invariants. */
#include "p2p/match.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#define BUCKETS_MIN	256

static void bucket_init(struct hdl_bucket *b)
{
	b->posted = NULL;
	b->posted_end = &b->posted;
	b->unexpected = NULL;
	b->unexpected_end = &b->unexpected;
}

static int table_make(struct hdl_matching *m, size_t n)
{
	struct hdl_bucket *table = aligned_alloc(64, n * sizeof(*table));

	if (!table)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		bucket_init(&table[i]);
	m->buckets = table;
	m->nbuckets = n;
	m->shift = 64 - __builtin_ctzl(n);
	return 0;
}

static inline void bucket_add(struct hdl_bucket *b, struct hdl_unexpected *u)
{
	u->next = NULL;
	*b->unexpected_end = u;
	b->unexpected_end = &u->next;
}

/* Entries of one key keep their order: a bucket is moved from its head. Without memory the old table serves on. */
void hdl_match_grow(struct hdl_matching *m)
{
	struct hdl_bucket *old = m->buckets;
	size_t n = m->nbuckets;

	if (table_make(m, n * 4))
		return;
	for (size_t i = 0; i < n; i++) {
		for (struct hdl_op *op = old[i].posted, *next; op; op = next) {
			next = op->next;
			hdl_bucket_post(hdl_match_bucket(m, op->context, op->src, op->tag), op);
		}
		for (struct hdl_unexpected *u = old[i].unexpected, *next; u; u = next) {
			next = u->next;
			bucket_add(hdl_match_bucket(m, u->context, u->src, u->tag), u);
		}
	}
	free(old);
}

/* The heap might hand out, and clear, memory that was used before; and a huge page would be touched as a whole. */
struct hdl_matching *hdl_matching_new(void)
{
	struct hdl_matching *m = mmap(NULL, sizeof(*m), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (m == MAP_FAILED)
		return NULL;
	madvise(m, sizeof(*m), MADV_NOHUGEPAGE);	/* EINVAL: the kernel has none */
	m->unexpected_warn = hdl_vars.unexpected_warn ? hdl_vars.unexpected_warn : SIZE_MAX;
	if (!table_make(m, BUCKETS_MIN))
		return m;
	munmap(m, sizeof(*m));
	return NULL;
}

void hdl_matching_free(struct hdl_matching *m)
{
	if (!m)
		return;
	for (unsigned c = 0; m->nunexpected; c++)
		hdl_match_purge(m, (uint16_t)c);
	free(m->buckets);
	munmap(m, sizeof(*m));
}

struct hdl_op *hdl_match_wild(struct hdl_matching *m, struct hdl_bucket *b, struct hdl_op **link, uint16_t context, int32_t src,
			      int32_t tag)
{
	struct hdl_match_context *c = &m->contexts[context];
	struct hdl_op **wlink = &c->wild, *wild, *op = *link;

	if (op && m->overtaking[context])
		wlink = c->wild_end;	/* the end of the list */
	while ((wild = *wlink) && !hdl_wild_matches(wild->src, wild->tag, src, tag))
		wlink = &wild->next;
	if (wild && (!op || wild->stamp < op->stamp)) {
		hdl_match_unlink(wlink, wild, &c->wild_end);
		return wild;
	}
	if (op) {
		hdl_match_unlink(link, op, &b->posted_end);
		m->nentries--;
	}
	return op;
}

struct hdl_unexpected *hdl_match_find_wild(const struct hdl_matching *m, uint16_t context, int32_t src, int32_t tag)
{
	struct hdl_unexpected *u = m->contexts[context].first;

	while (u && !hdl_wild_matches(src, tag, u->src, u->tag))
		u = u->after;
	return u;
}

void hdl_match_add(struct hdl_matching *m, struct hdl_unexpected *u)
{
	struct hdl_match_context *c = &m->contexts[u->context];

	bucket_add(hdl_match_bucket(m, u->context, u->src, u->tag), u);
	u->after = NULL;
	u->before = c->last;
	if (c->last)
		c->last->after = u;
	else
		c->first = u;
	c->last = u;
	hdl_unexpected_count(m, u, true);
	m->nunexpected++;
	hdl_match_count(m);
}

void hdl_match_remove(struct hdl_matching *m, struct hdl_unexpected *u)
{
	struct hdl_bucket *b = hdl_match_bucket(m, u->context, u->src, u->tag);
	struct hdl_match_context *c = &m->contexts[u->context];
	struct hdl_unexpected **link = &b->unexpected;

	while (*link != u)
		link = &(*link)->next;
	*link = u->next;
	if (!u->next)
		b->unexpected_end = link;
	*(u->before ? &u->before->after : &c->first) = u->after;
	*(u->after ? &u->after->before : &c->last) = u->before;
	hdl_unexpected_count(m, u, false);
	m->nunexpected--;
	m->nentries--;
}

void hdl_match_withdraw(struct hdl_matching *m, struct hdl_op *op)
{
	bool wild = hdl_is_wild(op->src, op->tag);
	struct hdl_bucket *b = hdl_match_bucket(m, op->context, op->src, op->tag);
	struct hdl_match_context *c = &m->contexts[op->context];
	struct hdl_op **link = wild ? &c->wild : &b->posted;

	while (*link != op)
		link = &(*link)->next;
	hdl_match_unlink(link, op, wild ? &c->wild_end : &b->posted_end);
	m->nentries -= !wild;
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

struct hdl_op *hdl_match_sweep(struct hdl_matching *m, bool (*fn)(const struct hdl_op *op, void *arg), void *arg)
{
	struct hdl_op *found = NULL, **out = &found;

	for (size_t i = 0; i < m->nbuckets; i++)
		sweep_list(&m->buckets[i].posted, &m->buckets[i].posted_end, fn, arg, &out,
			   &m->nentries);
	for (unsigned c = 0; c <= UINT16_MAX; c++)
		if (m->contexts[c].wild)
			sweep_list(&m->contexts[c].wild, &m->contexts[c].wild_end, fn, arg, &out, NULL);
	return found;
}

void hdl_match_each_posted(const struct hdl_matching *m, void (*fn)(const struct hdl_op *op, void *arg), void *arg)
{
	for (size_t i = 0; i < m->nbuckets; i++)
		for (struct hdl_op *op = m->buckets[i].posted; op; op = op->next)
			fn(op, arg);
	for (unsigned c = 0; c <= UINT16_MAX; c++)
		for (struct hdl_op *op = m->contexts[c].wild; op; op = op->next)
			fn(op, arg);
}

unsigned hdl_match_purge(struct hdl_matching *m, uint16_t context)
{
	struct hdl_unexpected *u;
	unsigned n = 0;

	while ((u = m->contexts[context].first)) {
		hdl_match_remove(m, u);
		hdl_buf_put(u);
		n++;
	}
	return n;
}

void hdl_match_each_unexpected(const struct hdl_matching *m, void (*fn)(const struct hdl_unexpected *u, void *arg), void *arg)
{
	for (size_t i = 0; i < m->nbuckets; i++)
		for (struct hdl_unexpected *u = m->buckets[i].unexpected; u; u = u->next)
			fn(u, arg);
}
