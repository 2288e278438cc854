/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * V-collectives on mailbox: Gatherv, Scatterv, Allgatherv, Alltoallv, Alltoallw, neighborhood collectives, reductions by
 * user-defined operations, and Reduce_scatter. Each rank writes the block for a peer into its cell there, as mailbox/cell.c
 * does, and goes on.
 *
 * No rank knows all lengths: of Alltoallv a row and a column; of Gatherv and Scatterv only the root knows all. And the two
 * ends may describe a signature by different types. So nothing that the ranks must do alike may depend on a length:
 *
 *     the executor follows from communicator and form (choose_vcoll); of Allgatherv, whose lengths all ranks know, also from
 *     the longest block;
 *     the cells that are written and polled follow from communicator and root: one between each two ranks that may exchange
 *     a block, even an empty one. The cell's word has the length.
 *
 * Scenario, if an empty block had no cell: 1. Rank 0 sends no bytes to rank 1, and skips the cell. 2. Rank 1's type map
 * describes the same signature with a nonzero count of an empty type, or the arguments disagree. 3. Rank 1 polls the cell for
 * ever; and the exchange no longer synchronizes, which the reuse of slots depends on (queues/queues.h).
 *
 * A block that does not fit a cell concerns only its two ranks (vector_copy.c). So does each further edge between two
 * neighbors, as both know. If the length differs from the receiver's arguments, the receiver has an error, whichever way the
 * block came, and all other blocks go on.
 *
 * Reductions: vector_reduce.c.
 *
 * A block in a cell arrives without further action of its sender.
 *
 * The operation retires when its messages and copies have ended, so that neither slot nor user buffer is given back before. If
 * the communicator fails, messages are withdrawn first (hdl_vector_stop), and the queues are stopped (R2 of
 * single_copy/single_copy.c).
 */
#include <stdlib.h>
#include <string.h>

#include "collectives/mailbox/mailbox.h"

#define CELL_MESSAGE (1ULL << 63)		/* cell word, beside the length: the block follows as a message */
#define CELL_ADDRESS (1ULL << 62)		/* cell word, beside the length: the cell's data are the block's address */

void hdl_vector_free(struct hdl_vector_run *x)
{
	if (!x)
		return;
	free(x->sends);
	free(x->memory);
	free(x->own);
	free(x);
}

/* ---- the list of blocks ----------------------------------------------------------------------------------------------- */

/* Of several edges between two ranks the cell has the one with the lowest number. */
static void choose_cell_edges(struct vblock *p, uint32_t n)
{
	struct vblock *lowest[HDL_MAILBOX_RANKS] = { NULL };

	for (struct vblock *end = p + n; p < end; p++)
		if (!lowest[p->peer] || p->edge < lowest[p->peer]->edge)
			lowest[p->peer] = p;
	for (int r = 0; r < HDL_MAILBOX_RANKS; r++)
		if (lowest[r])
			lowest[r]->in_cell = true;
}

static void add_neighbors(struct hdl_vector_run *x, const struct hdl_comm *comm, const struct hdl_vcoll *a)
{
	for (int k = 0; k < a->nto; k++)
		if (a->to[k] != MPI_PROC_NULL && a->to[k] != comm->rank)
			hdl_vblock_add(x, true, &a->in[a->nin > 1 ? k : 0], a->to[k], hdl_edge_to(a, k));
	for (int k = 0; k < a->nout; k++)
		if (a->from[k] != MPI_PROC_NULL && a->from[k] != comm->rank)
			hdl_vblock_add(x, false, &a->out[k], a->from[k], hdl_edge_from(a, k));
	choose_cell_edges(x->sends, x->nsends);
	choose_cell_edges(x->recvs, x->nrecvs);
}

static void add_all(struct hdl_vector_run *x, const struct hdl_comm *comm, const struct hdl_vcoll *a)
{
	bool exchange = a->coll == HDL_V_EXCHANGE, root = a->root == comm->rank;

	for (int k = 1; k < comm->size; k++) {
		int peer = (comm->rank + k) % comm->size;

		if (exchange || (a->coll == HDL_V_SCATTER && root))
			hdl_vblock_add(x, true, &a->in[a->nin > 1 ? peer : 0], peer, 0)->in_cell = true;
		if (exchange || (a->coll == HDL_V_GATHER && root))
			hdl_vblock_add(x, false, &a->out[peer], peer, 0)->in_cell = true;
	}
	if (!exchange && !root && a->coll == HDL_V_GATHER)
		hdl_vblock_add(x, true, &a->in[0], a->root, 0)->in_cell = true;
	else if (!exchange && !root)
		hdl_vblock_add(x, false, &a->out[0], a->root, 0)->in_cell = true;
}

