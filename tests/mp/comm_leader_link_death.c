/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A rank dies while a group of that rank and another group create an intercommunicator; the leaders reach each other by a
 * communicator without that rank. One leader fails elsewhere, and does not call the constructor before the other ranks have got
 * their error: neither the group of the dead rank waits for the leader of the other group, nor that group for the dead rank,
 * which that group cannot see. Run with heddlerun --on-death=continue.
 *
 *     comm_leader_link_death CASE LATER     4 ranks, of which the last one dies
 *
 * CASE: lost: rank 0, of the group without the dead rank, does not call. waits: the same, and the rank dies in the constructor,
 * after its part; alone: rank 0 has had no error either. whole: ranks 1 and 2 do not call, and rank 0 waits for rank 1; early:
 * rank 0 does so before they get the error. LATER: comes: the absent ranks call when the other ranks have got the error, with the
 * same tag, and get the error, too; stays: they never call. In the end the leaders make an intercommunicator of themselves: after
 * "comes" with the same tag.
 *
 *     comm_leader_link_death accept|connect
 *
 * A member of the communicator dies while the root waits at a port, to which no process connects, or at the port of a process
 * that does not accept. Each survivor prints a line.
 */
#include <stdio.h>
#include <string.h>

#include "survivors.h"

enum { DEAD = 3, TAG = 7 };
static int me;
static MPI_Comm part, leaders;	/* part: of rank 0, of ranks 1, 2 and 3; leaders: of ranks 0 and 1 */

static void fail(const char *what, int rc)
{
	survivors_fail(me, what, rc);
}

static void must(const char *what, int rc)
{
	if (rc)
		fail(what, rc);
}

static void must_be_told(const char *what, int rc)
{
	if (!survivors_told(rc))
		fail(what, rc);
}

static int create(MPI_Comm local, int tag, MPI_Comm *inter)
{
	*inter = MPI_COMM_NULL;
	return MPI_Intercomm_create(local, 0, leaders, !me, tag, inter);
}

/* Returns the counters of survivors.h; the file is removed when all ranks have mapped it. */
static int *counters(void)
{
	char name[] = "/tmp/comm_leader_link_death.XXXXXX";
	int *met, fd = me ? -1 : mkstemp(name);

	if (fd >= 0)
		close(fd);
	MPI_Bcast(name, sizeof(name), MPI_CHAR, 0, MPI_COMM_WORLD);
	met = survivors_counters(name);
	MPI_Barrier(MPI_COMM_WORLD);
	if (!me)
		unlink(name);
	return met;
}

/* Waits until rank 0 is in the constructor, and the messages of rank 0 are here, unexpected. */
static void linger(const int *first)
{
	int flag;

	if (!survivors_await(first, 1, 30, true))
		fail("rank 0 has not come", 0);
	for (int i = 0; i < 20; i++) {
		usleep(1000);
		MPI_Iprobe(0, 0, MPI_COMM_SELF, &flag, MPI_STATUS_IGNORE);
	}
}

/* comes: this rank calls the constructor, which must fail. Else, if `asks`, a receive from the dead rank must fail. first: not
 * NULL: after rank 0 has called. */
static void begin(bool comes, bool asks, bool dies_inside, int *first)
{
	MPI_Comm inter;
	int got;

	MPI_Barrier(MPI_COMM_WORLD);
	if (me == DEAD && !dies_inside)
		kill(getpid(), SIGKILL);
	if (me == DEAD)
		survivors_die_in(100000);
	if (first && !me)
		survivors_count(first);
	else if (first && me != DEAD)
		linger(first);
	if (comes)
		must_be_told("the intercommunicator", create(part, TAG, &inter));
	else if (asks)
		must_be_told("a message from the dead", MPI_Recv(&got, 1, MPI_INT, DEAD, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
}

/* An intercommunicator of two groups of one rank. Rank 0 calls first, and the messages of rank 0 stay unexpected for a while:
 * both ranks know of the death, so rank 0 waits. */
static void go_on(int tag, int *first)
{
	MPI_Comm inter, merged;
	int one = 1, sum = 0;

	if (!me)
		survivors_count(first);
	else
		linger(first);
	must("an intercommunicator of the leaders", create(MPI_COMM_SELF, tag, &inter));
	must("MPI_Allreduce", MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, inter));
	must("MPI_Intercomm_merge", MPI_Intercomm_merge(inter, me, &merged));
	must("MPI_Allreduce", MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, merged));
	if (sum != 2)
		fail("the sum", 0);
	MPI_Comm_free(&merged);
	MPI_Comm_free(&inter);
}

