/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared by the files of mixed. Each file calls those below only.
 *
 *     mixed.c             main and the threads
 *     mixed_disturb.c     the thread that disturbs: ports, migration, asynchronous events, and the order of disturbances
 *     mixed_cm.c          processes that are stopped in rdma_connect, or as listeners
 *     mixed_victim.c      the process that is stopped and killed, and the threads' way to it
 *     mixed_groups.c      datagrams to multicast groups
 *     mixed_keys.c        indirect memory keys
 *     mixed_xrc.c         an XRC domain with SRQs that have a limit
 *     mixed_requests.c    connections with an alternate path; memory windows
 *     mixed_objects.c     queue pairs, memory and completions of a thread
 *     mixed_processes.c   makes processes, and waits until one is stopped
 */
#ifndef TESTS_VERBS_MIXED_H
#define TESTS_VERBS_MIXED_H

#include <infiniband/mlx5dv.h>

#include "cm.h"

enum { THREADS = 3, GROUPS = 2, HALF = 8192, LEN = 2 * HALF, MSG = 2048 };
#define SIGNALED IBV_SEND_SIGNALED

extern struct vt device; /* of this process */
extern uint64_t seed;

/* Events of the whole run, for the last line of output. */
extern struct counts {
	_Atomic uint64_t operations;
	_Atomic unsigned limits_armed, limits_seen; /* of SRQs */
	_Atomic unsigned migrated; /* IBV_EVENT_PATH_MIG */
	_Atomic unsigned refusals; /* requests by a key that was invalidated */
	_Atomic unsigned lost; /* queue pairs whose victim was killed */
} counts;

/* ---- random bytes ----------------------------------------------------------------------------------------------------- */

struct random {
	uint64_t state;
};
static inline uint32_t rnd(struct random *r, uint32_t n)
{
	r->state = r->state * 6364136223846793005ull + 1442695040888963407ull;
	return (uint32_t)(r->state >> 33) % n;
}
static inline void fill(struct random *r, char *p, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		p[i] = (char)rnd(r, 256);
}

/* A message that its receiver can check: n bytes that follow from a seed. */
struct gram {
	uint32_t seed, n;
	char data[];
};
enum { GRH = 40, GRAM = GRH + 256 }; /* bytes of a receive for a datagram with such a message */
static inline void gram_fill(const struct gram *g, char *data)
{
	struct random r = {g->seed};

	fill(&r, data, g->n);
}

/* ---- a thread --------------------------------------------------------------------------------------------------------- */

struct worker {
	unsigned n;
	struct random r;
	pthread_t thread;
	char *m[2]; /* in the arena; private. First half: pieces of keys; second half: flat */
	struct ibv_mr *mr[2];
	struct ibv_cq *cq; /* of a, b, owner and peer */
	struct ibv_qp *a, *b; /* connected with each other, port 1, with an alternate path by port 2 */
	struct ibv_qp *owner, *peer; /* the same by port 2; windows and keys are owner's */
	struct ibv_mw *mw1, *mw2; /* of types 1 and 2 */
	struct mlx5dv_mkey *key[2];
	struct ibv_cq *xcq;
	struct ibv_qp *xsend, *xrecv;
	struct ibv_cq *gcq;
	struct ibv_qp *gram[2];
	char *grams; /* receives of both, and one message to send */
	struct ibv_mr *gmr;
	struct ibv_ah *group[GROUPS];
	struct ibv_cq *vcq;
	struct ibv_qp *victim; /* NULL: none since the last victim was killed */
	bool victim_connected;
	char *landing; /* MSG bytes that the victim writes; receives for the victim's messages */
	struct ibv_mr *lmr;
};

/* A kind of operations. act: one random operation, complete and checked when act returns. */
struct kind {
	void (*make)(struct worker *w), (*act)(struct worker *w), (*end)(struct worker *w);
};
extern const struct kind mixed_armed, mixed_xrc, mixed_windows, mixed_keys, mixed_groups, mixed_victim;

/* mixed_objects.c */
void mixed_worker_make(struct worker *w);
void mixed_worker_end(struct worker *w);
struct ibv_qp *mixed_queue(struct ibv_cq *cq);
void mixed_connect(struct ibv_qp *qp, uint32_t dest, uint8_t port);
/* Arms an alternate path from port `from` to port `to` of the same device. */
void mixed_arm(struct ibv_qp *qp, uint8_t from, uint8_t to);
void mixed_own_pair(struct worker *w);
void mixed_own_pair_end(struct worker *w);
/* Waits for the next completion, which must be the successful one of request `id`. */
void mixed_done(struct worker *w, struct ibv_cq *cq, uint64_t id);
/* Posts a request by a key or window that was invalidated, and makes the pair owner, peer anew, since it is in ERR then. */
void mixed_refused(struct worker *w, uint64_t addr, uint32_t rkey);
void mixed_equal(const struct worker *w, const char *a, const char *b, uint32_t n, const char *what);
/* A piece of the flat half of m[i]. */
static inline struct ibv_sge mixed_flat(const struct worker *w, int i, uint32_t at, uint32_t n)
{
	return vt_sge(w->mr[i], HALF + at, n);
}

/* mixed_xrc.c: the domain and the SRQs, which belong to all threads. */
void mixed_xrc_open(void);
void mixed_xrc_close(void);

/* mixed_groups.c: checks the datagrams that have arrived, and posts their receives again. */
void mixed_groups_take(struct worker *w);

/* ---- other processes -------------------------------------------------------------------------------------------------- */

/* mixed_processes.c. Must: _start before this process opens a device. */
void mixed_processes_start(void);
void mixed_processes_end(void);
/* Zeroed memory of all processes of the test. Must: before mixed_processes_start. */
void *mixed_processes_memory(size_t n);
/* Returns the pid of a new process that calls run, and ends with status 1 if run returns. */
pid_t mixed_process(void (*run)(void));
/* Waits until the process is stopped. */
void mixed_process_stopped(pid_t pid);

/* mixed_victim.c: one victim lives at a time, from _start to the end of the test. */
void mixed_victim_memory(void);
void mixed_victim_start(void);
void mixed_victim_kill(void); /* and starts the next one */
void mixed_victim_stop(struct random *r); /* then lets it go on, or kills it */
void mixed_victim_go_on(void);
/* Returns how many requests of victims were right; fails if a victim has read other bytes than it has written. */
uint32_t mixed_victim_messages(void);

/* mixed_cm.c */
void mixed_cm_memory(void);
void mixed_cm_open(void);
void mixed_cm_close(void);
void mixed_cm_connector(struct random *r);
void mixed_cm_listener(struct random *r);

/* mixed_disturb.c: disturbs until end_ms, and five times at least. */
void mixed_disturb(struct random *r, const struct worker *workers, uint64_t end_ms);
void mixed_events_take(void);

#endif
