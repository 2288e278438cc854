/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The helper thread: work that must be done although no thread of the application calls the library. Each process that peers can
 * reach has one.
 *
 *  - The helper holds the process's life word (fabric/life.c): while the thread lives, so does the process.
 *  - The helper notices deaths. When a process dies the kernel wakes one thread that waits for the dead process's life word;
 *    that thread wakes the other waiters and looks. The helper waits for the words of processes that this one is connected to.
 *    The helper also looks at all members every SHCA_DEATH_MS, since the thread that the kernel woke may be stopped, and on
 *    request (shca_look). A dead process is reaped here: no verbs call of the application does that.
 *  - The helper fails this process's queues when the device has failed (shcactl inject).
 *  - The helper starts the proxy thread when a peer asks for the proxy (fabric/proxy.c).
 *  - The helper runs the timers of this process's queues, whichever process set them: a process that runs another one's queue
 *    sets the timer in the owner's slot, and so may stop or leave without a loss of the timer.
 *
 * The thread sleeps on futexes. Its only descriptors are the fabric's file and the bell ringer, in a descriptor table of its
 * own, so that the application cannot close them.
 *
 * Falling asleep: the helper stores its wake-up time (asleep_until), a full fence, and looks at `timers` and `call` again. A
 * thread that sets a timer stores the timer, a full fence, and reads asleep_until. So the helper sees the timer before the
 * sleep, or is called.
 *
 * A thread that destroys an object waits until the helper has left the engine: so the helper's work inside is bounded, however
 * many queues and timers there are.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "shca/engine/common.h"
#include "shca/engine/helper.h"

#define NEVER UINT64_MAX
#define WAIT_WORDS 128u		/* FUTEX_WAITV_MAX */
#define EVENTS_NS 8000000u	/* until a deferred event is looked for again */
#define AGAIN_NS 1000000u	/* a process is dying but not gone: looks again after 1, 2, 4, ... 64 ms */

/* This process's queues have events: wakes its threads that sleep. */
static void tell_own_process(struct shca_member *m)
{
	if (atomic_load(&m->proc->async_pending))
		shca_bell_ring(m, m->proc->async_addr);
	atomic_fetch_add(&m->proc->wake, 1);
	if (atomic_load(&m->proc->sleepers))
		shca_futex_wake(&m->proc->wake);
}

/* Wakes the process when deferred events are due. Returns when to call this again; NEVER: not at all. */
static uint64_t events_again(struct shca_helper *h, uint64_t now)
{
	struct shca_member *m = h->m;

	if (!atomic_load(&m->events_again))
		return NEVER;
	if (!h->events_at)
		h->events_at = now + EVENTS_NS;
	if (now < h->events_at)
		return h->events_at;
	h->events_at = 0;
	/* a thread that looks in vain from here on asks again */
	atomic_store(&m->events_again, false);
	atomic_store(&m->proc->async_pending, 1);
	tell_own_process(m);
	return NEVER;
}

/*
 * Looks at one slot. Returns true if the slot's process is dying but not gone: come again soon.
 *
 * The helper that finds a dead process reaps it. In any case this process's own queues are failed (shca_reap does both, or the
 * second only): also when another process is reaping, or has finished and the slot has another user. Without that:
 * 1. A, B are connected to C; C dies; A is elected and reaps C.
 * 2. B's helper finds the slot FREE, or with a new user, and does nothing.
 * 3. B's queues wait for C for ever.
 */
