/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Indirect memory keys (UMR) while a request is executed: a segment of such a key is walked run by run, and each run is looked
 * up by the lkey of its entry when the walk comes to it.
 *
 *     segment [addr, addr + n) of key A
 *       frame 0: A's table, repetition and entry of addr ... -> a region: a run
 *                                                            -> key B: frame 1, B's table, ... -> a region: a run
 *
 * A walk keeps no look-up beyond its end, and is inside the engine until then. So the process that takes a region or a key away
 * waits for the walk (I8), and a later walk finds the key ended. I7: the tables are memory of the keys' owner, who may
 * write anything into them. A walk leaves a table's bounds at no value, and every run passes the look-up of its region.
 */
#include "shca.h"
#include "shca/engine/access.h"
#include "shca/engine/copy.h"
#include "shca/engine/mkey.h"

/* The position of a walk in one key's table. */
struct frame {
	const struct shca_mkey_entry *entry;
	uint32_t n, i;			/* entries; the current one */
	uint64_t shift;			/* of the current repetition: added to an entry's address as many times as its stride */
	uint64_t at;			/* offset in the current entry */
	uint64_t left;			/* bytes to walk, from `at` on */
};

struct walk {
	struct shca_thread *thr;
	uint32_t proc, pd;
	uint32_t rights;		/* that regions and inner keys must grant */
	uint32_t depth;			/* frames in use; 0: a segment of no key, or the end */
	/* the current run */
	struct shca_seg run;
	uint64_t skip, n;		/* offset of the first byte in `run` that was not walked, and the bytes from there on */
	/* the last region that was looked up, and its key; NULL: none */
	const struct shca_mr *mr;
	uint32_t key;
	struct frame frame[SHCA_MKEY_DEPTH];
};

/* Returns the index of the entry in which byte `at` of a repetition lies. */
static uint32_t entry_at(const struct shca_mkey_entry *e, uint32_t n, uint64_t at)
{
	uint32_t low = 0;

	while (n - low > 1) {
		uint32_t mid = low + (n - low) / 2;
		if (e[mid].at <= at)
			low = mid;
		else
			n = mid;
	}
	return low;
}

/* Begins [addr, addr + len) of a key: pushes a frame. Returns false if the key has no such bytes, or keys are nested too deep. */
static bool walk_into(struct walk *w, const struct shca_mr *key, uint64_t addr, uint64_t len)
{
	const struct shca_member *m = w->thr->m;
	const struct shca_mkey *t = shca_at_checked(m, key->where, sizeof(*t));
	uint32_t n = t ? __atomic_load_n(&t->n, __ATOMIC_RELAXED) : 0;
	uint64_t unit = t ? __atomic_load_n(&t->unit, __ATOMIC_RELAXED) : 0;

	if (w->depth == SHCA_MKEY_DEPTH || !n || n > SHCA_MKEY_ENTRIES || !unit ||
	    !shca_fits(m, key->where, shca_mkey_bytes(n)) ||
	    !shca_within(key->iova, __atomic_load_n(&t->bytes, __ATOMIC_RELAXED), addr, len))
		return false;
	struct frame *f = &w->frame[w->depth++];
	uint64_t at = addr - key->iova;
	f->entry = t->entry;
	f->n = n;
	f->shift = at / unit;
	at -= f->shift * unit;
	f->i = n > 1 ? entry_at(t->entry, n, at) : 0;
	f->at = at - t->entry[f->i].at;
	f->left = len;
	return true;
}

/* Returns the configured key that grants the rights; NULL: refused. */
static const struct shca_mr *inner_key(const struct walk *w, uint32_t lkey)
{
	const struct shca_mr *k = shca_mr_entry(w->thr->m, lkey >> 8);

	return k && SHCA_WINDOW_KIND(atomic_load_explicit(&k->window, memory_order_relaxed)) == SHCA_WINDOW_MKEY &&
			       atomic_load_explicit(&k->bound, memory_order_acquire) == lkey && k->pd == w->pd &&
			       k->proc == w->proc && (k->access & w->rights) == w->rights ?
		       k :
		       NULL;
}

