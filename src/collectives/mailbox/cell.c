/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Cells: collectives among few ranks by one RDMA WRITE per pair of ranks and direction, and polling of memory.
 *
 * An RDMA WRITE carries the data and, last, the operation's number + 1 (see hdl_cell_data). The bytes of a WRITE land in order,
 * so the data are there when the number is. No completion, no receive, no credit: one cache line travels for up to 48 bytes, and
 * queues/SLOTS.md proves that the cell is free. The number stands at a cell's end only, where no data ever lie, so no data are
 * mistaken for a number.
 *
 *     slot of operation n, at every rank:
 *       short  | cell of rank 0 | cell of rank 1 | ...    up to 48 bytes
 *       medium | cell of rank 0 | cell of rank 1 | ...    up to 1 KiB
 *       wide   | cell of rank 0 | cell of rank 1 | ...    up to HEDDLE_COLL_MAILBOX_MAX and HEDDLE_COLL_BCAST_MAILBOX_MAX
 *       heads  | length, number of rank 0's | ...         of the wide cells
 *       done   | number from rank 0 | ...                 of v-collectives: that rank has read the block that this rank's
 *                                                         cell announced by address (vector_copy.c)
 *
 * A rank's cell has the same place at all its peers. Behind all slots the region has as much again for staging: there a peer's
 * cell is put together if the request cannot carry the cell inline. Wide cells are gathered from the user's memory, if the device
 * pages on demand, and the head follows in a second WRITE: so all numbers that have to be cleared lie close together, and of wide
 * cells only those that are used take memory. Short and medium cells are slots of one class (HDL_SLOT_SHORT), wide cells of
 * another (HDL_SLOT_LONG), which has fewer slots.
 *
 * A WRITE has landed when its post returns, and its source may change then, unless the WRITE is delayed: while the port is down,
 * or behind another delayed request. The device tells (hdl_cell_waits). Then an operation whose source may change retires by the
 * completion of a request that is posted behind the WRITE (hdl_cell_follow).
 */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "collectives/host/host.h"
#include "collectives/mailbox/mailbox.h"
#include "collectives/queues/queues.h"
#include "collectives/select/select.h"
#include "runtime/wait.h"

/* The part of an RDMA WRITE that differs by peer; small, since a communicator keeps many. */
struct cell_put {
	struct hdl_coll_link *link;
	uint64_t remote, head_remote;	/* of the cell and of its head in slot 0: offsets in the region; addresses at the peer
					 * after hdl_cell_aim */
	size_t src_off;
	uint32_t rkey;
	uint8_t src_space;
};

/* An expected cell: the sender, and the offset of the cell's number in the slot, or among the slot's heads. */
struct cell_arrival {
	uint32_t number;
	int peer;
};

/* A CPU node of the epilogue, in compact form: Wait comes when the caches hold other things. */
struct cell_step {
	uint8_t reduce;			/* false: a copy */
	uint8_t src_space, dst_space;
	uint32_t n;			/* elements (reduce), or bytes (copy) */
	uint32_t src_off, dst_off;
};

struct hdl_mailbox_prog {
	const struct hdl_slot_region *region;
	hdl_op_fn fn;
	/* The requests as they are posted; per peer only the fields that differ are filled in. */
	struct ibv_send_wr wr, head;	/* head: of a wide cell, follows wr */
	struct ibv_sge sge[2];		/* data and trailer; staged: [0] has both; no data: [1] alone. Wide: [0] of wr, [1] of
					 * head */
	size_t head_stride;		/* distance of two slots' heads */
	bool staged;			/* the cell is put together in the staging half of the region; wide: the data */
	bool head_staged;
	bool reads_memory;		/* some request is not inline: the device reads memory when the request runs */
	bool by_leader;			/* a leader collects the cells of all ranks and answers this rank; the leader may wait for
					 * ranks that need this CPU */
	struct cell_put *puts;
	uint32_t nputs, narrivals, nsteps;
	uint32_t nanswers;		/* puts behind the first nputs: posted when all cells have arrived */
	uint32_t nsharers;		/* the first arrivals: of ranks that may need this rank's CPU */
	uint32_t per_put;		/* requests of each put */
	uint64_t bytes;			/* bytes of each put */
	uint64_t len;			/* bytes of data in each cell; 0: a barrier's, whose cell is the number alone */
	uint64_t shaped;		/* requests are shaped for a vblock of shaped - 1 bytes; 0: not for a vblock */
	struct cell_arrival *arrivals;
	struct cell_step *steps;	/* the epilogue */
};

/* ---- regions --------------------------------------------------------------------------------------------- */

enum hdl_cell_size hdl_cell_size(size_t bytes)
{
	return bytes <= 64 - HDL_CELL_TRAILER ? HDL_CELL_SHORT : bytes <= HDL_CELL_MEDIUM_DATA ? HDL_CELL_MEDIUM : HDL_CELL_WIDE;
}