/* ---- the block for the rank itself ---------------------------------------------------------------------------------- */

static void vector_copy_own(struct hdl_run *run, const struct hdl_vcoll_block *to, const struct hdl_vcoll_block *from)
{
	size_t sent = hdl_vcoll_block_bytes(from), room = hdl_vcoll_block_bytes(to), n = sent < room ? sent : room;
	char *src = n ? hdl_vblock_run(from) : NULL, *dst = n ? hdl_vblock_run(to) : NULL, some[2048];

	if (unlikely(sent != room))
		hdl_run_misfit(run, sent, room);
	if (!n)
		return;
	if (likely(src && dst))
		memcpy(dst, src, n);
	else if (dst)
		hdl_pack(dst, from->buf, from->count, from->type, 0, n);
	else if (src)
		hdl_unpack((void *)to->buf, src, to->count, to->type, 0, n);
	for (size_t at = 0, len; !src && !dst && at < n; at += len) {
		len = n - at < sizeof(some) ? n - at : sizeof(some);
		hdl_pack(some, from->buf, from->count, from->type, (MPI_Count)at, len);
		hdl_unpack((void *)to->buf, some, to->count, to->type, (MPI_Count)at, len);
	}
}

/* Copies at once: no other rank takes part. */
void hdl_vector_take_own(struct hdl_run *run, const struct hdl_comm *comm, const struct hdl_vcoll *a)
{
	const struct hdl_vcoll_block *in, *out;

	if (hdl_vcoll_own(a, comm->rank, &in, &out))
		vector_copy_own(run, out, in);
	for (int to = -1, from = -1; a->coll == HDL_V_NEIGHBORS && hdl_edge_own(a, comm->rank, &to, &from);)
		vector_copy_own(run, &a->out[from], &a->in[a->nin > 1 ? to : 0]);
}

/* ---- preparing ------------------------------------------------------------------------------------------------------- */

static void vector_retain_types(struct hdl_vector_run *x, bool retain)
{
	for (int i = 0; i < x->a.nin; i++)
		(retain ? hdl_type_retain : hdl_type_release)((struct hdl_type *)x->a.in[i].type);
	for (int i = 0; i < x->a.nout; i++)
		(retain ? hdl_type_retain : hdl_type_release)((struct hdl_type *)x->a.out[i].type);
	if (x->reduces) {
		(retain ? hdl_op_retain : hdl_op_release)(x->reducer.op);
		(retain ? hdl_type_retain : hdl_type_release)((struct hdl_type *)x->reducer.type);
	}
}

/* Copies the caller's lists, which it may free when the call returns. */
static bool keep_lists(struct hdl_vector_run *x, const struct hdl_vcoll *a, int size)
{
	size_t blocks = (size_t)(a->nin + a->nout) * sizeof(struct hdl_vcoll_block);
	size_t nto = a->coll == HDL_V_NEIGHBORS ? (size_t)a->nto : 0, nfrom = a->coll == HDL_V_NEIGHBORS ? (size_t)a->nout : 0;
	struct hdl_vcoll_block *list;
	size_t ncounts = a->counts ? (size_t)size : 0;
	MPI_Count *counts;
	int *ranks;

	list = x->memory = malloc(blocks + ncounts * sizeof(*counts) + (nto + nfrom) * sizeof(int) + 1);
	if (!list)
		return false;
	counts = (MPI_Count *)(list + a->nin + a->nout);
	ranks = (int *)(counts + ncounts);
	if (ncounts)
		x->a.counts = memcpy(counts, a->counts, ncounts * sizeof(*counts));
	if (a->nin)
		memcpy(list, a->in, (size_t)a->nin * sizeof(*list));
	if (a->nout)
		memcpy(list + a->nin, a->out, (size_t)a->nout * sizeof(*list));
	if (nto)
		memcpy(ranks, a->to, nto * sizeof(int));
	if (nfrom)
		memcpy(ranks + nto, a->from, nfrom * sizeof(int));
	x->a.in = list;
	x->a.out = list + a->nin;
	x->a.to = ranks;
	x->a.from = ranks + nto;
	x->types_retained = true;
	vector_retain_types(x, true);
	return true;
}

/*
 * Packs the blocks that need a contiguous or stable copy: a message's data must stay unchanged and be contiguous. A cell's
 * data may change once the cell was posted; but the requests of wide cells gather when they run, which may be later, from the
 * data's own place, however short they are.
 */
