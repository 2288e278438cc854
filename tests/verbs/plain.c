/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Plain writes on queues of a thread domain (the device's shortest path), which remember their target: whatever the
 * target's owner takes away must be noticed by the very next write. And inline data that is longer than a WQE, while the
 * queue waits for receives.
 */
#include <shca.h>
#include <string.h>

#include "vt.h"

#define BYTES 65536u
#define INLINE_MAX 8192u

struct pair {
	struct vt t;
	struct ibv_td *td;
	struct ibv_pd *domain;		/* parent domain with the thread domain */
	struct ibv_cq *cq;
	struct ibv_qp *a, *b;
	char *mem;
	struct ibv_mr *mr;
};

static struct ibv_qp *make_qp(struct pair *p)
{
	struct ibv_qp_init_attr a = {
		.send_cq = p->cq, .recv_cq = p->cq, .qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 64, .max_recv_wr = 64, .max_send_sge = 4, .max_recv_sge = 1,
			 .max_inline_data = INLINE_MAX },
	};
	struct ibv_qp *qp = ibv_create_qp(p->domain, &a);

	CHECK(qp && a.cap.max_inline_data >= INLINE_MAX, "ibv_create_qp, %u inline", a.cap.max_inline_data);
	return qp;
}

static void open_pair(struct pair *p)
{
	struct ibv_td_init_attr ti = { 0 };
	struct ibv_parent_domain_init_attr pi = { 0 };

	p->t = vt_open();
	p->td = ibv_alloc_td(p->t.ctx, &ti);
	CHECK(p->td, "ibv_alloc_td");
	pi.pd = p->t.pd;
	pi.td = p->td;
	p->domain = ibv_alloc_parent_domain(p->t.ctx, &pi);
	CHECK(p->domain, "ibv_alloc_parent_domain");
	p->cq = vt_cq(&p->t, 256, NULL);
	p->a = make_qp(p);
	p->b = make_qp(p);
	vt_connect_pair(p->a, p->b);
	p->mem = shca_alloc(p->t.ctx, BYTES);
	CHECK(p->mem, "shca_alloc");
	p->mr = vt_mr(&p->t, p->mem, BYTES, VT_ACCESS);
}

static void close_pair(struct pair *p)
{
	if (p->a)
		CHECK(!ibv_destroy_qp(p->a), "destroy QP");
	if (p->b)
		CHECK(!ibv_destroy_qp(p->b), "destroy QP");
	if (p->mr)
		CHECK(!ibv_dereg_mr(p->mr), "dereg");
	CHECK(!shca_free(p->t.ctx, p->mem), "shca_free");
	CHECK(!ibv_destroy_cq(p->cq), "destroy CQ");
	CHECK(!ibv_dealloc_pd(p->domain), "dealloc parent domain");
	CHECK(!ibv_dealloc_td(p->td), "dealloc TD");
	vt_close(&p->t);
}

/* An unsignaled inline write of two pieces. */
static int put(struct pair *p, size_t at, const void *head, uint32_t n, uint64_t last, uint32_t rkey)
{
	struct ibv_sge sge[2] = { { .addr = (uintptr_t)head, .length = n }, { .addr = (uintptr_t)&last, .length = 8 } };
	struct ibv_send_wr wr = { .wr_id = at, .sg_list = n ? sge : sge + 1, .num_sge = n ? 2 : 1, .opcode = IBV_WR_RDMA_WRITE,
				  .send_flags = IBV_SEND_INLINE,
				  .wr.rdma = { .remote_addr = (uintptr_t)p->mem + at, .rkey = rkey } }, *bad;
	return ibv_post_send(p->a, &wr, &bad);
}

static void written(const struct pair *p, size_t at, const void *head, uint32_t n, uint64_t last)
{
	uint64_t v;

	memcpy(&v, p->mem + at + n, 8);
	CHECK(!memcmp(p->mem + at, head, n) && v == last, "%u bytes at %zu are wrong (%#lx, not %#lx)", n, at, v, last);
}

/* Every length around the branches of the copy, at every alignment; what is beside stays. */
static void lengths(struct pair *p)
{
	char head[256];

	for (uint32_t i = 0; i < sizeof(head); i++)
		head[i] = (char)(i * 7 + 1);
	for (uint32_t n = 0; n <= sizeof(head); n++)
		for (size_t at = 64; at < 64 + 17; at++) {
			memset(p->mem, 0x55, 512);
			CHECK(!put(p, at, head, n, n * 0x0101010101010101ull, p->mr->rkey), "post of %u bytes", n);
			written(p, at, head, n, n * 0x0101010101010101ull);
			CHECK(p->mem[at - 1] == 0x55 && p->mem[at + n + 8] == 0x55, "more than %u bytes at %zu were written", n, at);
		}
	vt_none(p->cq);
}

