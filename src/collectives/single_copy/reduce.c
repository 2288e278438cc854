/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reductions of single_copy.c. The vector is divided among the ranks, or among as many ranks as there are CPUs. Each of them
 * reads its part of all inputs, a segment at a time, in the order of the ranks, and combines each input with the previous ones.
 * The result goes to each rank (Exscan: the combination of the inputs before the rank), to the root, or to all. Scan differs: see
 * below.
 *
 * A part of all buffers is read and written by one rank only: so a result may be stored where an input was (MPI_IN_PLACE), as
 * long as that rank has read the input before. Only the results of REDUCE_SCATTER lie in parts that belong to other ranks.
 *
 * Inputs and results of REDUCE and ALLREDUCE that are not too long are staged, where that pays. A rank with a part then sends
 * each receiver the address of the staged result (HDL_SC_PROGRESS). The receiver reads the result, and sends HDL_SC_FIN when the
 * result and the receiver's part of that rank's input have been read. Or the rank with the part has written the result to the
 * receivers, and says so (HDL_SC_PROGRESS with address 0). So no rank waits for the readers of a staging buffer, and each rank
 * chooses by itself which of its data to stage.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "collectives/single_copy/single_copy.h"

/* Least length of a part in REDUCE and ALLREDUCE: below PART_LEAST (PART_FORCED under hdl_sc_all) the gain does not cover the
 * requests and the turns of the CPU that one more rank needs. REDUCE of two or three ranks has one part up to ROOT_ALONE: a
 * second rank would take half of the vector, but would then have to write its result. */
#define PART_LEAST ((size_t)8 << 10)
#define PART_FORCED ((size_t)64)
#define ROOT_ALONE ((size_t)64 << 10)
/* REDUCE of two ranks: from this length on the parts do not stay in the cache, and the root's advantage on its own part is
 * smaller. */
#define BEYOND_CACHE ((size_t)512 << 10)

/* Returns the number of ranks that reduce a part, where not all have to: at most the number of CPUs; neighbouring ranks are bound
 * to different ones. The number follows from this rank's own length: a rank with a different length may count different ranks,
 * and does not send HDL_SC_RTS to all ranks that wait for one. */
static int reducers(const struct hdl_plan *plan, int size)
{
	const struct hdl_plan_key *key = &plan->key;
	int cpus = plan->cpus && plan->cpus < size ? plan->cpus : size;
	size_t least = hdl_sc_all() ? PART_FORCED : PART_LEAST;
	bool one = key->coll == HDL_REDUCE && size <= 3 && key->bytes <= ROOT_ALONE && least == PART_LEAST;
	size_t most = one ? 1 : key->bytes / least;

	return most >= (size_t)cpus ? cpus : most ? (int)most : 1;
}

struct range {
	uint64_t at, end;
};

static struct range range_of(const struct hdl_plan *plan, int n, int i)
{
	size_t esize = (size_t)hdl_type_size(plan->key.type);

	return (struct range){ hdl_part(plan->key.bytes, esize, n, i < n ? i : n),
			       hdl_part(plan->key.bytes, esize, n, i < n ? i + 1 : n) };
}

/* Returns the part that rank p reduces. */
static struct range sc_reduce_part(const struct hdl_plan *plan, int size, int p)
{
	const struct hdl_plan_key *key = &plan->key;
	int behind = (p - key->root + size) % size;	/* distance from the root */
	uint64_t cut;

	switch (key->coll) {
	case HDL_REDUCE_SCATTER:
		return (struct range){ (uint64_t)p * key->bytes, (uint64_t)(p + 1) * key->bytes };
	case HDL_ALLREDUCE:
		return range_of(plan, reducers(plan, size), p);
	case HDL_REDUCE:
		/* of two ranks the root has nothing to write, and so takes the larger part; two operands have one order */
		cut = hdl_part(key->bytes, (size_t)hdl_type_size(key->type), 8, key->bytes < BEYOND_CACHE ? 6 : 5);
		if (size == 2 && reducers(plan, size) == 2)
			return behind ? (struct range){ cut, key->bytes } : (struct range){ 0, cut };
		return range_of(plan, reducers(plan, size), behind);
	default:
		/* EXSCAN of two ranks: the second rank reduces all, since only that rank has a result */
		return size > 2 ? range_of(plan, size, p) : range_of(plan, 1, 1 - p);
	}
}

