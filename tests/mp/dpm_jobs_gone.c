/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a process still knows of jobs that it has spawned, and that have ended (p2p/comm/jobs_gone.c).
 *
 *     dpm_jobs_gone groups [N]     groups are kept after MPI_Comm_disconnect, then compared and translated behind N further
 *                                  spawns: their jobs stay known; jobs without groups are freed, and the groups' in the end
 *     dpm_jobs_gone session [N]    the same, of parents that have sessions only
 *     dpm_jobs_gone again [N]      a spawned job lives on, and the parents connect with it again behind N further spawns: rank 0,
 *                                  which has endpoints, knows the job all the time; the other ranks have freed it
 *     dpm_jobs_gone failed [N]     with --on-death=continue: a spawned process is killed; the failure keeps the job
 */
#include <signal.h>

#include "dpm_test.h"
#include "p2p/comm/group.h"
#include "p2p/p2p.h"
#include "runtime/jobs.h"

enum { CHILDREN = 3, GROUPED = 3, MOST_SPAWNS = 30, TURNS = 300 };

static const char *self;
static MPI_Comm parents;		/* of the parents, in place of MPI_COMM_WORLD */

static uint64_t job_of(MPI_Group group)
{
	return hdl_proc_job(hdl_group_proc(hdl_group_get(group), 0));
}

static bool is_known(uint64_t job)
{
	return hdl_proc_of(job, 0) >= 0;
}

/* Spawns children that are told `what`. Returns the job; *remote: the children. */
static uint64_t spawn_children(char *what, MPI_Comm *inter, MPI_Group *remote)
{
	char child[] = "child", *argv[] = { child, what, NULL };

	CHECK(MPI_Comm_spawn(self, argv, CHILDREN, MPI_INFO_NULL, 0, parents, inter, MPI_ERRCODES_IGNORE) == MPI_SUCCESS);
	MPI_Comm_remote_group(*inter, remote);
	return job_of(*remote);
}

/* Returns the job; *group: the children, if that is wanted. The intercommunicator is disconnected. */
static uint64_t spawned(char *what, MPI_Group *group)
{
	MPI_Group remote;
	MPI_Comm inter;
	uint64_t job = spawn_children(what, &inter, &remote);

	CHECK(is_known(job));
	if (group)
		*group = remote;
	else
		MPI_Group_free(&remote);
	together(&inter, 0);
	return job;
}

/* Spawns, and makes progress, until jobs are freed on all parents: a child's end is seen some time after its end, and an endpoint
 * of a shared queue stays until a later request of the queue completes. */
static void until_gone(const uint64_t *jobs, int n)
{
	int some = 1, flag;

	for (int i = 0; some && i < MOST_SPAWNS; i++) {
		spawned("once", NULL);
		some = 0;
		for (int k = 0; k < n; k++)
			some |= is_known(jobs[k]);
		MPI_Allreduce(MPI_IN_PLACE, &some, 1, MPI_INT, MPI_MAX, parents);
		for (int k = 0; some && k < TURNS; k++) {
			usleep(1000);
			MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, parents, &flag, MPI_STATUS_IGNORE);
		}
	}
	CHECK(!some);
}

static int compared(MPI_Group a, MPI_Group b)
{
	int result;

	MPI_Group_compare(a, b, &result);
	return result;
}

/* Whether the ranks of a are those of b that `to` has. */
static bool translates(MPI_Group a, MPI_Group b, const int to[CHILDREN])
{
	int from[CHILDREN], got[CHILDREN];
	bool same = true;

	for (int i = 0; i < CHILDREN; i++)
		from[i] = i;
	MPI_Group_translate_ranks(a, CHILDREN, from, b, got);
	for (int i = 0; i < CHILDREN; i++)
		same &= got[i] == to[i];
	return same;
}

static void groups(int n)
{
	static const int back[CHILDREN] = { 2, 1, 0 }, turned[CHILDREN] = { 1, 2, 0 }, same[CHILDREN] = { 0, 1, 2 },
			 none[CHILDREN] = { MPI_UNDEFINED, MPI_UNDEFINED, MPI_UNDEFINED };
	MPI_Group whole, mine, rest, remote, late, a[GROUPED], both;
	uint64_t kept[GROUPED], gone[2], last;
	int size;

	/* a stride, a table, and a group with the parents: none has met an endpoint */
	MPI_Comm_group(parents, &mine);
	for (int i = 0; i < GROUPED; i++) {
		kept[i] = spawned("once", &remote);
		if (i < 2)
			MPI_Group_incl(remote, CHILDREN, i ? turned : back, &a[i]);
		else
			MPI_Group_union(remote, mine, &a[i]);
		MPI_Group_free(&remote);
	}
	gone[0] = spawned("once", NULL);
	gone[1] = spawned("once", &whole);	/* with endpoints */
	MPI_Group_incl(whole, 2, same, &rest);
	for (int i = 0; i < n; i++)
		spawned("once", NULL);
	MPI_Group_free(&whole);
	until_gone(gone, 1);
	last = spawned("once", &late);
	for (int i = 0; i < GROUPED; i++)
		CHECK(is_known(kept[i]) && is_known(last) && is_known(gone[1]));

	MPI_Group_incl(a[0], CHILDREN, back, &both);		/* in the order of the job */
	CHECK(compared(a[0], both) == MPI_SIMILAR && translates(a[0], both, back) && job_of(both) == kept[0]);
	MPI_Group_free(&both);
	CHECK(translates(a[2], a[1], none) && translates(a[0], a[1], none) && translates(late, a[0], none));
	CHECK(compared(a[0], a[1]) == MPI_UNEQUAL && compared(a[0], late) == MPI_UNEQUAL);
	MPI_Group_excl(a[2], 1, same, &both);			/* not the job's first process */
	CHECK(translates(a[2], both, (int[]){ MPI_UNDEFINED, 0, 1 }));
	MPI_Group_free(&both);
	MPI_Group_difference(a[2], mine, &both);
	MPI_Group_size(both, &size);
	CHECK(size == CHILDREN && translates(both, a[2], same));
	MPI_Group_free(&both);
	MPI_Group_intersection(rest, late, &both);
	CHECK(both == MPI_GROUP_EMPTY);

	for (int i = 0; i < GROUPED; i++)
		MPI_Group_free(&a[i]);
	MPI_Group_free(&rest);
	MPI_Group_free(&late);
	until_gone(kept, GROUPED);
	until_gone(gone + 1, 1);
	until_gone(&last, 1);
	MPI_Group_free(&mine);
}

