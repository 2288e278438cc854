/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * heat2d: the two-dimensional heat equation on a square plate, explicit in time.
 *
 *     u' = u + a (u_west + u_east + u_north + u_south - 4 u)          edges held at fixed temperatures
 *
 * The plate is cut in both dimensions. Every step exchanges one row or column with each neighbour (columns are an
 * MPI_Type_vector) while the inner cells are computed. The residual, the sum of |u' - u| over all cells, is reduced by
 * a nonblocking allreduce, and the rank waits for the result one step later, so that communication overlaps the next step. The
 * residual is summed as integers in units of 2^-k: an integer sum does not depend on the order, and an HCA with masked atomics can
 * reduce integers without any rank's CPU.
 *
 * Rank 0 then solves the same problem alone and compares every cell and every residual. Cells are computed by the same
 * operations in the same order on any number of ranks, so they are the same bit for bit; exit status 0 says so.
 */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <mpi.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WEST, EAST, NORTH, SOUTH, SIDES };
enum { PASS = 0, FAIL = 1, USAGE = 2 };

struct settings {
	int n;			/* inner cells per side of the plate */
	int steps;		/* at most */
	double limit;		/* stop when the residual per cell is below; 0: all steps */
	int px, py;		/* ranks in x and y; 0: chosen */
	bool verify;
};

/* A rectangle of the plate with a frame of one cell. Cell (row, column) is at row * stride + column. */
struct block {
	int x0, y0;		/* position of the first inner cell on the plate */
	int nx, ny;
	size_t stride;
	double *u, *next;
};

static int rank, ranks;

static void quit(int status, const char *format, ...) __attribute__((noreturn, format(printf, 2, 3)));
/* Ends all ranks with a message of rank 0. Must: all ranks call it, for an error that all of them detect. */
static void quit(int status, const char *format, ...)
{
	va_list ap;

	if (rank == 0) {
		fprintf(stderr, "heat2d: ");
		va_start(ap, format);
		vfprintf(stderr, format, ap);
		va_end(ap);
		fputc('\n', stderr);
	}
	MPI_Finalize();
	exit(status);
}

/* ---- the equation ---------------------------------------------------------------------------------------------- */

static const double diffusion = 0.23;	/* below 1/4: stable */

/* Bits behind the point: no sum of n * n changes of at most 1 overflows. */
static int fraction_bits(int n)
{
	int bits = 62 - 2 * (int)ceil(log2((double)n));

	return bits > 40 ? 40 : bits;
}

static void block_new(struct block *b, int x0, int y0, int nx, int ny, int n)
{
	const size_t cells = (size_t)(nx + 2) * (size_t)(ny + 2);

	*b = (struct block){.x0 = x0, .y0 = y0, .nx = nx, .ny = ny, .stride = (size_t)nx + 2};
	b->u = calloc(cells, sizeof(double));
	b->next = calloc(cells, sizeof(double));
	if (!b->u || !b->next) {
		fprintf(stderr, "heat2d: rank %d: no memory for %zu cells: choose a smaller -n or more ranks\n", rank,
			cells);
		MPI_Abort(MPI_COMM_WORLD, FAIL);
	}
	/* Hot north edge, a warm spot inside, everything else cold; edges never change. */
	for (int j = 0; j < ny + 2; j++) {
		for (int i = 0; i < nx + 2; i++) {
			const int x = x0 + i - 1, y = y0 + j - 1;
			double v = 0;

			if (y < 0 && x >= 0 && x < n)
				v = 1;
			else if (x > n / 4 && x < n / 2 && y > n / 2 && y < 3 * n / 4)
				v = 0.5;
			b->u[(size_t)j * b->stride + (size_t)i] = v;
			b->next[(size_t)j * b->stride + (size_t)i] = v;
		}
	}
}

static void block_free(struct block *b)
{
	free(b->u);
	free(b->next);
}

/* One step of the cells [i0, i1) x [j0, j1), counted from 1 inside the frame; their part of the residual. Not inlined:
 * one copy of the code computes every cell, so that a compiler that fuses multiplications and additions does so for
 * all cells. */
static __attribute__((noinline)) int64_t sweep(struct block *b, int i0, int i1, int j0, int j1, double unit)
{
	int64_t sum = 0;

	for (int j = j0; j < j1; j++) {
		const double *u = b->u + (size_t)j * b->stride;
		const double *north = u - b->stride, *south = u + b->stride;
		double *next = b->next + (size_t)j * b->stride;

		for (int i = i0; i < i1; i++) {
			const double change = diffusion * (u[i - 1] + u[i + 1] + north[i] + south[i] - 4 * u[i]);

			next[i] = u[i] + change;
			sum += (int64_t)(fabs(change) * unit);
		}
	}
	return sum;
}

