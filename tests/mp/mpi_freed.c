/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Objects that are freed while in use: keys of attributes (MPI-5.0 section 7.7.2), datatypes, operations and communicators of
 * pending collectives (5.1.9, 6.9.5, 7.4.3), communicators and error handlers of pending receives (9.3).
 */
#include "mpi_test.h"

static int class_of(int rc)
{
	int class = -1;

	MPI_Error_class(rc, &class);
	return class;
}

/* ---- keys ---------------------------------------------------------------------------------------------- */

static int copies, deletions;

/* Looks the attribute up by the key in the arguments. */
static int copy(MPI_Comm comm, int keyval, void *extra, void *in, void *out, int *flag)
{
	void *value;

	(void)extra;
	CHECK_EQ(MPI_Comm_get_attr(comm, keyval, &value, flag), MPI_SUCCESS);
	CHECK(*flag && value == in);
	*(void **)out = in;
	copies++;
	return MPI_SUCCESS;
}

static int deletion(MPI_Comm comm, int keyval, void *value, void *extra)
{
	(void)comm;
	(void)keyval;
	(void)value;
	(void)extra;
	deletions++;
	return MPI_SUCCESS;
}

/* The key goes with the last attribute: MPI_Comm_delete_attr needs a saved copy of the key, since MPI_Comm_free_keyval resets the
 * variable. */
static void keys(void)
{
	int key, saved, flag;
	MPI_Comm a, b;
	void *value;

	copies = deletions = 0;
	MPI_Comm_dup(MPI_COMM_WORLD, &a);
	MPI_Comm_create_keyval(copy, deletion, &key, NULL);
	MPI_Comm_set_attr(a, key, &copies);
	saved = key;
	CHECK_EQ(MPI_Comm_free_keyval(&key), MPI_SUCCESS);
	CHECK_EQ(key, MPI_KEYVAL_INVALID);
	CHECK_EQ(MPI_Comm_dup(a, &b), MPI_SUCCESS);
	CHECK_EQ(copies, 1);
	CHECK_EQ(MPI_Comm_get_attr(b, saved, &value, &flag), MPI_SUCCESS);
	CHECK(flag && value == &copies);
	CHECK_EQ(MPI_Comm_delete_attr(b, saved), MPI_SUCCESS);
	CHECK_EQ(MPI_Comm_get_attr(b, saved, &value, &flag), MPI_SUCCESS);
	CHECK(!flag);
	CHECK_EQ(MPI_Comm_delete_attr(a, saved), MPI_SUCCESS);
	CHECK_EQ(deletions, 2);
#ifdef HEDDLE_MPI
	CHECK_EQ(class_of(MPI_Comm_get_attr(a, saved, &value, &flag)), MPI_ERR_KEYVAL);
	/* a key that was freed is not freed again, with attributes or without */
	MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, deletion, &key, NULL);
	saved = key;
	MPI_Comm_set_attr(a, key, NULL);
	MPI_Comm_free_keyval(&key);
	key = saved;
	CHECK_EQ(class_of(MPI_Comm_free_keyval(&key)), MPI_ERR_KEYVAL);
	CHECK_EQ(MPI_Comm_get_attr(a, saved, &value, &flag), MPI_SUCCESS);
	CHECK(flag);
#endif
	MPI_Comm_free(&b);
	MPI_Comm_free(&a);
	MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &key, NULL);
	CHECK(key != saved);
	MPI_Comm_free_keyval(&key);
}

/* ---- collectives ---------------------------------------------------------------------------------------- */

/* Sums ints, one in each element; asks the datatype for the distance of elements. */
static void sum(void *in, void *inout, int *len, MPI_Datatype *datatype)
{
	MPI_Aint lb, extent;
	int size;

	CHECK_EQ(MPI_Type_get_extent(*datatype, &lb, &extent), MPI_SUCCESS);
	CHECK_EQ(MPI_Type_size(*datatype, &size), MPI_SUCCESS);
	CHECK_EQ(size, sizeof(int));
	for (int i = 0; i < *len; i++)
		*(int *)((char *)inout + i * extent) += *(int *)((char *)in + i * extent);
}

