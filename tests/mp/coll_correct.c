/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Collectives against their serial answers: blocking and nonblocking, on several communicators, in place, on types with holes,
 * many at a time, with ranks that come late. A plain MPI program that runs with any MPI library.
 *
 *     coll_correct [movement|reduce|interleave|reuse|communicators|skew|freed|large ...]      default: all
 */
#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int me, all;
static const char *phase;

#define FAIL(...)                                                                                                    \
	do {                                                                                                         \
		fprintf(stderr, "coll_correct: rank %d: %s: ", me, phase);                                           \
		fprintf(stderr, __VA_ARGS__);                                                                        \
		fprintf(stderr, "\n");                                                                               \
		MPI_Abort(MPI_COMM_WORLD, 1);                                                                        \
		exit(1);                                                                                             \
	} while (0)

static uint32_t rng;
static uint32_t draw(uint32_t below)	/* the same on all ranks if rng was set alike */
{
	rng = rng * 1664525u + 1013904223u;
	return (uint32_t)(((uint64_t)(rng >> 8) * below) >> 24);
}

static void *alloc(size_t n)
{
	void *p = calloc(n ? n : 1, 1);

	if (!p)
		FAIL("no memory for %zu bytes", n);
	return p;
}

static void wait_for(MPI_Request *req, bool blocking)
{
	if (!blocking)
		MPI_Wait(req, MPI_STATUS_IGNORE);
}

/* ---- movement ---------------------------------------------------------------------------------------------- */

static int value(int from, int to, int i)
{
	return from * 1000003 + to * 1009 + i * 7 + 1;
}

static void bcast(MPI_Comm comm, int n, bool blocking, bool holes)
{
	int rank, size, stride = holes ? 3 : 1;
	int *buf = alloc(sizeof(int) * (size_t)n * (size_t)stride);
	MPI_Datatype type = MPI_INT;
	MPI_Request req;

	MPI_Comm_rank(comm, &rank);
	MPI_Comm_size(comm, &size);
	/* Signatures match, layouts need not: the root sends plain integers. */
	for (int root = 0; root < size; root++) {
		bool vector = holes && rank != root;
		int step = vector ? stride : 1;

		if (vector) {
			MPI_Type_vector(n, 1, stride, MPI_INT, &type);
			MPI_Type_commit(&type);
		}
		for (int i = 0; i < n * stride; i++)
			buf[i] = -1;
		for (int i = 0; rank == root && i < n; i++)
			buf[i] = value(root, 0, i);
		if (blocking)
			MPI_Bcast(buf, vector ? 1 : n, vector ? type : MPI_INT, root, comm);
		else
			MPI_Ibcast(buf, vector ? 1 : n, vector ? type : MPI_INT, root, comm, &req);
		wait_for(&req, blocking);
		for (int i = 0; i < n; i++)
			if (buf[i * step] != value(root, 0, i))
				FAIL("Bcast of %d, root %d: element %d is %d", n, root, i, buf[i * step]);
		for (int i = 0; vector && i < (n - 1) * stride + 1; i++)
			if (i % stride && buf[i] != -1)
				FAIL("Bcast wrote into a hole at %d", i);
		if (vector)
			MPI_Type_free(&type);
	}
	free(buf);
}

static void allgather(MPI_Comm comm, int n, bool blocking, bool in_place)
{
	int rank, size, *in, *out;
	MPI_Request req;

	MPI_Comm_rank(comm, &rank);
	MPI_Comm_size(comm, &size);
	in = alloc(sizeof(int) * (size_t)n);
	out = alloc(sizeof(int) * (size_t)n * (size_t)size);
	for (int i = 0; i < n; i++)
		(in_place ? out + rank * n : in)[i] = value(rank, 0, i);
	if (blocking)
		MPI_Allgather(in_place ? MPI_IN_PLACE : in, n, MPI_INT, out, n, MPI_INT, comm);
	else
		MPI_Iallgather(in_place ? MPI_IN_PLACE : in, n, MPI_INT, out, n, MPI_INT, comm, &req);
	wait_for(&req, blocking);
	for (int r = 0; r < size; r++)
		for (int i = 0; i < n; i++)
			if (out[r * n + i] != value(r, 0, i))
				FAIL("Allgather of %d: block %d element %d is %d", n, r, i, out[r * n + i]);
	free(in);
	free(out);
}

