/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Under valgrind (tests/shca/valgrind.sh): memory of malloc into which peers wrote is defined for valgrind, as after read(2): by
 * short and long messages, of types with holes, too, and by long collectives. A branch on each byte.
 */
#include "mpi_test.h"

enum { LENGTHS = 5 };
static const int lengths[LENGTHS] = { 8, 3000, 20000, 300000, 1 << 20 };	/* divisible by 4 */
static volatile int odd;

static void look(const char *what, const unsigned char *p, int n, int seed)
{
	for (int i = 0; i < n; i++) {
		if (p[i] & 1)
			odd++;
		if (p[i] != (unsigned char)(i * 7 + seed))
			test_fail(__FILE__, __LINE__, "%s: %d bytes: byte %d is wrong", what, n, i);
	}
}

static unsigned char *full(int n, int seed)
{
	unsigned char *p = malloc((size_t)n);

	for (int i = 0; i < n; i++)
		p[i] = (unsigned char)(i * 7 + seed);
	return p;
}

int main(int argc, char **argv)
{
	int peer;

	test_init(&argc, &argv);
	peer = me ^ 1;
	for (int i = 0; i < LENGTHS; i++) {
		int n = lengths[i];
		unsigned char *out = full(n, me), *in = malloc((size_t)n), *block = full(n, 9), *copy = malloc((size_t)n);
		unsigned char *all = malloc((size_t)n * (size_t)np);
		MPI_Datatype halves;
		MPI_Request r;

		MPI_Irecv(in, n, MPI_BYTE, peer, 0, MPI_COMM_WORLD, &r);
		MPI_Send(out, n, MPI_BYTE, peer, 0, MPI_COMM_WORLD);
		MPI_Wait(&r, MPI_STATUS_IGNORE);
		look("a message", in, n, peer);
		free(in);

		in = malloc((size_t)n);
		MPI_Type_vector(2, n / 4, n / 2, MPI_BYTE, &halves);
		MPI_Type_commit(&halves);
		MPI_Irecv(in, 1, halves, peer, 1, MPI_COMM_WORLD, &r);
		MPI_Send(out, n / 4 * 2, MPI_BYTE, peer, 1, MPI_COMM_WORLD);
		MPI_Wait(&r, MPI_STATUS_IGNORE);
		look("a message into halves", in, n / 4, peer);
		MPI_Type_free(&halves);

		MPI_Bcast(me ? copy : block, n, MPI_BYTE, 0, MPI_COMM_WORLD);
		look("a broadcast", me ? copy : block, n, 9);
		MPI_Allgather(out, n, MPI_BYTE, all, n, MPI_BYTE, MPI_COMM_WORLD);
		for (int k = 0; k < np; k++)
			look("a gathered block", all + (size_t)k * (size_t)n, n, k);
		free(copy);
		copy = malloc((size_t)n);
		MPI_Allreduce(out, copy, n, MPI_BYTE, MPI_BOR, MPI_COMM_WORLD);
		for (int k = 0; k < n; k++)
			if (copy[k] & 2)
				odd++;
		free(out);
		free(in);
		free(block);
		free(copy);
		free(all);
	}
	test_done("mpi_memcheck_received");
	return 0;
}
