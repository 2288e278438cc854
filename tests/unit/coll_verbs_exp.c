/* SPDX-License-Identifier: BSD-3-Clause */
/* The experimental verbs over a mock of the device's operations: the requests that reach the mock, and refusals before it. */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include <infiniband/verbs_exp.h>

#include "verbs_exp/provider.h"

/* ---- the mock -------------------------------------------------------------------------------------------- */

/* of no provider: libmlx5 looks behind the public part for its own context */
static struct {
	struct ibv_device device;
	char zero[1024];
} strange;
static struct ibv_context own, foreign = { .device = &strange.device };
static struct ibv_pd pd = { .context = &own };
static struct ibv_cq cq = { .context = &own }, foreign_cq = { .context = &foreign };
static struct ibv_qp qp = { .context = &own }, qp2 = { .context = &own }, foreign_qp = { .context = &foreign };
static struct ibv_srq srq = { .context = &own };
static int calls, posted;
static int answer;

static int mock_query(struct ibv_context *ctx, struct ibv_exp_device_attr *attr)
{
	calls++;
	attr->exp_device_cap_flags = IBV_EXP_DEVICE_CROSS_CHANNEL;
	return answer;
}

static struct ibv_cq *mock_create_cq(struct ibv_context *ctx, int cqe, void *cq_context, struct ibv_comp_channel *channel,
				     int comp_vector, struct ibv_exp_cq_init_attr *attr)
{
	calls++;
	return &cq;
}

static int mock_modify_cq(struct ibv_cq *c, struct ibv_exp_cq_attr *attr, int attr_mask)
{
	calls++;
	return answer;
}

static struct ibv_qp *mock_create_qp(struct ibv_context *ctx, struct ibv_exp_qp_init_attr *attr)
{
	calls++;
	return &qp;
}

static int mock_post_send(struct ibv_qp *q, struct ibv_exp_send_wr *wr, struct ibv_exp_send_wr **bad)
{
	calls++;
	for (; wr; wr = wr->next)
		posted++;
	return answer;
}

static int mock_post_task(struct ibv_context *ctx, struct ibv_exp_task *task, struct ibv_exp_task **bad)
{
	calls++;
	for (; task; task = task->next)
		posted++;
	return answer;
}

static int mock_refuse(int err, const char *fmt, ...)
{
	return err;
}

static const struct ibv_exp_provider mock = {
	.query_device = mock_query, .create_cq = mock_create_cq, .modify_cq = mock_modify_cq,
	.create_qp = mock_create_qp, .post_send = mock_post_send, .post_task = mock_post_task, .refuse = mock_refuse,
};

/* symbols of the software HCA's library that the mlx5 provider needs */
const struct exp_watch *_Atomic exp_watch;
bool shca_env_bool(const char *name)
{
	return false;
}

/* the hook that answers for contexts without a provider */
int shca_refuse(int err, const char *fmt, ...)
{
	return err;
}

const struct ibv_exp_provider *shca_exp_provider(struct ibv_context *ctx)
{
	return ctx == &own ? &mock : NULL;
}

static void reset(void)
{
	calls = posted = answer = 0;
	errno = 0;
}

/* ---- query, CQ, QP ----------------------------------------------------------------------------------------- */