static void alltoall(MPI_Comm comm, int n, bool blocking, bool in_place, bool holes)
{
	int rank, size, *in, *out, stride = holes ? 2 : 1;
	MPI_Datatype type;
	MPI_Request req;

	MPI_Comm_rank(comm, &rank);
	MPI_Comm_size(comm, &size);
	/* Blocks of n elements at the given stride; consecutive blocks begin one extent apart. */
	MPI_Type_vector(n, 1, stride, MPI_INT, &type);
	MPI_Type_commit(&type);
	{
		int block = (n - 1) * stride + 1;

		in = alloc(sizeof(int) * (size_t)block * (size_t)size);
		out = alloc(sizeof(int) * (size_t)block * (size_t)size);
		for (int r = 0; r < size; r++)
			for (int i = 0; i < n; i++)
				(in_place ? out : in)[r * block + i * stride] = value(rank, r, i);
		if (blocking)
			MPI_Alltoall(in_place ? MPI_IN_PLACE : in, 1, type, out, 1, type, comm);
		else
			MPI_Ialltoall(in_place ? MPI_IN_PLACE : in, 1, type, out, 1, type, comm, &req);
		wait_for(&req, blocking);
		for (int r = 0; r < size; r++)
			for (int i = 0; i < n; i++)
				if (out[r * block + i * stride] != value(r, rank, i))
					FAIL("Alltoall of %d: block %d element %d is %d", n, r, i, out[r * block + i * stride]);
	}
	MPI_Type_free(&type);
	free(in);
	free(out);
}

static void movement(MPI_Comm comm)
{
	static const int sizes[] = { 1, 2, 33, 700, 5000, 40000 };

	for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++)
		for (int blocking = 0; blocking < 2; blocking++) {
			int n = sizes[s];

			bcast(comm, n, blocking, false);
			bcast(comm, n, blocking, true);
			for (int in_place = 0; in_place < 2; in_place++) {
				allgather(comm, n, blocking, in_place);
				alltoall(comm, n, blocking, in_place, false);
				alltoall(comm, n, blocking, in_place, true);
			}
		}
}

/* ---- reductions -------------------------------------------------------------------------------------------- */

#define TYPES(X)                                                                                                     \
	X(int8_t, MPI_INT8_T) X(uint16_t, MPI_UINT16_T) X(int, MPI_INT) X(uint64_t, MPI_UINT64_T) X(long, MPI_LONG)  \
	X(float, MPI_FLOAT) X(double, MPI_DOUBLE)

/* Small values: sums and products are exact in every type, in any order. */
static double input(int rank, int i)
{
	return (rank + i) % 3 ? 1 : 2;
}

