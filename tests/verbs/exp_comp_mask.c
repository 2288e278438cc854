/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The experimental verbs beside their own tests: structures in which only the members that comp_mask names are set, the rest is
 * garbage; two threads whose task lists name the same queues in opposite orders; queues for two requests; a forked child; a DC
 * target that is killed. `exp_comp_mask threads` and so on: one of them. (A receiving queue pair of XRC with a killed creator:
 * open_qp.)
 */
#include <infiniband/verbs_exp.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

#include "vt.h"

#define CROSS IBV_EXP_QP_CREATE_CROSS_CHANNEL
#define MANAGED (CROSS | IBV_EXP_QP_CREATE_MANAGED_SEND)

static struct vt t;
static uint64_t mem[256];
static struct ibv_mr *mr;

static void start(void)
{
	t = vt_open();
	mr = vt_mr(&t, mem, sizeof mem, VT_ACCESS);
}

static void end(void)
{
	CHECK(!ibv_dereg_mr(mr), "dereg");
	vt_close(&t);
}

static struct ibv_qp *loop(uint32_t flags, uint32_t wrs, struct ibv_cq *cq)
{
	struct ibv_exp_qp_init_attr a = {
		.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = wrs, .max_recv_wr = wrs, .max_send_sge = 1, .max_recv_sge = 1},
		.comp_mask = IBV_EXP_QP_INIT_ATTR_PD | IBV_EXP_QP_INIT_ATTR_CREATE_FLAGS, .pd = t.pd, .exp_create_flags = flags,
	};
	struct ibv_qp *qp = ibv_exp_create_qp(t.ctx, &a);

	CHECK(qp, "ibv_exp_create_qp, flags %#x", flags);
	vt_connect(qp, qp->qp_num);
	return qp;
}

/* Adds 1 to a word; its result goes to the last one. */
static struct ibv_exp_send_wr add_to(struct ibv_sge *result, int i, uint64_t id, uint64_t flags)
{
	*result = vt_sge(mr, 255 * 8, 8);
	struct ibv_exp_send_wr wr = {.wr_id = id, .exp_opcode = IBV_EXP_WR_ATOMIC_FETCH_AND_ADD, .sg_list = result, .num_sge = 1,
				     .exp_send_flags = flags};
	wr.wr.atomic.remote_addr = (uintptr_t)&mem[i];
	wr.wr.atomic.rkey = mr->rkey;
	wr.wr.atomic.compare_add = 1;
	return wr;
}

static struct ibv_exp_send_wr enable(struct ibv_qp *qp, int count)
{
	struct ibv_exp_send_wr wr = {.wr_id = 91,
				     .exp_opcode = IBV_EXP_WR_SEND_ENABLE,
				     .exp_send_flags = IBV_EXP_SEND_WAIT_EN_LAST};

	wr.task.wqe_enable.qp = qp;
	wr.task.wqe_enable.wqe_count = count;
	return wr;
}

static struct ibv_exp_task task_of(struct ibv_qp *qp, struct ibv_exp_send_wr *wr, struct ibv_exp_task *next)
{
	return (struct ibv_exp_task){.task_type = IBV_EXP_TASK_SEND, .item = {.qp = qp, .send_wr = wr}, .next = next};
}

/* ---- garbage ------------------------------------------------------------------------------------------------------------- */

