/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The device under the ids, and the events of its port.
 *
 * RDMA CM holds a context of its own, which makes the process a member of the fabric from the first bound id on, until the
 * last channel is closed. Port events (fabric/port.c) ring the process's bell.
 */
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/fnv.h"
#include "rdmacm/internal.h"

static pthread_mutex_t device_lock = PTHREAD_MUTEX_INITIALIZER;
/* guarded by device_lock, as are the next four */
static struct ibv_context *context;
static struct shca_fd bell = {.n = -1};
static uint64_t port_seen;		/* events of the port before this position were reported, or came before the context */
static char fabric[17];			/* hash of the fabric's name; kept when the context is closed */

const char *rcm_fabric(void)
{
	return fabric;
}

int rcm_port_bell(void)
{
	/* the program may have closed the bell: port events are lost then */
	return bell.n >= 0 && shca_fd_ours(&bell) ? bell.n : -1;
}

/* The child of a fork has no device: its next bound id opens one. The parent's bell stays in the channels' epoll descriptors. */
static void rcm_device_fork_child(void)
{
	pthread_mutex_init(&device_lock, NULL);
	context = NULL;
	bell.n = -1;
}

/* A socket's name is too short for the longest fabric name and an address. */
static void hash_fabric(const char *name)
{
	snprintf(fabric, sizeof(fabric), "%016llx", (unsigned long long)fnv1a_64_string(name));
}

/* Must hold device_lock. */
static int device_open_locked(void)
{
	static bool fork_handler;
	int n, err = fork_handler ? 0 : -pthread_atfork(NULL, NULL, rcm_device_fork_child);
	struct ibv_device **list = err ? NULL : shca_own_device_list(&n);

	if (!list)
		return err ? err : -ENOMEM;
	fork_handler = true;
	context = shca_open_device(list[0]);
	free(list);
	if (!context)
		return -errno;
	struct shca_member *m = shca_context_of(context)->m;
	hash_fabric(m->hdr->name);
	port_seen = atomic_load(&m->hdr->ports.events);
	bell = shca_fd_note(fd_raise_over_select(shca_bell_open(m, m->proc->cm_addr)));
	if (bell.n < 0) {
		err = bell.n;
		shca_close_device(context);
		context = NULL;
	}
	return err;
}

int rcm_device_open(bool *opened)
{
	int err = 0;

	*opened = false;
	pthread_mutex_lock(&device_lock);
	if (!context) {
		err = device_open_locked();
		*opened = !err;
	}
	pthread_mutex_unlock(&device_lock);
	return err;
}

void rcm_device_close(void)
{
	pthread_mutex_lock(&device_lock);
	if (context) {
		shca_context_of(context)->m->proc->cm_addr[0] = 0;
		shca_fd_close(&bell);
		bell.n = -1;
		shca_close_device(context);
		context = NULL;
	}
	pthread_mutex_unlock(&device_lock);
}

bool rcm_device_broken(void)
{
	pthread_mutex_lock(&device_lock);
	bool broken = context && shca_device_broken(shca_context_of(context)->m);
	pthread_mutex_unlock(&device_lock);
	return broken;
}

void rcm_port_bell_drain(void)
{
	char ring[64];

	if (rcm_port_bell() >= 0)
		while (recv(bell.n, ring, sizeof(ring), MSG_DONTWAIT) >= 0)
			;
}

bool rcm_port_event_take(enum ibv_event_type *type, uint32_t *port)
{
	bool any = false;

	pthread_mutex_lock(&device_lock);
	struct shca_ports *p = context ? &shca_context_of(context)->m->hdr->ports : NULL;
	uint64_t events = p ? atomic_load(&p->events) : 0;
	if (p && port_seen < events) {
		if (events - port_seen > SHCA_PORT_EVENTS)
			port_seen = events - SHCA_PORT_EVENTS;
		uint64_t e = atomic_load(&p->event[port_seen % SHCA_PORT_EVENTS]);
		*type = SHCA_EVENT_TYPE(e);
		*port = SHCA_EVENT_PORT(e);
		port_seen++;
		any = true;
	}
	pthread_mutex_unlock(&device_lock);
	return any;
}
