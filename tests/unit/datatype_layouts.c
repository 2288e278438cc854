/* SPDX-License-Identifier: BSD-3-Clause */
/* Layouts of datatypes: how they are compiled, and pack, unpack and streams against a walk over the type map. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "datatype_map.h"

/* ---- layouts of types -------------------------------------------------------------------------------------------- */

Test(layouts, what_touches_is_one_run)
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

Test(layouts, layouts_are_loops)
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
	/* equal blocks at equal distances, and at different ones */
	l = commit(MAKE(INDEXED_BLOCK, d, 3, 2, 0, 5, 10))->layout;
	cr_assert(l->kind == HDL_LOOP && l->count == 3 && l->unit == 16 && l->stride == 40);
	l = commit(MAKE(INDEXED, d, 3, 2, 2, 2, 0, 5, 11))->layout;
	cr_assert(l->kind == HDL_GATHER && l->count == 3 && l->unit == 16 && l->narrow && l->narrow[2] == 88);
	l = commit(MAKE(HINDEXED_BLOCK, d, 3, 2, 0, 16000000000, 40))->layout;
	cr_assert(l->kind == HDL_GATHER && !l->narrow && l->offset[1] == 16000000000);
	/* different ones */
	l = commit(MAKE(INDEXED, d, 3, 2, 1, 2, 0, 5, 11))->layout;
	cr_assert(l->kind == HDL_LIST && l->flat && l->at[3] == 40);
	/* a struct of few members is a flat list, however deeply its type was nested */
	u = make(MPI_COMBINER_STRUCT, 5, (MPI_Count[]){ 2, 1, 2, 0, 8 }, 2, (struct hdl_type *[]){ get(MPI_INT),
		 MAKE(VECTOR, d, 2, 1, 3) });
	l = commit(u)->layout;
	cr_assert(l->kind == HDL_LIST && l->flat && l->count == 4);
}

/* ---- deep, long, shared -------------------------------------------------------------------------------------------- */

#define DEEP 100000

/* Nothing may need stack, or time, for each level of a nest. */
Test(layouts, deep_nests)
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

Test(layouts, deep_structs)
{
	deep_structs(DEEP, false, 20);
	deep_structs(1000, true, 2000);
}

/* Twice the same, sixty times: the type map has 2^60 entries, the layout has few. */
Test(layouts, shared_nests)
{
	struct hdl_type *t = get(MPI_CHAR), *old;
	uint64_t before = hdl_layout_steps;
	MPI_Aint gap = 1;
	MPI_Count runs;

	for (int i = 0; i < 60; i++) {
		old = t;
		t = make(MPI_COMBINER_STRUCT, 5, (MPI_Count[]){ 2, 1, 1, 0, old->true_extent + gap }, 2,
			 (struct hdl_type *[]){ old, old });
		gap = i % 7;
		hdl_type_close(old);
	}
	commit(t);
	cr_assert_eq(t->size, 1l << 60);
	cr_assert(hdl_type_ascends(t, &runs));
	cr_assert_lt(hdl_layout_steps - before, 10000);
	cr_assert_leq(t->layout->depth, HDL_LAYOUT_DEPTH);
	hdl_type_close(t);
}

/* Deep and shared at once: none of the steps down halves, and lists of lists end. */
Test(layouts, shared_chains)
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

/* Constructed and committed in a number of steps that grows with the blocks, in any order of the blocks. */
Test(layouts, many_blocks)
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
Test(layouts, seek_is_logarithmic)
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

/* Returns memory at the edge of the mapped pages: the first byte is the first mapped one, or the last byte the last mapped one.
 * Valid until the next call with the same `which`. */
