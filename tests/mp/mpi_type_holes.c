/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Only the bytes of the type map are read and written (MPI-5.0 sections 3.2.4 and 5.1): every operation that takes a
 * buffer, on types with holes, with a true extent below their extent, with lower bounds that are not 0. Buffers lie so
 * that the first or the last byte of the type map is the first or the last byte of mapped memory, or at an odd address;
 * everything else holds a canary.
 *
 *     mpi_type_holes reduce | move | ptp [COUNT...]
 *
 * COUNT: numbers of elements; default 1 2 5 and 1500. HOLES_TYPES: so many of the types.
 */
#include <complex.h>
#include <limits.h>
#include <math.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/mman.h>
#include <unistd.h>

#include "mpi_test.h"

/* ---- types: numbers at offsets ------------------------------------------------------------------------------------ */

#define SLOTS 4

struct slot {
	char kind;		/* see SIZES */
	int at;
};

enum op { NONE, MINLOC, MAXLOC, SUM, MAX, LOR, BOR, OF_PROGRAM };

struct type {
	const char *name;
	MPI_Datatype handle;	/* MPI_DATATYPE_NULL: made of the slots and bounds */
	struct slot slot[SLOTS];
	int lb, extent;
	enum op op[3];		/* user-defined operations exist on all types */
};

#define KIND(k, T) case k: { T t_; memcpy(&t_, p, sizeof(t_)); return (double)t_; }
static double get(const char *p, char kind)
{
	switch (kind) {
	KIND('b', int8_t) KIND('h', int16_t) KIND('i', int32_t) KIND('l', int64_t) KIND('f', float) KIND('d', double)
	KIND('D', long double) KIND('F', float complex) KIND('Z', double complex) KIND('C', long double complex)
	}
	abort();
}
#undef KIND

#define KIND(k, T) case k: { T t_ = (T)v; memcpy(p, &t_, sizeof(t_)); return; }
static void put(char *p, char kind, double v)
{
	switch (kind) {
	KIND('b', int8_t) KIND('h', int16_t) KIND('i', int32_t) KIND('l', int64_t) KIND('f', float) KIND('d', double)
	KIND('D', long double) KIND('F', float complex) KIND('Z', double complex) KIND('C', long double complex)
	}
	abort();
}
#undef KIND

#define KIND(k, T, handle) case k: *basic = handle; return (int)sizeof(T);
static int slot_bytes(char kind, MPI_Datatype *basic)
{
	switch (kind) {
	KIND('b', int8_t, MPI_INT8_T) KIND('h', int16_t, MPI_INT16_T) KIND('i', int32_t, MPI_INT32_T)
	KIND('l', int64_t, MPI_INT64_T)
	KIND('f', float, MPI_FLOAT) KIND('d', double, MPI_DOUBLE) KIND('D', long double, MPI_LONG_DOUBLE)
	KIND('F', float complex, MPI_C_FLOAT_COMPLEX) KIND('Z', double complex, MPI_C_DOUBLE_COMPLEX)
	KIND('C', long double complex, MPI_C_LONG_DOUBLE_COMPLEX)
	}
	abort();
}
#undef KIND

#define PAIR(handle, V, k, I, ki) { #handle, handle, { { k, 0 }, { ki, offsetof(struct { V v; I i; }, i) } }, 0, \
				    sizeof(struct { V v; I i; }), { MINLOC, MAXLOC } }
#define BASIC(handle, T, k, ...) { #handle, handle, { { k, 0 } }, 0, sizeof(T), { __VA_ARGS__ } }
#define MADE(name, lb, extent, ...) { name, MPI_DATATYPE_NULL, { __VA_ARGS__ }, lb, extent, { NONE } }
static struct type types[] = {
	PAIR(MPI_DOUBLE_INT, double, 'd', int, 'i'), PAIR(MPI_LONG_INT, long, 'l', int, 'i'),
	PAIR(MPI_SHORT_INT, short, 'h', int, 'i'), PAIR(MPI_LONG_DOUBLE_INT, long double, 'D', int, 'i'),
	PAIR(MPI_FLOAT_INT, float, 'f', int, 'i'), PAIR(MPI_2INT, int, 'i', int, 'i'),
	BASIC(MPI_SIGNED_CHAR, int8_t, 'b', SUM, MAX), BASIC(MPI_SHORT, short, 'h', SUM, MAX), BASIC(MPI_INT, int, 'i', SUM, BOR),
	BASIC(MPI_INT64_T, int64_t, 'l', SUM, MAX), BASIC(MPI_C_BOOL, bool, 'b', LOR), BASIC(MPI_BYTE, char, 'b', BOR),
	BASIC(MPI_FLOAT, float, 'f', SUM, MAX), BASIC(MPI_DOUBLE, double, 'd', SUM, MAX),
	BASIC(MPI_LONG_DOUBLE, long double, 'D', SUM, MAX), BASIC(MPI_C_FLOAT_COMPLEX, float complex, 'F', SUM),
	BASIC(MPI_C_DOUBLE_COMPLEX, double complex, 'Z', SUM), BASIC(MPI_C_LONG_DOUBLE_COMPLEX, long double complex, 'C', SUM),
	MADE("a hole", 0, 16, { 'b', 0 }, { 'd', 8 }), MADE("a hole behind", 0, 24, { 'd', 0 }, { 'h', 8 }),
	MADE("holes before and behind", 0, 32, { 'i', 12 }), MADE("three with holes", 0, 40, { 'h', 2 }, { 'd', 8 }, { 'b', 21 }),
	MADE("beginning below 0", -8, 24, { 'i', -8 }, { 'h', 4 }), MADE("all below 0", -64, 16, { 'd', -64 }, { 'b', -53 }),
	MADE("far behind its lower bound", 0, 12, { 'i', 100 }, { 'b', 104 }),
	MADE("elements that lie between each other", 0, 4, { 'h', 0 }, { 'h', 8002 }),
	MADE("backwards", 0, -16, { 'd', 0 }, { 'i', 8 }), MADE("in another order", 0, 24, { 'd', 8 }, { 'i', 0 }, { 'b', 19 }),
	MADE("one run that is shifted", 0, 8, { 'l', 3 }),
};
#define NTYPES (sizeof(types) / sizeof(types[0]))
static size_t ntypes = NTYPES;