#define REDUCER(T, M)                                                                                                \
	static void reduce_##T(MPI_Comm comm, int n, bool blocking, bool in_place)                                   \
	{                                                                                                            \
		static const struct { MPI_Op op; const char *name; } *o, ops[] = {                                   \
			{ MPI_SUM, "SUM" }, { MPI_MAX, "MAX" }, { MPI_MIN, "MIN" }, { MPI_PROD, "PROD" } };          \
		int rank, size;                                                                                      \
		T *in = alloc(sizeof(T) * (size_t)n), *out = alloc(sizeof(T) * (size_t)n);                           \
		MPI_Request req;                                                                                     \
                                                                                                                     \
		MPI_Comm_rank(comm, &rank);                                                                          \
		MPI_Comm_size(comm, &size);                                                                          \
		for (o = ops; o < ops + 4; o++)                                                                      \
			for (int root = -1; root < size; root += 1 + (root >= 0 ? size / 3 : 0)) {                   \
				bool ip = in_place && (root < 0 || rank == root);                                    \
				const void *from = ip ? MPI_IN_PLACE : in;                                           \
                                                                                                                     \
				for (int i = 0; i < n; i++) {                                                        \
					in[i] = (T)input(rank, i);                                                   \
					out[i] = ip ? in[i] : (T)77;                                                 \
				}                                                                                    \
				if (root < 0 && blocking)                                                            \
					MPI_Allreduce(from, out, n, M, o->op, comm);                                 \
				else if (root < 0)                                                                   \
					MPI_Iallreduce(from, out, n, M, o->op, comm, &req);                          \
				else if (blocking)                                                                   \
					MPI_Reduce(from, out, n, M, o->op, root, comm);                              \
				else                                                                                 \
					MPI_Ireduce(from, out, n, M, o->op, root, comm, &req);                       \
				wait_for(&req, blocking);                                                            \
				for (int i = 0; i < n; i++) {                                                        \
					double e = input(0, i);                                                      \
                                                                                                                     \
					for (int r = 1; r < size; r++) {                                             \
						double v = input(r, i);                                              \
                                                                                                                     \
						e = o->op == MPI_SUM ? e + v : o->op == MPI_PROD ? e * v :           \
						    o->op == MPI_MAX ? (v > e ? v : e) : v < e ? v : e;              \
					}                                                                            \
					if (root >= 0 && rank != root)                                               \
						e = 77;                                                              \
					if (out[i] != (T)e)                                                          \
						FAIL("%s of %d x " #T " %s, root %d: element %d is %g, not %g",      \
						     root < 0 ? "Allreduce" : "Reduce", n, o->name, root, i,         \
						     (double)out[i], e);                                             \
				}                                                                                    \
			}                                                                                            \
		free(in);                                                                                            \
		free(out);                                                                                           \
	}
TYPES(REDUCER)

/* The operations that masked atomics do, on random words. */
static void bits(MPI_Comm comm, int n, bool blocking)
{
	static const MPI_Op ops[] = { MPI_BAND, MPI_BOR, MPI_BXOR, MPI_LAND, MPI_LOR, MPI_LXOR, MPI_SUM };
	int rank, size;
	uint32_t *in = alloc(4 * (size_t)n), *out = alloc(4 * (size_t)n);
	MPI_Request req;

	MPI_Comm_rank(comm, &rank);
	MPI_Comm_size(comm, &size);
	for (size_t o = 0; o < sizeof(ops) / sizeof(ops[0]); o++) {
#define WORD(r, i) ((uint32_t)((r) * 2654435761u + (i) * 40503u) * ((uint32_t)((r) + (i)) % 3 != 0))
		for (int i = 0; i < n; i++)
			in[i] = WORD((uint32_t)rank, (uint32_t)i);
		if (blocking)
			MPI_Allreduce(in, out, n, MPI_UINT32_T, ops[o], comm);
		else
			MPI_Iallreduce(in, out, n, MPI_UINT32_T, ops[o], comm, &req);
		wait_for(&req, blocking);
		for (int i = 0; i < n && size > 1; i++) {
			uint32_t e = WORD(0u, (uint32_t)i);

			for (uint32_t r = 1; r < (uint32_t)size; r++) {
				uint32_t v = WORD(r, (uint32_t)i);

				switch (o) {
				case 0: e &= v; break;
				case 1: e |= v; break;
				case 2: e ^= v; break;
				case 3: e = e && v; break;
				case 4: e = e || v; break;
				case 5: e = !e != !v; break;
				default: e += v; break;
				}
			}
			if (out[i] != e)
				FAIL("bit operation %zu of %d words: word %d is %x, not %x", o, n, i, out[i], e);
		}
	}
	free(in);
	free(out);
}

