/* SPDX-License-Identifier: BSD-3-Clause */
/* Datatypes (MPI-5.0 chapter 5): handles, predefined ones, sizes, bounds, contents, elements, external32. */
#include <criterion/criterion.h>
#include <complex.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#include "datatype_map.h"

/* ---- predefined types ---------------------------------------------------------------------------------------------- */

Test(types, predefined_sizes)
{
	static const struct {
		MPI_Datatype h;
		size_t size;
	} want[] = {
		{ MPI_CHAR, 1 }, { MPI_SIGNED_CHAR, 1 }, { MPI_UNSIGNED_CHAR, 1 }, { MPI_BYTE, 1 }, { MPI_PACKED, 1 },
		{ MPI_WCHAR, sizeof(wchar_t) }, { MPI_SHORT, sizeof(short) }, { MPI_UNSIGNED_SHORT, sizeof(short) },
		{ MPI_INT, sizeof(int) }, { MPI_UNSIGNED, sizeof(int) }, { MPI_LONG, sizeof(long) },
		{ MPI_UNSIGNED_LONG, sizeof(long) }, { MPI_LONG_LONG, 8 }, { MPI_LONG_LONG_INT, 8 },
		{ MPI_UNSIGNED_LONG_LONG, 8 }, { MPI_FLOAT, 4 }, { MPI_DOUBLE, 8 },
		{ MPI_LONG_DOUBLE, sizeof(long double) },
		{ MPI_C_BOOL, sizeof(_Bool) }, { MPI_INT8_T, 1 }, { MPI_INT16_T, 2 }, { MPI_INT32_T, 4 },
		{ MPI_INT64_T, 8 },
		{ MPI_UINT8_T, 1 }, { MPI_UINT16_T, 2 }, { MPI_UINT32_T, 4 }, { MPI_UINT64_T, 8 },
		{ MPI_AINT, sizeof(MPI_Aint) }, { MPI_OFFSET, sizeof(MPI_Offset) }, { MPI_COUNT, sizeof(MPI_Count) },
		{ MPI_C_COMPLEX, sizeof(float complex) }, { MPI_C_FLOAT_COMPLEX, sizeof(float complex) },
		{ MPI_C_DOUBLE_COMPLEX, sizeof(double complex) },
		{ MPI_C_LONG_DOUBLE_COMPLEX, sizeof(long double complex) },
		{ MPI_LOGICAL, 4 }, { MPI_INTEGER, 4 }, { MPI_REAL, 4 }, { MPI_DOUBLE_PRECISION, 8 }, { MPI_COMPLEX, 8 },
		{ MPI_DOUBLE_COMPLEX, 16 }, { MPI_CHARACTER, 1 }, { MPI_INTEGER1, 1 }, { MPI_INTEGER2, 2 },
		{ MPI_INTEGER4, 4 }, { MPI_INTEGER8, 8 }, { MPI_INTEGER16, 16 }, { MPI_REAL2, 2 }, { MPI_REAL4, 4 },
		{ MPI_REAL8, 8 }, { MPI_REAL16, 16 }, { MPI_COMPLEX4, 4 }, { MPI_COMPLEX8, 8 }, { MPI_COMPLEX16, 16 },
		{ MPI_COMPLEX32, 32 }, { MPI_LOGICAL1, 1 }, { MPI_LOGICAL16, 16 },
	};

	for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++) {
		struct hdl_type *t = get(want[i].h);
		const char *name = hdl_type_constant_name(t);

		cr_assert_eq((size_t)hdl_type_size(t), want[i].size, "%s", name);
		cr_assert_eq((size_t)hdl_type_extent(t), want[i].size, "%s", name);
		cr_assert(t->contiguous && t->committed && t->predefined && t->one_run, "%s", name);
		cr_assert_eq(hdl_type_handle(t), want[i].h);
		cr_assert_eq(hdl_type_base(t), t);
	}
	for (int i = 0; i <= HDL_TYPE_LAST - HDL_TYPE_FIRST; i++)
		cr_assert_eq(hdl_types[i].obj.magic == HDL_MAGIC_TYPE, hdl_type_constant_name(&hdl_types[i]) != NULL);
}

