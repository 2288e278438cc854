/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libFuzzer's target for the device: an input is a program of verbs calls, with arguments, that a process makes; then the objects
 * of the process in the fabric may be overwritten, and the process dies or leaves. Nothing may crash, and a process that gave no
 * permission must be unchanged: the memory, although registered for every peer of another domain, and the connection, which goes
 * on.
 *
 *     tests/shca/fuzz.sh [SECONDS]        builds and runs the fuzzer
 *
 * SHCA_FUZZ_CALLS is the most calls of one input (64). The beginning and the end of the process take most of the time of a short
 * input: 4096, with a corpus of its own that begins with long random files, is how to make 10^8 calls in an hour. The fuzzer
 * prints the number of calls.
 *
 * Pointers that a call follows are valid, since the caller's address space is the caller's business; the input chooses all else:
 * sizes, numbers, states, masks, flags, keys, and the addresses of registered memory and segments.
 */
#include <infiniband/verbs_exp.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "rig.h"

#define BYTES 4096u
#define MANY 6u			/* objects of a sort */

/* ---- the bystander: a process in another domain ------------------------------------------------------------------------ */

static struct rig a;
static struct ibv_cq *acq;
static struct ibv_qp *aq, *bq;		/* a connection with itself */
static struct ibv_pd *apart;		/* the domain of the objects that the input's process has no permission for */
static char *a_private, *a_arena;
static struct ibv_mr *a_mr, *canary, *canary_arena;
static unsigned long max_calls = 64;	/* of an input: SHCA_FUZZ_CALLS */
static unsigned long long made_calls;	/* of all inputs */
static struct ibv_qp *open_qp;		/* a queue that the process may connect to, in the domain of a_mr */

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char *guarded(size_t bytes)
{
	char *p = mmap(NULL, bytes + 2 * 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(p != MAP_FAILED && !mprotect(p + 4096, bytes, PROT_READ | PROT_WRITE));
	return p + 4096;
}

static void print_calls(void)
{
	fprintf(stderr, "%llu calls\n", made_calls);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	const char *calls_wanted = getenv("SHCA_FUZZ_CALLS");
	const int all = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
	struct rig_path path = {.timeout = 4, .retry_cnt = 1, .rnr_retry = 0, .min_rnr_timer = 1};

	(void)argc;
	(void)argv;
	if (calls_wanted) {
		max_calls = strtoul(calls_wanted, NULL, 10);
		CHECK(max_calls);
	}
	CHECK(!atexit(print_calls));
	setenv("SHCA_DEATH_MS", "60000", 1);
	rig_virtual(&a, NULL);
	acq = rig_cq(&a, 4096, NULL);
	aq = rig_small_qp(&a, IBV_QPT_RC, acq, acq, NULL, 0);
	bq = rig_small_qp(&a, IBV_QPT_RC, acq, acq, NULL, 0);
	rig_connect(aq, bq, &path);
	apart = shca_alloc_pd(a.ctx);
	a_private = guarded(2 * BYTES);
	a_arena = shca_buf_alloc(a.ctx, 2 * BYTES);
	CHECK(apart && a_arena);
	a_mr = shca_reg_mr(a.pd, a_arena + BYTES, BYTES, (uintptr_t)a_arena + BYTES, all);
	canary = shca_reg_mr(apart, a_private, 2 * BYTES, (uintptr_t)a_private, all);
	canary_arena = shca_reg_mr(apart, a_arena, BYTES, (uintptr_t)a_arena, all);
	CHECK(a_mr && canary && canary_arena);
	rig_fill(a_private, 2 * BYTES, 1);
	rig_fill(a_arena, BYTES, 2);
	return 0;
}

static void still_works(void)
{
	struct ibv_sge sge = {.addr = (uintptr_t)a_arena + BYTES, .length = 64, .lkey = a_mr->lkey};
	struct ibv_send_wr wr = {.wr_id = 7, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND,
				 .send_flags = IBV_SEND_SIGNALED}, *bad;
	struct ibv_recv_wr rwr = {.wr_id = 8, .sg_list = &sge, .num_sge = 1}, *rbad;
	struct ibv_wc wc;

	if (rig_check(a_private, 2 * BYTES, 1) >= 0 || rig_check(a_arena, BYTES, 2) >= 0)
		FAIL("memory of a process that it has no permission of has changed");
	while (shca_poll_cq(acq, 1, &wc) > 0)
		;
	CHECK(!shca_post_recv(bq, &rwr, &rbad) && !shca_post_send(aq, &wr, &bad));
	for (int n = 0; n < 2;) {
		int got = shca_poll_cq(acq, 1, &wc);
		CHECK(got >= 0);
		if (got && (wc.wr_id == 7 || wc.wr_id == 8) && wc.status == IBV_WC_SUCCESS)
			n++;
		else if (got && (wc.qp_num == aq->qp_num || wc.qp_num == bq->qp_num))
			FAIL("the connection: %s", ibv_wc_status_str(wc.status));
	}
}

/* ---- the input ----------------------------------------------------------------------------------------------------------- */

static const uint8_t *in;
static size_t left;

static uint8_t u8(void)
{
	if (!left)
		return 0;
	left--;
	return *in++;
}

static uint32_t u32(void)
{
	return u8() | (uint32_t)u8() << 8 | (uint32_t)u8() << 16 | (uint32_t)u8() << 24;
}

static void fill(void *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		((uint8_t *)p)[i] = u8();
}

/* ---- the process that executes the input -------------------------------------------------------------------------------- */

static struct rig v;
static char *v_private, *v_arena;
static struct ibv_cq *cq[MANY];
static struct ibv_qp *qp[MANY];
static struct ibv_srq *srq[MANY];
static struct ibv_mr *mr[MANY];
static struct ibv_ah *ah[MANY];

static uint32_t any_key(void)
{
	uint8_t k = u8();

	switch (k & 7) {
	case 0: return u32();
	case 1: return canary->rkey;
	case 2: return canary_arena->lkey;
	case 3: return a_mr->rkey;
	case 4: return canary->rkey ^ 1u << (u8() & 31);
	default: return mr[k / 8 % MANY] ? mr[k / 8 % MANY]->lkey : 0x100;
	}
}

static uint64_t any_address(void)
{
	uint8_t k = u8();

	switch (k & 7) {
	case 0: return (uint64_t)u32() << 32 | u32();
	case 1: return (uintptr_t)a_private + u8() * 32u;
	case 2: return (uintptr_t)a_arena + u8() * 32u;
	case 3: return (uintptr_t)v_private + u8() * 32u - 64;
	case 4: return (uintptr_t)v_private + u8();
	default: return (uintptr_t)v_arena + u8() * 16u;
	}
}

static uint32_t any_length(void)
{
	uint8_t k = u8();

	return k < 200 ? k : k < 250 ? k * 64u : u32();
}

static struct ibv_sge any_sge(bool mapped)
{
	if (mapped) {
		/* the post itself reads that memory */
		uint32_t at = u8() * 16u;
		return (struct ibv_sge){.addr = (uintptr_t)v_private + at,
					.length = u8() % (BYTES - at > 255 ? 255 : BYTES - at),
					.lkey = u32()};
	}
	const struct ibv_mr *own = mr[u8() % 2];
	if (u8() & 1 && own)
		return (struct ibv_sge){.addr = (uintptr_t)own->addr + u8(), .length = u8(), .lkey = own->lkey};
	return (struct ibv_sge){.addr = any_address(), .length = any_length(), .lkey = any_key()};
}

/* Returns the remote address of a WRITE, READ or atomic, and the R_Key: half of the time of a region. */
static uint64_t any_remote(uint32_t *key)
{
	const struct ibv_mr *of[] = {canary, canary_arena, a_mr, mr[0]};
	const struct ibv_mr *m = of[u8() % 4];

	if (u8() & 1 && m) {
		*key = m->rkey;
		return (uintptr_t)m->addr + u8() * 8u;
	}
	*key = any_key();
	return any_address();
}

/* Returns a place of a table, chosen by the input. used: one with an object if there is one; else an
 * empty one if there is one. */
static unsigned place(void *const *table, bool used)
{
	unsigned first = u8() % MANY;

	for (unsigned i = 0; i < MANY; i++)
		if ((table[(first + i) % MANY] != NULL) == used)
			return (first + i) % MANY;
	return first;
}
#define ONE_OF(table) (table)[place((void *const *)(table), true)]
#define ROOM_IN(table) (table)[place((void *const *)(table), false)]

static void make_cq(void)
{
	struct ibv_cq **slot = &ROOM_IN(cq);

	if (!*slot)
		*slot = shca_create_cq(v.ctx, (int)(u8() < 250 ? u8() + 1u : u32()), NULL, NULL, 0);
}

static void make_qp(void)
{
	static const enum ibv_qp_type types[] = {IBV_QPT_RC, IBV_QPT_UD, IBV_QPT_UC, IBV_QPT_RC};
	struct ibv_qp_init_attr i = {.send_cq = ONE_OF(cq), .recv_cq = ONE_OF(cq), .srq = u8() & 3 ? NULL : ONE_OF(srq)};
	struct ibv_qp **slot = &ROOM_IN(qp);
	uint8_t k = u8();

	i.qp_type = k < 240 ? types[k & 3] : (enum ibv_qp_type)u8();
	i.sq_sig_all = u8() & 1;
	i.cap = (struct ibv_qp_cap){.max_send_wr = u8(), .max_recv_wr = u8(), .max_send_sge = u8() % 40u,
				    .max_recv_sge = u8() % 40u, .max_inline_data = u8()};
	if (!*slot)
		*slot = shca_create_qp(v.pd, &i);
}

static void change_qp(void)
{
	struct ibv_qp *q = ONE_OF(qp);
	struct ibv_qp_attr at;

	fill(&at, sizeof(at));
	if (q)
		shca_modify_qp(q, &at, (int)(u32() & 0x1fffff));
}

/* Connects q with open_qp, with the consent of the owner: both queues are in the domain of a_mr. Regions of the input may reach
 * beyond v_arena, so the input may have overwritten q or the CQs of q: then a step fails. */
static void become_peers(struct ibv_qp *q)
{
	const int all = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
	struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET};
	struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = all};
	struct rig_path path = {.timeout = 1, .retry_cnt = 1, .min_rnr_timer = 1, .dest_qpn = open_qp->qp_num};

	if (shca_modify_qp(q, &reset, IBV_QP_STATE) ||
	    shca_modify_qp(q, &init, IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS) ||
	    rig_try_connect(q, &path))
		return;
	CHECK(!shca_modify_qp(open_qp, &reset, IBV_QP_STATE));
	rig_init(open_qp);
	path.dest_qpn = q->qp_num;
	CHECK(!rig_try_connect(open_qp, &path));
}

