/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What direct and tasks share: posts compiled graphs and notices their completion. See offload.h for links, slots and the proof that a
 * slot is free when it is used again.
 *
 * Operations of a communicator are completed in the order in which they were begun, also where a later one would be done
 * earlier: their slots return in that order.
 */
#include "collectives/offload.h"
#include "runtime/threads.h"

#include <arpa/inet.h>
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "collectives/tuner.h"

/* What progress looks at: every communicator with operations outstanding is here, and leaves when it is found without. */
struct hdl_off *hdl_off_active;

_Static_assert(HDL_OFF_DEPTH_MAX <= 256, "a ring place has 8 bits in wr_id");

/* ---- completions ------------------------------------------------------------------------------------------ */

#define BATCH 16

int hdl_off_post_recvs(struct hdl_off_link *l, uint64_t n)
{
	struct ibv_recv_wr wr[BATCH], *bad;

	memset(wr, 0, sizeof(wr));
	for (int i = 0; i < BATCH; i++)
		wr[i].wr_id = HDL_ID_RECEIVE | (uint64_t)l->index << HDL_ID_LINK_SHIFT;
	while (n) {
		uint64_t now = n < BATCH ? n : BATCH;
		int err;

		for (uint64_t i = 0; i < now; i++)
			wr[i].next = i + 1 < now ? &wr[i + 1] : NULL;
		err = l->srq ? ibv_post_srq_recv(l->srq, wr, &bad) : ibv_post_recv(l->qp, wr, &bad);
		if (err)
			return -err;
		n -= now;
	}
	return 0;
}

/* Counts what has arrived on a link, and gives receives back in batches. */
static void drain_link(struct hdl_off *h, struct hdl_off_link *l)
{
	struct ibv_wc wc[BATCH];
	int n;

	do {
		n = ibv_poll_cq(l->rcq, BATCH, wc);
		for (int i = 0; i < n; i++)
			if (unlikely(wc[i].status != IBV_WC_SUCCESS))
				hdl_off_failed(h, "arrival from", l->peer, wc[i].status);
		if (n > 0)
			l->seen += (uint64_t)n;
	} while (n == BATCH);
	if (unlikely(n < 0))
		hdl_off_failed(h, "polling the completion queue of the link from", l->peer, IBV_WC_GENERAL_ERR);
	if (l->seen - l->given >= (h->depth + 1) / 2 && !h->broken) {
		if (hdl_off_post_recvs(l, l->seen - l->given))
			hdl_off_failed(h, "posting receives for", l->peer, IBV_WC_GENERAL_ERR);
		l->given = l->seen;
	}
}

bool hdl_off_has_arrived(struct hdl_off *h, struct hdl_off_link *l)
{
	drain_link(h, l);
	return l->seen == l->expected;
}

void hdl_off_drain(struct hdl_off *h)
{
	struct ibv_wc wc[BATCH];
	int n;

	do {
		n = ibv_poll_cq(h->local_cq, BATCH, wc);
		for (int i = 0; i < n; i++) {
			struct hdl_off_link *l = h->links[wc[i].wr_id >> HDL_ID_LINK_SHIFT & 0x3fff];

			if (unlikely(wc[i].status == IBV_WC_WR_FLUSH_ERR && h->lines && wc[i].wr_id & HDL_ID_RECEIVE)) {
				hdl_off_left(h, l->peer);
				continue;
			}
			if (unlikely(wc[i].status != IBV_WC_SUCCESS)) {
				hdl_off_failed(h, wc[i].wr_id & HDL_ID_RECEIVE ? "connection from" : "request to", l->peer, wc[i].status);
				continue;
			}
			h->local_seen++;
			l->sq_done = l->sq_posted - ((l->sq_posted - wc[i].wr_id) & HDL_ID_POSITION);
			if (wc[i].wr_id & HDL_ID_RETIRES)
				h->ring[wc[i].wr_id >> HDL_ID_PLACE_SHIFT & 0xff]->outstanding--;
		}
	} while (n == BATCH);
	if (unlikely(n < 0))
		hdl_off_failed(h, "polling the completion queue of", h->rank, IBV_WC_GENERAL_ERR);
}

/* ---- posting --------------------------------------------------------------------------------------------- */

__attribute__((noinline, cold)) void hdl_off_refused(struct hdl_off *h, const struct hdl_run *run, int peer, int err)
{
	hdl_error("offloaded %s: posting a request to rank %d failed (%s): the queue is in error or shorter than it was created",
		  run ? hdl_coll_name(run->args.coll) : "collectives", peer, strerror(err));
	hdl_off_break(h, HDL_QUEUES_IN_ERROR);
}

