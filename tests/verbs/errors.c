/* SPDX-License-Identifier: BSD-3-Clause */
/* Errors and their reports: statuses of requester and responder, flushes, refusals (manual, chapter
 * 6). */
#include <infiniband/verbs_exp.h>

#include "vt.h"

static char *mem;
static struct ibv_mr *mr;
static struct ibv_cq *scq, *rcq;

struct pair {
	struct ibv_qp *a, *b;
};

static struct ibv_qp *make(struct vt *t)
{
	struct ibv_qp_init_attr i = {
		.send_cq = scq, .recv_cq = rcq, .qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 2, .max_recv_sge = 2 },
	};
	struct ibv_qp *qp = ibv_create_qp(t->pd, &i);
	CHECK(qp, "create");
	return qp;
}

static struct pair connect_with(struct vt *t, unsigned int access, uint8_t rnr_retry)
{
	struct pair p = { make(t), make(t) };
	struct ibv_qp_attr rts = vt_rts_attr();
	rts.rnr_retry = rnr_retry;
	CHECK(!vt_init_access(p.a, access) && !vt_init_access(p.b, access), "init");
	vt_rtr_rts(p.a, p.b->qp_num, rts);
	vt_rtr_rts(p.b, p.a->qp_num, rts);
	return p;
}

static void end(struct pair p)
{
	CHECK(!ibv_destroy_qp(p.a), "destroy");
	CHECK(!ibv_destroy_qp(p.b), "destroy");
	vt_none(scq);
	vt_none(rcq);
}

/* After a failed request the queue is in error and later requests are flushed. */
static void follows(struct pair p)
{
	CHECK(vt_state(p.a) == IBV_QPS_ERR, "state %d", vt_state(p.a));
	CHECK(!vt_send(p.a, 99, vt_sge(mr, 0, 8), 0), "send after error");
	vt_expect(scq, 99, IBV_WC_WR_FLUSH_ERR);
}

static void bad_lkey(struct vt *t)
{
	struct pair p = connect_with(t, VT_ACCESS, 7);
	struct ibv_sge s = vt_sge(mr, 0, 8);
	CHECK(!vt_recv(p.b, 1, s), "recv");
	s.lkey ^= 0x5500;
	CHECK(!vt_send(p.a, 2, s, 0), "send");
	vt_expect(scq, 2, IBV_WC_LOC_PROT_ERR);
	follows(p);
	end(p);

	p = connect_with(t, VT_ACCESS, 7);
	s = vt_sge(mr, 4090, 100);	/* beyond the region's end */
	CHECK(!vt_send(p.a, 3, s, 0), "send");
	vt_expect(scq, 3, IBV_WC_LOC_PROT_ERR);
	follows(p);
	end(p);
}

static void remote_access(struct vt *t, enum ibv_wr_opcode op, unsigned int mr_access, unsigned int qp_access,
		int64_t offset,
			  uint32_t key_xor, enum ibv_wc_status expected)
{
	struct pair p = connect_with(t, qp_access, 7);
	struct ibv_mr *target = vt_mr(t, mem + 2048, 1024, mr_access);
	memset(mem + 2048, 'x', 1024);
	CHECK(!vt_rdma(p.a, op, 7, vt_sge(mr, 0, 64), (uintptr_t)target->addr + (uint64_t)offset,
			target->rkey ^ key_xor), "post");
	vt_expect(scq, 7, expected);
	if (expected != IBV_WC_SUCCESS) {
		for (int i = 0; i < 1024; i++)
			CHECK(mem[2048 + i] == 'x', "byte %d of the target was written", i);
		follows(p);
	}
	CHECK(!ibv_dereg_mr(target), "dereg");
	end(p);
}

