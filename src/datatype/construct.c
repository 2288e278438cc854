/* SPDX-License-Identifier: BSD-3-Clause */
/* Constructors: a type's arguments, old types, size and bounds (MPI-5.0 sections 5.1.2 to 5.1.7). */
#include "datatype/layout.h"

#include <stdlib.h>
#include <string.h>

/* ---- blocks -------------------------------------------------------------------------------------------------------- */

MPI_Count hdl_type_blocks(const struct hdl_type *t)
{
	switch (t->combiner) {
	case MPI_COMBINER_INDEXED:
	case MPI_COMBINER_HINDEXED:
	case MPI_COMBINER_INDEXED_BLOCK:
	case MPI_COMBINER_HINDEXED_BLOCK:
	case MPI_COMBINER_STRUCT:
		return t->args[0];
	default:
		return 1;
	}
}

/* n extents of old. May wrap around for an empty block; for all other blocks hdl_type_finish has checked that the
 * product fits. */
static MPI_Aint extents(MPI_Count n, const struct hdl_type *old)
{
	return (MPI_Aint)((uint64_t)n * (uint64_t)old->extent);
}

struct hdl_block hdl_type_block(const struct hdl_type *t, MPI_Count i)
{
	const MPI_Count *a = t->args;
	struct hdl_type *old = t->types[0];

	switch (t->combiner) {
	case MPI_COMBINER_CONTIGUOUS:
		return (struct hdl_block){ 0, a[0], old };
	case MPI_COMBINER_INDEXED:
		return (struct hdl_block){ extents(a[1 + a[0] + i], old), a[1 + i], old };
	case MPI_COMBINER_HINDEXED:
		return (struct hdl_block){ a[1 + a[0] + i], a[1 + i], old };
	case MPI_COMBINER_INDEXED_BLOCK:
		return (struct hdl_block){ extents(a[2 + i], old), a[1], old };
	case MPI_COMBINER_HINDEXED_BLOCK:
		return (struct hdl_block){ a[2 + i], a[1], old };
	case MPI_COMBINER_STRUCT:
		return (struct hdl_block){ a[1 + a[0] + i], a[1 + i], t->types[i] };
	default:
		return (struct hdl_block){ 0, 1, old };		/* DUP, RESIZED */
	}
}

/* ---- bounds --------------------------------------------------------------------------------------------------------- */

/*
 * The properties of a type map that constructors need. The true bounds are those of the data (valid if there is data),
 * lb and ub those of the markers (valid if there are markers).
 */
struct map {
	MPI_Count size, elements;
	bool bounded, overflow, mixed;
	MPI_Aint lb, ub, true_lb, true_ub;
	MPI_Datatype base;
	unsigned align;
};

static void construct_widen(MPI_Aint *lb, MPI_Aint *ub, bool first, MPI_Aint lo, MPI_Aint hi)
{
	*lb = first || lo < *lb ? lo : *lb;
	*ub = first || hi > *ub ? hi : *ub;
}

/* count1 × count2 copies of [lb, ub) at offset + i * stride1 + j * stride2; both counts are positive. */
static bool construct_spread(MPI_Aint offset, MPI_Count count1, MPI_Aint stride1, MPI_Count count2, MPI_Aint stride2,
			     MPI_Aint *lb, MPI_Aint *ub)
{
	MPI_Aint last1, last2;

	return !__builtin_mul_overflow(count1 - 1, stride1, &last1) && !__builtin_mul_overflow(count2 - 1, stride2, &last2) &&
	       !__builtin_add_overflow(*lb, offset, lb) && !__builtin_add_overflow(*ub, offset, ub) &&
	       !__builtin_add_overflow(last1 < 0 ? last1 : 0, *lb, lb) &&
	       !__builtin_add_overflow(last1 > 0 ? last1 : 0, *ub, ub) &&
	       !__builtin_add_overflow(last2 < 0 ? last2 : 0, *lb, lb) &&
	       !__builtin_add_overflow(last2 > 0 ? last2 : 0, *ub, ub);
}

