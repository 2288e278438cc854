/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Invalid arguments of messages and collectives (MPI-5.0 sections 2.8, 3, 6): error class, and in the text the call, the argument
 * and its value. The calling rank refuses the call before anything is sent: the communicator works afterwards. All cases once
 * with MPI_ERRORS_RETURN, and once with an error handler that returns: the handler is called once, and the call returns the error
 * all the same.
 */
#include "mpi_test.h"

static int n_tried;
static int forgiving;		/* the error handler is one that forgives */

static void judge(int line, const char *call, int rc, int want, const char *word, const char *value)
{
	char said[MPI_MAX_ERROR_STRING];
	int class = -1, len;

	n_tried++;
	if (n_forgiven != forgiving)
		test_fail(__FILE__, line, "%s: the error handler was called %d times (%s, %s)", call, n_forgiven, word, value);
	n_forgiven = 0;
	MPI_Error_class(rc, &class);
	MPI_Error_string(rc, said, &len);
	if (class != want)
		test_fail(__FILE__, line, "%s: class %d instead of %d (%s, %s): %s", call, class, want, word, value, said);
	if (strncmp(said, call, strlen(call)) || said[strlen(call)] != ':' || !strstr(said, word) || !strstr(said, value))
		test_fail(__FILE__, line, "%s: not said: %s, %s: %s", call, word, value, said);
}
#define REFUSED(want, word, value, call, args) judge(__LINE__, #call, call args, want, word, value)

static int s[64], r[64], counts[8], displs[8], bad_counts[8];
static MPI_Count counts_c[8], bad_counts_c[8];
static MPI_Aint displs_c[8];
static MPI_Datatype types[8], bad_types[8], raw, huge;
static MPI_Request q;
static MPI_Op own;
#define W MPI_COMM_WORLD
#define S MPI_COMM_SELF
#define I MPI_INT
#define SAME "same buffer"

static void product(void *in, void *inout, int *len, MPI_Datatype *t)
{
	(void)t;
	for (int n = 0; n < *len; n++)
		((int *)inout)[n] *= ((int *)in)[n];
}

static const int *one_on(void)
{
	static const int on[1] = { 1 };

	return on;
}

/* Displacements in bytes, of pieces that lie one after the other. */
static const int *bytes_on(void)
{
	static int on[8];

	for (int i = 0; i < 8; i++)
		on[i] = i * (int)sizeof(int);
	return on;
}

static void point_to_point(void)
{
	char over[16];

	snprintf(over, sizeof(over), "%d", np);
	REFUSED(MPI_ERR_RANK, "dest", over, MPI_Send, (s, 1, I, np, 0, W));
	REFUSED(MPI_ERR_RANK, "dest", "-9", MPI_Isend, (s, 1, I, -9, 0, W, &q));
	REFUSED(MPI_ERR_RANK, "source", over, MPI_Recv, (r, 1, I, np, 0, W, MPI_STATUS_IGNORE));
	REFUSED(MPI_ERR_RANK, "source", over, MPI_Irecv, (r, 1, I, np, 0, W, &q));
	REFUSED(MPI_ERR_RANK, "source", over, MPI_Probe, (np, 0, W, MPI_STATUS_IGNORE));
	REFUSED(MPI_ERR_RANK, "dest", over, MPI_Sendrecv, (s, 1, I, np, 0, r, 1, I, 0, 0, W, MPI_STATUS_IGNORE));
	REFUSED(MPI_ERR_RANK, "dest", over, MPI_Send_init, (s, 1, I, np, 0, W, &q));
	REFUSED(MPI_ERR_COUNT, "count", "-3", MPI_Send, (s, -3, I, 0, 0, W));
	REFUSED(MPI_ERR_COUNT, "count", "-3", MPI_Isend, (s, -3, I, 0, 0, W, &q));
	REFUSED(MPI_ERR_COUNT, "count", "-3", MPI_Irecv, (r, -3, I, 0, 0, W, &q));
	REFUSED(MPI_ERR_TYPE, "datatype", "not committed", MPI_Ssend, (s, 1, raw, 0, 0, W));
	REFUSED(MPI_ERR_TAG, "tag", "-5", MPI_Isend, (s, 1, I, 0, -5, W, &q));
	REFUSED(MPI_ERR_TAG, "tag", "-5", MPI_Recv, (r, 1, I, 0, -5, W, MPI_STATUS_IGNORE));
	REFUSED(MPI_ERR_BUFFER, "buf", "", MPI_Send, (NULL, 1, I, 0, 0, W));
	REFUSED(MPI_ERR_ARG, "request", "null pointer", MPI_Irecv, (r, 1, I, 0, 0, W, NULL));
}

