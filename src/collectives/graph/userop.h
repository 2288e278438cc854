/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Operations that programs define (MPI-5.0 section 6.9.5), and a reduction of any operation on packed data: what the
 * algorithms of pieces.c apply.
 */
#ifndef HDL_USEROP_H
#define HDL_USEROP_H

#include "collectives/collectives.h"
#include "collectives/graph/ops.h"

/* An operation on elements of a type, in the packed form in which they travel. */
struct hdl_reducer {
	hdl_op_fn fn;			/* predefined, on packed elements; else NULL */
	struct hdl_user_op *op;
	const struct hdl_type *type;
	size_t size;			/* packed bytes of one element */
	/* Elements with holes, or that begin elsewhere, are unpacked for an operation of the program, some at a time. */
	bool unpacks;
	MPI_Count some;
	size_t room;			/* bytes of each of two places for so many, 64-byte aligned */
	size_t origin;			/* of the first element in such a place */
};

/* false: the operation is not defined on the type. */
bool hdl_reducer_init(struct hdl_reducer *r, MPI_Op op, const struct hdl_type *type);
/* inout[i] = in[i] op inout[i] on packed bytes; places: 2 * room bytes, or NULL if it does not unpack. */
void hdl_reducer_apply(const struct hdl_reducer *r, const void *in, void *inout, size_t bytes, char *places);

#endif