/* Connects a queue as programs do; else few inputs would come to a connected queue. */
static void connect_qp(void)
{
	struct ibv_qp *q = ONE_OF(qp), *to = u8() & 1 ? ONE_OF(qp) : open_qp;
	struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = RIG_QKEY, .qp_access_flags = u8() & 15};
	struct ibv_qp_attr rtr = {.qp_state = IBV_QPS_RTR, .path_mtu = (enum ibv_mtu)(u8() % 7), .dest_qp_num = to ? to->qp_num :
				  u32(), .max_dest_rd_atomic = u8() & 1, .min_rnr_timer = 1,
					  .ah_attr = {.dlid = SHCA_LID, .port_num = 1}};
	struct ibv_qp_attr rts = {.qp_state = IBV_QPS_RTS, .timeout = 1, .max_rd_atomic = u8() & 1};
	const int rtr_uc = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;

	if (!q)
		return;
	bool ud = q->qp_type == IBV_QPT_UD, rc = q->qp_type == IBV_QPT_RC;
	shca_modify_qp(q, &init, IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX | (ud ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS));
	if (to == open_qp && rc) {
		become_peers(q);
		return;
	}
	shca_modify_qp(q, &rtr, ud ? IBV_QP_STATE : rc ? rtr_uc | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER : rtr_uc);
	shca_modify_qp(q, &rts,
		       rc ? IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				       IBV_QP_MAX_QP_RD_ATOMIC :
			    IBV_QP_STATE | IBV_QP_SQ_PSN);
}

