/* SPDX-License-Identifier: BSD-3-Clause */
/* The experimental verbs: refusals, the counts of WAIT and ENABLE, masked atomics, task lists (manual, B and D). */
#include <infiniband/mlx5dv.h>
#include <infiniband/verbs_exp.h>

#include "vt.h"

static struct vt t;
static uint64_t *mem;
static struct ibv_mr *mr;
static struct ibv_cq *cq, *other;	/* of all queues; the CQ that WAITs name */

#define CROSS IBV_EXP_QP_CREATE_CROSS_CHANNEL

static struct ibv_qp *make(uint32_t flags, uint32_t wrs, struct ibv_cq *recv_cq)
{
	struct ibv_exp_qp_init_attr a = {
		.send_cq = cq, .recv_cq = recv_cq, .qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = wrs, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
		.comp_mask = IBV_EXP_QP_INIT_ATTR_PD | IBV_EXP_QP_INIT_ATTR_CREATE_FLAGS, .pd = t.pd, .exp_create_flags = flags,
	};
	struct ibv_qp *qp = ibv_exp_create_qp(t.ctx, &a);

	CHECK(qp, "ibv_exp_create_qp, flags %#x", flags);
	return qp;
}

static struct ibv_qp *loop(uint32_t flags, uint32_t wrs)
{
	struct ibv_qp *qp = make(flags, wrs, cq);

	vt_connect(qp, qp->qp_num);
	return qp;
}

static struct ibv_exp_send_wr wait_for(int count, bool last)
{
	struct ibv_exp_send_wr wr = {.wr_id = 90, .exp_opcode = IBV_EXP_WR_CQE_WAIT,
				     .exp_send_flags = last ? IBV_EXP_SEND_WAIT_EN_LAST : 0};
	wr.task.cqe_wait.cq = other;
	wr.task.cqe_wait.cq_count = count;
	return wr;
}

static struct ibv_exp_send_wr enable(struct ibv_qp *qp, int count)
{
	struct ibv_exp_send_wr wr = {.wr_id = 91, .exp_opcode = IBV_EXP_WR_SEND_ENABLE,
				     .exp_send_flags = IBV_EXP_SEND_WAIT_EN_LAST};
	wr.task.wqe_enable.qp = qp;
	wr.task.wqe_enable.wqe_count = count;
	return wr;
}

/* Adds 1 to word i of the region; its result goes to word 64. */
static struct ibv_sge result;
static struct ibv_exp_send_wr add_to(int i, uint64_t id)
{
	result = vt_sge(mr, 64 * 8, 8);
	struct ibv_exp_send_wr wr = {.wr_id = id, .exp_opcode = IBV_EXP_WR_ATOMIC_FETCH_AND_ADD, .sg_list = &result, .num_sge = 1,
				     .exp_send_flags = IBV_EXP_SEND_SIGNALED};
	wr.wr.atomic.remote_addr = (uintptr_t)&mem[i];
	wr.wr.atomic.rkey = mr->rkey;
	wr.wr.atomic.compare_add = 1;
	return wr;
}

static int post(struct ibv_qp *qp, struct ibv_exp_send_wr *wr, int n)
{
	struct ibv_exp_send_wr *bad;

	for (int i = 0; i < n; i++)
		wr[i].next = i + 1 < n ? &wr[i + 1] : NULL;
	return ibv_exp_post_send(qp, wr, &bad);
}

/* One more completion in `other`. */
static struct ibv_qp *ticker;
static void tick(void)
{
	CHECK(!vt_recv(ticker, 80, vt_sge(mr, 1024, 8)) && !vt_send(ticker, 81, vt_sge(mr, 1032, 8), 0), "tick");
	vt_expect(other, 80, IBV_WC_SUCCESS);
}