static int slots_of(const struct type *t)
{
	int n = 0;

	while (n < SLOTS && t->slot[n].kind)
		n++;
	return n;
}

static void make(struct type *t)
{
	MPI_Datatype basic[SLOTS], made;
	MPI_Aint at[SLOTS];
	int n = slots_of(t), one[SLOTS] = { 1, 1, 1, 1 };

	if (t->handle != MPI_DATATYPE_NULL)
		return;
	for (int i = 0; i < n; i++) {
		at[i] = t->slot[i].at;
		slot_bytes(t->slot[i].kind, &basic[i]);
	}
	MPI_Type_create_struct(n, one, at, basic, &made);
	MPI_Type_create_resized(made, t->lb, t->extent, &t->handle);
	MPI_Type_free(&made);
	MPI_Type_commit(&t->handle);
}

/* ---- buffers ------------------------------------------------------------------------------------------------------- */

enum place { AT_START, AT_END, ODD, PLACES };

/* One side's memory: pages between two that are not mapped. Small buffers lie in one page, so that little has to
 * be filled and looked at. */
struct region {
	char *p;
	size_t bytes;
	char canary;		/* of the buffer; each buffer of each rank has another one, so that a copy from
				 * hole to hole shows */
};

struct buffer {
	const struct type *t;
	int n;			/* elements */
	struct region *in;
	char *p;		/* the buffer's address */
};

static size_t page;
#define REGION_SIZES 3
static struct region regions[2][REGION_SIZES];

static struct region map(size_t pages)
{
	char *p = mmap(NULL, (pages + 2) * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(p != MAP_FAILED);
	CHECK(!mprotect(p + page, pages * page, PROT_READ | PROT_WRITE));
	return (struct region){ .p = p + page, .bytes = pages * page };
}

/* *lo: the first byte of n elements, relative to the buffer's address; *hi: the one behind the last. */
static void bounds(const struct type *t, int n, long *lo, long *hi)
{
	*lo = LONG_MAX;
	*hi = LONG_MIN;
	for (int i = 0; i < n; i += n > 1 ? n - 1 : 1)
		for (int s = 0; s < slots_of(t); s++) {
			MPI_Datatype basic;
			long at = (long)i * t->extent + t->slot[s].at, end = at + slot_bytes(t->slot[s].kind, &basic);

			*lo = at < *lo ? at : *lo;
			*hi = end > *hi ? end : *hi;
		}
}

/* Returns a buffer in the which-th memory, filled with its canary. */
static struct buffer buffer(const struct type *t, int n, enum place place, int which)
{
	struct buffer b = { .t = t, .n = n };
	long lo, hi;
	int large = 0;