static void send_something(void)
{
	struct ibv_qp *q = ONE_OF(qp);
	struct ibv_sge sge[2][40];
	struct ibv_send_wr wr[2], *bad;
	uint32_t n = u8() % 2 + 1;

	for (uint32_t i = 0; i < n; i++) {
		uint32_t nsge = u8() % 4 ? u8() % 3u : u8() % 40u;
		wr[i] = (struct ibv_send_wr){.wr_id = u8(), .next = i + 1 < n ? &wr[i + 1] : NULL, .sg_list = sge[i],
					     .num_sge = (int)nsge, .opcode = (enum ibv_wr_opcode)(u8() % 20),
						     .send_flags = u8() & 31, .imm_data = u32()};
		for (uint32_t k = 0; k < nsge; k++)
			sge[i][k] = any_sge(wr[i].send_flags & IBV_SEND_INLINE);
		uint32_t key;
		uint64_t to = any_remote(&key);
		if (wr[i].opcode == IBV_WR_ATOMIC_CMP_AND_SWP || wr[i].opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
			wr[i].wr.atomic.remote_addr = to;
			wr[i].wr.atomic.rkey = key;
			wr[i].wr.atomic.compare_add = u32();
		} else if (q && q->qp_type == IBV_QPT_UD) {
			wr[i].wr.ud.ah = ONE_OF(ah);
			wr[i].wr.ud.remote_qpn = u8() & 1 ? u8() : u32();
			wr[i].wr.ud.remote_qkey = u8() & 1 ? RIG_QKEY : u32();
		} else {
			wr[i].wr.rdma.remote_addr = to;
			wr[i].wr.rdma.rkey = key;
		}
	}
	if (q)
		shca_post_send(q, wr, &bad);
}