size_t hdl_cell_most(void)
{
	return hdl_vars.coll_mailbox_max > hdl_vars.coll_bcast_mailbox_max ? hdl_vars.coll_mailbox_max :
									     hdl_vars.coll_bcast_mailbox_max;
}

uint8_t hdl_cell_class(size_t bytes)
{
	return hdl_cell_size(bytes) == HDL_CELL_WIDE ? HDL_SLOT_LONG : HDL_SLOT_SHORT;
}

size_t hdl_cell_least(uint8_t class)
{
	return class == HDL_SLOT_LONG ? HDL_CELL_MEDIUM_DATA + 1 : 0;
}

size_t hdl_cell_bytes_of(size_t bytes)
{
	switch (hdl_cell_size(bytes)) {
	case HDL_CELL_SHORT: return hdl_cell_bytes(0);
	case HDL_CELL_MEDIUM: return hdl_cell_bytes(HDL_CELL_MEDIUM_DATA);
	default: return hdl_cell_bytes(hdl_cell_most());
	}
}

size_t hdl_vector_cell_max(enum hdl_coll coll, size_t longest, bool copied)
{
	size_t all = hdl_vars.coll_mailbox_max, cell = all < HDL_CELL_MEDIUM_DATA ? all : HDL_CELL_MEDIUM_DATA;

	if (!hdl_vector_known(coll) || longest <= cell || (copied && coll == HDL_ALLGATHERV && longest >= hdl_sc_from(coll)))
		return cell;
	return longest <= all ? all : all + 1;
}

void hdl_cell_lay_out(struct hdl_queues *h)
{
	const size_t most[HDL_CELL_SIZES] = { 64 - HDL_CELL_TRAILER, HDL_CELL_MEDIUM_DATA, hdl_cell_most() };
	/* the cells of v-collectives, which announce by address a block that does not fit; no rank knows all lengths */
	const int vblocks = (int)hdl_cell_size(hdl_vector_cell_max(HDL_ALLTOALLV, 0, false));

	for (int i = 0; i < HDL_CELL_SIZES; i++) {
		struct hdl_slot_region *a = &h->region[i];
		uint64_t slots = HDL_SLOTS(h->class[hdl_cell_class(most[i])].depth);

		/* no region if a smaller size of cell carries all lengths */
		if (i && most[i - 1] >= hdl_cell_most())
			continue;
		a->cell_bytes = hdl_cell_bytes_of(most[i]);
		a->wide = i == HDL_CELL_WIDE;
		a->bytes = hdl_cell_place(a, h->size, slots, a->wide ? slots * (size_t)h->size * HDL_CELL_HEAD : 0);
		if (i != vblocks)
			continue;
		a->done_at = a->bytes;
		a->bytes += align_up(slots * (size_t)h->size * sizeof(uint64_t), 64);
	}
}

uint32_t hdl_cell_inline(const struct hdl_queues *h)
{
	uint32_t least = UINT32_MAX;

	for (uint16_t i = 0; i < h->nlinks; i++)
		least = h->links[i]->max_inline < least ? h->links[i]->max_inline : least;
	return least;
}

bool hdl_cell_stages(const struct hdl_queues *h, const struct hdl_slot_region *a)
{
	return hdl_cell_inline(h) < (a->wide ? HDL_CELL_TRAILER : a->cell_bytes) || (a->wide && !h->exposed_lkey);
}

void hdl_cell_clear(struct hdl_slot_region *a)
{
	memset(a->mem, 0, a->wide ? a->at : a->bytes);
}

/* ---- compiling ------------------------------------------------------------------------------------------- */

/* Returns true if a cell of the slot ends at offset `end`. */
static bool is_end(const struct hdl_mailbox_prog *l, size_t end)
{
	return end && end <= l->region->slot_bytes && end % l->region->cell_bytes == 0;
}

/* Returns the offset among the slot's heads at which the head of the wide cell ends that itself ends at `end`. */
static size_t head_end(const struct hdl_mailbox_prog *l, size_t end)
{
	return end / l->region->cell_bytes * HDL_CELL_HEAD;
}

static int add_arrival(struct hdl_queues *h, struct hdl_mailbox_prog *l, const struct hdl_node *n)
{
	size_t end = n->dst_off + n->len + HDL_CELL_TRAILER;

	if (!is_end(l, end))
		return EOPNOTSUPP;
	l->arrivals[l->narrivals] = (struct cell_arrival){
		.number = (uint32_t)((l->region->wide ? head_end(l, end) : end) - sizeof(uint64_t)), .peer = n->peer,
	};
	if (hdl_queues_cpu_sharers(h) & 1u << n->peer) {
		struct cell_arrival far = l->arrivals[l->nsharers];

		l->arrivals[l->nsharers++] = l->arrivals[l->narrivals];
		l->arrivals[l->narrivals] = far;
	}
	l->narrivals++;
	l->len = n->len;
	return 0;
}

