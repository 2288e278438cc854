/* SPDX-License-Identifier: BSD-3-Clause */
/* Collectives of intercommunicators (section 6.2.3), persistent ones (6.13), those of neighbors (8.6), and
 * counts that do not match. */
#include "standard.h"

#define WORLD	MPI_COMM_WORLD
#define MAX	8

/* ---- 6.2.3: intercommunicators --------------------------------------------------------------------------------- */

/* Returns an intercommunicator of the ranks below `first` and the ranks from `first` on. *mine: this process
 * is in the first group. */
static MPI_Comm two_groups(int first, int *mine, int *rank, int *n, int *others)
{
	MPI_Comm own, inter;

	*mine = me < first;
	MPI_Comm_split(WORLD, *mine, me, &own);
	MPI_Intercomm_create(own, 0, WORLD, *mine ? first : 0, 1, &inter);
	MPI_Comm_rank(own, rank);
	MPI_Comm_size(own, n);
	MPI_Comm_remote_size(inter, others);
	MPI_Comm_free(&own);
	return inter;
}

/* Each group receives the remote group's data. In rooted operations data flow one way, and the other ranks of the
 * root's group take no part. */
static void between_groups(void)
{
	for (int first = 1; first < np; first++) {
		int mine, r, n, others, v, w, all[MAX], sum, root;
		MPI_Comm c = two_groups(first, &mine, &r, &n, &others);
		MPI_Request q;

		v = mine ? 10 + r : 100 + r;
		MPI_Allgather(&v, 1, MPI_INT, all, 1, MPI_INT, c);
		for (int i = 0; i < others; i++)
			CHECK_EQ(all[i], (mine ? 100 : 10) + i);
		MPI_Iallreduce(&v, &sum, 1, MPI_INT, MPI_SUM, c, &q);
		MPI_Wait(&q, MPI_STATUS_IGNORE);
		CHECK_EQ(sum, (mine ? 100 : 10) * others + others * (others - 1) / 2);
		/* the last of the first group is the root */
		root = !mine ? first - 1 : r == first - 1 ? MPI_ROOT : MPI_PROC_NULL;
		w = mine ? v : -1;
		MPI_Bcast(&w, 1, MPI_INT, root, c);
		CHECK_EQ(w, mine ? v : 10 + first - 1);
		sum = -1;
		MPI_Reduce(&v, &sum, 1, MPI_INT, MPI_MAX, root, c);
		CHECK_EQ(sum, root == MPI_ROOT ? 100 + others - 1 : -1);
		memset(all, 0xff, sizeof(all));
		MPI_Gather(&v, 1, MPI_INT, all, 1, MPI_INT, root, c);
		for (int i = 0; i < MAX; i++)
			CHECK_EQ(all[i], root == MPI_ROOT && i < others ? 100 + i : -1);
		MPI_Barrier(c);
		/* section 6.2.3: in place is not allowed, and there is no Scan */
		MPI_Comm_set_errhandler(c, MPI_ERRORS_RETURN);
		CHECK_EQ(class_of(MPI_Allreduce(MPI_IN_PLACE, &v, 1, MPI_INT, MPI_SUM, c)), MPI_ERR_BUFFER);
		CHECK_EQ(class_of(MPI_Bcast(&v, 1, MPI_INT, others, c)), MPI_ERR_ROOT);
		CHECK_EQ(class_of(MPI_Scan(&v, &w, 1, MPI_INT, MPI_SUM, c)), MPI_ERR_COMM);
		MPI_Comm_free(&c);
	}
}

/* No rank returns from the barrier before all ranks of both groups have called it. */
static void barrier_between(void)
{
	int mine, r, n, others, late = 0;
	MPI_Comm c = two_groups(np / 2, &mine, &r, &n, &others);

	for (int who = 0; who < np; who++) {
		int token = 0;

		/* rank `who` sends a message to each rank before entering the barrier: behind the barrier, each rank must have
		 * that message */
		if (me == who)
			for (int i = 0; i < np; i++)
				if (i != me)
					MPI_Send(&who, 1, MPI_INT, i, 9, sync_comm);
		MPI_Barrier(c);
		if (me != who) {
			MPI_Iprobe(who, 9, sync_comm, &late, MPI_STATUS_IGNORE);
			MPI_Recv(&token, 1, MPI_INT, who, 9, sync_comm, MPI_STATUS_IGNORE);
			CHECK_EQ(token, who);
		}
	}
	MPI_Comm_free(&c);
}

