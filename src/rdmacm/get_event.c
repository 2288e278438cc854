/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * GET_EVENT. The thread that asks for an event reads the channel's sources (sockets of ids, timers, the bell of the port, the
 * kernel's file), and makes events of the messages.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "rdmacm/internal.h"

/* Copies the first event out. Must: there is one. */
static void event_take(struct rcm_channel *ch, void *to, size_t size)
{
	struct rcm_event *ev = rcm_event_unlink(ch, &ch->events);

	if (ev->arrived)
		ev->resp.uid = ev->id->uid;
	ev->id->events_reported++;
	if (ev->group)
		ev->group->events_reported++;
	memcpy(to, &ev->resp, size < sizeof(ev->resp) ? size : sizeof(ev->resp));
	free(ev);
}

/* Takes the kernel's next event. A CONNECT_REQUEST names an id that the kernel has made: this library makes the id for it.
 * Returns 0, or -errno: -EAGAIN: there is none. */
static int kernel_event_take(struct rcm_channel *ch, void *to, size_t size)
{
	struct rdma_ucm_event_resp resp = {0};
	int err = rcm_kernel_event(ch, &resp);
	struct rcm_id *id;

	if (err)
		return err;
	if (resp.event == RCM_CONNECT_REQUEST) {
		for (id = ch->ids; id && (id->uid != resp.uid || !id->has_companion); id = id->next)
			;
		struct rcm_id *made = id ? rcm_id_new(ch, 0, id->ps, id->qp_type) : NULL;
		if (!made)
			return -ENOMEM;
		made->state = RCM_KERNEL;
		made->has_companion = true;
		made->kernel_id = resp.id;
		resp.id = made->handle;
	}
	memcpy(to, &resp, size < sizeof(resp) ? size : sizeof(resp));
	return 0;
}

/* Turns a readable descriptor into events. Returns false: a connection waits, and no descriptor is left for it. */
static bool source_ready(int fd, uint64_t uses, const struct epoll_event *e)
{
	if (e->data.u64 == RCM_SOURCE_PORT) {
		rcm_port_events();
		return true;
	}
	struct rcm_channel *ch = rcm_channel_lock(fd);
	if (!ch)
		return true;
	bool starved = false;
	/* RCM_SOURCE_KERNEL: rcm_get_event asks the kernel in any case */
	if (ch->uses == uses && e->data.u64 == RCM_SOURCE_TIMER)
		rcm_timers_run(ch, rcm_expired);
	/* another thread may have destroyed the id, or moved it to another channel, since the descriptor was found ready */
	else if (ch->uses == uses && e->data.u64 >= RCM_SOURCES && atomic_load(&((struct rcm_id *)e->data.ptr)->channel) == ch)
		starved = !rcm_readable(e->data.ptr);
	rcm_channel_unlock(ch);
	return !starved;
}

/* Takes one of the channel's readable sources; of a blocking descriptor, waits for one. The wait is poll(2)'s, because epoll_wait
 * fails with EINTR when a process that was stopped goes on, though no signal handler has run (signal(7)). Returns 1; 0: another
 * thread has taken the source; -EAGAIN: there is none; or -errno. */
static int source_take(int fd, int flags, struct epoll_event *e)
{
	struct pollfd wait = {.fd = fd, .events = POLLIN};

	if (!(flags & O_NONBLOCK) && poll(&wait, 1, -1) < 0)
		return -errno;
	int n = epoll_wait(fd, e, 1, 0);
	if (n < 0)
		return -errno;
	return !n && flags & O_NONBLOCK ? -EAGAIN : n;
}

int rcm_get_event(int fd, const struct rdma_ucm_get_event *cmd, size_t out)
{
	if (out < offsetof(struct rdma_ucm_event_resp, reserved))
		return -ENOSPC;
	for (;;) {
		struct epoll_event e;
		struct rcm_channel *ch = rcm_channel_lock(fd);
		if (!ch)
			return -EBADF;
		uint64_t uses = ch->uses;
		bool any = ch->events;
		int err = -EAGAIN;
		if (any)
			event_take(ch, (void *)(uintptr_t)cmd->response, out);
		else if (ch->kernel.n >= 0)
			err = kernel_event_take(ch, (void *)(uintptr_t)cmd->response, out);
		rcm_channel_unlock(ch);
		if (any)
			return 0;
		if (err != -EAGAIN)
			return err;
		int flags = fcntl(fd, F_GETFL), n = source_take(fd, flags, &e);
		if (n < 0)
			return n;
		if (!n || source_ready(fd, uses, &e))
			continue;
		if (flags & O_NONBLOCK)
			return -EAGAIN;
		/* the listener stays readable until the program closes a descriptor: no busy loop */
		poll(NULL, 0, 10);
	}
}
