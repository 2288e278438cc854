/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Events for tools (MPI-5.0 section 15.3.8): raised by the layers below src/mpi, delivered to callbacks by mpi/tool_event.c.
 * While no tool has registered for any event, hdl_event_raise is a load and a branch.
 */
#ifndef HDL_EVENTS_H
#define HDL_EVENTS_H

#include "base/base.h"

enum hdl_event {
	HDL_EVENT_PEER_FAILED,		/* struct hdl_event_peer; value: errno */
	HDL_EVENT_UNEXPECTED_LIMIT,	/* struct hdl_event_peer; value: bytes of unexpected messages in this process */
	HDL_EVENT_COLL_ON_HOST,		/* struct hdl_event_coll */
	HDL_EVENTS
};

/* Elements of an event, in the order in which MPI_T_event_read numbers them. */
struct hdl_event_peer {
	int process;			/* number of the process (runtime/jobs.h): of this job its rank in MPI_COMM_WORLD */
	unsigned long long value;
};
struct hdl_event_coll {
	int collective;			/* enum hdl_coll */
};

/* Set under the lock of runtime/threads.h; NULL: no registration. */
extern void (*hdl_event_hook)(enum hdl_event event, const void *elements);

/* Must: with hdl_threads, the thread holds the lock. */
static inline void hdl_event_raise(enum hdl_event event, const void *elements)
{
	if (unlikely(hdl_event_hook != NULL))
		hdl_event_hook(event, elements);
}

#endif