static bool helper_look_at(struct shca_helper *h, struct shca_thread *thr, uint32_t slot, bool thorough)
{
	struct shca_member *m = h->m;
	struct shca_proc_slot *p = &m->procs[slot];
	uint32_t state = atomic_load(&p->state), gen = atomic_load(&h->watch[slot].gen);
	bool live = (state & 255) == SHCA_PROC_LIVE, reaping = (state & 255) == SHCA_PROC_REAPING;
	bool dying = live && (shca_proc_dying(m, slot) || (thorough && !atomic_load(&p->life)));
	bool dead = dying && !shca_proc_alive(m, slot);
	/* The watched process is not a member any more. A process that has left has destroyed its objects: as with any device,
	 * its peers get the error when they send. */
	bool left = gen && (atomic_load(&p->gen) != gen || (!live && !reaping));
	bool died = left && atomic_load(&p->deaths) != h->watch[slot].deaths;

	/* Must be first: look-ups find the dead process's queues until shca_reap hides them, and the application may be
	 * connecting to one at this moment. Either the application watches the dead process anew, or shca_reap sees the queue. */
	if (gen && (dead || left || reaping))
		shca_unwatch(h, slot, gen);
	if (dead || died || reaping) {
		SHCA_FAILPOINT(thr, "helper-look", NULL, 0);
		shca_reap(thr, slot);
	}
	if (gen && (dead || died || reaping))
		tell_own_process(m);
	return dying && !dead && shca_proc_dying(m, slot);
}

/* Looks at all slots. thorough: also at members without a life word. */
static void look_around(struct shca_helper *h, struct shca_thread *thr, bool thorough)
{
	uint32_t n = atomic_load(&h->m->hdr->proc_high);
	bool again = false;

	for (uint32_t i = 0; i < n; i++)
		if (i != h->m->slot)
			again |= helper_look_at(h, thr, i, thorough);
	h->again = again ? h->again + 1 : 0;
}

/* ---- timers ---------------------------------------------------------------------------------------------------- */

static void heap_put(struct shca_helper *h, struct timer t)
{
	uint32_t i = h->timers++;

	for (; i && h->heap[(i - 1) / 2].due > t.due; i = (i - 1) / 2)
		h->heap[i] = h->heap[(i - 1) / 2];
	h->heap[i] = t;
}

static struct timer heap_get(struct shca_helper *h)
{
	struct timer first = h->heap[0], last = h->heap[--h->timers];
	uint32_t i = 0, k;

	for (; (k = 2 * i + 1) < h->timers; i = k) {
		if (k + 1 < h->timers && h->heap[k + 1].due < h->heap[k].due)
			k++;
		if (h->heap[k].due >= last.due)
			break;
		h->heap[i] = h->heap[k];
	}
	h->heap[i] = last;
	return first;
}

static void note_timer(struct shca_helper *h, uint32_t qpn)
{
	struct shca_qp *qp = shca_number_get(h->m, qpn, SHCA_KIND_QP);
	uint64_t due = qp && qp->proc == h->m->slot ? atomic_load(&qp->due) : 0;

	SHCA_FAILPOINT(shca_thread_get(h->m), "timer-noted", qp, 0);
	if (!due)
		return;
	if (h->timers == h->heap_cap) {
		uint32_t cap = h->heap_cap ? 2 * h->heap_cap : 64;
		struct timer *more = realloc(h->heap, cap * sizeof(*more));
		if (!more) {
			shca_timer_note(h->m, h->m->slot, qpn);	/* the bit is set again, for another try */
			return;
		}
		h->heap = more;
		h->heap_cap = cap;
	}
	heap_put(h, (struct timer){ .due = due, .qpn = qpn });
}

/* Collects the timers of a group of segments. The segments are this process's, and stay; the queues may go meanwhile. */
static void collect_group(struct shca_helper *h, struct shca_thread *thr, uint32_t group)
{
	for (uint32_t segment = group * SHCA_TIMER_GROUP; segment < (group + 1) * SHCA_TIMER_GROUP; segment++) {
		struct shca_numbers *n = shca_numbers_of(h->m, segment, h->m->slot);
		for (uint32_t i = 0; n && i < ARRAY_SIZE(n->timers); i++) {
			uint64_t bits = atomic_load(&n->timers[i]) ? atomic_exchange(&n->timers[i], 0) : 0;
			if (!bits)
				continue;
			/* enter and leave for each word: 64 timers at most */
			shca_enter(thr);
			for (; bits; bits &= bits - 1)
				note_timer(h, segment * SHCA_QP_SEG + i * 64 + (uint32_t)__builtin_ctzll(bits));
			shca_leave(thr);
		}
	}
}

