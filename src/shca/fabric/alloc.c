/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory in the fabric, queue numbers and region keys.
 *
 * Two levels. Shared: chunks of 64 KiB, each claimed for a process by one compare-and-swap on the owner word; no lock, and the
 * reaper finds a dead process's chunks by reading the owner words. Private to the process: a buddy system from 64 bytes to 64
 * KiB in its own chunks, whose bookkeeping lies outside the fabric, so that no other process can damage the bookkeeping and the
 * reaper does not need it to free the chunks.
 *
 * A chunk is backed by fallocate before use, so that running out of memory is an error here and never a SIGBUS later. A chunk
 * is punched out before the owner word is cleared, since after that another process may write to it.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/memory.h"
#include "shca/fabric/fabric.h"
#include "shca/fabric/memcheck.h"

#define MIN_ORDER 6		/* 64 bytes */
#define CHUNK_ORDER 16
#define SPARES 2
#define GRANT ((uint64_t)16 << 20)	/* most growth between two checks of the available memory */

/*
 * A chunk of the heap. The blocks of order o (2^o bytes) are bits [2^(16-o), 2^(17-o)) of `free`, like the nodes of a
 * heap-ordered tree: block b of order o is bit 2^(16-o) + b, the halves of b are twice that and one more.
 */
struct chunk {
	struct chunk *next, *prev;	/* in the bucket of the largest free block */
	uint32_t index;
	/* bytes at the front that were in use at any time; those behind are zero, in untouched pages */
	uint32_t used_to;
	uint32_t orders;		/* bit o: there is a free block of order o */
	int8_t bucket;			/* the largest of them; -1: none */
	uint16_t count[CHUNK_ORDER + 1];
	uint64_t free[2 << (CHUNK_ORDER - MIN_ORDER)  >> 6];
};

/* First-in first-out queue of numbers, unbounded. */
struct fifo {
	uint32_t *item;
	uint32_t head, n, cap;
};

struct shca_heap {
	pthread_mutex_t lock;
	struct chunk *bucket[CHUNK_ORDER + 1];
	struct chunk **by_index;	/* of every chunk; sparse */
	uint32_t spare[SPARES], nspare;
	uint64_t granted;		/* bytes to grow by before the next check of the available memory */
	struct fifo numbers, regions;
	uint32_t *qp_seg, *mr_seg;	/* segments that this process owns */
	uint32_t qp_segs, mr_segs, qp_cap, mr_cap;
};

/* ---- chunks ---------------------------------------------------------------------------------------------------- */

static _Atomic uint32_t *owner_word(const struct shca_member *m, uint32_t chunk)
{
	return (_Atomic uint32_t *)(m->base + m->hdr->chunks) + chunk;
}

static void hint_down(struct shca_member *m, uint32_t chunk)
{
	uint32_t hint = atomic_load(&m->hdr->chunk_hint);
	while (chunk < hint && !atomic_compare_exchange_weak(&m->hdr->chunk_hint, &hint, chunk))
		;
}

static void disown(struct shca_member *m, uint32_t first, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		atomic_store_explicit(owner_word(m, first + i), 0, memory_order_release);
	hint_down(m, first);
}

/* Claims n chunks in a row from `from` on. Returns the first; 0: none. */
static uint32_t claim_from(struct shca_member *m, uint32_t from, uint32_t n)
{
	uint32_t end = (uint32_t)(m->bytes / SHCA_CHUNK);
	for (uint32_t i = from, j; i < end && n <= end - i; i += j + 1) {
		/* from the far end: a taken chunk rules out all starts up to it */
		for (j = n; j-- > 0;)
			if (atomic_load_explicit(owner_word(m, i + j), memory_order_relaxed))
				break;
		if (j != UINT32_MAX)
			continue;
		for (j = 0; j < n; j++) {
			uint32_t none = 0;
			if (!atomic_compare_exchange_strong(owner_word(m, i + j), &none, m->slot + 1))
				break;
		}
		if (j == n)
			return i;
		disown(m, i, j);
	}
	return 0;
}

