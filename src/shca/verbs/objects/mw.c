/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory windows: allocated and freed here; requests bind and invalidate them (engine/window.c). */
#include <errno.h>
#include <stdlib.h>

#include "shca/verbs/control.h"

struct ibv_mw *shca_alloc_mw(struct ibv_pd *ibpd, enum ibv_mw_type type)
{
	struct shca_context *c = shca_context_of(ibpd->context);
	struct shca_user_pd *pd = shca_user_pd_of(ibpd);
	uint32_t key;

	if (shca_unusable(ibpd->context))
		return NULL;
	if (type != IBV_MW_TYPE_1 && type != IBV_MW_TYPE_2) {
		errno = shca_refuse(EINVAL, "alloc_mw: type %d: there are 1 and 2", type);
		return NULL;
	}
	struct shca_user_mw *mw = calloc(1, sizeof(*mw));
	if (!mw) {
		errno = shca_no_memory("alloc_mw");
		return NULL;
	}
	mw->sh = shca_mr_alloc(c->m, &key);
	if (!mw->sh) {
		free(mw);
		return NULL;
	}
	mw->mw = (struct ibv_mw){.context = ibpd->context, .pd = ibpd, .rkey = key, .handle = key >> 8, .type = type};
	mw->pd = pd;
	mw->gen = atomic_load(&mw->sh->gen);
	mw->sh->pd = pd->number;
	mw->sh->proc = (uint16_t)c->m->slot;
	mw->sh->access = 0;
	atomic_store(&mw->sh->window, type == IBV_MW_TYPE_1 ? SHCA_WINDOW_1 : SHCA_WINDOW_2);
	atomic_fetch_add(&pd->refs, 1);
	pthread_mutex_lock(&c->mutex);
	mw->next = c->mws;
	mw->prev = &c->mws;
	if (mw->next)
		mw->next->prev = &mw->next;
	c->mws = mw;
	pthread_mutex_unlock(&c->mutex);
	return &mw->mw;
}

/* Takes the R_Key of a window that is bound, or of an indirect memory key that is configured, away. */
static bool unbind(struct shca_context *c, struct shca_mr *sh)
{
	atomic_store(&sh->window, SHCA_WINDOW_NONE);
	if (!atomic_exchange(&sh->bound, 0))
		return false;
	atomic_fetch_add(&sh->version, 1);
	shca_revoke(c->m, c->m->slot);
	return true;
}

int shca_window_retire(struct shca_context *c, struct shca_mr *sh, const char *call)
{
	struct shca_thread *thr = shca_thread_get(c->m);

	if (!thr)
		return shca_no_thread(call);
	unbind(c, sh);
	SHCA_FAILPOINT(thr, "mw-closing", NULL, 0);
	shca_quiesce(thr, thr->m->slot);
	/* An executor that had found the entry may have bound it since, and write_entry makes it findable again: until a quiesce
	 * has passed in which no executor bound it. */
	while (unbind(c, sh))
		shca_quiesce(thr, thr->m->slot);
	SHCA_FAILPOINT(thr, "mw-closed", NULL, 0);
	return 0;
}

int shca_dealloc_mw(struct ibv_mw *ibmw)
{
	struct shca_user_mw *mw = shca_user_mw_of(ibmw);
	struct shca_context *c = shca_context_of(ibmw->context);

	if (!shca_inherited(ibmw->context)) {
		int err = shca_window_retire(c, mw->sh, "dealloc_mw");
		if (err)
			return err;
		pthread_mutex_lock(&c->mutex);
		*mw->prev = mw->next;
		if (mw->next)
			mw->next->prev = mw->prev;
		pthread_mutex_unlock(&c->mutex);
		shca_mr_free(c->m, mw->sh);
	}
	atomic_fetch_sub(&mw->pd->refs, 1);
	free(mw);
	return 0;
}