/* Every structure is full of garbage, except comp_mask and the members without a bit in comp_mask. */
static void garbage(void)
{
	struct ibv_exp_device_attr da;
	struct ibv_exp_cq_init_attr ci;
	struct ibv_exp_qp_init_attr qi;
	struct ibv_exp_qp_attr qa;
	struct ibv_exp_res_domain_init_attr ri;
	struct ibv_exp_port_attr pa;
	struct ibv_exp_reg_mr_in in;
	struct ibv_exp_cq_attr ca;
	struct ibv_exp_values values;
	struct ibv_srq_init_attr sa = {.attr = {.max_wr = 2, .max_sge = 1}};

	start();
	memset(&da, 0xa5, sizeof da);
	da.comp_mask = 0;
	CHECK(!ibv_exp_query_device(t.ctx, &da) && !da.comp_mask && !da.exp_device_cap_flags && !da.calc_cap.int_ops &&
		      da.max_qp > 0,
	      "attributes that were not asked for: %#lx", (unsigned long)da.exp_device_cap_flags);
	/* and with every bit there is, known or not */
	da.comp_mask = UINT32_MAX & ~(uint32_t)SHCA_EXP_DEVICE_ATTR_EXTENSIONS;
	CHECK(!ibv_exp_query_device(t.ctx, &da) && da.comp_mask == IBV_EXP_DEVICE_ATTR_RESERVED - 1, "unknown bits: %#x",
	      da.comp_mask);

	memset(&ci, 0xa5, sizeof ci);
	ci.comp_mask = 0;
	struct ibv_cq *cq = ibv_exp_create_cq(t.ctx, 16, NULL, NULL, 0, &ci);
	CHECK(cq, "ibv_exp_create_cq");
	memset(&ca, 0xa5, sizeof ca);
	ca.comp_mask = IBV_EXP_CQ_MODERATION;
	ca.moderation.cq_count = ca.moderation.cq_period = 1;
	CHECK(!ibv_exp_modify_cq(cq, &ca, IBV_EXP_CQ_MODERATION), "ibv_exp_modify_cq");

	memset(&qi, 0xa5, sizeof qi);
	qi.qp_context = NULL;
	qi.send_cq = qi.recv_cq = cq;
	qi.srq = NULL;
	qi.cap = (struct ibv_qp_cap){.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1};
	qi.qp_type = IBV_QPT_RC;
	qi.sq_sig_all = 0;
	qi.comp_mask = IBV_EXP_QP_INIT_ATTR_PD;
	qi.pd = t.pd;
	struct ibv_qp *qp = ibv_exp_create_qp(t.ctx, &qi);
	CHECK(qp, "ibv_exp_create_qp");
	memset(&qa, 0xa5, sizeof qa);
	qa.qp_state = IBV_QPS_INIT;
	qa.pkey_index = 0;
	qa.port_num = 1;
	qa.qp_access_flags = VT_ACCESS;
	CHECK(!ibv_exp_modify_qp(qp, &qa, IBV_EXP_QP_STATE | IBV_EXP_QP_PKEY_INDEX | IBV_EXP_QP_PORT | IBV_EXP_QP_ACCESS_FLAGS),
	      "INIT");
	CHECK(ibv_exp_modify_qp(qp, &qa, 1ull << 60), "an attribute that nobody knows");
	vt_rtr_rts(qp, qp->qp_num, vt_rts_attr());
	struct ibv_exp_qp_init_attr back;
	memset(&qa, 0xa5, sizeof qa);
	memset(&back, 0xa5, sizeof back);
	CHECK(!ibv_exp_query_qp(qp, &qa, IBV_EXP_QP_STATE, &back) && qa.qp_state == IBV_QPS_RTS && back.pd == t.pd,
	      "ibv_exp_query_qp");

	memset(&ri, 0xa5, sizeof ri);
	ri.comp_mask = 0;
	struct ibv_exp_res_domain *rd = ibv_exp_create_res_domain(t.ctx, &ri);
	CHECK(rd && !ibv_exp_destroy_res_domain(t.ctx, rd, NULL), "a resource domain");
	memset(&pa, 0xa5, sizeof pa);
	pa.comp_mask = 0;
	CHECK(!ibv_exp_query_port(t.ctx, 1, &pa) && pa.port_attr.lid == 1, "ibv_exp_query_port");
	memset(&values, 0xa5, sizeof values);
	CHECK(!ibv_exp_query_values(t.ctx, IBV_EXP_VALUES_HW_CLOCK, &values), "ibv_exp_query_values");
	memset(&in, 0xa5, sizeof in);
	in.pd = t.pd;
	in.addr = mem;
	in.length = sizeof mem;
	in.exp_access = IBV_EXP_ACCESS_LOCAL_WRITE;
	in.comp_mask = 0;
	struct ibv_mr *other = ibv_exp_reg_mr(&in);
	CHECK(other && !ibv_dereg_mr(other), "ibv_exp_reg_mr");

	/* requests of every kind; only their own members are written */
	struct ibv_sge sge = vt_sge(mr, 8, 8);
	struct ibv_exp_send_wr wr, *bad;
	const enum ibv_exp_wr_opcode ops[] = {IBV_EXP_WR_NOP, IBV_EXP_WR_RDMA_WRITE, IBV_EXP_WR_RDMA_READ,
					      IBV_EXP_WR_ATOMIC_FETCH_AND_ADD, IBV_EXP_WR_ATOMIC_CMP_AND_SWP,
						      IBV_EXP_WR_EXT_MASKED_ATOMIC_FETCH_AND_ADD};
	mem[0] = 5;
	mem[1] = 5;
	for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++) {
		memset(&wr, 0xa5, sizeof wr);
		wr.wr_id = i;
		wr.next = NULL;
		wr.sg_list = &sge;
		wr.num_sge = 1;
		wr.exp_opcode = ops[i];
		wr.exp_send_flags = IBV_EXP_SEND_SIGNALED;
		if (ops[i] == IBV_EXP_WR_EXT_MASKED_ATOMIC_FETCH_AND_ADD) {
			wr.exp_send_flags |= IBV_EXP_SEND_EXT_ATOMIC_INLINE;
			wr.ext_op.masked_atomics.log_arg_sz = 3;
			wr.ext_op.masked_atomics.remote_addr = (uintptr_t)mem;
			wr.ext_op.masked_atomics.rkey = mr->rkey;
			wr.ext_op.masked_atomics.wr_data.inline_data.op.fetch_add.add_val = 1;
			wr.ext_op.masked_atomics.wr_data.inline_data.op.fetch_add.field_boundary = 0;
		} else if (i >= 3) {
			wr.wr.atomic.remote_addr = (uintptr_t)mem;
			wr.wr.atomic.rkey = mr->rkey;
			wr.wr.atomic.compare_add = i == 3 ? 1 : 6;
			wr.wr.atomic.swap = 7;
		} else {
			wr.wr.rdma.remote_addr = (uintptr_t)mem;
			wr.wr.rdma.rkey = mr->rkey;
		}
		CHECK(!ibv_exp_post_send(qp, &wr, &bad), "opcode %#x", ops[i]);
		vt_expect(cq, i, IBV_WC_SUCCESS);
	}
	CHECK(mem[0] == 8 && mem[1] == 7, "%lu, %lu", (unsigned long)mem[0], (unsigned long)mem[1]);

	/* a target: the struct has no comp_mask bits */
	struct ibv_srq *srq = ibv_create_srq(t.pd, &sa);
	struct ibv_exp_dct_init_attr di = {.pd = t.pd, .cq = cq, .srq = srq, .dc_key = 1, .port = 1, .access_flags = VT_ACCESS,
					   .mtu = IBV_MTU_1024, .comp_mask = 0xa5a5a5a5};
	struct ibv_exp_dct *dct = vt_mlx5() ? NULL : ibv_exp_create_dct(t.ctx, &di);
	CHECK(vt_mlx5() || (dct && !ibv_exp_destroy_dct(dct)), "ibv_exp_create_dct");
	CHECK(!ibv_destroy_srq(srq) && !ibv_destroy_qp(qp) && !ibv_destroy_cq(cq), "destroy");
	end();
}

