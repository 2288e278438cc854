/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * With HEDDLE_CHECK=1: collectives that the ranks call with different arguments fail on all ranks, whether or not a rank would
 * notice the difference without the check, with a text that names the odd rank; and the communicator can be used as before.
 *
 *     coll_check [lengths]     lengths: without HEDDLE_CHECK, on mailbox: the differences that ranks notice without the check
 *     coll_check moved         the same on tasks, of every collective that runs as tasks
 */
#include "standard.h"

#include <stdbool.h>

static int odd;			/* the rank with different arguments */
static MPI_Comm comm;

/* Fails unless rc has this class and a text that names the odd rank, in MPI_COMM_WORLD. Of an intercommunicator: at both
 * groups. */
static void expect(int rc, int class, const char *what)
{
	char text[MPI_MAX_ERROR_STRING], of_0[MPI_MAX_ERROR_STRING], name[32];
	int n, sum = 0;

	MPI_Error_string(rc, text, &n);
	if (class_of(rc) != class)
		test_fail(__FILE__, __LINE__, "%s, odd %d: class %d, not %d: %s", what, odd, class_of(rc), class, text);
	snprintf(name, sizeof(name), "rank %d calls ", odd);
	if (!strstr(text, "HEDDLE_CHECK: ") || !strstr(text, name) || !strstr(text, what))
		test_fail(__FILE__, __LINE__, "odd %d: the text does not say '%s' and '%s': %s", odd, name, what, text);
	memcpy(of_0, text, sizeof(text));
	CHECK_EQ(MPI_Bcast(of_0, sizeof(of_0), MPI_CHAR, 0, MPI_COMM_WORLD), MPI_SUCCESS);
	if (!strstr(of_0, strstr(text, "HEDDLE_CHECK: ")))
		test_fail(__FILE__, __LINE__, "odd %d: another text than on rank 0: %s; %s", odd, text, of_0);
	CHECK_EQ(MPI_Allreduce(&me, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD), MPI_SUCCESS);
	CHECK_EQ(sum, np * (np - 1) / 2);
	CHECK_EQ(MPI_Barrier(comm), MPI_SUCCESS);
}

static int waited(int rc, MPI_Request *q)
{
	CHECK_EQ(rc, MPI_SUCCESS);
	return MPI_Wait(q, MPI_STATUS_IGNORE);
}

static void nothing(void *in, void *inout, int *n, MPI_Datatype *type)
{
	(void)in;
	(void)inout;
	(void)n;
	(void)type;
}

/* Two edges to the next rank, of one element and of two: the odd one receives them the other way round. */
static void two_edges(void)
{
	int next[2] = { (me + 1) % np, (me + 1) % np }, before[2] = { (me + np - 1) % np, (me + np - 1) % np };
	int a[3] = {0}, b[3], is = me == odd, out[2] = {1, 2}, in[2] = {1 + is, 2 - is}, at[2] = {0, 1}, in_at[2] = {0, 1 + is};
	MPI_Comm c;

	MPI_Dist_graph_create_adjacent(comm, 2, before, MPI_UNWEIGHTED, 2, next, MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &c);
	MPI_Comm_set_errhandler(c, MPI_ERRORS_RETURN);
	expect(MPI_Neighbor_alltoallv(a, out, at, MPI_INT, b, in, in_at, MPI_INT, c), MPI_ERR_TYPE, "data sent and received");
	MPI_Comm_free(&c);
}