bool hdl_sc_reduce_has_part(const struct hdl_plan *plan, int size, int p)
{
	struct range r = sc_reduce_part(plan, size, p);

	return r.end > r.at;
}

int hdl_sc_reduce_prepare(struct hdl_run *run)
{
	const struct hdl_plan_key *key = &run->plan->key;
	struct hdl_sc_reduce *f = &run->sc->reduce;

	if (key->coll != HDL_REDUCE_SCATTER || !key->in_place || f->whole)
		return 0;
	f->whole = malloc(key->bytes);
	return f->whole ? 0 : -ENOMEM;
}

/* Returns true if rank `to` gets the combination of the inputs 0 to k. */
static bool gets_result(const struct hdl_queues *h, const struct hdl_run *run, int k, int to)
{
	switch (run->plan->key.coll) {
	case HDL_EXSCAN:
		return to == k + 1;
	case HDL_REDUCE_SCATTER:
		return k == h->size - 1 && to == h->rank;
	case HDL_ALLREDUCE:
		return k == h->size - 1;
	default:
		return k == h->size - 1 && to == run->plan->key.root;
	}
}

/* Returns the mask of the other ranks that get the result of this rank's part. */
static uint32_t receivers(const struct hdl_queues *h, const struct hdl_run *run)
{
	uint32_t to = 0;

	for (int p = 0; p < h->size; p++)
		to |= (uint32_t)(p != h->rank && gets_result(h, run, h->size - 1, p)) << p;
	return to;
}

static size_t stage_max(enum hdl_coll coll)
{
	switch (coll) {
	case HDL_REDUCE: return HDL_SC_STAGE_FOR_ALL;
	case HDL_ALLREDUCE: return HDL_SC_STAGE_ALLREDUCE;
	default: return 0;
	}
}

/* Stages this rank's input for the ranks in `parts`, which have a part, and allocates the staging buffer of this rank's
 * result. */
static void sc_reduce_stage(struct hdl_queues *h, struct hdl_run *run, uint32_t parts)
{
	const struct hdl_plan *plan = run->plan;
	struct hdl_sc_reduce *f = &run->sc->reduce;
	char *staging;

	if (plan->key.bytes > stage_max((enum hdl_coll)plan->key.coll))
		return;
	if (f->owes_progress)
		f->result = hdl_sc_stage(h, run, f->end - f->at, f->owes_progress, 0);
	staging = run->sc->staging = parts ? hdl_sc_stage(h, run, plan->key.bytes, parts, 0) : NULL;
	for (int p = 0; staging && p < h->size; p++)
		if (parts & 1u << p) {
			struct range r = sc_reduce_part(plan, h->size, p);

			hdl_sc_stage_copy(h, staging + r.at, f->in + r.at, r.end - r.at);
		}
}

