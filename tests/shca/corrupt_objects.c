/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Invariant I7: the objects of another process may hold any values. A sends to B, and executes B's cross-channel queue; before
 * that, one field of one object of B gets a value that cannot be right. A's call must end with an error status or an event of a
 * queue, without a signal, and without an endless loop. Each case is a separate process with two members of a fabric.
 *
 * Where a wrong value cannot be told from a right one (a hint, a limit) only the signal counts.
 */
#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rig.h"
#include "shca/engine/calc.h"

#define BYTES 4096u

enum traffic { SEND, IMM, PLAIN, GENERAL, READ, ATOMIC, DATAGRAM, FOREIGN, TRAFFICS };
static const char *const traffic_names[TRAFFICS] = {
	"SEND", "WRITE_IMM", "plain WRITE", "WRITE to private memory", "READ", "atomic", "datagram", "B's queue, run by A",
};
#define BIT(t) (1u << (t))
#define RECEIVES (BIT(SEND) | BIT(IMM))
#define MEMORY (BIT(PLAIN) | BIT(READ) | BIT(ATOMIC))

struct stage {
	struct rig a, b;
	struct ibv_cq *acq, *bcq;
	struct ibv_qp *aq, *bq;		/* a pair */
	struct ibv_qp *au, *bu;		/* datagrams */
	struct ibv_qp *bx, *ay;		/* B's cross-channel queue, and its peer */
	char *arena, *mine;		/* B's, in the fabric and private; of A */
	struct ibv_mr *mr, *private_mr, *a_mr;
	char *own;
};

/* ---- fields to overwrite ---------------------------------------------------------------------------------------- */

