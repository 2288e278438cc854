/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Random graphs of requests whose outcome is determined: sends, writes, reads, CALC and atomics on the memory of up to 8
 * members, among WAITs and ENABLEs that order them. graph_make.c invents one from a seed and knows what it must come to;
 * graph_check.c carries it out on paper, graph_run.c on the device; graph_death.c knows what is left of it when a member dies.
 *
 * A graph is made in one order, in which all of it could run. For each request is known which others must have ended before
 * it (a vector clock: for each queue, how many of its requests). Two accesses to the same 16 bytes of which one changes
 * them are always ordered that way; but additions commute with additions, and bits that are set with bits that are set.
 * So whatever order the engine takes, each request finds the same operands, and memory is the same in the end.
 */
#ifndef TESTS_SHCA_GRAPH_H
#define TESTS_SHCA_GRAPH_H

#include "rig.h"
#include "../verbs/atomic_model.h"
#include "../verbs/calc_model.h"

#define GRAPH_MEMBERS 8u
#define GRAPH_QUEUES 64u
#define GRAPH_OPS 256u		/* of a queue */
#define GRAPH_SEGS 4u
/* Of each member: what is compared, the first half of it in the arena; then where results go that are not determined. */
#define GRAPH_MEM 8192u
#define GRAPH_SCRATCH 2048u
#define GRAPH_ALL (GRAPH_MEM + GRAPH_SCRATCH)
#define GRAPH_HALF (GRAPH_MEM / 2)

enum graph_op {
	GRAPH_NOP, GRAPH_STAMP, GRAPH_SEND, GRAPH_WRITE, GRAPH_WRITE_IMM, GRAPH_READ, GRAPH_FAA, GRAPH_CAS, GRAPH_MFAA,
	GRAPH_MCAS, GRAPH_WAIT, GRAPH_SEND_EN, GRAPH_RECV_EN,
};
enum graph_operands { GRAPH_IMMEDIATE, GRAPH_POINTER, GRAPH_GATHERED };

struct graph_seg {
	uint32_t off, len;
};
struct graph_atomic {
	uint32_t size;
	enum graph_operands how;
	uint64_t v[4][ATOMIC_WORDS];
};
struct graph_req {
	enum graph_op op;
	bool signaled, last, calc, inl;
	uint8_t nseg;				/* the local list; an atomic's first is its result, operands follow */
	struct graph_seg seg[GRAPH_SEGS];
	struct graph_seg remote;		/* at the peer's member: what is written (by a SEND, too), read, or changed */
	struct calc_form form;
	struct graph_atomic *atomic;
	uint32_t cq, target;			/* WAIT: 2 * queue, + 1: of its receives; ENABLE: queue */
	uint64_t index;				/* absolute: completions, requests */
	int32_t count;				/* as it is posted */
	uint32_t list;
};
struct graph_recv {
	struct graph_seg into;
	uint32_t list;
};
/* Who has enabled what of a queue is enabled: a queue, so many of its requests. */
struct graph_enabler {
	uint32_t queue, requests;
};
struct graph_queue {
	uint32_t member, peer;			/* peer: a queue */
	bool managed_send, managed_recv;
	struct graph_req req[GRAPH_OPS];
	uint32_t n;
	struct graph_recv recv[GRAPH_OPS];
	uint32_t nrecv;				/* that messages are for; there may be more */
	uint32_t posted_recv;
	uint32_t signals, enabled, recv_enabled;
	struct graph_enabler send_enabler, recv_enabler;
	uint16_t clock[GRAPH_QUEUES];
	uint16_t (*ended)[GRAPH_QUEUES];	/* by request: what must have ended when it has, itself included */
};
struct graph_step {
	uint16_t queue, req;
};
struct graph_image {
	char mem[GRAPH_MEMBERS][GRAPH_ALL];
};
struct graph {
	uint64_t seed;
	uint32_t members, queues, lists;
	bool stamps;				/* each request that changes memory has a counter's increment behind it */
	bool wide;				/* atomics of more than 8 bytes */
	struct graph_queue q[GRAPH_QUEUES];
	struct graph_step *order;
	uint32_t steps;
	struct graph_image image;		/* what memory must be in the end */
	struct graph_maker *maker;
};

