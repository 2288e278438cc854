/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The software HCA as a ConnectX (SHCA_IDENTITY=connectx): its attributes, raw work requests of every kind, and the refusal of
 * every WQE in which a reserved or fixed bit differs. The bytes come from the encoder; the encoder's test
 * (tests/unit/exp_mlx5_wqe) has them by hand.
 */
#include <infiniband/mlx5dv.h>

#include "base/base.h"
#include "verbs_exp/mlx5_wqe.h"
#include "vt.h"

static struct vt t;
static struct ibv_cq *cq;
static char *mem;
static struct ibv_mr *mr;

static uint32_t create_flags;		/* IBV_EXP_QP_CREATE_* of the next queue */
static struct ibv_qp *make(enum ibv_qp_type type, uint64_t dv_ops)
{
	struct mlx5dv_qp_init_attr dv = {
		.comp_mask = MLX5DV_QP_INIT_ATTR_MASK_SEND_OPS_FLAGS | MLX5DV_QP_INIT_ATTR_MASK_QP_CREATE_FLAGS,
		.create_flags = MLX5DV_QP_CREATE_DISABLE_SCATTER_TO_CQE, .send_ops_flags = dv_ops};
	struct ibv_qp_init_attr_ex a = {
		.send_cq = cq, .recv_cq = cq, .qp_type = type, .pd = t.pd,
		.cap = {.max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 2, .max_recv_sge = 2, .max_inline_data = 100},
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS | IBV_QP_INIT_ATTR_CREATE_FLAGS,
		.send_ops_flags = IBV_QP_EX_WITH_SEND, .create_flags = create_flags};

	return mlx5dv_create_qp(t.ctx, &a, &dv);
}

static int post_bytes(struct ibv_qp *qp, uint64_t id, const uint8_t *wqe)
{
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(qp);

	ibv_wr_start(ex);
	ex->wr_id = id;
	mlx5dv_wr_raw_wqe(mlx5dv_qp_ex_from_ibv_qp_ex(ex), wqe);
	return ibv_wr_complete(ex);
}

static int encode(struct ibv_qp *qp, const struct ibv_exp_send_wr *wr, uint8_t *wqe)
{
	struct exp_mlx5_place at = {.qpn = qp->qp_num, .type = qp->qp_type};
	int n = exp_mlx5_encode(&at, wr, wqe);

	CHECK(n > 0, "encoding opcode %d: %d", wr->exp_opcode, n);
	return n;
}

/* Posts the request, and waits for the completion: opcode IBV_WC_DRIVER2 for every raw request. */
static void run(struct ibv_qp *qp, const struct ibv_exp_send_wr *wr)
{
	uint8_t wqe[EXP_MLX5_WQE_MAX];

	encode(qp, wr, wqe);
	CHECK(!post_bytes(qp, wr->wr_id, wqe), "opcode %d", wr->exp_opcode);
	struct ibv_wc wc = vt_wait(cq);
	CHECK(wc.wr_id == wr->wr_id && wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_DRIVER2, "opcode %d: id %lu, %s, %d",
	      wr->exp_opcode, (unsigned long)wc.wr_id, ibv_wc_status_str(wc.status), wc.opcode);
}

static struct ibv_sge sge[2];
static struct ibv_exp_send_wr request(enum ibv_exp_wr_opcode op, uint64_t flags, int num_sge)
{
	static uint64_t id = 1000;
	struct ibv_exp_send_wr wr = {.wr_id = ++id, .exp_opcode = op, .exp_send_flags = flags | IBV_EXP_SEND_SIGNALED,
				     .sg_list = sge, .num_sge = num_sge};

	return wr;
}

/* ---- identity ------------------------------------------------------------------------------------------------------- */

