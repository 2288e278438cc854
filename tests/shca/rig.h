/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Base of the engine's tests: members of a fabric, virtual (several in one address space) or real, and queues made by the
 * device's own functions, without the interposer. Everything here ends the program on failure.
 */
#ifndef TESTS_SHCA_RIG_H
#define TESTS_SHCA_RIG_H

#include <infiniband/verbs_exp.h>
#include <sys/types.h>

#include "shca/verbs/control.h"
#include "verbs_exp/provider.h"
#include "shca/verbs/submit/post.h"

extern const struct ibv_exp_provider shca_own_exp_provider;

void rig_fail(const char *file, int line, const char *fmt, ...) __attribute__((format(printf, 3, 4), noreturn));
#define FAIL(...) rig_fail(__FILE__, __LINE__, __VA_ARGS__)
#define CHECK(cond)                                            \
	do {                                                   \
		if (!(cond))                                   \
			FAIL("%s: %s", #cond, strerror(errno)); \
	} while (0)

struct rig {
	struct shca_node *node;
	struct shca_member *m;
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	bool is_virtual;
};
/* first NULL: makes the fabric. */
void rig_virtual(struct rig *r, struct rig *first);
void rig_virtual_leave(struct rig *r);
/* This process joins the fabric of this name. */
void rig_join(struct rig *r, const char *name);
void rig_leave(struct rig *r);

struct ibv_cq *rig_cq(struct rig *r, int entries, struct ibv_comp_channel *channel);
struct rig_qp_attr {
	enum ibv_qp_type type;
	uint32_t exp_flags;		/* IBV_EXP_QP_CREATE_* */
	uint32_t max_atomic;		/* bytes; 0: as usual */
	struct ibv_cq *scq, *rcq;
	struct ibv_srq *srq;
	uint32_t send_wr, recv_wr, sge, inl;
	int sig_all;
};
struct ibv_qp *rig_qp(struct rig *r, const struct rig_qp_attr *a);
struct rig_path {
	uint32_t dest_qpn;
	uint8_t timeout, retry_cnt, rnr_retry, min_rnr_timer;
};
void rig_init(struct ibv_qp *qp);
void rig_rtr(struct ibv_qp *qp, const struct rig_path *path);
void rig_rts(struct ibv_qp *qp, const struct rig_path *path);
/* RTR, then RTS; an errno value where that fails: the peer may have died just now. */
int rig_try_connect(struct ibv_qp *qp, const struct rig_path *path);
/* Takes both from RESET to RTS, connected to each other; of the path all but dest_qpn is used, for both. */
void rig_connect(struct ibv_qp *p, struct ibv_qp *q, const struct rig_path *path);
/* A queue pair of the sizes that tests of scribbled objects have: 8 sends, 8 receives (none with an SRQ), 2
 * segments, 64 bytes inline. */
struct ibv_qp *rig_small_qp(struct rig *r, enum ibv_qp_type type, struct ibv_cq *scq, struct ibv_cq *rcq, struct ibv_srq *srq,
			    uint32_t exp_flags);
/* A raw packet queue pair, of one segment a request, in RESET. `a`: scq, rcq, srq, send_wr, recv_wr. */
struct ibv_qp *rig_raw_qp(struct rig *r, const struct rig_qp_attr *a);
/* Takes it from RESET to RTS, on a port. */
void rig_raw_ready(struct ibv_qp *qp, uint8_t port);
#define RIG_QKEY 0x11223344u
/* A DC target of the SRQ, or (srq is NULL) a DC initiator with 16 sends, 16 bytes inline and these operations, IBV_QP_EX_WITH_*.
 * The queue pair is in INIT; peers may write, read and update memory at a target. */
struct ibv_qp *rig_dc_qp(struct rig *r, struct ibv_cq *cq, struct ibv_srq *srq, uint64_t send_ops);
/* Takes it from INIT to RTR (a target) or RTS (an initiator). */
void rig_dc_ready(struct ibv_qp *qp, bool target);
#define RIG_DC_KEY 77u

static inline struct shca_qp *rig_sh(struct ibv_qp *qp)
{
	return shca_user_qp_of(qp)->sh;
}

/* The cases of a test, each in a process of its own, which gets 60 s: all of them, or the one that is the test's argument.
 * `before`, unless NULL, is called for each before it begins. Returns the test's exit status. */
struct rig_case {
	const char *name;
	void (*play)(void);
};
int rig_cases(int argc, char **argv, const struct rig_case *cases, size_t n, void (*before)(const struct rig_case *c));

/* Forks a process that plays a role and ends with status 0, within 60 s. */
pid_t rig_child(void (*role)(void));

/* Half a millisecond. */
void rig_nap(void);
/* Waits until another process of the test has raised *what to value; fails after some 20 s. */
void rig_await(_Atomic uint32_t *what, uint32_t value);
/* Returns true if a thread of the process in `slot` is inside the engine. */
bool rig_is_inside(const struct shca_member *m, uint32_t slot);
/* Stops of processes while no thread of theirs is inside the engine, in memory that all processes of a test share. A helper
 * thread may be inside when SIGSTOP comes: then a reaper would wait until the process is continued. So a member looks at the
 * threads of the stopped processes, and the runner repeats the stop. Begins as zeros. */
struct rig_stops {
	_Atomic uint32_t stopped;	/* by the runner: how often it has stopped the processes */
	_Atomic uint32_t inside;	/* by the member: the stop that found a thread inside; RIG_OUTSIDE: none is */
};
#define RIG_OUTSIDE UINT32_MAX
/* For the runner: stops its children. Returns when rig_await_outside has found all of their threads outside; without an answer,
 * or after many stops, without that. */
void rig_stop_outside(struct rig_stops *s, const pid_t *pid, int n);
/* For the member: waits until the processes in these slots are stopped outside of the engine. */
void rig_await_outside(const struct rig *r, struct rig_stops *s, const uint32_t *slot, int n);
/* Where two ends of a connection find each other, in memory that all processes of a test share. */
struct rig_meeting {
	uint32_t qpn[2];
	_Atomic uint32_t joined, ready;
};
/* End `me` (0 or 1) of an RC connection, connected when this returns; `all` processes count themselves in joined. */
struct ibv_qp *rig_meet(struct rig *r, struct ibv_cq *cq, struct rig_meeting *m, int me, uint32_t all);

/* xorshift64* */
static inline uint64_t rig_rand(uint64_t *s)
{
	*s ^= *s >> 12;
	*s ^= *s << 25;
	*s ^= *s >> 27;
	return *s * 0x2545f4914f6cdd1dull;
}
/* [0, n) */
static inline uint32_t rig_below(uint64_t *s, uint32_t n)
{
	return (uint32_t)((rig_rand(s) >> 33) % n);
}
/* Bytes that depend on a seed and their place; rig_check gives the first wrong place, or -1. */
void rig_fill(void *p, size_t n, uint64_t seed);
long rig_check(const void *p, size_t n, uint64_t seed);
/* Chunks of the fabric that a process slot owns. */
uint32_t rig_chunks(const struct shca_member *m, uint32_t slot);

#endif
