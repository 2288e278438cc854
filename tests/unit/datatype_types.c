/* SPDX-License-Identifier: BSD-3-Clause */
/* Datatypes (MPI-5.0 chapter 5): sizes, bounds, layouts; pack, unpack and streams against a walk over the type map. */
#include <criterion/criterion.h>
#include <complex.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#include "datatype_map.h"

static struct hdl_type *get(MPI_Datatype h)
{
	struct hdl_type *t = hdl_type_get(h);

	cr_assert_not_null(t);
	return t;
}

static int try_make(int combiner, MPI_Count nargs, const MPI_Count *args, MPI_Count n, struct hdl_type *const *old,
		    struct hdl_type **out)
{
	*out = hdl_type_new(combiner, false, nargs, n);
	cr_assert_not_null(*out);
	if (nargs)
		memcpy((*out)->args, args, nargs * sizeof(*args));
	for (MPI_Count i = 0; i < n; i++)
		(*out)->types[i] = old[i];
	return hdl_type_finish(*out);
}

static struct hdl_type *make(int combiner, MPI_Count nargs, const MPI_Count *args, MPI_Count n, struct hdl_type *const *old)
{
	struct hdl_type *t;

	cr_assert_eq(try_make(combiner, nargs, args, n, old, &t), MPI_SUCCESS);
	return t;
}
#define MAKE(name, old, ...) \
	make(MPI_COMBINER_##name, sizeof((MPI_Count[]){ __VA_ARGS__ }) / sizeof(MPI_Count), (MPI_Count[]){ __VA_ARGS__ }, 1, \
	     (struct hdl_type *[]){ old })

static struct hdl_type *dup_of(struct hdl_type *old)
{
	return make(MPI_COMBINER_DUP, 0, NULL, 1, &old);
}

static struct hdl_type *commit(struct hdl_type *t)
{
	cr_assert_eq(hdl_type_commit(t), MPI_SUCCESS);
	return t;
}

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
	/* addresses that are nobody's, or somebody else's */
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
	/* until it is asked for again */
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

/* ---- bounds and layouts -------------------------------------------------------------------------------------------- */

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

static void check_is_run(struct hdl_type *t, MPI_Aint origin, MPI_Count bytes)
{
	commit(t);
	cr_assert(hdl_layout_is_run(t->layout));
	cr_assert(t->layout->origin == origin && t->layout->bytes == bytes);
}

Test(types, what_touches_is_one_run)
{
	struct hdl_type *i = get(MPI_INT), *t = MAKE(VECTOR, i, 4, 3, 3);

	check_is_run(t, 0, 48);
	cr_assert(t->contiguous);
	check_is_run(MAKE(CONTIGUOUS, t, 7), 0, 7 * 48);
	check_is_run(MAKE(VECTOR, get(MPI_DOUBLE), 1, 5, 99), 0, 40);
	check_is_run(MAKE(INDEXED, i, 3, 2, 1, 4, 5, 7, 8), 20, 28);
	check_is_run(MAKE(HINDEXED_BLOCK, i, 2, 3, -12, 0), -12, 24);
	check_is_run(MAKE(SUBARRAY, i, 2, 10, 10, 3, 10, 4, 0, MPI_ORDER_C), 160, 120);
	check_is_run(MAKE(SUBARRAY, i, 2, 10, 10, 10, 3, 0, 4, MPI_ORDER_FORTRAN), 160, 120);
	check_is_run(make(MPI_COMBINER_STRUCT, 7, (MPI_Count[]){ 3, 1, 2, 4, 0, 8, 16 }, 3,
			  (struct hdl_type *[]){ get(MPI_DOUBLE), i, get(MPI_CHAR) }), 0, 20);
	check_is_run(dup_of(MAKE(RESIZED, t, -100, 1000)), 0, 48);
	check_is_run(MAKE(DARRAY, i, 4, 2, 1, 10, MPI_DISTRIBUTE_BLOCK, 3, 4, MPI_ORDER_C), 24, 12);
	t = commit(MAKE(RESIZED, get(MPI_DOUBLE), 0, 16));
	cr_assert(t->one_run && !t->contiguous);
}