static void remote_accesses(struct vt *t)
{
	const unsigned int lw = IBV_ACCESS_LOCAL_WRITE, rw = lw | IBV_ACCESS_REMOTE_WRITE, rr = IBV_ACCESS_REMOTE_READ;
	remote_access(t, IBV_WR_RDMA_WRITE, rw, VT_ACCESS, 0, 0, IBV_WC_SUCCESS);
	remote_access(t, IBV_WR_RDMA_WRITE, rw, VT_ACCESS, 960, 0, IBV_WC_SUCCESS);
	remote_access(t, IBV_WR_RDMA_WRITE, rw, VT_ACCESS, 961, 0, IBV_WC_REM_ACCESS_ERR);
	remote_access(t, IBV_WR_RDMA_WRITE, rw, VT_ACCESS, -1, 0, IBV_WC_REM_ACCESS_ERR);
	remote_access(t, IBV_WR_RDMA_WRITE, rw, VT_ACCESS, 0, 0x7700, IBV_WC_REM_ACCESS_ERR);
	remote_access(t, IBV_WR_RDMA_WRITE, rw, VT_ACCESS, 0, 0x1, IBV_WC_REM_ACCESS_ERR);
	remote_access(t, IBV_WR_RDMA_WRITE, lw | rr, VT_ACCESS, 0, 0, IBV_WC_REM_ACCESS_ERR);
	remote_access(t, IBV_WR_RDMA_READ, rw, VT_ACCESS, 0, 0, IBV_WC_REM_ACCESS_ERR);
	remote_access(t, IBV_WR_RDMA_READ, rr, VT_ACCESS, 0, 0, IBV_WC_SUCCESS);
	/* the queue's own rights count as well */
	remote_access(t, IBV_WR_RDMA_WRITE, rw, IBV_ACCESS_REMOTE_READ, 0, 0, IBV_WC_REM_ACCESS_ERR);
}

static void other_domain(struct vt *t)
{
	struct pair p = connect_with(t, VT_ACCESS, 7);
	struct ibv_pd *pd = ibv_alloc_pd(t->ctx);
	CHECK(pd, "pd");
	struct ibv_mr *foreign = ibv_reg_mr(pd, mem, 4096, VT_ACCESS);
	CHECK(foreign, "reg");
	CHECK(!vt_rdma(p.a, IBV_WR_RDMA_WRITE, 1, vt_sge(mr, 0, 8), (uintptr_t)mem, foreign->rkey), "post");
	vt_expect(scq, 1, IBV_WC_REM_ACCESS_ERR);
	end(p);
	p = connect_with(t, VT_ACCESS, 7);
	CHECK(!vt_rdma(p.a, IBV_WR_RDMA_WRITE, 2, vt_sge(foreign, 0, 8), (uintptr_t)mem, mr->rkey), "post");
	vt_expect(scq, 2, IBV_WC_LOC_PROT_ERR);
	end(p);
	CHECK(ibv_dealloc_pd(pd) == EBUSY, "a region is left");
	CHECK(!ibv_dereg_mr(foreign) && !ibv_dealloc_pd(pd), "dereg");
}

static void deregistered(struct vt *t)
{
	struct pair p = connect_with(t, VT_ACCESS, 7);
	struct ibv_mr *gone = vt_mr(t, mem, 4096, VT_ACCESS);
	uint32_t rkey = gone->rkey;
	CHECK(!ibv_dereg_mr(gone), "dereg");
	CHECK(!vt_rdma(p.a, IBV_WR_RDMA_WRITE, 1, vt_sge(mr, 0, 8), (uintptr_t)mem, rkey), "post");
	vt_expect(scq, 1, IBV_WC_REM_ACCESS_ERR);
	follows(p);
	end(p);
}

static void atomics(struct vt *t)
{
	struct pair p = connect_with(t, VT_ACCESS, 7);
	struct ibv_sge s = vt_sge(mr, 0, 8);
	struct ibv_send_wr wr = { .wr_id = 1, .sg_list = &s, .num_sge = 1, .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
				  .wr.atomic = { .remote_addr = (uintptr_t)mem + 1025, .rkey = mr->rkey,
						.compare_add = 1 } }, *bad;
	CHECK(!ibv_post_send(p.a, &wr, &bad), "post");
	vt_expect(scq, 1, IBV_WC_REM_INV_REQ_ERR);	/* not aligned */
	follows(p);
	end(p);
}

