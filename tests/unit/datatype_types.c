/* SPDX-License-Identifier: BSD-3-Clause */
/* Datatypes (MPI-5.0 chapter 5): sizes, bounds, pack and unpack against a walk over the type map. */
#include <criterion/criterion.h>
#include <complex.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#include "datatype/datatype.h"

static struct hdl_type *get(MPI_Datatype h)
{
	struct hdl_type *t = hdl_type_get(h);

	cr_assert_not_null(t);
	return t;
}

static struct hdl_type *vector(MPI_Count count, MPI_Count block, MPI_Count stride, const struct hdl_type *old)
{
	struct hdl_type *t = NULL;

	cr_assert_eq(hdl_type_vector(count, block, stride, old, &t), MPI_SUCCESS);
	return t;
}

Test(types, predefined_sizes)
{
	static const struct {
		MPI_Datatype h;
		size_t size;
	} want[] = {
		{ MPI_CHAR, 1 }, { MPI_SIGNED_CHAR, 1 }, { MPI_UNSIGNED_CHAR, 1 }, { MPI_BYTE, 1 },
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
	};

	for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++) {
		struct hdl_type *t = get(want[i].h);

		cr_assert_eq((size_t)hdl_type_size(t), want[i].size, "%s", t->name);
		cr_assert_eq((size_t)hdl_type_extent(t), want[i].size, "%s", t->name);
		cr_assert(t->contiguous && t->committed && t->predefined && t->one_run, "%s", t->name);
		cr_assert_eq(hdl_type_handle(t), want[i].h);
		cr_assert_eq(hdl_type_base(t), t);
	}
}

Test(types, not_types)
{
	struct hdl_type *t = vector(2, 1, 2, get(MPI_INT));

	cr_assert_null(hdl_type_get(MPI_DATATYPE_NULL));
	cr_assert_null(hdl_type_get((MPI_Datatype)0));
	cr_assert_null(hdl_type_get((MPI_Datatype)0x101));
	cr_assert_null(hdl_type_get((MPI_Datatype)0x25a));
	cr_assert_null(hdl_type_get((MPI_Datatype)0xfff));
	cr_assert_eq(hdl_type_get((MPI_Datatype)t), t);
	cr_assert_null(hdl_type_get((MPI_Datatype)((char *)t + 1)));
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
}

Test(types, elements)
{
	struct hdl_type *t = get(MPI_SHORT_INT), *v = vector(3, 2, 4, get(MPI_DOUBLE));

	cr_assert_eq(hdl_type_elements(t, 12), 4);
	cr_assert_eq(hdl_type_elements(t, 8), 3);
	cr_assert_eq(hdl_type_elements(t, 7), MPI_UNDEFINED);
	cr_assert_eq(hdl_type_elements(v, 40), 5);
	cr_assert_eq(hdl_type_elements(v, 41), MPI_UNDEFINED);
	cr_assert_eq(hdl_type_elements(v, 0), 0);
}

Test(types, vector_bounds)
{
	struct hdl_type *t = vector(3, 2, 5, get(MPI_INT)), *n = vector(3, 2, -5, get(MPI_INT)), *nn;

	cr_assert_eq(hdl_type_size(t), 24);
	cr_assert_eq(hdl_type_lb(t), 0);
	cr_assert_eq(hdl_type_extent(t), 48);		/* (2 * 5 + 2) ints */
	cr_assert(!t->contiguous && !t->committed);
	cr_assert_eq(hdl_type_lb(n), -40);
	cr_assert_eq(hdl_type_extent(n), 48);
	cr_assert_eq(n->true_lb, -40);
	nn = vector(2, 1, 3, n);			/* blocks of extent 48 */
	cr_assert_eq(hdl_type_lb(nn), -40);
	cr_assert_eq(hdl_type_extent(nn), 48 + 3 * 48);
	cr_assert_eq(hdl_type_base(nn), get(MPI_INT));
}

Test(types, abutting_blocks_are_one_run)
{
	struct hdl_type *t = vector(4, 3, 3, get(MPI_INT)), *c;

	cr_assert(t->contiguous);
	cr_assert_eq(t->nloops, 0);
	cr_assert_eq(hdl_type_size(t), 48);
	cr_assert_eq(hdl_type_contiguous(7, t, &c), MPI_SUCCESS);
	cr_assert(c->contiguous);
	cr_assert_eq(hdl_type_extent(c), 7 * 48);
	t = vector(1, 5, 99, get(MPI_DOUBLE));		/* one block: its stride does not matter */
	cr_assert(t->contiguous);
	cr_assert_eq(hdl_type_extent(t), 40);
}

Test(types, empty)
{
	struct hdl_type *t = vector(0, 3, 5, get(MPI_INT)), *u = vector(3, 0, 5, get(MPI_INT));
	char c = 'x';

	cr_assert_eq(hdl_type_size(t), 0);
	cr_assert_eq(hdl_type_extent(t), 0);
	cr_assert_eq(hdl_type_extent(u), 0);
	hdl_pack(&c, NULL, 5, t, 0, 0);
	cr_assert_eq(c, 'x');
}