static void block_turn(struct block *b)
{
	double *u = b->u;

	b->u = b->next;
	b->next = u;
}

/* ---- the parallel solution ------------------------------------------------------------------------------------- */

struct grid {
	int px, py, cx, cy;	/* ranks per dimension; this rank's place */
	int neighbour[SIDES];
	MPI_Datatype column;
	struct block b;
};

/* Where part `which` of `parts` begins on n cells. */
static int begin_of(int n, int parts, int which)
{
	return (int)((long)n * which / parts);
}

/* The two factors of the ranks that are closest to each other. */
static void choose_grid(struct settings *s)
{
	if (s->px && s->py)
		return;
	if (s->px || s->py) {
		if (s->px)
			s->py = ranks / s->px;
		else
			s->px = ranks / s->py;
		return;
	}
	for (int p = 1; (long)p * p <= ranks; p++)
		if (ranks % p == 0)
			s->py = p;
	s->px = ranks / s->py;
}

static void grid_new(struct grid *g, const struct settings *s)
{
	g->px = s->px;
	g->py = s->py;
	g->cx = rank % s->px;
	g->cy = rank / s->px;
	g->neighbour[WEST] = g->cx > 0 ? rank - 1 : MPI_PROC_NULL;
	g->neighbour[EAST] = g->cx < g->px - 1 ? rank + 1 : MPI_PROC_NULL;
	g->neighbour[NORTH] = g->cy > 0 ? rank - g->px : MPI_PROC_NULL;
	g->neighbour[SOUTH] = g->cy < g->py - 1 ? rank + g->px : MPI_PROC_NULL;
	const int x0 = begin_of(s->n, g->px, g->cx), x1 = begin_of(s->n, g->px, g->cx + 1);
	const int y0 = begin_of(s->n, g->py, g->cy), y1 = begin_of(s->n, g->py, g->cy + 1);

	block_new(&g->b, x0, y0, x1 - x0, y1 - y0, s->n);
	MPI_Type_vector(g->b.ny, 1, (int)g->b.stride, MPI_DOUBLE, &g->column);
	MPI_Type_commit(&g->column);
}

static void grid_free(struct grid *g)
{
	MPI_Type_free(&g->column);
	block_free(&g->b);
}

/* Starts the exchange of the frame; the tag is the side on which the data arrives. */
static void exchange(struct grid *g, MPI_Request requests[2 * SIDES])
{
	struct block *b = &g->b;
	double *first = b->u + b->stride + 1, *last_row = b->u + (size_t)b->ny * b->stride + 1;
	double *const in[SIDES] = {first - 1, first + b->nx, first - b->stride, last_row + b->stride};
	double *const out[SIDES] = {first, first + b->nx - 1, first, last_row};
	const int opposite[SIDES] = {EAST, WEST, SOUTH, NORTH};

	for (int side = 0; side < SIDES; side++) {
		const bool column = side == WEST || side == EAST;
		const int count = column ? 1 : b->nx;

		MPI_Irecv(in[side], count, column ? g->column : MPI_DOUBLE, g->neighbour[side], side, MPI_COMM_WORLD,
			  &requests[side]);
	}
	for (int side = 0; side < SIDES; side++) {
		const bool column = side == WEST || side == EAST;
		const int count = column ? 1 : b->nx;

		MPI_Isend(out[side], count, column ? g->column : MPI_DOUBLE, g->neighbour[side], opposite[side],
			  MPI_COMM_WORLD, &requests[SIDES + side]);
	}
}

/* One step: first the cells that need no neighbour, then the rim. */
static int64_t parallel_step(struct grid *g, double unit)
{
	struct block *b = &g->b;
	MPI_Request requests[2 * SIDES];
	int64_t sum;

	exchange(g, requests);
	sum = sweep(b, 2, b->nx, 2, b->ny, unit);
	MPI_Waitall(2 * SIDES, requests, MPI_STATUSES_IGNORE);
	sum += sweep(b, 1, b->nx + 1, 1, 2, unit);
	if (b->ny > 1)
		sum += sweep(b, 1, b->nx + 1, b->ny, b->ny + 1, unit);
	sum += sweep(b, 1, 2, 2, b->ny, unit);
	if (b->nx > 1)
		sum += sweep(b, b->nx, b->nx + 1, 2, b->ny, unit);
	block_turn(b);
	return sum;
}

