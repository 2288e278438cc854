/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The predefined operations, on every type, at every alignment, at the beginning and at the end of mapped memory, on packed
 * elements and on those in memory: the result is that of the same elements at a usual address, and bytes outside of the type map
 * stay unchanged.
 */
#include <criterion/criterion.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "collectives/collectives.h"
#include "collectives/graph/graph.h"

static const MPI_Op all_ops[] = {MPI_SUM,  MPI_MIN,  MPI_MAX, MPI_PROD, MPI_BAND,   MPI_BOR,
				 MPI_BXOR, MPI_LAND, MPI_LOR, MPI_LXOR, MPI_MINLOC, MPI_MAXLOC};
static const MPI_Count counts[] = { 1, 2, 7, 33 };
#define MOST 33
#define CANARY 0x6b

static size_t page;
static char *pages[2];		/* one each, between two that are not mapped */
static uint32_t seed;

static void setup(void)
{
	page = (size_t)sysconf(_SC_PAGESIZE);
	for (int i = 0; i < 2; i++) {
		char *p = mmap(NULL, 3 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		cr_assert(p != MAP_FAILED);
		cr_assert_eq(mprotect(p + page, page, PROT_READ | PROT_WRITE), 0);
		pages[i] = p + page;
	}
	seed = 1;
}

TestSuite(ops, .init = setup, .timeout = 60);

static int draw(int below)
{
	seed = seed * 1664525u + 1013904223u;
	return (int)((seed >> 16) % (unsigned)below);
}

/* Packed: small numbers; the padding of a long double behind its ten bytes is 0. */
static void put_elements(char *p, const struct hdl_type *type, MPI_Count n)
{
	enum hdl_rep rep = hdl_reptype(type)->rep;
	size_t size = (size_t)hdl_type_size(type);

	memset(p, 0, (size_t)n * size);
	for (MPI_Count i = 0; i < n; i++, p += size)
		switch (rep) {
		case HDL_REP_F32: case HDL_REP_P_F32_INT: memcpy(p, &(float){ (float)draw(9) }, sizeof(float)); break;
		case HDL_REP_F64: case HDL_REP_P_F64_INT: memcpy(p, &(double){ draw(9) }, sizeof(double)); break;
		case HDL_REP_FLD: case HDL_REP_P_FLD_INT: memcpy(p, &(long double){ draw(9) }, 10); break;
		case HDL_REP_C32: memcpy(p, (float[]){ (float)draw(9), (float)draw(9) }, 2 * sizeof(float)); break;
		case HDL_REP_C64: memcpy(p, (double[]){ draw(9), draw(9) }, 2 * sizeof(double)); break;
		case HDL_REP_CLD:
			memcpy(p, &(long double){ draw(9) }, 10);
			memcpy(p + sizeof(long double), &(long double){ draw(9) }, 10);
			break;
		default:
			p[0] = (char)draw(9);
		}
	p -= (size_t)n * size;
	for (MPI_Count i = 0; i < n && hdl_reptype(type)->cls == HDL_CLASS_PAIR; i++, p += size)
		memcpy(p + size - sizeof(int), &(int){ draw(9) }, sizeof(int));
}

/* The bytes that n elements take in memory. */
static size_t span(const struct hdl_type *type, MPI_Count n)
{
	return (size_t)((n - 1) * type->extent + type->true_extent);
}

static char *place(int which, size_t bytes, size_t shift, bool at_end)
{
	memset(pages[which], CANARY, page);
	return at_end ? pages[which] + page - bytes - shift : pages[which] + shift;
}

static void expect_elements(int which, const char *at, const char *packed, const struct hdl_type *type, MPI_Count n,
			    bool in_memory, const char *what)
{
	static char expected[1 << 16], got[1 << 16];
	size_t bytes = (size_t)(n * hdl_type_size(type)), to = (size_t)(at - pages[which]);

	memset(expected, CANARY, page);
	if (in_memory) {
		hdl_pack(got, at, n, type, 0, bytes);
		hdl_unpack(expected + to, packed, n, type, 0, bytes);
	} else {
		memcpy(got, at, bytes);
		memcpy(expected + to, packed, bytes);
	}
	cr_assert_eq(memcmp(got, packed, bytes), 0, "%s: wrong result", what);
	cr_assert_eq(memcmp(pages[which], expected, page), 0, "%s: changed what is not the type map's", what);
}

static void try_places(MPI_Op op, const struct hdl_type *type, MPI_Count n, const char *in, const char *io, const char *result)
{
	size_t bytes = (size_t)(n * hdl_type_size(type));
	char what[128];

	for (int k = 0; k < 16 * 16 * 4; k++) {
		size_t shift_in = (size_t)k % 16, shift_io = (size_t)k / 16 % 16;
		bool at_end = k & 256, in_memory = k & 512;
		size_t length = in_memory ? span(type, n) : bytes;
		char *a, *b;

		/* not all pairs of alignments: both the same, or one of them usual */
		if (shift_in && shift_io && shift_in != shift_io)
			continue;
		a = place(0, length, shift_in, at_end);
		b = place(1, length, shift_io, at_end);
		snprintf(what, sizeof(what), "%s on %lld %s, %s, %zu and %zu bytes from the %s of a page", hdl_op_name(op),
			 (long long)n, hdl_reptype(type)->name, in_memory ? "in memory" : "packed", shift_in, shift_io,
			 at_end ? "end" : "start");
		if (in_memory) {
			hdl_unpack(a, in, n, type, 0, bytes);
			hdl_unpack(b, io, n, type, 0, bytes);
			hdl_op_apply(op, type, a, b, n);
		} else {
			memcpy(a, in, bytes);
			memcpy(b, io, bytes);
			hdl_op_lookup(op, type)(a, b, (size_t)n);
		}
		expect_elements(0, a, in, type, n, in_memory, what);
		expect_elements(1, b, result, type, n, in_memory, what);
	}
}

/* MINLOC and MAXLOC of doubles, by themselves. */
static void expect_pairs(MPI_Op op, const char *in, const char *io, const char *result, MPI_Count n)
{
	for (MPI_Count i = 0; i < n; i++, in += 12, io += 12, result += 12) {
		double a, b;
		int k, l;

		memcpy(&a, in, 8);
		memcpy(&b, io, 8);
		memcpy(&k, in + 8, 4);
		memcpy(&l, io + 8, 4);
		cr_assert_eq(memcmp(result, a == b ? (k < l ? in : io) : (op == MPI_MINLOC) == (a < b) ? in : io, 12), 0);
	}
}

Test(ops, everywhere)
{
	static char in[MOST * 64] __attribute__((aligned(64))), io[MOST * 64] __attribute__((aligned(64))),
		    result[MOST * 64] __attribute__((aligned(64)));
	int tried = 0;

	for (uintptr_t h = HDL_TYPE_FIRST; h <= HDL_TYPE_LAST; h++) {
		const struct hdl_type *type = hdl_type_get((MPI_Datatype)h);

		for (size_t o = 0; type && o < ARRAY_SIZE(all_ops); o++)
			for (size_t c = 0; c < ARRAY_SIZE(counts) && hdl_op_valid(all_ops[o], type); c++, tried++) {
				put_elements(in, type, counts[c]);
				put_elements(io, type, counts[c]);
				memcpy(result, io, sizeof(result));
				hdl_op_lookup(all_ops[o], type)(in, result, (size_t)counts[c]);
				if ((MPI_Datatype)h == MPI_DOUBLE_INT)
					expect_pairs(all_ops[o], in, io, result, counts[c]);
				try_places(all_ops[o], type, counts[c], in, io, result);
			}
	}
	cr_assert_gt(tried, 1000);
}
