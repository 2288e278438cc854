/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Deaths around common queue pairs (XRC_RECV, held by several processes). A victim makes one, opens one of another process,
 * takes both to ERR and back to use, destroys its own, and dies at one point of that. Wherever it was: queue pairs that the
 * other process holds can be used, those that no process holds are gone, no lock is held, and their places are free again. At
 * the reaper's points the reaper of the victim dies.
 *
 *     common_qp_death [POINT]
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "failpoint.h"
#include "rig.h"
#include "shca/engine/common.h"

static const struct {
	const char *name;
	uint32_t skip, n;		/* ..., skip + n - 1 */
	bool by_reaper;
} points[] = {
	{"common-chunk", 0, 1, false},	 {"common-claimed", 0, 1, false},   {"common-made", 0, 1, false},
	{"common-held", 0, 2, false},	 {"common-published", 0, 1, false}, {"common-locked", 0, 10, false},
	{"common-unlocked", 0, 13, false}, {"common-found", 0, 1, false},   {"common-gate", 0, 4, false},
	{"common-leaving", 0, 2, false}, {"common-left", 0, 2, false},	    {"common-end", 0, 1, false},
	{"common-ended", 0, 1, false},	 {"modify-applied", 0, 6, false},   {"modify-gate", 0, 3, false},
	{"reap-begin", 0, 1, true},	 {"common-released", 0, 2, true},   {"common-end", 0, 1, true},
	{"common-ended", 0, 1, true},	 {"reap-memory", 0, 1, true},	    {"reap-end", 0, 1, true},
};

static struct stage {
	char fabric[64];
	bool shared;			/* the other process opens the victim's queue pair */
	uint32_t sender[2], number[2];	/* sender: queues of the other process; number: the victim's receiving queue pair, and
					 * the other process's */
	_Atomic uint32_t there, made, opened, dead;
	struct failpoint_arm arm[FAILPOINT_ARMS];
} *st;

struct side {
	struct rig r;
	struct ibv_xrcd *domain;
};

static void open_side(struct side *s)
{
	struct ibv_xrcd_init_attr x = {.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .oflags = O_CREAT,
				       .fd = open("/bin/sh", O_RDONLY)};

	rig_join(&s->r, st->fabric);
	s->domain = shca_open_xrcd(s->r.ctx, &x);
	CHECK(x.fd >= 0 && s->domain && !close(x.fd));
}

static struct ibv_qp *make(struct side *s)
{
	struct ibv_qp_init_attr_ex a = {.qp_type = IBV_QPT_XRC_RECV, .xrcd = s->domain, .comp_mask = IBV_QP_INIT_ATTR_XRCD};
	struct ibv_qp *qp = shca_create_qp_ex(s->r.ctx, &a);

	CHECK(qp);
	return qp;
}

static struct ibv_qp *open_number(struct side *s, uint32_t number)
{
	struct ibv_qp_open_attr a = {
		.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE,
		.qp_num = number,
		.xrcd = s->domain,
		.qp_type = IBV_QPT_XRC_RECV,
	};

	return shca_open_qp(s->r.ctx, &a);
}

static void to(struct ibv_qp *qp, enum ibv_qp_state state)
{
	struct ibv_qp_attr a = {.qp_state = state};

	CHECK(!shca_modify_qp(qp, &a, IBV_QP_STATE));
}

static void answer(struct ibv_qp *qp, uint32_t sender)
{
	rig_init(qp);
	rig_rtr(qp, &(struct rig_path){.dest_qpn = sender, .min_rnr_timer = 1});
}

static void again(struct ibv_qp *qp, uint32_t sender)
{
	to(qp, IBV_QPS_ERR);
	to(qp, IBV_QPS_RESET);
	answer(qp, sender);
}

static void victim(void)
{
	struct side s;

	failpoint_arms = st->arm;
	open_side(&s);
	atomic_store(&st->arm[0].pid, (int32_t)getpid());
	struct ibv_qp *own = make(&s);
	answer(own, st->sender[0]);
	st->number[0] = own->qp_num;
	atomic_store(&st->made, 1);
	if (!st->arm[0].name[0]) {
		kill(getpid(), SIGKILL);
		pause();
	}
	rig_await(&st->opened, 1);
	struct ibv_qp *other = open_number(&s, st->number[1]);
	CHECK(other);
	again(other, st->sender[1]);
	again(own, st->sender[0]);
	CHECK(!shca_destroy_qp(other) && !shca_destroy_qp(own));
	/* here at the latest */
	_exit(3);
}

/* Returns the number of places in use. Must: no thread uses a queue pair. Fails if one is locked, is held by a dead process or
 * by none, or has a gate that does not fit its state. */