static char *at_edge(int which, size_t bytes, bool end)
{
	enum { ROOM = 16 << 20 };
	static char *room[3];

	if (!room[which]) {
		size_t page = (size_t)sysconf(_SC_PAGESIZE);

		room[which] = mmap(NULL, ROOM + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		cr_assert(room[which] != MAP_FAILED);
		room[which] += page;
		cr_assert_eq(mprotect(room[which], ROOM, PROT_READ | PROT_WRITE), 0);
	}
	cr_assert_leq(bytes, ROOM);
	return end ? room[which] + ROOM - bytes : room[which];
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

/* Where two entries share a byte a receive is erroneous (section 3.2.4), and the result of unpack there is undefined. */
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
	char *back = at_edge(2, hi - lo + 1, seed & 1);

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
}

/* place: of the bytes of one element. */
static void check_order(const struct hdl_type *t, const long *place, unsigned seed)
{
	MPI_Count runs = 0, counted = 1;
	bool ascends = true;

	for (MPI_Count i = 1; i < t->size; i++) {
		ascends &= place[i] > place[i - 1];
		counted += place[i] != place[i - 1] + 1;
	}
	cr_assert_eq(hdl_type_ascends(t, &runs), ascends, "seed %u", seed);
	cr_assert(!ascends || runs == counted, "seed %u: %ld runs", seed, (long)runs);
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
	long *place, total, count, lo, hi;
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
	lo = hi = total ? place[0] : 0;
	for (long i = 0; i < total; i++) {
		lo = place[i] < lo ? place[i] : lo;
		hi = place[i] > hi ? place[i] : hi;
	}
	mem = at_edge(0, hi - lo + 1, seed & 1);
	want = malloc(total + 1);
	packed = at_edge(1, total, seed & 1);
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
		check_order(p.type, place, seed);
	if (total)
		check_streams(p.type, count, place, total, mem - lo, want, seed);
	twice = overlaps(place, total, lo, hi);
	if (!twice)
		check_unpack(p.type, count, place, total, lo, hi, mem, packed, seed);
	check_external_map(&p, count, mem - lo, !twice, seed);
	free(place);
	free(want);
}

Test(layouts, random, .timeout = 120)
{
	for (unsigned seed = 1; seed <= 4000; seed++)
		check_random(seed);
}

/* Every first byte and every length of a type with all kinds of layouts. */
Test(layouts, every_offset)
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

/* ---- copies with loops of their own -------------------------------------------------------------------------------- */

static void check_copy_at(struct hdl_type *t, MPI_Count count, const long *place, long total, bool end, const char *what)
{
	long span = place[total - 1] + 1;
	char *mem = at_edge(0, span, end), *packed = at_edge(1, total, end), *back = at_edge(2, span, end);

	for (long i = 0; i < span; i++)
		mem[i] = (char)random();
	hdl_pack(packed, mem, count, t, 0, total);
	for (long i = 0; i < total; i++)
		cr_assert_eq(packed[i], mem[place[i]], "%s: packed byte %ld", what, i);
	memset(back, 0x5a, span);
	hdl_unpack(back, packed, count, t, 0, total);
	for (long i = 0; i < total; i++) {
		cr_assert_eq(back[place[i]], mem[place[i]], "%s: unpacked byte %ld", what, i);
		back[place[i]] = 0x5a;
	}
	for (long i = 0; i < span; i++)
		cr_assert_eq(back[i], 0x5a, "%s: byte %ld of a hole was written", what, i);
}

/* Packed and unpacked as the offsets say; nothing is read or written elsewhere. The first offset is 0,
 * the last one the largest. */
static void check_copy(struct hdl_type *t, MPI_Count count, const long *place, long total, const char *what)
{
	check_copy_at(t, count, place, total, false, what);
	check_copy_at(t, count, place, total, true, what);
}

/* `columns` columns, `apart` bytes from each other, of `rows` blocks of len bytes, `pitch` bytes from each other. */
static void check_matrix(long len, long rows, long columns, long apart, long pitch)
{
	struct hdl_type *block = MAKE(CONTIGUOUS, get(MPI_CHAR), len), *column = MAKE(HVECTOR, block, rows, 1, pitch), *t;
	long *place = malloc(len * rows * columns * sizeof(*place)), n = 0;
	char what[128];

	snprintf(what, sizeof(what), "%ld columns, %ld apart, of %ld blocks of %ld, %ld apart", columns, apart, rows, len, pitch);
	t = commit(MAKE(CONTIGUOUS, MAKE(RESIZED, column, 0, apart), columns));
	for (long c = 0; c < columns; c++)
		for (long r = 0; r < rows; r++)
			for (long b = 0; b < len; b++)
				place[n++] = c * apart + r * pitch + b;
	check_copy(t, 1, place, n, what);
	free(place);
}

/* A matrix by columns: dense or not, rows padded or not, whole tiles and partial tiles. */
Test(layouts, matrices)
{
	static const long lens[] = { 1, 2, 4, 8, 12, 16 }, sides[] = { 2, 7, 8, 9, 15, 16, 33 };

	for (size_t l = 0; l < ARRAY_SIZE(lens); l++)
		for (size_t r = 0; r < ARRAY_SIZE(sides); r++)
			for (size_t c = 0; c < ARRAY_SIZE(sides); c++)
				for (int loose = 0; loose < 3; loose++) {
					long apart = lens[l] + (loose == 2 ? 3 : 0), width = sides[c] * apart;

					check_matrix(lens[l], sides[r], sides[c], apart, width + (loose ? 40 : 0));
				}
	check_matrix(8, 600, 9, 8, 72);		/* longer than a piece */
	check_matrix(8, 600, 9, 11, 99);
}

/* Elements of two to four runs of any short lengths, with a hole between all. */
Test(layouts, members)
{
	for (long first = 1; first <= 34; first++)
		for (long second = 1; second <= 34; second++) {
			MPI_Count args[] = { 4, first, second, 5, 70, 0, first + 1, first + second + 3, first + second + 9 };
			long place[7 * (34 + 34 + 75)], n = 0, extent = first + second + 80, runs = 2 + (first + second) % 3;
			struct hdl_type *c = get(MPI_CHAR), *t;
			char what[64];

			args[0] = runs;
			memmove(args + 1 + runs, args + 5, runs * sizeof(*args));
			t = make(MPI_COMBINER_STRUCT, 1 + 2 * runs, args, runs, (struct hdl_type *[]){ c, c, c, c });
			t = commit(MAKE(RESIZED, t, 0, extent));
			for (long e = 0; e < 7; e++)
				for (long r = 0; r < runs; r++)
					for (long b = 0; b < args[1 + r]; b++)
						place[n++] = e * extent + args[1 + runs + r] + b;
			snprintf(what, sizeof(what), "%ld runs, the first ones of %ld and %ld", runs, first, second);
			check_copy(t, 7, place, n, what);
		}
}