/* Returns the mask of ranks that may need this rank's CPU: where ranks share CPUs, all but the ranks that are bound to other
 * CPUs. */
uint32_t hdl_queues_cpu_sharers(struct hdl_queues *h)
{
	cpu_set_t own, other;

	if (h->cpu_sharers)
		return h->cpu_sharers;
	h->cpu_sharers = UINT32_MAX;
	if (!hdl_job.oversubscribed || !h->cc || sched_getaffinity(0, sizeof(own), &own))
		return h->cpu_sharers;
	for (int r = 0; r < h->size; r++)
		/* a process of another PID namespace has no pid here */
		if (hdl_proc_state(&h->peers[r].proc) == HDL_PROC_LIVES &&
		    !sched_getaffinity((pid_t)h->peers[r].proc.pid, sizeof(other), &other)) {
			CPU_AND(&other, &other, &own);
			h->cpu_sharers &= ~((uint32_t)!CPU_COUNT(&other) << r);
		}
	return h->cpu_sharers;
}

/* Requests of a wide cell: the data from where they lie, then the head. A barrier's is the head alone. */
static void shape_wide(const struct hdl_queues *h, struct hdl_mailbox_prog *l)
{
	l->staged = l->len && !h->exposed_lkey;
	l->head_staged = hdl_cell_inline(h) < HDL_CELL_TRAILER;
	l->reads_memory = l->len || l->head_staged;
	l->bytes = l->len + HDL_CELL_TRAILER;
	l->head_stride = (size_t)h->size * HDL_CELL_HEAD;
	l->sge[0] = (struct ibv_sge){ .length = (uint32_t)l->len,
				      .lkey = h->exposed_lkey ? h->exposed_lkey : l->region->mr->lkey };
	l->sge[1] = (struct ibv_sge){ .length = HDL_CELL_TRAILER, .lkey = l->region->mr->lkey };
	l->wr.sg_list = &l->sge[0];
	l->wr.num_sge = 1;
	l->head = l->wr;
	l->head.sg_list = &l->sge[1];
	l->head.next = NULL;		/* needed when the requests are shaped again: l->wr.next was set */
	l->wr.next = &l->head;
}

static void shape(const struct hdl_queues *h, struct hdl_mailbox_prog *l)
{
	l->wr.opcode = IBV_WR_RDMA_WRITE;
	if (l->region->wide) {
		shape_wide(h, l);
		return;
	}
	/* a barrier's cell is the number alone */
	l->bytes = l->len ? l->len + HDL_CELL_TRAILER : sizeof(uint64_t);
	l->staged = l->reads_memory = l->bytes > hdl_cell_inline(h);
	l->wr.sg_list = l->len || l->staged ? &l->sge[0] : &l->sge[1];
	l->wr.num_sge = l->len && !l->staged ? 2 : 1;
	l->sge[0] = (struct ibv_sge){ .length = (uint32_t)(l->staged ? l->bytes : l->len), .lkey = l->region->mr->lkey };
	l->sge[1] = (struct ibv_sge){ .length = (uint32_t)(l->len ? HDL_CELL_TRAILER : sizeof(uint64_t)) };
}

static int cell_add_put(struct hdl_queues *h, struct hdl_mailbox_prog *l, const struct hdl_node *n)
{
	struct cell_put *p = &l->puts[l->nputs + l->nanswers];
	struct hdl_coll_link *link = h->pair[n->peer];
	size_t end = n->dst_off + n->len + HDL_CELL_TRAILER;

	if (!link || !is_end(l, end) || (p > l->puts && n->len != l->len))
		return EOPNOTSUPP;
	if (p == l->puts) {
		l->len = n->len;
		shape(h, l);
	}
	/* a put without data has no source, but an address is computed from src_space all the same, and not used */
	*p = (struct cell_put){
		.link = link, .src_space = n->len ? n->src_space : HDL_SP_SEND, .src_off = n->src_off,
		.remote = l->region->at + (l->region->wide ? n->dst_off : end - l->bytes),
		.head_remote = head_end(l, end) - HDL_CELL_TRAILER,
	};
	if (n->npreds)
		l->nanswers++;		/* its predecessors are arrivals: no other node precedes a put */
	else
		l->nputs++;
	return 0;
}

