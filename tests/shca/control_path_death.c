/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Death outside of requests: in joining, growing, creating, connecting, breaking, destroying, deregistering, waking, leaving, in
 * the helper and the proxy thread. A victim goes through every control path while connected to a peer, and dies at one point. The
 * peer must detect the death, a newcomer must be able to join and to connect to the peer, and nothing of the victim may be left:
 * no slot, no thread, no chunk of memory, no number.
 *
 *     control_path_death [POINT]
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "failpoint.h"
#include "rig.h"

static const struct {
	const char *name;
	uint32_t skip;
	bool mail;			/* private memory through the proxy thread */
} points[] = {
	{"join-locked", 0, false}, {"join-slot", 0, false}, {"join-member", 0, false}, {"join-named", 0, false},
	{"join-sweep", 0, false}, {"grow-claimed", 0, false}, {"grow-claimed", 2, false}, {"grow-backed", 0, false},
	{"grow-backed", 2, false}, {"create-number", 0, false}, {"create-number", 1, false}, {"create-made", 0, false},
	{"create-made", 1, false}, {"create-published", 0, false}, {"create-published", 1, false},
	{"modify-applied", 0, false}, {"modify-applied", 1, false}, {"modify-applied", 4, false}, {"modify-gate", 0, false},
	{"modify-gate", 1, false}, {"ring", 0, false}, {"woken", 0, false}, {"helper-tick", 0, false}, {"release", 0, false},
	{"error-gate", 0, false}, {"reset-stopped", 0, false}, {"destroy-stopped", 0, false}, {"destroy-stopped", 1, false},
	{"destroy-unlisted", 0, false}, {"destroy-unlisted", 1, false}, {"destroy-quiesced", 0, false},
	{"destroy-quiesced", 1, false}, {"srq-dead", 0, false}, {"dereg-closed", 0, false}, {"dereg-quiesced", 0, false},
	{"mw-closing", 0, false}, {"mw-closed", 0, false}, {"windows-end", 0, false}, {"mw-closing", 2, false},
	{"mw-closed", 2, false}, {"cq-move-written", 0, false}, {"cq-move-begun", 0, false}, {"cq-settle", 0, false},
	{"cq-settled", 0, false}, {"cq-move-copied", 0, false}, {"cq-move-half", 0, false}, {"cq-move-sealed", 0, false},
	{"flow-listed", 0, false}, {"flow-listed", 1, false}, {"flow-unlisted", 0, false}, {"key-walk", 0, false},
	{"cq-moved", 0, false}, {"rq-move-written", 0, false}, {"rq-move-begun", 0, false}, {"rq-move-coming", 1, false},
	{"rq-move-one", 1, false}, {"rq-move-copied", 0, false}, {"rq-move-closed", 0, false}, {"rq-move-half", 0, false},
	{"rq-moved", 0, false}, {"cq-closing", 0, false}, {"cq-quiesced", 0, false}, {"leave-slot", 0, false},
	{"mail-claimed", 0, true}, {"helper-awake", 0, false}, {"waits-kicked", 0, false}, {"left-over", 0, false},
	{"cq-overrun", 0, false}, {"mail-pending", 0, true}, {"mail-done", 0, true}, {"mail-found", 0, true},
	{"mail-running", 0, true},
};
#define POINTS (sizeof(points) / sizeof(*points))

#define BYTES 8192u
#define BIG (2u << 20)			/* more memory than a member claims at first */
#define MESSAGES 4u

static struct stage {
	char fabric[64];
	bool mail;
	struct rig_meeting with_victim, with_newcomer;
	uint64_t addr[2];		/* private memory: the peer's, the victim's */
	uint32_t rkey[2];
	_Atomic uint32_t peer_there, memory, asleep, dead, talked, gone;
	struct failpoint_arm arm[FAILPOINT_ARMS];
} *st;

struct side {
	struct rig r;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	char *arena, *private;
	struct ibv_mr *mr, *pmr;
};