static void data(void)
{
	REFUSED(MPI_ERR_COUNT, "count", "-1", MPI_Bcast, (s, -1, I, 0, W));
	REFUSED(MPI_ERR_COUNT, "count", "-7", MPI_Ibcast, (s, -7, I, 0, W, &q));
	REFUSED(MPI_ERR_BUFFER, "buffer", "", MPI_Bcast, (NULL, 1, I, 0, W));
	REFUSED(MPI_ERR_BUFFER, "buffer", "MPI_IN_PLACE", MPI_Bcast, (MPI_IN_PLACE, 1, I, 0, W));
	REFUSED(MPI_ERR_TYPE, "datatype", "not committed", MPI_Bcast, (s, 1, raw, 0, W));
	REFUSED(MPI_ERR_COUNT, "sendcount", "-1", MPI_Gather, (s, -1, I, r, 1, I, 0, W));
	REFUSED(MPI_ERR_COUNT, "recvcount", "-2", MPI_Gather, (s, 1, I, r, -2, I, 0, S));
	REFUSED(MPI_ERR_TYPE, "sendtype", "not committed", MPI_Gather, (s, 1, raw, r, 1, I, 0, W));
	REFUSED(MPI_ERR_TYPE, "recvtype", "not committed", MPI_Gather, (s, 1, I, r, 1, raw, 0, S));
	REFUSED(MPI_ERR_BUFFER, "sendbuf", "", MPI_Gather, (NULL, 1, I, r, 1, I, 0, W));
	REFUSED(MPI_ERR_BUFFER, "recvbuf", "", MPI_Gather, (s, 1, I, NULL, 1, I, 0, S));
	REFUSED(MPI_ERR_COUNT, "sendcount", "-1", MPI_Scatter, (s, -1, I, r, 1, I, 0, S));
	REFUSED(MPI_ERR_COUNT, "recvcount", "-1", MPI_Scatter, (s, 1, I, r, -1, I, 0, W));
	REFUSED(MPI_ERR_BUFFER, "recvbuf", "", MPI_Scatter, (s, 1, I, NULL, 1, I, 0, W));
	REFUSED(MPI_ERR_BUFFER, "sendbuf", "", MPI_Scatter, (NULL, 1, I, r, 1, I, 0, S));
	REFUSED(MPI_ERR_COUNT, "sendcount", "-1", MPI_Allgather, (s, -1, I, r, 1, I, W));
	REFUSED(MPI_ERR_COUNT, "recvcount", "-1", MPI_Allgather, (s, 1, I, r, -1, I, W));
	REFUSED(MPI_ERR_COUNT, "sendcount 2", "recvcount 1", MPI_Allgather, (s, 2, I, r, 1, I, W));
	REFUSED(MPI_ERR_BUFFER, "recvbuf", "", MPI_Allgather, (s, 1, I, NULL, 1, I, W));
	REFUSED(MPI_ERR_COUNT, "recvcount", "-1", MPI_Alltoall, (s, 1, I, r, -1, I, W));
	REFUSED(MPI_ERR_TYPE, "sendtype", "not committed", MPI_Alltoall, (s, 1, raw, r, 1, I, W));
	REFUSED(MPI_ERR_COUNT, "count", "-1", MPI_Reduce, (s, r, -1, I, MPI_SUM, 0, W));
	REFUSED(MPI_ERR_COUNT, "count", "-1", MPI_Allreduce, (s, r, -1, I, MPI_SUM, W));
	REFUSED(MPI_ERR_COUNT, "count", "-1", MPI_Scan, (s, r, -1, I, MPI_SUM, W));
	REFUSED(MPI_ERR_COUNT, "count", "-1", MPI_Exscan, (s, r, -1, I, MPI_SUM, W));
	REFUSED(MPI_ERR_COUNT, "recvcount", "-1", MPI_Reduce_scatter_block, (s, r, -1, I, MPI_SUM, W));
	REFUSED(MPI_ERR_COUNT, "count", "-1", MPI_Reduce_local, (s, r, -1, I, MPI_SUM));
	REFUSED(MPI_ERR_COUNT, "count", "-1", MPI_Iallreduce, (s, r, -1, I, own, W, &q));
	REFUSED(MPI_ERR_BUFFER, "sendbuf", "", MPI_Allreduce, (NULL, r, 1, I, MPI_SUM, W));
	REFUSED(MPI_ERR_BUFFER, "recvbuf", "", MPI_Allreduce, (s, NULL, 1, I, MPI_SUM, W));
	REFUSED(MPI_ERR_BUFFER, "recvbuf", "", MPI_Reduce, (s, NULL, 1, I, MPI_SUM, 0, S));
	REFUSED(MPI_ERR_BUFFER, "recvbuf", "", MPI_Scan, (s, NULL, 1, I, own, W));
	REFUSED(MPI_ERR_BUFFER, "inbuf", "", MPI_Reduce_local, (NULL, r, 1, I, MPI_SUM));
	REFUSED(MPI_ERR_BUFFER, "inoutbuf", "", MPI_Reduce_local, (s, NULL, 1, I, MPI_SUM));
	/* large counts */
	REFUSED(MPI_ERR_COUNT, "count", "-5000000000", MPI_Bcast_c, (s, -5000000000, I, 0, W));
	REFUSED(MPI_ERR_COUNT, "count", "9223372036854775807", MPI_Bcast_c, (s, INT64_MAX, I, 0, W));
	REFUSED(MPI_ERR_COUNT, "count", "9223372036854775807", MPI_Allreduce_c, (s, r, INT64_MAX, I, MPI_SUM, W));
	REFUSED(MPI_ERR_COUNT, "recvcount", "4611686018427387904", MPI_Gather_c,
		(s, 1, MPI_CHAR, r, (MPI_Count)1 << 62, I, 0, S));
	REFUSED(MPI_ERR_COUNT, "recvcount", "4611686018427387904", MPI_Allgather_c, (s, 1, I, r, (MPI_Count)1 << 62, I, W));
	REFUSED(MPI_ERR_COUNT, "recvcount", "9223372036854775807", MPI_Reduce_scatter_block_c,
		(s, r, INT64_MAX, I, MPI_SUM, W));
	/* small ones, which lie far apart */
	MPI_Datatype wide;

	MPI_Type_create_resized(I, 0, (MPI_Aint)1 << 61, &wide);
	MPI_Type_commit(&wide);
	REFUSED(MPI_ERR_COUNT, "recvcount", "extent", MPI_Gather, (s, 8, I, r, 8, wide, 0, S));
	REFUSED(MPI_ERR_COUNT, "sendcount", "extent", MPI_Scatter, (s, 8, wide, r, 8, I, 0, S));
	REFUSED(MPI_ERR_COUNT, "recvcount", "extent", MPI_Allgather, (s, 8, I, r, 8, wide, W));
	REFUSED(MPI_ERR_COUNT, "sendcount", "extent", MPI_Alltoall, (s, 8, wide, r, 8, I, W));
	MPI_Type_free(&wide);
}

