/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two processes, every queue kind, every operation, both ways to post, both lanes to memory; every byte is checked.
 * The parent requests, the child responds.
 */
#include <fcntl.h>
#include <infiniband/mlx5dv.h>

#include "vt.h"

#define BUF (1 << 20)
#define DC_KEY 0x1122334455667788ull

struct side {
	struct vt t;
	struct vt_peer peer;
	struct ibv_cq *cq;
	struct ibv_srq *srq;
	struct ibv_qp *qp;		/* sends */
	struct ibv_qp *in;		/* receives: = qp but for XRC and DC */
	struct ibv_ah *ah;
	struct mlx5dv_qp_ex *dv;
	struct ibv_xrcd *xrcd;
	char *mem;
	struct ibv_mr *mr;
};
struct address {
	uint32_t qpn, in, srqn, rkey;
	uint64_t addr;
};
enum kind { RC, UC, UD, XRC, DC, KINDS };
static const char *const kind_names[] = { "RC", "UC", "UD", "XRC", "DC" };

static unsigned char pattern(size_t i, unsigned seed)
{
	return (unsigned char)((i * 7 + seed * 31 + (i >> 8)) & 0xff);
}
static void fill(char *p, size_t n, unsigned seed)
{
	for (size_t i = 0; i < n; i++)
		p[i] = (char)pattern(i, seed);
}
static void verify(const char *p, size_t n, unsigned seed, const char *what)
{
	for (size_t i = 0; i < n; i++)
		CHECK((unsigned char)p[i] == pattern(i, seed), "%s: byte %zu of %zu, seed %u", what, i, n, seed);
}

static const uint64_t ops_rc = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_WRITE |
			       IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ |
			       IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;

static struct ibv_qp *create(struct side *s, enum ibv_qp_type type, uint64_t ops, struct ibv_xrcd *xrcd, int dc_type)
{
	struct ibv_qp_init_attr_ex a = {
		.send_cq = s->cq, .recv_cq = s->cq, .srq = type == IBV_QPT_XRC_SEND ? NULL : s->srq, .qp_type = type,
		.cap = { .max_send_wr = 64, .max_send_sge = 4, .max_inline_data = 128 },
		.comp_mask = IBV_QP_INIT_ATTR_PD | (ops ? IBV_QP_INIT_ATTR_SEND_OPS_FLAGS : 0), .pd = s->t.pd,
				.send_ops_flags = ops,
	};
	if (type == IBV_QPT_XRC_RECV) {
		a = (struct ibv_qp_init_attr_ex){ .qp_type = type, .comp_mask = IBV_QP_INIT_ATTR_XRCD, .xrcd = xrcd };
	} else if (dc_type) {
		struct mlx5dv_qp_init_attr dv = { .comp_mask = MLX5DV_QP_INIT_ATTR_MASK_DC,
				.dc_init_attr.dc_type = dc_type };
		if (dc_type == MLX5DV_DCTYPE_DCT)
			dv.dc_init_attr.dct_access_key = DC_KEY;
		else
			a.srq = NULL;
		struct ibv_qp *qp = mlx5dv_create_qp(s->t.ctx, &a, &dv);
		CHECK(qp, "mlx5dv_create_qp %d", dc_type);
		return qp;
	}
	if (!s->srq) {
		a.cap.max_recv_wr = 64;
		a.cap.max_recv_sge = 4;
	}
	struct ibv_qp *qp = ibv_create_qp_ex(s->t.ctx, &a);
	CHECK(qp, "ibv_create_qp_ex %d", type);
	return qp;
}