Test(types, layouts_are_loops)
{
	struct hdl_type *d = get(MPI_DOUBLE), *t, *u;
	const struct hdl_layout *l;

	l = commit(MAKE(VECTOR, d, 10, 1, 3))->layout;
	cr_assert(l->kind == HDL_LOOP && !l->child && l->count == 10 && l->stride == 24 && l->unit == 8 && l->depth == 1);
	/* a loop that continues the one within */
	l = commit(MAKE(CONTIGUOUS, MAKE(RESIZED, d, 0, 24), 5))->layout;
	cr_assert(l->kind == HDL_LOOP && !l->child && l->count == 5 && l->stride == 24);
	t = MAKE(RESIZED, MAKE(VECTOR, d, 4, 1, 2), 0, 64);
	l = commit(MAKE(CONTIGUOUS, t, 3))->layout;
	cr_assert(l->kind == HDL_LOOP && !l->child && l->count == 12 && l->stride == 16);
	/* a face of a cube: two loops around a run */
	l = commit(MAKE(SUBARRAY, d, 3, 8, 8, 8, 8, 8, 1, 0, 0, 3, MPI_ORDER_C))->layout;
	cr_assert(l->kind == HDL_LOOP && !l->child && l->count == 64 && l->stride == 64 && l->origin == 24);
	l = commit(MAKE(SUBARRAY, d, 3, 8, 8, 8, 6, 6, 1, 1, 1, 3, MPI_ORDER_C))->layout;
	cr_assert(l->kind == HDL_LOOP && l->count == 6 && l->child->count == 6 && !l->child->child && l->depth == 2);
	/* equal blocks at equal distances, and at others */
	l = commit(MAKE(INDEXED_BLOCK, d, 3, 2, 0, 5, 10))->layout;
	cr_assert(l->kind == HDL_LOOP && l->count == 3 && l->unit == 16 && l->stride == 40);
	l = commit(MAKE(INDEXED, d, 3, 2, 2, 2, 0, 5, 11))->layout;
	cr_assert(l->kind == HDL_GATHER && l->count == 3 && l->unit == 16 && l->narrow && l->narrow[2] == 88);
	l = commit(MAKE(HINDEXED_BLOCK, d, 3, 2, 0, 16000000000, 40))->layout;
	cr_assert(l->kind == HDL_GATHER && !l->narrow && l->offset[1] == 16000000000);
	/* different ones */
	l = commit(MAKE(INDEXED, d, 3, 2, 1, 2, 0, 5, 11))->layout;
	cr_assert(l->kind == HDL_LIST && l->flat && l->at[3] == 40);
	/* a struct of few members is a flat list, whatever it was nested from */
	u = make(MPI_COMBINER_STRUCT, 5, (MPI_Count[]){ 2, 1, 2, 0, 8 }, 2, (struct hdl_type *[]){ get(MPI_INT),
		 MAKE(VECTOR, d, 2, 1, 3) });
	l = commit(u)->layout;
	cr_assert(l->kind == HDL_LIST && l->flat && l->count == 4);
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
	/* no data there, so it does not matter */
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
	EXTERNAL(MPI_LONG_DOUBLE, long double, 0xf.fffffffffffffffp16380L, 16, 0x7f, 0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfe);
	EXTERNAL(MPI_SHORT_INT, struct { short v; int i; }, 0, 6, 0, 0, 0, 0, 0, 0);
	check_external(MPI_SHORT_INT, &pair, 6, (const unsigned char[]){ 1, 2, 3, 4, 5, 6 });
}

/* What binary128 can say and the x87 cannot is rounded to the nearest, ties to even. */
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

/* ---- deep, long, shared -------------------------------------------------------------------------------------------- */

#define DEEP 100000

/* Nothing may need stack, or time, for each level of a nest. */
Test(types, deep_nests)
{
	struct hdl_type *t = get(MPI_INT), *old;
	char mem[24] = "abcdefghijklmnopqrstuvw", packed[8];
	uint64_t before = hdl_layout_steps;

	for (int i = 0; i < DEEP; i++) {
		old = t;
		switch (i % 4) {
		case 0: t = dup_of(old); break;
		case 1: t = MAKE(CONTIGUOUS, old, 1); break;
		case 2: t = MAKE(RESIZED, old, 0, 8); break;
		default: t = MAKE(STRUCT, old, 1, 1, 0); break;
		}
		hdl_type_close(old);
	}
	commit(t);
	cr_assert_lt(hdl_layout_steps - before, 20u * DEEP);
	check_is_run(t, 0, 4);
	cr_assert_eq(t->extent, 8);
	hdl_pack(packed, mem, 2, t, 0, 8);
	cr_assert(!memcmp(packed, "abcdijkl", 8));
	cr_assert_eq(hdl_type_elements(t, 4), 1);
	hdl_type_close(t);
}

