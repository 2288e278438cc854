/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Random one-sided traffic against a shadow copy of every window: all operations and their request forms, derived types on both
 * sides, every flavour, every kind of epoch, ranks in other orders and in parts, several threads with a window each. All ranks
 * draw the same numbers, so each rank knows every operation, and each expected byte of the rank's memory and results.
 *
 *     rma_random [batches [seed [threads [flavour]]]]
 *
 * A batch is one window. Before an epoch the memory is divided into segments, which keep the rules of section 12.7: a segment has
 * one put, or gets, or accumulates of one operation by every rank, or a series of accumulates by one origin in the order of
 * section 12.7.2, or operations of one origin with a flush behind each. A failure prints seed and batch.
 */
#include "rma_test.h"

#include <pthread.h>

static const struct element elements[N_ELEMENTS] = RMA_ELEMENTS;
static const struct operation operations[N_OPERATIONS] = RMA_OPERATIONS;

enum { SEGMENTS = 6, OPS = 400, MAX_ELEMENTS = 40000 };
enum mode { NOTHING, ONE_PUT, GETS, SUMS, SERIES, FLUSHED, MODES };
enum way { FENCES, POSTS, EXCLUSIVE, SHARED_LOCKS, ALL_LOCKED, WAYS };
enum call { PUT, GET, ACCUMULATE, GET_ACCUMULATE, FETCH_AND_OP, COMPARE_AND_SWAP, CALLS };
static const char *const mode_names[] = { "nothing", "one put", "gets", "sums", "series", "flushed" };
static const char *const way_names[] = { "fence", "post/start", "lock exclusive", "lock shared", "lock_all" };
static const char *const call_names[] = { "put", "get", "accumulate", "get_accumulate", "fetch_and_op", "compare_and_swap" };

/* Where the n elements of one side are: `count` elements of `type` at a buffer of `room` bytes. */
struct layout {
	MPI_Datatype type;
	int count;
	bool derived;
	MPI_Aint *offsets;		/* of each element from the beginning of the buffer */
};

struct op {
	enum call call;
	enum mode mode;
	int origin, target, n;
	const struct element *e;
	const struct operation *o;
	MPI_Aint offset, room;		/* the part of the target's memory */
	MPI_Aint own_room, result_room;	/* bytes of the origin's buffers */
	uint64_t seed;
	bool flush, request, bottom, late;	/* late: the request is waited for at the end of the epoch */
	struct layout at_target, at_origin, at_result;
	/* of the origin alone */
	char *buffer, *result, *want;	/* want: the bytes that buffer (of a get) or result must have */
	MPI_Request r;
};

/* One thread's traffic. */
struct run {
	MPI_Comm comm;			/* of all */
	pthread_t thread;
	int number, flavour;
	long batches, batch;
	uint64_t seed, state;
	struct window w;
	bool ordered;			/* no hint took the order of accumulates away */
	unsigned char **shadow;		/* of each member's memory */
	struct op *ops;
	int n_ops;
	enum way way;
};

static unsigned draw(struct run *run, unsigned below)	/* the same on all ranks */
{
	return (unsigned)(rnd(&run->state) % below);
}

static void __attribute__((noreturn)) wrong(const struct run *run, const char *what)
{
	fprintf(stderr, "rma_random: seed %llu, batch %ld, thread %d, rank %d of %d (%s, %s): %s\n",
		(unsigned long long)run->seed, run->batch, run->number, run->w.rank, run->w.ranks,
		flavour_names[run->w.flavour], way_names[run->way], what);
	MPI_Abort(WORLD, 1);
	abort();
}

/* ---- layouts ----------------------------------------------------------------------------------------------------- */

static int divisor(struct run *run, int n)
{
	int d = 1 + (int)draw(run, 8);

	while (n % d)
		d--;
	return d;
}

/* n distinct slots of `slots`, ascending or not. */
static void choose_slots(struct run *run, int *slot, int n, int slots)
{
	int step = slots / n, shift = (int)draw(run, (unsigned)step);

	for (int i = 0; i < n; i++)
		slot[i] = i * step + (shift + i % 3) % step;
	for (int i = n - 1; draw(run, 2) && i > 0; i--) {
		int k = (int)(rnd(&run->state) % (unsigned)(i + 1)), t = slot[i];

		slot[i] = slot[k];
		slot[k] = t;
	}
}

