/* SPDX-License-Identifier: BSD-3-Clause */
/* Fills the rkey cache: looks up and checks the region that a fast write goes to. */
#include "shca/verbs/submit/fast_write.h"

#define WARM_BYTES (1u << 20)
#define WARM_STEP 65536u		/* bytes that Linux maps around a page on a read fault */

/* Maps the pages of a new entry, as an HCA fetches translations: the first write to each page would fault one by one, while a
 * read also maps the existing pages around. */
static void warm(const char *at, uint64_t bytes)
{
#if !defined(SHCA_TSAN)
	for (uint64_t i = 0; i < bytes && i < WARM_BYTES; i += WARM_STEP)
		(void)*(volatile const char *)(at + i);
#endif
}

bool shca_rkey_cache_find(struct shca_thread *thr, struct shca_user_qp *q, struct shca_rkey_cache *t, uint64_t name,
			  uint64_t dc_key)
{
	const uint32_t rkey = (uint32_t)name;
	const struct shca_address to = {.dqpn = (uint32_t)(name >> 32), .dc_key = dc_key};
	const struct shca_mr *mr = shca_mr_entry(thr->m, rkey >> 8);
	bool known = (uint32_t)t->name == rkey;
	struct shca_responder r = {0};

	/* the old entry must not be taken for valid by its old word */
	t->bytes = 0;
	t->valid_word = ~atomic_load_explicit(&t->proc->valid_word, memory_order_relaxed);
	if (!mr || !shca_key_stands(mr, rkey))
		return false;
	uint32_t slot = mr->proc & (SHCA_MAX_PROCS - 1);
	struct shca_proc_slot *proc = &thr->m->procs[slot];
	/* before the look-up: a revocation during the look-up leaves an older value here, which ends the entry */
	uint64_t valid_word = atomic_load_explicit(&proc->valid_word, memory_order_acquire);
	if (mr->lane != SHCA_LANE_ARENA || mr->implicit) {
		/* An entry of 0 bytes, so that further writes to the region skip the look-up. ibv_rereg_mr may move the region
		 * into the arena under the same key: mr_close revokes first, so the entry ends. */
		*t = (struct shca_rkey_cache){.name = name, .dc_key = dc_key, .proc = proc, .epoch = shca_epoch_of(slot),
					      .valid_word = valid_word};
		return false;
	}
	if (shca_responder_find(thr, q->sh, &to, &r))
		return false;
	mr = shca_responder_region(thr->m, &r, rkey, IBV_ACCESS_REMOTE_WRITE);
	/* Only the `valid_word` of this process is compared: everything that the entry rests on must belong to the process, or
	 * revoke in all processes (shca_common_revoke) */
	if (!mr || mr->proc != slot || (r.qp->proc != slot && r.qp->proc != SHCA_COMMON) || !shca_region_sound(thr->m, mr))
		return false;
	uint64_t lo = mr->iova, bytes = mr->length, where = mr->where;
	/* still the same region as when the count was read */
	if (!shca_key_stands(mr, rkey))
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
