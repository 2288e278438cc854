/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The exchanges of queues and regions among the ranks of a communicator: Allgathers on the host executor, for which no rank
 * blocks; and the reasons why queues were refused.
 */
#include <errno.h>
#include <string.h>

#include "collectives/host/host.h"
#include "collectives/queues/queues.h"

int hdl_queues_allgather_as(struct hdl_queues *h, struct hdl_graph **graph, uint32_t number, void *buf, size_t bytes,
		      void (*done)(struct hdl_run *), void *arg)
{
	struct hdl_shape s = { .coll = HDL_ALLGATHER, .rank = h->rank, .size = h->size, .in_place = true, .bytes = bytes };
	struct hdl_run *run;

	hdl_graph_free(*graph);
	*graph = hdl_build_allgather_bruck(&s);
	run = *graph ? hdl_run_new(*graph, h->cc->comm) : NULL;
	if (!run || hdl_run_prepare_host(run)) {
		hdl_run_free(run);
		hdl_graph_free(*graph);
		*graph = NULL;
		return -ENOMEM;
	}
	/* blocks are received into tmp first: the ones that do not come stay HDL_STATUS_UNKNOWN_BYTE */
	memset(run->tmp.p, HDL_STATUS_UNKNOWN_BYTE, (*graph)->tmp_bytes);
	run->mode = HDL_RUN_ALL;
	run->base[HDL_SP_RECV] = buf;
	run->args.coll = HDL_ALLGATHER;
	/* Several kinds of queues may be brought up at a time, and their exchanges proceed in a different order on each rank. */
	run->tag = HDL_WIRE_TAG | hdl_coll_tag(HDL_QUEUE_KINDS * number + (uint32_t)h->index);
	run->done = done;
	run->arg = arg;
	hdl_host_start(run);
	return 0;
}

int hdl_queues_allgather(struct hdl_queues *h, void *buf, size_t bytes, void (*done)(struct hdl_run *), void *arg)
{
	return hdl_queues_allgather_as(h, &h->wire_graph, h->wire_seq++ % HDL_COUNTED_NUMBERS, buf, bytes, done, arg);
}

/* The first reason is kept. */
void hdl_queues_note_reason(struct hdl_queues *h, const char *what, int rank, int status)
{
	if (h->why_refused[0])
		return;
	if (status == HDL_STATUS_UNKNOWN)
		snprintf(h->why_refused, sizeof(h->why_refused), "offload queues: the record of rank %d did not come", rank);
	else if (status == HDL_NOT_IN_ORDER)
		snprintf(h->why_refused, sizeof(h->why_refused),
			 "device %s of rank %d does not promise that the bytes of a write land in order",
			 ibv_get_device_name(h->port->ctx->device), rank);
	else
		snprintf(h->why_refused, sizeof(h->why_refused), "offload queues: rank %d could not %s (%s)", rank, what,
			 strerror(status));
}

/* The other ranks wait for this rank's part of the exchange: hdl_queues_break notifies them. */
void hdl_queues_bringup_failed(struct hdl_queues *h)
{
	h->wire_error = MPI_ERR_NO_MEM;
	snprintf(h->why_refused, sizeof(h->why_refused),
		 "no memory to wire up offloaded collectives; HEDDLE_COLL_EXECUTOR=host does without");
	h->state = HDL_QUEUES_READY;	/* hdl_queues_break below: no operation is posted */
	h->offered = false;
	hdl_queues_free_records(h);
	hdl_queues_break(h, h->why_refused);
}
