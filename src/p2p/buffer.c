/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pooled memory: free lists by powers of two up to 64 KiB. Larger memory comes from malloc each time, since copying the data
 * costs far more. A list keeps at most KEEP bytes.
 */
#include "p2p/request.h"

#include <stdlib.h>

#define CLASS_MIN	7		/* 128 bytes */
#define CLASS_MAX	16
#define KEEP		(4u << 20)

struct buf {
	union {
		struct buf *next;	/* while free */
		size_t order;		/* while in use; 0: malloc */
	};
	size_t bytes;			/* size of memory from malloc; else unset */
	char data[];
};
_Static_assert(sizeof(struct buf) == 16, "data is 16-byte aligned");

static struct {
	struct buf *free;
	unsigned count;
} classes[CLASS_MAX + 1];

void *hdl_buf_get(size_t bytes)
{
	size_t need, order;
	struct buf *b;

	if (unlikely(__builtin_add_overflow(bytes, sizeof(*b), &need)))
		return NULL;
	order = need <= 1u << CLASS_MIN ? CLASS_MIN : 64 - (size_t)__builtin_clzl(need - 1);
	if (unlikely(order > CLASS_MAX)) {
		b = malloc(need);
		if (!b)
			return NULL;
		b->order = 0;
		b->bytes = need;
		return b->data;
	}
	b = classes[order].free;
	if (likely(b != NULL)) {
		classes[order].free = b->next;
		classes[order].count--;
	} else {
		b = malloc((size_t)1 << order);
		if (!b)
			return NULL;
	}
	b->order = order;
	return b->data;
}

void hdl_buf_put(void *buf)
{
	struct buf *b;
	size_t order;

	if (!buf)
		return;
	b = (struct buf *)((char *)buf - sizeof(*b));
	order = b->order;
	if (!order || ((size_t)classes[order].count << order) >= KEEP) {
		free(b);
		return;
	}
	b->next = classes[order].free;
	classes[order].free = b;
	classes[order].count++;
}

size_t hdl_buf_size(const void *buf)
{
	const struct buf *b = (const struct buf *)((const char *)buf - sizeof(*b));

	return b->order ? (size_t)1 << b->order : b->bytes;
}

void hdl_buf_fini(void)
{
	for (int i = CLASS_MIN; i <= CLASS_MAX; i++) {
		for (struct buf *b = classes[i].free, *next; b; b = next) {
			next = b->next;
			free(b);
		}
		classes[i].free = NULL;
		classes[i].count = 0;
	}
}
