/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared by the sources of failpoints: the cases, and the objects of a case.
 *
 *     failpoints.c        the cases, and the runner
 *     failpoints_stage.c  objects, messages, the requests of the queue under test, the point of death
 *     failpoints_roles.c  the part of each process, and the checks after the death
 */
#ifndef TESTS_SHCA_FAILPOINTS_H
#define TESTS_SHCA_FAILPOINTS_H

#include "failpoint.h"
#include "rig.h"

/* ---- the cases --------------------------------------------------------------------------------------------------- */

enum req {
	R_SEND, R_SEND_IMM, R_WRITE, R_WRITE_IMM, R_READ, R_CAS, R_FAA, R_MCAS, R_MFAA, R_WFAA, R_WAIT, R_SEND_EN, R_RECV_EN,
	R_SEND_LONG, R_WRITE_KEY, R_SEND_LKEY, R_SEND_RNR, R_SEND_SRQ, R_SEND_CALC, R_READ_CALC, R_ANY, R_KINDS
};
#define M(r) (1u << R_##r)
#define M_SENDS (M(SEND) | M(SEND_IMM) | M(SEND_SRQ) | M(SEND_CALC))
#define M_CALC (M(SEND_CALC) | M(READ_CALC))
#define M_TAKES (M_SENDS | M(WRITE_IMM))
#define M_ATOMICS (M(CAS) | M(FAA) | M(MCAS) | M(MFAA) | M(WFAA))
#define M_DATA (M_TAKES | M(WRITE) | M(READ) | M(READ_CALC) | M_ATOMICS)
#define M_CROSS (M(WAIT) | M(SEND_EN) | M(RECV_EN))
#define M_BAD (M(SEND_LONG) | M(WRITE_KEY))
/* The status of this request concerns the owner only. */
#define M_OWN M(SEND_LKEY)
#define M_REAP (M(SEND) | M(SEND_SRQ) | M(WAIT) | M(SEND_RNR) | M(RECV_EN))

enum executor { E_DIRECT, E_SHARED, E_THIRD, E_REAPER, E_HELPER, E_KINDS };
/* The queue and request at which the failpoint counts, if not T's request under test. */
enum where { W_REQ, W_T, W_TB, W_RS, W_LAST, W_XA, W_ANY };

struct point {
	const char *name, *fp;
	uint32_t reqs, executors;
	enum where where;
	uint32_t skip;
	bool ambiguous;			/* the survivors cannot know whether the request was executed: the queue must fail */
	const char *why;		/* the reason why other requests and executors do not pass here */
};

/* ---- the stage ----------------------------------------------------------------------------------------------------- */

enum { A, B, X, Y, ROLES };
/* Connections, by the two processes. */
enum link { L_T, L_XA, L_XB, L_AB, L_M, L_R, L_XY, L_BY, LINKS };
extern const int ends[LINKS][2];

#define RECVS 4
#define ROOM 256
#define LEN 200
/* Three more than this crosses the boundary of a masked add's lower field, and of a masked swap's byte. */
#define CELL0 0x5fffffffeull
#define WIDE 64u		/* bytes of the wide masked add: the cell, and words of 0 behind the cell */
#define REGION 65536
/* offsets in each process's two regions */
#define O_SRC 0
#define O_DST 4096
#define O_CELL 8192
#define O_ZEROS 9216
#define O_OPERANDS 10240		/* two elements of 16 bytes, in network order: 5 and 7 */
#define O_MARK 12288
#define O_MSG 16384
#define O_RX 20480		/* [link][RECVS] of ROOM */

struct stage {
	char fabric[64];
	struct point p;
	enum req req;
	enum executor ex;
	bool priv;			/* T's data in private memory */
	uint32_t qpn[LINKS][2];
	uint32_t slot[ROLES];
	uint64_t addr[ROLES][2];	/* arena, private */
	uint32_t rkey[ROLES][2];
	_Atomic uint32_t at[16];	/* barriers */
	uint64_t big;			/* B's large buffer */
	uint32_t big_rkey;
	_Atomic uint32_t dead, b_done, finish, fill;
	struct rig_stops stops;
	struct failpoint_arm arm[FAILPOINT_ARMS];
};
extern struct stage *st;