/* Moves set timers into the heap. Returns false if there was none. Must: outside of the engine. */
static bool collect_timers(struct shca_helper *h, struct shca_thread *thr)
{
	_Atomic uint64_t *timers = h->m->proc->timers;
	bool any = false;

	for (uint32_t i = 0; i < ARRAY_SIZE(h->m->proc->timers); i++) {
		uint64_t groups = atomic_load_explicit(&timers[i], memory_order_relaxed) ? atomic_exchange(&timers[i], 0) : 0;
		any |= groups != 0;
		for (; groups; groups &= groups - 1)
			collect_group(h, thr, i * 64 + (uint32_t)__builtin_ctzll(groups));
	}
	return any;
}

/* Runs the queues whose timers are due. */
static void run_timers(struct shca_helper *h, struct shca_thread *thr)
{
	uint64_t now = monotonic_ns();

	shca_enter(thr);
	SHCA_FAILPOINT(thr, "helper-tick", NULL, 0);
	shca_leave(thr);
	collect_timers(h, thr);
	/* many may be due: a thread that waits until this one has left the engine waits for one queue's run at most */
	while (h->timers && h->heap[0].due <= now) {
		struct timer t = heap_get(h);
		shca_enter(thr);
		struct shca_qp *qp = shca_number_get(h->m, t.qpn, SHCA_KIND_QP);
		/* a queue whose `due` has changed since has a later entry in the heap */
		if (qp && atomic_compare_exchange_strong(&qp->due, &t.due, 0)) {
			shca_kick(thr, shca_off_of(thr->m, qp));
			shca_drain(thr);
		}
		shca_leave(thr);
	}
}

/* ---- the device's failure ------------------------------------------------------------------------------------------- */

void shca_fail_all(struct shca_thread *thr)
{
	shca_enter(thr);
	shca_for_each_qp(thr->m, qp, thr->m->slot) {
		if (atomic_load(&qp->fail) || atomic_load(&qp->qp_state) == IBV_QPS_RESET)
			continue;
		shca_qp_failed(thr, qp, IBV_WC_WR_FLUSH_ERR);
		shca_kick(thr, shca_off_of(thr->m, qp));
	}
	shca_drain(thr);
	shca_commons_break(thr);
	shca_leave(thr);
}

/* ---- the thread ------------------------------------------------------------------------------------------------ */

/* linux/futex.h has struct futex_waitv since 5.16 */
struct wait_word {
	uint64_t val, uaddr;
	uint32_t flags, reserved;
};
#define WAIT_WORD_32 2u		/* FUTEX_32: of a shared mapping */
#ifndef SYS_futex_waitv
#define SYS_futex_waitv 449
#endif

/* Fills in the life words of watched processes. Returns false if one of these is dying already. */
static bool words_to_wait_for(struct shca_helper *h, struct wait_word *w, unsigned *n)
{
	bool all_well = true;

	pthread_mutex_lock(&h->lock);
	for (uint32_t i = 0; i < h->watched_n && *n < WAIT_WORDS && all_well; i++) {
		_Atomic uint32_t *life = &h->m->procs[h->watched[i]].life;
		uint32_t v = atomic_load(life);
		/* the kernel wakes a waiter only if FUTEX_WAITERS is set */
		while (v && !(v & (FUTEX_WAITERS | FUTEX_OWNER_DIED)) &&
		       !atomic_compare_exchange_weak(life, &v, v | FUTEX_WAITERS))
			;
		if (v & FUTEX_OWNER_DIED)
			all_well = h->again != 0;	/* look_around polls the dying process by the clock */
		else if (v)
			w[(*n)++] = (struct wait_word){ v | FUTEX_WAITERS, (uintptr_t)life, WAIT_WORD_32, 0 };
	}
	pthread_mutex_unlock(&h->lock);
	return all_well;
}