Test(verbs_exp, foreign_contexts_have_nothing)
{
	struct ibv_exp_device_attr attr = {.comp_mask = IBV_EXP_DEVICE_ATTR_EXP_CAP_FLAGS | SHCA_EXP_DEVICE_ATTR_EXTENSIONS,
					   .exp_device_cap_flags = ~0ULL,
					   .max_task_wrs = 7};
	struct ibv_exp_qp_init_attr init = { .comp_mask = IBV_EXP_QP_INIT_ATTR_PD, .qp_type = IBV_QPT_RC };
	struct ibv_pd fpd = { .context = &foreign };
	struct ibv_exp_send_wr wr = { .exp_opcode = IBV_EXP_WR_NOP };
	struct ibv_exp_task task = { .item = { .qp = &foreign_qp, .send_wr = &wr } };
	struct ibv_exp_cq_attr cq_attr = { .comp_mask = IBV_EXP_CQ_ATTR_CQ_CAP_FLAGS };

	reset();
	cr_assert_eq(ibv_exp_query_device(&foreign, &attr), EOPNOTSUPP);
	cr_assert_eq(attr.exp_device_cap_flags, 0);
	cr_assert_eq(attr.ext_atom.atomic_arg_sizes, 0);
	cr_assert_eq(attr.max_task_wrs, 0);
	cr_assert_null(ibv_exp_create_cq(&foreign, 4, NULL, NULL, 0, NULL));
	cr_assert_eq(errno, EOPNOTSUPP);
	init.pd = &fpd;
	init.send_cq = init.recv_cq = &foreign_cq;
	cr_assert_null(ibv_exp_create_qp(&foreign, &init));
	cr_assert_eq(errno, EOPNOTSUPP);
	cr_assert_eq(ibv_exp_modify_cq(&foreign_cq, &cq_attr, IBV_EXP_CQ_CAP_FLAGS), EOPNOTSUPP);
	cr_assert_eq(ibv_exp_post_send(&foreign_qp, &wr, NULL), EOPNOTSUPP);
	cr_assert_eq(ibv_exp_post_task(&foreign, &task, NULL), EOPNOTSUPP);
	cr_assert_eq(calls, 0);
}

Test(verbs_exp, query)
{
	struct ibv_exp_device_attr attr = { .comp_mask = IBV_EXP_DEVICE_ATTR_EXP_CAP_FLAGS };

	reset();
	cr_assert_eq(ibv_exp_query_device(&own, &attr), 0);
	cr_assert_eq(attr.exp_device_cap_flags, IBV_EXP_DEVICE_CROSS_CHANNEL);
	cr_assert_eq(ibv_exp_query_device(NULL, &attr), EINVAL);
	cr_assert_eq(ibv_exp_query_device(&own, NULL), EINVAL);
	/* bits of a later header are not answered */
	attr.comp_mask = 1u << 29 | IBV_EXP_DEVICE_ATTR_EXP_CAP_FLAGS;
	cr_assert_eq(ibv_exp_query_device(&own, &attr), 0);
	cr_assert_eq(attr.comp_mask, IBV_EXP_DEVICE_ATTR_EXP_CAP_FLAGS);
	cr_assert_eq(calls, 2);
}

Test(verbs_exp, completion_queues)
{
	struct ibv_exp_cq_init_attr init = { .comp_mask = IBV_EXP_CQ_INIT_ATTR_FLAGS, .flags = IBV_EXP_CQ_CREATE_CROSS_CHANNEL };
	struct ibv_exp_cq_attr attr = { .comp_mask = IBV_EXP_CQ_ATTR_CQ_CAP_FLAGS, .cq_cap_flags = IBV_EXP_CQ_IGNORE_OVERRUN };

	reset();
	cr_assert_eq(ibv_exp_create_cq(&own, 4, NULL, NULL, 0, &init), &cq);
	cr_assert_eq(ibv_exp_create_cq(&own, 4, NULL, NULL, 0, NULL), &cq);
	cr_assert_null(ibv_exp_create_cq(&own, 0, NULL, NULL, 0, &init));
	cr_assert_eq(errno, EINVAL);
	init.flags = IBV_EXP_CQ_CREATE_FLAGS_MASK + 1;
	cr_assert_null(ibv_exp_create_cq(&own, 4, NULL, NULL, 0, &init));
	init.comp_mask = IBV_EXP_CQ_INIT_ATTR_RESERVED1;
	cr_assert_null(ibv_exp_create_cq(&own, 4, NULL, NULL, 0, &init));
	cr_assert_eq(ibv_exp_modify_cq(&cq, &attr, IBV_EXP_CQ_CAP_FLAGS), 0);
	/* D.2.2: both masks. */
	cr_assert_eq(ibv_exp_modify_cq(&cq, &attr, 0), EINVAL);
	attr.comp_mask = 0;
	cr_assert_eq(ibv_exp_modify_cq(&cq, &attr, IBV_EXP_CQ_CAP_FLAGS), EINVAL);
	attr.comp_mask = IBV_EXP_CQ_ATTR_CQ_CAP_FLAGS;
	attr.cq_cap_flags = 4;
	cr_assert_eq(ibv_exp_modify_cq(&cq, &attr, IBV_EXP_CQ_CAP_FLAGS), EINVAL);
	cr_assert_eq(calls, 3);
}

