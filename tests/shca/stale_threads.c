/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Dangerous remains of a member or of a member's threads: the mailbox of a dead process's proxy thread, a second helper thread
 * made while the first one is being stopped, and a descriptor number used by a proxy thread without a separate descriptor table.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rig.h"

#define LEN 4096u

static struct stage {
	struct rig_meeting ab;
	uint32_t slot, rkey;
	uint64_t addr;
	_Atomic uint32_t ready, done;
} *st;

/* The member with a helper thread that is asked to look for deaths just while being stopped. */
static struct shca_member *leaving;
static _Atomic uint32_t asked;

void shca_failpoint(struct shca_thread *thr, const char *name, const struct shca_qp *qp, int op)
{
	(void)qp;
	(void)op;
	if (!leaving || !thr || !thr->helper || strcmp(name, "helper-tick") || atomic_exchange(&asked, 1))
		return;
	/* until the stopper has come as far as he comes without this thread */
	for (int i = 0; i < 200 && atomic_load(&leaving->helper); i++)
		rig_nap();
	shca_look(leaving);
}

static pid_t start(void (*role)(void))
{
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (pid)
		return pid;
	alarm(60);
	role();
	_exit(0);
}

static bool ended(pid_t pid)
{
	int status;

	CHECK(waitpid(pid, &status, 0) == pid);
	return !status;
}

static struct ibv_mr *private_memory(struct rig *r)
{
	char *p = aligned_alloc(4096, LEN);

	CHECK(p);
	memset(p, 'P', LEN);
	struct ibv_mr *mr = shca_reg_mr(r->pd, p, LEN, (uintptr_t)p, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
					IBV_ACCESS_REMOTE_READ);
	CHECK(mr);
	return mr;
}

/* ---- a mailbox goes with its owner: a later reaper would look for slots to free in memory of another owner -------------- */

static void has_mailbox(void)
{
	struct rig r;

	setenv("SHCA_CMA", "0", 1);
	rig_join(&r, getenv("SHCA_FABRIC"));
	CHECK(atomic_load(&r.m->proc->mailbox));
	st->slot = r.m->slot;
	atomic_store(&st->ready, 1);
	for (;;)
		pause();
}

static void mailbox(void)
{
	struct rig r;

	rig_join(&r, getenv("SHCA_FABRIC"));
	pid_t pid = start(has_mailbox);
	rig_await(&st->ready, 1);
	kill(pid, SIGKILL);
	ended(pid);
	shca_proc_sweep(shca_thread_get(r.m));
	for (int i = 0; (atomic_load(&r.m->procs[st->slot].state) & 255) != SHCA_PROC_FREE; i++, rig_nap())
		if (i > 40000)
			FAIL("the dead process is not cleared away");
	if (atomic_load(&r.m->procs[st->slot].mailbox))
		FAIL("the mailbox of a dead process is still pointed at");
	rig_leave(&r);
}

/* ---- one helper thread, also while that thread is being stopped --------------------------------------------------------- */

static unsigned threads(void)
{
	unsigned n = 0;
	DIR *d = opendir("/proc/self/task");

	CHECK(d);
	for (struct dirent *e; (e = readdir(d));)
		n += e->d_name[0] != '.';
	closedir(d);
	return n;
}

static void one_helper(void)
{
	struct rig r;

	setenv("SHCA_DEATH_MS", "10", 1);
	rig_join(&r, getenv("SHCA_FABRIC"));
	CHECK(!shca_helper_start(r.m));
	leaving = r.m;
	rig_await(&asked, 1);
	/* from here on the helper waits for the stopping thread */
	rig_leave(&r);
	leaving = NULL;
	unsigned n = threads();
	for (int i = 0; n != 1 && i < 200; i++, rig_nap())
		n = threads();
	if (n != 1)
		FAIL("%u threads are left when the helper has been stopped", n - 1);
}

/* ---- the proxy does not use a descriptor that the application has opened under the old number ------------------------ */

static void closes_all(void)
{
	struct rig r;
	struct stat s;
	int fd, tmp;

	/* as under valgrind, where threads cannot have descriptors of their own */
	setenv("LD_PRELOAD", "vgpreload", 1);
	setenv("SHCA_CMA", "0", 1);
	rig_join(&r, getenv("SHCA_FABRIC"));
	struct ibv_cq *cq = rig_cq(&r, 16, NULL);
	struct ibv_mr *mr = private_memory(&r);
	st->addr = (uintptr_t)mr->addr;
	st->rkey = mr->rkey;
	rig_meet(&r, cq, &st->ab, 1, 2);
	CHECK(!syscall(SYS_close_range, 3, ~0u, 0));
	tmp = memfd_create("mine", 0);
	do
		CHECK((fd = dup(tmp)) >= 0);
	while (fd < 40);
	atomic_store(&st->ready, 1);
	rig_await(&st->done, 1);
	CHECK(!fstat(tmp, &s));
	if (s.st_size)
		FAIL("the proxy thread wrote %ld bytes to a file of the application", (long)s.st_size);
	for (uint32_t i = 0; i < LEN; i++)
		if (((char *)mr->addr)[i] != 'P')
			FAIL("the proxy thread filled memory from a file of the application");
}

static void asks_the_proxy(void)
{
	struct rig r;
	struct ibv_wc wc;

	setenv("SHCA_CMA", "0", 1);
	rig_join(&r, getenv("SHCA_FABRIC"));
	struct ibv_cq *cq = rig_cq(&r, 16, NULL);
	struct ibv_mr *mr = private_memory(&r);
	struct ibv_qp *qp = rig_meet(&r, cq, &st->ab, 0, 2);
	rig_await(&st->ready, 1);
	struct ibv_sge sge = {(uintptr_t)mr->addr, LEN, mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_READ, .send_flags = IBV_SEND_SIGNALED},
			   *bad;
	wr.wr.rdma.remote_addr = st->addr;
	wr.wr.rdma.rkey = st->rkey;
	CHECK(!shca_post_send(qp, &wr, &bad));
	for (int i = 0; shca_poll_cq(cq, 1, &wc) != 1; i++, rig_nap())
		if (i > 40000)
			FAIL("the READ never ends");
	if (wc.status == IBV_WC_SUCCESS)
		FAIL("a READ through a descriptor that is not there ended with success");
	CHECK(!shca_destroy_qp(qp) && !shca_destroy_cq(cq) && !shca_dereg_mr(mr));
	rig_leave(&r);
}

static void proxy(void)
{
	pid_t b = start(closes_all), a = start(asks_the_proxy);
	bool good = ended(a);

	atomic_store(&st->done, 1);
	if (!ended(b) || !good)
		exit(1);
}

int main(void)
{
	static const struct {
		const char *name;
		void (*play)(void);
	} cases[] = {{"mailbox", mailbox}, {"one helper", one_helper}, {"proxy's descriptor", proxy}};
	int failed = 0;
	char name[64];

	unsetenv("SHCA_FABRIC_FD");
	st = mmap(NULL, sizeof(*st), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(st != MAP_FAILED);
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		memset(st, 0, sizeof(*st));
		snprintf(name, sizeof(name), "stale_threads-%d-%zu", (int)getpid(), i);
		setenv("SHCA_FABRIC", name, 1);
		if (ended(start(cases[i].play)))
			continue;
		fprintf(stderr, "FAIL: %s\n", cases[i].name);
		failed = 1;
	}
	return failed;
}