static void open_side(struct side *s, int me)
{
	memset(s, 0, sizeof(*s));
	rig_join(&s->r, st->fabric);
	s->channel = shca_create_comp_channel(s->r.ctx);
	CHECK(s->channel);
	s->cq = rig_cq(&s->r, 64, s->channel);
	s->arena = shca_buf_alloc(s->r.ctx, BYTES);
	s->private = aligned_alloc(4096, BYTES);
	CHECK(s->arena && s->private);
	memset(s->private, 0, BYTES);
	unsigned access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
	s->mr = shca_reg_mr(s->r.pd, s->arena, BYTES, (uintptr_t)s->arena, access);
	s->pmr = shca_reg_mr(s->r.pd, s->private, BYTES, (uintptr_t)s->private, access);
	CHECK(s->mr && s->pmr);
	if (me < 2) {
		st->addr[me] = (uintptr_t)s->private;
		st->rkey[me] = s->pmr->rkey;
	}
}

static void close_side(struct side *s)
{
	CHECK(!shca_dereg_mr(s->mr) && !shca_dereg_mr(s->pmr));
	CHECK(!shca_destroy_cq(s->cq) && !shca_destroy_comp_channel(s->channel));
	CHECK(!shca_buf_free(s->r.ctx, s->arena));
	free(s->private);
	rig_leave(&s->r);
}

static void receive(struct side *s, struct ibv_qp *qp, uint64_t id)
{
	struct ibv_sge sge = {(uintptr_t)s->arena, 64, s->mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = id, .sg_list = &sge, .num_sge = 1}, *bad;

	CHECK(!shca_post_recv(qp, &wr, &bad));
}

static void request(struct side *s, struct ibv_qp *qp, enum ibv_wr_opcode op, int to)
{
	struct ibv_sge sge = {(uintptr_t)s->arena + 128, 64, s->mr->lkey};
	struct ibv_send_wr wr = {.wr_id = 99, .sg_list = &sge, .num_sge = 1, .opcode = op, .send_flags = IBV_SEND_SIGNALED}, *bad;

	wr.wr.rdma.remote_addr = st->addr[to];
	wr.wr.rdma.rkey = st->rkey[to];
	CHECK(!shca_post_send(qp, &wr, &bad));
}

/* Polls the next completion into *wc. Returns false if the peer is dead and the completion will not come. */
static bool next(struct side *s, struct ibv_wc *wc)
{
	for (int i = 0; i < 40000; i++, rig_nap()) {
		int n = shca_poll_cq(s->cq, 1, wc);
		CHECK(n >= 0);
		if (n)
			return true;
	}
	return false;
}

static void expect(struct side *s)
{
	struct ibv_wc wc;

	if (!next(s, &wc))
		FAIL("no completion");
	if (wc.status != IBV_WC_SUCCESS)
		FAIL("completion of %lu: %s", (unsigned long)wc.wr_id, ibv_wc_status_str(wc.status));
}

/* ---- the victim ------------------------------------------------------------------------------------------------------ */

/* A second life in short: a queue to itself, broken, begun anew and destroyed. */
static void break_one(struct side *s)
{
	struct rig_qp_attr a = {.type = IBV_QPT_RC, .scq = s->cq, .rcq = s->cq, .send_wr = 4, .recv_wr = 4, .sge = 1};
	struct ibv_qp_attr err = {.qp_state = IBV_QPS_ERR}, reset = {.qp_state = IBV_QPS_RESET};
	struct ibv_qp *qp = rig_qp(&s->r, &a);
	struct rig_path p = {.dest_qpn = qp->qp_num, .retry_cnt = 7, .rnr_retry = 7, .min_rnr_timer = 1};

	for (int i = 0; i < 2; i++) {
		rig_init(qp);
		rig_rtr(qp, &p);
		rig_rts(qp, &p);
		receive(s, qp, 1);
		CHECK(!shca_modify_qp(qp, &err, IBV_QP_STATE));
		struct ibv_wc wc;
		CHECK(next(s, &wc) && wc.status == IBV_WC_WR_FLUSH_ERR);
		CHECK(!shca_modify_qp(qp, &reset, IBV_QP_STATE));
	}
	CHECK(!shca_destroy_qp(qp));
}