static uint32_t alloc_claim(struct shca_member *m, uint32_t n)
{
	uint32_t hint = atomic_load(&m->hdr->chunk_hint);
	uint32_t first = claim_from(m, hint, n);
	if (!first && hint > m->hdr->first_chunk)	/* the hint may be too high: see below */
		first = claim_from(m, m->hdr->first_chunk, n);
	if (!first)
		return 0;
	/* Two processes may cross: one frees a chunk, and the other's move of the hint passes over that chunk. Then the second
	 * search finds it. */
	if (first == hint)
		atomic_compare_exchange_strong(&m->hdr->chunk_hint, &hint, first + n);
	uint32_t high = atomic_load(&m->hdr->chunk_high);
	while (high < first + n && !atomic_compare_exchange_weak(&m->hdr->chunk_high, &high, first + n))
		;
	return first;
}

static void punch(struct shca_member *m, uint32_t first, uint32_t n)
{
	int fd = shca_file_get(m);
	/* Without a descriptor the memory is not given back to the system; nothing else depends on the punch. */
	while (fd >= 0 &&
	       fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)first * SHCA_CHUNK, (off_t)n * SHCA_CHUNK) &&
	       errno == EINTR)
		;
	shca_file_put(m, fd);
}

static void alloc_give_back(struct shca_member *m, uint32_t first, uint32_t n)
{
	shca_memcheck_disown(m->base + (uint64_t)first * SHCA_CHUNK, (uint64_t)n * SHCA_CHUNK);
	punch(m, first, n);
	disown(m, first, n);
}

/* ---- available memory ------------------------------------------------------------------------------------------- */

const char *shca_cgroup_self = MEMORY_GROUP_SELF, *shca_cgroup_v1 = MEMORY_GROUP_V1, *shca_cgroup_v2 = MEMORY_GROUP_V2;

static struct memory_available alloc_available(void)
{
	return memory_available(shca_cgroup_self, shca_cgroup_v1, shca_cgroup_v2);
}

static void report_shortage(struct shca_member *m, uint64_t bytes, int err)
{
	struct memory_available left = alloc_available();
	char group[160] = "no limit of a memory cgroup was found";
	if (left.grouped)
		snprintf(group, sizeof(group), "its memory cgroup leaves %llu KiB of %llu KiB",
			 (unsigned long long)left.group >> 10, (unsigned long long)left.limit >> 10);
	shca_error("no memory for the fabric \"%s\": %llu KiB needed (%s); the machine has %llu KiB available, %s. Use fewer "
		   "processes or smaller buffers, or raise the limit",
		   m->hdr->name, (unsigned long long)bytes >> 10, strerror(err), (unsigned long long)left.machine >> 10, group);
}

/*
 * Returns whether the fabric may grow by `bytes`. Must: the caller holds the heap's lock.
 *
 * At a cgroup's limit the kernel ends processes instead of refusing, so every growth is compared with the available memory
 * first. The check costs as much as growth by a chunk: so part of the memory found available is granted, and consumed without a
 * further check. Other processes of the group may take the rest meanwhile (docs/shca.md).
 */
static bool enough(struct shca_member *m, uint64_t bytes)
{
	struct shca_heap *h = m->heap;

	if (bytes <= h->granted) {
		h->granted -= bytes;
		return true;
	}
	h->granted = 0;
	uint64_t left = alloc_available().bytes;
	if (bytes > left)
		return false;
	h->granted = (left - bytes) / 64 < GRANT ? (left - bytes) / 64 : GRANT;
	return true;
}

/* Backs claimed chunks with pages. Returns 0, or a negative errno with text. */
static int back(struct shca_member *m, uint32_t first, uint32_t n)
{
	uint64_t at = (uint64_t)first * SHCA_CHUNK, bytes = (uint64_t)n * SHCA_CHUNK;
	if (!enough(m, bytes)) {
		report_shortage(m, bytes, ENOMEM);
		return -ENOMEM;
	}
	int fd = shca_file_get(m), err;
	if (fd < 0) {
		shca_error("the fabric \"%s\" cannot grow by %llu bytes: this process has closed the fabric's descriptor, which "
			   "it had not opened (close_range, closefrom), before it had a connected queue",
			   m->hdr->name, (unsigned long long)bytes);
		return -EBADF;
	}
	err = -memory_reserve(fd, at, bytes);
	shca_file_put(m, fd);
	if (err == EFBIG)
		shca_error("the fabric \"%s\" must grow to %llu bytes, but the limit on the size of files is %llu: raise it "
			   "(ulimit -f unlimited)",
			   m->hdr->name, (unsigned long long)(at + bytes), (unsigned long long)memory_file_limit());
	else if (err)
		report_shortage(m, bytes, err);
	if (err)
		return -err;
	/* from now on other processes may be given offsets up to there */
	uint64_t end = atomic_load(&m->hdr->file_end);
	while (end < at + bytes && !atomic_compare_exchange_weak(&m->hdr->file_end, &end, at + bytes))
		;
	return 0;
}