static void refusals(void)
{
	struct ibv_qp *ordinary = loop(0, 8), *cross = loop(CROSS, 8), *managed = loop(CROSS | IBV_EXP_QP_CREATE_MANAGED_SEND, 8);
	struct ibv_exp_send_wr w = wait_for(1, false);

	CHECK(post(ordinary, &w, 1) == EINVAL, "WAIT on an ordinary queue");
	w = enable(managed, 1);
	CHECK(post(ordinary, &w, 1) == EINVAL, "ENABLE on an ordinary queue");
	w = enable(cross, 1);
	CHECK(post(cross, &w, 1) == EINVAL, "ENABLE of a queue that is not managed");
	w = enable(managed, 1);
	w.exp_opcode = IBV_EXP_WR_RECV_ENABLE;
	CHECK(post(cross, &w, 1) == EINVAL, "RECV_ENABLE of a queue that manages sends");
	w = wait_for(0, false);
	CHECK(post(cross, &w, 1) == EINVAL, "WAIT for nothing");
	CHECK(!ibv_destroy_qp(ordinary) && !ibv_destroy_qp(cross) && !ibv_destroy_qp(managed), "destroy");

	struct mlx5dv_qp_init_attr dv = {.comp_mask = MLX5DV_QP_INIT_ATTR_MASK_DC, .dc_init_attr.dc_type = MLX5DV_DCTYPE_DCI};
	struct ibv_qp_init_attr_ex a = {.qp_type = IBV_QPT_DRIVER, .send_cq = cq, .recv_cq = cq, .pd = t.pd,
					.cap = {.max_send_wr = 4, .max_send_sge = 1},
					.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
					.send_ops_flags = IBV_QP_EX_WITH_SEND};
	struct ibv_qp *dci = mlx5dv_create_qp(t.ctx, &a, &dv);
	struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT, .port_num = 1}, rtr = vt_rtr_attr(0), rts = vt_rts_attr();
	CHECK(dci, "a DCI");
	CHECK(!ibv_modify_qp(dci, &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT), "INIT");
	CHECK(!ibv_modify_qp(dci, &rtr, IBV_QP_STATE | IBV_QP_PATH_MTU) && !ibv_modify_qp(dci, &rts, VT_RTS_RC), "RTS");
	w = add_to(0, 1);
	CHECK(post(dci, &w, 1) == EINVAL, "a request of a DC initiator without its dc.ah");
	CHECK(!ibv_destroy_qp(dci), "destroy");
}

/* WAITs share a base until the one that moves it, to the largest of them. */
static void waits(void)
{
	struct ibv_qp *q = loop(CROSS, 16);
	struct ibv_exp_send_wr wr[4] = {wait_for(2, false), wait_for(1, true), wait_for(1, true), add_to(0, 5)};

	mem[0] = 0;
	CHECK(!post(q, wr, 4), "post");
	for (int i = 0; i < 2; i++) {
		tick();
		vt_none(cq);
	}
	tick();
	vt_expect(cq, 5, IBV_WC_SUCCESS);
	CHECK(mem[0] == 1, "the add");
	CHECK(!ibv_destroy_qp(q), "destroy");
}

/* Many queues wait on one CQ, and one completion is enough for all. */
static void many_waiters(void)
{
	struct ibv_qp *q[9];

	mem[0] = 0;
	for (int i = 0; i < 9; i++) {
		q[i] = loop(CROSS, 8);
		struct ibv_exp_send_wr wr[2] = {wait_for(1, i == 8), add_to(0, (uint64_t)i)};
		CHECK(!post(q[i], wr, 2), "post");
	}
	vt_none(cq);
	tick();
	bool seen[9] = {false};
	for (int i = 0; i < 9; i++) {
		struct ibv_wc wc = vt_wait(cq);
		CHECK(wc.status == IBV_WC_SUCCESS && wc.wr_id < 9 && !seen[wc.wr_id], "%lu: %s", (unsigned long)wc.wr_id,
		      ibv_wc_status_str(wc.status));
		seen[wc.wr_id] = true;
	}
	CHECK(mem[0] == 9, "%lu adds", (unsigned long)mem[0]);
	for (int i = 0; i < 9; i++)
		CHECK(!ibv_destroy_qp(q[i]), "destroy");
}