Test(types, not_types)
{
	struct hdl_type *t = MAKE(VECTOR, get(MPI_INT), 2, 1, 2);
	char elsewhere[4096];

	cr_assert_null(hdl_type_get(MPI_DATATYPE_NULL));
	cr_assert_null(hdl_type_get((MPI_Datatype)0));
	cr_assert_null(hdl_type_get((MPI_Datatype)0x101));
	cr_assert_null(hdl_type_get((MPI_Datatype)0x25a));
	cr_assert_null(hdl_type_get((MPI_Datatype)0xfff));
	cr_assert_eq(hdl_type_get((MPI_Datatype)t), t);
	cr_assert_null(hdl_type_get((MPI_Datatype)((char *)t + 1)));
	cr_assert_null(hdl_type_get((MPI_Datatype)((char *)t + 8)));
	/* addresses of no type, and of objects of other kinds */
	cr_assert_null(hdl_type_get((MPI_Datatype)elsewhere));
	for (int bit = 12; bit < 64; bit++)
		cr_assert_null(hdl_type_get((MPI_Datatype)(1ul << bit)));
	cr_assert_null(hdl_type_get((MPI_Datatype)-8l));
	hdl_type_close(t);
	cr_assert_null(hdl_type_get((MPI_Datatype)t));
}

Test(types, handles_and_references)
{
	struct hdl_type *in = MAKE(VECTOR, get(MPI_INT), 2, 1, 2), *out = MAKE(CONTIGUOUS, in, 3);
	MPI_Datatype handle;

	/* a freed type lives on in another, but its handle is no more */
	hdl_type_close(in);
	cr_assert_null(hdl_type_get((MPI_Datatype)in));
	commit(out);
	cr_assert_eq(hdl_type_size(out), 24);
	/* until the caller asks for the handle again */
	hdl_type_decode(out, (int[1]){ 0 }, NULL, NULL, &handle);
	cr_assert_eq(hdl_type_get(handle), in);
	hdl_type_retain(out);		/* a pending operation */
	hdl_type_close(out);
	cr_assert_null(hdl_type_get((MPI_Datatype)out));
	cr_assert(out->layout);
	hdl_type_release(out);
	cr_assert_eq(hdl_type_get(handle), in);
	hdl_type_close(in);
	cr_assert_null(hdl_type_get(handle));
	hdl_type_release(get(MPI_INT));	/* no effect */
	cr_assert_not_null(hdl_type_get(MPI_INT));
}

/* A handle that was freed names no other type while ten others are made. */
Test(types, freed_handles_are_not_used_again_soon)
{
	struct hdl_type *t = MAKE(CONTIGUOUS, get(MPI_INT), 2), *more[1000];

	hdl_type_close(t);
	for (int i = 0; i < 10; i++) {
		more[i] = MAKE(CONTIGUOUS, get(MPI_INT), i);
		cr_assert_neq(more[i], t);
		hdl_type_close(more[i]);
	}
	for (int i = 0; i < 1000; i++)
		more[i] = MAKE(CONTIGUOUS, get(MPI_INT), i);
	for (int i = 0; i < 1000; i++) {
		cr_assert_eq(hdl_type_get((MPI_Datatype)more[i]), more[i]);
		cr_assert_eq(more[i]->size, 4 * i);
		hdl_type_close(more[i]);
	}
}

