/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The device's short ways beside ibv_post_send's fast writes: one inline write built by ibv_wr_* (DC), and one inline
 * datagram. Both cache their destination: the very next request must notice that it has been destroyed or closed. And lists of
 * ibv_wr_* are posted as a whole or not at all.
 */
#include <endian.h>
#include <infiniband/mlx5dv.h>
#include <shca.h>

#include <sys/mman.h>

#include "vt.h"

#define BYTES 65536u
#define KEY 0x1122334455667788ull
#define INLINE_MAX 256u

/* ---- DC ---------------------------------------------------------------------------------------------------------- */

struct dc {
	struct vt t;
	struct ibv_cq *cq;
	struct ibv_srq *srq;
	struct ibv_qp *dct, *dci;
	struct ibv_qp_ex *ex;
	struct mlx5dv_qp_ex *dv;
	struct ibv_ah *ah;
	char *mem;
	struct ibv_mr *mr;
};

static struct ibv_qp *dc_queue(struct dc *d, enum mlx5dv_dc_type type)
{
	struct mlx5dv_qp_init_attr dv = { .comp_mask = MLX5DV_QP_INIT_ATTR_MASK_DC, .dc_init_attr.dc_type = type };
	struct ibv_qp_init_attr_ex a = { .qp_type = IBV_QPT_DRIVER, .send_cq = d->cq, .recv_cq = d->cq,
					 .comp_mask = IBV_QP_INIT_ATTR_PD, .pd = d->t.pd };

	if (type == MLX5DV_DCTYPE_DCT) {
		a.srq = d->srq;
		dv.dc_init_attr.dct_access_key = KEY;
	} else {
		a.cap = (struct ibv_qp_cap){ .max_send_wr = 16, .max_send_sge = 2, .max_inline_data = INLINE_MAX };
		a.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
		a.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_SEND;
	}
	struct ibv_qp *qp = mlx5dv_create_qp(d->t.ctx, &a, &dv);
	CHECK(qp, "mlx5dv_create_qp %d", type);
	struct ibv_qp_attr init = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = VT_ACCESS };
	struct ibv_qp_attr rtr = vt_rtr_attr(0), rts = vt_rts_attr();
	if (type == MLX5DV_DCTYPE_DCT) {
		CHECK(!ibv_modify_qp(qp, &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS), "INIT");
		CHECK(!ibv_modify_qp(qp, &rtr, IBV_QP_STATE | IBV_QP_PATH_MTU | IBV_QP_AV | IBV_QP_MIN_RNR_TIMER), "RTR");
	} else {
		CHECK(!ibv_modify_qp(qp, &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT), "INIT");
		CHECK(!ibv_modify_qp(qp, &rtr, IBV_QP_STATE | IBV_QP_PATH_MTU), "RTR");
		CHECK(!ibv_modify_qp(qp, &rts, VT_RTS_RC), "RTS");
	}
	return qp;
}

static void dc_open(struct dc *d)
{
	struct ibv_srq_init_attr sa = { .attr = { .max_wr = 4, .max_sge = 1 } };
	struct ibv_ah_attr aa = { .dlid = 1, .port_num = 1 };

	d->t = vt_open();
	d->cq = vt_cq(&d->t, 64, NULL);
	d->srq = ibv_create_srq(d->t.pd, &sa);
	d->ah = ibv_create_ah(d->t.pd, &aa);
	CHECK(d->srq && d->ah, "create");
	d->dct = dc_queue(d, MLX5DV_DCTYPE_DCT);
	d->dci = dc_queue(d, MLX5DV_DCTYPE_DCI);
	d->ex = ibv_qp_to_qp_ex(d->dci);
	d->dv = mlx5dv_qp_ex_from_ibv_qp_ex(d->ex);
	d->mem = shca_alloc(d->t.ctx, BYTES);
	CHECK(d->mem, "shca_alloc");
	memset(d->mem, 0, BYTES);
	d->mr = vt_mr(&d->t, d->mem, BYTES, VT_ACCESS);
}

static void dc_close(struct dc *d)
{
	CHECK(!ibv_destroy_qp(d->dci) && (!d->dct || !ibv_destroy_qp(d->dct)), "destroy");
	CHECK((!d->mr || !ibv_dereg_mr(d->mr)) && !shca_free(d->t.ctx, d->mem), "memory");
	CHECK(!ibv_destroy_srq(d->srq) && !ibv_destroy_ah(d->ah) && !ibv_destroy_cq(d->cq), "destroy");
	vt_close(&d->t);
}