static void maxloc(MPI_Comm comm, int n)
{
	struct { double v; int i; } *in = alloc(sizeof(*in) * (size_t)n), *out = alloc(sizeof(*out) * (size_t)n);
	int rank, size;

	MPI_Comm_rank(comm, &rank);
	MPI_Comm_size(comm, &size);
	for (int i = 0; i < n; i++) {
		in[i].v = (rank + i) % 4;
		in[i].i = rank;
	}
	MPI_Allreduce(in, out, n, MPI_DOUBLE_INT, MPI_MAXLOC, comm);
	for (int i = 0; i < n; i++) {
		int best = 0;

		for (int r = 1; r < size; r++)
			if ((r + i) % 4 > (best + i) % 4)
				best = r;
		if (out[i].i != best || out[i].v != (best + i) % 4)
			FAIL("MAXLOC element %d is (%g, %d), not (%d, %d)", i, out[i].v, out[i].i, (best + i) % 4, best);
	}
	free(in);
	free(out);
}

static void reductions(MPI_Comm comm)
{
	static const int sizes[] = { 1, 3, 60, 128, 200, 3000, 50000 };

	for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++)
		for (int blocking = 0; blocking < 2; blocking++) {
#define CALL(T, M)                                                                                                   \
	reduce_##T(comm, sizes[s], blocking, false);                                                                 \
	reduce_##T(comm, sizes[s], blocking, true);
			if (sizes[s] < 10000) {
				TYPES(CALL)
			} else {
				CALL(double, )
			}
			bits(comm, sizes[s], blocking);
			maxloc(comm, sizes[s]);
		}
}

/* ---- several at a time --------------------------------------------------------------------------------------- */

#define FLIGHT 24

struct flight {
	MPI_Request req;
	int kind, root, n;
	int64_t in[64], out[64];
};

static void launch(struct flight *f, MPI_Comm comm, int round)
{
	int rank, size;

	MPI_Comm_rank(comm, &rank);
	MPI_Comm_size(comm, &size);
	f->kind = (int)draw(5);
	f->root = (int)draw((uint32_t)size);
	f->n = 1 + (int)draw(f->kind == 4 ? 4 : 64);
	for (int i = 0; i < 64; i++) {
		f->in[i] = (int64_t)rank * 100000 + round * 64 + i;
		f->out[i] = -1;
	}
	switch (f->kind) {
	case 0:
		MPI_Ibarrier(comm, &f->req);
		break;
	case 1:
		if (rank == f->root)
			memcpy(f->out, f->in, sizeof(f->out));
		MPI_Ibcast(f->out, f->n, MPI_INT64_T, f->root, comm, &f->req);
		break;
	case 2:
		MPI_Iallreduce(f->in, f->out, f->n, MPI_INT64_T, MPI_SUM, comm, &f->req);
		break;
	case 3:
		MPI_Iallreduce(f->in, f->out, f->n, MPI_INT64_T, MPI_MAX, comm, &f->req);
		break;
	default:
		MPI_Ireduce(f->in, f->out, f->n, MPI_INT64_T, MPI_SUM, f->root, comm, &f->req);
		break;
	}
}

static void check(const struct flight *f, MPI_Comm comm, int round)
{
	int rank, size;

	MPI_Comm_rank(comm, &rank);
	MPI_Comm_size(comm, &size);
	for (int i = 0; i < f->n && f->kind; i++) {
		int64_t base = round * 64 + i, sum = base * size + (int64_t)100000 * size * (size - 1) / 2;
		int64_t e = f->kind == 1 ? base + (int64_t)f->root * 100000 :
			    f->kind == 3 ? base + (int64_t)(size - 1) * 100000 : sum;

		if (f->kind == 4 && rank != f->root)
			continue;
		if (f->out[i] != e)
			FAIL("kind %d, operation %d of %d elements, root %d: element %d is %lld, not %lld", f->kind, round, f->n,
			     f->root, i, (long long)f->out[i], (long long)e);
	}
}

