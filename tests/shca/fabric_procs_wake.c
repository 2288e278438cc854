/* SPDX-License-Identifier: BSD-3-Clause */
/* Sleeping and waking between processes, bells, and the proxy thread. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "fabric_procs.h"

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
	struct shca_thread *thr = shca_thread_get(&m);
	await(&n->ready, 1);
	for (uint64_t v = 1; v <= NAP_VALUES; v++) {
		shca_enter(thr);
		atomic_store_explicit(&n->value[i], v, memory_order_release);
		shca_note_write(thr, atomic_load(&n->slot));
		if (rand_r(&seed) % 8 == 0)
			sched_yield();
		shca_leave(thr);
		/* most of the time the reader has to be awake for this to go on */
		while (rand_r(&seed) % 4 && atomic_load(&n->seen[i]) != v)
			sched_yield();
	}
	shca_engine_leave(&m);
	return 0;
}
int case_nap(void)
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
		/* no process sleeps for ever in a test: half a minute without a next value is a wake-up that was lost */
		CHECK(shca_sleep_commit(&m, word, 30000000000ull) == 0);
	}
	for (int i = 0; i < NAP_WRITERS; i++)
		CHECK(exit_of(pid[i]) == 0);
	printf("# slept %llu times\n", (unsigned long long)naps);
	shca_engine_leave(&m);
	return 0;
}

/* Bells are readable when rung, never block the ringer, and are silent for the dead. */
int case_bells(void)
{
	struct shca_member m;
	struct shca_ring r;
	char a[32], b[32];
	join(&m);
	int fa = shca_bell_open(&m, a), fb = shca_bell_open(&m, b);
	CHECK(fa >= 0 && fb >= 0 && strcmp(a, b));
	struct pollfd p = { .fd = fa, .events = POLLIN };
	CHECK(poll(&p, 1, 0) == 0 && shca_ring_read(fa, false, &r) == 0);
	for (int i = 0; i < 5000; i++)
		shca_bell_ring(&m, a);
	CHECK(poll(&p, 1, 0) == 1 && shca_ring_read(fa, false, &r) == 1);
	while (shca_ring_read(fa, false, &r) == 1)
		;
	CHECK(poll(&p, 1, 0) == 0);
	shca_bell_ring(&m, a);
	CHECK(poll(&p, 1, 0) == 1);
	close(fb);
	shca_bell_ring(&m, b);
	close(fa);
	shca_engine_leave(&m);
	return 0;
}

/* The proxy: several requesters read and write one process's private memory; some of them are killed; addresses that
 * do not exist are errors; the owner's death is noticed. */
enum { PROXY_PEERS = 6, PROXY_BYTES = 200000 };
struct proxy {
	_Atomic uint32_t ready, done, stop;
	_Atomic uint64_t rounds;
	uint32_t slot;
	char *memory[PROXY_PEERS];	/* in the owner */
};
static int proxy_owner(void *arg)
{
	struct proxy *r = arg;
	struct shca_member m;
	join(&m);
	CHECK(m.proxy && !m.proc->cma);
	for (int i = 0; i < PROXY_PEERS; i++)
		CHECK((r->memory[i] = calloc(1, PROXY_BYTES)));
	r->slot = m.slot;
	atomic_store(&r->ready, 1);
	await(&r->done, 1);
	for (int i = 0; i < PROXY_PEERS; i++)
		free(r->memory[i]);
	shca_engine_leave(&m);
	return 0;
}
struct proxy_arg {
	struct proxy *r;
	int index;
};
static int proxy_peer(void *arg)
{
	struct proxy_arg *a = arg;
	struct proxy *r = a->r;
	struct shca_member m;
	unsigned seed = (unsigned)getpid();
	char *own = malloc(PROXY_BYTES), *back = malloc(PROXY_BYTES), *far = r->memory[a->index];
	join(&m);
	struct shca_thread *thr = shca_thread_get(&m);
	CHECK(thr && own && back);
	while (!atomic_load(&r->stop)) {
		uint64_t n = 1 + (unsigned)rand_r(&seed) % (rand_r(&seed) % 4 ? 300 : PROXY_BYTES);
		for (uint64_t i = 0; i < n; i++)
			own[i] = (char)rand_r(&seed);
		shca_enter(thr);
		int w = shca_proxy_copy(thr, SHCA_COPY_WRITE, r->slot, (uintptr_t)far, own, n, SHCA_LAST_LINE_LAST);
		int g = shca_proxy_copy(thr, SHCA_COPY_READ, r->slot, (uintptr_t)far, back, n, SHCA_ANY_ORDER);
		int bad = shca_proxy_copy(thr, SHCA_COPY_WRITE, r->slot, 4096, own, n, SHCA_LAST_LINE_LAST);
		shca_leave(thr);
		if (w == -ESRCH || g == -ESRCH || bad == -ESRCH)
			return 3;
		CHECK(!w && !g && bad == -EFAULT && !memcmp(own, back, n));
		atomic_fetch_add(&r->rounds, 1);
	}
	shca_engine_leave(&m);
	return 0;
}
static int proxy_reaper(void *arg)
{
	struct proxy *r = arg;
	struct shca_member m;
	join(&m);
	while (!atomic_load(&r->stop)) {
		shca_proc_sweep(shca_thread_get(&m));
		poll(NULL, 0, 5);
	}
	shca_proc_sweep(shca_thread_get(&m));
	shca_engine_leave(&m);
	return 0;
}
/* This process is no member: it would have threads, and forks. */
int case_proxy(void)
{
	struct proxy *r = shared(sizeof(*r));
	struct proxy_arg a[PROXY_PEERS];
	pid_t pid[PROXY_PEERS];
	unsigned seed = 1;
	setenv("SHCA_CMA", "0", 1);
	pid_t reaper = 0, owner = spawn(proxy_owner, r);
	await(&r->ready, 1);
	for (int i = 0; i < PROXY_PEERS; i++) {
		a[i] = (struct proxy_arg){ r, i };
		pid[i] = spawn(proxy_peer, &a[i]);
	}
	for (int k = 0; k < 30; k++) {
		int i = rand_r(&seed) % PROXY_PEERS;
		poll(NULL, 0, rand_r(&seed) % 20);
		kill(pid[i], SIGKILL);
		CHECK(exit_of(pid[i]) == 256 + SIGKILL);
		/* without a reaper the next requester takes a dead one's slot over; with one, it is withdrawn */
		if (k == 15)
			reaper = spawn(proxy_reaper, r);
		pid[i] = spawn(proxy_peer, &a[i]);
	}
	uint64_t rounds = atomic_load(&r->rounds);
	for (int i = 0; i < 60000 && atomic_load(&r->rounds) < rounds + 100; i++)
		poll(NULL, 0, 1);
	CHECK(atomic_load(&r->rounds) >= rounds + 100);
	kill(owner, SIGKILL);
	CHECK(exit_of(owner) == 256 + SIGKILL);
	for (int i = 0; i < PROXY_PEERS; i++)
		CHECK(exit_of(pid[i]) == 3);
	atomic_store(&r->stop, 1);
	CHECK(exit_of(reaper) == 0);
	return 0;
}
