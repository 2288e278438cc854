/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fabric among real processes: joining and leaving, deaths, limits, processes of other users and programs.
 *
 *     fabric_procs [NAME...]     runs these cases, or all; each in a separate process and fabric
 *     fabric_procs --list
 *     fabric_procs --hold NAME   is a member of a fabric until standard input ends (for scripts)
 *
 * The cases fork beside threads, which thread sanitizer does not support: fabric_stress is for that.
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
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fabric_procs.h"

char fabric[64];

void join(struct shca_member *m)
{
	int err = shca_engine_join(m, fabric);
	if (err) {
		fprintf(stderr, "join %s: %s\n", fabric, strerror(-err));
		_exit(1);
	}
}

pid_t spawn(int (*f)(void *), void *arg)
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

int exit_of(pid_t pid)
{
	int status;
	CHECK(waitpid(pid, &status, 0) == pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 256 + WTERMSIG(status);
}

void *shared(size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(p != MAP_FAILED);
	return p;
}

void await(_Atomic uint32_t *word, uint32_t v)
{
	for (int i = 0; i < 60000 && atomic_load(word) < v; i++)
		poll(NULL, 0, 1);
	CHECK(atomic_load(word) >= v);
}

uint64_t meminfo_kib(const char *field)
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

int sockets_with(const char *text)
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

uint32_t chunks_of(const struct shca_member *m, uint32_t slot)
{
	const _Atomic uint32_t *owner = shca_at(m->base, m->hdr->chunks);
	uint32_t n = 0;
	for (uint32_t i = m->hdr->first_chunk; i < atomic_load(&m->hdr->chunk_high); i++)
		n += slot == UINT32_MAX ? atomic_load(&owner[i]) != 0 : atomic_load(&owner[i]) == slot + 1;
	return n;
}

int capture(int (*f)(void *), void *arg, char *text, size_t size)
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

/* ---- joining, leaving, dying --------------------------------------------------------------------------------------- */

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
	((struct shca_qp *)shca_at(m.base, off))->qpn = b->number;	/* each object stores its number */
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
	shca_engine_leave(&m);
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
	CHECK(shca_engine_join(&again, fabric) == -EBUSY);
	CHECK(shca_proc_alive(&m, b->slot));
	atomic_store(&b->done, 1);
	CHECK(exit_of(pid) == 0);
	CHECK(!shca_number_get(&m, b->number, SHCA_KIND_QP) && !shca_mr_get(&m, b->key));
	CHECK(chunks_of(&m, UINT32_MAX) == 0);
	shca_engine_leave(&m);
	CHECK(sockets_with(fabric) == 0);
	return 0;
}

/* Processes join while other ones leave. Two that are members at the same time must be in the same file. */
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
			r->fabrics += r->ino != m.fd.ino;
			r->ino = m.fd.ino;
		}
		r->wrong |= r->ino != m.fd.ino;
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
			return i;	/* ends without leaving, which counts as a death */
		shca_engine_leave(&m);
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

/* When all members have been killed, the fabric's memory is free. */
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
	CHECK(shca_helper_start(&m) == 0);
	atomic_fetch_add(&k->ready, 1);
	for (;;)
		pause();
}
/* Whether the memory of N members that were killed is free again, by the machine's own figure: half of it is the margin for
 * other programs that use shared memory meanwhile. */
static bool kill_all(void)
{
	enum { N = 4 };
	struct kill9 *k = shared(sizeof(*k));
	pid_t pid[N];
	char bell[48];
	uint64_t before = meminfo_kib("Shmem:"), after = 0;

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
	for (int i = 0; i < 100 && (after = meminfo_kib("Shmem:")) > before + N * (32 << 10); i++)
		poll(NULL, 0, 50);	/* the kernel frees the memory with a delay */
	printf("# Shmem %llu, %llu, %llu KiB\n", (unsigned long long)before, (unsigned long long)during,
	       (unsigned long long)after);
	return during + (32 << 10) > before + N * (64 << 10) && after <= before + N * (32 << 10);
}
static int case_kill9(void)
{
	/* a leak shows each time, other programs' memory does not */
	for (int i = 0; i < 5; i++)
		if (kill_all())
			return 0;
	CHECK(!"memory of members that were killed is still in use");
	return 1;
}

/* The death of a member is noticed, and the member's slot, objects and memory are freed. */
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
	struct shca_thread *thr = shca_thread_get(&m);
	CHECK(thr);
	shca_enter(thr);	/* dies inside the engine */
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
			/* the reaper, this process's helper thread, is about to leave the engine */
			CHECK(m.threads[i].owner != slot + 1 && (m.threads[i].owner == m.slot + 1 || !(m.threads[i].active & 1)));
		struct stat st;
		CHECK(!fstat(m.fd.n, &st));
		CHECK(st.st_blocks * 512 < 2 << 20);	/* the pages are freed (FALLOC_FL_PUNCH_HOLE), not only the chunk */
	}
	/* a member that calls exec(3) lives on, and is a member no more */
	atomic_store(&r->ready, 0);
	pid_t pid = spawn(exec_peer, r);
	await(&r->ready, 1);
	CHECK(shca_proc_alive(&m, r->slot));
	atomic_store(&r->ready, 2);
	for (int i = 0; i < 20000 && shca_proc_alive(&m, r->slot); i++)
		poll(NULL, 0, 1);
	CHECK(!shca_proc_alive(&m, r->slot));
	shca_proc_sweep(shca_thread_get(&m));
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
	shca_engine_leave(&m);
	return 0;
}