enum object { RQ, RECEIVE, RING, CQ, UCQ, URQ, URECEIVE, URING, QP, MR, PMR, SQ, WAIT_WQE, WRITE_WQE, WAITS, NOTED };
struct field {
	const char *name;
	enum object object;
	size_t at, size;
	unsigned int traffic;		/* the kinds of traffic that read the field */
	bool may_pass;			/* the wrong value may cause no error */
};
#define F(object, type, member, traffic, pass)                                                                         \
	{#object "." #member, object, offsetof(struct type, member), sizeof(((struct type *)0)->member), traffic, pass}
static const struct field fields[] = {
	F(RQ, shca_rq, log2, RECEIVES, false), F(RQ, shca_rq, stride, RECEIVES, false), F(RQ, shca_rq, ring, RECEIVES, false),
	F(RQ, shca_rq, wqes, RECEIVES, false), F(RQ, shca_rq, marks, RECEIVES, false), F(RQ, shca_rq, proc, RECEIVES, false),
	F(RQ, shca_rq, head, RECEIVES, true), F(RQ, shca_rq, tail, RECEIVES, true), F(RQ, shca_rq, limit, RECEIVES, true),
	F(RQ, shca_rq, newest, RECEIVES, true), F(RQ, shca_rq, older, RECEIVES, true), F(RQ, shca_rq, whose, RECEIVES, true),
	F(RQ, shca_rq, rnr, RECEIVES, true), F(RQ, shca_rq, managed, RECEIVES, true), F(RQ, shca_rq, is_srq, RECEIVES, true),
	F(RECEIVE, shca_rwqe, nsge, BIT(SEND), false), F(RECEIVE, shca_rwqe, word, RECEIVES, true),
	F(RECEIVE, shca_rwqe, sge[0].where, BIT(SEND), false), F(RECEIVE, shca_rwqe, sge[0].lane, BIT(SEND), true),
	F(RECEIVE, shca_rwqe, sge[0].len, BIT(SEND), true), F(RECEIVE, shca_rwqe, bad, BIT(SEND), false),
	{"RING entry", RING, 0, 8, RECEIVES, true},
	F(URQ, shca_rq, log2, BIT(DATAGRAM), true), F(URQ, shca_rq, stride, BIT(DATAGRAM), true),
	F(URQ, shca_rq, ring, BIT(DATAGRAM), true), F(URQ, shca_rq, wqes, BIT(DATAGRAM), true),
	F(URQ, shca_rq, head, BIT(DATAGRAM), true), F(URQ, shca_rq, proc, BIT(DATAGRAM), true),
	F(URECEIVE, shca_rwqe, nsge, BIT(DATAGRAM), true), F(URECEIVE, shca_rwqe, sge[0].where, BIT(DATAGRAM), true),
	F(URECEIVE, shca_rwqe, sge[0].lane, BIT(DATAGRAM), true), {"URING entry", URING, 0, 8, BIT(DATAGRAM), true},
	F(UCQ, shca_cq, ring, BIT(DATAGRAM), true), F(UCQ, shca_cq, log2, BIT(DATAGRAM), true),
	F(UCQ, shca_cq, proc, BIT(DATAGRAM), true), F(UCQ, shca_cq, tail, BIT(DATAGRAM), true),
	F(CQ, shca_cq, ring, RECEIVES, false), F(CQ, shca_cq, log2, RECEIVES, false), F(CQ, shca_cq, proc, RECEIVES, true),
	F(CQ, shca_cq, tail, RECEIVES, true), F(CQ, shca_cq, ci, RECEIVES, true), F(CQ, shca_cq, floor, RECEIVES, true),
	F(CQ, shca_cq, notify, RECEIVES, true), F(CQ, shca_cq, waits, RECEIVES | BIT(FOREIGN), true),
	F(CQ, shca_cq, noticed, RECEIVES | BIT(FOREIGN), true), F(CQ, shca_cq, awaited, RECEIVES | BIT(FOREIGN), true),
	F(WAITS, shca_waits, log2, BIT(FOREIGN), true), {"WAITS.first", WAITS, sizeof(struct shca_waits), 8, BIT(FOREIGN), true},
	F(NOTED, shca_wait, count, BIT(FOREIGN), true), F(NOTED, shca_wait, qpn, BIT(FOREIGN), true),
	F(NOTED, shca_wait, next, BIT(FOREIGN), true),
	F(QP, shca_qp, rq, RECEIVES, false), F(QP, shca_qp, rcq, RECEIVES, false),
	F(QP, shca_qp, proc, RECEIVES | MEMORY | BIT(GENERAL), true), F(QP, shca_qp, type, RECEIVES | MEMORY, false),
	F(QP, shca_qp, pd, MEMORY, false), F(QP, shca_qp, dest_qpn, RECEIVES | MEMORY, false),
	F(MR, shca_mr, where, MEMORY, false), F(MR, shca_mr, iova, MEMORY, false), F(MR, shca_mr, length, MEMORY, true),
	F(MR, shca_mr, lane, MEMORY, true), F(MR, shca_mr, proc, MEMORY, true), F(MR, shca_mr, implicit, MEMORY, true),
	F(PMR, shca_mr, proc, BIT(GENERAL), false), F(PMR, shca_mr, where, BIT(GENERAL), true),
	F(PMR, shca_mr, lane, BIT(GENERAL), true), F(PMR, shca_mr, length, BIT(GENERAL), true),
	F(SQ, shca_qp, wqes, BIT(FOREIGN), false), F(SQ, shca_qp, sq_slots, BIT(FOREIGN), false),
	F(SQ, shca_qp, sq_stride, BIT(FOREIGN), false), F(SQ, shca_qp, sq_magic, BIT(FOREIGN), false),
	F(SQ, shca_qp, scq, BIT(FOREIGN), false), F(SQ, shca_qp, proc, BIT(FOREIGN), false),
	F(SQ, shca_qp, posted, BIT(FOREIGN), true), F(SQ, shca_qp, head, BIT(FOREIGN), true),
	F(SQ, shca_qp, dest_qpn, BIT(FOREIGN), true), F(SQ, shca_qp, timeout, BIT(FOREIGN), true),
	F(SQ, shca_qp, step_rq, BIT(FOREIGN), true), F(SQ, shca_qp, step, BIT(FOREIGN), true),
	F(WAIT_WQE, shca_wqe, raddr, BIT(FOREIGN), false), F(WAIT_WQE, shca_wqe, dqpn, BIT(FOREIGN), false),
	F(WRITE_WQE, shca_wqe, bad, BIT(FOREIGN), false), F(WRITE_WQE, shca_wqe, nsge, BIT(FOREIGN), false),
	F(WRITE_WQE, shca_wqe, sge[0].where, BIT(FOREIGN), false), F(WRITE_WQE, shca_wqe, sge[0].lane, BIT(FOREIGN), true),
	F(WRITE_WQE, shca_wqe, sge[0].len, BIT(FOREIGN), true), F(WRITE_WQE, shca_wqe, len, BIT(FOREIGN), true),
	F(WRITE_WQE, shca_wqe, flags, BIT(FOREIGN), true), F(WRITE_WQE, shca_wqe, op, BIT(FOREIGN), true),
	F(WRITE_WQE, shca_wqe, raddr, BIT(FOREIGN), false), F(WRITE_WQE, shca_wqe, rkey, BIT(FOREIGN), false),
};

static const uint64_t values[] = {
	0xffffffffffffffffull, 0xffffffffffffffc0ull, 0x7fffffffffffffc0ull, 0x0000400000000000ull, 0x00000000ffffffffull,
	0x8000000000000048ull, 0x5555555555555555ull,
};
#define MOVED (sizeof(values) / sizeof(values[0]))	/* one more: the old value, moved out of the fabric */
#define VALUES (MOVED + 1)
#define OUT_OF_REACH 0x0000400000000000ull

static void *object_of(struct stage *s, enum object o)
{
	char *base = s->b.m->base;
	struct shca_rq *rq = shca_at(base, rig_sh(s->bq)->rq), *urq = shca_at(base, rig_sh(s->bu)->rq);
	struct shca_qp *x = rig_sh(s->bx);
	const struct shca_cq *cq = shca_at(base, rig_sh(s->bq)->rcq);
	struct shca_waits *waits = shca_at(base, SHCA_WAITS_AT(cq->waits));

	switch (o) {
	case RQ: return rq;
	case RECEIVE: return shca_at(base, rq->wqes);
	case RING: return shca_at(base, rq->ring & ~(uint64_t)(SHCA_LINE - 1));
	case URQ: return urq;
	case URECEIVE: return shca_at(base, urq->wqes);
	case URING: return shca_at(base, urq->ring & ~(uint64_t)(SHCA_LINE - 1));
	case CQ: return shca_at(base, rig_sh(s->bq)->rcq);
	case UCQ: return shca_at(base, rig_sh(s->bu)->rcq);
	case QP: return rig_sh(s->bq);
	case MR: return ((struct shca_user_mr *)s->mr)->sh;
	case PMR: return ((struct shca_user_mr *)s->private_mr)->sh;
	case SQ: return x;
	case WAIT_WQE: return shca_wqe_at(base, x, 0);
	case WRITE_WQE: return shca_wqe_at(base, x, 1);
	case WAITS: return waits;
	case NOTED: return shca_waits_entry(waits, waits->log2, 0);
	}
	abort();
}

/* ---- the stage ---------------------------------------------------------------------------------------------------- */

static void connect_pair(struct ibv_qp *p, struct ibv_qp *q)
{
	rig_connect(p, q, &(struct rig_path){.timeout = 8, .retry_cnt = 1, .rnr_retry = 1, .min_rnr_timer = 1});
}

static void receive(struct ibv_qp *qp, char *at, uint32_t len, uint32_t lkey)
{
	struct ibv_sge sge = {.addr = (uintptr_t)at, .length = len, .lkey = lkey};
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;

	CHECK(!shca_post_recv(qp, &wr, &bad));
}

static void build(struct stage *s)
{
	const unsigned int rights =
		IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;

	memset(s, 0, sizeof(*s));
	rig_virtual(&s->a, NULL);
	rig_virtual(&s->b, &s->a);
	s->acq = rig_cq(&s->a, 64, NULL);
	s->bcq = rig_cq(&s->b, 64, NULL);
	struct ibv_cq *ucq = rig_cq(&s->b, 64, NULL);
	s->aq = rig_small_qp(&s->a, IBV_QPT_RC, s->acq, s->acq, NULL, 0);
	s->bq = rig_small_qp(&s->b, IBV_QPT_RC, s->bcq, s->bcq, NULL, 0);
	s->ay = rig_small_qp(&s->a, IBV_QPT_RC, s->acq, s->acq, NULL, 0);
	s->bx = rig_small_qp(&s->b, IBV_QPT_RC, ucq, ucq, NULL, IBV_EXP_QP_CREATE_CROSS_CHANNEL);
	s->au = rig_small_qp(&s->a, IBV_QPT_UD, s->acq, s->acq, NULL, 0);
	s->bu = rig_small_qp(&s->b, IBV_QPT_UD, ucq, ucq, NULL, 0);
	connect_pair(s->aq, s->bq);
	connect_pair(s->bx, s->ay);
	connect_pair(s->au, s->bu);
	s->arena = shca_buf_alloc(s->b.ctx, BYTES);
	s->own = shca_buf_alloc(s->a.ctx, BYTES);
	s->mine = malloc(BYTES);
	CHECK(s->arena && s->own && s->mine);
	s->mr = shca_reg_mr(s->b.pd, s->arena, BYTES, (uintptr_t)s->arena, rights);
	s->private_mr = shca_reg_mr(s->b.pd, s->mine, BYTES, (uintptr_t)s->mine, rights);
	s->a_mr = shca_reg_mr(s->a.pd, s->own, BYTES, (uintptr_t)s->own, rights);
	CHECK(s->mr && s->private_mr && s->a_mr);
	for (int i = 0; i < 4; i++) {
		receive(s->bq, s->arena + 64 * i, 64, s->mr->lkey);
		receive(s->bu, s->arena + 1024 + 128 * i, 128, s->mr->lkey);
	}
	/* B's queue waits for a completion that A makes, then writes to A */
	struct ibv_sge sge = {.addr = (uintptr_t)s->arena, .length = 64, .lkey = s->mr->lkey};
	struct ibv_exp_send_wr wr[2] = {
		{.exp_opcode = IBV_EXP_WR_CQE_WAIT, .exp_send_flags = IBV_EXP_SEND_WAIT_EN_LAST, .next = &wr[1],
		 .task.cqe_wait = {.cq = s->bcq, .cq_count = 1}},
		{.exp_opcode = IBV_EXP_WR_RDMA_WRITE, .exp_send_flags = IBV_EXP_SEND_SIGNALED, .sg_list = &sge, .num_sge = 1,
		 .wr.rdma = {.remote_addr = (uintptr_t)s->own, .rkey = s->a_mr->rkey}},
	}, *bad;
	CHECK(!shca_exp_post_send(s->bx, wr, &bad));
}

/* ---- traffic ------------------------------------------------------------------------------------------------------ */

static void post(struct stage *s, enum traffic t)
{
	static struct ibv_ah_attr to_b = {.dlid = SHCA_LID, .port_num = 1};
	struct ibv_sge sge = {.addr = (uintptr_t)s->own + 512, .length = 8, .lkey = s->a_mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED}, *bad;
	struct ibv_qp *qp = s->aq;

	wr.wr.rdma.remote_addr = (uintptr_t)s->arena + 2048;
	wr.wr.rdma.rkey = s->mr->rkey;
	switch (t) {
	case SEND:
	case FOREIGN:
		break;
	case IMM:
		wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
		break;
	case PLAIN:
		wr.opcode = IBV_WR_RDMA_WRITE;
		break;
	case GENERAL:
		wr.opcode = IBV_WR_RDMA_WRITE;
		wr.wr.rdma.remote_addr = (uintptr_t)s->mine;
		wr.wr.rdma.rkey = s->private_mr->rkey;
		break;
	case READ:
		wr.opcode = IBV_WR_RDMA_READ;
		break;
	case ATOMIC:
		wr.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
		wr.wr.atomic.remote_addr = (uintptr_t)s->arena + 2048;
		wr.wr.atomic.rkey = s->mr->rkey;
		break;
	case DATAGRAM:
		qp = s->au;
		wr.send_flags = IBV_SEND_INLINE;
		wr.wr.ud.ah = shca_create_ah(s->a.pd, &to_b);
		CHECK(wr.wr.ud.ah);
		wr.wr.ud.remote_qpn = s->bu->qp_num;
		wr.wr.ud.remote_qkey = RIG_QKEY;
		break;
	default:
		abort();
	}
	CHECK(!shca_post_send(qp, &wr, &bad));
}

/* Whether a queue of the stage told of an error. */
static bool told(struct stage *s)
{
	struct ibv_wc wc;

	while (shca_poll_cq(s->acq, 1, &wc) > 0)
		if (wc.status != IBV_WC_SUCCESS)
			return true;
	return atomic_load(&rig_sh(s->bx)->fail) || atomic_load(&rig_sh(s->bx)->events) || atomic_load(&rig_sh(s->bq)->fail);
}

/* Runs one case in this process. Returns 0 if A got an error, 2 if not. */
static int play(const struct field *f, const uint64_t *scribble, enum traffic t, bool remembered)
{
	struct stage s;

	build(&s);
	if (remembered) {
		/* A has seen the objects as they were, and may rely on that */
		post(&s, t);
		if (told(&s))
			FAIL("%s: an error before anything was scribbled over", traffic_names[t]);
	}
	char *at = (char *)object_of(&s, f->object) + f->at;
	if (remembered && (f->object == RECEIVE || f->object == URECEIVE))
		at += ((struct shca_rq *)object_of(&s, f->object == RECEIVE ? RQ : URQ))->stride;
	uint64_t value = 0;
	memcpy(&value, at, f->size);
	value = scribble ? *scribble : value | OUT_OF_REACH;
	if (!memcmp(at, &value, f->size))
		return 0;	/* the field had this value already */
	memcpy(at, &value, f->size);
	for (int i = 0; i < 2; i++)
		post(&s, t);
	for (int i = 0; i < (f->may_pass ? 4 : 4000); i++) {
		if (told(&s))
			return 0;
		rig_nap();
	}
	return 2;
}

/* B's WRITE becomes a CALC, of which more than one field is wrong at once. The device's result of elements has 16 bytes. */
struct calc {
	const char *name;
	uint8_t flags, nsge;
	uint32_t len, segment;
	bool told;
};
static const struct calc calcs[] = {
	{"a CALC as it should be", SHCA_WQE_CALC, 1, 16, 64, false},
	{"CALC, with a length that is not the result's", SHCA_WQE_CALC, 1, 2048, 64, false},
	{"CALC of an empty segment", SHCA_WQE_CALC, 1, 16, 0, true},
	{"CALC of more segments than there is room for", SHCA_WQE_CALC, 255, 16, 64, true},
	{"CALC of more segments than there is room for, as if inline", SHCA_WQE_CALC | SHCA_WQE_INLINE, 255, 16, 64, true},
};

static int play_calc(const struct calc *c)
{
	static const struct shca_calc sum = {.op = SHCA_CALC_ADD, .type = SHCA_CALC_INT, .size = 8};
	struct stage s;

	build(&s);
	memset(s.own, 0x5a, BYTES);
	struct shca_wqe *w = object_of(&s, WRITE_WQE);
	w->flags |= c->flags;
	w->nsge = c->nsge;
	w->len = c->len;
	w->sge[0].len = c->segment;
	w->arg[0] = shca_calc_word(&sum);
	post(&s, FOREIGN);
	for (int i = 0; i < 4000 && atomic_load(&rig_sh(s.bx)->head) < 2 && !told(&s); i++)
		rig_nap();
	for (uint32_t i = c->told ? 0 : 16; i < BYTES; i++)
		if (s.own[i] != 0x5a) {
			printf("byte %u was written\n", i);
			return 3;
		}
	return told(&s) == c->told ? 0 : 2;
}

/* Most cases only wait for an error that does not come: so many run at a time. */
#define AT_A_TIME 24
struct running {
	pid_t pid;			/* 0: none */
	const struct field *f;
	uint64_t value;
	enum traffic t;
	bool remembered, may_pass;
};

/* Waits until one case has ended, and frees its entry. Returns 1 if the case failed. */
static int one_ends(struct running *run)
{
	int status;
	pid_t pid = waitpid(-1, &status, 0);

	CHECK(pid > 0);
	while (run->pid != pid)
		run++;
	run->pid = 0;
	if (WIFEXITED(status) && (WEXITSTATUS(status) == 0 || (WEXITSTATUS(status) == 2 && run->may_pass)))
		return 0;
	printf("FAIL: %s = %#lx, %s%s: %s %d\n", run->f->name, run->value, traffic_names[run->t],
	       run->remembered ? ", remembered" : "",
	       WIFSIGNALED(status) ? WTERMSIG(status) == SIGALRM ? "it never ended:" : "signal" : "no error was told:",
	       WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
	return 1;
}

int main(void)
{
	static struct running run[AT_A_TIME];
	int failed = 0, cases = 0, busy = 0;
	const char *only = getenv("SCRIBBLED");

	setvbuf(stdout, NULL, _IOLBF, 0);
	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
		for (int t = 0; t < TRAFFICS; t++)
			for (size_t v = 0; v < 2 * VALUES; v++) {
				const struct field *f = &fields[i];
				bool remembered = v & 1 && t != FOREIGN;
				struct running *r = run;
				if (!(f->traffic & BIT(t)) || (v & 1 && t == FOREIGN) || (only && strcmp(only, f->name)))
					continue;
				if (busy == AT_A_TIME) {
					failed += one_ends(run);
					busy--;
				}
				while (r->pid)
					r++;
				const uint64_t *value = v / 2 == MOVED ? NULL : &values[v / 2];
				/* remembered values are right; an offset within the fabric cannot be told from the true one */
				*r = (struct running){.f = f, .value = value ? *value : OUT_OF_REACH, .t = (enum traffic)t,
						      .remembered = remembered, .may_pass = f->may_pass ||
							      (remembered && t == PLAIN) ||
								  (f->object == MR && value && *value <= UINT32_MAX)};
				cases++;
				busy++;
				r->pid = fork();
				CHECK(r->pid >= 0);
				if (!r->pid) {
					alarm(60);
					_exit(play(f, value, r->t, remembered));
				}
			}
	while (busy--)
		failed += one_ends(run);
	for (size_t i = 0; i < sizeof(calcs) / sizeof(calcs[0]) && (!only || !strcmp(only, "calc")); i++) {
		int status;
		pid_t pid = fork();
		CHECK(pid >= 0);
		if (!pid) {
			alarm(60);
			_exit(play_calc(&calcs[i]));
		}
		CHECK(waitpid(pid, &status, 0) == pid);
		cases++;
		if (status) {
			printf("FAIL: %s: status %#x\n", calcs[i].name, status);
			failed++;
		}
	}
	printf("%d cases, %d failed\n", cases, failed);
	return failed != 0;
}