/* Enabled requests stay enabled, though an ENABLE of a smaller count comes later; 0 enables all. */
static void enables(void)
{
	struct ibv_qp *m = loop(CROSS | IBV_EXP_QP_CREATE_MANAGED_SEND, 16), *late = loop(CROSS, 16), *early = loop(CROSS, 16);
	struct ibv_exp_send_wr todo[3] = {wait_for(2, false), add_to(0, 1), add_to(0, 2)};
	struct ibv_exp_send_wr first[2] = {wait_for(1, false), enable(m, 1)}, second = enable(m, 1), all = enable(m, 0);

	mem[0] = 0;
	CHECK(!post(m, todo, 3) && !post(late, first, 2) && !post(early, &second, 1), "post");
	tick();				/* the late ENABLE of one request; two are enabled already */
	vt_none(cq);
	tick();				/* the WAIT, which is enabled; the first add behind it is too */
	vt_expect(cq, 1, IBV_WC_SUCCESS);
	vt_none(cq);
	CHECK(!post(early, &all, 1), "ENABLE of all");
	vt_expect(cq, 2, IBV_WC_SUCCESS);
	CHECK(mem[0] == 2, "%lu adds", (unsigned long)mem[0]);
	/* the base has not moved so far: the base is two completions behind */
	struct ibv_exp_send_wr move[2] = {wait_for(2, true), add_to(0, 3)};
	CHECK(!post(late, move, 2), "post");
	vt_expect(cq, 3, IBV_WC_SUCCESS);
	CHECK(!ibv_destroy_qp(m) && !ibv_destroy_qp(late) && !ibv_destroy_qp(early), "destroy");
}

/* Enables share a base until the one that moves it, to the largest of them; the enabled requests may be posted later. */
static void enables_of_a_group(void)
{
	struct ibv_qp *m = loop(CROSS | IBV_EXP_QP_CREATE_MANAGED_SEND, 16), *q = loop(CROSS, 16);
	struct ibv_exp_send_wr add[6], en[3] = {enable(m, 2), enable(m, 2), enable(m, 2)}, more = enable(m, 3);

	mem[0] = 0;
	for (uint64_t i = 0; i < 6; i++)
		add[i] = add_to(0, i);
	en[0].exp_send_flags = en[1].exp_send_flags = 0;
	CHECK(!post(m, add, 5) && !post(q, en, 3), "post");
	for (uint64_t i = 0; i < 2; i++)
		vt_expect(cq, i, IBV_WC_SUCCESS);
	vt_none(cq);
	/* without the flag, and beyond the posted requests: five of five; the sixth is not posted yet */
	more.exp_send_flags = 0;
	CHECK(!post(q, &more, 1), "post");
	for (uint64_t i = 2; i < 5; i++)
		vt_expect(cq, i, IBV_WC_SUCCESS);
	more = enable(m, 4);
	/* an adapter would execute stale WQEs of the ring */
	CHECK(post(q, &more, 1) == (vt_mlx5() ? EINVAL : 0), "an ENABLE before what it enables is posted");
	vt_none(cq);
	CHECK(!post(m, &add[5], 1), "post");
	if (vt_mlx5())
		CHECK(!post(q, &more, 1), "an ENABLE behind it");
	vt_expect(cq, 5, IBV_WC_SUCCESS);
	CHECK(mem[0] == 6, "%lu adds", (unsigned long)mem[0]);
	CHECK(!ibv_destroy_qp(m) && !ibv_destroy_qp(q), "destroy");
}

/* The same for receives: of a group the largest counts. A receive is posted in RESET, before the queue is anything. */
static void receives(void)
{
	struct ibv_qp *m = make(CROSS | IBV_EXP_QP_CREATE_MANAGED_RECV, 16, cq), *q = loop(CROSS, 16);
	struct ibv_exp_send_wr en[2] = {enable(m, 1), enable(m, 1)};
	struct ibv_sge s = vt_sge(mr, 1024, 8);
	struct ibv_recv_wr r[2] = {{.wr_id = 30, .next = &r[1], .sg_list = &s, .num_sge = 1},
				   {.wr_id = 31, .sg_list = &s, .num_sge = 1}};
	struct ibv_exp_task task = {.task_type = IBV_EXP_TASK_RECV, .item = {.qp = m, .recv_wr = r}}, *bad;

	for (int i = 0; i < 2; i++)
		en[i].exp_opcode = IBV_EXP_WR_RECV_ENABLE;
	en[0].exp_send_flags = 0;
	CHECK(!ibv_exp_post_task(t.ctx, &task, &bad), "receives in RESET, by a task list");
	CHECK(!vt_recv(m, 32, s), "a receive in RESET");
	vt_connect(m, m->qp_num);
	CHECK(!vt_send(m, 40, vt_sge(mr, 1032, 8), 0) && !vt_send(m, 41, vt_sge(mr, 1032, 8), 0), "send");
	vt_none(cq);
	CHECK(!post(q, en, 2), "RECV_ENABLE of one, twice, in one group");
	vt_expect(cq, 30, IBV_WC_SUCCESS);
	vt_none(cq);
	CHECK(!post(q, &en[1], 1), "RECV_ENABLE");
	vt_expect(cq, 31, IBV_WC_SUCCESS);
	vt_none(cq);
	CHECK(!ibv_destroy_qp(m) && !ibv_destroy_qp(q), "destroy");
}