static void mismatches(void)
{
	static int a[4096], b[4096];
	int counts[64], at[64], is = me == odd, one = is ? 3 : 4;
	MPI_Request q;
	MPI_Op op;

	for (int i = 0; i < np; i++) {
		counts[i] = 4;
		at[i] = 4 * i;
	}
	expect(is ? MPI_Bcast(a, 1, MPI_INT, 0, comm) : MPI_Barrier(comm), MPI_ERR_OTHER, "the collective differs");
	expect(is ? MPI_Gatherv(a, 4, MPI_INT, b, counts, at, MPI_INT, 0, comm) :
		    MPI_Gather(a, 4, MPI_INT, b, 4, MPI_INT, 0, comm),
	       MPI_ERR_OTHER, "the collective differs");
	expect(is ? MPI_Scatterv(a, counts, at, MPI_INT, b, 4, MPI_INT, 0, comm) :
		    MPI_Scatter(a, 4, MPI_INT, b, 4, MPI_INT, 0, comm),
	       MPI_ERR_OTHER, "the collective differs");
	expect(is ? MPI_Allgatherv(a, 4, MPI_INT, b, counts, at, MPI_INT, comm) :
		    MPI_Alltoallv(a, counts, at, MPI_INT, b, counts, at, MPI_INT, comm), MPI_ERR_OTHER, "the collective differs");
	expect(MPI_Bcast(a, 1, MPI_INT, is ? 1 : 0, comm), MPI_ERR_ROOT, "the root differs");
	expect(MPI_Reduce(a, b, 1, MPI_INT, is ? MPI_MAX : MPI_SUM, 0, comm), MPI_ERR_OP, "the operation differs");
	expect(MPI_Allreduce(a, b, one, MPI_INT, MPI_SUM, comm), MPI_ERR_COUNT, "the count or the type signature differs");
	expect(MPI_Bcast(a, 2, is ? MPI_FLOAT : MPI_INT, 0, comm), MPI_ERR_TYPE, "the count or the type signature differs");
	expect(MPI_Bcast(a, is ? 0 : 2, MPI_INT, 0, comm), MPI_ERR_COUNT, "the count or the type signature differs");
	expect(waited(MPI_Iscan(a, b, one, MPI_INT, MPI_SUM, comm, &q), &q), MPI_ERR_COUNT, "the count or");
	expect(MPI_Allgather(a, one, MPI_INT, b, one, MPI_INT, comm), MPI_ERR_COUNT, "data sent and received");
	counts[1] = is && !me ? 3 : 4;	/* the root is the odd one */
	expect(MPI_Gatherv(a, me ? one : 4, MPI_INT, b, counts, at, MPI_INT, 0, comm), MPI_ERR_COUNT, "data sent and received");
	counts[1] = 4;
	counts[(odd + 1) % np] = is ? 0 : 4;	/* nothing is sent at all */
	expect(waited(MPI_Ialltoallv(a, counts, at, MPI_INT, b, counts, at, MPI_INT, comm, &q), &q), MPI_ERR_COUNT,
	       "data sent and received");
	counts[(odd + 1) % np] = 4;
	counts[0] = 4 + is;
	expect(MPI_Reduce_scatter(a, b, counts, MPI_INT, MPI_SUM, comm), MPI_ERR_COUNT, "the count or");
	counts[1] = 4 - is;	/* as many in all */
	expect(MPI_Reduce_scatter(a, b, counts, MPI_INT, MPI_SUM, comm), MPI_ERR_TYPE, "the count or");
	expect(MPI_Alltoall_init(a, one, MPI_INT, b, one, MPI_INT, comm, MPI_INFO_NULL, &q), MPI_ERR_COUNT,
	       "data sent and received");
	expect(is ? MPI_Bcast_init(a, 1, MPI_INT, 0, comm, MPI_INFO_NULL, &q) : MPI_Barrier_init(comm, MPI_INFO_NULL, &q),
	       MPI_ERR_OTHER, "the collective differs");
	expect(is ? MPI_Barrier_init(comm, MPI_INFO_NULL, &q) : waited(MPI_Ibarrier(comm, &q), &q), MPI_ERR_OTHER, "the form");
	expect(is ? MPI_Scan(a, b, 1, MPI_INT, MPI_SUM, comm) : MPI_Scan_init(a, b, 1, MPI_INT, MPI_SUM, comm, MPI_INFO_NULL, &q),
	       MPI_ERR_OTHER, "the form");
	expect(is ? MPI_Barrier(comm) : waited(MPI_Ibarrier(comm, &q), &q), MPI_ERR_OTHER, "the form");
	two_edges();
	MPI_Op_create(nothing, 1, &op);
	expect(MPI_Allreduce(a, b, 1, MPI_INT, is ? op : MPI_SUM, comm), MPI_ERR_OP, "the operation differs");
	MPI_Op_free(&op);
}

