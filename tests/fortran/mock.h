/* SPDX-License-Identifier: BSD-3-Clause */
/* The MPI behind the programs of mock.awk: which function is to be called next, and integers of handles. */
#include <mpi.h>

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BASE 0x100000		/* a C handle is its integer plus this */

static char mock_name[64];
static int mock_times, mock_profiled, mock_as_pmpi;

#define CHECK(cond) do { if (!(cond)) mock_wrong(CALL, #cond); } while (0)

static void mock_wrong(const char *call, const char *cond)
{
	printf("MPI_%s: not true in C: %s\n", call, cond);
	exit(1);
}

/* Whether this is the call that the test is about, and not one of the library's own. */
static bool mock_called(const char *call)
{
	if (strcmp(call, mock_name))
		return false;
	if (mock_profiled != mock_as_pmpi)
		mock_wrong(call, mock_as_pmpi ? "called as PMPI_" : "called as MPI_");
	mock_times++;
	return true;
}

/* Fortran: the next call is of this function, as PMPI_ if `as_pmpi`. */
void mock_expect_(const char *name, const int *as_pmpi);
void mock_expect_(const char *name, const int *as_pmpi)
{
	snprintf(mock_name, sizeof(mock_name), "%s", name);
	mock_as_pmpi = *as_pmpi;
	mock_times = 0;
}

void mock_ended_(void);
void mock_ended_(void)
{
	if (mock_times != 1)
		mock_wrong(mock_name, "called once");
}

#define HANDLE(Kind, type)						\
	int PMPI_##Kind##_toint(type handle)				\
	{								\
		return (int)((uintptr_t)handle - BASE);			\
	}								\
	type PMPI_##Kind##_fromint(int handle)				\
	{								\
		return (type)(uintptr_t)(BASE + handle);		\
	}
HANDLE(Comm, MPI_Comm)
HANDLE(Errhandler, MPI_Errhandler)
HANDLE(File, MPI_File)
HANDLE(Group, MPI_Group)
HANDLE(Info, MPI_Info)
HANDLE(Message, MPI_Message)
HANDLE(Op, MPI_Op)
HANDLE(Request, MPI_Request)
HANDLE(Session, MPI_Session)
HANDLE(Type, MPI_Datatype)
HANDLE(Win, MPI_Win)
