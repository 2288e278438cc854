/* SPDX-License-Identifier: BSD-3-Clause */
/* The two sources of random_kills: a worker and its connections (random_kills_queues.c); the workers, the kills, the audit. */
#ifndef RANDOM_KILLS_H
#define RANDOM_KILLS_H

#include <stdlib.h>
#include <time.h>

#include "rig.h"

#define MAXW 12u
#define MSG 2048u
#define TX 16u			/* requests outstanding on an ordinary queue */
#define BURST 8u		/* messages that are posted at a time, at most */
#define RX 16u			/* receives of each queue */
#define SRX 96u
#define LISTS 2u		/* task lists outstanding per cross-channel queue: two requests and a WAIT each */
#define HDR 16u
#define BIG (640u << 10)	/* copies that long are divided between two processes */
#define BIG_MIN (520u << 10)

struct header {
	uint32_t seq, len;
	uint64_t seed;
};

/* A worker's offer to one peer: queue numbers, addresses and keys. Written by the worker; `ready` last. */
struct offer {
	_Atomic uint64_t ready;		/* generation of the peer that the offer is for << 32 | epoch; 0: none */
	uint32_t qpn[2];		/* ordinary, cross-channel */
	uint64_t cell, window;		/* targets for the peer: cells of two atomics, a window of writes */
	uint64_t big;			/* target for the peer's large write */
	uint32_t rkey, big_rkey;
	/* written when two living workers close their queues: completed sends, per queue */
	_Atomic uint64_t said;		/* as `ready`; 0: not said */
	uint32_t sent[2];
};
struct board {
	char fabric[64];
	_Atomic uint32_t stop, kills, leaving, patience;
	struct post {
		_Atomic uint32_t gen;		/* generation of the present worker; 0: none */
		_Atomic uint32_t killed;	/* the worker's generation, until the kill */
		_Atomic uint64_t beat;
		struct offer to[MAXW];
	} w[MAXW];
	_Atomic uint64_t ambiguous, connections, foreign;
	_Atomic uint64_t done[7];		/* by enum traffic */
};
extern struct board *bd;
extern uint32_t workers;	/* a quarter of them has no shared receive queue */

enum traffic { MESSAGES, LISTS_RUN, WRITES, ADDS, MASKED, LARGE, RESIZES, TRAFFICS };
enum kind { D, C };
enum what { W_SEND, W_WRITE_IMM, W_WRITE, W_READ, W_FAA, W_MASKED, W_BIG_WRITE, W_BIG_READ };

struct tx {
	enum what what;
	uint32_t len;
	uint64_t seed;
};

struct queue {
	struct ibv_qp *qp;
	struct tx tx[TX];
	uint32_t slots;			/* of tx that are used */
	uint32_t head, n, sent;		/* outstanding, first in first out; completed sends */
	uint32_t seq;			/* next message */
	uint32_t expect;		/* next that arrives */
	uint32_t posted;		/* receives outstanding */
	bool srq, broken, failed;	/* broken: closed soon; failed: a request has failed, so all that follow must */
};

struct conn {
	uint32_t peer, gen, epoch;	/* the peer's generation; 0: not begun */
	bool up, writing;
	struct queue q[2];
	uint32_t adds, masked;		/* that completed */
	uint32_t write_len;
	uint64_t write_seed;
	struct offer other;		/* the peer's, when we connected */
};

struct worker {
	struct rig r;
	uint32_t id, gen;
	uint64_t rng;
	struct ibv_cq *scq, *wcq;
	struct ibv_srq *srq;
	uint32_t srq_posted;
	struct conn c[MAXW];
	char *mem[2];
	struct ibv_mr *mr[2];
	uint32_t epochs[MAXW];
	/* large copies: one at a time */
	char *big;			/* a target for each peer, then a source, then a result */
	struct ibv_mr *big_mr;
	struct conn *big_conn;		/* the connection that has a large copy under way; NULL: none */
	uint32_t big_len;
	uint64_t big_seed;
	uint64_t foreign;		/* of the board's count */
};
#define BIG_SOURCE(w) ((w)->big + MAXW * (size_t)BIG)
#define BIG_RESULT(w) ((w)->big + (MAXW + 1) * (size_t)BIG)
#define BIG_BYTES ((MAXW + 2) * (size_t)BIG)

/* Bytes of a worker's memory: random_kills_queues.c. */
#define PER_PEER ((TX + 2 * LISTS + 2 * RX + 4) * MSG)
#define MEM (MAXW * PER_PEER + SRX * MSG)

static inline uint64_t now(void)
{
	return monotonic_ns();
}

static inline void nap(long us)
{
	struct timespec t = {0, us * 1000};
	nanosleep(&t, NULL);
}

void post_srq(struct worker *w, uint32_t i);
/* Makes the queues for a peer's generation, and offers them. */
void begin(struct worker *w, uint32_t p, uint32_t gen, uint32_t epoch);
void try_connect(struct worker *w, struct conn *c);
/* Returns whether the peer has given these queues up: the peer may destroy queues that this worker still uses. */
bool given_up(const struct worker *w, const struct conn *c);
void send_ordinary(struct worker *w, struct conn *c);
void send_big(struct worker *w, struct conn *c);
/* Posts one list for two peers, with a masked add at each. */
void send_masked(struct worker *w, struct conn *a, struct conn *b);
void send_list(struct worker *w, struct conn *c);
/* Checks all completions that are there. Returns how many. closing: the queues are being closed, so requests may fail. */
int poll_all(struct worker *w, bool closing);
/* Closes both queues: all that was posted must come back, and all messages that the peer counts as sent must have come. */
void end(struct worker *w, struct conn *c);

#endif