/* Builds a write of these two pieces. */
static void build(struct dc *d, uint64_t id, unsigned flags, size_t at, const void *a, size_t an, const void *b, size_t bn,
		  uint32_t rkey, uint64_t key)
{
	struct ibv_data_buf bufs[2] = {{.addr = (void *)(uintptr_t)a, .length = an},
				       {.addr = (void *)(uintptr_t)b, .length = bn}};

	d->ex->wr_id = id;
	d->ex->wr_flags = flags;
	ibv_wr_rdma_write(d->ex, rkey, (uintptr_t)d->mem + at);
	mlx5dv_wr_set_dc_addr(d->dv, d->ah, d->dct ? d->dct->qp_num : 0xfffff0, key);
	if (b)
		ibv_wr_set_inline_data_list(d->ex, 2, bufs);
	else
		ibv_wr_set_inline_data(d->ex, bufs[0].addr, an);
}

static int put(struct dc *d, unsigned flags, size_t at, const char *data, size_t n, size_t cut, uint32_t rkey, uint64_t key)
{
	ibv_wr_start(d->ex);
	build(d, at, flags, at, data, cut, cut < n ? data + cut : NULL, n - cut, rkey, key);
	return ibv_wr_complete(d->ex);
}

/* Every length, in one piece and in two; neighbouring bytes stay. Now and then a signaled one. */
static void dc_lengths(struct dc *d)
{
	char data[INLINE_MAX];

	for (uint32_t n = 1; n <= INLINE_MAX; n++) {
		unsigned flags = n % 16 ? 0 : IBV_SEND_SIGNALED;
		for (size_t i = 0; i < n; i++)
			data[i] = (char)(i * 7 + n);
		memset(d->mem, 0x55, 1024);
		CHECK(!put(d, flags, 64 + n % 16, data, n, n % 3 ? n : n / 3, d->mr->rkey, KEY), "%u bytes", n);
		CHECK(!memcmp(d->mem + 64 + n % 16, data, n) && d->mem[63 + n % 16] == 0x55 && d->mem[64 + n % 16 + n] == 0x55,
		      "%u bytes are wrong", n);
		if (flags)
			vt_expect(d->cq, 64 + n % 16, IBV_WC_SUCCESS);
	}
	vt_none(d->cq);
}

static void dc_lists(struct dc *d)
{
	static const char a[] = "first", b[] = "second";
	char longer[INLINE_MAX + 1] = { 1 };

	/* two in a list; the buffers are the program's again before the completion */
	char buf[8] = "one";
	memset(d->mem, 0, 256);
	ibv_wr_start(d->ex);
	build(d, 1, 0, 0, buf, 4, NULL, 0, d->mr->rkey, KEY);
	strcpy(buf, "two");
	build(d, 2, IBV_SEND_SIGNALED, 64, buf, 4, NULL, 0, d->mr->rkey, KEY);
	CHECK(!d->mem[0] && !d->mem[64], "written before it is complete");
	CHECK(!ibv_wr_complete(d->ex), "complete");
	vt_expect(d->cq, 2, IBV_WC_SUCCESS);
	CHECK(!strcmp(d->mem, "one") && !strcmp(d->mem + 64, "two"), "%.8s %.8s", d->mem, d->mem + 64);

	/* one that is too long refuses all; so does data without a request */
	memset(d->mem, 0, 256);
	ibv_wr_start(d->ex);
	build(d, 1, 0, 0, a, sizeof(a), NULL, 0, d->mr->rkey, KEY);
	build(d, 2, 0, 64, longer, sizeof(longer), NULL, 0, d->mr->rkey, KEY);
	build(d, 3, 0, 128, b, sizeof(b), NULL, 0, d->mr->rkey, KEY);
	CHECK(ibv_wr_complete(d->ex) == EINVAL, "a list with a bad request");
	ibv_wr_start(d->ex);
	ibv_wr_set_inline_data(d->ex, (void *)(uintptr_t)a, sizeof(a));
	build(d, 1, 0, 0, a, sizeof(a), NULL, 0, d->mr->rkey, KEY);
	CHECK(ibv_wr_complete(d->ex) == EINVAL, "data without a request");
	CHECK(put(d, 0, 0, longer, sizeof(longer), sizeof(longer), d->mr->rkey, KEY) == EINVAL, "one that is too long");
	ibv_wr_start(d->ex);
	build(d, 1, 0, 0, a, sizeof(a), NULL, 0, d->mr->rkey, KEY);
	ibv_wr_abort(d->ex);
	ibv_wr_start(d->ex);
	CHECK(!ibv_wr_complete(d->ex), "an empty list");
	/* more than there is room for */
	ibv_wr_start(d->ex);
	for (int i = 0; i < 17; i++)
		build(d, 1, 0, 0, a, sizeof(a), NULL, 0, d->mr->rkey, KEY);
	CHECK(ibv_wr_complete(d->ex) == ENOMEM, "17 requests for 16 places");
	for (int i = 0; i < 256; i++)
		CHECK(!d->mem[i], "byte %d was written", i);
	vt_none(d->cq);
	CHECK(!put(d, 0, 0, b, sizeof(b), sizeof(b), d->mr->rkey, KEY) && !strcmp(d->mem, b), "the next one");
}

