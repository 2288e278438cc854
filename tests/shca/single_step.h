/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared by the parts of single_step.
 *
 *     single_step.c            the runner, which steps and kills, and the survivors
 *     single_step_calls.c      the victim and the calls in which it dies
 */
#ifndef TESTS_SHCA_SINGLE_STEP_H
#define TESTS_SHCA_SINGLE_STEP_H

#include "rig.h"

#define RECVS 8u
#define BIG (640u << 10)		/* a copy that is divided: SHCA_SHARE_MIN and more */
#define ROOM (BIG + 4096)		/* of each receive */
#define LEN 200u
#define GRH 40u
#define REGION (1u << 20)		/* the region that B registers: a part to be read, one to be written, a cell */
#define O_DST 0u
#define O_SRC (BIG)
#define O_CELL (REGION - 64)
enum who { FROM_A = 1, FROM_T, FROM_V };
/* in which way the victim's memory, or a request's, lies */
enum lane { ARENA, PRIVATE };

struct stage {
	char fabric[64];
	/* B's and A's, for good */
	uint32_t b_ud, b_dct, b_xrc_srqn, b_t, b_a, a_t, a_b, a_ud, b_ax, a_x;
	uint32_t rkey[2];
	uint64_t addr[2];
	uint32_t slot[2];
	_Atomic uint32_t here, up;
	/* of a round */
	uint32_t number;		/* the round's */
	bool third;			/* the victim's datagram makes the victim run A's queue */
	bool joins;			/* the victim is a member before the call, and connected to B */
	uint32_t b_v, v_b;		/* the connection between B and the victim */
	uint32_t b_vx, v_x;		/* the XRC queues */
	_Atomic uint32_t inside;	/* 1: the victim is in the call; 2: it has returned */
	_Atomic uint32_t v_made;	/* the victim's queue exists */
	_Atomic uint32_t round, b_ready, a_ready, connected, dead, settled, counted, sent, done;
};
extern struct stage *st;

/* A message contains sender and round, and is recognised whole. */
static inline uint64_t message_tag(enum who who)
{
	return (uint64_t)who << 56 | st->number;
}
void message_fill(void *p, uint32_t len, enum who who);

struct ibv_qp *dc_queue(struct rig *r, struct ibv_cq *cq, struct ibv_srq *srq);
struct ibv_qp *xrc_queue(struct rig *r, struct ibv_cq *cq, struct ibv_xrcd *xrcd);
struct ibv_xrcd *xrc_domain(struct rig *r);
void connect_queue(struct ibv_qp *qp, uint32_t dest);

struct call {
	const char *name;
	bool third, outside;		/* the victim runs A's queue; the victim is no member yet */
	int arg, arg2;
	void (*prepare)(const struct call *c);
	void (*make)(const struct call *c);
};
extern const struct call calls[];
extern const unsigned n_calls;

/* The victim: prepares, has itself traced, makes the call. */
void victim(const struct call *c);

#endif
