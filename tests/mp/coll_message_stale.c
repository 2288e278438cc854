/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A message that a member has died comes late: the communicator of that message was freed here, and its contexts are those of one
 * that the named rank is no member of, which is made before the message comes, or behind it. Collectives there go on; and a
 * message that names a member is heard behind one that does not. On three ranks, of which the last one is named.
 */
#include <stdio.h>

#include "collectives/internal.h"
#include "mpi/mpi_internal.h"

static int me, fails;
static MPI_Group pair;

static void check(const char *what, bool right)
{
	if (right)
		return;
	printf("rank %d: FAILED: %s\n", me, what);
	fails++;
}

static MPI_Comm make(void)
{
	MPI_Comm comm;

	MPI_Comm_create_group(MPI_COMM_WORLD, pair, 5, &comm);
	MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
	return comm;
}

/* Rank 1 tells rank 0, which has heard it when this returns. */
static void tell(uint16_t context, int world)
{
	if (me == 1) {
		hdl_ft_send_notice(0, &hdl_world, context, world, false);
		MPI_Send(NULL, 0, MPI_BYTE, 0, 3, MPI_COMM_WORLD);
	} else {
		MPI_Recv(NULL, 0, MPI_BYTE, 1, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	}
}

static void add_up(const char *when, MPI_Comm comm)
{
	for (int i = 0; i < 20; i++) {
		int one = 1, sum = 0;

		check(when, !MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm) && sum == 2);
	}
}

int main(int argc, char **argv)
{
	int of[] = { 0, 1 }, class = 0;
	MPI_Group world;
	MPI_Comm comm;
	uint16_t context;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &me);
	MPI_Comm_group(MPI_COMM_WORLD, &world);
	MPI_Group_incl(world, 2, of, &pair);
	if (me < 2) {
		comm = make();
		context = (uint16_t)(hdl_comm_get(comm)->context + 1);
		tell(context, 2);
		add_up("the communicator was there", comm);
		MPI_Comm_free(&comm);
		tell(context, 2);
		comm = make();
		check("the contexts are others", hdl_comm_get(comm)->context + 1 == context);
		add_up("the message was there", comm);
		MPI_Comm_free(&comm);
		tell(context, 2);
		tell(context, 1);
		comm = make();
		if (!me)
			MPI_Error_class(MPI_Barrier(comm), &class);
		check("a member is named", me || class == MPI_ERR_PROC_ABORTED);
		MPI_Comm_free(&comm);
	}
	MPI_Group_free(&pair);
	MPI_Group_free(&world);
	MPI_Finalize();
	return fails != 0;
}
