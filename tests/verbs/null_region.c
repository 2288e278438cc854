/* SPDX-License-Identifier: BSD-3-Clause */
/* Null regions: reads by their key yield zeros, writes are dropped; in each kind of request, among ordinary segments, of any
 * length, over each lane. */
#include "vt.h"

#define LEN (2u << 20)

static struct vt t;
static struct ibv_cq *cq;
static struct ibv_mr *null;
static char *near, *far;
static struct ibv_mr *near_mr, *far_mr;

static void expect_bytes(const char *p, size_t n, char c, const char *what)
{
	for (size_t i = 0; i < n; i++)
		CHECK(p[i] == c, "%s: byte %zu is %d", what, i, p[i]);
}

static struct ibv_sge of_null(uint64_t addr, uint32_t n)
{
	return (struct ibv_sge){.addr = addr, .length = n, .lkey = null->lkey};
}

static void post(struct ibv_qp *qp, enum ibv_wr_opcode op, struct ibv_sge *sge, int n, uint64_t raddr)
{
	struct ibv_send_wr wr = {.wr_id = 1, .sg_list = sge, .num_sge = n, .opcode = op, .send_flags = IBV_SEND_SIGNALED}, *bad;

	if (op == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = raddr;
		wr.wr.atomic.rkey = far_mr->rkey;
		wr.wr.atomic.compare_add = 1;
	} else {
		wr.wr.rdma.remote_addr = raddr;
		wr.wr.rdma.rkey = far_mr->rkey;
	}
	CHECK(!ibv_post_send(qp, &wr, &bad), "post");
	vt_expect(cq, 1, IBV_WC_SUCCESS);
}

static void requests(struct ibv_qp *from, struct ibv_qp *to)
{
	static const uint32_t lengths[] = {1, 8, 63, 64, 65, 4095, 4096, 4097, 4159, 4160, 8192 + 5, 65536, LEN - 64};
	uint64_t at = (uintptr_t)far;

	for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
		uint32_t n = lengths[i];
		struct ibv_sge whole = of_null(0x1234567 * i, n);
		memset(far, 'f', n + 1);
		post(from, IBV_WR_RDMA_WRITE, &whole, 1, at);
		expect_bytes(far, n, 0, "a WRITE of zeros");
		CHECK(far[n] == 'f', "behind a WRITE of %u", n);
		post(from, IBV_WR_RDMA_READ, &whole, 1, at);
	}
	/* among ordinary segments */
	struct ibv_sge mixed[3] = {vt_sge(near_mr, 0, 100), of_null(1, 200), vt_sge(near_mr, 100, 100)};
	memset(near, 'n', 300);
	memset(far, 'f', 500);
	post(from, IBV_WR_RDMA_WRITE, mixed, 3, at);
	expect_bytes(far, 100, 'n', "before the zeros");
	expect_bytes(far + 100, 200, 0, "zeros among others");
	expect_bytes(far + 300, 100, 'n', "behind the zeros");
	memset(far, 'a', 100);
	memset(far + 100, 'b', 200);
	memset(far + 300, 'c', 100);
	post(from, IBV_WR_RDMA_READ, mixed, 3, at);
	expect_bytes(near, 100, 'a', "a READ before what is dropped");
	expect_bytes(near + 100, 100, 'c', "a READ behind what is dropped");
	/* the result of an atomic is dropped, the atomic is not */
	struct ibv_sge word = of_null(0, 8);
	memset(far, 0, 8);
	post(from, IBV_WR_ATOMIC_FETCH_AND_ADD, &word, 1, at);
	CHECK(far[0] == 1, "FETCH_ADD");
	/* messages: of zeros; into nothing, and in part */
	memset(far, 'f', 300);
	CHECK(!vt_recv(to, 2, vt_sge(far_mr, 0, 300)), "receive");
	struct ibv_sge message = of_null(77, 200);
	struct ibv_send_wr wr = {.wr_id = 1, .sg_list = &message, .num_sge = 1, .opcode = IBV_WR_SEND}, *bad;
	CHECK(!ibv_post_send(from, &wr, &bad), "SEND");
	CHECK(vt_expect(cq, 2, IBV_WC_SUCCESS).byte_len == 200 && far[200] == 'f', "a message of zeros");
	expect_bytes(far, 200, 0, "a message of zeros");
	struct ibv_sge into[2] = {of_null(0, 50), vt_sge(far_mr, 0, 50)};
	struct ibv_recv_wr rwr = {.wr_id = 3, .sg_list = into, .num_sge = 2}, *rbad;
	CHECK(!ibv_post_recv(to, &rwr, &rbad), "receive");
	for (int i = 0; i < 100; i++)
		near[i] = (char)i;
	message = vt_sge(near_mr, 0, 100);
	CHECK(!ibv_post_send(from, &wr, &bad), "SEND");
	vt_expect(cq, 3, IBV_WC_SUCCESS);
	CHECK(far[0] == 50 && far[49] == 99, "the second half of a message");
}

static void refusals(struct ibv_qp *from)
{
	struct ibv_sge sge = vt_sge(near_mr, 0, 8);

	CHECK((errno = 0, ibv_rereg_mr(null, IBV_REREG_MR_CHANGE_PD, t.pd, NULL, 0, 0)) == IBV_REREG_MR_ERR_INPUT &&
		      errno == EINVAL,
	      "changed");
	CHECK(!vt_rdma(from, IBV_WR_RDMA_WRITE, 4, sge, 0, null->rkey), "post");
	vt_expect(cq, 4, IBV_WC_REM_ACCESS_ERR);
}

int main(void)
{
	vt_fabric();
	t = vt_open();
	cq = vt_cq(&t, 64, NULL);
	null = ibv_alloc_null_mr(t.pd);
	CHECK(null && null->context == t.ctx && null->pd == t.pd, "ibv_alloc_null_mr");
	for (int private = 0; private < 2; private++) {
		near = private ? aligned_alloc(4096, LEN) : shca_alloc(t.ctx, LEN);
		far = private ? aligned_alloc(4096, LEN) : shca_alloc(t.ctx, LEN);
		CHECK(near && far, "memory");
		memset(near, 0, LEN);
		memset(far, 0, LEN);
		near_mr = vt_mr(&t, near, LEN, VT_ACCESS);
		far_mr = vt_mr(&t, far, LEN, VT_ACCESS);
		struct ibv_qp *a = vt_qp(&t, IBV_QPT_RC, cq, NULL), *b = vt_qp(&t, IBV_QPT_RC, cq, NULL);
		vt_connect_pair(a, b);
		requests(a, b);
		refusals(a);
		CHECK(!ibv_destroy_qp(a) && !ibv_destroy_qp(b) && !ibv_dereg_mr(near_mr) && !ibv_dereg_mr(far_mr), "destroy");
	}
	CHECK(ibv_dealloc_pd(t.pd) == EBUSY && !ibv_dereg_mr(null) && !ibv_destroy_cq(cq), "destroy");
	vt_close(&t);
	return 0;
}
