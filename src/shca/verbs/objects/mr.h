/* SPDX-License-Identifier: BSD-3-Clause */
/* Registered memory of this process: its look-up, for posting; the context's list. */
#ifndef SHCA_OBJECTS_MR_H
#define SHCA_OBJECTS_MR_H

#include "shca.h"
#include "shca/engine/access.h"
#include "shca/verbs/device.h"

/* Looks a segment up in the registered memory of this process. false: no region gives this right; the request will complete with
 * IBV_WC_LOC_PROT_ERR. *ground, unless NULL: the region and its version. The version must be read before the key is found valid:
 * mr_close counts the version up behind the key's end. */
static inline __attribute__((always_inline)) bool shca_resolve_local(struct shca_member *m, uint32_t pd,
								     const struct ibv_sge *sge, bool write,
								     struct shca_seg *seg, struct shca_ground *ground)
{
	const struct shca_mr *mr = shca_mr_entry(m, sge->lkey >> 8);

	if (unlikely(!mr))
		return false;
	if (ground)
		*ground = (struct shca_ground){.index = sge->lkey >> 8,
					       .version = atomic_load_explicit(&mr->version, memory_order_acquire)};
	if (unlikely(!shca_opens(mr, sge->lkey, pd, write ? IBV_ACCESS_LOCAL_WRITE : 0)) || mr->proc != m->slot)
		return false;
	if (unlikely(!shca_region_at(m, mr, sge->addr, sge->length, seg)))
		return false;
	if (seg->lane != SHCA_LANE_ARENA && mr->access & SHCA_ACCESS_VOUCHED)
		seg->lane = SHCA_LANE_VOUCHED;
	return true;
}

/* The segment of an sge that no region gives: of an indirect memory key, perhaps. The request or receive must get `bad`
 * SHCA_BAD_KEYS: the executor looks up the key, since a request before this one may configure it, and the segment fails with
 * IBV_WC_LOC_PROT_ERR then. */
static inline struct shca_seg shca_mkey_seg(const struct ibv_sge *sge)
{
	return (struct shca_seg){.where = SHCA_MKEY_AT + sge->addr, .len = sge->length, .lane = SHCA_MKEY_LANE(sge->lkey)};
}

/* Puts a region, or an indirect memory key, on its context's list. Must: c->mutex is not held. */
static inline void shca_mr_list(struct shca_context *c, struct shca_user_mr *mr)
{
	pthread_mutex_lock(&c->mutex);
	mr->next = c->mrs;
	mr->prev = &c->mrs;
	if (mr->next)
		mr->next->prev = &mr->next;
	c->mrs = mr;
	pthread_mutex_unlock(&c->mutex);
}
/* Takes it off again. Must: c->mutex is not held. */
static inline void shca_mr_unlist(struct shca_context *c, struct shca_user_mr *mr)
{
	pthread_mutex_lock(&c->mutex);
	*mr->prev = mr->next;
	if (mr->next)
		mr->next->prev = mr->prev;
	pthread_mutex_unlock(&c->mutex);
}

#endif