/* A message longer than the receive, from both sides. */
static void too_long(struct vt *t)
{
	struct pair p = connect_with(t, VT_ACCESS, 7);
	CHECK(!vt_recv(p.b, 1, vt_sge(mr, 0, 8)) && !vt_recv(p.b, 2, vt_sge(mr, 0, 8)), "recv");
	CHECK(!vt_send(p.a, 3, vt_sge(mr, 64, 9), 0), "send");
	vt_expect(rcq, 1, IBV_WC_LOC_LEN_ERR);
	vt_expect(scq, 3, IBV_WC_REM_INV_REQ_ERR);
	vt_expect(rcq, 2, IBV_WC_WR_FLUSH_ERR);
	CHECK(vt_state(p.b) == IBV_QPS_ERR, "the responder is in error");
	follows(p);
	end(p);
}

/* A receive with a wrong key is posted, and fails the message that lands in it. */
static void bad_receive(struct vt *t)
{
	struct pair p = connect_with(t, VT_ACCESS, 7);
	struct ibv_sge s = vt_sge(mr, 0, 8);
	s.lkey ^= 0x5500;
	CHECK(!vt_recv(p.b, 1, s), "recv");
	CHECK(!vt_send(p.a, 2, vt_sge(mr, 64, 8), 0), "send");
	vt_expect(rcq, 1, IBV_WC_LOC_PROT_ERR);
	vt_expect(scq, 2, IBV_WC_REM_OP_ERR);
	CHECK(vt_state(p.b) == IBV_QPS_ERR, "the responder is in error");
	follows(p);
	end(p);

	/* or when its region is gone by the time that the message comes; other queues go on */
	for (int other = 0; other < 2; other++) {
		p = connect_with(t, VT_ACCESS, 7);
		struct ibv_mr *gone = vt_mr(t, mem + 1024, 64, VT_ACCESS), *same = vt_mr(t, mem + 1024, 64, VT_ACCESS);
		CHECK(!vt_recv(p.b, 1, vt_sge(other ? same : gone, 0, 64)), "recv");
		CHECK(!ibv_dereg_mr(gone), "dereg");
		CHECK(!vt_send(p.a, 2, vt_sge(mr, 0, 8), IBV_SEND_SIGNALED), "send");
		vt_expect(rcq, 1, other ? IBV_WC_SUCCESS : IBV_WC_LOC_PROT_ERR);
		vt_expect(scq, 2, other ? IBV_WC_SUCCESS : IBV_WC_REM_OP_ERR);
		CHECK(!ibv_dereg_mr(same), "dereg");
		end(p);
	}
}

static void rnr(struct vt *t)
{
	for (uint8_t retries = 0; retries < 3; retries++) {
		struct pair p = connect_with(t, VT_ACCESS, retries);
		CHECK(!vt_send(p.a, 1, vt_sge(mr, 0, 8), 0) && !vt_send(p.a, 2, vt_sge(mr, 0, 8), 0), "send");
		vt_expect(scq, 1, IBV_WC_RNR_RETRY_EXC_ERR);
		vt_expect(scq, 2, IBV_WC_WR_FLUSH_ERR);
		end(p);
	}
	/* 7: for ever; a receive that comes late is found */
	struct pair p = connect_with(t, VT_ACCESS, 7);
	CHECK(!vt_send(p.a, 1, vt_sge(mr, 0, 8), IBV_SEND_SIGNALED), "send");
	struct timespec ts = { .tv_nsec = 20000000 };
	nanosleep(&ts, NULL);
	vt_none(scq);
	CHECK(!vt_recv(p.b, 2, vt_sge(mr, 512, 8)), "recv");
	vt_expect(rcq, 2, IBV_WC_SUCCESS);
	vt_expect(scq, 1, IBV_WC_SUCCESS);
	end(p);
}

