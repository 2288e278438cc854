/* SPDX-License-Identifier: BSD-3-Clause */
/* Between a buffer described by a type and a stream of packed bytes, from any byte of the stream (MPI-5.0 5.2). */
#include "datatype/datatype.h"

#include <string.h>

struct cursor {
	const struct hdl_type *t;
	char *packed;
	MPI_Count skip;		/* packed bytes before the first one wanted, within what is walked next */
	MPI_Count left;		/* packed bytes still to copy */
};

/* `unpack` is a constant in each of the two callers: the compiler makes two functions without a test inside. */
static inline __attribute__((always_inline)) void move(char *packed, char *mem, size_t n, bool unpack)
{
	if (unpack)
		memcpy(mem, packed, n);
	else
		memcpy(packed, mem, n);
}

static inline __attribute__((always_inline)) void leaf(struct cursor *c, char *mem, bool unpack)
{
	for (int i = 0; i < c->t->nruns && c->left; i++) {
		MPI_Count n = c->t->run[i].bytes;

		if (c->skip >= n) {
			c->skip -= n;
			continue;
		}
		n -= c->skip;
		if (n > c->left)
			n = c->left;
		move(c->packed, mem + c->t->run[i].offset + c->skip, n, unpack);
		c->packed += n;
		c->left -= n;
		c->skip = 0;
	}
}

/* `turns` whole runs of constant length: the common inner loop. */
static inline __attribute__((always_inline)) void runs(struct cursor *c, char *mem, MPI_Count turns, MPI_Aint stride,
						       MPI_Count bytes, bool unpack)
{
	char *p = c->packed;

	switch (bytes) {
	case 4:
		for (MPI_Count i = 0; i < turns; i++, mem += stride, p += 4)
			move(p, mem, 4, unpack);
		break;
	case 8:
		for (MPI_Count i = 0; i < turns; i++, mem += stride, p += 8)
			move(p, mem, 8, unpack);
		break;
	case 16:
		for (MPI_Count i = 0; i < turns; i++, mem += stride, p += 16)
			move(p, mem, 16, unpack);
		break;
	default:
		for (MPI_Count i = 0; i < turns; i++, mem += stride, p += bytes)
			move(p, mem, bytes, unpack);
	}
	c->left -= p - c->packed;
	c->packed = p;
}

static inline __attribute__((always_inline)) void repeat_leaf(struct cursor *c, char *mem, MPI_Count count,
							      MPI_Aint stride, MPI_Count bytes, bool unpack)
{
	MPI_Count i = c->skip / bytes, whole;

	c->skip -= i * bytes;
	if (c->skip && i < count)
		leaf(c, mem + i++ * stride, unpack);
	if (c->t->nruns == 1) {
		whole = c->left / bytes;
		if (whole > count - i)
			whole = count - i;
		if (whole > 0) {
			runs(c, mem + i * stride + c->t->run[0].offset, whole, stride, bytes, unpack);
			i += whole;
		}
	}
	for (; i < count && c->left; i++)
		leaf(c, mem + i * stride, unpack);
}

#define WALK(name, unpack) \
static void name(struct cursor *c, char *mem, int level) \
{ \
	const struct hdl_type_loop *l = &c->t->loop[level]; \
	MPI_Count i; \
 \
	if (level + 1 == c->t->nloops) { \
		repeat_leaf(c, mem, l->count, l->stride, l->bytes, unpack); \
		return; \
	} \
	i = c->skip / l->bytes; \
	c->skip -= i * l->bytes; \
	for (; i < l->count && c->left; i++) \
		name(c, mem + i * l->stride, level + 1); \
}
WALK(pack_level, false)
WALK(unpack_level, true)

static inline __attribute__((always_inline)) void walk(void *packed, void *buf, MPI_Count count,
						       const struct hdl_type *t, MPI_Count position, size_t bytes,
						       bool unpack)
{
	struct cursor c = { .t = t, .packed = packed, .skip = position, .left = bytes };
	MPI_Count i;

	if (!t->size || !bytes)
		return;
	if (t->contiguous) {
		move(packed, (char *)buf + position, bytes, unpack);
		return;
	}
	if (!t->nloops) {
		repeat_leaf(&c, buf, count, t->extent, t->size, unpack);
		return;
	}
	i = c.skip / t->size;
	c.skip -= i * t->size;
	for (; i < count && c.left; i++) {
		if (unpack)
			unpack_level(&c, (char *)buf + i * t->extent, 0);
		else
			pack_level(&c, (char *)buf + i * t->extent, 0);
	}
}

void hdl_pack(void *packed, const void *buf, MPI_Count count, const struct hdl_type *t, MPI_Count position,
	      size_t bytes)
{
	walk(packed, (void *)buf, count, t, position, bytes, false);
}

void hdl_unpack(void *buf, const void *packed, MPI_Count count, const struct hdl_type *t, MPI_Count position,
		size_t bytes)
{
	walk((void *)packed, buf, count, t, position, bytes, true);
}
