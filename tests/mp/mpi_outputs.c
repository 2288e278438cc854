/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A handle that a call was to return is null where the call fails, as with other MPIs: each function of the list
 * that returns one is called with arguments that are none (mpi_outputs.h is made of src/mpi/functions.def), also
 * those that the library lacks.
 */
#include "mpi_test.h"

static char junk[64];			/* no handle */
static int n_failed;

#define IS_NULL(h)												\
	(h == _Generic(h, MPI_Comm: MPI_COMM_NULL, MPI_Request: MPI_REQUEST_NULL, MPI_Group: MPI_GROUP_NULL,	\
		       MPI_Datatype: MPI_DATATYPE_NULL, MPI_Op: MPI_OP_NULL, MPI_Info: MPI_INFO_NULL,		\
		       MPI_Errhandler: MPI_ERRHANDLER_NULL, MPI_Message: MPI_MESSAGE_NULL, MPI_Win: MPI_WIN_NULL,	\
		       MPI_File: MPI_FILE_NULL, MPI_Session: MPI_SESSION_NULL))

/* Nothing is wrong with the arguments of these. */
static const char *const work[] = { "MPI_Buffer_iflush", "MPI_Get_hw_resource_info", "MPI_Info_create", "MPI_Comm_get_parent",
				    "MPI_Type_create_f90_complex", "MPI_Type_create_f90_integer", "MPI_Type_create_f90_real",
				    "MPI_Abi_get_fortran_info", "MPI_Abi_get_info" };

static void ended(const char *call, int rc, int null)
{
	if (rc == MPI_SUCCESS) {
		size_t i = 0;

		while (i < sizeof(work) / sizeof(*work) && strcmp(work[i], call))
			i++;
		if (i == sizeof(work) / sizeof(*work))
			test_fail(__FILE__, __LINE__, "%s takes arguments that are none", call);
		return;
	}
	n_failed++;
	if (!null)
		test_fail(__FILE__, __LINE__, "%s fails, and returns a handle that is not null", call);
}

/* The handle may be one of those that the call reads. */
static void one_of_them(void)
{
	MPI_Datatype t[2] = { MPI_INT, MPI_DOUBLE };
	int n[2] = { 1, 1 }, size;
	MPI_Aint at[2] = { 0, 8 };

	CHECK_EQ(MPI_Type_create_struct(2, n, at, t, &t[0]), MPI_SUCCESS);
	CHECK_EQ(MPI_Type_size(t[0], &size), MPI_SUCCESS);
	CHECK_EQ(size, 12);
	CHECK_EQ(MPI_Type_free(&t[0]), MPI_SUCCESS);
	t[0] = MPI_INT;
	t[1] = MPI_DATATYPE_NULL;
	CHECK(MPI_Type_create_struct(2, n, at, t, &t[0]) != MPI_SUCCESS);
	CHECK(t[0] == MPI_DATATYPE_NULL);
}

int main(int argc, char **argv)
{
	test_init(&argc, &argv);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
#include "mpi_outputs.h"
	one_of_them();
	CHECK(n_failed > 200);
	test_done("outputs");
	return 0;
}