/* Returns n chunks in a row, claimed and backed; 0: none, reported. */
static uint32_t get_chunks(struct shca_member *m, uint32_t n)
{
	uint32_t first = alloc_claim(m, n);
	if (!first) {
		shca_error("the fabric \"%s\" has no %llu KiB in a row left of the %llu MiB that it can span here. Raise "
			   "SHCA_RESERVE for the process that creates it%s",
			   m->hdr->name, (unsigned long long)n * (SHCA_CHUNK >> 10), (unsigned long long)m->bytes >> 20,
			   m->bytes < m->hdr->bytes ? ", and the limit on this process's address space (ulimit -v)" : "");
		return 0;
	}
	SHCA_FAILPOINT(NULL, "grow-claimed", NULL, 0);
	if (back(m, first, n)) {
		alloc_give_back(m, first, n);
		return 0;
	}
	SHCA_FAILPOINT(NULL, "grow-backed", NULL, 0);
	shca_memcheck_own(m->base + (uint64_t)first * SHCA_CHUNK, (uint64_t)n * SHCA_CHUNK);
	return first;
}

/* ---- the buddy system ------------------------------------------------------------------------------------------ */

static void bucket_move(struct shca_heap *h, struct chunk *c)
{
	int to = c->orders ? 31 - __builtin_clz(c->orders) : -1;
	if (to == c->bucket)
		return;
	if (c->bucket >= 0) {
		if (c->next)
			c->next->prev = c->prev;
		if (c->prev)
			c->prev->next = c->next;
		else
			h->bucket[c->bucket] = c->next;
	}
	c->bucket = (int8_t)to;
	c->prev = NULL;
	c->next = NULL;
	if (to >= 0) {
		c->next = h->bucket[to];
		if (c->next)
			c->next->prev = c;
		h->bucket[to] = c;
	}
}

static void mark_free(struct chunk *c, int order, uint32_t node)
{
	c->free[node >> 6] |= 1ull << (node & 63);
	if (!c->count[order]++)
		c->orders |= 1u << order;
}

static void mark_used(struct chunk *c, int order, uint32_t node)
{
	c->free[node >> 6] &= ~(1ull << (node & 63));
	if (!--c->count[order])
		c->orders &= ~(1u << order);
}

/* Returns a free block of exactly this order. Must: there is one. */
static uint32_t first_free(const struct chunk *c, int order)
{
	uint32_t lo = 1u << (CHUNK_ORDER - order), hi = lo * 2;
	if (hi <= 64) {
		uint64_t bits = c->free[0] & (hi == 64 ? ~0ull : (1ull << hi) - 1) & ~((1ull << lo) - 1);
		return (uint32_t)__builtin_ctzll(bits);
	}
	for (uint32_t w = lo >> 6; w < hi >> 6; w++)
		if (c->free[w])
			return w * 64 + (uint32_t)__builtin_ctzll(c->free[w]);
	abort();	/* count[] and free[] disagree: memory of this process was overwritten */
}

static struct chunk *chunk_new(struct shca_member *m)
{
	struct shca_heap *h = m->heap;
	struct chunk *c = calloc(1, sizeof(*c));
	if (!c)
		return NULL;
	if (h->nspare) {
		c->index = h->spare[--h->nspare];
		c->used_to = SHCA_CHUNK;
	} else {
		c->index = get_chunks(m, 1);
	}
	if (!c->index) {
		free(c);
		return NULL;
	}
	c->bucket = -1;
	h->by_index[c->index] = c;
	mark_free(c, CHUNK_ORDER, 1);
	bucket_move(h, c);
	return c;
}

static void chunk_gone(struct shca_member *m, struct chunk *c)
{
	struct shca_heap *h = m->heap;
	c->orders = 0;
	bucket_move(h, c);
	h->by_index[c->index] = NULL;
	if (h->nspare < SPARES)
		h->spare[h->nspare++] = c->index;
	else
		alloc_give_back(m, c->index, 1);
	free(c);
}

