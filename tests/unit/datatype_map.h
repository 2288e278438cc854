/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A type map as the standard defines it (MPI-5.0 section 5.1): a list of basic types and displacements, and markers of bounds.
 * The definition of every constructor is implemented here literally, without regard to speed, as a reference.
 */
#ifndef DATATYPE_MAP_H
#define DATATYPE_MAP_H

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "datatype/layout.h"

struct map_entry {
	MPI_Datatype basic;
	long at;
};

struct map {
	long n, room;
	struct map_entry *entry;
	bool bounded;			/* there are markers: the outermost ones are at lb and ub */
	long lb, ub;
};

static inline long basic_size(MPI_Datatype h)
{
	return hdl_types[(uintptr_t)h - HDL_TYPE_FIRST].size;
}

static inline void map_put(struct map *m, MPI_Datatype basic, long at)
{
	if (m->n == m->room) {
		m->room = m->room ? 2 * m->room : 16;
		m->entry = realloc(m->entry, sizeof(*m->entry) * m->room);
	}
	m->entry[m->n++] = (struct map_entry){ basic, at };
}

static inline void map_mark(struct map *m, long lb, long ub)
{
	m->lb = m->bounded && m->lb < lb ? m->lb : lb;
	m->ub = m->bounded && m->ub > ub ? m->ub : ub;
	m->bounded = true;
}

static inline long map_true_lb(const struct map *m)
{
	long lb = m->n ? m->entry[0].at : 0;

	for (long i = 0; i < m->n; i++)
		lb = m->entry[i].at < lb ? m->entry[i].at : lb;
	return lb;
}

static inline long map_true_ub(const struct map *m)
{
	long ub = m->n ? m->entry[0].at : 0;

	for (long i = 0; i < m->n; i++) {
		long end = m->entry[i].at + basic_size(m->entry[i].basic);

		ub = i == 0 || end > ub ? end : ub;
	}
	return ub;
}

static inline long map_lb(const struct map *m)
{
	return m->bounded ? m->lb : map_true_lb(m);
}

static inline long map_extent(const struct map *m)
{
	long extent, align = 1;

	if (m->bounded)
		return m->ub - m->lb;
	for (long i = 0; i < m->n; i++) {
		long a = hdl_types[(uintptr_t)m->entry[i].basic - HDL_TYPE_FIRST].align;

		align = a > align ? a : align;
	}
	extent = map_true_ub(m) - map_true_lb(m);
	return (extent + align - 1) / align * align;
}

static inline long map_size(const struct map *m)
{
	long size = 0;

	for (long i = 0; i < m->n; i++)
		size += basic_size(m->entry[i].basic);
	return size;
}

/* One copy of old, so many bytes on. */
static inline void map_copy(struct map *m, const struct map *old, long at)
{
	for (long i = 0; i < old->n; i++)
		map_put(m, old->entry[i].basic, at + old->entry[i].at);
	if (old->bounded)
		map_mark(m, at + old->lb, at + old->ub);
}

static inline void map_block(struct map *m, const struct map *old, long at, long copies)
{
	long extent = map_extent(old);

	for (long i = 0; i < copies; i++)
		map_copy(m, old, at + i * extent);
}

/* Arrays: element by element in the array's order, and of each whether it belongs to the type. */
static inline bool in_share(long i, long size, long distrib, long darg, long psize, long me)
{
	switch (distrib) {
	case MPI_DISTRIBUTE_NONE:
		return true;
	case MPI_DISTRIBUTE_BLOCK:
		if (darg == MPI_DISTRIBUTE_DFLT_DARG)
			darg = (size + psize - 1) / psize;
		return i / darg == me;
	default:
		if (darg == MPI_DISTRIBUTE_DFLT_DARG)
			darg = 1;
		return i / darg % psize == me;
	}
}

static inline bool in_array(const MPI_Count *a, int combiner, const long *index)
{
	long n = combiner == MPI_COMBINER_SUBARRAY ? a[0] : a[2];

	for (long d = 0; d < n; d++) {
		if (combiner == MPI_COMBINER_SUBARRAY) {
			long sub = a[1 + n + d], start = a[1 + 2 * n + d];

			if (index[d] < start || index[d] >= start + sub)
				return false;
		} else {
			long me = a[1];

			for (long k = n - 1; k > d; k--)
				me /= a[3 + 3 * n + k];
			me %= a[3 + 3 * n + d];
			if (!in_share(index[d], a[3 + d], a[3 + n + d], a[3 + 2 * n + d], a[3 + 3 * n + d], me))
				return false;
		}
	}
	return true;
}