/* ---- two threads ---------------------------------------------------------------------------------------------------------- */

enum { LISTS = 2000, DEPTH = 8 };
static struct ibv_qp *master[2], *managed;
static struct ibv_cq *thread_cq[3];	/* the masters', the managed queue's */
static _Atomic uint32_t listed;		/* lists that were posted */
static _Atomic uint32_t refused;

/*
 * Lists that name the queues that both threads use, in opposite orders: an ENABLE and its requests, and an addition to a word
 * of the thread's own; every third list ends with a task that is refused. In the end memory shows the lists that were
 * accepted, and nothing of refused ones.
 */
static void *poster(void *arg)
{
	const int me = arg != NULL;
	struct ibv_exp_send_wr en = enable(managed, 1), wrong = enable(managed, -1), todo, mine;
	struct ibv_exp_task task[4], *bad;
	struct ibv_sge result[2];
	struct ibv_wc wc;
	int taken = 0;

	en.exp_send_flags |= IBV_EXP_SEND_SIGNALED;

	for (int i = 0; taken < LISTS; i++) {
		bool fails = i % 3 == 2;
		todo = add_to(&result[0], 1, 1, IBV_EXP_SEND_SIGNALED);
		mine = add_to(&result[1], 2 + me, 2, IBV_EXP_SEND_SIGNALED);
		if (me) {
			task[0] = task_of(managed, &todo, &task[1]);
			task[1] = task_of(master[1], &en, &task[2]);
			task[2] = task_of(master[0], &mine, fails ? &task[3] : NULL);
		} else {
			task[0] = task_of(master[1], &mine, &task[1]);
			task[1] = task_of(master[0], &en, &task[2]);
			task[2] = task_of(managed, &todo, fails ? &task[3] : NULL);
		}
		task[3] = task_of(master[me], &wrong, NULL);
		int err = ibv_exp_post_task(t.ctx, task, &bad);
		CHECK(fails ? err == EINVAL || err == ENOMEM : !err || err == ENOMEM, "thread %d, list %d: %d", me, i, err);
		if (!err)
			taken++;
		atomic_fetch_add(err ? &refused : &listed, 1);
		/* either thread may be first */
		for (int k = 0; k < 3; k++)
			while (ibv_poll_cq(thread_cq[k], 1, &wc) > 0)
				CHECK(wc.status == IBV_WC_SUCCESS && (k == 2 ? wc.wr_id == 1 : wc.wr_id == 2 || wc.wr_id == 91),
				      "%lu: %s", (unsigned long)wc.wr_id, ibv_wc_status_str(wc.status));
		if (err == ENOMEM)
			sched_yield();
	}
	return NULL;
}

