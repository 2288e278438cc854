/* SPDX-License-Identifier: BSD-3-Clause */
/* Processes that were started apart (MPI-5.0 chapter 11). */
#include <errno.h>
#include <string.h>

#include "mpi/mpi_internal.h"
#include "p2p/meet.h"

/* A peer with which there can be no communication is no error here, but no communicator either (section 11.10.5). */
int PMPI_Comm_join(int fd, MPI_Comm *intercomm)
{
	HDL_LOCKED;
	static const char call[] = "MPI_Comm_join";
	struct hdl_meeting met = { 0 };
	struct hdl_comm *made = NULL;
	int err, rc;

	hdl_check_active(call);
	if (!intercomm)
		return hdl_null_arg(&hdl_self, call, "intercomm");
	hdl_call = call;
	err = hdl_meet(fd, &met);
	if (err)
		return hdl_raise(&hdl_self, err == -EBADF || err == -ENOTSOCK ? MPI_ERR_ARG : MPI_ERR_OTHER, call,
				 "fd %d: %s", fd, err == -EPROTO ? "the process at the other end has said something else than "
				 "MPI_Comm_join of this library does: was the socket quiet?" : strerror(-err));
	*intercomm = MPI_COMM_NULL;
	if (!met.other)
		return MPI_SUCCESS;
	rc = hdl_intercomm_with(&hdl_self, 0, 0, met.other, met.tag, &made);
	hdl_group_release(met.other);
	if (rc)
		return hdl_raise_class(&hdl_self, rc, call);
	*intercomm = (MPI_Comm)made;
	return MPI_SUCCESS;
}
HDL_PROFILED(Comm_join);