static inline void map_array(struct map *m, const struct map *old, const MPI_Count *a, int combiner)
{
	long n = combiner == MPI_COMBINER_SUBARRAY ? a[0] : a[2], extent = map_extent(old), total = 1;
	const MPI_Count *size = combiner == MPI_COMBINER_SUBARRAY ? a + 1 : a + 3;
	bool c_order = a[combiner == MPI_COMBINER_SUBARRAY ? 1 + 3 * n : 3 + 4 * n] == MPI_ORDER_C;
	long index[8];

	for (long d = 0; d < n; d++)
		total *= size[d];
	for (long i = 0; i < total; i++) {
		long rest = i;

		for (long k = 0; k < n; k++) {
			long d = c_order ? n - 1 - k : k;

			index[d] = rest % size[d];
			rest /= size[d];
		}
		if (in_array(a, combiner, index))
			map_copy(m, old, i * extent);
	}
	m->bounded = true;
	m->lb = 0;
	m->ub = total * extent;
}

/* The map of a type from its constructor's arguments (struct hdl_type says in which order) and its old types' maps. */
static inline struct map map_make(int combiner, const MPI_Count *a, const struct map *const *old)
{
	struct map m = { 0 };
	long extent = combiner == MPI_COMBINER_STRUCT ? 0 : map_extent(old[0]);

	switch (combiner) {
	case MPI_COMBINER_DUP:
		map_copy(&m, old[0], 0);
		break;
	case MPI_COMBINER_CONTIGUOUS:
		map_block(&m, old[0], 0, a[0]);
		break;
	case MPI_COMBINER_VECTOR:
	case MPI_COMBINER_HVECTOR:
		for (long i = 0; i < a[0]; i++)
			map_block(&m, old[0], i * a[2] * (combiner == MPI_COMBINER_VECTOR ? extent : 1), a[1]);
		break;
	case MPI_COMBINER_INDEXED:
	case MPI_COMBINER_HINDEXED:
		for (long i = 0; i < a[0]; i++)
			map_block(&m, old[0], a[1 + a[0] + i] * (combiner == MPI_COMBINER_INDEXED ? extent : 1), a[1 + i]);
		break;
	case MPI_COMBINER_INDEXED_BLOCK:
	case MPI_COMBINER_HINDEXED_BLOCK:
		for (long i = 0; i < a[0]; i++)
			map_block(&m, old[0], a[2 + i] * (combiner == MPI_COMBINER_INDEXED_BLOCK ? extent : 1), a[1]);
		break;
	case MPI_COMBINER_STRUCT:
		for (long i = 0; i < a[0]; i++)
			map_block(&m, old[i], a[1 + a[0] + i], a[1 + i]);
		break;
	case MPI_COMBINER_SUBARRAY:
	case MPI_COMBINER_DARRAY:
		map_array(&m, old[0], a, combiner);
		break;
	case MPI_COMBINER_RESIZED:
		map_copy(&m, old[0], 0);
		m.bounded = true;
		m.lb = a[0];
		m.ub = a[0] + a[1];
		break;
	default:
		cr_assert_fail("no such combiner");
	}
	return m;
}

/* ---- types ---------------------------------------------------------------------------------------------------------- */

static inline struct hdl_type *get(MPI_Datatype h)
{
	struct hdl_type *t = hdl_type_get(h);

	cr_assert_not_null(t);
	return t;
}

static inline int try_make(int combiner, MPI_Count nargs, const MPI_Count *args, MPI_Count n, struct hdl_type *const *old,
			   struct hdl_type **out)
{
	*out = hdl_type_new(combiner, false, nargs, n);
	cr_assert_not_null(*out);
	if (nargs)
		memcpy((*out)->args, args, nargs * sizeof(*args));
	for (MPI_Count i = 0; i < n; i++)
		(*out)->types[i] = old[i];
	return hdl_type_finish(*out);
}

static inline struct hdl_type *make(int combiner, MPI_Count nargs, const MPI_Count *args, MPI_Count n,
				    struct hdl_type *const *old)
{
	struct hdl_type *t;

	cr_assert_eq(try_make(combiner, nargs, args, n, old, &t), MPI_SUCCESS);
	return t;
}
#define MAKE(name, old, ...) \
	make(MPI_COMBINER_##name, sizeof((MPI_Count[]){ __VA_ARGS__ }) / sizeof(MPI_Count), (MPI_Count[]){ __VA_ARGS__ }, 1, \
	     (struct hdl_type *[]){ old })

static inline struct hdl_type *dup_of(struct hdl_type *old)
{
	return make(MPI_COMBINER_DUP, 0, NULL, 1, &old);
}

static inline struct hdl_type *commit(struct hdl_type *t)
{
	cr_assert_eq(hdl_type_commit(t), MPI_SUCCESS);
	return t;
}

static inline void check_is_run(struct hdl_type *t, MPI_Aint origin, MPI_Count bytes)
{
	commit(t);
	cr_assert(hdl_layout_is_run(t->layout));
	cr_assert(t->layout->origin == origin && t->layout->bytes == bytes);
}

#endif