static void identity(bool connectx)
{
	struct ibv_device_attr a;

	CHECK(!ibv_query_device(t.ctx, &a), "ibv_query_device");
	CHECK((a.vendor_id == 0x02c9) == connectx, "vendor %#x", a.vendor_id);
	CHECK(!connectx || a.vendor_part_id == 4123, "part %u", a.vendor_part_id);
	CHECK(mlx5dv_is_supported(t.ctx->device) == connectx, "mlx5dv_is_supported");
	struct ibv_srq_init_attr sa = {.attr = {.max_wr = 1, .max_sge = 1}};
	struct ibv_srq *srq = ibv_create_srq(t.pd, &sa);
	uint32_t number = 0;
	CHECK(srq && ibv_get_srq_num(srq, &number) == (connectx ? 0 : EOPNOTSUPP) && !number == !connectx,
	      "an SRQ's number, %#x", number);
	CHECK(!ibv_destroy_srq(srq), "destroy");
	struct ibv_qp *qp = make(IBV_QPT_RC, MLX5DV_QP_EX_WITH_RAW_WQE);
	CHECK(!!qp == connectx && (qp || errno == EOPNOTSUPP), "a queue with raw work requests");
	if (qp)
		CHECK(!ibv_destroy_qp(qp), "destroy");
	CHECK(!make(IBV_QPT_RC, MLX5DV_QP_EX_WITH_RAW_WQE | MLX5DV_QP_EX_WITH_MEMCPY) && errno == EOPNOTSUPP, "MEMCPY");
}

/* The size of completion entries: by attribute, else by libmlx5's variable, which is read of a ConnectX only. */
static void entries(bool connectx)
{
	const struct { const char *variable; uint16_t size; bool good;
	} ways[] = {
		{NULL, 0, true},  {NULL, 64, true},  {NULL, 128, true}, {NULL, 100, false},  {"64", 0, true},
		{"128", 0, true}, {"100", 0, false}, {"100", 64, true}, {"128", 100, false}, {"", 0, false},
	};

	for (size_t i = 0; i < ARRAY_SIZE(ways); i++) {
		struct ibv_cq_init_attr_ex a = {.cqe = 4, .wc_flags = IBV_WC_STANDARD_FLAGS};
		struct mlx5dv_cq_init_attr dv = {.comp_mask = ways[i].size ? MLX5DV_CQ_INIT_ATTR_MASK_CQE_SIZE : 0,
						 .cqe_size = ways[i].size ? ways[i].size : 77};
		bool good = ways[i].good || (!connectx && !ways[i].size);

		if (ways[i].variable)
			setenv("MLX5_CQE_SIZE", ways[i].variable, 1);
		struct ibv_cq_ex *ex = mlx5dv_create_cq(t.ctx, &a, &dv);
		CHECK(!!ex == good && (ex || errno == EINVAL), "entries of %u bytes, MLX5_CQE_SIZE %s", ways[i].size,
		      ways[i].variable);
		CHECK(!ex || !ibv_destroy_cq(ibv_cq_ex_to_cq(ex)), "destroy");
		unsetenv("MLX5_CQE_SIZE");
	}
}

/* libmlx5's variables for where queues lie: huge pages cannot be had, and may be wished for. */
static void pages(bool connectx)
{
	static const char *const variables[] = {"MLX_CQ_ALLOC_TYPE", "MLX_QP_ALLOC_TYPE", "MLX_SRQ_ALLOC_TYPE"};

	for (size_t i = 0; i < 2 * ARRAY_SIZE(variables); i++) {
		const bool huge = i < ARRAY_SIZE(variables), good = !huge || !connectx;
		struct ibv_srq_init_attr sa = {.attr = {.max_wr = 1, .max_sge = 1}};
		struct ibv_qp_init_attr qa = {.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC};
		const char *variable = variables[i % ARRAY_SIZE(variables)];

		setenv(variable, huge ? "HUGE" : "PREFER_HUGE", 1);
		errno = 0;
		struct ibv_cq *q = ibv_create_cq(t.ctx, 1, NULL, NULL, 0);
		struct ibv_srq *srq = ibv_create_srq(t.pd, &sa);
		struct ibv_qp *qp = ibv_create_qp(t.pd, &qa);
		bool made = q && srq && qp;
		CHECK(made == good && (made || errno == ENOMEM) && !!q + !!srq + !!qp == 2 + good, "%s", variable);
		CHECK((!q || !ibv_destroy_cq(q)) && (!srq || !ibv_destroy_srq(srq)) && (!qp || !ibv_destroy_qp(qp)), "destroy");
		unsetenv(variable);
	}
}

