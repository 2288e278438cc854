/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Blocks of a v-collective (vector.c) that do not fit a mailbox cell: sent as messages, or copied by the receiver from the
 * sender's memory.
 *
 * Message: the cell has the length and CELL_MESSAGE; a message with the operation's tag follows, as on the host executor. The
 * receiver posts the receive after the cell has come. So does each further edge between two neighbors; such an edge of no bytes
 * has no message, as on the host. If only one end has no bytes, there is no error, but a receive that waits, or a message that is
 * never received. A message needs both ranks in the library.
 *
 * Single copy: from hdl_sc_from() bytes on, if the device lets peers read all memory, the cell has the address and CELL_ADDRESS.
 * The receiver reads the block by RDMA READ, as in single_copy/, or refuses it, and then writes the operation number to a word
 * at the sender (hdl_slot_region.done_at). The sender's operation ends then; or earlier, if the address is that of a staging
 * buffer (R1 of single_copy/single_copy.c). Persistent operations use messages only: their requests have no place on the
 * communicator's queues. Only the receiver need be in the library.
 */
#include <stdlib.h>
#include <string.h>

#include "collectives/mailbox/mailbox.h"
#include "collectives/select/select.h"

/* Most bytes that are read before they are unpacked: they stay in the cache. */
#define UNPACK_CHUNK ((size_t)64 << 10)

/* ---- messages ------------------------------------------------------------------------------------------------------ */

static struct hdl_node vector_copy_node_of(const struct vblock *p, const char *at)
{
	return (struct hdl_node){ .kind = HDL_N_SEND, .src_space = HDL_SP_SEND, .dst_space = HDL_SP_NONE, .peer = p->peer,
				  .sub = hdl_sub(p->edge), .src_off = (uintptr_t)at, .len = p->bytes };
}

static void vector_copy_sent(struct hdl_send *send, int err)
{
	struct vblock *p = container_of(send, struct vblock, send);
	const struct hdl_node n = vector_copy_node_of(p, NULL);

	p->sending = false;
	p->vrun->pending--;
	if (err)
		hdl_run_error(p->vrun->run, hdl_run_errno(p->vrun->run, &n, err));
}

/* Address of the block's bytes, packed or contiguous; NULL if there are none. */
static char *block_addr(const struct vblock *p)
{
	return p->copy ? p->copy : p->bytes ? hdl_vblock_run(&p->block) : NULL;
}

void hdl_vblock_send(struct hdl_run *run, struct vblock *p)
{
	const struct hdl_node n = vector_copy_node_of(p, block_addr(p));
	int rc;

	if (hdl_run_send_now(run, &n))
		return;
	p->send = (struct hdl_send){ .done = vector_copy_sent };
	p->sending = true;
	p->vrun->pending++;
	rc = hdl_run_send(run, &n, &p->send);
	if (!rc)
		return;
	p->sending = false;
	p->vrun->pending--;
	if (rc < 0)
		hdl_run_error(run, hdl_run_errno(run, &n, rc));
}

__attribute__((noinline, cold)) void hdl_vblock_refuse(struct hdl_run *run, const struct vblock *p, uint64_t came)
{
	hdl_reason_set("%llu bytes came from rank %d where %zu were expected: " HDL_CALLS_DIFFER,
		       (unsigned long long)came, p->peer, p->bytes);
	hdl_run_error(run, came > p->bytes ? MPI_ERR_TRUNCATE : MPI_ERR_COUNT);
}

static void vector_received(struct hdl_req *req)
{
	struct vblock *p = req->notify_arg;
	struct hdl_run *run = p->vrun->run;

	p->req = NULL;
	p->vrun->pending--;
	if (unlikely(req->error)) {
		if (req->error == MPI_ERR_PROC_ABORTED)
			hdl_ft_member_failed(run->comm->coll, p->peer);
		hdl_req_explain(req);
		hdl_run_error(run, req->error);
	} else if (!hdl_status_cancelled(&req->status) && unlikely((size_t)hdl_status_bytes(&req->status) != p->bytes)) {
		hdl_vblock_refuse(run, p, (uint64_t)hdl_status_bytes(&req->status));
	}
	hdl_req_free(req);
}