/* A layout of n elements in `room` bytes, which are enough. base: an address that the type has in it, or NULL. `own`: this rank
 * needs the type; else only the places count. All ranks draw the same layout. */
static void layout_make(struct run *run, struct layout *l, const struct element *e, int n, MPI_Aint room, const char *base,
			bool own)
{
	const MPI_Aint size = (MPI_Aint)e->size;
	int slots = (int)(room / size), kind = n ? (int)draw(run, 6) : 0, b, gap, *slot;
	MPI_Datatype inner;
	MPI_Aint *bytes;

	memset(l, 0, sizeof(*l));
	l->offsets = checked(calloc((size_t)n + 1, sizeof(*l->offsets)));
	l->type = e->type;
	l->count = n;
	for (int i = 0; i < n; i++)
		l->offsets[i] = i * size;
	switch (kind) {
	case 1:
		b = divisor(run, n);
		gap = n / b > 1 ? (int)draw(run, (unsigned)((slots - n) / (n / b - 1) + 1)) : 0;
		for (int i = 0; i < n; i++)
			l->offsets[i] = (i / b * (b + gap) + i % b) * size;
		if (own)
			MPI_Type_vector(n / b, b, b + gap, e->type, &l->type);
		l->count = 1;
		break;
	case 2:
		slot = checked(calloc((size_t)n, sizeof(*slot)));
		choose_slots(run, slot, n, slots);
		for (int i = 0; i < n; i++)
			l->offsets[i] = slot[i] * size;
		if (own)
			MPI_Type_create_indexed_block(n, 1, slot, e->type, &l->type);
		l->count = 1;
		free(slot);
		break;
	case 3:
		b = divisor(run, n);
		if (own)
			MPI_Type_contiguous(b, e->type, &l->type);
		l->count = n / b;
		break;
	case 4:		/* every second element first, by bytes */
		slot = checked(calloc((size_t)n, sizeof(*slot)));
		bytes = checked(calloc((size_t)n, sizeof(*bytes)));
		for (int i = 0; i < n; i++) {
			l->offsets[i] = bytes[i] = (i < (n + 1) / 2 ? 2 * i : 2 * (i - (n + 1) / 2) + 1) * size;
			slot[i] = 1;
		}
		if (own)
			MPI_Type_create_hindexed(n, slot, bytes, e->type, &l->type);
		l->count = 1;
		free(slot);
		free(bytes);
		break;
	case 5:		/* an extent with a hole behind */
		b = divisor(run, n);
		gap = (int)draw(run, (unsigned)((slots - n) / (n / b) + 1));
		for (int i = 0; i < n; i++)
			l->offsets[i] = (i / b * (b + gap) + i % b) * size;
		if (own) {
			MPI_Type_contiguous(b, e->type, &inner);
			MPI_Type_create_resized(inner, 0, (b + gap) * size, &l->type);
			MPI_Type_free(&inner);
		}
		l->count = n / b;
		break;
	default:
		break;
	}
	l->derived = kind != 0;
	if (base && own) {	/* for MPI_BOTTOM */
		MPI_Aint address;
		int one = l->count;

		MPI_Get_address(base, &address);
		inner = l->type;
		MPI_Type_create_hindexed(1, &one, &address, inner, &l->type);
		if (l->derived)
			MPI_Type_free(&inner);
		l->derived = true;
	}
	if (base)
		l->count = 1;
	if (own && l->derived)
		MPI_Type_commit(&l->type);
}

static void layout_free(struct layout *l, bool own)
{
	if (own && l->derived && l->type != MPI_DATATYPE_NULL)
		MPI_Type_free(&l->type);
	free(l->offsets);
	l->offsets = NULL;
}

/* ---- drawing an epoch -------------------------------------------------------------------------------------------- */