void hdl_sc_reduce_begin(struct hdl_queues *h, struct hdl_run *run)
{
	const struct hdl_plan *plan = run->plan;
	const struct hdl_plan_key *key = &plan->key;
	struct hdl_sc_run *x = run->sc;
	bool later = key->coll == HDL_REDUCE_SCATTER && key->in_place, mine = hdl_sc_reduce_has_part(plan, h->size, h->rank);
	uint32_t parts = 0;
	char *recv = run->base[HDL_SP_RECV], *announced;
	struct hdl_sc_reduce *f = &x->reduce;

	f->seg[0] = h->segments;
	f->seg[1] = h->segments + HDL_SC_SEGMENT;
	f->begin = f->at = sc_reduce_part(plan, h->size, h->rank).at;
	f->end = sc_reduce_part(plan, h->size, h->rank).end;
	f->in = key->in_place ? recv : run->base[HDL_SP_SEND];
	f->out = key->coll == HDL_REDUCE && h->rank != key->root ? NULL : later ? f->whole - f->at :
		 key->coll == HDL_REDUCE_SCATTER ? recv - f->at : recv;
	f->esize = (size_t)hdl_type_size(key->type);
	f->fn = hdl_op_lookup(key->op, key->type);
	f->sided = hdl_op_is_sided(key->op, key->type);
	f->has_all_rts = f->waits = false;
	f->step = HDL_SC_REDUCE_TAKE;
	f->k = f->to = 0;
	f->result = NULL;
	f->owes_progress = mine ? receivers(h, run) : 0;
	for (int p = 0; p < h->size; p++)
		parts |= (uint32_t)(p != h->rank && hdl_sc_reduce_has_part(plan, h->size, p)) << p;
	sc_reduce_stage(h, run, parts);
	announced = x->staging ? x->staging : f->in;
	x->awaiting_fin = x->staging ? 0 : parts;
	x->awaiting_result = key->coll == HDL_ALLREDUCE || (key->coll == HDL_REDUCE && h->rank == key->root) ? parts : 0;
	for (int i = 1; i < h->size; i++) {
		int p = (h->rank + i) % h->size;

		if (parts & 1u << p)
			hdl_sc_ctrl_send(h, run, p, HDL_SC_RTS,
				(struct hdl_sc_ctrl){ .in = (uintptr_t)announced, .out = (uintptr_t)recv, .bytes = key->bytes });
		if (mine)
			x->owes_fin |= 1u << p;
	}
}

void hdl_sc_reduce_end(struct hdl_queues *h, struct hdl_run *run)
{
	struct hdl_sc_reduce *f = &run->sc->reduce;

	if (run->plan->key.coll == HDL_REDUCE_SCATTER && run->plan->key.in_place && !run->error)
		memcpy(run->base[HDL_SP_RECV], f->whole, run->plan->key.bytes);
}

/* Returns true if input k is this rank's own and is combined in place with the combination of the earlier inputs, which saves a
 * copy. The operands then change sides, in this rank's part only: not allowed if the bits of the result would show the side.
 * EXSCAN leaves its input unchanged. */
static bool own_in_place(const struct hdl_queues *h, const struct hdl_run *run, int k)
{
	return k && k == h->rank && !run->sc->reduce.sided && run->plan->key.coll != HDL_EXSCAN;
}

/* Returns the address to which input k is read, to be combined there with the other inputs: the result's place, if this rank gets
 * the result, and its own input does not lie there to be read later; else a segment buffer. In EXSCAN an input that is read later
 * lies at the result's place. */
static char *sc_reduce_place(const struct hdl_queues *h, const struct hdl_run *run, int k)
{
	const struct hdl_sc_reduce *f = &run->sc->reduce;
	char *out = f->out ? f->out + f->at : NULL;
	int last = k + 1 < h->size && own_in_place(h, run, k + 1) && out != f->in + f->at ? k + 1 : k;

	if (out && out != f->acc && run->plan->key.coll != HDL_EXSCAN && gets_result(h, run, last, h->rank))
		return out;
	return f->acc == f->seg[0] ? f->seg[1] : f->seg[0];
}

/* Starts a copy to or from `peer` of the segment. Returns false if the send queue is full. */
static bool sc_reduce_copy(struct hdl_queues *h, struct hdl_run *run, int peer, bool write, char *here)
{
	const struct hdl_sc_ctrl *t = hdl_sc_ctrl_poll(h, run, HDL_SC_RTS, peer);
	struct hdl_sc_reduce *f = &run->sc->reduce;

	if (!hdl_sc_copy(h, run, peer, write, here, (write ? t->out : t->in) + f->at, f->len))
		return false;
	f->waits = true;
	f->with = peer;
	return true;
}