	bounds(t, n, &lo, &hi);
	while (regions[which][large].bytes < (size_t)(hi - lo) + 1)
		CHECK(++large < REGION_SIZES);
	b.in = &regions[which][large];
	memset(b.in->p, b.in->canary, b.in->bytes);
	b.p = (place == AT_END ? b.in->p + b.in->bytes - hi : b.in->p - lo) + (place == ODD);
	return b;
}

static char *slot_at(const struct buffer *b, int i, int s)
{
	return b->p + (long)i * b->t->extent + b->t->slot[s].at;
}

/* Returns slot s of rank r's element i. */
static double value(const struct type *t, int r, int i, int s)
{
	if (t->op[0] == MINLOC)
		return s ? r : (r * 5 + i * 3) % 7;
	return t->op[0] == LOR ? !((r + i) % 3) : (r + i * 3 + s * 2) % 5 + 1;
}

static void fill_with(struct buffer *b, int first, int n, int r, int from)
{
	for (int i = 0; i < n; i++)
		for (int s = 0; s < slots_of(b->t); s++)
			put(slot_at(b, first + i, s), b->t->slot[s].kind, value(b->t, r, from + i, s));
}

/* The expected value of a slot: a number, or one of these. */
#define UNTOUCHED NAN
#define ANYTHING INFINITY
static double want[1 << 17];

static double *wanted(const struct type *t, int i)
{
	CHECK((size_t)(i + 1) * (size_t)slots_of(t) <= sizeof(want) / sizeof(want[0]));
	return want + (size_t)i * (size_t)slots_of(t);
}

static void want_values(const struct type *t, int first, int n, int r, int from)
{
	for (int i = 0; i < n; i++)
		for (int s = 0; s < slots_of(t); s++)
			wanted(t, first + i)[s] = value(t, r, from + i, s);
}

static void want_all(const struct type *t, int first, int n, double v)
{
	for (int i = 0; i < n; i++)
		for (int s = 0; s < slots_of(t); s++)
			wanted(t, first + i)[s] = v;
}

static char now[256];		/* the case under test, for error texts */

static void check(const struct buffer *b, const char *which)
{
	MPI_Datatype basic;

	for (int i = 0; i < b->n; i++)
		for (int s = 0; s < slots_of(b->t); s++) {
			char kind = b->t->slot[s].kind, *at = slot_at(b, i, s);
			double w = wanted(b->t, i)[s];

			if (isnan(w))
				continue;
			if (!isinf(w) && get(at, kind) != w)
				test_fail(__FILE__, __LINE__, "%s: %s: element %d of %d, member %d: %g instead of %g", now,
					  which, i, b->n, s, get(at, kind), w);
			memset(at, b->in->canary, (size_t)slot_bytes(kind, &basic));
		}
	if (b->in->p[0] == b->in->canary && !memcmp(b->in->p, b->in->p + 1, b->in->bytes - 1))
		return;
	for (size_t at = 0; at < b->in->bytes; at++)
		if (b->in->p[at] != b->in->canary)
			test_fail(__FILE__, __LINE__,
				  "%s: %s: byte %ld from the buffer's address is not the type map's, and was written to", now,
				  which, (long)(b->in->p + at - b->p));
}

static void died(int sig)
{
	char text[320];
	int n = snprintf(text, sizeof(text), "mpi_type_holes: signal %d in: %s\n", sig, now);

	if (write(2, text, (size_t)n) < 0)
		_exit(3);
	_exit(2);
}

/* ---- operations ------------------------------------------------------------------------------------------------------ */

static const struct type *of_program;	/* the type of the user-defined operation's call */
static bool aligned;			/* the buffers are laid out as by a compiler, so the operands of the
					 * operation must be, too */
static MPI_Op program_op[2];		/* not commutative, commutative */

static int alignment(char kind)
{
	MPI_Datatype basic;

	return kind == 'F' ? 4 : kind == 'Z' ? 8 : kind == 'C' ? (int)_Alignof(long double) : slot_bytes(kind, &basic);
}

/* Returns whether a compiler could have laid the type out so, with its first element at the beginning of a page. */
static bool is_natural(const struct type *t)
{
	bool natural = t->lb == 0 && t->slot[0].at == 0;

	for (int s = 0; s < slots_of(t); s++)
		natural &= !(t->slot[s].at % alignment(t->slot[s].kind)) && !(t->extent % alignment(t->slot[s].kind));
	return natural;
}

static void add(void *in, void *inout, int *len, MPI_Datatype *datatype)
{
	struct buffer a = { of_program, *len, NULL, in }, b = { of_program, *len, NULL, inout };

	CHECK(*datatype == of_program->handle);
	for (int i = 0; i < *len; i++)
		for (int s = 0; s < slots_of(of_program); s++) {
			char kind = of_program->slot[s].kind;

			if (aligned && ((uintptr_t)slot_at(&a, i, s) | (uintptr_t)slot_at(&b, i, s)) % (uintptr_t)alignment(kind))
				test_fail(__FILE__, __LINE__, "%s: the operation gets operands at %p and %p, member %d", now,
					  in, inout, s);
			put(slot_at(&b, i, s), kind, get(slot_at(&a, i, s), kind) + get(slot_at(&b, i, s), kind));
		}
}

static MPI_Op op_of(enum op op, int n)
{
	static const MPI_Op ops[] = {[MINLOC] = MPI_MINLOC, [MAXLOC] = MPI_MAXLOC, [SUM] = MPI_SUM,
				     [MAX] = MPI_MAX,       [LOR] = MPI_LOR,       [BOR] = MPI_BOR};

	return op == OF_PROGRAM ? program_op[n & 1] : ops[op];
}

static void combine(const struct type *t, enum op op, double *acc, int r, int i)
{
	double v = value(t, r, i, 0);

	if (op == MINLOC || op == MAXLOC) {
		if (op == MINLOC ? v < acc[0] : v > acc[0]) {
			acc[0] = v;
			acc[1] = r;
		}
		return;
	}
	for (int s = 0; s < slots_of(t); s++) {
		v = value(t, r, i, s);
		acc[s] = op == MAX ? (v > acc[s] ? v : acc[s]) : op == LOR ? (v || acc[s]) :
			 op == BOR ? (double)((int)v | (int)acc[s]) : acc[s] + v;
	}
}

/* Expects the reduction of elements from..from + n - 1 of ranks lo..hi - 1. */
static void want_reduced(const struct type *t, enum op op, int n, int lo, int hi, int from)
{
	for (int i = 0; i < n; i++) {
		double *w = wanted(t, i);

		for (int s = 0; s < slots_of(t); s++)
			w[s] = value(t, lo, from + i, s);
		for (int r = lo + 1; r < hi; r++)
			combine(t, op, w, r, from + i);
	}
}

/* ---- forms ------------------------------------------------------------------------------------------------------------- */

enum form { BLOCKING, STARTED, PERSISTENT, LARGE, FORMS };
static const char *const form_names[] = { "", "I", "persistent ", "large " };
static MPI_Request request = MPI_REQUEST_NULL;

/* The call in one of its forms; a persistent one is made at first only. COLLV has no large form: its
 * arrays are of another type. */
#define COLL(form, again, Name, name, ...) \
	do { \
		if (form == LARGE) \
			MPI_##Name##_c(__VA_ARGS__); \
		else \
			COLLV(form, again, Name, name, __VA_ARGS__); \
	} while (0)
#define COLLV(form, again, Name, name, ...) \
	do { \
		if (form == BLOCKING || form == LARGE) { \
			MPI_##Name(__VA_ARGS__); \
		} else { \
			if (form == STARTED) \
				MPI_I##name(__VA_ARGS__, &request); \
			else if (!again) \
				MPI_##Name##_init(__VA_ARGS__, MPI_INFO_NULL, &request); \
			if (form == PERSISTENT) \
				MPI_Start(&request); \
			MPI_Wait(&request, MPI_STATUS_IGNORE); \
			if (form == PERSISTENT && again) \
				MPI_Request_free(&request); \
		} \
	} while (0)

enum reduction { ALLREDUCE, REDUCE, SCAN, EXSCAN, REDUCE_SCATTER_BLOCK, REDUCE_SCATTER, REDUCTIONS };
static const char *const reduction_names[] = {"Allreduce",     "Reduce", "Scan", "Exscan", "Reduce_scatter_block",
					      "Reduce_scatter"};

struct reducing {
	const struct type *t;
	enum reduction what;
	enum form form;
	enum place place;
	enum op op;
	int n, root;
	bool in_place;
};

static void want_result(const struct reducing *a, const struct buffer *recv)
{
	if (a->what == SCAN)
		want_reduced(a->t, a->op, a->n, 0, me + 1, 0);
	else if (a->what == EXSCAN && me)
		want_reduced(a->t, a->op, a->n, 0, me, 0);
	else if (a->what == EXSCAN && a->in_place)
		want_values(a->t, 0, a->n, 0, 0);
	else if (a->what == EXSCAN)
		want_all(a->t, 0, a->n, UNTOUCHED);
	else
		want_reduced(a->t, a->op, a->n, 0, np, a->what >= REDUCE_SCATTER_BLOCK ? me * a->n : 0);
	if (recv->n > a->n)
		want_all(a->t, a->n, recv->n - a->n, ANYTHING);
}

static void reduce_once(const struct reducing *a, bool again)
{
	const struct type *t = a->t;
	int inputs = a->what >= REDUCE_SCATTER_BLOCK ? a->n * np : a->n, parts[64];
	bool gets = a->what != REDUCE || me == a->root, in_place = a->in_place && gets;
	struct buffer send = buffer(t, inputs, a->place, 0), recv = buffer(t, in_place ? inputs : a->n, a->place, 1);
	void *from = in_place ? MPI_IN_PLACE : send.p, *to = gets ? recv.p : NULL;
	MPI_Op op = op_of(a->op, a->n);
	MPI_Count large_parts[64];

	for (int r = 0; r < np; r++)
		parts[r] = (int)(large_parts[r] = a->n);
	fill_with(in_place ? &recv : &send, 0, inputs, me, 0);
	switch (a->what) {
	case ALLREDUCE: COLL(a->form, again, Allreduce, allreduce, from, to, a->n, t->handle, op, MPI_COMM_WORLD); break;
	case REDUCE: COLL(a->form, again, Reduce, reduce, from, to, a->n, t->handle, op, a->root, MPI_COMM_WORLD); break;
	case SCAN: COLL(a->form, again, Scan, scan, from, to, a->n, t->handle, op, MPI_COMM_WORLD); break;
	case EXSCAN: COLL(a->form, again, Exscan, exscan, from, to, a->n, t->handle, op, MPI_COMM_WORLD); break;
	case REDUCE_SCATTER_BLOCK:
		COLL(a->form, again, Reduce_scatter_block, reduce_scatter_block, from, to, a->n, t->handle, op, MPI_COMM_WORLD);
		break;
	default:
		if (a->form == LARGE)
			MPI_Reduce_scatter_c(from, to, large_parts, t->handle, op, MPI_COMM_WORLD);
		else
			COLLV(a->form, again, Reduce_scatter, reduce_scatter, from, to, parts, t->handle, op, MPI_COMM_WORLD);
	}
	if (!in_place) {
		want_values(t, 0, inputs, me, 0);
		check(&send, "sendbuf");
	}
	if (gets)
		want_result(a, &recv);
	else
		want_all(t, 0, recv.n, UNTOUCHED);
	check(&recv, "recvbuf");
}

static void reduce_local(const struct reducing *a)
{
	struct buffer in = buffer(a->t, a->n, a->place, 0), inout = buffer(a->t, a->n, a->place, 1);

	fill_with(&in, 0, a->n, 0, 0);
	fill_with(&inout, 0, a->n, 1, 0);
	MPI_Reduce_local(in.p, inout.p, a->n, a->t->handle, op_of(a->op, 0));
	want_values(a->t, 0, a->n, 0, 0);
	check(&in, "inbuf");
	want_reduced(a->t, a->op, a->n, 0, 2, 0);
	check(&inout, "inoutbuf");
}

/* Even and odd ranks' groups: each has the reduction of the other's. Of Reduce, the root is the first rank. */
static void reduce_between(const struct reducing *a, MPI_Comm inter, bool again)
{
	const struct type *t = a->t;
	int own, theirs, rank, inputs, n = a->n, side = me & 1, parts[64];
	MPI_Op op = op_of(a->op, a->n);
	struct buffer send, recv;
	bool gets = a->what != REDUCE || !me;

	MPI_Comm_size(inter, &own);
	MPI_Comm_remote_size(inter, &theirs);
	MPI_Comm_rank(inter, &rank);
	inputs = a->what >= REDUCE_SCATTER_BLOCK ? n * own * theirs : n;
	if (a->what >= REDUCE_SCATTER_BLOCK)
		n *= theirs;
	for (int r = 0; r < own; r++)
		parts[r] = n;
	send = buffer(t, inputs, a->place, 0);
	recv = buffer(t, n, a->place, 1);
	fill_with(&send, 0, inputs, me, 0);
	switch (a->what) {
	case ALLREDUCE: COLL(a->form, again, Allreduce, allreduce, send.p, recv.p, n, t->handle, op, inter); break;
	case REDUCE:
		COLL(a->form, again, Reduce, reduce, side ? send.p : NULL, me ? NULL : recv.p, n, t->handle, op, side ? 0 : me
		     ? MPI_PROC_NULL :
		     MPI_ROOT, inter);
		break;
	case REDUCE_SCATTER_BLOCK:
		COLL(a->form, again, Reduce_scatter_block, reduce_scatter_block, send.p, recv.p, n, t->handle, op, inter);
		break;
	default:
		COLLV(a->form, again, Reduce_scatter, reduce_scatter, send.p, recv.p, parts, t->handle, op, inter);
	}
	want_values(t, 0, inputs, me, 0);
	check(&send, "sendbuf");
	want_all(t, 0, n, UNTOUCHED);
	for (int i = 0; gets && i < n; i++) {
		double *w = wanted(t, i);
		int from = (a->what >= REDUCE_SCATTER_BLOCK ? rank * n : 0) + i;

		for (int r = !side; r < np; r += 2)
			if (r == !side)
				want_values(t, i, 1, r, from);
			else
				combine(t, a->op, w, r, from);
	}
	check(&recv, "recvbuf");
}

static void name_case(const struct reducing *a, const char *where)
{
	snprintf(now, sizeof(now), "%s%s%s of %d %s, operation %d, %s, root %d%s", form_names[a->form], reduction_names[a->what],
		 where, a->n, a->t->name, (int)a->op, a->place == AT_START ? "at the start of a page" : a->place == AT_END
			 ? "at the end of a page" :
		 "at an odd address", a->root, a->in_place ? ", in place" : "");
}

static void reduce_case(struct reducing *a, MPI_Comm inter)
{
	for (a->form = 0; a->form < FORMS; a->form++)
		for (a->what = 0; a->what < REDUCTIONS; a->what++) {
			int times = a->form == PERSISTENT || a->form == BLOCKING ? 2 : 1;	/* again: by a shorter way */

			for (int in_place = 0; in_place < 2; in_place++) {
				a->in_place = in_place;
				a->root = a->what == REDUCE ? (a->n + in_place) % np : 0;
				name_case(a, "");
				for (int k = 0; k < times; k++)
					reduce_once(a, k);
			}
			if (inter == MPI_COMM_NULL || a->what == SCAN || a->what == EXSCAN || a->form == LARGE)
				continue;
			a->in_place = false;
			name_case(a, " (intercommunicator)");
			for (int k = 0; k < times; k++)
				reduce_between(a, inter, k);
		}
	snprintf(now, sizeof(now), "Reduce_local of %d %s, operation %d, place %d", a->n, a->t->name, (int)a->op, (int)a->place);
	reduce_local(a);
}

static void reductions(const int *counts, int ncounts)
{
	MPI_Comm half, inter = MPI_COMM_NULL;

	MPI_Comm_split(MPI_COMM_WORLD, me & 1, me, &half);
	if (np > 1)
		MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, !(me & 1), 1, &inter);
	MPI_Op_create(add, 0, &program_op[0]);
	MPI_Op_create(add, 1, &program_op[1]);
	for (size_t i = 0; i < ntypes; i++)
		for (int c = 0; c < ncounts; c++)
			for (int o = 0; o < 4; o++) {
				struct reducing a = {.t = of_program = &types[i],
						     .n = counts[c],
						     .op = o == 3 ? OF_PROGRAM : types[i].op[o]};

				if (!a.op || (a.op == OF_PROGRAM && (types[i].op[0] == LOR || types[i].op[0] == BOR)))
					continue;
				for (a.place = 0; a.place < PLACES; a.place++) {
					aligned = a.place == AT_START && is_natural(a.t);
					reduce_case(&a, inter);
				}
			}
	MPI_Op_free(&program_op[0]);
	MPI_Op_free(&program_op[1]);
	if (inter != MPI_COMM_NULL)
		MPI_Comm_free(&inter);
	MPI_Comm_free(&half);
}

