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

#define always	static inline __attribute__((always_inline))

/* Moves of n bytes, which is not more than 64: the second half of them may overlap the first. */
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

/* len is a constant in the callers of the next three, or too long for it to matter. */
always void grid_rows(const struct grid *g, size_t len)
{
	for (MPI_Count i = 0; i < g->n1; i++) {
		char *to = g->to + i * g->to1;
		const char *from = g->from + i * g->from1;

#pragma GCC unroll 4
		for (MPI_Count j = 0; j < g->n2; j++) {
			copy_run(to, from, len);
			to += g->to2;
			from += g->from2;
		}
	}
}

/*
 * A transposition: the inner loop goes from line to line of the cache, the outer one along them. Row after row would fetch
 * each line once per row, so GRID_TILE rows go together, and long rows in pieces, for the sake of the TLB.
 */
#define GRID_TILE	8
#define GRID_PIECE	256

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
					copy_run(to + k * g->to1, from + k * g->from1, len);
				to += g->to2;
				from += g->from2;
			}
		}
	}
	g->to += rows * g->to1;
	g->from += rows * g->from1;
	g->n1 -= rows;
	grid_rows(g, len);
}

static inline MPI_Aint magnitude(MPI_Aint a)
{
	return a < 0 ? -a : a;
}

/* Whether the memory side's strides are a transposition's. */
static inline bool is_transposed(MPI_Aint outer, MPI_Aint inner, MPI_Count n1, MPI_Count n2)
{
	return n1 >= GRID_TILE && n2 >= GRID_TILE && magnitude(outer) < 64 && magnitude(inner) >= 64;
}

static inline void copy_grid(struct grid *g, size_t len, bool transposed)
{
#define LENGTH(n) \
	case n: \
		grid_rows(g, n); \
		break;
#define LENGTH_TILES(n) \
	case n: \
		if (__builtin_expect(transposed, 0)) \
			grid_tiles(g, n); \
		else \
			grid_rows(g, n); \
		break;
	switch (len) {
	LENGTH_TILES(1)
	LENGTH_TILES(2)
	LENGTH(3)
	LENGTH_TILES(4)
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
		grid_rows(g, len);
	}
#undef LENGTH
#undef LENGTH_TILES
}

/* n runs of len bytes, one after the other on the packed side, at `offset` or `narrow` on the other. */
always void gather_runs(char *packed, char *mem, const MPI_Aint *offset, const int32_t *narrow, MPI_Count n, size_t len,
			bool unpack)
{
#pragma GCC unroll 4
	for (MPI_Count i = 0; i < n; i++) {
		char *m = mem + (narrow ? narrow[i] : offset[i]);

		if (unpack)
			copy_run(m, packed, len);
		else
			copy_run(packed, m, len);
		packed += len;
	}
}

always void copy_gather(char *packed, char *mem, const MPI_Aint *offset, const int32_t *narrow, MPI_Count n, size_t len,
			bool unpack)
{
#define LENGTH(l) \
	case l: \
		if (narrow) \
			gather_runs(packed, mem, NULL, narrow, n, l, unpack); \
		else \
			gather_runs(packed, mem, offset, NULL, n, l, unpack); \
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
		gather_runs(packed, mem, offset, narrow, n, len, unpack);
	}
#undef LENGTH
}

#endif