/* accepts: all ranks call MPI_Comm_accept. Else rank 1 has the port, and rank 0 connects with the dead rank as the only other
 * member: rank 0 must notice the death itself. */
static void at_port(bool accepts, int *met)
{
	char name[MPI_MAX_PORT_NAME] = "";
	int here = accepts ? 0 : 1;
	bool takes_part = accepts || me == 0 || me == DEAD;
	MPI_Comm those, inter;

	MPI_Comm_split(MPI_COMM_WORLD, takes_part, me, &those);
	MPI_Comm_set_errhandler(those, MPI_ERRORS_RETURN);
	if (me == here)
		MPI_Open_port(MPI_INFO_NULL, name);
	MPI_Bcast(name, sizeof(name), MPI_CHAR, here, MPI_COMM_WORLD);
	MPI_Barrier(MPI_COMM_WORLD);
	if (me == DEAD)
		survivors_die_in(100000);
	if (accepts)
		must_be_told("MPI_Comm_accept", MPI_Comm_accept(name, MPI_INFO_NULL, 0, those, &inter));
	else if (takes_part)
		must_be_told("MPI_Comm_connect", MPI_Comm_connect(name, MPI_INFO_NULL, 0, those, &inter));
	survivors_count(&met[0]);
	if (!survivors_await(&met[0], DEAD, 30, true))
		fail("not all have been told", 0);
	if (me == here)
		MPI_Close_port(name);
	MPI_Comm_free(&those);
}

static void on_bridge(const char *how, bool later, int *met)
{
	bool alone = !strcmp(how, "alone"), waits = alone || !strcmp(how, "waits"), lost = waits || !strcmp(how, "lost");
	bool early = !strcmp(how, "early");
	bool comes = lost == (me > 0);
	MPI_Comm inter;

	MPI_Comm_split(MPI_COMM_WORLD, me > 0, me, &part);
	MPI_Comm_split(MPI_COMM_WORLD, me < 2 ? 0 : MPI_UNDEFINED, me, &leaders);
	begin(comes, !alone, waits, early ? &met[10] : NULL);
	survivors_count(&met[comes ? 0 : 1]);
	if (!survivors_await(&met[0], lost ? 2 : 1, 30, true) || !survivors_await(&met[1], lost ? 1 : 2, 30, true))
		fail("not all have been told", 0);
	if (later && !comes)
		must_be_told("an intercommunicator that the others have given up", create(part, TAG, &inter));
	survivors_count(&met[2]);
	if (!survivors_await(&met[2], DEAD, 30, true))
		fail("not all have come", 0);
	for (int i = 0; me < 2 && i < 3; i++)
		go_on(later ? TAG : TAG + 1 + i, &met[3 + i]);
	if (me < 2)
		MPI_Comm_free(&leaders);
	MPI_Comm_free(&part);
}

int main(int argc, char **argv)
{
	bool port;
	int *met, all;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &me);
	MPI_Comm_size(MPI_COMM_WORLD, &all);
	port = argc == 2 && (!strcmp(argv[1], "accept") || !strcmp(argv[1], "connect"));
	if ((argc != 3 && !port) || all != DEAD + 1) {
		fprintf(stderr,
			"usage: comm_leader_link_death lost|waits|whole|early comes|stays, alone comes, accept|connect; 4 "
			"ranks\n");
		MPI_Abort(MPI_COMM_WORLD, 2);
	}
	met = counters();
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
	if (port)
		at_port(!strcmp(argv[1], "accept"), met);
	else
		on_bridge(argv[1], !strcmp(argv[2], "comes"), met);
	printf("survivor %d: told\n", me);
	fflush(stdout);
	MPI_Finalize();
	return 0;
}