bool hdl_vector_copy_out(struct hdl_vector_run *x, size_t most)
{
	bool replaced = x->a.coll == HDL_V_EXCHANGE && x->a.in_place && x->a.nin > 1;

	x->has_long = false;
	for (struct vblock *p = x->sends, *end = p + x->nsends; p < end; p++) {
		bool message = !p->in_cell || p->bytes > most;

		x->has_long |= message;
		if (!p->bytes || (!message && most <= HDL_CELL_MEDIUM_DATA) || (hdl_vblock_run(&p->block) && !replaced))
			continue;
		if (!hdl_vblock_alloc_copy(p, p->bytes))
			return false;
		hdl_pack(p->copy, p->block.buf, p->block.count, p->block.type, (MPI_Count)p->skip, p->bytes);
	}
	return true;
}

static void free_copy(struct vblock *p)
{
	hdl_scratch_put(&p->memory);
	p->copy = NULL;
}

void hdl_vector_put_away(struct hdl_vector_run *x)
{
	for (uint32_t i = 0; x->has_copies && i < x->nsends; i++)
		free_copy(&x->sends[i]);
	for (uint32_t i = 0; x->has_copies && i < x->nrecvs; i++)
		free_copy(&x->recvs[i]);
	x->has_copies = false;
	if (x->types_retained)
		vector_retain_types(x, false);
	x->types_retained = false;
	free(x->memory);
	x->memory = NULL;
}

bool hdl_vector_setup(struct hdl_run *run, struct hdl_comm *comm, const struct hdl_vcoll *a, bool keeps)
{
	struct hdl_vector_run *x = run->vector ? run->vector : calloc(1, sizeof(*x));
	bool neighbors = a->coll == HDL_V_NEIGHBORS;
	uint32_t most = neighbors ? (uint32_t)(a->nto + a->nout) : 2 * (uint32_t)comm->size;

	run->vector = x;
	if (!x)
		return false;
	if (x->cap < most + 1) {
		free(x->sends);
		x->sends = calloc(most + 1, sizeof(*x->sends));
		x->cap = x->sends ? most + 1 : 0;
	}
	x->nsends = x->nrecvs = x->pending = x->ncopies = 0;
	x->awaiting_fin = x->staged_ranks = 0;
	x->staging = NULL;
	if (!x->sends)
		return false;
	x->recvs = x->sends + (neighbors ? a->nto : comm->size);
	x->run = run;
	x->a = *a;
	x->cells_read = false;
	x->reduces = a->op != MPI_OP_NULL && hdl_reducer_init(&x->reducer, a->op, a->type);
	if (keeps && !keep_lists(x, a, comm->size))
		return false;
	if (x->reduces)
		hdl_vector_add_operands(x, comm, a);
	else if (neighbors)
		add_neighbors(x, comm, a);
	else
		add_all(x, comm, a);
	for (uint32_t i = 0; i < x->nsends; i++)
		if (x->sends[i].in_cell)
			x->cell_block[x->sends[i].peer] = &x->sends[i];
	return hdl_vector_copy_out(x, run->plan->key.bytes) && (!x->reduces || hdl_vector_copy_operand(x, comm, a));
}

/* ---- an operation --------------------------------------------------------------------------------------------------- */

static void vector_write_block(struct hdl_queues *h, struct hdl_run *run, uint32_t i, struct vblock *p)
{
	const struct hdl_coll_prog *prog = run->vector->prog;
	char some[HDL_CELL_MEDIUM_DATA];
	const char *data = p->copy;

	if (unlikely(hdl_vblock_is_single_copy(h, run, p))) {
		p->addr = (uintptr_t)hdl_vblock_read_addr(h, p);
		hdl_cell_put_vblock(h, run, prog, i, &p->addr, sizeof(p->addr), p->bytes | CELL_ADDRESS);
		return;
	}
	if (p->bytes > run->plan->key.bytes) {
		hdl_cell_put_vblock(h, run, prog, i, NULL, 0, p->bytes | CELL_MESSAGE);
		return;
	}
	if (!data && p->bytes)
		data = hdl_vblock_run(&p->block);
	if (data && !p->copy)
		data += p->skip;
	if (!data && p->bytes) {
		hdl_pack(some, p->block.buf, p->block.count, p->block.type, (MPI_Count)p->skip, p->bytes);
		data = some;
	}
	hdl_cell_put_vblock(h, run, prog, i, data, p->bytes, p->bytes);
}