/* Correct calls succeed: signatures are compared, not counts and types. */
static void matches(void)
{
	int v[4] = { me, me, me, me }, w[4], root = np - 1;
	MPI_Datatype two;

	MPI_Type_contiguous(2, MPI_INT, &two);
	MPI_Type_commit(&two);
	CHECK_EQ(MPI_Bcast(v, me % 2 ? 4 : 2, me % 2 ? MPI_INT : two, root, comm), MPI_SUCCESS);
	CHECK_EQ(v[3], root);
	CHECK_EQ(MPI_Allreduce(v, w, 4, me % 2 ? MPI_INT : MPI_INT32_T, MPI_SUM, comm), MPI_SUCCESS);
	CHECK_EQ(w[3], np * root);
	CHECK_EQ(MPI_Bcast(v, 0, me % 2 ? MPI_INT : MPI_DOUBLE, root, comm), MPI_SUCCESS);
	MPI_Type_free(&two);
}

static void between_groups(void)
{
	int first = np / 2, mine = me < first, v = me, w[64], rank;
	MPI_Comm own, c;

	MPI_Comm_split(MPI_COMM_WORLD, mine, me, &own);
	MPI_Intercomm_create(own, 0, MPI_COMM_WORLD, mine ? first : 0, 5, &c);
	MPI_Comm_rank(own, &rank);
	MPI_Comm_set_errhandler(c, MPI_ERRORS_RETURN);
	expect(MPI_Allgather(&v, me == odd ? 0 : 1, MPI_INT, w, 1, MPI_INT, c), MPI_ERR_COUNT, "data sent and received");
	CHECK_EQ(MPI_Bcast(&v, 1, MPI_INT, !mine ? 0 : rank ? MPI_PROC_NULL : MPI_ROOT, c), MPI_SUCCESS);
	CHECK_EQ(v, mine ? me : 0);
	MPI_Comm_free(&c);
	MPI_Comm_free(&own);
}

static bool is_length(int rc)
{
	return class_of(rc) == MPI_ERR_COUNT || class_of(rc) == MPI_ERR_TRUNCATE;
}

/* Collectives with a result that depends on every rank's input: a rank with the result has the error. */
static void of_one(int n)
{
	int a[64] = { 0 }, b[128], root = (odd + 1) % np, rc;

	rc = MPI_Gather(a, n, MPI_INT, b, n, MPI_INT, root, comm);
	CHECK_EQ(is_length(rc), me == root);
	rc = MPI_Reduce(a, b, n, MPI_INT, MPI_SUM, root, comm);
	CHECK_EQ(is_length(rc), me == root);
	if (np <= 32)
		CHECK(is_length(MPI_Reduce_scatter_block(a, b, n, MPI_INT, MPI_SUM, comm)));
	CHECK_EQ(MPI_Barrier(comm), MPI_SUCCESS);
}

/* A Gather of blocks that are written into the root's buffer, where ranks have a CPU each, or of this length anywhere. The writer
 * finds the length to differ, and the root has the error. */
static void gather_written(void)
{
	enum { N = 192 << 10 };
	int root = (odd + 1) % np, *a = calloc(N, sizeof(*a)), *b = calloc((size_t)N * (size_t)np, sizeof(*b)), rc;

	CHECK(a && b);
	rc = MPI_Gather(a, me == odd ? N - 1 : N, MPI_INT, b, N, MPI_INT, root, comm);
	CHECK_EQ(is_length(rc), me == root);
	CHECK_EQ(MPI_Barrier(comm), MPI_SUCCESS);
	free(a);
	free(b);
}