static struct hdl_off_prog *prog_of(const struct hdl_run *run)
{
	return run->plan->prog;
}

static bool uses_have_room(const struct hdl_off *h, const struct hdl_off_prog *p)
{
	bool room = h->local_posted + p->nuses - h->local_seen <= h->local_room;

	for (uint32_t u = 0; u < p->nuses && room; u++) {
		const struct hdl_off_link *l = p->uses[u].link;

		room = l->sq_posted + p->uses[u].wrs - l->sq_done <= l->sq_depth;
	}
	return room;
}

/* Room for the operation on every queue that it uses, and for its completions. */
static bool has_room(struct hdl_off *h, const struct hdl_off_prog *p)
{
	if (p->lines || p->reads)
		return h->line_room || hdl_line_find_room(h);
	if (uses_have_room(h, p))
		return true;
	hdl_off_drain(h);
	return uses_have_room(h, p);
}

/* Behind a block: which operation it is of, and how long it is; and the complement. */
static inline void set_stamps(const struct hdl_run *run, size_t bytes, uint64_t stamps[2])
{
	stamps[0] = (uint64_t)(uint32_t)(run->opno + 1) << 32 | (uint32_t)bytes;
	stamps[1] = ~stamps[0];
}

/* Of a block that was moved: what stands where the stamp was to stand is one of an operation before, whose bytes nobody has written
 * over, if too few came. Of what the device has combined nobody knows. */
static __attribute__((noinline, cold)) void refuse_block(struct hdl_run *run, const char *at, const struct hdl_node *n)
{
	uint64_t stamp;
	uint32_t behind;
	bool few;

	memcpy(&stamp, at, sizeof(stamp));
	behind = (uint32_t)(run->opno + 1) - (uint32_t)(stamp >> 32);
	few = !stamp || (behind ? behind < 4 * HDL_OFF_DEPTH_MAX : (uint32_t)stamp < n->stride);
	if (n->len == HDL_STAMPS)
		hdl_reason_set("not all ranks gave %zu bytes to the reduction: the counts or types of this collective differ between ranks",
			       n->stride);
	else
		hdl_reason_set("a block of %s bytes came from another rank where %zu were expected: the counts or types of this collective "
			       "differ between ranks", few ? "fewer" : "more", n->stride);
	hdl_run_error(run, few || n->len == HDL_STAMPS ? MPI_ERR_COUNT : MPI_ERR_TRUNCATE);
}

void hdl_off_cpu_nodes(struct hdl_run *run, const struct hdl_graph *g, const uint32_t *nodes, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		const struct hdl_node *node = &g->nodes[nodes[i]];
		const char *src = run->base[node->src_space < HDL_SPACES ? node->src_space : HDL_SP_DATA] + node->src_off;
		char *dst = run->base[node->dst_space < HDL_SPACES ? node->dst_space : HDL_SP_DATA] + node->dst_off;
		uint64_t stamps[HDL_STAMPS / 8];

		switch (node->kind) {
		case HDL_N_ENCODE: hdl_enc_encode(&run->plan->enc, dst, src, node->len); break;
		case HDL_N_DECODE: hdl_enc_decode(&run->plan->enc, dst, src, node->len); break;
		case HDL_N_REDUCE: g->fn(src, dst, node->len / g->esize); break;
		case HDL_N_STAMP:
			set_stamps(run, node->stride, stamps);
			memcpy(dst, stamps, node->len);
			break;
		case HDL_N_CHECK:
			set_stamps(run, node->stride, stamps);
			if (likely(!memcmp(src, stamps, node->len)))
				break;
			refuse_block(run, src, node);
			return;
		default: memcpy(dst, src, node->len); break;
		}
	}
}

/* The last request of each queue is signaled: its position says what the queue has room for again. */
static void set_signal(struct hdl_off *h, struct hdl_run *run, const struct hdl_off_use *use)
{
	struct hdl_off_link *l = use->link;
	bool retires = use->reads_slot || (l == h->master && prog_of(run)->watch_master);

	l->sq_posted += use->wrs;
	h->local_posted++;
	run->outstanding += retires;
	use->last->exp_send_flags |= IBV_EXP_SEND_SIGNALED;
	use->last->wr_id = (retires ? HDL_ID_RETIRES : 0) | (uint64_t)l->index << HDL_ID_LINK_SHIFT |
			   (uint64_t)run->place << HDL_ID_PLACE_SHIFT | (l->sq_posted & HDL_ID_POSITION);
}