/* ---- effects --------------------------------------------------------------------------------------------------- */

static void sends(struct ibv_qp *qp)
{
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(qp);
	uint8_t wqe[EXP_MLX5_WQE_MAX];

	strcpy(mem, "abcdefgh");
	sge[0] = vt_sge(mr, 0, 4);
	sge[1] = vt_sge(mr, 6, 2);
	CHECK(!vt_recv(qp, 1, vt_sge(mr, 1024, 64)), "receive");
	struct ibv_exp_send_wr wr = request(IBV_EXP_WR_SEND_WITH_IMM, 0, 2);
	wr.ex.imm_data = htobe32(77);
	encode(qp, &wr, wqe);
	CHECK(!post_bytes(qp, 2, wqe), "post");
	for (int i = 0; i < 2; i++) {
		struct ibv_wc wc = vt_wait(cq);
		CHECK(wc.status == IBV_WC_SUCCESS, "%lu: %s", (unsigned long)wc.wr_id, ibv_wc_status_str(wc.status));
		if (wc.wr_id == 1)
			CHECK(wc.opcode == IBV_WC_RECV && wc.byte_len == 6 && wc.imm_data == htobe32(77), "the receive");
		else
			CHECK(wc.wr_id == 2 && wc.opcode == IBV_WC_DRIVER2, "the send");
	}
	CHECK(!memcmp(mem + 1024, "abcdgh", 6), "data");

	/* several, of both interfaces, in order, by one call */
	CHECK(!vt_recv(qp, 1, vt_sge(mr, 1024, 64)) && !vt_recv(qp, 1, vt_sge(mr, 1088, 64)), "receives");
	wr = request(IBV_EXP_WR_SEND, 0, 1);
	encode(qp, &wr, wqe);
	ibv_wr_start(ex);
	ex->wr_id = 3;
	mlx5dv_wr_raw_wqe(mlx5dv_qp_ex_from_ibv_qp_ex(ex), wqe);
	ex->wr_id = 4;
	ex->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_send(ex);
	ibv_wr_set_sge(ex, sge[1].lkey, sge[1].addr, sge[1].length);
	CHECK(!ibv_wr_complete(ex), "two");
	for (int i = 0; i < 4; i++) {
		struct ibv_wc wc = vt_wait(cq);
		CHECK(wc.status == IBV_WC_SUCCESS && (wc.wr_id != 3 || wc.opcode == IBV_WC_DRIVER2) &&
			      (wc.wr_id != 4 || wc.opcode == IBV_WC_SEND), "%lu: opcode %d", (unsigned long)wc.wr_id, wc.opcode);
	}
	CHECK(!memcmp(mem + 1024, "abcd", 4) && !memcmp(mem + 1088, "gh", 2), "data of two");

	/* one that is refused takes all with it, and leaves nothing behind */
	ibv_wr_start(ex);
	mlx5dv_wr_raw_wqe(mlx5dv_qp_ex_from_ibv_qp_ex(ex), wqe);
	wqe[9] = 1;
	mlx5dv_wr_raw_wqe(mlx5dv_qp_ex_from_ibv_qp_ex(ex), wqe);
	CHECK(ibv_wr_complete(ex) == EINVAL, "a bad one");
	ibv_wr_start(ex);
	mlx5dv_wr_raw_wqe(mlx5dv_qp_ex_from_ibv_qp_ex(ex), wqe);
	ibv_wr_abort(ex);
	vt_none(cq);
	wr = request(IBV_EXP_WR_NOP, 0, 0);
	run(qp, &wr);
}