static void roots(void)
{
	char over[16];

	snprintf(over, sizeof(over), "%d", np);
	REFUSED(MPI_ERR_ROOT, "root", "-1", MPI_Bcast, (s, 1, I, -1, W));
	REFUSED(MPI_ERR_ROOT, "root", over, MPI_Bcast, (s, 1, I, np, W));
	REFUSED(MPI_ERR_ROOT, "root", over, MPI_Ibcast, (s, 1, I, np, W, &q));
	REFUSED(MPI_ERR_ROOT, "root", over, MPI_Gather, (s, 1, I, r, 1, I, np, W));
	REFUSED(MPI_ERR_ROOT, "root", "-9", MPI_Gatherv, (s, 1, I, r, counts, displs, I, -9, W));
	REFUSED(MPI_ERR_ROOT, "root", over, MPI_Scatter, (s, 1, I, r, 1, I, np, W));
	REFUSED(MPI_ERR_ROOT, "root", over, MPI_Scatterv, (s, counts, displs, I, r, 1, I, np, W));
	REFUSED(MPI_ERR_ROOT, "root", over, MPI_Reduce, (s, r, 1, I, MPI_SUM, np, W));
	REFUSED(MPI_ERR_ROOT, "root", over, MPI_Ireduce, (s, r, 1, I, own, np, W, &q));
	/* those of intercommunicators are none here */
	REFUSED(MPI_ERR_ROOT, "root", "", MPI_Bcast, (s, 1, I, MPI_ROOT, W));
	REFUSED(MPI_ERR_ROOT, "root", "", MPI_Reduce, (s, r, 1, I, MPI_SUM, MPI_PROC_NULL, W));
	REFUSED(MPI_ERR_ROOT, "root", "", MPI_Scatter, (s, 1, I, r, 1, I, MPI_ANY_SOURCE, W));
}

