/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Spawned processes do their part of the last operation, call MPI_Comm_disconnect and MPI_Finalize, and end, while parents still
 * wait in that operation for a parent that comes late. The operation completes, and no failure is reported. The same where the
 * ranks of one job have sessions only, and one ends behind MPI_Session_finalize.
 *
 *     dpm_departs CASE BYTES        CASE: gather, bcast, receive, receive_any, any, any_later, session
 */
#include "dpm_test.h"

#include <time.h>

enum { CHILDREN = 2 };

static int nbytes;
static char *data, *all_data;

/* Calls nothing of MPI until the children have ended, and then for as long as a waiting parent takes to look at the processes of
 * its peers several times. Children that wait for this parent (for the acknowledgement of a datagram, or for their data to be
 * read) do not end until it calls. */
static void come_late(void)
{
	enum { ENDS_MS = 2000, LOOKS_MS = 1800 };
	const struct timespec ms = { 0, 1000000 };

	for (int i = 0; i < ENDS_MS && of_launcher() > np + 1; i++)	/* the guard */
		nanosleep(&ms, NULL);
	for (int i = 0; i < LOOKS_MS && of_launcher() <= np + 1; i++)
		nanosleep(&ms, NULL);
}

/* Each rank's bytes, and a check of them. */
static void fill_of(char *p, int rank)
{
	for (int i = 0; i < nbytes; i++)
		p[i] = (char)(rank * 31 + i);
}

static int is_of(const char *p, int rank)
{
	for (int i = 0; i < nbytes; i++)
		if (p[i] != (char)(rank * 31 + i))
			return 0;
	return 1;
}

/* late: this rank begins the operation when the children have ended. The root is the last parent. */
static void gather(MPI_Comm all, int r, int n, int root)
{
	fill_of(data, r);
	MPI_Gather(data, nbytes, MPI_CHAR, all_data, nbytes, MPI_CHAR, root, all);
	for (int i = 0; r == root && i < n; i++)
		CHECK(is_of(all_data + (size_t)i * (size_t)nbytes, i));
}

/* The root is the first child. */
static void bcast(MPI_Comm all, int r, int root)
{
	fill_of(data, r);
	MPI_Bcast(data, nbytes, MPI_CHAR, root, all);
	CHECK(is_of(data, root));
}

/* So many messages between each child and each parent that they have queues and rings. */
static void warm_up(MPI_Comm all, int r, int parents, int n)
{
	enum { TIMES = 200 };

	for (int i = 0; i < TIMES; i++)
		for (int k = 0; k < (r < parents ? n - parents : parents); k++)
			MPI_Sendrecv(&r, 0, MPI_INT, r < parents ? parents + k : k, 2, &n, 0, MPI_INT,
				     r < parents ? parents + k : k, 2, all, MPI_STATUS_IGNORE);
}

/* Each child sends to each parent, more messages than a turn of progress takes from a ring. */
static void receive(MPI_Comm all, int r, int parents, int n, int any)
{
	enum { MESSAGES = 1000 };
	MPI_Status status;

	for (int i = 0; i < MESSAGES; i++)
		for (int k = 0; k < (r < parents ? n - parents : parents); k++) {
			if (r >= parents) {
				fill_of(data, r + i);
				MPI_Send(data, nbytes, MPI_CHAR, k, 3, all);
				continue;
			}
			MPI_Recv(data, nbytes, MPI_CHAR, any ? MPI_ANY_SOURCE : parents + k, 3, all, &status);
			if (!any)
				CHECK(is_of(data, parents + k + i));
		}
}

/* The last parent waits for a message of any source, which the first parent sends. later: the receive begins when the parent has
 * had time to see that the children have ended. */