Test(types, pairs)
{
	struct { short v; int i; } s[2] = { { 1, 2 }, { 3, 4 } }, r[2];
	struct hdl_type *t = get(MPI_SHORT_INT);
	char packed[12];
	short v;
	int i;

	cr_assert_eq(hdl_type_size(t), 6);
	cr_assert_eq(hdl_type_extent(t), 8);
	cr_assert(!t->contiguous && !t->one_run);
	hdl_pack(packed, s, 2, t, 0, 12);
	memcpy(&v, packed + 6, 2);
	memcpy(&i, packed + 8, 4);
	cr_assert_eq(v, 3);
	cr_assert_eq(i, 4);
	memset(r, 0, sizeof(r));
	hdl_unpack(r, packed, 2, t, 0, 12);
	cr_assert(r[0].v == 1 && r[0].i == 2 && r[1].v == 3 && r[1].i == 4);
	t = get(MPI_DOUBLE_INT);
	cr_assert_eq(hdl_type_size(t), 12);
	cr_assert_eq(hdl_type_extent(t), 16);
	cr_assert(hdl_type_is_run(t, 1) && !hdl_type_is_run(t, 2));
	cr_assert(get(MPI_2INT)->contiguous && get(MPI_FLOAT_INT)->contiguous);
	cr_assert_eq(hdl_type_size(get(MPI_LONG_DOUBLE_INT)), sizeof(long double) + 4);
	cr_assert_eq(hdl_type_pair(MPI_DOUBLE, MPI_INT), MPI_DOUBLE_INT);
	cr_assert_eq(hdl_type_pair(MPI_INT, MPI_INT), MPI_2INT);
	cr_assert_eq(hdl_type_pair(MPI_REAL, MPI_REAL), MPI_2REAL);
	cr_assert_eq(hdl_type_pair(MPI_INT, MPI_DOUBLE), MPI_DATATYPE_NULL);
	cr_assert_eq(hdl_type_pair(MPI_2INT, MPI_INT), MPI_DATATYPE_NULL);
}

Test(types, by_size_and_precision)
{
	struct hdl_type *t = hdl_type_f90(MPI_COMBINER_F90_REAL, 15, MPI_UNDEFINED), *u;

	cr_assert_eq(hdl_type_match_size(MPI_TYPECLASS_REAL, 8), MPI_REAL8);
	cr_assert_eq(hdl_type_match_size(MPI_TYPECLASS_INTEGER, 2), MPI_INTEGER2);
	cr_assert_eq(hdl_type_match_size(MPI_TYPECLASS_COMPLEX, 8), MPI_COMPLEX8);
	cr_assert_eq(hdl_type_match_size(MPI_TYPECLASS_REAL, 1), MPI_DATATYPE_NULL);
	cr_assert_eq(hdl_type_match_size(1, 4), MPI_DATATYPE_NULL);
	cr_assert(t && t->predefined && t->committed && t->size == 8 && t->base == MPI_REAL8);
	cr_assert_eq(hdl_type_f90(MPI_COMBINER_F90_REAL, 15, MPI_UNDEFINED), t);
	u = hdl_type_f90(MPI_COMBINER_F90_REAL, 15, 307);	/* other arguments, another envelope */
	cr_assert(u && u != t && u->size == 8 && u->args[1] == 307);
	cr_assert_eq(hdl_type_f90(MPI_COMBINER_F90_REAL, 6, 37)->size, 4);
	cr_assert_eq(hdl_type_f90(MPI_COMBINER_F90_REAL, 6, 38)->size, 8);
	cr_assert_eq(hdl_type_f90(MPI_COMBINER_F90_COMPLEX, 7, MPI_UNDEFINED)->size, 16);
	cr_assert_null(hdl_type_f90(MPI_COMBINER_F90_REAL, 34, MPI_UNDEFINED));
	cr_assert_eq(hdl_type_f90(MPI_COMBINER_F90_INTEGER, MPI_UNDEFINED, 9)->size, 4);
	cr_assert_eq(hdl_type_f90(MPI_COMBINER_F90_INTEGER, MPI_UNDEFINED, 10)->size, 8);
	cr_assert_null(hdl_type_f90(MPI_COMBINER_F90_INTEGER, MPI_UNDEFINED, 39));
	hdl_type_close(t);		/* no effect */
	cr_assert_eq(hdl_type_get((MPI_Datatype)t), t);
}

/* ---- bounds -------------------------------------------------------------------------------------------------------- */