static struct ibv_qp *to_itself(struct side *s, struct ibv_cq *cq, uint32_t flags, uint32_t depth)
{
	struct rig_qp_attr a = {
		.type = IBV_QPT_RC, .exp_flags = flags, .scq = cq, .rcq = s->cq, .send_wr = depth, .recv_wr = 1, .sge = 1};
	struct ibv_qp *qp = rig_qp(&s->r, &a);
	struct rig_path p = {.dest_qpn = qp->qp_num, .retry_cnt = 7, .rnr_retry = 7, .min_rnr_timer = 1};

	rig_init(qp);
	rig_rtr(qp, &p);
	rig_rts(qp, &p);
	return qp;
}

/* More queues wait for a CQ than fit into the first table of WAITs; more requests are enabled at once than one call executes;
 * more completions come than fit into a CQ. */
#define MANY 8250u		/* twice */
static void overdo(struct side *s)
{
	const uint32_t cross = IBV_EXP_QP_CREATE_CROSS_CHANNEL;
	struct ibv_cq *small = rig_cq(&s->r, 1, NULL), *waited = rig_cq(&s->r, 1, NULL);
	struct ibv_qp *waits[(1u << SHCA_WAITS_LOG2_MIN) + 1], *managed[2];
	struct ibv_exp_send_wr wait = {.exp_opcode = IBV_EXP_WR_CQE_WAIT, .task.cqe_wait = {.cq = waited, .cq_count = 1}};
	struct ibv_exp_send_wr nop = {.exp_opcode = IBV_EXP_WR_NOP}, *bad;
	struct ibv_exp_send_wr enable[2];

	for (uint32_t i = 0; i < ARRAY_SIZE(waits); i++) {
		waits[i] = to_itself(s, s->cq, cross, 1);
		CHECK(!shca_exp_post_send(waits[i], &wait, &bad));
	}
	for (uint32_t i = 0; i < 2 * MANY; i++) {
		if (i % MANY == 0)
			managed[i / MANY] = to_itself(s, s->cq, cross | IBV_EXP_QP_CREATE_MANAGED_SEND, MANY);
		CHECK(!shca_exp_post_send(managed[i / MANY], &nop, &bad));
	}
	for (int i = 0; i < 2; i++)
		enable[i] = (struct ibv_exp_send_wr){.exp_opcode = IBV_EXP_WR_SEND_ENABLE, .task.wqe_enable = {.qp = managed[i]},
						     .exp_send_flags = IBV_EXP_SEND_WAIT_EN_LAST, .next = i ? NULL : &enable[1]};
	struct ibv_qp *enables = to_itself(s, s->cq, cross, 2), *over = to_itself(s, small, cross, 16),
		      *comes = to_itself(s, waited, cross, 1);
	CHECK(!shca_exp_post_send(enables, enable, &bad));
	nop.exp_send_flags = IBV_EXP_SEND_SIGNALED;
	for (uint32_t i = 0; i < 16; i++)
		CHECK(!shca_exp_post_send(over, &nop, &bad));
	CHECK(!shca_exp_post_send(comes, &nop, &bad) && !shca_destroy_qp(comes));
	CHECK(!shca_destroy_qp(managed[0]) && !shca_destroy_qp(managed[1]) && !shca_destroy_qp(enables) &&
	      !shca_destroy_qp(over));
	for (uint32_t i = 0; i < ARRAY_SIZE(waits); i++)
		CHECK(!shca_destroy_qp(waits[i]));
	CHECK(!shca_destroy_cq(waited) && !shca_destroy_cq(small));
}