void hdl_vblock_receive(struct hdl_run *run, struct vblock *p)
{
	struct hdl_req *req;
	int rc = hdl_irecv((void *)p->block.buf, p->block.count, p->block.type, p->peer, run->tag | (int32_t)hdl_sub(p->edge),
			   run->comm, (uint16_t)(run->comm->context + 1), &req);

	if (rc) {
		if (rc == MPI_ERR_PROC_ABORTED)
			hdl_ft_member_failed(run->comm->coll, p->peer);
		hdl_run_error(run, rc);
		return;
	}
	p->req = req;
	p->vrun->pending++;
	req->notify_arg = p;
	if (req->done)
		vector_received(req);
	else
		req->notify = vector_received;
}

/* ---- single copy: the sender ----------------------------------------------------------------------------------------- */

/* Offset of the word that `rank` writes, with the operation number + 1, after the last read. */
static size_t done_at(const struct hdl_queues *h, const struct hdl_run *run, int rank)
{
	return hdl_cell_prog_region(run->vector->prog)->done_at + (run->slot * (size_t)h->size + (size_t)rank) * sizeof(uint64_t);
}

/* The same block goes to all ranks. */
static bool same_for_all(const struct hdl_vector_run *x)
{
	return x->a.nin == 1;
}

static size_t staged_bytes(const struct vblock *p)
{
	return align_up(p->bytes, 64);
}

void hdl_vector_stage(struct hdl_queues *h, struct hdl_run *run)
{
	struct hdl_vector_run *x = run->vector;
	const struct vblock *last = NULL;
	size_t bytes = 0, most = same_for_all(x) ? HDL_SC_STAGE_FOR_ALL : HDL_SC_STAGE_IN_BLOCKS;
	bool several;

	for (const struct vblock *p = x->sends, *end = p + x->nsends; p < end; p++)
		if (hdl_vblock_is_single_copy(h, run, p) && !p->copy) {
			x->staged_ranks |= 1u << p->peer;
			bytes = same_for_all(x) ? staged_bytes(p) : bytes + staged_bytes(p);
			last = p;
		}
	several = x->staged_ranks & (x->staged_ranks - 1);
	if (last && bytes <= most)
		x->staging = hdl_sc_stage_until(h, run, bytes, x->staged_ranks, same_for_all(x) && several ? 0 : bytes,
					  hdl_cell_prog_region(x->prog)->mem + done_at(h, run, 0), sizeof(uint64_t));
	if (!x->staging)
		x->staged_ranks = 0;
	else if (same_for_all(x))
		hdl_sc_stage_copy(h, x->staging, block_addr(last), last->bytes);
}

char *hdl_vblock_read_addr(struct hdl_queues *h, struct vblock *p)
{
	struct hdl_vector_run *x = p->vrun;
	char *given = block_addr(p), *staging = x->staging;

	if (!(x->staged_ranks & 1u << p->peer)) {
		x->awaiting_fin |= 1u << p->peer;
		return given;
	}
	if (!same_for_all(x)) {
		hdl_sc_stage_copy(h, staging, given, p->bytes);
		x->staging += staged_bytes(p);
	}
	return staging;
}

void hdl_vector_poll_fin(struct hdl_queues *h, struct hdl_run *run)
{
	struct hdl_vector_run *x = run->vector;
	const uint64_t *done = (const uint64_t *)(hdl_cell_prog_region(x->prog)->mem + done_at(h, run, 0));

	for (int r = 0; x->awaiting_fin >> r; r++)
		if (x->awaiting_fin & 1u << r && __atomic_load_n(done + r, __ATOMIC_ACQUIRE) == run->opno + 1)
			x->awaiting_fin &= ~(1u << r);
}

/* ---- single copy: the receiver --------------------------------------------------------------------------------------- */