static void reductions(MPI_Aint extent, int n)
{
	int step = (int)(extent / (MPI_Aint)sizeof(int)), *in = calloc((size_t)(n * step), sizeof(int));
	int *out = calloc((size_t)(n * step), sizeof(int));
	MPI_Datatype type;
	MPI_Request q[2];
	MPI_Comm comm;
	MPI_Op op;

	for (int i = 0; i < n * step; i++)
		in[i] = i + me;
	MPI_Comm_dup(MPI_COMM_WORLD, &comm);
	MPI_Type_create_resized(MPI_INT, 0, extent, &type);
	MPI_Type_commit(&type);
	MPI_Op_create(sum, 1, &op);
	MPI_Iallreduce(in, out, n, type, op, comm, &q[0]);
	MPI_Ibarrier(comm, &q[1]);
	MPI_Op_free(&op);
	MPI_Type_free(&type);
	MPI_Comm_free(&comm);
	CHECK(op == MPI_OP_NULL && type == MPI_DATATYPE_NULL && comm == MPI_COMM_NULL);
	CHECK_EQ(MPI_Waitall(2, q, MPI_STATUSES_IGNORE), MPI_SUCCESS);
	for (int i = 0; i < n * step; i++)
		CHECK_EQ(out[i], i % step ? 0 : np * i + np * (np - 1) / 2);
	free(in);
	free(out);
}

/* ---- error handlers ------------------------------------------------------------------------------------- */

static int errors, size_seen;

static void handler(MPI_Comm *comm, int *code, ...)
{
	errors++;
	CHECK_EQ(class_of(*code), MPI_ERR_TRUNCATE);
	CHECK_EQ(MPI_Comm_size(*comm, &size_seen), MPI_SUCCESS);
#ifdef HEDDLE_MPI
	MPI_Comm again = *comm;

	CHECK_EQ(class_of(MPI_Comm_free(&again)), MPI_ERR_COMM);
#endif
}

/* Section 9.3: an error handler may do anything. */
static void leaver(MPI_Comm *comm, int *code, ...)
{
	MPI_Comm it = *comm;

	(void)code;
	errors++;
	CHECK_EQ(MPI_Comm_disconnect(&it), MPI_SUCCESS);
}

static void left_in_handler(void)
{
	MPI_Errhandler h;
	MPI_Comm comm;
	int data = 0;

	errors = 0;
	MPI_Comm_dup(MPI_COMM_WORLD, &comm);
	MPI_Comm_create_errhandler(leaver, &h);
	MPI_Comm_set_errhandler(comm, h);
	MPI_Errhandler_free(&h);
	CHECK(MPI_Send(&data, 1, MPI_INT, np + 5, 3, comm) != MPI_SUCCESS);
	CHECK_EQ(errors, 1);
}

/* ---- buffered messages ---------------------------------------------------------------------------------- */

/* The communicator's buffer goes with the communicator, when the message in the buffer has left. */
static void buffered(void)
{
	enum { N = 50000 };
	static int in[N], out[N];
	static char space[sizeof(out) + MPI_BSEND_OVERHEAD];
	MPI_Request q;
	MPI_Comm comm;

	MPI_Comm_dup(MPI_COMM_WORLD, &comm);
	MPI_Comm_attach_buffer(comm, space, sizeof(space));
	for (int i = 0; i < N; i++)
		out[i] = me + i;
	MPI_Barrier(MPI_COMM_WORLD);
	CHECK_EQ(MPI_Bsend(out, N, MPI_INT, (me + 1) % np, 5, comm), MPI_SUCCESS);
	MPI_Irecv(in, N, MPI_INT, (me + np - 1) % np, 5, comm, &q);
	MPI_Comm_free(&comm);
	CHECK_EQ(MPI_Wait(&q, MPI_STATUS_IGNORE), MPI_SUCCESS);
	for (int i = 0; i < N; i++)
		CHECK_EQ(in[i], (me + np - 1) % np + i);
	MPI_Barrier(MPI_COMM_WORLD);
}

/* A message that is too long for its receive; the program has freed the communicator and the error handler meanwhile. */
static void truncated(void)
{
	int data[4] = { 0 };
	MPI_Errhandler h;
	MPI_Request q;
	MPI_Comm comm;

	errors = size_seen = 0;
	MPI_Comm_dup(MPI_COMM_WORLD, &comm);
	MPI_Comm_create_errhandler(handler, &h);
	MPI_Comm_set_errhandler(comm, h);
	MPI_Errhandler_free(&h);
	if (me == 0)
		MPI_Irecv(data, 1, MPI_INT, np - 1, 3, comm, &q);
	MPI_Barrier(MPI_COMM_WORLD);
	if (me == np - 1)
		MPI_Send(data, 4, MPI_INT, 0, 3, comm);
	MPI_Comm_free(&comm);
	if (me == 0) {
		CHECK_EQ(class_of(MPI_Wait(&q, MPI_STATUS_IGNORE)), MPI_ERR_TRUNCATE);
		CHECK_EQ(errors, 1);
#ifdef HEDDLE_MPI
		CHECK_EQ(size_seen, np);
#endif
	}
}

int main(int argc, char **argv)
{
	test_init(&argc, &argv);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
	keys();
	for (int n = 1; n <= 5000; n = n * 7 + 1) {
		reductions(sizeof(int), n);
		reductions(3 * sizeof(int), n);
	}
	truncated();
	left_in_handler();
	buffered();
	test_done("freed");
	return 0;
}
