/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The helper thread: what has to happen although nobody calls the library. It watches the processes that this one
 * talks to (a pidfd becomes readable when one ends) and runs the engine's timers. It is started when there is
 * something to watch, and sleeps until then in one epoll.
 *
 * A pidfd names a process, a slot a member: that they are the same is made sure by finding the slot's lock in the
 * hands of that pid after the pidfd was opened. Where no pidfd can be had (too many descriptors, seccomp, a pid that is
 * not visible here) the lock is looked at every SHCA_DEATH_MS. Besides, all are looked at now and then: a member that
 * calls exec keeps its pid and loses its lock.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "shca/engine/engine.h"

#define LOOK_AT_ALL_MS 10000
#define NEVER UINT64_MAX
#define CALL UINT32_MAX		/* epoll's datum of the event descriptor */
#define NO_PIDFD (-1)
#define FRESH (-2)		/* not looked at by the helper yet */

struct watch {
	_Atomic uint32_t gen;	/* of the slot's user that is watched; 0: none */
	uint32_t deaths;	/* in the slot before it */
	int pidfd;
};

struct shca_helper {
	struct shca_member *m;
	pthread_mutex_t lock;	/* all below; never held while the engine runs */
	pthread_t thread;
	bool running, stop;
	int epfd, call;
	uint64_t tick;		/* when to call shca_tick, NEVER */
	uint64_t asleep_until;
	uint64_t death_ns;
	uint32_t watched, blind;	/* processes; of them without a pidfd */
	struct watch watch[SHCA_MAX_PROCS];	/* sparse */
};

static uint64_t now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static void call_helper(struct shca_helper *h)
{
	uint64_t one = 1;
	while (write(h->call, &one, sizeof(one)) < 0 && errno == EINTR)
		;
}

/* ---- watching -------------------------------------------------------------------------------------------------- */

/* To close it is not enough: the epoll would go on reporting it as long as a forked child has a copy. */
static void drop_pidfd(struct shca_helper *h, struct watch *w)
{
	epoll_ctl(h->epfd, EPOLL_CTL_DEL, w->pidfd, NULL);
	close(w->pidfd);
	w->pidfd = NO_PIDFD;
}

/* Under the lock. */
static void unwatch(struct shca_helper *h, uint32_t slot)
{
	struct watch *w = &h->watch[slot];
	if (!atomic_load(&w->gen))
		return;
	if (w->pidfd >= 0)
		drop_pidfd(h, w);
	else
		h->blind--;
	h->watched--;
	atomic_store(&w->gen, 0);
}

static void go_blind(struct shca_helper *h, uint32_t slot)
{
	struct watch *w = &h->watch[slot];
	if (atomic_load(&w->gen) && w->pidfd >= 0) {
		drop_pidfd(h, w);
		h->blind++;
	}
}

/* A pidfd of the process that holds the slot; NO_PIDFD: none to be had; -ESRCH: nobody holds it. */
static int open_pidfd(struct shca_member *m, uint32_t slot)
{
	if (m->hdr->virtual_procs)
		return NO_PIDFD;
	for (;;) {
		int pid = shca_proc_holder(m, slot);
		if (pid == -ESRCH)
			return -ESRCH;
		int fd = pid > 0 ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;
		if (fd < 0)
			return NO_PIDFD;
		if (shca_proc_holder(m, slot) == pid)
			return fd;
		close(fd);	/* it changed hands: again */
	}
}

static struct shca_helper *get_helper(struct shca_member *m);

int shca_watch(struct shca_member *m, uint32_t slot)
{
	if (slot >= SHCA_MAX_PROCS)
		return -EINVAL;
	if (slot == m->slot)
		return 0;
	int err = shca_responder_check(m);
	if (err)
		return err;
	uint32_t deaths = atomic_load(&m->procs[slot].deaths);
	uint32_t gen = atomic_load(&m->procs[slot].gen);
	struct shca_helper *h = atomic_load(&m->helper);
	if (h && atomic_load(&h->watch[slot].gen) == gen)
		return 0;
	h = get_helper(m);
	if (!h)
		return -errno;
	int fd = open_pidfd(m, slot);
	bool dead = fd == -ESRCH;
	pthread_mutex_lock(&h->lock);
	struct watch *w = &h->watch[slot];
	if (atomic_load(&w->gen) == gen) {	/* another thread was faster */
		if (fd >= 0)
			close(fd);
		pthread_mutex_unlock(&h->lock);
		return 0;
	}
	unwatch(h, slot);
	struct epoll_event e = { .events = EPOLLIN, .data.u32 = slot };
	if (fd >= 0 && epoll_ctl(h->epfd, EPOLL_CTL_ADD, fd, &e)) {
		close(fd);
		fd = NO_PIDFD;
	}
	w->pidfd = fd >= 0 ? fd : dead ? FRESH : NO_PIDFD;
	h->blind += fd < 0;
	h->watched++;
	w->deaths = deaths;
	atomic_store(&w->gen, gen);
	/* the helper's present sleep may be too long for one that must be looked at */
	bool call = fd < 0 || h->watched == 1;
	pthread_mutex_unlock(&h->lock);
	if (call)
		call_helper(h);
	return 0;
}

