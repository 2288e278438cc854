/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reductions of floating-point numbers, with bits that depend on the order of the operands: the same call on the same
 * communicator gives the same bits each time, from the first on, independent of the ranks' timing and of other operations.
 *
 *     coll_reduce_order [fixed | sides]
 *
 * All ranks have the same bits of an Allreduce, also where MIN and MAX depend on the side of each operand: of NaN, and of -0.0
 * and 0.0. sides: only this.
 *
 * fixed: so do the blocking, the nonblocking and the persistent form, also of such operands, and rank 0 prints a number that is
 * the same on every executor and placement (HEDDLE_REDUCE_ORDER=fixed).
 */
#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ALLREDUCE, REDUCE, REDUCE_SCATTER, SCAN, EXSCAN, KINDS };
enum { BLOCKING, NONBLOCKING, PERSISTENT, FORMS };
enum { CALLS = 20, MOST = 3000 };
static const char *const names[] = { "allreduce", "reduce", "reduce_scatter_block", "scan", "exscan" };

static int me, all;
static uint64_t state = 88172645463325252ull;

static uint64_t draw(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	return state ^= state << 17;
}

/* Of very different sizes, so that every order rounds differently. */
static void fill(double *d, int n)
{
	for (int i = 0; i < n; i++) {
		d[i] = (double)(int64_t)draw() / (double)(1ull << 60);
		for (int e = (int)(draw() % 40); e; e--)
			d[i] *= 0.5;
	}
}

static uint64_t hash(uint64_t h, const double *d, int n)
{
	for (int i = 0; i < n; i++) {
		uint64_t w;

		memcpy(&w, &d[i], 8);
		h = (h ^ w) * 0x9e3779b97f4a7c15ull;
		h ^= h >> 31;
	}
	return h;
}

static void call(int kind, int form, const double *in, double *out, int n, MPI_Op op, MPI_Comm c, MPI_Request *req)
{
	MPI_Datatype t = MPI_DOUBLE;
	int root = all - 1;

#define FORM(Name, name, ...) (form == BLOCKING ? MPI_##Name(__VA_ARGS__, c) : \
			       form == NONBLOCKING ? MPI_I##name(__VA_ARGS__, c, req) : \
			       MPI_##Name##_init(__VA_ARGS__, c, MPI_INFO_NULL, req))
	switch (kind) {
	case ALLREDUCE: FORM(Allreduce, allreduce, in, out, n, t, op); break;
	case REDUCE: FORM(Reduce, reduce, in, out, n, t, op, root); break;
	case REDUCE_SCATTER: FORM(Reduce_scatter_block, reduce_scatter_block, in, out, n, t, op); break;
	case SCAN: FORM(Scan, scan, in, out, n, t, op); break;
	default: FORM(Exscan, exscan, in, out, n, t, op); break;
	}
}

/* All calls of one form. Returns the hash of the first one's result. */
static uint64_t run(int kind, int form, const double *in, int n, bool *same)
{
	double *out = malloc(sizeof(double) * (size_t)n);
	uint64_t first = 0;
	MPI_Request req;
	MPI_Comm c;

	MPI_Comm_dup(MPI_COMM_WORLD, &c);
	if (form == PERSISTENT)
		call(kind, form, in, out, n, MPI_SUM, c, &req);
	for (int i = 0; i < CALLS; i++) {
		uint64_t h;

		memset(out, 0, sizeof(double) * (size_t)n);
		if (rand() % 16 == 0)
			usleep((unsigned)(rand() % 300));
		if (form == PERSISTENT)
			MPI_Start(&req);
		else
			call(kind, form, in, out, n, MPI_SUM, c, &req);
		if (form != BLOCKING)
			MPI_Wait(&req, MPI_STATUS_IGNORE);
		h = hash(1, out, n);
		first = i ? first : h;
		if (h != first && *same) {
			printf("rank %d: %s of %d doubles, form %d: call %d gives other bits than call 0\n", me, names[kind], n,
			       form, i);
			*same = false;
		}
	}
	if (form == PERSISTENT)
		MPI_Request_free(&req);
	MPI_Comm_free(&c);
	free(out);
	return first;
}

