/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared by the MPI test programs. They are correct programs of the standard and run under any MPI; TEST_MPICC builds them for
 * another MPI to prove that.
 */
#ifndef MPI_TEST_H
#define MPI_TEST_H

#include <mpi.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* weak: one object in a program of several sources */
__attribute__((weak)) int me, np;
__attribute__((weak)) MPI_Comm sync_comm;		/* for meet(), apart from the messages under test */

static inline void test_init(int *argc, char ***argv)
{
	MPI_Init(argc, argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &me);
	MPI_Comm_size(MPI_COMM_WORLD, &np);
	MPI_Comm_dup(MPI_COMM_WORLD, &sync_comm);
}

static inline void test_fail(const char *file, int line, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static inline void test_fail(const char *file, int line, const char *fmt, ...)
{
	va_list ap;

	fprintf(stderr, "%s:%d: rank %d of %d: ", file, line, me, np);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fprintf(stderr, "\n");
	MPI_Abort(MPI_COMM_WORLD, 1);
	abort();
}

#define CHECK(cond) \
	do { \
		if (!(cond)) \
			test_fail(__FILE__, __LINE__, "%s", #cond); \
	} while (0)
#define CHECK_EQ(a, b) \
	do { \
		long long a_ = (long long)(a), b_ = (long long)(b); \
		if (a_ != b_) \
			test_fail(__FILE__, __LINE__, "%s is %lld, %s is %lld", #a, a_, #b, b_); \
	} while (0)

/* Bytes that tell where they come from: a function of the seed and of the position. */
static inline uint64_t mix(uint64_t x)
{
	x += 0x9e3779b97f4a7c15u;
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

static inline uint64_t seed_of(int from, int to, int tag, int n)
{
	return mix(mix(mix(mix(from) ^ to) ^ tag) ^ n);
}

static inline void fill(void *buf, size_t len, uint64_t seed)
{
	unsigned char *p = buf;
	size_t i = 0;

	for (; i + 8 <= len; i += 8) {
		uint64_t v = mix(seed + i);

		memcpy(p + i, &v, 8);
	}
	for (; i < len; i++)
		p[i] = (unsigned char)mix(seed + i);
}

static inline void verify_at(const char *file, int line, const void *buf, size_t len, uint64_t seed)
{
	const unsigned char *p = buf;
	size_t i = 0;

	for (; i + 8 <= len; i += 8) {
		uint64_t v = mix(seed + i);

		if (memcmp(p + i, &v, 8))
			test_fail(file, line, "wrong data in bytes %zu..%zu of %zu", i, i + 7, len);
	}
	for (; i < len; i++)
		if (p[i] != (unsigned char)mix(seed + i))
			test_fail(file, line, "wrong data in byte %zu of %zu", i, len);
}
#define VERIFY(buf, len, seed) verify_at(__FILE__, __LINE__, buf, len, seed)

/* A deterministic random number; state is the caller's. */
static inline uint64_t rnd(uint64_t *state)
{
	return *state = mix(*state);
}

/* All are here; without the collectives under test: a ring, twice around. */
static inline void meet(MPI_Comm comm)
{
	int r, n, token = 0;

	MPI_Comm_rank(comm, &r);
	MPI_Comm_size(comm, &n);
	for (int round = 0; n > 1 && round < 2; round++) {
		if (r)
			MPI_Recv(&token, 1, MPI_INT, r - 1, 32000, comm, MPI_STATUS_IGNORE);
		MPI_Send(&token, 1, MPI_INT, (r + 1) % n, 32000, comm);
		if (!r)
			MPI_Recv(&token, 1, MPI_INT, n - 1, 32000, comm, MPI_STATUS_IGNORE);
	}
}

/* An error handler that sets the code to MPI_SUCCESS: the call returns the error all the same (section 9.3). */
static int n_forgiven;
static inline void forgives(MPI_Comm *comm, int *code, ...)
{
	(void)comm;
	n_forgiven++;
	*code = MPI_SUCCESS;
}

static inline void forgives_files(MPI_File *file, int *code, ...)
{
	(void)file;
	n_forgiven++;
	*code = MPI_SUCCESS;
}

/* From now on errors on MPI_COMM_WORLD and MPI_COMM_SELF, and those of files, go to it. */
static inline void forgive(void)
{
	MPI_Errhandler handler;

	MPI_Comm_create_errhandler(forgives, &handler);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
	MPI_Comm_set_errhandler(MPI_COMM_SELF, handler);
	MPI_Errhandler_free(&handler);
	MPI_File_create_errhandler(forgives_files, &handler);
	MPI_File_set_errhandler(MPI_FILE_NULL, handler);
	MPI_Errhandler_free(&handler);
}

static inline void test_done(const char *name)
{
	meet(sync_comm);
	MPI_Comm_free(&sync_comm);
	if (!me)
		printf("%s: ok, %d ranks\n", name, np);
	MPI_Finalize();
}

#endif