static shca_off block_get(struct shca_member *m, int order)
{
	struct shca_heap *h = m->heap;
	struct chunk *c = NULL;
	for (int b = order; b <= CHUNK_ORDER && !c; b++)
		c = h->bucket[b];
	if (!c && !(c = chunk_new(m)))
		return 0;
	int o = __builtin_ctz(c->orders & ~((1u << order) - 1));
	uint32_t node = first_free(c, o);
	mark_used(c, o, node);
	while (o > order) {
		o--;
		node *= 2;
		mark_free(c, o, node + 1);
	}
	bucket_move(h, c);
	return (uint64_t)c->index * SHCA_CHUNK + ((uint64_t)(node - (1u << (CHUNK_ORDER - order))) << order);
}

static void block_put(struct shca_member *m, shca_off off, int order)
{
	struct shca_heap *h = m->heap;
	struct chunk *c = h->by_index[off / SHCA_CHUNK];
	uint32_t node = (1u << (CHUNK_ORDER - order)) + (uint32_t)(off % SHCA_CHUNK >> order);
	for (; order < CHUNK_ORDER && c->free[(node ^ 1) >> 6] >> ((node ^ 1) & 63) & 1; order++) {
		mark_used(c, order, node ^ 1);
		node /= 2;
	}
	mark_free(c, order, node);
	if (order == CHUNK_ORDER)
		chunk_gone(m, c);
	else
		bucket_move(h, c);
}

static int order_of(uint64_t bytes)
{
	return bytes <= 1u << MIN_ORDER ? MIN_ORDER : 64 - __builtin_clzll(bytes - 1);
}

/* Frees [off, off + bytes), which is in use, within one chunk and on 64-byte borders, in as few blocks as possible. */
static void range_put(struct shca_member *m, shca_off off, uint64_t bytes)
{
	while (bytes) {
		int order = 63 - __builtin_clzll(bytes), aligned = __builtin_ctzll(off | SHCA_CHUNK);
		if (aligned < order)
			order = aligned;
		block_put(m, off, order);
		off += 1ull << order;
		bytes -= 1ull << order;
	}
}

/* Ends an allocation of whole chunks: the rest of the last chunk becomes free blocks. */
static bool split_last(struct shca_member *m, uint32_t index, uint64_t used)
{
	struct chunk *c = calloc(1, sizeof(*c));
	if (!c)
		return false;
	c->index = index;
	c->used_to = (uint32_t)used;
	c->bucket = -1;
	m->heap->by_index[index] = c;
	range_put(m, (shca_off)index * SHCA_CHUNK + used, SHCA_CHUNK - used);
	return true;
}

/* Zeroes a block; a part that was never in use is zero and is left untouched. */
static void alloc_clear(struct shca_member *m, shca_off off, uint64_t size)
{
	struct chunk *c = m->heap->by_index[off / SHCA_CHUNK];
	uint32_t at = off % SHCA_CHUNK;

	if (at < c->used_to)
		memset(m->base + off, 0, size < c->used_to - at ? size : c->used_to - at);
	if (c->used_to < at + size)
		c->used_to = (uint32_t)(at + size);
}

static uint64_t alloc_round_up(uint64_t bytes)
{
	return align_up(bytes, 1u << MIN_ORDER);
}

/* Up to a chunk: a block, whose excess is freed again at once. Larger allocations begin on a chunk. */
static shca_off alloc_locked(struct shca_member *m, uint64_t bytes)
{
	struct shca_heap *h = m->heap;
	uint64_t size = alloc_round_up(bytes), full = size / SHCA_CHUNK, rest = size % SHCA_CHUNK;
	if (size < bytes || full >= UINT32_MAX)
		return 0;
	if (!full) {
		int order = order_of(size);
		shca_off off = block_get(m, order);
		if (off) {
			range_put(m, off + size, (1ull << order) - size);
			alloc_clear(m, off, size);
		}
		return off;
	}
	if (size == SHCA_CHUNK && h->nspare) {
		shca_off off = (shca_off)h->spare[--h->nspare] * SHCA_CHUNK;
		memset(m->base + off, 0, SHCA_CHUNK);
		return off;
	}
	/* fresh chunks are zero */
	uint32_t n = (uint32_t)full + (rest != 0), first = get_chunks(m, n);
	if (first && rest && !split_last(m, first + n - 1, rest)) {
		alloc_give_back(m, first, n);
		return 0;
	}
	return (shca_off)first * SHCA_CHUNK;
}

