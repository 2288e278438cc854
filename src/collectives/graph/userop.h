/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * User-defined operations (MPI-5.0 section 6.9.5), and a reduction by any operation on packed data, which the algorithms of
 * algorithms/vcoll.c and mailbox/vector_reduce.c apply.
 */
#ifndef HDL_USEROP_H
#define HDL_USEROP_H

#include "collectives/collectives.h"
#include "collectives/graph/ops.h"

/* An operation on packed elements of a type. */
struct hdl_reducer {
	hdl_op_fn fn;			/* loop of a predefined operation; NULL for a user-defined one */
	struct hdl_user_op *op;
	const struct hdl_type *type;
	size_t size;			/* packed bytes of one element */
	/* a user-defined operation on elements with holes, or with a lower bound that is not 0: `some` elements at a time are
	 * unpacked into two buffers */
	bool unpacks;
	MPI_Count batch;
	size_t unpack_bytes;		/* bytes of one unpack buffer, a multiple of 64 */
	size_t origin;			/* offset of the first element in an unpack buffer */
};

/* Returns false if the operation is not defined on the type. */
bool hdl_reducer_init(struct hdl_reducer *r, MPI_Op op, const struct hdl_type *type);
/* inout[i] = in[i] op inout[i] on packed bytes. unpack_buf: 2 * unpack_bytes, 64-byte aligned; NULL if r->unpacks is false. */
void hdl_reducer_apply(const struct hdl_reducer *r, const void *in, void *inout, size_t bytes, char *unpack_buf);

#endif
