/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Control records (hdl_sc_ctrl_send, hdl_sc_ctrl_poll) and copies (RDMA READ, RDMA WRITE) between the ranks' buffers, and errors
 * of lengths. single_copy.c has the protocol.
 */
#include <string.h>

#include "base/memcheck.h"
#include "collectives/mailbox/mailbox.h"
#include "collectives/single_copy/single_copy.h"

/* ---- control records --------------------------------------------------------------------------------------------- */

/* Lays out HDL_REGION_SC: a slot has the records from each rank. The staging half, for devices that do not take a record inline,
 * has the records for each rank. */
void hdl_sc_lay_out(struct hdl_queues *h)
{
	size_t slot_bytes = HDL_SC_CTRLS * (size_t)h->size * sizeof(struct hdl_sc_ctrl);

	/* single-copy operations use slots of class HDL_SLOT_SHORT */
	h->region[HDL_REGION_SC] = (struct hdl_slot_region){ .cell_bytes = sizeof(struct hdl_sc_ctrl), .slot_bytes = slot_bytes,
						     .bytes = HDL_SLOTS(h->class[HDL_SLOT_SHORT].depth) * slot_bytes };
}

static bool sc_has_room(struct hdl_queues *h, const struct hdl_coll_link *l)
{
	if (unlikely(!hdl_link_room(l)))
		hdl_queues_drain(h);
	return hdl_link_room(l);
}

static void sc_post(struct hdl_queues *h, struct hdl_run *run, struct hdl_coll_link *l, struct ibv_send_wr *wr, bool retires)
{
	struct ibv_send_wr *bad;
	int err;

	l->sq_posted++;
	if (h->cell_room)
		h->cell_room--;		/* cell_room is the room of the fullest queue, which may be this one */
	if (wr->send_flags & IBV_SEND_SIGNALED)
		wr->wr_id = hdl_link_signal_cell(h, l, retires ? run : NULL);
	err = ibv_post_send(l->qp, wr, &bad);
	if (unlikely(err))
		hdl_queues_refused(h, run, l->peer, err);
	hdl_tp_count_rc(hdl_mpi_tp, 1, wr->sg_list->length);
}

/* Returns false if the send queue is full. */
bool hdl_sc_ctrl_send_at(struct hdl_queues *h, struct hdl_run *run, int peer, const struct hdl_slot_region *a,
			 size_t remote_off, size_t copy_off, const void *words, size_t bytes)
{
	struct hdl_coll_link *l = h->pair[peer];
	bool staged = l->max_inline < bytes;
	struct ibv_sge sge = { .addr = (uintptr_t)words, .length = (uint32_t)bytes, .lkey = a->mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
				  .send_flags = staged ? IBV_SEND_SIGNALED : IBV_SEND_INLINE };

	if (!sc_has_room(h, l))
		return false;
	if (staged) {
		sge.addr = (uintptr_t)a->mem + a->staging_off + copy_off;
		memcpy((void *)(uintptr_t)sge.addr, words, bytes);
	} else if (hdl_link_signal_due(l)) {
		wr.send_flags |= IBV_SEND_SIGNALED;	/* the completion makes room on the queue */
	}
	wr.wr.rdma.remote_addr = a->peers[peer].addr + remote_off;
	wr.wr.rdma.rkey = a->peers[peer].rkey;
	sc_post(h, run, l, &wr, staged);
	return true;
}

bool hdl_sc_ctrl_send(struct hdl_queues *h, struct hdl_run *run, int peer, int kind, struct hdl_sc_ctrl ctrl)
{
	ctrl.number = run->opno + 1;
	return hdl_sc_ctrl_send_at(h, run, peer, &h->region[HDL_REGION_SC], hdl_sc_ctrl_at(h, run, kind, h->rank),
				   hdl_sc_ctrl_at(h, run, kind, peer), &ctrl, sizeof(ctrl));
}

/* ---- copies --------------------------------------------------------------------------------------------------- */

uint64_t hdl_sc_copy_post(struct hdl_queues *h, struct hdl_run *run, int peer, bool write, char *here, uint64_t there, size_t len)
{
	struct hdl_coll_link *l = h->pair[peer];
	struct ibv_sge sge = { .addr = (uintptr_t)here, .length = (uint32_t)len, .lkey = h->exposed_lkey };
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = write ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ,
				  .send_flags = IBV_SEND_SIGNALED };

	if (!sc_has_room(h, l))
		return 0;
	wr.wr.rdma.remote_addr = there;
	wr.wr.rdma.rkey = h->peers[peer].exposed;
	if (!write)
		memcheck_received(here, len);
	sc_post(h, run, l, &wr, false);
	return l->sq_posted;
}

/* Returns false if the send queue is full. */
bool hdl_sc_copy(struct hdl_queues *h, struct hdl_run *run, int peer, bool write, char *here, uint64_t there, size_t len)
{
	struct hdl_sc_run *x = run->sc;
	uint64_t position = hdl_sc_copy_post(h, run, peer, write, here, there, len);

	if (!position)
		return false;
	x->copying |= 1u << peer;
	x->position[peer] = position;
	x->turn_bytes += len;
	return true;
}

/* ---- lengths -------------------------------------------------------------------------------------------------- */

void hdl_sc_refuse(struct hdl_run *run, int peer, uint64_t came, uint64_t expected)
{
	run->sc->failed = true;
	hdl_reason_set("rank %d has %llu bytes where %llu were expected: " HDL_CALLS_DIFFER, peer,
		       (unsigned long long)came, (unsigned long long)expected);
	hdl_run_error(run, came > expected ? MPI_ERR_TRUNCATE : MPI_ERR_COUNT);
}

void hdl_sc_peer_failed(struct hdl_run *run, int peer)
{
	run->sc->failed = true;
	hdl_reason_set("rank %d could not do its part: " HDL_CALLS_DIFFER, peer);
	hdl_run_error(run, MPI_ERR_COUNT);
}