shca_off shca_mem_alloc(struct shca_member *m, uint64_t bytes)
{
	pthread_mutex_lock(&m->heap->lock);
	shca_off off = alloc_locked(m, bytes ? bytes : 1);
	pthread_mutex_unlock(&m->heap->lock);
	if (!off)
		errno = ENOMEM;
	return off;
}

static void free_locked(struct shca_member *m, shca_off off, uint64_t bytes)
{
	struct shca_heap *h = m->heap;
	uint64_t size = alloc_round_up(bytes);
	uint32_t full = (uint32_t)(size / SHCA_CHUNK);
	range_put(m, off + (uint64_t)full * SHCA_CHUNK, size % SHCA_CHUNK);
	if (full == 1 && h->nspare < SPARES)
		h->spare[h->nspare++] = (uint32_t)(off / SHCA_CHUNK);
	else if (full)
		alloc_give_back(m, (uint32_t)(off / SHCA_CHUNK), full);
}

void shca_mem_free(struct shca_member *m, shca_off off, uint64_t bytes)
{
	if (!off)
		return;
	pthread_mutex_lock(&m->heap->lock);
	free_locked(m, off, bytes ? bytes : 1);
	pthread_mutex_unlock(&m->heap->lock);
}

shca_off shca_mem_alloc_kept(struct shca_member *m, uint64_t bytes)
{
	uint64_t n = (bytes + SHCA_CHUNK - 1) / SHCA_CHUNK;

	if (n >= UINT32_MAX) {
		errno = ENOMEM;
		return 0;
	}
	pthread_mutex_lock(&m->heap->lock);
	uint32_t first = get_chunks(m, (uint32_t)n);
	pthread_mutex_unlock(&m->heap->lock);
	if (!first) {
		errno = ENOMEM;
		return 0;
	}
	/* Until here the reaper would free the chunks with this process, and no other process knows of them. */
	for (uint32_t i = 0; i < n; i++)
		atomic_store(owner_word(m, first + i), SHCA_COMMON + 1);
	return (shca_off)first * SHCA_CHUNK;
}

void shca_mem_free_kept(struct shca_member *m, shca_off off, uint64_t bytes)
{
	alloc_give_back(m, (uint32_t)(off / SHCA_CHUNK), (uint32_t)((bytes + SHCA_CHUNK - 1) / SHCA_CHUNK));
}

bool shca_mem_owner(const struct shca_member *m, uint64_t offset, uint32_t *owner)
{
	uint64_t chunk = offset / SHCA_CHUNK;

	if (m->forked || !m->hdr || chunk >= atomic_load(&m->hdr->chunk_high) || chunk >= m->bytes / SHCA_CHUNK)
		return false;
	*owner = chunk < m->hdr->first_chunk ? SHCA_OWNER_TABLES :
					       atomic_load_explicit(owner_word(m, (uint32_t)chunk), memory_order_relaxed);
	return true;
}

/* ---- numbers and keys ------------------------------------------------------------------------------------------ */

static int fifo_reserve(struct fifo *f, uint32_t more)
{
	if (f->n + more <= f->cap)
		return 0;
	uint32_t cap = f->cap ? f->cap : 64;
	while (cap < f->n + more)
		cap *= 2;
	uint32_t *item = malloc(sizeof(*item) * cap);
	if (!item)
		return -ENOMEM;
	for (uint32_t i = 0; i < f->n; i++)
		item[i] = f->item[(f->head + i) & (f->cap - 1)];
	free(f->item);
	f->item = item;
	f->head = 0;
	f->cap = cap;
	return 0;
}

/* Must: capacity was reserved when the number's segment was taken. */
static void fifo_put(struct fifo *f, uint32_t v)
{
	f->item[(f->head + f->n++) & (f->cap - 1)] = v;
}

static uint32_t fifo_get(struct fifo *f)
{
	uint32_t v = f->item[f->head];
	f->head = (f->head + 1) & (f->cap - 1);
	f->n--;
	return v;
}

