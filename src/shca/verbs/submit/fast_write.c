/* SPDX-License-Identifier: BSD-3-Clause */
/* Finding and checking the target of a plain write. */
#include <errno.h>
#include <stdlib.h>

#include "shca/verbs/submit/fast_write.h"

int shca_rkey_cache_init(struct shca_user_qp *q)
{
	uint32_t n = q->type == SHCA_QPT_DCI ? SHCA_RKEY_CACHE_DC : SHCA_RKEY_CACHE;

	if (posix_memalign((void **)&q->rkey_cache, SHCA_LINE, n * sizeof(*q->rkey_cache)))
		return ENOMEM;	/* said: shca_qp_new */
	memset(q->rkey_cache, 0, n * sizeof(*q->rkey_cache));
	for (uint32_t i = 0; i < n; i++)
		q->rkey_cache[i].proc = q->m->proc;	/* no bytes, but a count to look at */
	q->rkey_cache_mask = n - 1;
	return 0;
}

#define WARM_BYTES (1u << 20)
#define WARM_STEP 65536u		/* what Linux maps around a page that is read */

/* As an HCA fetches translations: the first write to each page would fault, page by page; a read maps those around it that
 * exist, too. */
static void warm(const char *at, uint64_t bytes)
{
#if !defined(SHCA_TSAN)
	for (uint64_t i = 0; i < bytes && i < WARM_BYTES; i += WARM_STEP)
		(void)*(volatile const char *)(at + i);
#endif
}

bool shca_rkey_cache_find(struct shca_thread *thr, struct shca_user_qp *q, struct shca_rkey_cache *t, uint64_t name, uint64_t dc_key)
{
	const uint32_t rkey = (uint32_t)name;
	const struct shca_address to = {.dqpn = (uint32_t)(name >> 32), .dc_key = dc_key};
	const struct shca_mr *mr = shca_mr_get(thr->m, rkey);
	bool known = (uint32_t)t->name == rkey;
	struct shca_responder r = {0};

	/* whatever stood here is forgotten, and not taken for valid by its old count */
	t->bytes = 0;
	t->valid_word = ~atomic_load_explicit(&t->proc->valid_word, memory_order_relaxed);
	if (!mr)
		return false;
	uint32_t slot = mr->proc & (SHCA_MAX_PROCS - 1);
	struct shca_proc_slot *proc = &thr->m->procs[slot];
	/* before the look-up: a revocation during the look-up leaves an older value here */
	uint64_t valid_word = atomic_load_explicit(&proc->valid_word, memory_order_acquire);
	if (mr->lane != SHCA_LANE_ARENA || mr->implicit) {
		/* Remembered as a window of no bytes, so that not each write to it looks here. ibv_rereg_mr may move it into the arena under
		 * the same key: that withdraws first (mr_close), so it is looked up again. */
		*t = (struct shca_rkey_cache){.name = name, .dc_key = dc_key, .proc = proc, .epoch = shca_epoch_of(slot), .valid_word = valid_word};
		return false;
	}
	if (shca_responder_find(thr, q->sh, &to, &r))
		return false;
	mr = shca_responder_region(thr->m, &r, rkey, IBV_ACCESS_REMOTE_WRITE);
	/* one process's count is looked at: whatever this rests on must be that process's, or counted everywhere (engine/common.c) */
	if (!mr || mr->proc != slot || (r.qp->proc != slot && r.qp->proc != SHCA_COMMON) || !shca_region_sound(thr->m, mr))
		return false;
	uint64_t lo = mr->iova, bytes = mr->length, where = mr->where;
	/* still the same region as when the count was read */
	if (atomic_load_explicit(&mr->key, memory_order_acquire) != rkey)
		return false;
	*t = (struct shca_rkey_cache){.name = name, .dc_key = dc_key, .lo = lo, .bytes = bytes,
				  .at = (uintptr_t)thr->base + where - lo, .proc = proc, .valid_word = valid_word,
				  .epoch = shca_epoch_of(slot)};
	if (!known)
		warm((const char *)(uintptr_t)(t->at + lo), bytes);
	return true;
}

__attribute__((noinline, cold)) void shca_wake_owner(struct shca_thread *thr, uint32_t slot)
{
	shca_enter(thr);
	shca_wake_note(thr, SHCA_WAKE_FUTEX, slot);
	shca_leave(thr);
}