/* ---- 6.13: persistent ------------------------------------------------------------------------------------------- */

/* A persistent request is inactive until the start, and again after completion; each start reads the buffers as they are then. */
static void starts(void)
{
	int v[3] = { 0 }, sum[3], all[MAX], flag;
	MPI_Request q[3];
	MPI_Status s;

	MPI_Allreduce_init(v, sum, 3, MPI_INT, MPI_SUM, WORLD, MPI_INFO_NULL, &q[0]);
	MPI_Allgather_init(v, 1, MPI_INT, all, 1, MPI_INT, WORLD, MPI_INFO_NULL, &q[1]);
	MPI_Barrier_init(WORLD, MPI_INFO_NULL, &q[2]);
	MPI_Wait(&q[0], &s);
	CHECK(is_empty(&s));
	for (int round = 0; round < 50; round++) {
		for (int i = 0; i < 3; i++)
			v[i] = me + round * i;
		if (round % 2) {
			MPI_Startall(3, q);
		} else {
			for (int i = 0; i < 3; i++)
				MPI_Start(&q[i]);
		}
		if (round == 7) {
			/* the request is active, or done and not completed by a wait */
			FAILS(MPI_Start(&q[1]), MPI_ERR_REQUEST);
			FAILS(MPI_Cancel(&q[1]), MPI_ERR_REQUEST);
		}
		MPI_Request_get_status(q[1], &flag, &s);
		MPI_Waitall(3, q, MPI_STATUSES_IGNORE);
		for (int i = 0; i < 3; i++) {
			CHECK(q[i] != MPI_REQUEST_NULL);
			CHECK_EQ(sum[i], np * (np - 1) / 2 + np * round * i);
		}
		for (int i = 0; i < np; i++)
			CHECK_EQ(all[i], i);
		MPI_Test(&q[1], &flag, &s);
		CHECK(flag && is_empty(&s));
	}
	FAILS(MPI_Cancel(&q[1]), MPI_ERR_REQUEST);
	for (int i = 0; i < 3; i++) {
		MPI_Request_free(&q[i]);
		CHECK(q[i] == MPI_REQUEST_NULL);
	}
	FAILS(MPI_Bcast_init(v, 1, MPI_INT, 0, WORLD, MPI_INFO_NULL, NULL), MPI_ERR_ARG);
	FAILS(MPI_Bcast_init(v, 1, MPI_INT, np, WORLD, MPI_INFO_NULL, &q[0]), MPI_ERR_ROOT);
}

/* Persistent collectives and messages in one MPI_Startall and MPI_Waitall, and started while nonblocking ones are under way. */
static void mixed(void)
{
	int v = me, w = -1, sum = 0, prefix = 0, right = (me + 1) % np, left = (me + np - 1) % np;
	MPI_Request q[5];

	MPI_Recv_init(&w, 1, MPI_INT, left, 3, WORLD, &q[0]);
	MPI_Reduce_init(&v, &sum, 1, MPI_INT, MPI_SUM, np - 1, WORLD, MPI_INFO_NULL, &q[1]);
	MPI_Send_init(&v, 1, MPI_INT, right, 3, WORLD, &q[2]);
	MPI_Scan_init(&v, &prefix, 1, MPI_INT, MPI_SUM, WORLD, MPI_INFO_NULL, &q[3]);
	for (int round = 0; round < 20; round++) {
		v = me + round;
		MPI_Ibarrier(WORLD, &q[4]);
		MPI_Startall(4, q);
		MPI_Waitall(5, q, MPI_STATUSES_IGNORE);
		CHECK_EQ(w, left + round);
		CHECK(me != np - 1 || sum == np * (np - 1) / 2 + np * round);
		CHECK_EQ(prefix, me * (me + 1) / 2 + (me + 1) * round);
		CHECK(q[4] == MPI_REQUEST_NULL);
	}
	for (int i = 0; i < 4; i++)
		MPI_Request_free(&q[i]);
}