static void rdma(struct ibv_qp *qp)
{
	struct ibv_exp_send_wr wr = request(IBV_EXP_WR_RDMA_WRITE, IBV_EXP_SEND_INLINE, 2);

	wr.wr.rdma.remote_addr = (uintptr_t)mem + 2048;
	wr.wr.rdma.rkey = mr->rkey;
	sge[0] = (struct ibv_sge){.addr = (uintptr_t)"inline ", .length = 7};
	sge[1] = (struct ibv_sge){.addr = (uintptr_t)"data", .length = 4};
	run(qp, &wr);
	CHECK(!memcmp(mem + 2048, "inline data", 11), "inline data");
	sge[0] = vt_sge(mr, 3000, 11);
	wr.exp_opcode = IBV_EXP_WR_RDMA_READ;
	wr.exp_send_flags = IBV_EXP_SEND_SIGNALED;
	wr.num_sge = 1;
	run(qp, &wr);
	CHECK(!memcmp(mem + 3000, "inline data", 11), "read");
	wr.exp_opcode = IBV_EXP_WR_RDMA_WRITE;
	wr.wr.rdma.remote_addr += 100;
	run(qp, &wr);
	CHECK(!memcmp(mem + 2148, "inline data", 11), "write");
}

static void atomics(struct ibv_qp *qp)
{
	uint64_t *word = (uint64_t *)(mem + 512), *result = (uint64_t *)(mem + 768);
	struct ibv_exp_send_wr wr = request(IBV_EXP_WR_ATOMIC_FETCH_AND_ADD, 0, 1);

	sge[0] = vt_sge(mr, 768, 8);
	*word = 5;
	wr.wr.atomic.remote_addr = (uintptr_t)word;
	wr.wr.atomic.rkey = mr->rkey;
	wr.wr.atomic.compare_add = 10;
	run(qp, &wr);
	CHECK(*word == 15 && *result == 5, "FAA: %lu, %lu", (unsigned long)*word, (unsigned long)*result);
	wr.exp_opcode = IBV_EXP_WR_ATOMIC_CMP_AND_SWP;
	wr.wr.atomic.compare_add = 15;
	wr.wr.atomic.swap = 99;
	run(qp, &wr);
	CHECK(*word == 99 && *result == 15, "CAS: %lu, %lu", (unsigned long)*word, (unsigned long)*result);

	wr = request(IBV_EXP_WR_EXT_MASKED_ATOMIC_CMP_AND_SWP, IBV_EXP_SEND_EXT_ATOMIC_INLINE, 1);
	wr.ext_op.masked_atomics.remote_addr = (uintptr_t)word;
	wr.ext_op.masked_atomics.rkey = mr->rkey;
	wr.ext_op.masked_atomics.log_arg_sz = 3;
	wr.ext_op.masked_atomics.wr_data.inline_data.op.cmp_swap = (struct ibv_exp_cmp_swap){
		.compare_val = 3, .compare_mask = 0xf, .swap_val = 0x1200, .swap_mask = 0xff00};
	run(qp, &wr);
	CHECK(*word == 0x1263 && *result == 99, "masked CAS: %#lx, %lu", (unsigned long)*word, (unsigned long)*result);
	wr.exp_opcode = IBV_EXP_WR_EXT_MASKED_ATOMIC_FETCH_AND_ADD;
	wr.ext_op.masked_atomics.log_arg_sz = 2;
	wr.ext_op.masked_atomics.wr_data.inline_data.op.fetch_add =
		(struct ibv_exp_fetch_add){.add_val = 0xffff, .field_boundary = 0x8000};
	sge[0].length = 4;
	run(qp, &wr);
	/* as of a ConnectX: results of 8 bytes are in the host's order, all other results in network order */
	CHECK(*word == 0x1262 && be32toh((uint32_t)*result) == 0x1263, "masked FAA: %#lx, %#lx", (unsigned long)*word,
	      (unsigned long)*result);

	uint64_t add[2] = {1, 2}, boundary[2] = {0, 0};
	word[1] = 7;
	wr.ext_op.masked_atomics.log_arg_sz = 4;
	wr.ext_op.masked_atomics.wr_data.inline_data.op.fetch_add =
		(struct ibv_exp_fetch_add){.add_val = (uintptr_t)add, .field_boundary = (uintptr_t)boundary};
	sge[0].length = 16;
	run(qp, &wr);
	CHECK(word[0] == 0x1263 && word[1] == 9 && be64toh(result[0]) == 0x1262 && be64toh(result[1]) == 7,
	      "of 16 bytes: %#lx %lu", (unsigned long)word[0], (unsigned long)word[1]);
}

