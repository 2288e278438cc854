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
 * What breaks if an empty block had no cell:
 *     1. Rank 0 has no bytes for rank 1 in an Alltoallv, and writes no cell.
 *     2. Rank 1 completes the Alltoallv; rank 0 may not have begun it.
 *     3. Every rank counts the Alltoallv as synchronizing, and inserts no barrier (queues/queues.h, slots (b)).
 *     4. Rank 1 posts up to D more operations, and writes over a cell that rank 0 has not read.
 *
 * A block that does not fit a cell concerns only its two ranks (vector_copy.c). So does each further edge between two
 * neighbors, as both know. If the length differs from the receiver's arguments, the receiver has an error, whichever way the
 * block came, and all other blocks go on.
 *
 * A block in a cell arrives without further action of its sender. vector_reduce.c has the reductions.
 *
 * The operation retires when its messages and copies have ended, so that neither slot nor user buffer is given back before. If
 * the communicator fails, messages are withdrawn first (hdl_vector_stop), and the queues are stopped (R2 of
 * single_copy/single_copy.c).
 */
#include <stdlib.h>
#include <string.h>

#include "collectives/select/check.h"
#include "collectives/mailbox/vector.h"

#define CELL_MESSAGE (1ULL << 63)		/* cell word, beside the length: the block follows as a message */
#define CELL_ADDRESS (1ULL << 62)		/* cell word, beside the length: the cell's data are the block's address */
#define CELL_DATA 1024			/* longest block in a cell if no rank knows all lengths; must fit a medium cell */

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

struct vblock *hdl_vblock_add(struct hdl_vector_run *x, bool give, const struct hdl_vcoll_block *piece, int peer, int edge)
{
	struct vblock *p = give ? &x->sends[x->nsends++] : &x->recvs[x->nrecvs++];

	/* hdl_vblock_send sets p->send */
	p->block = *piece;
	p->skip = 0;
	p->bytes = hdl_vcoll_block_bytes(piece);
	p->peer = peer;
	p->edge = edge;
	p->vrun = x;
	p->copy = NULL;
	p->req = NULL;
	p->in_cell = p->sending = p->withdrawn = p->expects_message = p->cell_read = p->copying = false;
	return p;
}

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
	size_t sent = hdl_vcoll_block_bytes(from), expected = hdl_vcoll_block_bytes(to), n = sent < expected ? sent : expected;
	char *src = n ? hdl_vblock_run(from) : NULL, *dst = n ? hdl_vblock_run(to) : NULL, some[2048];

	if (unlikely(sent != expected))
		hdl_run_misfit(run, sent, expected);
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
static void vector_take_own(struct hdl_run *run, const struct hdl_comm *comm, const struct hdl_vcoll *a)
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