static void map_add(struct map *m, MPI_Aint offset, MPI_Count count1, MPI_Aint stride1, MPI_Count count2,
		    const struct hdl_type *t)
{
	MPI_Aint lb = t->lb, ub, true_lb = t->true_lb, true_ub;
	MPI_Count copies, size, elements;

	if (!count1 || !count2)
		return;
	ub = t->lb + t->extent;
	true_ub = t->true_lb + t->true_extent;
	if (__builtin_mul_overflow(count1, count2, &copies) || __builtin_mul_overflow(copies, t->size, &size) ||
	    __builtin_add_overflow(m->size, size, &size) || __builtin_mul_overflow(copies, t->elements, &elements) ||
	    !construct_spread(offset, count1, stride1, count2, t->extent, &lb, &ub) ||
	    !construct_spread(offset, count1, stride1, count2, t->extent, &true_lb, &true_ub)) {
		m->overflow = true;
		return;
	}
	if (t->bounded) {
		construct_widen(&m->lb, &m->ub, !m->bounded, lb, ub);
		m->bounded = true;
	}
	if (!t->size)
		return;
	construct_widen(&m->true_lb, &m->true_ub, !m->size, true_lb, true_ub);
	m->mixed |= t->base == MPI_DATATYPE_NULL || (m->size && m->base != t->base);
	m->base = t->base;
	m->size = size;
	m->elements += elements;	/* no more than size */
	m->align = t->align > m->align ? t->align : m->align;
}

static bool map_to_type(const struct map *m, struct hdl_type *t)
{
	MPI_Aint ub;
	MPI_Count rest;

	if (m->overflow)
		return false;
	t->size = m->size;
	t->elements = m->elements;
	t->align = (uint16_t)m->align;
	t->base = m->mixed || !m->size ? MPI_DATATYPE_NULL : m->base;
	t->bounded = m->bounded;
	t->true_lb = m->size ? m->true_lb : 0;
	if (__builtin_sub_overflow(m->size ? m->true_ub : 0, t->true_lb, &t->true_extent))
		return false;
	t->lb = m->bounded ? m->lb : t->true_lb;
	ub = m->bounded ? m->ub : m->size ? m->true_ub : 0;
	if (__builtin_sub_overflow(ub, t->lb, &t->extent))
		return false;
	/* Without a marker the upper bound is rounded up, as a compiler does to keep an array's elements aligned. */
	rest = m->bounded || !m->align ? 0 : t->extent % m->align;
	return !rest || !__builtin_add_overflow(t->extent, m->align - rest, &t->extent);
}

/* Subarray and darray: the array is of the old type's extent, and they have markers. */
static bool array_bounds(struct map *m, const struct hdl_type *old, const MPI_Count *sizes, MPI_Count ndims)
{
	MPI_Aint extent = old->extent;

	for (MPI_Count d = 0; d < ndims; d++)
		if (__builtin_mul_overflow(extent, sizes[d], &extent))
			return false;
	m->bounded = true;
	m->lb = 0;
	m->ub = extent;
	return true;
}

/* The true bounds of an array are found dimension by dimension, slowest first. */
struct box {
	MPI_Count elements;
	MPI_Aint first, last;		/* elements of the old type, by their index in the whole array */
};

static bool box_dimension(struct box *b, MPI_Count size, MPI_Count have, MPI_Count first, MPI_Count last)
{
	b->elements *= have;		/* no more than the array's */
	return !__builtin_mul_overflow(b->first, size, &b->first) && !__builtin_mul_overflow(b->last, size, &b->last) &&
	       !__builtin_add_overflow(b->first, first, &b->first) && !__builtin_add_overflow(b->last, last, &b->last);
}

static void box_add(struct map *m, const struct box *b, const struct hdl_type *old)
{
	MPI_Aint first, span;

	if (!b->elements)
		return;
	/* as two copies, the first and the last: the bounds are the same */
	if (__builtin_mul_overflow(b->first, old->extent, &first) ||
	    __builtin_mul_overflow(b->last - b->first, old->extent, &span)) {
		m->overflow = true;
		return;
	}
	map_add(m, first, b->elements > 1 ? 2 : 1, span, 1, old);
	if (m->overflow || !old->size)
		return;
	m->overflow = __builtin_mul_overflow(b->elements, old->size, &m->size) ||
		      __builtin_mul_overflow(b->elements, old->elements, &m->elements);
}

static void map_subarray(struct map *m, const struct hdl_type *t)
{
	MPI_Count n = t->args[0];
	const MPI_Count *size = t->args + 1, *sub = size + n, *start = sub + n;
	bool c_order = t->args[1 + 3 * n] == MPI_ORDER_C;
	struct box b = { .elements = 1 };

	for (MPI_Count k = 0; k < n; k++) {
		MPI_Count d = c_order ? k : n - 1 - k;

		m->overflow |= !box_dimension(&b, size[d], sub[d], start[d], start[d] + sub[d] - 1);
	}
	if (!m->overflow)
		box_add(m, &b, t->types[0]);
	m->overflow |= !array_bounds(m, t->types[0], size, n);
}