static struct ibv_exp_qp_init_attr good_qp(void)
{
	return (struct ibv_exp_qp_init_attr){
		.comp_mask = IBV_EXP_QP_INIT_ATTR_PD | IBV_EXP_QP_INIT_ATTR_CREATE_FLAGS | IBV_EXP_QP_INIT_ATTR_ATOMICS_ARG,
		.pd = &pd, .send_cq = &cq, .recv_cq = &cq, .qp_type = IBV_QPT_RC, .max_atomic_arg = 8,
		.exp_create_flags = IBV_EXP_QP_CREATE_CROSS_CHANNEL | IBV_EXP_QP_CREATE_MANAGED_SEND,
	};
}

Test(verbs_exp, queue_pairs)
{
	struct ibv_exp_qp_init_attr a = good_qp();

	reset();
	cr_assert_eq(ibv_exp_create_qp(&own, &a), &qp);
	cr_assert_eq(calls, 1);
#define REFUSED(change)                                                                                              \
	do {                                                                                                         \
		a = good_qp();                                                                                       \
		change;                                                                                              \
		errno = 0;                                                                                           \
		cr_assert_null(ibv_exp_create_qp(&own, &a), "%s", #change);                                          \
		cr_assert_eq(errno, EINVAL, "%s", #change);                                                          \
	} while (0)
	REFUSED(a.comp_mask |= 1u << 15);
	REFUSED(a.exp_create_flags |= 1u << 5);
	REFUSED(a.pd = NULL);
	REFUSED(a.pd = &(struct ibv_pd){ .context = &foreign });
	REFUSED(a.comp_mask &= ~(uint32_t)IBV_EXP_QP_INIT_ATTR_PD);
	REFUSED(a.send_cq = NULL);
	REFUSED(a.recv_cq = &foreign_cq);
	REFUSED(a.max_atomic_arg = 12);
	REFUSED(a.qp_type = IBV_QPT_XRC_RECV);
	REFUSED((a.exp_create_flags = IBV_EXP_QP_CREATE_MANAGED_RECV, a.srq = &srq));
	cr_assert_eq(calls, 1);
}

/* ---- work requests ------------------------------------------------------------------------------------------- */

static struct ibv_sge sge = { .length = 8 };

static struct ibv_exp_send_wr masked(void)
{
	struct ibv_exp_send_wr wr = { .exp_opcode = IBV_EXP_WR_EXT_MASKED_ATOMIC_FETCH_AND_ADD, .sg_list = &sge, .num_sge = 1,
				      .exp_send_flags = IBV_EXP_SEND_EXT_ATOMIC_INLINE };

	wr.ext_op.masked_atomics.log_arg_sz = 3;
	return wr;
}

static struct ibv_exp_send_wr wait_wr(struct ibv_cq *on, int n)
{
	struct ibv_exp_send_wr wr = { .exp_opcode = IBV_EXP_WR_CQE_WAIT, .exp_send_flags = IBV_EXP_SEND_WAIT_EN_LAST };

	wr.task.cqe_wait.cq = on;
	wr.task.cqe_wait.cq_count = n;
	return wr;
}

static struct ibv_exp_send_wr enable_wr(struct ibv_qp *which, int n)
{
	struct ibv_exp_send_wr wr = { .exp_opcode = IBV_EXP_WR_SEND_ENABLE };

	wr.task.wqe_enable.qp = which;
	wr.task.wqe_enable.wqe_count = n;
	return wr;
}

static int post(struct ibv_exp_send_wr wr)
{
	struct ibv_exp_send_wr *bad = NULL;
	int err = ibv_exp_post_send(&qp, &wr, &bad);

	if (err)
		cr_assert_eq(bad, &wr);
	return err;
}

Test(verbs_exp, requests)
{
	struct ibv_exp_send_wr wr;

	reset();
	cr_assert_eq(post(masked()), 0);
	cr_assert_eq(post(wait_wr(&cq, 1)), 0);
	cr_assert_eq(post(enable_wr(&qp2, 3)), 0);
	cr_assert_eq(post(enable_wr(&qp2, 0)), 0);
	wr = (struct ibv_exp_send_wr){ .exp_opcode = IBV_EXP_WR_RDMA_WRITE_WITH_IMM };
	cr_assert_eq(post(wr), 0);
	wr = (struct ibv_exp_send_wr){ .exp_opcode = IBV_EXP_WR_SEND, .sg_list = &sge, .num_sge = 1,
				       .exp_send_flags = IBV_EXP_SEND_WITH_CALC };
	cr_assert_eq(post(wr), 0);
	wr = enable_wr(&qp2, 1);
	wr.exp_send_flags = IBV_EXP_SEND_WAIT_EN_LAST;
	cr_assert_eq(post(wr), 0);
	/* fields that a request does not use, or that its mask excludes, are not read */
	wr = wait_wr(&cq, 1);
	wr.num_sge = -7;
	wr.comp_mask = 0xa5a5a5a5;
	cr_assert_eq(post(wr), 0);
	wr = enable_wr(&qp2, 1);
	wr.num_sge = 99;
	cr_assert_eq(post(wr), 0);
	wr = (struct ibv_exp_send_wr){ .exp_opcode = IBV_EXP_WR_NOP, .num_sge = 5 };
	cr_assert_eq(post(wr), 0);
	cr_assert_eq(posted, 10);

	/* a result that is too short; without the flag, operands are to stand behind it */
	wr = masked();
	wr.ext_op.masked_atomics.log_arg_sz = 5;
	cr_assert_eq(post(wr), EINVAL);
	wr = masked();
	wr.exp_send_flags = 0;
	cr_assert_eq(post(wr), EINVAL);
	wr = masked();
	wr.ext_op.masked_atomics.log_arg_sz = 1;
	cr_assert_eq(post(wr), EINVAL);
	wr = masked();
	wr.ext_op.masked_atomics.remote_addr = 4;
	cr_assert_eq(post(wr), EINVAL);
	wr = masked();
	wr.num_sge = 0;
	cr_assert_eq(post(wr), EINVAL);
	wr = masked();
	wr.exp_send_flags |= 1ULL << 40;
	cr_assert_eq(post(wr), EINVAL);
	/* result fields must not be set in a request */
	wr = (struct ibv_exp_send_wr){ .exp_opcode = IBV_EXP_WR_RDMA_READ, .sg_list = &sge, .num_sge = 1,
				       .exp_send_flags = IBV_EXP_SEND_INLINE };
	cr_assert_eq(post(wr), EINVAL);
	cr_assert_eq(post(wait_wr(NULL, 1)), EINVAL);
	cr_assert_eq(post(wait_wr(&cq, 0)), EINVAL);
	cr_assert_eq(post(wait_wr(&cq, -1)), EINVAL);
	cr_assert_eq(post(wait_wr(&foreign_cq, 1)), EINVAL);
	cr_assert_eq(post(enable_wr(NULL, 1)), EINVAL);
	cr_assert_eq(post(enable_wr(&foreign_qp, 1)), EINVAL);
	cr_assert_eq(post(enable_wr(&qp2, -1)), EINVAL);
	wr = (struct ibv_exp_send_wr){ .exp_opcode = IBV_EXP_WR_NOP, .exp_send_flags = IBV_EXP_SEND_WAIT_EN_LAST };
	cr_assert_eq(post(wr), EINVAL);
	wr.exp_opcode = IBV_EXP_WR_SEND;
	cr_assert_eq(post(wr), EINVAL);
	wr = (struct ibv_exp_send_wr){ .exp_opcode = (enum ibv_exp_wr_opcode)0x7f };
	cr_assert_eq(post(wr), EINVAL);
	wr = (struct ibv_exp_send_wr){ .exp_opcode = IBV_EXP_WR_SEND, .num_sge = 1 };
	cr_assert_eq(post(wr), EINVAL);
	/* CALC makes a payload from a gather list: a CALC request needs such a list, and an operation that sends. */
	wr = (struct ibv_exp_send_wr){ .exp_opcode = IBV_EXP_WR_SEND, .exp_send_flags = IBV_EXP_SEND_WITH_CALC };
	cr_assert_eq(post(wr), EINVAL);
	wr = masked();
	wr.exp_send_flags |= IBV_EXP_SEND_WITH_CALC;
	cr_assert_eq(post(wr), EINVAL);
	cr_assert_eq(posted, 10);
}

/* post_send posts the requests before the refused one; the caller's list is unchanged afterwards. */
Test(verbs_exp, post_send_stops_at_the_bad_one)
{
	struct ibv_exp_send_wr wr[3] = { wait_wr(&cq, 1), wait_wr(&cq, 0), wait_wr(&cq, 1) }, *bad = NULL;

	reset();
	wr[0].next = &wr[1];
	wr[1].next = &wr[2];
	cr_assert_eq(ibv_exp_post_send(&qp, wr, &bad), EINVAL);
	cr_assert_eq(bad, &wr[1]);
	cr_assert_eq(posted, 1);
	cr_assert_eq(wr[0].next, &wr[1]);
	cr_assert_eq(ibv_exp_post_send(NULL, wr, &bad), EINVAL);
	cr_assert_eq(ibv_exp_post_send(&qp, NULL, &bad), EINVAL);
}

/* ---- task lists ------------------------------------------------------------------------------------------------ */

Test(verbs_exp, task_lists_are_posted_whole_or_not_at_all)
{
	struct ibv_exp_send_wr wr[2] = { wait_wr(&cq, 1), enable_wr(&qp2, 1) };
	struct ibv_recv_wr recv = { 0 };
	struct ibv_exp_task task[3] = {
		{ .task_type = IBV_EXP_TASK_SEND, .item = { .qp = &qp, .send_wr = &wr[0] }, .next = &task[1] },
		{ .task_type = IBV_EXP_TASK_RECV, .item = { .qp = &qp, .recv_wr = &recv }, .next = &task[2] },
		{ .task_type = IBV_EXP_TASK_SEND, .item = { .qp = &qp, .send_wr = &wr[1] } },
	}, *bad = NULL;

	reset();
	cr_assert_eq(ibv_exp_post_task(&own, task, &bad), 0);
	cr_assert_eq(posted, 3);
	cr_assert_eq(ibv_exp_post_task(&own, task, NULL), 0);

	reset();
	wr[1].task.wqe_enable.qp = NULL;
	cr_assert_eq(ibv_exp_post_task(&own, task, &bad), EINVAL);
	cr_assert_eq(bad, &task[2]);
	wr[1].task.wqe_enable.qp = &qp2;
	task[1].item.qp = &foreign_qp;
	cr_assert_eq(ibv_exp_post_task(&own, task, &bad), EINVAL);
	cr_assert_eq(bad, &task[1]);
	task[1].item.qp = &qp;
	recv.num_sge = 1;
	cr_assert_eq(ibv_exp_post_task(&own, task, &bad), EINVAL);
	recv.num_sge = 0;
	/* receives of a shared queue are posted to it, not by way of one of its queue pairs */
	qp.srq = &srq;
	cr_assert_eq(ibv_exp_post_task(&own, task, &bad), EINVAL);
	cr_assert_eq(bad, &task[1]);
	qp.srq = NULL;
	task[2].comp_mask = 1;		/* not looked at */
	task[2].task_type = (enum ibv_exp_task_type)5;
	cr_assert_eq(ibv_exp_post_task(&own, task, &bad), EINVAL);
	task[2].task_type = IBV_EXP_TASK_SEND;
	task[0].item.send_wr = NULL;
	cr_assert_eq(ibv_exp_post_task(&own, task, &bad), EINVAL);
	cr_assert_eq(bad, &task[0]);
	cr_assert_eq(ibv_exp_post_task(&own, NULL, &bad), EINVAL);
	cr_assert_eq(ibv_exp_post_task(NULL, task, &bad), EINVAL);
	cr_assert_eq(calls, 0);
	/* The device's own refusal is passed on. */
	task[0].item.send_wr = &wr[0];
	answer = ENOMEM;
	cr_assert_eq(ibv_exp_post_task(&own, task, &bad), ENOMEM);
}