/* Takes a free segment of a table for memory of this process. Returns UINT32_MAX: none. */
static uint32_t take_segment(_Atomic uint64_t *table, uint32_t size, _Atomic uint64_t *hint, shca_off off)
{
	for (uint32_t i = 0; i < size; i++) {
		uint32_t seg = (uint32_t)(atomic_fetch_add(hint, 1) % size);
		uint64_t none = 0;
		if (!atomic_load_explicit(&table[seg], memory_order_relaxed) &&
		    atomic_compare_exchange_strong(&table[seg], &none, off))
			return seg;
	}
	return UINT32_MAX;
}

static int note_segment(uint32_t **list, uint32_t n, uint32_t *cap)
{
	if (n < *cap)
		return 0;
	uint32_t *l = realloc(*list, sizeof(*l) * (*cap ? *cap * 2 : 8));
	if (!l)
		return -ENOMEM;
	*list = l;
	*cap = *cap ? *cap * 2 : 8;
	return 0;
}

/* Puts another segment of numbers, or of region entries, into the fifo. */
static int alloc_grow(struct shca_member *m, bool regions)
{
	struct shca_heap *h = m->heap;
	uint32_t per = regions ? SHCA_MR_SEG : SHCA_QP_SEG;
	uint64_t bytes = regions ? (uint64_t)SHCA_MR_SEG * sizeof(struct shca_mr) : sizeof(struct shca_numbers);
	struct fifo *f = regions ? &h->regions : &h->numbers;
	uint32_t held = (regions ? h->mr_segs : h->qp_segs) * per;
	int err = regions ? note_segment(&h->mr_seg, h->mr_segs, &h->mr_cap) :
			    note_segment(&h->qp_seg, h->qp_segs, &h->qp_cap);
	if (!err)
		err = fifo_reserve(f, held + per - f->n);
	if (err)
		return err;
	shca_off off = alloc_locked(m, bytes);
	if (!off)
		return -ENOMEM;
	uint32_t seg = regions ? take_segment(m->mr_segs, SHCA_MR_SEGS, &m->hdr->mr_seg_hint, off) :
				 take_segment(m->qp_segs, SHCA_QP_SEGS, &m->hdr->qp_seg_hint, off);
	if (seg == UINT32_MAX) {
		free_locked(m, off, bytes);
		shca_error("all %s of the fabric \"%s\" are taken (%u for each process at least)",
			   regions ? "memory region keys" : "queue numbers", m->hdr->name, per);
		return -ENOSPC;
	}
	if (regions)
		h->mr_seg[h->mr_segs++] = seg;
	else
		h->qp_seg[h->qp_segs++] = seg;
	for (uint32_t i = 0; i < per; i++) {
		uint32_t number = seg * per + i;
		/* 0, 1 and the last number are no ordinary queue numbers; key 0 is no key */
		if (regions ? number == 0 : number < 2 || number == 0xffffff)
			continue;
		fifo_put(f, number);
	}
	return 0;
}

int shca_common_grow(struct shca_member *m)
{
	uint32_t seg = UINT32_MAX;

	pthread_mutex_lock(&m->heap->lock);
	uint32_t chunk = get_chunks(m, 1);
	if (chunk)
		seg = take_segment(m->qp_segs, SHCA_QP_SEGS, &m->hdr->qp_seg_hint, (shca_off)chunk * SHCA_CHUNK);
	if (chunk && seg == UINT32_MAX) {
		alloc_give_back(m, chunk, 1);
		shca_error("all queue numbers of the fabric \"%s\" are taken (%u for each process at least)", m->hdr->name,
			   SHCA_QP_SEG);
	}
	pthread_mutex_unlock(&m->heap->lock);
	if (seg == UINT32_MAX)
		return -ENOMEM;
	SHCA_FAILPOINT(NULL, "common-chunk", NULL, 0);
	/* While this process owns the chunk, the reaper frees chunk and segment with the process. So no chunk is ever without
	 * an owner that the walk over common places can find. */
	atomic_fetch_add(&m->hdr->commons, 1);
	shca_memcheck_disown(m->base + (uint64_t)chunk * SHCA_CHUNK, SHCA_CHUNK);
	atomic_store(owner_word(m, chunk), SHCA_COMMON + 1);
	return 0;
}

