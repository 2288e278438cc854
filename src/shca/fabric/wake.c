/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sleeping and waking: bells (what completion channels and asynchronous events are to poll(2)) and futexes.
 *
 * A bell carries no information: the events are in shared memory, a ring only makes a descriptor readable. Anybody on
 * the host could ring it, which costs its owner a look.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "shca/fabric/fabric.h"

struct shca_sockets {
	int ringer;		/* unbound, rings every bell */
};

/* Numbers the bells of this process, whichever member they belong to. */
static _Atomic uint32_t bells;

int shca_sockets_init(struct shca_member *m)
{
	struct shca_sockets *s = calloc(1, sizeof(*s));
	if (!s)
		return -ENOMEM;
	s->ringer = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (s->ringer < 0) {
		int err = errno;
		shca_error("cannot make a UNIX socket: %s", strerror(err));
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
	close(m->sockets->ringer);
	free(m->sockets);
	m->sockets = NULL;
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
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	int err = fd < 0 ? errno : EADDRINUSE;
	/* a name may be taken by a process of another PID namespace */
	for (int i = 0; fd >= 0 && err == EADDRINUSE && i < 100000; i++) {
		memset(addr, 0, 32);
		snprintf(addr, 32, "shca-bell/%d/%u", (int)getpid(), atomic_fetch_add(&bells, 1));
		socklen_t len = bell_address(&a, addr);
		err = bind(fd, (struct sockaddr *)&a, len) ? errno : 0;
	}
	if (!err)
		return fd;
	shca_error("cannot open a socket for events: %s", strerror(err));
	if (fd >= 0)
		close(fd);
	return -err;
}

void shca_bell_ring(struct shca_member *m, const char addr[32])
{
	struct sockaddr_un a;
	if (!addr[0])
		return;
	socklen_t len = bell_address(&a, addr);
	/* EAGAIN: its queue is full, so it is readable; ECONNREFUSED: its owner is gone */
	while (sendto(m->sockets->ringer, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL, (struct sockaddr *)&a, len) < 0 &&
	       errno == EINTR)
		;
}

int shca_bell_read(int fd)
{
	char byte;
	ssize_t n = recv(fd, &byte, sizeof(byte), 0);
	if (n >= 0)
		return 1;
	return errno == EAGAIN || errno == EWOULDBLOCK ? 0 : -errno;
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

uint32_t shca_sleep_prepare(struct shca_member *m)
{
	/* A flag, not a count: the first writer takes it down and wakes everybody, so that the writers that follow before
	 * a sleeper runs pay nothing. The word is read before the flag goes up: the other way round, a writer that was
	 * late could take the flag down and count before the word is read, and the sleep would begin without a flag. */
	uint32_t seen = atomic_load(&m->proc->wake);
	atomic_store(&m->proc->sleepers, 1);
	shca_heavy_fence(m);
	return seen;
}

/* The flag stays up: another thread may sleep under it. At worst one writer wakes nobody. */
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

void shca_wake_note(struct shca_cpu *cpu, uint32_t kind, shca_off obj)
{
	for (uint32_t i = 0; i < cpu->wake_n; i++)
		if (cpu->wakeups[i].kind == kind && cpu->wakeups[i].obj == obj)
			return;
	if (cpu->wake_n == cpu->wake_cap) {
		struct shca_wakeup *w = realloc(cpu->wakeups, sizeof(*w) * cpu->wake_cap * 2);
		if (!w) {
			/* a wake-up must not be lost: deliver what there is now, inside the engine */
			shca_wake_deliver(cpu);
		} else {
			cpu->wakeups = w;
			cpu->wake_cap *= 2;
		}
	}
	struct shca_wakeup *w = &cpu->wakeups[cpu->wake_n++];
	w->kind = kind;
	w->obj = obj;
	w->addr[0] = 0;
	if (kind == SHCA_WAKE_CHANNEL) {
		const struct shca_cq *cq = shca_at_checked(cpu->m, obj, sizeof(*cq));
		if (cq)
			memcpy(w->addr, cq->channel, sizeof(w->addr));
	}
}

void shca_wake_deliver(struct shca_cpu *cpu)
{
	struct shca_member *m = cpu->m;
	uint32_t n = cpu->wake_n;
	for (uint32_t i = 0; i < n; i++) {
		const struct shca_wakeup *w = &cpu->wakeups[i];
		switch (w->kind) {
		case SHCA_WAKE_CHANNEL:
			shca_bell_ring(m, w->addr);
			break;
		case SHCA_WAKE_ASYNC:
			if (w->obj < SHCA_MAX_PROCS)
				shca_bell_ring(m, m->procs[w->obj].async_addr);
			break;
		case SHCA_WAKE_FUTEX:
			if (w->obj < SHCA_MAX_PROCS && atomic_exchange(&m->procs[w->obj].sleepers, 0)) {
				atomic_fetch_add(&m->procs[w->obj].wake, 1);
				shca_futex_wake(&m->procs[w->obj].wake);
			}
			break;
		}
	}
	cpu->wake_n = 0;
}
