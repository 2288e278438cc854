/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Copies of many short runs. The usual lengths have loops of their own, in which a run is a few moves instead of a call.
 * Source and destination do not overlap.
 */
#ifndef HDL_COPY_H
#define HDL_COPY_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/base.h"

#define always	static inline __attribute__((always_inline))

/* The address `offset` bytes from base. As integers, because base need not point to an object: MPI_BOTTOM is NULL, and
 * the offsets are the addresses. */
always char *apart(const char *base, MPI_Aint offset)
{
	return (char *)((uintptr_t)base + (uintptr_t)offset);
}

/* Moves of n bytes, which is not more than 64: the second half of the moves may overlap the first. */
always void copy_short(char *to, const char *from, size_t n)
{
	if (n >= 16) {
		memcpy(to, from, 16);
		if (n > 32) {
			memcpy(to + 16, from + 16, 16);
			memcpy(to + n - 32, from + n - 32, 16);
		}
		memcpy(to + n - 16, from + n - 16, 16);
	} else if (n >= 8) {
		memcpy(to, from, 8);
		memcpy(to + n - 8, from + n - 8, 8);
	} else if (n >= 4) {
		memcpy(to, from, 4);
		memcpy(to + n - 4, from + n - 4, 4);
	} else if (n >= 2) {
		memcpy(to, from, 2);
		memcpy(to + n - 2, from + n - 2, 2);
	} else if (n) {
		*to = *from;
	}
}

always void copy_run(char *to, const char *from, size_t n)
{
	if (n <= 64)
		copy_short(to, from, n);
	else
		memcpy(to, from, n);
}

/* A loop of n1 turns around one of n2; the strides of both sides, per loop. */
struct grid {
	char *to;
	const char *from;
	MPI_Aint to1, to2, from1, from2;
	MPI_Count n1, n2;
};

/*
 * How a loop copies its runs, by a constant: EXACT: the length is one, and the compiler knows best; a number: by two
 * moves of so many bytes, which overlap; LONG: by a call; ANY: chosen for each run by the length.
 */
enum { EXACT = 0, ANY = -1, LONG = -2 };

always void copy_by(char *to, const char *from, size_t n, int way)
{
	if (way == EXACT || way == LONG) {
		memcpy(to, from, n);
	} else if (way == ANY) {
		copy_run(to, from, n);
	} else {
		memcpy(to, from, (size_t)way);
		memcpy(to + n - way, from + n - way, (size_t)way);
	}
}

/* n runs. Four at a time: that leaves one addition for each side, where the compiler has to add for each run. */
always void copy_row(char *to, const char *from, MPI_Aint to_stride, MPI_Aint from_stride, MPI_Count n, size_t len, int way)
{
	for (; n >= 4; n -= 4) {
		copy_by(to, from, len, way);
		copy_by(to + to_stride, from + from_stride, len, way);
		copy_by(to + 2 * to_stride, from + 2 * from_stride, len, way);
		copy_by(to + 3 * to_stride, from + 3 * from_stride, len, way);
		to += 4 * to_stride;
		from += 4 * from_stride;
	}
	for (; n > 0; n--) {
		copy_by(to, from, len, way);
		to += to_stride;
		from += from_stride;
	}
}

/* Where the packed side's runs lie one behind the other, the stride of that side is a constant, too. */
always void grid_rows(const struct grid *g, size_t len, int way)
{
	const MPI_Aint dense = (MPI_Aint)len;

	if (g->to2 == dense)
		for (MPI_Count i = 0; i < g->n1; i++)
			copy_row(g->to + i * g->to1, g->from + i * g->from1, dense, g->from2, g->n2, len, way);
	else if (g->from2 == dense)
		for (MPI_Count i = 0; i < g->n1; i++)
			copy_row(g->to + i * g->to1, g->from + i * g->from1, g->to2, dense, g->n2, len, way);
	else
		for (MPI_Count i = 0; i < g->n1; i++)
			copy_row(g->to + i * g->to1, g->from + i * g->from1, g->to2, g->from2, g->n2, len, way);
}

/*
 * A transposition: the inner loop goes from line to line of the cache, the outer one along them. Row after row would fetch
 * each line once per row, so GRID_TILE rows go together, and long rows in pieces, for the sake of the TLB.
 */
#define GRID_TILE	8
#define GRID_PIECE	256

static inline MPI_Aint magnitude(MPI_Aint a)
{
	return a < 0 ? -a : a;
}

/* Returns true if the memory side's strides are a transposition's. */
static inline bool is_transposed(MPI_Aint outer, MPI_Aint inner, MPI_Count n1, MPI_Count n2)
{
	return n1 >= GRID_TILE && n2 >= GRID_TILE && magnitude(outer) < 64 && magnitude(inner) >= 64;
}