/* Scratch memory that is freed or cached after each start. */
static void large_scratch(void)
{
	enum { N = 1 << 20 };
	double *v = calloc(N, sizeof(*v)), *all = malloc(sizeof(*all) * N), *w = malloc(sizeof(*w) * N),
	       *other = malloc(sizeof(*other) * N);
	MPI_Request q, beside;

	MPI_Reduce_scatter_block_init(v, all, N / np, MPI_DOUBLE, MPI_SUM, WORLD, MPI_INFO_NULL, &q);
	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < N; i++)
			v[i] = w[i] = me + i % 1000 + round;
		for (int i = 0; i < N; i++)
			w[i] += 5000;
		/* if the scratch memory had been given back, the other operation would overwrite that memory */
		MPI_Ireduce_scatter_block(w, other, N / np, MPI_DOUBLE, MPI_SUM, WORLD, &beside);
		MPI_Start(&q);
		MPI_Wait(&q, MPI_STATUS_IGNORE);
		MPI_Wait(&beside, MPI_STATUS_IGNORE);
		for (int i = 0; i < N / np; i++)
			CHECK(other[i] == all[i] + np * 5000. &&
			      all[i] == np * (np - 1) / 2 + np * ((me * (N / np) + i) % 1000 + round));
	}
	MPI_Request_free(&q);
	free(v);
	free(all);
	free(w);
	free(other);
}

static int freed_calls;

static void adds(void *in, void *inout, int *n, MPI_Datatype *type)
{
	(void)type;
	freed_calls++;
	for (int i = 0; i < *n; i++)
		((int *)inout)[2 * i] += ((int *)in)[2 * i];
}

/* Type, operation, communicator and info of a persistent request may be freed before the start. */
static void made_of_freed(void)
{
	int in[4] = { me, -1, 2 * me, -1 }, out[4] = { -1, -1, -1, -1 }, a[2 * MAX] = { 0 }, b[2 * MAX];
	MPI_Datatype spread;
	MPI_Request q[3];
	MPI_Info info;
	MPI_Comm c;
	MPI_Op op;

	MPI_Comm_dup(WORLD, &c);
	MPI_Info_create(&info);
	MPI_Op_create(adds, 1, &op);
	MPI_Type_create_resized(MPI_INT, 0, 2 * sizeof(int), &spread);
	MPI_Type_commit(&spread);
	MPI_Allreduce_init(in, out, 2, spread, op, c, info, &q[0]);
	MPI_Alltoall_init(a, 1, spread, b, 1, spread, c, info, &q[1]);
	MPI_Bcast_init(out, 1, spread, 0, c, info, &q[2]);
	MPI_Type_free(&spread);
	MPI_Info_free(&info);
	MPI_Op_free(&op);
	MPI_Comm_free(&c);
	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < np; i++) {
			a[2 * i] = me * 100 + i + round;
			b[2 * i] = b[2 * i + 1] = -1;
		}
		MPI_Start(&q[0]);
		MPI_Wait(&q[0], MPI_STATUS_IGNORE);
		CHECK_EQ(out[0], np * (np - 1) / 2);
		CHECK_EQ(out[2], np * (np - 1));
		CHECK_EQ(out[1], -1);
		out[0] = me ? -1 : 55 + round;
		MPI_Startall(2, q + 1);
		MPI_Waitall(2, q + 1, MPI_STATUSES_IGNORE);
		CHECK_EQ(out[0], 55 + round);
		for (int i = 0; i < np; i++) {
			CHECK_EQ(b[2 * i], i * 100 + me + round);
			CHECK_EQ(b[2 * i + 1], -1);
		}
	}
	for (int i = 0; i < 3; i++)
		MPI_Request_free(&q[i]);
	CHECK(np == 1 || me || freed_calls);
}