/* Sleeps until a call, a watched process's death (returns true), or the time `until`. */
static bool sleep_until(struct shca_helper *h, uint32_t seen, uint64_t until)
{
	static _Atomic bool no_waitv;
	struct timespec t = { (time_t)(until / 1000000000), (long)(until % 1000000000) };
	struct wait_word w[WAIT_WORDS] = { { seen, (uintptr_t)&h->m->proc->call, WAIT_WORD_32, 0 } };
	unsigned n = 1;

	if (!words_to_wait_for(h, w, &n))
		return true;
	if (!atomic_load(&no_waitv)) {
		long r = syscall(SYS_futex_waitv, w, n, 0, until == NEVER ? NULL : &t, CLOCK_MONOTONIC);
		if (r > 0) {
			/* the kernel wakes one waiter, this thread, which wakes the other waiters */
			shca_futex_wake((_Atomic uint32_t *)(uintptr_t)w[r].uaddr);
			return true;
		}
		if (r < 0 && errno != ENOSYS && errno != EPERM)
			return errno == EAGAIN && n > 1;
		if (!r)
			return false;
		atomic_store(&no_waitv, true);
	}
	uint64_t now = monotonic_ns();
	shca_futex_wait(&h->m->proc->call, seen, until == NEVER ? NEVER : until > now ? until - now : 0);
	return false;
}

/* Separates the helper's descriptor table, where the kernel allows that; else the application may close the helper's
 * descriptors. */
static void separate_descriptors(struct shca_member *m)
{
	int ringer = shca_ringer(m)->n, fd = m->fd.n, keep[2] = { fd < ringer ? fd : ringer, fd < ringer ? ringer : fd };

	/* a descriptor number that the application has closed, and used again, is not kept open */
	if (!m->virtual_process && shca_fd_ours(&m->fd) && shca_fd_ours(shca_ringer(m)))
		shca_own_descriptors(keep, 2);
}

static void *shca_helper_main(void *arg)
{
	struct shca_helper *h = arg;
	struct shca_member *m = h->m;
	struct shca_thread *thr = shca_thread_get(m);
	uint64_t all_at = 0, reap_at = NEVER;
	pthread_setname_np(pthread_self(), "shca-helper");
	if (!thr) {
		shca_error("the helper thread found no thread slot: deaths of peers and timers are not noticed");
		pthread_mutex_lock(&h->lock);
		h->ready = true;
		pthread_cond_signal(&h->settled);
		pthread_mutex_unlock(&h->lock);
		return NULL;
	}
	thr->helper = true;
	separate_descriptors(m);
	if (!m->virtual_process && shca_life_word_take(m))
		shca_error("the helper thread's life word is not accepted by the kernel: %s. The death of this process is "
			   "noticed within SHCA_DEATH_MS", strerror(errno));
	pthread_mutex_lock(&h->lock);
	h->ready = true;
	pthread_cond_signal(&h->settled);
	pthread_mutex_unlock(&h->lock);
	for (bool fired = false;;) {
		uint32_t seen = atomic_load(&m->proc->call);
		atomic_store(&m->proc->asleep_until, 0);
		pthread_mutex_lock(&h->lock);
		bool stop = h->stop;
		pthread_mutex_unlock(&h->lock);
		if (stop)
			break;
		SHCA_FAILPOINT(thr, "helper-awake", NULL, 0);
		shca_proxy_serve(m);
		if (shca_device_broken(m))
			shca_fail_all(thr);
		run_timers(h, thr);
		uint64_t now = monotonic_ns();
		bool all = now >= all_at, asked = atomic_exchange(&m->proc->look, 0);
		if (all || asked || fired || h->again)
			look_around(h, thr, all || asked);
		if (all)
			all_at = now + h->death_ns;
		reap_at = shca_reap_on(thr) ? now + AGAIN_NS : NEVER;
		uint64_t until = all_at < reap_at ? all_at : reap_at;
		if (h->again && now + ((uint64_t)AGAIN_NS << (h->again < 7 ? h->again - 1 : 6)) < until)
			until = now + ((uint64_t)AGAIN_NS << (h->again < 7 ? h->again - 1 : 6));
		if (h->timers && h->heap[0].due < until)
			until = h->heap[0].due;
		uint64_t events_at = events_again(h, now);
		if (events_at < until)
			until = events_at;
		atomic_store(&m->proc->asleep_until, until);
		shca_full_fence();
		bool more = collect_timers(h, thr);
		fired = !more && sleep_until(h, seen, until);
	}
	shca_reap_give_up(thr);
	if (!m->virtual_process)
		shca_life_word_drop(m);
	return NULL;
}