static void fill_accum(const struct hdl_off_step *s, const struct hdl_run *run, struct ibv_exp_send_wr *wr, uint64_t remote)
{
	uint64_t word = hdl_enc_word(&run->plan->enc, run->base[s->src_space] + s->src_off, s->len);

	wr->ext_op.masked_atomics.remote_addr = remote + s->dst_off;
	if (run->plan->enc.atomic == HDL_ENC_ADD) {
		wr->ext_op.masked_atomics.wr_data.inline_data.op.fetch_add.add_val = word;
	} else {
		/* Nothing is compared; the bits of the mask become 1. */
		wr->ext_op.masked_atomics.wr_data.inline_data.op.cmp_swap.swap_val = word;
		wr->ext_op.masked_atomics.wr_data.inline_data.op.cmp_swap.swap_mask = word;
	}
}

static void fill_steps(struct hdl_off *h, struct hdl_run *run)
{
	struct hdl_off_prog *p = prog_of(run);
	const struct hdl_off_class *c = &h->class[run->class];
	const struct hdl_area_peer *peers = h->area[run->class].peers;
	uint64_t slot = run->slot * c->slot_bytes;

	for (uint32_t i = 0; i < p->nwrs; i++) {
		const struct hdl_off_step *s = &p->steps[i];
		struct ibv_exp_send_wr *wr = &p->wrs[i];

		switch ((enum hdl_step_kind)s->kind) {
		case HDL_STEP_ACCUM:
			fill_accum(s, run, wr, peers[s->peer].addr + slot);
			break;
		case HDL_STEP_PUT:
			wr->ex.imm_data = htonl((uint32_t)run->opno);
			if (s->len) {
				wr->wr.rdma.remote_addr = peers[s->peer].addr + slot + s->dst_off +
							  (s->dst_space == HDL_SP_DATA ? c->acc_bytes : 0);
				for (int k = 0; k < wr->num_sge; k++)
					wr->sg_list[k].addr = (uintptr_t)run->base[s->src_space] + s->src_off + (size_t)k * s->stride;
			} else {
				/* Nothing is written; the address must be one that may be. */
				wr->wr.rdma.remote_addr = peers[s->peer].addr + slot;
			}
			break;
		case HDL_STEP_WAIT:
			/* Arrivals of operations before this one that the master had no reason to wait for are behind it. */
			wr->task.cqe_wait.cq_count = (int32_t)(s->link->expected - s->link->waited);
			s->link->waited = s->link->expected;
			break;
		case HDL_STEP_ENABLE:
			break;
		}
	}
}

static __attribute__((noinline, cold)) void cannot_open(struct hdl_off *h, struct hdl_run *run, const struct hdl_off_link *l, int err)
{
	hdl_reason_set("%s: receives for what comes from rank %d cannot be posted (%s)", hdl_coll_name(run->args.coll), l->peer,
		       strerror(-err));
	hdl_run_error(run, MPI_ERR_NO_MEM);
	hdl_off_break(h, run->why);
}

/* The task list. */
static void post_tasks(struct hdl_off *h, struct hdl_run *run)
{
	struct hdl_off_prog *p = prog_of(run);
	struct ibv_exp_task *bad;
	int err;

	for (uint32_t a = 0; a < p->narrivals; a++) {
		p->arrivals[a]->expected++;
		if (likely(p->arrivals[a]->open))
			continue;
		err = hdl_off_open_link(h, p->arrivals[a]);
		if (unlikely(err)) {
			cannot_open(h, run, p->arrivals[a], err);
			return;
		}
	}
	fill_steps(h, run);
	for (uint32_t u = 0; u < p->nuses; u++)
		set_signal(h, run, &p->uses[u]);
	for (uint32_t w = 0; w < p->nwatches; w++)
		h->need[run->place * (uint64_t)h->nlinks + w] = p->watches[w]->expected;
	hdl_stirred = true;		/* hdl_off_arm has more to arm */
	if (!p->ntasks)
		return;
	err = ibv_exp_post_task(h->port->ctx, p->tasks, &bad);
	if (unlikely(err)) {
		uint32_t t = (uint32_t)(bad - p->tasks);

		hdl_error("offloaded %s: posting %u requests for rank %d failed (%s): the queue is in error or shorter than it was "
			  "created", hdl_coll_name(run->args.coll), t < p->nuses ? p->uses[t].wrs : 0,
			  t < p->nuses ? p->uses[t].link->peer : -1, strerror(err));
		hdl_off_break(h, HDL_QUEUES_IN_ERROR);
		return;
	}
	hdl_tp_count_rc(hdl_mpi_tp, p->requests, p->bytes);
}