/* Makes [addr, addr + len) of a region the current run. */
static bool mkey_walk_run(struct walk *w, const struct shca_mr *mr, uint64_t addr, uint64_t len)
{
	if (unlikely(!shca_region_at(w->thr->m, mr, addr, len, &w->run)))
		return false;
	if (w->run.lane != SHCA_LANE_ARENA && mr->access & SHCA_ACCESS_VOUCHED)
		w->run.lane = SHCA_LANE_VOUCHED;
	w->skip = 0;
	w->n = len;
	return true;
}

/* Finds the next run. Returns 0; -EACCES: a key refuses the access; -EFAULT: the walk is at its end. */
static int walk_next(struct walk *w)
{
	for (;;) {
		if (unlikely(!w->depth))
			return -EFAULT;
		struct frame *f = &w->frame[w->depth - 1];
		if (!f->left) {
			w->depth--;
			continue;
		}
		const struct shca_mkey_entry *e = &f->entry[f->i];
		uint64_t len = __atomic_load_n(&e->len, __ATOMIC_RELAXED), n = len - f->at;
		uint64_t addr = e->addr + f->shift * e->stride + f->at;
		uint32_t lkey = __atomic_load_n(&e->lkey, __ATOMIC_RELAXED);
		/* I7 */
		if (unlikely(f->at >= len))
			return -EACCES;
		if (n > f->left) {
			n = f->left;
			f->at += n;
		} else {
			f->at = 0;
			if (++f->i == f->n) {
				f->i = 0;
				f->shift++;
			}
		}
		f->left -= n;
		if (unlikely(!w->mr || w->key != lkey)) {
			const struct shca_mr *mr = shca_region(w->thr->m, lkey, w->pd, w->rights);
			if (!mr) {
				const struct shca_mr *k = inner_key(w, lkey);
				if (!k || !walk_into(w, k, addr, n))
					return -EACCES;
				continue;
			}
			if (mr->proc != w->proc || !shca_region_sound(w->thr->m, mr))
				return -EACCES;
			w->mr = mr;
			w->key = lkey;
		}
		return mkey_walk_run(w, w->mr, addr, n) ? 0 : -EACCES;
	}
}

/* Begins n bytes of a segment. write: the segment is the target. Returns as walk_next. */
static int walk_begin(struct walk *w, struct shca_thread *thr, const struct shca_mkey_side *side, uint64_t n, bool write)
{
	w->thr = thr;
	w->proc = side->proc;
	w->rights = write ? IBV_ACCESS_LOCAL_WRITE : 0;
	w->depth = 0;
	w->mr = NULL;
	w->run = *side->seg;
	w->skip = side->skip;
	w->n = n;
	if ((side->seg->lane & 7) != SHCA_LANE_MKEY)
		return 0;
	/* the key of the segment: its bits 5 to 7 are not known, and are the key's own */
	const struct shca_mr *k = shca_mr_entry(thr->m, side->seg->lane >> 8);
	uint32_t key = k ? atomic_load_explicit(&k->bound, memory_order_acquire) : 0;
	if (!key || SHCA_MKEY_LANE(key) != side->seg->lane || !SHCA_IS_MKEY(side->seg->where))
		return -EACCES;
	w->pd = k->pd;
	if (inner_key(w, key) != k || !walk_into(w, k, side->seg->where - SHCA_MKEY_AT + side->skip, n))
		return -EACCES;
	return walk_next(w);
}

static inline void mkey_walk_on(struct walk *w, uint64_t n)
{
	w->skip += n;
	w->n -= n;
}

/* Sets *at to the address of the current byte for loads and stores; NULL: private memory. Returns false if there can
 * be no such memory (I7). */
static inline bool walk_place(const struct walk *w, char **at)
{
	if (unlikely(!place_in(w->thr, w->proc, &w->run, w->skip, at, false)))
		return false;
	if (!*at)
		*at = vouched(w->thr, w->proc, &w->run, w->skip);
	return true;
}

int shca_mkey_copy(struct shca_thread *thr, struct shca_mkey_side dst, struct shca_mkey_side src, uint64_t n,
		   enum shca_order order, bool *src_err)
{
	struct walk d, s;
	int rc;