/* Each level adds a member, and is committed or not: one list in the end. */
static void deep_structs(int levels, bool commit_each, unsigned steps)
{
	struct hdl_type *t = get(MPI_INT), *old;
	uint64_t before = hdl_layout_steps;
	int *mem = calloc(2 * levels + 2, sizeof(*mem)), *packed = calloc(levels + 1, sizeof(*packed));

	for (int i = 0; i < levels; i++) {
		old = t;
		t = make(MPI_COMBINER_STRUCT, 5, (MPI_Count[]){ 2, 1, 1, 0, 8 }, 2,
			 (struct hdl_type *[]){ get(MPI_INT), old });
		hdl_type_close(old);
		if (commit_each)
			commit(t);
	}
	commit(t);
	cr_assert_lt(hdl_layout_steps - before, (uint64_t)steps * levels);
	cr_assert_leq(t->layout->depth, HDL_LAYOUT_DEPTH);
	for (int i = 0; i < 2 * levels + 2; i++)
		mem[i] = i;
	hdl_pack(packed, mem, 1, t, 0, t->size);
	for (int i = 0; i <= levels; i++)
		cr_assert_eq(packed[i], 2 * i);
	cr_assert_eq(hdl_type_elements(t, 4 * levels), levels);
	hdl_type_close(t);
	free(mem);
	free(packed);
}

Test(types, deep_structs)
{
	deep_structs(DEEP, false, 20);
	deep_structs(1000, true, 2000);
}

/* Twice the same, sixty times: the type map has 2^60 entries, the layout has few. */
Test(types, shared_nests)
{
	struct hdl_type *t = get(MPI_CHAR), *old;
	uint64_t before = hdl_layout_steps;
	MPI_Aint gap = 1;

	for (int i = 0; i < 60; i++) {
		old = t;
		t = make(MPI_COMBINER_STRUCT, 5, (MPI_Count[]){ 2, 1, 1, 0, old->true_extent + gap }, 2,
			 (struct hdl_type *[]){ old, old });
		gap = i % 7;
		hdl_type_close(old);
	}
	commit(t);
	cr_assert_eq(t->size, 1l << 60);
	cr_assert_lt(hdl_layout_steps - before, 10000);
	cr_assert_leq(t->layout->depth, HDL_LAYOUT_DEPTH);
	hdl_type_close(t);
}

/* Deep and shared at once: none of the steps down halves, and lists of lists end. */
Test(types, shared_chains)
{
	struct hdl_type *chain[1000], *top = hdl_type_new(MPI_COMBINER_STRUCT, false, 2001, 1000);
	long at = 0;

	for (int i = 0; i < 1000; i++) {
		struct hdl_type *old = i ? chain[i - 1] : get(MPI_INT);

		chain[i] = make(MPI_COMBINER_STRUCT, 7, (MPI_Count[]){ 3, 1, 1, 1, 0, 8 + i % 3, old->true_extent + 100 }, 3,
				(struct hdl_type *[]){ get(MPI_CHAR), old, get(MPI_SHORT) });
	}
	top->args[0] = 1000;
	for (int i = 0; i < 1000; i++) {
		top->args[1 + i] = 1;
		top->args[1001 + i] = at;
		top->types[i] = chain[i];
		at += chain[i]->true_extent + 1 + i % 5;
	}
	cr_assert_eq(hdl_type_finish(top), MPI_SUCCESS);
	commit(top);
	cr_assert_leq(top->layout->depth, HDL_LAYOUT_DEPTH);
	cr_assert_geq(top->layout->depth, 3);
}