/* The child destroys the inherited objects, whichever locks another thread of the parent held at the fork. */
static void children_take_down(void)
{
	int status;

	for (int i = 0; i < 30; i++) {
		pid_t pid = fork();
		CHECK(pid >= 0, "fork");
		if (!pid) {
			alarm(20);
			_exit(ibv_destroy_qp(managed) || ibv_destroy_qp(master[0]) || ibv_destroy_qp(master[1]));
		}
		CHECK(waitpid(pid, &status, 0) == pid && status == 0, "child %d takes down: %#x", i, status);
	}
}

static void threads(void)
{
	pthread_t th[2];
	struct ibv_wc wc;

	start();
	memset(mem, 0, sizeof mem);
	thread_cq[2] = vt_cq(&t, 64, NULL);
	managed = loop(MANAGED, DEPTH, thread_cq[2]);
	for (int i = 0; i < 2; i++) {
		thread_cq[i] = vt_cq(&t, 64, NULL);
		master[i] = loop(CROSS, DEPTH, thread_cq[i]);
	}
	for (intptr_t i = 0; i < 2; i++)
		CHECK(!pthread_create(&th[i], NULL, poster, i ? &t : NULL), "thread");
	children_take_down();
	for (int i = 0; i < 2; i++)
		CHECK(!pthread_join(th[i], NULL), "join");
	for (int i = 0; i < 3; i++)
		while (ibv_poll_cq(thread_cq[i], 1, &wc) > 0)
			CHECK(wc.status == IBV_WC_SUCCESS, "%s", ibv_wc_status_str(wc.status));
	CHECK(atomic_load(&listed) == 2 * LISTS && mem[1] == 2 * LISTS && mem[2] == LISTS && mem[3] == LISTS,
	      "%u lists of %d, %u refused: %lu, %lu and %lu additions", atomic_load(&listed), 2 * LISTS, atomic_load(&refused),
	      (unsigned long)mem[1], (unsigned long)mem[2], (unsigned long)mem[3]);
	CHECK(!ibv_destroy_qp(managed) && !ibv_destroy_cq(thread_cq[2]), "destroy");
	for (int i = 0; i < 2; i++)
		CHECK(!ibv_destroy_qp(master[i]) && !ibv_destroy_cq(thread_cq[i]), "destroy");
	end();
}