static uint32_t places_used(struct shca_member *m)
{
	struct shca_common_walk w = {0};
	struct shca_common_qp *c;
	uint32_t used = 0;

	while ((c = shca_common_next(m, &w)) != NULL) {
		uint32_t state = atomic_load(&c->qp.qp_state), gate = atomic_load(&c->qp.gate), held = 0;
		if (atomic_load(&c->lock))
			FAIL("a queue pair is locked: %#x", atomic_load(&c->lock));
		if (!c->qp.qpn)
			continue;
		for (uint32_t i = 0; i < SHCA_COMMON_HOLDERS; i++) {
			uint32_t proc = (uint32_t)atomic_load(&c->holder[i]) & 0xffff;
			if (proc && proc != m->slot + 1)
				FAIL("process %u, which is dead, holds %#x", proc - 1, c->qp.qpn);
			held += proc != 0;
		}
		if (!held)
			FAIL("nobody holds %#x", c->qp.qpn);
		if (gate != (state == IBV_QPS_ERR ? SHCA_GATE_ERR : state >= IBV_QPS_RTR ? SHCA_GATE_RESPOND : 0))
			FAIL("%#x is in state %u, and its gate is %u", c->qp.qpn, state, gate);
		used++;
	}
	return used;
}

static void nobody_left(struct shca_member *m)
{
	for (int i = 0; i < 40000; i++, rig_nap()) {
		uint32_t left = 0;
		for (uint32_t p = 0; p < atomic_load(&m->hdr->proc_high); p++)
			left += p != m->slot && (atomic_load(&m->procs[p].state) & 255) != SHCA_PROC_FREE;
		if (!left)
			return;
	}
	FAIL("the dead are not cleared away");
}

struct receiver {
	struct ibv_cq *cq;
	struct ibv_srq *srq;
	struct ibv_mr *mr;
	uint32_t number;
	uint64_t mem[8];
};

static void take_up(struct side *s, struct receiver *v)
{
	struct ibv_srq_init_attr_ex a = {
		.attr = {.max_wr = 16, .max_sge = 1}, .srq_type = IBV_SRQT_XRC, .pd = s->r.pd, .xrcd = s->domain,
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
	};

	v->cq = a.cq = rig_cq(&s->r, 64, NULL);
	v->srq = shca_create_srq_ex(s->r.ctx, &a);
	v->mr = shca_reg_mr(s->r.pd, v->mem, sizeof(v->mem), (uintptr_t)v->mem, IBV_ACCESS_LOCAL_WRITE);
	CHECK(v->srq && v->mr && !shca_get_srq_num(v->srq, &v->number));
}

static struct ibv_qp *sender(struct side *s, struct receiver *v)
{
	struct rig_qp_attr a = {.type = IBV_QPT_XRC_SEND, .scq = v->cq, .send_wr = 4, .sge = 1};

	return rig_qp(&s->r, &a);
}

/* Fails unless a message gets through the queue pair. */
static void works(struct receiver *v, struct ibv_qp *qp, struct ibv_qp *out)
{
	struct rig_path path = {.dest_qpn = qp->qp_num, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7};
	struct ibv_sge in = {(uintptr_t)v->mem, 8, v->mr->lkey}, from = {(uintptr_t)&v->mem[1], 8, v->mr->lkey};
	struct ibv_recv_wr rwr = {.wr_id = 1, .sg_list = &in, .num_sge = 1}, *rbad;
	struct ibv_send_wr wr = {.wr_id = 2, .sg_list = &from, .num_sge = 1, .opcode = IBV_WR_SEND,
				 .send_flags = IBV_SEND_SIGNALED, .qp_type.xrc.remote_srqn = v->number}, *bad;
	struct ibv_wc wc;

	if (shca_qp_state(shca_user_qp_of(qp)) != IBV_QPS_RTR) {
		to(qp, IBV_QPS_RESET);
		answer(qp, out->qp_num);
	}
	to(out, IBV_QPS_RESET);
	rig_init(out);
	rig_rtr(out, &path);
	rig_rts(out, &path);
	v->mem[0] = 0;
	v->mem[1] = 77;
	CHECK(!shca_post_srq_recv(v->srq, &rwr, &rbad) && !shca_post_send(out, &wr, &bad));
	for (int n = 0, i = 0; n < 2; i++, rig_nap()) {
		if (i == 20000)
			FAIL("no completion");
		if (shca_poll_cq(v->cq, 1, &wc) != 1)
			continue;
		if (wc.status != IBV_WC_SUCCESS)
			FAIL("request %lu: %s", (unsigned long)wc.wr_id, ibv_wc_status_str(wc.status));
		n++;
	}
	CHECK(v->mem[0] == 77);
}