static bool sc_reduce_take(struct hdl_queues *h, struct hdl_run *run)
{
	struct hdl_sc_reduce *f = &run->sc->reduce;

	if (!f->k) {
		size_t most = HDL_SC_SEGMENT / f->esize * f->esize;

		f->len = f->end - f->at < most ? f->end - f->at : most;
		f->acc = NULL;
	} else if (run->plan->key.coll == HDL_EXSCAN && f->k == h->size - 1) {
		return true;		/* no rank gets more than the present combination */
	}
	if (own_in_place(h, run, f->k))
		return true;
	f->next = !f->k && !h->rank ? f->in + f->at : sc_reduce_place(h, run, f->k);	/* the first input is not written to */
	if (f->k != h->rank)
		return sc_reduce_copy(h, run, f->k, false, f->next);
	if (f->next != f->in + f->at)
		memcpy(f->next, f->in + f->at, f->len);
	return true;
}

static bool sc_reduce_give(struct hdl_queues *h, struct hdl_run *run, int to)
{
	struct hdl_sc_reduce *f = &run->sc->reduce;

	if (to != h->rank)
		return f->result || sc_reduce_copy(h, run, to, true, f->acc);
	if (f->acc != f->out + f->at)
		memcpy(f->out + f->at, f->acc, f->len);
	return true;
}

static void sc_reduce_join(const struct hdl_queues *h, const struct hdl_run *run)
{
	struct hdl_sc_reduce *f = &run->sc->reduce;

	if (own_in_place(h, run, f->k)) {
		f->fn(f->in + f->at, f->acc, f->len / f->esize);
		return;
	}
	if (f->acc)
		f->fn(f->acc, f->next, f->len / f->esize);
	f->acc = f->next;
}

static void next_input(const struct hdl_queues *h, struct hdl_sc_reduce *f)
{
	f->step = HDL_SC_REDUCE_TAKE;
	f->to = 0;
	if (++f->k < h->size)
		return;
	f->k = 0;
	f->at += f->len;
}

/* Gives the combination of the inputs 0 to k to the ranks that get it. Returns false if the copy is in flight or the send queue
 * is full. In EXSCAN this follows the read of the receiver's input, which may lie at the result's place; `acc` then has the
 * inputs before input f->k. */
static bool give_all(struct hdl_queues *h, struct hdl_run *run, int k)
{
	struct hdl_sc_reduce *f = &run->sc->reduce;

	for (; f->to < h->size; f->to++) {
		if (k < 0 || !gets_result(h, run, k, f->to))
			continue;
		if (!sc_reduce_give(h, run, f->to))
			return false;
		if (f->waits) {
			f->to++;
			return false;
		}
	}
	return true;
}

/* This rank has read all that it needs of rank p's input: sends HDL_SC_FIN to rank p, which need not wait for the result. */
static void sc_reduce_release_input(struct hdl_queues *h, struct hdl_run *run, int p)
{
	struct hdl_sc_run *x = run->sc;

	if (x->owes_fin & 1u << p && p != run->plan->key.root && !(x->awaiting_result & 1u << p) &&
	    hdl_sc_ctrl_send(h, run, p, HDL_SC_FIN, (struct hdl_sc_ctrl){ .bytes = run->plan->key.bytes }))
		x->owes_fin &= ~(1u << p);
}