struct hdl_share hdl_darray_share(const struct hdl_type *t, MPI_Count d)
{
	MPI_Count n = t->args[2], rank = t->args[1], before = 1;
	const MPI_Count *gsize = t->args + 3, *distrib = gsize + n, *darg = distrib + n, *psize = darg + n;
	struct hdl_share s = { .size = gsize[d], .period = gsize[d] };
	MPI_Count me, full;

	/* processes are in the order of MPI_Cart_create: the last dimension's coordinate changes fastest */
	for (MPI_Count k = d + 1; k < n; k++)
		before *= psize[k];
	me = rank / before % psize[d];
	if (distrib[d] == MPI_DISTRIBUTE_NONE) {
		s.block = gsize[d];
	} else if (distrib[d] == MPI_DISTRIBUTE_BLOCK) {
		s.block = darg[d] == MPI_DISTRIBUTE_DFLT_DARG ? (gsize[d] + psize[d] - 1) / psize[d] : darg[d];
		s.first = me * s.block;
	} else {
		s.block = darg[d] == MPI_DISTRIBUTE_DFLT_DARG ? 1 : darg[d];
		s.first = me * s.block;
		s.period = s.block * psize[d];
	}
	if (s.first >= gsize[d])
		return (struct hdl_share){ .size = gsize[d] };
	if (distrib[d] == MPI_DISTRIBUTE_BLOCK && s.block > gsize[d] - s.first)
		s.block = gsize[d] - s.first;
	full = (gsize[d] - s.first) / s.period;
	s.blocks = full;
	s.rest = gsize[d] - s.first - full * s.period;
	if (s.rest >= s.block) {
		s.blocks++;
		s.rest = 0;
	}
	return s;
}

static void map_darray(struct map *m, const struct hdl_type *t)
{
	MPI_Count n = t->args[2];
	const MPI_Count *gsize = t->args + 3;
	bool c_order = t->args[3 + 4 * n] == MPI_ORDER_C;
	struct box b = { .elements = 1 };

	for (MPI_Count k = 0; k < n; k++) {
		MPI_Count d = c_order ? k : n - 1 - k;
		struct hdl_share s = hdl_darray_share(t, d);
		MPI_Count have = s.blocks * s.block + s.rest;
		MPI_Count last = s.rest ? s.first + s.blocks * s.period + s.rest - 1 :
				 s.first + (s.blocks - 1) * s.period + s.block - 1;

		m->overflow |= !box_dimension(&b, gsize[d], have, s.first, have ? last : 0);
	}
	if (!m->overflow)
		box_add(m, &b, t->types[0]);
	m->overflow |= !array_bounds(m, t->types[0], gsize, n);
}

static void map_blocks(struct map *m, const struct hdl_type *t)
{
	bool scaled = t->combiner == MPI_COMBINER_INDEXED || t->combiner == MPI_COMBINER_INDEXED_BLOCK;
	MPI_Count n = hdl_type_blocks(t);
	const MPI_Count *displacement = t->args + t->nargs - n;
	MPI_Aint offset;

	for (MPI_Count i = 0; i < n && !m->overflow; i++) {
		struct hdl_block b = hdl_type_block(t, i);

		m->overflow = scaled && b.copies && __builtin_mul_overflow(displacement[i], b.type->extent, &offset);
		if (!m->overflow)
			map_add(m, b.offset, 1, 0, b.copies, b.type);
	}
}

int hdl_type_finish(struct hdl_type *t)
{
	struct map m = { 0 };
	MPI_Aint stride;

	for (MPI_Count i = 0; i < t->ntypes; i++)
		hdl_type_retain(t->types[i]);
	switch (t->combiner) {
	case MPI_COMBINER_VECTOR:
	case MPI_COMBINER_HVECTOR:
		stride = t->args[2];
		if (t->combiner == MPI_COMBINER_VECTOR && t->args[0] > 1)
			m.overflow = __builtin_mul_overflow(stride, t->types[0]->extent, &stride);
		if (!m.overflow)
			map_add(&m, 0, t->args[0], stride, t->args[1], t->types[0]);
		break;
	case MPI_COMBINER_SUBARRAY:
		map_subarray(&m, t);
		break;
	case MPI_COMBINER_DARRAY:
		map_darray(&m, t);
		break;
	case MPI_COMBINER_RESIZED:
		map_blocks(&m, t);
		m.bounded = true;
		m.lb = t->args[0];
		m.overflow |= __builtin_add_overflow(t->args[0], t->args[1], &m.ub);
		break;
	default:
		map_blocks(&m, t);
	}
	if (map_to_type(&m, t))
		return MPI_SUCCESS;
	hdl_type_close(t);
	return MPI_ERR_VALUE_TOO_LARGE;
}
