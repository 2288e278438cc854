/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Places of common queue pairs: memory that belongs to no process, so that it outlives all of them.
 *
 * A place is claimed by the lock word, which names the thread; so the reaper finds the place of a dead maker by the lock, like
 * everything else that a dead thread held. The chunk of a place is never given back: a thread that looks at a queue pair that
 * is gone finds another one, or a free place.
 */
#include <errno.h>
#include <string.h>

#include "shca/fabric/fabric.h"

struct shca_common_qp *shca_common_next(const struct shca_member *m, struct shca_common_walk *w)
{
	if (!atomic_load(&m->hdr->commons))
		return NULL;
	for (uint32_t n = shca_segments_used(m, false); w->segment < n; w->segment++, w->place = 0) {
		shca_off off = atomic_load(&m->qp_segs[w->segment]);
		if (!off || !shca_fits(m, off, SHCA_CHUNK) || !shca_owned(m, m->base + off, SHCA_COMMON))
			continue;
		if (w->place < SHCA_COMMON_PLACES)
			return shca_at(m->base, off + (uint64_t)++w->place * SHCA_COMMON_BYTES);
	}
	return NULL;
}

/* Returns the next of the 8 numbers that a place has in its segment, used in turns, so that an old number leads to an empty
 * entry. */
static uint32_t common_number_of(const struct shca_common_walk *w, uint32_t uses)
{
	return w->segment * SHCA_QP_SEG + (w->place - 1) + (uses & 7) * (SHCA_COMMON_PLACES + 1);
}
_Static_assert(8 * (SHCA_COMMON_PLACES + 1) <= SHCA_QP_SEG, "numbers of a place");

static struct shca_common_qp *common_claim(struct shca_thread *thr)
{
	struct shca_common_walk w = {0};
	struct shca_common_qp *c;

	while ((c = shca_common_next(thr->m, &w)) != NULL) {
		uint32_t none = 0;
		if (c->qp.qpn || !atomic_compare_exchange_strong(&c->lock, &none, (thr->slot + 1) | SHCA_JOB_MAKE << 24))
			continue;
		if (c->qp.qpn) {
			atomic_store(&c->lock, 0);
			continue;
		}
		SHCA_FAILPOINT(thr, "common-claimed", NULL, 0);
		memset(&c->qp, 0, sizeof(c->qp));
		memset(c->attr, 0, sizeof(c->attr));
		memset((void *)c->holder, 0, sizeof(c->holder));
		do
			c->qp.qpn = common_number_of(&w, c->uses++);
		while (c->qp.qpn < 2);	/* 0 and 1 are no ordinary queue numbers */
		return c;
	}
	return NULL;
}

struct shca_common_qp *shca_common_take(struct shca_thread *thr)
{
	struct shca_common_qp *c;

	while (!(c = common_claim(thr)))
		if (shca_common_grow(thr->m))
			return NULL;
	return c;
}

void shca_common_put(struct shca_common_qp *c)
{
	c->ended_by = 0;
	c->qp.type = 0;
	c->qp.qpn = 0;
	atomic_store(&c->lock, 0);
}