/* ---- room for two ------------------------------------------------------------------------------------------------- */

/* Queues of two requests, completion queues of two: lists of two go round a hundred times, and three are refused each time. */
static void two(void)
{
	struct ibv_exp_send_wr wr[3], en[2];
	struct ibv_exp_task task[2], *bad;
	struct ibv_sge result;

	start();
	memset(mem, 0, sizeof mem);
	struct ibv_cq *cq = vt_cq(&t, 2, NULL), *mcq = vt_cq(&t, 2, NULL);
	struct ibv_qp *m = loop(MANAGED, 2, mcq), *q = loop(CROSS, 2, cq);
	for (int round = 0; round < 100; round++) {
		for (int i = 0; i < 3; i++) {
			wr[i] = add_to(&result, i, (uint64_t)i, IBV_EXP_SEND_SIGNALED);
			wr[i].next = i < 2 ? &wr[i + 1] : NULL;
		}
		en[0] = enable(m, 1);
		en[1] = enable(m, 1);
		en[0].next = &en[1];
		en[0].exp_send_flags |= IBV_EXP_SEND_SIGNALED;
		en[1].exp_send_flags |= IBV_EXP_SEND_SIGNALED;
		task[0] = task_of(q, en, &task[1]);
		task[1] = task_of(m, wr, NULL);
		CHECK(ibv_exp_post_task(t.ctx, task, &bad) == ENOMEM && bad == &task[1] && mem[0] == (uint64_t)round,
		      "three of two");
		wr[1].next = NULL;
		CHECK(!ibv_exp_post_task(t.ctx, task, &bad), "round %d", round);
		vt_expect(cq, 91, IBV_WC_SUCCESS);
		vt_expect(cq, 91, IBV_WC_SUCCESS);
		vt_expect(mcq, 0, IBV_WC_SUCCESS);
		vt_expect(mcq, 1, IBV_WC_SUCCESS);
	}
	CHECK(mem[0] == 100 && mem[1] == 100 && mem[2] == 0, "additions");
	CHECK(!ibv_destroy_qp(m) && !ibv_destroy_qp(q) && !ibv_destroy_cq(cq) && !ibv_destroy_cq(mcq), "destroy");
	end();
}

/* ---- fork --------------------------------------------------------------------------------------------------------- */

/* In the middle of lists: a child refuses every experimental verb with the reason, destroys the inherited objects, and changes
 * no memory of the parent. */