/* ---- collectives that move ------------------------------------------------------------------------------------------------ */

enum moving { BCAST, SCATTER, SCATTERV, GATHER, GATHERV, ALLGATHER, ALLGATHERV, ALLTOALL, ALLTOALLV, ALLTOALLW,
	      NEIGHBOR_ALLGATHER, NEIGHBOR_ALLTOALL, NEIGHBOR_ALLTOALLV, NEIGHBOR_ALLTOALLW, MOVINGS };
static const char *const moving_names[] = { "Bcast", "Scatter", "Scatterv", "Gather", "Gatherv", "Allgather", "Allgatherv",
					    "Alltoall", "Alltoallv", "Alltoallw", "Neighbor_allgather", "Neighbor_alltoall",
					    "Neighbor_alltoallv", "Neighbor_alltoallw" };
static MPI_Comm ring;

struct move {
	const struct type *t;
	enum moving what;
	enum form form;
	enum place place;
	int n, root;
	bool in_place;
};

/* Blocks of the send and of the receive buffer. */
static int blocks(enum moving w, bool sent)
{
	int many = w >= NEIGHBOR_ALLGATHER ? 2 : np;

	if (w == BCAST)
		return sent ? 0 : 1;
	if (w == SCATTER || w == SCATTERV)
		return sent ? (many) : 1;
	if (w < ALLTOALL || w == NEIGHBOR_ALLGATHER)
		return sent ? 1 : many;
	return many;
}