static void nobody_there(struct vt *t)
{
	/* the peer never existed */
	struct ibv_qp *a = make(t);
	CHECK(!vt_init(a), "init");
	vt_rtr_rts(a, 0xfffff0, vt_rts_attr());
	CHECK(!vt_send(a, 1, vt_sge(mr, 0, 8), 0), "send");
	vt_expect(scq, 1, IBV_WC_RETRY_EXC_ERR);
	CHECK(!ibv_destroy_qp(a), "destroy");
	/* it was destroyed */
	struct pair p = connect_with(t, VT_ACCESS, 7);
	CHECK(!ibv_destroy_qp(p.b), "destroy");
	CHECK(!vt_send(p.a, 2, vt_sge(mr, 0, 8), 0), "send");
	vt_expect(scq, 2, IBV_WC_RETRY_EXC_ERR);
	CHECK(!ibv_destroy_qp(p.a), "destroy");
	/* it went into error */
	p = connect_with(t, VT_ACCESS, 7);
	CHECK(!vt_to(p.b, IBV_QPS_ERR), "to ERR");
	CHECK(!vt_send(p.a, 3, vt_sge(mr, 0, 8), 0), "send");
	vt_expect(scq, 3, IBV_WC_RETRY_EXC_ERR);
	end(p);
	/* the address is no port of ours */
	a = make(t);
	struct ibv_qp *b = make(t);
	CHECK(!vt_init(a), "init");
	vt_connect(b, a->qp_num);
	CHECK(!vt_recv(b, 5, vt_sge(mr, 0, 8)), "recv");
	struct ibv_qp_attr rtr = vt_rtr_attr(b->qp_num), rts = vt_rts_attr();
	rtr.ah_attr.dlid = 77;
	CHECK(!ibv_modify_qp(a, &rtr, VT_RTR_RC) && !ibv_modify_qp(a, &rts, VT_RTS_RC), "modify");
	CHECK(!vt_send(a, 4, vt_sge(mr, 0, 8), 0), "send");
	vt_expect(scq, 4, IBV_WC_RETRY_EXC_ERR);
	vt_none(rcq);
	CHECK(!ibv_destroy_qp(a) && !ibv_destroy_qp(b), "destroy");
}

static void datagrams(struct vt *t)
{
	struct ibv_qp *a = vt_qp(t, IBV_QPT_UD, scq, NULL), *b = vt_qp(t, IBV_QPT_UD, rcq, NULL);
	struct ibv_ah_attr good = { .dlid = 1, .port_num = 1 }, far = { .dlid = 9, .port_num = 1 },
			port = { .dlid = 1, .port_num = 3 };
	CHECK(!ibv_create_ah(t->pd, &port) && errno == EINVAL, "an address on port 3");
	struct ibv_ah *ah = ibv_create_ah(t->pd, &good), *nowhere = ibv_create_ah(t->pd, &far);
	CHECK(ah && nowhere, "create_ah");
	vt_connect(a, 0);
	vt_connect(b, 0);
	struct ibv_sge s = vt_sge(mr, 0, 8), big = vt_sge(mr, 0, 4096);
	struct ibv_send_wr wr = { .wr_id = 1, .sg_list = &s, .num_sge = 1, .opcode = IBV_WR_SEND,
			.send_flags = IBV_SEND_SIGNALED,
				  .wr.ud = { .ah = ah, .remote_qpn = b->qp_num, .remote_qkey = VT_QKEY } }, *bad;
	CHECK(!vt_recv(b, 2, vt_sge(mr, 1024, 48)) && !vt_recv(b, 3, vt_sge(mr, 1024, 48)), "recv");
	CHECK(!ibv_post_send(a, &wr, &bad), "send");
	vt_expect(scq, 1, IBV_WC_SUCCESS);
	struct ibv_wc wc = vt_expect(rcq, 2, IBV_WC_SUCCESS);
	CHECK(wc.byte_len == 48 && wc.src_qp == a->qp_num && wc.qp_num == b->qp_num && wc.slid == 1,
			"byte_len %u src_qp %#x",
	      wc.byte_len, wc.src_qp);
	/* a wrong key, number or address is lost without a word */
	wr.wr.ud.remote_qkey = VT_QKEY + 1;
	CHECK(!ibv_post_send(a, &wr, &bad), "send");
	vt_expect(scq, 1, IBV_WC_SUCCESS);
	wr.wr.ud.remote_qkey = VT_QKEY;
	wr.wr.ud.remote_qpn = 0xfffff0;
	CHECK(!ibv_post_send(a, &wr, &bad), "send");
	vt_expect(scq, 1, IBV_WC_SUCCESS);
	wr.wr.ud.remote_qpn = b->qp_num;
	wr.wr.ud.ah = nowhere;
	CHECK(!ibv_post_send(a, &wr, &bad), "send");
	vt_expect(scq, 1, IBV_WC_SUCCESS);
	vt_none(rcq);
	/* longer than the MTU: 4096 is the most that fits, and no receive here is that long */
	wr.wr.ud.ah = ah;
	wr.sg_list = &big;
	CHECK(!ibv_post_send(a, &wr, &bad), "send");
	vt_expect(scq, 1, IBV_WC_SUCCESS);
	wr.opcode = IBV_WR_RDMA_WRITE;
	CHECK(ibv_post_send(a, &wr, &bad) == EINVAL && bad == &wr, "RDMA on UD");
	CHECK(!ibv_destroy_qp(a) && !ibv_destroy_qp(b) && !ibv_destroy_ah(ah) && !ibv_destroy_ah(nowhere), "destroy");
	struct ibv_wc drop[4];
	ibv_poll_cq(rcq, 4, drop);
}