static int add_step(struct hdl_mailbox_prog *l, const struct hdl_graph *g, const struct hdl_node *n)
{
	bool reduce = n->kind == HDL_N_REDUCE;

	if ((!reduce && n->kind != HDL_N_COPY) || n->src_off > UINT32_MAX || n->dst_off > UINT32_MAX || n->len > UINT32_MAX)
		return EOPNOTSUPP;
	l->steps[l->nsteps++] = (struct cell_step){
		.reduce = reduce, .src_space = n->src_space, .dst_space = n->dst_space, .src_off = (uint32_t)n->src_off,
		.dst_off = (uint32_t)n->dst_off, .n = (uint32_t)(reduce ? n->len / g->esize : n->len),
	};
	return 0;
}

void hdl_cell_aim(struct hdl_coll_prog *prog, const struct hdl_region_peer *peers)
{
	for (struct cell_put *p = prog->mailbox->puts, *end = p + prog->mailbox->nputs + prog->mailbox->nanswers; p < end; p++) {
		const struct hdl_region_peer *peer = &peers[p->link->peer];

		p->remote += peer->addr;
		p->head_remote += peer->addr;
		p->rkey = peer->rkey;
	}
}

int hdl_cell_compile(struct hdl_queues *h, struct hdl_coll_prog *prog, const struct hdl_slot_region *region)
{
	const struct hdl_graph *g = prog->g;
	size_t n = g->nnodes ? g->nnodes : 1, nputs = 0, lists = n * (sizeof(struct cell_step) + sizeof(struct cell_arrival));
	struct hdl_mailbox_prog *l = aligned_alloc(64, (sizeof(*l) + lists + 63) & ~(size_t)63);
	int err = 0;

	if (!l)
		return ENOMEM;
	*l = (struct hdl_mailbox_prog){ .region = region, .fn = g->fn, .steps = (struct cell_step *)(l + 1), .per_put = 1 };
	if (l->region->wide)
		l->per_put = HDL_CELL_REQUESTS;
	l->arrivals = (struct cell_arrival *)(l->steps + n);
	for (uint32_t i = 0; i < g->nnodes; i++)
		nputs += g->nodes[i].kind == HDL_N_PUT;
	l->puts = calloc(nputs ? nputs : 1, sizeof(*l->puts));
	prog->mailbox = l;
	if (!l->puts)
		return ENOMEM;
	for (uint32_t i = 0; i < g->nnodes && !err; i++) {
		const struct hdl_node *node = &g->nodes[i];

		if (node->kind == HDL_N_PUT)
			err = cell_add_put(h, l, node);
		else if (node->kind == HDL_N_ARRIVE)
			err = add_arrival(h, l, node);
	}
	l->by_leader = prog->synchronizes && l->narrivals < (uint32_t)h->size - 1;
	prog->requests = (uint64_t)(l->nputs + l->nanswers) * l->per_put;
	for (uint32_t i = 0; i < prog->nepilogue && !err; i++)
		err = add_step(l, g, &g->nodes[prog->epilogue[i]]);
	if (!err && region->peers)
		hdl_cell_aim(prog, region->peers);
	return err;
}

void hdl_cell_free(struct hdl_mailbox_prog *l)
{
	if (!l)
		return;
	free(l->puts);
	free(l);
}

/* ---- running --------------------------------------------------------------------------------------------- */

/* An operation takes at most HDL_CELL_REQUESTS entries of a queue. Three more are kept free: one for hdl_cell_follow, after which
 * the room is counted again, and two for the answer of an operation in progress and the request that follows the answer. */
__attribute__((noinline)) bool hdl_cell_find_room(struct hdl_queues *h)
{
	uint64_t room = UINT32_MAX;

	hdl_queues_drain(h);
	for (uint16_t i = 0; i < h->nlinks; i++) {
		const struct hdl_coll_link *l = h->links[i];
		uint64_t entries = hdl_link_room(l), here = entries > 2 ? (entries - 3) / HDL_CELL_REQUESTS : 0;

		room = here < room ? here : room;
	}
	h->cell_room = (uint32_t)room;
	return room;
}

/* Returns the address of the staging memory for the cell of the put's peer. */
static char *stage_of(const struct hdl_mailbox_prog *l, const struct cell_put *p, const struct hdl_run *run)
{
	return l->region->mem + l->region->staging_off + run->slot * l->region->slot_bytes +
	       (size_t)p->link->peer * l->region->cell_bytes;
}

/* Puts the data and the trailer together at `at`. */
static void stage(struct hdl_mailbox_prog *l, const char *data, char *at, const uint64_t trailer[2])
{
	char *end = at + l->len + HDL_CELL_TRAILER;

	if (l->len)
		memcpy(at, data, l->len);
	memcpy(at + l->len, trailer, HDL_CELL_TRAILER);
	l->sge[0].addr = (uintptr_t)end - l->bytes;
}