static void call_move(const struct move *m, const void *from, void *to, bool again)
{
	int n = m->n, counts[64], displs[64], bytes[64], root = m->root;
	MPI_Comm c = m->what >= NEIGHBOR_ALLGATHER ? ring : MPI_COMM_WORLD;
	MPI_Datatype h = m->t->handle, each[64];
	MPI_Aint far[64];

	for (int r = 0; r < 64; r++) {
		counts[r] = n;
		displs[r] = r * n;
		far[r] = bytes[r] = r * n * m->t->extent;
		each[r] = h;
	}
	switch (m->what) {
	case BCAST: COLL(m->form, again, Bcast, bcast, to, n, h, root, c); break;
	case SCATTER: COLL(m->form, again, Scatter, scatter, from, n, h, to, n, h, root, c); break;
	case SCATTERV: COLLV(m->form, again, Scatterv, scatterv, from, counts, displs, h, to, n, h, root, c); break;
	case GATHER: COLL(m->form, again, Gather, gather, from, n, h, to, n, h, root, c); break;
	case GATHERV: COLLV(m->form, again, Gatherv, gatherv, from, n, h, to, counts, displs, h, root, c); break;
	case ALLGATHER: COLL(m->form, again, Allgather, allgather, from, n, h, to, n, h, c); break;
	case ALLGATHERV: COLLV(m->form, again, Allgatherv, allgatherv, from, n, h, to, counts, displs, h, c); break;
	case ALLTOALL: COLL(m->form, again, Alltoall, alltoall, from, n, h, to, n, h, c); break;
	case ALLTOALLV: COLLV(m->form, again, Alltoallv, alltoallv, from, counts, displs, h, to, counts, displs, h, c); break;
	case ALLTOALLW: COLLV(m->form, again, Alltoallw, alltoallw, from, counts, bytes, each, to, counts, bytes, each, c); break;
	case NEIGHBOR_ALLGATHER: COLL(m->form, again, Neighbor_allgather, neighbor_allgather, from, n, h, to, n, h, c); break;
	case NEIGHBOR_ALLTOALL: COLL(m->form, again, Neighbor_alltoall, neighbor_alltoall, from, n, h, to, n, h, c); break;
	case NEIGHBOR_ALLTOALLV:
		COLLV(m->form, again, Neighbor_alltoallv, neighbor_alltoallv, from, counts, displs, h, to, counts, displs, h, c);
		break;
	default:
		COLLV(m->form, again, Neighbor_alltoallw, neighbor_alltoallw, from, counts, far, each, to, counts, far, each, c);
	}
}