static void dc_revoked(void)
{
	enum { DEREG, ACCESS, DESTROY, WRONG_KEY, WAYS };

	for (int way = 0; way < WAYS; way++) {
		struct dc d = { .cq = NULL };
		dc_open(&d);
		uint32_t rkey = d.mr->rkey;
		uint64_t key = KEY;
		enum ibv_wc_status want = IBV_WC_RETRY_EXC_ERR;
		struct ibv_qp_attr a = { .qp_access_flags = IBV_ACCESS_LOCAL_WRITE };
		for (int i = 0; i < 5; i++)
			CHECK(!put(&d, 0, 0, "before", 7, 7, rkey, KEY) && !strcmp(d.mem, "before"), "write %d", i);
		switch (way) {
		case DEREG:
			CHECK(!ibv_dereg_mr(d.mr), "dereg");
			d.mr = NULL;
			want = IBV_WC_REM_ACCESS_ERR;
			break;
		case ACCESS:
			CHECK(!ibv_rereg_mr(d.mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, a.qp_access_flags), "rereg");
			rkey = d.mr->rkey;
			want = IBV_WC_REM_ACCESS_ERR;
			break;
		case DESTROY:
			CHECK(!ibv_destroy_qp(d.dct), "destroy");
			d.dct = NULL;
			break;
		case WRONG_KEY:
			key++;
			break;
		}
		CHECK(!put(&d, 0, 0, "after", 6, 6, rkey, key), "post");
		struct ibv_wc wc = vt_wait(d.cq);
		CHECK(wc.status == want && !strcmp(d.mem, "before"), "way %d: %s, %.8s", way, ibv_wc_status_str(wc.status),
		      d.mem);
		dc_close(&d);
	}
}

/* ---- datagrams --------------------------------------------------------------------------------------------------- */

struct ud {
	struct vt t;
	struct ibv_cq *scq, *rcq;
	struct ibv_qp *a, *b;
	struct ibv_ah *ah;
	char *mem;
	struct ibv_mr *mr;
};

static void ud_open(struct ud *u)
{
	struct ibv_ah_attr aa = { .dlid = 1, .port_num = 1 };

	u->t = vt_open();
	u->scq = vt_cq(&u->t, 64, NULL);
	u->rcq = vt_cq(&u->t, 64, NULL);
	u->a = vt_qp(&u->t, IBV_QPT_UD, u->scq, NULL);
	u->b = vt_qp(&u->t, IBV_QPT_UD, u->rcq, NULL);
	vt_connect(u->a, 0);
	vt_connect(u->b, 0);
	u->ah = ibv_create_ah(u->t.pd, &aa);
	CHECK(u->ah, "create_ah");
	u->mem = shca_alloc(u->t.ctx, BYTES);
	CHECK(u->mem, "shca_alloc");
	u->mr = vt_mr(&u->t, u->mem, BYTES, VT_ACCESS);
}

