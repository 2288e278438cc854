/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Completion queues from inside: a producer that was stopped for as many laps as lap numbers there are, between its completion
 * and the hint for the place of the next one, does no harm; neither does a consumer that is faster than the producer that looks
 * for room.
 */
#include <stdio.h>
#include <unistd.h>

#include "rig.h"

#define LAPS 32767u

static struct rig r;

static void push(struct shca_thread *thr, struct shca_cq *cq, bool polled)
{
	struct shca_cqe_in in = {.qpn = 77, .op = SHCA_OP_NOP};

	if (!shca_cq_push(thr, cq, &in))
		FAIL("there was room");
	if (polled)
		atomic_store(&cq->ci, shca_cq_count(thr, cq));
}

static void held(bool polled)
{
	struct ibv_cq *ibcq = rig_cq(&r, 8, NULL);
	struct shca_cq *cq = shca_user_cq_of(ibcq)->sh;
	struct shca_thread *thr = shca_thread_get(r.m);
	uint64_t size = 1ull << cq->log2, n = 0;

	if (!polled)
		cq->flags |= SHCA_CQ_IGNORE_OVERRUN;
	/* at every place of the lap, and with the laps' numbers begun anew */
	for (uint64_t place = 0; place <= size; place++) {
		uint64_t hint = n + 1;
		push(thr, cq, polled);
		for (n++; n < hint + LAPS * size; n++)
			push(thr, cq, polled);
		/* its store comes now */
		atomic_store(&cq->tail, hint);
		if (shca_cq_count(thr, cq) != n)
			FAIL("%s: %lu completions, %lu counted", polled ? "polled" : "not polled", (unsigned long)n,
			     (unsigned long)shca_cq_count(thr, cq));
		atomic_store(&cq->tail, hint);
		push(thr, cq, polled);
		n++;
		if (shca_cq_count(thr, cq) != n || shca_cq_in_error(cq))
			FAIL("%s: %lu completions, %lu counted, error %u", polled ? "polled" : "not polled", (unsigned long)n,
			     (unsigned long)shca_cq_count(thr, cq), atomic_load(&cq->error));
	}
	CHECK(!shca_destroy_cq(ibcq));
}

int main(void)
{
	alarm(60);
	rig_virtual(&r, NULL);
	held(true);
	held(false);
	rig_virtual_leave(&r);
	return 0;
}