/* In error all receives are flushed, enabled or not: no ENABLE can follow. */
static void receives_of_a_failed_queue(void)
{
	struct ibv_qp *m = make(CROSS | IBV_EXP_QP_CREATE_MANAGED_RECV, 16, cq), *q = loop(CROSS, 16);
	struct ibv_exp_send_wr en = enable(m, 1);
	struct ibv_qp_attr error = {.qp_state = IBV_QPS_ERR};
	struct ibv_sge s = vt_sge(mr, 1024, 8);

	vt_connect(m, m->qp_num);
	for (int i = 0; i < 3; i++)
		CHECK(!vt_recv(m, 50 + i, s), "receive %d", i);
	en.exp_opcode = IBV_EXP_WR_RECV_ENABLE;
	CHECK(!post(q, &en, 1), "RECV_ENABLE of one");
	vt_none(cq);
	CHECK(!ibv_modify_qp(m, &error, IBV_QP_STATE), "to the state of error");
	for (int i = 0; i < 3; i++)
		vt_expect(cq, 50 + i, IBV_WC_WR_FLUSH_ERR);
	CHECK(!vt_recv(m, 53, s), "a receive in the state of error");
	vt_expect(cq, 53, IBV_WC_WR_FLUSH_ERR);
	vt_none(cq);
	CHECK(!ibv_destroy_qp(m) && !ibv_destroy_qp(q), "destroy");
}

/* Garbage in fields that a request does not use. */
static void unused_fields(void)
{
	struct ibv_qp *m = loop(CROSS | IBV_EXP_QP_CREATE_MANAGED_SEND, 16), *q = loop(CROSS, 16);
	struct ibv_exp_send_wr wr[4];
	struct ibv_exp_task task[2], *bad;

	memset(wr, 0xa5, sizeof(wr));
	memset(task, 0xa5, sizeof(task));
	wr[0].wr_id = 50;
	wr[0].exp_opcode = IBV_EXP_WR_NOP;
	wr[0].exp_send_flags = IBV_EXP_SEND_SIGNALED;
	wr[0].next = NULL;
	wr[1].wr_id = 51;
	wr[1].exp_opcode = IBV_EXP_WR_CQE_WAIT;
	wr[1].exp_send_flags = IBV_EXP_SEND_WAIT_EN_LAST;
	wr[1].task.cqe_wait.cq = other;
	wr[1].task.cqe_wait.cq_count = 1;
	wr[1].next = &wr[2];
	wr[2].wr_id = 52;
	wr[2].exp_opcode = IBV_EXP_WR_SEND_ENABLE;
	wr[2].exp_send_flags = IBV_EXP_SEND_WAIT_EN_LAST;
	wr[2].task.wqe_enable.qp = m;
	wr[2].task.wqe_enable.wqe_count = 1;
	wr[2].next = NULL;
	for (int i = 0; i < 2; i++)
		task[i].task_type = IBV_EXP_TASK_SEND;
	task[0].item.qp = m;
	task[0].item.send_wr = &wr[0];
	task[0].next = &task[1];
	task[1].item.qp = q;
	task[1].item.send_wr = &wr[1];
	task[1].next = NULL;
	CHECK(!ibv_exp_post_task(t.ctx, task, &bad), "requests with garbage in unused fields");
	vt_none(cq);
	tick();
	vt_expect(cq, 50, IBV_WC_SUCCESS);
	CHECK(!ibv_destroy_qp(m) && !ibv_destroy_qp(q), "destroy");
}

/* The objects that a request names may be destroyed before the request is executed. */
static void gone(void)
{
	struct ibv_qp *m = loop(CROSS | IBV_EXP_QP_CREATE_MANAGED_SEND, 8), *q = loop(CROSS, 8);
	struct ibv_exp_send_wr one = add_to(0, 1), wr[2] = {wait_for(1, true), enable(m, 1)};

	CHECK(!post(m, &one, 1) && !post(q, wr, 2), "post");
	CHECK(!ibv_destroy_qp(m), "destroy");
	tick();
	vt_expect(cq, 91, IBV_WC_LOC_QP_OP_ERR);
	CHECK(!ibv_destroy_qp(q), "destroy");
}