/* Returns the rank that sent block b of the result; *from: the block's place in that rank's send buffer. */
static int giver(enum moving w, int b, int root, int *from)
{
	*from = 0;
	switch (w) {
	case BCAST: return root;
	case SCATTER: case SCATTERV: *from = me; return root;
	case GATHER: case GATHERV: case ALLGATHER: case ALLGATHERV: return b;
	case ALLTOALL: case ALLTOALLV: case ALLTOALLW: *from = me; return b;
	default:
		/* the one below, whose block upwards comes here, and the one above */
		*from = w == NEIGHBOR_ALLGATHER ? 0 : !b;
		return (b ? me + 1 : me + np - 1) % np;
	}
}

static void move_once(const struct move *m, bool again)
{
	enum moving w = m->what;
	bool rooted = w <= GATHERV, is_root = me == m->root, scatters = w == SCATTER || w == SCATTERV;
	bool in_place = m->in_place && (!rooted || is_root);
	int n = m->n, ins = n * blocks(w, true), outs = n * blocks(w, false);
	struct buffer send = buffer(m->t, ins ? ins : 1, m->place, 0), recv = buffer(m->t, outs, m->place, 1);
	const void *from = scatters && !is_root ? NULL : send.p;
	void *to = (w == GATHER || w == GATHERV) && !is_root ? NULL : recv.p;
	bool gives = ins && from && !(in_place && !scatters), all_in = w >= ALLTOALL;

	if (gives)
		fill_with(&send, 0, ins, me, 0);
	if (w == BCAST && is_root)
		fill_with(&recv, 0, n, me, 0);
	else if (in_place && !scatters)
		fill_with(&recv, all_in ? 0 : me * n, all_in ? outs : n, me, 0);
	if (in_place)
		call_move(m, scatters ? from : MPI_IN_PLACE, scatters ? MPI_IN_PLACE : to, again);
	else
		call_move(m, from, to, again);
	want_all(m->t, 0, send.n, UNTOUCHED);
	if (gives)
		want_values(m->t, 0, ins, me, 0);
	check(&send, "sendbuf");
	want_all(m->t, 0, outs, UNTOUCHED);
	for (int b = 0; to && !(in_place && scatters) && b < outs / n; b++) {
		int block, r = giver(w, b, m->root, &block);

		want_values(m->t, b * n, n, r, block * n);
	}
	check(&recv, "recvbuf");
}