static void registering(struct vt *t)
{
	CHECK(!ibv_reg_mr(t->pd, mem, 4096, IBV_ACCESS_REMOTE_WRITE) && errno == EINVAL, "remote write without local");
	CHECK(!ibv_reg_mr(t->pd, mem, 4096, IBV_ACCESS_REMOTE_ATOMIC) && errno == EINVAL, "atomic without local");
	CHECK(!ibv_reg_mr(t->pd, (void *)4096, 4096, IBV_ACCESS_LOCAL_WRITE) && errno == EFAULT,
			"memory that is not there");
	CHECK(!ibv_reg_mr(t->pd, mem, SIZE_MAX, IBV_ACCESS_LOCAL_WRITE), "beyond the address space");
	CHECK(!ibv_reg_mr(t->pd, mem, 4096, IBV_ACCESS_LOCAL_WRITE | 1 << 15) && errno == EINVAL, "unknown flag");
	struct ibv_mr *m = vt_mr(t, mem, 4096, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_RELAXED_ORDERING);
	CHECK(ibv_rereg_mr(m, 1 << 9, NULL, NULL, 0, 0) == IBV_REREG_MR_ERR_INPUT && errno == EINVAL, "rereg");
	CHECK(!ibv_rereg_mr(m, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, VT_ACCESS), "rereg");
	CHECK(!ibv_dereg_mr(m), "dereg");
}

static void space(struct vt *t)
{
	struct pair p = connect_with(t, VT_ACCESS, 7);
	struct ibv_qp_attr q;
	struct ibv_qp_init_attr i;
	CHECK(!ibv_query_qp(p.a, &q, IBV_QP_CAP, &i), "query");
	uint32_t n = 0;
	while (!vt_send(p.a, n, vt_sge(mr, 0, 8), 0) && n < 100000)
		n++;
	CHECK(n == i.cap.max_send_wr, "%u of %u requests were accepted", n, i.cap.max_send_wr);
	for (n = 0; !vt_recv(p.a, n, vt_sge(mr, 0, 8)) && n < 100000; n++)
		;
	CHECK(n == i.cap.max_recv_wr, "%u of %u receives were accepted", n, i.cap.max_recv_wr);
	struct ibv_sge s[3] = { vt_sge(mr, 0, 1), vt_sge(mr, 0, 1), vt_sge(mr, 0, 1) };
	struct ibv_recv_wr wr = { .sg_list = s, .num_sge = 3 }, *bad;
	CHECK(ibv_post_recv(p.b, &wr, &bad) == EINVAL && bad == &wr, "three segments of two");
	end(p);
}