static __attribute__((noinline)) void fill_wide(struct hdl_mailbox_prog *l, const struct cell_put *p, const struct hdl_run *run,
						const char *data, char *at, const uint64_t *trailer)
{
	if (l->staged)
		data = memcpy(at, data, l->len);
	if (l->head_staged)
		trailer = memcpy(at + l->len, trailer, HDL_CELL_TRAILER);
	l->wr.send_flags = 0;
	l->sge[0].addr = (uintptr_t)data;
	l->head.send_flags = l->head_staged ? 0 : IBV_SEND_INLINE;
	l->head.wr.rdma.remote_addr = p->head_remote + run->slot * l->head_stride;
	l->head.wr.rdma.rkey = p->rkey;
	l->sge[1].addr = (uintptr_t)trailer;
}

/* Posts an empty RDMA WRITE, whose completion follows all earlier requests of the queue. */
__attribute__((noinline, cold)) void hdl_cell_follow(struct hdl_queues *h, struct hdl_coll_link *l, struct hdl_run *run)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED }, *bad;
	int err;

	wr.wr.rdma.remote_addr = h->region[HDL_CELL_SHORT].peers[l->peer].addr;
	wr.wr.rdma.rkey = h->region[HDL_CELL_SHORT].peers[l->peer].rkey;
	l->sq_posted++;
	wr.wr_id = hdl_link_signal_cell(h, l, run);
	h->cell_room = 0;
	err = ibv_post_send(l->qp, &wr, &bad);
	if (err)
		hdl_queues_refused(h, run, l->peer, err);
}

/* Writes a cell to `remote` at the peer. Returns false if the queue has refused the request. */
static inline __attribute__((always_inline)) bool write_cell(struct hdl_queues *h, struct hdl_run *run,
							     const struct hdl_coll_prog *prog, const struct cell_put *p,
							     const char *data, uint64_t remote, const uint64_t trailer[2])
{
	struct hdl_mailbox_prog *l = prog->mailbox;
	struct ibv_send_wr *bad, *first = &l->wr, *last = &l->wr;
	int err;

	p->link->sq_posted += l->per_put;
	l->wr.wr.rdma.remote_addr = remote;
	l->wr.wr.rdma.rkey = p->rkey;
	if (unlikely(l->region->wide)) {
		fill_wide(l, p, run, data, stage_of(l, p, run), trailer);
		last = &l->head;
		first = l->len ? first : last;
	} else if (unlikely(l->staged)) {
		stage(l, data, stage_of(l, p, run), trailer);
		l->wr.send_flags = 0;
	} else {
		l->wr.send_flags = IBV_SEND_INLINE;
		l->sge[0].addr = (uintptr_t)data;
		l->sge[1].addr = (uintptr_t)(trailer + 2) - l->sge[1].length;
	}
	if (unlikely(hdl_link_signal_due(p->link))) {
		last->send_flags |= IBV_SEND_SIGNALED;
		last->wr_id = hdl_link_signal_cell(h, p->link, NULL);
	}
	err = ibv_post_send(p->link->qp, first, &bad);
	if (unlikely(err)) {
		hdl_queues_refused(h, run, p->link->peer, err);
		return false;
	}
	if (l->reads_memory && !prog->lasts && unlikely(hdl_cell_waits(p->link)))
		hdl_cell_follow(h, p->link, run);
	return true;
}

static inline __attribute__((always_inline)) void write_cells(struct hdl_queues *h, struct hdl_run *run,
							      const struct hdl_coll_prog *prog, const struct cell_put *p,
							      const struct cell_put *end)
{
	const struct hdl_mailbox_prog *l = prog->mailbox;
	size_t slot = run->slot * l->region->slot_bytes;
	const uint64_t trailer[2] = { unlikely(run->no_data) ? 0 : l->len, run->opno + 1 };

	for (; p < end; p++)
		if (unlikely(!write_cell(h, run, prog, p, run->base[p->src_space] + p->src_off, p->remote + slot, trailer)))
			return;
}

/* Sets the addresses of the operation's slot, in which the peers' cells arrive. */
static inline __attribute__((always_inline)) void find_cells(struct hdl_queues *h, struct hdl_run *run,
							     const struct hdl_mailbox_prog *l)
{
	h->cell_room--;
	run->arrived = 0;
	run->base[HDL_SP_CELL] = l->region->mem + l->region->at + run->slot * l->region->slot_bytes;
	run->numbers = run->base[HDL_SP_CELL];
	if (unlikely(l->region->wide))
		run->numbers = l->region->mem + run->slot * (size_t)h->size * HDL_CELL_HEAD;
}

static inline __attribute__((always_inline)) void cell_post(struct hdl_queues *h, struct hdl_run *run,
						       const struct hdl_coll_prog *prog)
{
	const struct hdl_mailbox_prog *l = prog->mailbox;

	find_cells(h, run, l);
	write_cells(h, run, prog, l->puts, l->puts + l->nputs);
	hdl_tp_count_rc(hdl_mpi_tp, prog->requests, (l->nputs + l->nanswers) * l->bytes);
}

