/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Processes and threads of a fabric: their slots, the members of this process, reaping.
 *
 * A process slot belongs to the holder of the life lock of its byte (life.c); the state word follows. A slot whose state is
 * LIVE and whose byte is not locked belongs to a dead process, and only its reaper touches it.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/stack.h"
#include "shca/fabric/fabric.h"
#include "shca/fabric/memcheck.h"

/* ---- members of this process --------------------------------------------------------------------------------- */

/* Guards the lists of members and of their threads. Never held while the engine runs or a thread waits. */
static pthread_mutex_t registry = PTHREAD_MUTEX_INITIALIZER;
static struct shca_member *members;
static uint64_t last_id;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t thread_key;
static int key_error;

__thread struct shca_tls shca_tls;

/* A thread's struct shca_thread in each member of this process, usually one. Hangs on thread_key. */
struct thread_entry {
	uint64_t id;
	struct shca_thread *thr;
	struct thread_entry *next;
};

static void thread_destroy(struct shca_thread *thr);

/* Returns whether m is a virtual process that was killed: its objects in the fabric are the reaper's. */
static bool killed(const struct shca_member *m)
{
	return m->virtual_process && !__atomic_load_n(&m->proc->pid, __ATOMIC_SEQ_CST);
}

static struct shca_member *by_id(uint64_t id)
{
	struct shca_member *m = members;
	while (m && m->id != id)
		m = m->next;
	return m;
}

static void unlink_thread(struct shca_thread *thr)
{
	struct shca_thread **p = &thr->m->thrs;
	while (*p && *p != thr)
		p = &(*p)->next;
	if (*p)
		*p = thr->next;
}

static void thread_ends(void *head)
{
	struct thread_entry *e = head, *next;
	shca_tls.id = 0;
	shca_tls.thr = NULL;
	pthread_mutex_lock(&registry);
	for (; e; e = next) {
		next = e->next;
		if (by_id(e->id)) {	/* else the member was left, and freed its threads */
			unlink_thread(e->thr);
			thread_destroy(e->thr);
		}
		free(e);
	}
	pthread_mutex_unlock(&registry);
}

static void member_fork_prepare(void)
{
	pthread_mutex_lock(&registry);
}
static void member_fork_parent(void)
{
	pthread_mutex_unlock(&registry);
}
/* The mapping is not in the child (MADV_DONTFORK). Closing the descriptors takes no lock from the parent, since record locks
 * belong to a process; after it, the memory goes with the parent. */
static void member_fork_child(void)
{
	for (struct shca_member *m = members; m; m = m->next) {
		/* valgrind does not know that the mapping is gone, and its leak check would look for pointers there, one fault
		 * each. munmap only under valgrind: elsewhere another mapping may lie in that place by now. */
		if (shca_under_valgrind()) {
			shca_memcheck_unmapped(m->base, m->bytes);
			munmap(m->base, m->bytes);
		}
		m->forked = true;
		m->id = 0;
		shca_fd_close(&m->fd);
		shca_fd_close(&m->name_fd);
	}
	members = NULL;
	shca_tls.id = 0;
	pthread_mutex_unlock(&registry);
}

/* For a build without valgrind's header: valgrind's leak check takes a fault for each word of the mapping that lies beyond the
 * file's end (memcheck.h). So a program that exits without having left unmaps the fabric. Threads that still use the fabric get
 * a signal; only under valgrind. */
static void valgrind_exit(void)
{
	pthread_mutex_lock(&registry);
	for (struct shca_member *m = members; m; m = m->next) {
		m->id = 0;
		munmap(m->base, m->bytes);
	}
	pthread_mutex_unlock(&registry);
}

static void first_time(void)
{
	if (!SHCA_MEMCHECK && shca_under_valgrind())
		atexit(valgrind_exit);
	key_error = pthread_key_create(&thread_key, thread_ends);
	if (!key_error)
		key_error = pthread_atfork(member_fork_prepare, member_fork_parent, member_fork_child);
}

bool shca_member_has(uint64_t dev, uint64_t ino)
{
	pthread_mutex_lock(&registry);
	struct shca_member *m = members;
	while (m && (m->virtual_process || m->fd.dev != dev || m->fd.ino != ino))
		m = m->next;
	pthread_mutex_unlock(&registry);
	return m != NULL;
}

int shca_member_fork_handlers(void)
{
	pthread_once(&once, first_time);
	if (key_error)
		shca_error("no thread-specific key, or no memory for a handler of fork(), is left: %s", strerror(key_error));
	return -key_error;
}