/* Returns a number or region index; 0: none, with errno. 0 is never in a fifo. */
static uint32_t take_number(struct shca_member *m, bool regions)
{
	struct fifo *f = regions ? &m->heap->regions : &m->heap->numbers;
	pthread_mutex_lock(&m->heap->lock);
	uint32_t v = f->n || !alloc_grow(m, regions) ? fifo_get(f) : 0;
	pthread_mutex_unlock(&m->heap->lock);
	if (!v)
		errno = ENOMEM;
	return v;
}

uint32_t shca_number_alloc(struct shca_member *m)
{
	return take_number(m, false);
}

void shca_number_set(struct shca_member *m, uint32_t number, enum shca_kind kind, shca_off obj)
{
	shca_off seg = atomic_load_explicit(&m->qp_segs[number >> 8], memory_order_relaxed);
	shca_dirent *e = (shca_dirent *)(m->base + seg) + (number & (SHCA_QP_SEG - 1));
	atomic_store_explicit(e, kind == SHCA_KIND_NONE ? 0 : obj | (uint64_t)kind, memory_order_release);
}

void shca_number_free(struct shca_member *m, uint32_t number)
{
	shca_number_set(m, number, SHCA_KIND_NONE, 0);
	pthread_mutex_lock(&m->heap->lock);
	fifo_put(&m->heap->numbers, number);
	pthread_mutex_unlock(&m->heap->lock);
}

struct shca_mr *shca_mr_alloc(struct shca_member *m, uint32_t *key)
{
	uint32_t index = take_number(m, true);
	if (!index)
		return NULL;
	shca_off seg = atomic_load_explicit(&m->mr_segs[index / SHCA_MR_SEG], memory_order_relaxed);
	struct shca_mr *mr = (struct shca_mr *)(m->base + seg) + index % SHCA_MR_SEG;
	mr->index = index;
	*key = index << 8 | (atomic_fetch_add(&mr->gen, 1) & 255);
	return mr;
}

void shca_mr_free(struct shca_member *m, struct shca_mr *mr)
{
	atomic_store(&mr->key, 0);
	pthread_mutex_lock(&m->heap->lock);
	fifo_put(&m->heap->regions, mr->index);
	pthread_mutex_unlock(&m->heap->lock);
}

/* ---- the end ----------------------------------------------------------------------------------------------------- */

void shca_account(struct shca_member *m, const struct shca_qp *qp)
{
	struct shca_total *t = &m->hdr->retired[SHCA_TOTAL_OF(qp->type)];
	atomic_fetch_add(&t->msgs, atomic_load(&qp->n_msgs));
	atomic_fetch_add(&t->bytes, atomic_load(&qp->n_bytes));
	atomic_fetch_add(&t->foreign, atomic_load(&qp->n_foreign));
	atomic_fetch_add(&t->calcs, atomic_load(&qp->n_calcs));
	atomic_fetch_add(&t->waits, atomic_load(&qp->n_waits));
	atomic_fetch_add(&t->enables, atomic_load(&qp->n_enables));
	atomic_fetch_add(&t->atomics, atomic_load(&qp->n_atomics));
	atomic_fetch_add(&t->queues, 1);
	/* the totals count as port 1's */
	shca_port_moved(m, qp, SHCA_PATH_PORT(atomic_load(&qp->path)), 1,
			atomic_load(&qp->n_msgs) + atomic_load(&qp->n_bytes) / 4096);
}

static bool owned_by(const struct shca_member *m, shca_off off, uint32_t slot)
{
	return off && off / SHCA_CHUNK < m->hdr->nchunks && atomic_load(owner_word(m, (uint32_t)(off / SHCA_CHUNK))) == slot + 1;
}

/* Returns the number of segments at the front of the table that are or were in use. Reading further would make the table's
 * untouched pages real. */
uint32_t shca_segments_used(const struct shca_member *m, bool regions)
{
	uint64_t hint = atomic_load(regions ? &m->hdr->mr_seg_hint : &m->hdr->qp_seg_hint);
	uint32_t size = regions ? SHCA_MR_SEGS : SHCA_QP_SEGS;
	return hint < size ? (uint32_t)hint : size;
}