/* Cells carry their length. Several times: the first runs of a collective, and the immediate ones. */
static void lengths(void)
{
	int a[2] = { me, me }, b[2], is = me == odd;
	MPI_Request q;

	for (int i = 0; i < 6; i++) {
		CHECK_EQ(class_of(MPI_Allreduce(a, b, is ? 1 : 2, MPI_INT, MPI_SUM, comm)),
			 is ? MPI_ERR_TRUNCATE : MPI_ERR_COUNT);
		CHECK_EQ(class_of(waited(MPI_Iallreduce(a, b, is ? 1 : 2, MPI_INT, MPI_SUM, comm, &q), &q)),
			 is ? MPI_ERR_TRUNCATE : MPI_ERR_COUNT);
		CHECK_EQ(MPI_Allreduce(a, b, 2, MPI_INT, MPI_SUM, comm), MPI_SUCCESS);
		CHECK_EQ(b[1], np * (np - 1) / 2);
		CHECK_EQ(class_of(MPI_Bcast(a, is ? 2 : 1, MPI_INT, (odd + 1) % np, comm)), is ? MPI_ERR_COUNT : MPI_SUCCESS);
		a[0] = a[1] = me;
		CHECK_EQ(MPI_Barrier(comm), MPI_SUCCESS);
		of_one(is ? 1 : 2);
	}
	gather_written();
}

/* Data of the odd rank, also through other ranks, are shorter (2 elements for 3) or longer (4). */
static void moved(int theirs)
{
	enum { ALLGATHER, ALLTOALL, GATHER, SCATTER, BCAST, ALLREDUCE, REDUCE, REDUCE_SCATTER, COLLS };
	int a[4 * 64], b[4 * 64], is = me == odd, n = is ? theirs : 3, root = (odd + 1) % np;
	MPI_Request q;

	for (int c = 0; c < 3 * COLLS; c++) {
		/* whether this rank gets anything of another length */
		bool wrong = true;
		int rc;

		for (int i = 0; i < 4 * np; i++)
			a[i] = me, b[i] = -1;
		switch (c % COLLS) {
		case ALLGATHER:
			rc = waited(MPI_Iallgather(a, n, MPI_INT, b, n, MPI_INT, comm, &q), &q);
			break;
		case ALLTOALL:
			rc = waited(MPI_Ialltoall(a, n, MPI_INT, b, n, MPI_INT, comm, &q), &q);
			break;
		case GATHER:
			wrong = me == root;
			rc = waited(MPI_Igather(a, n, MPI_INT, b, n, MPI_INT, root, comm, &q), &q);
			break;
		case SCATTER:	/* from the odd rank to all: if the odd rank sends more than the receivers expect, the first part
				 * may be right */
			wrong = !is;
			rc = waited(MPI_Iscatter(a, n, MPI_INT, b, n, MPI_INT, odd, comm, &q), &q);
			break;
		case BCAST:
			wrong = !is;
			rc = waited(MPI_Ibcast(a, n, MPI_INT, odd, comm, &q), &q);
			break;
		case ALLREDUCE:
			rc = waited(MPI_Iallreduce(a, b, n, MPI_INT, MPI_SUM, comm, &q), &q);
			break;
		case REDUCE:
			wrong = me == root;
			rc = waited(MPI_Ireduce(a, b, n, MPI_INT, MPI_SUM, root, comm, &q), &q);
			break;
		default:
			rc = waited(MPI_Ireduce_scatter_block(a, b, n, MPI_INT, MPI_SUM, comm, &q), &q);
		}
		if (wrong ? !is_length(rc) : rc != MPI_SUCCESS)
			test_fail(__FILE__, __LINE__, "collective %d, odd %d with %d: class %d", c % COLLS, odd, theirs,
				  class_of(rc));
		/* the next collective succeeds */
		CHECK_EQ(waited(MPI_Iallgather(&me, 1, MPI_INT, b, 1, MPI_INT, comm, &q), &q), MPI_SUCCESS);
		for (int r = 0; r < np; r++)
			CHECK_EQ(b[r], r);
		CHECK_EQ(waited(MPI_Ialltoall(b, 1, MPI_INT, a, 1, MPI_INT, comm, &q), &q), MPI_SUCCESS);
		for (int r = 0; r < np; r++)
			CHECK_EQ(a[r], me);
	}
}

