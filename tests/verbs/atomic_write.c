/* SPDX-License-Identifier: BSD-3-Clause */
/* ATOMIC_WRITE: both interfaces, inline and of a segment, its rights and alignment, the queues that have
 * it; and among atomics. */
#include <pthread.h>

#include "vt.h"

static struct vt t;
static struct ibv_cq *cq;
static uint64_t *words, *value;		/* the responder's, the requester's */
static struct ibv_mr *mr, *value_mr;

struct pair {
	struct ibv_qp *from, *to;
};

static struct pair pair_of(unsigned access)
{
	struct ibv_qp_init_attr_ex a = {
		.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC, .pd = t.pd,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = IBV_QP_EX_WITH_ATOMIC_WRITE | IBV_QP_EX_WITH_RDMA_READ,
		.cap = {.max_send_wr = 16, .max_recv_wr = 4, .max_send_sge = 2, .max_recv_sge = 1, .max_inline_data = 64},
	};
	struct pair p = {ibv_create_qp_ex(t.ctx, &a), ibv_create_qp_ex(t.ctx, &a)};

	CHECK(p.from && p.to, "ibv_create_qp_ex");
	CHECK(!vt_init(p.from) && !vt_init_access(p.to, access), "INIT");
	vt_rtr_rts(p.from, p.to->qp_num, vt_rts_attr());
	vt_rtr_rts(p.to, p.from->qp_num, vt_rts_attr());
	return p;
}

static void drop(struct pair p)
{
	CHECK(!ibv_destroy_qp(p.from) && !ibv_destroy_qp(p.to), "destroy");
}

static int post(struct ibv_qp *qp, void *from, uint32_t n, unsigned flags, uint64_t addr, uint32_t rkey)
{
	struct ibv_sge sge = {.addr = (uintptr_t)from, .length = n, .lkey = value_mr->lkey};
	struct ibv_send_wr wr = {.wr_id = 1, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_ATOMIC_WRITE,
				 .send_flags = flags | IBV_SEND_SIGNALED, .wr.rdma = {.remote_addr = addr, .rkey = rkey}}, *bad;

	return ibv_post_send(qp, &wr, &bad);
}

static void by_wr(struct ibv_qp *qp, uint64_t v, uint64_t addr, uint32_t rkey)
{
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(qp);

	ibv_wr_start(ex);
	ex->wr_id = 1;
	ex->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_atomic_write(ex, rkey, addr, &v);
	CHECK(!ibv_wr_complete(ex), "ibv_wr_atomic_write");
}

static void good(void)
{
	struct pair p = pair_of(IBV_ACCESS_REMOTE_WRITE);	/* no right to atomics is needed */
	struct ibv_mr *narrow = vt_mr(&t, words, 64, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);

	for (uint64_t way = 0; way < 3; way++) {
		struct ibv_wc wc;
		words[2] = words[0] = ~0ull;
		*value = 0x1122334455667788 + way;
		if (way == 2) {
			by_wr(p.from, *value, (uintptr_t)&words[1], narrow->rkey);
		} else {
			CHECK(!post(p.from, value, 8, way ? IBV_SEND_INLINE : 0, (uintptr_t)&words[1], narrow->rkey), "post");
		}
		wc = vt_expect(cq, 1, IBV_WC_SUCCESS);
		CHECK(wc.opcode == IBV_WC_ATOMIC_WRITE && words[1] == *value && words[0] == ~0ull && words[2] == ~0ull, "way %lu",
		      (unsigned long)way);
	}
	CHECK(!ibv_dereg_mr(narrow), "destroy");
	drop(p);
}

/* A segment that a program sets without need: an ATOMIC_WRITE returns nothing. */
static void stray_segment(void)
{
	struct pair p = pair_of(IBV_ACCESS_REMOTE_WRITE);
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(p.from);
	uint64_t v = 12;

	words[1] = 11;
	*value = 13;
	ibv_wr_start(ex);
	ex->wr_id = 1;
	ex->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_atomic_write(ex, mr->rkey, (uintptr_t)&words[1], &v);
	ibv_wr_set_sge(ex, value_mr->lkey, (uintptr_t)value, 8);
	CHECK(!ibv_wr_complete(ex), "ibv_wr_atomic_write");
	vt_expect(cq, 1, IBV_WC_SUCCESS);
	CHECK(words[1] == 12 && *value == 13, "the segment was written: %lu", (unsigned long)*value);
	drop(p);
}

