/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A rank dies at a random moment while communicators are created, in every way that MPI has, and collectives and messages run on
 * them. Every survivor gets MPI_ERR_PROC_ABORTED from a call, even if the ranks for which that call waits live, but have had the
 * error in another call and will not enter this one. Then the survivors create a communicator of their own. Must run under
 * heddlerun --on-death=continue.
 *
 *     comm_death_random DEAD MICROSECONDS SEED FILE
 *
 * MICROSECONDS: delay of the death. SEED: order of the calls, the same on all ranks; an odd seed initializes MPI_THREAD_MULTIPLE.
 * FILE: see survivors.h. Each survivor prints a line.
 */
#include <stdint.h>
#include <stdio.h>

#include "survivors.h"

enum { BARRIER, ALLREDUCE, MESSAGE, DUP, IDUP, SPLIT, CREATE, CREATE_GROUP, FROM_GROUP, CART, GRAPH, INTER, WAYS };
static const char *const names[WAYS] = { "MPI_Barrier", "MPI_Allreduce", "MPI_Sendrecv", "MPI_Comm_dup", "MPI_Comm_idup",
					 "MPI_Comm_split", "MPI_Comm_create", "MPI_Comm_create_group",
					 "MPI_Comm_create_from_group", "MPI_Cart_create", "MPI_Dist_graph_create_adjacent",
					 "MPI_Intercomm_create" };
static int me, all, dead;
static int single;		/* only member of a group without the dead rank: this rank has no peer to send a failure notice
				 * to */
static MPI_Comm base, part;	/* all ranks; this rank's part of `base`: `single` alone, or all ranks but `single` */
static MPI_Comm leaders;	/* the two leaders of the parts, mostly without the dead rank */

/* Draws the next number below `below`. All ranks draw the same numbers from the same seed. */
static unsigned draw(uint64_t *seed, unsigned below)
{
	*seed = *seed * 6364136223846793005u + 1442695040888963407u;
	return (unsigned)(*seed >> 33) % below;
}

static int quiet(MPI_Comm comm)
{
	return MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
}

/* Runs one Allreduce on the new communicator, if there is one, and frees the communicator. Returns the first error. */
static int use(int rc, MPI_Comm *made)
{
	int one = 1, sum;

	if (!rc && *made != MPI_COMM_NULL) {
		quiet(*made);
		rc = MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, *made);
		MPI_Comm_free(made);
	}
	return rc;
}

static int intercomm(int round)
{
	MPI_Comm inter = MPI_COMM_NULL, merged = MPI_COMM_NULL;
	bool alone = round % 2;
	int other = !single, rc = MPI_Intercomm_create(part, 0, alone ? leaders : base,
						       alone ? (me == single) == (single < other) : me == single ? other :
							       single, round, &inter);

	if (rc)
		return rc;
	quiet(inter);
	rc = MPI_Intercomm_merge(inter, me == single, &merged);
	MPI_Comm_free(&inter);
	return use(rc, &merged);
}

static int call(int way, int round)
{
	int right = (me + 1) % all, left = (me + all - 1) % all, friend = (dead + 1) % all, one = 1, sum, on = 1, rc;
	MPI_Comm made = MPI_COMM_NULL;
	MPI_Request request;
	MPI_Group group;

	switch (way) {
	case BARRIER:
		return MPI_Barrier(base);
	case ALLREDUCE:
		return MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, base);
	case MESSAGE:	/* only `friend` gets the error, and from then on enters no call with the other ranks */
		if (me != dead && me != friend)
			return MPI_SUCCESS;
		friend = me == dead ? friend : dead;
		return MPI_Sendrecv(&me, 1, MPI_INT, friend, 1, &sum, 1, MPI_INT, friend, 1, base, MPI_STATUS_IGNORE);
	case DUP:
		rc = MPI_Comm_dup(base, &made);
		break;
	case IDUP:
		rc = MPI_Comm_idup(base, &made, &request);
		rc = rc ? rc : MPI_Wait(&request, MPI_STATUS_IGNORE);
		break;
	case SPLIT:	/* the part without the dead rank must not survive at only some of its members */
		rc = MPI_Comm_split(base, me == single, me, &made);
		break;
	case CREATE: case CREATE_GROUP:
		MPI_Comm_group(base, &group);
		rc = way == CREATE ? MPI_Comm_create(base, group, &made) : MPI_Comm_create_group(base, group, round, &made);
		MPI_Group_free(&group);
		break;
	case FROM_GROUP:	/* the members have no communicator in common: each detects the death by itself */
		MPI_Comm_group(base, &group);
		rc = MPI_Comm_create_from_group(group, "comm_death_random", MPI_INFO_NULL, MPI_ERRORS_RETURN, &made);
		MPI_Group_free(&group);
		break;
	case CART:
		rc = MPI_Cart_create(base, 1, &all, &on, 0, &made);
		break;
	case GRAPH:
		rc = MPI_Dist_graph_create_adjacent(base, 1, &left, MPI_UNWEIGHTED, 1, &right, MPI_UNWEIGHTED, MPI_INFO_NULL, 0,
						    &made);
		break;
	default:
		return intercomm(round);
	}
	return use(rc, &made);
}