static void dc_connect(struct side *s)
{
	struct ibv_qp_attr init = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = VT_ACCESS };
	struct ibv_qp_attr rtr = vt_rtr_attr(0), rts = vt_rts_attr();
	const int dct_rtr = IBV_QP_STATE | IBV_QP_PATH_MTU | IBV_QP_AV | IBV_QP_MIN_RNR_TIMER;
	CHECK(ibv_modify_qp(s->in, &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT) == EINVAL,
			"DCT without access");
	CHECK(!ibv_modify_qp(s->in, &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
			"DCT INIT");
	CHECK(!ibv_modify_qp(s->in, &rtr, dct_rtr), "DCT RTR");
	CHECK(ibv_modify_qp(s->in, &rts, VT_RTS_RC) == EINVAL, "a DCT has no RTS");
	CHECK(!ibv_modify_qp(s->qp, &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT), "DCI INIT");
	CHECK(!ibv_modify_qp(s->qp, &rtr, IBV_QP_STATE | IBV_QP_PATH_MTU), "DCI RTR");
	CHECK(!ibv_modify_qp(s->qp, &rts, VT_RTS_RC), "DCI RTS");
}

static struct address open_side(struct side *s, enum kind k, bool arena, bool srq, struct address *peer)
{
	struct address me = { .qpn = 0 };
	struct ibv_ah_attr ah = { .dlid = 1, .port_num = 1 };
	struct ibv_xrcd *xrcd = NULL;

	s->t = vt_open();
	s->cq = vt_cq(&s->t, 1024, NULL);
	s->mem = arena ? shca_alloc(s->t.ctx, BUF) : aligned_alloc(4096, BUF);
	CHECK(s->mem, "memory");
	memset(s->mem, 0, BUF);
	s->mr = vt_mr(&s->t, s->mem, BUF, VT_ACCESS);
	if (k == XRC) {
		struct ibv_xrcd_init_attr x = { .comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
				.fd = 0, .oflags = O_CREAT };
		x.fd = open("/proc/self/exe", O_RDONLY);
		s->xrcd = xrcd = ibv_open_xrcd(s->t.ctx, &x);
		CHECK(xrcd, "ibv_open_xrcd");
		close(x.fd);
		struct ibv_srq_init_attr_ex a = {
			.attr = { .max_wr = 64, .max_sge = 4 }, .srq_type = IBV_SRQT_XRC, .pd = s->t.pd, .xrcd = xrcd,
					.cq = s->cq,
			.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD |
					IBV_SRQ_INIT_ATTR_CQ,
		};
		s->srq = ibv_create_srq_ex(s->t.ctx, &a);
		CHECK(s->srq && !ibv_get_srq_num(s->srq, &me.srqn), "XRC SRQ");
		CHECK(ibv_close_xrcd(xrcd) == EBUSY, "the XRC domain is in use");
		s->in = create(s, IBV_QPT_XRC_RECV, 0, xrcd, 0);
		s->qp = create(s, IBV_QPT_XRC_SEND, ops_rc, NULL, 0);
	} else {
		if (srq || k == DC) {
			struct ibv_srq_init_attr i = { .attr = { .max_wr = 64, .max_sge = 4 } };
			s->srq = ibv_create_srq(s->t.pd, &i);
			CHECK(s->srq, "srq");
		}
		if (k == DC) {
			s->in = create(s, IBV_QPT_DRIVER, 0, NULL, MLX5DV_DCTYPE_DCT);
			s->qp = create(s, IBV_QPT_DRIVER, ops_rc, NULL, MLX5DV_DCTYPE_DCI);
			s->dv = mlx5dv_qp_ex_from_ibv_qp_ex(ibv_qp_to_qp_ex(s->qp));
			CHECK(s->dv && s->dv->wr_set_dc_addr, "mlx5dv_qp_ex");
		} else {
			const uint64_t ud = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;
			s->qp = s->in = create(s, k == RC ? IBV_QPT_RC : k == UC ? IBV_QPT_UC : IBV_QPT_UD,
					       k == RC ? ops_rc : k == UC ? ud | IBV_QP_EX_WITH_RDMA_WRITE |
							IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM : ud,
					       NULL, 0);
		}
	}
	s->ah = ibv_create_ah(s->t.pd, &ah);
	CHECK(s->ah, "ah");
	me.qpn = s->qp->qp_num;
	me.rkey = s->mr->rkey;
	me.addr = (uintptr_t)s->mem;
	me.in = s->in->qp_num;
	if (k == DC) {
		dc_connect(s);
		me.in = s->in->qp_num;
	}
	vt_tell(&s->peer, &me, sizeof me);
	vt_hear(&s->peer, peer, sizeof *peer);
	if (k == XRC)
		vt_connect(s->in, peer->qpn);
	if (k != DC)
		vt_connect(s->qp, k == XRC ? peer->in : peer->qpn);
	vt_meet(&s->peer);
	return me;
}

