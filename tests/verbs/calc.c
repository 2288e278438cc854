/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * CALC (manual, appendix D): every operation, type and form over SEND, RDMA WRITE and READ against a model that knows one value
 * at a time; refusals; when operands are read; partial sums that go up a tree without the CPU.
 *
 * calc [requests [seed]]
 */
#include <endian.h>
#include <infiniband/verbs_exp.h>

#include "calc_model.h"
#include "vt.h"

#define CROSS IBV_EXP_QP_CREATE_CROSS_CHANNEL
#define HALF 262144		/* of the region: operands, then results */
#define MAX_SGE 6

static struct vt t;
static struct ibv_cq *cq, *rcq;
static uint64_t rng;

static uint64_t draw(void)
{
	rng ^= rng >> 12;
	rng ^= rng << 25;
	rng ^= rng >> 27;
	return rng * 0x2545f4914f6cdd1dull;
}

static struct ibv_qp *make(uint32_t flags, struct ibv_cq *scq, struct ibv_cq *recv_cq)
{
	struct ibv_exp_qp_init_attr a = {
		.send_cq = scq, .recv_cq = recv_cq, .qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = 32, .max_recv_wr = 16, .max_send_sge = MAX_SGE, .max_recv_sge = 1, .max_inline_data = 64},
		.comp_mask = IBV_EXP_QP_INIT_ATTR_PD | IBV_EXP_QP_INIT_ATTR_CREATE_FLAGS, .pd = t.pd, .exp_create_flags = flags,
	};
	struct ibv_qp *qp = ibv_exp_create_qp(t.ctx, &a);

	CHECK(qp, "ibv_exp_create_qp");
	return qp;
}

/* ---- random requests --------------------------------------------------------------------------------------------------- */

static struct calc_form invent(bool vector)
{
	static const uint32_t ops[] = {IBV_EXP_CALC_OP_ADD,   IBV_EXP_CALC_OP_BAND,   IBV_EXP_CALC_OP_BXOR,
				       IBV_EXP_CALC_OP_BOR,   SHCA_EXP_CALC_OP_MIN,   SHCA_EXP_CALC_OP_MAX,
				       SHCA_EXP_CALC_OP_PROD, SHCA_EXP_CALC_OP_MAXLOC};
	static const uint32_t codes[] = {IBV_EXP_CALC_DATA_SIZE_64_BIT, SHCA_EXP_CALC_DATA_SIZE_32_BIT,
					 SHCA_EXP_CALC_DATA_SIZE_16_BIT, SHCA_EXP_CALC_DATA_SIZE_8_BIT};
	struct calc_form f = {.op = ops[draw() % (vt_mlx5() ? 4 : 8)], .type = (uint32_t)(draw() % 3), .vector = vector,
			      .host = !vt_mlx5() && draw() & 1};
	uint32_t code = vector && f.op != SHCA_EXP_CALC_OP_MAXLOC ?
				(uint32_t)(draw() % (f.type == IBV_EXP_CALC_DATA_TYPE_FLOAT ? 2 : 4)) : 0;

	f.size_code = codes[code];
	f.size = 8u >> code;
	return f;
}

static uint64_t value(const struct calc_form *f)
{
	if (f->type == IBV_EXP_CALC_DATA_TYPE_FLOAT)
		return calc_unreal((double)(int64_t)(draw() % 2001) / 8 - 125, f->size);
	return draw() % 3 ? draw() : draw() % 4;
}

static struct ibv_exp_send_wr request(const struct calc_form *f, enum ibv_exp_wr_opcode op, struct ibv_sge *sge, int n)
{
	struct ibv_exp_send_wr wr = {.wr_id = 1, .exp_opcode = op, .sg_list = sge, .num_sge = n,
				     .exp_send_flags = IBV_EXP_SEND_SIGNALED | IBV_EXP_SEND_WITH_CALC |
						       (f->vector ? SHCA_EXP_SEND_CALC_VECTOR : 0) |
						       (f->host ? SHCA_EXP_SEND_CALC_HOST_ORDER : 0)};
	wr.op.calc.calc_op = (enum ibv_exp_calc_op)f->op;
	wr.op.calc.data_type = (enum ibv_exp_calc_data_type)f->type;
	wr.op.calc.data_size = (enum ibv_exp_calc_data_size)f->size_code;
	return wr;
}

