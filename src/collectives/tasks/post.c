/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Posting task lists: fills the values that differ between operations into the compiled list and posts the list; counts arrivals
 * on the links that the operation watches; runs the CPU nodes before and after the list. queues/queues.h describes links and
 * slots.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "collectives/queues/queues.h"
#include "collectives/select/select.h"
#include "runtime/threads.h"

/* ---- arrivals ------------------------------------------------------------------------------------------------- */

#define BATCH 16

int hdl_link_post_recvs(struct hdl_coll_link *l, uint64_t n)
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

int hdl_link_open(const struct hdl_queues *h, struct hdl_coll_link *l)
{
	l->open = true;
	return hdl_link_post_recvs(l, hdl_link_receives(h));
}

/* Counts the arrivals on a link, and reposts receives in batches. */
static void drain_link(struct hdl_queues *h, struct hdl_coll_link *l)
{
	struct ibv_wc wc[BATCH];
	int n;

	do {
		n = ibv_poll_cq(l->rcq, BATCH, wc);
		for (int i = 0; i < n; i++)
			if (unlikely(wc[i].status != IBV_WC_SUCCESS))
				hdl_queues_failed(h, "arrival from", l->peer, wc[i].status);
		if (n > 0)
			l->seen += (uint64_t)n;
	} while (n == BATCH);
	if (unlikely(n < 0))
		hdl_queues_failed(h, "polling the completion queue of the link from", l->peer, IBV_WC_GENERAL_ERR);
	if (l->seen - l->given >= (h->depth + 1) / 2 && !hdl_queues_are_broken(h)) {
		if (hdl_link_post_recvs(l, l->seen - l->given))
			hdl_queues_failed(h, "posting receives for", l->peer, IBV_WC_GENERAL_ERR);
		l->given = l->seen;
	}
}

bool hdl_link_has_arrived(struct hdl_queues *h, struct hdl_coll_link *l)
{
	drain_link(h, l);
	return l->seen == l->expected;
}

static bool tasks_arrived(struct hdl_queues *h, struct hdl_run *run, const struct hdl_coll_prog *p)
{
	if (p->watch_master) {
		if (run->outstanding)
			hdl_queues_drain(h);
		/* One of the outstanding completions is the master's; the rest belong to the requests to children, which the
		 * master enabled. */
		return !run->outstanding;
	}
	for (uint32_t w = 0; w < p->nwatches; w++) {
		struct hdl_coll_link *l = p->watches[w];
		uint64_t need = h->need[run->place * (uint64_t)h->nlinks + w];

		if (l->seen < need)
			drain_link(h, l);
		if (l->seen < need)
			return false;
	}
	return true;
}

/* ---- CPU nodes -------------------------------------------------------------------------------------------------------- */

/* The stamp behind a block: operation number and length of the block; then its complement. Zeros if this rank has no data to
 * give (run->no_data). */
static inline void set_stamps(const struct hdl_run *run, size_t bytes, uint64_t stamps[2])
{
	stamps[0] = (uint64_t)(uint32_t)(run->opno + 1) << 32 | (uint32_t)bytes;
	stamps[1] = ~stamps[0];
	if (unlikely(run->no_data))
		stamps[0] = stamps[1] = 0;
}

/*
 * Reports a stamp that does not match. Of a moved block: if too few bytes came, the place of the stamp still holds an older
 * operation's bytes. Of a block that the device combined the direction of the mismatch is unknown.
 */
static __attribute__((noinline, cold)) void refuse_block(struct hdl_run *run, const char *at, const struct hdl_node *n)
{
	uint64_t stamp;
	uint32_t behind;
	bool too_few;

	memcpy(&stamp, at, sizeof(stamp));
	behind = (uint32_t)(run->opno + 1) - (uint32_t)(stamp >> 32);
	too_few = !stamp || (behind ? behind < 4 * HDL_QUEUES_DEPTH_MAX : (uint32_t)stamp < n->stride);
	if (n->len == HDL_STAMPS)
		hdl_reason_set("not all ranks contributed %zu bytes to the reduction: " HDL_CALLS_DIFFER, n->stride);
	else
		hdl_reason_set("a block of %s bytes came from another rank where %zu were expected: " HDL_CALLS_DIFFER,
			       too_few ? "fewer" : "more", n->stride);
	hdl_run_error(run, too_few || n->len == HDL_STAMPS ? MPI_ERR_COUNT : MPI_ERR_TRUNCATE);
}

static void task_cpu_nodes(struct hdl_run *run, const struct hdl_graph *g, const uint32_t *nodes, uint32_t n)
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

static void tasks_take(struct hdl_queues *h, struct hdl_run *run, const struct hdl_coll_prog *p)
{
	task_cpu_nodes(run, p->g, p->epilogue, p->nepilogue);
	/* Polls the links whose arrivals only the master waits for, at most every depth / 2 operations, so that their receives
	 * are reposted. */
	for (uint32_t a = 0; a < p->narrivals; a++)
		if (p->arrivals[a]->expected - p->arrivals[a]->seen > h->depth / 2)
			drain_link(h, p->arrivals[a]);
}

/* ---- posting --------------------------------------------------------------------------------------------------- */