static void post_receive(struct side *s, uint64_t id, size_t at, uint32_t n)
{
	int err = s->srq ? vt_srq_recv(s->srq, id, vt_sge(s->mr, at, n)) : vt_recv(s->in, id, vt_sge(s->mr, at, n));
	CHECK(!err, "post receive: %d", err);
}

/* The setters of a request beside its operation: address and data, by ibv_wr_*. */
static void wr_rest(struct side *s, enum kind k, const struct address *to, const struct ibv_sge *sge, int n, bool inl)
{
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(s->qp);
	if (k == UD)
		ibv_wr_set_ud_addr(ex, s->ah, to->qpn, VT_QKEY);
	if (k == XRC)
		ibv_wr_set_xrc_srqn(ex, to->srqn);
	/* of an initiator without streams the number of one says nothing */
	if (k == DC && inl)
		mlx5dv_wr_set_dc_addr_stream(s->dv, s->ah, to->in, DC_KEY, 0xffff);
	else if (k == DC)
		mlx5dv_wr_set_dc_addr(s->dv, s->ah, to->in, DC_KEY);
	if (inl)
		ibv_wr_set_inline_data(ex, (void *)(uintptr_t)sge->addr, sge->length);
	else if (n == 1)
		ibv_wr_set_sge(ex, sge->lkey, sge->addr, sge->length);
	else
		ibv_wr_set_sge_list(ex, (size_t)n, sge);
}

enum op { SEND, SEND_IMM, WRITE, WRITE_IMM, READ, CAS, FAA };

/* One request of s->qp; by the extended interface, or the plain one where the kind has it. */
static void request(struct side *s, enum kind k, const struct address *to, enum op op, uint64_t id,
		const struct ibv_sge *sge, int n,
		    uint64_t raddr, uint64_t x, uint64_t y, bool inl, bool ex_api)
{
	static const enum ibv_wr_opcode codes[] = {
		[SEND] = IBV_WR_SEND, [SEND_IMM] = IBV_WR_SEND_WITH_IMM, [WRITE] = IBV_WR_RDMA_WRITE,
		[WRITE_IMM] = IBV_WR_RDMA_WRITE_WITH_IMM, [READ] = IBV_WR_RDMA_READ, [CAS] = IBV_WR_ATOMIC_CMP_AND_SWP,
		[FAA] = IBV_WR_ATOMIC_FETCH_AND_ADD,
	};
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(s->qp);
	if (ex_api || k == DC) {
		ibv_wr_start(ex);
		ex->wr_id = id;
		ex->wr_flags = IBV_SEND_SIGNALED | (inl ? IBV_SEND_INLINE : 0);
		switch (op) {
		case SEND: ibv_wr_send(ex); break;
		case SEND_IMM: ibv_wr_send_imm(ex, htobe32((uint32_t)id)); break;
		case WRITE: ibv_wr_rdma_write(ex, to->rkey, raddr); break;
		case WRITE_IMM: ibv_wr_rdma_write_imm(ex, to->rkey, raddr, htobe32((uint32_t)id)); break;
		case READ: ibv_wr_rdma_read(ex, to->rkey, raddr); break;
		case CAS: ibv_wr_atomic_cmp_swp(ex, to->rkey, raddr, x, y); break;
		case FAA: ibv_wr_atomic_fetch_add(ex, to->rkey, raddr, x); break;
		}
		wr_rest(s, k, to, sge, n, inl);
		int err = ibv_wr_complete(ex);
		CHECK(!err, "ibv_wr_complete op %d: %d", op, err);
		return;
	}
	struct ibv_send_wr wr = { .wr_id = id, .sg_list = (struct ibv_sge *)(uintptr_t)sge, .num_sge = n,
			.opcode = codes[op],
				  .send_flags = IBV_SEND_SIGNALED | (inl ? IBV_SEND_INLINE : 0),
						.imm_data = htobe32((uint32_t)id) }, *bad;
	if (k == UD) {
		wr.wr.ud.ah = s->ah;
		wr.wr.ud.remote_qpn = to->qpn;
		wr.wr.ud.remote_qkey = VT_QKEY;
	} else if (op == CAS || op == FAA) {
		wr.wr.atomic.remote_addr = raddr;
		wr.wr.atomic.rkey = to->rkey;
		wr.wr.atomic.compare_add = x;
		wr.wr.atomic.swap = y;
	} else {
		wr.wr.rdma.remote_addr = raddr;
		wr.wr.rdma.rkey = to->rkey;
	}
	if (k == XRC)
		wr.qp_type.xrc.remote_srqn = to->srqn;
	int err = ibv_post_send(s->qp, &wr, &bad);
	CHECK(!err, "ibv_post_send op %d: %d", op, err);
}

