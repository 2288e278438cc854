/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * For show_sleep.sh. All ranks talk to all; then rank 0 reads a line of standard input, while every other rank is blocked
 * in MPI_Recv ("blocked PID" is printed before); then rank 0 sends to all ("woken PID").
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* enough to make a peer hot, so that rings, too, have to wake their owner */
static void talk(int rank, int size)
{
	enum { MESSAGES = 100 };

	for (int d = 1; d < size; d++)
		for (int i = 0; i < MESSAGES; i++) {
			int out = i, in = -1;

			MPI_Sendrecv(&out, 1, MPI_INT, (rank + d) % size, d, &in, 1, MPI_INT, (rank - d + size) % size, d,
				     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
			if (in != i)
				MPI_Abort(MPI_COMM_WORLD, 3);
		}
}

int main(int argc, char **argv)
{
	int rank, size, value = 0;
	char line[8];

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	talk(rank, size);
	if (rank == 0) {
		if (!fgets(line, sizeof(line), stdin))
			MPI_Abort(MPI_COMM_WORLD, 4);
		value = 17;
		for (int r = 1; r < size; r++)
			MPI_Send(&value, 1, MPI_INT, r, 0, MPI_COMM_WORLD);
	} else {
		printf("blocked %d\n", (int)getpid());
		fflush(stdout);
		MPI_Recv(&value, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		if (value != 17)
			MPI_Abort(MPI_COMM_WORLD, 5);
		printf("woken %d\n", (int)getpid());
	}
	MPI_Finalize();
	return 0;
}
