/* SPDX-License-Identifier: BSD-3-Clause */
/* The predefined datatypes (MPI-5.0 tables 3.1 to 3.3, sections 6.9.4, 19.1.5), by the value of their handle in the ABI. */
#include "datatype/layout.h"

#include <complex.h>
#include <float.h>
#include <limits.h>
#include <string.h>
#include <wchar.h>

#define AT(handle)	((uintptr_t)(handle) - HDL_TYPE_FIRST)

#define RUN(bytes_, tag_)	{ .kind = HDL_LOOP, .tag = tag_, .depth = 1, .bytes = bytes_, .count = 1, .unit = bytes_, \
				  .stride = bytes_ }

#define PREDEFINED(handle_) \
		.obj = { HDL_MAGIC_TYPE, 1 }, .handles = 1, .committed = true, .predefined = true, .base = handle_, \
		.combiner = MPI_COMBINER_NAMED

#define BASIC_OF(handle, bytes_, alignment) \
	[AT(handle)] = { \
		PREDEFINED(handle), .contiguous = true, .one_run = true, .shifted = true, .size = bytes_, .extent = bytes_, \
		.true_extent = bytes_, .elements = 1, .align = alignment, \
		.layout = &(struct hdl_layout)RUN(bytes_, 0), .typed = &(struct hdl_layout)RUN(bytes_, AT(handle)), \
	}
#define BASIC(handle, ctype)	BASIC_OF(handle, sizeof(ctype), _Alignof(ctype))

/* Value and index, for MPI_MINLOC and MPI_MAXLOC: as a C struct lays them out, so there may be holes. */
#define VALUE(tag)		sizeof(((struct tag *)0)->v)
#define INDEX(tag)		sizeof(((struct tag *)0)->i)
#define INDEX_AT(tag)	offsetof(struct tag, i)
#define LIST_OF_TWO(tag, tags_) { \
		.kind = HDL_LIST, .flat = true, .depth = 1, .bytes = VALUE(tag) + INDEX(tag), .count = 2, \
		.offset = (MPI_Aint[]){ 0, INDEX_AT(tag) }, .at = (MPI_Count[]){ 0, VALUE(tag), VALUE(tag) + INDEX(tag) }, \
		.tags = tags_, \
	}
#define PAIR_COMMON(handle, tag, value, index) \
		PREDEFINED(handle), .size = VALUE(tag) + INDEX(tag), .extent = sizeof(struct tag), \
		.true_extent = INDEX_AT(tag) + INDEX(tag), .elements = 2, .align = _Alignof(struct tag), \
		.typed = &(struct hdl_layout)LIST_OF_TWO(tag, ((uint8_t[]){ AT(value), AT(index) }))
#define PAIR_DENSE(handle, tag, value, index) \
	[AT(handle)] = { \
		PAIR_COMMON(handle, tag, value, index), .one_run = true, .shifted = true, \
		.contiguous = VALUE(tag) + INDEX(tag) == sizeof(struct tag), \
		.layout = &(struct hdl_layout)RUN(VALUE(tag) + INDEX(tag), 0), \
	}
#define PAIR_WITH_HOLE(handle, tag, value, index) \
	[AT(handle)] = { \
		PAIR_COMMON(handle, tag, value, index), .layout = &(struct hdl_layout)LIST_OF_TWO(tag, NULL), \
	}

struct float_int { float v; int i; };
struct double_int { double v; int i; };
struct long_int { long v; int i; };
struct two_int { int v; int i; };
struct short_int { short v; int i; };
struct long_double_int { long double v; int i; };
struct two_float { float v; float i; };
struct two_double { double v; double i; };
_Static_assert(VALUE(long_double_int) == INDEX_AT(long_double_int) && VALUE(short_int) < INDEX_AT(short_int),
	       "which pairs have holes");

