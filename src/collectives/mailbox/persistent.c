/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Persistent collectives on mailbox. Ranks start a communicator's persistent operations in any order, and between any other
 * operations (MPI-5, section 6.13), so that a start has no place in the sequence of numbered operations. Each persistent
 * operation has cells of its own at all ranks, whose addresses the ranks exchange when the operation is made (the calls that make
 * persistent operations come in one order on all ranks, and need not be local). The queues are the communicator's, and no order
 * is asked of them: a cell's place names the operation, its number the start.
 *
 *     memory of one operation, at every rank
 *       | cells of slot 0 | cells of slot 1 | ...    one per rank and slot, as long as the data need
 *       | barrier 0       | barrier 1       |        cells of an inserted barrier, if the operation does not synchronize
 *       | staging                                    as much as the cells, for cells that requests do not carry inline
 *
 * Start n uses slot n mod S. When any rank writes to that slot, the slot is free at every rank, and so is the source of this
 * rank's own requests of start n - S:
 *
 *     A rank starts n when it has completed n - 1. Among any K consecutive starts one synchronizes: K is 1 if each does,
 *     otherwise a barrier follows every K-th start. So when rank A starts n, A has completed a synchronizing start y with
 *     n - K <= y < n, which all ranks have started: each has completed n - K - 1, and has taken every cell of that start and of
 *     those before. S = K + 1. The barriers are themselves such a sequence, each of which synchronizes: they have two slots.
 *
 * Of v-collectives (vector.c) the cells carry the blocks that fit. A message that follows a cell has the request's tag: each
 * start of a rank sends its peer the same messages, in the same order, and they are received in the order of the starts.
 *
 * When a start completes here, no peer is still writing to its cells. This rank's own WRITEs may still be queued (the port is
 * down). So the operation's memory may be given to another operation, except where this rank's own requests may still read the
 * memory: then the memory stays with the communicator (hdl_pcoll_free).
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "collectives/mailbox/mailbox.h"
#include "collectives/queues/queues.h"
#include "collectives/select/select.h"

#define BARRIER_EVERY 8

/* Cells that are written and taken together: the operation's, or the barrier's. */
struct part {
	struct hdl_graph *own;		/* the barrier's graph; NULL: the operation's, which belongs to the plan */
	struct hdl_run *run;
	struct hdl_coll_prog *prog;
	struct hdl_slot_region region;		/* in the operation's memory; the peers' addresses come later (hdl_cell_aim) */
	uint64_t n;			/* number of the next start */
	uint32_t slots, slot;		/* slot of the next start, below `slots` */
	void (*post)(struct hdl_queues *h, struct hdl_run *run, const struct hdl_coll_prog *prog);	/* the executor's */
	bool messages;			/* the executor sends messages and copies beside the cells */
};

struct hdl_pcoll {
	struct hdl_queues *h;
	struct hdl_pcoll *next, **link;	/* list h->started, from the start to the end of the start */
	struct hdl_pcoll *behind, **at;	/* list h->pcolls, as long as there is memory */
	struct part op, barrier;	/* barrier.run NULL: the operation synchronizes */
	uint32_t since_barrier;
	bool posted;			/* the cells of the start in progress were posted */
	bool has_barrier;		/* a barrier follows the start in progress, and was posted as well */
	char *memory;
	size_t bytes;
	struct ibv_mr *mr;
	struct hdl_region_peer *peers;
	struct hdl_region_record *records;	/* only while the operation is made */
};

/* ---- making ------------------------------------------------------------------------------------------------------ */

static void pcoll_lay_out(struct hdl_pcoll *p)
{
	struct part *parts[] = { &p->op, &p->barrier };

	for (int i = 0; i < 2; i++) {
		struct part *part = parts[i];

		p->bytes = hdl_cell_place(&part->region, p->h->size, part->slots, p->bytes);
	}
	for (int i = 0; i < 2; i++) {
		parts[i]->region.staging_off = p->bytes;
		if (hdl_cell_stages(p->h, &parts[i]->region))
			p->bytes += parts[i]->slots * parts[i]->region.slot_bytes;
	}
}