/* Posts the operation. The caller has seen to (a) of offload.h and to room on the queues. */
static void post(struct hdl_off *h, struct hdl_run *run)
{
	struct hdl_off_prog *p = prog_of(run);

	hdl_off_number(h, run, p->synchronizes);
	if (p->reads) {
		hdl_reads_post(h, run);
	} else if (p->parcels) {
		hdl_parcels_post(h, run, p);
	} else if (p->lines) {
		hdl_line_post(h, run, p);
	} else {
		run->base[HDL_SP_ACC] = h->area[run->class].mem + run->slot * h->class[run->class].slot_bytes;
		run->base[HDL_SP_DATA] = run->base[HDL_SP_ACC] + h->class[run->class].acc_bytes;
		hdl_off_cpu_nodes(run, p->g, p->prologue, p->nprologue);
		h->since_sync_all = p->synchronizes ? 0 : h->since_sync_all + 1;
		post_tasks(h, run);
	}
	h->posted++;
}

/* ---- operations ------------------------------------------------------------------------------------------ */

static void run_on_host(struct hdl_off *h, struct hdl_run *run)
{
	const struct hdl_graph *g;

	run->plan->fallbacks++;
	run->plan->why_not = h->why_off;
	if (run->parcels) {
		hdl_parcels_to_host(run);
		return;
	}
	g = hdl_plan_host_graph(run->plan, run->comm);
	if (g) {
		hdl_run_change_graph(run, g);
		if (!hdl_run_prepare_host(run)) {
			hdl_host_start(run);
			return;
		}
	}
	hdl_reason_set("%s: no memory for its task graph or its scratch", hdl_coll_name(run->args.coll));
	hdl_run_error(run, MPI_ERR_NO_MEM);
	hdl_run_finish(run);
}

static struct hdl_run *dequeue(struct hdl_off *h)
{
	struct hdl_run *run = h->queue;

	h->queue = run->next;
	if (!h->queue)
		h->queue_tail = &h->queue;
	if (run->plan->key.internal)
		return run;
	h->queued--;
	if (h->late) {
		h->late--;
		run->plan->late++;
	}
	return run;
}

void hdl_off_in_error(const struct hdl_off *h, struct hdl_run *run)
{
	const char *name = hdl_coll_name(run->args.coll);

	hdl_reason_set("%s: %s", name, h->wire_error ? h->why_off : HDL_QUEUES_IN_ERROR);
	hdl_run_error(run, h->wire_error == MPI_ERR_NO_MEM ? MPI_ERR_NO_MEM : h->cc->lost ? MPI_ERR_PROC_ABORTED :
			   h->wire_error ? h->wire_error : MPI_ERR_OTHER);
}

static void fail(const struct hdl_off *h, struct hdl_run *run)
{
	hdl_off_in_error(h, run);
	hdl_run_finish(run);
}

static __attribute__((noinline)) bool compile(struct hdl_off *h, struct hdl_run *run)
{
	struct hdl_plan *plan = run->plan;
	int err;

	if (plan == h->credit[run->class])
		plan->prog = hdl_off_compile_credit(h, plan, run->class);
	else if (plan->off_graph->reads)
		plan->prog = hdl_reads_compile(h, plan);
	else
		plan->prog = hdl_off_compile(h, plan->off_graph, plan->key.bytes, &plan->enc, hdl_off_synchronizes(plan->key.coll));
	err = errno;
	if (plan->prog) {
		plan->prog->parcels = hdl_coll_has_pieces((enum hdl_coll)plan->key.coll);
		/* each persistent one is compiled by itself */
		if (!plan->key.persistent)
			hdl_graph_forget(plan->off_graph, h->lines);
		return true;
	}
	hdl_error("offloaded %s of %zu bytes, algorithm %s: cannot be compiled for this device (%s)",
		  hdl_coll_name(run->args.coll), plan->key.bytes, plan->off_graph->algorithm, strerror(err));
	h->broken = true;
	/* the device is the same everywhere, the memory is not: the others may have posted it */
	if (err == ENOMEM) {
		hdl_reason_set("%s of %zu bytes: no memory for its requests", hdl_coll_name(run->args.coll), plan->key.bytes);
		hdl_run_error(run, MPI_ERR_NO_MEM);
	}
	return false;
}

/* Compiled against this communicator's queues when first posted. */
static bool ready_prog(struct hdl_off *h, struct hdl_run *run)
{
	return likely(run->plan->prog) || compile(h, run);
}

static struct hdl_run *credit_run(struct hdl_off *h, uint8_t class);

