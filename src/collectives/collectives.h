/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The door of src/collectives (MPI-5.0 chapter 6): a collective is a task graph, built once per (communicator,
 * collective, root, shape) and kept; the host executor or the HCA executor runs it.
 */
#ifndef HDL_COLLECTIVES_H
#define HDL_COLLECTIVES_H

#include <mpi.h>

#include "p2p/p2p.h"

enum hdl_coll { HDL_BARRIER, HDL_BCAST, HDL_REDUCE, HDL_ALLREDUCE, HDL_ALLGATHER, HDL_ALLTOALL, HDL_COLLS };

struct hdl_coll_args {
	enum hdl_coll coll;
	const void *sendbuf;		/* MPI_IN_PLACE where the standard allows it */
	void *recvbuf;
	MPI_Count sendcount, recvcount;
	const struct hdl_type *sendtype, *recvtype;
	MPI_Op op;
	int root;
};

int hdl_coll_init(void);
/* Every communicator's collectives end; prints the report when asked. Before hdl_p2p_fini: their queues use its port. */
int hdl_coll_fini(void);
/* Whether op is defined on type (MPI-5.0 section 6.9.2). */
bool hdl_op_valid(MPI_Op op, const struct hdl_type *type);
/* inout[i] = in[i] op inout[i], count elements of a predefined type. */
void hdl_op_apply(MPI_Op op, const struct hdl_type *type, const void *in, void *inout, MPI_Count count);

/* Start a collective. Strictly nonblocking; arguments were checked by mpi/. Return an MPI error class. */
int hdl_coll_start(struct hdl_comm *comm, const struct hdl_coll_args *args, struct hdl_req **req);
/* The blocking form: same graph, and the caller's CPU until it is complete. */
int hdl_coll_run(struct hdl_comm *comm, const struct hdl_coll_args *args);

#endif