static void ud_close(struct ud *u)
{
	CHECK(!ibv_destroy_qp(u->a) && (!u->b || !ibv_destroy_qp(u->b)), "destroy");
	CHECK(!ibv_dereg_mr(u->mr) && !shca_free(u->t.ctx, u->mem), "memory");
	CHECK(!ibv_destroy_ah(u->ah) && !ibv_destroy_cq(u->scq) && !ibv_destroy_cq(u->rcq), "destroy");
	vt_close(&u->t);
}

static void ud_send(struct ud *u, uint32_t qpn, uint32_t qkey, const char *data, uint32_t n, bool imm)
{
	struct ibv_sge sge = { .addr = (uintptr_t)data, .length = n };
	struct ibv_send_wr wr = { .wr_id = n, .sg_list = &sge, .num_sge = 1, .opcode = imm ? IBV_WR_SEND_WITH_IMM : IBV_WR_SEND,
				  .send_flags = IBV_SEND_INLINE, .imm_data = htobe32(77),
				  .wr.ud = { .ah = u->ah, .remote_qpn = qpn, .remote_qkey = qkey } }, *bad;

	CHECK(!ibv_post_send(u->a, &wr, &bad), "post");
}

static void ud_got(struct ud *u, uint64_t id, const char *data, uint32_t n, bool imm)
{
	struct ibv_wc wc = vt_expect(u->rcq, id, IBV_WC_SUCCESS);

	CHECK(wc.byte_len == n + 40 && wc.opcode == IBV_WC_RECV && wc.qp_num == u->b->qp_num && wc.src_qp == u->a->qp_num,
	      "%u bytes from %#x to %#x", wc.byte_len, wc.src_qp, wc.qp_num);
	CHECK(wc.wc_flags == (imm ? IBV_WC_WITH_IMM : 0u) && (!imm || wc.imm_data == htobe32(77)), "flags %#x", wc.wc_flags);
	CHECK(!memcmp(u->mem + id * 512 + 40, data, n), "message %lu is wrong", (unsigned long)id);
	CHECK(u->mem[id * 512 + 40 + n] == 0x55 && u->mem[id * 512] == 0x55, "more was written");
}

static void ud_lengths(struct ud *u)
{
	char data[128];

	for (uint32_t n = 0; n <= sizeof(data); n++) {
		uint64_t id = n % 32;
		for (size_t i = 0; i < n; i++)
			data[i] = (char)(i * 11 + n);
		memset(u->mem + id * 512, 0x55, 512);
		CHECK(!vt_recv(u->b, id, vt_sge(u->mr, id * 512, 512)), "recv");
		ud_send(u, u->b->qp_num, VT_QKEY, data, n, n % 5 == 4);
		ud_got(u, id, data, n, n % 5 == 4);
	}
	vt_none(u->scq);
}

/* Receives that are not simple: of two pieces, too short, none at all. */
static void ud_receives(struct ud *u)
{
	struct ibv_sge two[2] = { vt_sge(u->mr, 512, 44), vt_sge(u->mr, 512 + 44, 100) };
	struct ibv_recv_wr wr = { .wr_id = 1, .sg_list = two, .num_sge = 2 }, *bad;

	memset(u->mem, 0x55, 2048);
	CHECK(!ibv_post_recv(u->b, &wr, &bad) && !vt_recv(u->b, 2, vt_sge(u->mr, 1024, 45)), "recv");
	ud_send(u, u->b->qp_num, VT_QKEY, "two pieces", 11, false);
	ud_got(u, 1, "two pieces", 11, false);
	ud_send(u, u->b->qp_num, VT_QKEY, "longer", 7, false);
	vt_expect(u->rcq, 2, IBV_WC_LOC_LEN_ERR);
	ud_send(u, u->b->qp_num, VT_QKEY, "lost", 5, false);
	vt_none(u->rcq);
	vt_none(u->scq);
}

/* Receives that are no plain memory of the fabric: one with a wrong key, alone and in the second segment, and private memory at
 * an address that could be an offset of the fabric. */