struct hdl_type hdl_types[HDL_TYPE_LAST - HDL_TYPE_FIRST + 1] = {
	BASIC(MPI_AINT, MPI_Aint),
	BASIC(MPI_COUNT, MPI_Count),
	BASIC(MPI_OFFSET, MPI_Offset),
	BASIC(MPI_PACKED, char),
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
	BASIC(MPI_LOGICAL, int),
	BASIC(MPI_INTEGER, int),
	BASIC(MPI_REAL, float),
	BASIC(MPI_COMPLEX, float complex),
	BASIC(MPI_DOUBLE_PRECISION, double),
	BASIC(MPI_DOUBLE_COMPLEX, double complex),
	BASIC(MPI_CHARACTER, char),
	BASIC(MPI_LONG_DOUBLE, long double),
	BASIC(MPI_C_LONG_DOUBLE_COMPLEX, long double complex),
	BASIC(MPI_CXX_LONG_DOUBLE_COMPLEX, long double complex),
	PAIR_DENSE(MPI_FLOAT_INT, float_int, MPI_FLOAT, MPI_INT),
	PAIR_DENSE(MPI_DOUBLE_INT, double_int, MPI_DOUBLE, MPI_INT),
	PAIR_DENSE(MPI_LONG_INT, long_int, MPI_LONG, MPI_INT),
	PAIR_DENSE(MPI_2INT, two_int, MPI_INT, MPI_INT),
	PAIR_WITH_HOLE(MPI_SHORT_INT, short_int, MPI_SHORT, MPI_INT),
	PAIR_DENSE(MPI_LONG_DOUBLE_INT, long_double_int, MPI_LONG_DOUBLE, MPI_INT),
	PAIR_DENSE(MPI_2REAL, two_float, MPI_REAL, MPI_REAL),
	PAIR_DENSE(MPI_2DOUBLE_PRECISION, two_double, MPI_DOUBLE_PRECISION, MPI_DOUBLE_PRECISION),
	PAIR_DENSE(MPI_2INTEGER, two_int, MPI_INTEGER, MPI_INTEGER),
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
	BASIC(MPI_LOGICAL1, int8_t),
	BASIC(MPI_INTEGER1, int8_t),
	BASIC(MPI_LOGICAL2, int16_t),
	BASIC(MPI_INTEGER2, int16_t),
	BASIC_OF(MPI_REAL2, 2, 2),
	BASIC(MPI_LOGICAL4, int32_t),
	BASIC(MPI_INTEGER4, int32_t),
	BASIC(MPI_REAL4, float),
	BASIC_OF(MPI_COMPLEX4, 4, 2),
	BASIC(MPI_LOGICAL8, int64_t),
	BASIC(MPI_INTEGER8, int64_t),
	BASIC(MPI_REAL8, double),
	BASIC(MPI_COMPLEX8, float complex),
	BASIC_OF(MPI_LOGICAL16, 16, 16),
	BASIC_OF(MPI_INTEGER16, 16, 16),
	BASIC_OF(MPI_REAL16, 16, 16),
	BASIC(MPI_COMPLEX16, double complex),
	BASIC_OF(MPI_COMPLEX32, 32, 16),
};

#define NAME(name) [AT(name)] = #name

