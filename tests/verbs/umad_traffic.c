/* SPDX-License-Identifier: BSD-3-Clause */
/* umad_traffic READY END: for tests/verbs/umad.sh. A queue in a multicast group, which has sent some messages to itself; makes
 * the file READY and waits for END. */
#include <fcntl.h>

#include "vt.h"

int main(int argc, char **argv)
{
	static char mem[64];
	union ibv_gid g = {.raw = {0xff, 0x12, 0xa0, 0x1b, [15] = 0x77}};

	CHECK(argc == 3, "umad_traffic READY END");
	struct vt t = vt_open();
	struct ibv_cq *cq = vt_cq(&t, 64, NULL);
	struct ibv_qp *ud = vt_qp(&t, IBV_QPT_UD, cq, NULL), *rc = vt_qp(&t, IBV_QPT_RC, cq, NULL);
	struct ibv_mr *mr = vt_mr(&t, mem, sizeof(mem), VT_ACCESS);

	CHECK(!ibv_attach_mcast(ud, &g, 0xc001), "ibv_attach_mcast");
	vt_connect(rc, rc->qp_num);
	for (uint64_t i = 0; i < 10; i++) {
		CHECK(!vt_recv(rc, i, vt_sge(mr, 32, 32)) && !vt_send(rc, 100, vt_sge(mr, 0, 32), IBV_SEND_SIGNALED), "post");
		vt_wait(cq);
		vt_wait(cq);
	}
	close(open(argv[1], O_CREAT | O_WRONLY, 0600));
	while (access(argv[2], F_OK))
		usleep(20000);
	CHECK(!ibv_detach_mcast(ud, &g, 0xc001) && !ibv_destroy_qp(ud), "the datagram queue");
	ibv_destroy_qp(rc);
	ibv_dereg_mr(mr);
	ibv_destroy_cq(cq);
	vt_close(&t);
	return 0;
}