	*src_err = true;
	rc = walk_begin(&s, thr, &src, n, false);
	if (rc)
		return rc;
	*src_err = false;
	rc = walk_begin(&d, thr, &dst, n, true);
	SHCA_FAILPOINT(thr, "key-walk", NULL, 0);
	while (!rc) {
		uint64_t k = d.n < s.n ? d.n : s.n;
		char *from, *to;
		*src_err = !walk_place(&s, &from);
		if (*src_err || !walk_place(&d, &to))
			return -EFAULT;
		rc = shca_copy_piece(thr, d.proc, to, d.run.where + d.skip, s.proc, from, s.run.where + s.skip, k,
				     k == n ? order : SHCA_ANY_ORDER, src_err);
		n -= k;
		if (rc || !n)
			return rc == SHCA_COPY_MKEY ? -EACCES : rc;
		mkey_walk_on(&d, k);
		mkey_walk_on(&s, k);
		if (!s.n) {
			rc = walk_next(&s);
			*src_err = rc;
		}
		if (!rc && !d.n)
			rc = walk_next(&d);
	}
	return rc;
}

bool shca_mkey_word(struct shca_thread *thr, uint32_t proc, uint32_t size, struct shca_seg *seg, struct shca_ground *ground)
{
	struct shca_seg key = *seg;
	struct shca_mkey_side side = {.proc = proc, .seg = &key};
	struct walk w;

	if (walk_begin(&w, thr, &side, size, true) || w.n < size)
		return false;
	const struct shca_mr *mr = w.mr;
	/* the version before a second look at the key: the version is counted up behind the key's end */
	*ground = (struct shca_ground){.index = mr->index, .version = atomic_load_explicit(&mr->version, memory_order_acquire)};
	if (atomic_load_explicit(&mr->key, memory_order_acquire) != w.key)
		return false;
	*seg = w.run;
	if (seg->lane == SHCA_LANE_VOUCHED)
		seg->lane = mr->lane;
	return seg->lane != SHCA_LANE_ARENA || shca_fits(thr->m, seg->where, size);
}

bool shca_mkey_at(const struct shca_member *m, const struct shca_mr *mr, uint64_t addr, uint64_t len, struct shca_seg *seg)
{
	uint32_t key = atomic_load_explicit(&mr->bound, memory_order_acquire);
	const struct shca_mkey *t = shca_at_checked(m, mr->where, sizeof(*t));

	if (SHCA_WINDOW_KIND(atomic_load_explicit(&mr->window, memory_order_relaxed)) != SHCA_WINDOW_MKEY || !key || !t ||
	    !shca_within(mr->iova, __atomic_load_n(&t->bytes, __ATOMIC_RELAXED), addr, len) || addr >= SHCA_MKEY_BYTES)
		return false;
	*seg = (struct shca_seg){.where = SHCA_MKEY_AT + addr, .len = (uint32_t)len, .lane = SHCA_MKEY_LANE(key)};
	return true;
}

bool shca_mkey_segs(const struct shca_member *m, uint32_t proc, uint32_t pd, const struct shca_seg *seg, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		if ((seg[i].lane & 7) != SHCA_LANE_MKEY)
			continue;
		const struct shca_mr *k = shca_mr_entry(m, seg[i].lane >> 8);
		if (!k || SHCA_WINDOW_KIND(atomic_load_explicit(&k->window, memory_order_acquire)) != SHCA_WINDOW_MKEY ||
		    k->pd != pd || k->proc != proc || SHCA_MKEY_LANE(shca_mkey_key(k)) != seg[i].lane ||
		    !SHCA_IS_MKEY(seg[i].where))
			return false;
	}
	return true;
}

const struct shca_mr *shca_resolve_key(struct shca_thread *thr, const struct shca_mr *mr, uint64_t raddr, uint64_t len,
				       struct shca_seg *seg, struct shca_ground *word)
{
	if (!mr || !shca_mkey_at(thr->m, mr, raddr, len, seg))
		return NULL;
	return !word || shca_mkey_word(thr, shca_region_owner(mr), (uint32_t)len, seg, word) ? mr : NULL;
}
