/* SPDX-License-Identifier: BSD-3-Clause */
#if defined(__clang__)
/* Some types of the simd loops cannot be vectorized; clang would warn about each. */
#pragma clang diagnostic ignored "-Wpass-failed"
#endif

#include "collectives/graph/graph.h"

#include <complex.h>
#include <float.h>
#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <wchar.h>

#include "collectives/collectives.h"

/* ---- the loops ------------------------------------------------------------------------------------------- */

/* Compiles each loop twice, with and without AVX2; the dynamic linker chooses when the library is loaded. Results are
 * bit-identical. Not under a sanitizer: the choice is made before the sanitizer's runtime is initialized. */
#if defined(__x86_64__) && !defined(__AVX2__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define WIDE __attribute__((target_clones("avx2", "default")))
#else
#define WIDE
#endif

/* `restrict`: in and inout never overlap. aligned(1): a user buffer may have any address, and packed elements follow each
 * other without gaps. Without aligned(1) the compiler moves 16-byte numbers by instructions that fault on unaligned addresses. */
#define LOOP(name, T, expr)                                                                                          \
	static WIDE void name(const void *vin, void *vio, size_t n)                                                       \
	{                                                                                                            \
		typedef T element __attribute__((aligned(1)));                                                       \
		const element *restrict in = vin;                                                                    \
		element *restrict io = vio;                                                                          \
                                                                                                                     \
		_Pragma("omp simd") for (size_t i = 0; i < n; i++) io[i] = (T)(expr);                                \
	}

