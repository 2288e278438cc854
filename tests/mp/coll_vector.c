/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * v-collectives: no rank knows the lengths of all blocks. Lengths from nothing to more than an eager message, each side with a
 * type of its own; many operations outstanding, blocking ones between; in place; blocking ones in a row, on several
 * communicators. And lengths that do not match, on both sides of the limit of a mailbox cell: the receiver has the error, at
 * each start of a persistent operation, no other rank has, and no rank waits.
 *
 *     coll_vector [rounds [seed [fit|long]]]
 *
 * fit: no lengths that do not match, for which ranks may wait on the host executor
 * long: also blocks of many MiB, of which a turn of progress copies a part
 */
#include <stdbool.h>

#include "finalize.h"
#include "mpi_test.h"

#include <sched.h>
#include <unistd.h>

#define MOST 20			/* outstanding operations: more than HEDDLE_COLL_DEPTH */

static const int lengths[] = { 0, 1, 7, 8, 48, 49, 1000, 1023, 1024, 1025, 1072, 1073, 2048, 8192, 8193, 20000, 70000 };
#define LENGTHS ((int)(sizeof(lengths) / sizeof(lengths[0])))
#define LONGEST 70000

static uint64_t seed;
static bool in_a_row;		/* blocking operations, of one kind for a while, with most blocks fitting a cell */

/* Returns the length of rank `from`'s block for rank `to` in operation n: often 0, mostly short. */
static int length_of(int n, int from, int to)
{
	uint64_t x = mix(seed ^ mix((uint64_t)n << 32 ^ (uint64_t)from << 16 ^ (uint64_t)to));

	if (in_a_row)
		return x % 40 ? lengths[(x >> 16) % 9] : lengths[(x >> 16) % LENGTHS];
	return x % 4 == 0 ? 0 : lengths[x >> 8 & 1 ? x >> 16 & 7 : (x >> 16) % LENGTHS];
}

static char byte_of(int n, int from, int to, int i)
{
	return (char)mix(seed ^ (uint64_t)n * 977 ^ (uint64_t)from << 40 ^ (uint64_t)to << 50 ^ (uint64_t)i << 8);
}

/* Bytes with a hole behind each, so that the types of both sides differ in all but the signature. */
static MPI_Datatype holes;

struct op {
	char *in, *out;			/* each rank's piece at its own place of 2 * LONGEST bytes */
	int *scounts, *sdispls, *rcounts, *rdispls;
	MPI_Datatype *stypes, *rtypes;
	MPI_Request req;
	MPI_Comm comm;
	int kind, n, root;
	bool far_out, far_in;		/* with holes */
};
enum { ALLTOALLV, ALLTOALLW, ALLGATHERV, GATHERV, SCATTERV, IN_PLACE, KINDS };

#define PLACE (2 * LONGEST)

/* Returns the length of a block by the kind of operation: a block that all ranks receive has one length; with a root, only
 * blocks to or from the root have bytes. */
static int between(const struct op *o, int from, int to)
{
	if (o->kind == ALLGATHERV)
		return length_of(o->n, from, 0);
	if (o->kind == GATHERV)
		return to == o->root ? length_of(o->n, from, 0) : 0;
	if (o->kind == SCATTERV)
		return from == o->root ? length_of(o->n, 0, to) : 0;
	if (o->kind == IN_PLACE)	/* as much in both directions */
		return from < to ? length_of(o->n, from, to) : length_of(o->n, to, from);
	return length_of(o->n, from, to);
}

static void put(char *at, bool far, const struct op *o, int from, int to)
{
	int name = o->kind == ALLGATHERV ? 0 : to;

	for (int i = 0, n = between(o, from, to); i < n; i++)
		at[far ? 2 * i : i] = byte_of(o->n, from, name, i);
}

