/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The door for v-collectives, for reductions by operations of programs, and for all collectives of intercommunicators: to mailbox
 * (mailbox/vector_calls.c) if mailbox can do the call, else to the host executor (host/vcoll.c).
 */
#include "collectives/host/host.h"
#include "collectives/mailbox/mailbox.h"

int hdl_vcoll_start(struct hdl_comm *comm, const struct hdl_vcoll *a, struct hdl_req **req)
{
	int rc;

	if ((!req && hdl_vector_quick(comm, a, &rc)) || hdl_vector_begin(comm, a, req, &rc))
		return rc;
	return hdl_host_vcoll_start(comm, a, req);
}

int hdl_vcoll_prepare(struct hdl_comm *comm, const struct hdl_vcoll *a, struct hdl_req **req)
{
	int rc = MPI_SUCCESS;

	*req = NULL;
	return hdl_vector_prepare(comm, a, req, &rc) ? rc : hdl_host_vcoll_prepare(comm, a, req);
}
