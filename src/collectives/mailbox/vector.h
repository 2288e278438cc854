/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Inside of mailbox/vector.c, vector_copy.c and vector_reduce.c: a v-collective's blocks for each peer, and from each peer.
 */
#ifndef HDL_MAILBOX_VECTOR_H
#define HDL_MAILBOX_VECTOR_H

#include "collectives/queues/queues.h"
#include "collectives/host/vcoll.h"
#include "collectives/single_copy/single_copy.h"
#include "collectives/select/tuner.h"

/* A block for a peer, or from a peer. */
struct vblock {
	struct hdl_vcoll_block block;
	size_t skip, bytes;		/* offset and length of the block within the packed form of `block` */
	int peer;
	int edge;			/* index among the edges between the two ranks */
	bool in_cell;			/* the cell between the two ranks announces this block; false: a further edge between
					 * two neighbors */
	struct hdl_vector_run *vrun;
	/* Blocks that travel as a message, or from other memory than the user's buffer. */
	char *copy;			/* the packed block, in `memory`; of a received block: up to UNPACKED bytes before they
					 * are unpacked */
	struct hdl_scratch memory;
	struct hdl_send send;
	struct hdl_req *req;
	bool sending, withdrawn;
	bool expects_message;			/* persistent: the last start had a message here: receive posted at start */
	/* Blocks that the receiver copies by RDMA READ. */
	uint64_t addr;			/* address at the sender */
	bool cell_read;			/* receiver: the cell was read, or the block has none */
	bool copying;			/* receiver: the copy is in progress, or its end was not signalled yet */
	size_t copied;			/* receiver: bytes copied so far */
	uint64_t position;		/* receiver: position in the send queue of the READ in flight; 0: none */
};

struct hdl_vector_run {
	struct hdl_run *run;
	const struct hdl_coll_prog *prog;	/* the program it was posted by */
	struct hdl_vcoll a;		/* the arguments, for the host executor; the lists are in `memory` */
	void *memory;
	struct vblock *sends, *recvs;
	uint32_t nsends, nrecvs, cap;	/* cap: entries of `sends` and `recvs` together */
	struct vblock *cell_block[HDL_MAILBOX_RANKS];	/* the block in the cell for each rank */
	uint32_t pending;		/* messages and copies in progress */
	uint32_t ncopies;		/* of these, copies made by this rank */
	size_t turn_bytes;			/* bytes whose copy began in this turn */
	uint32_t awaiting_fin;			/* a bit per rank that has to signal that it has read the sender's memory */
	uint32_t staged_ranks;			/* a bit per rank that reads from the staging buffer: not waited for */
	char *staging;			/* staging buffer: where the next block goes; if all ranks get one block, that block */
	bool cells_read;			/* all cells were read */
	bool has_long;			/* some block for a peer does not travel in its cell */
	bool has_copies;			/* some vblock has a copy */
	bool types_retained;			/* the types of all blocks are retained */
	/* reductions (mailbox/vector_reduce.c) */
	bool reduces;
	struct hdl_reducer reducer;
	char *own;			/* this rank's operand, followed by the reducer's unpack buffers */
	size_t own_cap, own_bytes, unpack_off;
};

/* Address of the block's bytes if they are contiguous, else NULL. */
static inline char *hdl_vblock_run(const struct hdl_vcoll_block *p)
{
	void *buf = (void *)p->buf;

	return hdl_type_is_run(p->type, p->count) || hdl_type_find_run(p->type, p->count, &buf) ? buf : NULL;
}

/* Appends a block. Must: x->cap covers all blocks (hdl_vector_setup). edge: index among the edges between the two ranks. */
static inline struct vblock *hdl_vblock_add(struct hdl_vector_run *x, bool give, const struct hdl_vcoll_block *block, int peer,
					    int edge)
{
	struct vblock *p = give ? &x->sends[x->nsends++] : &x->recvs[x->nrecvs++];

	/* p->send is set when it is used */
	p->block = *block;
	p->skip = 0;
	p->bytes = hdl_vcoll_block_bytes(block);
	p->peer = peer;
	p->edge = edge;
	p->vrun = x;
	p->copy = NULL;
	p->req = NULL;
	p->in_cell = p->sending = p->withdrawn = p->expects_message = p->cell_read = p->copying = false;
	return p;
}