static void other(void)
{
	struct side s;
	struct receiver v;
	struct ibv_qp *theirs = NULL, *out[2];

	open_side(&s);
	take_up(&s, &v);
	for (int i = 0; i < 2; i++) {
		out[i] = sender(&s, &v);
		st->sender[i] = out[i]->qp_num;
	}
	CHECK(!shca_helper_start(s.r.m));
	atomic_store(&st->there, 1);
	while (!atomic_load(&st->made) && !atomic_load(&st->dead))
		rig_nap();
	struct ibv_qp *mine = make(&s);
	st->number[1] = mine->qp_num;
	answer(mine, out[1]->qp_num);
	if (st->shared && atomic_load(&st->made)) {
		/* the victim may be dead before that */
		theirs = open_number(&s, st->number[0]);
		if (theirs && !atomic_load(&st->dead))
			works(&v, theirs, out[0]);
	}
	atomic_store(&st->opened, 1);
	rig_await(&st->dead, 1);
	nobody_left(s.r.m);
	if (places_used(s.r.m) != 1u + (theirs != NULL))
		FAIL("%u queue pairs are there", places_used(s.r.m));
	works(&v, mine, out[1]);
	if (theirs)
		works(&v, theirs, out[0]);
	else if (st->number[0] && open_number(&s, st->number[0]))
		FAIL("what nobody holds can be opened");
	CHECK(!shca_destroy_qp(mine) && (!theirs || !shca_destroy_qp(theirs)));
	if (places_used(s.r.m))
		FAIL("%u queue pairs are left", places_used(s.r.m));
	CHECK(atomic_load(&s.r.m->hdr->commons) <= 2);
	CHECK(!shca_destroy_qp(out[0]) && !shca_destroy_qp(out[1]) && !shca_destroy_srq(v.srq) && !shca_destroy_cq(v.cq));
	CHECK(!shca_dereg_mr(v.mr) && !shca_close_xrcd(s.domain));
	rig_leave(&s.r);
}

/* The reaper, which dies at a point of the reaping. */
static void reaper(void)
{
	struct side s;

	failpoint_arms = st->arm;
	open_side(&s);
	CHECK(!shca_helper_start(s.r.m));
	atomic_store(&st->arm[1].pid, (int32_t)getpid());
	atomic_store(&st->there, 1);
	for (int i = 0; i < 40000; i++)
		rig_nap();
	_exit(4);
}

/* ---- the runner ------------------------------------------------------------------------------------------------------ */

static pid_t start(void (*role)(void))
{
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (pid)
		return pid;
	alarm(90);
	role();
	_exit(0);
}

static bool died(pid_t pid)
{
	int status;

	CHECK(waitpid(pid, &status, 0) == pid);
	if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)
		printf("    the victim: status %#x\n", status);
	return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
}

/* A point, how often it is passed before, and whether the other process also holds the victim's queue pair. */
static struct variant {
	size_t point;
	uint32_t skip;
	bool shared;
} variants[256];
static struct rig_case cases[ARRAY_SIZE(variants)];
static const struct variant *played;

static void play(void)
{
	const struct variant *v = played;
	bool by_reaper = points[v->point].by_reaper, hit;
	int status;

	st->shared = v->shared;
	snprintf(st->arm[by_reaper].name, sizeof(st->arm[0].name), "%s", points[v->point].name);
	st->arm[by_reaper].op = -1;
	st->arm[by_reaper].skip = v->skip;
	pid_t second = start(by_reaper ? reaper : other);
	rig_await(&st->there, 1);
	hit = died(start(victim));
	if (by_reaper) {
		hit = died(second) && hit;
		second = start(other);
	}
	atomic_store(&st->dead, 1);
	CHECK(waitpid(second, &status, 0) == second);
	if (!hit || status || !atomic_load(&st->arm[by_reaper].hit))
		FAIL("%s %u %s%s: the other's status is %#x, the point was %s", points[v->point].name, v->skip,
		     v->shared ? "shared" : "alone", by_reaper ? ", reaper" : "", status,
		     atomic_load(&st->arm[by_reaper].hit) ? "hit" : "not hit");
}

static void choose(const struct rig_case *c)
{
	played = &variants[c - cases];
	memset(st, 0, sizeof(*st));
	snprintf(st->fabric, sizeof(st->fabric), "common_qp_death-%d-%d", (int)getpid(), (int)(c - cases));
}

int main(int argc, char **argv)
{
	size_t n = 0;

	setvbuf(stdout, NULL, _IOLBF, 0);
	setenv("SHCA_DEATH_MS", "20", 0);
	st = mmap(NULL, sizeof(*st), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(st != MAP_FAILED);
	for (size_t i = 0; i < ARRAY_SIZE(points); i++)
		for (uint32_t k = 0; k < points[i].n; k++)
			for (int shared = 0; shared < (points[i].by_reaper ? 1 : 2); shared++) {
				/* the victim's last handle is not the queue pair's last one where the other process holds one */
				if (shared && !strncmp(points[i].name, "common-end", 10))
					continue;
				CHECK(n < ARRAY_SIZE(variants));
				variants[n] = (struct variant){i, points[i].skip + k, shared};
				cases[n++] = (struct rig_case){points[i].name, play};
			}
	return rig_cases(argc, argv, cases, n, choose);
}