static void interleave(MPI_Comm comm)
{
	struct flight *f = alloc(sizeof(*f) * FLIGHT);
	int order[FLIGHT];

	for (int turn = 0; turn < 40; turn++) {
		int64_t one = 1, sum = 0;
		int size;

		MPI_Comm_size(comm, &size);
		for (int i = 0; i < FLIGHT; i++) {
			launch(&f[i], comm, turn * FLIGHT + i);
			order[i] = i;
		}
		/* A blocking collective, which every rank calls after all of these. */
		MPI_Allreduce(&one, &sum, 1, MPI_INT64_T, MPI_SUM, comm);
		if (sum != size)
			FAIL("blocking Allreduce among nonblocking ones: %lld", (long long)sum);
		/* Waited for in an order that differs between ranks. */
		for (int i = FLIGHT - 1; i > 0; i--) {
			int j = (int)((uint32_t)rand() % (uint32_t)(i + 1)), t = order[i];

			order[i] = order[j];
			order[j] = t;
		}
		for (int i = 0; i < FLIGHT; i++) {
			MPI_Wait(&f[order[i]].req, MPI_STATUS_IGNORE);
			check(&f[order[i]], comm, turn * FLIGHT + order[i]);
		}
	}
	free(f);
}

/* More operations than there are slots and receives, many times over. */
/* Blocking calls that differ in one thing only: the root, the place, or the call in between. */
static void take_turns(MPI_Comm comm)
{
	int rank, n;
	int64_t v[64], w[64];

	MPI_Comm_rank(comm, &rank);
	MPI_Comm_size(comm, &n);
	for (int i = 0; i < 60; i++) {
		int root = i % n;

		v[0] = rank == root ? i : -1;
		MPI_Bcast(v, 1, MPI_INT64_T, root, comm);
		if (v[0] != i)
			FAIL("Bcast %d, from %d: %lld", i, root, (long long)v[0]);
		v[0] = w[0] = rank + i;
		MPI_Allreduce(i % 2 ? MPI_IN_PLACE : v, w, 1, MPI_INT64_T, MPI_SUM, comm);
		if (w[0] != (int64_t)n * (n - 1) / 2 + (int64_t)n * i)
			FAIL("Allreduce %d, %sin place: %lld", i, i % 2 ? "" : "not ", (long long)w[0]);
	}
	for (int i = 0; i < 80; i++) {
		int32_t in[200], out[200];
		MPI_Request req;

		for (int k = 0; k < 200; k++)
			in[k] = rank + i + k;
		MPI_Iallreduce(in, out, 200, MPI_INT32_T, MPI_SUM, comm, &req);
		MPI_Wait(&req, MPI_STATUS_IGNORE);
		for (int k = 0; k < 200; k++)
			if (out[k] != n * (n - 1) / 2 + n * (i + k))
				FAIL("Iallreduce %d of 200 narrow ones: %d at %d", i, out[k], k);
	}
	for (int i = 0; i < 200; i++) {
		v[0] = rank ? -1 : i;
		MPI_Bcast(v, 1, MPI_INT64_T, 0, comm);
		if (v[0] != i)
			FAIL("Bcast %d between others: %lld", i, (long long)v[0]);
		for (int k = 0; k < 64; k++)
			v[k] = rank + k;
		MPI_Allreduce(v, w, 1 + i % 64, MPI_INT64_T, i < 64 ? MPI_SUM : i < 128 ? MPI_MAX : MPI_MIN, comm);
		if (w[0] != (i < 64 ? (int64_t)n * (n - 1) / 2 : i < 128 ? n - 1 : 0))
			FAIL("Allreduce %d of %d: %lld", i, 1 + i % 64, (long long)w[0]);
	}
}