static void one(struct ibv_qp *qp, char *mem, const struct ibv_mr *mr)
{
	static const enum ibv_exp_wr_opcode kinds[] = {IBV_EXP_WR_SEND, IBV_EXP_WR_RDMA_WRITE, IBV_EXP_WR_RDMA_READ};
	static char want[65536];
	enum ibv_exp_wr_opcode op = kinds[draw() % 3];
	struct calc_form f = invent(op != IBV_EXP_WR_RDMA_READ && !vt_mlx5() && draw() & 1);
	uint32_t unit = f.op == SHCA_EXP_CALC_OP_MAXLOC || !f.vector ? 16 : f.size, bytes;
	struct ibv_sge sge[MAX_SGE];
	struct ibv_exp_send_wr *bad;
	int n = 1 + (int)(draw() % MAX_SGE);
	size_t used = 0;

	if (f.vector)	/* up to 64 KiB; n of them fit */
		bytes = unit * (1 + (uint32_t)(draw() % (draw() % 8 ? 64 : (draw() % 2 ? 65536 : 40000) / unit)));
	else
		bytes = 16;
	if (f.vector && (size_t)bytes * (size_t)n > HALF)
		n = (int)(HALF / bytes);
	for (int i = 0; i < n; i++) {
		uint32_t len = f.vector ? bytes : 16 * (1 + (uint32_t)(draw() % (draw() % 8 ? 4 : 2000)));
		sge[i] = vt_sge(mr, used, len);
		used += len;
	}
	for (size_t at = 0; at < used; at += unit) {
		calc_put(mem + at, &f, value(&f));
		if (unit == 16)
			calc_put(mem + at + 8, &f, draw() % 4);
	}
	if (f.vector)
		for (uint32_t at = 0; at < bytes; at += unit)
			calc_model(&f, mem + at, (uint32_t)n, bytes, want + at);
	else
		calc_model(&f, mem, (uint32_t)(used / 16), 16, want);
	memset(mem + HALF, 0x5a, bytes + 64);
	struct ibv_exp_send_wr wr = request(&f, op, sge, n);
	struct ibv_sge into = vt_sge(mr, HALF, (uint32_t)used);
	if (op == IBV_EXP_WR_SEND) {
		CHECK(!vt_recv(qp, 2, vt_sge(mr, HALF, bytes + 64)), "recv");
	} else if (op == IBV_EXP_WR_RDMA_WRITE) {
		wr.wr.rdma.remote_addr = (uintptr_t)mem + HALF;
	} else {
		wr.sg_list = &into;
		wr.num_sge = 1;
		wr.wr.rdma.remote_addr = (uintptr_t)mem;
	}
	wr.wr.rdma.rkey = mr->rkey;
	int err = ibv_exp_post_send(qp, &wr, &bad);
	CHECK(!err, "post %d: %d", op, err);
	vt_expect(cq, 1, IBV_WC_SUCCESS);
	if (op == IBV_EXP_WR_SEND) {
		struct ibv_wc wc = vt_expect(rcq, 2, IBV_WC_SUCCESS);
		CHECK(wc.byte_len == bytes, "%u bytes came, not %u", wc.byte_len, bytes);
	}
	for (uint32_t i = 0; i < bytes + 64; i++)
		CHECK(mem[HALF + i] == (i < bytes ? want[i] : 0x5a),
		      "request %d, operation %#x, type %u, %u bytes, %s, %s order, %d segments: byte %u of %u",
		      op, f.op, f.type, f.size, f.vector ? "vector" : "elements", f.host ? "host" : "network", n, i, bytes);
}

/* ---- refusals, and when operands are read -------------------------------------------------------------------------- */

static void capabilities(void)
{
	struct ibv_exp_device_attr a = {.comp_mask = IBV_EXP_DEVICE_ATTR_CALC_CAP | SHCA_EXP_DEVICE_ATTR_EXTENSIONS};
	const uint64_t ops = 1u << IBV_EXP_CALC_OP_ADD | 1u << IBV_EXP_CALC_OP_BAND | 1u << IBV_EXP_CALC_OP_BXOR |
			     1u << IBV_EXP_CALC_OP_BOR;

	CHECK(!ibv_exp_query_device(t.ctx, &a), "query");
	CHECK(a.calc_cap.int_ops == ops && a.calc_cap.uint_ops == ops && a.calc_cap.fp_ops == ops && a.calc_cap.data_sizes == 1 &&
	      a.calc_cap.data_types == 7, "the manual's operations, and no others");
	/* which are the software HCA's own */
	CHECK(vt_mlx5() ? !a.shca_extensions : a.shca_calc_vector_max == 65536 && a.shca_extensions, "extensions");
	/* a program with an earlier header, in which the extensions were not: nothing behind its structure is touched */
	memset(&a, 0x77, sizeof(a));
	a.comp_mask = IBV_EXP_DEVICE_ATTR_EXP_CAP_FLAGS;
	CHECK(!ibv_exp_query_device(t.ctx, &a) && a.comp_mask == IBV_EXP_DEVICE_ATTR_EXP_CAP_FLAGS && !a.calc_cap.int_ops,
	      "query");
	CHECK(a.shca_extensions == 0x7777777777777777 && a.shca_calc_vector_max == 0x77777777, "%#lx behind the structure",
	      (unsigned long)a.shca_extensions);
}