static const char *const names[HDL_TYPE_LAST - HDL_TYPE_FIRST + 1] = {
	NAME(MPI_AINT), NAME(MPI_COUNT), NAME(MPI_OFFSET), NAME(MPI_PACKED), NAME(MPI_SHORT), NAME(MPI_INT), NAME(MPI_LONG),
	NAME(MPI_LONG_LONG), NAME(MPI_UNSIGNED_SHORT), NAME(MPI_UNSIGNED), NAME(MPI_UNSIGNED_LONG),
	NAME(MPI_UNSIGNED_LONG_LONG), NAME(MPI_FLOAT), NAME(MPI_C_FLOAT_COMPLEX), NAME(MPI_CXX_FLOAT_COMPLEX),
	NAME(MPI_DOUBLE), NAME(MPI_C_DOUBLE_COMPLEX), NAME(MPI_CXX_DOUBLE_COMPLEX), NAME(MPI_LOGICAL), NAME(MPI_INTEGER),
	NAME(MPI_REAL), NAME(MPI_COMPLEX), NAME(MPI_DOUBLE_PRECISION), NAME(MPI_DOUBLE_COMPLEX), NAME(MPI_CHARACTER),
	NAME(MPI_LONG_DOUBLE), NAME(MPI_C_LONG_DOUBLE_COMPLEX), NAME(MPI_CXX_LONG_DOUBLE_COMPLEX), NAME(MPI_FLOAT_INT),
	NAME(MPI_DOUBLE_INT), NAME(MPI_LONG_INT), NAME(MPI_2INT), NAME(MPI_SHORT_INT), NAME(MPI_LONG_DOUBLE_INT),
	NAME(MPI_2REAL), NAME(MPI_2DOUBLE_PRECISION), NAME(MPI_2INTEGER), NAME(MPI_C_BOOL), NAME(MPI_CXX_BOOL),
	NAME(MPI_WCHAR), NAME(MPI_INT8_T), NAME(MPI_UINT8_T), NAME(MPI_CHAR), NAME(MPI_SIGNED_CHAR),
	NAME(MPI_UNSIGNED_CHAR), NAME(MPI_BYTE), NAME(MPI_INT16_T), NAME(MPI_UINT16_T), NAME(MPI_INT32_T),
	NAME(MPI_UINT32_T), NAME(MPI_INT64_T), NAME(MPI_UINT64_T), NAME(MPI_LOGICAL1), NAME(MPI_INTEGER1),
	NAME(MPI_LOGICAL2), NAME(MPI_INTEGER2), NAME(MPI_REAL2), NAME(MPI_LOGICAL4), NAME(MPI_INTEGER4), NAME(MPI_REAL4),
	NAME(MPI_COMPLEX4), NAME(MPI_LOGICAL8), NAME(MPI_INTEGER8), NAME(MPI_REAL8), NAME(MPI_COMPLEX8),
	NAME(MPI_LOGICAL16), NAME(MPI_INTEGER16), NAME(MPI_REAL16), NAME(MPI_COMPLEX16), NAME(MPI_COMPLEX32),
};

const char *hdl_type_constant_name(const struct hdl_type *t)
{
	return hdl_type_is_named(t) ? names[t - hdl_types] : NULL;
}

const char *hdl_type_label(const struct hdl_type *t)
{
	return hdl_type_is_named(t) ? hdl_type_constant_name(t) :
	       t->predefined ? "a type of MPI_Type_create_f90_*" : "a derived datatype";
}

/* ---- by size -------------------------------------------------------------------------------------------------------- */

MPI_Datatype hdl_type_match_size(int typeclass, int size)
{
	static const MPI_Datatype integers[] = { MPI_INTEGER1, MPI_INTEGER2, MPI_INTEGER4, MPI_INTEGER8, MPI_INTEGER16 };
	static const MPI_Datatype reals[] = { MPI_REAL2, MPI_REAL4, MPI_REAL8, MPI_REAL16 };
	static const MPI_Datatype complexes[] = { MPI_COMPLEX4, MPI_COMPLEX8, MPI_COMPLEX16, MPI_COMPLEX32 };
	static const MPI_Datatype logicals[] = { MPI_LOGICAL1, MPI_LOGICAL2, MPI_LOGICAL4, MPI_LOGICAL8, MPI_LOGICAL16 };
	const MPI_Datatype *of;
	int n;

	switch (typeclass) {
	case MPI_TYPECLASS_INTEGER:
		of = integers;
		n = ARRAY_SIZE(integers);
		break;
	case MPI_TYPECLASS_REAL:
		of = reals;
		n = ARRAY_SIZE(reals);
		break;
	case MPI_TYPECLASS_COMPLEX:
		of = complexes;
		n = ARRAY_SIZE(complexes);
		break;
	case MPIX_TYPECLASS_LOGICAL:
		of = logicals;
		n = ARRAY_SIZE(logicals);
		break;
	default:
		return MPI_DATATYPE_NULL;
	}
	for (int i = 0; i < n; i++)
		if (hdl_types[AT(of[i])].size == size)
			return of[i];
	return MPI_DATATYPE_NULL;
}

