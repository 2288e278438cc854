/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The request that configures an indirect memory key (struct shca_mkey): its rights, its layout, or both. The key and its table
 * belong to the owner of the queue. A key that is configured already is ended first, as LOCAL_INV ends it: no thread walks the
 * table while it is written. Between the two, peers are refused.
 */
#include "shca/engine/access.h"
#include "shca/engine/mkey.h"
#include "shca/engine/window.h"

/* Returns the entries that the request carries; NULL: none, or their place in the request is invalid (I7). */
static const void *entries_of(const struct shca_thread *thr, const struct shca_req *req)
{
	const struct shca_seg *seg = req->sge;

	if (req->inl)
		return req->inl;
	if (req->nsge != 1 || seg->len != req->len)
		return NULL;
	if (req->flags & SHCA_WQE_INLINE)
		return (const void *)(uintptr_t)seg->where;
	return seg->lane == SHCA_LANE_ARENA && shca_fits(thr->m, seg->where, seg->len) ? thr->base + seg->where : NULL;
}

/* Returns the key's table; NULL: the request asks for more than the table has, or there is no such table (I7). */
static struct shca_mkey *table_of(const struct shca_member *m, const struct shca_mr *w, const struct shca_req *req)
{
	struct shca_mkey *t = shca_at_checked(m, w->where, sizeof(*t));

	if (!t || !shca_owned(m, t, w->proc) || t->max > SHCA_MKEY_ENTRIES || !shca_fits(m, w->where, shca_mkey_bytes(t->max)))
		return NULL;
	if (req->rkey & SHCA_UMR_LAYOUT)
		return req->imm && req->imm <= t->max && req->len == req->imm * sizeof(struct shca_mkey_entry) ? t : NULL;
	return t->n ? t : NULL;
}

static void write_key(struct shca_mr *w, struct shca_mkey *t, const struct shca_req *req, const void *entries)
{
	if (req->rkey & SHCA_UMR_LAYOUT) {
		memcpy(t->entry, entries, req->len);
		t->unit = req->arg[0];
		t->bytes = req->arg[0] * req->arg[2];
		t->n = req->imm;
		w->iova = req->raddr;
	}
	if (req->rkey & SHCA_UMR_ACCESS)
		w->access = req->qkey;
	atomic_store_explicit(&w->bound, shca_mkey_key(w), memory_order_release);
}

int shca_mkey_configure(struct shca_thread *thr, struct shca_qp *qp, const struct shca_req *req)
{
	struct shca_mr *w = shca_mr_entry(thr->m, req->dqpn);
	uint32_t kind = w ? SHCA_WINDOW_KIND(atomic_load(&w->window)) : SHCA_WINDOW_NONE, step = shca_step_of(qp);
	const void *entries = req->rkey & SHCA_UMR_LAYOUT ? entries_of(thr, req) : NULL;

	/* the key was destroyed since the post, and the entry may have another use */
	if (kind != SHCA_WINDOW_MKEY || w->proc != qp->proc || w->pd != qp->pd || atomic_load(&w->gen) != req->arg[1])
		return IBV_WC_MW_BIND_ERR;
	struct shca_mkey *t = table_of(thr->m, w, req);
	if (!t || (req->rkey & SHCA_UMR_LAYOUT && !entries))
		return IBV_WC_MW_BIND_ERR;
	if ((step == SHCA_STEP_UNBIND || (step != SHCA_STEP_BIND && atomic_load(&w->bound))) && !shca_window_unbind(thr, qp, w))
		return SHCA_BUSY;
	shca_step_to(qp, SHCA_STEP_BIND);
	SHCA_FAILPOINT(thr, "bind", qp, req->op);
	write_key(w, t, req, entries);
	SHCA_FAILPOINT(thr, "bound", qp, req->op);
	return IBV_WC_SUCCESS;
}
