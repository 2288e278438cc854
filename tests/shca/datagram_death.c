/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Death at every step of a datagram, on the short way (datagram.c), on the general one and to a multicast group, and of an
 * Ethernet frame of a raw packet queue (exec.c), into a queue's own receives and into an SRQ's.
 *
 *     B    has RECVS receives
 *     A    sends a datagram that arrives, then a datagram at a step of which A dies
 *     X    joins when A is dead, reaps A in joining, and sends as many datagrams as there ought to be receives left, and one more
 *
 * The datagram at which A died is there or is not, depending on the step; its receive is used or comes back; none is used twice.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "failpoint.h"
#include "rig.h"

#define RECVS 4
#define ROOM 256
#define LEN 40
#define GRH 40
#define MACS 14

enum way { GENERAL, SHORT, MULTICAST, FRAME, WAYS };
static const char *const ways[WAYS] = {"general", "short", "multicast", "frame"};

static const struct {
	const char *name;
	bool arrived;
} points[] = {
	{"exec", false}, {"take", false}, {"taken", false}, {"data", false}, {"data-done", false}, {"rcqe", false},
	/* the last two: of one way only */
	{"cqe-visible", true}, {"rcqe-done", true}, {"multicast", true}, {"frame", true},
};
static const union ibv_gid group = {.raw = {0xff, 0x12, 0x40, 0x01, [15] = 1}};

static struct stage {
	char fabric[64];
	struct failpoint_arm arm[FAILPOINT_ARMS];
	enum way way;
	bool srq;
	uint32_t qpn;			/* B's */
	uint32_t slot;			/* A's */
	_Atomic uint32_t ready, warm, counted, left, sent, done;
} *st;

static void nap(void)
{
	struct timespec t = {0, 200000};
	nanosleep(&t, NULL);
}

#define UNTIL(cond, what)                                             \
	for (int tries_ = 0; !(cond); nap())                          \
		if (++tries_ > 50000)                                 \
			FAIL("%s: waited in vain", what)

static struct ibv_qp *queue(struct rig *r, struct ibv_cq *cq, struct ibv_srq *srq)
{
	struct rig_qp_attr a = {.type = IBV_QPT_UD, .scq = cq, .rcq = cq, .srq = srq, .send_wr = 8, .recv_wr = RECVS, .sge = 1,
				.inl = 64};
	struct ibv_qp *qp = st->way == FRAME ? rig_raw_qp(r, &a) : rig_qp(r, &a);
	struct rig_path path = {0};

	if (st->way == FRAME) {
		rig_raw_ready(qp, 1);
		return qp;
	}
	rig_init(qp);
	rig_rtr(qp, &path);
	rig_rts(qp, &path);
	return qp;
}

static void send_one(struct rig *r, struct ibv_qp *qp, struct ibv_ah *ah, const struct ibv_mr *mr, uint64_t number)
{
	uint32_t head = st->way == FRAME ? MACS : 0;
	char *at = (char *)mr->addr + head;
	struct ibv_sge sge = {(uintptr_t)mr->addr, head + LEN, mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND,
				 .send_flags = st->way == SHORT ? IBV_SEND_INLINE : 0,
				 .wr.ud = {.ah = ah, .remote_qpn = st->way == MULTICAST ? SHCA_MULTICAST_QPN : st->qpn,
					   .remote_qkey = RIG_QKEY}}, *bad;

	rig_fill(at, LEN, number);
	memcpy(at, &number, sizeof(number));
	CHECK(!shca_post_send(qp, &wr, &bad));
}

static struct ibv_mr *arena(struct rig *r, size_t bytes)
{
	char *p = shca_buf_alloc(r->ctx, bytes);

	CHECK(p);
	memset(p, 0, bytes);
	struct ibv_mr *mr = shca_reg_mr(r->pd, p, bytes, (uintptr_t)p, IBV_ACCESS_LOCAL_WRITE);
	CHECK(mr);
	return mr;
}

struct sender {
	struct rig r;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_ah *ah;
	struct ibv_mr *mr;
};

static void sender(struct sender *s)
{
	struct ibv_ah_attr aa = {.dlid = SHCA_LID,
				 .port_num = 1,
				 .is_global = st->way == MULTICAST || st->way == FRAME,
				 .grh.dgid = group};

	rig_join(&s->r, st->fabric);
	s->cq = rig_cq(&s->r, 16, NULL);
	s->qp = queue(&s->r, s->cq, NULL);
	s->ah = shca_create_ah(s->r.pd, &aa);
	CHECK(s->ah);
	s->mr = arena(&s->r, 4096);
}