/* All ranks pass the same wrong argument, which is significant at some ranks only: each rank gets an error with a text that names
 * the argument, and the next collective finds all ranks. */
static void on_all(int rc, int class, const char *what)
{
	char text[MPI_MAX_ERROR_STRING];
	int n, sum = 0;

	MPI_Error_string(rc, text, &n);
	if (class_of(rc) != class || !strstr(text, what))
		test_fail(__FILE__, __LINE__, "%s, root %d: class %d, not %d: %s", what, odd, class_of(rc), class, text);
	CHECK_EQ(MPI_Allreduce(&me, &sum, 1, MPI_INT, MPI_SUM, comm), MPI_SUCCESS);
	CHECK_EQ(sum, np * (np - 1) / 2);
}

static void refused_somewhere(void)
{
	int a[64] = { 0 }, b[64], counts[64], bad[64], at[64];
	MPI_Datatype loose;
	MPI_Request q;
	int root = odd;

	for (int i = 0; i < np; i++) {
		counts[i] = i > 0;
		bad[i] = i ? 1 : -3;
		at[i] = i;
	}
	MPI_Type_contiguous(1, MPI_INT, &loose);
	on_all(MPI_Reduce(MPI_IN_PLACE, b, 1, MPI_INT, MPI_SUM, root, comm), MPI_ERR_BUFFER,
	       "MPI_Reduce: invalid sendbuf: MPI_IN_PLACE");
	on_all(MPI_Reduce(a, NULL, 1, MPI_INT, MPI_SUM, root, comm), MPI_ERR_BUFFER, "MPI_Reduce: invalid recvbuf");
	on_all(MPI_Gather(MPI_IN_PLACE, 1, MPI_INT, b, 1, MPI_INT, root, comm), MPI_ERR_BUFFER, "MPI_Gather: invalid sendbuf");
	on_all(MPI_Gather(a, 1, MPI_INT, NULL, 1, MPI_INT, root, comm), MPI_ERR_BUFFER, "MPI_Gather: invalid recvbuf");
	on_all(MPI_Gather(a, 1, MPI_INT, b, 1, loose, root, comm), MPI_ERR_TYPE, "MPI_Gather: invalid recvtype");
	on_all(MPI_Gather(a, 1, MPI_INT, a, 1, MPI_INT, root, comm), MPI_ERR_BUFFER, "the same buffer");
	on_all(MPI_Gatherv(a, 1, MPI_INT, b, bad, at, MPI_INT, root, comm), MPI_ERR_COUNT, "MPI_Gatherv: invalid recvcounts[0]");
	on_all(MPI_Scatter(a, 1, MPI_INT, MPI_IN_PLACE, 1, MPI_INT, root, comm), MPI_ERR_BUFFER, "MPI_Scatter: invalid recvbuf");
	on_all(MPI_Scatter(a, -1, MPI_INT, b, 1, MPI_INT, root, comm), MPI_ERR_COUNT, "MPI_Scatter: invalid sendcount");
	on_all(MPI_Scatterv(a, NULL, at, MPI_INT, b, 1, MPI_INT, root, comm), MPI_ERR_ARG, "MPI_Scatterv: invalid sendcounts");
	on_all(MPI_Exscan(a, NULL, 1, MPI_INT, MPI_SUM, comm), MPI_ERR_BUFFER, "MPI_Exscan: invalid recvbuf");
	on_all(MPI_Reduce_scatter(a, a, counts, MPI_INT, MPI_SUM, comm), MPI_ERR_BUFFER, "the same buffer");
	on_all(MPI_Gather_init(a, 1, MPI_INT, NULL, 1, MPI_INT, root, comm, MPI_INFO_NULL, &q), MPI_ERR_BUFFER,
	       "invalid recvbuf");
	CHECK(q == MPI_REQUEST_NULL);
	/* a rank at which the argument is not significant gets the error when the operation completes */
	if (me == root) {
		on_all(MPI_Igather(a, 1, MPI_INT, NULL, 1, MPI_INT, root, comm, &q), MPI_ERR_BUFFER,
		       "MPI_Igather: invalid recvbuf");
		CHECK(q == MPI_REQUEST_NULL);
	} else {
		on_all(waited(MPI_Igather(a, 1, MPI_INT, NULL, 1, MPI_INT, root, comm, &q), &q), MPI_ERR_BUFFER,
		       "MPI_Igather: invalid recvbuf");
	}
	/* an argument that all ranks refuse is an error of each, with that rank's text */
	on_all(MPI_Bcast(a, -1, MPI_INT, root, comm), MPI_ERR_COUNT, "MPI_Bcast: invalid count -1");
	MPI_Type_free(&loose);
}

