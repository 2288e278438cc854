/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A thread that polls a completion with an error finds the queue in ERR: right behind the instruction that makes the completion
 * visible, another thread polls the completion and queries the queue's state.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rig.h"

static struct rig r;
static struct ibv_mr *mr;
static const char *what;

/* The queue that is asked about, where its error appears, and which status that is to have. */
static struct {
	struct ibv_qp *qp;
	struct ibv_cq *cq;
	enum ibv_wc_status status;
	_Atomic bool seen;
} awaited;

static void *look(void *arg)
{
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;
	struct ibv_wc wc;

	(void)arg;
	if (shca_poll_cq(awaited.cq, 1, &wc) != 1)
		return NULL;
	if (wc.status != awaited.status)
		FAIL("%s: %s instead of %s", what, ibv_wc_status_str(wc.status), ibv_wc_status_str(awaited.status));
	CHECK(!shca_query_qp(awaited.qp, &attr, IBV_QP_STATE, &init));
	if (attr.qp_state != IBV_QPS_ERR)
		FAIL("%s: \"%s\" is there, and the queue's state is %d still", what, ibv_wc_status_str(wc.status), attr.qp_state);
	atomic_store(&awaited.seen, true);
	return NULL;
}

void shca_failpoint(struct shca_thread *thr, const char *name, const struct shca_qp *qp, int op)
{
	pthread_t t;

	(void)thr;
	(void)qp;
	(void)op;
	if (!awaited.qp || atomic_load(&awaited.seen) || strcmp(name, "cqe-visible"))
		return;
	CHECK(!pthread_create(&t, NULL, look, NULL) && !pthread_join(t, NULL));
}

struct pair {
	struct ibv_qp *a, *b;
	struct ibv_cq *acq, *brcq;
};

static struct pair connected(uint32_t exp_flags, uint8_t rnr_retry)
{
	struct ibv_cq *rest = rig_cq(&r, 16, NULL);
	struct pair p = {.acq = rig_cq(&r, 16, NULL), .brcq = rig_cq(&r, 16, NULL)};
	struct rig_qp_attr a = {.type = IBV_QPT_RC, .exp_flags = exp_flags, .scq = p.acq, .rcq = rest, .send_wr = 4, .recv_wr = 4,
				.sge = 1, .inl = 64};
	struct rig_qp_attr b = {.type = IBV_QPT_RC, .scq = rest, .rcq = p.brcq, .send_wr = 4, .recv_wr = 4, .sge = 1};
	struct rig_path path = {.timeout = 1, .retry_cnt = 1, .rnr_retry = rnr_retry, .min_rnr_timer = 1};

	p.a = rig_qp(&r, &a);
	p.b = rig_qp(&r, &b);
	rig_init(p.a);
	rig_init(p.b);
	path.dest_qpn = p.b->qp_num;
	rig_rtr(p.a, &path);
	rig_rts(p.a, &path);
	path.dest_qpn = p.a->qp_num;
	rig_rtr(p.b, &path);
	rig_rts(p.b, &path);
	return p;
}

static void await_error(struct ibv_qp *qp, struct ibv_cq *cq, enum ibv_wc_status status)
{
	atomic_store(&awaited.seen, false);
	awaited.status = status;
	awaited.cq = cq;
	awaited.qp = qp;
}

static void seen(void)
{
	for (int i = 0; !atomic_load(&awaited.seen); i++, rig_nap())
		if (i > 10000)
			FAIL("%s: no completion with an error", what);
	awaited.qp = NULL;
	printf("%s\n", what);
}

static void post(struct ibv_qp *qp, enum ibv_exp_wr_opcode op, uint32_t lkey, uint32_t rkey, struct ibv_ah *ah, uint32_t dqpn)
{
	struct ibv_sge sge = {(uintptr_t)mr->addr, ah ? 8192 : 32, lkey};
	struct ibv_exp_send_wr wr = {.wr_id = 1, .sg_list = &sge, .num_sge = 1, .exp_opcode = op}, *bad;

	if (op == IBV_EXP_WR_SEND && ah) {
		wr.wr.ud.ah = ah;
		wr.wr.ud.remote_qpn = dqpn;
		wr.wr.ud.remote_qkey = RIG_QKEY;
	} else if (op != IBV_EXP_WR_SEND) {
		wr.wr.rdma.remote_addr = (uintptr_t)mr->addr;
		wr.wr.rdma.rkey = rkey;
	}
	CHECK(!shca_exp_post_send(qp, &wr, &bad));
}