static void role_a(void)
{
	struct sender s;

	UNTIL(atomic_load(&st->ready), "A: B's queue");
	sender(&s);
	st->slot = s.r.m->slot;
	send_one(&s.r, s.qp, s.ah, s.mr, 1);
	if ((st->way == SHORT) != (shca_user_qp_of(s.qp)->routes != NULL))
		FAIL("the first datagram went the %s way", st->way == SHORT ? "general" : "short");
	UNTIL(atomic_load(&st->warm), "A: the first datagram");
	atomic_store(&st->arm[0].pid, (int32_t)getpid());
	send_one(&s.r, s.qp, s.ah, s.mr, 2);
	FAIL("alive after point %s", st->arm[0].name);
}

/* Takes completions; each receive once, in any order. */
struct taken {
	bool done[RECVS];
	bool number[32];
	unsigned n;
};

static void look(struct ibv_cq *cq, const char *mem, struct taken *t)
{
	uint32_t head = st->way == FRAME ? MACS : GRH;
	struct ibv_wc wc;
	uint64_t number;

	while (shca_poll_cq(cq, 1, &wc) == 1) {
		const char *p = mem + wc.wr_id * ROOM + head;
		if (wc.status != IBV_WC_SUCCESS || wc.wr_id >= RECVS || t->done[wc.wr_id] || wc.byte_len != LEN + head)
			FAIL("receive %lu: %s, %u bytes, done before: %d", (unsigned long)wc.wr_id,
			     ibv_wc_status_str(wc.status), wc.byte_len, wc.wr_id < RECVS && t->done[wc.wr_id]);
		t->done[wc.wr_id] = true;
		t->n++;
		memcpy(&number, p, sizeof(number));
		char want[LEN];
		rig_fill(want, LEN, number);
		memcpy(want, &number, sizeof(number));
		if (number >= 32 || t->number[number] || memcmp(p, want, LEN))
			FAIL("message %lu is wrong, or came twice", (unsigned long)number);
		t->number[number] = true;
	}
}

static void role_b(bool arrived)
{
	struct rig r;
	struct taken t = {0};
	struct ibv_srq_init_attr sa = {.attr = {.max_wr = RECVS, .max_sge = 1}};

	rig_join(&r, st->fabric);
	struct ibv_cq *cq = rig_cq(&r, 16, NULL);
	struct ibv_srq *srq = st->srq ? shca_create_srq(r.pd, &sa) : NULL;
	struct ibv_qp *qp = queue(&r, cq, srq);
	struct ibv_mr *mr = arena(&r, RECVS * ROOM);
	char *mem = mr->addr;
	for (uint64_t i = 0; i < RECVS; i++) {
		struct ibv_sge sge = {(uintptr_t)mem + i * ROOM, ROOM, mr->lkey};
		struct ibv_recv_wr wr = {.wr_id = i, .sg_list = &sge, .num_sge = 1}, *bad;
		CHECK(!(srq ? shca_post_srq_recv(srq, &wr, &bad) : shca_post_recv(qp, &wr, &bad)));
	}
	CHECK(st->way != MULTICAST || !shca_attach_mcast(qp, &group, SHCA_MULTICAST_LID));
	struct ibv_flow_attr all = {.type = IBV_FLOW_ATTR_ALL_DEFAULT, .port = 1};
	struct ibv_flow *flow = st->way == FRAME ? shca_create_flow(qp, &all) : NULL;
	CHECK(flow || st->way != FRAME);
	st->qpn = qp->qp_num;
	atomic_store(&st->ready, 1);
	for (int i = 0; !t.n; i++, nap()) {
		look(cq, mem, &t);
		if (i > 50000)
			FAIL("the first datagram did not come");
	}
	atomic_store(&st->warm, 1);
	/* X sets `counted` when A is reaped; a poll posts again the receives that came back */
	UNTIL(atomic_load(&st->counted), "B: A's death");
	look(cq, mem, &t);
	look(cq, mem, &t);
	if (t.n != 1u + arrived || t.number[2] != arrived)
		FAIL("%u datagrams arrived, the second %s", t.n, t.number[2] ? "among them" : "not");
	atomic_store(&st->left, RECVS - t.n);
	UNTIL(atomic_load(&st->sent), "B: X's datagrams");
	look(cq, mem, &t);
	if (t.n != RECVS)
		FAIL("%u of %u receives were used", t.n, RECVS);
	atomic_store(&st->done, 1);
	CHECK(st->way != MULTICAST || !shca_detach_mcast(qp, &group, SHCA_MULTICAST_LID));
	CHECK((!flow || !shca_destroy_flow(flow)) && !shca_destroy_qp(qp) && (!srq || !shca_destroy_srq(srq)) &&
	      !shca_dereg_mr(mr) && !shca_destroy_cq(cq));
	shca_buf_free(r.ctx, mem);
	rig_leave(&r);
}

