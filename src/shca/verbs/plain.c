/* SPDX-License-Identifier: BSD-3-Clause */
/* Finding and checking the target of a plain write. */
#include <errno.h>
#include <stdlib.h>

#include "shca/verbs/plain.h"

int shca_targets_init(struct shca_lqp *q)
{
	uint32_t n = q->type == SHCA_QPT_DCI ? SHCA_TARGETS_DC : SHCA_TARGETS;

	if (posix_memalign((void **)&q->targets, SHCA_LINE, n * sizeof(*q->targets)))
		return ENOMEM;
	memset(q->targets, 0, n * sizeof(*q->targets));
	for (uint32_t i = 0; i < n; i++)
		q->targets[i].proc = q->m->proc;	/* no bytes, but a count to look at */
	q->target_mask = n - 1;
	return 0;
}

/* The queue that answers, and in *pd whose memory it may write. */
static const struct shca_qp *responder_of(struct shca_cpu *cpu, const struct shca_lqp *q, uint32_t dest, uint64_t dc_key,
					  uint32_t *pd)
{
	bool dc = q->type == SHCA_QPT_DCI;
	const struct shca_qp *to = shca_number_get(cpu->m, dc ? dest : q->sh->dest_qpn, SHCA_KIND_QP);
	const struct shca_rq *srq;

	if (!to || !(atomic_load_explicit(&to->gate, memory_order_acquire) & SHCA_GATE_RESPOND))
		return NULL;
	*pd = to->pd;
	if (dc)
		return to->type == SHCA_QPT_DCT && to->dc_key == dc_key ? to : NULL;
	if (to->dest_qpn != q->sh->qpn)
		return NULL;
	if (q->type == IBV_QPT_RC)
		/* the general way makes the peer known, so that its death is noticed */
		return to->type == IBV_QPT_RC && q->sh->peer_proc ? to : NULL;
	if (to->type != IBV_QPT_XRC_RECV || !q->sh->peer_proc)
		return NULL;
	/* an XRC responder has no domain of its own: the shared receive queue that every request names has it */
	srq = shca_number_get(cpu->m, dest, SHCA_KIND_SRQ);
	if (!srq || srq->xrcd != to->xrcd)
		return NULL;
	*pd = srq->pd;
	return to;
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

bool shca_target_find(struct shca_cpu *cpu, struct shca_lqp *q, struct shca_target *t, uint32_t rkey, uint32_t dest,
		      uint64_t dc_key)
{
	const struct shca_mr *mr = shca_mr_get(cpu->m, rkey);
	bool known = t->rkey == rkey;
	uint32_t pd;

	/* whatever stood here is forgotten, and not taken for valid by its old count */
	t->bytes = 0;
	t->withdrawn = atomic_load_explicit(&t->proc->withdrawn, memory_order_relaxed) - 1;
	if (!mr || mr->lane != SHCA_LANE_ARENA || mr->implicit)
		return false;
	struct shca_proc_slot *proc = &cpu->m->procs[mr->proc];
	/* the count first: what is withdrawn while we look makes it differ */
	uint32_t withdrawn = atomic_load_explicit(&proc->withdrawn, memory_order_acquire);
	const struct shca_qp *to = responder_of(cpu, q, dest, dc_key, &pd);
	if (!to || to->proc != mr->proc || mr->pd != pd || !(mr->access & to->access & IBV_ACCESS_REMOTE_WRITE))
		return false;
	uint64_t lo = mr->iova, bytes = mr->length, where = mr->where;
	/* still the same region as when the count was read */
	if (atomic_load_explicit(&mr->key, memory_order_acquire) != rkey)
		return false;
	*t = (struct shca_target){.rkey = rkey, .dest = dest, .dc_key = dc_key, .lo = lo, .bytes = bytes,
				  .at = cpu->base + where - lo, .proc = proc, .withdrawn = withdrawn, .slot = mr->proc};
	if (!known)
		warm(t->at + lo, bytes);
	return true;
}
