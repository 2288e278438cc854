/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fabric among real processes: joining and leaving, dying, limits, strangers.
 *
 *     fabric_procs [NAME...]     runs these cases, or all; each in a process and a fabric of its own
 *     fabric_procs --list
 *     fabric_procs --hold NAME   is a member of a fabric until its standard input ends (for scripts)
 *
 * It forks beside threads, which thread sanitizer does not support: fabric_stress is for that.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "shca/engine.h"

#define SKIP 77
#define CHECK(c)                                                                                                      \
	do {                                                                                                          \
		if (!(c)) {                                                                                           \
			fprintf(stderr, "%s:%d: %s: failed (errno %d)\n", __func__, __LINE__, #c, errno);             \
			_exit(1);                                                                                     \
		}                                                                                                     \
	} while (0)

static char fabric[64];		/* this case's */

static void join(struct shca_member *m)
{
	int err = shca_fabric_join(m, fabric);
	if (err) {
		fprintf(stderr, "join %s: %s\n", fabric, strerror(-err));
		_exit(1);
	}
}

/* A child that calls f and then exits with its result. It dies with the test. */
static pid_t spawn(int (*f)(void *), void *arg)
{
	fflush(NULL);
	pid_t parent = getpid(), pid = fork();
	CHECK(pid >= 0);
	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	_exit(f(arg));
}

static int exit_of(pid_t pid)
{
	int status;
	CHECK(waitpid(pid, &status, 0) == pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 256 + WTERMSIG(status);
}

static void *shared(size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(p != MAP_FAILED);
	return p;
}

/* Waits, boundedly, until *word >= v. */
static void await(_Atomic uint32_t *word, uint32_t v)
{
	for (int i = 0; i < 60000 && atomic_load(word) < v; i++)
		poll(NULL, 0, 1);
	CHECK(atomic_load(word) >= v);
}

static uint64_t meminfo_kib(const char *field)
{
	FILE *f = fopen("/proc/meminfo", "re");
	char key[64];
	unsigned long long v, found = 0;
	CHECK(f);
	while (fscanf(f, "%63s %llu%*[^\n]", key, &v) == 2)
		if (!strcmp(key, field))
			found = v;
	fclose(f);
	return found;
}

/* Number of abstract sockets with a text in their names. */
static int sockets_with(const char *text)
{
	FILE *f = fopen("/proc/net/unix", "re");
	char line[512];
	int n = 0;
	CHECK(f);
	while (fgets(line, sizeof(line), f))
		n += strstr(line, text) != NULL;
	fclose(f);
	return n;
}

static uint32_t chunks_of(const struct shca_member *m, uint32_t slot)
{
	const _Atomic uint32_t *owner = shca_at(m->base, m->hdr->chunks);
	uint32_t n = 0;
	for (uint32_t i = m->hdr->first_chunk; i < atomic_load(&m->hdr->chunk_high); i++)
		n += slot == UINT32_MAX ? atomic_load(&owner[i]) != 0 : atomic_load(&owner[i]) == slot + 1;
	return n;
}

/* Captures what f writes to standard error while it runs in a child; the child's exit status. */
static int capture(int (*f)(void *), void *arg, char *text, size_t size)
{
	int p[2];
	CHECK(!pipe2(p, O_CLOEXEC));
	fflush(NULL);
	pid_t pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		dup2(p[1], STDERR_FILENO);
		_exit(f(arg));
	}
	close(p[1]);
	size_t n = 0;
	for (ssize_t r; n + 1 < size && (r = read(p[0], text + n, size - n - 1)) > 0;)
		n += (size_t)r;
	text[n] = 0;
	close(p[0]);
	return exit_of(pid);
}

/* ---- cases --------------------------------------------------------------------------------------------------------- */

/* Two members see each other's objects; numbers and keys resolve; a clean departure leaves nothing. */
struct basic {
	_Atomic uint32_t ready, done;
	uint32_t number, key, slot;
};
static int basic_peer(void *arg)
{
	struct basic *b = arg;
	struct shca_member m;
	join(&m);
	shca_off off = shca_mem_alloc(&m, 5000);
	CHECK(off && off % 4096 == 0);
	memset(shca_at(m.base, off), 0x5a, 5000);
	b->number = shca_number_alloc(&m);
	CHECK(b->number > 1);
	shca_number_set(&m, b->number, SHCA_KIND_QP, off);
	struct shca_mr *mr = shca_mr_alloc(&m, &b->key);
	CHECK(mr);
	mr->where = off;
	atomic_store(&mr->key, b->key);
	b->slot = m.slot;
	atomic_store(&b->ready, 1);
	await(&b->done, 1);
	shca_number_free(&m, b->number);
	shca_mr_free(&m, mr);
	shca_mem_free(&m, off, 5000);
	shca_fabric_leave(&m);
	return 0;
}
static int case_basic(void)
{
	struct basic *b = shared(sizeof(*b));
	struct shca_member m;
	join(&m);
	pid_t pid = spawn(basic_peer, b);
	await(&b->ready, 1);
	const unsigned char *p = shca_number_get(&m, b->number, SHCA_KIND_QP);
	CHECK(p && p[0] == 0x5a && p[4999] == 0x5a);
	CHECK(!shca_number_get(&m, b->number, SHCA_KIND_CQ));
	struct shca_mr *mr = shca_mr_get(&m, b->key);
	CHECK(mr && m.base + mr->where == (const char *)p);
	CHECK(!shca_mr_get(&m, b->key ^ 1));
	CHECK(shca_proc_alive(&m, b->slot) && shca_proc_alive(&m, m.slot));
	CHECK(m.procs[b->slot].pid == pid);
	struct shca_member again;
	CHECK(shca_fabric_join(&again, fabric) == -EBUSY);
	CHECK(shca_proc_alive(&m, b->slot));
	atomic_store(&b->done, 1);
	CHECK(exit_of(pid) == 0);
	CHECK(!shca_number_get(&m, b->number, SHCA_KIND_QP) && !shca_mr_get(&m, b->key));
	CHECK(chunks_of(&m, UINT32_MAX) == 0);
	shca_fabric_leave(&m);
	CHECK(sockets_with(fabric) == 0);
	return 0;
}

/* Everybody joins while others leave. Whenever two are members at once, they are in the same file. */
struct race {
	pthread_mutex_t lock;
	uint32_t members, joins, fabrics;
	uint64_t ino;
	bool wrong;
};
static int race_peer(void *arg)
{
	struct race *r = arg;
	unsigned seed = (unsigned)getpid();
	for (int i = 0; i < 60; i++) {
		struct shca_member m;
		join(&m);
		pthread_mutex_lock(&r->lock);
		if (!r->members) {
			r->fabrics += r->ino != m.ino;
			r->ino = m.ino;
		}
		r->wrong |= r->ino != m.ino;
		r->members++;
		r->joins++;
		pthread_mutex_unlock(&r->lock);
		if (rand_r(&seed) % 2)
			sched_yield();
		if (rand_r(&seed) % 4 == 0)
			CHECK(shca_mem_alloc(&m, 100));
		pthread_mutex_lock(&r->lock);
		r->members--;
		pthread_mutex_unlock(&r->lock);
		if (rand_r(&seed) % 8 == 0)
			return i;	/* without leaving: a death */
		shca_fabric_leave(&m);
		if (rand_r(&seed) % 2)
			sched_yield();
	}
	return 60;
}
static int case_race(void)
{
	enum { N = 12, ROUNDS = 8 };
	struct race *r = shared(sizeof(*r));
	pthread_mutexattr_t a;
	pthread_mutexattr_init(&a);
	pthread_mutexattr_setpshared(&a, PTHREAD_PROCESS_SHARED);
	pthread_mutex_init(&r->lock, &a);
	for (int k = 0; k < ROUNDS; k++) {
		pid_t pid[N];
		for (int i = 0; i < N; i++)
			pid[i] = spawn(race_peer, r);
		for (int i = 0; i < N; i++)
			CHECK(exit_of(pid[i]) <= 60);
	}
	CHECK(!r->wrong && r->joins >= N * ROUNDS);
	CHECK(sockets_with(fabric) == 0);
	printf("# %u joins, %u fabrics one after the other\n", r->joins, r->fabrics);
	return 0;
}

/* After kill -9 of all members nothing is left. */
struct kill9 {
	_Atomic uint32_t ready;
};
static int kill9_peer(void *arg)
{
	struct kill9 *k = arg;
	struct shca_member m;
	join(&m);
	shca_off off = shca_mem_alloc(&m, 64 << 20);
	CHECK(off);
	memset(shca_at(m.base, off), 1, 64 << 20);
	char addr[32];
	CHECK(shca_bell_open(&m, addr) >= 0);
	CHECK(shca_tick_at(&m, shca_now_ns() + 1000000) == 0);
	atomic_fetch_add(&k->ready, 1);
	for (;;)
		pause();
}
static int case_kill9(void)
{
	enum { N = 4 };
	struct kill9 *k = shared(sizeof(*k));
	pid_t pid[N];
	char bell[48];
	uint64_t before = meminfo_kib("Shmem:");
	for (int i = 0; i < N; i++)
		pid[i] = spawn(kill9_peer, k);
	await(&k->ready, N);
	uint64_t during = meminfo_kib("Shmem:");
	CHECK(sockets_with(fabric) == N);
	for (int i = 0; i < N; i++)
		kill(pid[i], SIGKILL);
	for (int i = 0; i < N; i++)
		CHECK(exit_of(pid[i]) == 256 + SIGKILL);
	CHECK(sockets_with(fabric) == 0);
	for (int i = 0; i < N; i++) {
		snprintf(bell, sizeof(bell), "@shca-bell/%d/", (int)pid[i]);
		CHECK(sockets_with(bell) == 0);
	}
	/* other programs of the machine use shared memory too: half of ours is the margin */
	CHECK(during + (32 << 10) > before + N * (64 << 10));
	uint64_t after = 0;
	for (int i = 0; i < 100 && (after = meminfo_kib("Shmem:")) > before + N * (32 << 10); i++)
		poll(NULL, 0, 50);	/* the kernel frees it in its own time */
	printf("# Shmem %llu, %llu, %llu KiB\n", (unsigned long long)before, (unsigned long long)during,
	       (unsigned long long)after);
	CHECK(after <= before + N * (32 << 10));
	return 0;
}

/* A member that is killed is noticed, and what it held is given back. */
struct reaped {
	_Atomic uint32_t ready;
	uint32_t slot, number, key;
};
static int reap_peer(void *arg)
{
	struct reaped *r = arg;
	struct shca_member m;
	join(&m);
	for (int i = 0; i < 300; i++) {
		shca_off off = shca_mem_alloc(&m, (uint64_t)i * 700 + 1);
		CHECK(off);
		memset(shca_at(m.base, off), 1, (size_t)i * 700 + 1);
	}
	r->number = shca_number_alloc(&m);
	struct shca_mr *mr = shca_mr_alloc(&m, &r->key);
	atomic_store(&mr->key, r->key);
	struct shca_cpu *cpu = shca_cpu_get(&m);
	CHECK(cpu);
	shca_enter(cpu);	/* dies inside the engine */
	r->slot = m.slot;
	atomic_store(&r->ready, 1);
	for (;;)
		pause();
}
static int exec_peer(void *arg)
{
	struct reaped *r = arg;
	struct shca_member m;
	join(&m);
	CHECK(shca_mem_alloc(&m, 1 << 20));
	r->slot = m.slot;
	atomic_store(&r->ready, 1);
	while (atomic_load(&r->ready) < 2)
		poll(NULL, 0, 1);
	execl("/bin/sleep", "sleep", "60", NULL);
	return 1;
}
static int case_reap(void)
{
	struct reaped *r = shared(sizeof(*r));
	struct shca_member m;
	join(&m);
	for (int k = 0; k < 3; k++) {
		atomic_store(&r->ready, 0);
		pid_t pid = spawn(reap_peer, r);
		await(&r->ready, 1);
		uint32_t slot = r->slot, deaths = atomic_load(&m.procs[slot].deaths);
		CHECK(shca_watch(&m, slot) == 0 && shca_watch(&m, slot) == 0);
		CHECK(chunks_of(&m, slot) > 400);
		kill(pid, SIGKILL);
		CHECK(exit_of(pid) == 256 + SIGKILL);
		CHECK(!shca_proc_alive(&m, slot));
		await(&m.procs[slot].deaths, deaths + 1);
		CHECK(atomic_load(&m.procs[slot].state) == SHCA_PROC_FREE);
		CHECK(chunks_of(&m, slot) == 0 && chunks_of(&m, UINT32_MAX) == 0);
		CHECK(!shca_mr_get(&m, r->key) && !m.qp_segs[r->number >> 8]);
		for (uint32_t i = 0; i < m.hdr->thread_high; i++)
			CHECK(m.threads[i].owner != slot + 1 && !(m.threads[i].active & 1));
		struct stat st;
		CHECK(!fstat(m.fd, &st));
		CHECK(st.st_blocks * 512 < 2 << 20);	/* punched out, not only disowned */
	}
	/* one that calls exec lives on, but not as a member */
	atomic_store(&r->ready, 0);
	pid_t pid = spawn(exec_peer, r);
	await(&r->ready, 1);
	CHECK(shca_proc_alive(&m, r->slot));
	atomic_store(&r->ready, 2);
	for (int i = 0; i < 20000 && shca_proc_alive(&m, r->slot); i++)
		poll(NULL, 0, 1);
	CHECK(!shca_proc_alive(&m, r->slot));
	shca_proc_sweep(shca_cpu_get(&m));
	CHECK(chunks_of(&m, r->slot) == 0);
	kill(pid, SIGKILL);
	exit_of(pid);
	/* the slot is used again */
	atomic_store(&r->ready, 0);
	pid = spawn(reap_peer, r);
	await(&r->ready, 1);
	CHECK(r->slot == 1);
	kill(pid, SIGKILL);
	exit_of(pid);
	shca_fabric_leave(&m);
	return 0;
}

/* Members die in the middle of everything while others do the same; the survivors reap them, and nothing is lost. */
static int churn_peer(void *arg)
{
	_Atomic uint32_t *stop = arg;
	struct shca_member m;
	unsigned seed = (unsigned)getpid();
	join(&m);
	for (uint32_t i = 0; i < m.hdr->proc_high; i++)
		shca_watch(&m, i);
	struct { shca_off off; uint64_t bytes; } held[64] = { { 0, 0 } };
	while (!atomic_load(stop)) {
		unsigned i = (unsigned)rand_r(&seed) % 64;
		if (held[i].off) {
			const unsigned char *p = shca_at(m.base, held[i].off);
			CHECK(p[0] == (unsigned char)m.slot && p[held[i].bytes - 1] == (unsigned char)m.slot);
			shca_mem_free(&m, held[i].off, held[i].bytes);
			held[i].off = 0;
			continue;
		}
		held[i].bytes = 1 + (unsigned)rand_r(&seed) % (rand_r(&seed) % 8 ? 3000 : 300000);
		held[i].off = shca_mem_alloc(&m, held[i].bytes);
		CHECK(held[i].off);
		unsigned char *p = shca_at(m.base, held[i].off);
		for (uint64_t k = 0; k < held[i].bytes; k++)
			CHECK(!p[k]);
		memset(p, (int)m.slot, held[i].bytes);
	}
	return 0;
}
static int case_churn(void)
{
	enum { N = 6, KILLS = 60 };
	_Atomic uint32_t *stop = shared(4096);
	pid_t pid[N];
	struct shca_member m;
	unsigned seed = 1;
	join(&m);
	for (int i = 0; i < N; i++)
		pid[i] = spawn(churn_peer, stop);
	for (int k = 0; k < KILLS; k++) {
		int i = rand_r(&seed) % N;
		poll(NULL, 0, rand_r(&seed) % 20);
		kill(pid[i], SIGKILL);
		CHECK(exit_of(pid[i]) == 256 + SIGKILL);
		pid[i] = spawn(churn_peer, stop);
	}
	atomic_store(stop, 1);
	for (int i = 0; i < N; i++)
		CHECK(exit_of(pid[i]) == 0);
	shca_proc_sweep(shca_cpu_get(&m));
	for (int i = 0; i < 5000 && chunks_of(&m, UINT32_MAX); i++)
		poll(NULL, 0, 1);	/* somebody's helper may have been at it */
	CHECK(chunks_of(&m, UINT32_MAX) == 0);
	shca_fabric_leave(&m);
	return 0;
}

/* Grows under several at once; everybody's bytes stay what they were. */
static int growth_peer(void *arg)
{
	_Atomic uint32_t *turn = arg;
	struct shca_member m;
	enum { N = 40 };
	shca_off off[N];
	join(&m);
	atomic_fetch_add(turn, 1);
	await(turn, 6);
	for (unsigned i = 0; i < N; i++) {
		uint64_t bytes = 1000 + i * 20011;
		off[i] = shca_mem_alloc(&m, bytes);
		CHECK(off[i]);
		memset(shca_at(m.base, off[i]), (int)(m.slot * 16 + i % 16), bytes);
	}
	for (unsigned i = 0; i < N; i++) {
		uint64_t bytes = 1000 + i * 20011;
		const unsigned char *p = shca_at(m.base, off[i]);
		for (uint64_t k = 0; k < bytes; k++)
			CHECK(p[k] == (unsigned char)(m.slot * 16 + i % 16));
		shca_mem_free(&m, off[i], bytes);
	}
	shca_fabric_leave(&m);
	return 0;
}
static int case_growth(void)
{
	_Atomic uint32_t *turn = shared(4096);
	pid_t pid[6];
	for (int i = 0; i < 6; i++)
		pid[i] = spawn(growth_peer, turn);
	for (int i = 0; i < 6; i++)
		CHECK(exit_of(pid[i]) == 0);
	return 0;
}

/* The size of /dev/shm does not matter. */
static int case_dev_shm(void)
{
	if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    mount("tmpfs", "/dev/shm", "tmpfs", 0, "size=1m")) {
		printf("# cannot mount a small /dev/shm: %s\n", strerror(errno));
		return SKIP;
	}
	struct shca_member m;
	join(&m);
	shca_off off = shca_mem_alloc(&m, 64 << 20);
	CHECK(off);
	memset(shca_at(m.base, off), 1, 64 << 20);
	shca_mem_free(&m, off, 64 << 20);
	shca_fabric_leave(&m);
	return 0;
}