static bool tasks_fit(const struct hdl_queues *h, const struct hdl_coll_prog *p)
{
	bool fits = h->local_posted + p->nuses - h->local_seen <= h->local_room;

	for (uint32_t u = 0; u < p->nuses && fits; u++) {
		const struct hdl_coll_link *l = p->uses[u].link;

		fits = p->uses[u].wrs <= hdl_link_room(l);
	}
	return fits;
}

/* Signals the last request of each queue: the completion's position tells how many entries of the queue are free again. */
static void set_signal(struct hdl_queues *h, struct hdl_run *run, const struct hdl_task_use *use)
{
	struct hdl_coll_link *l = use->link;
	bool retires = use->reads_slot || (l == h->master && run->plan->prog->watch_master);

	l->sq_posted += use->wrs;
	use->last->exp_send_flags |= IBV_EXP_SEND_SIGNALED;
	use->last->wr_id = hdl_link_signal(h, l, retires ? run : NULL);
}

static void fill_accum(const struct hdl_task_step *s, const struct hdl_run *run, struct ibv_exp_send_wr *wr, uint64_t remote)
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

static void fill_steps(struct hdl_queues *h, struct hdl_run *run)
{
	struct hdl_coll_prog *p = run->plan->prog;
	const struct hdl_slot_class *c = &h->class[run->class];
	const struct hdl_region_peer *peers = h->region[run->class].peers;
	uint64_t slot = run->slot * c->slot_bytes;

	for (uint32_t i = 0; i < p->nwrs; i++) {
		const struct hdl_task_step *s = &p->steps[i];
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
					wr->sg_list[k].addr =
						(uintptr_t)run->base[s->src_space] + s->src_off + (size_t)k * s->stride;
			} else {
				/* No data is written, but the address must be one that the peer lets this rank write to. */
				wr->wr.rdma.remote_addr = peers[s->peer].addr + slot;
			}
			break;
		case HDL_STEP_WAIT:
			/* Skips arrivals of earlier operations that the master did not WAIT for. */
			wr->task.cqe_wait.cq_count = (int32_t)(s->link->expected - s->link->waited);
			s->link->waited = s->link->expected;
			break;
		case HDL_STEP_ENABLE:
			break;
		}
	}
}

static __attribute__((noinline, cold)) void cannot_open(struct hdl_queues *h, struct hdl_run *run,
							const struct hdl_coll_link *l, int err)
{
	hdl_reason_set("%s: receives for arrivals from rank %d cannot be posted (%s)", hdl_coll_name(run->args.coll), l->peer,
		       strerror(-err));
	hdl_run_error(run, MPI_ERR_NO_MEM);
	hdl_queues_break(h, run->why);
}

static void post_task_list(struct hdl_queues *h, struct hdl_run *run)
{
	struct hdl_coll_prog *p = run->plan->prog;
	struct ibv_exp_task *bad;
	int err;

	for (uint32_t a = 0; a < p->narrivals; a++) {
		p->arrivals[a]->expected++;
		if (likely(p->arrivals[a]->open))
			continue;
		err = hdl_link_open(h, p->arrivals[a]);
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
	hdl_stirred = true;		/* hdl_queues_arm has more to arm */
	if (!p->ntasks)
		return;
	err = ibv_exp_post_task(h->port->ctx, p->tasks, &bad);
	if (unlikely(err)) {
		uint32_t t = (uint32_t)(bad - p->tasks);

		hdl_error("offloaded %s: posting %u requests for rank %d failed (%s): the queue is in error or shorter "
			  "than it was created", hdl_coll_name(run->args.coll), t < p->nuses ? p->uses[t].wrs : 0,
			  t < p->nuses ? p->uses[t].link->peer : -1, strerror(err));
		hdl_queues_break(h, HDL_QUEUES_IN_ERROR);
		return;
	}
	hdl_tp_count_rc(hdl_mpi_tp, p->requests, p->bytes);
}

static void tasks_post(struct hdl_queues *h, struct hdl_run *run, const struct hdl_coll_prog *p)
{
	run->base[HDL_SP_ACC] = h->region[run->class].mem + run->slot * h->class[run->class].slot_bytes;
	run->base[HDL_SP_DATA] = run->base[HDL_SP_ACC] + h->class[run->class].acc_bytes;
	task_cpu_nodes(run, p->g, p->prologue, p->nprologue);
	h->since_sync_all = p->synchronizes ? 0 : h->since_sync_all + 1;
	post_task_list(h, run);
}

static bool tasks_have_room(struct hdl_queues *h, const struct hdl_coll_prog *p)
{
	if (tasks_fit(h, p))
		return true;
	hdl_queues_drain(h);
	return tasks_fit(h, p);
}

static struct hdl_coll_prog *tasks_compile(struct hdl_queues *h, const struct hdl_plan *plan)
{
	return hdl_task_compile(h, plan->offload_graph, plan->key.bytes, &plan->enc, hdl_coll_synchronizes(plan->key.coll));
}

const struct hdl_executor_ops hdl_exec_tasks = {
	.name = "tasks",
	.reducer = HDL_EXEC_TASKS,
	.own_order = true,
	.prepare = hdl_run_prepare_tmp,
	.region = hdl_task_region_of,
	.compile = tasks_compile,
	.compile_barrier = hdl_slot_barrier_compile,
	.has_room = tasks_have_room,
	.post = tasks_post,
	.poll = tasks_arrived,
	.finish = tasks_take,
};
