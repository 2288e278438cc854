/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A rank has no memory for its part of a collective and lives, on another host than some: the communicator is revoked at all
 * ranks, and no rank takes that rank for dead. MPI_Comm_create_from_group with all makes a communicator that works
 * (--wrap=hdl_irecv).
 *
 *     comm_no_memory RANK
 */
#include <stdio.h>

#include "collectives/internal.h"
#include "survivors.h"

static bool lacks;

__typeof__(hdl_irecv) __real_hdl_irecv, __wrap_hdl_irecv;

int __wrap_hdl_irecv(void *buf, MPI_Count count, const struct hdl_type *t, int src, int tag, struct hdl_comm *comm,
		     uint16_t context, struct hdl_req **req)
{
	if (!lacks)
		return __real_hdl_irecv(buf, count, t, src, tag, comm, context, req);
	hdl_reason_set("the test refuses a receive");
	*req = NULL;
	return MPI_ERR_NO_MEM;
}

static int fail(int me, const char *what, int rc)
{
	printf("rank %d: FAILED: %s: error %d\n", me, what, rc);
	fflush(stdout);
	MPI_Abort(MPI_COMM_WORLD, 3);
	return 1;
}

int main(int argc, char **argv)
{
	int me, all, one = 1, sum = 0, who = argc == 2 ? atoi(argv[1]) : 0, rc, class;
	MPI_Request request;
	MPI_Comm comm, made;
	MPI_Group group;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &me);
	MPI_Comm_size(MPI_COMM_WORLD, &all);
	MPI_Comm_dup(MPI_COMM_WORLD, &comm);
	MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
	MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm);
	lacks = me == who;
	rc = MPI_SUCCESS;
	for (int i = 0; i < 1000 && !rc; i++) {		/* some may have got through the first */
		rc = MPI_Iallreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm, &request);
		rc = rc ? rc : MPI_Wait(&request, MPI_STATUS_IGNORE);
	}
	lacks = false;
	MPI_Error_class(rc, &class);
	if (class != (me == who ? MPI_ERR_NO_MEM : MPI_ERR_PROC_ABORTED))
		return fail(me, "the Allreduce", rc);
	MPI_Comm_group(MPI_COMM_WORLD, &group);
	for (int i = 0; i < 3; i++) {
		rc = MPI_Comm_create_from_group(group, "spared", MPI_INFO_NULL, MPI_ERRORS_RETURN, &made);
		if (rc || (rc = MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, made)) || sum != all)
			return fail(me, "a communicator with all", rc);
		MPI_Comm_free(&made);
	}
	MPI_Group_free(&group);
	MPI_Comm_free(&comm);
	printf("rank %d: all are there\n", me);
	MPI_Finalize();
	return 0;
}