/* Writes the answers, for which peers wait. The queues have had room for them since the operation was posted. */
static __attribute__((noinline)) void cell_answer(struct hdl_queues *h, struct hdl_run *run, const struct hdl_coll_prog *prog)
{
	const struct hdl_mailbox_prog *l = prog->mailbox;

	write_cells(h, run, prog, l->puts + l->nputs, l->puts + l->nputs + l->nanswers);
}

void hdl_cell_post(struct hdl_queues *h, struct hdl_run *run, const struct hdl_coll_prog *prog)
{
	cell_post(h, run, prog);
}

static inline bool cell_arrived(struct hdl_run *run, const struct hdl_mailbox_prog *l)
{
	const char *slot = run->numbers;
	uint64_t number = run->opno + 1;

	for (; run->arrived < l->narrivals; run->arrived++) {
		const uint64_t *at = (const uint64_t *)(slot + l->arrivals[run->arrived].number);

		/* pairs with the order in which an RDMA WRITE's bytes land: the words before the number are there */
		if (__atomic_load_n(at, __ATOMIC_ACQUIRE) != number)
			return false;
		if (unlikely(l->len && at[-1] != l->len))
			run->mode = HDL_RUN_EMPTY;
	}
	return true;
}

/* A cell's length is not the one that this rank's arguments promise: the steps must not use its data. */
static __attribute__((noinline, cold)) void refuse_length(struct hdl_run *run, const struct hdl_mailbox_prog *l)
{
	uint64_t came = l->len;

	for (uint32_t i = 0; i < l->narrivals && came == l->len; i++)
		came = ((const uint64_t *)(run->numbers + l->arrivals[i].number))[-1];
	hdl_reason_set(
		"%llu bytes came from another rank where %llu were expected: the counts or types of this collective differ "
		"between ranks",
		(unsigned long long)came, (unsigned long long)l->len);
	hdl_run_error(run, came > l->len ? MPI_ERR_TRUNCATE : MPI_ERR_COUNT);
}

bool hdl_cell_arrived(struct hdl_run *run, const struct hdl_coll_prog *prog)
{
	return cell_arrived(run, prog->mailbox);
}

bool hdl_cell_poll(struct hdl_queues *h, struct hdl_run *run, const struct hdl_coll_prog *prog)
{
	(void)h;
	return cell_arrived(run, prog->mailbox);
}

bool hdl_cell_has_room(struct hdl_queues *h, const struct hdl_coll_prog *prog)
{
	(void)prog;
	return h->cell_room || hdl_cell_find_room(h);
}

int hdl_cell_region(const struct hdl_queues *h, const struct hdl_plan *plan)
{
	(void)h;
	return (int)hdl_cell_size(plan->key.bytes);
}

static inline void cell_take(const struct hdl_run *run, const struct hdl_mailbox_prog *l)
{
	for (const struct cell_step *s = l->steps, *end = s + l->nsteps; s < end; s++) {
		const char *src = run->base[s->src_space] + s->src_off;
		char *dst = run->base[s->dst_space] + s->dst_off;

		if (s->reduce)
			l->fn(src, dst, s->n);
		else if (s->n == 8)
			memcpy(dst, src, 8);
		else
			memcpy(dst, src, s->n);
	}
}

void hdl_cell_take(struct hdl_queues *h, struct hdl_run *run, const struct hdl_coll_prog *prog)
{
	const struct hdl_mailbox_prog *l = prog->mailbox;

	if (unlikely(l->nanswers))
		cell_answer(h, run, prog);
	if (unlikely(run->mode == HDL_RUN_EMPTY))
		refuse_length(run, l);
	else
		cell_take(run, l);
}

/* Returns true if this rank may be waiting for a rank that needs this rank's CPU. The cell of a leader does not tell whether the
 * sharers of this CPU have begun: these get the CPU first. */
static inline bool awaits_sharer(const struct hdl_run *run, const struct hdl_mailbox_prog *l, bool fresh)
{
	return run->arrived < l->nsharers || (l->by_leader && fresh);
}

static inline __attribute__((always_inline)) bool await_as(struct hdl_run *run, const struct hdl_mailbox_prog *l, bool shared)
{
	struct hdl_wait w = hdl_wait_begin(HDL_WAIT_CELLS, shared);

	while (hdl_wait_step(&w, shared && awaits_sharer(run, l, w.fresh)))
		if (cell_arrived(run, l))
			return true;
	return false;
}

/* Apart from await, which keeps fewer registers so. */
static __attribute__((noinline)) bool await_shared(struct hdl_run *run, const struct hdl_mailbox_prog *l)
{
	return await_as(run, l, true);
}