/* Members die at random points, several at a time; the survivors reap them, and no slot or memory is lost. */
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
	shca_proc_sweep(shca_thread_get(&m));
	for (int i = 0; i < 5000 && chunks_of(&m, UINT32_MAX); i++)
		poll(NULL, 0, 1);	/* the helper thread of some member may be reaping */
	CHECK(chunks_of(&m, UINT32_MAX) == 0);
	shca_engine_leave(&m);
	return 0;
}

/* A descriptor from the launcher: every process that inherits it joins that fabric, under any name. */
static int heir(void *arg)
{
	_Atomic uint32_t *n = arg;
	struct shca_member m;
	CHECK(shca_engine_join(&m, NULL) == 0);
	CHECK(!strcmp(m.hdr->name, fabric));
	CHECK(fcntl(m.fd.n, F_GETFD) == FD_CLOEXEC);
	atomic_fetch_add(n, 1);
	await(n, 4);
	uint32_t live = 0;
	for (uint32_t i = 0; i < m.hdr->proc_high; i++)
		live += shca_proc_alive(&m, i);
	atomic_fetch_add(n, 1);
	await(n, 8);
	shca_engine_leave(&m);
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
	CHECK(shca_engine_join(&m, NULL) == 0 && !strcmp(m.hdr->name, fabric));
	shca_engine_leave(&m);
	return 0;
}

/* A forked child is not a member; the child can join. */
static int forked_child(void *arg)
{
	struct shca_member *m = arg, own;
	CHECK(m->forked && m->fd.n < 0);
	/* the child does not keep the mapping, which would outlive the parent */
	CHECK(msync(m->base, 4096, MS_ASYNC) && errno == ENOMEM);
	CHECK(!shca_thread_get(m) && errno == ESTALE);
	shca_engine_leave(m);
	join(&own);
	CHECK(own.slot == 1 && shca_proc_alive(&own, 0));
	shca_engine_leave(&own);
	return 0;
}
static int case_fork(void)
{
	struct shca_member m;
	join(&m);
	CHECK(shca_helper_start(&m) == 0);
	CHECK(shca_thread_get(&m));
	for (int i = 0; i < 10; i++)
		CHECK(exit_of(spawn(forked_child, &m)) == 0);
	CHECK(shca_proc_alive(&m, m.slot));
	CHECK(shca_mem_alloc(&m, 100));
	shca_engine_leave(&m);
	return 0;
}

/* A process that leaves frees its slot, although the process lives: after joining again the process has the same slot. */
static int stays(void *arg)
{
	_Atomic uint32_t *n = arg;
	struct shca_member m;
	join(&m);
	atomic_store(n, 1);
	await(n, 2);
	shca_engine_leave(&m);
	return m.slot;
}
static int case_again(void)
{
	_Atomic uint32_t *n = shared(4096);
	pid_t pid = spawn(stays, n);
	await(n, 1);
	for (int i = 0; i < 5; i++) {
		struct shca_member m;
		join(&m);
		CHECK(m.slot == 1);
		shca_engine_leave(&m);
	}
	atomic_store(n, 2);
	CHECK(exit_of(pid) == 0);
	return 0;
}

/* A process holds the lock name: its death lets the waiting processes go on; while the holder lives, the waiting processes give
 * up, and name the holder's pid. */
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
	int err = shca_engine_join(&m, fabric);
	if (!err)
		shca_engine_leave(&m);
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

/* A member that is ending still has the fabric's name, but not the file: a process that joins waits for the end, and does not
 * make a second fabric of that name. */
static int keeps_name(void *arg)
{
	_Atomic uint32_t *n = arg;
	int file = shca_fabric_create(fabric);
	CHECK(file >= 0 && shca_name_publish(fabric, file) >= 0 && !close(file));
	atomic_store(n, 1);
	for (;;)
		pause();
}
static int case_ending(void)
{
	_Atomic uint32_t *n = shared(4096);
	char text[4096];
	pid_t ending = spawn(keeps_name, n);
	await(n, 1);
	setenv("SHCA_JOIN_MS", "300", 1);
	CHECK(capture(lock_waiter, NULL, text, sizeof(text)) == ETIMEDOUT);
	CHECK(strstr(text, "keep their names"));
	setenv("SHCA_JOIN_MS", "20000", 1);
	pid_t waiter = spawn(lock_waiter, NULL);
	kill(ending, SIGKILL);
	CHECK(exit_of(ending) == 256 + SIGKILL);
	CHECK(exit_of(waiter) == 0);
	return 0;
}

/* ---- the runner ---------------------------------------------------------------------------------------------------- */

static const struct {
	const char *name;
	int (*run)(void);
} cases[] = {
	{ "basic", case_basic },	{ "race", case_race },		{ "kill9", case_kill9 },
	{ "reap", case_reap },		{ "churn", case_churn },	{ "growth", case_growth },
	{ "dev_shm", case_dev_shm },	{ "limit_as", case_limit_as },	{ "no_memory", case_no_memory },
	{ "cgroup", case_cgroup }, { "cgroup_v2", case_cgroup_v2 },
	{ "other_user", case_other_user }, { "squatters", case_squatters }, { "misnamed", case_misnamed },
	{ "inherited", case_inherited },
	{ "fork", case_fork }, { "again", case_again }, { "lock", case_lock },		{ "ending", case_ending },
	{ "refused", case_refused },	{ "nap", case_nap }, { "other_version", case_other_version },
	{ "no_fabric", case_no_fabric }, { "span", case_span }, { "bells", case_bells },	{ "proxy", case_proxy },
};
#define NCASES (sizeof(cases) / sizeof(cases[0]))

static int hold(const char *name)
{
	struct shca_member m;
	char byte;
	int err = shca_engine_join(&m, name);
	if (err)
		return 1;
	puts("ready");
	fflush(stdout);
	while (read(STDIN_FILENO, &byte, 1) > 0)
		;
	shca_engine_leave(&m);
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