static const struct element *draw_element(struct run *run, enum mode mode)
{
	for (;;) {
		const struct element *e = &elements[draw(run, N_ELEMENTS)];

		/* padding has no value to be compared */
		if (e->type == MPI_LONG_DOUBLE || (e->group == PAIR && e->type != MPI_2INT && e->type != MPI_FLOAT_INT))
			continue;
		if ((mode == ONE_PUT || mode == GETS) && e->group == PAIR)
			continue;
		return e;
	}
}

/* An operation that is defined on the element. Together: by several origins, so that their order must not matter. */
static const struct operation *draw_operation(struct run *run, const struct element *e, bool together)
{
	for (;;) {
		const struct operation *o = &operations[draw(run, N_OPERATIONS)];

		if (!(o->groups & e->group) || (o->op == MPI_PROD && e->group != INTEGER && e->group != ADDRESS))
			continue;
		if (together && o->op == MPI_REPLACE)
			continue;
		return o;
	}
}

static struct op *new_op(struct run *run, enum call call, enum mode mode, int origin, int target, MPI_Aint offset, MPI_Aint room)
{
	struct op *op = &run->ops[run->n_ops++];

	memset(op, 0, sizeof(*op));
	op->call = call;
	op->mode = mode;
	op->origin = origin;
	op->target = target;
	op->offset = offset;
	op->room = room;
	op->seed = rnd(&run->state);
	op->r = MPI_REQUEST_NULL;
	return op;
}

/* Draws the rest of an operation after call, element and operation. */
static void finish_op(struct run *run, struct op *op)
{
	const MPI_Aint size = (MPI_Aint)op->e->size;
	int most = (int)(op->room / size);
	bool single = op->call == FETCH_AND_OP || op->call == COMPARE_AND_SWAP;
	const bool own = op->origin == run->w.rank, passive = run->way >= EXCLUSIVE;

	if (single) {
		MPI_Aint at = (MPI_Aint)draw(run, (unsigned)most) * size;

		while ((op->offset + at) % run->w.units[op->target])
			at -= size;
		op->offset += at;
		op->room = size;
		op->n = 1;
	} else {
		op->n = draw(run, 12) ? 1 + (int)draw(run, (unsigned)(most < 60 ? most : 60)) :
					(int)draw(run, (unsigned)most + 1);
		if (op->n > MAX_ELEMENTS)
			op->n = MAX_ELEMENTS;
	}
	op->own_room = (MPI_Aint)(op->n + (int)draw(run, 2) * op->n) * size + size;
	op->result_room = (MPI_Aint)(op->n + (int)draw(run, 2) * op->n) * size + size;
	op->request = passive && !single && draw(run, 4) == 0;
	op->late = draw(run, 2);
	op->bottom = !single && draw(run, 8) == 0;
	if (own) {
		op->buffer = checked(malloc((size_t)op->own_room));
		op->result = checked(malloc((size_t)op->result_room));
		op->want = checked(malloc((size_t)(op->own_room > op->result_room ? op->own_room : op->result_room)));
	}
	if (single) {
		op->at_target.offsets = checked(calloc(1, sizeof(MPI_Aint)));
		op->at_origin.offsets = checked(calloc(1, sizeof(MPI_Aint)));
		op->at_result.offsets = checked(calloc(1, sizeof(MPI_Aint)));
		return;
	}
	layout_make(run, &op->at_target, op->e, op->n, op->room, NULL, own);
	layout_make(run, &op->at_origin, op->e, op->n, op->own_room, op->bottom ? (own ? op->buffer : "") : NULL, own);
	layout_make(run, &op->at_result, op->e, op->n, op->result_room, NULL, own);
}

static void draw_series(struct run *run, enum mode mode, int target, MPI_Aint offset, MPI_Aint room, const struct element *e)
{
	int origin = (int)draw(run, (unsigned)run->w.ranks), n = 1 + (int)draw(run, 6);
	const struct operation *all = draw_operation(run, e, false);

	for (int i = 0; i < n && run->n_ops < OPS; i++) {
		enum call call = (enum call)draw(run, CALLS);
		struct op *op;

		if (mode == SERIES && call < ACCUMULATE)
			call = ACCUMULATE;
		if (call == COMPARE_AND_SWAP && !(e->group & (INTEGER | LOGICAL | BYTES | ADDRESS)))
			call = FETCH_AND_OP;
		op = new_op(run, call, mode, origin, target, offset, room);
		op->e = e;
		op->o = draw(run, 2) ? all : draw_operation(run, e, false);
		if (call == ACCUMULATE && op->o->op == MPI_NO_OP)
			op->call = GET_ACCUMULATE;
		op->flush = mode == FLUSHED;
		finish_op(run, op);
	}
}