Test(types, vector_bounds)
{
	struct hdl_type *t = MAKE(VECTOR, get(MPI_INT), 3, 2, 5), *n = MAKE(VECTOR, get(MPI_INT), 3, 2, -5), *nn;

	cr_assert_eq(hdl_type_size(t), 24);
	cr_assert_eq(hdl_type_lb(t), 0);
	cr_assert_eq(hdl_type_extent(t), 48);		/* (2 * 5 + 2) ints */
	cr_assert(!t->contiguous && !t->committed);
	cr_assert_eq(hdl_type_lb(n), -40);
	cr_assert_eq(hdl_type_extent(n), 48);
	cr_assert_eq(n->true_lb, -40);
	nn = MAKE(VECTOR, n, 2, 1, 3);			/* blocks of extent 48 */
	cr_assert_eq(hdl_type_lb(nn), -40);
	cr_assert_eq(hdl_type_extent(nn), 48 + 3 * 48);
	cr_assert_eq(hdl_type_base(nn), get(MPI_INT));
}

/* Section 5.1.6: a compiler's padding; section 5.1.7: markers hide it, and they are inherited. */
Test(types, bounds_of_structs)
{
	struct hdl_type *t = make(MPI_COMBINER_STRUCT, 5, (MPI_Count[]){ 2, 1, 1, 0, 8 }, 2,
				  (struct hdl_type *[]){ get(MPI_DOUBLE), get(MPI_CHAR) }), *r, *s;

	cr_assert(t->lb == 0 && t->extent == 16 && t->true_extent == 9 && t->size == 9 && t->elements == 2);
	cr_assert_null(hdl_type_base(t));
	r = MAKE(RESIZED, t, -3, 9);
	cr_assert(r->lb == -3 && r->extent == 9 && r->true_lb == 0 && r->true_extent == 9);
	r = MAKE(RESIZED, get(MPI_INT), -4, 12);
	s = make(MPI_COMBINER_STRUCT, 5, (MPI_Count[]){ 2, 1, 1, 0, 100 }, 2,
		 (struct hdl_type *[]){ r, get(MPI_INT) });
	cr_assert(s->lb == -4 && s->extent == 12 && s->true_lb == 0 && s->true_extent == 104);
	s = MAKE(CONTIGUOUS, MAKE(CONTIGUOUS, get(MPI_INT), 0), 5);
	cr_assert(s->lb == 0 && s->extent == 0 && s->size == 0);
	s = MAKE(CONTIGUOUS, MAKE(RESIZED, s, 2, 10), 3);	/* nothing but markers */
	cr_assert(s->lb == 2 && s->extent == 30 && s->size == 0 && s->true_extent == 0 && !s->true_lb);
}

Test(types, empty)
{
	struct hdl_type *t = commit(MAKE(VECTOR, get(MPI_INT), 0, 3, 5)), *u = commit(MAKE(VECTOR, get(MPI_INT), 3, 0, 5));
	struct hdl_type *s = commit(make(MPI_COMBINER_STRUCT, 1, (MPI_Count[]){ 0 }, 0, NULL));
	union hdl_any_stream any;
	char c = 'x';
	void *run;

	cr_assert_eq(hdl_type_size(t), 0);
	cr_assert_eq(hdl_type_extent(t), 0);
	cr_assert_eq(hdl_type_extent(u), 0);
	cr_assert_eq(hdl_type_extent(s), 0);
	hdl_pack(&c, NULL, 5, t, 0, 0);
	cr_assert_eq(c, 'x');
	hdl_stream_open(&any.s, NULL, 5, t, 0);
	cr_assert_eq(hdl_stream_next(&any.s, 10, &run), 0);
	cr_assert_eq(hdl_stream_pack(&any.s, &c, 1), 0);
	cr_assert_eq(hdl_type_elements(t, 0), 0);
	cr_assert_eq(hdl_type_elements(t, 4), MPI_UNDEFINED);
}

