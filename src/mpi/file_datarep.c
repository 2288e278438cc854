/* SPDX-License-Identifier: BSD-3-Clause */
/* Data representations of the program (MPI-5.0 section 14.5.3). */
#include "mpi/file.h"

#include <string.h>

static int register_datarep(const char *call, const char *datarep, struct hdl_datarep *rep)
{
	const struct hdl_datarep *known;
	int rc;

	hdl_check_active(call);
	if (!datarep)
		return hdl_file_raise(NULL, MPI_ERR_ARG, call, "invalid datarep: it is a null pointer");
	if (!rep->extent_fn)
		return hdl_file_raise(NULL, MPI_ERR_ARG, call, "invalid dtype_file_extent_fn: it is a null pointer");
	if (!*datarep || strlen(datarep) >= MPI_MAX_DATAREP_STRING)
		return hdl_file_raise(NULL, MPI_ERR_ARG, call, "invalid datarep: a name has 1 to %d characters",
				      MPI_MAX_DATAREP_STRING - 1);
	if (hdl_datarep_find(datarep, &known))
		return hdl_file_raise(NULL, MPI_ERR_DUP_DATAREP, call, "datarep \"%s\" is known already", datarep);
	strcpy(rep->name, datarep);
	rc = hdl_datarep_add(rep);
	return rc ? hdl_file_raise_class(NULL, rc, call) : MPI_SUCCESS;
}

int PMPI_Register_datarep(const char *datarep, MPI_Datarep_conversion_function *read_conversion_fn,
			  MPI_Datarep_conversion_function *write_conversion_fn, MPI_Datarep_extent_function *dtype_file_extent_fn,
			  void *extra_state)
{
	HDL_LOCKED;
	struct hdl_datarep rep = { .read.small = read_conversion_fn, .write.small = write_conversion_fn,
				   .extent_fn = dtype_file_extent_fn, .extra_state = extra_state };

	return register_datarep("MPI_Register_datarep", datarep, &rep);
}
HDL_PROFILED(Register_datarep);

int PMPI_Register_datarep_c(const char *datarep, MPI_Datarep_conversion_function_c *read_conversion_fn,
			    MPI_Datarep_conversion_function_c *write_conversion_fn,
			    MPI_Datarep_extent_function *dtype_file_extent_fn, void *extra_state)
{
	HDL_LOCKED;
	struct hdl_datarep rep = { .large = true, .read.large = read_conversion_fn, .write.large = write_conversion_fn,
				   .extent_fn = dtype_file_extent_fn, .extra_state = extra_state };

	return register_datarep("MPI_Register_datarep_c", datarep, &rep);
}
HDL_PROFILED(Register_datarep_c);