/* The owner stores elements of the type in a segment: sums begin with small numbers. */
static void prepare_elements(struct run *run, int target, MPI_Aint offset, MPI_Aint room, const struct element *e)
{
	uint64_t seed = rnd(&run->state);

	for (MPI_Aint i = 0; i < room / (MPI_Aint)e->size; i++)
		set_element(e, run->shadow[target] + offset + i * (MPI_Aint)e->size, seed + (uint64_t)i);
}

static void draw_segment(struct run *run, int target, MPI_Aint offset, MPI_Aint room)
{
	const bool passive = run->way >= EXCLUSIVE;
	enum mode mode = (enum mode)draw(run, MODES);
	const struct element *e;
	const struct operation *o;
	int n;

	if (mode == FLUSHED && !passive)
		mode = SERIES;
	if (mode == SERIES && !run->ordered)
		mode = passive ? FLUSHED : SUMS;
	e = draw_element(run, mode);
	if (room < 2 * (MPI_Aint)e->size || mode == NOTHING)
		return;
	if (mode >= SUMS)
		prepare_elements(run, target, offset, room, e);
	if (mode >= SERIES) {
		draw_series(run, mode, target, offset, room, e);
		return;
	}
	o = draw_operation(run, e, true);
	n = mode == ONE_PUT ? 1 : 1 + (int)draw(run, 5);
	for (int i = 0; i < n && run->n_ops < OPS; i++) {
		enum call call = mode == ONE_PUT ? PUT : mode == GETS ? GET : draw(run, 3) ? ACCUMULATE : draw(run, 2)
			? GET_ACCUMULATE : FETCH_AND_OP;
		struct op *op;

		if (call == ACCUMULATE && o->op == MPI_NO_OP)
			call = GET_ACCUMULATE;
		op = new_op(run, call, mode, (int)draw(run, (unsigned)run->w.ranks), target, offset, room);
		op->e = e;
		op->o = o;
		finish_op(run, op);
	}
}

static void draw_epoch(struct run *run)
{
	run->n_ops = 0;
	run->way = (enum way)draw(run, WAYS);
	for (int t = 0; t < run->w.ranks; t++) {
		MPI_Aint size = run->w.sizes[t], at = 0;
		int n = 1 + (int)draw(run, SEGMENTS);

		for (int i = 0; i < n && size - at >= 16; i++) {
			MPI_Aint room = (size - at) / (n - i) / 16 * 16;

			if (room < 16)
				continue;
			draw_segment(run, t, at, room);
			at += room;
		}
	}
}

/* ---- expected bytes ---------------------------------------------------------------------------------------------- */

/* The origin's elements, one behind the other. Pairs and floating numbers are made by set_element; so is all that is compared. */
static void origin_elements(const struct op *op, char *packed)
{
	for (int i = 0; i < op->n; i++)
		set_element(op->e, packed + (size_t)i * op->e->size, op->seed + (uint64_t)i);
}

/* Applies the operation to the shadow; own: and to the bytes that this rank's buffers must have. */
static void apply(struct run *run, struct op *op, bool own)
{
	unsigned char *mem = run->shadow[op->target] + op->offset;
	const size_t size = op->e->size;
	const struct layout *to = op->call == GET ? &op->at_origin : &op->at_result;
	char *packed = checked(malloc((size_t)(op->n + 1) * size));

	origin_elements(op, packed);
	if (own && op->call != PUT && op->call != ACCUMULATE)
		for (int i = 0; i < op->n; i++)
			memcpy(op->want + to->offsets[i], mem + op->at_target.offsets[i], size);
	for (int i = 0; i < op->n; i++) {
		unsigned char *at = mem + op->at_target.offsets[i];
		const char *from = packed + (size_t)i * size;

		switch (op->call) {
		case GET:
			break;
		case PUT:
			memcpy(at, from, size);
			break;
		case COMPARE_AND_SWAP:
			/* in two cases of three perform() compares with the element that is there */
			if (op->seed % 3)
				memcpy(at, from, size);
			break;
		default:
			reference(op->e, op->o->op, from, at, 1);
			break;
		}
	}
	free(packed);
}