/* The same graph for the same arguments, in every process. */
struct graph *graph_make(uint64_t seed, uint32_t members, bool stamps);
void graph_free(struct graph *g);
/* Memory before anything runs; and what a request makes of it. */
void graph_begin(const struct graph *g, struct graph_image *image);
void graph_apply(const struct graph *g, struct graph_image *image, uint32_t queue, uint32_t req);

/* Carries it out on paper, in an order that depends on seed; fails if that makes a difference. */
void graph_check(const struct graph *g, uint64_t seed);

/* ---- on the device ------------------------------------------------------------------------------------------------ */

/* What members tell each other; among processes, in memory that they share. */
struct graph_board {
	struct {
		uint64_t addr[2];		/* of its memory: arena, private */
		uint32_t rkey[2];
		uint64_t stamps;		/* the counters, where this member has them */
		uint32_t stamp_key;
	} m[GRAPH_MEMBERS];
	shca_off stamps;			/* one word a queue, in member 0's arena */
	uint32_t qpn[GRAPH_QUEUES];
};
struct graph_member {
	struct rig *r;
	const struct graph *g;
	struct graph_board *board;
	uint32_t id;
	char *memory[2];			/* arena, private */
	void *arena, *own;			/* as it was allocated, with margins */
	_Atomic uint64_t *stamps;
	struct ibv_mr *mr[2], *stamp_mr;
	struct ibv_cq *cq[2 * GRAPH_QUEUES];
	struct ibv_qp *qp[GRAPH_QUEUES];
};

/* In this order, each by all members before the next: make, connect; then post; then unmake. Member 0 makes first. */
void graph_member_make(struct graph_member *m);
/* false: a peer has died. */
bool graph_member_connect(struct graph_member *m);
void graph_member_post(struct graph_member *m, uint32_t list);
void graph_member_unmake(struct graph_member *m);
/* The memory that an offset of this member's means. */
char *graph_memory(const struct graph_member *m, uint32_t off);
void graph_poll(const struct graph_member *m);
/* All has run, as seen by this member; what has not after `seconds` is a failure. */
void graph_await_all(const struct graph_member *m, double seconds);
/* Memory is the image. */
void graph_compare(const struct graph_member *m, const struct graph_image *image);
/* Who, in the order in which the graph was made, changed this byte last: for who looks for a defect. */
void graph_blame(const struct graph_member *m, uint32_t off);

/* ---- a member dies: graph_death.c -------------------------------------------------------------------------------------- */

#define GRAPH_THREADS 4u	/* of a member, that enter the engine */
/* What is seen of a graph from outside, and what its survivors tell each other, in memory that they share. */
struct graph_death {
	uint32_t victim, slot;			/* its process slot */
	/* by queue: requests that had ended with success, and that had begun, when an executor came by a failpoint */
	_Atomic uint32_t ended[GRAPH_QUEUES], begun[GRAPH_QUEUES];
	uint32_t before[GRAPH_QUEUES];		/* that had ended when the victim still lived */
	_Atomic uint32_t runs[GRAPH_MEMBERS][GRAPH_THREADS];	/* the queue that a thread executes a request of, plus one */
	struct {
		uint32_t ok;			/* requests that have ended with success */
		int status;			/* of the next one: it failed; IBV_WC_SUCCESS: it did not run */
		uint32_t received;		/* messages */
	} queue[GRAPH_QUEUES];			/* of survivors */
};
struct graph_tally {
	uint64_t ok, independent;			/* requests of survivors */
	uint64_t failed, fatal, waiting;		/* queues of survivors that failed, in the dead one's hands; that wait */
	uint64_t bytes, unknown;			/* of survivors' memory: what it must be is known; is not */
	uint64_t done, undone, partly;			/* requests that were interrupted, as memory shows */
};
/* A failpoint was come by, in member `id`. */
void graph_death_witness(struct graph_death *d, const struct graph *g, const struct graph_board *board, uint32_t id,
			 const char *name, const struct shca_qp *qp);
/* The victim is about to die, and lives still. */
void graph_death_before(struct graph_death *d);
/* Survivors, when all of them have posted all: until nothing can go on any more, and nothing is left to be cleaned up. quiet:
 * without a call of the library. Then tells the others what its queues have come to. */
void graph_death_settle(const struct graph_member *m, struct graph_death *d, bool quiet, double seconds);
/* Then: that is what it must be, and so is this member's memory. */
void graph_death_check(const struct graph_member *m, const struct graph_death *d, struct graph_tally *t);

#endif
