/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory that peers of this fabric load and store in place (hdl_tp_share).
 *
 * The device gives such memory in pieces of SHCA_MEMORY_PIECE bytes. A shorter allocation takes pages of a piece that several
 * allocations of this process share, so that a thousand windows cost a page each and not a piece each.
 */
#include <shca.h>
#include <stdlib.h>
#include <string.h>

#include "transport/core/tp.h"

#define PAGE 4096u
#define PAGES (SHCA_MEMORY_PIECE / PAGE)
_Static_assert(PAGES <= 32, "a bit for each page");

/* A piece, or several in a row that are one allocation. */
struct hdl_share {
	struct hdl_share *next;
	struct hdl_dev *dev;
	char *p;
	size_t bytes;
	uint32_t used;			/* bit i: page i is allocated */
	uint32_t last;			/* bit i: and it is the last one of its allocation */
};

static struct hdl_share *share_new(struct hdl_tp *tp, size_t bytes)
{
	struct hdl_share *s = calloc(1, sizeof(*s));

	if (!s) {
		errno = ENOMEM;
		return NULL;
	}
	*s = (struct hdl_share){ .dev = tp->dev[0], .bytes = align_up(bytes, SHCA_MEMORY_PIECE) };
	s->p = s->bytes < bytes ? NULL : shca_alloc_kept(s->dev->port.ctx, s->bytes);
	if (!s->p && hdl_memory_again(s->dev))
		s->p = shca_alloc_kept(s->dev->port.ctx, s->bytes);
	if (!s->p) {
		free(s);
		errno = ENOMEM;
		return NULL;
	}
	s->next = tp->shares;
	tp->shares = s;
	return s;
}

/* Takes n pages in a row of a piece. Returns the first page's index, or -1. */
static int share_take(struct hdl_share *s, unsigned n)
{
	uint32_t mask = n == 32 ? UINT32_MAX : (1u << n) - 1;

	for (unsigned i = 0; i + n <= PAGES; i++)
		if (!(s->used & mask << i)) {
			s->used |= mask << i;
			s->last |= 1u << (i + n - 1);
			return (int)i;
		}
	return -1;
}

/* Returns where the fabric begins here; NULL: the device has none. */
static char *fabric_base(struct hdl_tp *tp)
{
	void *base;

	return tp->ndev && tp->dev[0]->promises.arena && shca_memory_at(tp->dev[0]->port.ctx, 0, &base) != SHCA_MEMORY_END ?
		       base :
		       NULL;
}

void *hdl_tp_share(struct hdl_tp *tp, size_t bytes, uint64_t *where)
{
	size_t n = (bytes + PAGE - 1) / PAGE;
	char *base = fabric_base(tp), *p;
	struct hdl_share *s;
	int page = -1;

	if (!base) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	n = n ? n : 1;
	if (n >= PAGES) {
		if (!(s = share_new(tp, bytes)))
			return NULL;
		p = s->p;
	} else {
		for (s = tp->shares; s; s = s->next)
			if (s->bytes == SHCA_MEMORY_PIECE && s->used && (page = share_take(s, (unsigned)n)) >= 0)
				break;
		if (!s) {
			if (!(s = share_new(tp, SHCA_MEMORY_PIECE)))
				return NULL;
			page = share_take(s, (unsigned)n);
		}
		p = s->p + (size_t)page * PAGE;
	}
	hdl_ledger_add("windows", p, n * PAGE);
	*where = (uint64_t)(p - base);
	return p;
}

void hdl_tp_unshare(struct hdl_tp *tp, void *p)
{
	for (struct hdl_share **at = &tp->shares; *at && p; at = &(*at)->next) {
		struct hdl_share *s = *at;
		size_t offset = (size_t)((char *)p - s->p);
		unsigned i = (unsigned)(offset / PAGE);

		if ((char *)p < s->p || offset >= s->bytes)
			continue;
		hdl_ledger_drop(p);
		if (s->used) {
			unsigned first = i;

			while (!(s->last & 1u << i))
				i++;
			for (unsigned k = first; k <= i; k++)
				s->used &= ~(1u << k);
			s->last &= ~(1u << i);
			/* the next allocation finds zeros, as in a new piece */
			memset(p, 0, (size_t)(i - first + 1) * PAGE);
		}
		if (!s->used) {
			*at = s->next;
			shca_free_kept(s->dev->port.ctx, s->p, s->bytes);
			free(s);
		}
		return;
	}
}

void *hdl_tp_shared_at(struct hdl_tp *tp, uint64_t where, size_t bytes)
{
	char *base = fabric_base(tp);
	void *p;

	for (uint64_t at = where & ~(uint64_t)(SHCA_MEMORY_PIECE - 1); base && at < where + (bytes ? bytes : 1);
	     at += SHCA_MEMORY_PIECE)
		if (shca_memory_at(tp->dev[0]->port.ctx, at, &p) != SHCA_MEMORY_PEERS)
			return NULL;
	return base ? base + where : NULL;
}

void hdl_share_close(struct hdl_tp *tp)
{
	struct hdl_share *s;

	while ((s = tp->shares)) {
		tp->shares = s->next;
		shca_free_kept(s->dev->port.ctx, s->p, s->bytes);
		free(s);
	}
}