/* Starts the thread. Must: the caller holds h->lock. */
static int helper_start(struct shca_helper *h)
{
	/* the engine's depth is bounded; the rest is for libc and sanitizers, whose need is unknown */
	int err = shca_start_thread(&h->thread, 96 * 1024, shca_helper_main, h);
	if (err)
		shca_error("cannot start the helper thread: %s. Deaths of peers and timers would not be noticed (limit on "
			   "processes: ulimit -u)",
			   strerror(-err));
	h->running = !err;
	/* returns when the table is separate: from then on the application may close descriptors */
	while (h->running && !h->ready)
		pthread_cond_wait(&h->settled, &h->lock);
	return err;
}

static void helper_destroy(struct shca_helper *h)
{
	pthread_mutex_destroy(&h->lock);
	pthread_cond_destroy(&h->settled);
	free(h->watched);
	free(h->heap);
	free(h);
}

static struct shca_helper *helper_create(struct shca_member *m)
{
	struct shca_helper *h = calloc(1, sizeof(*h));
	if (!h)
		return NULL;
	pthread_mutex_init(&h->lock, NULL);
	pthread_cond_init(&h->settled, NULL);
	h->m = m;
	h->death_ns = (uint64_t)shca_env_ms("SHCA_DEATH_MS") * 1000000;
	return h;
}

static int helper_begin(struct shca_member *m)
{
	struct shca_helper *h = atomic_load(&m->helper);

	if (!h) {
		struct shca_helper *mine = helper_create(m);
		if (!mine)
			return -ENOMEM;
		if (atomic_compare_exchange_strong(&m->helper, &h, mine))
			h = mine;
		else
			helper_destroy(mine);
	}
	pthread_mutex_lock(&h->lock);
	int err = h->running ? 0 : helper_start(h);
	pthread_mutex_unlock(&h->lock);
	return err;
}

static void helper_stop(struct shca_member *m)
{
	/* m->helper stays until the thread has ended: threads, also the helper itself, may still call shca_look, and must not
	 * start a second one */
	struct shca_helper *h = atomic_load(&m->helper);
	if (!h)
		return;
	pthread_mutex_lock(&h->lock);
	h->stop = true;
	pthread_mutex_unlock(&h->lock);
	if (h->running) {
		shca_helper_call(m, m->slot);
		pthread_join(h->thread, NULL);
	}
	atomic_store(&m->helper, NULL);
	helper_destroy(h);
}

/* In the child of a fork: the thread is the parent's, so only the memory is freed. */
static void helper_forget(struct shca_member *m)
{
	struct shca_helper *h = atomic_exchange(&m->helper, NULL);
	if (h)
		helper_destroy(h);
}

/* ---- coming and going ------------------------------------------------------------------------------------------ */

void shca_engine_attach(struct shca_member *m)
{
	m->helper_start = helper_begin;
}

int shca_engine_join(struct shca_member *m, const char *name)
{
	/* reserves descriptors 0 to 2: no other thread may print into the fabric's file, even for a moment */
	unsigned reserved = fd_reserve();
	int err = shca_fabric_join(m, name);
	fd_release(reserved);
	if (err)
		return err;
	shca_engine_attach(m);
	/* shca_fabric_join has made the thread slot */
	struct shca_thread *thr = shca_thread_get(m);
	SHCA_FAILPOINT(thr, "join-sweep", NULL, 0);
	shca_proc_sweep(thr);
	return 0;
}

void shca_engine_leave(struct shca_member *m)
{
	if (m->forked)
		helper_forget(m);
	else
		helper_stop(m);
	shca_fabric_leave(m);
}

void shca_engine_kill(struct shca_member *m)
{
	helper_stop(m);
	shca_fabric_kill(m);
}