/* (a) of offload.h */
static bool has_slot(const struct hdl_off *h, const struct hdl_run *run)
{
	return h->posted - h->retired < h->depth && h->class[run->class].posted - h->class[run->class].retired < h->class[run->class].depth;
}

/* (b) of offload.h */
static bool needs_credit(const struct hdl_off *h, const struct hdl_run *run)
{
	return !prog_of(run)->synchronizes && (h->since_sync[run->class] >= h->class[run->class].depth - 1 ||
					       (!h->lines && h->since_sync_all >= h->depth - 1));
}

/* Posts what may be posted; hands on what will not be. Returns the number of operations. */
static int pump(struct hdl_off *h)
{
	int n = 0;

	/* whatever else has happened: an exchange is under way that ends here */
	if (h->state == HDL_OFF_WIRING || h->area[h->area_wired].state == HDL_AREA_WIRING)
		return 0;
	for (; h->queue && !h->suspect_ns; n++) {
		struct hdl_run *run = h->queue;

		if (h->state == HDL_OFF_OFF) {
			run_on_host(h, dequeue(h));
			continue;
		}
		if (unlikely(h->broken)) {
			fail(h, dequeue(h));
			continue;
		}
		if (unlikely(!run->plan->prog)) {
			enum hdl_area_state state = hdl_off_ask_area(h, hdl_off_area_of(h, run->plan));

			if (state == HDL_AREA_WIRING)
				break;
			if (h->broken)
				continue;
			if (state == HDL_AREA_OFF) {
				run_on_host(h, dequeue(h));
				continue;
			}
		}
		if (!ready_prog(h, run))
			continue;
		if (!run->plan->key.internal)
			run->class = prog_of(run)->class;
		/* Every rank counts the same operations, so that all insert it at the same place. */
		if (unlikely(needs_credit(h, run))) {
			struct hdl_run *barrier = credit_run(h, run->class);

			if (!barrier) {
				hdl_reason_set("%s: no memory for the barrier that comes before it", hdl_coll_name(run->args.coll));
				hdl_run_error(run, MPI_ERR_NO_MEM);
				h->broken = true;
				continue;
			}
			run = barrier;
			run->next = h->queue;
			h->queue = run;
			if (!ready_prog(h, run))
				continue;
		}
		if (!has_slot(h, run) || !has_room(h, prog_of(run))) {
			h->late = h->queued;
			break;
		}
		post(h, dequeue(h));
	}
	return n;
}

static bool is_complete(struct hdl_off *h, struct hdl_run *run)
{
	const struct hdl_off_prog *p = prog_of(run);

	if (p->reads)
		return hdl_reads_turn(h, run);
	if (p->parcels)
		return hdl_parcels_turn(h, run);
	if (p->lines)
		return hdl_line_arrived(run, p);
	if (p->watch_master) {
		if (run->outstanding)
			hdl_off_drain(h);
		/* The master's completion is one of them; the answers' requests, which it enabled, are the others. */
		return !run->outstanding;
	}
	for (uint32_t w = 0; w < p->nwatches; w++) {
		struct hdl_off_link *l = p->watches[w];
		uint64_t need = h->need[run->place * (uint64_t)h->nlinks + w];

		if (l->seen < need)
			drain_link(h, l);
		if (l->seen < need)
			return false;
	}
	return true;
}

/* All arrivals are there: takes the result out. */
static void complete(struct hdl_off *h, struct hdl_run *run)
{
	const struct hdl_off_prog *p = prog_of(run);

	h->completed++;
	if (unlikely(h->broken)) {
		hdl_reads_stop(h);
		hdl_off_in_error(h, run);
	} else if (p->lines) {
		hdl_line_take(h, run, p);
	} else if (!p->reads) {
		hdl_off_cpu_nodes(run, p->g, p->epilogue, p->nepilogue);
	}
	/* Arrivals that only the master waited for: now and then, so that their receives return. */
	for (uint32_t a = 0; a < p->narrivals; a++)
		if (p->arrivals[a]->expected - p->arrivals[a]->seen > h->depth / 2)
			drain_link(h, p->arrivals[a]);
}

static void retire(struct hdl_off *h, struct hdl_run *run)
{
	const struct hdl_off_prog *p = prog_of(run);

	h->spoiled |= run->error != MPI_SUCCESS;
	if (p->uses_acc)
		memset(run->base[HDL_SP_ACC], 0, p->g->acc_bytes);
	hdl_off_retire(h, run);
}

#define LOCAL_POLLS 64