/* A WAIT that is refused for want of room has not moved the base. */
static void no_room(void)
{
	struct ibv_qp *q = loop(CROSS, 2), *r = loop(CROSS, 8);
	struct ibv_exp_send_wr two[2] = {wait_for(1, false), add_to(0, 1)}, more = wait_for(1, true);
	struct ibv_exp_send_wr next[2] = {wait_for(1, true), add_to(0, 2)};

	CHECK(!post(q, two, 2), "post");
	CHECK(post(q, &more, 1) == ENOMEM, "a third request");
	CHECK(!post(r, next, 2), "post");
	tick();
	struct ibv_wc a = vt_wait(cq), b = vt_wait(cq);
	CHECK(a.status == IBV_WC_SUCCESS && b.status == IBV_WC_SUCCESS && a.wr_id + b.wr_id == 3, "both adds: %lu, %lu",
	      (unsigned long)a.wr_id, (unsigned long)b.wr_id);
	CHECK(!ibv_destroy_qp(q) && !ibv_destroy_qp(r), "destroy");
}

/* ---- task lists ------------------------------------------------------------------------------------------------------- */

static struct ibv_exp_task task_of(struct ibv_qp *qp, struct ibv_exp_send_wr *wr, int n)
{
	for (int i = 0; i < n; i++)
		wr[i].next = i + 1 < n ? &wr[i + 1] : NULL;
	return (struct ibv_exp_task){.task_type = IBV_EXP_TASK_SEND, .item = {.qp = qp, .send_wr = wr}};
}

static void lists(void)
{
	struct ibv_qp *m = loop(CROSS | IBV_EXP_QP_CREATE_MANAGED_SEND, 4), *q = loop(CROSS, 4);
	struct ibv_exp_send_wr en = enable(m, 2), todo[5];
	struct ibv_exp_task task[2], *bad;

	/* an ENABLE may stand before the enabled requests */
	mem[0] = 0;
	for (uint64_t i = 0; i < 5; i++)
		todo[i] = add_to(0, i);
	task[0] = task_of(q, &en, 1);
	task[1] = task_of(m, todo, 2);
	task[0].next = &task[1];
	CHECK(!ibv_exp_post_task(t.ctx, task, &bad), "ENABLE before");
	vt_expect(cq, 0, IBV_WC_SUCCESS);
	vt_expect(cq, 1, IBV_WC_SUCCESS);
	/* five do not fit into four, so the queue before gets nothing either; and again; then four, which fit */
	struct ibv_exp_send_wr before = add_to(1, 7);
	mem[1] = 0;
	for (int i = 0; i < 3; i++) {
		task[0] = task_of(q, &before, 1);
		task[1] = task_of(m, todo, 5);
		task[0].next = &task[1];
		CHECK(ibv_exp_post_task(t.ctx, task, &bad) == ENOMEM && bad == &task[1], "five requests in a queue of four");
		vt_none(cq);
		CHECK(!mem[1], "a refused list was posted in part");
	}
	/* to an adapter's queue the unsignaled ENABLE is there until a completion behind it is polled */
	struct ibv_exp_send_wr four[4] = {add_to(0, 0), add_to(0, 1), add_to(0, 2), add_to(0, 3)};
	int fit = vt_mlx5() ? 3 : 4;
	task[0] = task_of(q, four, fit);
	task[0].next = NULL;
	CHECK(!ibv_exp_post_task(t.ctx, task, &bad), "four requests");
	for (int i = 0; i < fit; i++)
		vt_expect(cq, (uint64_t)i, IBV_WC_SUCCESS);
	/* receives: five do not fit into four */
	struct ibv_sge s = vt_sge(mr, 1024, 8);
	struct ibv_recv_wr r[5];
	for (int i = 0; i < 5; i++)
		r[i] = (struct ibv_recv_wr){.wr_id = 60, .sg_list = &s, .num_sge = 1, .next = i < 4 ? &r[i + 1] : NULL};
	task[0] = task_of(q, &before, 1);
	task[1] = (struct ibv_exp_task){.task_type = IBV_EXP_TASK_RECV, .item = {.qp = q, .recv_wr = r}};
	task[0].next = &task[1];
	for (int i = 0; i < 2; i++) {
		CHECK(ibv_exp_post_task(t.ctx, task, &bad) == ENOMEM, "five receives in a queue of four");
		vt_none(cq);
		CHECK(!mem[1], "a refused list was posted in part");
	}
	r[3].next = NULL;
	CHECK(!ibv_exp_post_task(t.ctx, task, &bad), "four receives");
	vt_expect(cq, 7, IBV_WC_SUCCESS);
	CHECK(!ibv_destroy_qp(q) && !ibv_destroy_qp(m), "destroy");
}