int shca_member_register(struct shca_member *m)
{
	int err = shca_member_fork_handlers();
	if (err)
		return err;
	pthread_mutex_lock(&registry);
	m->id = ++last_id;
	m->next = members;
	members = m;
	pthread_mutex_unlock(&registry);
	return 0;
}

void shca_member_unregister(struct shca_member *m)
{
	pthread_mutex_lock(&registry);
	struct shca_member **p = &members;
	while (*p && *p != m)
		p = &(*p)->next;
	if (*p)
		*p = m->next;
	m->id = 0;
	while (m->thrs) {
		struct shca_thread *thr = m->thrs;
		m->thrs = thr->next;
		thread_destroy(thr);
	}
	pthread_mutex_unlock(&registry);
}

/* ---- threads --------------------------------------------------------------------------------------------------- */

static struct shca_thread_slot *claim_thread(struct shca_member *m, uint32_t *slot)
{
	for (uint32_t i = 0; i < SHCA_MAX_THREADS; i++) {
		uint32_t none = 0;
		if (atomic_load_explicit(&m->threads[i].owner, memory_order_relaxed) ||
		    !atomic_compare_exchange_strong(&m->threads[i].owner, &none, m->slot + 1))
			continue;
		uint32_t high = atomic_load(&m->hdr->thread_high);
		while (high <= i && !atomic_compare_exchange_weak(&m->hdr->thread_high, &high, i + 1))
			;
		m->threads[i].tid = (int32_t)syscall(SYS_gettid);
		*slot = i;
		return &m->threads[i];
	}
	shca_error("all %u thread slots of the fabric \"%s\" are in use", SHCA_MAX_THREADS, m->hdr->name);
	errno = ENOSPC;
	return NULL;
}

/* `active` goes on counting over the slot's users, so that a quiescing thread sees a change; the count is even here. */
static void release_thread(struct shca_thread_slot *t)
{
	atomic_store(&t->share, 0);
	if (atomic_load(&t->active) & 1)
		atomic_fetch_add(&t->active, 1);
	atomic_store(&t->owner, 0);
}

void shca_threads_release(struct shca_member *m, uint32_t slot)
{
	uint32_t n = atomic_load(&m->hdr->thread_high);
	for (uint32_t i = 0; i < n; i++)
		if (atomic_load(&m->threads[i].owner) == slot + 1)
			release_thread(&m->threads[i]);
}

/* Keeps the thread's job of a divided copy, since a late helper may still read it: the next thread takes the job over
 * (engine/share.c). */
static void member_leave_job(struct shca_thread *thr)
{
	shca_off off = atomic_exchange(&thr->t->share, 0), first = atomic_load(&thr->m->shares);

	if (!off)
		return;
	do
		atomic_store(&((struct shca_share *)shca_at(thr->base, off))->next, first);
	while (!atomic_compare_exchange_weak(&thr->m->shares, &first, off));
}

static void thread_destroy(struct shca_thread *thr)
{
	if (thr->t && !killed(thr->m)) {
		member_leave_job(thr);
		release_thread(thr->t);
	}
	free(thr->todo_items);
	free(thr->wakeups);
	free(thr->bounce);
	free(thr->calc);
	free(thr->frame);
	free(thr->late);
	free(thr->members);
	free(thr);
}

struct shca_thread *shca_thread_new(struct shca_member *m)
{
	struct shca_thread *thr = calloc(1, sizeof(*thr));
	if (!thr)
		return NULL;
	thr->m = m;
	thr->base = m->base;
	thr->todo_cap = thr->wake_cap = 64;
	thr->todo_items = calloc(thr->todo_cap, sizeof(*thr->todo_items));
	thr->wakeups = calloc(thr->wake_cap, sizeof(*thr->wakeups));
	thr->bounce = malloc(65536);
	if (!thr->todo_items || !thr->wakeups || !thr->bounce) {
		errno = ENOMEM;
		goto fail;
	}
	thr->t = claim_thread(m, &thr->slot);
	if (!thr->t)
		goto fail;
	thr->rng = atomic_load(&m->hdr->fault_seed) ^ (0x9e3779b97f4a7c15ull * (thr->slot + 1));
	pthread_mutex_lock(&registry);
	thr->next = m->thrs;
	m->thrs = thr;
	pthread_mutex_unlock(&registry);
	return thr;
fail:;
	int err = errno;
	thread_destroy(thr);
	errno = err;
	return NULL;
}

void shca_thread_free(struct shca_thread *thr)
{
	if (!thr)
		return;
	pthread_mutex_lock(&registry);
	unlink_thread(thr);
	pthread_mutex_unlock(&registry);
	thread_destroy(thr);
}

