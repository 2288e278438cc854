/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Accumulates: the choice of the agent that carries an element's update out, and the agent *device*.
 *
 *     hdl_rma_accumulate ─┬─ cpu       acc.c       the window is mapped
 *                         ├─ handler   acc_origin.c    the window is not mapped
 *                         └─ device    here        elements of 8 bytes at multiples of 8, if the members agreed on it (reach.h)
 *
 * Invariant: the agent of an element depends on the window, the target, the element's type and its address only, so all origins
 * choose alike; the operation does not count.
 *
 *     1. Rank 0 adds to an int64 of rank 2 by an atomic request of the device
 *     2. Rank 1 replaces the same element. Were MPI_REPLACE a message, since no request of the device exchanges a word, rank 2's
 *        handler would read the element, and store the new value behind the device's addition
 *     3. Rank 0's addition would have an old value that no other operation left there. So rank 1 replaces by a
 *        compare-and-swap of the device
 *
 * The device has two requests: MPI_SUM on integers and MPI_NO_OP are a fetch-and-add, MPI_Compare_and_swap is a compare-and-swap.
 * All other operations are loops: a compare-and-swap with a guess, and another one with the word that the first has returned,
 * until the guess is right.
 *
 * Order (section 12.7.2): single requests of one origin to one target are carried out in the order in which they are posted. A
 * loop is not:
 *
 *     1. MPI_Accumulate(MPI_MAX): the first compare-and-swap fails
 *     2. MPI_Fetch_and_op(MPI_NO_OP) on the same element is posted, and returns the value before the maximum
 *     3. The loop's second compare-and-swap follows
 *
 * So a call first waits for the loops of earlier calls to the target, unless accumulate_ordering is none. The elements of one
 * call are under way together, up to AT_ONCE.
 */
#include "rma/element.h"
#include "rma/failpoint.h"
#include "rma/operation.h"
#include "rma/side.h"

#include <errno.h>
#include <stdlib.h>

#define WORD	8u			/* bytes of the device's atomic requests */
#define AT_ONCE	64u			/* updates under way to one target */

/* An accumulate by the agent *device*. */
struct call {
	struct call *next;		/* free list */
	struct hdl_target *t;
	struct hdl_rma_group *g;
	unsigned open;			/* updates under way, and 1 until all have begun */
	int error;			/* class of the first update that failed */
	char *packed;			/* old values for `out`; NULL: stored into the result buffer at once */
	size_t bytes;			/* of packed */
	struct hdl_stream *out;
	struct hdl_type *type;		/* of out, with a reference */
};

/* The update of one element. */
struct update {
	struct hdl_rma rma;
	struct update *next;		/* free list */
	struct call *call;
	const struct hdl_type *base;
	MPI_Op op;
	uint64_t offset;		/* in the target's region */
	uint64_t operand, compare;
	uint64_t guess, old;		/* loops of compare-and-swap: the expected word; the word before the request */
	char *result;			/* where the old value goes; NULL: nowhere */
	enum { ADDS, SWAPS_IF, LOOPS } how;
};

static struct call *free_calls;
static struct update *free_updates;

/* Takes an object from a free list, or allocates one. NULL: no memory. */
#define TAKE(list) ({ __typeof__(list) o_ = (list); if (o_) (list) = o_->next; else o_ = malloc(sizeof(*o_)); o_; })
#define GIVE(list, o) ((o)->next = (list), (list) = (o))

static bool is_word(const struct hdl_target *t, const struct hdl_type *base)
{
	return t->atomics && base->size == WORD && hdl_type_is_contiguous(base);
}

/* ---- updates --------------------------------------------------------------------------------------------------------------- */

static void call_ended(struct call *c, int class)
{
	if (class && !c->error)
		c->error = class;
	if (--c->open)
		return;
	if (c->out && !c->error)
		hdl_stream_unpack(c->out, c->packed, c->bytes);
	if (c->type)
		hdl_type_release(c->type);
	free(c->out);
	free(c->packed);
	hdl_rma_part_ended(c->t, c->g, c->error);
	GIVE(free_calls, c);
}

static void update_ended(struct update *u, int err)
{
	struct call *c = u->call;
	struct hdl_target *t = c->t;

	if (!err && u->result)
		memcpy(u->result, &u->old, WORD);
	t->updates--;
	t->loops -= u->how == LOOPS;
	GIVE(free_updates, u);
	call_ended(c, err ? hdl_rma_class(err) : MPI_SUCCESS);
}

/* Returns the new value of a word with the value `old`. */
static uint64_t updated(const struct update *u, uint64_t old)
{
	if (u->op == MPI_REPLACE)
		return u->operand;
	hdl_op_apply(u->op, u->base, &u->operand, &old, 1);
	return old;
}

/* Posts the next request. Returns as hdl_atomic. */
static int update_post(struct update *u)
{
	struct hdl_rkey *key = u->call->t->key;

	switch (u->how) {
	case ADDS:
		return hdl_atomic(key, u->offset, HDL_FETCH_ADD, WORD, u->operand, 0, &u->old, &u->rma);
	case SWAPS_IF:
		return hdl_atomic(key, u->offset, HDL_COMPARE_SWAP, WORD, u->operand, u->compare, &u->old, &u->rma);
	default:
		HDL_FAILPOINT("device-swap");
		return hdl_atomic(key, u->offset, HDL_COMPARE_SWAP, WORD, updated(u, u->guess), u->guess, &u->old, &u->rma);
	}
}