/* Whether the slot's user that is watched is not there any more: it left, or was reaped. */
static bool is_gone(struct shca_member *m, uint32_t slot, uint32_t gen)
{
	uint32_t state = atomic_load(&m->procs[slot].state) & 255;
	return atomic_load(&m->procs[slot].gen) != gen || state == SHCA_PROC_FREE || state == SHCA_PROC_JOINING;
}

/* Looks at one watched process. When it died, the engine sees to our queues, and to what it left behind unless
 * another process is at that. On the helper thread, without the lock. */
static void look(struct shca_helper *h, struct shca_cpu *cpu, uint32_t slot)
{
	struct shca_member *m = h->m;
	uint32_t gen = atomic_load(&h->watch[slot].gen);
	if (!gen)
		return;
	SHCA_FAILPOINT(cpu, "helper-look", NULL, 0);
	bool gone = is_gone(m, slot, gen);
	/* one that left has destroyed its objects: as with any device, its peers learn of it when they send */
	bool died = gone ? atomic_load(&m->procs[slot].deaths) != h->watch[slot].deaths : !shca_proc_alive(m, slot);
	if (died) {
		shca_reap(cpu, slot);
		gone = is_gone(m, slot, gen);
		/* whoever reaped it, the news may be for us */
		if (atomic_load(&m->proc->async_pending))
			shca_bell_ring(m, m->proc->async_addr);
		atomic_fetch_add(&m->proc->wake, 1);
		if (atomic_load(&m->proc->sleepers))
			shca_futex_wake(&m->proc->wake);
	} else if (gone) {
		shca_departed(cpu);
	}
	pthread_mutex_lock(&h->lock);
	if (atomic_load(&h->watch[slot].gen) == gen) {
		if (gone)
			unwatch(h, slot);
		else
			go_blind(h, slot);	/* another process reaps it, or its lock is not dropped yet: come again */
	}
	pthread_mutex_unlock(&h->lock);
}

/* all: also those whose pidfd would tell. */
static void look_around(struct shca_helper *h, struct shca_cpu *cpu, bool all)
{
	uint32_t n = atomic_load(&h->m->hdr->proc_high);
	for (uint32_t i = 0; i < n; i++) {
		if (!atomic_load(&h->watch[i].gen))
			continue;
		pthread_mutex_lock(&h->lock);
		bool blind = h->watch[i].pidfd < 0;
		pthread_mutex_unlock(&h->lock);
		if (blind || (all && (!shca_proc_alive(h->m, i) || is_gone(h->m, i, atomic_load(&h->watch[i].gen)))))
			look(h, cpu, i);
	}
}

/* ---- the thread ------------------------------------------------------------------------------------------------ */

int shca_tick_at(struct shca_member *m, uint64_t ns)
{
	struct shca_helper *h = get_helper(m);
	if (!h)
		return -errno;
	pthread_mutex_lock(&h->lock);
	bool call = ns < h->asleep_until;
	if (ns < h->tick)
		h->tick = ns;
	if (call)
		h->asleep_until = ns;	/* one call is enough */
	pthread_mutex_unlock(&h->lock);
	if (call)
		call_helper(h);
	return 0;
}

/* epoll_wait until a time; number of events. */
static int sleep_until(struct shca_helper *h, struct epoll_event *e, int n, uint64_t until)
{
	static _Atomic bool no_pwait2;
	uint64_t now = now_ns();
	uint64_t left = until == NEVER ? NEVER : until > now ? until - now : 0;
	int r = -1;
	if (!atomic_load(&no_pwait2)) {
		struct timespec t = { (time_t)(left / 1000000000), (long)(left % 1000000000) };
		r = epoll_pwait2(h->epfd, e, n, left == NEVER ? NULL : &t, NULL);
		if (r >= 0 || errno == EINTR)
			return r < 0 ? 0 : r;
		if (errno != ENOSYS)
			return r;
		atomic_store(&no_pwait2, true);
	}
	uint64_t ms = left / 1000000 + (left % 1000000 != 0);
	r = epoll_wait(h->epfd, e, n, left == NEVER ? -1 : ms > INT_MAX ? INT_MAX : (int)ms);
	return r < 0 && errno == EINTR ? 0 : r;
}

static void run_ticks(struct shca_helper *h, struct shca_cpu *cpu)
{
	pthread_mutex_lock(&h->lock);
	bool due = h->tick <= now_ns();
	if (due)
		h->tick = NEVER;
	pthread_mutex_unlock(&h->lock);
	if (!due)
		return;
	uint64_t next = shca_tick(cpu);
	pthread_mutex_lock(&h->lock);
	if (next && next < h->tick)
		h->tick = next;
	pthread_mutex_unlock(&h->lock);
}