static void vectors(void)
{
	char which[32], which_type[32];

	snprintf(which, sizeof(which), "counts[%d]", np - 1);
	snprintf(which_type, sizeof(which_type), "types[%d]", np - 1);
	REFUSED(MPI_ERR_COUNT, "recvcounts[0]", "-3", MPI_Gatherv, (s, 1, I, r, bad_counts + np - 1, displs, I, 0, S));
	REFUSED(MPI_ERR_COUNT, "sendcounts[0]", "-3", MPI_Scatterv, (s, bad_counts + np - 1, displs, I, r, 1, I, 0, S));
	REFUSED(MPI_ERR_COUNT, which, "-3", MPI_Allgatherv, (s, 1, I, r, bad_counts, displs, I, W));
	REFUSED(MPI_ERR_COUNT, which, "-3", MPI_Allgatherv_c, (s, 1, I, r, bad_counts_c, displs_c, I, W));
	REFUSED(MPI_ERR_COUNT, which, "-3", MPI_Alltoallv, (s, bad_counts, displs, I, r, counts, displs, I, W));
	REFUSED(MPI_ERR_COUNT, which, "-3", MPI_Alltoallv, (s, counts, displs, I, r, bad_counts, displs, I, W));
	REFUSED(MPI_ERR_COUNT, which, "-3", MPI_Ialltoallv_c, (s, bad_counts_c, displs_c, I, r, counts_c, displs_c, I, W, &q));
	REFUSED(MPI_ERR_COUNT, which, "-3", MPI_Alltoallw, (s, bad_counts, displs, types, r, counts, displs, types, W));
	REFUSED(MPI_ERR_COUNT, which, "-3", MPI_Reduce_scatter, (s, r, bad_counts, I, MPI_SUM, W));
	REFUSED(MPI_ERR_ARG, "recvcounts", "null pointer", MPI_Allgatherv, (s, 1, I, r, NULL, displs, I, W));
	REFUSED(MPI_ERR_ARG, "displs", "null pointer", MPI_Allgatherv, (s, 1, I, r, counts, NULL, I, W));
	REFUSED(MPI_ERR_ARG, "sendcounts", "null pointer", MPI_Alltoallv, (s, NULL, displs, I, r, counts, displs, I, W));
	REFUSED(MPI_ERR_ARG, "sdispls", "null pointer", MPI_Alltoallv, (s, counts, NULL, I, r, counts, displs, I, W));
	REFUSED(MPI_ERR_ARG, "rdispls", "null pointer", MPI_Alltoallv, (s, counts, displs, I, r, counts, NULL, I, W));
	REFUSED(MPI_ERR_ARG, "sendtypes", "null pointer", MPI_Alltoallw, (s, counts, displs, NULL, r, counts, displs, types, W));
	REFUSED(MPI_ERR_ARG, "recvcounts", "null pointer", MPI_Reduce_scatter, (s, r, NULL, I, MPI_SUM, W));
	REFUSED(MPI_ERR_ARG, "recvcounts", "null pointer", MPI_Gatherv, (s, 1, I, r, NULL, displs, I, 0, S));
	REFUSED(MPI_ERR_TYPE, which_type, "not committed", MPI_Alltoallw,
		(s, counts, displs, bad_types, r, counts, displs, types, W));
	REFUSED(MPI_ERR_TYPE, which_type, "not committed", MPI_Alltoallw,
		(s, counts, displs, types, r, counts, displs, bad_types, W));
	REFUSED(MPI_ERR_TYPE, "recvtype", "not committed", MPI_Allgatherv, (s, 1, I, r, counts, displs, raw, W));
	REFUSED(MPI_ERR_BUFFER, "sendbuf", "", MPI_Alltoallv, (NULL, counts, displs, I, r, counts, displs, I, W));
	REFUSED(MPI_ERR_BUFFER, "recvbuf", "", MPI_Allgatherv, (s, 1, I, NULL, counts, displs, I, W));
}