/* Constructed and committed in a number of steps that grows with the blocks, whatever their order. */
Test(types, many_blocks)
{
	uint64_t steps[2];

	for (int kind = 0; kind < 3; kind++) {
		for (int k = 0; k < 2; k++) {
			MPI_Count n = k ? 1000000 : 100000;
			struct hdl_type *t = hdl_type_new(MPI_COMBINER_INDEXED, false, 1 + 2 * n, 1);

			t->types[0] = kind == 2 ? MAKE(VECTOR, get(MPI_SHORT), 2, 1, 2) : get(MPI_INT);
			t->args[0] = n;
			for (MPI_Count i = 0; i < n; i++) {
				t->args[1 + i] = kind ? 1 + i % 3 : 2;
				t->args[1 + n + i] = 7 * (n - i) + i % 2;
			}
			steps[k] = hdl_layout_steps;
			cr_assert_eq(hdl_type_finish(t), MPI_SUCCESS);
			commit(t);
			steps[k] = hdl_layout_steps - steps[k];
			cr_assert_leq(steps[k], 10u * (uint64_t)n, "kind %d: %lu steps", kind, (unsigned long)steps[k]);
			hdl_type_close(t);
		}
		cr_assert_leq(steps[1], 11 * steps[0]);
	}
}

/* A place in the middle of a million blocks is found without a walk. */
Test(types, seek_is_logarithmic)
{
	MPI_Count n = 1000000;
	struct hdl_type *t = hdl_type_new(MPI_COMBINER_INDEXED, false, 1 + 2 * n, 1);
	union hdl_any_stream any;
	MPI_Count total, at = 0;
	void *run;

	t->types[0] = get(MPI_INT);
	t->args[0] = n;
	for (MPI_Count i = 0; i < n; i++) {
		t->args[1 + i] = 1 + i % 3;
		t->args[1 + n + i] = 5 * i;
	}
	cr_assert_eq(hdl_type_finish(t), MPI_SUCCESS);
	commit(t);
	total = t->size;
	/* a million seeks: a walk would take hours */
	for (MPI_Count i = 0; i < n; i++) {
		MPI_Count pos = i * 5 / 3 * 4 % total, block, in;

		hdl_stream_open(&any.s, NULL, 1, t, pos);
		block = pos / 24 * 3;
		in = pos % 24;
		if (in >= 12)
			block += 2, in -= 12;
		else if (in >= 4)
			block += 1, in -= 4;
		cr_assert_gt(hdl_stream_next(&any.s, 1, &run), 0);
		cr_assert_eq((MPI_Count)(uintptr_t)run, 20 * block + in);
		at += in;
	}
	cr_assert_gt(at, 0);
}

/* ---- random types -------------------------------------------------------------------------------------------------- */

#define MOST_ENTRIES 3000

struct pair {
	struct hdl_type *type;
	struct map map;
};

static long pick(long n)
{
	return random() % n;
}

static struct pair random_basic(void)
{
	static const MPI_Datatype bases[] = { MPI_CHAR, MPI_SHORT, MPI_INT, MPI_DOUBLE, MPI_C_DOUBLE_COMPLEX, MPI_LONG_DOUBLE,
					      MPI_LONG };
	struct pair p = { .type = get(bases[pick(7)]) };

	if (pick(5)) {
		map_put(&p.map, hdl_type_handle(p.type), 0);
	} else if (pick(2)) {
		p.type = get(MPI_SHORT_INT);
		map_put(&p.map, MPI_SHORT, 0);
		map_put(&p.map, MPI_INT, 4);
	} else {
		p.type = get(MPI_LONG_DOUBLE_INT);
		map_put(&p.map, MPI_LONG_DOUBLE, 0);
		map_put(&p.map, MPI_INT, 16);
		map_mark(&p.map, 0, 32);	/* as a C struct: the same as its padding */
		p.map.bounded = false;
	}
	return p;
}

/* Displacements of n blocks of these lengths of data, in units: apart from each other most of the time. */
static void random_places(MPI_Count *place, const long *span, long n, long unit)
{
	long at = pick(5) - 2;

	for (long i = 0; i < n; i++) {
		place[i] = at;
		at += (span[i] + unit - 1) / unit + pick(3);
	}
	for (long i = n - 1; i > 0 && pick(3) == 0; i--) {
		long k = pick(i + 1);
		MPI_Count swap = place[i];

		place[i] = place[k];
		place[k] = swap;
	}
}

static long span_of(const struct map *m, long copies)
{
	return copies ? (copies - 1) * labs(map_extent(m)) + map_true_ub(m) - map_true_lb(m) : 0;
}