/* Copies the caller's lists, which may be freed when the call returns. */
static bool keep_lists(struct hdl_vector_run *x, const struct hdl_vcoll *a, int size)
{
	size_t list_bytes = (size_t)(a->nin + a->nout) * sizeof(struct hdl_vcoll_block);
	size_t nto = a->coll == HDL_V_NEIGHBORS ? (size_t)a->nto : 0, nfrom = a->coll == HDL_V_NEIGHBORS ? (size_t)a->nout : 0;
	struct hdl_vcoll_block *list;
	size_t ncounts = a->counts ? (size_t)size : 0;
	MPI_Count *counts;
	int *ranks;

	list = x->memory = malloc(list_bytes + ncounts * sizeof(*counts) + (nto + nfrom) * sizeof(int) + 1);
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
static bool pack_blocks(struct hdl_vector_run *x, size_t most)
{
	bool replaced = x->a.coll == HDL_V_EXCHANGE && x->a.in_place && x->a.nin > 1;

	x->has_long = false;
	for (struct vblock *p = x->sends, *end = p + x->nsends; p < end; p++) {
		bool message = !p->in_cell || p->bytes > most;

		x->has_long |= message;
		if (!p->bytes || (!message && most <= CELL_DATA) || (hdl_vblock_run(&p->block) && !replaced))
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

static void vector_release(struct hdl_vector_run *x)
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

static bool vector_prepare(struct hdl_run *run, struct hdl_comm *comm, const struct hdl_vcoll *a, bool keeps)
{
	struct hdl_vector_run *x = run->parcels ? run->parcels : calloc(1, sizeof(*x));
	bool neighbors = a->coll == HDL_V_NEIGHBORS;
	uint32_t most = neighbors ? (uint32_t)(a->nto + a->nout) : 2 * (uint32_t)comm->size;

	run->parcels = x;
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
	return pack_blocks(x, run->plan->key.bytes) && (!x->reduces || hdl_vector_copy_operand(x, comm, a));
}

/* ---- an operation --------------------------------------------------------------------------------------------------- */

static void vector_write_block(struct hdl_queues *h, struct hdl_run *run, uint32_t i, struct vblock *p)
{
	const struct hdl_coll_prog *prog = run->parcels->prog;
	char some[CELL_DATA];
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
	struct hdl_vector_run *x = run->parcels;

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

	/* also with an unexpected length: the sender may wait for the receive */
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
 * Reads the cells that have arrived, so that copies proceed while other cells are awaited; reductions wait for all cells.
 * Messages without a cell are received after all cells: such a message may have the tag of the first edge between the two
 * ranks, and must match after that edge's message.
 */
static void read_cells(struct hdl_queues *h, struct hdl_run *run)
{
	struct hdl_vector_run *x = run->parcels;
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
	struct hdl_vector_run *x = run->parcels;

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
	const struct hdl_vector_run *x = run->parcels;

	for (const struct vblock *p = x->recvs, *end = p + x->nrecvs; p < end; p++)
		if (p->bytes > run->plan->key.bytes)
			return true;
	return false;
}

bool hdl_vector_by_device(const struct hdl_run *run)
{
	return run->parcels->pending == run->parcels->ncopies;
}

bool hdl_vector_need_near(struct hdl_queues *h, const struct hdl_run *run)
{
	const struct hdl_vector_run *x = run->parcels;
	uint32_t needs = x->awaiting_fin;

	for (const struct vblock *p = x->recvs, *end = p + x->nrecvs; p < end; p++)
		if (p->in_cell && !hdl_cell_has_come(run, x->prog, p->peer))
			needs |= 1u << p->peer;
	return needs & hdl_queues_cpu_sharers(h);
}

/* ---- entry ----------------------------------------------------------------------------------------------------------- */

static void vector_ended(struct hdl_run *run)
{
	vector_release(run->parcels);
	if (run->req)
		hdl_coll_complete(run);
}

bool hdl_vector_to_host(struct hdl_run *run)
{
	return hdl_vcoll_instead(run, &run->parcels->a);
}

static uint32_t ranks_in(const int *list, int n, int me)
{
	uint32_t mask = 0;

	for (int i = 0; i < n; i++)
		if (list[i] != MPI_PROC_NULL && list[i] != me)
			mask |= 1u << list[i];
	return mask;
}

/* The collective by which mailbox runs these arguments. */
static enum hdl_coll vector_kind_of(const struct hdl_vcoll *a)
{
	switch (a->coll) {
	case HDL_V_GATHER: return HDL_GATHERV;
	case HDL_V_SCATTER: return HDL_SCATTERV;
	case HDL_V_NEIGHBORS: return HDL_NEIGHBORS;
	case HDL_V_REDUCE: return HDL_VREDUCE;
	case HDL_V_ALLREDUCE: return HDL_VALLREDUCE;
	case HDL_V_REDUCE_SCATTER: return HDL_VREDUCE_SCATTER;
	case HDL_V_SCAN: return HDL_VSCAN;
	case HDL_V_EXSCAN: return HDL_VEXSCAN;
	default: return a->nin == 1 ? HDL_ALLGATHERV : HDL_ALLTOALLV;
	}
}

size_t hdl_vector_line(enum hdl_coll coll, size_t longest, bool copied)
{
	size_t all = hdl_vars.coll_mailbox_max, cell = all < CELL_DATA ? all : CELL_DATA;

	if (!hdl_vector_known(coll) || longest <= cell || (copied && coll == HDL_ALLGATHERV && longest >= hdl_sc_from(coll)))
		return cell;
	return longest <= all ? all : all + 1;
}

/* The longest block, if all ranks know all lengths; else 0. */
static size_t longest(const struct hdl_vcoll *a, enum hdl_coll coll, int size)
{
	MPI_Count most = a->counts ? 0 : a->count;

	if (coll == HDL_ALLGATHERV)
		return hdl_vcoll_most(a->out, a->nout);
	if (!hdl_coll_is_vreduce(coll))
		return 0;
	if (coll != HDL_VREDUCE_SCATTER)
		return hdl_vcoll_block_bytes(&a->in[0]);
	for (int i = 0; a->counts && i < size; i++)
		most = a->counts[i] > most ? a->counts[i] : most;
	return (size_t)most * (size_t)hdl_type_size(a->type);
}

/* Makes the plan's key. Returns 0 or a negative errno of this rank's alone. */
static int vector_key_of(const struct hdl_comm *comm, const struct hdl_vcoll *a, enum hdl_form_kind form,
			 struct hdl_plan_key *key)
{
	int promises = hdl_comm_promises(comm);
	bool exposes = promises & HDL_PROMISES_EXPOSES;
	enum hdl_coll coll = vector_kind_of(a);

	if (promises < 0)
		return promises;
	*key = (struct hdl_plan_key){ .coll = (uint8_t)coll, .root = hdl_coll_has_root(coll) ? a->root : 0,
				    .blocking = form == HDL_BLOCKS, .persistent = form == HDL_PERSISTS, .op = MPI_OP_NULL,
				    .bytes = hdl_vector_line(coll, longest(a, coll, comm->size),
							      hdl_vector_copied(comm->size, hdl_job.oversubscribed, exposes,
										form == HDL_PERSISTS)) };

	if (coll == HDL_NEIGHBORS) {
		key->to = ranks_in(a->to, a->nto, comm->rank);
		key->from = ranks_in(a->from, a->nout, comm->rank);
	}
	return 0;
}

/* Returns true if a plan is made for this communicator and collective. */
static bool vector_possible(const struct hdl_comm *comm, const struct hdl_vcoll *a)
{
	return !comm->local && comm->size > 1 && comm->size <= HDL_MAILBOX_RANKS && a->coll <= HDL_V_EXSCAN && !hdl_vars.check &&
	       hdl_vector_reduces_by(a->op != MPI_OP_NULL && hdl_op_get(a->op));
}

static int vector_no_memory(struct hdl_comm *comm, const struct hdl_plan *plan)
{
	hdl_coll_no_memory(comm);
	hdl_reason_set("%s: no memory for its blocks", plan ? hdl_coll_name((enum hdl_coll)plan->key.coll) : "collective");
	return MPI_ERR_NO_MEM;
}

bool hdl_vector_begin(struct hdl_comm *comm, const struct hdl_vcoll *a, struct hdl_req **req, int *rc)
{
	struct hdl_plan_key key;
	struct hdl_plan *plan;
	struct hdl_run *run;
	struct hdl_cc *cc;

	if (!vector_possible(comm, a))
		return false;
	cc = hdl_coll_state(comm);
	plan = cc && !vector_key_of(comm, a, req ? HDL_STARTS : HDL_BLOCKS, &key) ? hdl_plan_of(cc, &key) : NULL;
	if (!plan) {
		*rc = vector_no_memory(comm, NULL);
		return true;
	}
	/* as for every blocking collective: a Barrier behind this one depends on the leader, and all ranks know the sequence */
	if (!req) {
		cc->leader = plan->leader;
		cc->last[plan->key.coll] = plan;
	}
	if (plan->executor == HDL_EXEC_HOST || (!req && a->op == MPI_OP_NULL && hdl_plan_is_early(cc, plan))) {
		plan->uses++;
		if (plan->executor != HDL_EXEC_HOST)
			hdl_plan_fell_back(plan, HDL_EARLY);
		return false;
	}
	run = hdl_plan_run(plan, comm);
	if (run && req)
		*req = run->req = hdl_req_new(comm);
	if (!run || (req && !*req) || !vector_prepare(run, comm, a, req)) {
		if (run && req && *req) {
			hdl_req_complete(*req, MPI_ERR_NO_MEM);
			hdl_req_free(*req);
			*req = NULL;
		}
		*rc = vector_no_memory(comm, plan);
		if (run && run->parcels)
			vector_release(run->parcels);
		if (run)
			hdl_plan_run_put(run);
		return true;
	}
	run->args.coll = (enum hdl_coll)plan->key.coll;
	hdl_run_begin(run);
	run->done = vector_ended;
	if (req)
		run->req->look = hdl_queues_look;
	vector_take_own(run, comm, a);
	hdl_coll_submit(run);
	*rc = req ? MPI_SUCCESS : hdl_coll_end(run);
	return true;
}

/* ---- fast path: hdl_queues_quick_vcoll --------------------------------------------------------------------------------- */

static inline bool fits_cells(const struct hdl_vcoll_block *p, int n, size_t cell)
{
	for (const struct hdl_vcoll_block *end = p + n; p < end; p++)
		if (!hdl_type_is_contiguous(p->type) || hdl_vcoll_block_bytes(p) > cell)
			return false;
	return true;
}

/*
 * Returns true if the plan serves these arguments, and all their blocks fit its cells, are contiguous and match. Where the
 * plan depends on lengths, one plan serves all that fit medium cells; longer ones have no fast path.
 */
static inline bool vector_is_plan_of(const struct hdl_plan *plan, const struct hdl_comm *comm, const struct hdl_vcoll *a)
{
	const struct hdl_vcoll_block *in, *out;

	return (a->coll == HDL_V_EXCHANGE || plan->key.root == a->root) &&
	       fits_cells(a->in, a->nin, plan->key.bytes) && fits_cells(a->out, a->nout, plan->key.bytes) &&
	       (!hdl_vcoll_own(a, comm->rank, &in, &out) || hdl_vcoll_block_bytes(in) == hdl_vcoll_block_bytes(out));
}

bool hdl_vector_quick(struct hdl_comm *comm, const struct hdl_vcoll *a, int *rc)
{
	struct hdl_cc *cc = comm->coll;
	struct hdl_plan *plan = cc && a->coll <= HDL_V_EXCHANGE ? cc->last[vector_kind_of(a)] : NULL;

	/* a plan of the host executor has no runs */
	if (!plan || !plan->spare || unlikely(cc->lost) || !vector_is_plan_of(plan, comm, a) ||
	    !hdl_queues_quick_vcoll(cc, plan->spare, a))
		return false;
	*rc = hdl_coll_end_quick(cc, plan);
	return true;
}

void hdl_vector_go_on(struct hdl_run *run, const struct hdl_vcoll *a)
{
	vector_prepare(run, run->comm, a, false);
	run->parcels->prog = run->plan->prog;
	run->tag = hdl_coll_tag(((struct hdl_cc *)run->comm->coll)->seq);
	run->req = NULL;
	run->done = vector_ended;
}

/* ---- persistent: the request keeps the run, the lists and the cells ---------------------------------------------------- */

static int vector_begin_again(struct hdl_req *req, void *arg)
{
	struct hdl_run *run = arg;
	struct hdl_vector_run *x = run->parcels;

	hdl_run_again(run, req);
	if (unlikely(((struct hdl_cc *)run->comm->coll)->lost)) {
		hdl_run_error(run, MPI_ERR_PROC_ABORTED);
		hdl_run_finish(run);
		return MPI_SUCCESS;
	}
	x->cells_read = false;
	for (uint32_t i = 0; i < x->nrecvs; i++)
		x->recvs[i].cell_read = false;
	/* cannot fail: both have their memory since vector_prepare */
	pack_blocks(x, run->plan->key.bytes);
	if (x->reduces)
		hdl_vector_copy_operand(x, run->comm, &x->a);
	vector_take_own(run, run->comm, &x->a);
	hdl_pcoll_start(run->pcoll);
	return MPI_SUCCESS;
}

static void vector_put_persistent(void *arg)
{
	struct hdl_run *run = arg;

	if (run->pcoll)
		hdl_pcoll_free(run->pcoll);
	run->pcoll = NULL;
	vector_release(run->parcels);
	hdl_plan_run_put(run);
}

static struct hdl_most vector_most_of(const struct hdl_vcoll *a, size_t cell)
{
	struct hdl_most most = { 0 };

	for (int i = 0; i < a->nin + a->nout; i++) {
		size_t bytes = hdl_vcoll_block_bytes(i < a->nin ? &a->in[i] : &a->out[i - a->nin]);

		most.any |= bytes != 0;
		if (bytes <= cell && bytes > most.fits)
			most.fits = (uint32_t)bytes;
	}
	return most;
}

/*
 * The plan of a persistent operation. Its cells exist as long as the request: they hold the longest block of any rank that
 * fits a cell. *rc: MPI error class. *none: all blocks are messages, which cells would only announce.
 */
static struct hdl_plan *persistent_plan(struct hdl_comm *comm, const struct hdl_vcoll *a, struct hdl_plan_key key, int *rc,
					bool *none)
{
	struct hdl_most most = { 0 };
	size_t cell_data;

	/* known lengths are the same on all ranks, and fit */
	if (hdl_vector_known((enum hdl_coll)key.coll)) {
		most.fits = (uint32_t)longest(a, (enum hdl_coll)key.coll, comm->size);
	} else {
		most = vector_most_of(a, key.bytes);
		*rc = hdl_pcoll_agree(comm->coll, key.coll, &most);
	}
	*none = !most.fits && most.any;
	if (*rc || *none)
		return NULL;
	/* rounded up to whole cells, so that requests of similar lengths share a plan */
	cell_data = hdl_cell_bytes(most.fits) - HDL_CELL_TRAILER;
	key.bytes = cell_data < key.bytes ? cell_data : key.bytes;
	return hdl_plan_of(comm->coll, &key);
}

bool hdl_vector_prepare(struct hdl_comm *comm, const struct hdl_vcoll *a, struct hdl_req **req, int *rc)
{
	struct hdl_plan *plan = NULL;
	struct hdl_run *run = NULL;
	struct hdl_choice choice;
	struct hdl_plan_key key;
	struct hdl_comm_props props;
	bool none = false;

	if (!vector_possible(comm, a))
		return false;
	*rc = MPI_SUCCESS;
	if (hdl_coll_state(comm) && !vector_key_of(comm, a, HDL_PERSISTS, &key) &&
	    !hdl_plan_choose(&key, comm, &props, &choice)) {
		if (choice.executor == HDL_EXEC_HOST)
			return false;
		plan = persistent_plan(comm, a, key, rc, &none);
	}
	if (*rc || none)
		return *rc != MPI_SUCCESS;
	if (plan)
		run = hdl_plan_run(plan, comm);
	if (run)
		plan->uses--;		/* counted at each start */
	if (!run || !vector_prepare(run, comm, a, true)) {
		*rc = vector_no_memory(comm, plan);
		goto undo;
	}
	run->args.coll = (enum hdl_coll)plan->key.coll;
	run->done = hdl_coll_complete_persistent;
	*rc = hdl_pcoll_new(run);
	if (*rc || !run->pcoll)
		goto undo;
	hdl_coll_number_persistent(run);
	if (!hdl_collective_init(comm, vector_begin_again, vector_put_persistent, run, req)) {
		(*req)->look = hdl_pcoll_look;
		return true;
	}
	*rc = vector_no_memory(comm, plan);	/* the other ranks may have succeeded, and start their requests */
undo:
	/* without an error no rank has cells, and all use messages */
	if (run && run->parcels)
		vector_put_persistent(run);
	else if (run)
		hdl_plan_run_put(run);
	return *rc != MPI_SUCCESS;
}
