/* SPDX-License-Identifier: BSD-3-Clause */
/* Matching: all but the path of every message. match.h has the invariants. */
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
	u->at = b->unexpected_end;
	*b->unexpected_end = u;
	b->unexpected_end = &u->next;
}

/* Entries of one key keep their order, since each bucket is moved from its head. Without memory the old table stays in use. */
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

/* By mmap, since calloc may return memory that was used and clear all of it; without huge pages, of which one would be touched as
 * a whole. */
struct hdl_matching *hdl_matching_new(void)
{
	struct hdl_matching *m = mmap(NULL, sizeof(*m), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (m == MAP_FAILED)
		return NULL;
	madvise(m, sizeof(*m), MADV_NOHUGEPAGE);	/* fails with EINVAL if the kernel has no huge pages */
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
	free(m->index);
	free(m->buckets);
	munmap(m, sizeof(*m));
}

/* ---- receives with wildcards ----------------------------------------------------------------------------------- */

static void post_hashed(struct hdl_matching *m, struct hdl_match_context *c, struct hdl_op *op)
{
	c->nwild[hdl_match_kind(op->src, op->tag)]++;
	hdl_bucket_post(hdl_match_bucket(m, op->context, op->src, op->tag), op);
	hdl_match_count(m);
}

/* Moves a list that has become long into the buckets. */
static __attribute__((noinline)) void hash_wild(struct hdl_matching *m, struct hdl_match_context *c)
{
	struct hdl_op *op = c->wild, *next;

	for (c->wild = NULL; op; op = next) {
		next = op->next;
		post_hashed(m, c, op);
	}
}

void hdl_match_post_wild(struct hdl_matching *m, struct hdl_op *op)
{
	struct hdl_match_context *c = &m->contexts[op->context];
	uint32_t before = c->nwild[HDL_MATCH_EXACT]++;

	if (unlikely(before == HDL_MATCH_WALK) && c->wild)
		hash_wild(m, c);
	if (unlikely(before) && !c->wild) {
		post_hashed(m, c, op);
		return;
	}
	if (!before)
		c->wild_end = &c->wild;
	op->next = NULL;
	op->posted = c->wild_end;
	*c->wild_end = op;
	c->wild_end = &op->next;
}

static void unlink_hashed(struct hdl_matching *m, struct hdl_bucket *b, struct hdl_op *op)
{
	hdl_match_unlink(op, &b->posted_end);
	m->nentries--;
}

static __attribute__((noinline)) struct hdl_op *take_hashed(struct hdl_matching *m, struct hdl_op *exact, uint16_t context,
							    int32_t src, int32_t tag)
{
	struct hdl_match_context *c = &m->contexts[context];
	struct hdl_op *op = exact, *w;
	int kind = exact && m->overtaking[context] ? HDL_MATCH_KINDS : HDL_MATCH_ANY_SOURCE;

	for (; kind < HDL_MATCH_KINDS; kind++) {
		int32_t s = kind & HDL_MATCH_ANY_SOURCE ? MPI_ANY_SOURCE : src, t = kind & HDL_MATCH_ANY_TAG ? MPI_ANY_TAG : tag;

		if (!c->nwild[kind])
			continue;
		w = hdl_match_bucket(m, context, s, t)->posted;
		for (m->steps++; w && (w->tag != t || w->src != s || w->context != context); m->steps++)
			w = w->next;
		if (w && (!op || w->stamp < op->stamp))
			op = w;
	}
	if (op)
		hdl_match_withdraw(m, op);
	return op;
}

struct hdl_op *hdl_match_wild(struct hdl_matching *m, struct hdl_bucket *b, struct hdl_op *exact, uint16_t context, int32_t src,
			      int32_t tag)
{
	struct hdl_match_context *c = &m->contexts[context];
	struct hdl_op *wild = c->wild;

	if (unlikely(!wild))
		return take_hashed(m, exact, context, src, tag);
	if (exact && m->overtaking[context])
		wild = NULL;
	while (wild && !hdl_wild_matches(wild->src, wild->tag, src, tag))
		wild = wild->next;
	if (wild && (!exact || wild->stamp < exact->stamp)) {
		hdl_match_unlink(wild, &c->wild_end);
		c->nwild[HDL_MATCH_EXACT]--;
		return wild;
	}
	if (exact)
		unlink_hashed(m, b, exact);
	return exact;
}

void hdl_match_withdraw(struct hdl_matching *m, struct hdl_op *op)
{
	struct hdl_match_context *c = &m->contexts[op->context];
	enum hdl_match_kind kind = hdl_match_kind(op->src, op->tag);
	bool listed = kind != HDL_MATCH_EXACT && c->wild;

	if (kind != HDL_MATCH_EXACT) {
		c->nwild[HDL_MATCH_EXACT]--;
		c->nwild[kind] -= !listed;
	}
	if (listed)
		hdl_match_unlink(op, &c->wild_end);
	else
		unlink_hashed(m, hdl_match_bucket(m, op->context, op->src, op->tag), op);
}

/* ---- the index of unexpected messages by wildcards ------------------------------------------------------------- */

static struct hdl_match_bucket *index_bucket(const struct hdl_matching *m, uint16_t context, int32_t src, int32_t tag)
{
	return &m->index[hdl_match_hash(context, src, tag) >> (64 - __builtin_ctzl(m->index_size))];
}

static void entry_add(struct hdl_matching *m, struct hdl_match_entry *e)
{
	struct hdl_match_bucket *b = index_bucket(m, e->u->context, e->src, e->tag);

	e->next = NULL;
	e->at = b->end;
	*b->end = e;
	b->end = &e->next;
}

static void entry_remove(struct hdl_matching *m, struct hdl_match_entry *e)
{
	*e->at = e->next;
	if (e->next)
		e->next->at = e->at;
	else
		index_bucket(m, e->u->context, e->src, e->tag)->end = e->at;
}

/* Entries of one key keep their order, since each bucket is moved from its head. Returns false without memory; an old table stays
 * in use. */
static bool index_resize(struct hdl_matching *m, size_t n)
{
	struct hdl_match_bucket *old = m->index, *index = malloc(n * sizeof(*index));
	size_t nold = old ? m->index_size : 0;

	if (!index)
		return false;
	for (size_t i = 0; i < n; i++)
		index[i] = (struct hdl_match_bucket){ NULL, &index[i].first };
	m->index = index;
	m->index_size = n;
	for (size_t i = 0; i < nold; i++)
		for (struct hdl_match_entry *e = old[i].first, *next; e; e = next) {
			next = e->next;
			entry_add(m, e);
		}
	free(old);
	return true;
}

/* Returns false without memory. */
static bool index_add(struct hdl_matching *m, struct hdl_unexpected *u)
{
	struct hdl_match_entry *e;

	if ((!m->index || m->nindexed > m->index_size) && !index_resize(m, m->index ? m->index_size * 4 : BUCKETS_MIN) &&
	    !m->index)
		return false;
	e = malloc(2 * sizeof(*e));
	if (!e)
		return false;
	e[0] = (struct hdl_match_entry){ .u = u, .src = MPI_ANY_SOURCE, .tag = u->tag };
	e[1] = (struct hdl_match_entry){ .u = u, .src = u->src, .tag = MPI_ANY_TAG };
	entry_add(m, &e[0]);
	entry_add(m, &e[1]);
	u->entries = e;
	m->nindexed++;
	return true;
}

static __attribute__((noinline)) void index_remove(struct hdl_matching *m, struct hdl_unexpected *u)
{
	entry_remove(m, &u->entries[0]);
	entry_remove(m, &u->entries[1]);
	free(u->entries);
	u->entries = NULL;
	if (!--m->nindexed) {
		free(m->index);
		m->index = NULL;
	}
}

static void index_drop(struct hdl_matching *m, const struct hdl_match_context *c)
{
	for (struct hdl_unexpected *u = c->first; u; u = u->after)
		if (u->entries)
			index_remove(m, u);
}

/* Returns false without memory; no message of the context has entries then. */
static bool index_make(struct hdl_matching *m, const struct hdl_match_context *c)
{
	for (struct hdl_unexpected *u = c->first; u; u = u->after)
		if (!index_add(m, u)) {
			index_drop(m, c);
			return false;
		}
	return true;
}

static __attribute__((noinline)) struct hdl_unexpected *find_indexed(struct hdl_matching *m, uint16_t context, int32_t src,
								     int32_t tag)
{
	struct hdl_match_entry *e;

	if (hdl_match_kind(src, tag) == HDL_MATCH_ANY)
		return m->contexts[context].first;
	e = index_bucket(m, context, src, tag)->first;
	for (m->steps++; e && (e->tag != tag || e->src != src || e->u->context != context); m->steps++)
		e = e->next;
	return e ? e->u : NULL;
}

/* The rest of a long list. No message before u matches, nor u. */
static __attribute__((noinline)) struct hdl_unexpected *find_behind(struct hdl_matching *m, struct hdl_unexpected *u,
								    uint16_t context, int32_t src, int32_t tag)
{
	m->steps += HDL_MATCH_WALK;
	if (index_make(m, &m->contexts[context]))
		return find_indexed(m, context, src, tag);
	while (u && !hdl_wild_matches(src, tag, u->src, u->tag))
		u = u->after;
	return u;
}

struct hdl_unexpected *hdl_match_find_wild(struct hdl_matching *m, uint16_t context, int32_t src, int32_t tag)
{
	struct hdl_unexpected *u = m->contexts[context].first;