/* ---- masked atomics --------------------------------------------------------------------------------------------------- */

static uint64_t masked(struct ibv_qp *q, bool cas, uint64_t a, uint64_t b, uint64_t c, uint64_t d)
{
	struct ibv_sge s = vt_sge(mr, 64 * 8, 8);
	struct ibv_exp_send_wr wr = {.wr_id = 1, .sg_list = &s, .num_sge = 1,
				     .exp_opcode = cas ? IBV_EXP_WR_EXT_MASKED_ATOMIC_CMP_AND_SWP :
							 IBV_EXP_WR_EXT_MASKED_ATOMIC_FETCH_AND_ADD,
				     .exp_send_flags = IBV_EXP_SEND_SIGNALED | IBV_EXP_SEND_EXT_ATOMIC_INLINE};
	wr.ext_op.masked_atomics.log_arg_sz = 3;
	wr.ext_op.masked_atomics.remote_addr = (uintptr_t)mem;
	wr.ext_op.masked_atomics.rkey = mr->rkey;
	if (cas)
		wr.ext_op.masked_atomics.wr_data.inline_data.op.cmp_swap =
			(struct ibv_exp_cmp_swap){.compare_val = a, .compare_mask = b, .swap_val = c, .swap_mask = d};
	else
		wr.ext_op.masked_atomics.wr_data.inline_data.op.fetch_add =
			(struct ibv_exp_fetch_add){.add_val = a, .field_boundary = b};
	CHECK(!post(q, &wr, 1), "post");
	vt_expect(cq, 1, IBV_WC_SUCCESS);
	return mem[64];
}

static void masks(void)
{
	struct ibv_qp *q = loop(0, 8);

	/* four fields of 16 bits: each overflows into nothing */
	mem[0] = 0xffff0001ffff8000ull;
	CHECK(masked(q, false, 0x0001000200018000ull, 1ull << 15 | 1ull << 31 | 1ull << 47, 0, 0) == 0xffff0001ffff8000ull,
	      "old value");
	CHECK(mem[0] == 0x0000000300000000ull, "sum %#lx", (unsigned long)mem[0]);
	/* one field of 64 */
	mem[0] = 0xffffffffull;
	masked(q, false, 1, 0, 0, 0);
	CHECK(mem[0] == 0x100000000ull, "sum %#lx", (unsigned long)mem[0]);
	/* compares the low byte, swaps the high one */
	mem[0] = 0x1122334455667788ull;
	masked(q, true, 0xaaaaaaaaaaaaaa88ull, 0xff, 0x99ffffffffffffffull, 0xffull << 56);
	CHECK(mem[0] == 0x9922334455667788ull, "swap %#lx", (unsigned long)mem[0]);
	masked(q, true, 0x89, 0xff, 0, UINT64_MAX);
	CHECK(mem[0] == 0x9922334455667788ull, "a swap that does not compare: %#lx", (unsigned long)mem[0]);
	CHECK(!ibv_destroy_qp(q), "destroy");
}

int main(void)
{
	vt_fabric();
	t = vt_open();
	mem = shca_alloc(t.ctx, 4096);
	CHECK(mem, "shca_alloc");
	memset(mem, 0, 4096);
	mr = vt_mr(&t, mem, 4096, VT_ACCESS);
	cq = vt_cq(&t, 64, NULL);
	other = vt_cq(&t, 64, NULL);
	ticker = make(0, 64, other);
	vt_connect(ticker, ticker->qp_num);
	refusals();
	waits();
	many_waiters();
	enables();
	enables_of_a_group();
	receives();
	receives_of_a_failed_queue();
	unused_fields();
	gone();
	no_room();
	lists();
	masks();
	CHECK(!ibv_destroy_qp(ticker) && !ibv_destroy_cq(cq) && !ibv_destroy_cq(other), "destroy");
	CHECK(!ibv_dereg_mr(mr) && !shca_free(t.ctx, mem), "free");
	vt_close(&t);
	return 0;
}