static void fail(const char *what, int rc)
{
	survivors_fail(me, what, rc);
}

static void go_on(void)
{
	MPI_Group world, living;
	MPI_Comm others;
	int rc;

	MPI_Comm_group(MPI_COMM_WORLD, &world);
	MPI_Group_excl(world, 1, &dead, &living);
	rc = MPI_Comm_create_group(base, living, 1 << 20, &others);
	if (rc)
		fail("a communicator of the living", rc);
	for (int way = 0; way < 2; way++) {
		MPI_Comm made;

		rc = way ? MPI_Comm_split(others, me % 2, 0, &made) : MPI_Comm_dup(others, &made);
		rc = use(rc, &made);
		if (rc)
			fail("more communicators of the living", rc);
	}
	MPI_Comm_free(&others);
	MPI_Group_free(&living);
	MPI_Group_free(&world);
}

int main(int argc, char **argv)
{
	int *met, way = 0, rc = 0, round = 0, provided;
	uint64_t seed;

	/* with MPI_THREAD_MULTIPLE several context-id agreements may run at a time, so one agreement may take several rounds */
	MPI_Init_thread(&argc, &argv, argc > 3 && strtoull(argv[3], NULL, 0) % 2 ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE,
			&provided);
	MPI_Comm_rank(MPI_COMM_WORLD, &me);
	MPI_Comm_size(MPI_COMM_WORLD, &all);
	if (argc != 5 || all < 2) {
		fprintf(stderr, "usage: comm_death_random DEAD MICROSECONDS SEED FILE, 2 ranks or more\n");
		MPI_Abort(MPI_COMM_WORLD, 2);
	}
	dead = atoi(argv[1]);
	single = (dead + 2) % all == dead ? (dead + 1) % all : (dead + 2) % all;
	seed = strtoull(argv[3], NULL, 0);
	quiet(MPI_COMM_WORLD);
	met = survivors_counters(argv[4]);
	MPI_Comm_dup(MPI_COMM_WORLD, &base);
	MPI_Comm_split(base, me == single, me, &part);
	MPI_Comm_split(base, me == single || me == !single ? 0 : MPI_UNDEFINED, me, &leaders);
	quiet(base);
	quiet(part);
	if (leaders != MPI_COMM_NULL)
		quiet(leaders);
	for (; round < 2 * WAYS; round++)
		if ((rc = call(round % WAYS, round)))
			fail("before the death", rc);
	survivors_count(&met[0]);
	if (!survivors_await(&met[0], all, 30, false))
		fail("not all come to the death", 0);
	if (me == dead)
		survivors_die_in(1 + atoi(argv[2]));
	for (; !rc && round < 5000000; round++) {
		way = (int)draw(&seed, WAYS);
		rc = call(way, round);
	}
	if (!survivors_told(rc))
		fail(names[way], rc);
	survivors_count(&met[1]);
	if (!survivors_await(&met[1], all - 1, 30, true))
		fail("not all have been told", 0);
	go_on();
	printf("survivor %d: told by %s\n", me, names[way]);
	fflush(stdout);
	if (leaders != MPI_COMM_NULL)
		MPI_Comm_free(&leaders);
	MPI_Comm_free(&part);
	MPI_Comm_free(&base);
	MPI_Finalize();
	return 0;
}