static void operations(void)
{
	REFUSED(MPI_ERR_OP, "MPI_BAND", "MPI_DOUBLE", MPI_Allreduce, (s, r, 1, MPI_DOUBLE, MPI_BAND, W));
	REFUSED(MPI_ERR_OP, "MPI_MAX", "MPI_C_DOUBLE_COMPLEX", MPI_Reduce, (s, r, 1, MPI_C_DOUBLE_COMPLEX, MPI_MAX, 0, W));
	REFUSED(MPI_ERR_OP, "MPI_MINLOC", "MPI_INT", MPI_Scan, (s, r, 1, I, MPI_MINLOC, W));
	REFUSED(MPI_ERR_OP, "MPI_SUM", "MPI_2INT", MPI_Exscan, (s, r, 1, MPI_2INT, MPI_SUM, W));
	REFUSED(MPI_ERR_OP, "MPI_BXOR", "MPI_FLOAT", MPI_Reduce_scatter_block, (s, r, 1, MPI_FLOAT, MPI_BXOR, W));
	REFUSED(MPI_ERR_OP, "MPI_BOR", "MPI_FLOAT", MPI_Reduce_scatter, (s, r, counts, MPI_FLOAT, MPI_BOR, W));
	REFUSED(MPI_ERR_OP, "MPI_BOR", "MPI_FLOAT", MPI_Reduce_local, (s, r, 1, MPI_FLOAT, MPI_BOR));
	REFUSED(MPI_ERR_OP, "MPI_SUM", "", MPI_Iallreduce, (s, r, 1, huge, MPI_SUM, W, &q));
	REFUSED(MPI_ERR_OP, "MPI_OP_NULL", "", MPI_Allreduce, (s, r, 1, I, MPI_OP_NULL, W));
	REFUSED(MPI_ERR_OP, "MPI_REPLACE", "", MPI_Allreduce, (s, r, 1, I, MPI_REPLACE, W));
	REFUSED(MPI_ERR_OP, "MPI_NO_OP", "", MPI_Scan, (s, r, 1, I, MPI_NO_OP, W));
	REFUSED(MPI_ERR_ARG, "user_fn", "null pointer", MPI_Op_create, (NULL, 1, &(MPI_Op){ own }));
	REFUSED(MPI_ERR_ARG, "op", "null pointer", MPI_Op_create, (product, 1, NULL));
}

