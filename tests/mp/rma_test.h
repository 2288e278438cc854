/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Common code of the tests of one-sided communication: windows of every flavour and epochs of every kind behind one set of
 * calls, and the table of predefined types with the operations that MPI-5.0, section 6.9.2, defines on each.
 *
 *     window_new ── own_begin, stores, own_end ── meet ── epoch_begin, operations at disp(), epoch_end ──
 *     own_begin, loads, own_end
 */
#ifndef RMA_TEST_H
#define RMA_TEST_H

#include "standard.h"

#include <complex.h>
#include <stdbool.h>
#include <stddef.h>

#define WORLD	MPI_COMM_WORLD

enum flavour { CREATE, ALLOCATE, SHARED, DYNAMIC, FLAVOURS };
static const char *const flavour_names[FLAVOURS] = { "create", "allocate", "shared", "dynamic" };

/* One window as this rank sees it. */
struct window {
	MPI_Win win;
	enum flavour flavour;
	MPI_Comm comm;
	int rank, ranks;	/* in comm */
	unsigned char *mem;	/* this rank's memory in the window */
	MPI_Aint size;		/* bytes of mem */
	MPI_Aint *sizes;	/* bytes of each rank's memory */
	MPI_Aint *bases;	/* address of each rank's memory in a dynamic window; 0 in the other flavours */
	int *units;		/* displacement unit of each rank; 1 in a dynamic window */
};

/* Whether a window of this flavour can span MPI_COMM_WORLD: shared memory needs all ranks on one host.
 * Collective at the first call. */
static inline bool flavour_possible(enum flavour flavour)
{
	static int shared = -1;
	MPI_Comm host;
	int n;

	if (shared < 0) {
		MPI_Comm_split_type(WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host);
		MPI_Comm_size(host, &n);
		n = n == np;
		MPI_Allreduce(&n, &shared, 1, MPI_INT, MPI_MIN, WORLD);
		MPI_Comm_free(&host);
	}
	return flavour != SHARED || shared;
}

/* The displacement in units of `rank` of the byte `offset` of its memory. */
static inline MPI_Aint disp(const struct window *w, int rank, MPI_Aint offset)
{
	return w->flavour == DYNAMIC ? MPI_Aint_add(w->bases[rank], offset) : offset / w->units[rank];
}

static inline void *checked(void *p)
{
	if (!p) {
		fprintf(stderr, "rank %d: no memory\n", me);
		MPI_Abort(WORLD, 2);
	}
	return p;
}

/* Tells all members where this rank's memory is. Collective over w->comm. */
static inline void window_publish(struct window *w, int unit)
{
	MPI_Aint base = 0;

	if (w->flavour == DYNAMIC)
		MPI_Get_address(w->mem, &base);
	MPI_Allgather(&base, 1, MPI_AINT, w->bases, 1, MPI_AINT, w->comm);
	MPI_Allgather(&w->size, 1, MPI_AINT, w->sizes, 1, MPI_AINT, w->comm);
	MPI_Allgather(&unit, 1, MPI_INT, w->units, 1, MPI_INT, w->comm);
}

/* Creates a window; the memory has undefined contents. `unit` counts for the flavours that have one. RMA_GRANULARITY in the
 * environment: mpi_accumulate_granularity of windows created with MPI_INFO_NULL. Collective over comm. */
static inline void window_new(struct window *w, enum flavour flavour, MPI_Aint size, int unit, MPI_Info info, MPI_Comm comm)
{
	const char *granularity = info == MPI_INFO_NULL ? getenv("RMA_GRANULARITY") : NULL;

	if (granularity) {
		MPI_Info_create(&info);
		MPI_Info_set(info, "mpi_accumulate_granularity", granularity);
	}
	memset(w, 0, sizeof(*w));
	w->flavour = flavour;
	w->comm = comm;
	w->size = size;
	MPI_Comm_rank(comm, &w->rank);
	MPI_Comm_size(comm, &w->ranks);
	w->sizes = checked(calloc((size_t)w->ranks, sizeof(*w->sizes)));
	w->bases = checked(calloc((size_t)w->ranks, sizeof(*w->bases)));
	w->units = checked(calloc((size_t)w->ranks, sizeof(*w->units)));
	switch (flavour) {
	case CREATE:
		w->mem = checked(malloc((size_t)size + 1));
		MPI_Win_create(w->mem, size, unit, info, comm, &w->win);
		break;
	case ALLOCATE:
		MPI_Win_allocate(size, unit, info, comm, &w->mem, &w->win);
		break;
	case SHARED:
		MPI_Win_allocate_shared(size, unit, info, comm, &w->mem, &w->win);
		break;
	default:
		unit = 1;
		w->mem = checked(malloc((size_t)size + 1));
		MPI_Win_create_dynamic(info, comm, &w->win);
		MPI_Win_attach(w->win, w->mem, size);
		break;
	}
	if (granularity)
		MPI_Info_free(&info);
	window_publish(w, unit);
}