static void calc_needs_cross(struct ibv_qp *qp)
{
	struct ibv_exp_send_wr wr = request(IBV_EXP_WR_SEND, IBV_EXP_SEND_WITH_CALC, 1);
	uint8_t wqe[EXP_MLX5_WQE_MAX];

	sge[0] = vt_sge(mr, 0, 32);
	encode(qp, &wr, wqe);
	CHECK(post_bytes(qp, 1, wqe) == EINVAL, "CALC on a queue that is not cross-channel");
}

/* ---- cross-channel -------------------------------------------------------------------------------------------------- */

static int post_cross(struct ibv_qp *qp, enum ibv_exp_wr_opcode op, uint32_t object, uint32_t index)
{
	struct exp_mlx5_place at = {.qpn = qp->qp_num, .type = qp->qp_type, .object = object, .index = index};
	struct ibv_exp_send_wr wr = {.exp_opcode = op};
	uint8_t wqe[EXP_MLX5_WQE_MAX];

	CHECK(exp_mlx5_encode(&at, &wr, wqe) == 32, "encoding");
	return post_bytes(qp, 90, wqe);
}

/* Lists of two queues that are built at once, with other calls in between: an open list excludes no other call. */
static void two_lists(struct ibv_qp *a, struct ibv_qp *b)
{
	struct ibv_exp_send_wr nop = request(IBV_EXP_WR_NOP, 0, 0);
	struct ibv_qp_ex *ex[2] = {ibv_qp_to_qp_ex(a), ibv_qp_to_qp_ex(b)};
	struct ibv_qp *both[2] = {a, b}, *passing = vt_qp(&t, IBV_QPT_RC, cq, NULL);
	uint8_t wqe[EXP_MLX5_WQE_MAX];

	for (int i = 0; i < 2; i++) {
		ibv_wr_start(ex[i]);
		ex[i]->wr_id = 60 + (uint64_t)i;
		encode(both[i], &nop, wqe);
		mlx5dv_wr_raw_wqe(mlx5dv_qp_ex_from_ibv_qp_ex(ex[i]), wqe);
	}
	CHECK(!ibv_destroy_qp(passing), "destroy");
	for (int i = 0; i < 2; i++) {
		CHECK(!ibv_wr_complete(ex[i]), "complete");
		vt_expect(cq, 60 + (uint64_t)i, IBV_WC_SUCCESS);
	}
}