/* Returns true if the request has changed no word: another process has, since the guess. */
static bool must_repeat(struct update *u)
{
	if (u->how != LOOPS || u->old == u->guess)
		return false;
	u->guess = u->old;
	return true;
}

/* Posts requests until one is under way, or the update has ended. */
static void update_run(struct update *u)
{
	int r;

	do
		r = update_post(u);
	while (r > 0 && must_repeat(u));
	if (r)
		update_ended(u, r < 0 ? r : 0);
}

static void request_done(struct hdl_rma *rma, int err)
{
	struct update *u = container_of(rma, struct update, rma);

	if (!err && must_repeat(u))
		update_run(u);
	else
		update_ended(u, err);
}

/* ---- accumulates ----------------------------------------------------------------------------------------------------------- */

static bool no_loops(const void *arg)
{
	return !((const struct hdl_target *)arg)->loops;
}

static bool has_room(const void *arg)
{
	return ((const struct hdl_target *)arg)->updates < AT_ONCE;
}

static bool no_messages(const void *arg)
{
	return !((const struct hdl_target *)arg)->out;
}

/* The origin's side of an accumulate by the device. */
struct elements {
	struct hdl_win *w;
	const struct hdl_acc_args *a;
	const struct hdl_type *base;
	const char *compare;		/* packed; NULL: no compare-and-swap */
	struct call *call;
	struct hdl_side in;
	char *result;			/* where the next old value goes; NULL: nowhere */
	bool adds;			/* the operation is a fetch-and-add */
};

static int word_begin(struct elements *e, struct hdl_target *t, uint64_t address)
{
	struct update *u;
	char room[WORD];

	if (!has_room(t))
		hdl_wait_until(has_room, t);
	u = TAKE(free_updates);
	if (!u)
		return hdl_rma_no_memory("an accumulate");
	u->rma.done = request_done;
	u->call = e->call;
	u->base = e->base;
	u->op = e->a->op;
	u->offset = address - t->base;
	u->operand = u->guess = 0;
	u->result = e->result;
	u->how = e->compare ? SWAPS_IF : e->adds ? ADDS : LOOPS;
	if (u->op != MPI_NO_OP)
		memcpy(&u->operand, hdl_side_take(&e->in, room, WORD), WORD);
	if (e->compare)
		memcpy(&u->compare, e->compare, WORD);
	t->updates++;
	t->loops += u->how == LOOPS;
	e->call->open++;
	update_run(u);
	return MPI_SUCCESS;
}

/* Updates an element that is no word of the device, by the agent of elements of another size, and waits for the end. */
static int odd_one(struct elements *e, struct hdl_target *t, uint64_t address)
{
	char operand[WORD] = { 0 }, room[WORD], old[WORD];
	struct hdl_acc_args a = { .at = { operand, 1, e->base, 0, 1, e->base }, .op = e->a->op, .fetch = e->a->fetch,
				  .result = old, .result_count = 1, .result_type = e->base };
	int64_t offset = (int64_t)(address - t->base);
	int rc;

	if (a.op != MPI_NO_OP)
		memcpy(operand, hdl_side_take(&e->in, room, WORD), WORD);
	if (e->w->mapped) {
		rc = hdl_acc_by_cpu(e->w, t, &a, e->base, NULL, offset);
	} else {
		rc = hdl_rma_msg_accumulate(e->w, t, &a, NULL, offset, NULL);
		if (!rc && t->out)
			hdl_wait_until(no_messages, t);
	}
	if (!rc && e->result)
		memcpy(e->result, old, WORD);
	return rc;
}

/* Prepares the places of the old values. */
static int results_open(struct elements *e, size_t bytes)
{
	const struct hdl_acc_args *a = e->a;
	struct call *c = e->call;
	void *run = a->result;

	if (!a->fetch)
		return MPI_SUCCESS;
	if (hdl_type_is_run(a->result_type, a->result_count) || hdl_type_find_run(a->result_type, a->result_count, &run)) {
		e->result = run;
		return MPI_SUCCESS;
	}
	c->out = malloc(hdl_stream_bytes(a->result_type));
	c->packed = e->result = malloc(bytes);
	c->bytes = bytes;
	if (!c->out || !c->packed) {
		free(c->out);
		free(c->packed);
		return hdl_rma_no_memory("an accumulate");
	}
	hdl_stream_open(c->out, a->result, a->result_count, a->result_type, 0);
	c->type = (struct hdl_type *)(uintptr_t)a->result_type;
	hdl_type_retain(c->type);
	return MPI_SUCCESS;
}