/* Posts a cross-channel request: ordinary queues refuse such a request; queues of the experimental verbs accept. */
static void exp_send(void)
{
	struct ibv_qp *q = ONE_OF(qp);
	struct ibv_sge sge[4];
	struct ibv_exp_send_wr wr = {.wr_id = u8(), .sg_list = sge, .num_sge = u8() % 5,
				     .exp_opcode = (enum ibv_exp_wr_opcode)(u8() & 1 ? 0x60 + u8() % 10 : u8() % 12),
				     .exp_send_flags = (uint64_t)(u8() & 31) | (uint64_t)(u8() & 14) << 32}, *bad;

	for (int k = 0; k < 4; k++)
		sge[k] = any_sge(wr.exp_send_flags & IBV_EXP_SEND_INLINE);
	uint32_t key;
	wr.wr.rdma.remote_addr = any_remote(&key);
	wr.wr.rdma.rkey = key;
	if (q && q->qp_type == IBV_QPT_UD) {
		/* wr.ud.ah and wr.rdma share memory */
		wr.wr.ud.ah = ONE_OF(ah);
		wr.wr.ud.remote_qpn = u32();
		wr.wr.ud.remote_qkey = u8() & 1 ? RIG_QKEY : u32();
		if (!wr.wr.ud.ah)
			return;
	}
	wr.op.calc.calc_op = (enum ibv_exp_calc_op)(u8() % 7);
	wr.op.calc.data_type = (enum ibv_exp_calc_data_type)(u8() % 4);
	wr.op.calc.data_size = (enum ibv_exp_calc_data_size)(u8() % 3);
	if (wr.exp_opcode == IBV_EXP_WR_CQE_WAIT) {
		wr.task.cqe_wait.cq = ONE_OF(cq);
		wr.task.cqe_wait.cq_count = (int32_t)(u8() & 1 ? u8() : u32());
	} else if (wr.exp_opcode == IBV_EXP_WR_SEND_ENABLE || wr.exp_opcode == IBV_EXP_WR_RECV_ENABLE) {
		wr.task.wqe_enable.qp = ONE_OF(qp);
		wr.task.wqe_enable.wqe_count = (int32_t)(u8() & 1 ? u8() : u32());
		if (!wr.task.wqe_enable.qp)
			return;
	}
	if (q && (wr.exp_opcode != IBV_EXP_WR_CQE_WAIT || wr.task.cqe_wait.cq))
		shca_own_exp_provider.post_send(q, &wr, &bad);
}

