/* SPDX-License-Identifier: BSD-3-Clause */
/* A tool by the profiling interface (MPI-5.0 section 15.2), to be preloaded: counts the program's sends and their bytes. */
#include <mpi.h>
#include <stdio.h>

static long sends, bytes;

static int counted(int count, MPI_Datatype type)
{
	int size;

	PMPI_Type_size(type, &size);
	sends++;
	bytes += (long)count * size;
	return count;
}

int MPI_Send(const void *buf, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm)
{
	return PMPI_Send(buf, counted(count, type), type, dest, tag, comm);
}

int MPI_Isend(const void *buf, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm, MPI_Request *request)
{
	return PMPI_Isend(buf, counted(count, type), type, dest, tag, comm, request);
}

int MPI_Finalize(void)
{
	int rank;

	PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
	printf("tools_pmpi: rank %d sent %ld messages, %ld bytes\n", rank, sends, bytes);
	fflush(stdout);
	return PMPI_Finalize();
}