/* ---- doing it ---------------------------------------------------------------------------------------------------- */

/* Before the epoch: fills the origin's buffers, and `want` with the bytes that stay where nothing arrives;
 * apply() adds the rest. */
static void ready_op(struct op *op)
{
	char *packed = checked(malloc((size_t)(op->n + 1) * op->e->size));

	memset(op->buffer, 0x3c, (size_t)op->own_room);
	memset(op->result, 0x3d, (size_t)op->result_room);
	memset(op->want, op->call == GET ? 0x3c : 0x3d, (size_t)(op->call == GET ? op->own_room : op->result_room));
	origin_elements(op, packed);
	for (int i = 0; op->call != GET && i < op->n; i++)
		memcpy(op->buffer + op->at_origin.offsets[i], packed + (size_t)i * op->e->size, op->e->size);
	free(packed);
}

static void perform(struct run *run, struct op *op)
{
	const struct window *w = &run->w;
	const MPI_Aint at = disp(w, op->target, op->offset);
	const int t = op->target, tc = op->at_target.count, oc = op->at_origin.count, rc = op->at_result.count;
	MPI_Datatype tt = op->at_target.type, ot = op->at_origin.type, rt = op->at_result.type, e = op->e->type;
	void *buffer = op->bottom ? MPI_BOTTOM : op->buffer;
	const bool none = op->o && op->o->op == MPI_NO_OP && op->seed % 2;
	char compare[32];

	switch (op->call) {
	case PUT:
		if (op->request)
			MPI_Rput(buffer, oc, ot, t, at, tc, tt, w->win, &op->r);
		else
			MPI_Put(buffer, oc, ot, t, at, tc, tt, w->win);
		break;
	case GET:
		if (op->request)
			MPI_Rget(buffer, oc, ot, t, at, tc, tt, w->win, &op->r);
		else
			MPI_Get(buffer, oc, ot, t, at, tc, tt, w->win);
		break;
	case ACCUMULATE:
		if (op->request)
			MPI_Raccumulate(buffer, oc, ot, t, at, tc, tt, op->o->op, w->win, &op->r);
		else
			MPI_Accumulate(buffer, oc, ot, t, at, tc, tt, op->o->op, w->win);
		break;
	case GET_ACCUMULATE:
		if (none)
			buffer = NULL;
		if (op->request)
			MPI_Rget_accumulate(buffer, none ? 0 : oc, none ? MPI_BYTE : ot, op->result, rc, rt, t, at, tc, tt,
					    op->o->op, w->win, &op->r);
		else
			MPI_Get_accumulate(buffer, none ? 0 : oc, none ? MPI_BYTE : ot, op->result, rc, rt, t, at, tc, tt,
					   op->o->op, w->win);
		break;
	case FETCH_AND_OP:
		MPI_Fetch_and_op(none ? NULL : op->buffer, op->result, e, t, at, op->o->op, w->win);
		break;
	default:
		/* the element that is there, or another one */
		memcpy(compare, op->want, op->e->size);
		if (op->seed % 3 == 0)
			compare[0] ^= 1;
		/* behind the element: stays until the operation is complete */
		memcpy(op->buffer + op->e->size, compare, op->e->size);
		MPI_Compare_and_swap(op->buffer, op->buffer + op->e->size, op->result, e, t, at, w->win);
		break;
	}
	/* types may go as soon as the call returns */
	if (op->call < FETCH_AND_OP && op->seed % 5 < 3) {
		struct layout *all[3] = { &op->at_target, &op->at_origin, &op->at_result };

		for (int i = 0; i < 3; i++)
			if (all[i]->derived)
				MPI_Type_free(&all[i]->type);
	}
	if (op->request && !op->late)
		MPI_Wait(&op->r, MPI_STATUS_IGNORE);
	if (op->flush) {
		if (op->call == GET && op->seed % 7 == 0)
			MPI_Win_flush_local(t, w->win);
		else if (op->seed % 11 == 0 && run->way == ALL_LOCKED)
			MPI_Win_flush_all(w->win);
		else
			MPI_Win_flush(t, w->win);
	}
}