struct shca_thread *shca_thread_get_slow(struct shca_member *m)
{
	if (!m->id) {
		errno = ESTALE;
		return NULL;
	}
	struct thread_entry *head = pthread_getspecific(thread_key), *e = head;
	while (e && e->id != m->id)
		e = e->next;
	if (!e) {
		e = malloc(sizeof(*e));
		struct shca_thread *thr = e ? shca_thread_new(m) : NULL;
		if (!thr) {
			free(e);
			return NULL;
		}
		*e = (struct thread_entry){ m->id, thr, head };
		int err = pthread_setspecific(thread_key, e);
		if (err) {
			shca_thread_free(thr);
			free(e);
			errno = err;
			return NULL;
		}
	}
	shca_tls.id = e->id;
	shca_tls.thr = e->thr;
	return e->thr;
}

int shca_start_thread(pthread_t *thread, size_t stack, void *(*run)(void *), void *arg)
{
	pthread_attr_t attr;
	sigset_t all, old;

#if defined(SHCA_SANITIZED)
	stack += 1 << 20;
#endif
	int err = pthread_attr_init(&attr);
	if (err)
		return -err;
	err = pthread_attr_setstacksize(&attr, stack_for(stack));
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	if (!err)
		err = pthread_create(thread, &attr, run, arg);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_attr_destroy(&attr);
	return -err;
}

/* ---- process slots --------------------------------------------------------------------------------------------- */

bool shca_proc_alive(struct shca_member *m, uint32_t slot)
{
	if (slot == m->slot)
		return !m->virtual_process || __atomic_load_n(&m->proc->pid, __ATOMIC_SEQ_CST);
	if (slot >= SHCA_MAX_PROCS)
		return false;
	if (m->hdr->virtual_procs)
		return (atomic_load(&m->procs[slot].state) & 255) != SHCA_PROC_FREE &&
		       __atomic_load_n(&m->procs[slot].pid, __ATOMIC_SEQ_CST);
	return shca_life_held(m, slot);
}

/* The variables by which a PMIx launcher tells a process its place. */
static void note_job(struct shca_member *m)
{
	const char *job = getenv("PMIX_NAMESPACE"), *rank = getenv("PMIX_RANK");
	char *end = NULL;
	unsigned long n = rank ? strtoul(rank, &end, 10) : 0;

	m->proc->rank = 0;
	if (!job || !rank || end == rank || *end || n >= UINT32_MAX)
		return;
	snprintf(shca_job_of(m, m->slot), SHCA_JOB_NAME, "%s", job);
	m->proc->rank = (uint32_t)n + 1;
}

static void init_slot(struct shca_member *m, uint32_t slot)
{
	struct shca_proc_slot *p = &m->procs[slot];
	m->slot = slot;
	m->proc = p;
	uint32_t gen = atomic_fetch_add(&p->gen, 1) + 1;
	p->base = (uint64_t)(uintptr_t)m->base;
	p->cma = 1;	/* until shca_cma_judge */
	atomic_store(&p->mailbox, 0);
	atomic_store(&p->proxy_wanted, SHCA_PROXY_NONE);
	atomic_store(&p->async_pending, 0);
	atomic_store(&p->sleepers, 0);
	atomic_store(&p->wake, 0);
	atomic_store(&p->life, 0);
	atomic_store(&p->asleep_until, 0);
	atomic_store(&p->look, 0);
	for (uint32_t i = 0; i < ARRAY_SIZE(p->timers); i++)
		atomic_store(&p->timers[i], 0);
	memset(p->comm, 0, sizeof(p->comm));
	prctl(PR_GET_NAME, p->comm);
	p->qp_list = p->cq_list = p->srq_list = p->group_list = p->flow_list = p->xrcd_list = 0;
	atomic_store(&p->foreign_wqes, 0);
	memset(p->async_addr, 0, sizeof(p->async_addr));
	memset(p->cm_addr, 0, sizeof(p->cm_addr));
	note_job(m);
	__atomic_store_n(&p->pid, (int32_t)getpid(), __ATOMIC_SEQ_CST);
	uint32_t high = atomic_load(&m->hdr->proc_high);
	while (high <= slot && !atomic_compare_exchange_weak(&m->hdr->proc_high, &high, slot + 1))
		;
	/* After proc_high was raised: any process that changes the port from now on finds this slot. */
	shca_port_mark(m, slot);
	shca_tap_mark(m, slot);
	/* with the generation, so that a reaper's compare-and-swap cannot hit the next user of the slot */
	atomic_store(&p->state, SHCA_PROC_LIVE | gen << 8);
}

/* Returns whether a slot is FREE, or left behind by a process that died while joining. */
static bool claimable(uint32_t state)
{
	return (state & 255) == SHCA_PROC_FREE || (state & 255) == SHCA_PROC_JOINING;
}

