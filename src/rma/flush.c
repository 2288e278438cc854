/* SPDX-License-Identifier: BSD-3-Clause */
/* Flush: waits until this process's operations are complete at their targets, and takes their errors. */
#include "rma/target.h"

static bool nothing_pending(const void *arg)
{
	return !((const struct hdl_target *)arg)->pending;
}

int hdl_rma_flush(struct hdl_win *w, struct hdl_target *t)
{
	int rc;

	/* Pairs with the fence of a process that stores a value which this process loads next: stores of puts are visible to all
	 * processes before any later load of this process. */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (t->pending)
		hdl_wait_until(nothing_pending, t);
	rc = t->error;
	t->error = MPI_SUCCESS;
	if (unlikely(hdl_target_failed(t))) {
		t->note = &hdl_rma_gone;	/* put and get need not ask the runtime */
		return hdl_rma_dead(w, t->rank, "operations to");
	}
	if (rc) {
		char label[MPI_MAX_OBJECT_NAME + 16];

		hdl_reason_set("an operation to rank %d of %s has failed%s", t->rank, hdl_win_label(w, label),
			       rc == MPI_ERR_RMA_RANGE ?
				       ": that rank's memory cannot be accessed there: it was detached, freed or unmapped" :
				       "");
	}
	return rc;
}

int hdl_rma_flush_all(struct hdl_win *w)
{
	int rc = MPI_SUCCESS;

	for (int r = 0; r < w->size; r++) {
		struct hdl_target *t = w->target[r];
		int one;

		if (!t || (!t->pending && !t->error && !(w->open_all && hdl_target_failed(t))))
			continue;
		one = hdl_rma_flush(w, t);
		rc = rc ? rc : one;
	}
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	return rc;
}
