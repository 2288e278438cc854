/* SPDX-License-Identifier: BSD-3-Clause */
/* Copies of a request: lists of segments, walked piece by piece (copy_piece.c). */
#include <errno.h>

#include "shca/engine/copy.h"

static inline bool copy_place(const struct shca_thread *thr, uint32_t proc, const struct shca_seg *seg, uint64_t skip, char **at)
{
	return place_in(thr, proc, seg, skip, at, false);
}
/* copy_place, checked against the file's length as this process last read it. */
static inline bool place_seen(const struct shca_thread *thr, uint32_t proc, const struct shca_seg *seg, uint64_t skip, char **at)
{
	return place_in(thr, proc, seg, skip, at, true);
}

struct walk {
	const struct shca_iov *iov;
	uint32_t i;
	uint64_t at;			/* offset within segment i */
};

static void walk_start(struct walk *w, const struct shca_iov *iov)
{
	w->iov = iov;
	w->i = 0;
	w->at = iov->skip;
	while (w->i < iov->n && w->at >= iov->seg[w->i].len && (w->at || !iov->seg[w->i].len))
		w->at -= iov->seg[w->i++].len;
}

static uint64_t walk_left(const struct walk *w)
{
	return w->iov->seg[w->i].len - w->at;
}

static void copy_walk_on(struct walk *w, uint64_t n)
{
	w->at += n;
	while (w->i < w->iov->n && w->at >= w->iov->seg[w->i].len) {
		w->at -= w->iov->seg[w->i].len;
		w->i++;
	}
}

/* The rest of a copy, from a segment of an indirect memory key on. */
static __attribute__((noinline, cold)) int copy_rest(struct shca_thread *thr, struct walk d, struct walk s, uint64_t len,
						     enum shca_order order, bool *src_err)
{
	while (len) {
		*src_err = s.i >= s.iov->n;
		if (*src_err || d.i >= d.iov->n)
			return -EFAULT;
		uint64_t n = walk_left(&d), k = walk_left(&s);
		if (k < n)
			n = k;
		if (len < n)
			n = len;
		int rc = shca_mkey_copy(thr, (struct shca_mkey_side){d.iov->proc, &d.iov->seg[d.i], d.at},
					(struct shca_mkey_side){s.iov->proc, &s.iov->seg[s.i], s.at}, n,
					n == len ? order : SHCA_ANY_ORDER, src_err);
		if (rc)
			return rc;
		copy_walk_on(&d, n);
		copy_walk_on(&s, n);
		len -= n;
	}
	return 0;
}

/* copy_rest from memory that may be loaded. */
static __attribute__((noinline, cold)) int copy_rest_to(struct shca_thread *thr, struct walk d, const char *from, uint64_t len,
							enum shca_order order)
{
	struct shca_seg here = {.where = (uintptr_t)from, .len = (uint32_t)len, .lane = SHCA_LANE_CMA};
	struct shca_iov src = {.proc = SHCA_HERE, .seg = &here, .n = 1};
	struct walk s;
	bool src_err;

	walk_start(&s, &src);
	return copy_rest(thr, d, s, len, order, &src_err);
}

/* Copies one piece to one piece, of which one lies beyond the file's length as last seen. */
static __attribute__((noinline, cold)) int copy_beyond(struct shca_thread *thr, const struct shca_iov *dst,
						       const struct shca_iov *src, uint64_t len, enum shca_order order,
						       bool *src_err)
{
	char *at;

	*src_err = !copy_place(thr, src->proc, src->seg, src->skip, &at);
	if (*src_err || !copy_place(thr, dst->proc, dst->seg, dst->skip, &at))
		return -EFAULT;
	return shca_copy(thr, dst, src, len, order, src_err);
}

/* Copies one piece to one piece, of which one or both may not be loaded and stored: the kernel or a proxy copies, or a segment
 * is of an indirect memory key. */
static __attribute__((noinline)) int copy_unmapped(struct shca_thread *thr, const struct shca_iov *dst,
						   const struct shca_iov *src, uint64_t len, enum shca_order order,
						   bool *src_err)
{
	char *to, *from;

	if (!place_seen(thr, src->proc, src->seg, src->skip, &from) || !place_seen(thr, dst->proc, dst->seg, dst->skip, &to))
		return -EFAULT;
	if (to && !from)
		from = vouched(thr, src->proc, src->seg, src->skip);
	else if (from && !to)
		to = vouched(thr, dst->proc, dst->seg, dst->skip);
	int rc = shca_copy_piece(thr, dst->proc, to, dst->seg->where + dst->skip, src->proc, from, src->seg->where + src->skip,
				 len, order, src_err);
	if (likely(rc != SHCA_COPY_MKEY))
		return rc;
	return shca_mkey_copy(thr, (struct shca_mkey_side){dst->proc, dst->seg, dst->skip},
			      (struct shca_mkey_side){src->proc, src->seg, src->skip}, len, order, src_err);
}