static void account_segment(struct shca_member *m, shca_off seg, uint32_t slot)
{
	if (!shca_at_checked(m, seg, SHCA_QP_SEG * sizeof(shca_dirent)))
		return;
	for (uint32_t k = 0; k < SHCA_QP_SEG; k++) {
		uint64_t e = atomic_load((shca_dirent *)(m->base + seg) + k);
		const struct shca_qp *qp = (e & 7) == SHCA_KIND_QP ? shca_at_checked(m, e & ~7ull, sizeof(*qp)) : NULL;
		/* I7: other processes' queues go on counting */
		if (qp && shca_owned(m, qp, slot))
			shca_account(m, qp);
	}
}

/* Takes a dead process's segments out of the tables, and adds the queues' counters to the totals. */
static void clear_segments(struct shca_member *m, uint32_t slot)
{
	uint32_t n = shca_segments_used(m, false);
	for (uint32_t i = 0; i < n; i++) {
		shca_off seg = atomic_load(&m->qp_segs[i]);
		if (owned_by(m, seg, slot)) {
			account_segment(m, seg, slot);
			atomic_store(&m->qp_segs[i], 0);
		}
	}
	n = shca_segments_used(m, true);
	for (uint32_t i = 0; i < n; i++)
		if (owned_by(m, atomic_load(&m->mr_segs[i]), slot))
			atomic_store(&m->mr_segs[i], 0);
}

static void free_chunks(struct shca_member *m, uint32_t slot)
{
	uint32_t high = atomic_load(&m->hdr->chunk_high), n;
	for (uint32_t i = m->hdr->first_chunk; i < high; i += n ? n : 1) {
		/* whole runs, one system call each */
		for (n = 0; i + n < high && atomic_load(owner_word(m, i + n)) == slot + 1; n++)
			;
		if (n)
			alloc_give_back(m, i, n);
	}
}

void shca_mem_hide(struct shca_member *m, uint32_t slot)
{
	clear_segments(m, slot);
	/* The next reaper, should this one die, must not follow the lists into chunks that have a new owner by then. */
	atomic_store(&m->procs[slot].qp_list, 0);
	atomic_store(&m->procs[slot].mailbox, 0);
	__atomic_store_n(&m->procs[slot].xrcd_list, 0, __ATOMIC_SEQ_CST);
	__atomic_store_n(&m->procs[slot].group_list, 0, __ATOMIC_SEQ_CST);
	__atomic_store_n(&m->procs[slot].flow_list, 0, __ATOMIC_SEQ_CST);
}

void shca_mem_reap(struct shca_member *m, uint32_t slot)
{
	shca_threads_release(m, slot);
	free_chunks(m, slot);
}

void shca_heap_return(struct shca_member *m)
{
	struct shca_heap *h = m->heap;
	pthread_mutex_lock(&h->lock);
	for (uint32_t i = 0; i < h->qp_segs; i++)
		atomic_store(&m->qp_segs[h->qp_seg[i]], 0);
	for (uint32_t i = 0; i < h->mr_segs; i++)
		atomic_store(&m->mr_segs[h->mr_seg[i]], 0);
	shca_quiesce_all(m, NULL, m->slot);
	free_chunks(m, m->slot);
	h->nspare = 0;
	pthread_mutex_unlock(&h->lock);
}

int shca_heap_init(struct shca_member *m)
{
	struct shca_heap *h = calloc(1, sizeof(*h));
	if (h)
		h->by_index = calloc(m->hdr->nchunks, sizeof(struct chunk *));
	if (!h || !h->by_index) {
		free(h);
		return -ENOMEM;
	}
	pthread_mutex_init(&h->lock, NULL);
	m->heap = h;
	return 0;
}

void shca_heap_free(struct shca_member *m)
{
	struct shca_heap *h = m->heap;
	if (!h)
		return;
	/* every chunk of the heap hangs in a bucket or is full: by_index has both */
	uint32_t n = m->forked || !m->hdr ? 0 : atomic_load(&m->hdr->chunk_high);
	for (uint32_t i = 0; i < n; i++)
		free(h->by_index[i]);
	free(h->by_index);
	free(h->numbers.item);
	free(h->regions.item);
	free(h->qp_seg);
	free(h->mr_seg);
	if (!m->forked)
		pthread_mutex_destroy(&h->lock);
	free(h);
	m->heap = NULL;
}