static void fails(struct pair *p, uint32_t rkey, enum ibv_wc_status status, const char *what)
{
	char before[8], after[8];

	memcpy(before, p->mem, 8);
	CHECK(!put(p, 0, NULL, 0, 0xdeadull, rkey), "%s: post", what);
	struct ibv_wc wc = vt_wait(p->cq);
	CHECK(wc.status == status, "%s: %s", what, ibv_wc_status_str(wc.status));
	memcpy(after, p->mem, 8);
	CHECK(!memcmp(before, after, 8), "%s: it was written", what);
}

/* What the target remembers is taken away, each in its own way. */
static void withdrawn(void)
{
	enum { DEREG, REREG, ACCESS, ERROR, DESTROY, RESET, WAYS };

	for (int way = 0; way < WAYS; way++) {
		struct pair p = { .cq = NULL };
		open_pair(&p);
		uint32_t rkey = p.mr->rkey;
		for (int i = 0; i < 10; i++) {
			CHECK(!put(&p, 0, "abc", 3, (uint64_t)i, rkey), "post");
			written(&p, 0, "abc", 3, (uint64_t)i);
		}
		struct ibv_qp_attr a = { .qp_access_flags = IBV_ACCESS_LOCAL_WRITE };
		switch (way) {
		case DEREG:
			CHECK(!ibv_dereg_mr(p.mr), "dereg");
			p.mr = NULL;
			fails(&p, rkey, IBV_WC_REM_ACCESS_ERR, "a region that is gone");
			break;
		case REREG:
			CHECK(!ibv_rereg_mr(p.mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, IBV_ACCESS_LOCAL_WRITE), "rereg");
			fails(&p, p.mr->rkey, IBV_WC_REM_ACCESS_ERR, "a region that lost its right");
			break;
		case ACCESS:
			CHECK(!ibv_modify_qp(p.b, &a, IBV_QP_ACCESS_FLAGS), "modify");
			fails(&p, rkey, IBV_WC_REM_ACCESS_ERR, "a queue that lost its right");
			break;
		case ERROR:
			CHECK(!vt_to(p.b, IBV_QPS_ERR), "to error");
			fails(&p, rkey, IBV_WC_RETRY_EXC_ERR, "a queue in error");
			break;
		case DESTROY:
			CHECK(!ibv_destroy_qp(p.b), "destroy");
			p.b = NULL;
			fails(&p, rkey, IBV_WC_RETRY_EXC_ERR, "a queue that is gone");
			break;
		case RESET:
			CHECK(!vt_to(p.b, IBV_QPS_RESET), "reset");
			fails(&p, rkey, IBV_WC_RETRY_EXC_ERR, "a queue that was reset");
			break;
		}
		close_pair(&p);
	}
}

/* Sends whose data is inline wait for receives: the buffer is the program's again all the same. */
static void long_inline(struct pair *p)
{
	static char buf[INLINE_MAX];
	uint32_t n[40];

	for (int round = 0; round < 5; round++) {
		for (uint32_t i = 0; i < 40; i++) {
			n[i] = i * 211 % INLINE_MAX + (i == 39 ? INLINE_MAX - 39 * 211 % INLINE_MAX : 1);
			memset(buf, (char)(i + round), n[i]);
			struct ibv_sge sge = { .addr = (uintptr_t)buf, .length = n[i] };
			CHECK(!vt_send(p->a, i, sge, IBV_SEND_INLINE | IBV_SEND_SIGNALED), "send %u", i);
			memset(buf, 0x7f, sizeof(buf));
		}
		for (uint32_t i = 0; i < 40; i++) {
			uint32_t got = 0, sent = 0;
			CHECK(!vt_recv(p->b, 100 + i, vt_sge(p->mr, 0, INLINE_MAX)), "receive");
			while (!got || !sent) {
				struct ibv_wc wc = vt_wait(p->cq);
				CHECK(wc.status == IBV_WC_SUCCESS, "%lu: %s", wc.wr_id, ibv_wc_status_str(wc.status));
				if (wc.wr_id >= 100) {
					got = wc.byte_len;
					CHECK(wc.wr_id == 100 + i, "receive %lu", wc.wr_id);
				} else {
					sent = 1;
					CHECK(wc.wr_id == i, "send %lu", wc.wr_id);
				}
			}
			CHECK(got == n[i], "%u bytes, not %u", got, n[i]);
			for (uint32_t k = 0; k < got; k++)
				CHECK(p->mem[k] == (char)(i + (uint32_t)round), "byte %u of %u of message %u", k, got, i);
		}
	}
}

int main(void)
{
	struct pair p = { .cq = NULL };

	vt_fabric();
	open_pair(&p);
	lengths(&p);
	long_inline(&p);
	lengths(&p);
	close_pair(&p);
	withdrawn();
	return 0;
}