static void in_place_and_aliases(void)
{
	REFUSED(MPI_ERR_BUFFER, "recvbuf", "MPI_IN_PLACE", MPI_Gather, (s, 1, I, MPI_IN_PLACE, 1, I, 0, S));
	REFUSED(MPI_ERR_BUFFER, "sendbuf", "MPI_IN_PLACE", MPI_Scatter, (MPI_IN_PLACE, 1, I, r, 1, I, 0, S));
	REFUSED(MPI_ERR_BUFFER, "recvbuf", "MPI_IN_PLACE", MPI_Allgather, (MPI_IN_PLACE, 1, I, MPI_IN_PLACE, 1, I, W));
	REFUSED(MPI_ERR_BUFFER, "recvbuf", "MPI_IN_PLACE", MPI_Alltoall, (s, 1, I, MPI_IN_PLACE, 1, I, W));
	REFUSED(MPI_ERR_BUFFER, "recvbuf", "MPI_IN_PLACE", MPI_Alltoallv,
		(s, counts, displs, I, MPI_IN_PLACE, counts, displs, I, W));
	REFUSED(MPI_ERR_BUFFER, "recvbuf", "MPI_IN_PLACE", MPI_Allreduce, (s, MPI_IN_PLACE, 1, I, MPI_SUM, W));
	REFUSED(MPI_ERR_BUFFER, "buf", "MPI_IN_PLACE", MPI_Allreduce, (MPI_IN_PLACE, MPI_IN_PLACE, 1, I, MPI_SUM, W));
	REFUSED(MPI_ERR_BUFFER, "recvbuf", "MPI_IN_PLACE", MPI_Scan, (s, MPI_IN_PLACE, 1, I, MPI_SUM, W));
	REFUSED(MPI_ERR_BUFFER, "inbuf", "MPI_IN_PLACE", MPI_Reduce_local, (MPI_IN_PLACE, r, 1, I, MPI_SUM));
	if (me) {	/* only the root may */
		REFUSED(MPI_ERR_BUFFER, "sendbuf", "MPI_IN_PLACE", MPI_Reduce, (MPI_IN_PLACE, r, 1, I, MPI_SUM, 0, W));
		REFUSED(MPI_ERR_BUFFER, "sendbuf", "MPI_IN_PLACE", MPI_Reduce, (MPI_IN_PLACE, r, 1, I, own, 0, W));
		REFUSED(MPI_ERR_BUFFER, "sendbuf", "MPI_IN_PLACE", MPI_Gather, (MPI_IN_PLACE, 1, I, r, 1, I, 0, W));
		REFUSED(MPI_ERR_BUFFER, "sendbuf", "MPI_IN_PLACE", MPI_Igatherv,
			(MPI_IN_PLACE, 1, I, r, counts, displs, I, 0, W, &q));
		REFUSED(MPI_ERR_BUFFER, "recvbuf", "MPI_IN_PLACE", MPI_Scatter, (s, 1, I, MPI_IN_PLACE, 1, I, 0, W));
	}
	REFUSED(MPI_ERR_BUFFER, SAME, "MPI_IN_PLACE", MPI_Gather, (s, 1, I, s, 1, I, 0, S));
	REFUSED(MPI_ERR_BUFFER, SAME, "MPI_IN_PLACE", MPI_Scatter, (s, 1, I, s, 1, I, 0, S));
	REFUSED(MPI_ERR_BUFFER, SAME, "MPI_IN_PLACE", MPI_Gatherv, (s + 4, 1, I, s + 3, counts, one_on(), I, 0, S));
	REFUSED(MPI_ERR_BUFFER, SAME, "MPI_IN_PLACE", MPI_Allgather, (s, 1, I, s, 1, I, W));
	REFUSED(MPI_ERR_BUFFER, SAME, "MPI_IN_PLACE", MPI_Allgather, (s + me, 1, I, s, 1, I, W));
	REFUSED(MPI_ERR_BUFFER, SAME, "MPI_IN_PLACE", MPI_Allgatherv, (s + me, 1, I, s, counts, displs, I, W));
	REFUSED(MPI_ERR_BUFFER, SAME, "MPI_IN_PLACE", MPI_Alltoall, (s, 1, I, s, 1, I, W));
	REFUSED(MPI_ERR_BUFFER, SAME, "MPI_IN_PLACE", MPI_Alltoallv, (s, counts, displs, I, s, counts, displs, I, W));
	REFUSED(MPI_ERR_BUFFER, SAME, "MPI_IN_PLACE", MPI_Alltoallw,
		(s, counts, bytes_on(), types, s, counts, bytes_on(), types, W));
	REFUSED(MPI_ERR_BUFFER, SAME, "MPI_IN_PLACE", MPI_Allreduce, (s, s, 1, I, MPI_SUM, W));
	REFUSED(MPI_ERR_BUFFER, SAME, "MPI_IN_PLACE", MPI_Allreduce, (s, s, 1, I, own, W));
	REFUSED(MPI_ERR_BUFFER, SAME, "MPI_IN_PLACE", MPI_Scan, (s, s, 1, I, MPI_SUM, W));
	REFUSED(MPI_ERR_BUFFER, SAME, "MPI_IN_PLACE", MPI_Reduce_scatter_block, (s, s, 1, I, MPI_SUM, W));
	REFUSED(MPI_ERR_BUFFER, SAME, "", MPI_Reduce_local, (s, s, 1, I, MPI_SUM));
	REFUSED(MPI_ERR_ARG, "request", "null pointer", MPI_Ibarrier, (W, NULL));
	REFUSED(MPI_ERR_ARG, "request", "null pointer", MPI_Ibcast, (s, 1, I, 0, W, NULL));
	REFUSED(MPI_ERR_ARG, "request", "null pointer", MPI_Igather, (s, 1, I, r, 1, I, 0, W, NULL));
	REFUSED(MPI_ERR_ARG, "request", "null pointer", MPI_Ialltoallv, (s, counts, displs, I, r, counts, displs, I, W, NULL));
	REFUSED(MPI_ERR_ARG, "request", "null pointer", MPI_Iscan, (s, r, 1, I, MPI_SUM, W, NULL));
}

/* A part of an array by absolute addresses, for MPI_BOTTOM. */
static MPI_Datatype absolute(void *at, int n)
{
	MPI_Datatype t;
	MPI_Aint a;

	MPI_Get_address(at, &a);
	MPI_Type_create_hindexed(1, &n, &a, I, &t);
	MPI_Type_commit(&t);
	return t;
}

