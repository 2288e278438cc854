/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The queue cache: connected queues and slots of freed communicators. The next communicator of the same processes, in the same
 * order, takes them over. No queue is created, destroyed or connected for that communicator, or when a communicator is freed. See
 * queues.h (c), (d) and SLOTS.md for the reason why this is safe; bringup.c for the ranks' agreement on the queues.
 */
#include <stdlib.h>

#include "collectives/mailbox/mailbox.h"
#include "collectives/queues/queues.h"

/* List in the order of insertion, oldest first: programs free communicators in the same order on all ranks, so that ranks offer
 * the same queues. */
static struct hdl_queues *kept, **kept_end = &kept;
static uint32_t nkept;

/* With more than KEPT_MOST cached, the oldest are destroyed when other queues are made, at most GO_AT_ONCE at a time, since each
 * takes milliseconds. Queues of communicators that a program makes again are reused as a rule; those of communicators that never
 * return go in the end. */
#define KEPT_MOST 64
#define GO_AT_ONCE 2

static void unlink_at(struct hdl_queues **at)
{
	struct hdl_queues *h = *at;

	*at = h->next;
	if (!h->next)
		kept_end = at;
	h->next = NULL;
	nkept--;
}

static bool is_of(const struct hdl_queues *h, const struct hdl_comm *comm)
{
	if (h->size != comm->size || h->rank != comm->rank)
		return false;
	for (int r = 0; r < h->size; r++)
		if (h->members[r] != hdl_comm_proc(comm, r))
			return false;
	return true;
}

struct hdl_queues *hdl_queue_cache_take(const struct hdl_comm *comm, int index)
{
	for (struct hdl_queues **at = &kept; *at; at = &(*at)->next) {
		struct hdl_queues *h = *at;

		if (h->index != index || !is_of(h, comm))
			continue;
		unlink_at(at);
		return h;
	}
	return NULL;
}

/* Returns true if the queues may be cached. An error on this rank may not have been one on its peers, so that the ranks' counters
 * may differ. */
static bool is_sound(const struct hdl_queues *h)
{
	return hdl_queues_take_requests(h) && !h->unfit && h->posted == h->retired && !h->queue && !h->started;
}

bool hdl_queue_cache_keep(struct hdl_queues *h)
{
	if (!is_sound(h))
		return false;
	h->cc = NULL;
	h->next = NULL;
	*kept_end = h;
	kept_end = &h->next;
	nkept++;
	return true;
}

bool hdl_queue_cache_evict(void)
{
	struct hdl_queues *h = kept;

	if (!h)
		return false;
	unlink_at(&kept);
	hdl_queues_end(h);
	return true;
}

/* Returns true if a member is of a job with which this process has no communicator any more: its processes may have ended. */
static bool is_of_departed(const struct hdl_queues *h)
{
	for (int r = 0; r < h->size; r++)
		if (!hdl_proc_is_ours(h->members[r]) && hdl_job_of(h->members[r])->left)
			return true;
	return false;
}

void hdl_queue_cache_depart(void)
{
	for (struct hdl_queues **at = &kept, *h = kept; h; h = *at) {
		if (!is_of_departed(h)) {
			at = &h->next;
			continue;
		}
		unlink_at(at);
		hdl_queues_end(h);
	}
}

void hdl_queue_cache_trim(void)
{
	for (int i = 0; i < GO_AT_ONCE && nkept > KEPT_MOST; i++)
		hdl_queue_cache_evict();
}

/* Returns true if all posted requests have left, so that destroying the queues does not wait. False, for example, while a port is
 * down. */
static bool queue_cache_has_left(struct hdl_queues *h)
{
	if (!h->mailbox)
		hdl_queues_drain(h);
	for (uint16_t i = 0; i < h->nlinks; i++)
		if (h->mailbox ? hdl_cell_waits(h->links[i]) : h->links[i]->sq_done != h->links[i]->sq_posted)
			return false;
	return true;
}

bool hdl_queue_cache_give(void)
{
	bool any = false;

	for (struct hdl_queues **at = &kept, *h = kept; h; h = *at) {
		if (!queue_cache_has_left(h)) {
			at = &h->next;
			continue;
		}
		unlink_at(at);
		hdl_queues_end(h);
		any = true;
	}
	return any;
}

void hdl_queue_cache_fini(void)
{
	while (hdl_queue_cache_evict())
		;
}