/* Begins the updates of all elements. */
static int words_begin(struct elements *e, struct hdl_target *t, int64_t offset)
{
	const struct hdl_acc_args *a = e->a;
	void *mem = (void *)(uintptr_t)(t->base + (uint64_t)offset);
	bool run = hdl_type_is_run(a->at.target_type, a->at.target_count) ||
		   hdl_type_find_run(a->at.target_type, a->at.target_count, &mem);
	size_t left = run ? (size_t)a->at.target_count * (size_t)a->at.target_type->size : 0;
	int rc = MPI_SUCCESS;

	HDL_STREAM_HERE(is, a->at.type);
	HDL_STREAM_HERE(ts, run ? NULL : a->at.target_type);
	if (!run)
		hdl_stream_open(ts, mem, a->at.target_count, a->at.target_type, 0);
	if (a->op != MPI_NO_OP)
		hdl_side_open(&e->in, is, a->at.buf, a->at.count, a->at.type);
	/* elements without a hole: a run of the type map has whole ones */
	while (!rc && (left || (!run && (left = hdl_stream_next(ts, SIZE_MAX / 2, &mem))))) {
		uint64_t address = (uintptr_t)mem;

		rc = address % WORD ? odd_one(e, t, address) : word_begin(e, t, address);
		mem = (void *)(uintptr_t)(address + WORD);
		left -= WORD;
		if (e->result)
			e->result += WORD;
	}
	return rc;
}

static int by_device(struct hdl_win *w, struct hdl_target *t, const struct hdl_acc_args *a, const struct hdl_type *base,
		     const char *compare, int64_t offset, struct hdl_rma_group *g)
{
	struct elements e = { .w = w, .a = a, .base = base, .compare = compare, .call = TAKE(free_calls),
			      .adds = a->op == MPI_NO_OP || hdl_acc_adds(a->op, base) };
	int rc;

	if (!e.call)
		return hdl_rma_no_memory("an accumulate");
	*e.call = (struct call){ .t = t, .g = g, .open = 1 };
	rc = results_open(&e, (size_t)a->at.target_count * (size_t)a->at.target_type->size);
	if (rc) {
		GIVE(free_calls, e.call);
		return rc;
	}
	if (t->loops && !(w->hints & HDL_WIN_ORDER_NONE))
		hdl_wait_until(no_loops, t);
	t->pending++;
	if (g)
		g->parts++;
	rc = words_begin(&e, t, offset);
	call_ended(e.call, rc);
	/* the error of an operation that has begun comes by the request, or at the next flush */
	return MPI_SUCCESS;
}

/* ---- the door -------------------------------------------------------------------------------------------------------------- */

/* Finds the region of a dynamic window before a hashed lock is held: the search may read a new version of the table, and wait. */
static int region_before(struct hdl_win *w, struct hdl_target *t, uint64_t address)
{
	struct hdl_rkey *key;
	uint64_t at;

	return t->lane == HDL_LANE_DEVICE && w->dynamic ? hdl_region_find(w, t, address, 1, &key, &at) : MPI_SUCCESS;
}

int hdl_rma_accumulate(struct hdl_win *w, struct hdl_target *t, const struct hdl_acc_args *a, struct hdl_rma_group *g)
{
	const struct hdl_type *base = hdl_type_base(a->at.target_type);
	int64_t offset;
	int rc = hdl_rma_range(w, t, &a->at, &offset);

	if (rc || !a->at.target_count || !a->at.target_type->size)
		return rc;
	if (hdl_target_failed(t))
		return hdl_rma_dead(w, t->rank, "accumulate to");
	if (is_word(t, base))
		return by_device(w, t, a, base, NULL, offset, g);
	if (!w->mapped)
		return hdl_rma_msg_accumulate(w, t, a, NULL, offset, g);
	rc = region_before(w, t, t->base + (uint64_t)offset + (uint64_t)a->at.target_type->true_lb);
	return rc ? rc : hdl_acc_by_cpu(w, t, a, base, NULL, offset);
}

int hdl_rma_compare_and_swap(struct hdl_win *w, struct hdl_target *t, const void *origin, const void *compare, void *result,
			     const struct hdl_type *type, MPI_Aint disp)
{
	struct hdl_acc_args a = { .at = { (void *)(uintptr_t)origin, 1, type, disp, 1, type }, .op = MPI_REPLACE, .fetch = true,
				  .result = result, .result_count = 1, .result_type = type };
	char packed[32];
	int64_t offset;
	int rc = hdl_rma_range(w, t, &a.at, &offset);

	if (rc)
		return rc;
	if (hdl_target_failed(t))
		return hdl_rma_dead(w, t->rank, "compare-and-swap at");
	hdl_pack(packed, compare, 1, type, 0, (size_t)type->size);
	if (is_word(t, type) && (t->base + (uint64_t)offset) % WORD == 0)
		return by_device(w, t, &a, type, packed, offset, NULL);
	if (!w->mapped)
		return hdl_rma_msg_accumulate(w, t, &a, compare, offset, NULL);
	if (t->native && hdl_cas_native(t, type, t->memory + offset, origin, compare, result))
		return MPI_SUCCESS;
	rc = region_before(w, t, t->base + (uint64_t)offset);
	return rc ? rc : hdl_acc_by_cpu(w, t, &a, type, packed, offset);
}