int shca_copy(struct shca_thread *thr, const struct shca_iov *dst, const struct shca_iov *src, uint64_t len,
	      enum shca_order order, bool *src_err)
{
	struct walk d, s;

	*src_err = false;
	if (!len)
		return 0;
	if (dst->n == 1 && src->n == 1 && len < SHCA_SHARE_MIN && dst->skip + len <= dst->seg->len &&
	    src->skip + len <= src->seg->len) {
		/* one piece to one piece: most requests */
		char *to, *from;
		if (unlikely(!place_seen(thr, src->proc, src->seg, src->skip, &from) ||
			     !place_seen(thr, dst->proc, dst->seg, dst->skip, &to)))
			return copy_beyond(thr, dst, src, len, order, src_err);
		if (to && !from)
			from = vouched(thr, src->proc, src->seg, src->skip);
		else if (from && !to)
			to = vouched(thr, dst->proc, dst->seg, dst->skip);
		if (likely(to && from))
			return copy_store(to, from, len, order);
		return copy_unmapped(thr, dst, src, len, order, src_err);
	}
	walk_start(&d, dst);
	walk_start(&s, src);
	int shared_rc;
	uint64_t shared = shca_share_copy(thr, dst, src, len, order, &shared_rc, src_err);
	if (shared) {
		if (shared_rc)
			return shared_rc;
		copy_walk_on(&d, shared);
		copy_walk_on(&s, shared);
		len -= shared;
	}
	while (len) {
		if (d.i >= dst->n || s.i >= src->n) {
			*src_err = s.i >= src->n;
			return -EFAULT;
		}
		uint64_t n = walk_left(&d), k = walk_left(&s);
		const struct shca_seg *ds = &dst->seg[d.i], *ss = &src->seg[s.i];
		char *to, *from;
		*src_err = !copy_place(thr, src->proc, ss, s.at, &from);
		if (*src_err || !copy_place(thr, dst->proc, ds, d.at, &to))
			return -EFAULT;
		if (to && !from)
			from = vouched(thr, src->proc, ss, s.at);
		else if (from && !to)
			to = vouched(thr, dst->proc, ds, d.at);
		if (k < n)
			n = k;
		if (len < n)
			n = len;
		int rc = shca_copy_piece(thr, dst->proc, to, ds->where + d.at, src->proc, from, ss->where + s.at, n,
			      n == len ? order : SHCA_ANY_ORDER, src_err);
		if (unlikely(rc))
			return rc == SHCA_COPY_MKEY ? copy_rest(thr, d, s, len, order, src_err) : rc;
		copy_walk_on(&d, n);
		copy_walk_on(&s, n);
		len -= n;
	}
	return 0;
}

int shca_copy_to(struct shca_thread *thr, const struct shca_iov *dst, const void *src, uint64_t len, enum shca_order order)
{
	struct walk d;
	const char *s = src;
	bool src_err;

	if (!len)
		return 0;
	walk_start(&d, dst);
	while (len) {
		if (d.i >= dst->n)
			return -EFAULT;
		const struct shca_seg *ds = &dst->seg[d.i];
		uint64_t n = walk_left(&d);
		char *to;
		if (!copy_place(thr, dst->proc, ds, d.at, &to))
			return -EFAULT;
		if (len < n)
			n = len;
		int rc = shca_copy_piece(thr, dst->proc, to, ds->where + d.at, SHCA_HERE, s, 0, n,
				     n == len ? order : SHCA_ANY_ORDER, &src_err);
		if (unlikely(rc))
			return rc == SHCA_COPY_MKEY ? copy_rest_to(thr, d, s, len, order) : rc;
		copy_walk_on(&d, n);
		s += n;
		len -= n;
	}
	return 0;
}

const char *shca_fetch(struct shca_thread *thr, const struct shca_seg *seg, uint32_t n, uint32_t len)
{
	struct shca_seg here = {.len = len, .lane = SHCA_LANE_CMA};
	struct shca_iov src = {.proc = thr->m->slot, .seg = seg, .n = n}, dst = {.proc = SHCA_HERE, .seg = &here, .n = 1};
	bool src_err;

	if (len > SHCA_BOUNCE || !shca_bounce_of(thr))
		return NULL;
	here.where = (uintptr_t)thr->bounce;
	return shca_copy(thr, &dst, &src, len, SHCA_ANY_ORDER, &src_err) ? NULL : thr->bounce;
}