#define LOOPS_ORDER(r, T)                                                                                            \
	LOOP(min_##r, T, in[i] < io[i] ? in[i] : io[i])                                                              \
	LOOP(max_##r, T, in[i] > io[i] ? in[i] : io[i])

/* Integers wrap around: the arithmetic is unsigned and never narrower than unsigned int. */
#define LOOPS_INT(r, T, U)                                                                                           \
	LOOPS_ORDER(r, T)                                                                                            \
	LOOP(sum_##r, T, (U)in[i] + (U)io[i])                                                                        \
	LOOP(prod_##r, T, (U)in[i] * (U)io[i])                                                                       \
	LOOP(band_##r, T, in[i] & io[i])                                                                             \
	LOOP(bor_##r, T, in[i] | io[i])                                                                              \
	LOOP(bxor_##r, T, in[i] ^ io[i])                                                                             \
	LOOP(land_##r, T, in[i] && io[i])                                                                            \
	LOOP(lor_##r, T, in[i] || io[i])                                                                             \
	LOOP(lxor_##r, T, !in[i] != !io[i])

LOOPS_INT(i8, int8_t, unsigned)
LOOPS_INT(u8, uint8_t, unsigned)
LOOPS_INT(i16, int16_t, unsigned)
LOOPS_INT(u16, uint16_t, unsigned)
LOOPS_INT(i32, int32_t, uint32_t)
LOOPS_INT(u32, uint32_t, uint32_t)
LOOPS_INT(i64, int64_t, uint64_t)
LOOPS_INT(u64, uint64_t, uint64_t)

#ifdef __SIZEOF_INT128__
__extension__ typedef __int128 i128;
__extension__ typedef unsigned __int128 u128;
LOOPS_INT(i128, i128, u128)
#endif

#define LOOPS_FLOAT(r, T)                                                                                            \
	LOOPS_ORDER(r, T)                                                                                            \
	LOOP(sum_##r, T, in[i] + io[i])                                                                              \
	LOOP(prod_##r, T, in[i] * io[i])

LOOPS_FLOAT(f32, float)
LOOPS_FLOAT(f64, double)
LOOPS_FLOAT(fld, long double)

#define LOOPS_COMPLEX(r, T)                                                                                          \
	LOOP(sum_##r, T, in[i] + io[i])                                                                              \
	LOOP(prod_##r, T, in[i] * io[i])

LOOPS_COMPLEX(c32, float complex)
LOOPS_COMPLEX(c64, double complex)
LOOPS_COMPLEX(cld, long double complex)

/* The standard's optional types that the compiler has. */
#ifdef __FLT16_MAX__
__extension__ typedef _Float16 f16;
__extension__ typedef _Complex _Float16 c16;
LOOPS_FLOAT(f16, f16)
LOOPS_COMPLEX(c16, c16)
#endif
#if LDBL_MANT_DIG == 113
#define HAVE_F128
typedef long double f128;
typedef long double complex c128;
#elif defined(__SIZEOF_FLOAT128__)
#define HAVE_F128
__extension__ typedef __float128 f128;
typedef _Complex float c128 __attribute__((mode(TC)));
#endif
#ifdef HAVE_F128
LOOPS_FLOAT(f128, f128)
LOOPS_COMPLEX(c128, c128)
#endif

/*
 * MINLOC, MAXLOC: of equal values the smaller index (section 6.9.4). Value and index are loaded and stored separately: padding
 * between and behind them is the program's memory and must not be written. at: offset of the index in an element. stride:
 * bytes from one element to the next.
 */
#define LOOP_LOC(name, V, I, at, stride, before)                                                                     \
	static void name(const void *vin, void *vio, size_t n)                                                       \
	{                                                                                                            \
		const char *restrict in = vin;                                                                       \
		char *restrict io = vio;                                                                             \
                                                                                                                     \
		for (; n; n--, in += (stride), io += (stride)) {                                                     \
			V a, b;                                                                                      \
			I i, k;                                                                                      \
                                                                                                                     \
			memcpy(&a, in, sizeof(a));                                                                   \
			memcpy(&b, io, sizeof(b));                                                                   \
			memcpy(&i, in + (at), sizeof(i));                                                            \
			memcpy(&k, io + (at), sizeof(k));                                                            \
			if (a before b || (a == b && i < k)) {                                                       \
				memcpy(io, in, sizeof(a));                                                           \
				memcpy(io + (at), &i, sizeof(i));                                                    \
			}                                                                                            \
		}                                                                                                    \
	}

/* Packed elements. */
#define LOOPS_PAIR(r, V, I)                                                                                          \
	LOOP_LOC(minloc_##r, V, I, sizeof(V), sizeof(V) + sizeof(I), <)                                              \
	LOOP_LOC(maxloc_##r, V, I, sizeof(V), sizeof(V) + sizeof(I), >)

LOOPS_PAIR(f32_int, float, int)
LOOPS_PAIR(f64_int, double, int)
LOOPS_PAIR(long_int, long, int)
LOOPS_PAIR(2int, int, int)
LOOPS_PAIR(short_int, short, int)
LOOPS_PAIR(fld_int, long double, int)
LOOPS_PAIR(2f32, float, float)
LOOPS_PAIR(2f64, double, double)

/* Elements in memory, of types with padding. */
#define LOOPS_PAIR_IN_MEMORY(r, V, I)                                                                                \
	struct pair_##r {                                                                                            \
		V value;                                                                                             \
		I index;                                                                                             \
	};                                                                                                           \
	LOOP_LOC(minloc_in_memory_##r, V, I, offsetof(struct pair_##r, index), sizeof(struct pair_##r), <)           \
	LOOP_LOC(maxloc_in_memory_##r, V, I, offsetof(struct pair_##r, index), sizeof(struct pair_##r), >)

LOOPS_PAIR_IN_MEMORY(f64_int, double, int)
LOOPS_PAIR_IN_MEMORY(long_int, long, int)
LOOPS_PAIR_IN_MEMORY(short_int, short, int)
LOOPS_PAIR_IN_MEMORY(fld_int, long double, int)

#define ROW_INT(R, r)                                                                                                \
	[R] = {                                                                                                      \
		[HDL_OP_SUM] = sum_##r, [HDL_OP_MIN] = min_##r, [HDL_OP_MAX] = max_##r, [HDL_OP_PROD] = prod_##r,    \
		[HDL_OP_BAND] = band_##r, [HDL_OP_BOR] = bor_##r, [HDL_OP_BXOR] = bxor_##r,                          \
		[HDL_OP_LAND] = land_##r, [HDL_OP_LOR] = lor_##r, [HDL_OP_LXOR] = lxor_##r,                          \
	}
#define ROW_FLOAT(R, r)                                                                                              \
	[R] = { [HDL_OP_SUM] = sum_##r, [HDL_OP_MIN] = min_##r, [HDL_OP_MAX] = max_##r, [HDL_OP_PROD] = prod_##r }
#define ROW_COMPLEX(R, r) [R] = { [HDL_OP_SUM] = sum_##r, [HDL_OP_PROD] = prod_##r }
#define ROW_PAIR(R, r) [R] = { [HDL_OP_MINLOC] = minloc_##r, [HDL_OP_MAXLOC] = maxloc_##r }
#define ROW_IN_MEMORY(R, r) [R] = { [HDL_OP_MINLOC] = minloc_in_memory_##r, [HDL_OP_MAXLOC] = maxloc_in_memory_##r }

static const hdl_op_fn loops[HDL_REPS][HDL_OPS] = {
	ROW_INT(HDL_REP_I8, i8), ROW_INT(HDL_REP_U8, u8), ROW_INT(HDL_REP_I16, i16), ROW_INT(HDL_REP_U16, u16),
	ROW_INT(HDL_REP_I32, i32), ROW_INT(HDL_REP_U32, u32), ROW_INT(HDL_REP_I64, i64), ROW_INT(HDL_REP_U64, u64),
	ROW_FLOAT(HDL_REP_F32, f32), ROW_FLOAT(HDL_REP_F64, f64), ROW_FLOAT(HDL_REP_FLD, fld),
	ROW_COMPLEX(HDL_REP_C32, c32), ROW_COMPLEX(HDL_REP_C64, c64), ROW_COMPLEX(HDL_REP_CLD, cld),
	ROW_PAIR(HDL_REP_P_F32_INT, f32_int), ROW_PAIR(HDL_REP_P_F64_INT, f64_int),
	ROW_PAIR(HDL_REP_P_LONG_INT, long_int), ROW_PAIR(HDL_REP_P_2INT, 2int),
	ROW_PAIR(HDL_REP_P_SHORT_INT, short_int), ROW_PAIR(HDL_REP_P_FLD_INT, fld_int),
	ROW_PAIR(HDL_REP_P_2F32, 2f32), ROW_PAIR(HDL_REP_P_2F64, 2f64),
#ifdef __SIZEOF_INT128__
	ROW_INT(HDL_REP_I128, i128),
#endif
#ifdef __FLT16_MAX__
	ROW_FLOAT(HDL_REP_F16, f16), ROW_COMPLEX(HDL_REP_C16, c16),
#endif
#ifdef HAVE_F128
	ROW_FLOAT(HDL_REP_F128, f128), ROW_COMPLEX(HDL_REP_C128, c128),
#endif
};

/* Replaces `loops` for elements in memory that have padding. */
static const hdl_op_fn loops_in_memory[HDL_REPS][HDL_OPS] = {
	ROW_IN_MEMORY(HDL_REP_P_F64_INT, f64_int), ROW_IN_MEMORY(HDL_REP_P_LONG_INT, long_int),
	ROW_IN_MEMORY(HDL_REP_P_SHORT_INT, short_int), ROW_IN_MEMORY(HDL_REP_P_FLD_INT, fld_int),
};

/* ---- operations ------------------------------------------------------------------------------------------ */

#define C(cls) (1u << HDL_CLASS_##cls)

static const struct {
	MPI_Op handle;
	const char *name;
	unsigned classes;	/* classes on which the operation is valid (section 6.9.2). CHAR, and logical operations on
				 * MULTI, exceed the standard, as in other MPI libraries */
} ops[HDL_OPS] = {
	[HDL_OP_SUM] = { MPI_SUM, "SUM", C(INT) | C(FINT) | C(FLOAT) | C(COMPLEX) | C(MULTI) | C(CHAR) },
	[HDL_OP_MIN] = { MPI_MIN, "MIN", C(INT) | C(FINT) | C(FLOAT) | C(MULTI) | C(CHAR) },
	[HDL_OP_MAX] = { MPI_MAX, "MAX", C(INT) | C(FINT) | C(FLOAT) | C(MULTI) | C(CHAR) },
	[HDL_OP_PROD] = { MPI_PROD, "PROD", C(INT) | C(FINT) | C(FLOAT) | C(COMPLEX) | C(MULTI) | C(CHAR) },
	[HDL_OP_BAND] = { MPI_BAND, "BAND", C(INT) | C(FINT) | C(BYTE) | C(MULTI) | C(CHAR) },
	[HDL_OP_BOR] = { MPI_BOR, "BOR", C(INT) | C(FINT) | C(BYTE) | C(MULTI) | C(CHAR) },
	[HDL_OP_BXOR] = { MPI_BXOR, "BXOR", C(INT) | C(FINT) | C(BYTE) | C(MULTI) | C(CHAR) },
	[HDL_OP_LAND] = { MPI_LAND, "LAND", C(INT) | C(LOGICAL) | C(MULTI) | C(CHAR) },
	[HDL_OP_LOR] = { MPI_LOR, "LOR", C(INT) | C(LOGICAL) | C(MULTI) | C(CHAR) },
	[HDL_OP_LXOR] = { MPI_LXOR, "LXOR", C(INT) | C(LOGICAL) | C(MULTI) | C(CHAR) },
	[HDL_OP_MINLOC] = { MPI_MINLOC, "MINLOC", C(PAIR) },
	[HDL_OP_MAXLOC] = { MPI_MAXLOC, "MAXLOC", C(PAIR) },
};

int hdl_op_index(MPI_Op op)
{
	for (int i = 0; i < HDL_OPS; i++)
		if (ops[i].handle == op)
			return i;
	return -1;
}

const char *hdl_op_name(MPI_Op op)
{
	int i = hdl_op_index(op);

	return i < 0 ? "?" : ops[i].name;
}

/* ---- types ----------------------------------------------------------------------------------------------- */

/* The standard leaves the widths of C's types to the compiler: representations are derived from sizeof. */
#define SINT(T) (sizeof(T) == 1 ? HDL_REP_I8 : sizeof(T) == 2 ? HDL_REP_I16 : sizeof(T) == 4 ? HDL_REP_I32 : HDL_REP_I64)
#define UINT(T) (sizeof(T) == 1 ? HDL_REP_U8 : sizeof(T) == 2 ? HDL_REP_U16 : sizeof(T) == 4 ? HDL_REP_U32 : HDL_REP_U64)
#define TYPE(h, rep, cls) { rep, HDL_CLASS_##cls, #h, h }

static const struct hdl_reptype reptypes[] = {
	TYPE(MPI_INT, SINT(int), INT), TYPE(MPI_LONG, SINT(long), INT), TYPE(MPI_SHORT, SINT(short), INT),
	TYPE(MPI_UNSIGNED_SHORT, UINT(unsigned short), INT), TYPE(MPI_UNSIGNED, UINT(unsigned), INT),
	TYPE(MPI_UNSIGNED_LONG, UINT(unsigned long), INT), TYPE(MPI_LONG_LONG, SINT(long long), INT),
	TYPE(MPI_UNSIGNED_LONG_LONG, UINT(unsigned long long), INT), TYPE(MPI_SIGNED_CHAR, HDL_REP_I8, INT),
	TYPE(MPI_UNSIGNED_CHAR, HDL_REP_U8, INT), TYPE(MPI_INT8_T, HDL_REP_I8, INT), TYPE(MPI_UINT8_T, HDL_REP_U8, INT),
	TYPE(MPI_INT16_T, HDL_REP_I16, INT), TYPE(MPI_UINT16_T, HDL_REP_U16, INT), TYPE(MPI_INT32_T, HDL_REP_I32, INT),
	TYPE(MPI_UINT32_T, HDL_REP_U32, INT), TYPE(MPI_INT64_T, HDL_REP_I64, INT), TYPE(MPI_UINT64_T, HDL_REP_U64, INT),
	TYPE(MPI_CHAR, CHAR_MIN < 0 ? HDL_REP_I8 : HDL_REP_U8, CHAR), TYPE(MPI_AINT, SINT(MPI_Aint), MULTI),
	TYPE(MPI_COUNT, SINT(MPI_Count), MULTI), TYPE(MPI_OFFSET, SINT(MPI_Offset), MULTI),
	TYPE(MPI_FLOAT, HDL_REP_F32, FLOAT), TYPE(MPI_DOUBLE, HDL_REP_F64, FLOAT),
	TYPE(MPI_LONG_DOUBLE, HDL_REP_FLD, FLOAT),
	TYPE(MPI_C_BOOL, UINT(_Bool), LOGICAL), TYPE(MPI_BYTE, HDL_REP_U8, BYTE),
	TYPE(MPI_C_FLOAT_COMPLEX, HDL_REP_C32, COMPLEX), TYPE(MPI_C_DOUBLE_COMPLEX, HDL_REP_C64, COMPLEX),
	TYPE(MPI_C_LONG_DOUBLE_COMPLEX, HDL_REP_CLD, COMPLEX),
	TYPE(MPI_FLOAT_INT, HDL_REP_P_F32_INT, PAIR), TYPE(MPI_DOUBLE_INT, HDL_REP_P_F64_INT, PAIR),
	TYPE(MPI_LONG_INT, HDL_REP_P_LONG_INT, PAIR), TYPE(MPI_2INT, HDL_REP_P_2INT, PAIR),
	TYPE(MPI_SHORT_INT, HDL_REP_P_SHORT_INT, PAIR), TYPE(MPI_LONG_DOUBLE_INT, HDL_REP_P_FLD_INT, PAIR),
	/* Types of other languages, if the header declares them. */
#ifdef MPI_CXX_BOOL
	TYPE(MPI_CXX_BOOL, HDL_REP_U8, LOGICAL), TYPE(MPI_CXX_FLOAT_COMPLEX, HDL_REP_C32, COMPLEX),
	TYPE(MPI_CXX_DOUBLE_COMPLEX, HDL_REP_C64, COMPLEX), TYPE(MPI_CXX_LONG_DOUBLE_COMPLEX, HDL_REP_CLD, COMPLEX),
#endif
#ifdef MPI_INTEGER
	TYPE(MPI_LOGICAL, HDL_REP_I32, LOGICAL), TYPE(MPI_INTEGER, HDL_REP_I32, FINT), TYPE(MPI_REAL, HDL_REP_F32, FLOAT),
	TYPE(MPI_COMPLEX, HDL_REP_C32, COMPLEX), TYPE(MPI_DOUBLE_PRECISION, HDL_REP_F64, FLOAT),
	TYPE(MPI_DOUBLE_COMPLEX, HDL_REP_C64, COMPLEX),
	TYPE(MPI_2REAL, HDL_REP_P_2F32, PAIR), TYPE(MPI_2DOUBLE_PRECISION, HDL_REP_P_2F64, PAIR),
	TYPE(MPI_2INTEGER, HDL_REP_P_2INT, PAIR),
#endif
#ifdef MPI_INTEGER1
	TYPE(MPI_INTEGER1, HDL_REP_I8, FINT), TYPE(MPI_INTEGER2, HDL_REP_I16, FINT),
	TYPE(MPI_INTEGER4, HDL_REP_I32, FINT), TYPE(MPI_INTEGER8, HDL_REP_I64, FINT),
	TYPE(MPI_REAL4, HDL_REP_F32, FLOAT), TYPE(MPI_REAL8, HDL_REP_F64, FLOAT),
	TYPE(MPI_COMPLEX8, HDL_REP_C32, COMPLEX), TYPE(MPI_COMPLEX16, HDL_REP_C64, COMPLEX),
#endif
#ifdef MPI_LOGICAL1
	TYPE(MPI_LOGICAL1, HDL_REP_I8, LOGICAL), TYPE(MPI_LOGICAL2, HDL_REP_I16, LOGICAL),
	TYPE(MPI_LOGICAL4, HDL_REP_I32, LOGICAL), TYPE(MPI_LOGICAL8, HDL_REP_I64, LOGICAL),
	TYPE(MPI_LOGICAL16, HDL_REP_I128, LOGICAL), TYPE(MPI_INTEGER16, HDL_REP_I128, FINT),
	TYPE(MPI_REAL2, HDL_REP_F16, FLOAT), TYPE(MPI_COMPLEX4, HDL_REP_C16, COMPLEX),
	TYPE(MPI_REAL16, HDL_REP_F128, FLOAT), TYPE(MPI_COMPLEX32, HDL_REP_C128, COMPLEX),
#endif
};

#define NREPTYPES ARRAY_SIZE(reptypes)
static const struct hdl_reptype no_reptype = { HDL_REP_NONE, HDL_CLASS_NONE, "?", MPI_DATATYPE_NULL };

/*
 * Hash from a type's object to its entry in reptypes: open addressing, at most half full, read-only after the first use. Every
 * reduction checks validity, so a linear search would be measurable.
 */
#define HASH_BITS 8
_Static_assert(NREPTYPES * 2 <= 1 << HASH_BITS, "the hash of reducible types is at most half full");
static struct {
	const struct hdl_type *type;
	const struct hdl_reptype *rep;
} by_type[1 << HASH_BITS];
static pthread_once_t by_type_once = PTHREAD_ONCE_INIT;

static size_t ops_slot_of(const struct hdl_type *type)
{
	return (size_t)((uintptr_t)type * 0x9e3779b97f4a7c15ULL >> (64 - HASH_BITS));
}

static void by_type_build(void)
{
	for (size_t i = 0; i < NREPTYPES; i++) {
		const struct hdl_type *type = hdl_type_get(reptypes[i].handle);
		size_t s;

		if (!type)
			continue;
		for (s = ops_slot_of(type); by_type[s].type && by_type[s].type != type; s = (s + 1) % (1 << HASH_BITS))
			;
		if (!by_type[s].type) {
			by_type[s].rep = &reptypes[i];
			by_type[s].type = type;
		}
	}
}

static bool is_name(const char *given, const char *name)
{
	return !strcmp(given + (strncmp(given, "MPI_", 4) ? 0 : 4), name + (strncmp(name, "MPI_", 4) ? 0 : 4));
}

MPI_Op hdl_op_named(const char *name)
{
	for (int i = 0; i < HDL_OPS; i++)
		if (is_name(name, ops[i].name))
			return ops[i].handle;
	return MPI_OP_NULL;
}

const struct hdl_type *hdl_reptype_named(const char *name)
{
	for (size_t i = 0; i < NREPTYPES; i++)
		if (is_name(name, reptypes[i].name))
			return hdl_type_get(reptypes[i].handle);
	return NULL;
}

const struct hdl_reptype *hdl_reptype(const struct hdl_type *type)
{
	pthread_once(&by_type_once, by_type_build);
	if (!type)
		return &no_reptype;
	if (hdl_type_is_predefined(type))
		type = hdl_type_base(type);	/* MPI_Type_create_f90_*: the predefined type that is equal to the new type */
	for (size_t s = ops_slot_of(type); by_type[s].type; s = (s + 1) % (1 << HASH_BITS))
		if (by_type[s].type == type)
			return by_type[s].rep;
	return &no_reptype;
}

hdl_op_fn hdl_op_lookup(MPI_Op op, const struct hdl_type *type)
{
	const struct hdl_reptype *t = hdl_reptype(type);
	int i = hdl_op_index(op);

	return i >= 0 && (ops[i].classes & 1u << t->cls) ? loops[t->rep][i] : NULL;
}

bool hdl_op_is_sided(MPI_Op op, const struct hdl_type *type)
{
	enum hdl_class cls = hdl_reptype(type)->cls;

	if (cls == HDL_CLASS_FLOAT)
		return op != MPI_SUM && op != MPI_PROD;
	return cls == HDL_CLASS_PAIR || (cls == HDL_CLASS_COMPLEX && op == MPI_PROD);
}

bool hdl_op_valid(MPI_Op op, const struct hdl_type *type)
{
	return hdl_op_lookup(op, type) != NULL;
}

void hdl_op_apply(MPI_Op op, const struct hdl_type *type, const void *in, void *inout, MPI_Count count)
{
	hdl_op_fn fn = hdl_op_lookup(op, type);

	if (fn && !hdl_type_is_contiguous(type))
		fn = loops_in_memory[hdl_reptype(type)->rep][hdl_op_index(op)];
	if (fn && count > 0)
		fn(in, inout, (size_t)count);
}