static int advance(struct hdl_off *h)
{
	int n = 0;

	while (h->completed < h->posted || h->retired < h->completed) {
		struct hdl_run *run = h->ring[h->oldest];

		if (h->completed == h->retired) {
			if (!h->broken && !is_complete(h, run)) {
				/* A peer that is gone shows in the completions of what was sent to it, or of the receive that no line
				 * takes: that may be all that wakes this rank. */
				if (h->lines || ++h->idle_polls % LOCAL_POLLS == 0)
					hdl_off_drain(h);
				if (!h->broken) {
					n += prog_of(run)->reads && hdl_reads_more(run);
					break;
				}
			}
			if (unlikely(h->broken) && run->parcels && !hdl_parcels_stop(run))
				break;
			complete(h, run);
			n++;
		}
		if (run->outstanding && !h->broken) {
			hdl_off_drain(h);
			if (run->outstanding && !h->broken)
				break;
		}
		retire(h, run);
		hdl_run_finish(run);
	}
	return n;
}

/* Completing an operation may free its communicator, and with it h: that waits until nobody is in here. */
static int off_turn(struct hdl_off *h)
{
	int n = 0, posted;

	h->busy = true;
	if (unlikely(h->nleft))
		hdl_left_look(h);
	do {
		n += advance(h);
		posted = h->queue ? pump(h) : 0;
		n += posted;
	} while (posted);
	if (h->started)
		n += hdl_pcoll_turn(h);
	h->busy = false;
	if (unlikely(h->doomed))
		hdl_off_destroy(h);
	return n;
}

static void turn_if_idle(struct hdl_off *h)
{
	/* From inside of a completion: the turn that runs will see to it. */
	if (!h->busy)
		off_turn(h);
}

struct hdl_off *hdl_off_of(struct hdl_cc *cc, const struct hdl_plan *plan)
{
	int index = hdl_off_index(plan->executor, plan->pairs);
	struct hdl_off *h = cc->off[index];

	if (likely(h))
		return h;
	h = cc->off[index] = hdl_off_new(cc, plan->executor, plan->pairs);
	if (!h)
		hdl_reason_set("%s: no memory for the queues of offloaded collectives; HEDDLE_COLL_EXECUTOR=host does without",
			       hdl_coll_name(plan->key.coll));
	return h;
}

void hdl_off_enlist(struct hdl_off *h)
{
	if (h->link)
		return;
	h->next = hdl_off_active;
	h->link = &hdl_off_active;
	if (hdl_off_active)
		hdl_off_active->link = &h->next;
	hdl_off_active = h;
}

/* What hdl_off_progress looks at after this turn, which may take any off the list: one that frees a communicator takes all of its. */
static struct hdl_off *progress_next;

static void unlist(struct hdl_off *h)
{
	if (!h->link)
		return;
	if (h == progress_next)
		progress_next = h->next;
	*h->link = h->next;
	if (h->next)
		h->next->link = h->link;
	h->link = NULL;
}

/* Whether pump would post it at once, being next. */
static bool is_next(struct hdl_off *h, struct hdl_run *run)
{
	const struct hdl_off_prog *p = prog_of(run);

	if (!p || h->queue || h->busy || h->state != HDL_OFF_READY || h->broken || h->suspect_ns)
		return false;
	run->class = p->class;
	return has_slot(h, run) && !needs_credit(h, run) && has_room(h, p);
}

/* A blocking operation of reads.c. Others' lines are there soon, or have been. Now and then everything is looked at instead. */
static void look_a_while(struct hdl_off *h, struct hdl_run *run)
{
	int looks = !hdl_job.oversubscribed ? HDL_COPY_LOOKS : hdl_threads ? 0 : HDL_GIVEN_UP;	/* 0: the lock is held */
	int others = HDL_LOOKS;

	if (h->posted % HDL_TURN_EVERY == 0)
		return;
	for (off_turn(h); !run->finished && looks && !hdl_reads_more(run); off_turn(h)) {
		if (!hdl_job.oversubscribed) {
			looks--;
			hdl_look_pause();
		} else if (others && !hdl_reads_needs_near(h, run)) {
			others--;
			hdl_look_pause();
		} else {
			looks--;
			others = HDL_LOOKS;
			sched_yield();
		}
	}
}

/* A blocking operation of parcels.c, with nothing before it. Whether it has ended, with what others have written. */
static bool end_at_once(struct hdl_off *h, struct hdl_run *run)
{
	if (h->posted % HDL_TURN_EVERY == 0 || h->retired + 1 != h->posted || !hdl_line_await(run, prog_of(run)) ||
	    !hdl_parcels_turn(h, run) || run->outstanding || h->broken)
		return false;
	h->completed++;
	retire(h, run);
	hdl_run_finish(run);
	return true;
}