/* Makes the barrier that is inserted after every BARRIER_EVERY-th start. Returns 0 or an errno. */
static int make_barrier(struct hdl_pcoll *p)
{
	struct hdl_queues *h = p->h;
	struct hdl_shape s = { .coll = HDL_BARRIER, .rank = h->rank, .size = h->size, .cell_bytes = hdl_cell_bytes(0) };

	p->barrier.region.cell_bytes = s.cell_bytes;
	p->barrier.slots = 2;
	p->barrier.own = hdl_tune_offload(HDL_EXEC_MAILBOX, &s)->build(&s);
	p->barrier.run = p->barrier.own ? hdl_run_new(p->barrier.own, h->cc->comm) : NULL;
	if (!p->barrier.run)
		return ENOMEM;
	p->barrier.run->args.coll = HDL_BARRIER;
	p->barrier.post = hdl_cell_post;
	return 0;
}

static int pcoll_compile(struct hdl_pcoll *p, struct part *part, const struct hdl_graph *g)
{
	part->region.mem = p->memory;
	part->region.mr = p->mr;
	part->prog = hdl_mailbox_compile_at(p->h, g, &part->region);
	return part->prog ? 0 : errno;
}

/* Makes this rank's part of the operation. Returns 0 or an errno. */
static int pcoll_make_local(struct hdl_pcoll *p, struct hdl_run *run)
{
	const struct hdl_plan *plan = run->plan;
	int err = 0;

	p->op.run = run;
	p->op.post = plan->exec->post;
	p->op.messages = plan->exec->abort;
	p->op.region.cell_bytes = hdl_cell_bytes(plan->key.bytes);
	p->op.slots = hdl_coll_synchronizes(plan->key.coll) ? 2 : BARRIER_EVERY + 1;
	if (!hdl_coll_synchronizes(plan->key.coll))
		err = make_barrier(p);
	if (err)
		return err;
	pcoll_lay_out(p);
	p->memory = hdl_tp_alloc(hdl_mpi_tp, p->bytes);
	if (!p->memory)
		return ENOMEM;
	hdl_ledger_add("collectives' slots", p->memory, p->bytes);
	/* no cell has a valid number from an earlier use of the memory */
	memset(p->memory, 0, p->op.region.staging_off);
	p->mr = ibv_reg_mr(p->h->port->pd, p->memory, p->bytes, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	if (!p->mr)
		return errno;
	err = pcoll_compile(p, &p->op, plan->offload_graph);
	return err || !p->barrier.run ? err : pcoll_compile(p, &p->barrier, p->barrier.own);
}

static void pcoll_unmake(struct hdl_pcoll *p)
{
	hdl_run_free(p->barrier.run);
	hdl_coll_prog_free(p->barrier.prog);
	hdl_graph_free(p->barrier.own);
	hdl_coll_prog_free(p->op.prog);
	p->barrier = p->op = (struct part){ 0 };
}

static void pcoll_give_back(struct hdl_pcoll *p)
{
	if (p->at) {
		*p->at = p->behind;
		if (p->behind)
			p->behind->at = p->at;
	}
	if (p->mr)
		ibv_dereg_mr(p->mr);
	hdl_tp_free(hdl_mpi_tp, p->memory);
	free(p->records);
	free(p->peers);
	free(p);
}

/* ---- agreeing ---------------------------------------------------------------------------------------------------- */

static bool is_wired(const void *arg)
{
	return ((const struct hdl_queues *)arg)->state != HDL_QUEUES_WIRING;
}

static bool is_gathered(const void *arg)
{
	return *(struct hdl_run *const *)arg;
}

static void pcoll_gathered(struct hdl_run *run)
{
	*(struct hdl_run **)run->arg = run;
}

/* Runs an Allgather in place, and waits for the end. Returns an MPI error class. */
static int pcoll_allgather(struct hdl_queues *h, void *buf, size_t bytes)
{
	struct hdl_run *ended = NULL;
	int error;

	if (hdl_queues_allgather(h, buf, bytes, pcoll_gathered, &ended)) {
		hdl_reason_set("no memory to tell the other ranks of a persistent collective");
		return MPI_ERR_NO_MEM;
	}
	hdl_blocked_comm = h->cc->comm;
	hdl_wait_until(is_gathered, &ended);
	hdl_blocked_comm = NULL;
	error = ended->error;
	if (error)
		hdl_reason_set("%s", ended->why);
	hdl_run_free(ended);
	return error;
}

/* Exchanges the addresses of the ranks' parts, or that a rank has none. *all: every rank has a part. Returns an MPI error
 * class. */
static int pcoll_exchange(struct hdl_pcoll *p, int status, bool *all)
{
	struct hdl_queues *h = p->h;
	int error;

	p->records[h->rank] = (struct hdl_region_record){ .addr = (uintptr_t)p->memory, .rkey = p->mr ? p->mr->rkey : 0,
							  .status = status };
	error = pcoll_allgather(h, p->records, sizeof(*p->records));
	*all = true;
	for (int r = 0; r < h->size && !error; r++) {
		p->peers[r].addr = p->records[r].addr;
		p->peers[r].rkey = p->records[r].rkey;
		*all = *all && !p->records[r].status;
	}
	return error;
}

/* Returns the communicator's queues, once all ranks have theirs or none has (state HDL_QUEUES_REFUSED).
 * Returns NULL with errno. */
static struct hdl_queues *pcoll_wired(struct hdl_cc *cc, uint8_t coll)
{
	struct hdl_queues *h = hdl_queues_of(cc, HDL_EXEC_MAILBOX, false, coll);

	if (h)
		hdl_wait_until(is_wired, h);
	return h;
}

/* The peers wait for this rank's part, or may have theirs and start the operation: the communicator is given up, which reports
 * the error to them. */
static int pcoll_give_up(struct hdl_comm *comm, int error)
{
	char why[sizeof(((struct hdl_run *)0)->why)];

	snprintf(why, sizeof(why), "%s", hdl_reason_take());
	hdl_ft_give_up(comm, why);
	hdl_ft_progress();
	hdl_reason_set("%s", why);
	return error;
}

static int find_most(struct hdl_cc *cc, uint8_t coll, struct hdl_most *most)
{
	struct hdl_queues *h = pcoll_wired(cc, coll);
	struct hdl_most *all;
	int rc;

	if (!h)
		return hdl_class_of(errno);
	if (h->state == HDL_QUEUES_REFUSED)
		return MPI_SUCCESS;
	all = calloc((size_t)h->size, sizeof(*all));
	if (!all) {
		hdl_reason_set("no memory for the lengths of a persistent collective");
		return MPI_ERR_NO_MEM;
	}
	all[h->rank] = *most;
	rc = pcoll_allgather(h, all, sizeof(*all));
	for (int r = 0; r < h->size && !rc; r++)
		*most = (struct hdl_most){ .fits = all[r].fits > most->fits ? all[r].fits : most->fits,
					   .any = all[r].any > most->any ? all[r].any : most->any };
	free(all);
	return rc;
}

int hdl_pcoll_agree(struct hdl_cc *cc, uint8_t coll, struct hdl_most *most)
{
	int rc = find_most(cc, coll, most);

	return rc ? pcoll_give_up(cc->comm, rc) : MPI_SUCCESS;
}

static const struct hdl_pcoll_ops pcoll_ops_of_mailbox;

static int pcoll_make(struct hdl_run *run)
{
	struct hdl_queues *h = pcoll_wired(run->comm->coll, run->plan->key.coll);
	struct hdl_pcoll *p;
	bool all = false;
	int rc;

	if (!h)
		return hdl_class_of(errno);
	if (h->state == HDL_QUEUES_REFUSED) {
		run->plan->why_not = h->why_refused;
		return MPI_SUCCESS;
	}
	p = calloc(1, sizeof(*p));
	if (p) {
		p->h = h;
		p->records = calloc((size_t)h->size, sizeof(*p->records));
		p->peers = calloc((size_t)h->size, sizeof(*p->peers));
	}
	if (!p || !p->records || !p->peers) {
		if (p)
			pcoll_give_back(p);
		hdl_reason_set("no memory for the cells of a persistent collective");
		return MPI_ERR_NO_MEM;
	}
	rc = pcoll_exchange(p, hdl_queues_are_broken(h) ? EIO : pcoll_make_local(p, run), &all);
	free(p->records);
	p->records = NULL;
	if (rc || !all) {
		pcoll_unmake(p);
		pcoll_give_back(p);
		run->plan->why_not = "a rank had no memory for its cells";
		return rc;
	}
	hdl_cell_aim(p->op.prog, p->peers);
	if (p->barrier.run)
		hdl_cell_aim(p->barrier.prog, p->peers);
	p->behind = h->pcolls;
	p->at = &h->pcolls;
	if (p->behind)
		p->behind->at = &p->behind;
	h->pcolls = p;
	h->pcoll_ops = &pcoll_ops_of_mailbox;
	run->pcoll = p;
	return MPI_SUCCESS;
}

int hdl_pcoll_new(struct hdl_run *run)
{
	int rc = pcoll_make(run);

	return rc ? pcoll_give_up(run->comm, rc) : MPI_SUCCESS;
}

void hdl_pcoll_free(struct hdl_pcoll *p)
{
	struct hdl_queues *h = p->h;
	bool read = false;

	for (uint16_t i = 0; i < h->nlinks; i++)
		read |= hdl_cell_waits(h->links[i]);
	pcoll_unmake(p);
	if (!read)
		pcoll_give_back(p);
}

static void pcoll_clear(struct hdl_queues *h)
{
	while (h->pcolls) {
		pcoll_unmake(h->pcolls);
		pcoll_give_back(h->pcolls);
	}
}

/* ---- running ----------------------------------------------------------------------------------------------------- */

static inline void post_part(struct hdl_queues *h, struct part *part)
{
	part->run->opno = part->n++;
	part->run->slot = part->slot;
	part->slot = hdl_ring_after(part->slot, part->slots);
	part->post(h, part->run, part->prog);
}

/* Returns true if each queue has room for an operation's cell and a barrier's cell: a unit of cell_room has room for one cell to
 * each peer. */
static inline bool pcoll_has_room(struct hdl_queues *h)
{
	if (unlikely(h->cell_room <= 1))
		hdl_cell_find_room(h);
	return h->cell_room > 1;
}

static inline void try_post(struct hdl_pcoll *p)
{
	struct hdl_queues *h = p->h;

	if (unlikely(!hdl_queues_take_requests(h) || !pcoll_has_room(h)))
		return;
	p->posted = true;
	post_part(h, &p->op);
	if (unlikely(hdl_queues_are_broken(h)))
		return;
	p->has_barrier = p->barrier.run && ++p->since_barrier == BARRIER_EVERY;
	if (unlikely(p->has_barrier)) {
		p->since_barrier = 0;
		post_part(h, &p->barrier);
	}
}

/* Returns true if the operation is done beside its cells, which have all arrived: messages and copies may still be in
 * progress. */
static inline bool pcoll_is_through(struct hdl_pcoll *p)
{
	return likely(!p->op.messages) || p->op.run->plan->exec->poll(p->h, p->op.run, p->op.prog);
}

static inline bool pcoll_is_complete(struct hdl_pcoll *p)
{
	return p->posted && hdl_cell_arrived(p->op.run, p->op.prog) && pcoll_is_through(p) &&
	       (!p->has_barrier || hdl_cell_arrived(p->barrier.run, p->barrier.prog));
}

/* Ends the start. The run may be freed, and p with it. */
static void pcoll_end(struct hdl_pcoll *p)
{
	struct hdl_run *run = p->op.run;

	*p->link = p->next;
	if (p->next)
		p->next->link = p->link;
	if (unlikely(hdl_queues_are_broken(p->h)))
		hdl_queues_fail_run(p->h, run);
	else if (likely(!p->op.messages))
		hdl_cell_take(p->h, run, p->op.prog);
	p->h->unfit |= run->error != MPI_SUCCESS;
	hdl_run_finish(run);
}

void hdl_pcoll_start(struct hdl_pcoll *p)
{
	struct hdl_queues *h = p->h;

	p->next = h->started;
	p->link = &h->started;
	if (p->next)
		p->next->link = &p->next;
	h->started = p;
	p->posted = false;
	hdl_queues_enlist(h);
	try_post(p);
}

static inline bool becomes_complete(struct hdl_pcoll *p)
{
	return p->posted && hdl_cell_await(p->op.run, p->op.prog) && pcoll_is_through(p) &&
	       (!p->has_barrier || hdl_cell_await(p->barrier.run, p->barrier.prog));
}

void hdl_pcoll_look(struct hdl_req *req, bool waits)
{
	struct hdl_pcoll *p = ((struct hdl_run *)hdl_req_collective_arg(req))->pcoll;

	if (likely(!hdl_queues_are_broken(p->h)) && (waits ? becomes_complete(p) : pcoll_is_complete(p)))
		pcoll_end(p);
}

static int pcoll_turn(struct hdl_queues *h)
{
	int n = 0;

	for (struct hdl_pcoll *p = h->started, *next; p; p = next) {
		next = p->next;
		if (unlikely(!p->posted))
			try_post(p);
		if (!hdl_queues_are_broken(h) && !pcoll_is_complete(p))
			continue;
		if (unlikely(hdl_queues_are_broken(h)) && p->op.messages && !p->op.run->plan->exec->abort(h, p->op.run))
			continue;
		pcoll_end(p);
		n++;
	}
	/* a peer's failure shows in the completion queue */
	if (h->started)
		hdl_queues_drain(h);
	return n;
}

static const struct hdl_pcoll_ops pcoll_ops_of_mailbox = { .turn = pcoll_turn, .clear = pcoll_clear };