/* A WAIT ends when the CQ has had so many completions in all, and later requests run; an ENABLE lets the enabled requests run. */
static void wait_and_enable(void)
{
	struct ibv_cq *other = vt_cq(&t, 16, NULL);
	struct ibv_exp_send_wr nop = request(IBV_EXP_WR_NOP, 0, 0);
	uint8_t wqe[EXP_MLX5_WQE_MAX];

	create_flags = IBV_EXP_QP_CREATE_CROSS_CHANNEL;
	struct ibv_qp *q = make(IBV_QPT_RC, MLX5DV_QP_EX_WITH_RAW_WQE);
	struct ibv_qp *second = make(IBV_QPT_RC, MLX5DV_QP_EX_WITH_RAW_WQE);
	create_flags |= IBV_EXP_QP_CREATE_MANAGED_SEND;
	struct ibv_qp *m = make(IBV_QPT_RC, MLX5DV_QP_EX_WITH_RAW_WQE);
	create_flags = 0;
	struct ibv_qp *tick = vt_qp(&t, IBV_QPT_RC, other, NULL);
	CHECK(q && m && second, "cross-channel queues");
	vt_connect(second, second->qp_num);
	vt_connect(q, q->qp_num);
	vt_connect(m, m->qp_num);
	vt_connect(tick, tick->qp_num);

	two_lists(q, second);

	uint32_t cqn = other->handle;
	/* before the first completion there was none to wait for */
	encode(q, &nop, wqe);
	CHECK(!post_cross(q, IBV_EXP_WR_CQE_WAIT, cqn, UINT32_MAX) && !post_bytes(q, 4, wqe), "WAIT for -1");
	vt_expect(cq, 4, IBV_WC_SUCCESS);
	CHECK(!post_cross(q, IBV_EXP_WR_CQE_WAIT, cqn, 2), "WAIT for 2");
	encode(q, &nop, wqe);
	CHECK(!post_bytes(q, 5, wqe), "behind it");
	vt_none(cq);
	CHECK(!vt_recv(tick, 80, vt_sge(mr, 0, 8)) && !vt_send(tick, 81, vt_sge(mr, 8, 8), 0), "a tick");
	vt_expect(other, 80, IBV_WC_SUCCESS);
	vt_none(cq);
	CHECK(!vt_recv(tick, 80, vt_sge(mr, 0, 8)) && !vt_send(tick, 81, vt_sge(mr, 8, 8), 0), "a tick");
	vt_expect(cq, 5, IBV_WC_SUCCESS);
	/* an index that was reached, and one that goes back */
	CHECK(!post_cross(q, IBV_EXP_WR_CQE_WAIT, cqn, 1) && !post_bytes(q, 6, wqe), "WAIT for 1");
	vt_expect(cq, 6, IBV_WC_SUCCESS);

	encode(m, &nop, wqe);
	for (uint64_t i = 0; i < 3; i++)
		CHECK(!post_bytes(m, i, wqe), "managed");
	vt_none(cq);
	CHECK(!post_cross(q, IBV_EXP_WR_SEND_ENABLE, m->qp_num, 2), "ENABLE to 2");
	vt_expect(cq, 0, IBV_WC_SUCCESS);
	vt_expect(cq, 1, IBV_WC_SUCCESS);
	vt_none(cq);
	CHECK(!post_cross(q, IBV_EXP_WR_SEND_ENABLE, m->qp_num, 1), "what is enabled stays so");
	vt_none(cq);
	CHECK(!post_cross(q, IBV_EXP_WR_SEND_ENABLE, m->qp_num, 3), "ENABLE to 3");
	vt_expect(cq, 2, IBV_WC_SUCCESS);
	CHECK(post_cross(q, IBV_EXP_WR_SEND_ENABLE, q->qp_num, 1) == EINVAL, "ENABLE of a queue that is not managed");
	CHECK(post_cross(q, IBV_EXP_WR_RECV_ENABLE, m->qp_num, 1) == EINVAL, "RECV_ENABLE of a queue that manages sends");

	/* CALC: the sum of two elements of 16 bytes, in network order */
	uint64_t *e = (uint64_t *)(mem + 1536);
	struct ibv_exp_send_wr sum = request(IBV_EXP_WR_RDMA_WRITE, IBV_EXP_SEND_WITH_CALC, 1);
	e[0] = htobe64(40);
	e[2] = htobe64(2);
	sge[0] = vt_sge(mr, 1536, 32);
	sum.wr.rdma.remote_addr = (uintptr_t)(e + 8);
	sum.wr.rdma.rkey = mr->rkey;
	sum.op.calc.data_type = IBV_EXP_CALC_DATA_TYPE_UINT;
	run(q, &sum);
	CHECK(be64toh(e[8]) == 42, "CALC: %lu", (unsigned long)be64toh(e[8]));

	CHECK(!ibv_destroy_qp(q) && !ibv_destroy_qp(m) && !ibv_destroy_qp(tick) && !ibv_destroy_qp(second) &&
		      !ibv_destroy_cq(other),
	      "destroy");
}

/* ---- refusals ------------------------------------------------------------------------------------------------ */

/* Every bit that `free` (a hex digit per 4 bits) does not have must not change. */
static void strict(struct ibv_qp *qp, const struct ibv_exp_send_wr *wr, const char *free)
{
	uint8_t wqe[EXP_MLX5_WQE_MAX];
	int n = encode(qp, wr, wqe);

	CHECK((int)strlen(free) == 2 * n, "opcode %d: %d bytes, a mask for %zu", wr->exp_opcode, n, strlen(free) / 2);
	for (int bit = 0; bit < 8 * n; bit++) {
		char digit[2] = {free[bit / 4]};
		if (strtoul(digit, NULL, 16) >> (3 - bit % 4) & 1)
			continue;
		wqe[bit / 8] ^= (uint8_t)(0x80 >> bit % 8);
		int rc = post_bytes(qp, 1, wqe);
		CHECK(rc == EINVAL, "opcode %d: offset %d changed to %#x: %d", wr->exp_opcode, bit / 8, wqe[bit / 8], rc);
		wqe[bit / 8] ^= (uint8_t)(0x80 >> bit % 8);
	}
	vt_none(cq);
}