static const uint32_t sizes[] = { 0, 1, 7, 8, 63, 64, 65, 128, 1000, 4056, 65536, 300001 };
#define NSIZES (sizeof sizes / sizeof *sizes)

static bool fits(enum kind k, uint32_t n)
{
	return k != UD || n <= 4056;
}

/* Messages of all sizes: from three segments with holes, into a receive; with immediate on every other. */
static void sends(struct side *s, enum kind k, const struct address *to, bool ex_api, bool inl)
{
	const uint32_t grh = k == UD ? 40 : 0;
	for (unsigned i = 0; i < NSIZES; i++) {
		uint32_t n = sizes[i];
		if (!fits(k, n) || (inl && n > 128))
			continue;
		if (!s->peer.child) {
			post_receive(s, 100 + i, 0, n + grh ? n + grh : 1);
			vt_meet(&s->peer);
			struct ibv_wc wc = vt_expect(s->cq, 100 + i, IBV_WC_SUCCESS);
			CHECK(wc.byte_len == n + grh && (wc.opcode & IBV_WC_RECV), "byte_len %u of %u", wc.byte_len,
					n + grh);
			CHECK(i % 2 ? (wc.wc_flags & IBV_WC_WITH_IMM) &&
					be32toh(wc.imm_data) == i + 1 : !(wc.wc_flags & IBV_WC_WITH_IMM),
			      "immediate %u", be32toh(wc.imm_data));
			CHECK(wc.qp_num == s->in->qp_num, "qp_num %u", wc.qp_num);
			verify(s->mem + grh, n, i, "send");
			vt_meet(&s->peer);
			continue;
		}
		uint32_t a = n / 3, b = n / 2;
		struct ibv_sge sge[3] = { vt_sge(s->mr, 0, inl ? n : a), vt_sge(s->mr, 400000, b - a), vt_sge(s->mr,
				700001, n - b) };
		if (inl || k == DC) {
			sge[0].length = n;
			fill(s->mem, n, i);
		} else {
			char *whole = malloc(n + 1);
			fill(whole, n, i);
			memcpy(s->mem, whole, a);
			memcpy(s->mem + 400000, whole + a, b - a);
			memcpy(s->mem + 700001, whole + b, n - b);
			free(whole);
		}
		vt_meet(&s->peer);
		request(s, k, to, i % 2 ? SEND_IMM : SEND, i + 1, sge, inl || k == DC ? 1 : 3, 0, 0, 0, inl, ex_api);
		struct ibv_wc wc = vt_expect(s->cq, i + 1, IBV_WC_SUCCESS);
		CHECK(wc.opcode == IBV_WC_SEND, "opcode %d", wc.opcode);
		vt_meet(&s->peer);
	}
}

