/* SPDX-License-Identifier: BSD-3-Clause */
/* A channel's queue of events. */
#include <errno.h>
#include <stdlib.h>

#include "rdmacm/internal.h"

struct rcm_event *rcm_event_new(struct rcm_id *id, enum rcm_event_type type, int status)
{
	struct rcm_event *ev = calloc(1, sizeof(*ev));

	if (!ev) {
		errno = shca_no_memory("an event of RDMA CM");
		return NULL;
	}
	ev->id = id;
	ev->resp.uid = id->uid;
	ev->resp.id = id->handle;
	ev->resp.event = type;
	ev->resp.status = (uint32_t)status;
	return ev;
}

void rcm_push(struct rcm_channel *ch, struct rcm_event *ev)
{
	ev->next = NULL;
	*ch->events_last = ev;
	ch->events_last = &ev->next;
	ev->id->events_queued++;
	if (!ch->signaled)
		rcm_channel_signal(ch, ch->epoll, true);
}

int rcm_report(struct rcm_id *id, enum rcm_event_type type, int status)
{
	if (!id->uid)
		return 0;
	struct rcm_event *ev = rcm_event_new(id, type, status);
	if (!ev)
		return -ENOMEM;
	rcm_push(atomic_load(&id->channel), ev);
	return 0;
}

struct rcm_event *rcm_event_unlink(struct rcm_channel *ch, struct rcm_event **at)
{
	struct rcm_event *ev = *at;

	*at = ev->next;
	if (!ev->next)
		ch->events_last = at;
	ev->id->events_queued--;
	if (!ch->events && ch->signaled)
		rcm_channel_signal(ch, ch->epoll, false);
	return ev;
}