static void perform_all(struct run *run, int target)	/* of one target; -1: of all */
{
	struct window *w = &run->w;

	for (int i = 0; i < run->n_ops; i++)
		if (run->ops[i].origin == w->rank && (target < 0 || run->ops[i].target == target))
			perform(run, &run->ops[i]);
	for (int i = 0; i < run->n_ops; i++)
		if (run->ops[i].origin == w->rank && (target < 0 || run->ops[i].target == target))
			MPI_Wait(&run->ops[i].r, MPI_STATUS_IGNORE);
}

static MPI_Group partners(struct run *run, bool origins)
{
	struct window *w = &run->w;
	int *ranks = checked(calloc((size_t)w->ranks, sizeof(int))), n = 0;
	MPI_Group all, some;

	for (int r = 0; r < w->ranks; r++) {
		/* some without an operation, too */
		bool in = mix(run->state ^ (uint64_t)(origins ? r * 64 + w->rank : w->rank * 64 + r)) % 4 == 0;

		for (int i = 0; i < run->n_ops; i++)
			in |= origins ? run->ops[i].origin == r && run->ops[i].target == w->rank :
					run->ops[i].origin == w->rank && run->ops[i].target == r;
		if (in)
			ranks[n++] = r;
	}
	MPI_Win_get_group(w->win, &all);
	MPI_Group_incl(all, n, ranks, &some);
	MPI_Group_free(&all);
	free(ranks);
	return some;
}

static void perform_posts(struct run *run)
{
	MPI_Group from = partners(run, true), to = partners(run, false);
	int flag = 0;

	MPI_Win_post(from, 0, run->w.win);
	MPI_Win_start(to, 0, run->w.win);
	MPI_Group_free(&from);
	MPI_Group_free(&to);
	perform_all(run, -1);
	MPI_Win_complete(run->w.win);
	while (run->state % 2 && !flag)
		MPI_Win_test(run->w.win, &flag);
	if (!flag)
		MPI_Win_wait(run->w.win);
}

static void perform_locks(struct run *run)
{
	struct window *w = &run->w;

	for (int k = 0; k < w->ranks; k++) {
		int target = (k + w->rank) % w->ranks;
		bool any = mix(run->state ^ (uint64_t)target) % 4 == 0;

		for (int i = 0; i < run->n_ops; i++)
			any |= run->ops[i].origin == w->rank && run->ops[i].target == target;
		if (!any)
			continue;
		MPI_Win_lock(run->way == EXCLUSIVE ? MPI_LOCK_EXCLUSIVE : MPI_LOCK_SHARED, target, 0, w->win);
		perform_all(run, target);
		MPI_Win_unlock(target, w->win);
	}
}

static void perform_epoch(struct run *run)
{
	struct window *w = &run->w;

	switch (run->way) {
	case FENCES:
		MPI_Win_fence(run->state % 3 ? 0 : MPI_MODE_NOPRECEDE, w->win);
		perform_all(run, -1);
		MPI_Win_fence(MPI_MODE_NOSUCCEED, w->win);
		break;
	case POSTS:
		perform_posts(run);
		break;
	case ALL_LOCKED:
		MPI_Win_lock_all(0, w->win);
		perform_all(run, -1);
		MPI_Win_unlock_all(w->win);
		break;
	default:
		perform_locks(run);
		break;
	}
	meet(w->comm);
}

/* ---- checks ------------------------------------------------------------------------------------------------------ */

