/* SPDX-License-Identifier: BSD-3-Clause */
/* Errors of windows: the reasons that error texts give, and the classes of the transport's errnos. */
#include "rma/target.h"

#include <errno.h>
#include <stdio.h>

const char *hdl_win_label(const struct hdl_win *w, char buf[static MPI_MAX_OBJECT_NAME + 16])
{
	if (w->name[0])
		snprintf(buf, MPI_MAX_OBJECT_NAME + 16, "window %s", w->name);
	else
		snprintf(buf, MPI_MAX_OBJECT_NAME + 16, "window #%u", w->comm ? w->comm->context / 2u : 0);
	return buf;
}

int hdl_rma_no_memory(const char *what)
{
	hdl_reason_set("out of memory for %s", what);
	return MPI_ERR_NO_MEM;
}

int hdl_rma_dead(const struct hdl_win *w, int rank, const char *what)
{
	char label[MPI_MAX_OBJECT_NAME + 16];

	hdl_reason_set("%s rank %d of %s (%s): that process has failed", what, rank, hdl_win_label(w, label),
		       hdl_proc_text_full(hdl_comm_proc(w->comm, rank)));
	return MPI_ERR_PROC_ABORTED;
}

int hdl_rma_class(int err)
{
	switch (-err) {
	case EACCES:
	case ERANGE:
	case EREMOTEIO:
		hdl_reason_set("the target's memory cannot be accessed: it was detached, freed or unmapped there, or does not "
			       "reach that far");
		return MPI_ERR_RMA_RANGE;
	case EFAULT:
		hdl_reason_set("the origin's buffer cannot be accessed");
		return MPI_ERR_BUFFER;
	default:
		return hdl_class_of(err < 0 ? -err : err);
	}
}