/* Buffers that are the same address, and displacements or types that tell where their data lies. */
static void allowed_places(void)
{
	MPI_Datatype from = absolute(s, np), to = absolute(s + 8, np), one = absolute(s + 16 + me, 1), all = absolute(s + 24, 1);
	MPI_Aint there[8], here[8];

	for (int i = 0; i < np; i++) {
		s[i] = 10 * me + i;
		MPI_Get_address(&s[i], &there[i]);
		MPI_Get_address(&r[i], &here[i]);
	}
	CHECK_EQ(MPI_Alltoallw_c(MPI_BOTTOM, counts_c, there, types, MPI_BOTTOM, counts_c, here, types, W), 0);
	for (int i = 0; i < np; i++)
		CHECK_EQ(r[i], 10 * i + me);
	there[0] = (MPI_Aint)((size_t)-1 / 2);
	for (int i = 0; i < np; i++)
		counts_c[i] = 0;
	CHECK_EQ(MPI_Alltoallv_c(s, counts_c, there, MPI_DOUBLE, r, counts_c, here, MPI_DOUBLE, W), 0);
	for (int i = 0; i < np; i++)
		counts_c[i] = 1;
	/* a piece for each rank follows the one before by the type's extent, the types have room for that */
	MPI_Datatype out, in;

	MPI_Type_create_resized(from, 0, 0, &out);
	MPI_Type_create_resized(to, 0, 0, &in);
	MPI_Type_commit(&out);
	MPI_Type_commit(&in);
	if (np == 1)
		CHECK_EQ(MPI_Alltoall(MPI_BOTTOM, 1, out, MPI_BOTTOM, 1, in, W), 0);
	MPI_Type_free(&out);
	MPI_Type_free(&in);
	s[16 + me] = me + 1;
	MPI_Type_create_resized(all, 0, sizeof(int), &in);
	MPI_Type_commit(&in);
	CHECK_EQ(MPI_Allgather(MPI_BOTTOM, 1, one, MPI_BOTTOM, 1, in, W), 0);
	for (int i = 0; i < np; i++)
		CHECK_EQ(s[24 + i], i + 1);
	MPI_Type_free(&in);
	MPI_Type_free(&from);
	MPI_Type_free(&to);
	MPI_Type_free(&one);
	MPI_Type_free(&all);
	/* rank 0's receive buffer is not significant in MPI_Exscan (section 6.11.2) */
	s[0] = me + 1;
	CHECK_EQ(MPI_Exscan(s, me ? r : NULL, 1, I, MPI_SUM, W), 0);
	CHECK(!me || r[0] == me * (me + 1) / 2);
	CHECK_EQ(MPI_Exscan(s, me ? r : s, 1, I, MPI_SUM, W), 0);
	CHECK_EQ(s[0], me + 1);
}

/* Correct calls that resemble the refused ones. */
/* One buffer as send and receive buffer, where only one rank could refuse it, since the receive buffer is not significant at the
 * other ranks: the operation runs in place, as with other MPIs. All ranks pass the same arguments, and no rank waits for one that
 * has returned with an error. */
static void one_buffer(void)
{
	int root = np - 1, last = me == root, long_n = 50000, *v = malloc(2 * sizeof(*v) * (size_t)long_n);

	for (int i = 0; i < 3; i++) {
		MPI_Op op = i == 2 ? own : MPI_PROD;
		int n = i ? 1 : long_n, one = me + 1, before = 1, all = 1;

		for (int rank = 0; rank < np; rank++) {
			before *= rank < me ? rank + 1 : 1;
			all *= rank + 1;
		}
		for (int k = 0; k < n; k++)
			v[k] = one;
		CHECK_EQ(MPI_Exscan(v, v, n, I, op, W), 0);
		CHECK(v[0] == (me ? before : one) && v[n - 1] == v[0]);
		v[0] = one;
		CHECK_EQ(MPI_Iexscan(v, v, 1, I, op, W, &q), 0);
		CHECK_EQ(MPI_Wait(&q, MPI_STATUS_IGNORE), 0);
		CHECK_EQ(v[0], me ? before : one);
		for (int k = 0; k < n; k++)
			v[k] = one;
		CHECK_EQ(MPI_Reduce(v, v, n, I, op, root, W), 0);
		CHECK(v[0] == (last ? all : one) && v[n - 1] == v[0]);
		v[0] = one;
		CHECK_EQ(MPI_Ireduce(v, v, 1, I, op, root, W, &q), 0);
		CHECK_EQ(MPI_Wait(&q, MPI_STATUS_IGNORE), 0);
		CHECK_EQ(v[0], last ? all : one);
	}
	CHECK_EQ(MPI_Barrier(W), 0);
	free(v);
}