	if (u && unlikely(u->entries))
		return find_indexed(m, context, src, tag);
	for (unsigned n = 0; u && !hdl_wild_matches(src, tag, u->src, u->tag); u = u->after)
		if (unlikely(++n == HDL_MATCH_WALK))
			return find_behind(m, u, context, src, tag);
	return u;
}

/* Adds a message to an indexed context. Without memory the context is no longer indexed. */
static __attribute__((noinline)) void index_more(struct hdl_matching *m, struct hdl_unexpected *u)
{
	if (!index_add(m, u))
		index_drop(m, &m->contexts[u->context]);
}

void hdl_match_add(struct hdl_matching *m, struct hdl_unexpected *u)
{
	struct hdl_match_context *c = &m->contexts[u->context];

	bucket_add(hdl_match_bucket(m, u->context, u->src, u->tag), u);
	u->after = NULL;
	u->before = c->last;
	u->entries = NULL;
	if (c->last)
		c->last->after = u;
	else
		c->first = u;
	c->last = u;
	if (u->before && unlikely(u->before->entries))
		index_more(m, u);
	hdl_unexpected_count(m, u, true);
	m->nunexpected++;
	hdl_match_count(m);
}

void hdl_match_remove(struct hdl_matching *m, struct hdl_unexpected *u)
{
	struct hdl_match_context *c = &m->contexts[u->context];

	*u->at = u->next;
	if (u->next)
		u->next->at = u->at;
	else
		hdl_match_bucket(m, u->context, u->src, u->tag)->unexpected_end = u->at;
	u->at = NULL;
	*(u->before ? &u->before->after : &c->first) = u->after;
	*(u->after ? &u->after->before : &c->last) = u->before;
	if (unlikely(u->entries))
		index_remove(m, u);
	hdl_unexpected_count(m, u, false);
	m->nunexpected--;
	m->nentries--;
}

/* Moves the entries of a list for which fn returns true to *out. */
static void sweep_list(struct hdl_matching *m, struct hdl_op *op, bool (*fn)(const struct hdl_op *, void *), void *arg,
		       struct hdl_op ***out)
{
	for (struct hdl_op *next; op; op = next) {
		next = op->next;
		if (!fn(op, arg))
			continue;
		hdl_match_withdraw(m, op);
		op->next = NULL;
		**out = op;
		*out = &op->next;
	}
}

struct hdl_op *hdl_match_sweep(struct hdl_matching *m, bool (*fn)(const struct hdl_op *op, void *arg), void *arg)
{
	struct hdl_op *found = NULL, **out = &found;

	for (size_t i = 0; i < m->nbuckets; i++)
		sweep_list(m, m->buckets[i].posted, fn, arg, &out);
	for (unsigned c = 0; c <= UINT16_MAX; c++)
		if (m->contexts[c].wild)
			sweep_list(m, m->contexts[c].wild, fn, arg, &out);
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

void hdl_unexpected_count_from(struct hdl_matching *m, const struct hdl_unexpected *u, bool more)
{
	struct hdl_ep *ep = u->src == hdl_job.rank ? NULL : hdl_ep_find(m->tp, u->src);

	if (!ep)
		return;
	/* a message that a matched probe took before counting began was never added */
	size_t *bytes = &hdl_ep_note(ep)->bytes;
	*bytes = more ? *bytes + u->heap_bytes : *bytes > u->heap_bytes ? *bytes - u->heap_bytes : 0;
}

int hdl_recv_revoked(const struct hdl_comm *comm, uint16_t context)
{
	return comm->matching->revoked[context];
}
