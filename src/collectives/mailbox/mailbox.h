/* SPDX-License-Identifier: BSD-3-Clause */
/* Internal header of mailbox/: cells, and the operations that write and poll them: fixed, vector, persistent. */
#ifndef HDL_COLL_MAILBOX_H
#define HDL_COLL_MAILBOX_H

#include "collectives/host/host.h"
#include "collectives/queues/queues.h"
#include "collectives/select/select.h"
#include "collectives/single_copy/single_copy.h"

/* ---- cells (cell.c) -------------------------------------------------------------------------------------- */

/* Lays out the regions of cells. */
void hdl_cell_lay_out(struct hdl_queues *h);
enum hdl_cell_size hdl_cell_size(size_t bytes);
/* Class of slots of an operation whose cells carry `bytes` bytes. */
uint8_t hdl_cell_class(size_t bytes);
/* Fewest bytes of an operation of the class. */
size_t hdl_cell_least(uint8_t class);
/* Most bytes of any cell. */
size_t hdl_cell_most(void);
/* Bytes that a request can carry inline on every queue. */
uint32_t hdl_cell_inline(const struct hdl_queues *h);
/* Clears the memory in which sequence numbers stand: no cell of the region has arrived. */
void hdl_cell_clear(struct hdl_slot_region *a);
/* Returns true if the region's cells, or their trailers, do not fit inline, so that the region needs staging. */
bool hdl_cell_stages(const struct hdl_queues *h, const struct hdl_slot_region *a);
/* Lays out `slots` slots of one cell of a->cell_bytes per rank, from offset `at` of the region's memory on. Returns the offset
 * behind the slots. */
static inline size_t hdl_cell_place(struct hdl_slot_region *a, int ranks, uint64_t slots, size_t at)
{
	a->slot_bytes = a->cell_bytes * (size_t)ranks;
	a->at = at;
	return at + slots * a->slot_bytes;
}
/* Compiles the cells to write and to await, and the epilogue; mailbox has no prologue. If region->peers is NULL, hdl_cell_aim
 * must add the peers' addresses before the first post. Returns 0 or an errno. */
int hdl_cell_compile(struct hdl_queues *h, struct hdl_coll_prog *p, const struct hdl_slot_region *region);
void hdl_cell_aim(struct hdl_coll_prog *p, const struct hdl_region_peer *peers);
void hdl_cell_free(struct hdl_mailbox_prog *l);
/* Sets cell_room. Returns true if the queues have room for an operation. */
bool hdl_cell_find_room(struct hdl_queues *h);
/* Returns true if a cell that was posted to the peer may not have landed yet. */
static inline bool hdl_cell_waits(const struct hdl_coll_link *l)
{
	return __atomic_load_n(l->unfinished, __ATOMIC_ACQUIRE);
}
/* Returns a mask with a bit for each rank that may need this rank's CPU. */
uint32_t hdl_queues_cpu_sharers(struct hdl_queues *h);
/* Posts a signaled request behind all requests to the peer: the completion proves that the earlier requests have landed. run: the
 * operation that retires by this completion; NULL: none. */
void hdl_cell_follow(struct hdl_queues *h, struct hdl_coll_link *l, struct hdl_run *run);
/* Writes the cells of the operation. An error breaks the communicator's queues. Must: hdl_queues_number has numbered the run. */
void hdl_cell_post(struct hdl_queues *h, struct hdl_run *run, const struct hdl_coll_prog *prog);
/* arrived: returns true if the cells of all peers have arrived. await: the same, after polling as long as ranks take that enter
 * the call at the same time. */