static void movings(const int *counts, int ncounts)
{
	int one = 1;

	MPI_Cart_create(MPI_COMM_WORLD, 1, &np, &one, 0, &ring);
	for (size_t i = 0; i < ntypes; i++)
		for (int k = 0; k < ncounts * PLACES * FORMS * MOVINGS * 2; k++) {
			struct move m = { .t = &types[i], .n = counts[k / (PLACES * FORMS * MOVINGS * 2)], .in_place = k & 1,
					  .what = k / 2 % MOVINGS, .form = k / 2 / MOVINGS % FORMS,
						  .place = k / 2 / MOVINGS / FORMS % PLACES };

			if (m.in_place && (m.what == BCAST || m.what >= NEIGHBOR_ALLGATHER))
				continue;
			m.root = m.what <= GATHERV ? k % np : 0;
			snprintf(now, sizeof(now), "%s%s of %d %s, place %d, root %d%s", form_names[m.form],
				 moving_names[m.what], m.n, m.t->name, (int)m.place, m.root, m.in_place ? ", in place" : "");
			move_once(&m, false);
			if (m.form == PERSISTENT || m.form == BLOCKING)
				move_once(&m, true);
		}
	MPI_Comm_free(&ring);
}

/* ---- messages -------------------------------------------------------------------------------------------------------------- */

enum way { SEND, SSEND, BSEND, ISEND, PERSISTENT_SEND, SENDRECV, ISENDRECV, PROBED, WAYS };

/* To the next rank, or to this one. */
static void send_by(enum way way, const struct type *t, int n, enum place place, int to, int from)
{
	struct buffer send = buffer(t, n, place, 0), recv = buffer(t, n, place, 1);
	MPI_Datatype h = t->handle;
	MPI_Request r[2] = { MPI_REQUEST_NULL, MPI_REQUEST_NULL };
	MPI_Message message;
	MPI_Status status;

	fill_with(&send, 0, n, me, 0);
	if (way < SENDRECV && way != PERSISTENT_SEND)
		MPI_Irecv(recv.p, n, h, from, 1, MPI_COMM_WORLD, &r[0]);
	switch (way) {
	case SEND: MPI_Send(send.p, n, h, to, 1, MPI_COMM_WORLD); break;
	case SSEND: MPI_Ssend(send.p, n, h, to, 1, MPI_COMM_WORLD); break;
	case BSEND: MPI_Bsend(send.p, n, h, to, 1, MPI_COMM_WORLD); break;
	case ISEND: MPI_Isend(send.p, n, h, to, 1, MPI_COMM_WORLD, &r[1]); break;
	case PERSISTENT_SEND:
		MPI_Recv_init(recv.p, n, h, from, 1, MPI_COMM_WORLD, &r[0]);
		MPI_Send_init(send.p, n, h, to, 1, MPI_COMM_WORLD, &r[1]);
		MPI_Startall(2, r);
		break;
	case SENDRECV: MPI_Sendrecv(send.p, n, h, to, 1, recv.p, n, h, from, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE); break;
	case ISENDRECV: MPI_Isendrecv(send.p, n, h, to, 1, recv.p, n, h, from, 1, MPI_COMM_WORLD, &r[0]); break;
	default:
		MPI_Isend(send.p, n, h, to, 1, MPI_COMM_WORLD, &r[1]);
		MPI_Mprobe(from, 1, MPI_COMM_WORLD, &message, &status);
		MPI_Mrecv(recv.p, n, h, &message, &status);
	}
	MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
	if (way == PERSISTENT_SEND) {
		MPI_Request_free(&r[0]);
		MPI_Request_free(&r[1]);
	}
	want_values(t, 0, n, me, 0);
	check(&send, "sent");
	want_values(t, 0, n, from, 0);
	check(&recv, "received");
}