/* A transfer through an indirect memory key, which is configured and invalidated. */
static void have_key(struct side *s)
{
	struct ibv_qp *qp = to_itself(s, s->cq, IBV_EXP_QP_CREATE_UMR, 3);
	struct shca_user_mr *key = shca_mkey_alloc(s->r.pd, 1, true, "mkey");
	struct ibv_exp_mem_region region = {.base_addr = (uintptr_t)s->arena, .length = 64, .mr = s->mr};
	struct ibv_exp_send_wr fill = {.exp_opcode = IBV_EXP_WR_UMR_FILL, .exp_send_flags = IBV_EXP_SEND_INLINE}, *bad_fill;
	struct ibv_sge from = {(uintptr_t)s->arena + 64, 64, s->mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &from, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE}, *bad;

	CHECK(key);
	wr.wr.rdma.rkey = key->mr.rkey;
	fill.ext_op.umr.exp_access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
	fill.ext_op.umr.modified_mr = &key->mr;
	fill.ext_op.umr.num_mrs = 1;
	fill.ext_op.umr.mem_list.mem_reg_list = &region;
	CHECK(!shca_exp_post_send(qp, &fill, &bad_fill) && !shca_post_send(qp, &wr, &bad) && !shca_destroy_qp(qp) &&
	      !shca_mkey_free(key));
}

