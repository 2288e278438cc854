/* SPDX-License-Identifier: BSD-3-Clause */
#include "collectives/graph/graph.h"

#include <limits.h>
#include <stdlib.h>

struct hdl_user_op {
	struct hdl_object obj;		/* references: the handle's, and one per pending collective */
	MPI_User_function *fn;
	MPI_User_function_c *fn_c;	/* exactly one of fn and fn_c is set, by the constructor that the program called */
	bool commute;
};

struct hdl_pool hdl_user_ops = HDL_POOL(struct hdl_user_op, 16);

struct hdl_user_op *hdl_op_get(MPI_Op handle)
{
	return hdl_pool_find(&hdl_user_ops, handle, HDL_MAGIC_OP, sizeof(struct hdl_user_op));
}

struct hdl_user_op *hdl_op_create(MPI_User_function *fn, MPI_User_function_c *fn_c, bool commute)
{
	struct hdl_user_op *op = hdl_pool_take(&hdl_user_ops);

	if (op)
		*op = (struct hdl_user_op){ .obj = { HDL_MAGIC_OP, 1 }, .fn = fn, .fn_c = fn_c, .commute = commute };
	return op;
}

static void userop_release(struct hdl_user_op *op)
{
	if (!--op->obj.refs)
		hdl_pool_put(&hdl_user_ops, op);
}

void hdl_op_retain(struct hdl_user_op *op)
{
	if (op)
		op->obj.refs++;
}

void hdl_op_release(struct hdl_user_op *op)
{
	if (op)
		userop_release(op);
}

void hdl_op_free(struct hdl_user_op *op)
{
	op->obj.magic = 0;
	userop_release(op);
}

bool hdl_op_commutes(const struct hdl_user_op *op)
{
	return op->commute;
}

/* ---- reductions ---------------------------------------------------------------------------------------- */

#define UNPACK_BYTES ((size_t)64 << 10)

bool hdl_reducer_init(struct hdl_reducer *r, MPI_Op handle, const struct hdl_type *type)
{
	MPI_Aint extent = hdl_type_extent(type), stride = extent < 0 ? -extent : extent;
	MPI_Aint lowest = type->true_lb;
	size_t span;

	*r = (struct hdl_reducer){ .type = type, .size = (size_t)hdl_type_size(type), .op = hdl_op_get(handle) };
	if (!r->op)
		r->fn = hdl_op_lookup(handle, type);
	if (!r->op && !r->fn)
		return false;
	r->unpacks = r->op && !hdl_type_is_contiguous(type);
	if (!r->unpacks)
		return true;
	r->batch = stride ? (MPI_Count)(UNPACK_BYTES / (size_t)stride) : 1;
	if (r->batch < 1)
		r->batch = 1;
	if (extent < 0)
		lowest += (r->batch - 1) * extent;
	/* gives the first element's address the alignment of the buffer */
	r->origin = (size_t)((lowest & 63) - lowest);
	span = (size_t)(lowest & 63) + (size_t)(r->batch - 1) * (size_t)stride + (size_t)type->true_extent;
	r->unpack_bytes = (span + 127) & ~(size_t)63;
	return true;
}

static void call_user(const struct hdl_reducer *r, void *in, void *inout, MPI_Count n)
{
	MPI_Datatype handle = hdl_type_handle(r->type);
	MPI_Aint extent = hdl_type_extent(r->type);

	if (r->op->fn_c) {
		r->op->fn_c(in, inout, &n, &handle);
		return;
	}
	while (n > 0) {
		int some = n > INT_MAX ? INT_MAX : (int)n, count = some;

		r->op->fn(in, inout, &count, &handle);
		in = (char *)in + some * extent;
		inout = (char *)inout + some * extent;
		n -= some;
	}
}

/* Opens the type's handle for the call: the program may have freed the handle since the operation started, and the user
 * function may still query the extent. */
static void call(const struct hdl_reducer *r, void *in, void *inout, MPI_Count n)
{
	struct hdl_type *type = (struct hdl_type *)r->type;

	hdl_type_open(type);
	call_user(r, in, inout, n);
	hdl_type_close(type);
}

void hdl_reducer_apply(const struct hdl_reducer *r, const void *in, void *inout, size_t bytes, char *unpack_buf)
{
	MPI_Count n = r->size ? (MPI_Count)(bytes / r->size) : 0;
	char *a, *b;

	if (r->fn) {
		r->fn(in, inout, (size_t)n);
		return;
	}
	if (!r->unpacks) {
		call(r, (void *)in, inout, n);
		return;
	}
	a = unpack_buf + r->origin;
	b = unpack_buf + r->unpack_bytes + r->origin;
	for (MPI_Count at = 0; at < n; at += r->batch) {
		MPI_Count some = n - at < r->batch ? n - at : r->batch;
		size_t off = (size_t)at * r->size, len = (size_t)some * r->size;

		hdl_unpack(a, (const char *)in + off, some, r->type, 0, len);
		hdl_unpack(b, (char *)inout + off, some, r->type, 0, len);
		call(r, a, b, some);
		hdl_pack((char *)inout + off, b, some, r->type, 0, len);
	}
}

int hdl_op_reduce_local(MPI_Op op, const struct hdl_type *type, const void *in, void *inout, MPI_Count count)
{
	struct hdl_reducer r;

	if (!hdl_reducer_init(&r, op, type))
		return MPI_ERR_OP;
	if (r.op)
		call(&r, (void *)in, inout, count);
	else
		hdl_op_apply(op, type, in, inout, count);
	return MPI_SUCCESS;
}