static bool await(struct hdl_run *run, const struct hdl_mailbox_prog *l)
{
	if (cell_arrived(run, l))
		return true;
	return hdl_job.oversubscribed ? await_shared(run, l) : await_as(run, l, false);
}

bool hdl_cell_await(struct hdl_run *run, const struct hdl_coll_prog *prog)
{
	return await(run, prog->mailbox);
}

/* ---- cells of v-collectives ------------------------------------------------------------------------------------ */

void hdl_cell_begin(struct hdl_queues *h, struct hdl_run *run, const struct hdl_coll_prog *prog)
{
	find_cells(h, run, prog->mailbox);
}

static void shape_vblock(const struct hdl_queues *h, struct hdl_mailbox_prog *l)
{
	shape(h, l);
	if (!l->len && !l->region->wide) {		/* an empty vblock's cell has the length word as well */
		l->bytes = HDL_CELL_TRAILER;
		l->sge[l->staged ? 0 : 1].length = HDL_CELL_TRAILER;
	}
	l->shaped = l->len + 1;
}

const struct hdl_slot_region *hdl_cell_prog_region(const struct hdl_coll_prog *prog)
{
	return prog->mailbox->region;
}

uint32_t hdl_cell_puts(const struct hdl_coll_prog *prog)
{
	return prog->mailbox->nputs;
}

int hdl_cell_put_to(const struct hdl_coll_prog *prog, uint32_t i)
{
	return prog->mailbox->puts[i].link->peer;
}

/* remote: the address of the cell if the cell were the number alone. Returns false if the queue has refused the request. */
static inline __attribute__((always_inline)) bool cell_write_vblock(struct hdl_queues *h, struct hdl_run *run,
								    const struct hdl_coll_prog *prog, const struct cell_put *p,
								    const void *data, size_t len, bool wide, uint64_t remote,
								    const uint64_t trailer[2])
{
	struct hdl_mailbox_prog *l = prog->mailbox;

	remote -= wide ? len : len + HDL_CELL_TRAILER - sizeof(uint64_t);
	l->len = len;
	if (unlikely(l->shaped != len + 1))
		shape_vblock(h, l);
	return write_cell(h, run, prog, p, data, remote, trailer);
}

void hdl_cell_put_vblock(struct hdl_queues *h, struct hdl_run *run, const struct hdl_coll_prog *prog, uint32_t i,
			 const void *data, size_t len, uint64_t word)
{
	struct hdl_mailbox_prog *l = prog->mailbox;
	const struct cell_put *p = &l->puts[i];
	const uint64_t trailer[2] = { word, run->opno + 1 };

	cell_write_vblock(h, run, prog, p, data, len, l->region->wide, p->remote + run->slot * l->region->slot_bytes, trailer);
	hdl_tp_count_rc(hdl_mpi_tp, l->per_put, l->bytes);
	l->len = 0;		/* cell_arrived must not compare lengths: the vblocks' receivers do */
}

/* Returns the address behind the number of the peer's cell. */
static const uint64_t *behind_number(const struct hdl_run *run, const struct hdl_slot_region *a, int peer)
{
	return (const uint64_t *)(run->numbers + (size_t)(peer + 1) * (a->wide ? HDL_CELL_HEAD : a->cell_bytes));
}

bool hdl_cell_has_come(const struct hdl_run *run, const struct hdl_coll_prog *prog, int peer)
{
	/* pairs with the order of the WRITE's bytes, as in cell_arrived */
	return __atomic_load_n(behind_number(run, prog->mailbox->region, peer) - 1, __ATOMIC_ACQUIRE) == run->opno + 1;
}

uint64_t hdl_cell_word(const struct hdl_run *run, const struct hdl_coll_prog *prog, int peer, const char **end)
{
	const struct hdl_slot_region *a = prog->mailbox->region;

	*end = run->base[HDL_SP_CELL] + (size_t)(peer + 1) * a->cell_bytes - HDL_CELL_TRAILER;
	return behind_number(run, a, peer)[-2];
}

/* ---- short ways of blocking operations ------------------------------------------------------------------------- */

/* Returns the communicator's queues if nothing is outstanding and nothing keeps the operation from being posted (see pump of
 * queues.c); else NULL. */
static inline __attribute__((always_inline)) struct hdl_queues *free_for(struct hdl_cc *cc, const struct hdl_coll_prog *prog)
{
	struct hdl_queues *h = cc->queues[hdl_queues_index(HDL_EXEC_MAILBOX, false)];

	if (unlikely(!h || !prog || h->posted != h->retired || !hdl_queues_can_post(h, prog, true) ||
		     (!h->cell_room && !hdl_cell_find_room(h))))
		return NULL;
	return h;
}

