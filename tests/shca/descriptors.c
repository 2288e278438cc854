/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The application may close any descriptor and use the number again. Here all descriptors are closed, every number gets a file of
 * the application (a memory file, an eventfd, an epoll descriptor, a socket: those of one kind may share an inode), and then all
 * objects are used and destroyed: nothing may be closed, read, written or changed that belongs to the application. Another
 * process of the fabric goes on meanwhile, is not taken for dead, and gets rings. A process that runs without descriptors 0 to 2
 * keeps them closed: output of that process must not go into the fabric's file.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rig.h"

#define NUMBERS 64

enum kind { FILES, EVENTS, EPOLLS, SOCKETS, KINDS };
static const char *const kind_name[] = {"memory files", "eventfds", "epoll descriptors", "sockets"};

static int a_file(enum kind kind)
{
	switch (kind) {
	case FILES: return memfd_create("mine", 0);
	case EVENTS: return eventfd(7, EFD_NONBLOCK);
	case EPOLLS: return epoll_create1(0);
	default: return socket(AF_UNIX, SOCK_DGRAM, 0);
	}
}

/* The visible state of a descriptor: identity, flags, contents. */
struct look {
	struct stat st;
	int flags, fdflags;
	char info[512];
};

static struct look look_at(int fd)
{
	struct look l;
	char path[40];

	memset(&l, 0, sizeof(l));
	CHECK(!fstat(fd, &l.st));
	memset(&l.st.st_atim, 0, sizeof(l.st.st_atim));
	l.flags = fcntl(fd, F_GETFL);
	l.fdflags = fcntl(fd, F_GETFD);
	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	FILE *f = fopen(path, "re");
	CHECK(f && fread(l.info, 1, sizeof(l.info) - 1, f) > 0);
	fclose(f);
	return l;
}

static void open_all(struct rig *r, struct ibv_context **second, struct ibv_comp_channel **ch, struct ibv_cq **cq,
		     const char *name)
{
	int n;

	rig_join(r, name);
	struct ibv_device **list = shca_own_device_list(&n);
	*second = shca_open_device(list[0]);
	free(list);
	*ch = shca_create_comp_channel(r->ctx);
	CHECK(*second && *ch);
	*cq = rig_cq(r, 16, *ch);
	CHECK(!shca_req_notify_cq(*cq, 0));
}

/* ---- the other process ------------------------------------------------------------------------------------------------- */

static struct shared {
	uint32_t slot, qpn;
	_Atomic uint32_t there, done;
} *st;

static struct ibv_qp *datagrams(struct rig *r, struct ibv_cq *scq, struct ibv_cq *rcq)
{
	struct rig_qp_attr a = {.type = IBV_QPT_UD, .scq = scq, .rcq = rcq, .send_wr = 4, .recv_wr = 4, .sge = 1, .inl = 64};
	struct ibv_qp *qp = rig_qp(r, &a);
	struct rig_path p = {0};

	rig_init(qp);
	rig_rtr(qp, &p);
	rig_rts(qp, &p);
	return qp;
}

static void is_rung(const char *name)
{
	struct rig r;

	rig_join(&r, name);
	struct ibv_comp_channel *ch = shca_create_comp_channel(r.ctx);
	CHECK(ch);
	struct ibv_cq *cq = rig_cq(&r, 16, ch);
	struct ibv_qp *qp = datagrams(&r, cq, cq);
	char *p = shca_buf_alloc(r.ctx, 4096);
	CHECK(p);
	struct ibv_mr *mr = shca_reg_mr(r.pd, p, 4096, (uintptr_t)p, IBV_ACCESS_LOCAL_WRITE);
	CHECK(mr);
	struct ibv_sge sge = {(uintptr_t)p, 256, mr->lkey};
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;
	CHECK(!shca_post_recv(qp, &wr, &bad) && !shca_req_notify_cq(cq, 0));
	st->slot = r.m->slot;
	st->qpn = qp->qp_num;
	atomic_store(&st->there, 1);
	struct pollfd fd = {.fd = ch->fd, .events = POLLIN};
	if (poll(&fd, 1, 20000) != 1)
		FAIL("a process whose descriptors the application uses again does not ring");
	rig_await(&st->done, 1);
	CHECK(!shca_destroy_qp(qp) && !shca_destroy_cq(cq) && !shca_destroy_comp_channel(ch) && !shca_dereg_mr(mr));
	CHECK(!shca_buf_free(r.ctx, p));
	rig_leave(&r);
}

static pid_t other_process(const char *name)
{
	st = mmap(NULL, sizeof(*st), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(st != MAP_FAILED);
	pid_t pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		alarm(60);
		is_rung(name);
		_exit(0);
	}
	rig_await(&st->there, 1);
	return pid;
}

