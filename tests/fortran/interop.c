/* SPDX-License-Identifier: BSD-3-Clause */
/* The C side of modules.f90: handles, statuses and attributes in both languages (MPI-5.0 section 19.3). */
#include <mpi.h>

#include <stdio.h>
#include <string.h>

static int wrong;
#define CHECK(cond) do { if (!(cond)) { printf("C: not true: %s\n", #cond); wrong++; } } while (0)

int c_side(int comm, int datatype, int request, int op, int key, MPI_Fint *status);

/* The Fortran functions behind mpi.h's macros, as a program that was compiled with another header calls them. */
#undef MPI_Comm_f2c
#undef MPI_Comm_c2f
MPI_Comm MPI_Comm_f2c(MPI_Fint comm);
MPI_Fint MPI_Comm_c2f(MPI_Comm comm);

int c_side(int f_comm, int f_type, int f_request, int f_op, int key, MPI_Fint *f_status)
{
	MPI_Comm comm = MPI_Comm_f2c(f_comm), dup;
	MPI_Datatype type = MPI_Type_f2c(f_type);
	MPI_Request request = MPI_Request_f2c(f_request);
	MPI_Status status;
	MPI_Fint copy[MPI_F_STATUS_SIZE];
	MPI_Aint *attribute;
	int size, flag, n = 4711, c_key;

	CHECK(MPI_Comm_c2f(comm) == f_comm && MPI_Comm_toint(comm) == f_comm);
	MPI_Type_size(type, &size);
	CHECK(size == 12 && MPI_Type_c2f(type) == f_type && MPI_Op_f2c(f_op) == MPI_SUM);
	MPI_Send(&n, 1, MPI_INT, 0, 9, comm);
	MPI_Wait(&request, &status);
	CHECK(MPI_Status_c2f(&status, f_status) == MPI_SUCCESS);
	CHECK(f_status[MPI_F_TAG] == 9 && f_status[MPI_F_SOURCE] == 0);
	memset(&status, 0, sizeof(status));
	CHECK(MPI_Status_f2c(f_status, &status) == MPI_SUCCESS && status.MPI_TAG == 9);
	CHECK(MPI_Status_c2f08(&status, (MPI_F08_status *)copy) == MPI_SUCCESS && copy[MPI_F_TAG] == 9);
	MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
	CHECK(MPI_Status_f2c(MPI_F_STATUS_IGNORE, &status) != MPI_SUCCESS);
	CHECK(MPI_Status_f2c(MPI_F_STATUSES_IGNORE, &status) != MPI_SUCCESS);
	MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);

	/* an integer that Fortran stored: its address */
	MPI_Comm_get_attr(comm, key, &attribute, &flag);
	CHECK(flag && *attribute == 77777777777);
	MPI_Comm_dup(comm, &dup);
	MPI_Comm_get_attr(dup, key, &attribute, &flag);
	CHECK(flag && *attribute == 77777778777);
	MPI_Comm_free(&dup);

	/* an address that C stores */
	MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &c_key, NULL);
	MPI_Comm_set_attr(comm, c_key, (void *)123456789012);
	f_status[MPI_F_SOURCE] = c_key;
	return wrong;
}