#define WORD_0 "00ffff00"	/* the index is the driver's */
#define WORD_2 "000000aa"	/* fence (either), completion, solicited */
#define ADDRESS "ffffffffffffffffffffffff00000000"
#define DATA_8 "00000000fffffffffffffffffffffff" "f"

static void strictness(struct ibv_qp *qp)
{
	struct ibv_exp_send_wr wr = request(IBV_EXP_WR_NOP, 0, 0);
	uint8_t wqe[EXP_MLX5_WQE_MAX];

	strict(qp, &wr, WORD_0 "00000000" WORD_2 "00000000");
	/* a bit away from an opcode, modifier (CALC) or DS is another that is sound: those are free */
	wr = request(IBV_EXP_WR_RDMA_WRITE_WITH_IMM, 0, 1);
	wr.ex.imm_data = htobe32(7);
	sge[0] = vt_sge(mr, 0, 8);
	strict(qp, &wr, "07ffff00" "00000001" WORD_2 "ffffffff" ADDRESS "7fffffffffffffffffffffffffffffff");
	wr = request(IBV_EXP_WR_ATOMIC_CMP_AND_SWP, 0, 1);
	strict(qp, &wr, WORD_0 "00000000" WORD_2 "00000000" ADDRESS "ffffffffffffffffffffffffffffffff" DATA_8);
	wr = request(IBV_EXP_WR_ATOMIC_FETCH_AND_ADD, 0, 1);
	strict(qp, &wr, "00ffff03" "00000000" WORD_2 "00000000" ADDRESS "ffffffffffffffff0000000000000000" DATA_8);
	wr = request(IBV_EXP_WR_EXT_MASKED_ATOMIC_FETCH_AND_ADD, IBV_EXP_SEND_EXT_ATOMIC_INLINE, 1);
	wr.ext_op.masked_atomics.log_arg_sz = 2;
	sge[0].length = 4;
	strict(qp, &wr, "00ffff01" "00000000" WORD_2 "00000000" ADDRESS "ffffffffffffffff0000000000000000" DATA_8);
	sge[0] = (struct ibv_sge){.addr = (uintptr_t)"12345", .length = 5};
	wr = request(IBV_EXP_WR_SEND, IBV_EXP_SEND_INLINE, 1);
	strict(qp, &wr, "07ffff03" "00000000" WORD_2 "00000000" "8000000f" "ffffffffff" "00000000000000");

	/* DS greater and smaller than the opcode's segments */
	sge[0] = vt_sge(mr, 0, 8);
	wr = request(IBV_EXP_WR_RDMA_READ, 0, 1);
	memset(wqe, 0, sizeof wqe);
	encode(qp, &wr, wqe);
	wqe[7] = 1;
	CHECK(post_bytes(qp, 1, wqe) == EINVAL, "a READ without address");
	wqe[7] = 4;
	CHECK(post_bytes(qp, 1, wqe) == EINVAL, "a segment of no bytes");
	/* more segments than the queue pair was made for; more than 2^31 bytes; another's number */
	struct ibv_sge many[3] = {sge[0], sge[0], sge[0]};
	wr.sg_list = many;
	wr.num_sge = 3;
	encode(qp, &wr, wqe);
	CHECK(post_bytes(qp, 1, wqe) == EINVAL, "3 segments on a queue of 2");
	/* WAIT and ENABLE: not on this queue, nor for objects that do not exist */
	struct exp_mlx5_place at = {.qpn = qp->qp_num, .type = qp->qp_type, .object = qp->qp_num};
	wr.exp_opcode = IBV_EXP_WR_CQE_WAIT;
	CHECK(exp_mlx5_encode(&at, &wr, wqe) == 32 && post_bytes(qp, 1, wqe) == EINVAL, "WAIT for a queue pair");
	at.object = 0xfffffe;
	CHECK(exp_mlx5_encode(&at, &wr, wqe) == 32 && post_bytes(qp, 1, wqe) == EINVAL, "WAIT for nothing");
	wr.exp_opcode = IBV_EXP_WR_SEND_ENABLE;
	CHECK(exp_mlx5_encode(&at, &wr, wqe) == 32 && post_bytes(qp, 1, wqe) == EINVAL, "ENABLE of nothing");
	for (int op = 0; op < 256; op++) {
		static const uint8_t known[] = {0, 8, 9, 0xa, 0xb, 0xf, 0x10, 0x11, 0x12, 0x14, 0x15, 0x16, 0x17};
		memset(wqe, 0, sizeof wqe);
		wqe[3] = (uint8_t)op;
		wqe[4] = (uint8_t)(qp->qp_num >> 16);
		wqe[5] = (uint8_t)(qp->qp_num >> 8);
		wqe[6] = (uint8_t)qp->qp_num;
		wqe[7] = 1;
		if (!memchr(known, op, sizeof known))
			CHECK(post_bytes(qp, 1, wqe) == EINVAL, "opcode %#x", op);
	}
	vt_none(cq);
}