static void role_x(void)
{
	struct sender s;
	uint32_t left;

	sender(&s);
	UNTIL((atomic_load(&s.r.m->procs[st->slot].state) & 255) == SHCA_PROC_FREE || st->slot == s.r.m->slot,
	      "X: A's slot to be free");
	atomic_store(&st->counted, 1);
	UNTIL((left = atomic_load(&st->left)), "X: B's count");
	for (uint32_t i = 0; i <= left; i++)
		send_one(&s.r, s.qp, s.ah, s.mr, 10 + i);
	/* the last one found no receive */
	CHECK(st->way != FRAME || atomic_load(&s.r.m->hdr->ports.port[0].hw[SHCA_HW_OUT_OF_BUFFER]) == 1);
	atomic_store(&st->sent, 1);
	UNTIL(atomic_load(&st->done), "X: B's end");
	CHECK(!shca_destroy_qp(s.qp) && !shca_destroy_ah(s.ah) && !shca_destroy_cq(s.cq));
	char *mem = s.mr->addr;
	CHECK(!shca_dereg_mr(s.mr));
	shca_buf_free(s.r.ctx, mem);
	rig_leave(&s.r);
}

static pid_t start(int role, bool arrived)
{
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (!pid) {
		alarm(60);
		failpoint_arms = st->arm;
		role == 0 ? role_a() : role == 1 ? role_b(arrived) : role_x();
		_exit(0);
	}
	return pid;
}

static bool ended(pid_t pid, bool killed)
{
	int status;

	waitpid(pid, &status, 0);
	return killed ? WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL : status == 0;
}

static bool run(unsigned i, enum way way, bool srq)
{
	static unsigned number;

	memset(st, 0, sizeof(*st));
	snprintf(st->fabric, sizeof(st->fabric), "datagram_death-%d-%u", (int)getpid(), number++);
	snprintf(st->arm[0].name, sizeof(st->arm[0].name), "%s", points[i].name);
	st->arm[0].op = way == FRAME ? SHCA_OP_FRAME : SHCA_OP_SEND;
	st->arm[0].who = FP_OWNER;
	st->way = way;
	st->srq = srq;
	if (way == FRAME)
		setenv("SHCA_LINK", "ethernet", 1);
	else
		unsetenv("SHCA_LINK");
	pid_t b = start(1, points[i].arrived), a = start(0, false);
	bool good = ended(a, true) && atomic_load(&st->arm[0].hit);
	if (!good)
		kill(b, SIGKILL);
	else if (!ended(start(2, false), false))
		good = false;
	return ended(b, !good) && good;
}

int main(void)
{
	unsigned failed = 0;

	unsetenv("SHCA_FABRIC_FD");
	setenv("SHCA_DEATH_MS", "20", 0);
	st = mmap(NULL, sizeof(*st), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(st != MAP_FAILED);
	for (unsigned i = 0; i < sizeof(points) / sizeof(points[0]); i++)
		for (enum way way = GENERAL; way < WAYS; way++)
			for (int srq = 0; srq < 2; srq++) {
				const char *only = !strcmp(points[i].name, "multicast") || !strcmp(points[i].name, "frame") ?
							   points[i].name :
							   NULL;
				if (only && strcmp(only, ways[way]))
					continue;
				bool good = run(i, way, srq);
				if (!good)
					fprintf(stderr, "FAIL: death at %s, %s way, %s\n", points[i].name, ways[way],
						srq ? "SRQ" : "own receives");
				failed += !good;
			}
	printf("%u failed\n", failed);
	return failed != 0;
}