/* Under a small limit on the address space a member maps the front only, and what lies beyond is refused, not touched. */
struct limited {
	_Atomic uint32_t ready, done;
	uint32_t number;
};
static int far_peer(void *arg)
{
	struct limited *l = arg;
	struct shca_member m;
	join(&m);
	CHECK(m.bytes == m.hdr->bytes);
	shca_off front = shca_mem_alloc(&m, 600 << 20), off = shca_mem_alloc(&m, 100000);
	CHECK(front && off > 600 << 20);
	l->number = shca_number_alloc(&m);
	shca_number_set(&m, l->number, SHCA_KIND_CQ, off);
	shca_mem_free(&m, front, 600 << 20);
	atomic_store(&l->ready, 1);
	await(&l->done, 1);
	return 0;
}
static int near_peer(void *arg)
{
	struct limited *l = arg;
	struct shca_member m;
	struct rlimit lim = { 2000u << 20, 2000u << 20 };
	CHECK(!setrlimit(RLIMIT_AS, &lim));
	join(&m);
	CHECK(m.bytes <= 500 << 20 && m.bytes < m.hdr->bytes);
	CHECK(!shca_number_get(&m, l->number, SHCA_KIND_CQ));
	CHECK(!shca_number_get(&m, l->number, SHCA_KIND_CQ));
	shca_off off = shca_mem_alloc(&m, 50 << 20);
	CHECK(off && off + (50 << 20) <= m.bytes);
	memset(shca_at(m.base, off), 1, 50 << 20);
	CHECK(!shca_mem_alloc(&m, 1000 << 20) && errno == ENOMEM);
	shca_fabric_leave(&m);
	return 0;
}
static int case_limit_as(void)
{
#if defined(SHCA_SANITIZED)
	printf("# sanitizers need the address space themselves\n");
	return SKIP;
#endif
	char text[4096];
	struct limited *l = shared(sizeof(*l));
	pid_t pid = spawn(far_peer, l);
	await(&l->ready, 1);
	int status = capture(near_peer, l, text, sizeof(text));
	printf("# %s", text);
	CHECK(status == 0);
	CHECK(strstr(text, "out of reach") && strstr(text, "ulimit -v") && strstr(text, "SHCA_RESERVE"));
	atomic_store(&l->done, 1);
	CHECK(exit_of(pid) == 0);
	return 0;
}