static void refusals(char *mem, const struct ibv_mr *mr)
{
	struct ibv_qp *qp = make(CROSS, cq, rcq), *ordinary = make(0, cq, rcq);
	struct calc_form f = {.op = IBV_EXP_CALC_OP_ADD, .size = 8};
	struct ibv_sge sge[2] = {vt_sge(mr, 0, 32), vt_sge(mr, 64, 32)};
	struct ibv_exp_send_wr good, wr, *bad;

	vt_connect(qp, qp->qp_num);
	vt_connect(ordinary, ordinary->qp_num);
	good = request(&f, IBV_EXP_WR_RDMA_WRITE, sge, 2);
	good.wr.rdma.remote_addr = (uintptr_t)mem + HALF;
	good.wr.rdma.rkey = mr->rkey;
#define REFUSED(q, err, change)                                                                                      \
	do {                                                                                                         \
		wr = good;                                                                                           \
		change;                                                                                              \
		int rc_ = ibv_exp_post_send(q, &wr, &bad);                                                           \
		CHECK(rc_ == (err) && bad == &wr, "%s: %d", #change, rc_);                                           \
		sge[0].length = sge[1].length = 32;                                                                  \
	} while (0)
	REFUSED(ordinary, EINVAL, (void)0);
	if (!vt_mlx5())
		REFUSED(qp, EOPNOTSUPP, wr.op.calc.calc_op = IBV_EXP_CALC_OP_MAXLOC);
	REFUSED(qp, EOPNOTSUPP, wr.op.calc.calc_op = (enum ibv_exp_calc_op)77);
	REFUSED(qp, EOPNOTSUPP, wr.op.calc.data_type = (enum ibv_exp_calc_data_type)3);
	REFUSED(qp, EOPNOTSUPP, wr.op.calc.data_size = (enum ibv_exp_calc_data_size)SHCA_EXP_CALC_DATA_SIZE_32_BIT);
	REFUSED(qp, vt_mlx5() ? EOPNOTSUPP : EINVAL, wr.exp_send_flags |= IBV_EXP_SEND_INLINE);
	REFUSED(qp, EINVAL, wr.num_sge = 0);
	REFUSED(qp, EINVAL, wr.exp_opcode = IBV_EXP_WR_ATOMIC_FETCH_AND_ADD);
	REFUSED(qp, EINVAL, sge[1].length = 8);
	const int err = vt_mlx5() ? EOPNOTSUPP : EINVAL;
	REFUSED(qp, err, (wr.exp_send_flags |= SHCA_EXP_SEND_CALC_VECTOR, sge[1].length = 24));
	REFUSED(qp, err, (wr.exp_send_flags |= SHCA_EXP_SEND_CALC_VECTOR, sge[0].length = sge[1].length = 65544));
	REFUSED(qp, err, (wr.exp_send_flags |= SHCA_EXP_SEND_CALC_VECTOR, wr.exp_opcode = IBV_EXP_WR_RDMA_READ));
	if (vt_mlx5())
		REFUSED(qp, EOPNOTSUPP, wr.exp_send_flags |= SHCA_EXP_SEND_CALC_HOST_ORDER);
	/* a key that does not fit: the completion says so */
	sge[1].lkey ^= 0x100;
	CHECK(!ibv_exp_post_send(qp, &good, &bad), "post");
	vt_expect(cq, 1, IBV_WC_LOC_PROT_ERR);
	CHECK(!ibv_destroy_qp(qp) && !ibv_destroy_qp(ordinary), "destroy");
}

/* A chain of queues: each WAITs for the sum of the queue before, adds its own operand and sends the sum on; nothing is posted
 * behind. */
#define HOPS 5
static void partial_sums(char *mem, const struct ibv_mr *mr)
{
	struct ibv_cq *in[HOPS + 1];
	struct ibv_qp *from[HOPS], *to[HOPS];
	struct calc_form f = {.op = IBV_EXP_CALC_OP_ADD, .size = 8};
	struct ibv_exp_send_wr wr[HOPS][2], *bad;
	struct ibv_exp_task task[HOPS], *bad_task;
	struct ibv_sge sge[HOPS][2];
	struct ibv_qp *first = make(0, cq, cq);

	/* element 2i came to hop i, element 2i + 1 is its own */
	memset(mem, 0xff, HOPS * 32 + 32);
	for (int i = 0; i <= HOPS; i++)
		in[i] = vt_cq(&t, 8, NULL);
	for (int i = 0; i < HOPS; i++) {
		from[i] = make(CROSS, cq, cq);
		to[i] = make(0, cq, in[i + 1]);
		vt_connect_pair(from[i], to[i]);
		CHECK(!vt_recv(to[i], 7, vt_sge(mr, 32 * (size_t)(i + 1), 16)), "recv");
		calc_put(mem + 32 * i + 16, &f, 1ull << i);
		sge[i][0] = vt_sge(mr, 32 * (size_t)i, 16);
		sge[i][1] = vt_sge(mr, 32 * (size_t)i + 16, 16);
		wr[i][0] = (struct ibv_exp_send_wr){.exp_opcode = IBV_EXP_WR_CQE_WAIT,
						    .exp_send_flags = IBV_EXP_SEND_WAIT_EN_LAST,
						    .next = &wr[i][1]};
		wr[i][0].task.cqe_wait.cq = in[i];
		wr[i][0].task.cqe_wait.cq_count = 1;
		wr[i][1] = request(&f, IBV_EXP_WR_SEND, sge[i], 2);
		wr[i][1].exp_send_flags &= ~IBV_EXP_SEND_SIGNALED;
		task[i] = (struct ibv_exp_task){.task_type = IBV_EXP_TASK_SEND, .item = {.qp = from[i], .send_wr = wr[i]},
						.next = i + 1 < HOPS ? &task[i + 1] : NULL};
	}
	CHECK(!ibv_exp_post_task(t.ctx, task, &bad_task), "one list");
	struct ibv_qp *last = make(0, cq, in[0]);
	vt_connect_pair(first, last);
	CHECK(!vt_recv(last, 6, vt_sge(mr, 0, 16)), "recv");
	calc_put(mem + HALF, &f, 1000);
	memset(mem + HALF + 8, 0, 8);
	vt_none(in[HOPS]);
	struct ibv_sge start = vt_sge(mr, HALF, 16);
	struct ibv_exp_send_wr go = {.exp_opcode = IBV_EXP_WR_SEND, .sg_list = &start, .num_sge = 1};
	CHECK(!ibv_exp_post_send(first, &go, &bad), "go");
	vt_expect(in[HOPS], 7, IBV_WC_SUCCESS);
	CHECK(calc_get(mem + 32 * HOPS, &f) == 1000 + (1u << HOPS) - 1, "the sum is %lu",
	      (unsigned long)calc_get(mem + 32 * HOPS, &f));
	CHECK(!ibv_destroy_qp(first) && !ibv_destroy_qp(last), "destroy");
	for (int i = 0; i < HOPS; i++)
		CHECK(!ibv_destroy_qp(from[i]) && !ibv_destroy_qp(to[i]), "destroy");
	for (int i = 0; i <= HOPS; i++)
		CHECK(!ibv_destroy_cq(in[i]), "destroy");
}

int main(int argc, char **argv)
{
	int n = argc > 1 ? atoi(argv[1]) : 2000;
	char *mem[2];

	vt_fabric();
	t = vt_open();
	rng = argc > 2 ? strtoull(argv[2], NULL, 0) | 1 : 99;
	cq = vt_cq(&t, 64, NULL);
	rcq = vt_cq(&t, 64, NULL);
	mem[0] = shca_alloc(t.ctx, 2 * HALF);
	mem[1] = aligned_alloc(4096, 2 * HALF);
	CHECK(mem[0] && mem[1], "no memory");
	capabilities();
	for (int i = 0; i < 2; i++) {
		struct ibv_mr *mr = vt_mr(&t, mem[i], 2 * HALF, VT_ACCESS);
		struct ibv_qp *qp = make(CROSS, cq, rcq);
		memset(mem[i], 0, 2 * HALF);
		vt_connect(qp, qp->qp_num);
		for (int k = 0; k < n; k++)
			one(qp, mem[i], mr);
		refusals(mem[i], mr);
		partial_sums(mem[i], mr);
		CHECK(!ibv_destroy_qp(qp) && !ibv_dereg_mr(mr), "destroy");
	}
	CHECK(!shca_free(t.ctx, mem[0]) && !ibv_destroy_cq(cq) && !ibv_destroy_cq(rcq), "free");
	vt_close(&t);
	return 0;
}