/* Runs one step. Returns false if the operation has to wait. */
static bool step(struct hdl_queues *h, struct hdl_run *run)
{
	struct hdl_sc_reduce *f = &run->sc->reduce;
	bool exclusive = run->plan->key.coll == HDL_EXSCAN;

	if (f->waits) {
		if (!hdl_sc_copied(h, run->sc, f->with))
			return false;
		f->waits = false;
		if (f->step == HDL_SC_REDUCE_JOIN && f->at + f->len == f->end && run->plan->key.coll == HDL_REDUCE)
			sc_reduce_release_input(h, run, f->with);
	}
	switch (f->step) {
	case HDL_SC_REDUCE_TAKE:
		if (!sc_reduce_take(h, run))
			return false;
		f->step = exclusive ? HDL_SC_REDUCE_GIVE : HDL_SC_REDUCE_JOIN;
		return true;
	case HDL_SC_REDUCE_JOIN:
		if (!exclusive || f->k < h->size - 1)
			sc_reduce_join(h, run);
		if (exclusive)
			next_input(h, f);
		else
			f->step = HDL_SC_REDUCE_GIVE;
		return true;
	case HDL_SC_REDUCE_GIVE:
		if (!give_all(h, run, exclusive ? f->k - 1 : f->k))
			return f->waits;
		if (f->result && f->k == h->size - 1)
			hdl_sc_stage_copy(h, f->result + (f->at - f->begin), f->acc, f->len);
		if (exclusive)
			f->step = HDL_SC_REDUCE_JOIN;
		else
			next_input(h, f);
		return true;
	}
	return false;
}

/* Returns true if every rank's HDL_SC_RTS has come. The run fails unless the buffers are of one length. */
static bool all_rts_came(struct hdl_queues *h, struct hdl_run *run)
{
	const struct hdl_sc_ctrl *t;

	for (int p = 0; p < h->size; p++)
		if (p != h->rank && !hdl_sc_ctrl_poll(h, run, HDL_SC_RTS, p))
			return false;
	for (int p = 0; p < h->size; p++) {
		t = p == h->rank ? NULL : hdl_sc_ctrl_poll(h, run, HDL_SC_RTS, p);
		if (t && t->bytes != run->plan->key.bytes)
			hdl_sc_refuse(run, p, t->bytes, run->plan->key.bytes);
	}
	return true;
}

/* Continues this rank's part. Returns false if the part is not done. */
static bool sc_reduce_reduce(struct hdl_queues *h, struct hdl_run *run)
{
	struct hdl_sc_run *x = run->sc;
	struct hdl_sc_reduce *f = &x->reduce;

	if (!f->has_all_rts && !(f->has_all_rts = all_rts_came(h, run)))
		return false;
	while (!x->failed && f->at < f->end) {
		if (!step(h, run))
			return false;
		if (unlikely(hdl_queues_are_broken(h) || x->turn_bytes >= HDL_SC_TURN))
			return false;
	}
	for (int p = 0; !x->failed && f->owes_progress >> p; p++)
		if (f->owes_progress & 1u << p &&
		    hdl_sc_ctrl_send(h, run, p, HDL_SC_PROGRESS, (struct hdl_sc_ctrl){ .in = (uintptr_t)f->result }))
			f->owes_progress &= ~(1u << p);
	return x->failed || !f->owes_progress;
}

/* Fetches rank p's part of the result. Returns false if the part has not come. */
static bool take_result(struct hdl_queues *h, struct hdl_run *run, int p)
{
	struct hdl_sc_run *x = run->sc;
	struct range r = sc_reduce_part(run->plan, h->size, p);
	/* in this order: if HDL_SC_FIN has arrived, an HDL_SC_PROGRESS that was sent earlier has arrived, too */
	const struct hdl_sc_ctrl *fin = hdl_sc_ctrl_poll(h, run, HDL_SC_FIN, p),
				 *progress = hdl_sc_ctrl_poll(h, run, HDL_SC_PROGRESS, p);
	bool is_staged = progress && progress->in;

	if (!(x->copying & 1u << p)) {
		if (x->failed || (fin && fin->failed)) {
			x->awaiting_fin |= 1u << p;	/* rank p may write to the buffer until its HDL_SC_FIN, which also has the
						 * reason */
			x->owes_fin |= 1u << p;	/* rank p may have staged its result all the same */
			return true;
		}
		if (!progress || (is_staged && !hdl_sc_copy(h, run, p, false, x->reduce.out + r.at, progress->in, r.end - r.at)))
			return false;
	}
	if (is_staged && !hdl_sc_copied(h, x, p))
		return false;
	x->owes_fin |= (uint32_t)is_staged << p;
	return true;
}

