/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Objects come and go under traffic: while two threads of the parent write and send to the child's queues, the child's
 * two threads break, reset and destroy these queues, and deregister the memory that is being written. Every status must
 * be one that such an event explains, and memory that was deregistered must not change any more.
 */
#include <pthread.h>

#include "vt.h"

#define ROUNDS 1000
#define THREADS 2
#define BYTES 65536

struct offer {
	uint32_t qpn, rkey;
	uint64_t addr;
};
struct lane {			/* of one thread and its counterpart */
	struct vt *t;
	struct vt_peer peer;
	bool arena;
	unsigned seed;
};

static bool explained(enum ibv_wc_status s)
{
	switch (s) {
	case IBV_WC_SUCCESS:
	case IBV_WC_WR_FLUSH_ERR:
	case IBV_WC_RETRY_EXC_ERR:
	case IBV_WC_REM_ACCESS_ERR:
	case IBV_WC_REM_OP_ERR:
	case IBV_WC_REM_INV_REQ_ERR:
	case IBV_WC_RNR_RETRY_EXC_ERR:
		return true;
	default:
		return false;
	}
}

static void *attacker(void *arg)
{
	struct lane *l = arg;
	struct ibv_cq *cq = vt_cq(l->t, 256, NULL);
	char *mem = l->arena ? shca_alloc(l->t->ctx, BYTES) : calloc(1, BYTES);
	CHECK(mem, "memory");
	memset(mem, 'a', BYTES);
	struct ibv_mr *mr = vt_mr(l->t, mem, BYTES, VT_ACCESS);

	for (int round = 0; round < ROUNDS; round++) {
		struct ibv_qp *qp = vt_qp(l->t, IBV_QPT_RC, cq, NULL);
		struct offer o;
		uint32_t qpn = qp->qp_num;
		vt_tell(&l->peer, &qpn, sizeof qpn);
		vt_hear(&l->peer, &o, sizeof o);
		struct ibv_qp_attr rts = vt_rts_attr();
		rts.timeout = 1;
		rts.retry_cnt = 1;
		rts.rnr_retry = 1;
		CHECK(!vt_init(qp), "init");
		vt_rtr_rts(qp, o.qpn, rts);
		int outstanding = 0, err = 0;
		for (int n = 0; n < 40 && !err; n++) {
			err = n % 3 ? vt_rdma(qp, IBV_WR_RDMA_WRITE, 1, vt_sge(mr, 0, BYTES >> (n % 5)), o.addr, o.rkey)
				    : vt_send(qp, 1, vt_sge(mr, 0, 64), IBV_SEND_SIGNALED);
			CHECK(!err || err == ENOMEM, "post: %d", err);
			outstanding += !err;
		}
		while (outstanding--) {
			struct ibv_wc wc = vt_wait(cq);
			CHECK(explained(wc.status), "status %s", ibv_wc_status_str(wc.status));
		}
		CHECK(!ibv_destroy_qp(qp), "destroy");
		vt_none(cq);
		vt_meet(&l->peer);
	}
	CHECK(!ibv_dereg_mr(mr) && !ibv_destroy_cq(cq), "destroy");
	if (l->arena)
		CHECK(!shca_free(l->t->ctx, mem), "shca_free");
	else
		free(mem);
	return NULL;
}

static void *victim(void *arg)
{
	struct lane *l = arg;
	struct ibv_cq *cq = vt_cq(l->t, 1024, NULL);
	char *mem = l->arena ? shca_alloc(l->t->ctx, BYTES) : calloc(1, BYTES);
	CHECK(mem, "memory");

	for (int round = 0; round < ROUNDS; round++) {
		struct ibv_qp *qp = vt_qp(l->t, IBV_QPT_RC, cq, NULL);
		struct ibv_mr *mr = vt_mr(l->t, mem, BYTES, VT_ACCESS);
		struct offer o = { .qpn = qp->qp_num, .rkey = mr->rkey, .addr = (uintptr_t)mem };
		uint32_t qpn;
		memset(mem, 0, BYTES);
		vt_hear(&l->peer, &qpn, sizeof qpn);
		vt_connect(qp, qpn);
		for (int n = 0; n < 8; n++)
			CHECK(!vt_recv(qp, 2, vt_sge(mr, 1024, 64)), "recv");
		vt_tell(&l->peer, &o, sizeof o);
		for (unsigned spin = rand_r(&l->seed) % 20000; spin; spin--)
			__asm__ volatile("");
		switch (rand_r(&l->seed) % 4) {
		case 0:
			CHECK(!ibv_dereg_mr(mr), "dereg");
			mr = NULL;
			/* no peer writes here any more: receives were posted into it, too */
			memset(mem, 'v', BYTES);
			for (int i = 0; i < 20; i++)
				sched_yield();
			for (int i = 0; i < BYTES; i++)
				CHECK(mem[i] == 'v', "byte %d was written after deregistration", i);
			break;
		case 1:
			CHECK(!vt_to(qp, IBV_QPS_ERR), "to ERR");
			break;
		case 2:
			CHECK(!vt_to(qp, IBV_QPS_RESET), "to RESET");
			vt_none(cq);
			break;
		default:
			break;
		}
		CHECK(!ibv_destroy_qp(qp), "destroy QP");
		vt_none(cq);
		CHECK(!mr || !ibv_dereg_mr(mr), "dereg");
		vt_meet(&l->peer);
	}
	CHECK(!ibv_destroy_cq(cq), "destroy");
	if (l->arena)
		CHECK(!shca_free(l->t->ctx, mem), "shca_free");
	else
		free(mem);
	return NULL;
}

int main(void)
{
	int up[THREADS][2], down[THREADS][2];
#ifdef __SANITIZE_THREAD__
	/* memory of the fabric passes from thread to thread by way of the other process, out of the sanitizer's
	 * sight */
	return 77;
#endif
	vt_fabric();
	for (int i = 0; i < THREADS; i++)
		CHECK(!pipe(up[i]) && !pipe(down[i]), "pipe");
	struct vt_peer family = vt_fork();
	struct vt t = vt_open();
	struct lane lanes[THREADS];
	pthread_t th[THREADS];
	for (int i = 0; i < THREADS; i++) {
		bool parent = family.child != 0;
		lanes[i] = (struct lane){ .t = &t, .arena = i % 2, .seed = (unsigned)i + 1,
					  .peer.fd = { parent ? up[i][0] : down[i][0],
							parent ? down[i][1] : up[i][1] } };
		close(parent ? up[i][1] : down[i][1]);	/* so that the end of either side is seen by the other */
		close(parent ? down[i][0] : up[i][0]);
		CHECK(!pthread_create(&th[i], NULL, parent ? attacker : victim, &lanes[i]), "thread");
	}
	for (int i = 0; i < THREADS; i++)
		pthread_join(th[i], NULL);
	vt_close(&t);
	return vt_join(&family);
}