/* Rows of words as vectors. LOW and HIGH: the words of two vectors in turns, those of their lower or their upper halves. */
typedef uint64_t words8 __attribute__((vector_size(16)));
typedef uint32_t words4 __attribute__((vector_size(16)));
#ifdef __clang__
#define MIXED(type, a, b, ...)	__builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define MIXED(type, a, b, ...)	__builtin_shuffle(a, b, (type){ __VA_ARGS__ })
#endif
#define LOW8(a, b)	MIXED(words8, a, b, 0, 2)
#define HIGH8(a, b)	MIXED(words8, a, b, 1, 3)
#define LOW4(a, b)	MIXED(words4, a, b, 0, 4, 1, 5)
#define HIGH4(a, b)	MIXED(words4, a, b, 2, 6, 3, 7)

always words8 load8(const char *from)
{
	words8 v;

	memcpy(&v, from, sizeof(v));
	return v;
}

always words4 load4(const char *from)
{
	words4 v;

	memcpy(&v, from, sizeof(v));
	return v;
}

always void store8(char *to, words8 v)
{
	memcpy(to, &v, sizeof(v));
}

always void store4(char *to, words4 v)
{
	memcpy(to, &v, sizeof(v));
}

/* Two by two words of 8 bytes: a row of `from` becomes a column of `to`. */
always void square8(char *to, const char *from, MPI_Aint to_row, MPI_Aint from_row)
{
	words8 a = load8(from), b = load8(from + from_row);

	store8(to, LOW8(a, b));
	store8(to + to_row, HIGH8(a, b));
}

/* Four by four words of 4 bytes. */
always void square4(char *to, const char *from, MPI_Aint to_row, MPI_Aint from_row)
{
	words4 a = load4(from), b = load4(from + from_row), c = load4(from + 2 * from_row), d = load4(from + 3 * from_row);
	words4 ac = LOW4(a, c), bd = LOW4(b, d);

	store4(to, LOW4(ac, bd));
	store4(to + to_row, HIGH4(ac, bd));
	ac = HIGH4(a, c);
	bd = HIGH4(b, d);
	store4(to + 2 * to_row, LOW4(ac, bd));
	store4(to + 3 * to_row, HIGH4(ac, bd));
}

#undef MIXED
#undef LOW8
#undef HIGH8
#undef LOW4
#undef HIGH4

/* Returns true if both sides are dense, one in rows and the other in columns: n1 counts the rows that are dense in `to`. */
always bool is_matrix(struct grid *g, MPI_Aint len)
{
	if (g->to1 == len && g->from2 == len)
		*g = (struct grid){ g->to, g->from, g->to2, g->to1, g->from2, g->from1, g->n2, g->n1 };
	return g->to2 == len && g->from1 == len;
}

/* The rows and columns of a matrix in whole tiles; len is 4 or 8. No pointer to a grid: the compiler would have to
 * assume that each store changes the grid. */
always void matrix_tiles(char *to, const char *from, const MPI_Aint to_row, const MPI_Aint from_row, MPI_Count rows,
			 MPI_Count columns, MPI_Aint len)
{
	const MPI_Count side = 16 / len;

	for (MPI_Count i = 0; i < rows; i += GRID_TILE) {
		char *t = to;
		const char *f = from;

		for (MPI_Count j = 0; j < columns; j += side) {
#pragma GCC unroll 4
			for (MPI_Count k = 0; k < GRID_TILE; k += side)
				if (len == 8)
					square8(t + k * to_row, f + k * len, to_row, from_row);
				else
					square4(t + k * to_row, f + k * len, to_row, from_row);
			t += side * len;
			f += side * from_row;
		}
		to += GRID_TILE * to_row;
		from += GRID_TILE * len;
	}
}

/* Copies a matrix: the whole tiles, then the columns beside the tiles, and the rows below them. */
always void grid_matrix(const struct grid *g, MPI_Aint len)
{
	MPI_Count rows = g->n1 / GRID_TILE * GRID_TILE, columns = g->n2 & -(16 / len);
	struct grid beside = *g, below = *g;

	matrix_tiles(g->to, g->from, g->to1, g->from2, rows, columns, len);
	beside.to += columns * len;
	beside.from += columns * g->from2;
	beside.n1 = rows;
	beside.n2 -= columns;
	grid_rows(&beside, (size_t)len, EXACT);
	below.to += rows * g->to1;
	below.from += rows * len;
	below.n1 -= rows;
	grid_rows(&below, (size_t)len, EXACT);
}

/* len is a constant. */
always void grid_tiles(struct grid *g, size_t len)
{
	MPI_Count rows = g->n1 / GRID_TILE * GRID_TILE;

	for (MPI_Count first = 0; first < g->n2; first += GRID_PIECE) {
		MPI_Count n = g->n2 - first < GRID_PIECE ? g->n2 - first : GRID_PIECE;

		for (MPI_Count i = 0; i < rows; i += GRID_TILE) {
			char *to = g->to + i * g->to1 + first * g->to2;
			const char *from = g->from + i * g->from1 + first * g->from2;

			for (MPI_Count j = 0; j < n; j++) {
#pragma GCC unroll 8
				for (int k = 0; k < GRID_TILE; k++)
					memcpy(to + k * g->to1, from + k * g->from1, len);
				to += g->to2;
				from += g->from2;
			}
		}
	}
	g->to += rows * g->to1;
	g->from += rows * g->from1;
	g->n1 -= rows;
	grid_rows(g, len, EXACT);
}