void hdl_sc_reduce_turn(struct hdl_queues *h, struct hdl_run *run)
{
	struct hdl_sc_run *x = run->sc;

	if (hdl_sc_reduce_has_part(run->plan, h->size, h->rank) && !sc_reduce_reduce(h, run))
		return;
	for (int p = 0; x->awaiting_result >> p; p++)
		if (x->awaiting_result & 1u << p && take_result(h, run, p))
			x->awaiting_result &= ~(1u << p);
	for (int p = 0; x->owes_fin >> p; p++)
		if (x->owes_fin & ~x->awaiting_result & 1u << p &&
		    hdl_sc_ctrl_send(h, run, p, HDL_SC_FIN,
				     (struct hdl_sc_ctrl){ .bytes = run->plan->key.bytes, .failed = x->failed }))
			x->owes_fin &= ~(1u << p);
}

/* ---- Scan ------------------------------------------------------------------------------------------------------ */

/*
 * A rank's result is the previous rank's result combined with its own input. So each rank reads the previous rank's result, a
 * segment at a time as segments get ready, and nothing else: fewer bytes are moved than if each rank had a part of the vector,
 * and a rank waits for the previous rank only. The first rank's result is its input. Up to HDL_SC_STAGE_FOR_ALL bytes the result
 * is staged: then no rank waits for the next one.
 */
#define SCAN_SEGMENTS 4
#define SCAN_SEGMENT_MIN ((size_t)16 << 10)

static size_t scan_segment(const struct hdl_run *run)
{
	size_t len = run->plan->key.bytes / SCAN_SEGMENTS, esize = run->sc->reduce.esize;

	len = len < SCAN_SEGMENT_MIN ? SCAN_SEGMENT_MIN : len > HDL_SC_SEGMENT ? HDL_SC_SEGMENT : len;
	return len / esize * esize;
}

/* Sends the next rank the address of this rank's result. Returns false if the send queue is full. */
static bool scan_announce(struct hdl_queues *h, struct hdl_run *run)
{
	const struct hdl_sc_reduce *f = &run->sc->reduce;
	const char *at = run->sc->staging ? run->sc->staging : h->rank ? f->out : f->in;

	return hdl_sc_ctrl_send(h, run, h->rank + 1, HDL_SC_RTS,
				(struct hdl_sc_ctrl){ .out = (uintptr_t)at, .bytes = run->plan->key.bytes });
}

void hdl_sc_scan_begin(struct hdl_queues *h, struct hdl_run *run)
{
	const struct hdl_plan_key *key = &run->plan->key;
	struct hdl_sc_run *x = run->sc;
	struct hdl_sc_reduce *f = &x->reduce;

	f->esize = (size_t)hdl_type_size(key->type);
	f->fn = hdl_op_lookup(key->op, key->type);
	f->out = run->base[HDL_SP_RECV];
	f->in = key->in_place ? f->out : run->base[HDL_SP_SEND];
	f->at = 0;
	f->len = scan_segment(run);
	f->next = h->segments;
	f->waits = f->progress_due = false;
	if (h->rank)
		x->owes_fin = 1u << (h->rank - 1);
	if (h->rank < h->size - 1 && key->bytes <= HDL_SC_STAGE_FOR_ALL)
		x->staging = hdl_sc_stage(h, run, key->bytes, 1u << (h->rank + 1), 0);
	if (!x->staging && h->rank < h->size - 1)
		x->awaiting_fin = 1u << (h->rank + 1);
	if (x->staging && !h->rank)
		hdl_sc_stage_copy(h, x->staging, f->in, key->bytes);
	if (h->rank < h->size - 1)
		scan_announce(h, run);
	if (!h->rank && f->out != f->in)
		memcpy(f->out, f->in, key->bytes);	/* while the next rank reads */
}