struct end {
	struct ibv_qp *qp;
	struct ibv_cq *scq, *rcq;
	bool rx_done[RECVS];
	int rx_status[RECVS];
	int rx_n;
	struct ibv_wc rx_wc[RECVS];
	bool told;			/* an event has reported the queue in error */
};

struct actor {
	struct rig r;
	int role;
	char *mem[2];
	struct ibv_mr *mr[2];
	struct end e[LINKS];
	struct ibv_cq *wcq;		/* A: the CQ that T's WAIT waits for */
	struct ibv_srq *srq;
	struct ibv_comp_channel *channel;	/* B: of T's receives */
};

static inline uint64_t now(void)
{
	return monotonic_ns();
}
void nap(void);

#define WITHIN (10 * 1000000000ull)
#define UNTIL(cond, ...)                                                                  \
	for (uint64_t until_ = now() + WITHIN; !(cond); nap())                             \
		if (now() > until_)                                                        \
			FAIL(__VA_ARGS__)

static inline uint32_t roles(void)
{
	return st->ex == E_REAPER ? 4 : 3;
}

/* Roles that are stopped while X dies: A, and B where Y reaps. */
static inline int stopped_ends(void)
{
	return st->ex == E_REAPER ? 2 : 1;
}

void barrier(int i);

static inline bool in(int role, int link)
{
	if (roles() == 3 && (ends[link][0] == Y || ends[link][1] == Y))
		return false;
	return ends[link][0] == role || ends[link][1] == role;
}
static inline int side(int role, int link)
{
	return ends[link][0] == role ? 0 : 1;
}
static inline bool third(void)
{
	return st->ex == E_THIRD || st->ex == E_REAPER;
}
/* Points at which a WAIT has found too few completions. */
static inline bool waits_in_vain(void)
{
	return !strcmp(st->p.name, "wait-unmet");
}
static inline int lane(void)
{
	return st->priv ? 1 : 0;
}

/* ---- failpoints_stage.c -------------------------------------------------------------------------------------------- */

/* Joins the fabric, makes the role's objects, connects them; returns when all roles have. */
void enter_stage(struct actor *a, int role);
/* Where the i-th receive of a link lands; links on the SRQ share. */
char *rx_buffer(struct actor *a, int l, int i);
void post_recv(struct actor *a, int l, int i, uint32_t room);
void post_recvs(struct actor *a, int l);
/* A message of 32 bytes: sender, number, twice. check_msg: checks that receive i of the link got that message. */
void send_msg(struct actor *a, int l, uint64_t number);
/* The next send completion of a link has one of these statuses. */
void want_send(struct actor *a, int l, enum ibv_wc_status want, enum ibv_wc_status or_else);
/* Takes completions of a link's receives. true: there was one. */
bool poll_recv(struct actor *a, int l);
/* There are n receive completions in all; ... and no more come. */
void want_recvs(struct actor *a, int l, int n);
void no_more_recvs(struct actor *a, int l, int n);
void check_msg(struct actor *a, int l, int i, int from, uint64_t number);
/* In which of the two regions the tested request's data are: 0 arena, 1 private. */
int op_lane(void);
/* T's requests: perhaps a WAIT, the request under test, a SEND. */
void post_program(struct actor *a);
void post_managed(struct actor *a);
/* This process dies at the case's point; i: 0, or 1 for the reaper of the first victim. */
void arm(int i);

/* ---- failpoints_roles.c: each is a whole process ---------------------------------------------------------------------- */

void help_a(void);
void help_b(void);
void help_x(void);
void role_a(void);
void role_b(void);
void role_y(void);
void role_x(void);

#endif