/* More calls than the first few of a communicator, which run otherwise. */
static bool same_everywhere(MPI_Op op, int n)
{
	static const double values[] = { 1.0, 0.0, -0.0, __builtin_nan("1"), -__builtin_nan("2") };
	double *in = malloc(sizeof(double) * (size_t)n), *out = malloc(sizeof(double) * (size_t)n);
	uint64_t first = 0, mine, of_root;
	bool same = true, again = true;
	MPI_Comm c;

	MPI_Comm_dup(MPI_COMM_WORLD, &c);
	for (int i = 0; i < n; i++)
		in[i] = values[draw() % 5];
	for (int i = 0; i < 12; i++) {
		memcpy(out, in, sizeof(double) * (size_t)n);
		MPI_Scan(MPI_IN_PLACE, out, n, MPI_DOUBLE, op, c);
		mine = hash(1, out, n);
		first = i ? first : mine;
		again = again && mine == first;
	}
	if (!again)
		printf("rank %d: scan in place of %d doubles with NaN and -0.0: later calls give other bits than the first\n",
		       me, n);
	for (int i = 0; i < 12; i++) {
		MPI_Allreduce(in, out, n, MPI_DOUBLE, op, c);
		of_root = mine = hash(1, out, n);
		MPI_Bcast(&of_root, 1, MPI_UINT64_T, 0, c);
		same = same && mine == of_root;
	}
	if (!same)
		printf("rank %d: allreduce of %d doubles with NaN and -0.0: other bits than on rank 0\n", me, n);
	MPI_Comm_free(&c);
	free(in);
	free(out);
	return same && again;
}

/* One call of each form, of operands whose side matters. Returns the hash of the blocking one's result. */
static uint64_t forms_alike(int kind, MPI_Op op, bool in_place, int n, bool *same)
{
	static const double values[] = { 1.0, 0.0, -0.0, __builtin_nan("1"), -__builtin_nan("2") };
	double *in = malloc(sizeof(double) * (size_t)(n * all)), *out = malloc(sizeof(double) * (size_t)(n * all));
	size_t given = sizeof(double) * (size_t)(kind == REDUCE_SCATTER ? n * all : n);
	bool here = in_place && (kind != REDUCE || me == all - 1);
	uint64_t first = 0, mine;
	MPI_Request req;

	for (int i = 0; i < n * all; i++)
		in[i] = values[draw() % 5];
	for (int form = 0; form < FORMS; form++) {
		memset(out, 0, sizeof(double) * (size_t)(n * all));
		if (here)
			memcpy(out, in, given);
		call(kind, form, here ? MPI_IN_PLACE : in, out, n, op, MPI_COMM_WORLD, &req);
		if (form == PERSISTENT)
			MPI_Start(&req);
		if (form != BLOCKING)
			MPI_Wait(&req, MPI_STATUS_IGNORE);
		if (form == PERSISTENT)
			MPI_Request_free(&req);
		mine = kind == EXSCAN && !me ? 0 : kind == REDUCE && me != all - 1 ? 0 : hash(1, out, n);
		first = form ? first : mine;
		if (mine != first && *same) {
			printf("rank %d: %s of %d doubles with NaN and -0.0%s: form %d gives other bits than the blocking one\n",
			       me, names[kind], n, in_place ? ", in place" : "", form);
			*same = false;
		}
	}
	free(in);
	free(out);
	return first;
}

int main(int argc, char **argv)
{
	static const int sizes[] = { 1, 3, 17, 100, 130, 1000, MOST };
	uint64_t sum = 7, *of_all;
	bool fixed, sides, same = true;
	double *in;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &me);
	MPI_Comm_size(MPI_COMM_WORLD, &all);
	fixed = argc > 1 && !strcmp(argv[1], "fixed");
	sides = argc > 1 && !fixed;
	state += (uint64_t)me * 0x9e3779b97f4a7c15ull;
	srand((unsigned)getpid());
	in = malloc(sizeof(double) * MOST * (size_t)all);
	of_all = malloc(sizeof(uint64_t) * (size_t)all);
	for (size_t s = 0; !sides && s < sizeof sizes / sizeof sizes[0]; s++)
		for (int kind = 0; kind < KINDS; kind++) {
			uint64_t one = 0;

			fill(in, sizes[s] * all);
			for (int form = 0; form < FORMS; form++) {
				uint64_t h = run(kind, form, in, sizes[s], &same);

				one = form ? one : h;
				if (fixed && h != one && same) {
					printf("rank %d: %s of %d doubles: form %d gives other bits than the blocking one\n",
					       me, names[kind], sizes[s], form);
					same = false;
				}
			}
			sum = (sum ^ one) * 0x9e3779b97f4a7c15ull;
		}
	for (int i = 0; i < 9; i++)
		same &= same_everywhere(i % 3 == 0 ? MPI_MAX : i % 3 == 1 ? MPI_MIN : MPI_SUM, i < 3 ? 1 : i < 6 ? 130 : 1000);
	for (int i = 0; fixed && i < KINDS * 12; i++) {
		uint64_t one = forms_alike(i % KINDS, i / KINDS % 3 ? MPI_MAX : MPI_MIN, i / KINDS % 2,
					   i / KINDS < 6 ? 1 + i / KINDS : 200, &same);

		sum = (sum ^ one) * 0x9e3779b97f4a7c15ull;
	}
	MPI_Gather(&sum, 1, MPI_UINT64_T, of_all, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD);
	for (int r = 1; r < all; r++)
		sum = (sum ^ of_all[r]) * 0x9e3779b97f4a7c15ull;
	if (!me)
		printf("bits: %016llx\n", (unsigned long long)sum);
	MPI_Finalize();
	return !same;
}
