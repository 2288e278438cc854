/* SPDX-License-Identifier: BSD-3-Clause */
/* Operations of programs, and reductions in memory (MPI-5.0 sections 6.9.5, 6.9.7). */
#include "mpi/mpi_internal.h"

static int op_create(const char *call, MPI_User_function *fn, MPI_User_function_c *fn_c, int commute, MPI_Op *op)
{
	struct hdl_user_op *o;

	hdl_check_active(call);
	if (!fn && !fn_c)
		return hdl_null_arg(NULL, call, "user_fn");
	if (!op)
		return hdl_null_arg(NULL, call, "op");
	o = hdl_op_create(fn, fn_c, commute != 0);
	if (!o)
		return hdl_raise(NULL, MPI_ERR_NO_MEM, call, "out of memory for an operation");
	*op = (MPI_Op)o;
	return MPI_SUCCESS;
}

int PMPI_Op_create(MPI_User_function *user_fn, int commute, MPI_Op *op)
{
	HDL_LOCKED;
	HDL_GIVES(op);
	return op_create("MPI_Op_create", user_fn, NULL, commute, op);
}
HDL_PROFILED(Op_create);

int PMPI_Op_create_c(MPI_User_function_c *user_fn, int commute, MPI_Op *op)
{
	HDL_LOCKED;
	HDL_GIVES(op);
	return op_create("MPI_Op_create_c", NULL, user_fn, commute, op);
}
HDL_PROFILED(Op_create_c);

static bool is_predefined(MPI_Op op)
{
	return (uintptr_t)op > (uintptr_t)MPI_OP_NULL && (uintptr_t)op <= (uintptr_t)MPI_NO_OP;
}

int PMPI_Op_free(MPI_Op *op)
{
	HDL_LOCKED;
	static const char call[] = "MPI_Op_free";
	struct hdl_user_op *o;

	hdl_check_active(call);
	if (!op)
		return hdl_null_arg(NULL, call, "op");
	o = hdl_op_get(*op);
	if (!o)
		return hdl_raise(NULL, MPI_ERR_OP, call, "invalid op: handle %p is %s", (void *)*op, *op == MPI_OP_NULL ?
				 "MPI_OP_NULL" : is_predefined(*op) ? "predefined, and cannot be freed" : "none, or was freed");
	hdl_op_free(o);
	*op = MPI_OP_NULL;
	return MPI_SUCCESS;
}
HDL_PROFILED(Op_free);

int PMPI_Op_commutative(MPI_Op op, int *commute)
{
	HDL_LOCKED;
	static const char call[] = "MPI_Op_commutative";
	struct hdl_user_op *o = hdl_op_get(op);

	hdl_check_active(call);
	if (!o && !is_predefined(op))
		return hdl_raise(NULL, MPI_ERR_OP, call, "invalid op: handle %p is %s", (void *)op, op == MPI_OP_NULL ?
				 "MPI_OP_NULL" : "none, or was freed");
	if (!commute)
		return hdl_null_arg(NULL, call, "commute");
	/* section 6.9.1: predefined operations are assumed to be commutative */
	*commute = o ? hdl_op_commutes(o) : 1;
	return MPI_SUCCESS;
}
HDL_PROFILED(Op_commutative);

static int reduce_local(const char *call, const void *inbuf, void *inoutbuf, MPI_Count count, MPI_Datatype datatype, MPI_Op op)
{
	struct hdl_type *t = hdl_type_get(datatype);

	hdl_check_active(call);
	if (!t || !hdl_type_is_committed(t))
		return hdl_bad_type(NULL, call, "datatype", datatype);
	if (count < 0)
		return hdl_bad_count(NULL, call, "count", count);
	if (hdl_bad_buffer(inbuf, count, t))
		return hdl_bad_buffer_error(NULL, call, "inbuf", inbuf);
	if (hdl_bad_buffer(inoutbuf, count, t))
		return hdl_bad_buffer_error(NULL, call, "inoutbuf", inoutbuf);
	if (inbuf == inoutbuf && count && hdl_type_size(t))
		return hdl_raise(NULL, MPI_ERR_BUFFER, call, "inbuf and inoutbuf are the same buffer (%p)", inbuf);
	if (!hdl_op_get(op) && !hdl_op_valid(op, t))
		return hdl_bad_op(NULL, call, op, t);
	if (count)
		hdl_op_reduce_local(op, t, inbuf, inoutbuf, count);
	return MPI_SUCCESS;
}

#define FORM(_c, Count)												\
int PMPI_Reduce_local##_c(const void *inbuf, void *inoutbuf, Count count, MPI_Datatype datatype, MPI_Op op)	\
{														\
	HDL_LOCKED;												\
	return reduce_local("MPI_Reduce_local" #_c, inbuf, inoutbuf, count, datatype, op);			\
}														\
HDL_PROFILED(Reduce_local##_c);

FORM(, int)
FORM(_c, MPI_Count)
#undef FORM
