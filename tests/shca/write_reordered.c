/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * SHCA_BEHAVE=nosequence: a write that has overtaken its predecessor lands once, whichever thread executes that write in its
 * turn. The second of two writes is posted when the helper thread has begun with the first one: so the second one lands, and is
 * left over. 1 second.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "hold.h"

static _Atomic uint64_t word;
static struct ibv_mr *mr;

static struct ibv_qp *queue(struct rig *r, struct ibv_cq *cq)
{
	struct rig_qp_attr at = {.type = IBV_QPT_RC, .scq = cq, .rcq = cq, .send_wr = 4, .recv_wr = 4, .sge = 1, .inl = 8};
	struct ibv_qp *qp = rig_qp(r, &at);

	rig_init(qp);
	return qp;
}

static void writes(struct ibv_qp *qp, uint64_t v)
{
	struct ibv_sge sge = {(uintptr_t)&v, sizeof(v), 0};
	struct ibv_send_wr wr = {.wr_id = v, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
				 .send_flags = IBV_SEND_INLINE | IBV_SEND_SIGNALED,
				 .wr.rdma = {.remote_addr = (uintptr_t)&word, .rkey = mr->rkey}}, *bad;

	CHECK(!shca_post_send(qp, &wr, &bad));
}

int main(void)
{
	struct ibv_wc wc;

	alarm(60);
	CHECK(!setenv("SHCA_BEHAVE", "nosequence", 1));
	set_up();
	struct ibv_cq *cq = rig_cq(&a, 16, NULL);
	struct ibv_qp *qp = queue(&a, cq), *peer = queue(&b, rig_cq(&b, 16, NULL));
	mr = shca_reg_mr(b.pd, &word, sizeof(word), (uintptr_t)&word, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	CHECK(mr);
	connect_both(qp, peer);

	hold_at(&a, "run");
	writes(qp, 1);
	rig_await(&hold.held, 1);
	hold_one_at(&second, &a, "left-over");
	writes(qp, 2);
	let_go();
	rig_await(&second.held, 1);
	if (atomic_load(&word) != 1)
		FAIL("%lu is there: the second write has not landed before the first one", (unsigned long)atomic_load(&word));
	/* a program that has polled the first completion may reuse the memory */
	atomic_store(&word, 9);
	struct shca_thread *thr = shca_thread_get(a.m);
	CHECK(thr);
	shca_enter(thr);
	shca_kick(thr, shca_off_of(a.m, rig_sh(qp)));
	shca_drain(thr);
	shca_leave(thr);
	atomic_store(&second.m, NULL);
	for (uint64_t v = 1; v <= 2; v++) {
		for (int i = 0; shca_poll_cq(cq, 1, &wc) != 1; i++, rig_nap())
			if (i > 20000)
				FAIL("write %lu does not complete", (unsigned long)v);
		if (wc.wr_id != v || wc.status != IBV_WC_SUCCESS)
			FAIL("write %lu: that of %lu, %s", (unsigned long)v, (unsigned long)wc.wr_id,
			     ibv_wc_status_str(wc.status));
	}
	if (atomic_load(&word) != 9)
		FAIL("a write that has overtaken another one lands again in its turn");
	return 0;
}