static void ring_other(struct rig *r, struct ibv_qp *qp)
{
	struct ibv_ah_attr aa = {.dlid = SHCA_LID, .port_num = 1};
	struct ibv_ah *ah = shca_create_ah(r->pd, &aa);
	struct ibv_sge sge = {(uintptr_t)&aa, 8, 0};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_INLINE,
				 .wr.ud = {.ah = ah, .remote_qpn = st->qpn, .remote_qkey = RIG_QKEY}}, *bad;

	CHECK(ah && !shca_post_send(qp, &wr, &bad) && !shca_destroy_ah(ah));
}

/* ---- this one ---------------------------------------------------------------------------------------------------------- */

/* connected: there is a helper thread, with a separate descriptor table. */
static void play(enum kind kind, bool connected, const char *name)
{
	struct ibv_context *second;
	struct ibv_comp_channel *ch;
	struct ibv_async_event ev;
	struct ibv_cq *cq, *out;
	struct look before[NUMBERS];
	struct ibv_qp *qp = NULL;
	struct rig r;
	void *context;
	int fd, status;

	pid_t other = other_process(name);
	open_all(&r, &second, &ch, &cq, name);
	struct ibv_qp *sender = datagrams(&r, cq, cq);
	if (connected) {
		struct rig_qp_attr a = {.type = IBV_QPT_RC, .scq = cq, .rcq = cq, .send_wr = 4, .recv_wr = 4, .sge = 1};
		qp = rig_qp(&r, &a);
		struct rig_path p = {.dest_qpn = qp->qp_num, .retry_cnt = 7, .rnr_retry = 7, .min_rnr_timer = 1};
		rig_init(qp);
		rig_rtr(qp, &p);
		rig_rts(qp, &p);
	}
	/* some are left open: an epoll descriptor may be known by another that is still there */
	CHECK(!syscall(SYS_close_range, 3, ~0u, 0));
	do
		CHECK((fd = a_file(kind)) >= 0);
	while (fd < NUMBERS - 1);
	for (int i = 3; i < NUMBERS; i++)
		before[i] = look_at(i);
	CHECK(shca_get_cq_event(ch, &out, &context) == -1 && errno == EBADF);
	CHECK(shca_get_async_event(r.ctx, &ev) == -1 && errno == EBADF);
	CHECK(shca_get_async_event(second, &ev) == -1 && errno == EBADF);
	if (qp) {
		/* an event, a ring, an error */
		struct ibv_qp_attr err = {.qp_state = IBV_QPS_ERR};
		struct ibv_recv_wr rwr = {.wr_id = 1}, *bad;
		CHECK(!shca_post_recv(qp, &rwr, &bad) && !shca_modify_qp(qp, &err, IBV_QP_STATE));
		CHECK(shca_get_async_event(r.ctx, &ev) == -1 && errno == EBADF);
		CHECK(!shca_destroy_qp(qp));
	}
	if (!shca_proc_alive(r.m, st->slot))
		FAIL("a process that lives seems to be dead");
	ring_other(&r, sender);
	CHECK(!shca_destroy_qp(sender) && !shca_destroy_cq(cq) && !shca_destroy_comp_channel(ch) && !shca_close_device(second));
	rig_leave(&r);
	atomic_store(&st->done, 1);
	CHECK(waitpid(other, &status, 0) == other);
	if (status)
		FAIL("the other process ended with status %#x", (unsigned)status);
	for (int i = 3; i < NUMBERS; i++) {
		struct look now = look_at(i);
		if (memcmp(&now, &before[i], sizeof(now)))
			FAIL("descriptor %d of the application's %s was changed: %s, before: %s", i, kind_name[kind], now.info,
			     before[i].info);
	}
	/* all objects are gone: the process can be a member again */
	open_all(&r, &second, &ch, &cq, name);
	CHECK(!shca_destroy_cq(cq) && !shca_destroy_comp_channel(ch) && !shca_close_device(second));
	rig_leave(&r);
}

/* As many descriptors afterwards as before. */
static void leaves_none(const char *name)
{
	struct ibv_context *second;
	struct ibv_comp_channel *ch;
	struct ibv_cq *cq;
	struct rig r;
	int next[2];

	for (int i = 0; i < 2; i++) {
		open_all(&r, &second, &ch, &cq, name);
		CHECK(!shca_destroy_cq(cq) && !shca_destroy_comp_channel(ch) && !shca_close_device(second));
		rig_leave(&r);
		CHECK((next[i] = dup(0)) >= 0 && !close(next[i]));
	}
	if (next[0] != next[1] || next[0] > 4)
		FAIL("descriptors are left: the next one is %d, then %d", next[0], next[1]);
}