void hdl_off_submit(struct hdl_cc *cc, struct hdl_run *run)
{
	struct hdl_off *h = hdl_off_of(cc, run->plan);

	if (unlikely(!h)) {
		hdl_run_error(run, MPI_ERR_NO_MEM);
		hdl_run_finish(run);
		return;
	}
	if (likely(is_next(h, run))) {
		post(h, run);
		if (prog_of(run)->parcels && !run->req && end_at_once(h, run))
			return;
		hdl_off_enlist(h);
		if (prog_of(run)->reads && !run->req)
			look_a_while(h, run);
		return;
	}
	hdl_off_enlist(h);
	run->next = NULL;
	*h->queue_tail = run;
	h->queue_tail = &run->next;
	h->queued++;
	turn_if_idle(h);
}

int hdl_off_progress(void)
{
	int n = 0;

	for (struct hdl_off *h = hdl_off_active; h; h = progress_next) {
		progress_next = h->next;
		if (hdl_off_waits(h))
			n += off_turn(h);
		else
			unlist(h);
	}
	return n;
}

/* The lines of the oldest operation, which the turn behind this one takes. */
static void await_lines(struct hdl_off *h)
{
	struct hdl_run *run = h->ring[h->oldest];

	if (prog_of(run)->lines && h->completed == h->retired && !h->busy && !h->broken)
		hdl_line_await(run, prog_of(run));
}

void hdl_off_look(struct hdl_req *req, bool waits)
{
	for (int i = 0; i < HDL_OFFLOADS; i++) {
		/* a turn may complete what frees the communicator's state: it is looked up again */
		struct hdl_cc *cc = req->comm->coll;
		struct hdl_off *h = cc ? cc->off[i] : NULL;

		if (!h || h->posted == h->retired)
			continue;
		if (waits)
			await_lines(h);
		turn_if_idle(h);
	}
}

/* Before this process sleeps: what the oldest operation of each communicator waits for shall wake it. */
void hdl_off_arm(void)
{
	for (struct hdl_off *h = hdl_off_active; h; h = h->next) {
		const struct hdl_off_prog *p;
		int err = 0;

		if (h->posted == h->retired && !h->started)
			continue;
		p = h->posted == h->retired ? NULL : prog_of(h->ring[h->oldest]);
		for (uint32_t w = 0; p && w < p->nwatches && !err; w++)
			err = ibv_req_notify_cq(p->watches[w]->rcq, 0);
		/* Failures of this rank's own requests show here, too. */
		if (!err)
			err = ibv_req_notify_cq(h->local_cq, 0);
		if (err)
			hdl_error("offloaded collectives: ibv_req_notify_cq failed (%s): this rank may sleep on", strerror(err));
	}
}

/* ---- the barrier of (b) ------------------------------------------------------------------------------------- */

static void credit_done(struct hdl_run *run)
{
	hdl_run_free(run);
}

static struct hdl_plan *credit_plan(struct hdl_off *h, uint8_t class)
{
	size_t bytes = h->lines ? hdl_line_least(class) : 0;	/* by which it is of this class, though it has none */
	struct hdl_shape s = { .coll = HDL_BARRIER, .rank = h->rank, .size = h->size, .radix = h->radix, .line_bytes = hdl_off_line_bytes(bytes) };
	struct hdl_plan *plan = calloc(1, sizeof(*plan));

	if (!plan)
		return NULL;
	plan->key = (struct hdl_plan_key){ .coll = HDL_BARRIER, .bytes = bytes, .internal = true };
	plan->executor = h->lines ? HDL_EXEC_DIRECT : HDL_EXEC_TASKS;
	plan->refs = 1;
	plan->off_graph = hdl_tune_offload(plan->executor, &s)->build(&s);
	if (!plan->off_graph) {
		free(plan);
		return NULL;
	}
	return plan;
}

static struct hdl_run *credit_run(struct hdl_off *h, uint8_t class)
{
	struct hdl_plan *plan = h->credit[class] ? h->credit[class] : credit_plan(h, class);
	struct hdl_run *run;

	h->credit[class] = plan;
	if (!plan)
		return NULL;
	run = hdl_run_new(plan->off_graph, h->cc->comm);
	if (!run)
		return NULL;
	run->plan = plan;
	run->class = class;
	run->args.coll = HDL_BARRIER;
	run->done = credit_done;
	return run;
}

/* ---- what there is, and its end ------------------------------------------------------------------------------- */