/* Running out of memory is an error that names the figures; no signal. */
static int greedy_peer(void *arg)
{
	struct shca_member m;
	join(&m);
	CHECK(!shca_mem_alloc(&m, (meminfo_kib("MemTotal:") + 1024) << 10) && errno == ENOMEM);
	CHECK(shca_mem_alloc(&m, 1 << 20));
	shca_fabric_leave(&m);
	return 0;
}
static int fsize_peer(void *arg)
{
	struct shca_member m;
	join(&m);
	struct rlimit lim = { 40 << 20, RLIM_INFINITY };
	CHECK(!setrlimit(RLIMIT_FSIZE, &lim));
	CHECK(shca_mem_alloc(&m, 1 << 20));
	CHECK(!shca_mem_alloc(&m, 40 << 20) && errno == ENOMEM);
	CHECK(shca_mem_alloc(&m, 1 << 20));
	shca_fabric_leave(&m);
	return 0;
}
static int case_no_memory(void)
{
	char text[4096];
	CHECK(capture(greedy_peer, NULL, text, sizeof(text)) == 0);
	printf("# %s", text);
	CHECK(strstr(text, "KiB needed") && strstr(text, "available") && strstr(text, "cgroup"));
	CHECK(capture(fsize_peer, NULL, text, sizeof(text)) == 0);
	CHECK(strstr(text, "ulimit -f"));
	return 0;
}