static void begin(struct op *o, int n, bool blocking)
{
	memset(o->out, 0x55, (size_t)np * PLACE);
	o->n = n;
	o->kind = (int)(mix(seed + (uint64_t)(in_a_row ? n / 12 : n)) % KINDS);
	o->root = (int)(mix(seed * 3 + (uint64_t)(in_a_row ? n / 5 : n)) % (uint64_t)np);
	o->far_out = mix(seed * 5 + (uint64_t)(n * 64 + me)) % (in_a_row ? 9 : 3) == 0;	/* by rank: each draws its own */
	o->far_in = o->kind != IN_PLACE && mix(seed * 7 + (uint64_t)(n * 64 + me)) % (in_a_row ? 9 : 3) == 0;
	for (int r = 0; r < np; r++) {
		int scale = o->kind == ALLTOALLW ? 1 : o->far_in ? 2 : 1;

		o->scounts[r] = between(o, me, r);
		o->rcounts[r] = between(o, r, me);
		o->sdispls[r] = r * PLACE / scale;
		o->rdispls[r] = r * PLACE / (o->far_out && o->kind != ALLTOALLW ? 2 : 1);
		o->stypes[r] = o->far_in ? holes : MPI_BYTE;
		o->rtypes[r] = o->far_out ? holes : MPI_BYTE;
		put(o->kind == IN_PLACE ? o->out + (size_t)r * PLACE : o->in + (size_t)r * PLACE,
		    o->kind == IN_PLACE ? o->far_out : o->far_in, o, me, r);
	}
	switch (o->kind) {
	case IN_PLACE:
		if (blocking)
			MPI_Alltoallv(MPI_IN_PLACE, NULL, NULL, MPI_DATATYPE_NULL, o->out, o->rcounts, o->rdispls, o->rtypes[0],
				      o->comm);
		else
			MPI_Ialltoallv(MPI_IN_PLACE, NULL, NULL, MPI_DATATYPE_NULL, o->out, o->rcounts, o->rdispls, o->rtypes[0],
				       o->comm, &o->req);
		break;
	case ALLTOALLV:
		if (blocking)
			MPI_Alltoallv(o->in, o->scounts, o->sdispls, o->stypes[0], o->out, o->rcounts, o->rdispls, o->rtypes[0],
				      o->comm);
		else
			MPI_Ialltoallv(o->in, o->scounts, o->sdispls, o->stypes[0], o->out, o->rcounts, o->rdispls, o->rtypes[0],
				       o->comm, &o->req);
		break;
	case ALLTOALLW:
		if (blocking)
			MPI_Alltoallw(o->in, o->scounts, o->sdispls, o->stypes, o->out, o->rcounts, o->rdispls, o->rtypes,
				      o->comm);
		else
			MPI_Ialltoallw(o->in, o->scounts, o->sdispls, o->stypes, o->out, o->rcounts, o->rdispls, o->rtypes,
				       o->comm, &o->req);
		break;
	case ALLGATHERV:
		if (blocking)
			MPI_Allgatherv(o->in, o->scounts[0], o->stypes[0], o->out, o->rcounts, o->rdispls, o->rtypes[0], o->comm);
		else
			MPI_Iallgatherv(o->in, o->scounts[0], o->stypes[0], o->out, o->rcounts, o->rdispls, o->rtypes[0],
					o->comm, &o->req);
		break;
	case GATHERV: {
		char *mine = o->in + (size_t)o->root * PLACE;

		if (blocking)
			MPI_Gatherv(mine, o->scounts[o->root], o->stypes[0], o->out, o->rcounts, o->rdispls, o->rtypes[0],
				    o->root, o->comm);
		else
			MPI_Igatherv(mine, o->scounts[o->root], o->stypes[0], o->out, o->rcounts, o->rdispls, o->rtypes[0],
				     o->root, o->comm, &o->req);
		break;
	}
	default: {
		char *mine = o->out + (size_t)o->root * PLACE;

		if (blocking)
			MPI_Scatterv(o->in, o->scounts, o->sdispls, o->stypes[0], mine, o->rcounts[o->root], o->rtypes[0],
				     o->root, o->comm);
		else
			MPI_Iscatterv(o->in, o->scounts, o->sdispls, o->stypes[0], mine, o->rcounts[o->root], o->rtypes[0],
				      o->root, o->comm, &o->req);
	}
	}
}

