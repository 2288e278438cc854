/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The queues of a communicator as all executors use them: completions of this rank's own requests, requests that a queue refuses,
 * the list of the queues that progress polls, and the stop after an error. See queues.h for links and slots.
 */
#include <string.h>

#include "collectives/queues/queues.h"
#include "collectives/select/select.h"

#define BATCH 16

/* A completion in error. Returns true if the request's peer may have ended in order (hdl_queues_parted): all requests to that
 * peer count as complete then. The link is that of the queue pair, since requests that are not signaled have any wr_id. */
static __attribute__((noinline, cold)) bool has_parted(struct hdl_queues *h, const struct ibv_wc *wc)
{
	for (uint16_t i = 0; i < h->nlinks; i++) {
		struct hdl_coll_link *l = h->links[i];

		if (l->qp->qp_num != wc->qp_num || !hdl_queues_parted(h, l, wc->status))
			continue;
		l->sq_done = l->sq_posted;
		if (wc->wr_id & HDL_ID_RETIRES)
			h->ring[wc->wr_id >> HDL_ID_PLACE_SHIFT & 0xff]->outstanding--;
		return true;
	}
	return false;
}

void hdl_queues_drain(struct hdl_queues *h)
{
	struct ibv_wc wc[BATCH];
	int n;

	do {
		n = ibv_poll_cq(h->local_cq, BATCH, wc);
		for (int i = 0; i < n; i++) {
			struct hdl_coll_link *l = h->links[wc[i].wr_id >> HDL_ID_LINK_SHIFT & 0x3fff];

			if (unlikely(wc[i].status != IBV_WC_SUCCESS) && has_parted(h, &wc[i]))
				continue;
			if (unlikely(wc[i].status == IBV_WC_WR_FLUSH_ERR && h->mailbox && wc[i].wr_id & HDL_ID_RECEIVE)) {
				hdl_queues_peer_gone(h, l->peer);
				continue;
			}
			if (unlikely(wc[i].status != IBV_WC_SUCCESS)) {
				hdl_queues_failed(h, wc[i].wr_id & HDL_ID_RECEIVE ? "connection from" : "request to", l->peer,
						  wc[i].status);
				continue;
			}
			hdl_link_completed(h, l, wc[i].wr_id);
		}
	} while (n == BATCH);
	if (unlikely(n < 0))
		hdl_queues_failed(h, "polling the completion queue of", h->rank, IBV_WC_GENERAL_ERR);
}

__attribute__((noinline, cold)) void hdl_queues_refused(struct hdl_queues *h, const struct hdl_run *run, int peer, int err)
{
	hdl_error("offloaded %s: posting a request to rank %d failed (%s): the queue is in error or shorter than it was created",
		  run ? hdl_coll_name(run->args.coll) : "collectives", peer, strerror(err));
	hdl_queues_break(h, HDL_QUEUES_IN_ERROR);
}

void hdl_queues_enlist(struct hdl_queues *h)
{
	if (h->link)
		return;
	h->next = hdl_queues_active;
	h->link = &hdl_queues_active;
	if (hdl_queues_active)
		hdl_queues_active->link = &h->next;
	hdl_queues_active = h;
}

void hdl_queues_stop(struct hdl_queues *h)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

	if (h->health == HDL_QUEUES_STOPPED || !h->mailbox)
		return;
	hdl_queues_on(h, HDL_QUEUES_ON_STOP);
	for (uint16_t i = 0; i < h->nlinks; i++)
		ibv_modify_qp(h->links[i]->qp, &attr, IBV_QP_STATE);
}