/* Another user is refused: by name, and with an inherited descriptor. */
static int stranger(void *by_name)
{
	struct shca_member m;
	if (setgid(65534) || setuid(65534))
		return SKIP;
	if (!by_name)
		return -shca_fabric_join(&m, NULL);
	return -shca_fabric_join(&m, fabric);
}
static int case_other_user(void)
{
	char text[4096], fd[16];
	struct shca_member m;
	if (geteuid()) {
		printf("# needs root to become another user\n");
		return SKIP;
	}
	join(&m);
	CHECK(capture(stranger, fabric, text, sizeof(text)) == EACCES);
	printf("# %s", text);
	CHECK(strstr(text, "user 0") && strstr(text, "user 65534"));
	int made = shca_fabric_create("of-root");
	CHECK(made >= 0);
	CHECK(!fcntl(made, F_SETFD, 0));
	snprintf(fd, sizeof(fd), "%d", made);
	setenv("SHCA_FABRIC_FD", fd, 1);
	CHECK(capture(stranger, NULL, text, sizeof(text)) == EACCES);
	CHECK(strstr(text, "user 0") && strstr(text, "user 65534"));
	shca_fabric_leave(&m);
	return 0;
}

/* A descriptor from the launcher: everybody who got it is in that fabric, whatever the name. */
static int heir(void *arg)
{
	_Atomic uint32_t *n = arg;
	struct shca_member m;
	CHECK(shca_fabric_join(&m, NULL) == 0);
	CHECK(!strcmp(m.hdr->name, fabric));
	CHECK(fcntl(m.fd, F_GETFD) == FD_CLOEXEC);
	atomic_fetch_add(n, 1);
	await(n, 4);
	uint32_t live = 0;
	for (uint32_t i = 0; i < m.hdr->proc_high; i++)
		live += shca_proc_alive(&m, i);
	atomic_fetch_add(n, 1);
	await(n, 8);
	shca_fabric_leave(&m);
	return live == 4 ? 0 : 1;
}
static int case_inherited(void)
{
	_Atomic uint32_t *n = shared(4096);
	pid_t pid[4];
	char fd[16];
	int made = shca_fabric_create(fabric);
	CHECK(made >= 0 && !fcntl(made, F_SETFD, 0));
	snprintf(fd, sizeof(fd), "%d", made);
	setenv("SHCA_FABRIC_FD", fd, 1);
	setenv("SHCA_FABRIC", "not-this-one", 1);
	for (int i = 0; i < 4; i++)
		pid[i] = spawn(heir, n);
	for (int i = 0; i < 4; i++)
		CHECK(exit_of(pid[i]) == 0);
	/* the variable may outlive the descriptor */
	struct shca_member m;
	setenv("SHCA_FABRIC", fabric, 1);
	setenv("SHCA_FABRIC_FD", "987", 1);
	CHECK(shca_fabric_join(&m, NULL) == 0 && !strcmp(m.hdr->name, fabric));
	shca_fabric_leave(&m);
	return 0;
}