static void check_memory(struct run *run)
{
	struct window *w = &run->w;
	char text[300];

	own_begin(w);
	for (MPI_Aint i = 0; i < w->size; i++) {
		if (w->mem[i] == run->shadow[w->rank][i])
			continue;
		for (int k = 0; k < run->n_ops; k++) {
			const struct op *op = &run->ops[k];

			if (op->target == w->rank && i >= op->offset && i < op->offset + op->room)
				fprintf(stderr,
					"rma_random: there rank %d did: %s, %s of %d %s, %s, at %ld of %ld bytes%s%s%s\n",
					op->origin, mode_names[op->mode], call_names[op->call], op->n, op->e->name,
					op->o ? op->o->name : "-", (long)op->offset, (long)op->room,
					op->request ? ", request" : "", op->bottom ? ", MPI_BOTTOM" : "",
					op->at_target.count != op->n ? ", derived" : "");
		}
		snprintf(text, sizeof(text), "byte %ld of %ld of this rank's memory is %02x and should be %02x", (long)i,
			 (long)w->size, w->mem[i], run->shadow[w->rank][i]);
		wrong(run, text);
	}
	own_end(w);
}

static void check_op(struct run *run, const struct op *op)
{
	const char *have = op->call == GET ? op->buffer : op->result;
	MPI_Aint room = op->call == GET ? op->own_room : op->result_room;
	char text[300];

	if (op->call == PUT || op->call == ACCUMULATE || op->mode == SUMS)
		return;		/* the old value that a sum of several origins reads depends on their order */
	for (MPI_Aint i = 0; i < room; i++) {
		if (have[i] == op->want[i])
			continue;
		snprintf(
			text, sizeof(text),
			"byte %ld of %ld of the result of %s, %s of %d %s, %s, at byte %ld of rank %d, is %02x and should be "
			"%02x",
			(long)i, (long)room, mode_names[op->mode], call_names[op->call], op->n, op->e->name,
			op->o ? op->o->name : "-", (long)op->offset, op->target, (unsigned char)have[i],
			(unsigned char)op->want[i]);
		wrong(run, text);
	}
}

/* ---- windows ---------------------------------------------------------------------------------------------------- */

/* The owner's memory becomes as the shadow says: by stores, or, for a dynamic window, now and then by other memory. */
static void own_stores(struct run *run, bool move)
{
	struct window *w = &run->w;
	unsigned char *other;

	if (move && w->flavour == DYNAMIC) {
		other = checked(malloc((size_t)w->size + 1));
		memcpy(other, run->shadow[w->rank], (size_t)w->size);
		MPI_Win_detach(w->win, w->mem);
		free(w->mem);
		w->mem = other;
		MPI_Win_attach(w->win, w->mem, w->size);
		window_publish(w, 1);
	} else {
		own_begin(w);
		memcpy(w->mem, run->shadow[w->rank], (size_t)w->size);
		own_end(w);
	}
	meet(w->comm);
}

/* One window. Members of comm call it; each with the same state. */
static void one_window(struct run *run, MPI_Comm comm)
{
	static const int units[] = { 1, 2, 4, 8, 16 };
	int rank, n, flavour = (int)draw(run, FLAVOURS), unit = 1, epochs = 2 + (int)draw(run, 5);
	MPI_Aint size = 0;
	MPI_Info info = MPI_INFO_NULL;

	MPI_Comm_rank(comm, &rank);
	MPI_Comm_size(comm, &n);
	if (run->flavour >= 0)
		flavour = run->flavour;
	if (!flavour_possible((enum flavour)flavour))
		flavour = ALLOCATE;
	for (int r = 0; r < n; r++) {
		MPI_Aint s = draw(run, 8) ? 16 * (1 + (MPI_Aint)draw(run, draw(run, 8) ? 100 : 20000)) : 0;
		int u = units[draw(run, 5)];

		if (r == rank) {
			size = s;
			unit = u;
		}
	}
	run->ordered = draw(run, 4);
	if (!run->ordered || draw(run, 4) == 0) {
		MPI_Info_create(&info);
		if (!run->ordered)
			MPI_Info_set(info, "accumulate_ordering", "none");
		else
			MPI_Info_set(info, "alloc_shared_noncontig", "true");
	}
	if (mix(run->seed + (uint64_t)run->batch) % 3 == 0) {	/* accumulates by the device, where the memory is not mapped */
		if (info == MPI_INFO_NULL)
			MPI_Info_create(&info);
		MPI_Info_set(info, "mpi_accumulate_granularity", "8");
	}
	window_new(&run->w, (enum flavour)flavour, size, unit, info, comm);
	if (info != MPI_INFO_NULL)
		MPI_Info_free(&info);
	run->shadow = checked(calloc((size_t)n, sizeof(*run->shadow)));
	for (int r = 0; r < n; r++) {
		run->shadow[r] = checked(malloc((size_t)run->w.sizes[r] + 1));
		fill(run->shadow[r], (size_t)run->w.sizes[r], seed_of(r, 0, 0, (int)run->batch));
	}
	for (int i = 0; i < epochs; i++) {
		bool move = draw(run, 3) == 0;

		draw_epoch(run);
		own_stores(run, move);
		for (int k = 0; k < run->n_ops; k++) {
			bool own = run->ops[k].origin == rank;

			if (own)
				ready_op(&run->ops[k]);
			apply(run, &run->ops[k], own);
		}
		perform_epoch(run);
		check_memory(run);
		for (int k = 0; k < run->n_ops; k++) {
			struct op *op = &run->ops[k];
			bool own = op->origin == rank;

			if (own)
				check_op(run, op);
			layout_free(&op->at_target, own);
			layout_free(&op->at_origin, own);
			layout_free(&op->at_result, own);
			free(op->buffer);
			free(op->result);
			free(op->want);
		}
		meet(comm);
	}
	for (int r = 0; r < n; r++)
		free(run->shadow[r]);
	free(run->shadow);
	window_free(&run->w);
}

