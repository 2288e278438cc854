/* SPDX-License-Identifier: BSD-3-Clause */
/* Fortran and C together: the properties that the ABI library is told, the functions of C for handles and
 * statuses, operators of handles. */
#include "fortran/mpifort.h"

#include <string.h>

/* ---- properties of Fortran for the ABI library (section 20.4) -------------------------------------------------- */

static const struct {
	const char *key, *value;
} properties[] = {
	{ "mpi_logical_size", "4" }, { "mpi_integer_size", "4" }, { "mpi_real_size", "4" }, { "mpi_double_precision_size", "8" },
	{ "mpi_logical1_supported", "true" }, { "mpi_logical2_supported", "true" }, { "mpi_logical4_supported", "true" },
	{ "mpi_logical8_supported", "true" }, { "mpi_integer1_supported", "true" }, { "mpi_integer2_supported", "true" },
	{ "mpi_integer4_supported", "true" }, { "mpi_integer8_supported", "true" }, { "mpi_real4_supported", "true" },
	{ "mpi_real8_supported", "true" }, { "mpi_complex8_supported", "true" }, { "mpi_complex16_supported", "true" },
	{ "mpi_double_complex_supported", "true" },
};

void mpifort_tell_abi(void)
{
	int is_true = MPIFORT_TRUE, is_false = MPIFORT_FALSE, t, f, is_set = 1;
	MPI_Info info = MPI_INFO_NULL;

	if (!PMPI_Abi_get_fortran_booleans(sizeof(t), &t, &f, &is_set) && !is_set)
		PMPI_Abi_set_fortran_booleans(sizeof(is_true), &is_true, &is_false);
	if (PMPI_Abi_get_fortran_info(&info))
		return;
	if (info == MPI_INFO_NULL && !PMPI_Info_create(&info)) {
		for (size_t i = 0; i < sizeof(properties) / sizeof(properties[0]); i++)
			PMPI_Info_set(info, properties[i].key, properties[i].value);
		PMPI_Abi_set_fortran_info(info);
	}
	PMPI_Info_free(&info);
}

/* ---- C functions (section 19.3) ----------------------------------------------------------------------------- */

#pragma GCC visibility push(default)

MPI_Fint *MPI_F_STATUS_IGNORE = mpifort_sentinels_.status_ignore;
MPI_Fint *MPI_F_STATUSES_IGNORE = mpifort_sentinels_.statuses_ignore;
MPI_F08_status *MPI_F08_STATUS_IGNORE = (MPI_F08_status *)(void *)mpifort_sentinels_.status_ignore;
MPI_F08_status *MPI_F08_STATUSES_IGNORE = (MPI_F08_status *)(void *)mpifort_sentinels_.statuses_ignore;

#define ALIAS_P(name) extern __typeof__(P##name) name __attribute__((weak, alias("P" #name)))