/* The child of a fork is not a member; it may become one. */
static int forked_child(void *arg)
{
	struct shca_member *m = arg, own;
	CHECK(m->forked && m->fd < 0);
	CHECK(!shca_cpu_get(m) && errno == ESTALE);
	shca_fabric_leave(m);
	join(&own);
	CHECK(own.slot == 1 && shca_proc_alive(&own, 0));
	shca_fabric_leave(&own);
	return 0;
}
static int case_fork(void)
{
	struct shca_member m;
	join(&m);
	CHECK(shca_tick_at(&m, shca_now_ns() + 1000000) == 0);
	CHECK(shca_cpu_get(&m));
	for (int i = 0; i < 10; i++)
		CHECK(exit_of(spawn(forked_child, &m)) == 0);
	CHECK(shca_proc_alive(&m, m.slot));
	CHECK(shca_mem_alloc(&m, 100));
	shca_fabric_leave(&m);
	return 0;
}

/* Somebody who holds the lock name: his death frees those who wait; while he lives they give up with his pid. */
static int lock_holder(void *arg)
{
	_Atomic uint32_t *n = arg;
	int fd;
	CHECK(shca_lock_take(fabric, &fd) == 0);
	atomic_store(n, 1);
	for (;;)
		pause();
}
static int lock_waiter(void *arg)
{
	struct shca_member m;
	int err = shca_fabric_join(&m, fabric);
	if (!err)
		shca_fabric_leave(&m);
	return -err;
}
static int case_lock(void)
{
	_Atomic uint32_t *n = shared(4096);
	char text[4096], pid_text[32];
	pid_t holder = spawn(lock_holder, n);
	await(n, 1);
	setenv("SHCA_JOIN_MS", "300", 1);
	CHECK(capture(lock_waiter, NULL, text, sizeof(text)) == ETIMEDOUT);
	snprintf(pid_text, sizeof(pid_text), "process %d ", (int)holder);
	CHECK(strstr(text, pid_text));
	setenv("SHCA_JOIN_MS", "20000", 1);
	pid_t waiter[5];
	for (int i = 0; i < 5; i++)
		waiter[i] = spawn(lock_waiter, NULL);
	poll(NULL, 0, 20);
	kill(holder, SIGKILL);
	exit_of(holder);
	for (int i = 0; i < 5; i++)
		CHECK(exit_of(waiter[i]) == 0);
	return 0;
}

