/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sleeping and waking: futexes, and bells, which make a completion channel or the asynchronous events readable for poll(2).
 *
 * The events are in shared memory; a ring only makes a descriptor readable. Any process of the host can ring a bell, which
 * costs the bell's owner a look. A completion channel's ring names an event (layout.h, `notify`).
 */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "shca/fabric/fabric.h"

struct shca_sockets {
	struct shca_fd ringer;	/* unbound, rings every bell */
};

/* Numbers the bells of this process, over all its members. */
static _Atomic uint32_t bells;

int shca_sockets_init(struct shca_member *m)
{
	struct shca_sockets *s = calloc(1, sizeof(*s));
	if (!s)
		return -ENOMEM;
	s->ringer = shca_fd_note(fd_raise(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)));
	if (s->ringer.n < 0) {
		int err = errno;
		shca_error("cannot make a UNIX socket: %s%s", strerror(err), shca_limit_of(err));
		free(s);
		return -err;
	}
	m->sockets = s;
	return 0;
}

void shca_sockets_free(struct shca_member *m)
{
	if (!m->sockets)
		return;
	shca_fd_close(&m->sockets->ringer);
	free(m->sockets);
	m->sockets = NULL;
}

const struct shca_fd *shca_ringer(const struct shca_member *m)
{
	return &m->sockets->ringer;
}

static socklen_t bell_address(struct sockaddr_un *a, const char addr[32])
{
	size_t n = strnlen(addr, 32);
	memset(a, 0, sizeof(*a));
	a->sun_family = AF_UNIX;
	memcpy(a->sun_path + 1, addr, n);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + n);
}

int shca_bell_open(struct shca_member *m, char addr[32])
{
	struct sockaddr_un a;
	int fd = fd_raise(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
	int err = fd < 0 ? errno : EADDRINUSE;
	/* a random number, so that no other user can take the names in advance; the count, so that this process's own differ */
	for (int i = 0; fd >= 0 && err == EADDRINUSE && i < 1000; i++) {
		unsigned secret = 0;

		if (getrandom(&secret, sizeof(secret), GRND_NONBLOCK) < 0)
			secret = (unsigned)monotonic_ns();
		memset(addr, 0, 32);
		snprintf(addr, 32, "shca-bell/%d/%08x", (int)getpid(), secret + atomic_fetch_add(&bells, 1));
		socklen_t len = bell_address(&a, addr);
		err = bind(fd, (struct sockaddr *)&a, len) ? errno : 0;
	}
	if (!err)
		return fd;
	shca_error("cannot open a socket for events: %s%s", strerror(err), shca_limit_of(err));
	if (fd >= 0)
		close(fd);
	return -err;
}

/* Returns 0 or a negative errno. Never blocks. */
static int ring(struct shca_member *m, const char addr[32], const void *data, size_t n)
{
	struct sockaddr_un a;

	if (!addr[0])
		return -ENOTCONN;
	socklen_t len = bell_address(&a, addr);
	/* the application may have closed the ringer and reused its number */
	bool ours = shca_fd_ours(&m->sockets->ringer);
	int fd = ours ? m->sockets->ringer.n : fd_raise(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)), err = 0;
	if (fd < 0)
		return -errno;
	while (sendto(fd, data, n, MSG_DONTWAIT | MSG_NOSIGNAL, (struct sockaddr *)&a, len) < 0)
		if (errno != EINTR) {
			err = -errno;
			break;
		}
	if (!ours)
		close(fd);
	return err;
}

void shca_bell_ring(struct shca_member *m, const char addr[32])
{
	/* EAGAIN: the bell's queue is full, so the bell is readable; ECONNREFUSED: the bell's owner is gone */
	ring(m, addr, "", 1);
}

int shca_ring_read(int fd, bool wait, struct shca_ring *ring)
{
	ssize_t n = recv(fd, ring, sizeof(*ring), MSG_TRUNC | (wait ? 0 : MSG_DONTWAIT));

	if (n < 0)
		return errno == EAGAIN || errno == EWOULDBLOCK ? 0 : -errno;
	if (n != sizeof(*ring))
		ring->cqn = 0;
	return 1;
}

/* ---- futexes --------------------------------------------------------------------------------------------------- */