static void verify(const struct op *o)
{
	for (int r = 0; r < np; r++) {
		const char *at = o->out + (size_t)r * PLACE;
		int n = between(o, r, me), name = o->kind == ALLGATHERV ? 0 : me, step = o->far_out ? 2 : 1;

		for (int i = 0; i < PLACE; i++) {
			char want = i % step == 0 && i / step < n ? byte_of(o->n, r, name, i / step) : 0x55;

			if (at[i] != want)
				test_fail(__FILE__, __LINE__,
					  "seed %llu, operation %d of kind %d, %d bytes from rank %d: byte %d is wrong",
					  (unsigned long long)seed, o->n, o->kind, n, r, i);
		}
	}
}

static void make(struct op *o)
{
	memset(o, 0, sizeof(*o));
	o->in = malloc((size_t)np * PLACE);
	o->out = malloc((size_t)np * PLACE);
	o->scounts = calloc((size_t)np * 4, sizeof(int));
	o->stypes = calloc((size_t)np * 2, sizeof(MPI_Datatype));
	CHECK(o->in && o->out && o->scounts && o->stypes);
	o->sdispls = o->scounts + np;
	o->rcounts = o->sdispls + np;
	o->rdispls = o->rcounts + np;
	o->rtypes = o->stypes + np;
	o->req = MPI_REQUEST_NULL;
	o->comm = MPI_COMM_WORLD;
}

static void drop(struct op *o)
{
	free(o->in);
	free(o->out);
	free(o->scounts);
	free(o->stypes);
}

/* Several operations are outstanding, then a blocking one is called, and the waits come in any order. */
static void rounds_of(int rounds)
{
	struct op ops[MOST];
	int n = 0;

	for (int i = 0; i < MOST; i++)
		make(&ops[i]);
	for (int round = 0; round < rounds; round++) {
		int some = 1 + (int)(mix(seed * 11 + (uint64_t)round) % (MOST - 1));

		for (int i = 0; i < some; i++)
			begin(&ops[i], n++, i == some - 1);
		for (int i = 0; i < some; i++) {
			int k = (i * 7 + me) % some;

			for (; ops[k].n < 0; k = (k + 1) % some)
				;
			MPI_Wait(&ops[k].req, MPI_STATUS_IGNORE);
			verify(&ops[k]);
			ops[k].n = -1;
		}
	}
	for (int i = 0; i < MOST; i++)
		drop(&ops[i]);
}

/* Blocking operations, mostly with none outstanding on their communicator. Each rank is late at times of its own. */
static void row_of(int times)
{
	uint64_t mine = mix(seed * 13 + (uint64_t)me);
	MPI_Comm comms[3] = { MPI_COMM_WORLD };
	MPI_Request under = MPI_REQUEST_NULL;
	int64_t number = 0;
	struct op o;

	make(&o);
	MPI_Comm_dup(MPI_COMM_WORLD, &comms[1]);
	MPI_Comm_dup(MPI_COMM_WORLD, &comms[2]);
	in_a_row = true;
	for (int n = 0; n < times; n++) {
		uint64_t all = mix(seed * 17 + (uint64_t)n);

		mine = mix(mine);
		for (int y = mine % 3 ? 0 : (int)((mine >> 8) % 20); y > 0; y--)
			sched_yield();
		if (mine % 61 == 0)
			usleep(300);
		o.comm = comms[all % 8 < 6 ? 1 : all % 8 - 6 ? 2 : 0];
		if (all >> 8 & 1 && under == MPI_REQUEST_NULL && (all >> 9) % 16 == 0) {
			number = me ? 0 : n;
			MPI_Ibcast(&number, 1, MPI_INT64_T, 0, comms[1], &under);
		}
		begin(&o, n, true);
		verify(&o);
		if ((all >> 16) % 16 == 0)
			MPI_Barrier(o.comm);
		if (under != MPI_REQUEST_NULL && (all >> 24) % 4 == 0) {
			MPI_Wait(&under, MPI_STATUS_IGNORE);
			CHECK(number <= n && number > n - 1000);
		}
	}
	MPI_Wait(&under, MPI_STATUS_IGNORE);
	in_a_row = false;
	MPI_Comm_free(&comms[1]);
	MPI_Comm_free(&comms[2]);
	drop(&o);
}

/* ---- lengths that do not fit each other -------------------------------------------------------------------------------- */

static int class_of(int code)
{
	int class;

	MPI_Error_class(code, &class);
	return class;
}