/* Arguments of one constructor over old types; returns their number. */
static long random_args(int combiner, MPI_Count *a, const struct pair *old, long nold)
{
	const struct map *m = &old[0].map;
	long n = 1 + pick(5), extent = map_extent(m), unit = 1, span[8], dims, processes = 1;

	switch (combiner) {
	case MPI_COMBINER_CONTIGUOUS:
		a[0] = pick(6);
		return 1;
	case MPI_COMBINER_VECTOR:
	case MPI_COMBINER_HVECTOR:
		a[0] = n;
		a[1] = pick(8) ? 1 + pick(4) : 0;
		a[2] = combiner == MPI_COMBINER_VECTOR ? a[1] + pick(4) : span_of(m, a[1]) + pick(20);
		a[2] = pick(3) ? a[2] : -a[2];
		return 3;
	case MPI_COMBINER_INDEXED:
	case MPI_COMBINER_HINDEXED:
	case MPI_COMBINER_STRUCT:
		n = combiner == MPI_COMBINER_STRUCT ? nold : n;
		unit = combiner == MPI_COMBINER_INDEXED && extent ? labs(extent) : 1;
		a[0] = n;
		for (long i = 0; i < n; i++) {
			a[1 + i] = pick(4);
			span[i] = span_of(combiner == MPI_COMBINER_STRUCT ? &old[i].map : m, a[1 + i]);
		}
		random_places(a + 1 + n, span, n, unit);
		return 1 + 2 * n;
	case MPI_COMBINER_INDEXED_BLOCK:
	case MPI_COMBINER_HINDEXED_BLOCK:
		unit = combiner == MPI_COMBINER_INDEXED_BLOCK && extent ? labs(extent) : 1;
		a[0] = n;
		a[1] = 1 + pick(3);
		for (long i = 0; i < n; i++)
			span[i] = span_of(m, a[1]);
		random_places(a + 2, span, n, unit);
		return 2 + n;
	case MPI_COMBINER_SUBARRAY:
		dims = 1 + pick(3);
		a[0] = dims;
		for (long d = 0; d < dims; d++) {
			a[1 + d] = 1 + pick(5);
			a[1 + dims + d] = 1 + pick(a[1 + d]);
			a[1 + 2 * dims + d] = pick(a[1 + d] - a[1 + dims + d] + 1);
		}
		a[1 + 3 * dims] = pick(2) ? MPI_ORDER_C : MPI_ORDER_FORTRAN;
		return 2 + 3 * dims;
	case MPI_COMBINER_DARRAY:
		dims = 1 + pick(3);
		a[2] = dims;
		for (long d = 0; d < dims; d++) {
			long size = 1 + pick(7), distrib = MPI_DISTRIBUTE_NONE + pick(3);
			long p = distrib == MPI_DISTRIBUTE_NONE ? 1 : 1 + pick(3);

			a[3 + d] = size;
			a[3 + dims + d] = distrib;
			a[3 + 2 * dims + d] = pick(3) == 0 ? MPI_DISTRIBUTE_DFLT_DARG :
					      distrib == MPI_DISTRIBUTE_BLOCK ? (size + p - 1) / p + pick(2) : 1 + pick(3);
			a[3 + 3 * dims + d] = p;
			processes *= p;
		}
		a[0] = processes;
		a[1] = pick(processes);
		a[3 + 4 * dims] = pick(2) ? MPI_ORDER_C : MPI_ORDER_FORTRAN;
		return 4 + 4 * dims;
	case MPI_COMBINER_RESIZED:
		a[0] = map_lb(m) - pick(3);
		a[1] = labs(extent) + pick(20);
		return 2;
	default:
		return 0;
	}
}

static long entries_of(int combiner, const MPI_Count *a, const struct pair *old, long nold)
{
	long n = 0, copies = 1;

	switch (combiner) {
	case MPI_COMBINER_CONTIGUOUS: return a[0] * old->map.n;
	case MPI_COMBINER_VECTOR:
	case MPI_COMBINER_HVECTOR: return a[0] * a[1] * old->map.n;
	case MPI_COMBINER_SUBARRAY:
		for (long d = 0; d < a[0]; d++)
			copies *= a[1 + a[0] + d];
		return copies * old->map.n;
	case MPI_COMBINER_DARRAY:
		for (long d = 0; d < a[2]; d++)
			copies *= a[3 + d];
		return copies * old->map.n;
	default:
		for (long i = 0; i < nold; i++)
			n += 15 * old[i].map.n;
		return n;
	}
}