static void *helper_main(void *arg)
{
	struct shca_helper *h = arg;
	struct shca_cpu *cpu = shca_cpu_get(h->m);
	uint64_t blind_at = 0, all_at = now_ns() + LOOK_AT_ALL_MS * 1000000ull;
	pthread_setname_np(pthread_self(), "shca-helper");
	if (!cpu) {
		shca_error("the helper thread found no thread slot: deaths of peers and timers are not noticed");
		return NULL;
	}
	for (;;) {
		struct epoll_event e[64];
		pthread_mutex_lock(&h->lock);
		bool stop = h->stop;
		uint64_t until = h->tick;
		if (h->blind && blind_at < until)
			until = blind_at;
		if (h->watched && all_at < until)
			until = all_at;
		h->asleep_until = until;
		pthread_mutex_unlock(&h->lock);
		if (stop)
			return NULL;
		int n = sleep_until(h, e, 64, until);
		if (n < 0) {
			shca_error("the helper thread cannot wait: epoll: %s", strerror(errno));
			return NULL;
		}
		uint64_t now = now_ns();
		bool called = false;
		for (int i = 0; i < n; i++) {
			if (e[i].data.u32 != CALL) {
				look(h, cpu, e[i].data.u32);
				continue;
			}
			uint64_t count;
			called = read(h->call, &count, sizeof(count)) > 0;
		}
		if (called || now >= all_at || now >= blind_at) {
			bool all = now >= all_at;
			look_around(h, cpu, all);
			blind_at = now + h->death_ns;
			if (all)
				all_at = now + LOOK_AT_ALL_MS * 1000000ull;
		}
		run_ticks(h, cpu);
	}
}

/* Under the lock. */
static int start(struct shca_helper *h)
{
	pthread_attr_t attr;
	sigset_t all, old;
	/* the engine's depth is bounded; what a libc and sanitizers want on top is not ours to know */
	size_t stack = (size_t)sysconf(_SC_THREAD_STACK_MIN) + 96 * 1024;
#if defined(SHCA_SANITIZED)
	stack += 1 << 20;
#endif
	int err = pthread_attr_init(&attr);
	if (err)
		return -err;
	err = pthread_attr_setstacksize(&attr, (stack + 4095) & ~(size_t)4095);
	/* no signal of the program is ever handled here */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	if (!err)
		err = pthread_create(&h->thread, &attr, helper_main, h);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_attr_destroy(&attr);
	if (err)
		shca_error("cannot start the helper thread: %s. Deaths of peers and timers would not be noticed (limit on "
			   "processes: ulimit -u)",
			   strerror(err));
	h->running = !err;
	return -err;
}

static void destroy(struct shca_helper *h)
{
	for (uint32_t i = 0; h->watched && i < SHCA_MAX_PROCS; i++) {
		if (!atomic_load(&h->watch[i].gen))
			continue;
		if (h->watch[i].pidfd >= 0)
			close(h->watch[i].pidfd);
		h->watched--;
	}
	if (h->epfd >= 0)
		close(h->epfd);
	if (h->call >= 0)
		close(h->call);
	pthread_mutex_destroy(&h->lock);
	free(h);
}

static struct shca_helper *create(struct shca_member *m)
{
	struct shca_helper *h = calloc(1, sizeof(*h));
	if (!h)
		return NULL;
	pthread_mutex_init(&h->lock, NULL);
	h->m = m;
	h->tick = NEVER;
	h->death_ns = (uint64_t)shca_env_ms("SHCA_DEATH_MS") * 1000000;
	h->call = -1;
	h->epfd = epoll_create1(EPOLL_CLOEXEC);
	if (h->epfd >= 0)
		h->call = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	struct epoll_event e = { .events = EPOLLIN, .data.u32 = CALL };
	if (h->call < 0 || epoll_ctl(h->epfd, EPOLL_CTL_ADD, h->call, &e)) {
		int err = errno;
		shca_error("cannot make the helper thread's descriptors: %s", strerror(err));
		destroy(h);
		errno = err;
		return NULL;
	}
	return h;
}

static struct shca_helper *get_helper(struct shca_member *m)
{
	struct shca_helper *h = atomic_load(&m->helper);
	if (!h) {
		struct shca_helper *mine = create(m);
		if (!mine)
			return NULL;
		if (atomic_compare_exchange_strong(&m->helper, &h, mine))
			h = mine;
		else
			destroy(mine);
	}
	pthread_mutex_lock(&h->lock);
	int err = h->running ? 0 : start(h);
	pthread_mutex_unlock(&h->lock);
	if (!err)
		return h;
	errno = -err;
	return NULL;
}

void shca_helper_stop(struct shca_member *m)
{
	struct shca_helper *h = atomic_exchange(&m->helper, NULL);
	if (!h)
		return;
	pthread_mutex_lock(&h->lock);
	h->stop = true;
	pthread_mutex_unlock(&h->lock);
	if (h->running) {
		call_helper(h);
		pthread_join(h->thread, NULL);
	}
	destroy(h);
}

void shca_helper_forget(struct shca_member *m)
{
	struct shca_helper *h = atomic_exchange(&m->helper, NULL);
	if (h)
		destroy(h);
}