static void make_cross(void)
{
	struct ibv_exp_qp_init_attr i = {
		.send_cq = ONE_OF(cq), .recv_cq = ONE_OF(cq), .qp_type = IBV_QPT_RC, .pd = v.pd,
		.cap = {.max_send_wr = u8() % 16u, .max_recv_wr = u8() % 16u, .max_send_sge = u8() % 8u,
			.max_recv_sge = u8() % 8u},
		.comp_mask = IBV_EXP_QP_INIT_ATTR_PD | IBV_EXP_QP_INIT_ATTR_CREATE_FLAGS, .exp_create_flags = u8() & 0x1fcu,
	};
	struct ibv_qp **slot = &ROOM_IN(qp);

	if (!*slot)
		*slot = shca_own_exp_provider.create_qp(v.ctx, &i);
}

static void receive_something(void)
{
	struct ibv_sge sge[4] = {any_sge(false), any_sge(false), any_sge(false), any_sge(false)};
	struct ibv_recv_wr wr = {.wr_id = u8(), .sg_list = sge, .num_sge = u8() % 5}, *bad;
	struct ibv_qp *q = ONE_OF(qp);
	struct ibv_srq *s = ONE_OF(srq);

	if (u8() & 1 ? q != NULL : !s && q)
		shca_post_recv(q, &wr, &bad);
	else if (s)
		shca_post_srq_recv(s, &wr, &bad);
}

static void make_srq(void)
{
	struct ibv_srq_init_attr i = {.attr = {.max_wr = u8() & 15 ? u8() : u32(), .max_sge = u8() % 40u, .srq_limit = u8()}};
	struct ibv_srq **slot = &ROOM_IN(srq);

	if (!*slot)
		*slot = shca_create_srq(v.pd, &i);
}

static void make_mr(void)
{
	struct ibv_mr **slot = &ROOM_IN(mr);
	uint64_t at = any_address();
	size_t n = any_length();
	int access = (int)(u8() & 31);

	/* not memory of another process's part, which shares this test's address space */
	if (at < (uintptr_t)v_private - 128 || at > (uintptr_t)v_private + BYTES)
		at = (uintptr_t)v_arena + (at & 4095);
	if (!*slot)
		*slot = shca_reg_mr(v.pd, (void *)(uintptr_t)at, n, u8() & 7 ? at : u32(), access);
}

static void make_ah(void)
{
	struct ibv_ah_attr i;
	struct ibv_ah **slot = &ROOM_IN(ah);

	if (u8() & 1)
		fill(&i, sizeof(i));
	else
		i = (struct ibv_ah_attr){.dlid = SHCA_LID, .port_num = 1, .sl = u8()};
	if (!*slot)
		*slot = shca_create_ah(v.pd, &i);
}

static void look(void)
{
	struct ibv_cq *c = ONE_OF(cq);
	struct ibv_wc wc[8];
	struct ibv_qp *q = ONE_OF(qp);
	struct ibv_qp_attr at;
	struct ibv_qp_init_attr i;

	if (c)
		shca_poll_cq(c, u8() % 9, wc);
	if (c && u8() & 1)
		shca_req_notify_cq(c, u8() & 1);
	if (q && u8() & 1)
		shca_query_qp(q, &at, (int)u32(), &i);
}