bool hdl_cell_arrived(struct hdl_run *run, const struct hdl_coll_prog *prog);
bool hdl_cell_await(struct hdl_run *run, const struct hdl_coll_prog *prog);
/* Writes the cells that answer the peers' cells, and runs the epilogue. The run gets an error if a cell was of another length. */
void hdl_cell_take(struct hdl_queues *h, struct hdl_run *run, const struct hdl_coll_prog *prog);
/* Entries of the tables of fixed.c and vector_calls.c (exec.h). */
bool hdl_cell_poll(struct hdl_queues *h, struct hdl_run *run, const struct hdl_coll_prog *prog);
bool hdl_cell_has_room(struct hdl_queues *h, const struct hdl_coll_prog *prog);
int hdl_cell_region(const struct hdl_queues *h, const struct hdl_plan *plan);
struct hdl_coll_prog *hdl_mailbox_compile(struct hdl_queues *h, const struct hdl_plan *plan);

/* begin: as hdl_cell_post, without writing cells. put_vblock: writes cell i of the operation with this data and the word, whose
 * meaning is agreed with the receiver, for example the number of bytes. Must: the data stay unchanged until the operation
 * retires. */
void hdl_cell_begin(struct hdl_queues *h, struct hdl_run *run, const struct hdl_coll_prog *prog);
void hdl_cell_put_vblock(struct hdl_queues *h, struct hdl_run *run, const struct hdl_coll_prog *prog, uint32_t i,
			 const void *data, size_t len, uint64_t word);
uint32_t hdl_cell_puts(const struct hdl_coll_prog *prog);
int hdl_cell_put_to(const struct hdl_coll_prog *prog, uint32_t i);
/* Returns true if the cell of this peer has arrived. */
bool hdl_cell_has_come(const struct hdl_run *run, const struct hdl_coll_prog *prog, int peer);
/* Returns the word of the cell that has arrived from this peer, and sets *end to the end of the cell's data. */
uint64_t hdl_cell_word(const struct hdl_run *run, const struct hdl_coll_prog *prog, int peer, const char **end);

const struct hdl_slot_region *hdl_cell_prog_region(const struct hdl_coll_prog *prog);
/* Returns cell_bytes of struct hdl_shape for a collective of `bytes` bytes. */
size_t hdl_cell_bytes_of(size_t bytes);
/* Fast path of the blocking form: posts the operation if nothing is outstanding and nothing forbids a post, and polls its cells
 * for a bounded time. Returns true if the operation was posted; then run->finished tells whether the operation is complete. Must:
 * run is the plan's first spare one, with its buffers bound. */
bool hdl_queues_quick(struct hdl_cc *cc, struct hdl_run *run);
/* The same for v-collectives; copies the rank's block for itself, too. Must: all blocks are contiguous and no longer than the
 * plan's key.bytes; the lists in *a stay until the call returns. */
bool hdl_queues_quick_vcoll(struct hdl_cc *cc, struct hdl_run *run, const struct hdl_vcoll *a);

/* ---- persistent operations (persistent.c) --------------------------------------------------------------------------------- */

/* Persistent operations on mailbox (persistent.c), of at most HDL_PCOLL_MAX bytes. new: exchanges with all ranks, blocking; sets
 * run->pcoll, which stays NULL where the host executor must run the operation; returns an MPI error class, and on an error
 * revokes the communicator. free, must: the operation is not under way. */
#define HDL_PCOLL_MAX 1024
int hdl_pcoll_new(struct hdl_run *run);
/* Lengths of a v-collective's blocks. */
struct hdl_most {
	uint32_t fits;			/* bytes of the longest block that fits a cell */
	uint32_t any;			/* 1: some block has bytes; 0: none has */
};
/* Sets *most to the maximum over all ranks, before a persistent operation of this collective is made; *most stays as it is where
 * the queues were refused. Returns an MPI error class. */
int hdl_pcoll_agree(struct hdl_cc *cc, uint8_t coll, struct hdl_most *most);
void hdl_pcoll_free(struct hdl_pcoll *p);
void hdl_pcoll_start(struct hdl_pcoll *p);
void hdl_pcoll_look(struct hdl_req *req, bool waits);