/* A window that is bound, and freed; one that outlives a queue; an indirect memory key. */
static void have_window(struct side *s)
{
	static char memory[64];
	struct ibv_qp *qp = to_itself(s, s->cq, 0, 1);
	struct ibv_mr *mr =
		shca_reg_mr(s->r.pd, memory, sizeof(memory), (uintptr_t)memory, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	struct ibv_mw *mw = shca_alloc_mw(s->r.pd, IBV_MW_TYPE_1), *unbound = shca_alloc_mw(s->r.pd, IBV_MW_TYPE_2);
	struct shca_user_mr *key = shca_mkey_alloc(s->r.pd, 1, false, "mkey");
	CHECK(mr && mw && unbound && key);
	struct ibv_mw_bind bind = {.bind_info = {.mr = mr, .addr = (uintptr_t)memory, .length = sizeof(memory),
						 .mw_access_flags = IBV_ACCESS_REMOTE_WRITE}};

	CHECK(!shca_bind_mw(qp, mw, &bind) && shca_dereg_mr(mr) == EBUSY && !shca_dealloc_mw(mw) && !shca_dereg_mr(mr) &&
	      !shca_destroy_qp(qp));
	CHECK(!shca_dealloc_mw(unbound) && !shca_mkey_free(key));
}

/* Room for more receives than are posted: the ring is replaced. */
static void enlarge(struct side *s, struct ibv_srq *srq)
{
	struct ibv_sge sge = {(uintptr_t)s->arena, 64, s->mr->lkey};
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;
	struct ibv_srq_attr more = {.max_wr = 32};

	for (int i = 0; i < 3; i++)
		CHECK(!shca_post_srq_recv(srq, &wr, &bad));
	CHECK(!shca_modify_srq(srq, &more, IBV_SRQ_MAX_WR));
}

/* Two flows to a raw packet queue; the flow that ends first stands behind the other one in the list. */
static void have_flows(struct side *s)
{
	struct rig_qp_attr a = {.scq = s->cq, .rcq = s->cq, .send_wr = 2, .recv_wr = 2};
	struct ibv_flow_attr attr = {.type = IBV_FLOW_ATTR_ALL_DEFAULT, .port = 1};

	CHECK(!setenv("SHCA_LINK", "ethernet", 1));
	struct ibv_qp *qp = rig_raw_qp(&s->r, &a);
	struct ibv_flow *one = shca_create_flow(qp, &attr), *two = shca_create_flow(qp, &attr);
	CHECK(one && two && shca_destroy_qp(qp) == EBUSY && !shca_destroy_flow(one) && !shca_destroy_flow(two) &&
	      !shca_destroy_qp(qp));
	CHECK(!unsetenv("SHCA_LINK"));
}

static void victim(void)
{
	struct side s;

	failpoint_arms = st->arm;
	atomic_store(&st->arm[0].pid, (int32_t)getpid());
	open_side(&s, 1);
	char *big = shca_buf_alloc(s.r.ctx, BIG);
	struct ibv_srq_init_attr sa = {.attr = {.max_wr = 8, .max_sge = 1}};
	struct ibv_srq *srq = shca_create_srq(s.r.pd, &sa);
	CHECK(big && srq);
	struct ibv_qp *qp = rig_meet(&s.r, s.cq, &st->with_victim, 1, 2);
	receive(&s, qp, 1);
	atomic_store(&st->memory, 1);
	rig_await(&st->asleep, 1);
	/* the peer sleeps with an armed channel and has no receive: the SEND waits, under the care of timers */
	request(&s, qp, IBV_WR_RDMA_WRITE, 0);
	request(&s, qp, IBV_WR_SEND, 0);
	expect(&s);
	expect(&s);
	expect(&s);			/* the peer's message */
	break_one(&s);
	have_window(&s);
	have_key(&s);
	have_flows(&s);
	CHECK(!shca_resize_cq(s.cq, 256));
	enlarge(&s, srq);
	overdo(&s);
	CHECK(!shca_destroy_qp(qp) && !shca_destroy_srq(srq) && !shca_buf_free(s.r.ctx, big));
	close_side(&s);
	_exit(3);
}

/* ---- the peer -------------------------------------------------------------------------------------------------------- */

/* Exchanges messages with the victim until the victim is dead or at its end. */
static struct ibv_qp *talk_to_victim(struct side *s)
{
	struct rig_qp_attr a = {.type = IBV_QPT_RC, .scq = s->cq, .rcq = s->cq, .send_wr = 8, .recv_wr = 8, .sge = 1};
	struct ibv_qp *qp = rig_qp(&s->r, &a);
	/* the victim may be gone without a trace before the connection is made: then a request has to end by the timeout */
	struct rig_path p = {.timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .min_rnr_timer = 1};

	/* rig_meet, but for one that may not come */
	rig_init(qp);
	st->with_victim.qpn[0] = qp->qp_num;
	atomic_fetch_add(&st->with_victim.joined, 1);
	while (atomic_load(&st->with_victim.joined) < 2 && !atomic_load(&st->dead))
		rig_nap();
	if (atomic_load(&st->with_victim.joined) < 2)
		return qp;
	p.dest_qpn = st->with_victim.qpn[1];
	if (rig_try_connect(qp, &p))
		return qp;
	atomic_fetch_add(&st->with_victim.ready, 1);
	while (!atomic_load(&st->memory) && !atomic_load(&st->dead))
		rig_nap();
	if (atomic_load(&st->dead))
		return qp;
	CHECK(!shca_req_notify_cq(s->cq, 0));
	request(s, qp, IBV_WR_SEND, 1);
	if (st->mail)
		request(s, qp, IBV_WR_RDMA_WRITE, 1);
	uint32_t seen = shca_sleep_prepare(s->r.m);
	atomic_store(&st->asleep, 1);
	/* a quarter of a second, or until the peer writes; then the receive for which the peer waits */
	shca_sleep_commit(s->r.m, seen, 250000000);
	struct timespec t = {0, 20000000};
	nanosleep(&t, NULL);
	receive(s, qp, 5);
	return qp;
}

static void nothing_left(struct shca_member *m)
{
	uint32_t left = 1, high = atomic_load(&m->hdr->proc_high);

	for (int i = 0; i < 40000 && left; i++, rig_nap()) {
		left = 0;
		for (uint32_t p = 0; p < high; p++) {
			uint32_t state = atomic_load(&m->procs[p].state) & 255;
			/* a process that dies in joining owns nothing: the next process takes the slot unchanged */
			bool empty = state == SHCA_PROC_JOINING && !shca_proc_alive(m, p);
			left += p != m->slot && state != SHCA_PROC_FREE && !empty;
		}
	}
	if (left)
		FAIL("%u process slots are not free", left);
	for (uint32_t p = 0; p < high; p++)
		if (p != m->slot && rig_chunks(m, p))
			FAIL("%u chunks of the dead process are left", rig_chunks(m, p));
	for (uint32_t t = 0; t < atomic_load(&m->hdr->thread_high); t++) {
		uint32_t owner = atomic_load(&m->threads[t].owner);
		if (owner && owner != m->slot + 1)
			FAIL("thread slot %u of the dead process is left", t);
	}
}

static void peer(void)
{
	struct side s;
	struct ibv_wc wc;

	open_side(&s, 0);
	atomic_store(&st->peer_there, 1);
	struct ibv_qp *qp = talk_to_victim(&s);
	rig_await(&st->dead, 1);
	/* a newcomer joins, connects to this process and leaves; the newcomer finds a death that no process watched for */
	struct ibv_cq *mine = s.cq, *cq = rig_cq(&s.r, 64, NULL);
	struct ibv_qp *to = rig_meet(&s.r, cq, &st->with_newcomer, 0, 2);
	s.cq = cq;
	for (uint32_t i = 0; i < MESSAGES; i++)
		receive(&s, to, i);
	atomic_store(&st->talked, 1);
	for (uint32_t i = 0; i < MESSAGES; i++)
		expect(&s);
	CHECK(!shca_destroy_qp(to) && !shca_destroy_cq(cq));
	atomic_store(&st->talked, 2);
	s.cq = mine;
	rig_await(&st->gone, 1);
	nothing_left(s.r.m);
	/* the queue to the dead process: if connected, a request fails or is refused; the queue can be destroyed in any case */
	if (atomic_load(&st->with_victim.ready) && shca_qp_state(shca_user_qp_of(qp)) >= IBV_QPS_RTS) {
		while (shca_poll_cq(s.cq, 1, &wc) > 0)
			;
		request(&s, qp, IBV_WR_RDMA_WRITE, 1);
		do
			CHECK(next(&s, &wc));
		while (wc.wr_id != 99);
		if (wc.status != IBV_WC_RETRY_EXC_ERR && wc.status != IBV_WC_WR_FLUSH_ERR)
			FAIL("a request to the dead: %s", ibv_wc_status_str(wc.status));
	}
	CHECK(!shca_destroy_qp(qp));
	/* events that were not read go with the channel's CQ */
	close_side(&s);
}

static void newcomer(void)
{
	struct side s;

	open_side(&s, 2);
	struct ibv_qp *qp = rig_meet(&s.r, s.cq, &st->with_newcomer, 1, 2);
	rig_await(&st->talked, 1);
	for (uint32_t i = 0; i < MESSAGES; i++) {
		request(&s, qp, IBV_WR_SEND, 0);
		expect(&s);
	}
	rig_await(&st->talked, 2);
	CHECK(!shca_destroy_qp(qp));
	close_side(&s);
}

/* ---- the runner ------------------------------------------------------------------------------------------------------ */

static pid_t start(void (*role)(void))
{
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (pid)
		return pid;
	alarm(90);
	if (st->mail)
		setenv("SHCA_CMA", "0", 1);
	role();
	_exit(0);
}

static bool well(pid_t pid, const char *who)
{
	int status;

	CHECK(waitpid(pid, &status, 0) == pid);
	if (WIFEXITED(status) && !WEXITSTATUS(status))
		return true;
	printf("    the %s: status %#x\n", who, status);
	return false;
}

static struct rig_case cases[POINTS];
static size_t played;

static void play(void)
{
	int status;

	st->mail = points[played].mail;
	snprintf(st->arm[0].name, sizeof(st->arm[0].name), "%s", points[played].name);
	st->arm[0].op = -1;
	st->arm[0].skip = points[played].skip;
	pid_t b = start(peer);
	rig_await(&st->peer_there, 1);
	pid_t v = start(victim);
	CHECK(waitpid(v, &status, 0) == v);
	bool hit = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL && atomic_load(&st->arm[0].hit);
	atomic_store(&st->dead, 1);
	pid_t c = start(newcomer);
	bool good = well(c, "newcomer");
	atomic_store(&st->gone, 1);
	if (!well(b, "peer") || !good || !hit)
		FAIL("%s %u: %s", points[played].name, points[played].skip, hit ? "something is left" : "the point was not hit");
}

static void choose(const struct rig_case *c)
{
	played = (size_t)(c - cases);
	memset(st, 0, sizeof(*st));
	snprintf(st->fabric, sizeof(st->fabric), "control_path_death-%d-%zu", (int)getpid(), played);
}

int main(int argc, char **argv)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	setenv("SHCA_DEATH_MS", "20", 0);
	st = mmap(NULL, sizeof(*st), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(st != MAP_FAILED);
	for (size_t i = 0; i < POINTS; i++)
		cases[i] = (struct rig_case){points[i].name, play};
	return rig_cases(argc, argv, cases, POINTS, choose);
}
