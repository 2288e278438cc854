/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Random graphs of requests with a determined outcome: sends, writes, reads, CALC and atomics on the memory of up to 8 members,
 * ordered by WAITs and ENABLEs. graph_make.c makes a graph from a seed, with the memory that must result; graph_check.c executes
 * it in a model, graph_run.c on the device; graph_death.c has the rules for a graph of which a member dies.
 *
 * A graph is made in one order, in which all requests could run. Each request has a vector clock: for each queue, the number of
 * requests of that queue that must have ended before. Two accesses to the same 16 bytes, at least one of which is a change, are
 * always ordered by these clocks; but additions commute with additions, and setting bits with setting bits. So each request finds
 * the same operands in whatever order the engine executes, and the resulting memory is the same.
 */
#ifndef TESTS_SHCA_GRAPH_H
#define TESTS_SHCA_GRAPH_H

#include "rig.h"
#include "../verbs/atomic_model.h"
#include "../verbs/calc_model.h"

#define GRAPH_MEMBERS 8u
#define GRAPH_QUEUES 64u
#define GRAPH_OPS 256u		/* requests of a queue */
#define GRAPH_SEGS 4u
/* Memory of each member, in bytes: GRAPH_MEM that are compared, the first half of them in the arena; GRAPH_SCRATCH for results
 * that are not determined. */
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
	uint8_t nseg;				/* of the local list. Atomics: the first is the result's place, operands follow */
	struct graph_seg seg[GRAPH_SEGS];
	struct graph_seg remote;		/* at the peer's member: the bytes that are written (by a SEND, too),
						 * read, or changed */
	struct calc_form form;
	struct graph_atomic *atomic;
	uint32_t cq, target;			/* WAIT: 2 * queue, + 1: of that queue's receives; ENABLE: queue */
	uint64_t index;				/* absolute count of completions (WAIT) or requests (ENABLE) */
	int32_t count;				/* the count in the work request, which may be relative */
	uint32_t list;
};
struct graph_recv {
	struct graph_seg into;
	uint32_t list;
};
/* The last ENABLE of a queue's requests: the queue in which the ENABLE stands, and the number of that queue's requests up to the
 * ENABLE. */
struct graph_enabler {
	uint32_t queue, requests;
};
struct graph_queue {
	uint32_t member, peer;			/* peer: index of a queue */
	bool managed_send, managed_recv;
	struct graph_req req[GRAPH_OPS];
	uint32_t n;
	struct graph_recv recv[GRAPH_OPS];
	uint32_t nrecv;				/* receives that messages take; more may be posted */
	uint32_t posted_recv;
	uint32_t signals, enabled, recv_enabled;
	struct graph_enabler send_enabler, recv_enabler;
	uint16_t clock[GRAPH_QUEUES];
	uint16_t (*ended)[GRAPH_QUEUES];	/* by request: the clock at the end of the request, the request included */
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
	bool stamps;				/* an increment of a counter follows each request that changes memory */
	bool wide;				/* atomics of more than 8 bytes */
	struct graph_queue q[GRAPH_QUEUES];
	struct graph_step *order;
	uint32_t steps;
	struct graph_image image;		/* the memory that must result */
	struct graph_maker *maker;
};

/* Returns the same graph for the same arguments, in every process. Ownership: the caller's, until graph_free. */
struct graph *graph_make(uint64_t seed, uint32_t members, bool stamps);
void graph_free(struct graph *g);
/* graph_begin: the memory before the first request. graph_apply: executes a request in the image. */
void graph_begin(const struct graph *g, struct graph_image *image);
void graph_apply(const struct graph *g, struct graph_image *image, uint32_t queue, uint32_t req);

/* Executes the graph in an image, in an order that depends on the seed; fails if the result is not graph.image. */
void graph_check(const struct graph *g, uint64_t seed);

/* ---- on the device ------------------------------------------------------------------------------------------------ */