static void full(struct ibv_qp *qp)
{
	struct ibv_exp_send_wr wr = request(IBV_EXP_WR_NOP, 0, 0);
	uint8_t wqe[EXP_MLX5_WQE_MAX];

	encode(qp, &wr, wqe);
	for (int i = 0; i < 8; i++)
		CHECK(!post_bytes(qp, (uint64_t)i, wqe), "request %d of 8", i);
	CHECK(post_bytes(qp, 8, wqe) == ENOMEM, "a ninth");
	for (int i = 0; i < 8; i++)
		vt_expect(cq, (uint64_t)i, IBV_WC_SUCCESS);
}

int main(void)
{
	vt_fabric();
	for (int connectx = 0; connectx < 2; connectx++) {
		CHECK(!setenv("SHCA_IDENTITY", connectx ? "connectx" : "shca", 1), "setenv");
		t = vt_open();
		cq = vt_cq(&t, 64, NULL);
		entries(connectx);
		pages(connectx);
		identity(connectx);
		if (!connectx) {
			CHECK(!ibv_destroy_cq(cq), "destroy");
			vt_close(&t);
		}
	}
	CHECK(!posix_memalign((void **)&mem, 4096, 4096), "memory");
	memset(mem, 0, 4096);
	mr = ibv_reg_mr(t.pd, mem, 4096, VT_ACCESS);
	CHECK(mr, "ibv_reg_mr");
	struct ibv_qp *qp = make(IBV_QPT_RC, MLX5DV_QP_EX_WITH_RAW_WQE);
	CHECK(qp, "a queue pair");
	vt_connect(qp, qp->qp_num);
	CHECK(!mlx5dv_qp_ex_from_ibv_qp_ex(NULL), "of no queue pair");
	sends(qp);
	rdma(qp);
	atomics(qp);
	calc_needs_cross(qp);
	wait_and_enable();
	strictness(qp);
	full(qp);
	/* of datagrams: no address vectors */
	struct ibv_qp *ud = make(IBV_QPT_UD, MLX5DV_QP_EX_WITH_RAW_WQE);
	struct ibv_exp_send_wr nop = request(IBV_EXP_WR_NOP, 0, 0), send = request(IBV_EXP_WR_SEND, 0, 1);
	uint8_t wqe[EXP_MLX5_WQE_MAX];
	CHECK(ud, "a datagram queue");
	vt_connect(ud, 0);
	run(ud, &nop);
	struct exp_mlx5_place at = {.qpn = ud->qp_num, .type = IBV_QPT_RC};
	CHECK(exp_mlx5_encode(&at, &send, wqe) > 0 && post_bytes(ud, 1, wqe) == EINVAL, "a SEND without address");
	CHECK(!ibv_destroy_qp(qp) && !ibv_destroy_qp(ud) && !ibv_dereg_mr(mr) && !ibv_destroy_cq(cq), "destroy");
	vt_close(&t);
	free(mem);
	return 0;
}