static void ud_odd_receives(struct ud *u)
{
	struct ibv_sge bad_second[2] = { vt_sge(u->mr, 512, 100), vt_sge(u->mr, 1024, 100) };
	struct ibv_recv_wr wr = { .wr_id = 1, .sg_list = bad_second }, *bad;
	char *low = mmap((void *)0x100000, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(low != MAP_FAILED, "mmap");
	bad_second[1].lkey ^= 0x5500;
	memset(u->mem, 0x55, 2048);
	for (wr.num_sge = 2; wr.num_sge; wr.num_sge--) {
		CHECK(!ibv_post_recv(u->b, &wr, &bad), "recv");
		ud_send(u, u->b->qp_num, VT_QKEY, "wrong key", 10, false);
		vt_expect(u->rcq, 1, IBV_WC_LOC_PROT_ERR);
		CHECK(memcmp(u->mem + 512 + 40, "wrong key", 10), "a receive whose key is wrong was written to");
		/* a responder with an invalid receive is in ERR */
		CHECK(!vt_to(u->b, IBV_QPS_RESET), "RESET");
		vt_connect(u->b, 0);
		wr.sg_list = &bad_second[1];
		bad_second[1].addr = bad_second[0].addr;
	}
	struct ibv_mr *mr = vt_mr(&u->t, low, 4096, VT_ACCESS);
	CHECK(!vt_recv(u->b, 2, vt_sge(mr, 0, 512)), "recv");
	ud_send(u, u->b->qp_num, VT_QKEY, "private", 8, false);
	vt_expect(u->rcq, 2, IBV_WC_SUCCESS);
	CHECK(!memcmp(low + 40, "private", 8), "private memory was not written to");
	CHECK(!ibv_dereg_mr(mr) && !munmap(low, 4096), "dereg");
}

static void ud_revoked(void)
{
	enum { QKEY, DESTROY, RESET, ERROR, RECEIVE, WAYS };

	for (int way = 0; way < WAYS; way++) {
		struct ud u = { .a = NULL };
		ud_open(&u);
		uint32_t qpn = u.b->qp_num;
		memset(u.mem, 0x55, BYTES);
		for (uint64_t i = 0; i < 8; i++)
			CHECK(!vt_recv(u.b, i, vt_sge(u.mr, i * 512, 512)), "recv");
		for (uint64_t i = 0; i < 4; i++) {
			ud_send(&u, qpn, VT_QKEY, "before", 7, false);
			ud_got(&u, i, "before", 7, false);
		}
		struct ibv_qp_attr a = { .qp_state = IBV_QPS_RTS, .qkey = VT_QKEY + 1 };
		switch (way) {
		case QKEY:
			CHECK(!ibv_modify_qp(u.b, &a, IBV_QP_STATE | IBV_QP_QKEY), "modify");
			break;
		case DESTROY:
			CHECK(!ibv_destroy_qp(u.b), "destroy");
			u.b = NULL;
			break;
		case RESET:
			CHECK(!vt_to(u.b, IBV_QPS_RESET), "reset");
			break;
		case ERROR:
			CHECK(!vt_to(u.b, IBV_QPS_ERR), "error");
			for (uint64_t i = 4; i < 8; i++)
				vt_expect(u.rcq, i, IBV_WC_WR_FLUSH_ERR);
			break;
		case RECEIVE:
			/* the memory of the receives is gone, not the queue */
			CHECK(!ibv_dereg_mr(u.mr), "dereg");
			u.mr = vt_mr(&u.t, u.mem, BYTES, VT_ACCESS);
			break;
		}
		ud_send(&u, qpn, VT_QKEY, "after", 6, false);
		if (way == RECEIVE)
			vt_expect(u.rcq, 4, IBV_WC_LOC_PROT_ERR);
		vt_none(u.rcq);
		vt_none(u.scq);
		CHECK(memcmp(u.mem + 4 * 512 + 40, "after", 6), "way %d: it was written", way);
		if (way == QKEY) {
			ud_send(&u, qpn, VT_QKEY + 1, "again", 6, false);
			ud_got(&u, 4, "again", 6, false);
		}
		ud_close(&u);
	}
}

int main(void)
{
	struct dc d = { .cq = NULL };
	struct ud u = { .a = NULL };

	vt_fabric();
	dc_open(&d);
	dc_lengths(&d);
	dc_lists(&d);
	dc_lengths(&d);
	dc_close(&d);
	dc_revoked();
	ud_open(&u);
	ud_lengths(&u);
	ud_receives(&u);
	ud_lengths(&u);
	ud_odd_receives(&u);
	ud_close(&u);
	ud_revoked();
	return 0;
}
