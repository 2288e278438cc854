/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Random use of the fabric's allocator, numbers and keys by several members at once, some of which die. Every member looks up
 * objects of all members: an object found inside the engine must be whole until the thread leaves the engine (I8), even if the
 * object is being destroyed meanwhile. Memory must come zeroed, keep its bytes, and be all given back in the end.
 *
 *     fabric_stress [SEED [OPERATIONS]]
 *
 * Twice: as virtual processes in this address space (for the sanitizers), and as real processes.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shca/engine/engine.h"

#define CHECK(c)                                                                                                      \
	do {                                                                                                          \
		if (!(c)) {                                                                                           \
			fprintf(stderr, "%s:%d: %s: failed (errno %d)\n", __func__, __LINE__, #c, errno);             \
			abort();                                                                                      \
		}                                                                                                     \
	} while (0)

enum { MEMBERS = 4, THREADS = 2, HELD = 48, ROUNDS = 6, KNOWN = 4096 };
#define MAGIC 0x0b1ec7

static unsigned operations = 4000;

/* Numbers and keys that exist or existed, in memory that all members share. */
struct known {
	_Atomic uint32_t number[KNOWN], key[KNOWN];
	_Atomic uint64_t hits;
};

struct object {
	uint64_t magic;
	uint32_t key, number;		/* where a completion queue has its own */
	uint64_t bytes;
	unsigned char rest[];
};
_Static_assert(offsetof(struct object, number) == offsetof(struct shca_cq, cqn), "what is entered says its number");

struct worker {
	struct shca_member *m;
	struct known *known;
	_Atomic bool *stop;
	unsigned seed;
	bool dies;		/* leaves everything as it is */
	pthread_t thread;
};

struct held {
	shca_off off;
	struct shca_mr *mr;
};

static void make(struct worker *w, struct held *h)
{
	struct shca_member *m = w->m;
	unsigned r = (unsigned)rand_r(&w->seed);
	uint64_t bytes = sizeof(struct object) + (r % 16 == 0 ? r % 200000 : r % 5000);
	h->off = shca_mem_alloc(m, bytes);
	CHECK(h->off && h->off % 64 == 0 && (bytes < 4096 || h->off % 4096 == 0));
	struct object *o = shca_at(m->base, h->off);
	for (uint64_t i = 0; i < bytes; i++)
		CHECK(!((const char *)o)[i]);
	o->magic = MAGIC;
	o->bytes = bytes;
	memset(o->rest, (int)m->slot + 1, bytes - sizeof(*o));
	o->number = shca_number_alloc(m);
	CHECK(o->number > 1 && o->number < 0xffffff);
	h->mr = shca_mr_alloc(m, &o->key);
	CHECK(h->mr && o->key);
	h->mr->where = h->off;
	h->mr->length = bytes;
	h->mr->proc = (uint16_t)m->slot;
	atomic_store_explicit(&h->mr->key, o->key, memory_order_release);
	shca_number_set(m, o->number, SHCA_KIND_CQ, h->off);
	atomic_store(&w->known->number[r % KNOWN], o->number);
	atomic_store(&w->known->key[(r >> 12) % KNOWN], o->key);
}

static void destroy(struct worker *w, struct shca_thread *thr, struct held *h)
{
	struct shca_member *m = w->m;
	struct object *o = shca_at(m->base, h->off);
	CHECK(o->magic == MAGIC);
	uint64_t bytes = o->bytes;
	uint32_t number = o->number;
	for (uint64_t i = 0; i < bytes - sizeof(*o); i += 61)
		CHECK(o->rest[i] == m->slot + 1);
	shca_number_set(m, number, SHCA_KIND_NONE, 0);
	atomic_store(&h->mr->key, 0);
	shca_quiesce(thr, thr->m->slot);
	memset(o, 0xdd, bytes < 256 ? bytes : 256);
	shca_number_free(m, number);
	shca_mr_free(m, h->mr);
	shca_mem_free(m, h->off, bytes);
	h->off = 0;
}

/* Looks up a number or key, which may belong to any member, or to none any more. */
static void look(struct worker *w, struct shca_thread *thr)
{
	struct shca_member *m = w->m;
	unsigned r = (unsigned)rand_r(&w->seed);
	uint32_t number = atomic_load(&w->known->number[r % KNOWN]), key = atomic_load(&w->known->key[r % KNOWN]);
	shca_enter(thr);
	const struct object *o = shca_number_get(m, number, SHCA_KIND_CQ);
	if (o) {
		CHECK(o->magic == MAGIC && o->number == number);
		if (r % 64 == 0)
			sched_yield();
		CHECK(o->magic == MAGIC && o->number == number);
		atomic_fetch_add_explicit(&w->known->hits, 1, memory_order_relaxed);
	}
	const struct shca_mr *mr = key ? shca_mr_get(m, key) : NULL;
	if (mr) {
		o = shca_at_checked(m, mr->where, mr->length);
		CHECK(o && o->magic == MAGIC && o->bytes == mr->length && o->key == key);
	}
	shca_leave(thr);
}

static void *work(void *arg)
{
	struct worker *w = arg;
	struct held held[HELD] = { { 0 } };
	struct shca_thread *thr = shca_thread_get(w->m);
	CHECK(thr);
	unsigned n = w->dies ? (unsigned)rand_r(&w->seed) % operations : operations;
	for (unsigned k = 0; k < n && !atomic_load(w->stop); k++) {
		struct held *h = &held[(unsigned)rand_r(&w->seed) % HELD];
		unsigned r = (unsigned)rand_r(&w->seed) % 8;
		if (r)
			look(w, thr);
		else if (h->off)
			destroy(w, thr, h);
		else
			make(w, h);
	}
	if (w->dies) {
		if (rand_r(&w->seed) % 2)
			shca_enter(thr);
		return NULL;
	}
	for (unsigned i = 0; i < HELD; i++)
		if (held[i].off)
			destroy(w, thr, &held[i]);
	return NULL;
}

static void run_threads(struct shca_member *m, struct known *known, _Atomic bool *stop, struct worker *w, unsigned seed,
			bool dies)
{
	for (int t = 0; t < THREADS; t++) {
		w[t] = (struct worker){ .m = m, .known = known, .stop = stop, .seed = seed * 31 + (unsigned)t + 1, .dies = dies };
		CHECK(!pthread_create(&w[t].thread, NULL, work, &w[t]));
	}
}

static void join_threads(struct worker *w)
{
	for (int t = 0; t < THREADS; t++)
		CHECK(!pthread_join(w[t].thread, NULL));
}

static uint32_t chunks_of(const struct shca_member *m, uint32_t slot)
{
	const _Atomic uint32_t *owner = shca_at(m->base, m->hdr->chunks);
	uint32_t n = 0;
	for (uint32_t i = m->hdr->first_chunk; i < atomic_load(&m->hdr->chunk_high); i++)
		n += slot == UINT32_MAX ? atomic_load(&owner[i]) != 0 : atomic_load(&owner[i]) == slot + 1;
	return n;
}

static void virtual_processes(struct known *known, unsigned seed)
{
	struct shca_member watcher, m[MEMBERS];
	struct worker w[MEMBERS][THREADS];
	_Atomic bool never = false;
	CHECK(!shca_fabric_anonymous(&watcher));
	shca_engine_attach(&watcher);
	struct shca_thread *thr = shca_thread_get(&watcher);
	for (int i = 0; i < MEMBERS; i++) {
		CHECK(!shca_fabric_attach(&m[i], &watcher));
		shca_engine_attach(&m[i]);
	}
	for (int round = 0; round < ROUNDS; round++) {
		int victim = (int)((unsigned)rand_r(&seed) % MEMBERS);
		for (int i = 0; i < MEMBERS; i++)
			run_threads(&m[i], known, &never, w[i], seed + (unsigned)(round * MEMBERS + i), i == victim);
		join_threads(w[victim]);
		uint32_t slot = m[victim].slot;
		shca_engine_kill(&m[victim]);
		CHECK(!shca_proc_alive(&watcher, slot));
		shca_reap(thr, slot);	/* while the other members go on */
		CHECK(chunks_of(&watcher, slot) == 0);
		shca_engine_leave(&m[victim]);
		for (int i = 0; i < MEMBERS; i++)
			if (i != victim)
				join_threads(w[i]);
		CHECK(!shca_fabric_attach(&m[victim], &watcher));
		shca_engine_attach(&m[victim]);
	}
	for (int i = 0; i < MEMBERS; i++)
		shca_engine_leave(&m[i]);
	CHECK(chunks_of(&watcher, UINT32_MAX) == 0);
	shca_engine_leave(&watcher);
}

static pid_t member_process(const char *name, struct known *known, _Atomic bool *stop, unsigned seed)
{
	pid_t parent = getpid(), pid = fork();
	CHECK(pid >= 0);
	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	struct shca_member m;
	struct worker w[THREADS];
	CHECK(!shca_engine_join(&m, name));
	for (uint32_t i = 0; i < m.hdr->proc_high; i++)
		CHECK(!shca_watch(&m, i));
	operations = UINT32_MAX;
	run_threads(&m, known, stop, w, seed, false);
	join_threads(w);
	shca_engine_leave(&m);
	_exit(0);
}

static void real_processes(struct known *known, _Atomic bool *stop, unsigned seed)
{
	char name[64];
	struct shca_member m;
	pid_t pid[MEMBERS];
	snprintf(name, sizeof(name), "stress-%d", (int)getpid());
	CHECK(!shca_engine_join(&m, name));
	for (int i = 0; i < MEMBERS; i++)
		pid[i] = member_process(name, known, stop, seed + (unsigned)i);
	for (int k = 0; k < ROUNDS * 4; k++) {
		int victim = (int)((unsigned)rand_r(&seed) % MEMBERS), status;
		poll(NULL, 0, 1 + rand_r(&seed) % 50);
		kill(pid[victim], SIGKILL);
		CHECK(waitpid(pid[victim], &status, 0) == pid[victim] && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
		pid[victim] = member_process(name, known, stop, seed + (unsigned)k);
	}
	atomic_store(stop, true);
	for (int i = 0; i < MEMBERS; i++) {
		int status;
		CHECK(waitpid(pid[i], &status, 0) == pid[i] && status == 0);
	}
	shca_proc_sweep(shca_thread_get(&m));
	CHECK(chunks_of(&m, UINT32_MAX) == 0);
	shca_engine_leave(&m);
}

int main(int argc, char **argv)
{
	unsigned seed = argc > 1 ? (unsigned)atoi(argv[1]) : 1;
	if (argc > 2)
		operations = (unsigned)atoi(argv[2]);
	unsetenv("SHCA_FABRIC_FD");
	alarm(280);
	struct known *known = mmap(NULL, sizeof(*known) + 64, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(known != MAP_FAILED);
	virtual_processes(known, seed);
	uint64_t hits = atomic_load(&known->hits);
	memset(known, 0, sizeof(*known));
	real_processes(known, (_Atomic bool *)(known + 1), seed);
	printf("seed %u: %llu lookups hit among virtual processes, %llu among real ones\n", seed, (unsigned long long)hits,
	       (unsigned long long)atomic_load(&known->hits));
	CHECK(hits && atomic_load(&known->hits));
	return 0;
}
