/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mpi.h and the library against the MPI standard ABI 1.0: values and types of constants, layout of types, signatures of
 * functions under both names, and that the function that each name stands for is there. The ABI is in the two tables
 * mpi_abi_values.def and mpi_abi_functions.def, which nothing else is made from.
 */
#include <mpi.h>
#include <stddef.h>
#include <stdio.h>

#define SAME(a, b)	__builtin_types_compatible_p(a, b)

_Static_assert(SAME(MPI_Aint, intptr_t) && SAME(MPI_Count, int64_t) && SAME(MPI_Offset, int64_t), "integers");
_Static_assert(sizeof(MPI_Status) == 32 && offsetof(MPI_Status, MPI_SOURCE) == 0 && offsetof(MPI_Status, MPI_TAG) == 4 &&
	       offsetof(MPI_Status, MPI_ERROR) == 8 && offsetof(MPI_Status, MPI_internal) == 12, "MPI_Status");
_Static_assert(SAME(__typeof__(((MPI_Status *)0)->MPI_internal), int[5]), "MPI_Status.MPI_internal");

#define HANDLE(type)	_Static_assert(SAME(MPI_##type, struct MPI_ABI_##type *), "MPI_" #type)
HANDLE(Comm);
HANDLE(Datatype);
HANDLE(Errhandler);
HANDLE(File);
HANDLE(Group);
HANDLE(Info);
HANDLE(Message);
HANDLE(Op);
HANDLE(Request);
HANDLE(Session);
HANDLE(Win);
HANDLE(T_enum);
HANDLE(T_cvar_handle);
HANDLE(T_pvar_handle);
HANDLE(T_pvar_session);
HANDLE(T_event_registration);
HANDLE(T_event_instance);
_Static_assert(SAME(MPI_T_cb_safety, enum MPI_T_cb_safety) && SAME(MPI_T_source_order, enum MPI_T_source_order), "MPI_T");
_Static_assert(sizeof(MPI_T_cb_safety) == sizeof(int) && sizeof(MPI_T_source_order) == sizeof(int), "MPI_T");

#define CALLBACK(name, ...)	_Static_assert(SAME(name, __VA_ARGS__), #name)
CALLBACK(MPI_User_function, void(void *, void *, int *, MPI_Datatype *));
CALLBACK(MPI_User_function_c, void(void *, void *, MPI_Count *, MPI_Datatype *));
CALLBACK(MPI_Grequest_query_function, int(void *, MPI_Status *));
CALLBACK(MPI_Grequest_free_function, int(void *));
CALLBACK(MPI_Grequest_cancel_function, int(void *, int));
CALLBACK(MPI_Copy_function, int(MPI_Comm, int, void *, void *, void *, int *));
CALLBACK(MPI_Delete_function, int(MPI_Comm, int, void *, void *));
CALLBACK(MPI_Comm_copy_attr_function, int(MPI_Comm, int, void *, void *, void *, int *));
CALLBACK(MPI_Comm_delete_attr_function, int(MPI_Comm, int, void *, void *));
CALLBACK(MPI_Type_copy_attr_function, int(MPI_Datatype, int, void *, void *, void *, int *));
CALLBACK(MPI_Type_delete_attr_function, int(MPI_Datatype, int, void *, void *));
CALLBACK(MPI_Win_copy_attr_function, int(MPI_Win, int, void *, void *, void *, int *));
CALLBACK(MPI_Win_delete_attr_function, int(MPI_Win, int, void *, void *));
CALLBACK(MPI_Datarep_extent_function, int(MPI_Datatype, MPI_Aint *, void *));
CALLBACK(MPI_Datarep_conversion_function, int(void *, MPI_Datatype, int, void *, MPI_Offset, void *));
CALLBACK(MPI_Datarep_conversion_function_c, int(void *, MPI_Datatype, MPI_Count, void *, MPI_Offset, void *));
CALLBACK(MPI_Comm_errhandler_function, void(MPI_Comm *, int *, ...));
CALLBACK(MPI_File_errhandler_function, void(MPI_File *, int *, ...));
CALLBACK(MPI_Win_errhandler_function, void(MPI_Win *, int *, ...));
CALLBACK(MPI_Session_errhandler_function, void(MPI_Session *, int *, ...));
CALLBACK(MPI_Comm_errhandler_fn, MPI_Comm_errhandler_function);
CALLBACK(MPI_File_errhandler_fn, MPI_File_errhandler_function);
CALLBACK(MPI_Win_errhandler_fn, MPI_Win_errhandler_function);
CALLBACK(MPI_Session_errhandler_fn, MPI_Session_errhandler_function);
CALLBACK(MPI_T_event_cb_function, void(MPI_T_event_instance, MPI_T_event_registration, MPI_T_cb_safety, void *));
CALLBACK(MPI_T_event_free_cb_function, void(MPI_T_event_registration, MPI_T_cb_safety, void *));
CALLBACK(MPI_T_event_dropped_cb_function, void(MPI_Count, MPI_T_event_registration, int, MPI_T_cb_safety, void *));

static const struct value {
	const char *name;
	int same_type;
	intptr_t value, abi;
} values[] = {
#define VALUE(type, name, abi)	{ #name, SAME(__typeof__(name), type), (intptr_t)(name), (intptr_t)(abi) },
#include "mpi_abi_values.def"
};

typedef void (*any_function)(void);
static const struct function {
	const char *name;
	int same_type;
	any_function mpi, pmpi;
} functions[] = {
#define FUNCTION(result, name, ...) \
	{ "MPI_" #name, SAME(__typeof__(MPI_##name), result(__VA_ARGS__)) && SAME(__typeof__(PMPI_##name), result(__VA_ARGS__)), \
	  (any_function)MPI_##name, (any_function)PMPI_##name },
#include "mpi_abi_functions.def"
};
enum { NVALUES = sizeof(values) / sizeof(values[0]), NFUNCTIONS = sizeof(functions) / sizeof(functions[0]) };

int main(void)
{
	int bad = 0;

	for (const struct value *v = values; v < values + NVALUES; v++)
		if (!v->same_type || v->value != v->abi) {
			printf("%s: %lld, and the ABI has %lld%s\n", v->name, (long long)v->value, (long long)v->abi,
			       v->same_type ? "" : ", of another type");
			bad++;
		}
	for (const struct function *f = functions; f < functions + NFUNCTIONS; f++)
		if (!f->same_type || !f->mpi || !f->pmpi) {
			printf("%s: the ABI has other parameters or another result\n", f->name);
			bad++;
		}
	if (NVALUES != 365 || NFUNCTIONS != 664) {
		printf("%d constants and %d functions: the ABI 1.0 has 365 and 664\n", NVALUES, NFUNCTIONS);
		bad++;
	}
	return bad != 0;
}