/* Names that mean nothing, and names of namespaces that are not ours. */
static int other_netns(void *arg)
{
	struct shca_member m;
	if (unshare(CLONE_NEWNET))
		return SKIP;
	return -shca_fabric_join(&m, NULL);
}
static int other_pidns(void *arg)
{
	if (unshare(CLONE_NEWPID))
		return SKIP;
	fflush(NULL);
	pid_t pid = fork();
	if (!pid) {
		struct shca_member m;
		_exit(-shca_fabric_join(&m, fabric));
	}
	return exit_of(pid);
}
static int bad_name(void *arg)
{
	struct shca_member m;
	return -shca_fabric_join(&m, arg);
}
static int case_refused(void)
{
	char text[4096], fd[16];
	CHECK(capture(bad_name, "a/b", text, sizeof(text)) == EINVAL && strstr(text, "a/b"));
	struct shca_member m;
	join(&m);
	int status = capture(other_pidns, NULL, text, sizeof(text));
	if (status != SKIP) {
		printf("# %s", text);
		CHECK(status == EXDEV && strstr(text, "PID namespace"));
	}
	int made = shca_fabric_create("for-others");
	CHECK(made >= 0 && !fcntl(made, F_SETFD, 0));
	snprintf(fd, sizeof(fd), "%d", made);
	setenv("SHCA_FABRIC_FD", fd, 1);
	status = capture(other_netns, NULL, text, sizeof(text));
	if (status != SKIP)
		CHECK(status == EXDEV && strstr(text, "network namespace"));
	shca_fabric_leave(&m);
	return 0;
}