static void destroy(void)
{
	struct ibv_qp **q = &ONE_OF(qp);
	struct ibv_cq **c = &ONE_OF(cq);
	struct ibv_srq **s = &ONE_OF(srq);
	struct ibv_mr **m = &ONE_OF(mr);
	struct ibv_ah **h = &ONE_OF(ah);

	switch (u8() % 5) {
	case 0: if (*q && !shca_destroy_qp(*q)) *q = NULL; break;
	case 1: if (*c && !shca_destroy_cq(*c)) *c = NULL; break;
	case 2: if (*s && !shca_destroy_srq(*s)) *s = NULL; break;
	case 3: if (*m && !shca_dereg_mr(*m)) *m = NULL; break;
	case 4: if (*h && !shca_destroy_ah(*h)) *h = NULL; break;
	}
}

static void (*const calls[])(void) = {make_cq, make_qp,        connect_qp,     send_something,   receive_something, make_mr,
				      look,    change_qp,      exp_send,       make_cross,       make_srq,          make_ah,
				      destroy, send_something, send_something, receive_something};

/* Writes over a queue pair, or a completion queue, of the dead process. */
static void scribble(void)
{
	struct ibv_qp *q = ONE_OF(qp);
	struct ibv_cq *c = ONE_OF(cq);
	uint64_t value = u8() & 1 ? u32() : (uint64_t)u32() << 32 | u32();
	uint32_t at = u8();

	if (u8() & 1 && c)
		memcpy((char *)((struct shca_user_cq *)c)->sh + at * 8 % sizeof(struct shca_cq), &value, 8);
	else if (q)
		memcpy((char *)rig_sh(q) + at * 8 % sizeof(struct shca_qp), &value, 8);
}

static void end_process(uint8_t how)
{
	struct shca_local *local = v.m->local;
	uint32_t slot = v.m->slot;

	if (how & 7) {
		/* frees all objects of the context */
		CHECK(!shca_close_device(v.ctx));
		v.m->proc->async_addr[0] = 0;
		shca_fd_close(&v.node->bell);
		shca_engine_leave(v.m);
	} else {
		shca_engine_kill(v.m);
		for (uint8_t n = u8() % 6; n; n--)
			scribble();
		shca_reap(shca_thread_get(a.m), slot);
		for (int i = 0; atomic_load(&a.m->procs[slot].state) & 255; i++) {
			if (i > 20000)
				FAIL("the process is not reaped");
			rig_nap();
		}
		shca_fd_close(&v.node->bell);
		shca_fabric_leave(v.m);
	}
	for (uint32_t i = 0; i < SHCA_QP_SEGS; i++)
		free(atomic_load(&local->seg[i]));
	free(local);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	in = data;
	left = size;
	if (size < 8)
		return 0;
	memset(cq, 0, sizeof(cq));
	memset(qp, 0, sizeof(qp));
	memset(srq, 0, sizeof(srq));
	memset(mr, 0, sizeof(mr));
	memset(ah, 0, sizeof(ah));
	open_qp = rig_small_qp(&a, IBV_QPT_RC, acq, acq, NULL, 0);
	rig_init(open_qp);
	rig_virtual(&v, &a);
	v_arena = shca_buf_alloc(v.ctx, BYTES);
	CHECK(v_arena);
	if (!v_private)
		v_private = guarded(BYTES);
	/* as most programs begin */
	cq[0] = shca_create_cq(v.ctx, 64, NULL, NULL, 0);
	mr[0] = shca_reg_mr(v.pd, v_arena, BYTES, (uintptr_t)v_arena, 15);
	mr[1] = shca_reg_mr(v.pd, v_private, BYTES, (uintptr_t)v_private, 15);
	CHECK(cq[0] && mr[0] && mr[1]);
	qp[0] = rig_small_qp(&v, IBV_QPT_RC, cq[0], cq[0], NULL, 0);
	become_peers(qp[0]);
	uint8_t how = u8();
	for (unsigned long n = 0; n < max_calls && left; n++, made_calls++)
		calls[u8() % ARRAY_SIZE(calls)]();
	end_process(how);
	CHECK(!shca_destroy_qp(open_qp));
	still_works();
	return 0;
}