static void writes(struct side *s, enum kind k, const struct address *to, bool ex_api)
{
	for (unsigned i = 0; i < NSIZES; i++) {
		uint32_t n = sizes[i];
		bool imm = i % 2;
		if (!s->peer.child) {
			memset(s->mem, 0xee, n + 16);
			if (imm)
				post_receive(s, 200 + i, BUF - 64, 16);
			vt_meet(&s->peer);
			if (imm) {
				struct ibv_wc wc = vt_expect(s->cq, 200 + i, IBV_WC_SUCCESS);
				CHECK(wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM && wc.byte_len == n &&
						be32toh(wc.imm_data) == 300 + i,
				      "opcode %d len %u", wc.opcode, wc.byte_len);
			}
			vt_meet(&s->peer);
			verify(s->mem + 8, n, i, "write");
			for (int e = 0; e < 8; e++)
				CHECK((unsigned char)s->mem[e] == 0xee &&
						(unsigned char)s->mem[n + 8 + (unsigned)e] == 0xee, "outside");
			vt_meet(&s->peer);
			continue;
		}
		fill(s->mem, n, i);
		struct ibv_sge sge = vt_sge(s->mr, 0, n);
		vt_meet(&s->peer);
		request(s, k, to, imm ? WRITE_IMM : WRITE, 300 + i, &sge, 1, to->addr + 8, 0, 0, false, ex_api);
		struct ibv_wc wc = vt_expect(s->cq, 300 + i, IBV_WC_SUCCESS);
		CHECK(wc.opcode == IBV_WC_RDMA_WRITE, "opcode %d", wc.opcode);
		vt_meet(&s->peer);
		vt_meet(&s->peer);
	}
}

static void reads_atomics(struct side *s, enum kind k, const struct address *to, bool ex_api)
{
	uint64_t *word = (uint64_t *)(s->mem + 8192);
	if (!s->peer.child) {
		fill(s->mem, 300001, 42);
		word[0] = 5;
		vt_meet(&s->peer);
		vt_meet(&s->peer);
		CHECK(word[0] == 77, "the word is %lu", (unsigned long)word[0]);
		vt_meet(&s->peer);
		return;
	}
	vt_meet(&s->peer);
	struct ibv_sge sge = vt_sge(s->mr, 0, 8192);
	request(s, k, to, READ, 1, &sge, 1, to->addr, 0, 0, false, ex_api);
	CHECK(vt_expect(s->cq, 1, IBV_WC_SUCCESS).opcode == IBV_WC_RDMA_READ, "opcode");
	verify(s->mem, 8192, 42, "read");
	sge = vt_sge(s->mr, 16384, 8);
	uint64_t *old = (uint64_t *)(s->mem + 16384);
	request(s, k, to, FAA, 2, &sge, 1, to->addr + 8192, 10, 0, false, ex_api);
	CHECK(vt_expect(s->cq, 2, IBV_WC_SUCCESS).opcode == IBV_WC_FETCH_ADD && *old == 5, "fetch-and-add gave %lu",
			(unsigned long)*old);
	request(s, k, to, CAS, 3, &sge, 1, to->addr + 8192, 14, 99, false, ex_api);
	CHECK(vt_expect(s->cq, 3, IBV_WC_SUCCESS).opcode == IBV_WC_COMP_SWAP && *old == 15,
			"compare-and-swap gave %lu", (unsigned long)*old);
	request(s, k, to, CAS, 4, &sge, 1, to->addr + 8192, 15, 77, false, ex_api);
	vt_expect(s->cq, 4, IBV_WC_SUCCESS);
	CHECK(*old == 15, "compare-and-swap gave %lu", (unsigned long)*old);
	vt_meet(&s->peer);
	vt_meet(&s->peer);
}

