/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A third party dies at a point of a request while executing that request for another process. For tests of one source file:
 *
 *     A    role_a, defined by the test: joins st->fabric, meets X by st->xa, posts requests that wait for X's message, and sets
 *          st->posted
 *     X    sends that message, so that X executes those requests, and dies there
 *
 * A checks the state that X has left when st->dead is 1.
 */
#ifndef TESTS_SHCA_THIRD_DEATH_H
#define TESTS_SHCA_THIRD_DEATH_H

#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "failpoint.h"
#include "rig.h"

static struct stage {
	char fabric[64];
	unsigned kind;			/* of the request: the test's enum kind */
	struct rig_meeting xa;
	struct failpoint_arm arm[FAILPOINT_ARMS];
	_Atomic uint32_t posted, dead;
} *st;					/* shared by the processes */

static struct rig r;			/* of this process */
static struct ibv_cq *cq;

static inline void third_setup(void)
{
	unsetenv("SHCA_FABRIC_FD");
	setenv("SHCA_DEATH_MS", "20", 0);
	st = mmap(NULL, sizeof(*st), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(st != MAP_FAILED);
}

static inline void role_x(void)
{
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND}, *bad;

	rig_join(&r, st->fabric);
	cq = rig_cq(&r, 4, NULL);
	struct ibv_qp *qp = rig_meet(&r, cq, &st->xa, 1, 2);
	rig_await(&st->posted, 1);
	atomic_store(&st->arm[0].pid, (int32_t)getpid());
	shca_post_send(qp, &wr, &bad);
	FAIL("alive after point %s", st->arm[0].name);
}

static inline pid_t third_start(void (*role)(void))
{
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (!pid) {
		alarm(60);
		failpoint_arms = st->arm;
		role();
		_exit(0);
	}
	return pid;
}

/* X dies at this point of an operation `op` (-1: any), after `skip` passes. Returns whether X has died there and A has ended
 * well. test: for the fabric's name. */
static inline bool third_dies(const char *test, void (*role_a)(void), unsigned kind, const char *point, int op, unsigned skip)
{
	static unsigned number;
	int status;

	memset(st, 0, sizeof(*st));
	snprintf(st->fabric, sizeof(st->fabric), "%s-%d-%u", test, (int)getpid(), number++);
	st->kind = kind;
	snprintf(st->arm[0].name, sizeof(st->arm[0].name), "%s", point);
	st->arm[0].op = op;
	st->arm[0].who = FP_THIRD;
	st->arm[0].skip = skip;
	pid_t a = third_start(role_a), x = third_start(role_x);
	waitpid(x, &status, 0);
	bool died = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL && atomic_load(&st->arm[0].hit);
	if (!died)
		kill(a, SIGKILL);
	atomic_store(&st->dead, 1);
	waitpid(a, &status, 0);
	return died && !status;
}

#endif