/* ---- calls of v-collectives (vector_calls.c) ------------------------------------------------------------------------------ */

/* Runs a v-collective of an intracommunicator on mailbox (vector.c). Returns false if the caller must run the call on the host
 * executor. Otherwise *rc is an MPI error class, as hdl_vcoll_start returns. */
bool hdl_vector_begin(struct hdl_comm *comm, const struct hdl_vcoll *a, struct hdl_req **req, int *rc);
/* Fast path of the blocking form, for a call that a plan has run before. Returns false if nothing was posted: the caller must
 * call hdl_vector_begin. Otherwise *rc is an MPI error class. */
bool hdl_vector_quick(struct hdl_comm *comm, const struct hdl_vcoll *a, int *rc);
/* Makes a persistent request: returns as hdl_vector_begin. */
bool hdl_vector_prepare(struct hdl_comm *comm, const struct hdl_vcoll *a, struct hdl_req **req, int *rc);
/* Returns the bytes of the longest block that fits a cell, which are the bytes of the plan's key: the same on all ranks. longest:
 * bytes of the longest block of all ranks; used only if hdl_vector_known(coll). copied: the result of hdl_vector_copied. */
size_t hdl_vector_cell_max(enum hdl_coll coll, size_t longest, bool copied);
/* Returns true if an Allgatherv of long blocks is quicker when receivers copy from the senders' buffers than on the host
 * executor: of more ranks, each with a CPU, the messages of a ring are as quick. Reads size, oversubscribed and exposes of
 * *props. */
static inline bool hdl_vector_copied(const struct hdl_comm_props *props, bool persistent)
{
	return props->exposes && !persistent &&
	       (props->size == 2 || props->oversubscribed ||
		(hdl_vars.coll_single_copy_min && hdl_vars.coll_single_copy_min < 1024));
}
/* Returns true if mailbox does reductions by such an operation: with HEDDLE_REDUCE_ORDER, operations of programs stay on the host
 * executor. */
static inline bool hdl_vector_reduces_by(bool of_program)
{
	return !of_program || !*hdl_vars.reduce_order;
}
/* The queues were refused on all ranks: the host executor runs the operation instead. Returns false if there is no memory. */
bool hdl_vector_to_host(struct hdl_run *run);
void hdl_vector_free(struct hdl_vector_run *x);

/* ---- v-collectives by cells, messages and copies (vector.c, vector_copy.c) ------------------------------------------ */

/* prog: the plan's, or a persistent operation's own. */
void hdl_vector_post(struct hdl_queues *h, struct hdl_run *run, const struct hdl_coll_prog *prog);
/* An operation that hdl_queues_quick_vcoll posted has not ended in that call: sets up the run's lists of vblocks, from which
 * later turns complete the operation. Cannot fail: a spare run has allocated the lists before. */
void hdl_vector_go_on(struct hdl_run *run, const struct hdl_vcoll *a);
/* Does all work that is possible now. Returns true if the operation has nothing left to do. */
bool hdl_vector_turn(struct hdl_queues *h, struct hdl_run *run);
/* Returns true if the turn ended because its share of bytes was copied: there is more to do at once. */
bool hdl_vector_more(const struct hdl_run *run);
/* Returns true if this rank receives a block that does not fit a cell. */
bool hdl_vector_await_long(const struct hdl_run *run);
/* Returns true if no message, as far as is known, has still to come. */
bool hdl_vector_by_device(const struct hdl_run *run);
/* Where ranks share CPUs: returns true if the operation waits for a rank that may need this rank's CPU. */
bool hdl_vector_needs_cpu(struct hdl_queues *h, const struct hdl_run *run);
/* After an error: withdraws messages. Returns true if, once the queues are stopped, nothing uses the user's buffers any more. */
bool hdl_vector_stop(struct hdl_run *run);

/* ---- blocks of v-collectives (vector.c, vector_copy.c, vector_reduce.c) ---------------------------------------------------- */

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