/* How many windows of this process are bound to the region. */
static uint32_t windows_of(struct shca_node *node, const struct shca_mr *region)
{
	uint32_t n = 0;

	pthread_mutex_lock(&node->mutex);
	for (struct shca_context *c = node->contexts; c; c = c->next) {
		pthread_mutex_lock(&c->mutex);
		for (const struct shca_user_mw *mw = c->mws; mw; mw = mw->next)
			n += atomic_load(&mw->sh->bound) && SHCA_WINDOW_REGION(atomic_load(&mw->sh->window)) == region->index;
		pthread_mutex_unlock(&c->mutex);
	}
	pthread_mutex_unlock(&node->mutex);
	return n;
}

int shca_windows_close(struct shca_context *c, struct shca_mr *region, const char *call)
{
	if (!(region->access & IBV_ACCESS_MW_BIND))
		return 0;
	struct shca_thread *thr = shca_thread_get(c->m);
	if (!thr)
		return shca_no_thread(call);
	uint32_t n = windows_of(c->node, region);
	if (!n) {
		/* an executor inside of a bind has bound its window when the quiesce is over; a later one
		 * finds the region closed */
		atomic_store(&region->window, SHCA_WINDOW_CLOSED);
		shca_quiesce(thr, thr->m->slot);
		n = windows_of(c->node, region);
	}
	if (n) {
		atomic_store(&region->window, SHCA_WINDOW_NONE);
		return shca_refuse(EBUSY, "%s: %u memory windows are bound to the region of key %#x", call, n,
				   atomic_load(&region->key));
	}
	return 0;
}

/* Returns whether a window, whose R_Key was valid, is ending by its entry. */
typedef bool (*ends_fn)(const struct shca_mr *window, const void *arg);

/* Ends windows of a context. Returns whether there was one. */
static bool end_windows(struct shca_context *c, ends_fn ends, const void *arg)
{
	bool any = false;

	pthread_mutex_lock(&c->mutex);
	for (struct shca_user_mw *mw = c->mws; mw; mw = mw->next) {
		struct shca_mr *sh = mw->sh;
		/* R_Key first, which write_entry stores last: another thread may bind the window elsewhere meanwhile, and that
		 * bind stays. Acquire: pairs with the release there. */
		uint32_t rkey = atomic_load_explicit(&sh->bound, memory_order_acquire);
		bool ended = ends(sh, arg);
		SHCA_FAILPOINT(shca_thread_get(c->m), "windows-end", NULL, 0);
		if (!rkey || !ended || !atomic_compare_exchange_strong(&sh->bound, &rkey, 0))
			continue;
		atomic_fetch_add(&sh->version, 1);
		any = true;
	}
	pthread_mutex_unlock(&c->mutex);
	return any;
}

static bool is_on_queue(const struct shca_mr *window, const void *qpn)
{
	return SHCA_WINDOW_KIND(atomic_load(&window->window)) == SHCA_WINDOW_2 && window->qpn == *(const uint32_t *)qpn;
}

void shca_windows_leave(struct shca_context *c, uint32_t qpn)
{
	if (end_windows(c, is_on_queue, &qpn))
		shca_revoke(c->m, c->m->slot);
}

static bool is_on_region_of(const struct shca_mr *window, const void *context)
{
	const struct shca_context *c = context;

	for (const struct shca_user_mr *mr = c->mrs; mr; mr = mr->next)
		if (mr->sh->index == SHCA_WINDOW_REGION(atomic_load(&window->window)))
			return true;
	return false;
}

void shca_windows_end(struct shca_context *c)
{
	struct shca_thread *thr = shca_thread_get(c->m);
	bool any = false;

	/* a bind behind the quiesce finds the region closed (region_of in engine/window.c) */
	for (struct shca_user_mr *mr = c->mrs; mr; mr = mr->next)
		if (mr->sh->access & IBV_ACCESS_MW_BIND) {
			atomic_store(&mr->sh->window, SHCA_WINDOW_CLOSED);
			any = true;
		}
	if (!any)
		return;
	shca_quiesce(thr, thr->m->slot);
	any = false;
	pthread_mutex_lock(&c->node->mutex);
	for (struct shca_context *o = c->node->contexts; o; o = o->next)
		any |= end_windows(o, is_on_region_of, c);
	pthread_mutex_unlock(&c->node->mutex);
	if (any)
		shca_revoke(c->m, c->m->slot);
}