/* Below the limit, in the units of the sum. */
static bool small_enough(int64_t residual, const struct settings *s, double unit)
{
	return (double)residual < s->limit * unit * (double)s->n * (double)s->n;
}

/* Solves; residuals[step] is the whole plate's. The reduction of a step is waited for after the next step's sweep, so
 * one more step than the limit asks for is done. Returns the steps done. */
static int solve_parallel(struct grid *g, const struct settings *s, double unit, int64_t *residuals)
{
	int64_t mine[2];	/* two in turn: one is being reduced while the next is computed */
	MPI_Request reduction = MPI_REQUEST_NULL;
	int step;

	for (step = 0; step < s->steps; step++) {
		mine[step % 2] = parallel_step(g, unit);
		MPI_Wait(&reduction, MPI_STATUS_IGNORE);
		if (step > 0 && small_enough(residuals[step - 1], s, unit)) {
			MPI_Allreduce(&mine[step % 2], &residuals[step], 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
			return step + 1;
		}
		MPI_Iallreduce(&mine[step % 2], &residuals[step], 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD, &reduction);
	}
	MPI_Wait(&reduction, MPI_STATUS_IGNORE);
	return step;
}

/* ---- the check ------------------------------------------------------------------------------------------------- */

static int solve_serial(struct block *b, const struct settings *s, double unit, int64_t *residuals)
{
	for (int step = 0; step < s->steps; step++) {
		residuals[step] = sweep(b, 1, b->nx + 1, 1, b->ny + 1, unit);
		block_turn(b);
		if (step > 0 && small_enough(residuals[step - 1], s, unit))
			return step + 1;
	}
	return s->steps;
}

/* Every rank's inner cells come to rank 0 row by row. plate: n x n cells. */
static void gather(struct grid *g, const struct settings *s, double *plate)
{
	for (int r = 0; r < ranks; r++) {
		const int cx = r % g->px, cy = r / g->px;
		const int x0 = begin_of(s->n, g->px, cx), x1 = begin_of(s->n, g->px, cx + 1);
		const int y0 = begin_of(s->n, g->py, cy), y1 = begin_of(s->n, g->py, cy + 1);

		if (rank != 0 && rank != r)
			continue;
		for (int y = y0; y < y1; y++) {
			const double *row = g->b.u + (size_t)(y - g->b.y0 + 1) * g->b.stride + 1;
			double *target = plate + (size_t)y * (size_t)s->n + (size_t)x0;

			if (r == 0)
				memcpy(target, row, (size_t)(x1 - x0) * sizeof(double));
			else if (rank == 0)
				MPI_Recv(target, x1 - x0, MPI_DOUBLE, r, y, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
			else
				MPI_Send(row, x1 - x0, MPI_DOUBLE, 0, y, MPI_COMM_WORLD);
		}
	}
}

/* On rank 0: number of cells and residuals that differ from the serial answer. */
static long compare(const struct settings *s, const double *plate, int steps, const int64_t *residuals, double unit)
{
	struct block b;
	int64_t *alone = calloc((size_t)s->steps + 1, sizeof(*alone));
	long cells = 0, sums = 0;
	double largest = 0;
	int done;

	if (!alone) {
		fprintf(stderr, "heat2d: no memory for %d residuals: choose fewer -s\n", s->steps);
		MPI_Abort(MPI_COMM_WORLD, FAIL);
		return 1;
	}
	block_new(&b, 0, 0, s->n, s->n, s->n);
	done = solve_serial(&b, s, unit, alone);
	for (int y = 0; y < s->n; y++) {
		for (int x = 0; x < s->n; x++) {
			const double difference = fabs(plate[(size_t)y * (size_t)s->n + (size_t)x] -
						       b.u[(size_t)(y + 1) * b.stride + (size_t)x + 1]);

			if (difference > 0 || difference != difference)
				cells++;
			if (difference > largest)
				largest = difference;
		}
	}
	for (int i = 0; i < steps && i < done; i++)
		sums += residuals[i] != alone[i];
	printf("check      %ld of %ld cells and %ld of %d residuals differ from the serial answer", cells,
	       (long)s->n * s->n, sums, steps);
	if (cells)
		printf(" (largest difference %g)", largest);
	printf("%s\n", done == steps ? "" : ", which took another number of steps");
	block_free(&b);
	free(alone);
	return cells + sums + (done != steps);
}

/* ---- options ---------------------------------------------------------------------------------------------------- */

static int whole(const char *option, const char *text, int least)
{
	char *end;
	long v;

	errno = 0;
	v = text ? strtol(text, &end, 10) : 0;
	if (!text || end == text || *end || errno || v < least || v > INT_MAX)
		quit(USAGE, "%s %s: a whole number of at least %d is wanted (-h lists the options)", option,
		     text ? text : "", least);
	return (int)v;
}

static void usage(void)
{
	printf("heat2d: the two-dimensional heat equation, checked against the serial answer\n"
	       "Options:\n"
	       "  -n CELLS   cells per side of the plate (512)\n"
	       "  -s STEPS   most steps in time (500)\n"
	       "  -e LIMIT   stop when the mean change per cell and step is below this (0: do all steps)\n"
	       "  -x RANKS   ranks in x (chosen unless given; x times y must be all ranks)\n"
	       "  -y RANKS   ranks in y\n"
	       "  -N         do not check\n"
	       "  -h         print this\n");
}

static void options(int argc, char **argv, struct settings *s)
{
	for (int i = 1; i < argc; i++) {
		const char *o = argv[i], *value = i + 1 < argc ? argv[i + 1] : NULL;
		char *end;

		if (o[0] != '-' || !o[1] || o[2] || !strchr("nsexyNh", o[1]))
			quit(USAGE, "unknown option '%s'; known are -n -s -e -x -y -N -h (-h says what they do)", o);
		switch (o[1]) {
		case 'N':
			s->verify = false;
			continue;
		case 'h':
			if (rank == 0)
				usage();
			MPI_Finalize();
			exit(PASS);
		case 'e':
			s->limit = value ? strtod(value, &end) : -1;
			if (!value || end == value || *end || !(s->limit >= 0))
				quit(USAGE, "-e %s: a number of at least 0 is wanted", value ? value : "");
			break;
		case 'n':
			s->n = whole(o, value, 1);
			break;
		case 's':
			s->steps = whole(o, value, 1);
			break;
		case 'x':
			s->px = whole(o, value, 1);
			break;
		case 'y':
			s->py = whole(o, value, 1);
			break;
		}
		i++;
	}
	choose_grid(s);
	if ((long)s->px * s->py != ranks)
		quit(USAGE, "a grid of %d x %d is not %d ranks: give -x and -y whose product is the number of ranks",
		     s->px, s->py, ranks);
	if (s->px > s->n || s->py > s->n)
		quit(USAGE, "%d x %d ranks are more than %d cells per side: choose a larger -n", s->px, s->py, s->n);
	if (s->n > (1 << 20))
		quit(USAGE, "-n %d: at most %d, beyond that the residual's sum may overflow", s->n, 1 << 20);
}

int main(int argc, char **argv)
{
	struct settings s = {.n = 512, .steps = 500, .verify = true};
	struct grid g;
	double *plate = NULL, begin, seconds, unit;
	int64_t *residuals;
	long differ = 0;
	int steps;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	options(argc, argv, &s);
	unit = ldexp(1, fraction_bits(s.n));
	residuals = calloc((size_t)s.steps, sizeof(*residuals));
	if (rank == 0 && s.verify)
		plate = calloc((size_t)s.n * (size_t)s.n, sizeof(double));
	if (!residuals || (rank == 0 && s.verify && !plate)) {
		fprintf(stderr, "heat2d: rank %d: no memory for the check of %d x %d cells: choose a smaller -n\n",
			rank, s.n, s.n);
		MPI_Abort(MPI_COMM_WORLD, FAIL);
	}
	grid_new(&g, &s);
	if (rank == 0)
		printf("grid       %d x %d cells\nranks      %d (%d x %d)\n", s.n, s.n, ranks, g.px, g.py);
	MPI_Barrier(MPI_COMM_WORLD);
	begin = MPI_Wtime();
	steps = solve_parallel(&g, &s, unit, residuals);
	seconds = MPI_Wtime() - begin;
	if (rank == 0)
		printf("steps      %d in %.3f s\nresidual   %.9g (%" PRId64 " units of 2^-%d)\n", steps, seconds,
		       (double)residuals[steps - 1] / unit, residuals[steps - 1], fraction_bits(s.n));
	if (s.verify) {
		gather(&g, &s, plate);
		if (rank == 0)
			differ = compare(&s, plate, steps, residuals, unit);
		MPI_Bcast(&differ, 1, MPI_LONG, 0, MPI_COMM_WORLD);
	}
	if (rank == 0)
		printf("%s\n", !s.verify ? "not checked" : differ ? "FAIL" : "PASS");
	fflush(stdout);
	grid_free(&g);
	free(plate);
	free(residuals);
	MPI_Finalize();
	return differ ? FAIL : PASS;
}