Test(types, too_large)
{
	struct hdl_type *t;

	cr_assert_eq(hdl_type_contiguous(INT64_MAX / 2, get(MPI_INT), &t), MPI_ERR_VALUE_TOO_LARGE);
	cr_assert_eq(hdl_type_vector(2, 1, INT64_MAX / 4, get(MPI_DOUBLE), &t), MPI_ERR_VALUE_TOO_LARGE);
	cr_assert_eq(hdl_type_contiguous(INT64_MAX / 8, get(MPI_INT), &t), MPI_SUCCESS);
}

Test(types, references)
{
	struct hdl_type *t = vector(2, 1, 2, get(MPI_INT));

	hdl_type_retain(t);
	hdl_type_release(t);
	cr_assert_eq(hdl_type_get((MPI_Datatype)t), t);
	hdl_type_release(get(MPI_INT));			/* no effect */
	cr_assert_not_null(hdl_type_get(MPI_INT));
}

/* ---- random types ---------------------------------------------------------------------------------------- */

/* A type as its list of byte offsets: the definition, without loops. */
struct map {
	long n, extent, lb;
	long off[65536];
};

static void map_basic(struct map *m, const struct hdl_type *t)
{
	m->n = 0;
	m->extent = t->extent;
	m->lb = 0;
	for (int r = 0; r < t->nruns; r++)
		for (long b = 0; b < t->run[r].bytes; b++)
			m->off[m->n++] = t->run[r].offset + b;
}

static bool map_vector(struct map *m, const struct map *old, long count, long block, long stride)
{
	long lo = 0, hi = 0;
	bool first = true;

	if (count * block * old->n > 60000)
		return false;
	m->n = 0;
	for (long i = 0; i < count; i++)
		for (long j = 0; j < block; j++) {
			long at = (i * stride + j) * old->extent;

			for (long k = 0; k < old->n; k++)
				m->off[m->n++] = at + old->off[k];
			if (first || at + old->lb < lo)
				lo = at + old->lb;
			if (first || at + old->lb + old->extent > hi)
				hi = at + old->lb + old->extent;
			first = false;
		}
	m->lb = lo;
	m->extent = hi - lo;
	return true;
}

static void check_random(unsigned seed)
{
	static const MPI_Datatype bases[] = { MPI_CHAR, MPI_SHORT, MPI_INT, MPI_DOUBLE, MPI_SHORT_INT, MPI_DOUBLE_INT,
					      MPI_C_DOUBLE_COMPLEX, MPI_LONG_DOUBLE_INT };
	struct map *a = malloc(sizeof(*a)), *b = malloc(sizeof(*b)), *swap;
	struct hdl_type *t, *next;
	long lo = 0, hi = 0, total, count;
	char *mem, *packed, *back;

	srandom(seed);
	t = get(bases[random() % 8]);
	map_basic(a, t);
	for (int depth = random() % 4; depth > 0; depth--) {
		long n = 1 + random() % 5, block = 1 + random() % 4, stride = random() % 13 - 6;

		/* A receive must not have overlapping entries: section 3.2.4. Blocks stay apart. */
		if (labs(stride) < block)
			stride = stride < 0 ? -block : block;
		if (!map_vector(b, a, n, block, stride))
			break;
		next = vector(n, block, stride, t);
		hdl_type_release(t);
		t = next;
		swap = a, a = b, b = swap;
	}
	cr_assert_eq(hdl_type_size(t), a->n, "seed %u", seed);
	cr_assert_eq(hdl_type_extent(t), a->extent, "seed %u", seed);
	cr_assert_eq(hdl_type_lb(t), a->lb, "seed %u", seed);
	count = 1 + random() % 4;
	for (long i = 0; i < count; i++)
		for (long k = 0; k < a->n; k++) {
			long at = i * a->extent + a->off[k];

			lo = at < lo ? at : lo;
			hi = at > hi ? at : hi;
		}
	total = count * a->n;
	mem = malloc(hi - lo + 1);
	back = malloc(hi - lo + 1);
	packed = malloc(total);
	for (long i = 0; i <= hi - lo; i++)
		mem[i] = (char)random();
	/* In pieces of random length, each packed by itself */
	for (long pos = 0, n; pos < total; pos += n) {
		n = 1 + random() % (random() % 2 ? 40 : total);
		n = n > total - pos ? total - pos : n;
		hdl_pack(packed + pos, mem - lo, count, t, pos, n);
	}
	for (long i = 0; i < total; i++)
		cr_assert_eq(packed[i], mem[i / a->n * a->extent + a->off[i % a->n] - lo], "seed %u byte %ld", seed, i);
	memset(back, 0x5a, hi - lo + 1);
	for (long pos = 0, n; pos < total; pos += n) {
		n = 1 + random() % (random() % 2 ? 40 : total);
		n = n > total - pos ? total - pos : n;
		hdl_unpack(back - lo, packed + pos, count, t, pos, n);
	}
	for (long i = 0; i < total; i++) {
		long at = i / a->n * a->extent + a->off[i % a->n] - lo;

		cr_assert_eq(back[at], mem[at], "seed %u byte %ld", seed, i);
		mem[at] = 0x5a;		/* holes are what is left */
		back[at] = 0x5a;
	}
	for (long i = 0; i <= hi - lo; i++)
		cr_assert_eq(back[i], 0x5a, "seed %u: a hole was written", seed);
	hdl_type_release(t);
	free(mem);
	free(back);
	free(packed);
	free(a);
	free(b);
}

Test(types, random_pack)
{
	for (unsigned seed = 1; seed <= 3000; seed++)
		check_random(seed);
}