/* Frees the window and its memory. Collective. */
static inline void window_free(struct window *w)
{
	if (w->flavour == DYNAMIC) {
		meet(w->comm);	/* a peer may still have an epoch open */
		MPI_Win_detach(w->win, w->mem);
	}
	MPI_Win_free(&w->win);
	CHECK(w->win == MPI_WIN_NULL);
	if (w->flavour == CREATE || w->flavour == DYNAMIC)
		free(w->mem);
	free(w->sizes);
	free(w->bases);
	free(w->units);
}

/* Between these two, loads and stores of this rank's own memory are right in either memory model. */
static inline void own_begin(const struct window *w)
{
	MPI_Win_lock(MPI_LOCK_EXCLUSIVE, w->rank, 0, w->win);
}

static inline void own_end(const struct window *w)
{
	MPI_Win_unlock(w->rank, w->win);
}

/* All bytes of this rank's memory follow from the seed. */
static inline void own_fill(const struct window *w, uint64_t seed)
{
	own_begin(w);
	fill(w->mem, (size_t)w->size, seed);
	own_end(w);
	meet(w->comm);
}

/* Runs the case on a window of each flavour with so many bytes per rank, of zeros. */
static inline void on_each_flavour(MPI_Aint size, void (*run)(const struct window *w))
{
	struct window w;

	for (int f = 0; f < FLAVOURS; f++) {
		if (!flavour_possible(f))
			continue;
		window_new(&w, f, size, 1, MPI_INFO_NULL, WORLD);
		own_begin(&w);
		memset(w.mem, 0, (size_t)w.size);
		own_end(&w);
		meet(WORLD);
		run(&w);
		meet(WORLD);
		window_free(&w);
	}
}

enum epoch { FENCE, PSCW, LOCK, LOCK_ALL, EPOCHS };
static const char *const epoch_names[EPOCHS] = { "fence", "post/start", "lock", "lock_all" };

static inline MPI_Group one_rank(const struct window *w, int rank)
{
	MPI_Group all, one;

	if (rank == MPI_PROC_NULL)
		return MPI_GROUP_EMPTY;
	MPI_Win_get_group(w->win, &all);
	MPI_Group_incl(all, 1, &rank, &one);
	MPI_Group_free(&all);
	return one;
}

static inline void one_rank_free(MPI_Group *group)
{
	if (*group != MPI_GROUP_EMPTY)
		MPI_Group_free(group);
}

/* Opens an epoch in which this rank accesses `target` and is accessed by `origin`; either may be MPI_PROC_NULL.
 * Every member calls it. */
static inline void epoch_begin(const struct window *w, enum epoch epoch, int target, int origin)
{
	MPI_Group group;

	switch (epoch) {
	case FENCE:
		MPI_Win_fence(MPI_MODE_NOPRECEDE, w->win);
		break;
	case PSCW:
		group = one_rank(w, origin);
		MPI_Win_post(group, 0, w->win);
		one_rank_free(&group);
		group = one_rank(w, target);
		MPI_Win_start(group, 0, w->win);
		one_rank_free(&group);
		break;
	case LOCK:
		if (target != MPI_PROC_NULL)
			MPI_Win_lock(MPI_LOCK_SHARED, target, 0, w->win);
		break;
	default:
		MPI_Win_lock_all(0, w->win);
		break;
	}
}

/* Closes the epoch; all operations of all members are complete at origin and target. */
static inline void epoch_end(const struct window *w, enum epoch epoch, int target)
{
	switch (epoch) {
	case FENCE:
		MPI_Win_fence(MPI_MODE_NOSUCCEED, w->win);
		break;
	case PSCW:
		MPI_Win_complete(w->win);
		MPI_Win_wait(w->win);
		break;
	case LOCK:
		if (target != MPI_PROC_NULL)
			MPI_Win_unlock(target, w->win);
		break;
	default:
		MPI_Win_unlock_all(w->win);
		break;
	}
	meet(w->comm);
}