/* Returns how many bytes of the previous rank's result are ready. */
static uint64_t scan_ready(struct hdl_queues *h, struct hdl_run *run, const struct hdl_sc_ctrl *rts)
{
	const struct hdl_sc_ctrl *t = hdl_sc_ctrl_poll(h, run, HDL_SC_PROGRESS, h->rank - 1);

	if (h->rank == 1)
		return rts->bytes;
	if (!t)
		return 0;
	if (unlikely(t->failed && !run->sc->failed))
		hdl_sc_peer_failed(run, h->rank - 1);
	return __atomic_load_n(&t->in, __ATOMIC_ACQUIRE);
}

/* Combines the segment that was read with this rank's input. */
static void scan_combine(struct hdl_queues *h, struct hdl_run *run, size_t len)
{
	struct hdl_sc_reduce *f = &run->sc->reduce;

	f->fn(f->out == f->in ? f->next : f->in + f->at, f->out + f->at, len / f->esize);
	if (run->sc->staging)
		hdl_sc_stage_copy(h, run->sc->staging + f->at, f->out + f->at, len);
	f->at += len;
	f->waits = false;
	f->progress_due = true;	/* scan_send_progress sends HDL_SC_PROGRESS */
}

/* Sends the next rank HDL_SC_PROGRESS, if there is progress. Returns false if the send queue is full. */
static bool scan_send_progress(struct hdl_queues *h, struct hdl_run *run)
{
	struct hdl_sc_reduce *f = &run->sc->reduce;

	if (f->progress_due && h->rank < h->size - 1 &&
	    !hdl_sc_ctrl_send(h, run, h->rank + 1, HDL_SC_PROGRESS,
			      (struct hdl_sc_ctrl){ .in = f->at, .failed = run->sc->failed }))
		return false;
	f->progress_due = false;
	return true;
}

void hdl_sc_scan_turn(struct hdl_queues *h, struct hdl_run *run)
{
	uint64_t bytes = run->plan->key.bytes;
	struct hdl_sc_run *x = run->sc;
	struct hdl_sc_reduce *f = &x->reduce;
	const struct hdl_sc_ctrl *t;

	t = hdl_sc_ctrl_poll(h, run, HDL_SC_RTS, h->rank - 1);
	if (!t)
		return;
	if (unlikely(t->bytes != bytes && !x->failed))
		hdl_sc_refuse(run, h->rank - 1, t->bytes, bytes);
	while (!x->failed && f->at < bytes) {
		size_t len = bytes - f->at < f->len ? bytes - f->at : f->len;

		if (!f->waits && (!scan_send_progress(h, run) || scan_ready(h, run, t) < f->at + len || x->failed))
			break;
		/* read to the result's place, unless this rank's input lies there: then the input is the operand that is combined
		 * into it, on the other side */
		if (!f->waits &&
		    !hdl_sc_copy(h, run, h->rank - 1, false, f->out == f->in ? f->next : f->out + f->at, t->out + f->at, len))
			return;
		f->waits = true;
		if (!hdl_sc_copied(h, x, h->rank - 1))
			return;
		scan_combine(h, run, len);
		if (unlikely(hdl_queues_are_broken(h) || x->turn_bytes >= HDL_SC_TURN))
			return;
	}
	if (unlikely(x->failed)) {
		f->at = bytes;
		f->progress_due = true;
	}
	if (f->at != bytes || !scan_send_progress(h, run) ||
	    !hdl_sc_ctrl_send(h, run, h->rank - 1, HDL_SC_FIN, (struct hdl_sc_ctrl){ .bytes = bytes }))
		return;
	x->owes_fin = 0;
}
