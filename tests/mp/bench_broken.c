/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Breaks received data, by MPI's profiling interface: linked into a benchmark, whose validation must notice. BENCH_BREAK names
 * the damage: data (one bit of a message or result), guard (a byte behind the buffer); else none.
 */
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

static int broken(const char *what)
{
	const char *wanted = getenv("BENCH_BREAK");

	return wanted && !strcmp(wanted, what);
}

/* Every fiftieth one: a fault that is not there each time. */
static void spoil(void *buf, size_t bytes)
{
	static int calls;

	if (++calls % 50 || !bytes)
		return;
	if (broken("data"))
		((unsigned char *)buf)[bytes - 1] ^= 1;
	if (broken("guard"))
		((unsigned char *)buf)[bytes] ^= 1;
}

int MPI_Recv(void *buf, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm, MPI_Status *status)
{
	int rc = PMPI_Recv(buf, count, type, source, tag, comm, status);

	if (type == MPI_CHAR)
		spoil(buf, (size_t)count);
	return rc;
}

int MPI_Allreduce(const void *send, void *recv, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm)
{
	int rc = PMPI_Allreduce(send, recv, count, type, op, comm);

	if (type == MPI_FLOAT)
		spoil(recv, (size_t)count * sizeof(float));
	return rc;
}