/* ---- by precision and range ---------------------------------------------------------------------------------------- */

/* Fortran's precision() and range() of IEEE formats and of two's complement. */
static const struct f90 {
	int combiner, precision, range;
	MPI_Datatype type;
} f90s[] = {
	{ MPI_COMBINER_F90_REAL, FLT_DIG, 37, MPI_REAL4 },
	{ MPI_COMBINER_F90_REAL, DBL_DIG, 307, MPI_REAL8 },
	{ MPI_COMBINER_F90_REAL, 33, 4931, MPI_REAL16 },
	{ MPI_COMBINER_F90_COMPLEX, FLT_DIG, 37, MPI_COMPLEX8 },
	{ MPI_COMBINER_F90_COMPLEX, DBL_DIG, 307, MPI_COMPLEX16 },
	{ MPI_COMBINER_F90_COMPLEX, 33, 4931, MPI_COMPLEX32 },
	{ MPI_COMBINER_F90_INTEGER, INT_MAX, 2, MPI_INTEGER1 },
	{ MPI_COMBINER_F90_INTEGER, INT_MAX, 4, MPI_INTEGER2 },
	{ MPI_COMBINER_F90_INTEGER, INT_MAX, 9, MPI_INTEGER4 },
	{ MPI_COMBINER_F90_INTEGER, INT_MAX, 18, MPI_INTEGER8 },
	{ MPI_COMBINER_F90_INTEGER, INT_MAX, 38, MPI_INTEGER16 },
};

/* All that were asked for; they live as long as the process. */
static struct hdl_type *f90_types;

static struct hdl_type *f90_new(const struct f90 *f, int p, int r)
{
	bool integer = f->combiner == MPI_COMBINER_F90_INTEGER;
	const struct hdl_type *same = &hdl_types[AT(f->type)];
	struct hdl_type *t = hdl_type_new(f->combiner, false, integer ? 1 : 2, 0);

	if (!t)
		return NULL;
	t->args[0] = integer ? r : p;
	if (!integer)
		t->args[1] = r;
	t->committed = t->predefined = t->contiguous = t->one_run = t->shifted = true;
	t->size = same->size;
	t->extent = same->extent;
	t->true_extent = same->true_extent;
	t->elements = 1;
	t->base = f->type;
	t->align = same->align;
	t->layout = same->layout;
	t->typed = same->typed;
	t->next = f90_types;
	f90_types = t;
	return t;
}

struct hdl_type *hdl_type_f90(int combiner, int p, int r)
{
	bool integer = combiner == MPI_COMBINER_F90_INTEGER;

	for (struct hdl_type *t = f90_types; t; t = t->next)
		if (t->combiner == combiner && (integer ? t->args[0] == r : t->args[0] == p && t->args[1] == r))
			return t;
	for (size_t i = 0; i < ARRAY_SIZE(f90s); i++)
		if (f90s[i].combiner == combiner && (p == MPI_UNDEFINED || p <= f90s[i].precision) &&
		    (r == MPI_UNDEFINED || r <= f90s[i].range))
			return f90_new(&f90s[i], p, r);
	return NULL;
}

/* ---- pairs ---------------------------------------------------------------------------------------------------------- */

MPI_Datatype hdl_type_pair(MPI_Datatype value, MPI_Datatype index)
{
	static const MPI_Datatype pairs[] = { MPI_FLOAT_INT, MPI_DOUBLE_INT, MPI_LONG_INT, MPI_2INT, MPI_SHORT_INT,
					      MPI_LONG_DOUBLE_INT, MPI_2REAL, MPI_2DOUBLE_PRECISION, MPI_2INTEGER };

	for (size_t i = 0; i < ARRAY_SIZE(pairs); i++) {
		const uint8_t *tags = hdl_types[AT(pairs[i])].typed->tags;

		if (tags[0] == AT(value) && tags[1] == AT(index))
			return pairs[i];
	}
	return MPI_DATATYPE_NULL;
}