/* Addresses, keys and queue numbers that the members exchange; among processes, in shared memory. */
struct graph_board {
	struct {
		uint64_t addr[2];		/* of the member's memory: in the arena, private */
		uint32_t rkey[2];
		uint64_t stamps;		/* address of the counters in this member's address space */
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
	char *memory[2];			/* in the arena, private */
	void *arena, *own;			/* the allocations of `memory`, with guard bytes around */
	_Atomic uint64_t *stamps;
	struct ibv_mr *mr[2], *stamp_mr;
	struct ibv_cq *cq[2 * GRAPH_QUEUES];
	struct ibv_qp *qp[GRAPH_QUEUES];
};

/* Must: called in this order, each by all members before the next one: make, connect, post, unmake. Member 0 makes first. */
void graph_member_make(struct graph_member *m);
/* false: a peer has died. */
bool graph_member_connect(struct graph_member *m);
void graph_member_post(struct graph_member *m, uint32_t list);
void graph_member_unmake(struct graph_member *m);
/* Returns this member's memory at an offset. */
char *graph_memory(const struct graph_member *m, uint32_t off);
void graph_poll(const struct graph_member *m);
/* Waits until all requests of this member have run; fails after `seconds`. */
void graph_await_all(const struct graph_member *m, double seconds);
/* Fails if this member's memory is not the image's. */
void graph_compare(const struct graph_member *m, const struct graph_image *image);
/* Prints the request that changed this byte last, in the order in which the graph was made, to look for a defect. */
void graph_blame(const struct graph_member *m, uint32_t off);

/* ---- a member dies: graph_death.c -------------------------------------------------------------------------------------- */

#define GRAPH_THREADS 4u	/* threads of a member that enter the engine */
/* A run of which a member dies, in shared memory: progress seen by a witness at failpoints, and the reports of the survivors. */
struct graph_death {
	uint32_t victim, slot;			/* slot: of the victim's process */
	/* by queue: requests that had ended with success, and requests that had begun, when an executor
	 * last passed a failpoint */
	_Atomic uint32_t ended[GRAPH_QUEUES], begun[GRAPH_QUEUES];
	uint32_t before[GRAPH_QUEUES];		/* by queue: requests that had ended just before the victim's death */
	/* by thread: index + 1 of the queue of which the thread executes a request; 0: none */
	_Atomic uint32_t runs[GRAPH_MEMBERS][GRAPH_THREADS];
	struct {
		uint32_t ok;			/* number of requests that have ended with success */
		int status;			/* of the next request, which failed; IBV_WC_SUCCESS: the next request did not
						 * run */
		uint32_t received;		/* number of messages */
	} queue[GRAPH_QUEUES];			/* of the survivors' queues */
};
struct graph_tally {
	uint64_t ok, independent;			/* requests of survivors */
	/* queues of survivors: with a failed request; of these with IBV_WC_FATAL_ERR, since the dead member was executing the
	 * request; waiting */
	uint64_t failed, fatal, waiting;
	uint64_t bytes, unknown;			/* bytes of survivors' memory with a known value; unknown */
	/* interrupted requests with an effect on memory that is whole, absent, partial */
	uint64_t done, undone, partly;
};
/* Called at each failpoint that an executor of member `id` passes. */
void graph_death_witness(struct graph_death *d, const struct graph *g, const struct graph_board *board, uint32_t id,
			 const char *name, const struct shca_qp *qp);
/* Called before the victim is killed. */
void graph_death_before(struct graph_death *d);
/* Called by each survivor when all survivors have posted. Returns when no request can go on and the victim is reaped; the state
 * of this member's queues is in `queue` then. quiet: waits without calls of the library. Fails after `seconds`. */
void graph_death_settle(const struct graph_member *m, struct graph_death *d, bool quiet, double seconds);
/* Called by each survivor behind graph_death_settle: checks the states of the queues and this member's memory. */
void graph_death_check(const struct graph_member *m, const struct graph_death *d, struct graph_tally *t);

#endif