/* Nothing overlaps where there is no data: one buffer given twice, with an extent and without a size. */
static void nothing_twice(void)
{
	MPI_Datatype none, empty;

	MPI_Type_contiguous(0, I, &none);
	MPI_Type_create_resized(none, 0, 8, &empty);
	MPI_Type_commit(&empty);
	for (int i = 0; i < 2; i++) {
		MPI_Datatype t = i ? I : empty;
		int n = i ? 0 : 3, root = np - 1;

		CHECK_EQ(MPI_Gather(s, n, t, s, n, t, root, W), 0);
		CHECK_EQ(MPI_Scatter(s, n, t, s, n, t, root, W), 0);
		CHECK_EQ(MPI_Allgather(s, n, t, s, n, t, W), 0);
		CHECK_EQ(MPI_Alltoall(s, n, t, s, n, t, W), 0);
		CHECK_EQ(MPI_Igather(s, n, t, s, n, t, root, W, &q), 0);
		CHECK_EQ(MPI_Wait(&q, MPI_STATUS_IGNORE), 0);
		CHECK_EQ(MPI_Allreduce(s, s, 0, I, MPI_SUM, W), 0);
		CHECK_EQ(MPI_Exscan(s, s, 0, I, MPI_SUM, W), 0);
	}
	MPI_Type_free(&none);
	MPI_Type_free(&empty);
}

static void allowed(void)
{
	int apart[8], sum = 0;

	for (int i = 0; i < 8; i++)
		apart[i] = 8 + i;
	CHECK_EQ(MPI_Bcast(NULL, 0, I, 0, W), 0);
	CHECK_EQ(MPI_Allreduce(NULL, NULL, 0, I, MPI_SUM, W), 0);
	CHECK_EQ(MPI_Allreduce(s, s, 0, I, MPI_SUM, W), 0);
	CHECK_EQ(MPI_Gather(s, 1, I, me ? NULL : r, -1 + 2 * !me, me ? MPI_DATATYPE_NULL : I, 0, W), 0);
	CHECK_EQ(MPI_Scatter(me ? NULL : s, me ? -1 : 1, me ? MPI_DATATYPE_NULL : I, r, 1, I, 0, W), 0);
	CHECK_EQ(MPI_Reduce(s, me ? NULL : r, 1, I, MPI_SUM, 0, W), 0);
	/* one array; the two parts do not overlap */
	s[0] = me + 1;
	CHECK_EQ(MPI_Gatherv(s, 1, I, s, counts, apart, I, 0, W), 0);
	for (int i = 0; i < np && !me; i++)
		CHECK_EQ(s[8 + i], i + 1);
	CHECK_EQ(MPI_Allgatherv(s, 1, I, s, counts, apart, I, W), 0);
	for (int i = 0; i < np; i++)
		sum += s[8 + i];
	CHECK_EQ(sum, np * (np + 1) / 2);
	CHECK_EQ(MPI_Alltoallv(s, counts, displs, I, s, counts, apart, I, W), 0);
	/* send arguments that do not matter */
	CHECK_EQ(MPI_Allgather(MPI_IN_PLACE, -1, MPI_DATATYPE_NULL, s, 1, I, W), 0);
	CHECK_EQ(MPI_Alltoallw(MPI_IN_PLACE, NULL, NULL, NULL, s, counts, bytes_on(), types, W), 0);
}

int main(int argc, char **argv)
{
	test_init(&argc, &argv);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
	MPI_Type_contiguous(2, I, &raw);
	MPI_Type_contiguous(2, I, &huge);
	MPI_Type_commit(&huge);
	MPI_Op_create(product, 1, &own);
	for (int i = 0; i < 8; i++) {
		counts_c[i] = counts[i] = 1;
		displs_c[i] = displs[i] = i;
		bad_counts_c[i] = bad_counts[i] = i == np - 1 ? -3 : 1;
		types[i] = I;
		bad_types[i] = i == np - 1 ? raw : I;
	}
	for (;; forgiving = 1) {
		point_to_point();
		data();
		roots();
		vectors();
		operations();
		in_place_and_aliases();
		if (forgiving)
			break;
		forgive();
	}
	allowed_places();
	allowed();
	nothing_twice();
	one_buffer();
	MPI_Op_free(&own);
	MPI_Type_free(&raw);
	MPI_Type_free(&huge);
	if (!me)
		printf("%d refused\n", n_tried);
	test_done("refused");
	return 0;
}