void hdl_vector_post(struct hdl_queues *h, struct hdl_run *run, const struct hdl_coll_prog *prog)
{
	struct hdl_vector_run *x = run->vector;

	x->prog = prog;
	hdl_cell_begin(h, run, prog);
	if (unlikely(x->has_long))
		hdl_vector_stage(h, run);
	for (uint32_t i = 0, n = hdl_cell_puts(prog); i < n; i++)
		vector_write_block(h, run, i, x->cell_block[hdl_cell_put_to(prog, i)]);
	for (struct vblock *p = x->sends, *end = p + x->nsends; unlikely(x->has_long) && p < end; p++)
		if (!p->in_cell ? p->bytes : p->bytes > run->plan->key.bytes && !hdl_vblock_is_single_copy(h, run, p))
			hdl_vblock_send(run, p);
	/* after the cells: in place a message may land where a cell's data are read */
	for (struct vblock *p = x->recvs, *end = p + x->nrecvs; run->pcoll && p < end; p++)
		if (p->expects_message)
			hdl_vblock_receive(run, p);
}

/* A persistent operation has the same messages at each start, so from the second start on they are received without a copy. */
static void expect_message(struct hdl_run *run, struct vblock *p)
{
	if (!p->expects_message)
		hdl_vblock_receive(run, p);
	p->expects_message = run->pcoll;
}

static void read_cell(struct hdl_run *run, struct vblock *p)
{
	const char *end;
	uint64_t word = hdl_cell_word(run, p->vrun->prog, p->peer, &end);
	char *at;

	/* also with an unexpected length: the sender may wait until the message is received */
	if (unlikely(word & CELL_MESSAGE)) {
		expect_message(run, p);
		return;
	}
	if (unlikely((word & ~CELL_ADDRESS) != p->bytes)) {
		hdl_vblock_refuse(run, p, word & ~CELL_ADDRESS);
		if (word & CELL_ADDRESS)
			hdl_vblock_skip_read(p);
		return;
	}
	if (word & CELL_ADDRESS) {
		hdl_vblock_copy(run, p, end);
		return;
	}
	if (!word || p->vrun->reduces)
		return;
	at = hdl_vblock_run(&p->block);
	if (likely(at))
		memcpy(at, end - word, word);
	else
		hdl_unpack((void *)p->block.buf, end - word, p->block.count, p->block.type, 0, word);
}

/*
 * Reads the cells that have arrived, so that copies proceed while other cells are awaited; reductions wait for all. Messages
 * without a cell are received after all cells: such a message may have the tag of its pair's first edge, and must match after
 * it.
 */
static void read_cells(struct hdl_queues *h, struct hdl_run *run)
{
	struct hdl_vector_run *x = run->vector;
	bool all = hdl_cell_arrived(run, x->prog);

	if (x->reduces && !all)
		return;
	/* in place the result would overwrite the data of a cell that is still queued */
	if (unlikely(x->reduces && run->outstanding))
		hdl_queues_drain(h);
	if (unlikely(x->reduces && run->outstanding))
		return;
	x->cells_read = all;
	for (struct vblock *p = x->recvs, *end = p + x->nrecvs; p < end; p++) {
		if (p->cell_read || (!all && (!p->in_cell || !hdl_cell_has_come(run, x->prog, p->peer))))
			continue;
		p->cell_read = true;
		if (p->in_cell)
			read_cell(run, p);
		else if (p->bytes)
			expect_message(run, p);
	}
	if (x->reduces && !run->error)
		hdl_vector_reduce(run);
}

bool hdl_vector_turn(struct hdl_queues *h, struct hdl_run *run)
{
	struct hdl_vector_run *x = run->vector;

	if (!x->cells_read)
		read_cells(h, run);
	x->turn_bytes = 0;
	if (x->ncopies)
		hdl_vector_copy(h, run);
	if (x->awaiting_fin)
		hdl_vector_poll_fin(h, run);
	return x->cells_read && !x->pending && !x->awaiting_fin;
}

bool hdl_vector_await_long(const struct hdl_run *run)
{
	const struct hdl_vector_run *x = run->vector;

	for (const struct vblock *p = x->recvs, *end = p + x->nrecvs; p < end; p++)
		if (p->bytes > run->plan->key.bytes)
			return true;
	return false;
}

bool hdl_vector_by_device(const struct hdl_run *run)
{
	return run->vector->pending == run->vector->ncopies;
}

bool hdl_vector_needs_cpu(struct hdl_queues *h, const struct hdl_run *run)
{
	const struct hdl_vector_run *x = run->vector;
	uint32_t needs = x->awaiting_fin;

	for (const struct vblock *p = x->recvs, *end = p + x->nrecvs; p < end; p++)
		if (p->in_cell && !hdl_cell_has_come(run, x->prog, p->peer))
			needs |= 1u << p->peer;
	return needs & hdl_queues_cpu_sharers(h);
}
