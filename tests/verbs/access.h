/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared by the two processes of access.
 *
 *     access.c        the requester: ways in, refusals, expected results
 *     access_ways.c   the requester's queues; how a request is posted, way by way
 *     access_peer.c   the responder: makes a case's objects, and checks that no other byte has changed
 */
#ifndef TESTS_VERBS_ACCESS_H
#define TESTS_VERBS_ACCESS_H

#include <fcntl.h>
#include <infiniband/mlx5dv.h>
#include <infiniband/verbs_exp.h>

#include "vt.h"

#define BIT(x) (1u << (x))

/* Either process is ended by SIGALRM when one case takes longer. */
#define ACCESS_CASE_SECONDS 60

enum transport { RC, UC, XRC, DC, UD, TRANSPORTS };
enum op { SEND, SEND_IMM, WRITE, WRITE_IMM, READ, CAS, FAA, MCAS, MFAA, OPS };
#define OPS_SEND (BIT(SEND) | BIT(SEND_IMM))
#define OPS_TAKE (OPS_SEND | BIT(WRITE_IMM))
#define OPS_ATOMIC (BIT(CAS) | BIT(FAA) | BIT(MCAS) | BIT(MFAA))
#define OPS_RESULT (BIT(READ) | OPS_ATOMIC)
#define OPS_REMOTE (BIT(WRITE) | BIT(WRITE_IMM) | OPS_RESULT)
#define OPS_ALL (BIT(OPS) - 1)

enum lane { ARENA, PRIVATE, LANES };

/* ---- the responder's memory, per lane: three pages, in which two windows are registered ------------------------------ */

#define MEMORY 12288u
#define UNTOUCHED 0xa5
/* For RDMA. Odd on both sides: an aligned word stands out by one byte at either end. */
#define WIN_AT 4097u
#define WIN_LEN 518u
#define WIN_GOOD (WIN_AT + 15)		/* a request that is all right goes here; aligned */
/* For receives. */
#define RWIN_AT 8209u
#define RWIN_LEN 701u
#define GRH 40u
#define QKEY 0x1234u
#define DC_KEY 0x77u

/* Regions over the first window, by their defect. */
enum region { G_GOOD, G_NO_WRITE, G_NO_READ, G_NO_ATOMIC, G_OTHER_PD, G_SMALL, G_GONE, REGIONS };
/* One that is shorter than any request. */
#define SMALL_AT (WIN_GOOD + 256)
#define SMALL_LEN 7u
/* Receives, by their defect. */
enum receive { V_NONE, V_GOOD, V_SHORT, V_KEY, V_BEFORE, V_BEHIND, V_OTHER_PD, V_NO_WRITE, V_GONE, V_SMALL };
/* The queue that answers. */
enum answerer { Q_READY, Q_NO_WRITE, Q_NO_READ, Q_NO_ATOMIC, Q_RESET, Q_INIT, Q_ERR, Q_OTHER_PEER };
/* Events between the valid request and the refused one. */
enum event { E_NONE, E_REGION_GONE, E_QUEUE_ERR };

/* The requester's orders. */
struct order {
	enum { PREPARE, HAPPEN, LOOK, SLEEP, END } what;
	/* PREPARE */
	enum transport transport;
	enum lane lane;
	bool srq;
	enum answerer answerer;
	enum receive receive[2];
	uint32_t length;		/* of a message */
	uint32_t peer;			/* requester's queue */
	/* HAPPEN */
	enum event event;
	/* LOOK */
	bool good;			/* the good request changed this */
	bool good_takes;		/* the good request took a receive */
	bool good_received;		/* ... with the data in the buffer */
	uint32_t at, n;
	uint8_t data[256];
	int received;			/* enum ibv_wc_status of the refused message's receive; -1: none completes */
	bool broken;			/* the queue must be in error */
	int event_wanted;		/* enum ibv_event_type; -1: any or none */
};
/* The responder's answers. */
struct answer {
	uint32_t qpn, srqn, other_srqn, gone_rkey;
	char complaint[256];		/* LOOK, SLEEP; empty: no violation */
};
/* Told once. */
struct card {
	uint64_t addr[LANES];
	uint32_t rkey[LANES][REGIONS];
	uint32_t lkey[LANES];
};

/* The child: serves orders until END. */
void access_answer(struct vt_peer *peer);

/* ---- ways in --------------------------------------------------------------------------------------------------------- */

enum api { POST, WR, EXP, APIS };
/* TD: a queue of a thread domain, which has no lock; LIST: behind a good request in the same call; SHARED: a cross-channel queue:
 * requests are stored in the ring and executed from there; TASK: the same by a task list. */
enum mode { TD, LOCKED, LIST, SHARED, TASK, MODES };

struct shape {
	const char *name;
	bool inl;
	int n;
	uint32_t len[5];
};
struct way {
	enum transport transport;
	enum api api;
	enum mode mode;
	enum op op;
	const struct shape *shape;
	bool signaled, srq;
};

/* One request, as a way posts it. */
struct request {
	uint64_t id;
	struct ibv_sge sge[33];
	int n;
	bool inl, signaled;
	uint64_t raddr;
	uint32_t rkey;
	uint32_t qpn, srqn, qkey;
	uint64_t dc_key;
	struct ibv_ah *ah;
	uint64_t operand[4];		/* CAS: compare, swap; FAA: add; masked: as in verbs_exp.h */
};

struct requester {
	struct vt t;
	struct ibv_td *td;
	struct ibv_pd *domain;
	struct ibv_cq *cq;
	struct ibv_ah *ah, *nowhere;
	struct {
		struct ibv_qp *qp;
		uint32_t max_inline;
	} queue[TRANSPORTS][2][2];	/* [][thread domain][cross-channel] */
};

void access_open(struct requester *r);
void access_close(struct requester *r);
/* Whether there is such a way at all. */
bool access_possible(const struct way *w);
struct ibv_qp *access_queue(struct requester *r, const struct way *w, uint32_t *max_inline);
/* RESET, then up to this state; peer: number of the queue that answers. */
void access_connect(const struct way *w, struct ibv_qp *qp, enum ibv_qp_state to, uint32_t peer);
/* Posts n requests in one call. Returns the call's result. */
int access_post(struct requester *r, const struct way *w, struct ibv_qp *qp, const struct request *q, int n);

#endif