/* ---- predefined types and operations ---------------------------------------------------------------------------- */

enum group { INTEGER = 1, FLOATING = 2, LOGICAL = 4, COMPLEX = 8, BYTES = 16, ADDRESS = 32, PAIR = 64 };

struct element {
	MPI_Datatype type;
	const char *name;
	size_t size;
	enum group group;
};

struct operation {
	MPI_Op op;
	const char *name;
	unsigned groups;	/* of elements on which the standard defines it */
};

struct float_int { float v; int i; };
struct double_int { double v; int i; };
struct long_int { long v; int i; };
struct two_int { int v; int i; };
struct short_int { short v; int i; };
struct long_double_int { long double v; int i; };

#define ELEMENT(type, c, group) { type, #type, sizeof(c), group }
#define RMA_ELEMENTS { \
	ELEMENT(MPI_SIGNED_CHAR, signed char, INTEGER), ELEMENT(MPI_UNSIGNED_CHAR, unsigned char, INTEGER), \
	ELEMENT(MPI_SHORT, short, INTEGER), ELEMENT(MPI_UNSIGNED_SHORT, unsigned short, INTEGER), \
	ELEMENT(MPI_INT, int, INTEGER), ELEMENT(MPI_UNSIGNED, unsigned, INTEGER), \
	ELEMENT(MPI_LONG, long, INTEGER), ELEMENT(MPI_UNSIGNED_LONG, unsigned long, INTEGER), \
	ELEMENT(MPI_LONG_LONG, long long, INTEGER), ELEMENT(MPI_UNSIGNED_LONG_LONG, unsigned long long, INTEGER), \
	ELEMENT(MPI_INT8_T, int8_t, INTEGER), ELEMENT(MPI_INT16_T, int16_t, INTEGER), ELEMENT(MPI_INT32_T, int32_t, INTEGER), \
	ELEMENT(MPI_INT64_T, int64_t, INTEGER), ELEMENT(MPI_UINT8_T, uint8_t, INTEGER), \
	ELEMENT(MPI_UINT16_T, uint16_t, INTEGER), ELEMENT(MPI_UINT32_T, uint32_t, INTEGER), \
	ELEMENT(MPI_UINT64_T, uint64_t, INTEGER), ELEMENT(MPI_FLOAT, float, FLOATING), ELEMENT(MPI_DOUBLE, double, FLOATING), \
	ELEMENT(MPI_LONG_DOUBLE, long double, FLOATING), \
	ELEMENT(MPI_C_BOOL, bool, LOGICAL), ELEMENT(MPI_C_FLOAT_COMPLEX, float complex, COMPLEX), \
	ELEMENT(MPI_C_DOUBLE_COMPLEX, double complex, COMPLEX), ELEMENT(MPI_BYTE, char, BYTES), \
	ELEMENT(MPI_AINT, MPI_Aint, ADDRESS), ELEMENT(MPI_OFFSET, MPI_Offset, ADDRESS), ELEMENT(MPI_COUNT, MPI_Count, ADDRESS), \
	ELEMENT(MPI_FLOAT_INT, struct float_int, PAIR), ELEMENT(MPI_DOUBLE_INT, struct double_int, PAIR), \
	ELEMENT(MPI_LONG_INT, struct long_int, PAIR), ELEMENT(MPI_2INT, struct two_int, PAIR), \
	ELEMENT(MPI_SHORT_INT, struct short_int, PAIR), ELEMENT(MPI_LONG_DOUBLE_INT, struct long_double_int, PAIR), \
}
enum { N_ELEMENTS = 34, N_OPERATIONS = 14, ANY = 127 };
#define RMA_OPERATIONS { \
	{ MPI_SUM, "SUM", INTEGER | FLOATING | COMPLEX | ADDRESS }, \
	{ MPI_PROD, "PROD", INTEGER | FLOATING | COMPLEX | ADDRESS }, \
	{ MPI_MAX, "MAX", INTEGER | FLOATING | ADDRESS }, { MPI_MIN, "MIN", INTEGER | FLOATING | ADDRESS }, \
	{ MPI_LAND, "LAND", INTEGER | LOGICAL }, { MPI_LOR, "LOR", INTEGER | LOGICAL }, { MPI_LXOR, "LXOR", INTEGER | LOGICAL }, \
	{ MPI_BAND, "BAND", INTEGER | BYTES | ADDRESS }, { MPI_BOR, "BOR", INTEGER | BYTES | ADDRESS }, \
	{ MPI_BXOR, "BXOR", INTEGER | BYTES | ADDRESS }, { MPI_MAXLOC, "MAXLOC", PAIR }, { MPI_MINLOC, "MINLOC", PAIR }, \
	{ MPI_REPLACE, "REPLACE", ANY }, { MPI_NO_OP, "NO_OP", ANY }, \
}

