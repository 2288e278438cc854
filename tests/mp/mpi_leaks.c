/* SPDX-License-Identifier: BSD-3-Clause */
/* Leaked objects for HEDDLE_REPORT_LEAKS: one of each kind, or with the argument "clean" none. mpi_errors.sh checks the
 * output. */
#include "mpi_test.h"

static void add(void *in, void *inout, int *len, MPI_Datatype *t)
{
	(void)t;
	for (int n = 0; n < *len; n++)
		((int *)inout)[n] += ((int *)in)[n];
}

static void handler(MPI_Comm *on, int *code, ...)
{
	(void)on;
	(void)code;
}

static int query(void *extra, MPI_Status *status)
{
	(void)extra;
	(void)status;
	return MPI_SUCCESS;
}

static int gone(void *extra)
{
	(void)extra;
	return MPI_SUCCESS;
}

static int cancelled(void *extra, int complete)
{
	(void)extra;
	(void)complete;
	return MPI_SUCCESS;
}

static MPI_Comm halo;
static MPI_Group pair;
static MPI_Datatype column, vector[2];
static MPI_Op sum;
static MPI_Info info;
static MPI_Errhandler errh;
static MPI_Request req[4];
static MPI_Message message;
static int key, comm_key, v[4];
static char buffer[1000];

/* Freed by MPI_Finalize's deletion of MPI_COMM_SELF's attributes: no leak. */
static int late(MPI_Comm on, int k, void *value, void *extra)
{
	(void)on;
	(void)k;
	(void)value;
	(void)extra;
	return MPI_Comm_free(&halo);
}

static void make(void)
{
	MPI_Group world;
	int ranks[1] = { 0 };

	MPI_Comm_dup(MPI_COMM_WORLD, &halo);
	MPI_Comm_set_name(halo, "the halo");
	MPI_Comm_group(MPI_COMM_WORLD, &world);
	MPI_Group_incl(world, 1, ranks, &pair);
	MPI_Group_free(&world);
	MPI_Type_contiguous(5, MPI_INT, &column);
	MPI_Type_set_name(column, "a column");
	for (int i = 0; i < 2; i++)
		MPI_Type_vector(2, 1, 3, MPI_INT, &vector[i]);
	MPI_Op_create(add, 1, &sum);
	MPI_Info_create(&info);
	MPI_Info_set(info, "colour", "red");
	MPI_Comm_create_errhandler(handler, &errh);
	MPI_Type_create_keyval(MPI_TYPE_NULL_COPY_FN, MPI_TYPE_NULL_DELETE_FN, &key, NULL);
	MPI_Recv_init(v, 1, MPI_INT, 0, 11, MPI_COMM_WORLD, &req[0]);
	MPI_Grequest_start(query, gone, cancelled, NULL, &req[1]);
	MPI_Irecv(v, 1, MPI_INT, MPI_ANY_SOURCE, 12, halo, &req[2]);
	MPI_Isend(v, 2, MPI_INT, me, 13, MPI_COMM_WORLD, &req[3]);
	MPI_Mprobe(me, 13, MPI_COMM_WORLD, &message, MPI_STATUS_IGNORE);
	MPI_Comm_attach_buffer(halo, buffer, sizeof(buffer));
	for (int i = 0; i < 3; i++)
		MPI_Send(v, 1, MPI_INT, (me + 1) % np, 14, halo);
}

static void unmake(void)
{
	void *p;
	int n;

	for (int i = 0; i < 3; i++)
		MPI_Recv(v, 1, MPI_INT, (me + np - 1) % np, 14, halo, MPI_STATUS_IGNORE);
	MPI_Comm_detach_buffer(halo, &p, &n);
	MPI_Mrecv(v, 2, MPI_INT, &message, MPI_STATUS_IGNORE);
	MPI_Wait(&req[3], MPI_STATUS_IGNORE);
	MPI_Cancel(&req[2]);
	MPI_Wait(&req[2], MPI_STATUS_IGNORE);
	MPI_Grequest_complete(req[1]);
	MPI_Wait(&req[1], MPI_STATUS_IGNORE);
	MPI_Request_free(&req[0]);
	MPI_Type_free_keyval(&key);
	MPI_Errhandler_free(&errh);
	MPI_Info_free(&info);
	MPI_Op_free(&sum);
	MPI_Type_free(&vector[0]);
	MPI_Type_free(&vector[1]);
	MPI_Type_free(&column);
	MPI_Group_free(&pair);
	MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, late, &comm_key, NULL);
	MPI_Comm_set_attr(MPI_COMM_SELF, comm_key, NULL);
	MPI_Comm_free_keyval(&comm_key);
}

int main(int argc, char **argv)
{
	int in = 1, out, world_key;
	MPI_Datatype single;
	MPI_Request r;

	test_init(&argc, &argv);
	/* internal objects of the library are no leak */
	MPI_Allreduce(&in, &out, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	MPI_Ibarrier(MPI_COMM_WORLD, &r);
	MPI_Wait(&r, MPI_STATUS_IGNORE);
	/* and neither is a freed key that an attribute still uses, nor a predefined type, which must not be freed */
	MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &world_key, NULL);
	MPI_Comm_set_attr(MPI_COMM_WORLD, world_key, NULL);
	MPI_Comm_free_keyval(&world_key);
	MPI_Type_create_f90_real(6, MPI_UNDEFINED, &single);
	make();
	if (argc > 1 && !strcmp(argv[1], "clean"))
		unmake();
	test_done("leaks");
	return 0;
}
