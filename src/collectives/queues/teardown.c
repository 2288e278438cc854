/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The end of a communicator's queues: flushed, so that all posted writes reach the peers, then destroyed with their slots.
 */
#include <stdlib.h>

#include "collectives/mailbox/mailbox.h"
#include "collectives/queues/queues.h"

/* ---- memory and queues ----------------------------------------------------------------------------------------- */

void hdl_region_unmake(struct hdl_queues *h, struct hdl_slot_region *a)
{
	if (a->mr && h->port)
		ibv_dereg_mr(a->mr);
	if (a->mem)
		hdl_tp_free(hdl_mpi_tp, a->mem);
	free(a->peers);
	a->mr = NULL;
	a->mem = NULL;
	a->peers = NULL;
}

/* The plan of a slot barrier keeps no spare runs. Must: no slot barrier is under way. */
static void free_slot_barrier(struct hdl_plan *plan)
{
	if (!plan)
		return;
	hdl_coll_prog_free(plan->prog);
	hdl_graph_free(plan->offload_graph);
	free(plan);
}

/* Destroys queues and slots, and the slot barriers that were compiled for them. */
void hdl_queues_unmake(struct hdl_queues *h)
{
	for (int i = 0; i < HDL_SLOT_CLASSES; i++) {
		free_slot_barrier(h->slot_barrier[i]);
		h->slot_barrier[i] = NULL;
	}
	for (uint16_t i = 0; h->links && i < h->nlinks; i++) {
		struct hdl_coll_link *l = h->links[i];

		if (l->qp)
			ibv_destroy_qp(l->qp);
		l->qp = NULL;
	}
	for (uint16_t i = 0; h->links && i < h->nlinks; i++) {
		if (h->links[i]->srq)
			ibv_destroy_srq(h->links[i]->srq);
		if (h->links[i]->rcq)
			ibv_destroy_cq(h->links[i]->rcq);
		free(h->links[i]);
	}
	h->nlinks = 0;
	if (h->local_cq)
		ibv_destroy_cq(h->local_cq);
	h->local_cq = NULL;
	if (h->pcoll_ops)
		h->pcoll_ops->clear(h);
	for (int k = 0; k < HDL_REGIONS; k++) {
		hdl_region_unmake(h, &h->region[k]);
		h->region[k].state = HDL_REGION_NONE;
	}
	free(h->segments);
	h->segments = NULL;
}

void hdl_queues_free_records(struct hdl_queues *h)
{
	hdl_graph_free(h->wire_graph);
	free(h->records);
	free(h->statuses);
	h->wire_graph = NULL;
	h->records = NULL;
	h->statuses = NULL;
}

void hdl_queues_destroy(struct hdl_queues *h)
{
	hdl_queues_unmake(h);
	hdl_queues_free_records(h);
	free(h->links);
	free(h->pair);
	free(h->out);
	free(h->in);
	free(h->ring);
	free(h->need);
	free(h->peers);
	free(h->members);
	hdl_autotune_free(h->staging_tune);
	free(h);
}

/* ---- flush ---------------------------------------------------------------------------------------------------- */

static void flush_to(struct hdl_queues *h, const struct hdl_coll_link *l, uint64_t position)
{
	while (h->health == HDL_QUEUES_SOUND && l->sq_done < position)
		hdl_queues_drain(h);
}

/* Waits until all posted requests have left: a peer's operation may need them, and destroying a queue drops them. Mailbox: most
 * cells left when they were posted and have no completion, so a signaled request is posted behind those that have not
 * (hdl_cell_follow). */
void hdl_queues_flush(struct hdl_queues *h)
{
	for (uint16_t i = 0; i < h->nlinks; i++) {
		struct hdl_coll_link *l = h->links[i];

		flush_to(h, l, h->mailbox ? l->sq_signaled : l->sq_posted);
		if (!h->mailbox || !hdl_cell_waits(l) || l->sq_signaled == l->sq_posted)
			continue;
		hdl_cell_follow(h, l, NULL);
		flush_to(h, l, l->sq_posted);
	}
}

void hdl_queues_end(struct hdl_queues *h)
{
	hdl_queues_flush(h);
	if (h->turn)
		h->turn = HDL_TURN_DESTROYS;
	else
		hdl_queues_destroy(h);
}
