/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fabric_256 [PROCESSES]: so many processes in one fabric, 256 unless said. Each has an RC queue to its right neighbour and one
 * to its left one, and a UD queue; a word goes round the ring, each process sends a datagram to a process far away, and reads
 * the memory of another one. The processes leave in any order.
 */
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "vt.h"

enum { MOST = 1024 };
struct shared {
	_Atomic uint32_t here[8];	/* processes that have come to each step */
	uint32_t right[MOST], left[MOST], ud[MOST];
	uint64_t addr[MOST];
	uint32_t rkey[MOST];
};

static struct shared *all;
static uint32_t processes = 256;

/* Waits until all processes have come to the step. */
static void together(int step)
{
	atomic_fetch_add(&all->here[step], 1);
	while (atomic_load(&all->here[step]) < processes)
		usleep(1000);
}

static void member(uint32_t me)
{
	uint64_t mem[8] = {0};
	uint32_t next = (me + 1) % processes, before = (me + processes - 1) % processes, far = (me + processes / 2) % processes;
	struct vt t = vt_open();
	struct ibv_cq *cq = vt_cq(&t, 64, NULL), *ucq = vt_cq(&t, 64, NULL);
	struct ibv_qp *right = vt_qp(&t, IBV_QPT_RC, cq, NULL), *left = vt_qp(&t, IBV_QPT_RC, cq, NULL),
		      *ud = vt_qp(&t, IBV_QPT_UD, ucq, NULL);
	char gram[48];
	struct ibv_mr *mr = vt_mr(&t, mem, sizeof(mem), VT_ACCESS), *umr = vt_mr(&t, gram, sizeof(gram), VT_ACCESS);

	all->right[me] = right->qp_num;
	all->left[me] = left->qp_num;
	all->ud[me] = ud->qp_num;
	all->addr[me] = (uintptr_t)&mem[2];
	all->rkey[me] = mr->rkey;
	mem[2] = 1000 + me;
	CHECK(!vt_init(ud) && !vt_to(ud, IBV_QPS_RTR), "UD");
	struct ibv_qp_attr rts = {.qp_state = IBV_QPS_RTS};
	CHECK(!ibv_modify_qp(ud, &rts, IBV_QP_STATE | IBV_QP_SQ_PSN), "UD to RTS");
	CHECK(!vt_recv(ud, 7, vt_sge(umr, 0, sizeof(gram))), "post");
	together(0);
	vt_connect(right, all->left[next]);
	vt_connect(left, all->right[before]);
	CHECK(!vt_recv(left, 1, vt_sge(mr, 0, 8)), "post");
	together(1);
	/* round the ring: process 0 begins */
	if (me) {
		vt_expect(cq, 1, IBV_WC_SUCCESS);
		CHECK(mem[0] == me, "the word is %llu", (unsigned long long)mem[0]);
	}
	mem[1] = me + 1;
	CHECK(!vt_send(right, 2, vt_sge(mr, 8, 8), IBV_SEND_SIGNALED), "post");
	vt_expect(cq, 2, IBV_WC_SUCCESS);
	if (!me) {
		vt_expect(cq, 1, IBV_WC_SUCCESS);
		CHECK(mem[0] == processes, "the word is %llu", (unsigned long long)mem[0]);
	}
	CHECK(!vt_rdma(right, IBV_WR_RDMA_READ, 3, vt_sge(mr, 24, 8), all->addr[next], all->rkey[next]), "post");
	vt_expect(cq, 3, IBV_WC_SUCCESS);
	CHECK(mem[3] == 1000 + next, "read %llu", (unsigned long long)mem[3]);
	struct ibv_port_attr port;
	CHECK(!ibv_query_port(t.ctx, 1, &port), "ibv_query_port");
	struct ibv_ah_attr a = {.dlid = port.lid, .port_num = 1};
	struct ibv_ah *ah = ibv_create_ah(t.pd, &a);
	CHECK(ah, "ibv_create_ah");
	struct ibv_sge sge = vt_sge(mr, 16, 8);
	struct ibv_send_wr wr = {.wr_id = 4, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND,
				 .send_flags = IBV_SEND_SIGNALED, .wr.ud = {ah, all->ud[far], VT_QKEY}}, *bad;
	CHECK(!ibv_post_send(ud, &wr, &bad), "post");
	for (int i = 0; i < 2; i++) {
		struct ibv_wc wc = vt_wait(ucq);
		CHECK(wc.status == IBV_WC_SUCCESS && (wc.wr_id == 4 || wc.wr_id == 7), "datagram: status %d", wc.status);
	}
	uint64_t word;
	memcpy(&word, gram + 40, 8);
	CHECK(word == 1000 + (me + processes - processes / 2) % processes, "datagram %llu", (unsigned long long)word);
	together(2);
	/* half of the processes destroy their objects, the rest exit without that */
	if (me % 2)
		return;
	ibv_destroy_ah(ah);
	ibv_destroy_qp(right);
	ibv_destroy_qp(left);
	ibv_destroy_qp(ud);
	ibv_destroy_cq(cq);
	ibv_destroy_cq(ucq);
	ibv_dereg_mr(mr);
	ibv_dereg_mr(umr);
	vt_close(&t);
}

int main(int argc, char **argv)
{
	static pid_t child[MOST];
	int failed = 0, status;

	if (argc > 1)
		processes = (uint32_t)atoi(argv[1]);
	CHECK(processes > 1 && processes <= MOST, "fabric_256 [2 to %d]", MOST);
	vt_fabric();
	all = mmap(NULL, sizeof(*all), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(all != MAP_FAILED, "mmap");
	for (uint32_t i = 0; i < processes; i++) {
		child[i] = fork();
		CHECK(child[i] >= 0, "fork");
		if (!child[i]) {
			member(i);
			_exit(0);
		}
	}
	for (uint32_t i = 0; i < processes; i++) {
		pid_t ended = wait(&status);
		CHECK(ended > 0, "wait");
		/* the other processes wait for the one that failed */
		for (uint32_t k = 0; k < processes; k++) {
			if (child[k] == ended)
				child[k] = 0;
			else if (child[k] && status && !failed)
				kill(child[k], SIGTERM);
		}
		failed |= status;
	}
	return failed ? 1 : 0;
}
