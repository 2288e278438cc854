/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks that all collectives share, and the report of refused ones to HEDDLE_CHECK. */
#include "mpi/info.h"
#include "mpi/mpi_internal.h"

int hdl_check_form(struct hdl_comm *c, const char *call, const struct hdl_form *form)
{
	const struct hdl_info *hints;

	if (!form->request)
		return hdl_null_arg(c, call, "request");
	return form->persistent ? hdl_info_arg(c, call, form->info, &hints) : MPI_SUCCESS;
}

int hdl_refused(struct hdl_comm *c, int rc)
{
	char text[MPI_MAX_ERROR_STRING];
	int class = hdl_error_class(rc);

	/* the error handler may have freed the communicator */
	if (hdl_vars.check && c && c->obj.magic == HDL_MAGIC_COMM && hdl_error_text(rc, text))
		hdl_coll_refused(c, class > 0 ? class : MPI_ERR_OTHER, text);
	return rc;
}