static void any(MPI_Comm all, int r, int parents, int later)
{
	int flag;

	fill_of(data, 0);
	if (later && !r)
		usleep(1500000);	/* by then the receive has begun: else its message does not need it */
	if (later && r == parents - 1) {
		come_late();
		for (int i = 0; i < 300; i++) {
			usleep(2000);
			MPI_Iprobe(0, 5, all, &flag, MPI_STATUS_IGNORE);
		}
	}
	if (!r)
		MPI_Send(data, nbytes, MPI_CHAR, parents - 1, 4, all);
	else if (r == parents - 1)
		MPI_Recv(data, nbytes, MPI_CHAR, MPI_ANY_SOURCE, 4, all, MPI_STATUS_IGNORE);
	CHECK(is_of(data, 0));
}

static void operate(const char *what, MPI_Comm all)
{
	int r, n, parents, late;

	MPI_Comm_rank(all, &r);
	MPI_Comm_size(all, &n);
	parents = n - CHILDREN;
	late = !r || !strcmp(what, "bcast") || !strcmp(what, "receive") || !strcmp(what, "receive_any");
	if (!strncmp(what, "receive", 7))
		warm_up(all, r, parents, n);
	if (r < parents && late)
		come_late();
	if (!strcmp(what, "gather"))
		gather(all, r, n, parents - 1);
	else if (!strcmp(what, "bcast"))
		bcast(all, r, parents);
	else if (!strcmp(what, "receive"))
		receive(all, r, parents, n, 0);
	else if (!strcmp(what, "receive_any"))
		receive(all, r, parents, n, 1);
	else
		any(all, r, parents, !strcmp(what, "any_later"));
}

/* Ranks of one job without MPI_Init: the last one ends while rank 1 waits for rank 0. Messages ahead of it, by which the last one
 * needs no acknowledgement of rank 0 in the end. */
static int with_session(void)
{
	const struct timespec late = { 4, 0 };
	MPI_Session session;
	MPI_Group group;
	MPI_Comm comm;
	int n;

	parent = MPI_COMM_NULL;
	MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session);
	MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
	MPI_Comm_create_from_group(group, "dpm_departs", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &comm);
	MPI_Comm_rank(comm, &me);
	MPI_Comm_size(comm, &n);
	data = malloc((size_t)nbytes);
	all_data = malloc((size_t)nbytes * (size_t)n);
	for (int i = 0; i < 1000; i++)
		for (int k = 0; k < n; k++)
			if (k != me)
				MPI_Sendrecv(&i, 0, MPI_INT, k, 2, &n, 0, MPI_INT, k, 2, comm, MPI_STATUS_IGNORE);
	MPI_Barrier(comm);
	if (!me)
		nanosleep(&late, NULL);
	gather(comm, me, n, 1);
	free(data);
	free(all_data);
	MPI_Comm_free(&comm);
	MPI_Group_free(&group);
	MPI_Session_finalize(&session);
	return failed;
}

int main(int argc, char **argv)
{
	char *args[] = { argc > 1 ? argv[1] : NULL, argc > 2 ? argv[2] : NULL, NULL };
	MPI_Comm inter, all;
	int n;

	nbytes = argc > 2 ? atoi(argv[2]) : 8;
	if (argc > 1 && !strcmp(argv[1], "session"))
		return with_session();
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &me);
	MPI_Comm_size(MPI_COMM_WORLD, &np);
	MPI_Comm_get_parent(&parent);
	inter = parent;
	if (parent == MPI_COMM_NULL)
		CHECK(!MPI_Comm_spawn(argv[0], args, CHILDREN, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter, MPI_ERRCODES_IGNORE));
	MPI_Intercomm_merge(inter, parent != MPI_COMM_NULL, &all);
	MPI_Comm_size(all, &n);
	data = malloc((size_t)nbytes);
	all_data = malloc((size_t)nbytes * (size_t)n);
	MPI_Barrier(all);
	operate(argc > 1 ? argv[1] : "gather", all);
	MPI_Comm_disconnect(&all);
	MPI_Comm_disconnect(&inter);
	free(data);
	free(all_data);
	MPI_Finalize();
	return failed;
}