enum form { BLOCKING, NONBLOCKING, PERSISTENT, FORMS };
static const char *const forms[] = { "blocking", "nonblocking", "persistent" };

/* Rank 0 sends `sent` bytes to rank 1, which expects `room`. All other blocks match and have two bytes, so that they fit
 * a cell: a persistent operation of which no block fits a cell is the host's, which waits for a block that is empty at one end
 * only. */
static void misfit(MPI_Comm comm, int sent, int room, enum form form)
{
	int *counts = calloc((size_t)np * 4, sizeof(int)), *displs = counts + np, *rcounts = displs + np, code;
	char *in = calloc((size_t)np, LONGEST), *out = calloc((size_t)np, LONGEST);
	int want = me != 1 || sent == room ? MPI_SUCCESS : sent > room ? MPI_ERR_TRUNCATE : MPI_ERR_COUNT;
	MPI_Request req;

	CHECK(counts && in && out);
	for (int r = 0; r < np; r++) {
		counts[r] = rcounts[r] = 2;
		displs[r] = r * LONGEST;
	}
	if (me == 0)
		counts[1] = sent;
	if (me == 1)
		rcounts[0] = room;
	if (form == BLOCKING) {
		code = MPI_Alltoallv(in, counts, displs, MPI_BYTE, out, rcounts, displs, MPI_BYTE, comm);
	} else if (form == PERSISTENT) {
		CHECK_EQ(MPI_Alltoallv_init(in, counts, displs, MPI_BYTE, out, rcounts, displs, MPI_BYTE, comm, MPI_INFO_NULL,
					    &req),
			 MPI_SUCCESS);
		MPI_Start(&req);
		code = MPI_Wait(&req, MPI_STATUS_IGNORE);
		MPI_Start(&req);
		if (class_of(MPI_Wait(&req, MPI_STATUS_IGNORE)) != class_of(code))
			test_fail(__FILE__, __LINE__, "%d bytes where %d are expected: not the same at the second start", sent,
				  room);
		MPI_Request_free(&req);
	} else {
		CHECK_EQ(MPI_Ialltoallv(in, counts, displs, MPI_BYTE, out, rcounts, displs, MPI_BYTE, comm, &req), MPI_SUCCESS);
		code = MPI_Wait(&req, MPI_STATUS_IGNORE);
	}
	if (class_of(code) != want)
		test_fail(__FILE__, __LINE__, "%d bytes where %d are expected, %s: error class %d, not %d", sent, room,
			  forms[form], class_of(code), want);
	free(counts);
	free(in);
	free(out);
}

/* Rank 1's block for itself is longer than its place: rank 1 alone has the error. */
static void own_misfit(MPI_Comm comm)
{
	char in[64 * 4], out[64 * 4];
	int counts[64], displs[64], rcounts[64], code;

	memset(in, me, sizeof(in));
	for (int r = 0; r < np && r < 64; r++) {
		counts[r] = rcounts[r] = 2;
		displs[r] = r * 4;
	}
	counts[me] = 4;
	for (int twice = 0; np <= 64 && twice < 2; twice++) {
		rcounts[me] = twice && me == 1 ? 2 : 4;
		memset(out, 0x55, sizeof(out));
		code = MPI_Alltoallv(in, counts, displs, MPI_BYTE, out, rcounts, displs, MPI_BYTE, comm);
		CHECK_EQ(class_of(code), twice && me == 1 ? MPI_ERR_TRUNCATE : MPI_SUCCESS);
		for (int r = 0; r < np; r++)
			CHECK(out[r * 4] == r && out[r * 4 + 2] == (r == me && rcounts[me] == 4 ? r : 0x55));
	}
}

static void misfits(void)
{
	static const int some[] = { 0, 8, 1024, 1025, 8192, 70000 };
	MPI_Comm comm;

	MPI_Comm_dup(MPI_COMM_WORLD, &comm);
	MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
	for (int i = 0; i < 8; i++)	/* the first operations of a communicator run on the host */
		MPI_Barrier(comm);
	for (int a = 0; a < 6; a++)
		for (int b = 0; b < 6; b++) {
			misfit(comm, some[a], some[b], (enum form)((a + b) % FORMS));
			misfit(comm, some[b], some[b], (enum form)(a % FORMS));
		}
	own_misfit(comm);
	MPI_Comm_free(&comm);
}