static void reuse(MPI_Comm comm)
{
	struct flight *f = alloc(sizeof(*f) * FLIGHT);

	take_turns(comm);

	for (int i = 0; i < 10000 + FLIGHT; i++) {
		struct flight *g = &f[i % FLIGHT];

		if (i >= FLIGHT) {
			MPI_Wait(&g->req, MPI_STATUS_IGNORE);
			check(g, comm, i - FLIGHT);
		}
		if (i < 10000)
			launch(g, comm, i);
	}
	/* Broadcasts alone do not synchronize: a root that runs ahead must be held back. */
	for (int i = 0; i < 3000; i++) {
		int64_t v[8] = { i, -i };
		int rank;

		MPI_Comm_rank(comm, &rank);
		if (rank)
			v[0] = v[1] = 0;
		MPI_Ibcast(v, 8, MPI_INT64_T, 0, comm, &f[0].req);
		MPI_Wait(&f[0].req, MPI_STATUS_IGNORE);
		if (v[0] != i || v[1] != -i)
			FAIL("Bcast %d of many: %lld %lld", i, (long long)v[0], (long long)v[1]);
		if (rank && i % 500 == 499)
			usleep(2000);
	}
	free(f);
}

static void communicators(void)
{
	MPI_Comm comm[12], part;
	struct flight *f = alloc(sizeof(*f) * 12);

	for (int i = 0; i < 12; i++)
		MPI_Comm_dup(MPI_COMM_WORLD, &comm[i]);
	for (int turn = 0; turn < 5; turn++) {
		for (int i = 0; i < 12; i++)
			launch(&f[i], comm[i], i);
		for (int i = 11; i >= 0; i--) {
			MPI_Wait(&f[i].req, MPI_STATUS_IGNORE);
			check(&f[i], comm[i], i);
		}
	}
	for (int i = 0; i < 12; i++)
		MPI_Comm_free(&comm[i]);
	/* Groups of their own size and order. */
	for (int parts = 1; parts <= 3; parts++) {
		MPI_Comm_split(MPI_COMM_WORLD, me % parts, -me, &part);
		interleave(part);
		reuse(part);
		MPI_Comm_free(&part);
	}
	free(f);
}

/* A communicator that is freed while its operations are under way: they complete (MPI-5.0 section 7.4.3). */
static void freed(void)
{
	struct flight *f = alloc(sizeof(*f) * FLIGHT);

	for (int turn = 0; turn < 20; turn++) {
		MPI_Comm comm;

		MPI_Comm_dup(MPI_COMM_WORLD, &comm);
		for (int i = 0; i < FLIGHT; i++)
			launch(&f[i], comm, i);
		if (turn % 2 && me)
			usleep(1000);
		MPI_Comm_free(&comm);
		for (int i = FLIGHT - 1; i >= 0; i--) {
			MPI_Wait(&f[i].req, MPI_STATUS_IGNORE);
			check(&f[i], MPI_COMM_WORLD, i);
		}
	}
	free(f);
}

/* Ranks come at different times, and compute between start and end. */
static void skew(MPI_Comm comm)
{
	struct flight *f = alloc(sizeof(*f));

	for (int i = 0; i < 200; i++) {
		int flag = 0;

		if (rand() % 4 == 0)
			usleep((useconds_t)(rand() % 1500));
		launch(f, comm, i);
		if (rand() % 4 == 0)
			usleep((useconds_t)(rand() % 1500));
		if (rand() % 2)
			for (long spins = 0; !flag; spins++) {
				MPI_Test(&f->req, &flag, MPI_STATUS_IGNORE);
				if (spins > 400000000L)
					FAIL("operation %d never completes by MPI_Test", i);
			}
		else
			MPI_Wait(&f->req, MPI_STATUS_IGNORE);
		check(f, comm, i);
	}
	free(f);
}

static void nothing(MPI_Comm comm)
{
	MPI_Request req;
	int x = 5;

	MPI_Bcast(&x, 0, MPI_INT, 0, comm);
	MPI_Allreduce(&x, &req, 0, MPI_INT, MPI_SUM, comm);
	MPI_Iallgather(NULL, 0, MPI_INT, NULL, 0, MPI_INT, comm, &req);
	MPI_Wait(&req, MPI_STATUS_IGNORE);
	MPI_Ialltoall(NULL, 0, MPI_INT, NULL, 0, MPI_INT, comm, &req);
	MPI_Wait(&req, MPI_STATUS_IGNORE);
	if (x != 5)
		FAIL("a collective of nothing changed something");
}