/* len is a constant. */
always void grid_transposed(struct grid *g, size_t len)
{
	if ((len == 4 || len == 8) && is_matrix(g, (MPI_Aint)len))
		grid_matrix(g, (MPI_Aint)len);
	else
		grid_tiles(g, len);
}

/* The grid is a copy of the function's own, so that no store can change the grid. */
static inline void copy_grid(struct grid grid, size_t len, bool transposed)
{
	struct grid *const g = &grid;

#define LENGTH(n) \
	case n: \
		grid_rows(g, n, EXACT); \
		break;
#define LENGTH_TILES(n) \
	case n: \
		if (unlikely(transposed)) \
			grid_transposed(g, n); \
		else \
			grid_rows(g, n, EXACT); \
		break;
	switch (len) {
	LENGTH_TILES(1)
	LENGTH_TILES(2)
	LENGTH(3)
	LENGTH_TILES(4)
	LENGTH(6)
	LENGTH_TILES(8)
	LENGTH(12)
	LENGTH_TILES(16)
	LENGTH(20)
	LENGTH(24)
	LENGTH(32)
	LENGTH(40)
	LENGTH(48)
	LENGTH(64)
	default:
		if (len > 128)
			grid_rows(g, len, LONG);
		else if (len > 64)
			grid_rows(g, len, 64);
		else if (len > 32)
			grid_rows(g, len, ANY);
		else if (len > 16)
			grid_rows(g, len, 16);
		else if (len > 8)
			grid_rows(g, len, 8);
		else
			grid_rows(g, len, 4);
	}
#undef LENGTH
#undef LENGTH_TILES
}

/* ---- two runs of each element --------------------------------------------------------------------------------------- */

/* n elements of two runs; the second one's distance to the first. */
struct pairs {
	char *to;
	const char *from;
	MPI_Aint to_stride, from_stride, to_second, from_second;
	MPI_Count n;
};

/* The lengths are constants. */
always void move_pairs(struct pairs p, size_t len1, size_t len2)
{
	for (; p.n > 0; p.n--) {
		memcpy(p.to, p.from, len1);
		memcpy(p.to + p.to_second, p.from + p.from_second, len2);
		p.to += p.to_stride;
		p.from += p.from_stride;
	}
}

/* Copies pairs of the lengths that two or three members of usual types have: most structs consist of such pairs. False:
 * other lengths, nothing was copied. Both runs in one loop fetch each line of the cache once. */
static inline bool copy_pairs(struct pairs p, MPI_Count len1, MPI_Count len2)
{
#define PAIR(len1, len2) \
	case 64 * len1 + len2: \
		move_pairs(p, len1, len2); \
		return true;
#define PAIRS(len1) \
	PAIR(len1, 4) PAIR(len1, 6) PAIR(len1, 8) PAIR(len1, 12) PAIR(len1, 16) PAIR(len1, 20) PAIR(len1, 24) PAIR(len1, 32)
	switch (len2 < 64 ? 64 * len1 + len2 : 0) {
	PAIRS(4)
	PAIRS(6)
	PAIRS(8)
	PAIRS(12)
	PAIRS(16)
	PAIRS(20)
	PAIRS(24)
	PAIRS(32)
	default:
		return false;
	}
#undef PAIR
#undef PAIRS
}

/* ---- runs at places of a list --------------------------------------------------------------------------------------- */

/* n runs of len bytes, one after the other on the packed side, at `offset` or `narrow` on the other. */
always void gather_runs(char *packed, char *mem, const MPI_Aint *offset, const int32_t *narrow, MPI_Count n, size_t len,
			int way, bool unpack)
{
#pragma GCC unroll 4
	for (MPI_Count i = 0; i < n; i++) {
		char *m = apart(mem, narrow ? narrow[i] : offset[i]);

		if (unpack)
			copy_by(m, packed, len, way);
		else
			copy_by(packed, m, len, way);
		packed += len;
	}
}

always void copy_gather(char *packed, char *mem, const MPI_Aint *offset, const int32_t *narrow, MPI_Count n, size_t len,
			bool unpack)
{
#define LENGTH(l) \
	case l: \
		if (narrow) \
			gather_runs(packed, mem, NULL, narrow, n, l, EXACT, unpack); \
		else \
			gather_runs(packed, mem, offset, NULL, n, l, EXACT, unpack); \
		break;
	switch (len) {
	LENGTH(1)
	LENGTH(2)
	LENGTH(4)
	LENGTH(8)
	LENGTH(12)
	LENGTH(16)
	LENGTH(24)
	LENGTH(32)
	LENGTH(64)
	default:
		gather_runs(packed, mem, offset, narrow, n, len, ANY, unpack);
	}
#undef LENGTH
}

#endif
