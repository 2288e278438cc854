/* SPDX-License-Identifier: BSD-3-Clause */
/* Common queue pairs: their holders, which watch, and get events. */
#include "shca/engine/common_lock.h"

void shca_common_job(struct shca_common_qp *c, enum shca_common_job job)
{
	atomic_store(&c->lock, (atomic_load(&c->lock) & 0xffffff) | (uint32_t)job << 24);
}

_Atomic uint64_t *shca_common_hold(struct shca_thread *thr, struct shca_common_qp *c)
{
	for_each_holder(c, h) {
		uint64_t none = 0;
		if (!atomic_load(h) && atomic_compare_exchange_strong(h, &none, thr->m->slot + 1u))
			return h;
	}
	return NULL;
}

void shca_common_revoke(const struct shca_member *m, const struct shca_common_qp *c)
{
	uint32_t high = atomic_load(&m->hdr->proc_high);

	if (c->qp.proc != SHCA_COMMON) {
		shca_revoke(m, c->qp.proc);
		return;
	}
	/* an rkey cache entry that was found through c may be of any process with shared receive queues in the domain */
	for (uint32_t p = 0; p < high; p++)
		shca_revoke(m, p);
}

void shca_common_quiesce(struct shca_thread *thr, const struct shca_common_qp *c)
{
	/* SHCA_EVERYBODY: the epoch of a fast write covers only the process of the region that the write goes to */
	shca_quiesce(thr, c->qp.proc == SHCA_COMMON ? SHCA_EVERYBODY : c->qp.proc);
}

void shca_common_clear(struct shca_common_qp *c)
{
	c->qp.dest_qpn = c->qp.peer_proc = 0;
	atomic_store(&c->qp.peer_dead, 0);
	c->qp.access = 0;
	c->qp.mtu = 4096;
	atomic_store(&c->qp.path, SHCA_PATH_RESET);
	memset(c->attr, 0, sizeof(c->attr));
	atomic_store(&c->qp.qp_state, IBV_QPS_RESET);
}

void shca_common_watch(struct shca_thread *thr, const struct shca_qp *qp)
{
	const struct shca_common_qp *c = (const struct shca_common_qp *)qp;

	for_each_holder(c, h) {
		uint32_t proc = (uint32_t)(atomic_load(h) & 0xffff);
		if (proc && proc - 1 != thr->m->slot)
			shca_watch(thr->m, proc - 1);
	}
}

void shca_common_event(struct shca_thread *thr, struct shca_common_qp *c, enum ibv_event_type event)
{
	for_each_holder(c, h) {
		uint64_t w = atomic_load(h);
		while (w && !atomic_compare_exchange_weak(h, &w, w | 1ull << event << 32))
			;
		if (w)
			shca_async_wake(thr, (uint32_t)(w & 0xffff) - 1);
	}
}