static void forked(void)
{
	struct ibv_exp_send_wr en, wr, *bad_wr;
	struct ibv_exp_task task[2], *bad;
	struct ibv_sge result;
	int status;

	start();
	mem[0] = 0;
	struct ibv_cq *cq = vt_cq(&t, 16, NULL);
	struct ibv_qp *m = loop(MANAGED, 4, cq), *q = loop(CROSS, 4, cq);
	wr = add_to(&result, 0, 1, IBV_EXP_SEND_SIGNALED);
	CHECK(!ibv_exp_post_send(m, &wr, &bad_wr), "a request that waits to be enabled");
	pid_t pid = fork();
	CHECK(pid >= 0, "fork");
	en = enable(m, 1);
	if (!pid) {
		struct ibv_exp_device_attr da = {.comp_mask = 0};
		struct ibv_exp_qp_attr qa = {.qp_state = IBV_QPS_ERR};
		struct ibv_exp_qp_init_attr qi = {.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC, .pd = t.pd,
						  .comp_mask = IBV_EXP_QP_INIT_ATTR_PD};
		struct ibv_exp_wc wc;

		alarm(60);
		CHECK(ibv_exp_post_send(q, &en, &bad_wr) == ENODEV && bad_wr == &en, "a child posts");
		task[0] = task_of(q, &en, &task[1]);
		task[1] = task_of(m, &wr, NULL);
		CHECK(ibv_exp_post_task(t.ctx, task, &bad) == ENODEV, "a child posts a list");
		CHECK(ibv_exp_poll_cq(cq, 1, &wc, sizeof wc) <= 0, "a child polls");
		CHECK(ibv_exp_modify_qp(q, &qa, IBV_EXP_QP_STATE) == ENODEV, "a child modifies");
		CHECK(!ibv_exp_create_qp(t.ctx, &qi) && errno == ENODEV, "a child makes a queue pair");
		CHECK(!ibv_exp_create_cq(t.ctx, 4, NULL, NULL, 0, NULL) && errno == ENODEV, "a child makes a completion queue");
		(void)ibv_exp_query_device(t.ctx, &da);
		CHECK(!ibv_destroy_qp(q) && !ibv_destroy_qp(m) && !ibv_destroy_cq(cq), "a child takes down");
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid && status == 0, "the child: %#x", status);
	vt_none(cq);
	CHECK(mem[0] == 0 && !ibv_exp_post_send(q, &en, &bad_wr), "the parent goes on");
	vt_expect(cq, 1, IBV_WC_SUCCESS);
	CHECK(mem[0] == 1, "%lu additions", (unsigned long)mem[0]);
	CHECK(!ibv_destroy_qp(m) && !ibv_destroy_qp(q) && !ibv_destroy_cq(cq), "destroy");
	end();
}

/* ---- a DC target that is killed ----------------------------------------------------------------------------------- */

struct aim {
	uint64_t addr;
	uint32_t rkey, number;
};

static void ready(struct ibv_qp *qp)
{
	struct ibv_exp_qp_attr a = {.qp_state = IBV_QPS_INIT, .port_num = 1};

	CHECK(!ibv_exp_modify_qp(qp, &a, IBV_EXP_QP_STATE | IBV_EXP_QP_PKEY_INDEX | IBV_EXP_QP_PORT | IBV_EXP_QP_DC_KEY), "INIT");
	a = (struct ibv_exp_qp_attr){.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_2048, .ah_attr = {.dlid = 1, .port_num = 1}};
	CHECK(!ibv_exp_modify_qp(qp, &a, IBV_EXP_QP_STATE | IBV_EXP_QP_PATH_MTU | IBV_EXP_QP_AV), "RTR");
	a = (struct ibv_exp_qp_attr){.qp_state = IBV_QPS_RTS, .timeout = 12, .retry_cnt = 1, .rnr_retry = 7, .max_rd_atomic = 4};
	CHECK(!ibv_exp_modify_qp(qp, &a, IBV_EXP_QP_STATE | IBV_EXP_QP_TIMEOUT | IBV_EXP_QP_RETRY_CNT | IBV_EXP_QP_RNR_RETRY |
						 IBV_EXP_QP_MAX_QP_RD_ATOMIC), "RTS");
}

/* Serves as a target until killed. */
static void target(struct vt_peer *p)
{
	struct ibv_srq_init_attr sa = {.attr = {.max_wr = 16, .max_sge = 1}};

	start();
	struct ibv_cq *cq = vt_cq(&t, 64, NULL);
	struct ibv_exp_dct_init_attr di = {.pd = t.pd, .cq = cq, .srq = ibv_create_srq(t.pd, &sa), .dc_key = 77, .port = 1,
					   .access_flags = VT_ACCESS, .min_rnr_timer = 2, .mtu = IBV_MTU_2048};
	struct ibv_exp_dct *dct = ibv_exp_create_dct(t.ctx, &di);
	CHECK(dct, "ibv_exp_create_dct");
	struct aim mine = {.addr = (uintptr_t)mem, .rkey = mr->rkey, .number = dct->dct_num};
	vt_tell(p, &mine, sizeof mine);
	for (;;)
		pause();
}