static void replace(const struct type *t, int n, enum place place, int to, int from, bool started)
{
	struct buffer b = buffer(t, n, place, 0);
	MPI_Request r;

	fill_with(&b, 0, n, me, 0);
	if (started) {
		MPI_Isendrecv_replace(b.p, n, t->handle, to, 1, from, 1, MPI_COMM_WORLD, &r);
		MPI_Wait(&r, MPI_STATUS_IGNORE);
	} else {
		MPI_Sendrecv_replace(b.p, n, t->handle, to, 1, from, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	}
	want_values(t, 0, n, from, 0);
	check(&b, "replaced");
}

/* A receive with a larger count than the message has: the bytes behind the message stay unchanged. */
static void send_less(const struct type *t, int n, enum place place, int to, int from)
{
	struct buffer send = buffer(t, n, place, 0), recv = buffer(t, n + 1, place, 1);

	fill_with(&send, 0, n, me, 0);
	MPI_Sendrecv(send.p, n, t->handle, to, 1, recv.p, n + 1, t->handle, from, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	want_values(t, 0, n, from, 0);
	want_all(t, n, 1, UNTOUCHED);
	check(&recv, "received");
}

static void pack(const struct type *t, int n, enum place place, bool external)
{
	struct buffer b = buffer(t, n, place, 0), out;
	MPI_Aint size, at = 0;
	int bytes, position = 0;
	struct region *packed;
	char *p;

	if (external)
		MPI_Pack_external_size("external32", n, t->handle, &size);
	MPI_Type_size(t->handle, &bytes);
	if (!external)
		size = (MPI_Aint)bytes * n;
	packed = &regions[1][size < (MPI_Aint)regions[1][0].bytes ? 0 : size < (MPI_Aint)regions[1][1].bytes ? 1 : 2];
	p = place == AT_END ? packed->p + packed->bytes - size : packed->p + (place == ODD);
	fill_with(&b, 0, n, me, 0);
	if (external)
		MPI_Pack_external("external32", b.p, n, t->handle, p, size, &at);
	else
		MPI_Pack(b.p, n, t->handle, p, (int)size, &position, MPI_COMM_WORLD);
	CHECK_EQ(external ? at : position, size);
	want_values(t, 0, n, me, 0);
	check(&b, "packed");
	out = buffer(t, n, place, 0);
	at = position = 0;
	if (external)
		MPI_Unpack_external("external32", p, size, &at, out.p, n, t->handle);
	else
		MPI_Unpack(p, (int)size, &position, out.p, n, t->handle, MPI_COMM_WORLD);
	want_values(t, 0, n, me, 0);
	check(&out, "unpacked");
}

static void messages(const int *counts, int ncounts)
{
	struct region attached = map(512);
	int size, right = (me + 1) % np, left = (me + np - 1) % np;
	void *p;

	MPI_Buffer_attach(attached.p, (int)attached.bytes);
	for (size_t i = 0; i < ntypes; i++)
		for (int k = 0; k < ncounts * PLACES * 2; k++) {
			const struct type *t = &types[i];
			int n = counts[k / (PLACES * 2)], to = k & 1 ? me : right, from = k & 1 ? me : left;
			enum place place = k / 2 % PLACES;

			for (enum way way = 0; way < WAYS; way++) {
				if (way == SSEND && to == me)
					continue;
				snprintf(now, sizeof(now), "way %d of %d %s, place %d, to %s", (int)way, n, t->name, (int)place,
					 to == me ? "itself" : "another rank");
				send_by(way, t, n, place, to, from);
			}
			snprintf(now, sizeof(now), "replace %d %s, place %d, to %s", n, t->name, (int)place,
				 to == me ? "itself" : "another rank");
			replace(t, n, place, to, from, false);
			replace(t, n, place, to, from, true);
			send_less(t, n, place, to, from);
			snprintf(now, sizeof(now), "pack %d %s, place %d", n, t->name, (int)place);
			pack(t, n, place, false);
			pack(t, n, place, true);
		}
	MPI_Buffer_detach(&p, &size);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(const int *counts, int ncounts);
	} parts[] = { { "reduce", reductions }, { "move", movings }, { "ptp", messages } };
	int counts[16] = { 1, 2, 5, 1500 }, ncounts = 4;
	bool found = false;

	test_init(&argc, &argv);
	if (np > 16)
		test_fail(__FILE__, __LINE__, "at most 16 ranks");
	page = (size_t)sysconf(_SC_PAGESIZE);
	for (int i = 0; i < 2; i++)
		for (int k = 0; k < REGION_SIZES; k++) {
			regions[i][k] = map((size_t[]){ 1, 16, 256 }[k]);
			regions[i][k].canary = (char)(0x80 + 2 * me + i);
		}
	signal(SIGSEGV, died);
	signal(SIGBUS, died);
	for (int i = 2; i < argc && i < 18; i++)
		counts[(ncounts = i - 1) - 1] = atoi(argv[i]);
	if (getenv("HOLES_TYPES") && (size_t)atoi(getenv("HOLES_TYPES")) < NTYPES)
		ntypes = (size_t)atoi(getenv("HOLES_TYPES"));
	for (size_t i = 0; i < NTYPES; i++)
		make(&types[i]);
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		if (argc < 2 || !strcmp(argv[1], parts[i].name)) {
			parts[i].run(counts, ncounts);
			found = true;
		}
	CHECK(found);
	for (size_t i = 0; i < NTYPES; i++)
		if (strncmp(types[i].name, "MPI_", 4))
			MPI_Type_free(&types[i].handle);
	test_done("holes");
}