/* What the device has to reduce by. NULL: it runs no task lists. Asked once. */
const struct hdl_means *hdl_off_means(const struct hdl_port *port)
{
	static const struct hdl_port *asked;
	static struct hdl_means means;
	static bool cross;
	const uint64_t all = SHCA_EXP_EXTENSION_CALC_OPS | SHCA_EXP_EXTENSION_CALC_SIZES | SHCA_EXP_EXTENSION_CALC_HOST_ORDER |
			     SHCA_EXP_EXTENSION_CALC_VECTOR;
	struct ibv_exp_device_attr attr = {
		.comp_mask = IBV_EXP_DEVICE_ATTR_EXP_CAP_FLAGS | IBV_EXP_DEVICE_ATTR_EXT_ATOMIC_ARGS | IBV_EXP_DEVICE_ATTR_CALC_CAP |
			     SHCA_EXP_DEVICE_ATTR_EXTENSIONS,
	};

	if (asked != port) {
		asked = port;
		means = (struct hdl_means){ 0 };
		cross = !ibv_exp_query_device(port->ctx, &attr) && attr.exp_device_cap_flags & IBV_EXP_DEVICE_CROSS_CHANNEL;
		if (cross && attr.comp_mask & IBV_EXP_DEVICE_ATTR_EXT_ATOMIC_ARGS)
			means.atomics = attr.exp_device_cap_flags & IBV_EXP_DEVICE_EXT_ATOMICS && attr.ext_atom.atomic_arg_sizes & 8;
		if (cross && attr.comp_mask & IBV_EXP_DEVICE_ATTR_CALC_CAP)
			means.calc = attr.calc_cap;
		means.vector = cross && hdl_vars.coll_extensions && attr.comp_mask & SHCA_EXP_DEVICE_ATTR_EXTENSIONS &&
			       (attr.shca_extensions & all) == all && attr.shca_calc_vector_max >= HDL_TASKS_MAX;
	}
	return cross ? &means : NULL;
}

void hdl_off_site(const struct hdl_comm *comm, struct hdl_site *site)
{
	const struct hdl_port *port = hdl_tp_local_port(hdl_mpi_tp);

	*site = (struct hdl_site){
		.size = comm->size, .one_host = true, .oversubscribed = hdl_job.oversubscribed, .rc = hdl_tp_allows_rc(hdl_mpi_tp),
		.device = port ? ibv_get_device_name(port->ctx->device) : NULL, .wakes = hdl_tp_wakes_on_write(hdl_mpi_tp),
		.at_once = hdl_tp_writes_at_once(hdl_mpi_tp), .exposes = hdl_tp_can_expose(hdl_mpi_tp),
		.means = port ? hdl_off_means(port) : NULL,
	};
	/* jobs may differ in what the choice goes by, and all members must choose alike */
	if (hdl_group_spans_jobs(comm->group, comm->group)) {
		site->one_host = false;
		site->oversubscribed = true;
	}
	/* of more ranks nothing is offloaded, wherever they are */
	for (int r = 0; hdl_job.local && comm->size <= hdl_vars.coll_offload_ranks && site->one_host && r < comm->size; r++)
		site->one_host = hdl_is_local(hdl_comm_proc(comm, r));
}

static void flush_to(struct hdl_off *h, const struct hdl_off_link *l, uint64_t position)
{
	while (!h->broken && !h->suspect_ns && l->sq_done < position)
		hdl_off_drain(h);
}

/* What a peer's operation needs of this rank leaves before its queues go. Most lines left when they were posted, and nothing tells
 * of them. */
void hdl_off_flush(struct hdl_off *h)
{
	for (uint16_t i = 0; i < h->nlinks; i++) {
		struct hdl_off_link *l = h->links[i];

		flush_to(h, l, h->lines ? l->sq_signaled : l->sq_posted);
		if (!h->lines || !hdl_line_waits(l) || l->sq_signaled == l->sq_posted)
			continue;
		hdl_line_follow(h, l, NULL);
		flush_to(h, l, l->sq_posted);
	}
}

void hdl_off_end(struct hdl_off *h)
{
	hdl_off_flush(h);
	h->doomed = true;
	if (!h->busy)
		hdl_off_destroy(h);
}

void hdl_off_free(struct hdl_cc *cc)
{
	for (int i = 0; i < HDL_OFFLOADS; i++) {
		struct hdl_off *h = cc->off[i];

		cc->off[i] = NULL;
		if (!h)
			continue;
		/* Every user's operation holds a reference to the communicator, and completes after what was inserted before it:
		 * nothing is outstanding when the last reference goes. */
		unlist(h);
		if (!hdl_sets_keep(h))
			hdl_off_end(h);
	}
}