Test(types, too_large)
{
	struct hdl_type *i = get(MPI_INT), *t, *w = MAKE(RESIZED, i, 0, INT64_MAX / 2);
	struct hdl_type *big = MAKE(CONTIGUOUS, i, INT64_MAX / 8);
	struct {
		int combiner;
		MPI_Count n, args[8];
		struct hdl_type *old;
	} cases[] = {
		{ MPI_COMBINER_CONTIGUOUS, 1, { INT64_MAX / 2 }, i },
		{ MPI_COMBINER_VECTOR, 3, { 2, 1, INT64_MAX / 4 }, get(MPI_DOUBLE) },
		{ MPI_COMBINER_VECTOR, 3, { INT64_MAX, INT64_MAX, 1 }, i },
		{ MPI_COMBINER_HVECTOR, 3, { 3, 1, INT64_MAX / 2 + 1 }, i },
		{ MPI_COMBINER_HVECTOR, 3, { 3, 1, INT64_MIN / 2 - 1 }, i },
		{ MPI_COMBINER_CONTIGUOUS, 1, { 3 }, w },
		{ MPI_COMBINER_CONTIGUOUS, 1, { 3 }, big },
		{ MPI_COMBINER_INDEXED, 5, { 2, 1, 1, 0, INT64_MAX / 2 }, i },
		{ MPI_COMBINER_INDEXED_BLOCK, 4, { 2, 1, INT64_MIN / 2, 0 }, i },
		{ MPI_COMBINER_HINDEXED, 5, { 2, 1, 1, INT64_MIN, INT64_MAX - 4 }, i },
		{ MPI_COMBINER_HINDEXED, 3, { 1, 1, INT64_MAX }, i },
		{ MPI_COMBINER_STRUCT, 3, { 1, 4, INT64_MAX - 8 }, i },
		{ MPI_COMBINER_RESIZED, 2, { INT64_MAX, 1 }, i },
		{ MPI_COMBINER_SUBARRAY, 8, { 2, 1l << 32, 1l << 32, 1, 1, 0, 0, MPI_ORDER_C }, i },
	};

	for (size_t k = 0; k < sizeof(cases) / sizeof(cases[0]); k++)
		cr_assert_eq(try_make(cases[k].combiner, cases[k].n, cases[k].args, 1, &cases[k].old, &t),
			     MPI_ERR_VALUE_TOO_LARGE, "case %zu", k);
	/* no data there, so the displacement does not matter */
	cr_assert_eq(try_make(MPI_COMBINER_INDEXED, 5, (MPI_Count[]){ 2, 1, 0, 0, INT64_MAX }, 1, &i, &t), MPI_SUCCESS);
	commit(t);
	cr_assert_eq(try_make(MPI_COMBINER_CONTIGUOUS, 1, (MPI_Count[]){ INT64_MAX / 8 }, 1, &i, &t), MPI_SUCCESS);
	check_is_run(t, 0, INT64_MAX / 8 * 4);
}

/* ---- elements ------------------------------------------------------------------------------------------------------ */

Test(types, elements)
{
	struct hdl_type *t = get(MPI_SHORT_INT), *v = MAKE(VECTOR, get(MPI_DOUBLE), 3, 2, 4), *s;

	cr_assert_eq(hdl_type_elements(t, 12), 4);
	cr_assert_eq(hdl_type_elements(t, 8), 3);
	cr_assert_eq(hdl_type_elements(t, 7), MPI_UNDEFINED);
	cr_assert_eq(hdl_type_elements(v, 40), 5);
	cr_assert_eq(hdl_type_elements(v, 41), MPI_UNDEFINED);
	cr_assert_eq(hdl_type_elements(v, 0), 0);
	cr_assert_eq(hdl_type_element_bytes(v, 5), 40);
	cr_assert_eq(hdl_type_element_bytes(v, INT64_MAX / 4), -1);
	s = make(MPI_COMBINER_STRUCT, 5, (MPI_Count[]){ 2, 3, 2, 0, 16 }, 2, (struct hdl_type *[]){ t, get(MPI_CHAR) });
	cr_assert_eq(hdl_type_elements(s, 20), 8);
	cr_assert_eq(hdl_type_elements(s, 19), 7);
	cr_assert_eq(hdl_type_elements(s, 22), 9);
	cr_assert_eq(hdl_type_elements(s, 21), MPI_UNDEFINED);
	cr_assert_eq(hdl_type_element_bytes(s, 9), 22);
}

/* ---- contents ------------------------------------------------------------------------------------------------------ */

