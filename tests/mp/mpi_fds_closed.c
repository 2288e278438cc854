/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mpi_fds_closed MASK: the descriptors 0 to 2 whose bits are set are closed, as in a daemon, before MPI_Init and afterwards.
 * Neither the library, nor libpmix, nor the device may take their numbers: output of the program would go into that file. The
 * program calls every function that opens descriptors.
 *
 * mpi_fds_closed daemon DIRECTORY: after MPI_Init all descriptors from 3 on are closed, and files in the
 * directory get their numbers.
 */
#include <mpi.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int report, mask;

static void check(const char *when)
{
	for (int fd = 0; fd < 3; fd++) {
		char path[32], file[256] = "";

		if (!(mask & 1 << fd) || fcntl(fd, F_GETFD) < 0)
			continue;
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		if (readlink(path, file, sizeof(file) - 1) < 0)
			perror(path);
		dprintf(report, "FAIL: closed descriptors %d: %s, %d is %s\n", mask, when, fd, file);
		_exit(1);
	}
}

/* A send that is longer than any ring or eager message, and sleep in a receive. */
static void talk(MPI_Comm comm, int rank, int size)
{
	enum { LONG = 1 << 20 };
	char *out = calloc(1, LONG), *in = calloc(1, LONG);
	int next = (rank + 1) % size, before = (rank + size - 1) % size, sum = 0;

	if (!out || !in)
		abort();
	out[LONG - 1] = (char)rank;
	MPI_Sendrecv(out, LONG, MPI_CHAR, next, 1, in, LONG, MPI_CHAR, before, 1, comm, MPI_STATUS_IGNORE);
	MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, comm);
	if (in[LONG - 1] != (char)before || sum != size * (size - 1) / 2) {
		dprintf(report, "FAIL: wrong data\n");
		_exit(1);
	}
	free(out);
	free(in);
}

static void meet(int rank)
{
	char port[MPI_MAX_PORT_NAME] = "";
	MPI_Comm other;

	if (rank == 0)
		MPI_Open_port(MPI_INFO_NULL, port);
	check("MPI_Open_port");
	MPI_Bcast(port, MPI_MAX_PORT_NAME, MPI_CHAR, 0, MPI_COMM_WORLD);
	if (rank == 0)
		MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &other);
	else if (rank == 1)
		MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &other);
	else
		return;
	check("MPI_Comm_accept, MPI_Comm_connect");
	MPI_Comm_disconnect(&other);
	if (rank == 0)
		MPI_Close_port(port);
}

static int be_daemon(const char *dir)
{
	int rank, size;
	MPI_Comm comm;

	MPI_Init(NULL, NULL);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	for (int fd = 3; fd < 1024; fd++)
		close(fd);
	for (int i = 0; i < 30; i++) {
		char path[4096];

		snprintf(path, sizeof(path), "%s/%d.%d", dir, rank, i);
		if (open(path, O_RDWR | O_CREAT | O_TRUNC, 0600) < 0)
			perror(path);
	}
	MPI_Comm_dup(MPI_COMM_WORLD, &comm);
	talk(comm, rank, size);
	MPI_Comm_free(&comm);
	MPI_Finalize();
	if (rank == 0)
		printf("closed: ok, %d ranks\n", size);
	return 0;
}

int main(int argc, char **argv)
{
	int rank, size;
	MPI_Comm comm;

	if (argc == 3)
		return be_daemon(argv[2]);
	if (argc != 2)
		return 2;
	mask = atoi(argv[1]);
	report = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 100);
	for (int fd = 0; fd < 3; fd++)
		if (mask & 1 << fd)
			close(fd);
	MPI_Init(&argc, &argv);
	check("MPI_Init");
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	MPI_Comm_dup(MPI_COMM_WORLD, &comm);
	talk(comm, rank, size);
	check("communication");
	if (size > 1)
		meet(rank);
	MPI_Comm_free(&comm);
	MPI_Finalize();
	check("MPI_Finalize");
	if (rank == 0)
		dprintf(report, "closed: ok, %d ranks\n", size);
	return 0;
}