/* Sleeping and waking between processes: no wake-up is lost, though writers are late to deliver them. */
enum { NAP_WRITERS = 3, NAP_VALUES = 10000 };
struct nap {
	_Atomic uint64_t value[NAP_WRITERS];
	_Atomic uint64_t seen[NAP_WRITERS];
	_Atomic uint32_t slot;
	_Atomic uint32_t ready, index;
};
static int nap_writer(void *arg)
{
	struct nap *n = arg;
	struct shca_member m;
	uint32_t i = atomic_fetch_add(&n->index, 1);
	unsigned seed = i;
	join(&m);
	struct shca_cpu *cpu = shca_cpu_get(&m);
	await(&n->ready, 1);
	for (uint64_t v = 1; v <= NAP_VALUES; v++) {
		shca_enter(cpu);
		atomic_store_explicit(&n->value[i], v, memory_order_release);
		shca_note_write(cpu, atomic_load(&n->slot));
		if (rand_r(&seed) % 8 == 0)
			sched_yield();
		shca_leave(cpu);
		/* most of the time the reader has to be awake for this to go on */
		while (rand_r(&seed) % 4 && atomic_load(&n->seen[i]) != v)
			sched_yield();
	}
	shca_fabric_leave(&m);
	return 0;
}
static int case_nap(void)
{
	struct nap *n = shared(sizeof(*n));
	struct shca_member m;
	uint64_t naps = 0;
	pid_t pid[NAP_WRITERS];
	join(&m);
	atomic_store(&n->slot, m.slot);
	for (int i = 0; i < NAP_WRITERS; i++)
		pid[i] = spawn(nap_writer, n);
	atomic_store(&n->ready, 1);
	for (uint64_t all = 0; all < (uint64_t)NAP_WRITERS * NAP_VALUES;) {
		uint32_t word = shca_sleep_prepare(&m);
		bool news = false;
		all = 0;
		for (int i = 0; i < NAP_WRITERS; i++) {
			uint64_t v = atomic_load_explicit(&n->value[i], memory_order_relaxed);
			news |= v != atomic_load(&n->seen[i]);
			atomic_store(&n->seen[i], v);
			all += v;
		}
		if (news) {
			shca_sleep_cancel(&m);
			continue;
		}
		naps++;
		/* nobody sleeps for ever in a test: half a minute without a next value is a wake-up that was lost */
		CHECK(shca_sleep_commit(&m, word, 30000000000ull) == 0);
	}
	for (int i = 0; i < NAP_WRITERS; i++)
		CHECK(exit_of(pid[i]) == 0);
	printf("# slept %llu times\n", (unsigned long long)naps);
	shca_fabric_leave(&m);
	return 0;
}

/* Bells are readable when rung, never block the ringer, and are silent for the dead. */
static int case_bells(void)
{
	struct shca_member m;
	char a[32], b[32];
	join(&m);
	int fa = shca_bell_open(&m, a), fb = shca_bell_open(&m, b);
	CHECK(fa >= 0 && fb >= 0 && strcmp(a, b));
	CHECK(!fcntl(fa, F_SETFL, O_NONBLOCK));
	struct pollfd p = { .fd = fa, .events = POLLIN };
	CHECK(poll(&p, 1, 0) == 0 && shca_bell_read(fa) == 0);
	for (int i = 0; i < 5000; i++)
		shca_bell_ring(&m, a);
	CHECK(poll(&p, 1, 0) == 1 && shca_bell_read(fa) == 1);
	while (shca_bell_read(fa) == 1)
		;
	CHECK(poll(&p, 1, 0) == 0);
	shca_bell_ring(&m, a);
	CHECK(poll(&p, 1, 0) == 1);
	close(fb);
	shca_bell_ring(&m, b);
	close(fa);
	shca_fabric_leave(&m);
	return 0;
}

/* The responder: several requesters read and write one process's private memory; some of them are killed; addresses that
 * do not exist are errors; the owner's death is noticed. */