/* Implicit on-demand paging: a key for all that the process has, or will have. */
static void implicit(struct side *s, enum kind k)
{
	struct address me, to;
	struct ibv_mr *all = ibv_reg_mr(s->t.pd, NULL, SIZE_MAX, VT_ACCESS | IBV_ACCESS_ON_DEMAND);
	CHECK(all, "implicit region");
	char *late = malloc(20000);
	memset(late, 0, 20000);
	me = (struct address){ .rkey = all->rkey, .addr = (uintptr_t)late, .srqn = 0 };
	vt_tell(&s->peer, &me, sizeof me);
	vt_hear(&s->peer, &to, sizeof to);
	if (s->peer.child) {
		struct ibv_sge sge = { .addr = (uintptr_t)late, .length = 20000, .lkey = all->lkey };
		fill(late, 20000, 9);
		request(s, k, &to, WRITE, 1, &sge, 1, to.addr, 0, 0, false, false);
		vt_expect(s->cq, 1, IBV_WC_SUCCESS);
		vt_meet(&s->peer);
	} else {
		vt_meet(&s->peer);
		verify(late, 20000, 9, "implicit region");
	}
	vt_meet(&s->peer);
	CHECK(!ibv_dereg_mr(all), "dereg");
	free(late);
}

/* A wrong DC key names no target: the initiator gives up; other initiators go on. */
static void wrong_key(struct side *s, const struct address *to)
{
	if (s->peer.child) {
		struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(s->qp);
		ibv_wr_start(ex);
		ex->wr_id = 1;
		ex->wr_flags = IBV_SEND_SIGNALED;
		ibv_wr_rdma_write(ex, to->rkey, to->addr);
		mlx5dv_wr_set_dc_addr(s->dv, s->ah, to->in, DC_KEY + 1);
		ibv_wr_set_sge(ex, s->mr->lkey, (uintptr_t)s->mem, 8);
		CHECK(!ibv_wr_complete(ex), "post");
		vt_expect(s->cq, 1, IBV_WC_RETRY_EXC_ERR);
	}
	vt_meet(&s->peer);
}

static void run(enum kind k, bool arena, bool srq)
{
	struct side s = { .cq = NULL };
	struct address to;

	s.peer = vt_fork();
	open_side(&s, k, arena, srq, &to);
	for (int ex_api = 0; ex_api < 2; ex_api++) {
		sends(&s, k, &to, ex_api, false);
		sends(&s, k, &to, ex_api, true);
		if (k != UD)
			writes(&s, k, &to, ex_api);
		if (k != UD && k != UC)
			reads_atomics(&s, k, &to, ex_api);
	}
	if (k == RC)
		implicit(&s, k);
	if (k == DC)
		wrong_key(&s, &to);
	vt_none(s.cq);
	CHECK(!ibv_destroy_ah(s.ah), "destroy AH");
	CHECK(!ibv_destroy_qp(s.qp), "destroy QP");
	CHECK(s.in == s.qp || !ibv_destroy_qp(s.in), "destroy QP");
	CHECK(!s.srq || !ibv_destroy_srq(s.srq), "destroy SRQ");
	CHECK(!ibv_dereg_mr(s.mr), "dereg");
	CHECK(!s.xrcd || !ibv_close_xrcd(s.xrcd), "close XRCD");
	if (arena)
		CHECK(!shca_free(s.t.ctx, s.mem), "shca_free");
	else
		free(s.mem);
	CHECK(!ibv_destroy_cq(s.cq), "destroy CQ");
	vt_close(&s.t);
	if (!s.peer.child)
		exit(0);
	vt_join(&s.peer);
	printf("%s %s%s\n", kind_names[k], arena ? "arena" : "private", srq ? " SRQ" : "");
}

int main(void)
{
	vt_fabric();
	setvbuf(stdout, NULL, _IOLBF, 0);
	for (int arena = 0; arena < 2; arena++) {
		for (enum kind k = RC; k < KINDS; k++)
			run(k, arena, false);
		run(RC, arena, true);
		run(UD, arena, true);
	}
	return 0;
}
