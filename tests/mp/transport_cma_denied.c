/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ranks between which the kernel forbids process_vm_readv, each for another reason, in one job:
 *
 *     rank % 5   0, 1  plain
 *                2     in a user namespace of its own, from its start (where the kernel allows one)
 *                3     a seccomp filter forbids it process_vm_*, from the middle of the run
 *                4     PR_SET_DUMPABLE 0, from the middle of the run to the last round
 *                1     with the argument 5: a seccomp filter forbids it process_vm_writev only, from the middle of the run
 *
 * All of them give up CAP_SYS_PTRACE, which would let them in everywhere. In each round every pair exchanges checked messages of
 * private memory and of MPI_Alloc_mem's, at the same time in both directions, and all do collectives of long blocks. Arguments
 * (2, 3, 4, 5) leave all other ranks plain.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "mpi_test.h"

#define LONG 400000
#define WRITES 5

/* Whether the rank is of this sort. */
static bool is(int rank, int sort, int argc, char **argv)
{
	bool wanted = argc < 2 && sort != WRITES;

	for (int i = 1; i < argc; i++)
		wanted |= atoi(argv[i]) == sort;
	return wanted && rank % 5 == (sort == WRITES ? 1 : sort);
}

static void give_up_ptrace(void)
{
	struct __user_cap_header_struct h = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct d[2];

	if (syscall(SYS_capget, &h, d))
		perror("capget");
	d[CAP_TO_INDEX(CAP_SYS_PTRACE)].effective &= ~CAP_TO_MASK(CAP_SYS_PTRACE);
	d[CAP_TO_INDEX(CAP_SYS_PTRACE)].permitted &= ~CAP_TO_MASK(CAP_SYS_PTRACE);
	if (syscall(SYS_capset, &h, d))
		perror("capset");
}

static void put(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY);

	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		perror(path);
	if (fd >= 0)
		close(fd);
}

/* As unshare -Uc: the program begins anew inside. */
static void own_namespace(char **argv)
{
	char users[64], groups[64];

	snprintf(users, sizeof(users), "%u %u 1", (unsigned)getuid(), (unsigned)getuid());
	snprintf(groups, sizeof(groups), "%u %u 1", (unsigned)getgid(), (unsigned)getgid());
	setenv("TEST_INSIDE", "1", 1);
	if (unshare(CLONE_NEWUSER)) {
		fprintf(stderr, "no user namespace: %s\n", strerror(errno));
		return;
	}
	put("/proc/self/setgroups", "deny");
	put("/proc/self/uid_map", users);
	put("/proc/self/gid_map", groups);
	execv("/proc/self/exe", argv);
	perror("execv");
}

/* first: the first of the two calls that the filter looks at. */
static void forbid(uint32_t first)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, first, 1, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_writev, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog prog = {sizeof(code) / sizeof(code[0]), code};

	CHECK(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
	/* all threads: the helper thread runs queues, too */
	CHECK(!syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &prog));
}

static void put_bytes(char *p, int n, int from, int to, int round)
{
	for (int i = 0; i < n; i++)
		p[i] = (char)mix((uint64_t)(from * 64 + to) * 1000003u + (uint64_t)round * 7919u + (uint64_t)i / 64);
}

static void compare(const char *p, int n, int from, int to, int round)
{
	for (int i = 0; i < n; i++)
		if (p[i] != (char)mix((uint64_t)(from * 64 + to) * 1000003u + (uint64_t)round * 7919u + (uint64_t)i / 64))
			test_fail(__FILE__, __LINE__, "round %d: byte %d of %d from rank %d is wrong", round, i, n, from);
}

static void pairs(char *out, char *in, int n, int round)
{
	for (int d = 1; d < np; d++) {
		int to = (me + d) % np, from = (me + np - d) % np;
		put_bytes(out, n, me, to, round);
		memset(in, 0, (size_t)n);
		MPI_Sendrecv(out, n, MPI_CHAR, to, n & 0x7fff, in, n, MPI_CHAR, from, n & 0x7fff, MPI_COMM_WORLD,
			     MPI_STATUS_IGNORE);
		compare(in, n, from, me, round);
	}
}

static void collectives(char *out, char *in, int round)
{
	int n = LONG / np, *v = (int *)(void *)out, *sum = (int *)(void *)in;

	for (int root = 0; root < np; root++) {
		if (me == root)
			put_bytes(out, LONG, root, root, round);
		MPI_Bcast(out, LONG, MPI_CHAR, root, MPI_COMM_WORLD);
		compare(out, LONG, root, root, round);
	}
	put_bytes(out, n, me, 0, round);
	MPI_Allgather(out, n, MPI_CHAR, in, n, MPI_CHAR, MPI_COMM_WORLD);
	for (int i = 0; i < np; i++)
		compare(in + i * n, n, i, 0, round);
	for (int i = 0; i < np; i++)
		put_bytes(out + i * n, n, me, i, round);
	MPI_Alltoall(out, n, MPI_CHAR, in, n, MPI_CHAR, MPI_COMM_WORLD);
	for (int i = 0; i < np; i++)
		compare(in + i * n, n, i, me, round);
	for (int i = 0; i < LONG / 4; i++)
		v[i] = me + i;
	MPI_Allreduce(v, sum, LONG / 4, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	for (int i = 0; i < LONG / 4; i++)
		CHECK_EQ(sum[i], np * (np - 1) / 2 + np * i);
}

int main(int argc, char **argv)
{
	char *mem[2][2], *p;

	if (!getenv("TEST_INSIDE")) {
		const char *rank = getenv("PMIX_RANK");
		give_up_ptrace();
		if (rank && is(atoi(rank), 2, argc, argv))
			own_namespace(argv);
	}
	test_init(&argc, &argv);
	alarm(120);
	for (int i = 0; i < 2; i++) {
		mem[0][i] = malloc(LONG);
		CHECK(mem[0][i] && !MPI_Alloc_mem(LONG, MPI_INFO_NULL, &p));
		mem[1][i] = p;
	}
	for (int round = 0; round < 3; round++) {
		if (round == 1 && is(me, 3, argc, argv))
			forbid(SYS_process_vm_readv);
		if (round == 1 && is(me, WRITES, argc, argv))
			forbid(SYS_process_vm_writev);
		if (is(me, 4, argc, argv))
			CHECK(!prctl(PR_SET_DUMPABLE, round == 1 ? 0 : 1, 0, 0, 0));
		MPI_Barrier(MPI_COMM_WORLD);
		for (int a = 0; a < 2; a++)
			for (int b = 0; b < 2; b++) {
				pairs(mem[a][0], mem[b][1], 8000, round);
				pairs(mem[a][0], mem[b][1], LONG, round);
			}
		collectives(mem[0][0], mem[0][1], round);
		collectives(mem[1][0], mem[0][1], round);
	}
	for (int i = 0; i < 2; i++) {
		free(mem[0][i]);
		MPI_Free_mem(mem[1][i]);
	}
	if (!me)
		printf("ok\n");
	return MPI_Finalize();
}