Test(types, contents)
{
	struct hdl_type *i = get(MPI_INT), *t;
	struct hdl_contents c;
	MPI_Count large[16];
	MPI_Aint addresses[4];
	MPI_Datatype types[3];
	int ints[16];

	t = make(MPI_COMBINER_STRUCT, 5, (MPI_Count[]){ 2, 3, 4, 16, 50 }, 2, (struct hdl_type *[]){ i, dup_of(i) });
	c = hdl_type_contents(t);
	cr_assert(c.integers == 3 && c.addresses == 2 && c.large_counts == 0 && c.types == 2);
	hdl_type_decode(t, ints, addresses, NULL, types);
	cr_assert(ints[0] == 2 && ints[1] == 3 && ints[2] == 4 && addresses[0] == 16 && addresses[1] == 50);
	cr_assert(types[0] == MPI_INT && types[1] == (MPI_Datatype)t->types[1]);
	t->large = true;
	c = hdl_type_contents(t);
	cr_assert(c.integers == 0 && c.addresses == 0 && c.large_counts == 5 && c.types == 2);
	hdl_type_decode(t, NULL, NULL, large, types);
	cr_assert(large[0] == 2 && large[2] == 4 && large[3] == 16 && large[4] == 50);
	t = MAKE(DARRAY, i, 6, 3, 2, 10, 20, MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_CYCLIC, MPI_DISTRIBUTE_DFLT_DARG, 2, 3, 2,
		 MPI_ORDER_FORTRAN);
	c = hdl_type_contents(t);
	cr_assert(c.integers == 12 && c.addresses == 0 && c.types == 1);
	hdl_type_decode(t, ints, NULL, NULL, types);
	cr_assert(ints[0] == 6 && ints[3] == 10 && ints[6] == MPI_DISTRIBUTE_CYCLIC && ints[8] == 2 && ints[9] == 3 &&
		  ints[11] == MPI_ORDER_FORTRAN);
	t->large = true;
	c = hdl_type_contents(t);
	cr_assert(c.integers == 10 && c.large_counts == 2);
	hdl_type_decode(t, ints, NULL, large, types);
	cr_assert(ints[2] == 2 && ints[3] == MPI_DISTRIBUTE_BLOCK && ints[9] == MPI_ORDER_FORTRAN && large[1] == 20);
	c = hdl_type_contents(hdl_type_f90(MPI_COMBINER_F90_COMPLEX, 6, 30));
	cr_assert(c.integers == 2 && c.types == 0);
}

/* ---- external32 ---------------------------------------------------------------------------------------------------- */

static void check_external(MPI_Datatype h, const void *value, size_t there, const unsigned char *bytes)
{
	struct hdl_type *t = get(h);
	unsigned char packed[32], back[32];
	MPI_Count size;

	cr_assert_eq(hdl_external_size(t, &size), MPI_SUCCESS);
	cr_assert_eq((size_t)size, there, "%s", hdl_type_constant_name(t));
	cr_assert_eq(hdl_pack_external(packed, value, 1, t), MPI_SUCCESS);
	cr_assert(!memcmp(packed, bytes, there), "%s", hdl_type_constant_name(t));
	memset(back, 0, sizeof(back));
	cr_assert_eq(hdl_unpack_external(back, packed, 1, t), MPI_SUCCESS);
	for (MPI_Count i = 0; i < t->typed->count; i++) {
		size_t at = t->typed->kind == HDL_LIST ? t->typed->offset[i] : 0;
		size_t n = t->typed->kind == HDL_LIST ? t->typed->at[i + 1] - t->typed->at[i] : t->typed->unit;

		cr_assert(!memcmp(back + at, (const char *)value + at, h == MPI_LONG_DOUBLE ? 10 : n), "%s",
			  hdl_type_constant_name(t));
	}
}
#define EXTERNAL(handle, ctype, value, n, ...) \
	check_external(handle, &(ctype){ value }, n, (const unsigned char[32]){ __VA_ARGS__ })