void shca_futex_wake(_Atomic uint32_t *word)
{
	syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

int shca_futex_wait(_Atomic uint32_t *word, uint32_t seen, uint64_t timeout_ns)
{
	struct timespec t = { .tv_sec = (time_t)(timeout_ns / 1000000000), .tv_nsec = (long)(timeout_ns % 1000000000) };
	if (!syscall(SYS_futex, word, FUTEX_WAIT, seen, timeout_ns == UINT64_MAX ? NULL : &t, NULL, 0) ||
	    errno == EAGAIN)
		return 0;
	return -errno;
}

void shca_helper_call(struct shca_member *m, uint32_t slot)
{
	atomic_fetch_add(&m->procs[slot].call, 1);
	shca_futex_wake(&m->procs[slot].call);
}

void shca_helper_look(struct shca_member *m)
{
	if (!atomic_exchange(&m->proc->look, 1))
		shca_helper_call(m, m->slot);
}

uint32_t shca_sleep_prepare(struct shca_member *m)
{
	/* A flag, not a count: the first writer clears the flag and wakes every sleeper, so that the writers that follow before
	 * a sleeper runs pay nothing. `wake` is read before the flag is set. The other way round: 1. the sleeper sets the flag;
	 * 2. a late writer clears it and counts `wake` up; 3. the sleeper reads `wake`, and sleeps without a flag. */
	uint32_t seen = atomic_load(&m->proc->wake);
	atomic_store_explicit(&m->awaits, true, memory_order_relaxed);
	atomic_store(&m->proc->sleepers, 1);
	shca_heavy_fence(m);
	return seen;
}

/* The flag stays up: another thread may sleep under it. At worst one writer wakes no thread. */
void shca_sleep_cancel(struct shca_member *m)
{
	(void)m;
}

void shca_sleep_interrupt(struct shca_member *m)
{
	atomic_fetch_add(&m->proc->wake, 1);
	shca_futex_wake(&m->proc->wake);
}

int shca_sleep_commit(struct shca_member *m, uint32_t seen, uint64_t timeout_ns)
{
	return shca_futex_wait(&m->proc->wake, seen, timeout_ns);
}

/* ---- delivery -------------------------------------------------------------------------------------------------- */

void shca_wake_note(struct shca_thread *thr, uint32_t kind, shca_off obj)
{
	for (uint32_t i = 0; i < thr->wake_n; i++)
		if (thr->wakeups[i].kind == kind && thr->wakeups[i].obj == obj)
			return;
	if (thr->wake_n == thr->wake_cap) {
		struct shca_wakeup *w = realloc(thr->wakeups, sizeof(*w) * thr->wake_cap * 2);
		if (!w) {
			/* a wake-up must not be lost: deliver the noted ones now, inside the engine */
			shca_wake_deliver(thr);
		} else {
			thr->wakeups = w;
			thr->wake_cap *= 2;
		}
	}
	struct shca_wakeup *w = &thr->wakeups[thr->wake_n++];
	w->kind = kind;
	w->obj = obj;
}

static int send_ring(struct shca_member *m, const struct shca_cq *cq, uint64_t event)
{
	struct shca_ring r = {cq->cqn, SHCA_CQ_EVENT_SEQ(event), SHCA_CQ_EVENT_BY(event)};

	return ring(m, cq->channel, &r, sizeof(r));
}

/* Changes the state of exactly this event, unless the event was read or has a new ringer. Arming in the meantime is kept. */
static bool wake_settle(struct shca_cq *cq, uint64_t *event, uint32_t state, uint32_t by)
{
	uint64_t w = atomic_load(&cq->notify),
		 to = shca_cq_event(state, SHCA_CQ_EVENT_SEQ(*event), by) | (*event & SHCA_CQ_STAMPED);

	while ((w & ~(uint64_t)SHCA_CQ_ARMED) == *event)
		if (atomic_compare_exchange_weak(&cq->notify, &w, to | (w & SHCA_CQ_ARMED))) {
			*event = to;
			return true;
		}
	return false;
}

bool shca_ring_adopt(struct shca_thread *thr, struct shca_cq *cq, uint64_t seen)
{
	uint64_t event = seen & ~(uint64_t)SHCA_CQ_ARMED;

	return wake_settle(cq, &event, SHCA_CQ_EVENT_OWED, thr->slot);
}

void shca_ring_event(struct shca_thread *thr, struct shca_cq *cq)
{
	uint64_t event = atomic_load(&cq->notify) & ~(uint64_t)SHCA_CQ_ARMED;

	if ((event & SHCA_CQ_EVENT) != SHCA_CQ_EVENT_OWED || SHCA_CQ_EVENT_BY(event) != thr->slot)
		return;
	int rc = send_ring(thr->m, cq, event);
	SHCA_FAILPOINT(thr, "rung", NULL, 0);
	if (rc != -EAGAIN) {
		wake_settle(cq, &event, SHCA_CQ_EVENT_RUNG, thr->slot);
		return;
	}
	/* The socket is full. If it is still full once LOST is stored, its reader sees LOST behind one of the rings. */
	if (!wake_settle(cq, &event, SHCA_CQ_EVENT_LOST, thr->slot))
		return;
	atomic_store(&thr->m->procs[cq->proc & (SHCA_MAX_PROCS - 1)].rings_lost, 1);
	if (!send_ring(thr->m, cq, event))
		wake_settle(cq, &event, SHCA_CQ_EVENT_RUNG, thr->slot);
}

static void wake_channel(struct shca_thread *thr, shca_off obj)
{
	struct shca_cq *cq = shca_at_checked(thr->m, obj, sizeof(*cq));

	if (cq)
		shca_ring_event(thr, cq);
}

void shca_wake_deliver(struct shca_thread *thr)
{
	struct shca_member *m = thr->m;
	uint32_t n = thr->wake_n;
	for (uint32_t i = 0; i < n; i++) {
		const struct shca_wakeup *w = &thr->wakeups[i];
		SHCA_FAILPOINT(thr, "ring", NULL, 0);
		switch (w->kind) {
		case SHCA_WAKE_CHANNEL:
			wake_channel(thr, w->obj);
			break;
		case SHCA_WAKE_ASYNC:
			if (w->obj < SHCA_MAX_PROCS)
				shca_bell_ring(m, m->procs[w->obj].async_addr);
			break;
		case SHCA_WAKE_FUTEX:
			if (w->obj < SHCA_MAX_PROCS && atomic_exchange(&m->procs[w->obj].sleepers, 0)) {
				SHCA_FAILPOINT(thr, "woken", NULL, 0);
				atomic_fetch_add(&m->procs[w->obj].wake, 1);
				shca_futex_wake(&m->procs[w->obj].wake);
			}
			break;
		}
	}
	thr->wake_n = 0;
}
