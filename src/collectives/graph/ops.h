/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The predefined operations on the predefined types (MPI-5.0 section 6.9.2). A type is reduced by its representation: MPI_INT,
 * MPI_INT32_T and MPI_INTEGER4 share one loop.
 */
#ifndef HDL_OPS_H
#define HDL_OPS_H

#include <mpi.h>
#include <stddef.h>
#include <stdint.h>

#include "datatype/datatype.h"

/*
 * inout[i] = in[i] op inout[i] for n packed elements, without gaps: an element of MPI_DOUBLE_INT has 12 bytes here and 16 in
 * memory. Must: in and inout do not overlap. Either may have any alignment.
 */
typedef void (*hdl_op_fn)(const void *in, void *inout, size_t n);

enum hdl_rep {
	HDL_REP_NONE,		/* no operation is defined on the type */
	HDL_REP_I8, HDL_REP_U8, HDL_REP_I16, HDL_REP_U16, HDL_REP_I32, HDL_REP_U32, HDL_REP_I64, HDL_REP_U64,
	HDL_REP_F32, HDL_REP_F64, HDL_REP_FLD,
	HDL_REP_C32, HDL_REP_C64, HDL_REP_CLD,
	HDL_REP_P_F32_INT, HDL_REP_P_F64_INT, HDL_REP_P_LONG_INT, HDL_REP_P_2INT, HDL_REP_P_SHORT_INT,
	HDL_REP_P_FLD_INT, HDL_REP_P_2F32, HDL_REP_P_2F64,
	HDL_REP_I128, HDL_REP_F16, HDL_REP_F128, HDL_REP_C16, HDL_REP_C128,	/* without loops where the compiler lacks the
										 * type */
	HDL_REPS
};

/* The type's class in section 6.9.2, by which an operation is valid on the type. */
enum hdl_class {
	HDL_CLASS_NONE, HDL_CLASS_INT, HDL_CLASS_FINT, HDL_CLASS_FLOAT, HDL_CLASS_LOGICAL, HDL_CLASS_COMPLEX,
	HDL_CLASS_BYTE, HDL_CLASS_MULTI, HDL_CLASS_PAIR,
	HDL_CLASS_CHAR,		/* MPI_CHAR: the standard defines no operation on it */
};

/* Index of a predefined operation; -1 for any other handle. */
enum hdl_op_index {
	HDL_OP_SUM, HDL_OP_MIN, HDL_OP_MAX, HDL_OP_PROD, HDL_OP_BAND, HDL_OP_BOR, HDL_OP_BXOR, HDL_OP_LAND,
	HDL_OP_LOR, HDL_OP_LXOR, HDL_OP_MINLOC, HDL_OP_MAXLOC, HDL_OPS
};

struct hdl_reptype {
	enum hdl_rep rep;
	enum hdl_class cls;
	const char *name;
	MPI_Datatype handle;
};

int hdl_op_index(MPI_Op op);
const char *hdl_op_name(MPI_Op op);
/* Look up by name, with or without the prefix MPI_. Return MPI_OP_NULL, NULL if there is none. */
MPI_Op hdl_op_named(const char *name);
const struct hdl_type *hdl_reptype_named(const char *name);
/* The representation and class of a predefined type. Never NULL: a type without operations has class HDL_CLASS_NONE. */
const struct hdl_reptype *hdl_reptype(const struct hdl_type *type);
/* Returns true if the bits of a result depend on the operands' sides: MIN and MAX of a NaN and a number, or of -0.0 and 0.0,
 * return one operand; a product of complex numbers may be rounded differently. The payload of a NaN is never guaranteed. */
bool hdl_op_is_sided(MPI_Op op, const struct hdl_type *type);
/* The loop for op on packed elements of type; NULL if op is not defined on the type. For elements in memory: hdl_op_apply. */
hdl_op_fn hdl_op_lookup(MPI_Op op, const struct hdl_type *type);

#endif