static void session(int n)
{
	MPI_Session s;
	MPI_Group world;

	MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &s);
	MPI_Group_from_session_pset(s, "mpi://WORLD", &world);
	MPI_Comm_create_from_group(world, "dpm_jobs_gone", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &parents);
	MPI_Group_free(&world);
	MPI_Comm_rank(parents, &me);
	groups(n);
	MPI_Comm_disconnect(&parents);
	MPI_Session_finalize(&s);
}

/* Only rank 0 has messages with the children, and only with their rank 0. */
static void again(int n)
{
	char stays[] = "stays", port[MPI_MAX_PORT_NAME] = "";
	MPI_Group remote;
	MPI_Comm inter;
	uint64_t job = spawn_children(stays, &inter, &remote);

	MPI_Group_free(&remote);
	for (int turn = 0; turn < 3; turn++) {
		if (!me)
			MPI_Recv(port, sizeof(port), MPI_CHAR, 0, 1, inter, MPI_STATUS_IGNORE);
		if (turn == 2)
			together(&inter, 0);
		else
			MPI_Comm_disconnect(&inter);
		for (int i = 0; i < n; i++)
			spawned("once", NULL);
		CHECK(turn == 2 || is_known(job) == !me);
		if (turn < 2)
			CHECK(MPI_Comm_connect(port, MPI_INFO_NULL, 0, parents, &inter) == MPI_SUCCESS);
		if (turn < 2)
			CHECK(is_known(job));
	}
	until_gone(&job, 1);
}

static void failed_child(int n)
{
	char dies[] = "dies";
	MPI_Group remote;
	MPI_Comm inter;
	uint64_t job = spawn_children(dies, &inter, &remote);
	int v = 0, rc;

	MPI_Comm_set_errhandler(inter, MPI_ERRORS_RETURN);
	MPI_Group_free(&remote);
	while (!(rc = MPI_Barrier(inter)))
		;
	CHECK(class_of(rc) == MPI_ERR_PROC_ABORTED);
	rc = MPI_Recv(&v, 1, MPI_INT, CHILDREN - 1, 2, inter, MPI_STATUS_IGNORE);
	CHECK(class_of(rc) == MPI_ERR_PROC_ABORTED);
	MPI_Comm_free(&inter);
	for (int i = 0; i < n; i++)
		spawned("once", NULL);
	CHECK(is_known(job));
	for (int r = 0; r < CHILDREN; r++)
		CHECK(strstr(hdl_proc_text(hdl_proc_of(job, (uint32_t)r)), "of job "));
}

static void child(const char *what)
{
	char port[MPI_MAX_PORT_NAME];

	MPI_Comm_set_errhandler(parent, MPI_ERRORS_RETURN);
	if (!strcmp(what, "once")) {
		together(&parent, 1);
		return;
	}
	if (!strcmp(what, "dies")) {
		for (int i = 0; i < 5 || me != CHILDREN - 1; i++)
			if (MPI_Barrier(parent))
				break;
		if (me == CHILDREN - 1)
			raise(SIGKILL);
		MPI_Comm_free(&parent);
		return;
	}
	if (!me)
		MPI_Open_port(MPI_INFO_NULL, port);
	for (int turn = 0; turn < 3; turn++) {
		if (!me)
			MPI_Send(port, sizeof(port), MPI_CHAR, 0, 1, parent);
		if (turn == 2)
			together(&parent, 1);
		else
			MPI_Comm_disconnect(&parent);
		if (turn < 2)
			CHECK(MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &parent) == MPI_SUCCESS);
	}
	if (!me)
		MPI_Close_port(port);
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "groups";
	int n = argc > 2 ? atoi(argv[2]) : 4;

	self = argv[0];
	parent = MPI_COMM_NULL;
	if (!strcmp(what, "session")) {
		session(n);
		printf("ok\n");
		return failed;
	}
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &me);
	MPI_Comm_size(MPI_COMM_WORLD, &np);
	MPI_Comm_get_parent(&parent);
	if (parent != MPI_COMM_NULL) {
		child(argv[2]);
	} else {
		MPI_Comm_dup(MPI_COMM_WORLD, &parents);
		if (!strcmp(what, "groups"))
			groups(n);
		else if (!strcmp(what, "again"))
			again(n);
		else
			failed_child(n);
		MPI_Comm_free(&parents);
		if (!failed)
			printf("ok\n");
	}
	MPI_Finalize();
	return failed;
}
