/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The kernel finds the memory of another process by a pid, and pids are reused: B dies and is waited for, and a process C outside
 * of the fabric gets B's pid and maps memory at the address of B's memory. No data that A sends to B may reach C, and A's
 * reliable requests must fail.
 *
 * In each case A has made all checks and is about to copy when B dies, or posts after C has B's pid. The pids are those of a PID
 * namespace of the test, where the next pid can be chosen.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rig.h"

#define SKIPPED 77
#define PLACE ((char *)0x510000000000)
#define BYTES (2u << 20)
#define LONG_ONE (1u << 20)		/* a copy that is divided */
#define RECEIVES 4u
#define ROOM (BYTES / RECEIVES)

static struct stage {
	struct rig_meeting ab;
	uint32_t ud;			/* B's datagrams */
	uint32_t rkey;
	bool hold;			/* at the point: else B is dead before A posts */
	const char *point;
	_Atomic uint32_t ready, post, held, replaced, posted;
} *st;
static bool is_a;

static const struct request {
	const char *name, *point;
	enum ibv_wr_opcode op;
	uint32_t len;
	bool datagram;
} requests[] = {
	{"WRITE", "final", IBV_WR_RDMA_WRITE, 200, false},
	{"WRITE, divided", "final", IBV_WR_RDMA_WRITE, LONG_ONE, false},
	{"WRITE_WITH_IMM", "final", IBV_WR_RDMA_WRITE_WITH_IMM, 200, false},
	{"SEND", "data", IBV_WR_SEND, 200, false},
	{"SEND, large", "data", IBV_WR_SEND, ROOM, false},
	{"FAA", "atomic", IBV_WR_ATOMIC_FETCH_AND_ADD, 8, false},
	{"FAA, locked", "atomic-locked", IBV_WR_ATOMIC_FETCH_AND_ADD, 8, false},
	{"READ", "data", IBV_WR_RDMA_READ, 200, false},
	{"datagram", "data", IBV_WR_SEND, 200, true},
};

void shca_failpoint(struct shca_thread *thr, const char *name, const struct shca_qp *qp, int op)
{
	(void)thr;
	(void)qp;
	(void)op;
	if (!is_a || !st->hold || strcmp(name, st->point) || !atomic_load(&st->post) || atomic_exchange(&st->held, 1))
		return;
	rig_await(&st->replaced, 1);
}

/* ---- A and B ------------------------------------------------------------------------------------------------------------ */

static struct ibv_qp *datagrams(struct rig *r, struct ibv_cq *cq)
{
	struct rig_qp_attr a = {.type = IBV_QPT_UD, .scq = cq, .rcq = cq, .send_wr = 4, .recv_wr = RECEIVES, .sge = 1};
	struct ibv_qp *qp = rig_qp(r, &a);
	struct rig_path p = {0};

	rig_init(qp);
	rig_rtr(qp, &p);
	rig_rts(qp, &p);
	return qp;
}

static void role_a(const struct request *q)
{
	struct rig r;
	struct ibv_wc wc;
	struct ibv_ah_attr attr = {.dlid = SHCA_LID, .port_num = 1};

	rig_join(&r, getenv("SHCA_FABRIC"));
	struct ibv_cq *cq = rig_cq(&r, 16, NULL);
	struct ibv_qp *qp = rig_meet(&r, cq, &st->ab, 0, 2), *ud = datagrams(&r, cq);
	struct ibv_ah *ah = shca_create_ah(r.pd, &attr);
	char *buf = aligned_alloc(4096, LONG_ONE);
	CHECK(ah && buf);
	memset(buf, 'A', LONG_ONE);
	struct ibv_mr *mr = shca_reg_mr(r.pd, buf, LONG_ONE, (uintptr_t)buf, IBV_ACCESS_LOCAL_WRITE);
	CHECK(mr);
	struct ibv_sge sge = {(uintptr_t)buf, q->len, mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = q->op, .send_flags = IBV_SEND_SIGNALED}, *bad;
	atomic_fetch_add(&st->ready, 1);
	rig_await(&st->ready, 2);
	if (q->datagram) {
		wr.wr.ud.ah = ah;
		wr.wr.ud.remote_qpn = st->ud;
		wr.wr.ud.remote_qkey = RIG_QKEY;
	} else if (q->op == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = (uintptr_t)PLACE;
		wr.wr.atomic.rkey = st->rkey;
		wr.wr.atomic.compare_add = 1;
	} else {
		wr.wr.rdma.remote_addr = (uintptr_t)PLACE;
		wr.wr.rdma.rkey = st->rkey;
	}
	rig_await(&st->post, 1);
	CHECK(!shca_post_send(q->datagram ? ud : qp, &wr, &bad));
	for (int i = 0; shca_poll_cq(cq, 1, &wc) != 1; i++, rig_nap())
		if (i > 40000)
			FAIL("the request never ends");
	if (st->hold && !atomic_load(&st->held))
		FAIL("the point \"%s\" was not reached", st->point);
	/* a datagram need not arrive */
	if (!q->datagram && wc.status == IBV_WC_SUCCESS)
		FAIL("a request to a process that is dead ended with success");
	if (q->op == IBV_WR_RDMA_READ && buf[0] != 'A')
		FAIL("memory of a stranger was read");
	atomic_store(&st->posted, 1);
	CHECK(!shca_destroy_qp(qp) && !shca_destroy_qp(ud) && !shca_destroy_ah(ah) && !shca_destroy_cq(cq) && !shca_dereg_mr(mr));
	rig_leave(&r);
}