static void receive(struct ibv_qp *qp, uint32_t bytes)
{
	struct ibv_sge sge = {(uintptr_t)mr->addr, bytes, mr->lkey};
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;

	CHECK(!shca_post_recv(qp, &wr, &bad));
}

static void refused(const char *name, uint32_t flags)
{
	struct pair p = connected(flags, 7);

	what = name;
	await_error(p.a, p.acq, IBV_WC_REM_ACCESS_ERR);
	post(p.a, IBV_EXP_WR_RDMA_WRITE, mr->lkey, 0xdeadbe00, NULL, 0);
	seen();
}

static void own_memory(const char *name, uint32_t flags)
{
	struct pair p = connected(flags, 7);

	what = name;
	receive(p.b, 32);
	await_error(p.a, p.acq, IBV_WC_LOC_PROT_ERR);
	post(p.a, IBV_EXP_WR_SEND, 0xdeadbe00, 0, NULL, 0);
	seen();
}

static void responders(const char *name, uint32_t flags)
{
	struct pair p = connected(flags, 7);

	what = name;
	receive(p.b, 16);
	await_error(p.b, p.brcq, IBV_WC_LOC_LEN_ERR);
	post(p.a, IBV_EXP_WR_SEND, mr->lkey, 0, NULL, 0);
	seen();
}

/* The timer runs out in the helper thread. */
static void retries(void)
{
	struct pair p = connected(0, 1);

	what = "no receive";
	await_error(p.a, p.acq, IBV_WC_RNR_RETRY_EXC_ERR);
	post(p.a, IBV_EXP_WR_SEND, mr->lkey, 0, NULL, 0);
	seen();
	p = connected(0, 1);
	what = "no responder";
	CHECK(!shca_destroy_qp(p.b));
	await_error(p.a, p.acq, IBV_WC_RETRY_EXC_ERR);
	post(p.a, IBV_EXP_WR_SEND, mr->lkey, 0, NULL, 0);
	seen();
}

static void datagram(void)
{
	struct ibv_cq *cq = rig_cq(&r, 16, NULL);
	struct rig_qp_attr a = {.type = IBV_QPT_UD, .scq = cq, .rcq = cq, .send_wr = 4, .recv_wr = 4, .sge = 1};
	struct ibv_ah_attr aa = {.dlid = SHCA_LID, .port_num = 1};
	struct ibv_ah *ah = shca_create_ah(r.pd, &aa);
	struct ibv_qp *qp = rig_qp(&r, &a);

	CHECK(ah);
	rig_init(qp);
	rig_rtr(qp, &(struct rig_path){0});
	rig_rts(qp, &(struct rig_path){0});
	what = "a datagram longer than the MTU";
	await_error(qp, cq, IBV_WC_LOC_LEN_ERR);
	post(qp, IBV_EXP_WR_SEND, mr->lkey, 0, ah, qp->qp_num);
	seen();
	CHECK(!shca_destroy_ah(ah));
}

int main(void)
{
	rig_virtual(&r, NULL);
	char *p = shca_buf_alloc(r.ctx, 8192);
	CHECK(p);
	mr = shca_reg_mr(r.pd, p, 8192, (uintptr_t)p, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	CHECK(mr);
	refused("refused by the responder", 0);
	refused("refused by the responder, cross-channel", IBV_EXP_QP_CREATE_CROSS_CHANNEL);
	own_memory("own memory", 0);
	own_memory("own memory, cross-channel", IBV_EXP_QP_CREATE_CROSS_CHANNEL);
	responders("a receive too short", 0);
	responders("a receive too short, cross-channel", IBV_EXP_QP_CREATE_CROSS_CHANNEL);
	retries();
	datagram();
	return 0;
}
