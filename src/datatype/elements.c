/* SPDX-License-Identifier: BSD-3-Clause */
/* Basic elements of a type: how many some bytes are (MPI-5.0 section 5.1.11), and in "external32" (section 14.5.2). */
#include "datatype/layout.h"

#include <string.h>

/* ---- elements and bytes --------------------------------------------------------------------------------------------- */

/*
 * A prefix of a type's map: bytes of data, and the basic elements in them. Down from the type to its old types, in a
 * loop: the rest, when whole old elements are counted, is within a single one.
 */
struct prefix {
	MPI_Count bytes, elements;
};

/* Moves whole elements of t, at most `most` of them, from `left` to `counted`. Returns whether more than these were
 * wanted. */
static bool elements_take(struct prefix *left, struct prefix *counted, const struct hdl_type *t, MPI_Count most, bool by_bytes)
{
	MPI_Count n;

	if (!t->size)
		return true;
	n = by_bytes ? left->bytes / t->size : left->elements / t->elements;
	n = n < most ? n : most;
	left->bytes -= n * t->size;
	left->elements -= n * t->elements;
	counted->bytes += n * t->size;
	counted->elements += n * t->elements;
	return n == most;
}

/* The old type of t in which the next byte or element is, when t's whole blocks before it are taken. NULL: none. */
static const struct hdl_type *descend(struct prefix *left, struct prefix *counted, const struct hdl_type *t, bool by_bytes)
{
	switch (t->combiner) {
	case MPI_COMBINER_STRUCT:
		for (MPI_Count i = 0; i < t->args[0]; i++)
			if (!elements_take(left, counted, t->types[i], t->args[1 + i], by_bytes))
				return t->types[i];
		return NULL;
	default:
		elements_take(left, counted, t->types[0], INT64_MAX, by_bytes);
		return t->types[0];
	}
}

/* The elements of a predefined type that are there in part. */
static void take_part(struct prefix *left, struct prefix *counted, const struct hdl_type *t, bool by_bytes)
{
	const struct hdl_layout *l = t->typed;

	for (MPI_Count i = 0; l->kind == HDL_LIST && i < l->count; i++) {
		MPI_Count bytes = l->at[i + 1] - l->at[i];

		if (by_bytes ? left->bytes < bytes : !left->elements)
			return;
		left->bytes -= bytes;
		left->elements--;
		counted->bytes += bytes;
		counted->elements++;
	}
}

static void count_prefix(struct prefix *left, struct prefix *counted, const struct hdl_type *t, bool by_bytes)
{
	elements_take(left, counted, t, INT64_MAX, by_bytes);
	while ((by_bytes ? left->bytes : left->elements) && t && t->size && t->ntypes)
		t = descend(left, counted, t, by_bytes);
	if (t && t->size && !t->ntypes)
		take_part(left, counted, t, by_bytes);
}

MPI_Count hdl_type_elements(const struct hdl_type *t, MPI_Count bytes)
{
	struct prefix left = { .bytes = bytes }, counted = { 0 };

	count_prefix(&left, &counted, t, true);
	return left.bytes ? MPI_UNDEFINED : counted.elements;
}

MPI_Count hdl_type_element_bytes(const struct hdl_type *t, MPI_Count elements)
{
	struct prefix left = { .elements = elements }, counted = { 0 };
	MPI_Count bytes;

	if (!t->elements)
		return elements ? -1 : 0;
	if (__builtin_mul_overflow(elements / t->elements + 1, t->size, &bytes))
		return -1;
	count_prefix(&left, &counted, t, false);
	return counted.bytes;
}