/* A request that is freed while active goes on: the other ranks need this rank's part. */
static void freed_while_active(void)
{
	static int v[1000], sum[1000], w[1000];

	for (int round = 0; round < 10; round++) {
		MPI_Request q[2];

		for (int i = 0; i < 1000; i++)
			v[i] = w[i] = me == 0 ? i + round : 0;
		MPI_Allreduce_init(v, sum, 1000, MPI_INT, MPI_SUM, WORLD, MPI_INFO_NULL, &q[0]);
		MPI_Bcast_init(w, 1000, MPI_INT, 0, WORLD, MPI_INFO_NULL, &q[1]);
		MPI_Startall(2, q);
		MPI_Request_free(&q[0]);
		MPI_Request_free(&q[1]);
		MPI_Barrier(WORLD);	/* the barrier does not imply that the freed ones are complete */
		while (sum[999] != 999 + round || w[999] != 999 + round)
			MPI_Iprobe(MPI_ANY_SOURCE, 4, WORLD, &(int){ 0 }, MPI_STATUS_IGNORE);
		meet(sync_comm);
		for (int i = 0; i < 1000; i++)
			CHECK_EQ(sum[i], i + round);
		meet(sync_comm);
	}
}

/* ---- 8.6: neighbors ----------------------------------------------------------------------------------------------- */

/* On a ring: a rank sends down and receives from above, also where both neighbors are one process, or the rank itself. */
static void ring(void)
{
	int dims = np, periods = 1, in[2] = { me * 10, me * 10 + 1 }, out[2] = { -1, -1 }, all[2] = { -1, -1 };
	int below = (me + np - 1) % np, above = (me + 1) % np;
	MPI_Comm c;

	MPI_Cart_create(WORLD, 1, &dims, &periods, 0, &c);
	MPI_Neighbor_alltoall(in, 1, MPI_INT, out, 1, MPI_INT, c);
	CHECK_EQ(out[0], below * 10 + 1);
	CHECK_EQ(out[1], above * 10);
	MPI_Neighbor_allgather(&me, 1, MPI_INT, all, 1, MPI_INT, c);
	CHECK_EQ(all[0], below);
	CHECK_EQ(all[1], above);
	MPI_Comm_free(&c);
}

/* At the ends of a line the neighbor is MPI_PROC_NULL: that neighbor's block of the receive buffer stays unchanged, and keeps its
 * place. */
static void border(void)
{
	int dims = np, periods = 0, in[2] = { me * 10, me * 10 + 1 }, out[2] = { -1, -1 };
	MPI_Request q;
	MPI_Comm c;

	MPI_Cart_create(WORLD, 1, &dims, &periods, 0, &c);
	MPI_Ineighbor_alltoall(in, 1, MPI_INT, out, 1, MPI_INT, c, &q);
	MPI_Wait(&q, MPI_STATUS_IGNORE);
	CHECK_EQ(out[0], me ? (me - 1) * 10 + 1 : -1);
	CHECK_EQ(out[1], me < np - 1 ? (me + 1) * 10 : -1);
	MPI_Comm_free(&c);
	FAILS(MPI_Neighbor_alltoall(in, 1, MPI_INT, out, 1, MPI_INT, WORLD), MPI_ERR_TOPOLOGY);
}

/* Two edges from each rank to rank 0: their blocks keep the order of the edges. Each edge has a separate count and type. */
static void parallel_edges(void)
{
	int sources[2 * MAX], zero[2] = { 0, 0 }, counts[2 * MAX], n = me ? 0 : 2 * np, ok[2] = { 1, 1 };
	double in[2] = { me + 0.25, me + 0.5 }, out[2 * MAX];
	MPI_Aint at[2 * MAX], from[2] = { 0, sizeof(double) };
	MPI_Datatype types[2 * MAX];
	MPI_Request q;
	MPI_Comm c;

	for (int i = 0; i < 2 * np; i++) {
		sources[i] = i / 2;
		counts[i] = 1;
		types[i] = MPI_DOUBLE;
		at[i] = (MPI_Aint)sizeof(double) * (2 * np - 1 - i);
	}
	MPI_Dist_graph_create_adjacent(WORLD, n, sources, MPI_UNWEIGHTED, 2, zero, MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &c);
	MPI_Neighbor_alltoallw_init(in, ok, from, types, out, counts, at, types, c, MPI_INFO_NULL, &q);
	for (int round = 0; round < 3; round++) {
		memset(out, 0, sizeof(out));
		in[1] = me + 0.5 + round;
		MPI_Start(&q);
		MPI_Wait(&q, MPI_STATUS_IGNORE);
		for (int i = 0; i < n; i++)
			CHECK(out[2 * np - 1 - i] == i / 2 + (i % 2 ? 0.5 + round : 0.25));
	}
	MPI_Request_free(&q);
	MPI_Comm_free(&c);
}