static void begin_copy(struct vblock *p, size_t off)
{
	p->copying = true;
	p->copied = off;
	p->position = 0;
	p->vrun->pending++;
	p->vrun->ncopies++;
}

void hdl_vblock_skip_read(struct vblock *p)
{
	begin_copy(p, p->bytes);
}

void hdl_vblock_copy(struct hdl_run *run, struct vblock *p, const char *cell_end)
{
	memcpy(&p->addr, cell_end - sizeof(p->addr), sizeof(p->addr));
	if (!hdl_vblock_run(&p->block) && !hdl_vblock_alloc_copy(p, p->bytes < UNPACK_CHUNK ? p->bytes : UNPACK_CHUNK)) {
		hdl_reason_set("%s: no memory to unpack the block of rank %d", hdl_coll_name(run->args.coll), p->peer);
		hdl_run_error(run, MPI_ERR_NO_MEM);
		hdl_vblock_skip_read(p);
		return;
	}
	begin_copy(p, 0);
}

/* Advances one copy. Returns true at its end. */
static bool advance_copy(struct hdl_queues *h, struct hdl_run *run, struct vblock *p)
{
	size_t most = p->copy ? UNPACK_CHUNK : HDL_SC_TURN;

	while (p->copied < p->bytes) {
		size_t rest = p->bytes - p->copied, len = rest < most ? rest : most;
		char *to = p->copy ? p->copy : hdl_vblock_run(&p->block) + p->copied;

		if (!p->position && hdl_vector_more(run))
			return false;
		if (!p->position) {
			p->position = hdl_sc_copy_post(h, run, p->peer, false, to, p->addr + p->copied, len);
			p->vrun->turn_bytes += p->position ? len : 0;
		}
		if (!p->position || hdl_queues_are_broken(h) || !hdl_sc_copy_done(h, p->peer, p->position))
			return false;
		if (p->copy)
			hdl_unpack((void *)p->block.buf, p->copy, p->block.count, p->block.type, (MPI_Count)p->copied, len);
		p->position = 0;
		p->copied += len;
	}
	return true;
}

/* Returns false if the queue has no room: to be called again. */
static bool send_fin(struct hdl_queues *h, struct hdl_run *run, const struct vblock *p)
{
	const uint64_t number = run->opno + 1;

	return hdl_sc_ctrl_send_at(h, run, p->peer, hdl_cell_prog_region(p->vrun->prog), done_at(h, run, h->rank),
				   done_at(h, run, p->peer), &number, sizeof(number));
}

void hdl_vector_copy(struct hdl_queues *h, struct hdl_run *run)
{
	struct hdl_vector_run *x = run->vector;

	for (struct vblock *p = x->recvs, *end = p + x->nrecvs; x->ncopies && p < end; p++)
		if (p->copying && advance_copy(h, run, p) && send_fin(h, run, p)) {
			p->copying = false;
			x->ncopies--;
			x->pending--;
		}
}

bool hdl_vector_more(const struct hdl_run *run)
{
	return run->vector->turn_bytes >= HDL_SC_TURN;
}

/* ---- after an error ---------------------------------------------------------------------------------------------------- */

static void vector_copy_withdraw(struct hdl_run *run, struct vblock *p)
{
	if (p->withdrawn || (!p->sending && !p->req))
		return;
	p->withdrawn = true;
	if (p->sending)
		hdl_send_withdraw(&p->send, p->peer, run->comm);
	else
		hdl_req_cancel(p->req);
}

bool hdl_vector_stop(struct hdl_run *run)
{
	struct hdl_vector_run *x = run->vector;

	for (struct vblock *p = x->sends, *end = p + x->nsends; p < end; p++)
		vector_copy_withdraw(run, p);
	for (struct vblock *p = x->recvs, *end = p + x->nrecvs; p < end; p++) {
		vector_copy_withdraw(run, p);
		x->pending -= p->copying;
		p->copying = false;
	}
	x->ncopies = 0;
	return !x->pending;
}