/* Another user sends arbitrary datagrams to every bell of a process, as fast as possible. */
static void flood(pid_t of)
{
	static struct sockaddr_un bell[16];
	socklen_t len[16];
	char line[512], mine[64];
	int n = 0, fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0);
	FILE *f = fopen("/proc/net/unix", "r");

	CHECK(f && fd >= 0 && !setgid(65534) && !setuid(65534) && !prctl(PR_SET_PDEATHSIG, SIGKILL));
	snprintf(mine, sizeof(mine), " @shca-bell/%d/", (int)of);
	while (n < 16 && fgets(line, sizeof(line), f)) {
		char *at = strstr(line, mine);
		if (!at)
			continue;
		at[strcspn(at, "\n")] = 0;
		bell[n].sun_family = AF_UNIX;
		strcpy(bell[n].sun_path + 1, at + 2);
		len[n] = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(at + 2));
		n++;
	}
	fclose(f);
	CHECK(n >= 2);
	atomic_store(&st->there, 1);
	for (uint32_t i = 0;; i++) {
		struct shca_ring ring = {i % 37 * 11, i % 13, i % 5};
		for (int b = 0; b < n; b++) {
			sendto(fd, "x", 1, 0, (struct sockaddr *)&bell[b], len[b]);
			sendto(fd, &ring, sizeof(ring), 0, (struct sockaddr *)&bell[b], len[b]);
		}
	}
}

/* Events arrive, each once, while another user floods the bells. */
static void is_flooded(const char *name)
{
	struct ibv_ah_attr aa = {.dlid = SHCA_LID, .port_num = 1};
	struct ibv_sge sge = {(uintptr_t)&aa, 8, 0};
	struct ibv_comp_channel *ch;
	struct ibv_wc wc[4];
	struct ibv_cq *out;
	struct rig r;
	void *context;

	if (geteuid())
		return;		/* needs root to become another user */
	st = mmap(NULL, sizeof(*st), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(st != MAP_FAILED);
	rig_join(&r, name);
	CHECK((ch = shca_create_comp_channel(r.ctx)));
	struct ibv_cq *cq = rig_cq(&r, 16, ch);
	struct ibv_qp *qp = datagrams(&r, cq, cq);
	struct ibv_ah *ah = shca_create_ah(r.pd, &aa);
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND,
				 .send_flags = IBV_SEND_INLINE | IBV_SEND_SIGNALED,
					 .wr.ud = {.ah = ah, .remote_qpn = qp->qp_num, .remote_qkey = RIG_QKEY}}, *bad;
	CHECK(ah);
	pid_t victim = getpid(), pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		flood(victim);
		_exit(1);
	}
	rig_await(&st->there, 1);
	for (int i = 0; i < 300; i++) {
		CHECK(!shca_req_notify_cq(cq, 0) && !shca_post_send(qp, &wr, &bad));
		CHECK(!shca_get_cq_event(ch, &out, &context) && out == cq);
		shca_ack_cq_events(cq, 1);
		if (shca_poll_cq(cq, 4, wc) != 1)
			FAIL("an event without a completion, or with several");
	}
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	CHECK(!shca_destroy_ah(ah) && !shca_destroy_qp(qp) && !shca_destroy_cq(cq) && !shca_destroy_comp_channel(ch));
	rig_leave(&r);
}

static void leaves_standard(const char *name)
{
	struct ibv_context *second;
	struct ibv_comp_channel *ch;
	struct ibv_cq *cq;
	struct rig r;
	int keep = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, NUMBERS), taken = -1;

	for (int i = 0; i < 3; i++)
		close(i);
	open_all(&r, &second, &ch, &cq, name);
	struct ibv_qp *qp = datagrams(&r, cq, cq);
	for (int i = 0; i < 3; i++)
		if (fcntl(i, F_GETFD) >= 0)
			taken = i;
	CHECK(!shca_destroy_qp(qp) && !shca_destroy_cq(cq) && !shca_destroy_comp_channel(ch) && !shca_close_device(second));
	rig_leave(&r);
	CHECK(dup2(keep, STDERR_FILENO) == STDERR_FILENO);
	if (taken >= 0)
		FAIL("descriptor %d was closed, and the library has put a file of its own there", taken);
}

int main(void)
{
	char name[64];
	int status, failed = 0;

	unsetenv("SHCA_FABRIC_FD");
	CHECK(!syscall(SYS_close_range, 3, ~0u, 0));
	for (int i = 0; i <= 2 * KINDS + 2; i++) {
		pid_t pid = fork();
		CHECK(pid >= 0);
		if (!pid) {
			alarm(60);
			snprintf(name, sizeof(name), "descriptors-%d", (int)getpid());
			if (i == 2 * KINDS + 2)
				is_flooded(name);
			else if (i == 2 * KINDS + 1)
				leaves_standard(name);
			else if (i == 2 * KINDS)
				leaves_none(name);
			else
				play((enum kind)(i / 2), i % 2, name);
			_exit(0);
		}
		CHECK(waitpid(pid, &status, 0) == pid);
		if (status) {
			fprintf(stderr, "FAIL: %s, %sconnected: status %#x\n", i < 2 * KINDS ? kind_name[i / 2] : i == 2 * KINDS
				? "none left" : i == 2 * KINDS + 1 ? "0 to 2 closed" : "flooded",
				i % 2 ? "" : "not ", (unsigned)status);
			failed = 1;
		}
	}
	return failed;
}
