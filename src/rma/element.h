/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside of src/rma: operations on elements of a predefined type, in memory of this process. */
#ifndef HDL_RMA_ELEMENT_H
#define HDL_RMA_ELEMENT_H

#include <string.h>

#include "rma/rma.h"

/* An operation on elements of a predefined type. */
struct hdl_element {
	const struct hdl_type *type;
	MPI_Op op;
	size_t size;			/* packed bytes */
	bool whole;			/* an element is one run without a hole */
	bool integer;			/* MPI_SUM is an addition of integers */
};

/* By predefined type: whether MPI_SUM adds integers of 4 or 8 bytes; 0: not looked at yet. Writer: hdl_element_of. */
enum { HDL_ELEMENT_OTHER = 1, HDL_ELEMENT_INTEGER };
extern uint8_t hdl_element_known[ARRAY_SIZE(hdl_types)];
/* Finds that out. */
bool hdl_element_adds(MPI_Op op, const struct hdl_type *type);
/* Returns the operation on elements of a predefined type. */
static inline struct hdl_element hdl_element_of(const struct hdl_type *base, MPI_Op op)
{
	struct hdl_element e = { .type = base, .op = op, .size = (size_t)base->size };
	uint8_t *k = &hdl_element_known[base - hdl_types];

	e.whole = hdl_type_is_contiguous(base);
	if (op == MPI_SUM) {
		if (unlikely(!*k))
			*k = hdl_element_adds(op, base) ? HDL_ELEMENT_INTEGER : HDL_ELEMENT_OTHER;
		e.integer = *k == HDL_ELEMENT_INTEGER;
	}
	return e;
}

/* inout[i] = in[i] op inout[i] of n packed elements, as the standard's f(target, origin): all predefined operations commute.
 * Elements with holes are packed here, while hdl_op_apply expects an extent. */
static inline void hdl_element_compute(const struct hdl_element *e, const void *in, void *inout, size_t n)
{
	if (e->op == MPI_NO_OP)
		return;
	if (e->op == MPI_REPLACE) {
		memcpy(inout, in, n * e->size);
	} else if (e->whole) {
		hdl_op_apply(e->op, e->type, in, inout, (MPI_Count)n);
	} else {
		char a[64], b[64];

		for (size_t i = 0; i < n; i++) {
			hdl_unpack(a, (const char *)in + i * e->size, 1, e->type, 0, e->size);
			hdl_unpack(b, (char *)inout + i * e->size, 1, e->type, 0, e->size);
			hdl_op_apply(e->op, e->type, a, b, 1);
			hdl_pack((char *)inout + i * e->size, b, 1, e->type, 0, e->size);
		}
	}
}

/* Returns true if the operation on elements of this predefined type is an addition of integers of 4 or 8 bytes. */
bool hdl_acc_adds(MPI_Op op, const struct hdl_type *base);
/* Pieces of the target's memory that are one or more whole elements, in the order of the type map. */
struct hdl_acc_piece {
	uint64_t at;			/* the owner's address; in a message the offset from its base */
	uint64_t len;
};
/* Carries out an accumulate at this process's own memory, for a message: in[] packed, out NULL or the old values packed. */
void hdl_acc_here(const struct hdl_acc_piece *piece, unsigned n, const struct hdl_type *base, MPI_Op op, const void *in,
		  const void *compare, void *out);

#endif