/* Section 14.5.2: lengths, byte order, signs, and the formats of IEEE. */
Test(types, external32)
{
	struct { short v; int i; } pair = { 0x0102, 0x03040506 };
	double complex z = 1.0 - 2.0 * I;

	EXTERNAL(MPI_INT, int, 0x01020304, 4, 1, 2, 3, 4);
	EXTERNAL(MPI_SHORT, short, -2, 2, 0xff, 0xfe);
	EXTERNAL(MPI_LONG, long, -3, 4, 0xff, 0xff, 0xff, 0xfd);
	EXTERNAL(MPI_LONG, long, 0x01020304, 4, 1, 2, 3, 4);
	EXTERNAL(MPI_UNSIGNED_LONG, unsigned long, 0xfffffffdul, 4, 0xff, 0xff, 0xff, 0xfd);
	EXTERNAL(MPI_LONG_LONG, long long, 0x0102030405060708, 8, 1, 2, 3, 4, 5, 6, 7, 8);
	EXTERNAL(MPI_AINT, MPI_Aint, 1, 8, 0, 0, 0, 0, 0, 0, 0, 1);
	EXTERNAL(MPI_WCHAR, wchar_t, 0x20ac, 2, 0x20, 0xac);
	EXTERNAL(MPI_C_BOOL, _Bool, 1, 1, 1);
	EXTERNAL(MPI_CHAR, char, 'x', 1, 'x');
	EXTERNAL(MPI_FLOAT, float, -1.5f, 4, 0xbf, 0xc0, 0, 0);
	EXTERNAL(MPI_DOUBLE, double, 1.0, 8, 0x3f, 0xf0, 0, 0, 0, 0, 0, 0);
	check_external(MPI_C_DOUBLE_COMPLEX, &z, 16, (const unsigned char[32]){ 0x3f, 0xf0, 0, 0, 0, 0, 0, 0, 0xc0 });
	EXTERNAL(MPI_LONG_DOUBLE, long double, 1.0L, 16, 0x3f, 0xff, 0);
	EXTERNAL(MPI_LONG_DOUBLE, long double, -1.5L, 16, 0xbf, 0xff, 0x80, 0);
	EXTERNAL(MPI_LONG_DOUBLE, long double, 0.0L, 16, 0, 0, 0);
	EXTERNAL(MPI_LONG_DOUBLE, long double, __builtin_infl(), 16, 0x7f, 0xff, 0, 0);
	EXTERNAL(MPI_LONG_DOUBLE, long double, 0x1p-16445L, 16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2);
	EXTERNAL(MPI_LONG_DOUBLE, long double, 0xf.fffffffffffffffp16380L, 16, 0x7f, 0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
		 0xff, 0xfe);
	EXTERNAL(MPI_SHORT_INT, struct { short v; int i; }, 0, 6, 0, 0, 0, 0, 0, 0);
	check_external(MPI_SHORT_INT, &pair, 6, (const unsigned char[]){ 1, 2, 3, 4, 5, 6 });
}

/* Values of binary128 that the x87 cannot represent are rounded to the nearest, ties to even. */
Test(types, external32_rounding)
{
#if __LDBL_MANT_DIG__ == 64
	struct {
		unsigned char bytes[16];
		long double value;
	} cases[] = {
		{ { 0x3f, 0xff, [9] = 2 }, 1 + 0x1p-63L }, /* the last bit that there is */
		{ { 0x3f, 0xff, [9] = 1 }, 1 },		/* half of it: to even */
		{ { 0x3f, 0xff, [9] = 1, [15] = 1 }, 1 + 0x1p-63L },
		{ { 0x3f, 0xff, [9] = 3 }, 1 + 0x1p-62L },
		{ { 0x3f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff }, 2 },
	};
	long double got;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		hdl_unpack_external(&got, cases[i].bytes, 1, get(MPI_LONG_DOUBLE));
		cr_assert(got == cases[i].value, "case %zu: %La", i, got);
	}
	hdl_unpack_external(&got, (unsigned char[16]){ 0x7f, 0xff, [15] = 1 }, 1, get(MPI_LONG_DOUBLE));
	cr_assert(got != got);
#endif
}
