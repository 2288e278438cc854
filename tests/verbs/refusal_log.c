/* SPDX-License-Identifier: BSD-3-Clause */
/* SHCA_DEBUG=1 prints the reason of every refused call: each refusal yields a line on standard error. A call that succeeds
 * prints nothing and leaves errno as it is. refusal_log.sh looks for refusals that this program does not provoke. */
#include <fcntl.h>
#include <infiniband/mlx5dv.h>
#include <infiniband/verbs_exp.h>

#include "vt.h"

static int lines, kept;

static int said(void)
{
	char text[4096];
	ssize_t n = pread(lines, text, sizeof text, 0);
	int count = 0;

	for (ssize_t i = 0; i < n; i++)
		count += text[i] == '\n';
	CHECK(!ftruncate(lines, 0) && lseek(lines, 0, SEEK_SET) == 0, "empty the file");
	return count;
}

/* rc of the call: refused with err, and one line */
#define REFUSED(call, err)                                                                                              \
	do {                                                                                                            \
		int rc_ = (call), said_ = said();                                                                       \
		if (rc_ != (err) || said_ != 1) {                                                                       \
			dup2(kept, 2);                                                                                  \
			CHECK(false, "%s: %d, %d lines", #call, rc_, said_);                                            \
		}                                                                                                       \
	} while (0)
#define ACCEPTED(call)                                                                                                  \
	do {                                                                                                            \
		int rc_ = (call), said_ = said();                                                                       \
		if (rc_ || said_) {                                                                                     \
			dup2(kept, 2);                                                                                  \
			CHECK(false, "%s: %d, %d lines", #call, rc_, said_);                                            \
		}                                                                                                       \
	} while (0)

/* The same of calls that answer by NULL or -1, and errno. */
#define REFUSED_ERRNO(call, err)                                                                                        \
	do {                                                                                                            \
		errno = 0;                                                                                              \
		bool none_ = !(call);                                                                                   \
		int rc_ = errno, said_ = said();                                                                        \
		if (!none_ || rc_ != (err) || said_ != 1) {                                                             \
			dup2(kept, 2);                                                                                  \
			CHECK(false, "%s: errno %d, %d lines", #call, rc_, said_);                                      \
		}                                                                                                       \
	} while (0)
/* A call that succeeds: silent, and errno is unchanged. */
#define CALM(call)                                                                                                      \
	do {                                                                                                            \
		errno = 4711;                                                                                           \
		bool done_ = (call);                                                                                    \
		int now_ = errno, said_ = said();                                                                       \
		if (!done_ || now_ != 4711 || said_) {                                                                  \
			dup2(kept, 2);                                                                                  \
			CHECK(false, "%s: %s, errno %d, %d lines", #call, done_ ? "done" : "refused", now_, said_);     \
		}                                                                                                       \
	} while (0)

/* output of a failed CHECK */
static void show(void)
{
	char text[4096];
	ssize_t n = pread(lines, text, sizeof text, 0);

	if (n > 0 && write(kept, text, (size_t)n) != n)
		_exit(99);
}

static char mem[4096];

static int send_with(struct ibv_qp *qp, enum ibv_wr_opcode op, int nsge, struct ibv_sge *sge, unsigned int flags)
{
	struct ibv_send_wr wr = { .opcode = op, .num_sge = nsge, .sg_list = sge, .send_flags = flags }, *bad = NULL;
	int rc = ibv_post_send(qp, &wr, &bad);

	CHECK(!rc || bad == &wr, "bad_wr");
	return rc;
}

static int recv_with(struct ibv_qp *qp, int nsge, struct ibv_sge *sge)
{
	struct ibv_recv_wr wr = { .num_sge = nsge, .sg_list = sge }, *bad = NULL;
	int rc = ibv_post_recv(qp, &wr, &bad);

	CHECK(!rc || bad == &wr, "bad_wr");
	return rc;
}

static void plain(struct vt *t, struct ibv_sge *sge)
{
	struct ibv_cq *cq = vt_cq(t, 64, NULL);
	struct ibv_qp_init_attr init = { .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
					 .cap = { .max_send_wr = 2, .max_recv_wr = 2, .max_send_sge = 1, .max_recv_sge = 1,
						  .max_inline_data = 16 } };
	struct ibv_qp *a = ibv_create_qp(t->pd, &init), *b = ibv_create_qp(t->pd, &init);
	struct ibv_sge two[64];

	CHECK(a && b, "create_qp");
	for (int i = 0; i < 64; i++)
		two[i] = *sge;
	said();
	REFUSED(recv_with(a, 1, sge), EINVAL);				/* RESET */
	REFUSED(send_with(a, IBV_WR_SEND, 1, sge, 0), EINVAL);
	vt_connect_pair(a, b);
	REFUSED(send_with(a, IBV_WR_SEND, 64, two, 0), EINVAL);
	REFUSED(send_with(a, (enum ibv_wr_opcode)200, 1, sge, 0), EINVAL);
	struct ibv_sge tiny = *sge, large = *sge;
	tiny.length = 4;
	REFUSED(send_with(a, IBV_WR_ATOMIC_FETCH_AND_ADD, 1, &tiny, 0), EINVAL);
	large.length = 4096;
	REFUSED(send_with(a, IBV_WR_SEND, 1, &large, IBV_SEND_INLINE), EINVAL);
	REFUSED(recv_with(a, 64, two), EINVAL);
	int posted = 0, rc;
	while (!(rc = recv_with(a, 1, sge)) && posted < 64)
		posted++;
	CHECK(rc == ENOMEM && said() == 1, "a full receive queue: %d after %d", rc, posted);
	/* nothing answers: b has no receive */
	posted = 0;
	while (!(rc = send_with(a, IBV_WR_SEND, 1, sge, 0)) && posted < 64)
		posted++;
	CHECK(rc == ENOMEM && said() == 1, "a full send queue: %d after %d", rc, posted);
	CHECK(!ibv_destroy_qp(a) && !ibv_destroy_qp(b) && !ibv_destroy_cq(cq), "destroy");
}

static void built(struct vt *t, struct ibv_sge *sge)
{
	struct ibv_cq *cq = vt_cq(t, 64, NULL);
	struct ibv_qp_init_attr_ex init = { .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC, .pd = t->pd,
					    .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
					    .send_ops_flags = IBV_QP_EX_WITH_SEND,
					    .cap = { .max_send_wr = 2, .max_recv_wr = 8, .max_send_sge = 1, .max_recv_sge = 1,
						     .max_inline_data = 16 } };
	struct ibv_qp *a = ibv_create_qp_ex(t->ctx, &init), *b = vt_qp(t, IBV_QPT_RC, cq, NULL);
	CHECK(a && b, "create_qp_ex");
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(a);
	struct ibv_sge list[64];

	for (int i = 0; i < 64; i++)
		list[i] = *sge;
	vt_connect_pair(a, b);
	said();
	ibv_wr_start(ex);
	ibv_wr_set_sge(ex, sge->lkey, sge->addr, 8);
	REFUSED(ibv_wr_complete(ex), EINVAL);
	ibv_wr_start(ex);
	ibv_wr_send(ex);
	ibv_wr_set_sge_list(ex, 64, list);
	REFUSED(ibv_wr_complete(ex), EINVAL);
	ibv_wr_start(ex);
	ibv_wr_send(ex);
	ibv_wr_set_inline_data(ex, mem, sizeof mem);
	REFUSED(ibv_wr_complete(ex), EINVAL);
	ibv_wr_start(ex);
	for (int i = 0; i < 64; i++) {
		ibv_wr_send(ex);
		ibv_wr_set_sge(ex, sge->lkey, sge->addr, 8);
	}
	REFUSED(ibv_wr_complete(ex), ENOMEM);
	ibv_wr_start(ex);
	ibv_wr_send(ex);
	ibv_wr_set_sge(ex, sge->lkey, sge->addr, 8);
	ACCEPTED(ibv_wr_complete(ex));
	CHECK(!ibv_destroy_qp(a) && !ibv_destroy_qp(b) && !ibv_destroy_cq(cq), "destroy");
}

static void other_types(struct vt *t, struct ibv_sge *sge)
{
	struct ibv_cq *cq = vt_cq(t, 64, NULL);
	struct ibv_qp *ud = vt_qp(t, IBV_QPT_UD, cq, NULL);
	struct ibv_qp_attr rts = { .qp_state = IBV_QPS_RTR };

	CHECK(!vt_init(ud) && !ibv_modify_qp(ud, &rts, IBV_QP_STATE), "UD to RTR");
	rts.qp_state = IBV_QPS_RTS;
	CHECK(!ibv_modify_qp(ud, &rts, IBV_QP_STATE | IBV_QP_SQ_PSN), "UD to RTS");
	said();
	REFUSED(send_with(ud, IBV_WR_SEND, 1, sge, 0), EINVAL);		/* no address handle */
	REFUSED(send_with(ud, IBV_WR_RDMA_WRITE, 1, sge, 0), EINVAL);
	struct ibv_srq_init_attr a = { .attr = { .max_wr = 4, .max_sge = 1 } };
	struct ibv_srq *srq = ibv_create_srq(t->pd, &a);
	CHECK(srq, "create_srq");
	struct ibv_qp *with = vt_qp(t, IBV_QPT_RC, cq, srq);
	CHECK(!vt_init(with), "init");
	said();
	REFUSED(recv_with(with, 1, sge), EINVAL);
	CHECK(!ibv_destroy_qp(with) && !ibv_destroy_srq(srq) && !ibv_destroy_qp(ud) && !ibv_destroy_cq(cq), "destroy");
}

/* mlx5dv_create_cq with the size of an entry, which nothing shows. */
static void entries(struct vt *t)
{
	struct ibv_cq_init_attr_ex attr = { .cqe = 16 };
	struct mlx5dv_cq_init_attr dv = { .comp_mask = MLX5DV_CQ_INIT_ATTR_MASK_CQE_SIZE };
	static const uint16_t sizes[] = { 64, 128, 0, 32, 96, 256 };

	for (int i = 0; i < 6; i++) {
		dv.cqe_size = sizes[i];
		errno = 0;
		struct ibv_cq_ex *cq = mlx5dv_create_cq(t->ctx, &attr, &dv);
		CHECK(i < 2 ? cq != NULL && said() == 0 : !cq && errno == EINVAL && said() == 1, "entries of %u bytes", sizes[i]);
		CHECK(!cq || !ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), "destroy_cq");
	}
	dv.comp_mask |= MLX5DV_CQ_INIT_ATTR_MASK_COMPRESSED_CQE;
	CHECK(!mlx5dv_create_cq(t->ctx, &attr, &dv) && errno == EOPNOTSUPP && said() == 1, "compressed entries");
}

static struct ibv_qp *exp_qp(struct vt *t, struct ibv_cq *cq, enum ibv_qp_type type, uint32_t flags, uint32_t atomic)
{
	struct ibv_exp_qp_init_attr a = {
		.send_cq = cq, .recv_cq = cq, .qp_type = type, .pd = t->pd, .exp_create_flags = flags, .max_atomic_arg = atomic,
		.comp_mask = IBV_EXP_QP_INIT_ATTR_PD | IBV_EXP_QP_INIT_ATTR_CREATE_FLAGS | (atomic
			? IBV_EXP_QP_INIT_ATTR_ATOMICS_ARG : 0),
		.cap = { .max_send_wr = 2, .max_recv_wr = 2, .max_send_sge = 2, .max_recv_sge = 1, .max_inline_data = 16 },
	};

	return ibv_exp_create_qp(t->ctx, &a);
}

/* Experimental verbs: arguments that are wrong on any device, and capabilities that this device lacks. */
static void exp_objects(struct vt *t)
{
	struct ibv_cq *cq = vt_cq(t, 64, NULL);
	struct ibv_exp_cq_init_attr ca = { .comp_mask = 1u << 31 };
	struct ibv_exp_cq_attr ma = { .comp_mask = IBV_EXP_CQ_MODERATION, .moderation = { .cq_count = 16, .cq_period = 10 } };
	struct ibv_exp_query_intf_params pa = { .intf_scope = IBV_EXP_INTF_GLOBAL };
	enum ibv_exp_query_intf_status st;
	struct ibv_exp_device_attr da = { .comp_mask = 0 };

	said();
	REFUSED_ERRNO(ibv_exp_create_cq(t->ctx, 0, NULL, NULL, 0, NULL), EINVAL);
	REFUSED_ERRNO(ibv_exp_create_cq(t->ctx, 8, NULL, NULL, 0, &ca), EINVAL);
	ca = (struct ibv_exp_cq_init_attr){ .comp_mask = IBV_EXP_CQ_INIT_ATTR_FLAGS, .flags = 1u << 31 };
	REFUSED_ERRNO(ibv_exp_create_cq(t->ctx, 8, NULL, NULL, 0, &ca), EINVAL);
	ca.flags = IBV_EXP_CQ_TIMESTAMP;
	REFUSED_ERRNO(ibv_exp_create_cq(t->ctx, 8, NULL, NULL, 0, &ca), EOPNOTSUPP);
	REFUSED_ERRNO(ibv_exp_create_cq(NULL, 8, NULL, NULL, 0, NULL), EINVAL);
	REFUSED(ibv_exp_modify_cq(cq, &ma, 0), EINVAL);
	REFUSED(ibv_exp_modify_cq(cq, NULL, IBV_EXP_CQ_MODERATION), EINVAL);
	REFUSED(ibv_exp_modify_cq(NULL, &ma, IBV_EXP_CQ_MODERATION), EINVAL);
	/* moderation is a hint: it bounds the delay of an event, and the device delays none */
	ACCEPTED(ibv_exp_modify_cq(cq, &ma, IBV_EXP_CQ_MODERATION));
	ma = (struct ibv_exp_cq_attr){ .comp_mask = IBV_EXP_CQ_CAP_FLAGS, .cq_cap_flags = 1u << 31 };
	REFUSED(ibv_exp_modify_cq(cq, &ma, IBV_EXP_CQ_CAP_FLAGS), EINVAL);
	REFUSED_ERRNO(exp_qp(t, NULL, IBV_QPT_RC, 0, 0), EINVAL);
	REFUSED_ERRNO(exp_qp(t, cq, IBV_QPT_RC, 1u << 31, 0), EINVAL);
	REFUSED_ERRNO(exp_qp(t, cq, IBV_QPT_RC, 0, 24), EINVAL);
	REFUSED_ERRNO(exp_qp(t, cq, IBV_QPT_RC, 0, 512), EOPNOTSUPP);
	REFUSED_ERRNO(exp_qp(t, cq, IBV_QPT_RC, IBV_EXP_QP_CREATE_IGNORE_RQ_OVERFLOW, 0), EOPNOTSUPP);
	REFUSED_ERRNO(exp_qp(t, cq, IBV_QPT_XRC_RECV, 0, 0), EINVAL);
	REFUSED_ERRNO(ibv_exp_create_qp(t->ctx, NULL), EINVAL);
	REFUSED_ERRNO(ibv_exp_query_intf(t->ctx, &pa, &st), EOPNOTSUPP);
	CHECK(st == IBV_EXP_INTF_STAT_INTF_NOT_SUPPORTED, "status %d", st);
	REFUSED_ERRNO(ibv_exp_create_dct(t->ctx, NULL), EINVAL);
	REFUSED(ibv_exp_query_device(t->ctx, NULL), EINVAL);
	REFUSED(ibv_exp_query_device(NULL, &da), EINVAL);
	REFUSED(ibv_exp_modify_qp(NULL, NULL, 0), EINVAL);
	REFUSED(ibv_exp_query_qp(NULL, NULL, 0, NULL), EINVAL);
	REFUSED(ibv_exp_query_dct(NULL, NULL), EINVAL);
	REFUSED(ibv_exp_arm_dct(NULL, NULL), EINVAL);
	REFUSED(ibv_exp_destroy_dct(NULL), EINVAL);
	REFUSED(ibv_exp_poll_cq(cq, 1, NULL, 8), -EINVAL);
	REFUSED_ERRNO(ibv_exp_reg_mr(NULL), EINVAL);
	REFUSED(ibv_exp_rereg_mr(NULL, 0, NULL, NULL, 0, 0, NULL), EINVAL);
	REFUSED(ibv_exp_prefetch_mr(NULL, NULL), EINVAL);
	REFUSED_ERRNO(ibv_exp_alloc_dm(t->ctx, NULL), EINVAL);
	REFUSED(ibv_exp_free_dm(NULL), EINVAL);
	REFUSED(ibv_exp_memcpy_dm(NULL, NULL), EINVAL);
	REFUSED_ERRNO(ibv_exp_create_srq(t->ctx, NULL), EINVAL);
	REFUSED_ERRNO(ibv_exp_create_ah(t->pd, NULL), EINVAL);
	REFUSED(ibv_exp_query_port(t->ctx, 1, NULL), EINVAL);
	REFUSED(ibv_exp_query_gid_attr(t->ctx, 1, 0, NULL), EINVAL);
	REFUSED(ibv_exp_query_values(t->ctx, 1 << 30, NULL), EINVAL);
	REFUSED(ibv_exp_destroy_res_domain(t->ctx, NULL, NULL), EINVAL);
	REFUSED_ERRNO(ibv_exp_get_provider_func(t->ctx, (enum ibv_exp_func_name)99), EINVAL);
	REFUSED_ERRNO(ibv_open_xrc_domain(NULL, -1, 0), EINVAL);
	REFUSED_ERRNO(ibv_close_xrc_domain(NULL) == 0, EINVAL);
	REFUSED_ERRNO(ibv_unreg_xrc_rcv_qp(NULL, 77) == 0, EINVAL);
	struct ibv_xrc_domain *domain = ibv_open_xrc_domain(t->ctx, -1, O_CREAT);
	struct ibv_qp_attr qa;
	struct ibv_qp_init_attr qi;
	CHECK(domain, "ibv_open_xrc_domain");
	REFUSED_ERRNO(ibv_modify_xrc_rcv_qp(domain, 77, &qa, IBV_QP_STATE) == 0, EINVAL);
	REFUSED_ERRNO(ibv_modify_xrc_rcv_qp(domain, 77, NULL, IBV_QP_STATE) == 0, EINVAL);
	REFUSED_ERRNO(ibv_query_xrc_rcv_qp(domain, 77, &qa, IBV_QP_STATE, &qi) == 0, EINVAL);
	REFUSED_ERRNO(ibv_query_xrc_rcv_qp(NULL, 77, &qa, IBV_QP_STATE, &qi) == 0, EINVAL);
	CHECK(!ibv_close_xrc_domain(domain) && !ibv_destroy_cq(cq), "destroy");
}

static int exp_send(struct ibv_qp *qp, struct ibv_exp_send_wr wr)
{
	struct ibv_exp_send_wr *bad = NULL;
	int rc = ibv_exp_post_send(qp, &wr, &bad);

	CHECK(!rc || bad == &wr, "bad_wr");
	return rc;
}

static int exp_task(struct vt *t, struct ibv_exp_task task)
{
	struct ibv_exp_task *bad = NULL;
	int rc = ibv_exp_post_task(t->ctx, &task, &bad);

	CHECK(!rc || bad == &task, "bad_task");
	return rc;
}

#define TASK(err, ...)                                                                                                  \
	do {                                                                                                            \
		struct ibv_exp_task task_ = { __VA_ARGS__ };                                                            \
		REFUSED(exp_task(t, task_), err);                                                                       \
	} while (0)

static void exp_posts(struct vt *t, struct ibv_sge *sge)
{
	struct ibv_cq *cq = vt_cq(t, 64, NULL);
	struct ibv_qp *a = exp_qp(t, cq, IBV_QPT_RC, IBV_EXP_QP_CREATE_CROSS_CHANNEL, 0), *b = exp_qp(t, cq, IBV_QPT_RC, 0, 0);
	struct ibv_exp_send_wr send = { .exp_opcode = IBV_EXP_WR_SEND, .num_sge = 1, .sg_list = sge }, w;
	struct ibv_recv_wr recv = { .num_sge = 1, .sg_list = sge };

	CHECK(a && b, "ibv_exp_create_qp");
	said();
	REFUSED(exp_send(b, send), EINVAL);		/* RESET */
	TASK(EINVAL, .task_type = IBV_EXP_TASK_SEND, .item = { .qp = b, .send_wr = &send });
	TASK(EINVAL, .task_type = IBV_EXP_TASK_RECV, .item = { .qp = b, .recv_wr = &recv });
	vt_connect_pair(a, b);
	said();
#define REQUEST(err, ...)                                                                                               \
	do {                                                                                                            \
		w = (struct ibv_exp_send_wr){ __VA_ARGS__ };                                                            \
		REFUSED(exp_send(a, w), err);                                                                           \
	} while (0)
	REQUEST(EINVAL, .exp_opcode = IBV_EXP_WR_SEND, .exp_send_flags = 1ull << 62);
	REQUEST(EINVAL, .exp_opcode = (enum ibv_exp_wr_opcode)0x7777);
	REQUEST(EOPNOTSUPP, .exp_opcode = IBV_EXP_WR_UMR_FILL);
	REQUEST(EINVAL, .exp_opcode = IBV_EXP_WR_SEND, .num_sge = -1);
	REQUEST(EINVAL, .exp_opcode = IBV_EXP_WR_SEND, .num_sge = 1);
	REQUEST(EINVAL, .exp_opcode = IBV_EXP_WR_SEND, .exp_send_flags = IBV_EXP_SEND_WAIT_EN_LAST);
	REQUEST(EINVAL, .exp_opcode = IBV_EXP_WR_NOP, .exp_send_flags = IBV_EXP_SEND_WAIT_EN_LAST);
	REQUEST(EINVAL, .exp_opcode = IBV_EXP_WR_CQE_WAIT);
	REQUEST(EINVAL, .exp_opcode = IBV_EXP_WR_CQE_WAIT, .task.cqe_wait = { .cq = cq, .cq_count = 0 });
	REQUEST(EINVAL, .exp_opcode = IBV_EXP_WR_SEND_ENABLE);
	REQUEST(EINVAL, .exp_opcode = IBV_EXP_WR_SEND_ENABLE, .task.wqe_enable = { .qp = b, .wqe_count = 1 });
	REQUEST(EINVAL, .exp_opcode = IBV_EXP_WR_SEND_ENABLE, .task.wqe_enable = { .qp = b, .wqe_count = -1 });
	REQUEST(EINVAL, .exp_opcode = IBV_EXP_WR_RDMA_READ, .num_sge = 1, .sg_list = sge, .exp_send_flags = IBV_EXP_SEND_INLINE);
	REQUEST(EINVAL, .exp_opcode = IBV_EXP_WR_ATOMIC_FETCH_AND_ADD, .num_sge = 1, .sg_list = sge, .wr.atomic.remote_addr = 4);
	REQUEST(EINVAL, .exp_opcode = IBV_EXP_WR_EXT_MASKED_ATOMIC_FETCH_AND_ADD, .num_sge = 1, .sg_list = sge);
	REQUEST(EINVAL, .exp_opcode = IBV_EXP_WR_EXT_MASKED_ATOMIC_FETCH_AND_ADD, .num_sge = 1, .sg_list = sge,
			.ext_op.masked_atomics.log_arg_sz = 3);
	REQUEST(EINVAL, .exp_opcode = IBV_EXP_WR_SEND, .exp_send_flags = IBV_EXP_SEND_WITH_CALC);
	REQUEST(EINVAL, .exp_opcode = IBV_EXP_WR_NOP, .num_sge = 1, .exp_send_flags = 1ull << 61);
	REQUEST(EOPNOTSUPP, .exp_opcode = IBV_EXP_WR_SEND, .num_sge = 1, .sg_list = sge, .exp_send_flags = IBV_EXP_SEND_WITH_CALC,
			.op.calc = { .calc_op = (enum ibv_exp_calc_op)77 });
	REFUSED(ibv_exp_post_send(NULL, &send, NULL), EINVAL);
	REFUSED(ibv_exp_post_task(t->ctx, NULL, NULL), EINVAL);
	TASK(EINVAL, .task_type = (enum ibv_exp_task_type)9, .item = { .qp = a });
	TASK(EINVAL, .task_type = IBV_EXP_TASK_SEND, .item = { .qp = a });
	TASK(EINVAL, .task_type = IBV_EXP_TASK_RECV, .item = { .qp = a });
	TASK(EINVAL, .task_type = IBV_EXP_TASK_SEND);
	recv.num_sge = -1;
	TASK(EINVAL, .task_type = IBV_EXP_TASK_RECV, .item = { .qp = a, .recv_wr = &recv });
	struct ibv_sge two[2] = { *sge, *sge };
	recv = (struct ibv_recv_wr){ .num_sge = 2, .sg_list = two };
	TASK(EINVAL, .task_type = IBV_EXP_TASK_RECV, .item = { .qp = a, .recv_wr = &recv });
	/* more than there is room for */
	struct ibv_recv_wr r3[3];
	struct ibv_exp_send_wr s3[3];
	for (int i = 0; i < 3; i++) {
		r3[i] = (struct ibv_recv_wr){ .next = i < 2 ? &r3[i + 1] : NULL, .num_sge = 1, .sg_list = sge };
		s3[i] = send;
		s3[i].next = i < 2 ? &s3[i + 1] : NULL;
	}
	TASK(ENOMEM, .task_type = IBV_EXP_TASK_RECV, .item = { .qp = a, .recv_wr = r3 });
	TASK(ENOMEM, .task_type = IBV_EXP_TASK_SEND, .item = { .qp = a, .send_wr = s3 });
	REFUSED(ibv_exp_post_send(a, s3, NULL), ENOMEM);
	CHECK(!ibv_destroy_qp(a) && !ibv_destroy_qp(b) && !ibv_destroy_cq(cq), "destroy");
}

/* Ordinary verbs that make and change objects. */
static void control(struct vt *t, const struct ibv_mr *mr)
{
	struct ibv_cq *cq = vt_cq(t, 64, NULL);
	struct ibv_qp *qp = vt_qp(t, IBV_QPT_RC, cq, NULL);
	struct ibv_modify_cq_attr ma = { .attr_mask = IBV_CQ_ATTR_MODERATE | 2 };
	struct ibv_xrcd_init_attr xa = { .comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = 9999 };
	struct ibv_alloc_dm_attr dma = { .length = 64 };
	struct ibv_values_ex va = { .comp_mask = 1u << 30 };
	struct ibv_srq_init_attr sa = { .attr = { .max_wr = 4, .max_sge = 1 } };
	struct ibv_device_attr_ex dev;
	struct ibv_ah_attr far = { .dlid = 1, .port_num = 9 };
	struct ibv_port_attr port;
	struct ibv_ece ece = { .comp_mask = 1 };
	union ibv_gid gid;
	__be16 pkey;
	uint32_t number;

	CALM(ibv_alloc_dm(t->ctx, &dma) != NULL);
	struct ibv_dm *dm = ibv_alloc_dm(t->ctx, &dma);
	struct ibv_srq *srq = ibv_create_srq(t->pd, &sa);
	CHECK(dm && srq, "objects");
	said();
	REFUSED_ERRNO(ibv_create_cq(t->ctx, 0, NULL, NULL, 0), EINVAL);
	REFUSED(ibv_modify_cq(cq, &ma), EINVAL);
	REFUSED(ibv_resize_cq(cq, 0), EINVAL);
	REFUSED(ibv_destroy_cq(cq), EBUSY);
	REFUSED_ERRNO(ibv_open_xrcd(t->ctx, &xa), EBADF);
	REFUSED_ERRNO(ibv_reg_mr(t->pd, mem, SIZE_MAX, IBV_ACCESS_LOCAL_WRITE), EINVAL);
	REFUSED_ERRNO(ibv_reg_mr_iova(t->pd, mem, 64, UINT64_MAX, IBV_ACCESS_LOCAL_WRITE), EINVAL);
	REFUSED_ERRNO(ibv_reg_mr(t->pd, mem, 64, 1 << 15), EINVAL);
	REFUSED_ERRNO(ibv_reg_dmabuf_mr(t->pd, 0, 64, 0, 0, 0), EOPNOTSUPP);
	REFUSED_ERRNO(ibv_rereg_mr((struct ibv_mr *)(uintptr_t)mr, 1 << 9, NULL, NULL, 0, 0) == 0, EINVAL);
	struct ibv_sge s = { .addr = (uintptr_t)mem, .length = 8, .lkey = mr->lkey };
	REFUSED(ibv_advise_mr(t->pd, (enum ibv_advise_mr_advice)99, 0, &s, 1), EOPNOTSUPP);
	REFUSED(ibv_advise_mr(t->pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 1u << 9, &s, 1), EINVAL);
	REFUSED_ERRNO(shca_alloc(t->ctx, 0), EINVAL);
	REFUSED(ibv_memcpy_to_dm(dm, 1, mem, 4), EINVAL);
	REFUSED(ibv_memcpy_from_dm(mem, dm, 64, 4), EFAULT);
	REFUSED(ibv_query_rt_values_ex(t->ctx, &va), EINVAL);
	REFUSED(ibv_query_port(t->ctx, 9, &port), EINVAL);
	REFUSED_ERRNO(ibv_query_gid(t->ctx, 1, 9, &gid) == 0, EINVAL);
	REFUSED_ERRNO(ibv_query_pkey(t->ctx, 1, 9, &pkey) == 0, EINVAL);
	REFUSED(ibv_get_srq_num(srq, &number), EOPNOTSUPP);
	REFUSED_ERRNO(ibv_create_ah(t->pd, &far), EINVAL);
	REFUSED(ibv_set_ece(qp, &ece), EINVAL);
	REFUSED(ibv_attach_mcast(qp, &gid, 0), EINVAL);
	REFUSED(ibv_detach_mcast(qp, &gid, 0), EINVAL);
	REFUSED(vt_to(qp, IBV_QPS_RTS), EINVAL);
	REFUSED(shca_set_fabric("other"), EBUSY);
	CALM(!ibv_query_port(t->ctx, 1, &port));
	CALM(!ibv_query_gid(t->ctx, 1, 0, &gid));
	CALM(!ibv_query_device_ex(t->ctx, NULL, &dev));
	CHECK(!ibv_free_dm(dm) && !ibv_destroy_srq(srq) && !ibv_destroy_qp(qp) && !ibv_destroy_cq(cq), "destroy");
}

/* From the list of devices to the completion, and back. */
static void untouched(void)
{
	struct ibv_device **list;
	struct ibv_context *ctx;
	struct ibv_wc wc;
	int n;

	CHECK(!setenv("SHCA_VISIBLE", "1", 1), "setenv");
	CALM((list = ibv_get_device_list(&n)) != NULL && n >= 1);
	CALM((ctx = ibv_open_device(list[0])) != NULL);
	CALM((ibv_free_device_list(list), true));
	CHECK(!unsetenv("SHCA_VISIBLE"), "unsetenv");
	struct vt t = { .ctx = ctx };
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	struct ibv_comp_channel *ch;
	void *arena;
	CALM((t.pd = ibv_alloc_pd(ctx)) != NULL);
	CALM((ch = ibv_create_comp_channel(ctx)) != NULL);
	CALM((cq = ibv_create_cq(ctx, 16, NULL, ch, 0)) != NULL);
	CALM((mr = ibv_reg_mr(t.pd, mem, sizeof mem, IBV_ACCESS_LOCAL_WRITE)) != NULL);
	CALM((arena = shca_alloc(ctx, 1 << 20)) != NULL);
	struct ibv_qp *a, *b;
	CALM((a = vt_qp(&t, IBV_QPT_RC, cq, NULL)) != NULL);
	CALM((b = vt_qp(&t, IBV_QPT_RC, cq, NULL)) != NULL);
	CALM((vt_connect_pair(a, b), true));
	CALM(!ibv_req_notify_cq(cq, 0));
	CALM(!vt_recv(b, 1, vt_sge(mr, 0, 8)));
	CALM(!vt_send(a, 2, vt_sge(mr, 8, 8), IBV_SEND_SIGNALED));
	struct ibv_cq *got;
	void *context;
	CALM(!ibv_get_cq_event(ch, &got, &context));
	CALM((ibv_ack_cq_events(cq, 1), true));
	CALM(ibv_poll_cq(cq, 1, &wc) == 1);
	CALM(ibv_poll_cq(cq, 1, &wc) == 1);
	CALM(ibv_poll_cq(cq, 1, &wc) == 0);
	CALM(!vt_to(a, IBV_QPS_ERR));
	CALM(!vt_to(a, IBV_QPS_RESET));
	CALM(!ibv_destroy_qp(a));
	CALM(!ibv_destroy_qp(b));
	CALM(!shca_free(ctx, arena));
	CALM(!ibv_dereg_mr(mr));
	CALM(!ibv_destroy_cq(cq));
	CALM(!ibv_destroy_comp_channel(ch));
	CALM(!ibv_dealloc_pd(t.pd));
	CALM(!ibv_close_device(ctx));
}

int main(void)
{
	char name[] = "/tmp/said-XXXXXX";

	vt_fabric();
	CHECK(!setenv("SHCA_DEBUG", "1", 1), "setenv");
	lines = mkstemp(name);
	kept = dup(2);
	CHECK(lines >= 0 && kept >= 0 && !unlink(name) && dup2(lines, 2) == 2, "redirect");
	CHECK(!atexit(show), "atexit");
	/* its fabric is made and left here: nothing is a member before, or behind */
	untouched();
	struct vt t = vt_open();
	struct ibv_mr *mr = vt_mr(&t, mem, sizeof mem, IBV_ACCESS_LOCAL_WRITE);
	struct ibv_sge sge = vt_sge(mr, 0, 8);

	plain(&t, &sge);
	built(&t, &sge);
	other_types(&t, &sge);
	entries(&t);
	exp_objects(&t);
	exp_posts(&t, &sge);
	control(&t, mr);
	CHECK(!ibv_dereg_mr(mr), "dereg");
	vt_close(&t);
	dup2(kept, 2);
	return 0;
}