/* ---- blocks that do not travel in a cell (vector_copy.c) --------------------------------------------------------------- */

/* Returns true if the receiver copies the block from this rank's memory by RDMA READ. */
static inline bool hdl_vblock_is_single_copy(const struct hdl_queues *h, const struct hdl_run *run, const struct vblock *p)
{
	return p->in_cell && p->bytes > run->plan->key.bytes && p->bytes >= hdl_sc_from((enum hdl_coll)run->plan->key.coll) &&
	       h->exposed_rkey && hdl_cell_prog_region(run->vector->prog)->done_at;
}
/* Allocates a staging buffer for the blocks that receivers copy, if staging pays: then the sender need not wait for their reads.
 * Must be called before hdl_vblock_read_addr. */
void hdl_vector_stage(struct hdl_queues *h, struct hdl_run *run);
/* The address that the receiver reads from: the user's memory, or the block's copy in the staging buffer. */
char *hdl_vblock_read_addr(struct hdl_queues *h, struct vblock *p);
/* Allocates p->copy. Returns false if there is no memory. */
static inline bool hdl_vblock_alloc_copy(struct vblock *p, size_t bytes)
{
	if (!p->copy && !hdl_scratch_get(&p->memory, bytes))
		p->copy = p->memory.p;
	p->vrun->has_copies |= p->copy != NULL;
	return p->copy;
}
void hdl_vblock_send(struct hdl_run *run, struct vblock *p);
void hdl_vblock_receive(struct hdl_run *run, struct vblock *p);
/* Fails the run: `came` bytes came from the peer, and another length was expected. */
void hdl_vblock_refuse(struct hdl_run *run, const struct vblock *p, uint64_t came);
/* Receiver: starts to copy from the address at the end of the cell's data; or finishes without reading. */
void hdl_vblock_copy(struct hdl_run *run, struct vblock *p, const char *line);
void hdl_vblock_skip_read(struct vblock *p);
/* Advances all copies of this rank, and signals each finished one to its sender. */
void hdl_vector_copy(struct hdl_queues *h, struct hdl_run *run);
/* Sender: polls the words by which receivers signal that they have read. */
void hdl_vector_poll_fin(struct hdl_queues *h, struct hdl_run *run);

/* ---- a run (vector.c) ------------------------------------------------------------------------------------------------- */

/* Sets the run's blocks by these arguments; keeps: persistent, the blocks and their types stay for further starts. Returns false
 * if there is no memory; then hdl_vector_put_away frees the blocks that there are. */
bool hdl_vector_setup(struct hdl_run *run, struct hdl_comm *comm, const struct hdl_vcoll *a, bool keeps);
void hdl_vector_put_away(struct hdl_vector_run *x);
/* Packs the blocks that are sent as messages, or read after the call. Returns false if there is no memory; never after a call
 * that has returned true. */
bool hdl_vector_copy_out(struct hdl_vector_run *x, size_t most);
/* Copies the block of this rank for itself. */
void hdl_vector_take_own(struct hdl_run *run, const struct hdl_comm *comm, const struct hdl_vcoll *a);

/* ---- reductions (vector_reduce.c) ------------------------------------------------------------------------------------ */

/* Adds a vblock for each operand to be sent and received. */
void hdl_vector_add_operands(struct hdl_vector_run *x, const struct hdl_comm *comm, const struct hdl_vcoll *a);
/* Copies this rank's operand to x->own: the operation writes into it, and in place the result overwrites the input. Returns
 * false if there is no memory; never after it has returned true. */
bool hdl_vector_copy_operand(struct hdl_vector_run *x, const struct hdl_comm *comm, const struct hdl_vcoll *a);
/* Combines all operands and stores the result. Must: all cells have arrived. */
void hdl_vector_reduce(struct hdl_run *run);

#endif