static struct pair random_type(int depth)
{
	static const int combiners[] = {
		MPI_COMBINER_DUP, MPI_COMBINER_CONTIGUOUS, MPI_COMBINER_VECTOR, MPI_COMBINER_HVECTOR, MPI_COMBINER_INDEXED,
		MPI_COMBINER_HINDEXED, MPI_COMBINER_INDEXED_BLOCK, MPI_COMBINER_HINDEXED_BLOCK, MPI_COMBINER_STRUCT,
		MPI_COMBINER_SUBARRAY, MPI_COMBINER_DARRAY, MPI_COMBINER_RESIZED, MPI_COMBINER_STRUCT, MPI_COMBINER_VECTOR,
	};
	int combiner = combiners[pick(14)];
	long nold = combiner == MPI_COMBINER_STRUCT ? 1 + pick(4) : 1, nargs;
	const struct map *maps[4];
	struct hdl_type *types[4];
	struct pair old[4], made;
	MPI_Count args[32];

	if (!depth)
		return random_basic();
	for (long i = 0; i < nold; i++)
		old[i] = i && pick(3) == 0 ? old[0] : random_type(depth - 1);
	nargs = random_args(combiner, args, old, nold);
	if (entries_of(combiner, args, old, nold) > MOST_ENTRIES)
		return old[0];
	for (long i = 0; i < nold; i++) {
		maps[i] = &old[i].map;
		types[i] = old[i].type;
		if (pick(4) == 0)
			commit(old[i].type);
	}
	made.map = map_make(combiner, args, maps);
	made.type = make(combiner, nargs, args, nold, types);
	return made;
}

/* The invariants of layout.h. */
static void check_layout(const struct hdl_layout *l, unsigned seed)
{
	MPI_Count n = 0;

	cr_assert(l->bytes > 0 && l->count > 0, "seed %u", seed);
	if (l->kind != HDL_LIST) {
		cr_assert_eq(l->bytes, l->count * l->unit);
		cr_assert(l->kind == HDL_LOOP || l->count > 1);
		cr_assert(!l->child || l->unit == l->child->bytes);
		cr_assert_eq(l->depth, 1 + (l->child ? l->child->depth : 0));
		if (l->kind == HDL_LOOP && l->count > 1 && !l->child)
			cr_assert_neq(l->stride, l->unit, "seed %u: runs that touch", seed);
		if (l->child)
			check_layout(l->child, seed);
		if (l->child && l->child->kind == HDL_LOOP)
			cr_assert_gt(l->child->count, 1, "seed %u", seed);
		return;
	}
	cr_assert(l->count > 1 && l->at[0] == 0 && l->at[l->count] == l->bytes);
	for (MPI_Count i = 0; i < l->count; i++) {
		const struct hdl_layout *in = l->item ? l->item[i] : NULL;

		cr_assert_gt(l->at[i + 1], l->at[i]);
		if (in) {
			n++;
			cr_assert_eq(in->bytes, l->at[i + 1] - l->at[i]);
			cr_assert_lt(in->depth, l->depth);
			check_layout(in, seed);
		} else if (i && !(l->item && l->item[i - 1]) && !l->tags) {
			cr_assert_neq(l->offset[i], l->offset[i - 1] + l->at[i] - l->at[i - 1],
				      "seed %u: runs of a list touch", seed);
		}
	}
	cr_assert_eq(l->flat, n == 0 && l->count <= HDL_LIST_SHORT);
}

/* Bytes of (buf, count, map) in order: where each is, relative to buf. */
static long *places(const struct map *m, long count, long *total)
{
	long size = map_size(m), extent = map_extent(m), *p = malloc((count * size + 1) * sizeof(*p));

	*total = 0;
	for (long c = 0; c < count; c++)
		for (long i = 0; i < m->n; i++)
			for (long b = 0; b < basic_size(m->entry[i].basic); b++)
				p[(*total)++] = c * extent + m->entry[i].at + b;
	return p;
}