static void refused(const char *why, unsigned access, uint64_t addr, uint32_t rkey, enum ibv_wc_status status)
{
	struct pair p = pair_of(access);

	words[1] = 5;
	*value = 6;
	CHECK(!post(p.from, value, 8, 0, addr, rkey), "post");
	struct ibv_wc wc = vt_wait(cq);
	CHECK(wc.status == status && words[1] == 5, "%s: %s", why, ibv_wc_status_str(wc.status));
	drop(p);
}

static void bad_ones(void)
{
	struct ibv_mr *read = vt_mr(&t, words, 64, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC);
	struct pair p = pair_of(VT_ACCESS);
	struct ibv_qp *uc = vt_qp(&t, IBV_QPT_UC, cq, NULL);
	uint64_t at = (uintptr_t)&words[1];

	refused("a region without the right", VT_ACCESS, at, read->rkey, IBV_WC_REM_ACCESS_ERR);
	refused("a queue without the right", IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC, at, mr->rkey,
		IBV_WC_REM_ACCESS_ERR);
	refused("a wrong key", VT_ACCESS, at, mr->rkey ^ 1, IBV_WC_REM_ACCESS_ERR);
	refused("beyond the region", VT_ACCESS, (uintptr_t)words + 4096, mr->rkey, IBV_WC_REM_ACCESS_ERR);
	refused("misaligned", VT_ACCESS, at + 4, mr->rkey, IBV_WC_REM_INV_REQ_ERR);
	CHECK(post(p.from, value, 4, 0, at, mr->rkey) == EINVAL && post(p.from, value, 16, 0, at, mr->rkey) == EINVAL,
	      "other sizes");
	vt_connect(uc, uc->qp_num);
	CHECK(post(uc, value, 8, 0, at, mr->rkey) == EINVAL, "UC");
	/* no responder resources */
	CHECK(!vt_to(p.from, IBV_QPS_RESET), "RESET");
	struct ibv_qp_attr rts = vt_rts_attr();
	rts.max_rd_atomic = 0;
	CHECK(!vt_init(p.from), "INIT");
	vt_rtr_rts(p.from, p.to->qp_num, rts);
	CHECK(!post(p.from, value, 8, 0, at, mr->rkey), "post");
	vt_expect(cq, 1, IBV_WC_LOC_QP_OP_ERR);
	/* a local segment that is none */
	struct pair q = pair_of(VT_ACCESS);
	uint64_t stray = 1;
	CHECK(!post(q.from, &stray, 8, 0, at, mr->rkey), "post");
	vt_expect(cq, 1, IBV_WC_LOC_PROT_ERR);
	drop(p);
	drop(q);
	CHECK(!ibv_destroy_qp(uc) && !ibv_dereg_mr(read), "destroy");
}

/* A reader sees whole values only, and so does an atomic. */
static void *reads(void *stop)
{
	while (!__atomic_load_n((int *)stop, __ATOMIC_ACQUIRE)) {
		uint64_t v = __atomic_load_n(&words[1], __ATOMIC_RELAXED);
		CHECK((v & UINT32_MAX) == v >> 32, "a half of a value: %#lx", (unsigned long)v);
	}
	return NULL;
}

static void whole(void)
{
	struct pair p = pair_of(VT_ACCESS);
	pthread_t reader;
	int stop = 0;

	words[1] = 0;
	CHECK(!pthread_create(&reader, NULL, reads, &stop), "pthread_create");
	for (uint64_t i = 1; i <= 2000; i++) {
		by_wr(p.from, i << 32 | i, (uintptr_t)&words[1], mr->rkey);
		vt_expect(cq, 1, IBV_WC_SUCCESS);
	}
	__atomic_store_n(&stop, 1, __ATOMIC_RELEASE);
	CHECK(!pthread_join(reader, NULL), "pthread_join");
	drop(p);
}

int main(void)
{
	vt_fabric();
	t = vt_open();
	cq = vt_cq(&t, 64, NULL);
	for (int private = 0; private < 2; private++) {
		words = private ? aligned_alloc(4096, 4096) : shca_alloc(t.ctx, 4096);
		value = private ? aligned_alloc(4096, 4096) : shca_alloc(t.ctx, 4096);
		CHECK(words && value, "memory");
		memset(words, 0, 4096);
		mr = vt_mr(&t, words, 4096, VT_ACCESS);
		value_mr = vt_mr(&t, value, 4096, IBV_ACCESS_LOCAL_WRITE);
		good();
	stray_segment();
		bad_ones();
		if (!private)
			whole();
		CHECK(!ibv_dereg_mr(mr) && !ibv_dereg_mr(value_mr), "destroy");
	}
	CHECK(!ibv_destroy_cq(cq), "destroy");
	ibv_close_device(t.ctx);
	return 0;
}
