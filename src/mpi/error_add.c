/* SPDX-License-Identifier: BSD-3-Clause */
/* The functions by which programs add and remove error classes, codes and strings (MPI-5.0 section 9.5): error_table.c. */
#include "mpi/error_table.h"

#include <stdlib.h>
#include <string.h>

static cold int no_class(const char *call, int class)
{
	return hdl_raise(NULL, MPI_ERR_ARG, call, "invalid errorclass %d: it is no error class", class);
}

static int error_add_add(const char *call, int class, int *out)
{
	int code;

	code = hdl_user_error_add(class);
	if (!code)
		return hdl_raise(NULL, MPI_ERR_NO_MEM, call, "out of memory for an error code");
	if (code < 0)
		return no_class(call, class);
	*out = code;
	return MPI_SUCCESS;
}

static cold int not_added(const char *call, const char *what, int number)
{
	return hdl_raise(NULL, MPI_ERR_ARG, call, "invalid %s %d: MPI_Add_error_class and MPI_Add_error_code did not return it, "
			 "or it was removed", what, number);
}

int PMPI_Add_error_class(int *errorclass)
{
	HDL_LOCKED;
	static const char call[] = "MPI_Add_error_class";

	if (!errorclass)
		return hdl_null_arg(NULL, call, "errorclass");
	return error_add_add(call, 0, errorclass);
}
HDL_PROFILED(Add_error_class);

int PMPI_Add_error_code(int errorclass, int *errorcode)
{
	HDL_LOCKED;
	static const char call[] = "MPI_Add_error_code";

	if (hdl_error_class(errorclass) != errorclass || errorclass == MPI_SUCCESS)
		return no_class(call, errorclass);
	if (!errorcode)
		return hdl_null_arg(NULL, call, "errorcode");
	return error_add_add(call, errorclass, errorcode);
}
HDL_PROFILED(Add_error_code);

int PMPI_Add_error_string(int errorcode, const char *string)
{
	HDL_LOCKED;
	static const char call[] = "MPI_Add_error_string";
	char *copy;

	if (!hdl_user_error_class(errorcode))
		return not_added(call, "errorcode", errorcode);
	if (!string)
		return hdl_null_arg(NULL, call, "string");
	if (strlen(string) >= MPI_MAX_ERROR_STRING)
		return hdl_raise(NULL, MPI_ERR_ARG, call, "invalid string of %zu characters: at most %d are allowed",
				 strlen(string), MPI_MAX_ERROR_STRING - 1);
	copy = strdup(string);
	if (!copy)
		return hdl_raise(NULL, MPI_ERR_NO_MEM, call, "out of memory");
	bool there = hdl_user_error_swap_string(errorcode, &copy);
	free(copy);
	return there ? MPI_SUCCESS : not_added(call, "errorcode", errorcode);
}
HDL_PROFILED(Add_error_string);

int PMPI_Remove_error_class(int errorclass)
{
	HDL_LOCKED;
	static const char call[] = "MPI_Remove_error_class";
	int codes = hdl_user_class_remove(errorclass);

	if (codes < 0)
		return not_added(call, "errorclass", errorclass);
	if (codes)
		return hdl_raise(NULL, MPI_ERR_ARG, call, "invalid errorclass %d: it has %d error code%s, to be removed first",
				 errorclass, codes, codes == 1 ? "" : "s");
	return MPI_SUCCESS;
}
HDL_PROFILED(Remove_error_class);

int PMPI_Remove_error_code(int errorcode)
{
	HDL_LOCKED;
	static const char call[] = "MPI_Remove_error_code";
	bool has_string;
	int class = hdl_user_code_remove(errorcode, &has_string);

	if (!class)
		return not_added(call, "errorcode", errorcode);
	if (class == errorcode)
		return hdl_raise(NULL, MPI_ERR_ARG, call, "invalid errorcode %d: it is an error class (MPI_Remove_error_class)",
				 errorcode);
	if (has_string)
		return hdl_raise(NULL, MPI_ERR_ARG, call, "invalid errorcode %d: it has an error string, to be removed first "
				 "(MPI_Remove_error_string)", errorcode);
	return MPI_SUCCESS;
}
HDL_PROFILED(Remove_error_code);

int PMPI_Remove_error_string(int errorcode)
{
	HDL_LOCKED;
	static const char call[] = "MPI_Remove_error_string";
	char *former = NULL;

	if (!hdl_user_error_swap_string(errorcode, &former))
		return not_added(call, "errorcode", errorcode);
	if (!former)
		return hdl_raise(NULL, MPI_ERR_ARG, call, "invalid errorcode %d: it has no string", errorcode);
	free(former);
	return MPI_SUCCESS;
}
HDL_PROFILED(Remove_error_string);
