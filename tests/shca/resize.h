/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The frame of srq_resize.c and cq_resize.c. Held: the owner of a ring is stopped at each failpoint of a resize, in a virtual
 * process, while b goes on. Processes: PEERS processes with a queue pair each, connected to the ends of an owner that resizes.
 */
#ifndef TESTS_SHCA_RESIZE_H
#define TESTS_SHCA_RESIZE_H

#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hold.h"

/* A failpoint of a resize, and whether the resizer has the lock of the ring's owner there. */
struct resize_point {
	const char *at;
	bool locked;
};

/* Runs f in a process of its own. */
static inline void apart(void (*f)(void))
{
	int status;
	pid_t pid = rig_child(f);

	CHECK(waitpid(pid, &status, 0) == pid);
	if (status)
		FAIL("status %#x", status);
}

/* Starts `resizes` in a thread and returns when `hold` stops the thread at the point, which is passed `after` times before. */
static inline pthread_t begin_held(void *(*resizes)(void *), const struct rig *r, const char *at, int after)
{
	hold_at(r, at);
	hold.after = after;
	pthread_t t = begin(resizes, NULL);
	for (int i = 0; !atomic_load(&hold.held); i++, rig_nap())
		if (i > 20000)
			FAIL("nobody comes to %s", at);
	return t;
}

/* ---- processes --------------------------------------------------------------------------------------------------------- */

#define PEERS 3
static struct peers {
	char fabric[64];
	uint32_t qpn[PEERS][2];			/* of the owner's end, of the peer's queue pair */
	_Atomic uint32_t owner_made, peers_made, connected;
	_Atomic uint32_t resized;		/* by the owner */
	_Atomic uint32_t failed;		/* peers that have seen the owner's death */
	_Atomic uint32_t received;		/* srq_resize: messages that the owner has polled */
	_Atomic uint32_t allowed[PEERS];	/* cq_resize: messages that the peer may send */
} *sh;
static int me;					/* a peer's number */
static pid_t pids[PEERS];
static struct ibv_qp *ends[PEERS];		/* the owner's */

static inline void start_peers(const char *test, void (*peer)(void))
{
	sh = mmap(NULL, sizeof(*sh), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(sh != MAP_FAILED);
	snprintf(sh->fabric, sizeof(sh->fabric), "%s.%d", test, (int)getpid());
	for (me = 0; me < PEERS; me++)
		pids[me] = rig_child(peer);
}

static inline void connect_to(struct ibv_qp *qp, uint32_t qpn)
{
	struct rig_path p = {.dest_qpn = qpn, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .min_rnr_timer = 1};

	rig_rtr(qp, &p);
	rig_rts(qp, &p);
}

static inline void peer_connects(struct ibv_qp *qp)
{
	sh->qpn[me][1] = qp->qp_num;
	atomic_fetch_add(&sh->peers_made, 1);
	rig_await(&sh->owner_made, 1);
	connect_to(qp, sh->qpn[me][0]);
	atomic_fetch_add(&sh->connected, 1);
}

/* Connects all of `ends`; returns when all peers are connected. */
static inline void connect_ends(void)
{
	for (int i = 0; i < PEERS; i++)
		sh->qpn[i][0] = ends[i]->qp_num;
	rig_await(&sh->peers_made, PEERS);
	for (int i = 0; i < PEERS; i++)
		connect_to(ends[i], sh->qpn[i][1]);
	atomic_store(&sh->owner_made, 1);
	rig_await(&sh->connected, PEERS);
}

/* Returns the number of the peer whose end of the owner has this queue pair number, PEERS: none. */
static inline int peer_of(uint32_t qp_num)
{
	int k = 0;

	while (k < PEERS && qp_num != ends[k]->qp_num)
		k++;
	return k;
}

/* Kills an owner, which runs in a process of its own, when it has resized so many times, and so many yields later. */
static inline void kill_owner(void (*owner)(void), uint32_t resized, uint32_t yields)
{
	int status;
	pid_t pid = rig_child(owner);

	rig_await(&sh->resized, resized);
	while (yields--)
		sched_yield();
	CHECK(!kill(pid, SIGKILL) && waitpid(pid, &status, 0) == pid);
}

static inline void peers_have_failed(void)
{
	int status;

	for (int i = 0; i < PEERS; i++)
		CHECK(waitpid(pids[i], &status, 0) == pids[i] && !status);
	CHECK(atomic_load(&sh->failed) == PEERS);
}

#endif