static void killed_target(void)
{
	struct vt_peer p[2];
	struct aim to[2];

	for (int i = 0; i < 2; i++) {
		p[i] = vt_fork();
		if (!p[i].child)
			target(&p[i]);
	}
	start();
	for (int i = 0; i < 2; i++)
		vt_hear(&p[i], &to[i], sizeof to[i]);
	struct ibv_cq *cq = vt_cq(&t, 64, NULL);
	struct ibv_ah_attr aa = {.dlid = 1, .port_num = 1};
	struct ibv_ah *ah = ibv_create_ah(t.pd, &aa);
	struct ibv_exp_qp_init_attr a = {
		.send_cq = cq, .recv_cq = cq, .qp_type = IBV_EXP_QPT_DC_INI, .cap = {.max_send_wr = 8, .max_send_sge = 1},
		.comp_mask = IBV_EXP_QP_INIT_ATTR_PD, .pd = t.pd,
	};
	struct ibv_qp *qp = ibv_exp_create_qp(t.ctx, &a);
	struct ibv_sge sge = vt_sge(mr, 0, 8);
	CHECK(ah && qp, "an initiator");
	ready(qp);
	for (int step = 0; step < 5; step++) {
		/* both; the first is killed while a message waits for a receive of it; after RESET the other one, and the dead
		 * one once more */
		const int which = (const int[]){0, 1, 0, 1, 0}[step];
		const bool waits = step == 2, fails = waits || step == 4;
		struct ibv_exp_send_wr wr = {.wr_id = (uint64_t)step, .exp_opcode = IBV_EXP_WR_RDMA_WRITE, .sg_list = &sge,
					     .num_sge = 1, .exp_send_flags = IBV_EXP_SEND_SIGNALED}, *bad;
		if (waits)
			wr.exp_opcode = IBV_EXP_WR_SEND;
		wr.wr.rdma.remote_addr = to[which].addr;
		wr.wr.rdma.rkey = to[which].rkey;
		wr.dc.ah = ah;
		wr.dc.dct_access_key = 77;
		wr.dc.dct_number = to[which].number;
		CHECK(!ibv_exp_post_send(qp, &wr, &bad), "post");
		if (waits) {
			int status;
			vt_none(cq);
			kill(p[0].child, SIGKILL);
			CHECK(waitpid(p[0].child, &status, 0) == p[0].child && WIFSIGNALED(status), "killed");
		}
		vt_expect(cq, (uint64_t)step, fails ? IBV_WC_RETRY_EXC_ERR : IBV_WC_SUCCESS);
		if (!fails)
			continue;
		CHECK(vt_state(qp) == IBV_QPS_ERR && !vt_to(qp, IBV_QPS_RESET), "after a dead target");
		ready(qp);
	}
	int status;
	kill(p[1].child, SIGKILL);
	CHECK(waitpid(p[1].child, &status, 0) == p[1].child, "killed");
	CHECK(!ibv_destroy_qp(qp) && !ibv_destroy_ah(ah) && !ibv_destroy_cq(cq), "destroy");
	end();
}

int main(int argc, char **argv)
{
	static const struct { const char *name; void (*it)(void); bool dc; } all[] = {
		{"killed-target", killed_target, true}, {"garbage", garbage, false}, {"two", two, false},
		{"threads", threads, false}, {"fork", forked, false},
	};

	vt_fabric();
	for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
		if ((argc < 2 || !strcmp(argv[1], all[i].name)) && !(all[i].dc && vt_mlx5()))
			all[i].it();
	return 0;
}