/* ---- counts that do not match: an error, and no rank waits for ever ---------------------------------------------------- */

static int failed(int rc)
{
	int class = class_of(rc);

	CHECK(!rc || class == MPI_ERR_COUNT || class == MPI_ERR_TRUNCATE);
	return rc != MPI_SUCCESS;
}

/* A rank that receives a block of an unexpected length has an error, and so have the ranks to which that rank would have sent. */
static void lengths(void)
{
	static int a[8 * MAX * 100], b[8 * MAX * 100];
	int counts[MAX], at[MAX], n = me == 1 ? 3 : 4;
	MPI_Comm c;

	MPI_Comm_dup(WORLD, &c);
	MPI_Comm_set_errhandler(c, MPI_ERRORS_RETURN);
	for (int i = 0; i < np; i++) {
		counts[i] = 4;
		at[i] = 4 * i;
	}
	CHECK_EQ(failed(MPI_Gather(a, n, MPI_INT, b, 4, MPI_INT, 0, c)), !me);
	meet(sync_comm);
	CHECK_EQ(failed(MPI_Gatherv(a, n + 2 * (me == 1), MPI_INT, b, counts, at, MPI_INT, 0, c)), !me);
	meet(sync_comm);
	CHECK_EQ(failed(MPI_Scatter(a, 4, MPI_INT, b, n, MPI_INT, 0, c)), me == 1);
	meet(sync_comm);
	CHECK_EQ(failed(MPI_Allgatherv(a, n, MPI_INT, b, counts, at, MPI_INT, c)), 1);
	meet(sync_comm);
	/* the ranks below rank 1 in the tree get an error; the other ranks cannot know of the mismatch */
	int bad = 0, all = 3000;	/* more bytes than a mailbox cell takes, which has no length */
	for (int who = 1; who < np; who++) {
		for (int i = 0; i < all; i++)
			a[i] = me ? -1 : i;
		bad = failed(MPI_Bcast(a, me == who ? all - 1 : all, MPI_INT, 0, c));
		CHECK(me != who || bad);
		CHECK(me || !bad);
		for (int i = 0; i < all; i++)
			CHECK(bad || a[i] == i);
		meet(sync_comm);
	}
	bad = failed(MPI_Reduce(a, b, 1000 * n, MPI_INT, MPI_SUM, 0, c));
	CHECK(me || bad);
	meet(sync_comm);
	MPI_Request q;
	MPI_Iallgather(a, n, MPI_INT, b, n, MPI_INT, c, &q);
	bad = failed(MPI_Wait(&q, MPI_STATUS_IGNORE));
	CHECK(me != 1 || bad);
	meet(sync_comm);
	/* afterwards collectives work again */
	int sum = 0;
	CHECK_EQ(MPI_Allreduce(&me, &sum, 1, MPI_INT, MPI_SUM, c), MPI_SUCCESS);
	CHECK_EQ(sum, np * (np - 1) / 2);
	MPI_Comm_free(&c);
}

static const struct standard_case cases[] = {
	{ "6.2.3", "between_groups", 2, between_groups },
	{ "6.2.3", "barrier_between", 2, barrier_between },
	{ "6.13", "starts", 1, starts },
	{ "6.13", "mixed", 1, mixed },
	{ "6.13", "large_scratch", 1, large_scratch },
	{ "6.13", "made_of_freed", 1, made_of_freed },
	{ "6.13", "freed_while_active", 1, freed_while_active },
	{ "8.6", "ring", 1, ring },
	{ "8.6", "border", 1, border },
	{ "8.6", "parallel_edges", 1, parallel_edges },
	{ "6.1", "lengths", 2, lengths },
};

int main(int argc, char **argv)
{
	test_init(&argc, &argv);
	standard_run(cases, sizeof(cases) / sizeof(*cases), argc, argv);
	test_done("forms");
	return 0;
}