#define SET(c, value)	do { c v_ = (c)(value); memcpy(p, &v_, sizeof(v_)); } while (0)
#define SET_PAIR(s, value, index) \
	do { struct s v_; memset(&v_, 0, sizeof(v_)); v_.v = (value); v_.i = (int)(index); memcpy(p, &v_, sizeof(v_)); } while (0)

/* Stores one element that follows from x: a small number, so that products and sums are exact in every type. */
static inline void set_element(const struct element *e, void *p, uint64_t x)
{
	int v = (int)(mix(x) % 5);

	memset(p, 0, e->size);
	switch (e->group) {
	case FLOATING:
		if (e->size == sizeof(float))
			SET(float, v);
		else if (e->size == sizeof(double))
			SET(double, v);
		else
			SET(long double, v);
		break;
	case LOGICAL:
		SET(bool, v & 1);
		break;
	case COMPLEX:
		if (e->size == sizeof(float complex))
			SET(float complex, v + 2.0f * I);
		else
			SET(double complex, v + 2.0 * I);
		break;
	case PAIR:
		if (e->type == MPI_FLOAT_INT)
			SET_PAIR(float_int, (float)v, x % 1000);
		else if (e->type == MPI_DOUBLE_INT)
			SET_PAIR(double_int, v, x % 1000);
		else if (e->type == MPI_LONG_INT)
			SET_PAIR(long_int, v, x % 1000);
		else if (e->type == MPI_2INT)
			SET_PAIR(two_int, v, x % 1000);
		else if (e->type == MPI_SHORT_INT)
			SET_PAIR(short_int, (short)v, x % 1000);
		else
			SET_PAIR(long_double_int, v, x % 1000);
		break;
	default:	/* integers of any size, little-endian or not */
		if (e->size == 1)
			SET(uint8_t, v);
		else if (e->size == 2)
			SET(uint16_t, v);
		else if (e->size == 4)
			SET(uint32_t, v);
		else
			SET(uint64_t, v);
		break;
	}
}

static inline bool pairs_equal(const struct element *e, const void *a, const void *b)
{
#define SAME(s)						\
	do {						\
		struct s a_, b_;			\
		memcpy(&a_, a, sizeof(a_));		\
		memcpy(&b_, b, sizeof(b_));		\
		return a_.v == b_.v && a_.i == b_.i;	\
	} while (0)
	if (e->type == MPI_FLOAT_INT)
		SAME(float_int);
	if (e->type == MPI_DOUBLE_INT)
		SAME(double_int);
	if (e->type == MPI_LONG_INT)
		SAME(long_int);
	if (e->type == MPI_2INT)
		SAME(two_int);
	if (e->type == MPI_SHORT_INT)
		SAME(short_int);
	SAME(long_double_int);
#undef SAME
}

/* Whether two elements have one value; padding does not count. */
static inline bool same_element(const struct element *e, const void *a, const void *b)
{
	if (e->group == PAIR)
		return pairs_equal(e, a, b);
	if (e->group == FLOATING && e->size == sizeof(long double)) {
		long double x, y;

		memcpy(&x, a, sizeof(x));
		memcpy(&y, b, sizeof(y));
		return x == y;
	}
	return !memcmp(a, b, e->size);
}

/* Applies the operation to the reference: target = origin op target. */
static inline void reference(const struct element *e, MPI_Op op, const void *origin, void *target, int n)
{
	if (op == MPI_REPLACE)
		memcpy(target, origin, e->size * (size_t)n);
	else if (op != MPI_NO_OP)
		MPI_Reduce_local(origin, target, n, e->type, op);
}

#endif
