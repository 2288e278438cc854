/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Plain writes on queues of a thread domain (the device's shortest path), which cache their target: the very
 * next write must notice every right, region or queue that the target's owner takes away. And inline data that is longer than a
 * WQE, while the queue waits for receives.
 */
#include <fcntl.h>
#include <shca.h>
#include <string.h>

#include "vt.h"

#define BYTES 65536u
#define INLINE_MAX 8192u

struct pair {
	struct vt t;
	struct ibv_td *td;
	struct ibv_pd *domain;		/* parent domain with the thread domain */
	bool locked;			/* queues do without it: they take their lock */
	struct ibv_cq *cq;
	struct ibv_qp *a, *b;
	char *mem;
	struct ibv_mr *mr;
};

static struct ibv_qp *make_qp(struct pair *p)
{
	struct ibv_qp_init_attr_ex a = {
		.send_cq = p->cq, .recv_cq = p->cq, .qp_type = IBV_QPT_RC, .pd = p->locked ? p->t.pd : p->domain,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_SEND,
		.cap = { .max_send_wr = 64, .max_recv_wr = 64, .max_send_sge = 4, .max_recv_sge = 1,
			 .max_inline_data = INLINE_MAX },
	};
	struct ibv_qp *qp = ibv_create_qp_ex(p->t.ctx, &a);

	CHECK(qp && a.cap.max_inline_data >= INLINE_MAX, "ibv_create_qp_ex, %u inline", a.cap.max_inline_data);
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

/* Every length around the branches of the copy, at every alignment; neighbouring bytes stay. */
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
			CHECK(p->mem[at - 1] == 0x55 && p->mem[at + n + 8] == 0x55, "more than %u bytes at %zu were written", n,
			      at);
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

/* Each part of the cached target is taken away, each in its own way. */
static void revoked(void)
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

/* Every way into the one window write. */
enum way { ONE, TWO, LONG, GATHERED, SIGNALED, LIST, WR_ONE, WR_LIST, WAYS };
static const char *const way_names[WAYS] = { "one piece", "two pieces", "longer than a line", "gathered", "signaled", "list",
					     "ibv_wr_*", "list of ibv_wr_*" };

static void wr_write(struct ibv_qp_ex *ex, uint64_t addr, uint32_t rkey, const void *from, size_t n, unsigned int times)
{
	ibv_wr_start(ex);
	for (unsigned int i = 0; i < times; i++) {
		ex->wr_id = 1;
		ex->wr_flags = IBV_SEND_INLINE;
		ibv_wr_rdma_write(ex, rkey, addr);
		ibv_wr_set_inline_data(ex, (void *)(uintptr_t)from, n);
	}
	CHECK(!ibv_wr_complete(ex), "ibv_wr_complete");
}

/* Writes n bytes of `from` to addr, without a check of addr. */
static void put_by(struct pair *p, enum way way, uint64_t addr, uint32_t rkey, const struct ibv_mr *from, uint32_t n)
{
	struct ibv_sge sge[2] = { vt_sge(from, 0, n), vt_sge(from, n / 2, n - n / 2) };
	struct ibv_send_wr wr = { .wr_id = 1, .sg_list = sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
				  .send_flags = IBV_SEND_INLINE, .wr.rdma = { .remote_addr = addr, .rkey = rkey } }, *bad;
	struct ibv_send_wr again = wr;

	if (way == WR_ONE || way == WR_LIST) {
		wr_write(ibv_qp_to_qp_ex(p->a), addr, rkey, from->addr, n, way == WR_ONE ? 1 : 2);
		return;
	}
	if (way == TWO || way == GATHERED) {
		sge[0].length = n / 2;
		wr.num_sge = 2;
	}
	if (way == GATHERED)
		wr.send_flags = 0;
	if (way == SIGNALED)
		wr.send_flags = IBV_SEND_SIGNALED;
	if (way == LIST)
		wr.next = &again;
	CHECK(!ibv_post_send(p->a, &wr, &bad), "post");
}

/* A window of which every bound, and every right, is checked by each way of posting; neighbouring bytes stay. */
static void judged(void)
{
	enum { OVER, BEFORE, FAR, WRAPS, RIGHTS, DOMAIN, CASES };
	static const char *const names[CASES] = { "a byte too many", "a byte too early", "far behind",
						  "round the end of addresses", "a region without the right",
						  "a region of another domain" };
	static char source[512];

	for (uint32_t i = 0; i < sizeof(source); i++)
		source[i] = (char)(i + 1);
	for (int k = 0; k < 2 * WAYS * CASES; k++) {
		enum way way = (enum way)(k / 2 / CASES);
		int what = k / 2 % CASES;
		struct pair p = { .locked = k & 1 };
		open_pair(&p);
		struct ibv_mr *from = vt_mr(&p.t, source, sizeof(source), IBV_ACCESS_LOCAL_WRITE);
		struct ibv_pd *other = ibv_alloc_pd(p.t.ctx);
		char *window = p.mem + 4096;
		uint32_t n = way == LONG ? 256 : 16;
		struct ibv_mr *mr = ibv_reg_mr(what == DOMAIN ? other : p.t.pd, window, 4096,
					       what == RIGHTS ? IBV_ACCESS_LOCAL_WRITE : VT_ACCESS);
		CHECK(other && mr, "second region");
		memset(p.mem, 0x55, BYTES);
		uint64_t lo = (uintptr_t)window, addr = lo;
		switch (what) {
		case OVER: addr = lo + 4096 - n + 1; break;
		case BEFORE: addr = lo - 1; break;
		case FAR: addr = lo + 8192; break;
		case WRAPS: addr = lo + (1ull << 63); break;
		}
		if (what < RIGHTS) {
			/* the window's first and last bytes are within: now it is remembered */
			for (uint64_t at = lo; at <= lo + 4096 - n; at += 4096 - n) {
				put_by(&p, way, at, mr->rkey, from, n);
				if (way == SIGNALED)
					vt_expect(p.cq, 1, IBV_WC_SUCCESS);
				CHECK(!memcmp((void *)(uintptr_t)at, source, n), "%s: wrong data", way_names[way]);
			}
			memset(p.mem, 0x55, BYTES);
		}
		put_by(&p, way, addr, mr->rkey, from, n);
		/* a write between arenas has run when its post returns */
		struct ibv_wc wc = { .status = IBV_WC_SUCCESS };
		(void)ibv_poll_cq(p.cq, 1, &wc);
		CHECK(wc.status == IBV_WC_REM_ACCESS_ERR, "%s, %s%s: %s", way_names[way], names[what], p.locked ? ", locked" : "",
		      ibv_wc_status_str(wc.status));
		for (uint32_t i = 0; i < BYTES; i++)
			CHECK(p.mem[i] == 0x55, "%s, %s: byte %u was written", way_names[way], names[what], i);
		CHECK(!ibv_dereg_mr(mr) && !ibv_dereg_mr(from) && !ibv_dealloc_pd(other), "dereg");
		close_pair(&p);
	}
}

/* More regions than a queue remembers, all at the same address of theirs: each write goes to its own. */
static void many_regions(struct pair *p)
{
	enum { REGIONS = 12, ROUNDS = 3 };
	struct ibv_mr *mr[REGIONS];

	memset(p->mem, 0x55, BYTES);
	for (int i = 0; i < REGIONS; i++) {
		mr[i] = ibv_reg_mr_iova(p->t.pd, p->mem + 64 * i, 64, 4096, VT_ACCESS);
		CHECK(mr[i], "ibv_reg_mr_iova");
	}
	for (uint64_t k = 1; k <= ROUNDS * REGIONS; k++) {
		int i = (int)(k * 5 % REGIONS);
		struct ibv_sge sge = { .addr = (uintptr_t)&k, .length = 8 };
		struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
					  .send_flags = IBV_SEND_INLINE,
						  .wr.rdma = { .remote_addr = 4096, .rkey = mr[i]->rkey } }, *bad;
		CHECK(!ibv_post_send(p->a, &wr, &bad), "post");
		CHECK(!memcmp(p->mem + 64 * i, &k, 8), "write %lu is not in region %d", k, i);
	}
	for (int i = 0; i < REGIONS; i++)
		CHECK(!ibv_dereg_mr(mr[i]), "dereg");
	vt_none(p->cq);
}

/* XRC: the shared receive queue that a write names opens its domain's memory. Without it nothing is open. */
static void srq_gone(void)
{
	struct pair p = { .locked = true };
	struct ibv_xrcd_init_attr x = {.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
				       .fd = -1,
				       .oflags = O_CREAT};

	open_pair(&p);
	struct ibv_xrcd *xrcd = ibv_open_xrcd(p.t.ctx, &x);
	struct ibv_srq_init_attr_ex si = {
		.attr = { .max_wr = 4, .max_sge = 1 }, .srq_type = IBV_SRQT_XRC, .pd = p.t.pd, .xrcd = xrcd, .cq = p.cq,
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
	};
	struct ibv_srq *srq = ibv_create_srq_ex(p.t.ctx, &si);
	struct ibv_qp_init_attr_ex ri = { .qp_type = IBV_QPT_XRC_RECV, .comp_mask = IBV_QP_INIT_ATTR_XRCD, .xrcd = xrcd };
	struct ibv_qp_init_attr_ex ai = { .send_cq = p.cq, .recv_cq = p.cq, .qp_type = IBV_QPT_XRC_SEND, .pd = p.t.pd,
					  .comp_mask = IBV_QP_INIT_ATTR_PD,
					  .cap = { .max_send_wr = 4, .max_send_sge = 1, .max_inline_data = 64 } };
	struct ibv_qp *in = ibv_create_qp_ex(p.t.ctx, &ri), *out = ibv_create_qp_ex(p.t.ctx, &ai);
	uint32_t srqn;
	CHECK(srq && in && out && !ibv_get_srq_num(srq, &srqn), "XRC queues");
	vt_connect_pair(out, in);
	uint64_t value = 1;
	struct ibv_sge sge = { .addr = (uintptr_t)&value, .length = 8 };
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_INLINE,
				  .wr.rdma = { .remote_addr = (uintptr_t)p.mem, .rkey = p.mr->rkey },
				  .qp_type.xrc.remote_srqn = srqn }, *bad;
	for (; value < 4; value++) {
		CHECK(!ibv_post_send(out, &wr, &bad), "post");
		CHECK(!memcmp(p.mem, &value, 8), "a write by XRC");
	}
	CHECK(!ibv_destroy_srq(srq), "destroy SRQ");
	CHECK(!ibv_post_send(out, &wr, &bad), "post");
	struct ibv_wc wc = { .status = IBV_WC_SUCCESS };
	(void)ibv_poll_cq(p.cq, 1, &wc);
	CHECK(wc.status == IBV_WC_REM_INV_REQ_ERR, "an SRQ that is gone: %s", ibv_wc_status_str(wc.status));
	CHECK(memcmp(p.mem, &value, 8), "an SRQ that is gone: it was written");
	CHECK(!ibv_destroy_qp(out) && !ibv_destroy_qp(in) && !ibv_close_xrcd(xrcd), "destroy");
	close_pair(&p);
}

/* Sends with inline data wait for receives: the buffer is the program's again all the same. */
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
	many_regions(&p);
	close_pair(&p);
	revoked();
	judged();
	srq_gone();
	return 0;
}