static void role_b(void)
{
	struct rig r;
	struct ibv_recv_wr *bad;

	rig_join(&r, getenv("SHCA_FABRIC"));
	char *p = mmap(PLACE, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	CHECK(p == PLACE);
	struct ibv_mr *mr = shca_reg_mr(r.pd, p, BYTES, (uintptr_t)p, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
					IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC);
	CHECK(mr);
	st->rkey = mr->rkey;
	struct ibv_cq *cq = rig_cq(&r, 16, NULL);
	struct ibv_qp *ud = datagrams(&r, cq), *qp = rig_meet(&r, cq, &st->ab, 1, 2);
	st->ud = ud->qp_num;
	for (uint32_t i = 0; i < RECEIVES; i++) {
		struct ibv_sge sge = {(uintptr_t)p + (uint64_t)i * ROOM, ROOM, mr->lkey};
		struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1};
		CHECK(!shca_post_recv(qp, &wr, &bad) && !shca_post_recv(ud, &wr, &bad));
	}
	atomic_fetch_add(&st->ready, 1);
	for (;;)
		pause();
}

/* Process C: the memory at that address must stay unchanged. */
static void role_c(void)
{
	char *p = mmap(PLACE, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

	CHECK(p == PLACE);
	memset(p, 'C', BYTES);
	atomic_store(&st->replaced, 1);
	rig_await(&st->posted, 1);
	for (uint32_t i = 0; i < BYTES; i++)
		if (p[i] != 'C')
			FAIL("byte %u of a stranger's memory was overwritten", i);
}

/* ---- the first process of the namespace ---------------------------------------------------------------------------------- */

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

static const struct request *now;
static void a_now(void)
{
	is_a = true;
	role_a(now);
}

/* A process of this pid. */
static pid_t start_as(pid_t pid, void (*role)(void))
{
	char text[16];

	for (int i = 0; i < 1000; i++) {
		int fd = open("/proc/sys/kernel/ns_last_pid", O_WRONLY | O_CLOEXEC),
		    n = snprintf(text, sizeof(text), "%d", pid - 1);
		CHECK(fd >= 0 && write(fd, text, (size_t)n) == n && !close(fd));
		pid_t got = start(role);
		if (got == pid)
			return got;
		kill(got, SIGKILL);
		waitpid(got, NULL, 0);
	}
	FAIL("process %d cannot be made", (int)pid);
}

static bool ends_well(pid_t pid, const char *who)
{
	int status;

	CHECK(waitpid(pid, &status, 0) == pid);
	if (status)
		fprintf(stderr, "    %s: status %#x\n", who, (unsigned)status);
	return !status;
}

static bool play(const struct request *q, bool hold)
{
	memset(st, 0, sizeof(*st));
	st->hold = hold;
	st->point = q->point;
	now = q;
	pid_t b = start(role_b), a = start(a_now);
	rig_await(&st->ready, 2);
	if (hold) {
		atomic_store(&st->post, 1);
		rig_await(&st->held, 1);
	}
	kill(b, SIGKILL);
	CHECK(waitpid(b, NULL, 0) == b);
	pid_t c = start_as(b, role_c);
	rig_await(&st->replaced, 1);
	atomic_store(&st->post, 1);
	bool good = ends_well(a, "A");
	atomic_store(&st->posted, 1);
	return ends_well(c, "the stranger") && good;
}

static int first(void)
{
	int failed = 0;

	/* /proc must show the pids of this namespace */
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) || mount("proc", "/proc", "proc", 0, NULL)) {
		printf("SKIP: cannot mount /proc for a PID namespace: %s\n", strerror(errno));
		return SKIPPED;
	}
	if (access("/proc/sys/kernel/ns_last_pid", W_OK)) {
		printf("SKIP: cannot choose the next pid (/proc/sys/kernel/ns_last_pid: %s)\n", strerror(errno));
		return SKIPPED;
	}
	for (size_t i = 0; i < 2 * sizeof(requests) / sizeof(*requests); i++) {
		const struct request *q = &requests[i / 2];
		if (play(q, i % 2))
			continue;
		fprintf(stderr, "FAIL: %s, %s\n", q->name, i % 2 ? "begun before the death" : "posted after it");
		failed = 1;
	}
	return failed;
}

static void put(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd >= 0 && write(fd, text, strlen(text)) < 0)
		perror(path);
	if (fd >= 0)
		close(fd);
}

int main(void)
{
	char name[64], map[64];
	unsigned uid = geteuid(), gid = getegid();
	int status;

	unsetenv("SHCA_FABRIC_FD");
	snprintf(name, sizeof(name), "pid-reuse-%d", (int)getpid());
	setenv("SHCA_FABRIC", name, 1);
	setenv("SHCA_DEATH_MS", "20", 0);
	st = mmap(NULL, sizeof(*st), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(st != MAP_FAILED);
	if (unshare(CLONE_NEWPID | CLONE_NEWNS)) {
		if (unshare(CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS)) {
			printf("SKIP: no PID namespace can be made here: %s\n", strerror(errno));
			return SKIPPED;
		}
		put("/proc/self/setgroups", "deny");
		snprintf(map, sizeof(map), "%u %u 1", uid, uid);
		put("/proc/self/uid_map", map);
		snprintf(map, sizeof(map), "%u %u 1", gid, gid);
		put("/proc/self/gid_map", map);
	}
	pid_t pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		exit(first());
	}
	CHECK(waitpid(pid, &status, 0) == pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