/* Without HEDDLE_CHECK: a call that fails by one rank's own arguments has no effect on the communicator. That rank may correct
 * them and call again, and the other ranks, which are in the same collective meanwhile, complete with that rank. */
static void corrected(void)
{
	int a[64] = { 0 }, b[64];
	bool wrong = me == odd;

	for (int i = 0; i < np; i++)
		a[i] = me;
	if (wrong) {
		CHECK_EQ(class_of(MPI_Bcast(a, -1, MPI_INT, odd, comm)), MPI_ERR_COUNT);
		CHECK_EQ(class_of(MPI_Bcast(a, 1, MPI_DATATYPE_NULL, odd, comm)), MPI_ERR_TYPE);
	}
	CHECK_EQ(MPI_Bcast(a, 1, MPI_INT, odd, comm), MPI_SUCCESS);
	CHECK_EQ(a[0], odd);
	if (wrong) {
		CHECK_EQ(class_of(MPI_Allreduce(&me, b, 1, MPI_INT, MPI_OP_NULL, comm)), MPI_ERR_OP);
		CHECK_EQ(class_of(MPI_Allreduce(b, b, 1, MPI_INT, MPI_SUM, comm)), MPI_ERR_BUFFER);
	}
	CHECK_EQ(MPI_Allreduce(&me, b, 1, MPI_INT, MPI_SUM, comm), MPI_SUCCESS);
	CHECK_EQ(b[0], np * (np - 1) / 2);
	if (wrong)
		CHECK_EQ(class_of(MPI_Gather(a, 1, MPI_INT, b, 1, MPI_INT, np, comm)), MPI_ERR_ROOT);
	CHECK_EQ(MPI_Gather(&me, 1, MPI_INT, b, 1, MPI_INT, odd, comm), MPI_SUCCESS);
	for (int r = 0; wrong && r < np; r++)
		CHECK_EQ(b[r], r);
}

int main(int argc, char **argv)
{
	bool plain = argc < 2;

	test_init(&argc, &argv);
	MPI_Comm_dup(MPI_COMM_WORLD, &comm);
	MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
	for (odd = 0; argc > 1 && !strcmp(argv[1], "lengths") && odd < np; odd++)
		lengths();
	for (odd = 0; argc > 1 && !strcmp(argv[1], "moved") && odd < np; odd++)
		for (int n = 2; n <= 4; n += 2)
			moved(n);
	for (odd = 0; argc > 1 && !strcmp(argv[1], "corrected") && odd < np; odd++)
		corrected();
	for (odd = 0; plain && odd < np; odd++)
		mismatches();
	for (odd = 0; plain && np > 1 && odd < np; odd++)
		refused_somewhere();
	if (plain)
		matches();
	for (odd = 0; plain && odd < np; odd++)
		between_groups();
	MPI_Comm_free(&comm);
	test_done("check");
	return 0;
}