static inline __attribute__((always_inline)) void begin_quick(struct hdl_queues *h, struct hdl_run *run,
							      const struct hdl_coll_prog *prog)
{
	run->error = MPI_SUCCESS;
	run->mode = HDL_RUN_NORMAL;
	run->finished = false;
	run->class = prog->class;
	hdl_queues_number(h, run, prog->synchronizes);
}

/* Returns true if all cells come within a while, and no request of the operation is outstanding. If false, progress continues the
 * operation. */
static inline __attribute__((always_inline)) bool cell_is_through(const struct hdl_queues *h, struct hdl_run *run,
								  const struct hdl_mailbox_prog *l)
{
	return likely(await(run, l)) && likely(!run->outstanding && !hdl_queues_are_broken(h));
}

static inline void end_quick(struct hdl_queues *h, struct hdl_run *run)
{
	hdl_queues_retire(h, run);
	run->finished = true;
}

bool hdl_queues_quick(struct hdl_cc *cc, struct hdl_run *run)
{
	const struct hdl_coll_prog *prog = run->plan->prog;
	struct hdl_queues *h = free_for(cc, prog);

	if (unlikely(!h))
		return false;
	begin_quick(h, run, prog);
	cell_post(h, run, prog);
	h->posted++;
	if (unlikely(!cell_is_through(h, run, prog->mailbox) || run->mode == HDL_RUN_EMPTY)) {
		hdl_queues_enlist(h);
		return true;
	}
	cell_take(run, prog->mailbox);
	h->completed++;
	if (prog->mailbox->nanswers) {
		cell_answer(h, run, prog);
		if (unlikely(run->outstanding)) {
			hdl_queues_enlist(h);
			return true;
		}
	}
	end_quick(h, run);
	return true;
}

static inline void write_vblocks(struct hdl_queues *h, struct hdl_run *run, const struct hdl_coll_prog *prog,
				 const struct hdl_vcoll *a)
{
	struct hdl_mailbox_prog *l = prog->mailbox;
	const struct hdl_vcoll_block *in = a->in;
	const bool each = a->nin > 1;
	uint64_t bytes = 0, trailer[2] = { 0, run->opno + 1 };
	size_t slot = run->slot * l->region->slot_bytes;

	find_cells(h, run, l);
	for (const struct cell_put *p = l->puts, *end = p + l->nputs; p < end; p++) {
		const struct hdl_vcoll_block *block = each ? &in[p->link->peer] : in;

		trailer[0] = hdl_vcoll_block_bytes(block);
		if (unlikely(!cell_write_vblock(h, run, prog, p, block->buf, trailer[0], false, p->remote + slot, trailer)))
			break;
		bytes += l->bytes;
	}
	hdl_tp_count_rc(hdl_mpi_tp, l->nputs, bytes);
	l->len = 0;		/* as in hdl_cell_put_vblock */
}

/* Returns false if a block's length is not the one that this rank's arguments promise. The blocks taken before may be taken
 * again. */
static inline bool take_vblocks(const struct hdl_run *run, const struct hdl_mailbox_prog *l, const struct hdl_vcoll *a)
{
	for (const struct cell_arrival *from = l->arrivals, *end = from + l->narrivals; from < end; from++) {
		const uint64_t *number = (const uint64_t *)(run->numbers + from->number);
		const struct hdl_vcoll_block *block = &a->out[a->nout > 1 ? from->peer : 0];
		size_t len = hdl_vcoll_block_bytes(block);

		if (unlikely(number[-1] != len))
			return false;
		if (len == 8)
			memcpy((void *)block->buf, number - 2, 8);
		else if (len)
			memcpy((void *)block->buf, (const char *)(number - 1) - len, len);
	}
	return true;
}

static inline void cell_take_own(const struct hdl_run *run, const struct hdl_vcoll *a)
{
	const struct hdl_vcoll_block *in, *out;

	if (hdl_vcoll_own(a, run->comm->rank, &in, &out))
		memcpy((void *)out->buf, in->buf, hdl_vcoll_block_bytes(in));
}

bool hdl_queues_quick_vcoll(struct hdl_cc *cc, struct hdl_run *run, const struct hdl_vcoll *a)
{
	const struct hdl_coll_prog *prog = run->plan->prog;
	struct hdl_queues *h = free_for(cc, prog);

	/* wide cells are gathered from the user's memory when their requests run */
	if (unlikely(!h || prog->mailbox->region->wide))
		return false;
	begin_quick(h, run, prog);
	write_vblocks(h, run, prog, a);
	h->posted++;
	cell_take_own(run, a);
	if (unlikely(!cell_is_through(h, run, prog->mailbox) || !take_vblocks(run, prog->mailbox, a))) {
		run->plan->exec->go_on(run, a);
		hdl_queues_enlist(h);
		return true;
	}
	h->completed++;
	end_quick(h, run);
	return true;
}