/* ---- long ones ---------------------------------------------------------------------------------------------------- */

#define BLOCK ((4 << 20) + 12345)

/* Blocks longer than a turn of progress copies; with holes at either end, or none. */
static void long_ones(void)
{
	int *counts = calloc((size_t)np * 2, sizeof(int)), *displs = counts + np;
	char *in = malloc((size_t)np * 2 * BLOCK), *out = malloc((size_t)np * 2 * BLOCK);
	MPI_Request req;

	CHECK(counts && in && out);
	for (int turn = 0; turn < 4; turn++) {
		int far_in = turn & 1, far_out = turn >> 1;

		memset(out, 0x55, (size_t)np * 2 * BLOCK);
		for (int r = 0; r < np; r++) {
			counts[r] = BLOCK;
			displs[r] = r * BLOCK;
			for (int i = 0; i < BLOCK; i++)
				in[(size_t)(far_in ? 2 : 1) * ((size_t)r * BLOCK + (size_t)i)] = byte_of(turn, me, r, i);
		}
		MPI_Ialltoallv(in, counts, displs, far_in ? holes : MPI_BYTE, out, counts, displs, far_out ? holes : MPI_BYTE,
			       MPI_COMM_WORLD, &req);
		MPI_Wait(&req, MPI_STATUS_IGNORE);
		for (int r = 0; r < np; r++)
			for (int i = 0; i < BLOCK; i++)
				if (out[(size_t)(far_out ? 2 : 1) * ((size_t)r * BLOCK + (size_t)i)] != byte_of(turn, r, me, i))
					test_fail(__FILE__, __LINE__, "a long piece from rank %d: byte %d is wrong", r, i);
	}
	free(counts);
	free(in);
	free(out);
}

#define EDGES 2050		/* between two ranks: more than a message's tag tells apart */

/* More edges between two neighbors than messages of one collective have numbers. */
static void edges(void)
{
	int *ranks = malloc(EDGES * 4 * sizeof(int)), *sources = ranks + EDGES, *in = sources + EDGES, *out = in + EDGES;
	MPI_Request req;
	MPI_Comm comm;

	CHECK(ranks);
	for (int i = 0; i < EDGES; i++) {
		ranks[i] = (me + 1) % np;
		sources[i] = (me + np - 1) % np;
		in[i] = me * EDGES + i;
		out[i] = -1;
	}
	CHECK_EQ(MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, EDGES, sources, MPI_UNWEIGHTED, EDGES, ranks, MPI_UNWEIGHTED,
						MPI_INFO_NULL, 0, &comm), MPI_SUCCESS);
	CHECK_EQ(MPI_Ineighbor_alltoall(in, 1, MPI_INT, out, 1, MPI_INT, comm, &req), MPI_SUCCESS);
	CHECK_EQ(MPI_Wait(&req, MPI_STATUS_IGNORE), MPI_SUCCESS);
	for (int i = 0; i < EDGES; i++)
		CHECK_EQ(out[i], sources[i] * EDGES + i);
	MPI_Comm_free(&comm);
	free(ranks);
}

int main(int argc, char **argv)
{
	MPI_Datatype one;
	int rounds = argc > 1 ? atoi(argv[1]) : 12;

	test_init(&argc, &argv);
	seed = argc > 2 ? strtoull(argv[2], NULL, 0) : 1;
	MPI_Type_create_resized(MPI_BYTE, 0, 2, &one);
	MPI_Type_dup(one, &holes);
	MPI_Type_commit(&holes);
	MPI_Type_free(&one);
	rounds_of(rounds);
	row_of(300);
	if (np > 1 && argc < 4)
		misfits();
	if (argc > 3 && !strcmp(argv[3], "long"))
		long_ones();
	if (np > 1)
		edges();
	MPI_Type_free(&holes);
	MPI_Barrier(MPI_COMM_WORLD);
	if (!me)
		printf("coll_vector: passed, %d ranks, seed %llu\n", np, (unsigned long long)seed);
	MPI_Comm_free(&sync_comm);
	finalize_quietly("coll_vector", me);
	return 0;
}