static void check_streams(const struct hdl_type *t, long count, const long *place, long total, char *mem, const char *want,
			  unsigned seed)
{
	struct hdl_stream *s = malloc(hdl_stream_bytes(t));	/* no more than that: valgrind looks */
	char *got = malloc(total + 1);
	void *run;

	/* one after the other, in pieces of any length */
	hdl_stream_open(s, mem, count, t, 0);
	for (long pos = 0; pos < total;) {
		size_t n = 1 + pick(pick(2) ? 20 : total);

		cr_assert_eq(hdl_stream_position(s), pos);
		cr_assert_eq(hdl_stream_left(s), total - pos);
		pos += hdl_stream_pack(s, got + pos, n);
	}
	cr_assert_eq(hdl_stream_pack(s, got, 1), 0);
	cr_assert(!memcmp(got, want, total), "seed %u", seed);
	/* runs and copies in turns, from anywhere */
	for (int k = 0; k < 20; k++) {
		long pos = pick(total + 1);

		hdl_stream_seek(s, pos);
		while (pos < total) {
			if (pick(2)) {
				size_t n = hdl_stream_next(s, 1 + pick(pick(2) ? 7 : 1000), &run);

				cr_assert_gt(n, 0);
				for (size_t i = 0; i < n; i++)
					cr_assert_eq((char *)run + i, mem + place[pos + i], "seed %u byte %ld", seed, pos);
				pos += n;
			} else {
				size_t n = hdl_stream_pack(s, got, 1 + pick(30));

				cr_assert(!memcmp(got, want + pos, n), "seed %u byte %ld", seed, pos);
				pos += n;
			}
		}
		cr_assert_eq(hdl_stream_next(s, 1, &run), 0);
	}
	free(got);
	free(s);
}

/* Where two entries share a byte a receive is wrong (section 3.2.4), and what unpack leaves there is not said. */
static bool overlaps(const long *place, long total, long lo, long hi)
{
	char *seen = calloc(hi - lo + 1, 1);
	bool twice = false;

	for (long i = 0; i < total; i++)
		twice |= seen[place[i] - lo]++;
	free(seen);
	return twice;
}

static void check_unpack(const struct hdl_type *t, long count, const long *place, long total, long lo, long hi, char *mem,
			 const char *packed, unsigned seed)
{
	char *back = malloc(hi - lo + 1);

	for (int pieces = 0; pieces < 2; pieces++) {
		memset(back, 0x5a, hi - lo + 1);
		for (long pos = 0, n; pos < total; pos += n) {
			n = pieces ? 1 + pick(pick(2) ? 40 : total) : total;
			n = n > total - pos ? total - pos : n;
			hdl_unpack(back - lo, packed + pos, count, t, pos, n);
		}
		for (long i = 0; i < total; i++)
			cr_assert_eq(back[place[i] - lo], mem[place[i] - lo], "seed %u byte %ld", seed, i);
		for (long i = 0; i < total; i++)
			back[place[i] - lo] = 0x5a;
		for (long i = 0; i <= hi - lo; i++)
			cr_assert_eq(back[i], 0x5a, "seed %u: a hole was written", seed);
	}
	free(back);
}

static void check_elements(const struct pair *p, unsigned seed)
{
	long bytes = 0;

	for (long i = 0; i < p->map.n; i++) {
		cr_assert_eq(hdl_type_elements(p->type, bytes), i, "seed %u", seed);
		cr_assert_eq(hdl_type_element_bytes(p->type, i), bytes, "seed %u", seed);
		bytes += basic_size(p->map.entry[i].basic);
		if (basic_size(p->map.entry[i].basic) > 1)
			cr_assert_eq(hdl_type_elements(p->type, bytes - 1), MPI_UNDEFINED, "seed %u", seed);
	}
	cr_assert_eq(hdl_type_elements(p->type, 3 * bytes), 3 * p->map.n);
}

/* Entry by entry, as if each were packed by itself. */
static void check_external_map(struct pair *p, long count, char *mem, bool unpack, unsigned seed)
{
	MPI_Count size, one, at = 0;
	long extent = map_extent(&p->map);
	char *got, entry[32];

	cr_assert_eq(hdl_external_size(p->type, &size), MPI_SUCCESS);
	got = malloc(count * size + 1);
	cr_assert_eq(hdl_pack_external(got, mem, count, p->type), MPI_SUCCESS);
	for (long c = 0; c < count; c++)
		for (long i = 0; i < p->map.n; i++) {
			struct hdl_type *basic = get(p->map.entry[i].basic);

			hdl_external_size(basic, &one);
			hdl_pack_external(entry, mem + c * extent + p->map.entry[i].at, 1, basic);
			cr_assert(!memcmp(entry, got + at, one), "seed %u entry %ld", seed, i);
			at += one;
		}
	cr_assert_eq(at, count * size, "seed %u", seed);
	if (p->type->typed)
		check_layout(p->type->typed, seed);
	if (unpack) {
		/* back into the same memory, and out again: the same bytes */
		char *again = malloc(count * size + 1);

		cr_assert_eq(hdl_unpack_external(mem, got, count, p->type), MPI_SUCCESS);
		hdl_pack_external(again, mem, count, p->type);
		cr_assert(!memcmp(again, got, count * size), "seed %u", seed);
		free(again);
	}
	free(got);
}

