/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A program with much thread-local memory, which stands in the stack of every thread: the library's helper and proxy threads
 * have room beside it. Two processes write to each other's private memory, without the kernel's copies; then one dies, which the
 * other one's helper thread notices.
 */
#include <signal.h>

#include "vt.h"

static _Thread_local char large[512 << 10];

struct place {
	uint64_t addr;
	uint32_t rkey, qpn;
};

int main(void)
{
	static char memory[2][4096];

	vt_fabric();
	CHECK(!setenv("SHCA_CMA", "no", 1), "setenv");
	struct vt_peer p = vt_fork();
	memset(large, 1, sizeof(large));
	struct vt t = vt_open();
	struct ibv_cq *cq = vt_cq(&t, 16, NULL);
	struct ibv_qp *qp = vt_qp(&t, IBV_QPT_RC, cq, NULL);
	struct ibv_mr *mr = vt_mr(&t, memory, sizeof(memory), VT_ACCESS);
	struct place mine = {(uintptr_t)memory[1], mr->rkey, qp->qp_num}, there;
	vt_tell(&p, &mine, sizeof(mine));
	vt_hear(&p, &there, sizeof(there));
	vt_connect(qp, there.qpn);
	vt_meet(&p);
	for (int i = 1; i < 20; i++) {
		memset(memory[0], p.child ? i : -i, sizeof(memory[0]));
		CHECK(!vt_rdma(qp, IBV_WR_RDMA_WRITE, 1, vt_sge(mr, 0, 4096), there.addr, there.rkey), "WRITE");
		vt_expect(cq, 1, IBV_WC_SUCCESS);
		vt_meet(&p);
		for (int k = 0; k < 4096; k++)
			CHECK(memory[1][k] == (char)(p.child ? -i : i), "write %d: byte %d: %d", i, k, memory[1][k]);
		vt_meet(&p);
	}
	CHECK(!vt_recv(qp, 2, vt_sge(mr, 0, 8)), "receive");
	if (!p.child)
		raise(SIGKILL);
	int status;
	CHECK(waitpid(p.child, &status, 0) == p.child && WIFSIGNALED(status), "status %#x", status);
	vt_expect(cq, 2, IBV_WC_WR_FLUSH_ERR);
	CHECK(!ibv_destroy_qp(qp) && !ibv_destroy_cq(cq) && !ibv_dereg_mr(mr), "destroy");
	vt_close(&t);
	return 0;
}