static void *batches(void *arg)
{
	struct run *run = arg;
	int rank, size;

	MPI_Comm_rank(run->comm, &rank);
	MPI_Comm_size(run->comm, &size);
	run->ops = checked(calloc(OPS, sizeof(*run->ops)));
	for (run->batch = 0; run->batch < run->batches; run->batch++) {
		MPI_Comm comm = run->comm;
		unsigned how, in;

		run->state = mix(mix(run->seed ^ (uint64_t)run->batch << 32) + (uint64_t)run->number);
		how = draw(run, 4);
		in = draw(run, 1u << size) | 1u << draw(run, (unsigned)size);
		if (how == 0)
			MPI_Comm_split(run->comm, in >> rank & 1 ? 0 : MPI_UNDEFINED, rank, &comm);
		else if (how == 1)
			MPI_Comm_split(run->comm, 0, -rank, &comm);
		if (comm != MPI_COMM_NULL)
			one_window(run, comm);
		if (comm != MPI_COMM_NULL && comm != run->comm)
			MPI_Comm_free(&comm);
	}
	free(run->ops);
	return NULL;
}

int main(int argc, char **argv)
{
	long n = argc > 1 ? atol(argv[1]) : 30;
	uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 0) : 1;
	int threads = argc > 3 ? atoi(argv[3]) : 1, flavour = -1, provided;
	struct run runs[16];

	MPI_Init_thread(&argc, &argv, threads > 1 ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &provided);
	MPI_Comm_rank(WORLD, &me);
	MPI_Comm_size(WORLD, &np);
	MPI_Comm_dup(WORLD, &sync_comm);
	CHECK(threads == 1 || provided == MPI_THREAD_MULTIPLE);
	CHECK(threads >= 1 && threads <= 16 && np <= 16);
	MPI_Bcast(&seed, 1, MPI_UINT64_T, 0, WORLD);	/* each rank's clock may have been asked */
	flavour_possible(SHARED);
	for (int f = 0; argc > 4 && f < FLAVOURS; f++)
		if (!strcmp(argv[4], flavour_names[f]))
			flavour = f;
	memset(runs, 0, sizeof(runs));
	for (int i = 0; i < threads; i++) {
		runs[i] = (struct run){ .number = i, .batches = n, .seed = seed, .flavour = flavour };
		MPI_Comm_dup(WORLD, &runs[i].comm);
	}
	for (int i = 1; i < threads; i++)
		CHECK(!pthread_create(&runs[i].thread, NULL, batches, &runs[i]));
	batches(&runs[0]);
	for (int i = 1; i < threads; i++)
		CHECK(!pthread_join(runs[i].thread, NULL));
	for (int i = 0; i < threads; i++)
		MPI_Comm_free(&runs[i].comm);
	test_done("random");
	return 0;
}