enum { RESPOND_PEERS = 6, RESPOND_BYTES = 200000 };
struct respond {
	_Atomic uint32_t ready, done, stop;
	_Atomic uint64_t rounds;
	uint32_t slot;
	char *memory[RESPOND_PEERS];	/* in the owner */
};
static int respond_owner(void *arg)
{
	struct respond *r = arg;
	struct shca_member m;
	join(&m);
	CHECK(m.responder && !m.proc->cma);
	for (int i = 0; i < RESPOND_PEERS; i++)
		CHECK((r->memory[i] = calloc(1, RESPOND_BYTES)));
	r->slot = m.slot;
	atomic_store(&r->ready, 1);
	await(&r->done, 1);
	for (int i = 0; i < RESPOND_PEERS; i++)
		free(r->memory[i]);
	shca_fabric_leave(&m);
	return 0;
}
struct respond_arg {
	struct respond *r;
	int index;
};
static int respond_peer(void *arg)
{
	struct respond_arg *a = arg;
	struct respond *r = a->r;
	struct shca_member m;
	unsigned seed = (unsigned)getpid();
	char *own = malloc(RESPOND_BYTES), *back = malloc(RESPOND_BYTES), *far = r->memory[a->index];
	join(&m);
	struct shca_cpu *cpu = shca_cpu_get(&m);
	CHECK(cpu && own && back);
	while (!atomic_load(&r->stop)) {
		uint64_t n = 1 + (unsigned)rand_r(&seed) % (rand_r(&seed) % 4 ? 300 : RESPOND_BYTES);
		for (uint64_t i = 0; i < n; i++)
			own[i] = (char)rand_r(&seed);
		shca_enter(cpu);
		int w = shca_respond(cpu, true, r->slot, (uintptr_t)far, own, n, true);
		int g = shca_respond(cpu, false, r->slot, (uintptr_t)far, back, n, false);
		int bad = shca_respond(cpu, true, r->slot, 4096, own, n, true);
		shca_leave(cpu);
		if (w == -ESRCH || g == -ESRCH || bad == -ESRCH)
			return 3;
		CHECK(!w && !g && bad == -EFAULT && !memcmp(own, back, n));
		atomic_fetch_add(&r->rounds, 1);
	}
	shca_fabric_leave(&m);
	return 0;
}
static int respond_reaper(void *arg)
{
	struct respond *r = arg;
	struct shca_member m;
	join(&m);
	while (!atomic_load(&r->stop)) {
		shca_proc_sweep(shca_cpu_get(&m));
		poll(NULL, 0, 5);
	}
	shca_proc_sweep(shca_cpu_get(&m));
	shca_fabric_leave(&m);
	return 0;
}
/* This process is no member: it would have threads, and forks. */
static int case_responder(void)
{
	struct respond *r = shared(sizeof(*r));
	struct respond_arg a[RESPOND_PEERS];
	pid_t pid[RESPOND_PEERS];
	unsigned seed = 1;
	setenv("SHCA_CMA", "0", 1);
	pid_t reaper = 0, owner = spawn(respond_owner, r);
	await(&r->ready, 1);
	for (int i = 0; i < RESPOND_PEERS; i++) {
		a[i] = (struct respond_arg){ r, i };
		pid[i] = spawn(respond_peer, &a[i]);
	}
	for (int k = 0; k < 30; k++) {
		int i = rand_r(&seed) % RESPOND_PEERS;
		poll(NULL, 0, rand_r(&seed) % 20);
		kill(pid[i], SIGKILL);
		CHECK(exit_of(pid[i]) == 256 + SIGKILL);
		/* without a reaper the next requester takes a dead one's slot over; with one, it is withdrawn */
		if (k == 15)
			reaper = spawn(respond_reaper, r);
		pid[i] = spawn(respond_peer, &a[i]);
	}
	uint64_t rounds = atomic_load(&r->rounds);
	for (int i = 0; i < 60000 && atomic_load(&r->rounds) < rounds + 100; i++)
		poll(NULL, 0, 1);
	CHECK(atomic_load(&r->rounds) >= rounds + 100);
	kill(owner, SIGKILL);
	CHECK(exit_of(owner) == 256 + SIGKILL);
	for (int i = 0; i < RESPOND_PEERS; i++)
		CHECK(exit_of(pid[i]) == 3);
	atomic_store(&r->stop, 1);
	CHECK(exit_of(reaper) == 0);
	return 0;
}

static const struct {
	const char *name;
	int (*run)(void);
} cases[] = {
	{ "basic", case_basic },	{ "race", case_race },		{ "kill9", case_kill9 },
	{ "reap", case_reap },		{ "churn", case_churn },	{ "growth", case_growth },
	{ "dev_shm", case_dev_shm },	{ "limit_as", case_limit_as },	{ "no_memory", case_no_memory },
	{ "other_user", case_other_user }, { "inherited", case_inherited }, { "fork", case_fork },
	{ "lock", case_lock },		{ "refused", case_refused },	{ "nap", case_nap },
	{ "bells", case_bells },	{ "responder", case_responder },
};
#define NCASES (sizeof(cases) / sizeof(cases[0]))

static int hold(const char *name)
{
	struct shca_member m;
	char byte;
	int err = shca_fabric_join(&m, name);
	if (err)
		return 1;
	puts("ready");
	fflush(stdout);
	while (read(STDIN_FILENO, &byte, 1) > 0)
		;
	shca_fabric_leave(&m);
	return 0;
}

int main(int argc, char **argv)
{
	int failed = 0;
	if (argc == 3 && !strcmp(argv[1], "--hold"))
		return hold(argv[2]);
	unsetenv("SHCA_FABRIC");
	unsetenv("SHCA_FABRIC_FD");
	for (size_t i = 0; i < NCASES; i++) {
		bool wanted = argc == 1;
		for (int k = 1; k < argc; k++)
			wanted |= !strcmp(argv[k], cases[i].name);
		if (argc == 2 && !strcmp(argv[1], "--list"))
			puts(cases[i].name);
		if (!wanted)
			continue;
		fflush(NULL);
		pid_t pid = fork();
		CHECK(pid >= 0);
		if (!pid) {
			snprintf(fabric, sizeof(fabric), "test-%d-%s", (int)getpid(), cases[i].name);
			alarm(120);
			int r = cases[i].run();
			fflush(NULL);
			_exit(r);
		}
		int status = exit_of(pid);
		printf("%s %s\n", status == 0 ? "ok" : status == SKIP ? "skipped" : "FAILED", cases[i].name);
		failed += status && status != SKIP;
	}
	return failed != 0;
}
