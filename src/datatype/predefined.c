/* SPDX-License-Identifier: BSD-3-Clause */
/* The predefined C and C++ datatypes (MPI-5.0 table 3.2, section 6.9.4), by the value of their handle in the ABI. */
#include "datatype/datatype.h"

#include <complex.h>
#include <wchar.h>

#define AT(handle) [(uintptr_t)(handle) - HDL_TYPE_FIRST]

#define BASIC(handle, ctype) \
	AT(handle) = { \
		.obj = { HDL_MAGIC_TYPE, 1 }, .committed = true, .predefined = true, .contiguous = true, \
		.one_run = true, .nruns = 1, .nelems = 1, .size = sizeof(ctype), .extent = sizeof(ctype), \
		.true_extent = sizeof(ctype), .base = handle, .run = { { 0, sizeof(ctype) } }, \
		.elem_bytes = { sizeof(ctype) }, .name = #handle, \
	}

/* Value and index, for MPI_MINLOC and MPI_MAXLOC: as a C struct lays them out, so there may be holes. */
#define PAIR(handle, tag) \
	AT(handle) = { \
		.obj = { HDL_MAGIC_TYPE, 1 }, .committed = true, .predefined = true, \
		.contiguous = sizeof(((struct tag *)0)->v) + sizeof(int) == sizeof(struct tag), \
		.one_run = sizeof(((struct tag *)0)->v) == offsetof(struct tag, i), \
		.nruns = sizeof(((struct tag *)0)->v) == offsetof(struct tag, i) ? 1 : 2, .nelems = 2, \
		.size = sizeof(((struct tag *)0)->v) + sizeof(int), .extent = sizeof(struct tag), \
		.true_extent = offsetof(struct tag, i) + sizeof(int), .base = handle, \
		.run = { { 0, sizeof(((struct tag *)0)->v) == offsetof(struct tag, i) ? \
			      sizeof(((struct tag *)0)->v) + sizeof(int) : sizeof(((struct tag *)0)->v) }, \
			 { offsetof(struct tag, i), sizeof(int) } }, \
		.elem_bytes = { sizeof(((struct tag *)0)->v), sizeof(int) }, .name = #handle, \
	}

struct float_int { float v; int i; };
struct double_int { double v; int i; };
struct long_int { long v; int i; };
struct two_int { int v; int i; };
struct short_int { short v; int i; };
struct long_double_int { long double v; int i; };

struct hdl_type hdl_types[HDL_TYPE_LAST - HDL_TYPE_FIRST + 1] = {
	BASIC(MPI_AINT, MPI_Aint),
	BASIC(MPI_COUNT, MPI_Count),
	BASIC(MPI_OFFSET, MPI_Offset),
	BASIC(MPI_SHORT, short),
	BASIC(MPI_INT, int),
	BASIC(MPI_LONG, long),
	BASIC(MPI_LONG_LONG, long long),
	BASIC(MPI_UNSIGNED_SHORT, unsigned short),
	BASIC(MPI_UNSIGNED, unsigned),
	BASIC(MPI_UNSIGNED_LONG, unsigned long),
	BASIC(MPI_UNSIGNED_LONG_LONG, unsigned long long),
	BASIC(MPI_FLOAT, float),
	BASIC(MPI_C_FLOAT_COMPLEX, float complex),
	BASIC(MPI_CXX_FLOAT_COMPLEX, float complex),
	BASIC(MPI_DOUBLE, double),
	BASIC(MPI_C_DOUBLE_COMPLEX, double complex),
	BASIC(MPI_CXX_DOUBLE_COMPLEX, double complex),
	BASIC(MPI_LONG_DOUBLE, long double),
	BASIC(MPI_C_LONG_DOUBLE_COMPLEX, long double complex),
	BASIC(MPI_CXX_LONG_DOUBLE_COMPLEX, long double complex),
	PAIR(MPI_FLOAT_INT, float_int),
	PAIR(MPI_DOUBLE_INT, double_int),
	PAIR(MPI_LONG_INT, long_int),
	PAIR(MPI_2INT, two_int),
	PAIR(MPI_SHORT_INT, short_int),
	PAIR(MPI_LONG_DOUBLE_INT, long_double_int),
	BASIC(MPI_C_BOOL, _Bool),
	BASIC(MPI_CXX_BOOL, _Bool),
	BASIC(MPI_WCHAR, wchar_t),
	BASIC(MPI_INT8_T, int8_t),
	BASIC(MPI_UINT8_T, uint8_t),
	BASIC(MPI_CHAR, char),
	BASIC(MPI_SIGNED_CHAR, signed char),
	BASIC(MPI_UNSIGNED_CHAR, unsigned char),
	BASIC(MPI_BYTE, unsigned char),
	BASIC(MPI_INT16_T, int16_t),
	BASIC(MPI_UINT16_T, uint16_t),
	BASIC(MPI_INT32_T, int32_t),
	BASIC(MPI_UINT32_T, uint32_t),
	BASIC(MPI_INT64_T, int64_t),
	BASIC(MPI_UINT64_T, uint64_t),
};
