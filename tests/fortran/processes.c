/* SPDX-License-Identifier: BSD-3-Clause */
/* The C functions behind processes.f90, in place of the library's. */
#include <mpi.h>

#include <stdio.h>
#include <string.h>

static int wrong, calls;
#define CHECK(cond) do { if (!(cond)) { printf("C: not true: %s\n", #cond); wrong++; } } while (0)

int MPI_Comm_spawn(const char *command, char *argv[], int maxprocs, MPI_Info info, int root, MPI_Comm comm, MPI_Comm *intercomm,
		   int array_of_errcodes[])
{
	calls++;
	CHECK(info == MPI_INFO_NULL && root == 0 && comm == MPI_COMM_SELF);
	*intercomm = MPI_COMM_WORLD;
	if (!strcmp(command, "plain")) {
		CHECK(argv == MPI_ARGV_NULL && maxprocs == 1 && array_of_errcodes == MPI_ERRCODES_IGNORE);
		return MPI_SUCCESS;
	}
	CHECK(!strcmp(command, "worker") && maxprocs == 3);
	CHECK(!strcmp(argv[0], "-x") && !strcmp(argv[1], "  two") && !argv[2]);
	for (int i = 0; i < 3; i++)
		array_of_errcodes[i] = 7 + i;
	return MPI_SUCCESS;
}

int MPI_Comm_spawn_multiple(int count, char *array_of_commands[], char **array_of_argv[], const int array_of_maxprocs[],
			    const MPI_Info array_of_info[], int root, MPI_Comm comm, MPI_Comm *intercomm,
			    int array_of_errcodes[])
{
	int n = -1;

	calls++;
	CHECK(count == 2 && !strcmp(array_of_commands[0], "first") && !strcmp(array_of_commands[1], "second"));
	CHECK(array_of_maxprocs[0] == 1 && array_of_maxprocs[1] == 2 && array_of_info[0] == MPI_INFO_NULL &&
	      comm == MPI_COMM_SELF && !root);
	CHECK(MPI_Info_get_nkeys(array_of_info[1], &n) == MPI_SUCCESS && n == 0);
	*intercomm = MPI_COMM_SELF;
	if (array_of_argv == MPI_ARGVS_NULL) {
		CHECK(array_of_errcodes == MPI_ERRCODES_IGNORE);
		return MPI_SUCCESS;
	}
	CHECK(!strcmp(array_of_argv[0][0], "a b") && !array_of_argv[0][1]);
	CHECK(!strcmp(array_of_argv[1][0], "1") && !strcmp(array_of_argv[1][1], "22") && !array_of_argv[1][2]);
	array_of_errcodes[2] = 33;
	return MPI_SUCCESS;
}

int MPI_Register_datarep(const char *datarep, MPI_Datarep_conversion_function *read_conversion_fn,
			 MPI_Datarep_conversion_function *write_conversion_fn,
			 MPI_Datarep_extent_function *dtype_file_extent_fn, void *extra_state)
{
	MPI_Aint extent = 0;
	int user[3] = { 0 }, file[3] = { 1, 2, 3 };

	calls++;
	CHECK(!strcmp(datarep, "mine") && write_conversion_fn == MPI_CONVERSION_FN_NULL);
	CHECK(dtype_file_extent_fn(MPI_INTEGER, &extent, extra_state) == MPI_SUCCESS && extent == 101);
	CHECK(read_conversion_fn(user, MPI_INTEGER, 3, file, 1000, extra_state) == MPI_SUCCESS && user[0] == 1101 &&
	      user[2] == 1103);
	CHECK(read_conversion_fn(user, MPI_REAL, 3, file, 1000, extra_state) == 1);
	return MPI_SUCCESS;
}

int c_wrong_(void);
int c_wrong_(void)
{
	CHECK(calls == 5);
	return wrong;
}