/* Packed pieces that are larger than the scratch memory that a run keeps. */
static void large(MPI_Comm comm)
{
	int each = (6 << 20) / (int)sizeof(int) / all, *from = alloc((size_t)each * sizeof(*from)),
	    *to = alloc((size_t)each * 8 * (size_t)all);
	MPI_Datatype holed;
	MPI_Request req;

	MPI_Type_create_resized(MPI_INT, 0, 8, &holed);
	MPI_Type_commit(&holed);
	for (int i = 0; i < each; i++)
		from[i] = me * 7 + i;
	for (int form = 0; form < 3; form++) {
		memset(to, 0, (size_t)each * 8 * (size_t)all);
		if (form == 0) {
			MPI_Gather(from, each, MPI_INT, to, each, holed, 0, comm);
		} else if (form == 1) {
			MPI_Igather(from, each, MPI_INT, to, each, holed, 0, comm, &req);
			MPI_Wait(&req, MPI_STATUS_IGNORE);
		} else {
			MPI_Gather_init(from, each, MPI_INT, to, each, holed, 0, comm, MPI_INFO_NULL, &req);
			MPI_Start(&req);
			MPI_Wait(&req, MPI_STATUS_IGNORE);
			MPI_Request_free(&req);
		}
		for (int i = 0; !me && i < each * all; i++)
			if (to[2 * i] != i / each * 7 + i % each)
				FAIL("form %d, element %d is %d", form, i, to[2 * i]);
	}
	MPI_Type_free(&holed);
	free(from);
	free(to);
}

/* One rank frees an active request, and goes straight to MPI_Finalize; the other ranks wait for this rank's part. */
static void unfinished(void)
{
	static double in[12500], out[64 * 12500];
	MPI_Request req;

	MPI_Allgather_init(in, 12500, MPI_DOUBLE, out, 12500, MPI_DOUBLE, MPI_COMM_WORLD, MPI_INFO_NULL, &req);
	if (me)
		usleep(50000);		/* rank 0 starts before the other ranks */
	MPI_Start(&req);
	if (me)
		MPI_Wait(&req, MPI_STATUS_IGNORE);
	MPI_Request_free(&req);
}

int main(int argc, char **argv)
{
	static const char *const names[] = { "movement", "reduce", "interleave", "reuse", "communicators", "skew", "freed",
					     "large" };
	bool unfinishes = argc < 2;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &me);
	MPI_Comm_size(MPI_COMM_WORLD, &all);
	srand((unsigned)me + 1);
	for (int p = 0; p < 8; p++) {
		bool wanted = argc < 2;

		for (int a = 1; a < argc; a++)
			wanted |= !strcmp(argv[a], names[p]);
		if (!wanted)
			continue;
		phase = names[p];
		rng = 99;
		switch (p) {
		case 0:
			movement(MPI_COMM_WORLD);
			nothing(MPI_COMM_WORLD);
			movement(MPI_COMM_SELF);
			break;
		case 1:
			reductions(MPI_COMM_WORLD);
			reductions(MPI_COMM_SELF);
			break;
		case 2: interleave(MPI_COMM_WORLD); break;
		case 3: reuse(MPI_COMM_WORLD); break;
		case 4: communicators(); break;
		case 5: skew(MPI_COMM_WORLD); break;
		case 6:
			freed();
			unfinishes = true;
			break;
		default: large(MPI_COMM_WORLD); break;
		}
		MPI_Barrier(MPI_COMM_WORLD);
		if (!me) {
			printf("coll_correct: %s: passed\n", phase);
			fflush(stdout);
		}
	}
	if (unfinishes)
		unfinished();
	MPI_Finalize();
	return 0;
}