static void check_random(unsigned seed)
{
	struct pair p;
	long *place, total, count, lo = 0, hi = 0;
	char *mem, *want, *packed;
	bool twice;

	srandom(seed);
	p = random_type(pick(5));
	cr_assert_eq(p.type->size, map_size(&p.map), "seed %u", seed);
	cr_assert_eq(p.type->elements, p.map.n, "seed %u", seed);
	cr_assert_eq(p.type->lb, map_lb(&p.map), "seed %u", seed);
	cr_assert_eq(p.type->extent, map_extent(&p.map), "seed %u: %ld", seed, (long)p.type->extent);
	cr_assert_eq(p.type->true_lb, map_true_lb(&p.map), "seed %u", seed);
	cr_assert_eq(p.type->true_extent, map_true_ub(&p.map) - map_true_lb(&p.map), "seed %u", seed);
	commit(p.type);
	if (p.type->size)
		check_layout(p.type->layout, seed);
	check_elements(&p, seed);
	count = 1 + pick(4);
	place = places(&p.map, count, &total);
	for (long i = 0; i < total; i++) {
		lo = place[i] < lo ? place[i] : lo;
		hi = place[i] > hi ? place[i] : hi;
	}
	mem = malloc(hi - lo + 1);
	want = malloc(total + 1);
	packed = malloc(total + 1);
	for (long i = 0; i <= hi - lo; i++)
		mem[i] = (char)random();
	for (long i = 0; i < total; i++)
		want[i] = mem[place[i] - lo];
	hdl_pack(packed, mem - lo, count, p.type, 0, total);
	cr_assert(!memcmp(packed, want, total), "seed %u", seed);
	memset(packed, 0, total);
	for (long pos = 0, n; pos < total; pos += n) {
		n = 1 + pick(pick(2) ? 40 : total);
		n = n > total - pos ? total - pos : n;
		hdl_pack(packed + pos, mem - lo, count, p.type, pos, n);
	}
	cr_assert(!memcmp(packed, want, total), "seed %u, in pieces", seed);
	if (total)
		check_streams(p.type, count, place, total, mem - lo, want, seed);
	twice = overlaps(place, total, lo, hi);
	if (!twice)
		check_unpack(p.type, count, place, total, lo, hi, mem, packed, seed);
	check_external_map(&p, count, mem - lo, !twice, seed);
	free(place);
	free(mem);
	free(want);
	free(packed);
}

Test(types, random, .timeout = 120)
{
	for (unsigned seed = 1; seed <= 4000; seed++)
		check_random(seed);
}

/* Every first byte and every length of a type with all kinds of layouts. */
Test(types, every_offset)
{
	struct hdl_type *d = get(MPI_DOUBLE), *c = get(MPI_CHAR), *t;
	static char mem[4096], packed[2048], want[2048];
	long total;

	t = make(MPI_COMBINER_STRUCT, 9, (MPI_Count[]){ 4, 1, 1, 2, 3, 0, 200, 600, 1500 }, 4, (struct hdl_type *[]){
		 MAKE(VECTOR, MAKE(VECTOR, d, 2, 1, 2), 3, 1, 2), MAKE(INDEXED_BLOCK, c, 4, 3, 0, 4, 9, 20),
		 MAKE(INDEXED, MAKE(VECTOR, c, 2, 1, 3), 2, 1, 2, 0, 5), MAKE(HVECTOR, get(MPI_SHORT_INT), 3, 1, 11) });
	commit(t);
	total = 2 * t->size;
	for (size_t i = 0; i < sizeof(mem); i++)
		mem[i] = (char)(i * 7 + i / 256);
	hdl_pack(want, mem, 2, t, 0, total);
	for (long from = 0; from <= total; from++)
		for (long n = 0; n <= total - from; n++) {
			hdl_pack(packed, mem, 2, t, from, n);
			cr_assert(!memcmp(packed, want + from, n), "%ld bytes from %ld", n, from);
		}
}