/* Tries one slot. The lock decides; the state is read again under it. */
static int try_slot(struct shca_member *m, int life, uint32_t slot)
{
	struct shca_proc_slot *p = &m->procs[slot];
	uint32_t state = atomic_load(&p->state);
	if (!claimable(state))
		return -EAGAIN;
	if (m->virtual_process) {
		if (state != SHCA_PROC_FREE || !atomic_compare_exchange_strong(&p->state, &state, SHCA_PROC_JOINING))
			return -EAGAIN;
		return 0;
	}
	int err = shca_life_lock(m, life, slot, true);
	if (err)
		return err;
	state = atomic_load(&p->state);
	if (!claimable(state)) {
		/* another process joined and died in between: the reaper's business */
		shca_life_lock(m, life, slot, false);
		return -EAGAIN;
	}
	atomic_store(&p->state, SHCA_PROC_JOINING);
	return 0;
}

int shca_proc_claim(struct shca_member *m)
{
	if (!m->hdr->fences) {
		if (shca_membarrier_missing() || shca_membarrier_register()) {
			shca_error("the fabric \"%s\" relies on membarrier(2), which this process may not use (%s). Create the "
				   "fabric with SHCA_FENCES=1", m->hdr->name, strerror(errno));
			return -EOPNOTSUPP;
		}
	}
	m->behave = shca_env_behave();
	m->lenient = shca_env_bool("SHCA_LENIENT");
	m->copies_alone = !shca_env_bool("SHCA_SHARE");
	/* Where Yama restricts ptrace, let any process of this user reach our memory; without Yama the call fails. Not needed
	 * without CMA. */
	if (shca_env_bool("SHCA_CMA"))
		prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
	int life = -1, err = -EAGAIN;
	uint32_t slot;
	if (!m->virtual_process) {
		/* a child that is forked while the descriptor is open would hold the lock, too */
		pthread_mutex_lock(&registry);
		life = shca_life_open(m);
		if (life < 0) {
			pthread_mutex_unlock(&registry);
			return life;
		}
	}
	for (slot = 0; slot < SHCA_COMMON && err == -EAGAIN; slot++)
		err = try_slot(m, life, slot);
	if (!m->virtual_process) {
		shca_life_close(m, life);
		pthread_mutex_unlock(&registry);
	}
	if (!err) {
		SHCA_FAILPOINT(NULL, "join-slot", NULL, 0);
		init_slot(m, slot - 1);
		return 0;
	}
	shca_life_drop(m);
	if (err == -EAGAIN) {
		shca_error("all %u process slots of the fabric \"%s\" are in use", SHCA_COMMON, m->hdr->name);
		return -ENOSPC;
	}
	shca_error("cannot lock byte %u of the fabric \"%s\": %s", slot, m->hdr->name, strerror(-err));
	return err;
}

void shca_proc_release(struct shca_member *m)
{
	SHCA_FAILPOINT(NULL, "leave-slot", NULL, 0);
	/* free first, then unlock: a LIVE slot without lock would be taken for dead */
	atomic_store(&m->proc->state, SHCA_PROC_FREE);
	shca_life_drop(m);
}

bool shca_proc_reap_begin(struct shca_member *m, uint32_t slot)
{
	if (slot >= SHCA_MAX_PROCS || slot == m->slot)
		return false;
	_Atomic uint32_t *word = &m->procs[slot].state;
	uint32_t mine = SHCA_PROC_REAPING | (m->slot + 1) << 8;
	for (;;) {
		uint32_t s = atomic_load(word);
		uint32_t reaper = (s >> 8) - 1;
		if ((s & 255) == SHCA_PROC_LIVE) {
			if (shca_proc_alive(m, slot))
				return false;
		} else if ((s & 255) == SHCA_PROC_REAPING) {
			/* this process: another of its threads is reaping */
			if (reaper == m->slot || shca_proc_alive(m, reaper))
				return false;
		} else {
			return false;
		}
		if (atomic_compare_exchange_strong(word, &s, mine))
			return true;
	}
}

void shca_proc_reap_give_up(struct shca_member *m, uint32_t slot)
{
	/* LIVE without a life lock: the next thread that looks finds the process dead again */
	atomic_store(&m->procs[slot].state, SHCA_PROC_LIVE | atomic_load(&m->procs[slot].gen) << 8);
}

void shca_proc_reap_end(struct shca_member *m, uint32_t slot)
{
	struct shca_proc_slot *p = &m->procs[slot];
	atomic_store(&p->sleepers, 0);
	atomic_fetch_add(&p->deaths, 1);
	atomic_store(&p->state, SHCA_PROC_FREE);
}