/* mpi.h has macros of these names; programs that were compiled with another header call the functions. */
#define HANDLES(Kind, type, name)				\
	MPI_Fint PMPI_##Kind##_c2f(type name);			\
	type PMPI_##Kind##_f2c(MPI_Fint name);			\
	MPI_Fint PMPI_##Kind##_c2f(type name)			\
	{							\
		return PMPI_##Kind##_toint(name);		\
	}							\
	ALIAS_P(MPI_##Kind##_c2f);				\
	type PMPI_##Kind##_f2c(MPI_Fint name)			\
	{							\
		return PMPI_##Kind##_fromint(name);		\
	}							\
	ALIAS_P(MPI_##Kind##_f2c)

#undef MPI_Comm_c2f
#undef MPI_Comm_f2c
#undef PMPI_Comm_c2f
#undef PMPI_Comm_f2c
#undef MPI_Errhandler_c2f
#undef MPI_Errhandler_f2c
#undef PMPI_Errhandler_c2f
#undef PMPI_Errhandler_f2c
#undef MPI_File_c2f
#undef MPI_File_f2c
#undef PMPI_File_c2f
#undef PMPI_File_f2c
#undef MPI_Group_c2f
#undef MPI_Group_f2c
#undef PMPI_Group_c2f
#undef PMPI_Group_f2c
#undef MPI_Info_c2f
#undef MPI_Info_f2c
#undef PMPI_Info_c2f
#undef PMPI_Info_f2c
#undef MPI_Message_c2f
#undef MPI_Message_f2c
#undef PMPI_Message_c2f
#undef PMPI_Message_f2c
#undef MPI_Op_c2f
#undef MPI_Op_f2c
#undef PMPI_Op_c2f
#undef PMPI_Op_f2c
#undef MPI_Request_c2f
#undef MPI_Request_f2c
#undef PMPI_Request_c2f
#undef PMPI_Request_f2c
#undef MPI_Session_c2f
#undef MPI_Session_f2c
#undef PMPI_Session_c2f
#undef PMPI_Session_f2c
#undef MPI_Type_c2f
#undef MPI_Type_f2c
#undef PMPI_Type_c2f
#undef PMPI_Type_f2c
#undef MPI_Win_c2f
#undef MPI_Win_f2c
#undef PMPI_Win_c2f
#undef PMPI_Win_f2c
HANDLES(Comm, MPI_Comm, comm);
HANDLES(Errhandler, MPI_Errhandler, errhandler);
HANDLES(File, MPI_File, file);
HANDLES(Group, MPI_Group, group);
HANDLES(Info, MPI_Info, info);
HANDLES(Message, MPI_Message, message);
HANDLES(Op, MPI_Op, op);
HANDLES(Request, MPI_Request, request);
HANDLES(Session, MPI_Session, session);
HANDLES(Type, MPI_Datatype, datatype);
HANDLES(Win, MPI_Win, win);

/* Statuses have one layout in C and in both forms of Fortran. A status that is to be ignored is none to be
 * converted (section 19.3.5). */
#define STATUS(name, from_type, to_type)								\
	int PMPI_Status_##name(const from_type *from, to_type *to)					\
	{												\
		if (status_in((MPI_Fint *)(uintptr_t)from) == MPI_STATUS_IGNORE || !from || !to)	\
			return mpifort_raise(MPI_ERR_ARG);						\
		memcpy(to, from, sizeof(MPI_Status));							\
		return MPI_SUCCESS;									\
	}												\
	ALIAS_P(MPI_Status_##name)
STATUS(c2f, MPI_Status, MPI_Fint);
STATUS(f2c, MPI_Fint, MPI_Status);
STATUS(c2f08, MPI_Status, MPI_F08_status);
STATUS(f082c, MPI_F08_status, MPI_Status);
STATUS(f2f08, MPI_Fint, MPI_F08_status);
STATUS(f082f, MPI_F08_status, MPI_Fint);

/* ---- operators == and /= of handles ----------------------------------------------------------------------------- */

#define OPERATORS(kind)								\
	int mpifort_##kind##_eq_(const MPI_Fint *a, const MPI_Fint *b);		\
	int mpifort_##kind##_ne_(const MPI_Fint *a, const MPI_Fint *b);		\
	int mpifort_##kind##_eq_(const MPI_Fint *a, const MPI_Fint *b)		\
	{									\
		return *a == *b ? MPIFORT_TRUE : MPIFORT_FALSE;			\
	}									\
	int mpifort_##kind##_ne_(const MPI_Fint *a, const MPI_Fint *b)		\
	{									\
		return *a != *b ? MPIFORT_TRUE : MPIFORT_FALSE;			\
	}
OPERATORS(comm)
OPERATORS(datatype)
OPERATORS(errhandler)
OPERATORS(file)
OPERATORS(group)
OPERATORS(info)
OPERATORS(message)
OPERATORS(op)
OPERATORS(request)
OPERATORS(session)
OPERATORS(win)
#pragma GCC visibility pop
