/* SPDX-License-Identifier: BSD-3-Clause */
/* The counts of executed requests of this process's queue pairs (shca_counts): sums of the queue pairs' counters, which
 * their executors write. */
#include <errno.h>

#include "shca/verbs/control.h"

static void counts_add(struct shca_counts *to, const struct shca_qp *qp)
{
	to->waits += atomic_load_explicit(&qp->n_waits, memory_order_relaxed);
	to->enables += atomic_load_explicit(&qp->n_enables, memory_order_relaxed);
	to->calcs += atomic_load_explicit(&qp->n_calcs, memory_order_relaxed);
	to->foreign += atomic_load_explicit(&qp->n_foreign, memory_order_relaxed);
}

void shca_counts_keep(struct shca_node *node, const struct shca_qp *qp)
{
	pthread_mutex_lock(&node->mutex);
	counts_add(&node->gone, qp);
	pthread_mutex_unlock(&node->mutex);
}

int shca_query_counts(struct ibv_context *ctx, struct shca_counts *counts)
{
	struct shca_node *node = shca_context_of(ctx)->node;

	if (shca_inherited(ctx))
		return errno;
	pthread_mutex_lock(&node->mutex);
	*counts = node->gone;
	for (struct shca_context *c = node->contexts; c; c = c->next) {
		pthread_mutex_lock(&c->mutex);
		for (const struct shca_user_qp *q = c->qps; q; q = q->next)
			if (!q->common)
				counts_add(counts, q->sh);
		pthread_mutex_unlock(&c->mutex);
	}
	pthread_mutex_unlock(&node->mutex);
	counts->for_others = atomic_load_explicit(&node->m.proc->foreign_wqes, memory_order_relaxed);
	return 0;
}