static int post_wait(struct ibv_qp *qp, struct ibv_cq *cq, uint64_t id)
{
	struct ibv_exp_send_wr wr = { .wr_id = id, .exp_opcode = IBV_EXP_WR_CQE_WAIT,
				      .exp_send_flags = IBV_EXP_SEND_SIGNALED | IBV_EXP_SEND_WAIT_EN_LAST }, *bad;

	wr.task.cqe_wait.cq = cq;
	wr.task.cqe_wait.cq_count = 1;
	return ibv_exp_post_send(qp, &wr, &bad);
}

/* A WAIT for which the queue has no room is not counted: the next one waits for the next completion, no later one. */
static void refused_wait(struct vt *t)
{
	struct ibv_exp_qp_init_attr a = {
		.send_cq = scq, .recv_cq = rcq, .qp_type = IBV_QPT_RC, .pd = t->pd,
		.comp_mask = IBV_EXP_QP_INIT_ATTR_PD | IBV_EXP_QP_INIT_ATTR_CREATE_FLAGS,
		.exp_create_flags = IBV_EXP_QP_CREATE_CROSS_CHANNEL,
		.cap = { .max_send_wr = 2, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 },
	};
	struct ibv_qp *q = ibv_exp_create_qp(t->ctx, &a);
	struct ibv_cq *watched = vt_cq(t, 16, NULL);
	struct pair p = { vt_qp(t, IBV_QPT_RC, watched, NULL), make(t) };

	CHECK(q, "ibv_exp_create_qp");
	vt_connect(q, q->qp_num);
	vt_connect_pair(p.a, p.b);
	CHECK(!post_wait(q, watched, 1) && !post_wait(q, watched, 2), "WAIT");
	CHECK(post_wait(q, watched, 3) == ENOMEM, "a WAIT too many");
	for (uint64_t id = 1; id <= 3; id++) {
		if (id == 3)
			CHECK(!post_wait(q, watched, 3), "WAIT");
		vt_none(scq);
		CHECK(!vt_rdma(p.a, IBV_WR_RDMA_WRITE, id, vt_sge(mr, 0, 8), (uintptr_t)mem + 64, mr->rkey), "write");
		vt_expect(watched, id, IBV_WC_SUCCESS);
		vt_expect(scq, id, IBV_WC_SUCCESS);
	}
	CHECK(!ibv_destroy_qp(q) && !ibv_destroy_qp(p.a) && !ibv_destroy_qp(p.b) && !ibv_destroy_cq(watched), "destroy");
}

int main(void)
{
	vt_fabric();
	struct vt t = vt_open();
	scq = vt_cq(&t, 256, NULL);
	rcq = vt_cq(&t, 256, NULL);
	/* both lanes: memory of the fabric, and private memory */
	for (int arena = 0; arena < 2; arena++) {
		mem = arena ? shca_alloc(t.ctx, 4096) : aligned_alloc(4096, 4096);
		CHECK(mem, "memory");
		memset(mem, 0, 4096);
		mr = vt_mr(&t, mem, 4096, VT_ACCESS);
		bad_lkey(&t);
		remote_accesses(&t);
		other_domain(&t);
		deregistered(&t);
		atomics(&t);
		too_long(&t);
		bad_receive(&t);
		rnr(&t);
		nobody_there(&t);
		datagrams(&t);
		registering(&t);
		space(&t);
		refused_wait(&t);
		CHECK(!ibv_dereg_mr(mr), "dereg");
		if (arena)
			CHECK(!shca_free(t.ctx, mem), "shca_free");
		else
			free(mem);
	}
	CHECK(!ibv_destroy_cq(scq) && !ibv_destroy_cq(rcq), "destroy");
	vt_close(&t);
	return 0;
}
